//! An MCP server on standard input and output that tells who a telephone number belongs to.
//!
//! `book` has the thread that owns the SQLite file (`store`), `server` the tools, `number` the one form
//! of telephone numbers, `import` the way in from a spreadsheet.

mod book;
mod import;
mod number;
mod server;
mod store;
mod text;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use number::DiallingPlan;
use rmcp::{ServiceExt as _, service::ServerInitializeError};
use std::{fs, io::Read as _, path::PathBuf, process::ExitCode};
use store::Store;

/// Tells MCP clients who a telephone number belongs to
///
/// Speaks MCP on standard input and output until the input is closed.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The SQLite file; made when it is missing
    #[arg(long, value_name = "FILE", env = "PHONEBOOK_DATABASE")]
    database: PathBuf,
    /// Country code of numbers that are written without one, such as 49
    #[arg(long, value_name = "DIGITS", value_parser = country_code, global = true)]
    country_prefix: Option<String>,
    /// What is dialled before a country code
    #[arg(long, value_name = "DIGITS", value_parser = prefix, default_value = "00", global = true)]
    international_prefix: String,
    /// What is dialled before an area code: 1 in North America, "" in Italy and Spain
    #[arg(long, value_name = "DIGITS", value_parser = trunk_prefix, default_value = "0", global = true)]
    trunk_prefix: String,
    /// Offer the tools that change the book: add_contact, set_note
    #[arg(long)]
    writable: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Take contacts from a CSV file; all of them or, when a line is bad, none
    Import {
        /// Columns number and name, and company, note, vip where known
        file: PathBuf,
    },
}

fn digits(text: &str, most: usize) -> Result<String, String> {
    let good = text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit());
    if good { Ok(text.to_owned()) } else { Err(format!("at most {most} digits, without +")) }
}

fn prefix(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("at least one digit".into()) } else { digits(text, 4) }
}

fn trunk_prefix(text: &str) -> Result<String, String> {
    digits(text, 2)
}

fn country_code(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('0') { Err("a country code such as 49".into()) } else { digits(text, 3) }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("phonebook: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let plan = DiallingPlan {
        country: arguments.country_prefix,
        international: arguments.international_prefix,
        trunk: arguments.trunk_prefix,
    };
    let importing = arguments.command.is_some();
    let store = Store::open(&arguments.database, arguments.writable || importing)?;
    match arguments.command {
        Some(Command::Import { file }) => import(store, &file, &plan),
        None => {
            eprintln!("phonebook: {} contacts in {}", store.count()?, arguments.database.display());
            serve(server::Phonebook::new(book::Book::start(store)?, plan, arguments.writable))
        }
    }
}

fn import(mut store: Store, file: &PathBuf, plan: &DiallingPlan) -> Result<()> {
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).and_then(|opened| opened.take(import::BYTES_MAX + 1).read_to_end(&mut bytes));
    opened.with_context(|| file.display().to_string())?;
    if bytes.len() as u64 > import::BYTES_MAX {
        bail!("{}: more than {} MiB; import it in parts", file.display(), import::BYTES_MAX >> 20);
    }
    match import::read(&bytes, plan) {
        Ok(entries) => {
            let store::Imported { added, changed, as_before } = store.import(entries)?;
            println!("{added} added, {changed} changed, {as_before} as before");
            Ok(())
        }
        Err(problems) => bail!("{}: nothing was imported\n  {}", file.display(), problems.join("\n  ")),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn serve(server: server::Phonebook) -> Result<()> {
    match server.serve(rmcp::transport::stdio()).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // The client went before it began.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
            bail!("the client's first message is no initialize")
        }
        Err(error) => Err(error).context("no MCP client"),
    }
}
