//! The second part: SIP calls through a real Asterisk into the engine by `Stasis(offhook)`. It needs the lab (`make setup`).

use super::{
    peer::{self, Play},
    process::{Cores, busy_time, cpu_time},
    report::{Bars, MISSED_MAX},
    run::{OTHERS_MAX, TICK_LATENESS, cleared_away, missed},
    say,
    system::{Kind, Metrics, Setup, System, end_of, free_address},
    telephone::{self, Codec, Order, Side},
};
use anyhow::Context as _;
use reqwest::Method;
use serde_json::Value;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    process::{Child, ChildStdin, Command},
    time::{Instant, sleep, timeout},
};

/// Beside the working directory, which is the project's own for `make bench`.
const LAB: &str = "tests/lab";
const ARI_USER: &str = "offhook";
/// The tests' own range is elsewhere; Asterisk passes over ports that are taken.
const RTP_PORTS: [u16; 2] = [25_000, 27_999];
/// Ten new calls a second.
const ARRIVAL_EVERY: Duration = Duration::from_millis(100);
/// They take most of a core.
const OPUS_CALLS_MAX: usize = 100;
/// All calls are up for so long.
const WINDOW: Duration = Duration::from_secs(10);
/// Between the last call's INVITE and the window, and between the window and the first BYE.
const MARGIN: Duration = Duration::from_secs(2);
const BOOT_WITHIN: Duration = Duration::from_secs(20);
const COMMAND_WITHIN: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(100);
const FIRST_AUDIO: &str = "offhook_first_audio_seconds";
/// Stasis start → first greeting frame, p95.
const FIRST_AUDIO_MAX: f64 = 0.15;

/// Whom the callers meet, and how their audio travels.
struct Way {
    name: &'static str,
    kind: Kind,
    /// Of the context.
    audio: &'static str,
    codec: Codec,
    /// Its CPU per call may be so many times the floor's.
    cpu_max: Option<f64>,
}

const WAYS: [Way; 4] = [
    Way {
        name: "AudioSocket, scripted",
        kind: Kind::Scripted,
        audio: "audiosocket/slin",
        codec: Codec::MuLaw,
        cpu_max: None,
    },
    // Nothing is converted on the way from the caller to the vendor and back.
    Way {
        name: "RTP, openai in µ-law",
        kind: Kind::OpenAi,
        audio: "rtp/ulaw",
        codec: Codec::MuLaw,
        cpu_max: Some(3.0),
    },
    Way {
        name: "WebSocket, scripted",
        kind: Kind::Scripted,
        audio: "websocket/slin",
        codec: Codec::MuLaw,
        cpu_max: None,
    },
    // Wideband, decoded and encoded again, which is most of what such a call costs: one core has no room for 200.
    Way {
        name: "WebSocket, scripted, Opus",
        kind: Kind::Scripted,
        audio: "websocket/opus",
        codec: Codec::Opus,
        cpu_max: None,
    },
];

/// Why there is no real Asterisk, if there is none.
pub async fn no_lab() -> Option<String> {
    let there = runs(Path::new(LAB).join("asterisk.sh"), "version").await.is_some_and(|status| status.success());
    (!there).then(|| "no Asterisk in the lab: `make setup` puts one there".into())
}

async fn runs(program: PathBuf, argument: &str) -> Option<ExitStatus> {
    let tried = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    timeout(COMMAND_WITHIN, tried).await.ok()?.ok()
}

/// A real Asterisk of the bench's own; it ends when the pipe to `tied.sh` closes.
pub struct Asterisk {
    folder: PathBuf,
    http: u16,
    sip: u16,
    password: String,
    script: Child,
    pipe: Option<ChildStdin>,
}

impl Asterisk {
    async fn start(folder: PathBuf) -> anyhow::Result<Self> {
        Self::start_with(folder, "").await
    }

    /// The same with more dialplan, as whole contexts.
    pub async fn start_with(folder: PathBuf, dialplan: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(folder.join("etc"))?;
        fs::write(folder.join("etc/extensions_extra.conf"), dialplan)?;
        let (http, sip) = (free_address()?.port(), free_address()?.port());
        let password = uuid::Uuid::new_v4().simple().to_string();
        let log = fs::File::create(folder.join("console"))?;
        let mut script = Command::new(Path::new(LAB).join("tied.sh"))
            .arg(folder.join("pid"))
            .arg(Path::new(LAB).join("asterisk.sh"))
            .arg("run")
            .arg(&folder)
            .envs([("LAB_ARI_USER", ARI_USER), ("LAB_ARI_PASSWORD", &password)])
            .envs([("LAB_HTTP_PORT", http), ("LAB_SIP_PORT", sip)].map(|(name, port)| (name, port.to_string())))
            .envs(
                [("LAB_RTP_FIRST", RTP_PORTS[0]), ("LAB_RTP_LAST", RTP_PORTS[1])]
                    .map(|(name, port)| (name, port.to_string())),
            )
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("tests/lab/tied.sh")?;
        let pipe = script.stdin.take();
        let mut asterisk = Self { folder, http, sip, password, script, pipe };
        let until = Instant::now() + BOOT_WITHIN;
        while !asterisk.cli("core waitfullybooted").await.is_some_and(|said| said.contains("fully booted")) {
            let running = matches!(asterisk.script.try_wait(), Ok(None)) && Instant::now() < until;
            anyhow::ensure!(running, "Asterisk did not start:\n{}", end_of(&asterisk.folder.join("console")));
            sleep(ASK_EVERY).await;
        }
        Ok(asterisk)
    }

