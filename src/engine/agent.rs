//! The provider's session of a call, and how one is begun.

use super::{Shared, generation::Generation, opening};
use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, Handover},
    config::{Context, prompt},
    facts::CallFacts,
    provider::{self, AgentSetup, Provider, SessionPolicy},
    tool::Toolbox,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tracing::{Instrument as _, Span};

/// Caller frames and commands that may wait for the provider's session: 10 s of audio. More means
/// that the provider has stopped reading.
const AGENT_COMMANDS_MAX: usize = 512;
/// Reports of the provider's session that may wait for the call; the session waits when it is full.
const AGENT_EVENTS_MAX: usize = 64;
/// For the session's last word to reach the call.
const SETUP_MARGIN: Duration = Duration::from_millis(250);
/// A provider gets this long to take its goodbye.
const SESSION_CLOSE_MAX: Duration = Duration::from_secs(2);

/// The provider's session as its call holds it.
pub(super) struct Session {
    pub commands: mpsc::Sender<AgentCommand>,
    pub events: mpsc::Receiver<AgentEvent>,
    task: JoinHandle<()>,
}

/// What an agent is made of: whose voice, which context, which tools.
pub(super) struct Casting {
    pub context: Arc<Context>,
    pub provider: Arc<dyn Provider>,
    pub toolbox: Arc<Toolbox>,
}

impl Casting {
    /// The context's own provider and tools; `None` for a context that this generation has not.
    pub fn of(generation: &Generation, context: &str, ari: bool) -> Option<Self> {
        let context = Arc::clone(generation.config.contexts.get(context)?);
        let provider = Arc::clone(generation.providers.get(&context.provider)?);
        let toolbox = generation.toolbox(&context.name, ari);
        Some(Self { context, provider, toolbox })
    }

    /// Starts the session, at once: it connects while Asterisk answers. `story` is what a previous
    /// agent leaves to this one.
    pub fn dial(&self, shared: &Shared, facts: &CallFacts, leg: Format, story: Option<&str>, span: &Span) -> Session {
        let mut instructions = prompt::fill(&self.context.prompt, facts);
        if let Some(story) = story {
            instructions.push_str("\n\n");
            instructions.push_str(story);
        }
        let tools = self.provider.dialect().map_or_else(|| Arc::from([]), |dialect| self.toolbox.schemas(dialect));
        let setup = AgentSetup { instructions, tools, ..AgentSetup::new(facts.id, leg) };
        let (commands, to_session) = mpsc::channel(AGENT_COMMANDS_MAX);
        let (from_session, events) = mpsc::channel(AGENT_EVENTS_MAX);
        // The session gives up just before the call would, so that the end reason is the session's own.
        let ready_max = self.context.rules.agent_ready_max;
        let policy = SessionPolicy { setup_max: ready_max.saturating_sub(SETUP_MARGIN), ..SessionPolicy::default() };
        let session = provider::session::run(
            Arc::clone(&self.provider),
            setup,
            to_session,
            from_session,
            policy,
            Arc::clone(&shared.provider_counters),
        );
        Session { commands, events, task: tokio::spawn(session.instrument(span.clone())) }
    }

    /// What the call core has to know when this agent takes over; `variables` are those of the caller's channel.
    pub fn handover(
        &self,
        generation: &Generation,
        facts: &CallFacts,
        variables: &BTreeMap<String, String>,
    ) -> Handover {
        let greeting = self.context.greeting.as_deref().map(|greeting| prompt::fill(greeting, facts));
        let mut rules = self.context.rules.clone();
        rules.greeting = greeting;
        Handover {
            context: self.context.name.clone(),
            rules,
            toolbox: Arc::clone(&self.toolbox),
            policy: Arc::clone(&self.context.policy.rules),
            agent: self.provider.traits(),
            clips: generation.clips(&self.context.name),
            pin: opening::pin(&self.context.policy.identify, variables),
        }
    }
}

impl Session {
    /// Nothing more is sent: the session says its goodbye.
    pub fn hush(&mut self) {
        self.commands = mpsc::channel(1).0;
    }

    /// The session is told by its command queue, which goes; a provider that hangs is cut off.
    pub async fn close(self) {
        let Self { commands, events, mut task } = self;
        drop((commands, events));
        if timeout(SESSION_CLOSE_MAX, &mut task).await.is_err() {
            task.abort();
        }
    }
}
