//! VAM clients: each sends a chunk of silence every 20 ms, hears, and answers actions at once.

use super::{TOKEN, server};
use anyhow::Context as _;
use futures_util::{StreamExt as _, future::join_all, stream};
use offhook::{
    audio::FRAME,
    vam::wire::{
        ActionRequestEnvelope, ActionResultEnvelope, ActionServerManifest, ActionStatus, AudioChunk, AudioCodec,
        AudioProfile, ClientStreamMessage, McpContent, McpToolResult, SessionCapabilities, SessionInitRequest,
        SessionStatus, SynthesisChunk, ToolDeclaration, client_stream_message, gateway_stream_message::Payload,
        vani_action_service_client::VaniActionServiceClient, vani_session_service_client::VaniSessionServiceClient,
        vani_stream_service_client::VaniStreamServiceClient,
    },
};
use prost::Message as _;
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::{
    Request,
    transport::{Channel, Endpoint},
};
use uuid::Uuid;

/// An engine lets 64 requests of one connection run at once.
const SESSIONS_OF_A_CONNECTION: usize = 50;
/// Between two sessions, as between two callers.
const ARRIVAL_EVERY: Duration = Duration::from_millis(40);
const UP_WITHIN: Duration = Duration::from_secs(10);
const END_WITHIN: Duration = Duration::from_secs(5);
/// Of 8 kHz, which is what telephones have as well.
const CHUNK_BYTES: usize = 320;
/// Chunks and answers on their way.
const OUT_MAX: usize = 64;

/// What all clients have seen since it counts.
#[derive(Default)]
pub struct Told {
    /// Between two chunks of one answer.
    pub gaps: Vec<Duration>,
    /// Slots of an answer for which no chunk came.
    pub missed: u64,
    /// Actions that were answered.
    pub actions: u64,
    /// Sessions that ended by themselves.
    pub lost: u64,
}

#[derive(Default)]
struct Shared {
    recording: AtomicBool,
    greeted: AtomicUsize,
    told: Mutex<Told>,
    stop: CancellationToken,
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, note: impl FnOnce(&mut Told)) {
        if self.recording.load(Relaxed) {
            note(&mut self.told());
        }
    }
}

/// Clients whose agents have spoken.
pub struct Clients {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

async fn connect(gateway: SocketAddr) -> anyhow::Result<Channel> {
    let until = Instant::now() + UP_WITHIN;
    loop {
        match Endpoint::from_shared(format!("http://{gateway}"))?.tcp_nodelay(true).connect().await {
            Ok(channel) => return Ok(channel),
            Err(error) if Instant::now() > until => return Err(error).context("the gateway does not answer"),
            Err(_) => sleep(FRAME).await,
        }
    }
}

/// The action server's tool is there for calls when this returns.
pub async fn register(gateway: SocketAddr, uri: &str) -> anyhow::Result<()> {
    let manifest = ActionServerManifest {
        server_id: "bench".into(),
        endpoint_uri: uri.to_owned(),
        version: "1".into(),
        tools: vec![ToolDeclaration { name: server::NAME.into(), ..ToolDeclaration::default() }],
        ..ActionServerManifest::default()
    };
    let mut request = Request::new(manifest);
    request.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse()?);
    let answer = VaniActionServiceClient::new(connect(gateway).await?).register_action_server(request).await?;
    let answer = answer.into_inner();
    anyhow::ensure!(answer.success, "the action server was refused: {}", answer.message);
    Ok(())
}

impl Clients {
    pub async fn begin(count: usize, gateway: SocketAddr) -> anyhow::Result<Self> {
        let shared = Arc::<Shared>::default();
        let mut channels = Vec::new();
        for _ in 0..count.div_ceil(SESSIONS_OF_A_CONNECTION) {
            channels.push(connect(gateway).await?);
        }
        let (began, mut tasks) = (Instant::now(), Vec::with_capacity(count));
        for index in 0..count {
            // The golden ratio spreads the clients' 20 ms clocks evenly, however many there are.
            let phase = FRAME.mul_f64((index as f64 * 0.618_034).fract());
            sleep_until(began + ARRIVAL_EVERY * u32::try_from(index)? + phase).await;
            let (channel, shared) = (channels[index / SESSIONS_OF_A_CONNECTION].clone(), Arc::clone(&shared));
            tasks.push(tokio::spawn(async move {
                if let Err(error) = converse(channel, &shared).await {
                    tracing::debug!(%error, "a session broke");
                    shared.told().lost += 1;
                }
            }));
        }
        let until = Instant::now() + UP_WITHIN;
        while shared.greeted.load(Relaxed) < count {
            let greeted = shared.greeted.load(Relaxed);
            anyhow::ensure!(Instant::now() < until, "only {greeted} of {count} clients were greeted");
            sleep(FRAME).await;
        }
        Ok(Self { shared, tasks })
    }

    pub fn record(&self) {
        self.shared.recording.store(true, Relaxed);
    }

