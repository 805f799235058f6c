//! Action servers that register, and a telephone call that runs what they brought.

use super::*;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use offhook::{
    asterisk::audiosocket::{Codec, Frame},
    telemetry::LogCapture,
};
use tempfile::TempDir;
use tokio::{net::TcpStream, runtime, time::interval};
use tokio_util::{codec::Framed, task::AbortOnDropHandle};
use uuid::Uuid;

/// An agent that asks for the price of what looks like people's numbers.
async fn engine(folder: &Path, more: &str) -> Engine {
    let arguments = json!({ "crop": PRIVATE[0], "mandi": PRIVATE[1], "state": PRIVATE[2] });
    let agents = format!(
        "providers: {{ asks: {{ scripted: {{ script: [{{ call: {{ tool: enam_mandi_price, arguments: {arguments} }} }}, silence] }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [enam_mandi_price], audiosocket_id: \"0ff40001\" }} }}\n"
    );
    super::engine(folder, more, &agents).await
}

/// A caller who says nothing; hangs up when dropped.
fn telephone(engine: &Engine) -> AbortOnDropHandle<()> {
    let address = engine.audiosocket_addr();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut id = *Uuid::new_v4().as_bytes();
        id[..4].copy_from_slice(&[0x0f, 0xf4, 0x00, 0x01]);
        let (mut says, mut hears) = Framed::new(TcpStream::connect(address).await.unwrap(), Codec).split();
        says.send(Frame::Id(Uuid::from_bytes(id))).await.unwrap();
        let mut clock = interval(Duration::from_millis(20));
        loop {
            tokio::select! {
                _ = clock.tick() => {
                    let silence = Frame::Audio { rate: 8_000, samples: Bytes::from(vec![0; 320]) };
                    if says.send(silence).await.is_err() {
                        return;
                    }
                }
                heard = hears.next() => if heard.is_none() { return },
            }
        }
    }))
}

/// V17: what servers are held to is what was published, to the letter, for each of its tools and for no other.
#[test]
fn the_registry_has_the_schemas_that_were_published() {
    let published = include_str!("../fixtures/vam/india_tool_registry.json");
    let published: Value = serde_json::from_str(published).unwrap();
    let tools = published["tools"].as_object().unwrap();
    let mut names: Vec<&str> = tools.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(india::keys().collect::<Vec<_>>(), names);
    for (name, tool) in tools {
        assert_eq!(india::canonical(name).unwrap().schema, tool["inputSchema"], "{name}");
    }
}

/// V5, V answer 6: a command of the configuration runs the tools of telephone calls; one that dies in the middle of a call is an
/// action that failed, and runs the next ones when it has been started again.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_dies_in_the_middle_of_a_call_runs_the_next_action() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kit/mcp/faulty.py");
    let commands = format!(", action_servers: {{ odd: {{ command: [python3, {script:?}, plain] }} }}");
    let call = |tool: &str, arguments: &str| format!("{{ call: {{ tool: {tool}, arguments: {arguments} }} }}");
    let echo = call("mcp_vam_odd_echo", "{ text: hello }");
    // It is started again after a second; the agent goes on asking.
    let asks = vec![format!("{{ tone: {{ hertz: 440, for: 500ms }} }}, {echo}"); 20].join(", ");
    let agents = format!(
        "providers: {{ asks: {{ scripted: {{ script: [{echo}, {}, {asks}, silence] }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [mcp_vam_odd_echo, mcp_vam_odd_die], audiosocket_id: \"0ff40001\" }} }}\n\
         tools: {{ mcp_vam_odd_echo: {{ access: public_read }}, mcp_vam_odd_die: {{ access: public_read }} }}\n",
        call("mcp_vam_odd_die", "{}"),
    );
    let folder = TempDir::new().unwrap();
    let engine = super::engine(folder.path(), &commands, &agents).await;
    let manifest =
        json!({ "server_id": "odd", "endpoint_uri": "stdio:odd", "tools": [{ "name": "echo" }, { "name": "die" }] });
    let answers =
        ask(&engine, json!([{ "method": "RegisterActionServer", "token": TOKEN, "request": manifest }])).await;
    assert_eq!(answers[0]["answer"]["registered_tools"], json!(["echo", "die"]), "{answers:?}");
    engine.tools_there("farm", PATIENCE).await;

    let caller = telephone(&engine);
    let count = |outcome: &str, tool: &str| {
        let metrics = engine.metrics().text();
        let name = format!("offhook_tool_calls_total{{outcome=\"{outcome}\",tool=\"mcp_vam_odd_{tool}\"}} ");
        let value =
            metrics.lines().find_map(|line| line.strip_prefix(&name)).map(|count| count.parse::<f64>().unwrap());
        value.unwrap_or_default()
    };
    let twice = timeout(PATIENCE, async {
        while count("done", "echo") < 2.0 {
            sleep(Duration::from_millis(20)).await;
        }
    });
    twice.await.unwrap_or_else(|_| panic!("{}", engine.metrics().text()));
    assert_eq!((count("transient", "die"), count("done", "die")), (1.0, 0.0), "{}", engine.metrics().text());
    assert!(engine.metrics().text().contains("offhook_calls_active 1"), "the same call");
    drop(caller);
    engine.stop().await;
}

