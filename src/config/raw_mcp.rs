//! MCP servers, as they are written: the section `mcp`.

use super::raw::names;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Mcp {
    /// Whether servers are started at all. Without them their tools are missing from every call.
    #[schemars(extend("default" = true))]
    pub enabled: Option<bool>,
    /// The servers by a name of your choice, of at most 40 characters. In the names of tools it stands in lower snake case.
    #[schemars(extend("propertyNames" = names()))]
    pub servers: Option<BTreeMap<String, Server>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    /// Whether this one is started.
    #[schemars(extend("default" = true))]
    pub enabled: Option<bool>,
    /// `stdio`: a program that offhook starts. `http`: a streamable HTTP endpoint somewhere else.
    #[schemars(extend("default" = "stdio", "enum" = ["stdio", "http"]))]
    pub transport: Option<String>,
    /// For `stdio`: the program and its arguments. A program without a slash is looked for in `PATH`, then beside
    /// offhook's own program; with a slash it is relative to this file's folder. No shell reads it: each argument is its own
    /// entry, and neither `~` nor `$NAME` is expanded.
    #[schemars(length(min = 1, max = 256))]
    pub command: Option<Vec<Option<String>>>,
    /// For `stdio`: the folder it runs in, relative to this file's folder. Without it, this file's folder.
    #[schemars(length(min = 1))]
    pub cwd: Option<String>,
    /// For `stdio`: its environment, besides `PATH`, `HOME`, `LANG` and `TZ`. The values are never logged.
    pub env: Option<BTreeMap<String, String>>,
    /// For `http`: the address of its endpoint, such as `https://tools.example.com/mcp`, without user, query and fragment.
    #[schemars(length(min = 1))]
    pub url: Option<String>,
    /// For `http`: headers of every request. The values are never logged.
    pub headers: Option<BTreeMap<String, String>>,
    /// For `http`: sent as `Authorization: Bearer …`. Write a variable, not the token itself.
    #[schemars(length(min = 1))]
    pub bearer_token: Option<String>,
    /// What happens when it ends by itself.
    pub restart: Option<Restart>,
    /// What holds for all of its tools.
    pub defaults: Option<Defaults>,
    /// The tools that may be used. Without this list all that the server has.
    #[schemars(length(max = 256))]
    pub tools: Option<Vec<Tool>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Restart {
    /// Whether it is started again.
    #[schemars(extend("default" = true))]
    pub enabled: Option<bool>,
    /// After so many starts in vain it stays down until a reload or a test. A server of 60 s of good health begins to
    /// count anew. One with `http` is tried on and on.
    #[schemars(range(max = 1_000), extend("default" = 5))]
    pub max_restarts: Option<u32>,
    /// The wait before the first start again, in milliseconds; each further one is twice as long, 30 s at most.
    #[schemars(
        range(min = 10, max = 30_000),
        extend("default" = 1_000, "title" = "milliseconds from 10 to 30000, such as 1000")
    )]
    pub backoff_ms: Option<u64>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Defaults {
    /// What a call may take, in milliseconds; then the model is told `TIMEOUT`. `tools.NAME.timeout` and the context's
    /// `limits.tool` hold as well.
    #[schemars(
        range(min = 1, max = 600_000),
        extend("default" = 10_000, "title" = "milliseconds from 1 to 600000, such as 10000")
    )]
    pub timeout_ms: Option<u64>,
    /// What the server may take to start and to tell its tools, in milliseconds.
    #[schemars(
        range(min = 1, max = 600_000),
        extend("default" = 20_000, "title" = "milliseconds from 1 to 600000, such as 20000")
    )]
    pub start_timeout_ms: Option<u64>,
    /// After this, in milliseconds, the caller hears `slow_response_message`, which ends its word when an answer comes.
    #[schemars(
        range(min = 1, max = 600_000),
        extend("default" = 2_000, "title" = "milliseconds from 1 to 600000, such as 2000")
    )]
    pub slow_response_threshold_ms: Option<u64>,
    /// What the caller hears while a slow tool runs. Without it nothing is said.
    #[schemars(length(min = 1, max = 500))]
    pub slow_response_message: Option<String>,
    /// What its tools touch, for the contract gate, where `tools.NAME.access` says nothing. Without either a tool never
    /// runs.
    #[schemars(extend("enum" = crate::gate::Category::LABELS))]
    pub access: Option<String>,
    /// The field of risk, for the contract gate.
    #[schemars(extend("enum" = crate::gate::RiskDomain::LABELS))]
    pub risk_domain: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tool {
    /// What the server calls it.
    #[schemars(required, length(min = 1, max = 256))]
    pub name: Option<String>,
    /// What contexts and models call it, instead of `mcp_SERVER_TOOL`.
    #[schemars(regex(pattern = "^[a-z0-9_]{1,64}$"), extend("title" = "a name of 1 to 64 of a-z, 0-9 and _"))]
    pub expose_as: Option<String>,
    /// What the model reads about it, instead of the server's own words.
    #[schemars(length(min = 1, max = 1024))]
    pub description: Option<String>,
    /// The part of the result that is spoken, as a dotted path: `atis_text`, `rows.0.name`.
    #[schemars(length(min = 1, max = 256))]
    pub speech_field: Option<String>,
    /// A sentence with parts of the result in it: `It is {temperature} degrees in {place.name}.`
    #[schemars(length(min = 1, max = 1024))]
    pub speech_template: Option<String>,
    /// Whether a failure that it tells may pass by itself.
    #[schemars(extend("default" = false))]
    pub error_retryable: Option<bool>,
}
