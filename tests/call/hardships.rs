//! What real lines and real providers do to a call, and what it must not do to the caller.

use crate::call::stage::{Stage, rules};
use bytes::Bytes;
use offhook_core::call::{
    AgentCommand, AgentEvent, AgentLoss, CallRules, EndClass, EndReason, Lapse, LegCommand, LegEvent, Measure, Note,
    Reply, ResponseStatus, TransferFault,
};
use std::time::Duration;

/// A call in which the agent has asked for a transfer and its words were heard.
fn transferring() -> Stage {
    let mut stage = Stage::greeted();
    stage.starts("r").speaks("r", 200).calls_tool("c1", "transfer", r#"{"destination":"sales"}"#);
    stage.runs_tools().done("r").after(1_000);
    assert_eq!(stage.leg_commands(), [&LegCommand::Transfer { destination: "sales".into() }]);
    stage
}

#[test]
fn a_transfer_that_fails_after_the_audio_path_broke_ends_in_the_dialplan() {
    let mut stage = transferring();
    stage.leg(LegEvent::MediaLost).after(20).leg(LegEvent::TransferFailed(TransferFault::NoAnswer));
    assert_eq!(stage.leg_commands()[1], &LegCommand::ReturnToDialplan { status: "AGENTFAILED" });
    assert_eq!(stage.end_reason(), Some(EndReason::MediaLost));
}

#[test]
fn an_agent_lost_in_a_transfer_that_fails_is_apologised_for() {
    let mut stage = transferring();
    stage.agent(AgentEvent::Lost(AgentLoss::Closed)).leg(LegEvent::TransferFailed(TransferFault::NoAnswer));
    assert!(stage.notes().contains(&&Note::Failing(EndReason::AgentLost(AgentLoss::Closed))));
    stage.after(6_000);
    assert_eq!(stage.leg_commands()[1], &LegCommand::ReturnToDialplan { status: "AGENTFAILED" });
    assert_eq!(stage.end_reason(), Some(EndReason::AgentLost(AgentLoss::Closed)));
}

#[test]
fn a_transfer_nobody_tells_the_outcome_of_is_given_up() {
    let mut stage = transferring();
    stage.leg(LegEvent::MediaLost).after(11_000);
    assert_eq!(stage.end_reason(), Some(EndReason::MediaLost));
}

#[test]
fn the_longest_length_holds_after_a_failed_transfer_too() {
    let mut stage = transferring();
    stage.leg(LegEvent::TransferFailed(TransferFault::NoAnswer)).reply("sorry", 500);
    for turn in 0..200 {
        stage.after(8_000).caller_says(300).reply(&format!("answer {turn}"), 1_000).after(1_700);
    }
    assert_eq!(stage.end_reason(), Some(EndReason::CallTooLong));
}

#[test]
fn the_longest_length_holds_although_minutes_of_speech_are_waiting() {
    let mut stage = Stage::answered(CallRules { call_max: Duration::from_secs(10), ..rules() });
    stage.reply("endless", 280_000).after(10_100);
    assert!(matches!(stage.commands().last().unwrap(), AgentCommand::Say { .. }), "it may say goodbye");
    stage.reply("bye", 800).after(2_000);
    assert_eq!(stage.end_reason(), Some(EndReason::CallTooLong));
}

#[test]
fn a_phone_that_sends_nothing_is_silence_to_the_agent() {
    let mut stage = Stage::greeted();
    stage.leg(LegEvent::Audio(Bytes::from_static(&[7; 160])));
    let before = stage.fillers();
    stage.after(1_000);
    let sent = stage.fillers() - before;
    assert!((49..=50).contains(&sent), "as much as is missing: {sent}");
    let counted = stage.measures().iter().filter(|measure| matches!(measure, Measure::CallerGap)).count();
    assert!(counted >= sent);
}

/// How much of each item the agent was told was heard.
fn told_heard(stage: &Stage) -> Vec<u128> {
    let heard = |command: &&AgentCommand| match command {
        AgentCommand::Interrupt { heard, .. } => Some(heard.as_millis()),
        _ => None,
    };
    stage.commands().iter().filter_map(heard).collect()
}

#[test]
fn what_waits_in_asterisk_when_the_caller_interrupts_is_flushed_and_was_not_heard() {
    let heard = |waits: &[u64]| {
        let mut stage = Stage::greeted();
        stage.starts("r").speaks("r", 5_000).after(1_000);
        for ms in waits {
            stage.leg(LegEvent::Waits(Duration::from_millis(*ms)));
        }
        stage.agent(AgentEvent::CallerSpeechStarted { utterance: None });
        assert_eq!(stage.flushes(), 1);
        told_heard(&stage)
    };
    let [all] = heard(&[])[..] else { panic!("one item") };
    assert!((980..=1_020).contains(&all), "{all} ms");
    assert_eq!(heard(&[60]), [all - 60]);
    assert_eq!(heard(&[900, 20]), [all - 20], "as Asterisk told last");
}

#[test]
fn what_asterisk_threw_away_when_it_was_full_was_not_heard() {
    let mut stage = Stage::greeted();
    stage.starts("r").speaks("r", 30_000).after(20_000).leg(LegEvent::ThrownAway(Duration::from_secs(18)));
    stage.after(1_000).agent(AgentEvent::CallerSpeechStarted { utterance: None });
    let heard = told_heard(&stage);
    assert!(matches!(heard[..], [2_980..=3_020]), "two seconds before it and one after: {heard:?}");
}

#[test]
fn a_phone_that_sends_is_never_filled_in_for() {
    let mut stage = Stage::answered(rules());
    let before = stage.measures().iter().filter(|measure| matches!(measure, Measure::CallerGap)).count();
    for _ in 0..50 {
        stage.after(20).leg(LegEvent::Audio(Bytes::from_static(&[7; 160])));
    }
    let after = stage.measures().iter().filter(|measure| matches!(measure, Measure::CallerGap)).count();
    assert_eq!(before, after);
}

#[test]
fn what_is_held_up_on_its_way_is_heard_without_silence_in_its_middle() {
    let gaps = |stage: &Stage| stage.measures().iter().filter(|measure| matches!(measure, Measure::CallerGap)).count();
    let mut stage = Stage::greeted();
    stage.leg(LegEvent::Audio(Bytes::from_static(&[7; 160])));
    let before = (stage.fillers(), gaps(&stage));
    let burst = |stage: &mut Stage, ms: u64| {
        for _ in 0..ms / 20 {
            stage.leg(LegEvent::Audio(Bytes::from_static(&[7; 160])));
        }
    };
    // By the network, and by the engine itself, which looks at its deadlines first.
    stage.after(140);
    burst(&mut stage, 140);
    stage.stall(400).after(0);
    burst(&mut stage, 400);
    stage.after(100);
    assert_eq!((stage.fillers(), gaps(&stage)), before);
}

#[test]
fn a_turn_whose_end_the_provider_never_tells_does_not_last_for_ever() {
    let mut stage = Stage::greeted();
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }).after(5 * 60_000);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentSilent));
}

