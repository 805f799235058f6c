//! What every media leg offers the call, whatever carries its bytes.

use crate::audio::Format;
use bytes::Bytes;
use std::time::Duration;

/// An open audio path to Asterisk for one call.
///
/// Until the first [`MediaSender::play`] the leg sends silence by itself every 20 ms; from then on
/// the call core's clock paces it, one frame per tick. A core that pauses for more than 60 ms is
/// stood in for with silence again, since an AudioSocket channel that hears nothing can go deaf. A
/// WebSocket needs neither.
///
/// Dropping the leg closes its socket at once; see [`MediaLeg::hang_up`] for the polite way.
pub struct MediaLeg {
    pub format: Format,
    pub sender: MediaSender,
    pub events: MediaEvents,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MediaEvent {
    /// What Asterisk sent as one packet, in the leg's format.
    Audio(Bytes),
    /// A key, from transports that carry keys themselves.
    Digit(char),
    /// So much of what was played waits in Asterisk, and is not heard after a [`MediaSender::flush`].
    Waits(Duration),
    /// The last of what was played, as much as this, was thrown away: Asterisk was too far behind.
    ThrownAway(Duration),
    /// The other side closed, or the path broke. The last event. RTP has no such moment.
    Closed,
    /// The other side does not keep to the protocol, and the leg was closed for it. The last event.
    Broken,
}

/// What the messages of a WebSocket leg are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// The leg's format itself.
    Plain,
    /// Packets of Opus, as the caller's phone makes and takes them.
    Opus,
    /// Opus was asked for, and the caller's phone does not speak it: the leg's format itself.
    NoOpus,
}

/// What comes from Asterisk. It is read only when it is asked for: what a slow call leaves stays in the socket, whose
/// buffers are bounded.
pub enum MediaEvents {
    AudioSocket(super::audiosocket::Receiver),
    /// Boxed: the order of its packets is a good deal to move about.
    Rtp(Box<super::rtp::Receiver>),
    WebSocket(super::websocket::Receiver),
}

impl MediaEvents {
    /// The next one; `None` after the last. May be dropped at any time without losing one.
    pub async fn next(&mut self) -> Option<MediaEvent> {
        match self {
            Self::AudioSocket(receiver) => receiver.next().await,
            Self::Rtp(receiver) => Some(receiver.next().await),
            Self::WebSocket(receiver) => receiver.next().await,
        }
    }
}

/// Sends frames towards the caller without ever waiting.
pub enum MediaSender {
    AudioSocket(super::audiosocket::Sender),
    Rtp(super::rtp::Sender),
    WebSocket(super::websocket::Sender),
}

impl MediaSender {
    /// Sends one 20 ms frame now. `false`: the socket would not take it; the frame is lost, and
    /// the leg has counted it.
    #[must_use]
    pub fn play(&mut self, frame: Bytes) -> bool {
        match self {
            Self::AudioSocket(sender) => sender.play(frame),
            Self::Rtp(sender) => sender.play(frame),
            Self::WebSocket(sender) => sender.play(frame),
        }
    }

    /// Has thrown away what was played and is not heard yet. Only a WebSocket has a buffer to hold any. `false`: it holds much,
    /// and lets go of nothing but with its channel.
    #[must_use]
    pub fn flush(&mut self) -> bool {
        match self {
            Self::AudioSocket(_) | Self::Rtp(_) => true,
            Self::WebSocket(sender) => sender.flush(),
        }
    }
}

impl MediaLeg {
    /// Ends the leg so that a dialplan which waits in `AudioSocket()` hangs up: Asterisk ends the
    /// caller's channel when the connection is reset, and only then. The others just close.
    pub fn reset(self) {
        match self.sender {
            MediaSender::AudioSocket(sender) => sender.reset(),
            MediaSender::Rtp(_) | MediaSender::WebSocket(_) => {}
        }
    }

    /// Ends the leg so that a dialplan which waits in `AudioSocket()` goes on: a hang-up frame, no
    /// more writing, then reading until Asterisk closes, for a second at most. A plain close would
    /// end the caller's channel whenever Asterisk happens to be writing. The others just close.
    pub async fn hang_up(self) {
        match self.sender {
            MediaSender::AudioSocket(sender) => sender.hang_up(self.events).await,
            MediaSender::Rtp(_) | MediaSender::WebSocket(_) => {}
        }
    }
}
