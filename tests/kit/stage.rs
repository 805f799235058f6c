//! The call's side of one session with a provider, without an engine: commands in, events out.

use offhook::{
    audio::Format,
    call::{AgentCommand, AgentEvent},
    facts::CallId,
    provider::{self, AgentSetup, Provider, ProviderCounters, SessionPolicy},
};
use prometheus::Registry;
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};

const PATIENCE: Duration = Duration::from_secs(10);

pub struct Stage {
    pub commands: mpsc::Sender<AgentCommand>,
    pub events: mpsc::Receiver<AgentEvent>,
    pub task: tokio::task::JoinHandle<()>,
}

impl Stage {
    pub fn with(kind: &str, options: &Value, leg: Format) -> Self {
        Self::of(provider::build(kind, options).expect("good options"), leg)
    }

    pub fn of(provider: Arc<dyn Provider>, leg: Format) -> Self {
        let setup = AgentSetup { instructions: "Be brief.".into(), ..AgentSetup::new(CallId::random(), leg) };
        let counters = Arc::new(ProviderCounters::new(&Registry::new()).expect("a fresh registry"));
        let policy = SessionPolicy { handshake_max: Duration::from_secs(1), ..SessionPolicy::default() };
        let (commands, command_receiver) = mpsc::channel(64);
        let (event_sender, events) = mpsc::channel(64);
        let task = tokio::spawn(provider::run(provider, setup, command_receiver, event_sender, policy, counters));
        Self { commands, events, task }
    }

    pub async fn next(&mut self) -> AgentEvent {
        let event = timeout(PATIENCE, self.events.recv()).await.expect("an event in time");
        event.expect("an event before the end of the session")
    }

    /// The next event that is no audio.
    pub async fn next_but_audio(&mut self) -> AgentEvent {
        loop {
            match self.next().await {
                AgentEvent::Audio { .. } => {}
                event => return event,
            }
        }
    }

    /// Everything until the session ends.
    pub async fn rest(&mut self) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        while let Some(event) = timeout(PATIENCE, self.events.recv()).await.expect("the end in time") {
            events.push(event);
        }
        events
    }

    pub async fn tell(&self, command: AgentCommand) {
        self.commands.send(command).await.expect("the session stands");
    }

    pub async fn is_ready(&mut self) {
        assert_eq!(self.next().await, AgentEvent::Ready);
    }
}
