//! Calls that end in every way, by the thousand or for an hour, through a real Asterisk, and what is left of them: tasks,
//! descriptors, media, channels, bridges and memory have to come back to what they were.

mod refuser;
mod steady;
mod ways;

use super::{
    asterisk::{Asterisk, no_lab},
    process::{Cores, resident},
    report::Bars,
    say,
    system::{Folder, Metrics, System, end_of, free_address},
    telephone::{self, ANSWERED_WITHIN, Leaves, Order, Outcome, Says, Side},
};
use anyhow::Context as _;
use clap::Args;
use futures_util::StreamExt as _;
use refuser::Refuser;
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use steady::Steady;
use tokio::time::{Instant, sleep};
use ways::{Ends, STEADY, Way};

#[derive(Args)]
pub struct SoakArguments {
    /// Short calls, in turn of every way to end.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    calls: u32,
    /// Short calls at the same time.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=150))]
    at_once: u16,
    /// Only these ways to end, by name; `echo-a` is the call on which a deaf AudioSocket channel would show.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// After the short calls, so many that all stay up.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=300))]
    steady: u16,
    /// How long they do.
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=1_440))]
    minutes: u16,
}

/// Calls of every way before the first look: they open what stays open (pooled connections, threads, what the allocator keeps).
const WARM_UP_ROUNDS: usize = 2;
/// The engine's pool of connections to Asterisk looks every ten seconds for those that were idle for as long.
const IDLE_CONNECTIONS_GONE: Duration = Duration::from_secs(21);
/// After the last call. Beyond the pool's time: Asterisk lets go of a telephone that was not seen to leave after 30 s.
const BACK_WITHIN: Duration = Duration::from_secs(40);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Of the engine: two for each of as many calls as it may have, below those that the system gives out.
const RTP_PORTS: &str = "28000-28799";
const CALLS_MAX: usize = 400;
/// Which offhook's ears do not take for speech.
const CALLERS_ARE_TONES: &str = "turns: { owner: provider }\n";
/// New calls that stay.
const ARRIVAL_EVERY: Duration = Duration::from_millis(100);
const MEGABYTE: f64 = 1_048_576.0;
/// What the process may have grown by short calls: the lists of recent calls fill up to their limits, the allocator keeps some.
const GROWTH_MAX: f64 = 8.0 * MEGABYTE;
/// Once so many calls were up as never before, of whose memory the allocator keeps some.
const GROWTH_BY_STEADY_MAX: f64 = 16.0 * MEGABYTE;
const PATH_FAULTS: &str = "offhook_media_faults_total";
/// The memory of the engine is told so often while calls stay.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What is there at one moment.
#[derive(Debug, Clone, Copy)]
struct Left {
    calls: f64,
    tasks: f64,
    descriptors: usize,
    /// Legs, ports, and places kept for connections.
    media: f64,
    channels: usize,
    bridges: usize,
    memory: u64,
}

impl Left {
    /// Everything but memory is at most what it was.
    fn is_back_to(&self, before: &Self) -> bool {
        self.calls <= before.calls
            && self.tasks <= before.tasks
            && self.descriptors <= before.descriptors
            && self.media <= before.media
            && self.channels <= before.channels
            && self.bridges <= before.bridges
    }

    /// The least of each.
    fn least(self, other: Self) -> Self {
        Self {
            calls: self.calls.min(other.calls),
            tasks: self.tasks.min(other.tasks),
            descriptors: self.descriptors.min(other.descriptors),
            media: self.media.min(other.media),
            channels: self.channels.min(other.channels),
            bridges: self.bridges.min(other.bridges),
            memory: self.memory.min(other.memory),
        }
    }
}

/// What the callers of one way met.
#[derive(Debug, Default, Clone)]
struct Tally {
    calls: usize,
    /// Ended in a way that this one does not end in.
    odd: Vec<String>,
    /// Heard nothing of what they should have heard.
    deaf: usize,
}

struct Stage {
    system: System,
    asterisk: Asterisk,
    sip: SocketAddr,
    folder: Folder,
    _refuser: Refuser,
}

