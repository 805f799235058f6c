//! What is known of a tool before it is called.

use crate::{
    facts::Residency,
    gate::{AuthState, Category as Access, RiskDomain},
};
use serde_json::Value;
use std::time::Duration;

/// A tool as it is shown to the model and as it is checked. [`ToolSpec::new`] gives the careful
/// defaults; who knows better says so field by field.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The exposed name: `[a-z0-9_]`, at most 64 characters.
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, in the subset every provider carries.
    pub parameters: Value,
    /// Of this tool, for the audit line.
    pub version: String,
    /// What it is counted as in a turn's budget.
    pub kind: ToolKind,
    pub side_effects: SideEffects,
    /// Running it twice does what running it once does.
    pub idempotent: bool,
    /// What the contract gate takes it for.
    pub access: Access,
    pub risk_domain: RiskDomain,
    pub modes: Modes,
    /// The caller has to say yes to these very arguments first.
    pub requires_confirmation: bool,
    /// The operator approves of this write once and for all: low harm, such as hanging up.
    pub standing_approval: bool,
    /// What the caller is asked, with `{argument}` in it; `None`: name and arguments.
    pub confirm_template: Option<String>,
    pub unknown_args: UnknownArgs,
    /// Arguments that are never said, shown or logged.
    pub secret_args: Vec<String>,
    /// After this the call is answered with `TIMEOUT`, and what still runs is dropped.
    pub timeout: Duration,
    /// Slower is worth a warning, no more (P19).
    pub latency_budget: Duration,
    /// `false`: the model is answered at once, and the outcome goes to the audit line only.
    pub wait: bool,
    /// What the caller hears while the model waits for a slow run.
    pub announce: Option<Announce>,
    /// The caller has to be shown to be at least this, whatever else holds.
    pub requires_authorization: AuthState,
    /// A success raises the caller's authorization to this.
    pub authenticates: Option<AuthState>,
    pub executor: Executor,
    /// It sends what it is given away from this machine, and does not itself look where to. An action server is looked at
    /// when it is asked.
    pub sends: bool,
    /// Where everything that it sends stays, on the operator's word. `None`: nobody said.
    pub residency: Option<Residency>,
}

/// A sentence for a caller who would otherwise wait in silence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announce {
    /// How long the tool runs, and the caller hears nobody, before it is said.
    pub after: Duration,
    /// Said word for word.
    pub text: String,
}

/// How a tool counts in a turn's budget (P22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolKind {
    Retrieval,
    Action,
    Utility,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SideEffects {
    None,
    ReadOnly,
    Writes,
}

/// Channels a tool may be used on. A telephone call is voice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Modes {
    pub voice: bool,
    pub text: bool,
}

/// How a conversation is held; stored when it begins, never inferred (P8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    #[default]
    Voice,
    Text,
}

/// What becomes of arguments that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UnknownArgs {
    /// Taken out, and their names logged.
    #[default]
    Drop,
    Reject,
}

/// Who runs it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Executor {
    BuiltIn,
    Declarative,
    /// The name of the configured server.
    Mcp(String),
    Vam(String),
}

