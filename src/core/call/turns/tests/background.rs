//! Who is heard beside a television, in an office, in a bar.

use super::*;

/// `A` is a caller at -20 dBFS, `K` others at -30 dBFS.
const SECOND: usize = 50;

fn beside_a_television() -> Scene {
    Scene::beginning(TurnRules::default())
}

/// A caller who has said something at -20 dBFS on a quiet line.
fn known_caller() -> Scene {
    let mut scene = Scene::new();
    scene.hears(Silent, "A", 2 * SECOND).hears(Silent, ".", 3 * SECOND);
    scene.told();
    scene
}

#[test]
fn what_is_there_when_the_call_begins_stops_no_greeting_and_begins_no_turn() {
    let mut scene = beside_a_television();
    scene.hears(Silent, "K", 10).hears(Speaking, "K", 10 * SECOND).hears(Silent, "K", 10 * SECOND);
    assert_eq!(scene.told(), "");
}

#[test]
fn who_is_10_db_louder_than_what_was_there_is_heard_and_their_turn_ends_while_it_goes_on() {
    let mut scene = beside_a_television();
    scene.hears(Silent, "K", 10).hears(Speaking, "K", SECOND).hears(Speaking, "A", 2 * SECOND);
    scene.hears(Silent, "K", 4 * SECOND);
    let told = scene.told();
    // The turn ends 300 ms later than on a quiet line: sound behind a vowel may be the caller's.
    let expected = "1220 ducked, 1220 paused, 1660 interrupted since 1140, 4100 ended at 3500";
    assert_eq!(told, expected);
}

#[test]
fn who_says_hello_as_the_call_begins_is_heard_a_second_later() {
    let mut scene = beside_a_television();
    scene.hears(Silent, "A", 20).hears(Silent, ".", 30).hears(Silent, "A", SECOND).hears(Silent, ".", SECOND);
    assert_eq!(scene.told(), "1120 began at 1000, 2600 ended at 2000");
}

#[test]
fn who_is_as_loud_as_only_a_caller_and_speaks_as_the_call_begins_is_heard_at_once() {
    let mut scene = beside_a_television();
    scene.hears(Silent, "A", 5).hears(Silent, "a", 20).hears(Silent, "A", 75).hears(Silent, ".", SECOND);
    let told = scene.told();
    assert!(told.starts_with("120 began at 0, ") && told.ends_with("ended at 2000"), "{told}");
}

/// Line noise is learnt from the first 300 ms; a caller is at least 6 dB louder.
#[test]
fn who_speaks_into_a_noisy_line_in_its_first_second_is_heard() {
    let mut scene = beside_a_television();
    scene.hears(Silent, "x", 20).hears(Silent, "K", 2 * SECOND).hears(Silent, "x", SECOND);
    assert_eq!(scene.told(), "520 began at 340, 3000 ended at 2400");
}

#[test]
fn who_says_their_name_as_the_call_begins_is_heard_when_they_have_said_it() {
    let mut scene = beside_a_television();
    scene.hears(Silent, "A", 50).hears(Silent, ".", 30).hears(Silent, "A", SECOND).hears(Silent, ".", SECOND);
    assert!(scene.told().contains("began at 1600"));
}

/// The first turn ends after 6 s, since the caller's level is not known yet; later turns are heard whole.
#[test]
fn a_soft_caller_whose_first_turn_was_taken_for_a_television_is_heard_when_they_have_paused() {
    for soft in ["K", "R"] {
        let mut scene = Scene::new();
        scene.hears(Silent, soft, 8 * SECOND).hears(Silent, ".", 2 * SECOND);
        scene.told();
        let from = (scene.now - scene.start).as_millis() as u64;
        scene.hears(Silent, soft, 3 * SECOND).hears(Silent, ".", 2 * SECOND);
        assert_eq!(scene.told(), format!("{} began at {from}, {} ended at {}", from + 120, from + 3_600, from + 3_000));
        scene.hears(Silent, soft, 20 * SECOND).hears(Silent, ".", 2 * SECOND);
        let told = scene.told();
        assert!(told.ends_with(&format!("ended at {}", from + 25_000)) && told.matches("began").count() == 1, "{told}");
    }
}

#[test]
fn who_gets_12_db_softer_interrupts_again_after_a_turn() {
    let mut scene = known_caller();
    scene.hears(Silent, "M", 2 * SECOND).hears(Silent, ".", SECOND).told();
    scene.hears(Speaking, "M", SECOND);
    assert!(scene.told().contains("interrupted"));
}

#[test]
fn others_who_are_10_db_below_a_caller_who_is_known_stop_no_agent() {
    let mut scene = known_caller();
    scene.hears(Speaking, "K", 10 * SECOND);
    assert_eq!(scene.told(), "");
}

#[test]
fn a_caller_who_speaks_6_db_lower_than_before_still_interrupts() {
    let mut scene = known_caller();
    scene.hears(Speaking, "G", SECOND);
    assert!(scene.told().contains("interrupted"));
}

#[test]
fn a_television_that_is_switched_on_in_mid_call_has_a_turn_for_6_s_and_none_after_that() {
    let mut scene = known_caller();
    let from = (scene.now - scene.start).as_millis() as u64;
    scene.hears(Silent, "K", 60 * SECOND);
    let told = scene.told();
    let (began, ended) = told.split_once(", ").expect("a turn that ends");
    assert_eq!(began, format!("{} began at {from}", from + 120));
    let (at, _) = ended.split_once(" ended at ").expect("and no other");
    let length = at.parse::<u64>().unwrap() - from;
    assert!((6_000..=7_500).contains(&length), "{length} ms");
    assert!(!scene.hears(Speaking, "K", 10 * SECOND).told().contains("paused"), "it does not stop the agent either");
    assert!(scene.hears(Speaking, "A", SECOND).told().contains("interrupted"), "and the caller does");
}

