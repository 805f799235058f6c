//! The load: callers on one side of the system under test, an emulated provider on the other, in
//! one process on one core. All times are taken here, so both ends of every latency share a clock.

mod ear;
mod speech;

pub use speech::Speech;
use speech::{Spoke, into_io};

use super::{
    peer::{self, Play},
    samples::{Mark, Note, Samples},
    stages,
};
use bytes::BytesMut;
use ear::Ear;
use futures_util::future::join_all;
use offhook::{
    asterisk::audiosocket::{Codec, Frame},
    audio::{FRAME, Format},
};
use std::{
    f32::consts::TAU,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout},
};
use tokio_util::{
    codec::{Decoder as _, Encoder as _},
    sync::CancellationToken,
};
use uuid::Uuid;

/// The first four bytes of the callers' UUIDs: how the engine finds their context.
pub const CONTEXT_ID: [u8; 4] = [0x0f, 0xf4, 0xbe, 0x7c];
/// Between two callers. Twenty-five new calls a second is more than a busy site sees.
const ARRIVAL_EVERY: Duration = Duration::from_millis(40);
/// The system under test connects to the provider within milliseconds, or it is broken.
const PROVIDER_WITHIN: Duration = Duration::from_secs(5);
/// From the last caller's dialling until every caller has heard a greeting.
const GREETED_WITHIN: Duration = Duration::from_secs(10);
/// Calls end when their sockets close.
const END_WITHIN: Duration = Duration::from_secs(5);

/// What callers, floor and engine speak.
pub const LEG: Format = Format::SLIN8;
/// Of an agent without a vendor: much as the emulated ones, 1.6 s of every 2 s.
const AGENT_LOUD: usize = 80;
const AGENT_CYCLE: usize = 100;
const LOUDNESS: f32 = 12_000.0;
/// Far above what silence becomes on any way, far below a loud frame.
const LOUD_PEAK: u16 = 4_000;
/// Anything but silence: what a telephone would play as some sound.
const AUDIBLE_PEAK: u16 = 200;

/// What the provider's side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Bytes over TCP, in the callers' own frames.
    Raw,
    /// A vendor's protocol over a WebSocket.
    OpenAi,
    Gemini,
    Deepgram,
    ElevenLabs,
    /// A listener, a model and a voice of their own.
    Stages,
    /// In the system under test itself.
    Embedded,
}

impl Provider {
    pub const fn is_vendor(self) -> bool {
        matches!(self, Self::OpenAi | Self::Gemini | Self::Deepgram | Self::ElevenLabs)
    }
}

#[derive(Default)]
pub struct Load {
    /// Samples count from here on.
    recording: AtomicBool,
    samples: Mutex<Samples>,
    greeted: AtomicUsize,
    calls: Mutex<Vec<Arc<Call>>>,
    /// The callers hang up.
    pub stop: CancellationToken,
    /// The provider leaves, after the calls have: else they would end by its doing.
    pub provider_stop: CancellationToken,
}

/// One call as both of its ends know it.
#[derive(Default)]
pub struct Call {
    pub dialled: Mark,
    /// The provider's first audio after a silence was written.
    pub down: Mark,
    /// The caller's first loud frame after a silence was written.
    pub up: Mark,
    /// The caller has begun to interrupt the agent: by the provider's word, or by its own voice.
    pub barge_in: Mark,
    /// The provider's session is to end when this is cancelled, and when it was.
    pub breaks: CancellationToken,
    pub broken: Mark,
    /// The last voiced frame of the caller's turn was written.
    pub ended: Mark,
    /// From then to the request to the model.
    pub asked: Note<Duration>,
    /// Of the answer that the model was asked for last.
    pub tokens: AtomicUsize,
}

/// Who speaks in the calls, and what.
pub struct Cast {
    pub load: Arc<Load>,
    pub provider: Provider,
    pub play: Play,
    /// Of the callers, in turn.
    pub speeches: Vec<Speech>,
}

