//! What the habits of a vendor make the session do by the clock. Codecs have none.

use super::super::{Codec, Wire};
use crate::call::AgentEvent;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The moment has come for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing was said for so long that the vendor would end the session.
    KeepAlive,
    /// An answer has brought no more audio for so long that it counts as complete.
    AudioGap,
}

pub(super) struct Watch {
    pub(super) keep_alive: Option<(Duration, Wire)>,
    said_at: Instant,
    audio_gap_max: Option<Duration>,
    /// When the last audio of an answer came that is not complete.
    voiced_at: Option<Instant>,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { keep_alive: None, said_at: Instant::now(), audio_gap_max: None, voiced_at: None }
    }

    /// The session stands.
    pub(super) fn begin(&mut self, codec: &dyn Codec) {
        (self.keep_alive, self.audio_gap_max) = (codec.keep_alive(), codec.audio_gap_max());
    }

    pub(super) fn said(&mut self) {
        self.said_at = Instant::now();
    }

    pub(super) fn heard(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Audio { .. } => self.voiced_at = Some(Instant::now()),
            AgentEvent::ResponseDone { .. } => self.voiced_at = None,
            _ => {}
        }
    }

    pub(super) fn gap_is_told(&mut self) {
        self.voiced_at = None;
    }

    /// Until now the provider was not read, so nobody knows what has come.
    pub(super) fn reads_again(&mut self) {
        self.voiced_at = self.voiced_at.map(|_| Instant::now());
    }

    /// Waits for what is due next. May be dropped at any time.
    pub(super) async fn due(&self, reading: bool) -> Due {
        let gap = self.audio_gap_max.zip(self.voiced_at).filter(|_| reading).map(|(max, at)| (at + max, Due::AudioGap));
        let keep_alive = self.keep_alive.as_ref().map(|(after, _)| (self.said_at + *after, Due::KeepAlive));
        match gap.into_iter().chain(keep_alive).min_by_key(|(at, _)| *at) {
            Some((at, due)) => {
                sleep_until(at).await;
                due
            }
            None => std::future::pending().await,
        }
    }
}
