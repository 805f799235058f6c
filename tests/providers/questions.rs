//! Questions whether a tool may run, made of its arguments, which the engine puts itself.

use crate::providers::{
    desk::{Desk, Setting},
    ear::{Caller, Tape, audible_frames},
    failover::{converse, is_told},
    kit::{
        audio::{Sound, built_in_voice, samples_of},
        vendor::{Call, Dialect, Order, Scenario, Vendor, hertz},
    },
    ms,
    openings::CODES,
};
use futures_util::future::join_all;
use offhook::audio::Format;
use serde_json::json;
use std::{ops::Range, sync::LazyLock, time::Duration};

pub const QUESTION: &str = "Shall I book the table for 2?";
pub const RULES: &str = "tools: { book: { confirm: \"Shall I book the table for {guests}?\" } }\n";
pub const YES: &str = "Yes, please.";
pub const NO: &str = "No, thank you.";

pub fn book(number: usize, token: Option<&str>) -> Call {
    let mut arguments = json!({ "guests": 2 });
    arguments
        .as_object_mut()
        .expect("an object")
        .extend(token.map(|token| ("confirmationToken".to_owned(), token.into())));
    Call { id: format!("book_{number:016}"), name: "book".into(), arguments }
}

/// The token in what the model was told.
pub fn token_in(result: &str) -> Option<&str> {
    let (_, rest) = result.split_once("\"token\":\"")?;
    rest.split('"').next()
}

/// The question as it is heard on this line.
fn clip() -> &'static [Sound] {
    static CLIP: LazyLock<Vec<Sound>> =
        LazyLock::new(|| audible_frames(&Sound { samples: built_in_voice(QUESTION, Format::SLIN8) }));
    &CLIP
}

/// How often the whole question was heard.
pub fn times_heard(caller: &Caller) -> usize {
    let clip = clip();
    caller.look(|tape| tape.places_of(clip).len())
}

/// Waits until the question was heard from then on, to the very sample, and nothing else.
pub async fn hears_question(caller: &Caller, from: Duration) {
    let clip = clip();
    let last = |tape: &Tape| tape.places_of(clip).pop().filter(|place| place.start >= from);
    caller.until("the question was heard", |tape| last(tape).is_some()).await;
    caller.hears_nothing_for(ms(500)).await;
    let (place, before, after, story) = caller.look(|tape| {
        let place = last(tape).expect("waited for");
        let other = |within| tape.loud_time(within);
        (place.clone(), other(from..place.start), other(place.end..tape.now()), format!("{tape:?}"))
    });
    assert_eq!((before, after), (ms(0), ms(0)), "nothing but the question, at {place:?}: {story}");
}

pub async fn question_begins(caller: &Caller, from: Duration) {
    caller.until("the question is begun", |tape| tape.loud_time(from..tape.now()) >= ms(100)).await;
}

/// The caller speaks into the first half of the question.
pub async fn talks_into_question(caller: &Caller, from: Duration) -> Range<Duration> {
    question_begins(caller, from).await;
    caller.says("Yes please, do so at once.").await;
    caller.until("they speak", |tape| tape.said.last().is_some_and(|said| said.start >= from)).await;
    caller.has_spoken().await
}

/// The agent of a caller who always says `words` has called the tool: until then.
async fn asked<D: Dialect>(words: &'static str) -> (Vendor, Desk, Caller, Duration) {
    // What the agent says beside the question is the question: it must count for nothing.
    let scenario = Scenario { caller_words: words, agent_words: QUESTION, ..Scenario::default() };
    let vendor = Vendor::start::<D>(scenario).await;
    let setting = Setting { tools: ", book", sections: RULES, ..Setting::default() };
    let desk = Desk::open(&[("first", vendor.yaml())], setting).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    converse(&caller, hertz(1)).await;
    caller.hears_nothing_for(ms(300)).await;
    let since = caller.now();
    vendor.order(1, Order::Call(vec![book(1, None)]));
    (vendor, desk, caller, since)
}

/// The vendor's agent calls again with what it was told.
async fn calls_again(vendor: &Vendor, session: usize, number: usize) {
    vendor.until_session(session, "has a result", |seen| !seen.results.is_empty()).await;
    let token = vendor.of(session, |seen| seen.results.last().and_then(|(_, told)| token_in(told).map(str::to_owned)));
    vendor.order(session, Order::Call(vec![book(number, Some(&token.expect("a token")))]));
}

/// The caller says something into the silence after a question, and is answered.
async fn says(caller: &Caller, hz: f64) {
    let since = caller.now();
    caller.speaks().await;
    caller.until("they speak", |tape| tape.said.last().is_some_and(|said| said.start >= since)).await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hz, ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
}

