//! Stands in for met.no: answers each request with what the test has put in line, and waits while nothing is.

use std::sync::{Arc, Mutex};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::{mpsc, watch},
};

pub struct Upstream {
    pub url: String,
    heads: Arc<Mutex<Vec<String>>>,
    count: watch::Receiver<usize>,
    replies: mpsc::Sender<String>,
}

impl Upstream {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let (counted, count) = watch::channel(0);
        let (replies, waiting) = mpsc::channel::<String>(16);
        let waiting = Arc::new(tokio::sync::Mutex::new(waiting));
        let seen = heads.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, counted, waiting) = (seen.clone(), counted.clone(), waiting.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return,
                        }
                    }
                    seen.lock().unwrap().push(String::from_utf8(head).unwrap());
                    counted.send_modify(|count| *count += 1);
                    let reply = waiting.lock().await.recv().await;
                    let _ = stream.write_all(reply.unwrap_or_default().as_bytes()).await;
                });
            }
        });
        Self { url, heads, count, replies }
    }

    /// The next request without an answer gets this one: status and headers, then the body.
    pub async fn reply(&self, head: &str, body: &str) {
        let length = body.len();
        let reply = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        self.replies.send(reply).await.unwrap();
    }

    pub fn requests(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Returns when so many requests have come.
    pub async fn requested(&self, times: usize) {
        self.count.clone().wait_for(|count| *count >= times).await.unwrap();
    }
}
