//! One entry of a text, and nothing else, changes.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const TEXT: &str = "\
# The town's telephone.
providers: { a: { scripted: { script: [silence] } } }   # a comment
mcp:
  enabled: true
  servers:
    # Tells the weather.
    weather:
      command: [aviation_atis, --config, atis.yaml]
      defaults:
        slow_response_message: |
          One moment,
          # please.
      # The end of the weather.

    # Tells the time.
    clock: { transport: http, url: \"https://clock.example/mcp\" }  # flow
# After all servers.
contexts:
  a: { prompt: A, provider: a }
";

const PATH: fn(&str) -> [&str; 3] = |id| ["mcp", "servers", id];

#[test]
fn a_new_entry_comes_after_the_others() {
    let server = json!({ "transport": "http", "url": "https://x.example/mcp", "bearer_token": "${X_TOKEN}" });
    let changed = set(TEXT, &PATH("rooms"), &server).unwrap();
    let block =
        "    rooms:\n      transport: http\n      url: \"https://x.example/mcp\"\n      bearer_token: \"${X_TOKEN}\"\n";
    assert_eq!(changed, TEXT.replace("# After all", &format!("{block}# After all")));
    assert_eq!(remove(&changed, &PATH("rooms")).unwrap(), TEXT, "and it goes as it came");
}

#[test]
fn an_entry_is_replaced_with_the_comments_in_it_and_nothing_else_is() {
    let changed =
        set(TEXT, &PATH("weather"), &json!({ "command": ["other", "--now", "no", "2"], "enabled": false })).unwrap();
    let (before, rest) = TEXT.split_once("      command").unwrap();
    let after = rest.split_once("of the weather.\n").unwrap().1;
    assert_eq!(
        changed,
        format!("{before}      command: [other, \"--now\", \"no\", \"2\"]\n      enabled: false\n{after}")
    );
    let flow = set(TEXT, &PATH("clock"), &json!({ "enabled": false })).unwrap();
    let line = "    clock: { transport: http, url: \"https://clock.example/mcp\" }  # flow\n";
    assert_eq!(flow, TEXT.replace(line, "    clock:\n      enabled: false\n"));
}

#[test]
fn an_entry_is_taken_out() {
    let (before, rest) = TEXT.split_once("    weather:").unwrap();
    let after = rest.split_once("of the weather.\n").unwrap().1;
    assert_eq!(remove(TEXT, &PATH("weather")).unwrap(), format!("{before}{after}"));
    let alone = "mcp:\n  servers:\n    a: { command: [x] }\n";
    assert_eq!(remove(alone, &PATH("a")).unwrap(), "mcp:\n  servers:\n");
    assert_eq!(remove(TEXT, &PATH("nobody")), Err(Unplaceable::Missing("mcp.servers.nobody".into())));
}

#[test]
fn what_is_not_there_yet_is_made() {
    let server = json!({ "command": ["x"] });
    for (text, changed) in [
        ("", "mcp:\n  servers:\n    a:\n      command: [x]\n"),
        ("b: 1", "b: 1\n\nmcp:\n  servers:\n    a:\n      command: [x]\n"),
        ("b: 1\r\nmcp:\r\n", "b: 1\r\nmcp:\r\n  servers:\r\n    a:\r\n      command: [x]\r\n"),
        (
            "mcp:\n    enabled: true\nb: 1\n",
            "mcp:\n    enabled: true\n    servers:\n      a:\n        command: [x]\nb: 1\n",
        ),
        ("mcp:\n  servers: # none yet\n\nb: 1\n", "mcp:\n  servers: # none yet\n    a:\n      command: [x]\n\nb: 1\n"),
    ] {
        assert_eq!(set(text, &PATH("a"), &server).as_deref(), Ok(changed), "{text:?}");
    }
}

#[test]
fn what_cannot_be_changed_alone_is_refused_in_a_sentence() {
    let server = json!({ "command": ["x"] });
    for (text, why) in [
        ("mcp: { servers: {} }\n", Unplaceable::Flow("mcp".into())),
        ("mcp:\n  servers: { a: { command: [x] } }\n", Unplaceable::Flow("mcp.servers".into())),
        ("x: &x { a: { command: [x] } }\nmcp:\n  servers: *x\n", Unplaceable::Flow("mcp.servers".into())),
        ("{ mcp: {} }\n", Unplaceable::Flow("the whole".into())),
        ("mcp:\n  servers:\n    a: &a { command: [x] }\n    b: *a\n", Unplaceable::Unclear),
        ("mcp: [\n", Unplaceable::NoYaml),
    ] {
        assert_eq!(set(text, &PATH("a"), &server), Err(why), "{text}");
        assert!(remove(text, &PATH("a")).is_err());
    }
}

#[test]
fn a_value_is_read_as_it_is_written() {
    assert_eq!(value(TEXT, &PATH("clock")).unwrap().unwrap()["url"], "https://clock.example/mcp");
    assert_eq!(value(TEXT, &PATH("rooms")), Ok(None));
    assert_eq!(
        value("mcp: { servers: { a: { bearer_token: \"${T}\" } } }", &PATH("a")).unwrap().unwrap()["bearer_token"],
        "${T}"
    );
}

/// Whatever a form holds becomes one entry that reads as it was meant.
#[test]
fn every_text_survives() {
    let texts = prop_oneof![any::<String>(), "[a-z:#{}\\[\\],&*!|>'\"%@` \\n-]{0,12}"];
    let item =
        (texts.clone(), texts.clone()).prop_map(|(key, text)| json!({ "name": text, "key": { key: [1, true, null] } }));
    let value = (proptest::collection::vec(texts.clone(), 0..4), proptest::collection::vec(item, 0..3), texts.clone())
        .prop_map(|(command, tools, key)| json!({ "command": command, "tools": tools, "env": { key: "x" } }));
    proptest!(ProptestConfig::with_cases(200), |(value in value, id in "[a-z][a-z0-9_-]{0,8}")| {
        let changed = set(TEXT, &PATH(&id), &value);
        // Some letters are none of YAML's.
        if let Ok(changed) = changed {
            let is_kept = changed.starts_with("# The town's telephone.\n") && changed.ends_with("provider: a }\n");
            prop_assert!(is_kept, "{changed}");
            prop_assert_eq!(super::value(&changed, &PATH(&id)).unwrap().unwrap(), value);
        }
    });
}
