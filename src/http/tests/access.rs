//! Who may do what: every address with every role.

use super::{configuration::Loads, *};
use crate::http::{guard, login::Door};
use std::{collections::HashMap, fs, sync::LazyLock};
use tempfile::TempDir;

pub const PASSWORD: &str = "correct horse battery";
pub const TOKEN: &str = "0123456789abcdef";

/// A page with an account for each role, whose name is the role's.
pub struct Desk {
    pub router: Router,
    pub engine: Arc<Sample>,
    /// What the configuration file belongs to.
    pub loader: Arc<Loads>,
    pub accounts: Arc<Accounts>,
    pub folder: TempDir,
}

/// Somebody's session.
pub struct Login {
    pub cookie: String,
    pub csrf: String,
}

impl Desk {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Site)) -> Self {
        // Their hashes are made once: they are made to be slow.
        static ACCOUNTS: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let folder = TempDir::new().unwrap();
            let file = folder.path().join("accounts.json");
            let accounts = Accounts::new(&file);
            Role::ALL.into_iter().for_each(|role| accounts.add(role.label(), role, PASSWORD).unwrap());
            fs::read(file).unwrap()
        });
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("accounts.json");
        fs::write(&file, &*ACCOUNTS).unwrap();
        let accounts = Arc::new(Accounts::new(&file));
        let engine = Arc::new(Sample::default());
        let token = SecretString::from(TOKEN);
        let reader = Reader::new(folder.path());
        let mut site = site(engine.clone(), Arc::clone(&accounts), Some(reader), Some(&token));
        let loader = Loads::from(folder.path().join("offhook.yaml"));
        site.configuration = loader.configuration();
        change(&mut site);
        Self { router: from(LOOPBACK, site), engine, loader, accounts, folder }
    }

    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: String) -> Answer {
        send(&self.router, Method::POST, path, headers, Body::from(body)).await
    }

    pub async fn try_log_in(&self, name: &str, password: &str) -> Answer {
        let body = json!({ "name": name, "password": password }).to_string();
        self.post("/api/v1/login", &[("content-type", "application/json")], body).await
    }

    pub async fn log_in(&self, role: Role) -> Login {
        let answer = self.try_log_in(role.label(), PASSWORD).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        let cookie = answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        Login { cookie, csrf: answer.json()["csrf_token"].as_str().unwrap().to_owned() }
    }
}

