//! `{{path}}` in text, in values, in addresses and headers.

use super::*;

/// What a template of this value becomes.
fn filled(value: Value) -> Value {
    let mut world = World::new();
    world.memory.workflow.insert("list".into(), json!([1, [2], { "a": null }]));
    let ran =
        world.act(json!([{ "type": "context.set", "path": "out", "value": value }]), json!({ "n": 1.5, "yes": true }));
    ran.workflow("out").clone()
}

/// D10: params, user, workflow and the agents' own state.
#[test]
fn the_four_roots_of_the_adr() {
    let all = "{{params.n}} {{user.id}} {{workflow.count}} {{agents.meal.last_dish}}";
    assert_eq!(filled(json!(all)), "1.5 u-1 2 soup");
    assert_eq!(filled(json!("{{ tenant.settings.brand }}/{{call.direction}}/{{flags.none}}")), "Acme/inbound/");
}

/// D12, D answer 3: exactly one template keeps the type; inside text values are printed.
#[test]
fn types_are_kept_or_printed() {
    assert_eq!(filled(json!("{{params}}")), json!({ "n": 1.5, "yes": true }));
    assert_eq!(filled(json!("{{workflow.list}}")), json!([1, [2], { "a": null }]));
    assert_eq!(filled(json!("{{params.yes}}")), json!(true));
    assert_eq!(
        filled(json!("{{params.n}}, {{params.yes}}, {{workflow.list}}, {{call.caller_name}}.")),
        r#"1.5, true, [1,[2],{"a":null}], ."#
    );
    assert_eq!(filled(json!(" {{params.n}}")), " 1.5", "a space makes it text");
}

/// D answer 4: what is missing is null alone and nothing in text, and is told to the operator.
#[test]
fn missing_values() {
    let ran = World::new().act(
        json!([{ "type": "context.set", "data": { "a": "{{workflow.no}}", "b": "x{{user.no[3].way}}", "c": "{{workflow.no}}" } }]),
        json!({}),
    );
    assert_eq!((ran.workflow("a"), ran.workflow("b")), (&Value::Null, &json!("x")));
    assert_eq!(ran.missing(), ["workflow.no", "user.no[3].way"]);
}

/// D answer 5: values are filled in at any depth; keys are not templates; there is one pass.
#[test]
fn a_single_pass_through_values() {
    let mut world = World::new();
    world.memory.workflow.insert("trap".into(), "{{user.auth_token}} {{workflow.count}}".into());
    let ran = world.act(
        json!([
            { "type": "context.set", "path": "out", "value": { "{{k}}": ["{{workflow.trap}}", { "d": "-{{workflow.trap}}" }] } },
            { "type": "context.set", "path": "again", "value": "{{workflow.out}}" },
        ]),
        json!({}),
    );
    let trap = "{{user.auth_token}} {{workflow.count}}";
    let expected = json!({ "{{k}}": [trap, { "d": format!("-{trap}") }] });
    assert_eq!((ran.workflow("out"), ran.workflow("again")), (&expected, &expected));
}

/// D answer 6: names, places from either end.
#[test]
fn paths() {
    assert_eq!(filled(json!("{{workflow.list[0]}}")), json!(1));
    assert_eq!(filled(json!("{{workflow.list[-1].a}}")), json!(null));
    assert_eq!(filled(json!("{{workflow.list[-2][0]}}")), json!(2));
    assert_eq!(filled(json!("{{workflow.list[3]}}{{workflow.list[-4]}}{{workflow.list.a}}")), "");
    let world = World::new();
    for wrong in [
        "{{}}",
        "{{ }}",
        "{{workflow.}}",
        "{{.workflow}}",
        "{{workflow..a}}",
        "{{workflow.a b}}",
        "{{workflow[x]}}",
        "{{workflow[+]}}",
        "{{workflow.a[+]}}",
        "{{workflow[+1]}}",
        "{{workflow[1}}",
        "{{workflow.a]}}",
        "{{workflow",
        "{{a}}",
        "{{item}}",
        "{{workflow.é}}",
        "{{history.x}}",
    ] {
        let problems = world.problems(json!([{ "type": "respond", "message": wrong }]));
        assert_eq!(problems.len(), 1, "{wrong}");
    }
    let deep = format!("{{{{workflow{}}}}}", ".a".repeat(17));
    assert_eq!(world.problems(json!([{ "type": "respond", "message": deep }])).len(), 1);
}

/// D answer 7: a path without braces is that path in the place of a value, if something is there.
#[test]
fn bare_paths() {
    assert_eq!(filled(json!("params.n")), json!(1.5));
    assert_eq!(
        filled(json!({ "meal": "params", "plain": "lunch" })),
        json!({ "meal": { "n": 1.5, "yes": true }, "plain": "lunch" })
    );
    assert_eq!(filled(json!("params.none")), "params.none");
    assert_eq!(filled(json!("params and more")), "params and more");
    let ran = World::new().act(
        json!([
            { "type": "respond", "message": "params" },
            { "type": "api_call", "url": "https://api.example/", "body": { "meal": "params" } },
        ]),
        json!({ "a": 1 }),
    );
    assert_eq!(ran.message(), "params", "words are no place for a value");
    assert_eq!(ran.asked[0].body, Some(json!({ "meal": { "a": 1 } })));
}

