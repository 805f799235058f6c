//! The wire between offhook and Asterisk at its worst: cut, half open, held up; Asterisk restarted politely; and a second
//! engine of the same name.

use crate::calls::{
    AGENT_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{longest_gap, silence},
        offhook::{Offhook, Place},
        phone::Phone,
        proxy::{Carries, Flow, Proxy},
        world::{self, World},
    },
    ms,
    repairs::{ari_by, plain_client},
};
use futures_util::{StreamExt as _, stream};
use reqwest::Method;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const FOR_A_MINUTE: &str = "- tone: { hertz: 440, for: 60s }";
/// A half-open events socket is noticed by two pings without an answer: 12 s, and up to 5 s until the next ping.
const NOTICED: Duration = Duration::from_secs(25);

/// An engine that reaches its Asterisk through a proxy; calls by AudioSocket, and by RTP at 7001.
async fn behind_a_proxy() -> (Asterisk, Proxy, Offhook) {
    let asterisk = Asterisk::start(Options::default()).await;
    let proxy = Proxy::to(asterisk.http_port()).await;
    let place = Place::free();
    let rtp = "  support: { prompt: You are a test., provider: script, audio: rtp/ulaw }\n";
    let yaml = place.yaml_of(Some((&proxy.url(), asterisk.ari_password())));
    let offhook = Offhook::start(place, &format!("{yaml}{}{rtp}", agent(FOR_A_MINUTE, ""))).await;
    offhook.wait_ready(true).await;
    (asterisk, proxy, offhook)
}

async fn dial(asterisk: &Asterisk, extension: &str) -> Phone {
    let phone = Phone::call(asterisk.sip_port(), extension, silence(ms(90_000))).await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    phone
}

/// Waits until so many phones are in a call.
async fn wait_phones(asterisk: &Asterisk, phones: usize) {
    let until = Instant::now() + SOON;
    while asterisk.channels().await.iter().filter(|name| name.starts_with("PJSIP/")).count() != phones {
        assert!(Instant::now() < until, "not {phones} phones in Asterisk: {:?}", asterisk.channels().await);
        sleep(ms(20)).await;
    }
}

/// Everything of every call is gone, here and there.
async fn nothing_is_left(asterisk: &Asterisk, offhook: &Offhook) {
    offhook.wait_active(0, SOON).await;
    asterisk.wait_empty(SOON).await;
    assert_eq!(offhook.metric("offhook_media_open").await, 0.0);
}

/// T9: all connections to Asterisk's HTTP server are cut, three times.
async fn calls_go_on_without_a_hole_while_the_wire_to_asterisk_is_cut_again_and_again() {
    let (asterisk, proxy, offhook) = behind_a_proxy().await;
    let (mut one, mut other) = (dial(&asterisk, "7000").await, dial(&asterisk, "7001").await);
    for cut in 1..=3 {
        proxy.cut();
        offhook.wait_metric("offhook_ari_reconnects_total", f64::from(cut), SOON).await;
        offhook.wait_ready(true).await;
    }
    for phone in [&mut one, &mut other] {
        phone.wait_to_hear(AGENT_HZ, ms(2_000), SOON).await;
        phone.hang_up().await;
        let heard = phone.heard();
        // A real phone that is held up by a busy machine misses a moment.
        let most = if world::current() == World::Emulated { ms(0) } else { ms(200) };
        let gap = longest_gap(&heard, AGENT_HZ);
        assert!(gap <= most, "one tone from the first moment to the last: {gap:?}, {:?}", heard.spans_of(AGENT_HZ));
    }
    for ended in offhook.wait_ended(2, SOON).await {
        assert_eq!(ended["reason"]["label"], "caller_hung_up");
    }
    nothing_is_left(&asterisk, &offhook).await;
}

