//! When a caller who is silent has finished.

use super::*;

#[test]
fn words_that_sound_finished_end_a_turn_sooner_and_open_ones_later() {
    let ended = |words: &str| {
        let mut scene = Scene::new();
        scene.hears(Silent, "s", 50).says(words).hears(Silent, ".", 70);
        scene.told()
    };
    assert_eq!(ended(""), "120 began at 0, 1600 ended at 1000");
    assert_eq!(ended("a table for four"), "120 began at 0, 1540 ended at 1000");
    assert_eq!(ended("A table for four."), "120 began at 0, 1540 ended at 1000");
    assert_eq!(ended("A table for four?"), "120 began at 0, 1460 ended at 1000");
    assert_eq!(ended("a table for four and"), "120 began at 0, 1960 ended at 1000");
}

#[test]
fn what_a_transcriber_believes_counts_like_the_words_and_for_one_turn_only() {
    let mut scene = Scene::new();
    scene.hears(Silent, "s", 50);
    scene.taker.seems_over(true);
    scene.hears(Silent, ".", 130).hears(Silent, "s", 50).hears(Silent, ".", 70);
    assert_eq!(scene.told(), "120 began at 0, 1460 ended at 1000, 3720 began at 3600, 5200 ended at 4600");
}

#[test]
fn a_transcriber_that_decides_ends_a_turn_at_once_and_silence_alone_much_later() {
    let ended = |over: bool, words: &str| {
        let mut scene = Scene::new();
        scene.taker.trust(true);
        scene.hears(Silent, "s", 50).says(words).taker.seems_over(over);
        scene.hears(Silent, ".", 70).told()
    };
    assert_eq!(ended(true, "a table and"), "120 began at 0, 1200 ended at 1000");
    assert_eq!(ended(false, "A table for four."), "120 began at 0, 2200 ended at 1000");
}

#[test]
fn a_caller_who_pauses_a_lot_gets_more_time_but_not_more_than_twice() {
    let mut scene = Scene::new();
    let speak = |scene: &mut Scene, pause: usize| {
        scene.hears(Silent, "s", 20).hears(Silent, ".", pause).hears(Silent, "s", 20).hears(Silent, ".", 70);
    };
    speak(&mut scene, 5);
    assert_eq!(scene.told(), "120 began at 0, 1500 ended at 900", "600 ms of silence");
    scene.hears(Silent, ".", 50);
    speak(&mut scene, 28);
    assert_eq!(scene.told(), "3420 began at 3300, 5460 ended at 4660", "784 ms of silence, in whole frames");
    // Two turns that were cut off too soon: the pause was 1.2 s.
    scene.hears(Silent, ".", 80);
    scene.told();
    scene.hears(Silent, "s", 20).hears(Silent, ".", 60).hears(Silent, "s", 20).hears(Silent, ".", 70);
    let told = scene.told();
    let ended = told.rsplit(", ").next().unwrap();
    let (at, last) = ended.split_once(" ended at ").unwrap();
    assert_eq!(at.parse::<u64>().unwrap() - last.parse::<u64>().unwrap(), 1200, "{told}");
}

/// What is told of `pieces` with a pause of `pause` between them, if a recogniser that is asked in each silence writes them
/// 100 ms later, and the agent begins its answer 200 ms after the end of a turn. Returns the ends of turns that were
/// reported before the caller had finished, and the silence after the last piece that ended the turn.
fn paused(pieces: &[&str], pause: u64, each: usize) -> (usize, u64) {
    let mut scene = Scene::new();
    let mut said = String::new();
    let (mut agent_in, mut cut_off) = (None, 0);
    for (index, piece) in pieces.iter().enumerate() {
        scene.hears(if agent_in.is_some() { Speaking } else { Silent }, "s", each);
        said = format!("{said} {piece}");
        let frames = if index + 1 < pieces.len() { pause / 20 } else { 200 };
        for frame in 0..frames {
            scene.hear(if agent_in.is_some_and(|at| at <= scene.now) { Speaking } else { Silent }, ".");
            if frame == 15 {
                scene.says(&said);
            }
            let ended = scene.events.iter().any(|(_, event)| matches!(event, TurnEvent::Ended { .. }));
            if ended && agent_in.is_none() && index + 1 < pieces.len() {
                cut_off += 1;
                agent_in = Some(scene.now + ms(200));
            }
        }
    }
    let last = scene.events.iter().rev().find_map(|(at, event)| match event {
        TurnEvent::Ended { last_voiced } => Some(at - (*last_voiced - scene.start).as_millis() as u64),
        _ => None,
    });
    (cut_off, last.unwrap_or_default())
}

/// The silence that ends a turn with these words.
fn gap(words: &str) -> u64 {
    paused(&[words], 0, 50).1
}

