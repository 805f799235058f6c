//! What all voices over the network have in common: limits, whole samples, and a sentence out of its pieces.

use super::{Sound, VoiceError};
use crate::{
    audio::{Clip, ClipError, Converter, Encoding, Format, WavHead},
    remote::{Fault, http},
};
use bytes::Bytes;
use futures_util::{
    Stream, StreamExt as _, TryStreamExt as _,
    future::ready,
    stream::{self, BoxStream},
};
use reqwest::{RequestBuilder, StatusCode};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// From one piece of a clause to the next; a voice is faster than speech, and the caller hears the pieces meanwhile.
const BETWEEN_MAX: Duration = Duration::from_secs(4);
/// Two and a half minutes at 24 kHz; a sentence has a few hundred kilobytes.
pub(super) const BYTES_MAX: usize = 8 << 20;
/// A WAV file has 44 bytes before its samples, and some kilobytes with a cover and a title.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// A service that is asked too fast, or has hiccups, is asked again; one that stays so is told to the operator.
const ATTEMPTS: u32 = 3;
/// Before the second attempt; twice as long before the third.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) type Sounds = BoxStream<'static, Result<Sound, VoiceError>>;

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
            let next = timeout_at(deadline, self.sounds.try_next()).await.map_err(|_| VoiceError::TooSlow(limit))?;
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
    if content.starts_with("text/") || content == "application/json" {
        return Err(VoiceError::OtherContent(content));
    }
    Ok(http::pieces(answer, BYTES_MAX).map_err(VoiceError::from))
}

/// Samples without a head.
pub(super) fn raw(bytes: impl Stream<Item = Result<Bytes, VoiceError>> + Send + 'static, format: Format) -> Sounds {
    let mut samples = Samples { format, part: Vec::new(), left: None };
    bytes.map_ok(move |bytes| samples.push(bytes)).boxed()
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

/// A whole sentence out of its pieces, within `limit`; asked for again where that may help.
pub(super) async fn sentence(limit: Duration, ask: impl Fn() -> Sounds) -> Result<Clip, VoiceError> {
    let attempts = async {
        let mut pause = PAUSE;
        for _ in 1..ATTEMPTS {
            match joined(ask()).await {
                Err(VoiceError::Remote(fault)) if fault.is_passing() => {
                    sleep(pause).await;
                    pause *= 2;
                }
                result => return result,
            }
        }
        joined(ask()).await
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

/// How long a voice is waited for; the same two options in every voice over the network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the first sound of a clause.
    pub(super) clause: Duration,
    /// For the whole of a sentence that is rendered before a call.
    pub(super) sentence: Duration,
}

impl Patience {
    pub(super) const fn of_ms(first_sound: u64, whole: u64) -> Self {
        Self { clause: Duration::from_millis(first_sound), sentence: Duration::from_millis(whole) }
    }
}

/// The default of `first_sound_ms`: a caller who hears nothing for longer asks whether somebody is there.
pub(super) const fn first_sound_ms() -> u64 {
    4_000
}

/// The default of `timeout_ms`: a long sentence takes services a few seconds.
pub(super) const fn timeout_ms() -> u64 {
    15_000
}
