//! What a caller notices.

use super::{AUDIBLE_PEAK, Call, LOUD_PEAK, Load};
use offhook::audio::FRAME;
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::time::Instant;

/// An agent that was interrupted is silent when nothing has been heard of it for so long.
const SILENT: Duration = Duration::from_millis(300);
/// Who is heard again so soon after that was interrupted for a moment only.
const GOES_ON_WITHIN: Duration = Duration::from_millis(900);

#[derive(Default)]
pub struct Ear {
    last: Option<Instant>,
    last_audible: Option<Instant>,
    /// The longest one since the provider's session ended.
    pub silence: Duration,
    /// When the agent fell silent because it was interrupted.
    stopped: Option<Instant>,
}

impl Ear {
    /// A frame came, as loud as this.
    pub fn hear(&mut self, now: Instant, peak: u16, load: &Load, call: &Call) {
        self.gap(now, load);
        self.last = Some(now);
        self.interrupted(now, SILENT, load, call);
        if peak <= AUDIBLE_PEAK {
            return;
        }
        if self.stopped.take().is_some_and(|at| now < at + SILENT + GOES_ON_WITHIN) {
            load.note(|samples| samples.went_on += 1);
        }
        self.silent_until(now, call);
        self.last_audible = Some(now);
        if let Some(took) = call.dialled.take(now) {
            // It comes before the window, and belongs to the figures all the same.
            load.samples().set_up.push(took);
            load.greeted.fetch_add(1, Relaxed);
        }
        if peak > LOUD_PEAK
            && let Some(took) = call.down.take(now)
        {
            load.note(|samples| samples.down.push(took));
            if let Some(asked) = call.asked.clear() {
                load.note(|samples| samples.share.push(asked + took));
            }
        }
    }

    /// Whether the agent has been silent for so long since it was interrupted.
    fn interrupted(&mut self, now: Instant, silent: Duration, load: &Load, call: &Call) {
        let Some(at) = call.barge_in.get() else { return };
        let last = self.last_audible.map_or(at, |last| last.max(at));
        if now > last + silent {
            call.barge_in.take(now);
            self.stopped = Some(last);
            load.note(|samples| samples.barge_in.push(last - at));
        }
    }

    /// The call is over.
    pub fn end(&mut self, now: Instant, load: &Load, call: &Call) {
        self.gap(now, load);
        self.silent_until(now, call);
        // Who still speaks was not interrupted; but when the interruption came just before the end, nobody knows.
        if let Some(in_vain) = call.barge_in.take(now).filter(|in_vain| *in_vain > SILENT) {
            load.note(|samples| samples.barge_in.push(in_vain));
        }
    }

    /// Nothing was heard until now, since the last sound or since the provider's session ended.
    fn silent_until(&mut self, now: Instant, call: &Call) {
        if let Some(broken) = call.broken.get() {
            let since = self.last_audible.map_or(broken, |last| last.max(broken));
            self.silence = self.silence.max(now.saturating_duration_since(since));
        }
    }

    /// Every 20 ms a frame is due. A gap of 40 ms means that a whole slot has passed without one.
    fn gap(&mut self, now: Instant, load: &Load) {
        let Some(last) = self.last else { return };
        let gap = now.saturating_duration_since(last);
        let slots = u64::try_from(gap.as_millis() / FRAME.as_millis()).unwrap_or(u64::MAX);
        load.note(|samples| {
            samples.missed += slots.saturating_sub(1);
            samples.longest_gap = samples.longest_gap.max(gap);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_missed_when_two_frames_are_40_ms_apart() {
        let load = Load::default();
        load.record();
        let start = Instant::now();
        for (gap, missed) in [(0, 0), (39, 0), (40, 1), (61, 2)] {
            let mut ear = Ear { last: Some(start), ..Ear::default() };
            load.samples().missed = 0;
            ear.gap(start + Duration::from_millis(gap), &load);
            assert_eq!(load.samples().missed, missed, "{gap} ms");
        }
    }

    #[test]
    fn an_interruption_counts_until_the_agents_last_sound_before_a_silence() {
        let (start, load, call) = (Instant::now(), Load::default(), Call::default());
        let at = |ms| start + Duration::from_millis(ms);
        load.record();
        let mut ear = Ear::default();
        call.barge_in.set(at(5));
        (0..=80).step_by(20).for_each(|ms| ear.hear(at(ms), 12_000, &load, &call));
        (100..=400).step_by(20).for_each(|ms| ear.hear(at(ms), 0, &load, &call));
        assert_eq!(load.samples().barge_in, [Duration::from_millis(75)]);
        assert_eq!(load.samples().went_on, 0);
        ear.hear(at(420), 12_000, &load, &call);
        assert_eq!(load.samples().went_on, 1);
        call.barge_in.set(at(425));
        (440..=2_000).step_by(20).for_each(|ms| ear.hear(at(ms), 12_000, &load, &call));
        ear.end(at(2_020), &load, &call);
        assert_eq!(load.samples().barge_in[1], Duration::from_millis(1_595), "it was never silent");
    }

    #[test]
    fn an_interruption_just_before_the_end_of_a_call_says_nothing() {
        let (start, load, call) = (Instant::now(), Load::default(), Call::default());
        let at = |ms| start + Duration::from_millis(ms);
        load.record();
        let mut ear = Ear::default();
        call.barge_in.set(at(5));
        (0..=20).step_by(20).for_each(|ms| ear.hear(at(ms), 12_000, &load, &call));
        (40..=100).step_by(20).for_each(|ms| ear.hear(at(ms), 0, &load, &call));
        ear.end(at(105), &load, &call);
        assert_eq!(load.samples().barge_in, []);
    }

    #[test]
    fn silence_counts_from_the_end_of_the_session_or_from_the_last_sound_after_it() {
        let (start, load, call) = (Instant::now(), Load::default(), Call::default());
        let at = |ms| start + Duration::from_millis(ms);
        let mut ear = Ear::default();
        ear.hear(at(0), 12_000, &load, &call);
        call.broken.set(at(500));
        assert_eq!(ear.silence, Duration::ZERO, "what was silent before is not its doing");
        ear.hear(at(520), 0, &load, &call);
        ear.hear(at(800), 12_000, &load, &call);
        assert_eq!(ear.silence, Duration::from_millis(300));
        ear.hear(at(820), 300, &load, &call);
        ear.silent_until(at(1_820), &call);
        assert_eq!(ear.silence, Duration::from_secs(1));
    }
}
