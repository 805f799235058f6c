//! What a server prints, in the engine's log: limited in lines and length, its secrets masked, and so is what is written like
//! a number of a person: a server may print what it was asked.

use crate::redact::{self, NUMBER_BYTES_MAX};
use secrecy::{ExposeSecret as _, SecretString};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use tracing::info;

/// Lines of one server in a second; the others are counted.
const LINES_PER_SECOND: u32 = 20;
/// A longer line is cut.
const LINE_BYTES_MAX: usize = 4096;
/// What of the last line goes into an error.
const REASON_CHARS_MAX: usize = 300;
/// Shorter values are in every text, and are no secrets.
const SECRET_BYTES_MIN: usize = 4;

/// The printer of one server; clones share the limit.
#[derive(Clone)]
pub(super) struct Output {
    server: Arc<str>,
    secrets: Arc<[SecretString]>,
    window: Arc<Mutex<Window>>,
}

struct Window {
    began: Instant,
    lines: u32,
    left_out: u64,
    /// The last line on stderr, for the error of a server that dies.
    last: String,
}

impl Output {
    pub fn new(server: &str, secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let secrets: Vec<SecretString> = secrets.into_iter().collect();
        let is_secret = |text: &str| text.len() >= SECRET_BYTES_MIN;
        // One of several lines, such as a key in PEM, is printed line by line.
        let lines = secrets.iter().flat_map(|value| value.expose_secret().lines()).map(str::trim);
        let mut secrets: Vec<&str> =
            secrets.iter().map(|value| value.expose_secret()).chain(lines).filter(|text| is_secret(text)).collect();
        // What begins another is masked after it, or the rest of that would be seen.
        secrets.sort_by_key(|text| (std::cmp::Reverse(text.len()), *text));
        secrets.dedup();
        let window = Window { began: Instant::now(), lines: 0, left_out: 0, last: String::new() };
        Self {
            server: server.into(),
            secrets: secrets.into_iter().map(SecretString::from).collect(),
            window: Arc::new(Mutex::new(window)),
        }
    }

    /// Without the secrets, numbers of people, control characters and more than a line's length.
    pub fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.secrets.iter() {
            if text.contains(secret.expose_secret()) {
                text = text.replace(secret.expose_secret(), "***");
            }
        }
        let text = redact::without_numbers(&text);
        let end = (0..=text.len().min(LINE_BYTES_MAX)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let whole = end == text.len();
        let clean: String = text[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if whole { clean.trim_end().to_owned() } else { format!("{clean}…") }
    }

    /// What went wrong, as a sentence of bounded length; cut after it was masked, so that no half of a secret is left.
    pub fn reason(&self, text: &str) -> String {
        self.masked(text).chars().take(REASON_CHARS_MAX).collect()
    }

    /// One line that the server printed.
    pub fn line(&self, stream: &'static str, bytes: &[u8]) {
        // Cut before it is looked through, but not where a secret or a number could be half on this side.
        let longest = self.secrets.first().map_or(0, |secret| secret.expose_secret().len()).max(NUMBER_BYTES_MAX + 1);
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LINE_BYTES_MAX + longest)]);
        let kept = self.cut(&text);
        let mut line = self.masked(&text[..kept]);
        if kept < text.len() {
            line.push('…');
        }
        let text = line;
        if text.is_empty() {
            return;
        }
        let (shown, left_out) = {
            let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
            if stream == "stderr" {
                window.last = text.chars().take(REASON_CHARS_MAX).collect();
            }
            window.admit(Instant::now())
        };
        let server = &*self.server;
        if left_out > 0 {
            info!(server, lines = left_out, "the MCP server printed more lines than are logged");
        }
        if shown {
            info!(server, stream, "MCP server: {text}");
        }
    }

    /// Where a line ends: at its limit, or before the secret or the number that lies across it.
    fn cut(&self, text: &str) -> usize {
        if text.len() <= LINE_BYTES_MAX {
            return text.len();
        }
        let end = (0..=LINE_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let end = self.secrets.iter().fold(end, |end, secret| {
            let secret = secret.expose_secret();
            let mut found = text.match_indices(secret).map(|(at, _)| at);
            found.find(|at| (*at..*at + secret.len()).contains(&end)).unwrap_or(end)
        });
        redact::private_numbers(text).iter().find(|number| number.contains(&end)).map_or(end, |number| number.start)
    }

    /// Lines that were not logged are told at the end.
    pub fn finish(&self) {
        let left_out = {
            let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut window.left_out)
        };
        if left_out > 0 {
            info!(server = &*self.server, lines = left_out, "the MCP server printed more lines than are logged");
        }
    }

    /// The last line on stderr since the last start.
    pub fn last_words(&self) -> Option<String> {
        let window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        (!window.last.is_empty()).then(|| window.last.clone())
    }

    pub fn begin(&self) {
        self.window.lock().unwrap_or_else(PoisonError::into_inner).last.clear();
    }
}

