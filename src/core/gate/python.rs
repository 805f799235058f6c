//! How the reference implementation, which is a Python program, reads and prints JSON values. Its
//! decisions hang on it: a missing tool name is the tool `None`, and patterns see printed text.

use regex::Regex;
use serde_json::{Map, Number, Value};
use std::{borrow::Cow, fmt::Write as _, sync::LazyLock};

/// Whether Python's `if value` would hold.
pub fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
    }
}

/// `str(value or "")`.
pub fn text_or_empty(value: Option<&Value>) -> Cow<'_, str> {
    match value {
        Some(value) if truthy(value) => text(value),
        _ => Cow::Borrowed(""),
    }
}

/// `str(value)`.
pub fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(repr(value)),
    }
}

/// `repr(value)`.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(value, &mut out);
    out
}

fn write_repr(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_quoted(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_repr(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            for (index, (key, item)) in entries.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_quoted(key, out);
                out.push_str(": ");
                write_repr(item, out);
            }
            out.push('}');
        }
    }
}

/// What Python does not show as it is: every separator but the space, and everything without a glyph.
static NOT_PRINTABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[\p{C}\p{Z}--\x20]").unwrap_or_else(|error| panic!("{error}")));

fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for letter in text.chars() {
        let code = u32::from(letter);
        // A String takes whatever is written to it.
        let _ = match letter {
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            letter if letter == quote => write!(out, "\\{letter}"),
            ' '..='~' => out.write_char(letter),
            letter if !NOT_PRINTABLE.is_match(letter.encode_utf8(&mut [0; 4])) => out.write_char(letter),
            _ if code < 0x100 => write!(out, "\\x{code:02x}"),
            _ if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out.push(quote);
}

fn write_number(number: &Number, out: &mut String) {
    match number.as_f64() {
        Some(float) if number.is_f64() => write_float(float, out),
        _ => out.push_str(&number.to_string()),
    }
}

/// The shortest digits that read back, plain from 1e-4 to below 1e16, else with an exponent of two digits.
fn write_float(float: f64, out: &mut String) {
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let _ = if (-4..16).contains(&exponent) {
        write!(out, "{float:?}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{digits}e{sign}{:02}", exponent.abs())
    };
}

/// `json.dumps(object, sort_keys=True)`: sorted keys, a space after each separator, ASCII only.
pub fn sorted_json(object: &Map<String, Value>) -> String {
    let mut out = String::new();
    write_sorted(object, &mut out);
    out
}

fn write_sorted(object: &Map<String, Value>, out: &mut String) {
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    out.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        write_json_text(key, out);
        out.push_str(": ");
        write_json(value, out);
    }
    out.push('}');
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_json_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => write_sorted(entries, out),
    }
}

fn write_json_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        let _ = match letter {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\u{8}' => out.write_str("\\b"),
            '\u{c}' => out.write_str("\\f"),
            ' '..='~' => out.write_char(letter),
            letter => letter.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}")),
        };
    }
    out.push('"');
}

/// `text.strip()`: Python counts four control characters as space that Unicode does not.
pub fn strip(text: &str) -> &str {
    text.trim_matches(|letter: char| letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter))
}

/// The name of a value's type, as in `'int' object is not iterable`.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_print_as_python_prints_them() {
        for (value, printed) in [
            (json!(null), "None"),
            (json!(true), "True"),
            (json!(-3), "-3"),
            (json!(1.0), "1.0"),
            (json!(0.0001), "0.0001"),
            (json!(0.00001), "1e-05"),
            (json!(1e16), "1e+16"),
            (json!(1.5e300), "1.5e+300"),
            (json!(123_456_789_012_345.6), "123456789012345.6"),
            (json!(["a", {"b": null}]), "['a', {'b': None}]"),
            (json!(["it's"]), "[\"it's\"]"),
            (json!(["\"it's\""]), "['\"it\\'s\"']"),
            (json!(["\u{7f}\u{a0}\u{200b}é\n"]), "['\\x7f\\xa0\\u200bé\\n']"),
        ] {
            assert_eq!(repr(&value), printed);
        }
        assert_eq!(text(&json!("plain")), "plain");
    }

    #[test]
    fn arguments_print_as_sorted_ascii_json() {
        let value = json!({ "b": [1, 2.5, "é\n😀"], "a": { "d": null, "c": true } });
        assert_eq!(
            sorted_json(value.as_object().unwrap()),
            r#"{"a": {"c": true, "d": null}, "b": [1, 2.5, "\u00e9\n\ud83d\ude00"]}"#
        );
    }

    #[test]
    fn what_is_false_in_python_is_false_here() {
        for value in [json!(null), json!(false), json!(0), json!(0.0), json!(""), json!([]), json!({})] {
            assert!(!truthy(&value), "{value}");
        }
        for value in [json!(true), json!(-1), json!("0"), json!([null]), json!({ "a": 1 })] {
            assert!(truthy(&value), "{value}");
        }
        assert_eq!(strip("\u{1c} a \u{a0}\n"), "a");
    }
}
