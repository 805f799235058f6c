//! Who has the turn, and what the engine says itself, beside a pipeline.

use super::{answered, faults::calls_once, has_heard, speaks, story};
use crate::providers::{
    clips::{
        EDGES, NOTICE, QUIET, SLOWLY, has_its_sentence_once, has_no_sentence, hears_the_notice, sleep_call, slow_desk,
        slow_server,
    },
    desk::{Desk, MOMENT, MOMENT_HZ, pipeline},
    ear::{Caller, Tape},
    fillers::{QUIET_FOR_LONG, is_counted_as_one_turn, silences_a_filler},
    kit::mcp_stand_in::{Manner, StandIn},
    kit::{
        audio::samples_of,
        stages::{Bit, SCRIBES, Stages, model},
        vendor::{Scenario, hertz},
    },
    ms,
    tools::look_up,
    turns::{
        BACKCHANNEL, GREETING, GREETING_HEARD, HICCUP, LONG, NEVER_INTERRUPTED, PAUSE, QUESTION, SILENCED_WITHIN,
        greeting, is_lowered_then_paused, noise, speaks_over_an_answer_in_vain,
    },
};
use futures_util::future::join_all;
use std::time::Duration;

/// A caller in the first second of a long greeting; the listener understands these words.
async fn greeted_at_length(words: &'static str, turns: &str) -> (Stages, Desk, Caller) {
    let stages = Stages::of(Scenario { caller_words: words, ..Scenario::answers(GREETING) }).await;
    let desk = Desk::of_pipelines(&[("first", &stages)], turns).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    (stages, desk, caller)
}

/// The greeting was heard to its end as if nothing had been said; how long its longest pause was.
async fn is_heard_out(stages: &Stages, caller: &Caller) -> Duration {
    caller.hears(hertz(1), GREETING - ms(40)).await;
    caller.hears_nothing_for(ms(700)).await;
    let (length, pause) =
        caller.look(|tape| (tape.seamless(hertz(1), ms(0)..tape.now()), tape.longest_silence(greeting(tape))));
    assert!(GREETING_HEARD.contains(&length), "{length:?}: {}", story(caller));
    assert_eq!(stages.model.times(), 0, "nothing was to be answered");
    pause
}

async fn is_over(stages: &Stages, desk: &Desk, caller: &Caller) {
    desk.ends_with(caller).await;
    stages.listener.is_content();
}

/// The listener hears it, and its words tell what it is; the model does not, and is not told of it afterwards.
pub async fn a_backchannel_pauses_the_agent_which_goes_on_at_the_exact_sample() {
    let (stages, desk, caller) = greeted_at_length(BACKCHANNEL, "").await;
    caller.says(BACKCHANNEL).await;
    caller.has_spoken().await;
    let pause = is_heard_out(&stages, &caller).await;
    assert!(PAUSE.contains(&pause), "{pause:?}: {}", story(&caller));
    assert_eq!(desk.metric("offhook_false_alarms_total"), 1.0);
    // The listener understands the same of what follows.
    answered(&caller, hertz(1), ms(700)).await;
    let told = stages.model.is_asked(1).await.body["messages"].to_string();
    assert_eq!(
        stages.listener.of(1, |seen| seen.turns_ended),
        2,
        "one is dropped, and the words of the other asked for"
    );
    assert_eq!(told.matches(BACKCHANNEL).count(), 1, "of the turn after it alone: {told}");
    is_over(&stages, &desk, &caller).await;
}

/// Speech as long as an interruption.
const NODS: &str = "Uh-huh, okay, yes.";
const STOP: &str = "Stop!";

async fn is_asked_for_a_nod(scribe: &'static str) {
    let stages = Stages::asking(scribe, Scenario { caller_words: NODS, ..Scenario::answers(GREETING) }).await;
    let desk = Desk::of_pipelines(&[("first", &stages)], "").await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.says(NODS).await;
    caller.has_spoken().await;
    is_heard_out(&stages, &caller).await;
    assert!(stages.scribe.times() >= 1, "{scribe}");
    desk.ends_with(&caller).await;
}

async fn is_asked_for_a_command(scribe: &'static str) {
    let stages = Stages::asking(scribe, Scenario { caller_words: STOP, ..Scenario::answers(GREETING) }).await;
    let desk = Desk::of_pipelines(&[("first", &stages)], "").await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.says(STOP).await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), GREETING - ms(40)).await;
    let last = caller.look(|tape| tape.last_of(hertz(1), said.start..said.end)).expect("it speaks when they begin");
    assert!(last <= said.start + SILENCED_WITHIN, "{scribe}: {:?}: {}", last - said.start, story(&caller));
    assert_eq!(stages.model.asked().last().expect("asked").said_by("user"), [STOP], "{scribe}");
    assert_eq!(desk.metric("offhook_false_alarms_total"), 0.0, "{scribe}");
    desk.ends_with(&caller).await;
}

/// What is said over the agent is short, or about to interrupt: listeners that tell no words before they are asked are asked then.
pub async fn a_listener_that_is_asked_for_each_turn_tells_a_nod_from_a_word_that_stops_the_agent() {
    join_all(SCRIBES.map(is_asked_for_a_nod)).await;
    join_all(SCRIBES.map(is_asked_for_a_command)).await;
}

