//! What the scripted agent's lines sound like.

use super::options::{Espeak, Tone, VoiceKind};
use crate::{
    audio::{Converter, Encoding, Format},
    config::OptionProblem,
};
use bytes::Bytes;
use std::{
    collections::HashMap,
    process::Stdio,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

const PROGRAM: &str = "espeak-ng";
/// espeak-ng speaks a paragraph in some 50 ms; a machine that needs so long for it is stuck.
const RENDER_MAX: Duration = Duration::from_secs(10);
/// Lines kept ready, in one format each; a script's own are rendered when it is loaded, the rest
/// are greetings with names in them. Beyond it, lines are rendered anew each time.
const CACHE_MAX: usize = 4_096;
/// Every format a leg may have.
const FORMATS: [Format; 5] = [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16, Format::SLIN24];

const TONE_HERTZ: f32 = 440.0;
/// About what a speaker takes per letter.
const TONE_PER_CHAR: Duration = Duration::from_millis(60);
const TONE_MIN: Duration = Duration::from_millis(300);
const TONE_AMPLITUDE: f32 = 8_000.0;

#[derive(Debug, thiserror::Error)]
pub(super) enum SpeechError {
    #[error("cannot run {PROGRAM}: {0}")]
    Run(#[from] std::io::Error),
    #[error("{PROGRAM} took longer than {} s", RENDER_MAX.as_secs())]
    TooSlow,
    #[error("{PROGRAM} failed: {0}")]
    Failed(String),
    #[error("{PROGRAM} wrote no 16-bit mono WAV")]
    NoWav,
}

/// The voice of one configured agent, with the lines it has ready.
pub(super) struct Speech {
    kind: VoiceKind,
    espeak: Espeak,
    ready: Mutex<HashMap<(String, Format), Bytes>>,
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
            VoiceKind::EspeakNg => self.ready().get(&(line.to_owned(), format)).cloned(),
        }
    }

    /// The line as bytes of `format`, spoken now, and kept if that is asked for.
    pub(super) async fn render(&self, line: &str, format: Format, keep: bool) -> Result<Bytes, SpeechError> {
        if let Some(audio) = self.at_once(line, format) {
            return Ok(audio);
        }
        let wav = self.speak(line).await?;
        let audio = convert(&parse_wav(&wav)?, format);
        if keep {
            self.keep(line, format, audio.clone());
        }
        Ok(audio)
    }

    /// Speaks all lines in all formats, so that a call never waits for them.
    pub(super) async fn prepare(&self, lines: impl Iterator<Item = &str>) -> Result<(), SpeechError> {
        if self.kind == VoiceKind::Tone {
            return Ok(());
        }
        for line in lines {
            let wav = self.speak(line).await?;
            let recording = parse_wav(&wav)?;
            for format in FORMATS {
                self.keep(line, format, convert(&recording, format));
            }
        }
        Ok(())
    }

    fn keep(&self, line: &str, format: Format, audio: Bytes) {
        let mut ready = self.ready();
        if ready.len() < CACHE_MAX {
            ready.insert((line.to_owned(), format), audio);
        }
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, HashMap<(String, Format), Bytes>> {
        // The map is whole between any two statements that hold the lock.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line goes in by standard input: arguments can be read by every user of the machine.
    async fn speak(&self, line: &str) -> Result<Vec<u8>, SpeechError> {
        let mut child = Command::new(PROGRAM)
            .args(["-v", &self.espeak.voice, "-s", &self.espeak.words_per_minute.to_string(), "--stdin", "--stdout"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut stdin = child.stdin.take().ok_or(SpeechError::NoWav)?;
        let line = line.to_owned();
        let speaking = async move {
            stdin.write_all(line.as_bytes()).await?;
            drop(stdin);
            child.wait_with_output().await
        };
        let output = timeout(RENDER_MAX, speaking).await.map_err(|_| SpeechError::TooSlow)??;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(SpeechError::Failed(words.lines().next().unwrap_or_default().to_owned()));
        }
        Ok(output.stdout)
    }
}

/// Whether the program lies on the `PATH`.
pub(super) fn espeak_is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(PROGRAM).is_file())
}

pub(super) fn missing() -> OptionProblem {
    let problem = OptionProblem::new("voice", format!("the program {PROGRAM} is not installed"));
    problem.hint("apt install espeak-ng, or write `voice: tone`")
}

pub(super) fn tone_of(tone: Tone, format: Format) -> Bytes {
    self::tone(tone.hertz, tone.r#for.0, format)
}

fn tone(hertz: f32, length: Duration, format: Format) -> Bytes {
    let rate = format.rate as f32;
    let samples = (length.as_secs_f32() * rate) as usize;
    let recording = Recording {
        rate: format.rate,
        pcm: (0..samples)
            .map(|i| (TONE_AMPLITUDE * (std::f32::consts::TAU * hertz * i as f32 / rate).sin()) as i16)
            .flat_map(i16::to_le_bytes)
            .collect(),
    };
    convert(&recording, format)
}

/// 16-bit mono.
struct Recording {
    rate: u32,
    pcm: Vec<u8>,
}

fn convert(recording: &Recording, format: Format) -> Bytes {
    let mut converter = Converter::new(Format { encoding: Encoding::Linear, rate: recording.rate }, format);
    let mut audio = Vec::with_capacity(recording.pcm.len());
    converter.push(&recording.pcm, &mut audio);
    converter.flush(&mut audio);
    audio.into()
}

/// Reads what espeak-ng writes to a pipe: it cannot know the length beforehand, so its lengths are
/// not true and the samples reach to the end.
fn parse_wav(wav: &[u8]) -> Result<Recording, SpeechError> {
    const HEADER: usize = 44;
    let word = |at: usize| wav.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let shape = (word(20), word(22), word(34));
    let rate = wav.get(24..28).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    match (wav.get(..4), wav.get(36..40), shape, rate) {
        (Some(b"RIFF"), Some(b"data"), (Some(1), Some(1), Some(16)), Some(rate @ 8_000..=48_000)) => {
            Ok(Recording { rate, pcm: wav[HEADER.min(wav.len())..].to_vec() })
        }
        _ => Err(SpeechError::NoWav),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::{g711, rms_dbfs};

    #[test]
    fn a_tone_lasts_as_long_as_its_line_would() {
        let speech = Speech::new(VoiceKind::Tone, Espeak::default());
        let audio = speech.at_once("a line of twenty-five ch.", Format::ULAW).unwrap();
        assert_eq!(Format::ULAW.duration_of(audio.len()), Duration::from_millis(1_500));
    }

    #[tokio::test]
    async fn espeak_lines_are_ready_in_every_format_and_can_be_heard() {
        let speech = Speech::new(VoiceKind::EspeakNg, Espeak::default());
        assert!(espeak_is_installed(), "the tests need espeak-ng: apt install espeak-ng");
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
