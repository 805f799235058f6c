//! What somebody tries who should not be here.

use super::{
    access::{Desk, Login, PASSWORD, TOKEN},
    *,
};
use crate::{http::serve::serve, records::Sqlite, telemetry::LogCapture};

#[tokio::test(start_paused = true)]
async fn who_guesses_passwords_is_slowed_down_and_the_log_holds_nothing_that_was_typed() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let desk = Desk::new();
    let mut refused = 0;
    for attempt in 0..30 {
        let answer = desk.try_log_in("admin", &format!("guess number {attempt}")).await;
        refused += usize::from(answer.status == StatusCode::UNAUTHORIZED);
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            assert!(answer.headers.contains_key("retry-after"));
        }
    }
    assert_eq!(refused, 10, "ten guesses are answered, and no more at once");
    assert_eq!(desk.try_log_in("admin", PASSWORD).await.status, StatusCode::TOO_MANY_REQUESTS);
    // It is not for ever.
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(desk.try_log_in("admin", PASSWORD).await.status, StatusCode::OK);
    let log = capture.lines().join("\n");
    assert!(log.contains("refused") && !log.contains("guess") && !log.contains(PASSWORD), "{log}");
}

/// Whoever guesses at the admin's name has the admin's attempts nowhere but where they are themselves.
#[tokio::test(start_paused = true)]
async fn who_guesses_at_a_name_keeps_its_owner_out_nowhere_else() {
    let desk = Desk::with(|site| site.public_url = Some("http://voice.example.com".into()));
    let attempt = async |from: &str, password: &str| {
        let body = json!({ "name": "admin", "password": password }).to_string();
        let headers = [("content-type", "application/json"), ("x-forwarded-for", from)];
        desk.post("/api/v1/login", &headers, body).await.status
    };
    let mut tried = 0;
    for _ in 0..30 {
        tried += usize::from(attempt("10.0.0.1", "a wrong password").await == StatusCode::UNAUTHORIZED);
    }
    assert_eq!(tried, 10);
    assert_eq!(attempt("10.0.0.1", PASSWORD).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(attempt("10.0.1.1", PASSWORD).await, StatusCode::OK);
}

/// Guesses from everywhere, after a restart: nobody is known to the engine, but the owner's browser knows it.
#[tokio::test(start_paused = true)]
async fn guesses_from_everywhere_keep_the_owner_out_neither_of_a_browser_of_theirs_nor_of_the_machine() {
    let desk = || Desk::with(|site| site.public_url = Some("http://voice.example.com".into()));
    let json = ("content-type", "application/json");
    let body = |password: &str| json!({ "name": "admin", "password": password }).to_string();
    let first = desk().post("/api/v1/login", &[json, ("x-forwarded-for", "10.0.0.1")], body(PASSWORD)).await;
    let cookies: Vec<&str> =
        first.headers.get_all("set-cookie").iter().map(|cookie| cookie.to_str().unwrap()).collect();
    let mark = cookies.iter().find(|cookie| cookie.contains("_known=")).expect("the browser is marked");
    let mark = ("cookie", mark.split(';').next().unwrap());
    let desk = desk();
    let attempt = async |headers: &[(&str, &str)], password: &str| {
        desk.post("/api/v1/login", &[&[json], headers].concat(), body(password)).await.status
    };
    for number in 0..60 {
        attempt(&[("x-forwarded-for", &format!("10.1.{number}.1"))], "a wrong password").await;
    }
    let elsewhere = ("x-forwarded-for", "10.2.0.1");
    assert_eq!(attempt(&[elsewhere], PASSWORD).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        attempt(&[elsewhere, ("cookie", "offhook_15000_known=forged")], PASSWORD).await,
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(attempt(&[elsewhere, mark], PASSWORD).await, StatusCode::OK);
    assert_eq!(attempt(&[], PASSWORD).await, StatusCode::OK, "at the machine");
}

#[tokio::test]
async fn unknown_names_are_refused_in_the_same_words() {
    let desk = Desk::new();
    let [known, unknown, endless] =
        [("admin", "a wrong password"), ("nobody", PASSWORD), ("admin", &"x".repeat(5_000))];
    let known = desk.try_log_in(known.0, known.1).await;
    for (name, password) in [unknown, endless] {
        let answer = desk.try_log_in(name, password).await;
        assert_eq!((answer.status, &answer.text), (StatusCode::UNAUTHORIZED, &known.text));
    }
}

#[tokio::test]
async fn a_forged_session_is_nobodys() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Admin).await;
    let (name, id) = login.cookie.split_once('=').unwrap();
    for forged in [
        format!("{name}="),
        format!("{name}={}", &id[1..]),
        format!("{name}={id}A"),
        format!("{name}={}", login.csrf),
        format!("offhook_15001={id}"),
        format!("__Host-{name}={id}"),
        format!("{name}={}", "A".repeat(7_000)),
    ] {
        let answer = ask(&desk.router, Method::GET, "/api/v1/session", &[("cookie", &forged)]).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{forged}");
    }
    let among_others = format!("a=b; {}; c", login.cookie);
    assert_eq!(
        ask(&desk.router, Method::GET, "/api/v1/session", &[("cookie", &among_others)]).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn what_changes_something_needs_the_sessions_token_from_our_own_pages() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    let id = desk.engine.calls.active[0].call.id;
    let path = format!("/api/v1/live/{id}/hangup");
    let cookie = ("cookie", &*login.cookie);
    let (csrf, wrong) = (("x-csrf-token", &*login.csrf), ("x-csrf-token", "A"));
    let other = desk.log_in(Role::Operator).await;
    for headers in [
        &[cookie][..],
        &[cookie, wrong],
        &[cookie, ("x-csrf-token", &*other.csrf)],
        &[cookie, csrf, ("origin", "https://evil.example")],
        &[cookie, csrf, ("origin", "null")],
        &[cookie, csrf, ("sec-fetch-site", "cross-site")],
        &[cookie, csrf, ("sec-fetch-site", "same-site")],
        &[cookie, csrf, ("host", "evil.example"), ("origin", "http://evil.example")],
    ] {
        let answer = ask(&desk.router, Method::POST, &path, headers).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}");
    }
    assert!(desk.engine.hung_up.lock().unwrap().is_empty());
    let own = [cookie, csrf, ("origin", "http://127.0.0.1:15000"), ("sec-fetch-site", "same-origin")];
    assert_eq!(ask(&desk.router, Method::POST, &path, &own).await.status, StatusCode::ACCEPTED);
    assert_eq!(*desk.engine.hung_up.lock().unwrap(), [id]);
}

