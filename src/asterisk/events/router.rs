//! Which event belongs to which call.

use super::{
    bridging::{Bridging, CallBridge},
    call_events::{CallEvents, gone},
    dialled::{Boards, Dialled, Succeeds},
    event::{Event, Started},
    pairs::{Pairs, Widowed},
    replaced::{CallerPlace, NewParty},
    transferred::{AtPlace, Transferred},
    unanswered::Unanswered,
};
use crate::{
    asterisk::ari::{AriCounters, Names, Queue},
    facts::CallId,
    redact::Redacted,
};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    watch,
};

/// Calls that arrived and that the engine has not looked at. It takes each within microseconds, so
/// a full queue means that the engine stands still: the call goes back to the dialplan at once.
pub(super) const ARRIVALS: usize = 256;
/// Keys one call has not looked at. Nobody presses so many while a call task is busy; one that is
/// full belongs to a call that is stuck, and further keys are lost and counted.
const DIGITS: usize = 64;

/// Q.850.
const USER_BUSY: u32 = 17;

/// Where a channel is, as far as events have told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Asked for; not in Stasis yet.
    Expected,
    Here,
    Gone(Gone),
}

/// How a channel went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// Hung up, or not there any more, as Asterisk tells.
    Left,
    /// Left our application without a hang-up before: the dialplan has it again, or had set it a time that is over.
    Released,
    /// It was missing when the events socket came back.
    Lost,
    /// A media channel: it may be there still, and it and the caller are not in the call's bridge.
    Unbridged,
}

/// What happened to one call's channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelEvent {
    /// The caller pressed a key.
    Digit(char),
    /// The caller's channel is no longer ours. The last event.
    CallerGone(Gone),
    /// The media channel ended, or was parted from the caller, while the caller's stood.
    MediaGone(Gone),
}

/// A channel of a caller that entered our application.
pub struct Arrival {
    /// What stood behind the application's name in `Stasis()`.
    pub args: Vec<String>,
    pub caller_name: Redacted<Option<String>>,
    pub caller_number: Redacted<Option<String>>,
    /// The extension the call came in on.
    pub dialled: Redacted<Option<String>>,
    /// The context of the dialplan that the caller came from.
    pub place: Option<String>,
    /// Answered already: by the dialplan, or by who was called.
    pub answered: bool,
    /// It called out: whoever answered is the caller.
    pub outbound: bool,
    /// Variables that `channelvars` in `ari.conf` adds to each event.
    pub variables: Redacted<BTreeMap<String, String>>,
    /// Left in our application by an earlier process, or while the events socket was down: nobody
    /// knows what was said, so it should go back to the dialplan.
    pub orphan: bool,
    pub registration: Registration,
    pub events: CallEvents,
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The arguments are the dialplan's words and may hold numbers.
        let mut out = f.debug_struct("Arrival");
        out.field("channel", &self.registration.caller()).field("orphan", &self.orphan).finish_non_exhaustive()
    }
}

/// What a dispatched event leaves to be done by request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chore {
    /// A media channel of ours without a call.
    RemoveChannel(String),
    RemoveBridge(String),
    /// Another party has the place of the caller with this id, and Asterisk is to be asked who that is.
    AskParty(String),
    /// Of a caller and whoever took them over, one has gone: the other is hung up too.
    EndPair {
        call: CallId,
        other: String,
    },
    /// A caller nobody will take.
    Decline {
        channel: String,
        status: &'static str,
    },
}

/// Hands each event to the call it belongs to. Clones share the table.
#[derive(Clone)]
pub struct EventRouter {
    inner: Arc<Inner>,
}

struct Inner {
    names: Names,
    counters: AriCounters,
    arrivals: mpsc::Sender<Arrival>,
    /// Locked for the length of a look-up, never across an await.
    routes: Mutex<Routes>,
}

#[derive(Default)]
pub(super) struct Routes {
    pub(super) by_channel: HashMap<String, Route>,
    last_serial: u64,
    pub(super) dialled: Boards,
    pub(super) pairs: Pairs,
    pub(super) unanswered: Unanswered,
    pub(super) transferred: Transferred,
}

