//! What is said around the end of what the agent says.

use super::*;

/// "Yes" as people say it: 280 ms.
const YES: &str = "ssssssssssssss";

/// Where the agent's last audible frame is, in milliseconds, and what is told of a "yes" that begins at `yes`.
fn yes_at(yes: u64, end: u64, agent: AgentSound, rules: TurnRules) -> String {
    let mut scene = Scene::with(rules);
    let (mut played, mut caller) = (0, format!("{}{YES}", ".".repeat(yes as usize / 20)).into_bytes().into_iter());
    // The agent is not heard while it is paused, and goes on where it was.
    let mut paused = false;
    for _ in 0..300 {
        let sound = if played < end { agent } else { Silent };
        played += if paused { 0 } else { 20 };
        let before = scene.events.len();
        scene.frame(&[caller.next().unwrap_or(b'.')], sound, &[]);
        for (_, event) in &scene.events[before..] {
            match event {
                TurnEvent::Paused => paused = true,
                TurnEvent::Resumed(_) => paused = false,
                _ => {}
            }
        }
    }
    scene.events.retain(|(_, event)| matches!(event, TurnEvent::Began { .. } | TurnEvent::Ended { .. }));
    scene.told()
}

#[test]
fn a_short_answer_is_a_turn_whenever_it_begins_around_the_end_of_what_the_agent_says() {
    for before in (0..=540).step_by(60) {
        let (end, yes) = (3_000, 3_000 - before);
        let told = yes_at(yes, end, Speaking, TurnRules::default());
        assert!(told.contains(&format!("began at {yes}")) && told.contains("ended at"), "{before} ms before: {told:?}");
        for (agent, interruptible) in [(Protected, true), (Speaking, false)] {
            let told = yes_at(yes, end, agent, TurnRules { interruptible, ..TurnRules::default() });
            assert!(told.contains(&format!("began at {yes}")), "{before} ms before, {agent:?}: {told:?}");
        }
    }
    assert_eq!(yes_at(3_040, 3_000, Speaking, TurnRules::default()), "3160 began at 3040, 3920 ended at 3320");
    // It is a nod where the agent goes on.
    for before in [1_000, 2_000] {
        assert_eq!(yes_at(3_000 - before, 3_000, Speaking, TurnRules::default()), "", "{before} ms before");
    }
}

#[test]
fn a_cough_into_the_end_of_what_the_agent_says_is_no_answer() {
    let mut scene = Scene::new();
    scene.hears(Speaking, ".", 100).hears(Speaking, "n", 12).hears(Speaking, ".", 12).hears(Silent, ".", 60);
    assert!(!scene.told().contains("began"));
}

#[test]
fn an_answer_in_two_pieces_is_one_turn_since_the_first() {
    let mut scene = Scene::new();
    scene
        .hears(Speaking, ".", 100)
        .hear(Speaking, "sssssss.........")
        .hear(Speaking, "sssssss.........")
        .hears(Silent, ".", 40);
    assert!(scene.told().contains("began at 2000"), "{}", scene.told());
}
