//! From the written section `vam` to what its server, and the action servers that register there, are held to.

use super::{
    McpTransport, defaults, problem::Path, raw_vam as raw, resolve::Resolver, tenant::TOKEN_BYTES_MIN, values,
};
pub use crate::facts::Residency;
use secrecy::SecretString;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

/// The beginning of the ids by which registered action servers are MCP servers among others.
pub const ID_PREFIX: &str = "vam_";

/// Of a code of a language, with all that narrows it.
const LANGUAGE_BYTES_MAX: usize = 35;

/// VAM/1.0 by gRPC.
#[derive(Debug, Clone)]
pub struct VamConfig {
    pub bind: SocketAddr,
    pub tokens: Vec<SecretString>,
    /// Tokens of clients that are believed who their callers are.
    pub trusted_tokens: Vec<SecretString>,
    pub tls: Option<VamTls>,
    /// Where registrations are kept.
    pub registrations: PathBuf,
    /// `host` or `host:port` of action servers.
    pub allowed_hosts: Vec<String>,
    /// By the id that they register with.
    pub action_servers: BTreeMap<String, VamActionServer>,
    /// Of telephone calls.
    pub residency: Residency,
    /// Below which no session goes: `residency`, where it is written.
    pub floor: Residency,
    pub action_timeout: Duration,
    /// `None`: no conversations are held.
    pub sessions: Option<VamSessions>,
    pub limits: VamLimits,
}

/// Conversations by VAM's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VamSessions {
    /// Answers where a session names none.
    pub context: Option<String>,
    /// Where the gateway and all that its agents use are.
    pub hosted: Residency,
    /// What the agents speak, the usual one first; empty: nobody said.
    pub languages: Vec<String>,
    pub limit: usize,
    pub ttl: Duration,
    pub stream_endpoint: Option<String>,
}

/// Files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VamTls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What the operator says of one action server.
#[derive(Debug, Clone)]
pub struct VamActionServer {
    /// What is started for `stdio:ID`; `None`: it is an endpoint.
    pub command: Option<McpTransport>,
    /// It may have tools of high sensitivity.
    pub high_sensitivity: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VamLimits {
    pub action_servers: usize,
    pub message_bytes: usize,
    pub connections: usize,
}

/// Of the form of BCP 47: a language, then what narrows it.
pub fn is_language(code: &str) -> bool {
    let mut parts = code.split('-');
    let is_part = |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    code.len() <= LANGUAGE_BYTES_MAX
        && parts.next().is_some_and(|language| matches!(language.len(), 2..=3) && is_part(language))
        && parts.all(is_part)
}

impl VamConfig {
    /// Whether these two ask for the same, secrets included, which `Debug` does not show.
    pub fn is_as(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}") && self.secrets() == other.secrets()
    }

    fn secrets(&self) -> Vec<&str> {
        use secrecy::ExposeSecret as _;

        let envs = self.action_servers.values().filter_map(|server| match &server.command {
            Some(McpTransport::Stdio { env, .. }) => Some(env.values()),
            _ => None,
        });
        self.tokens
            .iter()
            .chain(&self.trusted_tokens)
            .chain(envs.flatten())
            .map(|secret| secret.expose_secret())
            .collect()
    }
}

