//! What the media legs count. Every label is a closed set and exists from the start, so that a
//! dashboard sees a zero and not a gap.

mod faults;

pub use faults::{PathFault, RepairEnd, Suspicion};

use crate::config::Transport;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};
use std::time::Duration;

/// Audio that was thrown away, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Discard {
    /// Towards the caller: the socket would not take the frame.
    SocketFull,
    /// Towards the caller: the path was closed, or the system refused to send.
    NotSent,
    /// Towards the caller: a frame of no bytes, or of more than the transport carries.
    FrameSize,
    /// RTP from an address that is not the one Asterisk told.
    Stranger,
    /// Not readable as what it claims to be.
    Malformed,
    /// RTP of a payload type that this leg does not have.
    PayloadType,
    /// RTP older than what was already passed on.
    Late,
    /// RTP that was already passed on.
    Duplicate,
    /// A frame of AudioSocket or an event of a WebSocket that this version does not know, or at the wrong time.
    UnknownKind,
    /// An AudioSocket error frame, or the same of a WebSocket; it has no audio, and the call goes on.
    ErrorFrame,
    /// Towards the caller: Asterisk holds so much that it asked for a pause (WebSocket).
    PeerFull,
    /// Towards the caller: silence left out since Asterisk was behind, so that it catches up (WebSocket).
    Behind,
    /// Towards the caller: what waited in Asterisk when it asked for a pause (WebSocket).
    ThrownAway,
}

impl Discard {
    pub const ALL: [Self; 13] = [
        Self::SocketFull,
        Self::NotSent,
        Self::FrameSize,
        Self::Stranger,
        Self::Malformed,
        Self::PayloadType,
        Self::Late,
        Self::Duplicate,
        Self::UnknownKind,
        Self::ErrorFrame,
        Self::PeerFull,
        Self::Behind,
        Self::ThrownAway,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::SocketFull => "socket_full",
            Self::NotSent => "not_sent",
            Self::FrameSize => "frame_size",
            Self::Stranger => "stranger",
            Self::Malformed => "malformed",
            Self::PayloadType => "payload_type",
            Self::Late => "late",
            Self::Duplicate => "duplicate",
            Self::UnknownKind => "unknown_kind",
            Self::ErrorFrame => "error_frame",
            Self::PeerFull => "peer_full",
            Self::Behind => "behind",
            Self::ThrownAway => "thrown_away",
        }
    }
}

/// Why an AudioSocket or WebSocket connection never became a call's leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Closed or broken before it said who it is.
    Closed,
    /// Said nothing in time.
    Silent,
    /// Had said nothing when others needed its place.
    Crowded,
    /// What it said first was not which call it is.
    NotAnId,
    /// Its first bytes were not of the protocol.
    Malformed,
    /// Its call had given up waiting.
    TooLate,
    /// Nobody expected it, and the engine had no room to be asked.
    NotWanted,
    /// libopus had no memory for it.
    NoCodec,
}

impl Refusal {
    pub const ALL: [Self; 8] = [
        Self::Closed,
        Self::Silent,
        Self::Crowded,
        Self::NotAnId,
        Self::Malformed,
        Self::TooLate,
        Self::NotWanted,
        Self::NoCodec,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Silent => "silent",
            Self::Crowded => "crowded",
            Self::NotAnId => "not_an_id",
            Self::Malformed => "malformed",
            Self::TooLate => "too_late",
            Self::NotWanted => "not_wanted",
            Self::NoCodec => "no_codec",
        }
    }
}

/// What became of Opus on a leg that was to carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpusEnd {
    /// The leg carries the phone's packets.
    Spoken,
    /// The caller's phone does not speak it.
    NotSpoken,
}

impl OpusEnd {
    pub const ALL: [Self; 2] = [Self::Spoken, Self::NotSpoken];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Spoken => "spoken",
            Self::NotSpoken => "not_spoken",
        }
    }
}

/// Why a leg sent silence of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Filler {
    /// The call has not played anything yet.
    Start,
    /// The call paused for more than 60 ms: the engine is late.
    Starved,
}

impl Filler {
    pub const ALL: [Self; 2] = [Self::Start, Self::Starved];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Starved => "starved",
        }
    }
}

/// What the operating system refused while the engine went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketFault {
    Accept,
    Receive,
}

impl SocketFault {
    pub const ALL: [Self; 2] = [Self::Accept, Self::Receive];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Receive => "receive",
        }
    }
}

/// One value serves all legs. Counters are resolved once: a frame costs one atomic addition and no
/// look-up by label.
pub struct MediaCounters {
    sent: ByTransport,
    received: ByTransport,
    discarded: [IntCounter; Discard::ALL.len()],
    filler: [IntCounter; Filler::ALL.len()],
    refused: [IntCounter; Refusal::ALL.len()],
    socket_faults: [IntCounter; SocketFault::ALL.len()],
    lost: IntCounter,
    concealed: IntCounter,
    opus: [IntCounter; OpusEnd::ALL.len()],
    opus_concealed: IntCounter,
    jitter: HistogramVec,
    queue: HistogramVec,
    waits: Histogram,
    drift: HistogramVec,
    suspected: [IntCounter; Suspicion::ALL.len()],
    faults: [IntCounter; PathFault::ALL.len()],
    repairs: [IntCounter; RepairEnd::ALL.len()],
    repaired_within: Histogram,
}

