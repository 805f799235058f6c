//! STT → LLM → TTS as one agent: a listener writes down what the caller says, a model answers, a voice speaks.
//!
//! Everything streams. The [conductor](conductor) decides, without I/O; [`run`] carries its decisions to the services of the
//! three stages and what they say back. Each stage has fall-backs, and a breaker for each of its services.
//!
//! The engine finds the caller's turns, so a pipeline works in contexts with `turns.owner: offhook` only.

mod answer;
mod clauses;
mod conductor;
mod history;
mod options;
mod ranks;
mod run;
#[cfg(test)]
mod tests;

use super::{Agent, AgentSetup, Embedded, Provider, ProviderKind};
use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, AgentTraits},
    config::{OptionProblem, ProviderConfig, Services},
    llm::{MODELS, Model},
    remote::{
        checks,
        health::Health,
        kinds::{self, Kind},
    },
    speech::{VOICES, Voice},
    stt::{LISTENERS, Listener},
    tool::schemas::Dialect,
};
use conductor::Conductor;
use futures_util::{FutureExt as _, future::BoxFuture};
use history::History;
use options::Options;
use ranks::Ranks;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::mpsc;

pub(super) const KIND: ProviderKind = ProviderKind {
    kind: "pipeline",
    summary: "A listener, a model and a voice of your choice, one after the other",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: |_| Vec::new(),
    names: options::names,
    build,
};

fn build(options: &Value, services: &Services) -> Result<Arc<dyn Provider>, Vec<OptionProblem>> {
    let options: Options = checks::read(options)?;
    let health = Arc::new(Health::default());
    let mut problems = Vec::new();
    let listeners = stage("stt", LISTENERS, &services.stt, &options.stt.all(), &mut problems);
    let models = stage("llm", MODELS, &services.llm, &options.llm.all(), &mut problems);
    let voices = stage("tts", VOICES, &services.voices, &options.tts.all(), &mut problems);
    let dialects: Vec<Dialect> = models.iter().map(|(_, model)| model.dialect()).collect();
    let Some(dialect) = dialects.first().copied().filter(|_| problems.is_empty()) else { return Err(problems) };
    if dialects.iter().any(|other| *other != dialect) {
        return Err(vec![OptionProblem::new(
            "llm",
            "these models cannot stand in for each other: they are told tools differently",
        )]);
    }
    let takes_keys = models.iter().all(|(_, model)| model.takes_keys());
    Ok(Arc::new(Pipeline {
        stages: Arc::new(Stages {
            listeners: Ranks::new("stt", listeners, Arc::clone(&health)),
            models: Ranks::new("llm", models, Arc::clone(&health)),
            voices: Ranks::new("voices", voices, health),
        }),
        context_chars: options.context_chars,
        dialect,
        takes_keys,
    }))
}

/// The services of one stage, in their order.
fn stage<T: ?Sized>(
    path: &str,
    table: &[Kind<T>],
    configured: &BTreeMap<String, ProviderConfig>,
    names: &[String],
    problems: &mut Vec<OptionProblem>,
) -> Vec<(String, Arc<T>)> {
    let mut services = Vec::new();
    for name in names {
        let Some(ProviderConfig { kind, options }) = configured.get(name) else {
            problems.push(OptionProblem::new(path, format!("there is no \"{name}\"")));
            continue;
        };
        match kinds::build(table, kind, options) {
            Ok(service) => services.push((name.clone(), service)),
            Err(found) => problems.extend(found.into_iter().map(|problem| {
                let at = [&**name, kind, &problem.path]
                    .into_iter()
                    .filter(|part| !part.is_empty())
                    .collect::<Vec<_>>()
                    .join(".");
                OptionProblem { path: path.into(), message: format!("{at}: {}", problem.message), hint: problem.hint }
            })),
        }
    }
    services
}

/// Shared by all calls.
struct Stages {
    listeners: Ranks<dyn Listener>,
    models: Ranks<dyn Model>,
    voices: Ranks<dyn Voice>,
}

struct Pipeline {
    stages: Arc<Stages>,
    context_chars: usize,
    dialect: Dialect,
    takes_keys: bool,
}

impl Provider for Pipeline {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn traits(&self) -> AgentTraits {
        AgentTraits {
            truncates: true,
            takes_turns: true,
            overhears: true,
            takes_keys: self.takes_keys,
            ..AgentTraits::PLAIN
        }
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(self.dialect)
    }

    fn agent(&self) -> Agent<'_> {
        Agent::Embedded(self)
    }
}

impl Embedded for Pipeline {
    fn play(
        &self,
        setup: AgentSetup,
        ready_max: Duration,
        commands: mpsc::Receiver<AgentCommand>,
        events: mpsc::Sender<AgentEvent>,
    ) -> BoxFuture<'static, Option<AgentLoss>> {
        let history = History::new(setup.instructions, self.context_chars);
        let conductor = Conductor::new(history, setup.tools, setup.call.to_string());
        run::play(Arc::clone(&self.stages), conductor, setup.leg, ready_max, commands, events).boxed()
    }
}
