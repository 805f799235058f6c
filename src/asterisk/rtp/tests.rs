use super::{payload::MAX_PAYLOAD, *};
use crate::asterisk::{
    counters::Filler,
    hub::{
        BindError,
        tests::{Lab, event, eventually},
    },
};
use rtp_rs::{RtpPacketBuilder, RtpReader, Seq};
use std::{
    net::{Ipv4Addr, UdpSocket as StdSocket},
    time::Duration,
};

const FRAME_BYTES: usize = Format::ULAW.frame_bytes();

fn packet(payload_type: u8, ssrc: u32, sequence: u16, payload: &[u8]) -> Vec<u8> {
    RtpPacketBuilder::new()
        .payload_type(payload_type)
        .ssrc(ssrc)
        .sequence(Seq::from(sequence))
        .payload(payload)
        .build()
        .unwrap()
}

#[test]
fn packets_count_on_and_only_the_first_is_marked() {
    let mut packets = Packetizer::new(Format::ALAW, Numbering::at(u16::MAX, u32::MAX - 100));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let bytes = packets.packet(&[0xd5; FRAME_BYTES]).unwrap().to_vec();
        packets.sent();
        let reader = RtpReader::new(&bytes).unwrap();
        assert_eq!((reader.payload_type(), reader.payload()), (8, &[0xd5; FRAME_BYTES][..]));
        seen.push((u16::from(reader.sequence_number()), reader.timestamp(), reader.mark()));
    }
    assert_eq!(seen, [(u16::MAX, u32::MAX - 100, true), (0, 59, false), (1, 219, false)]);
}

#[test]
fn a_packet_that_was_not_sent_leaves_a_gap_in_time_alone() {
    let mut packets = Packetizer::new(Format::ULAW, Numbering::random());
    let number = |bytes: &[u8]| {
        let reader = RtpReader::new(bytes).unwrap();
        (u16::from(reader.sequence_number()), reader.timestamp(), reader.mark())
    };
    let (sequence, timestamp, _) = number(packets.packet(&[0; FRAME_BYTES]).unwrap());
    let next = number(packets.packet(&[0; FRAME_BYTES]).unwrap());
    assert_eq!(next, (sequence, timestamp.wrapping_add(160), true));
}

#[test]
fn two_calls_do_not_begin_alike() {
    let (one, two) =
        (Packetizer::new(Format::ULAW, Numbering::random()), Packetizer::new(Format::ULAW, Numbering::random()));
    assert_ne!((one.ssrc, one.sequence, one.timestamp), (two.ssrc, two.sequence, two.timestamp));
}