#[test]
fn a_radio_that_is_switched_on_while_a_known_caller_speaks_keeps_their_turn_open_for_a_moment() {
    let mut scene = known_caller();
    scene.hears(Silent, "A", SECOND).hears(Silent, "U", 3 * SECOND);
    assert_eq!(scene.told(), "5120 began at 5000, 7000 ended at 6400");
}

#[test]
fn a_radio_that_is_heard_again_in_the_pause_of_a_known_caller_does_not_keep_their_turn_open() {
    let mut scene = known_caller();
    scene.hears(Silent, "A", SECOND).hears(Silent, ".", 15).hears(Silent, "U", 3 * SECOND);
    assert_eq!(scene.told(), "5120 began at 5000, 6600 ended at 6000");
}

#[test]
fn a_caller_who_goes_on_softly_behind_a_pause_is_heard_from_their_first_vowel() {
    let mut scene = known_caller();
    scene.hears(Silent, "A", SECOND).hears(Silent, ".", 15).hears(Silent, "U", 10);
    scene.hears(Silent, "A", SECOND).hears(Silent, ".", SECOND);
    assert_eq!(scene.told(), "5120 began at 5000, 8200 ended at 7500");
}

#[test]
fn a_caller_who_is_20_db_softer_than_before_is_heard_to_the_end_of_their_turn() {
    let mut scene = known_caller();
    scene.hears(Silent, "U", 3 * SECOND).hears(Silent, ".", SECOND);
    assert_eq!(scene.told(), "5120 began at 5000, 8600 ended at 8000");
}

#[test]
fn a_radio_that_is_heard_while_the_agent_speaks_to_a_known_caller_is_background() {
    let mut scene = known_caller();
    scene.hears(Speaking, "U", 6 * SECOND).hears(Silent, "U", 10 * SECOND);
    assert_eq!(scene.told(), "");
}

/// Speech and noise together are 2 dB louder than the noise, as between the vowels of a caller 5 dB above it.
#[test]
fn who_is_hardly_louder_than_steady_noise_is_heard_while_the_agent_is_silent() {
    let mut scene = beside_a_television();
    scene.hears(Silent, "w", SECOND).hears(Silent, "D", 2 * SECOND).hears(Silent, "w", 2 * SECOND);
    assert_eq!(scene.told(), "1120 began at 940, 3600 ended at 3000");
    let mut scene = beside_a_television();
    scene.hears(Speaking, "w", SECOND).hears(Speaking, "D", SECOND).hears(Speaking, "w", SECOND);
    assert_eq!(scene.told(), "", "it interrupts nobody");
}

#[test]
fn a_caller_who_tells_a_long_story_without_a_breath_is_heard_to_its_end() {
    for mut scene in [known_caller(), Scene::new()] {
        let from = (scene.now - scene.start).as_millis() as u64;
        scene.hears(Silent, "A", 25 * SECOND).hears(Silent, ".", SECOND);
        let last = from + 25_000;
        assert_eq!(scene.told(), format!("{} began at {from}, {} ended at {last}", from + 120, last + 600));
    }
}

#[test]
fn what_goes_on_for_70_s_is_nobody_s_turn_any_more() {
    let mut scene = Scene::new();
    scene.hears(Silent, "A", 100 * SECOND);
    let told = scene.told();
    let (at, _) = told.split_once(", ").expect("an end").1.split_once(" ended at ").expect("one turn");
    assert!((70_000..=71_500).contains(&at.parse::<u64>().unwrap()), "{told}");
}

#[test]
fn when_the_television_is_off_a_soft_caller_is_heard_again() {
    let mut scene = beside_a_television();
    scene.hears(Silent, "K", 5 * SECOND).hears(Silent, ".", 5 * SECOND);
    scene.told();
    assert!(scene.hears(Silent, "R", SECOND).told().contains("began"), "-37 dBFS");
}

#[test]
fn a_television_that_is_switched_on_in_the_greeting_pauses_it_for_a_moment() {
    let mut scene = Scene::new();
    scene.hears(Speaking, ".", SECOND).hears(Speaking, "P", 10 * SECOND);
    assert_eq!(scene.told(), "1020 ducked, 1040 paused, 1540 resumed: too_short");
}

/// It gets up to 6 dB louder, as the next scene of a film.
#[test]
fn a_television_that_was_on_before_the_call_and_gets_louder_stops_no_greeting() {
    let mut scene = beside_a_television();
    scene.hears(Silent, "K", 10).hears(Speaking, "K", 2 * SECOND).hears(Speaking, "E", 2 * SECOND);
    assert_eq!(scene.told(), "");
    assert!(scene.hears(Speaking, "A", SECOND).told().contains("interrupted"), "a caller at -20 dBFS");
}

/// The detector takes a frame of noise for speech before it knows the line.
#[test]
fn one_frame_of_noise_that_passes_for_speech_makes_nobody_harder_to_hear() {
    let mut scene = beside_a_television();
    scene.hears(Silent, "x", 6).hears(Silent, "s", 1).hears(Silent, "x", 43).hears(Speaking, "x", SECOND);
    assert!(scene.hears(Speaking, "H", SECOND).told().contains("interrupted"), "a caller at -27 dBFS");
}

#[test]
fn a_soft_caller_may_interrupt_the_greeting() {
    let mut scene = Scene::new();
    scene.hears(Speaking, ".", SECOND).hears(Speaking, "L", 2 * SECOND);
    assert_eq!(scene.told(), "1020 ducked, 1040 paused, 1520 interrupted since 1000");
}
