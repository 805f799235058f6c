//! Tool calls: admitted by the context's list, answered once, acted on after the last words.

use crate::call::stage::{AGENT, Stage, approved_tool, look_up, rules};
use offhook_core::{
    call::{
        AgentCommand, AgentEvent, AgentLoss, AgentTraits, EndReason, Input, LegCommand, LegEvent, Measure, Note,
        Output, Reply, Speaker, TransferFault,
    },
    tool::{After, CallAction, Done, Failure, Opening, PolicyRules, ToolError, ToolOutcome},
};
use serde_json::json;

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

/// M11, M31: whatever an agent calls that its context does not list is refused and noted; the note shows nobody the name.
#[test]
fn a_name_outside_the_list_is_noted_and_not_shown() {
    let mut stage = Stage::with_tools([look_up()]);
    let long = "ü47110815".repeat(100);
    stage.caller_tells("Hello?").only_calls("provider-1", "transfer_money_47110815", "{}").only_calls(
        "provider-2",
        &long,
        "{}",
    );
    assert!(stage.ran().is_empty());
    let names: Vec<_> = stage
        .notes()
        .into_iter()
        .filter_map(|note| match note {
            Note::UnknownTool { name } => Some(name.reveal().clone()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["transfer_money_47110815".to_owned(), long.chars().take(64).collect()]);
    assert!(!format!("{:?}", stage.notes()).contains("47110815"));
    stage.only_calls("provider-3", "look_up", "[").only_calls("provider-4", "look_up", r#"{"a":1}"#);
    let unknown = stage.notes().into_iter().filter(|note| matches!(note, Note::UnknownTool { .. })).count();
    assert_eq!(unknown, 2, "other refusals are none of these");
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
    let cancelled = |output: &Output| match output {
        Output::CancelTool { id } => Some(*id),
        _ => None,
    };
    let id = stage.seen.iter().find_map(|(_, output)| cancelled(output)).expect("it was cancelled");
    let late = ToolOutcome::failed(ToolError::Internal, "late");
    stage.input(offhook_core::call::Input::ToolFinished { id, outcome: late });
    let answers = answers(&stage);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].1.contains("TIMEOUT"));
}

// ---- Agents that go in circles ----

/// A model that hangs up 337 times is answered 337 times, and the call ends as it wanted.
#[test]
fn a_storm_of_hangups_loses_no_answer_and_harms_nobody() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("bye").speaks("bye", 1_000);
    for n in 0..337 {
        stage.calls_tool(&format!("provider-{n}"), "hangup_call", "{}");
        if n == 0 {
            stage.runs_tools();
        }
    }
    assert!(answers(&stage).is_empty());
    stage.done("bye").after(900);
    let answers = answers(&stage);
    assert_eq!(answers.len(), 337);
    assert!(answers.iter().enumerate().all(|(n, (id, ..))| *id == format!("provider-{n}")), "in order");
    assert_eq!(answers.iter().filter(|(_, output, _)| output.starts_with(r#"{"ok":true"#)).count(), 1);
    assert_eq!(stage.audits().len(), 337);
    assert_eq!(stage.ran(), ["hangup_call"]);
    assert!(stage.ended().is_none());
    stage.after(600);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentHungUp));
    assert_eq!(stage.voice_ms(), 500 + 1_000);
}

#[test]
fn an_agent_that_calls_tools_without_end_is_given_up() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("r");
    for n in 0..600 {
        stage.calls_tool(&format!("provider-{n}"), "no_such_tool", "{}");
    }
    assert_eq!(stage.audits().len(), 512, "the rest is not even looked at");
    stage.after(10_000);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentLost(AgentLoss::Protocol)));
}

/// The same under one id, while the first still runs: some wait for it, the rest is refused.
#[test]
fn a_storm_of_one_call_runs_once() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("bye");
    for _ in 0..337 {
        stage.calls_tool("provider-1", "hangup_call", "{}");
    }
    stage.runs_tools().done("bye");
    assert_eq!((answers(&stage).len(), stage.audits().len()), (337, 337));
    assert_eq!(stage.ran(), ["hangup_call"]);
}

