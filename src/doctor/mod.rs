//! What is wrong with an installation, found before a caller does: every check is a small async function that returns
//! findings, each with a sentence and, where something is wrong, a remedy.
//!
//! Invariants: nothing is changed, and nothing is left behind; an engine that runs keeps its calls, its application and its
//! ports; no finding shows a secret; every check has a time limit, and all of them together end within a minute.

mod addresses;
mod agents;
mod calls;
mod machine;
mod media;
mod pbx;
mod services;

pub use media::{MediaTest, Path, TRIED, Trial, media_test};
pub use pbx::place_of_ari;

use crate::config::Config;
use serde::Serialize;
use std::{future::Future, time::Duration};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The longest are Asterisk with its test calls, and a slow MCP server. Names are looked up before, which takes seconds at
/// the worst.
const AREA_MAX: Duration = Duration::from_secs(45);
/// An engine on this machine answers at once.
const ENGINE_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    Ok,
    /// Calls may work; somebody should look.
    Warning,
    /// Calls, or something that was configured, will not work.
    Problem,
}

impl Grade {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub area: &'static str,
    pub grade: Grade,
    pub says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    pub fn ok(area: &'static str, says: impl Into<String>) -> Self {
        Self { area, grade: Grade::Ok, says: says.into(), remedy: None }
    }

    pub fn warning(area: &'static str, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { area, grade: Grade::Warning, says: says.into(), remedy: Some(remedy.into()) }
    }

    pub fn problem(area: &'static str, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { area, grade: Grade::Problem, says: says.into(), remedy: Some(remedy.into()) }
    }

    /// The same where nothing that is configured depends on it.
    fn mild(self) -> Self {
        Self { grade: self.grade.min(Grade::Warning), ..self }
    }
}

/// What may be asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extent {
    /// Nobody but Asterisk and this machine.
    pub offline: bool,
}

/// Looks at everything a configuration names. With `stop`, what is under way is cleared away and the rest is left out.
pub async fn examine(config: &Config, extent: Extent, stop: &CancellationToken) -> Vec<Finding> {
    let running = engine_runs(config).await;
    let online = !extent.offline;
    let outside = async {
        match online {
            false => Vec::new(),
            true => {
                let (agents, services) = tokio::join!(
                    bounded("provider", "the providers", Box::pin(agents::examine(config))),
                    bounded("service", "the services", Box::pin(services::examine(config))),
                );
                [agents, services].concat()
            }
        }
    };
    let near = async {
        let machine = bounded("machine", "this machine", machine::examine(config)).await;
        // Before the test calls, which listen at the same addresses.
        let addresses = bounded("address", "the addresses", addresses::examine(config, running)).await;
        let pbx = bounded("asterisk", "Asterisk", asterisk(config, running, stop)).await;
        (machine, addresses, pbx)
    };
    let outside = async { stop.run_until_cancelled(outside).await.unwrap_or_default() };
    let ((machine, addresses, pbx), outside) = tokio::join!(near, outside);
    [machine, addresses, pbx, outside].concat()
}

/// Asterisk itself, and calls through it if it is there.
async fn asterisk(config: &Config, running: bool, stop: &CancellationToken) -> Vec<Finding> {
    let Some(asterisk) = &config.asterisk else {
        return vec![Finding::ok(
            "asterisk",
            "there is no section asterisk: calls come by AudioSocket() alone, untested",
        )];
    };
    let (mut findings, modules) = Box::pin(pbx::examine(config, asterisk, running)).await;
    if let Some(modules) = modules {
        findings.extend(Box::pin(calls::examine(config, asterisk, &modules, stop)).await);
    }
    findings
}

async fn bounded(area: &'static str, what: &str, work: impl Future<Output = Vec<Finding>>) -> Vec<Finding> {
    timeout(AREA_MAX, work).await.unwrap_or_else(|_| {
        let says = format!("{what} could not be looked at within {} s", AREA_MAX.as_secs());
        vec![Finding::problem(area, says, "see which of them takes so long: nothing here should")]
    })
}

/// Whether an engine answers where this configuration has its pages.
async fn engine_runs(config: &Config) -> bool {
    let mut address = config.http.bind;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    let Ok(client) = crate::remote::http::client() else { return false };
    let asked = async {
        let answer = client.get(format!("http://{address}/live")).send().await.ok()?;
        answer.json::<serde_json::Value>().await.ok()
    };
    let answer = timeout(ENGINE_MAX, asked).await.ok().flatten();
    answer.is_some_and(|answer| answer["live"] == true)
}
