//! Action servers that die and come back: programs, and servers with a thread of their own, in real time.

use super::*;
use crate::kit::tied::free_ports;
use tempfile::TempDir;
use tokio::runtime;

/// V5, V answer 6: a command of the configuration runs the tools of telephone calls; one that dies in the middle of a call is an
/// action that failed, and runs the next ones when it has been started again.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_dies_in_the_middle_of_a_call_runs_the_next_action() {
    let script = offhook_kit::project().join("tests/kit/mcp/faulty.py");
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
    /// `port`: the test's own, which one that has just died may still hold.
    async fn at(port: u16, answers: bool) -> (Self, Calls) {
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
        let own = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        own.spawn(async move { axum::serve(TcpListener::from_std(listener).unwrap(), router).await });
        (Self(Some(own)), calls)
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
    let port = free_ports(1);
    let (mortal, calls) = Mortal::at(port, false).await;
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
    let (_reborn, calls) = Mortal::at(port, true).await;
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
