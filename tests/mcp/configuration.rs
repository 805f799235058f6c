//! The configuration as the document has it, and what follows from it in a running engine.

use super::{
    desk::*,
    kit::offhook::{Launch, Offhook, Place},
};
use offhook::{
    config::{self, McpTransport},
    gate::Category,
    mcp::State,
    provider,
    tool::{Registry, built_in, mcp::Speech},
};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// M25, M27, M32, M45: every key that the document has is read, `${VAR}` is put in, and a context lists exposed names
/// among those of built-in tools; what is not listed is not among its tools.
#[tokio::test]
async fn the_document_s_configuration_is_read_and_its_names_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!(
        "providers: {{ a: {{ scripted: {{ script: [silence] }} }} }}
default_context: demo_mcp
contexts:
  demo_mcp: {{ prompt: Test, provider: a, tools: [mcp_say, mcp_aviation_atis_sum, hangup_call] }}
  other: {{ prompt: Test, provider: a, tools: [hangup_call] }}
mcp:
  enabled: true
  servers:
    Aviation-ATIS:
      transport: stdio
      command: [python3, {:?}, plain]
      env: {{ FAULTY_LOG: faulty.log, METNO_USER_AGENT: \"${{USER_AGENT}}\" }}
      restart: {{ enabled: true, max_restarts: 7, backoff_ms: 1500 }}
      defaults:
        timeout_ms: 9000
        slow_response_threshold_ms: 1700
        slow_response_message: One moment.
        access: public_read
      tools:
        - {{ name: echo, expose_as: mcp_say, description: Says it., speech_field: text, speech_template: 'You said {{text}}' }}
        - name: sum
        - name: pid
",
        support("faulty.py")
    );
    let path = folder.path().join("offhook.yaml");
    std::fs::write(&path, yaml).unwrap();
    let environment = |name: &str| (name == "USER_AGENT").then(|| "offhook-test".to_owned());
    let config =
        config::load(&path, &environment, provider::catalog()).unwrap_or_else(|problems| panic!("{problems:?}"));
    let missing = config::load(&path, &|_| None, provider::catalog()).unwrap_err();
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    assert!(missing.iter().any(|problem| problem.contains("USER_AGENT")), "{missing:?}");

    let server = &config.mcp.servers["aviation_atis"];
    assert!(config.mcp.enabled && server.enabled);
    let McpTransport::Stdio { program, args, env, .. } = &server.transport else { panic!("{server:?}") };
    assert_eq!((program.as_str(), args.len()), ("python3", 2));
    assert_eq!(env["METNO_USER_AGENT"].expose_secret(), "offhook-test");
    let ms = Duration::from_millis;
    assert_eq!((server.restart.enabled, server.restart.max, server.restart.backoff), (true, 7, ms(1500)));
    assert_eq!((server.defaults.timeout, server.defaults.access), (ms(9000), Some(Category::PublicRead)));
    let announce = server.announce.as_ref().unwrap();
    assert_eq!((announce.after, announce.text.as_str()), (ms(1700), "One moment."));
    let echo = &server.tools["echo"];
    let (field, template) = (Some("text".to_owned()), Some("You said {text}".to_owned()));
    assert_eq!(echo.speech, Speech { field, template });
    assert_eq!((echo.expose_as.as_deref(), echo.description.as_deref()), (Some("mcp_say"), Some("Says it.")));

    let desk = Desk::of(config, folder);
    desk.until("aviation_atis", State::Up).await;
    let hangup = built_in("hangup_call", &BTreeMap::new()).unwrap();
    let offer = &desk.fleet.offers(&desk.config.mcp)[0];
    let (guests, _) = offer.tools(&std::collections::BTreeSet::new());
    let guests = guests.into_iter().map(|guest| guest.tool);
    let (registry, _) = Registry::with_guests([hangup], guests, |_| {}).unwrap();
    let of = |context: &str| {
        let tools = &desk.config.contexts[context].tools;
        Arc::new(registry.toolbox(tools.iter().map(String::as_str)))
    };
    let names = |context: &str| of(context).specs().iter().map(|spec| spec.name.clone()).collect::<Vec<_>>();
    assert_eq!(names("demo_mcp"), ["hangup_call", "mcp_aviation_atis_sum", "mcp_say"]);
    assert_eq!(names("other"), ["hangup_call"]);
    assert!(registry.has("mcp_aviation_atis_pid") && !of("demo_mcp").has("mcp_aviation_atis_pid"));
    let spec = registry.spec("mcp_say").unwrap();
    assert_eq!((spec.description.as_str(), spec.timeout), ("Says it.", ms(9000)));
    let (message, _) = done(call(&of("demo_mcp"), "mcp_aviation_atis_sum", json!({ "a": 2, "b": 40 })).await);
    assert_eq!(message, "I've fetched the result.");
    desk.fleet.stop().await;
}

/// A running engine without an Asterisk, with these servers and contexts.
struct Engine {
    offhook: Offhook,
    base: String,
}

impl Engine {
    async fn start(rest: &str) -> Self {
        let place = Place::free();
        let base = place.yaml(None);
        let launch = Launch { log: "trace", ..Launch::default() };
        let offhook = Offhook::launch(place, &format!("{base}{rest}"), launch).await;
        Self { offhook, base }
    }

    async fn reload(&self, rest: &str) {
        self.offhook.write_config(&format!("{}{rest}", self.base));
        let (status, body) = self.offhook.post("reload").await;
        assert_eq!(status, 200, "{body}");
    }

    async fn servers(&self) -> Value {
        self.offhook.json("mcp/status").await["servers"].clone()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let servers = self.servers().await;
            if is_so(&servers) {
                return servers;
            }
            assert!(Instant::now() < until, "not {what}: {servers:#}\n{}", self.offhook.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

const CONTEXTS: &str = "providers: { a: { scripted: { script: [silence] } } }\n\
                        contexts: { a: { prompt: Test, provider: a, tools: [hangup_call] } }\n";

/// M7, M8, M39, M43: servers are added, changed and taken away by a reload, without a restart of the engine; what is not
/// in the file is not there.
#[tokio::test]
async fn servers_are_added_changed_and_removed_by_a_reload() {
    let engine = Engine::start(CONTEXTS).await;
    assert_eq!(engine.servers().await, json!({}));
    let with = |more: &str| format!("{CONTEXTS}mcp: {{ servers: {{ one: {} }} }}\n", faulty("plain", more));
    engine.reload(&with("")).await;
    let servers = engine.until("up", |servers| servers["one"]["state"] == "up").await;
    let tool = |servers: &Value, name: &str| {
        let tools = servers["one"]["tools"].as_array().cloned().unwrap_or_default();
        tools.into_iter().find(|tool| tool["name"] == name).unwrap_or_default()
    };
    engine.until("registered", |servers| tool(servers, "echo")["registered"] == true).await;
    assert_eq!(tool(&servers, "echo")["exposed_name"], "mcp_one_echo");

    engine.reload(&with(", tools: [{ name: echo, expose_as: say }]")).await;
    engine
        .until("changed", |servers| {
            let echo = tool(servers, "echo");
            servers["one"]["state"] == "up" && echo["exposed_name"] == "say" && echo["registered"] == true
        })
        .await;

    engine.reload(CONTEXTS).await;
    assert_eq!(engine.servers().await, json!({}));
}

/// M3, M10: a schema that a context's provider cannot be told is left out of that context, with the reason; the server's
/// other tools are there, and another context has it.
#[tokio::test]
async fn a_schema_that_no_provider_carries_is_left_out_with_its_reason() {
    let yaml = format!(
        "default_context: real\nproviders:\n  ai: {{ openai_realtime: {{ api_key: key-of-the-test }} }}\n  \
         a: {{ scripted: {{ script: [silence] }} }}\ncontexts:\n  \
         real: {{ prompt: Test, provider: ai, tools: [mcp_odd_narrow, mcp_odd_echo, hangup_call] }}\n  \
         mine: {{ prompt: Test, provider: a, tools: [mcp_odd_narrow] }}\n\
         mcp: {{ servers: {{ odd: {} }} }}\n",
        faulty("schemas", "")
    );
    let engine = Engine::start(&yaml).await;
    let servers = engine.until("registered", |servers| servers["odd"]["tools"][0]["registered"] == true).await;
    let tool = |name: &str| {
        let tools = servers["odd"]["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap().clone()
    };
    let reason = tool("narrow")["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("contexts.real: openai_realtime cannot be told this tool: parameters."), "{reason}");
    assert!(reason.ends_with(": is nested deeper than 10 levels"), "{reason}");
    assert_eq!((tool("narrow")["registered"].clone(), tool("echo")["reason"].clone()), (json!(true), Value::Null));
}

/// M33, M36: whatever a server sends, even at the most talkative level, its secrets are in no line of the engine's log.
#[tokio::test]
async fn no_secret_of_a_server_is_in_the_engine_s_log() {
    let secret = "hunter2-of-the-test";
    let yaml = format!(
        "{CONTEXTS}mcp: {{ servers: {{ leaky: {{ command: [python3, {:?}, stderr-secret], env: {{ SECRET_VALUE: {secret} }} }} }} }}\n",
        support("faulty.py")
    );
    let engine = Engine::start(&yaml).await;
    engine.until("up", |servers| servers["leaky"]["state"] == "up").await;
    for told in ["connecting with ***", "a message with ***"] {
        engine.offhook.wait_logged(told).await;
    }
    assert!(!engine.offhook.log().contains(secret), "{}", engine.offhook.log());
}

/// M1, M3: who saves a tool of a tenant takes no tool of a server away from new calls.
#[tokio::test]
async fn a_saved_tool_leaves_the_tools_of_servers_where_they_are() {
    let token = "token-of-the-test-0123456789";
    let yaml = format!(
        "{CONTEXTS}tenants: {{ shop: {{ tools: tools, tokens: [{token}] }} }}\n\
         mcp: {{ servers: {{ one: {} }} }}\n",
        faulty("plain", "")
    );
    let engine = Engine::start(&yaml).await;
    let is_registered = |servers: &Value| servers["one"]["tools"][0]["registered"] == true;
    engine.until("registered", is_registered).await;
    let tool = json!({ "name": "greet", "description": "Greets.", "actions": [] });
    let (status, body) = engine.offhook.request("POST", "api/v1/tools", token, Some(&tool)).await;
    assert_eq!(status, 201, "{body}");
    let servers = engine.servers().await;
    assert!(is_registered(&servers), "{servers:#}");
}

/// M42, M43: what a context lists and the server, which is up, has not is told in the log and on the page, as is what the
/// file names among the server's tools.
#[tokio::test]
async fn a_tool_that_the_server_has_not_is_told() {
    let entry = faulty("plain", "");
    let named = faulty("plain", ", tools: [{ name: echo }, { name: ecco }]");
    let contexts = CONTEXTS.replace("[hangup_call]", "[mcp_one_echo, mcp_one_nosuch, hangup_call]");
    let yaml = format!("{contexts}mcp: {{ servers: {{ one: {entry}, two: {named} }} }}\n");
    let engine = Engine::start(&yaml).await;
    let both_up = |servers: &Value| servers["one"]["state"] == "up" && servers["two"]["state"] == "up";
    engine.until("up", both_up).await;
    let servers = engine.until("missing", |servers| servers["one"]["missing"] == json!(["mcp_one_nosuch"])).await;
    assert_eq!(servers["two"]["missing"], Value::Null, "{servers:#}");
    let has_reason = |servers: &Value| {
        let tools = servers["two"]["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().any(|tool| tool["name"] == "ecco" && tool["registered"] == false && tool["reason"].is_string())
    };
    engine.until("told", has_reason).await;
    // The page looks for itself; the log is written where the tools are taken over.
    engine.offhook.wait_logged("its MCP server has none of that name").await;
    let log = engine.offhook.log();
    let line = log.lines().find(|line| line.contains("its MCP server has none of that name")).unwrap_or_default();
    assert!(line.contains("mcp_one_nosuch"), "{log}");
}
