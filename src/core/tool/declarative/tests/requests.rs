//! `api_call`, as far as it is decided here: who is asked for what, and what becomes of the answer.
//! Retries, statuses and addresses of machines are the business of whoever sends.

use super::*;

fn call(fields: Value) -> Value {
    let mut action = json!({ "type": "api_call", "url": "https://api.example/x" });
    action.as_object_mut().unwrap().extend(map(fields));
    action
}

/// D9, D16: the fields of the ADR and what they are when they are not given.
#[test]
fn defaults_of_the_adr() {
    let mut world = World::new();
    world.surroundings.voice_timeout_cap = Some(Duration::from_secs(300));
    let ran = world.act(json!([call(json!({}))]), json!({}));
    let request = &ran.asked[0];
    assert_eq!((request.method.as_str(), &request.body, request.headers.len()), ("POST", &Some(json!({})), 0));
    assert_eq!((request.timeout, request.retries), (Duration::from_secs(30), 3));
    assert_eq!(request.retry_delay, Duration::from_millis(500));
    let fields = json!({ "method": "patch", "timeout": 1.5, "retry_count": 0, "retry_delay": 0, "body": [1] });
    let request = &world.act(json!([call(fields)]), json!({})).asked[0];
    assert_eq!((request.method.as_str(), &request.body), ("PATCH", &Some(json!([1]))));
    assert_eq!((request.timeout, request.retries), (Duration::from_millis(1500), 0));
}

/// D answer 1: a webhook is an api_call; it names an endpoint of the tenant's settings.
#[test]
fn webhooks_and_endpoints() {
    let world = World::new();
    let request = |action: Value| world.act(json!([action]), json!({})).asked[0].clone();
    let webhook = request(json!({ "type": "webhook", "endpoint": "meal.log", "payload": { "meal": "params" } }));
    assert_eq!((webhook.method.as_str(), webhook.url.as_str()), ("PUT", "https://api.example/users/u-1/meals"));
    assert_eq!(webhook.body, Some(json!({ "meal": {} })));
    let by_template = request(call(json!({ "url": "{{tenant.settings.endpoints.meal.log}}/today", "method": "GET" })));
    assert_eq!(
        (by_template.method.as_str(), by_template.url.as_str()),
        ("GET", "https://api.example/users/u-1/meals/today")
    );
    assert_eq!(request(json!({ "type": "webhook", "endpoint": "plain" })).method, "POST");
    assert_eq!(
        world.problems(json!([{ "type": "webhook", "endpoint": "meal.lgo" }])),
        ["actions[0].endpoint: there is no endpoint \"meal.lgo\" (known: meal.log, plain)"]
    );
}

/// D answer 1: `{name}` in an endpoint is the parameter of that name.
#[test]
fn placeholders_of_endpoints() {
    let mut world = World::new();
    let url = "https://api.example/{user_id}/{meal}/{tags}?x={{workflow.count}}";
    world.surroundings.endpoints.insert("e".into(), Endpoint { url: url.into(), method: None });
    world.memory.user.insert("tags".into(), "t".into());
    let ran = world.act(json!([{ "type": "webhook", "endpoint": "e" }]), json!({ "meal": "a/b" }));
    assert_eq!(ran.asked[0].url, "https://api.example/u-1/a%2Fb/t?x=2");
}

/// D answer 21: writing methods carry a key made of the call's and the action's place, others none.
#[test]
fn idempotency_keys() {
    let actions = json!([
        call(json!({})),
        { "type": "conditional", "condition": "workflow.count", "then": [call(json!({ "method": "DELETE" }))] },
        call(json!({ "method": "GET" })),
    ]);
    let world = World::new();
    let keys = || {
        let asked = world.act(actions.clone(), json!({})).asked;
        asked.iter().map(|request| request.idempotency_key.clone()).collect::<Vec<_>>()
    };
    assert_eq!(keys(), [Some("key:1".to_owned()), Some("key:3".to_owned()), None]);
    assert_eq!(keys(), keys(), "the same call makes the same keys");
}

