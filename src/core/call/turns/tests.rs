//! The rules of turns, on scripted ears: one byte per frame names what is heard in it.

mod answers;
mod background;
mod echo;
mod pauses;
mod words;

use super::*;
use AgentSound::{Protected, Silent, Speaking};
use echo::{agent_level, sound};
use proptest::prelude::*;
use std::collections::VecDeque;

/// `.` silence, `s` speech at -25 dBFS, `n` a sound without pitch that passes for speech, `h` a hiss, `q` quiet speech,
/// `v` a vowel of which the detector is not sure yet, `a` a vowel at -12 dBFS, `x` noise at -50 dBFS, `w` at -25 dBFS, `A`–`Z` speech-like at -20 to -45 dBFS.
struct ScriptedEars;

impl Ears for ScriptedEars {
    fn hear(&mut self, audio: &[u8], heard: &mut Vec<Heard>) {
        heard.extend(audio.iter().map(|&kind| {
            let (probability, level_dbfs) = match kind {
                b's' => (0.95, -25.0),
                b'n' => (0.8, -30.0),
                b'h' => (0.1, -30.0),
                b'q' => (0.9, -48.0),
                b'v' => (0.45, -30.0),
                b'a' => (0.9, -12.0),
                b'x' => (0.02, -50.0),
                b'w' => (0.02, -25.0),
                b'A'..=b'Z' => (0.9, -20.0 - f32::from(kind - b'A')),
                _ => (0.02, -65.0),
            };
            let voicing = if matches!(kind, b'n' | b'h') { 0.3 } else { 0.9 };
            Heard { probability, voicing, level_dbfs, floor_dbfs: -65.0 }
        }));
    }
}

