//! The ids offhook gives to what it makes in Asterisk.

use crate::facts::CallId;
use std::sync::Arc;
use uuid::Uuid;

/// Makes and recognises the ids of this engine's media channels and bridges:
/// `offhook-<app>-media-<call>` (`media<number>` where it replaces one that broke), `offhook-<app>-bridge-<call>`, and for
/// a transfer
/// `offhook-<app>-dial<number>-<call>` and `offhook-<app>-pair-<call>`.
///
/// The application's name is part of them, so that two engines with different applications may
/// share one Asterisk without clearing away each other's calls. The last part must be exactly a
/// UUID, so `a` does not take an id of the application `a-media` for its own.
#[derive(Debug, Clone)]
pub struct Names {
    app: Arc<str>,
}

impl Names {
    pub fn new(app: &str) -> Self {
        Self { app: app.into() }
    }

    pub fn app(&self) -> &str {
        &self.app
    }

    pub fn media_channel(&self, call: CallId) -> String {
        format!("offhook-{}-media-{call}", self.app)
    }

    /// The `number`th media channel (from 1) that takes the place of one that broke.
    pub fn next_media_channel(&self, call: CallId, number: usize) -> String {
        format!("offhook-{}-media{number}-{call}", self.app)
    }

    pub fn bridge(&self, call: CallId) -> String {
        format!("offhook-{}-bridge-{call}", self.app)
    }

    /// The channel of the `number`th endpoint that is called for a call.
    pub fn dialled_channel(&self, call: CallId, number: usize) -> String {
        format!("offhook-{}-dial{number}-{call}", self.app)
    }

    /// The bridge of a caller and whoever took them over.
    pub fn pair_bridge(&self, call: CallId) -> String {
        format!("offhook-{}-pair-{call}", self.app)
    }

    /// The call whose media channel has this id; `None` for every channel that is not ours.
    pub fn call_of_media(&self, channel: &str) -> Option<CallId> {
        self.call_of(channel, "media").or_else(|| self.call_of_numbered(channel, "media"))
    }

    /// The call whose bridge has this id; `None` for every bridge that is not ours.
    pub fn call_of_bridge(&self, bridge: &str) -> Option<CallId> {
        self.call_of(bridge, "bridge")
    }

    /// The call for which this channel was called.
    pub fn call_of_dialled(&self, channel: &str) -> Option<CallId> {
        self.call_of_numbered(channel, "dial")
    }

    /// The call whose caller was handed on in this bridge.
    pub fn call_of_pair(&self, bridge: &str) -> Option<CallId> {
        self.call_of(bridge, "pair")
    }

    /// Whether offhook made this channel.
    pub fn is_ours(&self, channel: &str) -> bool {
        self.call_of_media(channel).or_else(|| self.call_of_dialled(channel)).is_some()
    }

    fn call_of_numbered(&self, id: &str, kind: &str) -> Option<CallId> {
        let rest = id.strip_prefix("offhook-")?.strip_prefix(&*self.app)?.strip_prefix('-')?.strip_prefix(kind)?;
        let (number, _) = rest.split_once('-')?;
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| self.call_of(id, &format!("{kind}{number}"))).flatten()
    }

    fn call_of(&self, id: &str, kind: &str) -> Option<CallId> {
        let call = id.strip_prefix("offhook-")?.strip_prefix(&*self.app)?.strip_prefix('-')?;
        let call = call.strip_prefix(kind)?.strip_prefix('-')?;
        // The hyphenated form only: `Uuid` reads others too, which offhook never writes.
        let hyphenated = call.len() == uuid::fmt::Hyphenated::LENGTH;
        hyphenated.then(|| Uuid::parse_str(call).ok()).flatten().map(CallId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_knows_its_own_ids() {
        let (names, call) = (Names::new("offhook"), CallId::random());
        assert_eq!(names.call_of_media(&names.media_channel(call)), Some(call));
        assert_eq!(names.call_of_media(&names.next_media_channel(call, 3)), Some(call));
        assert_eq!(names.call_of_bridge(&names.bridge(call)), Some(call));
        assert_eq!(names.call_of_bridge(&names.media_channel(call)), None);
        assert_eq!(names.call_of_dialled(&names.dialled_channel(call, 12)), Some(call));
        assert_eq!(names.call_of_pair(&names.pair_bridge(call)), Some(call));
        assert!(names.is_ours(&names.dialled_channel(call, 0)) && !names.is_ours("1795163309.6"));
    }

    #[test]
    fn another_application_s_ids_and_callers_channels_are_not_ours() {
        let (short, long, call) = (Names::new("a"), Names::new("a-media"), CallId::random());
        assert_eq!(short.call_of_media(&long.media_channel(call)), None);
        assert_eq!(long.call_of_media(&short.media_channel(call)), None);
        for id in ["1795163309.6", "offhook-a-media-", "offhook-a-media-1", ""] {
            assert_eq!(short.call_of_media(id), None, "{id}");
        }
    }
}