    async fn cli(&self, command: &str) -> Option<String> {
        let mut asked = Command::new(Path::new(LAB).join("asterisk.sh"));
        asked.arg("cli").arg(&self.folder).arg(command).kill_on_drop(true).stdin(Stdio::null());
        let output = timeout(COMMAND_WITHIN, asked.output()).await.ok()?.ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What ARI answers to somebody else than the engine; `null` where it has nothing to say.
    pub async fn ari(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let request = System::client()?.request(method, format!("http://127.0.0.1:{}/ari/{path}", self.http));
        let answer = request.basic_auth(ARI_USER, Some(&self.password)).send().await?.error_for_status()?;
        Ok(serde_json::from_str(&answer.text().await?).unwrap_or_default())
    }

    /// Where it takes SIP.
    pub fn sip(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.sip).into()
    }

    /// The engine's section about it.
    pub fn configuration(&self) -> String {
        format!(
            "asterisk: {{ url: \"http://127.0.0.1:{}\", username: {ARI_USER}, password: \"{}\" }}\n",
            self.http, self.password
        )
    }

    /// Channels and bridges that exist now; `None`: its console does not answer.
    pub async fn open(&self) -> Option<(usize, usize)> {
        let channels = self.cli("core show channels concise").await?;
        let bridges = self.cli("bridge show all").await?;
        let channels = channels.lines().filter(|line| line.contains('!')).count();
        let bridges = bridges.lines().filter(|line| !line.starts_with("Bridge-ID") && !line.trim().is_empty()).count();
        Some((channels, bridges))
    }

    pub async fn stop(mut self) {
        self.pipe = None;
        // `tied.sh` needs two seconds for a program that will not end.
        let _ = timeout(COMMAND_WITHIN, self.script.wait()).await;
    }
}

/// `floor`: what a call costs there, in percent of a core.
pub async fn run(
    calls: usize,
    cores: Option<Cores>,
    folder: &Path,
    floor: Option<f64>,
    bars: &mut Bars,
) -> anyhow::Result<()> {
    let asterisk = Asterisk::start(folder.join("asterisk")).await?;
    let mut all = Vec::new();
    for way in &WAYS {
        let calls = calls.min(if way.codec == Codec::Opus { OPUS_CALLS_MAX } else { calls });
        say(&format!("real Asterisk, {}: {calls} SIP calls, ten a second ", way.name));
        all.push((way, calls, call(way, calls, &asterisk, cores, folder).await?));
        say(" done\n");
    }
    asterisk.stop().await;
    println!("\nSIP calls, ten a second, through a real Asterisk, Stasis(offhook); callers listen and send silence");
    for (way, calls, placed) in &all {
        report(way, *calls, placed, floor, bars);
    }
    Ok(())
}

async fn call(
    way: &Way,
    calls: usize,
    asterisk: &Asterisk,
    cores: Option<Cores>,
    folder: &Path,
) -> anyhow::Result<Placed> {
    let vendor = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let agent = way.kind.agent().replace("@PROVIDER@", &vendor.local_addr()?.to_string());
    let _sessions = peer::serve_all(way.kind.provider(), vendor, Arc::default(), Play::Answers);
    let more = asterisk.configuration();
    let context = format!(", audio: {}", way.audio);
    let setup = Setup { more: &more, context: &context, ..Setup::of(&agent) };
    let system = System::engine(&setup, calls, cores, folder).await?;
    system.is_ready(folder).await?;
    place(way, calls, asterisk, &system, cores).await
}

/// What was read of the engine.
struct Placed {
    /// No call has come yet.
    idle: Metrics,
    /// All calls are up.
    before: Metrics,
    /// All calls are still up.
    after: Metrics,
    /// All calls have ended.
    end: Metrics,
    /// Of the engine in the window, in percent of a core.
    cpu: f64,
    /// Of others on the engine's core.
    others: Option<f64>,
}

