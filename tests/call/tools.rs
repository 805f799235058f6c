//! Tool calls: admitted by the context's list, answered once, acted on after the last words.

use crate::stage::{Stage, rules};
use offhook::{
    call::{AgentCommand, EndReason, LegCommand, LegEvent, Output, Reply, TransferFault},
    tool::{ToolError, ToolOutcome},
};

fn answers(stage: &Stage) -> Vec<(String, String, Reply)> {
    stage
        .commands()
        .into_iter()
        .filter_map(|command| match command {
            AgentCommand::ToolResult { call_id, output, reply } => Some((call_id.clone(), output.clone(), *reply)),
            _ => None,
        })
        .collect()
}

#[test]
fn hanging_up_waits_until_the_goodbye_was_heard() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("bye").speaks("bye", 1_000).calls_tool("c1", "hangup_call", "{}");
    stage.runs_tools().done("bye").after(900);
    assert_eq!(answers(&stage)[0].2, Reply::NotNow, "the goodbye was said already");
    assert!(stage.ended().is_none());
    stage.after(600);
    assert_eq!(stage.leg_commands(), [&LegCommand::HangUp]);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentHungUp));
    assert_eq!(stage.voice_ms(), 500 + 1_000);
}

#[test]
fn an_agent_that_hangs_up_without_a_word_is_asked_for_one() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("r").calls_tool("c1", "hangup_call", "").runs_tools().done("r");
    assert_eq!(answers(&stage)[0].2, Reply::Wanted);
    stage.after(1_000).reply("bye", 500).after(400);
    assert!(stage.ended().is_none());
    stage.after(500);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentHungUp));
}

#[test]
fn an_agent_that_never_says_goodbye_does_not_hold_the_line() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("r").calls_tool("c1", "hangup_call", "{}").runs_tools().done("r");
    stage.after(6_000);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentHungUp));
}

#[test]
fn a_transfer_begins_after_the_last_words_and_the_call_ends_when_asterisk_took_it() {
    let mut stage = Stage::greeted();
    stage.starts("r").speaks("r", 600).calls_tool("c1", "transfer", r#"{"destination":"sales"}"#);
    stage.runs_tools().done("r").after(500);
    assert!(stage.leg_commands().is_empty());
    stage.after(500);
    assert_eq!(stage.leg_commands(), [&LegCommand::Transfer { destination: "sales".into() }]);
    assert!(stage.ended().is_none());
    stage.leg(LegEvent::Transferred);
    assert_eq!(stage.end_reason(), Some(EndReason::Transferred));
}

#[test]
fn a_transfer_that_fails_gives_the_caller_back_to_the_agent() {
    let mut stage = Stage::greeted();
    stage.starts("r").calls_tool("c1", "transfer", r#"{"destination":"sales"}"#).runs_tools().done("r");
    stage.reply("one moment", 400).after(1_000).leg(LegEvent::TransferFailed(TransferFault::NoAnswer));
    assert!(matches!(stage.commands().last().unwrap(), AgentCommand::Say { .. }));
    stage.reply("sorry", 400).after(1_000);
    assert!(stage.ended().is_none());
}

#[test]
fn a_tool_that_is_not_in_the_list_is_answered_and_never_runs() {
    let mut stage = Stage::greeted();
    stage.starts("r").calls_tool("c1", "delete_everything", "{}").done("r");
    assert!(!stage.seen.iter().any(|(_, output)| matches!(output, Output::RunTool(_))));
    let (id, output, reply) = &answers(&stage)[0];
    assert_eq!((id.as_str(), *reply), ("c1", Reply::Wanted));
    assert!(output.contains("NOT_FOUND"));
}

#[test]
fn several_calls_of_one_response_are_answered_after_it_and_the_agent_speaks_once() {
    let mut stage = Stage::greeted();
    stage.starts("r");
    for id in ["a", "b", "c"] {
        stage.calls_tool(id, "nonsense", "{}");
    }
    assert!(answers(&stage).is_empty(), "the response is not complete");
    stage.done("r");
    let answers = answers(&stage);
    assert_eq!(answers.iter().map(|(id, ..)| id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(answers.iter().filter(|(.., reply)| *reply == Reply::Wanted).count(), 1);
    assert_eq!(answers.last().unwrap().2, Reply::Wanted);
}

#[test]
fn a_tool_that_takes_too_long_is_cancelled_and_answered_once() {
    let mut stage = Stage::greeted();
    stage.starts("r").calls_tool("c1", "hangup_call", "{}").done("r");
    stage.after(rules().tool_max.as_millis() as u64 + 100);
    assert!(stage.seen.iter().any(|(_, output)| *output == Output::CancelTool { id: "c1".into() }));
    let late = ToolOutcome::failed(ToolError::Internal, "late");
    stage.input(offhook::call::Input::ToolFinished { id: "c1".into(), outcome: late });
    let answers = answers(&stage);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].1.contains("TIMEOUT"));
}