impl Window {
    /// Whether the next line is logged, and how many lines before it were not.
    fn admit(&mut self, now: Instant) -> (bool, u64) {
        let mut told = 0;
        if now.saturating_duration_since(self.began) >= Duration::from_secs(1) {
            (self.began, self.lines) = (now, 0);
            told = std::mem::take(&mut self.left_out);
        }
        if self.lines >= LINES_PER_SECOND {
            self.left_out += 1;
            return (false, told);
        }
        self.lines += 1;
        (true, told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::LogCapture;

    fn output(secrets: &[&str]) -> Output {
        Output::new("demo", secrets.iter().map(|secret| SecretString::from(*secret)))
    }

    /// M36, M answer 16: twenty lines a second, and then how many there were besides.
    #[test]
    fn a_flood_of_lines_is_twenty_a_second_and_a_count() {
        let mut window = Window { began: Instant::now(), lines: 0, left_out: 0, last: String::new() };
        let begin = window.began;
        let shown = (0..1000).filter(|_| window.admit(begin).0).count();
        assert_eq!(shown, 20);
        assert_eq!(window.admit(begin + Duration::from_secs(1)), (true, 980));
        assert_eq!(window.admit(begin + Duration::from_millis(1500)), (true, 0));
    }

    /// M33, M answer 16: secrets are masked, lines are cut at 4 KiB, and nothing moves the terminal's cursor.
    #[test]
    fn what_is_logged_holds_no_secret_and_is_one_short_line() {
        let capture = LogCapture::new();
        let _guard = capture.start();
        let output = output(&["hunter22", "abc"]);
        output.line("stderr", b"the token is hunter22, twice hunter22\r");
        output.line("stderr", b"abc is too short to be a secret \x1b[2J\n");
        output.line("stderr", "ü".repeat(5000).as_bytes());
        let lines = capture.lines();
        assert!(lines[0].contains("the token is ***, twice ***"), "{lines:?}");
        assert!(lines[1].contains("abc is too short") && !lines[1].contains('\u{1b}'), "{lines:?}");
        assert!(lines[2].len() < 4096 + 200 && lines[2].contains('…'), "{}", lines[2].len());
        assert_eq!(output.last_words().map(|text| text.chars().count()), Some(300));
    }

    /// M33, M answer 16: a secret is masked whole where it begins with another, has several lines, or lies across the cut.
    #[test]
    fn no_part_of_a_secret_is_left() {
        let output = output(&["hunter22", "hunter22-and-more", "-----BEGIN\nMIIEowIBAAKC\n-----END"]);
        assert_eq!(output.masked("hunter22-and-more, hunter22"), "***, ***");
        let capture = LogCapture::new();
        let _guard = capture.start();
        output.line("stderr", b"  MIIEowIBAAKC");
        for before in 4070..4100 {
            // What is masked before it makes room, into which a half one must not move.
            output.line(
                "stderr",
                format!("{}{}hunter22-and-more", "hunter22 ".repeat(40), "x".repeat(before - 360)).as_bytes(),
            );
        }
        let lines = capture.lines();
        assert_eq!(lines.len(), 20);
        for line in lines {
            assert!(!line.contains("MIIE") && !line.contains("hun") && !line.contains("-and"), "{line}");
        }
    }

    /// V20: a server that prints what it was asked puts no number of a person into the log, nor a part of one at the cut.
    #[test]
    fn numbers_of_people_are_masked_in_what_a_server_prints() {
        let (capture, output) = (LogCapture::new(), output(&[]));
        let _guard = capture.start();
        output.line("stderr", b"asked with {'pan_number': 'ABCDE1234F', 'to': '+91 98765 43210'}");
        for before in 4080..4098 {
            output.line("stderr", format!("{}9876543210 {}", " ".repeat(before), "y".repeat(40)).as_bytes());
        }
        let lines = capture.lines();
        assert!(lines[0].contains("{'pan_number': '***', 'to': '***'}"), "{}", lines[0]);
        assert_eq!(lines.len(), 19);
        // The time of a line may have these digits as well.
        let said = |line: &String| line.split_once("MCP server:").is_some_and(|(_, said)| !said.contains("987"));
        assert!(lines.iter().all(said), "{lines:?}");
        assert!(!output.reason("no such PAN: ABCDE1234F").contains("1234"));
    }
}
