//! OpenAI's chat completions: the vendor's own, or one of the many servers that offer the same.
//!
//! <https://platform.openai.com/docs/api-reference/chat/create>. What a reader of the vendor's page would not expect,
//! most of it of compatible servers:
//!
//! - The tokens come in a chunk without choices after the answer's end; `[DONE]` may be missing.
//! - A fault may come as an event in the middle of an answer whose status is 200.
//! - An event of a proxy or a broken server may be no chunk; it is passed over, unless it may hold a part of a call.
//! - Calls come in fragments which may interleave, or whole; with an index, the same index for all, or none.
//! - Unknown keys of a request are refused by many, among them those that only the vendor knows.
//! - What the model thinks may stand in the answer, between tags (`thoughts`).
//! - Every call in the history wants exactly one result right behind it (`history`).

pub(super) mod answer;
mod history;
mod options;
#[cfg(test)]
mod tests;
mod thoughts;

use super::{Ask, Finish, Model, ModelKind, Piece};
use crate::{
    config::OptionProblem,
    remote::{Fault, checks, http, kinds, sse, wards::Oddity},
    tool::schemas::Dialect,
};
use answer::{Answer, News};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture};
use options::Options;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};

/// What follows the end of an answer is its usage; the last words wait to be spoken meanwhile.
const AFTER_MAX: Duration = Duration::from_millis(500);
/// Nobody speaks so long at the telephone. The time that the words wait to be taken is in it.
const ANSWER_MAX: Duration = Duration::from_secs(10 * 60);
const UNREADABLE: Fault = Fault::Garbage("its events hold no chat.completion.chunk");
/// A token takes some 300 bytes, so these are 50 000.
const ANSWER_BYTES_MAX: usize = 16 << 20;

pub(super) const KIND: ModelKind = ModelKind {
    kind: "openai_chat",
    summary: "A service with OpenAI's `POST /chat/completions`: the vendor's own or a compatible server",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: kinds::no_calls,
    language: kinds::no_language,
    build,
};

/// What a model with these options sends to have this answered.
pub fn request_body(options: &Value, ask: &Ask) -> Result<Value, Vec<OptionProblem>> {
    Ok(history::body(&checks::read(options)?, ask))
}

fn build(options: &Value) -> Result<Arc<dyn Model>, Vec<OptionProblem>> {
    let options: Options = checks::read(options)?;
    Ok(Arc::new(Chat { options, client: checks::client()? }))
}

struct Chat {
    options: Options,
    client: Client,
}

impl Chat {
    fn request(&self, ask: &Ask) -> RequestBuilder {
        self.options.server.post(&self.client, "/chat/completions").json(&history::body(&self.options, ask))
    }
}

impl Model for Chat {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn dialect(&self) -> Dialect {
        Dialect::ChatCompletions
    }

    fn retries(&self) -> u32 {
        self.options.retries
    }

    fn word_max(&self) -> Duration {
        Duration::from_millis(self.options.timeout_ms)
    }

    fn answer(&self, ask: Ask, pieces: mpsc::Sender<Piece>) -> BoxFuture<'static, Result<Finish, Fault>> {
        let request = self.request(&ask);
        let answering = answer(send(request), self.word_max(), pieces);
        async move { timeout(ANSWER_MAX, answering).await.map_err(|_| Fault::Slow(ANSWER_MAX))? }.boxed()
    }
}

async fn answer(
    asking: impl Future<Output = Result<Response, Fault>>,
    limit: Duration,
    pieces: mpsc::Sender<Piece>,
) -> Result<Finish, Fault> {
    let mut deadline = Instant::now() + limit;
    let response = timeout_at(deadline, asking).await.map_err(|_| Fault::Slow(limit))??;
    let mut events = sse::events(response, ANSWER_BYTES_MAX);
    let mut answer = Answer::default();
    loop {
        let ended = answer.finish().is_some();
        let data = match timeout_at(deadline, events.next()).await {
            Ok(Some(Ok(data))) => data,
            // It has said all; how it hangs up does not matter.
            _ if ended => break,
            Ok(Some(Err(fault))) => return Err(fault),
            // Its end may have been among them.
            Ok(None) if answer.is_malformed() => return Err(UNREADABLE),
            Ok(None) => return Err(Fault::Closed(None)),
            Err(_) => return Err(Fault::Slow(limit)),
        };
        let News { text, token, malformed } = answer.take(&data)?;
        if malformed {
            tell(&pieces, Piece::Oddity(Oddity::Malformed)).await?;
        }
        if !text.is_empty() {
            tell(&pieces, Piece::Text(text)).await?;
        }
        if answer.finish().is_some() && !ended {
            for call in answer.calls() {
                tell(&pieces, Piece::Call(call)).await?;
            }
            deadline = Instant::now() + AFTER_MAX;
        } else if token {
            deadline = Instant::now() + limit;
        }
        if answer.is_done() {
            break;
        }
    }
    // What is read to its end leaves a connection for the next question, and the end may come after the last event.
    tokio::spawn(timeout(AFTER_MAX, async move { while events.next().await.is_some() {} }));
    if let Some(usage) = answer.usage() {
        tell(&pieces, Piece::Usage(usage)).await?;
    }
    if answer.is_garbage() {
        return Err(UNREADABLE);
    }
    answer.finish().ok_or(Fault::Closed(None))
}

async fn send(request: RequestBuilder) -> Result<Response, Fault> {
    let response = request.send().await.map_err(http::fault)?;
    if response.status() != StatusCode::OK {
        return Err(http::refused(response).await);
    }
    // Other names of the right one occur; these two are what a wrong address answers with.
    match &*http::content_type(&response) {
        "application/json" | "text/html" => Err(Fault::Garbage("it is no stream of events")),
        _ => Ok(response),
    }
}

/// Whoever no longer listens has given the answer up.
async fn tell(pieces: &mpsc::Sender<Piece>, piece: Piece) -> Result<(), Fault> {
    pieces.send(piece).await.map_err(|_| Fault::Closed(None))
}
