//! The service's description, for programs and for people.

use crate::gate::{SCHEMA, mcp};
use axum::{
    Json,
    response::{Html, IntoResponse, Response},
};
use serde_json::{Map, Value, json};

/// Method, path and meaning of everything there is.
pub(super) const ROUTES: [(&str, &str, &str); 7] = [
    ("get", "/health", "What the service is and which limits it has. No token."),
    ("get", "/ready", "200 when checks can be answered, else 503. No token."),
    (
        "post",
        "/pre-tool-check",
        "Decide over one proposed tool call. Run it only on route accept without hard blockers.",
    ),
    ("post", "/tool-precheck", "The same under its older name."),
    ("post", "/validate-tool-precheck", "What the schema says about an event, without a decision."),
    ("get", "/docs", "This page."),
    ("get", "/openapi.json", "This table for programs."),
];

const EXAMPLE: &str = r#"curl -s http://127.0.0.1:8766/pre-tool-check \
  -H "Authorization: Bearer $AANA_BRIDGE_TOKEN" -H "Content-Type: application/json" \
  -d '{"tool_name": "send_email", "tool_category": "write", "authorization_state": "user_claimed",
       "evidence_refs": ["draft_id:123"], "risk_domain": "customer_support",
       "proposed_arguments": {"to": "redacted"}, "recommended_route": "accept"}'"#;

pub(super) async fn openapi() -> Response {
    let mut paths = Map::new();
    for (method, path, summary) in ROUTES {
        let mut operation = json!({ "summary": summary, "responses": { "200": { "description": "OK" } } });
        if method == "post" {
            operation["security"] = json!([{ "bearer": [] }, { "header": [] }]);
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Event" } } },
            });
            for (status, meaning) in [
                ("400", "The check failed."),
                ("401", "No token, or a wrong one."),
                ("403", "The token lacks the scope."),
                ("413", "The body is too large."),
                ("422", "The body is no JSON object."),
                ("429", "Too many requests; see Retry-After."),
            ] {
                operation["responses"][status] = json!({ "description": meaning });
            }
        }
        if path.ends_with("-check") || path.ends_with("/tool-precheck") {
            operation["parameters"] = json!([{
                "name": "shadow_mode",
                "in": "query",
                "required": false,
                "schema": { "type": "string" },
                "description": "true: observe only. The decision is the same, execution_allowed is true.",
            }]);
        }
        paths.insert(path.to_owned(), json!({ method: operation }));
    }
    let strict: Value = serde_json::from_str(SCHEMA).unwrap_or_default();
    Json(json!({
        "openapi": "3.1.0",
        "info": { "title": "offhook gate: Agent Action Contract v1", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "schemas": { "Event": mcp::input_schema(), "StrictEvent": strict },
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "header": { "type": "apiKey", "in": "header", "name": "X-AANA-Token" },
            },
        },
    }))
    .into_response()
}

pub(super) async fn docs() -> Response {
    let rows = ROUTES.map(|(method, path, meaning)| {
        format!("<tr><td>{}</td><td><code>{path}</code></td><td>{meaning}</td></tr>", method.to_uppercase())
    });
    let example = EXAMPLE.replace('&', "&amp;").replace('<', "&lt;");
    Html(format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>offhook gate</title>\
         <style>body{{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}}\
         td{{padding:.2em 1em .2em 0}}pre{{overflow:auto;background:#eee;padding:1em}}</style>\
         <h1>offhook gate</h1><p>Agent Action Contract v1: one question before a tool runs. The description for \
         programs is <a href=\"/openapi.json\">/openapi.json</a>.</p><table>{}</table><pre>{example}</pre></html>",
        rows.concat()
    ))
    .into_response()
}
