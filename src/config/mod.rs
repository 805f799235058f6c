//! What an admin wrote, checked, and what the rest of the engine may rely on.
//!
//! The way of a file: text → tree with line numbers → schema check → `raw` → `resolve` →
//! [`Config`]. Every problem on the way is collected; nothing stops at the first.
//!
//! - [`load`] is the way in; [`Catalog`] says what can be named
//! - [`prompt`]: placeholders in prompts and greetings, filled per call
//! - [`schema_text`], [`reference()`]: what is generated from the same source for editors and readers

pub mod blocks;
mod catalog;
mod check;
mod consistency;
mod defaults;
mod effects;
mod interpolate;
mod lines;
mod mcp;
mod policy;
mod price;
mod problem;
pub mod prompt;
mod raw;
mod raw_mcp;
mod raw_policy;
mod raw_price;
mod raw_records;
mod raw_speech;
mod raw_tenant;
mod raw_turns;
mod raw_vam;
mod reference;
mod resolve;
mod schema;
mod sentences;
mod slips;
mod speech;
mod tenant;
#[cfg(test)]
mod tests;
mod tree;
mod turns;
mod values;
pub mod vam;

pub use catalog::{Catalog, Named, OptionProblem, ProviderKind, ServiceKind};
pub use interpolate::Env;
pub use lines::Lines;
pub use mcp::{McpConfig, McpRestart, McpServer, McpTransport, Reach};
pub use policy::{Identify, RemoteGate, ToolPolicy, ToolRules};
pub use price::{Cost, Price, Prices};
pub use problem::{Problem, Problems};
pub use reference::reference;
pub use schema::{mcp_server_schema, schema, schema_text};
pub use speech::{Greeter, Line, Speech};
pub use tenant::Tenant;
pub use values::UnknownAudio;
pub use vam::{Residency, VamActionServer, VamConfig, VamLimits, VamSessions, VamTls};

