//! Gemini Live, on the Gemini API and on Vertex AI.
//!
//! Protocol: <https://ai.google.dev/api/live> and
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/multimodal-live>
//!
//! What a reader of the vendor's pages would not expect:
//!
//! - A bad key shows after the upgrade, as a close with 1007. So does any unknown key in a message.
//! - The server's JSON comes in binary frames, and one message may hold several things at once.
//! - Answers have no ids and no beginning; ours are counted. `generationComplete` ends one. `turnComplete`
//!   comes when the server believes that it was heard, and decides nothing about it.
//! - No event says that the caller begins or ends to speak, only that they interrupted. So the caller is
//!   reported when they interrupt, when their words come while nothing else happens, or at the latest
//!   when the model answers them; and reported to be done when it does.
//! - The server assumes that its speech is heard in real time; what was not heard cannot be told.
//! - A user turn interrupts the answer under way and makes the model speak. What it is only to know waits
//!   for the next one, or goes along with the answer of a tool.
//! - After a call of a tool that the model waits for, the server says nothing, also not that the turn is
//!   over, until the call is answered. New speech of the caller takes such a call back.
//! - Text parts are thoughts, never speech.
//! - A connection lives some 10 minutes, announced a minute before its end; one of `gemini-3.8-live` was
//!   measured to end after 58 minutes, unannounced. Another one can go on where it was.

mod answers;
mod caller;
mod calls;
mod codec;
mod losses;
mod models;
mod options;
mod server;
mod setup;
#[cfg(test)]
mod tests;
mod wishes;

use super::{Agent, AgentSetup, Codec, Dial, Provider, ProviderKind, Remote, SessionFormats, WebSocketDial};
use crate::{audio::Format, call::AgentTraits, remote::checks, tool::schemas::Dialect};
use codec::LiveCodec;
use futures_util::FutureExt as _;
use models::Family;
use options::Options;
use std::{sync::Arc, time::Duration};

/// Measured for `gemini-3.8-live`, whose server does not announce its end.
const SESSION_MAX_3_8: Duration = Duration::from_secs(58 * 60);
/// The only rate that the server speaks, and the one that its models hear.
const FORMATS: SessionFormats = SessionFormats { input: Format::SLIN16, output: Format::SLIN24 };

pub(super) const KIND: ProviderKind = ProviderKind {
    kind: "gemini_live",
    summary: "Gemini Live over WebSocket, on the Gemini API or on Vertex AI",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: |_| Vec::new(),
    names: |_| Vec::new(),
    build: |options, _| Ok(Arc::new(Live { options: Arc::new(checks::read(options)?) })),
};

struct Live {
    options: Arc<Options>,
}

impl Provider for Live {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn traits(&self) -> AgentTraits {
        AgentTraits {
            detects_speech: true,
            cancels_on_speech: true,
            takes_turns: true,
            answer_bytes_max: Some(calls::answer_bytes(self.options.tool_answer_bytes)),
            forwards_data: false,
            transcribes: self.options.transcription.is_some(),
            ..AgentTraits::PLAIN
        }
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Gemini)
    }

    fn agent(&self) -> Agent<'_> {
        Agent::Remote(self)
    }
}

impl Remote for Live {
    fn formats(&self, _: Format) -> SessionFormats {
        FORMATS
    }

    fn session_max(&self) -> Option<Duration> {
        let is_3_8 = matches!(Family::of(&self.options.model), Family::Plain | Family::Thinker);
        let usual = is_3_8.then_some(SESSION_MAX_3_8);
        super::lasting(self.options.session_seconds).or(usual)
    }

    /// Its pongs were seen to take up to 30 s while it works on an answer.
    fn patience(&self) -> Duration {
        Duration::from_secs(35)
    }

    fn dial(&self, _: &AgentSetup) -> Dial {
        let options = Arc::clone(&self.options);
        let url = options.url();
        if options.vertex.is_none() {
            let key = options.api_key.clone().map(|key| ("x-goog-api-key", key));
            return Dial::WebSocket(WebSocketDial { url, headers: key.into_iter().collect() });
        }
        let dial = async move {
            let Some(vertex) = &options.vertex else { return Err(0) };
            let bearer = vertex.bearer().await.map_err(|error| {
                tracing::warn!(%error, file = ?vertex.access_token_file, "the access token cannot be read");
                // As the vendor answers one that is no longer valid.
                401_u16
            })?;
            Ok(WebSocketDial { url, headers: vec![("authorization", bearer)] })
        };
        Dial::Asked(dial.boxed())
    }

    fn codec(&self, setup: &AgentSetup) -> Box<dyn Codec> {
        Box::new(LiveCodec::new(&self.options, setup))
    }
}
