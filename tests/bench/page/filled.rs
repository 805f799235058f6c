//! Tools and MCP servers, so that their pages have something to show.

use super::super::{
    process::beside,
    system::{Extra, System},
};
use anyhow::Context as _;
use serde_json::json;
use std::{fs, path::Path, time::Duration};
use tokio::time::{Instant, sleep};

/// Declarative ones; those of the servers come on top.
const TOOLS: usize = 50;
const SERVERS: usize = 5;
/// Programs of our own: what they take to start is little.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the engine is configured with.
pub const EXTRA: Extra = Extra {
    context: "",
    turns: None,
    more: "records: { directory: records }
tenants: { bench: { tools: tools, trusted: true } }
mcp:
  servers:
    first: { command: [phonebook, --database, first.db], defaults: { access: public_read } }
    second: { command: [phonebook, --database, second.db], defaults: { access: public_read } }
    third: { command: [phonebook, --database, third.db], defaults: { access: public_read } }
    fourth: { command: [phonebook, --database, fourth.db], defaults: { access: public_read } }
    fifth: { command: [phonebook, --database, fifth.db], defaults: { access: public_read } }
",
};

/// The tools' files, beside the configuration.
pub fn write(folder: &Path) -> anyhow::Result<()> {
    beside("phonebook")?;
    let folder = folder.join("tools");
    fs::create_dir_all(&folder)?;
    for index in 0..TOOLS {
        let tool = json!({
            "name": format!("answer_{index:02}"),
            "description": "Tells when something is open on a day of the week. Says so in a sentence.",
            "parameters": [
                { "name": "day", "type": "string", "description": "As 2026-11-23.", "required": true },
                { "name": "place", "type": "string", "description": "Which of the houses." },
            ],
            "actions": [
                { "type": "validate", "rules": [
                    { "param": "day", "pattern": "[0-9]{4}-[0-9]{2}-[0-9]{2}", "message": "Which day?" },
                ] },
                { "type": "respond", "message": "On {{params.day}} we are open from nine to six." },
            ],
            "policy": { "access": "public_read", "risk_domain": "public_information" },
        });
        fs::write(folder.join(format!("answer_{index:02}.json")), tool.to_string())?;
    }
    Ok(())
}

/// Until all servers are up, and the pages show them and the tools.
pub async fn wait(system: &System) -> anyhow::Result<()> {
    let until = Instant::now() + START_MAX;
    loop {
        let (servers, tools) = (system.page("mcp").await?, system.page("tools").await?);
        let status: serde_json::Value = serde_json::from_str(&system.page("mcp/status").await?)?;
        let up = status["servers"].as_object().context("no servers")?.values().filter(|one| one["state"] == "up");
        if up.count() == SERVERS {
            let shown = servers.contains("fifth") && tools.contains(&format!("answer_{:02}", TOOLS - 1));
            anyhow::ensure!(shown, "the pages do not show the tools and servers that there are");
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < until, "not all MCP servers are up after {START_MAX:?}: {status}");
        sleep(LOOK_EVERY).await;
    }
}
