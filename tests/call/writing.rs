//! A caller who writes instead of speaking.

use crate::call::stage::{AGENT, Stage, approved_tool, book, rules};
use offhook_core::{
    call::{
        AgentCommand, AgentEvent, AgentTraits, CallRules, Clips, Dialling, EndReason, Input, LegEvent, Note, Output,
        Speaker,
    },
    tool::{CallAction, ToolOutcome, Verdict},
};
use serde_json::json;
use std::time::Duration;

fn writes(stage: &mut Stage, text: &str) {
    stage.input(Input::Written(text.to_owned().into()));
}

fn written(stage: &Stage) -> Vec<&str> {
    let texts = stage.commands().into_iter().filter_map(|command| match command {
        AgentCommand::Written { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn a_text_is_a_turn_of_the_callers_that_the_agent_has_to_answer() {
    let mut stage = Stage::writing(rules(), []);
    writes(&mut stage, "Are you open?");
    assert_eq!(written(&stage), ["Are you open?"]);
    let notes = stage.notes();
    let said = |note: &&&Note| matches!(note, Note::Said { speaker: Speaker::Caller, text } if text.reveal() == "Are you open?");
    assert_eq!(notes.iter().filter(said).count(), 1);
    let turn = |wanted: &Note| notes.iter().position(|note| *note == wanted);
    assert!(turn(&Note::CallerSpeaks) < turn(&Note::CallerFinished));
    // An agent that does not answer is lost, as on the telephone.
    stage.after(20_000);
    let replaced = |output: &Output| matches!(output, Output::Dial(Dialling::Recovery(_)));
    assert!(stage.seen.iter().any(|(_, output)| replaced(output)), "{:?}", stage.notes());
}

/// Most agents stop by themselves when they hear the caller; nobody hears this one.
#[test]
fn a_text_stops_the_agent_also_one_that_stops_for_a_voice_alone() {
    let agent = AgentTraits { cancels_on_speech: true, ..AGENT };
    for spoken in [0, 1_000] {
        let mut stage = Stage::speaking(agent, CallRules::default(), Clips::default());
        stage.leg(LegEvent::Up).agent(AgentEvent::Ready).starts("answer");
        if spoken > 0 {
            stage.speaks("answer", 5_000).after(spoken);
        }
        writes(&mut stage, "Wait.");
        let cancelled = stage
            .commands()
            .into_iter()
            .filter(|command| matches!(command, AgentCommand::Interrupt { cancel: true, .. }))
            .count();
        assert_eq!(cancelled, 1, "{spoken} ms spoken");
        assert_eq!(written(&stage), ["Wait."]);
    }
}

/// On the telephone twelve seconds of silence bring a question; who writes may think for ten minutes.
#[test]
fn who_writes_is_not_asked_whether_they_are_still_there() {
    let mut stage = Stage::writing(CallRules { no_input_after: Duration::from_secs(12), ..rules() }, []);
    stage.after(590_000);
    assert_eq!((stage.told_to_say(), stage.end_reason()), (Vec::new(), None));
    stage.after(20_000);
    assert_eq!(stage.end_reason(), Some(EndReason::NoInput));
}

/// Vendors tell what was written back as if they had heard it.
#[test]
fn what_an_agent_says_to_have_heard_is_nobodys_turn() {
    let mut stage = Stage::writing(rules(), []);
    writes(&mut stage, "Are you open?");
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None });
    stage.hears(Speaker::Caller, "Are you open?").agent(AgentEvent::CallerSpeechStopped);
    stage.reply("answer", 1_000).after(500);
    let said = |note: &&&Note| matches!(note, Note::Said { speaker: Speaker::Caller, .. });
    assert_eq!(stage.notes().iter().filter(said).count(), 1);
    assert!(!stage.notes().iter().any(|note| matches!(note, Note::BargeIn { .. })), "the answer is not interrupted");
}

/// As on the telephone: the answer to a question before a tool is the caller's, and the very same call runs once.
#[test]
fn a_tool_runs_after_a_written_yes_and_not_after_a_written_no() {
    for (answer, verdict, runs) in [("Yes, please.", Verdict::Granted, 1), ("No, leave it.", Verdict::Declined, 0)] {
        let mut stage = Stage::writing(rules(), [book()]);
        writes(&mut stage, "A table please.");
        stage.only_calls("provider-1", "book", r#"{"a":"Friday"}"#);
        stage.agent_tells("question", "I will book a table on Friday, is that right?");
        let arguments = json!({ "a": "Friday", "confirmationToken": stage.token() }).to_string();
        writes(&mut stage, answer);
        assert!(stage.notes().contains(&&Note::Confirmed(verdict)), "{answer}: {:?}", stage.notes());
        stage.only_calls("provider-2", "book", &arguments);
        assert_eq!(stage.ran().len(), runs, "{answer}");
    }
}

#[test]
fn who_writes_is_handed_to_another_context_and_served_by_its_agent() {
    let mut stage = Stage::writing(rules(), [approved_tool("to_billing")]);
    writes(&mut stage, "My bill is wrong.");
    let handoff = CallAction::Handoff { target: "billing".into(), message: None, context_passed: Vec::new() };
    stage.only_calls("provider-1", "to_billing", "{}").finishes("to_billing", ToolOutcome::act("", handoff));
    stage.after(100);
    assert!(stage.seen.iter().any(|(_, output)| matches!(output, Output::HandOff { .. })), "{:?}", stage.notes());
    stage.hands_over("billing", [approved_tool("refund")]).agent(AgentEvent::Ready).reply("hello", 300).after(400);
    let before = written(&stage).len();
    writes(&mut stage, "Refund it.");
    assert_eq!(written(&stage)[before..], ["Refund it."]);
    stage.only_calls("provider-2", "refund", "{}");
    assert_eq!(stage.ran(), ["to_billing", "refund"]);
}