/// However a model goes in circles, the caller does not listen to silence for ever: refusals, and old
/// results, are no sign of life.
#[test]
fn a_model_that_only_calls_tools_counts_as_silent() {
    // Short ids are counters, so a call that comes again under one is the same call.
    for (name, prefix) in [("nonsense", "provider-"), ("look_up", "provider-"), ("look_up", "")] {
        let mut stage = Stage::with_tools([look_up()]);
        stage.caller_tells("Hello?");
        for n in 0..100 {
            let before = stage.ran().len();
            stage.only_calls(&format!("{prefix}{n}"), name, "{}");
            if stage.ran().len() > before {
                stage.finishes(name, ToolOutcome::done("", json!(1)));
            }
            stage.after(500);
            if stage.ended().is_some() || stage.notes().iter().any(|note| matches!(note, Note::Failing(_))) {
                break;
            }
        }
        stage.after(20_000);
        assert_eq!(stage.end_reason(), Some(EndReason::AgentSilent), "{name}");
        assert!(stage.ended().unwrap().0.as_secs() < 45, "{name}: {:?}", stage.ended());
    }
}

/// A fast one is not waited for until its time is over.
#[test]
fn a_model_that_goes_in_circles_at_once_is_stopped_after_a_few_rounds() {
    let mut stage = Stage::with_tools([look_up()]);
    stage.caller_tells("Hello?");
    for n in 0..100 {
        stage.only_calls(&format!("provider-{n}"), "nonsense", "{}").after(5);
    }
    assert!(stage.answers().len() < 25, "{}", stage.answers().len());
    assert!(stage.notes().iter().any(|note| matches!(note, Note::Dialling(_))), "another agent is asked for");
}

/// P11: a call without name and id cannot be answered.
#[test]
fn a_call_without_name_and_id_is_skipped() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("r").calls_tool("", "", "{}").calls_tool("c1", "", "{}").done("r");
    let answers = answers(&stage);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].1.contains("VALIDATION"));
    assert!(stage.notes().iter().any(|note| matches!(note, Note::ActionRefused(_))));
}

/// P answer 6: a call that comes again under its id does not run again.
#[test]
fn a_repeated_call_runs_once() {
    let mut stage = Stage::with_tools([look_up()]);
    stage.caller_tells("Hello?").starts("r").calls_tool("provider-1", "look_up", "{}");
    stage.calls_tool("provider-1", "look_up", "{}").done("r");
    let act = ToolOutcome::act("Found.", CallAction::SayNextTurn { message: "Offer more.".into() });
    stage.after(200).finishes("look_up", act).only_calls("provider-1", "look_up", "{}").reply("r2", 300);
    assert_eq!(stage.ran(), ["look_up"]);
    let replayed: Vec<_> =
        stage.answers().iter().map(|(_, envelope, _)| envelope["meta"]["replayed"] == true).collect();
    assert_eq!(replayed, [false, true, true]);
    assert_eq!(stage.told_to_say(), ["Offer more."], "once");
}

/// An outcome that comes when the caller has gone goes nowhere; the call has its line.
#[test]
fn an_outcome_after_the_end_goes_nowhere() {
    let mut stage = Stage::with_tools([look_up()]);
    stage.caller_tells("Hello?").only_calls("provider-1", "look_up", "{}").leg(LegEvent::CallerLeft);
    let seen = stage.seen.len();
    stage.finishes("look_up", ToolOutcome::done("", json!(1))).after(1_000);
    assert_eq!(stage.seen.len(), seen);
    assert!(stage.audits()[0].cancelled);
}

