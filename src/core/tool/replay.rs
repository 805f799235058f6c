//! What a repeated call is answered with: providers send a call again after a hiccup, and what it
//! asked for must not happen twice.
//!
//! One [`Replay`] belongs to one call. A key is [`super::canonical::idempotency_key`]; beside it stands a digest of what the
//! call asks for, since a provider may give one id to two calls. Its life:
//!
//! ```text
//! arrive → First ── policy says no ──→ (nothing kept; the next one is First again)
//!            └──── begin ──→ in flight ── finish ──→ stored
//!                               │  └──── abandon ──→ (nothing kept)
//! arrive while in flight → Attached: answered when the first one is
//! arrive when stored     → Stored: the same envelope again
//! ```
//!
//! Only what ran is stored. A refusal of policy is decided anew each time, or a call that needed a
//! yes could never get it.

use serde_json::{Map, Value};
use std::{
    collections::{HashMap, VecDeque},
    fmt,
};

/// Results kept per call. More than a conversation makes; a provider repeats what is seconds old.
const STORED_MAX: usize = 100;
/// Bytes of JSON kept per call, so that a hundred long answers do not add up. The newest result is
/// kept however long it is.
const STORED_BYTES_MAX: usize = 1024 * 1024;
/// Calls that run at a time. Budgets allow three per turn; past this nothing is admitted, since it
/// could not be protected.
const IN_FLIGHT_MAX: usize = 32;
/// Repeats that wait for one running call. More is a provider gone wrong.
const WAITING_MAX: usize = 8;

/// What a call finds when it arrives. `W` is whatever the caller needs to answer it with later.
#[derive(Debug, PartialEq)]
pub enum Arrival<'a, W> {
    /// Not seen, or not run: policy decides.
    First(W),
    /// The same call is running; this one is handed out with its result.
    Attached,
    /// It ran. The envelope goes out again as [`replayed`]; its intents are not applied again.
    Stored(W, &'a Value),
    /// Too many repeats wait already; this one is answered with an error.
    Crowded(W),
}

/// Why a call may not run though it was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    /// One more could not be protected against its repeats.
    #[error("too many tools are running")]
    TooMany,
    /// The same call began while this one was being decided: it arrives once more.
    #[error("the same call has begun already")]
    Repeat,
}

/// The results of one call by their keys.
pub struct Replay<W> {
    in_flight: HashMap<String, Running<W>>,
    stored: HashMap<String, Stored>,
    /// Keys of `stored`, oldest first.
    order: VecDeque<String>,
    bytes: usize,
    forgotten: u64,
}

struct Running<W> {
    /// Digest of tool and arguments.
    content: [u8; 32],
    waiting: Vec<W>,
}

struct Stored {
    content: [u8; 32],
    envelope: Value,
    bytes: usize,
}

impl<W> Default for Replay<W> {
    fn default() -> Self {
        Self { in_flight: HashMap::new(), stored: HashMap::new(), order: VecDeque::new(), bytes: 0, forgotten: 0 }
    }
}

