//! `offhook gate`: the gate before a tool runs, as a service of its own, as an MCP server, or over a file.

use super::serve::{Stop, block_on};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use offhook::{
    gate::{self, AuditMeta, Decision, Gate, Mode, Settings},
    http,
};
use serde_json::Value;
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// One event, or one message of MCP. Above the service's limit on bodies, since nobody unknown writes here.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// How long the last audit records may take to reach the file at the end.
const AUDIT_END_MAX: Duration = Duration::from_secs(5);

#[derive(Args)]
#[group(skip)]
pub struct GateArguments {
    #[command(flatten)]
    entry: Entry,
    /// Append one line of JSON per decision to this file; no argument's value is in it.
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    audit: Option<PathBuf>,
    /// `contract` is never looser than the reference implementation; `reference` decides exactly as that does.
    #[arg(long, value_name = "contract|reference", default_value = "contract")]
    settings: Reading,
    /// With --check: the strict gate instead of the public check.
    #[arg(long, requires = "check")]
    strict: bool,
    /// With --check: the time that ages of evidence are measured at, for results that can be repeated.
    #[arg(long, value_name = "RFC3339", requires = "check")]
    now: Option<Timestamp>,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Entry {
    /// Answer over HTTP at this address, as 127.0.0.1:8766. Tokens and limits come from the environment.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Answer as an MCP server, on standard input and output.
    #[arg(long)]
    mcp: bool,
    /// Decide over every event of a file, one per line, or of standard input as `-`; one answer per line.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Reading {
    Contract,
    Reference,
}

pub fn run(arguments: &GateArguments) -> ExitCode {
    let settings = match arguments.settings {
        Reading::Contract => Settings::default(),
        Reading::Reference => Settings::reference(),
    };
    let gate = Gate::new(settings);
    let result = match (&arguments.entry.check, arguments.entry.http) {
        (Some(file), _) => check(&gate, file, arguments),
        (None, Some(address)) => {
            return block_on(async { ended(serve(gate, address, arguments.audit.as_deref()).await) });
        }
        (None, None) => return block_on(async { ended(mcp(&gate, arguments.audit.as_deref()).await) }),
    };
    ended(result)
}

fn ended(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("offhook gate: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn check(gate: &Gate, file: &Path, arguments: &GateArguments) -> anyhow::Result<()> {
    let input: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(file).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?)
    };
    let mut input = BufReader::new(input);
    let mut output = io::BufWriter::new(io::stdout().lock());
    while let Some(line) = next_line(&mut input)? {
        let event = match line {
            Line::Text(text) if text.trim().is_empty() => continue,
            Line::Text(text) => serde_json::from_str::<Value>(&text).map_err(|error| format!("no JSON: {error}")),
            Line::TooLong => Err(too_long()),
        };
        let now = arguments.now.unwrap_or_else(Timestamp::now);
        let decision = match event {
            Ok(event) if arguments.strict => gate.gate(&event, now),
            Ok(event) => gate.check(&event, now),
            Err(why) => Decision::unreadable(&why),
        };
        writeln!(output, "{}", decision.to_json())?;
    }
    output.flush()?;
    Ok(())
}

fn too_long() -> String {
    format!("longer than {LINE_BYTES_MAX} bytes")
}

enum Line {
    Text(String),
    TooLong,
}

/// The next line, whatever its bytes are; none at the end.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let read = input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') || (read as u64) <= LINE_BYTES_MAX {
        return Ok(Some(Line::Text(String::from_utf8_lossy(&line).into_owned())));
    }
    input.skip_until(b'\n')?;
    Ok(Some(Line::TooLong))
}

async fn serve(gate: Gate, address: SocketAddr, audit: Option<&Path>) -> anyhow::Result<()> {
    let options = http::gate::Options::from_environment(&offhook::engine::environment)?;
    if options.has_no_token() {
        eprintln!("offhook gate: AANA_BRIDGE_TOKEN is not set: every check will be answered with 401");
    }
    let audit = audit.map(http::gate::AuditFile::open).transpose()?;
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .map_err(|error| anyhow::anyhow!("cannot listen on {address}: {error}"))?;
    eprintln!("offhook gate: listening on http://{}", listener.local_addr()?);
    let mut stop = Stop::new()?;
    let router = http::gate::router(gate, options, audit.as_ref().map(http::gate::AuditFile::writer));
    http::serve(listener, router, async move { stop.asked().await }).await?;
    end_audit(audit).await;
    Ok(())
}

async fn end_audit(audit: Option<http::gate::AuditFile>) {
    let Some(audit) = audit else { return };
    let dropped = audit.end(AUDIT_END_MAX).await;
    if dropped > 0 {
        eprintln!("offhook gate: {dropped} audit records were not written");
    }
}

/// Reads and answers message by message: a decision takes microseconds, so nothing waits on another.
async fn mcp(gate: &Gate, audit: Option<&Path>) -> anyhow::Result<()> {
    let audit = audit.map(http::gate::AuditFile::open).transpose()?;
    let writer = audit.as_ref().map(http::gate::AuditFile::writer);
    let gate = gate.clone();
    let mut stop = Stop::new()?;
    let (done, finished) = tokio::sync::oneshot::channel();
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing can interrupt a read from standard input, for which the runtime would wait"
    )]
    std::thread::spawn(move || {
        // Nobody listens any more only if a signal ended the program.
        let _ = done.send(converse(&gate, writer.as_ref()));
    });
    let result = tokio::select! {
        result = finished => result.unwrap_or_else(|_| Err(io::Error::other("the conversation broke off"))),
        () = stop.asked() => Ok(()),
    };
    end_audit(audit).await;
    match result {
        // The host has gone; that is how conversations end.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn converse(gate: &Gate, audit: Option<&http::gate::AuditWriter>) -> io::Result<()> {
    let mut input = BufReader::new(io::stdin().lock());
    let mut output = io::stdout().lock();
    while let Some(line) = next_line(&mut input)? {
        let message = match line {
            Line::Text(text) if text.trim().is_empty() => continue,
            Line::Text(text) => serde_json::from_str::<Value>(&text).map_err(|error| format!("no JSON: {error}")),
            Line::TooLong => Err(too_long()),
        };
        let started = tokio::time::Instant::now();
        let now = Timestamp::now();
        let answer = match message {
            Ok(message) => gate::mcp::answer(gate, &message, now),
            Err(why) => gate::mcp::Answer { message: Some(gate::mcp::unreadable(&why)), decided: None },
        };
        if let (Some(audit), Some((event, decision))) = (audit, answer.decided) {
            let latency_ms = Some(started.elapsed().as_secs_f64() * 1_000.0);
            let (surface, route, mode) = ("mcp", gate::mcp::TOOL, Mode::Enforce);
            let meta = AuditMeta { created_at: now, surface, route, latency_ms, mode };
            audit.append(&gate::stored_record(&event, &decision, &meta));
        }
        if let Some(message) = answer.message {
            writeln!(output, "{message}")?;
            output.flush()?;
        }
    }
    Ok(())
}
