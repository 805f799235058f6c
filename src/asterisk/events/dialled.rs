//! Channels that we call for a caller: what has become of each, as events tell it.

use super::router::EventRouter;
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

    /// The first word counts.
    pub(crate) fn ends(&mut self, cause: Option<u32>) {
        if !matches!(self, Self::Ended { .. }) {
            *self = Self::Ended { cause, rang: *self != Self::Calling };
        }
    }
}

/// All channels called for one call, side by side. One value, so that one look sees them all.
pub(super) type Board = watch::Sender<Vec<Dialled>>;

/// Which channel is which place on whose board.
#[derive(Default)]
pub(super) struct Boards {
    by_channel: HashMap<String, (usize, Board)>,
}

impl Boards {
    pub(super) fn insert(&mut self, channels: &[String], board: &Board) {
        for (place, channel) in channels.iter().enumerate() {
            self.by_channel.insert(channel.clone(), (place, board.clone()));
        }
    }

    pub(super) fn remove(&mut self, channels: &[String]) {
        for channel in channels {
            self.by_channel.remove(channel);
        }
    }

    pub(super) fn knows(&self, channel: &str) -> bool {
        self.by_channel.contains_key(channel)
    }

    pub(super) fn channels(&self) -> Vec<String> {
        self.by_channel.keys().cloned().collect()
    }

    /// `false` when nobody calls this channel.
    pub(super) fn note(&self, channel: &str, change: impl FnOnce(&mut Dialled)) -> bool {
        let Some((place, board)) = self.by_channel.get(channel) else { return false };
        board.send_modify(|all| {
            if let Some(one) = all.get_mut(*place) {
                change(one);
            }
        });
        true
    }
}

/// One call's claim on the events of the channels that are called for it.
pub struct DialledCalls {
    router: EventRouter,
    channels: Vec<String>,
    board: Board,
}

impl DialledCalls {
    pub(super) fn new(router: EventRouter, channels: Vec<String>, board: Board) -> Self {
        Self { router, channels, board }
    }

    pub fn channels(&self) -> &[String] {
        &self.channels
    }

    pub fn watch(&self) -> watch::Receiver<Vec<Dialled>> {
        self.board.subscribe()
    }

    /// The request that should have called this one failed.
    pub fn not_called(&self, place: usize) {
        self.board.send_modify(|all| all.get_mut(place).into_iter().for_each(|one| one.ends(None)));
    }
}

impl Drop for DialledCalls {
    fn drop(&mut self) {
        self.router.forget_dialled(&self.channels);
    }
}
