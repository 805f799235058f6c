//! Legs that we dial for a caller: what has become of each, as events tell it.
//!
//! Invariants: a leg has one channel at a time, the last one that Asterisk has put into its place (the far end forwards the call,
//! a colleague picks it up); and a channel of a leg that nobody waits for any more is hung up, whatever its id.

use super::{
    event::Started,
    router::{Chore, EventRouter, Routes},
};
use crate::{
    asterisk::ari::{ChannelInfo, DialledLeg},
    facts::CallId,
};
use std::collections::HashMap;
use tokio::sync::watch;

/// What has become of one channel that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialled {
    Calling,
    Ringing,
    /// In Stasis, so it can be bridged.
    Answered,
    Ended {
        /// Q.850; `None`: nobody said.
        cause: Option<u32>,
        rang: bool,
    },
}

impl Dialled {
    pub(crate) fn rings(&mut self) {
        if *self == Self::Calling {
            *self = Self::Ringing;
        }
    }

    pub(crate) fn answers(&mut self) {
        if matches!(self, Self::Calling | Self::Ringing) {
            *self = Self::Answered;
        }
    }

    /// Another channel has taken its place: it goes on there, even if the first one has ended.
    fn goes_on(&mut self) {
        if let Self::Ended { rang, .. } = *self {
            *self = if rang { Self::Ringing } else { Self::Calling };
        }
    }

    /// The first word counts.
    pub(crate) fn ends(&mut self, cause: Option<u32>) {
        if !matches!(self, Self::Ended { .. }) {
            *self = Self::Ended { cause, rang: *self != Self::Calling };
        }
    }
}

/// Channels of one leg, each forwarded to the next: as many as Asterisk lets a call of its own be forwarded (`MAX_FORWARDS`). Telephones
/// that are forwarded to each other would go on for as long as they are rung.
const CHANNELS_OF_A_LEG_MAX: usize = 20;

/// All legs dialled for one call, side by side. One value, so that one look sees them all.
type Board = watch::Sender<Vec<Dialled>>;

/// A channel takes the place of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Succeeds {
    /// The leg goes on in it.
    Here,
    /// The leg has been given up.
    TooLate,
    /// The leg has had as many as it may have.
    TooMany,
}

/// One leg.
struct Leg {
    /// The channels that it has had, the one in use last.
    channels: Vec<String>,
    /// It has been given up.
    closed: bool,
}

/// The legs of one call.
struct Legs {
    legs: Vec<Leg>,
    board: Board,
}

/// Which channel is which leg on which call's board.
#[derive(Default)]
pub(super) struct Boards {
    by_call: HashMap<CallId, Legs>,
    by_channel: HashMap<String, (CallId, usize)>,
}

impl Boards {
    fn insert(&mut self, call: CallId, channels: &[String], board: &Board) {
        self.remove(call, None);
        for (number, channel) in channels.iter().enumerate() {
            self.by_channel.insert(channel.clone(), (call, number));
        }
        let leg = |channel: &String| Leg { channels: vec![channel.clone()], closed: false };
        self.by_call.insert(call, Legs { legs: channels.iter().map(leg).collect(), board: board.clone() });
    }

    /// `of`: only if these are its legs, and not those of a later transfer of the same call.
    fn remove(&mut self, call: CallId, of: Option<&Board>) {
        if of.is_some_and(|of| !self.by_call.get(&call).is_some_and(|legs| legs.board.same_channel(of))) {
            return;
        }
        for channel in self.by_call.remove(&call).into_iter().flat_map(|legs| legs.legs).flat_map(|leg| leg.channels) {
            self.by_channel.remove(&channel);
        }
    }

    pub(super) fn knows(&self, channel: &str) -> bool {
        self.by_channel.contains_key(channel)
    }

    pub(super) fn channels(&self) -> Vec<String> {
        self.by_channel.keys().cloned().collect()
    }

    fn current(&self, call: CallId, number: usize) -> Option<&String> {
        self.by_call.get(&call)?.legs.get(number)?.channels.last()
    }

    /// Tells what has become of a leg. `false` when this is not its channel, or not the one in use.
    pub(super) fn note(&self, channel: &str, change: impl FnOnce(&mut Dialled)) -> bool {
        let Some(&(call, number)) = self.by_channel.get(channel) else { return false };
        let is_in_use = self.current(call, number).is_some_and(|current| current == channel);
        if let Some(legs) = self.by_call.get(&call).filter(|_| is_in_use) {
            legs.board.send_modify(|all| {
                if let Some(one) = all.get_mut(number) {
                    change(one);
                }
            });
        }
        is_in_use
    }

    /// A channel takes the place of another one; `None` when that one is not of a leg.
    pub(super) fn succeeds(&mut self, channel: &str, by: &str) -> Option<Succeeds> {
        let &(call, number) = self.by_channel.get(channel)?;
        let legs = self.by_call.get_mut(&call)?;
        let leg = legs.legs.get_mut(number).filter(|leg| !leg.closed);
        let Some(leg) = leg else { return Some(Succeeds::TooLate) };
        if !leg.channels.iter().any(|known| known == by) {
            if leg.channels.len() >= CHANNELS_OF_A_LEG_MAX {
                return Some(Succeeds::TooMany);
            }
            leg.channels.push(by.to_owned());
            legs.board.send_modify(|all| all.get_mut(number).into_iter().for_each(Dialled::goes_on));
            self.by_channel.insert(by.to_owned(), (call, number));
        }
        Some(Succeeds::Here)
    }

