//! A tool as an admin defined it, read and checked.

use super::{
    address::Address,
    condition::Condition,
    template::{Template, ValueTemplate},
    transform::Transform,
    validate::Rule,
};
use crate::gate::{AuthState, Category as Access, RiskDomain};
use crate::tool::{
    Modes, SideEffects, ToolKind, UnknownArgs,
    memory::{Path, Target},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Of all actions of a tool, branches and both endings included. There are no loops, so no run has
/// more (D14).
pub const ACTIONS_MAX: usize = 64;
/// Of `conditional` in `conditional`.
pub const BRANCH_DEPTH_MAX: usize = 4;
/// Of a definition as JSON, roughly.
pub const DEFINITION_BYTES_MAX: usize = 128 * 1024;

/// A tool that is data (D1–D8). Made by [`Definition::read`] alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) actions: Vec<Action>,
    pub(super) on_success: Vec<Action>,
    pub(super) on_failure: Vec<Action>,
    pub(super) policy: Policy,
    pub(super) surroundings: Arc<Surroundings>,
    /// Paths whose values may go out in an `api_call` only.
    pub(super) secrets: Vec<Path>,
}

/// What a definition is checked against, and what its runs use of the tenant's settings.
#[derive(Clone, PartialEq, Default)]
pub struct Surroundings {
    /// Named endpoints for `webhook` and `{{tenant.settings.endpoints.<name>}}`.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// The tenant's contexts, to which a call can be handed over.
    pub contexts: BTreeSet<String>,
    /// `host` or `host:port`: a template may form an address there, and a private one may be reached.
    pub allowed_hosts: Vec<String>,
    /// What `message_key` finds: key → language → text, which is a template.
    pub messages: BTreeMap<String, BTreeMap<String, String>>,
    /// Where `user.language` does not say: a tag such as `en` or `en-GB`.
    pub language: String,
    /// Keys handed on with the call when a handoff names none.
    pub shared_context: Vec<String>,
    /// Secret besides `user.auth_token`.
    pub secrets: Vec<Path>,
    /// Tools may write `user.…`.
    pub user_writable: bool,
    /// The operator vouches for whoever writes the tenant's definitions: their `policy` may ask for less than follows
    /// from the actions.
    pub trusted: bool,
    /// Of all requests of one run together; `None`: [`VOICE_TIMEOUT_CAP`].
    pub voice_timeout_cap: Option<Duration>,
}

/// Longer, and a caller takes the line for dead.
pub const VOICE_TIMEOUT_CAP: Duration = Duration::from_secs(8);

/// An endpoint of the tenant's settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoint {
    /// Complete; `{name}` in it is a parameter, `{user_id}` is `user.id`.
    pub url: String,
    pub method: Option<Method>,
}

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DefinitionProblem {
    /// `actions[2].url`; empty for the definition as a whole.
    pub path: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) required: bool,
    /// Empty: anything of the type.
    pub(super) choices: Vec<Value>,
    pub(super) description: Option<String>,
    pub(super) default: Option<Value>,
    /// Of an array.
    pub(super) items: Option<Kind>,
}

/// Types of JSON as a parameter names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    Integer,
    Number,
    Boolean,
    Array,
    Object,
}