impl ToolSpec {
    /// A utility without side effects that runs in calls, unclassified for the gate (so it does not
    /// run until somebody classifies it).
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            version: "1.0.0".into(),
            kind: ToolKind::Utility,
            side_effects: SideEffects::None,
            idempotent: false,
            access: Access::Unknown,
            risk_domain: RiskDomain::Unknown,
            modes: Modes { voice: true, text: true },
            requires_confirmation: false,
            standing_approval: false,
            confirm_template: None,
            unknown_args: UnknownArgs::Drop,
            secret_args: Vec::new(),
            timeout: Duration::from_secs(5),
            latency_budget: ToolKind::Utility.latency_target(),
            wait: true,
            announce: None,
            requires_authorization: AuthState::None,
            authenticates: None,
            executor: Executor::BuiltIn,
            sends: false,
            residency: None,
        }
    }

    /// A tool that acts on the call itself, with the operator's standing approval.
    pub fn on_the_call(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            kind: ToolKind::Action,
            side_effects: SideEffects::Writes,
            access: Access::Write,
            risk_domain: RiskDomain::CustomerSupport,
            standing_approval: true,
            latency_budget: ToolKind::Action.latency_target(),
            ..Self::new(name, description, parameters)
        }
    }

    /// Whether what is said under this rule may go where it sends it.
    pub fn may_have(&self, rule: Residency) -> bool {
        !self.sends || stays(self.residency, rule)
    }

    /// Whether callers may be asked before it runs.
    pub fn may_be_asked(&self) -> bool {
        self.requires_confirmation || (self.access == Access::Write && !self.standing_approval)
    }

    /// Arguments that its question to callers cannot tell in words: lists and objects where nobody has written the question, and in
    /// one that is written those that have further parts.
    pub fn unsayable_arguments(&self) -> Vec<&str> {
        let is = |schema: &Value, kind: &str| match &schema["type"] {
            Value::Array(kinds) => kinds.iter().any(|known| known == kind),
            known => known == kind,
        };
        let has_parts = |schema: &Value| is(schema, "object") || is(schema, "array");
        let is_unsayable = |name: &str, schema: &Value| match &self.confirm_template {
            None => has_parts(schema),
            Some(template) => {
                template.contains(&format!("{{{name}}}")) && (is(schema, "object") || has_parts(&schema["items"]))
            }
        };
        let properties = self.parameters["properties"].as_object().into_iter().flatten();
        let shown = properties.filter(|(name, _)| self.may_be_asked() && !self.secret_args.contains(name));
        shown.filter(|(name, schema)| is_unsayable(name, schema)).map(|(name, _)| name.as_str()).collect()
    }

    /// The first sentence of the description, for lists.
    pub fn summary(&self) -> &str {
        let end = self.description.find(". ").map_or(self.description.len(), |at| at + 1);
        &self.description[..end]
    }
}

impl ToolKind {
    /// How long a tool of this kind may take before a caller notices, unless its author says otherwise
    /// (P23: 800 ms for a look-up, one to three seconds for an action).
    pub const fn latency_target(self) -> Duration {
        match self {
            Self::Retrieval => Duration::from_millis(800),
            Self::Action => Duration::from_secs(3),
            Self::Utility => Duration::from_secs(1),
        }
    }

    pub fn parse(label: &str) -> Option<Self> {
        [Self::Retrieval, Self::Action, Self::Utility].into_iter().find(|kind| kind.label() == label)
    }

    pub const fn label(self) -> &'static str {
        match self {
            Self::Retrieval => "retrieval",
            Self::Action => "action",
            Self::Utility => "utility",
        }
    }
}

impl SideEffects {
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ReadOnly => "read_only",
            Self::Writes => "writes",
        }
    }
}

impl Mode {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Voice => "voice",
            Self::Text => "text",
        }
    }
}

impl Modes {
    pub const fn allow(self, mode: Mode) -> bool {
        match mode {
            Mode::Voice => self.voice,
            Mode::Text => self.text,
        }
    }
}

/// Whether what goes to a place of which the operator says this stays where the rule wants it. Without a word it does not.
pub fn stays(residency: Option<Residency>, rule: Residency) -> bool {
    residency.unwrap_or_default() >= rule
}

/// Between the end of an action of VAM and the end of its time in the call core.
pub const ACTION_MARGIN: Duration = Duration::from_millis(50);

impl Executor {
    /// Of a tool's time, so much is for the way back: who runs it has the rest, and that is what was configured.
    pub const fn margin(&self) -> Duration {
        match self {
            Self::Vam(_) => ACTION_MARGIN,
            Self::BuiltIn | Self::Declarative | Self::Mcp(_) => Duration::ZERO,
        }
    }

