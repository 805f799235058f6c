//! What the API needs of whoever keeps the tools.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use uuid::Uuid;

pub type Answer<T> = BoxFuture<'static, Result<T, StoreError>>;

/// The declarative tools of all tenants. A tenant sees its own and learns nothing of others.
///
/// A change is complete when its answer is there: it is kept, and new calls have it. It runs to its
/// end even if the asker leaves.
pub trait ToolStore: Send + Sync + 'static {
    /// Whose tools there are.
    fn tenants(&self) -> Vec<String>;
    /// By name.
    fn list(&self, tenant: &str) -> Answer<Vec<StoredTool>>;
    fn get(&self, tenant: &str, name: &str) -> Answer<StoredTool>;
    fn create(&self, tenant: &str, definition: Value) -> Answer<StoredTool>;
    fn replace(&self, tenant: &str, name: &str, definition: Value, seen: Seen) -> Answer<StoredTool>;
    /// `patch` is a merge patch (RFC 7396).
    fn patch(&self, tenant: &str, name: &str, patch: Value, seen: Seen) -> Answer<StoredTool>;
    fn delete(&self, tenant: &str, name: &str, seen: Seen) -> Answer<()>;
    /// Runs the tool outside of any call and gives the trace of its actions.
    fn test(&self, tenant: &str, name: &str, trial: Trial) -> Answer<Value>;
    /// The same with a definition that is not kept. What is masked in it is taken from the kept tool of its name.
    fn try_out(&self, tenant: &str, definition: Value, trial: Trial) -> Answer<Value>;
}

/// One tool, as it may be shown: secrets in its definition are masked.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTool {
    /// The same for the same tenant and name, always.
    pub id: Uuid,
    pub name: String,
    pub description: String,
    pub created_at: Timestamp,
    /// `parameters`, `actions`, `on_success`, `on_failure` and what else the definition has.
    pub config: Map<String, Value>,
    /// Another one after every change.
    pub version: String,
}

/// The versions a change is meant for; against changes that cross each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Whatever is there.
    Any,
    OneOf(Vec<String>),
}

impl Seen {
    pub fn allows(&self, version: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(versions) => versions.iter().any(|seen| seen == version),
        }
    }
}

/// A dry run: what a model and a call would have brought.
#[derive(Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Trial {
    pub params: Map<String, Value>,
    pub user: Map<String, Value>,
    /// External services are really called.
    pub live: bool,
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("live", &self.live).finish_non_exhaustive()
    }
}

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// Where: `actions[1].url`; empty for the whole.
    pub path: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), hint: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    NotFound,
    /// A tool of this name exists, built in or made before.
    Exists,
    /// No tool can be changed now.
    Locked,
    /// The tool has changed since it was seen.
    Changed,
    /// The configuration lists the tool.
    Used,
    /// As many tools as a tenant may have.
    Full,
    Invalid(Vec<Problem>),
    /// The tool's file is not readable as a tool. It can be replaced or deleted.
    Unreadable,
    /// Reading or writing failed; the log says why.
    Storage,
}
