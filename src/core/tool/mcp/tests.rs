//! What is said of MCP tools in `ARCHITECTURE.md` and `docs/mcp.md`, as far as no server is needed to see it.

use super::*;
use crate::{
    gate::{Category, RiskDomain},
    tool::{Done, Executor, Failure, SideEffects, ToolError, ToolKind, ToolOutcome, ToolSpec, prune::Arguments},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

mod names;
mod offers;
mod properties;
mod results;

fn defaults() -> McpDefaults {
    McpDefaults { timeout: Duration::from_secs(10), access: None, risk_domain: None }
}
