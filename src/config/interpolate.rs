//! `${VAR}` and `${VAR:-default}` inside values, and what type a value then has.

use serde_json::{Number, Value};

/// Where variables come from. The program reads its environment; tests hand in a table.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A text after its variables were put in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filled {
    pub text: String,
    /// At least one part of it is a variable's value (or default): the text must not be shown.
    pub from_env: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// This variable is not set and there is no default.
    Unset(String),
    /// `${` that is followed neither by `NAME}` nor by `NAME:-default}`.
    Malformed,
}

/// Puts variables in. As in a shell, `:-` takes the default where the variable is unset or empty.
/// `$${` stands for a literal `${`.
pub(super) fn interpolate(text: &str, env: Env) -> Result<Filled, Vec<Flaw>> {
    let mut filled = Filled { text: String::with_capacity(text.len()), from_env: false };
    let mut flaws = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let before = &rest[..at];
        rest = &rest[at + 2..];
        if let Some(escaped) = before.strip_suffix('$') {
            filled.text += escaped;
            filled.text += "${";
            continue;
        }
        filled.text += before;
        filled.from_env = true;
        let Some((inside, after)) = rest.split_once('}') else {
            flaws.push(Flaw::Malformed);
            break;
        };
        rest = after;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_variable_name(name) {
            flaws.push(Flaw::Malformed);
            continue;
        }
        match (env(name), default) {
            (Some(value), None) => filled.text += &value,
            (Some(value), Some(_)) if !value.is_empty() => filled.text += &value,
            (_, Some(default)) => filled.text += default,
            (None, None) => flaws.push(Flaw::Unset(name.to_owned())),
        }
    }
    filled.text += rest;
    if flaws.is_empty() { Ok(filled) } else { Err(flaws) }
}

fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The value of an unquoted scalar by the core schema of YAML 1.2 (section 10.3.2): `yes`, `no`
/// and `on` are text. Numbers that JSON cannot hold stay text.
pub(super) fn typed(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    let radix = |prefix, radix| text.strip_prefix(prefix).and_then(|digits| u64::from_str_radix(digits, radix).ok());
    if let Some(whole) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Some(whole.into());
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !unsigned.contains(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Some(whole.into());
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    let float = text.parse::<f64>().ok()?;
    // JSON Schema counts 5.0 as an integer, so the engine has to as well.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() < EXACT_MAX {
        return Some((float as i64).into());
    }
    Number::from_f64(float)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn env(name: &str) -> Option<String> {
        match name {
            "USER_1" => Some("anna".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn text(written: &str) -> String {
        interpolate(written, &env).unwrap().text
    }

    #[test]
    fn variables_are_put_in_wherever_they_stand() {
        assert_eq!(text("${USER_1}"), "anna");
        assert_eq!(text("a ${USER_1} b ${USER_1}c"), "a anna b annac");
    }

    #[test]
    fn a_default_serves_for_a_variable_that_is_unset_or_empty() {
        assert_eq!(text("${NOPE:-7}/${EMPTY:-8}/${USER_1:-9}/${NOPE:-}"), "7/8/anna/");
        assert_eq!(text("${EMPTY}"), "");
    }

    #[test]
    fn two_dollars_escape_one() {
        let filled = interpolate("cost: $${USER_1} $5 {x}", &env).unwrap();
        assert_eq!(filled, Filled { text: "cost: ${USER_1} $5 {x}".into(), from_env: false });
    }

    #[test]
    fn all_flaws_of_a_text_are_told() {
        let flaws = interpolate("${NOPE} ${a b} ${} ${ALSO} ${open", &env).unwrap_err();
        let expected =
            [Flaw::Unset("NOPE".into()), Flaw::Malformed, Flaw::Malformed, Flaw::Unset("ALSO".into()), Flaw::Malformed];
        assert_eq!(flaws, expected);
    }

    #[test]
    fn unquoted_values_have_the_types_of_yaml_1_2() {
        for (written, value) in [
            ("200", json!(200)),
            ("-3", json!(-3)),
            ("+3", json!(3)),
            ("0x1F", json!(31)),
            ("0.5", json!(0.5)),
            ("5.0", json!(5)),
            ("1e3", json!(1000)),
            ("true", json!(true)),
            ("", json!(null)),
            ("yes", json!("yes")),
            ("0ff40001", json!("0ff40001")),
            ("12e45678", json!("12e45678")),
            ("127.0.0.1", json!("127.0.0.1")),
            ("12s", json!("12s")),
            (".", json!(".")),
            ("nan", json!("nan")),
            ("-", json!("-")),
        ] {
            assert_eq!(typed(written), value, "{written}");
        }
    }
}
