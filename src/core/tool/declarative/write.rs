//! Writes a definition as ADR-003 has it: flat, one shape per action.

use super::{
    condition::Condition,
    definition::{Action, ApiCall, Definition, Handoff, Level, Parameter, Policy, Words, label},
    read::policy::{ACCESS, AUTH_STATES, CATEGORIES, RISK_DOMAINS, SIDE_EFFECTS, UNKNOWN_ARGS},
    template::ValueTemplate,
    transform::{Function, Operation, Transform},
    validate::{Check, Rule},
};
use serde_json::{Map, Value, json};
use std::time::Duration;

impl Definition {
    /// The definition as it is stored; reading it again gives the same definition.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("name".into(), self.name.as_str().into());
        map.insert("description".into(), self.description.as_str().into());
        map.insert("parameters".into(), self.parameters.iter().map(parameter).collect());
        map.insert("actions".into(), actions(&self.actions));
        map.insert("on_success".into(), actions(&self.on_success));
        map.insert("on_failure".into(), actions(&self.on_failure));
        if self.policy != Policy::default() {
            map.insert("policy".into(), policy(&self.policy));
        }
        Value::Object(map)
    }
}

fn actions(list: &[Action]) -> Value {
    list.iter().map(action).collect()
}

fn object(entries: Vec<(&str, Option<Value>)>) -> Value {
    Value::Object(entries.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

fn seconds(duration: Duration) -> Value {
    if duration.subsec_nanos() == 0 { duration.as_secs().into() } else { duration.as_secs_f64().into() }
}

fn parameter(parameter: &Parameter) -> Value {
    object(vec![
        ("name", Some(parameter.name.as_str().into())),
        ("type", Some(parameter.kind.label().into())),
        ("required", parameter.required.then_some(true.into())),
        ("enum", (!parameter.choices.is_empty()).then(|| parameter.choices.clone().into())),
        ("items", parameter.items.map(|kind| kind.label().into())),
        ("description", parameter.description.as_deref().map(Value::from)),
        ("default", parameter.default.clone()),
    ])
}

fn policy(policy: &Policy) -> Value {
    let modes = policy.modes.map(|modes| {
        [("voice", modes.voice), ("text", modes.text)].iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect()
    });
    object(vec![
        ("category", policy.category.map(|value| label(&CATEGORIES, value).into())),
        ("side_effects", policy.side_effects.map(|value| label(&SIDE_EFFECTS, value).into())),
        ("access", policy.access.map(|value| label(&ACCESS, value).into())),
        ("risk_domain", policy.risk_domain.map(|value| label(&RISK_DOMAINS, value).into())),
        ("idempotent", policy.idempotent.map(Value::from)),
        ("requires_confirmation", policy.requires_confirmation.map(Value::from)),
        ("standing_approval", policy.standing_approval.map(Value::from)),
        ("confirm_template", policy.confirm_template.as_deref().map(Value::from)),
        ("timeout", policy.timeout.map(seconds)),
        ("latency_budget", policy.latency_budget.map(seconds)),
        ("wait", policy.wait.map(Value::from)),
        ("modes", modes),
        ("secret_args", (!policy.secret_args.is_empty()).then(|| policy.secret_args.clone().into())),
        ("authenticates", policy.authenticates.map(|value| label(&AUTH_STATES, value).into())),
        ("unknown_args", policy.unknown_args.map(|value| label(&UNKNOWN_ARGS, value).into())),
        ("version", policy.version.as_deref().map(Value::from)),
    ])
}

fn action(action: &Action) -> Value {
    let mut entries = vec![("type", Some(action.label().into()))];
    match action {
        Action::ContextSet(data) => {
            let data = data.iter().map(|(target, value)| (target.to_string(), value.source())).collect();
            entries.push(("data", Some(Value::Object(data))));
        }
        Action::ContextGet { paths, into } => {
            entries.push(("path", Some(one_or_many(paths))));
            entries.push(("as", into.as_ref().map(|target| target.to_string().into())));
        }
        Action::ContextDelete(targets) => entries.push(("path", Some(one_or_many(targets)))),
        Action::ApiCall(call) => entries.extend(api_call(call)),
        Action::Handoff(handoff) => entries.extend(hand_over(handoff)),
        Action::Respond { words, immediate } => {
            entries.push(match words {
                Words::Message(message) => ("message", Some(message.source().into())),
                Words::Key { key, .. } => ("message_key", Some(key.as_str().into())),
            });
            entries.push(("immediate", immediate.then_some(true.into())));
        }
        Action::FlagSet { flag, value } => {
            entries.push(("flag", flag_name(&flag.to_string())));
            let plain = *value == ValueTemplate::Fixed(true.into());
            entries.push(("value", (!plain).then(|| value.source())));
        }
        Action::FlagClear { flag } => entries.push(("flag", flag_name(&flag.to_string()))),
        Action::Conditional { condition, then, otherwise } => {
            entries.push(("condition", Some(condition.source())));
            entries.push(("then", Some(actions(then))));
            entries.push(("else", (!otherwise.is_empty()).then(|| actions(otherwise))));
        }
        Action::Validate(rules) => entries.push(("rules", Some(rules.iter().map(rule).collect()))),
        Action::Transform(transform) => entries.extend(transformation(transform)),
        Action::Log { level, message } => {
            entries.push(("level", (*level != Level::Info).then(|| level.label().into())));
            entries.push(("message", Some(message.source().into())));
        }
    }
    object(entries)
}

fn one_or_many<T: ToString>(paths: &[T]) -> Value {
    match paths {
        [one] => one.to_string().into(),
        many => many.iter().map(T::to_string).collect(),
    }
}

fn flag_name(path: &str) -> Option<Value> {
    Some(path.trim_start_matches("flags.").into())
}

fn api_call(call: &ApiCall) -> Vec<(&'static str, Option<Value>)> {
    let headers = call.headers.iter().map(|(name, value)| (name.clone(), value.source().into())).collect();
    vec![
        ("url", Some(call.address.source.as_str().into())),
        ("method", Some(call.method.label().into())),
        ("body", Some(call.body.source())),
        ("headers", Some(Value::Object(headers))),
        ("timeout", Some(seconds(call.timeout))),
        ("retry_count", Some(call.retry_count.into())),
        ("retry_delay", Some(seconds(call.retry_delay))),
        ("on_error", Some(if call.goes_on { "continue" } else { "fail" }.into())),
        ("response_path", call.response_path.as_ref().map(|target| target.to_string().into())),
        ("allow", call.allow.then_some(true.into())),
    ]
}

fn hand_over(handoff: &Handoff) -> Vec<(&'static str, Option<Value>)> {
    vec![
        ("target", Some(handoff.target.source().into())),
        ("message", handoff.message.as_ref().map(|message| message.source().into())),
        ("context_passed", handoff.context_passed.clone().map(Value::from)),
        ("allow", handoff.allow.then_some(true.into())),
    ]
}

fn rule(rule: &Rule) -> Value {
    let path = rule.path.to_string();
    let mut entries = vec![match path.strip_prefix("params.") {
        Some(name) => ("param", Some(name.into())),
        None => ("path", Some(path.into())),
    }];
    entries.extend(rule.checks.iter().map(|check| match check {
        Check::Required => ("required", Some(true.into())),
        Check::Type(kind) => ("type", Some(kind.label().into())),
        Check::Enum(choices) => ("enum", Some(choices.clone().into())),
        Check::Min(limit) => ("min", Some(Value::Number(limit.clone()))),
        Check::Max(limit) => ("max", Some(Value::Number(limit.clone()))),
        Check::MinLength(limit) => ("min_length", Some((*limit).into())),
        Check::MaxLength(limit) => ("max_length", Some((*limit).into())),
        Check::Pattern(pattern) => ("pattern", Some(pattern.source.as_str().into())),
        Check::Equals(value) => ("equals", Some(value.source())),
        Check::NotEquals(value) => ("not_equals", Some(value.source())),
    }));
    entries.push(("message", rule.message.as_ref().map(|message| message.source().into())));
    object(entries)
}

fn transformation(transform: &Transform) -> Vec<(&'static str, Option<Value>)> {
    let condition = |condition: &Condition| Some(condition.source());
    let mut entries = vec![("source", Some(transform.source.source()))];
    match &transform.operation {
        Operation::Map(template) => {
            entries.extend([("operation", Some(json!("map"))), ("template", Some(template.source()))]);
        }
        Operation::Filter(kept) => {
            entries.extend([("operation", Some(json!("filter"))), ("condition", condition(kept))])
        }
        Operation::Reduce { function, field } => entries.extend([
            ("operation", Some(json!("reduce"))),
            ("function", Some(label(&Function::ALL, *function).into())),
            ("field", field.as_ref().map(|field| field.text.as_str().into())),
        ]),
        Operation::Pick(fields) => {
            entries.extend([("operation", Some(json!("pick"))), ("fields", Some(fields.clone().into()))]);
        }
        Operation::Count => entries.push(("operation", Some(json!("count")))),
        Operation::Join { separator, field } => entries.extend([
            ("operation", Some(json!("join"))),
            ("separator", Some(separator.as_str().into())),
            ("field", field.as_ref().map(|field| field.text.as_str().into())),
        ]),
    }
    entries.push(("target", transform.target.as_ref().map(|target| target.to_string().into())));
    entries
}
