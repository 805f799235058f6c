//! Callers who are sent to a place of the dialplan, and what is told of them from there.

use crate::calls::{
    SOON,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{silence, tone},
        offhook::{Offhook, Place},
        phone::Phone,
    },
    ms,
};
use serde_json::{Value, json};

const TOKEN: &str = "a token for programs";
const ANN_HZ: f64 = 1000.0;
/// The ringing tone of the lab.
const RINGING_HZ: f64 = 480.0;
/// Transfers that a place has made nothing of.
const LOST: &str = "offhook_transfers_failed_total{caller=\"lost\"";

/// An engine with records, whose agent sends every caller to this extension.
async fn pbx(extension: &str) -> (Asterisk, Offhook) {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let yaml = place.yaml_with(&asterisk, TOKEN);
    let yaml = format!(
        "{yaml}records: {{ directory: records }}\ndefault_context: front\n\
         providers:\n  script:\n    scripted:\n      script: [{{ call: {{ tool: transfer, arguments: {{ destination: there }} }} }}]\n\
         destinations:\n  there: {{ description: People, context: lab-targets, extension: \"{extension}\" }}\n\
         contexts:\n  front: {{ prompt: A test, provider: script, tools: [hangup_call, transfer] }}\n"
    );
    let mut offhook = Offhook::start(place, &yaml).await;
    offhook.ask_with(TOKEN);
    offhook.wait_ready(true).await;
    (asterisk, offhook)
}

async fn caller(asterisk: &Asterisk) -> Phone {
    Phone::call_as(asterisk.sip_port(), "7000", silence(ms(60_000)), "Ada Byron", "15550199").await
}

/// The record of the only call, once its reason is this one.
async fn record(offhook: &Offhook, reason: &str) -> Value {
    let calls = offhook.wait_answer("calls", |calls| calls["recent"][0]["reason"]["label"] == reason, SOON).await;
    let id = calls["recent"][0]["id"].as_str().expect("an id");
    let path = format!("api/v1/calls/{id}");
    offhook.wait_answer(&path, |record| record["reason"]["label"] == reason, SOON).await
}

async fn a_place_that_hangs_up_at_once_is_told_as_a_transfer_that_failed() {
    let (asterisk, offhook) = pbx("declines").await;
    let mut caller = caller(&asterisk).await;
    caller.wait_ended(SOON).await;
    let record = record(&offhook, "transfer_failed").await;
    assert_eq!(record["reason"]["class"], "asterisk");
    let told: Vec<_> = record["entries"].as_array().expect("a list").iter().collect();
    let sent = told.iter().position(|entry| entry["event"] == "transferred").expect("they were sent there");
    let failed = told.last().expect("entries");
    let as_told = json!({ "at_ms": failed["at_ms"], "event": "transfer_failed", "reason": "refused", "cause": 21 });
    assert_eq!((sent + 2, **failed == as_told), (told.len(), true), "{record}");
    assert_eq!(offhook.metric(LOST).await, 1.0);
    offhook.wait_logged("the place of the dialplan hung up on the caller").await;
    // As an operator sees it, and finds it.
    let id = record["id"].as_str().expect("an id");
    let (_, page) = offhook.page(&format!("history/{id}")).await;
    assert!(page.contains(r#"<p class="why asterisk">"#) && page.contains("Q.850 cause 21"), "{page}");
    let (_, live) = offhook.page("").await;
    assert!(live.contains("transfer failed") && !live.contains("tag normal"), "{live}");
    let found = offhook.json("api/v1/calls?reason=not_normal").await;
    assert_eq!(found["items"][0]["id"], id);
    for private in ["15550199", "Byron"] {
        assert!(!offhook.log().contains(private), "{private} reached the log");
    }
    asterisk.wait_empty(SOON).await;
}

/// Asterisk tells of the answer, and is not asked to tell more.
async fn a_person_whom_the_place_calls_has_taken_the_caller() {
    let mut ann = Phone::listen(tone(ANN_HZ, ms(60_000))).await;
    let (asterisk, offhook) = pbx(&format!("8{}", ann.port())).await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(ANN_HZ, ms(500), SOON).await;
    offhook.metric_is("offhook_ari_requests_total{operation=\"unsubscribe\"}", 1.0).await;
    ann.hang_up().await;
    caller.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
    record(&offhook, "transferred").await;
    assert_eq!(offhook.metric(LOST).await, 0.0);
}

async fn a_caller_who_gives_up_while_the_place_rings_was_transferred() {
    let (asterisk, offhook) = pbx("rings").await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(RINGING_HZ, ms(500), SOON).await;
    caller.hang_up().await;
    asterisk.wait_empty(SOON).await;
    record(&offhook, "transferred").await;
    assert_eq!(offhook.metric(LOST).await, 0.0);
}

/// The engine takes back its subscription at Asterisk.
async fn a_caller_at_a_place_stays_there_when_the_engine_stops_and_another_one_starts() {
    let (asterisk, mut offhook) = pbx("desk").await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    offhook.signal("TERM").await;
    assert!(offhook.wait_exit(SOON).await.success());
    stays(&asterisk, &mut caller).await;
}

/// An engine that is killed takes no subscription back: the next one finds a channel in its application that is not in Stasis.
async fn a_caller_at_a_place_stays_there_when_the_engine_is_killed_and_another_one_starts() {
    let (asterisk, mut offhook) = pbx("desk").await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    offhook.signal("KILL").await;
    offhook.wait_exit(SOON).await;
    stays(&asterisk, &mut caller).await;
}

async fn stays(asterisk: &Asterisk, caller: &mut Phone) {
    let again = Offhook::attached(asterisk, &crate::calls::agent("- listen: {}", "")).await;
    again.wait_logged("reconciled with Asterisk").await;
    caller.wait_to_hear(DESK_HZ, ms(3_000), SOON).await;
    caller.hang_up().await;
    asterisk.wait_empty(SOON).await;
}

crate::scenes! {
    real:
        a_place_that_hangs_up_at_once_is_told_as_a_transfer_that_failed,
        a_person_whom_the_place_calls_has_taken_the_caller;
    both:
        a_caller_who_gives_up_while_the_place_rings_was_transferred,
        a_caller_at_a_place_stays_there_when_the_engine_stops_and_another_one_starts;
    // A kill ends a process.
    only_real:
        a_caller_at_a_place_stays_there_when_the_engine_is_killed_and_another_one_starts;
}
