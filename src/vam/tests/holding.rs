//! Who holds a place, and for how long.

use super::*;
use crate::vam::{
    Actioning, Actions, Agreed, Conversations, Cue, Ends, Sessions, prepare,
    sessions::SessionService,
    wire::{
        AudioChunk, AudioCodec, ClientStreamMessage, ListActionServersRequest, SessionEndNotice, SessionInitRequest,
        SessionStatus, TurnEvent, client_stream_message, gateway_stream_message::Payload,
        vani_action_service_client::VaniActionServiceClient, vani_session_service_client::VaniSessionServiceClient,
        vani_session_service_server::VaniSessionService as _, vani_stream_service_client::VaniStreamServiceClient,
    },
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use std::{sync::Mutex, time::Duration};
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{Request, transport::Endpoint};
use uuid::Uuid;

pub(super) const TOKEN: &str = "a-token-of-the-tests";

/// Calls as a test plays them: what each is told by, one after the other.
struct Calls(Mutex<Vec<Ends>>);

impl Conversations for Calls {
    fn knows_context(&self, _: &str) -> bool {
        true
    }

    fn begin(&self, _: Agreed) -> BoxFuture<'_, Option<Ends>> {
        let ends = self.0.lock().unwrap().pop();
        Box::pin(std::future::ready(ends))
    }
}

pub(super) struct Held {
    servers: Arc<ActionServers>,
    sessions: Arc<Sessions>,
    pub counters: VamCounters,
}

impl Held {
    pub fn new(more: &str, calls: Vec<Ends>) -> Self {
        let gateway = Gateway::new(&format!("sessions: {{ context: a, hosted: india_only, limit: 1 }}{more}"));
        let (config, counters) = (gateway.servers.config().clone(), gateway.servers.counters().clone());
        let (servers, actions) = (Arc::new(gateway.servers), Arc::new(Actions::new(counters.clone())));
        let actioning = Actioning { servers: Arc::clone(&servers), actions };
        let sessions = Arc::new(Sessions::open(&config, counters.clone(), actioning).unwrap());
        sessions.attach(Arc::new(Calls(Mutex::new(calls))));
        Self { servers, sessions, counters }
    }

    async fn begins(&self) -> (String, SessionStatus) {
        let session_id = Uuid::new_v4().to_string();
        let request =
            SessionInitRequest { session_id: session_id.clone(), auth_token: TOKEN.into(), ..Default::default() };
        let service = SessionService(Arc::clone(&self.sessions));
        let answer = service.init_session(Request::new(request)).await.unwrap().into_inner();
        (session_id, answer.status())
    }

    /// How many there are, and how many were forgotten.
    fn counted(&self) -> (i64, u64) {
        (self.counters.sessions.get(), self.counters.sessions_forgotten.get())
    }

    /// Over loopback, until it is dropped.
    pub async fn served(&self) -> (SocketAddr, AbortOnDropHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let prepared = prepare(self.servers.config()).unwrap();
        let serving = prepared.serve(
            listener,
            Arc::clone(&self.servers),
            Some(Arc::clone(&self.sessions)),
            std::future::pending(),
        );
        (address, AbortOnDropHandle::new(tokio::spawn(async move { serving.await.unwrap() })))
    }
}

