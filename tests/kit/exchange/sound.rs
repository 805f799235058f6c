//! What is said and pressed: where audio and keys of a channel go.

use super::{
    channel::{ChannelState, Ear, Sent, Tech},
    frame::Frame,
    state::State,
    tones::Tone,
};
use serde_json::json;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

const FRAME: Duration = Duration::from_millis(20);

impl State {
    /// A frame has come from the far end of a channel.
    pub fn read(&mut self, id: &str, frame: &Frame) {
        let Some(channel) = self.channels.get_mut(id) else { return };
        channel.received += 1;
        if channel.muted_in {
            return;
        }
        match (&channel.bridge, &channel.ear) {
            (Some(bridge), _) => {
                let bridge = bridge.clone();
                self.says_in_bridge(id, &bridge, frame);
            }
            (None, Ear::Echo) => self.write(id, frame),
            (None, Ear::Application(application)) => drop(application.send(Sent::Audio(frame.clone()))),
            (None, Ear::Nobody) => {}
        }
    }

    /// A frame goes to the far end of a channel.
    pub fn write(&mut self, id: &str, frame: &Frame) {
        let Some(channel) = self.channels.get_mut(id).filter(|channel| !channel.muted_out) else { return };
        match &channel.tech {
            Tech::Phone(handset) => {
                let is_heard = channel.state == ChannelState::Up;
                channel.sent += u64::from(is_heard && handset.hears(frame));
            }
            Tech::Media(media) => drop(media.send(Sent::Audio(frame.clone()))),
            Tech::Local(other) => {
                let other = other.clone();
                self.read(&other, frame);
            }
        }
    }

    /// A key was released at the far end of a channel.
    pub fn digit(&mut self, id: &str, digit: char) {
        self.tell_of(id, "ChannelDtmfReceived", json!({ "digit": digit, "duration_ms": 160 }));
        let Some(channel) = self.channels.get(id).filter(|channel| !channel.muted_in) else { return };
        match (&channel.bridge, &channel.ear) {
            (Some(_), _) if channel.features.is_some() => drop(channel.features.as_ref().map(|keys| keys.send(digit))),
            (Some(_), _) => self.passes_on(id, digit),
            (None, Ear::Echo) => self.press(id, digit),
            (None, Ear::Application(application)) => drop(application.send(Sent::Digit(digit))),
            (None, Ear::Nobody) => {}
        }
    }

    /// The others in a channel's bridge get its key.
    pub fn passes_on(&mut self, id: &str, digit: char) {
        let bridge = self.channels.get(id).and_then(|channel| self.bridges.get(channel.bridge.as_ref()?));
        let members = bridge.map(|bridge| bridge.members.clone()).unwrap_or_default();
        members.iter().filter(|other| *other != id).for_each(|other| self.press(other, digit));
    }

    /// A key is sent to the far end of a channel.
    pub fn press(&mut self, id: &str, digit: char) {
        let Some(channel) = self.channels.get(id) else { return };
        match &channel.tech {
            Tech::Phone(handset) => handset.is_sent_key(digit),
            Tech::Media(media) => drop(media.send(Sent::Digit(digit))),
            Tech::Local(other) => {
                let other = other.clone();
                self.digit(&other, digit);
            }
        }
    }

    /// Plays a tone to the far end of a channel until something else is played.
    pub fn play(&mut self, id: &str, mut tone: Tone) {
        self.stop_tone(id);
        let Some(channel) = self.channels.get_mut(id) else { return };
        let stop = channel.ended.child_token();
        channel.tone = Some(stop.clone());
        let (switch, id) = (self.switch(), id.to_owned());
        self.spawn(async move {
            let mut ticks = interval(FRAME);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    _ = ticks.tick() => {}
                }
                let frame = Frame::linear(8_000, tone.frame());
                switch.with(|state| {
                    if !stop.is_cancelled() {
                        state.write(&id, &frame);
                    }
                });
            }
        });
    }

    pub fn stop_tone(&mut self, id: &str) {
        let tone = self.channels.get_mut(id).and_then(|channel| channel.tone.take());
        if let Some(tone) = tone {
            tone.cancel();
        }
    }

    /// Puts a caller's call on hold, or takes it off.
    pub fn holds(&mut self, id: &str, held: bool) {
        let Some(channel) = self.channels.get_mut(id) else { return };
        channel.held = held;
        self.tell_of(id, if held { "ChannelHold" } else { "ChannelUnhold" }, json!({}));
    }
}
