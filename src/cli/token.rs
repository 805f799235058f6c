//! Tokens by which programs ask the engine.

use super::account::AccountsFile;
use clap::{Args, Subcommand};
use offhook::http::Role;
use std::process::ExitCode;

#[derive(Args)]
pub struct TokenArguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    file: AccountsFile,
}

#[derive(Subcommand)]
enum Action {
    /// Each token's name, its role, when it was made, and by which account; `-` for those made here.
    List,
    /// Make a token for a program; it is told once, and only its hash is kept.
    Add {
        name: String,
        /// viewer: figures of calls; operator: also words and numbers, and may end calls; admin: everything.
        #[arg(long)]
        role: Role,
    },
    /// Take a token back: whoever shows it is refused.
    Remove { name: String },
}

pub fn run(arguments: &TokenArguments) -> ExitCode {
    super::account::exit(act(arguments))
}

fn act(TokenArguments { action, file }: &TokenArguments) -> anyhow::Result<()> {
    let accounts = file.open()?;
    match action {
        Action::List => {
            for token in accounts.tokens()? {
                println!(
                    "{:<24}  {:<8}  {}  {}",
                    token.name,
                    token.role.label(),
                    token.made.strftime("%Y-%m-%d %H:%M UTC"),
                    token.by.as_deref().unwrap_or("-"),
                );
            }
        }
        Action::Add { name, role } => {
            let token = accounts.add_token(name, *role, None)?;
            println!("{name} may ask as {role}; the token, told once:\n{token}");
        }
        Action::Remove { name } => {
            accounts.remove_token(name)?;
            println!("{name} is refused from now on");
        }
    }
    Ok(())
}