pub async fn an_interruption_silences_the_agent_at_once_and_is_heard_from_its_first_sound() {
    let (stages, desk, caller) = greeted_at_length(QUESTION, "").await;
    caller.says(QUESTION).await;
    let said = caller.has_spoken().await;
    let last = caller.look(|tape| tape.last_of(hertz(1), said.start..said.end)).expect("it speaks when they begin");
    assert!(last <= said.start + SILENCED_WITHIN, "{:?}: {}", last - said.start, story(&caller));
    caller.hears_from(said.end, hertz(1), GREETING - ms(40)).await;
    caller.hears_nothing_for(ms(400)).await;
    let answer = caller.look(|tape| tape.seamless(hertz(1), said.end..tape.now()));
    assert!(GREETING_HEARD.contains(&answer), "{answer:?}: {}", story(&caller));
    has_heard("the listener", &stages.listener, 1, &caller);
    assert_eq!(stages.model.asked().last().expect("asked").said_by("user"), [QUESTION]);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_greeting_is_not_cut_by_noise() {
    let (stages, desk, caller) = greeted_at_length("", "").await;
    caller.say(noise(ms(1_000)));
    caller.has_spoken().await;
    let pause = is_heard_out(&stages, &caller).await;
    assert!(pause <= *PAUSE.end(), "{pause:?}: {}", story(&caller));
    is_over(&stages, &desk, &caller).await;
}

pub async fn a_protected_greeting_is_not_even_paused() {
    let (stages, desk, caller) = greeted_at_length(QUESTION, "turns: { protect_greeting: true }").await;
    caller.says(QUESTION).await;
    caller.has_spoken().await;
    let pause = is_heard_out(&stages, &caller).await;
    assert!(pause <= HICCUP, "{pause:?}: {}", story(&caller));
    assert_eq!(desk.metric("offhook_false_alarms_total"), 0.0);
    is_over(&stages, &desk, &caller).await;
}

pub async fn an_agent_that_cannot_be_interrupted_is_not_even_paused() {
    let stages = Stages::of(Scenario { greeting: Some(ms(1_000)), ..Scenario::answers(GREETING) }).await;
    let desk = Desk::of_pipelines(&[("first", &stages)], NEVER_INTERRUPTED).await;
    let caller = desk.call().await;
    speaks_over_an_answer_in_vain(&desk, &caller).await;
    assert_eq!(stages.model.times(), 1, "what was said over the answer is no turn");
    stages.listener.is_content();
}

// ---- What the engine says itself ----

pub async fn a_clip_greets_the_caller_and_the_agent_is_told_its_words() {
    let stages = Stages::start().await;
    let desk = Desk::of_pipelines(&[("first", &stages)], "greeting_by: clip").await;
    let caller = desk.call().await;
    caller.until("the clip is heard", |tape| tape.loud_time(ms(0)..tape.now()) >= ms(300)).await;
    let begins = caller.look(|tape| tape.longest_silence(ms(0)..ms(400)));
    assert!(begins <= ms(200), "the clip is heard at once: {}", story(&caller));
    caller.hears_nothing_for(ms(300)).await;
    let (audio, hears) =
        stages.listener.of(1, |seen| (seen.audio.clone(), seen.set_up.clone().expect("it is ready").hears));
    assert!(samples_of(&audio, hears).iter().all(|sample| sample.unsigned_abs() < 100), "nobody listens to it");
    answered(&caller, hertz(1), ms(700)).await;
    let told = stages.model.is_asked(1).await.body["messages"].to_string();
    assert!(told.contains("Hello there."), "{told}");
    assert_eq!(stages.voice.times(), 1, "the pipeline's voice has only answered");
    assert_eq!(desk.metric("offhook_sentences_total{purpose=\"greeting\"}"), 1.0);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_notice_is_heard_to_its_end_whoever_speaks() {
    let stages = Stages::start().await;
    let desk = Desk::of_pipelines(&[("first", &stages)], NOTICE).await;
    let caller = desk.call().await;
    hears_the_notice(&desk, &caller, &stages.listener).await;
    caller.hears_nothing_for(ms(300)).await;
    assert_eq!(stages.model.times(), 0, "what was said into it is no turn: {}", story(&caller));
    answered(&caller, hertz(1), ms(700)).await;
    let told = stages.model.is_asked(1).await.body["messages"].to_string();
    assert!(told.contains("This call is recorded."), "{told}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_slow_tools_own_sentence_is_heard_after_its_own_threshold_and_once() {
    let (stages, server) = (Stages::start().await, StandIn::start_here(Manner::default()));
    // Each turn calls once.
    stages.model.answers(|asked| match asked.results().len() {
        slept if slept == asked.turns() => model::says("There it is."),
        0 => model::calls(&[sleep_call(1, 2.4)]),
        _ => model::calls(&[sleep_call(2, 7.0)]),
    });
    let one: &[&str] = &["one"];
    let sections = Stages::sections(&[("one", &stages)]) + &slow_server(&server);
    let desk = slow_desk(&[("first", pipeline(one, one, one))], &sections).await;
    let caller = super::called(&desk).await;
    speaks(&caller).await;
    has_no_sentence(&caller, &server).await;
    speaks(&caller).await;
    has_its_sentence_once(&desk, &caller, &server).await;
    let told = stages.model.is_asked(4).await;
    let results = told.results();
    assert!(results.len() == 2 && results.iter().all(|(_, result)| result.contains("slept")), "{results:?}");
    assert!(told.body["messages"].to_string().contains(SLOWLY), "{:#}", told.body["messages"]);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_slow_tool_is_announced_once_and_the_agent_is_told_so() {
    let stages = Stages::start().await;
    stages.model.answers(calls_once);
    let desk = Desk::of_pipelines(&[("first", &stages)], QUIET).await;
    let caller = super::called(&desk).await;
    desk.service.holds(true);
    speaks(&caller).await;
    desk.service.wait_requests(1).await;
    let asked = caller.now();
    caller.hears(MOMENT_HZ, MOMENT - EDGES).await;
    // Twice as long as it took until the first one.
    caller.hears_nothing_for(ms(1_500)).await;
    let (filler, begun) = caller.look(|tape| (tape.time_of(MOMENT_HZ, ms(0)), tape.first_of(MOMENT_HZ, ms(0))));
    assert!(filler <= MOMENT, "once: {}", story(&caller));
    assert!(begun.is_some_and(|begun| begun <= asked + ms(1_000)), "{}", story(&caller));
    desk.service.holds(false);
    let released = caller.now();
    caller.hears_from(released, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    assert_eq!(caller.look(|tape| tape.time_of(MOMENT_HZ, released)), ms(0));
    let told = stages.model.is_asked(2).await;
    assert!(told.body["messages"].to_string().contains("One moment, "), "{:#}", told.body["messages"]);
    assert_eq!(told.results().len(), 1);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_filler_is_not_heard_before_a_quick_answer_and_makes_place_for_a_late_one() {
    let stages = Stages::start().await;
    // Each turn calls once.
    stages.model.answers(|asked| match asked.results().len() < asked.turns() {
        true => model::calls(&[look_up(asked.results().len() + 1)]),
        false => model::says("There it is."),
    });
    let desk = Desk::of_pipelines(&[("first", &stages)], QUIET).await;
    let caller = super::called(&desk).await;
    answered(&caller, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let fillers = |tape: &Tape| tape.time_of(MOMENT_HZ, ms(0));
    assert_eq!(caller.look(fillers), ms(0), "{}", story(&caller));
    desk.service.holds(true);
    speaks(&caller).await;
    caller.hears(MOMENT_HZ, ms(300)).await;
    let released = caller.now();
    desk.service.holds(false);
    caller.hears_from(released, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    assert!(caller.look(fillers) <= ms(1_000), "it makes place: {}", story(&caller));
    let answer = caller.look(|tape| tape.seamless(hertz(1), tape.first_of(hertz(1), released).unwrap()..tape.now()));
    assert!((ms(1_000)..=ms(1_020)).contains(&answer), "{answer:?}: {}", story(&caller));
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn an_agent_is_lowered_before_it_is_paused_and_goes_on_at_the_exact_sample() {
    let stages = Stages::of(Scenario { caller_words: BACKCHANNEL, ..Scenario::answers(LONG) }).await;
    let desk = Desk::of_stages(&stages).await;
    let caller = desk.call().await;
    is_lowered_then_paused(&caller).await;
    assert_eq!(stages.model.times(), 0, "nothing was to be answered");
    assert_eq!(desk.metric("offhook_false_alarms_total"), 3.0);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_caller_who_interrupts_a_filler_silences_it_and_is_heard() {
    let stages = Stages::start().await;
    stages.model.answers(calls_once);
    let desk = Desk::of_pipelines(&[("first", &stages)], QUIET_FOR_LONG).await;
    let caller = super::called(&desk).await;
    desk.service.holds(true);
    speaks(&caller).await;
    let said = silences_a_filler(&desk, &caller).await;
    caller.hears_from(said.end, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    assert_eq!(caller.look(|tape| tape.time_of(MOMENT_HZ, said.end)), ms(0), "it does not go on: {}", story(&caller));
    let asked = stages.model.asked();
    let last = asked.last().expect("asked");
    // The first is that the caller is connected.
    assert_eq!((last.said_by("user").len(), last.results().len()), (3, 1), "{:#}", last.body["messages"]);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_filler_is_nobodys_turn() {
    let stages = Stages::start().await;
    stages.model.answers(|_| {
        let mut reply = model::says("A tone.");
        reply.bits.insert(0, Bit::Wait(ms(1_000)));
        reply
    });
    let desk = Desk::of_pipelines(&[("first", &stages)], QUIET).await;
    let caller = super::called(&desk).await;
    let said = answered(&caller, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(1_500)).await;
    assert_eq!((stages.model.times(), stages.voice.times()), (1, 2), "a greeting and an answer: {}", story(&caller));
    is_counted_as_one_turn(&desk, &caller, said.end, ms(200)).await;
    stages.listener.is_content();
}
