//! Turns that offhook itself finds: interruptions that can be taken back, and what the agent hears of them.

use crate::call::stage::{AGENT, GREETING, MOMENT, SPEECH, Stage, clips, rules, spoken};
use bytes::Bytes;
use offhook_core::{
    audio::Format,
    call::{
        AgentCommand, AgentEvent, AgentLoss, AgentTraits, CallRules, CallerTurn, Clips, Input, LegEvent, Measure, Next,
        Note, Speaker, Successor, TurnOwner, TurnRules,
    },
};
use std::time::Duration;

/// Hears the caller and acts on it by itself.
const OWN: AgentTraits = AGENT;
/// Is told the turns.
const TOLD: AgentTraits = AgentTraits { takes_turns: true, ..AGENT };

fn ours() -> CallRules {
    let turns = TurnRules { owner: TurnOwner::Offhook, ..TurnRules::default() };
    CallRules { turns, ..rules() }
}

fn call(agent: AgentTraits) -> Stage {
    let mut stage = Stage::speaking(agent, ours(), clips());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 300);
    quiet(&mut stage, 800);
    stage
}

/// The caller's line carries this for so long, as the phone sends it.
fn line(stage: &mut Stage, byte: u8, ms: u64) {
    for _ in 0..ms / 20 {
        stage.leg(LegEvent::Audio(Bytes::from(vec![byte; Format::ULAW.frame_bytes()]))).after(20);
    }
}

pub fn speaks(stage: &mut Stage, ms: u64) {
    line(stage, SPEECH, ms);
}

pub fn quiet(stage: &mut Stage, ms: u64) {
    line(stage, 0xff, ms);
}

/// Where turns begin and end.
fn turns(stage: &Stage) -> Vec<CallerTurn> {
    let whole = |turn: &CallerTurn| matches!(turn, CallerTurn::Began | CallerTurn::Ended);
    all_turns(stage).into_iter().filter(whole).collect()
}

/// The same with the pauses in them.
fn all_turns(stage: &Stage) -> Vec<CallerTurn> {
    let turn = |command: &&AgentCommand| if let AgentCommand::Turn(turn) = command { Some(*turn) } else { None };
    stage.commands().iter().filter_map(turn).collect()
}

fn interrupts(stage: &Stage) -> usize {
    stage.commands().iter().filter(|command| matches!(command, AgentCommand::Interrupt { .. })).count()
}

/// Milliseconds of the caller's speech that the agent was given.
fn speech_heard(stage: &Stage) -> usize {
    let speech = |command: &&&AgentCommand| matches!(command, AgentCommand::Audio(audio) if audio[0] == SPEECH);
    stage.commands().iter().filter(speech).count() * 20
}

#[test]
fn an_agent_that_is_told_turns_may_prepare_its_answer_in_a_pause() {
    let mut stage = call(TOLD);
    speaks(&mut stage, 600);
    quiet(&mut stage, 300);
    speaks(&mut stage, 400);
    quiet(&mut stage, 1_500);
    let expected = [CallerTurn::Began, CallerTurn::MayEnd, CallerTurn::GoesOn, CallerTurn::MayEnd, CallerTurn::Ended];
    assert_eq!(all_turns(&stage), expected);
}

#[test]
fn an_agent_that_is_told_turns_hears_exactly_them() {
    let mut stage = call(TOLD);
    assert_eq!(speech_heard(&stage), 0);
    speaks(&mut stage, 1_000);
    quiet(&mut stage, 1_500);
    assert_eq!(turns(&stage), [CallerTurn::Began, CallerTurn::Ended]);
    assert_eq!(speech_heard(&stage), 1_000, "from its first sample on");
    let audio = stage.commands().iter().filter(|command| matches!(command, AgentCommand::Audio(_))).count();
    assert!(audio < 120, "and no more than a lead and a pause of silence: {audio} frames");
}

#[test]
fn a_cough_over_the_agent_stops_nothing_for_long_and_costs_no_sample() {
    for agent in [OWN, TOLD] {
        let mut stage = call(agent);
        let before = stage.voice_ms();
        stage.reply("answer", 3_000);
        quiet(&mut stage, 600);
        speaks(&mut stage, 200);
        quiet(&mut stage, 4_000);
        assert!(stage.notes().iter().any(|note| matches!(note, Note::FalseAlarm { .. })));
        assert_eq!(interrupts(&stage), 0);
        // Ducked frames are other bytes, so they do not count as the voice itself.
        let ducked = 3_000 - (stage.voice_ms() - before);
        assert!(ducked <= 120, "{ducked} ms were heard softly, all others as they were");
        assert_eq!(speech_heard(&stage), 0, "an agent that heard it would have stopped");
    }
}

