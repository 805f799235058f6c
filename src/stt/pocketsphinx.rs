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
    config::OptionProblem,
    remote::{
        Fault,
        checks::{self, Checked},
        kinds,
        program::{self, PLACES, Places, Program},
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
    sync::Arc,
    time::Duration,
};
use tokio::{process::Command, sync::mpsc};

const PROGRAM: &str = "pocketsphinx_continuous";
/// Where Debian's package puts the model for American English.
const MODEL: &str = "/usr/share/pocketsphinx/model/en-us";
/// With a grammar, three seconds of speech take some 150 ms.
const RECOGNIZE_MIN: Duration = Duration::from_secs(3);
/// Of a long turn: a minute with few phrases took 1.2 s on a core that others used too, and this is five times as much.
const RECOGNIZE_SHARE: u32 = 10;
/// For one of the [`PLACES`], which six others have had meanwhile. Who has not got it by then is heard by the next listener of the
/// list, rather than left in silence for longer.
const PLACE_MAX: Duration = Duration::from_secs(1);
/// All phrases one after the other are shorter.
const WORDS_BYTES_MAX: usize = 64 << 10;
/// Root mean square of a voice as the model likes it; at the level of a telephone, four times as loud, it takes phrases for
/// others.
const LEVEL: f32 = 800.0;
/// 20 ms.
const FRAME_SAMPLES: usize = 160;
/// Power of sound that is somebody's behind the caller, as a part of that of the caller's vowels: at most this, 8 dB below them. Phrases
/// are heard in it before and after the caller's own.
const BEHIND_MAX: f32 = 0.16;
/// The loudest frames of a turn, which may be a door that slams rather than a voice: 120 ms.
const SLAM_FRAMES: usize = 6;
/// The next loudest, which are the caller's vowels: 200 ms.
const VOWEL_FRAMES: usize = 10;
/// Frames around a louder one that are the caller's whatever their power: 120 ms, for the ends of words.
const ENDS_FRAMES: usize = 6;
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
    language: |_| Some("en".into()),
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
    program: PathBuf,
    places: &'static Places,
    /// The words of the phrases; it says no others.
    words: HashSet<String>,
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
        let program = program::find(PROGRAM).ok_or_else(|| {
            problem("", format!("the program {PROGRAM} is not installed"), "apt install pocketsphinx")
        })?;
        let grammar = write_grammar(&options.phrases).map_err(|error| {
            problem(
                "",
                format!("cannot write its grammar: {error}"),
                "see whether the folder for temporary files is full",
            )
        })?;
        let words =
            options.phrases.iter().flat_map(|phrase| phrase.split_whitespace()).map(str::to_lowercase).collect();
        Ok(Self { program, places: &PLACES, words, grammar, model: options.model.clone() })
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
    const FREE_WORDS: bool = false;
    const FORMAT: Format = Format::SLIN8;

    /// It is on this machine, and says the same of the same words.
    fn patience(&self) -> Patience {
        Patience { timeout_ms: (PLACE_MAX + RECOGNIZE_MIN).as_millis() as u64, retries: 0 }
    }

    fn turn_max(&self, length: Duration) -> Duration {
        PLACE_MAX + recognize_max(length)
    }

    fn write(
        self: Arc<Self>,
        mut audio: mpsc::Receiver<Bytes>,
        _: mpsc::Sender<String>,
    ) -> BoxFuture<'static, Result<Written, Fault>> {
        async move {
            let mut samples = Vec::new();
            while let Some(piece) = audio.recv().await {
                Self::FORMAT.decode(&piece, &mut samples);
            }
            let Some(sound) = for_the_model(&samples) else { return Ok(Written::default()) };
            // It is free again with the last word, and also when the caller goes on meanwhile: this is dropped then.
            let _place = self.places.place(PLACE_MAX).await?;
            let text = self.recognize(&sound).await?;
            Ok(Written { text, ..Written::default() })
        }
        .boxed()
    }
}

/// For a turn of this length.
fn recognize_max(length: Duration) -> Duration {
    RECOGNIZE_MIN.max(length / RECOGNIZE_SHARE)
}