#[tokio::test]
async fn forms_need_it_too() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    let id = desk.engine.calls.active[0].call.id;
    let path = format!("/live/{id}/hangup");
    let headers = [("cookie", &*login.cookie), ("content-type", "application/x-www-form-urlencoded")];
    for body in [String::new(), "csrf=".into(), "csrf=A".into(), format!("crsf={}", login.csrf)] {
        assert_eq!(desk.post(&path, &headers, body).await.status, StatusCode::FORBIDDEN);
    }
    let plain = [headers[0], ("content-type", "text/plain")];
    assert_eq!(desk.post(&path, &plain, format!("csrf={}", login.csrf)).await.status, StatusCode::FORBIDDEN);
    let long = format!("csrf={}&more={}", login.csrf, "x".repeat(20_000));
    assert_eq!(desk.post(&path, &headers, long).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(desk.engine.hung_up.lock().unwrap().is_empty());
    let done = desk.post(&path, &headers, format!("csrf={}", login.csrf)).await;
    assert_eq!((done.status, desk.engine.hung_up.lock().unwrap().len()), (StatusCode::SEE_OTHER, 1));
}

/// Another site's page could otherwise log the operator in as somebody else.
#[tokio::test]
async fn nobody_is_logged_in_by_another_sites_page() {
    let desk = Desk::new();
    let body = json!({ "name": "admin", "password": PASSWORD }).to_string();
    let json_type = ("content-type", "application/json");
    for from in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let answer = desk.post("/api/v1/login", &[json_type, from], body.clone()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        let form = "name=admin&password=correct+horse+battery".to_owned();
        let kind = ("content-type", "application/x-www-form-urlencoded");
        assert_eq!(desk.post("/login", &[kind, from], form).await.status, StatusCode::FORBIDDEN);
    }
    // What a page may send without asking is not taken for JSON.
    assert_eq!(
        desk.post("/api/v1/login", &[("content-type", "text/plain")], body).await.status,
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
}

#[tokio::test]
async fn bad_input_gets_a_sentence_and_never_a_failure() {
    let desk = Desk::new();
    drop(Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap());
    let login = desk.log_in(Role::Admin).await;
    let session = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)];
    for odd in ["%ff", "%22", "%22%20OR%20%22", "!!!", "*", "NEAR(", "%F0%9F%8E%89"] {
        let answer = ask(&desk.router, Method::GET, &format!("/api/v1/calls?words={odd}"), &session).await;
        assert_eq!(answer.status, StatusCode::OK, "{odd}: {}", answer.text);
    }
    let long = "x".repeat(5_000);
    for path in [
        "/assets/../../../etc/passwd",
        "/assets/..%2f..%2fetc%2fpasswd",
        "/assets/page.css",
        "/history/..%2f..%2fetc%2fpasswd",
        "/history/00000000",
        "/api/v1/calls/%00",
        "/api/v1/calls/../../../etc/passwd",
        "/api/v1/calls/00000000000000000000000000000000",
        "/api/v1/calls/%ff%fe",
        "/api/v1/calls?cursor=-1",
        "/api/v1/calls?cursor=99999999999999999999",
        "/api/v1/calls?cursor=1%20OR%201=1",
        "/api/v1/calls?limit=0",
        "/api/v1/calls?limit=1001",
        "/api/v1/calls?limit=many",
        "/api/v1/calls?since=tomorrow",
        "/api/v1/calls?since=99999-01-01",
        "/api/v1/calls?format=xml",
        "/api/v1/calls?nonsense=1",
        "/api/v1/calls?context=a&context=b",
        "/api/v1/calls?words=%00",
        &format!("/api/v1/calls?words={long}"),
        &format!("/api/v1/calls/{long}"),
        "/api/v1/live/nobody/events",
        &format!("/api/v1/live/{}/events", CallId::random()),
        "/live/nobody",
        "/history?limit=x",
        "/history?since=never",
    ] {
        let answer = ask(&desk.router, Method::GET, path, &session).await;
        assert!(answer.status.is_client_error(), "{path}: {} {}", answer.status, answer.text);
        assert!(!answer.text.contains("root:"), "{path}");
        if path.starts_with("/api") {
            assert!(answer.json()["error"].as_str().is_some_and(|error| error.len() > 10), "{path}: {}", answer.text);
        }
    }
    let nobody = CallId::random();
    for (method, path) in
        [(Method::DELETE, format!("/api/v1/calls/{nobody}")), (Method::POST, format!("/api/v1/live/{nobody}/hangup"))]
    {
        assert_eq!(ask(&desk.router, method, &path, &session).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let json_type = ("content-type", "application/json");
    for body in ["", "{", "[]", "{\"name\": 1}", "null", &format!("\"{}\"", "x".repeat(20_000)), &"[".repeat(5_000)] {
        let status = desk.post("/api/v1/login", &[json_type], body.to_owned()).await.status;
        assert!(status.is_client_error(), "{body:.20} {status}");
    }
}

#[tokio::test]
async fn names_with_markup_stay_text_on_the_page() {
    const MARKUP: &str = "<img src=x onerror=alert(1)>";
    let mut engine = Sample::default();
    engine.calls.active = vec![active(MARKUP)];
    engine.calls.recent[0].call.provider = MARKUP.into();
    engine.readiness.providers = Check::failed(MARKUP);
    let desk = Desk::with(|site| site.view = Arc::new(engine));
    let login = desk.log_in(Role::Viewer).await;
    let page = ask(&desk.router, Method::GET, "/", &[("cookie", &*login.cookie)]).await;
    assert!(!page.text.contains("<img"), "{}", page.text);
    assert_eq!(page.text.matches("&lt;img src=x onerror=alert(1)&gt;").count(), 3);
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
}

/// As a page that is open, or a program that watches.
#[tokio::test]
async fn strangers_without_end_do_not_close_the_connection_of_somebody_who_is_known() {
    let desk = Desk::new();
    let accounts = Arc::new(Accounts::new(&desk.folder.path().join("accounts.json")));
    let token = SecretString::from(TOKEN);
    let router = super::super::router(site(desk.engine.clone(), accounts, None, Some(&token)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve(listener, router, std::future::pending()));
    let mut known = TcpStream::connect(address).await.unwrap();
    let mut ask = async || {
        let request =
            format!("GET /api/v1/session HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
        known.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with('}') {
            answer.push(char::from(known.read_u8().await.expect("the connection is open")));
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    ask().await;
    let mut strangers = Vec::new();
    for _ in 0..150 {
        strangers.push(TcpStream::connect(address).await.unwrap());
    }
    let mut last = strangers.pop().unwrap();
    last.write_all(b"GET /live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "all of them have come in: {answer}");
    ask().await;
    server.abort();
}

/// Event streams that a login can open until it is refused.
async fn watch(desk: &Desk, login: &Login) -> Vec<Response<Body>> {
    let mut open = Vec::new();
    loop {
        let request = Request::get("/api/v1/events").header("host", "localhost").header("cookie", &*login.cookie);
        let answer = desk.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        if answer.status() != StatusCode::OK {
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            return open;
        }
        open.push(answer);
    }
}

#[tokio::test]
async fn those_who_watch_are_bounded_in_number_and_viewers_leave_places_for_admins() {
    let desk = Desk::new();
    let mut open = Vec::new();
    for (role, most) in [(Role::Viewer, 16), (Role::Operator, 8)] {
        let more = watch(&desk, &desk.log_in(role).await).await;
        assert_eq!(more.len(), most, "{role:?}: 16 of one account, 24 of all but admins");
        open.extend(more);
    }
    let admin = desk.log_in(Role::Admin).await;
    let more = watch(&desk, &admin).await;
    assert_eq!(more.len(), 8, "32 in all");
    open.clear();
    assert_eq!(watch(&desk, &admin).await.len(), 8, "places are free again, 16 for this account");
}