pub async fn a_question_before_a_tool_is_heard_word_for_word_and_a_yes_runs_it_once<D: Dialect>() {
    let (vendor, desk, caller, since) = asked::<D>(YES).await;
    let heard = vendor.of(1, |seen| seen.audio.len());
    if D::ANSWERS_RESULTS {
        vendor.until_session(1, "says something of its own", |seen| seen.answered == 3).await;
    }
    hears_question(&caller, since).await;
    let stale = desk.metric("offhook_frames_dropped_total{reason=\"stale_response\"}");
    assert_eq!(stale >= 50.0, D::ANSWERS_RESULTS, "{stale} frames of what the vendor said beside it");
    let (audio, hears) =
        vendor.of(1, |seen| (seen.audio[heard..].to_vec(), seen.set_up.clone().expect("it is ready").hears));
    assert!(samples_of(&audio, hears).iter().all(|sample| sample.unsigned_abs() < 100), "the agent does not hear it");
    assert!(desk.service.requests().is_empty(), "nobody has said yes");
    says(&caller, hertz(1)).await;
    vendor.until_session(1, "is told what was said", is_told(QUESTION)).await;
    assert!(vendor.of(1, |seen| seen.results[0].1.contains("Say nothing yourself")));
    let again = caller.now();
    calls_again(&vendor, 1, 2).await;
    vendor
        .until_session(1, "has the result", |seen| seen.results.iter().any(|(_, told)| told.contains("It is booked.")))
        .await;
    caller.hears_from(again, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    assert_eq!((desk.service.requests().len(), times_heard(&caller)), (1, 1));
    assert_eq!(desk.metric("offhook_sentences_total{purpose=\"question\"}"), 1.0);
    desk.ends_with(&caller).await;
    assert_eq!(vendor.sessions(), 1);
    vendor.is_content();
}

/// A model that calls all the same makes the caller be asked once more, and nothing run.
pub async fn a_no_to_a_question_before_a_tool_runs_nothing<D: Dialect>() {
    let (vendor, desk, caller, since) = asked::<D>(NO).await;
    hears_question(&caller, since).await;
    says(&caller, hertz(1)).await;
    let again = caller.now();
    calls_again(&vendor, 1, 2).await;
    hears_question(&caller, again).await;
    says(&caller, hertz(1)).await;
    let refused = |told: &str| told.contains("CONFIRMATION_REQUIRED");
    vendor
        .until_session(1, "has both results", |seen| seen.results.iter().filter(|(_, told)| refused(told)).count() == 2)
        .await;
    assert_eq!((desk.service.requests().len(), times_heard(&caller)), (0, 2));
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// It was said before the caller can have known to what: they are asked again, and then it counts.
pub async fn a_yes_into_a_question_before_a_tool_does_not_count<D: Dialect>() {
    let (vendor, desk, caller, since) = asked::<D>(YES).await;
    let said = talks_into_question(&caller, since).await;
    assert_eq!(times_heard(&caller), 0, "it is cut off");
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    vendor.until_session(1, "is told so", is_told("has not heard the question")).await;
    let again = caller.now();
    calls_again(&vendor, 1, 2).await;
    hears_question(&caller, again).await;
    assert!(desk.service.requests().is_empty(), "a yes to nothing");
    says(&caller, hertz(1)).await;
    vendor.until_session(1, "has both results", |seen| seen.results.len() == 2).await;
    calls_again(&vendor, 1, 3).await;
    desk.service.wait_requests(1).await;
    vendor.until_session(1, "has the result", |seen| seen.results.len() == 3).await;
    assert_eq!((desk.service.requests().len(), times_heard(&caller)), (1, 1));
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// The question is heard to its end; the next agent knows of it, and who has answered is not asked again.
pub async fn a_yes_to_a_question_counts_though_its_agent_is_lost<D: Dialect>() {
    let orders = CODES.map(|code| Order::Close(code, "")).into_iter().chain([Order::Drop]);
    join_all(orders.map(counts_though_lost::<D>)).await;
}

async fn counts_though_lost<D: Dialect>(order: Order) {
    let (vendor, desk, caller, since) = asked::<D>(YES).await;
    question_begins(&caller, since).await;
    vendor.order(1, order);
    hears_question(&caller, since).await;
    vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
    vendor.until_session(2, "knows of the question", is_told(QUESTION)).await;
    assert_eq!(desk.recoveries("took_over", "first"), 1.0);
    says(&caller, hertz(2)).await;
    vendor.order(2, Order::Call(vec![book(2, None)]));
    let knows = |told: &str| told.contains("has said yes");
    vendor.until_session(2, "is told of the yes", |seen| seen.results.iter().any(|(_, told)| knows(told))).await;
    calls_again(&vendor, 2, 3).await;
    desk.service.wait_requests(1).await;
    vendor.until_session(2, "has the result", |seen| seen.results.len() == 2).await;
    assert_eq!((desk.service.requests().len(), times_heard(&caller)), (1, 1));
    desk.ends_with(&caller).await;
    vendor.is_content();
}