use crate::{
    audio::{Format, RingTone},
    call::CallRules,
};
use problem::{Path, Report};
use secrecy::SecretString;
use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// A file of a thousand contexts with long prompts is below this.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reads the file at `path`. `env` looks up `${VARIABLES}`; `catalog` says which providers and
/// tools there are.
///
/// # Errors
/// All mistakes of the file at once, by line. What is merely strange is logged and kept in
/// [`Config::warnings`].
pub fn load(path: &std::path::Path, env: Env, catalog: &Catalog) -> Result<Config, Problems> {
    let name = path.display().to_string();
    match read(path) {
        Ok(text) => load_str(&name, &text, env, catalog)
            .inspect(|config| config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"))),
        Err(message) => {
            let mut report = Report::new(&name);
            let elsewhere = "name another file, as `--config FILE`, or let `offhook init` write one";
            report.add(0, &Path::default(), message, (!path.exists()).then(|| elsewhere.to_owned()));
            Err(report.into_problems())
        }
    }
}

fn read(path: &std::path::Path) -> Result<String, String> {
    use std::io::Read;

    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("is larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "is not text in UTF-8".into())
}

/// Like [`load`], from text. `name` is what problems call the file; relative paths in the text
/// start from the folder that `name` is in.
///
/// # Errors
/// All mistakes at once, by line.
pub fn load_str(name: &str, text: &str, env: Env, catalog: &Catalog) -> Result<Config, Problems> {
    let mut report = Report::new(name);
    match compose(name, text, env, catalog, &mut report) {
        Some(config) if report.is_empty() => Ok(config),
        _ => Err(report.into_problems()),
    }
}

fn compose(name: &str, text: &str, env: Env, catalog: &Catalog, report: &mut Report) -> Option<Config> {
    let mut root = tree::parse(text, env, report)?;
    check::check(&mut root, catalog.compiled_schema(), report);
    let Ok(raw) = serde_json::from_value(root.json(false)) else {
        if report.is_empty() {
            report.add(0, &Path::default(), "the schema of this build allows what the build cannot read", None);
        }
        return None;
    };
    let folder = std::path::Path::new(name).parent().unwrap_or(std::path::Path::new(""));
    let mut config = resolve::resolve(raw, &root, folder, catalog, report);
    consistency::check(&config, &root, catalog, report);
    config.lines = Lines::of(name, text, &root);
    config.warnings = consistency::warnings(&config, &root, catalog, name);
    Some(config)
}

/// A configuration without a known mistake. One value is one generation: a running call keeps the
/// one it began with.
#[derive(Debug, Clone)]
pub struct Config {
    /// `None`: no ARI; calls then come by `AudioSocket()` from the dialplan only.
    pub asterisk: Option<AsteriskConfig>,
    pub media: MediaConfig,
    pub http: HttpConfig,
    pub limits: EngineLimits,
    /// Takes the calls whose `AI_CONTEXT` is missing or unknown.
    pub default_context: Option<String>,
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Who speaks what the engine says itself.
    pub services: Services,
    pub contexts: BTreeMap<String, Arc<Context>>,
    pub destinations: BTreeMap<String, Destination>,
    /// What the operator says of single tools.
    pub tool_rules: BTreeMap<String, ToolRules>,
    pub tenants: BTreeMap<String, Tenant>,
    pub voicemail: VoicemailConfig,
    pub extensions: ExtensionsConfig,
    /// `None`: no mail is sent.
    pub mail: Option<MailConfig>,
    /// `None`: no record of a call is kept.
    pub records: Option<RecordsConfig>,
    pub mcp: McpConfig,
    /// `None`: nothing is served by gRPC.
    pub vam: Option<VamConfig>,
    pub prices: Prices,
    /// What was written; for problems that show when something is built from it.
    pub lines: Lines,
    /// What is right but probably not meant, in the order of the lines.
    pub warnings: Vec<Problem>,
}

#[derive(Debug, Clone)]
pub struct AsteriskConfig {
    /// `http://host:8088` or `https://…`, with a path prefix if `http.conf` has one; `/ari` is added.
    pub url: String,
    pub username: String,
    pub password: SecretString,
    /// The application's name in `Stasis(name)`.
    pub app: String,
    /// Numbers of callers who withhold them are known to the agent and kept in records.
    pub keeps_withheld_numbers: bool,
}

#[derive(Debug, Clone)]
pub struct MediaConfig {
    /// For contexts and calls that name none.
    pub default: AudioChoice,
    pub ring_tone: RingTone,
    /// Heard again and again in place of the tone.
    pub ring_music: Option<PathBuf>,
    pub audiosocket: AudioSocketConfig,
    pub rtp: RtpConfig,
}

/// How a call's audio travels between Asterisk and offhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AudioChoice {
    pub transport: Transport,
    /// What the call's audio is made of in offhook.
    pub format: Format,
    /// Over a WebSocket: packets of Opus on the way, where the caller's phone speaks it, and else the format itself.
    pub opus: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    AudioSocket,
    Rtp,
    WebSocket,
}

#[derive(Debug, Clone)]
pub struct AudioSocketConfig {
    pub bind: SocketAddr,
    /// `host:port` that Asterisk is told to connect to.
    pub advertise: String,
}

#[derive(Debug, Clone)]
pub struct RtpConfig {
    pub bind: IpAddr,
    /// The address that Asterisk is told to send to.
    pub advertise: String,
    pub ports: RangeInclusive<u16>,
}

#[derive(Debug, Clone)]
pub struct HttpConfig {
    pub bind: SocketAddr,
    /// With it programs may do what an admin may; without it, programs on this machine may ask for reloads and MCP servers.
    pub admin_token: Option<SecretString>,
    /// Who may log in.
    pub accounts: PathBuf,
    /// Where browsers find the page, if not at `bind`: behind a server that adds TLS. An origin: `https://host`.
    pub public_url: Option<String>,
}

#[derive(Debug, Clone)]
pub struct EngineLimits {
    /// Calls at once; the next one is declined with `OFFHOOK_STATUS=FULL`.
    pub calls: usize,
    /// How long a drain waits for running calls.
    pub drain: Duration,
}

/// The sections whose entries are named by providers and contexts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Services {
    pub stt: BTreeMap<String, ProviderConfig>,
    pub llm: BTreeMap<String, ProviderConfig>,
    pub voices: BTreeMap<String, ProviderConfig>,
}

