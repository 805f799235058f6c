//! Arguments of tool calls as models write them, which is not always as the vendor documents them.

use serde::{Deserialize as _, Deserializer};
use serde_json::Value;

/// Arguments of a call that names none.
pub(super) fn none() -> String {
    "{}".into()
}

/// JSON text of whatever stands there. The policy answers what is no object: a call that could not be read would never be answered,
/// and its caller would wait for it.
pub(super) fn as_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Null => none(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Call {
        #[serde(default = "none", deserialize_with = "as_text")]
        arguments: String,
    }

    #[test]
    fn whatever_a_model_writes_is_a_call() {
        for (written, read) in [
            ("{}", "{}"),
            (r#"{"arguments":null}"#, "{}"),
            (r#"{"arguments":{"a":1}}"#, r#"{"a":1}"#),
            (r#"{"arguments":"{\"a\":1}"}"#, r#"{"a":1}"#),
            (r#"{"arguments":"the weather"}"#, "the weather"),
            (r#"{"arguments":[1,2]}"#, "[1,2]"),
        ] {
            assert_eq!(serde_json::from_str::<Call>(written).unwrap().arguments, read, "{written}");
        }
    }
}