/// Slots that were missed are gaps in time: what follows is not late for ever.
#[tokio::test(start_paused = true)]
async fn after_a_stall_the_timestamps_go_on_by_the_clock() {
    let mut packets = Packetizer::new(Format::ULAW, Numbering::random());
    let mut next = || {
        let bytes = packets.packet(&[0; FRAME_BYTES]).unwrap().to_vec();
        packets.sent();
        let reader = RtpReader::new(&bytes).unwrap();
        (u16::from(reader.sequence_number()), reader.timestamp(), reader.mark())
    };
    let (mut sequence, mut timestamp, _) = next();
    for late in [0, 7, 33] {
        // A little late is in time.
        tokio::time::advance(FRAME + Duration::from_millis(late)).await;
        (sequence, timestamp) = (sequence.wrapping_add(1), timestamp.wrapping_add(160));
        assert_eq!(next(), (sequence, timestamp, false), "{late} ms late");
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    // 100 ms and a second since the first.
    let after = next();
    assert_eq!(after, (sequence.wrapping_add(1), timestamp.wrapping_add(52 * 160), true));
}

/// As after the end of a media channel in mid-call: in the same bridge, for the same caller.
#[tokio::test(start_paused = true)]
async fn a_leg_in_the_place_of_another_one_goes_on_where_that_one_stopped() {
    let numbering = Numbering::random();
    let mut broken = Packetizer::new(Format::ULAW, numbering);
    for _ in 0..100_000 {
        broken.packet(&[0; FRAME_BYTES]).unwrap();
        broken.sent();
        tokio::time::advance(FRAME).await;
    }
    let next = Packetizer::new(Format::ULAW, numbering);
    assert_eq!(
        (next.sequence, next.timestamp),
        (broken.sequence, broken.timestamp),
        "33 minutes: the numbers have wrapped around"
    );
    assert_ne!(next.ssrc, broken.ssrc);
    tokio::time::advance(50 * FRAME).await;
    let late = Packetizer::new(Format::ULAW, numbering);
    assert_eq!(late.sequence, next.sequence.wrapping_add(50), "as if they had been lost");
    assert_eq!(late.timestamp, next.timestamp.wrapping_add(50 * 160));
}

#[test]
fn packets_of_no_or_too_many_bytes_are_not_made() {
    for (format, bytes) in [(Format::ULAW, MAX_PAYLOAD), (Format::SLIN16, 4 * MAX_PAYLOAD)] {
        let mut packets = Packetizer::new(format, Numbering::random());
        assert!(packets.packet(&[]).is_none());
        assert!(packets.packet(&vec![0; bytes + 4]).is_none());
        assert!(packets.packet(&vec![0; bytes]).is_some());
    }
}

/// Asterisk's side of an ExternalMedia channel, and the call's leg.
struct Call {
    lab: Lab,
    asterisk: StdSocket,
    ours: SocketAddr,
    leg: MediaLeg,
}

impl Call {
    async fn start(format: Format) -> Self {
        let lab = Lab::start().await;
        let asterisk = socket();
        let bound = lab.hub.bind_rtp(format).unwrap();
        let ours = SocketAddr::from((Ipv4Addr::LOCALHOST, bound.port()));
        let leg = bound.open(asterisk.local_addr().unwrap());
        Self { lab, asterisk, ours, leg }
    }

    fn send(&self, packet: &[u8]) {
        self.asterisk.send_to(packet, self.ours).unwrap();
    }

    async fn hears(&mut self, payload: &[u8]) {
        assert_eq!(event(&mut self.leg).await, Some(MediaEvent::Audio(Bytes::copy_from_slice(payload))));
    }

    fn discarded(&self, cause: Discard) -> u64 {
        self.lab.counters.discarded(cause).get()
    }
}

fn socket() -> StdSocket {
    let socket = StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    socket
}

/// T8: to where Asterisk said that it listens, before a packet came from there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_reaches_asterisk_before_anything_else_and_frames_leave_at_once() {
    for (format, payload_type) in [(Format::ULAW, 0), (Format::ALAW, 8)] {
        let mut call = Call::start(format).await;
        let mut buffer = [0; PACKET];
        let (length, from) = call.asterisk.recv_from(&mut buffer).unwrap();
        let first = RtpReader::new(&buffer[..length]).unwrap();
        assert_eq!(from, call.ours);
        assert_eq!((first.payload_type(), first.mark()), (payload_type, true));
        assert_eq!(first.payload(), vec![format.silence(); format.frame_bytes()]);
        let first = u16::from(first.sequence_number());

        assert!(call.leg.sender.play(vec![7; FRAME_BYTES].into()));
        for following in 1..100 {
            let length = call.asterisk.recv(&mut buffer).unwrap();
            let reader = RtpReader::new(&buffer[..length]).unwrap();
            assert_eq!(u16::from(reader.sequence_number()), first.wrapping_add(following));
            assert!(!reader.mark());
            if reader.payload() == [7; FRAME_BYTES] {
                break;
            }
            assert!(following < 99, "the frame never came");
        }
        assert!(call.lab.counters.filler(Filler::Start).get() >= 1);
    }
}

#[tokio::test]
async fn only_asterisks_own_packets_of_the_right_kind_reach_the_call_and_each_once() {
    let mut call = Call::start(Format::ULAW).await;
    let stranger = socket();
    stranger.send_to(&packet(0, 1, 1, &[66; FRAME_BYTES]), call.ours).unwrap();
    call.send(b"not RTP");
    call.send(&packet(101, 1, 1, &[1, 2, 3, 4]));
    call.send(&vec![0x80; PACKET + 10]);
    for (sequence, byte) in [(65_535, 1), (65_535, 1), (1, 3), (0, 2), (2, 4)] {
        call.send(&packet(0, 1, sequence, &[byte; FRAME_BYTES]));
    }
    for byte in 1..=4 {
        call.hears(&[byte; FRAME_BYTES]).await;
    }
    eventually("all are counted", || call.discarded(Discard::Stranger) == 1).await;
    assert_eq!(call.discarded(Discard::Malformed), 2);
    assert_eq!(call.discarded(Discard::PayloadType), 1);
    assert_eq!(call.discarded(Discard::Duplicate), 1);
    assert_eq!(call.discarded(Discard::Late), 0);
    assert_eq!(call.lab.counters.lost().get(), 0);
    assert_eq!(call.lab.counters.received(Transport::Rtp).get(), 4);
}

