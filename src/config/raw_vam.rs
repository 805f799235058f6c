//! VAM/1.0, as it is written: the section `vam`.

use super::{defaults, raw::DurationText, raw::names, vam::Residency};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Vam {
    /// Where action servers register and clients hold conversations, by gRPC.
    #[schemars(extend("default" = defaults::VAM_BIND, "title" = "IP:PORT"))]
    pub bind: Option<String>,
    /// Who may: bearer tokens, of at least 16 characters each. Write variables, not the tokens themselves.
    #[schemars(required, length(min = 1), inner(length(min = 1)))]
    pub tokens: Option<Vec<Option<String>>>,
    /// Tokens of clients that know who their callers are: what such a client says of the caller in `metadata.authorization` of a
    /// session, `authenticated` or `validated`, is believed. They let in as `tokens` do, and none may be one of those.
    #[schemars(extend("default" = json!([])), inner(length(min = 1)))]
    pub trusted_tokens: Option<Vec<Option<String>>>,
    /// The certificate that is shown to clients. Without it nothing is encrypted, and `bind` has to be an address of this
    /// machine alone.
    pub tls: Option<Tls>,
    /// The file that registrations are kept in, starting from this file's folder. It is made with the first of them.
    #[schemars(length(min = 1), extend("default" = defaults::VAM_REGISTRATIONS))]
    pub registrations: Option<String>,
    /// Hosts, as `host` or `host:port`, that action servers may be at.
    #[schemars(extend("default" = json!([])))]
    pub allowed_hosts: Option<Vec<String>>,
    /// What you say of single action servers, by the id they register with.
    #[schemars(extend("propertyNames" = names()))]
    pub action_servers: Option<BTreeMap<String, ActionServer>>,
    /// Where what callers of telephone calls say may go: `any` action server; `india_only`: those that claim to be in India
    /// and those of your own network; `on_prem`: those of your own network alone. Where it is written, no session of a VAM
    /// client goes below it either.
    #[schemars(extend("default" = Residency::IndiaOnly.label(), "enum" = Residency::LABELS))]
    pub residency: Option<String>,
    /// Conversations of VAM clients. Without this key, none are held.
    pub sessions: Option<Sessions>,
    /// What an action may take; then the model is told `TIMEOUT`. `tools.NAME.timeout` and the context's `limits.tool` hold as
    /// well.
    #[schemars(extend("default" = defaults::VAM_ACTION_TIMEOUT))]
    pub action_timeout: Option<DurationText>,
    /// What clients may use up.
    pub limits: Option<Limits>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    /// The certificate with those that lead to its authority, as PEM, starting from this file's folder.
    #[schemars(required, length(min = 1))]
    pub certificate: Option<String>,
    /// Its private key, as PEM.
    #[schemars(required, length(min = 1))]
    pub key: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ActionServer {
    /// The program and its arguments, for a server that registers with `stdio:ID`. A program without a slash is looked for in
    /// `PATH`, then beside offhook's own; with a slash it is relative to this file's folder. No shell reads it.
    #[schemars(length(min = 1, max = 256))]
    pub command: Option<Vec<Option<String>>>,
    /// The folder it runs in, relative to this file's folder. Without it, this file's folder.
    #[schemars(length(min = 1))]
    pub cwd: Option<String>,
    /// Its environment, besides `PATH`, `HOME`, `LANG` and `TZ`. The values are never logged.
    pub env: Option<BTreeMap<String, String>>,
    /// Whether it may have tools of high sensitivity (`pan_validate`, `aadhaar_verify_otp`, `ration_card_lookup`). With it you
    /// say that whoever runs it is authorized by UIDAI or NSDL.
    #[schemars(extend("default" = false))]
    pub high_sensitivity: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sessions {
    /// The context that answers a session without `metadata.context`. Without it, sessions have to name one.
    #[schemars(length(min = 1))]
    pub context: Option<String>,
    /// Where this gateway and all services of its agents are, on your word: `any` promises nothing, so that only sessions
    /// that ask for nothing (`DATA_RESIDENCY_ANY`) are taken.
    #[schemars(extend("default" = Residency::Any.label(), "enum" = Residency::LABELS))]
    pub hosted: Option<String>,
    /// What your agents speak, as codes of BCP 47 such as `hi-IN`, the usual one first, on your word. A session that asks for
    /// none of these is refused. Without this key, sessions are told that their `language_hints` are not followed.
    #[schemars(extend("default" = json!([])))]
    pub languages: Option<Vec<String>>,
    /// Sessions at once; `limits.calls` counts them as well.
    #[schemars(range(min = 1, max = 10_000), extend("default" = defaults::VAM_SESSIONS))]
    pub limit: Option<u64>,
    /// How long one may last; then its client begins another.
    #[schemars(extend("default" = defaults::VAM_SESSION_TTL))]
    pub ttl: Option<DurationText>,
    /// What clients are told as the address of the stream, if that is not the one they asked.
    #[schemars(length(min = 1))]
    pub stream_endpoint: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    /// Action servers that are registered at once.
    #[schemars(range(min = 1, max = 256), extend("default" = defaults::VAM_ACTION_SERVERS))]
    pub action_servers: Option<u64>,
    /// The longest message of a client, in bytes.
    #[schemars(range(min = 65_536, max = 16_777_216), extend("default" = defaults::VAM_MESSAGE_BYTES))]
    pub message_bytes: Option<u64>,
    /// Connections at once. Beyond it, one that has shown no token is closed; where all have, the next one waits.
    #[schemars(range(min = 1, max = 10_000), extend("default" = defaults::VAM_CONNECTIONS))]
    pub connections: Option<u64>,
}
