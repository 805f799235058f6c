//! What comes of the server's messages, without sockets first, then against an emulated server.

use super::*;
use crate::stt::stage::{Bench, Call, Peer, TURN_MAX, Vendor};
use base64::{Engine as _, engine::general_purpose::STANDARD};

fn options(more: Value) -> Value {
    let mut all = json!({ "api_key": "sk-secret" });
    more.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
    all
}

fn bench() -> Bench<Transcriber> {
    Bench::new(Transcriber::new(Format::ULAW, TURN_MAX, Duration::from_secs(3_300), json!({})))
}

fn committed(item: &str) -> Value {
    json!({ "type": "input_audio_buffer.committed", "item_id": item, "previous_item_id": null })
}

fn transcription(what: &str, item: &str, field: &str, text: &str) -> Value {
    let kind = format!("conversation.item.input_audio_transcription.{what}");
    let usage = json!({ "type": "duration", "seconds": 3 });
    json!({ "type": kind, "item_id": item, "content_index": 0, field: text, "usage": usage })
}

fn delta(item: &str, text: &str) -> Value {
    transcription("delta", item, "delta", text)
}

fn completed(item: &str, text: &str) -> Value {
    transcription("completed", item, "transcript", text)
}

fn settings(kind: Value, format: Format) -> Value {
    serde_json::from_value::<Options>(options(kind)).unwrap().settings(format)
}

#[test]
fn a_session_is_asked_for_the_legs_own_format_and_for_no_turns() {
    let asked = settings(json!({ "language": "de", "noise_reduction": "far_field" }), Format::ALAW);
    let input = json!({
        "format": { "type": "audio/pcma" }, "transcription": { "model": "gpt-transcribe", "language": "de" },
        "turn_detection": null, "noise_reduction": { "type": "far_field" },
    });
    let session = json!({ "type": "transcription", "audio": { "input": input } });
    assert_eq!(asked, json!({ "type": "session.update", "session": session }));
    let asked = settings(json!({ "model": "gpt-realtime-whisper", "delay": "low" }), Format::SLIN24);
    let input = &asked["session"]["audio"]["input"];
    assert_eq!(input["format"], json!({ "type": "audio/pcm", "rate": 24_000 }));
    assert_eq!(input["transcription"], json!({ "model": "gpt-realtime-whisper", "delay": "low" }));
}

#[test]
fn only_the_turn_is_sent_from_its_lead_on() {
    let mut bench = bench();
    bench.silence(5_000);
    assert!(bench.sent().is_empty());
    bench.hears(Hear::TurnBegan).silence(400).hears(Hear::TurnEnded).silence(1_000);
    let sent: Vec<Value> = bench.talk.wires.iter().map(|wire| serde_json::from_slice(wire.bytes()).unwrap()).collect();
    let audio = sent.iter().filter_map(|message| STANDARD.decode(message["audio"].as_str()?).ok());
    assert_eq!(audio.map(|audio| audio.len()).sum::<usize>(), 8 * (1_200 + 400));
    assert_eq!(sent.last().unwrap()["type"], "input_audio_buffer.commit");
}