    fn close(&mut self, call: CallId, number: usize) -> Vec<String> {
        let leg = self.by_call.get_mut(&call).and_then(|legs| legs.legs.get_mut(number));
        leg.map(|leg| {
            leg.closed = true;
            leg.channels.clone()
        })
        .unwrap_or_default()
    }
}

impl EventRouter {
    /// Claims the events of this many legs, which will be dialled. To be asked before they are.
    pub fn dial(&self, call: CallId, number: usize) -> DialledCalls {
        let channels: Vec<_> = (0..number).map(|number| self.names().dialled_channel(call, number)).collect();
        let board = Board::new(vec![Dialled::Calling; number]);
        self.routes().dialled.insert(call, &channels, &board);
        DialledCalls { router: self.clone(), call, channels, board }
    }

    /// The channels of all legs.
    pub(super) fn dialled(&self) -> Vec<String> {
        self.routes().dialled.channels()
    }

    /// Asterisk was asked what has become of a channel that is called.
    pub(super) fn settle_dialled(&self, channel: &str, now: Option<&ChannelInfo>) {
        self.routes().dialled.note(channel, |dialled| match now.map(|info| &*info.state) {
            None => dialled.ends(None),
            Some("Up") => dialled.answers(),
            Some("Ringing") => dialled.rings(),
            Some(_) => {}
        });
    }

    /// The leg whose channel has come to Stasis.
    pub(super) fn dialled_leg(&self, started: &Started) -> Option<DialledLeg> {
        // Its first channel is known by its id, whatever its arguments.
        let by_id = || self.names().call_of_dialled(&started.channel).map(|_| DialledLeg::Unknown);
        self.names().dialled_leg(&started.args).or_else(by_id)
    }

    /// A leg is answered in this channel. `false`: nobody waits for it.
    pub(super) fn dialled_answers(&self, leg: DialledLeg, channel: &str) -> bool {
        let mut routes = self.routes();
        if let DialledLeg::Ours { call, number } = leg
            && let first = self.names().dialled_channel(call, number)
            && first != channel
            && self.leg_goes_on(&mut routes, &first, channel) != Some(Succeeds::Here)
        {
            return false;
        }
        routes.dialled.note(channel, Dialled::answers)
    }

    /// The far end of a leg has it forwarded.
    pub(super) fn forwarded(&self, channel: &str, to: String) -> Option<Chore> {
        let is_ours = self.names().call_of_dialled(channel).is_some();
        let goes_on = self.leg_goes_on(&mut self.routes(), channel, &to);
        let rings_in_vain = goes_on.map_or(is_ours, |succeeds| succeeds != Succeeds::Here);
        rings_in_vain.then_some(Chore::RemoveChannel(to))
    }

    /// A channel takes the place of another one; `None` when that one is not of a leg.
    pub(super) fn leg_goes_on(&self, routes: &mut Routes, channel: &str, by: &str) -> Option<Succeeds> {
        let succeeds = routes.dialled.succeeds(channel, by);
        if succeeds == Some(Succeeds::TooMany) {
            self.counters().forwards_refused.inc();
            tracing::warn!(
                "a destination's telephone is forwarded from one to the next without end; it is called no further"
            );
        }
        succeeds
    }
}

/// One call's claim on the events of the legs that are dialled for it.
pub struct DialledCalls {
    router: EventRouter,
    call: CallId,
    channels: Vec<String>,
    board: Board,
}

impl DialledCalls {
    /// The channels that are asked for, one a leg.
    pub fn channels(&self) -> &[String] {
        &self.channels
    }

    pub fn watch(&self) -> watch::Receiver<Vec<Dialled>> {
        self.board.subscribe()
    }

    /// The request that should have called this one failed.
    pub fn not_called(&self, number: usize) {
        self.board.send_modify(|all| all.get_mut(number).into_iter().for_each(|one| one.ends(None)));
    }

    /// The channel in which a leg is.
    pub fn current(&self, number: usize) -> Option<String> {
        self.router.routes().dialled.current(self.call, number).cloned()
    }

    /// Gives a leg up. Returns every channel that it has had, to be hung up; one that would take their place is
    /// hung up by the router.
    pub fn close(&self, number: usize) -> Vec<String> {
        self.router.routes().dialled.close(self.call, number)
    }

    /// From now on, when the caller or this leg goes, the other is hung up. `false`: there is no room, or no such leg.
    pub fn hand_on(&self, caller: &str, number: usize) -> bool {
        let mut routes = self.router.routes();
        // Under one lock: a channel that takes the leg's place is either seen here or replaces the party of the pair.
        let Some(leg) = routes.dialled.current(self.call, number).cloned() else { return false };
        self.router.insert_pair(&mut routes, self.call, [caller.to_owned(), leg])
    }
}

impl Drop for DialledCalls {
    fn drop(&mut self) {
        self.router.routes().dialled.remove(self.call, Some(&self.board));
    }
}
