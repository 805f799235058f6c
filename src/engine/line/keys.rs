//! The keys of a caller by ARI. Asterisk tells each by an event of the channel, and, over AudioSocket and WebSocket, with
//! the audio as well. Either may be lost: the events while their socket is down, the audio while its path is replaced. So
//! whichever comes first is the key, and the other is known by it. By RTP there are only the events. Pure: time is an
//! argument.

use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// How long after one the other may come. They are a millisecond apart, but events that were held up on the way may come
/// until their socket counts as dead, after 12 s.
const APART_MAX: Duration = Duration::from_secs(15);
/// Keys that wait for their other half. Nobody presses more in [`APART_MAX`]; of a flood the oldest is forgotten.
const WAITING_MAX: usize = 64;

/// How a key came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Event,
    Audio,
}

impl Way {
    const fn other(self) -> Self {
        match self {
            Self::Event => Self::Audio,
            Self::Audio => Self::Event,
        }
    }
}

/// Keys that came one way, and not yet the other.
#[derive(Debug, Default)]
pub(super) struct Keys {
    waiting: VecDeque<(char, Way, Instant)>,
}

impl Keys {
    /// Whether this is a key that was not told yet.
    pub(super) fn pressed(&mut self, key: char, way: Way, now: Instant) -> bool {
        self.waiting.retain(|(.., at)| now.saturating_duration_since(*at) <= APART_MAX);
        let other = self.waiting.iter().position(|(known, by, _)| *known == key && *by == way.other());
        if let Some(place) = other {
            self.waiting.remove(place);
            return false;
        }
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back((key, way, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Way::*, *};

    /// The keys that are told of these, a millisecond apart.
    fn told(keys: &mut Keys, came: &[(char, Way)], from: Instant) -> String {
        let mut at = from;
        let mut tell = |&(key, way): &(char, Way)| {
            at += Duration::from_millis(1);
            keys.pressed(key, way, at).then_some(key)
        };
        came.iter().filter_map(&mut tell).collect()
    }

    #[test]
    fn a_key_that_comes_both_ways_is_one_key_in_either_order() {
        let came = [('1', Event), ('1', Audio), ('1', Audio), ('1', Event), ('#', Event), ('2', Event), ('#', Audio)];
        assert_eq!(told(&mut Keys::default(), &came, Instant::now()), "11#2");
    }

    #[test]
    fn a_key_that_comes_one_way_alone_is_a_key() {
        for way in [Event, Audio] {
            let came = [('5', way), ('5', way), ('7', way)];
            assert_eq!(told(&mut Keys::default(), &came, Instant::now()), "557", "{way:?}");
        }
    }

    #[test]
    fn after_a_gap_of_the_events_the_same_keys_are_told_as_before_it() {
        let mut keys = Keys::default();
        let now = Instant::now();
        assert_eq!(told(&mut keys, &[('5', Audio), ('5', Audio)], now), "55");
        // Soon after, while the two still wait for events that never come.
        assert_eq!(told(&mut keys, &[('5', Event), ('5', Audio), ('5', Audio), ('5', Event)], now), "55");
        let later = now + APART_MAX + Duration::from_secs(1);
        assert_eq!(told(&mut keys, &[('5', Event), ('5', Audio)], later), "5");
        assert!(keys.waiting.is_empty(), "{keys:?}");
    }

    #[test]
    fn a_flood_of_keys_is_kept_within_its_limit() {
        let mut keys = Keys::default();
        let now = Instant::now();
        assert_eq!(told(&mut keys, &[('1', Event); 500], now).len(), 500);
        assert_eq!(keys.waiting.len(), WAITING_MAX);
    }
}