/// V26: whoever asks next or not, and its place is free again.
#[tokio::test(start_paused = true)]
async fn a_session_without_a_stream_is_forgotten_by_itself() {
    let held = Held::new("", Vec::new());
    let (session_id, status) = held.begins().await;
    assert_eq!((status, held.counted()), (SessionStatus::Ok, (1, 0)));
    sleep(Duration::from_secs(59)).await;
    assert_eq!((held.begins().await.1, held.counted()), (SessionStatus::RateLimited, (1, 0)));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(held.counted(), (0, 1));
    assert!(held.sessions.stream_of(&session_id).is_err());
    assert_eq!(held.begins().await.1, SessionStatus::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_ended_or_has_its_stream_is_not_forgotten() {
    let held = Held::new("", Vec::new());
    let (session_id, _) = held.begins().await;
    let notice = SessionEndNotice { session_id, ..Default::default() };
    SessionService(Arc::clone(&held.sessions)).end_session(Request::new(notice)).await.unwrap();
    assert_eq!(held.counted(), (0, 0));
    let (session_id, _) = held.begins().await;
    let opened = held.sessions.stream_of(&session_id);
    sleep(Duration::from_secs(120)).await;
    assert_eq!((opened.is_ok(), held.counted()), (true, (1, 0)));
    held.sessions.close(&session_id);
    assert_eq!(held.counted(), (0, 0));
}

/// A peer that says nothing, or begins TLS or HTTP/2 and goes no further, gives its place to the next one.
#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_is_asked_is_closed_and_counted() {
    let held = Held::new(", limits: { connections: 1 }", Vec::new());
    let (address, _serving) = held.served().await;
    let began = Instant::now();
    let mut mute = TcpStream::connect(address).await.unwrap();
    let mut said = Vec::new();
    // Its settings, and then the end.
    let _ = mute.read_to_end(&mut said).await;
    let took = began.elapsed();
    assert!((Duration::from_secs(20)..Duration::from_secs(21)).contains(&took), "{took:?}");
    assert_eq!(held.counters.unasked.get(), 1);

    // A clock that jumps ahead while packets are on their way would be too fast for anybody.
    tokio::time::resume();
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut list = Request::new(ListActionServersRequest::default());
    list.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
    VaniActionServiceClient::new(channel).list_action_servers(list).await.unwrap();
    assert_eq!(held.counters.unasked.get(), 1);
}

/// Whoever opens a stream and says nothing loses it after ten seconds, and is told why; it is counted, and holds no session.
#[tokio::test]
async fn a_stream_that_stays_silent_is_closed_and_counted() {
    let held = Held::new("", Vec::new());
    let (address, _serving) = held.served().await;
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let messages = stream::pending::<ClientStreamMessage>();
    let mut stream = VaniStreamServiceClient::new(channel).agent_stream(messages).await.unwrap().into_inner();
    // It is open: from now on nothing but time passes.
    tokio::time::pause();
    let began = Instant::now();
    let status = stream.message().await.unwrap_err();
    let took = began.elapsed();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status}");
    assert!((Duration::from_secs(9)..Duration::from_secs(11)).contains(&took), "{took:?}");
    assert_eq!((held.counters.silent.get(), held.counted()), (1, (0, 0)));
}

/// So many times 20 ms of it, as a client sends it.
fn silence(session_id: &str, frames: usize) -> ClientStreamMessage {
    let chunk = AudioChunk {
        session_id: session_id.to_owned(),
        audio_bytes: vec![0; frames * 640].into(),
        codec: AudioCodec::Pcm16k16.into(),
        ..AudioChunk::default()
    };
    ClientStreamMessage { payload: Some(client_stream_message::Payload::AudioChunk(chunk)) }
}

/// V34: what the call still has to say when its client ends the session is on the stream before it is over: what the agent was
/// saying, what the user had said, and an action that was not answered in time; then the client is answered.
#[tokio::test]
async fn end_session_flushes_what_is_pending() {
    let (heard, mut call_hears) = mpsc::channel(8);
    let (call_says, cues) = mpsc::channel(64);
    let done = CancellationToken::new();
    let held = Held::new("", vec![Ends { heard, cues, done: done.clone() }]);
    let (address, _serving) = held.served().await;
    let (session_id, _) = held.begins().await;
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let messages = stream::iter([silence(&session_id, 1)]).chain(stream::pending());
    let stream = VaniStreamServiceClient::new(channel.clone()).agent_stream(messages).await.unwrap().into_inner();
    call_says.send(Cue::Up).await.unwrap();
    call_says.send(Cue::Frame(vec![0x11; 640].into())).await.unwrap();
    call_hears.recv().await.expect("the client is heard");

    let call = tokio::spawn(async move {
        done.cancelled().await;
        assert!(!call_hears.is_closed(), "the caller has not left");
        call_says.send(Cue::Said { text: "Two kilos of wheat.".to_owned().into() }).await.unwrap();
        call_says.send(Cue::ActionTimedOut).await.unwrap();
    });
    let notice = SessionEndNotice { session_id, ..Default::default() };
    let ended = VaniSessionServiceClient::new(channel).end_session(notice).await.unwrap().into_inner();
    call.await.unwrap();
    assert!(ended.audio_seconds_processed > 0.0);
    let told: Vec<String> = stream
        .map(|message| match message.unwrap().payload.unwrap() {
            Payload::TurnSignal(signal) if signal.event() == TurnEvent::EndOfTurn => "END_OF_TURN".to_owned(),
            Payload::TurnSignal(_) => "signal".to_owned(),
            Payload::SynthesisChunk(chunk) if chunk.is_final => "final".to_owned(),
            Payload::SynthesisChunk(_) => "chunk".to_owned(),
            Payload::TranscriptEvent(event) => event.text,
            Payload::StreamError(error) => error.stage,
            Payload::ActionRequestPayload(_) => "action".to_owned(),
        })
        .collect()
        .await;
    let rest: Vec<&str> = told.iter().map(String::as_str).skip_while(|word| *word == "signal").collect();
    assert_eq!(rest, ["chunk", "Two kilos of wheat.", "action", "final", "END_OF_TURN"]);
    assert_eq!(held.counted(), (0, 0));
}

