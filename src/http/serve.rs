//! Serving a router on a listener, with limits on what a client can hold on to.
//!
//! Invariant: whoever connects is served, whatever other clients do. `/live` decides over the life of
//! running calls, so no crowd of idle, silent or stuck connections may keep a probe waiting.

use axum::{
    Router,
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use futures_util::task::AtomicWaker;
use std::{
    collections::HashMap,
    future::{Future, IntoFuture},
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, Sleep, sleep_until},
};

/// A scraper, a probe and a few browsers need ten; each costs a file descriptor that calls need too.
/// Beyond it the connection that has been idle longest is closed.
const CONNECTIONS_MAX: usize = 64;
/// A client sends its request with the connection; a browser may open one in reserve.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(10);
/// Longer than the usual scrape interval of 15 s to 60 s, so that a scraper keeps its connection.
const SILENCE_MAX: Duration = Duration::from_secs(75);
/// The longest answer fits the socket's buffers many times over; who takes nothing of it for this long
/// has stopped reading.
const STUCK_MAX: Duration = Duration::from_secs(10);
/// What an answer under way may take once the engine stops.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// Serves until `shutdown` completes, then finishes what is being answered, for two seconds at most.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = Limited { listener, guests: Arc::new(Guests::new(CONNECTIONS_MAX)) };
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let service = router.into_make_service_with_connect_info::<Peer>();
    let server = axum::serve(listener, service).with_graceful_shutdown(async move {
        shutdown.await;
        // Nobody listens any more only if the server has ended already.
        let _ = stopping.send(());
    });
    let lingered = async {
        // An error means that the server dropped its signal, which it does only at its end.
        let _ = stopped.await;
        tokio::time::sleep(LINGER_MAX).await;
    };
    tokio::select! {
        result = server.into_future() => result,
        () = lingered => Ok(()),
    }
}

/// Who is at the other end of a connection, for handlers that treat clients one by one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub SocketAddr);

impl Connected<IncomingStream<'_, Limited>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Limited>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// Accepts whoever comes, and closes the idlest connection when there are too many.
struct Limited {
    listener: TcpListener,
    guests: Arc<Guests>,
}