/// T10, T17: one caller over AudioSocket and one over RTP.
async fn callers_who_leave_while_the_wire_is_half_open_leave_nothing_behind() {
    let (asterisk, proxy, offhook) = behind_a_proxy().await;
    let (mut leaves, mut goes_too) = (dial(&asterisk, "7000").await, dial(&asterisk, "7001").await);
    let mut stays = dial(&asterisk, "7001").await;
    proxy.half_open();
    // Of the first the engine learns by its socket and cannot clear it away; of the second it hears nothing at all.
    leaves.hang_up().await;
    goes_too.hang_up().await;
    offhook.wait_metric("offhook_ari_reconnects_total{reason=\"timed_out\"}", 1.0, NOTICED).await;
    offhook.wait_ready(true).await;
    let ended = offhook.wait_ended(2, SOON).await;
    let labels: Vec<_> = ended.iter().map(|call| call["reason"]["label"].as_str().unwrap_or_default()).collect();
    assert!(labels.contains(&"channel_gone"), "found missing after the gap: {labels:?}");
    offhook.wait_active(1, SOON).await;
    wait_phones(&asterisk, 1).await;
    stays.hang_up().await;
    nothing_is_left(&asterisk, &offhook).await;
}

/// T13: the events socket delivers nothing for seconds.
async fn events_that_come_late_and_all_at_once_are_taken_in_their_order() {
    let (asterisk, proxy, offhook) = behind_a_proxy().await;
    let mut leaves = dial(&asterisk, "7001").await;
    let mut goes = dial(&asterisk, "7001").await;
    proxy.hold();
    leaves.hang_up().await;
    goes.hang_up().await;
    // Comes in when the engine still believes the others to be there.
    let mut comes = Phone::call(asterisk.sip_port(), "7000", silence(ms(30_000))).await;
    wait_phones(&asterisk, 1).await;
    assert_eq!(offhook.json("calls").await["active"].as_array().map(Vec::len), Some(2), "nothing was heard yet");
    proxy.release();
    let ended = offhook.wait_ended(2, SOON).await;
    assert!(ended.iter().all(|call| call["reason"]["label"] == "caller_hung_up"), "{ended:?}");
    assert_eq!(offhook.metric("offhook_ari_events_malformed_total").await, 0.0);
    comes.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    comes.hang_up().await;
    nothing_is_left(&asterisk, &offhook).await;
}

/// T13: a thousand user events, which concern no call; between them a caller hangs up.
async fn a_burst_of_a_thousand_events_is_taken_in_its_order_and_cuts_nothing_off() {
    let (asterisk, proxy, offhook) = behind_a_proxy().await;
    let mut leaves = dial(&asterisk, "7001").await;
    let mut stays = dial(&asterisk, "7000").await;
    proxy.hold();
    let client = plain_client();
    let user_events = async || {
        let one = async |_| ari_by(&client, &asterisk, Method::POST, "events/user/burst?application=offhook").await;
        stream::iter(0..500).map(one).buffer_unordered(20).collect::<Vec<_>>().await;
    };
    user_events().await;
    leaves.hang_up().await;
    user_events().await;
    let held = proxy.held();
    assert!(held >= 1_000 * 100, "{held} bytes of events");
    proxy.release();
    let ended = offhook.wait_ended(1, SOON).await;
    assert_eq!(ended[0]["reason"]["label"], "caller_hung_up");
    assert_eq!(offhook.metric("offhook_ari_events_malformed_total").await, 0.0);
    assert_eq!(offhook.metric("offhook_ari_reconnects_total").await, 0.0, "{}", offhook.log());
    stays.wait_to_hear(AGENT_HZ, ms(2_000), SOON).await;
    stays.hang_up().await;
    nothing_is_left(&asterisk, &offhook).await;
}

