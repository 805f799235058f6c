//! JSON messages, as the codecs of several vendors read and write them.

use super::Wire;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// What a message did not have, so that it cannot be read.
#[derive(Debug)]
pub(super) struct Malformed;

impl From<serde_json::Error> for Malformed {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

/// What a message is called, before it is read as a whole.
#[derive(Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
}

pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Malformed> {
    Ok(serde_json::from_slice(json)?)
}

pub(super) fn text(message: &Value) -> Wire {
    Wire::Text(message.to_string())
}

/// Adds the optional fields that have a value.
pub(super) fn with_known<const N: usize>(mut object: Value, fields: [(&str, Option<Value>); N]) -> Value {
    for (name, value) in fields {
        if let Some(value) = value {
            object[name] = value;
        }
    }
    object
}
