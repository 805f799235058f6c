//! Clocks that jump under the program, for real: its wall clock is set by an hour and by a day (libfaketime shows it
//! another one), and all of it stands still for some seconds. Each time with three calls on the line: nobody speaks in
//! the first one, the agent in the second, and a tool runs in the third.

use crate::providers::{
    agents::Agents,
    desk::{LOOK_UP, PREFIX, places},
    ear::Caller,
    kit::{
        offhook::{Launch, Offhook, Place},
        service::Service,
        stages::{Stages, voice},
        vendor::{Dialect, Scenario, hertz},
    },
    ms,
    tools::look_up,
};
use jiff::{SignedDuration, Timestamp};
use std::{fs, path::PathBuf, time::Duration};
use tempfile::TempDir;
use tokio::{
    sync::SemaphorePermit,
    time::{Instant, sleep},
};
use uuid::Uuid;

const SOON: Duration = Duration::from_secs(20);
const ASK_EVERY: Duration = ms(50);
const ANSWER: Duration = ms(4_000);
/// As long as a virtual machine that is moved may stand still.
const STOPPED: Duration = ms(3_000);
/// No call here lasts for so long; a figure above it has seen a clock jump.
const MAD: f64 = 600.0;

struct Scene {
    agents: Agents,
    service: Service,
    program: Offhook,
    /// What it takes for the difference of its clock to the machine's.
    clock: PathBuf,
    idle: Caller,
    hears: Caller,
    waits: Caller,
    _folder: TempDir,
    _places: SemaphorePermit<'static>,
}

impl Scene {
    async fn of<D: Dialect>() -> Self {
        let scenario = Scenario { greeting: Some(ms(1_000)), pace: 1.2, ..Scenario::answers(ANSWER) };
        Self::with(Agents::of::<D>(scenario).await).await
    }

    async fn of_stages() -> Self {
        let stages = Stages::start().await;
        // The first are the greetings.
        stages
            .voice
            .answers(|asked| voice::speaks_slowly(asked, hertz(1), if asked.number <= 3 { ms(1_000) } else { ANSWER }));
        Self::with(Agents::Stages(Box::new(stages))).await
    }