fn address(world: &World, url: &str, value: Value) -> Result<String, String> {
    let ran = world.act(json!([{ "type": "api_call", "url": url, "method": "GET" }]), json!({ "v": value }));
    match ran.asked.first() {
        Some(request) => Ok(request.url.clone()),
        None => Err(ran.why().1.to_owned()),
    }
}

/// D18, D answer 10: a value is one segment or one query value, whatever it holds.
#[test]
fn values_in_an_address_are_encoded() {
    let world = World::new();
    let path = "https://api.example/users/{{params.v}}/meals?of={{params.v}}";
    assert_eq!(
        address(&world, path, json!("a/b?c=d&e#f é")),
        Ok("https://api.example/users/a%2Fb%3Fc%3Dd%26e%23f%20%C3%A9/meals?of=a%2Fb%3Fc%3Dd%26e%23f%20%C3%A9".into())
    );
    assert_eq!(address(&world, path, json!(7)), Ok("https://api.example/users/7/meals?of=7".into()));
    for up in ["..", ".", "%2e%2e", "\r\nHost: evil"] {
        let sent = address(&world, path, json!(up));
        assert!(
            sent.as_ref().is_err() || sent.as_ref().unwrap().starts_with("https://api.example/users/%"),
            "{up}: {sent:?}"
        );
    }
    assert_eq!(address(&world, path, json!("..")), Err("address".into()));
}

/// D answer 4: a missing value in an address or in Authorization fails the action.
#[test]
fn missing_values_in_requests() {
    let world = World::new();
    assert_eq!(address(&world, "https://api.example/{{user.no}}", json!(1)), Err("unresolved_template".into()));
    assert_eq!(address(&world, "https://api.example/x?y={{params.v}}", json!(null)), Err("unresolved_template".into()));
    assert_eq!(address(&world, "https://api.example/{{params.v}}", json!("")), Err("unresolved_template".into()));
    assert_eq!(address(&world, "https://api.example/?y={{params.v}}", json!("")), Ok("https://api.example/?y=".into()));
    let with = |name: &str| {
        let headers = json!({ name: "Bearer {{user.no}}" });
        world.act(json!([{ "type": "api_call", "url": "https://api.example/", "headers": headers }]), json!({}))
    };
    assert_eq!(with("authorization").why(), (ToolError::Permanent, "unresolved_template"));
    assert_eq!(with("X-Other").asked[0].headers, [("X-Other".to_owned(), "Bearer ".to_owned())]);
}

/// D answer 10: a value forms scheme, host or port only where the host is on the operator's list.
#[test]
fn values_do_not_choose_the_host() {
    let mut world = World::new();
    let open = [
        "{{params.v}}",
        "https://{{params.v}}/x",
        "https://api.example{{params.v}}/x",
        "https://api.example:{{params.v}}/",
    ];
    for url in open {
        let problems = world.problems_of(&tool(json!([{ "type": "api_call", "url": url }]), &json!({ "v": "" })));
        assert!(
            problems[0].starts_with("actions[0].url: a template cannot decide which host is called"),
            "{problems:?}"
        );
    }
    world.surroundings.allowed_hosts = vec!["Good.example".into(), "10.0.0.5:8080".into()];
    assert_eq!(
        address(&world, "{{params.v}}", json!("https://good.example/a?b=c")),
        Ok("https://good.example/a?b=c".into())
    );
    assert_eq!(address(&world, "http://{{params.v}}/x", json!("10.0.0.5:8080")), Ok("http://10.0.0.5:8080/x".into()));
    for (url, value) in [
        ("{{params.v}}", "https://evil.example/"),
        ("{{params.v}}", "https://good.example@evil.example/"),
        ("https://{{params.v}}/x", "good.example@evil.example"),
        ("https://good.example{{params.v}}/x", ".evil.example"),
        ("https://good.example{{params.v}}/x", "@evil.example"),
        ("https://good.example{{params.v}}/x", "\\@evil.example"),
        ("http://{{params.v}}/x", "10.0.0.5"),
        ("{{params.v}}", "file://good.example/etc/passwd"),
        ("{{params.v}}", "no address"),
        ("{{params.v}}", "https://user:pass@good.example/"),
    ] {
        assert!(address(&world, url, json!(value)).is_err(), "{url} {value}");
    }
}

/// D18: the address is part of the definition; what is no address is refused when it is saved.
#[test]
fn addresses_are_checked_when_the_tool_is_saved() {
    let world = World::new();
    for url in [
        "",
        "api.example/x",
        "ftp://api.example/",
        "https://",
        "https:///x",
        "https://u:p@api.example/",
        "https://api.example\\@evil/",
        " https://api.example/",
    ] {
        assert_eq!(world.problems(json!([{ "type": "api_call", "url": url }])).len(), 1, "{url}");
    }
}

/// D answer 10: a value cannot begin another header.
#[test]
fn control_characters_in_headers() {
    let call =
        json!([{ "type": "api_call", "url": "https://api.example/", "headers": { "X-Name": "n={{params.v}}" } }]);
    for bad in ["a\r\nX-Evil: 1", "a\nb", "a\u{0}", "\u{7f}"] {
        assert_eq!(World::new().act(call.clone(), json!({ "v": bad })).why(), (ToolError::Permanent, "header"));
    }
    let ran = World::new().act(call, json!({ "v": "ok" }));
    assert_eq!(ran.asked[0].headers, [("X-Name".to_owned(), "n=ok".to_owned())]);
}
