//! Against an emulated service, which does what the model's name says.

use super::*;
use crate::{
    call::Usage,
    stt::{Hear, Heard, stage::Call},
};
use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::json;
use std::{convert::Infallible, sync::Mutex};

const SECRET: &str = "sk-a-secret-key";

#[derive(Clone, Default)]
struct Emulated(Arc<Mutex<Vec<Vec<u8>>>>);

async fn transcriptions(State(emulated): State<Emulated>, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(headers[header::AUTHORIZATION], format!("Bearer {SECRET}"));
    let field = |name: &str| -> Option<String> {
        let text = String::from_utf8_lossy(&body);
        let (_, rest) = text.split_once(&format!("name=\"{name}\"\r\n\r\n"))?;
        rest.split("\r\n").next().map(str::to_owned)
    };
    let model = field("model").unwrap();
    emulated.0.lock().unwrap().push(body.to_vec());
    let fault = |status: StatusCode, wait: &str| {
        let error = json!({ "error": { "message": "Ein Taxi.", "code": "rate_limit_exceeded" } });
        (status, [(header::RETRY_AFTER, wait.to_owned())], Json(error)).into_response()
    };
    match &*model {
        "words" => {
            let usage = json!({ "type": "tokens", "input_tokens": 14, "output_tokens": 9, "total_tokens": 23,
                "input_token_details": { "text_tokens": 4, "audio_tokens": 10 } });
            Json(json!({ "text": " Ein Taxi. ", "usage": usage })).into_response()
        }
        "nothing" => Json(json!({ "text": "" })).into_response(),
        "stranger" => fault(StatusCode::UNAUTHORIZED, ""),
        "busy" => fault(StatusCode::TOO_MANY_REQUESTS, "60"),
        "page" => "<p>Welcome</p>".into_response(),
        "huge" => {
            let piece = || Ok::<_, Infallible>(Bytes::from_static(&[b' '; 1 << 16]));
            Response::new(Body::from_stream(futures_util::stream::repeat_with(piece)))
        }
        "cut" => {
            let half =
                futures_util::stream::iter([Ok(Bytes::from_static(b"{\"te")), Err(std::io::Error::other("cut"))]);
            Response::new(Body::from_stream(half))
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn call(model: &str) -> (Call, Emulated) {
    let emulated = Emulated::default();
    let router = Router::new().route("/v1/audio/transcriptions", post(transcriptions)).with_state(emulated.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let options = json!({
        "api_key": SECRET, "base_url": base_url, "model": model, "languages": ["de", "en"], "keywords": ["Taxi"],
        "prompt": "A taxi office.", "temperature": 0.5,
    });
    (Call::begin(KIND.kind, &options, Format::ULAW), emulated)
}

fn turn(call: &Call) {
    call.sound(Format::SLIN16, 100, 1);
    call.hears(Hear::TurnBegan);
    call.sound(Format::SLIN16, 20, 2);
    call.hears(Hear::TurnEnded);
}

#[tokio::test]
async fn an_utterance_is_sent_as_a_file_with_what_is_configured() {
    let (mut call, emulated) = call("words").await;
    turn(&call);
    assert_eq!(call.story().await, ["ready", "turn: Ein Taxi."]);
    let used = Usage {
        transcription_text_tokens: 4,
        transcription_audio_tokens: 10,
        transcription_output_tokens: 9,
        ..Usage::default()
    };
    assert_eq!(call.is_told().await, Heard::Usage(used));
    let body = emulated.0.lock().unwrap()[0].clone();
    let text = String::from_utf8_lossy(&body);
    for (name, value) in [
        ("response_format", "json"),
        ("languages[]", "de"),
        ("languages[]", "en"),
        ("keywords[]", "Taxi"),
        ("prompt", "A taxi office."),
        ("temperature", "0.5"),
    ] {
        assert!(text.contains(&format!("name=\"{name}\"\r\n\r\n{value}\r\n")), "{name}");
    }
    assert!(text.contains("filename=\"turn.wav\"\r\nContent-Type: audio/wav"));
    let at = body.windows(4).position(|four| four == b"RIFF").unwrap();
    let wav = hound::WavReader::new(&body[at..]).unwrap();
    assert_eq!((wav.spec().sample_rate, wav.spec().channels, wav.duration()), (16_000, 1, 16 * 1_600));
    assert_eq!(call.hangs_up().await, Ok(()));
}

#[tokio::test]
async fn a_turn_that_may_end_is_asked_for_once() {
    let (mut call, emulated) = call("words").await;
    call.sound(Format::SLIN16, 100, 1);
    call.hears(Hear::TurnBegan);
    call.hears(Hear::TurnMayEnd);
    while !matches!(call.is_told().await, Heard::Partial { stable: true, .. }) {}
    call.hears(Hear::TurnEnded);
    assert_eq!(call.story().await.last().unwrap(), "turn: Ein Taxi.");
    assert_eq!(emulated.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_utterance_without_words_is_an_empty_turn() {
    let (mut call, _) = call("nothing").await;
    turn(&call);
    assert_eq!(call.story().await, ["ready", "turn: "]);
}

#[tokio::test]
async fn a_service_that_refuses_is_told_by_its_code_and_never_by_its_sentences() {
    let fault = async |model: &str| {
        let (call, emulated) = call(model).await;
        turn(&call);
        let fault = call.fault().await;
        (fault, emulated.0.lock().unwrap().len())
    };
    let code = || Some("rate_limit_exceeded".to_owned());
    let retry_after = Some(std::time::Duration::from_secs(60));
    assert_eq!(fault("busy").await, (Fault::Refused { status: 429, code: code(), retry_after }, 1));
    assert_eq!(fault("stranger").await, (Fault::Refused { status: 401, code: code(), retry_after: None }, 1));
    assert_eq!(fault("other").await.0, Fault::Refused { status: 404, code: None, retry_after: None });
    assert!(matches!(fault("page").await, (Fault::Garbage(_), 1)));
    assert!(matches!(fault("huge").await, (Fault::TooLarge(_), 1)));
    // The head may have left before the connection is cut, or not.
    assert!(matches!(fault("cut").await, (Fault::Closed(None) | Fault::Unreachable(_), 3)), "that is tried again");
}
