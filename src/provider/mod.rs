//! AI providers: one file each, all behind [`Provider`] and [`Codec`].
//!
//! A codec is pure: it turns [`AgentCommand`]s into wire messages and wire messages into
//! [`AgentEvent`]s for one call. The [session](session) that all providers share owns the socket,
//! the attempts, the deadlines and the sample conversion.

use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, AgentTraits},
    facts::CallId,
    tool::ToolSpec,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use std::sync::Arc;
use tokio::sync::mpsc;

/// One configured provider, made when a configuration is loaded and shared by all its calls.
pub trait Provider: Send + Sync {
    fn traits(&self) -> AgentTraits;
    /// The formats of a session for a leg of this format: the leg's own where the provider speaks
    /// it, so that bytes pass through untouched.
    fn formats(&self, leg: Format) -> SessionFormats;
    fn dial(&self, setup: &AgentSetup) -> Dial;
    fn codec(&self, setup: &AgentSetup) -> Box<dyn Codec>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionFormats {
    /// Caller → provider.
    pub input: Format,
    /// Provider → caller.
    pub output: Format,
}

/// What one call asks of its agent.
#[derive(Debug, Clone)]
pub struct AgentSetup {
    pub call: CallId,
    /// The prompt, its placeholders already filled.
    pub instructions: String,
    /// Exactly the tools of the call's context.
    pub tools: Arc<[ToolSpec]>,
    /// The format of the leg.
    pub leg: Format,
}

/// How to reach the provider.
pub enum Dial {
    WebSocket(WebSocketDial),
    /// The provider lives in this process: a task that speaks to the codec over two channels.
    /// It ends when its receiver ends.
    Embedded(Box<dyn FnOnce(mpsc::Receiver<Wire>, mpsc::Sender<Wire>) -> BoxFuture<'static, ()> + Send>),
}

#[derive(Debug, Clone)]
pub struct WebSocketDial {
    pub url: String,
    /// Secrets travel in headers only, never in the address.
    pub headers: Vec<(&'static str, SecretString)>,
}

/// One message on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wire {
    Text(String),
    Binary(Bytes),
}

/// Bytes ⇄ vocabulary for one session, without I/O and without a clock. Audio in both directions
/// is in the session's [`SessionFormats`]; the session converts from and to the leg's format.
pub trait Codec: Send {
    /// What to send when the connection stands, before the provider said anything.
    fn open(&mut self, out: &mut Vec<Wire>);
    fn encode(&mut self, command: AgentCommand, out: &mut Vec<Wire>);
    /// `replies` takes what the protocol itself wants answered (`session.update` after
    /// `session.created`, say).
    fn decode(&mut self, wire: Wire, events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>);
    /// What a close frame of the provider means.
    fn closed(&self, code: Option<u16>, reason: &str) -> AgentLoss;
    /// What a refused WebSocket upgrade means.
    fn refused(&self, status: u16) -> AgentLoss;
}
