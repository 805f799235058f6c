//! ElevenLabs Agents.
//!
//! Protocol: <https://elevenlabs.io/docs/agents-platform/api-reference/agents-platform/websocket>
//!
//! What a reader of the vendor's pages would not expect:
//!
//! - The agent lives on the vendor's servers: prompt, voice, tools, turns and formats are set there.
//!   Tools of a context have to exist there by the same names, or the agent knows of none.
//! - Formats are told in the first message and cannot be asked for; the two may differ, and there is
//!   no A-law. No audio is sent before they are known.
//! - An override that the agent's security settings do not allow closes the session with 1008.
//! - The agent greets as soon as the session stands. An empty first message lets it wait.
//! - `event_id` counts on through all events: audio whose id is not greater than that of the last
//!   `interruption` is stale.
//! - Nothing reliable tells that an answer is complete: `agent_response_complete` comes only if the
//!   agent is set to send it, and not for every answer. So a pause in the audio counts as the end.
//! - Nothing tells that the caller begins to speak, unless they interrupt; then their words come.
//! - A turn of silence is reported as the words "...".
//! - The agent ends conversations itself with its tool `end_call`; the close that follows is a 1000,
//!   and so is the one at the longest duration.
//! - A signed address is good for one connection within some minutes.

mod codec;
mod options;
mod server;
#[cfg(test)]
mod tests;

use super::{Agent, AgentSetup, Among, Codec, Dial, Provider, ProviderKind, Remote, SessionFormats, WebSocketDial};
use crate::{
    audio::Format,
    call::AgentTraits,
    config::OptionProblem,
    remote::{checks, http},
    tool::schemas::Dialect,
};
use codec::AgentCodec;
use futures_util::FutureExt;
use options::Options;
use reqwest::{Client, StatusCode, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// A caller waits; the session tries again within its own limit.
const SIGNING_MAX: Duration = Duration::from_secs(4);
/// The answer is one address.
const SIGNED_BYTES_MAX: usize = 16 * 1024;

pub(super) const KIND: ProviderKind = ProviderKind {
    kind: "elevenlabs_agent",
    summary: "An agent of ElevenLabs Agents over WebSocket",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: |_| Vec::new(),
    names: |_| Vec::new(),
    build,
};

fn build(options: &Value, _: &Among<'_>) -> Result<Arc<dyn Provider>, Vec<OptionProblem>> {
    let options: Options = checks::read(options)?;
    let signing = options.api_key.clone().map(|key| Signing::new(&options, key)).transpose().map_err(|error| {
        vec![OptionProblem::new("api_key", format!("cannot be used, no TLS client can be made: {error}"))]
    })?;
    Ok(Arc::new(Agents { options: Arc::new(options), signing }))
}

struct Agents {
    options: Arc<Options>,
    signing: Option<Signing>,
}

impl Provider for Agents {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn traits(&self) -> AgentTraits {
        AgentTraits { detects_speech: true, cancels_on_speech: true, transcribes: true, ..AgentTraits::PLAIN }
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::ElevenLabs)
    }

    fn agent(&self) -> Agent<'_> {
        Agent::Remote(self)
    }
}

impl Remote for Agents {
    /// Until the agent tells its own, which its codec says when the session stands.
    fn formats(&self, leg: Format) -> SessionFormats {
        SessionFormats { input: leg, output: leg }
    }

    fn session_max(&self) -> Option<Duration> {
        super::lasting(self.options.session_seconds)
    }

    fn dial(&self, _: &AgentSetup) -> Dial {
        match &self.signing {
            None => Dial::WebSocket(WebSocketDial { url: self.options.conversation_url(), headers: Vec::new() }),
            Some(signing) => Dial::Asked(signing.clone().dial().boxed()),
        }
    }

    fn codec(&self, setup: &AgentSetup) -> Box<dyn Codec> {
        Box::new(AgentCodec::new(&self.options, setup))
    }
}

/// Asks for the address of one conversation with a private agent.
#[derive(Clone)]
struct Signing {
    client: Client,
    url: String,
    api_key: SecretString,
    /// Addresses without TLS are for servers nearby only, as the one that is asked is.
    scheme: &'static str,
}

impl Signing {
    fn new(options: &Options, api_key: SecretString) -> reqwest::Result<Self> {
        let client = http::builder().timeout(SIGNING_MAX).redirect(redirect::Policy::none()).no_proxy().build()?;
        let (url, scheme) = (options.signing_url(), options.scheme());
        Ok(Self { client, url, api_key, scheme })
    }

    /// Fails with the HTTP status, or 0 if there is none that says why.
    async fn dial(self) -> Result<WebSocketDial, u16> {
        let request = self.client.get(&self.url).header("xi-api-key", self.api_key.expose_secret());
        let mut answer = request.send().await.map_err(|_| 0u16)?;
        if answer.status() != StatusCode::OK {
            return Err(answer.status().as_u16());
        }
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|_| 0u16)? {
            if body.len() + piece.len() > SIGNED_BYTES_MAX {
                return Err(0);
            }
            body.extend_from_slice(&piece);
        }
        let url = signed(&body, self.scheme).ok_or(0u16)?;
        Ok(WebSocketDial { url, headers: Vec::new() })
    }
}

/// The address in an answer, if it is one that may be dialled: with TLS, or by the scheme of what was asked.
fn signed(body: &[u8], scheme: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Signed {
        signed_url: String,
    }
    let Signed { signed_url } = serde_json::from_slice(body).ok()?;
    (signed_url.starts_with("wss://") || signed_url.starts_with(scheme)).then_some(signed_url)
}

/// Any answer to the question for an address: what is dialled has TLS, unless what was asked had none.
#[cfg(any(test, fuzzing))]
pub fn fuzz_signed(data: &[u8]) {
    let nearby = signed(data, "ws://");
    let public = signed(data, "wss://");
    assert!(public.as_ref().is_none_or(|url| url.starts_with("wss://") && nearby.as_ref() == Some(url)));
    assert!(nearby.is_none_or(|url| url.len() <= data.len()));
}
