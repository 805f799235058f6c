//! Whose declarative tools there are, as it is written: the section `tenants`.

use super::raw::DurationText;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tenant {
    /// The folder of the tenant's tools, one file `NAME.yaml` or `NAME.json` each, relative to this
    /// file's folder. It is made if need be.
    #[schemars(required, length(min = 1))]
    pub tools: Option<String>,
    /// Bearer tokens of the tenant for `/api/v1/tools`. Without any the tools cannot be changed over
    /// HTTP. Write variables, not the tokens themselves.
    #[schemars(inner(length(min = 1)), extend("default" = json!([])))]
    pub tokens: Option<Vec<Option<String>>>,
    /// Whether the `policy` of the tenant's tools may ask for less than follows from their actions (`standing_approval`,
    /// `authenticates`, a milder `access` or `category`). Then who has a token approves of what the tools do; without it
    /// only `tools.NAME` here can.
    #[schemars(extend("default" = false))]
    pub trusted: Option<bool>,
    /// Whether `/api/v1/tools` refuses changes, as in production.
    #[schemars(extend("default" = false))]
    pub locked: Option<bool>,
    /// Addresses by a name that tools use.
    pub endpoints: Option<BTreeMap<String, Endpoint>>,
    /// Anything that templates read as `tenant.settings.…`.
    pub settings: Option<Map<String, Value>>,
    /// Hosts, as `host` or `host:port`, that tools may reach although they are private, and whose
    /// addresses a template may form.
    #[schemars(extend("default" = json!([])))]
    pub allowed_hosts: Option<Vec<String>>,
    /// Texts by key and language, for `respond` with `message_key`.
    pub messages: Option<BTreeMap<String, BTreeMap<String, String>>>,
    /// The language of texts for callers of whom none is known.
    #[schemars(extend("default" = "en"))]
    pub language: Option<String>,
    /// Keys of the workflow that go along with a handoff.
    #[schemars(extend("default" = json!([])))]
    pub shared_context: Option<Vec<String>>,
    /// Paths in `user` and `tenant` that are secret, besides `user.auth_token`.
    #[schemars(extend("default" = json!([])))]
    pub secrets: Option<Vec<String>>,
    /// Whether tools may write to `user`.
    #[schemars(extend("default" = false))]
    pub user_writable: Option<bool>,
    /// The longest all requests of one tool call may take together.
    #[schemars(extend("default" = "8s"))]
    pub request_time: Option<DurationText>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Endpoint {
    /// Its whole address; `{name}` in the path is filled with the tool's parameter of that name.
    #[schemars(required, length(min = 1))]
    pub url: Option<String>,
    /// The method where the tool names none.
    #[schemars(extend("enum" = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]))]
    pub method: Option<String>,
}
