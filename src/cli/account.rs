//! Who may log in to the page.

use super::{default_file, place_in};
use clap::{Args, Subcommand};
use offhook::http::{Accounts, Role, random_password};
use std::{io, path::PathBuf, process::ExitCode};

#[derive(Args)]
pub struct AccountArguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    file: AccountsFile,
}

/// Where accounts and tokens are kept.
#[derive(Args)]
pub struct AccountsFile {
    /// The configuration, whose http.accounts says where the file is.
    #[arg(long, global = true, value_name = "FILE", default_value_os_t = default_file())]
    config: PathBuf,
    /// The file itself, where the configuration cannot be read here.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "config")]
    accounts: Option<PathBuf>,
}

impl AccountsFile {
    pub fn open(&self) -> anyhow::Result<Accounts> {
        let file = match &self.accounts {
            Some(file) => file.clone(),
            None => {
                let found = place_in(&self.config, |config| Some(config.http.accounts));
                let without = "(--accounts FILE does without the configuration)";
                found.map_err(|problems| anyhow::anyhow!("{problems}\n{without}"))?.unwrap_or_default()
            }
        };
        Ok(Accounts::new(&file))
    }
}

#[derive(Subcommand)]
enum Action {
    /// Everybody's name and role.
    List,
    /// Make an account.
    Add {
        name: String,
        /// viewer: figures of calls; operator: also words and numbers, and may end calls; admin: everything.
        #[arg(long)]
        role: Role,
        #[command(flatten)]
        password: NewPassword,
    },
    /// Give an account another password, which logs it out everywhere.
    Password {
        name: String,
        #[command(flatten)]
        password: NewPassword,
    },
    /// Give an account another role, which logs it out everywhere.
    Role { name: String, role: Role },
    /// Delete an account, which logs it out everywhere.
    Remove { name: String },
}

#[derive(Args)]
struct NewPassword {
    /// Read the password from standard input; without this, a random one is made and told.
    #[arg(long)]
    stdin: bool,
}

pub fn run(arguments: &AccountArguments) -> ExitCode {
    exit(act(arguments))
}

pub fn exit(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("offhook: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn act(arguments: &AccountArguments) -> anyhow::Result<()> {
    let accounts = arguments.file.open()?;
    match &arguments.action {
        Action::List => {
            let all = accounts.list()?;
            all.iter().for_each(|(name, role)| println!("{name:<24}  {role}"));
            if all.is_empty() {
                let first = accounts.command("add admin --role admin");
                eprintln!(
                    "{} has no accounts; `offhook run` in a terminal makes the first one, and so does `{first}`",
                    accounts.path().display()
                );
            }
        }
        Action::Add { name, role, password } => {
            let (password, told) = password.get()?;
            accounts.add(name, *role, &password)?;
            println!("{name} may log in as {role}{}", tell(told, &password));
        }
        Action::Password { name, password } => {
            let (password, told) = password.get()?;
            accounts.set_password(name, &password)?;
            println!("{name} has another password, and is logged out everywhere{}", tell(told, &password));
            tell_tokens(&accounts, name)?;
        }
        Action::Role { name, role } => {
            accounts.set_role(name, *role)?;
            println!("{name} may log in as {role}, and is logged out everywhere");
            tell_tokens(&accounts, name)?;
        }
        Action::Remove { name } => {
            accounts.remove(name)?;
            println!("{name} cannot log in any more");
            tell_tokens(&accounts, name)?;
        }
    }
    Ok(())
}

impl NewPassword {
    /// The password, and whether it was made here.
    fn get(&self) -> anyhow::Result<(String, bool)> {
        if !self.stdin {
            return Ok((random_password(), true));
        }
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        Ok((line.trim_end_matches(['\n', '\r']).to_owned(), false))
    }
}

/// Names the tokens that an account made, which stay good whatever becomes of it.
fn tell_tokens(accounts: &Accounts, account: &str) -> anyhow::Result<()> {
    let tokens: Vec<_> = accounts.tokens()?.into_iter().filter(|token| token.by.as_deref() == Some(account)).collect();
    if !tokens.is_empty() {
        println!("\nTokens that {account} made are still good. These commands revoke them:");
    }
    for token in tokens {
        println!("  {}   # {}", accounts.revocation(&token.name), token.role);
    }
    Ok(())
}

fn tell(made: bool, password: &str) -> String {
    if made { format!("; the password, told once:\n{password}") } else { String::new() }
}
