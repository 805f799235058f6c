//! What holds for any definition, any memory and any value.

use super::*;
use crate::tool::memory::{Change, ITEMS_MAX, Scope, Target};
use proptest::prelude::*;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let name = prop_oneof![prop::sample::select(WORDS).prop_map(str::to_owned), "[a-z\\[\\]+.{}]{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Words of the language, so that random documents get past its door.
const WORDS: &[&str] = &[
    "type",
    "path",
    "value",
    "data",
    "key",
    "url",
    "body",
    "then",
    "else",
    "condition",
    "all",
    "not",
    "op",
    "eq",
    "in",
    "source",
    "operation",
    "map",
    "template",
    "target",
    "function",
    "rules",
    "param",
    "pattern",
    "message",
    "flag",
    "{{params}}",
    "{{workflow.a}}",
    "workflow.a",
    "{{item}}",
    "{{workflow.a[0]}}",
    "https://api.example/{{params.x}}",
    "context.set",
    "context.get",
    "context.delete",
    "api_call",
    "respond",
    "conditional",
    "validate",
    "transform",
    "log",
    "workflow.a > 1",
    "a[+]",
    "a[0].b",
    "flags.f",
    "user.auth_token",
    "(((",
    "filter",
    "reduce",
    "sum",
    "x",
];

/// An action that has a good chance to be right.
fn any_action() -> impl Strategy<Value = Value> {
    let path =
        || prop::sample::select(&["a", "a.b", "a[+]", "a[0]", "a.b[-1].c", "flags.f", "agents.meal.x", "b.c.d"][..]);
    let set =
        (path(), any_json()).prop_map(|(path, value)| json!({ "type": "context.set", "path": path, "value": value }));
    let delete = path().prop_map(|path| json!({ "type": "context.delete", "path": path }));
    let set_flag = any::<bool>().prop_map(|value| json!({ "type": "flag.set", "flag": "f", "value": value }));
    let copy = (path(), prop::sample::select(&["{{workflow}}", "{{workflow.a}}", "{{params}}", "{{result}}"][..]))
        .prop_map(|(path, value)| json!({ "type": "context.set", "path": path, "value": [value] }));
    let call = (path(), any::<bool>()).prop_map(|(path, goes_on)| {
        let on_error = if goes_on { "continue" } else { "fail" };
        json!({ "type": "api_call", "url": "https://api.example/", "on_error": on_error, "response_path": path })
    });
    let transform = path().prop_map(|path| {
        json!({ "type": "transform", "source": "workflow.a", "operation": "map", "template": "{{item}}", "target": path })
    });
    let wrapped = (any_json(), any_json()).prop_map(|(kind, fields)| {
        let mut action = fields.as_object().cloned().unwrap_or_default();
        action.insert("type".into(), kind);
        Value::Object(action)
    });
    prop_oneof![3 => set, 1 => delete, 1 => set_flag, 2 => copy, 1 => call, 1 => transform, 1 => wrapped]
}

fn runs(world: &World, actions: &[Value], on_failure: &[Value]) -> Option<Ran> {
    let mut definition = tool(actions.to_vec().into(), &json!({ "x": "" }));
    definition["on_failure"] = on_failure.to_vec().into();
    world.read(&definition).is_ok().then(|| world.run(&definition, json!({ "x": "value" })))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// D5: whatever is given as a definition, there is an answer.
    #[test]
    fn any_document_is_read_or_refused(document in any_json(), actions in prop::collection::vec(any_action(), 0..6)) {
        let world = World::new();
        let problems = world.read(&document).err();
        prop_assert!(problems.is_none_or(|problems| !problems.is_empty()));
        let definition = tool(actions.into(), &json!({ "x": "" }));
        if let Ok(read) = world.read(&definition) {
            let again = world.read(&read.to_json());
            prop_assert_eq!(again.as_ref(), Ok(&read), "what is written is read as the same");
        }
    }

    /// D13, D14: whatever a tool does, it ends, and what it changed can be made again from its
    /// changes: the outcome's view is the run's own.
    #[test]
    fn changes_replay_to_the_runs_own_view(
        actions in prop::collection::vec(any_action(), 1..8),
        body in any_json(),
        fails in any::<bool>(),
    ) {
        let first = if fails { refusal(ToolError::Transient, None, 1) } else { answer(200, body) };
        let world = World::new().answering([first]);
        let mut actions = actions;
        actions.push(json!({ "type": "context.get", "path": ["workflow", "flags", "agents"] }));
        // `run` itself checks that every change can be made.
        if let Some(ran) = runs(&world, &actions, &[])
            && let Some(last) = ran.report.trace.last()
            && last.kind == "context.get"
            && last.action == format!("actions[{}]", actions.len() - 1)
        {
            prop_assert_eq!(&last.data["workflow"], &Value::Object(ran.memory.workflow.clone()));
            prop_assert_eq!(&last.data["flags"], &Value::Object(ran.memory.flags.clone()));
            prop_assert_eq!(&last.data["agents"], &Value::Object(ran.memory.agents.clone()));
        }
    }

    /// D answer 9: a failed run's changes can be made without the rest of it.
    #[test]
    fn changes_of_a_failure_can_be_made(
        actions in prop::collection::vec(any_action(), 0..4),
        ending in prop::collection::vec(any_action().prop_filter("allowed", |action| action["type"] != "api_call"), 0..4),
    ) {
        let mut actions = actions;
        actions.push(json!({ "type": "validate", "rules": [{ "path": "workflow.none", "required": true }] }));
        if let Some(ran) = runs(&World::new(), &actions, &ending) {
            prop_assert!(ran.report.outcome.error().is_some());
        }
    }

    /// D answer 5: a value is never read as a template, wherever it goes.
    #[test]
    fn values_are_not_templates(text in "[a-z {}.]{0,20}(\\{\\{(user\\.name|params|now)\\}\\}){1,2}[a-z{}]{0,5}") {
        let definition = json!({
            "name": "t", "description": "d", "parameters": [{ "name": "v", "type": "string" }],
            "actions": [
                { "type": "context.set", "data": { "a": "{{params.v}}", "b": ["{{params.v}}"], "c": "{{params.v}}" } },
                { "type": "context.set", "data": { "d": "{{workflow.a}}{{workflow.c}}" } },
                { "type": "api_call", "url": "https://api.example/?q={{workflow.a}}", "body": "{{workflow.b}}" },
                { "type": "transform", "source": "b", "operation": "map", "template": "{{item}}", "target": "e" },
                { "type": "respond", "message": "{{workflow.a}}" },
            ],
        });
        let ran = World::new().run(&definition, json!({ "v": text }));
        prop_assert_eq!(ran.workflow("a"), &json!(text));
        prop_assert_eq!(ran.workflow("d"), &json!(format!("{text}{text}")));
        prop_assert_eq!(ran.workflow("e"), &json!([text]));
        prop_assert_eq!(&ran.asked[0].body, &Some(json!([text])));
        prop_assert_eq!(ran.message(), text.trim());
        let url = url::Url::parse(&ran.asked[0].url).unwrap();
        prop_assert_eq!(url.query_pairs().next().map(|(_, value)| value.into_owned()), Some(text));
    }

    /// D answer 10: whatever a value holds, a request goes to the host and below the path that the
    /// definition wrote.
    #[test]
    fn values_stay_below_the_path(value in "(\\PC|[/?#@:\\\\.%\\r\\n]){1,20}") {
        let url = "https://api.example/fixed/{{params.v}}/end?q={{params.v}}";
        let ran = World::new().act(json!([{ "type": "api_call", "url": url, "method": "GET" }]), json!({ "v": value }));
        if let Some(request) = ran.asked.first() {
            let url = url::Url::parse(&request.url).unwrap();
            let segments: Vec<_> = url.path_segments().unwrap().collect();
            prop_assert_eq!(url.host_str(), Some("api.example"));
            prop_assert_eq!((segments.len(), segments[0], segments[2]), (3, "fixed", "end"));
            prop_assert_eq!(url.query_pairs().next().map(|(_, value)| value.into_owned()), Some(value));
        } else {
            prop_assert!(value == "." || value == "..", "{:?}: {:?}", value, ran.report.outcome);
        }
    }

    /// D answer 6: a path prints as it was read.
    #[test]
    fn paths_print_as_they_are_read(text in "(workflow|params|agents|a|item)(\\.[a-z-]{1,3}|\\[-?[0-9]{1,2}\\]){0,5}(\\[\\+\\])?") {
        if let Ok(path) = crate::tool::memory::Path::parse(&text, Scope::Item) {
            prop_assert_eq!(crate::tool::memory::Path::parse(&path.to_string(), Scope::Item), Ok(path));
        }
        if let Ok(target) = Target::parse(&text) {
            prop_assert_eq!(Target::parse(&target.to_string()), Ok(target));
        }
    }

    /// D answer 9: a change is made whole or not at all, and any text for a path is survived.
    #[test]
    fn a_change_is_made_whole_or_not_at_all(
        workflow in any_json(),
        path in "(workflow\\.)?[ab](\\.[abc]|\\[-?[0-3]\\]){0,4}",
        value in any_json(),
        kind in 0..3,
        noise in "\\PC{0,20}",
    ) {
        let mut memory = World::new().memory;
        memory.workflow.insert("a".into(), workflow);
        let before = memory.clone();
        let change = match kind {
            0 => Change::Set { path: path.clone(), value: value.clone() },
            1 => Change::Append { path: path.clone(), value },
            _ => Change::Delete { path: path.clone() },
        };
        if memory.write(&change).is_err() {
            prop_assert_eq!(&memory, &before);
        }
        let _ = memory.write(&Change::Set { path: noise, value: Value::Null });
    }
}

/// D answer 14: an array that grows by `[+]` stops at a thousand items.
#[test]
fn arrays_stop_growing() {
    let mut memory = Memory::default();
    let append = Change::Append { path: "workflow.a".into(), value: json!(0) };
    assert_eq!(memory.apply(&vec![append; ITEMS_MAX + 2]).len(), 2);
    assert_eq!(memory.workflow["a"].as_array().map(Vec::len), Some(ITEMS_MAX));
}

/// D answer 8: roots that are not kept in memory, or not written, are refused by memory itself.
#[test]
fn memory_refuses_read_only_roots() {
    let mut memory = Memory::default();
    let set = |path: &str| Change::Set { path: path.into(), value: json!(true) };
    for path in [
        "tenant.a",
        "params.a",
        "call.id",
        "result",
        "now",
        "workflow",
        "flags",
        "agents.meal",
        "history.a",
        "",
        "flags.a.b",
    ] {
        assert!(memory.write(&set(path)).is_err(), "{path}");
    }
    assert_eq!(memory, Memory::default());
}
