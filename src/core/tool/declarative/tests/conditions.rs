//! `conditional` and `validate`.

use super::*;

fn holds_in(world: &World, condition: &Value, arguments: Value) -> bool {
    let ran = world.act(
        json!([{
            "type": "conditional", "condition": condition,
            "then": [{ "type": "respond", "message": "yes" }], "else": [{ "type": "respond", "message": "no" }],
        }]),
        arguments,
    );
    ran.message() == "yes"
}

fn holds(condition: Value, arguments: Value) -> bool {
    holds_in(&World::new(), &condition, arguments)
}

/// D9, D answer 13: a path alone is asked whether it is truthy.
#[test]
fn truthiness() {
    for falsy in [json!(null), json!(false), json!(0), json!(0.0), json!(""), json!([]), json!({})] {
        assert!(!holds(json!("params.v"), json!({ "v": falsy })), "{falsy}");
    }
    for truthy in [json!(true), json!(-1), json!("0"), json!([0]), json!({ "a": null })] {
        assert!(holds(json!("{{params.v}}"), json!({ "v": truthy })), "{truthy}");
    }
    assert!(!holds(json!("flags.skip_meal"), json!({})));
}

/// D answer 13: each operator, with numbers by value, texts by code point and other mixes false.
#[test]
fn operators() {
    let cases = [
        (json!(2), "eq", json!(2.0), true),
        (json!(2), "ne", json!(2.0), false),
        (json!("2"), "eq", json!(2), false),
        (json!("2"), "ne", json!(2), true),
        (json!([1, { "a": 1.0 }]), "eq", json!([1.0, { "a": 1 }]), true),
        (json!(10), "gt", json!(9), true),
        (json!("10"), "gt", json!("9"), false),
        (json!("b"), "gte", json!("B"), true),
        (json!(9_007_199_254_740_993_i64), "gt", json!(9_007_199_254_740_992_i64), true),
        (json!(1), "lt", json!(1.5), true),
        (json!(1), "lte", json!(1), true),
        (json!("1"), "lt", json!(2), false),
        (json!(true), "gt", json!(false), false),
        (json!("b"), "in", json!(["a", "b"]), true),
        (json!("b"), "in", json!("abc"), true),
        (json!("b"), "in", json!({ "b": 1 }), true),
        (json!("b"), "in", json!(5), false),
        (json!("c"), "not_in", json!(["a", "b"]), true),
        (json!("c"), "not_in", json!(5), false),
        (json!([1, 2]), "contains", json!(2.0), true),
        (json!("abc"), "contains", json!("d"), false),
    ];
    for (left, op, right, expected) in cases {
        let condition = json!({ "path": "params.v", "op": op, "value": right });
        assert_eq!(holds(condition.clone(), json!({ "v": left })), expected, "{left} {condition}");
        let other_names = json!({ "left": "{{params.v}}", "op": op, "right": "{{params.w}}" });
        assert_eq!(holds(other_names, json!({ "v": left, "w": right })), expected, "{left} {condition}");
    }
    for (op, value, expected) in [
        ("exists", json!(false), true),
        ("exists", json!(null), false),
        ("empty", json!([]), true),
        ("empty", json!(0), false),
        ("empty", json!(null), true),
        ("truthy", json!(0), false),
    ] {
        assert_eq!(holds(json!({ "path": "params.v", "op": op }), json!({ "v": value })), expected, "{op}");
    }
}

/// D answer 13: what an operator compares with is needed by some and refused by others.
#[test]
fn operators_know_their_operands() {
    let problem = |condition: Value| {
        World::new().problems(json!([{ "type": "conditional", "condition": condition, "then": [] }])).join("\n")
    };
    let at = "actions[0].condition";
    assert_eq!(problem(json!({ "path": "params.x", "op": "eq" })), format!("{at}.value: is needed"));
    assert_eq!(
        problem(json!({ "path": "params.x", "op": "exists", "right": false })),
        format!("{at}.right: is compared with nothing by this op")
    );
    assert!(problem(json!({ "path": "params.x", "op": "equals", "value": 1 })).contains("has to be one of eq, ne"));
    assert!(problem(json!({ "all": [], "op": "eq" })).contains("condition.op: is not a field here"));
}

