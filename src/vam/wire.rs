//! The messages of VAM/1.0, made from `proto/vani/v1` by `make proto`. Messages with a caller's voice, words, number or token in
//! them print as their name alone.

use crate::wall_clock;
use prost_types::{Struct, Value, value::Kind};
use serde_json::{Map, Number};
use std::fmt;

mod generated {
    #![allow(clippy::all, clippy::pedantic, missing_docs)]
    include!("../../proto/generated/vani.v1.rs");
}

pub use generated::*;

/// The descriptors of all messages and services, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("../../proto/generated/vani.v1.bin");

macro_rules! private {
    ($($name:ty),+ $(,)?) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+};
}

// As in `proto/generate`.
private!(
    ActionResultEnvelope,
    AudioChunk,
    ClientStreamMessage,
    GatewayStreamMessage,
    McpContent,
    McpToolCall,
    SessionInitRequest,
    SynthesisRequest,
    TranscriptEvent,
    client_stream_message::Payload,
    gateway_stream_message::Payload,
);

/// A whole number that a double holds exactly comes back without a fraction; others stay as they are.
const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53

/// JSON arguments as `google.protobuf.Struct`. A whole number that a double would alter goes as text, with all of its digits
/// (V answer 17).
pub fn to_struct(object: &Map<String, serde_json::Value>) -> Struct {
    Struct { fields: object.iter().map(|(name, value)| (name.clone(), to_value(value))).collect() }
}

fn to_value(value: &serde_json::Value) -> Value {
    let kind = match value {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(truth) => Kind::BoolValue(*truth),
        serde_json::Value::Number(number) if !is_exact(number) => Kind::StringValue(number.to_string()),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Kind::StringValue(text.clone()),
        serde_json::Value::Array(values) => {
            Kind::ListValue(prost_types::ListValue { values: values.iter().map(to_value).collect() })
        }
        serde_json::Value::Object(object) => Kind::StructValue(to_struct(object)),
    };
    Value { kind: Some(kind) }
}

/// Numbers are doubles to Struct: of whole ones these have all up to 2^53. What has a fraction or an exponent is one in JSON too.
fn is_exact(number: &Number) -> bool {
    let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    size.is_none_or(|size| size <= 1 << 53)
}

/// A `google.protobuf.Struct` as JSON. What JSON has no number for (infinite ones) is null.
pub fn from_struct(fields: Struct) -> Map<String, serde_json::Value> {
    fields.fields.into_iter().map(|(name, value)| (name, from_value(value))).collect()
}

fn from_value(value: Value) -> serde_json::Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::BoolValue(truth)) => truth.into(),
        Some(Kind::NumberValue(number)) => from_double(number),
        Some(Kind::StringValue(text)) => text.into(),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(from_value).collect(),
        Some(Kind::StructValue(fields)) => from_struct(fields).into(),
    }
}

fn from_double(number: f64) -> serde_json::Value {
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[allow(clippy::cast_possible_truncation)] // It is whole, and within 2^53.
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(serde_json::Value::Null, Into::into)
}

/// Now, as the messages tell time.
pub fn now() -> prost_types::Timestamp {
    wall_clock::system_time().into()
}

#[cfg(test)]
mod tests;
