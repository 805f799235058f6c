//! Sessions that end by their vendor's limit, and vendors that are left alone while they fail.

use crate::providers::{
    desk::{APOLOGY_HZ, Desk},
    kit::vendor::{Dialect, Opening, Scenario, Vendor, hertz},
    ms,
};
use std::time::Duration;
use tokio::time::sleep;

/// The shortest that can be set.
const LIMIT: Duration = ms(10_000);

/// The limit comes near while the agent speaks: another session is begun in the pause after it, and nobody notices.
pub async fn a_session_is_replaced_in_a_pause_before_the_vendors_limit<D: Dialect>() {
    // Half of the vendor's limit, when the call is told that it is near, passes in the greeting.
    let (mut options, greeting) = (D::waits(), ms(5_600));
    options["session_seconds"] = LIMIT.as_secs().into();
    let vendor = Vendor::start::<D>(Scenario::answers(greeting)).await;
    let desk = Desk::with(&[("first", vendor.yaml_with(options))], "").await;
    let caller = desk.call().await;
    caller.hears(hertz(1), greeting - ms(100)).await;
    assert_eq!(vendor.sessions(), 1, "not while the agent speaks");
    vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
    vendor.until_session(1, "is let go", |seen| seen.over).await;
    assert!(caller.now() < LIMIT, "too late: {}", caller.look(|tape| format!("{tape:?}")));
    caller.hears_nothing_for(ms(200)).await;
    let heard = caller.look(|tape| tape.seamless(hertz(1), ms(0)..tape.now()));
    assert!((greeting..=greeting + ms(20)).contains(&heard), "{heard:?}: {}", caller.look(|tape| format!("{tape:?}")));
    caller.speaks().await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(2), ms(500)).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    let answered = caller.look(|tape| tape.first_of(hertz(2), said.end)).expect("waited for");
    assert!(answered <= said.end + ms(1_400), "as soon as ever: {story}");
    let counted = |end: &str| desk.metric(&format!("offhook_session_rollovers_total{{outcome=\"{end}\""));
    assert_eq!((counted("took_over"), counted("failed")), (1.0, 0.0));
    assert_eq!(desk.metric("offhook_session_recoveries_total"), 0.0, "nothing was lost");
    assert_eq!(desk.metric("offhook_sentences_total"), 0.0, "and nothing had to be explained");
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// Added to the deputy's sessions for their pitch.
const DEPUTY: usize = 2;
/// Attempts of two calls until the third failure: twice for the first session, once for the one that was to carry the call
/// on, and twice for the first session of the second call.
const ATTEMPTS: usize = 5;

/// It fails three times, in two calls, and is left alone; calls begin with the next provider at once, until it is tried
/// again and works.
pub async fn a_vendor_that_fails_is_left_alone_and_tried_again<D: Dialect>() {
    let openings = vec![Opening::Refuse(503); ATTEMPTS];
    let vendor = Vendor::start::<D>(Scenario { openings, ..Scenario::default() }).await;
    let deputy = Vendor::start::<D>(Scenario { pitch: |session| hertz(session + DEPUTY), ..Scenario::default() }).await;
    let providers = [("first", vendor.yaml()), ("second", deputy.yaml())];
    let desk = Desk::with(&providers, "fallbacks: [second]").await;
    let breaker = "offhook_provider_breaker{provider=\"first\"}";
    for call in 1..=3 {
        let caller = desk.call().await;
        caller.hears(hertz(call + DEPUTY), ms(300)).await;
        if call == 3 {
            let begun = caller.look(|tape| tape.first_of(hertz(call + DEPUTY), ms(0))).expect("waited for");
            assert!(begun <= ms(600), "at once: {}", caller.look(|tape| format!("{tape:?}")));
        }
        desk.ends_with(&caller).await;
        assert_eq!(desk.scraped(breaker).await, if call == 1 { 0.0 } else { 2.0 }, "after call {call}");
    }
    assert_eq!(vendor.sessions(), ATTEMPTS, "the third call does not try it");
    assert_eq!(desk.metric("offhook_provider_passed_over_total{outcome=\"fallback\",provider=\"first\"}"), 1.0);
    // It rests for 15 s, more or less.
    while desk.scraped(breaker).await != 1.0 {
        sleep(ms(200)).await;
    }
    let caller = desk.call().await;
    caller.hears(hertz(ATTEMPTS + 1), ms(300)).await;
    assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, ms(0))) < ms(100));
    assert_eq!(desk.scraped(breaker).await, 0.0, "it works again");
    desk.ends_with(&caller).await;
    vendor.is_content();
    deputy.is_content();
}
