//! Questions on the terminal, or lines of a script's input.

use anyhow::{Context as _, bail, ensure};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::SecretString;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// Somebody who cannot answer in so many attempts wants something else.
const ATTEMPTS: usize = 3;

pub struct Asker {
    /// Nobody is asked.
    quiet: bool,
}

/// Puts echo back, also after Ctrl-D and errors.
struct NoEcho(Termios);

impl NoEcho {
    fn begin() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent).ok()?;
        Some(Self(before))
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
        println!();
    }
}

impl Asker {
    pub fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// The flag's value, or the answer; an empty answer is the default.
    pub fn given_or<T>(
        &mut self,
        given: Option<T>,
        question: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> anyhow::Result<T> {
        match given {
            Some(given) => Ok(given),
            None => self.ask(question, default, read),
        }
    }

    /// The same for a text that must be of a certain shape, whoever gave it.
    pub fn checked(
        &mut self,
        given: Option<String>,
        question: &str,
        default: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> anyhow::Result<String> {
        if let Some(given) = given {
            return check(&given).map(|()| given).map_err(|why| anyhow::anyhow!("{question}: {why}"));
        }
        self.ask(question, default, |text| check(text).map(|()| text.to_owned()))
    }

    pub fn ask<T>(
        &mut self,
        question: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> anyhow::Result<T> {
        for _ in 0..ATTEMPTS {
            let answer = if self.quiet { String::new() } else { line(&format!("{question} [{default}]: "))? };
            match read(if answer.is_empty() { default } else { &answer }) {
                Ok(value) => return Ok(value),
                Err(why) if self.quiet => bail!("{question}: {why}"),
                Err(why) => println!("  {why}"),
            }
        }
        bail!("no answer that can be used")
    }

    pub fn required(&mut self, question: &str) -> anyhow::Result<String> {
        ensure!(!self.quiet, "{question} is needed");
        for _ in 0..ATTEMPTS {
            let answer = line(&format!("{question}: "))?;
            if !answer.is_empty() {
                return Ok(answer);
            }
            println!("  it is needed");
        }
        bail!("{question} is needed")
    }

    /// Without echo where that is possible.
    pub fn secret(&mut self, variable: &str) -> anyhow::Result<SecretString> {
        ensure!(!self.quiet, "{variable} is not set: export it, or write --offline to test nothing");
        for _ in 0..ATTEMPTS {
            let silent = io::stdin().is_terminal().then(NoEcho::begin).flatten();
            let answer = line(&format!("{variable} (not shown): "))?;
            drop(silent);
            if !answer.is_empty() {
                return Ok(answer.into());
            }
            println!("  it is needed; with --offline nothing is tested");
        }
        bail!("{variable} is needed; with --offline nothing is tested")
    }
}

fn line(prompt: &str) -> anyhow::Result<String> {
    print!("{prompt}");
    io::stdout().flush().context("the terminal")?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer).context("the answer cannot be read")?;
    ensure!(read > 0, "the input has ended: answer, or write --yes for the defaults");
    Ok(answer.trim().to_owned())
}