/// T14: responses of ARI are late; its events are not.
async fn answers_that_come_late_delay_a_call_and_lose_nothing() {
    let (asterisk, proxy, offhook) = behind_a_proxy().await;
    for extension in ["7000", "7001"] {
        // What has been asked for is answered by then; connections are kept for the next request.
        dial(&asterisk, extension).await.hang_up().await;
        nothing_is_left(&asterisk, &offhook).await;
        let held = proxy.held();
        proxy.order(Carries::Requests, Flow::Holds);
        let mut phone = Phone::call(asterisk.sip_port(), extension, silence(ms(30_000))).await;
        let until = Instant::now() + SOON;
        while proxy.held() == held {
            assert!(Instant::now() < until, "no request was made on a connection that was kept");
            sleep(ms(10)).await;
        }
        // Not as late as a request waits.
        sleep(ms(2_000)).await;
        proxy.order(Carries::Requests, Flow::Passes);
        phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
        phone.hang_up().await;
        nothing_is_left(&asterisk, &offhook).await;
    }
    assert_eq!(offhook.metric("offhook_ari_requests_failed_total").await, 0.0, "{}", offhook.log());
}

/// T14: the engine looks up whether Asterisk carried out the request.
async fn answers_that_are_lost_leave_no_caller_without_an_answer_and_nothing_behind() {
    let (asterisk, proxy, offhook) = behind_a_proxy().await;
    for extension in ["7000", "7001"] {
        dial(&asterisk, extension).await.hang_up().await;
        nothing_is_left(&asterisk, &offhook).await;
        proxy.order(Carries::Requests, Flow::Unanswered);
        let mut phone = Phone::call(asterisk.sip_port(), extension, silence(ms(30_000))).await;
        let until = Instant::now() + SOON;
        while phone.heard().time_of(AGENT_HZ).max(phone.heard().time_of(DESK_HZ)) < ms(500) {
            assert!(Instant::now() < until, "neither the agent nor a human is heard\n{}", offhook.log());
            sleep(ms(20)).await;
        }
        phone.hang_up().await;
        nothing_is_left(&asterisk, &offhook).await;
    }
    assert!(offhook.metric("offhook_ari_requests_failed_total").await > 0.0, "some answer was waited for");
}

/// T15: idle connections are closed, as Asterisk does after 15 s without a request.
async fn connections_that_were_closed_while_nobody_used_them_cost_no_call() {
    let (asterisk, proxy, offhook) = behind_a_proxy().await;
    for extension in ["7000", "7001", "7000"] {
        dial(&asterisk, extension).await.hang_up().await;
        nothing_is_left(&asterisk, &offhook).await;
        proxy.order(Carries::Requests, Flow::Cut);
    }
    dial(&asterisk, "7001").await.hang_up().await;
    nothing_is_left(&asterisk, &offhook).await;
    assert_eq!(offhook.metric("offhook_ari_requests_failed_total").await, 0.0, "{}", offhook.log());
    assert_eq!(offhook.metric("offhook_ari_reconnects_total").await, 0.0, "events came all the time");
}

/// T11: Asterisk is stopped as by a service manager, not killed.
async fn an_asterisk_that_is_restarted_politely_ends_its_calls_and_takes_the_next() {
    let mut asterisk = Asterisk::start(Options::default()).await;
    let rtp = "  support: { prompt: You are a test., provider: script, audio: rtp/ulaw }\n";
    let offhook = Offhook::attached(&asterisk, &format!("{}{rtp}", agent(FOR_A_MINUTE, ""))).await;
    let (_one, _other) = (dial(&asterisk, "7000").await, dial(&asterisk, "7001").await);
    asterisk.stop().await;
    offhook.wait_ready(false).await;
    asterisk.start_again().await;
    offhook.wait_ready(true).await;
    offhook.wait_ended(2, SOON).await;
    nothing_is_left(&asterisk, &offhook).await;
    let mut next = dial(&asterisk, "7001").await;
    next.hang_up().await;
    nothing_is_left(&asterisk, &offhook).await;
}

