//! From what was written to what the engine may rely on: defaults put in, values read, names
//! looked up. Every problem is reported; the result counts only if there was none.

use super::{
    AsteriskConfig, AudioChoice, AudioSocketConfig, Config, Context, EngineLimits, Lines, McpConfig, MediaConfig,
    ProviderConfig, RtpConfig, Services, Tenant, Transport,
    catalog::{Catalog, Named},
    defaults, policy,
    problem::{Path, Report, suggest, suggest_tool},
    raw::{self, AudioText, DurationText, FailureStep, Raw},
    raw_policy, sentences, speech,
    tree::{Kind, Node},
    values,
};
use crate::{
    audio::{Format, RingTone},
    call::{CallRules, OnFailure, Recovery, TurnRules},
    sentences::Sentence,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

/// `folder` is what relative paths in the file start from.
pub(super) fn resolve(
    raw: Raw,
    root: &Node,
    folder: &std::path::Path,
    catalog: &Catalog,
    report: &mut Report,
) -> Config {
    let policy = raw.policy.unwrap_or_default();
    // One that cannot be read is there all the same.
    let has_vam = raw.vam.is_some() || report.mentions(&Path::default().key("vam"));
    let mut resolver = Resolver {
        root,
        folder,
        catalog,
        report,
        policy: &policy,
        ids: HashMap::new(),
        mcp: McpConfig::default(),
        has_vam,
        usual_turns: TurnRules::default(),
    };
    let at = Path::default();
    let limits = resolver.limits(raw.limits.unwrap_or_default());
    let contexts = raw.contexts.iter().flatten().map(|(name, context)| (name.clone(), context.tenant.clone()));
    let tenants = resolver.tenants(raw.tenants.unwrap_or_default(), &contexts.collect());
    let media = resolver.media(raw.media.unwrap_or_default(), limits.calls);
    let ring_tone = media.ring_tone;
    let mail = raw.mail.map(|mail| resolver.mail(mail));
    let made = tenants.values().flat_map(|tenant| &tenant.names).cloned();
    let own: BTreeSet<String> = catalog.tools.iter().map(|name| (*name).to_owned()).chain(made).collect();
    resolver.mcp = resolver.mcp(raw.mcp.unwrap_or_default(), &own);
    let named = resolver.mcp.named();
    let known: Vec<&str> = own.iter().chain(&named).map(String::as_str).collect();
    let tool_rules = resolver.tool_rules(raw.tools.unwrap_or_default(), &known, &at.key("tools"));
    resolver.usual_turns = resolver.turns(raw.turns.unwrap_or_default(), &at.key("turns"));
    let providers = resolver.kinds("providers", raw.providers.unwrap_or_default());
    let prices = resolver.prices(raw.prices.unwrap_or_default(), &providers);
    let config = Config {
        asterisk: raw.asterisk.map(|asterisk| resolver.asterisk(asterisk)),
        media,
        http: resolver.http(raw.http.unwrap_or_default()),
        limits,
        default_context: raw.default_context,
        providers,
        services: Services {
            stt: resolver.kinds("stt", raw.stt.unwrap_or_default()),
            llm: resolver.kinds("llm", raw.llm.unwrap_or_default()),
            voices: resolver.kinds("voices", raw.voices.unwrap_or_default()),
        },
        destinations: raw
            .destinations
            .unwrap_or_default()
            .into_iter()
            .map(|(name, raw)| {
                let path = at.key("destinations").key(&name);
                let destination = resolver.destination(raw, &path);
                (name, destination)
            })
            .collect(),
        tool_rules,
        voicemail: telephony::voicemail(raw.voicemail.unwrap_or_default()),
        extensions: telephony::extensions(raw.extensions.unwrap_or_default()),
        contexts: resolver.contexts(raw.contexts.unwrap_or_default(), &tenants, ring_tone),
        tenants,
        mail,
        records: raw.records.map(|raw| resolver.records(raw, folder)),
        mcp: std::mem::take(&mut resolver.mcp),
        vam: raw.vam.map(|vam| resolver.vam(vam)),
        prices,
        lines: Lines::default(),
        warnings: Vec::new(),
    };
    if let Some(name) = &config.default_context {
        resolver.name(name, "contexts", "context", &at.key("default_context"));
    }
    config
}

mod http;
mod mail;
mod records;
mod telephony;

/// They have somebody to write to, or they are not offered.
const MAIL_TOOLS: [&str; 2] = ["take_message", "request_transcript"];

pub(super) struct Resolver<'a> {
    root: &'a Node,
    pub(super) folder: &'a std::path::Path,
    pub(super) catalog: &'a Catalog,
    report: &'a mut Report,
    /// For contexts that say nothing themselves.
    policy: &'a raw_policy::Policy,
    /// Who has which `audiosocket_id`.
    ids: HashMap<[u8; 4], String>,
    /// As far as it was read: contexts list tools of its servers.
    pub(super) mcp: McpConfig,
    /// Action servers may register.
    pub(super) has_vam: bool,
    /// For contexts that say nothing of turns themselves.
    usual_turns: TurnRules,
}

