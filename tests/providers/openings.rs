//! What breaks before a session stands, and what the caller hears of it. Each test is a row or a few of one table: what
//! the vendor does, and how the call ends.

use crate::providers::{
    desk::{APOLOGY_HZ, Desk},
    ear::Caller,
    failover::{DEPUTY, deputy, desk_of},
    faults::QUIET_MAX,
    kit::vendor::{Dialect, End, Failure, Opening, Scenario, Vendor, hertz},
    ms,
};
use futures_util::future::join_all;
use std::time::Duration;

/// Close codes that vendors are known to send.
pub const CODES: [u16; 5] = [1000, 1001, 1007, 1008, 1011];
/// Every attempt of the first session, and of those that were to carry the call on; with time to spare.
const DIALS: Duration = ms(16_000);
/// Of its 800 ms; words can have its pitch for a moment.
pub const APOLOGY_MIN: Duration = ms(500);
/// Attempts at a session: three for the first one of a call, two for the one that was to carry the call on.
const ATTEMPTS: usize = 5;

/// One call whose sessions all open like this, and nobody else to fall back on: what the call is lost for, and how often
/// it was tried.
async fn opens<D: Dialect>(opening: Opening, loss: &str, attempts: usize) {
    let what = format!("{opening:?}");
    let vendor = Vendor::start::<D>(Scenario::all(opening)).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    ends(&what, loss, &desk, &caller, ms(0)).await;
    assert!(caller.look(|tape| tape.time_of(hertz(1), ms(0))) < ms(100), "{what}: nothing garbled is heard");
    assert_eq!(vendor.sessions(), attempts, "{what}");
    let dials = format!("offhook_provider_dials_total{{outcome=\"{loss}\",provider=\"{}\"}}", D::KIND);
    assert_eq!(desk.metric(&dials), attempts as f64, "{what}: {dials}");
}

/// The caller hears no unexplained silence, then the apology, and the call ends for this loss.
pub async fn ends(what: &str, loss: &str, desk: &Desk, caller: &Caller, since: Duration) {
    ends_after(1, what, loss, desk, caller, since).await;
}

/// The same where so many sessions have had the call and were lost for it.
pub async fn ends_after(losses: usize, what: &str, loss: &str, desk: &Desk, caller: &Caller, since: Duration) {
    caller.is_hung_up_on().await;
    let (reason, story) = (desk.end_reason().await.label(), caller.look(|tape| format!("{tape:?}")));
    assert_eq!(reason, format!("agent_{loss}"), "{what}: {story}");
    let apology = caller.look(|tape| tape.time_of(APOLOGY_HZ, since));
    assert!(apology >= APOLOGY_MIN, "{what}: {apology:?} of the apology; {story}");
    let silence = caller.look(|tape| tape.unexplained_silence(since..tape.now(), &[hertz(1)]));
    assert!(silence <= QUIET_MAX, "{what}: {silence:?} of silence; {story}");
    assert!(caller.now() <= since + DIALS + ms(2_000), "{what}: {story}");
    for (counted, times) in [
        (format!("offhook_calls_total{{class=\"provider\",reason=\"{reason}\"}}"), 1),
        (format!("offhook_agent_losses_total{{loss=\"{loss}\",provider=\"first\"}}"), losses),
    ] {
        assert_eq!(desk.metric(&counted), times as f64, "{what}: {counted}");
    }
}

pub async fn a_refused_key_is_told_and_not_tried_again<D: Dialect>() {
    opens::<D>(D::refuses_a_key(), "unauthorized", 1).await;
}

pub async fn an_upgrade_refused_with_any_status_is_told_for_what_it_is<D: Dialect>() {
    join_all([401, 403, 429, 500, 503].map(|status| {
        let loss = D::loss(End::Refused(status));
        // What cannot heal is not tried again.
        let attempts = if matches!(loss, "unauthorized" | "quota") { 1 } else { ATTEMPTS };
        opens::<D>(Opening::Refuse(status), loss, attempts)
    }))
    .await;
}

pub async fn a_vendor_that_is_not_there_is_unreachable<D: Dialect>() {
    let gone = async {
        let vendor = Vendor::start::<D>(Scenario::default()).await;
        vendor.stop_listening();
        let desk = Desk::of(&vendor).await;
        let caller = desk.call().await;
        ends("nobody listens", "unreachable", &desk, &caller, ms(0)).await;
    };
    tokio::join!(gone, opens::<D>(Opening::Drop, "unreachable", ATTEMPTS));
}

