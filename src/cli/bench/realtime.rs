//! An OpenAI Realtime server as far as a measurement needs one: it sets sessions up, speaks by a
//! timetable, and says at fixed moments that the caller interrupts.

use super::load::{Call, Load, is_loud, take_up, tone};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{SinkExt as _, StreamExt as _};
use offhook::audio::Format;
use serde_json::{Value, json};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep_until},
};
use tokio_tungstenite::{
    WebSocketStream, accept_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

/// Lengths of the audio messages, in turn; the vendor's vary as much.
const PIECES_MS: [u64; 4] = [20, 40, 100, 200];
const ANSWER_MS: u64 = 1_600;
/// No multiple of 20 ms, so that answers meet every phase of the engine's clock alike.
const CYCLE: Duration = Duration::from_millis(2_007);
/// Answers come faster than they are spoken, so that the engine has something queued.
const PACE: u32 = 2;
/// Every so many answers are interrupted, after so long.
const INTERRUPTED_EVERY: u32 = 4;
const INTERRUPTED_AFTER: Duration = Duration::from_millis(500);
const CALLER_SPEAKS: Duration = Duration::from_millis(300);

const APPEND: &str = r#"{"type":"input_audio_buffer.append","audio":""#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cue {
    Begin,
    /// An index into [`PIECES_MS`].
    Audio(usize),
    Complete,
    Interrupt,
    CallerQuiet,
}

/// What is done when, counted from the beginning of an answer.
type Timetable = Vec<(Duration, Cue)>;

static WHOLE: LazyLock<Timetable> = LazyLock::new(|| {
    let mut timetable = vec![(Duration::ZERO, Cue::Begin)];
    let mut said = 0;
    for piece in (0..PIECES_MS.len()).cycle() {
        if said >= ANSWER_MS {
            break;
        }
        timetable.push((Duration::from_millis(said) / PACE, Cue::Audio(piece)));
        said += PIECES_MS[piece];
    }
    timetable.push((Duration::from_millis(said) / PACE, Cue::Complete));
    timetable
});

static INTERRUPTED: LazyLock<Timetable> = LazyLock::new(|| {
    let mut timetable = WHOLE.clone();
    timetable.retain(|(at, _)| *at < INTERRUPTED_AFTER);
    timetable.push((INTERRUPTED_AFTER, Cue::Interrupt));
    timetable.push((INTERRUPTED_AFTER + CALLER_SPEAKS, Cue::CallerQuiet));
    timetable
});

static AUDIO: LazyLock<[String; PIECES_MS.len()]> =
    LazyLock::new(|| PIECES_MS.map(|ms| STANDARD.encode(tone(Format::SLIN24, Duration::from_millis(ms)))));

struct Server {
    socket: WebSocketStream<TcpStream>,
    load: Arc<Load>,
    call: Arc<Call>,
    /// Answers begun so far.
    answers: u32,
    /// When the current answer began, and its next cue; `None` before the first one.
    course: Option<(Instant, usize)>,
}

/// Serves one session until either side ends it.
pub async fn serve(stream: TcpStream, load: Arc<Load>, call: Arc<Call>) {
    // The library's default of 128 KiB per connection would be most of the load's memory.
    let config = WebSocketConfig::default().read_buffer_size(16 << 10);
    let Ok(socket) = accept_async_with_config(stream, Some(config)).await else { return };
    let mut server = Server { socket, load, call, answers: 0, course: None };
    let stop = server.load.provider_stop.clone();
    // The caller of this session notices when it breaks.
    let _ = stop.run_until_cancelled(server.run()).await;
}

impl Server {
    async fn run(&mut self) -> Option<()> {
        self.send(&json!({ "type": "session.created", "session": { "type": "realtime" } })).await?;
        loop {
            tokio::select! {
                biased;
                (due, cue) = next_cue(self.course, self.answers) => {
                    let now = Instant::now();
                    self.load.note(|samples| samples.late.push(now.saturating_duration_since(due)));
                    self.perform(cue, now).await?;
                }
                message = self.socket.next() => self.hear(message?.ok()?).await?,
            }
        }
    }

