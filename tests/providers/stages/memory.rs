//! What becomes of a long call: what its model knows, and the limits of its connections.

use super::{answered, called, greeted, has_heard, speaks, story};
use crate::providers::{
    desk::Desk,
    kit::{
        stages::{Asked, Stages, Transcriber, model},
        vendor::{Scenario, hertz},
    },
    ms,
    tools::look_up,
};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

const BUDGET: usize = 2_000;
const SUMMARY: &str = "They asked for their parcels.";

/// The model is asked aside for the summary.
fn is_to_sum_up(asked: &Asked) -> bool {
    asked.said_by("system").concat().starts_with("Sum up")
}

/// Ids of the calls that the model is shown, and of the results.
fn pairs(asked: &Asked) -> (BTreeSet<String>, BTreeSet<String>) {
    let messages = asked.body["messages"].as_array().into_iter().flatten();
    let calls = messages.flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
    let ids = calls.map(|call| call["id"].as_str().unwrap_or_default().to_owned()).collect();
    (ids, asked.results().into_iter().map(|(id, _)| id).collect())
}

/// Three turns are more than the model is shown; each of them calls a tool. The oldest give way to a summary, each with
/// its call and its result, and nobody hears anything of that.
pub async fn a_long_call_is_carried_on_by_a_summary_of_its_beginning_and_the_words_of_its_end() {
    let caller_words = &*"Where is my parcel? ".repeat(BUDGET / 3 / 20).leak();
    let stages = Stages::of(Scenario { caller_words, ..Scenario::default() }).await;
    stages.model.answers(move |asked| match () {
        () if is_to_sum_up(asked) => model::says(SUMMARY),
        () if asked.answers_results() => model::says("It is on its way."),
        () => model::calls(&[look_up(asked.number)]),
    });
    let desk = Desk::of_stages_with(&stages, &format!("context_chars: {BUDGET}"), "").await;
    let caller = called(&desk).await;
    for _ in 1..=3 {
        answered(&caller, hertz(1), ms(900)).await;
        caller.hears_nothing_for(ms(300)).await;
    }
    let asked = stages.model.until("it is asked to sum up", |asked| asked.iter().any(is_to_sum_up)).await;
    let about = asked.into_iter().find(is_to_sum_up).expect("waited for").said_by("user").concat();
    assert!(about.starts_with("Agent: Hello there.\nCaller: Where is my parcel?"), "{about}");
    assert_eq!((about.matches("[look_up").count(), about.matches("Result: ").count()), (2, 2), "{about}");
    answered(&caller, hertz(1), ms(900)).await;
    let asked = stages.model.asked().into_iter().rev().find(|asked| !is_to_sum_up(asked)).expect("an answer");
    let shown = asked.body["messages"].to_string();
    assert!(asked.said_by("system").concat().contains(SUMMARY), "{shown}");
    // Of the first three turns one is left, beside the one that is answered.
    assert_eq!(asked.turns(), 2, "{shown}");
    let (calls, results) = pairs(&asked);
    assert_eq!((&calls, calls.len()), (&results, 2), "{shown}");
    assert!(shown.len() < 3 * BUDGET, "{} bytes", shown.len());
    let spoken: Vec<String> = stages.voice.asked().iter().map(|asked| asked.text().to_owned()).collect();
    let expected: Vec<&str> = ["Hello there."].into_iter().chain(["It is on its way."; 4]).collect();
    assert_eq!(spoken, expected, "nobody hears the summary: {}", story(&caller));
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// What a listener's connection lasts here, and when another one is made if nobody speaks.
const LIMIT: Duration = ms(15_000);
const MADE_ANEW: Duration = ms(13_750);

/// The caller speaks when it is time: another connection is made after the turn, and nobody notices.
pub async fn a_session_is_replaced_in_a_pause_before_the_vendors_limit() {
    let stages = Stages::listening::<Transcriber>(Scenario::default()).await;
    let stages = stages.heard_with(json!({ "session_seconds": LIMIT.as_secs() }));
    let (desk, caller) = greeted(&stages).await;
    let speaks_at = MADE_ANEW - ms(1_200);
    caller.until("it is nearly time", |tape| tape.now() >= speaks_at).await;
    let said = speaks(&caller).await;
    assert!((said.start..said.end).contains(&MADE_ANEW), "in the middle of the turn: {}", story(&caller));
    assert_eq!(stages.listener.sessions(), 1, "not while the caller speaks");
    stages.listener.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
    stages.listener.until_session(1, "is let go", |seen| seen.over).await;
    assert!(caller.now() < LIMIT, "too late: {}", story(&caller));
    has_heard("the first connection", &stages.listener, 1, &caller);
    caller.hears_from(said.end, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let answer = caller.look(|tape| tape.seamless(hertz(1), said.end..tape.now()));
    assert!((ms(1_000)..=ms(1_020)).contains(&answer), "{answer:?}: {}", story(&caller));
    answered(&caller, hertz(1), ms(700)).await;
    has_heard("the next connection", &stages.listener, 2, &caller);
    assert_eq!((stages.model.times(), stages.listener.sessions()), (2, 2));
    for outcome in ["unreachable", "refused", "slow", "closed", "garbage"] {
        assert_eq!(desk.asked_of("stt", outcome), 0.0, "nothing failed: {outcome}");
    }
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}
