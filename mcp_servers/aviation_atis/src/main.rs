//! An MCP server that speaks aerodrome information (ATIS) made from METARs of met.no. See README.md.

mod config;
mod phraseology;
mod report;
mod server;
mod source;
mod weather;

use anyhow::{Context, anyhow};
use clap::Parser;
use config::{ConfigFile, Setting};
use jiff::Timestamp;
use rmcp::ServiceExt;
use std::{io, path::PathBuf, process::ExitCode, sync::Arc};
use tracing_subscriber::EnvFilter;

/// Speaks MCP on stdin and stdout, logs to stderr, and ends when stdin is closed.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The aerodromes and how to speak about them (YAML); read again when it changes
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Read DIR/ENGM.metar instead of fetching
    #[arg(long, value_name = "DIR")]
    offline: Option<PathBuf>,
    /// Take this as the present time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// Name of the application and a contact, as met.no asks for
    #[arg(long, env = "METNO_USER_AGENT", value_name = "TEXT")]
    user_agent: Option<String>,
    /// How long a report is fresh
    #[arg(long, env = "METNO_CACHE_TTL_SECONDS", value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u32).range(0..=3600))]
    cache_ttl: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // What is wrong and nothing else, also where backtraces are on.
            eprintln!("aviation_atis: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,aviation_atis=info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false).init();
    rustls::crypto::ring::default_provider().install_default().map_err(|_| anyhow!("a TLS library was set before"))?;

    let arguments = Arguments::parse();
    let setting = Setting {
        offline: arguments.offline,
        user_agent: arguments.user_agent.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()),
        now: arguments.now,
        cache_ttl_seconds: arguments.cache_ttl,
    };
    let source = source::Source::new(&setting).map_err(|why| anyhow!(why))?;
    let config = ConfigFile::open(&arguments.config, setting)
        .map_err(|problems| anyhow!("{}:\n  {}", arguments.config.display(), problems.join("\n  ")))?;
    let server = server::AtisServer::new(Arc::new(config), source);
    let running = server.serve(rmcp::transport::stdio()).await.context("no MCP client on stdin")?;
    running.waiting().await?;
    Ok(())
}