impl<W> Replay<W> {
    /// Looks a call up; one that meets itself running is attached to the first.
    pub fn arrive(&mut self, key: &str, waiter: W) -> Arrival<'_, W> {
        if let Some(Running { waiting, .. }) = self.in_flight.get_mut(key) {
            if waiting.len() == WAITING_MAX {
                return Arrival::Crowded(waiter);
            }
            waiting.push(waiter);
            return Arrival::Attached;
        }
        match self.stored.get(key) {
            Some(stored) => Arrival::Stored(waiter, &stored.envelope),
            None => Arrival::First(waiter),
        }
    }

    /// Whether the key is taken by a call that asks for something else.
    pub fn stands_for_another(&self, key: &str, content: &[u8; 32]) -> bool {
        let running = self.in_flight.get(key).map(|running| &running.content);
        running.or_else(|| self.stored.get(key).map(|stored| &stored.content)).is_some_and(|known| known != content)
    }

    /// The call with this key was admitted and begins to run.
    pub fn begin(&mut self, key: &str, content: [u8; 32]) -> Result<(), NotBegun> {
        if self.in_flight.contains_key(key) || self.stored.contains_key(key) {
            return Err(NotBegun::Repeat);
        }
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return Err(NotBegun::TooMany);
        }
        self.in_flight.insert(key.to_owned(), Running { content, waiting: Vec::new() });
        Ok(())
    }

    /// The call ran, well or badly. Gives those who waited for it, in the order they came; they get
    /// the envelope as [`replayed`]. What was not in flight is not stored.
    pub fn finish(&mut self, key: &str, envelope: Value) -> Vec<W> {
        let Some(Running { content, waiting }) = self.in_flight.remove(key) else { return Vec::new() };
        let bytes = envelope.to_string().len();
        self.bytes += bytes;
        self.order.push_back(key.to_owned());
        self.stored.insert(key.to_owned(), Stored { content, envelope, bytes });
        while self.order.len() > STORED_MAX || (self.bytes > STORED_BYTES_MAX && self.order.len() > 1) {
            let oldest = self.order.pop_front().and_then(|key| self.stored.remove(&key));
            self.bytes -= oldest.map_or(0, |oldest| oldest.bytes);
            self.forgotten += 1;
        }
        waiting
    }

    /// The call did not run to an outcome (it was withdrawn before it did anything). Gives those
    /// who waited; nothing is stored.
    pub fn abandon(&mut self, key: &str) -> Vec<W> {
        self.in_flight.remove(key).map_or_else(Vec::new, |running| running.waiting)
    }

    pub fn is_in_flight(&self, key: &str) -> bool {
        self.in_flight.contains_key(key)
    }

    /// It runs, or its outcome is kept.
    pub fn knows(&self, key: &str) -> bool {
        self.is_in_flight(key) || self.stored.contains_key(key)
    }

    /// Results dropped to stay within the limits.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// Envelopes hold what tools said about the caller.
