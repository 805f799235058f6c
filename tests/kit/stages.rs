//! The services of a pipeline on 127.0.0.1, for tests: somebody who listens, a model and a voice, each by the protocol
//! of one of its vendors.
//!
//! A listener over a WebSocket is a [`Vendor`] like the realtime ones, with their openings, orders and faults; its
//! dialects are in `stages/listeners.rs`. Whoever is asked and answers is a [`Server`], and what it answers is a
//! [`Reply`] that the test's own function makes of each question: whole, or as broken as the test wants it.
//!
//! A pipeline's listener is a vendor unless the test takes one that is asked for each turn ([`SCRIBES`]), and its voice is
//! OpenAI's unless the test takes another ([`VOICES`]).
//!
//! By default the listener understands [`Scenario::caller_words`] of each turn in which it hears a voice, the model
//! says [`Scenario::agent_words`], and the voice makes a tone of [`Scenario::answer`] of each clause, or [`Scenario::words`];
//! the tone's pitch is that of a realtime vendor's first session ([`Scenario::pitch`]).

#![allow(unused_imports)]

mod listeners;
pub mod model;
mod serve;
pub mod voice;

pub use listeners::{Flux, Nova, Transcriber, heard_by, writes};

use super::vendor::{Dialect, Scenario, Vendor};
use offhook::config::{ProviderConfig, Services};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
    time::timeout,
};

/// The longest a test waits for a question that should come.
const PATIENCE: Duration = Duration::from_secs(40);

/// How long a service is waited for: most tests do not wait as long as callers would.
const LIMIT: Duration = Duration::from_millis(1_500);

/// Listeners that are asked for each turn, by the protocols that they speak.
pub const SCRIBES: [&str; 2] = ["openai_transcription", "wyoming_transcribe"];
/// Voices by the protocols that they speak; Deepgram has two.
pub const VOICES: [&str; 5] = ["openai_speech", "elevenlabs_speech", "aura", "flux", "wyoming_speech"];

/// All services of one pipeline.
pub struct Stages {
    pub listener: Vendor,
    /// Who listens if it is one of [`SCRIBES`].
    pub scribe: Server,
    pub model: Server,
    pub voice: Server,
    listens: Option<&'static str>,
    speaks: &'static str,
    /// More options of who listens.
    heard: Value,
    /// How long they are waited for; `None`: as long as by default.
    limit: Option<Duration>,
}

impl Stages {
    pub async fn start() -> Self {
        Self::of(Scenario::default()).await
    }

    pub async fn of(scenario: Scenario) -> Self {
        Self::listening::<Flux>(scenario).await
    }

    pub async fn listening<L: Dialect>(scenario: Scenario) -> Self {
        let Scenario { host, caller_words, agent_words, answer, words, pitch, .. } = scenario;
        let scribe = Server::at(host, move |asked| writes(asked, caller_words)).await;
        let model = Server::at(host, move |_| model::says(agent_words)).await;
        let voice = Server::at(host, move |asked| match words {
            Some(words) => voice::says(asked, words),
            None => voice::speaks(asked, pitch(1), answer),
        })
        .await;
        let listener = Vendor::start::<L>(scenario).await;
        let (listens, speaks, heard, limit) = (None, VOICES[0], json!({}), Some(LIMIT));
        Self { listener, scribe, model, voice, listens, speaks, heard, limit }
    }

    /// One of [`SCRIBES`] listens.
    pub async fn asking(scribe: &'static str, scenario: Scenario) -> Self {
        Self { listens: Some(scribe), ..Self::of(scenario).await }
    }

    /// One of [`VOICES`] speaks.
    pub async fn speaking(voice: &'static str) -> Self {
        Self::start().await.spoken_by(voice)
    }

    /// The same of these.
    pub fn spoken_by(self, voice: &'static str) -> Self {
        Self { speaks: voice, ..self }
    }

    /// With more options of who listens.
    pub fn heard_with(self, heard: Value) -> Self {
        Self { heard, ..self }
    }

