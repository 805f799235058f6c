//! The caller's yes.

use super::*;
use crate::sentences::{Language, Sentence};

/// P15, P answer 3, P answer 5, G answer 8: the request in the document's shape, and the caller is told what
/// would run.
#[test]
fn a_write_is_asked_about() {
    let mut desk = Desk::new([book()]);
    desk.caller("a table please");
    let answer = desk.answered("id", "book", TABLE);
    let envelope = envelope(&answer);
    let error = &envelope["error"];
    assert_eq!((&error["type"], &error["retryable"]), (&json!("CONFIRMATION_REQUIRED"), &json!(true)));
    assert!(error["message"].as_str().unwrap().starts_with("This action requires user confirmation"));
    let request = &error["confirmation_request"];
    assert_eq!(request["expires"], 1_700_000_000_000_i64 + 300_000, "milliseconds");
    assert_eq!((&request["tool"], &request["args"]), (&json!("book"), &json!({ "day": "Friday", "people": 4 })));
    assert_eq!(request["preview"], "Book a table on Friday for 4 people?");
    let token = token(request);
    assert!(token.len() == 32 && token.chars().all(|c| c.is_ascii_hexdigit()), "128 bits: {token}");
    assert_eq!(envelope["intents"], json!([]));
    assert_eq!(envelope["meta"]["toolId"], "book");
    assert_eq!(answer.audit.route, Some("ask"));
}

