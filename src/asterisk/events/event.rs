//! ARI events as Asterisk writes them, read leniently: whatever is not needed may be missing, and
//! an unknown type is [`Event::Other`].

use serde::Deserialize;
use std::collections::BTreeMap;

/// The events that matter to a call.
///
/// Source: <https://docs.asterisk.org/Latest_API/API_Documentation/Asterisk_REST_Interface/Asterisk_REST_Data_Models/>.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    StasisStart(Box<Started>),
    /// The channel left Stasis. For a caller who came by the dialplan this is the last event.
    StasisEnd {
        channel: String,
    },
    /// The channel is no more. Comes for channels the application made itself.
    ChannelDestroyed {
        channel: String,
        /// Q.850.
        cause: Option<u32>,
    },
    /// A channel that we called rings at the far end.
    Ringing {
        channel: String,
    },
    /// A channel is answered.
    Answered {
        channel: String,
    },
    /// It is busy. A Local channel's own end does not tell that.
    Busy {
        channel: String,
    },
    /// Somebody whom the dialplan called for this channel has answered.
    DialAnswered {
        channel: String,
    },
    /// A channel that we called is forwarded by its far end: Asterisk calls another one in its place.
    Forwarded {
        channel: String,
        to: String,
    },
    /// The far end wants to hang up, or somebody hung up the channel; its end follows.
    ChannelHangupRequest {
        channel: String,
        /// Asterisk ends the channel by itself, as where the dialplan does; not the far end.
        soft: bool,
    },
    /// One key, told when it is let go.
    ChannelDtmfReceived {
        channel: String,
        digit: char,
    },
    /// The far end put the channel on hold, or took it off. Comes while it is bridged, too.
    ChannelHeld {
        channel: String,
        held: bool,
    },
    /// Asterisk has learnt who is at the far end, or that it is somebody else.
    CallerIdChanged {
        channel: String,
    },
    /// Another connection has taken our application; this one will hear nothing more.
    ApplicationReplaced,
    Other,
}

/// Kinds of events that matter to a call: labels of a metric. Named as Asterisk names them; several events tell of ringing and of a busy
/// telephone; a forwarding and the answer of somebody whom the dialplan called are told by `Dial`, an answer by `ChannelStateChange`.
pub(crate) const EVENTS: [&str; 13] = [
    "Answered",
    "ApplicationReplaced",
    "Busy",
    "ChannelDestroyed",
    "ChannelDtmfReceived",
    "ChannelHangupRequest",
    "ChannelHold",
    "ChannelUnhold",
    "DialAnswered",
    "Forwarded",
    "Ringing",
    "StasisEnd",
    "StasisStart",
];

/// A channel entered Stasis.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Started {
    pub channel: String,
    pub args: Vec<String>,
    pub caller_name: Option<String>,
    pub caller_number: Option<String>,
    pub dialled: Option<String>,
    /// The context of the dialplan that the channel came from.
    pub place: Option<String>,
    pub answered: bool,
    /// It calls out, and nobody has answered yet.
    pub unanswered: bool,
    pub variables: BTreeMap<String, String>,
    /// It took this channel's place: a blind transfer, or a Local channel that was optimised away.
    pub replaces: Option<String>,
}

/// The event has no place for what its type needs, or is no JSON object at all. It quotes nothing:
/// events hold callers' numbers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type")]
    kind: String,
    channel: Option<RawChannel>,
    args: Option<Vec<String>>,
    digit: Option<String>,
    cause: Option<u32>,
    /// Mark of a `ChannelHangupRequest` that Asterisk makes itself.
    soft: Option<bool>,
    /// Channel of the dialplan that calls, of `Dial`; an application that calls has none.
    caller: Option<RawChannel>,
    /// Called channel of `Dial`.
    peer: Option<RawChannel>,
    /// Channel of `Dial` that is called in the place of `peer`.
    forwarded: Option<RawChannel>,
    dialstatus: Option<String>,
    replace_channel: Option<RawChannel>,
}

#[derive(Deserialize)]
struct RawChannel {
    id: String,
    state: Option<String>,
    caller: Option<RawParty>,
    dialplan: Option<RawPlace>,
    channelvars: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Deserialize)]
struct RawParty {
    name: Option<String>,
    number: Option<String>,
}

#[derive(Deserialize)]
struct RawPlace {
    context: Option<String>,
    exten: Option<String>,
}

