//! What a mail says. Its headers are made of offhook's own words and the configuration's; what
//! callers and models said is in the body alone.

use crate::{call::Speaker, facts::CallFacts, redact::Redacted, tool::Message as TakenMessage};
use lettre::{
    Message,
    message::{Mailbox, header::ContentType},
};
use std::{fmt::Write as _, time::Duration};

/// A transcript of an hour's talk is a tenth of this. What is beyond is cut off, which the mail says.
const BODY_BYTES_MAX: usize = 512 * 1024;

/// A mail that has no address yet.
#[derive(Debug, Clone)]
pub struct Letter {
    subject: String,
    /// Names this mail; the same one sent twice has it twice.
    id: String,
    body: Redacted<String>,
}

/// One thing that was said.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Since the call began.
    pub at: Duration,
    pub speaker: Speaker,
    pub text: Redacted<String>,
    /// Of an answer that the caller interrupted: how much of it was heard.
    pub heard: Option<Duration>,
    /// The first words of another party in the caller's place.
    pub by_another: bool,
}

impl Line {
    pub fn new(at: Duration, speaker: Speaker, text: impl Into<Redacted<String>>) -> Self {
        Self { at, speaker, text: text.into(), heard: None, by_another: false }
    }

    /// What is to be said beside its text.
    pub fn remark(&self) -> String {
        let told = |heard: Duration| format!(" [interrupted: the first {:.1} s were heard]", heard.as_secs_f32());
        let remark = self.heard.map(told).unwrap_or_default();
        if self.by_another { remark + " [another person speaks from here on]" } else { remark }
    }
}

/// Everything that was said, as far as it is kept.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    lines: Vec<Line>,
    bytes: usize,
    cut: bool,
}

impl Transcript {
    pub fn push(&mut self, line: Line) {
        let bytes = line.text.reveal().len();
        if self.bytes + bytes > BODY_BYTES_MAX {
            self.cut = true;
            return;
        }
        self.bytes += bytes;
        self.lines.push(line);
    }

    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The caller interrupted what was said last; `false` if that was not the agent.
    pub fn interrupt(&mut self, heard: Duration) -> bool {
        match self.lines.last_mut() {
            Some(line) if line.speaker == Speaker::Agent && line.heard.is_none() => {
                line.heard = Some(heard);
                true
            }
            _ => false,
        }
    }
}

impl Letter {
    /// What a caller leaves for a person; `number` tells several of one call apart.
    pub fn message(facts: &CallFacts, began: jiff::Timestamp, message: &TakenMessage, number: usize) -> Self {
        let mut body = about(facts, began);
        if let Some(callback) = message.callback.reveal() {
            line(&mut body, "Call back", callback);
        }
        body.push('\n');
        paragraph(&mut body, message.text.reveal());
        Self {
            subject: format!("Message from a caller ({})", facts.context),
            id: format!("{}.message{number}", facts.id),
            body: Redacted::new(body),
        }
    }

    /// Everything that was said in a call.
    pub fn transcript(facts: &CallFacts, began: jiff::Timestamp, transcript: &Transcript, number: usize) -> Self {
        let mut body = about(facts, began);
        body.push('\n');
        for line in &transcript.lines {
            let who = match line.speaker {
                Speaker::Caller => "Caller",
                Speaker::Agent => "Agent",
            };
            let seconds = line.at.as_secs();
            let _ = write!(body, "[{:02}:{:02}] {who}: ", seconds / 60, seconds % 60);
            paragraph(&mut body, &format!("{}{}", line.text.reveal(), line.remark()));
        }
        if transcript.lines.is_empty() {
            body.push_str("Nothing was said that could be written down.\n");
        }
        if transcript.cut {
            body.push_str("[The rest is too long for a mail.]\n");
        }
        Self {
            subject: format!("Transcript of a call ({})", facts.context),
            id: format!("{}.transcript{number}", facts.id),
            body: Redacted::new(body),
        }
    }

    /// The mail; `None` when an address is none.
    pub(super) fn mail(&self, from: &Mailbox, to: &str) -> Option<Message> {
        let domain = from.email.domain();
        Message::builder()
            .from(from.clone())
            .to(to.parse().ok()?)
            .subject(self.subject.clone())
            .message_id(Some(format!("<{}@{domain}>", self.id)))
            .date_now()
            .header(ContentType::TEXT_PLAIN)
            .body(self.body.reveal().clone())
            .ok()
    }
}

fn about(facts: &CallFacts, began: jiff::Timestamp) -> String {
    let mut text = String::new();
    let said = |value: &Redacted<Option<String>>| value.reveal().clone().unwrap_or_else(|| "not told".into());
    line(&mut text, "Caller", &format!("{}, {}", said(&facts.caller_name), said(&facts.caller_number)));
    line(&mut text, "Time", &began.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    line(&mut text, "Agent", &facts.context);
    line(&mut text, "Call", &facts.id.to_string());
    text
}

fn line(text: &mut String, what: &str, value: &str) {
    let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(text, "{what}: {value}");
}

/// As it was said, without what a terminal would take for commands.
fn paragraph(text: &mut String, words: &str) {
    let plain = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let mut end = words.len().min(BODY_BYTES_MAX);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    text.extend(words[..end].chars().filter(plain));
    text.push('\n');
}