/// Which role an address needs, written down once more: a change of a door has to be meant.
pub const TABLE: &[(&str, &str, Option<Role>)] = {
    use Role::{Admin, Operator, Viewer};
    &[
        ("GET", "/live", None),
        ("GET", "/ready", None),
        ("GET", "/metrics", None),
        ("GET", "/login", None),
        ("POST", "/login", None),
        ("GET", "/assets/{name}", None),
        ("POST", "/api/v1/login", None),
        ("GET", "/calls", Some(Viewer)),
        ("POST", "/reload", Some(Admin)),
        ("GET", "/mcp/status", Some(Viewer)),
        ("POST", "/mcp/test/{id}", Some(Admin)),
        ("POST", "/logout", Some(Viewer)),
        ("GET", "/", Some(Viewer)),
        ("GET", "/stream", Some(Viewer)),
        ("GET", "/live/{id}", Some(Viewer)),
        ("GET", "/live/{id}/stream", Some(Viewer)),
        ("POST", "/live/{id}/hangup", Some(Operator)),
        ("GET", "/history", Some(Viewer)),
        ("GET", "/history/{id}", Some(Viewer)),
        ("GET", "/history/{id}/waveform.svg", Some(Operator)),
        ("POST", "/history/{id}/delete", Some(Admin)),
        ("GET", "/api/v1/session", Some(Viewer)),
        ("POST", "/api/v1/logout", Some(Viewer)),
        ("GET", "/api/v1/live", Some(Viewer)),
        ("GET", "/api/v1/events", Some(Viewer)),
        ("GET", "/api/v1/live/{id}", Some(Viewer)),
        ("GET", "/api/v1/live/{id}/events", Some(Viewer)),
        ("POST", "/api/v1/live/{id}/hangup", Some(Operator)),
        ("GET", "/api/v1/calls", Some(Viewer)),
        ("GET", "/api/v1/calls/{id}", Some(Viewer)),
        ("GET", "/api/v1/calls/hours", Some(Viewer)),
        ("GET", "/api/v1/live/{id}/audio", Some(Operator)),
        ("POST", "/api/v1/system/examine", Some(Admin)),
        ("POST", "/system/examine", Some(Admin)),
        ("POST", "/api/v1/system/media-test", Some(Admin)),
        ("POST", "/system/media-test", Some(Admin)),
        ("GET", "/api/v1/live/{id}/transfer", Some(Operator)),
        ("POST", "/api/v1/live/{id}/transfer", Some(Operator)),
        ("POST", "/live/{id}/transfer", Some(Operator)),
        ("POST", "/api/v1/conversations", Some(Admin)),
        ("POST", "/api/v1/live/{id}/text", Some(Admin)),
        ("POST", "/live/{id}/text", Some(Admin)),
        ("POST", "/conversations", Some(Admin)),
        ("GET", "/api/v1/calls/{id}/recording", Some(Operator)),
        ("GET", "/api/v1/calls/{id}/waveform", Some(Operator)),
        ("DELETE", "/api/v1/calls/{id}", Some(Admin)),
        ("GET", "/api/v1/openapi.json", Some(Viewer)),
        ("GET", "/providers", Some(Viewer)),
        ("GET", "/tools", Some(Viewer)),
        ("GET", "/tools/{tool}", Some(Viewer)),
        ("GET", "/tool-editor", Some(Admin)),
        ("POST", "/tool-editor", Some(Admin)),
        ("GET", "/mcp", Some(Viewer)),
        ("POST", "/mcp", Some(Admin)),
        ("POST", "/mcp/reload", Some(Admin)),
        ("GET", "/mcp/editor", Some(Admin)),
        ("POST", "/mcp/editor", Some(Admin)),
        ("GET", "/api/v1/mcp/servers/{server}", Some(Admin)),
        ("PUT", "/api/v1/mcp/servers/{server}", Some(Admin)),
        ("POST", "/api/v1/mcp/servers/{server}/check", Some(Admin)),
        ("DELETE", "/api/v1/mcp/servers/{server}", Some(Admin)),
        ("GET", "/api/v1/tokens", Some(Admin)),
        ("POST", "/api/v1/tokens", Some(Admin)),
        ("DELETE", "/api/v1/tokens/{token}", Some(Admin)),
        ("POST", "/system/tokens", Some(Admin)),
        ("GET", "/system", Some(Viewer)),
        ("POST", "/system", Some(Admin)),
        ("GET", "/api/v1/registry", Some(Viewer)),
        ("GET", "/api/v1/registry/{tool}", Some(Viewer)),
        ("GET", "/api/v1/audit", Some(Viewer)),
        ("GET", "/api/v1/tenants/{tenant}/tools", Some(Admin)),
        ("POST", "/api/v1/tenants/{tenant}/tools", Some(Admin)),
        ("GET", "/api/v1/tenants/{tenant}/tools/{tool}", Some(Admin)),
        ("PUT", "/api/v1/tenants/{tenant}/tools/{tool}", Some(Admin)),
        ("DELETE", "/api/v1/tenants/{tenant}/tools/{tool}", Some(Admin)),
        ("POST", "/api/v1/tenants/{tenant}/tools/{tool}/test", Some(Admin)),
        ("POST", "/api/v1/tenants/{tenant}/test", Some(Admin)),
        ("GET", "/api/v1/providers", Some(Viewer)),
        ("GET", "/api/v1/mcp", Some(Viewer)),
        ("POST", "/api/v1/mcp/{server}/test", Some(Admin)),
        ("GET", "/api/v1/system", Some(Viewer)),
        ("GET", "/api/v1/log", Some(Operator)),
        ("POST", "/api/v1/reload", Some(Admin)),
        ("POST", "/api/v1/calls/taken", Some(Admin)),
        ("GET", "/api/v1/configuration", Some(Admin)),
        ("PUT", "/api/v1/configuration", Some(Admin)),
        ("POST", "/api/v1/configuration/check", Some(Admin)),
        ("GET", "/api/v1/configuration/schema", Some(Viewer)),
        ("GET", "/api/v1/contexts", Some(Viewer)),
        ("GET", "/contexts", Some(Viewer)),
        ("POST", "/contexts", Some(Admin)),
        ("GET", "/contexts/versions/{kept}", Some(Admin)),
        ("POST", "/contexts/versions/{kept}", Some(Admin)),
        ("GET", "/api/v1/configuration/versions", Some(Admin)),
        ("GET", "/api/v1/configuration/versions/{kept}", Some(Admin)),
        ("POST", "/api/v1/configuration/versions/{kept}/publish", Some(Admin)),
    ]
};