#[test]
fn a_caller_who_talks_into_the_goodbye_keeps_the_agent() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("bye").speaks("bye", 3_000).calls_tool("c1", "hangup_call", "{}");
    stage.runs_tools().done("bye").after(500).caller_says(2_000).reply("answer", 1_000).after(5_000);
    assert!(stage.ended().is_none());
    stage
        .starts("bye2")
        .speaks("bye2", 500)
        .calls_tool("c2", "hangup_call", "{}")
        .runs_tools()
        .done("bye2")
        .after(1_500);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentHungUp));
}

#[test]
fn a_caller_who_answers_the_last_prompt_at_last_keeps_the_agent() {
    let mut stage = Stage::answered(CallRules { no_input_prompts: 0, ..rules() });
    stage.reply("greeting", 500).after(13_000).reply("nobody there, goodbye", 2_000).after(500);
    stage.caller_says(1_000).reply("answer", 500).after(3_000);
    assert!(stage.ended().is_none());
}

#[test]
fn a_failed_or_empty_answer_is_asked_for_again_and_then_given_up() {
    for status in [ResponseStatus::Failed, ResponseStatus::Incomplete, ResponseStatus::Completed] {
        let mut stage = Stage::greeted();
        let fails = |stage: &mut Stage, response: &str| {
            stage.starts(response).agent(AgentEvent::ResponseDone { response: response.into(), status });
        };
        stage.caller_says(400);
        fails(&mut stage, "r1");
        let again = ("Your last answer was not heard. Give it again.".into(), Reply::Wanted);
        assert_eq!(
            (stage.told(), stage.told_to_say()),
            (vec![again], vec![]),
            "{status:?}: it is not a sentence to be said"
        );
        fails(&mut stage, "r2");
        assert!(stage.notes().contains(&&Note::Failing(EndReason::AgentSilent)), "{status:?}");
    }
}

