//! `on_success`, `on_failure`, and what is kept.

use super::*;
use crate::tool::CallAction;

fn with(actions: Value, on_success: Value, on_failure: Value) -> Value {
    let mut definition = tool(actions, &json!({}));
    definition["on_success"] = on_success;
    definition["on_failure"] = on_failure;
    definition
}

fn failing() -> Value {
    json!({ "type": "validate", "rules": [{ "path": "workflow.none", "required": true, "message": "It is not there." }] })
}

/// D13, D answer 9, D answer 27: on_failure sees what the run wrote, which is not kept; what it
/// writes itself is.
#[test]
fn a_failed_run_is_not_kept() {
    let definition = with(
        json!([
            { "type": "context.set", "data": { "step": "one", "count": 9 } },
            { "type": "respond", "message": "It is done." },
            { "type": "flag.set", "flag": "done" },
            failing(),
        ]),
        json!([{ "type": "respond", "message": "Good." }]),
        json!([
            { "type": "respond", "message": "Stopped at {{workflow.step}}: {{result.error.message}}" },
            { "type": "flag.set", "flag": "failed" },
            { "type": "context.set", "data": { "failures[+]": "{{result.error.type}}" } },
        ]),
    );
    let world = World::new();
    let ran = world.run(&definition, json!({}));
    assert_eq!(ran.failure().message, "Stopped at one: It is not there.");
    assert_eq!((ran.failure().kind, ran.failure().retryable), (ToolError::Validation, false));
    assert_eq!(ran.memory.flags, map(json!({ "failed": true })));
    assert_eq!((ran.workflow("step"), ran.workflow("count")), (&Value::Null, &json!(2)));
    assert_eq!(*ran.workflow("failures"), json!(["VALIDATION"]));
}

/// D answer 9: what was written before an error that the run went on from stays, even if the run
/// fails later.
#[test]
fn what_was_written_before_an_error_gone_on_from_stays() {
    let definition = with(
        json!([
            { "type": "context.set", "data": { "a": 1 } },
            { "type": "api_call", "url": "https://api.example/", "on_error": "continue" },
            { "type": "context.set", "data": { "b": 1 } },
            failing(),
        ]),
        json!([]),
        json!([]),
    );
    let world = World::new().answering([refusal(ToolError::Transient, None, 4)]);
    let ran = world.run(&definition, json!({}));
    assert_eq!((ran.workflow("a"), ran.workflow("b")), (&json!(1), &Value::Null));
}

/// D answer 9: a write of on_failure that needs what was not kept is left out; all others are made.
#[test]
fn writes_that_need_what_was_not_kept() {
    let definition = with(
        json!([{ "type": "context.set", "data": { "list": [1] } }, failing()]),
        json!([]),
        json!([{ "type": "context.set", "data": { "list[0]": 2 } }, { "type": "context.set", "data": { "c": 1 } }]),
    );
    let ran = World::new().run(&definition, json!({}));
    assert_eq!((ran.workflow("list"), ran.workflow("c")), (&Value::Null, &json!(1)));
}

/// D answer 27: a failure inside on_failure is noted; the original error stands.
#[test]
fn a_failure_of_on_failure() {
    let definition = with(
        json!([failing()]),
        json!([]),
        json!([
            { "type": "respond", "message": "Sorry." },
            { "type": "context.set", "data": { "count[+]": 1 } },
            { "type": "respond", "message": "Never said." },
        ]),
    );
    let ran = World::new().run(&definition, json!({}));
    assert_eq!((ran.failure().kind, ran.failure().message.as_str()), (ToolError::Validation, "Sorry."));
    assert_eq!(ran.report.notes, [Note::EndingFailed { action: "on_failure[1]".into(), kind: ToolError::Permanent }]);
}

/// What the actions did is done: an on_success that fails does not make it undone.
#[test]
fn a_failure_of_on_success() {
    let definition = with(
        json!([{ "type": "context.set", "data": { "a": 1 } }]),
        json!([{ "type": "respond", "message": "Done." }, failing()]),
        json!([{ "type": "respond", "message": "Sorry." }]),
    );
    let ran = World::new().run(&definition, json!({}));
    assert_eq!((ran.message(), ran.workflow("a")), ("Done.", &json!(1)));
    assert_eq!(ran.report.notes, [Note::EndingFailed { action: "on_success[1]".into(), kind: ToolError::Validation }]);
}

/// D answer 27: in on_failure api_call and handoff have to be allowed by name.
#[test]
fn reaching_out_in_on_failure() {
    let (call, handoff) =
        (json!({ "type": "api_call", "url": "https://api.example/" }), json!({ "type": "handoff", "target": "sales" }));
    let nested = json!([{ "type": "conditional", "condition": "workflow.count", "then": [call, handoff] }]);
    let problems = World::new().problems_of(&with(json!([]), json!([]), nested));
    assert_eq!(
        problems,
        [0, 1].map(|place| format!(
            "on_failure[0].then[{place}]: reaches outside of the call in on_failure (allow: true, if it is meant)"
        ))
    );
    let allowed = json!([
        { "type": "api_call", "url": "https://api.example/failed", "allow": true },
        { "type": "handoff", "target": "sales", "allow": true },
        { "type": "respond", "message": "never" },
    ]);
    let ran = World::new().run(&with(json!([failing()]), json!([]), allowed), json!({}));
    assert_eq!(ran.asked.len(), 1);
    let [CallAction::Handoff { target, .. }] = ran.done().actions.as_slice() else { panic!("{:?}", ran.done()) };
    assert_eq!((target.as_str(), &ran.done().data["error"]["type"]), ("sales", &json!("VALIDATION")));
}

/// D answer 27: with both lists empty there is a default message.
#[test]
fn default_messages() {
    let ran = World::new().act(json!([{ "type": "context.set", "data": { "a": 1 } }]), json!({}));
    assert_eq!(ran.message(), "Done.");
    let ran = World::new().act(json!([failing()]), json!({}));
    assert_eq!(ran.failure().message, "It is not there.");
    let quiet = with(json!([]), json!([{ "type": "log", "message": "x" }]), json!([]));
    assert_eq!(World::new().run(&quiet, json!({})).done().message, None);
}
