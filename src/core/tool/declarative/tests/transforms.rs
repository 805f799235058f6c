//! `transform`.

use super::*;

fn transformed(mut transform: Value, list: Value) -> Ran {
    transform["type"] = "transform".into();
    transform["source"] = "{{params.list}}".into();
    let mut world = World::new();
    world.memory.workflow.insert("limit".into(), json!(100));
    world.act(json!([transform]), json!({ "list": list }))
}

fn meals() -> Value {
    json!([
        { "name": "rice", "kcal": 200, "by": { "who": "Ann" } },
        { "name": "tea", "kcal": 2.5 },
        { "name": "dal", "kcal": 150, "by": { "who": "Bob" } },
    ])
}

/// D9, D answer 14: map, with the item and its place.
#[test]
fn map_fills_a_template_per_item() {
    let ran = transformed(json!({ "operation": "map", "template": "{{index}}: {{item.name}}" }), meals());
    assert_eq!(ran.done().data, json!(["0: rice", "1: tea", "2: dal"]));
    let template = json!({ "n": "{{item.name}}", "cook": "item.by.who", "limit": "{{workflow.limit}}" });
    let ran = transformed(json!({ "operation": "map", "template": template, "target": "out" }), meals());
    assert_eq!(ran.workflow("out")[0], json!({ "n": "rice", "cook": "Ann", "limit": 100 }));
    assert_eq!(ran.workflow("out")[1]["cook"], "item.by.who", "a path without braces that leads nowhere is a text");
}

/// D9, D answer 14: filter, by a condition on the item.
#[test]
fn filter_keeps_what_holds() {
    let names = |condition: Value| {
        let ran = transformed(json!({ "operation": "filter", "condition": condition }), meals());
        ran.done().data.as_array().unwrap().iter().map(|item| item["name"].clone()).collect::<Value>()
    };
    assert_eq!(
        names(json!({ "path": "item.kcal", "op": "gt", "value": "{{workflow.limit}}" })),
        json!(["rice", "dal"])
    );
    assert_eq!(names(json!("item.by.who == 'Bob'")), json!(["dal"]));
    assert_eq!(names(json!("index")), json!(["tea", "dal"]));
}

/// D9, D answer 14: reduce, with each function.
#[test]
fn reduce_makes_one_value() {
    let reduce = |function: &str, field: Option<&str>, list: Value| {
        let mut transform = json!({ "operation": "reduce", "function": function });
        if let Some(field) = field {
            transform["field"] = field.into();
        }
        transformed(transform, list)
    };
    let value = |function: &str, field, list| reduce(function, field, list).done().data.clone();
    assert_eq!(value("sum", Some("kcal"), meals()), json!(352.5));
    assert_eq!(value("sum", None, json!([1, 2, 3])), json!(6));
    assert_eq!(value("sum", None, json!([i64::MAX, 1])), json!(i64::MAX as f64 + 1.0));
    assert_eq!(value("min", Some("kcal"), meals()), json!(2.5));
    assert_eq!(value("max", Some("name"), meals()), json!("tea"));
    assert_eq!(value("max", None, json!([])), json!(null));
    assert_eq!(value("count", Some("by.who"), meals()), json!(2));
    assert_eq!(value("first", Some("item.name"), meals()), json!("rice"));
    assert_eq!(value("last", None, json!([1, 2])), json!(2));
    assert_eq!(value("concat", Some("name"), meals()), json!("riceteadal"));
    assert_eq!(value("concat", None, json!([[1], 2, [3, 4]])), json!([1, 2, 3, 4]));
    assert_eq!(reduce("sum", None, json!([1, "2"])).why(), (ToolError::Permanent, "not_a_number"));
    assert_eq!(reduce("max", None, json!([1, "2"])).why().1, "not_a_number");
    assert_eq!(reduce("min", None, json!([null])).why().1, "not_a_number");
}

/// D answer 14: pick, count and join.
#[test]
fn pick_count_join() {
    let value = |transform: Value, list: Value| transformed(transform, list).done().data.clone();
    let pick = json!({ "operation": "pick", "fields": ["name", "none"] });
    assert_eq!(value(pick.clone(), meals()), json!([{ "name": "rice" }, { "name": "tea" }, { "name": "dal" }]));
    assert_eq!(value(pick.clone(), json!({ "name": "rice", "kcal": 1 })), json!({ "name": "rice" }));
    assert_eq!(transformed(pick, json!([1])).why().1, "not_an_object");
    assert_eq!(value(json!({ "operation": "count" }), meals()), json!(3));
    assert_eq!(value(json!({ "operation": "join", "field": "name" }), meals()), json!("rice, tea, dal"));
    assert_eq!(value(json!({ "operation": "join", "separator": "" }), json!([1, "a", null])), json!("1a"));
}

/// D answer 14: what is no list fails, and so does one of more than 1000 items.
#[test]
fn sources() {
    let count = json!({ "operation": "count" });
    assert_eq!(transformed(count.clone(), json!("text")).why(), (ToolError::Permanent, "not_an_array"));
    assert_eq!(transformed(count.clone(), json!({ "a": 1 })).why().1, "not_an_array");
    assert_eq!(transformed(count.clone(), json!(vec![0; 1000])).done().data, 1000);
    assert_eq!(transformed(count, json!(vec![0; 1001])).why(), (ToolError::Permanent, "too_many_items"));
    let missing = json!([{ "type": "transform", "source": "never", "operation": "count" }]);
    assert_eq!(World::new().act(missing, json!({})).why().1, "not_an_array");
    let written_out = json!([{ "type": "transform", "source": ["{{user.name}}", "x"], "operation": "join" }]);
    assert_eq!(World::new().act(written_out, json!({})).done().data, "Ann, x");
}

/// A template that copies the list once per item ends at a limit.
#[test]
fn transforms_do_not_multiply() {
    let list = vec!["0123456789"; 1000];
    let ran = transformed(json!({ "operation": "map", "template": "{{params.list}}" }), json!(list));
    assert_eq!(ran.why(), (ToolError::Permanent, "too_large"));
}
