//! Against Wyoming servers made of the reference library.

use crate::kit;

use bytes::Bytes;
use futures_util::StreamExt as _;
use kit::{
    audio::{Sound, samples_of},
    wyoming::{VOICE_HZ, WORD_MS, WyomingServer},
};
use offhook::{
    audio::{Converter, Encoding, Format},
    remote::kinds,
    speech::{VOICES, VoiceError},
    stt::{Hear, Heard, LISTENERS},
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{sync::mpsc, time::timeout};

const PATIENCE: Duration = Duration::from_secs(20);

/// One call with two turns of 1.5 s each; all that was told.
async fn call(address: &str) -> Vec<Heard> {
    let options =
        json!({ "address": address, "model": "small", "language": "de", "names": ["Grün"], "terms": ["Taxi"] });
    let listener = kinds::build(LISTENERS, "wyoming_transcribe", &options).expect("good options");
    assert_eq!(listener.format(Format::ULAW), Format::SLIN16);
    let (input, hears) = mpsc::channel(1_024);
    let (tells, mut words) = mpsc::channel(1_024);
    let session = tokio::spawn(listener.listen(Format::SLIN16, hears, tells));
    let mut told = Vec::new();
    for turns in 1..=2 {
        let frame = Hear::Audio(Bytes::from(vec![0; Format::SLIN16.frame_bytes()]));
        let sound = |frames: usize| vec![frame.clone(); frames];
        let turn = [sound(50), vec![Hear::TurnBegan], sound(25), vec![Hear::TurnMayEnd, Hear::TurnEnded]];
        for hear in turn.concat() {
            input.send(hear).await.expect("the session goes on");
        }
        while told.iter().filter(|heard| matches!(heard, Heard::Turn { .. })).count() < turns {
            told.push(timeout(PATIENCE, words.recv()).await.expect("it comes soon").expect("the session goes on"));
        }
    }
    drop(input);
    timeout(PATIENCE, session).await.expect("it ends").expect("no panic").expect("no fault");
    told
}

#[tokio::test]
async fn a_server_of_the_reference_library_understands_what_is_asked() {
    for kind in ["plain", "streaming"] {
        let server = WyomingServer::start(kind);
        let told = call(&server.address).await;
        let text = "1500 ms of 16000 Hz, 2 bytes, 1 channel for small in de: Grün, Taxi".to_owned();
        let turns = told.iter().filter(|heard| **heard == Heard::Turn { text: text.clone() }).count();
        assert_eq!((told.first(), turns), (Some(&Heard::Ready), 2), "{kind}");
    }
}

/// What is heard of a clause, at the telephone's rate.
async fn clause(address: &str, options: Value, text: &str) -> Result<Sound, VoiceError> {
    let mut entry = json!({ "address": address });
    options.as_object().into_iter().flatten().for_each(|(key, value)| entry[key] = value.clone());
    let voice = kinds::build(VOICES, "wyoming_speech", &entry).expect("good options");
    let mut sounds = voice.stream(text.into(), Format::ULAW);
    let format = Format { encoding: Encoding::Linear, rate: 22_050 };
    let (mut telephone, mut bytes) = (Converter::new(format, Format::SLIN8), Vec::new());
    while let Some(sound) = timeout(PATIENCE, sounds.next()).await.expect("it comes soon") {
        let sound = sound?;
        assert_eq!(sound.format, format);
        telephone.push(&sound.audio, &mut bytes);
    }
    telephone.flush(&mut bytes);
    Ok(Sound { samples: samples_of(&bytes, Format::SLIN8) })
}

#[tokio::test]
async fn a_server_of_the_reference_library_speaks_with_the_voice_that_is_asked_for() {
    let server = WyomingServer::start("speaking");
    let words = "There are seven words in this sentence.";
    for (options, pitch) in [
        (json!({}), VOICE_HZ),
        (json!({ "language": "de" }), 990.0),
        (json!({ "voice": "high", "speaker": "ada" }), 1320.0),
    ] {
        let heard = clause(&server.address, options, words).await.expect("it speaks");
        let all = Duration::from_millis(7 * WORD_MS);
        assert!(heard.length().abs_diff(all) <= Duration::from_millis(20), "{:?}", heard.length());
        assert!(
            heard.time_of(pitch).abs_diff(all) <= Duration::from_millis(20),
            "{:?} of {pitch}",
            heard.time_of(pitch)
        );
    }
}

#[tokio::test]
async fn a_refusal_of_the_reference_library_is_a_fault_that_does_not_repeat_the_text() {
    let server = WyomingServer::start("speaking");
    for (options, text, told) in [
        (json!({}), "say nothing", "the service reports an error (no_voice)"),
        (json!({ "voice": "high", "speaker": "ada" }), "say nothing", "the service reports an error (no_voice)"),
        (json!({ "voice": "missing" }), "say hello", "the service has no voice missing; it has high"),
    ] {
        let fault = clause(&server.address, options, text).await.expect_err("a refusal");
        assert_eq!(fault.to_string(), told);
    }
}
