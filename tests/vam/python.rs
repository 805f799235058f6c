//! A client of Python, made from the .proto files by gRPC's own tools: one conversation of each kind, each request, and TLS.

use super::{price, tones, *};
use crate::kit::{processes::words_of, python};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use offhook::{
    audio::{
        Format,
        opus::{Heard, Reader, Writer},
    },
    telemetry::LogCapture,
};
use std::f64::consts::TAU;
use tempfile::TempDir;
use uuid::Uuid;

/// What a client of Python is answered, one after the other; with this certificate it speaks TLS.
async fn ask_in_python(engine: &Engine, certificate: Option<&Path>, requests: Value) -> Vec<Value> {
    let address = match certificate {
        None => engine.grpc_addr().unwrap().to_string(),
        Some(_) => format!("localhost:{}", engine.grpc_addr().unwrap().port()),
    };
    let certificate = certificate.map(|file| file.display().to_string());
    let told = tokio::task::spawn_blocking(move || {
        let proto = offhook_kit::project().join("proto").display().to_string();
        let arguments: Vec<&str> = [address.as_str(), &proto].into_iter().chain(certificate.as_deref()).collect();
        python::check_lines("grpcio-tools", "check_vam.py", &arguments, &requests.to_string())
    });
    let output = told.await.unwrap();
    assert!(output.status.success(), "{}", words_of(&output));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// V29, V30: a greeting is heard whole, in the order of the specification, at both rates; the turn after it has another id.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_greeted_in_the_order_of_the_specification() {
    let folder = TempDir::new().unwrap();
    let engine = tones::engine(&folder, "").await;
    let talk = |codec: &str| {
        let session = tones::session("greets", codec);
        json!({ "method": "Converse", "session": session, "silence": 40, "until": "END_OF_TURN LISTENING" })
    };
    for told in
        ask_in_python(&engine, None, json!([talk("AUDIO_CODEC_PCM_8K_16"), talk("AUDIO_CODEC_PCM_16K_16")])).await
    {
        assert_eq!(told["init"]["status"], "SESSION_STATUS_OK", "{told}");
        assert_eq!(told["code"], "OK", "{told}");
        assert_eq!(
            tones::story(&told),
            "IDLE LISTENING THINKING SPEAKING audio END_OF_TURN LISTENING END_OF_TURN",
            "{told}"
        );
        let audio = told["events"].as_array().unwrap().iter().find(|event| event["event"] == "audio").unwrap().clone();
        assert_eq!(audio["final"], true);
        assert_eq!(told.get("words"), None, "the agent's words are heard: {told}");
        assert_eq!(audio["codec"], told["init"]["negotiated_audio_profile"]["codec"]);
        let ms = audio["ms"].as_str().map_or(audio["ms"].as_u64(), |ms| ms.parse().ok()).unwrap();
        assert!((500..=1_400).contains(&ms), "{ms} ms of a tone of 600");
        let ids: Vec<&Value> = told["events"].as_array().unwrap().iter().map(|event| &event["turn_id"]).collect();
        assert!(ids[0] == ids[3] && ids[0] != ids[6], "{told}");
    }
    engine.stop().await;
}

