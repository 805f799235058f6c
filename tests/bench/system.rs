//! What is measured: the floor, or an engine as `offhook run` starts it, with a provider of its own
//! choosing.

use super::{
    load::{CONTEXT_ID, Provider},
    process::{Cores, ENGINE, beside, spawn},
};
use anyhow::Context as _;
use std::{
    fs,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Child,
    time::{Instant, sleep, timeout},
};

/// An engine starts in some 50 ms.
const START_WITHIN: Duration = Duration::from_secs(10);
/// Asterisk is up by then, and one request to it suffices.
const READY_WITHIN: Duration = Duration::from_secs(10);
const PAGE_WITHIN: Duration = Duration::from_secs(5);
/// Of a program that reads the page.
const TOKEN: &str = "bench-reads-the-page";
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Below those from which Linux takes the ports of outgoing connections, so that nothing takes one between the look at it and
/// its use.
const PORTS: Range<u16> = 29_000..32_000;
/// More than one bench needs.
const PORTS_APART: u32 = 50;
/// From so many calls on, a vendor's bytes that pass through unchanged have the bar of those that go nowhere.
const PASS_THROUGH_CALLS: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Floor,
    /// 8 kHz to 24 kHz and back, base64, JSON, WebSocket.
    OpenAi,
    /// 8 kHz to 16 kHz, 24 kHz to 8 kHz, base64, JSON in binary frames.
    Gemini,
    /// The leg's own format, raw.
    Deepgram,
    /// Linear to µ-law and back, base64, JSON.
    ElevenLabs,
    /// A listener, a model and a voice: the leg's own format on two WebSockets and HTTP, JSON. Callers ask questions.
    Pipeline,
    /// The engine with its own scripted agent, which sends the caller's audio back: bytes pass
    /// through unchanged.
    Scripted,
}

impl Kind {
    pub const ALL: [Self; 7] =
        [Self::Floor, Self::OpenAi, Self::Gemini, Self::Deepgram, Self::ElevenLabs, Self::Pipeline, Self::Scripted];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
            Self::Deepgram => "deepgram",
            Self::ElevenLabs => "elevenlabs",
            Self::Pipeline => "pipeline",
            Self::Scripted => "scripted",
        }
    }

    /// For the command line.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| format!("there are: {known}"))
    }

    pub const fn provider(self) -> Provider {
        match self {
            Self::Floor => Provider::Raw,
            Self::OpenAi => Provider::OpenAi,
            Self::Gemini => Provider::Gemini,
            Self::Deepgram => Provider::Deepgram,
            Self::ElevenLabs => Provider::ElevenLabs,
            Self::Pipeline => Provider::Stages,
            Self::Scripted => Provider::Embedded,
        }
    }

    /// Its CPU per call may be so many times the floor's, with so many calls.
    pub const fn cpu_max(self, calls: usize) -> Option<f64> {
        match self {
            Self::Floor => None,
            // Bytes pass through unchanged.
            Self::Scripted => Some(2.5),
            // To a vendor as well; what is done once for all calls weighs less the more there are.
            Self::Deepgram if calls >= PASS_THROUGH_CALLS => Some(2.5),
            Self::Deepgram | Self::ElevenLabs => Some(3.0),
            Self::OpenAi | Self::Gemini | Self::Pipeline => Some(5.0),
        }
    }

    pub const fn agent(self) -> &'static str {
        match self {
            Self::Floor => "",
            Self::OpenAi => "openai_realtime: { api_key: none, base_url: \"ws://@PROVIDER@/v1/realtime\" }",
            Self::Gemini => "gemini_live: { api_key: none, base_url: \"ws://@PROVIDER@\" }",
            Self::Deepgram => "deepgram_agent: { api_key: none, base_url: \"ws://@PROVIDER@/v1/agent/converse\" }",
            Self::ElevenLabs => "elevenlabs_agent: { agent_id: bench, base_url: \"ws://@PROVIDER@\" }",
            Self::Pipeline => "pipeline: { stt: ear, llm: model, tts: voice }",
            // A threshold that nothing reaches: nobody interrupts the echo.
            Self::Scripted => {
                "scripted: { detector: { threshold_dbfs: 0 }, script: [{ tone: { hertz: 500, for: 200ms } }, { echo: 1h }] }"
            }
        }
    }
}

