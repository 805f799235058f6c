//! `POST /audio/speech`, as the vendor and other servers answer it.

use super::*;
use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use std::{convert::Infallible, sync::Mutex};

/// The key and the body.
type Asked = (Option<String>, Value);

/// A service that does what the model's name says.
#[derive(Clone, Default)]
struct Service {
    asked: Arc<Mutex<Vec<Asked>>>,
}

fn second() -> Vec<i16> {
    let wave = |i: u32| 8_000.0 * (std::f32::consts::TAU * 440.0 * i as f32 / 24_000.0).sin();
    (0..24_000).map(|i| wave(i) as i16).collect()
}

/// As the vendor streams it: the lengths are not known yet.
fn streamed_wav(rate: u32) -> Vec<u8> {
    let mut wav = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    wav.extend(rate.to_le_bytes());
    wav.extend((2 * rate).to_le_bytes());
    wav.extend(b"\x02\0\x10\0data\xff\xff\xff\xff");
    wav.extend(second().into_iter().flat_map(i16::to_le_bytes));
    wav
}

async fn speak(State(service): State<Service>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let key = headers.get(header::AUTHORIZATION).map(|key| key.to_str().unwrap().to_owned());
    let model = body["model"].as_str().unwrap().to_owned();
    let asked = {
        let mut asked = service.asked.lock().unwrap();
        asked.push((key, body));
        asked.len()
    };
    let fault = |status: StatusCode, code: &str| {
        let message = format!("The key {SECRET} may not say this.");
        let error = axum::Json(json!({ "error": { "message": message, "code": code } }));
        (status, [(header::RETRY_AFTER, "9")], error).into_response()
    };
    let audio = |bytes: Vec<u8>| ([(header::CONTENT_TYPE, "audio/whatever")], bytes).into_response();
    let pieces = |pieces: Vec<Result<Bytes, Infallible>>| Response::new(Body::from_stream(streams::iter(pieces)));
    match model.as_str() {
        "wav" => audio(streamed_wav(24_000)),
        // Its pieces cut samples, and the head.
        "local" => pieces(streamed_wav(22_050).chunks(333).map(Bytes::copy_from_slice).map(Ok).collect()),
        "broken" => Response::new(broken(&[&streamed_wav(24_000)[..44], &[0; 1_001]])),
        "pcm" => audio(second().into_iter().flat_map(i16::to_le_bytes).collect()),
        "hiccup" if asked == 1 => fault(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
        "hiccup" => audio(streamed_wav(24_000)),
        "busy" => fault(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
        "forbidden" => fault(StatusCode::UNAUTHORIZED, "Not a name: sk-1"),
        "slow" => std::future::pending().await,
        "huge" => {
            let endless = streams::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[0; 1 << 16])));
            Response::new(Body::from_stream(endless))
        }
        "page" => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], "<p>Welcome</p>").into_response(),
        "mp3" => audio(b"ID3\x04\0\0\0\0\0\0 not what was asked for, and long enough to have a header".to_vec()),
        "pcm_mpeg" => ([(header::CONTENT_TYPE, "audio/mpeg")], vec![0xff; 1_000]).into_response(),
        "pcm_wav" => audio(streamed_wav(24_000)),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

impl Service {
    async fn start() -> (Self, String) {
        let service = Self::default();
        let router = Router::new().route("/v1/audio/speech", post(speak)).with_state(service.clone());
        (service, serve(router).await + "/v1")
    }

