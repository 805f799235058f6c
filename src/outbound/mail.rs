//! Mail to configured mailboxes, by SMTP: what callers leave for people, and transcripts.
//!
//! Invariants: a mail goes to an address of the configuration and to no other; nothing that a caller
//! or a model said is in a header; nothing of a mail's content is logged. Sending waits for nobody,
//! and nobody waits for sending.

mod letter;

pub use letter::{Letter, Line, Transcript};

use crate::config::{MailConfig, MailTls};
use lettre::{
    AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor,
    transport::smtp::{
        Error as SmtpError,
        authentication::Credentials,
        client::{Certificate, Tls, TlsParameters},
    },
};
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};
use secrecy::ExposeSecret as _;
use std::time::Duration;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Mails that wait for the server. An hour's calls of a small office fit; more means that the server
/// has been away for long, and what comes then is dropped and counted.
pub const QUEUE_MAX: usize = 100;
/// Waits before the second, third and fourth attempt: over a restart of the server, and not so long
/// that the mails behind it grow stale.
const RETRY_AFTER: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(15), Duration::from_secs(60)];
/// One command of SMTP; servers that look names up take seconds.
const COMMAND_MAX: Duration = Duration::from_secs(20);
/// One attempt as a whole.
const ATTEMPT_MAX: Duration = Duration::from_secs(60);

/// Why a mail was dropped. A closed set: it is a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drop {
    /// [`QUEUE_MAX`] were waiting.
    Full,
    /// The server said that it will never take it.
    Refused,
    /// The last attempt failed as well.
    Unreachable,
    /// The engine stopped before it was sent.
    Stopped,
}

impl Drop {
    const ALL: [Self; 4] = [Self::Full, Self::Refused, Self::Unreachable, Self::Stopped];

    const fn label(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Stopped => "stopped",
        }
    }
}

/// Counters of all mail of one process.
#[derive(Debug, Clone)]
pub struct MailCounters {
    sent: IntCounter,
    retried: IntCounter,
    dropped: IntCounterVec,
}

impl MailCounters {
    /// # Errors
    /// When one of the names is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let sent = IntCounter::new("offhook_mail_sent_total", "Mails that the server has taken")?;
        let retried = IntCounter::new("offhook_mail_retries_total", "Attempts to send a mail that were repeated")?;
        let about = Opts::new("offhook_mail_dropped_total", "Mails that were given up, by cause");
        let dropped = IntCounterVec::new(about, &["cause"])?;
        Drop::ALL.iter().for_each(|cause| drop(dropped.with_label_values(&[cause.label()])));
        registry.register(Box::new(sent.clone()))?;
        registry.register(Box::new(retried.clone()))?;
        registry.register(Box::new(dropped.clone()))?;
        Ok(Self { sent, retried, dropped })
    }

    fn dropped(&self, cause: Drop) {
        self.dropped.with_label_values(&[cause.label()]).inc();
        tracing::warn!(cause = cause.label(), "a mail was not sent");
    }
}

/// Why there can be no mailer.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    #[error("mail.from is no address")]
    From,
    #[error("mail.ca_file: {0}")]
    Authority(String),
    #[error("mail: TLS cannot be set up")]
    Tls,
}

/// Sends mails one after the other, in a task of its own. Clones share the queue.
#[derive(Clone)]
pub struct Mailer {
    queue: mpsc::Sender<Message>,
    from: lettre::message::Mailbox,
    counters: MailCounters,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Mailer {
    /// No connection is made before the first mail.
    ///
    /// # Errors
    /// When the configuration cannot be used at all.
    pub fn start(config: &MailConfig, counters: MailCounters) -> Result<Self, MailError> {
        Self::start_with(config, counters, RETRY_AFTER)
    }

    fn start_with(config: &MailConfig, counters: MailCounters, retry_after: [Duration; 3]) -> Result<Self, MailError> {
        let from = config.from.parse().map_err(|_| MailError::From)?;
        let transport = transport(config)?;
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let sender = Sender { transport, counters: counters.clone(), stop: stop.clone(), retry_after };
        tasks.spawn(sender.run(waiting));
        tasks.close();
        Ok(Self { queue, from, counters, tasks, stop })
    }

    /// Queues a letter to this address of the configuration.
    pub fn send(&self, to: &str, letter: &Letter) {
        let Some(mail) = letter.mail(&self.from, to) else {
            tracing::warn!("a mail could not be composed: its mailbox has no usable address");
            return self.counters.dropped(Drop::Refused);
        };
        match self.queue.try_send(mail) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.counters.dropped(Drop::Full),
            Err(TrySendError::Closed(_)) => self.counters.dropped(Drop::Stopped),
        }
    }

