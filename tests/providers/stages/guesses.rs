//! Where the caller's turn ends in a pipeline: what is begun before that is sure, who says that it is, and who is told.

use super::{answered, called, greeted, speaks, story};
use crate::providers::{
    desk::Desk,
    ear::Caller,
    kit::{
        audio::RATE,
        stages::{Asked, Flux, Nova, Reply, SCRIBES, Stages, Transcriber, heard_by, model, voice, writes},
        vendor::{Dialect, Scenario, Seen, hertz},
    },
    ms,
    tools::look_up,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::Duration;

const SENTENCES: [&str; 2] = ["I have a question.", "When do you open on Sunday?"];

// ---- Answers that are begun before the turn is over ----

/// Longer than any pause here: what is answered before that was guessed.
const PATIENT: &str = "turns: { end_silence: 1s }";
const PAUSE: Duration = ms(700);
/// What is said of a guess; nobody is to hear it.
const GUESSED: &str = "Let me see.";
const GUESSED_HZ: f64 = hertz(4);

fn says_and_calls() -> Reply {
    let call = look_up(1);
    let mut chunks = model::words(GUESSED);
    chunks.push(model::fragment(0, Some(&call), &call.arguments.to_string()));
    model::stream(chunks, "tool_calls")
}

fn voiced(stages: &Stages) {
    stages.voice.answers(|asked| match asked.text() {
        GUESSED => voice::speaks(asked, GUESSED_HZ, ms(1_000)),
        _ => voice::speaks(asked, hertz(1), ms(1_000)),
    });
}

/// The model was asked while the caller had the turn.
async fn is_guessed(what: &str, stages: &Stages, caller: &Caller) {
    caller.until(&format!("{what}: a guess is made"), |_| stages.model.times() == 1).await;
    assert!(
        caller.look(|tape| tape.said.last().is_some_and(|said| said.end >= tape.now())),
        "{what}: while they speak"
    );
}

/// The caller pauses, and the model is asked what to answer and calls a tool; the caller goes on.
async fn goes_on(what: &str, stages: Stages) {
    voiced(&stages);
    stages.model.answers(|asked| if asked.number == 1 { says_and_calls() } else { model::says("A tone.") });
    let desk = Desk::of_pipelines(&[("first", &stages)], PATIENT).await;
    let caller = called(&desk).await;
    let pause = if what == "Flux" { OVER - ms(150) } else { PAUSE };
    caller.says_with_a_pause(SENTENCES, pause).await;
    is_guessed(what, &stages, &caller).await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(500)).await;
    let (guessed, answer) = caller.look(|tape| (tape.time_of(GUESSED_HZ, ms(0)), tape.loud_time(said.end..tape.now())));
    assert!(guessed < ms(60) && answer <= ms(1_060), "{what}: {guessed:?}, {answer:?}: {}", story(&caller));
    assert_eq!(desk.service.requests().len(), 0, "{what}: no tool has run");
    assert_eq!(desk.metric("offhook_tool_calls_total"), 0.0, "{what}: and none was asked for");
    assert_eq!(stages.model.times(), 2, "{what}: once more, with all that was said");
    let asked = stages.model.asked();
    let [guess, whole] = [0, 1].map(|at: usize| asked[at].said_by("user").pop().expect("a turn"));
    assert!(whole.len() > guess.len() && whole.starts_with(&guess), "{what}: {guess}, then {whole}");
    assert!(!asked[1].body["messages"].to_string().contains("look_up"), "{what}: the guess is forgotten");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// The caller has said all, and what was begun before that was sure is what they hear: its tool runs once, and not before.
async fn was_right(what: &str, stages: Stages) {
    voiced(&stages);
    stages.model.answers(|asked| if asked.number == 1 { says_and_calls() } else { model::says("A tone.") });
    let desk = Desk::of_pipelines(&[("first", &stages)], PATIENT).await;
    let caller = called(&desk).await;
    caller.says(SENTENCES[1]).await;
    stages.model.is_asked(1).await;
    if what == "Flux" {
        assert_eq!(stages.listener.of(1, |seen| seen.turns_ended), 0, "before it is sure that the turn is over");
    }
    caller.until(&format!("{what}: the tool runs"), |_| !desk.service.requests().is_empty()).await;
    let (ran, said) = (caller.now(), caller.has_spoken().await);
    assert!(ran >= said.end + ms(600), "{what}: ran at {ran:?}; {}", story(&caller));
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    let guessed = caller.look(|tape| tape.time_of(GUESSED_HZ, said.end));
    assert!((ms(960)..=ms(1_040)).contains(&guessed), "{what}: {guessed:?}: {}", story(&caller));
    assert_eq!((desk.service.requests().len(), stages.model.times()), (1, 2), "{what}");
    assert_eq!(stages.model.asked()[1].results().len(), 1, "{what}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// Whoever listens here has the words of half a turn in time.
async fn quick(listener: &'static str) -> Stages {
    match listener {
        "Nova" => return Stages::listening::<Nova>(Scenario::default()).await,
        "Flux" => return Stages::start().await.heard_with(json!({ "eager_eot_threshold": 0.4 })),
        _ => {}
    }
    let stages = Stages::asking(listener, Scenario::default()).await;
    stages.scribe.answers(|asked| {
        // At 16 kHz, with what led to it.
        let seconds = heard_by(asked).len() as f32 / (2.0 * RATE as f32);
        // With the silence that ends the turn.
        writes(asked, if seconds < 3.4 { SENTENCES[0] } else { "I have a question. When do you open on Sunday?" })
    });
    stages
}

/// Flux says it of its own accord, and the others are asked.
const QUICK: [&str; 4] = ["Flux", "Nova", SCRIBES[0], SCRIBES[1]];

pub async fn a_guess_is_thrown_away_when_the_caller_goes_on_and_no_tool_of_it_runs() {
    join_all(QUICK.map(|listener| async move { goes_on(listener, quick(listener).await).await })).await;
}

pub async fn a_guess_that_was_right_is_heard_and_its_tool_runs_once_when_the_turn_is_over() {
    join_all(QUICK.map(|listener| async move { was_right(listener, quick(listener).await).await })).await;
}

// ---- Listeners that find the end of a turn ----

/// What these listeners take for the end of a turn.
const OVER: Duration = ms(700);
const DECIDES: &str = "turn: listener";

/// By the caller's silence alone a turn would end in a pause here; by the listener's word it does not.
async fn does_not_end_in_a_pause(what: &str, stages: Stages) {
    let desk = Desk::of_stages_with(&stages, DECIDES, "turns: { end_silence: 400ms }").await;
    let caller = called(&desk).await;
    caller.says_with_a_pause(SENTENCES, OVER - ms(100)).await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    let (early, answer) =
        caller.look(|tape| (tape.loud_time(said.start..said.end), tape.loud_time(said.end..tape.now())));
    assert!(early < ms(60) && answer <= ms(1_060), "{what}: {early:?}, {answer:?}: {}", story(&caller));
    assert_eq!(stages.model.asked().last().map(Asked::turns), Some(1), "{what}: it is one turn");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// By the caller's silence alone a turn would last for longer; by the listener's word it is over at once.
async fn ends_at_its_word(what: &str, stages: Stages) {
    let desk = Desk::of_stages_with(&stages, DECIDES, "turns: { end_silence: 3s }").await;
    let caller = called(&desk).await;
    let said = answered(&caller, hertz(1), ms(700)).await;
    let begun = caller.look(|tape| tape.first_of(hertz(1), said.end)).expect("heard");
    assert!(begun <= said.end + OVER + ms(700), "{what}: {}", story(&caller));
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

async fn decides<L: Dialect>(what: &str, options: Value) {
    let stages = || async { Stages::listening::<L>(Scenario::default()).await.heard_with(options.clone()) };
    tokio::join!(async { does_not_end_in_a_pause(what, stages().await).await }, async {
        ends_at_its_word(what, stages().await).await
    },);
}

pub async fn a_vendor_that_owns_the_turns_decides_alone() {
    tokio::join!(
        decides::<Flux>("Flux", json!({})),
        decides::<Nova>("Nova", json!({ "endpointing_ms": OVER.as_millis() as u64 })),
    );
}

// ---- Who is told the end of a turn ----

async fn is_told<L: Dialect>(what: &str, end: &str) {
    let stages = Stages::listening::<L>(Scenario::default()).await;
    let (desk, caller) = greeted(&stages).await;
    let ends = |seen: &Seen| seen.texts.iter().filter(|text| text.contains(end)).count();
    assert_eq!(stages.listener.of(1, ends), 0, "{what}: not before there is a turn");
    let said = speaks(&caller).await;
    stages.listener.until_session(1, "is told the end", |seen| ends(seen) == 1).await;
    let known = caller.now();
    assert!(known <= said.end + ms(1_000), "{what}: {known:?}: {}", story(&caller));
    caller.hears_from(said.end, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    assert_eq!(stages.listener.of(1, |seen| (ends(seen), seen.turns_ended)), (1, 1), "{what}: and not again");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

/// Who is asked for each turn is asked once.
async fn is_asked_once(scribe: &'static str) {
    let stages = Stages::asking(scribe, Scenario::default()).await;
    let (desk, caller) = greeted(&stages).await;
    assert_eq!(stages.scribe.times(), 0, "{scribe}: not before there is a turn");
    answered(&caller, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    assert_eq!(stages.scribe.times(), 1, "{scribe}");
    desk.ends_with(&caller).await;
}

pub async fn the_end_of_a_turn_is_told_or_left_to_the_vendor_to_find() {
    tokio::join!(
        is_told::<Flux>("Flux", "ForceEndTurn"),
        is_told::<Nova>("Nova", "Finalize"),
        is_told::<Transcriber>("OpenAI's transcriber", "input_audio_buffer.commit"),
        is_asked_once(SCRIBES[0]),
        is_asked_once(SCRIBES[1]),
    );
}