pub async fn bench(arguments: &SoakArguments, cores: Option<Cores>) -> anyhow::Result<Bars> {
    if let Some(why) = no_lab().await {
        anyhow::bail!("this needs a real Asterisk: {why}");
    }
    let ways = ways::of(&arguments.only)?;
    let stage = Stage::set(cores).await?;
    let result = soak(arguments, &ways, &stage).await;
    let result = result.map_err(|error| {
        let log = end_of(&stage.folder.path().join("engine.log"));
        error.context(format!("the end of the engine's log:\n{log}\n"))
    });
    stage.asterisk.stop().await;
    result
}

async fn soak(arguments: &SoakArguments, ways: &[Way], stage: &Stage) -> anyhow::Result<Bars> {
    let at_once = usize::from(arguments.at_once);
    let began = Instant::now();
    say(&format!("{} ways to end, {WARM_UP_ROUNDS} calls of each first ", ways.len()));
    let mut tallies = vec![Tally::default(); ways.len()];
    let none = stage.metrics().await?;
    stage.short_calls(ways, ways.len() * WARM_UP_ROUNDS, at_once, &mut tallies).await?;
    say(" done\n");
    let before = stage.at_rest().await?;
    // What the first ones met counts as well.
    let first = stage.metrics().await?;
    if arguments.calls > 0 {
        say(&format!("{} short calls, {at_once} at once ", arguments.calls));
        stage.short_calls(ways, usize::try_from(arguments.calls)?, at_once, &mut tallies).await?;
        say(" done\n");
    }
    let steady = match arguments.steady {
        0 => None,
        calls => Some(stage.steady(usize::from(calls), Duration::from_secs(60 * u64::from(arguments.minutes))).await?),
    };
    let after = stage.back_to(&before).await?;
    let last = stage.metrics().await?;
    let mut bars = Bars::default();
    print(ways, &tallies, &first, &last);
    if let Some(steady) = &steady {
        steady.report(&mut bars);
    }
    compare(&before, &after, if steady.is_some() { GROWTH_BY_STEADY_MAX } else { GROWTH_MAX }, &mut bars);
    let odd: usize = tallies.iter().map(|tally| tally.odd.len()).sum();
    let deaf: usize = tallies.iter().map(|tally| tally.deaf).sum();
    bars.bar("calls that ended in another way than theirs", &odd.to_string(), "0", odd == 0, false);
    let stayed = usize::from(arguments.steady);
    let wrong = counted_wrongly(&expected(ways, &tallies, stayed), &counted(&none, &last));
    bars.bar("ends counted for another reason than theirs", &wrong.to_string(), "0", wrong == 0, false);
    bars.bar("callers who heard nothing of what they should", &deaf.to_string(), "0", deaf == 0, false);
    // A path that is mended in time leaves nobody deaf, and was broken nevertheless.
    let faults = last.value(PATH_FAULTS) - none.value(PATH_FAULTS);
    bars.bar("audio paths that broke or were deaf", &faults.to_string(), "0", faults == 0.0, false);
    println!("\nIt took {:.0} s.", began.elapsed().as_secs_f64());
    Ok(bars)
}

impl Stage {
    async fn set(cores: Option<Cores>) -> anyhow::Result<Self> {
        let folder = Folder::create()?;
        let audiosocket = free_address()?;
        let asterisk = Asterisk::start_with(folder.path().join("asterisk"), &ways::dialplan(audiosocket)).await?;
        let apology = folder.path().join("sorry.wav");
        std::fs::write(&apology, ways::apology())?;
        let refuser = Refuser::start().await?;
        let more = asterisk.configuration() + &ways::configuration(&apology, free_address()?, refuser.address);
        let media =
            format!("audiosocket: {{ bind: \"{audiosocket}\" }}, rtp: {{ bind: 127.0.0.1, ports: {RTP_PORTS} }}");
        let config = format!("media: {{ {media} }}\nlimits: {{ calls: {CALLS_MAX} }}\n{CALLERS_ARE_TONES}{more}");
        let system = System::run(&config, audiosocket, cores, folder.path()).await?;
        system.is_ready(folder.path()).await?;
        let sip = asterisk.sip();
        Ok(Self { system, asterisk, sip, folder, _refuser: refuser })
    }