pub(super) struct Route {
    /// Tells this stay of a channel from a later one under the same id.
    serial: u64,
    pub(super) presence: watch::Sender<Presence>,
    /// What callers do; media channels do nothing of their own.
    pub(super) caller: Option<CallerSide>,
}

/// Where what a caller does is told.
pub(super) struct CallerSide {
    digits: mpsc::Sender<char>,
    held: watch::Sender<bool>,
    /// The phone has the call on hold.
    on_hold: bool,
    /// How often that was told.
    holds: u64,
    pub(super) place: CallerPlace,
    pub(super) bridging: Bridging,
}

impl CallerSide {
    pub(super) fn is_told_of_hold(&mut self, held: bool) {
        self.holds += 1;
        self.on_hold = held;
        self.tell_of_hold();
    }

    /// Tells whether the caller's end hears nothing: their phone has the call on hold, or another party's rings.
    pub(super) fn tell_of_hold(&self) {
        let held = self.on_hold || self.place.rings;
        self.held.send_if_modified(|was| std::mem::replace(was, held) != held);
    }
}

impl EventRouter {
    pub(super) fn new(names: Names, counters: AriCounters) -> (Self, mpsc::Receiver<Arrival>) {
        let (arrivals, receiver) = mpsc::channel(ARRIVALS);
        let inner = Inner { names, counters, arrivals, routes: Mutex::default() };
        (Self { inner: Arc::new(inner) }, receiver)
    }

    /// Routes a caller's channel that is in Stasis now. Arrivals come registered; this is for
    /// channels the engine learns of in another way.
    pub fn register(&self, caller: &str) -> (Registration, CallEvents) {
        let (digits, digit_receiver) = mpsc::channel(DIGITS);
        let (presence, caller_presence) = watch::channel(Presence::Here);
        let (media, media_presence) = watch::channel(Presence::Expected);
        let (held, is_held) = watch::channel(false);
        let (place, party) = CallerPlace::new();
        let bridging = Bridging::default();
        let side = CallerSide { digits, held, on_hold: false, holds: 0, place, bridging };
        let serial = self.routes().insert(caller, presence, Some(side));
        let events = CallEvents {
            digits: digit_receiver,
            caller: caller_presence.clone(),
            media: media_presence,
            media_told: false,
            over: false,
        };
        let caller = Registered { channel: caller.to_owned(), serial };
        let media_routes = Mutex::default();
        (Registration { router: self.clone(), caller, caller_presence, is_held, party, media, media_routes }, events)
    }

    /// An event, of the id that its channel stands for.
    pub(super) fn take(&self, event: Event) -> Option<Chore> {
        match event {
            Event::StasisStart(started) => return self.started(*started),
            Event::ChannelDestroyed { channel, cause } => {
                self.at_place(&channel, cause.map_or(AtPlace::Left, AtPlace::HungUp));
                return self.left(&channel, Gone::Left, Some(cause));
            }
            Event::ChannelHangupRequest { channel, soft } => {
                if !soft {
                    self.at_place(&channel, AtPlace::Left);
                }
                return self.left(&channel, Gone::Left, None);
            }
            Event::StasisEnd { channel } => return self.left(&channel, Gone::Released, None),
            Event::DialAnswered { channel } => self.at_place(&channel, AtPlace::Taken),
            Event::Ringing { channel } => {
                self.routes().dialled.note(&channel, Dialled::rings);
            }
            Event::Busy { channel } => {
                self.routes().dialled.note(&channel, |dialled| dialled.ends(Some(USER_BUSY)));
            }
            Event::Answered { channel } => return self.party_answers(&channel).or_else(|| self.answered(&channel)),
            Event::CallerIdChanged { channel } => {
                return self.is_another_party(&channel).then_some(Chore::AskParty(channel));
            }
            Event::Forwarded { channel, to } => return self.forwarded(&channel, to),
            Event::ChannelDtmfReceived { channel, digit } => {
                if let Some(Route { caller: Some(caller), .. }) = self.routes().by_channel.get(&channel)
                    && let Err(TrySendError::Full(_)) = caller.digits.try_send(digit)
                {
                    self.inner.counters.overflowed(Queue::Digits);
                }
            }
            Event::ChannelHeld { channel, held } => {
                if let Some(Route { caller: Some(caller), .. }) = self.routes().by_channel.get_mut(&channel) {
                    caller.is_told_of_hold(held);
                }
            }
            Event::ApplicationReplaced | Event::Other => {}
        }
        None
    }

