//! A gate somewhere else: its answer is read with distrust, and combined with our own by the stricter route.

use super::{
    answer::{Decision, Subject},
    decide::Code,
    event::{Event, Route},
    words,
};
use serde_json::Value;
use std::borrow::Cow;

/// As many codes as are taken from a foreign answer, and how long each may be: ours are fewer and shorter.
const CODES_MAX: usize = 64;
const CODE_CHARS_MAX: usize = 120;

impl Decision {
    /// The refusal in place of a decision that could not be had: a timeout, a connection refused, no answer.
    pub fn unavailable(event: &Event, why: &str) -> Self {
        Self::closed(Subject::of_event(event), words::RUNTIME_FAILED, why.to_owned())
    }

    /// Reads another gate's answer, of the public check's shape or of MCP's `structuredContent`. An answer that is
    /// not understood, or does not agree with itself, is a refusal.
    pub fn of_remote(event: &Event, answer: &Value) -> Self {
        match read(answer) {
            Ok((route, blockers, reasons)) => Self::foreign(Subject::of_event(event), route, blockers, reasons),
            Err(why) => Self::unavailable(event, why),
        }
    }
}

fn read(answer: &Value) -> Result<(Route, Vec<Code>, Vec<Code>), &'static str> {
    let architecture = answer.get("architecture_decision");
    let routes = [
        architecture.and_then(|decision| decision.get("route")),
        answer.get("route"),
        answer.get("recommended_action"),
    ];
    let mut route = None;
    for named in routes.into_iter().flatten() {
        let named = named.as_str().and_then(Route::parse).ok_or("The remote gate answered an unknown route.")?;
        if route.is_some_and(|route| route != named) {
            return Err("The remote gate answered two routes.");
        }
        route = Some(named);
    }
    let route = route.ok_or("The remote gate answered no route.")?;
    let lists = [
        answer.get("hard_blockers"),
        answer.get("aix").and_then(|aix| aix.get("hard_blockers")),
        architecture.and_then(|decision| decision.get("hard_blockers")),
    ];
    let mut blockers: Vec<Code> = Vec::new();
    for list in lists.into_iter().flatten() {
        for code in codes(list)? {
            if !blockers.contains(&code) {
                blockers.push(code);
            }
        }
    }
    let has_errors = answer.get("validation_errors").is_some_and(|errors| errors != &Value::Array(Vec::new()));
    let passes = answer.get("gate_decision").and_then(Value::as_str) == Some("pass");
    if route == Route::Accept && blockers.is_empty() && (!passes || has_errors) {
        return Err("The remote gate accepted without passing.");
    }
    let reasons = answer.get("reasons").map_or(Ok(Vec::new()), codes)?;
    Ok((route, blockers, reasons))
}

fn codes(list: &Value) -> Result<Vec<Code>, &'static str> {
    const NO_LIST: &str = "The remote gate answered something else than a list of codes.";
    let items = list.as_array().filter(|items| items.len() <= CODES_MAX).ok_or(NO_LIST)?;
    let code = |item: &Value| match item.as_str() {
        Some(code) if code.chars().count() <= CODE_CHARS_MAX => Ok(Cow::Owned(code.to_owned())),
        _ => Err(NO_LIST),
    };
    items.iter().map(code).collect()
}
