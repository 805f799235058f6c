//! The pipeline that needs no key, no network and no Asterisk: what it understands, and `offhook demo`, which runs on it and
//! fails when it does not understand. A demo that goes well is in `tests/web/newcomer.rs`.

use bytes::Bytes;
use offhook::{
    audio::{Converter, Format, rms_dbfs},
    remote::kinds,
    speech::VOICES,
    stt::{Hear, Heard, LISTENERS, Listener},
};
use offhook_kit::{processes::words_of, project};
use serde_json::json;
use std::{
    process::{Output, Stdio},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    process::Command,
    sync::{Mutex, mpsc},
    time::timeout,
};

/// A demo ends itself after 90 s.
const DEMO_MAX: Duration = Duration::from_secs(120);

/// Short and long ones, some of them alike, as a company's menu may have.
const PHRASES: [&str; 30] = [
    "opening hours",
    "when are you open",
    "are you open on sunday",
    "weather",
    "what is the weather",
    "talk to a person",
    "leave a message",
    "thank you",
    "goodbye",
    "thank you goodbye",
    "yes",
    "no",
    "yes please",
    "help",
    "repeat that please",
    "sales",
    "support",
    "accounting",
    "the front desk",
    "where are you",
    "how do i find you",
    "make an appointment",
    "cancel my appointment",
    "change my appointment",
    "order status",
    "where is my order",
    "pay a bill",
    "call me back",
    "speak to the manager",
    "main menu",
];
/// Of [`PHRASES`] by each of [`SPEAKERS`].
const UNDERSTOOD_MIN: usize = 26;
const SPEAKERS: [&str; 3] = ["en-us", "en-us+f3", "en-us+m7"];

/// One program at a time speaks or listens: a second one waits for a place for as long as callers are kept waiting, which is less
/// than a recognition may take on a busy machine.
static ONE: Mutex<()> = Mutex::const_new(());

/// Samples of a text that espeak-ng speaks.
async fn speech(text: &str, speaker: &str) -> Vec<i16> {
    let _one = ONE.lock().await;
    let voice = kinds::build(VOICES, "espeak_ng", &json!({ "voice": speaker, "words_per_minute": 160 }));
    let spoken = voice.expect("good options").speak(text).await.expect("espeak-ng speaks").render(Format::SLIN8);
    let mut samples = Vec::new();
    Format::SLIN8.decode(&spoken, &mut samples);
    samples
}

/// What is understood of a phrase that espeak-ng speaks over a telephone.
async fn understood(listener: Arc<dyn Listener>, said: &str, speaker: &str) -> String {
    let spoken = if said.is_empty() { Vec::new() } else { speech(said, speaker).await };
    let line = [vec![0; 2_400], spoken, vec![0; 4_800]].concat();
    let mut bytes = Vec::new();
    Format::ULAW.encode(&line, &mut bytes);
    heard(listener, Format::ULAW, &bytes).await
}

/// Words that are understood of a turn of this audio.
async fn heard(listener: Arc<dyn Listener>, of: Format, audio: &[u8]) -> String {
    let _one = ONE.lock().await;
    let format = listener.format(of);
    let mut sound = Vec::new();
    Converter::new(of, format).push(audio, &mut sound);
    let (tell, input) = mpsc::channel(1_024);
    let (words, mut heard) = mpsc::channel(16);
    let listening = tokio::spawn(listener.listen(format, input, words));
    tell.send(Hear::TurnBegan).await.expect("it listens");
    for frame in sound.chunks(format.frame_bytes()) {
        tell.send(Hear::Audio(Bytes::copy_from_slice(frame))).await.expect("it listens");
    }
    tell.send(Hear::TurnEnded).await.expect("it listens");
    let text = loop {
        match heard.recv().await {
            Some(Heard::Turn { text }) => break Some(text),
            Some(_) => {}
            None => break None,
        }
    };
    drop(tell);
    assert_eq!(listening.await.expect("no panic"), Ok(()));
    text.expect("it tells of each turn")
}