#[test]
fn letters_and_digits_with_up_to_1_200_ms_between_them_are_one_turn_and_the_agent_is_silent_meanwhile() {
    let spelled: [&[&str]; 5] = [
        &["M", "U", "E", "L", "E", "R"],
        &["My name is spelled M.", "U.", "E.", "L.", "E.", "R."],
        &["4", "4", "0", "7", "9", "1"],
        &["four", "four", "zero", "seven", "nine", "one"],
        &["Meine Nummer ist 0", "3", "0", "4", "4", "1"],
    ];
    for pieces in spelled {
        for pause in [500, 800, 1_200] {
            // A letter lasts 240 ms.
            assert_eq!(paused(pieces, pause, 12), (0, 1_600), "{pieces:?}, {pause} ms");
        }
    }
}

/// Providers that are told the turns know the caller's words when a turn is over, which is too late here.
#[test]
fn who_was_asked_to_spell_is_waited_for_though_no_words_are_known() {
    let spelled = |question: &str| {
        let mut scene = Scene::new();
        scene.taker.agent_said(question);
        for _ in 0..4 {
            scene.hears(Silent, "s", 12).hears(Silent, ".", 60);
        }
        scene.hears(Silent, ".", 40).told()
    };
    assert_eq!(spelled("Could you spell that, please?"), "120 began at 0, 6160 ended at 4560");
    assert!(
        spelled("How can I help you?").starts_with("120 began at 0, 840 ended at 240"),
        "nobody spells an answer to that"
    );
}

#[test]
fn the_words_of_whoever_was_asked_to_spell_tell_more_than_the_question() {
    let mut scene = Scene::new();
    scene.taker.agent_said("Could you spell that, please?");
    scene.hears(Silent, "s", 50).says("I would rather not").hears(Silent, ".", 150);
    assert_eq!(scene.told(), "120 began at 0, 1540 ended at 1000");
    scene.taker.agent_said("No problem. What else can I do?");
    scene.hears(Silent, "s", 50).hears(Silent, ".", 40);
    assert_eq!(scene.told(), "4120 began at 4000, 5600 ended at 5000", "that is another question");
}

#[test]
fn a_pause_of_up_to_900_ms_behind_a_function_word_is_not_the_end() {
    for (first, rest) in [
        ("I would like to change the", "appointment on Tuesday"),
        ("I would like to change the.", "appointment on Tuesday."),
        ("Please call me at my", "office"),
        ("Ich möchte einen", "Tisch für vier"),
        ("Je voudrais parler avec", "Madame Dupont"),
        ("quiero hablar con", "el gerente"),
        ("vorrei parlare con", "la segreteria"),
        ("ik wil graag de", "afspraak verzetten"),
        ("eu queria falar com", "o gerente"),
    ] {
        for pause in [500, 700, 900] {
            let (cut_off, gap) = paused(&[first, rest], pause, 40);
            assert_eq!(cut_off, 0, "{first:?}, {pause} ms");
            assert!(gap <= 1_200, "{first:?}, {pause} ms: {gap} ms at the end");
        }
    }
}

#[test]
fn a_complete_sentence_is_answered_within_600_ms_in_each_language() {
    for whole in [
        "I would like a table for four",
        "That is the man I spoke to yesterday",
        "Ich hätte gern einen Tisch",
        "Je voudrais une table",
        "quiero una mesa",
        "vorrei un tavolo",
        "ik wil graag een tafel",
        "queria uma mesa",
        "मुझे एक मेज़ चाहिए",
    ] {
        assert_eq!(gap(whole), 540, "{whole}");
    }
    for closed in ["A table for four.", "Rufen Sie mich bitte an.", "Doe maar.", "मुझे एक मेज़ चाहिए।"]
    {
        assert_eq!(gap(closed), 540, "{closed}");
    }
    for finished in ["Wie spät ist es?", "yes", "Si."] {
        assert_eq!(gap(finished), 460, "{finished}");
    }
    assert_eq!(gap("My PIN is 4711."), 540, "nobody dictates it");
}

#[test]
fn a_caller_into_whose_pause_the_agent_came_is_given_more_time_in_the_next() {
    let mut scene = Scene::new();
    scene.hears(Silent, "s", 50).says("I would like to change my appointment.");
    assert_eq!(scene.hears(Silent, ".", 35).told(), "120 began at 0, 1540 ended at 1000");
    // The agent has been heard for 200 ms when the caller goes on after 900 ms.
    scene.hears(Speaking, ".", 10).hears(Speaking, "s", 10);
    assert_eq!(scene.told(), "1920 ducked, 1940 paused, 2060 interrupted since 1900");
    scene.hears(Silent, "s", 40).says("from Tuesday to Thursday").hears(Silent, ".", 80);
    scene.told();
    let began = (scene.now - scene.start).as_millis() as u64;
    scene.hears(Silent, "s", 50).says("and the other one too.").hears(Silent, ".", 45);
    assert_eq!(scene.told(), format!("{} began at {began}", began + 120), "900 ms, and it is still a pause");
}

