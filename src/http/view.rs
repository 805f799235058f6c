//! What the pages show, in words of their own: the engine fills these in.

mod registry;

pub use registry::{AuditLine, RegisteredTool, TenantTools, ToolFigures, ToolPolicyView};

use crate::{
    config::Destination,
    facts::{CallId, Direction},
    records::{Counts, Ending, Entry, Used},
    telemetry::ProviderFigures,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, fmt, time::Duration};
use tokio::sync::mpsc;

/// What the engine lets be seen and asked over HTTP. The methods answer from memory, at once.
pub trait EngineView: Send + Sync + 'static {
    fn about(&self) -> About;
    fn readiness(&self) -> Readiness;
    fn calls(&self) -> CallsView;
    /// One running call; `None`: it does not run.
    fn call(&self, id: CallId) -> Option<ActiveCall>;
    /// Parties on the line of a running call, for those who may know; `None`: the call does not run, or nobody may.
    fn parties(&self, id: CallId) -> Option<Parties>;
    /// What happened in a running call from this entry on, as far as it is still remembered; `None`: it does not run.
    fn story(&self, id: CallId, from: u64) -> Option<Vec<LiveEntry>>;
    /// Ends a running call on behalf of an account, which its record names; `false`: it does not run.
    fn hang_up(&self, id: CallId, account: &str) -> bool;
    /// A running call from now on, as WAV without an end; the parts stop when the call does.
    ///
    /// # Errors
    /// It does not run, or too many listen to it.
    fn listen(&self, id: CallId) -> Result<mpsc::Receiver<Bytes>, NoListening>;
    /// Where the caller of a running call can be sent to; `None`: it does not run, or the engine has only its audio.
    fn destinations(&self, id: CallId) -> Option<BTreeMap<String, Destination>>;
    /// Sends the caller of a running call somewhere, once the agent has spoken out. What becomes of it, the call tells.
    ///
    /// # Errors
    /// The call cannot be sent there.
    fn transfer(&self, id: CallId, destination: &str, account: &str) -> Result<(), NoTransfer>;
    /// Begins a conversation in writing with the agent of a context.
    ///
    /// # Errors
    /// Why not.
    fn converse(&self, context: String) -> BoxFuture<'static, Result<CallId, NoConversation>>;
    /// What the caller of a conversation in writing has written.
    ///
    /// # Errors
    /// It reaches nobody.
    fn write(&self, id: CallId, text: &str) -> Result<(), NoWriting>;
    /// All metrics in Prometheus' text format.
    fn metrics_text(&self) -> String;
    /// Loads the configuration file anew for calls to come. A file with problems changes nothing.
    /// Only one reload is asked for at a time, and it runs to its end even if the asker leaves.
    fn reload(&self) -> BoxFuture<'static, Result<ReloadReport, ReloadFailure>>;
    /// The MCP servers of the configuration.
    fn mcp_status(&self) -> McpStatus;
    /// Starts an instance of a server beside the one that runs, asks for its tools, and ends it. Bounded in time by
    /// the server's own limits.
    fn mcp_test(&self, id: String) -> BoxFuture<'static, McpTest>;
    /// Looks at the installation, and places a test call over each kind of audio path. Takes a minute at most.
    fn examine(&self) -> BoxFuture<'static, Vec<Finding>>;
    /// A test call over each kind of audio path: what arrives of a tone, each way. Takes half a minute at most.
    fn media_test(&self) -> BoxFuture<'static, MediaTest>;
    /// The tools of the running generation, by tenant; those of contexts without one come first.
    fn tools(&self) -> Vec<TenantTools>;
    /// The last audit lines of a tool, or of all tools, in calls of a tenant's contexts, the newest first.
    fn tool_audits(&self, tenant: Option<&str>, tool: Option<&str>) -> Vec<AuditLine>;
    /// The providers of the configuration, by their names.
    fn providers(&self) -> BTreeMap<String, ProviderView>;
    /// The contexts of the configuration, by their names.
    fn contexts(&self) -> BTreeMap<String, ContextView>;
    fn system(&self) -> SystemView;
    /// Whether new calls are taken, as an account has asked for; those that run go on either way.
    fn take_calls(&self, taken: bool, by: &str);
}

/// One entry of `providers`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProviderView {
    /// `openai_realtime`, say.
    pub kind: String,
    /// What calls may expect: `asked`, `tried` (one call tries it after it has failed), or `left_alone`.
    pub state: &'static str,
    /// Contexts whose calls begin with it.
    pub contexts: Vec<String>,
    /// Contexts that have it among their `fallbacks`.
    pub fallback_of: Vec<String>,
    /// Calls that it has now.
    pub calls: usize,
    /// What a pipeline is made of, in the order in which they are asked; none of other kinds.
    pub services: Vec<ServiceView>,
    pub figures: ProviderFigures,
}

