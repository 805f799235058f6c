use super::{trials::TRIALS_AT_ONCE, *};
use crate::http::tests::router as pages;
use axum::{
    body::{Body, to_bytes},
    http::{Method, Request},
};
use std::sync::Mutex;
use tower::ServiceExt as _;

const TOKEN: &str = "0123456789abcdef";

/// Tells which tenant was asked for, and fails as it was told to.
#[derive(Default)]
struct Scripted {
    tenants: Mutex<Vec<String>>,
    fails: Mutex<Option<StoreError>>,
    /// A dry run never ends.
    hangs: bool,
}

impl Scripted {
    fn answer<T: Send + 'static>(&self, tenant: &str, value: T) -> Answer<T> {
        self.tenants.lock().unwrap().push(tenant.to_owned());
        let fails = self.fails.lock().unwrap().clone();
        Box::pin(async move { fails.map_or(Ok(value), Err) })
    }
}

fn tool() -> StoredTool {
    StoredTool {
        id: uuid::Uuid::nil(),
        name: "save_meal".into(),
        description: "Saves".into(),
        created_at: "2026-11-20T08:00:00Z".parse().unwrap(),
        config: [("actions".to_owned(), json!([]))].into_iter().collect(),
        version: "v1".into(),
    }
}

impl ToolStore for Scripted {
    fn list(&self, tenant: &str) -> Answer<Vec<StoredTool>> {
        self.answer(tenant, vec![tool()])
    }
    fn get(&self, tenant: &str, _: &str) -> Answer<StoredTool> {
        self.answer(tenant, tool())
    }
    fn create(&self, tenant: &str, _: Value) -> Answer<StoredTool> {
        self.answer(tenant, tool())
    }
    fn replace(&self, tenant: &str, _: &str, _: Value, _: Seen) -> Answer<StoredTool> {
        self.answer(tenant, tool())
    }
    fn patch(&self, tenant: &str, _: &str, _: Value, _: Seen) -> Answer<StoredTool> {
        self.answer(tenant, tool())
    }
    fn delete(&self, tenant: &str, _: &str, _: Seen) -> Answer<()> {
        self.answer(tenant, ())
    }
    fn tenants(&self) -> Vec<String> {
        vec!["clinic".into()]
    }
    fn try_out(&self, tenant: &str, _: Value, trial: Trial) -> Answer<Value> {
        self.test(tenant, "", trial)
    }
    fn test(&self, tenant: &str, _: &str, trial: Trial) -> Answer<Value> {
        if self.hangs {
            return Box::pin(std::future::pending());
        }
        self.answer(tenant, json!({ "live": trial.live, "params": trial.params }))
    }
}

fn api(store: &Arc<Scripted>) -> Router {
    let tokens = Tokens::new([("clinic".to_owned(), TOKEN.into())]).unwrap();
    tools_router(Arc::clone(store) as Arc<dyn ToolStore>, tokens)
}

async fn ask(router: &Router, method: &str, path: &str, token: Option<&str>, body: &str) -> (StatusCode, Value) {
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let answer = router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    assert_eq!(answer.headers()[header::CACHE_CONTROL], "no-store");
    let status = answer.status();
    let text = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (status, if text.is_empty() { Value::Null } else { serde_json::from_slice(&text).expect("answers are JSON") })
}

const ALL: [(&str, &str); 7] = [
    ("GET", "/api/v1/tools"),
    ("POST", "/api/v1/tools"),
    ("GET", "/api/v1/tools/save_meal"),
    ("PUT", "/api/v1/tools/save_meal"),
    ("PATCH", "/api/v1/tools/save_meal"),
    ("DELETE", "/api/v1/tools/save_meal"),
    ("POST", "/api/v1/tools/save_meal/test"),
];

/// D answer 29: the token names the tenant; without one, nothing is asked of the store.
#[tokio::test]
async fn every_request_needs_a_token_and_the_token_names_the_tenant() {
    let store = Arc::new(Scripted::default());
    let api = api(&store);
    for (method, path) in ALL {
        for token in [None, Some(""), Some("0123456789abcdeg"), Some("0123456789abcdef0")] {
            let (status, answer) = ask(&api, method, path, token, "{}").await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path} {token:?}");
            assert!(answer["error"].is_string());
        }
    }
    assert!(store.tenants.lock().unwrap().is_empty());
    for (method, path) in ALL {
        let (status, _) = ask(&api, method, path, Some(TOKEN), "{}").await;
        assert!(status.is_success(), "{method} {path}");
    }
    assert_eq!(*store.tenants.lock().unwrap(), ["clinic"; ALL.len()]);
}

/// D answer 29: there is no default token.
#[tokio::test]
async fn without_configured_tokens_nobody_is_let_in() {
    let store: Arc<dyn ToolStore> = Arc::new(Scripted::default());
    let api = tools_router(store, Tokens::new([]).unwrap());
    for token in [None, Some(""), Some(TOKEN)] {
        assert_eq!(ask(&api, "GET", "/api/v1/tools", token, "").await.0, StatusCode::UNAUTHORIZED);
    }
}

