//! `VaniStreamService`: a client's conversation, from its first chunk to its end.
//!
//! Limits: a peer that does not read for `STUCK_MAX` is cut off; what it sends ahead of time waits in a buffer of
//! `AHEAD_MAX` and is dropped beyond it, oldest first, and counted.

use super::{
    serve::connection_of,
    sessions::{Ends, Opened, Sessions},
    turns::{Cue, FRAME_MS, Turns},
    wire::{
        ActionResultEnvelope, ActionStatus, AudioChunk, AudioCodec, ClientStreamMessage, GatewayStreamMessage,
        StreamError, StreamErrorCode, VadSignal, client_stream_message, gateway_stream_message::Payload, now as stamp,
        vani_stream_service_server::VaniStreamService,
    },
};
use crate::{
    audio::opus::{self, Heard},
    connections::ConnectionEntry,
};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, Stream, stream};
use prometheus::Histogram;
use prost::Message as _;
use std::{pin::Pin, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};
use tonic::{Code, Request, Response, Status, Streaming};

/// From the stream's begin to its first message.
const FIRST_MAX: Duration = Duration::from_secs(10);
/// Messages on their way to the peer.
const OUT_MAX: usize = 64;
/// A peer that takes nothing for so long has stopped reading.
const STUCK_MAX: Duration = Duration::from_secs(5);
/// Of one chunk: two seconds of 16 kHz.
const CHUNK_BYTES_MAX: usize = 64_000;
/// Audio that came faster than it is spoken.
const AHEAD_MAX: Duration = Duration::from_secs(3);
/// More than this waits only where a peer sends in bursts or its clock is fast: two frames are taken at once.
const CATCH_UP: Duration = Duration::from_millis(240);
/// Messages that were on their way when their peer ended its session; some seconds of chunks are more than it is ahead.
const UNDERWAY_MAX: usize = 256;
/// Chunks that a client sent before it ended its session may come after that, which goes another way.
const UNDERWAY_FOR: Duration = Duration::from_millis(200);
/// From the end of what a client has said who ends its session, to its words and to the end of what is being said: services that
/// transcribe take about a second, and whoever has ended a session waits.
const WORDS_MAX: Duration = Duration::from_secs(2);
/// The same where the agent waits for an action: as long as one may take where nobody says otherwise (V9).
const ACTIONS_MAX: Duration = Duration::from_secs(5);
/// After it, for the call to say that this was all.
const SETTLES_MAX: Duration = Duration::from_millis(500);
/// For the last words of a call whose client has left.
const FLUSH_MAX: Duration = Duration::from_secs(2);

pub(super) struct StreamService(pub Arc<Sessions>);

type Out = mpsc::Sender<Outgoing>;

/// On its way to the peer.
struct Outgoing {
    message: Result<GatewayStreamMessage, Status>,
    /// Since when the agent wants the action that it asks for.
    since: Option<std::time::Instant>,
}

impl From<Result<GatewayStreamMessage, Status>> for Outgoing {
    fn from(message: Result<GatewayStreamMessage, Status>) -> Self {
        Self { message, since: None }
    }
}

/// What leaves. A message is taken from it when the connection has room to write it: until then an action has not left.
fn leaving(
    messages: mpsc::Receiver<Outgoing>,
    emission: Histogram,
) -> impl Stream<Item = Result<GatewayStreamMessage, Status>> {
    stream::unfold((messages, emission), |(mut messages, emission)| async move {
        let Outgoing { message, since } = messages.recv().await?;
        if let Some(since) = since {
            emission.observe(now().saturating_duration_since(since).as_secs_f64());
        }
        Some((message, (messages, emission)))
    })
}

#[tonic::async_trait]
impl VaniStreamService for StreamService {
    type AgentStreamStream = Pin<Box<dyn Stream<Item = Result<GatewayStreamMessage, Status>> + Send>>;

    async fn agent_stream(
        &self,
        request: Request<Streaming<ClientStreamMessage>>,
    ) -> Result<Response<Self::AgentStreamStream>, Status> {
        let (out, messages) = mpsc::channel(OUT_MAX);
        let sessions = Arc::clone(&self.0);
        let connection = connection_of(request.extensions()).cloned();
        tokio::spawn(async move {
            if let Err(status) = converse(&sessions, request.into_inner(), connection, &out).await {
                let _ = timeout(STUCK_MAX, out.send(Err(status).into())).await;
            }
        });
        Ok(Response::new(Box::pin(leaving(messages, self.0.counters.emission.clone()))))
    }
}

/// Whatever ends it, the session is closed.
struct Closing<'a> {
    sessions: &'a Sessions,
    session_id: String,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.sessions.close(&self.session_id);
    }
}

