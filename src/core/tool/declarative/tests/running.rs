//! What a run does, in which order, and what it leaves behind.

use super::*;
use crate::tool::CallAction;

/// D1, D2, D3, D6, D8, D10, D11, D12, D17: the tool of the ADR, from arguments to envelope.
#[test]
fn the_adrs_own_tool_logs_a_meal() {
    let world = World::new().answering([answer(201, json!({ "id": 7 }))]);
    let ran = world.run(&save_meal(), json!({ "meal_type": "lunch", "dishes": ["rice", "dal"] }));
    let meal = json!({ "meal_type": "lunch", "dishes": ["rice", "dal"] });
    assert_eq!(ran.message(), "I've logged your lunch!");
    assert_eq!(ran.done().data, json!({ "id": 7 }));
    assert_eq!(*ran.workflow("logged_meals"), json!([meal]));
    assert_eq!(*ran.workflow("api_response"), json!({ "id": 7 }));
    let [request] = ran.asked.as_slice() else { panic!("{:?}", ran.asked) };
    assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "https://api.example/meals"));
    assert_eq!(request.body, Some(json!({ "user_id": "u-1", "meal": meal })));
    assert_eq!(request.headers[1], ("Authorization".to_owned(), "Bearer tok-12345".to_owned()));
    assert_eq!((request.retries, request.retry_delay), (3, Duration::from_millis(500)));
    assert_eq!((request.tool.as_str(), request.call.as_str()), ("save_meal", "call-1"));
}

/// D8, D13, D15: a failed endpoint stops the run; on_failure speaks, and nothing is kept.
#[test]
fn the_adrs_own_tool_fails_as_a_whole() {
    let world = World::new().answering([refusal(ToolError::Transient, Some(503), 4)]);
    let ran = world.run(&save_meal(), json!({ "dishes": ["rice"] }));
    let failure = ran.failure();
    assert_eq!(failure.message, "Sorry, I couldn't log that meal.");
    assert_eq!(failure.kind, ToolError::Transient);
    assert_eq!(
        failure.details,
        json!({ "action": "actions[2]", "reason": "request_failed", "status": 503, "attempts": 4 })
    );
    assert!(failure.partial_side_effects && !failure.retryable, "the meal may have been logged");
    assert_eq!(ran.memory, world.memory);
}

/// D13, D14: actions run one after the other, in the order written, and only once.
#[test]
fn actions_run_in_order() {
    let ran = World::new().act(
        json!([
            { "type": "context.set", "data": { "a": 1 } },
            { "type": "context.set", "data": { "b": "{{workflow.a}}", "a": 2 } },
            { "type": "api_call", "url": "https://api.example/", "body": { "a": "{{workflow.a}}", "b": "{{workflow.b}}" } },
            { "type": "context.set", "data": { "a": 3 } },
        ]),
        json!({}),
    );
    assert_eq!(ran.asked[0].body, Some(json!({ "a": 2, "b": 1 })));
    assert_eq!(*ran.workflow("a"), json!(3));
    let order: Vec<&str> = ran.report.trace.iter().map(|step| step.action.as_str()).collect();
    assert_eq!(order, ["actions[0]", "actions[1]", "actions[2]", "actions[3]"]);
}

/// D13: the first action that does not work ends the run.
#[test]
fn nothing_runs_after_a_failure() {
    let ran = World::new().act(
        json!([
            { "type": "validate", "rules": [{ "path": "workflow.nothing", "required": true, "message": "No." }] },
            { "type": "api_call", "url": "https://api.example/" },
        ]),
        json!({}),
    );
    assert_eq!((ran.failure().kind, ran.failure().message.as_str()), (ToolError::Validation, "No."));
    assert!(ran.asked.is_empty());
    assert_eq!(ran.report.trace.len(), 1);
}

