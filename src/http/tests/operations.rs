//! Providers, MCP servers and the engine itself, on the page and by the API.

use super::{access::Desk, *};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

async fn page(desk: &Desk, role: Role, path: &str) -> String {
    let login = desk.log_in(role).await;
    let answer = ask(&desk.router, Method::GET, path, &[("cookie", &login.cookie)]).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}");
    answer.text
}

async fn act(desk: &Desk, path: &str, form: &str) -> Answer {
    let login = desk.log_in(Role::Admin).await;
    desk.post(path, &[("cookie", &login.cookie), FORM], format!("csrf={}&{form}", login.csrf)).await
}

#[tokio::test]
async fn providers_show_their_health_what_callers_waited_and_what_they_cost() {
    let page = page(&Desk::new(), Role::Viewer, "/providers").await;
    for shown in
        ["in use", "left alone", "≤ 1 s", "≤ 2 s", "(stalled 2)", "12.35 USD", "sales, night (fallback)", "3:07"]
    {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(page.contains("&lt;night&gt;") && !page.contains("<night>"), "names stay text");
    // A pipeline of which one service is left alone.
    for shown in [
        r#"listener <strong>ears</strong> <span class="soft">deepgram_listen</span> <span class="tag provider">left alone</span>"#,
        r#"model <strong>house</strong> <span class="soft">openai_chat</span> <span class="tag normal">in use</span>"#,
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
}

#[tokio::test]
async fn mcp_servers_show_their_tools_and_an_admin_tries_one() {
    let desk = Desk::new();
    let viewer = page(&desk, Role::Viewer, "/mcp").await;
    assert!(viewer.contains("mcp_clock_now") && viewer.contains("another tool has the name"), "{viewer}");
    assert!(!viewer.contains(r#"value="clock""#), "viewers have no button");
    assert!(page(&desk, Role::Admin, "/mcp").await.contains(r#"value="clock""#));
    let tried = act(&desk, "/mcp", "server=clock").await;
    assert_eq!(tried.status, StatusCode::OK);
    assert!(tried.text.contains("The server answers.") && tried.text.contains("The time."), "{}", tried.text);
    for (server, status, why) in [
        ("nobody", StatusCode::NOT_FOUND, "There is no MCP server of this name"),
        ("busy", StatusCode::CONFLICT, "Another test of this server is under way"),
    ] {
        let refused = act(&desk, "/mcp", &format!("server={server}")).await;
        assert_eq!((refused.status, refused.text.contains(why)), (status, true), "{}", refused.text);
    }
    assert_eq!(act(&desk, "/mcp", "").await.status, StatusCode::BAD_REQUEST);
}

/// Its test calls would disturb those of another one.
#[tokio::test]
async fn an_admin_has_the_installation_examined_one_at_a_time() {
    let desk = Desk::new();
    let found = act(&desk, "/system/examine", "").await;
    assert_eq!(found.status, StatusCode::OK);
    for part in ["a test call is heard both ways", "the clocks differ by 3 s", "run a time service on both"] {
        assert!(found.text.contains(part), "{part}: {}", found.text);
    }
    let place = |part: &str| found.text.find(part);
    assert!(place("the clocks differ") < place("heard both ways"), "what is wrong stands first: {}", found.text);
    let page = page(&desk, Role::Viewer, "/system").await;
    assert!(page.contains("10.0.0.5:8088") && page.contains("Stasis(offhook)"), "{page}");
    let fresh = r#"<div id="checks" data-fresh="/system"><section class="checks""#;
    assert!(page.contains(fresh), "the place that scripts keep fresh: {page}");
    let hold = Arc::new(Notify::new());
    let desk = Desk::with(|site| site.view = Arc::new(Sample { hold: Some(Arc::clone(&hold)), ..Sample::default() }));
    let login = desk.log_in(Role::Admin).await;
    let headers = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)];
    let ask_once = || ask(&desk.router, Method::POST, "/api/v1/system/examine", &headers);
    let (first, second) = tokio::join!(ask_once(), async {
        let second = ask_once().await;
        hold.notify_one();
        second
    });
    assert_eq!((first.status, second.status), (StatusCode::OK, StatusCode::CONFLICT), "{}", second.text);
    assert_eq!(first.json()[1]["grade"], "warning");
}

/// Whoever gave up would otherwise let the next one's test calls come between those that are still under way.
#[tokio::test]
async fn an_examination_that_nobody_waits_for_any_more_still_keeps_the_next_one_out() {
    for path in ["/api/v1/system/examine", "/api/v1/system/media-test"] {
        let hold = Arc::new(Notify::new());
        let sample = Arc::new(Sample { hold: Some(Arc::clone(&hold)), ..Sample::default() });
        let desk = Desk::with(|site| site.view = sample.clone());
        let login = desk.log_in(Role::Admin).await;
        let headers = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)];
        let ask_once = || ask(&desk.router, Method::POST, path, &headers);
        let begun = async |count| {
            while sample.examinations.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            answer = ask_once() => panic!("{path}: it is held: {}", answer.text),
            () = begun(1) => {}
        }
        let second = tokio::select! {
            answer = ask_once() => Some(answer.status),
            () = begun(2) => None,
        };
        assert_eq!(second, Some(StatusCode::CONFLICT), "{path}: the first goes on");
        hold.notify_one();
        let again = async {
            while ask_once().await.status == StatusCode::CONFLICT {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = again => panic!("{path}: it is held"),
            () = begun(2) => {}
        }
    }
}

#[tokio::test]
async fn an_admin_has_the_audio_paths_tested_and_sees_each_direction() {
    let desk = Desk::new();
    let told = act(&desk, "/system/media-test", "").await;
    assert_eq!(told.status, StatusCode::OK);
    for part in ["rtp/ulaw", "21.4 ms", "1.5 %", "-15.3 dBov", "not heard", "let this machine reach Asterisk"] {
        assert!(told.text.contains(part), "{part}: {}", told.text);
    }
    let login = desk.log_in(Role::Admin).await;
    let headers = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)];
    let told = ask(&desk.router, Method::POST, "/api/v1/system/media-test", &headers).await.json();
    assert_eq!((&told["ok"], &told["calls"][0]["grade"]), (&false.into(), &"problem".into()));
    assert_eq!(told["calls"][0]["from_caller"]["delay_ms"], 21.4);
    assert_eq!(told["calls"][0]["to_caller"]["loss_percent"], 100.0);
}

#[tokio::test]
async fn an_admin_loads_the_configuration_anew_and_sees_what_changed_or_all_that_is_wrong() {
    let desk = Desk::new();
    let done = act(&desk, "/system", "action=reload").await;
    assert!(done.status == StatusCode::OK && done.text.contains("context sales"), "{}", done.text);
    let problems = vec!["offhook.yaml:3: a.b: no such <key>".to_owned(), "offhook.yaml:9: c: missing".to_owned()];
    *desk.engine.reload.lock().unwrap() = Err(ReloadFailure { problems });
    let refused = act(&desk, "/system", "action=reload").await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.text.contains("a.b: no such &lt;key&gt;") && refused.text.contains("c: missing"));
}

