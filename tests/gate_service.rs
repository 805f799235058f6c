//! `offhook gate` as its clients meet it: over a socket, over pipes, and over a file.

use offhook::gate::REQUIRED;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use std::{process::Stdio, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::TcpStream,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// The longest anything here may take; what goes on is a failure, not a wait.
const WITHIN: Duration = Duration::from_secs(20);
const TOKEN: &str = "t0ken-of-the-test";

fn quick_start() -> Value {
    json!({
        "tool_name": "send_email", "tool_category": "write", "authorization_state": "user_claimed",
        "evidence_refs": ["draft_id:123"], "risk_domain": "customer_support",
        "proposed_arguments": { "to": "PRIVATE" }, "recommended_route": "accept",
    })
}

fn public_read() -> Value {
    json!({
        "tool_name": "get_weather", "tool_category": "public_read", "authorization_state": "none", "evidence_refs": [],
        "risk_domain": "public_information", "proposed_arguments": {}, "recommended_route": "accept",
    })
}

fn command() -> Command {
    let mut command = Command::new(offhook_kit::program());
    command.arg("gate").kill_on_drop(true).stderr(Stdio::piped());
    for name in
        ["AANA_BRIDGE_TOKEN", "AANA_BRIDGE_TOKEN_SCOPES", "AANA_MAX_REQUEST_BYTES", "AANA_RATE_LIMIT_PER_MINUTE"]
    {
        command.env_remove(name);
    }
    command
}

struct Service {
    child: Child,
    address: String,
    client: Client,
    _log: Lines<BufReader<ChildStderr>>,
}

impl Service {
    async fn start(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut command = command();
        command.args(["--http", "127.0.0.1:0"]).args(arguments).envs(environment.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("cargo built the program");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let listening = async {
            loop {
                let line = log.next_line().await.expect("text").expect("the service listens");
                if let Some((_, address)) = line.split_once("http://") {
                    return address.to_owned();
                }
            }
        };
        let address = timeout(WITHIN, listening).await.expect("in time");
        Self { child, address, client: Client::builder().no_proxy().build().expect("a client"), _log: log }
    }

    fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.post(format!("http://{}{path}", self.address)).timeout(WITHIN)
    }

    async fn check(&self, path: &str, event: &Value) -> (StatusCode, Value) {
        answer(self.post(path).bearer_auth(TOKEN).json(event)).await
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let request = self.client.get(format!("http://{}{path}", self.address)).timeout(WITHIN);
        let answer = request.send().await.expect("an answer");
        (answer.status(), answer.text().await.expect("text"))
    }

    async fn stop(mut self) {
        let pid = self.child.id().expect("running").to_string();
        Command::new("kill").args(["-TERM", &pid]).status().await.expect("kill");
        let status = timeout(WITHIN, self.child.wait()).await.expect("in time").expect("a status");
        assert!(status.success(), "{status}");
    }
}

async fn answer(request: reqwest::RequestBuilder) -> (StatusCode, Value) {
    let answer = request.send().await.expect("an answer");
    (answer.status(), answer.json().await.expect("JSON"))
}

fn tls() {
    // Another test may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// G16: the check, its older name, both places of the token, shadow mode, validation and the descriptions.
#[tokio::test]
async fn the_service_checks_events_for_who_has_the_token() {
    tls();
    let service = Service::start(&[("AANA_BRIDGE_TOKEN", TOKEN)], &[]).await;
    for path in ["/pre-tool-check", "/tool-precheck"] {
        let (status, json) = service.check(path, &quick_start()).await;
        assert_eq!((status, &json["route"]), (StatusCode::OK, &json!("ask")));
        assert_eq!(json["architecture_decision"]["route"], "ask");
        assert_eq!(json["execution_policy"]["execution_allowed"], false);
    }
    let header = service.post("/pre-tool-check").header("X-AANA-Token", TOKEN).json(&public_read());
    assert_eq!(answer(header).await.1["route"], "accept");

    let (status, malformed) = service.check("/pre-tool-check", &json!({ "tool_name": 5 })).await;
    assert_eq!((status, &malformed["route"]), (StatusCode::OK, &json!("refuse")), "a malformed event is an answer");

    let (_, shadow) = service.check("/pre-tool-check?shadow_mode=true", &quick_start()).await;
    assert_eq!((&shadow["route"], &shadow["execution_policy"]["execution_allowed"]), (&json!("ask"), &json!(true)));
    assert_eq!(shadow["shadow_observation"]["would_route"], "revise");

    let (status, valid) = service.check("/validate-tool-precheck", &public_read()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(valid, json!({ "valid": true, "errors": [], "schema_version": "aana.agent_tool_precheck.v1" }));
    let (_, invalid) = service.check("/validate-tool-precheck", &json!({})).await;
    assert_eq!(invalid["errors"].as_array().map(Vec::len), Some(REQUIRED.len()));

    for (path, text) in [
        ("/health", "\"status\":\"ok\""),
        ("/ready", "true"),
        ("/docs", "offhook gate"),
        ("/openapi.json", "\"3.1.0\""),
    ] {
        let (status, body) = service.get(path).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        assert!(body.contains(text) && !body.contains(TOKEN), "{path}: {body}");
    }
    assert_eq!(service.get("/nothing").await.0, StatusCode::NOT_FOUND);
    assert_eq!(service.get("/pre-tool-check").await.0, StatusCode::METHOD_NOT_ALLOWED);
    service.stop().await;
}

#[tokio::test]
async fn without_the_token_nothing_is_checked() {
    tls();
    let service =
        Service::start(&[("AANA_BRIDGE_TOKEN", TOKEN), ("AANA_BRIDGE_TOKEN_SCOPES", "validation, other")], &[]).await;
    let unauthorized = json!({ "detail": "Unauthorized." });
    for request in [
        service.post("/pre-tool-check").json(&public_read()),
        service.post("/pre-tool-check").bearer_auth("wrong").json(&public_read()),
        service.post("/pre-tool-check").bearer_auth("").json(&public_read()),
        service.post("/pre-tool-check").header("Authorization", TOKEN).json(&public_read()),
        service.post("/validate-tool-precheck").header("X-AANA-Token", "t0ken").json(&public_read()),
    ] {
        assert_eq!(answer(request).await, (StatusCode::UNAUTHORIZED, unauthorized.clone()));
    }
    let (status, json) = service.check("/pre-tool-check", &public_read()).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let expected = json!({
        "error": "insufficient_scope", "required_scope": "pre_tool_check", "configured_scopes": ["other", "validation"],
    });
    assert_eq!(json["detail"], expected);
    assert_eq!(service.check("/validate-tool-precheck", &public_read()).await.0, StatusCode::OK);

    let locked = Service::start(&[], &[]).await;
    for token in [TOKEN, ""] {
        let request = locked.post("/pre-tool-check").bearer_auth(token).json(&public_read());
        assert_eq!(answer(request).await.0, StatusCode::UNAUTHORIZED, "there is no default token");
    }
    assert_eq!(locked.get("/health").await.0, StatusCode::OK);
    assert_eq!(locked.get("/ready").await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn bodies_and_rates_are_limited() {
    tls();
    let limits = [("AANA_BRIDGE_TOKEN", TOKEN), ("AANA_MAX_REQUEST_BYTES", "512"), ("AANA_RATE_LIMIT_PER_MINUTE", "9")];
    let service = Service::start(&limits, &[]).await;
    let too_large = json!({
        "error": "request_too_large", "message": "The body is longer than AANA_MAX_REQUEST_BYTES allows (512).", "max_request_bytes": 512,
    });
    let long = "x".repeat(513);
    let request = service.post("/pre-tool-check").bearer_auth(TOKEN).body(long.clone());
    assert_eq!(answer(request).await, (StatusCode::PAYLOAD_TOO_LARGE, too_large.clone()));

    // Without a declared length the body is counted as it comes.
    let mut socket = TcpStream::connect(&service.address).await.expect("listening");
    let head = format!(
        "POST /pre-tool-check HTTP/1.1\r\nhost: x\r\nauthorization: bearer {TOKEN}\r\ntransfer-encoding: chunked\r\n\
         connection: close\r\n\r\n201\r\n{long}\r\n0\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.expect("taken");
    let mut text = String::new();
    timeout(WITHIN, socket.read_to_string(&mut text)).await.expect("in time").expect("text");
    assert!(text.starts_with("HTTP/1.1 413") && text.contains("request_too_large"), "{text}");

    for (body, kind) in [("[1]", "dict_type"), ("{", "json_invalid"), ("", "missing"), ("\u{0}", "json_invalid")] {
        let request = service.post("/pre-tool-check").bearer_auth(TOKEN).body(body);
        let (status, json) = answer(request).await;
        assert_eq!((status, &json["detail"][0]["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!(kind)), "{body}");
    }
    let mut limited = None;
    for _ in 0..9 {
        let request = service.post("/pre-tool-check").bearer_auth(TOKEN).json(&json!({}));
        let answer = request.send().await.expect("an answer");
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            limited = Some(answer);
            break;
        }
    }
    let limited = limited.expect("nine requests are the limit");
    let wait: u64 = limited.headers()["retry-after"].to_str().expect("text").parse().expect("seconds");
    let json: Value = limited.json().await.expect("JSON");
    assert_eq!((&json["error"], &json["requests_per_minute"]), (&json!("rate_limited"), &json!(9)));
    assert_eq!(json["retry_after_seconds"], wait);
    assert_eq!(service.get("/health").await.0, StatusCode::OK, "probes are not limited");
}

/// G1, G5: every decision leaves a record, and no record holds an argument.
#[tokio::test]
async fn decisions_are_recorded_without_their_arguments() {
    tls();
    let folder = TempDir::new().expect("a temporary directory");
    let file = folder.path().join("audit.jsonl");
    let service = Service::start(&[("AANA_BRIDGE_TOKEN", TOKEN)], &["--audit", file.to_str().expect("text")]).await;
    service.check("/pre-tool-check", &quick_start()).await;
    service.check("/tool-precheck?shadow_mode=1", &public_read()).await;
    service.stop().await;
    let text = std::fs::read_to_string(&file).expect("the file");
    assert!(!text.contains("PRIVATE") && !text.contains(TOKEN), "{text}");
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<_> = records
        .iter()
        .map(|record| (&record["route"], &record["recommended_action"], &record["execution_mode"]))
        .collect();
    let expected = [("/pre-tool-check", "ask", "enforce"), ("/tool-precheck", "accept", "shadow")]
        .map(|(route, action, mode)| (json!(route), json!(action), json!(mode)));
    assert_eq!(told, expected.iter().map(|(route, action, mode)| (route, action, mode)).collect::<Vec<_>>());
}

struct Conversation {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Conversation {
    fn start() -> Self {
        let mut child = command().arg("--mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, input, output }
    }

    async fn say(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("taken");
    }

    /// Every line on standard output is a message.
    async fn hear(&mut self) -> Value {
        let line = timeout(WITHIN, self.output.next_line()).await.expect("in time").expect("text").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.say(&message.to_string()).await;
        self.hear().await
    }
}

/// G17: `tools/list` and `tools/call` over newline-delimited JSON-RPC, with and without a handshake.
#[tokio::test]
async fn an_mcp_host_lists_and_calls_the_tool() {
    let mut host = Conversation::start();
    let list = host.ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await;
    let tool = &list["result"]["tools"][0];
    assert_eq!(tool["name"], "aana_pre_tool_check");
    assert_eq!(
        tool["annotations"],
        json!({ "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false })
    );
    let client =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = host.ask(json!({ "jsonrpc": "2.0", "id": 2, "method": "initialize", "params": client })).await;
    assert_eq!(hello["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(hello["result"]["serverInfo"], json!({ "name": "aana-mcp", "version": "0.1.0" }));
    host.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()).await;

    for (event, route, allowed) in
        [(public_read(), "accept", true), (quick_start(), "ask", false), (json!({}), "refuse", false)]
    {
        let params = json!({ "name": "aana_pre_tool_check", "arguments": event });
        let answer = host.ask(json!({ "jsonrpc": "2.0", "id": route, "method": "tools/call", "params": params })).await;
        assert_eq!(answer["id"], route, "nothing answered the notification");
        let structured = &answer["result"]["structuredContent"];
        assert_eq!((&structured["route"], &structured["execution_allowed"]), (&json!(route), &json!(allowed)));
        assert_eq!(
            answer["result"]["content"],
            json!([{ "type": "text", "text": format!("AANA route: {route}. Execution allowed: {allowed}.") }])
        );
        assert_eq!(answer["result"]["_meta"]["aana_decision"]["route"], route);
        assert_eq!(answer["result"]["_meta"]["audit_safe_log_event"], structured["audit_safe_log_event"]);
    }
}

#[tokio::test]
async fn an_mcp_host_that_talks_nonsense_is_told_so_and_heard_on() {
    let mut host = Conversation::start();
    let long = format!("\"{}\"", "x".repeat(2 * 1024 * 1024));
    let deep = "[".repeat(10_000);
    for nonsense in ["{", "[]", "5", "{\"id\":1,\"method\":\"resources/read\"}", deep.as_str(), long.as_str()] {
        host.say(nonsense).await;
        let answer = host.hear().await;
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
    }
    host.say("").await;
    let pong = host.ask(json!({ "jsonrpc": "2.0", "id": 9, "method": "ping" })).await;
    assert_eq!((&pong["id"], &pong["result"]), (&json!(9), &json!({})));
    let Conversation { mut child, input, .. } = host;
    drop(input);
    let status = timeout(WITHIN, child.wait()).await.expect("in time").expect("a status");
    assert!(status.success(), "a host that hangs up is the usual end");
}

#[tokio::test]
async fn a_file_of_events_is_decided_line_by_line() {
    let mut lifted = quick_start();
    lifted["evidence_refs"] = json!([{ "source_id": "a", "kind": "approval", "trust_tier": "verified",
        "redaction_status": "redacted", "freshness": { "status": "fresh" }, "provenance": "p", "retrieved_at": "2020-01-01" }]);
    let input = format!("{}\n\nnonsense\n{}\n{lifted}", public_read(), quick_start());
    let decide = async |arguments: &[&str]| {
        let mut command = command();
        command.args(["--check", "-"]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).await.expect("taken");
        let output = timeout(WITHIN, child.wait_with_output()).await.expect("in time").expect("an end");
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["recommended_action"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(decide(&["--now", "2020-01-02T00:00:00Z"]).await, ["\"accept\"", "\"refuse\"", "\"ask\"", "\"ask\""]);
    assert_eq!(decide(&[]).await[3], "\"defer\"", "now the evidence is stale");
    let strict = decide(&["--strict", "--settings", "reference", "--now", "2020-01-02T00:00:00Z"]).await;
    assert_eq!(
        strict,
        ["\"accept\"", "\"refuse\"", "\"refuse\"", "\"accept\""],
        "the strict gate lifts, and does not soften"
    );
}