/// D11, D answer 7, D answer 9: `[+]` makes the array, appends to it, and fails on anything else.
#[test]
fn appending() {
    let set = |path: &str| json!([{ "type": "context.set", "data": { path: 1 } }]);
    assert_eq!(*World::new().act(set("new[+]"), json!({})).workflow("new"), json!([1]));
    assert_eq!(*World::new().act(set("workflow.deep.er[+]"), json!({})).workflow("deep"), json!({ "er": [1] }));
    let mut world = World::new();
    world.memory.workflow.insert("new".into(), json!([0]));
    assert_eq!(*world.act(set("new[+]"), json!({})).workflow("new"), json!([0, 1]));
    assert_eq!(*world.act(set("new[-1]"), json!({})).workflow("new"), json!([1]));
    assert_eq!(world.act(set("new[1]"), json!({})).why(), (ToolError::Permanent, "not_writable"));
    assert_eq!(world.act(set("count[+]"), json!({})).why(), (ToolError::Permanent, "not_writable"));
}

/// D answer 9: setting through what is missing makes objects, through a scalar fails.
#[test]
fn setting_through_what_is_missing_and_what_is_not() {
    let set = |path: &str| json!([{ "type": "context.set", "path": path, "value": "v" }]);
    assert_eq!(*World::new().act(set("a.b.c"), json!({})).workflow("a"), json!({ "b": { "c": "v" } }));
    assert_eq!(World::new().act(set("count.b"), json!({})).why(), (ToolError::Permanent, "not_writable"));
    let ran = World::new().act(set("fresh.b[0].c"), json!({}));
    assert_eq!(ran.why(), (ToolError::Permanent, "not_writable"));
}

/// D answer 8: workflow, flags and the own agent's state can be written, nothing else.
#[test]
fn what_can_be_written() {
    let world = World::new();
    let set = |path: &str, value: Value| json!([{ "type": "context.set", "path": path, "value": value }]);
    assert_eq!(
        world.act(set("agents.meal.last_dish", json!("rice")), json!({})).memory.agents["meal"]["last_dish"],
        "rice"
    );
    assert_eq!(world.act(set("flags.done", json!(true)), json!({})).memory.flags["done"], true);
    assert_eq!(world.act(set("flags.done", json!("yes")), json!({})).why().1, "not_writable");
    assert_eq!(world.act(set("agents.sales.lead", json!(2)), json!({})).why(), (ToolError::Permanent, "read_only"));
    for path in ["params.x", "tenant.settings.brand", "call.id", "history.x", "result.x", "now"] {
        assert!(world.problems(set(path, json!(1)))[0].contains("cannot be written"), "{path}");
    }
    assert_eq!(
        world.problems(set("user.preferences.theme", json!("dark"))),
        ["actions[0].path: user cannot be written (the tenant's settings can allow it: user_writable)"]
    );
    let mut world = World::new();
    world.surroundings.user_writable = true;
    let ran = world.act(set("user.preferences.theme", json!("dark")), json!({}));
    assert_eq!(ran.memory.user["preferences"], json!({ "theme": "dark" }));
}

/// D9, D answer 15, D3: context.get gives data and may keep it; context.delete is content with nothing.
#[test]
fn getting_and_deleting() {
    let ran = World::new().act(json!([{ "type": "context.get", "path": "user.name", "as": "who" }]), json!({}));
    assert_eq!((&ran.done().data, ran.workflow("who")), (&json!("Ann"), &json!("Ann")));
    let ran = World::new().act(json!([{ "type": "context.get", "path": ["user.name", "count"] }]), json!({}));
    assert_eq!(ran.done().data, json!({ "user.name": "Ann", "workflow.count": 2 }));
    let ran = World::new()
        .act(json!([{ "type": "context.delete", "path": ["count", "never.there", "user_x[3]"] }]), json!({}));
    assert_eq!(ran.memory.workflow.get("count"), None);
}