/// V34: a call that has more to come than there is time for is cut, and counted; the client is answered.
#[tokio::test]
async fn what_does_not_come_in_time_after_end_session_is_cut_and_counted() {
    let (heard, call_hears) = mpsc::channel(8);
    let (call_says, cues) = mpsc::channel(64);
    let held = Held::new("", vec![Ends { heard, cues, done: CancellationToken::new() }]);
    let (address, _serving) = held.served().await;
    let (session_id, _) = held.begins().await;
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let messages = stream::iter([silence(&session_id, 1)]).chain(stream::pending());
    let _stream = VaniStreamServiceClient::new(channel.clone()).agent_stream(messages).await.unwrap();
    let call = tokio::spawn(async move {
        // The caller has left: as a call does, it ends then.
        while !call_hears.is_closed() {
            sleep(Duration::from_millis(10)).await;
        }
        drop(call_says);
    });
    let began = Instant::now();
    let notice = SessionEndNotice { session_id, ..Default::default() };
    VaniSessionServiceClient::new(channel).end_session(notice).await.unwrap();
    call.await.unwrap();
    let took = began.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&took), "{took:?}");
    assert_eq!(held.counters.flushes_cut.get(), 1);
}

/// V34: a client that goes on speaking after it has ended its session, ahead of its time, is not heard any more: the call is told
/// that it is done, and the stream ends.
#[tokio::test]
async fn a_client_that_goes_on_speaking_after_the_end_of_its_session_is_not_waited_for() {
    let (heard, mut call_hears) = mpsc::channel(8);
    let (call_says, cues) = mpsc::channel(64);
    let done = CancellationToken::new();
    let held = Held::new("", vec![Ends { heard, cues, done: done.clone() }]);
    let (address, _serving) = held.served().await;
    let (session_id, _) = held.begins().await;
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let (first, next) = (silence(&session_id, 10), silence(&session_id, 1));
    let clock = tokio::time::interval(Duration::from_millis(20));
    let goes_on = stream::unfold((clock, next), |(mut clock, next)| async move {
        clock.tick().await;
        Some((next.clone(), (clock, next)))
    });
    let messages = stream::iter([first]).chain(goes_on);
    let told = VaniStreamServiceClient::new(channel.clone()).agent_stream(messages).await.unwrap().into_inner();
    for _ in 0..20 {
        call_hears.recv().await.expect("the client is heard");
    }
    let call = tokio::spawn(async move {
        tokio::select! {
            () = done.cancelled() => {}
            () = async { while call_hears.recv().await.is_some() {} } => panic!("the client has left"),
        }
        drop(call_says);
    });
    let began = Instant::now();
    let notice = SessionEndNotice { session_id, ..Default::default() };
    VaniSessionServiceClient::new(channel).end_session(notice).await.unwrap();
    call.await.unwrap();
    assert!(told.count().await > 0);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!((held.counters.flushes_cut.get(), held.counted()), (0, (0, 0)));
}
