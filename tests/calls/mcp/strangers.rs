//! Servers that other people wrote, in calls in which they are killed and hang.

use super::*;
use crate::calls::kit::processes::{Stopped, lives, signal, wait_gone};

/// Limit of every call, also of those that have to succeed: only a server that hangs may reach it.
const TIMEOUT_MS: u32 = 5_000;

/// One of those servers, and a call of it.
struct Stranger<'a> {
    id: &'a str,
    /// Program and arguments, in YAML.
    command: String,
    /// In the command line of its process.
    mark: &'a str,
    tool: &'a str,
    /// A tool that the list of its tools has besides.
    also: &'a str,
    /// Arguments that differ from call to call.
    arguments: &'a dyn Fn(usize) -> Value,
    /// Part of what the model is told.
    says: &'a str,
}

impl Stranger<'_> {
    async fn scene(&self) -> Scene {
        let Self { id, command, .. } = self;
        let entry = format!(
            "{{ command: {command}, restart: {{ backoff_ms: 3000 }}, defaults: {{ access: public_read, timeout_ms: \
             {TIMEOUT_MS} }} }}"
        );
        let tool = self.exposed();
        Scene::start(Setting { servers: &[(id, entry)], offered: &tool, ..Setting::default() }).await
    }

    fn exposed(&self) -> String {
        format!("mcp_{}_{}", self.id, self.tool.replace('-', "_"))
    }

    async fn answers(&self, scene: &Scene, number: usize) {
        let output = scene.tool(&self.exposed(), (self.arguments)(number)).await;
        assert_eq!(kind(&output), "OK", "{output}");
        assert!(output.to_string().contains(self.says), "{output}");
    }

    /// It is listed, and called in a call. Killed in the middle of the call, it cannot be asked, which the agent is told at
    /// once; then it is back in the same call. Hanging, it is given up in time, and the call goes on.
    async fn is_killed_and_hangs(&self) {
        let scene = self.scene().await;
        let status = scene.status(self.id).await;
        let tools: Vec<_> = status["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
        assert!(tools.contains(&&json!(self.tool)) && tools.contains(&&json!(self.also)), "{status}");
        let phone = scene.call("7000").await;
        self.answers(&scene, 1).await;

        let first = scene.process(self.mark);
        signal(first, "KILL");
        scene.when(self.id, "gone", |status| status["state"] != "up").await;
        let away = scene.tool(&self.exposed(), (self.arguments)(2)).await;
        assert_eq!(kind(&away), "TRANSIENT", "{away}");
        assert_eq!(scene.counted(self.id, "unavailable").await, 1.0);
        let again = scene.when(self.id, "up again", |status| is_up(status) && status["restarts"] == 1).await;
        assert_eq!(again["last_error"], Value::Null);
        self.answers(&scene, 3).await;
        let second = scene.process(self.mark);
        assert_ne!(first, second);

        let stopped = Stopped::new(second);
        let answers = scene.model.answered();
        let hung = scene.tool(&self.exposed(), (self.arguments)(4)).await;
        assert_eq!(kind(&hung), "TIMEOUT", "{hung}");
        assert!(scene.model.answered() > answers, "the agent speaks of it");
        drop(stopped);
        self.answers(&scene, 5).await;
        assert_eq!((scene.process(self.mark), scene.status(self.id).await["restarts"].clone()), (second, json!(1)));
        assert_eq!(scene.counted(self.id, "timeout").await, 1.0);
        phone.wait_to_hear(AGENT_HZ, ms(1_500), SOON).await;
        scene.ends(phone).await;
        let phone = scene.call("7000").await;
        self.answers(&scene, 6).await;
        scene.ends(phone).await;
    }
}

fn node(package: &str, arguments: &str) -> String {
    let program = built(&format!("npm/node_modules/@modelcontextprotocol/{package}/dist/index.js"));
    format!("[node, {program:?}{arguments}]")
}

fn sum(command: &str) -> Stranger<'_> {
    Stranger {
        id: "everything",
        command: command.to_owned(),
        mark: "server-everything",
        tool: "get-sum",
        also: "echo",
        arguments: &|number| json!({ "a": 40, "b": number }),
        says: "The sum of 40 and",
    }
}