/// D9, D answer 17: flags are set, cleared and told to the call.
#[test]
fn flags() {
    let mut world = World::new();
    world.memory.flags.insert("old".into(), true.into());
    let ran = world.act(
        json!([
            { "type": "flag.set", "flag": "skip_meal" },
            { "type": "flag.set", "flag": "flags.ready", "value": "{{params.ready}}" },
            { "type": "flag.clear", "flag": "old" },
        ]),
        json!({ "ready": false }),
    );
    assert_eq!(ran.memory.flags, map(json!({ "skip_meal": true, "ready": false })));
    let flag = |name: &str, value| CallAction::Flag { name: name.into(), value };
    assert_eq!(ran.done().actions, [flag("skip_meal", true), flag("ready", false), flag("old", false)]);
    assert_eq!(world.problems(json!([{ "type": "flag.set", "flag": "x", "value": 3 }])).len(), 1);
}

/// D9, D answer 16: responds join in order after the run; an immediate one is spoken at once, and not again.
#[test]
fn responds_join() {
    let mut definition = tool(
        json!([
            { "type": "respond", "message": "One moment.", "immediate": true },
            { "type": "api_call", "url": "https://api.example/" },
            { "type": "respond", "message": "  Found {{result.body.n}}. " },
        ]),
        &json!({}),
    );
    definition["on_success"] = json!([{ "type": "respond", "message": "Anything else?" }]);
    let ran = World::new().answering([answer(200, json!({ "n": 3 }))]).run(&definition, json!({}));
    assert_eq!(ran.message(), "Found 3. Anything else?");
    assert_eq!(ran.spoken_at_once, ["One moment."]);
    let alone = json!([{ "type": "respond", "message": "One moment.", "immediate": true }]);
    assert_eq!(World::new().act(alone, json!({})).message(), "Done.");
}

/// D answer 16: message_key finds the agent's message in the caller's language.
#[test]
fn messages_have_languages() {
    let bye = json!([{ "type": "respond", "message_key": "bye" }]);
    let mut world = World::new();
    assert_eq!(world.act(bye.clone(), json!({})).message(), "Goodbye!");
    world.memory.user.insert("language".into(), "de-AT".into());
    assert_eq!(world.act(bye, json!({})).message(), "Tschüss, Ann!");
    for (language, words) in [("en-GB", "Goodbye!"), ("fr", "Goodbye!")] {
        world.memory.user.insert("language".into(), language.into());
        assert_eq!(world.act(json!([{ "type": "respond", "message_key": "bye" }]), json!({})).message(), words);
    }
    let unknown = json!([{ "type": "respond", "message_key": "hello" }]);
    assert_eq!(world.problems(unknown), ["actions[0].message_key: there is no message \"hello\" (known: bye)"]);
}

/// D9, D answer 18, D3: a handoff is an intent and ends the actions, not the run.
#[test]
fn a_handoff_is_terminal() {
    let mut definition = tool(
        json!([
            { "type": "conditional", "condition": "workflow.count", "then": [
                { "type": "handoff", "target_agent": "sales", "message": "{{user.name}} wants to buy." },
                { "type": "context.set", "data": { "a": 1 } },
            ]},
            { "type": "context.set", "data": { "a": 2 } },
        ]),
        &json!({}),
    );
    definition["on_success"] = json!([
        { "type": "context.set", "data": { "b": 1 } },
        { "type": "respond", "message": "I connect you." },
    ]);
    let ran = World::new().run(&definition, json!({}));
    let handoff = CallAction::Handoff {
        target: "sales".into(),
        message: Some("Ann wants to buy.".into()),
        context_passed: vec!["logged_meals".into()],
    };
    assert_eq!(ran.done().actions, [handoff]);
    assert_eq!(ran.message(), "I connect you.");
    assert_eq!((ran.workflow("a"), ran.workflow("b")), (&Value::Null, &json!(1)));
}

/// D answer 18: nobody is handed over to a context that does not exist, whether that is seen when the
/// tool is saved or when it runs.
#[test]
fn unknown_targets_of_a_handoff() {
    let to = |target: &str| json!([{ "type": "handoff", "target": target, "context_passed": [] }]);
    assert_eq!(
        World::new().problems(to("slaes")),
        ["actions[0].target: the tenant has no context \"slaes\" (known: meal, sales)"]
    );
    let ran = World::new().act(to("{{params.to}}"), json!({ "to": "slaes" }));
    assert_eq!(ran.why(), (ToolError::Permanent, "unknown_context"));
    assert_eq!(World::new().act(to("{{params.to}}"), json!({ "to": "sales" })).done().actions.len(), 1);
}