    fn times_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn options(url: &str, model: &str) -> Value {
    let format = if model.starts_with("pcm") || model == "huge" { "pcm" } else { "wav" };
    json!({
        "api_key": SECRET, "base_url": url, "model": model, "voice": "ada", "response_format": format,
        "timeout_ms": 3_000,
    })
}

async fn asked(url: &str, model: &str) -> Result<Clip, VoiceError> {
    let speaker = build("openai_speech", &options(url, model)).unwrap();
    speaker.voice().speak("Good morning.").await
}

#[tokio::test]
async fn a_service_is_asked_for_the_words_and_its_sound_can_be_heard() {
    let (service, url) = Service::start().await;
    for model in ["wav", "pcm"] {
        let (length, level) = heard(&asked(&url, model).await.unwrap());
        assert!(length == 1_000 && level > -20.0, "{model}: {length} ms at {level} dB");
    }
    let (key, body) = service.asked.lock().unwrap()[0].clone();
    assert_eq!(key.as_deref(), Some("Bearer sk-a-secret-key"));
    let wanted = json!({ "model": "wav", "input": "Good morning.", "voice": "ada", "response_format": "wav" });
    assert_eq!(body, wanted, "what is not configured is not sent");
}

/// As samples it would be noise, as loud as can be.
#[tokio::test]
async fn a_file_in_place_of_samples_is_not_played() {
    let (_, url) = Service::start().await;
    for model in ["pcm_mpeg", "pcm_wav"] {
        let error = asked(&url, model).await.unwrap_err();
        assert!(matches!(error, VoiceError::OtherContent(_)), "{model}: {error}");
    }
}

#[tokio::test]
async fn a_service_that_has_a_hiccup_is_asked_again() {
    let (service, url) = Service::start().await;
    asked(&url, "hiccup").await.unwrap();
    assert_eq!(service.times_asked(), 2);
}

#[tokio::test]
async fn a_service_that_refuses_is_told_by_its_code_and_never_by_its_sentences() {
    let (service, url) = Service::start().await;
    let error = asked(&url, "busy").await.unwrap_err();
    assert_eq!(error.to_string(), "the service answered 429 (rate_limit_exceeded)");
    assert_eq!(service.times_asked(), 3, "no more than a few attempts");
    let error = asked(&url, "forbidden").await.unwrap_err();
    assert_eq!((&*error.to_string(), error.remedy()), ("the service answered 401", "check api_key"));
    assert_eq!(service.times_asked(), 4, "trying again cannot heal it");
    assert_eq!(asked(&url, "other").await.unwrap_err().remedy(), "check base_url, model and voice");
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_given_up_in_its_time() {
    let (_, url) = Service::start().await;
    let began = tokio::time::Instant::now();
    let error = asked(&url, "slow").await.unwrap_err();
    assert!(matches!(error, VoiceError::TooSlow(_)), "{error}");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let (_socket, nobody) = crate::remote::nobody();
    let error = asked(&format!("http://{nobody}/v1"), "wav").await.unwrap_err();
    assert!(matches!(&error, VoiceError::Remote(Fault::Unreachable(why)) if why.contains("refused")), "{error}");
}

#[tokio::test]
async fn what_is_no_sentence_is_not_taken() {
    let (_, url) = Service::start().await;
    let error = asked(&url, "huge").await.unwrap_err();
    assert!(matches!(error, VoiceError::Remote(Fault::TooLarge(_))), "{error}");
    let error = asked(&url, "page").await.unwrap_err();
    assert_eq!(error.to_string(), "the answer is no sound, but text/html");
    let error = asked(&url, "mp3").await.unwrap_err();
    assert!(matches!(error, VoiceError::NoSound(ClipError::Wav(_))), "{error}");
}

#[test]
fn options_that_cannot_work_are_told() {
    let wrong = [
        ("base_url", json!("ftp://a")),
        ("base_url", json!("https://user:word@a")),
        ("api_key", json!("a key")),
        ("model", json!(" ")),
        ("speed", json!(9)),
        ("first_sound_ms", json!(5)),
        ("timeout_ms", json!(5)),
    ];
    told("openai_speech", &options("https://speech.example.com/v1", "wav"), &wrong);
}

fn second_of_bytes() -> Vec<u8> {
    second().into_iter().flat_map(i16::to_le_bytes).collect()
}

#[tokio::test]
async fn a_clause_is_told_as_it_comes_in_the_rate_that_the_service_says() {
    let (service, url) = Service::start().await;
    for (model, rate) in [("wav", 24_000), ("pcm", 24_000), ("local", 22_050)] {
        let (format, bytes, end) = clause("openai_speech", &options(&url, model), "Good morning.", Format::ULAW).await;
        assert!(end.is_none(), "{model}: {end:?}");
        assert_eq!(format, Some(Format { rate, ..Format::SLIN24 }), "{model}");
        assert_eq!(bytes, second_of_bytes(), "{model}");
    }
    assert_eq!(service.asked.lock().unwrap()[0].1["input"], "Good morning.");
}

/// A caller waits: who has another voice asks that, and who has none says so.
#[tokio::test]
async fn a_clause_is_asked_for_once() {
    let (service, url) = Service::start().await;
    let (_, _, end) = clause("openai_speech", &options(&url, "busy"), "Good morning.", Format::ULAW).await;
    let Some(VoiceError::Remote(Fault::Refused { status: 429, code: Some(code), retry_after })) = end else {
        panic!("{end:?}")
    };
    assert_eq!((&*code, retry_after, service.times_asked()), ("rate_limit_exceeded", Some(Duration::from_secs(9)), 1));
    let (_, _, end) = clause("openai_speech", &options(&url, "forbidden"), "Good morning.", Format::ULAW).await;
    assert_eq!(end.unwrap().to_string(), "the service answered 401");
}

#[tokio::test]
async fn a_clause_that_breaks_off_is_a_fault_after_what_was_heard() {
    let (_, url) = Service::start().await;
    let (_, bytes, end) = clause("openai_speech", &options(&url, "broken"), "Good morning.", Format::ULAW).await;
    assert_eq!(bytes, [0; 1_000]);
    assert!(matches!(end, Some(VoiceError::Remote(Fault::Closed(None)))), "{end:?}");
    for (model, label) in [("mp3", "no_sound"), ("page", "no_sound"), ("huge", "no_sound"), ("other", "refused")] {
        let (_, _, end) = clause("openai_speech", &options(&url, model), "Good morning.", Format::ULAW).await;
        assert_eq!(end.map(|error| error.label()), Some(label), "{model}");
    }
}

#[tokio::test]
async fn a_service_that_says_nothing_is_given_up_in_the_time_for_the_first_sound() {
    let (_, url) = Service::start().await;
    let mut options = options(&url, "slow");
    options["first_sound_ms"] = 500.into();
    let (_, _, end) = clause("openai_speech", &options, "Good morning.", Format::ULAW).await;
    assert_eq!(end.unwrap().to_string(), "it took longer than 0.5 s");
}

#[tokio::test]
async fn a_text_that_the_vendor_refuses_is_not_sent() {
    let (service, url) = Service::start().await;
    let long = "Good morning. ".repeat(750);
    let (_, _, end) = clause("openai_speech", &options(&url, "wav"), &long, Format::ULAW).await;
    assert!(matches!(end, Some(VoiceError::TooLong(4_096))), "{end:?}");
    let (_, bytes, end) = clause("openai_speech", &options(&url, "wav"), " - \u{2026}", Format::ULAW).await;
    assert!(bytes.is_empty() && end.is_none(), "nothing to be said is no fault: {end:?}");
    assert_eq!(service.times_asked(), 0);
}

/// A configuration is loaded on a thread of its own, whose runtime ends with it; calls ask the same voice later.
#[tokio::test]
async fn a_voice_outlives_the_runtime_that_first_asked_it() {
    let (_, url) = Service::start().await;
    let speaker = build("openai_speech", &options(&url, "wav")).unwrap();
    for _ in 0..2 {
        let speaker = speaker.clone();
        let said =
            tokio::task::spawn_blocking(move || wait_for(|| async { speaker.voice().speak("One.").await.is_ok() }));
        assert!(said.await.unwrap().unwrap());
    }
    speaker.voice().speak("Two.").await.unwrap();
}
