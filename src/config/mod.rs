//! What an admin wrote, checked, and what the rest of the engine may rely on.
//!
//! The way of a file: text → tree with line numbers → schema check → [`raw`] → [`resolve`] →
//! [`Config`]. Every problem on the way is collected; nothing stops at the first.

use crate::{audio::Format, call::CallRules};
use secrecy::SecretString;
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

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
    pub contexts: BTreeMap<String, Arc<Context>>,
    pub destinations: BTreeMap<String, Destination>,
}

#[derive(Debug, Clone)]
pub struct AsteriskConfig {
    /// `http://host:8088` or `https://…`, with a path prefix if `http.conf` has one; `/ari` is added.
    pub url: String,
    pub username: String,
    pub password: SecretString,
    /// The application's name in `Stasis(name)`.
    pub app: String,
}

#[derive(Debug, Clone)]
pub struct MediaConfig {
    /// For contexts and calls that name none.
    pub default: AudioChoice,
    pub audiosocket: AudioSocketConfig,
    pub rtp: RtpConfig,
}

/// How a call's audio travels between Asterisk and offhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AudioChoice {
    pub transport: Transport,
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    AudioSocket,
    Rtp,
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
}

#[derive(Debug, Clone)]
pub struct EngineLimits {
    /// Calls at once; the next one is declined with `OFFHOOK_STATUS=FULL`.
    pub calls: usize,
    /// How long a drain waits for running calls.
    pub drain: Duration,
}

/// One entry of `providers:`: its kind (`openai_realtime`, `scripted`) and the options below it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderConfig {
    pub kind: String,
    pub options: serde_json::Value,
}

/// One agent, as an admin describes it.
#[derive(Debug, Clone)]
pub struct Context {
    pub name: String,
    /// With `{placeholders}`, filled per call by [`prompt::fill`].
    pub prompt: String,
    pub greeting: Option<String>,
    pub provider: String,
    /// Exposed names; nothing else is shown to the model, and nothing else may run.
    pub tools: Vec<String>,
    pub audio: Option<AudioChoice>,
    /// First eight hex digits of the UUIDs by which `AudioSocket()` in the dialplan chooses this
    /// context.
    pub audiosocket_id: Option<[u8; 4]>,
    pub rules: CallRules,
    /// WAV file heard when the agent is lost; `None` is the built-in one.
    pub apology: Option<PathBuf>,
}

/// Where `transfer` may send a caller: a place in the dialplan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// What the model reads about it.
    pub description: String,
    pub context: String,
    pub extension: String,
    pub priority: u32,
}
