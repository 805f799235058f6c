//! `docs/declarative-tools.md` says what is so.

use super::*;
use crate::tool::{
    CallAction,
    declarative::{
        ACTIONS_MAX, BRANCH_DEPTH_MAX, DEFINITION_BYTES_MAX, VOICE_TIMEOUT_CAP,
        condition::Op,
        definition::{Action, Kind},
        transform::Function,
    },
    memory::{ITEMS_MAX, MEMORY_BYTES_MAX},
};

const PAGE: &str = include_str!("../../../../../docs/declarative-tools.md");

fn examples() -> Vec<Value> {
    let blocks = PAGE.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|block| serde_json::from_str(block).expect("an example is JSON")).collect()
}

/// D8, D16, D17: the examples run as the page says.
#[test]
fn the_examples_run() {
    let [meal, appointments, order] = examples().try_into().expect("three examples");
    let ran = World::new().run(&meal, json!({ "meal_type": "dinner", "dishes": ["soup"] }));
    assert_eq!(ran.message(), "I've logged your dinner!");
    assert_eq!(ran.workflow("logged_meals")[0]["dishes"], json!(["soup"]));

    let free = |hours: &[u64]| {
        answer(200, json!({ "free": hours.iter().map(|hour| json!({ "hour": hour })).collect::<Vec<_>>() }))
    };
    let world = World::new().answering([free(&[9, 14, 16]), free(&[9])]);
    let ran = world.run(&appointments, json!({ "day": "2025-06-15" }));
    assert_eq!(ran.spoken_at_once, ["One moment, I look it up."]);
    assert_eq!(ran.done().data, json!(["14 o'clock", "16 o'clock"]));
    assert!(ran.message().ends_with(r#"Free are ["14 o'clock","16 o'clock"]."#), "{}", ran.message());
    let ran = world.run(&appointments, json!({ "day": "2025-06-16" }));
    assert!(ran.message().ends_with("nothing free that afternoon."), "{}", ran.message());
    assert_eq!(world.run(&appointments, json!({ "day": "tomorrow" })).failure().message, "Which day is it?");

    let world = World::new().answering([refusal(ToolError::Transient, None, 4)]);
    let ran = world.run(&order, json!({ "items": [{ "count": 90 }, { "count": 20 }] }));
    assert_eq!((ran.message(), ran.workflow("total")), ("That is 110 in all.", &json!(110)));
    assert!(matches!(&ran.done().actions[1], CallAction::Handoff { target, .. } if target == "sales"));
    let ran = world.run(&order, json!({ "items": [{ "count": 1 }] }));
    assert_eq!((ran.message(), ran.done().actions.len()), ("That is 1 in all.", 0));
}

/// D9, D16: every word of the language is on the page, and the limits are those of the code.
#[test]
fn the_page_is_complete() {
    let words = Action::TYPES.into_iter();
    let words = words.chain(Kind::ALL.map(|(name, _)| name)).chain(Op::ALL.map(|(name, _)| name));
    let words = words.chain(Function::ALL.map(|(name, _)| name)).chain(Method::ALL.map(|(name, _)| name));
    for word in words {
        assert!(PAGE.contains(&format!("`{word}`")), "{word}");
    }
    for line in [
        format!("| actions of a tool, branches and endings included | {ACTIONS_MAX} |"),
        format!("| branches in branches | {BRANCH_DEPTH_MAX} |"),
        format!("| definition | {} KiB, 64 levels |", DEFINITION_BYTES_MAX / 1024),
        format!("| items of a list that is transformed or appended to | {ITEMS_MAX} |"),
        format!("| memory of a call | {} MiB, 64 levels |", MEMORY_BYTES_MAX / 1024 / 1024),
        format!("have {} seconds (the tenant's `request_time`)", VOICE_TIMEOUT_CAP.as_secs()),
    ] {
        assert!(PAGE.contains(&line), "{line}");
    }
}

/// D answer 24: every reason that a failure can give is on the page.
#[test]
fn reasons_are_listed() {
    let code = [
        include_str!("../address.rs"),
        include_str!("../fault.rs"),
        include_str!("../request.rs"),
        include_str!("../run.rs"),
        include_str!("../scene.rs"),
        include_str!("../template.rs"),
        include_str!("../transform.rs"),
        include_str!("../validate.rs"),
    ];
    let reason = |call: &str, after: usize| {
        let pieces: Vec<&str> = call.split('"').collect();
        let inside = call.split(')').next().unwrap_or_default();
        inside.contains('"').then(|| pieces.get(after).copied().unwrap_or_default().to_owned())
    };
    let mut reasons = Vec::new();
    for text in code {
        reasons.extend(text.split("Fault::permanent(").skip(1).filter_map(|call| reason(call, 1)));
        reasons.extend(text.split("Fault::new(ToolError::").skip(1).filter_map(|call| reason(call, 1)));
    }
    assert!(reasons.len() > 15, "{reasons:?}");
    for reason in reasons {
        assert!(PAGE.contains(&format!("`{reason}`")), "{reason}");
    }
}
