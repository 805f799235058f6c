//! One session of any vendor: the scenario on one side, a dialect on the other.

use super::{Asides, Call, Dialect, Heard, LATE_HZ, Opening, Order, Saying, Seen, SetUp, Shared, ear::Ear};
use crate::kit::{audio::encoded_tone, own_net, virtual_time::holding};
use bytes::Bytes;
use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use offhook::{
    audio::{Activity, FRAME},
    call::CallerTurn,
};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};
use tokio_tungstenite::{
    WebSocketStream, accept_async_with_config,
    tungstenite::{
        Message,
        protocol::{CloseFrame, WebSocketConfig},
    },
};

/// Speech per audio message.
const PIECE: Duration = Duration::from_millis(100);
/// Faster would be a load, and not a fault.
const GARBAGE_EVERY: Duration = Duration::from_millis(5);
/// What fits a request's head here.
const HEAD_MAX: usize = 8 << 10;

/// Serves one connection until it ends.
pub(super) async fn serve<D: Dialect>(mut stream: TcpStream, shared: Arc<Shared>) {
    stream.set_nodelay(true).expect("a fresh socket");
    let Some(head) = head(&stream).await else { return };
    let path = head.split(' ').nth(1).unwrap_or_default();
    if !head.to_lowercase().contains("upgrade: websocket") {
        let (status, body) = match D::page(path, shared.address) {
            Some(body) => ("200 OK", body),
            None => ("404 Not Found", String::new()),
        };
        return answer(&mut stream, status, &body).await;
    }
    let (number, orders) = shared.enter();
    shared.note(number, |seen| seen.head.clone_from(&head));
    let opening = match shared.scenario.opening(number) {
        Opening::Drop => return shared.note(number, |seen| seen.over = true),
        Opening::Refuse(status) => {
            answer(&mut stream, &format!("{status} Refused"), "{}").await;
            return shared.note(number, |seen| seen.over = true);
        }
        Opening::RefuseSaying(status, body) => {
            answer(&mut stream, &format!("{status} Refused"), body).await;
            return shared.note(number, |seen| seen.over = true);
        }
        Opening::Slow(wait) => {
            sleep(wait).await;
            Opening::Normal
        }
        other => other,
    };
    let config = WebSocketConfig::default().read_buffer_size(16 << 10);
    if let Ok(socket) = accept_async_with_config(stream, Some(config)).await {
        shared.note(number, |seen| seen.upgraded = true);
        let (sink, stream) = socket.split();
        Session::<D>::new(number, sink, Arc::clone(&shared)).run(&head, opening, stream, orders).await;
    }
    shared.note(number, |seen| seen.over = true);
}

/// The head of the request, which stays to be read; `None` when the client goes.
async fn head(stream: &TcpStream) -> Option<String> {
    let mut bytes = vec![0; HEAD_MAX];
    loop {
        let read = stream.peek(&mut bytes).await.ok().filter(|read| *read > 0)?;
        let head = String::from_utf8_lossy(&bytes[..read]);
        if head.contains("\r\n\r\n") || read == HEAD_MAX {
            return Some(head.into_owned());
        }
        tokio::task::yield_now().await;
    }
}

async fn answer(stream: &mut TcpStream, status: &str, body: &str) {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    // The client may be gone already. What it wrote is read, or the kernel would reset the connection.
    let _ = stream.write_all(text.as_bytes()).await;
    let mut rest = vec![0; HEAD_MAX];
    let _ = stream.try_read(&mut rest);
    let _ = stream.shutdown().await;
}

