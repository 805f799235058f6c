//! One run: a system is started, calls come up, the window is measured, calls end.

use super::{
    load::{Calls, Cast, Speech},
    peer::Play,
    process::{Cores, busy_time, cpu_time, resident},
    samples::{Samples, percentile},
    stages::{CLAUSE_SPOKEN, Stages},
    system::{Extra, Kind, Metrics, System},
};
use anyhow::Context as _;
use offhook::audio::FRAME;
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    task::yield_now,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

/// How often the load looks at its sockets while it measures: see [`look_now_and_then`].
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// Until a system that was just started rests.
const REST: Duration = Duration::from_millis(500);
/// After the last greeting, until the window begins.
const SETTLE: Duration = Duration::from_secs(2);
/// For the engine to clear all calls away.
const CLEAR_WITHIN: Duration = Duration::from_secs(5);

/// The load is late when more than one in a hundred of its frames is late by so much.
const LATE_MAX_MS: f64 = 5.0;
/// Beyond this share of its core the load is near its own limits.
const LOAD_BUSY_MAX: f64 = 85.0;
/// Beyond this share others disturb the core of the system under test.
pub const OTHERS_MAX: f64 = 10.0;

/// Frames from one question of a pipeline's caller to the next: the answer takes two seconds.
const QUESTION_EVERY: usize = 250;

pub const TICK_LATENESS: &str = "offhook_tick_lateness_seconds";

pub struct Plan {
    pub calls: usize,
    pub window: Duration,
    pub cores: Option<Cores>,
    pub extra: Extra,
}

/// What one run measured.
pub struct Figures {
    /// Percent of a core, for each call.
    pub cpu: f64,
    /// Bytes for each call beyond what the idle process had.
    pub memory: f64,
    pub samples: Samples,
    /// The engine's own account.
    pub engine: Option<Own>,
    /// Percent of its core that the load used.
    pub load_busy: f64,
    /// Percent of the system's core that others used.
    pub others: Option<f64>,
}

impl Figures {
    /// Why these figures say little, if they do.
    pub fn doubts(&self) -> Vec<String> {
        let late = percentile(&self.samples.late, 99.0).unwrap_or(0.0);
        let mut doubts = Vec::new();
        if late > LATE_MAX_MS {
            doubts.push(format!("the load itself was late: p99 {late:.1} ms"));
        }
        if self.load_busy > LOAD_BUSY_MAX {
            doubts.push(format!("the load used {:.0} % of its core", self.load_busy));
        }
        if let Some(others) = self.others.filter(|others| *others > OTHERS_MAX) {
            doubts.push(format!("other programs used {others:.0} % of the core under test"));
        }
        doubts
    }
}

/// What an engine says of its own clock in the window.
pub struct Own {
    /// Slots it gave up.
    pub missed: f64,
    /// The upper edge of the bucket in which the 99th percentile of its lateness falls, in ms.
    pub late: Option<f64>,
}

impl Own {
    fn between(before: &Metrics, after: &Metrics) -> Self {
        let late = after.bucket_since(before, TICK_LATENESS, 99.0);
        Self { missed: missed(after) - missed(before), late: late.map(|(_, most)| most * 1_000.0) }
    }
}

struct Readings {
    at: Instant,
    system: Duration,
    load: Duration,
    core: Option<Duration>,
    metrics: Option<Metrics>,
}

impl Readings {
    async fn take(system: &System, cores: Option<Cores>) -> anyhow::Result<Self> {
        let metrics = system.metrics().await?;
        Ok(Self {
            at: Instant::now(),
            system: cpu_time(system.pid).context("the system under test has ended")?,
            load: cpu_time(std::process::id()).context("no /proc")?,
            core: cores.and_then(|cores| busy_time(cores.system)),
            metrics,
        })
    }
}

pub fn missed(metrics: &Metrics) -> f64 {
    metrics.value("offhook_slots_missed_total")
}

/// `progress` is called once for each second that was measured.
pub async fn measure(kind: Kind, plan: &Plan, folder: &Path, progress: impl FnMut()) -> anyhow::Result<Figures> {
    // Who has no core of its own must not wake it all the time.
    let looks = plan.cores.map(|_| AbortOnDropHandle::new(tokio::spawn(look_now_and_then())));
    let measured = measure_beside(kind, plan, folder, progress, async |_| Ok(())).await;
    drop(looks);
    measured.map(|(figures, ())| figures)
}

