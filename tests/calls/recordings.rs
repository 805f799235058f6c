//! What calls sounded like, as their recordings tell it.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{Sound, Span, silence, tone},
        offhook::Offhook,
        phone::Phone,
        world,
    },
    ms,
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use tempfile::TempDir;

const NOTICE_HZ: f64 = 1_200.0;
/// The ringing tone of most of Europe, and who answers in the end.
const RINGING_HZ: f64 = 425.0;
const PERSON_HZ: f64 = 2_100.0;
const NOTICE: Duration = ms(1_500);
const LEGS: [&str; 4] = ["audiosocket/slin", "audiosocket/slin16", "rtp/ulaw", "rtp/alaw"];

/// An agent that takes nothing of the caller's for speech.
const DEAF: &str = "detector: { threshold_dbfs: 0 }";

/// An engine whose context records, with a notice that is a tone.
struct Scene {
    asterisk: Asterisk,
    offhook: Offhook,
    /// The records, and what is said.
    folder: TempDir,
}

impl Scene {
    async fn start(script: &str, more: &str) -> Self {
        Self::with(script, "", "", more).await
    }

    /// `tools`: `, a, b`; `option`: one of the scripted agent's.
    async fn with(script: &str, tools: &str, option: &str, more: &str) -> Self {
        let folder = TempDir::with_prefix("offhook-recordings-").expect("a temporary directory");
        let notice = folder.path().join("notice.wav");
        tone(NOTICE_HZ, NOTICE).write_wav(&notice);
        let context = format!(
            "    recording: true\n    notice: {{ file: \"{}\", text: This call is recorded. }}\n{more}\
             records: {{ directory: \"{}\" }}\n",
            notice.display(),
            folder.path().join("records").display()
        );
        let ringing = "  rings: { description: Rings, dial: [\"Local/slow@lab-targets\"], ring: 20s }\n";
        let agents = agent(script, &context)
            .replace("    scripted:\n", &format!("    scripted:\n      {option}\n"))
            .replace("transfer]", &format!("transfer{tools}]"))
            .replace("destinations:\n", &format!("destinations:\n{ringing}"));
        let asterisk = Asterisk::start(Options::default()).await;
        let offhook = Offhook::attached(&asterisk, &agents).await;
        Self { asterisk, offhook, folder }
    }

    async fn call(&self, says: Sound) -> Phone {
        Phone::call(self.asterisk.sip_port(), "7000", says).await
    }

    fn records(&self) -> PathBuf {
        self.folder.path().join("records")
    }

    /// The only recording there is; `None`: there is none.
    fn file(&self) -> Option<PathBuf> {
        let files = fs::read_dir(self.records().join("recordings")).ok()?;
        let files: Vec<PathBuf> = files.map(|file| file.expect("a folder of the test's own").path()).collect();
        assert!(files.len() <= 1, "{files:?}");
        files.into_iter().next()
    }

    /// Files of the spool, by name.
    fn spooled(&self) -> Vec<String> {
        let files = fs::read_dir(self.records().join("spool")).expect("the engine has made it");
        let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
        names.filter(|name| name != ".lock").collect()
    }

    /// The only call's record, once it has ended and is kept.
    async fn record(&self) -> Value {
        self.offhook.wait_metric("offhook_records_total", 1.0, SOON).await;
        let told = offhook(&self.records(), &["calls", "--format", "json"]).await;
        serde_json::from_str(&told).expect("one record in JSON")
    }

    /// Both sides of the only call, once it has ended: the caller's and what they heard.
    async fn sides(&self) -> ([Sound; 2], Value) {
        let record = self.record().await;
        let file = self.file().expect("there is a recording");
        let recording = &record["recording"];
        assert_eq!(recording["file"], file.file_name().expect("a name").to_string_lossy().as_ref());
        assert_eq!(recording["lost_seconds"], Value::Null, "{recording}");
        let sides = Sound::read_stereo(&file).expect("a recording that can be played");
        assert_eq!(sides[0].length(), sides[1].length());
        let seconds = recording["seconds"].as_f64().expect("a number");
        assert!((sides[0].length().as_secs_f64() - seconds).abs() < 0.001, "{recording}");
        (sides, record)
    }
}