/// Half a sentence, and then twelve seconds of nothing: whoever hears an answer break off is told the rest, once.
#[test]
fn an_answer_that_breaks_off_after_its_first_sound_is_gone_on_with_once_a_turn() {
    for status in [ResponseStatus::Failed, ResponseStatus::Incomplete] {
        let mut stage = Stage::greeted();
        let breaks_off = |stage: &mut Stage, response: &str| {
            stage.starts(response).speaks(response, 600);
            stage.agent(AgentEvent::ResponseDone { response: response.into(), status }).after(100);
        };
        stage.caller_says(400);
        breaks_off(&mut stage, "r1");
        assert_eq!(stage.told().len(), 1, "{status:?}");
        assert!(stage.told()[0].0.contains("Go on where it stopped"), "{:?}", stage.told());
        breaks_off(&mut stage, "r2");
        assert_eq!(stage.told().len(), 1, "{status:?}: once a turn");
        assert!(stage.measures().contains(&Measure::AskedAgain(Lapse::BrokeOff)));
        stage.caller_says(400);
        breaks_off(&mut stage, "r3");
        assert_eq!(stage.told().len(), 2, "{status:?}: and again in the next");
    }
}

fn sends_quiet(stage: &mut Stage, response: &str, ms: usize) {
    stage.starts(response);
    for _ in 0..ms / 100 {
        let (response, item) = (response.into(), response.into());
        stage.agent(AgentEvent::Audio { response, item, audio: vec![0xfe; 800].into() });
    }
}

/// Near-silence in place of words, as a vendor sends it now and then.
#[test]
fn an_answer_without_sound_is_noticed_asked_for_again_and_then_given_up() {
    let mut stage = Stage::greeted();
    stage.caller_says(400);
    sends_quiet(&mut stage, "r1", 3_000);
    stage.done("r1");
    assert_eq!(stage.told().len(), 1);
    assert!(stage.measures().contains(&Measure::AskedAgain(Lapse::Soundless)));
    sends_quiet(&mut stage, "r2", 3_000);
    stage.done("r2");
    assert!(stage.notes().contains(&&Note::Failing(EndReason::AgentSilent)));
}

/// A breath is part of what is heard. Of more silence so much is kept, and the voice is not waited for any longer.
#[test]
fn an_answer_may_begin_with_silence() {
    for quiet_ms in [1_000, 4_000] {
        let mut stage = Stage::greeted();
        stage.caller_says(400);
        sends_quiet(&mut stage, "r1", quiet_ms);
        stage.speaks("r1", 500).done("r1").after(2_200);
        assert!(stage.told().is_empty(), "{quiet_ms} ms: {:?}", stage.told());
        assert!(stage.voice_ms() >= 1_000, "{quiet_ms} ms: {}", stage.voice_ms());
    }
}