impl Resolver<'_> {
    pub(super) fn problem(&mut self, path: &Path, message: impl Into<String>, hint: Option<String>) {
        self.report.add(self.root.line_of(path), path, message, hint);
    }

    /// Something was said already of this place, or of one below it.
    pub(super) fn mentions(&self, path: &Path) -> bool {
        self.report.mentions(path)
    }

    /// `written` in quotes, unless it came from a variable.
    pub(super) fn shown(&self, path: &Path, written: &str) -> String {
        match self.root.at(path).map(|node| &node.kind) {
            Some(Kind::Scalar { from_env: true, .. }) => "(a variable's value)".into(),
            _ => format!("{written:?}"),
        }
    }

    fn asterisk(&mut self, raw: raw::Asterisk) -> AsteriskConfig {
        let path = Path::default().key("asterisk");
        let url = raw.url.unwrap_or_else(|| defaults::ASTERISK_URL.into());
        if !values::is_http_url(&url) {
            let url_path = path.key("url");
            // Not shown: there may be a password in it.
            let hint = "write it without credentials and without ?query, as in http://127.0.0.1:8088";
            self.problem(&url_path, values::NOT_HTTP_URL, Some(hint.into()));
        }
        AsteriskConfig {
            url: url.trim_end_matches('/').to_owned(),
            username: raw.username.unwrap_or_else(|| defaults::ASTERISK_USERNAME.into()),
            password: raw.password.unwrap_or_default().into(),
            app: raw.app.unwrap_or_else(|| defaults::ASTERISK_APP.into()),
            keeps_withheld_numbers: raw.withheld_numbers.as_deref() == Some("keep"),
        }
    }

    fn media(&mut self, raw: raw::Media, calls: usize) -> MediaConfig {
        let path = Path::default().key("media");
        let default = raw.default.map(|audio| audio.0);
        let ring_music = raw.ring_music.filter(|file| !file.is_empty());
        let ring_tone = raw.ring_tone.as_deref().unwrap_or(defaults::RING_TONE);
        MediaConfig {
            ring_music: ring_music.map(|file| self.recording(&file, &path.key("ring_music"))),
            ring_tone: RingTone::ALL.into_iter().find(|tone| tone.label() == ring_tone).unwrap_or_default(),
            default: self.parsed(default, defaults::AUDIO, &path.key("default")),
            audiosocket: self.audiosocket(raw.audiosocket.unwrap_or_default(), &path.key("audiosocket")),
            rtp: self.rtp(raw.rtp.unwrap_or_default(), calls, &path.key("rtp")),
        }
    }

    fn audiosocket(&mut self, raw: raw::AudioSocket, path: &Path) -> AudioSocketConfig {
        let bind: SocketAddr = self.parsed(raw.bind, defaults::AUDIOSOCKET_BIND, &path.key("bind"));
        let advertise = self.advertised(raw.advertise, bind.ip(), &bind, values::is_host_port, "HOST:PORT", path);
        AudioSocketConfig { bind, advertise }
    }

    fn rtp(&mut self, raw: raw::Rtp, calls: usize, path: &Path) -> RtpConfig {
        let bind: IpAddr = self.parsed(raw.bind, defaults::RTP_BIND, &path.key("bind"));
        let advertise = self.advertised(raw.advertise, bind, &bind, values::is_host, "a host or IP address", path);
        let ports_path = path.key("ports");
        let written = raw.ports.unwrap_or_else(|| defaults::RTP_PORTS.into());
        let ports = values::port_range(&written).unwrap_or_else(|message| {
            let message = format!("{}: {message}", self.shown(&ports_path, &written));
            self.problem(&ports_path, message, None);
            1024..=u16::MAX
        });
        let room = values::even_ports(&ports);
        if room < calls && !self.report.mentions(&Path::default().key("limits").key("calls")) {
            let message = format!("too few ports: room for {room} calls, but limits.calls is {calls}");
            let hint = "each call takes an even port, so a range has to span twice as many";
            self.problem(&ports_path, message, Some(hint.into()));
        }
        RtpConfig { bind, advertise, ports }
    }

    /// What Asterisk is told: what is written, else where we listen, if that is one address.
    fn advertised(
        &mut self,
        written: Option<String>,
        ip: IpAddr,
        bind: &dyn std::fmt::Display,
        is_right: fn(&str) -> bool,
        expected: &str,
        section: &Path,
    ) -> String {
        let path = section.key("advertise");
        match written {
            Some(written) if is_right(&written) => written,
            Some(written) => {
                let message = format!("{} is not right", self.shown(&path, &written));
                self.problem(&path, message, Some(format!("expected {expected}")));
                written
            }
            None if ip.is_unspecified() && !self.report.mentions(section) => {
                let message = format!("required, since bind is {ip}, which Asterisk cannot reach");
                self.problem(&path, message, Some("write the address of this machine as Asterisk sees it".into()));
                String::new()
            }
            None => bind.to_string(),
        }
    }

    fn limits(&mut self, raw: raw::Limits) -> EngineLimits {
        let path = Path::default().key("limits");
        let calls = raw.calls.unwrap_or(defaults::CALLS);
        let drain = values::duration(defaults::DRAIN).unwrap_or_default();
        EngineLimits {
            calls: usize::try_from(calls).unwrap_or(usize::MAX),
            drain: self.duration(raw.drain, drain, Duration::ZERO, &path.key("drain")),
        }
    }

    /// Entries of one kind each, whose options the kind itself judges.
    fn kinds(
        &mut self,
        section: &str,
        raw: BTreeMap<String, BTreeMap<String, Value>>,
    ) -> BTreeMap<String, ProviderConfig> {
        let mut chosen = BTreeMap::new();
        for (name, kinds) in raw {
            let Some((kind, options)) = kinds.into_iter().next() else { continue };
            let (check, named) = match (self.catalog.service(section, &kind), self.catalog.provider(&kind)) {
                (Some(known), _) => (known.check, Vec::new()),
                (None, Some(known)) if section == "providers" => (known.check, (known.names)(&options)),
                _ => continue,
            };
            let path = Path::default().key(section).key(&name).key(&kind);
            // Collected first: two problems of one check do not explain each other.
            let checked: Vec<_> = check(&options).into_iter().map(|found| (path.join(&found.path), found)).collect();
            let own: Vec<_> = checked.into_iter().filter(|(place, _)| !self.report.explains(&path, place)).collect();
            let hidden = self.root.at(&path).map(Node::env_texts).unwrap_or_default();
            for (place, found) in own {
                let hint = found.hint.map(|hint| without(&hint, &hidden));
                self.problem(&place, without(&found.message, &hidden), hint);
            }
            for Named { path: within, section, name } in named {
                let what = self.catalog.services(section).map_or("entry", |(what, _)| what);
                self.name(&name, section, what, &path.join(&within));
            }
            chosen.insert(name, ProviderConfig { kind, options });
        }
        chosen
    }

    fn contexts(
        &mut self,
        raw: BTreeMap<String, raw::Context>,
        tenants: &BTreeMap<String, Tenant>,
        tone: RingTone,
    ) -> BTreeMap<String, Arc<Context>> {
        let mut contexts = BTreeMap::new();
        // In the order of the file, so that of two equal ids the later one is the mistake.
        let section = Path::default().key("contexts");
        let mut raw: Vec<_> = raw.into_iter().collect();
        raw.sort_by_key(|(name, _)| self.root.line_of(&section.key(name)));
        for (name, raw) in raw {
            let mut context = self.context(&name, raw, tenants, &section.key(&name));
            context.rules.ring_tone = tone;
            contexts.insert(name, Arc::new(context));
        }
        contexts
    }

    fn context(&mut self, name: &str, raw: raw::Context, tenants: &BTreeMap<String, Tenant>, path: &Path) -> Context {
        if raw.prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
            self.problem(&path.key("prompt"), "must not be empty", None);
        }
        if let Some(provider) = &raw.provider {
            self.name(provider, "providers", "provider", &path.key("provider"));
        }
        let first = raw.provider.as_deref().unwrap_or_default();
        let fallbacks = self.fallbacks(raw.fallbacks.unwrap_or_default(), first, &path.key("fallbacks"));
        if let Some(tenant) = &raw.tenant {
            self.name(tenant, "tenants", "tenant", &path.key("tenant"));
        }
        let only = (tenants.len() == 1).then(|| tenants.keys().next().cloned()).flatten();
        let tenant = raw.tenant.or(only);
        let made = tenant.as_ref().and_then(|tenant| Some(&tenants.get(tenant)?.names));
        let tools = self.tools(raw.tools.unwrap_or_default(), made, &path.key("tools"));
        let own = raw.policy.is_some();
        let policy = policy::merged(raw.policy.unwrap_or_default(), self.policy);
        let mut policy = self.policy(policy, &if own { path.key("policy") } else { Path::default().key("policy") });
        let mailbox = self.mailbox(raw.mailbox, &tools, path);
        let failure = raw.on_failure.unwrap_or_default();
        let mut no_input = raw.no_input.unwrap_or_default();
        let said = sentences::Written {
            language: raw.language,
            sentences: raw.sentences,
            prompt: no_input.say.take(),
            goodbye: no_input.goodbye.take(),
        };
        let sentences = self.sentences(said, path);
        let written = speech::Written {
            voice: raw.voice,
            language: sentences.language(),
            greeting_by: raw.greeting_by,
            notice: raw.notice,
            fillers: raw.fillers,
            apology: failure.apology,
            say: failure.say,
            menu: failure.menu,
        };
        let (speech, last_resort) = self.speech(written, path);
        let on_failure = self.failure_step(failure.then, &path.key("on_failure").key("then").key("transfer"));
        let rules = self.rules(raw.limits.unwrap_or_default(), no_input, path);
        let turns = match raw.turns {
            Some(turns) => self.turns(turns, &path.key("turns")),
            None => self.usual_turns.clone(),
        };
        let of_policy = Arc::make_mut(&mut policy.rules);
        of_policy.tool_time_max = Some(rules.tool_max);
        of_policy.confirm.before = sentences.get(Sentence::ShallI).to_owned();
        let greeting = raw.greeting.filter(|greeting| !greeting.trim().is_empty());
        Context {
            name: name.to_owned(),
            prompt: raw.prompt.unwrap_or_default(),
            greeting: greeting.clone(),
            provider: raw.provider.unwrap_or_default(),
            fallbacks,
            tools,
            tenant,
            audio: raw.audio.and_then(|AudioText(audio)| audio.parse().ok()),
            audiosocket_id: self.audiosocket_id(raw.audiosocket_id, name, &path.key("audiosocket_id")),
            rules: CallRules {
                greeting,
                sentences: Arc::new(sentences),
                turns,
                on_failure,
                last_resort,
                recording: raw.recording.unwrap_or(false),
                ..rules
            },
            policy,
            speech,
            mailbox,
        }
    }

    /// `first` is the provider that they stand in for.
    fn fallbacks(&mut self, raw: Vec<Option<String>>, first: &str, path: &Path) -> Vec<String> {
        let mut fallbacks: Vec<String> = Vec::new();
        for (index, name) in raw.into_iter().enumerate() {
            let Some(name) = name else { continue };
            let place = path.index(index);
            self.name(&name, "providers", "provider", &place);
            if name == first || fallbacks.contains(&name) {
                self.problem(&place, format!("{} is in this context already", self.shown(&place, &name)), None);
            } else {
                fallbacks.push(name);
            }
        }
        fallbacks
    }

    /// `made`: names of the tenant's own tools.
    fn tools(&mut self, raw: Vec<Option<String>>, made: Option<&BTreeSet<String>>, path: &Path) -> Vec<String> {
        let named = self.mcp.named();
        let made = made.into_iter().flatten().chain(&named).map(String::as_str);
        let known: Vec<&str> = self.catalog.tools.iter().copied().chain(made).collect();
        let mut tools: Vec<String> = Vec::new();
        for (index, tool) in raw.into_iter().enumerate() {
            let Some(tool) = tool else { continue };
            let place = path.index(index);
            if !known.contains(&tool.as_str()) && !self.is_mcp_tool(&tool) {
                let hint = suggest_tool(&tool, &known);
                self.problem(&place, format!("unknown tool {}", self.shown(&place, &tool)), Some(hint));
            } else if tools.contains(&tool) {
                self.problem(&place, format!("\"{tool}\" is already in this list"), None);
            } else if tool == "transfer" && self.declared("destinations").is_some_and(|names| names.is_empty()) {
                let hint = "add one to destinations, or take the tool out of the list";
                self.problem(&place, "\"transfer\" has nowhere to go: there are no destinations", Some(hint.into()));
            } else if tool == "leave_voicemail" && self.declared("voicemail").is_some_and(|keys| keys.is_empty()) {
                self.problem(&place, "\"leave_voicemail\" needs the section voicemail", None);
            } else if tool == "check_extension_status"
                && self.declared("extensions").is_some_and(|keys| keys.is_empty())
            {
                self.problem(&place, "\"check_extension_status\" needs the section extensions", None);
            } else if MAIL_TOOLS.contains(&&*tool) && self.declared("mail").is_some_and(|keys| keys.is_empty()) {
                self.problem(&place, format!("\"{tool}\" needs the section mail"), None);
            } else {
                tools.push(tool);
            }
        }
        tools
    }

    fn failure_step(&mut self, raw: Option<FailureStep>, path: &Path) -> OnFailure {
        let Some(FailureStep(step)) = raw else { return CallRules::default().on_failure };
        if let Some(destination) = step.get("transfer").and_then(Value::as_str) {
            self.name(destination, "destinations", "destination", path);
            return OnFailure::Transfer(destination.to_owned());
        }
        match step.as_str() {
            Some("hang_up") => OnFailure::HangUp,
            _ => OnFailure::Dialplan,
        }
    }

    fn audiosocket_id(&mut self, written: Option<String>, context: &str, path: &Path) -> Option<[u8; 4]> {
        let id = u32::from_str_radix(&written?, 16).ok()?.to_be_bytes();
        match self.ids.get(&id) {
            Some(other) => {
                let message = format!("contexts.{other} has this id already");
                self.problem(path, message, None);
            }
            None => {
                self.ids.insert(id, context.to_owned());
            }
        }
        Some(id)
    }

    fn rules(&mut self, limits: raw::CallLimits, no_input: raw::NoInput, path: &Path) -> CallRules {
        let default = CallRules::default();
        let least = Duration::from_millis(1);
        let (limit, silence) = (path.key("limits"), path.key("no_input"));
        let recovery = limits.recovery.unwrap_or_default();
        let within = limit.key("recovery").key("within");
        CallRules {
            call_max: self.duration(limits.call, default.call_max, least, &limit.key("call")),
            agent_ready_max: self.duration(
                limits.agent_ready,
                default.agent_ready_max,
                least,
                &limit.key("agent_ready"),
            ),
            agent_silence_max: limits
                .agent_silence
                .map(|written| self.duration(Some(written), values::DURATION_MAX, least, &limit.key("agent_silence"))),
            answer_max: self.duration(limits.answer, default.answer_max, Duration::ZERO, &limit.key("answer")),
            quiet_max: self.duration(limits.quiet, default.quiet_max, least, &limit.key("quiet")),
            recovery: Recovery {
                attempts: recovery.attempts.and_then(|n| n.try_into().ok()).unwrap_or(default.recovery.attempts),
                within: self.duration(recovery.within, default.recovery.within, least, &within),
            },
            no_input_after: self.duration(no_input.after, default.no_input_after, least, &silence.key("after")),
            no_input_prompts: no_input.prompts.and_then(|n| n.try_into().ok()).unwrap_or(default.no_input_prompts),
            tool_max: self.duration(limits.tool, default.tool_max, least, &limit.key("tool")),
            farewell_max: self.duration(limits.farewell, default.farewell_max, least, &limit.key("farewell")),
            ..default
        }
    }

    pub(super) fn duration(
        &mut self,
        written: Option<DurationText>,
        default: Duration,
        least: Duration,
        path: &Path,
    ) -> Duration {
        let Some(DurationText(written)) = written else { return default };
        match values::duration(&written) {
            Some(duration) if duration < least => self.problem(path, "has to be more than nothing", None),
            Some(duration) if duration <= values::DURATION_MAX => return duration,
            _ => self.problem(path, "is longer than a day", Some("the units are ms, s, m (minutes) and h".into())),
        }
        default
    }

    /// What `written`, else `default`, reads as.
    pub(super) fn parsed<T: FromConfig>(&mut self, written: Option<String>, default: &str, path: &Path) -> T {
        let text = written.unwrap_or_else(|| default.to_owned());
        text.parse().unwrap_or_else(|_| {
            let message = format!("{} is not right", self.shown(path, &text));
            self.problem(path, message, Some(format!("expected {}", T::EXPECTED)));
            T::STAND_IN
        })
    }

    /// Reports a name that `section` does not declare. An entry with mistakes is declared all the
    /// same, and a section that cannot be read may declare anything.
    pub(super) fn name(&mut self, name: &str, section: &str, noun: &str, path: &Path) {
        let Some(declared) = self.declared(section) else { return };
        if !declared.contains(&name) {
            let message = format!("unknown {noun} {}", self.shown(path, name));
            let hint = suggest(name, &declared);
            self.problem(path, message, hint);
        }
    }

    fn declared(&self, section: &str) -> Option<Vec<&str>> {
        self.declared_at(&Path::default().key(section))
    }

    /// The keys of the entries at `path`; `None` where nobody can tell.
    pub(super) fn declared_at(&self, path: &Path) -> Option<Vec<&str>> {
        match self.root.at(path).map(|node| &node.kind) {
            Some(Kind::Map(entries)) => Some(entries.iter().map(|entry| entry.key.as_str()).collect()),
            None if !self.report.mentions(path) => Some(Vec::new()),
            _ => None,
        }
    }
}