async fn offhook(records: &Path, arguments: &[&str]) -> String {
    let mut program = Command::new(offhook_kit::program());
    program.args(arguments).arg("--records").arg(records);
    let output = world::output_of(program).await;
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What the record tells of the recording, with its time.
fn told(record: &Value) -> Vec<(String, Duration)> {
    let entries = record["entries"].as_array().expect("a list").iter().filter(|entry| entry["event"] == "recording");
    let told = |entry: &Value| {
        let state = entry["state"].as_str().expect("text").to_owned();
        (state, ms(entry["at_ms"].as_u64().expect("a number")))
    };
    entries.map(told).collect()
}

fn only(sound: &Sound, hz: f64) -> Span {
    let spans = sound.spans_of(hz);
    assert_eq!(spans.len(), 1, "{hz} Hz: {spans:?}");
    spans[0]
}

fn near(what: &str, a: Duration, b: Duration, most: Duration) {
    assert!(a.abs_diff(b) <= most, "{what}: {a:?} and {b:?}");
}

/// The agent sends back what it hears, so the caller's tone is on both sides, and where it is tells how they are aligned: on
/// the right it is later by the way through the engine, a frame or two.
async fn a_recording_has_both_sides_of_the_call_in_time_over_every_leg() {
    for leg in LEGS {
        // What an agent says during the notice waits behind it, an echo as well.
        let script = "- pause: 2s\n- tone: { hertz: 440, for: 1s }\n- echo: 20s";
        let scene = Scene::start(script, &format!("    audio: {leg}\n")).await;
        let says = silence(ms(5_000)) + tone(CALLER_HZ, ms(1_000)) + silence(ms(20_000));
        let mut phone = scene.call(says).await;
        phone.wait_to_hear(CALLER_HZ, ms(900), SOON).await;
        phone.hang_up().await;
        let heard = phone.heard();
        let ([caller, agent], record) = scene.sides().await;
        // Left: the caller alone.
        let said = only(&caller, CALLER_HZ);
        near(leg, said.length(), ms(1_000), ms(60));
        assert!(!caller.has(AGENT_HZ) && !caller.has(NOTICE_HZ), "{leg}: the sides are mixed up");
        // Right: all that was heard, and as it was heard.
        near(leg, only(&agent, NOTICE_HZ).length(), NOTICE, ms(20));
        near(leg, only(&agent, AGENT_HZ).length(), ms(1_000), ms(20));
        let echo = only(&agent, CALLER_HZ);
        let way = echo.begin.checked_sub(said.begin).expect("an echo comes later");
        assert!(way <= ms(60), "{leg}: the sides are {way:?} apart");
        let apart = |sound: &Sound| only(sound, CALLER_HZ).begin - only(sound, NOTICE_HZ).begin;
        near(leg, apart(&agent), apart(&heard), ms(40));
        let [(notice, from), (on, heard_at)] = &told(&record)[..] else { panic!("{record}") };
        assert_eq!((notice.as_str(), on.as_str()), ("notice", "on"));
        near(leg, *heard_at - *from, NOTICE, ms(40));
        // Begun with the first slot.
        near(leg, ms(record["recording"]["began_ms"].as_u64().expect("a number")), *from, ms(40));
        scene.asterisk.wait_empty(SOON).await;
    }
}

async fn an_interruption_can_be_seen_in_a_recording() {
    let script = "- tone: { hertz: 440, for: 30s }\n- listen: {}\n- tone: { hertz: 900, for: 10s }";
    let scene = Scene::start(script, "").await;
    let says = silence(ms(3_500)) + tone(CALLER_HZ, ms(700)) + silence(ms(20_000));
    let mut phone = scene.call(says).await;
    phone.wait_to_hear(900.0, ms(500), SOON).await;
    phone.hang_up().await;
    let ([caller, agent], _) = scene.sides().await;
    let interrupts = only(&caller, CALLER_HZ);
    near("the interruption", interrupts.length(), ms(700), ms(60));
    let speaks = only(&agent, AGENT_HZ);
    assert!(only(&agent, NOTICE_HZ).end <= speaks.begin);
    // The scripted agent needs 60 ms of a sound to take it for speech.
    let until = speaks.end.checked_sub(interrupts.begin).expect("the agent spoke when the caller began");
    assert!(until <= ms(200), "the agent goes on for {until:?}");
    let answers = only(&agent, 900.0).begin;
    assert!(answers > interrupts.end && agent.part(speaks.end + ms(40)..answers - ms(40)).is_silent());
}

/// A caller who talks all the time while a number is typed, to an agent who does so as well.
async fn what_is_typed_in_secret_is_silence_on_both_sides() {
    let script = "- pause: 2s\n- tone: { hertz: 440, for: 500ms }\n\
                  - call: { tool: collect_digits, arguments: { prompt: The number, secure: true, max_digits: 4 } }\n\
                  - tone: { hertz: 900, for: 60s }";
    let scene = Scene::with(script, ", collect_digits", DEAF, "").await;
    let mut phone = scene.call(tone(CALLER_HZ, ms(60_000))).await;
    // While the question is heard, which comes after the notice and half a second of a tone.
    let asked = |heard: Sound| heard.loud_spans().last().is_some_and(|span| span.end >= NOTICE + ms(1_500));
    let latest = tokio::time::Instant::now() + SOON;
    while !asked(phone.heard()) {
        assert!(tokio::time::Instant::now() < latest, "no question was heard");
        tokio::time::sleep(ms(20)).await;
    }
    for key in "2468".chars() {
        phone.dtmf(key).await;
    }
    // What is heard in the two seconds after a key is hidden as well.
    phone.wait_to_hear(900.0, ms(5_000), SOON).await;
    phone.hang_up().await;
    let ([caller, agent], record) = scene.sides().await;
    let tools: Vec<_> =
        record["entries"].as_array().expect("a list").iter().filter(|entry| entry["event"] == "tool").collect();
    assert_eq!((tools.len(), &tools[0]["audit"]["ok"]), (1, &true.into()), "{record}");
    let told = told(&record);
    let states: Vec<&str> = told.iter().map(|(state, _)| state.as_str()).collect();
    assert_eq!(states, ["notice", "on", "private", "on"]);
    let began = ms(record["recording"]["began_ms"].as_u64().expect("a number"));
    let (from, until) = (told[2].1 - began, told[3].1 - began);
    assert!(until - from >= ms(2_000), "from {from:?} until {until:?}");
    for (side, name) in [(&caller, "the caller"), (&agent, "the agent")] {
        let hidden = side.part(from + ms(20)..until - ms(20));
        assert!(hidden.is_silent(), "{name}: {:?}", hidden.loud_spans());
    }
    // Before and after, both are heard, and nothing of the caller before the notice was.
    near("the caller from then on", caller.loud_spans()[0].begin, NOTICE, ms(40));
    // A phone that is held up sends nothing meanwhile.
    let before = caller.part(from - ms(300)..from - ms(40)).time_of(CALLER_HZ);
    assert!(before >= ms(100), "{before:?} of the caller before");
    let after = caller.part(until + ms(60)..until + ms(1_060)).time_of(CALLER_HZ);
    assert!(after >= ms(700), "{after:?} of the caller afterwards");
    assert!(agent.part(until + ms(60)..until + ms(500)).has_pitch(900.0));
    let heard = phone.heard().time_of(900.0);
    assert!(heard > agent.time_of(900.0) + ms(500), "the caller heard more than is kept: {heard:?}");
}

/// An engine that is killed leaves what was heard until a second or two before, and of the call no more than that it began;
/// what there is can be deleted all the same.
async fn an_engine_that_is_killed_leaves_a_recording_that_can_be_played_and_deleted() {
    let mut scene = Scene::start("- tone: { hertz: 440, for: 60s }", "").await;
    let phone = scene.call(silence(ms(60_000))).await;
    phone.wait_to_hear(AGENT_HZ, ms(4_000), SOON).await;
    scene.offhook.signal("KILL").await;
    scene.offhook.wait_exit(SOON).await;
    let file = scene.file().expect("there is a recording");
    let [_, agent] = Sound::read_stereo(&file).expect("a recording that can be played");
    let kept = only(&agent, AGENT_HZ).length();
    assert!(kept >= ms(2_000), "{kept:?} of 4 s");
    let id = file.file_stem().expect("a name").to_string_lossy().into_owned();
    let begun = scene.spooled();
    assert!(begun.len() == 1 && begun[0].ends_with(&format!("{id}.begun")), "{begun:?}");
    let deleted = offhook(&scene.records(), &["call", &id, "--delete"]).await;
    assert!(deleted.contains("recording included") && scene.file().is_none(), "{deleted}");
    assert_eq!(scene.spooled(), [format!("{id}.deleted")], "nothing of it is kept, whatever comes yet");
}

async fn a_call_tells_where_its_recording_is_and_takes_it_along_when_it_is_deleted() {
    let scene = Scene::start("- tone: { hertz: 440, for: 60s }", "").await;
    let mut phone = scene.call(silence(ms(60_000))).await;
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    phone.hang_up().await;
    let (_, record) = scene.sides().await;
    let (id, file) = (record["id"].as_str().expect("an id"), scene.file().expect("there is a recording"));
    let story = offhook(&scene.records(), &["call", id]).await;
    assert!(story.contains(&format!("recording: {} (", file.display())) && story.contains("recording: on"), "{story}");
    offhook(&scene.records(), &["call", id, "--delete"]).await;
    assert_eq!(scene.file(), None);
    for (metric, value) in [("offhook_recordings_total{outcome=\"whole\"}", 1.0), ("offhook_recording_files", 0.0)] {
        scene.offhook.metric_is(metric, value).await;
    }
}

async fn a_caller_who_does_not_want_to_be_recorded_is_not() {
    let script = "- pause: 2s\n- tone: { hertz: 440, for: 3s }\n- call: { tool: stop_recording }\n- tone: { hertz: 900, for: 60s }";
    let scene = Scene::with(script, ", stop_recording", "", "").await;
    let mut phone = scene.call(silence(ms(60_000))).await;
    phone.wait_to_hear(AGENT_HZ, ms(1_500), SOON).await;
    assert!(scene.file().is_some(), "until then it was recorded");
    phone.wait_to_hear(900.0, ms(1_000), SOON).await;
    phone.hang_up().await;
    let record = scene.record().await;
    let states: Vec<String> = told(&record).into_iter().map(|(state, _)| state).collect();
    assert_eq!((states, &record["recording"]), (["notice", "on", "discarded"].map(str::to_owned).into(), &Value::Null));
    scene.offhook.wait_metric("offhook_recordings_total{outcome=\"discarded\"}", 1.0, SOON).await;
    assert_eq!(scene.file(), None);
}

/// The destination's telephone rings, and that is what the caller hears.
async fn ringing_is_heard_in_a_recording_which_ends_with_the_transfer() {
    let script = "- tone: { hertz: 900, for: 500ms }\n- call: { tool: transfer, arguments: { destination: rings } }\n- listen: {}";
    let scene = Scene::start(script, "").await;
    let mut phone = scene.call(silence(ms(60_000))).await;
    phone.wait_to_hear(PERSON_HZ, ms(500), SOON).await;
    assert_eq!(scene.offhook.wait_end_reason(SOON).await, "transferred");
    let ([caller, agent], _) = scene.sides().await;
    let spoke = only(&agent, 900.0);
    let rings = agent.spans_of(RINGING_HZ);
    assert!(rings.first().is_some_and(|ring| ring.begin >= spoke.end && ring.length() >= ms(900)), "{rings:?}");
    assert!(!agent.has(PERSON_HZ), "the engine does not hear what they say to each other");
    assert!(caller.is_silent());
    phone.hang_up().await;
}

crate::scenes! {
    both:
        a_recording_has_both_sides_of_the_call_in_time_over_every_leg,
        an_interruption_can_be_seen_in_a_recording,
        what_is_typed_in_secret_is_silence_on_both_sides,
        a_call_tells_where_its_recording_is_and_takes_it_along_when_it_is_deleted,
        a_caller_who_does_not_want_to_be_recorded_is_not,
        ringing_is_heard_in_a_recording_which_ends_with_the_transfer;
    // A process is killed, and leaves its file as it is.
    only_real:
        an_engine_that_is_killed_leaves_a_recording_that_can_be_played_and_deleted;
}
