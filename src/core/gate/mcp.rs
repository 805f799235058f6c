//! The gate as a tool of the Model Context Protocol: from one JSON-RPC message to its answer.
//!
//! Hosts of this contract send `tools/list` and `tools/call` with or without `initialize` before
//! them, and every failure has one code; a general MCP server would end such a conversation.

use super::{Gate, answer::Decision, event::AuthState, event::Category, event::Route, schema};
use jiff::Timestamp;
use serde_json::{Value, json};

pub const TOOL: &str = "aana_pre_tool_check";
const PROTOCOL: &str = "2024-11-05";
const FAILED: i32 = -32000;

/// One answered message.
pub struct Answer {
    /// What goes back; nothing for a notification.
    pub message: Option<Value>,
    /// The event that was decided, normalized, and the decision.
    pub decided: Option<(Value, Decision)>,
}

impl Answer {
    fn only(message: Option<Value>) -> Self {
        Self { message, decided: None }
    }
}

/// The answer to what is no JSON at all.
pub fn unreadable(why: &str) -> Value {
    failure(&Value::Null, why)
}

fn failure(id: &Value, why: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": FAILED, "message": why } })
}

fn success(id: &Value, result: &Value) -> Answer {
    Answer::only(Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })))
}

/// Answers one message.
pub fn answer(gate: &Gate, message: &Value, now: Timestamp) -> Answer {
    let Some(message) = message.as_object() else {
        return Answer::only(Some(unreadable("a message must be an object")));
    };
    let id = message.get("id").unwrap_or(&Value::Null);
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        // An answer to something this server never asked, or nothing that asks for an answer.
        let is_answer = message.contains_key("result") || message.contains_key("error");
        return Answer::only((!is_answer).then(|| failure(id, "a message must name a method")));
    };
    if !message.contains_key("id") {
        return Answer::only(None);
    }
    let params = message.get("params");
    match method {
        "initialize" => success(
            id,
            &json!({
                "protocolVersion": PROTOCOL,
                "serverInfo": { "name": "aana-mcp", "version": "0.1.0" },
                "capabilities": { "tools": {} },
            }),
        ),
        "ping" => success(id, &json!({})),
        "tools/list" => success(id, &json!({ "tools": [tool()] })),
        "resources/list" => success(id, &json!({ "resources": [] })),
        "prompts/list" => success(id, &json!({ "prompts": [] })),
        "tools/call" => {
            let name = params.and_then(|params| params.get("name")).and_then(Value::as_str).unwrap_or_default();
            if name != TOOL {
                return Answer::only(Some(failure(id, "there is no such tool")));
            }
            call(gate, id, params.and_then(|params| params.get("arguments")), now)
        }
        _ => Answer::only(Some(failure(id, "there is no such method"))),
    }
}

fn call(gate: &Gate, id: &Value, arguments: Option<&Value>, now: Timestamp) -> Answer {
    let nothing = json!({});
    let event = arguments.filter(|arguments| !arguments.is_null()).unwrap_or(&nothing);
    let decision = gate.check(event, now);
    let summary = decision.summary_json();
    let text = format!("AANA route: {}. Execution allowed: {}.", decision.route(), decision.executes());
    let result = json!({
        "content": [{ "type": "text", "text": text }],
        "_meta": { "aana_decision": decision.to_json(), "audit_safe_log_event": summary["audit_safe_log_event"] },
        "structuredContent": summary,
    });
    Answer { decided: Some((gate.normalized(event), decision)), ..success(id, &result) }
}

/// The tool as `tools/list` shows it.
pub fn tool() -> Value {
    json!({
        "name": TOOL,
        "title": "AANA pre-tool check",
        "description": "Asks, before a tool runs, whether it may: takes an event of Agent Action Contract v1 and gives \
                        the route accept, ask, defer or refuse, with blockers, a score, what evidence is missing and what \
                        to do next. Run the tool only on accept without hard blockers.",
        "inputSchema": input_schema(),
        "annotations": {
            "readOnlyHint": true,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false,
        },
    })
}

/// The event as clients are told to write it: the seven fields, with quick-start ids for evidence.
pub fn input_schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": schema::REQUIRED,
        "properties": {
            "tool_name": { "type": "string", "minLength": 1 },
            "tool_category": { "type": "string", "enum": Category::LABELS },
            "authorization_state": { "type": "string", "enum": AuthState::LABELS },
            "evidence_refs": {
                "type": "array",
                "items": {
                    "anyOf": [
                        { "type": "string", "minLength": 1 },
                        { "type": "object", "additionalProperties": true },
                    ],
                },
            },
            "risk_domain": { "type": "string", "minLength": 1 },
            "proposed_arguments": { "type": "object", "additionalProperties": true },
            "recommended_route": { "type": "string", "enum": Route::LABELS },
        },
    })
}
