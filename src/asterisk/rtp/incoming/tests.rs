//! What a caller's packets become, packet by packet on a clock that is moved by hand.

use super::*;
use proptest::prelude::*;
use rtp_rs::{RtpPacketBuilder, Seq};

const FRAME_BYTES: usize = Format::ULAW.frame_bytes();

fn builder(payload_type: u8, ssrc: u32, sequence: u16, payload: &[u8]) -> RtpPacketBuilder<'_> {
    RtpPacketBuilder::new().payload_type(payload_type).ssrc(ssrc).sequence(Seq::from(sequence)).payload(payload)
}

/// A leg that hears packets.
struct Stage {
    incoming: Incoming,
    now: Instant,
    ready: VecDeque<Bytes>,
    counted: Tally,
}

impl Stage {
    fn new(format: Format) -> Self {
        Self { incoming: Incoming::new(format), now: Instant::now(), ready: VecDeque::new(), counted: Tally::default() }
    }

    fn take(&mut self, packet: &[u8]) -> Result<(), Discard> {
        let taken = self.incoming.take(packet, self.now, &mut self.ready);
        let Tally { received, lost, concealed, malformed } = self.incoming.tally();
        self.counted.received += received;
        self.counted.lost += lost;
        self.counted.concealed += concealed;
        self.counted.malformed += malformed;
        taken
    }

    /// µ-law whose every byte is `byte`.
    fn comes(&mut self, sequence: u16, byte: u8) -> Result<(), Discard> {
        self.take(&builder(0, 1, sequence, &[byte; FRAME_BYTES]).build().unwrap())
    }

    fn waits(&mut self, time: Duration) {
        self.now += time;
        self.incoming.late(self.now, &mut self.ready);
        // What is counted shows with the next packet.
    }

