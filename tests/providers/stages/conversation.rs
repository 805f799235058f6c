//! What a caller hears of a pipeline when all goes well.

use super::{answered, greeted, sound, story};
use crate::providers::{
    desk::Desk,
    kit::{
        stage::Stage,
        stages::{Asked, Bit, Stages, VOICES, model, voice},
        vendor::{Scenario, hertz},
    },
    ms,
    sessions::CALLER_HZ,
    turns::{QUESTION, SILENCED_WITHIN},
};
use futures_util::future::join_all;
use offhook::{
    audio::Format,
    call::{AgentCommand, AgentEvent, ItemId, ResponseId},
};
use std::time::Duration;
use tokio::time::Instant;

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
    let goodbye = |text: &String| text.contains("CloseStream");
    assert!(stages.listener.of(1, |seen| seen.texts.last().is_some_and(goodbye)), "it was told that the call is over");
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
    caller.says(QUESTION).await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(2), ms(3_400)).await;
    caller.hears_nothing_for(ms(400)).await;
    let late = caller.look(|tape| tape.time_of(hertz(1), said.start + SILENCED_WITHIN));
    assert_eq!(late, ms(0), "{}", story(&caller));
    let answer = caller.look(|tape| tape.time_of(hertz(2), said.end));
    assert!((ms(3_900)..=ms(4_040)).contains(&answer), "{answer:?}: {}", story(&caller));
    let gone: Vec<bool> = stages.voice.asked().iter().map(|asked| asked.gone).collect();
    assert_eq!(gone, [true, false], "the voice was let go in the middle of its first clause");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// Each voice makes sound of the old answer while the new one is heard, until it finds that nobody listens.
pub async fn late_audio_within_the_next_answer_is_not_heard() {
    join_all(VOICES.map(|speaks| async move {
        let stages = Stages::speaking(speaks).await;
        // The greeting, the answer that is interrupted, and the next one.
        stages.voice.answers(|asked| match asked.number {
            2 => voice::speaks_slowly(asked, hertz(2), ms(6_000)),
            number => voice::speaks(asked, hertz(number), ms(1_000)),
        });
        let (desk, caller) = greeted(&stages).await;
        answered(&caller, hertz(2), ms(400)).await;
        caller.says(QUESTION).await;
        let said = caller.has_spoken().await;
        assert!(caller.now() < said.start + ms(4_000), "{speaks}: the first answer would still be made");
        caller.hears_from(said.end, hertz(3), ms(900)).await;
        caller.hears_nothing_for(ms(700)).await;
        let late = caller.look(|tape| tape.time_of(hertz(2), said.start + SILENCED_WITHIN));
        let next = caller.look(|tape| tape.seamless(hertz(3), said.end..tape.now()));
        assert!(late.is_zero() && (ms(1_000)..=ms(1_040)).contains(&next), "{speaks}: {next:?}: {}", story(&caller));
        assert!(stages.voice.asked()[1].gone, "{speaks}: the voice of the old answer is let go");
        desk.ends_with(&caller).await;
        stages.listener.is_content();
    }))
    .await;
}

/// Spoken evenly, a word in 200 ms.
const COUNT: &str = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen.";
const WORD: Duration = ms(200);

/// A model has no memory: it is told as much of its own words as was heard.
pub async fn the_vendor_is_told_how_much_was_heard() {
    let stages = Stages::start().await;
    stages.model.answers(|_| model::says(COUNT));
    // The greeting has two.
    stages.voice.answers(|asked| voice::speaks(asked, hertz(1), WORD * asked.text().split(' ').count().max(5) as u32));
    let (desk, caller) = greeted(&stages).await;
    let said = answered(&caller, hertz(1), ms(1_100)).await;
    caller.says(QUESTION).await;
    caller.until("the caller speaks", |tape| tape.said.len() > 1).await;
    caller.has_spoken().await;
    let asked = stages.model.is_asked(2).await;
    let told = asked.said_by("assistant").pop().unwrap_or_default();
    let words = told.trim_end_matches([' ', '…']);
    assert!(COUNT.starts_with(words) && told.ends_with('…'), "{:#}", asked.body["messages"]);
    let heard = caller.look(|tape| tape.loud_time(said.end..tape.said[1].start + SILENCED_WITHIN));
    let told = WORD * words.split(' ').count() as u32;
    // Of the word in which the agent was stopped nothing counts; the line has 20 ms on either side.
    let right = told <= heard + ms(60) && heard <= told + WORD + ms(60);
    assert!(right, "heard {heard:?}, told {words}: {}", story(&caller));
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// One frame of the caller's track.
const FRAME: Duration = ms(20);

/// Both are at work when the caller interrupts. They are let go within a frame, nothing of either is heard any more, and
/// the next question tells the model what of its words was heard.
pub async fn an_interruption_ends_model_and_voice_within_a_frame_and_leaves_what_was_heard() {
    const LEG: Format = Format::ULAW;
    let stages = Stages::start().await;
    stages.model.answers(|_| {
        let mut endless = model::says(&"One two three four five six. ".repeat(20));
        endless.bits = endless.bits.into_iter().flat_map(|bit| [bit, Bit::Wait(ms(50))]).collect();
        endless
    });
    // A word in 500 ms, and no end of the clause.
    stages.voice.answers(|asked| voice::breaks_off(asked, hertz(1), ms(3_000), Bit::Stall));
    let mut stage = sound::stage(&stages, LEG);
    stage.is_ready().await;
    let mut took = Vec::new();
    for turn in 1..=5 {
        sound::says(CALLER_HZ, &stage, LEG).await;
        let (response, item) = has_spoken(&mut stage, LEG.frame_bytes() * 149).await;
        let since = Instant::now();
        stage.tell(AgentCommand::Interrupt { response, item, heard: ms(1_000), cancel: true }).await;
        let gone = |asked: &[Asked]| asked.iter().all(|asked| asked.gone);
        stages.model.until("the model is let go", gone).await;
        stages.voice.until("the voice is let go", gone).await;
        took.push(since.elapsed());
        loop {
            match stage.next().await {
                AgentEvent::ResponseDone { .. } => break,
                event => assert!(!matches!(event, AgentEvent::Audio { .. }), "turn {turn}: nothing more is heard"),
            }
        }
        assert_eq!(stages.model.times(), turn);
        let told = stages.model.asked()[turn - 1].said_by("assistant");
        assert_eq!(told, vec!["One two …"; turn - 1], "what was heard of each answer before");
    }
    took.sort();
    // A busy machine may be late twice.
    assert!(took[2] <= FRAME, "{took:?}");
    stages.listener.is_content();
}

/// Waits until so many bytes of an answer have come, and says of which.
async fn has_spoken(stage: &mut Stage, bytes: usize) -> (ResponseId, ItemId) {
    let mut heard = 0;
    loop {
        if let AgentEvent::Audio { response, item, audio } = stage.next().await {
            heard += audio.len();
            if heard >= bytes {
                return (response, item);
            }
        }
    }
}