impl Resolver<'_> {
    pub(super) fn vam(&mut self, raw: raw::Vam) -> VamConfig {
        let at = Path::default().key("vam");
        let bind: SocketAddr = self.parsed(raw.bind, defaults::VAM_BIND, &at.key("bind"));
        let tls = raw.tls.map(|tls| self.vam_tls(tls, &at.key("tls")));
        if tls.is_none() && !bind.ip().is_loopback() && !self.mentions(&at.key("tls")) {
            let message =
                "anybody on the way could read what callers say: without tls this has to be 127.0.0.1 or [::1]";
            self.problem(&at.key("bind"), message, Some("add tls: { certificate: FILE, key: FILE }".into()));
        }
        let (limits, path) = (raw.limits.unwrap_or_default(), at.key("action_timeout"));
        let rule = raw.residency.as_deref().and_then(Residency::parse);
        let usual = values::duration(defaults::VAM_ACTION_TIMEOUT).unwrap_or_default();
        let number =
            |written: Option<u64>, default: u64| usize::try_from(written.unwrap_or(default)).unwrap_or(usize::MAX);
        let mut known = BTreeSet::new();
        let mut tokens = |resolver: &mut Self, written: Option<Vec<Option<String>>>, key: &str| {
            resolver.vam_tokens(written.unwrap_or_default(), &at.key(key), &mut known)
        };
        VamConfig {
            bind,
            tokens: tokens(self, raw.tokens, "tokens"),
            trusted_tokens: tokens(self, raw.trusted_tokens, "trusted_tokens"),
            tls,
            registrations: self.beside(&raw.registrations.unwrap_or_else(|| defaults::VAM_REGISTRATIONS.into())),
            allowed_hosts: self.vam_hosts(raw.allowed_hosts.unwrap_or_default(), &at.key("allowed_hosts")),
            action_servers: self.vam_servers(raw.action_servers.unwrap_or_default(), &at.key("action_servers")),
            residency: rule.unwrap_or(Residency::IndiaOnly),
            // A session may ask for any server (V answer 3), unless the operator says otherwise.
            floor: rule.unwrap_or(Residency::Any),
            action_timeout: self.duration(raw.action_timeout, usual, Duration::from_millis(1), &path),
            sessions: raw.sessions.map(|sessions| self.vam_sessions(sessions, &at.key("sessions"))),
            limits: VamLimits {
                action_servers: number(limits.action_servers, defaults::VAM_ACTION_SERVERS),
                message_bytes: number(limits.message_bytes, defaults::VAM_MESSAGE_BYTES),
                connections: number(limits.connections, defaults::VAM_CONNECTIONS),
            },
        }
    }

    fn vam_sessions(&mut self, raw: raw::Sessions, path: &Path) -> VamSessions {
        if let Some(context) = &raw.context {
            self.name(context, "contexts", "context", &path.key("context"));
        }
        let usual = values::duration(defaults::VAM_SESSION_TTL).unwrap_or_default();
        VamSessions {
            context: raw.context,
            hosted: raw.hosted.as_deref().and_then(Residency::parse).unwrap_or(Residency::Any),
            languages: self.vam_languages(raw.languages.unwrap_or_default(), &path.key("languages")),
            limit: usize::try_from(raw.limit.unwrap_or(defaults::VAM_SESSIONS)).unwrap_or(usize::MAX),
            ttl: self.duration(raw.ttl, usual, Duration::from_secs(1), &path.key("ttl")),
            stream_endpoint: raw.stream_endpoint,
        }
    }

    fn vam_languages(&mut self, raw: Vec<String>, path: &Path) -> Vec<String> {
        for (index, language) in raw.iter().enumerate() {
            if !is_language(language) {
                let place = path.index(index);
                let message = format!("{} is no code of a language", self.shown(&place, language));
                self.problem(&place, message, Some("such as hi-IN or en".into()));
            }
        }
        raw
    }

    fn beside(&self, file: &str) -> PathBuf {
        // `.` in between, as a variable's default brings it, is left out.
        self.folder.join(file).components().collect()
    }

    fn vam_tls(&mut self, raw: raw::Tls, path: &Path) -> VamTls {
        let mut file = |written: Option<String>, key: &str| {
            let place = path.key(key);
            let file = self.beside(&written.unwrap_or_default());
            if !self.mentions(&place) && !file.is_file() {
                self.problem(&place, format!("there is no file {}", file.display()), None);
            }
            file
        };
        VamTls { certificate: file(raw.certificate, "certificate"), key: file(raw.key, "key") }
    }

    fn vam_tokens(&mut self, raw: Vec<Option<String>>, path: &Path, known: &mut BTreeSet<String>) -> Vec<SecretString> {
        let mut tokens = Vec::new();
        for (index, token) in raw.into_iter().enumerate() {
            let Some(token) = token else { continue };
            let place = path.index(index);
            if token.len() < TOKEN_BYTES_MIN {
                let message = format!("is shorter than {TOKEN_BYTES_MIN} characters and can be guessed");
                self.problem(&place, message, None);
            } else if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                let hint = "letters, digits and signs of ASCII, without blanks";
                self.problem(&place, "cannot be sent as a bearer token", Some(hint.into()));
            } else if !known.insert(token.clone()) {
                self.problem(&place, "is a token already", None);
            }
            tokens.push(token.into());
        }
        tokens
    }

    fn vam_hosts(&mut self, raw: Vec<String>, path: &Path) -> Vec<String> {
        for (index, host) in raw.iter().enumerate() {
            if !values::is_host(host) && !values::is_host_port(host) {
                let place = path.index(index);
                let message = format!("{} is neither a host nor host:port", self.shown(&place, host));
                self.problem(&place, message, Some("such as tools.example.in or 10.0.0.5:8443".into()));
            }
        }
        raw
    }

    fn vam_servers(
        &mut self,
        raw: BTreeMap<String, raw::ActionServer>,
        path: &Path,
    ) -> BTreeMap<String, VamActionServer> {
        let mut servers = BTreeMap::new();
        for (id, raw) in raw {
            let place = path.key(&id);
            if raw.command.is_none() && !self.mentions(&place.key("command")) {
                for (key, written) in [("cwd", raw.cwd.is_some()), ("env", raw.env.is_some())] {
                    if written {
                        self.problem(&place.key(key), "belongs to a command, and there is none", None);
                    }
                }
            }
            let high_sensitivity = raw.high_sensitivity.unwrap_or(false);
            let command =
                raw.command.map(|command| self.mcp_stdio(command, raw.cwd, raw.env.unwrap_or_default(), &place));
            servers.insert(id, VamActionServer { command, high_sensitivity });
        }
        servers
    }

    /// Whether a context may list this name because an action server may register such a tool.
    pub(super) fn is_action(&self, name: &str) -> bool {
        self.has_vam && is_action(name)
    }
}

/// Whether action servers can have a tool of this exposed name: the registry's own, and those under their prefix.
fn is_action(name: &str) -> bool {
    let own = name.strip_prefix("mcp_").and_then(|rest| rest.strip_prefix(ID_PREFIX));
    crate::tool::india::canonical(name).is_some()
        || own.is_some_and(|own| crate::tool::mcp::is_exposable(name) && own.contains('_'))
}

impl super::Config {
    /// Whether an action server may register a tool of this name.
    pub(super) fn is_action(&self, name: &str) -> bool {
        self.vam.is_some() && is_action(name)
    }
}