#[test]
fn every_address_is_in_the_table() {
    let accounts = Arc::new(Accounts::new(Path::new("/nowhere/accounts.json")));
    let app = super::super::site::App::new(site(Arc::new(Sample::default()), accounts, None, None));
    let (_, listed) = super::super::site::routes(&app).into_parts();
    let listed = listed.iter().map(|address| {
        let role = match address.door {
            Door::Machines | Door::Anybody => None,
            Door::Page(role) | Door::Api(role) | Door::Local(role) => Some(role),
        };
        (address.method.as_str().to_owned(), address.path, role)
    });
    let mut listed: Vec<_> = listed.collect();
    let mut table: Vec<_> = TABLE.iter().map(|&(method, path, role)| (method.to_owned(), path, role)).collect();
    listed.sort();
    table.sort();
    assert_eq!(listed, table);
}

#[test]
fn addresses_that_have_longer_for_an_answer_than_others_are_there() {
    for slow in guard::PUBLICATIONS.iter().chain(&guard::TESTS) {
        assert!(TABLE.iter().any(|&(method, path, _)| (method, path) == *slow), "{slow:?}");
    }
}

/// Refused is: 401 and 403, and a page's way to the log-in.
pub fn is_refused(answer: &Answer) -> bool {
    let to_log_in = || answer.headers.get("location").is_some_and(|to| to.as_bytes().starts_with(b"/login"));
    matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
        || (answer.status == StatusCode::SEE_OTHER && to_log_in())
}

#[tokio::test]
async fn every_address_lets_in_its_role_and_those_above_it_and_nobody_else() {
    let id = CallId::random().to_string();
    let desk = Desk::new();
    let mut logins = HashMap::new();
    for &(method, path, needed) in TABLE {
        let Some(needed) = needed else { continue };
        let place = path
            .replace("{id}", &id)
            .replace("{server}", "clock")
            .replace("{tenant}", "clinic")
            .replace("{tool}", "book_visit")
            .replace("{token}", "wallboard");
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let nobody = ask(&desk.router, method.clone(), &place, &[]).await;
        assert!(is_refused(&nobody), "{method} {path} lets in anybody: {}", nobody.status);
        for role in Role::ALL {
            let login = match logins.remove(&role) {
                Some(login) => login,
                None => desk.log_in(role).await,
            };
            let headers = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)];
            let answer = ask(&desk.router, method.clone(), &place, &headers).await;
            let out = path.contains("logout") && answer.status == StatusCode::SEE_OTHER;
            if !path.contains("logout") {
                logins.insert(role, login);
            }
            assert_eq!(is_refused(&answer) && !out, role < needed, "{method} {path} {role}: {}", answer.status);
        }
        let token = format!("Bearer {TOKEN}");
        let program = ask(&desk.router, method.clone(), &place, &[("authorization", &token)]).await;
        let is_for_accounts = path == "/logout" || tokens::is_for_accounts(method.as_str(), path);
        assert_eq!(is_refused(&program), is_for_accounts, "{method} {path} by token: {}", program.status);
        let wrong = [("authorization", "Bearer 0123456789abcdee")];
        assert!(is_refused(&ask(&desk.router, method, &place, &wrong).await), "{path} with a wrong token");
    }
}