#[tokio::test]
async fn what_asterisk_sends_before_its_address_is_known_is_not_lost() {
    let lab = Lab::start().await;
    let asterisk = socket();
    let bound = lab.hub.bind_rtp(Format::ULAW).unwrap();
    asterisk.send_to(&packet(0, 1, 1, &[5; FRAME_BYTES]), (Ipv4Addr::LOCALHOST, bound.port())).unwrap();
    let mut leg = bound.open(asterisk.local_addr().unwrap());
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(vec![5; FRAME_BYTES].into())));
}

#[tokio::test]
async fn a_refusal_by_icmp_ends_nothing() {
    let mut call = Call::start(Format::ULAW).await;
    let address = call.asterisk.local_addr().unwrap();
    drop(std::mem::replace(&mut call.asterisk, socket()));
    for _ in 0..20 {
        assert!(call.leg.sender.play(vec![7; FRAME_BYTES].into()));
        tokio::task::yield_now().await;
    }
    call.asterisk = StdSocket::bind(address).unwrap();
    call.send(&packet(0, 1, 1, &[5; FRAME_BYTES]));
    call.hears(&[5; FRAME_BYTES]).await;
}

#[tokio::test]
async fn a_port_that_nobody_opens_and_a_leg_that_is_dropped_leave_nothing() {
    let call = Call::start(Format::ULAW).await;
    let bound = call.lab.hub.bind_rtp(Format::ALAW).unwrap();
    assert_eq!(call.lab.hub.open().rtp_ports, 2);
    let (port, ours) = (bound.port(), call.ours);
    drop(bound);
    drop(call.leg);
    call.lab.is_idle().await;
    for port in [port, ours.port()] {
        assert!(StdSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok(), "the socket is closed");
    }
}

/// T3: refused at once.
#[tokio::test]
async fn formats_that_asterisk_does_not_understand_are_refused_before_a_port_is_taken() {
    let lab = Lab::start().await;
    for format in [Format::SLIN8, Format::SLIN24] {
        assert!(matches!(lab.hub.bind_rtp(format), Err(BindError::Format(refused)) if refused == format));
    }
    lab.is_idle().await;
}

#[tokio::test]
async fn frames_of_a_wrong_size_are_refused_and_counted() {
    let mut call = Call::start(Format::ULAW).await;
    assert!(!call.leg.sender.play(Bytes::new()));
    assert!(!call.leg.sender.play(vec![0; MAX_PAYLOAD + 1].into()));
    assert_eq!(call.discarded(Discard::FrameSize), 2);
}

#[tokio::test]
async fn a_packet_that_never_comes_is_concealed_and_the_next_one_is_heard_without_it() {
    let mut call = Call::start(Format::ULAW).await;
    let silence = [Format::ULAW.silence(); FRAME_BYTES];
    call.send(&packet(0, 1, 1, &silence));
    call.send(&packet(0, 1, 3, &[7; FRAME_BYTES]));
    call.hears(&silence).await;
    call.hears(&silence).await;
    call.hears(&[7; FRAME_BYTES]).await;
    assert_eq!((call.lab.counters.lost().get(), call.lab.counters.concealed().get()), (1, 1));
}

/// A kilohertz, 20 ms a piece.
fn tone(frames: usize) -> Vec<Bytes> {
    let sample = |at: usize| (8_000.0 * (std::f32::consts::TAU * at as f32 / 16.0).sin()) as i16;
    let bytes: Vec<u8> = (0..frames * 320).flat_map(|at| sample(at).to_le_bytes()).collect();
    bytes.chunks(Format::SLIN16.frame_bytes()).map(Bytes::copy_from_slice).collect()
}

fn level(bytes: &[u8]) -> f32 {
    let mut samples = Vec::new();
    Format::SLIN16.decode(bytes, &mut samples);
    crate::audio::rms_dbfs(&samples)
}

