//! The agent that comes back as echo.

use super::*;

/// Speech in 20 ms levels, the same every time: syllables of the agent.
pub fn agent_level(frame: usize) -> Option<u8> {
    let syllable = [6, 2, 0, 1, 3, 8, 20, 25, 5, 1, 0, 2, 9, 25, 25, 12, 3, 1, 4, 10, 25, 7, 0, 0, 3, 18];
    let level = syllable[(frame + frame / 61) % syllable.len()];
    (level < 25).then_some(level)
}

/// A frame that plays at the level of this letter.
pub fn sound(level: Option<u8>) -> Vec<u8> {
    let Some(level) = level else { return vec![0; 320] };
    let amplitude = 32_767.0 * 10_f32.powf((-20.0 - f32::from(level)) / 20.0);
    (0..160).flat_map(|i| (if i % 2 == 0 { amplitude as i16 } else { -amplitude as i16 }).to_le_bytes()).collect()
}

/// An agent that obeys pauses, on a line that sends its voice back.
struct Line {
    /// On its way back.
    under_way: VecDeque<Option<u8>>,
    spoken: usize,
    paused: bool,
}

impl Line {
    fn new(lag: usize) -> Self {
        Self { under_way: vec![None; lag].into(), spoken: 0, paused: false }
    }

    /// The agent comes back `loss` dB quieter, if at all. The caller speaks in the frames that `caller` names.
    fn run(&mut self, scene: &mut Scene, frames: usize, loss: Option<u8>, caller: impl Fn(usize) -> bool) {
        for frame in 0..frames {
            let level = if self.paused { None } else { agent_level(self.spoken) };
            self.spoken += usize::from(!self.paused);
            self.under_way.push_back(level);
            let back = self.under_way.pop_front().flatten().zip(loss).map(|(level, loss)| level + loss);
            let kind = match back.filter(|&level| level < 26) {
                _ if caller(frame) => b's',
                Some(level) => b'A' + level,
                None => b'.',
            };
            let before = scene.events.len();
            scene.frame(&[kind], Speaking, &sound(level));
            for (_, event) in &scene.events[before..] {
                match event {
                    TurnEvent::Paused => self.paused = true,
                    TurnEvent::Resumed(_) | TurnEvent::Ended { .. } => self.paused = false,
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn echo_is_learnt_from_the_first_alarms_and_then_stops_nothing() {
    for lag in [1, 5, 12, 20] {
        let (mut scene, mut line) = (Scene::new(), Line::new(lag));
        line.run(&mut scene, 300, Some(14), |_| false);
        let told = scene.told();
        assert!(!told.contains("interrupted"), "lag {lag}: {told}");
        assert!(told.matches("paused").count() <= 4, "lag {lag}: {told}");
        line.run(&mut scene, 500, Some(14), |_| false);
        assert_eq!(scene.told(), "", "lag {lag}: once it is known");
    }
}

#[test]
fn a_caller_is_heard_through_the_echo() {
    let (mut scene, mut line) = (Scene::new(), Line::new(8));
    line.run(&mut scene, 400, Some(20), |_| false);
    scene.told();
    line.run(&mut scene, 100, Some(20), |frame| frame >= 50);
    let told = scene.told();
    assert!(told.contains("interrupted"), "{told}");
}

#[test]
fn heavy_echo_makes_the_line_half_duplex_until_it_is_gone() {
    let (mut scene, mut line) = (Scene::new(), Line::new(6));
    line.run(&mut scene, 600, Some(3), |_| false);
    let told = scene.told();
    assert_eq!(told.matches("half duplex: true").count(), 1, "{told}");
    line.run(&mut scene, 100, Some(3), |frame| frame > 20);
    assert_eq!(scene.told(), "", "voice does not interrupt");
    line.run(&mut scene, 600, None, |_| false);
    let told = scene.told();
    assert!(told.ends_with("half duplex: false"), "{told}");
    line.run(&mut scene, 100, None, |frame| frame > 20);
    let told = scene.told();
    assert!(told.contains("interrupted"), "{told}");
}

#[test]
fn a_weak_echo_leaves_the_line_full_duplex() {
    let (mut scene, mut line) = (Scene::new(), Line::new(6));
    line.run(&mut scene, 1_500, Some(18), |_| false);
    let told = scene.told();
    assert!(!told.contains("half duplex"), "{told}");
}

#[test]
fn the_echo_of_an_agent_that_has_just_ended_begins_no_turn() {
    let (mut scene, mut line) = (Scene::new(), Line::new(20));
    line.run(&mut scene, 400, Some(12), |_| false);
    scene.told();
    // 400 ms of the agent are still on their way back.
    for frame in 0..20 {
        let level = agent_level(400 + frame).map(|level| level + 12).filter(|&level| level < 26);
        scene.frame(&[level.map_or(b'.', |level| b'A' + level)], Silent, &sound(None));
    }
    let told = scene.told();
    assert!(!told.contains("began"), "{told}");
}
