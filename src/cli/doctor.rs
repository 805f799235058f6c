//! `offhook doctor`: what is wrong with an installation, and what to do about it.

use super::serve;
use clap::Args;
use offhook::{
    config::{self, Config},
    doctor::{self, Extent, Finding, Grade},
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};
use tokio_util::sync::CancellationToken;

#[derive(Args)]
pub struct DoctorArguments {
    /// The configuration file.
    #[arg(long, value_name = "FILE", default_value_os_t = super::default_file())]
    config: PathBuf,
    /// Ask nobody but Asterisk and this machine: no providers, no MCP servers, no mail server.
    #[arg(long)]
    offline: bool,
    /// The findings as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &DoctorArguments) -> ExitCode {
    let (config, mut findings) = read(&arguments.config);
    let extent = Extent { offline: arguments.offline };
    serve::block_on(async {
        if let Some(config) = config {
            let mut stop = match serve::Stop::new() {
                Ok(stop) => stop,
                Err(error) => {
                    eprintln!("offhook doctor: {error}");
                    return ExitCode::from(3);
                }
            };
            let token = CancellationToken::new();
            let mut examining = std::pin::pin!(doctor::examine(&config, extent, &token));
            tokio::select! {
                found = &mut examining => findings.extend(found),
                () = stop.asked() => {
                    token.cancel();
                    examining.await;
                    eprintln!("offhook doctor: stopped; what was begun is cleared away");
                    return ExitCode::from(3);
                }
            }
        }
        match arguments.json {
            true => println!("{:#}", json!({ "ok": healthy(&findings), "findings": findings })),
            false => print!("{}", told(&findings)),
        }
        if healthy(&findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })
}

/// The configuration if there is one, and what `offhook check` says of it.
fn read(file: &Path) -> (Option<Config>, Vec<Finding>) {
    const AREA: &str = "config";
    let problem = |found: &config::Problem| {
        let remedy = match (found.message.ends_with("is not set"), found.line) {
            (true, _) => "export it in this shell; what a file of variables has, by `set -a; . FILE; set +a`",
            (false, 0) => "without a configuration nothing else is looked at",
            (false, _) => "correct this line; docs/configuration.md describes every key",
        };
        Finding::problem(AREA, found.to_string(), remedy)
    };
    let warning = |says: String| Finding::warning(AREA, says, "see that line");
    let config = match serve::load(file) {
        Ok(config) => config,
        Err(problems) => return (None, problems.iter().map(problem).collect()),
    };
    let mut findings: Vec<Finding> = config.warnings.iter().map(|found| warning(found.to_string())).collect();
    match offhook::engine::check(config.clone()) {
        Ok(warnings) => {
            findings.extend(warnings.iter().map(|found| warning(found.to_string())));
            let (contexts, providers) = (config.contexts.len(), config.providers.len());
            let (contexts, providers) = (super::counted(contexts, "context"), super::counted(providers, "provider"));
            let says = format!("{}: no mistakes ({contexts}, {providers}), and all variables are set", file.display());
            findings.insert(0, Finding::ok(AREA, says));
            (Some(config), findings)
        }
        Err(problems) => {
            findings.extend(problems.iter().map(problem));
            (None, findings)
        }
    }
}

pub fn healthy(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.grade != Grade::Problem)
}

/// One line for each, and the remedy below it.
pub fn lines(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { area, grade, says, remedy } in findings {
        text += &format!("{:<8} {area:<9} {says}\n", grade.label());
        if let Some(remedy) = remedy {
            text += &format!("{:18} → {remedy}\n", "");
        }
    }
    text
}

/// The same with a last line that sums up.
pub fn told(findings: &[Finding]) -> String {
    let mut text = lines(findings);
    let count = |grade| findings.iter().filter(|finding| finding.grade == grade).count();
    let (problems, warnings) = (count(Grade::Problem), count(Grade::Warning));
    text += &match (problems, warnings) {
        (0, 0) => "\nAll is well.\n".to_owned(),
        (0, warnings) => format!("\nNo problems, {}.\n", super::counted(warnings, "warning")),
        (problems, warnings) => {
            format!("\n{}, {}.\n", super::counted(problems, "problem"), super::counted(warnings, "warning"))
        }
    };
    text
}