/// D answer 13: all, any and not.
#[test]
fn conditions_of_conditions() {
    let (yes, no) = (json!("workflow.count"), json!("workflow.none"));
    assert!(holds(json!({ "all": [yes, yes] }), json!({})));
    assert!(!holds(json!({ "all": [yes, no] }), json!({})));
    assert!(holds(json!({ "any": [no, { "not": no }] }), json!({})));
    assert!(!holds(json!({ "any": [no, { "not": { "all": [] } }] }), json!({})));
    let deep = (0..9).fold(yes, |condition, _| json!({ "not": condition }));
    assert_eq!(World::new().problems(json!([{ "type": "conditional", "condition": deep, "then": [] }])).len(), 1);
}

/// D answer 13: the text form with one operator.
#[test]
fn conditions_as_text() {
    let mut world = World::new();
    world.memory.workflow.insert("a-b".into(), json!("a > b"));
    for (text, expected) in [
        ("params.meal == 'lunch'", true),
        ("params.meal=='dinner'", false),
        ("{{params.meal}} != \"dinner\"", true),
        ("workflow.count >= 2", true),
        ("workflow.count<2", false),
        ("workflow.count > -1.5", true),
        ("workflow.none == null", true),
        ("workflow.count == params.two", true),
        ("workflow.a-b == 'a > b'", true),
    ] {
        assert_eq!(holds_in(&world, &json!(text), json!({ "meal": "lunch", "two": 2 })), expected, "{text}");
    }
    for wrong in [
        "",
        "count == 2",
        "workflow.a = 1",
        "workflow.a == lunch",
        "workflow.a == 1 && workflow.b",
        "== 1",
        "workflow.a ==",
    ] {
        let problems = world.problems(json!([{ "type": "conditional", "condition": wrong, "then": [] }]));
        assert_eq!(problems.len(), 1, "{wrong}");
    }
}

/// D answer 13: branches hold actions of every kind, to a depth of four; the ends of it are told
/// when the tool is saved.
#[test]
fn branches_in_branches() {
    let nest = |depth: usize| {
        (0..depth).fold(
            json!({ "type": "respond", "message": "deep" }),
            |inner, _| json!({ "type": "conditional", "condition": "workflow.count", "then": [inner] }),
        )
    };
    assert_eq!(World::new().act(json!([nest(4)]), json!({})).message(), "deep");
    let problems = World::new().problems(json!([nest(5)]));
    assert_eq!(problems, ["actions[0].then[0].then[0].then[0].then[0]: branches in branches; at most 4 deep"]);
    let ran = World::new().act(
        json!([
            { "type": "conditional", "condition": "workflow.none", "then": [], "else": [
                { "type": "validate", "rules": [{ "path": "workflow.count", "max": 1 }] },
            ]},
            { "type": "respond", "message": "never" },
        ]),
        json!({}),
    );
    assert_eq!(ran.failure().details["action"], "actions[0].else[0]");
}

/// D13, D14, D answer 13: at most 64 actions, so at most 64 in any run.
#[test]
fn actions_are_counted_with_their_branches() {
    let say = |count: usize| vec![json!({ "type": "respond", "message": "x" }); count];
    let actions = json!([{ "type": "conditional", "condition": "workflow.count", "then": say(30), "else": say(30) }]);
    let mut definition = tool(actions, &json!({}));
    definition["on_success"] = say(3).into();
    assert_eq!(World::new().problems_of(&definition), [""; 0]);
    definition["on_failure"] = say(1).into();
    assert_eq!(World::new().problems_of(&definition), ["actions: 65 actions, branches included; at most 64"]);
}

