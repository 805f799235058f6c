//! What all voices over the network have in common: limits, whole samples, and a sentence out of its pieces.

use super::{
    Sound, Voice, VoiceError,
    text::{TextOptions, VoiceLanguage},
};
use crate::{
    audio::{Clip, ClipError, Converter, Encoding, Format, WavHead},
    config::OptionProblem,
    remote::{
        Fault,
        checks::{self, within},
        http,
    },
};
use bytes::Bytes;
use futures_util::{
    FutureExt as _, Stream, StreamExt as _, TryStreamExt as _,
    future::{BoxFuture, ready},
    stream::{self, BoxStream},
};
use reqwest::{RequestBuilder, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// From one piece of a clause to the next; a voice is faster than speech, and the caller hears the pieces meanwhile. Then the
/// next clause is spoken.
const BETWEEN_MAX: Duration = Duration::from_millis(2_500);
/// Who is so late at a deadline was not awake, and looks once more for what has come meanwhile.
const OVERSLEPT: Duration = Duration::from_millis(100);
/// Two and a half minutes at 24 kHz; a sentence has a few hundred kilobytes.
pub(super) const BYTES_MAX: usize = 8 << 20;
/// A WAV file has 44 bytes before its samples, and some kilobytes with a cover and a title.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Before the second attempt at a sentence that nobody waits for, twice as long before the third: services refuse those who
/// ask for very many at once.
const PAUSE: Duration = Duration::from_millis(500);

/// What begins so is a file, and would be noise as samples. A voice that is asked for a file is not read so.
const HEADS: [&[u8]; 4] = [b"RIFF", b"ID3", b"OggS", b"fLaC"];
/// Sound that is compressed.
const COMPRESSED: [&str; 6] = ["audio/mpeg", "audio/ogg", "audio/opus", "audio/flac", "audio/aac", "audio/webm"];

pub(super) type Sounds = BoxStream<'static, Result<Sound, VoiceError>>;

/// A voice over the network: its limits, and how a clause is asked for.
pub(super) trait Service: Send + Sync {
    const KIND: &'static str;

    fn patience(&self) -> Patience;

    fn text_options(&self) -> TextOptions;

    /// That it speaks, where its options tell.
    fn language(&self) -> Option<VoiceLanguage> {
        None
    }

    /// The pieces of a clause, in the format of `leg` where the service has that; `first` is how long the first may take.
    fn sounds(&self, text: String, leg: Format, first: Duration) -> Sounds;
}

impl<S: Service> Voice for S {
    fn kind(&self) -> &'static str {
        S::KIND
    }

    fn retries(&self) -> u32 {
        self.patience().retries
    }

    fn first_sound_max(&self) -> Duration {
        self.patience().clause()
    }

    fn speak<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Clip, VoiceError>> {
        let text = self.text_options().text(text, self.language());
        let ask = move |limit| self.sounds(text.clone(), Format::SLIN24, limit);
        sentence(self.patience(), ask).boxed()
    }

    fn stream(&self, text: String, leg: Format) -> Sounds {
        self.sounds(self.text_options().text(&text, self.language()), leg, self.first_sound_max())
    }
}

/// The pieces of a clause, each in its time and not too many: `first` is how long the first may take.
pub(super) fn limited<F>(
    text: String,
    chars_max: usize,
    first: Duration,
    ask: impl FnOnce(String) -> F + Send + 'static,
) -> Sounds
where
    F: Future<Output = Result<Sounds, VoiceError>> + Send + 'static,
{
    if text.chars().nth(chars_max).is_some() {
        return stream::once(ready(Err(VoiceError::TooLong(chars_max)))).boxed();
    }
    // Services differ in what they make of it: silence, a fault, or a wait without an end.
    if !text.contains(char::is_alphanumeric) {
        return stream::empty().boxed();
    }
    let asking = async move {
        let deadline = Instant::now() + first;
        let sounds = timeout_at(deadline, ask(text)).await.map_err(|_| VoiceError::TooSlow(first))??;
        let run = Run { sounds, first: Some((deadline, first)), bytes: 0 };
        Ok::<_, VoiceError>(stream::try_unfold(run, Run::next))
    };
    stream::once(asking).try_flatten().boxed()
}

