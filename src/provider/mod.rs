//! AI providers: one file each, all behind [`Provider`] and [`Codec`].
//!
//! A codec is pure: it turns [`AgentCommand`]s into wire messages and wire messages into
//! [`AgentEvent`]s for one call. The [session] that all providers share owns the socket,
//! the attempts, the deadlines and the sample conversion.
//!
//! A provider is one file and one row in [`PROVIDERS`].

mod arguments;
mod asides;
mod counters;
mod deepgram;
mod elevenlabs;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod gemini;
mod openai;
mod pipeline;
mod scripted;
pub mod session;
#[cfg(test)]
mod talk;
mod turns;

pub use crate::remote::{WebSocketDial, Wire};
pub use counters::ProviderCounters;
pub use session::{Meter, SessionPolicy, run};

use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, AgentTraits},
    config::{self, Catalog, Named, OptionProblem, Services},
    facts::CallId,
    llm::MODELS,
    remote::{kinds, wards::Wards},
    sentences::Sentences,
    speech::VOICES,
    stt::LISTENERS,
    tool::{BUILT_IN, schemas::Dialect},
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::sync::mpsc;

/// One configured provider, made when a configuration is loaded and shared by all its calls.
pub trait Provider: Send + Sync {
    /// The name in [`PROVIDERS`], which is also the metric label.
    fn kind(&self) -> &'static str;
    fn traits(&self) -> AgentTraits;
    /// How it wants to be told its tools; `None`: it is not told them.
    fn dialect(&self) -> Option<Dialect>;
    /// Where the agent is.
    fn agent(&self) -> Agent<'_>;
}

/// Where an agent is.
pub enum Agent<'provider> {
    /// At a vendor, who is dialled.
    Remote(&'provider dyn Remote),
    /// In this process; nothing is dialled.
    Embedded(&'provider dyn Embedded),
}

impl dyn Provider {
    /// For those who know that it is a vendor's: tests and measurements.
    ///
    /// # Panics
    /// If it is embedded.
    pub fn remote(&self) -> &dyn Remote {
        match self.agent() {
            Agent::Remote(remote) => remote,
            Agent::Embedded(_) => panic!("{} is embedded", self.kind()),
        }
    }
}

/// A vendor's agent.
pub trait Remote: Send + Sync {
    /// The formats of a session for a leg of this format: the leg's own where the provider speaks
    /// it, so that bytes pass through untouched.
    fn formats(&self, leg: Format) -> SessionFormats;
    /// How long the vendor lets one session last, where it does not say so in the session itself.
    fn session_max(&self) -> Option<Duration> {
        None
    }
    /// How long a session that lives may say nothing at all and leave pings unanswered. A caller hears
    /// nothing meanwhile, so no longer than the vendor needs.
    fn patience(&self) -> Duration {
        Duration::from_secs(12)
    }
    fn dial(&self, setup: &AgentSetup) -> Dial;
    fn codec(&self, setup: &AgentSetup) -> Box<dyn Codec>;
}

/// The option `session_seconds` of those whose sessions end.
fn lasting(session_seconds: Option<u32>) -> Option<Duration> {
    session_seconds.map(|seconds| Duration::from_secs(seconds.into()))
}

/// An agent in this process, which speaks the core's vocabulary itself.
pub trait Embedded: Send + Sync {
    /// Plays the agent of one call until it is lost, or until `commands` is closed, which is `None`. One that needs others
    /// is ready or lost within `ready_max`. Dropping it ends it at once.
    fn play(
        &self,
        setup: AgentSetup,
        ready_max: Duration,
        commands: mpsc::Receiver<AgentCommand>,
        events: mpsc::Sender<AgentEvent>,
    ) -> BoxFuture<'static, Option<AgentLoss>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionFormats {
    /// Caller → provider.
    pub input: Format,
    /// Provider → caller.
    pub output: Format,
}

/// What one call asks of its agent.
#[derive(Debug, Clone)]
pub struct AgentSetup {
    pub call: CallId,
    /// The prompt, its placeholders already filled.
    pub instructions: String,
    /// The sentence of them that says what the caller hears before the agent, for agents whose prompt is their own.
    pub heard: Option<String>,
    /// Exactly the tools of the call's context, in the provider's dialect.
    pub tools: Arc<[Value]>,
    /// The format of the leg.
    pub leg: Format,
    /// What happens first, for providers that greet by themselves when the session stands.
    pub opens: Opens,
    /// The engine tells the caller's turns ([`AgentCommand::Turn`]), so the provider's own detection
    /// is off. Only where [`AgentTraits::takes_turns`].
    pub told_turns: bool,
    /// The newest handle of the session that this one goes on with. A codec whose vendor refuses it
    /// reports a loss, which ends the session; the next one comes without, and is told the story.
    pub resume: Option<Arc<str>>,
    /// Counts how long the session is connected.
    pub meter: Arc<Meter>,
    /// Sentences of the context, and its language.
    pub sentences: Arc<Sentences>,
}

impl AgentSetup {
    /// A session without prompt and tools, whose agent speaks first.
    pub fn new(call: CallId, leg: Format) -> Self {
        let (instructions, tools) = (String::new(), Arc::from([]));
        Self {
            call,
            instructions,
            heard: None,
            tools,
            leg,
            opens: Opens::Greets(None),
            told_turns: false,
            resume: None,
            meter: Arc::default(),
            sentences: Arc::default(),
        }
    }
}

/// Who speaks first in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opens {
    /// The agent, in these words if there are some; [`AgentCommand::Greet`] says when.
    Greets(Option<String>),
    /// Nobody is greeted: the caller was already.
    Waits,
}