#[allow(clippy::disallowed_methods)] // A test needs some instant to count from.
fn start() -> Instant {
    Instant::now()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A caller and an agent in front of one [`TurnTaker`], 20 ms by 20 ms.
struct Scene {
    taker: TurnTaker,
    start: Instant,
    now: Instant,
    events: Vec<(u64, TurnEvent)>,
}

impl Scene {
    fn new() -> Self {
        Self::with(TurnRules::default())
    }

    fn with(rules: TurnRules) -> Self {
        let mut scene = Self::beginning(rules);
        // Nothing is heard when the call begins.
        scene.taker.hear(&[b'.'; 10], Silent, scene.start, &mut Vec::new());
        scene
    }

    /// Nothing has been heard yet.
    fn beginning(rules: TurnRules) -> Self {
        let start = start();
        let taker = TurnTaker::with_ears(rules, Format::SLIN8, Box::new(ScriptedEars));
        Self { taker, start, now: start, events: Vec::new() }
    }

    /// Each letter is 20 ms of the caller.
    fn hear(&mut self, agent: AgentSound, script: &str) -> &mut Self {
        script.bytes().for_each(|kind| self.frame(&[kind], agent, &[]));
        self
    }

    /// `count` frames of one kind.
    fn hears(&mut self, agent: AgentSound, kind: &str, count: usize) -> &mut Self {
        self.hear(agent, &kind.repeat(count))
    }

    fn frame(&mut self, caller: &[u8], agent: AgentSound, played: &[u8]) {
        self.now += FRAME;
        self.taker.played(played, self.now);
        let mut out = Vec::new();
        self.taker.hear(caller, agent, self.now, &mut out);
        self.note(out);
    }

    fn says(&mut self, words: &str) -> &mut Self {
        let mut out = Vec::new();
        self.taker.words(words, self.now, &mut out);
        self.note(out);
        self
    }

    fn note(&mut self, out: Vec<TurnEvent>) {
        let at = (self.now - self.start).as_millis() as u64;
        self.events.extend(out.into_iter().map(|event| (at, event)));
    }

    /// What happened since the last look, as a sentence; moments are milliseconds of the scene. Short silences in a
    /// turn are left out, as most rules are not about them.
    fn told(&mut self) -> String {
        self.events.retain(|(_, event)| !matches!(event, TurnEvent::MayEnd | TurnEvent::GoesOn));
        self.all_told()
    }

    fn all_told(&mut self) -> String {
        let since = |at: Instant| at.saturating_duration_since(self.start).as_millis();
        let told = self.events.drain(..).map(|(at, event)| match event {
            TurnEvent::Ducked => format!("{at} ducked"),
            TurnEvent::Paused => format!("{at} paused"),
            TurnEvent::Resumed(why) => format!("{at} resumed: {}", why.label()),
            TurnEvent::Began { onset, interrupts: true } => format!("{at} interrupted since {}", since(onset)),
            TurnEvent::Began { onset, interrupts: false } => format!("{at} began at {}", since(onset)),
            TurnEvent::WordsWanted => format!("{at} words wanted"),
            TurnEvent::MayEnd => format!("{at} may end"),
            TurnEvent::GoesOn => format!("{at} goes on"),
            TurnEvent::Ended { last_voiced } => format!("{at} ended at {}", since(last_voiced)),
            TurnEvent::HalfDuplex(half) => format!("{at} half duplex: {half}"),
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

#[test]
fn speech_begins_a_turn_after_120_ms_and_silence_ends_it_back_dated_to_the_last_voiced_frame() {
    let mut scene = Scene::new();
    scene.hears(Silent, ".", 10).hears(Silent, "s", 50).hears(Silent, ".", 40);
    assert_eq!(scene.told(), "320 began at 200, 1800 ended at 1200");
}

#[test]
fn a_short_silence_is_told_and_that_it_was_one() {
    let mut scene = Scene::new();
    scene.hears(Silent, "s", 50).hears(Silent, ".", 15).hears(Silent, "s", 10).hears(Silent, ".", 40);
    assert_eq!(scene.all_told(), "120 began at 0, 1200 may end, 1320 goes on, 1700 may end, 2100 ended at 1500");
}

#[test]
fn clicks_and_hisses_begin_no_turn() {
    let mut scene = Scene::new();
    scene.hear(Silent, "..ss......sss........ssss.........hhhhhhhhhhhhhhhhhhhhhhhhhh.......");
    assert_eq!(scene.told(), "");
}

#[test]
fn a_gap_inside_a_word_belongs_to_it() {
    let mut scene = Scene::new();
    scene.hear(Silent, "sss..sss");
    assert_eq!(scene.told(), "160 began at 0");
}

#[test]
fn the_detector_needs_a_moment_so_the_onset_is_back_dated_over_loud_frames() {
    let mut scene = Scene::new();
    scene.hear(Silent, ".....hhssssss");
    assert_eq!(scene.told(), "260 began at 100");
}

#[test]
fn speech_over_the_agent_ducks_it_at_once_pauses_it_at_40_ms_and_interrupts_at_min_speech() {
    let mut scene = Scene::new();
    scene.hears(Speaking, ".", 50).hears(Speaking, "s", 40);
    assert_eq!(scene.told(), "1020 ducked, 1040 paused, 1520 interrupted since 1000");
}

#[test]
fn after_an_interruption_the_turn_ends_like_any_other() {
    let mut scene = Scene::new();
    scene.hears(Speaking, "s", 40).hears(Silent, ".", 30);
    assert_eq!(scene.told(), "20 ducked, 40 paused, 520 interrupted since 0, 1400 ended at 800");
}

#[test]
fn a_short_sound_gives_the_agent_its_voice_back_160_ms_after_it_stopped() {
    let mut scene = Scene::new();
    scene.hears(Speaking, "s", 15).hears(Speaking, ".", 20);
    assert_eq!(scene.told(), "20 ducked, 40 paused, 460 resumed: too_short");
}

#[test]
fn one_voiced_frame_lowers_the_agent_but_never_pauses_it() {
    let mut scene = Scene::new();
    scene.hear(Speaking, "s...........");
    assert_eq!(scene.told(), "20 ducked, 180 resumed: too_short");
}

#[test]
fn a_frame_with_a_pitch_after_a_loud_one_pauses_the_agent() {
    let mut scene = Scene::new();
    scene.hear(Speaking, ".....hs");
    assert_eq!(scene.told(), "140 ducked, 140 paused");
    let mut scene = Scene::new();
    scene.hear(Speaking, ".....hnnn");
    assert_eq!(scene.told(), "140 ducked", "a cough has none");
}

#[test]
fn a_vowel_counts_before_the_detector_is_sure_of_it_and_a_hiss_does_not() {
    let mut scene = Scene::new();
    scene.hear(Speaking, "vv........");
    assert_eq!(scene.told(), "20 ducked, 40 paused, 200 resumed: too_short");
    let mut scene = Scene::new();
    scene.hear(Speaking, "hh........");
    assert_eq!(scene.told(), "");
    let (mut scene, agent) = (Scene::new(), sound(Some(0)));
    "vv........".bytes().for_each(|kind| scene.frame(&[kind], Speaking, &agent));
    assert_eq!(scene.told(), "", "it may be the agent's, as long as the line is not known");
}

#[test]
fn a_sound_that_is_hardly_speech_is_noise_however_long() {
    let mut scene = Scene::new();
    scene.hears(Speaking, "n", 30).hears(Speaking, ".", 20);
    let told = scene.told();
    assert!(told.contains("resumed: noise") && !told.contains("interrupted"), "{told}");
}

#[test]
fn speech_with_gaps_gets_its_verdict_within_600_ms() {
    let mut scene = Scene::new();
    let rules = TurnRules { min_speech: TurnRules::MIN_SPEECH_MAX, ..TurnRules::default() };
    scene.taker.set_rules(rules);
    scene.hear(Speaking, "sssss.......sssss.......s......");
    assert_eq!(scene.told(), "20 ducked, 40 paused, 580 resumed: too_short");
}

#[test]
fn two_words_that_are_no_backchannels_interrupt_at_once() {
    let mut scene = Scene::new();
    scene.hears(Speaking, "s", 10).says("no wait");
    assert_eq!(scene.told(), "20 ducked, 40 paused, 200 interrupted since 0");
}

#[test]
fn words_before_the_pause_still_pause_first() {
    let mut scene = Scene::new();
    scene.hears(Speaking, "s", 1).says("stop talking");
    assert_eq!(scene.told(), "20 ducked, 20 paused, 20 interrupted since 0");
}

#[test]
fn backchannels_do_not_interrupt_however_many_and_long() {
    let mut scene = Scene::new();
    scene.hears(Speaking, "s", 15).says("Okay, okay").hears(Speaking, "s", 15).hears(Speaking, ".", 10);
    let told = scene.told();
    assert!(told.starts_with("20 ducked, 40 paused, 520 resumed: backchannel"), "{told}");
    assert!(!told.contains("interrupted"), "{told}");
}

#[test]
fn one_word_that_is_no_backchannel_leaves_it_to_the_duration_unless_one_is_enough() {
    let mut scene = Scene::new();
    scene.hears(Speaking, "s", 10).says("tomorrow").hears(Speaking, ".", 10);
    assert_eq!(scene.told(), "20 ducked, 40 paused, 360 resumed: too_short");
    let mut scene = Scene::with(TurnRules { min_words: 1, ..TurnRules::default() });
    scene.hears(Speaking, "s", 10).says("okay tomorrow");
    assert_eq!(scene.told(), "20 ducked, 40 paused, 200 interrupted since 0");
}

#[test]
fn one_word_that_asks_for_silence_is_enough() {
    for word in ["Stop!", "Okay, wait.", "No", "Nein!"] {
        let mut scene = Scene::new();
        scene.hears(Speaking, "s", 10).says(word);
        assert_eq!(scene.told(), "20 ducked, 40 paused, 200 interrupted since 0", "{word}");
    }
}

#[test]
fn words_change_nothing_when_nothing_is_undecided() {
    let mut scene = Scene::new();
    scene.hears(Speaking, ".", 10).says("no wait please");
    assert_eq!(scene.told(), "");
}

#[test]
fn who_was_not_let_in_and_tries_again_is_let_in_sooner() {
    let mut scene = Scene::new();
    scene.hears(Speaking, "s", 15).hears(Speaking, ".", 20);
    scene.told();
    scene.hears(Speaking, "s", 40);
    assert_eq!(scene.told(), "720 ducked, 740 paused, 1100 interrupted since 700");
}

#[test]
fn an_echo_that_nobody_knows_yet_does_not_count_as_a_try() {
    let (mut scene, agent) = (Scene::new(), sound(Some(0)));
    let mut hear = |script: &str| {
        script.bytes().for_each(|kind| scene.frame(&[kind], Speaking, &agent));
        scene.told()
    };
    hear(&format!("{}{}{}", ".".repeat(60), "s".repeat(15), ".".repeat(30)));
    assert_eq!(hear(&"s".repeat(30)), "2120 ducked, 2140 paused, 2620 interrupted since 2100");
}

#[test]
fn what_lasts_longer_than_any_echo_counts_as_a_try_also_on_a_line_that_nobody_knows_yet() {
    let (mut scene, agent) = (Scene::new(), sound(Some(0)));
    let mut hear = |script: &str| {
        script.bytes().for_each(|kind| scene.frame(&[kind], Speaking, &agent));
        scene.told()
    };
    hear(&format!("{}{}{}", ".".repeat(60), "s".repeat(20), ".".repeat(30)));
    assert_eq!(hear(&"s".repeat(30)), "2220 ducked, 2240 paused, 2600 interrupted since 2200");
}

/// The line is not known yet, and the caller begins and pauses about as the agent did half a second before: that is no
/// reason to take them for the agent's echo.
#[test]
fn clear_speech_soon_after_the_beginning_of_an_answer_interrupts_whatever_the_agent_did_before() {
    for (into, words) in
        [(32, [22, 6, 22, 6, 24]), (32, [18, 9, 18, 9, 26]), (28, [24, 5, 20, 7, 24]), (45, [20, 8, 20, 8, 24])]
    {
        let (mut scene, mut paused) = (Scene::new(), false);
        let caller = words.iter().zip(["s", "."].iter().cycle()).map(|(&count, kind)| kind.repeat(count));
        let second = ".".repeat(into) + &caller.collect::<String>();
        // A turn of the caller, and its answer.
        scene.hears(Silent, "s", 40).hears(Silent, ".", 50);
        let began = scene.now;
        for kind in second.bytes() {
            let level = if paused { None } else { Some(5) };
            let before = scene.events.len();
            scene.frame(&[kind], Speaking, &sound(level));
            for (_, event) in &scene.events[before..] {
                match event {
                    TurnEvent::Paused => paused = true,
                    TurnEvent::Resumed(_) => paused = false,
                    _ => {}
                }
            }
        }
        let onset = (began - scene.start).as_millis() as u64 + 20 * into as u64;
        let told = scene.told();
        let interrupted =
            told.split(", ").find_map(|event| event.split_once(" interrupted")).unwrap_or_else(|| panic!("{told}"));
        assert!(
            interrupted.0.parse::<u64>().unwrap() <= onset + 800 && !told.contains("echo"),
            "onset {onset}: {told}"
        );
    }
}

#[test]
fn a_verdict_comes_within_600_ms_of_what_was_heard_also_when_it_comes_all_at_once() {
    for script in ["sssss.......sssss.......s......".repeat(2), "s..".repeat(20), "s".repeat(40), "n".repeat(40)] {
        for at_once in [1, 3, 10, 40] {
            let mut scene = Scene::new();
            scene.hears(Speaking, ".", 10);
            let mut ducked = None;
            for (index, kind) in script.bytes().enumerate() {
                if index % at_once == 0 {
                    scene.now += FRAME * at_once as u32;
                }
                let mut out = Vec::new();
                scene.taker.hear(&[kind], Speaking, scene.now, &mut out);
                for event in out {
                    match event {
                        TurnEvent::Ducked => ducked = Some(index),
                        TurnEvent::Resumed(_) | TurnEvent::Began { .. } => ducked = None,
                        _ => {}
                    }
                }
                // Two more at the most are before the frame that ducked.
                assert!(ducked.is_none_or(|since| index - since < 29), "{at_once} at once: {script}");
            }
        }
    }
}

/// The clock goes on: whoever counted frames alone would leave the agent paused for a second and more.
#[test]
fn a_verdict_comes_in_time_where_half_of_the_frames_are_lost() {
    let mut scene = Scene::new();
    scene.hears(Speaking, ".", 10);
    for _ in 0..20 {
        scene.now += FRAME;
        scene.hear(Speaking, "s");
    }
    let told = scene.told();
    let (_, verdict) = told.split_once(" paused, ").unwrap_or_else(|| panic!("{told}"));
    let at: u64 = verdict.split(' ').next().and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("{told}"));
    // The frames' clock may lag behind by 100 ms.
    assert!(at <= 200 + 600 + 100, "{told}");
}

#[test]
fn who_goes_on_after_a_gap_is_let_in_as_if_there_had_been_none() {
    let mut scene = Scene::new();
    scene.hears(Speaking, "s", 12).hears(Speaking, ".", 11).hears(Speaking, "s", 10);
    assert_eq!(
        scene.told(),
        "20 ducked, 40 paused, 400 resumed: too_short, 480 ducked, 500 paused, 520 interrupted since 460"
    );
}

#[test]
fn after_several_false_alarms_in_one_answer_it_takes_more_to_pause_it() {
    let mut scene = Scene::new();
    let mut paused_after = Vec::new();
    for _ in 0..5 {
        let onset = (scene.now - scene.start).as_millis() as u64;
        scene.hears(Speaking, "s", 15).hears(Speaking, ".", 120);
        let paused = scene.events.iter().find(|(_, event)| *event == TurnEvent::Paused);
        paused_after.extend(paused.map(|(at, _)| at - onset));
        scene.told();
    }
    assert_eq!(paused_after, [40, 40, 160, 160, 240]);
    // The next answer begins without distrust.
    scene.hears(Silent, ".", 5).hears(Speaking, ".", 5).hears(Speaking, "s", 15);
    let told = scene.told();
    let onset = (scene.now - scene.start).as_millis() as u64 - 300;
    assert!(told.contains(&format!("{} paused", onset + 40)), "{told}");
}

#[test]
fn a_protected_passage_and_an_agent_that_is_not_interruptible_are_left_alone() {
    let mut scene = Scene::new();
    scene.hears(Protected, "s", 60).says("stop it now");
    assert_eq!(scene.told(), "");
    let mut scene = Scene::with(TurnRules { interruptible: false, ..TurnRules::default() });
    scene.hears(Speaking, "s", 60);
    assert_eq!(scene.told(), "");
    // Who still speaks when the agent has ended has the turn, with all of it.
    scene.hears(Silent, "s", 10);
    assert_eq!(scene.told(), "1220 began at 0");
}

#[test]
fn where_the_provider_owns_the_turns_nothing_is_said_but_the_last_voiced_frame_is_known() {
    let mut scene = Scene::with(TurnRules { owner: TurnOwner::Provider, ..TurnRules::default() });
    scene.hears(Speaking, "s", 60).hears(Silent, ".", 60);
    assert_eq!(scene.told(), "");
    assert_eq!(scene.taker.last_voiced().unwrap() - scene.start, ms(1200));
}

#[test]
fn a_reset_takes_a_candidate_back_and_ends_a_turn() {
    let mut scene = Scene::new();
    let reset = |scene: &mut Scene| {
        let mut out = Vec::new();
        scene.taker.reset(&mut out);
        scene.note(out);
    };
    scene.hears(Speaking, "s", 10);
    reset(&mut scene);
    scene.hears(Silent, "s", 10);
    reset(&mut scene);
    reset(&mut scene);
    assert_eq!(scene.told(), "20 ducked, 40 paused, 200 resumed: too_short, 320 began at 200, 400 ended at 400");
}

#[test]
fn frames_that_arrive_in_bursts_are_dated_by_their_count() {
    let mut scene = Scene::new();
    scene.hears(Silent, ".", 5);
    for piece in ["ssss", "ssss", "....", "........", "........", "........", "...."] {
        scene.now += FRAME * piece.len() as u32;
        let mut out = Vec::new();
        scene.taker.hear(piece.as_bytes(), Silent, scene.now, &mut out);
        scene.note(out);
    }
    assert_eq!(scene.told(), "260 began at 100, 900 ended at 260");
}

proptest! {
    /// Whatever is heard, said and reset: events come in an order that a call can follow, and a verdict within 600 ms
    /// of the onset, or 900 ms where words are asked for.
    #[test]
    fn events_alternate_sanely(
        asks in any::<bool>(),
        steps in proptest::collection::vec((0_u8..8, 1_usize..40, 0_u8..6, 0_u8..12), 1..60),
    ) {
        let (mut scene, verdict_max) = (Scene::new(), if asks { 900 } else { 600 });
        scene.taker.ask_words(asks);
        let mut agent = Speaking;
        let mut spoken = 0;
        for (kind, count, who, what) in steps {
            agent = match who { 0 => Silent, 1 => Protected, 2 => agent, _ => Speaking };
            let kind = [".", "s", "s", "n", "h", "q", "C", "H"][usize::from(kind)].as_bytes()[0];
            for _ in 0..count {
                spoken += 1;
                let level = (agent != Silent).then(|| agent_level(spoken)).flatten();
                scene.frame(&[kind], agent, &sound(level));
            }
            match what {
                0 => { scene.says("no wait please"); }
                1 => { scene.says("okay"); }
                2 => {
                    let mut out = Vec::new();
                    scene.taker.reset(&mut out);
                    scene.note(out);
                }
                3 => scene.taker.set_rules(TurnRules { interruptible: kind != b'q', ..TurnRules::default() }),
                _ => {}
            }
        }
        let (mut ducked, mut paused, mut turn, mut may_end, mut half) = (None, false, false, false, false);
        for (at, event) in &scene.events {
            match event {
                TurnEvent::Ducked => {
                    prop_assert!(ducked.is_none() && !turn);
                    ducked = Some(*at);
                }
                TurnEvent::Paused => {
                    prop_assert!(ducked.is_some() && !paused);
                    paused = true;
                }
                TurnEvent::Resumed(_) => {
                    let since = ducked.take();
                    prop_assert!(since.is_some_and(|since| at - since <= verdict_max));
                    paused = false;
                }
                TurnEvent::Began { onset, interrupts } => {
                    // An agent that has come to its end is not interrupted any more.
                    prop_assert!(!turn && (!interrupts || (ducked.is_some() && paused)));
                    let onset = onset.saturating_duration_since(scene.start).as_millis() as u64;
                    prop_assert!(!interrupts || at - onset <= verdict_max);
                    (ducked, paused, turn) = (None, false, true);
                }
                TurnEvent::Ended { last_voiced } => {
                    prop_assert!(turn && *last_voiced <= scene.now);
                    (turn, may_end) = (false, false);
                }
                TurnEvent::WordsWanted => prop_assert!(asks && ducked.is_some() && !turn),
                TurnEvent::MayEnd => prop_assert!(turn && !std::mem::replace(&mut may_end, true)),
                TurnEvent::GoesOn => prop_assert!(turn && std::mem::take(&mut may_end)),
                TurnEvent::HalfDuplex(now) => {
                    prop_assert!(*now != half);
                    half = *now;
                }
            }
        }
    }
}
