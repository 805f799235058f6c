//! A listener over one WebSocket. What a vendor's protocol makes of it is a [`Codec`]; this is the I/O and the clock.

use super::{Hear, Heard};
use crate::remote::{Fault, Socket, WebSocketDial, Wire};
use std::{collections::VecDeque, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

/// From dialling until what was asked for is acknowledged.
/// Vendors do it within a second. Who is slower is not waited for while nobody hears the caller: another may be there.
const OPEN_MAX: Duration = Duration::from_millis(2_500);
/// Servers and whatever is between hang up on a line on which nothing is said, some after 20 s, and callers say nothing for
/// longer while an agent speaks.
const PING_AFTER: Duration = Duration::from_secs(15);
/// What is heard until then is kept: twice what [`OPEN_MAX`] brings in frames of 20 ms.
const EARLY_MAX: usize = 256;

/// What is to be sent, and what is to be told.
#[derive(Default)]
pub(super) struct Talk {
    pub(super) wires: VecDeque<Wire>,
    pub(super) words: VecDeque<Heard>,
}

impl Talk {
    pub(super) fn send(&mut self, message: &serde_json::Value) {
        self.wires.push_back(Wire::Text(message.to_string()));
    }

    pub(super) fn tell(&mut self, heard: Heard) {
        self.words.push_back(heard);
    }
}

/// A vendor's protocol for one call. It has no clock: the time is an argument.
pub(super) trait Codec: Send {
    /// A connection stands; the first one, or the next after [`Self::life`].
    fn open(&mut self, talk: &mut Talk);
    /// Not before it has told [`Heard::Ready`] for this connection.
    fn hear(&mut self, hear: Hear, now: Instant, talk: &mut Talk);
    fn read(&mut self, wire: &Wire, now: Instant, talk: &mut Talk) -> Result<(), Fault>;
    /// When [`Self::late`] wants to be called.
    fn deadline(&self) -> Option<Instant>;
    fn late(&mut self, now: Instant, talk: &mut Talk) -> Result<(), Fault>;
    /// The last words to the vendor.
    fn close(&mut self, _talk: &mut Talk) {}

    /// What to say when so long nothing was.
    const KEEP_ALIVE: Option<(Duration, &'static str)> = None;
    /// A connection that old makes place for another, as soon as nothing is lost by it.
    fn life(&self) -> Option<Duration> {
        None
    }
    /// No turn is open, and none is unanswered.
    fn is_idle(&self) -> bool {
        true
    }
}

pub(super) async fn run<C: Codec>(
    dial: WebSocketDial,
    mut codec: C,
    mut input: mpsc::Receiver<Hear>,
    words: mpsc::Sender<Heard>,
) -> Result<(), Fault> {
    let mut talk = Talk::default();
    let mut is_first = true;
    loop {
        let Some(opened) = opened(&dial, &mut codec, &mut input, &words).await? else { return Ok(()) };
        if is_first && words.send(Heard::Ready).await.is_err() {
            return Ok(());
        }
        talk.words.extend(opened.said);
        opened.early.into_iter().for_each(|hear| codec.hear(hear, Instant::now(), &mut talk));
        let mut session = Session { socket: opened.socket, opened_at: Instant::now(), said_at: Instant::now() };
        let ended = session.go(&mut codec, &mut talk, &mut input, &words).await?;
        session.socket.close().await;
        match ended {
            Ended::Over => return Ok(()),
            Ended::Old => is_first = false,
        }
    }
}

struct Opened {
    socket: Socket,
    said: VecDeque<Heard>,
    /// What was heard meanwhile.
    early: VecDeque<Hear>,
}

/// `None` if the call ended meanwhile.
async fn opened<C: Codec>(
    dial: &WebSocketDial,
    codec: &mut C,
    input: &mut mpsc::Receiver<Hear>,
    words: &mpsc::Sender<Heard>,
) -> Result<Option<Opened>, Fault> {
    let mut early = VecDeque::new();
    let opening = timeout(OPEN_MAX, open(dial, codec));
    tokio::pin!(opening);
    loop {
        tokio::select! {
            opened = &mut opening => {
                let (socket, said) = opened.map_err(|_| Fault::Slow(OPEN_MAX))??;
                return Ok(Some(Opened { socket, said, early }));
            }
            hear = input.recv() => match hear {
                Some(Hear::Audio(_)) if early.len() >= EARLY_MAX => {}
                Some(hear) => early.push_back(hear),
                None => return Ok(None),
            },
            () = words.closed() => return Ok(None),
        }
    }
}

/// Until the codec says that it is heard; what it told is handed on with the connection.
async fn open<C: Codec>(dial: &WebSocketDial, codec: &mut C) -> Result<(Socket, VecDeque<Heard>), Fault> {
    let mut socket = Socket::dial(dial.clone(), OPEN_MAX).await?;
    let mut talk = Talk::default();
    codec.open(&mut talk);
    loop {
        socket.send(std::mem::take(&mut talk.wires)).await?;
        if talk.words.contains(&Heard::Ready) {
            return Ok((socket, talk.words));
        }
        codec.read(&socket.next().await?, Instant::now(), &mut talk)?;
    }
}

enum Ended {
    /// Nobody is heard or nobody wants to know any more.
    Over,
    /// The connection has had its life.
    Old,
}

struct Session {
    socket: Socket,
    opened_at: Instant,
    said_at: Instant,
}

impl Session {
    async fn go<C: Codec>(
        &mut self,
        codec: &mut C,
        talk: &mut Talk,
        input: &mut mpsc::Receiver<Hear>,
        words: &mpsc::Sender<Heard>,
    ) -> Result<Ended, Fault> {
        loop {
            if !talk.wires.is_empty() {
                self.socket.send(std::mem::take(&mut talk.wires)).await?;
                self.said_at = Instant::now();
            }
            while let Some(heard) = talk.words.pop_front() {
                // That was told once and for all.
                if heard != Heard::Ready && words.send(heard).await.is_err() {
                    return Ok(Ended::Over);
                }
            }
            if codec.life().is_some_and(|life| self.opened_at.elapsed() > life) && codec.is_idle() {
                return Ok(Ended::Old);
            }
            let keep_alive = C::KEEP_ALIVE.map(|(after, _)| self.said_at + after);
            tokio::select! {
                biased;
                hear = input.recv() => match hear {
                    Some(hear) => codec.hear(hear, Instant::now(), talk),
                    None => return Ok(self.goodbye(codec, talk, words).await),
                },
                wire = self.socket.next() => codec.read(&wire?, Instant::now(), talk)?,
                () = until(codec.deadline()) => codec.late(Instant::now(), talk)?,
                () = until(keep_alive) => {
                    talk.wires.extend(C::KEEP_ALIVE.map(|(_, message)| Wire::Text(message.into())));
                }
                () = sleep_until(self.said_at + PING_AFTER) => {
                    self.socket.ping().await?;
                    self.said_at = Instant::now();
                }
                () = words.closed() => return Ok(Ended::Over),
            }
        }
    }

    async fn goodbye<C: Codec>(&mut self, codec: &mut C, talk: &mut Talk, words: &mpsc::Sender<Heard>) -> Ended {
        codec.close(talk);
        // The call is over: whoever does not take it now does not miss it.
        let _ = self.socket.send(std::mem::take(&mut talk.wires)).await;
        talk.words.drain(..).for_each(|heard| drop(words.try_send(heard)));
        Ended::Over
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
