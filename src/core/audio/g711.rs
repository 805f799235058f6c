//! G.711 (ITU-T G.711): µ-law and A-law, one byte a sample.
//!
//! Tables, because every call does this 16,000 times a second; they are filled once from a
//! well-tested codec crate.

use audio_codec::{CodecType, create_decoder, create_encoder};
use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    Mu,
    A,
}

struct Tables {
    decode: [i16; 256],
    encode: Box<[u8; 65_536]>,
}

static MU: LazyLock<Tables> = LazyLock::new(|| Tables::new(CodecType::PCMU));
static A: LazyLock<Tables> = LazyLock::new(|| Tables::new(CodecType::PCMA));

impl Tables {
    fn new(codec: CodecType) -> Self {
        let bytes: Vec<u8> = (0..=255).collect();
        let samples: Vec<i16> = (0..=u16::MAX).map(u16::cast_signed).collect();
        let mut decode = [0; 256];
        for (slot, sample) in decode.iter_mut().zip(create_decoder(codec).decode(&bytes)) {
            *slot = sample;
        }
        let mut encode = Box::new([0; 65_536]);
        for (slot, byte) in encode.iter_mut().zip(create_encoder(codec).encode(&samples)) {
            *slot = byte;
        }
        // The crate's A-law encoder turns -8 into +8; a sample that is exactly a code's value is that code.
        for (code, sample) in (0..=255).zip(decode) {
            encode[usize::from(sample.cast_unsigned())] = code;
        }
        Self { decode, encode }
    }
}

fn tables(law: Law) -> &'static Tables {
    match law {
        Law::Mu => &MU,
        Law::A => &A,
    }
}

pub fn decode(law: Law, bytes: &[u8], out: &mut Vec<i16>) {
    let table = &tables(law).decode;
    out.extend(bytes.iter().map(|&byte| table[usize::from(byte)]));
}

pub fn encode(law: Law, samples: &[i16], out: &mut Vec<u8>) {
    let table = &tables(law).encode;
    out.extend(samples.iter().map(|&sample| table[usize::from(sample.cast_unsigned())]));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ITU-T G.711 tables 1a and 2a: the companding extremes and the zero codes.
    #[test]
    fn codes_are_those_of_the_standard() {
        let mut pcm = Vec::new();
        decode(Law::Mu, &[0x00, 0x80, 0xff, 0x7f], &mut pcm);
        assert_eq!(pcm, [-32_124, 32_124, 0, 0]);
        let mut bytes = Vec::new();
        encode(Law::Mu, &[0], &mut bytes);
        encode(Law::A, &[0], &mut bytes);
        assert_eq!(bytes, [0xff, 0xd5]);
    }

    #[test]
    fn every_code_survives_a_round_trip() {
        for law in [Law::Mu, Law::A] {
            let codes: Vec<u8> = (0..=255).collect();
            let (mut pcm, mut again, mut twice) = (Vec::new(), Vec::new(), Vec::new());
            decode(law, &codes, &mut pcm);
            encode(law, &pcm, &mut again);
            decode(law, &again, &mut twice);
            assert_eq!(pcm, twice);
        }
    }
}