/// An action server that its process takes along when this is dropped: no connection to it is left.
struct Mortal(Option<runtime::Runtime>);

impl Mortal {
    /// `port`: 0, or that of one that has just died.
    async fn at(port: u16, answers: bool) -> (Self, u16, Calls) {
        let (router, calls) = served(answers);
        let bound = timeout(PATIENCE, async {
            loop {
                match std::net::TcpListener::bind(("127.0.0.1", port)) {
                    Ok(listener) => return listener,
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
        });
        let listener = bound.await.expect("the port is free again");
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        own.spawn(async move { axum::serve(TcpListener::from_std(listener).unwrap(), router).await });
        (Self(Some(own)), port, calls)
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(runtime::Runtime::shutdown_background);
    }
}

/// V5: an action server over HTTP that dies while it is asked is an action that failed, and the call goes on; when it is there
/// again, the same call's next action is run by it.
#[tokio::test(flavor = "multi_thread")]
async fn an_http_server_that_dies_in_the_middle_of_a_call_runs_the_next_action() {
    let folder = TempDir::new().unwrap();
    let call = |note: usize| format!("{{ call: {{ tool: mcp_vam_market_lookup, arguments: {{ note: n{note} }} }} }}");
    // A turn has a budget of three calls; it is there again after a second.
    let asks: Vec<String> = (0..3).map(|n| format!("{}, {{ tone: {{ hertz: 440, for: 3s }} }}", call(n))).collect();
    let agents = format!(
        "providers: {{ asks: {{ scripted: {{ script: [{}, silence] }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [mcp_vam_market_lookup], audiosocket_id: \"0ff40001\" }} }}\n\
         tools: {{ mcp_vam_market_lookup: {{ access: public_read }} }}\n",
        asks.join(", ")
    );
    let engine = super::engine(folder.path(), "", &agents).await;
    let (mortal, port, calls) = Mortal::at(0, false).await;
    let registered = ask(&engine, json!([registers(&format!("http://127.0.0.1:{port}/mcp"))])).await;
    assert_eq!(registered[0]["answer"]["success"], true, "{registered:?}");
    engine.tools_there("farm", PATIENCE).await;
    let caller = telephone(&engine);
    let asked = timeout(PATIENCE, async {
        while calls.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    asked.await.expect("the call runs its tool");
    drop(mortal);
    until(&engine, "offhook_tool_calls_total{outcome=\"transient\",tool=\"mcp_vam_market_lookup\"} 1").await;
    let (_reborn, _, calls) = Mortal::at(port, true).await;
    let again = timeout(PATIENCE, async {
        while calls.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    again.await.unwrap_or_else(|_| panic!("{}", engine.metrics().text()));
    assert!(engine.metrics().text().contains("offhook_calls_active 1"), "the same call");
    drop(caller);
    engine.stop().await;
}

/// V16: after a restart an agent has the tools of whoever had registered before, without another word of theirs.
#[tokio::test(flavor = "multi_thread")]
async fn a_telephone_call_after_a_restart_runs_a_tool_that_was_registered_before() {
    let folder = TempDir::new().unwrap();
    let (first, (uri, calls)) = (engine(folder.path(), "").await, action_server().await);
    assert_eq!(ask(&first, json!([registers(&uri)])).await[0]["answer"]["success"], true);
    first.stop().await;
    assert!(calls.lock().unwrap().is_empty());
    let second = engine(folder.path(), "").await;
    second.tools_there("farm", PATIENCE).await;
    let caller = telephone(&second);
    until(&second, "offhook_tool_calls_total{outcome=\"done\",tool=\"enam_mandi_price\"} 1").await;
    assert_eq!(calls.lock().unwrap()[0]["name"], "enam_mandi_price");
    drop(caller);
    second.stop().await;
}

/// V21, V answer 18: a tool of high sensitivity of a server that the operator has not vouched for is rejected by name, and no call
/// has it; the server's other tools are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_nobody_vouches_for_gets_no_tool_of_high_sensitivity() {
    let folder = TempDir::new().unwrap();
    let (engine, (uri, _)) = (engine(folder.path(), "").await, action_server().await);
    let mut registration = registers(&uri);
    registration["request"]["tools"] = json!([
        { "name": "pan_validate", "is_registry_tool": true }, { "name": "enam_mandi_price", "is_registry_tool": true },
    ]);
    let answer = &ask(&engine, json!([registration])).await[0]["answer"];
    assert_eq!(answer["registered_tools"], json!(["enam_mandi_price"]), "{answer}");
    assert_eq!(answer["rejected_tools"], json!(["pan_validate"]));
    assert!(answer["message"].as_str().unwrap().contains("vam.action_servers.market.high_sensitivity"), "{answer}");
    engine.tools_there("farm", PATIENCE).await;
    engine.stop().await;
}

/// V5, V14, V20, V44: an action server registers over the wire, and a telephone call runs its tool, with the arguments as
/// they are; nothing of them is in anything that the engine writes.
#[tokio::test]
async fn a_telephone_call_runs_a_tool_that_was_registered_by_grpc() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let folder = TempDir::new().unwrap();
    let (engine, (uri, calls)) = (engine(folder.path(), "").await, action_server().await);
    let answers = ask(&engine, json!([registers(&uri)])).await;
    assert_eq!(answers[0]["answer"]["registered_tools"], json!(["enam_mandi_price", "lookup"]), "{answers:?}");
    assert_eq!(answers[0]["answer"]["rejected_tools"], json!(["missing"]));
    engine.tools_there("farm", PATIENCE).await;

    let caller = telephone(&engine);
    let asked = timeout(PATIENCE, async {
        while calls.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        calls.lock().unwrap()[0].clone()
    });
    let asked = asked.await.expect("the call runs its tool");
    assert_eq!(asked["name"], "enam_mandi_price");
    assert_eq!(asked["arguments"], json!({ "crop": PRIVATE[0], "mandi": PRIVATE[1], "state": PRIVATE[2] }));
    drop(caller);
    let metrics = engine.metrics().text();
    assert!(metrics.contains("offhook_vam_action_servers 1"), "{metrics}");
    assert!(PRIVATE.iter().all(|number| !metrics.contains(number)));
    engine.stop().await;
    let kept = std::fs::read_to_string(folder.path().join("action-servers.json")).unwrap();
    assert!(PRIVATE.iter().all(|number| !kept.contains(number)));
    capture.assert_clean(&PRIVATE);
}

/// V10: a telephone call has no stream that could be told, so the log of the call is, in the same words.
#[tokio::test]
async fn an_action_of_a_telephone_call_that_times_out_is_told_in_the_log() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let folder = TempDir::new().unwrap();
    let (engine, (uri, calls)) = (engine(folder.path(), ", action_timeout: 1s").await, server_that(false).await);
    ask(&engine, json!([registers(&uri)])).await;
    engine.tools_there("farm", PATIENCE).await;
    let caller = telephone(&engine);
    let told = timeout(PATIENCE, async {
        while !capture.lines().iter().any(|line| line.contains("an action timed out")) {
            sleep(Duration::from_millis(10)).await;
        }
    });
    told.await.expect("the log tells it");
    let lines = capture.lines();
    let line = lines.iter().find(|line| line.contains("an action timed out")).unwrap();
    for word in
        ["WARN", "STREAM_ERROR_CODE_LLM_BACKEND_ERROR", "stage=\"action\"", "is_fatal=false", "enam_mandi_price"]
    {
        assert!(line.contains(word), "{word} is not in {line}");
    }
    assert_eq!(calls.lock().unwrap().len(), 1);
    assert!(engine.metrics().text().contains("offhook_vam_actions_timed_out_total 1"));
    drop(caller);
    engine.stop().await;
    capture.assert_clean(&PRIVATE);
}

/// V14: what is registered is listed, and gone when it deregisters; a restart changes nothing of either.
#[tokio::test(flavor = "multi_thread")]
async fn registrations_are_listed_and_taken_away_over_the_wire() {
    let folder = TempDir::new().unwrap();
    let (first, (uri, _)) = (engine(folder.path(), "").await, action_server().await);
    assert_eq!(ask(&first, json!([registers(&uri)])).await[0]["answer"]["success"], true);
    first.stop().await;
    let second = engine(folder.path(), "").await;
    let list = |filter: &str| json!({ "method": "ListActionServers", "token": TOKEN, "request": { "tool_name_filter": filter } });
    let gone = json!({ "method": "DeregisterActionServer", "token": TOKEN, "request": { "server_id": "market" } });
    let answers = ask_in_python(&second, None, json!([list(""), list("lookup"), list("other"), gone, gone, list("")])).await;
    let servers = |index: usize| answers[index]["answer"]["servers"].as_array().map_or(0, Vec::len);
    assert_eq!([servers(0), servers(1), servers(2), servers(5)], [1, 1, 0, 0], "{answers:?}");
    assert_eq!(answers[0]["answer"]["servers"][0]["endpoint_uri"], uri);
    assert_eq!(answers[0]["answer"]["servers"][0]["tools"][0]["registry_key"], "enam_mandi_price");
    assert_eq!(answers[3]["answer"]["success"], true);
    assert_eq!(answers[4]["answer"]["message"], "no server of this id is registered");
    second.stop().await;
}

/// Whoever has no token learns nothing, but whether the engine is up; a message that is too long is refused, and the next one
/// is served.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_comes_in_without_a_token_or_with_too_long_a_message() {
    let folder = TempDir::new().unwrap();
    let engine = engine(folder.path(), ", limits: { message_bytes: 65536 }").await;
    let with = |token: Value| json!({ "method": "ListActionServers", "token": token });
    let long =
        json!({ "method": "RegisterActionServer", "token": TOKEN, "request": { "display_name": "x".repeat(70_000) } });
    let health = json!({ "method": "Check", "request": { "service": "vani.v1.VaniActionService" } });
    let wrong = TOKEN.replace("4711", "4712");
    let requests = json!([with(Value::Null), with(wrong.into()), health, long, with(TOKEN.into())]);
    let answers = ask_in_python(&engine, None, requests).await;
    let codes: Vec<&str> = answers.iter().map(|answer| answer["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["UNAUTHENTICATED", "UNAUTHENTICATED", "OK", "OUT_OF_RANGE", "OK"], "{answers:?}");
    assert_eq!(answers[2]["answer"]["status"], 1, "it serves");
    assert!(engine.metrics().text().contains("offhook_vam_unauthenticated_total 2"));
    engine.stop().await;
}

/// With a certificate, nothing is served in the clear, and who trusts its authority is served.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_a_certificate_speaks_tls_alone() {
    let folder = TempDir::new().unwrap();
    let (key, certificate) = (folder.path().join("gateway.key"), folder.path().join("gateway.pem"));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "1", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl, which `make setup` installs");
    assert!(made.status.success(), "{}", python::words_of(&made));
    let engine = engine(folder.path(), ", tls: { certificate: gateway.pem, key: gateway.key }").await;
    let list = json!([{ "method": "ListActionServers", "token": TOKEN }]);
    assert_eq!(ask_in_python(&engine, Some(&certificate), list.clone()).await[0]["code"], "OK");
    assert_eq!(ask_in_python(&engine, None, list).await[0]["code"], "UNAVAILABLE");
    engine.stop().await;
}
