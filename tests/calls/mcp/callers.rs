//! Who calls: what reaches the prompt and the tools, and what reaches nobody else.

use super::*;
use std::process::Command;
use tempfile::TempDir;

const CALLER: &str = "493023125010";
const SECRET: &str = "planted-secret-of-the-server";

/// The prompt of the README of phonebook.
const PROMPT: &str = "The caller's number is {caller_number}. Before you greet, look it up. Nobody is {nobody}.";

/// An installation whose agent knows the callers by a phonebook.
async fn receptionist() -> (Scene, TempDir) {
    let folder = TempDir::new().expect("a temporary directory");
    let database = folder.path().join("contacts.db");
    let program = built("phonebook");
    let contacts = project().join("mcp_servers/phonebook/contacts.csv");
    let import = Command::new(&program)
        .args(["--database", &database.display().to_string(), "--country-prefix", "49", "import"])
        .arg(&contacts)
        .status();
    assert!(import.is_ok_and(|status| status.success()), "the sample is imported");
    let servers = [
        (
            "phonebook",
            format!(
                "{{ command: [{program:?}, --database, {database:?}, --country-prefix, \"49\"], defaults: {{ access: \
                 public_read }}, tools: [{{ name: find_by_number, speech_field: message }}], env: {{ BOOK_TOKEN: \
                 \"${{BOOK_TOKEN}}\" }} }}"
            ),
        ),
        ("teller", faulty("stderr-secret", "", "").replace("env: {", &format!("env: {{ SECRET_VALUE: {SECRET}, "))),
    ];
    let env = [("BOOK_TOKEN", SECRET.to_owned())];
    let offered = "mcp_phonebook_find_by_number, mcp_teller_echo, mcp_teller_fail, mcp_teller_environ";
    let scene =
        Scene::start(Setting { servers: &servers, prompt: PROMPT, offered, env: &env, ..Setting::default() }).await;
    (scene, folder)
}

/// The number that the model was told of.
fn told(scene: &Scene) -> String {
    let words = scene.session()["instructions"].as_str().expect("instructions").to_owned();
    let number = words.split_once("number is ").and_then(|(_, rest)| rest.split_once(". ")).expect("the sentence");
    assert!(words.contains("Nobody is {nobody}."), "what is no variable stays: {words}");
    number.0.to_owned()
}

/// M28, M29, M30: the caller's number stands in the prompt, and as the model read it there it finds the caller's name.
/// M29, M answer 19: an argument that is still a placeholder is no number: VALIDATION, and the server is not asked.
/// M33, M40, M41: the log line of a call has its fields; neither it nor a page has a number, a result, or a server's secret.
async fn a_caller_is_known_by_the_number_and_told_to_nobody_else() {
    let (scene, _folder) = receptionist().await;
    let phone = scene.call_as("7000", CALLER).await;
    let number = told(&scene);
    assert_eq!(number, CALLER);
    let found = scene.tool("mcp_phonebook_find_by_number", json!({ "number": number })).await;
    assert_eq!((kind(&found), message(&found)), ("OK", "Anna Meier of Meier Ltd."), "{found}");
    assert_eq!((&found["data"]["found"], &found["data"]["name"]), (&json!(true), &json!("Anna Meier")));

    let asked = scene.counted("phonebook", "ok").await;
    let refused = scene.tool("mcp_phonebook_find_by_number", json!({ "number": "{caller_number}" })).await;
    assert_eq!(kind(&refused), "VALIDATION", "{refused}");
    assert!(message(&refused).contains("{caller_number}"), "{refused}");
    assert_eq!((asked, scene.counted("phonebook", "ok").await), (1.0, 1.0), "the server is not asked");
    assert_eq!(scene.counted("phonebook", "rejected").await, 1.0);

    let echo = scene.tool("mcp_teller_echo", json!({ "text": format!("{CALLER} likes violets") })).await;
    assert_eq!(message(&echo), format!("{CALLER} likes violets"));
    assert_eq!(kind(&scene.tool("mcp_teller_fail", no_arguments()).await), "PERMANENT");
    scene.ends(phone).await;

    let calls = scene.lines("MCP tool call");
    let call = scene.offhook.json("calls").await["recent"][0]["id"].clone();
    let shapes: Vec<_> = calls.iter().map(|line| (&line["server"], &line["tool"], &line["outcome"])).collect();
    let shape = |server: &str, tool: &str, outcome: &str| (json!(server), json!(tool), json!(outcome));
    let expected = [
        shape("phonebook", "find_by_number", "ok"),
        shape("phonebook", "find_by_number", "rejected"),
        shape("teller", "echo", "ok"),
        shape("teller", "fail", "error"),
    ];
    assert_eq!(shapes, expected.iter().map(|(a, b, c)| (a, b, c)).collect::<Vec<_>>());
    for line in &calls {
        assert_eq!((&line["call_id"], &line["context_name"]), (&call, &json!("front")), "{line}");
        assert_eq!(line["provider_name"], "ai", "{line}");
        assert!(line["duration_ms"].is_number(), "{line}");
    }
    assert_eq!(calls[0]["exposed_name"], "mcp_phonebook_find_by_number");

    // The server tells its own secret on stderr, which is logged.
    scene.offhook.wait_logged("MCP server: connecting with ***").await;
    scene.is_private(&[SECRET, CALLER, "Anna", "Meier", "violets", "{caller_number}", "no such customer"]).await;
}