/// D answer 22: GET and HEAD have no body; response_path is given the body, `result` everything.
#[test]
fn answers() {
    let world = World::new().answering([answer(202, json!({ "a": [1] }))]);
    let ran = world.act(
        json!([
            call(json!({ "method": "GET", "body": { "x": 1 }, "response_path": "workflow.answers[+]" })),
            { "type": "context.set", "data": { "r": "{{result}}" } },
        ]),
        json!({}),
    );
    assert_eq!(ran.asked[0].body, None);
    assert_eq!(*ran.workflow("answers"), json!([{ "a": [1] }]));
    let result = json!({ "status": 202, "body": { "a": [1] }, "headers": { "content-type": "application/json" } });
    assert_eq!(*ran.workflow("r"), result);
    assert_eq!(ran.done().data, json!({ "a": [1] }));
}

/// D15, D answer 23: with on_error: continue the run goes on and counts as a success.
#[test]
fn going_on_after_an_error() {
    let world = World::new().answering([refusal(ToolError::Conflict, Some(409), 1)]);
    let ran = world.act(
        json!([
            { "type": "context.set", "data": { "r": "before" } },
            call(json!({ "on_error": "continue", "response_path": "r" })),
            { "type": "context.set", "data": { "e": "{{result.error}}" } },
        ]),
        json!({}),
    );
    assert_eq!(*ran.workflow("r"), "before");
    assert_eq!(
        *ran.workflow("e"),
        json!({
            "type": "CONFLICT", "reason": "request_failed", "message": "The service did not answer.", "status": 409,
            "attempts": 1,
        })
    );
    assert!(ran.report.notes.contains(&Note::WentOn { action: "actions[1]".into(), kind: ToolError::Conflict }));
    assert!(!ran.report.trace[1].success);
}

/// D answer 24: the kind of a refusal is kept, with status and attempts; what was refused was not
/// done.
#[test]
fn kinds_of_errors() {
    for (kind, status, partial) in [
        (ToolError::Auth, Some(401), false),
        (ToolError::Permanent, Some(404), false),
        (ToolError::Conflict, Some(409), false),
        (ToolError::RateLimit, Some(429), false),
        (ToolError::Transient, Some(503), true),
        (ToolError::Transient, None, true),
    ] {
        let world = World::new().answering([refusal(kind, status, 2)]);
        let ran = world.act(json!([call(json!({}))]), json!({}));
        let failure = ran.failure();
        assert_eq!((failure.kind, failure.partial_side_effects, failure.retryable), (kind, partial, false));
        assert_eq!(failure.details["attempts"], 2);
        assert_eq!(failure.details.get("status").and_then(Value::as_u64), status.map(u64::from));
    }
    let world =
        World::new().answering([refusal(ToolError::Transient, None, 0), refusal(ToolError::Transient, None, 4)]);
    assert!(!world.act(json!([call(json!({}))]), json!({})).failure().partial_side_effects, "nothing was sent");
    let read = world.act(json!([call(json!({ "method": "GET" }))]), json!({}));
    assert!(read.failure().retryable && !read.failure().partial_side_effects);
}

/// D answer 20: all requests of a run share eight seconds, or what the tool has left if that is less.
#[test]
fn requests_share_the_time_of_the_call() {
    let actions = json!([call(json!({})), call(json!({})), call(json!({}))]);
    let mut world = World::new();
    world.service.takes = Duration::from_secs(3);
    let lefts = |world: &World| {
        world.act(actions.clone(), json!({})).asked.iter().map(|r| r.time_left.as_millis()).collect::<Vec<_>>()
    };
    assert_eq!(lefts(&world), [8000, 5000, 2000]);
    world.service.clock = Arc::default();
    world.time_left = Duration::from_millis(4250);
    assert_eq!(lefts(&world), [4000, 1000], "the third has no time left");
    world.service.clock = Arc::default();
    let ran = world.act(actions.clone(), json!({}));
    assert_eq!((ran.why(), ran.asked[1].timeout), ((ToolError::Timeout, "no_time_left"), Duration::from_secs(1)));
}

