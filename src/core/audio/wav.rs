//! WAV files that are still being written when they are read: a service cannot know how long its answer will be.

use super::{ClipError, Format};
use std::{borrow::Cow, io::Cursor};

const CHUNK_HEAD: usize = 8;

/// What stands before the samples of a file of 16-bit mono.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WavHead {
    pub format: Format,
    /// Where the samples begin, in bytes.
    pub start: usize,
    /// Bytes of samples, as the file says. A streamed one says far too many; `None`: it says none.
    pub length: Option<u32>,
}

impl WavHead {
    /// Reads the beginning of a file; `None` while the samples have not begun.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, ClipError> {
        let wav = match hound::WavReader::new(Cursor::new(with_true_length(bytes))) {
            Ok(wav) => wav,
            // Nothing but the end of what is there can keep memory from being read.
            Err(hound::Error::IoError(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let format = format(wav.spec())?;
        let block = block_bytes(bytes);
        if block != Some(2) {
            // 16 of more bits: what is told of the bits is true, and the samples are elsewhere.
            return Err(ClipError::Shape {
                bits: block.unwrap_or(0).saturating_mul(8),
                channels: 1,
                rate: format.rate,
            });
        }
        let start = wav.into_inner().position() as usize;
        let Some([.., a, b, c, d]) = bytes.get(..start) else { return Ok(None) };
        let length = Some(u32::from_le_bytes([*a, *b, *c, *d])).filter(|&length| length > 0);
        Ok(Some(Self { format, start, length }))
    }
}

/// The samples of a file, if they can be played here.
pub(super) fn format(spec: hound::WavSpec) -> Result<Format, ClipError> {
    let (bits, channels, rate) = (spec.bits_per_sample, spec.channels, spec.sample_rate);
    match spec.sample_format {
        hound::SampleFormat::Int => Format::of_pcm(bits, channels, rate),
        hound::SampleFormat::Float => Err(ClipError::Shape { bits, channels, rate }),
    }
}

/// The chunks of a file: where each begins behind its head, its name, and its length as it is written.
fn chunks(wav: &[u8]) -> impl Iterator<Item = (usize, [u8; 4], usize)> {
    // Behind "RIFF", the length of all, "WAVE".
    let mut at = 12_usize;
    std::iter::from_fn(move || {
        let [i, d, e, n, a, b, c, f] = *wav.get(at..at.checked_add(CHUNK_HEAD)?)? else { return None };
        let (start, length) = (at + CHUNK_HEAD, u32::from_le_bytes([a, b, c, f]) as usize);
        // Chunks begin at even places.
        at = start.saturating_add(length + length % 2);
        Some((start, [i, d, e, n], length))
    })
}

/// Bytes of one sample of every channel, if they are told by now. Of several formats the last before the samples holds, as for
/// the reader.
fn block_bytes(wav: &[u8]) -> Option<u16> {
    let before = chunks(wav).take_while(|(_, id, _)| id != b"data");
    let (format, ..) = before.filter(|(_, id, _)| id == b"fmt ").last()?;
    let [low, high] = *wav.get(format + 12..format + 14)? else { return None };
    Some(u16::from_le_bytes([low, high]))
}

/// The same file, its `data` chunk as long as the whole samples that are there.
pub(super) fn with_true_length(wav: &[u8]) -> Cow<'_, [u8]> {
    let Some((start, _, length)) = chunks(wav).find(|(_, id, _)| id == b"data") else { return wav.into() };
    let there = length.min(wav.len() - start) & !1;
    if there == length {
        return wav.into();
    }
    let mut wav = wav.to_vec();
    let there = u32::try_from(there).unwrap_or(u32::MAX - 1);
    wav[start - 4..start].copy_from_slice(&there.to_le_bytes());
    wav.into()
}

/// Any beginning of a file: a head is known once it is there and is the same with more behind it.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let head = WavHead::read(data);
    let Ok(Some(head)) = head else { return };
    assert!(head.start <= data.len());
    let more = [data, &[0; 16]].concat();
    assert!(matches!(WavHead::read(&more), Ok(Some(same)) if same == head), "another head with more behind it");
    assert!(matches!(WavHead::read(&data[..head.start]), Ok(Some(same)) if same == head), "another head by itself");
    assert!((8_000..=48_000).contains(&head.format.rate), "{:?}", head.format);
    if let Ok(clip) = super::Clip::from_wav(data) {
        assert!(clip.length() <= head.format.duration_of(data.len()), "a clip that is longer than its file");
    }
}

