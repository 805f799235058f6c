//! Deepgram's voices: Aura over HTTP, Flux over a WebSocket; which of them the model's name says.
//!
//! <https://developers.deepgram.com/docs/text-to-speech>, <https://developers.deepgram.com/docs/flux-tts/server-messages>.
//! What a reader would not expect: all sound of a Flux turn lies before its `SpeechMetadata`, while `Flushed` may be no
//! more than the answer to `Flush`; without `container=none` Aura puts a WAV head before linear samples.

use super::{
    Voice, VoiceError, VoiceKind,
    stream::{self, Patience, Service, Sounds},
    text::TextOptions,
};
use crate::{
    audio::Format,
    config::OptionProblem,
    remote::{
        self, Fault, Socket, WebSocketDial, Wire,
        checks::{self, Checked},
        deepgram::{Account, encoding},
        kinds,
    },
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream::try_unfold};
use reqwest::{Client, header::AUTHORIZATION};
use schemars::JsonSchema;
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::timeout;

const BASE_URL: &str = "https://api.deepgram.com";
/// English, the vendor's own example.
const MODEL: &str = "aura-2-thalia-en";
/// What the vendor takes at once.
const CHARS_MAX: usize = 2_000;
/// For the end of a turn after `Flushed`, which by what the vendor says is not the end; a server that means it as such
/// is understood all the same.
const AFTER_FLUSH_MAX: Duration = Duration::from_secs(3);

pub(super) const KIND: VoiceKind = VoiceKind {
    kind: "deepgram_speech",
    summary: "Deepgram's voices, Aura and Flux; G.711 as the telephone has it",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: kinds::no_calls,
    language,
    build,
};

/// Options of `kind: deepgram_speech`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(flatten)]
    account: Account,
    /// Another server with the same interface, such as one of your own.
    #[serde(default = "base_url")]
    base_url: String,
    /// The voice: `aura-2-NAME-LANGUAGE` or `flux-NAME-en`.
    #[serde(default = "model")]
    model: String,
    #[serde(flatten)]
    patience: Patience,
    #[serde(flatten)]
    text: TextOptions,
}

/// The vendor's voices end with their language.
fn language(options: &Value) -> Option<String> {
    let Options { model, .. } = checks::read(options).ok()?;
    let (family, language) = (model.split('-').next()?, model.rsplit('-').next()?);
    matches!(family, "aura" | "flux").then(|| language.to_owned())
}

fn base_url() -> String {
    BASE_URL.into()
}

fn model() -> String {
    MODEL.into()
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.account.problems();
        problems.extend(checks::http("base_url", &self.base_url, BASE_URL));
        problems.extend(checks::name("model", &self.model, "model name", MODEL));
        problems.extend(self.patience.problems());
        problems
    }
}

fn build(options: &Value) -> Result<Arc<dyn Voice>, Vec<OptionProblem>> {
    let options: Options = checks::read(options)?;
    Ok(Arc::new(Deepgram { options, client: checks::client()? }))
}

struct Deepgram {
    options: Options,
    client: Client,
}

impl Deepgram {
    /// What both interfaces are asked for by their addresses; the names in it need no escape.
    fn query(&self, format: Format) -> String {
        let Options { model, account, .. } = &self.options;
        let encoding = encoding(format);
        let opt_out = if account.mip_opt_out { "&mip_opt_out=true" } else { "" };
        format!("model={model}&encoding={encoding}&sample_rate={}{opt_out}", format.rate)
    }
}

impl Service for Deepgram {
    const KIND: &'static str = KIND.kind;

    fn patience(&self) -> Patience {
        self.options.patience
    }

    fn text_options(&self) -> TextOptions {
        self.options.text
    }