#[test]
fn a_caller_who_speaks_on_interrupts_and_is_heard_from_the_first_word() {
    for agent in [OWN, TOLD] {
        let mut stage = call(agent);
        stage.reply("answer", 5_000);
        quiet(&mut stage, 1_000);
        speaks(&mut stage, 1_500);
        quiet(&mut stage, 1_500);
        assert_eq!(interrupts(&stage), 1);
        assert_eq!(speech_heard(&stage), 1_500);
        stage.reply("next", 300);
        quiet(&mut stage, 400);
        let heard = stage.slots().into_iter().rev().take(20).filter(|(_, voice)| *voice).count();
        assert_eq!(heard, 15, "the next answer is heard whole");
    }
}

/// Its beginning and its sound were on their way when the caller's turn began.
#[test]
fn an_answer_that_a_turn_overtakes_is_not_heard_and_its_agent_knows() {
    for announced in [true, false] {
        let mut stage = call(TOLD);
        let before = stage.voice_ms();
        speaks(&mut stage, 400);
        if announced {
            stage.starts("late");
        }
        stage.speaks("late", 300).speaks("late", 300).done("late");
        speaks(&mut stage, 400);
        assert_eq!(stage.voice_ms(), before, "nothing is said into the caller's words");
        let told = |command: &&&AgentCommand| matches!(command, AgentCommand::Interrupt { response, heard: Duration::ZERO, .. } if **response == *"late");
        assert_eq!(stage.commands().iter().filter(told).count(), 1, "once");
        quiet(&mut stage, 1_500);
        stage.reply("next", 300);
        quiet(&mut stage, 600);
        assert_eq!(stage.voice_ms() - before, 300, "the next answer is heard whole");
    }
}

/// A vendor may find an end although it is to be told: the caller is silent, and it has heard all words.
#[test]
fn an_answer_to_the_words_of_an_open_turn_ends_it_unless_the_caller_speaks_on() {
    for (pause, heard) in [(300, 300), (0, 0)] {
        let mut stage = call(TOLD);
        let before = stage.voice_ms();
        speaks(&mut stage, 600);
        quiet(&mut stage, pause);
        let text = "Good morning.".to_owned();
        stage.agent(AgentEvent::Transcript { speaker: Speaker::Caller, text, utterance: None });
        stage.starts("early").speaks("early", 300).done("early");
        let expected: &[CallerTurn] =
            if heard > 0 { &[CallerTurn::Began, CallerTurn::Ended] } else { &[CallerTurn::Began] };
        assert_eq!(turns(&stage), expected, "after {pause} ms");
        quiet(&mut stage, 1_500);
        assert_eq!(stage.voice_ms() - before, heard, "after {pause} ms");
        assert_eq!(turns(&stage), [CallerTurn::Began, CallerTurn::Ended]);
    }
}

/// Two answers that are none to the turn that is open: the caller spoke on as it began, or its words are of the turn before.
#[test]
fn an_answer_that_is_none_to_the_open_turn_does_not_end_it_in_a_pause() {
    let words = |stage: &mut Stage| {
        let text = "Good morning.".to_owned();
        stage.agent(AgentEvent::Transcript { speaker: Speaker::Caller, text, utterance: None });
    };
    let mut stage = call(TOLD);
    let before = stage.voice_ms();
    speaks(&mut stage, 600);
    words(&mut stage);
    stage.starts("early").speaks("early", 100);
    quiet(&mut stage, 300);
    stage.speaks("early", 100);
    assert_eq!((turns(&stage), stage.voice_ms() - before), (vec![CallerTurn::Began], 0));

    let mut stage = call(TOLD);
    let before = stage.voice_ms();
    speaks(&mut stage, 600);
    quiet(&mut stage, 900);
    speaks(&mut stage, 300);
    words(&mut stage);
    stage.starts("first");
    quiet(&mut stage, 300);
    stage.speaks("first", 300);
    let expected = vec![CallerTurn::Began, CallerTurn::Ended, CallerTurn::Began];
    assert_eq!((turns(&stage), stage.voice_ms() - before), (expected, 0));
}

