//! Definitions: every shape that is read, the one that is written, and everything that is wrong at
//! once.

use super::*;
use crate::{
    gate::{AuthState, Category as Access, RiskDomain},
    tool::{
        Admission, CallPolicy, Executor, Modes, Opening, SideEffects, ToolCall, ToolCallId, ToolKind, Toolbox,
        UnknownArgs,
        declarative::{ACTIONS_MAX, DEFINITION_BYTES_MAX, DeclarativeTool},
    },
};

/// The actions as they are stored.
fn stored(actions: Value) -> Value {
    World::new().define(&tool(actions, &json!({ "x": 1 }))).to_json()["actions"].clone()
}

/// The tool of the ADR with the root of each written path, as it is stored.
fn stored_save_meal() -> Value {
    let mut definition = save_meal();
    definition["actions"][1]["data"] = json!({ "workflow.logged_meals[+]": "{{params}}" });
    definition
}

/// D4, D6, D7, D8, D17: the tool of the ADR is read, and written as it was.
#[test]
fn the_adrs_own_tool_is_read_and_written() {
    let definition = World::new().define(&save_meal());
    assert_eq!(definition.to_json(), stored_save_meal());
    assert_eq!((definition.name(), definition.description()), ("save_meal", "Logs a meal."));
}

/// D5, D9, D14: twelve types of action, a thirteenth is refused when the tool is saved.
#[test]
fn twelve_types() {
    let all = json!([
        { "type": "context.set", "data": { "workflow.a": 1 } },
        { "type": "context.get", "path": "workflow.a" },
        { "type": "context.delete", "path": "workflow.a" },
        { "type": "api_call", "url": "https://api.example/" },
        { "type": "handoff", "target": "sales" },
        { "type": "respond", "message": "x" },
        { "type": "flag.set", "flag": "f" },
        { "type": "flag.clear", "flag": "f" },
        { "type": "conditional", "condition": "flags.f", "then": [] },
        { "type": "validate", "rules": [] },
        { "type": "transform", "source": "workflow.a", "operation": "count" },
        { "type": "log", "message": "x" },
    ]);
    assert_eq!(World::new().problems(all.clone()), [""; 0]);
    let types = all.as_array().unwrap().iter().map(|action| action["type"].as_str().unwrap());
    assert_eq!(types.collect::<Vec<_>>(), crate::tool::declarative::definition::Action::TYPES);
    for wrong in ["loop", "python", "parallel", "Respond", "api-call", ""] {
        let problems = World::new().problems(json!([{ "type": wrong }]));
        assert!(problems[0].starts_with("actions[0].type: has to be one of context.set, "), "{problems:?}");
    }
    let hint = World::new().problems(json!([{ "type": "api-call" }]));
    assert!(hint[0].ends_with("(api_call?)"), "{hint:?}");
}

/// D answer 1: all generations of shapes are read, and written as the ADR has them.
#[test]
fn generations_of_shapes() {
    let set = json!([{ "type": "context.set", "data": { "workflow.theme": "{{params.x}}" } }]);
    for older in [
        json!({ "key": "theme", "value": "{{params.x}}" }),
        json!({ "path": "workflow.theme", "value": "{{ params.x }}" }),
        json!({ "path": "theme", "data": "{{params.x}}" }),
        json!({ "data": { "theme": "{{params.x}}" } }),
    ] {
        let mut older = older;
        older["type"] = "context.set".into();
        assert_eq!(stored(json!([older])), set);
    }
    let bare = stored(json!([{ "type": "context.set", "key": "theme", "value": "params.x" }]));
    assert_eq!(bare[0]["data"]["workflow.theme"], "params.x");
    for kind in ["context.get", "context.delete"] {
        assert_eq!(stored(json!([{ "type": kind, "key": "a" }])), json!([{ "type": kind, "path": "workflow.a" }]));
    }
    for older in ["target", "target_agent", "agent"] {
        assert_eq!(
            stored(json!([{ "type": "handoff", older: "sales" }])),
            json!([{ "type": "handoff", "target": "sales" }])
        );
    }
    let webhook =
        stored(json!([{ "type": "webhook", "endpoint": "plain", "method": "post", "payload": { "a": "params" } }]));
    let call = stored(json!([{
        "type": "api_call", "url": "{{tenant.settings.endpoints.plain}}", "method": "POST", "body": { "a": "params" },
    }]));
    assert_eq!((webhook[0]["type"].as_str(), &webhook), (Some("api_call"), &call));
    assert_eq!(
        stored(json!([{ "type": "flag.set", "flag": "flags.f", "value": true }])),
        json!([{ "type": "flag.set", "flag": "f" }])
    );
}