/// A tool that the model does not wait for is answered at once; the outcome has its line later.
#[test]
fn a_dispatched_tool_is_answered_at_once() {
    let tool = offhook_core::tool::ToolSpec { wait: false, ..approved_tool("notify") };
    let mut stage = Stage::with_tools([tool]);
    stage.caller_tells("Tell them.").only_calls("provider-1", "notify", "{}");
    assert_eq!((&stage.answer()["data"], stage.answers()[0].2), (&json!({ "status": "dispatched" }), Reply::Wanted));
    assert!(stage.audits().is_empty());
    stage.agent_tells("r", "Done.").finishes("notify", ToolOutcome::failed(ToolError::Transient, "later"));
    assert_eq!((stage.answers().len(), stage.audits()[0].error()), (1, Some(ToolError::Transient)));
}

/// It too has its limit.
#[test]
fn a_dispatched_tool_does_not_run_for_ever() {
    let tool = offhook_core::tool::ToolSpec { wait: false, ..approved_tool("notify") };
    let mut stage = Stage::with_tools([tool]);
    stage.caller_tells("Tell them.").only_calls("provider-1", "notify", "{}").agent_tells("r", "Done.").after(10_000);
    assert_eq!(stage.audits()[0].error(), Some(ToolError::Timeout));
    assert!(stage.seen.iter().any(|(_, output)| matches!(output, Output::CancelTool { .. })));
    assert_eq!(stage.answers().len(), 1);
}

/// M23, M24: a provider that carries 2 KiB and no data is told message, status and flags of a large result.
#[test]
fn a_provider_is_told_what_it_bears() {
    let agent = AgentTraits { answer_bytes_max: Some(2048), forwards_data: false, ..AGENT };
    let opening = Opening { caller_known: true, answers: agent.answer_limits(), ..Opening::default() };
    let mut stage = Stage::by(agent, rules(), [look_up()], PolicyRules::default(), opening);
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 300).after(400);
    stage.caller_tells("When?").only_calls("provider-1", "look_up", "{}");
    let rows: Vec<_> = (0..500).map(|row| json!({ "row": [{ "planted": row }] })).collect();
    let data = json!({ "rows": rows, "status": "success", "will_hangup": false });
    stage.finishes("look_up", ToolOutcome::done("At nine.", data));
    let (_, output, _) = answers(&stage).remove(0);
    assert!(output.len() <= 2048 && !output.contains("planted"), "{output}");
    let told = stage.answer();
    assert_eq!(
        (&told["message"], &told["data"]),
        (&json!("At nine."), &json!({ "status": "success", "will_hangup": false }))
    );
}

// ---- What tools ask of the call (P20, P27, P28) ----

fn acts(actions: Vec<CallAction>) -> ToolOutcome {
    ToolOutcome::Done(Done { actions, ..Done::default() })
}

/// A call of `act` during a response, with this outcome while it is still under way or after it.
fn acting(actions: Vec<CallAction>, during: bool) -> Stage {
    let mut stage = Stage::with_tools([approved_tool("act")]);
    stage.caller_tells("Hello?").starts("r").calls_tool("provider-1", "act", "{}");
    if during {
        stage.finishes("act", acts(actions)).done("r");
    } else {
        stage.done("r").finishes("act", acts(actions));
    }
    stage
}

/// P28: held audio is not heard until the agent's turn is over, is not asked for again, and its
/// silence is nobody's fault.
#[test]
fn held_audio_is_not_heard_and_not_missed() {
    for during in [true, false] {
        let mut stage = acting(vec![CallAction::HoldAudio(true)], during);
        assert_eq!(answers(&stage)[0].2, Reply::Wanted);
        stage.reply("held", 1_000).after(1_500);
        assert_eq!(stage.voice_ms(), 500, "the greeting alone");
        assert!(stage.measures().contains(&Measure::StaleAudio(8_000)));
        assert!(stage.told_to_say().is_empty(), "{:?}", stage.told_to_say());
        stage.after(30_000);
        assert!(stage.ended().is_none());
        stage.reply("next", 400).after(500);
        assert_eq!(stage.voice_ms(), 900, "the turn is over");
    }
}

/// P28: an interruption ends the hold as well.
#[test]
fn a_caller_who_speaks_is_answered_aloud() {
    let mut stage = acting(vec![CallAction::HoldAudio(true)], false);
    stage.caller_tells("Hello?").reply("r2", 400).after(500);
    assert_eq!(stage.voice_ms(), 900);
}

