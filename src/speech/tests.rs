//! Voices against the real program and an emulated service, and what the studio remembers.

use super::*;
use crate::audio::{Format, rms_dbfs};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::{FutureExt as _, stream};
use serde_json::json;
use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

fn heard(clip: &Clip) -> (u128, f32) {
    let bytes = clip.render(Format::SLIN8);
    let samples: Vec<i16> = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    (clip.length().as_millis(), rms_dbfs(&samples))
}

mod espeak_ng {
    use super::*;

    fn voice(name: &str) -> Espeak {
        assert!(is_installed(), "the tests need espeak-ng: apt install espeak-ng");
        Espeak { voice: name.into(), ..Espeak::default() }
    }

    #[tokio::test]
    async fn a_sentence_can_be_heard() {
        let clip = voice("en").speak("This call is recorded.").await.unwrap();
        let (length, level) = heard(&clip);
        assert!((800..3_000).contains(&length) && level > -30.0, "{length} ms at {level} dB");
    }

    /// What looks like an option of the program is text all the same: it goes by standard input.
    #[tokio::test]
    async fn a_text_is_never_an_argument() {
        let clip = voice("en").speak("--version").await.unwrap();
        assert!(heard(&clip).0 > 300, "a word is heard");
    }

    #[tokio::test]
    async fn a_voice_that_the_program_does_not_have_is_told_with_a_remedy() {
        let error = voice("zzzz").speak("Hello").await.unwrap_err();
        assert!(matches!(error, VoiceError::Failed(_)), "{error}");
        assert!(error.remedy().contains("--voices"));
    }
}

/// The key and the body.
type Asked = (Option<String>, Value);

/// A service that does what the model's name says.
#[derive(Clone, Default)]
struct Service {
    asked: Arc<Mutex<Vec<Asked>>>,
}

const SECRET: &str = "sk-a-secret-key";

fn second() -> Vec<i16> {
    let wave = |i: u32| 8_000.0 * (std::f32::consts::TAU * 440.0 * i as f32 / 24_000.0).sin();
    (0..24_000).map(|i| wave(i) as i16).collect()
}

/// As the vendor streams it: the lengths are not known yet.
fn streamed_wav() -> Vec<u8> {
    let mut wav = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    wav.extend(24_000_u32.to_le_bytes());
    wav.extend(48_000_u32.to_le_bytes());
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
        (status, axum::Json(json!({ "error": { "message": message, "code": code } }))).into_response()
    };
    let audio = |bytes: Vec<u8>| ([(header::CONTENT_TYPE, "audio/whatever")], bytes).into_response();
    match model.as_str() {
        "wav" => audio(streamed_wav()),
        "pcm" => audio(second().into_iter().flat_map(i16::to_le_bytes).collect()),
        "hiccup" if asked == 1 => fault(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
        "hiccup" => audio(streamed_wav()),
        "busy" => fault(StatusCode::TOO_MANY_REQUESTS, "insufficient_quota"),
        "forbidden" => fault(StatusCode::UNAUTHORIZED, "Not a name: sk-1"),
        "slow" => std::future::pending().await,
        "huge" => {
            let endless = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[0; 1 << 16])));
            Response::new(Body::from_stream(endless))
        }
        "page" => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], "<p>Welcome</p>").into_response(),
        "mp3" => audio(b"ID3\x04\0\0\0\0\0\0 not what was asked for, and long enough to have a header".to_vec()),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

impl Service {
    async fn start() -> (Self, String) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let service = Self::default();
        let router = Router::new().route("/v1/audio/speech", post(speak)).with_state(service.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (service, url)
    }

    fn times_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn options(url: &str, model: &str) -> Value {
    let format = if model == "pcm" { "pcm" } else { "wav" };
    json!({
        "api_key": SECRET, "base_url": url, "model": model, "voice": "ada", "response_format": format,
        "timeout_ms": 3_000,
    })
}

mod openai_speech {
    use super::*;

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
        assert_eq!(error.to_string(), "the service answered 429 (insufficient_quota)");
        assert_eq!(service.times_asked(), 3, "no more than a few attempts");
        let error = asked(&url, "forbidden").await.unwrap_err();
        assert_eq!((&*error.to_string(), error.remedy()), ("the service answered 401", "check api_key"));
        assert_eq!(service.times_asked(), 4, "trying again cannot heal it");
        assert_eq!(asked(&url, "other").await.unwrap_err().remedy(), "check base_url and model");
    }

    #[tokio::test]
    async fn a_service_that_does_not_answer_is_given_up_in_its_time() {
        let (_, url) = Service::start().await;
        let began = tokio::time::Instant::now();
        let error = asked(&url, "slow").await.unwrap_err();
        assert!(matches!(error, VoiceError::TooSlow(_)), "{error}");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = format!("http://{}/v1", listener.local_addr().unwrap());
        drop(listener);
        let error = asked(&nobody, "wav").await.unwrap_err();
        assert!(matches!(&error, VoiceError::Unreachable(why) if why.contains("refused")), "{error}");
    }