/// In the order of [`ByTransport`].
const TRANSPORTS: [Transport; 3] = [Transport::AudioSocket, Transport::Rtp, Transport::WebSocket];

struct ByTransport {
    audiosocket: IntCounter,
    rtp: IntCounter,
    websocket: IntCounter,
}

impl MediaCounters {
    /// # Errors
    ///
    /// When the registry has metrics of these names already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let lost = IntCounter::new(
            "offhook_media_rtp_packets_lost_total",
            "RTP packets of callers missing from the sequence (a late one counts here as well)",
        )?;
        registry.register(Box::new(lost.clone()))?;
        let concealed = IntCounter::new(
            "offhook_media_rtp_packets_concealed_total",
            "Lost RTP packets of callers in whose place the sound before them was repeated, fading",
        )?;
        registry.register(Box::new(concealed.clone()))?;
        let opus_concealed = IntCounter::new(
            "offhook_media_opus_packets_concealed_total",
            "Messages of callers' Opus that were no packets, in whose place the sound before them went on, fading",
        )?;
        registry.register(Box::new(opus_concealed.clone()))?;
        Ok(Self {
            sent: ByTransport::new(registry, "offhook_media_frames_sent_total", "Frames sent for the call")?,
            received: ByTransport::new(
                registry,
                "offhook_media_frames_received_total",
                "Audio packets of callers passed on to the call",
            )?,
            discarded: family(
                registry,
                "offhook_media_discarded_total",
                "Frames and packets thrown away, in either direction",
                "cause",
                Discard::ALL.map(Discard::label),
            )?,
            filler: family(
                registry,
                "offhook_media_filler_frames_total",
                "Frames of silence a leg sent by itself: before the call spoke, or because it was late",
                "cause",
                Filler::ALL.map(Filler::label),
            )?,
            refused: family(
                registry,
                "offhook_media_connections_refused_total",
                "AudioSocket and WebSocket connections that did not become a call's leg",
                "cause",
                Refusal::ALL.map(Refusal::label),
            )?,
            socket_faults: family(
                registry,
                "offhook_media_socket_faults_total",
                "Refusals of the operating system on media sockets",
                "operation",
                SocketFault::ALL.map(SocketFault::label),
            )?,
            lost,
            concealed,
            opus: family(
                registry,
                "offhook_media_opus_legs_total",
                "Legs that were to carry Opus: whether the caller's phone speaks it, or samples are carried in its place",
                "outcome",
                OpusEnd::ALL.map(OpusEnd::label),
            )?,
            opus_concealed,
            jitter: by_transport(
                registry,
                "offhook_media_jitter_seconds",
                "Jitter of callers' audio as it arrives, once a second for each leg (RFC 3550, section 6.4.1).",
                &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1],
            )?,
            queue: by_transport(
                registry,
                "offhook_media_queue_frames",
                "Packets of a caller that had waited and came together, the most in each second.",
                &[1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 50.0],
            )?,
            waits: histogram(
                registry,
                "offhook_media_waiting_frames",
                "Frames that wait in Asterisk to be heard, asked once a second of each WebSocket.",
                &[1.0, 3.0, 10.0, 25.0, 50.0, 100.0, 250.0, 900.0],
            )?,
            drift: by_transport(
                registry,
                "offhook_media_drift_ppm",
                "How far callers' clocks are from ours, in parts per million, for each minute or more without a pause.",
                &[10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0],
            )?,
            suspected: family(
                registry,
                "offhook_media_suspect_total",
                "Legs whose first seconds make suspect that they are of another codec or rate",
                "what",
                Suspicion::ALL.map(Suspicion::label),
            )?,
            faults: family(
                registry,
                "offhook_media_faults_total",
                "Audio paths that broke while the caller was still there",
                "fault",
                PathFault::ALL.map(PathFault::label),
            )?,
            repairs: family(
                registry,
                "offhook_media_repairs_total",
                "What became of audio paths that were to be replaced in mid-call",
                "outcome",
                RepairEnd::ALL.map(RepairEnd::label),
            )?,
            repaired_within: histogram(
                registry,
                "offhook_media_repair_seconds",
                "From the moment a broken audio path is noticed until another one stands.",
                &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0],
            )?,
        })
    }

    /// Jitter of one leg, in seconds.
    pub fn cadence(&self, transport: Transport, jitter: f64) {
        self.jitter.with_label_values(&[transport.label()]).observe(jitter);
    }

    /// Packets that came together over one leg.
    pub fn queue(&self, transport: Transport, packets: u32) {
        self.queue.with_label_values(&[transport.label()]).observe(f64::from(packets));
    }

    /// Frames that wait in Asterisk.
    pub fn waits(&self, frames: u32) {
        self.waits.observe(f64::from(frames));
    }

    /// A caller's clock against ours; which of the two is fast does not matter to a histogram.
    pub fn drift(&self, transport: Transport, ppm: f64) {
        self.drift.with_label_values(&[transport.label()]).observe(ppm.abs());
    }

    pub fn suspected(&self, what: Suspicion) -> &IntCounter {
        &self.suspected[what as usize]
    }

    pub fn faults(&self, fault: PathFault) -> &IntCounter {
        &self.faults[fault as usize]
    }

    pub fn repairs(&self, end: RepairEnd) -> &IntCounter {
        &self.repairs[end as usize]
    }

    pub fn repaired(&self, within: Duration) {
        self.repairs(RepairEnd::Repaired).inc();
        self.repaired_within.observe(within.as_secs_f64());
    }

    pub fn sent(&self, transport: Transport) -> &IntCounter {
        self.sent.of(transport)
    }

    pub fn received(&self, transport: Transport) -> &IntCounter {
        self.received.of(transport)
    }

    pub fn discarded(&self, cause: Discard) -> &IntCounter {
        &self.discarded[cause as usize]
    }

    pub fn filler(&self, cause: Filler) -> &IntCounter {
        &self.filler[cause as usize]
    }

    pub fn refused(&self, cause: Refusal) -> &IntCounter {
        &self.refused[cause as usize]
    }

    pub fn socket_faults(&self, operation: SocketFault) -> &IntCounter {
        &self.socket_faults[operation as usize]
    }

    /// Lost RTP packets that were made up for.
    pub fn concealed(&self) -> &IntCounter {
        &self.concealed
    }

    pub fn opus(&self, end: OpusEnd) -> &IntCounter {
        &self.opus[end as usize]
    }

    /// Packets of Opus that could not be read.
    pub fn opus_concealed(&self) -> &IntCounter {
        &self.opus_concealed
    }

    /// RTP packets missing from the sequence.
    pub fn lost(&self) -> &IntCounter {
        &self.lost
    }
}

