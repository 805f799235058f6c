//! A caller on the way to somebody else: what is heard meanwhile, on both sides, and the ways back.

use crate::stage::{Stage, rules};
use bytes::Bytes;
use offhook::{
    audio::{Format, RingBack, RingTone},
    call::{AgentCommand, CallRules, EndReason, LegCommand, LegEvent, Note, Output, TransferFault},
    tool::{CallAction, ToolOutcome},
};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(25);

/// A call whose agent has said its last words, and whose destination is being called.
fn dialling(rules: CallRules) -> Stage {
    let mut stage = Stage::answered(rules);
    stage.reply("greeting", 500).after(600);
    stage.starts("r").speaks("r", 200).calls_tool("c1", "transfer", r#"{"destination":"sales"}"#);
    stage.runs_tools().done("r").after(1_000);
    assert_eq!(stage.leg_commands(), [&LegCommand::Transfer { destination: "sales".into() }]);
    stage.leg(LegEvent::Dialling { limit: LIMIT });
    stage.seen.clear();
    stage
}

fn frames(stage: &Stage) -> Vec<Bytes> {
    let frame = |output: &Output| match output {
        Output::ToLeg(LegCommand::Play(frame)) => Some(frame.clone()),
        _ => None,
    };
    stage.seen.iter().filter_map(|(_, output)| frame(output)).collect()
}

/// An agent's turn that asks for this action.
fn asks(stage: &mut Stage, action: CallAction) {
    stage.starts("r").speaks("r", 200).calls_tool("c1", "hangup_call", "{}");
    stage.finishes("hangup_call", ToolOutcome::act("Yes.", action));
    stage.done("r").after(1_000);
}

#[test]
fn ringing_is_heard_from_the_moment_it_rings_in_the_configured_tone() {
    for tone in RingTone::ALL {
        let mut stage = dialling(CallRules { ring_tone: tone, ..rules() });
        stage.after(200);
        assert!(frames(&stage).iter().all(|frame| frame.iter().all(|byte| *byte == 0xff)), "not before");
        stage.seen.clear();
        stage.leg(LegEvent::Ringing).after(8_000);
        let mut ring = RingBack::new(tone, Format::ULAW);
        let heard = frames(&stage);
        assert!(heard.len() >= 399, "a frame in every slot: {}", heard.len());
        assert!(heard.iter().all(|frame| *frame == ring.frame()), "{tone:?}");
    }
}

#[test]
fn what_the_caller_says_to_the_ringing_is_silence_for_the_agent() {
    let mut stage = dialling(rules());
    for _ in 0..50 {
        stage.leg(LegEvent::Audio(Bytes::from_static(&[7; 160]))).after(20);
    }
    assert!(stage.commands().is_empty(), "{:?}", stage.commands());
    assert!(stage.fillers() >= 50, "the agent's own clock goes on");
}

#[test]
fn what_an_agent_says_to_the_ringing_is_not_heard_then_or_later() {
    let mut stage = dialling(rules());
    stage.leg(LegEvent::Ringing).reply("late", 2_000).after(1_000);
    stage.leg(LegEvent::TransferFailed(TransferFault::NoAnswer)).after(3_000);
    assert_eq!(stage.voice_ms(), 0);
}

#[test]
fn an_agent_whose_caller_comes_back_is_told_why_and_is_heard_at_once() {
    for (fault, words) in [
        (TransferFault::NoAnswer, "nobody answered"),
        (TransferFault::Busy, "busy"),
        (TransferFault::Refused, "not accepted"),
        (TransferFault::Unreachable, "cannot be reached"),
    ] {
        let mut stage = dialling(rules());
        stage.leg(LegEvent::Ringing).after(LIMIT.as_millis() as u64);
        stage.leg(LegEvent::TransferFailed(fault));
        assert!(stage.notes().contains(&&Note::TransferFailed(fault)));
        let Some(AgentCommand::Say { text }) = stage.commands().last().copied() else { panic!("nothing to say") };
        assert!(text.contains(words) && text.contains("something else"), "{text}");
        stage.seen.clear();
        stage.reply("sorry", 400).after(1_000);
        assert_eq!(stage.voice_ms(), 400);
        let caller = Bytes::from_static(&[7; 160]);
        stage.leg(LegEvent::Audio(caller.clone()));
        assert!(stage.commands().contains(&&AgentCommand::Audio(caller)), "the caller is heard again");
        assert!(stage.ended().is_none());
    }
}

#[test]
fn a_destination_that_rings_for_its_whole_limit_is_waited_for_and_one_that_is_silent_is_not() {
    let mut stage = dialling(rules());
    stage.leg(LegEvent::Ringing).after(LIMIT.as_millis() as u64 + 5_000);
    assert!(stage.notes().is_empty(), "the leg's own word is waited for");
    stage.after(6_000);
    assert!(stage.notes().contains(&&Note::TransferFailed(TransferFault::Unreachable)));
    assert!(stage.ended().is_none());
}

#[test]
fn a_caller_who_hangs_up_while_it_rings_hung_up() {
    let mut stage = dialling(rules());
    stage.leg(LegEvent::Ringing).after(500).leg(LegEvent::CallerLeft);
    assert_eq!(stage.end_reason(), Some(EndReason::CallerHungUp));
}

#[test]
fn an_answer_ends_the_call_as_transferred() {
    let mut stage = dialling(rules());
    stage.leg(LegEvent::Ringing).after(500).leg(LegEvent::Transferred);
    assert_eq!(stage.end_reason(), Some(EndReason::Transferred));
}

#[test]
fn a_mailbox_answers_after_the_last_words_and_the_caller_stays_where_there_is_none() {
    let mut stage = Stage::greeted();
    asks(&mut stage, CallAction::Voicemail { mailbox: "office".into() });
    assert_eq!(stage.leg_commands(), [&LegCommand::Voicemail { mailbox: "office".into() }]);
    assert_eq!(stage.voice_ms(), 500 + 200, "all was heard");
    stage.leg(LegEvent::TransferFailed(TransferFault::Unreachable));
    assert!(matches!(stage.commands().last(), Some(AgentCommand::Say { .. })));
    stage.reply("sorry", 400).after(1_000);
    assert!(stage.ended().is_none());
}

#[test]
fn a_caller_who_talks_into_the_way_to_a_mailbox_stays() {
    let mut stage = Stage::greeted();
    stage.starts("r").speaks("r", 2_000).calls_tool("c1", "hangup_call", "{}");
    let outcome = ToolOutcome::act("Yes.", CallAction::Voicemail { mailbox: "office".into() });
    stage.finishes("hangup_call", outcome);
    stage.done("r").after(500).caller_says(400).after(3_000);
    assert!(stage.leg_commands().is_empty());
    assert!(stage.ended().is_none());
}

#[test]
fn keys_are_sent_at_once() {
    let mut stage = Stage::greeted();
    stage.starts("r").calls_tool("c1", "hangup_call", "{}");
    let outcome = ToolOutcome::act("Yes.", CallAction::SendDigits { digits: "12#".into() });
    stage.finishes("hangup_call", outcome);
    assert_eq!(stage.leg_commands(), [&LegCommand::SendDigits { digits: "12#".into() }]);
}

#[test]
fn keys_are_digits_star_hash_letters_and_pauses() {
    use offhook::call::are_keys;
    let most = "1".repeat(32);
    for keys in ["0", "123456789*#ABCD", "1w2ww3", &*most] {
        assert!(are_keys(keys), "{keys}");
    }
    let more = "1".repeat(33);
    for keys in ["", "w", "1 2", "E", "a", "1;2", "１", "1\n", &*more] {
        assert!(!are_keys(keys), "{keys:?}");
    }
}

#[test]
fn an_agent_that_still_speaks_when_the_wait_for_its_last_words_is_over_is_cut_off() {
    let mut stage = Stage::greeted();
    stage.starts("r").speaks("r", 60_000).calls_tool("c1", "transfer", r#"{"destination":"sales"}"#).runs_tools();
    stage.speaks("r", 30_000).after(80_000);
    assert_eq!(stage.leg_commands().len(), 1);
    stage.leg(LegEvent::Dialling { limit: LIMIT }).leg(LegEvent::TransferFailed(TransferFault::Busy));
    stage.seen.clear();
    stage.after(1_000);
    assert_eq!(stage.voice_ms(), 0, "its old words are not heard after the way back");
}
