//! Sessions over in-memory channels, under a paused clock.

mod limits;

use super::*;
use crate::{
    audio::Format,
    call::{AgentTraits, ItemId, ResponseId, ResponseStatus},
    facts::CallId,
    provider::{Dial, Remote, SessionFormats},
};
use futures_util::{FutureExt, future::BoxFuture};
use prometheus::Registry;
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

const PASS: SessionFormats = SessionFormats { input: Format::ULAW, output: Format::ULAW };

type Peer = dyn Fn(usize, mpsc::Receiver<Wire>, mpsc::Sender<Wire>) -> BoxFuture<'static, ()> + Send + Sync;

/// A provider whose far end is a function of the attempt's number and the two channels.
struct Fake {
    peer: Arc<Peer>,
    dials: Arc<AtomicUsize>,
    formats: SessionFormats,
    session_max: Option<Duration>,
}

/// Text is `ready`, `lost`, `junk`, `done`, `end`, or `24k` to be told formats; binary is audio.
#[derive(Default)]
struct FakeCodec {
    told: Option<SessionFormats>,
}

impl Codec for FakeCodec {
    fn open(&mut self, out: &mut Vec<Wire>) {
        out.push(Wire::Text("open".into()));
    }

    fn encode(&mut self, command: AgentCommand, out: &mut Vec<Wire>) {
        out.push(match command {
            AgentCommand::Audio(audio) => Wire::Binary(audio),
            AgentCommand::Say { text } => Wire::Text(text),
            other => Wire::Text(format!("{other:?}")),
        });
    }

    fn decode(&mut self, wire: Wire, events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) {
        let (response, item): (ResponseId, ItemId) = ("r".into(), "i".into());
        match wire {
            Wire::Binary(audio) => events.push(AgentEvent::Audio { response, item, audio }),
            Wire::Text(text) => match text.as_str() {
                "ready" => {
                    replies.push(Wire::Text("thanks".into()));
                    events.push(AgentEvent::Ready);
                }
                "24k" => self.told = Some(SessionFormats { input: Format::SLIN24, output: Format::SLIN24 }),
                "done" => events.push(AgentEvent::ResponseDone { response, status: ResponseStatus::Completed }),
                "lost" => events.push(AgentEvent::Lost(AgentLoss::Expired)),
                "unauthorized" => events.push(AgentEvent::Lost(AgentLoss::Unauthorized)),
                "end" => events.push(AgentEvent::Audio { response, item, audio: Bytes::new() }),
                "speech" => events.push(AgentEvent::CallerSpeechStarted { utterance: None }),
                _ => events.push(AgentEvent::Noise(Noise::Malformed)),
            },
        }
    }

    fn keep_alive(&self) -> Option<(Duration, Vec<Wire>)> {
        Some((Duration::from_secs(7), vec![Wire::Text("alive".into())]))
    }

    fn formats(&self) -> Option<SessionFormats> {
        self.told
    }

    fn audio_gap_max(&self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }

    fn audio_gap(&mut self, events: &mut Vec<AgentEvent>) {
        events.push(AgentEvent::ResponseDone { response: "r".into(), status: ResponseStatus::Incomplete });
    }

    fn closed(&self, _: Option<u16>, _: &str) -> AgentLoss {
        AgentLoss::Closed
    }

    fn refused(&self, _: u16) -> AgentLoss {
        AgentLoss::Unreachable
    }
}

impl Provider for Fake {
    fn kind(&self) -> &'static str {
        "fake"
    }

    fn traits(&self) -> AgentTraits {
        AgentTraits { detects_speech: true, cancels_on_speech: true, truncates: true, ..AgentTraits::PLAIN }
    }

    fn dialect(&self) -> Option<crate::tool::schemas::Dialect> {
        None
    }

    fn agent(&self) -> Agent<'_> {
        Agent::Remote(self)
    }
}

impl Remote for Fake {
    fn formats(&self, _: Format) -> SessionFormats {
        self.formats
    }

    fn session_max(&self) -> Option<Duration> {
        self.session_max
    }

    fn dial(&self, _: &AgentSetup) -> Dial {
        let attempt = self.dials.fetch_add(1, Ordering::Relaxed) + 1;
        let peer = self.peer.clone();
        Dial::Played(Box::new(move |receiver, sender| peer(attempt, receiver, sender)))
    }

