//! What the scripted agent's lines sound like.

use super::options::{Tone, VoiceKind};
use crate::{
    audio::{Clip, Converter, Encoding, Format},
    config::OptionProblem,
    speech::{Espeak, Voice as _, VoiceError},
};
use bytes::Bytes;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Lines kept ready; a script's own are rendered when it is loaded, the rest are greetings with names in them. Beyond
/// it, lines are rendered anew each time.
const CACHE_MAX: usize = 1_024;
/// Every format a leg may have.
const FORMATS: [Format; 5] = [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16, Format::SLIN24];

const TONE_HERTZ: f32 = 440.0;
/// About what a speaker takes per letter.
const TONE_PER_CHAR: Duration = Duration::from_millis(60);
const TONE_MIN: Duration = Duration::from_millis(300);
const TONE_AMPLITUDE: f32 = 8_000.0;

/// The voice of one configured agent, with the lines it has ready.
pub(super) struct Speech {
    kind: VoiceKind,
    espeak: Espeak,
    ready: Mutex<HashMap<String, Arc<Clip>>>,
}

impl Speech {
    pub(super) fn new(kind: VoiceKind, espeak: Espeak) -> Self {
        Self { kind, espeak, ready: Mutex::default() }
    }

    /// The line as bytes of `format`, if it can be had at once.
    pub(super) fn at_once(&self, line: &str, format: Format) -> Option<Bytes> {
        match self.kind {
            VoiceKind::Tone => {
                let chars = u32::try_from(line.chars().count()).unwrap_or(u32::MAX);
                Some(tone(TONE_HERTZ, TONE_PER_CHAR.saturating_mul(chars).max(TONE_MIN), format))
            }
            VoiceKind::EspeakNg => self.ready().get(line).map(|clip| clip.render(format)),
        }
    }

    /// The line as bytes of `format`, spoken now, and kept if that is asked for.
    pub(super) async fn render(&self, line: &str, format: Format, keep: bool) -> Result<Bytes, VoiceError> {
        if let Some(audio) = self.at_once(line, format) {
            return Ok(audio);
        }
        let clip = Arc::new(self.espeak.speak(line).await?);
        let audio = clip.render(format);
        if keep {
            self.keep(line, clip);
        }
        Ok(audio)
    }

    /// Speaks all lines in all formats, so that a call never waits for them.
    pub(super) async fn prepare(&self, lines: impl Iterator<Item = &str>) -> Result<(), VoiceError> {
        if self.kind == VoiceKind::Tone {
            return Ok(());
        }
        for line in lines {
            let clip = Arc::new(self.espeak.speak(line).await?);
            FORMATS.iter().for_each(|format| drop(clip.render(*format)));
            self.keep(line, clip);
        }
        Ok(())
    }

    fn keep(&self, line: &str, clip: Arc<Clip>) {
        let mut ready = self.ready();
        if ready.len() < CACHE_MAX {
            ready.insert(line.to_owned(), clip);
        }
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Clip>>> {
        // The map is whole between any two statements that hold the lock.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn missing() -> OptionProblem {
    let problem = OptionProblem::new("voice", VoiceError::Missing.to_string());
    problem.hint(format!("{}, or write `voice: tone`", VoiceError::Missing.remedy()))
}

pub(super) fn tone_of(tone: Tone, format: Format) -> Bytes {
    self::tone(tone.hertz, tone.r#for.0, format)
}

fn tone(hertz: f32, length: Duration, format: Format) -> Bytes {
    let rate = format.rate as f32;
    let samples = (length.as_secs_f32() * rate) as usize;
    let wave = |i: usize| (TONE_AMPLITUDE * (std::f32::consts::TAU * hertz * i as f32 / rate).sin()) as i16;
    let mut samples = vec![0; 2 * samples];
    for (i, sample) in samples.chunks_exact_mut(2).enumerate() {
        sample.copy_from_slice(&wave(i).to_le_bytes());
    }
    let mut audio = Vec::with_capacity(samples.len());
    Converter::new(Format { encoding: Encoding::Linear, ..format }, format).push(&samples, &mut audio);
    audio.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audio::{g711, rms_dbfs},
        speech,
    };

    #[test]
    fn a_tone_lasts_as_long_as_its_line_would() {
        let speech = Speech::new(VoiceKind::Tone, Espeak::default());
        let audio = speech.at_once("a line of twenty-five ch.", Format::ULAW).unwrap();
        assert_eq!(Format::ULAW.duration_of(audio.len()), Duration::from_millis(1_500));
    }

    #[tokio::test]
    async fn espeak_lines_are_ready_in_every_format_and_can_be_heard() {
        let speech = Speech::new(VoiceKind::EspeakNg, Espeak::default());
        assert!(speech::is_installed(), "the tests need espeak-ng: apt install espeak-ng");
        speech.prepare(["Hello, this is the shop."].into_iter()).await.unwrap();
        for format in FORMATS {
            let audio = speech.at_once("Hello, this is the shop.", format).unwrap();
            let length = format.duration_of(audio.len());
            assert!((1_000..3_500).contains(&length.as_millis()), "{format}: {length:?}");
        }
        let mut samples = Vec::new();
        g711::decode(g711::Law::Mu, &speech.at_once("Hello, this is the shop.", Format::ULAW).unwrap(), &mut samples);
        assert!(rms_dbfs(&samples) > -30.0);
    }

    #[tokio::test]
    async fn an_unknown_voice_is_an_error_that_names_the_program() {
        let espeak = Espeak { voice: "zzzz".into(), ..Espeak::default() };
        let error = Speech::new(VoiceKind::EspeakNg, espeak).render("hello", Format::ULAW, true).await.unwrap_err();
        assert!(error.to_string().contains("espeak-ng failed"), "{error}");
    }
}