/// A client that speaks Opus is answered in Opus, and what it hears is what the agent says.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_opus_is_heard_and_answered_in_opus() {
    let folder = TempDir::new().unwrap();
    let engine = tones::engine(&folder, "").await;
    let mut writer = Writer::new().unwrap();
    let mut packet = |frame: usize, loud: bool| {
        let sample = |at: usize| (TAU * 440.0 * (frame * 320 + at) as f64 / 16_000.0).sin() * 12_000.0;
        let samples: Vec<i16> = (0..320).map(|at| if loud { sample(at) as i16 } else { 0 }).collect();
        let mut bytes = Vec::new();
        Format::SLIN16.encode(&samples, &mut bytes);
        BASE64_STANDARD.encode(writer.packet(&bytes).unwrap())
    };
    // A second of a tone, then silence until the agent has answered. One packet is none, before the turn of the user can end:
    // its event must not come in the middle of the answer.
    let mut packets: Vec<String> = (0..2_000).map(|frame| packet(frame, frame < 50)).collect();
    packets[55] = BASE64_STANDARD.encode([0x4b]);
    let talk = json!({
        "method": "Converse", "session": tones::session("answers", "AUDIO_CODEC_OPUS_16K"), "packets": packets, "keep": true,
        "until": "audio END_OF_TURN LISTENING",
    });
    let told = ask_in_python(&engine, None, json!([talk])).await.remove(0);
    assert_eq!(told["init"]["status"], "SESSION_STATUS_OK", "{told}");
    assert_eq!(told["init"]["negotiated_audio_profile"]["codec"], "AUDIO_CODEC_OPUS_16K");
    let (heard, mut reader) = (tones::story(&told), Reader::new().unwrap());
    assert_eq!(heard.matches("AUDIO_CORRUPT ").count(), 1, "{heard}");
    let turns = heard.replace("AUDIO_CORRUPT ", "");
    assert!(turns.starts_with("IDLE LISTENING THINKING SPEAKING audio"), "{heard}");
    let audio = told["events"].as_array().unwrap().iter().find(|event| event["event"] == "audio").unwrap();
    let mut samples = Vec::new();
    for packet in audio["packets"].as_array().unwrap() {
        let bytes = BASE64_STANDARD.decode(packet.as_str().unwrap()).unwrap();
        if let Heard::Audio(audio) = reader.audio(&bytes) {
            Format::SLIN16.decode(&audio, &mut samples);
        }
    }
    let loud = samples.chunks(320).filter(|frame| offhook::audio::rms_dbfs(frame) > -40.0).count() * 20;
    assert!((500..=900).contains(&loud), "{loud} ms of a tone of 600");
    engine.stop().await;
}

/// V2, V4, V6, V7, V9, V20, V22, V42, V answer 16: who negotiated it is sent the action over the stream, and the server is asked by nobody else; what it
/// answers reaches the agent, and nothing of it a log or a metric.
#[tokio::test]
async fn a_client_that_executes_actions_is_asked_over_its_stream() {
    let capture = LogCapture::new();
    let _guard = capture.start_as_logged();
    let folder = TempDir::new().unwrap();
    let engine = price::engine(&folder, "").await;
    let calls = price::registered(&engine).await;
    let result = json!({ "content": [{ "type": "text", "text": "{\"modal_price_per_quintal\": 2310}" }] });
    let answers = json!([
        { "status": "ACTION_STATUS_PENDING" },
        { "status": "ACTION_STATUS_SUCCESS", "result": result },
        { "status": "ACTION_STATUS_ERROR", "error_message": "too late" },
    ]);
    let mut talk = price::converses(true, 40.0, answers);
    talk["until"] = "audio END_OF_TURN LISTENING".into();
    let told = ask_in_python(&engine, None, json!([talk])).await.remove(0);
    assert_eq!(told["init"]["negotiated_capabilities"]["action_execution"], true, "{told}");
    let action = price::event(&told, "ACTION");
    assert_eq!(action["tool_call"]["tool_name"], "enam_mandi_price", "{told}");
    assert_eq!(
        action["tool_call"]["arguments"],
        json!({ "crop": PRIVATE[0], "mandi": PRIVATE[1], "state": PRIVATE[2] })
    );
    assert_eq!(action["source"], "ACTION_SOURCE_LLM");
    assert_eq!(action["timeout_ms"], 5_000, "V9: {action}");
    assert_eq!(Uuid::parse_str(action["call_id"].as_str().unwrap()).unwrap().get_version_num(), 4);
    assert_eq!(action["turn_id"], price::event(&told, "LISTENING")["turn_id"]);
    let order = ["IDLE", "LISTENING", "THINKING", "ACTION", "SPEAKING", "audio", "END_OF_TURN"];
    let at = |name: &str| price::story(&told).iter().position(|found| *found == name);
    let order: Vec<usize> = order.iter().filter_map(|name| at(name)).collect();
    assert!(order.len() >= 7 && order.is_sorted(), "the answer waits for the action: {told}");
    assert!(price::story(&told).contains(&"SPEAKING") && !price::story(&told).contains(&"LLM_BACKEND_ERROR"), "{told}");
    assert!(calls.lock().unwrap().is_empty(), "the gateway asks nobody itself");
    assert!(price::counted(&engine, "offhook_vam_results_dropped_total 1"), "the second answer");
    assert!(price::counted(&engine, "offhook_vam_action_emission_seconds_count 1"));
    assert!(PRIVATE.iter().all(|number| !engine.metrics().text().contains(number)));
    engine.stop().await;
    capture.assert_clean(&PRIVATE);
}