    fn codec(&self, _: &AgentSetup) -> Box<dyn Codec> {
        Box::new(FakeCodec::default())
    }
}

/// The call's side of one session.
struct Stage {
    commands: mpsc::Sender<AgentCommand>,
    events: mpsc::Receiver<AgentEvent>,
    counters: Arc<ProviderCounters>,
    dials: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Stage {
    fn with<F, P>(formats: SessionFormats, peer: P) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
        P: Fn(usize, mpsc::Receiver<Wire>, mpsc::Sender<Wire>) -> F + Send + Sync + 'static,
    {
        Self::of(formats, None, None, peer)
    }

    fn of<F, P>(formats: SessionFormats, session_max: Option<Duration>, resume: Option<&str>, peer: P) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
        P: Fn(usize, mpsc::Receiver<Wire>, mpsc::Sender<Wire>) -> F + Send + Sync + 'static,
    {
        let dials = Arc::new(AtomicUsize::new(0));
        let peer: Arc<Peer> = Arc::new(move |attempt, receiver, sender| peer(attempt, receiver, sender).boxed());
        let provider = Arc::new(Fake { peer, dials: dials.clone(), formats, session_max });
        let (command_sender, commands) = mpsc::channel(64);
        let (event_sender, events) = mpsc::channel(8);
        let counters = Arc::new(ProviderCounters::new(&Registry::new()).unwrap());
        let resume = resume.map(Into::into);
        let setup = AgentSetup { resume, ..AgentSetup::new(CallId::random(), Format::ULAW) };
        let policy = SessionPolicy::default();
        let task = tokio::spawn(run(provider, setup, commands, event_sender, policy, counters.clone()));
        Self { commands: command_sender, events, counters, dials, task }
    }

    fn new<F, P>(peer: P) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
        P: Fn(usize, mpsc::Receiver<Wire>, mpsc::Sender<Wire>) -> F + Send + Sync + 'static,
    {
        Self::with(PASS, peer)
    }

    /// Everything until the session ends.
    async fn rest(&mut self) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.events.recv().await {
            events.push(event);
        }
        events
    }

    fn outcome(&self, outcome: &str) -> u64 {
        self.counters.dials.with_label_values(&["fake", outcome]).get()
    }
}

async fn ready(sender: &mpsc::Sender<Wire>) {
    sender.send(Wire::Text("ready".into())).await.unwrap();
}