/// A listener, a model or a voice of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServiceView {
    /// `stt`, `llm` or `voices`.
    pub section: &'static str,
    pub name: String,
    /// `deepgram_listen`, say.
    pub kind: String,
    /// As that of a provider: `asked`, `tried` or `left_alone`.
    pub state: &'static str,
}

/// Something of the installation that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// `asterisk`, say, or `call` for a test call.
    pub area: &'static str,
    /// `ok`, `warning` (calls may work; somebody should look) or `problem`.
    pub grade: &'static str,
    pub says: String,
    pub remedy: Option<String>,
}

/// What test calls over each kind of audio path have shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct MediaTest {
    /// No call that a context needs has failed.
    pub ok: bool,
    pub calls: Vec<TestCall>,
    /// What keeps test calls from being placed, or was left behind.
    pub findings: Vec<Finding>,
}

/// One test call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TestCall {
    /// `rtp/ulaw`, say.
    pub audio: String,
    /// A context, or `media.default`, uses it.
    pub configured: bool,
    /// `ok`, `warning` or `problem`.
    pub grade: &'static str,
    pub says: String,
    pub remedy: Option<String>,
    /// Caller → offhook; absent where no call stood.
    pub from_caller: Option<TestPath>,
    /// offhook → caller.
    pub to_caller: Option<TestPath>,
}

/// One direction of a test call.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TestPath {
    /// Until the tone is heard; absent where it was not.
    pub delay_ms: Option<f64>,
    /// Of the tone, what did not arrive.
    pub loss_percent: f64,
    /// How loud it arrives, in dBov.
    pub level_dbov: Option<f64>,
    /// How loud it was sent.
    pub sent_dbov: f64,
}

/// One entry of `contexts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContextView {
    /// Calls that name no context have it: `default_context`.
    pub default: bool,
    pub provider: String,
    pub fallbacks: Vec<String>,
    pub tools: Vec<String>,
    /// Transport and format of calls by ARI that ask for nothing else: `rtp/ulaw`, say.
    pub audio: String,
    /// How UUIDs in `AudioSocket()` begin that choose it.
    pub audiosocket_id: Option<String>,
    /// Calls that it has now.
    pub calls: usize,
}

/// What the engine stands on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SystemView {
    pub about: About,
    pub readiness: Readiness,
    /// Calls that run now, and how many may.
    pub calls: usize,
    pub calls_max: usize,
    /// New calls go back to the dialplan.
    pub draining: bool,
    /// A reload of MCP servers waits for the last call to end.
    pub reload_pending: bool,
    /// The file that a reload reads; `None`: the configuration is part of the program.
    pub configuration: Option<String>,
    /// `None`: calls come by AudioSocket() alone.
    pub asterisk: Option<AsteriskView>,
    /// Where calls' audio comes in, and how much of it is in use.
    pub media: Vec<MediaView>,
}

