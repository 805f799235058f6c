//! `offhook demo`: a whole call without Asterisk and without a key.
//!
//! The engine runs as always; a synthetic caller connects by AudioSocket as Asterisk would, listens
//! with its own ears, speaks, is understood, interrupts, answers at once beside a radio, and is said goodbye to. A call in
//! which a sentence is not understood or a tool fails is a failure of the demo. With `--keep` the engine stays up, its calls
//! are on the page, and the caller dials again at each Enter.

use super::{
    caller::{Caller, FORMAT},
    serve, speech,
    transcript::Transcript,
};
use clap::Args;
use offhook::{
    audio::{Activity, ActivityDetector, rms_dbfs},
    call::{Note, Speaker},
    config::{self, Config},
    engine::{CallNote, Engine, Source},
    http::Accounts,
    telemetry::Metrics,
};
use std::{
    io::IsTerminal as _,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::{
    sync::{broadcast, mpsc},
    time::{Instant, timeout},
};
use uuid::Uuid;

#[derive(Args)]
pub struct DemoArguments {
    /// The configuration; its context `reception` takes the call [default: config/attendant.yaml, or where that is not, one that
    /// is part of the program].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the recording goes [default: target/demo/call.wav, or beside no source code offhook-demo/call.wav].
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Keep the engine up after the call, for a look at its pages; records of its calls are kept beside the recording.
    #[arg(long)]
    keep: bool,
    /// The caller puts its sentences in words of its own, spoken with this entry of `voices`. For an agent that understands
    /// more than a list of phrases.
    #[arg(long, value_name = "VOICE")]
    free_words: Option<String>,
}

const CONTEXT: &str = "reception";
/// Configuration of the project that the demo runs on.
const SHIPPED: &str = "config/attendant.yaml";
/// Name of its text in the program, which is in no folder of the project's.
const BUILT_IN: &str = "attendant.yaml";
const SHIPPED_TEXT: &str = include_str!("../../config/attendant.yaml");
/// Changes for a machine without the project: nothing there starts the MCP server that tells the weather.
const WITHOUT_SERVERS: [(&str, &str); 3] = [
    ("mcp:\n  enabled: true\n", "mcp:\n  enabled: false\n"),
    (
        "          say: One moment, please.\n          call: mcp_aviation_atis\n          arguments: { icao: ENVA }\n",
        "          say: It is calm and sunny, as in every example.\n",
    ),
    ("    tools: [mcp_aviation_atis, ", "    tools: ["),
];
/// The caller answers a pause of this length.
const PAUSE: Duration = Duration::from_millis(700);
/// Silence behind a question that is answered at once, as people do; it is longer than any within it.
const AT_ONCE: Duration = Duration::from_millis(200);
/// How far into the agent's second answer the caller interrupts.
const PATIENCE: Duration = Duration::from_millis(2_000);
/// What MCP servers may take to start; the call begins without those that take longer.
const SERVERS_MAX: Duration = Duration::from_secs(10);
/// A demo that takes longer is broken.
const CALL_MAX: Duration = Duration::from_secs(90);

/// The caller's sentences, in order.
type Lines = [&'static str; 6];
/// Phrases of the recogniser's list.
const PHRASES: Lines =
    ["When are you open?", "Are you open on Sunday?", "What is the weather?", "Thank you.", "Yes.", "Goodbye."];
/// Questions of [`PHRASES`], as somebody puts them who knows no list.
const FREE_WORDS: Lines = [
    "Hi, could you tell me when you open on weekdays?",
    "Hold on, are you there on Sundays as well?",
    "I would like to know what the weather is like today.",
    "Thanks a lot, that helps.",
    "Yes, please.",
    "That was all, bye bye.",
];
/// Share of a sentence's words that have to be heard in one turn. A phrase is heard as a whole or not at all; of free words
/// recognisers write some differently ("you're" for "your") without a loss for the agent.
const PHRASE_HEARD_MIN: f32 = 1.0;
const FREE_WORDS_HEARD_MIN: f32 = 0.6;
/// Index of the sentence that interrupts the agent.
const INTERRUPTS: usize = 1;
/// Index of the sentence with which a radio is switched on.
const RADIO_FROM: usize = 3;
/// Index of the sentence that is said [`AT_ONCE`].
const ANSWERS_AT_ONCE: usize = 4;
/// Text of the radio.
const RADIO: &str = "And now the news. The harbour was closed this morning after a night of heavy rain, and ferries to the islands \
    leave from the northern pier. In the old town the market is open as on every Saturday, with music in the afternoon.";
/// Level of the radio below the caller's.
const RADIO_BELOW_DB: f32 = 20.0;

pub fn run(arguments: &DemoArguments) -> ExitCode {
    let shipped = || Path::new(SHIPPED).is_file().then(|| PathBuf::from(SHIPPED));
    let file = arguments.config.clone().or_else(shipped);
    let loaded = match &file {
        Some(file) => serve::load(file),
        None => built_in(),
    };
    let config = match loaded {
        Ok(config) => config,
        Err(problems) => {
            eprintln!("{problems}");
            return ExitCode::FAILURE;
        }
    };
    let stage = match Stage::new(arguments, &config) {
        Ok(stage) => stage,
        Err(missing) => {
            eprintln!("{}: {missing}", file.as_deref().unwrap_or(Path::new(SHIPPED)).display());
            return ExitCode::FAILURE;
        }
    };
    serve::block_on(async {
        match demo(arguments, file, config, stage).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("offhook demo: {error:#}");
                ExitCode::from(3)
            }
        }
    })
}

