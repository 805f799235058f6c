//! A listener over one WebSocket. What a vendor's protocol makes of it is a [`Codec`]; this is the I/O and the clock.

use super::{Hear, Heard};
use crate::remote::{
    Fault, Socket, WebSocketDial, Wire,
    json::Malformed,
    peer::{Garble, Pulse},
    wards::Oddity,
};
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
const PING_EVERY: Duration = Duration::from_secs(3);
/// Two pings that nobody answered: nobody is there any more. A greeting takes as long, so that another listens when the
/// caller speaks; who is there and so slow would be too late with the caller's words as well.
const SILENT_MAX: Duration = Duration::from_secs(7);
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

/// What is wrong with a message.
#[derive(Debug)]
pub(super) enum Misread {
    /// It cannot be understood; the next one may be.
    Malformed,
    /// It ends the session.
    Fault(Fault),
}

impl From<Malformed> for Misread {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<Fault> for Misread {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A vendor's protocol for one call. It has no clock: the time is an argument.
pub(super) trait Codec: Send {
    /// A connection stands; the first one, or the next after [`Self::life`].
    fn open(&mut self, talk: &mut Talk);
    /// Not before it has told [`Heard::Ready`] for this connection.
    fn hear(&mut self, hear: Hear, now: Instant, talk: &mut Talk);
    fn read(&mut self, wire: &Wire, now: Instant, talk: &mut Talk) -> Result<(), Misread>;
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
        let Opened { socket, garble, said, early } = opened;
        talk.words.extend(said);
        early.into_iter().for_each(|hear| codec.hear(hear, Instant::now(), &mut talk));
        let mut session = Session::new(socket, garble);
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
    garble: Garble,
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
            biased;
            opened = &mut opening => {
                let opened = opened.map_err(|_| Fault::Slow(OPEN_MAX))??;
                return Ok(Some(Opened { early, ..opened }));
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
async fn open<C: Codec>(dial: &WebSocketDial, codec: &mut C) -> Result<Opened, Fault> {
    let mut socket = Socket::dial(dial.clone(), OPEN_MAX).await?;
    let (mut talk, mut garble) = (Talk::default(), Garble::default());
    codec.open(&mut talk);
    loop {
        socket.send(std::mem::take(&mut talk.wires)).await?;
        if talk.words.contains(&Heard::Ready) {
            return Ok(Opened { socket, garble, said: talk.words, early: VecDeque::new() });
        }
        read(codec, &socket.next().await?, &mut garble, &mut talk)?;
    }
}

/// Reads a message; one that cannot be understood is counted and passed over, unless nothing else comes.
fn read<C: Codec>(codec: &mut C, wire: &Wire, garble: &mut Garble, talk: &mut Talk) -> Result<(), Fault> {
    let read = codec.read(wire, Instant::now(), talk);
    if garble.is_too_much(matches!(read, Err(Misread::Malformed))) {
        return Err(Fault::Garbage("none of its messages can be read"));
    }
    match read {
        Ok(()) => {}
        Err(Misread::Malformed) => talk.tell(Heard::Oddity(Oddity::Malformed)),
        Err(Misread::Fault(fault)) => return Err(fault),
    }
    Ok(())
}

enum Ended {
    /// Nobody is heard or nobody wants to know any more.
    Over,
    /// The connection has had its life.
    Old,
}

struct Session {
    socket: Socket,
    garble: Garble,
    pulse: Pulse,
    opened_at: Instant,
    said_at: Instant,
}

impl Session {
    fn new(socket: Socket, garble: Garble) -> Self {
        let pulse = Pulse::new(PING_EVERY, SILENT_MAX);
        Self { socket, garble, pulse, opened_at: Instant::now(), said_at: Instant::now() }
    }

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
                sign = self.socket.sign() => {
                    self.pulse.heard();
                    if let Some(wire) = sign? {
                        read(codec, &wire, &mut self.garble, talk)?;
                    }
                }
                () = until(codec.deadline()) => codec.late(Instant::now(), talk)?,
                () = until(keep_alive) => {
                    talk.wires.extend(C::KEEP_ALIVE.map(|(_, message)| Wire::Text(message.into())));
                }
                () = words.closed() => return Ok(Ended::Over),
                // Last, so that what has come is read before it is missed.
                () = self.pulse.beat() => {
                    if self.pulse.is_gone() {
                        return Err(Fault::Closed(None));
                    }
                    self.socket.ping().await?;
                }
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
