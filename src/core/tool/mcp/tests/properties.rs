//! Whatever a server sends.

use super::*;

/// Any JSON, with the names that MCP gives a meaning among its members.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[{}\\[\\]\":, a.0\u{202e}\u{0}\n]{0,40}".prop_map(Value::from),
        prop::sample::select(vec!["object", "text", "image", "resource", "{\"a\":\"b\"}", "{a}", "#/$defs/a"])
            .prop_map(Value::from),
        "[ .a]{590,700}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        6 => prop::sample::select(vec![
            "type", "text", "content", "structuredContent", "isError", "message", "error", "resource", "data", "blob",
            "name", "inputSchema", "properties", "items", "anyOf", "$ref", "$defs", "description", "annotations", "a", "b",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// What is right as often as not.
fn result() -> impl Strategy<Value = Value> {
    let text = value().prop_map(|value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    });
    let text = text.prop_map(|text| json!({ "type": "text", "text": text }));
    let part = prop_oneof![6 => text, 1 => value()];
    let parts = prop::collection::vec(part, 0..4);
    let right = (parts, prop::option::of(value()), any::<bool>()).prop_map(|(content, structured, is_error)| {
        let mut result = json!({ "content": content, "isError": is_error });
        if let Some(structured) = structured {
            result["structuredContent"] = structured;
        }
        result
    });
    prop_oneof![4 => right, 1 => value()]
}

fn speech() -> impl Strategy<Value = Speech> {
    let field = prop::option::of(prop_oneof![Just("a".to_owned()), Just("a.b.0".to_owned()), any::<String>()]);
    let template = prop::option::of(prop_oneof![
        Just("{a}{b}".to_owned()),
        Just("[{a}]".to_owned()),
        any::<String>(),
        "[a{}.]{0,9}"
    ]);
    (field, template).prop_map(|(field, template)| Speech { field, template })
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object() || value.is_array())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// M17, M20, M answers 4, 6: every JSON is answered: with a short sentence that is no JSON, or a failure that says so.
    #[test]
    fn every_result_is_answered(result in result(), speech in speech(), retryable: bool) {
        let message = match outcome(&result, &speech, retryable) {
            ToolOutcome::Done(done) => {
                prop_assert!(done.data.to_string().len() <= kept::BYTES_MAX);
                prop_assert!(done.actions.is_empty());
                done.message.unwrap()
            }
            ToolOutcome::Failed(failure) => {
                prop_assert!(matches!(failure.kind, ToolError::Permanent | ToolError::Transient));
                prop_assert!(failure.message.chars().count() <= 300);
                failure.message
            }
            other @ ToolOutcome::Collect(_) => panic!("{other:?}"),
        };
        prop_assert!(!message.trim().is_empty() && message.chars().count() <= 2000, "{message:?}");
        prop_assert!(!is_json(&message) && !message.chars().any(char::is_control), "{message:?}");
    }

    /// M15, M answer 2: any two names give a name that every provider takes, or none.
    #[test]
    fn every_name_is_exposable_or_none(server in ".{0,40}", tool in ".{0,80}") {
        match exposed(&server, &tool) {
            None => prop_assert!(snake(&server).is_empty() || snake(&tool).is_empty()),
            Some(exposed) => prop_assert!(is_exposable(&exposed.name) && exposed.name.starts_with("mcp_")),
        }
        prop_assert_eq!(snake(&snake(&tool)), snake(&tool));
    }

    /// M16, M answer 3: what reads the same is called the same; whoever registers both is told.
    #[test]
    fn tools_that_read_the_same_are_called_the_same(words in prop::collection::vec("[a-z]{1,6}", 1..5)) {
        let written = [words.join("_"), words.join("-"), words.join(". "), format!("_{}!", words.join("__"))];
        let names = written.map(|tool| exposed("weather", &tool).unwrap().name);
        prop_assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    }

    /// M answer 17: every JSON that a server offers is a tool that can be used, or is refused.
    #[test]
    fn every_offer_is_read_or_refused(schema in value(), annotations in value(), name in ".{0,20}", description in ".{0,40}") {
        let tools = [
            json!({ "name": name, "description": description, "inputSchema": { "properties": { "a": schema } } }),
            json!({ "name": name, "inputSchema": schema, "annotations": annotations }),
            schema,
        ];
        for tool in tools {
            let Ok(spec) = Offered::read(&tool).and_then(|tool| tool.spec("weather", None, &defaults())) else { continue };
            prop_assert!(is_exposable(&spec.name) && Arguments::new(spec.parameters.clone()).is_ok(), "{spec:?}");
            prop_assert!(!spec.description.is_empty() && !spec.description.chars().any(char::is_control));
            prop_assert_eq!((&spec.parameters["type"], spec.access), (&json!("object"), Category::Unknown));
        }
    }
}
