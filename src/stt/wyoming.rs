//! A Wyoming server that writes down utterances: faster-whisper, Vosk and others, on this machine or near it.
//!
//! <https://github.com/OHF-Voice/wyoming>. Quirks: some servers close the connection after one request and none says
//! which, so every utterance has its own; there is no word to cancel but closing it. Some find the end of an utterance
//! by themselves. Streaming servers tell a transcript in chunks, from before the end of the audio.

#[cfg(test)]
mod tests;

use super::{
    ListenerKind, Patience, text,
    utterance::{ByUtterance, Scribe, Written},
};
use crate::{
    audio::Format,
    config::OptionProblem,
    remote::{
        Fault,
        checks::{self, Checked},
        json::with_known,
        kinds,
        wyoming::{Connection, Event},
    },
};
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};

const ADDRESS: &str = "127.0.0.1:10300";
/// For the word after a streamed transcript: closing before it would be an error in the server's log.
const STOP_MAX: Duration = Duration::from_millis(50);
/// One second: servers read a chunk as a whole.
const CHUNK_BYTES_MAX: usize = 32_000;

pub(super) const KIND: ListenerKind = ListenerKind {
    kind: "wyoming_transcribe",
    summary: "A Wyoming server, such as wyoming-faster-whisper or wyoming-vosk: no key, no cloud",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: kinds::no_calls,
    language: kinds::language_option,
    build: |options| Ok(Arc::new(ByUtterance(Arc::new(Server(checks::read(options)?))))),
};

/// Options of `kind: wyoming_transcribe`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    /// Host and port, such as `127.0.0.1:10300`. What is said travels there as it is: the protocol has no encryption.
    address: String,
    /// The model, for servers that have several.
    #[serde(default)]
    model: Option<String>,
    /// The language spoken, such as `de`; without it the server's own choice.
    #[serde(default)]
    language: Option<String>,
    /// Names to be recognized, for servers that take them.
    #[serde(default)]
    names: Vec<String>,
    /// Other words to be recognized that few people use, for servers that take them.
    #[serde(default)]
    terms: Vec<String>,
    #[serde(flatten)]
    patience: Patience,
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::from_iter(checks::host_and_port("address", &self.address, ADDRESS));
        problems.extend(self.patience.problems());
        for (path, value) in [("model", &self.model), ("language", &self.language)] {
            if value.as_deref().is_some_and(|value| value.trim().is_empty()) {
                problems
                    .push(OptionProblem::new(path, "is empty").hint("remove it, or write it as the server names it"));
            }
        }
        problems
    }
}

impl Options {
    fn transcribe(&self) -> Event {
        let list = |list: &Vec<String>| (!list.is_empty()).then(|| json!(list));
        let data = with_known(
            json!({}),
            [
                ("name", self.model.clone().map(Value::from)),
                ("language", self.language.clone().map(Value::from)),
                ("transcript_names", list(&self.names)),
                ("transcript_terms", list(&self.terms)),
            ],
        );
        Event::new("transcribe", data)
    }
}

struct Server(Options);

impl Scribe for Server {
    const KIND: &'static str = KIND.kind;
    /// What every model of such servers was made for.
    const FORMAT: Format = Format::SLIN16;

    fn patience(&self) -> Patience {
        self.0.patience
    }

    fn ready(self: Arc<Self>) -> BoxFuture<'static, Result<(), Fault>> {
        async move { Connection::connect(&self.0.address).await.map(drop) }.boxed()
    }

    fn write(
        self: Arc<Self>,
        audio: mpsc::Receiver<Bytes>,
        partials: mpsc::Sender<String>,
    ) -> BoxFuture<'static, Result<Written, Fault>> {
        async move {
            let mut server = Connection::connect(&self.0.address).await?;
            server.send(&self.0.transcribe()).await?;
            write(server, Self::FORMAT, audio, partials).await
        }
        .boxed()
    }
}

async fn write(
    mut server: Connection,
    format: Format,
    mut audio: mpsc::Receiver<Bytes>,
    partials: mpsc::Sender<String>,
) -> Result<Written, Fault> {
    let shape = json!({ "rate": format.rate, "width": format.bytes_per_sample(), "channels": 1 });
    server.send(&Event::new("audio-start", shape.clone())).await?;
    let (mut text, mut is_open, mut streams) = (String::new(), true, false);
    loop {
        tokio::select! {
            biased;
            heard = audio.recv(), if is_open => match heard {
                Some(mut heard) => while !heard.is_empty() {
                    let piece = heard.split_to(heard.len().min(CHUNK_BYTES_MAX));
                    server.send(&Event::new("audio-chunk", shape.clone()).with(piece)).await?;
                },
                None => {
                    is_open = false;
                    server.send(&Event::new("audio-stop", json!({}))).await?;
                }
            },
            event = server.next() => {
                let event = event?;
                match &*event.kind {
                    "transcript" => {
                        let text = event.text("text").ok_or(Fault::Garbage("a transcript without a text"))?;
                        if streams {
                            let _ = timeout(STOP_MAX, server.next()).await;
                        }
                        return Ok(Written { text: text.trim().to_owned(), ..Written::default() });
                    }
                    "transcript-start" => streams = true,
                    "transcript-chunk" => {
                        text::extend(&mut text, event.text("text").unwrap_or_default());
                        // Full: the next one has these words, too.
                        let _ = partials.try_send(text.clone());
                    }
                    _ => if let Some(fault) = event.fault() { return Err(fault) },
                }
            }
        }
    }
}