    /// No limit is configured.
    pub fn by_default(self) -> Self {
        Self { limit: None, ..self }
    }

    /// They are waited for so long.
    pub fn waited_for(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// An entry of `stt`, of `llm` and of `voices`.
    fn entries(&self) -> [(&'static str, &'static str, Value); 3] {
        let mut llm = json!({ "base_url": format!("http://{}/v1", self.model.address), "model": "m" });
        let (stt, mut heard) = match self.listens {
            None => (self.listener.kind(), self.listener.options().clone()),
            Some(scribe) => (scribe, reached(scribe, self.scribe.address)),
        };
        let mut spoken = reached(self.speaks, self.voice.address);
        if let Some(limit) = self.limit {
            for (options, option) in
                [(&mut heard, "timeout_ms"), (&mut llm, "timeout_ms"), (&mut spoken, "first_sound_ms")]
            {
                options[option] = (limit.as_millis() as u64).into();
            }
        }
        self.heard.as_object().into_iter().flatten().for_each(|(key, value)| heard[key] = value.clone());
        let tts = if matches!(self.speaks, "aura" | "flux") { "deepgram_speech" } else { self.speaks };
        [("stt", stt, heard), ("llm", "openai_chat", llm), ("voices", tts, spoken)]
    }

    /// The sections `stt`, `llm` and `voices` of a configuration.
    pub fn sections(named: &[(&str, &Self)]) -> String {
        let mut yaml = String::new();
        for stage in 0..3 {
            for (index, (name, stages)) in named.iter().enumerate() {
                let (section, kind, options) = &stages.entries()[stage];
                let head = if index == 0 { format!("{section}:\n") } else { String::new() };
                let _ = writeln!(yaml, "{head}  {name}: {{ {kind}: {options} }}");
            }
        }
        yaml
    }

    /// The same for a pipeline without a configuration, each by the name `one`.
    pub fn services(&self) -> Services {
        let one = |(_, kind, options): (&str, &str, Value)| {
            [("one".to_owned(), ProviderConfig { kind: kind.into(), options })].into()
        };
        let [stt, llm, voices] = self.entries().map(one);
        Services { stt, llm, voices }
    }
}

/// Options by which one of [`SCRIBES`] or [`VOICES`] is asked here.
fn reached(service: &str, address: SocketAddr) -> Value {
    let (key, base) = ("key-of-the-test", format!("http://{address}"));
    match service {
        "openai_transcription" => json!({ "base_url": base + "/v1", "model": "m" }),
        "openai_speech" => json!({ "base_url": base + "/v1", "model": "m", "voice": "ada" }),
        "elevenlabs_speech" => json!({ "api_key": key, "base_url": base, "voice": "ada" }),
        "aura" => json!({ "api_key": key, "base_url": base, "model": "aura-2-thalia-en" }),
        "flux" => json!({ "api_key": key, "base_url": base, "model": "flux-ada-en" }),
        _ => json!({ "address": address.to_string() }),
    }
}

/// One question.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Counted from 1.
    pub number: usize,
    /// With its query; the kind of an event where there is no path.
    pub path: String,
    /// Null when it is no JSON.
    pub body: Value,
    /// What came that is no JSON.
    pub sound: Vec<u8>,
    /// The client disconnected before the answer was complete.
    pub gone: bool,
}

/// What a server answers.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// Of the content.
    pub kind: &'static str,
    pub bits: Vec<Bit>,
}

#[derive(Debug, Clone)]
pub enum Bit {
    Bytes(Vec<u8>),
    /// A message that the protocol does not define.
    ProtocolAnomaly,
    Wait(Duration),
    /// The rest comes when the test says so.
    Hold(Arc<Notify>),
    /// Nothing more comes, and the connection stands.
    Stall,
    /// The connection breaks. As the first bit, nothing was answered at all.
    Break,
}