async fn converse(
    sessions: &Sessions,
    mut inbound: Streaming<ClientStreamMessage>,
    connection: Option<Arc<ConnectionEntry>>,
    out: &Out,
) -> Result<(), Status> {
    let first = match timeout(FIRST_MAX, inbound.message()).await {
        Ok(Ok(Some(first))) => first,
        Ok(Ok(None)) => return Ok(()),
        Ok(Err(status)) if has_left(&status) => return Ok(()),
        Ok(Err(status)) => {
            sessions.counters.unreadable.inc();
            return Err(status);
        }
        Err(_) => {
            sessions.counters.silent.inc();
            return Err(Status::deadline_exceeded("no message came"));
        }
    };
    let session_id = session_of(&first).unwrap_or_default().to_owned();
    let opened = sessions.stream_of(&session_id).map_err(|(code, why)| Status::new(code, why))?;
    // The id of a session is a token for its stream, which may come by another connection than `InitSession`.
    if let Some(connection) = connection {
        connection.know();
    }
    let _closing = Closing { sessions, session_id: session_id.clone() };
    let host = sessions.host().ok_or_else(|| Status::unavailable("the gateway is starting"))?;
    let ends = host.begin(opened.agreed.clone()).await;
    let ends = ends.ok_or_else(|| Status::resource_exhausted("the gateway takes no more calls"))?;
    let now = Instant::now();
    let (opus, writer) = match opened.agreed.codec {
        AudioCodec::Opus16k => coder().map_err(|_| Status::resource_exhausted("the gateway has no memory left"))?,
        _ => (None, None),
    };
    let turns = Turns::new(session_id, opened.agreed.format, (opened.agreed.codec, writer), now.into_std());
    let frame_bytes = opened.agreed.format.frame_bytes();
    let (ahead, told) = (BytesMut::new(), Vec::new());
    let (frames, emitting, ending) = (0, None, None);
    let mut talk = Talk { sessions, opened, turns, out, opus, ahead, frame_bytes, frames, told, emitting, ending };
    talk.run(first, inbound, ends).await
}

/// Both directions of Opus.
fn coder() -> audiopus::Result<(Option<opus::Reader>, Option<opus::Writer>)> {
    Ok((Some(opus::Reader::new()?), Some(opus::Writer::new()?)))
}

struct Talk<'a> {
    sessions: &'a Sessions,
    opened: Opened,
    turns: Turns,
    out: &'a Out,
    /// Where the peer sends packets of Opus, one a chunk.
    opus: Option<opus::Reader>,
    /// What the peer has sent and is not spoken yet.
    ahead: BytesMut,
    frame_bytes: usize,
    frames: u64,
    told: Vec<Payload>,
    /// Since when the agent wants the action that is about to leave.
    emitting: Option<std::time::Instant>,
    /// The client has ended its session.
    ending: Option<Flush>,
}

/// What is still to come of a session that its client has ended (V34).
struct Flush {
    began: Instant,
    /// Since when the call has heard all that the client said.
    heard_out: Option<Instant>,
    /// The agent waited for an action until then at least.
    acting: Option<Instant>,
}

impl Flush {
    fn new() -> Self {
        Self { began: Instant::now(), heard_out: None, acting: None }
    }

    /// When it is not waited for any longer; `None`: the client is still being heard, of which it is at most `AHEAD_MAX` ahead.
    fn until(&mut self, is_acting: bool) -> Option<Instant> {
        let since = self.heard_out?;
        if is_acting {
            self.acting = Some(Instant::now());
        }
        let acted = self.acting.map_or(since, |at| (at + SETTLES_MAX).min(since + ACTIONS_MAX + SETTLES_MAX));
        Some(if is_acting { since + ACTIONS_MAX + SETTLES_MAX } else { acted.max(since + WORDS_MAX) })
    }
}

/// Why a stream is over for its peer.
enum Over {
    /// The call ended by itself.
    Call,
    /// The peer has left, or said that it ends the session.
    Peer,
    Expired,
    /// The peer does not read any more.
    Stuck,
    /// It sent what cannot be read.
    Unreadable(Status),
}

