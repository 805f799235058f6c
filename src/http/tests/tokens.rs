//! Tokens of programs: what they may do, and who makes and revokes them.

use super::{
    access::{Desk, TABLE, TOKEN, is_refused},
    *,
};
use crate::http::login::Door;

/// Addresses that may be open to programs on this machine without a token.
const LOCAL: [(Method, &str); 4] = [
    (Method::GET, "/calls"),
    (Method::POST, "/reload"),
    (Method::GET, "/mcp/status"),
    (Method::POST, "/mcp/test/{id}"),
];

fn is_local(path: &str) -> bool {
    LOCAL.iter().any(|(_, local)| *local == path)
}

/// Tells whether an address refuses programs with any token.
pub fn is_for_accounts(method: &str, path: &str) -> bool {
    method != "GET" && (path.starts_with("/api/v1/tokens") || path == "/system/tokens")
}

/// A wallboard can neither publish a configuration nor end a call.
#[tokio::test]
async fn a_token_of_a_program_may_do_what_its_role_may_and_nothing_more() {
    let id = CallId::random().to_string();
    let desk = Desk::new();
    let tokens = Role::ALL.map(|role| (role, desk.accounts.add_token(role.label(), role, None).unwrap()));
    for &(method, path, needed) in TABLE {
        let Some(needed) = needed.filter(|_| path.starts_with("/api/") || is_local(path)) else { continue };
        let place = path.replace("{id}", &id).replace("{server}", "clock").replace("{tenant}", "clinic");
        let place = place.replace("{tool}", "book_visit").replace("{token}", "nothing").replace("{kept}", "nothing");
        for (role, token) in &tokens {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let headers = [("authorization", &*format!("Bearer {token}"))];
            let may = *role >= needed && !is_for_accounts(method.as_str(), path);
            let answer = ask(&desk.router, method, &place, &headers).await;
            assert_eq!(is_refused(&answer), !may, "{path} {role}: {}", answer.text);
        }
    }
    let told = |answer: Answer| (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned());
    let bearer = |token: &str| format!("Bearer {token}");
    let viewer = bearer(&tokens[0].1);
    let refused = ask(&desk.router, Method::PUT, "/api/v1/configuration", &[("authorization", &viewer)]).await;
    assert_eq!(told(refused).1, "this token may not do this; it takes one with another role");
    let session = ask(&desk.router, Method::GET, "/api/v1/session", &[("authorization", &viewer)]).await.json();
    assert_eq!((&session["name"], &session["role"]), (&json!("token:viewer"), &json!("viewer")));
}

