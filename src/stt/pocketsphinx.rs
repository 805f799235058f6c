//! PocketSphinx with a list of phrases: the listener that needs neither a key nor the network.
//!
//! <https://cmusphinx.github.io/wiki/tutorialpocketsphinx/>. What a reader of its pages would not expect:
//!
//! - Its model hears 16 kHz. Telephone sound that is brought there properly is not recognized at all; with a zero after
//!   every sample, which mirrors the spectrum into the empty band, most phrases are; nearly every one at the level that it
//!   expects, with a breath of noise, and with wider beams than its own ([`LEVEL`], [`NOISE`], [`BEAMS`]).
//! - One word that the dictionary does not have makes it refuse the whole grammar.
//! - It cuts at pauses by itself and prints a line for each part.
//! - One process per utterance understands more than one that stays: it adapts itself, to the wrong thing.

use super::{
    ListenerKind, Patience,
    utterance::{ByUtterance, Scribe, Written},
};
use crate::{
    audio::Format,
    call::Usage,
    config::OptionProblem,
    remote::{
        Fault,
        checks::{self, Checked},
        kinds,
    },
};
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    collections::HashSet,
    fmt::Write as _,
    fs::{File, Permissions},
    io::{self, Write as _},
    os::{fd::AsRawFd as _, unix::fs::PermissionsExt as _},
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::Duration,
};
use tokio::{io::AsyncWriteExt as _, process::Command, sync::mpsc, time::timeout};

const PROGRAM: &str = "pocketsphinx_continuous";
/// Where Debian's package puts the model for American English.
const MODEL: &str = "/usr/share/pocketsphinx/model/en-us";
/// With a grammar, three seconds of speech take some 150 ms.
const RECOGNIZE_MAX: Duration = Duration::from_secs(3);
/// Root mean square of a voice as the model likes it; at the level of a telephone, four times as loud, it takes phrases for
/// others.
const LEVEL: f32 = 800.0;
/// 20 ms.
const FRAME_SAMPLES: usize = 160;
/// Whatever is quieter than that by more is no voice: noise at the level of a voice is taken for one of the phrases.
const GAIN_MAX: f32 = 16.0;
/// The largest sample of the noise. Between what a telephone carries and its mirror there is nothing at all, which the model
/// never heard when it was trained.
const NOISE: i16 = 16;
/// With its own, narrower ones it gives up the right phrase too soon.
const BEAMS: [&str; 6] = ["-beam", "1e-80", "-wbeam", "1e-60", "-pbeam", "1e-80"];
/// More phrases than any caller knows; recognition gets worse with every one.
const PHRASES_MAX: usize = 200;
const PHRASE_CHARS_MAX: usize = 80;

pub(super) const KIND: ListenerKind = ListenerKind {
    kind: "pocketsphinx",
    summary: "The program PocketSphinx on this machine: no key, no network, English, and no words but the phrases it is given",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: kinds::no_calls,
    build: |options| Ok(Arc::new(ByUtterance(Arc::new(Recognizer::new(&checks::read(options)?)?)))),
};

/// Options of `kind: pocketsphinx`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    /// What callers can say, in words of the dictionary; nothing else is understood. Whatever else is said sounds like
    /// one of them, or like nothing.
    #[schemars(length(min = 1, max = 200))]
    phrases: Vec<String>,
    /// The folder of the acoustic model, with `cmudict-en-us.dict` and `en-us` in it; Debian's package
    /// `pocketsphinx-en-us` has one.
    #[serde(default = "model")]
    model: PathBuf,
}

fn model() -> PathBuf {
    MODEL.into()
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if self.phrases.is_empty() || self.phrases.len() > PHRASES_MAX {
            problems.push(OptionProblem::new("phrases", format!("has to have 1 to {PHRASES_MAX} entries")));
        }
        for (index, phrase) in self.phrases.iter().enumerate() {
            let plain = phrase.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, ' ' | '\''));
            if !plain || phrase.trim().is_empty() || phrase.len() > PHRASE_CHARS_MAX {
                let problem = OptionProblem::new(format!("phrases[{index}]"), "is no phrase of English words");
                problems.push(problem.hint("write words only, numbers spelt out, such as \"opening hours\""));
            }
        }
        problems
    }
}

