//! The services of a pipeline, none of which takes any time of its own: a listener and a voice as Deepgram's, a model
//! as OpenAI's. Each caller asks for its own order by number, so that every request tells whose it is.

use super::load::{Call, LEG, Load, is_loud, take_up, tone};
use axum::{
    Json, Router,
    extract::State,
    response::sse::{Event, Sse},
    routing::post,
};
use bytes::Bytes;
use futures_util::{SinkExt as _, Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_tungstenite::{accept_async, tungstenite::Message};
use tokio_util::task::AbortOnDropHandle;

/// Models of today write so fast, or faster.
const TOKEN_EVERY: Duration = Duration::from_millis(20);
/// What is answered; the order's number goes between the first two.
const ANSWER: [&str; 12] = ["Order ", "", " is", " on", " its", " way", ".", " It", " comes", " next", " week", "."];
/// The first clause is whole with the last of so many.
const CLAUSE: usize = 7;
/// A clause takes so long to say.
pub const CLAUSE_SPOKEN: Duration = Duration::from_millis(900);

/// Model and voice on one address; they end when this is dropped.
pub struct Stages {
    pub address: SocketAddr,
    _server: AbortOnDropHandle<()>,
}

impl Stages {
    /// Whatever the voice is to say takes it `spoken`.
    pub async fn start(load: Arc<Load>, spoken: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let sound = Bytes::from(tone(LEG, spoken));
        let speaks = post(async move |State(load): State<Arc<Load>>, Json(request): Json<Value>| {
            told_to_speak(&load, &request);
            sound.clone()
        });
        let routes =
            Router::new().route("/v1/chat/completions", post(answer)).route("/v1/speak", speaks).with_state(load);
        let server = tokio::spawn(async move {
            // It ends with the bench.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { address, _server: AbortOnDropHandle::new(server) })
    }
}

/// Whose order the text is about.
fn call_of(load: &Load, text: &str) -> Option<(usize, Arc<Call>)> {
    let digits: String = text.split_once("rder ")?.1.chars().take_while(char::is_ascii_digit).collect();
    let number = digits.parse().ok()?;
    Some((number, load.call(number)?))
}

async fn answer(
    State(load): State<Arc<Load>>,
    Json(request): Json<Value>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let now = Instant::now();
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let said = messages.iter().rev().find(|message| message["role"] == "user");
    let caller = said.and_then(|said| call_of(&load, said["content"].as_str()?));
    if let Some((_, call)) = &caller {
        call.tokens.store(0, Relaxed);
        if let Some(ended) = call.ended.get() {
            call.asked.set(now.saturating_duration_since(ended));
        }
    }
    let mut clock = interval(TOKEN_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = stream::unfold((0, clock, caller), |(place, mut clock, caller)| async move {
        if place > ANSWER.len() {
            return None;
        }
        let token = match (ANSWER.get(place), &caller) {
            (Some(&""), Some((number, _))) => number.to_string(),
            (token, _) => token.copied().unwrap_or_default().to_owned(),
        };
        clock.tick().await;
        if let Some((_, call)) = &caller {
            call.tokens.fetch_add(1, Relaxed);
        }
        // What compatible servers may leave out, `[DONE]`, is left out.
        let finish = (place == ANSWER.len()).then_some("stop");
        let choice = json!({ "index": 0, "delta": { "content": token }, "finish_reason": finish });
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "choices": [choice] });
        Some((Ok(Event::default().data(chunk.to_string())), (place + 1, clock, caller)))
    });
    Sse::new(events)
}

fn told_to_speak(load: &Load, request: &Value) {
    if let Some((_, call)) = request["text"].as_str().and_then(|text| call_of(load, text)) {
        let since = call.tokens.load(Relaxed).saturating_sub(CLAUSE);
        load.note(|samples| samples.clause_tokens.push(since));
        call.down.set(Instant::now());
    }
}

/// Serves one caller's listener until either side ends it. What is said is known from its first sound on.
pub async fn listen(stream: TcpStream, load: Arc<Load>, call: Arc<Call>, number: usize) {
    let Ok(mut socket) = accept_async(stream).await else { return };
    let (mut heard, mut written) = (Duration::ZERO, Duration::ZERO);
    let mut told = false;
    let stop = load.provider_stop.clone();
    loop {
        let message = tokio::select! {
            () = stop.cancelled() => return,
            message = socket.next() => message,
        };
        let results = match message {
            Some(Ok(Message::Binary(audio))) => {
                heard += LEG.duration_of(audio.len());
                let loud = is_loud(&audio);
                take_up(&call, &load, Instant::now(), loud);
                // Now and then, as the vendor does.
                let due = loud && !std::mem::replace(&mut told, true);
                due.then(|| results(written, heard, &format!("Where is order {number}?"), false))
            }
            Some(Ok(Message::Text(text))) if text.contains("Finalize") => {
                let said = if std::mem::take(&mut told) { format!("Where is order {number}?") } else { String::new() };
                let results = results(written, heard, &said, true);
                written = heard;
                Some(results)
            }
            Some(Ok(_)) => None,
            None | Some(Err(_)) => return,
        };
        if let Some(results) = results
            && socket.send(results).await.is_err()
        {
            return;
        }
    }
}

fn results(from: Duration, to: Duration, transcript: &str, last: bool) -> Message {
    let alternative = json!({ "transcript": transcript, "confidence": 0.99, "words": [] });
    let results = json!({
        "type": "Results", "channel_index": [0, 1], "start": from.as_secs_f64(), "duration": (to - from).as_secs_f64(),
        "is_final": last, "speech_final": false, "from_finalize": last, "channel": { "alternatives": [alternative] },
    });
    Message::text(results.to_string())
}