/// M40, M answer 8: the four metrics after some calls, with the labels of the document.
async fn the_metrics_tell_what_became_of_the_calls() {
    let servers = [("plain", faulty("plain", ", timeout_ms: 5000", ", restart: { backoff_ms: 50 }"))];
    let offered = "mcp_plain_echo, mcp_plain_fail, mcp_plain_hang, mcp_plain_die";
    let scene = Scene::start(Setting { servers: &servers, offered, ..Setting::default() }).await;
    let phone = scene.call("7000").await;
    for (tool, arguments, expected) in [
        ("mcp_plain_echo", json!({ "text": "a" }), "OK"),
        ("mcp_plain_echo", json!({ "text": "b" }), "OK"),
        ("mcp_plain_fail", no_arguments(), "PERMANENT"),
        ("mcp_plain_hang", no_arguments(), "TIMEOUT"),
        ("mcp_plain_sum", json!({ "a": 1, "b": 1 }), "NOT_FOUND"),
        ("mcp_plain_die", no_arguments(), "TRANSIENT"),
    ] {
        let output = scene.tool(tool, arguments).await;
        assert_eq!(kind(&output), expected, "{tool}: {output}");
    }
    scene.when("plain", "up again", |status| is_up(status) && status["restarts"] == 1).await;
    scene.ends(phone).await;
    let calls = |tool: &str, status: &str| {
        format!("ai_agent_mcp_tool_calls_total{{server=\"plain\",status=\"{status}\",tool=\"{tool}\"}}")
    };
    let latency = |tool: &str| format!("ai_agent_mcp_tool_latency_seconds_count{{server=\"plain\",tool=\"{tool}\"}}");
    for (name, value) in [
        (calls("echo", "ok"), 2.0),
        (calls("echo", "error"), 0.0),
        (calls("fail", "error"), 1.0),
        (calls("hang", "timeout"), 1.0),
        (calls("sum", "rejected"), 1.0),
        (calls("die", "unavailable"), 1.0),
        (latency("echo"), 2.0),
        (latency("hang"), 1.0),
        (latency("sum"), 0.0),
        ("ai_agent_mcp_server_restarts_total{server=\"plain\"}".into(), 1.0),
        ("ai_agent_mcp_server_up{server=\"plain\"}".into(), 1.0),
    ] {
        scene.offhook.metric_is(&name, value).await;
    }
}

/// M28: who withholds the number is told to the agent in a word, and the phonebook knows nobody of that name.
async fn a_caller_without_a_number_is_nobody_and_no_failure() {
    let (scene, _folder) = receptionist().await;
    let phone = scene.call_as("7000", "anonymous").await;
    let number = told(&scene);
    assert!(["unknown", "anonymous"].contains(&&*number), "{number}");
    let found = scene.tool("mcp_phonebook_find_by_number", json!({ "number": number })).await;
    assert_eq!((kind(&found), &found["data"]["found"]), ("OK", &json!(false)), "{found}");
    scene.ends(phone).await;
}

crate::scenes! {
    // MCP servers are programs of their own, which work while no clock of ours holds.
    only_real:
        a_caller_is_known_by_the_number_and_told_to_nobody_else,
        the_metrics_tell_what_became_of_the_calls,
        a_caller_without_a_number_is_nobody_and_no_failure;
}
