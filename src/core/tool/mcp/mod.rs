//! Tools of MCP servers, as far as they can be known without speaking to one: what they are called, what is told of
//! them to a model, and what their results mean. Everything a server says is untrusted text.
//!
//! - `names`: from what a server calls a tool to what a model calls it
//! - `offer`: from a server's description of a tool to a [`ToolSpec`](super::ToolSpec)
//! - `schema`: from the schema of its arguments to one that can be trusted
//! - `speech`: from a result to the sentence that is spoken
//! - `kept`: from a result to the data that a model may read
//! - `text`: from text of a server to text without what cannot be seen

mod kept;
mod names;
mod offer;
mod schema;
mod speech;
#[cfg(test)]
mod tests;
mod text;

pub use names::{Exposed, NAME_BYTES_MAX, exposed, is_exposable, snake};
pub use offer::{Hints, Offered, classify};
pub use schema::conforms;
pub use speech::{FETCHED, first_text, outcome};

use super::india::Canonical;
use std::time::Duration;

/// What an operator says of one tool of a server: an entry of `mcp.servers.ID.tools`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpToolRules {
    /// The exposed name, instead of the one that is made of server and tool.
    pub expose_as: Option<String>,
    /// Instead of the server's own words.
    pub description: Option<String>,
    pub speech: Speech,
    /// A failure that the tool tells may pass by itself.
    pub error_retryable: bool,
    /// Of a result the model gets the first text alone, as VAM/1.0 has it (V24).
    pub first_text: bool,
    /// What is known of it from elsewhere than its server: a tool of the India tool registry.
    pub canonical: Option<&'static Canonical>,
}

/// How a result becomes a sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Speech {
    /// A dotted path into the JSON of the result.
    pub field: Option<String>,
    /// With `{dotted.path}` placeholders from the same JSON; goes before the field.
    pub template: Option<String>,
}

/// What an operator says of all tools of a server: `mcp.servers.ID.defaults`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpDefaults {
    pub timeout: Duration,
    /// What the tools touch, for the contract gate. Without it they do not run until each is classified.
    pub access: Option<crate::gate::Category>,
    pub risk_domain: Option<crate::gate::RiskDomain>,
}