/// D9, D answer 19: log lines are notes with a level, and print as nothing by themselves.
#[test]
fn log_lines() {
    let ran = World::new()
        .act(json!([{ "type": "log", "level": "warn", "message": "{{user.name}} has {{workflow.count}}" }]), json!({}));
    let [note @ Note::Log { level, message, .. }] = ran.report.notes.as_slice() else {
        panic!("{:?}", ran.report.notes)
    };
    assert_eq!((level.label(), message.reveal().as_str()), ("warn", "Ann has 2"));
    assert!(!format!("{note:?}").contains("Ann"));
}

/// D answer 12: defaults are filled in; nothing is turned into another type.
#[test]
fn parameters_are_bound() {
    let definition = json!({
        "name": "t", "description": "d",
        "parameters": [
            { "name": "n", "type": "integer", "required": true },
            { "name": "unit", "type": "string", "enum": ["kg", "lb"], "default": "kg" },
            { "name": "tags", "type": "array", "items": "string" },
        ],
        "actions": [{ "type": "context.set", "data": { "p": "{{params}}" } }],
    });
    let world = World::new();
    let ran = world.run(&definition, json!({ "n": 5.0, "stray": 1 }));
    assert_eq!(*ran.workflow("p"), json!({ "n": 5.0, "unit": "kg" }));
    for (arguments, complaint) in [
        (json!({}), "n is needed"),
        (json!({ "n": "5" }), "n has to be of type integer"),
        (json!({ "n": 5.5 }), "n has to be of type integer"),
        (json!({ "n": 5, "unit": "g" }), "unit is none of the values"),
        (json!({ "n": 5, "tags": ["a", 1] }), "tags has an item"),
    ] {
        let ran = world.run(&definition, arguments);
        assert_eq!(ran.failure().kind, ToolError::Validation);
        assert!(ran.failure().message.contains(complaint), "{}", ran.failure().message);
        assert!(ran.report.trace.is_empty(), "checked before any action");
    }
}

/// D answer 6: `call`, `now` and `result` can be read.
#[test]
fn facts_of_the_call_can_be_read() {
    let ran = World::new().act(
        json!([
            { "type": "context.get", "path": "call" },
            { "type": "context.set", "data": { "r": "{{result.context_name}}", "at": "{{now}}" } },
        ]),
        json!({}),
    );
    assert_eq!(
        ran.done().data,
        json!({
            "id": "call-1", "caller_number": "+15550100", "caller_name": null, "context_name": "meal",
            "direction": "inbound",
        })
    );
    assert_eq!((ran.workflow("r"), ran.workflow("at")), (&json!("meal"), &json!("2025-06-15T15:06:40Z")));
}

/// The model is not given more than it can use.
#[test]
fn large_data_is_left_out() {
    let world = World::new().answering([answer(200, json!({ "text": "x".repeat(20_000) }))]);
    let ran =
        world.act(json!([{ "type": "api_call", "url": "https://api.example/", "response_path": "r" }]), json!({}));
    assert_eq!(ran.done().data, json!({ "truncated": true }));
    assert!(matches!(ran.report.notes.as_slice(), [Note::DataTooLarge { bytes: 20_000.. }]));
    assert_eq!(ran.workflow("r")["text"].as_str().map(str::len), Some(20_000));
}

/// Memory that doubles with every action ends at a limit.
#[test]
fn memory_has_a_limit() {
    let double = json!({ "type": "context.set", "data": { "a": ["{{workflow.a}}", "{{workflow.a}}"] } });
    let ran = World::new().act(vec![double; 60].into(), json!({}));
    assert!(["too_large", "memory_full"].contains(&ran.why().1), "{:?}", ran.why());
    let deeper = json!({ "type": "context.set", "data": { "a": { "b": { "c": "{{workflow.a}}" } } } });
    assert_eq!(World::new().act(vec![deeper; 60].into(), json!({})).why().1, "memory_full");
}
