//! Opus (RFC 6716), packet by packet, by libopus: of callers whose packets Asterisk passes on as they are, and of VAM clients.
//!
//! A leg's own samples have 16 kHz: the rate at which listeners hear, and that of `websocket/slin16`, which a caller without
//! Opus gets instead, so nothing else of a call depends on what its caller's phone speaks. A peer may send stereo and any
//! bandwidth; libopus makes 16 kHz mono of all of it.
//!
//! A packet that never arrived cannot be known here. One that cannot be read is made up for by what libopus makes of the
//! sound before it, which fades.

use super::Format;
use audiopus::{
    Application, Bitrate, Channels, MutSignals, SampleRate,
    coder::{Decoder, Encoder},
    packet::Packet,
};
use bytes::Bytes;

/// What a leg of Opus gives and takes.
pub const FORMAT: Format = Format::SLIN16;
const RATE: SampleRate = SampleRate::Hz16000;
/// 20 ms: what stands for a packet that cannot be read.
const FRAME_SAMPLES: usize = 320;
/// No packet is longer than 120 ms (RFC 6716, section 2.1.4).
pub const SAMPLES_MAX: usize = 6 * FRAME_SAMPLES;
/// The most that one frame has (RFC 6716, section 3.2.1).
const PACKET_BYTES_MAX: usize = 1_275;
/// RFC 7587, section 3.1.1, recommends 16 to 20 kbit/s for wideband speech; the rest repeats it, for losses.
pub const BITS_PER_SECOND: u32 = 24_000;
/// Of ten: half the work of the most, at the same rate. It takes 0.6 % of a core a call, all in all.
const COMPLEXITY: u8 = 5;
/// What the encoder is to expect, and so how much each packet tells of the one before it.
const LOSS_PERCENT: u8 = 5;

/// From frames of the leg to packets.
pub struct Writer {
    encoder: Encoder,
    samples: Vec<i16>,
    packet: Box<[u8; PACKET_BYTES_MAX]>,
}

impl Writer {
    /// # Errors
    /// When libopus has no memory.
    pub fn new() -> audiopus::Result<Self> {
        let mut encoder = Encoder::new(RATE, Channels::Mono, Application::Voip)?;
        encoder.set_bitrate(Bitrate::BitsPerSecond(BITS_PER_SECOND as i32))?;
        encoder.set_complexity(COMPLEXITY)?;
        encoder.set_inband_fec(true)?;
        encoder.set_packet_loss_perc(LOSS_PERCENT)?;
        Ok(Self { encoder, samples: Vec::with_capacity(FRAME_SAMPLES), packet: Box::new([0; PACKET_BYTES_MAX]) })
    }

    /// The packet of one frame; `None` for what is no frame of 20 ms.
    pub fn packet(&mut self, frame: &[u8]) -> Option<Bytes> {
        if frame.len() != FORMAT.frame_bytes() {
            return None;
        }
        self.samples.clear();
        FORMAT.decode(frame, &mut self.samples);
        let length = self.encoder.encode(&self.samples, &mut self.packet[..]).ok()?;
        Some(Bytes::copy_from_slice(&self.packet[..length]))
    }
}

/// From packets to samples of the leg. It has to see them in order.
pub struct Reader {
    decoder: Decoder,
    samples: Box<[i16; SAMPLES_MAX]>,
}

/// What a message has become.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    Audio(Bytes),
    /// It was no packet; this stands for it.
    Concealed(Bytes),
}

impl Reader {
    /// # Errors
    /// When libopus has no memory.
    pub fn new() -> audiopus::Result<Self> {
        Ok(Self { decoder: Decoder::new(RATE, Channels::Mono)?, samples: Box::new([0; SAMPLES_MAX]) })
    }

    /// What one packet holds, or what stands for it.
    pub fn audio(&mut self, message: &[u8]) -> Heard {
        let packet = Packet::try_from(message).ok();
        // Without a packet libopus would make up as much as there is room for.
        let decoded = packet.and_then(|packet| self.decode(Some(packet), SAMPLES_MAX)).filter(|&count| count > 0);
        if let Some(count) = decoded {
            return Heard::Audio(self.bytes(count));
        }
        let made_up = self.decode(None, FRAME_SAMPLES);
        let count = made_up.unwrap_or_else(|| {
            self.samples[..FRAME_SAMPLES].fill(0);
            FRAME_SAMPLES
        });
        Heard::Concealed(self.bytes(count))
    }

    /// Samples per channel that were written, of `room` at most.
    fn decode(&mut self, packet: Option<Packet<'_>>, room: usize) -> Option<usize> {
        let output = MutSignals::try_from(&mut self.samples[..room]).ok()?;
        let count = self.decoder.decode(packet, output, false).ok()?;
        (count <= room).then_some(count)
    }

