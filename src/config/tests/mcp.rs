//! The section `mcp`: what is right, and every mistake told with its place.

use super::{mistakes::told, *};

/// [`SMALL`] with these servers, and tools in the list of its context.
fn with(servers: &str, tools: &str) -> String {
    format!("{SMALL}    tools: [{tools}]\nmcp:\n  servers:\n{servers}")
}

/// What is said about one server that is written so.
fn about(entry: &str) -> String {
    problems(&with(&format!("    atis: {{ {entry} }}\n"), ""))
}

fn warnings(text: &str) -> String {
    loaded(text).warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// M25: every key of the document is there, and no other; the nearest one is named.
#[test]
fn unknown_keys_are_told_with_those_that_do_exist() {
    let all = "transport: stdio, command: [atis, --config, atis.yaml], env: { A: b }, restart: { enabled: true, \
               max_restarts: 5, backoff_ms: 1000 }, defaults: { timeout_ms: 10000, slow_response_threshold_ms: 2000, \
               slow_response_message: One moment. }, tools: [{ name: get_atis, expose_as: mcp_atis, description: Tells the \
               weather., speech_field: atis_text, speech_template: \"{atis_text}\" }]";
    assert_eq!(about(all), "none");
    assert_eq!(
        problems_with("mcp: { server: {} }\n"),
        "test.yaml:7: mcp.server: unknown key; did you mean \"servers\"?"
    );
    let cases = [
        "comand: [x], command: [x]",
        "command: [x], restart: { restarts: 3 }",
        "command: [x], defaults: { timeout: 5 }",
        "command: [x], tools: [{ name: a, speech: b }]",
    ];
    insta::assert_snapshot!(told(&cases, about));
}

/// M25, M answer 1: what belongs to one transport is a mistake with the other, and what it needs is asked for.
#[test]
fn keys_of_the_other_transport_are_told() {
    let cases = [
        "command: [x], url: 'https://tools.example.com/mcp'",
        "command: [x], bearer_token: x",
        "transport: http, url: 'https://tools.example.com/mcp', command: [x]",
        "transport: http, url: 'https://tools.example.com/mcp', env: { A: b }",
        "transport: http",
        "url: 'https://tools.example.com/mcp', bearer_token: x",
        "transport: stdio",
        "transport: stdio, url: 'https://tools.example.com/mcp'",
        "transport: sse, url: 'https://tools.example.com/mcp'",
    ];
    insta::assert_snapshot!(told(&cases, about));
}

/// M25: what an address cannot have is told with where it goes, and nothing of it is shown.
#[test]
fn addresses_that_no_endpoint_has_are_told() {
    let cases = [
        "transport: http, url: 'ws://secret@tools.example.com'",
        "transport: http, url: 'https://anna:secret@tools.example.com/mcp'",
        "transport: http, url: 'https://tools.example.com/mcp?key=secret'",
        "transport: http, url: 'https://tools.example.com?key=secret@'",
        "transport: http, url: 'https://tools.example.com/mcp#secret'",
        "transport: http, url: 'https://tools example.com/mcp'",
    ];
    for case in cases {
        assert!(!about(case).contains("secret"), "{case}");
    }
    insta::assert_snapshot!(told(&cases, about));
    assert_eq!(about("transport: http, url: 'https://tools.example.com:8443/a/@b'"), "none");
}

/// M25: a header that cannot be sent is told by its half: the name, or the value, which is not shown.
#[test]
fn headers_that_cannot_be_sent_are_told() {
    let http = |headers: &str| about(&format!("transport: http, url: 'https://a.example', {headers}"));
    let cases = [
        "headers: { 'X Key': abc }",
        "headers: { X-Key: \"two\\nlines\" }",
        "headers: { Accept: text/plain }",
        "bearer_token: abc, headers: { authorization: abc }",
        "bearer_token: \"abc\\n\"",
    ];
    insta::assert_snapshot!(told(&cases, http));
}

/// M25: no shell reads a command; one that is written for a shell is warned of, and a path that has blanks is not.
#[test]
fn commands_that_are_written_for_a_shell_are_warned_of() {
    let cases = [
        "command: ['atis --config atis.yaml']",
        "command: ['~/bin/atis', --config, '~/atis.yaml']",
        "command: [$HOME/bin/atis]",
        "command: ['/usr/bin/atis --config atis.yaml']",
    ];
    let about = |entry: &str| warnings(&with(&format!("    myAtis: {{ {entry} }}\n"), ""));
    insta::assert_snapshot!(told(&cases, about));
    let folder = tempfile::TempDir::new().unwrap();
    let program = folder.path().join("my atis");
    std::fs::write(&program, "").unwrap();
    assert_eq!(about(&format!("command: [{program:?}, two words]")), "");
    assert_eq!(about("command: [atis, --say, two words]"), "");
}

/// M2, M27: a tool that a context lists of a server that is switched off is missing from every call, which is warned of.
#[test]
fn tools_of_servers_that_are_switched_off_are_warned_of() {
    let off = "    atis: { command: [x], enabled: false }\n";
    let told = "test.yaml:7: contexts.desk.tools[0]: \"mcp_atis_get\" is a tool of mcp.servers.atis, which is switched off; \
                take it out of the list, or set ";
    assert_eq!(warnings(&with(off, "mcp_atis_get")), format!("{told}mcp.servers.atis.enabled: true"));
    let all = with("    atis: { command: [x], defaults: { access: write } }\n", "mcp_atis_get");
    assert_eq!(warnings(&all), "");
    let none = all.replace("mcp:\n", "mcp:\n  enabled: false\n");
    assert_eq!(warnings(&none), format!("{told}mcp.enabled: true"));
    // Another that may have a tool of this name is on.
    let both =
        "    atis: { command: [x], enabled: false }\n    atis_get: { command: [x], defaults: { access: write } }\n";
    assert_eq!(warnings(&with(both, "mcp_atis_get_it")), "");
}

/// M14, M answer 2: ids are lower snake case; two names that become one are told, and one of which nothing is left.
#[test]
fn two_servers_of_one_id_are_told() {
    let told = problems(&with("    my-book: { command: [a] }\n    myBook: { command: [b] }\n", ""));
    assert!(told.ends_with("another server is called \"my_book\" as well, in lower snake case"), "{told}");
    let told = problems(&with("    '...': { command: [a] }\n", ""));
    assert!(told.contains("mcp.servers.\"...\""), "{told}");
    let config = loaded(&with("    aviationAtis: { command: [a] }\n", "mcp_aviation_atis_get"));
    assert_eq!(config.mcp.servers.keys().collect::<Vec<_>>(), ["aviation_atis"]);
}

/// M16, M answer 3: a name that is taken, by a built-in tool or by another server's, is told with both owners; so is one that
/// no provider would take.
#[test]
fn exposed_names_that_are_taken_are_told() {
    let one = |name: &str| about(&format!("command: [x], tools: [{{ name: bye, expose_as: {name} }}]"));
    let cases = ["hangup_call", "Get.Atis"];
    insta::assert_snapshot!("taken_by_a_built_in", told(&cases, one));
    let two = "    a: { command: [x], tools: [{ name: get, expose_as: weather }] }\n    \
               b: { command: [x], tools: [{ name: got, expose_as: weather }] }\n";
    let names = problems(&with(two, ""));
    assert!(names.contains("\"got\" of mcp.servers.b would be called \"weather\", and so is \"get\" of mcp.servers.a"));
    assert!(names.contains("expose_as"), "the remedy: {names}");
    let cases = [
        "command: [x], tools: [{ name: getAtis }, { name: get_atis }]",
        "command: [x], tools: [{ name: get }, { name: get }]",
        "command: [x], tools: [{ name: '...' }]",
    ];
    insta::assert_snapshot!(told(&cases, about));
}

/// M2, M27: contexts list exposed names. Of a server whose tools are listed only those exist; of one whose are not, any
/// name may be its.
#[test]
fn a_context_lists_exposed_names() {
    let explicit = "    atis: { command: [x], tools: [{ name: get_atis }] }\n";
    let unknown = |servers: &str, tool: &str| {
        let told = problems(&with(servers, tool));
        assert!(told.contains(&format!("contexts.desk.tools[0]: unknown tool \"{tool}\"")), "{told}");
        told
    };
    assert!(unknown(explicit, "mcp_atis_get_atsi").ends_with("did you mean \"mcp_atis_get_atis\"?"));
    unknown(explicit, "get_atis");
    assert_eq!(problems(&with(explicit, "hangup_call, mcp_atis_get_atis")), "none");
    let open = "    atis: { command: [x] }\n";
    assert_eq!(problems(&with(open, "mcp_atis_whatever, hangup_call")), "none");
    unknown(open, "mcp_metar_whatever");
}

/// M answer 17: nobody but the operator says what a tool touches; until then it is warned of, once for each list.
#[test]
fn a_tool_that_nobody_classified_is_warned_of() {
    let server = "    atis: { command: [x] }\n";
    assert_eq!(
        warnings(&with(server, "mcp_atis_get_atis, hangup_call")),
        "test.yaml:7: contexts.desk.tools[0]: \"mcp_atis_get_atis\" is not classified and will never run; say what it \
         touches, such as tools: { mcp_atis_get_atis: { access: public_read } }"
    );
    let classified = "    atis: { command: [x], defaults: { access: public_read } }\n";
    assert_eq!(warnings(&with(classified, "mcp_atis_get_atis")), "");
    let ruled =
        format!("{}tools: {{ mcp_atis_get_atis: {{ access: public_read }} }}\n", with(server, "mcp_atis_get_atis"));
    assert_eq!(warnings(&ruled), "");
}

/// M32, M33, M answer 14: secrets come from the environment; one that is not set is named, one that is set is never shown.
#[test]
fn a_variable_that_is_not_set_is_named_and_its_value_is_never_shown() {
    let cases = ["command: [x], env: { TOKEN: '${ATIS_TOKEN}' }", "command: [x], env: { 'A=B': c }"];
    insta::assert_snapshot!(told(&cases, about));
    let config = loaded(&with("    atis: { command: [x], env: { TOKEN: '${SECRET_WORD}', B: plain-secret } }\n", ""));
    let shown = format!("{config:?}");
    assert!(!shown.contains("swordfish") && !shown.contains("plain-secret"), "{shown}");
    let McpTransport::Stdio { env, .. } = &config.mcp.servers["atis"].transport else { panic!("a program") };
    assert_eq!(secrecy::ExposeSecret::expose_secret(&env["TOKEN"]), "swordfish");
}

/// M18, M19: a rule that could never make a sentence is told.
#[test]
fn rules_of_speech_that_cannot_apply_are_told() {
    let tool = |rule: &str| about(&format!("command: [x], tools: [{{ name: get, {rule} }}]"));
    assert_eq!(tool("speech_template: 'It is {wind.speed} knots.', speech_field: a.0.b"), "none");
    let cases =
        ["speech_template: 'It is {wind.speed knots.'", "speech_template: 'It is {} knots.'", "speech_field: a..b"];
    insta::assert_snapshot!(told(&cases, tool));
}

/// M25: a time in another unit is told with the number of milliseconds that it is.
#[test]
fn numbers_that_no_call_could_stand_are_told() {
    for entry in ["restart: { backoff_ms: 5 }", "defaults: { timeout_ms: 0 }", "restart: { max_restarts: -1 }"] {
        assert_ne!(about(&format!("command: [x], {entry}")), "none", "{entry}");
    }
    let cases = [
        "command: []",
        "command: [x], cwd: nowhere",
        "command: [x], defaults: { timeout_ms: 10s, start_timeout_ms: soon }",
        "command: [x], defaults: { slow_response_threshold_ms: 0 }, restart: { backoff_ms: 0.5s }",
    ];
    insta::assert_snapshot!(told(&cases, about));
}

/// As the document of the API has it.
#[test]
fn an_entry_of_one_transport_has_no_key_of_the_other() {
    let schema = jsonschema::validator_for(&crate::config::mcp_server_schema()).expect("a schema");
    let http = |more: Value| {
        let mut server = json!({ "transport": "http", "url": "https://tools.example.com/mcp" });
        server.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server
    };
    for server in [
        json!({ "command": ["sh"], "env": { "A": "b" } }),
        json!({ "command": ["sh"], "transport": "${WAY:-stdio}" }),
        http(json!({})),
        http(json!({ "bearer_token": "${T}" })),
    ] {
        assert!(schema.is_valid(&server), "{server}");
        let text = format!("{SMALL}mcp: {{ servers: {{ tools: {server} }} }}\n");
        assert_eq!(problems(&text.replace("${T}", "t")), "none", "{server}");
    }
    for server in [
        json!({}),
        json!({ "transport": "http" }),
        json!({ "url": "https://a.example/" }),
        json!({ "command": ["sh"], "url": "https://a.example/" }),
        http(json!({ "cwd": "x" })),
    ] {
        assert!(!schema.is_valid(&server), "{server}");
        assert_ne!(problems(&format!("{SMALL}mcp: {{ servers: {{ tools: {server} }} }}\n")), "none", "{server}");
    }
}
