//! The ids offhook gives to what it makes in Asterisk.

use super::identities::Identities;
use crate::{facts::CallId, redact::Redacted};
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
///
/// A leg that we dial is known by its arguments of Stasis, too: Asterisk gives it another id where it is forwarded or picked up.
/// The arguments end with a secret of this process, so that nobody's dialplan can write them.
#[derive(Debug, Clone)]
pub struct Names {
    app: Arc<str>,
    secret: Redacted<Uuid>,
    identities: Identities,
}

/// First argument of Stasis of every leg that offhook dials.
const DIALLED: &str = "offhook-dialled";

/// A leg that says by its arguments that offhook dialled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialledLeg {
    /// The leg of this engine for the `number`th endpoint of a call.
    Ours { call: CallId, number: usize },
    /// The secret is another one's: an earlier process dialled it, or somebody pretends to.
    Unknown,
}

impl Names {
    pub fn new(app: &str) -> Self {
        Self { app: app.into(), secret: Uuid::new_v4().into(), identities: Identities::default() }
    }

    pub fn app(&self) -> &str {
        &self.app
    }

    /// Which channels stand for callers' ids.
    pub fn identities(&self) -> &Identities {
        &self.identities
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

    /// Arguments of Stasis, separated by commas, of that channel and of each that takes its place.
    pub fn dialled_arguments(&self, call: CallId, number: usize) -> Redacted<String> {
        format!("{DIALLED},{call},{number},{}", self.secret.reveal()).into()
    }

    /// The leg that has these arguments; `None` for every channel that offhook did not dial.
    pub fn dialled_leg(&self, arguments: &[String]) -> Option<DialledLeg> {
        let (first, rest) = arguments.split_first()?;
        (first == DIALLED).then(|| self.read_leg(rest).unwrap_or(DialledLeg::Unknown))
    }

    fn read_leg(&self, arguments: &[String]) -> Option<DialledLeg> {
        let [call, number, secret] = arguments else { return None };
        let is_ours = Uuid::parse_str(secret).is_ok_and(|secret| secret == *self.secret.reveal());
        let (call, number) = (CallId(Uuid::parse_str(call).ok()?), number.parse().ok()?);
        is_ours.then_some(DialledLeg::Ours { call, number })
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
    fn a_leg_that_was_dialled_is_known_by_arguments_that_nobody_else_can_write() {
        let (names, call) = (Names::new("offhook"), CallId::random());
        let read = |text: &str| names.dialled_leg(&text.split(',').map(str::to_owned).collect::<Vec<_>>());
        let arguments = names.dialled_arguments(call, 12);
        let arguments = arguments.reveal();
        assert_eq!(read(arguments), Some(DialledLeg::Ours { call, number: 12 }));
        assert_eq!(
            Names::new("offhook").dialled_leg(&arguments.split(',').map(str::to_owned).collect::<Vec<_>>()),
            Some(DialledLeg::Unknown)
        );
        for forged in
            ["offhook-dialled".to_owned(), format!("{arguments},1"), format!("offhook-dialled,{call},12,{call}")]
        {
            assert_eq!(read(&forged), Some(DialledLeg::Unknown), "{forged}");
        }
        for other in ["", "dialled", "sales"] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(names.dialled_leg(&[]), None);
        assert!(!format!("{names:?}").contains(&names.secret.reveal().to_string()));
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
