//! The provider's session of a call, and how one is begun.

use super::{Shared, generation::Generation, opening};
use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, Handover, TurnOwner},
    config::{Context, prompt},
    facts::{CallFacts, Residency},
    provider::{self, AgentSetup, Meter, Opens, Provider, SessionPolicy},
    tool::Toolbox,
};
use std::{collections::BTreeMap, future::pending, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span};

/// Caller frames and commands that may wait for the provider's session: 10 s of audio. More means
/// that the provider has stopped reading.
const AGENT_COMMANDS_MAX: usize = 512;
/// Reports of the provider's session that may wait for the call; the session waits when it is full.
const AGENT_EVENTS_MAX: usize = 64;
/// A session whose queue has been full for so long reads no more.
const STALLED_AFTER: Duration = Duration::from_secs(5);
/// A provider gets this long to take its goodbye.
const SESSION_CLOSE_MAX: Duration = Duration::from_secs(2);

/// The provider's session as its call holds it.
pub(super) struct Session {
    commands: mpsc::Sender<AgentCommand>,
    events: mpsc::Receiver<AgentEvent>,
    pub meter: Arc<Meter>,
    task: JoinHandle<()>,
    /// Since when it has taken nothing.
    refused_since: Option<Instant>,
    /// It has said its last word, or is not listened to any more.
    over: bool,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Taken,
    /// Its queue is full; the command is lost.
    Full,
    /// Its queue has been full for too long, or a command that must not be lost found it full. It is
    /// not listened to any more.
    Stalled,
}

/// What an agent is made of: whose voice, which context, which tools.
pub(super) struct Casting {
    pub context: Arc<Context>,
    pub provider: Arc<dyn Provider>,
    pub toolbox: Arc<Toolbox>,
}

/// What one session is begun with, besides.
pub(super) struct Briefing<'a> {
    /// What was said so far, for an agent that was not there.
    pub story: Option<&'a str>,
    /// The newest handle of the session that this one goes on with.
    pub resume: Option<Arc<str>>,
    pub opens: Opens,
    /// What the caller hears before it, in a sentence.
    pub heard: Option<&'a str>,
    pub policy: SessionPolicy,
}

impl Casting {
    /// `None` for a context or a provider that this generation has not.
    pub fn of(generation: &Generation, context: &str, provider: &str, ari: bool, residency: Residency) -> Option<Self> {
        let context = Arc::clone(generation.config.contexts.get(context)?);
        let provider = Arc::clone(generation.providers.get(provider)?);
        let toolbox = generation.toolbox(&context.name, ari).offered_under(residency);
        Some(Self { context, provider, toolbox })
    }

    /// Starts the session, at once: it connects while Asterisk answers.
    pub fn dial(
        &self,
        shared: &Shared,
        facts: &CallFacts,
        leg: Format,
        briefing: Briefing<'_>,
        span: &Span,
    ) -> Session {
        let Briefing { story, resume, opens, heard, policy } = briefing;
        let mut instructions = prompt::fill(&self.context.prompt, facts);
        for more in [story, heard].into_iter().flatten() {
            instructions.push_str("\n\n");
            instructions.push_str(more);
        }
        let tools = self.provider.dialect().map_or_else(|| Arc::from([]), |dialect| self.toolbox.schemas(dialect));
        // Who is told the turns and who finds them: the core reads the same two facts.
        let ours = self.context.rules.turns.owner == TurnOwner::Offhook;
        let told_turns = ours && self.provider.traits().takes_turns;
        let heard = heard.map(str::to_owned);
        let sentences = Arc::clone(&self.context.rules.sentences);
        let new = AgentSetup::new(facts.id, leg);
        let setup = AgentSetup { instructions, heard, tools, opens, told_turns, resume, sentences, ..new };
        let meter = Arc::clone(&setup.meter);
        let (commands, to_session) = mpsc::channel(AGENT_COMMANDS_MAX);
        let (from_session, events) = mpsc::channel(AGENT_EVENTS_MAX);
        let session = provider::session::run(
            Arc::clone(&self.provider),
            setup,
            to_session,
            from_session,
            policy,
            Arc::clone(&shared.provider_counters),
        );
        let task = tokio::spawn(session.instrument(span.clone()));
        Session { commands, events, meter, task, refused_since: None, over: false }
    }

    /// What the call core has to know when this agent takes over; `variables` are those of the caller's channel.
    pub fn handover(
        &self,
        generation: &Generation,
        facts: &CallFacts,
        variables: &BTreeMap<String, String>,
    ) -> Handover {
        let mut rules = self.context.rules.clone();
        rules.greeting = self.greeting(facts);
        let clips = generation.repertoire(&self.context.name).at_hand(rules.greeting.as_deref());
        Handover {
            context: self.context.name.clone(),
            rules,
            toolbox: Arc::clone(&self.toolbox),
            policy: Arc::clone(&self.context.policy.rules),
            agent: self.provider.traits(),
            clips,
            pin: opening::pin(&self.context.policy.identify, variables),
        }
    }

    /// The context's own, its placeholders filled.
    pub fn greeting(&self, facts: &CallFacts) -> Option<String> {
        self.context.greeting.as_deref().map(|greeting| prompt::fill(greeting, facts))
    }
}

impl Session {
    /// The next event; one that is over has none. May be dropped and asked again.
    pub async fn event(&mut self) -> AgentEvent {
        if self.over {
            return pending().await;
        }
        // A session always says goodbye; one that did not has crashed.
        let event = self.events.recv().await.unwrap_or(AgentEvent::Lost(AgentLoss::Protocol));
        self.over = matches!(event, AgentEvent::Lost(_));
        event
    }

    /// Another one is to carry the call on: what this one still says is not heard.
    pub fn mute(&mut self) {
        self.over = true;
    }

    /// Hands a command over without waiting.
    pub fn tell(&mut self, command: AgentCommand) -> Told {
        let audio = matches!(command, AgentCommand::Audio(_));
        // The call does without it.
        let may_fail = matches!(command, AgentCommand::Summarise { .. });
        match self.commands.try_send(command) {
            Ok(()) => self.refused_since = None,
            // A session that is gone says itself why, in its last event.
            Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                let since = *self.refused_since.get_or_insert_with(Instant::now);
                if self.over || may_fail || audio && since.elapsed() < STALLED_AFTER {
                    return Told::Full;
                }
                self.over = true;
                return Told::Stalled;
            }
        }
        Told::Taken
    }

    /// The session is told by its command queue, which goes; a provider that hangs is cut off.
    pub async fn close(self) {
        let Self { commands, events, mut task, .. } = self;
        drop((commands, events));
        if timeout(SESSION_CLOSE_MAX, &mut task).await.is_err() {
            task.abort();
        }
    }

    /// The same while the call goes on without it.
    pub fn retire(self, tasks: &TaskTracker) {
        tasks.spawn(self.close());
    }
}
