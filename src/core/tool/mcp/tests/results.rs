//! From a result to what is said and what is kept.

use super::*;

fn done(result: &Value, speech: &Speech) -> Done {
    match outcome(result, speech, false) {
        ToolOutcome::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

fn said(result: &Value, speech: &Speech) -> String {
    done(result, speech).message.unwrap()
}

fn failed(result: &Value, error_retryable: bool) -> Failure {
    match outcome(result, &Speech::default(), error_retryable) {
        ToolOutcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn structured(json: Value) -> Value {
    json!({ "content": [{ "type": "text", "text": json.to_string() }], "structuredContent": json })
}

fn field(path: &str) -> Speech {
    Speech { field: Some(path.into()), template: None }
}

fn template(text: &str) -> Speech {
    Speech { field: None, template: Some(text.into()) }
}

fn report() -> Value {
    json!({
        "atis_text": "Oslo information Bravo.", "wind": { "knots": 12, "gusts": null, "from": [240, 260] },
        "clouds": [{ "base": 1200 }, { "base": 2500.5 }], "closed": false, "runways": ["01L", "19R"], "remarks": "",
    })
}

/// M17, M4: a success has a message to speak and the result itself; the envelope adds the status.
#[test]
fn a_result_is_a_sentence_and_its_data() {
    let done = done(&structured(report()), &field("atis_text"));
    assert_eq!((done.message.as_deref(), done.data), (Some("Oslo information Bravo."), report()));
    assert!(done.actions.is_empty() && done.changes.is_empty(), "a server asks nothing of the call");
}

/// M18, M answer 4: a field is a dotted path, also into lists; what is no text is printed; what is missing falls through.
#[test]
fn a_field_of_the_json_is_spoken() {
    for (path, expected) in [
        ("atis_text", "Oslo information Bravo."),
        ("wind.knots", "12"),
        ("clouds.1.base", "2500.5"),
        ("clouds[0].base", "1200"),
        ("closed", "false"),
        ("runways", "01L, 19R"),
        ("wind.from", "240, 260"),
    ] {
        assert_eq!(said(&structured(report()), &field(path)), expected, "{path}");
    }
    for missing in [
        "visibility",
        "wind.gusts",
        "wind",
        "clouds",
        "clouds.2.base",
        "clouds.+1.base",
        "atis_text.0",
        "remarks",
        "",
        ".",
    ] {
        assert_eq!(said(&structured(report()), &field(missing)), "I've fetched the result.", "{missing}");
    }
}

/// M19: a template is filled from the JSON. M answer 5: with one value missing it is not used at all.
#[test]
fn a_template_is_filled_or_left_alone() {
    let all = template("Here is {atis_text} Wind {wind.knots} knots, base {clouds.0.base}; closed: { closed }.");
    let expected = "Here is Oslo information Bravo. Wind 12 knots, base 1200; closed: false.";
    assert_eq!(said(&structured(report()), &all), expected);
    for missing in ["{atis_text} {visibility}", "{wind.gusts}", "{wind}", "{atis_text", "{}"] {
        let both = Speech { field: Some("atis_text".into()), template: Some(missing.into()) };
        assert_eq!(said(&structured(report()), &both), "Oslo information Bravo.", "{missing}");
        assert_eq!(said(&structured(report()), &template(missing)), "I've fetched the result.", "{missing}");
    }
}

/// M answer 5: values are put in once: braces of a server are text.
#[test]
fn a_value_is_no_template() {
    let json = json!({ "a": "{b} {c}", "b": "secret" });
    assert_eq!(said(&structured(json), &template("{a}!")), "{b} {c}!");
}

/// M answer 4: template, field, the JSON's own message, a short first text, a fixed sentence.
#[test]
fn what_is_said_goes_by_a_fixed_order() {
    let result =
        |json: Value, first: &str| json!({ "content": [{ "type": "text", "text": first }], "structuredContent": json });
    let full = json!({ "a": "A", "b": "B", "message": "M" });
    let rules = |template: &str, field: &str| Speech { template: Some(template.into()), field: Some(field.into()) };
    assert_eq!(said(&result(full.clone(), "T"), &rules("{a}.", "b")), "A.");
    assert_eq!(said(&result(full.clone(), "T"), &rules("{x}", "b")), "B");
    assert_eq!(said(&result(full, "T"), &rules("{x}", "x")), "M");
    assert_eq!(said(&result(json!({ "message": 7 }), "T"), &rules("{x}", "x")), "T");
    assert_eq!(said(&result(json!({}), "{\"t\": 1}"), &rules("{x}", "x")), "I've fetched the result.");
}

/// M20: without rules a caller hears a short text or that the result is there; JSON stays in the data.
#[test]
fn without_rules_a_short_text_or_a_sentence_is_spoken() {
    let plain = |words: &str| said(&text(words), &Speech::default());
    assert_eq!(plain("Sunny,\n 20 degrees."), "Sunny, 20 degrees.");
    assert_eq!(plain("42"), "42");
    assert_eq!(plain("[Oslo] Sunny."), "[Oslo] Sunny.");
    assert_eq!(plain(&"ü".repeat(300)), "ü".repeat(300));
    for unsaid in [
        "x".repeat(301).as_str(),
        "",
        " \u{0}",
        r#"{"a": 1}"#,
        "[1, 2]",
        "[]",
        "{\"a\": 1}\n{\"a\": 2}",
        "{ \"cut off\": ",
        "```json\n{}\n```",
    ] {
        assert_eq!(plain(unsaid), "I've fetched the result.", "{unsaid}");
    }
    let raw = done(&text(r#"{"a": 1}"#), &Speech::default());
    assert_eq!(raw.data, json!({ "a": 1 }));
    let image = json!({ "content": [{ "type": "image", "data": "AAAA", "mimeType": "image/png" }] });
    assert_eq!(said(&image, &Speech::default()), "I've fetched the result.");
}

/// M answer 4: JSON is `structuredContent`, else the first text that is JSON.
#[test]
fn json_is_structured_or_the_first_text_that_parses() {
    let texts = |parts: &[&str]| {
        let parts: Vec<Value> = parts.iter().map(|part| json!({ "type": "text", "text": part })).collect();
        json!({ "content": parts })
    };
    assert_eq!(said(&text(r#" {"a": "A"}"#), &field("a")), "A");
    assert_eq!(said(&text(r#"[{"a": "A"}]"#), &field("0.a")), "A");
    assert_eq!(said(&texts(&["Note.", r#"{"a": "A"}"#, r#"{"a": "B"}"#]), &field("a")), "A");
    let mut both = text(r#"{"a": "text"}"#);
    both["structuredContent"] = json!({ "a": "structured" });
    assert_eq!(said(&both, &field("a")), "structured");
}

/// V24: of an action's result, whoever ran it, the first text alone is told, whatever stands beside it.
#[test]
fn of_an_action_the_first_text_counts() {
    let data = |result: Value| done(&first_text(result), &Speech::default()).data;
    let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
    let mut result =
        json!({ "content": [image, { "type": "text", "text": "{\"a\": 1}" }, { "type": "text", "text": "b" }] });
    result["structuredContent"] = json!({ "c": 1 });
    assert_eq!(data(result), json!({ "a": 1 }));
    let none = json!({ "content": [image], "structuredContent": { "c": 1 } });
    assert_eq!(first_text(none.clone()), none, "without a text it stays whole");
    for odd in [json!({}), json!([]), json!(7), json!({ "content": 7 })] {
        assert_eq!(first_text(odd.clone()), odd);
    }
}

/// M4, M17: whatever a rule finds, JSON is never spoken, and nothing that is no text reaches a voice.
#[test]
fn json_and_control_characters_are_not_spoken() {
    let json = json!({ "a": "{\"b\": 1}", "open": "[", "close": "1]", "noise": "A\u{0}\u{1b}[0m \u{202e}B\nC", "nested": [[1]] });
    for rule in [field("a"), template("{a}"), template("{open}{close}"), field("nested"), template("Got {a}")] {
        assert_eq!(said(&structured(json.clone()), &rule), "I've fetched the result.", "{rule:?}");
    }
    assert_eq!(said(&structured(json), &field("noise")), "A[0m B C");
}

#[test]
fn a_long_message_ends_at_a_sentence_or_a_word() {
    let spoken = |words: &str| said(&structured(json!({ "message": words })), &Speech::default());
    let sentences = "It is 3.5 degrees. ".repeat(60);
    assert_eq!(spoken(&sentences), "It is 3.5 degrees. ".repeat(31).trim_end());
    let words = "word ".repeat(200);
    assert_eq!(spoken(&words), "word ".repeat(120).trim_end());
    assert_eq!(spoken(&format!("A. {words}")), format!("A. {}", "word ".repeat(119)).trim_end(), "not to one letter");
    assert_eq!(spoken(&"ü".repeat(700)), "ü".repeat(600));
    assert_eq!(spoken(&format!("{}é b", "a".repeat(600))), "a".repeat(600));
    // What the operator has chosen may be a weather report.
    let chosen = |words: &str| said(&structured(json!({ "a": words })), &field("a"));
    assert_eq!(chosen(&"word ".repeat(380)), "word ".repeat(380).trim_end());
    assert_eq!(chosen(&"word ".repeat(500)), "word ".repeat(400).trim_end());
}

/// M17: the data is what the server gave, without repetition and without what is no text.
#[test]
fn data_is_the_result_made_readable() {
    let kept = |content: Value| done(&json!({ "content": content }), &Speech::default()).data;
    assert_eq!(kept(json!([])), Value::Null, "a look-up that found nothing");
    assert_eq!(kept(json!([{ "type": "text", "text": " " }])), Value::Null);
    assert_eq!(kept(json!([{ "type": "text", "text": "Sunny.", "_meta": {} }])), json!({ "text": "Sunny." }));
    let link = json!({ "type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain" });
    let mut marked = link.clone();
    marked["_meta"] = json!({ "large": true });
    let parts = kept(json!([
        { "type": "text", "text": "Two files.", "annotations": { "priority": 1 } },
        { "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" },
        { "type": "audio", "data": "aGVsbG8h", "mimeType": "audio/wav" },
        { "type": "resource", "resource": { "uri": "file:///b", "mimeType": "application/pdf", "blob": "aGU=" } },
        { "type": "resource", "resource": { "uri": "file:///c", "text": "Words." } },
        marked,
        { "type": "hologram", "data": 7 },
    ]));
    let expected = json!([
        { "type": "text", "text": "Two files." },
        { "type": "image", "mimeType": "image/png", "bytes": 5 },
        { "type": "audio", "mimeType": "audio/wav", "bytes": 6 },
        { "uri": "file:///b", "mimeType": "application/pdf", "type": "resource", "bytes": 2 },
        { "uri": "file:///c", "type": "resource", "text": "Words." },
        link,
        { "type": "hologram", "mimeType": null, "bytes": 0 },
    ]);
    assert_eq!(parts, json!({ "content": expected }));
}

#[test]
fn data_that_no_model_could_read_is_left_out_and_the_message_stays() {
    let large = json!({ "atis_text": "Bravo.", "raw": "x".repeat(kept::BYTES_MAX) });
    let done = done(&structured(large), &field("atis_text"));
    assert_eq!(done.message.as_deref(), Some("Bravo."));
    assert_eq!(done.data["truncated"], true);
    assert!(done.data["bytes"].as_u64().unwrap() > kept::BYTES_MAX as u64);
}

/// M answer 6: what the server calls an error is a failure, final unless the operator says otherwise, in its words.
#[test]
fn an_error_of_the_tool_is_a_failure() {
    let error = |words: &str| {
        let mut result = text(words);
        result["isError"] = json!(true);
        result
    };
    let last = failed(&error("No such\nairport."), false);
    assert_eq!((last.kind, last.retryable, last.partial_side_effects), (ToolError::Permanent, false, false));
    assert_eq!(last.message, "No such airport.");
    let passing = failed(&error("Busy."), true);
    assert_eq!((passing.kind, passing.retryable), (ToolError::Transient, true));
    assert_eq!(failed(&error(&"word ".repeat(100)), false).message, "word ".repeat(60).trim_end());
    assert_eq!(failed(&error(r#"{"error": {"message": "No such airport."}}"#), false).message, "No such airport.");
    assert_eq!(failed(&error(r#"{"error": "No such airport."}"#), false).message, "No such airport.");
    for silent in [error(""), error("{}"), json!({ "content": [], "isError": true })] {
        assert_eq!(failed(&silent, false).message, "The tool could not do that.");
    }
}

/// M answer 6: an answer that is not MCP's is a failure that says what is wrong with it.
#[test]
fn a_result_of_another_shape_is_a_failure() {
    for (result, why) in [
        (json!("done"), "it is no object"),
        (json!({}), "content is missing"),
        (json!({ "content": null }), "content is missing"),
        (json!({ "content": "done" }), "content is no list"),
        (json!({ "content": ["done"] }), "a part of content is no object"),
        (json!({ "content": [{ "text": "done" }] }), "a part of content has no type"),
        (json!({ "content": [{ "type": "text" }] }), "a text part of content has no text"),
        (json!({ "content": [], "isError": "true" }), "isError is neither true nor false"),
        (json!({ "resultType": "input_required", "content": [] }), "resultType is not \"complete\""),
    ] {
        let failure = failed(&result, true);
        assert_eq!((failure.kind, failure.retryable), (ToolError::Permanent, false));
        assert_eq!(failure.message, format!("The tool's answer is not of the form of MCP: {why}."), "{result}");
    }
    assert_eq!(said(&json!({ "structuredContent": { "a": "A" } }), &field("a")), "A", "understood all the same");
}

/// M18, M19: a rule that could never apply is told when the configuration is read.
#[test]
fn rules_that_cannot_be_read_are_told() {
    let check = |field: Option<&str>, template: Option<&str>| {
        Speech { field: field.map(str::to_owned), template: template.map(str::to_owned) }.check()
    };
    assert_eq!(check(Some("a.b[0].c"), Some("A {a} and {b.0} }.")), Ok(()));
    assert!(check(Some("a..b"), None).unwrap_err().starts_with("speech_field: \"a..b\" is no path"));
    assert!(check(None, Some("A {} B")).unwrap_err().starts_with("speech_template: \"\" is no path"));
    assert_eq!(check(None, Some("A {a")).unwrap_err(), "speech_template: a \"{\" has no \"}\"");
}
