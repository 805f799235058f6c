use super::{
    codec::{DIGIT, ID, RATES},
    fuzz::decode_pieces,
    *,
};
use proptest::prelude::*;
use tokio_util::codec::Encoder;
use uuid::Uuid;

fn decode_all(bytes: &[u8]) -> (Vec<Frame>, bool) {
    decode_pieces([bytes])
}

fn encoded(frames: impl IntoIterator<Item = Frame>) -> BytesMut {
    let mut out = BytesMut::new();
    for frame in frames {
        Codec.encode(frame, &mut out).unwrap();
    }
    out
}

#[test]
fn frames_are_kind_length_and_payload() {
    let bytes = encoded([
        Frame::Id(Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10)),
        Frame::Digit('#'),
        Frame::Audio { rate: 16_000, samples: Bytes::from_static(&[1, 2, 3, 4]) },
        Frame::HangUp,
    ]);
    let expected = [
        &[0x01, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0x03, 0, 1, b'#'][..],
        &[0x12, 0, 4, 1, 2, 3, 4, 0, 0, 0],
    ]
    .concat();
    assert_eq!(bytes, expected);
}

#[test]
fn each_audio_kind_has_its_rate() {
    for (kind, rate) in (0x10..=0x18).zip([8_000, 12_000, 16_000, 24_000, 32_000, 44_100, 48_000, 96_000, 192_000]) {
        let samples = Bytes::from_static(&[7, 7]);
        assert_eq!(decode_all(&[kind, 0, 2, 7, 7]).0, [Frame::Audio { rate, samples }]);
    }
}

#[test]
fn keys_are_those_of_a_telephone() {
    for key in b"0123456789*#ABCD" {
        assert_eq!(decode_all(&[DIGIT, 0, 1, *key]).0, [Frame::Digit(char::from(*key))]);
    }
    assert_eq!(decode_all(&[DIGIT, 0, 1, b'd']).0, [Frame::Digit('D')]);
    for payload in [&[DIGIT, 0, 0][..], &[DIGIT, 0, 2, b'1', b'2'], &[DIGIT, 0, 1, b'!'], &[DIGIT, 0, 1, 0xff]] {
        assert_eq!(decode_all(payload).0, [Frame::Malformed { kind: DIGIT }]);
    }
}

#[test]
fn a_known_kind_with_a_wrong_payload_is_malformed_and_the_next_frame_is_read() {
    let bytes =
        [&[ID, 0, 2, 1, 2][..], &[0x10, 0, 0], &[0x10, 0, 3, 1, 2, 3], &[0xff, 0, 1, 9], &[0x05, 0, 0], &[0x19, 0, 0]];
    let frames = decode_all(&bytes.concat()).0;
    assert_eq!(
        frames,
        [
            Frame::Malformed { kind: ID },
            Frame::Malformed { kind: 0x10 },
            Frame::Malformed { kind: 0x10 },
            Frame::Error,
            Frame::Unknown { kind: 0x05 },
            Frame::Unknown { kind: 0x19 },
        ]
    );
}

#[test]
fn a_frame_beyond_the_limit_is_an_error_as_soon_as_its_header_is_seen() {
    let mut inbox = BytesMut::from(&[0x10, 0x40, 0x01][..]);
    assert!(matches!(Codec.decode(&mut inbox), Err(CodecError::Oversize { kind: 0x10, length: 16_385 })));
    let samples = Bytes::from(vec![0; MAX_PAYLOAD + 2]);
    assert!(Codec.encode(Frame::Audio { rate: 8_000, samples }, &mut BytesMut::new()).is_err());
}

/// T7: no frame of another kind.
#[test]
fn what_is_not_of_the_protocol_cannot_be_sent() {
    for frame in [
        Frame::Unknown { kind: 9 },
        Frame::Malformed { kind: 1 },
        Frame::Digit('é'),
        Frame::Audio { rate: 11_025, samples: Bytes::new() },
    ] {
        assert!(matches!(Codec.encode(frame, &mut BytesMut::new()), Err(CodecError::NotSendable)));
    }
}

#[test]
fn audio_of_every_rate_becomes_the_legs_own_and_keeps_its_length() {
    for format in [Format::SLIN8, Format::SLIN16] {
        for rate in RATES {
            let mut intake = Intake::new(format);
            let frame = Bytes::from(vec![0; rate as usize / 50 * 2]);
            let bytes: usize =
                (0..50).filter_map(|_| intake.convert(rate, frame.clone())).map(|audio| audio.len()).sum();
            let missing = (50 * format.frame_bytes()).abs_diff(bytes);
            assert!(missing <= format.frame_bytes(), "one second at {rate} Hz became {bytes} bytes of {format}");
        }
    }
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let samples = proptest::collection::vec(any::<[u8; 2]>(), 1..400);
    prop_oneof![
        Just(Frame::HangUp),
        Just(Frame::Error),
        any::<u128>().prop_map(|id| Frame::Id(Uuid::from_u128(id))),
        proptest::sample::select(b"0123456789*#ABCD".to_vec()).prop_map(|key| Frame::Digit(char::from(key))),
        (proptest::sample::select(RATES.to_vec()), samples)
            .prop_map(|(rate, samples)| Frame::Audio { rate, samples: samples.concat().into() }),
    ]
}

proptest! {
    #[test]
    fn any_frames_come_back_however_the_stream_is_cut(
        frames in proptest::collection::vec(any_frame(), 0..8),
        piece in 1_usize..700,
    ) {
        let bytes = encoded(frames.clone());
        prop_assert_eq!(decode_pieces(bytes.chunks(piece)), (frames, false));
    }

    #[test]
    fn any_bytes_give_the_same_frames_however_they_are_cut(
        bytes in proptest::collection::vec(any::<u8>(), 0..4_000),
        piece in 1_usize..100,
    ) {
        let (frames, failed) = decode_pieces(bytes.chunks(piece));
        prop_assert_eq!(decode_all(&bytes), (frames.clone(), failed));
        // Whatever it is, the reader's conversion takes it.
        let mut intake = Intake::new(Format::SLIN8);
        for frame in frames {
            if let Frame::Audio { rate, samples } = frame {
                intake.convert(rate, samples);
            }
        }
    }
}
