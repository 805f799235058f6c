//! What the tests of all codecs need to talk to one.

use super::{AgentSetup, Codec, Wire};
use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent},
    facts::CallId,
    sentences::{Language, Sentences},
    tool::schemas::{Dialect, ToolText},
};
use serde_json::{Value, json};

/// A call with a prompt and one tool, in a German context.
pub(super) fn setup(dialect: Dialect, tool: &str, leg: Format) -> AgentSetup {
    let parameters = json!({ "type": "object", "properties": { "to": { "type": "string" } } });
    let text = ToolText { name: tool, description: "Hands the caller on.", parameters: &parameters };
    let tools = [dialect.render(text).expect("it can be told")];
    let (instructions, sentences) = ("Be brief.".into(), Sentences::of(Language::German).into());
    AgentSetup { instructions, sentences, tools: tools.into(), ..AgentSetup::new(CallId::random(), leg) }
}

/// What is sent when the connection stands.
pub(super) fn open(codec: &mut dyn Codec) -> Vec<Value> {
    let mut out = Vec::new();
    codec.open(&mut out);
    values(out)
}

/// What becomes of a message of the server: events and replies.
pub(super) fn hear(codec: &mut dyn Codec, wire: Wire) -> (Vec<AgentEvent>, Vec<Value>) {
    let (mut events, mut replies) = (Vec::new(), Vec::new());
    codec.decode(wire, &mut events, &mut replies);
    (events, values(replies))
}

/// What becomes of a command.
pub(super) fn tell(codec: &mut dyn Codec, command: AgentCommand) -> Vec<Value> {
    let mut out = Vec::new();
    codec.encode(command, &mut out);
    values(out)
}

/// Messages as JSON; bytes are an object with the one key `binary`.
pub(super) fn values(wires: Vec<Wire>) -> Vec<Value> {
    let value = |wire| match wire {
        Wire::Text(text) => serde_json::from_str(&text).expect("JSON"),
        Wire::Binary(bytes) => json!({ "binary": bytes.as_ref() }),
    };
    wires.into_iter().map(value).collect()
}