/// The configuration that is part of the program.
fn built_in() -> Result<Config, config::Problems> {
    let text = WITHOUT_SERVERS.iter().fold(SHIPPED_TEXT.to_owned(), |text, (from, to)| text.replace(from, to));
    config::load_str(BUILT_IN, &text, &offhook::engine::environment, offhook::provider::catalog())
}

/// What all calls of the demo have in common.
struct Stage {
    /// How a UUID begins that chooses the demo's context.
    prefix: [u8; 4],
    /// Whether the agent tells what it has understood; a script understands nothing.
    hears: bool,
    lines: Lines,
    /// Share of a line's words.
    heard_min: f32,
    recording: PathBuf,
}

impl Stage {
    fn new(arguments: &DemoArguments, config: &Config) -> anyhow::Result<Self> {
        let context = config.contexts.get(CONTEXT);
        let prefix = context.and_then(|context| context.audiosocket_id);
        let missing = || anyhow::anyhow!("the configuration needs contexts.{CONTEXT}.audiosocket_id");
        let provider = context.and_then(|context| config.providers.get(&context.provider));
        Ok(Self {
            prefix: prefix.ok_or_else(missing)?,
            hears: provider.is_some_and(|provider| provider.kind != "scripted"),
            lines: if arguments.free_words.is_some() { FREE_WORDS } else { PHRASES },
            heard_min: if arguments.free_words.is_some() { FREE_WORDS_HEARD_MIN } else { PHRASE_HEARD_MIN },
            recording: arguments.recording.clone().unwrap_or_else(|| {
                let folder = if Path::new(SHIPPED).is_file() { "target/demo" } else { "offhook-demo" };
                Path::new(folder).join("call.wav")
            }),
        })
    }

    /// As the dialplan would make one.
    fn walk_in_id(&self) -> Uuid {
        let mut bytes = *Uuid::new_v4().as_bytes();
        bytes[..4].copy_from_slice(&self.prefix);
        Uuid::from_bytes(bytes)
    }

    /// Where the records of an engine go that stays up.
    fn records(&self) -> PathBuf {
        self.recording.parent().unwrap_or(Path::new("")).join("records")
    }
}

