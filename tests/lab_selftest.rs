//! The lab itself: what every scene relies on, with a real Asterisk and real phones as with emulated ones.

use crate::kit;

use kit::{
    asterisk::{Asterisk, DESK_HZ, DIGITS_HZ, LEAVES_HZ, Options, SLOW_HZ},
    audio::{Sound, silence, speech, tone},
    ms,
    phone::Phone,
};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);

crate::scenes! {
    real:
        a_caller_hears_its_own_tone_back_at_the_time_it_was_said,
        ringing_is_seen_before_the_answer_and_a_refusal_has_its_reason,
        a_listening_phone_is_called_and_both_hear_each_other,
        without_offhook_every_example_leads_to_a_human,
        asterisk_can_be_lost_and_come_back_in_mid_call;
    both:
        words_can_be_said_at_a_chosen_moment,
        time_without_packets_is_silence_in_the_recording,
        keys_arrive_in_order,
        the_other_side_hanging_up_ends_the_call,
        calls_of_no_length_end_cleanly,
        the_callers_name_and_number_arrive;
}

/// One second of the tone at its time, give or take what phone and Asterisk add.
fn assert_heard_once(heard: &Sound, hz: f64, begin: Duration, length: Duration) {
    let spans = heard.spans_of(hz);
    let [span] = spans[..] else { panic!("expected {hz} Hz once, heard {spans:?}") };
    assert!(span.begin.abs_diff(begin) <= ms(150), "{hz} Hz began at {:?}, said at {begin:?}", span.begin);
    assert!(span.length().abs_diff(length) <= ms(60), "{hz} Hz lasted {:?}, not {length:?}", span.length());
}

pub async fn a_caller_hears_its_own_tone_back_at_the_time_it_was_said() {
    let asterisk = Asterisk::start(Options::default()).await;
    let says = silence(ms(1000)) + tone(700.0, ms(1000)) + silence(ms(1000)) + tone(1100.0, ms(500));
    let mut phone = Phone::call(asterisk.sip_port(), "echo", says).await;
    phone.wait_established(SOON).await;
    phone.wait_to_hear(1100.0, ms(450), SOON).await;
    phone.hang_up().await;

    let heard = phone.heard();
    assert_heard_once(&heard, 700.0, ms(1000), ms(1000));
    assert_heard_once(&heard, 1100.0, ms(3000), ms(500));
    assert!(heard.part(ms(300)..ms(950)).rms() < 50.0, "silence before the tone");
    asterisk.wait_empty(SOON).await;
}

pub async fn words_can_be_said_at_a_chosen_moment() {
    let asterisk = Asterisk::start(Options::default()).await;
    let mut phone = Phone::call(asterisk.sip_port(), "echo", tone(500.0, ms(60_000))).await;
    phone.wait_to_hear(500.0, ms(600), SOON).await;
    phone.say(tone(700.0, ms(400))).await;
    phone.wait_to_hear(700.0, ms(350), SOON).await;
    phone.say(speech(ms(600)) + tone(900.0, ms(400))).await;
    phone.wait_to_hear(900.0, ms(350), SOON).await;
    phone.hang_up().await;
    let heard = phone.heard();
    let (first, second) = (heard.spans_of(500.0), heard.spans_of(700.0));
    assert!(first[0].end <= second[0].begin + ms(40), "the new words replace the old: {first:?} {second:?}");
}

pub async fn time_without_packets_is_silence_in_the_recording() {
    let asterisk = Asterisk::start(Options::default()).await;
    let mut phone = Phone::call(asterisk.sip_port(), "digits", Sound::default()).await;
    let established = phone.wait_established(SOON).await;
    // Read() sends nothing at all while it waits for keys.
    tokio::time::sleep_until(established + ms(1500)).await;
    let keys_at = established.elapsed();
    for key in ['1', '2', '*', '#'] {
        phone.dtmf(key).await;
    }
    phone.wait_to_hear(DIGITS_HZ, ms(500), SOON).await;
    phone.hang_up().await;
    let begin = phone.heard().spans_of(DIGITS_HZ)[0].begin;
    assert!(begin >= keys_at && begin <= keys_at + ms(1500), "keys at {keys_at:?}, confirmed at {begin:?}");
}

pub async fn keys_arrive_in_order() {
    let asterisk = Asterisk::start(Options::default()).await;
    let mut phone = Phone::call(asterisk.sip_port(), "digits", Sound::default()).await;
    phone.wait_established(SOON).await;
    for key in ['5', '*', '0', '9'] {
        phone.dtmf(key).await;
    }
    assert_eq!(asterisk.wait_global("LAB_DIGITS", SOON).await, "5*09");
    phone.hang_up().await;
    asterisk.wait_empty(SOON).await;
}