/// The twelve (D9).
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    ContextSet(Vec<(Target, ValueTemplate)>),
    ContextGet { paths: Vec<Path>, into: Option<Target> },
    ContextDelete(Vec<Target>),
    ApiCall(Box<ApiCall>),
    Handoff(Handoff),
    Respond { words: Words, immediate: bool },
    FlagSet { flag: Target, value: ValueTemplate },
    FlagClear { flag: Target },
    Conditional { condition: Condition, then: Vec<Action>, otherwise: Vec<Action> },
    Validate(Vec<Rule>),
    Transform(Box<Transform>),
    Log { level: Level, message: Template },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ApiCall {
    pub(super) address: Address,
    pub(super) method: Method,
    pub(super) body: ValueTemplate,
    pub(super) headers: Vec<(String, Template)>,
    /// Of one attempt.
    pub(super) timeout: Duration,
    /// Attempts after the first.
    pub(super) retry_count: u32,
    pub(super) retry_delay: Duration,
    pub(super) goes_on: bool,
    pub(super) response_path: Option<Target>,
    pub(super) allow: bool,
    /// Its number among the tool's actions: two calls of one run are two things to do.
    pub(super) ordinal: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Handoff {
    pub(super) target: Template,
    pub(super) message: Option<Template>,
    pub(super) context_passed: Option<Vec<String>>,
    pub(super) allow: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Words {
    Message(Template),
    /// By language tag.
    Key {
        key: String,
        texts: BTreeMap<String, Template>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

/// Policy that an admin states; `None`: derived from the actions.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Policy {
    pub(super) category: Option<ToolKind>,
    pub(super) side_effects: Option<SideEffects>,
    pub(super) access: Option<Access>,
    pub(super) risk_domain: Option<RiskDomain>,
    pub(super) idempotent: Option<bool>,
    pub(super) requires_confirmation: Option<bool>,
    pub(super) standing_approval: Option<bool>,
    pub(super) confirm_template: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) latency_budget: Option<Duration>,
    pub(super) wait: Option<bool>,
    pub(super) modes: Option<Modes>,
    pub(super) secret_args: Vec<String>,
    pub(super) authenticates: Option<AuthState>,
    pub(super) unknown_args: Option<UnknownArgs>,
    pub(super) version: Option<String>,
}

impl Definition {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn description(&self) -> &str {
        &self.description
    }

    /// Every action, branches and endings included, in the order they are written.
    pub(super) fn every_action(&self) -> Vec<&Action> {
        fn gather<'a>(actions: &'a [Action], found: &mut Vec<&'a Action>) {
            for action in actions {
                found.push(action);
                if let Action::Conditional { then, otherwise, .. } = action {
                    gather(then, found);
                    gather(otherwise, found);
                }
            }
        }
        let mut found = Vec::new();
        [&self.actions, &self.on_success, &self.on_failure].into_iter().for_each(|list| gather(list, &mut found));
        found
    }
}

impl Action {
    pub(super) const TYPES: [&str; 12] = [
        "context.set",
        "context.get",
        "context.delete",
        "api_call",
        "handoff",
        "respond",
        "flag.set",
        "flag.clear",
        "conditional",
        "validate",
        "transform",
        "log",
    ];

    /// Everything it reads.
    pub(super) fn paths<'a>(&'a self, found: &mut Vec<&'a Path>) {
        match self {
            Self::ContextSet(entries) => entries.iter().for_each(|(_, value)| value.paths(found)),
            Self::ContextGet { paths, .. } => found.extend(paths),
            Self::ContextDelete(_) | Self::FlagClear { .. } => {}
            Self::ApiCall(call) => {
                call.address.paths(found);
                call.headers.iter().for_each(|(_, value)| value.paths(found));
                call.body.paths(found);
            }
            Self::Handoff(handoff) => {
                handoff.target.paths(found);
                handoff.message.iter().for_each(|message| message.paths(found));
            }
            Self::Respond { words: Words::Message(message), .. } | Self::Log { message, .. } => message.paths(found),
            Self::Respond { words: Words::Key { texts, .. }, .. } => {
                texts.values().for_each(|text| text.paths(found));
            }
            Self::FlagSet { value, .. } => value.paths(found),
            Self::Conditional { condition, .. } => condition.compared(found),
            Self::Validate(rules) => found.extend(rules.iter().map(|rule| &rule.path)),
            Self::Transform(transform) => transform.source.paths(found),
        }
    }

    pub(super) const fn label(&self) -> &'static str {
        match self {
            Self::ContextSet(_) => "context.set",
            Self::ContextGet { .. } => "context.get",
            Self::ContextDelete(_) => "context.delete",
            Self::ApiCall(_) => "api_call",
            Self::Handoff(_) => "handoff",
            Self::Respond { .. } => "respond",
            Self::FlagSet { .. } => "flag.set",
            Self::FlagClear { .. } => "flag.clear",
            Self::Conditional { .. } => "conditional",
            Self::Validate(_) => "validate",
            Self::Transform(_) => "transform",
            Self::Log { .. } => "log",
        }
    }
}

impl Kind {
    pub(super) const ALL: [(&str, Self); 6] = [
        ("string", Self::String),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("boolean", Self::Boolean),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    pub(super) fn label(self) -> &'static str {
        label(&Self::ALL, self)
    }

    /// As JSON Schema has it: `5.0` is an integer.
    pub(super) fn fits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Integer => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

impl Method {
    pub(super) const ALL: [(&str, Self); 6] = [
        ("GET", Self::Get),
        ("HEAD", Self::Head),
        ("POST", Self::Post),
        ("PUT", Self::Put),
        ("PATCH", Self::Patch),
        ("DELETE", Self::Delete),
    ];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, method)| method)
    }

    pub fn label(self) -> &'static str {
        label(&Self::ALL, self)
    }

    /// Has no body and changes nothing at the other side.
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

impl Level {
    pub(super) const ALL: [(&str, Self); 4] =
        [("debug", Self::Debug), ("info", Self::Info), ("warn", Self::Warn), ("error", Self::Error)];

    pub fn label(self) -> &'static str {
        label(&Self::ALL, self)
    }
}

/// The name of a value in a table of all of them.
pub(super) fn label<T: PartialEq>(all: &[(&'static str, T)], value: T) -> &'static str {
    all.iter().find(|(_, other)| *other == value).map_or("", |(name, _)| name)
}

/// Settings of a tenant may hold anything.
impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Surroundings(***)")
    }
}