/// D answer 1: two names of one thing contradict each other.
#[test]
fn one_name_at_a_time() {
    let problems = World::new().problems(json!([
        { "type": "context.set", "path": "a", "key": "b", "value": 1 },
        { "type": "api_call", "url": "https://api.example/", "body": {}, "payload": {} },
        { "type": "respond", "message": "a", "message_key": "bye" },
        { "type": "context.set", "data": { "a[+]": 1, "workflow.a[+]": 2, "a": 3 } },
    ]));
    assert_eq!(
        problems,
        [
            "actions[0].key: path and key are the same thing; give one",
            "actions[1].payload: body and payload are the same thing; give one",
            "actions[2].message_key: message and message_key are the same thing; give one",
            "actions[3].data.workflow.a[+]: is written twice",
        ]
    );
}

/// D answer 2: flat or with `config`, as the API answers it; stored flat.
#[test]
fn with_and_without_config() {
    let flat = save_meal();
    let mut outer = flat.clone();
    let mut config = map(json!({}));
    for name in ["parameters", "actions", "on_success", "on_failure"] {
        config.insert(name.into(), outer.as_object_mut().unwrap().remove(name).unwrap());
    }
    outer["config"] = config.into();
    outer["id"] = "t-1".into();
    outer["created_at"] = "2025-01-01T00:00:00Z".into();
    assert_eq!(World::new().define(&outer).to_json(), stored_save_meal());
    outer["actions"] = json!([]);
    outer["config"]["actions"][2]["url"] = json!(7);
    assert_eq!(
        World::new().problems_of(&outer),
        [
            "actions: is not a field here (known here: name, description, config)",
            "config.actions[2].url: has to be a text",
        ]
    );
}

/// D answer 1, D answer 29: everything that is wrong is told at once, each with its place.
#[test]
fn all_problems_at_once() {
    let definition = json!({
        "name": "Save Meal",
        "parameters": [
            { "name": "a", "type": "strnig" },
            { "name": "b c", "type": "string" },
            { "name": "d", "type": "boolean", "enum": [true] },
            { "name": "e", "type": "integer", "default": "5" },
            { "name": "e", "type": "string" },
            { "name": "f", "type": "string", "items": "string", "requierd": true },
        ],
        "actions": [
            { "type": "api_call", "url": "https://api.example/", "timeout": 0, "retry_count": -1, "on_error": "ignore" },
            { "type": "api_call", "url": "https://api.example/", "headers": { "Host": "x", "a b": "y", "Ok": 1 } },
            { "type": "respond" },
            { "type": "respond", "mesage": "x" },
            { "type": "transform", "source": "x", "operation": "map" },
            { "type": "validate", "rules": [{ "param": "zz", "required": true }, { "param": "d" }] },
            "respond",
            {},
        ],
        "on_succes": [],
        "on_failure": {},
        "policy": { "category": "both", "timeout": 500, "modes": ["voice", "fax"], "secret_args": ["none"] },
    });
    let expected = [
        "on_succes: is not a field here (on_success?)",
        "name: has to be lower-case letters, digits and _, a letter first",
        "description: is needed",
        "parameters[0].type: has to be one of string, integer, number, boolean, array, object (string?)",
        "parameters[1].name: has to be a name of letters, digits, _ and -",
        "parameters[2].enum: only for texts and numbers",
        "parameters[3].default: e has to be of type integer",
        "parameters[4].name: a second parameter named e",
        "parameters[5].requierd: is not a field here (required?)",
        "parameters[5].items: only an array has items",
        "policy.category: has to be one of retrieval, action, utility",
        "policy.timeout: has to be seconds from 0.1 to 120",
        "policy.modes[1]: has to be voice or text",
        "policy.secret_args[0]: there is no parameter none",
        "actions[0].timeout: has to be seconds from 0.1 to 120",
        "actions[0].retry_count: has to be a whole number from 0 to 10",
        "actions[0].on_error: has to be one of fail, continue",
        "actions[1].headers.Host: is set by whoever sends the request",
        "actions[1].headers.a b: is no name of a header",
        "actions[1].headers.Ok: has to be a text",
        "actions[2].message: is needed",
        "actions[3].mesage: is not a field here (message?)",
        "actions[3].message: is needed",
        "actions[4].template: is needed",
        "actions[5].rules[0].param: there is no parameter \"zz\"",
        "actions[5].rules[1]: has no rule",
        "actions[6]: has to be an object",
        "actions[7].type: is needed",
        "on_failure: has to be a list",
    ];
    let problems = World::new().problems_of(&definition);
    assert_eq!(problems, expected, "{problems:#?}");
    let json = serde_json::to_value(World::new().read(&definition).unwrap_err()).unwrap();
    assert_eq!(
        json[1],
        json!({ "path": "name", "message": "has to be lower-case letters, digits and _, a letter first" })
    );
}