    /// A channel ends; `destroyed` with its cause once it is no more.
    fn left(&self, channel: &str, how: Gone, destroyed: Option<Option<u32>>) -> Option<Chore> {
        let mut routes = self.routes();
        routes.unanswered.remove(channel);
        if let Some(route) = routes.by_channel.get(channel) {
            let _ = route.leave(how);
        }
        routes.dialled.note(channel, |dialled| match destroyed {
            Some(cause) => dialled.ends(cause),
            // Why a channel that did not answer ends is told when it is destroyed.
            None if *dialled == Dialled::Answered => dialled.ends(None),
            None => {}
        });
        let Widowed { call, other } = routes.pairs.left(channel)?;
        self.count_pairs(&routes);
        Some(Chore::EndPair { call, other })
    }

    pub(super) fn counters(&self) -> &AriCounters {
        &self.inner.counters
    }

    pub(super) fn overflowed(&self, queue: Queue) {
        self.inner.counters.overflowed(queue);
    }

    fn started(&self, started: Started) -> Option<Chore> {
        self.at_place(&started.channel, AtPlace::Taken);
        let replaced = started.replaces.clone();
        if let Some(replaced) = &replaced.and_then(|replaced| self.names().identities().id_of(replaced)) {
            let mut routes = self.routes();
            let of_a_pair = routes.pairs.replace(replaced, &started.channel);
            let of_a_leg = self.leg_goes_on(&mut routes, replaced, &started.channel);
            if of_a_leg.is_some_and(|succeeds| succeeds != Succeeds::Here) && !of_a_pair {
                return Some(Chore::RemoveChannel(started.channel));
            }
            drop(routes);
            if of_a_leg.is_some() || of_a_pair {
                return None;
            }
            if self.replaces_caller(replaced, &started) {
                return Some(Chore::AskParty(replaced.clone()));
            }
        }
        if let Some(leg) = self.dialled_leg(&started) {
            let expected = self.dialled_answers(leg, &started.channel);
            // Answered just when nobody waited any more.
            return (!expected).then_some(Chore::RemoveChannel(started.channel));
        }
        let ours = self.inner.names.call_of_media(&started.channel).is_some();
        if let Some(route) = self.routes().by_channel.get(&started.channel) {
            let presence = *route.presence.borrow();
            match presence {
                Presence::Expected => {
                    route.presence.send_replace(Presence::Here);
                    return None;
                }
                Presence::Here => return None,
                Presence::Gone(_) if ours => return None,
                // The dialplan sent a caller in again before their last call was cleared away.
                Presence::Gone(_) => {}
            }
        } else if ours {
            return Some(Chore::RemoveChannel(started.channel));
        }
        if started.unanswered {
            return self.waits_for_answer(started);
        }
        self.arrive(started, false)
    }

    pub(super) fn arrive(&self, started: Started, orphan: bool) -> Option<Chore> {
        let (registration, events) = self.register(&started.channel);
        let arrival = Arrival {
            args: started.args,
            caller_name: started.caller_name.into(),
            caller_number: started.caller_number.into(),
            dialled: started.dialled.into(),
            place: started.place,
            answered: started.answered,
            outbound: started.unanswered,
            variables: started.variables.into(),
            orphan,
            registration,
            events,
        };
        let status = match self.inner.arrivals.try_send(arrival) {
            Ok(()) => return None,
            Err(TrySendError::Full(_)) => {
                self.inner.counters.overflowed(Queue::Arrivals);
                "FULL"
            }
            Err(TrySendError::Closed(_)) => "DRAINING",
        };
        Some(Chore::Decline { channel: started.channel, status: if orphan { "RESTARTED" } else { status } })
    }