#[tokio::test]
async fn an_admin_has_the_engine_rest_and_take_calls_again() {
    let desk = Desk::new();
    for (action, draining, button) in [("drain", true, "Take calls again"), ("take", false, "Take no new calls")] {
        assert_eq!(act(&desk, "/system", &format!("action={action}")).await.status, StatusCode::SEE_OTHER);
        assert_eq!(desk.engine.draining.load(Ordering::SeqCst), draining);
        assert!(page(&desk, Role::Admin, "/system").await.contains(button));
    }
    assert!(!page(&desk, Role::Operator, "/system").await.contains("Take no new calls"));
    let unknown = act(&desk, "/system", "action=explode").await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_same_is_there_for_programs() {
    let desk = Desk::new();
    let token = format!("Bearer {}", access::TOKEN);
    let get = async |path: &str| ask(&desk.router, Method::GET, path, &[("authorization", &token)]).await.json();
    assert_eq!(get("/api/v1/providers").await["main"]["figures"]["losses"], json!({ "stalled": 2 }));
    let ears = json!({ "section": "stt", "name": "ears", "kind": "deepgram_listen", "state": "left_alone" });
    assert_eq!(get("/api/v1/providers").await["ill"]["services"][0], ears);
    assert_eq!(get("/api/v1/mcp").await["servers"]["clock"]["restarts"], 2);
    let system = get("/api/v1/system").await;
    assert_eq!((&system["calls_max"], &system["media"][0]["most"]), (&json!(50), &json!(100)));
    assert_eq!(system["asterisk"]["lost"], 2);
    assert!(get("/api/v1/log").await["lines"].is_array());
    let audit = get("/api/v1/audit?tenant=clinic").await;
    let tools: Vec<_> = audit["lines"].as_array().unwrap().iter().map(|line| &line["audit"]["toolId"]).collect();
    assert_eq!(tools, ["book", "made_up"]);
    let json = [("authorization", &*token), ("content-type", "application/json")];
    let taken = desk.post("/api/v1/calls/taken", &json, json!({ "taken": false }).to_string()).await;
    assert_eq!((taken.status, taken.json()), (StatusCode::OK, json!({ "taken": false })));
    assert!(desk.engine.draining.load(Ordering::SeqCst));
    let wrong = desk.post("/api/v1/calls/taken", &json, json!({ "take": false }).to_string()).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
}
