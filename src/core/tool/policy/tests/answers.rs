//! Steps 8 to 11: passes, outcomes, envelopes, audit lines.

use super::*;
use crate::tool::{After, DigitPlan, DigitPurpose, Done, Executor, SideEffects};

const X: &str = r#"{"query":"x"}"#;

/// P20, P21, P26, P17: the full envelope, key by key.
#[test]
fn a_success_is_answered_with_the_full_envelope() {
    let mut desk = Desk::new([hours()]);
    let done = Done {
        message: Some("Until six.".into()),
        data: json!({ "until": 18 }),
        actions: vec![CallAction::EndCall { after: After::CurrentTurn, reason: "task_complete".into(), closing: None }],
        changes: Vec::new(),
    };
    let settled = desk.runs_to("provider-1", "hours", X, 120, ToolOutcome::Done(done));
    let version = desk.policy.toolbox().version().to_owned();
    assert_eq!(
        settled.answers[0].output,
        format!(
            r#"{{"ok":true,"message":"Until six.","data":{{"until":18}},"intents":[{{"type":"END_VOICE_SESSION","after":"current_turn","data":{{"reason":"task_complete","finalMessage":null}}}}],"meta":{{"toolId":"hours","toolVersion":"1.0.0","registryVersion":"{version}","duration":120,"responseSchemaVersion":"1.0.0"}}}}"#
        )
    );
    assert_eq!(settled.actions.len(), 1);
    assert!(version.starts_with("1.0.") && version.len() == 12, "{version}");
}

/// P20, P answer 10: what a tool that failed asks for is not done.
#[test]
fn a_failure_is_answered_and_asks_for_nothing() {
    let mut desk = Desk::new([hours()]);
    let failure = Failure { details: json!({ "attempts": 2 }), ..Failure::new(ToolError::RateLimit, "Too often.") };
    let settled = desk.runs_to("provider-1", "hours", X, 5, ToolOutcome::Failed(failure));
    assert!(settled.actions.is_empty());
    let answer = &settled.answers[0];
    let envelope = envelope(answer);
    assert_eq!((&envelope["ok"], &envelope["intents"]), (&json!(false), &json!([])));
    let error =
        json!({ "type": "RATE_LIMIT", "message": "Too often.", "retryable": false, "details": { "attempts": 2 } });
    assert_eq!(envelope["error"], error);
    assert_eq!((answer.audit.error_type, answer.audit.attempts), (Some("RATE_LIMIT"), Some(2)));
}

/// P17: a tool that breaks, or answers what no tool may, is `INTERNAL`, and may have done something.
#[test]
fn a_tool_that_answers_badly_is_internal() {
    let plan = DigitPlan {
        prompt: None,
        min: 1,
        max: 1,
        terminator: None,
        timeout: Duration::from_secs(1),
        purpose: DigitPurpose::Plain,
    };
    for bad in [ToolOutcome::failed(ToolError::Internal, "Unexpected error."), ToolOutcome::Collect(plan)] {
        let settled = Desk::new([hours()]).runs_to("provider-1", "hours", X, 1, bad);
        let error = envelope(&settled.answers[0])["error"].clone();
        assert_eq!((&error["type"], &error["partialSideEffects"]), (&json!("INTERNAL"), &json!(true)));
    }
}

/// P17: nobody knows how far a tool got that took too long; only one that does no harm twice may be
/// tried again.
#[test]
fn a_tool_that_takes_too_long_says_whether_to_try_again() {
    let late = || ToolOutcome::failed(ToolError::Timeout, "The tool took too long.");
    let error = |spec: ToolSpec| {
        let (name, arguments) = (spec.name.clone(), if spec.name == "hours" { X } else { "{}" });
        let settled = Desk::new([spec]).runs_to("provider-1", &name, arguments, 5_000, late());
        envelope(&settled.answers[0])["error"].clone()
    };
    assert_eq!(error(hours())["retryable"], true);
    let write = error(ToolSpec { side_effects: SideEffects::Writes, ..on_call("wave") });
    assert_eq!((&write["retryable"], &write["partialSideEffects"]), (&json!(false), &json!(true)));
}