/// M5, M37, M answers 6, 11: the time server, in Python.
async fn the_time_server_is_killed_and_hangs_in_a_call() {
    let zones =
        ["Europe/Berlin", "Europe/Oslo", "Europe/London", "Asia/Tokyo", "Europe/Rome", "Africa/Cairo", "Etc/UTC"];
    let stranger = Stranger {
        id: "time",
        command: format!("[{:?}, -m, mcp_server_time]", built("venv/bin/python")),
        mark: "mcp_server_time",
        tool: "get_current_time",
        also: "convert_time",
        arguments: &|number| json!({ "timezone": zones[number] }),
        says: "datetime",
    };
    stranger.is_killed_and_hangs().await;
}

/// M5, M37, M answers 6, 11: the server with everything, in Node.
async fn the_everything_server_is_killed_and_hangs_in_a_call() {
    sum(&node("server-everything", "")).is_killed_and_hangs().await;
}

/// M5, M37, M answers 6, 11: the file server, in Node.
async fn the_file_server_is_killed_and_hangs_in_a_call() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let root = folder.path().canonicalize().expect("it is there");
    for number in 0..9 {
        let file = root.join(format!("hours{number}.txt"));
        std::fs::write(file, "We open at nine.").expect("a file in the test's own directory");
    }
    let stranger = Stranger {
        id: "files",
        command: node("server-filesystem", &format!(", {root:?}")),
        mark: "server-filesystem",
        tool: "read_text_file",
        also: "write_file",
        arguments: &|number| json!({ "path": root.join(format!("hours{number}.txt")) }),
        says: "We open at nine.",
    };
    stranger.is_killed_and_hangs().await;
}

/// M37, M answers 11, 15: a server that hangs and stays so is ended and replaced by itself, while the call goes on.
async fn a_server_that_hangs_for_good_is_replaced_in_the_same_call() {
    let command = node("server-everything", "");
    let stranger = sum(&command);
    let scene = stranger.scene().await;
    let phone = scene.call("7000").await;
    stranger.answers(&scene, 1).await;
    let hanging = scene.process(stranger.mark);
    let _stopped = Stopped::new(hanging);
    assert_eq!(kind(&scene.tool(&stranger.exposed(), json!({ "a": 40, "b": 2 })).await), "TIMEOUT");
    assert!(lives(hanging));
    scene.when(stranger.id, "replaced", |status| is_up(status) && status["restarts"] == 1).await;
    wait_gone(hanging, SOON).await;
    stranger.answers(&scene, 3).await;
    scene.ends(phone).await;
}

/// M29, M answer 14: a server of somebody else sees four variables of the engine's environment and its own, no more.
async fn a_stranger_sees_no_more_of_the_environment_than_it_was_given() {
    let command = node("server-everything", "");
    let entry =
        format!("{{ command: {command}, env: {{ OWN: \"${{GIVEN}}\" }}, defaults: {{ access: public_read }} }}");
    let env = [("GIVEN", "for-the-server".to_owned()), ("OPENAI_API_KEY", "a-key-of-the-engine".to_owned())];
    let servers = [("everything", entry)];
    let offered = "mcp_everything_get_env";
    let scene = Scene::start(Setting { servers: &servers, offered, env: &env, ..Setting::default() }).await;
    let phone = scene.call("7000").await;
    let output = scene.tool(offered, no_arguments()).await;
    let seen = output["data"].as_object().unwrap_or_else(|| panic!("{output}")).clone();
    let allowed = ["PATH", "HOME", "LANG", "TZ", "OWN"];
    assert!(seen.keys().all(|name| allowed.contains(&name.as_str())), "{output}");
    assert_eq!((&seen["OWN"], seen.contains_key("PATH")), (&json!("for-the-server"), true), "{output}");
    scene.ends(phone).await;
    scene.is_private(&["for-the-server", "a-key-of-the-engine"]).await;
}

/// A server somewhere else, as far as an engine can tell: not its child, and guarded by a token.
struct Elsewhere {
    port: u16,
    child: tokio::process::Child,
}

const TOKEN: &str = "a-bearer-token-of-the-test";