    fn sounds(&self, text: String, format: Format, first: Duration) -> Sounds {
        let (base, query) = (self.options.base_url.trim_end_matches('/'), self.query(format));
        if self.options.model.starts_with("flux-") {
            // `http` becomes `ws`, and `https` `wss`.
            let url = format!("{}/v2/speak?{query}", base.replacen("http", "ws", 1));
            let dial = WebSocketDial { url, headers: vec![("authorization", self.options.account.authorization())] };
            stream::limited(text, CHARS_MAX, first, async move |text| flux(dial, &text, format, first).await)
        } else {
            let request = self.client.post(format!("{base}/v1/speak?{query}&container=none"));
            let key = self.options.account.authorization();
            let request = request.header(AUTHORIZATION, key.expose_secret()).json(&json!({ "text": text }));
            stream::limited(text, CHARS_MAX, first, async move |_| {
                Ok(stream::raw(stream::body(request).await?, format))
            })
        }
    }
}

/// One connection for one clause.
async fn flux(dial: WebSocketDial, text: &str, format: Format, limit: Duration) -> Result<Sounds, VoiceError> {
    let mut socket = Socket::dial(dial, limit).await?;
    let messages = [json!({ "type": "Speak", "text": text }), json!({ "type": "Flush" })];
    socket.send(messages.iter().map(|message| Wire::Text(message.to_string())).collect()).await?;
    let turn = Turn { socket, heard: false, flushed: false };
    Ok(stream::raw(try_unfold(turn, Turn::next).boxed(), format))
}

struct Turn {
    socket: Socket,
    heard: bool,
    flushed: bool,
}

#[derive(Deserialize)]
struct Message {
    r#type: String,
    #[serde(default)]
    code: Option<String>,
}

/// What a message means for the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// All sound has come.
    Over,
    Flushed,
    Nothing,
}

impl Said {
    /// # Errors
    /// The service's fault, or a message that is none.
    fn read(text: &str) -> Result<Self, Fault> {
        let message: Message =
            serde_json::from_str(text).map_err(|_| Fault::Garbage("a message is no JSON object with a type"))?;
        match &*message.r#type {
            "SpeechMetadata" => Ok(Self::Over),
            "Flushed" => Ok(Self::Flushed),
            "Error" => Err(told(message.code.as_deref())),
            _ => Ok(Self::Nothing),
        }
    }
}

impl Turn {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, VoiceError> {
        loop {
            let may_end = self.flushed && self.heard;
            let limit = if may_end { AFTER_FLUSH_MAX } else { Duration::MAX };
            let message = match timeout(limit, self.socket.next()).await {
                Ok(Ok(Wire::Binary(audio))) => {
                    self.heard = true;
                    return Ok(Some((audio, self)));
                }
                Ok(Ok(Wire::Text(message))) => message,
                Ok(Err(Fault::Closed(_))) if may_end => return Ok(None),
                Ok(Err(fault)) => return Err(fault.into()),
                Err(_) => break,
            };
            match Said::read(&message)? {
                Said::Over => break,
                Said::Flushed => self.flushed = true,
                Said::Nothing => {}
            }
        }
        // The caller hears the next clause meanwhile.
        tokio::spawn(async move {
            let mut socket = self.socket;
            let close = Wire::Text(json!({ "type": "Close" }).to_string());
            if socket.send(VecDeque::from([close])).await.is_ok() {
                socket.close().await;
            }
        });
        Ok(None)
    }
}

/// `DATA-…` and `BIG-…` are about what was sent, `NET-…` about the service.
fn told(code: Option<&str>) -> Fault {
    let code = code.and_then(|code| remote::code(&code.to_ascii_lowercase().replace('-', "_")));
    let of_service = code.as_ref().is_some_and(|code| code.starts_with("net"));
    Fault::Reported { like: Some(if of_service { 500 } else { 400 }), code }
}

/// Any message of a turn: of a fault no more is told than a word of the service's own.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Said::read(&text) {
        Err(Fault::Reported { like, code }) => {
            assert!(matches!(like, Some(400 | 500)));
            assert!(code.is_none_or(|code| (1..=64).contains(&code.len()) && !code.contains(char::is_whitespace)));
        }
        Err(fault) => assert!(matches!(fault, Fault::Garbage(_)), "{fault:?}"),
        Ok(said) => assert_eq!(Said::read(text.trim()).ok(), Some(said), "blanks around it mean nothing"),
    }
}