/// P19: slower than its budget is worth a word in the audit line, no more.
#[test]
fn a_slow_tool_is_marked() {
    let spec = ToolSpec { latency_budget: Duration::from_millis(800), ..hours() };
    for (ms, over) in [(800, false), (801, true)] {
        let mut desk = Desk::new([spec.clone()]);
        let settled = desk.runs_to("provider-1", "hours", X, ms, ToolOutcome::done("", json!(1)));
        let answer = &settled.answers[0];
        assert_eq!((answer.audit.over_latency_budget, answer.audit.ok, answer.error), (over, true, None));
    }
}

/// P17: a pass carries what the tool may take and how long.
#[test]
fn a_pass_carries_the_tools_own_limit() {
    let mut desk = Desk::new([ToolSpec { timeout: Duration::from_secs(9), ..hours() }]);
    let call = desk.runs("provider-1", "hours", X);
    assert_eq!((call.name(), call.time_left()), ("hours", Duration::from_secs(9)));
    assert!(!format!("{call:?}").contains("query"));
    assert_eq!(Value::Object(call.arguments().clone()), json!({ "query": "x", "top_k": 5 }));
}

/// P16, P27: a pass carries what the tool may know of the call: arguments, if only an empty object, and the state as
/// it was when the call was admitted. Every version told is the one the call began with.
#[test]
fn a_pass_carries_a_snapshot_of_the_state() {
    let mut desk = Desk::new([hours(), on_call("wave")]);
    let version = desk.policy.toolbox().version().to_owned();
    let before = desk.runs("provider-1", "wave", "");
    assert_eq!((before.arguments(), before.memory().flags.len()), (&Map::new(), 0));
    let change = crate::tool::Change::Set { path: "flags.seen".into(), value: json!(true) };
    let done = Done { changes: vec![change], ..Done::default() };
    let settled = desk.policy.settle(before.id(), ToolOutcome::Done(done), desk.now).unwrap();
    assert_eq!(settled.answers[0].audit.registry_version, version);
    let after = desk.runs("provider-2", "wave", r#"{"again":true}"#);
    assert_eq!(after.memory().flags.get("seen"), Some(&json!(true)), "real state, not a copy handed around");
    assert_eq!(before.memory().flags.len(), 0, "a snapshot stays as it was");
}

/// A model that does not wait is answered at once; the outcome goes to the audit line alone, and what
/// it asks of the call is done.
#[test]
fn a_dispatched_call_is_answered_at_once() {
    let mut desk = Desk::new([ToolSpec { wait: false, ..on_call("notify") }]);
    let (id, admission) = desk.admit("provider-1", "notify", "{}");
    let Admission::Run { call, dispatched: Some(output) } = admission else { panic!("{admission:?}") };
    assert_eq!(call.id(), id);
    let envelope: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((&envelope["ok"], &envelope["data"]), (&json!(true), &json!({ "status": "dispatched" })));
    assert_eq!(envelope["intents"], json!([]));
    desk.after(2_000);
    let outcome = ToolOutcome::act("Sent.", CallAction::Flag { name: "sent".into(), value: true });
    let settled = desk.policy.settle(id, outcome, desk.now).unwrap();
    assert!(settled.answers.is_empty());
    assert_eq!(settled.actions.len(), 1);
    let audit = settled.audit.unwrap();
    assert_eq!((audit.ok, audit.duration, audit.call_id), (true, 2_000, id.to_string()));
}

/// P26, P answer 8: whatever an answer holds, it fits the line; `data` goes first.
#[test]
fn an_answer_fits_the_provider() {
    const BYTES_MAX: usize = 1_500;
    let opening = || Opening {
        caller_known: true,
        answers: AnswerLimits { bytes_max: Some(BYTES_MAX), data: true },
        ..Opening::default()
    };
    let long = "\u{1}\"ü".repeat(2_000);
    let action = CallAction::SayNextTurn { message: long.clone() };
    let outcomes = [
        ToolOutcome::done("Short.", json!(long)),
        ToolOutcome::done(long.clone(), json!(1)),
        ToolOutcome::act(long.clone(), action.clone()),
        ToolOutcome::failed(ToolError::Permanent, long.clone()),
        ToolOutcome::Failed(Failure { details: json!(long), ..Failure::new(ToolError::Conflict, "No.") }),
    ];
    for result in [ResultShape::Envelope, ResultShape::Data] {
        for outcome in &outcomes {
            let rules = PolicyRules { result, ..PolicyRules::default() };
            let mut desk = Desk::with([hours()], rules, opening());
            let asked = usize::from(matches!(outcome, ToolOutcome::Done(done) if !done.actions.is_empty()));
            let settled = desk.runs_to("provider-1", "hours", X, 1, outcome.clone());
            let output = &settled.answers[0].output;
            assert!(output.len() <= BYTES_MAX, "{}", output.len());
            assert_eq!(settled.actions.len(), asked, "what was asked is done all the same");
            let replayed = desk.answered("provider-1", "hours", X);
            assert!(replayed.output.len() <= BYTES_MAX);
            if result == ResultShape::Envelope {
                assert_eq!(envelope(&settled.answers[0])["meta"]["truncated"], true);
            }
        }
    }
    let mut desk = Desk::with([book()], PolicyRules::default(), opening());
    let answer = desk.answered("provider-1", "book", &json!({ "day": long, "people": 4 }).to_string());
    assert!(answer.output.len() <= BYTES_MAX, "{}", answer.output.len());
    assert!(envelope(&answer)["error"].get("confirmation_request").is_none(), "nobody could say that");
}

/// P answer 8: `data` or `error` alone, where the operator wants it.
#[test]
fn a_provider_can_be_told_less() {
    let rules = PolicyRules { result: ResultShape::Data, ..PolicyRules::default() };
    let mut desk = Desk::with([hours()], rules, Opening::default());
    let settled = desk.runs_to("provider-1", "hours", X, 1, ToolOutcome::done("Six.", json!({ "until": 18 })));
    assert_eq!(settled.answers[0].output, r#"{"until":18}"#);
    let refused = desk.answered("provider-2", "nothing", "{}");
    assert_eq!(refused.output, r#"{"error":{"type":"NOT_FOUND","message":"Unknown tool: nothing","retryable":false}}"#);
}

/// M answer 9: the smaller of the provider's and the operator's size counts, and the operator's word about data.
#[test]
fn the_operator_may_tell_a_provider_less_or_more() {
    let provider = |bytes_max, data| AnswerLimits { bytes_max, data };
    let under = |provider: AnswerLimits, result_bytes_max, forward_data| {
        provider.under(&PolicyRules { result_bytes_max, forward_data, ..PolicyRules::default() })
    };
    assert_eq!(under(provider(Some(2048), false), None, None), provider(Some(2048), false));
    assert_eq!(under(provider(Some(2048), false), Some(1024), Some(true)), provider(Some(1024), true));
    assert_eq!(under(provider(Some(2048), true), Some(4096), Some(false)), provider(Some(2048), false));
    assert_eq!(under(provider(None, true), Some(64 * 1024), None), provider(Some(64 * 1024), true));
    let rules = PolicyRules { result_bytes_max: Some(512), forward_data: Some(false), ..PolicyRules::default() };
    let mut desk = Desk::with([hours()], rules, Opening::default());
    let outcome = ToolOutcome::done("Until six. ".repeat(100), json!({ "raw": "planted", "open": true }));
    let settled = desk.runs_to("provider-1", "hours", X, 1, outcome);
    let output = &settled.answers[0].output;
    assert!(output.len() <= 512 && !output.contains("planted"), "{output}");
    assert_eq!(envelope(&settled.answers[0])["data"], json!({ "open": true }));
    let again = desk.answered("provider-1", "hours", X);
    assert!(again.output.len() <= 512 && !again.output.contains("planted"), "{}", again.output);
}

/// M23, M24: what the next agent's provider bears counts from the handoff on.
#[test]
fn a_handoff_brings_the_next_providers_limits() {
    let mut desk = Desk::new([hours()]);
    let outcome = || ToolOutcome::done("Until six.", json!({ "raw": "planted", "open": true }));
    let told = desk.runs_to("provider-1", "hours", X, 1, outcome()).answers.remove(0).output;
    assert!(told.contains("planted"));
    let small = AnswerLimits { bytes_max: Some(2048), data: false };
    desk.policy.change_hands(toolbox([hours()]), Arc::default(), small);
    let told = desk.runs_to("provider-1", "hours", X, 1, outcome()).answers.remove(0).output;
    assert!(!told.contains("planted") && told.contains(r#""data":{"open":true}"#), "{told}");
}

/// P18, P31, P answer 11, P answer 13: one line of a success, byte for byte.
#[test]
fn an_audit_line_of_a_success() {
    let executor = Executor::Mcp("shop".into());
    let mut desk = Desk::new([ToolSpec { executor, ..hours() }]);
    desk.caller("when do you close?");
    let settled = desk.runs_to("provider-1", "hours", X, 345, ToolOutcome::done("", json!(1)));
    let audit = &settled.answers[0].audit;
    let (call, version) = (&audit.call_id, desk.policy.toolbox().version());
    assert_eq!(
        serde_json::to_string(audit).unwrap(),
        format!(
            r#"{{"event":"tool_execution","callId":"{call}","toolId":"hours","toolVersion":"1.0.0","registryVersion":"{version}","duration":345,"ok":true,"category":"retrieval","sessionId":"session-1","mode":"voice","route":"accept","gate_decision":"pass","executor":"mcp","server":"shop","replayed":false,"idempotencyKey":"provider:provider-1","turn":1,"argument_keys":["query","top_k"]}}"#
        )
    );
}

/// P31, P answer 13: whatever becomes of a call, its line has names and keys, and none of the values.
#[test]
fn no_audit_line_holds_a_value() {
    const PLANTED: &str = "planted 47110815";
    let secret = ToolSpec { name: "charge".into(), secret_args: vec!["day".into()], ..book() };
    let mystery = ToolSpec::new("mystery", "?", object(json!({ "query": { "type": "string" } }), &[]));
    let reject = ToolSpec { name: "reject".into(), unknown_args: UnknownArgs::Reject, ..hours() };
    let mut desk = Desk::new([hours(), book(), secret, mystery, reject]);
    let mut lines = Vec::new();
    for (name, arguments) in [
        ("hours", json!({ "query": { "a": PLANTED } })),
        ("hours", json!({ "query": "x", "top_k": PLANTED })),
        ("hours", json!(PLANTED)),
        ("reject", json!({ "query": PLANTED, "else": PLANTED, PLANTED: 1 })),
        ("book", json!({ "day": PLANTED, "people": 2, "confirmationToken": PLANTED })),
        ("charge", json!({ "day": PLANTED, "people": 2 })),
        ("mystery", json!({ "query": PLANTED })),
        (PLANTED, json!({ PLANTED: PLANTED })),
    ] {
        desk.policy.caller_spoke(None, desk.now);
        desk.policy.caller_said(None, PLANTED, desk.now);
        desk.policy.agent_said(PLANTED);
        lines.push(desk.answered("1", name, &arguments.to_string()).audit);
    }
    let failure = Failure { details: json!({ "attempts": PLANTED }), ..Failure::new(ToolError::Permanent, PLANTED) };
    for outcome in [ToolOutcome::done(PLANTED, json!(PLANTED)), ToolOutcome::Failed(failure)] {
        desk.caller(PLANTED);
        let arguments = json!({ "query": PLANTED, PLANTED: PLANTED }).to_string();
        let settled = desk.runs_to("1", "hours", &arguments, 1, outcome);
        lines.extend(settled.answers.into_iter().map(|answer| answer.audit));
        lines.push(desk.answered("1", "hours", &arguments).audit);
    }
    for line in &lines {
        let text = serde_json::to_string(line).unwrap() + &format!("{line:?}");
        assert!(!text.contains("47110815") && !text.contains("planted"), "{text}");
    }
    assert!(!format!("{:?}", desk.policy).contains("47110815"));
}

/// G answer 6, P31: identity numbers in values, in names of arguments, in the names of tools and in results are
/// in no audit line and no Debug print; this crate has nothing that writes a log.
#[test]
fn identity_numbers_are_in_no_line() {
    const NUMBERS: [&str; 5] = ["123456789012", "1234 5678 9012", "1234-5678-9012", "ABCDE1234F", "id_ABCDE1234F"];
    let open = json!({ "type": "object", "additionalProperties": true, "properties": { "query": {} } });
    let open = ToolSpec { name: "open".into(), parameters: open, ..hours() };
    let reject = ToolSpec { name: "reject".into(), unknown_args: UnknownArgs::Reject, ..hours() };
    let mut shown = Vec::new();
    for number in NUMBERS {
        let mut desk = Desk::new([hours(), open.clone(), reject.clone(), book()]);
        for (name, arguments) in [
            ("hours", json!({ "query": number, number: number, "nested": { number: 1 } })),
            ("open", json!({ "query": { number: number }, number: number })),
            ("reject", json!({ "query": number, number: 1 })),
            ("book", json!({ "day": number, "people": 2 })),
            (number, json!({ number: number })),
        ] {
            desk.caller(number);
            let (id, admission) = desk.admit("1", name, &arguments.to_string());
            match admission {
                Admission::Run { .. } => {
                    let done = ToolOutcome::done(number, json!({ number: number }));
                    let settled = desk.policy.settle(id, done, desk.now).unwrap();
                    shown.extend(settled.answers.iter().map(|answer| serde_json::to_string(&answer.audit).unwrap()));
                }
                Admission::Answered(answer) => shown.push(serde_json::to_string(&answer.audit).unwrap()),
                other => panic!("{other:?}"),
            }
            shown.push(format!("{:?}", desk.policy));
        }
    }
    assert_eq!(shown.len(), NUMBERS.len() * 10, "two lines of each of five calls");
    for text in &shown {
        assert!(!NUMBERS.iter().any(|number| text.contains(number)), "{text}");
    }
    assert!(shown.iter().any(|line| line.contains(r#""argument_keys":["?","query"]"#)), "{shown:?}");
}

/// P31: a refused call names what it was asked with and why it was refused.
#[test]
fn a_refused_call_has_its_line() {
    let mut desk = Desk::new([book()]);
    let audit = desk.answered("provider-1", "book", TABLE).audit;
    assert_eq!(
        (audit.error_type, audit.route, audit.gate_decision),
        (Some("CONFIRMATION_REQUIRED"), Some("ask"), Some("fail"))
    );
    assert_eq!(audit.argument_keys, ["day", "people"]);
    assert!(!audit.hard_blockers.is_empty());
    desk.policy.spending = Spending::new(Budgets { retrieval: 0, total: 0 });
    let audit = desk.answered("provider-2", "book", TABLE).audit;
    assert_eq!((audit.error_type, audit.route), (Some("BUDGET_EXCEEDED"), None));
    assert_eq!((audit.category, audit.argument_keys.len()), ("action", 2));
}
