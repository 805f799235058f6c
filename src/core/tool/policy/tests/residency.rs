//! What is said goes nowhere that the call's residency keeps it from.

use super::*;
use crate::{facts::Residency, tool::schemas::Dialect};

/// A desk of a call under this rule, with one tool that sends what it is given elsewhere.
fn desk(rule: Residency, word: Option<Residency>, rules: PolicyRules) -> Desk {
    let opening = Opening { session: "session-1".into(), residency: rule, ..Opening::default() };
    Desk::with([ToolSpec { sends: true, residency: word, ..hours() }], rules, opening)
}

const QUERY: &str = r#"{"query":"shop"}"#;

/// V19, V45: nothing runs that sends what is said to where it may not go; the model and the audit line are told why.
#[test]
fn a_tool_that_sends_elsewhere_is_refused_with_the_reason() {
    for rule in [Residency::IndiaOnly, Residency::OnPrem] {
        let answer = desk(rule, None, PolicyRules::default()).answered("1", "hours", QUERY);
        assert_eq!(answer.error, Some(ToolError::Refused));
        assert!(answer.output.contains("may not go"), "{}", answer.output);
        let audit = &answer.audit;
        assert_eq!((audit.tool_id.as_str(), audit.gate_decision, audit.route), ("hours", Some("fail"), Some("refuse")));
        assert_eq!(audit.hard_blockers, ["data_residency"]);
    }
    desk(Residency::IndiaOnly, Some(Residency::IndiaOnly), PolicyRules::default()).runs("1", "hours", QUERY);
    desk(Residency::Any, None, PolicyRules::default()).runs("1", "hours", QUERY);
}

/// V19, V45: with another context's tools and rules it is the same call.
#[test]
fn a_call_that_is_handed_on_keeps_its_rule() {
    let mut desk = desk(Residency::OnPrem, None, PolicyRules::default());
    let tools = toolbox([ToolSpec { sends: true, name: "rates".into(), ..hours() }]);
    desk.policy.change_hands(tools, Arc::default(), AnswerLimits::default());
    assert_eq!(desk.refused("1", "rates", QUERY), ToolError::Refused);
}

/// V19, V45: another gate is told the arguments: where it is not where they may go, even a tool that sends nothing does not run.
#[test]
fn another_gate_is_not_asked_where_the_arguments_may_not_go() {
    let runs = |rule, word| {
        let rules =
            PolicyRules { remote_gate: RemoteUse::Beside, remote_gate_residency: word, ..PolicyRules::default() };
        let opening = Opening { session: "session-1".into(), residency: rule, ..Opening::default() };
        matches!(Desk::with([hours()], rules, opening).admit("1", "hours", QUERY).1, Admission::Run { .. })
    };
    assert!(!runs(Residency::IndiaOnly, None) && !runs(Residency::OnPrem, Some(Residency::IndiaOnly)));
    assert!(runs(Residency::Any, None) && runs(Residency::IndiaOnly, Some(Residency::OnPrem)));
}

/// V19, V45: a model is not offered what would be refused.
#[test]
fn a_tool_that_would_be_refused_is_not_offered() {
    let tools = || toolbox([ToolSpec { sends: true, ..hours() }, balance()]);
    let offered = |rule| {
        let toolbox = tools().offered_under(rule);
        let names: Vec<String> = toolbox.specs().iter().map(|spec| spec.name.clone()).collect();
        assert_eq!(toolbox.schemas(Dialect::OpenAiRealtime).len(), names.len());
        assert!(toolbox.has("hours"), "it is known all the same");
        names
    };
    assert_eq!(offered(Residency::Any), ["balance", "hours"]);
    assert_eq!(offered(Residency::IndiaOnly), ["balance"]);
    assert_eq!(tools().kept_from(Residency::IndiaOnly), ["hours"]);
}
