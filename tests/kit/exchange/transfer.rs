//! Transfers by telephones (`REFER`, blind, and with `Replaces`) of calls that are in an application's bridge. Asterisk lets a Local
//! channel take the place of the one that transfers; what is at its other end follows, also when nobody has answered there yet.

use super::{
    channel::cause,
    dial::{CALLERS, Calling},
    state::{By, State},
};
use serde_json::json;

impl State {
    /// `REFER` to an extension. `false`: it is refused, and the call goes on.
    pub fn transfer(&mut self, id: &str, extension: &str) -> bool {
        if !self.dialplan.exists(CALLERS, extension, 1) || !self.is_with_others(id) {
            return false;
        }
        let endpoint = format!("Local/{extension}@{CALLERS}");
        let local = self.outgoing(&endpoint, Calling::default()).expect("a Local channel");
        self.call(&local);
        self.takes_place(&local, id);
        true
    }

    /// `REFER` with `Replaces`: who is in a call of `Dial()` with the first of these is handed to those who are with the second one.
    pub fn transfer_attended(&mut self, transferee: &str, target: &str) -> bool {
        if !self.is_with_others(transferee) || !self.is_with_others(target) {
            return false;
        }
        let local = self.outgoing("Local/_attended@transfer", Calling::default()).expect("a Local channel");
        let far = self.other_half(&local).expect("just made");
        self.answer(&far);
        self.takes_place(&local, target);
        // `Dial()` waits for the end of the one that it has called.
        let bridge = self.channels[transferee].bridge.clone().expect("asked above");
        let ended = self.channels[transferee].ended.clone();
        let mut took_over = std::mem::replace(&mut self.channels.get_mut(&far).expect("just made").ended, ended);
        std::mem::swap(&mut took_over, &mut self.channels.get_mut(transferee).expect("asked above").ended);
        let others = self.bridges[&bridge].members.iter().filter(|member| *member != transferee);
        let ends: Vec<_> = others.filter_map(|member| Some(self.channels.get(member)?.ended.clone())).collect();
        self.join_bridge(&far, &bridge);
        self.leave_bridge(transferee);
        let switch = self.switch();
        self.spawn(async move {
            for end in ends {
                end.cancelled().await;
            }
            switch.with(|state| state.hang_up(&far, cause::NORMAL, By::Dialplan));
        });
        true
    }

    fn is_with_others(&self, id: &str) -> bool {
        let bridge = self.channels.get(id).and_then(|channel| channel.bridge.as_ref());
        bridge.is_some_and(|bridge| self.bridges[bridge].members.len() > 1)
    }

    /// A channel enters the application of another one, and its bridge in its place. It has no arguments.
    fn takes_place(&mut self, id: &str, of: &str) {
        let Some((replaced, app)) = self.channels.get(of).map(|one| (one.json(), one.subscriber.clone())) else {
            return;
        };
        let bridge = self.channels[of].bridge.clone();
        self.enter_stasis_in_place_of(id, &app.expect("a channel in an application"), replaced);
        if let Some(bridge) = bridge {
            self.join_bridge(id, &bridge);
        }
        self.leave_bridge(of);
    }

    /// Makes the number that a channel has called the caller id of the other half of a Local channel, as Asterisk's `Dial()` does
    /// when it is answered.
    pub fn tells_whom_it_has_called(&mut self, id: &str) {
        let Some(number) = self.channels.get(id).map(|channel| channel.place.extension.clone()) else { return };
        let Some(other) = self.other_half(id) else { return };
        if let Some(other) = self.channels.get_mut(&other) {
            other.caller.number = number;
        }
        self.tell_of(&other, "ChannelCallerId", json!({ "caller_presentation": 0, "caller_presentation_txt": "" }));
    }
}
