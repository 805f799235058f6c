//! `transform`: one operation over one array.

use super::{
    condition::{Condition, number_order},
    fault::Fault,
    scene::Reading,
    template::{ValueTemplate, print},
};
use crate::tool::memory::{ITEMS_MAX, Step, Target, walk};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Transform {
    pub(super) source: ValueTemplate,
    pub(super) operation: Operation,
    pub(super) target: Option<Target>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operation {
    Map(ValueTemplate),
    Filter(Condition),
    Reduce {
        function: Function,
        field: Option<Field>,
    },
    /// These fields of each item, or of the object that `source` is.
    Pick(Vec<String>),
    Count,
    Join {
        separator: String,
        field: Option<Field>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Sum,
    Min,
    Max,
    Count,
    Concat,
    First,
    Last,
}

/// A value inside an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) text: String,
    pub(super) steps: Vec<Step>,
}

impl Function {
    pub(super) const ALL: [(&str, Self); 7] = [
        ("sum", Self::Sum),
        ("min", Self::Min),
        ("max", Self::Max),
        ("count", Self::Count),
        ("concat", Self::Concat),
        ("first", Self::First),
        ("last", Self::Last),
    ];
}

impl Transform {
    pub(super) fn apply(&self, reading: &Reading<'_>) -> Result<Value, Fault> {
        let source = self.source.fill(reading)?;
        if let (Operation::Pick(fields), Value::Object(map)) = (&self.operation, &source) {
            return Ok(pick(map, fields));
        }
        let Value::Array(items) = source else {
            return Err(Fault::permanent("not_an_array", "What is to be transformed is no list."));
        };
        if items.len() > ITEMS_MAX {
            let message = format!("A list to be transformed has {} items, more than {ITEMS_MAX}.", items.len());
            return Err(Fault::permanent("too_many_items", message));
        }
        match &self.operation {
            Operation::Map(template) => {
                items.iter().enumerate().map(|(index, item)| template.fill(&reading.at(item, index))).collect()
            }
            Operation::Filter(condition) => {
                let mut kept = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    if condition.holds(&reading.at(item, index))? {
                        kept.push(item.clone());
                    }
                }
                Ok(Value::Array(kept))
            }
            Operation::Reduce { function, field } => reduce(*function, &fields(&items, field.as_ref())),
            Operation::Pick(names) => items
                .iter()
                .map(|item| match item {
                    Value::Object(map) => Ok(pick(map, names)),
                    _ => Err(Fault::permanent("not_an_object", "An item has no fields to pick.")),
                })
                .collect(),
            Operation::Count => Ok(items.len().into()),
            Operation::Join { separator, field } => {
                let texts: Vec<String> = fields(&items, field.as_ref()).into_iter().map(print).collect();
                Ok(texts.join(separator).into())
            }
        }
    }
}

fn pick(map: &Map<String, Value>, fields: &[String]) -> Value {
    let entry = |name: &String| map.get(name).map(|value| (name.clone(), value.clone()));
    Value::Object(fields.iter().filter_map(entry).collect())
}

/// The items, or one value inside each; items without it are left out.
fn fields<'v>(items: &'v [Value], field: Option<&Field>) -> Vec<&'v Value> {
    let steps = field.map_or(&[][..], |field| &field.steps);
    items.iter().filter_map(|item| walk(item, steps)).collect()
}

fn reduce(function: Function, values: &[&Value]) -> Result<Value, Fault> {
    let copy = |value: Option<&&Value>| value.map_or(Value::Null, |value| (*value).clone());
    Ok(match function {
        Function::Count => values.len().into(),
        Function::First => copy(values.first()),
        Function::Last => copy(values.last()),
        Function::Sum => sum(values)?,
        Function::Min => extreme(values, std::cmp::Ordering::Less)?,
        Function::Max => extreme(values, std::cmp::Ordering::Greater)?,
        Function::Concat if values.iter().any(|value| value.is_array()) => {
            let lists = values.iter().map(|value| value.as_array().cloned().unwrap_or_else(|| vec![(*value).clone()]));
            let joined: Vec<Value> = lists.flatten().take(ITEMS_MAX + 1).collect();
            if joined.len() > ITEMS_MAX {
                return Err(Fault::permanent("too_many_items", format!("The lists have more than {ITEMS_MAX} items.")));
            }
            Value::Array(joined)
        }
        Function::Concat => values.iter().map(|value| print(value)).collect::<String>().into(),
    })
}

fn not_numbers() -> Fault {
    Fault::permanent("not_a_number", "Not every item of the list is a number.")
}

/// Whole as long as everything is whole and it fits.
fn sum(values: &[&Value]) -> Result<Value, Fault> {
    let whole = values.iter().try_fold(0i64, |total, value| total.checked_add(value.as_i64()?));
    if let Some(total) = whole {
        return Ok(total.into());
    }
    let total = values.iter().try_fold(0.0, |total, value| value.as_f64().map(|number| total + number));
    Ok(total.ok_or_else(not_numbers)?.into())
}

/// Of numbers, or of texts; null of nothing.
fn extreme(values: &[&Value], wanted: std::cmp::Ordering) -> Result<Value, Fault> {
    let mut best: Option<&Value> = None;
    for value in values {
        let order = match (best, value) {
            (None, Value::Number(_) | Value::String(_)) => Some(wanted),
            (Some(best @ Value::Number(_)), Value::Number(_)) => number_order(value, best),
            (Some(Value::String(best)), Value::String(text)) => Some(text.cmp(best)),
            _ => None,
        };
        if order.ok_or_else(not_numbers)? == wanted {
            best = Some(value);
        }
    }
    Ok(best.cloned().unwrap_or_default())
}