    pub async fn end(self) -> Told {
        self.shared.recording.store(false, Relaxed);
        self.shared.stop.cancel();
        if timeout(END_WITHIN, join_all(self.tasks)).await.is_err() {
            self.shared.told().lost += 1;
        }
        std::mem::take(&mut self.shared.told())
    }
}

async fn converse(channel: Channel, shared: &Shared) -> anyhow::Result<()> {
    let session_id = Uuid::new_v4().to_string();
    let request = SessionInitRequest {
        session_id: session_id.clone(),
        auth_token: TOKEN.into(),
        data_residency: offhook::vam::wire::DataResidency::Any.into(),
        audio_profile: Some(AudioProfile { codec: AudioCodec::Pcm8k16.into(), channels: 1, ..AudioProfile::default() }),
        requested_capabilities: Some(SessionCapabilities { action_execution: true, ..SessionCapabilities::default() }),
        ..SessionInitRequest::default()
    };
    let begun = VaniSessionServiceClient::new(channel.clone()).init_session(request).await?.into_inner();
    anyhow::ensure!(begun.status() == SessionStatus::Ok, "no session: {}", begun.status_message);
    let (out, messages) = mpsc::channel(OUT_MAX);
    let messages = stream::unfold(messages, |mut messages| async move { Some((messages.recv().await?, messages)) });
    let speaks = tokio::spawn(speak(session_id, out.clone(), shared.stop.clone()));
    let mut came = VaniStreamServiceClient::new(channel).agent_stream(messages).await?.into_inner();
    let mut answer = Answer::default();
    loop {
        let message = tokio::select! {
            () = shared.stop.cancelled() => break,
            message = came.next() => message.context("the stream ended")??,
        };
        match message.payload {
            Some(Payload::SynthesisChunk(chunk)) => answer.hear(&chunk, shared),
            Some(Payload::ActionRequestPayload(bytes)) => {
                out.send(answered(&ActionRequestEnvelope::decode(bytes)?)).await?;
                shared.note(|told| told.actions += 1);
            }
            _ => {}
        }
    }
    // The engine ends the call when the client's side is closed.
    drop(out);
    speaks.await?;
    while let Ok(Some(_)) = timeout(END_WITHIN, came.next()).await {}
    Ok(())
}

async fn speak(session_id: String, out: mpsc::Sender<ClientStreamMessage>, stop: CancellationToken) {
    let mut clock = interval_at(Instant::now(), FRAME);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let silence = bytes::Bytes::from_static(&[0; CHUNK_BYTES]);
    for sequence_number in 0.. {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = clock.tick() => {}
        }
        let chunk = AudioChunk {
            session_id: session_id.clone(),
            sequence_number,
            audio_bytes: silence.clone(),
            codec: AudioCodec::Pcm8k16.into(),
            ..AudioChunk::default()
        };
        let payload = Some(client_stream_message::Payload::AudioChunk(chunk));
        if out.send(ClientStreamMessage { payload }).await.is_err() {
            return;
        }
    }
}

fn answered(request: &ActionRequestEnvelope) -> ClientStreamMessage {
    let text = McpContent { r#type: "text".into(), text: "{\"found\": true}".into(), ..McpContent::default() };
    let result = ActionResultEnvelope {
        session_id: request.session_id.clone(),
        call_id: request.call_id.clone(),
        status: ActionStatus::Success.into(),
        result: Some(McpToolResult { content: vec![text], ..McpToolResult::default() }),
        ..ActionResultEnvelope::default()
    };
    let payload = client_stream_message::Payload::ActionResultPayload(result.encode_to_vec().into());
    ClientStreamMessage { payload: Some(payload) }
}

/// What is heard of one answer: its chunks follow one another every 20 ms.
#[derive(Default)]
struct Answer {
    request_id: String,
    began: Option<Instant>,
    last: Option<Instant>,
    chunks: u64,
    greeted: bool,
}

impl Answer {
    fn hear(&mut self, chunk: &SynthesisChunk, shared: &Shared) {
        let now = Instant::now();
        if !std::mem::replace(&mut self.greeted, true) {
            shared.greeted.fetch_add(1, Relaxed);
        }
        if chunk.request_id != self.request_id {
            let greeted = self.greeted;
            *self = Self { request_id: chunk.request_id.clone(), began: Some(now), greeted, ..Self::default() };
        }
        // The final one may have nothing to play: it says that there was enough.
        if !chunk.audio_bytes.is_empty() {
            if let Some(last) = self.last.replace(now) {
                shared.note(|told| told.gaps.push(now - last));
            }
            self.chunks += 1;
        }
        if chunk.is_final
            && let (Some(began), Some(last)) = (self.began, self.last)
        {
            // As many as fit between the first and the last one, to the nearest slot.
            let slots = ((last - began).as_secs_f64() / FRAME.as_secs_f64()).round() as u64 + 1;
            let missed = slots.saturating_sub(self.chunks);
            shared.note(|told| told.missed += missed);
        }
    }
}