    /// Takes no more, and sends what waits, without repeating what fails, for `within` at most. For
    /// the engine's own end.
    pub async fn finish(&self, within: Duration) {
        self.stop.cancel();
        if timeout(within, self.tasks.wait()).await.is_err() {
            let left = QUEUE_MAX - self.queue.capacity();
            tracing::warn!(left, "the mail server is too slow; mails are left behind");
        }
    }
}

/// Whether the server is there, is who it should be, and takes the user. No mail is sent.
///
/// # Errors
/// In words of ours: the server's may repeat an address.
pub async fn reach(config: &MailConfig) -> Result<(), &'static str> {
    let transport = transport(config).map_err(|_| "mail.ca_file cannot be used, or TLS cannot be set up")?;
    match transport.test_connection().await {
        Ok(true) => Ok(()),
        Ok(false) => Err("it took the connection and then said nothing"),
        Err(error) if error.is_tls() => Err("its certificate is not trusted, or it offers no TLS"),
        Err(error) if error.is_permanent() => Err("it refuses the user or the password"),
        Err(error) if error.is_transient() => Err("it asks to come again later"),
        Err(error) if error.is_client() => Err("it offers no way to log in that is known here, or no STARTTLS"),
        Err(_) => Err("it cannot be reached"),
    }
}

fn transport(config: &MailConfig) -> Result<AsyncSmtpTransport<Tokio1Executor>, MailError> {
    let tls = || -> Result<TlsParameters, MailError> {
        let mut parameters = TlsParameters::builder(config.server.clone());
        if let Some(file) = &config.ca_file {
            let pem = std::fs::read(file).map_err(|error| MailError::Authority(error.to_string()))?;
            let authority = Certificate::from_pem(&pem).map_err(|_| MailError::Authority("no PEM".into()))?;
            parameters = parameters.add_root_certificate(authority);
        }
        parameters.build().map_err(|_| MailError::Tls)
    };
    let tls = match config.tls {
        MailTls::Implicit => Tls::Wrapper(tls()?),
        // Required: nothing is sent, the password least of all, to a server that does not offer it.
        MailTls::StartTls => Tls::Required(tls()?),
        MailTls::None => Tls::None,
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(config.server.clone())
        .port(config.port)
        .tls(tls)
        .timeout(Some(COMMAND_MAX));
    if let Some((username, password)) = &config.credentials {
        builder = builder.credentials(Credentials::new(username.clone(), password.expose_secret().to_owned()));
    }
    Ok(builder.build())
}

struct Sender {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    counters: MailCounters,
    stop: CancellationToken,
    retry_after: [Duration; 3],
}

impl Sender {
    async fn run(self, mut waiting: mpsc::Receiver<Message>) {
        loop {
            let mail = tokio::select! {
                biased;
                () = self.stop.cancelled(), if !waiting.is_closed() => {
                    waiting.close();
                    continue;
                }
                mail = waiting.recv() => mail,
            };
            let Some(mail) = mail else { return };
            match self.deliver(mail).await {
                Ok(()) => self.counters.sent.inc(),
                Err(cause) => self.counters.dropped(cause),
            }
        }
    }

    async fn deliver(&self, mail: Message) -> Result<(), Drop> {
        let mut waits = self.retry_after.into_iter();
        loop {
            let attempt = timeout(ATTEMPT_MAX, self.transport.send(mail.clone())).await;
            let failed = match attempt {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            if self.tell(failed.as_ref()) {
                return Err(Drop::Refused);
            }
            let Some(wait) = waits.next() else { return Err(Drop::Unreachable) };
            tokio::select! {
                () = sleep(wait) => {}
                () = self.stop.cancelled() => return Err(Drop::Stopped),
            }
            self.counters.retried.inc();
        }
    }

    /// Logs a failed attempt, without the server's words, which may repeat an address; `true` when
    /// another one would fail as well.
    fn tell(&self, error: Option<&SmtpError>) -> bool {
        let Some(error) = error else {
            tracing::warn!("the mail server took too long");
            return false;
        };
        let status = error.status().map(|code| code.to_string());
        let kind = if error.is_tls() {
            "tls"
        } else if error.is_permanent() {
            "refused"
        } else if error.is_transient() {
            "deferred"
        } else if error.is_client() {
            "unusable"
        } else {
            "unreachable"
        };
        tracing::warn!(kind, status, "a mail could not be sent");
        error.is_permanent()
    }
}

#[cfg(test)]
mod tests;
