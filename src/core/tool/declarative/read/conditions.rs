//! Reads conditions, as objects and as text, and the rules of `validate`.

use super::{
    Reader,
    actions::{ENTRIES_MAX, Fields},
    pieces::{TEXT_BYTES_MAX, join},
};
use crate::tool::{
    declarative::{
        condition::{Condition, Op},
        definition::{Action, Kind},
        template::ValueTemplate,
        validate::{Check, Pattern, Rule},
    },
    memory::{ITEMS_MAX, Scope},
};
use serde_json::Value;

/// Of `all`, `any` and `not` in each other.
const CONDITION_DEPTH_MAX: usize = 8;
/// Of regular expressions in one tool: each may take a quarter of a megabyte.
const PATTERNS_MAX: usize = 32;

impl Reader<'_> {
    pub(super) fn condition(&mut self, value: &Value, at: &str, scope: Scope) -> Option<Condition> {
        let condition = self.condition_at(value, at, scope, 0)?;
        let mut paths = Vec::new();
        condition.compared(&mut paths);
        self.keep_secrets(&paths, at);
        Some(condition)
    }

    fn condition_at(&mut self, value: &Value, at: &str, scope: Scope, depth: usize) -> Option<Condition> {
        if depth > CONDITION_DEPTH_MAX {
            self.problem(at, format!("conditions in conditions; at most {CONDITION_DEPTH_MAX} deep"));
            return None;
        }
        if let Value::String(text) = value {
            return self.text_condition(text, at, scope);
        }
        let map = self.object(value, at)?;
        let mut nested = |name: &str, value: &Value| {
            self.fields(map, at, &[name], &[]);
            let at = join(at, name);
            let list = self.list(Some(value), &at, ENTRIES_MAX);
            let read =
                |(index, value): (usize, &Value)| self.condition_at(value, &format!("{at}[{index}]"), scope, depth + 1);
            list.iter().enumerate().map(read).collect::<Option<Vec<_>>>()
        };
        if let Some(list) = map.get("all") {
            return nested("all", list).map(Condition::All);
        }
        if let Some(list) = map.get("any") {
            return nested("any", list).map(Condition::Any);
        }
        if let Some(one) = map.get("not") {
            self.fields(map, at, &["not"], &[]);
            return self.condition_at(one, &join(at, "not"), scope, depth + 1).map(|one| Condition::Not(Box::new(one)));
        }
        self.fields(map, at, &["path", "left", "op", "value", "right"], &[]);
        let op = match map.get("op") {
            Some(op) => self.choice(op, &join(at, "op"), &Op::ALL),
            None => Some(Op::Truthy),
        };
        let (name, left) = self.needed(map, &["path", "left"], at)?;
        let left = self.path(left, &join(at, name), scope, false);
        let right = self.one_of(map, &["value", "right"], at);
        let op = op?;
        if op.unary() != right.is_none() {
            let message = if op.unary() { "is compared with nothing by this op" } else { "is needed" };
            self.problem(&join(at, right.map_or("value", |(name, _)| name)), message);
            return None;
        }
        let right = match right {
            Some((name, value)) => Some(self.value(value, &join(at, name), scope)?),
            None => None,
        };
        Some(Condition::Test { left: left?, op, right })
    }

    /// `workflow.count > 2`, `params.meal == 'lunch'`, or a path alone.
    fn text_condition(&mut self, text: &str, at: &str, scope: Scope) -> Option<Condition> {
        let sign_at = text.find(['=', '!', '<', '>']);
        let (left, rest) = text.split_at(sign_at.unwrap_or(text.len()));
        let left = self.path(&Value::from(left.trim()), at, scope, false)?;
        if rest.is_empty() {
            return Some(Condition::Test { left, op: Op::Truthy, right: None });
        }
        let Some((op, right)) = Op::SIGNS.iter().find_map(|(sign, op)| Some((*op, rest.strip_prefix(sign)?.trim())))
        else {
            self.problem(at, "has to compare with ==, !=, >, >=, < or <=");
            return None;
        };
        let quoted = ['\'', '"'].iter().find_map(|quote| right.strip_prefix(*quote)?.strip_suffix(*quote));
        let right = match quoted {
            Some(text) => ValueTemplate::Fixed(text.into()),
            None => match serde_json::from_str::<Value>(right) {
                Ok(value @ (Value::Null | Value::Bool(_) | Value::Number(_))) => ValueTemplate::Fixed(value),
                _ => ValueTemplate::Whole(self.path(&right.into(), at, scope, false)?),
            },
        };
        Some(Condition::Test { left, op, right: Some(right) })
    }

    pub(super) fn validate(&mut self, map: &Fields, at: &str) -> Option<Action> {
        self.fields(map, at, &["type", "rules"], &[]);
        self.required(map, "rules", at);
        let at = join(at, "rules");
        let list = self.list(map.get("rules"), &at, ENTRIES_MAX);
        let rule = |(index, value): (usize, &Value)| self.rule(value, &format!("{at}[{index}]"));
        Some(Action::Validate(list.iter().enumerate().filter_map(rule).collect()))
    }

    fn rule(&mut self, value: &Value, at: &str) -> Option<Rule> {
        let map = self.object(value, at)?;
        let known = [
            "param",
            "path",
            "required",
            "type",
            "enum",
            "min",
            "max",
            "min_length",
            "max_length",
            "pattern",
            "equals",
            "not_equals",
            "message",
        ];
        self.fields(map, at, &known, &[]);
        let message = map.get("message").and_then(|value| self.public_template(value, &join(at, "message")));
        let checks = self.checks(map, at);
        let (name, path) = self.needed(map, &["param", "path"], at)?;
        let place = join(at, name);
        let path = if name == "param" {
            let text = self.text(path, &place, TEXT_BYTES_MAX)?;
            let text = text.strip_prefix("params.").unwrap_or(&text);
            let first = text.split(['.', '[']).next().unwrap_or_default().to_owned();
            if !self.parameters.contains(&first) {
                self.problem(&place, format!("there is no parameter \"{first}\""));
                return None;
            }
            self.path(&format!("params.{text}").into(), &place, Scope::Run, false)?
        } else {
            self.path(path, &place, Scope::Run, false)?
        };
        // Whether it is there may be asked; what it is could be guessed step by step.
        if checks.iter().any(|check| *check != Check::Required) {
            self.keep_secrets(&[&path], &place);
        }
        Some(Rule { path, checks, message })
    }

    fn checks(&mut self, map: &Fields, at: &str) -> Vec<Check> {
        let mut checks = Vec::new();
        if self.flag(map, "required", at) == Some(true) {
            checks.push(Check::Required);
        }
        let kind = map.get("type").and_then(|value| self.choice(value, &join(at, "type"), &Kind::ALL));
        checks.extend(kind.map(Check::Type));
        if map.contains_key("enum") {
            checks.push(Check::Enum(self.list(map.get("enum"), &join(at, "enum"), ITEMS_MAX).to_vec()));
        }
        for (name, check) in [("min", Check::Min as fn(_) -> _), ("max", Check::Max)] {
            match map.get(name) {
                Some(Value::Number(number)) => checks.push(check(number.clone())),
                Some(_) => self.problem(&join(at, name), "has to be a number"),
                None => {}
            }
        }
        checks.extend(self.whole(map, "min_length", at, usize::MAX).map(Check::MinLength));
        checks.extend(self.whole(map, "max_length", at, usize::MAX).map(Check::MaxLength));
        if let Some(pattern) = map.get("pattern") {
            let at = join(at, "pattern");
            let source = self.text(pattern, &at, TEXT_BYTES_MAX);
            self.patterns += 1;
            if self.patterns > PATTERNS_MAX {
                self.problem(&at, format!("one pattern too many; at most {PATTERNS_MAX} in a tool"));
                return checks;
            }
            match source.as_deref().map(Pattern::new) {
                Some(Ok(pattern)) => checks.push(Check::Pattern(pattern)),
                Some(Err(regex::Error::CompiledTooBig(_))) => self.problem(&at, "is too large a pattern"),
                Some(Err(_)) => self.problem(&at, "is no regular expression"),
                None => {}
            }
        }
        for (name, check) in [("equals", Check::Equals as fn(_) -> _), ("not_equals", Check::NotEquals)] {
            let value = map.get(name).and_then(|value| self.public_value(value, &join(at, name), Scope::Run));
            checks.extend(value.map(check));
        }
        if checks.is_empty() {
            self.problem(at, "has no rule");
        }
        checks
    }
}
