//! What stands between Asterisk and the engine's AudioSocket, and does to it what networks and broken peers do.

use super::offhook::Place;
use socket2::SockRef;
use std::{
    collections::VecDeque,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy, copy_bidirectional, sink},
    net::{
        TcpListener, TcpSocket, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{broadcast, watch},
    task::JoinSet,
    time::timeout,
};

/// Between Asterisk and offhook: passes connections on, and can fail them.
pub struct Relay {
    pub port: u16,
    to: u16,
    orders: broadcast::Sender<Order>,
    from_the_first: watch::Sender<Option<Order>>,
    mutes_next: Arc<AtomicBool>,
    accepting: JoinSet<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Close,
    /// As when a machine, or a program that was killed, answers for a connection that it does not have any more.
    Reset,
    /// Nothing passes any more, and nothing is closed.
    Stall,
    /// The next frame that Asterisk sends is cut off within, and the connection closed.
    Truncate,
    /// The next frame that Asterisk sends is cut off within, and nothing passes any more.
    StallWithin,
    /// What Asterisk sends still passes; what it is sent, nobody reads.
    Unread,
    /// What Asterisk sends waits, and passes four frames at a time.
    Bunch,
    /// The two bytes of each sample that Asterisk sends are in the wrong order.
    Swap,
    /// What Asterisk sends is cut anew, into frames of 15 ms.
    Recut,
    /// Every fiftieth frame that Asterisk sends comes twice, as of a clock that is 2 % fast.
    Fast,
    /// What Asterisk sends goes on after a frame that says it is longer than any may be.
    Oversize,
    /// Between the frames that Asterisk sends are some of a kind that nobody knows.
    Unknown,
    /// Every second frame that Asterisk sends is lost.
    Halve,
    /// What Asterisk sends is a quarter as loud: 12 dB.
    Lower,
    /// What Asterisk sends comes ten frames late: 200 ms.
    Late,
}

impl Relay {
    pub async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let (orders, _) = broadcast::channel(4);
        let (from_the_first, mutes_next) = (watch::Sender::new(None), Arc::default());
        let mut relay = Self { port, to, orders, from_the_first, mutes_next, accepting: JoinSet::new() };
        relay.accept(listener);
        relay
    }

    fn accept(&mut self, listener: TcpListener) {
        let (given, mutes, to) = (self.orders.clone(), Arc::clone(&self.mutes_next), self.to);
        let first = self.from_the_first.subscribe();
        self.accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((theirs, _)) = listener.accept().await {
                let orders = given.subscribe();
                if mutes.swap(false, Ordering::Relaxed) {
                    connections.spawn(pass_on_the_id(theirs, to));
                } else {
                    connections.spawn(pass_on(theirs, to, *first.borrow(), orders));
                }
            }
        });
    }

    /// The place of this engine as it is told to Asterisk: through the relay.
    pub fn before(&self, place: &Place, yaml: &str) -> String {
        let own = format!("bind: \"127.0.0.1:{}\"", place.audiosocket);
        yaml.replace(&own, &format!("{own}, advertise: \"127.0.0.1:{}\"", self.port))
    }

    /// Of every connection that is made from now on, until it has another order.
    pub fn order_from_the_first(&self, order: Order) {
        self.from_the_first.send_replace(Some(order));
    }

    /// The next connection says which call it is, and nothing else passes over it.
    pub fn mutes_next(&self) {
        self.mutes_next.store(true, Ordering::Relaxed);
    }

    /// Nobody connects any more, and who has is cut off.
    pub async fn accepts_no_more(&mut self) {
        self.accepting.shutdown().await;
    }

    pub async fn accepts_again(&mut self) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await.expect("its own port");
        self.accept(listener);
    }

    pub fn order(&self, order: Order) {
        self.orders.send(order).expect("a connection that listens");
    }
}

/// Both ends close at once when the other one does.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

