//! A wire between offhook and Asterisk's HTTP port, for requests, events and audio, that a test can cut, hold up, or leave half
//! open.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// What is sent while a wire is held up is kept up to here, and then the wire is cut: a test is not about more.
const HELD_MAX: usize = 4 * 1024 * 1024;

/// What a connection carries, by the first line that offhook writes on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carries {
    /// `/ari/events`.
    Events,
    /// A call's audio by WebSocket.
    Media,
    /// Everything else of ARI.
    Requests,
}

/// What happens on connections that are open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Both ways at once.
    Passes,
    /// What Asterisk says is kept, and passed on all at once when it flows again.
    Holds,
    /// Nothing passes in either direction and nobody closes: a firewall that forgot the connection.
    Dead,
    /// What Asterisk says passes; what it is told, nobody reads.
    Unread,
    /// What Asterisk says passes; what it is told is kept, and passed on all at once when it flows again.
    Delays,
    /// What Asterisk is told passes; what it says is lost.
    Unanswered,
    /// Each frame of a call's audio reaches Asterisk twenty times: a backlog of nineteen seconds in one.
    Repeats,
    /// The next frame of a call's audio reaches Asterisk this many times; all else passes once.
    Ahead(usize),
    /// Both ways; and offhook is told this once, by text between the audio.
    Says(&'static str),
    /// Closed on both sides.
    Cut,
}

/// To all connections, or to those that carry this.
type Order = (Option<Carries>, Flow);

const REPEATED: usize = 20;

/// What is the same on every connection from its first byte on.
#[derive(Default)]
struct Nature {
    /// Not passed on at all.
    refuses: Option<Carries>,
    /// In requests, the one in place of the other; both are equally long.
    changes: Option<(&'static str, &'static str)>,
    /// No frame of a call's audio reaches Asterisk.
    mutes: bool,
    /// What becomes of the first that Asterisk says on a call's audio.
    beginning: Beginning,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Beginning {
    #[default]
    Whole,
    /// The first text is lost.
    Untold,
    /// The connection is closed in its place.
    Closed,
}

/// Passes TCP connections on to one address.
pub struct Proxy {
    address: SocketAddr,
    /// Of the connections that are open; those that come later begin with a value of their own.
    flow: watch::Sender<Order>,
    accepted: Arc<AtomicUsize>,
    /// Bytes of Asterisk that were kept so far.
    held: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Proxy {
    pub async fn to(port: u16) -> Self {
        Self::start(port, Nature::default()).await
    }

    /// What would carry this is closed as soon as that is seen.
    pub async fn refusing(port: u16, refused: Carries) -> Self {
        Self::start(port, Nature { refuses: Some(refused), ..Nature::default() }).await
    }

    /// Requests have `to` where they had `from`; both are equally long.
    pub async fn changing(port: u16, from: &'static str, to: &'static str) -> Self {
        assert_eq!(from.len(), to.len());
        Self::start(port, Nature { changes: Some((from, to)), ..Nature::default() }).await
    }

    /// Text of a media WebSocket passes, and nothing of the audio that Asterisk is sent.
    pub async fn muting(port: u16) -> Self {
        Self::start(port, Nature { mutes: true, ..Nature::default() }).await
    }

    /// A call's audio begins like this.
    pub async fn beginning(port: u16, beginning: Beginning) -> Self {
        Self::start(port, Nature { beginning, ..Nature::default() }).await
    }

    async fn start(port: u16, nature: Nature) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // What nobody reads is not to be held here for long; its connections are as it is.
        socket.set_recv_buffer_size(2_048).expect("a small buffer");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        let listener = socket.listen(128).expect("it is bound");
        let address = listener.local_addr().expect("it is bound");
        let (flow, _) = watch::channel((None, Flow::Passes));
        let (accepted, held) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let mut serving = JoinSet::new();
        let nature = Arc::new(nature);
        let (source, count, kept) = (flow.clone(), accepted.clone(), held.clone());
        serving.spawn(async move {
            let mut wires = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                // Only what changes from now on concerns a new connection.
                let flow = source.subscribe();
                wires.spawn(wire(near, port, flow, kept.clone(), nature.clone()));
            }
        });
        Self { address, flow, accepted, held, _serving: serving }
    }

