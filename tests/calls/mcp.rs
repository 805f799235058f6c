//! Tools of MCP servers in whole calls: real servers, ours and other people's, and one that misbehaves.

mod atis;
mod callers;
mod exposure;
mod faults;
mod reload;
mod slow;
mod strangers;

use crate::calls::{
    AGENT_HZ, SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::silence,
        built,
        offhook::{Launch, Offhook, Place},
        phone::Phone,
        processes::Process,
        project,
        vendor::Vendor,
    },
    ms, openai,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const NAME: &str = "Ada Lovelace";
const NUMBER: &str = "15550123";
/// For what takes a machine under load a while: a Node program that starts, a server that is given up and replaced.
const PATIENCE: Duration = Duration::from_secs(90);
/// These callers say nothing between the calls of tools, so all of them are in one turn.
const BUDGETS: &str = "{ retrieval: 50, total: 50 }";
const ASK_EVERY: Duration = Duration::from_millis(20);

/// An installation with a model and MCP servers.
struct Scene {
    model: Vendor,
    asterisk: Asterisk,
    offhook: Offhook,
}

/// What a test wants of its installation.
struct Setting<'a> {
    /// Entries of `mcp.servers`, each with its id.
    servers: &'a [(&'a str, String)],
    /// Of the context `front`, which takes calls that name no other: its prompt, and its tools by name.
    prompt: &'a str,
    offered: &'a str,
    /// More entries of `mcp.servers`, that never come up, of `providers` and of `contexts`.
    broken: &'a str,
    providers: &'a str,
    contexts: &'a str,
    env: &'a [(&'a str, String)],
}

impl Default for Setting<'_> {
    fn default() -> Self {
        let prompt = "You are a test.";
        Self { servers: &[], prompt, offered: "", broken: "", providers: "", contexts: "", env: &[] }
    }
}

/// The entry of the server that misbehaves; `more` are further keys and `defaults` further ones of that section.
fn faulty(mode: &str, defaults: &str, more: &str) -> String {
    let (python, script) = (built("venv/bin/python"), project().join("tests/kit/mcp/faulty.py"));
    format!(
        "{{ command: [{python:?}, {script:?}, {mode}], env: {{ FAULTY_LOG: {mode}.log }}, defaults: {{ access: public_read \
         {defaults} }} {more} }}"
    )
}

/// Our server for aerodromes with its samples, at a time when they were new.
fn atis(more: &str) -> String {
    let (program, file) = (built("aviation_atis"), project().join("config/aviation_atis.yaml"));
    let samples = project().join("mcp_servers/aviation_atis/samples");
    format!(
        "{{ command: [{program:?}, --config, {file:?}, --offline, {samples:?}, --now, \"2026-11-20T14:00:00Z\"], \
         defaults: {{ access: public_read }}, tools: [{{ name: get_atis, expose_as: mcp_aviation_atis, speech_field: \
         atis_text }}] {more} }}"
    )
}

impl Scene {
    async fn start(setting: Setting<'_>) -> Self {
        // The model's answers are short.
        let model = openai(ms(300)).await;
        let asterisk = Asterisk::start(Options::default()).await;
        let place = Place::free();
        let Setting { servers, prompt, offered, broken, providers, contexts, env } = setting;
        let entries: String = servers.iter().map(|(id, entry)| format!("    {id}: {entry}\n")).collect();
        let yaml = format!(
            "{}default_context: front\nproviders:\n  ai: {}\n{providers}policy: {{ budgets: {BUDGETS} }}\nmcp:\n  \
             servers:\n{entries}{broken}contexts:\n  front: {{ prompt: \"{prompt}\", \
             provider: ai, tools: [{offered}], \
             no_input: {{ after: 5m }} }}\n{contexts}",
            place.yaml(Some(&asterisk)),
            model.yaml(),
        );
        let offhook = Offhook::launch(place, &yaml, Launch { log_format: "json", env, ..Launch::default() }).await;
        offhook.wait_ready(true).await;
        let scene = Self { model, asterisk, offhook };
        for (id, _) in servers {
            scene.up(id).await;
        }
        scene
    }

