//! A client of Rust that runs actions, one message after the other.

use super::*;
use futures_util::stream;
use offhook::vam::wire::{
    ActionRequestEnvelope, ActionResultEnvelope, ActionStatus, AudioChunk, AudioCodec, ClientStreamMessage,
    GatewayStreamMessage, McpContent, McpToolResult, SessionCapabilities, SessionInitRequest, SynthesisChunk,
    client_stream_message::Payload as client, gateway_stream_message::Payload as gateway,
    vani_session_service_client::VaniSessionServiceClient, vani_stream_service_client::VaniStreamServiceClient,
};
use prost::Message as _;
use tokio::sync::mpsc;
use tonic::{Status, Streaming, transport::Endpoint};
use uuid::Uuid;

pub struct Peer {
    pub session_id: String,
    pub says: mpsc::Sender<ClientStreamMessage>,
    pub hears: Streaming<GatewayStreamMessage>,
}

impl Peer {
    pub async fn begin(engine: &Engine) -> Self {
        let request = SessionInitRequest {
            session_id: Uuid::new_v4().to_string(),
            auth_token: TOKEN.into(),
            requested_capabilities: Some(SessionCapabilities { action_execution: true, ..Default::default() }),
            ..SessionInitRequest::default()
        };
        let mut sessions = VaniSessionServiceClient::new(endpoint(engine).connect().await.unwrap());
        Self::opens(engine, sessions.init_session(request).await.unwrap().into_inner().session_id).await
    }

    /// A stream of this session, whoever has begun it, by a connection of its own.
    pub async fn opens(engine: &Engine, session_id: String) -> Self {
        let first = Self::chunk(&session_id);
        Self::opens_with(engine, session_id, first).await
    }

    /// The same, and this is its first message.
    pub async fn opens_with(engine: &Engine, session_id: String, first: ClientStreamMessage) -> Self {
        let (says, said) = mpsc::channel(16);
        says.send(first).await.unwrap();
        let said = stream::unfold(said, |mut said| async move { Some((said.recv().await?, said)) });
        let mut streams = VaniStreamServiceClient::new(endpoint(engine).connect().await.unwrap());
        let hears = streams.agent_stream(said).await.unwrap().into_inner();
        Self { session_id, says, hears }
    }

    /// 20 ms of silence.
    pub fn chunk(session_id: &str) -> ClientStreamMessage {
        let chunk = AudioChunk {
            session_id: session_id.to_owned(),
            audio_bytes: vec![0; 640].into(),
            codec: AudioCodec::Pcm16k16.into(),
            ..AudioChunk::default()
        };
        ClientStreamMessage { payload: Some(client::AudioChunk(chunk)) }
    }

    /// What is told next.
    pub async fn told(&mut self) -> Result<gateway, Status> {
        let told = timeout(PATIENCE, self.hears.message()).await.expect("something comes");
        Ok(told?.expect("the stream is open").payload.unwrap())
    }

    /// What it is asked to do next.
    pub async fn action(&mut self) -> ActionRequestEnvelope {
        loop {
            if let gateway::ActionRequestPayload(bytes) = self.told().await.unwrap() {
                return ActionRequestEnvelope::decode(bytes).unwrap();
            }
        }
    }

    /// What it hears next.
    pub async fn sound(&mut self) -> SynthesisChunk {
        loop {
            if let gateway::SynthesisChunk(chunk) = self.told().await.unwrap() {
                return chunk;
            }
        }
    }

    pub async fn answers(&self, result: ActionResultEnvelope) {
        let payload = client::ActionResultPayload(result.encode_to_vec().into());
        self.says.send(ClientStreamMessage { payload: Some(payload) }).await.unwrap();
    }

    /// The action was done, and this came of it.
    pub async fn finds(&self, call_id: &str, text: &str) {
        let content = vec![McpContent { r#type: "text".into(), text: text.into(), ..McpContent::default() }];
        self.answers(ActionResultEnvelope {
            session_id: self.session_id.clone(),
            call_id: call_id.into(),
            status: ActionStatus::Success.into(),
            result: Some(McpToolResult { is_error: false, content }),
            ..ActionResultEnvelope::default()
        })
        .await;
    }
}

fn endpoint(engine: &Engine) -> Endpoint {
    Endpoint::from_shared(format!("http://{}", engine.grpc_addr().unwrap())).unwrap()
}
