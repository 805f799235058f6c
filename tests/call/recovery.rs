//! Agents that are lost and replaced, and what the caller hears meanwhile.

use crate::call::stage::{
    AGENT, APOLOGY, GREETING, MENU, MOMENT, NOTICE, PATIENCE, Stage, approved_tool, clips, rules, spoken,
};
use offhook_core::{
    call::{
        AgentCommand, AgentEvent, AgentLoss, CallRules, Clips, Dialling, EndReason, Exit, Input, LastResort,
        LegCommand, LegEvent, Next, Note, Output, Recovery, Reply, Successor,
    },
    tool::ToolOutcome,
};
use serde_json::json;
use std::time::Duration;

fn successor(resumes: bool) -> Successor {
    Successor { provider: "other".into(), agent: AGENT, resumes }
}

/// A call whose agent is lost, and another is being dialled.
fn lost(stage: &mut Stage) -> &mut Stage {
    stage.understudies.push_back(successor(false));
    stage.agent(AgentEvent::Lost(AgentLoss::Closed))
}

fn ready(stage: &mut Stage) -> &mut Stage {
    stage.input(Input::Next(Next::Event(AgentEvent::Ready)))
}

fn dialled(stage: &Stage) -> Vec<Dialling> {
    let dial = |(_, output): &(Duration, Output)| if let Output::Dial(why) = output { Some(*why) } else { None };
    stage.seen.iter().filter_map(dial).collect()
}

fn took_over(stage: &Stage) -> usize {
    stage.seen.iter().filter(|(_, output)| matches!(output, Output::TakeOver)).count()
}

#[test]
fn an_agent_that_is_lost_is_replaced_and_the_call_goes_on() {
    let mut stage = Stage::greeted();
    lost(&mut stage).after(300);
    ready(&mut stage).after(100);
    assert_eq!((dialled(&stage), took_over(&stage)), (vec![Dialling::Recovery(AgentLoss::Closed)], 1));
    assert!(stage.told().is_empty(), "nothing was owed, so nobody is disturbed: {:?}", stage.told());
    stage.caller_says(300).reply("answer", 500).after(600);
    assert_eq!((stage.voice_ms(), stage.end_reason()), (1_000, None));
}

/// V29: what the lost agent owed, the next one owes: until it has said it, nobody is told that the turn is over.
#[test]
fn a_turn_is_not_over_while_the_next_agent_owes_its_answer() {
    let told = |stage: &Stage, wanted: &Note| stage.notes().iter().filter(|note| **note == wanted).count();
    let mut stage = Stage::greeted();
    stage.caller_says(300).after(100);
    let before = told(&stage, &Note::Quiet);
    lost(&mut stage).after(300);
    assert_eq!((told(&stage, &Note::Lull), told(&stage, &Note::Quiet)), (1, before));
    ready(&mut stage).after(100);
    assert_eq!(told(&stage, &Note::Quiet), before);
    stage.reply("answer", 500).after(600);
    assert_eq!((told(&stage, &Note::Lull), told(&stage, &Note::Quiet)), (1, before + 1));
    // Nothing is owed, so nothing is to come.
    lost(&mut stage).after(300);
    ready(&mut stage).after(300);
    assert_eq!((told(&stage, &Note::Lull), told(&stage, &Note::Quiet)), (1, before + 1));
}

#[test]
fn a_caller_who_waits_for_an_answer_gets_it_from_the_next_agent() {
    let mut stage = Stage::greeted();
    stage.caller_says(300).after(100);
    lost(&mut stage).after(300);
    ready(&mut stage);
    stage.reply("answer", 500).after(600);
    assert_eq!(stage.voice_ms(), 1_000);
    // The turn is heard anew, and an answer is owed: silence would be noticed.
    assert!(stage.notes().contains(&&Note::TookOver { provider: "other".into(), resumed: false }));
}

#[test]
fn an_answer_that_was_cut_off_is_gone_on_with() {
    let mut stage = Stage::greeted();
    stage.starts("r").speaks("r", 200);
    lost(&mut stage).after(1_000);
    ready(&mut stage);
    let told = stage.told();
    assert!(told.iter().any(|(text, reply)| text.contains("interrupted") && *reply == Reply::Wanted), "{told:?}");
}

