//! A definition as a [`Tool`].

use super::{
    definition::Definition,
    run::{CallView, Note, RunInput, Services},
};
use crate::{
    facts::CallFacts,
    tool::{Approved, Fetch, Tool, ToolOutcome, ToolSpec},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use jiff::Timestamp;
use std::sync::Arc;

pub struct DeclarativeTool {
    definition: Arc<Definition>,
    fetch: Arc<dyn Fetch>,
    now: fn() -> Timestamp,
    listener: Arc<dyn Listener>,
}

/// Hears what an outcome cannot carry.
pub trait Listener: Send + Sync {
    /// `respond` with `immediate: true`. The outcome's message does not have these words.
    fn speak_now(&self, _facts: &CallFacts, _words: &str) {}

    fn note(&self, _facts: &CallFacts, _tool: &str, _note: &Note) {}
}

/// Hears nothing.
impl Listener for () {}

impl DeclarativeTool {
    pub fn new(
        definition: Arc<Definition>,
        fetch: Arc<dyn Fetch>,
        now: fn() -> Timestamp,
        listener: Arc<dyn Listener>,
    ) -> Self {
        Self { definition, fetch, now, listener }
    }
}

impl Tool for DeclarativeTool {
    fn spec(&self) -> ToolSpec {
        self.definition.spec()
    }

    fn run(&self, call: Approved, facts: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let (definition, fetch, listener) =
            (Arc::clone(&self.definition), Arc::clone(&self.fetch), Arc::clone(&self.listener));
        let (now, facts) = (self.now, facts.clone());
        let input = input(&call, &facts);
        async move {
            let speak = |words: &str| listener.speak_now(&facts, words);
            let services = Services { fetch: Some(&*fetch), now: &now, on_immediate: &speak };
            let report = definition.run(input, services).await;
            report.notes.iter().for_each(|note| listener.note(&facts, definition.name(), note));
            report.outcome
        }
        .boxed()
    }
}

/// What an approved call brings along.
fn input(call: &Approved, facts: &CallFacts) -> RunInput {
    RunInput {
        arguments: call.arguments().clone(),
        memory: Arc::clone(call.memory()),
        call: CallView {
            id: facts.id.to_string(),
            caller_number: facts.caller_number.reveal().clone(),
            caller_name: facts.caller_name.reveal().clone(),
            context_name: facts.context.clone(),
            direction: facts.direction.label().to_owned(),
        },
        idempotency_key: call.service_key().to_owned(),
        time_left: call.time_left(),
    }
}
