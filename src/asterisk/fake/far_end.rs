//! Far ends of dialled channels, and other engines.

use super::{Asterisk, Channel};
use serde_json::{Value, json};

impl Asterisk {
    /// A channel that was called rings.
    pub(in crate::asterisk) fn rings(&mut self, id: &str) {
        self.channels.entry(id.into()).and_modify(|channel| channel.ringing = true);
        self.tell(&json!({ "type": "ChannelStateChange", "channel": { "id": id, "state": "Ringing" } }));
    }

    /// It answers.
    pub(in crate::asterisk) fn answers(&mut self, id: &str) {
        self.channels.entry(id.into()).and_modify(|channel| (channel.answered, channel.in_stasis) = (true, true));
        self.tell(
            &json!({ "type": "StasisStart", "args": self.arguments(id), "channel": { "id": id, "state": "Up" } }),
        );
    }

    /// Arguments of Stasis with which a channel was originated.
    fn arguments(&self, id: &str) -> Vec<String> {
        let body = self.channels.get(id).and_then(|channel| channel.originated.as_ref());
        body.and_then(|body| body["appArgs"].as_str())
            .into_iter()
            .flat_map(|text| text.split(','))
            .map(str::to_owned)
            .collect()
    }

    /// Its far end answers 302: Asterisk calls `by` in its place.
    pub(in crate::asterisk) fn is_forwarded(&mut self, id: &str, by: &str) {
        let originated = self.channels.get(id).and_then(|channel| channel.originated.clone());
        self.channels.insert(by.into(), Channel { originated, ..Channel::default() });
        self.tell(&json!({ "type": "ChannelHangupRequest", "cause": 23, "channel": { "id": id } }));
        self.tell(&json!({ "type": "Dial", "dialstatus": "CANCEL", "forward": "820402", "peer": { "id": id },
            "forwarded": { "id": by, "name": "Local/820402@office-00000000;1", "state": "Down" } }));
        self.refuses(id, 23);
    }

    /// A colleague's telephone picks it up: it ends, and the colleague's channel goes on in its place.
    pub(in crate::asterisk) fn is_picked_up(&mut self, id: &str, by: &str) {
        let originated = self.channels.get(id).and_then(|channel| channel.originated.clone());
        self.refuses(id, 16);
        self.channels.insert(by.into(), Channel { originated, ..Channel::default() });
        self.answers(by);
    }

    /// The dialplan hangs up on a caller who is not in our application any more.
    pub(in crate::asterisk) fn is_hung_up_on(&mut self, id: &str, cause: u32) {
        if self.channels.remove(id).is_some_and(|channel| channel.subscribed) {
            let asked = json!({ "type": "ChannelHangupRequest", "soft": true, "cause": 16, "channel": { "id": id } });
            self.tell(&asked);
            self.tell(&json!({ "type": "ChannelDestroyed", "cause": cause, "channel": { "id": id } }));
        }
    }

    /// It does not.
    pub(in crate::asterisk) fn refuses(&mut self, id: &str, cause: u32) {
        self.channels.remove(id);
        self.tell(&json!({ "type": "ChannelDestroyed", "cause": cause, "channel": { "id": id } }));
    }

    pub(super) fn says_who_owns_it(&mut self, method: &str, body: &Value) -> (u16, Value) {
        if method == "POST" {
            if !self.other_beats {
                self.owner = body["value"].as_str().unwrap().into();
            }
            return (204, Value::Null);
        }
        self.looks += 1;
        if self.other_beats {
            self.owner = format!("other.{}", self.looks);
        }
        (200, json!({ "value": self.owner }))
    }
}
