//! Another context takes the call over.

use crate::call::stage::{AGENT, NEXT_PIN, Stage, approved_tool, book, look_up, rules};
use offhook_core::{
    call::{AgentCommand, AgentEvent, AgentTraits, CallRules, EndReason, LegEvent, Note, Output, Reply},
    sentences::{Language, Sentences},
    tool::{CallAction, DigitPlan, DigitPurpose, ToolOutcome},
};
use std::sync::Arc;

fn handoff() -> ToolOutcome {
    let target = "billing".to_owned();
    ToolOutcome::act("", CallAction::Handoff { target, message: Some("about a bill".into()), context_passed: vec![] })
}

fn handed_off(stage: &Stage) -> Option<usize> {
    stage.seen.iter().position(|(_, output)| matches!(output, Output::HandOff { .. }))
}

/// The agent calls `to_billing` while it speaks for a second.
fn handing_off() -> Stage {
    let mut stage = Stage::with_tools([approved_tool("to_billing"), book(), look_up()]);
    stage.caller_tells("My bill.").starts("r").speaks("r", 1_000).calls_tool("provider-1", "to_billing", "{}");
    stage.finishes("to_billing", handoff()).done("r");
    stage
}

/// D3, D answer 18: the words that announce it are heard first.
#[test]
fn a_handoff_waits_until_the_words_were_heard() {
    let mut stage = handing_off();
    stage.after(900);
    assert_eq!(handed_off(&stage), None);
    stage.after(200);
    let at = handed_off(&stage).expect("it was handed off");
    assert_eq!(
        stage.seen[at].1,
        Output::HandOff {
            target: "billing".into(),
            message: Some("about a bill".into()),
            known: serde_json::Map::new(),
        }
    );
    assert_eq!(stage.voice_ms(), 500 + 1_000);
}

/// D3, D answer 18: nothing is asked of an agent that is about to go.
#[test]
fn the_old_agent_begins_nothing_more() {
    let mut stage = handing_off();
    stage.only_calls("provider-2", "look_up", "{}");
    assert_eq!(stage.answer()["error"]["type"], "SESSION_INACTIVE");
    assert_eq!(stage.ran(), ["to_billing"]);
    assert!(stage.answers().iter().all(|(.., reply)| *reply == offhook_core::call::Reply::NotNow));
}

/// D3, D answer 18: the new agent greets, has its own tools and no others, and what the old one still sends counts
/// for nothing.
#[test]
fn the_new_agent_begins_afresh() {
    let mut stage = handing_off();
    stage.after(1_100).hands_over("billing", [approved_tool("refund")]);
    assert!(stage.notes().iter().any(|note| matches!(note, Note::HandedOff { context } if context == "billing")));
    let before = stage.commands().len();
    stage.after(300).agent(AgentEvent::Ready);
    assert!(matches!(stage.commands()[before..], [AgentCommand::Greet { .. }]), "{:?}", &stage.commands()[before..]);
    // Its responses may be named as the old agent's were.
    stage.reply("r", 400).after(500);
    assert_eq!(stage.voice_ms(), 500 + 1_000 + 400);
    stage.caller_tells("Yes.").only_calls("provider-1", "to_billing", "{}");
    assert_eq!(stage.answer()["error"]["type"], "NOT_FOUND");
    stage.only_calls("provider-2", "refund", "{}");
    assert_eq!(stage.ran(), ["to_billing", "refund"]);
    assert!(stage.ended().is_none());
}

/// D answer 18: a caller who speaks into the handoff is heard by the new agent, which speaks first all the same.
#[test]
fn the_new_agent_does_not_wait_for_the_end_of_words_that_the_old_one_heard() {
    let mut stage = handing_off();
    stage.after(1_100).agent(AgentEvent::CallerSpeechStarted { utterance: None });
    stage.hands_over("billing", [look_up()]).agent(AgentEvent::Ready);
    stage.only_calls("provider-2", "look_up", "{}").finishes("look_up", ToolOutcome::done("", serde_json::json!(1)));
    assert_eq!(stage.answers().last().unwrap().2, offhook_core::call::Reply::Wanted);
}

/// D3, D answer 18: without a greeting of its own the new agent goes on where the old one was, and does not greet a
/// caller who has been there all the time.
#[test]
fn a_new_agent_without_a_greeting_goes_on() {
    let mut stage = handing_off();
    let before = stage.commands().len();
    let sentences = Arc::new(Sentences::of(Language::Dutch));
    stage.after(1_100).hands_over_under(CallRules { greeting: None, sentences, ..rules() }, "billing", []);
    stage.after(300).agent(AgentEvent::Ready).starts("empty").done("empty");
    let taking_over = |command: &&AgentCommand| matches!(command, AgentCommand::Tell { text, reply: Reply::Wanted } if text.contains("in Dutch, that you take over"));
    let told: Vec<_> = stage.commands().split_off(before);
    let again = told.iter().filter(|command| taking_over(command)).count();
    assert_eq!((again, told.iter().any(|command| matches!(command, AgentCommand::Greet { .. }))), (2, false));
    stage.reply("hello", 400).after(500);
    assert!(stage.ended().is_none());
}

