//! Texts that are written in another way than they are meant.

use super::*;

/// Warnings, or problems where there are any.
fn told(yaml: &str) -> String {
    let shown = |all: &[Problem]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    match load_str("test.yaml", yaml, &env, shipped::shipped()) {
        Ok(config) => shown(&config.warnings),
        Err(problems) => problems.to_string(),
    }
}

fn with(context: &str, more: &str) -> String {
    told(&format!(
        "providers: {{ front: {{ scripted: {{ script: [silence] }} }} }}\ncontexts:\n  desk:\n    prompt: x\n    provider: front\n    \
         audiosocket_id: \"0ff40001\"\n{context}{more}"
    ))
}

#[test]
fn texts_that_are_taken_as_they_stand_and_hardly_meant_so_are_warned_of() {
    assert_eq!(with("    greeting: Good morning, that is $5.\n", ""), "");
    let bare = with("", "asterisk: { password: $ARI_PASSWORD }\n");
    let hint = "the text is taken as it stands, with its $; write ${NAME} for a variable of the environment";
    assert_eq!(bare, format!("test.yaml:7: asterisk.password: {hint}"));
    let curly = with("    greeting: “Good morning”\n", "");
    assert!(curly.starts_with("test.yaml:7: contexts.desk.greeting: the curly quotation marks"), "{curly}");
    let twice = with("", "asterisk: { password: x, url: \"http://127.0.0.1:8088/ari/\" }\n");
    assert!(twice.starts_with("test.yaml:7: asterisk.url: /ari is added by offhook"), "{twice}");
}

#[test]
fn an_address_with_half_of_its_path_or_more_than_all_of_it_is_warned_of() {
    let of = |provider: &str, chat: &str| {
        told(&format!(
            "providers:\n  front: {{ openai_realtime: {{ api_key: k, base_url: \"{provider}\" }} }}\nllm:\n  chat: {{ openai_chat: {{ model: m, \
             base_url: \"{chat}\" }} }}\ncontexts:\n  desk: {{ prompt: x, provider: front, audiosocket_id: \"0ff40001\" }}\n"
        ))
    };
    for provider in ["wss://api.openai.com/v1/realtime", "ws://127.0.0.1:1", "ws://nearby/openai/realtime?a=/v1"] {
        assert_eq!(of(provider, "http://127.0.0.1:11434/v1"), "", "{provider}");
    }
    let half = of("ws://127.0.0.1:1/v1/", "http://127.0.0.1:11434/v1");
    let expected = "test.yaml:2: providers.front.openai_realtime.base_url: the path is /v1, and the whole path is wanted; as in \
                    wss://api.openai.com/v1/realtime";
    assert_eq!(half, expected);
    assert_eq!(of("wss://nearby/listen", "http://127.0.0.1:11434/v1"), "", "this kind adds nothing");
    let voice = "voices: { lab: { elevenlabs_speech: { api_key: k, voice: v, base_url: \"https://api.elevenlabs.io/v1\" } } }\n";
    assert!(with("", voice).contains("/v1 is added by offhook"), "{}", with("", voice));
    let twice = of("wss://api.openai.com/v1/realtime", "http://127.0.0.1:11434/v1/chat/completions");
    assert!(
        twice.starts_with("test.yaml:4: llm.chat.openai_chat.base_url: /chat/completions is added by offhook"),
        "{twice}"
    );
}

#[test]
fn what_the_parser_says_has_a_word_on_what_to_do() {
    let colon = with("    greeting: Hello: press one\n", "");
    assert!(colon.contains("test.yaml:7: this is not YAML") && colon.contains("needs quotes"), "{colon}");
    let none = with("    greeting Hello\n    language: en\n", "");
    assert!(none.ends_with("a colon and a space stand between a key and its value: key: value"), "{none}");
    let merge = told("contexts: { desk: { <<: x } }\n");
    assert!(merge.contains("YAML's merge keys are not read here"), "{merge}");
}

#[test]
fn a_section_without_anything_in_it_is_told_where_it_stands() {
    let told = told("providers:\n  front: { scripted: { script: [silence] } }\n\ncontexts:\n\n");
    assert_eq!(told, "test.yaml:4: contexts: at least one entry is required");
}

/// Each language is as near to it as the other.
#[test]
fn nothing_is_suggested_for_two_letters() {
    let told = with("", "turns: { languages: [sv] }\n");
    assert!(told.contains("\"sv\" is not one of the choices; there are: en, de"), "{told}");
}