impl Reply {
    pub fn whole(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, kind, bits: vec![Bit::Bytes(body.into())] }
    }

    pub fn json(body: &Value) -> Self {
        Self::whole("application/json", body.to_string())
    }

    /// As vendors refuse: with their own word for it.
    pub fn refuses(status: u16, code: &str) -> Self {
        let error = json!({ "error": { "message": "Not the words of the test.", "code": code } });
        Self { status, ..Self::json(&error) }
    }

    pub fn stalls() -> Self {
        Self { status: 200, kind: "", bits: vec![Bit::Stall] }
    }

    pub fn breaks() -> Self {
        Self { status: 200, kind: "", bits: vec![Bit::Break] }
    }

    pub fn garbage(kind: &'static str) -> Self {
        Self { status: 200, kind, bits: vec![Bit::ProtocolAnomaly] }
    }

    /// What a wrong address answers with.
    pub fn page() -> Self {
        Self::whole("text/html", "<p>Welcome</p>")
    }
}

type Script = Arc<dyn Fn(&Asked) -> Reply + Send + Sync>;

/// Somebody who is asked and answers: over HTTP, over Wyoming, or over a WebSocket with one question.
pub struct Server {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    script: Mutex<Script>,
    asked: watch::Sender<Vec<Asked>>,
    /// So many of the first connections are half-open.
    half_open: watch::Sender<usize>,
    connections: AtomicUsize,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, script).await
    }

    pub async fn at(host: Ipv4Addr, script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((host, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let (script, asked) = (Mutex::<Script>::new(Arc::new(script)), watch::Sender::default());
        let shared =
            Arc::new(Shared { script, asked, half_open: watch::Sender::default(), connections: AtomicUsize::new(0) });
        let serving = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let number = serving.connections.fetch_add(1, Ordering::Relaxed) + 1;
                let served = serve::serve(stream, Arc::clone(&serving));
                open.spawn(until_half_open(served, serving.half_open.subscribe(), number));
            }
        });
        Self { address, shared, task }
    }

    /// From now on.
    pub fn answers(&self, script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) {
        *self.shared.script() = Arc::new(script);
    }

    /// From now on these many of its first connections are half-open: they stand, what is sent to them is acknowledged, and
    /// nobody reads or answers it. Later ones are served.
    pub fn is_half_open(&self, connections: usize) {
        self.shared.half_open.send_replace(connections);
    }

    /// So many have been made to it.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// All questions so far, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.borrow().clone()
    }

    pub fn times(&self) -> usize {
        self.shared.asked.borrow().len()
    }

    /// Waits until it was asked so often, and returns the last of these questions.
    pub async fn is_asked(&self, times: usize) -> Asked {
        self.until(&format!("it was asked {times} times"), |asked| asked.len() >= times).await[times - 1].clone()
    }

    /// Waits until this holds of all questions.
    pub async fn until(&self, what: &str, holds: impl Fn(&[Asked]) -> bool) -> Vec<Asked> {
        let mut asked = self.shared.asked.subscribe();
        let waited = timeout(PATIENCE, asked.wait_for(|asked| holds(asked))).await.is_ok();
        assert!(waited, "waited in vain until {what}: {:#?}", self.asked());
        self.asked()
    }
}

/// From when this connection is half-open, its socket stays and is neither read nor written.
async fn until_half_open(
    served: impl Future<Output = Option<()>>,
    mut half_open: watch::Receiver<usize>,
    number: usize,
) {
    tokio::pin!(served);
    let is_half_open = async { drop(half_open.wait_for(|first| number <= *first).await) };
    tokio::select! {
        biased;
        () = is_half_open => std::future::pending().await,
        _ = &mut served => {}
    }
}

impl Shared {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a question, and says its number and what is answered.
    fn ask(&self, mut asked: Asked) -> (usize, Reply) {
        let script = Arc::clone(&self.script());
        self.asked.send_modify(|all| {
            asked.number = all.len() + 1;
            all.push(asked.clone());
        });
        (asked.number, script(&asked))
    }

    fn gone(&self, number: usize) {
        self.asked.send_modify(|all| all[number - 1].gone = true);
    }
}