    /// What `/mcp/status` says of a server.
    async fn status(&self, id: &str) -> Value {
        self.offhook.json("mcp/status").await["servers"][id].clone()
    }

    /// Waits until a server is so.
    async fn when(&self, id: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.status(id).await;
            if is_so(&status) {
                return status;
            }
            assert!(Instant::now() < until, "{id} is not {what}: {status}\n{}", self.offhook.log());
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Waits until a server is up and new calls have its tools.
    async fn up(&self, id: &str) -> Value {
        self.when(id, "up", is_up).await
    }

    /// A caller who was greeted.
    async fn call(&self, extension: &str) -> Phone {
        self.call_as(extension, NUMBER).await
    }

    async fn call_as(&self, extension: &str, number: &str) -> Phone {
        let before = self.model.answered();
        let says = silence(ms(100_000));
        let phone = Phone::call_as(self.asterisk.sip_port(), extension, says, NAME, number).await;
        self.model.has_answered(before + 1).await;
        phone.wait_to_hear(AGENT_HZ, ms(200), SOON).await;
        phone
    }

    /// The model calls a tool, gets its output, and speaks.
    async fn tool(&self, name: &str, arguments: Value) -> Value {
        self.model.uses(name, &arguments).await
    }

    /// The last session as the model was asked for it.
    fn session(&self) -> Value {
        self.model.told(self.model.sessions())[0]["session"].clone()
    }

    /// The names of the tools that the model was shown in it.
    fn shown(&self) -> Vec<String> {
        let session = self.session();
        let tools = session["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// The lines of the log with this message.
    fn lines(&self, message: &str) -> Vec<Value> {
        let log = self.offhook.log();
        offhook_kit::json_lines(&log).into_iter().filter(|line| line["message"] == message).collect()
    }

    /// How often calls of a tool ended so.
    async fn counted(&self, server: &str, status: &str) -> f64 {
        let prefix = format!("ai_agent_mcp_tool_calls_total{{server=\"{server}\",status=\"{status}\"");
        self.offhook.metric(&prefix).await
    }

    /// None of these is in the log or on a page.
    async fn is_private(&self, secrets: &[&str]) {
        let mut told = self.offhook.log();
        for page in ["", "calls", "metrics", "mcp/status"] {
            told += &self.offhook.page(page).await.1;
        }
        for secret in secrets.iter().chain(&[NAME, "key-of-the-test"]) {
            let line = told.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret:?} was told");
        }
    }

    /// What the server that misbehaves has written down in this mode.
    fn events(&self, mode: &str, event: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.offhook.folder().join(format!("{mode}.log"))).unwrap_or_default();
        offhook_kit::json_lines(&text).into_iter().filter(|line| line["event"] == event).collect()
    }

    fn children(&self) -> Vec<Process> {
        crate::calls::kit::processes::children(self.offhook.pid())
    }

    /// The only process of the engine with this in its command line.
    fn process(&self, mark: &str) -> u32 {
        crate::calls::kit::processes::child(self.offhook.pid(), mark)
    }

    /// The caller hangs up, and nothing is left of the call.
    async fn ends(&self, mut phone: Phone) {
        let before = self.offhook.json("calls").await["recent"].as_array().map_or(0, Vec::len);
        phone.hang_up().await;
        let ended = self.offhook.wait_ended(before + 1, SOON).await;
        assert_eq!(ended[0]["reason"]["label"], "caller_hung_up");
        self.asterisk.wait_empty(SOON).await;
        self.model.is_content();
    }
}

pub fn is_up(status: &Value) -> bool {
    let tools = status["tools"].as_array();
    status["state"] == "up" && tools.is_some_and(|tools| tools.iter().any(|tool| tool["registered"] == true))
}

/// The type of a failure, or `OK`.
fn kind(output: &Value) -> &str {
    output["error"]["type"].as_str().unwrap_or("OK")
}

fn pid(event: &Value) -> u32 {
    event["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process id")
}

fn message(output: &Value) -> &str {
    output["message"].as_str().or_else(|| output["error"]["message"].as_str()).unwrap_or_default()
}

fn no_arguments() -> Value {
    json!({})
}
