//! Tools as each provider gets them: against golden files, against the types of the vendors' own
//! packages, and what a provider cannot carry. `OFFHOOK_BLESS=1 cargo test --test house tool_schemas`
//! writes the golden files.

use crate::kit::{processes::words_of, python};

use offhook::tool::schemas::{Dialect, ToolText};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{fs, path::PathBuf, process::Output};

#[derive(Deserialize)]
struct Tool {
    name: String,
    description: String,
    parameters: Value,
}

fn fixture(name: &str) -> PathBuf {
    offhook_kit::project().join("tests/fixtures/tool_schemas").join(name)
}

fn tools() -> Vec<Tool> {
    serde_json::from_str(&fs::read_to_string(fixture("tools.json")).expect("the tools")).expect("a list of tools")
}

fn render(dialect: Dialect, parameters: &Value) -> Result<Value, Vec<String>> {
    let tool = ToolText { name: "a_tool", description: "Does something.", parameters };
    let told = |reasons: Vec<offhook::tool::schemas::Uncarried>| {
        assert!(reasons.iter().all(|reason| reason.provider == dialect));
        reasons.into_iter().map(|reason| reason.path).collect()
    };
    dialect.render(tool).map_err(told)
}

/// A tool whose one argument has this schema.
fn with(argument: Value) -> Value {
    json!({ "type": "object", "properties": { "x": argument } })
}

const SUBSET: [Dialect; 3] = [Dialect::Gemini, Dialect::Deepgram, Dialect::ElevenLabs];
const WHOLE: [Dialect; 2] = [Dialect::OpenAiRealtime, Dialect::ChatCompletions];

/// P3: the tools as they go to each provider, made beforehand.
#[test]
fn every_dialect_renders_the_golden_declarations() {
    for dialect in Dialect::ALL {
        let tools = tools();
        let rendered = tools.iter().map(|tool| {
            let text = ToolText { name: &tool.name, description: &tool.description, parameters: &tool.parameters };
            dialect.render(text).unwrap_or_else(|reasons| panic!("{dialect}: {reasons:?}"))
        });
        let mut page = serde_json::to_string_pretty(&rendered.collect::<Vec<_>>()).expect("JSON");
        page.push('\n');
        let path = fixture(&format!("{dialect}.json"));
        if std::env::var_os("OFFHOOK_BLESS").is_some() {
            fs::write(&path, &page).expect("a folder to write to");
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(golden, page, "{} is stale; write it with OFFHOOK_BLESS=1", path.display());
    }
}

/// P3, P25: what is refused is named with its place, and all at once.
#[test]
fn what_a_provider_cannot_carry_is_an_error_with_its_place() {
    let cases = [
        (json!({ "type": "object", "properties": {}, "allOf": [{}, {}] }), "parameters.properties.x.allOf"),
        (json!({ "$ref": "https://example.org/x.json" }), "parameters.properties.x.$ref"),
        (json!({ "$ref": "#/$defs/missing" }), "parameters.properties.x.$ref"),
        (json!({ "type": "integer", "enum": [1, 2] }), "parameters.properties.x.enum"),
        (json!({ "type": "string", "enum": ["a", 2] }), "parameters.properties.x.enum"),
        (json!({ "type": "integer", "const": 1 }), "parameters.properties.x.const"),
        (json!({ "type": "array" }), "parameters.properties.x"),
        (json!({ "description": "anything" }), "parameters.properties.x"),
        (json!(true), "parameters.properties.x"),
        (json!({ "type": "text" }), "parameters.properties.x.type"),
        (
            json!({ "type": "object", "properties": {}, "additionalProperties": { "type": "string" } }),
            "parameters.properties.x.additionalProperties",
        ),
        (
            json!({ "type": "array", "items": { "type": "object", "properties": { "y": { "not": {} } } } }),
            "parameters.properties.x.items.properties.y.not",
        ),
    ];
    for (argument, path) in cases {
        for dialect in SUBSET {
            let refused = render(dialect, &with(argument.clone())).expect_err("refused");
            assert!(refused.iter().any(|found| found == path), "{dialect} {argument}: {refused:?}");
        }
    }
    let both = json!({ "type": "object", "properties": { "a": { "type": "array" }, "b": { "not": {} } } });
    assert_eq!(render(Dialect::Gemini, &both).expect_err("refused").len(), 2);
}

#[test]
fn json_schema_passes_whole_where_it_is_read_and_is_refused_where_servers_refuse_it() {
    let rich = json!({
        "type": "object",
        "properties": { "x": { "oneOf": [{ "type": "string" }, { "$ref": "#/$defs/n" }] }, "y": { "enum": [1, "a"] } },
        "$defs": { "n": { "type": "integer", "minimum": 3 } },
        "additionalProperties": false,
    });
    for dialect in WHOLE {
        let rendered = render(dialect, &rich).expect("carried");
        let function = if dialect == Dialect::ChatCompletions { &rendered["function"] } else { &rendered };
        assert_eq!(function["parameters"], rich);
        for (parameters, path) in [
            (json!({ "type": "string" }), "parameters.type"),
            (json!({ "type": "object", "anyOf": [{}] }), "parameters.anyOf"),
            (with(json!({ "type": "array" })), "parameters.properties.x"),
            (with(json!({ "anyOf": [{ "type": "array" }] })), "parameters.properties.x.anyOf[0]"),
            (with(json!({ "$ref": "https://example.org/x" })), "parameters.properties.x.$ref"),
            (json!([]), "parameters"),
        ] {
            assert_eq!(render(dialect, &parameters).expect_err("refused"), [path], "{dialect}");
        }
    }
}

/// Null is said with `nullable`, or by leaving the member out; where neither works, it is an error.
#[test]
fn null_is_carried_or_reported() {
    let parameters = |required: Value| {
        let either = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] });
        json!({ "type": "object", "properties": { "x": either }, "required": required })
    };
    let gemini = render(Dialect::Gemini, &parameters(json!(["x"]))).expect("carried");
    assert_eq!(gemini["parameters"]["properties"]["x"], json!({ "type": "STRING", "nullable": true }));
    for dialect in [Dialect::Deepgram, Dialect::ElevenLabs] {
        let optional = render(dialect, &parameters(json!([]))).expect("carried");
        assert_eq!(optional["parameters"]["properties"]["x"]["type"], "string");
        assert_eq!(render(dialect, &parameters(json!(["x"]))).expect_err("refused"), ["parameters.properties.x"]);
    }
}

