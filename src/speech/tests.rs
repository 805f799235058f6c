//! Voices against the real program and an emulated service, and what the studio remembers.

use super::*;
use crate::audio::rms_dbfs;
use axum::{Router, body::Body};
use futures_util::{FutureExt as _, StreamExt as _, stream as streams};
use serde_json::json;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::net::TcpListener;

mod deepgram;
mod elevenlabs;
mod openai;
mod streaming;
mod wyoming;

const SECRET: &str = "sk-a-secret-key";

fn heard(clip: &Clip) -> (u128, f32) {
    let bytes = clip.render(Format::SLIN8);
    let samples: Vec<i16> = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    (clip.length().as_millis(), rms_dbfs(&samples))
}

/// Where these routes are served.
async fn serve(router: Router) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// A body that breaks off after these pieces.
fn broken(pieces: &[&[u8]]) -> Body {
    let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let end = streams::once(async {
        // A server sends what it has when it has to wait.
        tokio::task::yield_now().await;
        Err(io::Error::other("gone"))
    });
    Body::from_stream(streams::iter(pieces).chain(end))
}

/// All that a clause came to: its format, its bytes, and how it ended.
async fn all_of(mut sounds: BoxStream<'_, Result<Sound, VoiceError>>) -> (Option<Format>, Vec<u8>, Option<VoiceError>) {
    let (mut format, mut bytes) = (None, Vec::new());
    while let Some(sound) = sounds.next().await {
        match sound {
            Ok(sound) => {
                assert!(format.is_none_or(|format| format == sound.format), "one format for all pieces");
                assert!(!sound.audio.is_empty() && sound.audio.len().is_multiple_of(sound.format.bytes_per_sample()));
                format = Some(sound.format);
                bytes.extend_from_slice(&sound.audio);
            }
            Err(error) => return (format, bytes, Some(error)),
        }
    }
    (format, bytes, None)
}

async fn clause(kind: &str, options: &Value, text: &str, leg: Format) -> (Option<Format>, Vec<u8>, Option<VoiceError>) {
    all_of(build(kind, options).unwrap().voice().stream(text.into(), leg)).await
}

/// The paths of what is wrong with `options` when each key has this value.
fn told(kind: &str, good: &Value, wrong: &[(&str, Value)]) {
    let check = VOICES.iter().find(|row| row.kind == kind).unwrap().check;
    assert!(check(good).is_empty());
    for (key, value) in wrong {
        let mut options = good.clone();
        options[*key] = value.clone();
        let told: Vec<_> = check(&options).into_iter().map(|problem| problem.path).collect();
        assert_eq!(told, [*key], "{value}");
    }
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

    #[tokio::test]
    async fn a_clause_comes_as_the_leg_wants_it() {
        for leg in [Format::ULAW, Format::SLIN16] {
            let (format, bytes, end) = all_of(voice("en").stream("Good morning.".into(), leg)).await;
            assert!(end.is_none(), "{end:?}");
            assert!(format == Some(leg) && leg.duration_of(bytes.len()).as_millis() > 500, "{format:?}");
        }
        let (_, _, end) = all_of(voice("zzzz").stream("Good morning.".into(), Format::ULAW)).await;
        assert!(matches!(end, Some(VoiceError::Failed(_))), "{end:?}");
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

    fn first_sound_max(&self) -> Duration {
        Duration::from_secs(1)
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

    fn stream(&self, _: String, _: Format) -> BoxStream<'static, Result<Sound, VoiceError>> {
        streams::empty().boxed()
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
