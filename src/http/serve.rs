//! Serving a router on a listener, with limits on what a client can hold on to.
//!
//! Invariant: whoever connects is served, whatever other clients do. `/live` decides over the life of
//! running calls, so no crowd of idle, silent or stuck connections may keep a probe waiting.
//!
//! HTTP/1.1 only: the limits count a connection's bytes, and HTTP/2 has hundreds of answers wait in memory while bytes move.

use crate::connections::{ConnectionEntry, ConnectionPermit, ConnectionTable};
use axum::{
    Router,
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use std::{
    future::{Future, IntoFuture},
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, Sleep, sleep_until},
};

/// A scraper, a probe and a few browsers need ten; each costs a file descriptor that calls need too.
/// Beyond it a connection is closed, first of those on which nobody has logged in.
const CONNECTIONS_MAX: usize = 64;
/// A client sends its request with the connection; a browser may open one in reserve.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(10);
/// Longer than the usual scrape interval of 15 s to 60 s, so that a scraper keeps its connection.
const SILENCE_MAX: Duration = Duration::from_secs(75);
/// The longest answer fits the socket's buffers many times over; who takes nothing of it for this long
/// has stopped reading.
const STUCK_MAX: Duration = Duration::from_secs(10);
/// Beginning of a connection on which the client speaks HTTP/2 (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What an answer under way may take once the engine stops.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// Serves until `shutdown` completes, then finishes what is being answered, for two seconds at most.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = Limited { listener, table: ConnectionTable::new(CONNECTIONS_MAX) };
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

/// The other end of a connection, for handlers that treat clients one by one.
#[derive(Clone)]
pub(super) struct Peer {
    pub address: SocketAddr,
    pub entry: Arc<ConnectionEntry>,
}

impl Connected<IncomingStream<'_, Limited>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Limited>) -> Self {
        Self { address: *stream.remote_addr(), entry: Arc::clone(&stream.io().permit.entry) }
    }
}

/// Accepts every connection, and closes another one when there are too many.
struct Limited {
    listener: TcpListener,
    table: Arc<ConnectionTable>,
}

impl Listener for Limited {
    type Io = Connection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let permit = self.table.enter(peer.ip(), |_| true).await;
        (Connection::new(stream, permit), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
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
    /// How much of [`HTTP2_PREFACE`] has come; `None` once something else has.
    preface: Option<usize>,
    permit: ConnectionPermit,
}

impl<S> Connection<S> {
    fn new(stream: S, permit: ConnectionPermit) -> Self {
        let limit = Box::pin(sleep_until(Instant::now() + FIRST_BYTE_MAX));
        Self { stream, limit, stuck: false, preface: Some(0), permit }
    }

    /// Bytes moved.
    fn moved(&mut self) {
        self.permit.entry.touch();
        self.limit.as_mut().reset(Instant::now() + SILENCE_MAX);
    }

    /// Why nothing more is to be waited for, if so; else the task wakes when that comes.
    fn over(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.permit.entry.poll_shown_out(cx).is_ready() {
            return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
        }
        self.limit.as_mut().poll(cx).map(|()| io::ErrorKind::TimedOut.into())
    }

    /// # Errors
    /// The connection began with the preface of HTTP/2.
    fn refuse_http2(&mut self, came: &[u8]) -> io::Result<()> {
        let Some(before) = self.preface else { return Ok(()) };
        let rest = &HTTP2_PREFACE[before..];
        let common = rest.iter().zip(came).take_while(|(wanted, byte)| wanted == byte).count();
        self.preface = (common == came.len()).then_some(before + common);
        if common == rest.len() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "HTTP/2 is not spoken here"));
        }
        Ok(())
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
        let before = buf.filled().len();
        if let Poll::Ready(result) = Pin::new(&mut self.stream).poll_read(cx, buf) {
            self.refuse_http2(&buf.filled()[before..])?;
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
    use std::net::IpAddr;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::timeout,
    };

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const LIVE: &[u8] = b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n";

    fn alone<S>(stream: S) -> Connection<S> {
        let permit = ConnectionTable::new(1).try_enter(HERE, |_| true);
        Connection::new(stream, permit.expect("it is empty"))
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
        let table = ConnectionTable::new(2);
        let (mut first_client, first) = tokio::io::duplex(64);
        let (_second_client, second) = tokio::io::duplex(64);
        let mut first = Connection::new(first, table.enter(HERE, |_| true).await);
        let mut second = Connection::new(second, table.enter(HERE, |_| true).await);
        tokio::time::advance(Duration::from_secs(1)).await;
        first_client.write_all(b"x").await.unwrap();
        first.read_u8().await.unwrap();
        let _third = table.enter(HERE, |_| true).await;
        assert_eq!(second.read_u8().await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        first_client.write_all(b"y").await.unwrap();
        assert_eq!(first.read_u8().await.unwrap(), b'y');
        assert_eq!(table.taken(), 2);
    }

    #[tokio::test]
    async fn a_client_that_speaks_http2_is_not_served_in_whatever_pieces_it_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/live", get(|| async { "yes" }));
        let server = tokio::spawn(serve(listener, router, std::future::pending()));
        for piece in [HTTP2_PREFACE.len(), 1] {
            let mut client = TcpStream::connect(address).await.unwrap();
            for bytes in HTTP2_PREFACE.chunks(piece) {
                client.write_all(bytes).await.unwrap();
            }
            let mut said = Vec::new();
            // A reset is an end too.
            let _ = timeout(Duration::from_secs(5), client.read_to_end(&mut said)).await.expect("it is closed");
            assert!(!said.starts_with(&[0, 0]), "settings of HTTP/2 in {said:?}");
        }
        // The first letters alone are those of HTTP/1.1 as well.
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"PRI /live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut said = String::new();
        timeout(Duration::from_secs(5), client.read_to_string(&mut said)).await.expect("it is answered").unwrap();
        assert!(said.starts_with("HTTP/1.1 405"), "{said}");
        server.abort();
    }
}
