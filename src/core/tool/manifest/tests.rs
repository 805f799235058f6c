//! What the lint accepts and what it says of the rest.

use super::*;
use serde_json::json;

fn search() -> Value {
    json!({
        "toolId": "kb_search", "version": "1.0.0", "category": "retrieval", "description": "Searches the knowledge base.",
        "parameters": {
            "type": "object", "additionalProperties": false, "required": ["query"],
            "properties": {
                "query": { "type": "string", "minLength": 3, "maxLength": 500, "description": "What to look for." },
                "top_k": { "type": "integer", "minimum": 1, "maximum": 10, "default": 5 },
            },
        },
        "sideEffects": "read_only", "idempotent": true, "requiresConfirmation": false,
        "allowedModes": ["text", "voice"], "latencyBudgetMs": 800, "summary": "Finds articles by meaning.",
    })
}

fn end() -> Value {
    json!({
        "toolId": "end_voice_session", "version": "1.2.0", "category": "action", "description": "Ends the conversation.",
        "parameters": { "type": "object", "additionalProperties": false, "properties": {} },
        "sideEffects": "writes", "idempotent": false, "requiresConfirmation": false,
        "allowedModes": ["voice"], "latencyBudgetMs": 500, "summary": "Ends the call.\nSay goodbye first.",
    })
}

/// The paths of the mistakes in the search tool when one member is another.
fn changed(path: &str, value: Value) -> Vec<String> {
    let mut manifest = search();
    *manifest.pointer_mut(path).unwrap() = value;
    paths(read(&manifest, None).unwrap_err())
}

fn paths(mistakes: Vec<Mistake>) -> Vec<String> {
    mistakes.into_iter().map(|mistake| mistake.path).collect()
}

/// P1: a manifest without mistakes is read with all it says.
#[test]
fn a_good_manifest_is_read() {
    let tool = read(&search(), Some("kb-search")).unwrap();
    assert_eq!((tool.tool_id.as_str(), tool.version.as_str()), ("kb_search", "1.0.0"));
    assert_eq!((tool.category, tool.side_effects), (ToolKind::Retrieval, SideEffects::ReadOnly));
    assert!(tool.idempotent && !tool.requires_confirmation);
    assert_eq!(tool.allowed_modes, [Mode::Text, Mode::Voice]);
    assert_eq!(tool.latency_budget_ms, 800);
    assert_eq!(tool.parameters, search()["parameters"]);
    assert!(tool.others.is_empty());
}

/// P1: each required member, and each of its wrong values, is a mistake at its place.
#[test]
fn every_rule_has_its_place() {
    for member in &MEMBERS[..MEMBERS.len() - 1] {
        let mut manifest = search();
        manifest.as_object_mut().unwrap().remove(*member);
        assert_eq!(
            read(&manifest, None).unwrap_err(),
            [Mistake { path: (*member).into(), reason: "is missing".into() }]
        );
    }
    for (path, value, found) in [
        ("/toolId", json!("KB-Search"), "toolId"),
        ("/toolId", json!("x".repeat(65)), "toolId"),
        ("/version", json!(1), "version"),
        ("/version", json!("1 0"), "version"),
        ("/category", json!("search"), "category"),
        ("/description", json!(" "), "description"),
        ("/description", json!("x".repeat(1025)), "description"),
        ("/parameters", json!("string"), "parameters"),
        ("/parameters/type", json!("array"), "parameters.type"),
        ("/parameters/additionalProperties", json!(true), "parameters.additionalProperties"),
        ("/parameters/required", json!(["query", "language"]), "parameters.required"),
        ("/parameters/properties/query/minLength", json!("3"), "parameters"),
        ("/parameters/properties/query", json!({ "type": "string", "format": "phone" }), "parameters"),
        ("/parameters/properties/query", json!({ "$ref": "https://example.org/q.json" }), "parameters"),
        ("/sideEffects", json!("some"), "sideEffects"),
        ("/sideEffects", json!("writes"), "sideEffects"),
        ("/idempotent", json!("yes"), "idempotent"),
        ("/idempotent", json!(false), "idempotent"),
        ("/requiresConfirmation", json!(null), "requiresConfirmation"),
        ("/allowedModes", json!([]), "allowedModes"),
        ("/allowedModes", json!("voice"), "allowedModes"),
        ("/allowedModes/1", json!("video"), "allowedModes[1]"),
        ("/allowedModes/1", json!("text"), "allowedModes[1]"),
        ("/latencyBudgetMs", json!(0), "latencyBudgetMs"),
        ("/latencyBudgetMs", json!(0.8), "latencyBudgetMs"),
        ("/latencyBudgetMs", json!(800_000), "latencyBudgetMs"),
        ("/summary", json!(""), "summary"),
        ("/summary", json!("é".repeat(251)), "summary"),
        ("/summary", json!("One.\n\nTwo."), "summary"),
    ] {
        assert_eq!(changed(path, value.clone()), [found], "{path} = {value}");
    }
    let mut longest = search();
    longest["summary"] = json!("é".repeat(250));
    assert!(read(&longest, None).is_ok(), "characters count, not bytes");
}