async fn demo(arguments: &DemoArguments, file: Option<PathBuf>, config: Config, stage: Stage) -> anyhow::Result<()> {
    let lines = match &arguments.free_words {
        None => speech::render_all(&stage.lines, "en-us+f3").await?,
        Some(name) => {
            let voice = config.services.voices.get(name);
            let voice = voice.ok_or_else(|| anyhow::anyhow!("the configuration has no voices.{name}"))?;
            speech::speak_all(&stage.lines, voice).await?
        }
    };
    let voices = Voices { lines, radio: speech::render_all(&[RADIO], "en-us").await?.concat() };
    let voices = voices.with_the_radio_below();
    if let Some(folder) = stage.recording.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let config = alone(config, arguments.keep, &stage);
    let kept = if config.records.is_some() { ", where History has the call" } else { "" };
    let accounts = config.http.accounts.clone();
    let source = file.map_or(Source::Memory, Source::File);
    let engine = serve::start(source, config, Metrics::new(env!("CARGO_PKG_VERSION"))).await?;
    println!("offhook is up: AudioSocket on {}, pages on http://{}/", engine.audiosocket_addr(), engine.http_addr());
    if !arguments.keep {
        let called = call(&engine, &stage, &voices).await;
        engine.stop().await;
        return called;
    }
    let mut stop = serve::Stop::new()?;
    // Before the call, so that whoever logs in sees it live.
    if std::io::stdout().is_terminal() {
        serve::welcome(&accounts, engine.http_addr());
    } else {
        println!("Log in as admin. Without its password: {}", Accounts::new(&accounts).rescue());
    }
    let mut enters = enters();
    let mut called = Ok(());
    loop {
        tokio::select! {
            ended = call(&engine, &stage, &voices) => called = ended,
            () = stop.asked() => break,
        }
        if let Err(error) = &called {
            println!("\noffhook demo: {error:#}");
        }
        println!("\nThe engine stays up: http://{}/{kept}.", engine.http_addr());
        let again = if enters.is_some() { "Enter: the caller dials again, to be seen on Live. " } else { "" };
        println!("{again}Ctrl-C ends it.");
        tokio::select! {
            Some(()) = async { enters.as_mut()?.recv().await } => {}
            () = stop.asked() => break,
        }
    }
    engine.stop().await;
    called
}

/// Each Enter in the terminal that the demo was started from, where there is one.
fn enters() -> Option<mpsc::Receiver<()>> {
    let keys = std::io::stdin();
    // Whoever reads in the background is stopped, with its engine.
    let in_front = || rustix::termios::tcgetpgrp(&keys).is_ok_and(|group| group == rustix::process::getpgrp());
    if !keys.is_terminal() || !in_front() {
        return None;
    }
    let (enter, enters) = mpsc::channel(1);
    #[expect(clippy::disallowed_methods, reason = "the runtime would wait for tokio's reader when the demo ends")]
    std::thread::spawn(move || {
        let mut line = String::new();
        while keys.read_line(&mut line).is_ok_and(|bytes| bytes > 0) && enter.blocking_send(()).is_ok() {
            line.clear();
        }
    });
    Some(enters)
}

