//! Programs of this machine as services of a pipeline, and what the caller hears of one that does wrong. What stands for
//! them on the `PATH` does wrong while there is a file that says how, and is the program itself otherwise.

use crate::providers::{
    desk::PREFIX,
    ear::Caller,
    kit::{
        attendant::ATTENDANT,
        offhook::{Launch, Offhook, Place},
        virtual_time::run_in_real_time,
    },
    ms,
};
use futures_util::future::join_all;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

const CONTEXTS: &str = r#"
contexts:
  front:
    prompt: A list decides.
    greeting: Welcome to the house.
    provider: house
    tools: [hangup_call]
    audiosocket_id: "0ff40001"
    turns: { owner: offhook }
"#;
/// Why these tests take real time.
const WHY: &str = "a program that hangs takes its limit, and while a program is at work a paused clock stands still";
const RECOGNIZER: &str = "pocketsphinx_continuous";
const VOICE: &str = "espeak-ng";
/// Of the answer; longer than "What was that?", and than whatever explains a wait.
const ANSWER_MIN: Duration = ms(2_600);
/// From the caller's last word until so much of the answer is heard, whatever has failed meanwhile.
const CARRIED_ON: Duration = ms(10_000);
/// Nobody is left in silence for longer.
const QUIET_MAX: Duration = ms(2_500);
const SOON: Duration = Duration::from_secs(20);

/// What stands for a program.
struct Fake {
    folder: TempDir,
    name: &'static str,
}

