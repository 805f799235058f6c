//! Conditions of `conditional` and `filter`.

use super::{fault::Fault, scene::Reading, template::ValueTemplate};
use crate::tool::memory::Path;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Test { left: Path, op: Op, right: Option<ValueTemplate> },
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
    In,
    NotIn,
    Contains,
    Exists,
    Empty,
    Truthy,
}

impl Op {
    pub(super) const ALL: [(&str, Self); 12] = [
        ("eq", Self::Eq),
        ("ne", Self::Ne),
        ("gt", Self::Gt),
        ("gte", Self::Gte),
        ("lt", Self::Lt),
        ("lte", Self::Lte),
        ("in", Self::In),
        ("not_in", Self::NotIn),
        ("contains", Self::Contains),
        ("exists", Self::Exists),
        ("empty", Self::Empty),
        ("truthy", Self::Truthy),
    ];
    /// As text conditions write them; longer ones first.
    pub(super) const SIGNS: [(&str, Self); 6] =
        [("==", Self::Eq), ("!=", Self::Ne), (">=", Self::Gte), ("<=", Self::Lte), (">", Self::Gt), ("<", Self::Lt)];

    /// Looks at the left side alone.
    pub(super) const fn unary(self) -> bool {
        matches!(self, Self::Exists | Self::Empty | Self::Truthy)
    }
}

impl Condition {
    pub(super) fn holds(&self, reading: &Reading<'_>) -> Result<bool, Fault> {
        Ok(match self {
            Self::Test { left, op, right } => {
                let found = reading.look(left);
                let left = found.as_deref().unwrap_or(&Value::Null);
                match right {
                    Some(right) => compare(left, *op, &right.fill(reading)?),
                    None => compare(left, *op, &Value::Null),
                }
            }
            Self::All(list) => !Self::some(list, false, reading)?,
            Self::Any(list) => Self::some(list, true, reading)?,
            Self::Not(one) => !one.holds(reading)?,
        })
    }

    /// One of them comes out like this.
    fn some(list: &[Self], wanted: bool, reading: &Reading<'_>) -> Result<bool, Fault> {
        for one in list {
            if one.holds(reading)? == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Paths it compares with something; whether a path is there at all tells no secret.
    pub(super) fn compared<'a>(&'a self, found: &mut Vec<&'a Path>) {
        match self {
            Self::Test { left, op, right } => {
                if !op.unary() {
                    found.push(left);
                }
                right.iter().for_each(|right| right.paths(found));
            }
            Self::All(list) | Self::Any(list) => list.iter().for_each(|one| one.compared(found)),
            Self::Not(one) => one.compared(found),
        }
    }

    pub(super) fn source(&self) -> Value {
        let list = |list: &[Self]| list.iter().map(Self::source).collect::<Vec<_>>();
        match self {
            Self::Test { left, op, right } => {
                let mut map = Map::new();
                map.insert("path".into(), left.to_string().into());
                map.insert("op".into(), super::definition::label(&Op::ALL, *op).into());
                if let Some(right) = right {
                    map.insert("value".into(), right.source());
                }
                Value::Object(map)
            }
            Self::All(conditions) => json!({ "all": list(conditions) }),
            Self::Any(conditions) => json!({ "any": list(conditions) }),
            Self::Not(one) => json!({ "not": one.source() }),
        }
    }
}

/// Numbers by value, texts by code point; an order between anything else is false.
pub(super) fn compare(left: &Value, op: Op, right: &Value) -> bool {
    let order = match (left, right) {
        (Value::Number(_), Value::Number(_)) => number_order(left, right),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match op {
        Op::Eq => same(left, right),
        Op::Ne => !same(left, right),
        Op::Gt => order.is_some_and(|order| order.is_gt()),
        Op::Gte => order.is_some_and(|order| order.is_ge()),
        Op::Lt => order.is_some_and(|order| order.is_lt()),
        Op::Lte => order.is_some_and(|order| order.is_le()),
        Op::In => contains(right, left) == Some(true),
        Op::NotIn => contains(right, left) == Some(false),
        Op::Contains => contains(left, right) == Some(true),
        Op::Exists => !left.is_null(),
        Op::Empty => is_empty(left),
        Op::Truthy => truthy(left),
    }
}

/// Equal, where `1` and `1.0` are.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => number_order(a, b).is_some_and(|order| order.is_eq()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, value)| b.get(name).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}

/// Whole numbers exactly, others as floating point.
pub(super) fn number_order(a: &Value, b: &Value) -> Option<std::cmp::Ordering> {
    let whole = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// `None`: `container` is none.
fn contains(container: &Value, value: &Value) -> Option<bool> {
    match (container, value) {
        (Value::Array(list), value) => Some(list.iter().any(|item| same(item, value))),
        (Value::String(text), Value::String(part)) => Some(text.contains(part.as_str())),
        (Value::Object(map), Value::String(name)) => Some(map.contains_key(name)),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

pub(super) fn truthy(value: &Value) -> bool {
    match value {
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        other => !is_empty(other),
    }
}
