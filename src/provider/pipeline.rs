//! STT → LLM → TTS as one agent: a listener writes down what the caller says, a model answers, a voice speaks.
//!
//! Everything streams. The [conductor](conductor) decides, without I/O; [`run`] carries its decisions to the services of the
//! three stages and what they say back. Each stage has fall-backs, and a breaker for each of its services.
//!
//! The engine finds the caller's turns, so a pipeline works in contexts with `turns.owner: offhook` only.

mod answer;
mod clauses;
mod conductor;
mod floor;
mod history;
mod kept;
mod options;
mod questions;
mod ranks;
mod run;
mod steps;
mod summaries;
#[cfg(test)]
mod tests;

use super::{Agent, AgentSetup, Among, Embedded, Provider, ProviderKind};
use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, AgentTraits},
    config::{OptionProblem, ProviderConfig, Services},
    llm::{MODELS, Model},
    remote::{
        checks,
        kinds::{self, Kind},
    },
    speech::{VOICES, Voice},
    stt::{LISTENERS, Listener},
    tool::schemas::Dialect,
};
use conductor::Conductor;
use futures_util::{FutureExt as _, future::BoxFuture};
use history::History;
use options::{Names, Options, TurnEnd};
use questions::Questions;
use ranks::{Rank, Ranks};
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
    build: |options, among| Ok(Arc::new(made(options, among)?)),
};

fn made(options: &Value, among: &Among<'_>) -> Result<Pipeline, Vec<OptionProblem>> {
    let options: Options = checks::read(options)?;
    let Services { stt, llm, voices } = among.services;
    let mut problems = Vec::new();
    let mut stage = Stage { among, path: "stt", section: "stt", problems: &mut problems };
    let listeners = stage.ranks(LISTENERS, stt, &options.stt, |one| (one.kind(), one.retries()));
    (stage.path, stage.section) = ("llm", "llm");
    let models = stage.ranks(MODELS, llm, &options.llm, |one| (one.kind(), one.retries()));
    (stage.path, stage.section) = ("tts", "voices");
    let voices = stage.ranks(VOICES, voices, &options.tts, |one| (one.kind(), one.retries()));
    let dialects: Vec<Dialect> = models.services().map(Model::dialect).collect();
    let Some(dialect) = dialects.first().copied().filter(|_| problems.is_empty()) else { return Err(problems) };
    if dialects.iter().any(|other| *other != dialect) {
        return Err(vec![OptionProblem::new(
            "llm",
            "these models cannot stand in for each other: they are told tools differently",
        )]);
    }
    let ends_turns = options.turn == TurnEnd::Listener;
    if ends_turns && let Some(at) = listeners.services().position(|listener| !listener.ends_turns()) {
        let message = format!("stt.{} does not tell where a turn ends", options.stt.all()[at]);
        let problem = OptionProblem::new("turn", message);
        return Err(vec![problem.hint(
            "write turn: local, or take a listener that does: deepgram_listen with a model of Flux, or with endpointing_ms",
        )]);
    }
    // The others are asked when it fails, and are waited for a moment in vain if they have told theirs.
    let words_on_request = listeners.services().next().is_some_and(Listener::words_on_request);
    let takes_keys = models.services().all(Model::takes_keys);
    // Whoever takes the call over relies on a summary; for what is too long, any model is better than none.
    let summarises = options.summaries && models.services().all(Model::summarises);
    let sums_up = options.summaries && models.services().any(Model::summarises);
    Ok(Pipeline {
        stages: Arc::new(Stages { listeners, models, voices }),
        context_chars: options.context_chars,
        dialect,
        takes_keys,
        summarises,
        sums_up,
        ends_turns,
        words_on_request,
    })
}

/// A stage that is being made.
struct Stage<'a> {
    among: &'a Among<'a>,
    /// Where it is among the options.
    path: &'static str,
    /// Where its services are in the configuration.
    section: &'static str,
    problems: &'a mut Vec<OptionProblem>,
}

impl Stage<'_> {
    /// Its services, in their order. `about` tells the kind of one, and how often it may be asked again.
    fn ranks<T: ?Sized>(
        &mut self,
        table: &[Kind<T>],
        configured: &BTreeMap<String, ProviderConfig>,
        names: &Names,
        about: fn(&T) -> (&'static str, u32),
    ) -> Ranks<T> {
        let mut ranks = Vec::new();
        for name in names.all() {
            let Some(ProviderConfig { kind, options }) = configured.get(&name) else {
                self.problems.push(OptionProblem::new(self.path, format!("there is no \"{name}\"")));
                continue;
            };
            match kinds::build(table, kind, options) {
                Ok(service) => {
                    let (kind, retries) = about(&service);
                    ranks.push(Rank::new(service, self.among.wards.ward(self.section, &name, kind), retries));
                }
                Err(found) => {
                    let path = self.path;
                    self.problems.extend(found.into_iter().map(|problem| told_of(path, &name, kind, problem)));
                }
            }
        }
        Ranks::new(ranks)
    }
}

/// What is wrong with a service, as the pipeline tells it that names it.
fn told_of(path: &str, name: &str, kind: &str, problem: OptionProblem) -> OptionProblem {
    let at = [name, kind, &problem.path].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
    OptionProblem { path: path.into(), message: format!("{at}: {}", problem.message), hint: problem.hint }
}

/// What fails at once and is asked again takes time as well, and so does every word on its way.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Shared by all calls.
struct Stages {
    listeners: Ranks<dyn Listener>,
    models: Ranks<dyn Model>,
    voices: Ranks<dyn Voice>,
}

impl Stages {
    /// Each service in its turn says nothing, and the pipeline knows when: the call only sees to it that this has an end.
    fn answer_max(&self) -> Duration {
        self.listeners.silence_max(run::TIMES_HEARD, Listener::turn_max)
            + self.models.silence_max(1, Model::word_max)
            + self.voices.silence_max(1, Voice::first_sound_max)
            + AT_ONCE
    }

    /// The model goes on late, and then the voice speaks that late.
    fn gap_max(&self) -> Duration {
        let word_max = self.models.services().map(Model::word_max).max().unwrap_or_default();
        word_max + self.voices.silence_max(1, Voice::first_sound_max) + AT_ONCE
    }
}

struct Pipeline {
    stages: Arc<Stages>,
    context_chars: usize,
    dialect: Dialect,
    takes_keys: bool,
    /// The record of a call, for another agent.
    summarises: bool,
    /// Its own history, beyond `context_chars`.
    sums_up: bool,
    ends_turns: bool,
    words_on_request: bool,
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
            summarises: self.summarises,
            ends_turns: self.ends_turns,
            words_on_request: self.words_on_request,
            finishes_answers: true,
            answer_max: self.stages.answer_max(),
            gap_max: self.stages.gap_max(),
            transcribes: true,
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
        let questions = Questions::new(setup.tools, setup.call.to_string(), setup.sentences);
        let conductor = Conductor::new(history, questions, self.sums_up);
        run::play(Arc::clone(&self.stages), conductor, setup.leg, ready_max, commands, events).boxed()
    }
}
