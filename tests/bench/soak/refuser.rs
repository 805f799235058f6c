//! A vendor who takes no session: what its address says is its answer, `/429/insufficient_quota` for one.

use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::AbortOnDropHandle;

/// Of a request for a WebSocket, with its headers.
const REQUEST_BYTES_MAX: usize = 8 << 10;

pub struct Refuser {
    pub address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl Refuser {
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(refuse(stream));
            }
        });
        Ok(Self { address, _serving: AbortOnDropHandle::new(serving) })
    }
}

/// Whoever goes before the answer has got none.
async fn refuse(mut stream: TcpStream) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let _ = stream.write_all(answer(&String::from_utf8_lossy(&request)).as_bytes()).await;
}

fn answer(request: &str) -> String {
    let target = request.split(' ').nth(1).unwrap_or_default();
    let mut parts = target.split(['/', '?']).skip(1);
    let (status, code) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let body = format!("{{\"error\":{{\"code\":\"{code}\"}}}}");
    let length = body.len();
    format!(
        "HTTP/1.1 {status} No\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::answer;

    #[test]
    fn the_address_says_what_is_answered() {
        let answer = answer("GET /429/insufficient_quota?model=x HTTP/1.1\r\nHost: y\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\n{\"error\":{\"code\":\"insufficient_quota\"}}"), "{answer}");
    }
}
