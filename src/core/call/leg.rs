//! The vocabulary of the Asterisk side: what the core tells a leg, and what a leg reports.

use super::record::TransferTarget;
use crate::{facts::Party, sentences::Sentence};
use bytes::Bytes;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub enum LegCommand {
    /// One 20 ms frame for the caller. It leaves at once, and what was sent is what is heard: neither
    /// AudioSocket nor RTP has a buffer in Asterisk, and of a WebSocket's [`LegEvent::Waits`] tells.
    Play(Bytes),
    /// What was played so far is not wanted any more: whatever a buffer still holds of it is thrown away.
    Flush,
    /// The agent has something to say: answer the caller, who hears ringing so far.
    Answer,
    /// End the caller's channel.
    HangUp,
    /// Give the caller back to the dialplan at the place where it handed over, with
    /// `OFFHOOK_STATUS` set to this value.
    ReturnToDialplan { status: &'static str },
    /// Connect the caller with the configured destination of this name: a place in the dialplan, or
    /// endpoints that are rung.
    Transfer { destination: String },
    /// Send the caller to the configured mailbox of this name.
    Voicemail { mailbox: String },
    /// Press these keys for the caller's end to hear: keys that [`are_keys`].
    SendDigits { digits: String },
}

impl From<TransferTarget> for LegCommand {
    fn from(target: TransferTarget) -> Self {
        match target {
            TransferTarget::Destination(destination) => Self::Transfer { destination },
            TransferTarget::Mailbox(mailbox) => Self::Voicemail { mailbox },
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum LegEvent {
    /// The caller is answered and audio can flow both ways.
    Up,
    /// 20 ms (or what Asterisk sent as one packet) of the caller.
    Audio(Bytes),
    /// So much of what was played waits in Asterisk, and a [`LegCommand::Flush`] throws it away.
    Waits(Duration),
    /// The last of what was played, as much as this, was thrown away: Asterisk was too far behind.
    ThrownAway(Duration),
    /// The caller pressed a key.
    Digit(char),
    /// The caller's phone has put the call on hold, or has taken it up again.
    Held(bool),
    /// Another party has taken the caller's place, by a transfer of a telephone. While its own telephone rings, the call is on hold.
    PartyChanged(Party),
    /// Asterisk has learnt more of who that party is.
    PartyKnown(Party),
    /// The caller hung up, or their channel ended for another reason than our command.
    CallerLeft,
    /// The caller's channel ended because the time that the dialplan allows it is over.
    TimedOut,
    /// The caller says no more and wants nothing more, and still hears: what is under way is brought to its end.
    CallerDone,
    /// The caller's channel was gone when the control connection came back; nobody saw why.
    CallerVanished,
    /// The audio path broke while the call stood.
    MediaLost,
    /// The audio path broke, and another one has taken its place: what was said meanwhile was not heard. Why is a label.
    PathReplaced { why: &'static str },
    /// The destination's endpoints are being called; what becomes of it is told within `limit`.
    Dialling { limit: Duration },
    /// One of them rings.
    Ringing,
    /// The channel was handed on: the transfer is under way and offhook is out of the call.
    Transferred,
    /// The transfer, or the way to the mailbox, did not come about; the caller is still here.
    TransferFailed(TransferFault),
    /// The call could not be set up; everything done so far has been undone.
    SetupFailed(SetupStep),
}

/// The step of a call's set-up that failed. A closed set: it is part of the end reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetupStep {
    Answer,
    /// No local socket for the media (port range used up).
    MediaSocket,
    /// Asterisk refused the media channel.
    MediaChannel,
    /// Asterisk made the media channel, but its audio did not arrive in time.
    MediaConnect,
    Bridge,
}

impl SetupStep {
    pub const ALL: [Self; 5] = [Self::Answer, Self::MediaSocket, Self::MediaChannel, Self::MediaConnect, Self::Bridge];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::MediaSocket => "media_socket",
            Self::MediaChannel => "media_channel",
            Self::MediaConnect => "media_connect",
            Self::Bridge => "bridge",
        }
    }
}

/// Why nobody took the caller over. A closed set: it is told to the agent and logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferFault {
    NoAnswer,
    Busy,
    Refused,
    /// No such place, endpoint or mailbox, or none that could be reached.
    Unreachable,
}

impl TransferFault {
    pub const ALL: [Self; 4] = [Self::NoAnswer, Self::Busy, Self::Refused, Self::Unreachable];

    /// Reason behind the Q.850 cause with which a place of the dialplan hangs up on a caller.
    pub const fn of_cause(cause: u32) -> Self {
        match cause {
            17 => Self::Busy,
            18 | 19 => Self::NoAnswer,
            21 => Self::Refused,
            _ => Self::Unreachable,
        }
    }

    pub const fn label(self) -> &'static str {
        match self {
            Self::NoAnswer => "no_answer",
            Self::Busy => "busy",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }

    /// Sentence for a caller who is with the agent again.
    pub const fn sentence(self) -> Sentence {
        match self {
            Self::NoAnswer => Sentence::TransferNoAnswer,
            Self::Busy => Sentence::TransferBusy,
            Self::Refused => Sentence::TransferRefused,
            Self::Unreachable => Sentence::TransferUnreachable,
        }
    }

    /// For the log.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::NoAnswer => "nobody answered",
            Self::Busy => "the line is busy",
            Self::Refused => "the call was not accepted",
            Self::Unreachable => "the destination cannot be reached",
        }
    }
}

/// Keys sent at once: a card number with pauses fits; more would hold the line for seconds.
pub const KEYS_MAX: usize = 32;

/// Whether these can be sent: 1 to [`KEYS_MAX`] of `0`–`9`, `*`, `#`, `A`–`D`, and `w`, a pause of
/// half a second; at least one of them a key.
pub fn are_keys(digits: &str) -> bool {
    let is_key = |c: char| matches!(c, '0'..='9' | '*' | '#' | 'A'..='D');
    digits.chars().count() <= KEYS_MAX && digits.chars().all(|c| is_key(c) || c == 'w') && digits.chars().any(is_key)
}

/// What a leg can do; the core and `offhook check` branch on these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegTraits {
    /// The channel is under ARI control, so a transfer is possible.
    pub transfers: bool,
}
