//! What the habits of a vendor make the session do by the clock. Codecs have none.

use super::super::{Codec, Wire};
use crate::call::AgentEvent;
use std::time::Duration;
use tokio::time::Instant;

/// The moment has come for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing was said for so long that the vendor would end the session.
    KeepAlive,
    /// An answer has brought no more audio for so long that it counts as complete.
    AudioGap,
    /// The session does not stand yet, and will not.
    HandshakeOver,
    /// What the provider said last has come, or will not.
    LastWordsOver,
    /// The vendor's limit of a session is near.
    Expiring,
}

pub(super) struct Watch {
    /// Until the session stands.
    handshake_until: Option<Instant>,
    /// When the call is to be told that the vendor's limit is near.
    expiring_at: Option<Instant>,
    /// The provider takes nothing more; its last words are awaited until then.
    unwritable_until: Option<Instant>,
    pub(super) keep_alive: Option<(Duration, Vec<Wire>)>,
    /// When a message was last sent that puts `keep_alive` off.
    said_at: Instant,
    audio_gap_max: Option<Duration>,
    /// When the last audio of an answer came that is not complete.
    voiced_at: Option<Instant>,
}

impl Watch {
    pub(super) fn new(handshake_until: Instant, expiring_at: Option<Instant>) -> Self {
        Self {
            handshake_until: Some(handshake_until),
            expiring_at,
            unwritable_until: None,
            keep_alive: None,
            said_at: Instant::now(),
            audio_gap_max: None,
            voiced_at: None,
        }
    }

    /// The session stands.
    pub(super) fn begin(&mut self, codec: &dyn Codec) {
        self.handshake_until = None;
        (self.keep_alive, self.audio_gap_max) = (codec.keep_alive(), codec.audio_gap_max());
    }

    pub(super) fn unwritable(&mut self, last_words_max: Duration) {
        self.unwritable_until = Some(Instant::now() + last_words_max);
    }

    pub(super) fn writable(&self) -> bool {
        self.unwritable_until.is_none()
    }

    pub(super) fn expiry_is_told(&mut self) {
        self.expiring_at = None;
    }

    /// Puts off the messages that keep the session alive, unless those have audio and the ones that are sent have none.
    pub(super) fn said(&mut self, wires: &[Wire]) {
        let has_audio = |wires: &[Wire]| wires.iter().any(|wire| matches!(wire, Wire::Binary(_)));
        if has_audio(wires) || !self.keep_alive.as_ref().is_some_and(|(_, alive)| has_audio(alive)) {
            self.said_at = Instant::now();
        }
    }

    pub(super) fn is_kept_alive(&mut self) {
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

    /// What is due next, and when.
    pub(super) fn due(&self, reading: bool) -> Option<(Instant, Due)> {
        let stands = self.handshake_until.is_none();
        let gap = self.audio_gap_max.zip(self.voiced_at).filter(|_| reading).map(|(max, at)| (at + max, Due::AudioGap));
        let keep_alive = self.keep_alive.as_ref().map(|(after, _)| (self.said_at + *after, Due::KeepAlive));
        let handshake = self.handshake_until.map(|at| (at, Due::HandshakeOver));
        let last_words = self.unwritable_until.map(|at| (at, Due::LastWordsOver));
        let expiring = self.expiring_at.filter(|_| stands).map(|at| (at, Due::Expiring));
        [gap, keep_alive, handshake, last_words, expiring].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(8);

    /// Time until `alive` is due in a session where `sent` is sent three seconds after its beginning.
    async fn due_in(alive: &[Wire], sent: Wire) -> Duration {
        let mut watch = Watch::new(Instant::now(), None);
        (watch.handshake_until, watch.keep_alive) = (None, Some((AFTER, alive.to_vec())));
        tokio::time::advance(Duration::from_secs(3)).await;
        watch.said(&[sent]);
        let (at, due) = watch.due(true).expect("it is kept alive");
        assert_eq!(due, Due::KeepAlive);
        at - Instant::now()
    }

    #[tokio::test(start_paused = true)]
    async fn words_do_not_put_off_the_audio_that_keeps_a_session_alive() {
        let (words, audio) = (Wire::Text("alive".into()), Wire::Binary(vec![0xff].into()));
        let short = AFTER - Duration::from_secs(3);
        let both = [words.clone(), audio.clone()];
        assert_eq!(due_in(&both, words.clone()).await, short);
        assert_eq!(due_in(&both, audio.clone()).await, AFTER);
        assert_eq!(due_in(std::slice::from_ref(&words), words.clone()).await, AFTER);
        assert_eq!(due_in(&[words], audio).await, AFTER);
    }
}
