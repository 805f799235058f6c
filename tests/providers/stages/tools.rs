//! What the model of a pipeline asks of its tools, and what it gets.

use super::{answered, greeted, story};
use crate::{
    ms,
    support::{
        stages::{Asked, Reply, Stages, model},
        vendor::{Call, hertz},
    },
    tools::look_up,
};

/// Calls these, and says something once there are results.
fn calls(calls: Vec<Call>) -> impl Fn(&Asked) -> Reply {
    move |asked| if asked.results().is_empty() { model::calls(&calls) } else { model::says("There it is.") }
}

pub async fn a_tool_is_called_and_its_result_returned_once() {
    let stages = Stages::start().await;
    stages.model.answers(calls(vec![look_up(1)]));
    let (desk, caller) = greeted(&stages).await;
    answered(&caller, hertz(1), ms(700)).await;
    let results = stages.model.is_asked(2).await.results();
    assert_eq!(results.len(), 1, "{results:?}");
    assert_eq!(results[0].0, look_up(1).id);
    assert!(results[0].1.contains("on its way"), "{results:?}");
    assert_eq!(desk.service.requests().len(), 1);
    assert_eq!(stages.model.times(), 2);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn parallel_calls_are_each_answered_once() {
    let stages = Stages::start().await;
    stages.model.answers(calls(vec![look_up(1), look_up(2)]));
    let (desk, caller) = greeted(&stages).await;
    desk.service.holds(true);
    caller.speaks().await;
    let requests = desk.service.wait_requests(2).await;
    assert_eq!(requests.len(), 2, "both at the same time");
    let said = caller.has_spoken().await;
    desk.service.holds(false);
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    let answer = caller.look(|tape| tape.time_of(hertz(1), said.end));
    assert!(answer <= ms(1_040), "one answer to both: {}", story(&caller));
    let mut ids: Vec<String> = stages.model.is_asked(2).await.results().into_iter().map(|(id, _)| id).collect();
    ids.sort();
    assert_eq!(ids, [look_up(1).id, look_up(2).id]);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// A model that calls by the same id again, and one whose answer holds an event of no known kind.
pub async fn unknown_and_doubled_ids_are_survived() {
    let stages = Stages::start().await;
    stages.model.answers(|asked| {
        let strange = model::event(&serde_json::json!({ "object": "hologram", "id": "nobody's" }));
        match asked.results().len() {
            0 | 1 if asked.said_by("user").len() > asked.results().len() => {
                let call = look_up(1);
                let arguments = call.arguments.to_string();
                model::stream(vec![strange, model::fragment(0, Some(&call), &arguments)], "tool_calls")
            }
            _ => model::says("There it is."),
        }
    });
    let (desk, caller) = greeted(&stages).await;
    answered(&caller, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    answered(&caller, hertz(1), ms(700)).await;
    assert_eq!(desk.service.requests().len(), 1, "it was run once");
    let results = stages.model.is_asked(4).await.results();
    assert!(results[1].1.contains("on its way") && results[1].1.contains("replayed"), "{results:?}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}