/// V14: what is registered is listed, and gone when it deregisters; a restart changes nothing of either.
#[tokio::test(flavor = "multi_thread")]
async fn registrations_are_listed_and_taken_away_over_the_wire() {
    let folder = TempDir::new().unwrap();
    let (first, (uri, _)) = (price::engine(&folder, "").await, action_server().await);
    assert_eq!(ask(&first, json!([registers(&uri)])).await[0]["answer"]["success"], true);
    first.stop().await;
    let second = price::engine(&folder, "").await;
    let list = |filter: &str| json!({ "method": "ListActionServers", "token": TOKEN, "request": { "tool_name_filter": filter } });
    let gone = json!({ "method": "DeregisterActionServer", "token": TOKEN, "request": { "server_id": "market" } });
    let answers =
        ask_in_python(&second, None, json!([list(""), list("lookup"), list("other"), gone, gone, list("")])).await;
    let servers = |index: usize| answers[index]["answer"]["servers"].as_array().map_or(0, Vec::len);
    assert_eq!([servers(0), servers(1), servers(2), servers(5)], [1, 1, 0, 0], "{answers:?}");
    assert_eq!(answers[0]["answer"]["servers"][0]["endpoint_uri"], uri);
    assert_eq!(answers[0]["answer"]["servers"][0]["tools"][0]["registry_key"], "enam_mandi_price");
    assert_eq!(answers[3]["answer"]["success"], true);
    assert_eq!(answers[4]["answer"]["message"], "no server of this id is registered");
    second.stop().await;
}

/// Whoever has no token learns nothing, but whether the engine is up; a message that is too long is refused, and the next one
/// is served.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_comes_in_without_a_token_or_with_too_long_a_message() {
    let folder = TempDir::new().unwrap();
    let engine = price::engine(&folder, ", limits: { message_bytes: 65536 }").await;
    let with = |token: Value| json!({ "method": "ListActionServers", "token": token });
    let long =
        json!({ "method": "RegisterActionServer", "token": TOKEN, "request": { "display_name": "x".repeat(70_000) } });
    let health = json!({ "method": "Check", "request": { "service": "vani.v1.VaniActionService" } });
    let wrong = TOKEN.replace("4711", "4712");
    let requests = json!([with(Value::Null), with(wrong.into()), health, long, with(TOKEN.into())]);
    let answers = ask_in_python(&engine, None, requests).await;
    let codes: Vec<&str> = answers.iter().map(|answer| answer["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["UNAUTHENTICATED", "UNAUTHENTICATED", "OK", "OUT_OF_RANGE", "OK"], "{answers:?}");
    assert_eq!(answers[2]["answer"]["status"], 1, "it serves");
    assert!(engine.metrics().text().contains("offhook_vam_unauthenticated_total 2"));
    engine.stop().await;
}

/// With a certificate, nothing is served in the clear, and who trusts its authority is served.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_a_certificate_speaks_tls_alone() {
    let folder = TempDir::new().unwrap();
    let (key, certificate) = (folder.path().join("gateway.key"), folder.path().join("gateway.pem"));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "1", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl, which `make setup` installs");
    assert!(made.status.success(), "{}", words_of(&made));
    let engine = price::engine(&folder, ", tls: { certificate: gateway.pem, key: gateway.key }").await;
    let list = json!([{ "method": "ListActionServers", "token": TOKEN }]);
    assert_eq!(ask_in_python(&engine, Some(&certificate), list.clone()).await[0]["code"], "OK");
    assert_eq!(ask_in_python(&engine, None, list).await[0]["code"], "UNAVAILABLE");
    engine.stop().await;
}
