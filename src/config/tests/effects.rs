//! What does nothing, or cannot be what was meant, and what would.

use super::*;

/// Adding it to a context would not help.
#[test]
fn a_tool_that_does_not_exist_is_told_where_it_is_called() {
    let with = |tool: &str, tools: &str| {
        let text = format!(
            "stt: {{ ears: {{ wyoming_transcribe: {{ address: \"127.0.0.1:1\" }} }} }}\n\
             llm:\n  list:\n    attendant:\n      entries:\n        - {{ key: \"1\", say: {tool} }}\n        \
             - {{ key: \"2\", call: {tool} }}\n\
             voices: {{ piper: {{ wyoming_speech: {{ address: \"127.0.0.1:2\" }} }} }}\n\
             providers: {{ front: {{ pipeline: {{ stt: ears, llm: list, tts: piper }} }} }}\n\
             contexts:\n  desk: {{ prompt: x, provider: front, tools: {tools} }}\n"
        );
        load_str("test.yaml", &text, &env, &shipped::shipped())
            .map_or_else(|found| found.to_string(), |_| "none".into())
    };
    assert_eq!(
        with("hangup_cal", "[]"),
        "test.yaml:7: llm.list.attendant.entries[1].call: unknown tool \"hangup_cal\"; did you mean \"hangup_call\"?"
    );
    let unknown = with("weather", "[]");
    assert!(unknown.contains("unknown tool \"weather\"; there are: ") && unknown.ends_with(ELSEWHERE), "{unknown}");
    assert!(problems_with("    tools: [weather]\n").ends_with(ELSEWHERE));
}

/// Where tools come from that are not built in.
const ELSEWHERE: &str = "; more come from files in tenants.NAME.tools, and from mcp.servers as mcp_SERVER_TOOL";

#[test]
fn a_key_that_is_missing_and_has_few_values_is_told_with_these() {
    let with = |provider: &str| {
        let text =
            format!("providers:\n  front: {{ {provider} }}\ncontexts: {{ desk: {{ prompt: x, provider: front }} }}\n");
        load_str("test.yaml", &text, &env, &shipped::shipped())
            .map_or_else(|found| found.to_string(), |_| "none".into())
    };
    assert_eq!(
        with("openai_realtime: { api_key: k, turn_detection: { eagerness: low } }"),
        "test.yaml:2: providers.front.openai_realtime.turn_detection.type: required, but missing; \
         there are: server_vad, semantic_vad"
    );
    // Where anything may stand, nothing is listed.
    assert_eq!(with("openai_realtime:"), "test.yaml:2: providers.front.openai_realtime.api_key: required, but missing");
}

/// Whose ears decide is what makes the other options about turns mean anything.
#[test]
fn options_about_turns_that_nobody_heeds_are_warned_of() {
    let warnings = |provider: &str, turns: &str| {
        let text = format!(
            "providers:\n  front: {{ openai_realtime: {{ api_key: k{provider} }} }}\n\
             contexts:\n  desk: {{ prompt: x, provider: front{turns} }}\n"
        );
        let config = load_str("test.yaml", &text, &env, &shipped::shipped()).unwrap_or_else(|told| panic!("{told}"));
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let (vad, provider) = (", turn_detection: { type: server_vad }", ", turns: { owner: provider }");
    assert_eq!(
        warnings(vad, ""),
        "test.yaml:2: providers.front.openai_realtime.turn_detection: has no effect: offhook finds the turns where this \
         is used; set turns.end_silence in the context, or turns: { owner: provider } to leave turns to the provider"
    );
    let idle = "has no effect: the provider finds the turns, as owner says; take it out, or write owner: offhook";
    assert_eq!(
        warnings(vad, ", turns: { owner: provider, protect_greeting: true, end_silence: 1s }"),
        format!(
            "test.yaml:4: contexts.desk.turns.protect_greeting: {idle}\n\
             test.yaml:4: contexts.desk.turns.end_silence: {idle}"
        )
    );
    for (provider, turns) in [(vad, provider), ("", provider), ("", ", turns: { end_silence: 1s }"), ("", "")] {
        assert_eq!(warnings(provider, turns), "", "{provider}{turns}");
    }
    // One of its contexts leaves turns to it.
    let text = "providers:\n  front: { openai_realtime: { api_key: k, turn_detection: { type: server_vad } } }\n\
                contexts:\n  desk: { prompt: x, provider: front }\n  \
                line: { prompt: x, provider: front, turns: { owner: provider } }\n";
    assert_eq!(load_str("test.yaml", text, &env, &shipped::shipped()).expect("it is right").warnings, []);
}