/// The Asterisk that the engine is configured for; whether it is connected, [`Readiness::ari`] tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AsteriskView {
    /// Host and port of ARI.
    pub address: String,
    /// The application that the dialplan hands calls to: `Stasis(NAME)`.
    pub app: String,
    /// How often the connection for events ended, or could not be made, since the engine started.
    pub lost: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MediaView {
    /// `audiosocket` or `rtp`.
    pub transport: &'static str,
    /// An address, or an address with a range of ports.
    pub bind: String,
    pub open: usize,
    /// `None`: as many as there may be calls.
    pub most: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct McpStatus {
    pub enabled: bool,
    /// A reload waits for the last call to end.
    pub reload_pending: bool,
    pub servers: BTreeMap<String, McpServerView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct McpServerView {
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// `up`, `starting`, `down` or `disabled`.
    pub state: &'static str,
    pub restarts: u64,
    pub last_error: Option<String>,
    pub tools: Vec<McpToolView>,
    /// Exposed names that contexts list and that the server, which is up, has no tool for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct McpToolView {
    /// As the server calls it.
    pub name: String,
    pub exposed_name: Option<String>,
    /// Contexts can list it.
    pub registered: bool,
    /// Why it is left out, somewhere or everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct McpTestedTool {
    /// As the server calls it.
    pub name: String,
    pub exposed_name: Option<String>,
    pub description: Option<String>,
    pub arguments: Vec<String>,
    /// What it touches by `defaults.access` and the server's own word; `tools.NAME.access` goes before it.
    pub access: Option<&'static str>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What came of a test of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTest {
    /// There is no such server.
    Unknown,
    /// Another test of it is under way.
    Busy,
    Done {
        took: Duration,
        /// Its tools, as models would be told of them; or why it did not work.
        result: Result<Vec<McpTestedTool>, String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct About {
    pub version: &'static str,
    pub started: Timestamp,
    /// Counts the configurations loaded since the start, the first one included.
    pub generation: u64,
}

/// Whether a new call would be taken and answered well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Readiness {
    /// The ARI events socket is up, or no ARI is configured.
    pub ari: Check,
    /// The media listeners are bound.
    pub media: Check,
    /// At least one provider is usable.
    pub providers: Check,
    /// New calls are taken: not draining.
    pub accepting: Check,
}

impl Readiness {
    pub fn is_ready(&self) -> bool {
        self.checks().iter().all(|(_, check)| check.ok)
    }

    /// Each check with its name, in the order in which a call meets them.
    pub fn checks(&self) -> [(&'static str, &Check); 4] {
        [("ari", &self.ari), ("media", &self.media), ("providers", &self.providers), ("accepting", &self.accepting)]
    }
}

/// One condition, and the sentence that says why it holds or does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    pub ok: bool,
    pub reason: String,
}

impl Check {
    pub fn ok(reason: impl Into<String>) -> Self {
        Self { ok: true, reason: reason.into() }
    }

    pub fn failed(reason: impl Into<String>) -> Self {
        Self { ok: false, reason: reason.into() }
    }
}

/// Calls that run and calls that ran, without a number or a word of a caller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct CallsView {
    /// Oldest first.
    pub active: Vec<ActiveCall>,
    /// Newest first; the engine keeps a limited number.
    pub recent: Vec<EndedCall>,
}

/// A call that runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ActiveCall {
    #[serde(flatten)]
    pub call: CallHead,
    /// The core's word for where the call stands (`connecting`, `talking`, `on_hold`, `leaving`).
    pub phase: &'static str,
    /// Who is heard: `caller`, `agent`, `both` or `nobody`.
    pub floor: &'static str,
    pub levels: Levels,
    pub counts: Counts,
}

/// How loud a call is at this moment: 0 is −60 dBFS and less, 100 the loudest that there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Levels {
    pub caller: u8,
    pub agent: u8,
}

/// Why a caller cannot be sent to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTransfer {
    NotRunning,
    /// The call is the dialplan's: it came by `AudioSocket()`.
    AudioOnly,
    NoSuchDestination,
}

/// Why a conversation in writing cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoConversation {
    NoSuchContext,
    Draining,
    /// As many calls run as may.
    Full,
}

/// Why a text reaches nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWriting {
    NotRunning,
    /// The caller of this call speaks.
    Spoken,
    /// Several texts wait already.
    TooFast,
}

/// Why nobody can listen to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoListening {
    NotRunning,
    TooMany,
}

/// Something that happened in a running call. It can hold words.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
pub struct LiveEntry {
    /// Counts the call's entries from 0.
    pub number: u64,
    #[serde(flatten)]
    pub entry: Entry,
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EndedCall {
    #[serde(flatten)]
    pub call: CallHead,
    #[serde(rename = "seconds", serialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub lasted: Duration,
    pub reason: Ending,
    pub counts: Counts,
    /// By provider; more than one where the call was handed on.
    pub usage: Vec<Used>,
}

/// What is fixed when a call begins.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CallHead {
    pub id: CallId,
    pub context: String,
    pub provider: String,
    pub direction: Direction,
    pub since: Timestamp,
    /// A conversation in writing, on the page.
    pub written: bool,
    /// Absent until somebody asks who may know ([`EngineView::parties`]).
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub parties: Option<Parties>,
}

/// Parties on the line, as a record would have them.
#[derive(Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Parties {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_number: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialled_number: Option<String>,
}

/// It may be logged.
impl fmt::Debug for Parties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parties(***)")
    }
}

/// A new generation is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReloadReport {
    pub generation: u64,
    /// What differs from the generation before, one phrase each.
    pub changed: Vec<String>,
    /// What differs but only takes effect after a restart (a bind address).
    pub needs_restart: Vec<String>,
    /// MCP servers are reloaded when the last call has ended.
    pub reload_pending: bool,
}

/// The file was refused and the generation before stays in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReloadFailure {
    /// As `offhook check` prints them, at least one: `FILE:LINE: path: what is wrong; a suggestion`.
    pub problems: Vec<String>,
}

fn seconds<S: Serializer>(lasted: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((lasted.as_secs_f64() * 10.0).round() / 10.0)
}
