//! Any realtime provider's server on 127.0.0.1, for tests: a wire dialect below, one scenario engine above.
//!
//! **To add a provider**, write `vendor/acme.rs` with `#[derive(Default)] pub struct Acme {..}` and
//! `impl Dialect for Acme`: one value of it is the vendor's side of one session. It knows the wire and nothing
//! else: [`Dialect::hear`] says what a message of the client means ([`Heard`]), [`Dialect::say`] how the vendor
//! says something ([`Saying`]; no messages where the vendor has none for it). When to say what is the scenario's
//! (`vendor/session.rs`): by default it accepts, sets up as asked, answers a wish to speak and a caller's turn with
//! a tone of the session's own pitch ([`hertz`]), faster than real time, and does what [`Scenario`] and [`Order`]
//! say. Then add `mod acme; pub use acme::Acme;` below, a line in `tests/providers/table.rs`, which runs every
//! behaviour and every fault against it, one in `tests/calls/providers.rs` for real calls, and its name in
//! `tests/fixtures/behaviours.yaml`; and one in `tests/providers/packages.rs`, if the vendor's own package has types of
//! what the vendor says. Rules:
//!
//! - `hear` checks the client strictly: what the vendor would refuse is a [`Heard::Violation`], and fails the test.
//!   What the protocol answers by itself at once is a [`Heard::Reply`].
//! - A vendor that speaks by itself (a greeting in the set-up, an answer once all tool results are in, or after the
//!   end of a turn it was told) says so: `hear` adds a [`Heard::WantsSpeech`].
//! - With [`SetUp::detects`] the scenario finds the caller's turns in the audio, says
//!   [`Saying::CallerSpeechStarted`] and so on, stops its answer, and answers.
//! - [`Dialect::loss`], [`Dialect::late_audio`] and the constants beside them say what is to be expected of faults; their
//!   defaults are what most vendors do.
//! - Responses are numbered in a session from 1; ids are the dialect's own.

#![allow(unused_imports)]

mod deepgram;
mod ear;
mod elevenlabs;
mod gemini;
mod openai;
mod scenario;
mod session;

pub use deepgram::Deepgram;
pub use elevenlabs::ElevenLabs;
pub use gemini::Gemini;
pub use openai::{OpenAi, SUMMARY};
pub use scenario::{Asides, Opening, Order, Scenario, converted};

use offhook::{audio::Format, call::CallerTurn};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc},
    task::{AbortHandle, JoinHandle, JoinSet},
    time::timeout,
};
pub use tokio_tungstenite::tungstenite::Message;

/// The longest a test waits for something that should come.
const PATIENCE: Duration = Duration::from_secs(40);

/// Connections and orders that wait to be taken up; no test has so many.
const QUEUE: usize = 64;

/// One vendor's side of one session on the wire.
pub trait Dialect: Default + Send + 'static {
    /// The provider's key in the configuration, and the name of its tests.
    const KIND: &'static str;
    /// Options of the provider that lead to a server here.
    fn options(address: SocketAddr) -> Value;
    /// What the client asks for by the head of its request: the address with its query, and the headers.
    fn dialled(&mut self, _head: &str) -> Vec<Heard> {
        Vec::new()
    }
    /// What the vendor says when the connection stands, before it heard anything.
    fn hello(&mut self) -> Vec<Message> {
        Vec::new()
    }
    fn hear(&mut self, message: Message) -> Vec<Heard>;
    fn say(&mut self, saying: &Saying) -> Vec<Message>;
    /// What an end of this kind is counted as. The vendors that mean something else by it say so.
    fn loss(end: End) -> &'static str {
        end.usual_loss()
    }
    /// No end-of-answer message: an answer is complete when its audio stops.
    const ENDS_ANSWERS_BY_SILENCE: bool = false;
    /// It tells the words of an answer before its sound; the others do after it.
    const WORDS_FIRST: bool = false;
    /// The client's word for the end of a turn that it has found; none where the vendor finds the end itself, whoever owns
    /// the turns.
    const END_OF_TURN: Option<&'static str> = None;
    /// It finds the beginning of a turn itself, also where the client tells its end.
    const FINDS_BEGINNINGS: bool = false;
    /// Bytes of a tool's result, with all that it is wrapped in.
    const RESULT_MAX: usize = 16_384;
    /// Metric that counts late audio of a cancelled answer, and its minimum for `pieces` of 100 ms. Most vendors name the
    /// answer of each piece, and each frame of 20 ms counts.
    fn late_audio(pieces: usize) -> (&'static str, usize) {
        ("offhook_frames_dropped_total{reason=\"stale_response\"}", 5 * pieces)
    }
    /// Number of message kinds in which this vendor can refer to an unknown id: the end of an answer, an interruption, the
    /// cancellation of a tool call.
    const ODD_IDS: usize = 0;
    /// How the vendor turns away a client whose key it does not take: at the upgrade, or in words after it.
    fn refuses_a_key() -> Opening {
        Opening::Refuse(401)
    }
    /// Its agent says something after every result, whoever wants it to.
    const ANSWERS_RESULTS: bool = false;
    /// Whether it can be asked to sum up a record beside the conversation.
    const SUMMARISES: bool = false;
    /// Options without which a session that carries a call on would greet again.
    fn waits() -> Value {
        json!({})
    }
    /// Tokens that each answer reports, by the kinds of the metrics; none where the vendor tells none.
    fn tokens() -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }
    /// The answer to a plain request for this path, where sessions are asked for over HTTP first.
    fn page(_path: &str, _address: SocketAddr) -> Option<String> {
        None
    }
}

