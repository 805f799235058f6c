//! What is noticed about an audio path that needs no other one: it is told, and both sides go on hearing each other.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON,
    kit::{
        audio::{longest_gap, silence, speech, tone},
        relay::Order,
    },
    ms, relayed,
    repairs::{dial, hang_up},
};

pub const ECHO: &str = "- tone: { hertz: 440, for: 1s }\n- echo: 60s";
const ANSWERS: &str = "- tone: { hertz: 440, for: 60s }\n- listen: {}\n- tone: { hertz: 440, for: 60s }";

/// T22: uneven cadence, and packets that wait.
async fn packets_that_wait_and_come_four_at_a_time_are_told_and_the_caller_is_heard() {
    const QUEUE: [&str; 2] = ["offhook_media_queue_frames_sum", "offhook_media_queue_frames_count"];
    let (relay, asterisk, offhook) = relayed(ECHO).await;
    let mut phone = dial(&asterisk).await;
    phone.say(tone(CALLER_HZ, ms(60_000))).await;
    phone.wait_to_hear(CALLER_HZ, ms(500), SOON).await;
    let even = offhook.metric("offhook_media_jitter_seconds_sum").await;
    relay.order(Order::Bunch);
    let before = phone.heard().time_of(CALLER_HZ);
    phone.wait_to_hear(CALLER_HZ, before + ms(4_000), SOON).await;
    let [sum, count] = [offhook.metric(QUEUE[0]).await, offhook.metric(QUEUE[1]).await];
    offhook.wait_metric(QUEUE[1], count + 2.0, SOON).await;
    let [sum, count] = [offhook.metric(QUEUE[0]).await - sum, offhook.metric(QUEUE[1]).await - count];
    assert!(sum / count >= 3.5, "four had waited, {} are told", sum / count);
    let uneven = offhook.metric("offhook_media_jitter_seconds_sum").await - even;
    assert!(uneven >= 0.060, "{uneven} s in some five seconds: three in four come at once, one 60 ms late");
    let gap = longest_gap(&phone.heard(), CALLER_HZ);
    assert!(gap <= ms(200), "{gap:?}: the first of a bunch waits for three others, and nothing more is lost");
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: the first frames are wrong.
async fn samples_whose_bytes_are_in_the_wrong_order_are_told_with_what_to_do_and_the_agent_is_heard() {
    let (relay, asterisk, offhook) = relayed(ANSWERS).await;
    let mut phone = dial(&asterisk).await;
    relay.order(Order::Swap);
    phone.say(speech(ms(4_000)) + silence(ms(60_000))).await;
    offhook.wait_metric("offhook_media_suspect_total{what=\"noise\"}", 1.0, SOON).await;
    offhook.wait_logged("offhook media-test").await;
    // It was interrupted, and answers.
    let so_far = phone.heard().time_of(AGENT_HZ);
    phone.wait_to_hear(AGENT_HZ, so_far + ms(1_000), SOON).await;
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: of a length that no telephone sends.
async fn frames_of_an_odd_length_are_told_and_both_sides_are_heard() {
    let (relay, asterisk, offhook) = relayed(ECHO).await;
    let mut phone = dial(&asterisk).await;
    relay.order(Order::Recut);
    phone.say(tone(CALLER_HZ, ms(60_000))).await;
    phone.wait_to_hear(CALLER_HZ, ms(2_000), SOON).await;
    offhook.metric_is("offhook_media_suspect_total{what=\"frame_size\"}", 1.0).await;
    let gap = longest_gap(&phone.heard(), CALLER_HZ);
    assert!(gap <= ms(200), "{gap:?}");
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: such as frames of a later version of AudioSocket.
async fn frames_of_a_kind_that_nobody_knows_are_counted_and_the_caller_is_heard() {
    let (relay, asterisk, offhook) = relayed(ECHO).await;
    let mut phone = dial(&asterisk).await;
    relay.order(Order::Unknown);
    phone.say(tone(CALLER_HZ, ms(60_000))).await;
    phone.wait_to_hear(CALLER_HZ, ms(2_000), SOON).await;
    offhook.wait_metric("offhook_media_discarded_total{cause=\"unknown_kind\"}", 50.0, SOON).await;
    let gap = longest_gap(&phone.heard(), CALLER_HZ);
    assert!(gap <= ms(100), "{gap:?}");
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: a clock that is off, which takes a minute of sound to tell.
async fn a_clock_that_is_fast_is_told_at_the_end_of_a_call_in_which_nothing_was_lost() {
    const DRIFT: [&str; 2] = ["offhook_media_drift_ppm_sum", "offhook_media_drift_ppm_count"];
    let (relay, asterisk, offhook) = relayed("- tone: { hertz: 440, for: 1s }\n- echo: 90s").await;
    let mut phone = dial(&asterisk).await;
    relay.order(Order::Fast);
    phone.say(tone(CALLER_HZ, ms(90_000))).await;
    phone.wait_to_hear(CALLER_HZ, ms(62_000), ms(80_000)).await;
    let gap = longest_gap(&phone.heard(), CALLER_HZ);
    assert!(gap <= ms(100), "{gap:?}");
    hang_up(phone, &offhook, &asterisk).await;
    let [ppm, count] = [offhook.metric(DRIFT[0]).await, offhook.metric(DRIFT[1]).await];
    assert_eq!(count, 1.0, "told once");
    assert!((18_000.0..22_000.0).contains(&ppm), "{ppm} ppm; it was 20,000 fast");
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
}

crate::scenes! {
    both:
        packets_that_wait_and_come_four_at_a_time_are_told_and_the_caller_is_heard,
        samples_whose_bytes_are_in_the_wrong_order_are_told_with_what_to_do_and_the_agent_is_heard,
        frames_of_an_odd_length_are_told_and_both_sides_are_heard,
        frames_of_a_kind_that_nobody_knows_are_counted_and_the_caller_is_heard,
        a_clock_that_is_fast_is_told_at_the_end_of_a_call_in_which_nothing_was_lost;
}