/// Names, sizes and numbers have limits.
#[test]
fn limits_of_a_definition() {
    let named = |name: &str| {
        let mut definition = tool(json!([]), &json!({}));
        definition["name"] = name.into();
        World::new().problems_of(&definition).len()
    };
    assert_eq!((named("a"), named(&"a".repeat(64)), named("a_1")), (0, 0, 0));
    for wrong in ["", "1a", "_a", "A", "a-b", "a.b", "é", &"a".repeat(65)] {
        assert_eq!(named(wrong), 1, "{wrong}");
    }
    let deep = (0..70).fold(json!(1), |value, _| json!([value]));
    let large = json!("x".repeat(DEFINITION_BYTES_MAX));
    for value in [deep, large] {
        let problems = World::new().problems(json!([{ "type": "context.set", "path": "a", "value": value }]));
        assert_eq!(problems, ["".to_owned() + ": larger than 131072 bytes or deeper than 64"]);
    }
    let many = vec![json!({ "type": "nonsense" }); ACTIONS_MAX];
    assert_eq!(World::new().problems(json!(many)).len(), ACTIONS_MAX);
    let wrong = vec![json!({ "type": "api_call", "a": 1, "b": 2 }); ACTIONS_MAX];
    assert_eq!(World::new().problems(json!(wrong)).len(), 100, "nobody reads more");
    let too_many = vec![json!({ "type": "log", "message": "x" }); ACTIONS_MAX + 1];
    assert_eq!(World::new().problems(json!(too_many)), ["actions: 65 entries; at most 64"]);
}

/// What is no definition at all is refused without a panic.
#[test]
fn no_definition_at_all() {
    for value in
        [json!(null), json!([]), json!("x"), json!({}), json!({ "config": 1 }), json!({ "name": 1, "actions": {} })]
    {
        assert!(!World::new().problems_of(&value).is_empty(), "{value}");
    }
}

/// D7, D answer 12: parameters become the schema that the model reads.
#[test]
fn parameters_become_a_schema() {
    let mut definition = tool(json!([]), &json!({}));
    definition["parameters"] = json!([
        { "name": "meal_type", "type": "string", "enum": ["breakfast", "lunch"], "description": "Which meal" },
        { "name": "dishes", "type": "array", "required": true },
        { "name": "tags", "type": "array", "items": { "type": "string" } },
        { "name": "count", "type": "integer", "required": true, "default": 1 },
        { "name": "more", "type": "object", "required": false },
    ]);
    assert_eq!(
        World::new().define(&definition).schema(),
        json!({
            "type": "object",
            "properties": {
                "meal_type": { "type": "string", "description": "Which meal", "enum": ["breakfast", "lunch"] },
                "dishes": { "type": "array", "items": {} },
                "tags": { "type": "array", "items": { "type": "string" } },
                "count": { "type": "integer", "default": 1 },
                "more": { "type": "object" },
            },
            "required": ["dishes"],
            "additionalProperties": false,
        })
    );
}