    fn bytes(&self, count: usize) -> Bytes {
        let mut bytes = Vec::with_capacity(count * FORMAT.bytes_per_sample());
        FORMAT.encode(&self.samples[..count], &mut bytes);
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rms_dbfs;
    use super::*;
    use std::f64::consts::TAU;

    fn tone(hertz: f64, frame: usize) -> Vec<u8> {
        let sample =
            |at: usize| ((TAU * hertz * (frame * FRAME_SAMPLES + at) as f64 / 16_000.0).sin() * 8_000.0) as i16;
        let samples: Vec<i16> = (0..FRAME_SAMPLES).map(sample).collect();
        let mut bytes = Vec::new();
        FORMAT.encode(&samples, &mut bytes);
        bytes
    }

    fn samples(heard: &Heard) -> Vec<i16> {
        let (Heard::Audio(bytes) | Heard::Concealed(bytes)) = heard;
        let mut samples = Vec::new();
        FORMAT.decode(bytes, &mut samples);
        samples
    }

    /// How much of it is a tone, between 0 and 1.
    fn share_of(hertz: f64, samples: &[i16]) -> f64 {
        let (mut sine, mut cosine, mut power) = (0.0, 0.0, 0.0);
        for (at, &sample) in samples.iter().enumerate() {
            let (angle, sample) = (TAU * hertz * at as f64 / 16_000.0, f64::from(sample));
            sine += sample * angle.sin();
            cosine += sample * angle.cos();
            power += sample * sample;
        }
        2.0 * (sine * sine + cosine * cosine) / (samples.len() as f64 * power.max(1.0))
    }

    /// A second of a tone as packets.
    fn packets() -> Vec<Bytes> {
        let mut writer = Writer::new().unwrap();
        (0..50).map(|frame| writer.packet(&tone(730.0, frame)).expect("a frame")).collect()
    }

    #[test]
    fn what_is_written_is_heard_again_twenty_milliseconds_a_packet() {
        let mut reader = Reader::new().unwrap();
        let mut heard = Vec::new();
        for packet in packets() {
            assert!(packet.len() < 200, "24 kbit/s are 60 bytes: {}", packet.len());
            let audio = reader.audio(&packet);
            assert!(matches!(audio, Heard::Audio(_)));
            assert_eq!(samples(&audio).len(), FRAME_SAMPLES);
            heard.extend(samples(&audio));
        }
        // After the codec's first moments.
        let share = share_of(730.0, &heard[4_800..]);
        assert!(share > 0.9, "{share}");
        let off = rms_dbfs(&heard[4_800..]) - (8_000.0 / 32_768.0_f32 / 2.0_f32.sqrt()).log10() * 20.0;
        assert!(off.abs() < 1.0, "{off} dB");
    }

    #[test]
    fn what_is_no_packet_is_made_up_for_and_the_next_one_is_heard() {
        let mut reader = Reader::new().unwrap();
        let packets = packets();
        packets[..25].iter().for_each(|packet| drop(reader.audio(packet)));
        // No bytes; a code 3 packet without its count; one whose frame would have too many bytes.
        for (number, wrong) in [&[][..], &[0x4b], &[0x48; 1_400]].into_iter().enumerate() {
            let heard = reader.audio(wrong);
            assert!(matches!(heard, Heard::Concealed(_)), "{number}");
            let made_up = samples(&heard);
            assert_eq!(made_up.len(), FRAME_SAMPLES, "{number}");
            if number == 0 {
                let share = share_of(730.0, &made_up);
                assert!(share > 0.4 && rms_dbfs(&made_up) > -25.0, "not the sound before it: {share}");
            }
        }
        for _ in 0..50 {
            let _ = reader.audio(&[]);
        }
        let faded = rms_dbfs(&samples(&reader.audio(&[])));
        assert!(faded < -60.0, "it fades: {faded}");
        let heard: Vec<i16> = packets[25..].iter().flat_map(|packet| samples(&reader.audio(packet))).collect();
        assert!(share_of(730.0, &heard[3_200..]) > 0.9, "the caller is heard again");
    }

    #[test]
    fn a_packet_may_have_up_to_120_ms_and_two_channels() {
        let encoder = Encoder::new(SampleRate::Hz48000, Channels::Stereo, Application::Audio).unwrap();
        for milliseconds in [5, 10, 20, 40, 60] {
            let (mut packet, mut reader) = ([0; 4_000], Reader::new().unwrap());
            let length = encoder.encode(&vec![500; milliseconds * 96], &mut packet).unwrap();
            let heard = reader.audio(&packet[..length]);
            assert_eq!(samples(&heard).len(), milliseconds * 16, "{milliseconds} ms");
        }
        // Six frames of 20 ms, without a bit in them (RFC 6716, section 3.2.5).
        let longest = [0x4b, 0x06];
        let heard = Reader::new().unwrap().audio(&longest);
        assert_eq!((matches!(heard, Heard::Audio(_)), samples(&heard).len()), (true, SAMPLES_MAX));
    }

    #[test]
    fn what_is_no_frame_is_no_packet() {
        let mut writer = Writer::new().unwrap();
        for bytes in [0, 1, 320, 639, 641, 1_280] {
            assert_eq!(writer.packet(&vec![0; bytes]), None, "{bytes}");
        }
    }
}
