use super::*;
use crate::{
    call::Speaker,
    facts::{CallFacts, CallId, Direction},
    tool::Message as TakenMessage,
};
use std::sync::{Arc, Mutex};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
};

/// A mail server that says what it is told to say, and keeps what it hears.
#[derive(Clone, Default)]
struct Server {
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `answers`: to each mail's end, one after the other; the last one for all further ones.
    async fn start(answers: &'static [&'static str]) -> (Self, u16) {
        let server = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = server.heard.clone();
        tokio::spawn(async move {
            let mut mails = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let (reader, mut writer) = stream.into_split();
                let mut lines = BufReader::new(reader).lines();
                writer.write_all(b"220 test\r\n").await.unwrap();
                let mut data = false;
                while let Ok(Some(line)) = lines.next_line().await {
                    heard.lock().unwrap().push(line.clone());
                    let answer = match &*line {
                        "." if data => {
                            data = false;
                            mails += 1;
                            answers.get(mails - 1).or(answers.last()).copied().unwrap_or("250 taken")
                        }
                        _ if data => continue,
                        "DATA" => {
                            data = true;
                            "354 go on"
                        }
                        line if line.starts_with("EHLO") => "250-test\r\n250 AUTH PLAIN LOGIN",
                        line if line.starts_with("AUTH") => "235 yes",
                        _ => "250 yes",
                    };
                    if writer.write_all(format!("{answer}\r\n").as_bytes()).await.is_err() {
                        break;
                    }
                }
            }
        });
        (server, port)
    }

    fn heard(&self, start: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|line| line.starts_with(start)).count()
    }
}

fn config(port: u16, tls: MailTls) -> MailConfig {
    MailConfig {
        server: "127.0.0.1".into(),
        port,
        tls,
        ca_file: None,
        credentials: None,
        from: "offhook <offhook@example.com>".into(),
        mailboxes: [("office".to_owned(), "office@example.com".to_owned())].into(),
    }
}

fn mailer(config: &MailConfig) -> Mailer {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let counters = MailCounters::new(&Registry::new()).unwrap();
    Mailer::start_with(config, counters, [Duration::from_millis(5); 3]).unwrap()
}

fn facts() -> CallFacts {
    CallFacts {
        id: CallId::random(),
        context: "front".into(),
        provider: "test".into(),
        direction: Direction::Inbound,
        caller_name: Some("Ada\r\nBcc: evil@example.org".to_owned()).into(),
        caller_number: Some("15550199".to_owned()).into(),
        dialled_number: None.into(),
        campaign_id: None,
        lead_id: None,
        variables: crate::redact::Redacted::default(),
        residency: crate::facts::Residency::Any,
    }
}

fn letter(text: &str) -> Letter {
    let message =
        TakenMessage { to: None, text: text.to_owned().into(), callback: Some("15550111\r\nX: y".to_owned()).into() };
    Letter::message(&facts(), jiff::Timestamp::UNIX_EPOCH, &message, 0)
}

fn dropped(mailer: &Mailer, cause: Drop) -> u64 {
    mailer.counters.dropped.with_label_values(&[cause.label()]).get()
}

const LONG: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_mail_is_sent_once_and_names_nobody_but_its_mailbox() {
    let (server, port) = Server::start(&["250 taken"]).await;
    let mailer = mailer(&config(port, MailTls::None));
    mailer.send("office@example.com", &letter("Please call me back."));
    mailer.finish(LONG).await;
    assert_eq!(mailer.counters.sent.get(), 1);
    assert_eq!(server.heard("RCPT TO"), 1);
    assert_eq!(server.heard("RCPT TO:<office@example.com>"), 1);
}

