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
        load_str("test.yaml", &text, &env, shipped::shipped()).map_or_else(|found| found.to_string(), |_| "none".into())
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
        load_str("test.yaml", &text, &env, shipped::shipped()).map_or_else(|found| found.to_string(), |_| "none".into())
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
        let config = load_str("test.yaml", &text, &env, shipped::shipped()).unwrap_or_else(|told| panic!("{told}"));
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
    assert_eq!(load_str("test.yaml", text, &env, shipped::shipped()).expect("it is right").warnings, []);
}

#[test]
fn a_context_that_records_needs_a_place_and_is_told_to_say_so() {
    let with = |context: &str, sections: &str| {
        let text = format!(
            "providers: {{ front: {{ scripted: {{ script: [silence] }} }} }}\n{sections}\
             contexts:\n  desk: {{ prompt: x, provider: front, recording: true{context} }}\n"
        );
        load_str("test.yaml", &text, &env, shipped::shipped())
    };
    let problems = |context: &str, sections: &str| with(context, sections).err().map(|told| told.to_string());
    let records = "records: { directory: records }\n";
    assert_eq!(
        problems("", "").expect("no place"),
        "test.yaml:3: contexts.desk.recording: there is no place for recordings; add the section records: { directory: records }"
    );
    let told = problems("", "records: { directory: records, recordings_keep_days: 31 }\n").expect("too long");
    assert_eq!(
        told,
        "test.yaml:2: records.recordings_keep_days: recordings are not kept longer than the records they belong to, 30 days; \
         write 30 or less, or more for keep_days"
    );
    let warnings = |context: &str| {
        let config = with(context, records).unwrap_or_else(|told| panic!("{told}"));
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        warnings(""),
        "test.yaml:4: contexts.desk.recording: callers are recorded and not told so; \
         write what they hear first, such as notice: This call is recorded."
    );
    assert_eq!(warnings(", notice: This call is recorded."), "");
    let day = std::time::Duration::from_secs(86_400);
    for (written, days) in [("", 9), (", recordings_keep_days: 3", 3)] {
        let sections = format!("records: {{ directory: records, keep_days: 9{written} }}\n");
        let config = with("", &sections).unwrap_or_else(|told| panic!("{told}"));
        let kept = config.records.expect("it is there");
        assert_eq!((kept.keep, kept.keep_recordings), (day * 9, day * days));
        assert!(config.contexts["desk"].rules.recording);
    }
}