const PIPELINE_CONTEXT: &str = ", greeting: Welcome.";
/// The pipeline's callers speak, so offhook hears when; turns end as soon as they may.
const PIPELINE_TURNS: &str = ", turns: { owner: offhook, end_silence: 200ms }";
const PIPELINE_STAGES: &str = "stt: { ear: { deepgram_listen: { api_key: none, base_url: \"ws://@PROVIDER@\" } } }
llm: { model: { openai_chat: { base_url: \"http://@STAGES@/v1\", model: bench } } }
voices: { voice: { deepgram_speech: { api_key: none, base_url: \"http://@STAGES@\" } } }
";

/// What an engine is configured with. Pieces of YAML: flow mappings, so that they fit anywhere.
pub struct Setup<'a> {
    /// The provider that speaks.
    pub agent: &'a str,
    /// Further entries of `providers`, each behind a comma.
    pub others: &'a str,
    /// Further keys of the context, each behind a comma.
    pub context: &'a str,
    /// Further sections.
    pub more: &'a str,
}

impl<'a> Setup<'a> {
    pub const fn of(agent: &'a str) -> Self {
        Self { agent, others: "", context: "", more: "" }
    }
}

/// What a kind's engine is configured with besides, as in [`Setup`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Extra {
    pub context: &'static str,
    /// The context's key `turns`, behind a comma, in place of the kind's own.
    pub turns: Option<&'static str>,
    pub more: &'static str,
}

/// One process under test, killed when dropped.
pub struct System {
    pub pid: u32,
    /// Where callers connect to.
    pub audiosocket: SocketAddr,
    /// Where an engine's pages are.
    pages: Option<SocketAddr>,
    _child: Child,
}

impl System {
    /// `provider` is where the kind's server listens, `stages` where a pipeline's model and voice do.
    pub async fn start(
        kind: Kind,
        extra: Extra,
        calls: usize,
        cores: Option<Cores>,
        [provider, stages]: [SocketAddr; 2],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let at =
            |text: &str| text.replace("@PROVIDER@", &provider.to_string()).replace("@STAGES@", &stages.to_string());
        let agent = at(kind.agent());
        match kind {
            Kind::Floor => Self::floor(cores, provider, &folder.join("floor.log")).await,
            Kind::Pipeline => {
                let turns = extra.turns.unwrap_or(PIPELINE_TURNS);
                let (context, more) =
                    (PIPELINE_CONTEXT.to_owned() + turns + extra.context, at(PIPELINE_STAGES) + extra.more);
                let setup = Setup { context: &context, more: &more, ..Setup::of(&agent) };
                Self::engine(&setup, calls, cores, folder).await
            }
            _ => {
                let context = extra.turns.unwrap_or_default().to_owned() + extra.context;
                let setup = Setup { context: &context, more: extra.more, ..Setup::of(&agent) };
                Self::engine(&setup, calls, cores, folder).await
            }
        }
    }

    async fn floor(cores: Option<Cores>, provider: SocketAddr, log: &Path) -> anyhow::Result<Self> {
        let mut child = spawn(cores, &std::env::current_exe()?, &["floor", "--provider", &provider.to_string()], log)?;
        let said = child.stdout.take().context("the floor has no standard output")?;
        let mut line = String::new();
        timeout(START_WITHIN, BufReader::new(said).read_line(&mut line)).await??;
        let audiosocket =
            line.trim().parse().with_context(|| format!("the floor said {line:?}; see {}", log.display()))?;
        let pid = child.id().context("the floor has ended")?;
        Ok(Self { pid, audiosocket, pages: None, _child: child })
    }

    pub async fn engine(setup: &Setup<'_>, calls: usize, cores: Option<Cores>, folder: &Path) -> anyhow::Result<Self> {
        let audiosocket = free_address()?;
        let id: String = CONTEXT_ID.iter().map(|byte| format!("{byte:02x}")).collect();
        let Setup { agent, others, context, more } = setup;
        // The callers are tones, so it is the provider who says when they speak. The ears listen all the same.
        let config = format!(
            "media: {{ audiosocket: {{ bind: \"{audiosocket}\" }} }}\n\
             limits: {{ calls: {calls} }}\n\
             default_context: bench\n\
             turns: {{ owner: provider }}\n\
             providers: {{ agent: {{ {agent} }}{others} }}\n\
             contexts: {{ bench: {{ prompt: You are measured., provider: agent, audiosocket_id: \"{id}\"{context} }} }}\n\
             {more}"
        );
        Self::run(&config, audiosocket, cores, folder).await
    }

    /// An engine of this configuration, in which the section `http` is left out.
    pub async fn run(
        config: &str,
        audiosocket: SocketAddr,
        cores: Option<Cores>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let pages = free_address()?;
        let (file, log) = (folder.join("engine.yaml"), folder.join("engine.log"));
        fs::write(&file, format!("http: {{ bind: \"{pages}\", admin_token: {TOKEN} }}\n{config}"))?;
        let child = spawn(cores, &beside(ENGINE)?, &["run", "--config", &file.display().to_string()], &log)?;
        let pid = child.id().context("the engine has ended")?;
        // Nothing is written there; held open, a write could not fail either.
        let system = Self { pid, audiosocket, pages: Some(pages), _child: child };
        let until = Instant::now() + START_WITHIN;
        while system.page("live").await.is_err() {
            anyhow::ensure!(Instant::now() < until, "the engine did not start:\n{}", end_of(&log));
            sleep(LOOK_EVERY).await;
        }
        Ok(system)
    }

    /// Waits until it takes calls; `folder` has its log.
    pub async fn is_ready(&self, folder: &Path) -> anyhow::Result<()> {
        let until = Instant::now() + READY_WITHIN;
        while self.page("ready").await.is_err() {
            let log = || end_of(&folder.join("engine.log"));
            anyhow::ensure!(Instant::now() < until, "the engine did not become ready:\n{}", log());
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// The text of one of an engine's pages.
    pub async fn page(&self, name: &str) -> anyhow::Result<String> {
        Ok(self.ask(&Self::client()?, name).await?.text().await?)
    }

    /// Some pages more than one answer; a client keeps its connection.
    pub fn client() -> anyhow::Result<reqwest::Client> {
        Ok(reqwest::Client::builder().read_timeout(PAGE_WITHIN).no_proxy().build()?)
    }

    /// The beginning of an answer.
    pub async fn ask(&self, client: &reqwest::Client, path: &str) -> anyhow::Result<reqwest::Response> {
        let pages = self.pages.context("the floor has no pages")?;
        Ok(client.get(format!("http://{pages}/{path}")).bearer_auth(TOKEN).send().await?.error_for_status()?)
    }

    /// Where a browser finds the pages, and the token that they want.
    pub fn page_for_browsers(&self) -> anyhow::Result<(String, &'static str)> {
        let pages = self.pages.context("the floor has no pages")?;
        Ok((format!("http://{pages}"), TOKEN))
    }

    /// An engine's metrics; `None` for the floor.
    pub async fn metrics(&self) -> anyhow::Result<Option<Metrics>> {
        match self.pages {
            Some(_) => Ok(Some(Metrics(self.page("metrics").await?))),
            None => Ok(None),
        }
    }
}

/// A page of metrics, as Prometheus would read it.
pub struct Metrics(pub String);

impl Metrics {
    /// The sum of all children of a counter or gauge.
    pub fn value(&self, name: &str) -> f64 {
        self.children(name).map(|(_, value)| value).sum()
    }

    /// Labels and value of each child.
    pub fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = rest.rsplit_once(' ')?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, value.parse().ok()?))
        })
    }

    /// The bucket that holds this share of a histogram's observations since `earlier`: its edges.
    pub fn bucket_since(&self, earlier: &Self, name: &str, percent: f64) -> Option<(f64, f64)> {
        let count = format!("{name}_count");
        let wanted = percent / 100.0 * (self.value(&count) - earlier.value(&count));
        let bucket = format!("{name}_bucket");
        let mut below = 0.0;
        for ((labels, now), (_, then)) in self.children(&bucket).zip(earlier.children(&bucket)) {
            let edge = labels.split_once("le=\"")?.1.split_once('"')?.0.parse::<f64>().ok()?;
            if now - then >= wanted && now > then {
                return Some((below, edge));
            }
            below = edge;
        }
        None
    }
}

/// A port that is free for TCP and UDP, another one with each call.
pub fn free_address() -> std::io::Result<SocketAddr> {
    static LOOKED_AT: AtomicU32 = AtomicU32::new(0);
    let ports = u32::from(PORTS.end - PORTS.start);
    for _ in 0..ports {
        // Benches that run at one time begin at different places.
        let place = std::process::id().wrapping_mul(PORTS_APART).wrapping_add(LOOKED_AT.fetch_add(1, Relaxed)) % ports;
        let address =
            (Ipv4Addr::LOCALHOST, PORTS.start + u16::try_from(place).expect("below the number of ports")).into();
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(std::io::Error::new(ErrorKind::AddrInUse, format!("no port of {PORTS:?} is free")))
}

/// The last lines of a log, for a message about what went wrong.
pub fn end_of(log: &Path) -> String {
    const LINES: usize = 20;
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// A folder of the bench's own, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn create() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("offhook-bench-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is a few kilobytes of logs in the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_histogram_are_read_as_the_bucket_they_fall_in() {
        let page = |counts: [u32; 3]| {
            let [first, second, all] = counts;
            let edges = format!("x_bucket{{le=\"0.1\"}} {first}\nx_bucket{{le=\"0.15\"}} {second}\n");
            Metrics(format!("{edges}x_bucket{{le=\"+Inf\"}} {all}\nx_sum 9\nx_count {all}\n"))
        };
        let (earlier, later) = (page([5, 5, 5]), page([55, 101, 105]));
        assert_eq!(later.bucket_since(&earlier, "x", 50.0), Some((0.0, 0.1)));
        assert_eq!(later.bucket_since(&earlier, "x", 95.0), Some((0.1, 0.15)));
        assert_eq!(later.bucket_since(&earlier, "x", 99.0), Some((0.15, f64::INFINITY)));
    }

    #[test]
    fn a_metric_is_not_taken_for_another_that_begins_alike() {
        let metrics = Metrics("calls_total{a=\"b\"} 2\ncalls_total{a=\"c\"} 1\ncalls_total_more 9\n".into());
        assert_eq!(metrics.value("calls_total"), 3.0);
    }
}