/// P28: hidden words are in no record, until the agent's turn is over; the caller's are kept.
#[test]
fn hidden_words_are_not_kept() {
    let mut stage = acting(vec![CallAction::HideTranscript(true)], false);
    let words = |stage: &Stage, speaker| {
        let said = |note: &&Note| matches!(note, Note::Said { speaker: known, .. } if *known == speaker);
        stage.notes().iter().filter(|note| said(note)).count()
    };
    stage.starts("r2").hears(Speaker::Agent, "hidden").speaks("r2", 300).done("r2").after(400);
    assert_eq!((words(&stage, Speaker::Agent), stage.voice_ms()), (0, 800));
    stage.starts("r3").hears(Speaker::Agent, "kept").done("r3");
    assert_eq!((words(&stage, Speaker::Agent), words(&stage, Speaker::Caller)), (1, 1));
}

/// SET_PENDING_MESSAGE: said when the turn is over, once.
#[test]
fn what_is_to_be_said_next_is_said_after_the_turn() {
    for during in [true, false] {
        let mut stage = acting(vec![CallAction::SayNextTurn { message: "Offer help.".into() }], during);
        assert!(stage.told_to_say().is_empty(), "the answer comes first");
        stage.reply("r2", 300);
        assert_eq!(stage.told_to_say(), ["Offer help."]);
        stage.after(400).reply("r3", 300).after(400);
        assert_eq!(stage.told_to_say().len(), 1);
    }
}

fn end(after: After, closing: Option<&str>) -> Vec<CallAction> {
    vec![CallAction::EndCall { after, reason: "task_complete".into(), closing: closing.map(str::to_owned) }]
}

/// P20: `immediate` cuts off what is being said.
#[test]
fn a_call_can_end_at_once() {
    let mut stage = Stage::with_tools([approved_tool("act")]);
    stage.caller_tells("Hello?").starts("r").speaks("r", 5_000).calls_tool("provider-1", "act", "{}").after(200);
    stage.finishes("act", acts(end(After::Immediate, Some("Bye."))));
    assert_eq!((stage.leg_commands(), stage.end_reason()), (vec![&LegCommand::HangUp], Some(EndReason::AgentHungUp)));
}

/// P20: with a closing message the agent says that last, and only that.
#[test]
fn a_closing_message_is_the_last_word() {
    for during in [true, false] {
        let mut stage = acting(end(After::CurrentTurn, Some("Goodbye and thank you.")), during);
        assert_eq!(answers(&stage)[0].2, Reply::NotNow);
        assert_eq!(stage.told_to_say(), ["Goodbye and thank you."]);
        stage.after(700).reply("bye", 500).after(400);
        assert!(stage.ended().is_none());
        stage.after(500);
        assert_eq!((stage.end_reason(), stage.voice_ms()), (Some(EndReason::AgentHungUp), 1_000));
    }
}

/// A closing message is heard even from an agent whose words were held back.
#[test]
fn a_closing_message_is_not_held() {
    let actions = [vec![CallAction::HoldAudio(true)], end(After::CurrentTurn, Some("Goodbye."))].concat();
    let mut stage = acting(actions, true);
    stage.reply("bye", 500).after(1_500);
    assert_eq!((stage.end_reason(), stage.voice_ms()), (Some(EndReason::AgentHungUp), 1_000));
}

/// P20, P answer 10: a tool that failed has asked for nothing, whatever came before.
#[test]
fn a_failure_ends_nothing() {
    let mut stage = Stage::with_tools([approved_tool("act")]);
    stage.caller_tells("Hello?").only_calls("provider-1", "act", "{}");
    stage.finishes("act", ToolOutcome::failed(ToolError::Permanent, "no")).after(200);
    assert_eq!(answers(&stage)[0].2, Reply::Wanted);
    assert!(stage.ended().is_none() && stage.leg_commands().is_empty());
}