    /// For `asterisk.url`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Ends every connection; new ones pass.
    pub fn cut(&self) {
        self.flow.send_replace((None, Flow::Cut));
    }

    /// From now on the connections that are open carry nothing, and look open to both sides; new ones pass.
    pub fn half_open(&self) {
        self.flow.send_replace((None, Flow::Dead));
    }

    /// Keeps what Asterisk says on the connections that are open, until [`Self::release`].
    pub fn hold(&self) {
        self.flow.send_replace((None, Flow::Holds));
    }

    /// All that was kept comes at once.
    pub fn release(&self) {
        self.flow.send_replace((None, Flow::Passes));
    }

    /// The same for the open connections that carry this; those that carry anything else go on as they are.
    pub fn order(&self, carries: Carries, flow: Flow) {
        self.flow.send_replace((Some(carries), flow));
    }

    /// Bytes of Asterisk that were kept so far.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// By the path of the request that opens it.
fn carried(first: &[u8]) -> Carries {
    let path = first.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    match path {
        path if path.starts_with(b"/ari/events") => Carries::Events,
        path if path.starts_with(b"/media/") => Carries::Media,
        _ => Carries::Requests,
    }
}

/// The frames of a WebSocket as they come, whole (RFC 6455, section 5.2).
#[derive(Default)]
struct Frames {
    /// The request that opens it has passed.
    opened: bool,
    rest: Vec<u8>,
}

impl Frames {
    /// What is to be passed on now: whole frames, each of audio as often as this says.
    fn pass(&mut self, bytes: &[u8], mut times: impl FnMut() -> usize) -> Vec<u8> {
        const BINARY: u8 = 2;
        self.each(bytes, |frame, out| {
            let times = if frame[0] & 0x0f == BINARY { times() } else { 1 };
            out.extend(frame.repeat(times));
        })
    }

    /// What opens it, and what is made of each frame that is whole by now.
    fn each(&mut self, bytes: &[u8], mut make: impl FnMut(&[u8], &mut Vec<u8>)) -> Vec<u8> {
        self.rest.extend_from_slice(bytes);
        let mut out = Vec::new();
        if !self.opened {
            let end = self.rest.windows(4).position(|four| four == b"\r\n\r\n");
            let Some(end) = end else { return out };
            out.extend(self.rest.drain(..end + 4));
            self.opened = true;
        }
        while let Some(length) = Self::length(&self.rest).filter(|length| *length <= self.rest.len()) {
            let frame: Vec<u8> = self.rest.drain(..length).collect();
            make(&frame, &mut out);
        }
        out
    }

    /// Head, mask (of what offhook says) and payload.
    fn length(bytes: &[u8]) -> Option<usize> {
        let mask = if bytes.get(1)? & 0x80 == 0 { 0 } else { 4 };
        let (payload, head) = match bytes[1] & 0x7f {
            126 => (usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?])), 4),
            127 => panic!("neither side sends a frame of more than 64 kB"),
            short => (usize::from(short), 2),
        };
        Some(head + mask + payload)
    }
}

/// What a connection tells Asterisk, as this proxy lets it pass.
fn told(bytes: &[u8], carries: Option<Carries>, now: &mut Flow, nature: &Nature, frames: &mut Frames) -> Vec<u8> {
    match (carries, nature.changes) {
        (Some(Carries::Media), _) if nature.mutes => frames.pass(bytes, || 0),
        (Some(Carries::Media), _) => frames.pass(bytes, || match *now {
            Flow::Repeats => REPEATED,
            Flow::Ahead(times) => {
                *now = Flow::Passes;
                times
            }
            _ => 1,
        }),
        (Some(Carries::Requests), Some((from, to))) => match String::from_utf8(bytes.to_vec()) {
            Ok(text) => text.replace(from, to).into(),
            Err(other) => other.into_bytes(),
        },
        _ => bytes.to_vec(),
    }
}