/// What still comes of an answer that was cut off is not told again.
#[test]
fn an_answer_that_is_interrupted_is_interrupted_once() {
    let mut stage = call(TOLD);
    stage.starts("answer").speaks("answer", 3_000);
    quiet(&mut stage, 1_000);
    speaks(&mut stage, 800);
    stage.speaks("answer", 1_000);
    speaks(&mut stage, 200);
    assert_eq!(interrupts(&stage), 1);
}

#[test]
fn the_agent_is_paused_within_a_tenth_of_a_second() {
    let mut stage = call(TOLD);
    stage.reply("answer", 5_000);
    quiet(&mut stage, 1_000);
    let onset = stage.elapsed();
    speaks(&mut stage, 1_500);
    let last = stage.slots().into_iter().filter(|(at, voice)| *voice && *at >= onset).map(|(at, _)| at).max();
    assert!(last.is_none_or(|last| last - onset <= std::time::Duration::from_millis(100)), "{last:?} after {onset:?}");
}

#[test]
fn a_protected_greeting_is_heard_to_its_end_and_a_common_one_gives_way() {
    for (protected, frames) in [(true, 30..=30), (false, 1..=29)] {
        let mut rules = ours();
        rules.turns.protect_greeting = protected;
        let clips = Clips { greeting: Some(spoken("Hello.", GREETING)), ..clips() };
        let mut stage = Stage::speaking(TOLD, rules, clips);
        stage.leg(LegEvent::Up).agent(AgentEvent::Ready);
        quiet(&mut stage, 60);
        speaks(&mut stage, 1_400);
        quiet(&mut stage, 1_500);
        let heard = stage.heard(GREETING).len();
        assert!(frames.contains(&heard), "{heard} frames, protected: {protected}");
        assert_eq!(turns(&stage).first(), Some(&CallerTurn::Began), "what is said meanwhile is not lost");
    }
}

#[test]
fn what_the_provider_hears_names_the_turn_and_decides_nothing() {
    let mut stage = call(OWN);
    stage.reply("answer", 2_000);
    quiet(&mut stage, 500);
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: Some("u1".into()) });
    quiet(&mut stage, 500);
    assert_eq!(interrupts(&stage), 0);
}

#[test]
fn a_provider_that_tells_late_what_it_heard_makes_no_second_turn_of_it() {
    let mut stage = call(OWN);
    speaks(&mut stage, 600);
    quiet(&mut stage, 900);
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: Some("u1".into()) });
    stage.agent(AgentEvent::CallerSpeechStopped).reply("answer", 300);
    quiet(&mut stage, 400);
    let turns: Vec<_> =
        stage.measures().into_iter().filter(|m| matches!(m, Measure::Turn(times) if times.turn == 1)).collect();
    assert_eq!(turns.len(), 1, "{:?}", stage.measures().last());
}

#[test]
fn the_wait_is_counted_from_the_last_sound_of_the_caller() {
    let mut stage = call(TOLD);
    speaks(&mut stage, 600);
    quiet(&mut stage, 900);
    stage.reply("answer", 300);
    quiet(&mut stage, 400);
    let times =
        stage.measures().into_iter().find_map(|m| if let Measure::Turn(times) = m { Some(times) } else { None });
    let times = times.expect("a turn that was answered");
    let total = times.total().as_millis();
    assert!((890..=940).contains(&total), "{total} ms: {times:?}");
    assert!(times.endpointing.as_millis() >= 560, "{times:?}");
}

/// Whose server finds ends of turns sooner than our ears do.
#[test]
fn a_wait_is_counted_from_the_turn_that_is_answered_and_not_from_the_one_before() {
    let mut stage = Stage::answered(rules());
    stage.reply("greeting", 300);
    quiet(&mut stage, 800);
    for answer in ["first", "second"] {
        stage.agent(AgentEvent::CallerSpeechStarted { utterance: None });
        speaks(&mut stage, 600);
        quiet(&mut stage, 300);
        stage.agent(AgentEvent::CallerSpeechStopped);
        quiet(&mut stage, 100);
        stage.reply(answer, 300);
        quiet(&mut stage, 3_000);
    }
    let total =
        |measure: Measure| if let Measure::Turn(times) = measure { Some(times.total().as_millis()) } else { None };
    let waits: Vec<u128> = stage.measures().into_iter().filter_map(total).collect();
    assert!(waits.len() == 2 && waits.iter().all(|wait| (390..=440).contains(wait)), "{waits:?} ms");
    assert!(stage.heard(MOMENT).is_empty(), "nobody has waited for so long that they are told to");
}

