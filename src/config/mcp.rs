//! From the written MCP servers to what is started, and to the names that contexts may list.

use super::{problem::Path, raw_mcp as raw, resolve::Resolver, values, vam::ID_PREFIX};
use crate::{
    gate::{Category, RiskDomain},
    tool::{
        Announce,
        mcp::{McpDefaults, McpToolRules, Speech, exposed, is_exposable, snake},
    },
};
use secrecy::SecretString;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

/// Names of tools have 64 characters in all.
const ID_BYTES_MAX: usize = 40;
/// The protocol sets these itself.
const OWN_HEADERS: [&str; 4] = ["accept", "mcp-session-id", "mcp-protocol-version", "last-event-id"];
/// Most often the line break at the end of a file that a secret was read from.
const UNSENDABLE: &str = "the value has a line break or another control character, which no header can have";

/// All MCP servers.
#[derive(Debug, Clone, Default)]
pub struct McpConfig {
    pub enabled: bool,
    /// By their id: the name in the file, in lower snake case.
    pub servers: BTreeMap<String, McpServer>,
}

/// One MCP server. `Debug` shows no value of its environment or headers.
#[derive(Debug, Clone)]
pub struct McpServer {
    pub id: String,
    pub enabled: bool,
    pub transport: McpTransport,
    pub restart: McpRestart,
    /// From its start until its tools are known.
    pub start_max: Duration,
    pub defaults: McpDefaults,
    /// Said while a slow tool runs.
    pub announce: Option<Announce>,
    /// By the server's own names. Empty: all of its tools.
    pub tools: BTreeMap<String, McpToolRules>,
}

#[derive(Debug, Clone)]
pub enum McpTransport {
    Stdio {
        program: String,
        args: Vec<String>,
        cwd: PathBuf,
        env: BTreeMap<String, SecretString>,
    },
    /// Streamable HTTP.
    Http {
        url: String,
        reach: Reach,
        headers: BTreeMap<String, SecretString>,
        bearer: Option<SecretString>,
    },
}

impl McpTransport {
    /// What is asked leaves this machine.
    pub fn sends(&self) -> bool {
        match self {
            Self::Stdio { .. } => false,
            Self::Http { url, .. } => !values::is_loopback_url(url),
        }
    }
}

/// Which addresses the host of an endpoint may turn out to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// The operator wrote the address down.
    #[default]
    Any,
    /// Of this machine or its networks, whenever it is asked; no proxy is in between.
    Local,
    /// Of none of those; no proxy is in between.
    Remote,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpRestart {
    pub enabled: bool,
    /// Starts in vain after which it stays down.
    pub max: u32,
    /// Before the first one; then twice as long each time.
    pub backoff: Duration,
}

impl McpServer {
    /// The exposed name of a tool that the server calls so; `None`: a name of which nothing can be made.
    pub fn exposed(&self, tool: &str) -> Option<String> {
        let rules = self.tools.get(tool).and_then(|rules| rules.expose_as.clone());
        rules.or_else(|| exposed(&self.id, tool).map(|exposed| exposed.name))
    }

    /// What of it must never be shown.
    pub fn secrets(&self) -> Vec<&SecretString> {
        match &self.transport {
            McpTransport::Stdio { env, .. } => env.values().collect(),
            McpTransport::Http { headers, bearer, .. } => headers.values().chain(bearer).collect(),
        }
    }

    /// Whether a tool of this exposed name could be the server's, as far as that is known before it runs.
    fn may_have(&self, exposed: &str) -> bool {
        if self.tools.is_empty() {
            let own = exposed.strip_prefix("mcp_").and_then(|rest| rest.strip_prefix(&self.id));
            return is_exposable(exposed) && own.is_some_and(|tool| tool.len() > 1 && tool.starts_with('_'));
        }
        self.tools.keys().any(|tool| self.exposed(tool).as_deref() == Some(exposed))
    }
}

impl McpConfig {
    /// The server that a tool of this exposed name would be of, if possible one that is started.
    pub fn owner(&self, exposed: &str) -> Option<&McpServer> {
        let mut owners = self.servers.values().filter(|server| server.may_have(exposed));
        let first = owners.next()?;
        if first.enabled { Some(first) } else { owners.find(|server| server.enabled).or(Some(first)) }
    }

    /// The key that keeps this server from being started.
    pub(super) fn switch_of(&self, server: &McpServer) -> Option<String> {
        match () {
            () if !self.enabled => Some("mcp.enabled".into()),
            () if !server.enabled => Some(format!("mcp.servers.{}.enabled", server.id)),
            () => None,
        }
    }

    /// The exposed names that the file itself gives.
    pub(super) fn named(&self) -> BTreeSet<String> {
        let names =
            |server: &McpServer| server.tools.keys().filter_map(|tool| server.exposed(tool)).collect::<Vec<_>>();
        self.servers.values().flat_map(names).collect()
    }
}