struct Run {
    sounds: Sounds,
    first: Option<(Instant, Duration)>,
    /// So far.
    bytes: usize,
}

impl Run {
    async fn next(mut self) -> Result<Option<(Sound, Self)>, VoiceError> {
        let (deadline, limit) = self.first.unwrap_or_else(|| (Instant::now() + BETWEEN_MAX, BETWEEN_MAX));
        loop {
            let mut next = timeout_at(deadline, self.sounds.try_next()).await;
            if next.is_err() && deadline.elapsed() > OVERSLEPT {
                next = timeout(OVERSLEPT, self.sounds.try_next()).await;
            }
            let next = next.map_err(|_| VoiceError::TooSlow(limit))?;
            let Some(sound) = next? else {
                return if self.bytes == 0 { Err(ClipError::Empty.into()) } else { Ok(None) };
            };
            if sound.audio.is_empty() {
                continue;
            }
            self.bytes += sound.audio.len();
            if self.bytes > BYTES_MAX {
                return Err(Fault::TooLarge(BYTES_MAX).into());
            }
            self.first = None;
            return Ok(Some((sound, self)));
        }
    }
}

/// The bytes that a service answers with.
pub(super) async fn body(
    request: RequestBuilder,
) -> Result<impl Stream<Item = Result<Bytes, VoiceError>> + Send + 'static, VoiceError> {
    let answer = request.send().await.map_err(http::fault)?;
    if answer.status() != StatusCode::OK {
        return Err(http::refused(answer).await.into());
    }
    // Bytes without a head are whatever one takes them for, so they must not be a page or a message.
    let content = http::content_type(&answer);
    if content.starts_with("text/") || content == "application/json" || COMPRESSED.contains(&&*content) {
        return Err(VoiceError::OtherContent(content));
    }
    Ok(http::pieces(answer, BYTES_MAX).map_err(VoiceError::from))
}

/// Samples without a head.
pub(super) fn raw(bytes: impl Stream<Item = Result<Bytes, VoiceError>> + Send + 'static, format: Format) -> Sounds {
    let mut samples = Samples { format, part: Vec::new(), left: None };
    let mut is_first = true;
    let push = move |bytes: Bytes| {
        if !bytes.is_empty() && std::mem::take(&mut is_first) && HEADS.iter().any(|head| bytes.starts_with(head)) {
            return ready(Err(VoiceError::OtherContent("a file with a head".into())));
        }
        ready(Ok(samples.push(bytes)))
    };
    bytes.and_then(push).boxed()
}

/// A WAV file.
pub(super) fn wav(bytes: impl Stream<Item = Result<Bytes, VoiceError>> + Send + 'static) -> Sounds {
    let mut file = Wav::Head(Vec::new());
    bytes.try_filter_map(move |bytes| ready(file.push(bytes))).boxed()
}

/// Joins bytes to whole samples.
struct Samples {
    format: Format,
    /// Of a sample whose rest has not come.
    part: Vec<u8>,
    /// Bytes that are still samples, where that is known: a title may follow them.
    left: Option<u64>,
}

impl Samples {
    fn push(&mut self, mut bytes: Bytes) -> Sound {
        if let Some(left) = &mut self.left {
            bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= bytes.len() as u64;
        }
        if !self.part.is_empty() {
            bytes = [&self.part, &*bytes].concat().into();
        }
        let whole = bytes.len() / self.format.bytes_per_sample() * self.format.bytes_per_sample();
        self.part = bytes.split_off(whole).into();
        Sound { format: self.format, audio: bytes }
    }
}

enum Wav {
    Head(Vec<u8>),
    Samples(Samples),
}

impl Wav {
    fn push(&mut self, bytes: Bytes) -> Result<Option<Sound>, VoiceError> {
        match self {
            Self::Samples(samples) => Ok(Some(samples.push(bytes))),
            Self::Head(head) => {
                head.extend_from_slice(&bytes);
                let Some(WavHead { format, start, length }) = WavHead::read(head).map_err(VoiceError::from)? else {
                    let endless = ClipError::Wav(hound::Error::FormatError("no samples after its head"));
                    return if head.len() > HEAD_BYTES_MAX { Err(endless.into()) } else { Ok(None) };
                };
                let begun = Bytes::from(head.split_off(start));
                let mut samples = Samples { format, part: Vec::new(), left: length.map(u64::from) };
                let sound = samples.push(begun);
                *self = Self::Samples(samples);
                Ok(Some(sound))
            }
        }
    }
}