/// What a message of the client means.
#[derive(Debug, Clone)]
pub enum Heard {
    SetUp(SetUp),
    /// The caller, in [`SetUp::hears`].
    Audio(Vec<u8>),
    /// An answer is due now; these are the words it was asked for, if any.
    WantsSpeech {
        text: Option<String>,
    },
    /// Words that are to be said as they are.
    Injection(String),
    /// An answer of these words is due now, and no tool may be called in it.
    WantsWords(String),
    /// Something to know; nothing is to be said about it now.
    Told(String),
    ToolResult {
        id: String,
        output: String,
    },
    /// The client tells the caller's turns.
    Turn(CallerTurn),
    Truncated {
        heard: Duration,
    },
    /// The running answer is not wanted any more.
    Cancelled,
    /// What the protocol itself answers at once.
    Reply(Vec<Message>),
    /// Something that is wanted beside the conversation.
    Aside {
        answer: Vec<Message>,
        refusal: Vec<Message>,
    },
    Pong,
    Other,
    /// The vendor would not have taken it.
    Violation(String),
}

/// A session as the client asks for it.
#[derive(Debug, Clone)]
pub struct SetUp {
    pub hears: Format,
    pub speaks: Format,
    /// The vendor finds the caller's turns itself.
    pub detects: bool,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

/// What a vendor says.
#[derive(Debug, Clone)]
pub enum Saying {
    /// The set-up holds as asked.
    Ready,
    /// The set-up is answered with other formats. Nothing where formats are not negotiated.
    ReadyOtherwise,
    ResponseStarted {
        response: u32,
    },
    /// In [`SetUp::speaks`].
    Audio {
        response: u32,
        audio: Vec<u8>,
    },
    AgentWords {
        response: u32,
        text: String,
    },
    ToolCalls {
        response: u32,
        calls: Vec<Call>,
    },
    ToolCallsCancelled {
        ids: Vec<String>,
    },
    /// The response is complete; vendors that report usage do it here or in [`Saying::Usage`].
    ResponseDone {
        response: u32,
    },
    /// The caller spoke into the response, or the client cancelled it.
    Interrupted {
        response: u32,
    },
    Usage,
    CallerSpeechStarted {
        utterance: u32,
    },
    CallerSpeechStopped {
        utterance: u32,
    },
    CallerWords {
        utterance: u32,
        text: String,
    },
    /// The client asked for speech while there was some. Nothing where the vendor just speaks later.
    Busy,
    GoAway {
        within: Duration,
    },
    Resumable {
        handle: String,
    },
    Ping,
    /// An end of the session that the vendor has words for, with its close frame where it sends one.
    Failure(Failure),
    /// A message of a type that no version knows.
    Unknown,
    /// A message cut in half.
    Malformed,
    /// A message of its own kind that is harmless and has this many bytes.
    Huge(usize),
}

/// How a session ends, or does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The upgrade was refused with this HTTP status.
    Refused(u16),
    /// Closed with this code and no reason, before it stood or after.
    Closed {
        code: u16,
        stood: bool,
    },
    Said(Failure),
}

