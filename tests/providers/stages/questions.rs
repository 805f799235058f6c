//! Questions whether a tool may run, put by the engine beside a pipeline, whose voice is another.

use super::{called, faults::deputy, speaks};
use crate::providers::{
    desk::{Desk, Setting, pipeline},
    ear::Caller,
    kit::{
        audio::samples_of,
        stages::{Asked, Reply, Stages, model},
        vendor::{Scenario, hertz},
    },
    ms,
    questions::{
        NO, QUESTION, RULES, YES, book, hears_question, question_begins, talks_into_question, times_heard, token_in,
    },
    stages::faults::DEPUTY,
};
use std::time::Duration;

/// Books, with the token once it has one, and says so when it is done.
fn books(asked: &Asked) -> Reply {
    let results = asked.results();
    match results.last() {
        Some((_, told)) if told.contains("It is booked.") => model::says("There it is."),
        told => model::calls(&[book(1 + results.len(), told.and_then(|(_, told)| token_in(told)))]),
    }
}

/// The model of a caller who always says `words` has called the tool; since when.
async fn asked(stages: &Stages, deputy: Option<&Stages>) -> (Desk, Caller, Duration) {
    stages.model.answers(books);
    let mut named = vec![("first", stages)];
    named.extend(deputy.map(|deputy| ("second", deputy)));
    let providers: Vec<_> = named.iter().map(|(name, _)| (*name, pipeline(&[name], &[name], &[name]))).collect();
    let (sections, more) =
        (Stages::sections(&named) + RULES, if deputy.is_some() { "fallbacks: [second]" } else { "" });
    let setting = Setting { more, tools: ", book", sections: &sections, ..Setting::default() };
    let desk = Desk::open(&providers, setting).await;
    let caller = called(&desk).await;
    let since = speaks(&caller).await.end;
    (desk, caller, since)
}

async fn of_a_caller_who_says(words: &'static str) -> Stages {
    Stages::of(Scenario { caller_words: words, ..Scenario::default() }).await
}

pub async fn a_question_before_a_tool_is_heard_word_for_word_and_a_yes_runs_it_once() {
    let stages = of_a_caller_who_says(YES).await;
    let (desk, caller, since) = asked(&stages, None).await;
    question_begins(&caller, since).await;
    let heard = stages.listener.of(1, |seen| seen.audio.len());
    hears_question(&caller, since).await;
    let (audio, hears) =
        stages.listener.of(1, |seen| (seen.audio[heard..].to_vec(), seen.set_up.clone().expect("it is ready").hears));
    assert!(samples_of(&audio, hears).iter().all(|sample| sample.unsigned_abs() < 100), "nobody listens to it");
    assert!(desk.service.requests().is_empty(), "nobody has said yes");
    let said = speaks(&caller).await;
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    let told = stages.model.asked().pop().expect("asked").results();
    assert!(told[0].1.contains(QUESTION) && told[0].1.contains("Say nothing yourself"), "{told:?}");
    assert!(told[1].1.contains("It is booked."), "{told:?}");
    assert_eq!((desk.service.requests().len(), times_heard(&caller)), (1, 1));
    assert_eq!(desk.metric("offhook_sentences_total{purpose=\"question\"}"), 1.0);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// A model that calls all the same makes the caller be asked once more, and nothing run.
pub async fn a_no_to_a_question_before_a_tool_runs_nothing() {
    let stages = of_a_caller_who_says(NO).await;
    let (desk, caller, since) = asked(&stages, None).await;
    hears_question(&caller, since).await;
    let said = speaks(&caller).await;
    hears_question(&caller, said.end).await;
    assert_eq!((desk.service.requests().len(), times_heard(&caller)), (0, 2));
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// It was said before the caller can have known to what: they are asked again, and then it counts.
pub async fn a_yes_into_a_question_before_a_tool_does_not_count() {
    let stages = of_a_caller_who_says(YES).await;
    let (desk, caller, since) = asked(&stages, None).await;
    let said = talks_into_question(&caller, since).await;
    assert_eq!(times_heard(&caller), 0, "it is cut off");
    hears_question(&caller, said.end).await;
    assert!(desk.service.requests().is_empty(), "a yes to nothing");
    let told = stages.model.asked().pop().expect("asked").body["messages"].to_string();
    assert!(told.contains("has not heard the question"), "{told}");
    let said = speaks(&caller).await;
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    assert_eq!((desk.service.requests().len(), times_heard(&caller)), (1, 1));
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// The model is gone when the caller has answered; the next one knows of the question, and asks nobody again.
pub async fn a_yes_to_a_question_counts_though_its_agent_is_lost() {
    let (stages, deputy) = (of_a_caller_who_says(YES).await, deputy().await);
    deputy.model.answers(books);
    let (desk, caller, since) = asked(&stages, Some(&deputy)).await;
    hears_question(&caller, since).await;
    stages.model.answers(|_| Reply::refuses(402, "insufficient_quota"));
    let said = speaks(&caller).await;
    caller.hears_from(said.end, hertz(1 + DEPUTY), ms(700)).await;
    let told = deputy.model.asked().pop().expect("asked");
    assert!(told.said_by("system").concat().contains(QUESTION), "{told:#?}");
    assert!(told.results()[0].1.contains("has said yes"), "{told:#?}");
    assert_eq!((desk.service.requests().len(), times_heard(&caller)), (1, 1));
    assert_eq!(desk.recoveries("took_over", "second"), 1.0);
    desk.ends_with(&caller).await;
    deputy.listener.is_content();
}