/// A value of one of several kinds is said to a provider that knows `anyOf`, however the schema has it.
#[test]
fn unions_are_carried_where_they_can_be_said() {
    let written = |argument: Value| {
        render(Dialect::Gemini, &with(argument)).expect("carried")["parameters"]["properties"]["x"].clone()
    };
    let either = json!({ "anyOf": [{ "type": "BOOLEAN" }, { "type": "STRING" }], "description": "Which?" });
    assert_eq!(written(json!({ "type": ["boolean", "string"], "description": "Which?" })), either);
    assert_eq!(
        written(json!({ "oneOf": [{ "type": "boolean" }, { "type": "string" }], "description": "Which?" })),
        either
    );
    let or_null = json!({ "anyOf": [{ "type": "integer" }, { "type": "array", "items": { "type": "string" } }, { "type": "null" }] });
    let items = json!([{ "type": "INTEGER" }, { "type": "ARRAY", "items": { "type": "STRING" } }]);
    assert_eq!(written(or_null.clone()), json!({ "anyOf": items, "nullable": true }));
    let wrong = with(json!({ "anyOf": [{ "type": "integer" }, { "type": "array" }] }));
    assert_eq!(render(Dialect::Gemini, &wrong).expect_err("refused"), ["parameters.properties.x.anyOf[1]"]);
    for dialect in [Dialect::Deepgram, Dialect::ElevenLabs] {
        for (argument, path) in [
            (or_null.clone(), "parameters.properties.x.anyOf"),
            (json!({ "oneOf": [{ "type": "string" }, { "type": "integer" }] }), "parameters.properties.x.oneOf"),
            (json!({ "type": ["string", "integer"] }), "parameters.properties.x.type"),
        ] {
            assert_eq!(render(dialect, &with(argument)).expect_err("refused"), [path], "{dialect}");
        }
    }
}

