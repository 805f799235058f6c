//! `VoiceMail()`: a greeting, a beep, and what the caller says until they are silent.

use super::{
    apps::listen,
    channel::{Ear, Sent},
    frame::{Frame, resampled},
    state::Switch,
};
use crate::kit::audio::{Sound, silence, speech, tone};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

/// The only mailbox, as in `voicemail.conf`.
const MAILBOX: &str = "100";
/// `maxsilence`.
const SILENCE: Duration = Duration::from_secs(2);
/// A mean amplitude below this is silence.
const THRESHOLD: i64 = 128;

/// `mailbox` may name its context, `default`.
pub async fn run(switch: &Switch, id: &str, mailbox: &str) {
    let box_only = mailbox.split('@').next().unwrap_or_default();
    if box_only != MAILBOX {
        switch.with(|state| {
            state.logs("WARNING", &format!("No entry in voicemail config file for '{box_only}'"));
            state.assign(id, "VMSTATUS", "FAILED");
        });
        return;
    }
    switch.with(|state| state.answer(id));
    let greeting = speech(Duration::from_secs(2)) + silence(Duration::from_millis(200));
    play(switch, id, greeting + tone(1_400.0, Duration::from_millis(200))).await;
    switch.with(|state| state.logs("VERBOSE", "Recording the message"));
    let sent = listen(switch, id);
    let mut message = Message { switch: switch.clone(), sound: Sound::default() };
    record(sent, &mut message.sound).await;
    drop(message);
    switch.with(|state| {
        if let Some(channel) = state.channels.get_mut(id) {
            channel.ear = Ear::Nobody;
        }
        state.assign(id, "VMSTATUS", "SUCCESS");
    });
}

async fn play(switch: &Switch, id: &str, sound: Sound) {
    let mut ticks = interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for frame in sound.samples.chunks(160) {
        ticks.tick().await;
        switch.with(|state| state.write(id, &Frame::linear(8_000, frame.to_vec())));
    }
}

/// Until nothing was heard for a while.
async fn record(mut sent: tokio::sync::mpsc::UnboundedReceiver<Sent>, sound: &mut Sound) {
    let mut loud = Instant::now();
    let mut resampler = None;
    loop {
        match timeout_at(loud + SILENCE, sent.recv()).await {
            Ok(Some(Sent::Audio(Frame::Linear { rate, samples }))) => {
                let level: i64 = samples.iter().map(|sample| i64::from(sample.unsigned_abs())).sum();
                if level > THRESHOLD * samples.len() as i64 {
                    loud = Instant::now();
                }
                sound.samples.extend(resampled(&mut resampler, &samples, rate, 8_000));
            }
            Ok(Some(Sent::Digit('#'))) | Ok(None) | Err(_) => return,
            Ok(Some(_)) => {}
        }
    }
}

/// Kept also where the caller hangs up within it.
struct Message {
    switch: Switch,
    sound: Sound,
}

impl Drop for Message {
    fn drop(&mut self) {
        let sound = std::mem::take(&mut self.sound);
        self.switch.with(|state| state.voicemails.entry(MAILBOX.to_owned()).or_default().push(sound));
    }
}