    /// The first byte of each piece that is heard.
    fn heard(&mut self) -> Vec<u8> {
        self.ready.drain(..).map(|audio| audio[0]).collect()
    }
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
fn what_comes_in_order_is_heard_in_the_moment_it_comes() {
    let mut stage = Stage::new(Format::ULAW);
    for sequence in [65_534, 65_535, 0, 1] {
        assert_eq!(stage.comes(sequence, 7), Ok(()));
        assert_eq!(stage.heard(), [7], "packet {sequence}");
        assert_eq!(stage.incoming.deadline(), None);
    }
}

#[test]
fn packets_that_overtook_others_are_heard_in_their_order_and_none_is_lost() {
    let mut stage = Stage::new(Format::ULAW);
    for (sequence, byte) in [(65_534, 1), (0, 3), (1, 4)] {
        assert_eq!(stage.comes(sequence, byte), Ok(()));
    }
    assert_eq!(stage.comes(0, 3), Err(Discard::Duplicate), "of one that waits");
    assert_eq!(stage.heard(), [1], "they wait for the one that is missing");
    assert_eq!(stage.comes(65_535, 2), Ok(()));
    assert_eq!(stage.heard(), [2, 3, 4]);
    assert_eq!(stage.incoming.deadline(), None);
    assert_eq!(stage.counted, Tally { received: 4, ..Tally::default() });
}

#[test]
fn a_packet_that_does_not_come_in_time_is_concealed_by_what_was_heard_before_it_fading() {
    let mut stage = Stage::new(Format::ULAW);
    // -8,031 in G.711.
    let loud = 0x1f;
    assert_eq!((stage.comes(1, loud), stage.comes(4, loud)), (Ok(()), Ok(())));
    assert_eq!(stage.heard().len(), 1);
    stage.waits(HOLD - Duration::from_millis(1));
    assert!(stage.heard().is_empty(), "it may still come");
    stage.waits(Duration::from_millis(1));
    let mut samples = Vec::new();
    stage.ready.drain(..).for_each(|audio| {
        assert_eq!(audio.len(), FRAME_BYTES);
        Format::ULAW.decode(&audio[..1], &mut samples);
    });
    let shares: Vec<f32> = samples.iter().map(|sample| f32::from(*sample) / f32::from(samples[2])).collect();
    assert!((shares[0] - 0.5).abs() < 0.05 && (shares[1] - 0.25).abs() < 0.05, "{shares:?}");
    assert_eq!(stage.comes(5, loud), Ok(()));
    assert_eq!(stage.counted, Tally { received: 3, lost: 2, concealed: 2, malformed: 0 });
    assert_eq!(stage.comes(2, loud), Err(Discard::Late), "its time is over");
    assert_eq!(stage.comes(2, loud), Err(Discard::Duplicate));
}

#[test]
fn a_longer_gap_is_not_waited_for_and_nothing_is_made_up_for_it() {
    let mut stage = Stage::new(Format::ULAW);
    for (sequence, byte) in [(1, 1), (5, 2)] {
        assert_eq!(stage.comes(sequence, byte), Ok(()));
    }
    assert_eq!(stage.heard(), [1, 2]);
    assert_eq!(stage.counted, Tally { received: 2, lost: 3, ..Tally::default() });
}

#[test]
fn what_waits_is_heard_before_a_stream_that_goes_on_elsewhere() {
    for sequence in [10, 90, 9_001] {
        let mut stage = Stage::new(Format::ULAW);
        for (sequence, byte) in [(1, 0xff), (3, 2)] {
            assert_eq!(stage.comes(sequence, byte), Ok(()));
        }
        if sequence == 9_001 {
            assert_eq!(stage.comes(9_000, 9), Err(Discard::Late), "a jump that nothing confirms yet");
        }
        assert_eq!(stage.comes(sequence, 3), Ok(()));
        assert_eq!(stage.heard(), [0xff, 0xff, 2, 3], "then {sequence}");
        assert_eq!(stage.incoming.deadline(), None);
    }
}

/// An outage of seconds is told as such; a stream that begins anew, and may be anywhere, is not.
#[test]
fn what_an_outage_has_cost_is_counted() {
    for (sequence, lost) in [(611, 609), (61_000, 0), (65_000, 0)] {
        let mut stage = Stage::new(Format::ULAW);
        assert_eq!(stage.comes(1, 2), Ok(()));
        assert_eq!(stage.comes(sequence, 2), Err(Discard::Late), "a jump that nothing confirms yet");
        assert_eq!(stage.comes(sequence + 1, 2), Ok(()));
        assert_eq!(stage.heard(), [2, 2]);
        assert_eq!(stage.counted, Tally { received: 2, lost, concealed: 0, malformed: 0 }, "{sequence}");
    }
}

#[test]
fn a_new_stream_of_the_same_sender_begins_its_own_count_and_the_old_one_is_heard_to_its_end() {
    let mut stage = Stage::new(Format::ULAW);
    for (sequence, byte) in [(500, 0xff), (502, 2)] {
        assert_eq!(stage.comes(sequence, byte), Ok(()));
    }
    assert_eq!(stage.take(&builder(0, 2, 499, &[3]).build().unwrap()), Ok(()));
    assert_eq!(stage.heard(), [0xff, 0xff, 2, 3]);
    assert_eq!(stage.counted, Tally { received: 3, lost: 1, concealed: 1, malformed: 0 });
}

#[test]
fn what_is_not_audio_of_this_leg_is_told_by_its_cause() {
    let mut stage = Stage::new(Format::ULAW);
    let packet = |payload_type, payload: &[u8]| builder(payload_type, 1, 1, payload).build().unwrap();
    assert_eq!(stage.take(&[]), Err(Discard::Malformed));
    assert_eq!(stage.take(&[0x40; 172]), Err(Discard::Malformed), "version 1");
    assert_eq!(stage.take(&packet(101, &[1, 2, 3, 4])), Err(Discard::PayloadType), "a telephone event");
    assert_eq!(stage.take(&packet(13, &[1])), Err(Discard::PayloadType), "comfort noise");
    assert_eq!(stage.take(&packet(8, &[1])), Err(Discard::PayloadType), "A-law");
    assert_eq!(stage.take(&packet(0, &[])), Err(Discard::Malformed));
    assert_eq!(stage.take(&packet(0, &[9])), Ok(()));
    assert_eq!(stage.heard(), [9]);
}

/// RFC 3550, section 5.1.
#[test]
fn padding_contributing_sources_and_extensions_are_not_audio() {
    let audio = [5; FRAME_BYTES];
    let mut stage = Stage::new(Format::ULAW);
    let padded = builder(0, 1, 1, &audio).padded(rtp_rs::Pad::round_to(64)).build().unwrap();
    assert!(padded.len() > 12 + FRAME_BYTES);
    let mixed = builder(0, 1, 2, &audio).add_csrc(7).add_csrc(8).build().unwrap();
    let extended = builder(0, 1, 3, &audio).extension(0xbede, &[1, 2, 3, 4, 5, 6, 7, 8]).build().unwrap();
    for packet in [padded, mixed, extended] {
        assert_eq!(stage.take(&packet), Ok(()));
        assert_eq!(stage.ready.pop_front().as_deref(), Some(&audio[..]));
    }
}

#[test]
fn padding_and_sources_that_are_longer_than_the_packet_are_malformed() {
    let mut stage = Stage::new(Format::ULAW);
    let whole = builder(0, 1, 1, &[5; 16]).build().unwrap();
    let mut padded = whole.clone();
    padded[0] |= 0x20;
    *padded.last_mut().unwrap() = 17;
    let mut mixed = whole.clone();
    mixed[0] |= 0x0f;
    let mut extended = whole.clone();
    extended[0] |= 0x10;
    for packet in [padded, mixed, extended] {
        assert_eq!(stage.take(&packet), Err(Discard::Malformed));
    }
    for cut in 0..12 {
        assert_eq!(stage.take(&whole[..cut]), Err(Discard::Malformed), "{cut} bytes");
    }
}

#[test]
fn a_wideband_leg_hears_samples_with_their_bytes_turned_round() {
    let mut stage = Stage::new(Format::SLIN16);
    assert_eq!(stage.take(&builder(118, 1, 1, &[1, 2, 3, 4]).build().unwrap()), Ok(()));
    assert_eq!(stage.ready.pop_front().as_deref(), Some(&[2, 1, 4, 3][..]));
    assert_eq!(stage.take(&builder(118, 1, 2, &[1, 2, 3]).build().unwrap()), Err(Discard::Malformed), "half a sample");
    assert_eq!(stage.take(&builder(0, 1, 3, &[1, 2]).build().unwrap()), Err(Discard::PayloadType));
}

proptest! {
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

    /// Neighbours that change places are heard as if they had not.
    #[test]
    fn neighbours_that_overtake_each_other_cost_nothing(start in any::<u16>(), swaps in proptest::collection::vec(any::<bool>(), 1..100)) {
        let mut stage = Stage::new(Format::ULAW);
        let mut bytes: Vec<u8> = (0..=2 * swaps.len() as u8).collect();
        for (pair, swap) in swaps.iter().enumerate() {
            if *swap {
                bytes.swap(2 * pair + 1, 2 * pair + 2);
            }
        }
        let mut heard = Vec::new();
        for byte in bytes {
            prop_assert_eq!(stage.comes(start.wrapping_add(byte.into()), byte), Ok(()));
            stage.waits(Duration::from_millis(5));
            heard.extend(stage.heard());
        }
        prop_assert_eq!(heard, (0..=2 * swaps.len() as u8).collect::<Vec<_>>());
        prop_assert_eq!(stage.counted.lost, 0);
    }
}