/// The caller hears who is on the line, and not how something goes on that they have not heard begin.
#[test]
fn a_greeting_of_which_nothing_was_heard_is_given_by_the_next_agent() {
    let clips = Clips { notice: Some(spoken("This call is recorded.", NOTICE)), ..clips() };
    let mut stage = Stage::speaking(AGENT, rules(), clips);
    stage.agent(AgentEvent::Ready).leg(LegEvent::Up).after(200);
    lost(&mut stage).after(100);
    ready(&mut stage).after(100);
    let greets = |command: &&AgentCommand| matches!(command, AgentCommand::Greet { .. });
    assert_eq!(stage.commands().iter().filter(|command| greets(command)).count(), 2);
    assert!(stage.told().iter().all(|(_, reply)| *reply == Reply::NotNow), "{:?}", stage.told());
    stage.reply("hello", 500).after(1_500);
    assert_eq!((stage.heard(NOTICE).len(), stage.voice_ms()), (30, 500));
}

#[test]
fn silence_while_another_agent_is_dialled_is_never_longer_than_its_bound() {
    let mut stage = Stage::greeted();
    stage.caller_says(300);
    let since = stage.elapsed();
    lost(&mut stage).after(15_000);
    let first = stage.heard(MOMENT)[0] - since;
    assert!(first <= Duration::from_millis(1_320), "{first:?}");
    let fillers = stage.notes().into_iter().filter(|note| **note == Note::Spoke { purpose: "filler" }).count();
    assert_eq!(fillers, 1, "never two in a turn");
    assert!(stage.heard(PATIENCE).len() >= 60, "and it is not the last word: {}", stage.heard(PATIENCE).len());
    ready(&mut stage);
    assert_eq!(stage.end_reason(), None);
}

#[test]
fn sessions_are_begun_a_bounded_number_of_times() {
    let mut stage = Stage::greeted();
    for _ in 0..9 {
        stage.understudies.push_back(successor(false));
    }
    stage.agent(AgentEvent::Lost(AgentLoss::Closed));
    for _ in 0..9 {
        stage.after(100).input(Input::Next(Next::Event(AgentEvent::Lost(AgentLoss::Handshake))));
    }
    assert_eq!(dialled(&stage).len(), 4);
    stage.after(3_000);
    assert_eq!(stage.heard(APOLOGY).len(), 30);
    assert_eq!(stage.end_reason(), Some(EndReason::AgentLost(AgentLoss::Closed)), "the loss that began it");
}

/// An answer that came to its end makes good what was lost before it.
#[test]
fn a_call_outlives_any_number_of_agents_that_answered_before_they_were_lost() {
    let mut stage = Stage::greeted();
    for times in 1..=20 {
        lost(&mut stage).after(300);
        ready(&mut stage).after(100);
        assert_eq!((took_over(&stage), stage.end_reason()), (times, None));
        stage.caller_says(300).reply(&format!("answer {times}"), 500).after(1_500);
    }
}

/// It reached the limit of its vendor, which is no fault; one that is turned away at once is lost.
#[test]
fn a_session_that_stood_to_its_vendors_limit_counts_for_nothing_and_one_that_did_not_counts() {
    let mut stage = Stage::greeted();
    let expires = |stage: &mut Stage, after: u64| {
        stage.understudies.push_back(successor(false));
        stage.after(after).agent(AgentEvent::Lost(AgentLoss::Expired)).after(100);
        ready(stage).after(100);
    };
    (0..6).for_each(|_| expires(&mut stage, 10_000));
    assert_eq!((took_over(&stage), stage.end_reason()), (6, None));
    (0..6).for_each(|_| expires(&mut stage, 1_000));
    assert_eq!(took_over(&stage), 10, "four attempts");
}

#[test]
fn losses_that_are_far_apart_are_accidents() {
    let mut stage = Stage::with_tools([]);
    for times in 1..=9 {
        stage.after(Recovery::HEALED_AFTER.as_millis() as u64);
        lost(&mut stage).after(300);
        ready(&mut stage).after(100);
        assert_eq!(took_over(&stage), times);
    }
}

