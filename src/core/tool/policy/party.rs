//! Another party at the caller's end. Nothing that the former one proved, typed or agreed to is theirs, nor what the dialplan said of
//! that one.

use super::{Authority, CallPolicy, Confirmations, Source};
use crate::gate::AuthState;
use std::{sync::Arc, time::Instant};

impl CallPolicy {
    pub fn change_party(&mut self, is_known: bool, now: Instant) {
        self.authority = Authority::default();
        self.confirmations = Confirmations::default();
        self.secrets.forget();
        self.opening.pin = None;
        Arc::make_mut(&mut self.memory).user.clear();
        if is_known {
            self.number_is_known(now);
        }
    }

    /// The network has given the number of the party that has the caller's place.
    pub fn number_is_known(&mut self, now: Instant) {
        self.prove(Source::CallerId, AuthState::UserClaimed, now);
    }
}