#[tokio::test]
async fn most_phrases_are_understood_over_a_telephone_and_silence_is_none() {
    let listener = kinds::build(LISTENERS, "pocketsphinx", &json!({ "phrases": PHRASES })).expect("run `make setup`");
    for speaker in SPEAKERS {
        let mut misheard = Vec::new();
        for phrase in PHRASES {
            let heard = understood(Arc::clone(&listener), phrase, speaker).await;
            if heard != phrase {
                misheard.push(format!("{phrase:?} as {heard:?}"));
            }
        }
        let right = PHRASES.len() - misheard.len();
        println!("{speaker}: {right} of {}; misheard: {}", PHRASES.len(), misheard.join(", "));
        assert!(right >= UNDERSTOOD_MIN, "{speaker}: {right} of {}: {misheard:?}", PHRASES.len());
    }
    assert_eq!(understood(listener, "", "en-us").await, "");
}

/// A radio that speaks 20 dB below the caller, at whatever place of its news the answer comes.
#[tokio::test]
async fn short_answers_are_understood_beside_a_radio() {
    let listener =
        kinds::build(LISTENERS, "pocketsphinx", &json!({ "phrases": PHRASES[..11] })).expect("run `make setup`");
    let news = "And now the news. The harbour was closed this morning after a night of heavy rain, and ferries to the islands \
                leave from the northern pier. In the old town the market is open as on every Saturday.";
    let news = speech(news, "en-us").await;
    let (mut right, mut misheard) = (0, Vec::new());
    for said in ["yes", "thank you", "goodbye"] {
        let answer = speech(said, "en-us").await;
        let quieter = 10_f32.powf((rms_dbfs(&answer) - 20.0 - rms_dbfs(&news)) / 20.0);
        for from in (0..8).map(|step| step * 8_000) {
            let mut line: Vec<i16> =
                news[from..from + answer.len() + 9_600].iter().map(|s| (f32::from(*s) * quieter) as i16).collect();
            for (on_the_line, sample) in line[4_800..].iter_mut().zip(&answer) {
                *on_the_line = on_the_line.saturating_add(*sample);
            }
            let mut bytes = Vec::new();
            Format::SLIN8.encode(&line, &mut bytes);
            match heard(Arc::clone(&listener), Format::SLIN8, &bytes).await {
                text if text == said => right += 1,
                text => misheard.push(format!("{said:?} at {from} as {text:?}")),
            }
        }
    }
    println!("{right} of 24; misheard: {misheard:?}");
    assert!(right >= 23, "{right} of 24: {misheard:?}");
}

/// `offhook demo`, as `make demo` runs it.
async fn demo(arguments: &[&str]) -> Output {
    let recording = TempDir::with_prefix("offhook-demo-").expect("a temporary directory");
    let output = Command::new(offhook_kit::program())
        .arg("demo")
        .arg("--recording")
        .arg(recording.path().join("call.wav"))
        .args(arguments)
        .current_dir(project())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    timeout(DEMO_MAX, output).await.expect("it ends").expect("cargo built the program")
}

#[tokio::test]
async fn a_demo_whose_caller_is_not_understood_fails() {
    let shipped = std::fs::read_to_string(project().join("config/attendant.yaml")).expect("a committed file");
    let folder = TempDir::with_prefix("offhook-demo-").expect("a temporary directory");
    let file = folder.path().join("attendant.yaml");
    // Without the phrases of the weather, and so without the server behind it.
    let deaf = shipped
        .replace("        - weather\n        - what is the weather\n", "")
        .replace("enabled: true", "enabled: false");
    assert_ne!(deaf.len(), shipped.len());
    std::fs::write(&file, deaf).expect("a file in the test's own directory");
    let output = demo(&["--config", file.to_str().expect("an ordinary name")]).await;
    let said = words_of(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the caller was not understood: \"What is the weather?\""), "{said}");
}