/// P1: whoever writes a manifest reads all of its mistakes at once.
#[test]
fn all_mistakes_come_at_once() {
    let mut manifest = end();
    for (member, wrong) in [("category", json!("x")), ("allowedModes", json!([])), ("summary", json!(3))] {
        manifest[member] = wrong;
    }
    let found = paths(read(&manifest, Some("end-voice")).unwrap_err());
    assert_eq!(found, ["toolId", "category", "allowedModes", "summary"]);
    assert_eq!(paths(read(&json!([]), None).unwrap_err()), [""]);
}

#[test]
fn other_members_are_kept_and_slips_are_named() {
    let mut manifest = search();
    manifest["unknownArgs"] = json!("reject");
    assert_eq!(read(&manifest, None).unwrap().others["unknownArgs"], "reject");
    let members = manifest.as_object_mut().unwrap();
    let budget = members.remove("latencyBudgetMs").unwrap();
    members.insert("latencyBudgetMS".into(), budget);
    let mistakes = read(&manifest, None).unwrap_err();
    let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["latencyBudgetMs: is missing", "latencyBudgetMS: is unknown; did you mean \"latencyBudgetMs\"?"]);
}

/// P1, P2: a registry knows each tool once, and its version does not depend on the order of files.
#[test]
fn a_registry_is_read_as_a_whole() {
    let (search, end) = ((search(), None), (end(), Some("end-voice-session".to_owned())));
    let tools = read_all(&[search.clone(), end.clone()]).unwrap();
    assert_eq!(tools.iter().map(|tool| tool.tool_id.as_str()).collect::<Vec<_>>(), ["end_voice_session", "kb_search"]);
    let turned = read_all(&[end.clone(), search.clone()]).unwrap();
    assert_eq!(version(&tools), version(&turned));
    let mut other = tools.clone();
    other[0].version = "1.2.1".into();
    assert_ne!(version(&tools), version(&other));
    assert_eq!(version(&[]), "1.0.00000000");

    let mut broken = search.clone();
    broken.0["idempotent"] = json!(1);
    let found = paths(read_all(&[search, broken, end]).unwrap_err());
    assert_eq!(found, ["tools[1].toolId", "tools[1].idempotent"]);
}

/// P24: the prompt holds a block per tool; the whole text comes on demand.
#[test]
fn the_prompt_has_summaries_and_the_rest_comes_on_demand() {
    let tools = read_all(&[(search(), None), (end(), None)]).unwrap();
    assert_eq!(
        summaries(&tools),
        "**end_voice_session** (action): Ends the call.\nSay goodbye first.\n\n\
         **kb_search** (retrieval): Finds articles by meaning."
    );
    assert_eq!(summaries(&[]), "");
    assert_eq!(
        tools[1].documentation(),
        "# kb_search\n\nFinds articles by meaning.\n\nSearches the knowledge base.\n\n## Parameters\n\n\
         - `query` (string, required): What to look for.\n- `top_k` (integer, optional)\n"
    );
    let mut written = search();
    written["documentation"] = json!("# Searching\n\nTwo searches are better than one.\n");
    assert_eq!(read(&written, None).unwrap().documentation(), "# Searching\n\nTwo searches are better than one.\n");
}

#[test]
fn a_guide_begins_with_its_summary() {
    assert_eq!(summary_of_guide("# kb_search\n\n  Finds articles.\nMore.\n"), Some("Finds articles."));
    assert_eq!(summary_of_guide("# kb_search\n"), None);
}
