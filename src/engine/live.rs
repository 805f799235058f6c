//! Who is on the line, and how the last calls ended: what the pages and a drain look at.

use super::{ears::Tap, generation::Generation};
use crate::{
    call::{EndReason, Note},
    config::Destination,
    facts::{CallFacts, CallId},
    http::{
        ActiveCall, CallHead, CallsView, EndedCall, Levels, LiveEntry, NoListening, NoTransfer, NoWriting, Parties,
    },
    records::{Counts, Ending, Entry, Event, Speeches, Used},
    redact::Redacted,
    wall_clock,
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        watch,
    },
    time::Instant,
};

/// How many ended calls the page shows.
const ENDED_MAX: usize = 100;
/// What of a running call is remembered for those who watch it: the last quarter of an hour of most.
const STORY_MAX: usize = 300;
/// Of one utterance; nobody says more at once.
const SAID_BYTES_MAX: usize = 4 * 1024;

#[derive(Default)]
pub struct LiveCalls {
    /// Places taken, by live calls and by calls that are just being let in.
    seats: Arc<watch::Sender<usize>>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    live: BTreeMap<CallId, Running>,
    ended: VecDeque<EndedCall>,
    /// Set when every call was told to end: later ones are told when they enter.
    ending: Option<EndReason>,
}

struct Running {
    call: ActiveCall,
    doors: Doors,
    caller_speaks: bool,
    agent_speaks: bool,
    /// The newest entries, in memory only.
    story: VecDeque<LiveEntry>,
    speeches: Speeches,
    shown: Shown,
    parties: Option<Parties>,
}

/// Parts of a call that those who watch it may be told.
#[derive(Clone, Copy)]
pub struct Shown {
    pub words: bool,
    /// Numbers and the caller's name.
    pub numbers: bool,
}

/// Ways into a call that runs.
pub struct Doors {
    pub orders: mpsc::Sender<Order>,
    /// What the agent is to say at once.
    pub words: mpsc::Sender<String>,
    pub tap: Arc<Tap>,
    /// Whose destinations callers can be sent to; `None`: the engine has only the audio of this call.
    pub transfers: Option<Arc<Generation>>,
    /// The caller writes.
    pub written: bool,
}

/// What somebody on the page wants of a call.
pub enum Order {
    End {
        reason: EndReason,
        /// The operator's account; `None`: the engine stops.
        account: Option<String>,
    },
    Transfer {
        destination: String,
        account: String,
    },
    /// The caller has written this.
    Written(Redacted<String>),
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
    pub fn enter(self: &Arc<Self>, facts: &CallFacts, seat: Seat, doors: Doors, shown: Shown) -> Entered {
        let head = CallHead {
            id: facts.id,
            context: facts.context.clone(),
            provider: facts.provider.clone(),
            direction: facts.direction,
            since: wall_clock::now(),
            written: doors.written,
            parties: None,
        };
        let parties = shown.numbers.then(|| Parties {
            caller_number: facts.caller_number.reveal().clone(),
            caller_name: facts.caller_name.reveal().clone(),
            dialled_number: facts.dialled_number.reveal().clone(),
        });
        let call = ActiveCall {
            call: head,
            phase: "connecting",
            floor: "nobody",
            levels: Levels::default(),
            counts: Counts::default(),
        };
        let mut inner = self.lock();
        if let Some(reason) = inner.ending {
            // A fresh queue has room.
            let _ = doors.orders.try_send(Order::End { reason, account: None });
        }
        let (story, speeches) = (VecDeque::new(), Speeches::default());
        let (caller_speaks, agent_speaks) = (false, false);
        let running = Running { call, doors, caller_speaks, agent_speaks, story, speeches, shown, parties };
        inner.live.insert(facts.id, running);
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
        for running in inner.live.values() {
            // A full queue means that the call has been told already.
            let _ = running.doors.orders.try_send(Order::End { reason, account: None });
        }
    }

    /// Ends one call on behalf of an operator; `false`: it does not run.
    pub fn end(&self, call: CallId, account: &str) -> bool {
        let inner = self.lock();
        let Some(running) = inner.live.get(&call) else { return false };
        // As above.
        let order = Order::End { reason: EndReason::OperatorEnded, account: Some(account.to_owned()) };
        let _ = running.doors.orders.try_send(order);
        true
    }

    /// Where the caller of a call can be sent to; `None`: it does not run, or nobody can be sent.
    pub fn destinations(&self, call: CallId) -> Option<BTreeMap<String, Destination>> {
        let generation = self.lock().live.get(&call)?.doors.transfers.clone()?;
        Some(generation.config.destinations.clone())
    }

    /// Sends the caller of a call somewhere once the agent has spoken out.
    pub fn transfer(&self, call: CallId, destination: &str, account: &str) -> Result<(), NoTransfer> {
        let inner = self.lock();
        let Doors { orders, transfers, .. } = &inner.live.get(&call).ok_or(NoTransfer::NotRunning)?.doors;
        let generation = transfers.as_ref().ok_or(NoTransfer::AudioOnly)?;
        if !generation.config.destinations.contains_key(destination) {
            return Err(NoTransfer::NoSuchDestination);
        }
        // The last place is the end's.
        if orders.capacity() == 1 {
            return Err(NoTransfer::NotRunning);
        }
        let order = Order::Transfer { destination: destination.to_owned(), account: account.to_owned() };
        orders.try_send(order).map_err(|_| NoTransfer::NotRunning)
    }

