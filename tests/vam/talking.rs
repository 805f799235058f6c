//! Conversations of a VAM client.

use super::{
    tones::{engine, session, story},
    *,
};
use futures_util::{StreamExt as _, stream};
use offhook::vam::wire::{
    AudioChunk, AudioCodec, ClientStreamMessage, SessionInitRequest, client_stream_message,
    vani_session_service_client::VaniSessionServiceClient, vani_stream_service_client::VaniStreamServiceClient,
};
use std::collections::HashMap;
use tempfile::TempDir;
use tokio::time::Instant;
use tonic::transport::Endpoint;
use uuid::Uuid;

/// The agent answers when the client's user has spoken: LISTENING while they speak, THINKING when they have.
#[test]
fn a_client_is_answered_when_its_user_has_spoken() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        let talk = json!({
            "method": "Converse", "session": session("answers", "AUDIO_CODEC_PCM_8K_16"), "tone": 1, "silence": 4, "end": true,
        });
        let told = ask(&engine, json!([talk])).await.remove(0);
        assert!(story(&told).starts_with("IDLE LISTENING THINKING SPEAKING audio END_OF_TURN LISTENING"), "{told}");
        let seconds = told["end"]["audio_seconds_processed"].as_f64().unwrap();
        assert!((4.0..=5.1).contains(&seconds), "{seconds} s of five");
        engine.stop().await;
    });
}

/// V31: a chunk that the client marks as voiced interrupts the agent within 150 ms.
#[test]
fn a_voiced_chunk_interrupts_in_time() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        let talk = json!({
            "method": "Converse", "session": session("talks", "AUDIO_CODEC_PCM_8K_16"), "silence": 3, "interrupts": true,
        });
        let told = ask(&engine, json!([talk])).await.remove(0);
        assert!(story(&told).starts_with("IDLE LISTENING THINKING SPEAKING audio INTERRUPTED LISTENING"), "{told}");
        let took = told["interrupted_after_ms"].as_u64().unwrap();
        assert!(took <= 150, "{took} ms");
        engine.stop().await;
    });
}

/// V26, V27, V28, V33: what cannot be had is told at the beginning; what cannot be used, where it comes.
#[test]
fn what_is_wrong_is_told_and_the_conversation_goes_on() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        let amr = session("greets", "AUDIO_CODEC_AMR_NB_8K");
        let amr = json!({ "method": "Converse", "session": amr, "silence": 0.1 });
        let mut prefers = session("greets", "AUDIO_CODEC_PCM_8K_16");
        prefers["language_hints"] = json!([{ "bcp47_code": "hi-IN" }]);
        prefers["script_preference"] = "SCRIPT_ROMAN".into();
        prefers["model_preferences"] = json!({ "llm": { "backends": ["MODEL_BACKEND_SARVAM"] } });
        let corrupt = json!({
            "method": "Converse", "session": prefers, "silence": 1.5,
            "chunks": [{ "codec": "AUDIO_CODEC_AMR_NB_8K", "audio_bytes": "AAAA" }, { "audio_bytes": "AAAA" },
                       { "session_id": "another", "audio_bytes": "AAA=" }],
        });
        let mut nobody = session("greets", "AUDIO_CODEC_PCM_8K_16");
        nobody["auth_token"] = "wrong-token-of-the-test".into();
        let nobody = json!({ "method": "Converse", "session": nobody, "silence": 0.1 });
        let stranger = json!({
            "method": "Converse", "session": session("greets", "AUDIO_CODEC_PCM_8K_16"), "silence": 0.1,
            "stream_of": Uuid::new_v4().to_string(),
        });
        let mut abroad = session("greets", "AUDIO_CODEC_PCM_8K_16");
        abroad["data_residency"] = "DATA_RESIDENCY_ON_PREM".into();
        let abroad = json!({ "method": "Converse", "session": abroad, "silence": 0.1 });
        let told = ask(&engine, json!([corrupt, nobody, stranger, abroad, amr])).await;
        assert_eq!(told[0]["init"]["status"], "SESSION_STATUS_DEGRADED");
        let named = json!(["language_hints", "script_preference", "model_preferences.llm"]);
        assert_eq!(told[0]["init"]["degraded_capabilities"], named);
        assert_eq!(told[4]["init"]["status"], "SESSION_STATUS_CODEC_UNSUPPORTED");
        assert_eq!(told[4]["init"]["degraded_capabilities"], json!(["audio_codec_downgraded_to_amr"]), "{}", told[4]);
        assert_eq!(told[4]["code"], "FAILED_PRECONDITION");
        let corrupt = |told: &Value| story(told).matches("AUDIO_CORRUPT").count();
        assert_eq!(corrupt(&told[0]), 3, "{}", told[0]);
        assert!(story(&told[0]).contains("SPEAKING audio"), "{}", told[0]);
        assert_eq!(told[1]["init"]["status"], "SESSION_STATUS_AUTH_FAILED");
        assert_eq!(told[1]["code"], "FAILED_PRECONDITION");
        assert_eq!(told[2]["code"], "FAILED_PRECONDITION");
        assert_eq!(told[3]["init"]["status"], "SESSION_STATUS_DATA_RESIDENCY_VIOLATION");
        engine.stop().await;
    });
}