/// D answer 28: policy is derived from what the actions do.
#[test]
fn policy_follows_from_the_actions() {
    let spec = |actions: Value| World::new().define(&tool(actions, &json!({}))).spec();
    let get = json!({ "type": "api_call", "url": "https://api.example/", "method": "GET", "response_path": "r" });
    let post = json!({ "type": "api_call", "url": "https://api.example/" });
    let say = json!({ "type": "respond", "message": "x" });
    for (actions, kind, side_effects, access, idempotent) in [
        (json!([say]), ToolKind::Utility, SideEffects::None, Access::PublicRead, true),
        (
            json!([{ "type": "context.get", "path": "user.name" }]),
            ToolKind::Utility,
            SideEffects::None,
            Access::PrivateRead,
            true,
        ),
        (json!([say, get]), ToolKind::Retrieval, SideEffects::ReadOnly, Access::PrivateRead, true),
        (json!([get, post]), ToolKind::Action, SideEffects::Writes, Access::Write, false),
        (
            json!([{ "type": "conditional", "condition": "flags.f", "then": [{ "type": "flag.set", "flag": "f" }] }]),
            ToolKind::Action,
            SideEffects::Writes,
            Access::Write,
            false,
        ),
    ] {
        let spec = spec(actions.clone());
        let found = (spec.kind, spec.side_effects, spec.access, spec.idempotent);
        assert_eq!(found, (kind, side_effects, access, idempotent), "{actions}");
        assert_eq!((spec.risk_domain, &spec.executor), (RiskDomain::Unknown, &Executor::Declarative));
    }
    assert!(spec(json!([get])).timeout > crate::tool::declarative::VOICE_TIMEOUT_CAP, "requests end first");
}

/// D answer 28: an admin's own policy stands.
#[test]
fn policy_can_be_stated() {
    let mut definition = tool(json!([{ "type": "flag.set", "flag": "f" }]), &json!({ "pin": "", "x": "" }));
    let policy = json!({
        "category": "utility", "side_effects": "read_only", "access": "public_read", "risk_domain": "customer_support",
        "idempotent": true, "requires_confirmation": true, "standing_approval": true,
        "confirm_template": "Shall I use {x}?", "timeout": 3, "latency_budget": 0.5, "wait": false,
        "modes": ["text"], "secret_args": ["pin"], "authenticates": "validated", "unknown_args": "reject",
        "version": "2.1.0",
    });
    definition["policy"] = policy.clone();
    let definition = World::new().trusted().define(&definition);
    let spec = definition.spec();
    assert_eq!(
        (spec.kind, spec.side_effects, spec.access),
        (ToolKind::Utility, SideEffects::ReadOnly, Access::PublicRead)
    );
    assert_eq!(
        (spec.risk_domain, spec.idempotent, spec.requires_confirmation),
        (RiskDomain::CustomerSupport, true, true)
    );
    assert_eq!((spec.standing_approval, spec.wait, spec.version.as_str()), (true, false, "2.1.0"));
    assert_eq!(spec.confirm_template.as_deref(), Some("Shall I use {x}?"));
    assert_eq!((spec.timeout, spec.latency_budget), (Duration::from_secs(3), Duration::from_millis(500)));
    assert_eq!((spec.modes, spec.secret_args), (Modes { voice: false, text: true }, vec!["pin".to_owned()]));
    assert_eq!((spec.authenticates, spec.unknown_args), (Some(AuthState::Validated), UnknownArgs::Reject));
    let map = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(map(&definition.to_json()["policy"]), map(&policy));
}