/// G answer 8: a wish that needs a person takes the caller to one, after the agent's words.
#[test]
fn a_deferral_can_transfer() {
    use offhook_core::tool::{ToolSpec, policy::OnDefer};
    let policy = PolicyRules { on_defer: OnDefer::Transfer("sales".into()), ..PolicyRules::default() };
    let mystery = ToolSpec::new("mystery", "Unclassified.", json!({ "type": "object" }));
    let mut stage = Stage::cast(rules(), [mystery], policy, Opening::default());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 300).after(400);
    stage.caller_tells("Do it.").only_calls("provider-1", "mystery", "{}");
    assert!(answers(&stage)[0].1.contains("DEFERRED"));
    stage.after(500).reply("moment", 300).after(700);
    assert_eq!(stage.leg_commands(), [&LegCommand::Transfer { destination: "sales".into() }]);
}

/// P6: a call begins active and in voice mode, with nothing held, hidden, pending or ended.
#[test]
fn a_call_begins_with_nothing_pending() {
    let mut stage = Stage::cast(rules(), [look_up()], PolicyRules::default(), Opening::default());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).starts("greeting").hears(Speaker::Agent, "Hello.");
    stage.speaks("greeting", 300).done("greeting").after(400);
    assert_eq!(stage.voice_ms(), 300, "its audio is heard");
    assert!(stage.notes().iter().any(|note| matches!(note, Note::Said { .. })), "its words are kept");
    assert!(stage.told_to_say().is_empty() && stage.ended().is_none() && stage.leg_commands().is_empty());
    stage.caller_tells("Hello?").only_calls("provider-1", "look_up", "{}");
    assert_eq!(stage.ran(), ["look_up"]);
    stage.finishes("look_up", ToolOutcome::done("", json!(1)));
    assert_eq!((stage.audits()[0].mode, stage.audits()[0].turn), ("voice", 1));
}

/// P7: until the provider's session is ready no tool runs; afterwards the same call does.
#[test]
fn no_tool_runs_before_the_agent_is_ready() {
    let mut stage = Stage::cast(rules(), [look_up()], PolicyRules::default(), Opening::default());
    stage.leg(LegEvent::Up).only_calls("provider-1", "look_up", "{}");
    assert_eq!((stage.ran().len(), &stage.answer()["error"]["type"]), (0, &json!("SESSION_INACTIVE")));
    stage.agent(AgentEvent::Ready).only_calls("provider-2", "look_up", "{}");
    assert_eq!(stage.ran(), ["look_up"]);
}

/// P answer 14: what may work later is told so; whether it is tried again is the model's to say.
#[test]
fn a_failure_is_not_tried_again_by_itself() {
    let mut stage = Stage::with_tools([look_up()]);
    stage.caller_tells("Hello?").only_calls("provider-1", "look_up", "{}");
    let failure = Failure { retryable: true, ..Failure::new(ToolError::Transient, "Try later.") };
    stage.finishes("look_up", ToolOutcome::Failed(failure)).after(3_000);
    assert_eq!((stage.ran().len(), &stage.answer()["error"]["retryable"]), (1, &json!(true)));
}

/// An operator's end leaves no answer behind.
#[test]
fn an_operator_can_end_a_call_in_the_middle_of_a_tool() {
    let mut stage = Stage::with_tools([look_up()]);
    stage.caller_tells("Hello?").only_calls("provider-1", "look_up", "{}");
    stage.input(Input::EndNow { reason: EndReason::OperatorEnded, account: None });
    assert_eq!(stage.end_reason(), Some(EndReason::OperatorEnded));
    assert!(stage.audits()[0].cancelled && stage.answers().is_empty());
}

/// D answer 16: `respond` with `immediate: true`.
#[test]
fn a_tool_that_still_runs_can_have_the_agent_say_something() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("r").calls_tool("c1", "hangup_call", "{}").done("r");
    stage.input(Input::Say("One moment, please.".into()));
    assert_eq!(stage.commands().last(), Some(&&AgentCommand::Say { text: "One moment, please.".into() }));
    assert!(answers(&stage).is_empty(), "the tool still runs");
}
