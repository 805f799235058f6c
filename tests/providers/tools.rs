//! What an agent asks of its tools, and what it gets.

use crate::providers::{
    desk::{Desk, Setting},
    ear::Caller,
    kit::vendor::{Call, Dialect, Order, Scenario, Vendor, hertz},
    ms,
};
use serde_json::{Value, json};

/// A call whose id is as long as vendors make them.
pub fn look_up(number: usize) -> Call {
    Call {
        id: format!("call_{number:016}"),
        name: "look_up".into(),
        arguments: json!({ "parcel": format!("P{number}") }),
    }
}

/// A vendor and a caller whom it has greeted.
pub async fn greeted<D: Dialect>() -> (Vendor, Desk, Caller) {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    (vendor, desk, caller)
}

pub async fn a_tool_is_called_and_its_result_returned_once<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    let asked = caller.now();
    vendor.order(1, Order::Call(vec![look_up(1)]));
    vendor.until_session(1, "has the result", |seen| !seen.results.is_empty()).await;
    caller.hears_from(asked, hertz(1), ms(700)).await;
    let results = vendor.of(1, |seen| seen.results.clone());
    assert_eq!(results.len(), 1, "{results:?}");
    assert_eq!(results[0].0, look_up(1).id);
    assert!(results[0].1.contains("on its way"), "{results:?}");
    assert_eq!(desk.service.requests().len(), 1);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

pub async fn parallel_calls_are_each_answered_once<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    let asked = caller.now();
    desk.service.holds(true);
    vendor.order(1, Order::Call(vec![look_up(1), look_up(2)]));
    let requests = desk.service.wait_requests(2).await;
    assert_eq!(requests.len(), 2, "both at the same time");
    desk.service.holds(false);
    vendor.until_session(1, "has both results", |seen| seen.results.len() == 2).await;
    caller.hears_from(asked, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    let mut ids: Vec<String> = vendor.of(1, |seen| seen.results.iter().map(|(id, _)| id.clone()).collect());
    ids.sort();
    assert_eq!(ids, [look_up(1).id, look_up(2).id]);
    let answer = caller.look(|tape| tape.time_of(hertz(1), asked));
    assert!(answer <= ms(1_040), "one answer to both: {:?}", caller.look(|tape| format!("{tape:?}")));
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// More than any vendor is told of a result.
const LONG: usize = 40_000;

/// An engine whose agents have a tool that tells so much.
pub async fn desk_of_long_results(providers: &[(&str, String)], sections: &str) -> Desk {
    let desk = Desk::open(providers, Setting { tools: ", read_out", sections, ..Setting::default() }).await;
    desk.service.answers(200, json!({ "note": "Grüße. ".repeat(LONG / 7) }));
    desk
}

/// A call of it.
pub fn read_out() -> Call {
    Call { name: "read_out".into(), ..look_up(1) }
}

/// What is left can be read, and says that something is missing.
pub fn is_cut(told: &str, max: usize) {
    assert!((max - 32..=max).contains(&told.len()), "{} bytes", told.len());
    let told: Value = serde_json::from_str(told).expect("JSON");
    let told = told.get("output").unwrap_or(&told);
    assert_eq!((&told["ok"], &told["meta"]["truncated"]), (&json!(true), &json!(true)), "{told}");
    let message = told["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("It reads: ") && message.contains("Grüße."), "{message}");
}

pub async fn a_result_that_is_too_long_is_cut_to_what_the_vendor_bears<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = desk_of_long_results(&[("first", vendor.yaml())], "").await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let asked = caller.now();
    vendor.order(1, Order::Call(vec![read_out()]));
    vendor.until_session(1, "has the result", |seen| !seen.results.is_empty()).await;
    caller.hears_from(asked, hertz(1), ms(700)).await;
    is_cut(&vendor.of(1, |seen| seen.results[0].1.clone()), D::RESULT_MAX);
    desk.ends_with(&caller).await;
    assert_eq!(vendor.sessions(), 1);
    vendor.is_content();
}

pub async fn a_call_that_was_taken_back_gets_no_answer<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    desk.service.holds(true);
    vendor.order(1, Order::Call(vec![look_up(1), look_up(2)]));
    desk.service.wait_requests(2).await;
    vendor.order(1, Order::TakeBack(vec![look_up(1).id]));
    desk.counts("offhook_tool_calls_total{outcome=\"cancelled\"", 1.0).await;
    desk.service.holds(false);
    vendor.until_session(1, "has the other result", |seen| !seen.results.is_empty()).await;
    let asked = caller.now();
    vendor.order(1, Order::Call(vec![look_up(3)]));
    vendor
        .until_session(1, "has the next result", |seen| seen.results.iter().any(|(id, _)| *id == look_up(3).id))
        .await;
    caller.hears_from(asked, hertz(1), ms(500)).await;
    let ids: Vec<String> = vendor.of(1, |seen| seen.results.iter().map(|(id, _)| id.clone()).collect());
    assert_eq!(ids, [look_up(2).id, look_up(3).id]);
    desk.ends_with(&caller).await;
    vendor.is_content();
}
