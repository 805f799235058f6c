//! Against an emulated server; `tests/wyoming.rs` has one of the reference library.

use super::*;
use crate::stt::{
    Hear, Heard,
    stage::{Call, TURN_MAX, Vendor},
};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

async fn call(more: Value) -> (Call, Vendor) {
    let vendor = Vendor::open().await;
    let mut options = json!({ "address": vendor.address });
    more.as_object().unwrap().iter().for_each(|(key, value)| options[key] = value.clone());
    let mut call = Call::begin(KIND.kind, &options, Format::ULAW);
    drop(vendor.stream().await);
    assert_eq!(call.is_told().await, Heard::Ready, "somebody is there");
    (call, vendor)
}

fn turn(call: &Call) {
    call.sound(Format::SLIN16, 100, 1);
    call.hears(Hear::TurnBegan);
    call.sound(Format::SLIN16, 20, 2);
    call.hears(Hear::TurnEnded);
}

/// Takes events up to the end of the audio: their kinds, and how many bytes of sound.
async fn hears(server: &mut Connection) -> (Vec<String>, usize) {
    let (mut kinds, mut bytes) = (Vec::new(), 0);
    loop {
        let event = server.next().await.unwrap();
        bytes += event.payload.len();
        if kinds.last() != Some(&event.kind) {
            kinds.push(event.kind.clone());
        }
        if event.kind == "audio-stop" {
            return (kinds, bytes);
        }
        if event.kind.starts_with("audio") {
            assert_eq!(Value::Object(event.data), json!({ "rate": 16_000, "width": 2, "channels": 1 }));
        }
    }
}

fn event(kind: &str, text: &str) -> Event {
    Event::new(kind, json!({ "text": text }))
}

#[tokio::test]
async fn an_utterance_is_written_down_and_the_next_has_a_connection_of_its_own() {
    let options = json!({ "model": "small", "language": "de", "names": ["Ada"], "terms": ["Taxi"] });
    let (mut call, vendor) = call(options).await;
    for text in ["Ein Taxi.", ""] {
        turn(&call);
        let mut server = Connection::over(vendor.stream().await);
        let asked = server.next().await.unwrap();
        let wanted =
            json!({ "name": "small", "language": "de", "transcript_names": ["Ada"], "transcript_terms": ["Taxi"] });
        assert_eq!((&*asked.kind, Value::Object(asked.data)), ("transcribe", wanted));
        let (kinds, bytes) = hears(&mut server).await;
        assert_eq!((kinds.join(" "), bytes), ("audio-start audio-chunk audio-stop".into(), 32 * 1_600));
        server.send(&event("transcript", &format!(" {text} "))).await.unwrap();
        assert_eq!(call.story().await, [format!("turn: {text}")]);
    }
    assert_eq!(call.hangs_up().await, Ok(()));
}

#[tokio::test]
async fn a_server_that_streams_is_heard_while_the_caller_speaks() {
    let (mut call, vendor) = call(json!({})).await;
    call.sound(Format::SLIN16, 50, 1);
    call.hears(Hear::TurnBegan);
    let mut server = Connection::over(vendor.stream().await);
    while server.next().await.unwrap().kind != "audio-chunk" {}
    server.send(&Event::new("transcript-start", json!({}))).await.unwrap();
    server.send(&event("transcript-chunk", "Ein")).await.unwrap();
    server.send(&event("transcript-chunk", " Taxi")).await.unwrap();
    let told = [call.is_told().await, call.is_told().await];
    let partial = |text: &str| Heard::Partial { text: text.into(), stable: false };
    assert_eq!(told, [partial("Ein"), partial("Ein Taxi")]);
    call.hears(Hear::TurnEnded);
    hears(&mut server).await;
    server.send(&event("transcript", "Ein Taxi.")).await.unwrap();
    server.send(&Event::new("transcript-stop", json!({}))).await.unwrap();
    assert_eq!(call.story().await, ["turn: Ein Taxi."]);
}

#[tokio::test]
async fn a_caller_who_goes_on_is_told_anew_to_another_connection() {
    let (mut call, vendor) = call(json!({})).await;
    call.sound(Format::SLIN16, 50, 1);
    call.hears(Hear::TurnBegan);
    call.hears(Hear::TurnMayEnd);
    let mut first = Connection::over(vendor.stream().await);
    assert_eq!(hears(&mut first).await.1, 32_000);
    call.hears(Hear::TurnGoesOn);
    call.sound(Format::SLIN16, 50, 2);
    call.hears(Hear::TurnEnded);
    let mut second = Connection::over(vendor.stream().await);
    assert_eq!(hears(&mut second).await.1, 64_000);
    assert_eq!(first.next().await, Err(Fault::Closed(None)), "that is how a request is cancelled");
    second.send(&event("transcript", "Ein Taxi.")).await.unwrap();
    assert_eq!(call.story().await, ["turn: Ein Taxi."]);
}

#[tokio::test]
async fn a_server_that_breaks_off_is_asked_again() {
    let (mut call, vendor) = call(json!({})).await;
    turn(&call);
    drop(vendor.stream().await);
    let mut server = Connection::over(vendor.stream().await);
    assert_eq!(hears(&mut server).await.1, 32 * 1_600, "with all of it");
    server.send(&event("transcript", "Ein Taxi.")).await.unwrap();
    assert_eq!(call.story().await, ["turn: Ein Taxi."]);
    turn(&call);
    for _ in 0..3 {
        drop(vendor.stream().await);
    }
    assert_eq!(call.fault().await, Fault::Closed(None));
}

#[tokio::test]
async fn what_is_no_answer_is_a_fault() {
    let (call_, vendor) = call(json!({})).await;
    turn(&call_);
    let mut stream = vendor.stream().await;
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    assert!(matches!(call_.fault().await, Fault::Garbage(_)));
    let (call_, vendor) = call(json!({})).await;
    turn(&call_);
    let mut server = Connection::over(vendor.stream().await);
    server.send(&Event::new("transcript", json!({}))).await.unwrap();
    assert!(matches!(call_.fault().await, Fault::Garbage(_)));
    let (call_, vendor) = call(json!({})).await;
    turn(&call_);
    for _ in 0..3 {
        let mut server = Connection::over(vendor.stream().await);
        hears(&mut server).await;
        let error = json!({ "text": "cannot load the model for: Ein Taxi.", "code": "no_model" });
        server.send(&Event::new("error", error)).await.unwrap();
    }
    assert_eq!(call_.fault().await.to_string(), "the service reports an error (no_model)");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_at_once_and_one_that_stalls_in_time() {
    let nobody = Vendor::open().await.address;
    let call_ = Call::begin(KIND.kind, &json!({ "address": nobody }), Format::ULAW);
    assert!(matches!(call_.fault().await, Fault::Unreachable(_)));
    let (call_, vendor) = call(json!({})).await;
    turn(&call_);
    let mut server = Connection::over(vendor.stream().await);
    hears(&mut server).await;
    let before = tokio::time::Instant::now();
    tokio::time::pause();
    assert_eq!(call_.fault().await, Fault::Slow(TURN_MAX));
    assert!(before.elapsed() >= TURN_MAX - Duration::from_secs(1));
}
