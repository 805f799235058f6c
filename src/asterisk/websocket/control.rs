//! chan_websocket's control messages: JSON text between the audio, asked for by `f(json)`.
//!
//! Source: <https://docs.asterisk.org/Configuration/Channel-Drivers/WebSocket/>.

use serde::Deserialize;

/// Of Asterisk's own words about a fault, as much as fits a log line.
pub(super) const WORDS_MAX: usize = 200;

/// What Asterisk says. Fields that are not needed are not read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "event")]
pub enum Event {
    /// The first message of every connection.
    #[serde(rename = "MEDIA_START")]
    Start {
        /// The channel's id, which we chose ourselves.
        channel_id: String,
        format: String,
        /// Bytes of one frame in Asterisk's queue. What a message has beyond whole frames is thrown away.
        optimal_frame_size: usize,
    },
    /// The queue has 900 frames, which are 18 s; beyond 1000 they are thrown away.
    #[serde(rename = "MEDIA_XOFF")]
    Xoff,
    /// The queue has fewer than 800 frames again.
    #[serde(rename = "MEDIA_XON")]
    Xon,
    /// The answer to [`GET_STATUS`].
    #[serde(rename = "STATUS")]
    Status {
        /// Frames that wait to be played.
        queue_length: u32,
    },
    /// A key was released.
    #[serde(rename = "DTMF_END")]
    Digit { digit: char },
    /// A command could not be carried out.
    #[serde(rename = "ERROR")]
    Error { error_text: String },
    /// Newer than this version, or what nobody asked for (marks, drained queues).
    #[serde(other)]
    Unknown,
}

/// Not JSON, not an event, or an event without what belongs to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

impl Event {
    pub fn read(text: &str) -> Result<Self, Malformed> {
        let event = serde_json::from_str(text).map_err(|_| Malformed)?;
        Ok(match event {
            Self::Error { error_text } => Self::Error { error_text: error_text.chars().take(WORDS_MAX).collect() },
            event => event,
        })
    }
}

/// Asks for [`Event::Status`]. Asterisk ignores commands of more than 128 bytes.
pub const GET_STATUS: &str = r#"{"command":"GET_STATUS"}"#;
/// Empties the queue, at once.
pub const FLUSH: &str = r#"{"command":"FLUSH_MEDIA"}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asterisk_says_is_read_and_what_is_not_needed_is_left_out() {
        let started = Event::read(
            r#"{"event":"MEDIA_START","connection_id":"f0","channel":"WebSocket/INCOMING/0x7f","channel_id":"offhook-media-1",
                "format":"slin16","optimal_frame_size":640,"ptime":20,"channel_variables":{"A":"b"}}"#,
        );
        let (channel_id, format) = ("offhook-media-1".into(), "slin16".into());
        assert_eq!(started, Ok(Event::Start { channel_id, format, optimal_frame_size: 640 }));
        let cases = [
            (r#"{"event":"MEDIA_XOFF","channel_id":"c"}"#, Event::Xoff),
            (r#"{"event":"MEDIA_XON","channel_id":"c"}"#, Event::Xon),
            (
                r#"{"event":"STATUS","channel_id":"c","queue_length":7,"xon_level":800,"xoff_level":900,"queue_full":false,
                    "bulk_media":false,"media_paused":false}"#,
                Event::Status { queue_length: 7 },
            ),
            (r##"{"event":"DTMF_END","channel_id":"c","digit":"#"}"##, Event::Digit { digit: '#' }),
            (r#"{"event":"MEDIA_MARK_PROCESSED","channel_id":"c","correlation_id":"a1"}"#, Event::Unknown),
            (r#"{"event":"QUEUE_DRAINED","channel_id":"c"}"#, Event::Unknown),
            (r#"{"event":"FROM_THE_FUTURE","queue_length":-1}"#, Event::Unknown),
        ];
        for (text, event) in cases {
            assert_eq!(Event::read(text), Ok(event), "{text}");
        }
    }

    #[test]
    fn what_is_no_event_is_malformed() {
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "MEDIA_XOFF",
            "{",
            "[]",
            "null",
            "{}",
            r#"{"event":7}"#,
            r#"{"event":"DTMF_END"}"#,
            r#"{"event":"DTMF_END","digit":""}"#,
            r#"{"event":"DTMF_END","digit":"12"}"#,
            r#"{"event":"STATUS","queue_length":-1}"#,
            r#"{"event":"STATUS","queue_length":99999999999}"#,
            r#"{"event":"MEDIA_START","channel_id":"c"}"#,
            &deep,
        ] {
            assert_eq!(Event::read(text), Err(Malformed), "{text:.40}");
        }
    }

    #[test]
    fn the_words_of_a_fault_fit_a_line() {
        let long = format!(r#"{{"event":"ERROR","error_text":"{}"}}"#, "é".repeat(10_000));
        let Ok(Event::Error { error_text }) = Event::read(&long) else { panic!("an error") };
        assert_eq!(error_text.chars().count(), WORDS_MAX);
    }

    #[test]
    fn commands_are_short_enough_for_asterisk() {
        for command in [GET_STATUS, FLUSH] {
            assert!(command.len() <= 128 && serde_json::from_str::<serde_json::Value>(command).is_ok(), "{command}");
        }
    }
}
