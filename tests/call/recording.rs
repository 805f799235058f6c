//! What of a call's sound may be kept, and from when on.

use crate::call::stage::{AGENT, APOLOGY, NOTICE, Stage, approved_tool, clips, rules, spoken};
use offhook_core::{
    call::{AgentEvent, AgentLoss, CallRules, Clips, Exit, LastResort, LegCommand, LegEvent, Note, Output, Recording},
    tool::{DigitPlan, DigitPurpose, ToolOutcome},
};
use std::time::Duration;

fn recorded() -> CallRules {
    CallRules { recording: true, no_input_after: Duration::from_secs(3_600), ..rules() }
}

fn with_notice() -> Clips {
    Clips { notice: Some(spoken("This call is recorded.", NOTICE)), ..clips() }
}

/// What may be kept, with the first slot for which that holds, in milliseconds since the beginning.
fn kept(stage: &Stage) -> Vec<(Recording, u64)> {
    let outputs = stage.seen.iter().enumerate();
    let told = outputs.filter_map(|(index, (_, output))| match output {
        Output::Note(Note::Recording(state)) => Some((*state, index)),
        _ => None,
    });
    let is_slot = |output: &Output| matches!(output, Output::ToLeg(LegCommand::Play(_)));
    let slot_after = |index: usize| stage.seen[index..].iter().find(|(_, output)| is_slot(output));
    told.map(|(state, index)| (state, slot_after(index).map_or(u64::MAX, |(at, _)| at.as_millis() as u64))).collect()
}

fn states(stage: &Stage) -> Vec<Recording> {
    kept(stage).into_iter().map(|(state, _)| state).collect()
}

/// The consent sentence lasts 600 ms.
#[test]
fn nothing_of_the_caller_is_kept_before_the_notice_was_heard() {
    let mut stage = Stage::speaking(AGENT, recorded(), with_notice());
    stage.after(400);
    assert_eq!(kept(&stage), [], "nobody is on the line yet");
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).after(2_000);
    assert_eq!(kept(&stage), [(Recording::Notice, 400), (Recording::On, 1_000)]);
    let notice = stage.heard(NOTICE);
    assert_eq!((notice.len(), notice[29].as_millis()), (30, 980), "to its end");
}

/// A caller on hold may talk with somebody else, who is told of no recording.
#[test]
fn nothing_of_a_call_on_hold_is_kept() {
    let mut stage = Stage::speaking(AGENT, recorded(), clips());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).after(1_000);
    stage.leg(LegEvent::Held(true)).after(5_000).leg(LegEvent::Held(false)).after(1_000);
    assert_eq!(states(&stage), [Recording::On, Recording::Private, Recording::On]);
}

#[test]
fn without_a_notice_it_begins_with_the_first_slot_and_elsewhere_not_at_all() {
    let mut stage = Stage::speaking(AGENT, recorded(), clips());
    stage.leg(LegEvent::Up).after(1_000);
    assert_eq!(kept(&stage), [(Recording::On, 0)]);
    let mut stage = Stage::speaking(AGENT, rules(), with_notice());
    stage.leg(LegEvent::Up).after(1_000);
    assert_eq!(kept(&stage), []);
}

/// Who chooses from the menu in the middle of the notice has not heard it.
#[test]
fn a_notice_that_was_cut_off_counts_as_not_heard() {
    let keys = [('1', Exit::Transfer("sales".into()))].into();
    let last_resort = Some(LastResort { keys, rounds: 1, wait: Duration::from_secs(5) });
    let menu = Some(spoken("Press 1.", 0x24));
    let mut stage = Stage::speaking(AGENT, CallRules { last_resort, ..recorded() }, Clips { menu, ..with_notice() });
    stage.leg(LegEvent::Up).agent(AgentEvent::Lost(AgentLoss::Protocol)).after(200);
    stage.leg(LegEvent::Digit('1')).after(2_000);
    assert!(stage.ended().is_none() && stage.heard(APOLOGY).is_empty(), "the caller waits for somebody");
    assert_eq!(states(&stage), [Recording::Notice]);
}

fn collecting(purpose: DigitPurpose) -> Stage {
    let mut stage = Stage::speaking(AGENT, recorded(), clips());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 500).after(600);
    let plan = DigitPlan {
        prompt: Some("Ask for the number.".into()),
        min: 4,
        max: 4,
        terminator: None,
        timeout: Duration::from_secs(5),
        purpose,
    };
    stage.only_calls("provider-1", "slow", "{}").finishes("slow", ToolOutcome::Collect(plan));
    stage.reply("question", 500).after(1_000);
    for key in "2468".chars() {
        stage.leg(LegEvent::Digit(key)).after(100);
    }
    stage.after(4_000);
    stage
}

/// The call begins at 0, the question is put at 600 ms, the keys come from 1,600 ms on; for two seconds after the last of
/// them a caller types on who does not know that it was the last.
#[test]
fn what_is_typed_for_tools_alone_is_not_kept_nor_what_is_said_meanwhile() {
    for purpose in [DigitPurpose::Secure, DigitPurpose::Pin] {
        let stage = collecting(purpose);
        let [(Recording::On, 0), (Recording::Private, from), (Recording::On, until)] = kept(&stage)[..] else {
            panic!("{:?}", kept(&stage));
        };
        assert!((600..=620).contains(&from) && (3_900..=3_940).contains(&until), "from {from} until {until}");
    }
    assert_eq!(states(&collecting(DigitPurpose::Plain)), [Recording::On]);
}

#[test]
fn it_follows_the_context_that_has_the_call() {
    let mut stage = Stage::speaking(AGENT, recorded(), clips());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).after(990);
    stage.hands_over_under(rules(), "billing", [approved_tool("refund")]).after(1_000);
    stage.agent(AgentEvent::Ready).hands_over_under(recorded(), "sales", []).after(1_000);
    assert_eq!(kept(&stage), [(Recording::On, 0), (Recording::Off, 1_000), (Recording::On, 2_000)]);
}

#[test]
fn a_context_that_records_says_so_when_it_takes_over_from_one_that_does_not() {
    for (first, expected) in
        [(rules(), &[(Recording::Notice, 1_000), (Recording::On, 1_600)][..]), (recorded(), &[(Recording::On, 0)])]
    {
        let mut stage = Stage::speaking(AGENT, first, clips());
        stage.leg(LegEvent::Up).agent(AgentEvent::Ready).after(990);
        stage.hands_over_with(recorded(), with_notice()).after(1_000);
        assert_eq!(kept(&stage), expected);
    }
}

#[test]
fn a_caller_who_does_not_want_it_is_not_recorded_any_more_by_whomever() {
    let mut stage = Stage::speaking(AGENT, recorded(), clips());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).after(990);
    stage.only_calls("provider-1", "stop_recording", "{}").runs_tools();
    assert_eq!(stage.answer()["intents"][0]["type"], "STOP_RECORDING");
    stage.after(1_000).hands_over_under(recorded(), "billing", []).after(1_000);
    assert_eq!(kept(&stage), [(Recording::On, 0), (Recording::Discarded, 1_000)]);
}