    pub const fn label(&self) -> &'static str {
        match self {
            Self::BuiltIn => "builtin",
            Self::Declarative => "declarative",
            Self::Mcp(_) => "mcp",
            Self::Vam(_) => "vam",
        }
    }

    /// The server that runs it, where there is one.
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::BuiltIn | Self::Declarative => None,
            Self::Mcp(server) | Self::Vam(server) => Some(server),
        }
    }
}

/// A call as the model made it; nothing in it is trusted.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The provider's own id, echoed byte for byte in the answer.
    pub id: String,
    pub name: String,
    /// The arguments as JSON text, as the model wrote them.
    pub arguments: String,
}

impl ToolCall {
    /// Begins the ids that codecs give to calls without one.
    pub const UNNAMED: &str = "unnamed-";

    /// The provider's own id, if it has given one. A provider without ids lets the name stand in for it.
    pub fn provider_id(&self) -> Option<&str> {
        Some(self.id.as_str()).filter(|id| *id != self.name && !id.starts_with(Self::UNNAMED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V19, V45: every pair of a call's rule and the operator's word about a tool that sends; one that does not is always allowed.
    #[test]
    fn a_tool_that_sends_needs_a_word_as_strict_as_the_rule() {
        use Residency::{Any, IndiaOnly, OnPrem};
        let tool = |sends, residency| {
            let spec =
                ToolSpec { sends, residency, ..ToolSpec::new("a", "A.", serde_json::json!({ "type": "object" })) };
            [Any, IndiaOnly, OnPrem].map(|rule| spec.may_have(rule))
        };
        assert_eq!(tool(true, None), [true, false, false]);
        assert_eq!(tool(true, Some(Any)), [true, false, false]);
        assert_eq!(tool(true, Some(IndiaOnly)), [true, true, false]);
        assert_eq!(tool(true, Some(OnPrem)), [true; 3]);
        assert_eq!(tool(false, None), [true; 3]);
    }

    /// P23: what a tool may take, by its kind, where nobody says otherwise.
    #[test]
    fn each_kind_has_its_latency_target() {
        let object = serde_json::json!({ "type": "object" });
        let ms = |kind: ToolKind| kind.latency_target().as_millis();
        assert_eq!(ms(ToolKind::Retrieval), 800);
        assert!((1_000..=3_000).contains(&ms(ToolKind::Action)));
        let act = ToolSpec::on_the_call("act", "Does something.", object.clone());
        assert_eq!(act.latency_budget, ToolKind::Action.latency_target());
        assert_eq!(ToolSpec::new("a", "A.", object).latency_budget, ToolKind::Utility.latency_target());
    }

    #[test]
    fn lists_and_objects_cannot_be_told_in_a_question_to_callers() {
        let parameters = serde_json::json!({ "type": "object", "properties": {
            "keys": { "type": "object" }, "lines": { "type": "array", "items": { "type": "object" } },
            "name": { "type": "string" }, "place": { "type": "object" },
            "tags": { "type": ["array", "null"], "items": { "type": "string" } },
        }});
        let spec = ToolSpec {
            access: Access::Write,
            secret_args: vec!["keys".into()],
            ..ToolSpec::new("save", "Saves it.", parameters)
        };
        let asks = |template: &str| ToolSpec { confirm_template: Some(template.into()), ..spec.clone() };
        assert_eq!(spec.unsayable_arguments(), ["lines", "place", "tags"]);
        assert_eq!(asks("Save {name} with {tags}?").unsayable_arguments(), [""; 0], "words with commas between them");
        assert_eq!(asks("Save {lines} at {place}?").unsayable_arguments(), ["lines", "place"]);
        assert_eq!(
            ToolSpec { access: Access::PublicRead, ..spec.clone() }.unsayable_arguments(),
            [""; 0],
            "nobody is asked"
        );
        assert_eq!(ToolSpec { standing_approval: true, ..spec }.unsayable_arguments(), [""; 0]);
    }
}