async fn pass_on(mut theirs: TcpStream, to: u16, first: Option<Order>, mut orders: broadcast::Receiver<Order>) {
    let ours = TcpSocket::new_v4().expect("a socket");
    // What nobody reads is not to be held here for long.
    ours.set_recv_buffer_size(2_048).expect("a small buffer");
    let mut ours = ours.connect((Ipv4Addr::LOCALHOST, to).into()).await.expect("offhook listens");
    // As Asterisk and offhook do: whole frames at once.
    theirs.set_nodelay(true).and_then(|()| ours.set_nodelay(true)).expect("open sockets");
    let order = async {
        match first {
            Some(order) => Ok(order),
            None => orders.recv().await,
        }
    };
    tokio::select! {
        biased;
        order = order => match order {
            Ok(Order::Stall) => std::future::pending().await,
            Ok(cut @ (Order::Truncate | Order::StallWithin)) => {
                let mut part = [0; 100];
                theirs.read_exact(&mut part).await.expect("Asterisk speaks");
                ours.write_all(&part).await.expect("offhook listens");
                if cut == Order::StallWithin {
                    std::future::pending::<()>().await;
                }
            }
            Ok(Order::Unread) => drop(copy(&mut theirs, &mut ours).await),
            Ok(Order::Oversize) => {
                ours.write_all(&[0x10, 0xff, 0xff]).await.expect("offhook listens");
                drop(copy_bidirectional(&mut theirs, &mut ours).await);
            }
            Ok(
                changed @ (Order::Bunch | Order::Swap | Order::Recut | Order::Fast | Order::Unknown | Order::Halve | Order::Lower | Order::Late),
            ) => {
                let ((from, mut back), (mut answers, to)) = (theirs.split(), ours.split());
                drop(tokio::join!(pass_on_changed(from, to, changed), copy(&mut answers, &mut back)));
            }
            Ok(Order::Reset) => {
                for stream in [&theirs, &ours] {
                    SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("an open socket");
                }
            }
            Ok(Order::Close) => {
                // What is left unread makes a reset of a close.
                let ended = async {
                    for stream in [&mut theirs, &mut ours] {
                        stream.shutdown().await?;
                        copy(stream, &mut sink()).await?;
                    }
                    std::io::Result::Ok(())
                };
                drop(timeout(CLOSED_WITHIN, ended).await);
            }
            Err(_) => {}
        },
        _ = copy_bidirectional(&mut theirs, &mut ours) => {}
    }
}

/// The kind of frames that have audio, of 8 kHz.
const AUDIO: u8 = 0x10;

/// Frames of AudioSocket: a kind, a length of two bytes, and as much audio.
async fn pass_on_changed(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, how: Order) -> std::io::Result<()> {
    const BUNCH: usize = 4;
    /// 15 ms.
    const CUT: [u8; 3] = [AUDIO, 0, 240];
    let (mut waiting, mut audio, mut late) = (Vec::new(), Vec::new(), VecDeque::new());
    for number in 1_usize.. {
        let mut frame = vec![0; 3];
        from.read_exact(&mut frame).await?;
        frame.resize(3 + usize::from(u16::from_be_bytes([frame[1], frame[2]])), 0);
        from.read_exact(&mut frame[3..]).await?;
        if frame[0] != AUDIO {
            waiting.extend(frame);
            to.write_all(&waiting).await?;
            waiting.clear();
            continue;
        }
        match how {
            Order::Recut => {
                audio.extend_from_slice(&frame[3..]);
                let whole = audio.len() - audio.len() % usize::from(CUT[2]);
                waiting
                    .extend(audio.drain(..whole).as_slice().chunks(CUT[2].into()).flat_map(|cut| [&CUT, cut].concat()));
            }
            Order::Swap => {
                frame[3..].chunks_exact_mut(2).for_each(<[u8]>::reverse);
                waiting.extend(frame);
            }
            Order::Fast if number.is_multiple_of(50) => waiting.extend(frame.repeat(2)),
            Order::Late => {
                late.push_back(frame);
                if late.len() > 10 {
                    waiting.extend(late.pop_front().into_iter().flatten());
                }
            }
            Order::Unknown => {
                waiting.extend([0x42, 0, 3, 1, 2, 3]);
                waiting.extend(frame);
            }
            Order::Halve if number.is_multiple_of(2) => {}
            Order::Lower => {
                let quarter = |pair: &[u8]| (i16::from_le_bytes([pair[0], pair[1]]) / 4).to_le_bytes();
                waiting.extend_from_slice(&frame[..3]);
                waiting.extend(frame[3..].chunks_exact(2).flat_map(quarter));
            }
            _ => waiting.extend(frame),
        }
        if !matches!(how, Order::Bunch) || number.is_multiple_of(BUNCH) {
            to.write_all(&waiting).await?;
            waiting.clear();
        }
    }
    Ok(())
}

async fn pass_on_the_id(mut theirs: TcpStream, to: u16) {
    let mut ours = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await.expect("offhook listens");
    let mut id = [0; 19];
    theirs.read_exact(&mut id).await.expect("Asterisk says which call it is");
    ours.write_all(&id).await.expect("offhook listens");
    // Until offhook closes it.
    drop(copy(&mut ours, &mut sink()).await);
}
