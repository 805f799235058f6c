//! Steps 1 to 6: decode, lookup, mode, arguments, budgets, loops.

use super::*;

/// P11, P answer 9: a nameless call with an id is answered, and so is one that cannot be read.
#[test]
fn what_cannot_be_read_is_answered_with_validation() {
    let mut desk = Desk::new([hours()]);
    desk.without_budget();
    assert_eq!(desk.refused("id", "", "{}"), ToolError::Validation);
    for unreadable in ["{", "[]", "null", "3", "\"{}\"", "{\"query\":}", "undefined"] {
        assert_eq!(desk.refused("id", "hours", unreadable), ToolError::Validation, "{unreadable}");
    }
    let deep = format!("{{\"query\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    assert_eq!(desk.refused("id", "hours", &deep), ToolError::Validation);
    let filler = " ".repeat(ARGUMENT_BYTES_MAX - r#"{"query":"a"}"#.len());
    desk.runs("a", "hours", &format!(r#"{{"query":"a"}}{filler}"#));
    assert_eq!(desk.refused("b", "hours", &format!(r#"{{"query":"b"}}{filler} "#)), ToolError::Validation);
}

/// P16: no arguments are an empty object.
#[test]
fn arguments_may_be_left_empty() {
    let mut desk = Desk::new([on_call("wave")]);
    for (id, empty) in [("a", ""), ("b", " \n")] {
        assert_eq!(desk.runs(id, "wave", empty).arguments(), &Map::new());
        desk.caller("more");
    }
}

/// P12: the document's words and shape; a tool of another context looks exactly like none at all.
#[test]
fn an_unknown_tool_and_one_that_is_not_allowed_look_the_same() {
    let tools = [hours(), balance()].map(|spec| Arc::new(Idle(spec)) as Arc<dyn Tool>);
    let registry = Registry::new(tools).unwrap();
    let mut desk = Desk::new([]);
    desk.policy.toolbox = Arc::new(registry.toolbox(["hours"]));
    let hidden = desk.answered("id", "balance", "{}");
    let unknown = desk.answered("id", "nothing", "{}");
    assert_eq!(hidden.output.replace("balance", "nothing"), unknown.output);
    assert_eq!((hidden.tool, unknown.tool), (None, None));
    let lines = [&hidden.audit, &unknown.audit].map(|audit| {
        let mut line = serde_json::to_value(audit).unwrap();
        let line = line.as_object_mut().unwrap();
        line.retain(|key, _| key != "callId" && key != "idempotencyKey");
        Value::Object(line.clone())
    });
    assert_eq!(lines[0], lines[1]);
    assert_eq!(
        unknown.output,
        r#"{"ok":false,"error":{"type":"NOT_FOUND","message":"Unknown tool: nothing","retryable":false},"intents":[],"meta":{"toolId":"nothing","duration":0,"responseSchemaVersion":"1.0.0"}}"#
    );
}

/// M11, M31, M answer 7: a tool that exists and is not listed is answered, and told in the audit line, like one that
/// does not exist: there is nothing to probe, with whatever arguments.
#[test]
fn a_tool_that_is_not_listed_is_answered_like_one_that_does_not_exist() {
    let tools = [hours(), book()].map(|spec| Arc::new(Idle(spec)) as Arc<dyn Tool>);
    let registry = Registry::new(tools).unwrap();
    let mut desk = Desk::new([]);
    let version = registry.version().to_owned();
    desk.policy.change_hands(Arc::new(registry.toolbox(["hours"])), Arc::default(), AnswerLimits::default());
    desk.without_budget();
    for arguments in [TABLE, "{}", "", "[", r#"{"confirmationToken":"x"}"#] {
        let mut told = |name: &str| {
            let answer = desk.answered("provider-1", name, arguments);
            let mut audit = serde_json::to_value(&answer.audit).unwrap();
            assert_eq!(audit["registryVersion"], version);
            for of_its_own in ["callId", "toolId"] {
                audit.as_object_mut().unwrap().remove(of_its_own);
            }
            assert_eq!(answer.tool, None);
            desk.policy.replay = Replay::default();
            (answer.output.replace(name, "…"), answer.error, audit.to_string())
        };
        assert_eq!(told("book"), told("cook"), "{arguments}");
    }
}

#[test]
fn a_made_up_name_is_told_back_short_and_is_in_no_audit_line() {
    let answer = Desk::new([]).answered("id", &"é".repeat(5_000), "{}");
    assert!(answer.output.len() < 600, "{}", answer.output.len());
    assert_eq!((answer.audit.tool_id.as_str(), answer.tool), ("unknown", None));
}

/// P8, P13: the mode the call began with decides, in the document's words.
#[test]
fn a_tool_of_another_mode_does_not_run() {
    let text = ToolSpec { modes: crate::tool::Modes { voice: false, text: true }, ..on_call("write") };
    let mut desk = Desk::new([text.clone()]);
    let answer = desk.answered("id", "write", "{}");
    let error = &envelope(&answer)["error"];
    assert_eq!(error["type"], "MODE_RESTRICTED");
    assert_eq!(error["message"], "Tool write not available in voice mode");
    assert_eq!(error["retryable"], false);
    assert_eq!(answer.audit.mode, "voice");
    let opening = Opening { mode: Mode::Text, ..Opening::default() };
    Desk::with([text], PolicyRules::default(), opening).runs("id", "write", "{}");
}

/// P answer 2: what the schema does not know is dropped and named in the audit line; defaults are
/// filled in.
#[test]
fn unknown_arguments_are_dropped_and_named() {
    let mut desk = Desk::new([hours()]);
    let call = desk.runs("id", "hours", r#"{"query":"x","colour":"red"}"#);
    assert_eq!(Value::Object(call.arguments().clone()), json!({ "query": "x", "top_k": 5 }));
    let settled = desk.policy.settle(call.id(), ToolOutcome::done("", json!(1)), desk.now).unwrap();
    let audit = &settled.answers[0].audit;
    assert_eq!(audit.dropped_arguments, ["colour"]);
    assert_eq!(audit.argument_keys, ["query", "top_k"]);
}

/// P answer 2: a manifest may refuse them instead; the audit line names them too.
#[test]
fn unknown_arguments_are_refused_where_the_manifest_says_so() {
    let mut desk = Desk::new([ToolSpec { unknown_args: UnknownArgs::Reject, ..hours() }]);
    let answer = desk.answered("id", "hours", r#"{"query":"x","colour":"red"}"#);
    assert_eq!(answer.error, Some(ToolError::Validation));
    assert_eq!(envelope(&answer)["error"]["message"], "Invalid parameters: colour is not known");
    assert_eq!(answer.audit.dropped_arguments, ["colour"]);
    assert_eq!(answer.audit.argument_keys, ["query", "top_k"]);
    assert_eq!(desk.runs("id", "hours", r#"{"query":"x","confirmationToken":"t"}"#).name(), "hours");
}

/// P answer 2: nothing is converted, and a mistake is told by its place, never by its value.
#[test]
fn arguments_of_the_wrong_kind_are_refused() {
    let mut desk = Desk::new([hours()]);
    desk.without_budget();
    for wrong in [r#"{"query":"x","top_k":"3"}"#, r#"{"query":3}"#, r#"{"query":"x","top_k":11}"#, "{}"] {
        assert_eq!(desk.refused("id", "hours", wrong), ToolError::Validation, "{wrong}");
    }
    let answer = desk.answered("id", "hours", r#"{"query":{"planted":"4711"}}"#);
    let error = &envelope(&answer)["error"];
    assert!(error["message"].as_str().unwrap().starts_with("Invalid parameters: "), "{error}");
    assert_eq!(error["details"]["errors"][0]["path"], "/query");
    assert!(!answer.output.contains("4711"), "{}", answer.output);
}

/// V answer 17: no digit of a whole number is lost without a word: one that cannot be kept is refused, and the model told to
/// write it as text.
#[test]
fn a_whole_number_of_more_than_64_bits_is_refused_and_never_rounded() {
    let mut desk = Desk::new([hours()]);
    let answer = desk.answered("a", "hours", r#"{"query":"x","top_k":123456789012345678901234567890}"#);
    let error = &envelope(&answer)["error"];
    assert_eq!((answer.error, &error["message"]), (Some(ToolError::Validation), &json!(super::super::whole::TOO_LONG)));
    assert!(!answer.output.contains("1234567"), "{}", answer.output);
    let text = desk.runs("b", "hours", r#"{"query":"123456789012345678901234567890"}"#);
    assert_eq!(text.arguments()["query"], "123456789012345678901234567890");
}

/// P answer 2: the reserved argument reaches no tool, even one whose schema has it.
#[test]
fn the_token_never_reaches_a_tool() {
    let parameters = object(json!({ "confirmationToken": { "type": "string" } }), &[]);
    let greedy = ToolSpec { parameters, ..on_call("greedy") };
    for arguments in [r#"{"confirmationToken":"abc"}"#, r#"{"confirmationToken":{"a":1}}"#] {
        let call = Desk::new([greedy.clone()]).runs("id", "greedy", arguments);
        assert_eq!(call.arguments(), &Map::new());
    }
}

/// P14, P22, P answer 1: two look-ups and three calls per turn of the caller, counted when they are
/// admitted; what is stopped earlier costs nothing.
#[test]
fn budgets_count_every_call_of_a_turn() {
    let mut desk = Desk::new([hours(), on_call("wave"), book()]);
    let ask = |n: u32| format!(r#"{{"query":"{n}"}}"#);
    desk.runs("a", "hours", &ask(1));
    desk.runs("b", "hours", &ask(2));
    let answer = desk.answered("c", "hours", &ask(3));
    let error = envelope(&answer)["error"].clone();
    assert_eq!(
        (&error["type"], &error["message"], &error["retryable"]),
        (&json!("BUDGET_EXCEEDED"), &json!("Voice retrieval budget exceeded (max 2 per turn)"), &json!(false))
    );
    let answer = desk.answered("provider-e", "wave", "{}");
    assert_eq!(envelope(&answer)["error"]["message"], "Voice call budget exceeded (max 3 per turn)");
    desk.caller("and then?");
    desk.runs("f", "hours", &ask(3));
}

/// P22: refused ones too, whatever they are refused for.
#[test]
fn a_model_in_circles_is_stopped() {
    let mut desk = Desk::new([hours(), on_call("wave"), book()]);
    for (name, arguments, refusal) in [
        ("nothing", "{}", ToolError::NotFound),
        ("hours", "{}", ToolError::Validation),
        ("book", TABLE, ToolError::ConfirmationRequired),
        ("nothing", r#"{"a":1}"#, ToolError::BudgetExceeded),
        ("hours", "no object", ToolError::BudgetExceeded),
        ("wave", "{}", ToolError::BudgetExceeded),
    ] {
        assert_eq!(desk.refused("x", name, arguments), refusal, "{name} {arguments}");
    }
    desk.caller("and then?");
    desk.runs("provider-e", "wave", "{}");
}

/// P22, P answer 1: a key is a turn of the caller as well as a word.
#[test]
fn a_key_opens_a_turn() {
    let mut desk = Desk::new([on_call("wave")]);
    desk.policy.spending = Spending::new(Budgets { retrieval: 0, total: 1 });
    desk.runs("provider-a", "wave", "{}");
    assert_eq!(desk.refused("provider-b", "wave", "{}"), ToolError::BudgetExceeded);
    desk.policy.caller_pressed('5', desk.now);
    desk.runs("provider-c", "wave", "{}");
}

/// P answer 1: a call that was asked about counts once, when it is confirmed.
#[test]
fn a_confirmed_call_costs_once() {
    let budgets = Budgets { retrieval: 1, total: 1 };
    let rules = PolicyRules { budgets, ..PolicyRules::default() };
    let mut desk = Desk::with([book()], rules, Opening { caller_known: true, ..Opening::default() });
    let token = token(&desk.asked("a", "book", TABLE));
    desk.caller("yes");
    desk.runs("b", "book", &table(&token));
    assert_eq!(desk.refused("c", "book", TABLE), ToolError::BudgetExceeded);
}

/// P answer 12: the third call with the same arguments in one turn is a loop, however they are
/// spelled.
#[test]
fn the_same_call_a_third_time_is_a_loop() {
    let rules = PolicyRules { budgets: Budgets { retrieval: 9, total: 9 }, ..PolicyRules::default() };
    let mut desk = Desk::with([hours()], rules, Opening::default());
    desk.runs("provider-1", "hours", r#"{"query":"x","top_k":5}"#);
    desk.runs("provider-2", "hours", r#"{"top_k":5.0,"query":"x"}"#);
    let answer = desk.answered("provider-3", "hours", r#"{ "query": "x" }"#);
    let error = envelope(&answer)["error"].clone();
    assert_eq!(error["type"], "LOOP_DETECTED");
    assert_eq!(error["details"], json!({ "loopType": "SAME_CALL_REPEATED", "count": 3 }));
    assert_eq!(error["retryable"], false);
    desk.caller("again");
    desk.runs("provider-4", "hours", r#"{"query":"x"}"#);
}

/// P answer 12: a tool that found nothing twice is not asked a third time in that turn.
#[test]
fn a_tool_that_finds_nothing_twice_is_not_asked_again() {
    let rules = PolicyRules { budgets: Budgets { retrieval: 9, total: 9 }, ..PolicyRules::default() };
    let mut desk = Desk::with([hours()], rules, Opening::default());
    for (query, outcome) in [
        ("a", ToolOutcome::done("", json!({ "results": [] }))),
        ("b", ToolOutcome::failed(ToolError::Transient, "")),
        ("c", ToolOutcome::done("", json!([]))),
    ] {
        desk.runs_to(&format!("provider-{query}"), "hours", &format!(r#"{{"query":"{query}"}}"#), 10, outcome);
    }
    let answer = desk.answered("provider-d", "hours", r#"{"query":"d"}"#);
    let details = envelope(&answer)["error"]["details"].clone();
    assert_eq!(details, json!({ "loopType": "EMPTY_RESULTS_REPEATED", "count": 2 }));
}

/// P answer 12: an agent that only ever asks goes in circles too.
#[test]
fn asking_about_the_same_call_again_and_again_is_a_loop() {
    let mut desk = Desk::new([book()]);
    let first = desk.asked("provider-1", "book", TABLE);
    assert_ne!(first["token"], desk.asked("provider-2", "book", TABLE)["token"], "a fresh request");
    assert_eq!(desk.refused("provider-3", "book", TABLE), ToolError::LoopDetected);
}

/// P11: a call that comes when nothing new may begin is answered and has its line.
#[test]
fn a_call_at_the_end_is_refused() {
    let mut desk = Desk::new([hours()]);
    let call = ToolCall { id: "a".into(), name: "hours".into(), arguments: "{}".into() };
    let answer = desk.policy.refuse(ToolCallId::random(), &call, "The call is ending.");
    assert_eq!(answer.error, Some(ToolError::SessionInactive));
    assert_eq!(answer.audit.tool_id, "hours");
}

/// A run is told the time it really has: the tool's own, or what the call gives any tool.
#[test]
fn a_run_knows_how_long_the_call_waits() {
    let slow = || ToolSpec { timeout: Duration::from_secs(120), ..on_call("wave") };
    for (limit, told) in [(None, 120), (Some(10), 10), (Some(300), 120)] {
        let rules = PolicyRules { tool_time_max: limit.map(Duration::from_secs), ..PolicyRules::default() };
        let mut desk = Desk::with([slow()], rules, Opening::default());
        assert_eq!(desk.runs("id", "wave", "{}").time_left(), Duration::from_secs(told));
    }
}