impl End {
    pub const fn usual_loss(self) -> &'static str {
        match self {
            Self::Refused(401 | 403) => "unauthorized",
            Self::Refused(404 | 405) => "not_found",
            Self::Refused(429 | 503) | Self::Said(Failure::Throttled) => "throttled",
            Self::Refused(_) => "unreachable",
            Self::Closed { stood: false, .. } => "handshake",
            Self::Closed { stood: true, .. } => "closed",
            Self::Said(Failure::Quota) => "quota",
            Self::Said(Failure::Expired) => "expired",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Quota,
    Throttled,
    Expired,
}

/// The pitch of a session's answers: what the caller hears tells whose they are.
pub const fn hertz(session: usize) -> f64 {
    const PITCHES: [f64; 8] = [440.0, 620.0, 800.0, 1040.0, 1260.0, 1480.0, 1720.0, 1960.0];
    PITCHES[(session - 1) % PITCHES.len()]
}

/// The pitch of what still comes of an answer that was cut short; nobody should hear it.
pub const LATE_HZ: f64 = 2_240.0;

/// What one session has seen of its client.
#[derive(Debug, Default)]
pub struct Seen {
    /// Of its request, as it came.
    pub head: String,
    pub upgraded: bool,
    pub set_up: Option<SetUp>,
    /// Everything the client wrote that is no audio, as it came.
    pub texts: Vec<String>,
    /// What was said that is no plain audio, with [`Scenario::kept`].
    pub said: Vec<String>,
    /// The caller, in [`SetUp::hears`].
    pub audio: Vec<u8>,
    /// Each wish to speak, with the words asked for.
    pub wishes: Vec<Option<String>>,
    /// Ids and outputs, oldest first.
    pub results: Vec<(String, String)>,
    pub truncations: Vec<Duration>,
    pub cancels: usize,
    pub pongs: usize,
    /// Turns of the caller that have begun and ended, found here or told.
    pub turns_begun: usize,
    pub turns_ended: usize,
    /// Answers said to their end, and those cut short.
    pub answered: usize,
    pub interrupted: usize,
    /// Pieces that were sent of answers after they were cut short.
    pub late: usize,
    /// Calls that want a result, by id; cancelled ones are gone.
    pub open_calls: BTreeMap<String, Call>,
    pub over: bool,
}

/// The server.
pub struct Vendor {
    kind: &'static str,
    options: Value,
    shared: Arc<Shared>,
    listening: AbortHandle,
    sessions: JoinHandle<()>,
    /// Bound to the same port and never listening, so that nobody else gets the port when this vendor goes.
    _port: Socket,
}

struct Shared {
    scenario: Scenario,
    address: SocketAddr,
    log: Mutex<Log>,
    changed: Notify,
}

#[derive(Default)]
struct Log {
    sessions: Vec<Seen>,
    orders: Vec<mpsc::Sender<Order>>,
    violations: Vec<String>,
    /// Words of the answers, where they are other ones than the scenario's.
    agent_words: Option<&'static str>,
    /// Calls that [`Vendor::call`] has made.
    calls: usize,
}

impl Drop for Vendor {
    fn drop(&mut self) {
        self.listening.abort();
        self.sessions.abort();
    }
}

impl Vendor {
    pub async fn start<D: Dialect>(scenario: Scenario) -> Self {
        let on_port = |port: u16| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.set_reuse_port(true).expect("a port that is shared with ourselves");
            socket.bind(&SocketAddr::from((scenario.host, port)).into()).expect("a free port");
            socket
        };
        let listener = on_port(0);
        listener.listen(128).expect("a socket that listens");
        listener.set_nonblocking(true).expect("a socket for the runtime");
        let listener = TcpListener::from_std(listener.into()).expect("a socket for the runtime");
        let _port = on_port(listener.local_addr().expect("an address").port());
        let address = listener.local_addr().expect("a bound socket");
        let shared = Arc::new(Shared { scenario, address, log: Mutex::default(), changed: Notify::new() });
        let (arrive, mut arrivals) = mpsc::channel(QUEUE);
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = arrive.send(stream).await;
            }
        });
        let serving = Arc::clone(&shared);
        let sessions = tokio::spawn(async move {
            let mut sessions = JoinSet::new();
            while let Some(stream) = arrivals.recv().await {
                sessions.spawn(session::serve::<D>(stream, Arc::clone(&serving)));
            }
            while sessions.join_next().await.is_some() {}
        });
        let options = D::options(address);
        Self { kind: D::KIND, options, shared, listening: listening.abort_handle(), sessions, _port }
    }

    /// One entry of the configuration's `providers`.
    pub fn yaml(&self) -> String {
        format!("{{ {}: {} }}", self.kind, self.options)
    }

    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The same with more options.
    pub fn yaml_with(&self, more: Value) -> String {
        let (Value::Object(mut options), Value::Object(more)) = (self.options.clone(), more) else {
            panic!("options are objects");
        };
        options.extend(more);
        format!("{{ {}: {} }}", self.kind, Value::Object(options))
    }

    pub fn options(&self) -> &Value {
        &self.options
    }

    /// From now on nobody listens on the port; sessions go on.
    pub fn stop_listening(&self) {
        self.listening.abort();
    }

    pub fn order(&self, session: usize, order: Order) {
        let sent = self.log().orders.get(session - 1).map(|orders| orders.try_send(order));
        assert!(matches!(sent, Some(Ok(()))), "session {session} is not there");
    }

    /// Sessions that were asked for so far, refused ones included.
    pub fn sessions(&self) -> usize {
        self.log().sessions.len()
    }

    /// What is known of this session, counted from 1.
    pub fn of<T>(&self, session: usize, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.log().sessions[session - 1])
    }

    pub fn of_all<T>(&self, look: impl FnOnce(&[Seen]) -> T) -> T {
        look(&self.log().sessions)
    }

    /// Waits until this holds of all sessions together.
    pub async fn until(&self, what: &str, holds: impl Fn(&[Seen]) -> bool) {
        let waiting = async {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if holds(&self.log().sessions) {
                    return;
                }
                changed.await;
            }
        };
        if timeout(PATIENCE, waiting).await.is_err() {
            let log = self.log();
            let told: Vec<_> = log.sessions.iter().map(|seen| (&seen.texts, seen.answered, seen.over)).collect();
            panic!("{}: waited in vain until {what}; {told:#?}", self.kind);
        }
    }

    /// Waits until this session is like this.
    pub async fn until_session(&self, session: usize, what: &str, holds: impl Fn(&Seen) -> bool) {
        self.until(&format!("session {session} {what}"), |sessions| sessions.get(session - 1).is_some_and(&holds))
            .await;
    }

    /// What a session was told but for audio, oldest first; not for vendors whose messages are no JSON.
    pub fn told(&self, session: usize) -> Vec<Value> {
        let json = |text: &String| serde_json::from_str(text).expect("JSON");
        self.of(session, |seen| seen.texts.iter().map(json).collect())
    }

    /// From now on the words of an answer are these.
    pub fn speaks_of(&self, words: &'static str) {
        self.log().agent_words = Some(words);
    }

    /// Answers that all sessions have said to their end.
    pub fn answered(&self) -> usize {
        self.of_all(answered)
    }

    /// Waits until so many answers have been said.
    pub async fn has_answered(&self, answers: usize) {
        self.until(&format!("{answers} answers were said"), |sessions| answered(sessions) >= answers).await;
    }

    /// The newest session calls a tool, after what is being said. The call's id, which is as long as vendors make them.
    pub fn call(&self, name: &str, arguments: &Value) -> String {
        let id = {
            let mut log = self.log();
            log.calls += 1;
            format!("call_{:016}", log.calls)
        };
        let call = Call { id: id.clone(), name: name.into(), arguments: arguments.clone() };
        self.order(self.sessions(), Order::Call(vec![call]));
        id
    }

    /// Waits for the result of a call.
    pub async fn result_of(&self, id: &str) -> Value {
        let result = |sessions: &[Seen]| {
            let mut results = sessions.iter().flat_map(|seen| &seen.results);
            results.find(|(call, _)| call == id).map(|(_, output)| output.clone())
        };
        self.until(&format!("{id} has its result"), |sessions| result(sessions).is_some()).await;
        let output = self.of_all(result).expect("waited for");
        serde_json::from_str(&output).expect("JSON")
    }

    /// The newest session calls a tool, gets its result, and speaks.
    pub async fn uses(&self, name: &str, arguments: &Value) -> Value {
        let answers = self.answered();
        let result = self.result_of(&self.call(name, arguments)).await;
        self.has_answered(answers + 1).await;
        result
    }

    /// The client did nothing that the vendor would have refused.
    pub fn is_content(&self) {
        assert_eq!(self.log().violations, Vec::<String>::new(), "{}", self.kind);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.log()
    }
}