/// V33: what comes in another codec in the middle of a conversation is named and passed over; what is said after it is heard.
#[test]
fn a_chunk_in_another_codec_in_the_middle_is_told_and_passed_over() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        let others = ["AUDIO_CODEC_OPUS_16K", "AUDIO_CODEC_PCM_16K_16", "AUDIO_CODEC_AMR_NB_8K"];
        let chunks: Vec<Value> = others.iter().map(|codec| json!({ "codec": codec, "audio_bytes": "AAAA" })).collect();
        let talk = json!({
            "method": "Converse", "session": session("answers", "AUDIO_CODEC_PCM_8K_16"), "tone": 1, "silence": 3,
            "chunks": chunks, "at": 0.5,
        });
        let told = ask(&engine, json!([talk])).await.remove(0);
        assert_eq!(told["code"], "OK", "{told}");
        assert_eq!(story(&told).matches("AUDIO_CORRUPT").count(), others.len(), "{told}");
        assert!(story(&told).ends_with("THINKING SPEAKING audio END_OF_TURN LISTENING END_OF_TURN"), "{told}");
        engine.stop().await;
    });
}

/// It is cut off after some seconds, and its session is over; nobody else's is.
#[test]
fn a_client_that_reads_nothing_is_cut_off() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        let endpoint = Endpoint::from_shared(format!("http://{}", engine.grpc_addr().unwrap())).unwrap();
        // What is on its way to it is little.
        let endpoint = endpoint.initial_stream_window_size(Some(65_535)).initial_connection_window_size(Some(65_535));
        let channel = endpoint.connect().await.unwrap();
        let request = SessionInitRequest {
            session_id: Uuid::new_v4().to_string(),
            auth_token: TOKEN.into(),
            metadata: HashMap::from([("context".to_owned(), "talks".to_owned())]),
            ..SessionInitRequest::default()
        };
        let begun = VaniSessionServiceClient::new(channel.clone()).init_session(request).await.unwrap().into_inner();
        let chunk = AudioChunk {
            session_id: begun.session_id,
            audio_bytes: vec![0; 640].into(),
            codec: AudioCodec::Pcm16k16.into(),
            ..AudioChunk::default()
        };
        let first = ClientStreamMessage { payload: Some(client_stream_message::Payload::AudioChunk(chunk)) };
        let messages = stream::iter([first]).chain(stream::pending());
        let _unread = VaniStreamServiceClient::new(channel).agent_stream(messages).await.unwrap();
        let until = Instant::now() + PATIENCE;
        let counted = |line: &str| engine.metrics().text().lines().any(|found| found == line);
        while !(counted("offhook_vam_streams_stuck_total 1") && counted("offhook_vam_sessions 0")) {
            assert!(Instant::now() < until, "{}", engine.metrics().text());
            sleep(Duration::from_millis(50)).await;
        }
        let talk = json!({ "method": "Converse", "session": session("greets", "AUDIO_CODEC_PCM_8K_16"), "silence": 1 });
        assert!(story(&ask(&engine, json!([talk])).await.remove(0)).contains("SPEAKING audio"));
        engine.stop().await;
    });
}

/// V34: what the agent was saying when its client ended the session is brought to its end on the stream.
#[test]
fn a_session_that_its_client_ends_is_told_to_its_end() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        let talk = json!({
            "method": "Converse", "session": session("talks", "AUDIO_CODEC_PCM_8K_16"), "silence": 1.5, "end": true,
        });
        let told = ask(&engine, json!([talk])).await.remove(0);
        assert_eq!(told["code"], "OK", "{told}");
        assert!(story(&told).ends_with("SPEAKING audio END_OF_TURN"), "{told}");
        let audio = told["events"].as_array().unwrap().iter().rev().find(|event| event["event"] == "audio").unwrap();
        assert_eq!(audio["final"], true, "{told}");
        assert!(told["end"]["audio_seconds_processed"].as_f64().unwrap() > 1.0, "{told}");
        engine.stop().await;
    });
}

/// V35: after its time a session is over, and the client is told why.
#[test]
fn a_session_ends_with_its_time() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, ", ttl: 1s, limit: 1").await;
        let talk = json!({ "method": "Converse", "session": session("talks", "AUDIO_CODEC_PCM_8K_16"), "silence": 4 });
        let told = ask(&engine, json!([talk])).await.remove(0);
        let events = story(&told);
        assert!(
            events.ends_with("SESSION_EXPIRED audio END_OF_TURN") || events.ends_with("SESSION_EXPIRED END_OF_TURN"),
            "{told}"
        );
        assert!(engine.metrics().text().contains("offhook_vam_sessions 0"));
        engine.stop().await;
    });
}