#[test]
fn an_agent_that_does_not_come_in_time_is_not_waited_for() {
    let mut stage = Stage::greeted();
    lost(&mut stage).after(30_000);
    assert!(stage.seen.iter().any(|(_, output)| *output == Output::HangUpNext));
    assert_eq!(stage.end_reason(), Some(EndReason::AgentLost(AgentLoss::Closed)));
}

#[test]
fn a_tool_outlives_its_agent_and_its_result_is_told_to_the_next() {
    let mut stage = Stage::with_tools([approved_tool("slow")]);
    stage.caller_says(300).only_calls("provider-1", "slow", "{}");
    lost(&mut stage).after(200);
    stage.finishes("slow", ToolOutcome::done("Here.", json!({ "order": "A-7" }))).after(100);
    ready(&mut stage);
    let told = stage.told();
    assert!(told.iter().any(|(text, _)| text.contains("slow") && text.contains("A-7")), "{told:?}");
    assert!(stage.answers().is_empty(), "the agent that asked is gone");
    assert!(!stage.seen.iter().any(|(_, output)| matches!(output, Output::CancelTool { .. })));
}

/// The next agent knows only what it is told, and calls the tool again, also where the vendor had announced the end of the session.
#[test]
fn a_tool_that_runs_when_its_agent_is_lost_runs_once_and_its_result_is_told_once() {
    for announced in [false, true] {
        let mut stage = Stage::with_tools([approved_tool("slow")]);
        stage.caller_says(300).only_calls("provider-1", "slow", "{}");
        if announced {
            stage.agent(AgentEvent::Expiring { within: Duration::from_secs(1) }).after(1_000);
            assert_eq!(took_over(&stage), 0, "the tool's answer is this agent's, as long as it is there");
            stage.understudies.push_back(successor(true));
            stage.agent(AgentEvent::Lost(AgentLoss::Expired)).after(200);
        } else {
            lost(&mut stage).after(200);
        }
        ready(&mut stage).after(100);
        assert!(stage.told().iter().any(|(text, _)| text.contains("slow") && text.contains("still running")));
        stage.only_calls("another-1", "slow", "{}").after(100);
        assert_eq!(stage.ran(), ["slow"]);
        stage.finishes("slow", ToolOutcome::done("Here.", json!({ "order": "A-7" }))).after(100);
        let answers = stage.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert!(answers[0].0 == "another-1" && answers[0].1.to_string().contains("A-7"), "{answers:?}");
        assert!(!stage.told().iter().any(|(text, _)| text.contains("A-7")), "{:?}", stage.told());
    }
}

/// It was told the result and said nothing more: it is lost for its silence, and owes the caller what the tool found.
#[test]
fn a_result_that_an_agent_has_not_spoken_of_is_told_to_the_next_which_goes_on() {
    let mut stage = Stage::with_tools([approved_tool("slow")]);
    stage.caller_says(300).reply("one moment", 200).only_calls("provider-1", "slow", "{}").after(500);
    stage.finishes("slow", ToolOutcome::done("Here.", json!({ "order": "A-7" })));
    assert_eq!(stage.answers().len(), 1);
    stage.understudies.push_back(successor(false));
    stage.after(13_000);
    ready(&mut stage);
    let told = stage.told();
    assert!(told.iter().any(|(text, _)| text.contains("A-7")), "{told:?}");
    assert!(told.iter().any(|(text, reply)| text.contains("Go on") && *reply == Reply::Wanted), "{told:?}");
}

#[test]
fn what_the_old_agent_still_says_is_not_heard() {
    let mut stage = Stage::greeted();
    lost(&mut stage).reply("late", 500).after(100);
    ready(&mut stage).after(800);
    assert_eq!(stage.voice_ms(), 500, "the greeting alone");
}

// ---- Before a vendor's limit ----

