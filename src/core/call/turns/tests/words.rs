//! Words of an undecided sound that come only when they are asked for.

use super::*;

fn asked() -> Scene {
    let mut scene = Scene::new();
    scene.taker.ask_words(true);
    scene
}

#[test]
fn a_short_word_is_asked_for_in_the_pause_behind_it_and_stops_the_agent() {
    let mut scene = asked();
    scene.hears(Speaking, "s", 15).hears(Speaking, ".", 8).says("Stop.");
    assert_eq!(scene.told(), "20 ducked, 40 paused, 360 words wanted, 460 interrupted since 0");
}

#[test]
fn a_nod_goes_by_also_one_that_is_as_long_as_an_interruption() {
    let mut scene = asked();
    scene.hears(Speaking, "s", 15).hears(Speaking, ".", 8).says("Mhm.").hears(Speaking, ".", 1);
    assert_eq!(scene.told(), "20 ducked, 40 paused, 360 words wanted, 480 resumed: backchannel");
    let mut scene = asked();
    scene.hears(Speaking, "s", 33).says("Mhm, okay.").hears(Speaking, "s", 1);
    assert_eq!(scene.told(), "20 ducked, 40 paused, 520 words wanted, 680 resumed: backchannel");
}

#[test]
fn words_are_waited_for_no_longer_than_for_a_moment() {
    let mut scene = asked();
    scene.hears(Speaking, "s", 50);
    assert_eq!(scene.told(), "20 ducked, 40 paused, 520 words wanted, 820 interrupted since 0");
    let mut scene = asked();
    scene.hears(Speaking, "s", 15).hears(Speaking, ".", 25);
    assert_eq!(scene.told(), "20 ducked, 40 paused, 360 words wanted, 660 resumed: too_short");
}

#[test]
fn who_goes_on_is_asked_again() {
    let mut scene = asked();
    scene.hears(Speaking, "s", 12).hears(Speaking, ".", 3).says("Okay.").hears(Speaking, "s", 12).says("Okay, but no");
    assert_eq!(scene.told(), "20 ducked, 40 paused, 300 words wanted, 520 words wanted, 540 interrupted since 0");
}

#[test]
fn what_a_recognizer_makes_of_a_short_sound_does_not_interrupt_unless_it_asks_for_silence() {
    let mut scene = asked();
    scene.hears(Speaking, "s", 15).hears(Speaking, ".", 5).says("Thank you for watching.").hears(Speaking, ".", 4);
    assert_eq!(scene.told(), "20 ducked, 40 paused, 360 words wanted, 460 resumed: too_short");
}

#[test]
fn nobody_is_asked_about_noise_and_clicks_or_where_words_come_by_themselves() {
    for sound in ["n", "h"] {
        let mut scene = asked();
        scene.hears(Speaking, sound, 20).hears(Speaking, ".", 20);
        assert!(!scene.told().contains("wanted"), "{sound}");
    }
    let mut scene = asked();
    scene.hears(Speaking, "s", 3).hears(Speaking, ".", 20);
    assert!(!scene.told().contains("wanted"));
    let mut scene = Scene::new();
    scene.hears(Speaking, "s", 15).hears(Speaking, ".", 20);
    assert!(!scene.told().contains("wanted"));
}
