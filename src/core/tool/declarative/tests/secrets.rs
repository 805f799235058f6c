//! D18 and D answer 26: tokens and other secrets go out in requests and nowhere else.

use super::*;

fn world() -> World {
    let mut world = World::new();
    world.memory.user.insert("pin".into(), json!(4711));
    world.memory.user.insert("cards".into(), json!([{ "number": "4111-1111" }]));
    world.surroundings.secrets = ["user.pin", "user.cards"]
        .map(|path| crate::tool::memory::Path::parse(path, Default::default()).unwrap())
        .into();
    world
}

/// D answer 26: a definition that names a secret outside of a request is refused when it is saved.
#[test]
fn a_secret_is_named_in_requests_only() {
    for action in [
        json!({ "type": "respond", "message": "Your token is {{user.auth_token}}" }),
        json!({ "type": "log", "message": "{{user.cards[0].number}}" }),
        json!({ "type": "context.set", "data": { "a": { "b": "{{user.pin}}" } } }),
        json!({ "type": "context.set", "data": { "a": "user.pin" } }),
        json!({ "type": "context.get", "path": "user.auth_token" }),
        json!({ "type": "handoff", "target": "sales", "message": "{{user.pin}}" }),
        json!({ "type": "flag.set", "flag": "a", "value": "{{user.pin}}" }),
        json!({ "type": "transform", "source": "user.cards", "operation": "count" }),
        json!({ "type": "transform", "source": "list", "operation": "map", "template": "{{user.pin}}" }),
        json!({ "type": "conditional", "condition": "user.pin == 4711", "then": [] }),
        json!({ "type": "conditional", "condition": { "path": "params.x", "op": "eq", "value": "{{user.pin}}" }, "then": [] }),
        json!({ "type": "validate", "rules": [{ "param": "x", "equals": "{{user.pin}}" }] }),
        json!({ "type": "validate", "rules": [{ "param": "x", "required": true, "message": "{{user.pin}}" }] }),
        json!({ "type": "validate", "rules": [{ "path": "user.pin", "min": 4000 }] }),
    ] {
        let problems = world().problems(json!([action]));
        assert!(problems.iter().any(|line| line.contains("is secret")), "{action}: {problems:?}");
    }
    let there = json!([{ "type": "conditional", "condition": { "path": "user.pin", "op": "exists" }, "then": [] }]);
    assert_eq!(world().problems(there), [""; 0], "whether there is one may be asked");
}

/// D18, D answer 26: requests carry secrets in address, headers and body.
#[test]
fn requests_carry_secrets() {
    let ran = world().act(
        json!([{
            "type": "api_call", "url": "https://api.example/{{user.pin}}",
            "headers": { "Authorization": "Bearer {{user.auth_token}}" }, "body": { "user": "{{user}}", "pin": "user.pin" },
        }]),
        json!({}),
    );
    let request = &ran.asked[0];
    assert_eq!((request.url.as_str(), request.headers[0].1.as_str()), ("https://api.example/4711", "Bearer tok-12345"));
    assert_eq!(request.body.as_ref().unwrap()["user"]["auth_token"], "tok-12345");
    assert_eq!(request.body.as_ref().unwrap()["pin"], 4711);
}

/// D answer 26: what holds a secret among other things is masked wherever it is not a request.
#[test]
fn a_whole_root_is_masked() {
    let ran = world().act(
        json!([
            { "type": "context.set", "data": { "copy": "{{user}}" } },
            { "type": "context.get", "path": "user" },
            { "type": "log", "message": "{{user}}" },
            { "type": "respond", "message": "{{user}}" },
            { "type": "handoff", "target": "sales", "message": "{{user}}" },
        ]),
        json!({}),
    );
    assert_eq!(ran.workflow("copy")["auth_token"], "***");
    assert_eq!(ran.workflow("copy")["pin"], "***");
    assert_eq!(ran.workflow("copy")["name"], "Ann");
    nothing_tells(&ran);
}

fn nothing_tells(ran: &Ran) {
    let trace = serde_json::to_string(&ran.report.trace).unwrap();
    let notes: String = ran
        .report
        .notes
        .iter()
        .map(|note| match note {
            Note::Log { message, .. } => message.reveal().clone(),
            other => format!("{other:?}"),
        })
        .collect();
    let memory = serde_json::to_string(&ran.memory.workflow).unwrap();
    for told in [format!("{:?}", ran.report.outcome), trace, notes, memory] {
        for secret in ["tok-12345", "4111-1111", "4711"] {
            assert!(!told.contains(secret), "{secret} in {told}");
        }
    }
}