#[test]
fn who_goes_on_just_as_the_agent_comes_in_is_let_in_with_160_ms_and_later_is_not() {
    let told = |agent: usize| {
        let mut scene = Scene::new();
        // The line is known.
        let voice = sound(Some(0));
        (0..150).for_each(|_| scene.frame(b".", Speaking, &voice));
        scene.hears(Silent, "s", 50).hears(Silent, ".", 35).told();
        let began = (scene.now - scene.start).as_millis() as u64;
        (0..agent).for_each(|_| scene.frame(b".", Speaking, &voice));
        (0..12).for_each(|_| scene.frame(b"s", Speaking, &voice));
        (0..30).for_each(|_| scene.frame(b".", Speaking, &voice));
        scene.events.retain(|(_, event)| matches!(event, TurnEvent::Began { .. } | TurnEvent::Resumed(_)));
        let since = began + 20 * agent as u64;
        (since, scene.told())
    };
    let (onset, soon) = told(15);
    assert_eq!(soon, format!("{} interrupted since {onset}", onset + 160));
    // It has said something: what lasts 240 ms is a nod.
    let (onset, late) = told(40);
    assert_eq!(late, format!("{} resumed: too_short", onset + 400));
}

#[test]
fn a_letter_that_comes_late_stops_the_agent() {
    let mut scene = Scene::new();
    scene.hears(Silent, "s", 12).hears(Silent, ".", 12).says("M").hears(Silent, ".", 69);
    assert_eq!(scene.told(), "120 began at 0, 1840 ended at 240");
    // The agent has been heard for 700 ms.
    scene.hears(Speaking, ".", 35).hears(Speaking, "s", 12);
    let told = scene.told();
    assert!(told.ends_with("interrupted since 2560"), "{told}");
}

#[test]
fn pauses_between_letters_are_not_taken_for_those_between_sentences() {
    let mut scene = Scene::new();
    for letter in ["M", "M U", "M U E"] {
        scene.hears(Silent, "s", 12).hears(Silent, ".", 12).says(letter).hears(Silent, ".", 38);
    }
    assert_eq!(scene.hears(Silent, ".", 100).told(), "120 began at 0, 4320 ended at 2720");
    let began = (scene.now - scene.start).as_millis() as u64;
    scene.hears(Silent, "s", 50).says("That is all I need").hears(Silent, ".", 40);
    let ended = format!("{} began at {began}, {} ended at {}", began + 120, began + 1_540, began + 1_000);
    assert_eq!(scene.told(), ended);
}

#[test]
fn a_transcriber_that_takes_a_letter_for_a_turn_does_not_end_it() {
    let mut scene = Scene::new();
    scene.hears(Silent, "s", 12).hears(Silent, ".", 12).says("M").taker.seems_over(true);
    assert_eq!(scene.hears(Silent, ".", 100).told(), "120 began at 0, 1840 ended at 240");
}

/// A sentence of a second with its ups and downs, that ends with 300 ms of this level, and the silence that ends its turn.
fn silence_behind(end: &str, words: &str) -> u64 {
    let mut scene = Scene::new();
    scene.hear(Silent, &"AAHHH".repeat(10)).hears(Silent, end, 15).says(words).hears(Silent, ".", 70);
    let Some((at, TurnEvent::Ended { last_voiced })) = scene.events.last() else { panic!("{:?}", scene.events) };
    at - (*last_voiced - scene.start).as_millis() as u64
}

#[test]
fn a_voice_that_is_up_is_waited_for_where_words_may_be_a_sentence_and_where_none_are_known() {
    let up_and_fallen = |words| ["B", "K"].map(|end| silence_behind(end, words));
    assert_eq!(up_and_fallen("a table for four"), [780, 540]);
    assert_eq!(up_and_fallen("A table for four."), [780, 540]);
    assert_eq!(up_and_fallen(""), [700, 600]);
    assert_eq!(up_and_fallen("A table for four?"), [460, 460], "a question");
    assert_eq!(up_and_fallen("a table for"), [960, 960], "words that something follows");
}

/// Their sound fills the end of the caller's words.
#[test]
fn beside_others_a_voice_tells_nothing() {
    let mut scene = Scene::beginning(TurnRules::default());
    // A television from the first frame on.
    scene.hears(Silent, "T", 100);
    scene.hear(Silent, &"AAHHH".repeat(10)).hears(Silent, "B", 15).hears(Silent, "T", 70);
    let Some((at, TurnEvent::Ended { last_voiced })) = scene.events.last() else { panic!("{:?}", scene.events) };
    assert!(at - (*last_voiced - scene.start).as_millis() as u64 <= 620);
}
