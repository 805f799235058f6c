//! Arguments → configuration → engine → exit code; nothing more.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