impl Recognizer {
    async fn recognize(&self, sound: &[u8]) -> Result<String, Fault> {
        let mut command = Command::new(&self.program);
        command
            .args(["-infile", "/dev/stdin", "-logfn", "/dev/null", "-hmm"])
            .arg(self.model.join("en-us"))
            .arg("-dict")
            .arg(self.model.join("cmudict-en-us.dict"))
            .args(["-jsgf", "/dev/stderr"])
            .args(BEAMS)
            // The one way to hand an open file on: the program has nothing to say there.
            .stderr(self.grammar.try_clone().map_err(program::unreachable)?);
        let program = Program::start(command).map_err(program::unreachable)?;
        let said =
            program.answer(sound, WORDS_BYTES_MAX, recognize_max(Format::SLIN16.duration_of(sound.len()))).await?;
        if !said.status.success() {
            return Err(Fault::Garbage("the recognizer failed"));
        }
        let text = String::from_utf8_lossy(&said.stdout);
        let words: Vec<&str> = text.split_whitespace().collect();
        if !words.iter().all(|word| self.words.contains(*word)) {
            return Err(Fault::Garbage("words of none of the phrases"));
        }
        Ok(words.join(" "))
    }
}

/// Telephone sound as the model understands it: 16 kHz, 16 bits. `None` if nobody speaks.
fn for_the_model(samples: &[i16]) -> Option<Vec<u8>> {
    let powers = powers(samples);
    let voice = voice(&powers)?;
    let gain = LEVEL / voice.sqrt();
    // The same for the same words, so that these are always understood alike.
    let mut random = 1_u32;
    let mut noise = move || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) as i16 % NOISE
    };
    let frames = samples.chunks(FRAME_SAMPLES).zip(callers(&powers));
    let louder = frames.flat_map(|(frame, is_caller)| {
        let gain = if is_caller { gain } else { 0.0 };
        frame.iter().flat_map(move |sample| [(f32::from(*sample) * gain) as i16, 0])
    });
    let noisy = louder.map(|sample| sample.saturating_add(noise()));
    Some(noisy.flat_map(i16::to_le_bytes).collect())
}

fn powers(samples: &[i16]) -> Vec<f32> {
    let power = |frame: &[i16]| frame.iter().map(|&s| f32::from(s).powi(2)).sum::<f32>() / frame.len() as f32;
    samples.chunks(FRAME_SAMPLES).map(power).collect()
}

/// Mean power of the voice in frames of these powers.
fn voice(powers: &[f32]) -> Option<f32> {
    let most = powers.iter().copied().fold(0.0, f32::max);
    // Pauses have no say.
    let voiced: Vec<f32> = powers.iter().copied().filter(|power| *power > most / 100.0).collect();
    let voice = voiced.iter().sum::<f32>() / voiced.len() as f32;
    (voice.sqrt() >= LEVEL / GAIN_MAX).then_some(voice)
}