impl Listener for Limited {
    type Io = Connection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        (Connection::new(stream, self.guests.enter()), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// All open connections.
struct Guests {
    max: usize,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    next: u64,
    guests: HashMap<u64, Arc<Guest>>,
}

/// One connection as the others' newcomer sees it.
struct Guest {
    /// When a byte last moved, in either direction.
    moved: Mutex<Instant>,
    shown_out: AtomicBool,
    waker: AtomicWaker,
}

/// A connection's place among [`Guests`], free again when it is dropped.
struct Place {
    id: u64,
    guest: Arc<Guest>,
    guests: Arc<Guests>,
}

impl Guests {
    fn new(max: usize) -> Self {
        Self { max, inside: Mutex::default() }
    }

    fn enter(self: &Arc<Self>) -> Place {
        let mut inside = self.lock();
        if inside.guests.len() >= self.max {
            let idlest = inside.guests.iter().min_by_key(|(id, guest)| (guest.moved(), **id)).map(|(id, _)| *id);
            if let Some(guest) = idlest.and_then(|id| inside.guests.remove(&id)) {
                guest.shown_out.store(true, Relaxed);
                guest.waker.wake();
            }
        }
        let id = inside.next;
        inside.next += 1;
        let guest = Arc::new(Guest {
            moved: Mutex::new(Instant::now()),
            shown_out: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        inside.guests.insert(id, Arc::clone(&guest));
        Place { id, guest, guests: Arc::clone(self) }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    fn moved(&self) -> Instant {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.guests.lock().guests.remove(&self.id);
    }
}

/// A connection that ends when its client sends nothing, or takes nothing, for too long, or when its
/// place is needed.
struct Connection<S> {
    stream: S,
    /// The end of the client's time.
    limit: Pin<Box<Sleep>>,
    /// Bytes wait for the client to take them.
    stuck: bool,
    place: Place,
}

impl<S> Connection<S> {
    fn new(stream: S, place: Place) -> Self {
        let limit = Box::pin(sleep_until(Instant::now() + FIRST_BYTE_MAX));
        Self { stream, limit, stuck: false, place }
    }

    /// Bytes moved.
    fn moved(&mut self) {
        let now = Instant::now();
        *self.place.guest.moved.lock().unwrap_or_else(PoisonError::into_inner) = now;
        self.limit.as_mut().reset(now + SILENCE_MAX);
    }

    /// Why nothing more is to be waited for, if so; else the task wakes when that comes.
    fn over(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.place.guest.waker.register(cx.waker());
        if self.place.guest.shown_out.load(Relaxed) {
            return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
        }
        self.limit.as_mut().poll(cx).map(|()| io::ErrorKind::TimedOut.into())
    }

    fn written(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if result.is_ready() {
            self.stuck = false;
            self.moved();
            return result;
        }
        if !self.stuck {
            self.stuck = true;
            self.limit.as_mut().reset(Instant::now() + STUCK_MAX);
        }
        self.over(cx).map(Err)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(result) = Pin::new(&mut self.stream).poll_read(cx, buf) {
            // Who sends and sends but takes no answer is stuck all the same.
            if !self.stuck {
                self.moved();
            }
            return Poll::Ready(result);
        }
        self.over(cx).map(Err)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::timeout,
    };

    const LIVE: &[u8] = b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n";

    fn alone<S>(stream: S) -> Connection<S> {
        Connection::new(stream, Arc::new(Guests::new(1)).enter())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_falls_silent_loses_its_connection() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut connection = alone(server);
        let start = Instant::now();
        tokio::time::sleep(FIRST_BYTE_MAX / 2).await;
        client.write_all(b"x").await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), b'x');
        assert_eq!(connection.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), FIRST_BYTE_MAX / 2 + SILENCE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_says_a_word_loses_it_sooner() {
        let (_client, server) = tokio::io::duplex(64);
        let start = Instant::now();
        assert_eq!(alone(server).read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), FIRST_BYTE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_no_answer_loses_its_connection_even_if_it_talks_on() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut connection = alone(server);
        let start = Instant::now();
        client.write_all(&[b'x'; 64]).await.unwrap();
        let (mut read, mut write) = (vec![0; 1], vec![0; 65]);
        write.fill(b'y');
        let outcome = std::future::poll_fn(|cx| {
            let mut buf = ReadBuf::new(&mut read);
            let _ = Pin::new(&mut connection).poll_read(cx, &mut buf);
            Pin::new(&mut connection).poll_write(cx, &write).map(|result| result.map(|_| ()))
        });
        outcome.await.unwrap();
        assert_eq!(connection.write_all(&write).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), STUCK_MAX);
    }

    #[tokio::test]
    async fn a_newcomer_is_served_although_every_place_is_held_by_clients_that_do_nothing() {
        const ANSWER: usize = 8 * 1024 * 1024;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router =
            Router::new().route("/live", get(|| async { "yes" })).route("/big", get(|| async { "x".repeat(ANSWER) }));
        let server = tokio::spawn(serve(listener, router, std::future::pending()));
        let mut held = Vec::new();
        for number in 0..2 * CONNECTIONS_MAX {
            let mut client = TcpStream::connect(address).await.unwrap();
            match number % 3 {
                // Says nothing, stops in the middle of its request, or never reads its answer.
                0 => {}
                1 => client.write_all(&LIVE[..9]).await.unwrap(),
                _ => client.write_all(b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap(),
            }
            held.push(client);
        }
        for _ in 0..3 {
            let mut probe = TcpStream::connect(address).await.unwrap();
            probe.write_all(LIVE).await.unwrap();
            let mut answer = [0; 12];
            timeout(Duration::from_secs(2), probe.read_exact(&mut answer)).await.expect("in time").unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
        server.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn the_place_that_is_taken_is_the_idlest() {
        let guests = Arc::new(Guests::new(2));
        let (mut first_client, first) = tokio::io::duplex(64);
        let (_second_client, second) = tokio::io::duplex(64);
        let mut first = Connection::new(first, guests.enter());
        let mut second = Connection::new(second, guests.enter());
        tokio::time::advance(Duration::from_secs(1)).await;
        first_client.write_all(b"x").await.unwrap();
        first.read_u8().await.unwrap();
        let _third = guests.enter();
        assert_eq!(second.read_u8().await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        first_client.write_all(b"y").await.unwrap();
        assert_eq!(first.read_u8().await.unwrap(), b'y');
        assert_eq!(guests.lock().guests.len(), 2);
    }
}
