//! The vocabulary of the Asterisk side: what the core tells a leg, and what a leg reports.

use bytes::Bytes;

#[derive(Debug, Clone, PartialEq)]
pub enum LegCommand {
    /// One 20 ms frame for the caller. It leaves at once: neither AudioSocket nor RTP has a buffer
    /// in Asterisk, so what was sent is what is heard.
    Play(Bytes),
    /// End the caller's channel.
    HangUp,
    /// Give the caller back to the dialplan at the place where it handed over, with
    /// `OFFHOOK_STATUS` set to this value.
    ReturnToDialplan { status: &'static str },
    /// Let the caller hear ringing and send them to the configured destination of this name.
    Transfer { destination: String },
}

#[derive(Debug, Clone, PartialEq)]
pub enum LegEvent {
    /// The caller is answered and audio can flow both ways.
    Up,
    /// 20 ms (or what Asterisk sent as one packet) of the caller.
    Audio(Bytes),
    /// The caller pressed a key.
    Digit(char),
    /// The caller hung up, or their channel ended for another reason than our command.
    CallerLeft,
    /// The caller's channel was gone when the control connection came back; nobody saw why.
    CallerVanished,
    /// The audio path broke while the call stood.
    MediaLost,
    /// The channel was handed on: the transfer is under way and offhook is out of the call.
    Transferred,
    /// The transfer could not be started; the caller is still here.
    TransferFailed,
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

/// What a leg can do; the core and `offhook check` branch on these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegTraits {
    /// The channel is under ARI control, so a transfer is possible.
    pub transfers: bool,
}
