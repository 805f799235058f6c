//! Servers over the life of an engine: tested, reloaded, and ended.

use super::*;
use crate::calls::kit::processes::{lives, wait_gone};

fn test_of(answer: (u16, String)) -> (u16, Value) {
    (answer.0, serde_json::from_str(&answer.1).unwrap_or_default())
}

/// M8, M39, M42, M answers 12, 13: with a call active a reload waits, and says so; when the last call has ended the servers are
/// restarted. Until then the call has the tools with which it began, and a new server is up at once.
async fn a_reload_restarts_the_servers_when_no_call_is_left() {
    let servers = [("plain", faulty("plain", "", "")), ("old", faulty("garbage", "", ""))];
    let offered = "mcp_plain_echo, mcp_plain_pid, mcp_old_echo";
    let scene = Scene::start(Setting { servers: &servers, offered, ..Setting::default() }).await;
    let first = pid(&scene.events("plain", "start")[0]);
    // Nobody calls: at once.
    let (status, report) = test_of(scene.offhook.post("reload").await);
    assert_eq!((status, &report["reload_pending"]), (200, &json!(false)), "{report}");
    scene.up("plain").await;
    let starts = scene.events("plain", "start");
    assert_eq!(starts.len(), 2, "{starts:?}");
    let second = pid(&starts[1]);
    assert!(!lives(first) && lives(second));

    let phone = scene.call("7000").await;
    let yaml = scene.offhook.read_config();
    let old = format!("    old: {}\n", servers[1].1);
    let new = format!("    new: {}\n", faulty("many", "", ""));
    assert!(yaml.contains(&old) && yaml.contains("mcp_old_echo"));
    scene.offhook.write_config(&yaml.replace(&old, &new).replace("mcp_old_echo", "mcp_new_tool_0001"));
    let (status, report) = test_of(scene.offhook.post("reload").await);
    assert_eq!((status, &report["reload_pending"]), (202, &json!(true)), "{report}");
    scene.up("new").await;
    let servers = scene.offhook.json("mcp/status").await;
    assert_eq!(servers["reload_pending"], json!(true), "{servers}");
    assert_eq!(
        servers["servers"].as_object().map(|all| all.keys().map(String::as_str).collect()),
        Some(vec!["new", "plain"])
    );
    let told = scene.tool("mcp_plain_pid", no_arguments()).await;
    assert_eq!(told["data"]["pid"], json!(second), "the call's server is the same");
    assert_eq!(kind(&scene.tool("mcp_old_echo", json!({ "text": "still here" })).await), "OK");
    assert_eq!(scene.events("plain", "start").len(), 2, "nothing is restarted under a call");
    scene.ends(phone).await;

    let until = Instant::now() + PATIENCE;
    while scene.offhook.json("mcp/status").await["reload_pending"] == true || scene.events("plain", "start").len() < 3 {
        assert!(Instant::now() < until, "{}", scene.offhook.log());
        tokio::time::sleep(ASK_EVERY).await;
    }
    scene.up("plain").await;
    scene.up("new").await;
    wait_gone(second, SOON).await;
    let old = pid(&scene.events("garbage", "start")[0]);
    assert!(scene.events("garbage", "start").iter().all(|event| !lives(pid(event))), "{old} is no server any more");
    let phone = scene.call("7000").await;
    assert_eq!(scene.shown(), ["mcp_new_tool_0001", "mcp_plain_echo", "mcp_plain_pid"]);
    assert_eq!(kind(&scene.tool("mcp_old_echo", json!({ "text": "gone" })).await), "NOT_FOUND");
    assert_eq!(kind(&scene.tool("mcp_new_tool_0001", no_arguments()).await), "OK");
    let third = scene.tool("mcp_plain_pid", no_arguments()).await;
    assert_eq!(third["data"]["pid"], json!(pid(&scene.events("plain", "start")[2])));
    scene.ends(phone).await;
}