impl Elsewhere {
    async fn start(port: u16) -> Self {
        let script = project().join("tests/kit/mcp/over_http.py");
        let mut child = tokio::process::Command::new(built("venv/bin/python"))
            .arg(&script)
            .args([&port.to_string(), TOKEN])
            .kill_on_drop(true)
            .spawn()
            .expect("Python runs");
        let until = Instant::now() + PATIENCE;
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(child.try_wait().expect("its own child").is_none(), "over_http.py ended");
            assert!(Instant::now() < until, "over_http.py does not listen");
            tokio::time::sleep(ASK_EVERY).await;
        }
        Self { port, child }
    }

    async fn end(mut self) -> u16 {
        self.child.kill().await.expect("it runs");
        self.port
    }
}

/// M34, M37, M answers 1, 6: a server that runs elsewhere is asked over HTTP with its token. While it is away the agent is told
/// so at once; when it is back, the same call has it again.
async fn a_server_elsewhere_goes_away_and_comes_back_in_a_call() {
    let elsewhere = Elsewhere::start(crate::calls::kit::tied::free_ports(1)).await;
    let entry = format!(
        "{{ transport: http, url: \"http://127.0.0.1:{}/mcp\", bearer_token: \"${{SHOP_TOKEN}}\", restart: {{ backoff_ms: 500 }}, \
         defaults: {{ access: public_read, timeout_ms: 3000 }} }}",
        elsewhere.port
    );
    let (servers, env) = ([("shop", entry)], [("SHOP_TOKEN", TOKEN.to_owned())]);
    let offered = "mcp_shop_opening_hours";
    let scene = Scene::start(Setting { servers: &servers, offered, env: &env, ..Setting::default() }).await;
    assert_eq!(scene.status("shop").await["transport"], "http");
    assert!(scene.children().is_empty(), "nothing is started for it");
    let phone = scene.call("7000").await;
    let output = scene.tool(offered, json!({ "day": "Monday" })).await;
    assert_eq!(message(&output), "On Monday we are open from ten to two.", "{output}");

    let port = elsewhere.end().await;
    let away = scene.tool(offered, json!({ "day": "Tuesday" })).await;
    assert_eq!(kind(&away), "TRANSIENT", "{away}");
    assert!(!away.to_string().contains(&port.to_string()), "the address is nobody's business: {away}");
    let _elsewhere = Elsewhere::start(port).await;
    scene.when("shop", "up again", |status| is_up(status) && status["restarts"] != 0).await;
    let output = scene.tool(offered, json!({ "day": "Wednesday" })).await;
    assert_eq!(message(&output), "On Wednesday we are open from ten to two.", "{output}");
    scene.ends(phone).await;
    scene.is_private(&[TOKEN, "Wednesday"]).await;
}

/// M6, M7: an engine whose file names no server starts none and asks none; calls and their built-in tools are as ever.
async fn without_a_server_in_the_file_there_is_none() {
    let scene = Scene::start(Setting { offered: "hangup_call", ..Setting::default() }).await;
    assert_eq!(scene.offhook.json("mcp/status").await["servers"], json!({}));
    let mut phone = scene.call("7000").await;
    assert_eq!(scene.shown(), ["hangup_call"]);
    assert!(scene.children().is_empty());
    scene.model.call("hangup_call", &no_arguments());
    phone.wait_ended(SOON).await;
    assert_eq!(scene.offhook.wait_end_reason(SOON).await, "agent_hung_up");
    assert_eq!(scene.offhook.post("mcp/test/anything").await.0, 404);
    assert_eq!(scene.offhook.post("reload").await.0, 200);
}

crate::scenes! {
    // MCP servers are programs of their own, which work while no clock of ours holds.
    only_real:
        the_time_server_is_killed_and_hangs_in_a_call,
        the_everything_server_is_killed_and_hangs_in_a_call,
        the_file_server_is_killed_and_hangs_in_a_call,
        a_server_that_hangs_for_good_is_replaced_in_the_same_call,
        a_stranger_sees_no_more_of_the_environment_than_it_was_given,
        a_server_elsewhere_goes_away_and_comes_back_in_a_call,
        without_a_server_in_the_file_there_is_none;
}