    async fn with(agents: Agents) -> Self {
        let (places, service) = (places(3).await, Service::start().await);
        let (place, folder) = (Place::free(), TempDir::with_prefix("offhook-clock-").expect("a temporary directory"));
        let clock = folder.path().join("clock");
        fs::write(&clock, "+0").expect("a file in the test's own folder");
        let (options, sections) = agents.yaml();
        let yaml = format!(
            "http: {{ bind: \"127.0.0.1:{}\" }}\nmedia: {{ audiosocket: {{ bind: \"127.0.0.1:{}\" }} }}\n\
             {sections}providers:\n  first: {options}\ntenants:\n  acme: {{ tools: tools, allowed_hosts: [\"{}\"], trusted: true }}\n\
             contexts:\n  front: {{ prompt: You are a test., greeting: Hello there., provider: first, tenant: acme, \
             tools: [look_up], audiosocket_id: \"0ff40001\", no_input: {{ after: 5m }} }}\n",
            place.http,
            place.audiosocket,
            service.host(),
        );
        let env = [
            ("TZ", "UTC".to_owned()),
            ("LD_PRELOAD", library().display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            // Seconds after which it looks at the file again.
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ];
        let look_up = LOOK_UP.replace("HOST", &service.host());
        let files = [("tools/look_up.yaml", look_up.as_str())];
        let program = Offhook::launch(place, &yaml, Launch { env: &env, files: &files, ..Launch::default() }).await;
        let address = program.audiosocket().parse().expect("an address");
        let call = async |session: usize| {
            let mut id = *Uuid::new_v4().as_bytes();
            id[..4].copy_from_slice(&PREFIX);
            let pitch = agents.pitch(session);
            let caller = Caller::dial(address, Uuid::from_bytes(id), vec![pitch]).await;
            caller.hears(pitch, ms(900)).await;
            caller.hears_nothing_for(ms(300)).await;
            caller
        };
        let (idle, hears, waits) = (call(1).await, call(2).await, call(3).await);
        Self { agents, service, program, clock, idle, hears, waits, _folder: folder, _places: places }
    }

    /// Brings each call into its state, lets something happen, and sees that each goes on.
    async fn goes_on_after(&self, what: &str, lookup: usize, happens: impl Future<Output = ()>) {
        let Self { agents, service, idle, hears, waits, .. } = self;
        service.holds(true);
        agents.calls(3, waits, vec![look_up(lookup)]).await;
        service.wait_requests(lookup).await;
        agents.calls_nothing();
        let asked = hears.asks().await.end;
        hears.hears_from(asked, agents.pitch(2), ms(600)).await;

        happens.await;

        let released = waits.now();
        service.holds(false);
        let said = idle.asks().await.end;
        hears.hears_from(asked, agents.pitch(2), ANSWER - ms(100)).await;
        waits.hears_from(released, agents.pitch(3), ANSWER - ms(100)).await;
        idle.hears_from(said, agents.pitch(1), ANSWER - ms(100)).await;
        for (session, caller, from) in [(1, idle, said), (2, hears, asked), (3, waits, released)] {
            caller.hears_nothing_for(ms(300)).await;
            let heard = caller.look(|tape| tape.time_of(agents.pitch(session), from));
            let story = caller.look(|tape| format!("{tape:?}"));
            assert!(heard <= ANSWER + ms(100), "{what}: {heard:?} of the answer in call {session}; {story}");
        }
        assert_eq!(agents.results(3).len(), lookup, "{what}: the tool's result came");
    }

    /// The callers hang up, and everything that was written down of their calls is in order.
    async fn ends_in_order(self, slots_missed: f64) {
        let Self { agents, program, idle, hears, waits, .. } = self;
        let callers = [idle, hears, waits];
        // By the order of their ends, newest first.
        let mut lengths = Vec::new();
        for (ended, caller) in callers.iter().enumerate() {
            assert!(!caller.look(|tape| tape.over), "{:?}", caller.look(|tape| format!("{tape:?}")));
            lengths.insert(0, caller.now().as_secs_f64());
            caller.hang_up();
            program.wait_ended(ended + 1, SOON).await;
        }
        let records = program.wait_ended(callers.len(), SOON).await;
        for (record, length) in records.iter().zip(lengths) {
            assert_eq!(record["reason"]["label"], "caller_hung_up", "{record}");
            let seconds = record["seconds"].as_f64().expect("a number");
            assert!((seconds - length).abs() <= 1.0, "{seconds} s, where the caller counted {length}: {record}");
            let connected = record["usage"][0]["connected_seconds"].as_f64().unwrap_or(length);
            assert!((connected - length).abs() <= 3.0, "{connected} s of {length}: {record}");
        }
        assert_eq!(agents.listens().sessions(), callers.len(), "nobody was replaced");
        assert_eq!(program.metric("offhook_agent_losses_total").await, 0.0);
        let missed = program.metric("offhook_slots_missed_total").await;
        assert!((slots_missed..=slots_missed + 60.0).contains(&missed), "{missed} slots missed, not {slots_missed}");
        let (_, metrics) = program.page("metrics").await;
        let times = metrics.lines().filter(|line| {
            line.starts_with("offhook_") && (line.contains("_seconds_sum") || line.contains("_seconds_total"))
        });
        let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        let mad: Vec<&str> =
            times.filter(|line| !value(line).is_some_and(|value| (0.0..MAD).contains(&value))).collect();
        assert!(mad.is_empty(), "{mad:#?}");
        agents.listens().is_content();
    }

    /// Sets the program's wall clock so far from the machine's, and waits until what it logs shows it.
    async fn set_clock(&self, seconds: i64) {
        // In one step: a file that is half written would be a third time.
        let new = self.clock.with_extension("new");
        fs::write(&new, format!("{seconds:+}")).expect("a file in the test's own folder");
        fs::rename(&new, &self.clock).expect("a file in the test's own folder");
        let until = Instant::now() + SOON;
        loop {
            // Every reload is logged, and changes nothing for calls that run.
            let (_, report) = self.program.post("reload").await;
            let log = self.program.log();
            let logged = log.lines().rfind(|line| line.contains("configuration loaded")).unwrap_or(&report);
            let at = logged.split_whitespace().next().and_then(|word| word.parse::<Timestamp>().ok());
            let late =
                at.map(|at| (Timestamp::now() + SignedDuration::from_secs(seconds)).duration_since(at).as_secs());
            if late.is_some_and(|late| (-1..=2).contains(&late)) {
                return;
            }
            assert!(Instant::now() < until, "the program's clock is not set: {late:?} s; {logged}");
            sleep(ASK_EVERY).await;
        }
    }
}

/// Shows a program another time than the machine's.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("a folder").filter_map(Result::ok);
    let mut found = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    found.find(|path| path.exists()).expect("libfaketime, which tests/lab/setup.sh all installs")
}

pub async fn a_wall_clock_that_is_set_changes_nothing<D: Dialect>() {
    is_set(Scene::of::<D>().await).await;
}

pub async fn a_machine_that_stands_still_for_seconds_costs_time_and_no_word<D: Dialect>() {
    stands_still(Scene::of::<D>().await).await;
}

/// The same of a pipeline.
pub mod of_stages {
    use super::{Scene, is_set, stands_still};

    pub async fn a_wall_clock_that_is_set_changes_nothing() {
        is_set(Scene::of_stages().await).await;
    }

    pub async fn a_machine_that_stands_still_for_seconds_costs_time_and_no_word() {
        stands_still(Scene::of_stages().await).await;
    }
}

async fn is_set(scene: Scene) {
    scene.goes_on_after("an hour ahead", 1, scene.set_clock(3_600)).await;
    scene.goes_on_after("a day back", 2, scene.set_clock(3_600 - 86_400)).await;
    scene.ends_in_order(0.0).await;
}

async fn stands_still(scene: Scene) {
    let stands_still = async {
        let since = scene.idle.now();
        scene.program.signal("STOP").await;
        scene.idle.until("it has stood still", |tape| tape.now() >= since + STOPPED).await;
        scene.program.signal("CONT").await;
    };
    scene.goes_on_after("standing still", 1, stands_still).await;
    // A late engine sends the last 100 ms at once, and gives up the slots before.
    scene.ends_in_order(3.0 * 140.0).await;
}
