//! How tool calls are held, as it is written: the section `policy`, for all contexts and for one.

use super::{raw::DurationText, values};
use crate::tool::policy::ConfirmRules;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    /// How many tools the agent may use before the caller is heard again.
    pub budgets: Option<Budgets>,
    /// How a caller confirms what the agent is about to do.
    pub confirm: Option<Confirm>,
    /// What becomes of a wish that needs a person: `explain` (the agent says so), `take_message`
    /// (it offers to), `say: SENTENCE`, or `transfer: NAME`, one of `destinations`.
    #[schemars(extend("default" = "explain"))]
    pub on_defer: Option<DeferStep>,
    /// `full`: the model is told every error type. `policy_only`: `TIMEOUT`, `DEFERRED` and `REFUSED`
    /// are told as `TRANSIENT` and `PERMANENT`.
    #[schemars(extend("default" = "full"))]
    pub error_types: Option<ErrorTypes>,
    /// What of a result goes to the model: the whole `envelope`, or its `data` (or `error`) alone.
    #[schemars(extend("default" = "envelope"))]
    pub tool_result: Option<ResultShape>,
    /// Bytes of a result that the model is told; a longer one loses its data first, but for flags, then
    /// the end of its message. Where the provider carries less, that counts. Without it: what the
    /// provider carries, or 16384.
    #[schemars(range(min = 256, max = 1_048_576))]
    pub max_result_bytes: Option<usize>,
    /// Whether the model is told the `data` of a result. With `false` it is told the message, a short
    /// `status` and top-level booleans, whatever `tool_result` says. Without it: as the provider bears it.
    pub forward_data: Option<bool>,
    /// The contract gate.
    pub gate: Option<Gate>,
    /// How a caller can be identified.
    pub identify: Option<Identify>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Budgets {
    /// Calls of tools that look something up.
    #[schemars(range(max = 100), extend("default" = 2))]
    pub retrieval: Option<u32>,
    /// Calls of any tool.
    #[schemars(range(max = 100), extend("default" = 3))]
    pub total: Option<u32>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Confirm {
    /// The key that means yes, in quotes.
    #[schemars(regex(pattern = "^[0-9*#]$"), extend("default" = "1", "title" = "one key, in quotes"))]
    pub yes_key: Option<String>,
    /// The key that means no, in quotes.
    #[schemars(regex(pattern = "^[0-9*#]$"), extend("default" = "2", "title" = "one key, in quotes"))]
    pub no_key: Option<String>,
    /// Whether a spoken yes counts as well as a key.
    #[schemars(extend("default" = true))]
    pub voice: Option<bool>,
    /// The voice that asks the caller. `engine`: the voice of the engine's own sentences, in exactly these words;
    /// where there is none, or the caller talks over it, the agent puts it, and a yes counts only if it was said word for word.
    /// `agent`: the agent, in words of its own; a yes counts if the numbers and names of the question were said.
    #[schemars(extend("default" = "engine"))]
    pub asked_by: Option<Asker>,
    /// Whether a yes counts only after the agent was heard to say what the question is about. It
    /// is compared with the transcript of the agent, where the provider gives one.
    #[schemars(extend("default" = true))]
    pub read_back: Option<bool>,
    /// How long a question stays open.
    #[schemars(extend("default" = values::duration_text(ConfirmRules::default().expires)))]
    pub expires: Option<DurationText>,
    /// Words and phrases that mean yes, instead of the built-in ones of ten languages.
    #[schemars(length(min = 1))]
    pub yes: Option<Vec<String>>,
    /// Words and phrases that mean no.
    #[schemars(length(min = 1))]
    pub no: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(super) enum Asker {
    Engine,
    Agent,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Gate {
    /// What raises the authorization that evidence supports: its `kinds` alone, or also words in it,
    /// as the contract's reference implementation does (`reference`).
    #[schemars(extend("default" = "kinds"))]
    pub evidence: Option<Evidence>,
    /// Evidence older than this is stale; at most 168h.
    #[schemars(extend("default" = "168h"))]
    pub evidence_age: Option<DurationText>,
    /// Another gate that is asked as well; the stricter answer counts. No answer is a refusal.
    pub remote: Option<RemoteGate>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoteGate {
    /// Its address, such as `http://127.0.0.1:8766/pre-tool-check`.
    #[schemars(required, length(min = 1))]
    pub url: Option<String>,
    /// Its bearer token. Write a variable, not the token itself.
    pub token: Option<String>,
    /// How long its answer is waited for.
    #[schemars(extend("default" = "500ms"))]
    pub timeout: Option<DurationText>,
    /// Whether it decides alone, instead of beside the built-in gate.
    #[schemars(extend("default" = false))]
    pub alone: Option<bool>,
    /// Where it is, and all that it passes on, on your word, for VAM sessions with a `data_residency`. Without it no tool
    /// runs in those, unless `url` has an address of this machine, such as 127.0.0.1.
    #[schemars(extend("enum" = crate::facts::Residency::LABELS))]
    pub residency: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Identify {
    /// The channel variable that holds the caller's PIN, for the tool `verify_pin`. The dialplan
    /// looks it up; offhook compares it with what the caller types and shows it to nobody.
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]{0,79}$"), extend("title" = "a name of a channel variable"))]
    pub pin_variable: Option<String>,
    /// Contexts of the dialplan whose `AI_AUTHORIZATION` (`authenticated` or `validated`) is
    /// believed. From anywhere else it is ignored.
    #[schemars(extend("default" = json!([])))]
    pub trusted_contexts: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(super) enum ErrorTypes {
    Full,
    PolicyOnly,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(super) enum ResultShape {
    Envelope,
    Data,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(super) enum Evidence {
    Kinds,
    Reference,
}

/// `explain`, `take_message`, `{say: …}` or `{transfer: NAME}`; any value, since a part may have been
/// cut out.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct DeferStep(pub Value);

impl JsonSchema for DeferStep {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DeferStep".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = |key: &str| {
            json!({
                "type": "object",
                "properties": { key: { "type": "string", "minLength": 1 } },
                "required": [key],
                "additionalProperties": false,
            })
        };
        schemars::json_schema!({
            "title": "explain, take_message, say: SENTENCE or transfer: NAME",
            "anyOf": [{ "type": "string", "enum": ["explain", "take_message"] }, one("say"), one("transfer")],
        })
    }
}

/// What the operator says of one tool, whoever made it. What is left out stays as the tool has it.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolRules {
    /// What the tool touches, for the contract gate: `public_read`, `private_read`, `write` or
    /// `unknown` (never runs).
    #[schemars(extend("enum" = crate::gate::Category::LABELS))]
    pub access: Option<String>,
    /// The field of risk, for the contract gate.
    #[schemars(extend("enum" = crate::gate::RiskDomain::LABELS))]
    pub risk_domain: Option<String>,
    /// How it counts in a turn's budget.
    #[schemars(extend("enum" = ["retrieval", "action", "utility"]))]
    pub kind: Option<String>,
    /// Whether the caller has to say yes to each call of it.
    pub requires_confirmation: Option<bool>,
    /// Whether you approve of its calls once and for all: low harm, such as hanging up.
    pub standing_approval: Option<bool>,
    /// What the caller is asked, with `{argument}` in it.
    #[schemars(length(min = 1))]
    pub confirm: Option<String>,
    /// What the caller has to be shown to be: `user_claimed`, `authenticated` or `validated`.
    #[schemars(extend("enum" = ["none", "user_claimed", "authenticated", "validated"]))]
    pub requires_authorization: Option<String>,
    /// What a success shows the caller to be: `authenticated` or `validated`.
    #[schemars(extend("enum" = ["authenticated", "validated"]))]
    pub authenticates: Option<String>,
    /// After this the model is told `TIMEOUT`. `limits.tool` of the context holds as well.
    pub timeout: Option<DurationText>,
    /// Slower than this is warned of and marked in the audit line. Without it: 800ms for a `retrieval`, 3s for an
    /// `action`, 1s for a `utility`, or what the tool's author says.
    pub latency_budget: Option<DurationText>,
    /// Arguments that are never said, shown or logged.
    pub secret_args: Option<Vec<String>>,
    /// What becomes of arguments that the schema does not know: `drop` or `reject`.
    #[schemars(extend("enum" = ["drop", "reject"]))]
    pub unknown_args: Option<String>,
    /// Where all that it sends stays, on your word, for VAM sessions with a `data_residency`. Without it, a tool that sends
    /// what it is given elsewhere does not run in those: one that makes requests, one of an MCP server by `http`, one that
    /// sends mail. Of action servers their registration says it.
    #[schemars(extend("enum" = crate::facts::Residency::LABELS))]
    pub residency: Option<String>,
    /// Whether the model waits for what comes of it. With `false` it is answered at once and speaks on; the outcome is in the
    /// audit line alone.
    pub wait: Option<bool>,
}

pub(super) type ToolsRules = BTreeMap<String, ToolRules>;