/// Tells of each of these frames whether it is the caller's; the others are of somebody behind the caller.
fn callers(powers: &[f32]) -> impl Iterator<Item = bool> {
    let mut loudest = powers.to_vec();
    loudest.sort_by(|one, other| other.total_cmp(one));
    let vowels = loudest.iter().skip(SLAM_FRAMES).take(VOWEL_FRAMES);
    let (count, sum) = vowels.fold((0.0_f32, 0.0), |(count, sum), power| (count + 1.0, sum + power));
    let behind = BEHIND_MAX * sum / count.max(1.0);
    (0..powers.len()).map(move |at| {
        let around = &powers[at.saturating_sub(ENDS_FRAMES)..powers.len().min(at + ENDS_FRAMES + 1)];
        around.iter().any(|power| *power > behind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stt::{Hear, Heard, Listener as _};
    use futures_util::future::join_all;
    use serde_json::json;
    use std::{io::Read as _, os::unix::fs::MetadataExt as _, path::Path};
    use tempfile::TempDir;
    use tokio::{
        task::yield_now,
        time::{Instant, advance, sleep},
    };

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
        let spoken = |level: i16| [vec![level; 1_600], vec![0; 4_800], vec![-level; 1_600]].concat();
        let level_of = |samples: &[i16]| voice(&powers(samples)).map(f32::sqrt);
        for level in [50, 250, 800, 8_000, i16::MAX] {
            let found = level_of(&spoken(level)).expect("a voice");
            assert!((found - f32::from(level)).abs() < 1.0, "{level}: {found}");
            let louder = for_the_model(&spoken(level)).expect("a voice");
            let first = f32::from(i16::from_le_bytes([louder[0], louder[1]]));
            assert!((first - LEVEL).abs() <= f32::from(NOISE), "{level}: {first}");
        }
        assert_eq!([level_of(&spoken(49)), level_of(&[0; 160]), level_of(&[])], [None; 3]);
    }

    #[test]
    fn voices_behind_the_caller_are_silent_for_the_model_and_ends_of_words_are_not() {
        let (caller, behind, end) = (vec![800; 4_000], vec![200; 4_000], vec![200; 800]);
        let heard = callers(&powers(&[behind.clone(), caller, end, behind].concat())).collect::<Vec<_>>();
        let at = |sample: usize| heard[sample / FRAME_SAMPLES];
        assert_eq!([at(0), at(4_400), at(7_900), at(8_600), at(12_000)], [false, true, true, true, false]);
    }

    #[test]
    fn a_door_that_slams_beside_a_caller_takes_no_word_of_theirs() {
        let (caller, slam) = (vec![800; 2_400], vec![10_000; 800]);
        let heard: Vec<bool> = callers(&powers(&[caller.clone(), vec![0; 4_000], slam, caller].concat())).collect();
        assert!(heard[..15].iter().chain(&heard[45..]).all(|is_caller| *is_caller), "{heard:?}");
    }

    /// One whose program is a script.
    fn scripted(folder: &Path, script: &str, places: &'static Places) -> Arc<Recognizer> {
        let (program, source) = (folder.join("recognizer"), folder.join("recognizer.sh"));
        std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
        // `install` writes the program: a file that this process has open for writing, or a test beside it has inherited, cannot be started.
        let installed = std::process::Command::new("install").args([&source, &program]).status();
        assert!(installed.unwrap().success());
        let (grammar, model) = (write_grammar(&["yes".into()]).unwrap(), folder.to_owned());
        Arc::new(Recognizer { program, places, words: ["yes".to_owned()].into(), grammar, model })
    }

    /// A turn of so many frames.
    fn turn_of(frames: usize) -> Vec<Hear> {
        let frame = Hear::Audio(800_i16.to_le_bytes().repeat(FRAME_SAMPLES).into());
        [vec![Hear::TurnBegan], vec![frame; frames], vec![Hear::TurnEnded]].concat()
    }

    /// What is told of this turn, and how the session ends.
    async fn told_of(recognizer: &Arc<Recognizer>, turn: &[Hear]) -> (Vec<Heard>, Result<(), Fault>) {
        let (tell, input) = mpsc::channel(64);
        let (words, mut heard) = mpsc::channel(16);
        let listening = tokio::spawn(ByUtterance(Arc::clone(recognizer)).listen(Format::SLIN8, input, words));
        for hear in turn {
            tell.send(hear.clone()).await.unwrap();
        }
        let mut told = Vec::new();
        while let Some(more) = heard.recv().await {
            told.push(more);
            if matches!(told.last(), Some(Heard::Turn { .. })) {
                break;
            }
        }
        drop(tell);
        (told, listening.await.unwrap())
    }

    async fn until(condition: impl Fn() -> bool) {
        let since = Instant::now();
        while !condition() {
            assert!(since.elapsed() < Duration::from_secs(20), "it does not happen");
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn turn(text: &str) -> Heard {
        Heard::Turn { text: text.into() }
    }

    #[tokio::test]
    async fn no_more_recognizers_run_at_a_time_than_there_are_places() {
        static PLACES: Places = Places::new(1);
        let folder = TempDir::with_prefix("offhook-recognizer-").unwrap();
        let at = folder.path().display();
        let script = format!("mkdir {at}/one || touch {at}/two; cat >/dev/null; sleep 0.1; rmdir {at}/one; echo yes");
        let recognizer = scripted(folder.path(), &script, &PLACES);
        let spoken = turn_of(25);
        let (mut understood, beyond) = (0, Err(Fault::NoPlace(PLACE_MAX)));
        for (told, how) in join_all([(); 5].map(|()| told_of(&recognizer, &spoken))).await {
            // On a busy machine some wait for longer than a place is waited for.
            assert!(how == Ok(()) && told == [Heard::Ready, turn("yes")] || how == beyond, "{told:?}, {how:?}");
            understood += usize::from(how == Ok(()));
        }
        assert!(understood > 0);
        assert!(!folder.path().join("two").exists(), "two ran at the same time");
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_in_time_fails_so_that_the_next_listener_hears_the_turn() {
        static PLACES: Places = Places::new(0);
        let folder = TempDir::with_prefix("offhook-recognizer-").unwrap();
        let recognizer = scripted(folder.path(), "echo yes", &PLACES);
        let since = Instant::now();
        let (told, how) = told_of(&recognizer, &turn_of(25)).await;
        assert_eq!((told, how), (vec![Heard::Ready], Err(Fault::NoPlace(PLACE_MAX))));
        assert!((PLACE_MAX..PLACE_MAX * 2).contains(&since.elapsed()), "{:?}", since.elapsed());
    }

    /// A pause may be the end of a turn, and is recognized; who goes on needs no process for it any more.
    #[tokio::test]
    async fn a_caller_who_goes_on_after_a_pause_holds_no_place() {
        static PLACES: Places = Places::new(1);
        let folder = TempDir::with_prefix("offhook-recognizer-").unwrap();
        let recognizer = scripted(folder.path(), "cat >/dev/null; sleep 600", &PLACES);
        let (tell, input) = mpsc::channel(64);
        let (words, _heard) = mpsc::channel(16);
        let listening = tokio::spawn(ByUtterance(Arc::clone(&recognizer)).listen(Format::SLIN8, input, words));
        for ends in [Hear::TurnGoesOn, Hear::TurnDropped] {
            let begins = if ends == Hear::TurnGoesOn { turn_of(25) } else { Vec::new() };
            for hear in begins.into_iter().filter(|hear| *hear != Hear::TurnEnded).chain([Hear::TurnMayEnd]) {
                tell.send(hear).await.unwrap();
            }
            until(|| PLACES.free() == 0).await;
            tell.send(ends).await.unwrap();
            until(|| PLACES.free() == 1).await;
        }
        listening.abort();
    }

    /// A caller who tells a story of two minutes is waited for as long as it takes to write that down.
    #[test]
    fn a_long_turn_has_a_longer_limit() {
        let folder = TempDir::with_prefix("offhook-recognizer-").unwrap();
        static PLACES: Places = Places::new(1);
        let recognizer = scripted(folder.path(), "echo yes", &PLACES);
        for (seconds, limit) in [(0, 3), (30, 3), (60, 6), (240, 24)] {
            let (length, limit) = (Duration::from_secs(seconds), Duration::from_secs(limit));
            assert_eq!(recognizer.turn_max(length), PLACE_MAX + limit, "{seconds} s");
        }
    }

    /// The clock stands still while a program runs, and is moved by hand: the limit is what is looked at.
    #[tokio::test(start_paused = true)]
    async fn a_turn_of_a_minute_is_not_given_up_after_three_seconds() {
        static PLACES: Places = Places::new(1);
        let folder = TempDir::with_prefix("offhook-recognizer-").unwrap();
        let recognizer = scripted(folder.path(), "sleep 600", &PLACES);
        for (frames, limit) in [(25, Duration::from_secs(3)), (3_000, Duration::from_secs(6))] {
            let (recognizer, turn) = (Arc::clone(&recognizer), turn_of(frames));
            let told = tokio::spawn(async move { told_of(&recognizer, &turn).await });
            while PLACES.free() > 0 {
                yield_now().await;
            }
            let since = Instant::now();
            while !told.is_finished() {
                advance(Duration::from_millis(10)).await;
                assert!(since.elapsed() < limit * 2, "{frames} frames: it is not given up");
            }
            let (took, (_, how)) = (since.elapsed(), told.await.unwrap());
            assert_eq!(how, Err(Fault::Slow(limit)), "{frames} frames");
            assert!(took >= limit, "{frames} frames: {took:?}");
        }
    }

    #[tokio::test]
    async fn words_of_no_phrase_are_none() {
        static PLACES: Places = Places::new(1);
        let folder = TempDir::with_prefix("offhook-recognizer-").unwrap();
        for (script, fault) in [
            ("cat >/dev/null; echo yes no", "the answer is not what was asked for: words of none of the phrases"),
            ("exit 1", "the answer is not what was asked for: the recognizer failed"),
            ("yes", "the answer is larger than 64 KiB"),
        ] {
            let recognizer = scripted(folder.path(), script, &PLACES);
            assert_eq!(recognizer.recognize(&[0; 3_200]).await.unwrap_err().to_string(), fault, "{script}");
        }
    }
}
