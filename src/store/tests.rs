//! The API over a real socket, with real files behind it.

use super::*;
use crate::http::{Tokens, serve, tools_router};
use reqwest::{Method, StatusCode};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

const CLINIC: &str = "token-of-the-clinic";
const HOTEL: &str = "token-of-the-hotel";

/// Two tenants, `clinic` and `hotel`, and an engine that remembers what it was told.
struct Stage {
    dir: tempfile::TempDir,
    store: FileToolStore,
    base: String,
    http: reqwest::Client,
    engine: Arc<Engine>,
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// Stands in for the engine. A tool needs a description and `actions`, and nothing may be called `bad`.
#[derive(Default)]
struct Engine {
    locked: AtomicBool,
    published: Mutex<Vec<(String, Tools)>>,
}

impl ToolRegistry for Engine {
    fn check(&self, _: &str, definition: &Value) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        if !definition["description"].is_string() {
            problems.push(Problem::new("description", "is missing"));
        }
        if !definition["actions"].is_array() {
            problems.push(Problem::new("actions", "is missing"));
        }
        if definition.get("bad").is_some() {
            problems.push(Problem { hint: Some("remove it".into()), ..Problem::new("bad", "unknown field") });
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn dry_run(&self, tenant: &str, definition: Value, trial: Trial) -> Answer<Value> {
        let trace = json!({ "tenant": tenant, "actions": definition["actions"], "params": trial.params });
        Box::pin(async move { Ok(trace) })
    }

    fn publish(&self, tenant: &str, tools: Tools) {
        self.published.lock().unwrap().push((tenant.to_owned(), tools));
    }

    fn is_locked(&self, tenant: &str) -> bool {
        tenant == "clinic" && self.locked.load(Ordering::SeqCst)
    }

    fn is_used(&self, tenant: &str, name: &str) -> bool {
        (tenant, name) == ("clinic", "used_meal")
    }

    fn is_reserved(&self, name: &str) -> bool {
        name == "mcp_search"
    }
}

impl Stage {
    async fn new() -> Self {
        // An error means that another test was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let engine = Arc::new(Engine::default());
        let folders = ["clinic", "hotel"].map(|tenant| (tenant.to_owned(), dir.path().join(tenant))).into();
        let store = FileToolStore::open(folders, Arc::clone(&engine) as Arc<dyn ToolRegistry>).unwrap();
        let tokens = [("clinic", CLINIC), ("hotel", HOTEL)].map(|(tenant, token)| (tenant.to_owned(), token.into()));
        let router = tools_router(Arc::new(store.clone()), Tokens::new(tokens).unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/api/v1/tools", listener.local_addr().unwrap());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        tokio::spawn(serve(listener, router, async { drop(stopped.await) }));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { dir, store, base, http, engine, _stop: stop }
    }

    async fn ask_as(&self, token: &str, method: Method, path: &str, body: Option<Value>, tag: Option<&str>) -> Reply {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        if let Some(tag) = tag {
            request = request.header("if-match", tag);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let header = |name| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (tag, location) = (header("etag"), header("location"));
        let text = answer.text().await.unwrap();
        Reply { status, tag, location, body: serde_json::from_str(&text).unwrap_or(Value::Null) }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Reply {
        self.ask_as(CLINIC, method, path, body, None).await
    }

    async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path, None).await
    }

    async fn create(&self, definition: Value) -> Reply {
        self.ask(Method::POST, "", Some(definition)).await
    }

    fn file(&self, path: &str) -> std::path::PathBuf {
        self.dir.path().join(path)
    }
}

struct Reply {
    status: StatusCode,
    tag: Option<String>,
    location: Option<String>,
    body: Value,
}

impl Reply {
    /// Fails with what was said unless the status is this.
    #[track_caller]
    fn is(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self
    }