impl Event {
    /// One of [`EVENTS`]; `None` for what does not matter to a call.
    pub(super) const fn kind(&self) -> Option<&'static str> {
        Some(match self {
            Self::StasisStart(_) => "StasisStart",
            Self::StasisEnd { .. } => "StasisEnd",
            Self::ChannelDestroyed { .. } => "ChannelDestroyed",
            Self::Ringing { .. } => "Ringing",
            Self::Answered { .. } => "Answered",
            Self::Busy { .. } => "Busy",
            Self::DialAnswered { .. } => "DialAnswered",
            Self::Forwarded { .. } => "Forwarded",
            Self::ChannelHangupRequest { .. } => "ChannelHangupRequest",
            Self::ChannelDtmfReceived { .. } => "ChannelDtmfReceived",
            Self::ChannelHeld { held: true, .. } => "ChannelHold",
            Self::ChannelHeld { held: false, .. } => "ChannelUnhold",
            Self::ApplicationReplaced => "ApplicationReplaced",
            // Not all calls have such a one, nor do all of those that were transferred.
            Self::CallerIdChanged { .. } | Self::Other => return None,
        })
    }

    /// The channel that it is about, but for the application's own.
    pub(super) fn channel_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::StasisStart(started) => Some(&mut started.channel),
            Self::StasisEnd { channel }
            | Self::ChannelDestroyed { channel, .. }
            | Self::Ringing { channel }
            | Self::Answered { channel }
            | Self::Busy { channel }
            | Self::DialAnswered { channel }
            | Self::Forwarded { channel, .. }
            | Self::ChannelHangupRequest { channel, .. }
            | Self::ChannelDtmfReceived { channel, .. }
            | Self::CallerIdChanged { channel }
            | Self::ChannelHeld { channel, .. } => Some(channel),
            Self::ApplicationReplaced | Self::Other => None,
        }
    }

    pub(super) fn read(text: &str) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(rename = "type", borrow)]
            kind: std::borrow::Cow<'a, str>,
        }
        // The type first: an event that does not matter may look as it likes.
        let kind = serde_json::from_str::<Kind<'_>>(text).map_err(|_| Malformed)?.kind;
        if !matches!(
            &*kind,
            "StasisStart"
                | "StasisEnd"
                | "ChannelDestroyed"
                | "ChannelHangupRequest"
                | "ChannelDtmfReceived"
                | "ChannelStateChange"
                | "ChannelHold"
                | "ChannelUnhold"
                | "ChannelCallerId"
                | "Dial"
                | "ApplicationReplaced"
        ) {
            return Ok(Self::Other);
        }
        serde_json::from_str::<Raw>(text).map_err(|_| Malformed)?.typed()
    }
}

impl Raw {
    fn typed(self) -> Result<Event, Malformed> {
        if self.kind == "ApplicationReplaced" {
            return Ok(Event::ApplicationReplaced);
        }
        if self.kind == "Dial" {
            let Some(peer) = self.peer.filter(|peer| !peer.id.is_empty()) else { return Ok(Event::Other) };
            if let Some(to) = self.forwarded.filter(|to| !to.id.is_empty()) {
                return Ok(Event::Forwarded { channel: peer.id, to: to.id });
            }
            let caller = self.caller.filter(|caller| !caller.id.is_empty());
            return Ok(match (self.dialstatus.as_deref(), caller) {
                (Some("ANSWER"), Some(caller)) => Event::DialAnswered { channel: caller.id },
                (Some("RINGING" | "PROGRESS"), _) => Event::Ringing { channel: peer.id },
                (Some("BUSY"), _) => Event::Busy { channel: peer.id },
                _ => Event::Other,
            });
        }
        let replaces = self.replace_channel.map(|channel| channel.id);
        let channel = self.channel.filter(|channel| !channel.id.is_empty()).ok_or(Malformed)?;
        Ok(match &*self.kind {
            "StasisStart" => {
                let started = started(channel, self.args.unwrap_or_default());
                Event::StasisStart(Box::new(Started { replaces, ..started }))
            }
            "StasisEnd" => Event::StasisEnd { channel: channel.id },
            "ChannelDestroyed" => Event::ChannelDestroyed { channel: channel.id, cause: self.cause },
            "ChannelStateChange" if channel.state.as_deref() == Some("Ringing") => {
                Event::Ringing { channel: channel.id }
            }
            "ChannelStateChange" if channel.state.as_deref() == Some("Up") => Event::Answered { channel: channel.id },
            "ChannelHangupRequest" => {
                Event::ChannelHangupRequest { channel: channel.id, soft: self.soft.unwrap_or_default() }
            }
            "ChannelCallerId" => Event::CallerIdChanged { channel: channel.id },
            "ChannelHold" | "ChannelUnhold" => {
                Event::ChannelHeld { channel: channel.id, held: self.kind == "ChannelHold" }
            }
            "ChannelDtmfReceived" => {
                let digit = self.digit.and_then(|digit| digit.chars().next()).ok_or(Malformed)?;
                Event::ChannelDtmfReceived { channel: channel.id, digit }
            }
            _ => Event::Other,
        })
    }
}

fn started(channel: RawChannel, args: Vec<String>) -> Started {
    let said = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (name, number) = channel.caller.map_or((None, None), |caller| (caller.name, caller.number));
    let variables = channel.channelvars.unwrap_or_default();
    let (context, exten) = channel.dialplan.map_or((None, None), |place| (place.context, place.exten));
    Started {
        channel: channel.id,
        args,
        caller_name: said(name),
        caller_number: said(number),
        dialled: said(exten),
        place: said(context),
        answered: channel.state.as_deref() == Some("Up"),
        // A channel that calls in is `Ring`.
        unanswered: matches!(channel.state.as_deref(), Some("Down" | "Dialing" | "Ringing")),
        variables: variables.into_iter().filter_map(|(name, value)| Some((name, said(value)?))).collect(),
        replaces: None,
    }
}

