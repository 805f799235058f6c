//! Impaired telephone lines: clipping, levels, DC offset, comfort noise, packet loss, echo. Each changes the caller's frames.

use std::collections::VecDeque;

/// Samples of 20 ms.
pub const FRAME_SAMPLES: usize = 160;
/// Frames from the agent's voice to its echo: with a packet's own time, 150 ms.
const ECHO_FRAMES: usize = 7;
/// Gain of the echo: -12 dB.
const ECHO_GAIN: f32 = 0.25;
/// Amplitudes of noise at -60 dBFS and at -25 dBFS. The level of noise between -1 and 1 is -4.8 dB.
const COMFORT_NOISE: f32 = 56.0;
const WHITE_NOISE: f32 = 3_192.0;
/// One of so many packets is lost: 5 %.
const LOST_ONE_OF: u64 = 20;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Line {
    #[default]
    Good,
    /// The telephone's microphone is overdriven.
    Clipped,
    /// Speech at -5 dBFS.
    Loud,
    /// Speech at -45 dBFS.
    Quiet,
    /// A constant is added to each sample.
    Offset,
    /// Noise at -60 dBFS stands in for silence.
    ComfortNoise,
    /// Packets are lost, and nothing comes in their place.
    Loss,
    /// The agent comes back.
    Echo,
    /// White noise 5 dB below the caller's speech.
    WhiteNoise,
}

impl Line {
    pub const HARD: [Self; 8] = [
        Self::Clipped,
        Self::Loud,
        Self::Quiet,
        Self::Offset,
        Self::ComfortNoise,
        Self::Loss,
        Self::Echo,
        Self::WhiteNoise,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "a good line",
            Self::Clipped => "a clipping telephone",
            Self::Loud => "a line at -5 dBFS",
            Self::Quiet => "a line at -45 dBFS",
            Self::Offset => "a line with a DC offset",
            Self::ComfortNoise => "a line with comfort noise",
            Self::Loss => "a line that loses 5 % of the packets",
            Self::Echo => "a line with an echo of -12 dB after 150 ms",
            Self::WhiteNoise => "a line with white noise 5 dB below",
        }
    }

    /// Changes the caller's n-th frame; `false`: it is lost.
    pub fn carries(self, number: u64, frame: &mut [f32; FRAME_SAMPLES], echo: &Echo) -> bool {
        let mut each = |change: &dyn Fn(usize, f32) -> f32| {
            frame.iter_mut().enumerate().for_each(|(at, sample)| *sample = change(at, *sample));
        };
        match self {
            Self::Good => {}
            Self::Clipped => each(&|_, sample| (sample * 8.0).clamp(-8_000.0, 8_000.0)),
            Self::Loud => each(&|_, sample| sample * 5.6),
            Self::Quiet => each(&|_, sample| sample * 0.056),
            Self::Offset => each(&|_, sample| sample + 1_500.0),
            Self::ComfortNoise => each(&|at, sample| sample + noise_at(number, at) * COMFORT_NOISE),
            Self::Loss => return !scattered(number).is_multiple_of(LOST_ONE_OF),
            Self::Echo => each(&|at, sample| sample + echo.sample(at)),
            Self::WhiteNoise => each(&|at, sample| sample + noise_at(number, at) * WHITE_NOISE),
        }
        true
    }
}

/// Frames that left for the caller and come back later.
#[derive(Debug, Default)]
pub struct Echo(VecDeque<Vec<i16>>);

impl Echo {
    pub fn played(&mut self, samples: &[i16]) {
        self.0.push_back(samples.to_vec());
        if self.0.len() > ECHO_FRAMES {
            self.0.pop_front();
        }
    }

    fn sample(&self, at: usize) -> f32 {
        let oldest = self.0.front().filter(|_| self.0.len() == ECHO_FRAMES);
        oldest.and_then(|frame| frame.get(at)).map_or(0.0, |sample| f32::from(*sample) * ECHO_GAIN)
    }
}

/// A number that looks like chance and is the same in each run.
const fn scattered(number: u64) -> u64 {
    // The finalizer of SplitMix64.
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// White noise between -1 and 1, at this sample of the n-th frame.
fn noise_at(frame: u64, sample: usize) -> f32 {
    (scattered(frame * FRAME_SAMPLES as u64 + sample as u64) >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
}