struct Recognizer {
    /// It has no name, so that nobody else can open it, and nothing is left of it however this process ends.
    grammar: File,
    model: PathBuf,
}

impl Recognizer {
    fn new(options: &Options) -> Result<Self, Vec<OptionProblem>> {
        let problem = |path: &str, what: String, hint: &str| vec![OptionProblem::new(path, what).hint(hint)];
        let dictionary = options.model.join("cmudict-en-us.dict");
        let words = std::fs::read_to_string(&dictionary).map_err(|error| {
            problem("model", format!("has no dictionary: {error}"), "apt install pocketsphinx-en-us")
        })?;
        let known: HashSet<&str> = words.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let unknown = |(index, phrase): (usize, &String)| {
            let word = phrase.split_whitespace().find(|word| !known.contains(&*word.to_lowercase()))?;
            let problem =
                OptionProblem::new(format!("phrases[{index}]"), format!("\"{word}\" is not in the dictionary"));
            Some(problem.hint("say it with other words"))
        };
        let problems: Vec<_> = options.phrases.iter().enumerate().filter_map(unknown).collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let found = std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|at| at.join(PROGRAM).is_file()));
        if !found {
            return Err(problem("", format!("the program {PROGRAM} is not installed"), "apt install pocketsphinx"));
        }
        let grammar = write_grammar(&options.phrases).map_err(|error| {
            problem(
                "",
                format!("cannot write its grammar: {error}"),
                "see whether the folder for temporary files is full",
            )
        })?;
        Ok(Self { grammar, model: options.model.clone() })
    }
}

/// <https://www.w3.org/TR/jsgf/>
fn write_grammar(phrases: &[String]) -> io::Result<File> {
    let mut text = String::from("#JSGF V1.0;\ngrammar phrases;\npublic <phrase> = ");
    for (index, phrase) in phrases.iter().enumerate() {
        let _ = write!(text, "{}{}", if index == 0 { "" } else { " | " }, phrase.trim().to_lowercase());
    }
    text.push_str(";\n");
    let mut file = tempfile::tempfile()?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())?;
    // Opened anew, only to be read: what inherits it cannot write into it.
    File::open(format!("/dev/fd/{}", file.as_raw_fd()))
}

impl Scribe for Recognizer {
    const KIND: &'static str = KIND.kind;
    const FORMAT: Format = Format::SLIN8;

    /// It is on this machine, and says the same of the same words.
    fn patience(&self) -> Patience {
        Patience { timeout_ms: RECOGNIZE_MAX.as_millis() as u64, retries: 0 }
    }

    fn write(
        self: Arc<Self>,
        mut audio: mpsc::Receiver<Bytes>,
        _: mpsc::Sender<String>,
    ) -> BoxFuture<'static, Result<Written, Fault>> {
        let mut command = Command::new(PROGRAM);
        command
            .args(["-infile", "/dev/stdin", "-logfn", "/dev/null", "-hmm"])
            .arg(self.model.join("en-us"))
            .arg("-dict")
            .arg(self.model.join("cmudict-en-us.dict"))
            .args(["-jsgf", "/dev/stderr"])
            .args(BEAMS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        async move {
            // The one way to hand an open file on: the program has nothing to say there.
            let grammar = self.grammar.try_clone().map_err(|error| Fault::Unreachable(error.to_string()))?;
            command.stderr(grammar);
            let mut samples = Vec::new();
            while let Some(piece) = audio.recv().await {
                Self::FORMAT.decode(&piece, &mut samples);
            }
            let text = match for_the_model(&samples) {
                None => String::new(),
                Some(sound) => {
                    let recognizing = timeout(RECOGNIZE_MAX, recognize(command, sound));
                    recognizing.await.map_err(|_| Fault::Slow(RECOGNIZE_MAX))??
                }
            };
            Ok(Written { text, usage: Usage::default() })
        }
        .boxed()
    }
}

