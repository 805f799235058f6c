//! Lines that bring the agent back to the engine: it is not stopped by itself, and where a caller's voice cannot be told
//! from it, nobody is stopped by voice. What is heard here is a real voice: tones are no speech, and set nothing off.

use crate::{
    desk::{Desk, Setting, has_heard},
    ear::{Caller, Echo},
    ms,
    support::{
        audio::Sound,
        speech,
        vendor::{Dialect, Order, Scenario, Seen, Vendor},
    },
    turns::{QUESTION, was_left_alone},
};
use std::{
    ops::{Range, RangeInclusive},
    time::Duration,
};
use tokio::sync::OnceCell;

/// As late as by two mobile networks.
const AFTER: Duration = ms(160);
/// A good telephone's, and that of a loudspeaker beside the microphone.
pub const WEAK: Echo = Echo { after: AFTER, loss_db: 18.0 };
const HEAVY: Echo = Echo { after: AFTER, loss_db: 3.0 };
/// How often it is taken for a voice until it is known, in the first seconds.
pub const ALARMS: RangeInclusive<f64> = 1.0..=6.0;
/// Longer than any pause in what the agent says.
const SILENT: Duration = ms(1_000);
/// From the caller's first sound until the agent must not be heard any more: the line has an echo, so that it may take longer
/// than on others.
const SILENCED_WITHIN: Duration = ms(400);

/// Six seconds and more of an agent's voice, at 8 kHz.
pub async fn voice() -> &'static [i16] {
    static VOICE: OnceCell<Vec<i16>> = OnceCell::const_new();
    let rendered = VOICE.get_or_init(|| async {
        let words = "We are open from Monday to Friday between nine in the morning and five in the afternoon, on Saturday \
                     until noon, and on Sunday we are closed all day long, but you can always leave a message after the tone";
        speech::render_all(&[words], "en-us").await.expect("espeak-ng speaks").remove(0)
    });
    rendered.await
}

/// How long it is audible.
pub fn audible(voice: &[i16]) -> Duration {
    let frames = voice.chunks(160).filter(|frame| !Sound { samples: frame.to_vec() }.is_silent());
    ms(20) * u32::try_from(frames.count()).expect("seconds")
}

/// The agent speaks, and is heard to its end; from when to when.
pub async fn is_heard_to_the_end(caller: &Caller, since: Duration) -> Range<Duration> {
    let whole = audible(voice().await);
    caller.until("the agent is heard", |tape| tape.loud_time(since..tape.now()) >= whole.mul_f64(0.85)).await;
    caller.hears_nothing_for(SILENT).await;
    let (heard, story) = caller.look(|tape| (tape.loud_time(since..tape.now()), format!("{tape:?}")));
    assert!(heard <= whole.mul_f64(1.15), "once: {heard:?} of {whole:?}; {story}");
    since..caller.now() - SILENT
}

async fn on_a_line<D: Dialect>(echo: Echo) -> (Vendor, Desk, Caller) {
    let vendor = Vendor::start::<D>(Scenario { words: Some(voice().await), ..Scenario::default() }).await;
    // Where much else runs the line stutters, as none does, and what comes back is no echo that could be measured.
    let setting = Setting { more_places: 2, ..Setting::default() };
    let desk = Desk::open(&[("first", vendor.yaml())], setting).await;
    let caller = desk.call().await;
    caller.has_echo(Some(echo));
    (vendor, desk, caller)
}

/// And a caller is heard through it.
pub async fn an_agent_is_not_stopped_by_its_own_echo<D: Dialect>() {
    let (vendor, desk, caller) = on_a_line::<D>(WEAK).await;
    is_heard_to_the_end(&caller, ms(0)).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    assert!(vendor.of(1, was_left_alone), "{:?}; {story}", vendor.of(1, |seen| seen.texts.clone()));
    let alarms = desk.metric("offhook_false_alarms_total");
    assert!(ALARMS.contains(&alarms), "it sounds like a voice, until it is known: {alarms}; {story}");
    let since = caller.now();
    vendor.order(1, Order::Speak);
    caller.until("the agent speaks", |tape| tape.loud_time(since..tape.now()) >= ms(1_500)).await;
    let more = desk.metric("offhook_false_alarms_total") - alarms;
    assert!(more <= 1.0, "now it is known: {more}; {story}");
    is_interrupted(&caller).await;
    assert_eq!(desk.metric("offhook_half_duplex_total"), 0.0);
    assert_eq!(vendor.of(1, |seen| seen.turns_ended), 1);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// By the caller, who is answered.
pub async fn is_interrupted(caller: &Caller) -> Range<Duration> {
    caller.says(QUESTION).await;
    let said = caller.has_spoken().await;
    let (over, story) = caller
        .look(|tape| (tape.loud_time(said.start + SILENCED_WITHIN..said.end.min(tape.now())), format!("{tape:?}")));
    assert_eq!(over, ms(0), "it is spoken over: {story}");
    caller.until("the caller is answered", |tape| tape.loud_time(said.end..tape.now()) >= ms(1_000)).await;
    said
}

/// By measurement, and not for ever: who speaks over the agent is not let in, who speaks when it has ended is; and when the
/// echo is gone, so is that.
pub async fn a_line_of_heavy_echo_is_half_duplex_until_it_is_gone<D: Dialect>() {
    let (vendor, desk, caller) = on_a_line::<D>(HEAVY).await;
    is_heard_to_the_end(&caller, ms(0)).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    assert_eq!(desk.metric("offhook_half_duplex_total"), 1.0, "it is found in the first answer: {story}");
    let since = caller.now();
    vendor.order(1, Order::Speak);
    caller.until("the agent speaks", |tape| tape.loud_time(since..tape.now()) >= ms(1_000)).await;
    caller.says(QUESTION).await;
    caller.has_spoken().await;
    is_heard_to_the_end(&caller, since).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    assert!(vendor.of(1, was_left_alone), "{:?}; {story}", vendor.of(1, |seen| seen.texts.clone()));
    // The agent is silent.
    caller.says(QUESTION).await;
    let said = caller.has_spoken().await;
    caller.has_echo(None);
    is_heard_to_the_end(&caller, said.end).await;
    let conversation = |seen: &Seen| (seen.turns_ended, seen.answered, seen.interrupted);
    assert_eq!(vendor.of(1, conversation), (1, 3, 0), "{}", caller.look(|tape| format!("{tape:?}")));
    has_heard("the vendor", &vendor, 1, &caller);
    // Four seconds without an echo have passed in that answer.
    let since = caller.now();
    vendor.order(1, Order::Speak);
    caller.until("the agent speaks", |tape| tape.loud_time(since..tape.now()) >= ms(1_000)).await;
    is_interrupted(&caller).await;
    desk.ends_with(&caller).await;
    vendor.is_content();
}
