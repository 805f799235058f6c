//! Bridges: who hears whom.

use super::state::{Bridge, State};
use serde_json::{Value, json};

impl State {
    /// `false`: there is one of this id.
    pub fn make_bridge(&mut self, id: &str, app: Option<&str>) -> bool {
        if self.bridges.contains_key(id) {
            return false;
        }
        let app = app.map(str::to_owned);
        self.bridges.insert(id.to_owned(), Bridge { members: Vec::new(), app: app.clone() });
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
        assert!(members.len() <= 2, "more than two in a bridge: mixing is not emulated");
        if let Some(channel) = self.channels.get_mut(id) {
            channel.bridge = Some(bridge.to_owned());
        }
        self.tell_of(id, "ChannelEnteredBridge", json!({ "bridge": self.bridge_json(bridge) }));
    }

    pub fn leave_bridge(&mut self, id: &str) {
        let Some(bridge) = self.channels.get_mut(id).and_then(|channel| channel.bridge.take()) else { return };
        if let Some(bridge) = self.bridges.get_mut(&bridge) {
            bridge.members.retain(|member| member != id);
        }
        self.tell_of(id, "ChannelLeftBridge", json!({ "bridge": self.bridge_json(&bridge) }));
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