/// The secret is told once, and is in no log.
#[tokio::test]
async fn a_token_is_made_listed_and_revoked_by_the_api_and_on_the_page() {
    let capture = telemetry::LogCapture::new();
    let _guard = capture.start();
    let desk = Desk::new();
    let login = desk.log_in(Role::Admin).await;
    let known = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)];
    let admin = [known[0], known[1], ("content-type", "application/json")];
    let wish = json!({ "name": "wallboard", "role": "viewer" }).to_string();
    let made = desk.post("/api/v1/tokens", &admin, wish.clone()).await;
    assert_eq!((made.status, &made.json()["role"]), (StatusCode::CREATED, &json!("viewer")), "{}", made.text);
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let shown = [("authorization", &*format!("Bearer {token}"))];
    let status = async || ask(&desk.router, Method::GET, "/api/v1/live", &shown).await.status;
    assert_eq!(status().await, StatusCode::OK);
    assert_eq!(desk.post("/api/v1/tokens", &admin, wish).await.status, StatusCode::CONFLICT);
    let bad = json!({ "name": "../x", "role": "viewer" }).to_string();
    assert_eq!(desk.post("/api/v1/tokens", &admin, bad).await.status, StatusCode::UNPROCESSABLE_ENTITY);
    let listed = ask(&desk.router, Method::GET, "/api/v1/tokens", &admin).await;
    let first = &listed.json()[0];
    assert_eq!(
        (&first["name"], &first["by"], listed.text.contains(&token)),
        (&json!("wallboard"), &json!("admin"), false)
    );
    let gone = ask(&desk.router, Method::DELETE, "/api/v1/tokens/wallboard", &admin).await;
    assert_eq!((gone.status, status().await), (StatusCode::NO_CONTENT, StatusCode::UNAUTHORIZED));
    let again = ask(&desk.router, Method::DELETE, "/api/v1/tokens/wallboard", &admin).await;
    assert_eq!(again.status, StatusCode::NOT_FOUND, "{}", again.text);

    let session = [known[0], known[1], ("content-type", "application/x-www-form-urlencoded")];
    let page = desk.post("/system/tokens", &session, "action=make&name=crm&role=operator".into()).await;
    let (_, rest) = page.text.split_once("<pre><code>").unwrap();
    let second = rest.split('<').next().unwrap().to_owned();
    assert!(second.starts_with("offhook-"), "{second}");
    let system = ask(&desk.router, Method::GET, "/system", &session).await.text;
    assert!(system.contains(r#"<td data-head="Made by">admin</td>"#), "{system}");
    assert!(system.contains(r#"value="crm""#) && !system.contains(&second), "{system}");
    let page = desk.post("/system/tokens", &session, "action=revoke&name=crm".into()).await;
    assert!(
        page.text.contains("The token of crm is revoked.") && !page.text.contains(r#"value="crm""#),
        "{}",
        page.text
    );
    let log = capture.lines().join("\n");
    assert!(log.contains("a token for a program was made"), "{log}");
    assert!(!log.contains(&token[8..]) && !log.contains(&second[8..]), "{log}");
}

/// A token that leaked could otherwise leave others behind, which stay good when it is revoked.
#[tokio::test]
async fn a_token_makes_and_revokes_no_tokens() {
    let desk = Desk::new();
    let program = desk.accounts.add_token("deploy", Role::Admin, Some("admin")).unwrap();
    for token in [&*program, TOKEN] {
        let shown = format!("Bearer {token}");
        let json = [("authorization", &*shown), ("content-type", "application/json")];
        let wish = json!({ "name": "another", "role": "admin" }).to_string();
        let form = [json[0], ("content-type", "application/x-www-form-urlencoded")];
        for answer in [
            desk.post("/api/v1/tokens", &json, wish).await,
            ask(&desk.router, Method::DELETE, "/api/v1/tokens/deploy", &json[..1]).await,
            desk.post("/system/tokens", &form, "action=make&name=another&role=admin".into()).await,
            desk.post("/system/tokens", &form, "action=revoke&name=deploy".into()).await,
        ] {
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text);
            assert!(answer.text.contains("only an account that is logged in may"), "{}", answer.text);
        }
        let listed = ask(&desk.router, Method::GET, "/api/v1/tokens", &json[..1]).await;
        assert_eq!(listed.status, StatusCode::OK, "{}", listed.text);
    }
    let names: Vec<_> = desk.accounts.tokens().unwrap().into_iter().map(|token| token.name).collect();
    assert_eq!(names, ["deploy"]);
}

/// The secret of a token is lost where whoever asked for it is gone; that there is one more is in the log.
#[tokio::test]
async fn a_change_that_waits_is_logged_without_its_asker_and_others_are_told_to_try_again() {
    let capture = telemetry::LogCapture::new();
    let _guard = capture.start();
    let desk = Desk::new();
    let login = desk.log_in(Role::Admin).await;
    let (cookie, csrf) = (login.cookie.clone(), login.csrf.clone());
    let make = |name: &str| {
        let (router, cookie, csrf) = (desk.router.clone(), cookie.clone(), csrf.clone());
        let wish = json!({ "name": name, "role": "viewer" }).to_string();
        async move {
            let headers = [("cookie", &*cookie), ("x-csrf-token", &*csrf), ("content-type", "application/json")];
            send(&router, Method::POST, "/api/v1/tokens", &headers, Body::from(wish)).await
        }
    };
    let other = std::fs::File::open(desk.folder.path()).unwrap();
    other.lock().unwrap();
    let both = futures_util::future::select(Box::pin(make("crm")), Box::pin(make("wallboard")));
    let (refused, waits) = both.await.factor_first();
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{}", refused.text);
    assert!(refused.text.contains("another change of the accounts is under way"), "{}", refused.text);
    drop((waits, other));
    let told = tokio::time::timeout(Duration::from_secs(20), async {
        while !capture.lines().iter().any(|line| line.contains("a token for a program was made")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    told.await.unwrap_or_else(|_| panic!("{:?}", capture.lines()));
    assert_eq!(desk.accounts.tokens().unwrap().len(), 1);
}

#[test]
fn the_short_addresses_are_those_with_a_door_for_this_machine() {
    let accounts = Arc::new(Accounts::new(Path::new("/nowhere/accounts.json")));
    let app = crate::http::site::App::new(site(Arc::new(Sample::default()), accounts, None, None));
    let (_, listed) = crate::http::site::routes(&app).into_parts();
    let listed = listed.into_iter().filter(|address| matches!(address.door, Door::Local(_)));
    let listed: Vec<_> = listed.map(|address| (address.method, address.path)).collect();
    assert_eq!(listed, LOCAL);
}

/// Tokens of programs take the place of `http.admin_token`.
#[tokio::test]
async fn where_programs_have_tokens_none_on_this_machine_does_without() {
    let desk = Desk::with(|site| site.admin_token = None);
    let statuses = async |headers: &[(&str, &str)]| {
        let mut all = Vec::new();
        for (method, path) in LOCAL {
            all.push(ask(&desk.router, method, &path.replace("{id}", "clock"), headers).await.status);
        }
        all
    };
    assert_eq!(statuses(&[]).await, [StatusCode::OK; 4]);
    let token = desk.accounts.add_token("deploy", Role::Admin, None).unwrap();
    assert_eq!(statuses(&[]).await, [StatusCode::UNAUTHORIZED; 4]);
    assert_eq!(statuses(&[("authorization", &format!("Bearer {token}"))]).await, [StatusCode::OK; 4]);
    desk.accounts.remove_token("deploy").unwrap();
    assert_eq!(statuses(&[]).await, [StatusCode::OK; 4]);
}

/// Such a file may have had tokens.
#[tokio::test]
async fn a_file_that_makes_no_sense_opens_no_short_address() {
    let desk = Desk::with(|site| site.admin_token = None);
    std::fs::write(desk.folder.path().join("accounts.json"), "{\"accounts\": 7}").unwrap();
    for (method, path) in LOCAL {
        let status = ask(&desk.router, method, &path.replace("{id}", "clock"), &[]).await.status;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
    }
}