#[test]
fn a_session_that_is_about_to_end_is_replaced_while_nobody_speaks() {
    let mut stage = Stage::greeted();
    stage.understudies.push_back(successor(true));
    stage.caller_says(300).starts("r").agent(AgentEvent::Expiring { within: Duration::from_secs(50) });
    assert_eq!(dialled(&stage), [], "somebody is about to speak");
    stage.speaks("r", 500).done("r").after(600);
    assert_eq!(dialled(&stage), [Dialling::Rollover]);
    ready(&mut stage);
    assert_eq!(took_over(&stage), 1);
    assert!(stage.told().is_empty() && stage.heard(MOMENT).is_empty(), "the caller notices nothing");
    stage.caller_says(300).reply("answer", 300).after(400);
    assert_eq!(stage.voice_ms(), 500 + 500 + 300);
}

#[test]
fn who_was_dialled_before_something_was_said_does_not_take_over() {
    let mut stage = Stage::greeted();
    stage.understudies.extend([successor(false), successor(false)]);
    stage.agent(AgentEvent::Expiring { within: Duration::from_secs(50) }).after(20);
    assert_eq!(dialled(&stage).len(), 1);
    stage.caller_says(300);
    ready(&mut stage).reply("answer", 300).after(400);
    assert_eq!((dialled(&stage).len(), took_over(&stage)), (2, 0), "it does not know of the last words");
    ready(&mut stage);
    assert_eq!(took_over(&stage), 1);
}

#[test]
fn a_session_that_ends_before_it_could_be_replaced_is_taken_over_from_at_once() {
    let mut stage = Stage::greeted();
    stage.understudies.push_back(successor(true));
    stage.agent(AgentEvent::Expiring { within: Duration::from_secs(50) }).after(20);
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None });
    ready(&mut stage);
    assert_eq!(took_over(&stage), 0, "the caller is speaking");
    stage.agent(AgentEvent::Lost(AgentLoss::Expired));
    assert_eq!((took_over(&stage), dialled(&stage).len()), (1, 1));
}

// ---- No agent at all ----

fn menu() -> (CallRules, Clips) {
    let keys = [('1', Exit::Transfer("sales".into())), ('2', Exit::Voicemail("office".into()))].into();
    let last_resort = Some(LastResort { keys, rounds: 2, wait: Duration::from_secs(5) });
    let clips = Clips { menu: Some(spoken("Press one for sales.", MENU)), ..clips() };
    (CallRules { last_resort, ..rules() }, clips)
}

#[test]
fn a_caller_without_an_agent_chooses_by_a_key() {
    for (key, command) in [
        ('1', LegCommand::Transfer { destination: "sales".into() }),
        ('2', LegCommand::Voicemail { mailbox: "office".into() }),
    ] {
        let (rules, clips) = menu();
        let mut stage = Stage::speaking(AGENT, rules, clips);
        stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("hello", 300).after(400);
        stage.agent(AgentEvent::Lost(AgentLoss::Closed)).after(900);
        assert_eq!(stage.heard(APOLOGY).len(), 30);
        assert!(!stage.heard(MENU).is_empty());
        stage.leg(LegEvent::Digit('7')).after(20);
        assert!(stage.leg_commands().is_empty(), "a key that leads nowhere");
        stage.leg(LegEvent::Digit(key)).after(20);
        assert_eq!(stage.leg_commands(), [&command]);
    }
}

#[test]
fn a_caller_who_presses_nothing_hears_the_menu_again_and_goes_where_the_context_says() {
    let (rules, clips) = menu();
    let mut stage = Stage::speaking(AGENT, rules, clips);
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("hello", 300).after(400);
    stage.agent(AgentEvent::Lost(AgentLoss::Closed)).after(20_000);
    assert_eq!(stage.heard(MENU).len(), 60, "two rounds");
    assert_eq!(stage.leg_commands(), [&LegCommand::ReturnToDialplan { status: "AGENTFAILED" }]);
}

// ---- The first words ----

#[test]
fn a_greeting_that_is_ready_is_heard_with_the_answer_and_the_agent_waits() {
    let clips = Clips {
        notice: Some(spoken("This call is recorded.", NOTICE)),
        greeting: Some(spoken("Hello.", GREETING)),
        ..clips()
    };
    let mut stage = Stage::speaking(AGENT, rules(), clips);
    stage.after(0);
    assert_eq!(stage.leg_commands(), [&LegCommand::Answer], "there is no reason to wait for the agent");
    stage.leg(LegEvent::Up).after(40);
    let up = stage.heard(NOTICE)[0];
    assert!(up <= Duration::from_millis(20));
    stage.agent(AgentEvent::Ready).after(2_000);
    assert_eq!((stage.heard(NOTICE).len(), stage.heard(GREETING).len()), (30, 30));
    assert!(!stage.commands().iter().any(|command| matches!(command, AgentCommand::Greet { .. })));
    assert_eq!(stage.voice_ms(), 0);
}

