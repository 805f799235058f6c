//! Clocks that jump under the engine: its wall clock is set by an hour and by a day, and all of the machine stands still for
//! some seconds. Each time with three calls on the line: nobody speaks in the first one, the agent in the second, and a
//! tool runs in the third.

use crate::providers::{
    agents::Agents,
    desk::{Desk, Setting},
    ear::Caller,
    kit::{
        stages::{Stages, voice},
        vendor::{Dialect, Scenario, hertz},
        virtual_time::{set_wall_clock, stand_still},
    },
    ms,
    tools::look_up,
};
use jiff::{SignedDuration, Timestamp};
use offhook::wall_clock;
use serde_json::Value;
use std::time::Duration;

const ANSWER: Duration = ms(4_000);
/// As long as a virtual machine that is moved may stand still.
const STOPPED: Duration = ms(3_000);
/// No call here lasts for so long; a figure above it has seen a clock jump.
const MAD: f64 = 600.0;

struct Scene {
    agents: Agents,
    desk: Desk,
    idle: Caller,
    hears: Caller,
    waits: Caller,
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
        let desk = agents.desk(Setting { more: "no_input: { after: 5m }", ..Setting::default() }).await;
        let call = async |session: usize| {
            let (caller, pitch) = (desk.call().await, agents.pitch(session));
            caller.hears(pitch, ms(900)).await;
            caller.hears_nothing_for(ms(300)).await;
            caller
        };
        let (idle, hears, waits) = (call(1).await, call(2).await, call(3).await);
        Self { agents, desk, idle, hears, waits }
    }

    /// Brings each call into its state, lets something happen, and sees that each goes on.
    async fn goes_on_after(&self, what: &str, lookup: usize, happens: impl Future<Output = ()>) {
        let Self { agents, desk, idle, hears, waits } = self;
        let service = &desk.service;
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
        let Self { agents, desk, idle, hears, waits } = self;
        let callers = [idle, hears, waits];
        // By the order of their ends, newest first.
        let mut lengths = Vec::new();
        for (ended, caller) in callers.iter().enumerate() {
            assert!(!caller.look(|tape| tape.over), "{:?}", caller.look(|tape| format!("{tape:?}")));
            lengths.insert(0, caller.now().as_secs_f64());
            caller.hang_up();
            desk.has_ended(ended + 1).await;
        }
        let page = desk.page("calls").await;
        let page: Value = serde_json::from_str(&page).expect("JSON");
        let records = page["recent"].as_array().expect("a list");
        assert_eq!(records.len(), callers.len(), "{page}");
        for (record, length) in records.iter().zip(lengths) {
            assert_eq!(record["reason"]["label"], "caller_hung_up", "{record}");
            let seconds = record["seconds"].as_f64().expect("a number");
            assert!((seconds - length).abs() <= 1.0, "{seconds} s, where the caller counted {length}: {record}");
            let connected = record["usage"][0]["connected_seconds"].as_f64().unwrap_or(length);
            assert!((connected - length).abs() <= 3.0, "{connected} s of {length}: {record}");
        }
        assert_eq!(agents.listens().sessions(), callers.len(), "nobody was replaced");
        assert_eq!(desk.metric("offhook_agent_losses_total"), 0.0);
        let missed = desk.metric("offhook_slots_missed_total");
        assert!((slots_missed..=slots_missed + 60.0).contains(&missed), "{missed} slots missed, not {slots_missed}");
        let metrics = desk.page("metrics").await;
        let times = metrics.lines().filter(|line| {
            line.starts_with("offhook_") && (line.contains("_seconds_sum") || line.contains("_seconds_total"))
        });
        let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        let mad: Vec<&str> =
            times.filter(|line| !value(line).is_some_and(|value| (0.0..MAD).contains(&value))).collect();
        assert!(mad.is_empty(), "{mad:#?}");
        agents.listens().is_content();
    }
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
    let real = wall_clock::now();
    scene.goes_on_after("an hour ahead", 1, is_set_by(real, 3_600)).await;
    scene.goes_on_after("a day back", 2, is_set_by(real, 3_600 - 86_400)).await;
    scene.ends_in_order(0.0).await;
}

/// So many seconds before or after what it would show; the engine reads it so.
async fn is_set_by(real: Timestamp, seconds: i64) {
    set_wall_clock(SignedDuration::from_secs(seconds));
    let off = wall_clock::now().duration_since(real).as_secs() - seconds;
    assert!((0..600).contains(&off), "{off} s beside what it was set to");
}

async fn stands_still(scene: Scene) {
    scene.goes_on_after("standing still", 1, stand_still(STOPPED)).await;
    // A late engine sends the last 100 ms at once, and gives up the slots before.
    scene.ends_in_order(3.0 * 140.0).await;
}
