//! `offhook init`: a few questions, a live test of the answers, and the files of an installation.

mod ask;
mod settings;
mod write;

use super::{doctor, serve};
use ask::Asker;
use clap::{Args, ValueEnum};
use offhook::{
    config::{self, Config, Problem},
    doctor::{Extent, Finding, Grade},
    sentences::Language,
};
use secrecy::{ExposeSecret as _, SecretString};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _, UdpSocket},
    path::PathBuf,
    process::ExitCode,
};
use tokio_util::sync::CancellationToken;

/// Stands in for what is not known when nothing is tested; it is written nowhere.
const UNKNOWN: &str = "not-known-yet";
pub(super) const ARI_PASSWORD: &str = "ARI_PASSWORD";

#[derive(Args)]
pub struct InitArguments {
    /// Who speaks with callers.
    #[arg(long, value_name = "KIND")]
    provider: Option<Kind>,
    /// The agent at ElevenLabs (elevenlabs_agent).
    #[arg(long, value_name = "ID")]
    agent_id: Option<String>,
    /// Another server that speaks the vendor's protocol.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Where ARI is. Its password is taken from ARI_PASSWORD, or asked for.
    #[arg(long, value_name = "URL")]
    ari_url: Option<String>,
    /// The user of ari.conf.
    #[arg(long, value_name = "NAME")]
    ari_user: Option<String>,
    /// How audio travels between Asterisk and offhook.
    #[arg(long, value_name = "TRANSPORT")]
    transport: Option<Carrier>,
    /// The address of this machine that audio comes to.
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// How Asterisk reaches that address, where it is another (NAT, a container).
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    #[arg(long, value_name = "PORT", default_value_t = 9092)]
    audiosocket_port: u16,
    #[arg(long, value_name = "FIRST-LAST", default_value = "21000-21999")]
    rtp_ports: String,
    /// Where the pages are.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:15000")]
    http: SocketAddr,
    /// The name of the agent, by which the dialplan chooses it.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The language of the call, as a tag such as de. An attendant hears English alone.
    #[arg(long, value_name = "TAG")]
    language: Option<String>,
    /// Its first sentence.
    #[arg(long, value_name = "SENTENCE")]
    greeting: Option<String>,
    /// What callers dial.
    #[arg(long, value_name = "NUMBER")]
    extension: Option<String>,
    /// Which dialplan is written.
    #[arg(long, value_name = "PBX", default_value = "asterisk")]
    pbx: Pbx,
    /// The folder that the files are written to.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Ask nothing: take the defaults for what no flag says, and secrets from the environment.
    #[arg(long)]
    yes: bool,
    /// Test nothing.
    #[arg(long)]
    offline: bool,
    /// Write over files that are there.
    #[arg(long)]
    force: bool,
    /// Write the secrets as well, to offhook.env and asterisk_settings.txt, which nobody but their owner can read.
    #[arg(long)]
    write_secrets: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Kind {
    OpenaiRealtime,
    GeminiLive,
    DeepgramAgent,
    ElevenlabsAgent,
    /// Servers of your own: faster-whisper, a model behind chat completions, Piper.
    Pipeline,
    /// A list of phrases and keys, in this process: no vendor, no key, no network.
    Attendant,
}

impl Kind {
    /// The variable that has its key.
    const fn key(self) -> Option<&'static str> {
        match self {
            Self::OpenaiRealtime => Some("OPENAI_API_KEY"),
            Self::GeminiLive => Some("GEMINI_API_KEY"),
            Self::DeepgramAgent => Some("DEEPGRAM_API_KEY"),
            Self::ElevenlabsAgent => Some("ELEVENLABS_API_KEY"),
            Self::Pipeline | Self::Attendant => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Carrier {
    /// One TCP port; the simplest through a firewall.
    Audiosocket,
    /// A UDP port for each call; u-law as it comes from the telephone.
    Rtp,
    /// offhook connects to Asterisk (22.8 or later), the way that ARI goes: no port of its own, through NAT and TLS.
    Websocket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pbx {
    Asterisk,
    Freepbx,
}

/// What an installation is made from.
#[derive(Clone)]
struct Answers {
    provider: Kind,
    agent_id: Option<String>,
    base_url: Option<String>,
    ari_url: String,
    ari_user: String,
    transport: Carrier,
    bind: IpAddr,
    advertise: Option<String>,
    audiosocket_port: u16,
    rtp_ports: String,
    http: SocketAddr,
    context: String,
    language: String,
    greeting: String,
    extension: String,
    pbx: Pbx,
}

impl Answers {
    /// Problems of a changed answer, as `offhook check` has them, so that they are told while somebody is asked for it.
    fn accept(&self, change: impl FnOnce(&mut Self)) -> Result<(), String> {
        let (mut changed, before) = (self.clone(), self.problems());
        change(&mut changed);
        let own = changed.problems().into_iter().find(|(_, problem)| before.iter().all(|(_, known)| known != problem));
        own.map_or(Ok(()), |(_, problem)| Err(problem))
    }

    /// Problems of the configuration that these answers make: the key, and what is wrong with it.
    fn problems(&self) -> Vec<(String, String)> {
        let env = |name: &str| std::env::var(name).ok().or_else(|| is_ours(name).then(|| UNKNOWN.to_owned()));
        let loaded = config::load_str("", &write::config(self), &env, offhook::provider::catalog());
        let told = |problem: Problem| match problem.hint {
            Some(hint) => (problem.path, format!("{}; {hint}", problem.message)),
            None => (problem.path, problem.message),
        };
        loaded.err().into_iter().flatten().map(told).collect()
    }
}

/// One of the names, as a question lists them.
fn choice<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| {
        let names: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        let names: Vec<_> = names.iter().map(|name| name.get_name()).collect();
        format!("there are: {}", names.join(", "))
    })
}

type Secrets = BTreeMap<&'static str, SecretString>;

pub fn run(arguments: InitArguments) -> ExitCode {
    match init(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("offhook init: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn init(arguments: InitArguments) -> anyhow::Result<ExitCode> {
    let (offline, force, write_secrets) = (arguments.offline, arguments.force, arguments.write_secrets);
    let mut asker = Asker::new(arguments.yes);
    let folder = arguments.output.clone();
    let answers = answers(arguments, &mut asker)?;
    let secrets = secrets(&answers, offline, write_secrets, &mut asker)?;
    let folder = match folder {
        Some(folder) => folder,
        None => asker.ask("Folder for the files", ".", |text| Ok(PathBuf::from(text)))?,
    };
    let plan = write::Files::new(&folder, &answers, write_secrets.then_some(&secrets))?;
    plan.in_the_way(force)?;
    let Some((config, mut findings)) = checked(&plan, &secrets) else { return Ok(ExitCode::from(2)) };
    plan.write(force)?;
    if !offline {
        findings.extend(tested(&config));
    }
    if !offline || !findings.is_empty() {
        print!("{}", doctor::told(&findings));
    }
    print!("{}", plan.next_steps(&answers));
    if doctor::healthy(&findings) {
        return Ok(ExitCode::SUCCESS);
    }
    println!("\nThe files are written all the same: put right what is told above, then run `offhook doctor`.");
    Ok(ExitCode::FAILURE)
}

fn answers(given: InitArguments, asker: &mut Asker) -> anyhow::Result<Answers> {
    let provider = asker.given_or(
        given.provider,
        "Who speaks (openai_realtime, gemini_live, deepgram_agent, elevenlabs_agent, pipeline, attendant)",
        "attendant",
        choice,
    )?;
    let agent_id = match (provider, given.agent_id) {
        (Kind::ElevenlabsAgent, None) => Some(asker.required("The agent's id at ElevenLabs (--agent-id)")?),
        (_, agent_id) => agent_id,
    };
    let mut answers = Answers {
        provider,
        agent_id,
        base_url: given.base_url.filter(|_| provider.key().is_some()),
        ari_url: "http://127.0.0.1:8088".into(),
        ari_user: "offhook".into(),
        transport: Carrier::Audiosocket,
        bind: Ipv4Addr::LOCALHOST.into(),
        advertise: None,
        audiosocket_port: given.audiosocket_port,
        rtp_ports: given.rtp_ports,
        http: given.http,
        context: "reception".into(),
        language: "en".into(),
        greeting: write::greeting(provider, "en").into(),
        extension: if given.pbx == Pbx::Freepbx { "7100" } else { "7000" }.into(),
        pbx: given.pbx,
    };
    // Of the flags that nobody is asked for, before the first question whose answer would be lost.
    if let Some((key, problem)) = answers.problems().into_iter().next() {
        anyhow::bail!("{key}: {problem}");
    }
    let (usual, url) = (answers.ari_url.clone(), |text: &str| answers.accept(|answers| answers.ari_url = text.into()));
    answers.ari_url = asker.checked(given.ari_url, "Address of ARI", &usual, url)?;
    answers.ari_user = asker.checked(given.ari_user, "User of ari.conf", "offhook", write::is_user)?;
    let question = "Audio by (audiosocket, rtp, websocket)";
    answers.transport = asker.given_or(given.transport, question, "audiosocket", choice)?;
    // By WebSocket nothing comes to this machine, which listens for AudioSocket() of its own alone.
    let (bind, advertise) = match answers.transport {
        Carrier::Websocket => (Ipv4Addr::LOCALHOST.into(), None),
        Carrier::Audiosocket | Carrier::Rtp => towards(&answers.ari_url),
    };
    let address = |text: &str| text.parse().map_err(|_| "no IP address".to_owned());
    answers.bind = match (given.bind, answers.transport) {
        (None, Carrier::Websocket) => bind,
        (given, _) => {
            asker.given_or(given, "Address of this machine that audio comes to", &bind.to_string(), address)?
        }
    };
    answers.advertise = match (given.advertise, answers.bind.is_loopback()) {
        (None, true) => None,
        (given, _) => {
            let known = match advertise {
                Some(advertise) if answers.bind.is_unspecified() => advertise,
                _ => answers.bind,
            };
            let host = |text: &str| answers.accept(|answers| answers.advertise = Some(text.into()));
            Some(asker.checked(given, "The same as Asterisk reaches it", &known.to_string(), host)?)
        }
    };
    answers.context = asker.checked(given.context, "Name of the agent", "reception", write::is_name)?;
    answers.language = language(given.language, &answers, asker)?;
    answers.greeting = write::greeting(provider, &answers.language).into();
    let (usual, sentence) =
        (answers.greeting.clone(), |text: &str| answers.accept(|answers| answers.greeting = text.into()));
    answers.greeting = asker.checked(given.greeting, "Its first sentence", &usual, sentence)?;
    let usual = answers.extension.clone();
    answers.extension = asker.checked(given.extension, "What callers dial", &usual, write::is_extension)?;
    Ok(answers)
}

/// Asks for the language, unless an attendant was chosen: its recogniser and its phrases are English.
fn language(given: Option<String>, answers: &Answers, asker: &mut Asker) -> anyhow::Result<String> {
    let known = |tag: &str| answers.accept(|answers| answers.language = tag.into());
    match (answers.provider, &given) {
        (Kind::Attendant, None) => Ok("en".into()),
        (Kind::Attendant, Some(tag)) if Language::of(tag) != Some(Language::English) => {
            anyhow::bail!("--language {tag}: an attendant hears English alone; choose another --provider")
        }
        _ => asker.checked(
            given,
            "Language of the call (en, de, es, fr, it, pt, nl, hi, ar, no; for another you write offhook's sentences)",
            "en",
            known,
        ),
    }
}

/// Where audio comes to, and the address of this machine as Asterisk sees it, if that can be told from here.
fn towards(ari_url: &str) -> (IpAddr, Option<IpAddr>) {
    let here = (IpAddr::from(Ipv4Addr::LOCALHOST), None);
    let host = url::Url::parse(ari_url).ok().and_then(|url| url.host_str().map(str::to_owned));
    #[expect(clippy::disallowed_methods, reason = "the program has no runtime yet")]
    let asterisk = host.and_then(|host| (host.trim_matches(['[', ']']), 9).to_socket_addrs().ok()?.next());
    let Some(asterisk) = asterisk.filter(|address| !address.ip().is_loopback()) else { return here };
    // Nothing is sent: the system says from which address it would be.
    let any = SocketAddr::from(match asterisk {
        SocketAddr::V4(_) => (IpAddr::from(Ipv4Addr::UNSPECIFIED), 0),
        SocketAddr::V6(_) => (IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED), 0),
    });
    let own = UdpSocket::bind(any).and_then(|socket| socket.connect(asterisk).and_then(|()| socket.local_addr()));
    (any.ip(), own.ok().map(|own| own.ip()))
}

/// From the environment, or asked for. Without a test and without a file for them they need not be known.
fn secrets(answers: &Answers, offline: bool, written: bool, asker: &mut Asker) -> anyhow::Result<Secrets> {
    let mut secrets = Secrets::new();
    for variable in [Some(ARI_PASSWORD), answers.provider.key()].into_iter().flatten() {
        match std::env::var(variable).ok().filter(|value| !value.is_empty()) {
            Some(value) => drop(secrets.insert(variable, value.into())),
            None if offline && !written => {}
            None => drop(secrets.insert(variable, asker.secret(variable)?)),
        }
    }
    Ok(secrets)
}

/// The configuration as `offhook check` reads it, and what this machine lacks for it; `None`: its mistakes are told.
fn checked(plan: &write::Files, secrets: &Secrets) -> Option<(Config, Vec<Finding>)> {
    let env = |name: &str| {
        let known = secrets.get(name).map(|secret| secret.expose_secret().to_owned());
        known.or_else(|| std::env::var(name).ok()).or_else(|| is_ours(name).then(|| UNKNOWN.to_owned()))
    };
    let config = match config::load_str(&plan.config_name(), plan.yaml(), &env, offhook::provider::catalog()) {
        Ok(config) => config,
        Err(problems) => {
            eprintln!("{problems}\noffhook init: these answers make no configuration; nothing was written");
            return None;
        }
    };
    // The answers are right where only a program is missing: nobody should have to give them again.
    let (warnings, lacking) = match offhook::engine::check(config.clone()) {
        Ok(warnings) => (warnings, Vec::new()),
        Err(problems) => (Vec::new(), problems),
    };
    config.warnings.iter().chain(&warnings).for_each(|warning| eprintln!("warning: {warning}"));
    let problem =
        |problem: &Problem| Finding { area: "machine", grade: Grade::Problem, says: problem.to_string(), remedy: None };
    Some((config, lacking.iter().map(problem).collect()))
}

fn is_ours(variable: &str) -> bool {
    variable == ARI_PASSWORD || Kind::value_variants().iter().any(|kind| kind.key() == Some(variable))
}

/// What a doctor finds, but for the dialplan, which is only about to be included.
fn tested(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    println!("Testing what was told …\n");
    let _ = serve::block_on(async {
        let stop = CancellationToken::new();
        findings = offhook::doctor::examine(config, Extent::default(), &stop).await;
        ExitCode::SUCCESS
    });
    findings.retain(|finding| finding.area != "dialplan");
    findings
}
