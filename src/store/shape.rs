//! From what a client or a file says to the one shape that is kept: a flat object.

use crate::http::Problem;
use serde_json::{Map, Value};

/// What the API shows beside a definition; a client may send it back, and it means nothing then.
const SHOWN_ONLY: [&str; 2] = ["id", "created_at"];

/// D answer 2: a tool is flat, or has its parts in `config`. Both are read.
pub(super) fn flat(value: Value) -> Result<Map<String, Value>, Vec<Problem>> {
    let Value::Object(mut object) = value else {
        return Err(vec![Problem::new("", "a tool is an object")]);
    };
    for name in SHOWN_ONLY {
        object.shift_remove(name);
    }
    match object.shift_remove("config") {
        None => Ok(object),
        Some(Value::Object(config)) => {
            let twice = config.keys().filter(|name| object.contains_key(*name));
            let problems: Vec<_> =
                twice.map(|name| Problem::new(format!("config.{name}"), "stands beside config as well")).collect();
            if !problems.is_empty() {
                return Err(problems);
            }
            object.extend(config);
            Ok(object)
        }
        Some(_) => Err(vec![Problem::new("config", "has to be an object")]),
    }
}

/// RFC 7396.
pub(super) fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.shift_remove(&name);
            }
            Value::Object(patch) => {
                let mut inner = match target.get_mut(&name).map(Value::take) {
                    Some(Value::Object(inner)) => inner,
                    _ => Map::new(),
                };
                merge(&mut inner, patch);
                target.insert(name, Value::Object(inner));
            }
            value => {
                target.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// D answer 2: flat and with `config`, kept flat.
    #[test]
    fn both_shapes_become_the_flat_one() {
        let flat_one = json!({ "name": "a", "description": "b", "parameters": [], "actions": [1] });
        let shown = json!({ "id": "x", "created_at": "y", "name": "a", "description": "b",
            "config": { "parameters": [], "actions": [1] } });
        assert_eq!(flat(shown), flat(flat_one));
        let twice = flat(json!({ "name": "a", "actions": [], "config": { "actions": [] } })).unwrap_err();
        assert_eq!(twice[0].path, "config.actions");
        for wrong in [json!([]), json!("x"), json!(null), json!({ "config": null }), json!({ "config": [] })] {
            assert!(flat(wrong).is_err());
        }
    }

    /// D answer 29: `PATCH` is a merge patch; the cases are RFC 7396's own (appendix A) for objects.
    #[test]
    fn patches_merge_as_the_rfc_has_it() {
        for (target, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            let (Value::Object(mut merged), Value::Object(patch)) = (target, patch) else { panic!("objects") };
            merge(&mut merged, patch);
            assert_eq!(Value::Object(merged), result);
        }
    }
}