/// Any text as an event: whoever is named has a name, and nothing is longer than the event.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let channel = match Event::read(&text) {
        Ok(Event::StasisStart(start)) => {
            let told: usize = start.variables.iter().map(|(name, value)| name.len() + value.len()).sum();
            assert!(told + start.args.iter().map(String::len).sum::<usize>() <= 3 * text.len());
            assert!(start.variables.values().all(|value| !value.is_empty()), "an empty variable counts as set");
            start.channel
        }
        Ok(
            Event::StasisEnd { channel }
            | Event::ChannelDestroyed { channel, .. }
            | Event::Ringing { channel }
            | Event::Busy { channel }
            | Event::DialAnswered { channel }
            | Event::Answered { channel }
            | Event::Forwarded { channel, .. }
            | Event::ChannelHangupRequest { channel, .. }
            | Event::ChannelHeld { channel, .. }
            | Event::CallerIdChanged { channel }
            | Event::ChannelDtmfReceived { channel, .. },
        ) => channel,
        Ok(Event::ApplicationReplaced | Event::Other) | Err(Malformed) => return,
    };
    assert!(!channel.is_empty(), "a channel without a name");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Asterisk 22.10 sent it.
    const START: &str = r#"{"type":"StasisStart","timestamp":"2026-08-01T08:28:29.376+0000","args":["sales"],
        "channel":{"id":"1795163309.6","name":"PJSIP/anonymous-00000006","state":"Ring","protocol_id":"x",
        "caller":{"name":"Alice A","number":"1234"},"connected":{"name":"","number":""},"accountcode":"",
        "dialplan":{"context":"from-test","exten":"200","priority":4,"app_name":"Stasis","app_data":"offhook,sales"},
        "channelvars":{"AI_CONTEXT":"support","AI_AUDIO":""},"creationtime":"2026-08-01T08:28:29.375+0000",
        "language":"en"},"application":"offhook"}"#;

    #[test]
    fn a_start_tells_who_called_whom_and_with_what() {
        let Ok(Event::StasisStart(start)) = Event::read(START) else { panic!("not a StasisStart") };
        assert_eq!(start.channel, "1795163309.6");
        assert_eq!(start.args, ["sales"]);
        assert_eq!(start.caller_name.as_deref(), Some("Alice A"));
        assert_eq!(start.caller_number.as_deref(), Some("1234"));
        assert_eq!(start.dialled.as_deref(), Some("200"));
        assert_eq!(start.place.as_deref(), Some("from-test"));
        assert!(!start.answered);
        assert_eq!(start.variables, BTreeMap::from([("AI_CONTEXT".into(), "support".into())]));
    }

    /// As Asterisk 22.10 sent it.
    #[test]
    fn a_forwarding_tells_which_channel_is_called_instead() {
        let text = r#"{"type":"Dial","peer":{"id":"offhook-x-dial0-1","state":"Down"},"dialstatus":"CANCEL","forward":"820402",
            "forwarded":{"id":"1795163309.8","name":"Local/820402@office-00000000;1","state":"Down"},"dialstring":""}"#;
        let forwarded = Event::Forwarded { channel: "offhook-x-dial0-1".into(), to: "1795163309.8".into() };
        assert_eq!(Event::read(text), Ok(forwarded));
    }

    #[test]
    fn an_answer_to_the_dialplan_s_dial_is_told_of_who_calls() {
        let text = r#"{"type":"Dial","caller":{"id":"1795163309.6","state":"Up"},"peer":{"id":"1795163309.9","state":"Up"},
            "dialstatus":"ANSWER","dialstring":"anonymous"}"#;
        assert_eq!(Event::read(text), Ok(Event::DialAnswered { channel: "1795163309.6".into() }));
    }

    #[test]
    fn a_start_may_leave_out_all_but_the_channel_s_id() {
        let start = Event::read(r#"{"type":"StasisStart","channel":{"id":"1.1"}}"#);
        assert_eq!(start, Ok(Event::StasisStart(Box::new(Started { channel: "1.1".into(), ..Started::default() }))));
    }

    #[test]
    fn unknown_types_are_other_however_they_look() {
        for text in [
            r#"{"type":"Dial"}"#,
            r#"{"type":"ChannelStateChange","channel":{"id":"1.1","state":"Dialing"}}"#,
            r#"{"type":"News","channel":7}"#,
        ] {
            assert_eq!(Event::read(text), Ok(Event::Other), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_malformed() {
        for text in [
            "",
            "null",
            "[]",
            "{",
            "{}",
            r#"{"type":7}"#,
            r#"{"type":"StasisEnd"}"#,
            r#"{"type":"StasisEnd","channel":{"id":""}}"#,
            r#"{"type":"StasisEnd","channel":{"id":6}}"#,
            r#"{"type":"ChannelDtmfReceived","channel":{"id":"1.1"},"digit":""}"#,
        ] {
            assert_eq!(Event::read(text), Err(Malformed), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_reading_panic(text in "\\PC{0,200}") {
            let _ = Event::read(&text);
        }
    }
}
