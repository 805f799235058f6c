//! Sentences by the voices of espeak-ng, each rendered once: a program takes more of a processor than the call it is for.
//! They are kept in the target folder; the name of the file is made from all that the sound depends on.

use crate::kit::{audio::built_in_voice, python::target, speech, virtual_time};
use offhook::audio::Format;
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    fs,
    future::Future,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

static KEPT: LazyLock<Mutex<HashMap<PathBuf, Vec<i16>>>> = LazyLock::new(Mutex::default);

/// Of the program that renders: another version speaks otherwise.
static PROGRAM: LazyLock<String> = LazyLock::new(|| {
    let file = offhook::remote::program::find("espeak-ng").expect("espeak-ng, which `make setup` installs");
    let about = fs::metadata(file).expect("it is there");
    format!("{} {}", about.len(), about.mtime())
});

/// Length of the fall of a voice at the end of a sentence: espeak-ng's voices do not fall as people's do.
const FALL: Duration = Duration::from_millis(300);
/// Depth of the fall at the last sample.
const FALL_DB: f32 = 12.0;
/// Samples are audible above this.
const AUDIBLE: u16 = 300;
const RATE: u32 = 8_000;

/// Lets the voice fall at the end, evenly in dB, as a sign that the speaker has finished.
fn falling(mut samples: Vec<i16>) -> Vec<i16> {
    let end = samples.iter().rposition(|sample| sample.unsigned_abs() > AUDIBLE).map_or(0, |last| last + 1);
    let length = (RATE as usize * FALL.as_millis() as usize / 1_000).min(end);
    for (number, sample) in samples[end - length..end].iter_mut().enumerate() {
        let fall = FALL_DB * number as f32 / length as f32;
        *sample = (f32::from(*sample) * 10_f32.powf(-fall / 20.0)) as i16;
    }
    samples
}

/// A sentence as the callers of the demo say it, at 8 kHz, with the fall of a person's voice at its end.
pub async fn says(text: &str, voice: &str) -> Vec<i16> {
    let (words, name) = (text.to_owned(), voice.to_owned());
    let render = || {
        virtual_time::real_time(move || async move {
            speech::render_all(&[&words], &name).await.expect("espeak-ng speaks").remove(0)
        })
    };
    falling(once(&format!("caller {voice} {text}"), render).await)
}

/// A sentence as the engine's own voice says it.
pub async fn built_in(text: &str, format: Format) -> Vec<i16> {
    let words = text.to_owned();
    once(&format!("engine {format} {text}"), || virtual_time::outside(move || built_in_voice(&words, format))).await
}

async fn once<F: Future<Output = Vec<i16>>>(what: &str, render: impl FnOnce() -> F) -> Vec<i16> {
    let key = Sha256::digest(format!("{} {what}", *PROGRAM));
    let file = target().join("spoken").join(format!("{key:x}.s16"));
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).get(&file).cloned();
    if let Some(samples) = kept {
        return samples;
    }
    let samples = match fs::read(&file) {
        Ok(bytes) => bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect(),
        Err(_) => {
            let samples = render().await;
            let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            fs::create_dir_all(target().join("spoken")).expect("the target folder");
            // In one step: another program may look for it meanwhile.
            let part = file.with_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
            fs::write(&part, bytes).and_then(|()| fs::rename(&part, &file)).expect("a file in the target folder");
            samples
        }
    };
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(file, samples.clone());
    samples
}