    #[tokio::test]
    async fn what_is_no_sentence_is_not_taken() {
        let (_, url) = Service::start().await;
        let error = asked(&url, "huge").await.unwrap_err();
        assert!(matches!(error, VoiceError::TooLarge(_)), "{error}");
        let error = asked(&url, "page").await.unwrap_err();
        assert_eq!(error.to_string(), "the answer is no sound, but text/html");
        let error = asked(&url, "mp3").await.unwrap_err();
        assert!(matches!(error, VoiceError::NoSound(ClipError::Wav(_))), "{error}");
    }

    #[test]
    fn options_that_cannot_work_are_told() {
        let check = VOICES[1].check;
        let told = |key: &str, value: Value| {
            let mut options = options("https://speech.example.com/v1", "wav");
            options[key] = value;
            check(&options).into_iter().map(|problem| problem.path).collect::<Vec<_>>()
        };
        assert!(told("voice", json!("ada")).is_empty());
        for (key, value) in [
            ("base_url", json!("ftp://a")),
            ("base_url", json!("https://user:word@a")),
            ("api_key", json!("a key")),
            ("model", json!(" ")),
            ("speed", json!(9)),
            ("timeout_ms", json!(5)),
        ] {
            assert_eq!(told(key, value.clone()), [key], "{value}");
        }
    }
}

/// Says everything in one sample, and counts.
#[derive(Default)]
struct Parrot {
    spoken: AtomicUsize,
    speaking: AtomicUsize,
    most: AtomicUsize,
}

impl Voice for Parrot {
    fn kind(&self) -> &'static str {
        "espeak_ng"
    }

    fn speak<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Clip, VoiceError>> {
        async move {
            let at_once = self.speaking.fetch_add(1, SeqCst) + 1;
            self.most.fetch_max(at_once, SeqCst);
            tokio::time::sleep(Duration::from_millis(400)).await;
            self.speaking.fetch_sub(1, SeqCst);
            self.spoken.fetch_add(1, SeqCst);
            if text == "bad" { Err(VoiceError::Missing) } else { Ok(Clip::from_samples(8_000, vec![1])?) }
        }
        .boxed()
    }
}

mod studio {
    use super::*;

    fn speaker(parrot: &Arc<Parrot>, options: &Value) -> Speaker {
        Speaker::new("parrot", options, Arc::clone(parrot) as Arc<dyn Voice>)
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_configuration_uses_is_not_rendered_for_the_next_one() {
        let (studio, parrot) = (Studio::default(), Arc::default());
        let texts = BTreeSet::from(["one", "two"]);
        let first = studio.render(&speaker(&parrot, &json!({})), &texts).await.unwrap();
        let second = studio.render(&speaker(&parrot, &json!({})), &BTreeSet::from(["two", "three"])).await.unwrap();
        assert!(Arc::ptr_eq(&first["two"], &second["two"]));
        assert_eq!(parrot.spoken.load(SeqCst), 3);
        let other = studio.render(&speaker(&parrot, &json!({ "voice": "other" })), &texts).await.unwrap();
        assert!(!Arc::ptr_eq(&first["two"], &other["two"]), "another voice");
        drop((first, second, other));
        studio.render(&speaker(&parrot, &json!({})), &texts).await.unwrap();
        assert_eq!(parrot.spoken.load(SeqCst), 7, "what nobody uses is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn hundreds_of_sentences_are_spoken_several_at_a_time_but_not_all_at_once() {
        let (studio, parrot) = (Studio::default(), Arc::<Parrot>::default());
        let texts: Vec<String> = (0..300).map(|n| format!("Sentence {n}.")).collect();
        let began = tokio::time::Instant::now();
        let clips = studio.render(&speaker(&parrot, &json!({})), &texts.iter().map(String::as_str).collect()).await;
        assert_eq!(clips.unwrap().len(), 300);
        assert_eq!(parrot.most.load(SeqCst), 8);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_voice_that_fails_is_not_asked_for_everything_else() {
        let (studio, parrot) = (Studio::default(), Arc::<Parrot>::default());
        let texts: Vec<String> = (0..100).map(|n| format!("z{n}")).collect();
        let texts = texts.iter().map(String::as_str).chain(["bad"]).collect();
        let failed = studio.render(&speaker(&parrot, &json!({})), &texts).await.unwrap_err();
        assert_eq!(failed.text, "bad");
        assert!(parrot.spoken.load(SeqCst) <= 8, "{}", parrot.spoken.load(SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_does_not_wait_for_a_voice_and_its_sentence_is_not_kept() {
        let (studio, parrot) = (Studio::default(), Arc::<Parrot>::default());
        let speaker = speaker(&parrot, &json!({}));
        assert!(studio.speak_within(&speaker, "Hello Ada", Duration::from_millis(300)).await.is_none());
        assert!(studio.speak_within(&speaker, "Hello Ada", Duration::from_millis(500)).await.is_some());
        assert!(studio.speak_within(&speaker, "bad", Duration::from_millis(500)).await.is_none());
        assert_eq!(studio.remembered(), 0);
    }
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
