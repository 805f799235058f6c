//! A mail server as a task: RFC 5321 without TLS and without a login.

use serde_json::{Value, json};
use socket2::SockRef;
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

pub struct Smtp {
    taken: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

struct Policy {
    /// So many mails are put off first.
    defers: AtomicUsize,
    /// Addresses that begin like this get nothing.
    refuses: Option<String>,
    taken: Arc<Mutex<Vec<Value>>>,
}

impl Smtp {
    /// Serves on a port of the loopback, which is returned.
    pub async fn start(defers: usize, refuses: Option<&str>) -> (Self, u16) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let taken: Arc<Mutex<Vec<Value>>> = Arc::default();
        let policy = Policy { defers: defers.into(), refuses: refuses.map(str::to_owned), taken: Arc::clone(&taken) };
        let policy = Arc::new(policy);
        let task = tokio::spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let policy = Arc::clone(&policy);
                // A client that goes away in the middle has sent nothing.
                clients.spawn(async move { drop(serve(stream, &policy).await) });
            }
        });
        (Self { taken, task }, port)
    }

    pub fn taken(&self) -> Vec<Value> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Smtp {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, policy: &Policy) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut from, mut to) = (String::new(), Vec::new());
    stream.write_all(b"220 mail.test\r\n").await?;
    loop {
        let Some(line) = next_line(&mut stream).await? else { return Ok(()) };
        let verb = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        let answer = match &*verb {
            // What is not ASCII is sent to a server that takes it.
            "EHLO" => "250-mail.test\r\n250-8BITMIME\r\n250 SMTPUTF8",
            "HELO" => "250 mail.test",
            "MAIL" => {
                (from, to) = (address(&line), Vec::new());
                "250 OK"
            }
            "RCPT" => {
                to.push(address(&line));
                "250 OK"
            }
            "DATA" => {
                stream.write_all(b"354 go on\r\n").await?;
                let data = content(&mut stream).await?;
                policy.judge(&from, &std::mem::take(&mut to), &data)
            }
            "RSET" | "NOOP" => "250 OK",
            "QUIT" => {
                return stream.write_all(b"221 bye\r\n").await;
            }
            _ => "502 not known here",
        };
        stream.write_all(format!("{answer}\r\n").as_bytes()).await?;
    }
}

/// `None`: the client is gone.
///
/// A client that writes the end of a mail by itself is kept from sending it until what it wrote before is acknowledged (Nagle's
/// algorithm), and the kernel puts that off by 40 ms of real time, of which no paused clock knows: it is told not to.
async fn next_line(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    SockRef::from(stream.get_ref()).set_tcp_quickack(true)?;
    let mut line = String::new();
    Ok((stream.read_line(&mut line).await? > 0).then_some(line))
}

/// What stands between the angle brackets of a command.
fn address(line: &str) -> String {
    let address = line.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    address.map(|(address, _)| address.to_owned()).unwrap_or_default()
}

/// Up to the line with nothing but a dot.
async fn content(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut content = String::new();
    loop {
        let line = next_line(stream).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line == ".\r\n" {
            return Ok(content);
        }
        content += line.strip_prefix('.').unwrap_or(&line);
    }
}

impl Policy {
    fn judge(&self, from: &str, to: &[String], data: &str) -> &'static str {
        if self.defers.load(Ordering::Relaxed) > 0 {
            self.defers.fetch_sub(1, Ordering::Relaxed);
            return "451 later";
        }
        if self.refuses.as_deref().is_some_and(|refused| to.iter().any(|to| to.starts_with(refused))) {
            return "550 never";
        }
        let mail = json!({ "from": from, "to": to, "data": data, "tls": false, "user": false });
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
        "250 taken"
    }
}
