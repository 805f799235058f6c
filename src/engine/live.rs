//! Who is on the line, and how the last calls ended: what the pages and a drain look at.

use crate::{
    call::{EndReason, Note},
    facts::{CallFacts, CallId},
    http::{ActiveCall, CallHead, CallsView, EndedCall},
    records::{Counts, Used},
};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// How many ended calls the page shows.
const ENDED_MAX: usize = 100;

#[derive(Default)]
pub struct LiveCalls {
    /// Places taken, by live calls and by calls that are just being let in.
    seats: Arc<watch::Sender<usize>>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    live: BTreeMap<CallId, (ActiveCall, Doors)>,
    ended: VecDeque<EndedCall>,
    /// Set when every call was told to end: later ones are told when they enter.
    ending: Option<EndReason>,
}

/// Ways into a call that runs.
pub struct Doors {
    /// How an operator ends it.
    pub end: mpsc::Sender<EndReason>,
    /// What the agent is to say at once.
    pub words: mpsc::Sender<String>,
}

impl LiveCalls {
    /// A place for a new call, unless `limit` are taken.
    pub fn seat(&self, limit: usize) -> Option<Seat> {
        let taken = self.seats.send_if_modified(|taken| {
            let free = *taken < limit;
            *taken += usize::from(free);
            free
        });
        taken.then(|| Seat(Arc::clone(&self.seats)))
    }

    /// Enters a call; it leaves when the guard is dropped.
    pub fn enter(self: &Arc<Self>, facts: &CallFacts, seat: Seat, doors: Doors) -> Entered {
        let head = CallHead {
            id: facts.id,
            context: facts.context.clone(),
            provider: facts.provider.clone(),
            direction: facts.direction,
            since: Timestamp::now(),
        };
        let call = ActiveCall { call: head, phase: "connecting", counts: Counts::default() };
        let mut inner = self.lock();
        if let Some(reason) = inner.ending {
            // A fresh queue has room.
            let _ = doors.end.try_send(reason);
        }
        inner.live.insert(facts.id, (call, doors));
        drop(inner);
        Entered {
            calls: Arc::clone(self),
            id: facts.id,
            began: Instant::now(),
            reason: EndReason::EngineFault,
            usage: Vec::new(),
            _seat: seat,
        }
    }

    /// Calls that are live or just being let in.
    pub fn count(&self) -> usize {
        *self.seats.borrow()
    }

    /// Resolves when there are none.
    pub async fn none_left(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.seats.subscribe().wait_for(|taken| *taken == 0).await;
    }

    /// Ends every live call, and those that are just being let in.
    pub fn end_all(&self, reason: EndReason) {
        let mut inner = self.lock();
        inner.ending = Some(reason);
        for (_, doors) in inner.live.values() {
            // A full queue means that the call has been told already.
            let _ = doors.end.try_send(reason);
        }
    }

    /// Has the agent of a call say something; `false` if it cannot be told.
    pub fn say(&self, call: CallId, words: &str) -> bool {
        self.lock().live.get(&call).is_some_and(|(_, doors)| doors.words.try_send(words.to_owned()).is_ok())
    }

    pub fn view(&self) -> CallsView {
        let inner = self.lock();
        let mut active: Vec<ActiveCall> = inner.live.values().map(|(call, _)| call.clone()).collect();
        active.sort_by_key(|call| call.call.since);
        CallsView { active, recent: inner.ended.iter().rev().cloned().collect() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of `limits.calls`, given back when dropped.
pub struct Seat(Arc<watch::Sender<usize>>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.send_modify(|taken| *taken -= 1);
    }
}

/// A call's entry among the live ones.
pub struct Entered {
    calls: Arc<LiveCalls>,
    id: CallId,
    /// The wall clock may be set while the call lasts.
    began: Instant,
    reason: EndReason,
    usage: Vec<Used>,
    _seat: Seat,
}

impl Entered {
    pub fn observe(&self, phase: &'static str, note: &Note) {
        self.update(|call| {
            call.phase = phase;
            match note {
                Note::AgentSpeaks => call.counts.agent_turns += 1,
                Note::BargeIn { .. } => call.counts.barge_ins += 1,
                Note::ToolAnswered { .. } => call.counts.tool_calls += 1,
                Note::Digit(_) => call.counts.keys += 1,
                _ => {}
            }
        });
    }

    /// Another context's agent has the call.
    pub fn handed_off(&self, facts: &CallFacts) {
        self.update(|call| {
            call.call.context.clone_from(&facts.context);
            call.call.provider.clone_from(&facts.provider);
        });
    }

    pub fn missed(&self, slots: u64) {
        self.update(|call| call.counts.slots_missed += slots);
    }

    pub fn dropped(&self, frames: u64) {
        self.update(|call| call.counts.frames_dropped += frames);
    }

    fn update(&self, change: impl FnOnce(&mut ActiveCall)) {
        if let Some((call, _)) = self.calls.lock().live.get_mut(&self.id) {
            change(call);
        }
    }

    /// Who has the call, and how it went so far.
    pub fn now(&self) -> Option<ActiveCall> {
        self.calls.lock().live.get(&self.id).map(|(call, _)| call.clone())
    }

    /// Why the call ended and what it used; without it, the entry ends as a fault of the engine.
    pub fn ended(&mut self, reason: EndReason, usage: Vec<Used>) {
        (self.reason, self.usage) = (reason, usage);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut inner = self.calls.lock();
        if let Some((call, _)) = inner.live.remove(&self.id) {
            if inner.ended.len() == ENDED_MAX {
                inner.ended.pop_front();
            }
            let lasted = self.began.elapsed();
            let (call, counts) = (call.call, call.counts);
            let usage = std::mem::take(&mut self.usage);
            inner.ended.push_back(EndedCall { call, lasted, reason: self.reason, counts, usage });
        }
    }
}