/// How to reach the provider.
pub enum Dial {
    WebSocket(WebSocketDial),
    /// An address that is asked for first; it fails with the HTTP status that codec's
    /// [`refused`](Codec::refused) understands, or 0 when there was none.
    Asked(BoxFuture<'static, Result<WebSocketDial, u16>>),
    /// A vendor that is played by a task of the test.
    #[cfg(test)]
    Played(StartPlayed),
}

#[cfg(test)]
pub(crate) type StartPlayed =
    Box<dyn FnOnce(mpsc::Receiver<Wire>, mpsc::Sender<Wire>) -> BoxFuture<'static, ()> + Send>;

/// Bytes ⇄ vocabulary for one session, without I/O and without a clock. Audio in both directions
/// is in the session's [`SessionFormats`]; the session converts from and to the leg's format.
///
/// An [`AgentEvent::Audio`] without bytes tells the session that the item's audio is complete, so
/// that it can bring out what waits in the resampler; it goes no further than the session.
/// An [`AgentEvent::Lost`] ends the session, or before [`AgentEvent::Ready`] the attempt.
pub trait Codec: Send {
    /// What to send when the connection stands, before the provider said anything.
    fn open(&mut self, out: &mut Vec<Wire>);
    fn encode(&mut self, command: AgentCommand, out: &mut Vec<Wire>);
    /// `replies` takes what the protocol itself wants answered (`session.update` after
    /// `session.created`, say).
    fn decode(&mut self, wire: Wire, events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>);
    /// Messages to send when nothing was sent for so long, for vendors that end a silent session. With audio among them, they
    /// are sent when no audio was sent for so long.
    fn keep_alive(&self) -> Option<(Duration, Vec<Wire>)> {
        None
    }
    /// The formats that the provider told, where it alone decides them; asked for when the session
    /// stands.
    fn formats(&self) -> Option<SessionFormats> {
        None
    }
    /// For vendors that do not say when an answer is complete: after so long without further audio
    /// the session tells [`audio_gap`](Self::audio_gap), unless the response is done by then.
    fn audio_gap_max(&self) -> Option<Duration> {
        None
    }
    fn audio_gap(&mut self, _: &mut Vec<AgentEvent>) {}
    /// What a close frame of the provider means.
    fn closed(&self, code: Option<u16>, reason: &str) -> AgentLoss;
    /// What a refused WebSocket upgrade means.
    fn refused(&self, status: u16) -> AgentLoss;
}

/// One row of [`PROVIDERS`].
pub struct ProviderKind {
    /// The key below `providers.NAME`.
    pub kind: &'static str,
    /// One line for the configuration reference.
    pub summary: &'static str,
    /// JSON Schema of the options.
    pub schema: fn() -> Value,
    /// Every mistake in the options that can be found without side effects.
    pub check: fn(&Value) -> Vec<OptionProblem>,
    /// The tools that these options call by name: every context that uses them has to list these.
    pub calls: fn(&Value) -> Vec<String>,
    /// What these options name of other sections.
    pub names: fn(&Value) -> Vec<Named>,
    /// Makes the provider; fails with what `check` finds, or with what only doing it shows.
    pub build: Build,
}

pub type Build = fn(&Value, &Among<'_>) -> Result<Arc<dyn Provider>, Vec<OptionProblem>>;

/// What a provider is made among.
pub struct Among<'a> {
    /// What it may name.
    pub services: &'a Services,
    /// Who watches over those.
    pub wards: &'a Wards,
}

/// Every provider there is.
pub const PROVIDERS: &[ProviderKind] =
    &[deepgram::KIND, elevenlabs::KIND, gemini::KIND, openai::KIND, pipeline::KIND, scripted::KIND];

/// Every provider, voice and built-in tool there is, for the configuration.
pub fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(describe_all);

    &CATALOG
}

fn describe_all() -> Catalog {
    let kind = |row: &ProviderKind| config::ProviderKind {
        kind: row.kind,
        summary: row.summary,
        schema: (row.schema)(),
        check: row.check,
        calls: row.calls,
        names: row.names,
    };
    let providers = PROVIDERS.iter().map(kind).collect();
    let (stt, llm, voices) = (kinds::catalog(LISTENERS), kinds::catalog(MODELS), kinds::catalog(VOICES));
    Catalog { providers, stt, llm, voices, tools: BUILT_IN.to_vec(), ..Catalog::default() }
}

/// What the options of a provider name of other sections.
pub fn names(kind: &str, options: &Value) -> Vec<Named> {
    PROVIDERS.iter().find(|row| row.kind == kind).map(|row| (row.names)(options)).unwrap_or_default()
}

/// Makes a provider of this kind that needs no other section.
pub fn build(kind: &str, options: &Value) -> Result<Arc<dyn Provider>, Vec<OptionProblem>> {
    build_among(kind, options, &Among { services: &Services::default(), wards: &Wards::default() })
}

/// Makes the provider of this kind.
pub fn build_among(kind: &str, options: &Value, among: &Among<'_>) -> Result<Arc<dyn Provider>, Vec<OptionProblem>> {
    let Some(row) = PROVIDERS.iter().find(|row| row.kind == kind) else {
        let known: Vec<_> = PROVIDERS.iter().map(|row| row.kind).collect();
        let problem = OptionProblem::new("", format!("unknown provider kind \"{kind}\""));
        return Err(vec![problem.hint(format!("known kinds: {}", known.join(", ")))]);
    };
    (row.build)(options, among)
}
