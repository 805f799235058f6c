//! Who has the floor, and what the caller hears.

use crate::call::{
    hearing::{quiet, speaks},
    stage::{AGENT, APOLOGY, FRAME, MOMENT, Stage, book, look_up, rules},
};
use bytes::Bytes;
use offhook_core::{
    call::{
        AgentCommand, AgentEvent, AgentLoss, CallRules, Input, LegCommand, LegEvent, Measure, Note, Reply, Speaker,
        Successor,
    },
    sentences::{Language, Sentence, Sentences},
    tool::ToolOutcome,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// T4: one frame leaves in each slot of 20 ms.
#[test]
fn silence_leaves_from_the_first_moment_and_one_frame_per_slot() {
    let mut stage = Stage::new(rules());
    stage.leg(LegEvent::Up).after(199);
    let slots = stage.slots();
    assert_eq!(slots.len(), 10);
    assert!(slots.windows(2).all(|pair| pair[1].0 - pair[0].0 == FRAME));
    assert!(slots.iter().all(|(_, voice)| !voice));
}

/// A processor wakes for many calls at once when their slots fall together.
#[test]
fn slots_of_calls_that_began_whenever_are_apart_by_whole_beats_from_the_second_one_on() {
    for began in 0..20 {
        let mut stage = Stage::new(rules());
        stage.after(began).leg(LegEvent::Up).after(199);
        let at: Vec<u64> = stage.slots().iter().map(|(at, _)| at.as_millis() as u64).collect();
        assert_eq!(at[0], began, "the first one is not waited for");
        assert!((15..=20).contains(&(at[1] - at[0])), "nor is any silence longer: {at:?}");
        assert!(at[1..].iter().all(|at| at % 5 == 0), "{at:?}");
        assert!(at[1..].windows(2).all(|pair| pair[1] - pair[0] == 20), "{at:?}");
    }
}

#[test]
fn the_agent_greets_when_caller_and_agent_are_both_there_in_either_order() {
    let greet = AgentCommand::Greet { text: Some("Hello".into()) };
    let mut leg_first = Stage::new(rules());
    leg_first.leg(LegEvent::Up);
    assert!(leg_first.commands().is_empty());
    leg_first.agent(AgentEvent::Ready);
    let mut agent_first = Stage::new(rules());
    agent_first.agent(AgentEvent::Ready).leg(LegEvent::Up);
    assert_eq!(leg_first.commands(), [&greet]);
    assert_eq!(agent_first.commands(), [&greet]);
}

#[test]
fn the_caller_hears_ringing_until_the_greeting_is_there() {
    let mut stage = Stage::new(rules());
    stage.agent(AgentEvent::Ready).after(300);
    assert_eq!(stage.leg_commands(), Vec::<&LegCommand>::new());
    stage.reply("hello", 300);
    assert_eq!(stage.leg_commands(), [&LegCommand::Answer]);
    stage.after(40).leg(LegEvent::Up).after(400);
    assert_eq!(stage.leg_commands(), [&LegCommand::Answer], "once");
    assert_eq!((stage.voice_ms(), stage.commands().len()), (300, 1), "heard whole, and asked for once");
}

#[test]
fn a_caller_is_answered_in_bounded_time_whatever_the_agent_does() {
    let mut stage = Stage::new(rules());
    stage.after(1_999);
    assert!(stage.leg_commands().is_empty());
    stage.after(1);
    assert_eq!(stage.leg_commands(), [&LegCommand::Answer]);
}

#[test]
fn agent_audio_leaves_in_the_next_slot_and_all_of_it_is_heard() {
    let mut stage = Stage::answered(rules());
    stage.after(50).reply("r1", 1_000).after(2_000);
    let voice: Vec<_> = stage.slots().into_iter().filter(|(_, voice)| *voice).collect();
    assert_eq!(voice.first().unwrap().0, Duration::from_millis(60));
    assert_eq!(voice.len(), 50);
}

#[test]
fn a_minute_that_arrives_ten_times_too_fast_is_heard_whole() {
    let mut stage = Stage::answered(rules());
    stage.starts("long");
    for _ in 0..300 {
        stage.speaks("long", 200).after(20);
    }
    stage.done("long").after(61_000);
    assert_eq!(stage.voice_ms(), 60_000);
}

#[test]
fn caller_audio_goes_to_the_agent_while_the_agent_speaks() {
    let mut stage = Stage::answered(rules());
    stage.reply("r1", 1_000).after(100);
    let before = stage.commands().len();
    stage.leg(LegEvent::Audio(Bytes::from_static(&[7; 160])));
    assert_eq!(stage.commands()[before], &AgentCommand::Audio(Bytes::from_static(&[7; 160])));
}

/// It greets while the caller still hears ringing, and is heard when they are answered.
#[test]
fn what_the_agent_says_before_the_answer_is_told_behind_it() {
    let mut stage = Stage::new(rules());
    let text = "Hello.".to_owned();
    stage.agent(AgentEvent::Ready).starts("g");
    stage.agent(AgentEvent::Transcript { speaker: Speaker::Agent, text, utterance: None }).speaks("g", 300).done("g");
    let told = |stage: &Stage, is_it: fn(&Note) -> bool| stage.notes().iter().position(|note| is_it(note));
    assert_eq!(told(&stage, |note| matches!(note, Note::Said { .. })), None);
    stage.leg(LegEvent::Up).after(100);
    let answered = told(&stage, |note| matches!(note, Note::Answered)).expect("it is answered");
    assert_eq!(told(&stage, |note| matches!(note, Note::Said { .. })), Some(answered + 1));
}

/// T4: no further frame of the agent leaves after the interruption.
#[test]
fn barge_in_stops_the_agent_within_one_frame_and_tells_what_was_heard() {
    let mut stage = Stage::answered(rules());
    stage.reply("r1", 5_000).after(1_010);
    assert_eq!(stage.voice_ms(), 1_020, "slots at 0, 20, … 1000 ms have left");
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }).after(500);
    assert_eq!(stage.voice_ms(), 1_020);
    let heard = Duration::from_millis(1_020);
    let (response, item) = ("r1".into(), "r1".into());
    assert_eq!(stage.commands().last().unwrap(), &&AgentCommand::Interrupt { response, item, heard, cancel: false });
    assert!(stage.measures().contains(&Measure::BargeInStop(Duration::from_millis(10))));
}