/// Calls that are up.
pub struct Calls {
    pub load: Arc<Load>,
    pub calls: Vec<Arc<Call>>,
    callers: Vec<JoinHandle<()>>,
    providers: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn samples(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call of this caller.
    pub fn call(&self, number: usize) -> Option<Arc<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(number).cloned()
    }

    fn begins(&self, call: &Arc<Call>) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(call));
    }

    pub fn record(&self) {
        self.recording.store(true, Relaxed);
    }

    /// Adds to the samples, once the calls are all up.
    pub fn note(&self, note: impl FnOnce(&mut Samples)) {
        if self.recording.load(Relaxed) {
            note(&mut self.samples());
        }
    }
}

impl Cast {
    /// Callers who say no words: 100 ms of a tone in each second.
    pub fn of(provider: Provider, play: Play) -> anyhow::Result<Self> {
        Ok(Self { load: Arc::default(), provider, play, speeches: vec![Speech::beeps(5, 50)?] })
    }
}

impl Calls {
    /// Brings all calls up, one after the other, each greeted.
    pub async fn begin(count: usize, system: SocketAddr, cast: &Cast, listener: &TcpListener) -> anyhow::Result<Self> {
        let &Cast { provider, play, ref speeches, ref load } = cast;
        let (load, mut calls) = (Arc::clone(load), Vec::with_capacity(count));
        let (mut callers, mut providers) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let began = Instant::now();
        for index in 0..count {
            // The golden ratio spreads the callers' 20 ms clocks evenly, however many there are.
            let phase = FRAME.mul_f64((index as f64 * 0.618_034).fract());
            sleep_until(began + ARRIVAL_EVERY * u32::try_from(index)? + phase).await;
            let call = Arc::new(Call::default());
            calls.push(Arc::clone(&call));
            load.begins(&call);
            let speech = speeches[index % speeches.len()].clone();
            callers.push(tokio::spawn(caller(system, speech, Arc::clone(&load), Arc::clone(&call))));
            if provider != Provider::Embedded {
                // Callers come one by one, so the next connection is this caller's.
                let accepted = timeout(PROVIDER_WITHIN, listener.accept()).await;
                let (stream, _) =
                    accepted.map_err(|_| anyhow::anyhow!("call {index} did not reach the provider"))??;
                stream.set_nodelay(true)?;
                let load = Arc::clone(&load);
                providers.push(match provider {
                    Provider::Raw => tokio::spawn(raw_provider(stream, load, call)),
                    Provider::Stages => tokio::spawn(stages::listen(stream, load, call, index)),
                    vendor => tokio::spawn(peer::serve(vendor, stream, load, call, play)),
                });
            }
        }
        let until = Instant::now() + GREETED_WITHIN;
        while load.greeted.load(Relaxed) < count {
            anyhow::ensure!(
                Instant::now() < until,
                "only {} of {count} callers were greeted",
                load.greeted.load(Relaxed)
            );
            tokio::time::sleep(FRAME).await;
        }
        Ok(Self { load, calls, callers, providers })
    }

    /// Hangs up everywhere and hands over what was measured.
    pub async fn end(self) -> anyhow::Result<Samples> {
        self.load.stop.cancel();
        for side in [self.callers, self.providers] {
            let ended = timeout(END_WITHIN, join_all(side)).await;
            for end in ended.map_err(|_| anyhow::anyhow!("some calls did not end"))? {
                end?;
            }
        }
        self.load.provider_stop.cancel();
        Ok(std::mem::take(&mut self.load.samples()))
    }
}

