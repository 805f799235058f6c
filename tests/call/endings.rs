//! Every way out of a call.

use crate::call::stage::{AGENT, APOLOGY, Stage, approved_tool, rules};
use offhook_core::{
    call::{
        AgentCommand, AgentEvent, AgentLoss, CallRules, EndReason, Input, LegCommand, LegEvent, Note, OnFailure,
        SetupStep,
    },
    tool::{After, CallAction, ToolOutcome},
};
use std::time::Duration;

fn to_dialplan(status: &'static str) -> LegCommand {
    LegCommand::ReturnToDialplan { status }
}

#[test]
fn the_caller_hangs_up_before_and_after_the_answer() {
    let mut before = Stage::new(rules());
    before.leg(LegEvent::CallerLeft);
    assert_eq!(before.end_reason(), Some(EndReason::CallerAbandoned));
    let mut after = Stage::greeted();
    after.leg(LegEvent::CallerLeft).leg(LegEvent::CallerLeft);
    assert_eq!(after.end_reason(), Some(EndReason::CallerHungUp));
}

/// Also before the answer, and on the way to somebody else.
#[test]
fn a_limit_of_the_dialplan_is_told_as_such() {
    let mut before = Stage::new(rules());
    before.leg(LegEvent::TimedOut);
    let mut after = Stage::greeted();
    after.leg(LegEvent::TimedOut).leg(LegEvent::CallerLeft);
    let mut on_the_way = Stage::greeted();
    let transfer = Input::Transfer { destination: "sales".into(), account: "ada".into() };
    on_the_way.input(transfer).after(1_000).leg(LegEvent::TimedOut);
    for ended in [before, after, on_the_way] {
        assert_eq!(ended.end_reason(), Some(EndReason::DialplanTimeout));
    }
}

#[test]
fn a_failed_set_up_gives_the_caller_back_to_the_dialplan() {
    for step in SetupStep::ALL {
        let mut stage = Stage::new(rules());
        stage.leg(LegEvent::SetupFailed(step));
        assert_eq!(stage.leg_commands(), [&to_dialplan("SETUPFAILED")]);
        assert_eq!(stage.end_reason(), Some(EndReason::SetupFailed(step)));
    }
}

#[test]
fn a_lost_agent_is_apologised_for_and_the_caller_goes_where_the_context_says() {
    let ways = [
        (OnFailure::HangUp, LegCommand::HangUp),
        (OnFailure::Dialplan, to_dialplan("AGENTFAILED")),
        (OnFailure::Transfer("sales".into()), LegCommand::Transfer { destination: "sales".into() }),
    ];
    for (on_failure, command) in ways {
        let mut stage = Stage::answered(CallRules { on_failure, ..rules() });
        stage.reply("greeting", 1_000).after(500).agent(AgentEvent::Lost(AgentLoss::Closed));
        stage.after(800);
        assert_eq!(stage.voice_ms() / 100, 10, "what the agent had said is heard to its end");
        stage.after(7_000);
        assert_eq!(stage.leg_commands(), [&command]);
        if command == (LegCommand::Transfer { destination: "sales".into() }) {
            stage.leg(LegEvent::Transferred);
        }
        assert_eq!(stage.heard(APOLOGY).len(), 30, "the apology was heard, whole");
        assert_eq!(stage.end_reason(), Some(EndReason::AgentLost(AgentLoss::Closed)));
    }
}

#[test]
fn an_agent_that_never_gets_ready_counts_as_unreachable() {
    let mut stage = Stage::new(rules());
    stage.leg(LegEvent::Up).after(rules().agent_ready_max.as_millis() as u64 + 7_000);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentLost(AgentLoss::Unreachable)));
}

#[test]
fn an_agent_lost_before_the_answer_is_apologised_for_as_soon_as_the_caller_can_hear() {
    let mut stage = Stage::new(rules());
    stage.agent(AgentEvent::Lost(AgentLoss::Unauthorized)).after(10);
    assert_eq!(stage.leg_commands(), [&LegCommand::Answer], "so that the apology can be heard");
    stage.leg(LegEvent::Up).after(6_000);
    assert_eq!(stage.leg_commands(), [&LegCommand::Answer, &to_dialplan("AGENTFAILED")]);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentLost(AgentLoss::Unauthorized)));
    let mut refused = Stage::new(rules());
    refused.agent(AgentEvent::Lost(AgentLoss::Unauthorized)).leg(LegEvent::SetupFailed(SetupStep::Bridge));
    assert_eq!(refused.end_reason(), Some(EndReason::SetupFailed(SetupStep::Bridge)));
}