/// D answer 20: that the bound for live calls ended a request is noted.
#[test]
fn the_bound_for_calls_is_noted_when_it_bites() {
    let mut world =
        World::new().answering([refusal(ToolError::Transient, None, 2), refusal(ToolError::Transient, None, 2)]);
    world.service.takes = Duration::from_secs(8);
    let ran = world.act(json!([call(json!({}))]), json!({}));
    assert_eq!(ran.report.notes, [Note::Capped { cap: Duration::from_secs(8) }]);
    world.service = Service { takes: Duration::from_secs(5), ..Service::default() };
    world.time_left = Duration::from_secs(5);
    let mut world = world.answering([refusal(ToolError::Timeout, None, 2)]);
    assert_eq!(world.act(json!([call(json!({}))]), json!({})).report.notes, [], "the tool's own time ended it");
    world.time_left = Duration::from_secs(60);
    world.service = Service { takes: Duration::from_secs(2), ..Service::default() };
    let world = world.answering([refusal(ToolError::Transient, None, 2)]);
    assert_eq!(world.act(json!([call(json!({}))]), json!({})).report.notes, []);
}

/// D answer 25: hosts on the operator's list go with the request.
#[test]
fn listed_hosts_go_along() {
    let mut world = World::new();
    world.surroundings.allowed_hosts = vec!["10.0.0.5:8080".into()];
    let ran = world.act(json!([call(json!({ "url": "http://10.0.0.5:8080/x" }))]), json!({}));
    assert_eq!(ran.asked[0].allowed_hosts, ["10.0.0.5:8080"]);
}

/// D answer 22: an answer that is too large or too deep is not taken in.
#[test]
fn answers_have_limits() {
    let deep = (0..100).fold(json!(1), |value, _| json!([value]));
    for body in [deep, json!(vec!["x".repeat(1000); 600])] {
        let world = World::new().answering([answer(200, body)]);
        let ran = world.act(json!([call(json!({ "response_path": "r" }))]), json!({}));
        assert_eq!(ran.why(), (ToolError::Permanent, "answer_too_large"));
        assert!(ran.failure().partial_side_effects);
    }
}

/// D answer 29: a dry run sends nothing; it shows what it would send, without secrets.
#[test]
fn a_dry_run_sends_nothing() {
    let mut world = World::new();
    world.live = false;
    let ran = world.run(&save_meal(), json!({ "meal_type": "lunch", "dishes": ["rice"] }));
    assert!(ran.asked.is_empty());
    assert_eq!(ran.message(), "I've logged your lunch!");
    let steps = serde_json::to_value(&ran.report.trace).unwrap();
    assert_eq!(steps[0], json!({ "action": "actions[0]", "type": "validate", "success": true }));
    assert_eq!(
        steps[2]["data"],
        json!({
            "method": "POST",
            "url": "https://api.example/meals",
            "headers": { "Content-Type": "application/json", "Authorization": "***" },
            "body": { "user_id": "u-1", "meal": { "meal_type": "lunch", "dishes": ["rice"] } },
            "timeout": 8.0,
            "retry_count": 3,
            "retry_delay": 0.5,
        })
    );
    assert_eq!(steps[3]["spoken"], "I've logged your lunch!");
    let bad = world.run(&save_meal(), json!({ "dishes": [] }));
    let steps = serde_json::to_value(&bad.report.trace).unwrap();
    assert_eq!(steps[0]["error"]["type"], "VALIDATION");
    assert_eq!(steps[1]["action"], "on_failure[0]");
}