    /// A caller found in our application of whom no event told.
    pub(super) fn orphan(&self, channel: String) -> Option<Chore> {
        self.arrive(Started { channel, ..Started::default() }, true)
    }

    pub(in crate::asterisk) fn knows(&self, channel: &str) -> bool {
        let routes = self.routes();
        routes.by_channel.contains_key(channel)
            || routes.dialled.knows(channel)
            || routes.pairs.has(channel)
            || routes.unanswered.contains_key(channel)
            || routes.transferred.contains_key(channel)
    }

    /// The channels that are in Stasis for a call, as far as is known.
    pub(super) fn present(&self) -> Vec<Registered> {
        let routes = self.routes();
        let here = routes.by_channel.iter().filter(|(_, route)| *route.presence.borrow() == Presence::Here);
        here.map(|(channel, route)| Registered { channel: channel.clone(), serial: route.serial }).collect()
    }

    /// The callers who are in Stasis for a call, as far as is known, each with how often hold was told of.
    pub(super) fn callers(&self) -> Vec<(Registered, u64)> {
        let routes = self.routes();
        let here = routes.by_channel.iter().filter(|(_, route)| *route.presence.borrow() == Presence::Here);
        let callers = here.filter_map(|(channel, route)| {
            let holds = route.caller.as_ref()?.holds;
            Some((Registered { channel: channel.clone(), serial: route.serial }, holds))
        });
        callers.collect()
    }

    /// Asterisk was asked whether a caller holds the call. What was told of it meanwhile is newer.
    pub(super) fn settle_held(&self, stay: &Registered, holds: u64, held: bool) {
        if let Some(Route { serial, caller: Some(caller), .. }) = self.routes().by_channel.get_mut(&stay.channel)
            && (*serial, caller.holds) == (stay.serial, holds)
        {
            caller.on_hold = held;
            caller.tell_of_hold();
        }
    }

    /// Tells a call that its channel was missing.
    pub(super) fn lost(&self, stay: &Registered) {
        if let Some(route) = self.routes().by_channel.get(&stay.channel).filter(|route| route.serial == stay.serial) {
            let _ = route.leave(Gone::Lost);
        }
    }

    fn remove(&self, stay: &Registered) {
        let mut routes = self.routes();
        if routes.by_channel.get(&stay.channel).is_some_and(|route| route.serial == stay.serial) {
            routes.by_channel.remove(&stay.channel);
        }
    }

    pub(super) fn names(&self) -> &Names {
        &self.inner.names
    }

    pub(super) fn routes(&self) -> MutexGuard<'_, Routes> {
        // Every change is one insertion or removal, so a panic elsewhere leaves the table whole.
        self.inner.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Routes held, for tests that look for leaks.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.routes().by_channel.len()
    }
}

impl Routes {
    fn insert(&mut self, channel: &str, presence: watch::Sender<Presence>, caller: Option<CallerSide>) -> u64 {
        let serial = self.next_serial();
        self.by_channel.insert(channel.to_owned(), Route { serial, presence, caller });
        serial
    }

    pub(super) fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }
}

impl Route {
    /// Whether this stay goes on.
    pub(super) fn is_here(&self, stay: &Registered) -> bool {
        self.serial == stay.serial && *self.presence.borrow() == Presence::Here
    }

    /// The first word counts: a channel that hung up is not lost afterwards. `false`: it had gone.
    pub(super) fn leave(&self, how: Gone) -> bool {
        self.presence.send_if_modified(|presence| {
            let leaves = !matches!(presence, Presence::Gone(_));
            if leaves {
                *presence = Presence::Gone(how);
            }
            leaves
        })
    }
}

/// One stay of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) channel: String,
    serial: u64,
}

