//! A wire between offhook and Asterisk's HTTP port that a test can cut, hold up, or leave half open.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// What Asterisk sends while its words are held up is kept up to here, and then the wire is cut: a test is not about more.
const HELD_MAX: usize = 4 * 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    /// Both ways at once.
    Passes,
    /// What Asterisk says is kept, and passed on all at once when it flows again.
    Holds,
    /// Nothing passes in either direction and nobody closes: a firewall that forgot the connection.
    Dead,
    /// Closed on both sides.
    Cut,
}

/// Passes TCP connections on to one address.
pub struct Proxy {
    address: SocketAddr,
    /// Of the connections that are open; those that come later begin with a value of their own.
    flow: watch::Sender<Flow>,
    accepted: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Proxy {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (flow, _) = watch::channel(Flow::Passes);
        let accepted = Arc::new(AtomicUsize::new(0));
        let mut serving = JoinSet::new();
        let (source, count) = (flow.clone(), accepted.clone());
        serving.spawn(async move {
            let mut wires = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                // Only what changes from now on concerns a new connection.
                let flow = source.subscribe();
                wires.spawn(wire(near, port, flow));
            }
        });
        Self { address, flow, accepted, _serving: serving }
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
        self.flow.send_replace(Flow::Cut);
    }

    /// From now on the connections that are open carry nothing, and look open to both sides; new ones pass.
    pub fn half_open(&self) {
        self.flow.send_replace(Flow::Dead);
    }

    /// Keeps what Asterisk says on the connections that are open, until [`Self::release`].
    pub fn hold(&self) {
        self.flow.send_replace(Flow::Holds);
    }

    /// All that was kept comes at once.
    pub fn release(&self) {
        self.flow.send_replace(Flow::Passes);
    }
}

async fn wire(mut near: TcpStream, port: u16, mut flow: watch::Receiver<Flow>) {
    let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    let (mut up, mut down, mut held) = (vec![0; 16_384], vec![0; 16_384], Vec::new());
    let mut now = Flow::Passes;
    loop {
        tokio::select! {
            changed = flow.changed() => {
                if changed.is_err() {
                    return;
                }
                now = *flow.borrow_and_update();
                match now {
                    Flow::Cut => return,
                    Flow::Passes if near.write_all(&std::mem::take(&mut held)).await.is_err() => return,
                    _ => {}
                }
            }
            read = near.read(&mut up), if now != Flow::Dead => match read {
                Ok(length @ 1..) if far.write_all(&up[..length]).await.is_ok() => {}
                _ => return,
            },
            // Read also when nothing passes: a peer whose buffer is full would be cut off by Asterisk.
            read = far.read(&mut down) => match read {
                Ok(length @ 1..) => match now {
                    Flow::Passes => if near.write_all(&down[..length]).await.is_err() { return },
                    Flow::Holds if held.len() + length <= HELD_MAX => held.extend_from_slice(&down[..length]),
                    Flow::Holds => return,
                    Flow::Dead | Flow::Cut => {}
                },
                _ if now == Flow::Dead => std::future::pending().await,
                _ => return,
            },
        }
    }
}