/// Telephone sound as the model understands it: 16 kHz, 16 bits. `None` if nobody speaks.
fn for_the_model(samples: &[i16]) -> Option<Vec<u8>> {
    let gain = gain(samples)?;
    // The same for the same words, so that these are always understood alike.
    let mut random = 1_u32;
    let mut noise = move || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) as i16 % NOISE
    };
    let louder = |sample: &i16| [(f32::from(*sample) * gain) as i16, 0];
    let noisy = samples.iter().flat_map(louder).map(|sample| sample.saturating_add(noise()));
    Some(noisy.flat_map(i16::to_le_bytes).collect())
}

/// What brings the voice among these to its [`LEVEL`].
fn gain(samples: &[i16]) -> Option<f32> {
    let power = |frame: &[i16]| frame.iter().map(|&s| f32::from(s).powi(2)).sum::<f32>() / frame.len() as f32;
    let powers: Vec<f32> = samples.chunks(FRAME_SAMPLES).map(power).collect();
    let most = powers.iter().copied().fold(0.0, f32::max);
    // Pauses have no say.
    let voiced: Vec<f32> = powers.into_iter().filter(|power| *power > most / 100.0).collect();
    let level = (voiced.iter().sum::<f32>() / voiced.len() as f32).sqrt();
    (level >= LEVEL / GAIN_MAX).then_some(LEVEL / level)
}

async fn recognize(mut command: Command, sound: Vec<u8>) -> Result<String, Fault> {
    let mut child = command.spawn().map_err(|error| Fault::Unreachable(error.to_string()))?;
    let stdin = child.stdin.take();
    let hearing = async move {
        if let Some(mut stdin) = stdin {
            // One that ends without reading says so by its status.
            let _ = stdin.write_all(&sound).await;
        }
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), hearing);
    let output = output.map_err(|error| Fault::Unreachable(error.to_string()))?;
    if !output.status.success() {
        return Err(Fault::Garbage("the recognizer failed"));
    }
    let words = String::from_utf8_lossy(&output.stdout);
    Ok(words.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::{io::Read as _, os::unix::fs::MetadataExt as _};

    fn problems(options: serde_json::Value) -> Vec<(String, String)> {
        let found = match checks::read::<Options>(&options) {
            Err(problems) => problems,
            Ok(options) => Recognizer::new(&options).err().unwrap_or_default(),
        };
        found.into_iter().map(|problem| (problem.path, problem.message)).collect()
    }

    #[test]
    fn phrases_are_words_that_the_dictionary_has() {
        assert_eq!(problems(json!({ "phrases": ["opening hours", "I don't know"] })), []);
        assert_eq!(problems(json!({ "phrases": ["9 to 5", "| x"] })).len(), 2);
        let unknown = problems(json!({ "phrases": ["yes", "the flumphwangler"] }));
        assert_eq!(unknown, [("phrases[1]".into(), "\"flumphwangler\" is not in the dictionary".into())]);
        let nowhere = problems(json!({ "phrases": ["yes"], "model": "/nowhere" }));
        assert_eq!(nowhere[0].0, "model");
    }

    #[test]
    fn the_grammar_is_a_file_that_nobody_else_finds_or_writes() {
        let mut grammar = write_grammar(&["Opening hours".into(), "yes".into()]).unwrap();
        let mut text = String::new();
        grammar.read_to_string(&mut text).unwrap();
        assert_eq!(text, "#JSGF V1.0;\ngrammar phrases;\npublic <phrase> = opening hours | yes;\n");
        assert!(grammar.write_all(b"x").is_err());
        let about = grammar.metadata().unwrap();
        assert_eq!((about.nlink(), about.mode() & 0o077), (0, 0), "no name, and for its owner only");
    }

    #[test]
    fn a_voice_is_brought_to_one_level_whatever_its_pauses_and_a_room_is_none() {
        let voice = |level: i16| [vec![level; 1_600], vec![0; 4_800], vec![-level; 1_600]].concat();
        for level in [50, 250, 800, 8_000, i16::MAX] {
            let louder = gain(&voice(level)).expect("a voice") * f32::from(level);
            assert!((louder - LEVEL).abs() < 1.0, "{level}: {louder}");
        }
        assert_eq!([gain(&voice(49)), gain(&[0; 160]), gain(&[])], [None; 3]);
    }
}