    /// What the caller of a conversation in writing has written.
    pub fn write(&self, call: CallId, text: &str) -> Result<(), NoWriting> {
        let inner = self.lock();
        let running = inner.live.get(&call).ok_or(NoWriting::NotRunning)?;
        let Doors { orders, written, .. } = &running.doors;
        if !written {
            return Err(NoWriting::Spoken);
        }
        // Nobody is there before the call is answered; and the last place is the end's.
        if running.call.phase == "connecting" || orders.capacity() == 1 {
            return Err(NoWriting::TooFast);
        }
        orders.try_send(Order::Written(text.to_owned().into())).map_err(|error| match error {
            TrySendError::Full(_) => NoWriting::TooFast,
            TrySendError::Closed(_) => NoWriting::NotRunning,
        })
    }

    /// What happened in a call from this entry on; `None`: it does not run.
    pub fn story(&self, call: CallId, from: u64) -> Option<Vec<LiveEntry>> {
        let inner = self.lock();
        let story = &inner.live.get(&call)?.story;
        // Entries are numbered without a gap.
        let first = story.front().map_or(0, |first| first.number);
        let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        Some(story.iter().skip(skipped).cloned().collect())
    }

    /// WAV of a call from now on.
    pub fn listen(&self, call: CallId) -> Result<mpsc::Receiver<Bytes>, NoListening> {
        let tap = self.lock().live.get(&call).map(|running| Arc::clone(&running.doors.tap));
        tap.ok_or(NoListening::NotRunning)?.listen().ok_or(NoListening::TooMany)
    }

    /// Has the agent of a call say something; `false` if it cannot be told.
    pub fn say(&self, call: CallId, words: &str) -> bool {
        self.lock().live.get(&call).is_some_and(|running| running.doors.words.try_send(words.to_owned()).is_ok())
    }

    /// Parties on the line; `None`: the call does not run, or nobody may know.
    pub fn parties(&self, call: CallId) -> Option<Parties> {
        self.lock().live.get(&call)?.parties.clone()
    }

    /// As it is now; `None`: it does not run.
    pub fn call(&self, call: CallId) -> Option<ActiveCall> {
        self.lock().live.get(&call).map(Running::now)
    }

    pub fn view(&self) -> CallsView {
        let inner = self.lock();
        let mut active: Vec<ActiveCall> = inner.live.values().map(Running::now).collect();
        active.sort_by_key(|call| call.call.since);
        CallsView { active, recent: inner.ended.iter().rev().cloned().collect() }
    }

    /// Fact about a call's end that became known later.
    pub fn ended_otherwise(&self, call: CallId, reason: Ending) {
        let mut inner = self.lock();
        if let Some(ended) = inner.ended.iter_mut().find(|ended| ended.call.id == call) {
            ended.reason = reason;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn now(&self) -> ActiveCall {
        let [caller, agent] = self.doors.tap.levels();
        ActiveCall { levels: Levels { caller, agent }, ..self.call.clone() }
    }

    fn floor(&mut self, note: &Note) {
        match note {
            Note::CallerSpeaks => self.caller_speaks = true,
            Note::CallerFinished => self.caller_speaks = false,
            Note::AgentSpeaks => self.agent_speaks = true,
            Note::AgentFinished | Note::BargeIn { .. } => self.agent_speaks = false,
            _ => return,
        }
        self.call.floor = match (self.caller_speaks, self.agent_speaks) {
            (true, true) => "both",
            (true, false) => "caller",
            (false, true) => "agent",
            (false, false) => "nobody",
        };
    }

    fn tell(&mut self, at: Duration, note: &Note) {
        let at_ms = u64::try_from(self.speeches.began(at, note).as_millis()).unwrap_or(u64::MAX);
        let Some(mut event) = Event::of(note, self.shown.words) else { return };
        if let Event::Said { text, .. } = &mut event {
            text.truncate(text.floor_char_boundary(SAID_BYTES_MAX));
        }
        let number = self.story.back().map_or(0, |last| last.number + 1);
        if self.story.len() == STORY_MAX {
            self.story.pop_front();
        }
        self.story.push_back(LiveEntry { number, entry: Entry { at_ms, event } });
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
        let at = self.began.elapsed();
        if let Some(running) = self.calls.lock().live.get_mut(&self.id) {
            running.floor(note);
            running.tell(at, note);
            if let Note::PartyChanged(party) | Note::PartyKnown(party) = note
                && let Some(parties) = &mut running.parties
            {
                parties.caller_number.clone_from(party.number.reveal());
                parties.caller_name.clone_from(party.name.reveal());
            }
        }
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
        if let Some(running) = self.calls.lock().live.get_mut(&self.id) {
            change(&mut running.call);
        }
    }

    /// Who has the call, and how it went so far.
    pub fn now(&self) -> Option<ActiveCall> {
        self.calls.lock().live.get(&self.id).map(|running| running.call.clone())
    }

    /// Why the call ended and what it used; without it, the entry ends as a fault of the engine.
    pub fn ended(&mut self, reason: EndReason, usage: Vec<Used>) {
        (self.reason, self.usage) = (reason, usage);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut inner = self.calls.lock();
        if let Some(Running { call, .. }) = inner.live.remove(&self.id) {
            if inner.ended.len() == ENDED_MAX {
                inner.ended.pop_front();
            }
            let lasted = self.began.elapsed();
            let (call, counts) = (call.call, call.counts);
            let usage = std::mem::take(&mut self.usage);
            inner.ended.push_back(EndedCall { call, lasted, reason: self.reason.into(), counts, usage });
        }
    }
}
