//! The command line.

// Before the others, which print by its macros.
#[macro_use]
mod output;

mod account;
mod caller;
mod calls;
mod demo;
mod doctor;
mod gate;
mod init;
mod media_test;
mod serve;
mod speech;
mod token;
mod transcript;

use clap::{Parser, Subcommand};
use offhook::config::{self, Config};
use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// offhook answers telephone calls: Asterisk carries the call, an AI agent speaks.
///
/// offhook attaches to Asterisk (ARI for control; AudioSocket, RTP or a WebSocket for the audio) and puts an agent
/// on the line. Agents are described as contexts in one YAML file; the dialplan picks one with the
/// channel variable AI_CONTEXT.
#[derive(Parser)]
#[command(name = "offhook", version, after_long_help = MANUAL)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const MANUAL: &str = "\
FIRST STEPS
  offhook demo                      watch an agent work: no Asterisk, no key
  offhook init                      a configuration of your own, tested while it is made
  offhook doctor --config FILE      what is wrong with the installation; places test calls, leaves nothing behind
  offhook media-test --config FILE  is a caller heard over each audio path, how soon, and how well
  offhook check FILE                every mistake of a configuration at once, each with its line
  offhook run --config FILE         take calls
  offhook account list              who may log in to the page
  offhook token list                programs that may ask, each by a token with a role
  offhook calls, offhook call ID    what is kept of calls that ended (section records)
  offhook gate --check FILE         may these tools run? (also --http ADDR, --mcp; see docs/gate.md)

SIGNALS (run)
  SIGHUP            load the configuration again; new calls use it, running calls keep theirs.
                    A broken file changes nothing and says why.
  SIGTERM, SIGINT   drain: decline new calls, let running ones finish (limits.drain), then stop.
                    A second one ends at once.

PAGES (run), on 127.0.0.1:15000 unless http.bind says otherwise
  /               calls as they happen, and those that have ended; `offhook account` says who may log in
  /api/v1/…       the same for programs: /api/v1/openapi.json
  /live           200 while the process answers
  /ready          200 when calls can be taken, else 503 with what is missing
  /metrics        for Prometheus
  /reload         POST: as SIGHUP, with the problems in the answer
  /mcp/status     MCP servers: up, starting or down, why, and their tools
  /mcp/test/{id}  POST: starts another instance of one, tells its tools, and ends it

EXIT CODES
  0  all well
  1  the configuration or the installation has problems
  2  wrong arguments, or init could not write
  3  the engine could not start, a command was stopped, or the demo's caller was not understood
";

/// The configuration that `offhook init` has written here, or the one that comes with the project.
fn default_file() -> PathBuf {
    let written = Path::new("offhook.yaml");
    if written.is_file() { written.into() } else { "config/offhook.yaml".into() }
}

#[derive(Subcommand)]
enum Command {
    /// Take calls until told to stop.
    Run(serve::RunArguments),
    /// A whole call with a synthetic caller and an agent that listens: no Asterisk, no key.
    Demo(demo::DemoArguments),
    /// Read a configuration and report every problem, each as FILE:LINE with a suggestion.
    Check {
        /// The configuration file.
        #[arg(value_name = "FILE", default_value_os_t = default_file())]
        file: PathBuf,
        /// The same, written as for `run`.
        #[arg(long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
    },
    /// Ask a few questions, test the answers, and write a configuration and the dialplan that goes with it.
    Init(init::InitArguments),
    /// What is wrong with an installation, from Asterisk's modules to a test call, and what to do about it.
    Doctor(doctor::DoctorArguments),
    /// A test call over each way of carrying audio: verdict, delay, loss and level each way, and what to do about a fault.
    MediaTest(media_test::MediaTestArguments),
    /// May this tool run? The gate of Agent Action Contract v1 as a service, as an MCP server, or over a file.
    Gate(gate::GateArguments),
    /// Records of ended calls, the newest first: a table, CSV, or JSON.
    Calls(calls::CallsArguments),
    /// What is kept of one call: what was said, which tools ran, why it ended.
    Call(calls::CallArguments),
    /// Who may log in to the page.
    Account(account::AccountArguments),
    /// Which programs may ask the page and its API, by tokens with roles.
    Token(token::TokenArguments),
    /// Print the JSON Schema of the configuration, for editors.
    Schema,
}

pub fn run() -> ExitCode {
    // Installed once, before anything can dial.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("offhook: a TLS provider was installed before the program began");
        return ExitCode::from(3);
    }
    match Arguments::parse().command {
        Command::Run(arguments) => serve::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Init(arguments) => init::run(arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::MediaTest(arguments) => media_test::run(&arguments),
        Command::Gate(arguments) => gate::run(&arguments),
        Command::Check { file, config } => check(&config.unwrap_or(file)),
        Command::Calls(arguments) => calls::calls(&arguments),
        Command::Call(arguments) => calls::call(&arguments),
        Command::Account(arguments) => account::run(&arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Schema => {
            // Whoever reads it may have seen enough.
            let _ = std::io::stdout().write_all(config::schema_text(offhook::provider::catalog()).as_bytes());
            ExitCode::SUCCESS
        }
    }
}

/// A place that a configuration names, for commands that need none of its secrets: variables that are not set do not keep them from
/// it, unless the place itself is made of one.
fn place_in(file: &Path, place: impl Fn(Config) -> Option<PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    const UNSET: &str = "variable-that-is-not-set";
    let load = |env: config::Env<'_>| config::load(file, env, offhook::provider::catalog()).map(&place);
    load(&offhook::engine::environment).or_else(|problems| {
        let known = |name: &str| offhook::engine::environment(name).or_else(|| Some(UNSET.to_owned()));
        let is_known =
            |place: &Option<PathBuf>| place.as_ref().is_none_or(|place| !place.to_string_lossy().contains(UNSET));
        load(&known).ok().filter(is_known).ok_or_else(|| anyhow::anyhow!("{problems}"))
    })
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn check(file: &std::path::Path) -> ExitCode {
    match config::load(file, &offhook::engine::environment, offhook::provider::catalog()) {
        Ok(config) => {
            for warning in &config.warnings {
                eprintln!("warning: {warning}");
            }
            let contexts = counted(config.contexts.len(), "context");
            let providers = counted(config.providers.len(), "provider");
            match offhook::engine::check(config) {
                Ok(warnings) => warnings.iter().for_each(|warning| eprintln!("warning: {warning}")),
                Err(problems) => {
                    problems.iter().for_each(|problem| eprintln!("{problem}"));
                    return ExitCode::FAILURE;
                }
            }
            println!("{}: no problems ({contexts}, {providers})", file.display());
            ExitCode::SUCCESS
        }
        Err(problems) => {
            eprintln!("{problems}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// The parser looks at a command when somebody types it, and only in a debug build.
    #[test]
    fn every_command_can_be_typed() {
        Arguments::command().debug_assert();
    }
}
