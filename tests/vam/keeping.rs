//! What is said in a session goes nowhere that its residency keeps it from, whichever kind of tool would take it there.

use super::*;
use crate::kit::own_process;
use tempfile::TempDir;
use uuid::Uuid;

/// An engine whose agent calls a tool of an MCP server by `http` and a tool that makes a request, both at somebody's who counts.
/// `word`: what the operator says of both tools.
async fn engine(folder: &TempDir, residency: &str, word: &str) -> (Engine, Calls) {
    // A name, which may lead anywhere: what is written as an address of this machine is one.
    engine_with_a_server_at("localhost", folder, residency, word).await
}

async fn engine_with_a_server_at(host: &str, folder: &TempDir, residency: &str, word: &str) -> (Engine, Calls) {
    let (uri, calls) = action_server().await;
    let port = uri.trim_start_matches("http://127.0.0.1:").trim_end_matches("/mcp").to_owned();
    std::fs::create_dir(folder.path().join("tools")).unwrap();
    let request = json!({
        "name": "tell_market", "description": "Tells the market.",
        "actions": [{
            "type": "api_call", "method": "POST", "url": uri,
            "body": { "id": 1, "method": "tools/call", "params": { "name": "by_request" } },
        }],
    });
    std::fs::write(folder.path().join("tools/tell_market.json"), request.to_string()).unwrap();
    let call = |tool: &str| {
        format!("{{ call: {{ tool: {tool}, arguments: {{}} }} }}, {{ tone: {{ hertz: 440, for: 400ms }} }}")
    };
    let agents = format!(
        "mcp: {{ servers: {{ far: {{ transport: http, url: \"http://{host}:{port}/mcp\" }} }} }}\n\
         tenants: {{ farm: {{ tools: tools, allowed_hosts: [\"127.0.0.1:{port}\"] }} }}\n\
         providers: {{ asks: {{ scripted: {{ script: [{}, {}, silence] }} }} }}\n\
         tools: {{ mcp_far_lookup: {{ access: public_read{word} }}, tell_market: {{ access: public_read{word} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tenant: farm, tools: [mcp_far_lookup, tell_market] }} }}\n",
        call("mcp_far_lookup"),
        call("tell_market"),
    );
    let vam = format!(", sessions: {{ context: farm, hosted: on_prem }}{residency}");
    let engine = super::engine(folder.path(), &vam, &agents).await;
    engine.tools_there("farm", PATIENCE).await;
    (engine, calls)
}

/// A session that asks for this.
fn asks_for(residency: &str) -> Value {
    json!([{ "method": "Converse", "silence": 3, "session": {
        "session_id": Uuid::new_v4().to_string(), "auth_token": TOKEN, "data_residency": residency,
        "audio_profile": { "codec": "AUDIO_CODEC_PCM_8K_16" },
    } }])
}

async fn ended_so(engine: &Engine, outcome: &str, times: usize) {
    for tool in ["mcp_far_lookup", "tell_market"] {
        until(engine, &format!("offhook_tool_calls_total{{outcome=\"{outcome}\",tool=\"{tool}\"}} {times}")).await;
    }
}

/// V19, V45: a session that keeps what is said in India or on the premises keeps it from MCP servers and from services of
/// declarative tools of which nobody said that they are there; and where the operator's own rule is such a one, every session does.
#[test]
fn nothing_that_is_said_leaves_by_another_kind_of_tool() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, calls) = engine(&folder, ", residency: india_only", "").await;
        let rules =
            ["DATA_RESIDENCY_ON_PREM", "DATA_RESIDENCY_INDIA_ONLY", "DATA_RESIDENCY_UNSPECIFIED", "DATA_RESIDENCY_ANY"];
        for (index, rule) in rules.into_iter().enumerate() {
            let told = ask(&engine, asks_for(rule)).await.remove(0);
            assert_eq!(told["code"], "OK", "{rule}: {told}");
            ended_so(&engine, "refused", index + 1).await;
        }
        assert_eq!(*calls.lock().unwrap(), Vec::<Value>::new(), "nobody was asked");
        engine.stop().await;
    });
}

/// V19, V45: the operator's word lets a tool have what is said, as far as it goes; and where neither the operator nor the session
/// keeps it here, every tool has it.
#[test]
fn the_operators_word_of_a_tool_counts_as_far_as_it_goes() {
    virtual_time::run(|| async {
        for (residency, word, asked, runs) in [
            ("", ", residency: india_only", "DATA_RESIDENCY_INDIA_ONLY", true),
            ("", ", residency: india_only", "DATA_RESIDENCY_ON_PREM", false),
            ("", "", "DATA_RESIDENCY_ANY", true),
            (", residency: any", "", "DATA_RESIDENCY_ANY", true),
        ] {
            let folder = TempDir::new().unwrap();
            let (engine, calls) = engine(&folder, residency, word).await;
            let told = ask(&engine, asks_for(asked)).await.remove(0);
            assert_eq!(told["code"], "OK", "{asked}: {told}");
            ended_so(&engine, if runs { "done" } else { "refused" }, 1).await;
            assert_eq!(calls.lock().unwrap().len(), if runs { 2 } else { 0 }, "{asked}");
            engine.stop().await;
        }
    });
}

/// V19, V45: what is asked of a server on this machine is on the premises, so no proxy that the environment names sees it. The test
/// runs itself again in such an environment.
#[test]
fn a_server_on_this_machine_is_asked_through_no_proxy() {
    const SELF: &str = "a_server_on_this_machine_is_asked_through_no_proxy";
    if own_process::is_alone(module_path!(), SELF) {
        return virtual_time::run(|| async {
            let folder = TempDir::new().unwrap();
            let (engine, calls) = engine_with_a_server_at("127.0.0.1", &folder, "", "").await;
            let told = ask(&engine, asks_for("DATA_RESIDENCY_ON_PREM")).await.remove(0);
            assert_eq!(told["code"], "OK", "{told}");
            until(&engine, "offhook_tool_calls_total{outcome=\"done\",tool=\"mcp_far_lookup\"} 1").await;
            assert_eq!(calls.lock().unwrap().len(), 1);
            engine.stop().await;
        });
    }
    let proxied = || async {
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", proxy.local_addr().unwrap());
        let mut alone = own_process::command(module_path!(), SELF);
        alone.envs(["http_proxy", "HTTP_PROXY", "ALL_PROXY"].map(|name| (name, &address)));
        alone.env_remove("no_proxy").env_remove("NO_PROXY");
        tokio::select! {
            ended = alone.output() => own_process::assert_passed(&ended.unwrap()),
            _ = proxy.accept() => panic!("the proxy is asked"),
        }
    };
    virtual_time::run(|| virtual_time::real_time(proxied));
}