pub async fn an_attempt_that_failed_is_made_again_and_heals<D: Dialect>() {
    let openings = [
        Opening::Refuse(503),
        Opening::Drop,
        Opening::CloseAtOnce(1011),
        Opening::CloseAtSetUp(1011, ""),
        Opening::Garbage,
    ];
    join_all(openings.map(|opening| async move {
        let vendor = Vendor::start::<D>(Scenario::first(opening)).await;
        let desk = Desk::of(&vendor).await;
        let caller = desk.call().await;
        caller.hears(hertz(2), ms(700)).await;
        assert_eq!(vendor.sessions(), 2);
        let dials = format!("offhook_provider_dials_total{{outcome=\"ready\",provider=\"{}\"}}", D::KIND);
        assert_eq!(desk.metric(&dials), 1.0);
        assert_eq!(desk.metric("offhook_agent_losses_total"), 0.0, "the call has lost nobody");
        desk.ends_with(&caller).await;
        vendor.is_content();
    }))
    .await;
}

pub async fn a_handshake_of_ten_seconds_is_not_waited_for<D: Dialect>() {
    // Two attempts of the first session fit into what a caller waits, and two of the next one.
    opens::<D>(Opening::Slow(ms(10_000)), "unreachable", 4).await;
}

pub async fn a_session_closed_before_its_first_message_is_tried_again_and_then_given_up<D: Dialect>() {
    let loss = |code| D::loss(End::Closed { code, stood: false });
    join_all(CODES.map(|code| opens::<D>(Opening::CloseAtOnce(code), loss(code), ATTEMPTS))).await;
}

pub async fn a_session_closed_while_it_is_set_up_is_tried_again_and_then_given_up<D: Dialect>() {
    let loss = |code| D::loss(End::Closed { code, stood: false });
    join_all(CODES.map(|code| opens::<D>(Opening::CloseAtSetUp(code, ""), loss(code), ATTEMPTS))).await;
}

pub async fn a_set_up_that_is_never_acknowledged_or_answered_with_garbage_is_given_up<D: Dialect>() {
    let never = [Opening::NeverReady, Opening::Silent].map(|opening| opens::<D>(opening, "handshake", 4));
    tokio::join!(join_all(never), opens::<D>(Opening::Garbage, "protocol", ATTEMPTS));
}

pub async fn quota_and_throttling_at_the_set_up_are_told_for_what_they_are<D: Dialect>() {
    let body = r#"{"error":{"message":"You have run out.","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    tokio::join!(
        opens::<D>(Opening::FailAtSetUp(Failure::Quota), "quota", 1),
        opens::<D>(Opening::RefuseSaying(429, body), "quota", 1),
        opens::<D>(Opening::FailAtSetUp(Failure::Throttled), "throttled", ATTEMPTS),
    );
}

pub async fn a_caller_is_greeted_by_the_next_provider_when_the_first_one_fails<D: Dialect>() {
    let openings = [
        (D::refuses_a_key(), "unauthorized"),
        (Opening::Refuse(503), "throttled"),
        (Opening::Slow(ms(10_000)), "unreachable"),
        (Opening::NeverReady, "handshake"),
        (Opening::FailAtSetUp(Failure::Quota), "quota"),
    ];
    join_all(openings.map(|(opening, loss)| async move {
        let (vendor, deputy) = (Vendor::start::<D>(Scenario::all(opening.clone())).await, deputy::<D>().await);
        let desk = desk_of(&vendor, &deputy).await;
        let caller = desk.call().await;
        caller.hears(hertz(1 + DEPUTY), ms(600)).await;
        let story = caller.look(|tape| format!("{tape:?}"));
        let begun = caller.look(|tape| tape.first_of(hertz(1 + DEPUTY), ms(0))).expect("waited for");
        assert!(begun < ms(9_000), "{opening:?}: {story}");
        let silence = caller.look(|tape| tape.unexplained_silence(ms(0)..begun, &[]));
        assert!(silence <= QUIET_MAX, "{opening:?}: {silence:?} of silence; {story}");
        assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, ms(0))) < APOLOGY_MIN, "{opening:?}: {story}");
        let losses = format!("offhook_agent_losses_total{{loss=\"{loss}\",provider=\"first\"}}");
        assert_eq!(desk.metric(&losses), 1.0, "{opening:?}");
        assert_eq!(desk.recoveries("took_over", "second"), 1.0, "{opening:?}");
        desk.ends_with(&caller).await;
        deputy.is_content();
    }))
    .await;
}
