//! A toy of a vendor: µ-law in binary frames both ways, a few words of JSON besides.
//!
//! Server: `{"type":"hello"}` first; `{"type":"heard","text":…}` with the caller's words, which end their
//! turn; `{"type":"say","id":…}`, then audio, then `{"type":"said","text":…}`.
//! Client: `{"type":"begin","prompt":…}` to the hello; `{"type":"speak","about":…}`; `{"type":"stop"}`.

use offhook::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, AgentTraits, Noise, Reply, ResponseId, ResponseStatus, Speaker},
    config::OptionProblem,
    provider::{Agent, AgentSetup, Codec, Dial, Provider, ProviderKind, Remote, SessionFormats, WebSocketDial, Wire},
    remote::checks::{self, Checked},
    remote::json::text,
    tool::schemas::Dialect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

pub const KIND: ProviderKind = ProviderKind {
    kind: "toy",
    summary: "A toy that shows how a provider is added",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: |_| Vec::new(),
    names: |_| Vec::new(),
    build: |options, _| Ok(Arc::new(Toy(checks::read(options)?))),
};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    /// Where the toy listens.
    base_url: String,
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        Vec::from_iter(checks::web_socket("base_url", &self.base_url, "wss://toy.example"))
    }
}

struct Toy(Options);

impl Provider for Toy {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn traits(&self) -> AgentTraits {
        AgentTraits { detects_speech: true, ..AgentTraits::PLAIN }
    }

    fn dialect(&self) -> Option<Dialect> {
        None
    }

    fn agent(&self) -> Agent<'_> {
        Agent::Remote(self)
    }
}

impl Remote for Toy {
    fn formats(&self, _: Format) -> SessionFormats {
        SessionFormats { input: Format::ULAW, output: Format::ULAW }
    }

    fn dial(&self, _: &AgentSetup) -> Dial {
        Dial::WebSocket(WebSocketDial { url: self.0.base_url.clone(), headers: Vec::new() })
    }

    fn codec(&self, setup: &AgentSetup) -> Box<dyn Codec> {
        Box::new(ToyCodec { prompt: setup.instructions.clone(), saying: None })
    }
}

struct ToyCodec {
    prompt: String,
    saying: Option<ResponseId>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum FromToy {
    Hello,
    Heard { text: String },
    Say { id: String },
    Said { text: String },
}

impl Codec for ToyCodec {
    fn open(&mut self, _: &mut Vec<Wire>) {}

    fn encode(&mut self, command: AgentCommand, out: &mut Vec<Wire>) {
        out.push(match command {
            AgentCommand::Audio(audio) => Wire::Binary(audio),
            AgentCommand::Greet { text: Some(about) } | AgentCommand::Say { text: about } => {
                text(&json!({ "type": "speak", "about": about }))
            }
            AgentCommand::Tell { text: about, reply: Reply::Wanted } => {
                text(&json!({ "type": "speak", "about": about }))
            }
            AgentCommand::Greet { text: None } => text(&json!({ "type": "speak", "about": "Greet the caller." })),
            AgentCommand::Interrupt { .. } => text(&json!({ "type": "stop" })),
            // It has no tools, remembers nothing, and finds the turns itself.
            _ => return,
        });
    }

    fn decode(&mut self, wire: Wire, events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) {
        let message = match wire {
            Wire::Binary(audio) => {
                let spoken = self.saying.clone().map(|id| AgentEvent::Audio { response: id.clone(), item: id, audio });
                return events.push(spoken.unwrap_or(AgentEvent::Noise(Noise::HarmlessError)));
            }
            Wire::Text(message) => serde_json::from_str(&message),
        };
        match message {
            Ok(FromToy::Hello) => {
                replies.push(text(&json!({ "type": "begin", "prompt": self.prompt })));
                events.push(AgentEvent::Ready);
            }
            Ok(FromToy::Heard { text }) => {
                events.push(AgentEvent::Transcript { speaker: Speaker::Caller, text, utterance: None });
                events.push(AgentEvent::CallerSpeechStopped);
            }
            Ok(FromToy::Say { id }) => {
                self.saying = Some(id.as_str().into());
                events.push(AgentEvent::ResponseStarted { response: id.into() });
            }
            Ok(FromToy::Said { text }) => {
                let Some(response) = self.saying.take() else { return };
                events.push(AgentEvent::Transcript { speaker: Speaker::Agent, text, utterance: None });
                events.push(AgentEvent::ResponseDone { response, status: ResponseStatus::Completed });
            }
            Err(_) => events.push(AgentEvent::Noise(Noise::Malformed)),
        }
    }

    fn closed(&self, _: Option<u16>, _: &str) -> AgentLoss {
        AgentLoss::Closed
    }

    fn refused(&self, status: u16) -> AgentLoss {
        if matches!(status, 401 | 403) { AgentLoss::Unauthorized } else { AgentLoss::Unreachable }
    }
}
