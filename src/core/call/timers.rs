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
    /// The earliest, in the order of [`ALL`] among equals: it is asked for several times in every slot.
    next: Option<(Instant, Timer)>,
}

impl Timers {
    pub fn set(&mut self, timer: Timer, at: Instant) {
        self.due[timer as usize] = Some(at);
        match self.next {
            Some((_, next)) if next == timer => self.look(),
            Some((earliest, next)) if (earliest, next as usize) < (at, timer as usize) => {}
            _ => self.next = Some((at, timer)),
        }
    }

    /// Sets the timer unless it runs already.
    pub fn set_if_idle(&mut self, timer: Timer, at: Instant) {
        if !self.is_set(timer) {
            self.set(timer, at);
        }
    }

    pub fn is_set(&self, timer: Timer) -> bool {
        self.due[timer as usize].is_some()
    }

    pub fn clear(&mut self, timer: Timer) {
        self.due[timer as usize] = None;
        if self.next.is_some_and(|(_, next)| next == timer) {
            self.look();
        }
    }

    pub fn clear_all(&mut self) {
        *self = Self::default();
    }

    /// The next deadline and its reason.
    pub const fn next(&self) -> Option<(Instant, Timer)> {
        self.next
    }

    fn look(&mut self) {
        let set = |timer: Timer| self.due[timer as usize].map(|at| (at, timer));
        self.next = ALL.into_iter().filter_map(set).min_by_key(|(at, _)| *at);
    }

    /// Takes the earliest timer that is due at `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<(Instant, Timer)> {
        let (at, timer) = self.next().filter(|(at, _)| *at <= now)?;
        self.clear(timer);
        Some((at, timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[expect(clippy::disallowed_methods, reason = "any moment to count from")]
    fn now() -> Instant {
        Instant::now()
    }

    proptest! {
        #[test]
        fn the_next_is_the_earliest_of_those_that_are_set_whatever_was_set_and_cleared_before(
            steps in prop::collection::vec((0..COUNT, prop::option::of(0..9_u64), any::<bool>()), 1..60)
        ) {
            let now = now();
            let mut timers = Timers::default();
            let mut set = [None; COUNT];
            for (which, at, idle) in steps {
                let timer = ALL[which];
                match at.map(|seconds| now + Duration::from_secs(seconds)) {
                    Some(at) if idle => {
                        timers.set_if_idle(timer, at);
                        set[which].get_or_insert(at);
                    }
                    Some(at) => {
                        timers.set(timer, at);
                        set[which] = Some(at);
                    }
                    None if idle => {
                        let due = timers.take_due(now + Duration::from_secs(4));
                        prop_assert!(due.is_none_or(|(at, timer)| set[timer as usize].take() == Some(at)));
                    }
                    None => {
                        timers.clear(timer);
                        set[which] = None;
                    }
                }
                let earliest = ALL.into_iter().filter_map(|timer| set[timer as usize].map(|at| (at, timer)));
                prop_assert_eq!(timers.next(), earliest.min_by_key(|(at, _)| *at));
            }
        }
    }
}