#[test]
fn an_agent_that_acts_before_it_speaks_answers_the_caller_and_gets_its_result() {
    let mut stage = Stage::speaking(AGENT, rules(), clips());
    stage.agent(AgentEvent::Ready).only_calls("provider-1", "look_up", "{}").after(100);
    assert_eq!((stage.leg_commands(), stage.ran().len()), (vec![&LegCommand::Answer], 0));
    stage.leg(LegEvent::Up).finishes("look_up", ToolOutcome::done("We open at nine.", json!({})));
    assert_eq!(stage.answers().len(), 1);
    assert_eq!(stage.answers()[0].2, Reply::Wanted);
}

#[test]
fn the_agents_audio_waits_until_the_notice_was_heard() {
    let clips = Clips { notice: Some(spoken("This call is recorded.", NOTICE)), ..clips() };
    let mut stage = Stage::speaking(AGENT, rules(), clips);
    stage.agent(AgentEvent::Ready).reply("hello", 300).leg(LegEvent::Up).after(1_200);
    let (notice, voice) = (stage.heard(NOTICE), stage.slots().into_iter().filter(|(_, voice)| *voice));
    assert_eq!((notice.len(), stage.voice_ms()), (30, 300));
    assert!(voice.map(|(at, _)| at).min() > notice.last().copied());
}

#[test]
fn a_long_turn_is_given_to_the_next_agent_in_few_pieces() {
    let mut stage = Stage::greeted();
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None });
    for _ in 0..500 {
        stage.leg(LegEvent::Audio(vec![0x31; 160].into())).after(20);
    }
    stage.agent(AgentEvent::CallerSpeechStopped);
    let waited = AGENT.answer_max.as_millis() as u64;
    stage.understudies.push_back(successor(false));
    for _ in 0..waited / 20 + 1 {
        stage.leg(LegEvent::Audio(vec![0xff; 160].into())).after(20);
    }
    let before = stage.commands().len();
    ready(&mut stage);
    let given: Vec<usize> = stage.commands()[before..]
        .iter()
        .filter_map(|command| if let AgentCommand::Audio(audio) = command { Some(audio.len()) } else { None })
        .collect();
    assert!(given.iter().sum::<usize>() >= 10_000 * 8, "all ten seconds: {given:?}");
    assert!(given.len() <= 30, "a queue of frames takes them: {} pieces", given.len());
}

#[test]
fn whoever_stays_after_the_agent_was_lost_in_its_goodbye_is_not_left_in_silence() {
    let mut stage = Stage::greeted();
    stage.starts("bye").speaks("bye", 2_000).calls_tool("provider-1", "hangup_call", "{}").runs_tools().done("bye");
    stage.after(300).agent(AgentEvent::Lost(AgentLoss::Closed));
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }).after(20_000);
    assert!(stage.end_reason().is_some(), "the call ends");
}

#[test]
fn digits_of_a_pin_stay_private_when_the_agent_that_asked_is_lost() {
    let mut stage = Stage::with_tools([approved_tool("verify")]);
    stage.caller_says(300).only_calls("provider-1", "verify", "{}");
    let plan = offhook_core::tool::DigitPlan {
        prompt: None,
        min: 4,
        max: 4,
        terminator: None,
        timeout: Duration::from_secs(5),
        purpose: offhook_core::tool::DigitPurpose::Pin,
    };
    stage.finishes("verify", ToolOutcome::Collect(plan)).leg(LegEvent::Digit('2')).after(100);
    lost(&mut stage).after(100).leg(LegEvent::Digit('4')).after(100).leg(LegEvent::Digit('6'));
    assert!(!stage.notes().iter().any(|note| matches!(note, Note::Digit(_))), "nobody sees the rest of it");
}
