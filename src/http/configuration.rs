//! What the page and the API need of whoever keeps the configuration file.

use super::view::ReloadReport;
use crate::config::Problem;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// The longest text that is taken: a thousand contexts with prompts of a page each are below it, and checking it takes a
/// moment of one core.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

pub type Told<T> = BoxFuture<'static, Result<T, ConfigurationError>>;

/// The configuration file, as it may be seen and changed over HTTP.
pub trait Configurations: Send + Sync + 'static {
    fn read(&self) -> Told<Configuration>;
    /// What `offhook check` would say of this text. Nothing is kept and nothing is started.
    fn check(&self, text: String) -> Told<Verdict>;
    /// Makes a text the configuration, for calls to come, or changes nothing. It runs to its end even if the asker leaves.
    fn publish(&self, draft: Draft) -> Told<Published>;
    /// The JSON Schema of a configuration, for editors.
    fn schema(&self) -> Arc<str>;
    /// The newest first.
    fn versions(&self) -> Told<Vec<Version>>;
    fn version(&self, id: String) -> Told<KeptVersion>;
}

/// The file, and how it stands to what runs.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
pub struct Configuration {
    /// `None`: the configuration is part of the program.
    pub file: Option<String>,
    pub text: String,
    /// Of the text: another one after every change, whoever made it.
    pub version: String,
    /// The generation that new calls have.
    pub generation: u64,
    /// This text is what new calls have.
    pub running: bool,
    /// Why it cannot be changed here; `None`: it can.
    pub read_only: Option<String>,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What is to be said of a text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(default)]
pub struct Verdict {
    /// All that is wrong with it, by line; such a text is not published.
    pub problems: Vec<Problem>,
    /// What is right, and probably not meant.
    pub warnings: Vec<Problem>,
    /// From what runs to this text, as `diff -u` writes it; empty where they are the same.
    pub difference: String,
}

/// A text that somebody wants published.
#[derive(Clone)]
pub struct Draft {
    pub text: String,
    /// The version that it was made of.
    pub based_on: String,
    /// The account.
    pub by: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Published {
    /// Of the file now.
    pub version: String,
    #[serde(flatten)]
    pub report: ReloadReport,
}

/// A text that was published, or that was found in the file when another one was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Version {
    pub id: String,
    pub at: Timestamp,
    /// The account; `None`: somebody changed the file itself.
    pub by: Option<String>,
    /// It is what the file holds now.
    pub current: bool,
}

#[derive(Clone, PartialEq, Serialize, JsonSchema)]
pub struct KeptVersion {
    #[serde(flatten)]
    pub head: Version,
    pub text: String,
    /// From what runs to this text.
    pub difference: String,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigurationError {
    #[error("{}", changed(by.as_deref(), *at))]
    Changed { version: String, by: Option<String>, at: Option<Timestamp> },
    #[error("the text has problems; nothing was changed")]
    Invalid(Verdict),
    #[error("the configuration cannot be changed here: {0}")]
    ReadOnly(String),
    #[error("the text is longer than {} KiB", TEXT_BYTES_MAX >> 10)]
    TooLong,
    #[error("other texts are being checked; ask again in a moment")]
    Busy,
    #[error("there is no such version")]
    Unknown,
    #[error("{0}")]
    Storage(String),
}

fn changed(by: Option<&str>, at: Option<Timestamp>) -> String {
    let who = by.unwrap_or("somebody");
    let when = at.map(|at| format!(" at {}", at.strftime("%Y-%m-%d %H:%M:%SZ"))).unwrap_or_default();
    format!("the configuration has changed meanwhile: {who} changed it{when}; nothing was written")
}
