//! `offhook run`: an engine until a signal.

use clap::Args;
use offhook::{
    config::{self, Config},
    engine::{Engine, Order, Source},
    http::Accounts,
    telemetry::{self, LogFormat, Metrics},
};
use std::{
    future::Future,
    io::IsTerminal as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};
use tracing::warn;

/// At the end, for threads that read or write files: what has to be written is written by then, and one that hangs with a mount would
/// keep the process for ever.
const THREADS_MAX: Duration = Duration::from_secs(2);
/// Signals that wait to be read; each is a keystroke or an operator's command.
const ORDERS_MAX: usize = 16;

#[derive(Args)]
pub struct RunArguments {
    /// The configuration file.
    #[arg(long, value_name = "FILE", default_value_os_t = super::default_file())]
    config: PathBuf,
    /// Lines for people, or JSON for a log store.
    #[arg(long, value_name = "text|json", default_value = "text")]
    log_format: LogFormat,
    /// What is logged, in tracing's filter syntax.
    #[arg(long, value_name = "FILTER", default_value = "info", env = "OFFHOOK_LOG")]
    log: String,
}

pub fn run(arguments: &RunArguments) -> ExitCode {
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    if let Err(error) = telemetry::init(arguments.log_format, &arguments.log, metrics.log_lines_suppressed()) {
        eprintln!("offhook: --log: {error}");
        return ExitCode::from(2);
    }
    let config = match load(&arguments.config) {
        Ok(config) => config,
        Err(problems) => {
            eprintln!("{problems}");
            return ExitCode::FAILURE;
        }
    };
    block_on(async {
        match serve(&arguments.config, config, metrics).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("offhook: {error:#}");
                ExitCode::from(3)
            }
        }
    })
}

async fn serve(file: &Path, config: Config, metrics: Metrics) -> anyhow::Result<()> {
    let mut reload = signal(SignalKind::hangup())?;
    let mut stop = Stop::new()?;
    let (page, accounts) = (config.http.bind, config.http.accounts.clone());
    // Before calls are taken: whoever waits until they are has it above.
    welcome(&accounts, page);
    let engine = start(Source::File(file.to_owned()), config, metrics).await?;
    let (order, orders) = mpsc::channel(ORDERS_MAX);
    let told = async {
        loop {
            let next = tokio::select! {
                _ = reload.recv() => Order::Reload,
                () = stop.asked() => Order::Stop,
            };
            // It is full only where the same was ordered just before.
            let _ = order.try_send(next);
        }
    };
    tokio::select! {
        () = engine.serve(orders) => {}
        () = told => {}
    }
    Ok(())
}

/// Makes the first account where there is none, and tells its password here, once: to a terminal, since what is printed
/// elsewhere becomes a log.
pub fn welcome(accounts: &Path, page: std::net::SocketAddr) {
    let book = Accounts::new(accounts);
    if !std::io::stdout().is_terminal() {
        if book.list().is_ok_and(|all| all.is_empty()) {
            warn!("nobody can log in to the page yet; make an account: {}", book.command("add NAME --role admin"));
        }
        return;
    }
    match book.first() {
        Ok(None) => println!("\nThe page is at http://{page}/. Without a password for it: {}\n", book.rescue()),
        Ok(Some(password)) => println!(
            "\nThe page is at http://{page}/ and nobody has an account there yet. Log in as\n\n    name      admin\n    \
             password  {password}\n\nThis is told once. Another one: {}\n",
            book.rescue()
        ),
        // Calls are more important than the page.
        Err(error) => eprintln!("offhook: nobody can log in to the page yet: {error}"),
    }
}

pub async fn start(source: Source, config: Config, metrics: Metrics) -> anyhow::Result<Engine> {
    Engine::start(source, config, metrics).await.map_err(|error| {
        let taken = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
        };
        if error.chain().any(taken) { anyhow::anyhow!("{error:#}; is another offhook running?") } else { error }
    })
}

/// SIGTERM, and Ctrl-C in a terminal.
pub struct Stop {
    term: Signal,
    int: Signal,
}

impl Stop {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

pub fn load(file: &Path) -> Result<Config, config::Problems> {
    config::load(file, &offhook::engine::environment, offhook::provider::catalog())
}

pub fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            runtime.shutdown_timeout(THREADS_MAX);
            code
        }
        Err(error) => {
            eprintln!("offhook: cannot start the runtime: {error}");
            ExitCode::from(3)
        }
    }
}