#[test]
fn a_turn_is_told_in_pieces_and_then_as_a_whole() {
    let mut bench = bench();
    bench.silence(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
    bench
        .reads(committed("a"))
        .reads(delta("a", "Ein "))
        .reads(delta("a", "Taxi"))
        .reads(completed("a", " Ein Taxi. "));
    let used =
        bench.talk.words.iter().any(|heard| matches!(heard, Heard::Usage(used) if used.transcribed.as_secs() == 3));
    assert!(used);
    assert_eq!(bench.told(), ["… Ein", "… Ein Taxi", "turn: Ein Taxi."]);
    assert_eq!(bench.waits(), (Duration::ZERO, Ok(())));
}

/// Some models do not wait for the commit.
#[test]
fn words_that_come_during_a_turn_are_its_own() {
    let mut bench = bench();
    bench.silence(1_000).hears(Hear::TurnBegan).reads(delta("a", "Mhm")).hears(Hear::TurnDropped);
    bench.reads(delta("a", " hm")).silence(1_000).hears(Hear::TurnBegan).reads(delta("a", " hm"));
    bench.reads(delta("b", "Ja")).hears(Hear::TurnEnded).reads(committed("b")).reads(completed("b", "Ja."));
    assert_eq!(bench.told(), ["… Mhm", "… Ja", "turn: Ja."]);
    let sent = bench.sent();
    assert_eq!(sent.iter().filter(|kind| *kind == "input_audio_buffer.clear").count(), 1);
}

#[test]
fn turns_are_answered_in_order_whichever_is_ready_first() {
    let mut bench = bench();
    for item in ["a", "b"] {
        bench.silence(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded).reads(committed(item));
    }
    bench.reads(completed("b", "Two.")).reads(completed("other", "Nobody's."));
    assert!(bench.told().is_empty());
    bench.reads(completed("a", "One."));
    assert_eq!(bench.told(), ["turn: One.", "turn: Two."]);
}

#[test]
fn what_is_too_short_is_not_committed_and_what_the_server_finds_empty_is() {
    let mut bench = bench();
    bench.silence(80).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
    assert_eq!((bench.told(), bench.sent().pop().unwrap()), (vec!["turn: ".into()], "input_audio_buffer.clear".into()));
    bench.silence(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
    let error = json!({ "type": "invalid_request_error", "code": "input_audio_buffer_commit_empty", "message": "?" });
    bench.reads(json!({ "type": "error", "error": error }));
    assert_eq!(bench.told(), ["turn: "]);
}

#[test]
fn errors_are_told_by_their_code() {
    let fault = |kind: &str, code: &str| {
        let error = json!({ "type": kind, "code": code, "message": "Ein Taxi." });
        let message = json!({ "type": "error", "error": error });
        let mut bench = bench();
        bench.ends_by(&message)
    };
    use crate::call::AgentLoss;
    assert_eq!(fault("invalid_request_error", "invalid_api_key").loss(), AgentLoss::Unauthorized);
    assert_eq!(fault("insufficient_quota", "insufficient_quota").loss(), AgentLoss::Quota);
    assert_eq!(fault("invalid_request_error", "session_expired"), Fault::Closed(None));
    assert!(fault("server_error", "Ein Taxi.").is_passing());
    assert_eq!(fault("a", "Ein Taxi.").to_string(), "the service reports an error (a)");
}

#[test]
fn an_utterance_that_cannot_be_written_down_is_empty_and_the_next_one_is_heard() {
    let failed = |item: &str, code: &str| {
        let kind = "conversation.item.input_audio_transcription.failed";
        json!({ "type": kind, "item_id": item, "error": { "type": "transcription_error", "code": code } })
    };
    let mut bench = bench();
    bench.silence(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded).reads(committed("a")).reads(delta("a", "Ei"));
    bench.reads(failed("nobodys", "audio_unintelligible")).reads(failed("a", "audio_unintelligible"));
    bench.silence(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded).reads(committed("b"));
    bench.reads(completed("b", "Ein Taxi."));
    assert_eq!(bench.told(), ["… Ei", "turn: ", "turn: Ein Taxi."]);
    for code in ["insufficient_quota", "invalid_api_key", "rate_limit_exceeded"] {
        let fault = bench.ends_by(&failed("c", code));
        assert!(matches!(fault, Fault::Reported { code: Some(told), .. } if told == code));
    }
}

#[test]
fn a_server_that_says_nothing_is_slow() {
    let mut bench = bench();
    bench.silence(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded).reads(committed("a")).reads(delta("a", "Ein"));
    assert_eq!(bench.waits().1, Err(Fault::Slow(TURN_MAX)));
}

async fn call(vendor: &Vendor) -> (Call, Peer) {
    let options = options(json!({ "base_url": format!("ws://{}", vendor.address), "project": "p" }));
    let call = Call::begin("openai_realtime_transcription", &options, Format::ULAW);
    let mut peer = vendor.socket().await;
    peer.says(json!({ "type": "session.created", "session": {} })).await;
    assert_eq!(peer.hears().await["type"], "session.update");
    (call, peer)
}

fn updated(format: &str) -> Value {
    let input = json!({ "format": { "type": format } });
    json!({ "type": "session.updated", "session": { "type": "transcription", "audio": { "input": input } } })
}

#[tokio::test]
async fn a_call_is_heard_once_the_session_has_the_format_that_was_asked_for() {
    let vendor = Vendor::open().await;
    let (mut call, mut peer) = call(&vendor).await;
    assert_eq!((&*peer.path, &*peer.key), ("/?intent=transcription", "Bearer sk-secret"));
    call.sound(Format::ULAW, 50, 0xff);
    call.hears(Hear::TurnBegan);
    call.hears(Hear::TurnEnded);
    peer.says(updated("audio/pcmu")).await;
    let append = peer.hears().await;
    assert_eq!(STANDARD.decode(append["audio"].as_str().unwrap()).unwrap(), [0xff; 8_000]);
    assert_eq!(peer.hears().await["type"], "input_audio_buffer.commit");
    peer.says(committed("a")).await;
    peer.says(completed("a", "Ein Taxi.")).await;
    assert_eq!(call.story().await, ["ready", "used: 3 s", "turn: Ein Taxi."]);
    let goodbye = tokio::spawn(call.hangs_up());
    peer.drops();
    assert_eq!(goodbye.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_session_in_another_format_is_not_listened_with() {
    let vendor = Vendor::open().await;
    let (call_, mut peer) = call(&vendor).await;
    peer.says(updated("audio/pcm")).await;
    assert!(matches!(call_.fault().await, Fault::Garbage(_)));
    let (call_, mut peer) = call(&vendor).await;
    let error = json!({ "type": "invalid_request_error", "code": "unknown_parameter", "message": "session.x" });
    peer.says(json!({ "type": "error", "error": error })).await;
    assert_eq!(call_.fault().await.to_string(), "the service reports an error (unknown_parameter)");
    let (call_, peer) = call(&vendor).await;
    peer.closes(4000).await;
    assert_eq!(call_.fault().await, Fault::Closed(Some(4000)));
}

#[tokio::test]
async fn a_call_that_outlives_the_vendors_session_gets_another_in_a_pause() {
    let vendor = Vendor::open().await;
    let (mut call, mut peer) = self::call(&vendor).await;
    peer.says(updated("audio/pcmu")).await;
    assert_eq!(call.is_told().await, Heard::Ready);
    call.sound(Format::ULAW, 50, 0xff);
    call.hears(Hear::TurnBegan);
    assert_eq!(peer.hears().await["type"], "input_audio_buffer.append");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(56 * 60)).await;
    tokio::time::resume();
    call.hears(Hear::TurnEnded);
    assert_eq!(peer.hears().await["type"], "input_audio_buffer.commit", "not in the middle of a turn");
    peer.says(committed("a")).await;
    peer.says(completed("a", "One.")).await;
    assert_eq!(call.story().await.last().unwrap(), "turn: One.");
    peer.drops();
    let mut peer = vendor.socket().await;
    assert_eq!(peer.hears().await["type"], "session.update");
    call.sound(Format::ULAW, 50, 0xff);
    call.hears(Hear::TurnBegan);
    call.hears(Hear::TurnEnded);
    peer.says(updated("audio/pcmu")).await;
    peer.says(updated("audio/pcmu")).await;
    assert_eq!(peer.hears().await["type"], "input_audio_buffer.append");
    assert_eq!(peer.hears().await["type"], "input_audio_buffer.commit");
    peer.says(committed("b")).await;
    peer.says(completed("b", "Two.")).await;
    assert_eq!(call.story().await, ["used: 3 s", "turn: Two."], "it was ready before");
}