/// A whole sentence out of its pieces, asked for again where that may help. `ask` is told how long it may take.
pub(super) async fn sentence(patience: Patience, ask: impl Fn(Duration) -> Sounds) -> Result<Clip, VoiceError> {
    let limit = patience.sentence();
    let attempts = async {
        let mut pause = PAUSE;
        for _ in 0..patience.retries {
            match joined(ask(limit)).await {
                Err(VoiceError::Remote(fault)) if fault.is_passing() => {
                    sleep(pause).await;
                    pause *= 2;
                }
                result => return result,
            }
        }
        joined(ask(limit)).await
    };
    timeout(limit, attempts).await.map_err(|_| VoiceError::TooSlow(limit))?
}

async fn joined(mut sounds: Sounds) -> Result<Clip, VoiceError> {
    let (mut rate, mut bytes) = (Format::SLIN24.rate, Vec::new());
    while let Some(Sound { format, audio }) = sounds.try_next().await? {
        rate = format.rate;
        Converter::new(format, Format { encoding: Encoding::Linear, rate }).push(&audio, &mut bytes);
    }
    let samples = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    Ok(Clip::from_samples(rate, samples)?)
}

/// How long a voice is waited for, and how often it is asked again: a part of the options of every voice over the network.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub(super) struct Patience {
    /// The longest wait for the first sound of what an agent says.
    #[serde(default = "first_sound_ms")]
    #[schemars(range(min = 500, max = 60_000))]
    first_sound_ms: u64,
    /// The longest that one sentence of offhook's own may take, with every attempt.
    #[serde(default = "timeout_ms")]
    #[schemars(range(min = 1_000, max = 60_000))]
    timeout_ms: u64,
    /// How often it is asked again when it fails in passing and nothing was heard of it, before the next voice of a pipeline
    /// is asked. What has failed slowly is not repeated to a caller who waits.
    #[serde(default = "checks::retries")]
    #[schemars(range(max = 5))]
    pub(super) retries: u32,
}

/// A caller who hears nothing for longer asks whether somebody is there.
const fn first_sound_ms() -> u64 {
    4_000
}

/// A long sentence takes services a few seconds.
const fn timeout_ms() -> u64 {
    15_000
}

impl Patience {
    pub(super) fn problems(self) -> impl Iterator<Item = OptionProblem> {
        let first = within("first_sound_ms", Some(self.first_sound_ms as f64), 500.0, 60_000.0);
        let whole = within("timeout_ms", Some(self.timeout_ms as f64), 1_000.0, 60_000.0);
        [first, whole, checks::few_retries(self.retries)].into_iter().flatten()
    }

    /// For the first sound of a clause.
    pub(super) const fn clause(self) -> Duration {
        Duration::from_millis(self.first_sound_ms)
    }

    /// For the whole of a sentence that is rendered before a call.
    pub(super) const fn sentence(self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// Any body as a WAV file: the same samples however it comes (the first byte says how), and whole ones alone.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let Some((&size, body)) = data.split_first() else { return };
    let read = |size: usize| {
        let (mut file, mut heard) = (Wav::Head(Vec::new()), Vec::new());
        for piece in body.chunks(size) {
            match file.push(Bytes::copy_from_slice(piece)) {
                Ok(Some(sound)) => {
                    assert_eq!(sound.audio.len() % sound.format.bytes_per_sample(), 0, "half a sample");
                    heard.extend_from_slice(&sound.audio);
                }
                Ok(None) => {}
                Err(_) => return None,
            }
            if let Wav::Head(head) = &file {
                assert!(head.len() <= HEAD_BYTES_MAX, "a head without an end is gathered");
            }
        }
        Some(heard)
    };
    let heard = read(body.len().max(1));
    assert_eq!(read(usize::from(size).max(1)), heard, "in pieces of {size}");
    assert!(heard.is_none_or(|heard| heard.len() <= body.len()));
}
