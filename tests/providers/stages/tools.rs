//! What the model of a pipeline asks of its tools, and what it gets.

use super::{
    answered, called,
    faults::{DEPUTY, calls_once, deputy, no_apology},
    greeted, speaks, story,
};
use crate::providers::{
    desk::{Desk, pipeline},
    faults::is_explained,
    kit::{
        stages::{Asked, Flux, Reply, Stages, Transcriber, model},
        vendor::{Call, Dialect, Order, Saying, Scenario, hertz},
    },
    ms,
    tools::{desk_of_long_results, is_cut, look_up, read_out},
};
use futures_util::future::join_all;

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

/// What a model of the chat protocol is told of a result, in bytes.
const RESULT_MAX: usize = 16_384;

pub async fn a_result_that_is_too_long_is_cut_to_what_the_vendor_bears() {
    let stages = Stages::start().await;
    stages.model.answers(calls(vec![read_out()]));
    let one: &[&str] = &["one"];
    let sections = Stages::sections(&[("one", &stages)]);
    let desk = desk_of_long_results(&[("first", pipeline(one, one, one))], &sections).await;
    let caller = called(&desk).await;
    answered(&caller, hertz(1), ms(700)).await;
    is_cut(&stages.model.is_asked(2).await.results()[0].1, RESULT_MAX);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// The question that carries a result to the model fails: in passing, and for good, when another pipeline takes the call.
/// What the tool found is not lost, and it is not run again.
pub async fn a_session_closed_right_after_a_result() {
    let faults =
        [("closes", Reply::breaks(), false), ("is refused for good", Reply::refuses(402, "insufficient_quota"), true)];
    join_all(faults.map(|(what, fault, for_good)| async move {
        let (stages, deputy) = (Stages::start().await, deputy().await);
        stages.model.answers(move |asked| match (asked.results().len(), asked.number) {
            (0, _) => calls_once(asked),
            (_, 2) => fault.clone(),
            _ => model::says("There it is."),
        });
        let desk = Desk::of_pipelines(&[("first", &stages), ("second", &deputy)], "fallbacks: [second]").await;
        let caller = called(&desk).await;
        let said = speaks(&caller).await;
        let (next, hz) = if for_good { (&deputy, hertz(1 + DEPUTY)) } else { (&stages, hertz(1)) };
        caller.hears_from(said.end, hz, ms(700)).await;
        let begun = caller.look(|tape| tape.first_of(hz, said.end)).expect("waited for");
        is_explained(what, &caller, said.end..begun);
        no_apology(what, &caller);
        let told = next.model.asked().pop().map(|asked| asked.body["messages"].to_string()).unwrap_or_default();
        for words in ["When are you open, please?", "on its way"] {
            assert!(told.contains(words), "{what}: {words}: {told}");
        }
        assert_eq!(desk.service.requests().len(), 1, "{what}: it was run once");
        assert_eq!((stages.model.times(), deputy.model.times()), if for_good { (2, 1) } else { (3, 0) }, "{what}");
        assert_eq!(desk.recoveries("took_over", "second"), f64::from(u8::from(for_good)), "{what}");
        desk.ends_with(&caller).await;
        stages.listener.is_content();
        deputy.listener.is_content();
    }))
    .await;
}

/// A model that calls by the same id again, and one whose answer holds an event of no known kind; a listener that writes
/// down what nobody said, for an item or a turn that nobody has.
pub async fn unknown_and_doubled_ids_are_survived() {
    tokio::join!(ids::<Flux>("Flux"), ids::<Transcriber>("OpenAI's transcriber"));
}

async fn ids<L: Dialect>(what: &str) {
    let stages = Stages::listening::<L>(Scenario::default()).await;
    stages.model.answers(|asked| {
        let strange = model::event(&serde_json::json!({ "object": "hologram", "id": "nobody's" }));
        match asked.answers_results() {
            false => {
                let call = look_up(1);
                let arguments = call.arguments.to_string();
                model::stream(vec![strange, model::fragment(0, Some(&call), &arguments)], "tool_calls")
            }
            true => model::says("There it is."),
        }
    });
    let (desk, caller) = greeted(&stages).await;
    let strange = || {
        let words = Saying::CallerWords { utterance: 80, text: "Whose words?".into() };
        stages.listener.order(1, Order::Say(words));
    };
    strange();
    caller.hears_nothing_for(ms(600)).await;
    assert_eq!(stages.model.times(), 0, "{what}: nobody has spoken");
    answered(&caller, hertz(1), ms(400)).await;
    strange();
    caller.hears_nothing_for(ms(300)).await;
    answered(&caller, hertz(1), ms(700)).await;
    assert_eq!(desk.service.requests().len(), 1, "{what}: it was run once");
    let last = stages.model.is_asked(4).await;
    let results = last.results();
    assert!(results[1].1.contains("on its way") && results[1].1.contains("replayed"), "{what}: {results:?}");
    let told = last.body["messages"].to_string();
    assert!(!told.contains("Whose words?") && last.turns() == 2, "{what}: {told}");
    desk.ends_with(&caller).await;
    assert_eq!(stages.listener.sessions(), 1, "{what}");
    stages.listener.is_content();
}
