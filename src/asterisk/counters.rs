//! What the media legs count. Every label is a closed set and exists from the start, so that a
//! dashboard sees a zero and not a gap.

use crate::config::Transport;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

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
}

impl Discard {
    pub const ALL: [Self; 12] = [
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
    /// What it said first was not which call it is.
    NotAnId,
    /// Its first bytes were not of the protocol.
    Malformed,
    /// Its call had given up waiting.
    TooLate,
    /// Nobody expected it, and the engine had no room to be asked.
    NotWanted,
}

impl Refusal {
    pub const ALL: [Self; 6] =
        [Self::Closed, Self::Silent, Self::NotAnId, Self::Malformed, Self::TooLate, Self::NotWanted];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Silent => "silent",
            Self::NotAnId => "not_an_id",
            Self::Malformed => "malformed",
            Self::TooLate => "too_late",
            Self::NotWanted => "not_wanted",
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
}

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
        })
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

    /// RTP packets missing from the sequence.
    pub fn lost(&self) -> &IntCounter {
        &self.lost
    }
}

impl ByTransport {
    fn new(registry: &Registry, name: &str, help: &str) -> prometheus::Result<Self> {
        let transports = [Transport::AudioSocket, Transport::Rtp, Transport::WebSocket].map(Transport::label);
        let [audiosocket, rtp, websocket] = family(registry, name, help, "transport", transports)?;
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
        assert_eq!(families.len(), 8);
    }

    #[test]
    fn a_registry_that_has_the_names_already_is_an_error_and_not_a_panic() {
        let registry = Registry::new();
        let _first = MediaCounters::new(&registry).unwrap();
        assert!(MediaCounters::new(&registry).is_err());
    }
}
