//! Serving a router on a listener, with limits on what a client can hold on to.

use axum::{Router, serve::Listener};
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
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep_until},
};

/// A scraper, a probe and a few browsers need ten; each costs a file descriptor that calls need too.
const CONNECTIONS_MAX: usize = 64;
/// Longer than the usual scrape interval of 15 s to 60 s, so that a scraper keeps its connection.
const SILENCE_MAX: Duration = Duration::from_secs(75);
/// What an answer under way may take once the engine stops.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// Serves until `shutdown` completes, then finishes what is being answered, for two seconds at most.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = Limited { listener, free: Arc::new(Semaphore::new(CONNECTIONS_MAX)) };
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move {
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

/// Accepts no more than [`CONNECTIONS_MAX`] at once; the next ones wait in the kernel's queue.
struct Limited {
    listener: TcpListener,
    free: Arc<Semaphore>,
}

impl Listener for Limited {
    type Io = Connection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        let permit = Arc::clone(&self.free).acquire_owned().await.expect("this semaphore is never closed");
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        (Connection::new(stream, permit), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when its client has sent nothing for [`SILENCE_MAX`].
struct Connection<S> {
    stream: S,
    silence: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl<S> Connection<S> {
    fn new(stream: S, permit: OwnedSemaphorePermit) -> Self {
        let silence = Box::pin(sleep_until(Instant::now() + SILENCE_MAX));
        Self { stream, silence, _permit: permit }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(result) = Pin::new(&mut self.stream).poll_read(cx, buf) {
            self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
            return Poll::Ready(result);
        }
        self.silence.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
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
    use futures_util::poll;
    use std::pin::pin;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn a_client_that_falls_silent_loses_its_connection() {
        let (mut client, server) = tokio::io::duplex(64);
        let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let mut connection = Connection::new(server, permit);
        let start = Instant::now();
        tokio::time::sleep(SILENCE_MAX / 2).await;
        client.write_all(b"x").await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), b'x');
        assert_eq!(connection.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), SILENCE_MAX / 2 + SILENCE_MAX);
    }

    #[tokio::test]
    async fn one_connection_more_than_the_limit_waits_for_another_to_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut limited = Limited { listener, free: Arc::new(Semaphore::new(1)) };
        let _clients = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
        let (first, _) = limited.accept().await;
        let mut second = pin!(limited.accept());
        assert!(poll!(&mut second).is_pending());
        drop(first);
        second.await;
    }
}
