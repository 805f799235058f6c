//! Step 2: what is sent again does not happen again.

use super::*;
use crate::tool::Executor;

const X: &str = r#"{"query":"x"}"#;

fn found() -> ToolOutcome {
    ToolOutcome::act("Found.", CallAction::SayNextTurn { message: "and so on".into() })
}

/// P29: the provider's id, longer than eight characters, is the key, in any turn.
#[test]
fn a_provider_id_is_the_key() {
    let mut desk = Desk::new([hours()]);
    let call = desk.runs("call_00001", "hours", X);
    assert_eq!(call.idempotency_key(), "provider:call_00001");
    desk.policy.settle(call.id(), found(), desk.now);
    desk.caller("next");
    let again = desk.answered("call_00001", "hours", X);
    assert_eq!(envelope(&again)["meta"]["replayed"], true, "in a later turn too");
}

/// A provider that gives one id to two calls: the second is not told that it is done, and runs once as well.
#[test]
fn an_id_that_stands_for_other_arguments_is_no_key() {
    const Y: &str = r#"{"query":"y"}"#;
    let mut desk = Desk::new([hours(), on_call("wave"), on_call("nod")]);
    let first = desk.runs("call_00001", "hours", X);
    let second = desk.runs("call_00001", "hours", Y);
    assert!(second.idempotency_key().starts_with("hash:"), "{}", second.idempotency_key());
    assert!(matches!(desk.admit("call_00001", "hours", Y).1, Admission::Attached), "it waits for its own first");
    desk.policy.settle(first.id(), found(), desk.now);
    let settled = desk.policy_settle(second.id(), ToolOutcome::failed(ToolError::Permanent, "Broken."));
    assert_eq!(settled.answers.len(), 2);
    assert_eq!(desk.answered("call_00001", "hours", r#" {"query": "x"} "#).error, None);
    assert_eq!(desk.answered("call_00001", "hours", Y).error, Some(ToolError::Permanent));
    desk.caller("next");
    desk.runs_to("call_00002", "wave", "{}", 1, ToolOutcome::done("", Value::Null));
    desk.runs("call_00002", "nod", "{}");
}

/// A repeat of a confirmed call may come with the token or without it.
#[test]
fn the_token_of_a_confirmation_makes_no_other_call() {
    let mut desk = Desk::new([book()]);
    let token = token(&desk.asked("call_00001", "book", TABLE));
    desk.caller("yes");
    desk.runs_to("call_00001", "book", &table(&token), 1, ToolOutcome::done("Booked.", Value::Null));
    for arguments in [TABLE, &*table(&token)] {
        assert_eq!(envelope(&desk.answered("call_00001", "book", arguments))["meta"]["replayed"], true);
    }
}

/// P30, P answer 7: a short id is a counter, so tool, arguments and turn are hashed; another turn is another call.
#[test]
fn a_short_id_is_hashed_over() {
    let mut desk = Desk::new([hours()]);
    let first = desk.runs("12345678", "hours", X);
    let key = first.idempotency_key().to_owned();
    assert!(key.starts_with("hash:") && key.len() == 5 + 16, "{key}");
    assert_eq!(key, canonical::idempotency_key(None, "hours", serde_json::from_str(X).as_ref().unwrap(), "turn-0"));
    desk.policy.settle(first.id(), found(), desk.now);
    assert_eq!(envelope(&desk.answered("2", "hours", r#" {"query": "x"} "#))["meta"]["replayed"], true);
    desk.caller("again");
    assert_ne!(desk.runs("3", "hours", X).idempotency_key(), key);
}

/// P answer 6: a name that stands in for a missing id is no id, however long it is.
#[test]
fn a_name_is_no_id() {
    let spec = ToolSpec { name: "opening_hours".into(), ..hours() };
    let mut desk = Desk::new([spec]);
    let first = desk.runs("opening_hours", "opening_hours", X);
    assert!(first.idempotency_key().starts_with("hash:"));
    desk.runs("opening_hours", "opening_hours", r#"{"query":"y"}"#);
}

/// An id that a codec gave to a call without one tells nothing: equal calls of a turn are one.
#[test]
fn a_call_without_an_id_is_known_by_its_content() {
    let mut desk = Desk::new([hours()]);
    let first = desk.runs("unnamed-0123456789", "hours", X);
    assert!(first.idempotency_key().starts_with("hash:"));
    assert!(matches!(desk.admit("unnamed-9876543210", "hours", X).1, Admission::Attached));
    desk.runs("unnamed-0123456789", "hours", r#"{"query":"y"}"#);
}

/// P answer 6: the stored envelope goes out again, marked; it costs nothing and asks nothing of the call.
#[test]
fn a_repeat_is_answered_and_does_nothing() {
    let rules = PolicyRules { budgets: Budgets { retrieval: 1, total: 1 }, ..PolicyRules::default() };
    let mut desk = Desk::with([hours()], rules, Opening::default());
    let settled = desk.runs_to("provider-1", "hours", X, 250, found());
    assert_eq!(settled.actions.len(), 1);
    let again = desk.answered("provider-1", "hours", X);
    let (mut repeated, original) = (envelope(&again), envelope(&settled.answers[0]));
    assert_eq!(repeated["meta"].as_object_mut().unwrap().remove("replayed"), Some(json!(true)));
    assert_eq!(repeated, original);
    assert!(again.actions.is_empty());
    assert_eq!((again.audit.ok, again.audit.replayed, again.audit.duration), (true, true, 0));
    assert_eq!(again.tool.as_deref(), Some("hours"));
}

/// P answer 6: a failure that ran is repeated as well, with its type.
#[test]
fn a_failure_is_replayed_too() {
    let mut desk = Desk::new([hours()]);
    desk.runs_to("provider-1", "hours", X, 1, ToolOutcome::failed(ToolError::Permanent, "Broken."));
    let again = desk.answered("provider-1", "hours", X);
    assert_eq!((again.error, again.audit.error_type), (Some(ToolError::Permanent), Some("PERMANENT")));
    assert!(!again.audit.ok);
}

/// P answer 6: a repeat in flight waits for the first one; its intents are applied once.
#[test]
fn a_repeat_in_flight_waits() {
    let mut desk = Desk::new([hours()]);
    let call = desk.runs("provider-1", "hours", X);
    let (second, admission) = desk.admit("provider-1", "hours", X);
    assert!(matches!(admission, Admission::Attached));
    let settled = desk.after(300).policy_settle(call.id(), found());
    assert_eq!(settled.answers.iter().map(|answer| answer.id).collect::<Vec<_>>(), [call.id(), second]);
    assert_eq!(settled.actions.len(), 1);
    let [own, repeat] = [&settled.answers[0], &settled.answers[1]];
    assert!(envelope(own)["meta"].get("replayed").is_none());
    assert_eq!(envelope(repeat)["meta"]["replayed"], true);
    assert_eq!((own.audit.duration, repeat.audit.duration), (300, 0));
    assert_eq!((own.audit.replayed, repeat.audit.replayed), (false, true));
    assert_ne!(own.audit.call_id, repeat.audit.call_id);
    assert!(desk.policy.settle(call.id(), found(), desk.now).is_none(), "an outcome comes once");
}

/// No queue without a limit: the ninth repeat in flight is refused.
#[test]
fn not_everybody_can_wait() {
    let mut desk = Desk::new([hours()]);
    desk.runs("provider-1", "hours", X);
    for _ in 0..8 {
        assert!(matches!(desk.admit("provider-1", "hours", X).1, Admission::Attached));
    }
    assert_eq!(desk.refused("provider-1", "hours", X), ToolError::SessionInactive);
}

/// P answer 6: refusals are decided anew, or a call that needs a yes could never get it.
#[test]
fn refusals_are_not_stored() {
    let mut desk = Desk::new([book()]);
    let token = token(&desk.asked("provider-1", "book", TABLE));
    desk.caller("yes");
    desk.runs("provider-1", "book", &table(&token));
}

/// P answer 6: what the policy says after all (a remote gate) ran nothing and is not stored either.
#[test]
fn a_late_refusal_is_not_stored() {
    let mut desk = Desk::new([hours()]);
    desk.runs_to("provider-1", "hours", X, 1, ToolOutcome::failed(ToolError::Refused, "No."));
    desk.runs("provider-1", "hours", X);
}

/// P answer 6: a call that was given up leaves nothing, and everybody who waited has a line.
#[test]
fn a_call_that_was_given_up_can_come_again() {
    let mut desk = Desk::new([hours()]);
    let call = desk.runs("provider-1", "hours", X);
    let (second, _) = desk.admit("provider-1", "hours", X);
    desk.after(40);
    let (tool, lines) = desk.policy.cancel(call.id(), desk.now).unwrap();
    assert_eq!(tool, "hours");
    assert_eq!(
        lines.iter().map(|line| &line.call_id).collect::<Vec<_>>(),
        [&call.id().to_string(), &second.to_string()]
    );
    assert!(lines.iter().all(|line| line.cancelled && !line.ok));
    assert_eq!((lines[0].duration, lines[1].duration), (40, 0));
    assert!(desk.policy.settle(call.id(), found(), desk.now).is_none());
    desk.runs("provider-1", "hours", X);
}

/// P12: an id that comes again with a name nobody knows is another call, and the name is kept nowhere.
#[test]
fn a_repeat_under_a_made_up_name_names_no_tool() {
    let mut desk = Desk::new([hours()]);
    desk.runs_to("provider-1", "hours", X, 1, found());
    let again = desk.answered("provider-1", "made_up", X);
    assert_eq!(again.error, Some(ToolError::NotFound));
    assert_eq!((again.tool, again.audit.tool_id.as_str()), (None, "unknown"));
}

/// P answer 6: after a handoff another agent counts its calls anew, and gets no result of a tool that
/// its context does not have.
#[test]
fn results_stay_with_the_agent_that_asked() {
    let mut desk = Desk::new([hours()]);
    desk.runs_to("tool_call_1", "hours", X, 1, found());
    desk.runs_to("1", "hours", r#"{"query":"y"}"#, 1, found());
    desk.policy.change_hands(toolbox([on_call("wave")]), Arc::default(), AnswerLimits::default());
    desk.runs("tool_call_1", "wave", "{}");
    assert_eq!(desk.refused("1", "hours", r#"{"query":"y"}"#), ToolError::NotFound);
}

impl Desk {
    fn policy_settle(&mut self, id: ToolCallId, outcome: ToolOutcome) -> Settled {
        self.policy.settle(id, outcome, self.now).expect("it was running")
    }
}

/// D answer 21: a service sees the calls of all callers, and two of them may ask for the same thing.
#[test]
fn services_are_given_a_key_that_no_other_telephone_call_has() {
    let key = |session: &str| {
        let opening = Opening { session: session.into(), ..Opening::default() };
        let mut desk = Desk::with([hours()], PolicyRules::default(), opening);
        desk.runs("1", "hours", X).service_key().to_owned()
    };
    assert_ne!(key("one"), key("two"));
    assert_eq!(key("one"), key("one"));
}

/// A session that is lost takes its model's knowledge of a call with it; what it asked for happens once all the same.
#[test]
fn another_session_that_makes_the_same_call_gets_what_comes_of_the_first() {
    let mut desk = Desk::new([hours()]);
    let first = desk.runs("provider-1", "hours", X);
    desk.policy.change_sessions(AnswerLimits::default());
    let (second, admission) = desk.admit("another-1", "hours", r#" {"query": "x"} "#);
    assert!(matches!(admission, Admission::Attached), "it waits for the first");
    let settled = desk.after(300).policy_settle(first.id(), found());
    assert_eq!(settled.answers.iter().map(|answer| answer.id).collect::<Vec<_>>(), [first.id(), second]);
    assert_eq!(envelope(&desk.answered("another-2", "hours", X))["meta"]["replayed"], true, "it has run");
    desk.runs("another-3", "hours", r#"{"query":"y"}"#);
    desk.policy.agent_answered();
    assert_eq!(envelope(&desk.answered("another-4", "hours", X))["meta"]["replayed"], true, "nobody has asked again");
    desk.caller("once more");
    desk.policy.agent_answered();
    desk.runs("another-5", "hours", X);
}

#[test]
fn what_still_runs_is_joined_however_much_was_said_since() {
    let mut desk = Desk::new([hours()]);
    desk.runs("provider-1", "hours", X);
    desk.policy.change_sessions(AnswerLimits::default());
    desk.policy.agent_answered();
    desk.caller("and?");
    assert!(matches!(desk.admit("another-1", "hours", X).1, Admission::Attached));
}

/// The model of the next session words a note anew that the last one has posted, as far as anybody knows.
#[test]
fn another_session_writes_nothing_else_with_the_tool_before_the_caller_has_spoken() {
    let posts = ToolSpec { standing_approval: true, executor: Executor::Declarative, ..book() };
    let other = r#"{"day":"Friday evening","people":4}"#;
    for (spec, refused) in [(posts, true), (ToolSpec { standing_approval: true, ..book() }, false)] {
        let opening = Opening { caller_known: true, ..Opening::default() };
        let mut desk = Desk::with([spec], PolicyRules::default(), opening);
        let first = desk.runs("provider-1", "book", TABLE);
        desk.policy.change_sessions(AnswerLimits::default());
        if refused {
            assert_eq!(desk.refused("another-1", "book", other), ToolError::Refused);
            desk.policy_settle(first.id(), found());
            assert_eq!(desk.refused("another-2", "book", other), ToolError::Refused, "its result is not told yet");
            desk.caller("once more, in the evening");
        }
        desk.runs("another-3", "book", other);
    }
}

/// Providers count their calls anew in each session.
#[test]
fn an_id_is_one_of_its_own_session() {
    let mut desk = Desk::new([hours()]);
    let first = desk.runs("call_00001", "hours", X);
    desk.policy.change_sessions(AnswerLimits::default());
    let second = desk.runs("call_00001", "hours", r#"{"query":"y"}"#);
    assert_ne!(first.service_key(), second.service_key(), "no service takes them for the same");
}