#[test]
fn a_greeting_that_fails_is_asked_for_again_as_a_greeting() {
    let mut stage = Stage::answered(rules());
    stage.starts("r1");
    stage.agent(AgentEvent::ResponseDone { response: "r1".into(), status: ResponseStatus::Failed });
    let greetings = stage.commands().iter().filter(|command| matches!(command, AgentCommand::Greet { .. })).count();
    assert_eq!(greetings, 2);
}

#[test]
fn an_answer_that_ends_while_the_caller_speaks_is_not_asked_for_again() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("r1").agent(AgentEvent::CallerSpeechStarted { utterance: None });
    stage.agent(AgentEvent::ResponseDone { response: "r1".into(), status: ResponseStatus::Completed });
    assert!(stage.told().is_empty(), "{:?}", stage.told());
}

#[test]
fn a_caller_who_hangs_up_in_the_apology_does_not_hide_whose_fault_it_was() {
    let mut stage = Stage::greeted();
    stage.agent(AgentEvent::Lost(AgentLoss::Quota)).after(500).leg(LegEvent::CallerLeft);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentLost(AgentLoss::Quota)));
    assert_eq!(stage.end_reason().unwrap().class(), EndClass::Provider);
}

#[test]
fn a_caller_who_hangs_up_before_the_transfer_was_not_transferred() {
    let mut stage = Stage::greeted();
    stage.starts("r").speaks("r", 2_000).calls_tool("c1", "transfer", r#"{"destination":"sales"}"#);
    stage.runs_tools().done("r").after(500).leg(LegEvent::CallerLeft);
    assert_eq!(stage.end_reason(), Some(EndReason::CallerHungUp));
}

#[test]
fn audio_that_comes_after_the_end_of_its_answer_is_heard_and_holds_nothing_up() {
    let mut stage = Stage::greeted();
    let before = stage.voice_ms();
    stage.caller_says(300).reply("late", 200).speaks("late", 200).after(13_000);
    assert_eq!(stage.voice_ms() - before, 400);
    assert!(stage.notes().contains(&&Note::NoInputPrompt), "the call goes on as after any answer");
}

#[test]
fn what_an_interruption_throws_away_is_counted() {
    let mut stage = Stage::answered(rules());
    stage.reply("r1", 5_000).after(990).agent(AgentEvent::CallerSpeechStarted { utterance: None });
    assert!(stage.measures().contains(&Measure::Interrupted(4_000 * 8)));
}

/// A leg may hold a frame or two that left already.
#[test]
fn an_interruption_empties_what_holds_the_agents_words_once() {
    let mut stage = Stage::answered(rules());
    stage.reply("r1", 5_000).after(990);
    assert_eq!(stage.flushes(), 0);
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }).after(500);
    assert_eq!(stage.flushes(), 1);
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }).after(500);
    assert_eq!(stage.flushes(), 1, "there is nothing to interrupt any more");
}

#[test]
fn the_apology_is_no_answer_to_measure_the_agent_by() {
    let mut stage = Stage::answered(rules());
    stage.agent(AgentEvent::Lost(AgentLoss::Closed)).after(6_000);
    let measured = |m: &Measure| matches!(m, Measure::FirstAudio(_) | Measure::Turn(_));
    assert!(!stage.measures().iter().any(measured));
    assert!(!stage.notes().contains(&&Note::AgentSpeaks));
}

#[test]
fn a_tool_that_runs_when_the_call_ends_is_cancelled_and_noted() {
    let mut stage = Stage::greeted();
    stage.starts("r").calls_tool("c1", "hangup_call", "{}").leg(LegEvent::CallerLeft);
    assert!(stage.notes().contains(&&Note::ToolCancelled { tool: "hangup_call".into() }));
}