    fn paths(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        errors.iter().filter_map(|error| error["path"].as_str()).collect()
    }
}

fn save_meal() -> Value {
    json!({
        "name": "save_meal",
        "description": "Saves a meal of the caller",
        "parameters": [{ "name": "meal_type", "type": "string", "required": true }],
        "actions": [{ "type": "api_call", "url": "https://api.example/meals",
            "headers": { "X-Api-Key": "s3cret-key", "Authorization": "Bearer {{user.auth_token}}" } }],
        "on_success": [{ "type": "respond", "message": "Done." }],
    })
}

fn named(name: &str) -> Value {
    json!({ "name": name, "description": format!("Does {name}"), "actions": [] })
}

/// D1, D answer 29: a tool is created, shown, changed and deleted by requests alone.
#[tokio::test]
async fn a_tool_lives_from_its_creation_to_its_deletion() {
    let stage = Stage::new().await;
    let created = stage.create(save_meal()).await.is(201);
    assert_eq!(created.location.as_deref(), Some("/api/v1/tools/save_meal"));

    let shown = stage.get("/save_meal").await.is(200);
    assert_eq!(shown.body, created.body);
    assert_eq!(shown.body["name"], "save_meal");
    assert_eq!(shown.body["description"], "Saves a meal of the caller");
    let config: Vec<_> = shown.body["config"].as_object().unwrap().keys().collect();
    assert_eq!(config, ["parameters", "actions", "on_success"]);

    stage.create(save_meal()).await.is(409);

    let mut changed = save_meal();
    changed["description"] = "Saves what was eaten".into();
    let replaced = stage.ask(Method::PUT, "/save_meal", Some(changed)).await.is(204);
    assert_ne!(replaced.tag, created.tag);
    let patch = json!({ "on_success": null, "config": { "on_failure": [] } });
    stage.ask(Method::PATCH, "/save_meal", Some(patch)).await.is(204);
    let shown = stage.get("/save_meal").await.is(200);
    assert_eq!(shown.body["description"], "Saves what was eaten");
    assert!(shown.body["config"].get("on_success").is_none() && shown.body["config"]["on_failure"].is_array());
    assert_eq!(shown.body["id"], created.body["id"], "the id stays");

    stage.ask(Method::DELETE, "/save_meal", None).await.is(204);
    for method in [Method::GET, Method::DELETE] {
        stage.ask(method, "/save_meal", None).await.is(404);
    }
    for method in [Method::PUT, Method::PATCH] {
        stage.ask(method, "/save_meal", Some(named("save_meal"))).await.is(404);
    }
}

/// D1: what an agent has cannot be taken from under it: the next start would find it missing.
#[tokio::test]
async fn a_tool_that_a_context_lists_is_not_deleted() {
    let stage = Stage::new().await;
    stage.create(named("used_meal")).await.is(201);
    let refused = stage.ask(Method::DELETE, "/used_meal", None).await.is(409);
    assert!(refused.body["error"].as_str().unwrap().contains("lists this tool"), "{}", refused.body);
    stage.get("/used_meal").await.is(200);
}

/// D answer 29: `limit`, `offset` and `search`, and the total of what was found.
#[tokio::test]
async fn the_list_has_pages_and_a_search() {
    let stage = Stage::new().await;
    for name in ["cancel_visit", "book_visit", "ask_price"] {
        stage.create(named(name)).await.is(201);
    }
    let all = stage.get("").await.is(200).body;
    assert_eq!((&all["total"], &all["limit"], &all["offset"]), (&json!(3), &json!(50), &json!(0)));
    let item = all["items"][0].as_object().unwrap();
    assert!(item.keys().eq(["id", "name", "description", "created_at"]));
    assert!(item["created_at"].as_str().unwrap().parse::<Timestamp>().is_ok());
    let names = |body: &Value| -> Vec<String> {
        body["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&all), ["ask_price", "book_visit", "cancel_visit"]);
    assert_eq!(names(&stage.get("?limit=1&offset=1").await.body), ["book_visit"]);
    assert_eq!(names(&stage.get("?offset=9").await.body), [""; 0]);
    let found = stage.get("?search=VISIT&limit=1").await.body;
    assert_eq!((names(&found), &found["total"]), (vec!["book_visit".to_owned()], &json!(2)));
    assert_eq!(names(&stage.get("?search=does+ask").await.body), ["ask_price"], "descriptions are searched too");
    assert_eq!(stage.get("?limit=100000").await.body["limit"], 200);
}

/// D4: tools belong to a tenant; another tenant's do not exist for it.
#[tokio::test]
async fn tenants_do_not_see_each_others_tools() {
    let stage = Stage::new().await;
    let own = stage.create(named("book_visit")).await.is(201);
    let as_hotel = |method, path, body| stage.ask_as(HOTEL, method, path, body, None);
    as_hotel(Method::GET, "/book_visit", None).await.is(404);
    as_hotel(Method::DELETE, "/book_visit", None).await.is(404);
    as_hotel(Method::POST, "/book_visit/test", Some(json!({}))).await.is(404);
    assert_eq!(as_hotel(Method::GET, "", None).await.is(200).body["total"], 0);
    let others = as_hotel(Method::POST, "", Some(named("book_visit"))).await.is(201);
    assert_ne!(others.body["id"], own.body["id"]);
    stage.ask(Method::DELETE, "/book_visit", None).await.is(204);
    as_hotel(Method::GET, "/book_visit", None).await.is(200);
}

/// D1, D answer 29: every change is published for new calls, after it is on the disk.
#[tokio::test]
async fn each_change_publishes_all_tools_of_its_tenant() {
    let stage = Stage::new().await;
    stage.create(named("a")).await.is(201);
    stage.create(save_meal()).await.is(201);
    stage.ask(Method::PATCH, "/a", Some(json!({ "description": "x" }))).await.is(204);
    stage.create(json!({ "name": "bad" })).await.is(422);
    stage.ask(Method::DELETE, "/a", None).await.is(204);
    let published = stage.engine.published.lock().unwrap();
    let sizes: Vec<_> = published.iter().map(|(tenant, tools)| (tenant.as_str(), tools.definitions.len())).collect();
    assert_eq!(sizes, [("clinic", 1), ("clinic", 2), ("clinic", 2), ("clinic", 1)]);
    let last = &published.last().unwrap().1.definitions[0];
    assert_eq!(*last, save_meal(), "calls have the definition as it was written, with its secrets, and nothing else");
}

/// D5, D answers 1 and 29: what is wrong is refused when it is saved, with every problem and its place.
#[tokio::test]
async fn what_the_checker_refuses_is_not_kept() {
    let stage = Stage::new().await;
    let refused = stage.create(json!({ "name": "book_visit", "bad": 1 })).await.is(422);
    assert_eq!(refused.paths(), ["description", "actions", "bad"]);
    assert_eq!(refused.body["errors"][2]["hint"], "remove it");
    assert_eq!(refused.body["errors"][0], json!({ "path": "description", "message": "is missing" }));
    assert!(!stage.file("clinic/book_visit.json").exists());

    stage.create(named("book_visit")).await.is(201);
    let before = fs::read(stage.file("clinic/book_visit.json")).unwrap();
    stage.ask(Method::PATCH, "/book_visit", Some(json!({ "actions": null }))).await.is(422);
    stage.ask(Method::PUT, "/book_visit", Some(json!({ "actions": [] }))).await.is(422);
    let renamed = stage.ask(Method::PUT, "/book_visit", Some(named("another"))).await.is(422);
    assert_eq!(renamed.paths(), ["name"]);
    assert_eq!(fs::read(stage.file("clinic/book_visit.json")).unwrap(), before);
}

/// D answer 29: names that are paths, built in or reserved never become files.
#[tokio::test]
async fn names_that_are_not_free_are_refused() {
    let stage = Stage::new().await;
    for name in ["hangup_call", "transfer", "mcp_search"] {
        stage.create(named(name)).await.is(409);
        stage.get(&format!("/{name}")).await.is(404);
    }
    for name in ["", "../hotel/x", "/etc/passwd", "Save", "save-meal", "a.b", "..", "tool\0"] {
        assert_eq!(stage.create(named(name)).await.is(422).paths(), ["name"], "{name:?}");
    }
    stage.create(json!({ "name": 7 })).await.is(422);
    stage.create(json!([])).await.is(422);
    for path in ["/..%2Fhotel%2Fx", "/%2e%2e", "/Save"] {
        stage.get(path).await.is(404);
    }
    assert_eq!(fs::read_dir(stage.file("clinic")).unwrap().count(), 0);
}

/// P answer 11, P1: while the registry is locked, changes answer conflict; reading goes on.
#[tokio::test]
async fn a_locked_registry_answers_conflict_to_every_change() {
    let stage = Stage::new().await;
    stage.create(named("a")).await.is(201);
    stage.engine.locked.store(true, Ordering::SeqCst);
    stage.create(named("b")).await.is(409);
    stage.ask(Method::PUT, "/a", Some(named("a"))).await.is(409);
    stage.ask(Method::PATCH, "/a", Some(json!({}))).await.is(409);
    stage.ask(Method::DELETE, "/a", None).await.is(409);
    stage.get("/a").await.is(200);
    stage.ask(Method::POST, "/a/test", Some(json!({}))).await.is(200);
    stage.ask_as(HOTEL, Method::POST, "", Some(named("a")), None).await.is(201);
    stage.engine.locked.store(false, Ordering::SeqCst);
    stage.ask(Method::DELETE, "/a", None).await.is(204);
}

/// D answer 29: two editors who cross each other: the second is told instead of undoing the first.
#[tokio::test]
async fn a_change_meant_for_another_version_is_refused() {
    let stage = Stage::new().await;
    let first = stage.create(named("a")).await.is(201).tag;
    assert_eq!(stage.get("/a").await.tag, first);
    let patch = |text: &str| Some(json!({ "description": text }));
    let ask = |method, body, tag| stage.ask_as(CLINIC, method, "/a", body, tag);
    let second = ask(Method::PATCH, patch("one"), first.as_deref()).await.is(204).tag;
    ask(Method::PATCH, patch("two"), first.as_deref()).await.is(412);
    ask(Method::PUT, Some(named("a")), first.as_deref()).await.is(412);
    ask(Method::DELETE, None, first.as_deref()).await.is(412);
    assert_eq!(stage.get("/a").await.body["description"], "one");
    ask(Method::DELETE, None, second.as_deref()).await.is(204);
}

/// D answer 26: no answer holds a written-out secret, and a client may send back what it was shown.
#[tokio::test]
async fn secrets_stay_in_the_file() {
    let stage = Stage::new().await;
    let created = stage.create(save_meal()).await.is(201);
    let shown = stage.get("/save_meal").await.is(200);
    for reply in [&created, &shown] {
        assert!(!reply.body.to_string().contains("s3cret-key"), "{}", reply.body);
    }
    let headers = &shown.body["config"]["actions"][0]["headers"];
    assert_eq!(*headers, json!({ "X-Api-Key": "***", "Authorization": "Bearer {{user.auth_token}}" }));

    stage.ask(Method::PUT, "/save_meal", Some(shown.body.clone())).await.is(204);
    assert!(fs::read_to_string(stage.file("clinic/save_meal.json")).unwrap().contains("s3cret-key"));

    let mut moved = shown.body.clone();
    moved["config"]["actions"][0]["url"] = "https://evil.example/".into();
    let refused = stage.ask(Method::PUT, "/save_meal", Some(moved)).await.is(422);
    assert_eq!(refused.paths(), ["actions[0].headers.X-Api-Key"]);
    stage.create(json!({ "name": "copy", "config": shown.body["config"] })).await.is(422);
}

/// D answer 29: the dry run has the definition as it is kept.
#[tokio::test]
async fn a_dry_run_gives_the_trace() {
    let stage = Stage::new().await;
    stage.create(save_meal()).await.is(201);
    let body = json!({ "params": { "meal_type": "lunch" } });
    let trace = stage.ask(Method::POST, "/save_meal/test", Some(body)).await.is(200).body;
    assert_eq!((&trace["tenant"], &trace["params"]["meal_type"]), (&json!("clinic"), &json!("lunch")));
    stage.ask(Method::POST, "/nothing/test", None).await.is(404);
    assert_eq!(stage.engine.published.lock().unwrap().len(), 1, "a dry run changes nothing");
}

/// D1: what an operator writes by hand is a tool like any other.
#[tokio::test]
async fn hand_written_files_are_read_and_changed() {
    let stage = Stage::new().await;
    let yaml =
        "# by hand\ndescription: Tells the hours\nparameters: []\nactions:\n  - type: respond\n    message: \"no\"\n";
    fs::write(stage.file("clinic/opening_hours.yaml"), yaml).unwrap();
    let shown = stage.get("/opening_hours").await.is(200);
    assert_eq!(shown.body["config"]["actions"][0]["message"], "no");
    stage.create(named("opening_hours")).await.is(409);
    let created_at = stage.get("").await.body["items"][0]["created_at"].clone();
    stage.ask(Method::PATCH, "/opening_hours", Some(json!({ "description": "x" }))).await.is(204);
    assert!(stage.file("clinic/opening_hours.json").exists() && !stage.file("clinic/opening_hours.yaml").exists());
    assert_eq!(stage.get("").await.body["items"][0]["created_at"], created_at);
}

/// D1: one broken file spoils nothing else, is told, and can be set right from outside.
#[tokio::test]
async fn broken_files_are_told_and_can_be_replaced() {
    let stage = Stage::new().await;
    stage.create(named("good")).await.is(201);
    fs::write(stage.file("clinic/broken.json"), "{").unwrap();
    fs::write(stage.file("clinic/copied.json"), named("good").to_string()).unwrap();
    fs::write(stage.file("clinic/hangup_call.yaml"), "description: mine").unwrap();
    fs::write(stage.file("clinic/My Tool.yaml"), "description: mine").unwrap();
    let tools = stage.store.tools("clinic").unwrap();
    assert_eq!(tools.definitions.len(), 1);
    let files: BTreeSet<_> = tools.unreadable.iter().map(|(file, _)| file.as_str()).collect();
    assert_eq!(files, ["My Tool.yaml", "broken", "copied", "hangup_call"].into());

    assert_eq!(stage.get("").await.is(200).body["total"], 1);
    stage.get("/broken").await.is(500);
    stage.create(named("broken")).await.is(409);
    stage.ask(Method::PATCH, "/broken", Some(json!({}))).await.is(500);
    stage.ask(Method::PUT, "/broken", Some(named("broken"))).await.is(204);
    stage.get("/broken").await.is(200);
    stage.ask(Method::DELETE, "/copied", None).await.is(204);
    assert!(!stage.file("clinic/copied.json").exists());
}

/// D answer 29: changes at once are made one after the other, and the last publication has them all.
#[tokio::test]
async fn changes_at_once_do_not_lose_each_other() {
    let stage = Stage::new().await;
    let names: Vec<_> = (0..20).map(|number| format!("tool_{number}")).collect();
    let replies = futures_util::future::join_all(names.iter().map(|name| stage.create(named(name)))).await;
    assert!(replies.into_iter().all(|reply| reply.status == StatusCode::CREATED));
    let sizes: Vec<_> =
        stage.engine.published.lock().unwrap().iter().map(|(_, tools)| tools.definitions.len()).collect();
    assert_eq!(sizes, (1..=20).collect::<Vec<_>>());
    let same = futures_util::future::join_all((0..5).map(|_| stage.create(named("same")))).await;
    assert_eq!(same.iter().filter(|reply| reply.status == StatusCode::CREATED).count(), 1);
}

#[tokio::test]
async fn a_tenant_has_a_limited_number_of_tools() {
    let stage = Stage::new().await;
    for number in 0..TOOLS_MAX {
        fs::write(stage.file(&format!("clinic/tool_{number}.json")), "{}").unwrap();
    }
    stage.create(named("one_more")).await.is(409);
}

#[test]
fn two_tenants_cannot_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    fs::create_dir(dir.path().join("tools")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("tools"), &link).unwrap();
    let open = |path: &Path| {
        FileToolStore::open(
            [("a".to_owned(), dir.path().join("tools")), ("b".to_owned(), path.into())].into(),
            Arc::new(Engine::default()),
        )
    };
    assert!(matches!(open(&link), Err(OpenError::Shared(..))));
    assert!(matches!(open(Path::new("/proc/nothing")), Err(OpenError::Folder(..))));
}

/// A reload brings tenants, and takes and moves them; a change waits until it is through.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_that_a_reload_brings_can_be_changed_at_once() {
    let stage = Stage::new().await;
    let folder = |name: &str| (name.to_owned(), stage.dir.path().join(name));
    let tool = |name: &str| json!({ "name": name, "description": "A test.", "actions": [] });
    let hold = stage.store.hold();
    let waits = tokio::spawn(stage.store.create("hotel", tool("waits")));
    let shared = [folder("clinic"), ("hotel".to_owned(), folder("clinic").1)];
    assert!(matches!(hold.move_to(shared.into()), Err(OpenError::Shared(..))));
    assert_eq!(stage.store.tenants(), ["clinic", "hotel"], "what cannot be opened moves nothing");
    hold.move_to([("hotel".to_owned(), stage.dir.path().join("moved")), folder("zoo")].into()).unwrap();
    assert!(!waits.is_finished());
    drop(hold);
    waits.await.unwrap().unwrap();
    assert!(stage.dir.path().join("moved/waits.json").exists() && !stage.dir.path().join("hotel/waits.json").exists());
    assert_eq!(stage.store.tenants(), ["hotel", "zoo"]);
    stage.store.create("zoo", tool("feed")).await.unwrap();
    assert!(stage.dir.path().join("zoo/feed.json").exists());
    assert!(matches!(stage.store.create("clinic", tool("late")).await, Err(StoreError::Storage)));
}
