//! The configuration file over HTTP: a real file with the real checks, by an engine that says it has loaded it.

use super::{access::Desk, *};
use crate::{
    config::{self, Problem},
    provider,
    store::{FileConfiguration, Loader},
};
use std::{fs, path::PathBuf};

pub const YAML: &str =
    "providers: { a: { scripted: { script: [silence] } } }\ncontexts:\n  sales: { prompt: Test, provider: a }\n";

/// Reads the file with the real checks.
pub struct Loads {
    pub file: PathBuf,
    /// A reload.
    pub takes: Mutex<Duration>,
    running: Mutex<(u64, Arc<str>)>,
}

impl Loads {
    pub fn from(file: PathBuf) -> Arc<Self> {
        fs::write(&file, YAML).unwrap();
        Arc::new(Self { file, takes: Mutex::default(), running: Mutex::new((1, YAML.into())) })
    }

    pub fn configuration(self: &Arc<Self>) -> Arc<dyn Configurations> {
        Arc::new(FileConfiguration::new(Some(self.file.clone()), self.clone()))
    }

    pub fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }
}

/// Part of the program.
pub fn built_in() -> Arc<dyn Configurations> {
    let loader = Loads { file: PathBuf::new(), takes: Mutex::default(), running: Mutex::new((1, YAML.into())) };
    Arc::new(FileConfiguration::new(None, Arc::new(loader)))
}

impl Loader for Loads {
    fn running(&self) -> (u64, Arc<str>) {
        self.running.lock().unwrap().clone()
    }

    fn check(&self, name: &str, text: &str) -> Result<Vec<Problem>, Vec<Problem>> {
        let loaded = config::load_str(name, text, &|_| None, provider::catalog());
        loaded.map(|config| config.warnings).map_err(|problems| problems.into_iter().collect())
    }

    fn schema(&self) -> String {
        config::schema_text(provider::catalog())
    }

    fn reload(&self) -> BoxFuture<'static, Result<ReloadReport, ReloadFailure>> {
        let mut running = self.running.lock().unwrap();
        *running = (running.0 + 1, self.text().into());
        let (generation, changed) = (running.0, vec!["contexts".into()]);
        let report = ReloadReport { generation, changed, needs_restart: vec![], reload_pending: false };
        let takes = *self.takes.lock().unwrap();
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            Ok(report)
        })
    }
}

const PATH: &str = "/api/v1/configuration";

async fn api(desk: &Desk, method: Method, path: &str, version: Option<&str>, body: serde_json::Value) -> Answer {
    let token = format!("Bearer {}", access::TOKEN);
    let quoted = version.map(|version| format!("\"{version}\"")).unwrap_or_default();
    let mut headers = vec![("authorization", &*token), ("content-type", "application/json")];
    headers.extend(version.is_some().then_some(("if-match", &*quoted)));
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    send(&desk.router, method, path, &headers, body).await
}

async fn read(desk: &Desk) -> serde_json::Value {
    api(desk, Method::GET, PATH, None, json!(null)).await.json()
}

async fn publish(desk: &Desk, text: &str, version: &str) -> Answer {
    api(desk, Method::PUT, PATH, Some(version), json!({ "text": text })).await
}