pub async fn the_other_side_hanging_up_ends_the_call() {
    let asterisk = Asterisk::start(Options::default()).await;
    let mut phone = Phone::call(asterisk.sip_port(), "leaves", Sound::default()).await;
    phone.wait_ended(SOON).await;
    let heard = phone.heard().time_of(LEAVES_HZ);
    assert!(heard >= ms(700) && heard <= ms(1100), "a second of tone before it, heard {heard:?}");
    asterisk.wait_empty(SOON).await;
}

/// A caller who is gone at once, from either side, is what leaks are looked for with.
pub async fn calls_of_no_length_end_cleanly() {
    const BLINK: &str = "[lab-callers](+)\nexten => blink,1,Answer()\n same => n,Hangup()\n";
    let asterisk = Asterisk::start(Options { dialplan: BLINK.into(), ..Options::default() }).await;
    for _ in 0..5 {
        let mut phone = Phone::call(asterisk.sip_port(), "blink", Sound::default()).await;
        phone.wait_ended(SOON).await;
        let mut phone = Phone::call(asterisk.sip_port(), "desk", Sound::default()).await;
        phone.wait_established(SOON).await;
        phone.hang_up().await;
        let mut phone = Phone::call(asterisk.sip_port(), "rings", Sound::default()).await;
        phone.wait_ringing(SOON).await;
        phone.hang_up().await;
    }
    asterisk.wait_empty(SOON).await;
}

pub async fn ringing_is_seen_before_the_answer_and_a_refusal_has_its_reason() {
    let asterisk = Asterisk::start(Options::default()).await;
    let mut slow = Phone::call(asterisk.sip_port(), "slow", Sound::default()).await;
    let mut busy = Phone::call(asterisk.sip_port(), "busy", Sound::default()).await;
    assert!(busy.wait_ended(SOON).await.contains("486"), "{:?}", busy.seen());
    slow.wait_ringing(SOON).await;
    slow.wait_to_hear(SLOW_HZ, ms(300), SOON).await;
}

pub async fn a_listening_phone_is_called_and_both_hear_each_other() {
    let asterisk = Asterisk::start(Options::default()).await;
    let mut callee = Phone::listen(tone(1100.0, ms(30_000))).await;
    let extension = format!("8{}", callee.port());
    let mut caller = Phone::call(asterisk.sip_port(), &extension, tone(700.0, ms(30_000))).await;
    caller.wait_to_hear(1100.0, ms(500), SOON).await;
    callee.wait_to_hear(700.0, ms(500), SOON).await;
    callee.hang_up().await;
    caller.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
}

pub async fn the_callers_name_and_number_arrive() {
    let asterisk = Asterisk::start(Options::default()).await;
    let phone = Phone::call_as(asterisk.sip_port(), "whoami", Sound::default(), "Bob B", "2025550123").await;
    assert_eq!(asterisk.wait_global("LAB_CALLER", SOON).await, "Bob B/2025550123");
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
}

pub async fn without_offhook_every_example_leads_to_a_human() {
    let asterisk = Asterisk::start(Options { audiosocket: Some("127.0.0.1:1".into()), ..Options::default() }).await;
    for extension in ["7000", "7001", "7002", "7003", "7004", "7005", "7080", "7100", "7101", "7102", "7180"] {
        let mut phone = Phone::call(asterisk.sip_port(), extension, Sound::default()).await;
        phone.wait_to_hear(DESK_HZ, ms(200), SOON).await;
        phone.hang_up().await;
    }
    asterisk.wait_empty(SOON).await;
}

pub async fn asterisk_can_be_lost_and_come_back_in_mid_call() {
    let mut asterisk = Asterisk::start(Options::default()).await;
    let phone = Phone::call(asterisk.sip_port(), "echo", tone(700.0, ms(30_000))).await;
    phone.wait_to_hear(700.0, ms(200), SOON).await;
    asterisk.kill().await;
    asterisk.start_again().await;
    assert_eq!(asterisk.channels().await, Vec::<String>::new());
    let again = Phone::call(asterisk.sip_port(), "echo", tone(1100.0, ms(30_000))).await;
    again.wait_to_hear(1100.0, ms(200), SOON).await;
}

#[test]
fn a_line_of_json_that_is_still_being_written_is_not_read() {
    assert_eq!(offhook_kit::json_lines("{\"number\":1}\n{\"number\":"), [serde_json::json!({ "number": 1 })]);
}