/// Who finds the turns itself can be sooner with its answer than our ears with the end of the turn.
#[test]
fn an_early_answer_ends_the_turn_and_no_other_is_waited_for() {
    let mut stage = call(OWN);
    speaks(&mut stage, 600);
    quiet(&mut stage, 300);
    stage.reply("answer", 1_000);
    quiet(&mut stage, 4_000);
    let turns: Vec<_> = stage
        .measures()
        .into_iter()
        .filter_map(|m| if let Measure::Turn(times) = m { Some(times) } else { None })
        .collect();
    let [times] = turns.as_slice() else { panic!("one turn: {turns:?}") };
    let total = times.total().as_millis();
    assert!((280..=340).contains(&total), "{total} ms: {times:?}");
    assert!(!stage.notes().iter().any(|note| matches!(note, Note::Spoke { .. })), "nobody waits");
    assert_eq!(stage.voice_ms(), 1_300, "the greeting and the answer");
}

#[test]
fn a_caller_who_is_answered_too_early_and_speaks_on_interrupts_the_answer() {
    let mut stage = call(OWN);
    speaks(&mut stage, 600);
    stage.reply("answer", 3_000);
    speaks(&mut stage, 1_000);
    quiet(&mut stage, 4_000);
    assert_eq!(interrupts(&stage), 1);
    assert!(stage.voice_ms() <= 300 + 200, "{} ms", stage.voice_ms());
}

fn audio_frames(stage: &Stage) -> usize {
    stage.commands().iter().filter(|command| matches!(command, AgentCommand::Audio(_))).count()
}

/// The agent is in the middle of a long answer.
fn speaking(agent: AgentTraits) -> Stage {
    let mut stage = call(agent);
    stage.reply("long", 5_000);
    stage
}

const OVERHEARS: AgentTraits = AgentTraits { overhears: true, ..TOLD };

#[test]
fn an_agent_that_may_overhear_hears_an_undecided_sound_and_nothing_else_of_the_line() {
    let mut stage = speaking(OVERHEARS);
    quiet(&mut stage, 400);
    assert_eq!(audio_frames(&stage), 0, "the echo of its own voice would be among it");
    speaks(&mut stage, 200);
    quiet(&mut stage, 400);
    assert_eq!(all_turns(&stage), [CallerTurn::MayBegin, CallerTurn::WasNone]);
    assert_eq!(speech_heard(&stage), 200, "from its first sample on");
    let heard = audio_frames(&stage);
    quiet(&mut stage, 400);
    assert_eq!(audio_frames(&stage), heard, "it was none");
}

#[test]
fn words_of_an_undecided_sound_decide_it_sooner() {
    let mut stage = speaking(OVERHEARS);
    speaks(&mut stage, 300);
    stage.agent(AgentEvent::PartialTranscript { text: "no wait".into(), utterance: None });
    assert_eq!(turns(&stage), [CallerTurn::Began]);
}

/// Also of one that goes on meanwhile.
#[test]
fn who_takes_over_is_told_30_seconds_of_a_turn_and_what_it_is_not_told_is_counted() {
    let told = |stage: &Stage| {
        let bytes = |command: &&AgentCommand| if let AgentCommand::Audio(audio) = command { audio.len() } else { 0 };
        stage.commands().iter().map(bytes).sum::<usize>() / 8
    };
    for (seconds, ended) in [(25, false), (25, true), (40, false), (40, true)] {
        let mut stage = call(TOLD);
        stage.understudies.push_back(Successor { provider: "other".into(), agent: TOLD, resumes: false });
        speaks(&mut stage, seconds * 1_000);
        if ended {
            quiet(&mut stage, 900);
        }
        stage.agent(AgentEvent::Lost(AgentLoss::Closed));
        let before = told(&stage);
        stage.input(Input::Next(Next::Event(AgentEvent::Ready)));
        let (told, said) = (told(&stage) - before, seconds as usize * 1_000);
        let lost = |measure| if let Measure::TurnForgotten(bytes) = measure { bytes / 8 } else { 0 };
        let lost: usize = stage.measures().into_iter().map(lost).sum();
        if said > 30_000 {
            assert!((29_980..=30_000).contains(&told), "{told} ms of {said}, ended: {ended}");
        } else {
            assert_eq!(lost, 0, "ended: {ended}");
        }
        // With a little of the line before it and behind it.
        assert!((said..said + 1_300).contains(&(told + lost)), "{told} and {lost} ms of {said}, ended: {ended}");
    }
}