/// P answer 4: without a template the preview names the tool and the arguments, but no secret one.
#[test]
fn a_preview_keeps_secrets() {
    let parameters = object(json!({ "card_number": { "type": "string" }, "amount": { "type": "number" } }), &[]);
    let spec = ToolSpec {
        parameters,
        confirm_template: None,
        description: "Charge a card. Really.".into(),
        secret_args: vec!["card_number".into()],
        ..book()
    };
    let mut desk = Desk::new([spec]);
    let request = desk.asked("id", "book", r#"{"card_number":"4111222233334444","amount":12.5}"#);
    assert_eq!(request["preview"], "Book: card number ***, amount 12.5?");
    assert_eq!(request["args"], json!({ "card_number": "***", "amount": 12.5 }));
}

/// Without a sentence of the operator's, the name of the tool and its values are said: no JSON, and no words of its author.
#[test]
fn a_question_that_nobody_wrote_is_made_for_ears() {
    let anything = json!({ "entities": {}, "names": {}, "place": {}, "to": {}, "urgent": {} });
    let spec = ToolSpec {
        name: "memory.create_entities".into(),
        parameters: object(anything, &[]),
        confirm_template: None,
        description: "Create multiple new entities in the knowledge graph.".into(),
        ..book()
    };
    let mut desk = Desk::new([spec]);
    let arguments =
        r#"{"entities":[{"a":1},{"b":2}],"names":["Ann","Bob"],"place":{"x":1,"y":2},"to":"Jo","urgent":true}"#;
    let request = desk.asked("id", "memory.create_entities", arguments);
    let question = "Create entities: 2 entities, names Ann, Bob, place with 2 details, to Jo, urgent true?";
    assert_eq!(request["preview"], question);
}

/// The sentence before it is in the context's language, and is not a part of the question.
#[test]
fn a_question_that_nobody_wrote_is_put_in_the_language_of_the_context() {
    for language in Language::ALL {
        let before = Sentence::ShallI.text(language);
        let asked = |said: &str| {
            let mut rules = PolicyRules::default();
            before.clone_into(&mut rules.confirm.before);
            let spec = ToolSpec { confirm_template: None, ..book() };
            let mut desk = Desk::with([spec], rules, Opening { caller_known: true, ..Opening::default() });
            desk.caller("a table");
            let answer = desk.answered("a", "book", TABLE);
            desk.policy.agent_said(said);
            (envelope(&answer)["error"]["message"].to_string(), desk.caller("yes"))
        };
        let question = format!("{before} Book: day Friday, people 4?");
        let (told, verdict) = asked(&question);
        assert!(told.contains(&format!(r#"word for word: \"{question}\" Then wait"#)), "{told}");
        assert_eq!(verdict, Some(Verdict::Granted), "{question}");
        for other in [before, &question.replace('4', "5"), &question.replace("Friday", "Monday")] {
            assert_ne!(asked(other).1, Some(Verdict::Granted), "{other}");
        }
    }
}

/// P answer 4: what a value holds is not read as a template.
#[test]
fn a_value_is_not_a_template() {
    let mut desk = Desk::new([book()]);
    let request = desk.asked("id", "book", r#"{"day":"{people}","people":4}"#);
    assert_eq!(request["preview"], "Book a table on {people} for 4 people?");
}

/// P15, P answer 3, G answer 12: the same call with the token runs once the caller has said yes.
#[test]
fn a_yes_in_a_later_turn_lets_it_run_once() {
    let mut desk = Desk::new([book()]);
    desk.caller("a table");
    let request = desk.asked("a", "book", TABLE);
    assert_eq!(desk.caller("Yes, please."), Some(Verdict::Granted));
    let spelled = format!(r#"{{"confirmationToken":"{}","people":4.0,"day":"Friday"}}"#, token(&request));
    let call = desk.runs("provider-b", "book", &spelled);
    assert_eq!(call.arguments().keys().collect::<Vec<_>>(), ["people", "day"]);
    desk.policy.settle(call.id(), ToolOutcome::done("", json!(1)), desk.now);
    assert_eq!(desk.refused("provider-c", "book", &table(&token(&request))), ToolError::ConfirmationRequired);
    assert_eq!(desk.caller("yes"), Some(Verdict::Granted), "that was a fresh question");
    assert_eq!(desk.refused("provider-d", "book", &table(&token(&request))), ToolError::ConfirmationRequired);
}

/// P answer 3: an agent that sends the token back at once is asked again, with a fresh request.
#[test]
fn an_echoed_token_is_worth_nothing() {
    let mut desk = Desk::new([book()]);
    desk.caller("a table");
    let first = desk.asked("a", "book", TABLE);
    let again = desk.asked("b", "book", &table(&token(&first)));
    assert_ne!(first["token"], again["token"]);
    desk.caller("yes");
    assert_eq!(desk.refused("c", "book", &table(&token(&first))), ToolError::ConfirmationRequired, "it was replaced");
}

/// P answer 3: forged, expired, for other arguments or for another tool.
#[test]
fn a_token_is_good_for_what_was_asked_alone() {
    let other = ToolSpec { name: "cancel".into(), ..book() };
    let fresh = || {
        let mut desk = Desk::new([book(), other.clone()]);
        let token = token(&desk.asked("a", "book", TABLE));
        assert_eq!(desk.caller("yes"), Some(Verdict::Granted));
        (desk, token)
    };
    let asked = ToolError::ConfirmationRequired;
    let (mut desk, _) = fresh();
    assert_eq!(desk.refused("b", "book", &table(&"0".repeat(32))), asked, "forged");
    let (mut desk, _) = fresh();
    assert_eq!(desk.refused("b", "book", TABLE), asked, "without");
    let (mut desk, token) = fresh();
    assert_eq!(desk.refused("b", "book", &table(&token).replace('4', "5")), asked, "other arguments");
    let (mut desk, token) = fresh();
    assert_eq!(desk.refused("b", "cancel", &table(&token)), asked, "another tool");
    let (mut desk, token) = fresh();
    desk.after(300_000);
    assert_eq!(desk.refused("b", "book", &table(&token)), asked, "expired");
    let (mut desk, token) = fresh();
    desk.after(299_000).runs("b", "book", &table(&token));
}

/// P answer 3: a token that is of no other type than text.
#[test]
fn a_token_that_is_no_text_is_none() {
    let mut desk = Desk::new([book()]);
    desk.without_budget();
    desk.asked("a", "book", TABLE);
    desk.caller("yes");
    for strange in ["true", "null", "{}", "[\"\"]", "1"] {
        let arguments = format!(r#"{{"day":"Friday","people":4,"confirmationToken":{strange}}}"#);
        let error = desk.refused("provider-id", "book", &arguments);
        assert!(matches!(error, ToolError::ConfirmationRequired | ToolError::LoopDetected));
    }
}

/// P answer 3: words of the turn before the question are no answer to it, however late they come.
#[test]
fn a_late_transcript_of_an_earlier_turn_is_no_yes() {
    let mut desk = Desk::new([book()]);
    desk.policy.caller_spoke(Some("one".into()), desk.now);
    desk.policy.caller_stopped(desk.now);
    let token = token(&desk.asked("a", "book", TABLE));
    desk.after(900);
    assert_eq!(desk.policy.caller_said(Some("one"), "yes", desk.now), None);
    assert_eq!(desk.refused("b", "book", &table(&token)), ToolError::ConfirmationRequired);
}

/// P answer 3: a call that comes before the caller's words waits for them.
#[test]
fn a_call_waits_for_the_transcript_of_the_answer() {
    let mut desk = Desk::new([book()]);
    desk.caller("a table");
    let token = token(&desk.asked("a", "book", TABLE));
    desk.policy.caller_spoke(Some("two".into()), desk.now);
    desk.policy.caller_stopped(desk.now);
    let (_, admission) = desk.admit("b", "book", &table(&token));
    assert!(matches!(admission, Admission::Wait { until } if until == desk.now + WORDS_MAX), "{admission:?}");
    assert_eq!(desk.policy.caller_said(Some("two"), "ja", desk.now), Some(Verdict::Granted));
    desk.runs("b", "book", &table(&token));
}

/// P answer 3: words that never come are no yes, and are not waited for where a voice cannot confirm.
#[test]
fn words_that_do_not_come_are_no_yes() {
    let mut desk = Desk::new([book()]);
    let token_given = token(&desk.asked("a", "book", TABLE));
    desk.policy.caller_spoke(None, desk.now);
    assert!(matches!(desk.admit("b", "book", &table(&token_given)).1, Admission::Wait { .. }));
    desk.policy.words_do_not_come();
    assert_eq!(desk.refused("b", "book", &table(&token_given)), ToolError::ConfirmationRequired);

    let confirm = ConfirmRules { by_voice: false, ..ConfirmRules::default() };
    let rules = PolicyRules { confirm, ..PolicyRules::default() };
    let mut desk = Desk::with([book()], rules, Opening { caller_known: true, ..Opening::default() });
    let token_given = token(&desk.asked("a", "book", TABLE));
    desk.policy.caller_spoke(None, desk.now);
    assert_eq!(desk.policy.caller_said(None, "yes", desk.now), None);
    assert_eq!(desk.refused("b", "book", &table(&token_given)), ToolError::ConfirmationRequired);
}

/// G answer 12: a key confirms as well, and another key declines.
#[test]
fn a_key_confirms() {
    let mut desk = Desk::new([book()]);
    let first = token(&desk.asked("a", "book", TABLE));
    assert_eq!(desk.policy.caller_pressed('1', desk.now), Some(Verdict::Granted));
    assert_eq!(desk.policy.caller_pressed('7', desk.now), None);
    desk.runs("b", "book", &table(&first));
    let second = token(&desk.asked("c", "book", r#"{"day":"Monday","people":2}"#));
    assert_eq!(desk.policy.caller_pressed('2', desk.now), Some(Verdict::Declined));
    let arguments = format!(r#"{{"day":"Monday","people":2,"confirmationToken":"{second}"}}"#);
    assert_eq!(desk.refused("d", "book", &arguments), ToolError::ConfirmationRequired);
}

/// P answer 3: who has said yes may think better of it until the tool runs.
#[test]
fn a_no_takes_a_yes_back() {
    let mut desk = Desk::new([book()]);
    let token = token(&desk.asked("a", "book", TABLE));
    assert_eq!(desk.caller("Yes."), Some(Verdict::Granted));
    assert_eq!(desk.caller("No, wait, stop!"), Some(Verdict::Declined));
    assert_eq!(desk.refused("b", "book", &table(&token)), ToolError::ConfirmationRequired);
}

/// P answer 3: of two questions in one turn nobody could tell which was answered; the second is put
/// after the first.
#[test]
fn a_second_question_in_one_turn_has_to_wait() {
    let mut desk = Desk::new([book()]);
    let first = token(&desk.asked("a", "book", TABLE));
    let second = desk.asked("b", "book", r#"{"day":"Monday","people":2}"#);
    assert_eq!(second, Value::Null, "no token");
    desk.caller("yes");
    desk.runs("c", "book", &table(&first));
    assert!(desk.asked("d", "book", r#"{"day":"Monday","people":2}"#)["token"].is_string());
}

/// P answer 3: where the agent's words are known, a yes counts only after it has asked the question.
#[test]
fn a_yes_to_another_question_does_not_count() {
    let mut desk = Desk::new([book()]);
    let first = token(&desk.asked("a", "book", TABLE));
    desk.policy.agent_said("Would you like to hear our specials?");
    assert_eq!(desk.caller("yes"), None);
    assert_eq!(desk.policy.caller_pressed('1', desk.now), None);
    let second = token(&desk.asked("b", "book", &table(&first)));
    desk.policy.agent_said("So I will book a table on Friday for 4 people, right?");
    assert_eq!(desk.caller("yes"), Some(Verdict::Granted));
    desk.runs("c", "book", &table(&second));
}

/// P answer 3: another agent asks its own questions.
#[test]
fn a_handoff_voids_a_yes() {
    let mut desk = Desk::new([book()]);
    let token = token(&desk.asked("a", "book", TABLE));
    desk.caller("yes");
    desk.policy.change_hands(toolbox([book()]), Arc::default(), AnswerLimits::default());
    assert_eq!(desk.refused("b", "book", &table(&token)), ToolError::ConfirmationRequired);
}

/// P15: a manifest can ask for a yes where the gate does not, whatever else approves.
#[test]
fn a_manifest_can_require_a_yes() {
    let public = ToolSpec { requires_confirmation: true, ..hours() };
    let standing = ToolSpec { requires_confirmation: true, ..on_call("wave") };
    let mut desk = Desk::new([public, standing]);
    for (name, arguments, rest) in [("hours", r#"{"query":"x"}"#, r#""query":"x","#), ("wave", "{}", "")] {
        let token = token(&desk.asked("a", name, arguments));
        desk.caller("yes");
        desk.runs("b", name, &format!(r#"{{{rest}"confirmationToken":"{token}"}}"#));
    }
}
