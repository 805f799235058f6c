//! What bounds a session from the vendor's side: its length, its handles, its wish to be left alone.

use super::*;
use crate::remote::web_socket;

#[tokio::test(start_paused = true)]
async fn the_call_is_told_once_that_the_vendors_limit_is_near() {
    let max = Duration::from_secs(900);
    let mut stage = Stage::of(PASS, Some(max), None, |_, receiver, sender| async move {
        ready(&sender).await;
        tokio::time::sleep(Duration::from_secs(900)).await;
        drop(receiver);
    });
    let begun = Instant::now();
    assert_eq!(stage.events.recv().await, Some(AgentEvent::Ready));
    assert_eq!(stage.events.recv().await, Some(AgentEvent::Expiring { within: EXPIRY_NOTICE }));
    assert_eq!(begun.elapsed().as_secs(), (max - EXPIRY_NOTICE).as_secs());
    assert_eq!(stage.rest().await, [lost(AgentLoss::Closed)]);
    assert_eq!(notice(Duration::from_secs(30)), Duration::from_secs(15));
}

/// The next session is told the story, which this one knows nothing of.
#[tokio::test(start_paused = true)]
async fn a_session_whose_handle_is_refused_is_not_tried_again() {
    let mut stage = Stage::of(PASS, None, Some("old"), |_, _, _| async {});
    assert_eq!(stage.rest().await, [lost(AgentLoss::Handshake)]);
    assert_eq!(stage.dials.load(Ordering::Relaxed), 1);
}

/// What a server answers to the upgrade, and how the attempt at it comes out.
async fn refused_with(answer: &'static str) -> Option<(u16, Option<Duration>)> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream
    };
    let dial = Link::dial(Dial::WebSocket(crate::provider::WebSocketDial { url, headers: Vec::new() }));
    match tokio::join!(dial, server).0.err() {
        Some(DialError::Socket(web_socket::DialError::Refused { status, retry_after, .. })) => {
            Some((status, retry_after))
        }
        _ => None,
    }
}

#[tokio::test]
async fn how_long_a_provider_asks_to_be_left_alone_is_read() {
    let asks = refused_with("HTTP/1.1 429 Too Many\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(asks, Some((429, Some(Duration::from_secs(2)))));
    let odd = "HTTP/1.1 503 No\r\nretry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(refused_with(odd).await, Some((503, None)));
}