    async fn metrics(&self) -> anyhow::Result<Metrics> {
        self.system.metrics().await?.context("an engine has metrics")
    }

    /// The ways in turn, until there were so many.
    async fn short_calls(
        &self,
        ways: &[Way],
        calls: usize,
        at_once: usize,
        tallies: &mut [Tally],
    ) -> anyhow::Result<()> {
        let placed = (0..calls).map(|number| async move {
            let place = number % ways.len();
            (place, telephone::call(&ways[place].order(self.sip)).await)
        });
        let mut placed = futures_util::stream::iter(placed).buffer_unordered(at_once);
        let mut ended = 0;
        while let Some((place, outcome)) = placed.next().await {
            note(&mut tallies[place], &ways[place], &outcome?);
            ended += 1;
            if ended % 50 == 0 {
                say(".");
            }
        }
        Ok(())
    }

    async fn look(&self) -> anyhow::Result<Left> {
        let metrics = self.metrics().await?;
        let (channels, bridges) = self.asterisk.open().await.context("Asterisk's console does not answer")?;
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.system.pid)).map_or(0, Iterator::count);
        Ok(Left {
            calls: metrics.value("offhook_calls_active"),
            tasks: metrics.value("offhook_tasks"),
            descriptors,
            media: metrics.value("offhook_media_open"),
            channels,
            bridges,
            memory: resident(self.system.pid).context("the engine has ended")?,
        })
    }

    /// What is there without calls, once idle connections have closed.
    async fn at_rest(&self) -> anyhow::Result<Left> {
        let mut least = self.look().await?;
        let until = Instant::now() + IDLE_CONNECTIONS_GONE;
        while Instant::now() < until {
            sleep(LOOK_EVERY).await;
            least = least.least(self.look().await?);
        }
        let empty = least.calls == 0.0 && least.media == 0.0 && least.channels == 0 && least.bridges == 0;
        anyhow::ensure!(empty, "the first calls are not gone: {least:?}");
        Ok(least)
    }

    /// Waits until everything is as it was, or for as long as it may take.
    async fn back_to(&self, before: &Left) -> anyhow::Result<Left> {
        let until = Instant::now() + BACK_WITHIN;
        loop {
            let now = self.look().await?;
            if now.is_back_to(before) || Instant::now() >= until {
                return Ok(now);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// So many calls that stay up: each caller speaks and hears their own voice, over each leg by turns.
    async fn steady(&self, calls: usize, length: Duration) -> anyhow::Result<Steady> {
        say(&format!("{calls} calls for {} minutes\n", length.as_secs() / 60));
        let before = self.metrics().await?;
        let until = Instant::now() + ARRIVAL_EVERY * u32::try_from(calls)? + length;
        let placed = (0..calls).map(|number| async move {
            sleep(ARRIVAL_EVERY * number as u32).await;
            let stays = until.saturating_duration_since(Instant::now());
            let (extension, codec) = STEADY[number % STEADY.len()];
            let order = Order {
                asterisk: self.sip,
                extension,
                codec,
                says: Says::Tone,
                leaves: Leaves::After(stays),
                limit: stays + ANSWERED_WITHIN,
            };
            (stays, telephone::call(&order).await)
        });
        let told = async {
            let mut memory = Vec::new();
            while Instant::now() < until {
                sleep(TOLD_EVERY.min(until.saturating_duration_since(Instant::now()))).await;
                let Some(resident) = resident(self.system.pid) else { break };
                memory.push(resident);
                say(&format!("  minute {}: {:.1} MB\n", memory.len(), resident as f64 / MEGABYTE));
            }
            memory
        };
        let (placed, memory) = tokio::join!(futures_util::future::join_all(placed), told);
        let after = self.metrics().await?;
        let mut outcomes = Vec::new();
        for (stayed, outcome) in placed {
            outcomes.push((stayed, outcome?));
        }
        Ok(Steady { outcomes, memory, missed: super::run::missed(&after) - super::run::missed(&before) })
    }
}

fn note(tally: &mut Tally, way: &Way, outcome: &Outcome) {
    tally.calls += 1;
    if !is_theirs(way.course.ends, outcome) {
        tally.odd.push(format!("{outcome:?}"));
    }
    if outcome.loud < way.course.hears {
        tally.deaf += 1;
    }
}

/// Whether a call has ended as those of its way do.
fn is_theirs(ends: Ends, outcome: &Outcome) -> bool {
    let Outcome { status, hung_up, gave_up, .. } = *outcome;
    !gave_up
        && match ends {
            Ends::ByCaller => (status, hung_up) == (200, Some(Side::Caller)),
            Ends::ByEngine => (status, hung_up) == (200, Some(Side::Other)),
            Ends::Unanswered => status >= 300,
        }
}

/// How often each reason has to be counted: at least and at most.
type Expected = BTreeMap<&'static str, [usize; 2]>;

fn expected(ways: &[Way], tallies: &[Tally], stayed: usize) -> Expected {
    let mut expected = Expected::from([("caller_hung_up", [stayed; 2])]);
    for (way, tally) in ways.iter().zip(tallies) {
        for reason in way.course.reasons {
            let [least, most] = expected.entry(reason).or_default();
            *least += if way.course.reasons.len() == 1 { tally.calls } else { 0 };
            *most += tally.calls;
        }
    }
    expected
}

/// How often the engine has counted each reason between two looks.
fn counted(first: &Metrics, last: &Metrics) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for (labels, count) in last.children("offhook_calls_total") {
        let reason = labels.split("reason=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        let earlier =
            first.children("offhook_calls_total").find(|(same, _)| *same == labels).map_or(0.0, |(_, was)| was);
        *counted.entry(reason.to_owned()).or_default() += (count - earlier) as usize;
    }
    counted
}

/// Ends too many or too few of any reason.
fn counted_wrongly(expected: &Expected, counted: &BTreeMap<String, usize>) -> usize {
    let missing =
        expected.iter().map(|(reason, [least, _])| least.saturating_sub(counted.get(*reason).copied().unwrap_or(0)));
    let beyond = counted
        .iter()
        .map(|(reason, count)| count.saturating_sub(expected.get(&**reason).map_or(0, |[_, most]| *most)));
    missing.chain(beyond).sum()
}

fn print(ways: &[Way], tallies: &[Tally], first: &Metrics, last: &Metrics) {
    println!("\nway to end             calls    odd   heard nothing");
    for (way, tally) in ways.iter().zip(tallies) {
        println!("{:20}{:8}{:7}{:16}", way.name, tally.calls, tally.odd.len(), tally.deaf);
        for odd in tally.odd.iter().take(3) {
            println!("  {odd}");
        }
    }
    println!("\nends, as the engine counted them since the first look:");
    for (labels, count) in last.children("offhook_calls_total") {
        let earlier =
            first.children("offhook_calls_total").find(|(same, _)| *same == labels).map_or(0.0, |(_, was)| was);
        if count > earlier {
            println!("  {:7} {labels}", count - earlier);
        }
    }
    let sum = |name| last.value(name) - first.value(name);
    println!(
        "  {:7} declined, {} clean-ups not in time, {} left-overs removed",
        sum("offhook_calls_declined_total"),
        sum("offhook_ari_teardown_overrun_total"),
        sum("offhook_ari_orphans_removed_total")
    );
    for (labels, count) in last.children(PATH_FAULTS).filter(|(_, count)| *count > 0.0) {
        println!("  {count:7} audio paths at fault {labels}");
    }
}

fn compare(before: &Left, after: &Left, growth_max: f64, bars: &mut Bars) {
    println!("\n                     before    after");
    let rows: [(&str, f64, f64); 6] = [
        ("calls", before.calls, after.calls),
        ("tasks", before.tasks, after.tasks),
        ("descriptors", before.descriptors as f64, after.descriptors as f64),
        ("media legs and ports", before.media, after.media),
        ("channels in Asterisk", before.channels as f64, after.channels as f64),
        ("bridges in Asterisk", before.bridges as f64, after.bridges as f64),
    ];
    for (name, was, is) in rows {
        println!("{name:20}{was:7}{is:9}");
    }
    let [was, is] = [before.memory, after.memory].map(|bytes| bytes as f64 / MEGABYTE);
    println!("{:20}{was:7.1}{is:9.1}\n", "memory, MB");
    for (name, was, is) in rows {
        bars.bar(&format!("{name} after the calls"), &is.to_string(), &was.to_string(), is <= was, false);
    }
    grown("memory gained", [before.memory, after.memory], growth_max, bars);
}

fn grown(name: &str, [was, is]: [u64; 2], most: f64, bars: &mut Bars) {
    let grown = is.saturating_sub(was) as f64;
    let [value, bar] = [grown, most].map(|bytes| format!("{:.1} MB", bytes / MEGABYTE));
    bars.bar(name, &value, &bar, grown <= most, false);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Left =
        Left { calls: 0.0, tasks: 9.0, descriptors: 20, media: 0.0, channels: 0, bridges: 0, memory: 1 << 20 };

    /// A call that fails early is no call that has ended as it should, whoever hung up.
    #[test]
    fn an_end_is_theirs_only_if_the_side_that_should_have_ended_an_answered_call() {
        let answered = |hung_up| Outcome { status: 200, hung_up, ..Outcome::default() };
        let refused = Outcome { status: 503, ..Outcome::default() };
        let late = Outcome { gave_up: true, ..answered(Some(Side::Other)) };
        let outcomes = [answered(Some(Side::Caller)), answered(Some(Side::Other)), refused, late, Outcome::default()];
        for (ends, theirs) in [(Ends::ByCaller, 0), (Ends::ByEngine, 1), (Ends::Unanswered, 2)] {
            let found: Vec<usize> = (0..outcomes.len()).filter(|at| is_theirs(ends, &outcomes[*at])).collect();
            assert_eq!(found, [theirs], "{ends:?}");
        }
    }

    #[test]
    fn an_end_that_is_counted_for_another_reason_is_seen() {
        let ways = ways::of(&["echo-a".into(), "lost-a".into(), "at_once-a".into(), "declined".into()]).unwrap();
        let tallies = vec![Tally { calls: 3, ..Tally::default() }; 4];
        let expected = expected(&ways, &tallies, 2);
        let counted = |hung_up, abandoned, closed, others| {
            let counts = [("caller_hung_up", hung_up), ("caller_abandoned", abandoned), ("agent_closed", closed)];
            let all = counts.into_iter().chain([("setup_bridge", others)]);
            all.map(|(reason, count)| (reason.to_owned(), count)).collect()
        };
        assert_eq!(counted_wrongly(&expected, &counted(7, 1, 3, 0)), 0);
        assert_eq!(counted_wrongly(&expected, &counted(5, 3, 3, 0)), 0);
        assert_eq!(counted_wrongly(&expected, &counted(8, 0, 2, 1)), 2, "one is lacking, and one has another reason");
        assert_eq!(counted_wrongly(&expected, &counted(4, 3, 3, 0)), 1);
    }

    #[test]
    fn one_of_anything_that_did_not_come_back_is_seen() {
        assert!(NOTHING.is_back_to(&NOTHING));
        for left in [
            Left { calls: 1.0, ..NOTHING },
            Left { tasks: 10.0, ..NOTHING },
            Left { descriptors: 21, ..NOTHING },
            Left { media: 1.0, ..NOTHING },
            Left { channels: 1, ..NOTHING },
            Left { bridges: 1, ..NOTHING },
        ] {
            assert!(!left.is_back_to(&NOTHING), "{left:?}");
            let mut bars = Bars::default();
            compare(&NOTHING, &left, GROWTH_MAX, &mut bars);
            assert_eq!(format!("{bars:?}"), "Bars { missed: 1 }", "{left:?}");
        }
        let mut bars = Bars::default();
        let memory = NOTHING.memory + GROWTH_MAX as u64;
        compare(&NOTHING, &Left { memory, ..NOTHING }, GROWTH_MAX, &mut bars);
        assert_eq!(format!("{bars:?}"), "Bars { missed: 0 }");
        compare(&NOTHING, &Left { memory: memory + 1, ..NOTHING }, GROWTH_MAX, &mut bars);
        assert_eq!(format!("{bars:?}"), "Bars { missed: 1 }");
    }
}