#[test]
fn names_are_those_the_provider_takes() {
    let none = json!({ "type": "object", "properties": {} });
    let takes = |dialect: Dialect, name: &str| {
        dialect.render(ToolText { name, description: "Does something.", parameters: &none }).is_ok()
    };
    for dialect in Dialect::ALL {
        assert!(takes(dialect, "a-tool_1") && takes(dialect, &"x".repeat(64)), "{dialect}");
        for bad in ["", "a tool", "a.tool", "werkzeug_ä", &"x".repeat(65)] {
            assert!(!takes(dialect, bad), "{dialect} took {bad:?}");
        }
        let digit_first = !matches!(dialect, Dialect::Gemini | Dialect::Deepgram);
        assert_eq!(takes(dialect, "1st_tool"), digit_first, "{dialect}");
    }
    let member = json!({ "type": "object", "properties": { "a-b": { "type": "string" } } });
    for dialect in SUBSET {
        assert_eq!(render(dialect, &member).expect_err("refused"), ["parameters.properties.a-b"]);
    }
    let missing = json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a", "b"] });
    for dialect in SUBSET {
        assert_eq!(render(dialect, &missing).expect_err("refused"), ["parameters.required"]);
    }
}

#[test]
fn depth_and_size_have_a_limit() {
    let deep = (0..10).fold(json!({ "type": "string" }), |inner, _| with(inner));
    let tree = json!({
        "type": "object", "properties": { "x": { "$ref": "#/$defs/node" } },
        "$defs": { "node": { "type": "object", "properties": {
            "a": { "$ref": "#/$defs/node" }, "b": { "$ref": "#/$defs/node" }, "c": { "$ref": "#/$defs/node" },
        } } },
    });
    let wide: serde_json::Map<String, Value> =
        (0..2000).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
    let wide = json!({ "type": "object", "properties": wide });
    for dialect in Dialect::ALL {
        assert_eq!(render(dialect, &deep).expect_err("too deep").len(), 1, "{dialect}");
        assert_eq!(render(dialect, &wide).expect_err("too large").len(), 1, "{dialect}");
    }
    for dialect in SUBSET {
        assert!(render(dialect, &tree).expect_err("endless").len() <= 32, "{dialect}");
    }
    let circle = json!({ "type": "object", "properties": { "x": { "$ref": "#/properties/x" } } });
    for dialect in SUBSET {
        render(dialect, &circle).expect_err("a circle");
    }
}

fn check_with_the_packages(files: &[(Dialect, PathBuf)]) -> Output {
    let mut command = python::script("google-genai", "check_tools.py");
    for (dialect, path) in files {
        command.arg(dialect.label()).arg(path);
    }
    command.output().expect("a Python that runs")
}

/// P3: the golden files are what the vendors' own packages take, with no key they do not know.
#[test]
fn the_golden_declarations_are_what_the_vendors_packages_know() {
    let files = Dialect::ALL.map(|dialect| (dialect, fixture(&format!("{dialect}.json"))));
    let output = check_with_the_packages(&files);
    let words = words_of(&output);
    assert!(output.status.success() && words.contains("15 tools checked, 0 violations"), "{words}");
}

#[test]
fn the_check_itself_finds_wrong_types_and_unknown_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let parameters = |kind: &str, key: &str| json!({ "type": kind, "properties": { "x": { "type": "nonsense", "description": "x", key: 1 } } });
    let wrong = [
        (Dialect::OpenAiRealtime, json!({ "type": "function", "function": {} })),
        (Dialect::ChatCompletions, json!({ "type": "function", "name": "x", "parameters": {} })),
        (Dialect::Gemini, json!({ "name": "x", "parameters": parameters("OBJECT", "oneOf") })),
        (Dialect::Deepgram, json!({ "name": "x", "function": {} })),
        (Dialect::ElevenLabs, json!({ "type": "client", "name": "x", "parameters": parameters("object", "format") })),
    ];
    for (dialect, tool) in wrong {
        let path = folder.path().join(format!("{dialect}.json"));
        fs::write(&path, json!([tool]).to_string()).expect("a file");
        let output = check_with_the_packages(&[(dialect, path)]);
        assert!(!output.status.success(), "{dialect} passed: {}", String::from_utf8_lossy(&output.stdout));
        let words = String::from_utf8_lossy(&output.stdout);
        assert!(words.contains(dialect.label()) && words.contains('$'), "{words}");
    }
}