async fn caller(system: SocketAddr, speech: Speech, load: Arc<Load>, call: Arc<Call>) {
    let mut id = *Uuid::new_v4().as_bytes();
    id[..4].copy_from_slice(&CONTEXT_ID);
    let mut ear = Ear::default();
    let talk = async {
        call.dialled.set(Instant::now());
        let mut stream = TcpStream::connect(system).await?;
        stream.set_nodelay(true)?;
        let mut packet = BytesMut::new();
        Codec.encode(Frame::Id(Uuid::from_bytes(id)), &mut packet).map_err(into_io)?;
        stream.write_all(&packet).await?;
        let spoke = |event, now: Instant| match event {
            Spoke::Began => {
                call.ended.clear();
                call.up.set(now);
            }
            Spoke::Interrupts { since } => call.barge_in.set(now - since),
            Spoke::Ended => call.ended.set(now),
        };
        exchange(stream, &speech, &load, spoke, |now, peak| ear.hear(now, peak, &load, &call)).await
    };
    if let Err(error) = talk.await {
        tracing::debug!(%error, "a caller's connection broke");
        load.samples().lost += 1;
    }
    ear.end(Instant::now(), &load, &call);
    if call.broken.is_set() {
        load.samples().silences.push(ear.silence);
    }
}

async fn raw_provider(stream: TcpStream, load: Arc<Load>, call: Arc<Call>) {
    let heard = |now, peak| take_up(&call, &load, now, peak > LOUD_PEAK);
    let Ok(agent) = Speech::beeps(AGENT_LOUD, AGENT_CYCLE) else { return };
    // The callers notice when it breaks.
    let _ = exchange(stream, &agent, &load, |_, now| call.down.set(now), heard).await;
}

/// The provider heard something.
pub fn take_up(call: &Call, load: &Load, now: Instant, loud: bool) {
    if loud && let Some(took) = call.up.take(now) {
        load.note(|samples| samples.up.push(took));
    }
}

/// Says and hears a frame every 20 ms until the load stops. `spoke` is told where the speech
/// begins and ends, `heard` of every frame that came and its peak.
///
/// # Errors
///
/// When the other side closed first, or does not speak AudioSocket.
async fn exchange(
    mut stream: TcpStream,
    speech: &Speech,
    load: &Load,
    spoke: impl Fn(Spoke, Instant),
    mut heard: impl FnMut(Instant, u16),
) -> io::Result<()> {
    let mut clock = interval_at(Instant::now(), FRAME);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut inbox = BytesMut::with_capacity(4_096);
    let mut place = 0;
    loop {
        tokio::select! {
            biased;
            () = load.stop.cancelled() => return Ok(()),
            due = clock.tick() => {
                let now = Instant::now();
                load.note(|samples| samples.late.push(now.saturating_duration_since(due)));
                if let Some(event) = speech.event(place) {
                    spoke(event, now);
                }
                let packet = speech.frame(place);
                // A system that does not read is no reason for the load to be late.
                match stream.try_write(packet) {
                    Ok(written) => stream.write_all(&packet[written..]).await?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => load.note(|samples| samples.refused += 1),
                    Err(error) => return Err(error),
                }
                place += 1;
            }
            read = stream.read_buf(&mut inbox) => {
                if read? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let now = Instant::now();
                while let Some(frame) = Codec.decode(&mut inbox).map_err(into_io)? {
                    if let Frame::Audio { samples, .. } = frame {
                        heard(now, peak(&samples));
                    }
                }
            }
        }
    }
}

/// 500 Hz: whole periods in every frame.
pub fn tone(format: Format, length: Duration) -> Vec<u8> {
    let samples = (length.as_secs_f64() * f64::from(format.rate)).round() as usize;
    let sample = |index: usize| (LOUDNESS * (TAU * 500.0 * index as f32 / format.rate as f32).sin()) as i16;
    (0..samples).flat_map(|index| sample(index).to_le_bytes()).collect()
}

pub fn is_loud(samples: &[u8]) -> bool {
    peak(samples) > LOUD_PEAK
}

fn peak(samples: &[u8]) -> u16 {
    samples.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]).unsigned_abs()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loud_frame_can_be_told_from_silence() {
        assert!(is_loud(&tone(LEG, FRAME)));
        assert!(!is_loud(&[0; 320]));
    }
}