/// The same while something else is done with the system; the window lasts until that is done, too.
pub async fn measure_beside<T>(
    kind: Kind,
    plan: &Plan,
    folder: &Path,
    mut progress: impl FnMut(),
    beside: impl AsyncFnOnce(&System) -> anyhow::Result<T>,
) -> anyhow::Result<(Figures, T)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut cast = Cast::of(kind.provider(), Play::Answers)?;
    if kind == Kind::Pipeline {
        cast.speeches = vec![question().await?];
    }
    let stages = Stages::start(Arc::clone(&cast.load), CLAUSE_SPOKEN).await?;
    let servers = [listener.local_addr()?, stages.address];
    let system = System::start(kind, plan.extra, plan.calls, plan.cores, servers, folder).await?;
    sleep(REST).await;
    let idle = resident(system.pid).context("the system under test has ended")?;
    let calls = Calls::begin(plan.calls, system.audiosocket, &cast, &listener).await?;
    sleep(SETTLE).await;
    let before = Readings::take(&system, plan.cores).await?;
    calls.load.record();
    let end = Instant::now() + plan.window;
    let seconds = async {
        while Instant::now() < end {
            sleep_until(end.min(Instant::now() + Duration::from_secs(1))).await;
            progress();
        }
    };
    let (done, ()) = tokio::join!(beside(&system), seconds);
    let done = done?;
    let after = Readings::take(&system, plan.cores).await?;
    let memory = resident(system.pid).context("the system under test has ended")?;
    let mut samples = calls.end().await?;
    cleared_away(&system, plan.calls).await?;

    let window = after.at - before.at;
    let count = plan.calls as f64;
    let percent = |used: Duration| used.as_secs_f64() / window.as_secs_f64() * 100.0;
    let used = after.system.saturating_sub(before.system);
    samples.slots = (window.as_millis() / FRAME.as_millis()) as u64 * plan.calls as u64;
    let others = before.core.zip(after.core).map(|(before, after)| after.saturating_sub(before).saturating_sub(used));
    let figures = Figures {
        cpu: percent(used) / count,
        memory: memory.saturating_sub(idle) as f64 / count,
        samples,
        engine: before.metrics.zip(after.metrics).map(|(before, after)| Own::between(&before, &after)),
        load_busy: percent(after.load.saturating_sub(before.load)),
        others: others.map(percent),
    };
    Ok((figures, done))
}

/// The load looks what has come at intervals, and does not wait for it.
///
/// Who sends to somebody who waits pays for waking them: some two microseconds on a virtual machine, a tenth of what a call costs
/// an engine in a slot. The floor sends so much at once that it finds the one thread of the load awake, and an engine does not; in
/// a telephone system, where each call has a thread of its own, both would pay. Here neither does, so that the ratio tells what
/// the two do themselves; what is measured in the load's own thread takes up to a quarter of a millisecond longer with both.
#[allow(clippy::disallowed_methods)] // It is the whole thread that has to stand still.
async fn look_now_and_then() {
    loop {
        std::thread::sleep(LOOK_EVERY);
        yield_now().await;
    }
}

/// What the callers of a pipeline ask every five seconds.
async fn question() -> anyhow::Result<Speech> {
    let spoken = offhook_kit::speech::render_all(&["Can you tell me where my order is?"], "en-us").await?;
    let samples: Vec<u8> = spoken[0].iter().flat_map(|sample| sample.to_le_bytes()).collect();
    Ok(Speech::question(&samples, QUESTION_EVERY)?)
}

/// Every call must have ended, and because its caller hung up.
pub async fn cleared_away(system: &System, calls: usize) -> anyhow::Result<()> {
    if let Some(metrics) = gone(system).await? {
        let ended = metrics.children("offhook_calls_total").filter(|(_, count)| *count > 0.0);
        let ended: Vec<_> = ended.map(|(labels, count)| format!("{count} × {labels}")).collect();
        let well = ended.len() == 1 && ended[0].contains("caller_hung_up");
        anyhow::ensure!(well, "of {calls} calls ended: {}", ended.join(", "));
    }
    Ok(())
}

/// Every call must have ended, for whatever reason; the metrics of an engine without calls.
pub async fn gone(system: &System) -> anyhow::Result<Option<Metrics>> {
    let until = Instant::now() + CLEAR_WITHIN;
    while let Some(metrics) = system.metrics().await? {
        if metrics.value("offhook_calls_active") == 0.0 {
            return Ok(Some(metrics));
        }
        anyhow::ensure!(Instant::now() < until, "calls are left in the engine after their callers hung up");
        sleep(FRAME).await;
    }
    Ok(None)
}