impl Services {
    pub(super) fn section(&self, section: &str) -> Option<&BTreeMap<String, ProviderConfig>> {
        let Self { stt, llm, voices } = self;
        [("stt", stt), ("llm", llm), ("voices", voices)]
            .into_iter()
            .find_map(|(name, all)| (name == section).then_some(all))
    }
}

/// One entry of `providers:`, `stt:`, `llm:` or `voices:`: its kind (`openai_realtime`, `espeak_ng`) and the options below it.
#[derive(Clone, PartialEq)]
pub struct ProviderConfig {
    pub kind: String,
    /// Keys of the vendor's account among them, so `Debug` leaves them out.
    pub options: serde_json::Value,
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// One agent, as an admin describes it.
#[derive(Debug, Clone)]
pub struct Context {
    pub name: String,
    /// With `{placeholders}`, filled per call by [`prompt::fill`].
    pub prompt: String,
    pub greeting: Option<String>,
    pub provider: String,
    /// Entries of `providers` that carry its calls on when the first one fails, in this order.
    pub fallbacks: Vec<String>,
    /// Exposed names; nothing else is shown to the model, and nothing else may run.
    pub tools: Vec<String>,
    pub audio: Option<AudioChoice>,
    /// First eight hex digits of the UUIDs by which `AudioSocket()` in the dialplan chooses this
    /// context.
    pub audiosocket_id: Option<[u8; 4]>,
    pub rules: CallRules,
    /// Whose declarative tools it may list.
    pub tenant: Option<String>,
    /// How its agent's tool calls are held.
    pub policy: ToolPolicy,
    /// What callers hear that no agent says.
    pub speech: Speech,
    /// Which entry of `mail.mailboxes` gets what callers leave.
    pub mailbox: Option<String>,
}

impl Context {
    /// Every entry of `providers` that may speak here.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.provider).chain(&self.fallbacks).map(String::as_str)
    }
}

/// Where `transfer` may send a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// What the model reads about it.
    pub description: String,
    pub way: Way,
}

/// How a caller gets to a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// Handed over for good, at once.
    Dialplan(Place),
    /// Connected with the first who answers; comes back to the agent when nobody does.
    Dial(RingGroup),
}

/// A place in the dialplan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub context: String,
    pub extension: String,
    pub priority: u32,
}

/// Endpoints that ring at once, as ARI names them: `PJSIP/100`, `Local/700@queues`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingGroup {
    pub endpoints: Vec<String>,
    /// How long they ring.
    pub limit: Duration,
}

/// A mailbox that `leave_voicemail` may send a caller to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    /// What the model reads about it.
    pub description: String,
    /// `mailbox@context` of `voicemail.conf`.
    pub mailbox: String,
}

/// Mailboxes of Asterisk, and the place in the dialplan that takes messages for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoicemailConfig {
    pub place: Place,
    pub mailboxes: BTreeMap<String, Mailbox>,
}

/// What is kept of calls that have ended, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsConfig {
    pub directory: PathBuf,
    /// After that a record is deleted.
    pub keep: Duration,
    /// And a recording.
    pub keep_recordings: Duration,
    /// What was said is kept.
    pub words: bool,
    /// So are the caller's number and name, and the number that was dialled.
    pub numbers: bool,
}

/// The server that mail goes by, and whom it goes to.
#[derive(Debug, Clone)]
pub struct MailConfig {
    pub server: String,
    pub port: u16,
    pub tls: MailTls,
    /// An authority besides the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    pub credentials: Option<(String, SecretString)>,
    /// `Name <address>` or an address.
    pub from: String,
    /// Addresses by the name that contexts and tools use.
    pub mailboxes: BTreeMap<String, String>,
}

/// How the connection to a mail server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// From the first byte.
    Implicit,
    /// Upgraded before anything is said; without that, nothing is sent.
    StartTls,
    /// Not at all: for a server on this machine.
    None,
}

/// What `check_extension_status` may be asked about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtensionsConfig {
    /// Patterns as the dialplan writes them, without `_`: `2XX`, `10[0-4]`.
    pub allow: Vec<String>,
    /// The device of an extension, with `{extension}` in it.
    pub device: String,
    /// Likewise those that tell that it wants not to be called.
    pub do_not_disturb: Vec<String>,
}