/// One call from its beginning to its end, told while it lasts and measured.
async fn call(engine: &Engine, stage: &Stage, voices: &Voices) -> anyhow::Result<()> {
    engine.tools_there(CONTEXT, SERVERS_MAX).await;
    println!("A caller dials in.\n");
    let mut notes = engine.watch_calls();
    let began = Instant::now();
    let mut caller = Caller::connect(engine.audiosocket_addr(), stage.walk_in_id()).await?;
    let call = timeout(CALL_MAX, converse(&mut caller, (&stage.lines, voices), &mut notes, began));
    let seen = call.await.map_err(|_| anyhow::anyhow!("the call did not end within {CALL_MAX:?}"))??;
    timeout(Duration::from_secs(5), engine.calls().none_left()).await?;
    record(&stage.recording, &caller)?;
    report(engine, &caller, &seen, stage);
    let failures = seen.failures(stage);
    anyhow::ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// The caller is in this process, and the call is nobody else's: no Asterisk, and no port that another program may have.
/// Only whoever keeps the engine up finds its pages where the configuration says, and records of its calls: there can be
/// other demos beside it, and a folder of records is one engine's.
fn alone(mut config: Config, keep: bool, stage: &Stage) -> Config {
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.asterisk = None;
    config.media.audiosocket.bind = anywhere;
    if keep {
        config.records.iter_mut().for_each(|records| records.directory = stage.records());
    } else {
        config.http.bind = anywhere;
        config.records = None;
    }
    config
}

/// Samples of the caller's sentences and of the radio.
struct Voices {
    lines: Vec<Vec<i16>>,
    radio: Vec<i16>,
}

impl Voices {
    fn with_the_radio_below(mut self) -> Self {
        let below = rms_dbfs(&self.lines.concat()) - RADIO_BELOW_DB - rms_dbfs(&self.radio);
        let gain = 10_f32.powf(below / 20.0);
        self.radio.iter_mut().for_each(|sample| *sample = (f32::from(*sample) * gain) as i16);
        self
    }
}

/// What the caller measured with its own ears, and what the engine told of the call.
#[derive(Default)]
struct Seen {
    first_audio: Option<Duration>,
    gaps: Vec<Duration>,
    silenced_after: Option<Duration>,
    /// The words of each turn of the caller's as the agent understood them.
    understood: Vec<Vec<String>>,
    failed_tools: Vec<String>,
}

impl Seen {
    fn note(&mut self, note: &Note) {
        match note {
            Note::Said { speaker: Speaker::Caller, text } => self.understood.push(words(text.reveal())),
            Note::ToolAnswered { tool, error: Some(error) } => {
                self.failed_tools.push(format!("{}: {}", tool.as_deref().unwrap_or("an unknown tool"), error.label()));
            }
            _ => {}
        }
    }

    fn is_understood(&self, line: &str, stage: &Stage) -> bool {
        let said = words(line);
        let heard = |turn: &Vec<String>| said.iter().filter(|word| turn.contains(word)).count();
        let most = self.understood.iter().map(heard).max().unwrap_or_default();
        most as f32 >= stage.heard_min * said.len() as f32
    }

    fn failures(&self, stage: &Stage) -> Vec<String> {
        let lost = stage.lines.iter().filter(|line| stage.hears && !self.is_understood(line, stage));
        let lost = lost.map(|line| format!("the caller was not understood: {line:?}"));
        lost.chain(self.failed_tools.iter().map(|tool| format!("a tool failed: {tool}"))).collect()
    }
}

/// Lower case, without punctuation.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Where the caller is in its [`Lines`].
struct Script {
    next: usize,
    /// When the last one was said.
    said_at: Instant,
    /// The agent is heard since then.
    agent_since: Option<Instant>,
}

impl Script {
    /// Whether the next sentence is to be said, behind a silence of the agent of this length.
    fn is_due(&mut self, activity: Option<Activity>, now: Instant, silence: Duration) -> bool {
        let mut answered = false;
        match activity {
            Some(Activity::Started) => self.agent_since = Some(now),
            Some(Activity::Stopped) => answered = self.agent_since.take().is_some_and(|since| since > self.said_at),
            None => {}
        }
        match self.next {
            INTERRUPTS => self.agent_since.is_some_and(|since| now - since > PATIENCE),
            ANSWERS_AT_ONCE => self.agent_since.is_some() && silence >= AT_ONCE,
            next => answered && next < PHRASES.len(),
        }
    }

    fn said(&mut self, now: Instant) {
        (self.next, self.said_at) = (self.next + 1, now);
    }
}

/// The caller's half of the conversation: listens, speaks in pauses, interrupts once.
async fn converse(
    caller: &mut Caller,
    (lines, voices): (&Lines, &Voices),
    notes: &mut broadcast::Receiver<CallNote>,
    began: Instant,
) -> anyhow::Result<Seen> {
    let mut transcript = Transcript::default();
    let mut seen = Seen::default();
    let mut ear = ActivityDetector::new(-45.0, Duration::from_millis(40), PAUSE);
    let mut script = Script { next: 0, said_at: began, agent_since: None };
    let mut last_heard = began;
    let mut finished_speaking: Option<Instant> = None;
    let mut interrupted: Option<Instant> = None;
    loop {
        let was_speaking = caller.is_speaking();
        let frame = caller.tick().await?;
        let now = Instant::now();
        while let Ok(CallNote { note, .. }) = notes.try_recv() {
            seen.note(&note);
            transcript.note(now - began, note);
        }
        let Some(frame) = frame else {
            transcript.event(now - began, "The agent hung up.");
            transcript.finish();
            return Ok(seen);
        };
        let loud = rms_dbfs(frame) > -45.0;
        let activity = ear.push(frame, now.into_std());
        if loud {
            last_heard = now;
            seen.first_audio.get_or_insert(now - began);
            if let Some(since) = finished_speaking.take() {
                seen.gaps.push(now - since);
            }
        }
        if was_speaking && !caller.is_speaking() {
            finished_speaking = Some(now);
        }
        if let Some(since) = interrupted
            && now - last_heard > Duration::from_millis(200)
        {
            seen.silenced_after = Some(last_heard.saturating_duration_since(since));
            interrupted = None;
        }
        if script.is_due(activity, now, now.saturating_duration_since(last_heard)) && !caller.is_speaking() {
            let next = script.next;
            if next == RADIO_FROM {
                transcript.event(now - began, "A radio is on beside the caller.");
                caller.play_background(voices.radio.clone());
            }
            transcript.caller(now - began, FORMAT.duration_of(voices.lines[next].len() * 2), lines[next]);
            caller.say(&voices.lines[next]);
            if next == INTERRUPTS {
                interrupted = Some(now);
            }
            script.said(now);
        }
    }
}

fn record(path: &Path, caller: &Caller) -> anyhow::Result<()> {
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: 8_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut wav = hound::WavWriter::create(path, spec)?;
    for (said, heard) in caller.said.iter().zip(&caller.heard) {
        wav.write_sample(*said)?;
        wav.write_sample(*heard)?;
    }
    Ok(wav.finalize()?)
}

/// Median; of an even number of times the longer of the middle two.
fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted.get(sorted.len() / 2).copied()
}