/// What a connection tells offhook, as this proxy lets it pass; `None`: it is closed.
fn said(
    bytes: &[u8],
    carries: Option<Carries>,
    begun: &mut bool,
    nature: &Nature,
    frames: &mut Frames,
) -> Option<Vec<u8>> {
    const TEXT: u8 = 1;
    if carries != Some(Carries::Media) {
        return Some(bytes.to_vec());
    }
    let mut closes = false;
    let said = frames.each(bytes, |frame, out| {
        let first = frame[0] & 0x0f == TEXT && !std::mem::replace(begun, true);
        closes |= first && nature.beginning == Beginning::Closed;
        if !first || nature.beginning == Beginning::Whole {
            out.extend(frame);
        }
    });
    (!closes).then_some(said)
}

/// A whole text of Asterisk (RFC 6455, section 5.2).
fn text(said: &str) -> Vec<u8> {
    const FINAL_TEXT: u8 = 0x81;
    let length = u16::try_from(said.len()).expect("a text of less than 64 kB");
    let head = match length {
        ..126 => vec![FINAL_TEXT, length as u8],
        _ => [&[FINAL_TEXT, 126][..], &length.to_be_bytes()].concat(),
    };
    [&head, said.as_bytes()].concat()
}

async fn wire(
    mut near: TcpStream,
    port: u16,
    mut flow: watch::Receiver<Order>,
    kept: Arc<AtomicUsize>,
    nature: Arc<Nature>,
) {
    let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    // As Asterisk and offhook do: whole frames at once.
    near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).expect("open sockets");
    let (mut up, mut down) = (vec![0; 16_384], vec![0; 16_384]);
    let (mut held, mut delayed) = (Vec::new(), Vec::new());
    let (mut now, mut carries) = (Flow::Passes, None);
    let (mut ours, mut theirs, mut begun) = (Frames::default(), Frames::default(), false);
    loop {
        tokio::select! {
            biased;
            changed = flow.changed() => {
                if changed.is_err() {
                    return;
                }
                let (to, order) = *flow.borrow_and_update();
                // One that has not begun to speak carries nothing yet.
                if to.is_some() && to != carries {
                    continue;
                }
                now = order;
                match now {
                    Flow::Cut => return,
                    // What passes is whole frames, so here is the end of one.
                    Flow::Says(what) if near.write_all(&text(what)).await.is_err() => return,
                    Flow::Passes => {
                        let (told, said) = (std::mem::take(&mut delayed), std::mem::take(&mut held));
                        if far.write_all(&told).await.is_err() || near.write_all(&said).await.is_err() {
                            return;
                        }
                    }
                    _ => {}
                }
            }
            read = near.read(&mut up), if !matches!(now, Flow::Dead | Flow::Unread) => match read {
                Ok(length @ 1..) => {
                    carries = carries.or_else(|| Some(carried(&up[..length])));
                    if carries == nature.refuses {
                        return;
                    }
                    let told = told(&up[..length], carries, &mut now, &nature, &mut ours);
                    if now == Flow::Delays {
                        delayed.extend_from_slice(&told);
                        if delayed.len() > HELD_MAX {
                            return;
                        }
                    } else if far.write_all(&told).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            // Read also when nothing passes: a peer whose buffer is full would be cut off by Asterisk.
            read = far.read(&mut down) => match read {
                Ok(length @ 1..) => {
                    let Some(said) = said(&down[..length], carries, &mut begun, &nature, &mut theirs) else { return };
                    match now {
                        Flow::Dead | Flow::Unanswered | Flow::Cut => {}
                        Flow::Holds if held.len() + said.len() > HELD_MAX => return,
                        Flow::Holds => {
                            held.extend_from_slice(&said);
                            kept.fetch_add(said.len(), Ordering::Relaxed);
                        }
                        _ => if near.write_all(&said).await.is_err() { return },
                    }
                }
                _ if matches!(now, Flow::Dead | Flow::Unanswered) => std::future::pending().await,
                _ => return,
            },
        }
    }
}
