//! What every media leg offers the call, whatever carries its bytes.

use crate::audio::Format;
use bytes::Bytes;
use tokio::sync::mpsc;

/// An open audio path to Asterisk for one call.
///
/// Until the first [`MediaSender::play`] the leg sends silence by itself every 20 ms; from then on
/// the call core's clock paces it, one frame per tick. Dropping the leg closes its socket at once.
pub struct MediaLeg {
    pub format: Format,
    pub sender: MediaSender,
    /// Bounded; the leg's reader waits when the call is slow, so nothing is lost here.
    pub events: mpsc::Receiver<MediaEvent>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MediaEvent {
    /// What Asterisk sent as one packet, in the leg's format.
    Audio(Bytes),
    /// A key, from transports that carry keys themselves.
    Digit(char),
    /// The other side closed, or the path broke. The last event.
    Closed,
}

/// Sends frames towards the caller without ever waiting.
pub enum MediaSender {
    AudioSocket(super::audiosocket::Sender),
    Rtp(super::rtp::Sender),
}

impl MediaSender {
    /// Sends one 20 ms frame now. `false`: the socket would not take it; the frame is lost and must
    /// be counted.
    #[must_use]
    pub fn play(&mut self, frame: Bytes) -> bool {
        match self {
            Self::AudioSocket(sender) => sender.play(frame),
            Self::Rtp(sender) => sender.play(frame),
        }
    }
}
