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
    /// Closed on both sides.
    Cut,
}

/// To all connections, or to those that carry this.
type Order = (Option<Carries>, Flow);

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
        let socket = TcpSocket::new_v4().expect("a socket");
        // What nobody reads is not to be held here for long; its connections are as it is.
        socket.set_recv_buffer_size(2_048).expect("a small buffer");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        let listener = socket.listen(128).expect("it is bound");
        let address = listener.local_addr().expect("it is bound");
        let (flow, _) = watch::channel((None, Flow::Passes));
        let (accepted, held) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let mut serving = JoinSet::new();
        let (source, count, kept) = (flow.clone(), accepted.clone(), held.clone());
        serving.spawn(async move {
            let mut wires = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                // Only what changes from now on concerns a new connection.
                let flow = source.subscribe();
                wires.spawn(wire(near, port, flow, kept.clone()));
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

async fn wire(mut near: TcpStream, port: u16, mut flow: watch::Receiver<Order>, kept: Arc<AtomicUsize>) {
    let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    // As Asterisk and offhook do: whole frames at once.
    near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).expect("open sockets");
    let (mut up, mut down) = (vec![0; 16_384], vec![0; 16_384]);
    let (mut held, mut delayed) = (Vec::new(), Vec::new());
    let (mut now, mut carries) = (Flow::Passes, None);
    loop {
        tokio::select! {
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
                    if now == Flow::Delays {
                        delayed.extend_from_slice(&up[..length]);
                        if delayed.len() > HELD_MAX {
                            return;
                        }
                    } else if far.write_all(&up[..length]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            // Read also when nothing passes: a peer whose buffer is full would be cut off by Asterisk.
            read = far.read(&mut down) => match read {
                Ok(length @ 1..) => match now {
                    Flow::Passes | Flow::Unread | Flow::Delays => if near.write_all(&down[..length]).await.is_err() { return },
                    Flow::Holds if held.len() + length <= HELD_MAX => {
                        held.extend_from_slice(&down[..length]);
                        kept.fetch_add(length, Ordering::Relaxed);
                    }
                    Flow::Holds => return,
                    Flow::Dead | Flow::Unanswered | Flow::Cut => {}
                },
                _ if matches!(now, Flow::Dead | Flow::Unanswered) => std::future::pending().await,
                _ => return,
            },
        }
    }
}