    async fn hear(&mut self, message: Message) -> Option<()> {
        let Message::Text(text) = message else { return Some(()) };
        if let Some(rest) = text.strip_prefix(APPEND) {
            let now = Instant::now();
            // Most frames come while nothing is awaited, and need no look.
            if self.call.up.is_set()
                && let Ok(samples) = STANDARD.decode(rest.trim_end_matches("\"}"))
            {
                take_up(&self.call, &self.load, now, is_loud(&samples));
            }
            return Some(());
        }
        let message: Value = serde_json::from_str(&text).ok()?;
        match message["type"].as_str() {
            Some("session.update") => {
                self.send(&json!({ "type": "session.updated", "session": message["session"] })).await
            }
            Some("response.create") if self.course.is_none() => {
                self.course = Some((Instant::now(), 0));
                Some(())
            }
            _ => Some(()),
        }
    }

    async fn perform(&mut self, cue: Cue, now: Instant) -> Option<()> {
        let (response, item) = (format!("resp_{}", self.answers), format!("item_{}", self.answers));
        match cue {
            Cue::Begin => self.send(&json!({ "type": "response.created", "response": { "id": response } })).await?,
            Cue::Audio(piece) => {
                let message = format!(
                    r#"{{"type":"response.output_audio.delta","response_id":"{response}","item_id":"{item}","output_index":0,"content_index":0,"delta":"{}"}}"#,
                    AUDIO[piece]
                );
                // The first piece, which finds nothing queued before it.
                if self.course.is_some_and(|(_, at)| at == 1) {
                    self.call.down.set(now);
                }
                self.socket.send(Message::text(message)).await.ok()?;
            }
            Cue::Complete => {
                let done = json!({ "type": "response.output_audio.done", "response_id": response, "item_id": item });
                self.send(&done).await?;
                self.end(&response, "completed").await?;
            }
            Cue::Interrupt => {
                self.call.barge_in.set(now);
                self.send(&json!({ "type": "input_audio_buffer.speech_started" })).await?;
                self.end(&response, "cancelled").await?;
            }
            Cue::CallerQuiet => self.send(&json!({ "type": "input_audio_buffer.speech_stopped" })).await?,
        }
        self.course = self.course.map(|(began, at)| {
            if at + 1 < timetable(self.answers).len() {
                return (began, at + 1);
            }
            self.answers += 1;
            (began + CYCLE, 0)
        });
        Some(())
    }

    async fn end(&mut self, response: &str, status: &str) -> Option<()> {
        self.send(&json!({ "type": "response.done", "response": { "id": response, "status": status } })).await
    }

    async fn send(&mut self, message: &Value) -> Option<()> {
        self.socket.send(Message::text(message.to_string())).await.ok()
    }
}

fn timetable(answer: u32) -> &'static Timetable {
    if answer % INTERRUPTED_EVERY == INTERRUPTED_EVERY - 1 { &INTERRUPTED } else { &WHOLE }
}

async fn next_cue(course: Option<(Instant, usize)>, answer: u32) -> (Instant, Cue) {
    match course.and_then(|(began, at)| timetable(answer).get(at).map(|(after, cue)| (began + *after, *cue))) {
        Some((due, cue)) => {
            sleep_until(due).await;
            (due, cue)
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_delivered_at_twice_the_pace_it_is_spoken_and_before_the_next_one() {
        let said: u64 =
            WHOLE.iter().map(|(_, cue)| if let Cue::Audio(piece) = cue { PIECES_MS[*piece] } else { 0 }).sum();
        let (at, last) = *WHOLE.last().unwrap();
        assert_eq!((at, last), (Duration::from_millis(said) / PACE, Cue::Complete));
        assert!(Duration::from_millis(said) < CYCLE);
    }

    #[test]
    fn an_interrupted_answer_has_more_queued_than_the_barge_in_may_take() {
        let said: u64 =
            INTERRUPTED.iter().map(|(_, cue)| if let Cue::Audio(piece) = cue { PIECES_MS[*piece] } else { 0 }).sum();
        assert!(Duration::from_millis(said) > INTERRUPTED_AFTER + Duration::from_millis(300));
    }
}