/// Lets telephones call, and reads the engine's metrics before and after a window in which all calls are up.
async fn place(
    way: &Way,
    calls: usize,
    asterisk: &Asterisk,
    system: &System,
    cores: Option<Cores>,
) -> anyhow::Result<Placed> {
    let arrivals = ARRIVAL_EVERY * u32::try_from(calls)?;
    let metrics = || async { system.metrics().await?.context("an engine has metrics") };
    let idle = metrics().await?;
    let over = Instant::now() + arrivals + MARGIN + WINDOW + MARGIN;
    // As quiet as the callers of the first part, for most of the time.
    let order = Order { codec: way.codec, ..Order::listens(asterisk.sip()) };
    let measuring = async {
        wait(arrivals + MARGIN).await;
        let times = || (cpu_time(system.pid).unwrap_or_default(), cores.and_then(|cores| busy_time(cores.system)));
        let (before, (cpu_before, core_before), began) = (metrics().await?, times(), Instant::now());
        wait(WINDOW).await;
        let (after, (cpu_after, core_after), window) = (metrics().await?, times(), began.elapsed());
        let percent = |used: Duration| used.as_secs_f64() / window.as_secs_f64() * 100.0;
        let used = cpu_after.saturating_sub(cpu_before);
        let others =
            core_before.zip(core_after).map(|(before, after)| after.saturating_sub(before).saturating_sub(used));
        Ok::<_, anyhow::Error>((before, after, percent(used), others.map(percent)))
    };
    let (outcomes, measured) = tokio::join!(telephone::crowd(&order, calls, ARRIVAL_EVERY, over), measuring);
    let (before, after, cpu, others) = measured?;
    let failed = outcomes?.iter().filter(|outcome| outcome.hung_up != Some(Side::Caller)).count();
    anyhow::ensure!(failed == 0, "{failed} of {calls} callers did not stay in their call to the end");
    cleared_away(system, calls).await?;
    Ok(Placed { idle, before, after, end: metrics().await?, cpu, others })
}

async fn wait(length: Duration) {
    for _ in 0..length.as_secs() {
        sleep(Duration::from_secs(1)).await;
        say(".");
    }
}

fn report(way: &Way, calls: usize, placed: &Placed, floor: Option<f64>, bars: &mut Bars) {
    let up = placed.before.value("offhook_calls_active").min(placed.after.value("offhook_calls_active"));
    let ticks = |metrics: &Metrics| metrics.value(&format!("{TICK_LATENESS}_count"));
    let slots = ticks(&placed.after) - ticks(&placed.before);
    let given_up = missed(&placed.after) - missed(&placed.before);
    let share = given_up / (slots + given_up).max(1.0) * 100.0;
    let bucket = |percent| placed.end.bucket_since(&placed.idle, FIRST_AUDIO, percent);
    let text = |bucket: Option<(f64, f64)>| {
        bucket.map_or("–".to_owned(), |(above, most)| format!("{:.0} to {:.0} ms", above * 1e3, most * 1e3))
    };
    let cpu = placed.cpu / up.max(1.0);
    println!("\n{}:", way.name);
    println!("  calls up in the window                {up:.0}");
    println!("  calls greeted                         {:.0}", placed.end.value(&format!("{FIRST_AUDIO}_count")));
    println!("  Stasis start → first greeting frame   p50 {}, p95 {}", text(bucket(50.0)), text(bucket(95.0)));
    println!("                                        (buckets of {FIRST_AUDIO}, no finer)");
    println!("  20 ms slots given up by the engine    {share:.4} % of {slots:.0}");
    let ratio = floor.map_or(String::new(), |floor| format!(", {:.1} × the floor", cpu / floor));
    println!("  CPU of the engine per call            {cpu:.3} % of a core{ratio}");
    let disturbed = placed.others.is_none_or(|others| others > OTHERS_MAX);
    if let Some(others) = placed.others.filter(|_| disturbed) {
        println!("NOT USABLE  other programs used {others:.0} % of the core under test");
    }
    let p95 = bucket(95.0);
    let reached = p95.is_some_and(|(_, most)| most <= FIRST_AUDIO_MAX) && up as usize == calls;
    bars.bar(
        &format!("Stasis start → first greeting frame, p95, {}", way.name),
        &text(p95),
        &format!("{:.0} ms", FIRST_AUDIO_MAX * 1e3),
        reached,
        disturbed,
    );
    let reached = share <= MISSED_MAX && up as usize == calls;
    let name = format!("slots missed, {}", way.name);
    bars.bar(&name, &format!("{share:.4} %"), &format!("{MISSED_MAX} %"), reached, disturbed);
    if let (Some(most), Some(floor)) = (way.cpu_max, floor) {
        let (name, ratio) = (format!("CPU per call, {}", way.name), cpu / floor);
        bars.bar(&name, &format!("{ratio:.1} × the floor"), &format!("{most} ×"), ratio <= most, disturbed);
    }
}