impl ByTransport {
    fn new(registry: &Registry, name: &str, help: &str) -> prometheus::Result<Self> {
        let [audiosocket, rtp, websocket] =
            family(registry, name, help, "transport", TRANSPORTS.map(Transport::label))?;
        Ok(Self { audiosocket, rtp, websocket })
    }

    fn of(&self, transport: Transport) -> &IntCounter {
        match transport {
            Transport::AudioSocket => &self.audiosocket,
            Transport::Rtp => &self.rtp,
            Transport::WebSocket => &self.websocket,
        }
    }
}

fn histogram(registry: &Registry, name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<Histogram> {
    let histogram = Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?;
    registry.register(Box::new(histogram.clone()))?;
    Ok(histogram)
}

fn by_transport(registry: &Registry, name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<HistogramVec> {
    let vec = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), &["transport"])?;
    registry.register(Box::new(vec.clone()))?;
    for transport in TRANSPORTS {
        vec.with_label_values(&[transport.label()]);
    }
    Ok(vec)
}

fn family<const N: usize>(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
    values: [&str; N],
) -> prometheus::Result<[IntCounter; N]> {
    let vec = IntCounterVec::new(Opts::new(name, help), &[label])?;
    registry.register(Box::new(vec.clone()))?;
    Ok(values.map(|value| vec.with_label_values(&[value])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_visible_as_zero_from_the_start_under_its_own_label() {
        let registry = Registry::new();
        let counters = MediaCounters::new(&registry).unwrap();
        for cause in Discard::ALL {
            counters.discarded(cause).inc();
        }
        let families = registry.gather();
        let discarded = families.iter().find(|family| family.name() == "offhook_media_discarded_total").unwrap();
        assert_eq!(discarded.get_metric().len(), Discard::ALL.len());
        assert!(discarded.get_metric().iter().all(|metric| metric.get_counter().get_value() == 1.0));
        assert_eq!(families.len(), 18);
        let by_transport = families.iter().filter(|family| {
            let labels = family.get_metric().iter().flat_map(prometheus::proto::Metric::get_label);
            labels.clone().any(|label| label.name() == "transport")
        });
        for family in by_transport {
            assert_eq!(family.get_metric().len(), TRANSPORTS.len(), "{}", family.name());
        }
    }

    #[test]
    fn what_the_log_says_of_a_suspicion_is_one_line_of_single_spaces() {
        for suspicion in Suspicion::ALL {
            assert!(
                !suspicion.describe().contains(['\n', '\t']) && !suspicion.describe().contains("  "),
                "{suspicion:?}"
            );
        }
    }

    #[test]
    fn a_registry_that_has_the_names_already_is_an_error_and_not_a_panic() {
        let registry = Registry::new();
        let _first = MediaCounters::new(&registry).unwrap();
        assert!(MediaCounters::new(&registry).is_err());
    }
}