impl Resolver<'_> {
    /// `taken`: names of tools that are not an MCP server's.
    pub(super) fn mcp(&mut self, raw: raw::Mcp, taken: &BTreeSet<String>) -> McpConfig {
        let section = Path::default().key("mcp").key("servers");
        let mut servers: BTreeMap<String, McpServer> = BTreeMap::new();
        // Who has which exposed name.
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for (key, server) in raw.servers.unwrap_or_default() {
            let path = section.key(&key);
            let id = snake(&key);
            if id.is_empty() {
                self.problem(&path, "this name has neither a letter nor a digit", None);
                continue;
            }
            if id.starts_with(ID_PREFIX) {
                let message = format!("names that begin with {ID_PREFIX} are those of registered action servers");
                self.problem(&path, message, None);
            }
            if id.len() > ID_BYTES_MAX {
                let message =
                    format!("is longer than {ID_BYTES_MAX} characters, and the names of its tools begin with it");
                self.problem(&path, message, None);
            }
            if servers.contains_key(&id) {
                let message = format!("another server is called \"{id}\" as well, in lower snake case");
                self.problem(&path, message, None);
                continue;
            }
            let server = self.mcp_server(id.clone(), server, &path);
            self.names_of_server(&server, taken, &mut owners, &path);
            servers.insert(id, server);
        }
        McpConfig { enabled: raw.enabled.unwrap_or(true), servers }
    }

    fn mcp_server(&mut self, id: String, raw: raw::Server, path: &Path) -> McpServer {
        let restart = raw.restart.unwrap_or_default();
        let defaults = raw.defaults.unwrap_or_default();
        let ms = |written: Option<u64>, default: u64| Duration::from_millis(written.unwrap_or(default));
        let after = ms(defaults.slow_response_threshold_ms, 2_000);
        let announce = defaults.slow_response_message.map(|text| Announce { after, text });
        let mut tools = BTreeMap::new();
        for (index, tool) in raw.tools.unwrap_or_default().into_iter().enumerate() {
            let Some(name) = tool.name else { continue };
            let rules = McpToolRules {
                expose_as: tool.expose_as,
                description: tool.description,
                speech: Speech { field: tool.speech_field, template: tool.speech_template },
                error_retryable: tool.error_retryable.unwrap_or(false),
                first_text: false,
                canonical: None,
            };
            if let Err(why) = rules.speech.check() {
                self.problem(&path.key("tools").index(index), why, None);
            }
            if tools.insert(name, rules).is_some() {
                let place = path.key("tools").index(index).key("name");
                self.problem(&place, "this tool is in the list already", None);
            }
        }
        // An address alone means `http`; everything else of it is looked at as such.
        let forgotten = raw.transport.is_none() && raw.command.is_none() && raw.url.is_some();
        let place = path.key("transport");
        if forgotten && !self.mentions(&place) {
            self.problem(&place, "required for a server with url", Some("add transport: http".into()));
        }
        let is_http = forgotten || raw.transport.as_deref() == Some("http");
        let foreign: [(&str, bool); 6] = [
            ("command", is_http && raw.command.is_some()),
            ("cwd", is_http && raw.cwd.is_some()),
            ("env", is_http && raw.env.is_some()),
            ("url", !is_http && raw.url.is_some()),
            ("headers", !is_http && raw.headers.is_some()),
            ("bearer_token", !is_http && raw.bearer_token.is_some()),
        ];
        for (key, _) in foreign.iter().filter(|(_, wrong)| *wrong) {
            let other = if is_http { "stdio" } else { "http" };
            self.problem(&path.key(key), format!("belongs to transport: {other}"), None);
        }
        let transport = if is_http {
            self.mcp_http(raw.url, raw.headers.unwrap_or_default(), raw.bearer_token, path)
        } else {
            self.mcp_stdio(raw.command.unwrap_or_default(), raw.cwd, raw.env.unwrap_or_default(), path)
        };
        McpServer {
            id,
            enabled: raw.enabled.unwrap_or(true),
            transport,
            restart: McpRestart {
                enabled: restart.enabled.unwrap_or(true),
                max: restart.max_restarts.unwrap_or(5),
                backoff: ms(restart.backoff_ms, 1_000),
            },
            start_max: ms(defaults.start_timeout_ms, 20_000),
            defaults: McpDefaults {
                timeout: ms(defaults.timeout_ms, 10_000),
                access: defaults.access.as_deref().and_then(Category::parse),
                risk_domain: defaults.risk_domain.as_deref().and_then(RiskDomain::parse),
            },
            announce,
            tools,
        }
    }

    pub(super) fn mcp_stdio(
        &mut self,
        command: Vec<Option<String>>,
        cwd: Option<String>,
        env: BTreeMap<String, String>,
        path: &Path,
    ) -> McpTransport {
        let mut words = command.into_iter().flatten();
        let program = words.next().unwrap_or_default();
        let place = path.key("command");
        if program.is_empty() && !self.mentions(&place) {
            let hint = "a list: the program, then its arguments, such as [aviation_atis, --config, atis.yaml]";
            self.problem(&place, "required for transport: stdio", Some(hint.into()));
        }
        let folder = if self.folder.as_os_str().is_empty() { std::path::Path::new(".") } else { self.folder };
        let program = if program.contains('/') { folder.join(&program).display().to_string() } else { program };
        let cwd = cwd.map_or_else(|| folder.to_owned(), |cwd| folder.join(cwd));
        if !cwd.is_dir() {
            self.problem(&path.key("cwd"), "there is no such folder", None);
        }
        for name in env.keys().filter(|name| !is_variable(name)) {
            let message = "this cannot be the name of an environment variable";
            self.problem(&path.key("env").key(name), message, None);
        }
        let env = env.into_iter().map(|(name, value)| (name, value.into())).collect();
        McpTransport::Stdio { program, args: words.collect(), cwd, env }
    }

    fn mcp_http(
        &mut self,
        url: Option<String>,
        headers: BTreeMap<String, String>,
        bearer: Option<String>,
        path: &Path,
    ) -> McpTransport {
        let url = url.unwrap_or_default();
        let place = path.key("url");
        if !self.mentions(&place)
            && let Some((message, hint)) = fault_of_url(&url)
        {
            self.problem(&place, message, Some(hint.into()));
        }
        for (name, value) in &headers {
            if reqwest::header::HeaderName::try_from(name.as_str()).is_err() {
                let hint = "letters, digits and \"-\", such as X-Api-Key";
                self.problem(&path.key("headers").key(name), "this cannot be the name of a header", Some(hint.into()));
            } else if reqwest::header::HeaderValue::try_from(value.as_str()).is_err() {
                self.problem(&path.key("headers").key(name), UNSENDABLE, Some("write it in one line".into()));
            } else if OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                self.problem(&path.key("headers").key(name), "the protocol sets this header itself", None);
            } else if name.eq_ignore_ascii_case("authorization") && bearer.is_some() {
                let message = "bearer_token is this header already";
                self.problem(&path.key("headers").key(name), message, None);
            }
        }
        if bearer.as_ref().is_some_and(|token| reqwest::header::HeaderValue::try_from(token.as_str()).is_err()) {
            self.problem(&path.key("bearer_token"), UNSENDABLE, Some("write it in one line".into()));
        }
        let headers = headers.into_iter().map(|(name, value)| (name, value.into())).collect();
        McpTransport::Http { url, reach: Reach::Any, headers, bearer: bearer.map(Into::into) }
    }

    /// Names that two tools would have. Without `expose_as` one of them has to go.
    fn names_of_server(
        &mut self,
        server: &McpServer,
        taken: &BTreeSet<String>,
        owners: &mut BTreeMap<String, String>,
        path: &Path,
    ) {
        for tool in server.tools.keys() {
            let place = path.key("tools");
            let Some(exposed) = server.exposed(tool) else {
                let hint = "give it one with expose_as";
                self.problem(&place, format!("no name can be made of {tool:?}"), Some(hint.into()));
                continue;
            };
            let whose = format!("\"{tool}\" of mcp.servers.{}", server.id);
            let other = match owners.get(&exposed) {
                Some(other) => Some(other.clone()),
                None if taken.contains(&exposed) => Some("another tool".to_owned()),
                None => None,
            };
            match other {
                Some(other) => {
                    let message = format!("{whose} would be called \"{exposed}\", and so is {other}");
                    self.problem(&place, message, Some("give one of them another name with expose_as".into()));
                }
                None => drop(owners.insert(exposed, whose)),
            }
        }
    }

    /// Whether a context may list this name because an MCP server has, or may have, such a tool.
    pub(super) fn is_mcp_tool(&self, name: &str) -> bool {
        let unreadable = name.starts_with("mcp_") && self.mentions(&Path::default().key("mcp"));
        self.mcp.owner(name).is_some() || unreadable || self.is_action(name)
    }
}

/// What is wrong with the address of an endpoint, and the remedy. The address itself is not shown: there may be a
/// password in it.
fn fault_of_url(url: &str) -> Option<(&'static str, &'static str)> {
    const EXAMPLE: &str = "such as https://tools.example.com/mcp";
    const SECRETS: &str = "what the server wants to know who asks goes into bearer_token or headers";

    if url.is_empty() {
        return Some(("required for transport: http", EXAMPLE));
    }
    let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else {
        return Some((values::NOT_HTTP_URL, EXAMPLE));
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match () {
        () if host.contains('@') => Some(("must not have a user or a password", SECRETS)),
        () if rest.contains('?') => Some(("must not have a query (\"?…\")", SECRETS)),
        () if rest.contains('#') => Some(("must not have a fragment (\"#…\")", "leave it out; no server is sent it")),
        () if !values::is_http_url(url) => Some((values::NOT_HTTP_URL, EXAMPLE)),
        () => None,
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}