/// G answer 7, D answer 28: who writes a tool does not approve of it; what is stricter than its actions always stands.
#[test]
fn a_tool_does_not_approve_of_itself() {
    let get = json!({ "type": "api_call", "url": "https://api.example/", "method": "GET", "response_path": "r" });
    let post = json!({ "type": "api_call", "url": "https://api.example/" });
    let name = json!({ "type": "context.get", "path": "user.name" });
    let say = json!({ "type": "respond", "message": "x" });
    let refused = |action: &Value, policy: Value| {
        let mut definition = tool(json!([action]), &json!({}));
        definition["policy"] = policy;
        World::new().trusted().define(&definition);
        let found = World::new().read(&definition).err().unwrap_or_default();
        for problem in &found {
            let field = problem.path.trim_start_matches("policy.").replace("category", "kind");
            let hint = problem.hint.as_deref().unwrap_or_default();
            assert!(hint.contains(&format!("tools.a_tool.{field}")) && hint.contains("trusted: true"), "{hint}");
        }
        found.into_iter().map(|problem| problem.path).collect::<Vec<_>>()
    };
    for (action, policy, place) in [
        (&post, json!({ "standing_approval": true }), "policy.standing_approval"),
        (&say, json!({ "authenticates": "validated" }), "policy.authenticates"),
        (&post, json!({ "access": "private_read" }), "policy.access"),
        (&get, json!({ "access": "public_read" }), "policy.access"),
        (&name, json!({ "access": "public_read" }), "policy.access"),
        (&get, json!({ "category": "utility" }), "policy.category"),
    ] {
        assert_eq!(refused(action, policy.clone()), [place], "{policy}");
    }
    for (action, policy) in [
        (&post, json!({ "standing_approval": false, "authenticates": "none", "category": "retrieval" })),
        (&post, json!({ "access": "unknown", "requires_confirmation": true })),
        (&get, json!({ "access": "write", "category": "retrieval" })),
        (&say, json!({ "access": "private_read", "category": "action", "risk_domain": "finance" })),
    ] {
        assert_eq!(refused(action, policy.clone()), Vec::<String>::new(), "{policy}");
    }
}

/// D answer 26, D answer 28: a confirmation reads out parameters, and no secret one.
#[test]
fn a_confirmation_names_parameters() {
    let mut definition = tool(json!([]), &json!({ "pin": "", "x": "" }));
    definition["policy"] = json!({ "secret_args": ["pin"], "confirm_template": "{x}, {pin} and {other}?" });
    assert_eq!(
        World::new().problems_of(&definition),
        [
            "policy.confirm_template: pin is secret: it is not read out",
            "policy.confirm_template: there is no parameter \"other\"",
        ]
    );
}

/// D1, D4: a definition is a tool like any other: shown, checked, admitted, run with the memory of
/// its call.
#[test]
fn a_definition_is_a_tool() {
    use crate::facts::{CallFacts, CallId};
    let mut definition = tool(
        json!([{ "type": "respond", "message": "{{params.a}} for {{user.name}} in {{call.context_name}}" }]),
        &json!({ "a": "" }),
    );
    definition["policy"] = json!({ "access": "public_read", "risk_domain": "customer_support" });
    let world = World::new().trusted();
    let definition = Arc::new(world.define(&definition));
    let now = || Timestamp::from_second(BEGIN).unwrap();
    let tool = Arc::new(DeclarativeTool::new(definition, Arc::new(Service::default()), now, Arc::new(())));
    let toolbox = Arc::new(Toolbox::new([tool as Arc<dyn crate::tool::Tool>]).expect("a usable schema"));
    #[expect(clippy::disallowed_methods, reason = "a moment is needed; which one does not matter")]
    let began = std::time::Instant::now();
    let opening = Opening { memory: world.memory.clone(), ..Opening::default() };
    let mut policy = CallPolicy::new(Arc::clone(&toolbox), Arc::default(), opening, (began, now()));
    let call = ToolCall { id: "c".into(), name: "a_tool".into(), arguments: r#"{"a":"x"}"#.into() };
    let admission = policy.admit(ToolCallId::random(), &call, began);
    let Admission::Run { call: approved, .. } = admission else { panic!("{admission:?}") };
    let facts = CallFacts::new(CallId::random(), "meal", "p");
    let outcome = toolbox.tool(&approved).unwrap().run(*approved, &facts).now_or_never().unwrap();
    let ToolOutcome::Done(done) = outcome else { panic!("{outcome:?}") };
    assert_eq!(done.message.as_deref(), Some("x for Ann in meal"));
}
