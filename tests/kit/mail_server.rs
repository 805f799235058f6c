//! A mail server and what it has taken: a real one, `tests/lab/smtpd.py`, or a task where a scene runs in virtual time, which speaks
//! no TLS.

mod smtp;

use super::{
    authority::Certificate,
    python::python,
    tied::{Tied, free_ports},
    world::{self, World},
};
use serde_json::Value;
use smtp::Smtp;
use std::time::Duration;
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

const START_WITHIN: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(20);

/// How the server wants to be spoken to.
#[derive(Default)]
pub struct Manner<'a> {
    /// `implicit`, `starttls` or `none`.
    pub tls: &'a str,
    pub certificate: Option<&'a Certificate>,
    /// User and password.
    pub login: Option<(&'a str, &'a str)>,
    /// So many mails are put off first.
    pub defers: usize,
    /// Addresses that begin like this get nothing.
    pub refuses: Option<&'a str>,
}

pub struct MailServer {
    kind: Kind,
    pub port: u16,
}

enum Kind {
    Program { directory: TempDir, process: Box<Tied> },
    Task(Smtp),
}

impl MailServer {
    pub async fn start(manner: Manner<'_>) -> Self {
        if world::current() == World::Emulated {
            let plain = manner.tls == "none" && manner.login.is_none();
            assert!(
                plain,
                "the emulated mail server knows no TLS and no login: a scene that needs them is `only_real`"
            );
            let (task, port) = Smtp::start(manner.defers, manner.refuses).await;
            return Self { kind: Kind::Task(task), port };
        }
        let directory = TempDir::with_prefix("offhook-mail-").expect("a temporary directory");
        let port = free_ports(1);
        let taken = directory.path().join("taken").display().to_string();
        let files =
            manner.certificate.map(|files| [&files.certificate, &files.key].map(|path| path.display().to_string()));
        let [certificate, key] = files.unwrap_or(["-".into(), "-".into()]);
        let (user, password) = manner.login.unwrap_or(("-", "-"));
        let python = python("aiosmtpd").display().to_string();
        let (port_text, defers) = (port.to_string(), manner.defers.to_string());
        let refuses = manner.refuses.unwrap_or("-");
        let args = [&*python, &port_text, manner.tls, &certificate, &key, user, password, &taken, &defers, refuses];
        let log = directory.path().join("log");
        let mut process = Box::new(Tied::start("smtpd.sh", &args, &[], directory.path(), &log));
        let until = Instant::now() + START_WITHIN;
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(!process.has_ended() && Instant::now() < until, "no mail server: {}", said());
            sleep(ASK_EVERY).await;
        }
        Self { kind: Kind::Program { directory, process }, port }
    }

    /// Mails it has taken: `from`, `to`, `data`, `tls`, `user`.
    pub fn taken(&self) -> Vec<Value> {
        match &self.kind {
            Kind::Program { directory, .. } => {
                let text = std::fs::read_to_string(directory.path().join("taken")).unwrap_or_default();
                super::json_lines(&text)
            }
            Kind::Task(task) => task.taken(),
        }
    }

    pub async fn wait_taken(&self, count: usize, within: Duration) -> Vec<Value> {
        let until = Instant::now() + within;
        loop {
            let taken = self.taken();
            if taken.len() >= count {
                return taken;
            }
            assert!(Instant::now() < until, "{} of {count} mails within {within:?}", taken.len());
            sleep(ASK_EVERY).await;
        }
    }

    pub async fn stop(self) {
        if let Kind::Program { mut process, .. } = self.kind {
            process.stop().await;
        }
    }
}
