//! Tools that are changed while calls run.

use super::{Scene, Setting, TENANT_TOKEN};
use crate::calls::SOON;
use serde_json::{Value, json};

const GREET: &str = r#"
name: greet
description: Greets.
actions: [{ type: respond, message: "Good morning." }]
"#;

fn greeting(words: &str) -> Value {
    json!({ "name": "greet", "description": "Greets.", "actions": [{ "type": "respond", "message": words }] })
}

async fn scene(tenant: &str) -> Scene {
    let (tools, offered) = ([("greet", GREET)], "greet, hangup_call");
    Scene::start(Setting { tools: &tools, offered, tenant, ..Setting::default() }).await
}

async fn api(scene: &Scene, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    scene.offhook.request(method, &format!("api/v1/tools{path}"), TENANT_TOKEN, body.as_ref()).await
}

/// P1, D1: a change is for the calls that begin after it.
async fn a_running_call_keeps_its_tools_and_the_next_one_has_the_new() {
    let scene = scene("").await;
    let mut phone = scene.call("7000").await;
    assert_eq!(scene.tool("greet", json!({})).await["message"], "Good morning.");
    assert_eq!(api(&scene, "PUT", "/greet", Some(greeting("Good evening."))).await.0, 204);
    scene.caller_says("Again, please.");
    assert_eq!(scene.tool("greet", json!({})).await["message"], "Good morning.", "as the call began");
    phone.hang_up().await;
    scene.offhook.wait_ended(1, SOON).await;
    let mut phone = scene.call("7000").await;
    assert_eq!(scene.tool("greet", json!({})).await["message"], "Good evening.", "the next call");

    // What a context lists has to be there, also at the next start.
    let (status, said) = api(&scene, "DELETE", "/greet", None).await;
    assert_eq!(status, 409, "{said}");
    scene.caller_says("Again, please.");
    assert_eq!(scene.tool("greet", json!({})).await["message"], "Good evening.");
    phone.hang_up().await;
    scene.offhook.wait_ended(2, SOON).await;
    // What none lists comes and goes.
    let other = json!({ "name": "other", "description": "Greets.", "actions": [] });
    assert_eq!(api(&scene, "POST", "", Some(other)).await.0, 201);
    assert_eq!(api(&scene, "DELETE", "/other", None).await.0, 204);
    assert_eq!(api(&scene, "GET", "/other", None).await.0, 404);
    // What the model of a context cannot be told is not kept.
    let mut untold = greeting("Good night.");
    untold["parameters"] = json!([{ "name": "rows", "type": "array", "items": "array" }]);
    let (status, said) = api(&scene, "PUT", "/greet", Some(untold)).await;
    assert!(status == 422 && said["errors"][0]["message"].to_string().contains("contexts.front"), "{status} {said}");
    assert_eq!(api(&scene, "PUT", "/greet", Some(greeting("Good night."))).await.0, 204);
    let mut phone = scene.call("7000").await;
    assert_eq!(scene.tool("greet", json!({})).await["message"], "Good night.");
    phone.hang_up().await;
    scene.offhook.wait_ended(3, SOON).await;
    scene.server.is_content();
}

/// P answer 11, D5: what is not a tool is told with its places, and nothing changes; locked tools do not change.
async fn a_mistake_is_told_and_locked_tools_stay() {
    let open = scene("").await;
    let mut broken = greeting("Hello.");
    broken["actions"] = json!([{ "type": "respond", "message": 5 }, { "type": "sing" }]);
    let (status, said) = api(&open, "PUT", "/greet", Some(broken)).await;
    assert_eq!(status, 422, "{said}");
    let paths: Vec<&Value> = said["errors"].as_array().expect("a list").iter().map(|error| &error["path"]).collect();
    assert_eq!(paths, ["actions[0].message", "actions[1].type"], "{said}");
    assert_eq!(api(&open, "POST", "", Some(greeting("Twice."))).await.0, 409, "the name is taken");
    let stranger = open.offhook.request("GET", "api/v1/tools", "another-token-of-nobody", None).await;
    assert_eq!(stranger.0, 401);
    let phone = open.call("7000").await;
    assert_eq!(open.tool("greet", json!({})).await["message"], "Good morning.");
    open.ends(phone).await;
    drop(open);

    let locked = scene(", locked: true").await;
    for (method, path) in [("PUT", "/greet"), ("POST", ""), ("PATCH", "/greet"), ("DELETE", "/greet")] {
        let (status, said) = api(&locked, method, path, Some(greeting("Changed."))).await;
        assert_eq!(status, 409, "{method}: {said}");
    }
    assert_eq!(api(&locked, "GET", "/greet", None).await.0, 200);
    let phone = locked.call("7000").await;
    assert_eq!(locked.tool("greet", json!({})).await["message"], "Good morning.");
    locked.ends(phone).await;
}

crate::scenes! {
    both:
        a_running_call_keeps_its_tools_and_the_next_one_has_the_new,
        a_mistake_is_told_and_locked_tools_stay;
}
