//! A caller who ends the call in order, and still hears what comes of it (V34).

use crate::call::stage::*;
use offhook_core::call::{AgentEvent, AgentTraits, EndReason, LegCommand, LegEvent, Speaker};

const TELLS_WORDS: AgentTraits = AgentTraits { transcribes: true, ..AGENT };

/// An agent that finds the caller's turns itself has greeted them.
fn greeted(agent: AgentTraits) -> Stage {
    let mut stage = Stage::speaking(agent, rules(), clips());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 500).after(600);
    stage
}

fn lets_go(stage: &Stage) -> bool {
    stage.leg_commands().iter().any(|command| matches!(command, LegCommand::HangUp)) || stage.ended().is_some()
}

/// The first words of a call as well as later ones.
#[test]
fn words_that_are_not_told_yet_are_waited_for_whoever_finds_the_turns() {
    let mut stage = greeted(TELLS_WORDS);
    stage.caller_says(600).leg(LegEvent::CallerDone);
    assert!(!lets_go(&stage));
    stage.after(400).hears(Speaker::Caller, "When are you open?").after(20);
    assert!(lets_go(&stage), "they have come, and an answer is for nobody");
}

#[test]
fn words_that_were_told_before_the_turn_was_over_are_not_waited_for() {
    let mut stage = greeted(TELLS_WORDS);
    let began = AgentEvent::CallerSpeechStarted { utterance: None };
    stage.agent(began).after(300).hears(Speaker::Caller, "Yes.");
    stage.agent(AgentEvent::CallerSpeechStopped).leg(LegEvent::CallerDone).after(20);
    assert!(lets_go(&stage));
}

#[test]
fn of_an_agent_that_tells_no_words_none_are_waited_for() {
    let mut stage = greeted(AGENT);
    stage.caller_says(600).leg(LegEvent::CallerDone).after(20);
    assert!(lets_go(&stage));
}

#[test]
fn what_is_being_said_is_said_to_its_end() {
    let mut stage = greeted(TELLS_WORDS);
    stage.caller_tells("When are you open?").reply("answer", 1_000).after(200);
    let said = stage.voice_ms();
    stage.leg(LegEvent::CallerDone).after(400);
    assert!(!lets_go(&stage));
    stage.after(1_000);
    assert!(lets_go(&stage));
    assert!(stage.voice_ms() >= said + 700, "{} ms", stage.voice_ms());
}

#[test]
fn a_caller_who_is_done_and_then_leaves_has_hung_up() {
    let mut stage = greeted(TELLS_WORDS);
    stage.caller_says(600).leg(LegEvent::CallerDone).leg(LegEvent::CallerLeft);
    assert_eq!(stage.end_reason(), Some(EndReason::CallerHungUp));
}