/// T12: two whole engines of one ARI application.
async fn a_second_engine_of_the_same_name_is_told_on_the_ready_page_and_the_callers_of_the_first_reach_a_human() {
    let asterisk = Asterisk::start(Options::default()).await;
    let rtp = "  support: { prompt: You are a test., provider: script, audio: rtp/ulaw }\n";
    let agents = format!("{}{rtp}", agent(FOR_A_MINUTE, ""));
    let first = Offhook::attached(&asterisk, &agents).await;
    let (mut by_socket, mut by_rtp) = (dial(&asterisk, "7000").await, dial(&asterisk, "7001").await);
    let second = Offhook::attached(&asterisk, &agents).await;
    let body = first.wait_ready(false).await;
    assert!(body.contains("asterisk.app"), "{body}");
    for phone in [&mut by_socket, &mut by_rtp] {
        phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
        phone.hang_up().await;
    }
    // No event told the first engine; it asks.
    first.wait_active(0, SOON).await;
    first.metric_is("offhook_ari_reconnects_total{reason=\"replaced\"}", 1.0).await;
    assert_eq!(first.metric("offhook_media_open").await, 0.0);
    let mut next = dial(&asterisk, "7000").await;
    second.wait_active(1, SOON).await;
    next.hang_up().await;
    nothing_is_left(&asterisk, &second).await;
    // Two that live do not take it from each other, and the first is back soon after the second has gone.
    assert_eq!(first.metric("offhook_ari_reconnects_total{reason=\"replaced\"}").await, 1.0);
    second.signal("TERM").await;
    let gone = Instant::now();
    first.wait_ready(true).await;
    assert!(gone.elapsed() < ms(6_000), "back after {:?}", gone.elapsed());
    let mut last = dial(&asterisk, "7000").await;
    first.wait_active(1, SOON).await;
    last.hang_up().await;
    nothing_is_left(&asterisk, &first).await;
}

/// Keys that are pressed while no event comes are known by the audio's own word of them; by RTP there is none.
async fn a_key_that_is_pressed_while_no_event_comes_is_told_once_over_a_transport_that_carries_keys() {
    for leg in ["audiosocket/slin", "websocket/slin16"] {
        let asterisk = Asterisk::start(Options::default()).await;
        let proxy = Proxy::to(asterisk.http_port()).await;
        let place = Place::free();
        let yaml = place.yaml_of(Some((&proxy.url(), asterisk.ari_password())));
        let audio = format!("    audio: {leg}\n");
        let offhook = Offhook::start(place, &format!("{yaml}{}", agent(FOR_A_MINUTE, &audio))).await;
        offhook.wait_ready(true).await;
        let mut phone = dial(&asterisk, "7000").await;
        let keys = async |count: u64| {
            offhook.wait_active_where(|call| call["counts"]["keys"].as_u64() == Some(count), SOON).await;
        };
        phone.dtmf('5').await;
        keys(1).await;
        proxy.order(Carries::Events, Flow::Dead);
        for (key, count) in [('5', 2), ('7', 3)] {
            phone.dtmf(key).await;
            keys(count).await;
        }
        offhook.wait_metric("offhook_ari_reconnects_total{reason=\"timed_out\"}", 1.0, NOTICED).await;
        offhook.wait_ready(true).await;
        phone.dtmf('9').await;
        keys(4).await;
        phone.hang_up().await;
        let ended = offhook.wait_ended(1, SOON).await;
        assert_eq!(ended[0]["counts"]["keys"], 4, "{leg}: none twice");
        nothing_is_left(&asterisk, &offhook).await;
    }
}

crate::scenes! {
    real:
        an_asterisk_that_is_restarted_politely_ends_its_calls_and_takes_the_next,
        a_second_engine_of_the_same_name_is_told_on_the_ready_page_and_the_callers_of_the_first_reach_a_human;
    both:
        calls_go_on_without_a_hole_while_the_wire_to_asterisk_is_cut_again_and_again,
        callers_who_leave_while_the_wire_is_half_open_leave_nothing_behind,
        events_that_come_late_and_all_at_once_are_taken_in_their_order,
        a_burst_of_a_thousand_events_is_taken_in_its_order_and_cuts_nothing_off,
        answers_that_come_late_delay_a_call_and_lose_nothing,
        answers_that_are_lost_leave_no_caller_without_an_answer_and_nothing_behind,
        connections_that_were_closed_while_nobody_used_them_cost_no_call,
        a_key_that_is_pressed_while_no_event_comes_is_told_once_over_a_transport_that_carries_keys;
}