fn answered(sessions: &[Seen]) -> usize {
    sessions.iter().map(|seen| seen.answered).sum()
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A new session: its number, and what the test orders of it.
    fn enter(&self) -> (usize, mpsc::Receiver<Order>) {
        let (orders, ordered) = mpsc::channel(QUEUE);
        let mut log = self.log();
        log.sessions.push(Seen::default());
        log.orders.push(orders);
        let number = log.sessions.len();
        drop(log);
        self.changed.notify_waiters();
        (number, ordered)
    }

    fn note<T>(&self, session: usize, change: impl FnOnce(&mut Seen) -> T) -> T {
        let changed = change(&mut self.log().sessions[session - 1]);
        self.changed.notify_waiters();
        changed
    }

    /// The sound of vendors who send it as it is, is no words.
    fn keep(&self, session: usize, message: &Message) {
        let words = match message {
            Message::Text(words) => words.as_bytes(),
            Message::Binary(bytes) => bytes,
            _ => return,
        };
        if self.scenario.kept && serde_json::from_slice::<Value>(words).is_ok() {
            self.note(session, |seen| seen.said.push(String::from_utf8_lossy(words).into_owned()));
        }
    }

    fn agent_words(&self) -> &'static str {
        self.log().agent_words.unwrap_or(self.scenario.agent_words)
    }

    fn violation(&self, session: usize, what: String) {
        self.log().violations.push(format!("session {session}: {what}"));
        self.changed.notify_waiters();
    }
}
