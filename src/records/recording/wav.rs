//! The files: WAV, 16 bits, two channels, and what can be seen of one without its being heard.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
};

/// Bytes before the samples.
pub const HEAD: u64 = 44;
/// Bytes of one sample of both sides.
pub const SAMPLE: u64 = 4;
/// What a file of this kind can hold: its lengths are written with 32 bits. At 8 kHz that is 37 hours.
pub const DATA_MAX: u64 = u32::MAX as u64 - HEAD;
/// Columns of a waveform: more than any screen has.
const COLUMNS_MAX: usize = 10_000;
/// Bytes that are read at once, however long the call was.
const PIECE: usize = 64 * 1024;

/// What stands before so many bytes of samples.
pub fn head(rate: u32, data: u64) -> [u8; HEAD as usize] {
    let length = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    let mut head = [0; HEAD as usize];
    let parts: [&[u8]; 9] = [
        b"RIFF",
        &length(data + HEAD - 8),
        b"WAVEfmt \x10\0\0\0\x01\0\x02\0",
        &rate.to_le_bytes(),
        &length(u64::from(rate) * SAMPLE),
        b"\x04\0\x10\0",
        b"data",
        &length(data),
        &[],
    ];
    let mut at = 0;
    for part in parts {
        head[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    head
}

/// The rate of a recording of this engine's, whatever it says of its length; `None`: this is no head of one.
pub fn rate(found: &[u8; HEAD as usize]) -> Option<u32> {
    let number = |at: usize| u32::from_le_bytes([found[at], found[at + 1], found[at + 2], found[at + 3]]);
    let rate = number(24);
    (rate > 0 && *found == head(rate, u64::from(number(40)))).then_some(rate)
}

/// How loud both sides were over time: of each column the highest sample, 0 to 32,768.
#[derive(Debug, Clone, PartialEq)]
pub struct Waveform {
    pub seconds: f64,
    pub caller: Vec<u16>,
    pub agent: Vec<u16>,
}

/// What can be told of a recording without reading through it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sound {
    rate: u32,
    samples: u64,
}

impl Sound {
    /// Reads the head; what the head promises beyond the end of the file is not there.
    ///
    /// # Errors
    /// When the file cannot be read, or (`InvalidData`, `UnexpectedEof`) is no recording of this engine's.
    pub fn of(file: &mut File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(0))?;
        let mut found = [0; HEAD as usize];
        file.read_exact(&mut found)?;
        let Some(rate) = rate(&found) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this file is no recording of a call"));
        };
        let promised = u64::from(u32::from_le_bytes([found[40], found[41], found[42], found[43]]));
        Ok(Self { rate, samples: promised.min(length.saturating_sub(HEAD)) / SAMPLE })
    }

    pub fn seconds(self) -> f64 {
        self.samples as f64 / f64::from(self.rate)
    }
}

impl Waveform {
    /// Reads through a recording, which may still be growing, 64 kB at a time; there are as many columns as wanted, 10,000
    /// at most, or one per sample of a very short one.
    ///
    /// # Errors
    /// As those of [`Sound::of`].
    pub fn read(file: &mut File, columns: usize) -> io::Result<Self> {
        let sound = Sound::of(file)?;
        let samples = sound.samples;
        let columns = (columns.clamp(1, COLUMNS_MAX) as u64).min(samples);
        let mut peaks = [vec![0; columns as usize], vec![0; columns as usize]];
        let mut piece = vec![0; PIECE];
        let mut sample = 0;
        for column in 0..columns {
            let end = ((column + 1) * samples).div_ceil(columns);
            let mut loudest = [0; 2];
            while sample < end {
                let bytes = ((end - sample) * SAMPLE).min(PIECE as u64) as usize;
                file.read_exact(&mut piece[..bytes])?;
                for pair in piece[..bytes].chunks_exact(SAMPLE as usize) {
                    loudest[0] = i16::from_le_bytes([pair[0], pair[1]]).unsigned_abs().max(loudest[0]);
                    loudest[1] = i16::from_le_bytes([pair[2], pair[3]]).unsigned_abs().max(loudest[1]);
                }
                sample += bytes as u64 / SAMPLE;
            }
            for (side, peak) in peaks.iter_mut().zip(loudest) {
                side[column as usize] = peak;
            }
        }
        let [caller, agent] = peaks;
        Ok(Self { seconds: sound.seconds(), caller, agent })
    }
}
