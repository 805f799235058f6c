use super::*;
use crate::asterisk::{
    counters::Filler,
    hub::{
        BindError,
        tests::{Lab, event, eventually},
    },
};
use proptest::prelude::*;
use std::net::{Ipv4Addr, UdpSocket as StdSocket};

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
    let mut packets = Packetizer::new(8);
    packets.sequence = u16::MAX;
    packets.timestamp = u32::MAX - 100;
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
    let mut packets = Packetizer::new(0);
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
    let (one, two) = (Packetizer::new(0), Packetizer::new(0));
    assert_ne!((one.ssrc, one.sequence, one.timestamp), (two.ssrc, two.sequence, two.timestamp));
}

#[test]
fn packets_of_no_or_too_many_bytes_are_not_made() {
    let mut packets = Packetizer::new(0);
    assert!(packets.packet(&[]).is_none());
    assert!(packets.packet(&[0; MAX_PAYLOAD + 1]).is_none());
    assert!(packets.packet(&[0; MAX_PAYLOAD]).is_some());
}

/// What becomes of packets with these sequence numbers: how many were missing, or why not passed on.
fn order<const N: usize>(sequences: [u16; N]) -> [Result<u16, Discard>; N] {
    let mut order = Order::default();
    sequences.map(|sequence| order.place(sequence))
}

#[test]
fn order_is_kept_across_the_wrap() {
    assert_eq!(order([65_534, 65_535, 0, 1]), [Ok(0); 4]);
}

#[test]
fn gaps_count_as_lost_and_what_comes_after_all_is_late() {
    use Discard::{Duplicate, Late};
    assert_eq!(order([10, 13, 12, 12, 13, 14]), [Ok(0), Ok(2), Err(Late), Err(Duplicate), Err(Duplicate), Ok(0)]);
    assert_eq!(order([65_535, 1, 0, 0]), [Ok(0), Ok(1), Err(Late), Err(Duplicate)]);
}

#[test]
fn a_jump_is_believed_when_the_next_packet_follows_on() {
    use Discard::Late;
    assert_eq!(order([10, 9_000, 9_001, 9_002]), [Ok(0), Err(Late), Ok(0), Ok(0)]);
    assert_eq!(order([9_000, 10, 11]), [Ok(0), Err(Late), Ok(0)]);
    assert_eq!(order([10, 9_000, 11, 12]), [Ok(0), Err(Late), Ok(0), Ok(0)], "a stray packet changes nothing");
}

#[test]
fn what_is_not_audio_of_this_leg_is_told_by_its_cause() {
    let mut packets = Depacketizer::new(0);
    assert_eq!(packets.read(&[]), Err(Discard::Malformed));
    assert_eq!(packets.read(&[0x40; 172]), Err(Discard::Malformed), "version 1");
    assert_eq!(packets.read(&packet(101, 1, 1, &[1, 2, 3, 4])), Err(Discard::PayloadType));
    assert_eq!(packets.read(&packet(13, 1, 1, &[1])), Err(Discard::PayloadType));
    assert_eq!(packets.read(&packet(8, 1, 1, &[1])), Err(Discard::PayloadType));
    assert_eq!(packets.read(&packet(0, 1, 1, &[])), Err(Discard::Malformed));
    assert_eq!(packets.read(&packet(0, 1, 1, &[9])), Ok(Arrived { payload: &[9], lost: 0 }));
}

#[test]
fn a_new_stream_of_the_same_sender_begins_its_own_count() {
    let mut packets = Depacketizer::new(0);
    assert!(packets.read(&packet(0, 1, 500, &[1])).is_ok());
    assert_eq!(packets.read(&packet(0, 2, 499, &[2])), Ok(Arrived { payload: &[2], lost: 0 }));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Depacketizer::new(0).read(&bytes);
        let mut bytes = bytes;
        // Version 2, and the leg's own payload type: further into the parser.
        if let [first, second, ..] = &mut bytes[..] {
            (*first, *second) = (*first & 0x3f | 0x80, *second & 0x80);
        }
        let _ = Depacketizer::new(0).read(&bytes);
    }

    #[test]
    fn a_shuffled_stream_is_passed_on_in_order_without_repeats_and_every_gap_is_told(
        start in any::<u16>(),
        delays in proptest::collection::vec(0..WINDOW - 1, 1..300),
    ) {
        let mut order = Order::default();
        let mut last: Option<u16> = None;
        for (index, delay) in (0_u16..).zip(delays) {
            let sequence = start.wrapping_add(index).wrapping_sub(delay);
            if let Ok(lost) = order.place(sequence) {
                if let Some(last) = last {
                    prop_assert_eq!(sequence, last.wrapping_add(1).wrapping_add(lost));
                }
                last = Some(sequence);
            }
        }
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
    for (sequence, byte) in [(65_535, 1), (65_535, 1), (1, 2), (0, 9), (2, 3)] {
        call.send(&packet(0, 1, sequence, &[byte; FRAME_BYTES]));
    }
    for byte in 1..=3 {
        call.hears(&[byte; FRAME_BYTES]).await;
    }
    eventually("all are counted", || call.discarded(Discard::Stranger) == 1).await;
    assert_eq!(call.discarded(Discard::Malformed), 2);
    assert_eq!(call.discarded(Discard::PayloadType), 1);
    assert_eq!(call.discarded(Discard::Duplicate), 1);
    assert_eq!(call.discarded(Discard::Late), 1);
    assert_eq!(call.lab.counters.lost().get(), 1);
    assert_eq!(call.lab.counters.received(Transport::Rtp).get(), 3);
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
async fn formats_without_a_static_payload_type_are_refused_before_a_port_is_taken() {
    let lab = Lab::start().await;
    assert!(matches!(lab.hub.bind_rtp(Format::SLIN16), Err(BindError::Format(Format::SLIN16))));
    lab.is_idle().await;
}

#[tokio::test]
async fn frames_of_a_wrong_size_are_refused_and_counted() {
    let mut call = Call::start(Format::ULAW).await;
    assert!(!call.leg.sender.play(Bytes::new()));
    assert!(!call.leg.sender.play(vec![0; MAX_PAYLOAD + 1].into()));
    assert_eq!(call.discarded(Discard::FrameSize), 2);
}
