//! What goes wrong: a page in a browser's window, JSON for everybody else.

use super::{access::Desk, *};

const WINDOW: (&str, &str) = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

fn is_a_page(answer: &Answer) -> bool {
    let kind = answer.headers["content-type"].to_str().unwrap();
    kind.starts_with("text/html") && answer.text.starts_with("<!DOCTYPE html>") && !answer.text.contains("{\"error\"")
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_in_a_window_is_told_on_a_page() {
    let hold = Some(Arc::new(Notify::new()));
    let desk = Desk::with(|site| site.view = Arc::new(Sample { hold, ..Sample::default() }));
    let login = desk.log_in(Role::Admin).await;
    let (cookie, csrf) = (("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf));
    let evil = ("host", "evil.example");
    let nobody = CallId::random();
    let call = |what: &str| format!("/live/{nobody}/{what}");
    let long = format!("csrf={}&text={}", login.csrf, "x".repeat(40_000));
    for (method, path, headers, body, status, says) in [
        ("GET", "/nothing".to_owned(), vec![], String::new(), 404, "There is no such page."),
        ("GET", "/nothing".to_owned(), vec![cookie], String::new(), 404, "There is no such page."),
        ("POST", "/history".to_owned(), vec![cookie, csrf], String::new(), 405, "This address takes another method"),
        ("GET", "/login".to_owned(), vec![evil], String::new(), 403, "http.public_url"),
        ("GET", "/assets/nothing.css".to_owned(), vec![], String::new(), 404, "There is no such file."),
        ("GET", "/calls".to_owned(), vec![], String::new(), 401, "http.admin_token"),
        ("GET", "/live/nobody".to_owned(), vec![cookie], String::new(), 404, "There is no call of this id."),
        ("GET", format!("/history/{nobody}"), vec![cookie], String::new(), 503, "The archive of calls does not answer"),
        ("GET", "/history?limit=x".to_owned(), vec![cookie], String::new(), 400, "A parameter cannot be read: limit: "),
        ("POST", call("hangup"), vec![cookie, FORM], String::new(), 403, "Load the page again"),
        ("POST", call("text"), vec![cookie, FORM], long, 413, "The form is too long"),
        ("POST", call("text"), vec![cookie, csrf, FORM], "x".repeat(40_000), 413, "What was sent is too long."),
        ("POST", call("transfer"), vec![cookie, csrf, FORM], "where=x".into(), 422, "The form was not complete."),
        ("POST", call("transfer"), vec![cookie, csrf], String::new(), 415, "The form was not complete."),
        (
            "POST",
            "/system/examine".to_owned(),
            vec![cookie, csrf],
            String::new(),
            504,
            "The engine did not answer in time",
        ),
    ] {
        let all = [&headers[..], &[WINDOW]].concat();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let answer = send(&desk.router, method.clone(), &path, &all, Body::from(body)).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text);
        let told = answer.text.to_lowercase().contains(&says.to_lowercase());
        assert!(is_a_page(&answer) && told, "{method} {path}: {}", answer.text);
        assert_eq!(answer.headers["cache-control"], "no-store", "{method} {path}");
        if status == 405 {
            assert_eq!(answer.headers["allow"], "GET,HEAD");
        }
    }
    let known = ask(&desk.router, Method::GET, "/live/nobody", &[cookie, WINDOW]).await;
    assert!(
        known.text.contains("<nav") && known.text.contains("Log out"),
        "who is logged in can go on: {}",
        known.text
    );
}

#[tokio::test]
async fn programs_and_scripts_are_told_in_json() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Admin).await;
    let cookie = ("cookie", &*login.cookie);
    for (path, headers) in [
        ("/nothing", vec![]),
        ("/nothing", vec![("accept", "*/*")]),
        ("/live/nobody", vec![cookie]),
        ("/live/nobody/stream", vec![cookie, ("accept", "text/event-stream")]),
        ("/history/nobody/waveform.svg", vec![cookie, ("accept", "image/avif,image/webp,*/*;q=0.8")]),
        ("/api/v1/nothing", vec![cookie, WINDOW]),
        ("/api/v1/calls?limit=x", vec![cookie, WINDOW]),
        ("/api/v1/live", vec![WINDOW]),
    ] {
        let answer = ask(&desk.router, Method::GET, path, &headers).await;
        assert!(answer.status.is_client_error() && answer.json()["error"].is_string(), "{path}: {}", answer.text);
    }
}

/// Whoever looks at it by hand wants to see the checks.
#[tokio::test]
async fn a_report_stays_a_report() {
    let mut sample = Sample::default();
    sample.readiness.ari = Check::failed("refused");
    let answer = ask(&router(Arc::new(sample), None), Method::GET, "/ready", &[WINDOW]).await;
    assert_eq!((answer.status, &answer.json()["ready"]), (StatusCode::SERVICE_UNAVAILABLE, &json!(false)));
}