/// One call's claim on its channels' events; dropping it gives up the claim.
pub struct Registration {
    router: EventRouter,
    caller: Registered,
    caller_presence: watch::Receiver<Presence>,
    is_held: watch::Receiver<bool>,
    party: watch::Receiver<Option<NewParty>>,
    media: watch::Sender<Presence>,
    /// The last one is in use; those before it broke.
    media_routes: Mutex<Vec<Registered>>,
}

impl Registration {
    pub fn caller(&self) -> &str {
        &self.caller.channel
    }

    /// Claims the media channel's events. To be called before the channel is asked for, or its
    /// start could be missed. What becomes of an earlier one is of no interest from now on; it stays ours, so that nobody
    /// takes its remains, or the call's bridge, for orphans.
    pub fn expect_media(&self, channel: &str) {
        let mut all = self.media_routes();
        let mut routes = self.router.routes();
        for Registered { channel, serial } in all.iter() {
            if let Some(route) = routes.by_channel.get_mut(channel).filter(|route| route.serial == *serial) {
                route.presence = watch::Sender::new(Presence::Gone(Gone::Left));
            }
        }
        self.media.send_replace(Presence::Expected);
        let serial = routes.insert(channel, self.media.clone(), None);
        all.push(Registered { channel: channel.to_owned(), serial });
    }

    /// Every media channel that this call has asked for, the one in use last.
    pub(in crate::asterisk) fn media_channels(&self) -> Vec<String> {
        self.media_routes().iter().map(|route| route.channel.clone()).collect()
    }

    /// Who is in the call's bridge, as this call knows.
    pub(in crate::asterisk) fn bridge(&self) -> CallBridge {
        CallBridge::new(self.router.clone(), self.caller.clone())
    }

    fn media_routes(&self) -> MutexGuard<'_, Vec<Registered>> {
        // A push leaves it whole.
        self.media_routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::asterisk) fn router(&self) -> &EventRouter {
        &self.router
    }

    /// Tells whether the caller has gone, also when this registration is out of reach.
    pub(in crate::asterisk) fn presence(&self) -> watch::Receiver<Presence> {
        self.caller_presence.clone()
    }

    /// Whether the caller's phone has the call on hold, also when this registration is out of reach.
    pub fn held(&self) -> watch::Receiver<bool> {
        self.is_held.clone()
    }

    /// The party that has taken the caller's place, also when this registration is out of reach.
    pub fn party(&self) -> watch::Receiver<Option<NewParty>> {
        self.party.clone()
    }

    pub fn caller_is_gone(&self) -> bool {
        matches!(*self.caller_presence.borrow(), Presence::Gone(_))
    }

    /// Ends when the caller's channel is no longer ours.
    pub async fn caller_gone(&self) -> Gone {
        match gone(&mut self.caller_presence.clone()).await {
            Some(how) => how,
            // The route was taken over by a later stay of the same channel: this one is over.
            None => Gone::Left,
        }
    }

    /// Ends when the media channel can be bridged.
    ///
    /// # Errors
    /// When it ended before that.
    pub async fn media_here(&self) -> Result<(), Gone> {
        here(self.media.subscribe()).await
    }

    /// Where the media channel is, also when this registration is out of reach.
    pub(in crate::asterisk) fn media_presence(&self) -> watch::Receiver<Presence> {
        self.media.subscribe()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("caller", &self.caller.channel).finish_non_exhaustive()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.router.remove(&self.caller);
        self.media_routes().iter().for_each(|media| self.router.remove(media));
    }
}

/// Ends when a channel is in Stasis.
///
/// # Errors
/// When it has gone, or when nobody waits for it any more.
pub(in crate::asterisk) async fn here(mut presence: watch::Receiver<Presence>) -> Result<(), Gone> {
    let settled = presence.wait_for(|presence| *presence != Presence::Expected).await;
    match settled.map(|presence| *presence) {
        Ok(Presence::Gone(how)) => Err(how),
        Ok(Presence::Here | Presence::Expected) => Ok(()),
        Err(_) => Err(Gone::Left),
    }
}