fn report(engine: &Engine, caller: &Caller, seen: &Seen, stage: &Stage) {
    let ms = |duration: Option<Duration>| duration.map_or("–".to_owned(), |d| format!("{} ms", d.as_millis()));
    let gaps: Vec<String> = seen.gaps.iter().map(|gap| format!("{} ms", gap.as_millis())).collect();
    let reason = engine.calls().view().recent.first().map(|call| call.reason.clone());
    println!("\nWhat the caller measured, on its own clock:");
    println!("  dialled → first word heard                {}", ms(seen.first_audio));
    println!("  caller finished → answer heard            {}", gaps.join(", "));
    println!("    half of them within                     {}", ms(median(&seen.gaps)));
    println!("  caller interrupts → agent quiet           {}", ms(seen.silenced_after));
    let understood = stage.lines.iter().filter(|line| seen.is_understood(line, stage)).count();
    println!("  sentences of the caller's understood      {understood} of {}", stage.lines.len());
    println!("  length of the call                        {:.1} s", caller.said.len() as f32 / 8_000.0);
    println!("  frames that came too fast to be played    {}", caller.overrun);
    if let Some(reason) = reason {
        println!("  why it ended                              {} ({})", reason.label, reason.description);
    }
    println!("\nRecording (caller left, agent right): {}", stage.recording.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outside of the project there is neither its folder nor the server that tells the weather.
    #[test]
    fn the_configuration_in_the_program_needs_no_file_beside_it() {
        assert!(WITHOUT_SERVERS.iter().all(|(from, _)| SHIPPED_TEXT.matches(from).count() == 1));
        let config = built_in().unwrap_or_else(|problems| panic!("{problems}"));
        let context = &config.contexts[CONTEXT];
        assert!(context.audiosocket_id.is_some() && !config.mcp.enabled);
    }
}
