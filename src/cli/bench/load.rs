//! The load: callers on one side of the system under test, an emulated provider on the other, in
//! one process on one core. All times are taken here, so both ends of every latency share a clock.

use super::{
    peer::{self, Play},
    samples::{Mark, Samples},
};
use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use offhook::{
    asterisk::audiosocket::{Codec, CodecError, Frame},
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
const LEG: Format = Format::SLIN8;
const LOUDNESS: f32 = 12_000.0;
/// Far above what silence becomes on any way, far below a loud frame.
const LOUD_PEAK: u16 = 4_000;
/// Anything but silence: what a telephone would play as some sound.
const AUDIBLE_PEAK: u16 = 200;
/// A provider's word that the caller speaks is settled after so long: what is heard then is too late.
const BARGE_IN_SETTLED: Duration = Duration::from_millis(300);

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
    /// In the system under test itself.
    Embedded,
}

#[derive(Default)]
pub struct Load {
    /// Samples count from here on.
    recording: AtomicBool,
    samples: Mutex<Samples>,
    greeted: AtomicUsize,
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
    /// The provider said that the caller speaks.
    pub barge_in: Mark,
    /// The provider's session is to end when this is cancelled, and when it was.
    pub breaks: CancellationToken,
    pub broken: Mark,
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

impl Calls {
    /// Brings all calls up, one after the other, each greeted.
    pub async fn begin(
        count: usize,
        system: SocketAddr,
        provider: Provider,
        play: Play,
        listener: &TcpListener,
    ) -> anyhow::Result<Self> {
        let (load, mut calls) = (Arc::new(Load::default()), Vec::with_capacity(count));
        let (mut callers, mut providers) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let began = Instant::now();
        for index in 0..count {
            // The golden ratio spreads the callers' 20 ms clocks evenly, however many there are.
            let phase = FRAME.mul_f64((index as f64 * 0.618_034).fract());
            sleep_until(began + ARRIVAL_EVERY * u32::try_from(index)? + phase).await;
            let call = Arc::new(Call::default());
            calls.push(Arc::clone(&call));
            callers.push(tokio::spawn(caller(system, Arc::clone(&load), Arc::clone(&call))));
            if provider != Provider::Embedded {
                // Callers come one by one, so the next connection is this caller's.
                let accepted = timeout(PROVIDER_WITHIN, listener.accept()).await;
                let (stream, _) =
                    accepted.map_err(|_| anyhow::anyhow!("call {index} did not reach the provider"))??;
                stream.set_nodelay(true)?;
                let load = Arc::clone(&load);
                providers.push(match provider {
                    Provider::OpenAi => tokio::spawn(peer::serve::<peer::OpenAi>(stream, load, call, play)),
                    Provider::Gemini => tokio::spawn(peer::serve::<peer::Gemini>(stream, load, call, play)),
                    Provider::Deepgram => tokio::spawn(peer::serve::<peer::Deepgram>(stream, load, call, play)),
                    Provider::ElevenLabs => tokio::spawn(peer::serve::<peer::ElevenLabs>(stream, load, call, play)),
                    Provider::Raw | Provider::Embedded => tokio::spawn(raw_provider(stream, load, call)),
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

async fn caller(system: SocketAddr, load: Arc<Load>, call: Arc<Call>) {
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
        exchange(stream, CALLER, &load, |at| call.up.set(at), |now, peak| ear.hear(now, peak, &load, &call)).await
    };
    if let Err(error) = talk.await {
        tracing::debug!(%error, "a caller's connection broke");
        load.samples().lost += 1;
    }
    ear.gap(Instant::now(), &load);
    ear.silent_until(Instant::now(), &call);
    if call.broken.is_set() {
        load.samples().silences.push(ear.silence);
    }
}

async fn raw_provider(stream: TcpStream, load: Arc<Load>, call: Arc<Call>) {
    let heard = |now, peak| take_up(&call, &load, now, peak > LOUD_PEAK);
    // The callers notice when it breaks.
    let _ = exchange(stream, AGENT, &load, |at| call.down.set(at), heard).await;
}

/// The provider heard something.
pub fn take_up(call: &Call, load: &Load, now: Instant, loud: bool) {
    if loud && let Some(took) = call.up.take(now) {
        load.note(|samples| samples.up.push(took));
    }
}

/// What a caller notices.
#[derive(Default)]
struct Ear {
    last: Option<Instant>,
    last_audible: Option<Instant>,
    /// The longest one since the provider's session ended.
    silence: Duration,
}

impl Ear {
    fn hear(&mut self, now: Instant, peak: u16, load: &Load, call: &Call) {
        self.gap(now, load);
        self.last = Some(now);
        if let Some(at) = call.barge_in.take_older(BARGE_IN_SETTLED, now) {
            let stopped = self.last_audible.map_or(Duration::ZERO, |last| last.saturating_duration_since(at));
            load.note(|samples| samples.barge_in.push(stopped));
        }
        if peak <= AUDIBLE_PEAK {
            return;
        }
        self.silent_until(now, call);
        self.last_audible = Some(now);
        if let Some(took) = call.dialled.take(now) {
            // It comes before the window, and belongs to the figures all the same.
            load.samples().set_up.push(took);
            load.greeted.fetch_add(1, Relaxed);
        }
        if peak > LOUD_PEAK
            && let Some(took) = call.down.take(now)
        {
            load.note(|samples| samples.down.push(took));
        }
    }

    /// Nothing was heard until now, since the last sound or since the provider's session ended.
    fn silent_until(&mut self, now: Instant, call: &Call) {
        if let Some(broken) = call.broken.get() {
            let since = self.last_audible.map_or(broken, |last| last.max(broken));
            self.silence = self.silence.max(now.saturating_duration_since(since));
        }
    }

    /// Every 20 ms a frame is due. A gap of 40 ms means that a whole slot has passed without one.
    fn gap(&mut self, now: Instant, load: &Load) {
        let Some(last) = self.last else { return };
        let gap = now.saturating_duration_since(last);
        let slots = u64::try_from(gap.as_millis() / FRAME.as_millis()).unwrap_or(u64::MAX);
        load.note(|samples| {
            samples.missed += slots.saturating_sub(1);
            samples.longest_gap = samples.longest_gap.max(gap);
        });
    }
}

/// So many loud frames at the beginning of each cycle; the others are silence.
#[derive(Clone, Copy)]
struct Voice {
    loud: usize,
    cycle: usize,
}

/// 100 ms in each second.
const CALLER: Voice = Voice { loud: 5, cycle: 50 };
/// Much as the emulated OpenAI server: 1.6 s of every 2 s.
const AGENT: Voice = Voice { loud: 80, cycle: 100 };

/// Says and hears a frame every 20 ms until the load stops. `spoke` is told when a loud frame after
/// silence is written, `heard` of every frame that came and its peak.
///
/// # Errors
///
/// When the other side closed first, or does not speak AudioSocket.
async fn exchange(
    mut stream: TcpStream,
    voice: Voice,
    load: &Load,
    spoke: impl Fn(Instant),
    mut heard: impl FnMut(Instant, u16),
) -> io::Result<()> {
    let (loud, quiet) = (packet(true)?, packet(false)?);
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
                if place == 0 {
                    spoke(now);
                }
                let packet = if place < voice.loud { &loud } else { &quiet };
                // A system that does not read is no reason for the load to be late.
                match stream.try_write(packet) {
                    Ok(written) => stream.write_all(&packet[written..]).await?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => load.note(|samples| samples.refused += 1),
                    Err(error) => return Err(error),
                }
                place = (place + 1) % voice.cycle;
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

fn packet(loud: bool) -> io::Result<Bytes> {
    let samples = if loud { tone(LEG, FRAME) } else { vec![0; LEG.frame_bytes()] };
    let mut packet = BytesMut::new();
    Codec.encode(Frame::Audio { rate: LEG.rate, samples: samples.into() }, &mut packet).map_err(into_io)?;
    Ok(packet.freeze())
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

fn into_io(error: CodecError) -> io::Error {
    match error {
        CodecError::Io(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loud_frame_can_be_told_from_silence() {
        assert!(is_loud(&tone(LEG, FRAME)));
        assert!(!is_loud(&[0; 320]));
    }

    #[test]
    fn a_slot_is_missed_when_two_frames_are_40_ms_apart() {
        let load = Load::default();
        load.record();
        let start = Instant::now();
        for (gap, missed) in [(0, 0), (39, 0), (40, 1), (61, 2)] {
            let mut ear = Ear { last: Some(start), ..Ear::default() };
            load.samples().missed = 0;
            ear.gap(start + Duration::from_millis(gap), &load);
            assert_eq!(load.samples().missed, missed, "{gap} ms");
        }
    }

    #[test]
    fn silence_counts_from_the_end_of_the_session_or_from_the_last_sound_after_it() {
        let (start, load, call) = (Instant::now(), Load::default(), Call::default());
        let at = |ms| start + Duration::from_millis(ms);
        let mut ear = Ear::default();
        ear.hear(at(0), 12_000, &load, &call);
        call.broken.set(at(500));
        assert_eq!(ear.silence, Duration::ZERO, "what was silent before is not its doing");
        ear.hear(at(520), 0, &load, &call);
        ear.hear(at(800), 12_000, &load, &call);
        assert_eq!(ear.silence, Duration::from_millis(300));
        ear.hear(at(820), 300, &load, &call);
        ear.silent_until(at(1_820), &call);
        assert_eq!(ear.silence, Duration::from_secs(1));
    }
}