fn complaint(rule: Value, value: Value) -> Option<String> {
    let mut rule = rule;
    rule["param"] = "v".into();
    let ran = World::new().act(json!([{ "type": "validate", "rules": [rule] }]), json!({ "v": value }));
    ran.report.outcome.error().map(|kind| {
        assert_eq!(kind, ToolError::Validation);
        ran.failure().message.clone()
    })
}

/// D9, D answer 11: every rule passes and fails.
#[test]
fn rules_of_validate() {
    for (rule, good, bad) in [
        (json!({ "required": true }), json!(0), json!(null)),
        (json!({ "required": true }), json!("a"), json!("")),
        (json!({ "type": "integer" }), json!(3.0), json!(3.5)),
        (json!({ "type": "array" }), json!([]), json!("[]")),
        (json!({ "enum": ["a", 2] }), json!(2.0), json!("b")),
        (json!({ "min": 2 }), json!(2), json!(1.9)),
        (json!({ "min": 2 }), json!(3), json!("3")),
        (json!({ "max": 2.5 }), json!(2.5), json!(3)),
        (json!({ "min_length": 2 }), json!("éé"), json!("é")),
        (json!({ "min_length": 1 }), json!([0]), json!([])),
        (json!({ "max_length": 2 }), json!("éé"), json!("abc")),
        (json!({ "pattern": "[0-9]{3}|x" }), json!("123"), json!("0123")),
        (json!({ "pattern": "a|b" }), json!("b"), json!("bc")),
        (json!({ "pattern": "a" }), json!("a"), json!("a\n")),
        (json!({ "pattern": "1" }), json!("1"), json!(1)),
        (json!({ "equals": "{{user.id}}" }), json!("u-1"), json!("u-2")),
        (json!({ "not_equals": 2 }), json!(3), json!(2.0)),
    ] {
        assert_eq!(complaint(rule.clone(), good.clone()), None, "{rule} {good}");
        assert!(complaint(rule.clone(), bad.clone()).is_some(), "{rule} {bad}");
        assert_eq!(
            complaint(rule.clone(), json!(null)).is_some(),
            rule.get("required").is_some(),
            "what is not there is optional"
        );
    }
    assert_eq!(complaint(json!({ "min": 2 }), json!(1)).as_deref(), Some("v has to be at least 2."));
}

/// D answer 11: the first failing rule ends the run with its own words.
#[test]
fn the_first_failing_rule_speaks() {
    let ran = World::new().act(
        json!([{ "type": "validate", "rules": [
            { "param": "a", "type": "string" },
            { "path": "workflow.count", "max": 1, "message": "Already {{workflow.count}} of them." },
            { "param": "a", "equals": "z", "message": "no" },
        ]}]),
        json!({ "a": "b" }),
    );
    assert_eq!(ran.failure().message, "Already 2 of them.");
    assert_eq!(ran.why(), (ToolError::Validation, "rule"));
}

/// Patterns are bounded before they are used; matching takes linear time whatever the pattern.
#[test]
fn hostile_patterns() {
    let with = |pattern: &str| {
        World::new().problems(json!([{ "type": "validate", "rules": [{ "param": "x", "pattern": pattern }] }]))
    };
    assert_eq!(
        with("(((a{100}){100}){100})"),
        ["actions[0].rules[0].pattern: is too large a pattern", "actions[0].rules[0]: has no rule"]
    );
    let many = vec![json!({ "param": "x", "pattern": "a" }); 33];
    let problems = World::new().problems(json!([{ "type": "validate", "rules": many }]));
    assert_eq!(problems[0], "actions[0].rules[32].pattern: one pattern too many; at most 32 in a tool");
    assert_eq!(with("(")[0], "actions[0].rules[0].pattern: is no regular expression");
    assert_eq!(with(")(")[0], "actions[0].rules[0].pattern: is no regular expression");
    assert!(complaint(json!({ "pattern": "(a+)+" }), json!(format!("{}!", "a".repeat(50_000)))).is_some());
}