/// `text` without the variables' values that a provider's words may repeat.
fn without(text: &str, hidden: &[&str]) -> String {
    /// Shorter ones are in every text, and are no secrets.
    const SECRET_BYTES_MIN: usize = 4;

    let secret = hidden.iter().filter(|hidden| hidden.len() >= SECRET_BYTES_MIN);
    secret.fold(text.to_owned(), |text, hidden| text.replace(*hidden, "***"))
}

/// Values that are written as one text.
pub(super) trait FromConfig: FromStr {
    const EXPECTED: &str;
    /// Lets the check go on after a mistake; no configuration with a mistake is ever used.
    const STAND_IN: Self;
}

impl FromConfig for SocketAddr {
    const EXPECTED: &str = "IP:PORT, such as 127.0.0.1:15000";
    const STAND_IN: Self = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
}

impl FromConfig for IpAddr {
    const EXPECTED: &str = "an IP address, such as 127.0.0.1";
    const STAND_IN: Self = IpAddr::V4(Ipv4Addr::LOCALHOST);
}

impl FromConfig for AudioChoice {
    const EXPECTED: &str = "transport/format, such as audiosocket/slin";
    const STAND_IN: Self = AudioChoice { transport: Transport::AudioSocket, format: Format::SLIN8, opus: false };
}
