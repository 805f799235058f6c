//! Sentences that are rendered once, by whichever configuration needs them first.

use super::{SpeechCounters, Voice, VoiceError};
use crate::audio::Clip;
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::time::timeout;

/// Sentences that one voice speaks at the same time: a service takes about a second for each, and refuses those who
/// ask for very many at once.
const AT_ONCE: usize = 8;

/// By voice and text.
type Ready = HashMap<([u8; 32], String), Weak<Clip>>;

/// A voice, and what makes it the same one in another configuration.
#[derive(Clone)]
pub struct Speaker {
    voice: Arc<dyn Voice>,
    /// Of kind and options; a hash, since there is a key among them.
    id: [u8; 32],
}

impl Speaker {
    pub(super) fn new(kind: &str, options: &Value, voice: Arc<dyn Voice>) -> Self {
        Self { voice, id: Sha256::digest(format!("{kind}\n{options}")).into() }
    }

    /// For what is spoken once, and in a call.
    pub fn voice(&self) -> &Arc<dyn Voice> {
        &self.voice
    }
}

/// Whose text was not spoken, and why.
#[derive(Debug)]
pub struct TextFailed {
    pub text: String,
    pub error: VoiceError,
}

/// Has voices speak, and remembers what they said for as long as somebody uses it: so what a configuration holds is
/// not rendered again for the next one, and the memory is as large as the configurations are.
#[derive(Default)]
pub struct Studio {
    ready: Mutex<Ready>,
    counters: Option<SpeechCounters>,
}

impl Studio {
    pub fn new(counters: SpeechCounters) -> Self {
        Self { counters: Some(counters), ..Self::default() }
    }

    /// The clips of all these texts, several at the same time.
    ///
    /// # Errors
    /// The first that fails ends it: a service that is down is not waited for a hundred times.
    pub async fn render(
        &self,
        speaker: &Speaker,
        texts: &BTreeSet<&str>,
    ) -> Result<BTreeMap<String, Arc<Clip>>, TextFailed> {
        let one = async |text: &str| match self.clip(speaker, text).await {
            Ok(clip) => Ok((text.to_owned(), clip)),
            Err(error) => Err(TextFailed { text: text.to_owned(), error }),
        };
        let mut rendering = stream::iter(texts.iter().copied()).map(one).buffer_unordered(AT_ONCE);
        let mut clips = BTreeMap::new();
        while let Some(result) = rendering.next().await {
            clips.extend([result?]);
        }
        Ok(clips)
    }

    /// A sentence of one call, which is not kept: there are names in it. `None` if it cannot be had within `limit`.
    pub async fn speak_within(&self, speaker: &Speaker, text: &str, limit: Duration) -> Option<Arc<Clip>> {
        let outcome = timeout(limit, speaker.voice.speak(text)).await;
        self.count(
            speaker,
            match &outcome {
                Ok(Ok(_)) => "rendered",
                Ok(Err(error)) => error.label(),
                Err(_) => "late",
            },
        );
        outcome.ok()?.ok().map(Arc::new)
    }

    async fn clip(&self, speaker: &Speaker, text: &str) -> Result<Arc<Clip>, VoiceError> {
        let key = (speaker.id, text.to_owned());
        if let Some(clip) = self.ready().get(&key).and_then(Weak::upgrade) {
            self.count(speaker, "ready");
            return Ok(clip);
        }
        let clip = speaker.voice.speak(text).await.map(Arc::new);
        self.count(speaker, clip.as_ref().map_or_else(VoiceError::label, |_| "rendered"));
        let clip = clip?;
        let mut ready = self.ready();
        ready.retain(|_, clip| clip.strong_count() > 0);
        ready.insert(key, Arc::downgrade(&clip));
        Ok(clip)
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.ready().len()
    }

    fn count(&self, speaker: &Speaker, outcome: &str) {
        if let Some(counters) = &self.counters {
            counters.sentences.with_label_values(&[speaker.voice.kind(), outcome]).inc();
        }
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, Ready> {
        // The map is whole between any two statements that hold the lock.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
