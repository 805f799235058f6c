//! AI providers: one file each, all behind [`Provider`] and [`Codec`].
//!
//! A codec is pure: it turns [`AgentCommand`]s into wire messages and wire messages into
//! [`AgentEvent`]s for one call. The [session] that all providers share owns the socket,
//! the attempts, the deadlines and the sample conversion.
//!
//! A provider is one file and one row in [`PROVIDERS`].

mod asides;
mod checks;
mod counters;
mod deepgram;
mod elevenlabs;
mod gemini;
mod openai;
mod scripted;
pub mod session;
mod wire;

pub use counters::ProviderCounters;
pub use session::{Meter, SessionPolicy, run};

use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, AgentTraits},
    config::{self, Catalog, OptionProblem},
    facts::CallId,
    speech,
    tool::{BUILT_IN, schemas::Dialect},
};
use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// One configured provider, made when a configuration is loaded and shared by all its calls.
pub trait Provider: Send + Sync {
    /// The name in [`PROVIDERS`], which is also the metric label.
    fn kind(&self) -> &'static str;
    fn traits(&self) -> AgentTraits;
    /// How it wants to be told its tools; `None`: it is not told them.
    fn dialect(&self) -> Option<Dialect>;
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
}

impl AgentSetup {
    /// A session without prompt and tools, whose agent speaks first.
    pub fn new(call: CallId, leg: Format) -> Self {
        let (instructions, tools) = (String::new(), Arc::from([]));
        Self {
            call,
            instructions,
            tools,
            leg,
            opens: Opens::Greets(None),
            told_turns: false,
            resume: None,
            meter: Arc::default(),
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
    /// The provider lives in this process: a task that speaks to the codec over two channels.
    /// It ends when its receiver ends.
    Embedded(StartEmbedded),
}

/// Starts an embedded provider on what it hears and what it says to.
pub type StartEmbedded = Box<dyn FnOnce(mpsc::Receiver<Wire>, mpsc::Sender<Wire>) -> BoxFuture<'static, ()> + Send>;

#[derive(Debug, Clone)]
pub struct WebSocketDial {
    pub url: String,
    /// Secrets travel in headers only, never in the address.
    pub headers: Vec<(&'static str, SecretString)>,
}

/// One message on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wire {
    Text(String),
    Binary(Bytes),
}

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
    /// What to send when nothing was sent for so long, for vendors that end a silent session.
    fn keep_alive(&self) -> Option<(Duration, Wire)> {
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
    /// Makes the provider; fails with what `check` finds, or with what only doing it shows.
    pub build: Build,
}

pub type Build = fn(&Value) -> Result<Arc<dyn Provider>, Vec<OptionProblem>>;

/// Every provider there is.
pub const PROVIDERS: &[ProviderKind] = &[deepgram::KIND, elevenlabs::KIND, gemini::KIND, openai::KIND, scripted::KIND];

/// Every provider, voice and built-in tool there is, for the configuration.
pub fn catalog() -> Catalog {
    let kind = |row: &ProviderKind| config::ProviderKind {
        kind: row.kind,
        summary: row.summary,
        schema: (row.schema)(),
        check: row.check,
        calls: row.calls,
    };
    let providers = PROVIDERS.iter().map(kind).collect();
    Catalog { providers, voices: speech::catalog(), tools: BUILT_IN.to_vec() }
}

/// Makes the provider of this kind.
pub fn build(kind: &str, options: &Value) -> Result<Arc<dyn Provider>, Vec<OptionProblem>> {
    let Some(row) = PROVIDERS.iter().find(|row| row.kind == kind) else {
        let known: Vec<_> = PROVIDERS.iter().map(|row| row.kind).collect();
        let problem = OptionProblem::new("", format!("unknown provider kind \"{kind}\""));
        return Err(vec![problem.hint(format!("known kinds: {}", known.join(", ")))]);
    };
    (row.build)(options)
}

/// Reads options; a schema check has usually found the mistakes before, with better paths.
fn read_options<T: serde::de::DeserializeOwned>(options: &Value) -> Result<T, Vec<OptionProblem>> {
    T::deserialize(options).map_err(|error| vec![OptionProblem::new("", error.to_string())])
}

/// Base64 in either alphabet, padded or not: providers write both.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let alphabet = if text.contains(['-', '_']) { &URL_SAFE } else { &STANDARD };
    GeneralPurpose::new(alphabet, LENIENT).decode(text).ok()
}
