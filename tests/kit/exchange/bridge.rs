//! Bridges: who hears whom. Of two members each hears the other as it comes; of more, each hears all others by a clock of 20 ms.

use super::{
    frame::{Frame, Resampler, resampled},
    state::State,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, DropGuard};

const FRAME: Duration = Duration::from_millis(20);
const MIXED_RATE: u32 = 16_000;
const MIXED: usize = MIXED_RATE as usize / 50;
/// Samples queued of a member that sends faster than the mixer's clock.
const QUEUED_MAX: usize = 10 * MIXED;

#[derive(Default)]
pub struct Bridge {
    pub members: Vec<String>,
    /// The application that made it; `None`: `Dial()` did.
    pub app: Option<String>,
    mixing: Option<Mixing>,
}

/// A bridge of more than two.
struct Mixing {
    said: BTreeMap<String, Said>,
    _clock: DropGuard,
}

/// What a member has said and nobody has heard.
#[derive(Default)]
struct Said {
    resampler: Option<Resampler>,
    samples: VecDeque<i16>,
}

impl Bridge {
    /// Takes what a member says, where it is mixed.
    fn takes(&mut self, member: &str, frame: &Frame) -> bool {
        let Some(mixing) = &mut self.mixing else { return false };
        if let Frame::Linear { rate, samples } = frame {
            let said = mixing.said.entry(member.to_owned()).or_default();
            said.samples.extend(resampled(&mut said.resampler, samples, *rate, MIXED_RATE));
            let too_much = said.samples.len().saturating_sub(QUEUED_MAX);
            said.samples.drain(..too_much);
        }
        true
    }

    /// What each member hears in the next 20 ms.
    fn mixed(&mut self) -> Vec<(String, Vec<i16>)> {
        let Some(mixing) = &mut self.mixing else { return Vec::new() };
        let said: BTreeMap<&String, Vec<i16>> = mixing
            .said
            .iter_mut()
            .filter(|(_, said)| said.samples.len() >= MIXED)
            .map(|(member, said)| (member, said.samples.drain(..MIXED).collect()))
            .collect();
        let hears = |member: &String| {
            let others: Vec<_> =
                said.iter().filter(|(other, _)| **other != member).map(|(_, samples)| samples).collect();
            let sample = |at: usize| {
                let sum: i32 = others.iter().map(|samples| i32::from(samples[at])).sum();
                sum.clamp(i16::MIN.into(), i16::MAX.into()) as i16
            };
            (!others.is_empty()).then(|| (member.clone(), (0..MIXED).map(sample).collect()))
        };
        self.members.iter().filter_map(hears).collect()
    }
}

impl State {
    /// `false`: there is one of this id.
    pub fn make_bridge(&mut self, id: &str, app: Option<&str>) -> bool {
        if self.bridges.contains_key(id) {
            return false;
        }
        let app = app.map(str::to_owned);
        self.bridges.insert(id.to_owned(), Bridge { app: app.clone(), ..Bridge::default() });
        if let Some(app) = app {
            self.tell(&app, json!({ "type": "BridgeCreated", "bridge": self.bridge_json(id) }));
        }
        true
    }

    /// Its members are in no bridge afterwards. `false`: there is none.
    pub fn remove_bridge(&mut self, id: &str) -> bool {
        let Some(bridge) = self.bridges.get(id) else { return false };
        for member in bridge.members.clone() {
            self.leave_bridge(&member);
        }
        let described = self.bridge_json(id);
        if let Some(Bridge { app: Some(app), .. }) = self.bridges.remove(id) {
            self.tell(&app, json!({ "type": "BridgeDestroyed", "bridge": described }));
        }
        true
    }

    /// Out of the bridge where it is, into this one.
    pub fn join_bridge(&mut self, id: &str, bridge: &str) {
        if self.channels.get(id).is_none_or(|channel| channel.bridge.as_deref() == Some(bridge)) {
            return;
        }
        self.leave_bridge(id);
        let Some(members) = self.bridges.get_mut(bridge).map(|bridge| &mut bridge.members) else { return };
        members.push(id.to_owned());
        let is_mixed = members.len() > 2;
        if let Some(channel) = self.channels.get_mut(id) {
            channel.bridge = Some(bridge.to_owned());
        }
        if is_mixed {
            self.begin_to_mix(bridge);
        }
        self.tell_of(id, "ChannelEnteredBridge", json!({ "bridge": self.bridge_json(bridge) }));
    }

    pub fn leave_bridge(&mut self, id: &str) {
        let Some(bridge) = self.channels.get_mut(id).and_then(|channel| channel.bridge.take()) else { return };
        if let Some(bridge) = self.bridges.get_mut(&bridge) {
            bridge.members.retain(|member| member != id);
            match &mut bridge.mixing {
                Some(mixing) if bridge.members.len() > 2 => drop(mixing.said.remove(id)),
                mixing => *mixing = None,
            }
        }
        self.tell_of(id, "ChannelLeftBridge", json!({ "bridge": self.bridge_json(&bridge) }));
    }

    /// A member of a bridge says this.
    pub fn says_in_bridge(&mut self, id: &str, bridge: &str, frame: &Frame) {
        let Some(bridge) = self.bridges.get_mut(bridge) else { return };
        if bridge.takes(id, frame) {
            return;
        }
        for other in bridge.members.clone().iter().filter(|other| *other != id) {
            self.stop_tone(other);
            self.write(other, frame);
        }
    }

    fn begin_to_mix(&mut self, id: &str) {
        let Some(bridge) = self.bridges.get_mut(id).filter(|bridge| bridge.mixing.is_none()) else { return };
        let clock = CancellationToken::new();
        bridge.mixing = Some(Mixing { said: BTreeMap::new(), _clock: clock.clone().drop_guard() });
        let (switch, id) = (self.switch(), id.to_owned());
        self.spawn(async move {
            let mut ticks = interval(FRAME);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while clock.run_until_cancelled(ticks.tick()).await.is_some() {
                switch.with(|state| {
                    for (member, samples) in state.bridges.get_mut(&id).map(Bridge::mixed).unwrap_or_default() {
                        state.stop_tone(&member);
                        state.write(&member, &Frame::linear(MIXED_RATE, samples));
                    }
                });
            }
        });
    }

    pub fn bridge_json(&self, id: &str) -> Value {
        let bridge = self.bridges.get(id);
        let members = bridge.map(|bridge| bridge.members.clone()).unwrap_or_default();
        let technology = if members.len() > 2 { "softmix" } else { "simple_bridge" };
        json!({
            "id": id,
            "technology": technology,
            "bridge_type": "mixing",
            "bridge_class": if bridge.is_some_and(|bridge| bridge.app.is_some()) { "stasis" } else { "basic" },
            "creator": "Stasis",
            "name": "",
            "channels": members,
            "video_mode": "none",
        })
    }
}