/// D answer 26: a service that answers with what it was sent tells the model nothing.
#[test]
fn an_echo_is_masked() {
    let echo = json!({ "token": "tok-12345", "said": "Bearer tok-12345!", "tok-12345": [4711, "4711", 5], "n": 47110 });
    let world = world().answering([answer(200, echo)]);
    let ran = world.act(
        json!([
            { "type": "api_call", "url": "https://api.example/", "response_path": "r" },
            { "type": "respond", "message": "{{result.body.said}} {{workflow.r.token}}" },
        ]),
        json!({}),
    );
    assert_eq!(ran.done().data, json!({ "token": "***", "said": "Bearer ***!", "***": ["***", "***", 5], "n": 47110 }));
    assert_eq!(ran.message(), "Bearer ***! ***");
}

/// D answer 26: the same where the echo is of an address, or of JSON in a text.
#[test]
fn an_echo_in_other_clothes_is_masked() {
    let mut world = world();
    world.memory.user.insert("auth_token".into(), "a\"b/c=d".into());
    let echo = json!({ "url": "https://api.example/?t=a%22b%2Fc%3Dd&x=1", "sent": r#"{"t":"a\"b/c=d"}"# });
    let world = world.answering([answer(200, echo)]);
    let ran =
        world.act(json!([{ "type": "api_call", "url": "https://api.example/?t={{user.auth_token}}" }]), json!({}));
    assert_eq!(ran.asked[0].url, "https://api.example/?t=a%22b%2Fc%3Dd");
    assert_eq!(ran.done().data, json!({ "url": "https://api.example/?t=***&x=1", "sent": r#"{"t":"***"}"# }));
}

/// D answer 26: the same of an error's words.
#[test]
fn errors_are_masked() {
    let error =
        FetchError { kind: ToolError::Auth, message: "bad token tok-12345".into(), status: Some(401), attempts: 1 };
    let world = world().answering([Err(error)]);
    let ran = world.act(json!([{ "type": "api_call", "url": "https://api.example/" }]), json!({}));
    assert_eq!(ran.failure().message, "bad token ***");
    nothing_tells(&ran);
}

/// D answer 26, D answer 28: arguments that the policy calls secret are secrets like the others.
#[test]
fn secret_arguments() {
    let definition = |message: &str| {
        let mut definition = tool(
            json!([
                { "type": "api_call", "url": "https://api.example/", "body": { "code": "{{params.code}}" } },
                { "type": "respond", "message": message },
            ]),
            &json!({ "code": "abcdef", "x": "" }),
        );
        definition["policy"] = json!({ "secret_args": ["code"] });
        definition
    };
    assert_eq!(world().problems_of(&definition("{{params.code}}")).len(), 1);
    let ran = world().run(&definition("{{params}}"), json!({ "code": "abcdef", "x": "is abcdef right?" }));
    assert_eq!(ran.message(), r#"{"code":"***","x":"is *** right?"}"#);
    assert_eq!(ran.asked[0].body, Some(json!({ "code": "abcdef" })));
}

/// D answer 26: a dry run shows requests without secrets, encoded ones included.
#[test]
fn a_dry_run_shows_no_secret() {
    let mut world = world();
    world.live = false;
    world.memory.user.insert("auth_token".into(), "tok/12345".into());
    let ran = world.act(
        json!([{
            "type": "api_call", "url": "https://api.example/{{user.auth_token}}?k={{user.pin}}",
            "headers": { "X-Api-Key": "written-out", "X-User": "{{user.auth_token}}" }, "body": "{{user}}",
        }]),
        json!({}),
    );
    let shown = serde_json::to_string(&ran.report.trace).unwrap();
    for secret in ["tok/12345", "tok%2F12345", "4711", "written-out", "4111-1111"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(shown.contains("Ann"));
}

/// Debug prints of a tenant, a call's memory and a trace hold nothing of them.
#[test]
fn debug_prints_are_silent() {
    let ran = world().act(json!([{ "type": "respond", "message": "{{user.name}}" }]), json!({}));
    for text in
        [format!("{:?}", world().surroundings), format!("{:?}", world().memory), format!("{:?}", ran.report.trace)]
    {
        assert!(!text.contains("Ann") && !text.contains("api.example"), "{text}");
    }
}
