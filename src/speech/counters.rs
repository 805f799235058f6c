//! What is counted about voices.

use super::{VOICES, VoiceError};
use prometheus::{IntCounterVec, Opts, Registry};

/// Counters of one process, registered once. Labels are closed sets: the kinds in [`VOICES`], and outcomes.
#[derive(Debug, Clone)]
pub struct SpeechCounters {
    /// Sentences that were asked for, by how that came out.
    pub sentences: IntCounterVec,
}

impl SpeechCounters {
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let sentences = IntCounterVec::new(
            Opts::new(
                "offhook_voice_sentences_total",
                "Sentences that a voice was asked for, by outcome: rendered, ready from before, late for its call, or why not",
            ),
            &["voice", "outcome"],
        )?;
        // Every child shows as zero from the start, so that rates work from the first event.
        for row in VOICES {
            let outcomes = VoiceError::LABELS.into_iter().chain(["rendered", "ready", "late"]);
            outcomes.for_each(|outcome| drop(sentences.with_label_values(&[row.kind, outcome])));
        }
        registry.register(Box::new(sentences.clone()))?;
        Ok(Self { sentences })
    }
}