/// D answer 29, P answer 11: each refusal has its status and says why.
#[tokio::test]
async fn each_refusal_of_the_store_has_its_status() {
    let store = Arc::new(Scripted::default());
    let api = api(&store);
    for (error, status) in [
        (StoreError::NotFound, 404),
        (StoreError::Exists, 409),
        (StoreError::Locked, 409),
        (StoreError::Full, 409),
        (StoreError::Used, 409),
        (StoreError::Changed, 412),
        (StoreError::Unreadable, 500),
        (StoreError::Storage, 500),
    ] {
        *store.fails.lock().unwrap() = Some(error);
        let (given, answer) = ask(&api, "PUT", "/api/v1/tools/save_meal", Some(TOKEN), "{}").await;
        assert_eq!(given.as_u16(), status);
        assert!(answer["error"].as_str().is_some_and(|text| text.len() > 10), "{answer}");
    }
    let problem = Problem { hint: Some("did you mean url?".into()), ..Problem::new("actions[0].ulr", "unknown field") };
    *store.fails.lock().unwrap() = Some(StoreError::Invalid(vec![problem, Problem::new("name", "is missing")]));
    let (status, answer) = ask(&api, "POST", "/api/v1/tools", Some(TOKEN), "{}").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer["errors"][0]["hint"], "did you mean url?");
    assert_eq!(answer["errors"][1], json!({ "path": "name", "message": "is missing" }));
}

#[tokio::test]
async fn what_cannot_be_read_says_so() {
    let store = Arc::new(Scripted::default());
    let api = api(&store);
    let long = format!("\"{}\"", "x".repeat(BODY_BYTES_MAX));
    let deep = "[".repeat(10_000);
    for (method, path, body, status) in [
        ("POST", "/api/v1/tools", "{oops", 400),
        ("POST", "/api/v1/tools", "", 400),
        ("POST", "/api/v1/tools", deep.as_str(), 400),
        ("POST", "/api/v1/tools", long.as_str(), 413),
        ("PUT", "/api/v1/tools/a", "nope", 400),
        ("POST", "/api/v1/tools/a/test", r#"{"parms":{}}"#, 400),
        ("POST", "/api/v1/tools/a/test", r#"{"live":"yes"}"#, 400),
        ("GET", "/api/v1/tools?limit=-1", "", 400),
        ("GET", "/api/v1/tools?limit=many", "", 400),
        ("GET", "/api/v1/tools/%ff", "", 404),
        ("POST", "/api/v1/tools/a", "{}", 405),
        ("DELETE", "/api/v1/tools", "", 405),
    ] {
        let (given, answer) = ask(&api, method, path, Some(TOKEN), body).await;
        assert_eq!(given.as_u16(), status, "{method} {path}");
        assert!(answer["error"].is_string());
    }
    assert!(store.tenants.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_client_in_a_loop_is_slowed_down() {
    let api = api(&Arc::new(Scripted::default()));
    let mut slowed = 0;
    for _ in 0..150 {
        let (status, _) = ask(&api, "GET", "/api/v1/tools", Some(TOKEN), "").await;
        slowed += usize::from(status == StatusCode::TOO_MANY_REQUESTS);
    }
    assert!(slowed > 0, "150 requests at once went through");
}

#[tokio::test(start_paused = true)]
async fn dry_runs_are_bounded_in_number_and_time() {
    let store = Arc::new(Scripted { hangs: true, ..Scripted::default() });
    let api = api(&store);
    let path = "/api/v1/tools/save_meal/test";
    let answers =
        futures_util::future::join_all((0..TRIALS_AT_ONCE + 1).map(|_| ask(&api, "POST", path, Some(TOKEN), "")));
    let mut statuses: Vec<u16> = answers.await.iter().map(|(status, _)| status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [429, 504, 504, 504, 504]);
}

#[tokio::test]
async fn a_dry_run_is_given_what_the_body_says_and_is_not_live_by_itself() {
    let api = api(&Arc::new(Scripted::default()));
    let path = "/api/v1/tools/save_meal/test";
    assert_eq!(ask(&api, "POST", path, Some(TOKEN), "").await.1["live"], false);
    let (_, trace) = ask(&api, "POST", path, Some(TOKEN), r#"{"params":{"a":1},"live":true}"#).await;
    assert_eq!(trace, json!({ "live": true, "params": { "a": 1 } }));
}

#[test]
fn if_match_is_read_as_the_rfc_has_it() {
    let seen = |values: &[&'static str]| {
        let headers = values.iter().map(|value| (header::IF_MATCH, HeaderValue::from_static(value)));
        super::seen(&headers.collect()).unwrap_or_else(|_| panic!("{values:?}"))
    };
    assert_eq!(seen(&[]), Seen::Any);
    assert_eq!(seen(&["*"]), Seen::Any);
    assert!(seen(&["\"a\", \"b\""]).allows("b") && !seen(&["\"a\""]).allows("b"));
    assert!(!seen(&["W/\"a\""]).allows("a"), "weak tags never match");
    assert!(!seen(&["a"]).allows("a") && !seen(&[""]).allows("a"));
}

/// The API stands beside the pages: each has its own limits, and neither is the other's guard.
#[tokio::test]
async fn the_api_joins_the_pages() {
    let store = Arc::new(Scripted::default());
    let both = pages(Arc::new(super::super::tests::Sample::default()), None).merge(api(&store));
    let body = format!("{:20000}", json!({ "name": "a" }));
    assert_eq!(ask(&both, "POST", "/api/v1/tools", Some(TOKEN), &body).await.0, StatusCode::CREATED);
    assert_eq!(ask(&both, "GET", "/live", None, "").await.0, StatusCode::OK);
    assert_eq!(ask(&both, "GET", "/api/v1/nothing", None, "").await.0, StatusCode::NOT_FOUND);
}
