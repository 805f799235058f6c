//! A caller on the way to somebody else: what is heard meanwhile, on both sides, and the ways back.

use crate::call::stage::{AGENT, APOLOGY, MENU, MOMENT, Stage, clips, rules, spoken};
use bytes::Bytes;
use offhook_core::{
    audio::{Clip, Format, RingBack, RingTone},
    call::{
        AgentCommand, AgentEvent, AgentLoss, CallRules, Clips, EndReason, Exit, Initiator, Input, LastResort,
        LegCommand, LegEvent, Next, Note, OnFailure, Output, Successor, TransferFault, TransferTarget,
    },
    tool::{CallAction, ToolOutcome},
};
use std::{sync::Arc, time::Duration};

const LIMIT: Duration = Duration::from_secs(25);

/// A call whose agent has said its last words, and whose destination is being called.
fn dialling(rules: CallRules) -> Stage {
    on_the_way(Stage::answered(rules))
}

fn on_the_way(mut stage: Stage) -> Stage {
    stage.reply("greeting", 500).after(600);
    stage.starts("r").speaks("r", 200).calls_tool("c1", "transfer", r#"{"destination":"sales"}"#);
    stage.runs_tools().done("r").after(1_000);
    assert_eq!(stage.leg_commands(), [&LegCommand::Transfer { destination: "sales".into() }]);
    stage.leg(LegEvent::Dialling { limit: LIMIT });
    stage.seen.clear();
    stage
}

/// The same where callers hear this instead of ringing.
fn with_music(music: Arc<Clip>) -> Stage {
    let mut stage = Stage::speaking(AGENT, rules(), Clips { ring_music: Some(music), ..clips() });
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready);
    on_the_way(stage)
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

fn of_transfers(stage: &Stage) -> Vec<Note> {
    let told = |note: &&Note| matches!(note, Note::Transferring { .. } | Note::Transferred | Note::TransferFailed(_));
    stage.notes().into_iter().filter(told).cloned().collect()
}

/// A transfer's record: by whom, where to, and what became of it.
#[test]
fn every_way_to_somebody_else_is_told_with_its_cause_its_place_and_its_end() {
    let sales = || TransferTarget::Destination("sales".into());
    let office = || TransferTarget::Mailbox("office".into());
    let lost = |on_failure, last_resort| {
        let clips = Clips { menu: Some(spoken("Press one.", MENU)), ..clips() };
        let mut stage = Stage::speaking(AGENT, CallRules { on_failure, last_resort, ..rules() }, clips);
        stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("hello", 300).after(400);
        stage.agent(AgentEvent::Lost(AgentLoss::Closed)).after(900);
        stage
    };
    let by_agent = || {
        let mut stage = Stage::greeted();
        asks(&mut stage, CallAction::Transfer { destination: "sales".into() });
        stage
    };
    let by_operator = || {
        let mut stage = Stage::greeted();
        stage.input(Input::Transfer { destination: "sales".into(), account: "ada".into() }).after(1_000);
        stage
    };
    let on_failure = || {
        let mut stage = lost(OnFailure::Transfer("sales".into()), None);
        stage.after(7_000);
        stage
    };
    let by_key = || {
        let keys = [('2', Exit::Voicemail("office".into()))].into();
        let mut stage = lost(OnFailure::HangUp, Some(LastResort { keys, rounds: 1, wait: Duration::from_secs(5) }));
        stage.leg(LegEvent::Digit('2'));
        stage
    };
    let ways: [(&dyn Fn() -> Stage, TransferTarget, Initiator); 4] = [
        (&by_agent, sales(), Initiator::Agent),
        (&by_operator, sales(), Initiator::Operator("ada".into())),
        (&on_failure, sales(), Initiator::OnFailure),
        (&by_key, office(), Initiator::Menu),
    ];
    for (way, to, by) in ways {
        let sent = Note::Transferring { to, by };
        let mut arrived = way();
        arrived.leg(LegEvent::Transferred);
        assert_eq!(of_transfers(&arrived), [sent.clone(), Note::Transferred]);
        let mut failed = way();
        failed.leg(LegEvent::TransferFailed(TransferFault::Busy));
        assert_eq!(of_transfers(&failed), [sent, Note::TransferFailed(TransferFault::Busy)]);
    }
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

/// 130 ms of samples of which no two neighbours are alike; 10 ms of the seventh frame are its beginning again.
#[test]
fn music_is_heard_in_place_of_the_tone_without_a_gap_until_the_caller_is_back() {
    let samples: Vec<i16> = (0..1_040u16).map(|i| (i * 37 % 97) as i16 * 200 - 9_000).collect();
    let music = Clip::from_samples(8_000, samples).unwrap();
    let sound = music.render(Format::ULAW);
    assert_eq!(sound.len(), 1_040);
    let mut stage = with_music(Arc::new(music));
    stage.leg(LegEvent::Ringing).after(8_000);
    let heard = frames(&stage).concat();
    let begins = heard.iter().position(|byte| *byte != 0xff).expect("it is heard");
    assert!(begins <= 160, "at once: {begins}");
    let looped = sound.iter().cycle().take(heard.len() - begins);
    assert!(heard[begins..].iter().eq(looped), "sample by sample");
    assert!(heard.len() >= 399 * 160);
    stage.leg(LegEvent::TransferFailed(TransferFault::NoAnswer));
    stage.seen.clear();
    stage.after(500);
    assert!(frames(&stage).iter().flatten().all(|byte| *byte == 0xff), "not after it");
    stage.reply("sorry", 400).after(1_000);
    assert_eq!(stage.voice_ms(), 400);
}

#[test]
fn music_ends_when_somebody_answers_and_makes_place_for_the_apology() {
    let rings = || {
        let mut stage = with_music(spoken("Music", 0x41).clip);
        stage.leg(LegEvent::Ringing).after(1_000);
        assert!(stage.heard(0x41).len() >= 48);
        stage
    };
    let mut answered = rings();
    answered.leg(LegEvent::Transferred);
    assert_eq!(answered.end_reason(), Some(EndReason::Transferred));
    let mut nobody = rings();
    nobody.agent(AgentEvent::Lost(AgentLoss::Closed)).input(Input::Next(Next::Nobody)).after(500);
    assert!(nobody.heard(APOLOGY).is_empty(), "the music goes on as long as it rings");
    nobody.leg(LegEvent::TransferFailed(TransferFault::NoAnswer));
    let music = nobody.heard(0x41).len();
    nobody.after(1_000);
    assert_eq!((nobody.heard(0x41).len(), nobody.heard(APOLOGY).len()), (music, 30));
}

/// However long it rang.
#[test]
fn a_caller_who_is_back_with_the_agent_is_asked_for_a_moment_as_late_as_any_other() {
    let mut stage = Stage::speaking(AGENT, rules(), clips());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready);
    let mut stage = on_the_way(stage);
    stage.leg(LegEvent::Ringing).after(5_000).leg(LegEvent::TransferFailed(TransferFault::NoAnswer));
    let back = stage.elapsed();
    stage.after(3_000);
    let asked = stage.heard(MOMENT)[0] - back;
    assert!(asked >= rules().quiet_max, "{asked:?}");
}

/// A call whose agent is lost while its destination rings.
fn lost_while_it_rings() -> Stage {
    let mut stage = dialling(rules());
    stage.understudies.push_back(Successor { provider: "other".into(), agent: AGENT, resumes: false });
    stage.leg(LegEvent::Ringing).after(1_000).agent(AgentEvent::Lost(AgentLoss::Closed));
    stage
}

fn ready(stage: &mut Stage) -> &mut Stage {
    stage.input(Input::Next(Next::Event(AgentEvent::Ready)))
}

#[test]
fn an_agent_that_is_lost_while_it_rings_ends_neither_the_ringing_nor_the_transfer() {
    for another_comes in [true, false] {
        let mut stage = lost_while_it_rings();
        stage.after(1_000);
        if another_comes {
            ready(&mut stage);
        } else {
            stage.input(Input::Next(Next::Nobody));
        }
        stage.after(3_000);
        let mut ring = RingBack::new(RingTone::default(), Format::ULAW);
        let heard = frames(&stage);
        assert!(heard.len() >= 249, "a frame in every slot: {}", heard.len());
        assert!(heard.iter().all(|frame| *frame == ring.frame()), "nothing but ringing");
        assert!(stage.leg_commands().is_empty() && stage.told().is_empty(), "nobody is disturbed");
        stage.leg(LegEvent::Transferred);
        assert_eq!(stage.end_reason(), Some(EndReason::Transferred));
    }
}

#[test]
fn where_nobody_answers_the_agent_that_came_meanwhile_or_comes_then_carries_the_call_on() {
    for before in [true, false] {
        let mut stage = lost_while_it_rings();
        if before {
            ready(&mut stage);
        }
        stage.after(2_000).leg(LegEvent::TransferFailed(TransferFault::NoAnswer)).after(500);
        if !before {
            ready(&mut stage);
        }
        let why = |command: &&AgentCommand| match command {
            AgentCommand::Say { text } | AgentCommand::Tell { text, .. } => text.contains("nobody answered"),
            _ => false,
        };
        assert_eq!(stage.commands().into_iter().filter(why).count(), 1, "before: {before}: {:?}", stage.commands());
        stage.seen.clear();
        stage.reply("sorry", 400).after(1_000);
        assert_eq!((stage.voice_ms(), stage.end_reason()), (400, None), "before: {before}");
        stage.caller_says(300).reply("answer", 500).after(1_000);
        assert_eq!(stage.voice_ms(), 900, "before: {before}");
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
    use offhook_core::call::are_keys;
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
