//! OpenAI Realtime, the generally available interface of 2026.
//!
//! Protocol: <https://platform.openai.com/docs/api-reference/realtime>
//!
//! What a reader of the vendor's pages would not expect:
//!
//! - The server speaks first. An unknown key in `session.update` rejects all of it, and the session
//!   goes on in its defaults, 24 kHz both ways; so nothing counts before `session.updated` shows the
//!   formats that were asked for.
//! - G.711 formats carry no `rate`; linear PCM is 24 kHz only.
//! - No `OpenAI-Beta` header: it selects a retired dialect, closed with 4000.
//! - `instructions` of a response replace those of the session, so they are repeated.
//! - One response at a time: a second `response.create` is refused, and the server starts responses
//!   of its own when it hears the caller. What is wanted meanwhile waits for `response.done`.
//! - A truncation beyond the audio that was sent is an error, and a truncation at its very end costs
//!   the model the transcript for nothing.
//! - Function calls count at `response.done`: only then is their set complete.
//! - With `turn_detection: null` the server does nothing about the caller's audio until it is committed,
//!   and a commit starts no response. A commit of less than 100 ms is refused, harmlessly.
//! - A session lasts 60 minutes at most.

mod codec;
mod floor;
mod options;
mod server;
mod summary;
#[cfg(test)]
mod tests;

use super::{Agent, AgentSetup, Codec, Dial, Provider, ProviderKind, Remote, SessionFormats, WebSocketDial};
use crate::{
    audio::{Encoding, Format},
    call::AgentTraits,
    remote::checks,
};
use codec::RealtimeCodec;
use options::Options;
use secrecy::{ExposeSecret, SecretString};
use std::{sync::Arc, time::Duration};

/// The vendor's limit; the server tells its time, but too late to prepare another session.
const SESSION_MAX: Duration = Duration::from_secs(60 * 60);

pub(super) const KIND: ProviderKind = ProviderKind {
    kind: "openai_realtime",
    summary: "OpenAI Realtime over WebSocket, or a server that speaks its protocol",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: |_| Vec::new(),
    names: |_| Vec::new(),
    build: |options, _| Ok(Arc::new(Realtime { options: Arc::new(checks::read(options)?) })),
};

struct Realtime {
    options: Arc<Options>,
}

impl Provider for Realtime {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn traits(&self) -> AgentTraits {
        AgentTraits {
            detects_speech: true,
            cancels_on_speech: true,
            truncates: true,
            takes_turns: true,
            summarises: self.options.summaries,
            transcribes: self.options.transcription.is_some(),
            ..AgentTraits::PLAIN
        }
    }

    fn dialect(&self) -> Option<crate::tool::schemas::Dialect> {
        Some(crate::tool::schemas::Dialect::OpenAiRealtime)
    }

    fn agent(&self) -> Agent<'_> {
        Agent::Remote(self)
    }
}

impl Remote for Realtime {
    fn formats(&self, leg: Format) -> SessionFormats {
        let format = match leg.encoding {
            Encoding::Mulaw | Encoding::Alaw => leg,
            Encoding::Linear => Format::SLIN24,
        };
        SessionFormats { input: format, output: format }
    }

    fn session_max(&self) -> Option<Duration> {
        super::lasting(self.options.session_seconds).or(Some(SESSION_MAX))
    }

    fn dial(&self, _: &AgentSetup) -> Dial {
        let options = &self.options;
        let bearer = format!("Bearer {}", options.api_key.expose_secret());
        let mut headers = vec![("authorization", SecretString::from(bearer))];
        let named = [("openai-organization", &options.organization), ("openai-project", &options.project)];
        headers.extend(named.into_iter().filter_map(|(name, value)| Some((name, value.clone()?.into()))));
        Dial::WebSocket(WebSocketDial { url: options.url(), headers })
    }

    fn codec(&self, setup: &AgentSetup) -> Box<dyn Codec> {
        Box::new(RealtimeCodec::new(self.options.clone(), setup, self.formats(setup.leg)))
    }
}
