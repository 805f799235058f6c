//! The four metrics of the MCP integration, under the names that its document gives them.

use crate::telemetry::Definition;
use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec, Registry};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

const CALLS: Definition = Definition::labelled(
    "ai_agent_mcp_tool_calls_total",
    &["server", "tool", "status"],
    "Calls of tools of MCP servers, by what became of them; `tool` is the server's own name of it.",
);
const LATENCY: Definition = Definition::labelled(
    "ai_agent_mcp_tool_latency_seconds",
    &["server", "tool"],
    "What calls that were made took, in seconds.",
);
const RESTARTS: Definition = Definition::labelled(
    "ai_agent_mcp_server_restarts_total",
    &["server"],
    "Starts of an MCP server after it ended by itself or could not be reached.",
);
const UP: Definition =
    Definition::labelled("ai_agent_mcp_server_up", &["server"], "Whether the MCP server can be asked: 1 or 0.");

const BUCKETS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0];
/// Tools of one server that are told apart in the life of the process; what comes later is `other`. A server that renames
/// its tools all day fills no memory, and takes no room from others.
const TOLD_APART_MAX: usize = 256;
/// Of a tool's name, in a label.
const NAME_CHARS_MAX: usize = 64;
const OTHER: &str = "other";

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    Ok,
    /// The tool said that it failed, or the server answered with an error.
    Error,
    Timeout,
    /// It was not made: the policy, or the context's list.
    Rejected,
    /// The server was not there, or went away.
    Unavailable,
    /// The telephone call ended first.
    Cancelled,
}

impl CallEnd {
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::Error, Self::Timeout, Self::Rejected, Self::Unavailable, Self::Cancelled];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Rejected => "rejected",
            Self::Unavailable => "unavailable",
            Self::Cancelled => "cancelled",
        }
    }
}

pub struct McpCounters {
    calls: IntCounterVec,
    latency: HistogramVec,
    restarts: IntCounterVec,
    up: IntGaugeVec,
    tools: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

impl McpCounters {
    pub fn new(registry: &Registry) -> Self {
        Self {
            calls: CALLS.register_counters(registry),
            latency: LATENCY.register_histograms(registry, &BUCKETS),
            restarts: RESTARTS.register_counters(registry),
            up: UP.register_int_gauges(registry),
            tools: Mutex::default(),
        }
    }

    /// Makes the metrics of a server, at zero.
    pub fn know_server(&self, server: &str) {
        self.restarts.with_label_values(&[server]);
        self.up.with_label_values(&[server]);
    }

    /// Takes the metrics of a server away: others come and go, and their names would fill the memory.
    pub fn forget_server(&self, server: &str) {
        // What was never made is not there to be taken.
        let _ = (self.restarts.remove_label_values(&[server]), self.up.remove_label_values(&[server]));
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner).remove(server);
        for tool in tools.iter().flatten().map(String::as_str).chain([OTHER]) {
            for end in CallEnd::ALL {
                let _ = self.calls.remove_label_values(&[server, tool, end.label()]);
            }
            let _ = self.latency.remove_label_values(&[server, tool]);
        }
    }

    /// Makes the metrics of a tool, at zero.
    pub fn know_tool(&self, server: &str, tool: &str) {
        let tool = self.tool(server, tool);
        for end in CallEnd::ALL {
            self.calls.with_label_values(&[server, &tool, end.label()]);
        }
        self.latency.with_label_values(&[server, &tool]);
    }

    pub fn call(&self, server: &str, tool: &str, end: CallEnd, took: Option<Duration>) {
        let tool = self.tool(server, tool);
        self.calls.with_label_values(&[server, &tool, end.label()]).inc();
        if let Some(took) = took {
            self.latency.with_label_values(&[server, &tool]).observe(took.as_secs_f64());
        }
    }

    pub fn restarted(&self, server: &str) {
        self.restarts.with_label_values(&[server]).inc();
    }

    pub fn up(&self, server: &str, up: bool) {
        self.up.with_label_values(&[server]).set(up.into());
    }

    /// The label of a tool: its name, as long as there is room.
    fn tool(&self, server: &str, tool: &str) -> String {
        let name: String = tool.chars().take(NAME_CHARS_MAX).collect();
        let mut servers = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let known = servers.entry(server.to_owned()).or_default();
        if !known.contains(&name) {
            if known.len() >= TOLD_APART_MAX {
                return OTHER.to_owned();
            }
            known.insert(name.clone());
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(registry: &Registry) -> String {
        prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    /// M40, M answer 8: the names and labels that the document gives.
    #[test]
    fn the_four_metrics_have_the_names_of_the_document() {
        let registry = Registry::new();
        let counters = McpCounters::new(&registry);
        counters.know_server("time");
        counters.know_tool("time", "get_current_time");
        counters.call("time", "get_current_time", CallEnd::Ok, Some(Duration::from_millis(60)));
        counters.call("time", "get_current_time", CallEnd::Rejected, None);
        counters.restarted("time");
        counters.up("time", true);
        let text = text(&registry);
        for line in [
            "ai_agent_mcp_tool_calls_total{server=\"time\",status=\"ok\",tool=\"get_current_time\"} 1",
            "ai_agent_mcp_tool_calls_total{server=\"time\",status=\"rejected\",tool=\"get_current_time\"} 1",
            "ai_agent_mcp_tool_calls_total{server=\"time\",status=\"timeout\",tool=\"get_current_time\"} 0",
            "ai_agent_mcp_tool_latency_seconds_bucket{server=\"time\",tool=\"get_current_time\",le=\"0.1\"} 1",
            "ai_agent_mcp_tool_latency_seconds_count{server=\"time\",tool=\"get_current_time\"} 1",
            "ai_agent_mcp_server_restarts_total{server=\"time\"} 1",
            "ai_agent_mcp_server_up{server=\"time\"} 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_server_that_renames_its_tools_all_day_fills_no_memory() {
        let registry = Registry::new();
        let counters = McpCounters::new(&registry);
        for index in 0..2 * TOLD_APART_MAX {
            counters.call("odd", &format!("tool_{index}"), CallEnd::Ok, None);
        }
        let text = text(&registry);
        assert_eq!(
            text.lines().filter(|line| line.starts_with("ai_agent_mcp_tool_calls_total")).count(),
            TOLD_APART_MAX + 1
        );
        assert!(text.contains(&format!("tool=\"other\"}} {TOLD_APART_MAX}")), "the rest is counted together");
    }
}