struct Session<D> {
    number: usize,
    dialect: D,
    sink: SplitSink<WebSocketStream<TcpStream>, Message>,
    shared: Arc<Shared>,
    /// Once it was acknowledged.
    set_up: Option<SetUp>,
    answer: Option<Answer>,
    /// The last answer that is over.
    last: u32,
    /// The last one that was cut short, while or after it was sent.
    cut: Option<u32>,
    responses: u32,
    utterances: u32,
    /// Wishes and calls that wait for the end of an answer.
    waiting: VecDeque<Wait>,
    /// Calls that the next answer makes instead of speaking.
    instead: Option<Vec<Call>>,
    /// No answer begins before.
    thinks_until: Instant,
    ear: Ear,
    /// Time of the last audio.
    heard_at: Instant,
    /// Answers to what was wanted beside the conversation.
    held: Vec<Message>,
    /// Holds the clock until the engine has read a message that is too long for one write: on a busy machine the clock would run meanwhile.
    unread: Option<oneshot::Sender<()>>,
    mute: bool,
    thinks: bool,
    closed: bool,
}

enum Wait {
    Speech { may_call: bool },
    Calls(Vec<Call>),
}

struct Answer {
    response: u32,
    audio: Arc<[u8]>,
    sent: usize,
    next_at: Instant,
}

impl<D: Dialect> Session<D> {
    fn new(number: usize, sink: SplitSink<WebSocketStream<TcpStream>, Message>, shared: Arc<Shared>) -> Self {
        Self {
            number,
            dialect: D::default(),
            sink,
            shared,
            set_up: None,
            answer: None,
            last: 0,
            cut: None,
            responses: 0,
            utterances: 0,
            waiting: VecDeque::new(),
            instead: None,
            thinks_until: Instant::now(),
            ear: Ear::new(),
            heard_at: Instant::now(),
            held: Vec::new(),
            unread: None,
            mute: false,
            thinks: false,
            closed: false,
        }
    }