/// M43, M answer 13: a test starts an instance of its own, tells what tools it has or why it has none, calls none of them and
/// leaves nothing behind; a name that is no server's is 404.
async fn a_server_is_tested_beside_the_running_one() {
    let missing = "{ command: [no-such-program-anywhere], restart: { enabled: false } }".to_owned();
    let servers = [("plain", faulty("plain", "", ""))];
    let broken = format!("    broken: {missing}\n    quits: {}\n", faulty("exit", "", ""));
    let setting = Setting { servers: &servers, offered: "mcp_plain_pid", broken: &broken, ..Setting::default() };
    let scene = Scene::start(setting).await;
    let phone = scene.call("7000").await;
    let (status, report) = test_of(scene.offhook.post("mcp/test/plain").await);
    assert_eq!((status, &report["ok"], &report["error"]), (200, &json!(true), &Value::Null), "{report}");
    assert!(report["duration_ms"].is_number(), "{report}");
    let tools = report["tools"].as_array().expect("tools");
    let echo = tools.iter().find(|tool| tool["name"] == "echo").expect("it is told");
    assert_eq!((&echo["exposed_name"], &echo["access"]), (&json!("mcp_plain_echo"), &json!("public_read")), "{report}");
    assert_eq!(echo["arguments"], json!(["text"]), "as a model would be told of it: {report}");
    assert!(echo["description"].as_str().is_some_and(|words| !words.is_empty()), "{report}");
    let starts = scene.events("plain", "start");
    assert_eq!(starts.len(), 2);
    wait_gone(pid(&starts[1]), SOON).await;
    let told = scene.tool("mcp_plain_pid", no_arguments()).await;
    assert_eq!(told["data"]["pid"], json!(pid(&starts[0])), "the running one is not touched");

    let (status, report) = test_of(scene.offhook.post("mcp/test/broken").await);
    let error = report["error"].as_str().unwrap_or_default();
    assert_eq!((status, &report["ok"]), (200, &json!(false)), "{report}");
    assert!(error.contains("no-such-program-anywhere"), "{report}");
    let (_, report) = test_of(scene.offhook.post("mcp/test/quits").await);
    assert!(report["error"].as_str().unwrap_or_default().contains("the licence has run out"), "{report}");
    assert_eq!(scene.offhook.post("mcp/test/nobody").await.0, 404);
    scene.ends(phone).await;
}

/// M38, M answer 15: a call that is let finish keeps its tools; after the stop no server is left, neither one that
/// ignores every request to end nor what another has started.
async fn nothing_of_a_server_outlives_the_engine() {
    let servers = [
        ("plain", faulty("plain", "", "")),
        ("stubborn", faulty("stubborn", "", "")),
        ("orphan", faulty("orphan", "", "")),
    ];
    let offered = "mcp_stubborn_echo, mcp_orphan_echo";
    let mut scene = Scene::start(Setting { servers: &servers, offered, ..Setting::default() }).await;
    let mut phone = scene.call("7000").await;
    assert_eq!(kind(&scene.tool("mcp_orphan_echo", json!({ "text": "a" })).await), "OK");
    let mut all: Vec<u32> = scene.children().iter().map(|process| process.pid).collect();
    assert_eq!(all.len(), 3, "{:?}", scene.children());
    let orphan = scene.events("orphan", "orphan")[0]["orphan"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    all.push(orphan.expect("a process id"));
    assert!(all.iter().all(|&pid| lives(pid)));
    scene.offhook.signal("TERM").await;
    scene.offhook.wait_ready(false).await;
    assert_eq!(kind(&scene.tool("mcp_stubborn_echo", json!({ "text": "b" })).await), "OK");
    phone.hang_up().await;
    let status = scene.offhook.wait_exit(Duration::from_secs(20)).await;
    assert!(status.success(), "{status:?}\n{}", scene.offhook.log());
    let left: Vec<_> = all.into_iter().filter(|&pid| lives(pid)).collect();
    assert!(left.is_empty(), "processes {left:?} outlive the engine");
    // They were asked in the order that gives them time.
    assert_eq!((scene.events("plain", "eof").len(), scene.events("stubborn", "sigterm").len()), (1, 1));
}

crate::scenes! {
    // MCP servers are programs of their own, which work while no clock of ours holds.
    only_real:
        a_reload_restarts_the_servers_when_no_call_is_left,
        a_server_is_tested_beside_the_running_one,
        nothing_of_a_server_outlives_the_engine;
}