#[test]
fn stale_audio_is_dropped_by_response_and_the_next_answer_is_heard_at_once() {
    let mut stage = Stage::answered(rules());
    stage.starts("old").speaks("old", 2_000).after(490);
    let before = stage.voice_ms();
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }).speaks("old", 400).done("old").after(300);
    stage.agent(AgentEvent::CallerSpeechStopped).reply("new", 200).after(300);
    assert_eq!(stage.voice_ms() - before, 200, "all of the new answer, nothing of the old one");
    let stale: usize =
        stage.measures().iter().map(|m| if let Measure::StaleAudio(bytes) = m { *bytes } else { 0 }).sum();
    assert_eq!(stale, 400 * 8, "what was dropped is counted");
}

#[test]
fn a_quick_yes_gets_its_whole_answer() {
    let mut stage = Stage::greeted();
    let before = stage.voice_ms();
    stage.caller_says(300).after(300).reply("answer", 1_000).after(1_500);
    assert_eq!(stage.voice_ms() - before, 1_000);
}

/// G answer 12: an agent that answers each turn of the caller is not asked to answer another time.
#[test]
fn while_the_caller_speaks_nothing_is_asked_of_the_agent_that_it_would_say_into_their_words() {
    let mut stage = Stage::with_tools([look_up(), book()]);
    stage.caller_tells("A table.").only_calls("provider-1", "book", r#"{"a":"Friday"}"#);
    stage.agent_tells("question", "I will book a table on Friday, is that right?");
    stage.caller_tells("When do you open?").only_calls("provider-2", "look_up", "{}");
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }).after(100);
    stage.leg(LegEvent::Digit('1')).input(Input::Say("One moment.".into()));
    stage.finishes("look_up", ToolOutcome::done("", json!(1))).after(1_000);
    assert_eq!(stage.answers()[1].2, Reply::NotNow);
    let told = stage.told();
    assert!(told[0].0.contains("before the question was read out") && told[1].0.ends_with(": One moment."), "{told:?}");
    assert!(told.iter().all(|(_, reply)| *reply == Reply::NotNow), "{told:?}");
    assert!(stage.told_to_say().is_empty());
    speaks(&mut stage, 60_000);
    stage.agent(AgentEvent::CallerSpeechStopped).reply("answer", 400).after(500);
    assert!(stage.ended().is_none(), "nothing was owed while the caller spoke");
}

#[test]
fn a_caller_who_talks_on_and_on_is_told_that_the_time_is_over() {
    let mut stage = Stage::answered(CallRules { call_max: Duration::from_secs(20), ..rules() });
    stage.reply("greeting", 500).after(600).agent(AgentEvent::CallerSpeechStarted { utterance: None });
    speaks(&mut stage, 20_000);
    assert!(stage.told_to_say()[0].contains("longest time"), "{:?}", stage.told_to_say());
}

