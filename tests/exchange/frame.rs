use crate::kit::audio::{Sound, tone};
use crate::kit::exchange::frame::*;
use std::time::Duration;

#[test]
fn a_tone_is_the_same_tone_at_every_rate_and_no_frame_is_longer_than_it_was() {
    let said = tone(700.0, Duration::from_secs(1)).samples;
    for (name, rate) in LINEAR {
        let (mut up, mut down, mut heard) = (None, None, Vec::new());
        for frame in said.chunks(160) {
            let there = resampled(&mut up, frame, 8_000, rate);
            assert_eq!(there.len(), rate as usize / 50, "{name}");
            heard.extend(resampled(&mut down, &there, rate, 8_000));
        }
        assert_eq!(heard.len(), said.len(), "{name}");
        let heard = Sound { samples: heard };
        assert!(heard.time_of(700.0) >= Duration::from_millis(980), "{name}: {:?}", heard.spans_of(700.0));
        assert!((8_000.0..8_400.0).contains(&heard.part(Duration::from_millis(100)..heard.length()).rms()), "{name}");
    }
}

#[test]
fn what_a_narrow_channel_cannot_carry_is_not_heard_as_something_else() {
    // Twice as many samples a second: 6 kHz.
    let high = tone(3_000.0, Duration::from_secs(1)).samples;
    let mut down = None;
    let heard: Vec<i16> = high.chunks(320).flat_map(|frame| resampled(&mut down, frame, 16_000, 8_000)).collect();
    assert!(Sound { samples: heard }.part(Duration::from_millis(40)..Duration::MAX).is_silent());
}