    async fn run(
        mut self,
        head: &str,
        opening: Opening,
        mut stream: SplitStream<WebSocketStream<TcpStream>>,
        mut orders: mpsc::Receiver<Order>,
    ) {
        match opening {
            Opening::CloseAtOnce(code) => return self.close(code, "").await,
            Opening::Garbage => return self.garbage().await,
            Opening::Silent => {}
            _ => {
                let hello = self.dialect.hello();
                self.send_all(hello).await;
                for heard in self.dialect.dialled(head) {
                    self.take(heard, &opening).await;
                }
            }
        }
        while !self.closed {
            tokio::select! {
                biased;
                message = stream.next() => match message {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(Message::Ping(_))) => {}
                    Some(Ok(Message::Pong(_))) => self.unread = None,
                    Some(Ok(message)) => self.hear(message, &opening).await,
                },
                Some(order) = orders.recv() => match order {
                    Order::Drop => return,
                    // The socket stays, and is neither read nor written.
                    Order::Freeze => std::future::pending().await,
                    Order::Vanish => {
                        own_net::swallows();
                        std::future::pending().await
                    }
                    order => self.obey(order).await,
                },
                () = due(self.answer.as_ref()) => self.speak().await,
                () = sleep_until(self.silent_at().unwrap_or(self.heard_at)), if self.silent_at().is_some() => {
                    self.close(1011, "CLIENT_MESSAGE_TIMEOUT").await;
                }
                () = sleep_until(self.thinks_until), if Instant::now() < self.thinks_until => {}
            }
            self.go_on().await;
        }
    }

    /// Time at which the session ends, unless audio is heard before.
    fn silent_at(&self) -> Option<Instant> {
        self.set_up.as_ref().and(self.shared.scenario.audio_within).map(|within| self.heard_at + within)
    }

    async fn garbage(&mut self) {
        while !self.closed {
            self.send(Message::text("{\"type\": <garbage>")).await;
            sleep(GARBAGE_EVERY).await;
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Say(saying) => self.say(&saying).await,
            Order::Send(message) => self.send(message).await,
            Order::Speak => self.wish(true).await,
            Order::Call(calls) => self.waiting.push_back(Wait::Calls(calls)),
            Order::CallNext(calls) => self.instead = Some(calls),
            Order::TakeBack(ids) => {
                self.note(|seen| seen.open_calls.retain(|id, _| !ids.contains(id)));
                self.say(&Saying::ToolCallsCancelled { ids }).await;
            }
            Order::CallerSays(words) => {
                self.caller_began().await;
                self.caller_ended(words).await;
            }
            Order::Deaf => {
                if let Some(set_up) = &mut self.set_up {
                    set_up.detects = false;
                }
            }
            Order::Think => self.thinks = true,
            Order::Answer => self.thinks = false,
            Order::Late => self.late(1).await,
            Order::Asides => {
                let held = std::mem::take(&mut self.held);
                self.send_all(held).await;
            }
            Order::Close(code, reason) => self.close(code, reason).await,
            Order::Garbage => self.garbage().await,
            Order::Mute => {
                self.mute = true;
                self.answer = None;
            }
            Order::Drop | Order::Freeze | Order::Vanish => {}
        }
    }

    async fn hear(&mut self, message: Message, opening: &Opening) {
        let text = match &message {
            Message::Text(text) => Some(text.as_str().to_owned()),
            _ => None,
        };
        let heard = self.dialect.hear(message);
        if let Some(text) = text.filter(|_| !heard.iter().any(|heard| matches!(heard, Heard::Audio(_)))) {
            self.note(|seen| seen.texts.push(text));
        }
        for heard in heard {
            self.take(heard, opening).await;
        }
    }

    async fn take(&mut self, heard: Heard, opening: &Opening) {
        let early = self.set_up.is_none();
        match heard {
            Heard::SetUp(set_up) => self.set_up(set_up, opening).await,
            Heard::Violation(what) => self.shared.violation(self.number, what),
            Heard::Reply(messages) => self.send_all(messages).await,
            Heard::Aside { answer, refusal } => match self.shared.scenario.asides {
                Asides::Answered => self.send_all(answer).await,
                Asides::Refused => self.send_all(refusal).await,
                Asides::Held => self.held.extend(answer),
            },
            Heard::Pong => self.note(|seen| seen.pongs += 1),
            Heard::Other => {}
            // A session that was answered otherwise than asked hears whatever still comes.
            _ if early && matches!(opening, Opening::Normal | Opening::Slow(_)) => {
                self.shared.violation(self.number, format!("{heard:?} before the session was set up"));
            }
            _ if early => {}
            Heard::Audio(audio) => self.caller(audio).await,
            Heard::WantsSpeech { text } => {
                self.note(|seen| seen.wishes.push(text));
                self.wish(true).await;
            }
            Heard::Injection(_) if self.shared.scenario.ignores_injections => {}
            Heard::Injection(text) => {
                self.note(|seen| seen.wishes.push(Some(text)));
                self.wish(true).await;
            }
            Heard::WantsWords(text) => {
                self.note(|seen| seen.wishes.push(Some(text)));
                self.wish(false).await;
            }
            Heard::Told(_) => {}
            Heard::ToolResult { id, output } => {
                if self.note(|seen| seen.open_calls.remove(&id)).is_none() {
                    self.shared.violation(self.number, format!("a result for {id}, which waits for none"));
                }
                self.note(|seen| seen.results.push((id, output)));
            }
            Heard::Turn(CallerTurn::Began) => self.note(|seen| seen.turns_begun += 1),
            // No vendor is told of these.
            Heard::Turn(
                CallerTurn::MayBegin
                | CallerTurn::WordsWanted
                | CallerTurn::WasNone
                | CallerTurn::MayEnd
                | CallerTurn::GoesOn,
            ) => self.shared.violation(self.number, "half a turn".into()),
            Heard::Turn(CallerTurn::Ended) if D::FINDS_BEGINNINGS => {
                if self.ear.end_turn() {
                    self.note(|seen| seen.turns_ended += 1);
                    self.understood().await;
                    self.wish(true).await;
                }
            }
            Heard::Turn(CallerTurn::Ended) => {
                self.note(|seen| seen.turns_ended += 1);
                self.understood().await;
            }
            Heard::Truncated { heard } => {
                self.note(|seen| seen.truncations.push(heard));
                // An answer that was complete needs no cancellation, and its audio may be late all the same.
                if self.answer.is_none() {
                    self.cut = Some(self.last);
                    self.late(self.shared.scenario.late).await;
                }
            }
            Heard::Cancelled => {
                self.note(|seen| seen.cancels += 1);
                self.interrupt().await;
            }
        }
    }

    async fn set_up(&mut self, set_up: SetUp, opening: &Opening) {
        self.note(|seen| seen.set_up = Some(set_up.clone()));
        match opening {
            Opening::NeverReady | Opening::Silent => {}
            Opening::CloseAtSetUp(code, reason) => self.close(*code, reason).await,
            Opening::SayAtSetUp(text) => self.send(Message::text(text.clone())).await,
            Opening::FailAtSetUp(failure) => self.say(&Saying::Failure(*failure)).await,
            Opening::OtherFormats => self.say(&Saying::ReadyOtherwise).await,
            _ => {
                self.set_up = Some(set_up);
                self.heard_at = Instant::now();
                self.say(&Saying::Ready).await;
            }
        }
    }

    // ---- The caller ----

    async fn caller(&mut self, audio: Vec<u8>) {
        let Some(SetUp { hears, detects, .. }) = self.set_up.clone() else { return };
        self.heard_at = Instant::now();
        self.note(|seen| seen.audio.extend_from_slice(&audio));
        if !detects && !D::FINDS_BEGINNINGS {
            return;
        }
        for activity in self.ear.hear(&audio, hears) {
            match activity {
                Activity::Started if detects || !self.ear.turn => self.caller_began().await,
                Activity::Stopped if detects => {
                    self.caller_ended(self.shared.scenario.caller_words).await;
                    self.wish(true).await;
                }
                _ => {}
            }
        }
    }

    async fn caller_began(&mut self) {
        self.ear.turn = true;
        self.utterances += 1;
        self.note(|seen| seen.turns_begun += 1);
        self.say(&Saying::CallerSpeechStarted { utterance: self.utterances }).await;
        self.waiting.retain(|wait| matches!(wait, Wait::Calls(_)));
        self.interrupt().await;
    }

    async fn caller_ended(&mut self, words: &str) {
        self.note(|seen| seen.turns_ended += 1);
        let utterance = self.utterances;
        self.say(&Saying::CallerSpeechStopped { utterance }).await;
        self.say(&Saying::CallerWords { utterance, text: words.to_owned() }).await;
    }

    /// The words of a turn that the client told.
    async fn understood(&mut self) {
        self.utterances += 1;
        let (utterance, text) = (self.utterances, self.shared.scenario.caller_words.to_owned());
        self.say(&Saying::CallerWords { utterance, text }).await;
    }

    // ---- The agent ----

    /// Speech is due: at once, or refused, or after what is being said.
    async fn wish(&mut self, may_call: bool) {
        self.thinks_until = Instant::now() + self.shared.scenario.thinks;
        let refusal = if self.answer.is_some() { self.dialect.say(&Saying::Busy) } else { Vec::new() };
        if refusal.is_empty() {
            self.waiting.push_back(Wait::Speech { may_call });
        }
        self.send_all(refusal).await;
    }

    fn is_thinking(&self) -> bool {
        matches!(self.waiting.front(), Some(Wait::Speech { .. })) && (self.thinks || Instant::now() < self.thinks_until)
    }

    /// Begins what waits, when nothing is being said.
    async fn go_on(&mut self) {
        while self.answer.is_none() && !self.mute && !self.is_thinking() {
            let Some(SetUp { speaks, .. }) = self.set_up else { return };
            let Some(next) = self.waiting.pop_front() else { return };
            let instead = self.instead.take_if(|_| matches!(next, Wait::Speech { may_call: true }));
            let next = instead.map_or(next, Wait::Calls);
            self.responses += 1;
            let response = self.responses;
            self.say(&Saying::ResponseStarted { response }).await;
            match next {
                Wait::Speech { .. } => {
                    if D::WORDS_FIRST {
                        self.words(response).await;
                    }
                    let audio = self.shared.scenario.sound(self.number, response, speaks);
                    self.answer = Some(Answer { response, audio, sent: 0, next_at: Instant::now() });
                }
                Wait::Calls(calls) => {
                    let open = calls.iter().map(|call| (call.id.clone(), call.clone())).collect::<Vec<_>>();
                    self.note(|seen| seen.open_calls.extend(open));
                    self.say(&Saying::ToolCalls { response, calls }).await;
                    self.say(&Saying::ResponseDone { response }).await;
                    self.say(&Saying::Usage).await;
                }
            }
        }
    }

    /// Sends the next piece of the answer, or its end.
    async fn speak(&mut self) {
        let Some(mut answer) = self.answer.take() else { return };
        if self.piece(&mut answer).await {
            answer.next_at += PIECE.div_f64(self.shared.scenario.pace);
            self.answer = Some(answer);
            return;
        }
        let response = answer.response;
        self.last = response;
        if !D::WORDS_FIRST {
            self.words(response).await;
        }
        self.say(&Saying::ResponseDone { response }).await;
        self.say(&Saying::Usage).await;
        self.note(|seen| seen.answered += 1);
    }

    async fn words(&mut self, response: u32) {
        let text = self.shared.agent_words().to_owned();
        self.say(&Saying::AgentWords { response, text }).await;
    }

    /// The next piece of an answer; `false` when there is none.
    async fn piece(&mut self, answer: &mut Answer) -> bool {
        let Some(SetUp { speaks, .. }) = self.set_up else { return false };
        let step = (PIECE.as_millis() / FRAME.as_millis()) as usize * speaks.frame_bytes();
        let end = (answer.sent + step).min(answer.audio.len());
        if end == answer.sent {
            return false;
        }
        let audio = answer.audio[answer.sent..end].to_vec();
        answer.sent = end;
        self.say(&Saying::Audio { response: answer.response, audio }).await;
        true
    }

    async fn interrupt(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        self.say(&Saying::Interrupted { response: answer.response }).await;
        (self.last, self.cut) = (answer.response, Some(answer.response));
        self.note(|seen| seen.interrupted += 1);
        self.late(self.shared.scenario.late).await;
    }

    /// Audio of an answer that was cut short, as far as the vendor can say whose it is.
    async fn late(&mut self, pieces: usize) {
        let (Some(response), Some(SetUp { speaks, .. })) = (self.cut, self.set_up.clone()) else { return };
        for _ in 0..pieces {
            let audio = encoded_tone(LATE_HZ as f32, PIECE, speaks).to_vec();
            let messages = self.dialect.say(&Saying::Audio { response, audio });
            self.note(|seen| seen.late += usize::from(!messages.is_empty()));
            self.send_all(messages).await;
        }
    }

    // ---- The socket ----

    async fn say(&mut self, saying: &Saying) {
        let messages = self.dialect.say(saying);
        if !matches!(saying, Saying::Huge(_)) {
            return self.send_all(messages).await;
        }
        let (unread, read) = oneshot::channel();
        tokio::spawn(holding(read));
        self.unread = Some(unread);
        self.send_all(messages).await;
        self.send(Message::Ping(Bytes::new())).await;
    }

    async fn send_all(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.send(message).await;
        }
    }

    async fn send(&mut self, message: Message) {
        let closes = matches!(message, Message::Close(_));
        if !self.closed && (!self.mute || closes) {
            self.shared.keep(self.number, &message);
            self.closed |= self.sink.send(message).await.is_err() || closes;
        }
    }

    async fn close(&mut self, code: u16, reason: &'static str) {
        self.send(Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))).await;
        let _ = self.sink.close().await;
        self.closed = true;
    }

    fn note<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        self.shared.note(self.number, change)
    }
}

async fn due(answer: Option<&Answer>) {
    match answer {
        Some(answer) => sleep_until(answer.next_at).await,
        None => std::future::pending().await,
    }
}