#[test]
fn what_is_said_cannot_become_a_header() {
    let from = "offhook <offhook@example.com>".parse().unwrap();
    let words = "First line\r\nBcc: evil@example.org\r\n\r\n.\r\nMAIL FROM:<x@example.org>";
    let mail = letter(words).mail(&from, "office@example.com").unwrap();
    let text = String::from_utf8(mail.formatted()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let names: Vec<&str> = head.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    for name in &names {
        let known = [
            "From",
            "To",
            "Subject",
            "Message-ID",
            "Date",
            "Content-Type",
            "Content-Transfer-Encoding",
            "MIME-Version",
        ];
        assert!(known.contains(name), "{name} in {names:?}");
    }
    assert!(!head.contains("evil") && !head.contains("Ada") && !head.contains("15550"), "{head}");
    assert!(body.contains("Ada  Bcc: evil@example.org"), "a name is one line: {body}");
    assert!(body.contains("15550111  X: y"), "{body}");
    assert_eq!(mail.envelope().to().len(), 1);
}

#[test]
fn an_address_that_is_none_makes_no_mail() {
    let from = "offhook@example.com".parse().unwrap();
    for to in ["", "office", "a@b\r\nBcc: c@d", "a@example.com, b@example.com"] {
        assert!(letter("x").mail(&from, to).is_none(), "{to:?}");
    }
}

#[test]
fn a_transcript_says_who_said_what_when_and_where_it_was_cut() {
    let mut transcript = Transcript::default();
    let mut say = |seconds, speaker, text: String| {
        transcript.push(Line::new(Duration::from_secs(seconds), speaker, text));
    };
    say(2, Speaker::Agent, "Hello".into());
    say(63, Speaker::Caller, "Grüß Gott\u{7}".into());
    say(64, Speaker::Agent, "x".repeat(600 * 1024));
    let letter = Letter::transcript(&facts(), jiff::Timestamp::UNIX_EPOCH, &transcript, 0);
    let debug = format!("{letter:?}");
    assert!(!debug.contains("Hello") && !debug.contains("15550199"), "{debug}");
    let from = "offhook@example.com".parse().unwrap();
    let mail = letter.mail(&from, "office@example.com").unwrap();
    let text = String::from_utf8(mail.formatted()).unwrap().replace("=\r\n", "");
    for part in ["Agent: Hello", "Caller: Gr=C3=BC=C3=9F Gott", "too long for a mail", "1970-01-01 00:00:00 UTC"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains('\u{7}'));
}

#[tokio::test]
async fn what_is_put_off_is_sent_again_three_times_and_what_is_refused_is_not() {
    for (answers, mails, sent, cause) in [
        (&["451 later", "451 later", "250 taken"] as &[&str], 3, 1, None),
        (&["451 later"], 4, 0, Some(Drop::Unreachable)),
        (&["550 never"], 1, 0, Some(Drop::Refused)),
    ] {
        let (server, port) = Server::start(answers.to_vec().leak()).await;
        let mailer = mailer(&config(port, MailTls::None));
        mailer.send("office@example.com", &letter("x"));
        let done = || mailer.counters.sent.get() + Drop::ALL.iter().map(|cause| dropped(&mailer, *cause)).sum::<u64>();
        while done() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.heard("DATA"), mails, "{answers:?}");
        assert_eq!(mailer.counters.sent.get(), sent, "{answers:?}");
        assert!(cause.is_none_or(|cause| dropped(&mailer, cause) == 1), "{answers:?}");
    }
}

#[tokio::test]
async fn a_queue_that_is_full_drops_and_counts_and_the_end_sends_what_waits() {
    let (server, port) = Server::start(&["250 taken"]).await;
    let mailer = mailer(&config(port, MailTls::None));
    // On one thread nothing is sent before the first await.
    for _ in 0..QUEUE_MAX + 5 {
        mailer.send("office@example.com", &letter("x"));
    }
    assert_eq!(dropped(&mailer, Drop::Full), 5);
    mailer.finish(LONG).await;
    assert_eq!(mailer.counters.sent.get(), QUEUE_MAX as u64);
    assert_eq!(server.heard("DATA"), QUEUE_MAX);
    mailer.send("office@example.com", &letter("x"));
    assert_eq!(dropped(&mailer, Drop::Stopped), 1);
}

#[tokio::test]
async fn a_server_without_tls_is_told_neither_the_mail_nor_the_password() {
    let (server, port) = Server::start(&["250 taken"]).await;
    let credentials = Some(("user".to_owned(), "password".to_owned().into()));
    let mailer = mailer(&MailConfig { credentials, ..config(port, MailTls::StartTls) });
    mailer.send("office@example.com", &letter("x"));
    while dropped(&mailer, Drop::Unreachable) + dropped(&mailer, Drop::Refused) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.heard("AUTH") + server.heard("MAIL") + server.heard("DATA"), 0);
    assert_eq!(mailer.counters.sent.get(), 0);
}