impl Talk<'_> {
    /// # Errors
    /// What the peer is told of a message of its own that ended the stream.
    async fn run(
        &mut self,
        first: ClientStreamMessage,
        mut inbound: Streaming<ClientStreamMessage>,
        ends: Ends,
    ) -> Result<(), Status> {
        let Ends { heard, mut cues, done } = ends;
        let mut ticks = interval(Duration::from_millis(FRAME_MS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut reads = true;
        self.take(first);
        let over = loop {
            if !self.tell().await {
                break Over::Stuck;
            }
            let cut_at = self.cut_at();
            tokio::select! {
                biased;
                () = self.opened.end.cancelled(), if self.ending.is_none() => {
                    self.ending = Some(Flush::new());
                    reads = self.take_underway(&mut inbound);
                }
                () = sleep_until(cut_at.unwrap_or(self.opened.until)), if cut_at.is_some() => {
                    self.sessions.counters.flushes_cut.inc();
                    tracing::info!("a VAM session was ended, and its time was over before all of it was told");
                    break Over::Peer;
                }
                () = sleep_until(self.opened.until) => break Over::Expired,
                cue = cues.recv() => match cue {
                    Some(Cue::Over) if self.ending.is_some() => break Over::Call,
                    Some(cue) => {
                        if let Cue::Action { since, .. } = &cue {
                            self.emitting = Some(*since);
                        }
                        self.turns.cue(cue, now(), &mut self.told);
                    }
                    None => break Over::Call,
                },
                _ = ticks.tick() => {
                    self.speak(&heard);
                    if self.is_heard_out() {
                        done.cancel();
                    }
                }
                message = inbound.message(), if reads => match message {
                    Ok(Some(message)) => self.take(message),
                    // It has ended its session, and listens.
                    Ok(None) if self.ending.is_some() => reads = false,
                    Ok(None) => break Over::Peer,
                    Err(status) if has_left(&status) => break Over::Peer,
                    Err(status) => {
                        self.sessions.counters.unreadable.inc();
                        break Over::Unreadable(status);
                    }
                },
            }
        };
        // The caller has left; what the call still has to say of it is told.
        drop(heard);
        if matches!(over, Over::Expired) {
            self.error(StreamErrorCode::SessionExpired, "", "the session's time has passed; begin another", true);
        }
        if !matches!(over, Over::Stuck) {
            let rest = async {
                while let Some(cue) = cues.recv().await {
                    self.turns.cue(cue, now(), &mut self.told);
                }
            };
            let _ = timeout(FLUSH_MAX, rest).await;
            self.turns.end(now(), &mut self.told);
            self.tell().await;
        }
        if let Over::Unreadable(status) = over { Err(status) } else { Ok(()) }
    }

    /// What the peer had sent when it ended the session; `false`: nothing more comes of it.
    fn take_underway(&mut self, inbound: &mut Streaming<ClientStreamMessage>) -> bool {
        for _ in 0..UNDERWAY_MAX {
            match inbound.message().now_or_never() {
                None => return true,
                Some(Ok(Some(message))) => self.take(message),
                Some(Ok(None) | Err(_)) => return false,
            }
        }
        true
    }

    /// When the rest of a session that was ended is not waited for any longer.
    fn cut_at(&mut self) -> Option<Instant> {
        let ending = self.ending.as_mut()?;
        ending.until(self.sessions.actions.is_pending(&self.opened.agreed.session_id))
    }

    /// The client has ended its session, and the call has just heard the last that it said.
    fn is_heard_out(&mut self) -> bool {
        let is_all = self.ahead.len() < self.frame_bytes;
        match &mut self.ending {
            Some(ending) if is_all && ending.heard_out.is_none() => {
                ending.heard_out = Some(Instant::now());
                true
            }
            _ => false,
        }
    }

    /// `false`: the peer does not read.
    async fn tell(&mut self) -> bool {
        for payload in std::mem::take(&mut self.told) {
            let is_action = matches!(payload, Payload::ActionRequestPayload(_));
            let since = if is_action { self.emitting.take() } else { None };
            let message = Ok(GatewayStreamMessage { payload: Some(payload) });
            match timeout(STUCK_MAX, self.out.send(Outgoing { message, since })).await {
                Ok(Ok(())) => {}
                // It has left.
                Ok(Err(_)) => return false,
                Err(_) => {
                    self.sessions.counters.stuck.inc();
                    return false;
                }
            }
        }
        true
    }

    fn take(&mut self, message: ClientStreamMessage) {
        match message.payload {
            // Nobody hears it any more.
            Some(client_stream_message::Payload::AudioChunk(_)) if self.is_deaf() => {}
            Some(client_stream_message::Payload::AudioChunk(chunk)) => self.audio(chunk),
            Some(client_stream_message::Payload::SynthesisRequest(_)) => {
                self.error(StreamErrorCode::TtsBackendError, "tts", "this gateway speaks for its agents alone", false);
            }
            Some(client_stream_message::Payload::ActionResultPayload(bytes)) => {
                let is_large = bytes.len() > self.sessions.result_bytes_max;
                match ActionResultEnvelope::decode(bytes) {
                    Ok(result) if is_large => {
                        self.sessions.counters.results_dropped.inc();
                        let told = ActionResultEnvelope {
                            session_id: result.session_id,
                            call_id: result.call_id,
                            status: ActionStatus::Error.into(),
                            error_message: "Its result was too large.".into(),
                            ..ActionResultEnvelope::default()
                        };
                        self.sessions.actions.answered(&self.opened.agreed.session_id, told);
                    }
                    Ok(result) => self.sessions.actions.answered(&self.opened.agreed.session_id, result),
                    Err(_) => self.sessions.counters.results_dropped.inc(),
                }
            }
            // Nothing, or what only a newer client knows.
            None => self.sessions.counters.messages_empty.inc(),
        }
    }

    fn is_deaf(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.heard_out.is_some() || ending.began.elapsed() > UNDERWAY_FOR)
    }

    fn audio(&mut self, chunk: AudioChunk) {
        let wrong = match () {
            () if chunk.session_id != self.opened.agreed.session_id => "it is of another session",
            () if chunk.codec != i32::from(self.opened.agreed.codec) => "its codec is not the negotiated one",
            () if self.opus.is_none() && !chunk.audio_bytes.len().is_multiple_of(2) => "it ends within a sample",
            () if chunk.audio_bytes.len() > CHUNK_BYTES_MAX => "it is longer than two seconds",
            () => "",
        };
        if !wrong.is_empty() {
            return self.error(StreamErrorCode::AudioCorrupt, "asr", wrong, false);
        }
        self.turns.voiced(chunk.vad_hint() == VadSignal::Voiced, now(), &mut self.told);
        match self.opus.as_mut().map(|opus| opus.audio(&chunk.audio_bytes)) {
            None => self.ahead.extend_from_slice(&chunk.audio_bytes),
            Some(Heard::Audio(audio)) => self.ahead.extend_from_slice(&audio),
            Some(Heard::Concealed(audio)) => {
                self.ahead.extend_from_slice(&audio);
                self.error(StreamErrorCode::AudioCorrupt, "asr", "it is no packet of Opus", false);
            }
        }
        let most = self.bytes_of(AHEAD_MAX);
        if self.ahead.len() > most {
            let surplus = (self.ahead.len() - most).next_multiple_of(self.frame_bytes).min(self.ahead.len());
            let _ = self.ahead.split_to(surplus);
            self.sessions.counters.audio_dropped.inc_by((surplus / self.frame_bytes) as u64);
        }
    }

    /// One slot's worth to the call, at the pace of speech.
    fn speak(&mut self, heard: &mpsc::Sender<Bytes>) {
        let frames = if self.ahead.len() > self.bytes_of(CATCH_UP) { 2 } else { 1 };
        for _ in 0..frames {
            if self.ahead.len() < self.frame_bytes {
                return;
            }
            let frame = self.ahead.split_to(self.frame_bytes).freeze();
            self.frames += 1;
            if heard.try_send(frame).is_err() {
                self.sessions.counters.audio_dropped.inc();
            }
        }
        let frames = self.frames;
        self.opened.progress.send_modify(|(spoken, _)| *spoken = frames);
    }

    fn bytes_of(&self, time: Duration) -> usize {
        let slots = time.as_millis() / u128::from(FRAME_MS);
        usize::try_from(slots).unwrap_or(usize::MAX).saturating_mul(self.frame_bytes)
    }

    fn error(&mut self, code: StreamErrorCode, stage: &str, message: &str, is_fatal: bool) {
        self.told.push(Payload::StreamError(StreamError {
            session_id: self.opened.agreed.session_id.clone(),
            code: code.into(),
            message: message.to_owned(),
            is_fatal,
            stage: stage.to_owned(),
            timestamp: Some(stamp()),
        }));
    }
}