/// A provider that hears a cough begin, and never its end; or that falls silent while it has the turns.
#[test]
fn a_turn_that_the_provider_does_not_end_is_waited_for_as_long_as_the_caller_is_heard() {
    let mut stage = Stage::greeted();
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }).after(14_900);
    assert!(stage.heard(APOLOGY).is_empty(), "the provider may hear more than we do");
    stage.after(2_000);
    assert!(!stage.heard(APOLOGY).is_empty(), "nobody is left, and the caller is told so");

    let mut stage = Stage::greeted();
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None });
    speaks(&mut stage, 30_000);
    quiet(&mut stage, 13_000);
    assert!(stage.heard(APOLOGY).is_empty(), "the caller may only be thinking");
    quiet(&mut stage, 5_000);
    assert!(!stage.heard(APOLOGY).is_empty());
}

/// The next agent is being dialled meanwhile.
#[test]
fn a_caller_whose_turn_only_the_lost_provider_heard_is_told_to_wait() {
    let mut stage = Stage::greeted();
    stage.understudies.push_back(Successor { provider: "other".into(), agent: AGENT, resumes: false });
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }).after(1_000);
    stage.agent(AgentEvent::Lost(AgentLoss::Closed)).after(1_500);
    assert!(!stage.heard(MOMENT).is_empty());
}

#[test]
fn speech_after_the_agent_has_finished_is_no_interruption() {
    let mut stage = Stage::greeted();
    stage.after(2_000).agent(AgentEvent::CallerSpeechStarted { utterance: None });
    assert!(!stage.commands().iter().any(|command| matches!(command, AgentCommand::Interrupt { .. })));
}

#[test]
fn the_gap_of_a_turn_and_the_first_audio_are_measured_where_the_frame_leaves() {
    let mut stage = Stage::answered(rules());
    stage.after(35).reply("hello", 200).after(400).caller_says(500);
    stage.after(90).reply("answer", 200).after(100);
    let times =
        stage.measures().into_iter().find_map(|m| if let Measure::Turn(times) = m { Some(times) } else { None });
    assert!(stage.measures().contains(&Measure::FirstAudio(Duration::from_millis(40))));
    let times = times.unwrap();
    assert_eq!((times.turn, times.tools, times.filled), (1, false, false));
    assert_eq!((times.endpointing, times.thinking), (Duration::ZERO, Duration::from_millis(90)));
    assert!(times.total() >= Duration::from_millis(90) && times.total() <= Duration::from_millis(110), "{times:?}");
}

#[test]
fn a_silent_caller_is_asked_then_the_call_ends_politely() {
    let mut rules = rules();
    rules.no_input_after = Duration::from_secs(5);
    rules.no_input_prompts = 1;
    let written = [(Sentence::AreYouThere, "Are you there?".to_owned())].into();
    rules.sentences = Arc::new(Sentences { written, ..Sentences::of(Language::German) });
    let mut stage = Stage::answered(rules);
    stage.reply("greeting", 1_000).after(6_100);
    assert_eq!(stage.told_to_say(), ["Are you there?"]);
    stage.reply("prompt", 1_000).after(6_500);
    let goodbye = Sentence::NotHeard.text(Language::German);
    assert_eq!(stage.told_to_say(), ["Are you there?", goodbye], "in the context's language");
    assert!(stage.ended().is_none(), "the goodbye is still to be said");
    stage.reply("bye", 500).after(1_000);
    assert_eq!(stage.end_reason().unwrap().label(), "no_input");
}

#[test]
fn a_key_counts_as_an_answer() {
    let mut stage = Stage::greeted();
    stage.after(11_000).leg(LegEvent::Digit('5')).after(11_000);
    assert!(!stage.notes().contains(&&Note::NoInputPrompt));
    stage.after(2_000);
    assert!(stage.notes().contains(&&Note::NoInputPrompt));
}

#[test]
fn a_late_engine_catches_up_100_ms_and_counts_what_it_gave_up() {
    let mut stage = Stage::answered(rules());
    stage.after(10).stall(80).after(0);
    assert_eq!(stage.slots().len(), 5, "slots 0 to 80 ms, none lost");
    stage.stall(1_000).after(0);
    let missed: u32 =
        stage.measures().iter().map(|m| if let Measure::SlotsMissed(slots) = m { *slots } else { 0 }).sum();
    assert_eq!(stage.slots().len() + missed as usize, 55, "slots 0 to 1080 ms, sent or counted");
}
