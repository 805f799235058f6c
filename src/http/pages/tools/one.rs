//! One tool: what agents are told of it, what the gate makes of it, and its last calls.

use super::{encoded, plain, took, words};
use crate::http::{
    api::{
        Params,
        registry::{ToolView, Whose, one},
    },
    login::{Role, Who},
    pages::{
        call, figures, shell,
        text::{self, operations},
    },
    site::App,
    view::{AuditLine, RegisteredTool, ToolPolicyView},
};
use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use serde_json::Value;

pub async fn page(
    State(app): State<App>,
    who: Who,
    Path(name): Path<String>,
    Params(Whose { tenant }): Params<Whose>,
) -> Response {
    let tenant = tenant.unwrap_or_default();
    let Some(found) = one(&app, Some(tenant.as_str()).filter(|tenant| !tenant.is_empty()), &name) else {
        return shell::refusal(&who, StatusCode::NOT_FOUND, words::NO_SUCH);
    };
    let ToolView { tool, registry_version, audit } = &found;
    let is_editable = who.may(Role::Admin) && tool.kind == "declarative" && app.tools.tenants().contains(&tenant);
    let main = html! {
        p.path { a href={ "/tools?tenant=" (encoded(&tenant)) } { (text::TOOLS) } }
        div.title {
            h1 { code { (tool.name) } }
            @if is_editable {
                a.button href={ "/tool-editor?tenant=" (encoded(&tenant)) "&tool=" (encoded(&tool.name)) } { (words::EDIT) }
            }
        }
        p.description { (tool.description) }
        (facts(&tenant, tool, registry_version))
        (policy(&tool.policy))
        (parameters(&tool.parameters))
        (outcomes(tool))
        (last_calls(words::AUDIT, audit))
    };
    shell::page(&who, "/tools", &tool.name, &main).into_response()
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (figures::or_dash(Some(value))) } } }
}

fn facts(tenant: &str, tool: &RegisteredTool, version: &str) -> Markup {
    html! {
        dl.facts {
            (fact(words::KIND, words::kind(tool.kind)))
            @if let Some(server) = &tool.server { (fact(words::SERVER, server)) }
            @if let Some(name) = &tool.server_tool { (fact(words::SERVER_TOOL, name)) }
            (fact(words::TENANT, tenant))
            (fact(words::LISTED_BY, &tool.contexts.join(", ")))
            (fact(words::TOOL_VERSION, &tool.policy.version))
            (fact(words::VERSION, version))
            (fact(words::USUALLY, &took(tool.figures.median_ms)))
            (fact(words::MOSTLY, &took(tool.figures.mostly_ms)))
        }
    }
}

fn policy(policy: &ToolPolicyView) -> Markup {
    html! {
        section aria-labelledby="policy" {
            h2 #policy { (words::POLICY) }
            p.soft { (words::POLICY_HELP) }
            @if policy.taken_for_private { p.notice { (words::TAKEN_FOR_PRIVATE) } }
            @if policy.access == "unknown" { p.notice { (words::UNCLASSIFIED) } }
            dl.facts {
                (fact(words::ACCESS, &plain(policy.access)))
                (fact(words::SIDE_EFFECTS, &plain(policy.side_effects)))
                (fact(words::CATEGORY, policy.category))
                (fact(words::RISK, &plain(policy.risk_domain)))
                (fact(words::CONFIRMATION, words::yes(policy.requires_confirmation)))
                (fact(words::STANDING, words::yes(policy.standing_approval)))
                (fact(words::AUTHORIZATION, &plain(policy.requires_authorization)))
                @if let Some(state) = policy.authenticates { (fact(words::AUTHENTICATES, &plain(state))) }
                (fact(words::IDEMPOTENT, words::yes(policy.idempotent)))
                (fact(words::MODES, &policy.modes.join(", ")))
                (fact(words::UNKNOWN_ARGUMENTS, policy.unknown_arguments))
                (fact(words::SECRET_ARGUMENTS, &policy.secret_arguments.join(", ")))
                (fact(words::TIMEOUT, &text::seconds(policy.timeout_ms)))
                (fact(words::BUDGET, &text::seconds(policy.latency_budget_ms)))
                (fact(words::WAITS, words::yes(policy.wait)))
                @if let Some(confirm) = &policy.confirm { div.wide { dt { (words::ASKED) } dd { (confirm) } } }
            }
        }
    }
}

fn parameters(schema: &Value) -> Markup {
    let properties = schema["properties"].as_object();
    let required = |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
    html! {
        section aria-labelledby="parameters" {
            h2 #parameters { (words::PARAMETERS) }
            @match properties.filter(|all| !all.is_empty()) {
                None => { p.empty { (words::NO_PARAMETERS) } }
                Some(all) => {
                    div.scroll tabindex="0" role="group" aria-labelledby="parameters" {
                        table.cards {
                            thead { tr {
                                @for head in [words::PARAMETER, words::TYPE, words::REQUIRED, words::DESCRIPTION] {
                                    th scope="col" { (head) }
                                }
                            } }
                            tbody { @for (name, property) in all {
                                tr {
                                    th scope="row" { code { (name) } }
                                    td data-head=(words::TYPE) { (kind(property)) }
                                    td data-head=(words::REQUIRED) { (words::yes(required(name))) }
                                    td data-head=(words::DESCRIPTION) { (figures::or_dash(property["description"].as_str())) }
                                }
                            } }
                        }
                    }
                }
            }
            details.as-table { summary { (words::AS_SCHEMA) } pre.card.code tabindex="0" { (pretty(schema)) } }
        }
    }
}

/// `string`, `array of string`, `one of a, b`
fn kind(property: &Value) -> String {
    let name = |value: &Value| match value {
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => "–".into(),
    };
    if let Some(choices) = property["enum"].as_array() {
        let choices: Vec<_> =
            choices.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
        return choices.join(" | ");
    }
    match property["items"].get("type") {
        Some(items) => format!("{} of {}", name(&property["type"]), name(items)),
        None => name(&property["type"]),
    }
}

pub fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn outcomes(tool: &RegisteredTool) -> Markup {
    html! {
        section aria-labelledby="outcomes" {
            h2 #outcomes { (words::OUTCOMES) " " span.soft { (operations::SINCE_START) } }
            @if tool.figures.outcomes.is_empty() { p.empty { (words::NO_CALLS) } } @else {
                dl.facts { @for (outcome, count) in &tool.figures.outcomes { (fact(&plain(outcome), &count.to_string())) } }
            }
        }
    }
}

pub fn last_calls(head: &str, audit: &[AuditLine]) -> Markup {
    html! {
        section aria-labelledby="audit" {
            h2 #audit { (head) }
            p.soft { (words::AUDIT_HELP) }
            @if audit.is_empty() { p.empty { (words::NO_CALLS) } } @else {
                ul.tools { @for line in audit { li { (call::tool(&figures::moment(line.at), &line.audit)) } } }
            }
        }
    }
}
