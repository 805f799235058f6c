//! Who speaks with the callers of a test that is written once for all: a vendor's agent, or a pipeline's.

use crate::providers::{
    desk::{Desk, Setting, pipeline},
    ear::Caller,
    kit::{
        stages::{Stages, model},
        vendor::{Call, Dialect, Order, Scenario, Vendor, hertz},
    },
    turns::was_left_alone,
};
use std::time::Duration;

pub enum Agents {
    Vendor(Vendor),
    Stages(Box<Stages>),
}

impl Agents {
    pub async fn of<D: Dialect>(scenario: Scenario) -> Self {
        Self::Vendor(Vendor::start::<D>(scenario).await)
    }

    pub async fn of_stages(scenario: Scenario) -> Self {
        Self::Stages(Box::new(Stages::of(scenario).await))
    }

    /// The options of a provider that leads to them, and the sections of the configuration that these name.
    pub fn yaml(&self) -> (String, String) {
        match self {
            Self::Vendor(vendor) => (vendor.yaml(), String::new()),
            Self::Stages(stages) => (pipeline(&["one"], &["one"], &["one"]), Stages::sections(&[("one", stages)])),
        }
    }

    pub async fn desk(&self, setting: Setting<'_>) -> Desk {
        let (options, sections) = self.yaml();
        Desk::open(&[("first", options)], Setting { sections: &(sections + setting.sections), ..setting }).await
    }

    /// The pitch of the one in this call.
    pub fn pitch(&self, call: usize) -> f64 {
        if matches!(self, Self::Vendor(_)) { hertz(call) } else { hertz(1) }
    }

    pub fn listens(&self) -> &Vendor {
        match self {
            Self::Vendor(vendor) => vendor,
            Self::Stages(stages) => &stages.listener,
        }
    }

    /// The agent of the first call, and of the only one, says something that nobody has asked for.
    pub fn speaks(&self, desk: &Desk) {
        match self {
            Self::Vendor(vendor) => vendor.order(1, Order::Speak),
            Self::Stages(_) => {
                let calls = desk.engine.calls();
                assert!(calls.say(calls.view().active[0].call.id, "It is still open."), "the call takes words");
            }
        }
    }

    /// The agent of this call calls these, a pipeline's when it is asked something, and says something when it has the
    /// results. Since when the caller has heard and said nothing.
    pub async fn calls(&self, call: usize, caller: &Caller, calls: Vec<Call>) -> Duration {
        match self {
            Self::Vendor(vendor) => {
                vendor.order(call, Order::Call(calls));
                caller.look(|tape| tape.last_of(hertz(call), Duration::ZERO..tape.now())).expect("it has greeted")
            }
            Self::Stages(stages) => {
                stages.model.answers(move |asked| {
                    let results = asked.results();
                    match calls.iter().all(|call| results.iter().any(|(id, _)| *id == call.id)) {
                        true => model::says("There it is."),
                        false => model::calls(&calls),
                    }
                });
                caller.asks().await.end
            }
        }
    }

    /// A pipeline's agent calls nothing any more.
    pub fn calls_nothing(&self) {
        if let Self::Stages(stages) = self {
            stages.model.answers(|_| model::says("A tone."));
        }
    }

    /// Results of tools that the agent of this call was told, oldest first.
    pub fn results(&self, call: usize) -> Vec<(String, String)> {
        match self {
            Self::Vendor(vendor) => vendor.of(call, |seen| seen.results.clone()),
            Self::Stages(stages) => {
                stages.model.asked().iter().map(|asked| asked.results()).max_by_key(Vec::len).unwrap_or_default()
            }
        }
    }

    /// Turns of the caller that were answered in the only call, things that the agent has said to their end, and those that
    /// were broken off.
    pub fn conversation(&self) -> (usize, usize, usize) {
        match self {
            Self::Vendor(vendor) => vendor.of(1, |seen| (seen.turns_ended, seen.answered, seen.interrupted)),
            Self::Stages(stages) => {
                let spoken = stages.voice.asked();
                let broken = spoken.iter().filter(|asked| asked.gone).count();
                let turns = stages.model.asked().iter().map(|asked| asked.turns()).max();
                (turns.unwrap_or(0), spoken.len() - broken, broken)
            }
        }
    }

    /// The agent of the only call was not told that the caller speaks.
    pub fn was_left_alone(&self) -> bool {
        match self {
            Self::Vendor(vendor) => vendor.of(1, was_left_alone),
            Self::Stages(_) => {
                let (turns, _, broken) = self.conversation();
                (turns, broken) == (0, 0)
            }
        }
    }

    /// What the only call's vendor, or a pipeline's model, was told; for a test that fails.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Vendor(vendor) => vendor.of(1, |seen| seen.texts.clone()),
            Self::Stages(stages) => {
                stages.model.asked().iter().map(|asked| asked.body["messages"].to_string()).collect()
            }
        }
    }

    pub fn is_content(&self) {
        self.listens().is_content();
    }
}
