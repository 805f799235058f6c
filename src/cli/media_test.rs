//! `offhook media-test`: a test call over each way of carrying audio, and what arrives of it.

use super::serve;
use clap::{Args, ValueEnum};
use offhook::{
    config::Transport,
    doctor::{self, MediaTest, Path, Trial},
};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};
use tokio_util::sync::CancellationToken;

#[derive(Args)]
pub struct MediaTestArguments {
    /// The configuration file.
    #[arg(long, value_name = "FILE", default_value_os_t = super::default_file())]
    config: PathBuf,
    /// This transport alone, whether a context uses it or not.
    #[arg(long, value_name = "NAME")]
    transport: Option<Name>,
    /// The outcome as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    #[value(name = "audiosocket")]
    AudioSocket,
    Rtp,
    #[value(name = "websocket")]
    WebSocket,
}

impl From<Name> for Transport {
    fn from(name: Name) -> Self {
        match name {
            Name::AudioSocket => Self::AudioSocket,
            Name::Rtp => Self::Rtp,
            Name::WebSocket => Self::WebSocket,
        }
    }
}

pub fn run(arguments: &MediaTestArguments) -> ExitCode {
    let config = match serve::load(&arguments.config) {
        Ok(config) => config,
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            return ExitCode::FAILURE;
        }
    };
    serve::block_on(async {
        let mut stop = match serve::Stop::new() {
            Ok(stop) => stop,
            Err(error) => {
                eprintln!("offhook media-test: {error}");
                return ExitCode::from(3);
            }
        };
        let token = CancellationToken::new();
        let only = arguments.transport.map(Transport::from);
        let mut testing = std::pin::pin!(doctor::media_test(&config, only, &token));
        let test = tokio::select! {
            test = &mut testing => test,
            () = stop.asked() => {
                token.cancel();
                testing.await;
                eprintln!("offhook media-test: stopped; what was begun is cleared away");
                return ExitCode::from(3);
            }
        };
        let passed = test.passed();
        match arguments.json {
            true => println!("{:#}", json!({ "ok": passed, "calls": test.trials, "findings": test.findings })),
            false => print!("{}", told(&test)),
        }
        if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })
}

/// A verdict for each transport, its two directions and its remedy below it.
fn told(test: &MediaTest) -> String {
    let mut text = super::doctor::lines(&test.findings);
    for Trial { audio, grade, says, remedy, from_caller, to_caller, configured } in &test.trials {
        let says = says.strip_prefix(audio.as_str()).map_or(says.as_str(), |says| says.trim_start_matches(": "));
        let unused = if *configured { "" } else { " (no context uses it)" };
        text += &format!("{:<8} {audio:<18} {says}{unused}\n", grade.label());
        for (way, path) in [("caller → offhook", from_caller), ("offhook → caller", to_caller)] {
            text += &path.as_ref().map_or_else(String::new, |path| format!("{:27} {way}  {}\n", "", figures(path)));
        }
        if let Some(remedy) = remedy {
            text += &format!("{:27} → {remedy}\n", "");
        }
    }
    text + if test.passed() { "\nThe audio paths work.\n" } else { "\nCalls will not be heard.\n" }
}

fn figures(path: &Path) -> String {
    let delay = path.delay_ms.map_or_else(|| "     not heard".to_owned(), |delay| format!("delay {delay:5.1} ms"));
    let level = path
        .level_dbov
        .map_or_else(String::new, |level| format!("   level {level:5.1} dBov (sent {:.1})", path.sent_dbov));
    format!("{delay}   loss {:5.1} %{level}", path.loss_percent)
}
