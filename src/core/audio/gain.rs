//! Louder and softer.

use super::{Encoding, Format, g711};
use bytes::Bytes;

/// The same audio at `gain` of its amplitude, 0 to 1.
pub fn attenuate(format: Format, bytes: &[u8], gain: f32) -> Bytes {
    let softer = |sample: i16| (f32::from(sample) * gain) as i16;
    let law = match format.encoding {
        Encoding::Linear => {
            let pairs = bytes.chunks_exact(2);
            return pairs.flat_map(|pair| softer(i16::from_le_bytes([pair[0], pair[1]])).to_le_bytes()).collect();
        }
        Encoding::Mulaw => g711::Law::Mu,
        Encoding::Alaw => g711::Law::A,
    };
    let (mut samples, mut out) = (Vec::with_capacity(bytes.len()), Vec::with_capacity(bytes.len()));
    g711::decode(law, bytes, &mut samples);
    samples.iter_mut().for_each(|sample| *sample = softer(*sample));
    g711::encode(law, &samples, &mut out);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_amplitude_is_a_quarter_in_every_encoding() {
        let samples: Vec<i16> = (0..160).map(|i| if i % 2 == 0 { 8_000 } else { -8_000 }).collect();
        let linear: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        for format in [Format::SLIN8, Format::ULAW, Format::ALAW] {
            let (mut loud, mut soft) = (Vec::new(), Vec::new());
            super::super::Converter::new(Format::SLIN8, format).push(&linear, &mut loud);
            super::super::Converter::new(format, Format::SLIN8).push(&attenuate(format, &loud, 0.25), &mut soft);
            let first = i16::from_le_bytes([soft[0], soft[1]]);
            assert!((1_900..=2_100).contains(&first), "{format}: {first}");
            assert_eq!(soft.len(), linear.len());
        }
    }
}
