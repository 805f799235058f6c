//! Streams as they should not be: a second one of a session, and messages that are none.

use super::{peer::Peer, *};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use offhook::vam::wire::{ClientStreamMessage, gateway_stream_message::Payload};
use tempfile::TempDir;
use tonic::Code;
use uuid::Uuid;

/// An engine whose agent speaks for a minute.
async fn engine(folder: &TempDir) -> Engine {
    let agents = "providers: { talks: { scripted: { script: [{ tone: { hertz: 440, for: 60s } }] } } }\n\
                  contexts: { talks: { prompt: A, provider: talks } }\n";
    super::engine(folder.path(), ", sessions: { context: talks, hosted: india_only }", agents).await
}

/// A conversation of two seconds in which these bytes come, each in place of a message, after half a second.
fn says(bytes: &[&[u8]]) -> Value {
    let raw: Vec<Value> = bytes.iter().map(|bytes| json!({ "raw": BASE64_STANDARD.encode(bytes) })).collect();
    json!({
        "method": "Converse", "silence": 2, "chunks": raw, "at": 0.5,
        "session": {
            "session_id": Uuid::new_v4().to_string(), "auth_token": TOKEN,
            "audio_profile": { "codec": "AUDIO_CODEC_PCM_8K_16" },
        },
    })
}

fn story(told: &Value) -> Vec<&str> {
    told["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect()
}

/// V26: a session has one stream. Whoever opens another one is told so, and the first goes on as if nothing had been; so does its
/// session when the other has left.
#[test]
fn a_second_stream_of_a_session_is_refused_and_the_first_goes_on() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder).await;
        let mut first = Peer::begin(&engine).await;
        let heard = first.sound().await;
        for _ in 0..2 {
            let mut second = Peer::opens(&engine, first.session_id.clone()).await;
            assert_eq!(second.told().await.unwrap_err().code(), Code::AlreadyExists);
        }
        first.says.send(Peer::chunk(&first.session_id)).await.unwrap();
        for index in 1..50 {
            let Payload::SynthesisChunk(chunk) = first.told().await.unwrap() else { panic!("it is interrupted") };
            assert_eq!((chunk.chunk_index, &chunk.request_id), (heard.chunk_index + index, &heard.request_id));
        }
        assert!(engine.metrics().text().contains("offhook_vam_sessions 1"));
        engine.stop().await;
    });
}

/// Bytes that are no message end the stream with the status that says so, and count, in the middle of a conversation and as its
/// beginning; nobody else notices.
#[test]
fn a_message_that_cannot_be_decoded_ends_its_stream_alone() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder).await;
        let mut other = Peer::begin(&engine).await;
        other.sound().await;
        // No tag at all; a chunk of audio that ends too early; one that is a number.
        for (count, broken) in [(1, &[0xff; 4][..]), (2, &[0x0a, 0x7f, 0x0a]), (3, &[0x08, 0x01])] {
            let told = ask(&engine, json!([says(&[broken])])).await.remove(0);
            assert_eq!(told["code"], "INTERNAL", "{told}");
            assert!(story(&told).starts_with(&["IDLE", "LISTENING", "THINKING", "SPEAKING"]), "{told}");
            assert!(story(&told).ends_with(&["audio", "END_OF_TURN"]), "it is told to its end: {told}");
            until(&engine, &format!("offhook_vam_streams_unreadable_total {count}")).await;
        }
        let mut first = says(&[&[0xff; 4]]);
        first["at"] = json!(0);
        assert_eq!(ask(&engine, json!([first])).await[0]["code"], "INTERNAL");
        until(&engine, "offhook_vam_streams_unreadable_total 4").await;
        other.sound().await;
        engine.stop().await;
    });
}

/// A message with nothing in it, and one with what only a later version knows, are passed over and counted; as the first message
/// they name no session.
#[test]
fn a_message_without_a_payload_is_passed_over() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder).await;
        // The field 15, a text.
        let told = ask(&engine, json!([says(&[b"", b"\x7a\x03new"])])).await.remove(0);
        assert_eq!((&told["code"], &story(&told)[..]), (&json!("OK"), STORY), "{told}");
        until(&engine, "offhook_vam_messages_empty_total 2").await;
        let nothing = ClientStreamMessage { payload: None };
        let mut stranger = Peer::opens_with(&engine, String::new(), nothing).await;
        assert_eq!(stranger.told().await.unwrap_err().code(), Code::FailedPrecondition);
        engine.stop().await;
    });
}

const STORY: &[&str] = &["IDLE", "LISTENING", "THINKING", "SPEAKING", "audio", "END_OF_TURN"];
