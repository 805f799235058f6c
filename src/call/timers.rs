//! All deadlines of a call: one enum names them, one table holds them.

use std::time::Instant;

/// Why the call wakes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The next 20 ms slot towards the caller.
    Slot,
    /// The call has reached its longest length.
    CallMax,
    /// The agent should be ready by now.
    AgentReady,
    /// The agent should have begun to speak by now.
    AgentSilence,
    /// The caller should have said something by now.
    NoInput,
    /// A tool should have answered by now.
    Tool,
    /// The caller should have heard something by now.
    Filler,
    /// The agent is not there yet; the caller is answered all the same.
    Answer,
    /// The answer that was begun should have gone on by now.
    Stalled,
    /// Another agent should have the call by now.
    Recovery,
    /// The caller should have chosen a key of the last resort by now.
    Menu,
    /// The caller should have pressed the next key by now.
    Digits,
    /// The last words should have been spoken by now.
    LastWords,
    /// The last frame has had time to reach the caller's ear.
    Tail,
    /// Asterisk should have said what became of the caller by now.
    LegAnswer,
}

const COUNT: usize = Timer::LegAnswer as usize + 1;
const ALL: [Timer; COUNT] = [
    Timer::Slot,
    Timer::CallMax,
    Timer::AgentReady,
    Timer::AgentSilence,
    Timer::NoInput,
    Timer::Tool,
    Timer::Filler,
    Timer::Answer,
    Timer::Stalled,
    Timer::Recovery,
    Timer::Menu,
    Timer::Digits,
    Timer::LastWords,
    Timer::Tail,
    Timer::LegAnswer,
];

#[derive(Debug, Default)]
pub struct Timers {
    due: [Option<Instant>; COUNT],
}

impl Timers {
    pub fn set(&mut self, timer: Timer, at: Instant) {
        self.due[timer as usize] = Some(at);
    }

    /// Sets the timer unless it runs already.
    pub fn set_if_idle(&mut self, timer: Timer, at: Instant) {
        self.due[timer as usize].get_or_insert(at);
    }

    pub fn is_set(&self, timer: Timer) -> bool {
        self.due[timer as usize].is_some()
    }

    pub fn clear(&mut self, timer: Timer) {
        self.due[timer as usize] = None;
    }

    pub fn clear_all(&mut self) {
        self.due = [None; COUNT];
    }

    /// The next deadline and its reason.
    pub fn next(&self) -> Option<(Instant, Timer)> {
        ALL.into_iter().filter_map(|timer| self.due[timer as usize].map(|at| (at, timer))).min_by_key(|(at, _)| *at)
    }

    /// Takes the earliest timer that is due at `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<(Instant, Timer)> {
        let (at, timer) = self.next().filter(|(at, _)| *at <= now)?;
        self.clear(timer);
        Some((at, timer))
    }
}
