//! Deepgram Voice Agent.
//!
//! Protocol: <https://developers.deepgram.com/reference/voice-agent/voice-agent>
//!
//! What a reader of the vendor's pages would not expect:
//!
//! - `SettingsApplied` repeats nothing of what was asked, so there is nothing to compare. One byte of
//!   audio before it ends the session.
//! - Nothing on the wire has an id: answers are told apart by `AgentStartedSpeaking`,
//!   `AgentAudioDone` and `UserStartedSpeaking`, and get ids of ours.
//! - No message says that the caller has stopped speaking; the first sign is their text or the
//!   agent's answer.
//! - With Flux as its listener it can be told the end of a turn (`ForceEndTurn`), and be kept from finding it itself. It finds
//!   the beginning in any case; an end that comes before it is passed over in silence, so it is told again.
//!   One that finds an end all the same, and answers while the caller is silent, is right: nothing more is told of that turn.
//!   A server that cannot be told (`FORCE_END_TURN_UNSUPPORTED`) is of no use where offhook owns the turns.
//! - `InjectUserMessage` comes back as a text of the caller. It must never pass for their words.
//! - `UpdatePrompt` adds to the prompt and does not replace it, by its own page, by that of `UpdateThink` and by the changelog of
//!   2026-02-25: <https://developers.deepgram.com/docs/voice-agent-update-prompt>. The vendor's own models take 25,000 characters.
//! - `InjectAgentMessage` and `InjectUserMessage` are refused while somebody speaks.
//! - Function calls may be made before the caller's turn is certain, and taken back; so each asks for
//!   `defer_until_eot`, since nothing tells here which of them can be undone.
//! - `Error` ends the session, `Warning` never does.
//! - A session lasts 2 hours at most, and some ten seconds without a message from us.

mod codec;
mod options;
mod server;
#[cfg(test)]
mod tests;

use super::{Agent, AgentSetup, Codec, Dial, Provider, ProviderKind, Remote, SessionFormats, WebSocketDial};
use crate::{audio::Format, call::AgentTraits, remote::checks, tool::schemas::Dialect};
use codec::AgentCodec;
use options::Options;
use secrecy::{ExposeSecret, SecretString};
use std::{sync::Arc, time::Duration};

/// The vendor's limit, whatever the traffic.
const SESSION_MAX: Duration = Duration::from_secs(2 * 60 * 60);

pub(super) const KIND: ProviderKind = ProviderKind {
    kind: "deepgram_agent",
    summary: "Deepgram Voice Agent over WebSocket",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: |_| Vec::new(),
    names: |_| Vec::new(),
    build: |options, _| Ok(Arc::new(VoiceAgent { options: Arc::new(checks::read(options)?) })),
};

struct VoiceAgent {
    options: Arc<Options>,
}

impl Provider for VoiceAgent {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn traits(&self) -> AgentTraits {
        let listen = &self.options.listen;
        AgentTraits {
            detects_speech: true,
            cancels_on_speech: true,
            takes_turns: listen.takes_turns(),
            end_found_max: listen.end_max(),
            transcribes: true,
            ..AgentTraits::PLAIN
        }
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Deepgram)
    }

    fn agent(&self) -> Agent<'_> {
        Agent::Remote(self)
    }
}

impl Remote for VoiceAgent {
    /// Any leg's format is one of the vendor's.
    fn formats(&self, leg: Format) -> SessionFormats {
        SessionFormats { input: leg, output: leg }
    }

    fn session_max(&self) -> Option<Duration> {
        super::lasting(self.options.session_seconds).or(Some(SESSION_MAX))
    }

    fn dial(&self, _: &AgentSetup) -> Dial {
        let token = format!("Token {}", self.options.api_key.expose_secret());
        let headers = vec![("authorization", SecretString::from(token))];
        Dial::WebSocket(WebSocketDial { url: self.options.base_url.clone(), headers })
    }

    fn codec(&self, setup: &AgentSetup) -> Box<dyn Codec> {
        Box::new(AgentCodec::new(&self.options, setup, self.formats(setup.leg)))
    }
}
