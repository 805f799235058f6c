//! What a caller hears of a pipeline when all goes well.

use super::{answered, greeted, speaks, story};
use crate::{
    desk::Desk,
    ms,
    support::{
        stages::{Stages, model, voice},
        vendor::{Scenario, hertz},
    },
};

/// From the caller's first sound until that must have been heeded, on a busy machine.
const SETTLED: std::time::Duration = ms(1_000);

pub async fn the_greeting_is_heard_as_long_as_it_is() {
    let stages = Stages::of(Scenario::answers(ms(1_500))).await;
    let desk = Desk::of_stages(&stages).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(1_300)).await;
    caller.hears_nothing_for(ms(400)).await;
    let length = caller.look(|tape| tape.time_of(hertz(1), ms(0)));
    assert!((ms(1_400)..=ms(1_540)).contains(&length), "{length:?}: {}", story(&caller));
    desk.ends_with(&caller).await;
    let asked: Vec<String> = stages.voice.asked().iter().map(|asked| asked.text().to_owned()).collect();
    assert_eq!(asked, ["Hello there."], "word for word, and no model was asked");
    assert_eq!(stages.model.times(), 0);
    stages.listener.until_session(1, "is over", |seen| seen.over).await;
    stages.listener.is_content();
}

pub async fn the_caller_is_answered() {
    let stages = Stages::start().await;
    let (desk, caller) = greeted(&stages).await;
    answered(&caller, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(400)).await;
    let asked = stages.model.asked();
    assert_eq!(asked.len(), 1, "it was asked once, whatever was guessed: {asked:#?}");
    assert_eq!(asked[0].said_by("user").last().unwrap(), "When are you open, please?");
    assert_eq!(asked[0].said_by("assistant"), ["Hello there."]);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// The voice goes on making sound for an answer that nobody wants any more, until it is let go.
pub async fn an_interruption_stops_the_agent_and_late_audio_is_not_heard() {
    let stages = Stages::start().await;
    stages.voice.answers(|asked| voice::speaks_slowly(asked, hertz(asked.number), ms(4_000)));
    let desk = Desk::of_stages(&stages).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.speaks().await;
    caller.until("the caller speaks", |tape| !tape.said.is_empty()).await;
    let interrupted = caller.look(|tape| tape.said[0].start) + SETTLED;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(2), ms(3_400)).await;
    let late = caller.look(|tape| tape.time_of(hertz(1), interrupted));
    assert_eq!(late, ms(0), "{}", story(&caller));
    assert!(stages.voice.asked()[0].gone, "the voice was let go in the middle of its clause");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// A model has no memory: it is told as much of its own words as was heard.
pub async fn the_vendor_is_told_how_much_was_heard() {
    let stages = Stages::start().await;
    stages.model.answers(|_| model::says("One is here. Two is there. Three is far away."));
    stages.voice.answers(|asked| voice::speaks(asked, hertz(1), ms(1_200)));
    let (desk, caller) = greeted(&stages).await;
    answered(&caller, hertz(1), ms(1_700)).await;
    speaks(&caller).await;
    let asked = stages.model.is_asked(2).await;
    let heard = asked.said_by("assistant");
    assert!(heard[1].starts_with("One is here.") && !heard[1].contains("Three"), "{heard:?}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}