#[test]
fn an_agent_that_owes_an_answer_and_stays_silent_is_given_up() {
    let mut stage = Stage::greeted();
    stage.caller_says(500).after(AGENT.answer_max.as_millis() as u64 + 7_000);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentSilent));
    let mut mute = Stage::answered(rules());
    mute.after(AGENT.answer_max.as_millis() as u64 + 7_000);
    assert_eq!(mute.end_reason(), Some(EndReason::AgentSilent), "a greeting is owed too");
}

/// Nothing of the goodbye was heard yet, so whoever speaks now has not agreed to it.
#[test]
fn a_caller_who_speaks_before_the_farewell_has_begun_stays() {
    for (name, arguments) in [("hangup_call", "{}"), ("transfer", r#"{"destination":"sales"}"#)] {
        for answered in [true, false] {
            let mut stage = Stage::greeted();
            stage.caller_says(400).starts("r").calls_tool("c1", name, arguments).runs_tools();
            if answered {
                stage.done("r");
            }
            stage.after(200).caller_says(400).reply("answer", 500).after(3_000);
            assert!(stage.ended().is_none() && stage.leg_commands().is_empty(), "{name} {answered}");
        }
    }
}

#[test]
fn a_caller_who_speaks_before_a_closing_message_has_begun_stays() {
    let closing = CallAction::EndCall {
        after: After::CurrentTurn,
        reason: "task_complete".into(),
        closing: Some("Goodbye.".into()),
    };
    let mut stage = Stage::with_tools([approved_tool("act")]);
    stage.caller_tells("That is all.").starts("r").speaks("r", 300).calls_tool("provider-1", "act", "{}");
    stage.finishes("act", ToolOutcome::act("", closing)).done("r").after(500);
    assert_eq!(stage.told_to_say().len(), 1, "what was said before was no farewell");
    stage.caller_says(400).reply("answer", 500).after(3_000);
    assert!(stage.ended().is_none());
}

#[test]
fn a_caller_who_speaks_at_last_stays() {
    let rules = CallRules { no_input_after: Duration::from_secs(5), no_input_prompts: 0, ..rules() };
    let mut stage = Stage::answered(rules);
    stage.reply("greeting", 500).after(5_700);
    assert!(stage.told_to_say()[0].contains("cannot hear you"));
    stage.caller_says(400).reply("answer", 500).after(3_000);
    assert!(stage.ended().is_none());
}

/// A goodbye that was heard is a goodbye, also to somebody who returns it.
#[test]
fn a_caller_who_returns_a_goodbye_is_let_go() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).reply("bye", 500).after(600).only_calls("c1", "hangup_call", "{}").runs_tools();
    stage.after(100).caller_says(200).caller_says(200).reply("bye bye", 300).after(1_500);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentHungUp));
}

#[test]
fn the_longest_call_ends_with_a_goodbye() {
    let mut stage = Stage::answered(CallRules { call_max: Duration::from_secs(60), ..rules() });
    stage.starts("endless");
    for _ in 0..59 {
        stage.speaks("endless", 1_000).after(1_000);
    }
    stage.done("endless").after(1_100);
    assert!(matches!(stage.commands().last().unwrap(), AgentCommand::Say { .. }));
    stage.reply("bye", 700).after(1_500);
    assert_eq!(stage.end_reason(), Some(EndReason::CallTooLong));
}

#[test]
fn broken_media_is_a_hang_up_if_asterisk_says_so_within_a_second() {
    let mut hung_up = Stage::greeted();
    hung_up.leg(LegEvent::MediaLost).after(20).leg(LegEvent::CallerLeft);
    assert_eq!(hung_up.end_reason(), Some(EndReason::CallerHungUp));
    let mut broken = Stage::greeted();
    broken.leg(LegEvent::MediaLost).after(1_100);
    assert_eq!(broken.leg_commands(), [&to_dialplan("AGENTFAILED")]);
    assert_eq!(broken.end_reason(), Some(EndReason::MediaLost));
}

#[test]
fn an_operator_ends_a_call_at_once() {
    let mut stage = Stage::greeted();
    stage.input(Input::EndNow { reason: EndReason::OperatorEnded, account: Some("ada".into()) });
    assert!(stage.notes().contains(&&Note::HungUp { account: "ada".into() }));
    assert_eq!(stage.leg_commands(), [&LegCommand::HangUp]);
    assert_eq!(stage.end_reason(), Some(EndReason::OperatorEnded));
}