/// What a script asks for is no page to be shown.
#[tokio::test]
async fn a_script_whose_session_is_over_is_told_so() {
    let desk = Desk::new();
    let script = [("sec-fetch-dest", "empty"), ("sec-fetch-site", "same-origin")];
    assert_eq!(ask(&desk.router, Method::GET, "/", &script).await.status, StatusCode::UNAUTHORIZED);
    let window = [("sec-fetch-dest", "document"), ("sec-fetch-site", "same-origin")];
    assert_eq!(ask(&desk.router, Method::GET, "/", &window).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_page_sends_to_the_log_in_and_back() {
    let desk = Desk::new();
    let away = ask(&desk.router, Method::GET, "/history?words=a%20b", &[]).await;
    assert_eq!(away.headers["location"], "/login?next=%2Fhistory%3Fwords%3Da%2520b");
    let form = ask(&desk.router, Method::GET, "/login?next=%2Fhistory%3Fwords%3Da%2520b", &[]).await;
    assert!(form.text.contains(r#"name="next" value="/history?words=a%20b""#), "{}", form.text);
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let body = "name=admin&password=correct+horse+battery&next=%2Fhistory%3Fwords%3Da%2520b".to_owned();
    let back = desk.post("/login", &[kind], body).await;
    assert_eq!(
        (back.status, &back.headers["location"]),
        (StatusCode::SEE_OTHER, &"/history?words=a%20b".parse().unwrap())
    );
    let cookie = back.headers["set-cookie"].to_str().unwrap();
    for part in ["offhook_15000=", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let wrong = desk.post("/login", &[kind], "name=admin&password=wrong".into()).await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert!(wrong.text.contains(r#"role="alert""#) && !wrong.headers.contains_key("set-cookie"));
}

#[tokio::test]
async fn who_logs_out_is_out() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Viewer).await;
    let session = [("cookie", &*login.cookie)];
    assert_eq!(ask(&desk.router, Method::GET, "/api/v1/session", &session).await.json()["role"], "viewer");
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let out = desk.post("/logout", &[session[0], kind], format!("csrf={}", login.csrf)).await;
    assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(ask(&desk.router, Method::GET, "/api/v1/session", &session).await.status, StatusCode::UNAUTHORIZED);
}

/// Viewers see figures: no words, no hang-up.
#[tokio::test]
async fn words_and_buttons_are_for_operators() {
    let desk = Desk::new();
    let id = desk.engine.calls.active[0].call.id;
    for (role, sees) in [(Role::Viewer, false), (Role::Operator, true)] {
        let login = desk.log_in(role).await;
        let session = [("cookie", &*login.cookie)];
        let page = ask(&desk.router, Method::GET, &format!("/live/{id}"), &session).await.text;
        assert_eq!((page.contains("secret wish"), page.contains("Hang up now")), (sees, sees), "{role}: {page}");
        assert!(page.contains("The call is answered."));
        assert_eq!(ask(&desk.router, Method::GET, "/", &session).await.text.contains("?hangup"), sees);
        let search = ask(&desk.router, Method::GET, "/api/v1/calls?words=secret", &session).await.status;
        assert_eq!(search == StatusCode::FORBIDDEN, !sees, "{role} {search}");
    }
}

/// Whom operators find in the history a second later, they see while the call lasts.
#[tokio::test(start_paused = true)]
async fn names_and_numbers_of_running_calls_are_for_operators() {
    let desk = Desk::new();
    let id = desk.engine.calls.active[0].call.id;
    for (role, sees) in [(Role::Viewer, false), (Role::Operator, true)] {
        let login = desk.log_in(role).await;
        let session = [("cookie", &*login.cookie)];
        for path in ["/", &format!("/live/{id}"), "/api/v1/live", &format!("/api/v1/live/{id}")] {
            let told = ask(&desk.router, Method::GET, path, &session).await.text;
            for private in ["+15550199", "Ada Byron", "493012345"] {
                assert_eq!(told.contains(private), sees, "{role} {path} {private}: {told}");
            }
        }
        // What is told first of each stream.
        for path in [format!("/live/{id}/stream?from=0"), format!("/api/v1/live/{id}/events"), "/api/v1/events".into()]
        {
            let told = super::streams::first(&desk, &login, &path).await;
            assert_eq!(told.contains("+15550199"), sees, "{role} {path}: {told}");
        }
        // Scripts are told nobody, whatever they may.
        assert!(!ask(&desk.router, Method::GET, "/calls", &session).await.text.contains("+15550199"));
    }
}

/// Behind a server that adds TLS.
#[tokio::test]
async fn with_a_public_address_that_name_is_known_and_cookies_are_secure() {
    let desk = Desk::with(|site| site.public_url = Some("https://voice.example.com".into()));
    let headers = [
        ("content-type", "application/json"),
        ("host", "voice.example.com"),
        ("origin", "https://voice.example.com"),
        ("sec-fetch-site", "same-origin"),
    ];
    let body = json!({ "name": "admin", "password": PASSWORD }).to_string();
    let answer = desk.post("/api/v1/login", &headers, body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-offhook_15000=") && cookie.ends_with("; Secure"), "{cookie}");
}

/// Without a token programs of this machine need none, as before there were accounts; nobody else does without.
#[tokio::test]
async fn short_addresses_are_open_to_this_machine_alone_and_only_without_a_token() {
    let accounts = || Arc::new(Accounts::new(Path::new("/nowhere/accounts.json")));
    let open = || site(Arc::new(Sample::default()), accounts(), None, None);
    let token = SecretString::from(TOKEN);
    let closed = site(Arc::new(Sample::default()), accounts(), None, Some(&token));
    let status =
        async |router: Router, headers: &[(&str, &str)]| ask(&router, Method::POST, "/reload", headers).await.status;
    assert_eq!(status(from(LOOPBACK, open()), &[]).await, StatusCode::OK);
    assert_eq!(status(from([10, 0, 0, 7], open()), &[]).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(from(LOOPBACK, open()), &[("x-forwarded-for", "10.0.0.7")]).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(from(LOOPBACK, closed), &[]).await, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(&from(LOOPBACK, open()), Method::GET, "/api/v1/live", &[]).await.status, StatusCode::UNAUTHORIZED);
}

/// A server that adds TLS here asks from this machine for whoever comes to it, and need not say so.
#[tokio::test]
async fn what_may_be_passed_on_for_somebody_else_is_not_taken_for_this_machine() {
    let accounts = || Arc::new(Accounts::new(Path::new("/nowhere/accounts.json")));
    let router = |public_url: Option<&str>| {
        let site = site(Arc::new(Sample::default()), accounts(), None, None);
        from(LOOPBACK, Site { public_url: public_url.map(Into::into), ..site })
    };
    let public = Some("https://voice.example.com");
    for (public_url, host, status) in [
        (None, "127.0.0.1:15000", StatusCode::OK),
        (None, "localhost:15000", StatusCode::OK),
        (None, "[::1]:15000", StatusCode::OK),
        (None, "10.0.0.5:15000", StatusCode::UNAUTHORIZED),
        (public, "127.0.0.1:15000", StatusCode::UNAUTHORIZED),
        (public, "localhost:15000", StatusCode::UNAUTHORIZED),
        (public, "voice.example.com", StatusCode::UNAUTHORIZED),
    ] {
        let router = router(public_url);
        for (method, path) in [
            (Method::GET, "/calls"),
            (Method::POST, "/reload"),
            (Method::GET, "/mcp/status"),
            (Method::POST, "/mcp/test/clock"),
        ] {
            let answer = ask(&router, method, path, &[("host", host)]).await;
            assert_eq!(answer.status, status, "{path} of {host} with {public_url:?}");
        }
        let log_in = ask(&router, Method::GET, "/login", &[("host", host)]).await.text;
        assert_eq!(log_in.contains("/nowhere"), status == StatusCode::OK, "{host} with {public_url:?}: {log_in}");
    }
    for header in ["x-forwarded-host", "x-forwarded-proto", "forwarded", "x-real-ip", "via"] {
        let answer = ask(&router(None), Method::GET, "/calls", &[(header, "something")]).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{header}");
    }
}

/// Where the file of accounts is helps whoever sits at the machine, and is nobody else's business.
#[tokio::test]
async fn the_log_in_tells_the_whole_command_for_a_password_on_this_machine_alone() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("accounts.json");
    let accounts = || Arc::new(Accounts::new(&file));
    let page = async |address, headers: &[(&str, &str)]| {
        let router = from(address, site(Arc::new(Sample::default()), accounts(), None, None));
        ask(&router, Method::GET, "/login", headers).await.text
    };
    let first = format!("<code>offhook account add admin --role admin --accounts {}</code>", file.display());
    assert!(page(LOOPBACK, &[]).await.contains(&first));
    accounts().first().unwrap();
    let another = format!("<code>offhook account password admin --accounts {}</code>", file.display());
    assert!(page(LOOPBACK, &[]).await.contains(&another));
    for told in [page([10, 0, 0, 7], &[]).await, page(LOOPBACK, &[("x-forwarded-for", "10.0.0.7")]).await] {
        assert!(told.contains("<code>offhook account password admin</code>") && !told.contains("accounts.json"));
    }
}
