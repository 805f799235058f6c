//! The provider's session of a call, and how one is begun.

use super::{Shared, generation::Generation, opening};
use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, Clips, Handover},
    config::{Context, prompt},
    facts::CallFacts,
    provider::{self, AgentSetup, Opens, Provider, SessionPolicy},
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

/// What an agent is told as it comes in.
pub(super) struct Cue<'a> {
    /// What the caller hears before it.
    pub clips: &'a Clips,
    /// Its first words, unless a clip says them.
    pub greeting: Option<String>,
    /// What a previous agent leaves to it.
    pub story: Option<&'a str>,
}

impl Cue<'_> {
    /// The model does not hear clips: it is told what they say.
    fn heard(&self) -> Option<String> {
        let Clips { notice, greeting, .. } = self.clips;
        let spoken: Vec<&str> = [notice, greeting].into_iter().flatten().map(|spoken| spoken.text.trim()).collect();
        let then = match greeting {
            Some(_) => "The caller was greeted with them: do not greet again, and do not repeat them.",
            None => "Do not repeat them.",
        };
        let words = spoken.join(" ");
        (!words.is_empty())
            .then(|| format!("Before you speak, the caller has just heard these exact words: \"{words}\" {then}"))
    }

    fn opens(&self) -> Opens {
        if self.clips.greeting.is_some() { Opens::Waits } else { Opens::Greets(self.greeting.clone()) }
    }
}

impl Casting {
    /// The context's own provider and tools; `None` for a context that this generation has not.
    pub fn of(generation: &Generation, context: &str, ari: bool) -> Option<Self> {
        let context = Arc::clone(generation.config.contexts.get(context)?);
        let provider = Arc::clone(generation.providers.get(&context.provider)?);
        let toolbox = generation.toolbox(&context.name, ari);
        Some(Self { context, provider, toolbox })
    }

    /// Starts the session, at once: it connects while Asterisk answers.
    pub fn dial(&self, shared: &Shared, facts: &CallFacts, leg: Format, cue: Cue, span: &Span) -> Session {
        let mut instructions = prompt::fill(&self.context.prompt, facts);
        for more in [cue.story, cue.heard().as_deref()].into_iter().flatten() {
            instructions.push_str("\n\n");
            instructions.push_str(more);
        }
        let tools = self.provider.dialect().map_or_else(|| Arc::from([]), |dialect| self.toolbox.schemas(dialect));
        let setup = AgentSetup { instructions, tools, opens: cue.opens(), ..AgentSetup::new(facts.id, leg) };
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
        let clips = generation.repertoire(&self.context.name).at_hand(greeting.as_deref());
        let mut rules = self.context.rules.clone();
        rules.greeting = greeting;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{audio::Clip, call::Spoken};

    fn spoken(text: &str) -> Option<Spoken> {
        let clip = Clip::from_samples(8_000, vec![0; 8_000]).unwrap();
        Some(Spoken { text: text.into(), clip: Arc::new(clip) })
    }

    #[test]
    fn an_agent_is_told_what_the_caller_has_heard_and_does_not_greet_again() {
        let clips =
            Clips { notice: spoken("This call is recorded."), greeting: spoken("Good morning!"), ..Clips::default() };
        let cue = Cue { clips: &clips, greeting: Some("Good morning!".into()), story: None };
        let heard = cue.heard().unwrap();
        assert!(heard.contains("\"This call is recorded. Good morning!\""), "{heard}");
        assert!(heard.contains("do not greet again"), "{heard}");
        assert_eq!(cue.opens(), Opens::Waits);
    }

    #[test]
    fn after_a_notice_alone_the_agent_still_greets() {
        let clips = Clips { notice: spoken("This call is recorded."), ..Clips::default() };
        let cue = Cue { clips: &clips, greeting: Some("Good morning!".into()), story: None };
        let heard = cue.heard().unwrap();
        assert!(heard.contains("\"This call is recorded.\" Do not repeat"), "{heard}");
        assert!(!heard.contains("greet again"), "{heard}");
        assert_eq!(cue.opens(), Opens::Greets(Some("Good morning!".into())));
    }

    #[test]
    fn where_no_clip_comes_first_nothing_is_added() {
        let cue = Cue { clips: &Clips::default(), greeting: None, story: None };
        assert_eq!((cue.heard(), cue.opens()), (None, Opens::Greets(None)));
    }
}