/// P answer 3: a yes to the old agent's question is none to the new one's.
#[test]
fn a_yes_does_not_pass_on() {
    let mut stage = Stage::with_tools([approved_tool("to_billing"), book()]);
    stage.caller_tells("A table.").only_calls("provider-1", "book", r#"{"a":"Friday"}"#);
    stage.agent_tells("question", "I will book a table on Friday, right?").caller_tells("Yes.");
    let token = stage.token();
    stage.only_calls("provider-2", "to_billing", "{}").finishes("to_billing", handoff());
    assert!(handed_off(&stage).is_some(), "nobody was speaking");
    stage.hands_over("billing", [book()]).agent(AgentEvent::Ready).reply("hello", 300).after(400);
    stage.only_calls("provider-3", "book", &format!(r#"{{"a":"Friday","confirmationToken":"{token}"}}"#));
    assert_eq!(stage.ran(), ["to_billing"]);
    assert_eq!(stage.answer()["error"]["type"], "CONFIRMATION_REQUIRED");
}

/// A tool that still runs is given up with its agent, and its outcome goes nowhere.
#[test]
fn what_runs_is_given_up() {
    let mut stage = Stage::with_tools([approved_tool("to_billing"), look_up()]);
    stage.caller_tells("My bill.").starts("r").calls_tool("provider-1", "look_up", "{}");
    stage.calls_tool("provider-2", "to_billing", "{}").finishes("to_billing", handoff()).done("r");
    assert_eq!(handed_off(&stage), None, "an answer is owed");
    stage.hands_over("billing", []);
    let lines = stage.audits();
    assert_eq!(lines.iter().filter(|line| line.cancelled && line.tool_id == "look_up").count(), 1);
    let answers = stage.answers().len();
    stage.finishes("look_up", ToolOutcome::done("late", serde_json::json!(1)));
    assert_eq!(stage.answers().len(), answers);
    assert_eq!(stage.audits().len(), 2);
}

/// A new agent that does not come is an agent that is lost.
#[test]
fn a_new_agent_that_does_not_come_is_lost() {
    let mut stage = handing_off();
    stage.after(1_100).hands_over("billing", []).after(20_000);
    assert!(matches!(stage.end_reason(), Some(EndReason::AgentLost(_))), "{:?}", stage.end_reason());
}

/// A caller who leaves in between leaves.
#[test]
fn a_caller_can_leave_between_two_agents() {
    let mut stage = handing_off();
    stage.after(1_100).hands_over("billing", []).leg(LegEvent::CallerLeft);
    assert_eq!(stage.end_reason(), Some(EndReason::CallerHungUp));
}

/// Agents that send a call in circles are stopped: the ninth handoff is none, and the agent is told.
#[test]
fn a_call_is_not_handed_on_without_end() {
    let mut stage = Stage::with_tools([approved_tool("to_billing")]);
    let count = |stage: &Stage| stage.seen.iter().filter(|(_, out)| matches!(out, Output::HandOff { .. })).count();
    for handed in 1..=8 {
        stage.caller_tells("My bill.").only_calls(&format!("r{handed}"), "to_billing", "{}");
        stage.finishes("to_billing", handoff());
        assert_eq!(count(&stage), handed);
        stage.hands_over("billing", [approved_tool("to_billing")]).agent(AgentEvent::Ready);
        stage.reply(&format!("hello{handed}"), 300).after(400);
    }
    stage.caller_tells("My bill.").only_calls("r9", "to_billing", "{}").finishes("to_billing", handoff());
    stage.after(1_000);
    assert_eq!(count(&stage), 8, "it stays where it is");
    assert!(stage.notes().iter().any(|note| matches!(note, Note::ActionRefused(why) if why.contains("handoff"))));
    // An order, and not words to be repeated.
    let told =
        |command: &AgentCommand| matches!(command, AgentCommand::Tell { text, .. } if text.contains("stays with you"));
    assert!(stage.commands().iter().any(|command| told(command)), "{:?}", stage.commands());
    assert_eq!(stage.answers().last().map(|(id, ..)| id.as_str()), Some("r9"), "the tool is answered");
    stage.reply("alone", 300).after(400);
    assert!(stage.ended().is_none());
}

/// G12: the second context compares with its own PIN, not with the first one's.
#[test]
fn the_new_context_has_its_own_pin() {
    for (typed, right) in [(NEXT_PIN, true), ("246813", false)] {
        let mut stage = handing_off();
        stage.after(1_100).hands_over("billing", [approved_tool("verify")]).agent(AgentEvent::Ready);
        stage.reply("hello", 300).after(400).caller_tells("My bill.").only_calls("v", "verify", "{}");
        let (prompt, terminator, timeout) = (Some("The PIN.".into()), Some('#'), std::time::Duration::from_secs(5));
        let plan = DigitPlan { prompt, min: 4, max: 4, terminator, timeout, purpose: DigitPurpose::Pin };
        stage.finishes("verify", ToolOutcome::Collect(plan)).agent_tells("question", "Your PIN please.");
        for key in typed.chars() {
            stage.leg(LegEvent::Digit(key)).after(100);
        }
        assert_eq!(stage.answer()["data"], serde_json::json!({ "authenticated": right }));
    }
}

/// M23: the agent that takes over is told of results as its own provider bears it.
#[test]
fn the_next_agents_traits_hold() {
    let agent = AgentTraits { answer_bytes_max: Some(2048), forwards_data: false, ..AGENT };
    let mut stage = handing_off();
    stage.after(1_100).hands_over_to(agent, rules(), "billing", [look_up()]);
    stage.agent(AgentEvent::Ready).reply("hello", 300).after(400);
    stage.caller_tells("My bill.").only_calls("provider-1", "look_up", "{}").after(2_000);
    let data = serde_json::json!({ "planted": "x".repeat(4_000), "open": true });
    stage.finishes("look_up", ToolOutcome::done("It is open.", data));
    assert_eq!(stage.answer()["data"], serde_json::json!({ "open": true }));
}