/// RFC 3551, section 4.5.2: its clock runs at 8 kHz although it carries 16,000 samples a second.
#[test]
fn a_wideband_leg_speaks_g722_in_frames_of_160_ticks_and_hears_what_it_speaks() {
    let mut packets = Packetizer::new(Format::SLIN16, Numbering::random());
    let mut incoming = Incoming::new(Format::SLIN16);
    let (mut ready, mut timestamp) = (VecDeque::new(), packets.timestamp);
    for frame in tone(10) {
        let packet = packets.packet(&frame).unwrap().to_vec();
        packets.sent();
        let reader = RtpReader::new(&packet).unwrap();
        assert_eq!((reader.payload_type(), reader.payload().len(), reader.timestamp()), (9, 160, timestamp));
        timestamp = timestamp.wrapping_add(160);
        incoming.take(&packet, Instant::now(), &mut ready).unwrap();
    }
    let heard: Vec<u8> = ready.into_iter().flatten().collect();
    let said: Vec<u8> = tone(10).into_iter().flatten().collect();
    assert_eq!(heard.len(), said.len());
    let second_half = said.len() / 2;
    let (heard, said) = (level(&heard[second_half..]), level(&said[second_half..]));
    assert!((heard - said).abs() < 0.5, "{said} dB became {heard} dB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wideband_call_hears_samples_and_answers_in_g722() {
    let mut call = Call::start(Format::SLIN16).await;
    call.send(&packet(118, 1, 1, &[0x12, 0x34, 0x56, 0x78]));
    assert_eq!(event(&mut call.leg).await, Some(MediaEvent::Audio(Bytes::from_static(&[0x34, 0x12, 0x78, 0x56]))));
    let mut buffer = [0; PACKET];
    let length = call.asterisk.recv(&mut buffer).unwrap();
    let reader = RtpReader::new(&buffer[..length]).unwrap();
    assert_eq!((reader.payload_type(), reader.payload().len()), (9, 160));
}

/// What the old call's Asterisk still sends, until it has carried out the end of its channel.
#[tokio::test]
async fn a_port_that_serves_again_right_after_a_call_turns_the_old_calls_packets_away() {
    let only = loop {
        let port = socket().local_addr().unwrap().port();
        if port.is_multiple_of(2) {
            break port;
        }
    };
    let lab = Lab::with_ports(only..=only).await;
    let ours = (Ipv4Addr::LOCALHOST, only);
    let (old, new) = (socket(), socket());
    let mut leg = lab.hub.bind_rtp(Format::ULAW).unwrap().open(old.local_addr().unwrap());
    old.send_to(&packet(0, 1, 1, &[1; FRAME_BYTES]), ours).unwrap();
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(vec![1; FRAME_BYTES].into())));
    drop(leg);
    lab.is_idle().await;

    let bound = lab.hub.bind_rtp(Format::ULAW).unwrap();
    old.send_to(&packet(0, 1, 2, &[66; FRAME_BYTES]), ours).unwrap();
    let mut leg = bound.open(new.local_addr().unwrap());
    old.send_to(&packet(0, 1, 3, &[66; FRAME_BYTES]), ours).unwrap();
    new.send_to(&packet(0, 2, 2, &[2; FRAME_BYTES]), ours).unwrap();
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(vec![2; FRAME_BYTES].into())));
    assert_eq!(lab.counters.discarded(Discard::Stranger).get(), 2);
}

/// A call that says nothing for a while, as between two answers: the leg's own silence goes on counting, so that what
/// follows is heard when it is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_and_sequence_go_on_without_a_gap_through_silence_of_the_legs_own() {
    let mut call = Call::start(Format::ULAW).await;
    assert!(call.leg.sender.play(vec![7; FRAME_BYTES].into()));
    let (mut buffer, mut last, mut silences) = ([0; PACKET], None, 0);
    while silences < 5 {
        let length = call.asterisk.recv(&mut buffer).unwrap();
        let reader = RtpReader::new(&buffer[..length]).unwrap();
        let place = (u16::from(reader.sequence_number()), reader.timestamp());
        if let Some((sequence, timestamp)) = last.replace(place) {
            let (sequence, timestamp): (u16, u32) = (sequence, timestamp);
            assert_eq!(place, (sequence.wrapping_add(1), timestamp.wrapping_add(160)));
        }
        silences += usize::from(reader.payload()[0] == Format::ULAW.silence());
    }
}