fn session_of(message: &ClientStreamMessage) -> Option<&str> {
    match message.payload.as_ref()? {
        client_stream_message::Payload::AudioChunk(chunk) => Some(&chunk.session_id),
        client_stream_message::Payload::SynthesisRequest(request) => Some(&request.session_id),
        client_stream_message::Payload::ActionResultPayload(_) => None,
    }
}

/// A connection that broke, or a peer that cancelled.
fn has_left(status: &Status) -> bool {
    matches!(status.code(), Code::Cancelled | Code::Unknown | Code::Unavailable)
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;
    use prometheus::HistogramOpts;

    /// V25: an action that waits for a client which does not read has not left.
    #[tokio::test(start_paused = true)]
    async fn an_action_leaves_when_the_connection_takes_it() {
        let emission = Histogram::with_opts(HistogramOpts::new("emission", "of the test")).unwrap();
        let (out, messages) = mpsc::channel(OUT_MAX);
        let mut messages = Box::pin(leaving(messages, emission.clone()));
        out.send(Ok(GatewayStreamMessage::default()).into()).await.unwrap();
        let wanted = Outgoing { message: Ok(GatewayStreamMessage::default()), since: Some(now()) };
        out.send(wanted).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(messages.next().await.is_some());
        assert_eq!(emission.get_sample_count(), 0, "what comes before it is no action");
        assert!(messages.next().await.is_some());
        assert_eq!((emission.get_sample_count(), emission.get_sample_sum()), (1, 1.0));
    }
}
