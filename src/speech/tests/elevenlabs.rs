//! ElevenLabs over HTTP: what it is asked for, and what it answers.

use super::*;
use axum::{
    Json,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use std::{collections::HashMap, io, sync::Mutex};

/// The voice, the format, the key and the body.
type Asked = Arc<Mutex<Vec<(String, String, String, Value)>>>;

/// Does what the voice's name says.
async fn speak(
    State(asked): State<Asked>,
    Path(voice): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let key = headers["xi-api-key"].to_str().unwrap().to_owned();
    asked.lock().unwrap().push((voice.clone(), query["output_format"].clone(), key, body));
    let refused = |status: StatusCode, name: &str| {
        let detail = json!({ "detail": { "status": name, "message": format!("{SECRET} may not say this.") } });
        (status, [("retry-after", "3")], Json(detail)).into_response()
    };
    let piece = |bytes: &'static [u8]| Ok::<_, io::Error>(Bytes::from_static(bytes));
    match voice.as_str() {
        "ada" => Response::new(Body::from_stream(streams::iter([piece(b"abc"), piece(b"defgh")]))),
        "broken" => Response::new(broken(&[b"abcd"])),
        "poor" => refused(StatusCode::UNAUTHORIZED, "quota_exceeded"),
        "locked" => refused(StatusCode::UNAUTHORIZED, "invalid_api_key"),
        "busy" => refused(StatusCode::TOO_MANY_REQUESTS, "too_many_concurrent_requests"),
        _ => refused(StatusCode::NOT_FOUND, "voice_not_found"),
    }
}

async fn service() -> (String, Asked) {
    let asked = Asked::default();
    let router = Router::new().route("/v1/text-to-speech/{voice}/stream", post(speak)).with_state(asked.clone());
    (serve(router).await, asked)
}

fn options(url: &str, voice: &str) -> Value {
    json!({ "api_key": SECRET, "base_url": url, "voice": voice })
}

#[tokio::test]
async fn the_telephones_own_format_passes_through_untouched_and_others_are_whole_samples() {
    let (url, asked) = service().await;
    for (leg, name, format, heard) in [
        (Format::ULAW, "ulaw_8000", Format::ULAW, "abcdefgh"),
        (Format::ALAW, "alaw_8000", Format::ALAW, "abcdefgh"),
        (Format::SLIN8, "pcm_16000", Format::SLIN16, "abcdefgh"),
        (Format::SLIN16, "pcm_16000", Format::SLIN16, "abcdefgh"),
        (Format::SLIN24, "pcm_24000", Format::SLIN24, "abcdefgh"),
    ] {
        let (told, bytes, end) = clause("elevenlabs_speech", &options(&url, "ada"), "Good morning.", leg).await;
        assert!(end.is_none(), "{end:?}");
        assert_eq!((told, bytes.as_slice()), (Some(format), heard.as_bytes()));
        let wanted = json!({ "text": "Good morning.", "model_id": "eleven_flash_v2_5" });
        let last = asked.lock().unwrap().pop().unwrap();
        assert_eq!(last, ("ada".into(), name.into(), SECRET.into(), wanted), "what is not configured is not sent");
    }
    let mut options = options(&url, "ada");
    options["language"] = "de".into();
    options["settings"] = json!({ "stability": 0.4, "speed": 1.1 });
    let clip = build("elevenlabs_speech", &options).unwrap().voice().speak("Guten Morgen.").await.unwrap();
    assert_eq!(clip.render(Format::SLIN24).as_ref(), b"abcdefgh");
    let (_, format, _, body) = asked.lock().unwrap().pop().unwrap();
    assert_eq!((&*format, &body["language_code"]), ("pcm_24000", &json!("de")), "a clip is for legs of every format");
    assert_eq!(body["voice_settings"], json!({ "stability": 0.4, "speed": 1.1 }));
}

#[tokio::test]
async fn a_fault_is_told_by_its_name_and_never_by_its_sentence() {
    let (url, _) = service().await;
    for (voice, status, code, seconds) in [
        ("poor", 401, "quota_exceeded", 3),
        ("locked", 401, "invalid_api_key", 3),
        ("busy", 429, "too_many_concurrent_requests", 3),
        ("nobody", 404, "voice_not_found", 3),
    ] {
        let (_, bytes, end) = clause("elevenlabs_speech", &options(&url, voice), "Hello.", Format::ULAW).await;
        let retry_after = Some(Duration::from_secs(seconds));
        let expected = Fault::Refused { status, code: Some(code.into()), retry_after };
        let Some(VoiceError::Remote(fault)) = end else { panic!("{end:?}") };
        assert!(bytes.is_empty() && fault == expected, "{fault:?}");
        let is_quota = fault.loss() == crate::call::AgentLoss::Quota;
        assert_eq!(is_quota, voice == "poor", "who pays nothing is not asked again");
    }
    let (_, bytes, end) = clause("elevenlabs_speech", &options(&url, "broken"), "Hello.", Format::ULAW).await;
    assert!(bytes == b"abcd" && matches!(end, Some(VoiceError::Remote(Fault::Closed(None)))), "{end:?}");
}

#[tokio::test]
async fn a_text_that_the_vendor_refuses_is_not_sent() {
    let (url, asked) = service().await;
    let long = "Good morning. ".repeat(750);
    let (_, _, end) = clause("elevenlabs_speech", &options(&url, "ada"), &long, Format::ULAW).await;
    assert!(matches!(end, Some(VoiceError::TooLong(5_000))), "{end:?}");
    assert!(asked.lock().unwrap().is_empty());
}

#[test]
fn options_that_cannot_work_are_told() {
    let wrong = [
        ("base_url", json!("wss://a")),
        ("api_key", json!("")),
        ("voice", json!("../user")),
        ("model", json!("a b")),
        ("language", json!("a b")),
        ("first_sound_ms", json!(0)),
        ("timeout_ms", json!(0)),
    ];
    told("elevenlabs_speech", &options("https://api.example.com", "ada"), &wrong);
    let mut options = options("https://api.example.com", "ada");
    options["settings"] = json!({ "stability": 2, "speed": 3 });
    let check = VOICES.iter().find(|row| row.kind == "elevenlabs_speech").unwrap().check;
    let paths: Vec<_> = check(&options).into_iter().map(|problem| problem.path).collect();
    assert_eq!(paths, ["settings.stability", "settings.speed"]);
}