impl Fake {
    fn new(name: &'static str) -> Self {
        let folder = TempDir::with_prefix("offhook-fake-").expect("a temporary directory");
        let real = std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))
            .map(|path| path.join(name))
            .find(|file| file.is_file())
            .expect("run `make setup`");
        let (at, real) = (folder.path().display(), real.display());
        // `once` goes with the first that finds it.
        let script = format!(
            "#!/bin/sh\nif rm {at}/once 2>/dev/null || [ -e {at}/always ]; then\n  . {at}/wrong\nfi\nexec {real} \"$@\"\n"
        );
        let file = folder.path().join(name);
        offhook_kit::write_script(&file, &script);
        Self { folder, name }
    }

    fn path(&self) -> String {
        format!("{}:{}", self.folder.path().display(), std::env::var("PATH").expect("a PATH"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Does this `once`, or `always`.
    fn does_wrong(&self, how: &str, often: &str) {
        fs::write(self.file("wrong"), how).expect("a file in the test's own folder");
        fs::write(self.file(often), "").expect("a file in the test's own folder");
    }

    /// Waits until nothing of it is left, whatever it has started.
    async fn is_gone(&self) {
        let until = Instant::now() + SOON;
        while runs(&self.file(self.name)) {
            assert!(Instant::now() < until, "{} lives on", self.name);
            sleep(ms(20)).await;
        }
    }
}

/// Whether the program, or what it has started, runs: both have the file in their command line.
fn runs(file: &Path) -> bool {
    let mark = file.to_str().expect("a plain name");
    let all = fs::read_dir("/proc").expect("processes").flatten();
    all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(mark))
}

/// A greeted caller, and the engine.
async fn greeted(fake: &Fake) -> (Offhook, Caller) {
    let place = Place::free();
    let yaml = format!("{}{ATTENDANT}{CONTEXTS}", place.yaml(None)).replace("turns: { owner: provider }\n", "");
    let env = [("PATH", fake.path())];
    let offhook = Offhook::launch(place, &yaml, Launch { env: &env, ..Launch::default() }).await;
    let mut id = *Uuid::new_v4().as_bytes();
    id[..4].copy_from_slice(&PREFIX);
    let engine = offhook.audiosocket().parse().expect("an address");
    let caller = Caller::dial(engine, Uuid::from_bytes(id), Vec::new()).await;
    is_spoken_to(&caller, ms(0), ms(600)).await;
    is_quiet(&caller).await;
    (offhook, caller)
}

async fn is_spoken_to(caller: &Caller, since: Duration, length: Duration) {
    caller.until("the caller is spoken to", |tape| tape.loud_time(since..tape.now()) >= length).await;
}

async fn is_quiet(caller: &Caller) {
    let quiet =
        |tape: &crate::providers::ear::Tape| tape.loud_time(tape.now().saturating_sub(ms(700))..tape.now()).is_zero();
    caller.until("the agent pauses", quiet).await;
}

async fn asked(offhook: &Offhook, kind: &str, outcome: &str) -> f64 {
    offhook.metric(&format!("offhook_stage_requests_total{{kind=\"{kind}\",outcome=\"{outcome}\"")).await
}

/// With a child that holds its output open, and the file in both command lines.
const HANGS: &str = "sh -c 'sleep 600; exit' $0; exit\n";
const FAILS: &str = "exit 1\n";
const TALKS: &str = "echo colourless green ideas; exit 0\n";
const SAYS_NOTHING: &str = "exit 0\n";
const TALKS_FOR_EVER: &str = "yes goodbye; exit\n";

async fn is_survived(name: &'static str, kind: &str, how: &str, outcome: &str) {
    let what = format!("{name}: {how}");
    let fake = Fake::new(name);
    let (offhook, caller) = greeted(&fake).await;
    fake.does_wrong(how, "once");
    caller.says("When are you open").await;
    let said = caller.has_spoken().await;
    is_spoken_to(&caller, said.end, ANSWER_MIN).await;
    let (heard, quiet) = caller.look(|tape| (tape.now(), tape.longest_silence(said.end..tape.now())));
    assert!(heard <= said.end + CARRIED_ON, "{what}: {:?}", heard - said.end);
    assert!(quiet <= QUIET_MAX, "{what}: {quiet:?} of silence");
    is_quiet(&caller).await;
    assert_eq!(asked(&offhook, kind, outcome).await, 1.0, "{what}");
    let recovered = offhook.metric("offhook_session_recoveries_total{outcome=\"took_over\"").await;
    println!("{what}: answered after {:?}, silence {quiet:?}, {recovered} recoveries", heard - said.end);
    // Nothing is left of it while the call goes on, and the next turn is understood and answered.
    fake.is_gone().await;
    caller.says("When are you open").await;
    let said = caller.has_spoken().await;
    is_spoken_to(&caller, said.end, ANSWER_MIN).await;
    caller.hang_up();
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up", "{what}");
    assert_eq!(asked(&offhook, kind, outcome).await, 1.0, "{what}");
}

#[test]
fn a_recognizer_that_goes_wrong_once_costs_a_wait_and_no_word() {
    run_in_real_time(WHY, || async {
        let rows = [(HANGS, "slow"), (FAILS, "garbage"), (TALKS, "garbage"), (TALKS_FOR_EVER, "garbage")];
        join_all(rows.map(|(how, outcome)| is_survived(RECOGNIZER, "pocketsphinx", how, outcome))).await;
    });
}

/// No words are no fault: the caller is asked what that was, and is understood when the recognizer finds words again.
#[test]
fn a_caller_in_whose_words_the_recognizer_finds_none_is_asked_again() {
    run_in_real_time(WHY, || async {
        let fake = Fake::new(RECOGNIZER);
        let (offhook, caller) = greeted(&fake).await;
        fake.does_wrong(SAYS_NOTHING, "always");
        caller.says("When are you open").await;
        let said = caller.has_spoken().await;
        is_spoken_to(&caller, said.end, ms(400)).await;
        is_quiet(&caller).await;
        let (question, quiet) =
            caller.look(|tape| (tape.loud_time(said.end..tape.now()), tape.longest_silence(said.end..tape.now())));
        assert!(question < ANSWER_MIN, "{question:?} is more than a question");
        assert!(quiet <= QUIET_MAX, "{quiet:?} of silence");
        fs::remove_file(fake.file("always")).expect("it was there");
        caller.says("When are you open").await;
        let said = caller.has_spoken().await;
        is_spoken_to(&caller, said.end, ANSWER_MIN).await;
        caller.hang_up();
        assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
        for outcome in ["unreachable", "slow", "closed", "garbage"] {
            assert_eq!(asked(&offhook, "pocketsphinx", outcome).await, 0.0, "{outcome}");
        }
    });
}

#[test]
fn a_voice_that_goes_wrong_once_costs_a_wait_and_no_word() {
    run_in_real_time(WHY, || async {
        let rows = [
            (HANGS, "slow"),
            (FAILS, "unreachable"),
            (SAYS_NOTHING, "garbage"),
            (TALKS, "garbage"),
            (TALKS_FOR_EVER, "garbage"),
        ];
        join_all(rows.map(|(how, outcome)| is_survived(VOICE, "espeak_ng", how, outcome))).await;
    });
}

/// Nobody stands in for it: the caller is told so, and not left in silence.
async fn is_the_end(name: &'static str, kind: &str, how: &str, outcome: &str, reason: &str) {
    let what = format!("{name}: {how}");
    let fake = Fake::new(name);
    let (offhook, caller) = greeted(&fake).await;
    fake.does_wrong(how, "always");
    caller.says("When are you open").await;
    let said = caller.has_spoken().await;
    caller.is_hung_up_on().await;
    let (apology, ended) = caller.look(|tape| (tape.loud_time(said.end..tape.now()), tape.now()));
    let ends = offhook.wait_end_reason(SOON).await;
    let times = asked(&offhook, kind, outcome).await;
    println!("{what}: {apology:?} heard, ended after {:?} by {ends}, {times} times {outcome}", ended - said.end);
    assert!(apology >= ms(600), "{what}");
    assert_eq!(ends, reason, "{what}");
    assert!(times >= 1.0, "{what}");
    fake.is_gone().await;
}

#[test]
fn a_caller_whose_only_recognizer_or_voice_goes_wrong_for_good_hears_the_apology() {
    run_in_real_time(WHY, || async {
        tokio::join!(
            is_the_end(RECOGNIZER, "pocketsphinx", HANGS, "slow", "agent_unreachable"),
            is_the_end(RECOGNIZER, "pocketsphinx", FAILS, "garbage", "agent_protocol"),
            is_the_end(RECOGNIZER, "pocketsphinx", TALKS, "garbage", "agent_protocol"),
            is_the_end(VOICE, "espeak_ng", HANGS, "slow", "agent_unreachable"),
            is_the_end(VOICE, "espeak_ng", FAILS, "unreachable", "agent_unreachable"),
            is_the_end(VOICE, "espeak_ng", SAYS_NOTHING, "garbage", "agent_protocol"),
            is_the_end(VOICE, "espeak_ng", TALKS, "garbage", "agent_protocol"),
        );
    });
}