#[cfg(test)]
mod tests {
    use super::super::Encoding;
    use super::*;

    fn file(rate: u32, between: &[u8], length: u32) -> Vec<u8> {
        let mut wav = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        wav.extend(rate.to_le_bytes());
        wav.extend((rate * 2).to_le_bytes());
        wav.extend(b"\x02\0\x10\0");
        wav.extend(between);
        wav.extend(b"data");
        wav.extend(length.to_le_bytes());
        wav
    }

    #[test]
    fn a_head_is_known_as_soon_as_it_is_there_and_not_before() {
        for between in [&b""[..], b"LIST\x04\0\0\0INFO", b"fact\x04\0\0\0\0\0\0\0LIST\0\0\0\0"] {
            for (written, length) in [(u32::MAX, Some(u32::MAX)), (0, None), (4, Some(4))] {
                let wav = file(22_050, between, written);
                let format = Format { encoding: Encoding::Linear, rate: 22_050 };
                let head = WavHead { format, start: wav.len(), length };
                let with_samples = [&wav[..], &[1, 2, 3]].concat();
                for cut in 0..with_samples.len() {
                    let expected = (cut >= wav.len()).then_some(head);
                    assert_eq!(WavHead::read(&with_samples[..cut]).unwrap(), expected, "{cut} bytes, length {written}");
                }
            }
        }
    }

    /// Found by the fuzzer's property that a stream means the same however it is cut.
    #[test]
    fn half_a_sample_at_the_end_is_left_out_whether_it_has_come_or_not() {
        for data in [&b""[..], b"ab", b"abc", b"abcd"] {
            let wav = [&file(8_000, b"", 3)[..], data].concat();
            assert!(matches!(WavHead::read(&wav), Ok(Some(WavHead { length: Some(3), .. }))), "{} bytes", data.len());
        }
    }

    /// Found by the fuzzer: a file whose second format has wider places than its first was noise when it came at once.
    #[test]
    fn of_two_formats_the_last_one_holds() {
        let first = file(8_000, b"", 8);
        let mut second = first[12..36].to_vec();
        for (wide, refused) in [(2_u8, false), (4, true)] {
            second[16..20].copy_from_slice(&(8_000 * u32::from(wide)).to_le_bytes());
            second[20] = wide;
            let wav = [&file(8_000, &second, 8)[..], b"abcdefgh"].concat();
            let read = WavHead::read(&wav);
            assert_eq!(matches!(read, Err(ClipError::Shape { bits: 32, .. })), refused, "{wide} bytes: {read:?}");
            assert_eq!(matches!(read, Ok(Some(_))), !refused, "{wide} bytes: {read:?}");
        }
    }

    #[test]
    fn samples_in_wider_places_than_their_bits_are_refused_and_not_played_as_noise() {
        let mut wav = file(8_000, b"", 8);
        wav[28..32].copy_from_slice(&32_000_u32.to_le_bytes());
        wav[32..34].copy_from_slice(&4_u16.to_le_bytes());
        for data in [&b""[..], b"abcd"] {
            let wav = [&wav[..], data].concat();
            assert!(matches!(WavHead::read(&wav), Err(ClipError::Shape { bits: 32, .. })), "{} bytes", data.len());
        }
    }

    #[test]
    fn what_cannot_be_played_is_refused_by_its_head() {
        let shape = WavHead::read(&file(11_025, b"", u32::MAX)).unwrap_err();
        assert!(matches!(shape, ClipError::Shape { rate: 11_025, .. }), "{shape}");
        for garbage in ["ID3\x04 is no WAV file", "<!DOCTYPE html>", "RIFF----AVI "] {
            assert!(matches!(WavHead::read(garbage.as_bytes()), Err(ClipError::Wav(_))), "{garbage}");
        }
    }
}