fn lost(loss: AgentLoss) -> AgentEvent {
    AgentEvent::Lost(loss)
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_says_nothing_is_given_up_after_bounded_attempts_within_the_setup_limit() {
    let begun = Instant::now();
    let mut stage = Stage::new(|_, receiver, sender| async move {
        std::future::pending::<()>().await;
        drop((receiver, sender));
    });
    assert_eq!(stage.rest().await, [lost(AgentLoss::Handshake)]);
    assert!(begun.elapsed() <= Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(stage.dials.load(Ordering::Relaxed), 3);
    assert_eq!(stage.outcome("handshake"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_accepts_and_closes_at_once_is_tried_three_times_and_lost_once() {
    let mut stage = Stage::new(|_, _, _| async {});
    assert_eq!(stage.rest().await, [lost(AgentLoss::Handshake)]);
    assert_eq!(stage.dials.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_is_not_tried_again() {
    let mut stage = Stage::new(|_, receiver, sender| async move {
        sender.send(Wire::Text("unauthorized".into())).await.unwrap();
        std::future::pending::<()>().await;
        drop(receiver);
    });
    assert_eq!(stage.rest().await, [lost(AgentLoss::Unauthorized)]);
    assert_eq!(stage.dials.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_attempt_may_succeed_and_finds_what_was_said_meanwhile_in_order() {
    let (seen_sender, mut seen) = mpsc::channel(64);
    let mut stage = Stage::new(move |attempt, mut receiver, sender| {
        let seen = seen_sender.clone();
        async move {
            if attempt == 1 {
                return;
            }
            ready(&sender).await;
            while let Some(wire) = receiver.recv().await {
                seen.send(wire).await.unwrap();
            }
        }
    });
    for command in [
        AgentCommand::Audio(Bytes::from_static(b"one")),
        AgentCommand::Say { text: "hello".into() },
        AgentCommand::Audio(Bytes::from_static(b"two")),
    ] {
        stage.commands.send(command).await.unwrap();
    }
    assert_eq!(stage.events.recv().await, Some(AgentEvent::Ready));
    let mut wires = Vec::new();
    for _ in 0..5 {
        wires.push(seen.recv().await.unwrap());
    }
    let expected = [
        Wire::Text("open".into()),
        Wire::Text("thanks".into()),
        Wire::Binary(Bytes::from_static(b"one")),
        Wire::Text("hello".into()),
        Wire::Binary(Bytes::from_static(b"two")),
    ];
    assert_eq!(wires, expected);
    assert_eq!((stage.outcome("handshake"), stage.outcome("ready")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn caller_audio_beyond_five_seconds_before_ready_drops_the_oldest_and_counts_it() {
    let (seen_sender, mut seen) = mpsc::channel(1_000);
    let stage = Stage::new(move |_, mut receiver, sender| {
        let seen = seen_sender.clone();
        async move {
            sleep(Duration::from_secs(3)).await;
            ready(&sender).await;
            while let Some(wire) = receiver.recv().await {
                seen.send(wire).await.unwrap();
            }
        }
    });
    for number in 0..=255 {
        stage.commands.send(AgentCommand::Audio(Bytes::from(vec![number; 160]))).await.unwrap();
    }
    for expected in ["open", "thanks"] {
        assert_eq!(seen.recv().await, Some(Wire::Text(expected.into())));
    }
    for number in 6..=255 {
        assert_eq!(seen.recv().await, Some(Wire::Binary(Bytes::from(vec![number; 160]))));
    }
    assert_eq!(stage.counters.preroll_dropped.get(), 6);
}

#[tokio::test(start_paused = true)]
async fn after_ready_a_loss_is_final_and_comes_last() {
    let mut stage = Stage::new(|_, receiver, sender| async move {
        ready(&sender).await;
        sender.send(Wire::Binary(Bytes::from_static(b"speech"))).await.unwrap();
        drop(receiver);
    });
    let events = stage.rest().await;
    let audio = AgentEvent::Audio { response: "r".into(), item: "i".into(), audio: Bytes::from_static(b"speech") };
    assert_eq!(events, [AgentEvent::Ready, audio, lost(AgentLoss::Closed)]);
    assert_eq!(stage.dials.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_few_unreadable_messages_are_noise_and_many_in_a_row_are_the_end() {
    let mut stage = Stage::new(|_, receiver, sender| async move {
        ready(&sender).await;
        for _ in 0..19 {
            sender.send(Wire::Text("junk".into())).await.unwrap();
        }
        sender.send(Wire::Text("speech".into())).await.unwrap();
        for _ in 0..20 {
            sender.send(Wire::Text("junk".into())).await.unwrap();
        }
        std::future::pending::<()>().await;
        drop(receiver);
    });
    let events = stage.rest().await;
    assert_eq!(events.iter().filter(|event| matches!(event, AgentEvent::Noise(_))).count(), 39);
    assert_eq!(events.last(), Some(&lost(AgentLoss::Protocol)));
    assert_eq!(stage.counters.noise.with_label_values(&["fake", "malformed"]).get(), 39);
}

#[tokio::test(start_paused = true)]
async fn a_session_in_which_nothing_is_said_is_kept_alive_and_one_in_which_something_is_said_is_not() {
    let (seen_sender, mut seen) = mpsc::channel(64);
    let stage = Stage::new(move |_, mut receiver, sender| {
        let seen = seen_sender.clone();
        async move {
            ready(&sender).await;
            while let Some(wire) = receiver.recv().await {
                seen.send((Instant::now(), wire)).await.unwrap();
            }
        }
    });
    for expected in ["open", "thanks"] {
        assert_eq!(seen.recv().await.unwrap().1, Wire::Text(expected.into()));
    }
    let begun = Instant::now();
    for _ in 0..2 {
        assert_eq!(seen.recv().await.unwrap().1, Wire::Text("alive".into()));
    }
    assert_eq!(begun.elapsed().as_secs(), 14, "twice after seven seconds");
    for _ in 0..20 {
        sleep(Duration::from_secs(5)).await;
        stage.commands.send(AgentCommand::Audio(Bytes::from_static(b"x"))).await.unwrap();
        assert_eq!(seen.recv().await.unwrap().1, Wire::Binary(Bytes::from_static(b"x")));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_brings_no_more_audio_is_complete_once_and_one_that_was_said_to_be_is_not_again() {
    let mut stage = Stage::new(|_, receiver, sender| async move {
        ready(&sender).await;
        for pause in [900, 1_100] {
            sender.send(Wire::Binary(Bytes::from_static(b"speech"))).await.unwrap();
            sleep(Duration::from_millis(pause)).await;
        }
        sleep(Duration::from_secs(10)).await;
        sender.send(Wire::Binary(Bytes::from_static(b"speech"))).await.unwrap();
        sender.send(Wire::Text("done".into())).await.unwrap();
        sleep(Duration::from_secs(10)).await;
        drop(receiver);
    });
    let done = |status| AgentEvent::ResponseDone { response: "r".into(), status };
    let audio = AgentEvent::Audio { response: "r".into(), item: "i".into(), audio: Bytes::from_static(b"speech") };
    let expected = [
        AgentEvent::Ready,
        audio.clone(),
        audio.clone(),
        done(ResponseStatus::Incomplete),
        audio,
        done(ResponseStatus::Completed),
        lost(AgentLoss::Closed),
    ];
    assert_eq!(stage.rest().await, expected);
}

#[tokio::test(start_paused = true)]
async fn formats_that_the_provider_tells_hold_from_the_first_byte_on_both_ways() {
    let (seen_sender, mut seen) = mpsc::channel(64);
    let mut stage = Stage::new(move |_, mut receiver, sender| {
        let seen = seen_sender.clone();
        async move {
            sender.send(Wire::Text("24k".into())).await.unwrap();
            ready(&sender).await;
            sender.send(Wire::Binary(vec![0; 24 * 2 * 100].into())).await.unwrap();
            sender.send(Wire::Text("end".into())).await.unwrap();
            while let Some(wire) = receiver.recv().await {
                seen.send(wire).await.unwrap();
            }
        }
    });
    stage.commands.send(AgentCommand::Audio(vec![0xff; 160].into())).await.unwrap();
    assert_eq!(stage.events.recv().await, Some(AgentEvent::Ready));
    let Some(AgentEvent::Audio { audio, .. }) = stage.events.recv().await else { panic!("no speech") };
    assert_eq!(Format::ULAW.duration_of(audio.len()), Duration::from_millis(100));
    for expected in ["open", "thanks"] {
        assert_eq!(seen.recv().await, Some(Wire::Text(expected.into())));
    }
    let Some(Wire::Binary(audio)) = seen.recv().await else { panic!("no caller") };
    assert_eq!(Format::SLIN24.duration_of(audio.len()), Duration::from_millis(20));
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_loses_no_event_and_can_still_speak() {
    const PIECES: u32 = 3_000;
    let (heard, said) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let counted = (heard.clone(), said.clone());
    let mut stage = Stage::new(move |_, mut receiver, sender| {
        let (heard, said) = counted.clone();
        async move {
            ready(&sender).await;
            let sending = async {
                for number in 0..PIECES {
                    sender.send(Wire::Binary(Bytes::copy_from_slice(&number.to_be_bytes()))).await.unwrap();
                    *said.lock().unwrap() += 1;
                }
            };
            let hearing = async {
                while receiver.recv().await.is_some() {
                    *heard.lock().unwrap() += 1;
                }
            };
            tokio::join!(sending, hearing);
        }
    });
    assert_eq!(stage.events.recv().await, Some(AgentEvent::Ready));
    // The call takes nothing for a while, and speaks all the same.
    for _ in 0..200 {
        stage.commands.send(AgentCommand::Audio(Bytes::from_static(b"caller"))).await.unwrap();
    }
    sleep(Duration::from_secs(5)).await;
    assert_eq!(*heard.lock().unwrap(), 202, "`open`, `thanks` and the audio");
    assert!(*said.lock().unwrap() < 100, "the provider has to wait, not the memory to grow");
    for number in 0..PIECES {
        let Some(AgentEvent::Audio { audio, .. }) = stage.events.recv().await else { panic!("lost at {number}") };
        assert_eq!(*audio, number.to_be_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_waits_for_a_slow_call_can_be_aborted() {
    let stage = Stage::new(|_, receiver, sender| async move {
        ready(&sender).await;
        loop {
            if sender.send(Wire::Binary(Bytes::from_static(b"more"))).await.is_err() {
                break;
            }
        }
        drop(receiver);
    });
    sleep(Duration::from_secs(1)).await;
    stage.task.abort();
    assert!(stage.task.await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn when_the_call_closes_its_commands_the_session_ends_without_a_loss() {
    let mut stage = Stage::new(|_, mut receiver, sender| async move {
        ready(&sender).await;
        while receiver.recv().await.is_some() {}
    });
    assert_eq!(stage.events.recv().await, Some(AgentEvent::Ready));
    let (closed, _) = mpsc::channel(1);
    stage.commands = closed;
    assert_eq!(stage.rest().await, []);
    stage.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_stops_reading_fills_the_command_queue_and_nothing_else() {
    let stage = Stage::new(|_, receiver, sender| async move {
        ready(&sender).await;
        std::future::pending::<()>().await;
        drop(receiver);
    });
    sleep(Duration::from_millis(1)).await;
    let mut sent = 0;
    while stage.commands.try_send(AgentCommand::Audio(Bytes::from_static(b"x"))).is_ok() {
        sent += 1;
        sleep(Duration::from_millis(20)).await;
    }
    assert!((64..=64 * 3 + 3).contains(&sent), "{sent} frames were taken");
}

#[tokio::test(start_paused = true)]
async fn speech_is_converted_item_by_item_whole_to_the_last_syllable() {
    let formats = SessionFormats { input: Format::SLIN24, output: Format::SLIN24 };
    let mut stage = Stage::with(formats, |_, receiver, sender| async move {
        ready(&sender).await;
        // 110 ms in pieces that cut samples in half.
        for piece in vec![0u8; 24 * 2 * 110].chunks(333) {
            sender.send(Wire::Binary(Bytes::copy_from_slice(piece))).await.unwrap();
        }
        sender.send(Wire::Text("end".into())).await.unwrap();
        drop(receiver);
    });
    let events = stage.rest().await;
    let bytes: usize =
        events.iter().map(|event| if let AgentEvent::Audio { audio, .. } = event { audio.len() } else { 0 }).sum();
    let length = Format::ULAW.duration_of(bytes);
    assert_eq!(length, Duration::from_millis(120), "110 ms in whole blocks of 20 ms");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_no_ping_is_lost_and_one_that_does_is_not() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let role = tokio_tungstenite::tungstenite::protocol::Role::Client;
    let socket = tokio_tungstenite::WebSocketStream::from_raw_socket(ours, role, None).await;
    let mut stage = Stage::new(|_, _, _| async {});
    stage.task.abort();
    let (event_sender, events) = mpsc::channel(8);
    let (_commands, command_receiver) = mpsc::channel(8);
    stage.events = events;
    let mut session = Session {
        provider: Arc::new(Fake {
            peer: Arc::new(|_, _, _| async {}.boxed()),
            dials: Arc::default(),
            formats: PASS,
            session_max: None,
        }),
        setup: AgentSetup::new(CallId::random(), Format::ULAW),
        commands: command_receiver,
        events: event_sender,
        policy: SessionPolicy::default(),
        counters: stage.counters.clone(),
        preroll: Preroll::new(Format::ULAW, Duration::from_secs(5)),
        pending: VecDeque::new(),
        refused: None,
    };
    let mut talk = Talk {
        link: Link::over(socket),
        codec: Box::new(FakeCodec::default()),
        outbox: VecDeque::new(),
        caller: Converter::new(Format::ULAW, Format::ULAW),
        agent: Voice::new(Format::ULAW, Format::ULAW),
        ready: false,
        garble: Garble::default(),
        pulse: Pulse::new(session.policy.ping_every, Duration::from_secs(12)),
        watch: Watch::new(Instant::now(), None),
        notice: Duration::ZERO,
    };
    talk.stands(Format::ULAW);
    let begun = Instant::now();
    // The peer answers pings for a minute, which reading alone does, then falls silent.
    let peer = tokio::spawn(async move {
        use futures_util::StreamExt;
        let role = tokio_tungstenite::tungstenite::protocol::Role::Server;
        let mut peer = tokio_tungstenite::WebSocketStream::from_raw_socket(theirs, role, None).await;
        let until = Instant::now() + Duration::from_secs(60);
        while timeout_at(until, peer.next()).await.is_ok() {}
        std::future::pending::<()>().await;
    });
    let end = timeout(Duration::from_secs(200), session.converse(talk)).await.expect("an end");
    assert!(matches!(end, Attempt::Ended(End::Lost(AgentLoss::Closed))));
    let after = begun.elapsed().as_secs();
    assert!((67..=77).contains(&after), "given up after {after} s");
    peer.abort();
}