fn text_of(answer: &serde_json::Value, key: &str) -> String {
    answer[key].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn programs_read_check_publish_and_roll_back() {
    let desk = Desk::new();
    let before = read(&desk).await;
    assert_eq!((&before["text"], &before["running"], &before["problems"]), (&json!(YAML), &json!(true), &json!([])));
    let next = YAML.replace("Test", "Another");
    let checked = api(&desk, Method::POST, "/api/v1/configuration/check", None, json!({ "text": next })).await.json();
    assert_eq!(checked["problems"], json!([]));
    assert!(text_of(&checked, "difference").contains("+  sales: { prompt: Another"));
    let published = publish(&desk, &next, &text_of(&before, "version")).await;
    assert_eq!((published.status, &published.json()["generation"]), (StatusCode::OK, &json!(2)), "{}", published.text);
    assert_eq!(desk.loader.text(), next);
    let versions = api(&desk, Method::GET, "/api/v1/configuration/versions", None, json!(null)).await.json();
    assert_eq!((&versions[0]["by"], &versions[1]["by"]), (&json!("token"), &json!(null)));
    let kept = format!("/api/v1/configuration/versions/{}", versions[1]["id"].as_str().unwrap());
    assert_eq!(api(&desk, Method::GET, &kept, None, json!(null)).await.json()["text"], json!(YAML));
    let version = text_of(&published.json(), "version");
    let back = api(&desk, Method::POST, &format!("{kept}/publish"), Some(&version), json!(null)).await;
    assert_eq!((back.status, desk.loader.text().as_str()), (StatusCode::OK, YAML), "{}", back.text);
    let unknown = api(&desk, Method::GET, "/api/v1/configuration/versions/..%2Foffhook", None, json!(null)).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn who_was_too_late_is_told_who_was_first_and_who_says_no_version_is_asked_for_one() {
    let desk = Desk::new();
    let seen = text_of(&read(&desk).await, "version");
    assert_eq!(publish(&desk, &format!("{YAML}# one\n"), &seen).await.status, StatusCode::OK);
    let late = publish(&desk, &format!("{YAML}# two\n"), &seen).await;
    assert_eq!((late.status, &late.json()["by"]), (StatusCode::CONFLICT, &json!("token")), "{}", late.text);
    assert!(late.json()["at"].is_string() && late.json()["version"] == read(&desk).await["version"]);
    let unsaid = api(&desk, Method::PUT, PATH, None, json!({ "text": YAML })).await;
    assert_eq!(unsaid.status, StatusCode::PRECONDITION_REQUIRED);
    assert_eq!(desk.loader.text(), format!("{YAML}# one\n"));
}

/// It would go on without whoever asked, who would not know how it ended.
#[tokio::test(start_paused = true)]
async fn a_publication_that_takes_longer_than_other_answers_is_waited_for() {
    let desk = Desk::new();
    *desk.loader.takes.lock().unwrap() = Duration::from_secs(40);
    let slow = publish(&desk, &format!("{YAML}# slow\n"), &text_of(&read(&desk).await, "version")).await;
    assert_eq!((slow.status, &slow.json()["generation"]), (StatusCode::OK, &json!(2)), "{}", slow.text);
    // Not for ever.
    *desk.loader.takes.lock().unwrap() = Duration::from_secs(400);
    let stuck = publish(&desk, YAML, &text_of(&slow.json(), "version")).await;
    assert_eq!(stuck.status, StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test]
async fn problems_come_with_line_path_and_hint_and_nothing_is_written() {
    let desk = Desk::new();
    let bad = YAML.replace("prompt", "promt");
    let refused = publish(&desk, &bad, &text_of(&read(&desk).await, "version")).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    let problem = &refused.json()["problems"][0];
    assert_eq!((&problem["line"], &problem["path"]), (&json!(3), &json!("contexts.sales.promt")), "{problem}");
    assert!(text_of(problem, "hint").contains("prompt") && text_of(problem, "file").ends_with("offhook.yaml"));
    assert_eq!(desk.loader.text(), YAML);
}

#[tokio::test]
async fn a_bomb_a_text_without_end_and_what_is_no_text_are_refused() {
    let desk = Desk::new();
    let seen = text_of(&read(&desk).await, "version");
    let steps = (1..=12).map(|step| format!("a{step}: &a{step} [{}]\n", vec![format!("*a{}", step - 1); 9].join(",")));
    let bomb = format!("a0: &a0 [x]\n{}", steps.collect::<String>());
    assert_eq!(publish(&desk, &bomb, &seen).await.status, StatusCode::UNPROCESSABLE_ENTITY);
    let endless = "#".repeat(TEXT_BYTES_MAX + 1);
    assert_eq!(publish(&desk, &endless, &seen).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let longer = "#".repeat(3 * TEXT_BYTES_MAX);
    assert_eq!(publish(&desk, &longer, &seen).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    for wrong in [json!({ "text": 7 }), json!({}), json!({ "text": YAML, "force": true })] {
        let answer = api(&desk, Method::PUT, PATH, Some(&seen), wrong.clone()).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
    }
    assert_eq!(desk.loader.text(), YAML);
    // A whole megabyte of good text is no problem.
    let long = format!("{YAML}{}\n", "# more\n".repeat(100_000));
    assert_eq!(publish(&desk, &long, &seen).await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_is_part_of_the_program_is_shown_and_stays() {
    let desk = Desk::with(|site| site.configuration = built_in());
    let found = read(&desk).await;
    assert_eq!((&found["file"], &found["text"]), (&json!(null), &json!(YAML)));
    let refused = publish(&desk, "a: 1", &text_of(&found, "version")).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(text_of(&refused.json(), "error").contains("part of the program"), "{}", refused.text);
}

#[tokio::test]
async fn a_session_needs_its_token_and_publishes_in_its_own_name() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Admin).await;
    let version = format!("\"{}\"", text_of(&read(&desk).await, "version"));
    let body = json!({ "text": format!("{YAML}# one\n") }).to_string();
    let mut headers = vec![("cookie", &*login.cookie), ("content-type", "application/json"), ("if-match", &*version)];
    let forged = send(&desk.router, Method::PUT, PATH, &headers, Body::from(body.clone())).await;
    assert_eq!((forged.status, desk.loader.text().as_str()), (StatusCode::FORBIDDEN, YAML));
    headers.push(("x-csrf-token", &*login.csrf));
    assert_eq!(send(&desk.router, Method::PUT, PATH, &headers, Body::from(body)).await.status, StatusCode::OK);
    let versions = api(&desk, Method::GET, "/api/v1/configuration/versions", None, json!(null)).await.json();
    assert_eq!(versions[0]["by"], json!("admin"));
}

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

async fn page(desk: &Desk, role: Role, path: &str) -> Answer {
    let login = desk.log_in(role).await;
    ask(&desk.router, Method::GET, path, &[("cookie", &login.cookie)]).await
}

async fn act(desk: &Desk, path: &str, fields: &[(&str, &str)]) -> Answer {
    let login = desk.log_in(Role::Admin).await;
    let mut form = url::form_urlencoded::Serializer::new(format!("csrf={}", login.csrf));
    form.extend_pairs(fields);
    desk.post(path, &[("cookie", &login.cookie), FORM], form.finish()).await
}

async fn edit(desk: &Desk, action: &str, text: &str, version: &str) -> Answer {
    // As browsers send it.
    let text = text.replace('\n', "\r\n");
    act(desk, "/contexts", &[("action", action), ("text", &text), ("version", version)]).await
}

#[tokio::test]
async fn everybody_sees_the_contexts_and_admins_alone_the_text() {
    let desk = Desk::new();
    for role in Role::ALL {
        let page = page(&desk, role, "/contexts").await;
        for shown in ["sales", "then ill", "rtp/ulaw", "0ff40001", "hangup_call, mcp_clock_now"] {
            assert!(page.text.contains(shown), "{role}: {shown}: {}", page.text);
        }
        let sees = page.text.contains("prompt: Test");
        assert_eq!(sees, role == Role::Admin, "{role}");
    }
}

#[tokio::test]
async fn without_scripts_an_admin_sees_each_problem_with_its_line_mends_it_publishes_and_rolls_back() {
    let desk = Desk::new();
    let seen = text_of(&read(&desk).await, "version");
    let bad = YAML.replace("prompt: Test", "promt: \"<script>\"");
    let refused = edit(&desk, "publish", &bad, &seen).await;
    assert_eq!((refused.status, desk.loader.text().as_str()), (StatusCode::UNPROCESSABLE_ENTITY, YAML));
    for shown in ["href=\"#line-3\"", "class=\"bad\" id=\"line-3\"", "contexts.sales.promt", "1 problem", "<ins>"] {
        assert!(refused.text.contains(shown), "{shown}: {}", refused.text);
    }
    assert!(refused.text.contains("&lt;script&gt;") && !refused.text.contains("<script>"), "it stays text");
    let good = YAML.replace("Test", "Another");
    let checked = edit(&desk, "check", &good, &seen).await;
    assert!(checked.status == StatusCode::OK && checked.text.contains("No problems."));
    assert!(checked.text.contains("prompt: Another") && desk.loader.text() == YAML, "a check publishes nothing");
    let look = edit(&desk, "look", &good, &seen).await;
    assert!(
        look.text.starts_with("<p class=\"state good\" id=\"verdict\"") && !look.text.contains("<html"),
        "{}",
        look.text
    );
    let published = edit(&desk, "publish", &good, &seen).await;
    assert!(published.status == StatusCode::OK && published.text.contains("Published"), "{}", published.text);
    assert_eq!(desk.loader.text(), good);
    let versions = api(&desk, Method::GET, "/api/v1/configuration/versions", None, json!(null)).await.json();
    let kept = format!("/contexts/versions/{}", versions[1]["id"].as_str().unwrap());
    assert!(published.text.contains(&kept) && published.text.contains("somebody, in the file itself"));
    let shown = page(&desk, Role::Admin, &kept).await;
    assert!(shown.text.contains("Roll back to this") && shown.text.contains("-  sales: { prompt: Another"));
    let back = act(&desk, &kept, &[("version", versions[0]["id"].as_str().unwrap())]).await;
    assert_eq!(back.status, StatusCode::CONFLICT, "it is not the version that the file has");
    let now = text_of(&read(&desk).await, "version");
    assert_eq!(act(&desk, &kept, &[("version", &now)]).await.status, StatusCode::OK);
    assert_eq!(desk.loader.text(), YAML);
    assert_eq!(page(&desk, Role::Admin, "/contexts/versions/nothing").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn who_was_too_late_keeps_what_they_wrote_and_sees_how_it_differs() {
    let desk = Desk::new();
    let seen = text_of(&read(&desk).await, "version");
    let (ada, bob) = (YAML.replace("Test", "By Ada"), YAML.replace("Test", "By Bob"));
    assert_eq!(publish(&desk, &ada, &seen).await.status, StatusCode::OK);
    let late = edit(&desk, "publish", &bob, &seen).await;
    assert_eq!((late.status, desk.loader.text()), (StatusCode::CONFLICT, ada));
    for shown in
        ["token changed it", "<del>-  sales: { prompt: By Ada", "<ins>+  sales: { prompt: By Bob", "By Bob, provider"]
    {
        assert!(late.text.contains(shown), "{shown}: {}", late.text);
    }
    // The page knows now what it would replace.
    let now = text_of(&read(&desk).await, "version");
    assert!(late.text.contains(&format!("name=\"version\" value=\"{now}\"")));
    assert_eq!(edit(&desk, "publish", &bob, &now).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_page_that_cannot_publish_says_why_and_has_no_button() {
    let desk = Desk::with(|site| site.configuration = built_in());
    let shown = page(&desk, Role::Admin, "/contexts").await.text;
    assert!(shown.contains("It cannot be changed here: it is part of the program."), "{shown}");
    assert!(shown.contains("readonly") && !shown.contains("value=\"publish\""));
    assert_eq!(edit(&desk, "publish", YAML, "x").await.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn forms_without_the_sessions_token_and_those_that_are_too_long_change_nothing() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Admin).await;
    let session = [("cookie", &*login.cookie), FORM];
    let forged = desk.post("/contexts", &session, "action=publish&text=a&version=b".into()).await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    let endless = edit(&desk, "publish", &"#".repeat(TEXT_BYTES_MAX + 1), "x").await;
    assert_eq!(endless.status, StatusCode::PAYLOAD_TOO_LARGE);
    let longer = edit(&desk, "publish", &"#".repeat(4 * TEXT_BYTES_MAX), "x").await;
    assert_eq!(longer.status, StatusCode::PAYLOAD_TOO_LARGE);
    let unknown = edit(&desk, "explode", YAML, "x").await;
    assert_eq!((unknown.status, desk.loader.text().as_str()), (StatusCode::BAD_REQUEST, YAML));
}