impl<W> fmt::Debug for Replay<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("in_flight", &self.in_flight.len())
            .field("stored", &self.stored.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// The envelope with `meta.replayed: true`.
pub fn replayed(envelope: &Value) -> Value {
    let mut envelope = envelope.clone();
    if let Value::Object(members) = &mut envelope {
        let meta = members.entry("meta").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(meta) = meta {
            meta.insert("replayed".to_owned(), Value::Bool(true));
        }
    }
    envelope
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ASKED: [u8; 32] = [1; 32];

    fn run(replay: &mut Replay<u32>, key: &str, envelope: Value) {
        assert!(matches!(replay.arrive(key, 0), Arrival::First(0)));
        replay.begin(key, ASKED).unwrap();
        assert_eq!(replay.finish(key, envelope), Vec::<u32>::new());
    }

    /// P answer 6: a repeat gets the stored envelope, marked; whether it had worked does not count.
    #[test]
    fn a_repeat_is_answered_with_what_the_first_one_got() {
        let mut replay = Replay::default();
        let done = json!({ "ok": true, "data": { "id": 7 }, "intents": [], "meta": { "toolId": "t" } });
        let failed = json!({ "ok": false, "error": { "type": "PERMANENT" } });
        run(&mut replay, "a", done.clone());
        run(&mut replay, "b", failed.clone());
        assert_eq!(replay.arrive("a", 1), Arrival::Stored(1, &done));
        assert_eq!(replay.arrive("b", 2), Arrival::Stored(2, &failed));
        assert_eq!(replayed(&done)["meta"], json!({ "toolId": "t", "replayed": true }));
        assert_eq!(replayed(&done)["data"], done["data"]);
        assert_eq!(replayed(&failed)["meta"]["replayed"], true);
    }

    /// P answer 6: a repeat of what still runs waits for it and does not run.
    #[test]
    fn a_repeat_in_flight_waits_for_the_first() {
        let mut replay = Replay::default();
        assert_eq!(replay.arrive("a", 1), Arrival::First(1));
        replay.begin("a", ASKED).unwrap();
        assert_eq!(replay.arrive("a", 2), Arrival::Attached);
        assert_eq!(replay.arrive("a", 3), Arrival::Attached);
        assert_eq!(replay.finish("a", json!({ "ok": true })), [2, 3]);
        assert_eq!(replay.finish("a", json!({ "ok": false })), [] as [u32; 0], "an outcome comes once");
        assert_eq!(replay.arrive("a", 4), Arrival::Stored(4, &json!({ "ok": true })));
    }

    /// P answer 6: where deciding takes time, two of a kind can both be first; one of them runs.
    #[test]
    fn of_two_that_were_admitted_at_once_one_runs() {
        let mut replay = Replay::default();
        assert_eq!(replay.arrive("a", 1), Arrival::First(1));
        assert_eq!(replay.arrive("a", 2), Arrival::First(2));
        assert_eq!(replay.begin("a", ASKED), Ok(()));
        assert_eq!(replay.begin("a", ASKED), Err(NotBegun::Repeat));
        assert_eq!(replay.arrive("a", 2), Arrival::Attached);
        assert_eq!(replay.finish("a", json!({})), [2]);
        assert_eq!(replay.begin("a", ASKED), Err(NotBegun::Repeat));
    }

    /// P answer 6: policy's refusals and withdrawn calls leave nothing: the same call may come again.
    #[test]
    fn only_what_ran_is_stored() {
        let mut replay = Replay::default();
        assert_eq!(replay.arrive("refused", 1), Arrival::First(1));
        assert_eq!(replay.arrive("refused", 2), Arrival::First(2));
        assert_eq!(replay.finish("refused", json!({ "ok": false })), [] as [u32; 0]);
        assert_eq!(replay.arrive("refused", 3), Arrival::First(3));
        replay.begin("withdrawn", ASKED).unwrap();
        assert_eq!(replay.arrive("withdrawn", 4), Arrival::Attached);
        assert_eq!(replay.abandon("withdrawn"), [4]);
        assert_eq!(replay.arrive("withdrawn", 5), Arrival::First(5));
    }

    /// P answer 6: the last hundred results of a call are kept, and no more bytes than the limit.
    #[test]
    fn old_results_go_first() {
        let mut replay = Replay::default();
        for n in 0..=STORED_MAX {
            run(&mut replay, &n.to_string(), json!({ "n": n }));
        }
        assert_eq!(replay.arrive("0", 1), Arrival::First(1));
        assert_eq!(replay.arrive("1", 2), Arrival::Stored(2, &json!({ "n": 1 })));
        assert_eq!(replay.forgotten(), 1);
        let long = json!({ "data": "x".repeat(STORED_BYTES_MAX) });
        run(&mut replay, "long", long.clone());
        assert_eq!(replay.arrive("long", 3), Arrival::Stored(3, &long), "the newest stays");
        assert_eq!(replay.stored.len(), 1);
        run(&mut replay, "next", json!({}));
        assert_eq!(replay.arrive("long", 4), Arrival::First(4));
        assert_eq!(replay.bytes, "{}".len());
    }

    #[test]
    fn neither_runs_nor_waits_are_without_a_limit() {
        let mut replay = Replay::default();
        for n in 0..IN_FLIGHT_MAX {
            replay.begin(&n.to_string(), ASKED).unwrap();
        }
        assert_eq!(replay.begin("one more", ASKED), Err(NotBegun::TooMany));
        for n in 0..WAITING_MAX {
            assert_eq!(replay.arrive("0", n), Arrival::Attached);
        }
        assert_eq!(replay.arrive("0", 99), Arrival::Crowded(99));
        assert_eq!(replay.finish("0", json!({})).len(), WAITING_MAX);
        replay.begin("one more", ASKED).unwrap();
    }

    /// One id for two calls: running or done, the first one's result is not the other's.
    #[test]
    fn a_key_stands_for_what_was_asked_first() {
        let mut replay = Replay::default();
        let tells = |replay: &Replay<u32>| [ASKED, [2; 32]].map(|asked| replay.stands_for_another("a", &asked));
        assert_eq!(tells(&replay), [false, false]);
        replay.begin("a", ASKED).unwrap();
        assert_eq!(tells(&replay), [false, true]);
        replay.finish("a", json!({}));
        assert_eq!(tells(&replay), [false, true]);
    }

    #[test]
    fn what_tools_said_is_not_printed() {
        let mut replay = Replay::default();
        run(&mut replay, "a", json!({ "data": "+15551234" }));
        assert!(!format!("{replay:?}").contains("1555"));
    }
}
