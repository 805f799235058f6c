//! The API against its document, and against the page: whatever somebody can do there, a program can do as well.

use super::{
    access::{Desk, Login, TABLE},
    history, *,
};
use crate::records::{Archive as _, Sqlite};
use serde_json::Value;
use std::{collections::BTreeSet, fs};

/// With a server, for what is edited of one.
const FILE: &str = "\
providers: { a: { scripted: { script: [silence] } } }
mcp:
  servers:
    clock:
      command: [sh, -c, exit]
contexts:
  sales: { prompt: Test, provider: a }
";

/// Addresses with what a button asks for there, and the operations that do the same. What a page shows is asked for by nothing.
const SAME: &[(&str, &str, &[&str])] = &[
    ("POST /login", "", &["POST /api/v1/login"]),
    ("POST /logout", "", &["POST /api/v1/logout"]),
    ("GET /", "", &["GET /api/v1/live"]),
    ("GET /stream", "", &["GET /api/v1/events"]),
    ("GET /live/{id}", "", &["GET /api/v1/live/{id}", "GET /api/v1/live/{id}/audio"]),
    ("GET /live/{id}/stream", "", &["GET /api/v1/live/{id}/events"]),
    ("POST /live/{id}/hangup", "", &["POST /api/v1/live/{id}/hangup"]),
    ("POST /live/{id}/transfer", "", &["GET /api/v1/live/{id}/transfer", "POST /api/v1/live/{id}/transfer"]),
    ("POST /live/{id}/text", "", &["POST /api/v1/live/{id}/text"]),
    ("GET /history", "", &["GET /api/v1/calls", "GET /api/v1/calls/hours"]),
    ("GET /history/{id}", "", &["GET /api/v1/calls/{id}", "GET /api/v1/calls/{id}/recording"]),
    ("GET /history/{id}/waveform.svg", "", &["GET /api/v1/calls/{id}/waveform"]),
    ("POST /history/{id}/delete", "", &["DELETE /api/v1/calls/{id}"]),
    (
        "GET /contexts",
        "",
        &[
            "GET /api/v1/contexts",
            "GET /api/v1/configuration",
            "GET /api/v1/configuration/schema",
            "GET /api/v1/configuration/versions",
        ],
    ),
    ("POST /contexts", "check", &["POST /api/v1/configuration/check"]),
    ("POST /contexts", "publish", &["PUT /api/v1/configuration"]),
    ("GET /contexts/versions/{kept}", "", &["GET /api/v1/configuration/versions/{kept}"]),
    ("POST /contexts/versions/{kept}", "", &["POST /api/v1/configuration/versions/{kept}/publish"]),
    ("POST /conversations", "", &["POST /api/v1/conversations"]),
    ("GET /providers", "", &["GET /api/v1/providers"]),
    ("GET /tools", "", &["GET /api/v1/registry", "GET /api/v1/audit"]),
    ("GET /tools/{tool}", "", &["GET /api/v1/registry/{tool}"]),
    ("GET /tool-editor", "", &["GET /api/v1/tenants/{tenant}/tools", "GET /api/v1/tenants/{tenant}/tools/{tool}"]),
    (
        "POST /tool-editor",
        "save",
        &["POST /api/v1/tenants/{tenant}/tools", "PUT /api/v1/tenants/{tenant}/tools/{tool}"],
    ),
    (
        "POST /tool-editor",
        "try",
        &["POST /api/v1/tenants/{tenant}/test", "POST /api/v1/tenants/{tenant}/tools/{tool}/test"],
    ),
    ("POST /tool-editor", "delete", &["DELETE /api/v1/tenants/{tenant}/tools/{tool}"]),
    ("GET /mcp", "", &["GET /api/v1/mcp"]),
    ("POST /mcp", "", &["POST /api/v1/mcp/{server}/test"]),
    ("POST /mcp/reload", "", &["POST /api/v1/reload"]),
    ("GET /mcp/editor", "", &["GET /api/v1/mcp/servers/{server}"]),
    ("POST /mcp/editor", "look", &["POST /api/v1/mcp/servers/{server}/check"]),
    ("POST /mcp/editor", "publish", &["PUT /api/v1/mcp/servers/{server}"]),
    // What would change is told of any text.
    ("POST /mcp/editor", "look_remove", &["POST /api/v1/configuration/check"]),
    ("POST /mcp/editor", "remove", &["DELETE /api/v1/mcp/servers/{server}"]),
    ("GET /system", "", &["GET /api/v1/system", "GET /api/v1/log", "GET /api/v1/session", "GET /api/v1/tokens"]),
    ("POST /system", "reload", &["POST /api/v1/reload"]),
    ("POST /system", "drain", &["POST /api/v1/calls/taken"]),
    ("POST /system", "take", &["POST /api/v1/calls/taken"]),
    ("POST /system/tokens", "make", &["POST /api/v1/tokens"]),
    ("POST /system/tokens", "revoke", &["DELETE /api/v1/tokens/{token}"]),
    ("POST /system/examine", "", &["POST /api/v1/system/examine"]),
    ("POST /system/media-test", "", &["POST /api/v1/system/media-test"]),
];
/// For machines, for scripts as they were before there was an API, and what belongs to every page.
const NO_PAGES: [&str; 8] = [
    "GET /live",
    "GET /ready",
    "GET /metrics",
    "GET /calls",
    "POST /reload",
    "GET /mcp/status",
    "POST /mcp/test/{id}",
    "GET /assets/{name}",
];
/// These are a way to others.
const NO_ACTION: [&str; 1] = ["GET /login"];

async fn document(desk: &Desk) -> Value {
    let token = format!("Bearer {}", access::TOKEN);
    ask(&desk.router, Method::GET, "/api/v1/openapi.json", &[("authorization", &token)]).await.json()
}

/// Method, path and what is said of it, of everything in the document.
fn operations(document: &Value) -> Vec<(String, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (method.to_uppercase(), path.as_str(), operation))
    });
    all.collect()
}

/// The role that the document says an operation needs.
fn needed(operation: &Value) -> Option<Role> {
    let says = operation["description"].as_str()?;
    Role::ALL.into_iter().find(|role| says == format!("For accounts with the role {role} or more."))
}

#[tokio::test]
async fn the_document_says_of_each_operation_which_role_it_needs() {
    let document = document(&Desk::new()).await;
    let operations = operations(&document);
    let mut told: Vec<_> = operations.iter().map(|(method, path, says)| (&**method, *path, needed(says))).collect();
    let mut table: Vec<_> = TABLE.iter().filter(|(_, path, _)| path.starts_with("/api/")).copied().collect();
    told.sort();
    table.sort();
    assert_eq!(told, table);
    for (method, path, operation) in operations {
        assert_eq!(operation.get("security").is_some(), needed(operation).is_some(), "{method} {path}");
    }
}

/// Clients that are generated from it call their functions by these.
#[tokio::test]
async fn each_operation_has_a_name_of_its_own() {
    let document = document(&Desk::new()).await;
    let operations = operations(&document);
    let ids: BTreeSet<_> = operations.iter().map(|(_, _, says)| says["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), operations.len());
    assert!(ids.contains("getCallsByIdRecording") && ids.contains("putConfiguration"), "{ids:?}");
    assert!(ids.iter().all(|id| id.chars().all(|letter| letter.is_ascii_alphanumeric())), "{ids:?}");
    for (method, path, says) in &operations {
        let tag = says["tags"][0].as_str().unwrap();
        assert!(path.starts_with(&format!("/api/v1/{tag}")), "{method} {path}: {tag}");
    }
}

/// For those who make a client without an engine at hand.
#[tokio::test]
async fn the_copy_of_the_document_is_fresh() {
    let document = document(&Desk::new()).await;
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    let file = crate::project("docs/openapi.json");
    if std::env::var_os("OFFHOOK_BLESS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "docs/openapi.json is stale: OFFHOOK_BLESS=1 cargo test --lib http::tests::document");
}

/// Generators make names of functions and types of it.
#[tokio::test]
async fn names_and_formats_are_those_that_generators_know() {
    let document = document(&Desk::new()).await;
    let names: Vec<_> = document["components"]["schemas"].as_object().unwrap().keys().collect();
    assert!(!names.iter().any(|name| name.ends_with(|end: char| end.is_ascii_digit())), "two of a name: {names:?}");
    let text = document.to_string();
    for format in ["uint", "uint8", "uint16", "uint32", "uint64"] {
        assert!(!text.contains(&format!("\"format\":\"{format}\"")), "{format}");
    }
    let of = |method: &str, path: &str| document["paths"][path][method].clone();
    let body =
        of("post", "/api/v1/tenants/{tenant}/tools")["requestBody"]["content"]["application/json"]["schema"].clone();
    let definition = &document["components"]["schemas"][body["$ref"].as_str().unwrap().rsplit('/').next().unwrap()];
    assert_eq!(definition["required"], json!(["name", "description"]), "{definition}");
    let required = |name: &str| document["components"]["schemas"][name]["required"].to_string();
    // What an answer always has, also where a request may leave it out.
    assert!(
        required("Verdict").contains("problems") && required("Row").contains("caller_number"),
        "{}",
        required("Row")
    );
    assert_eq!(required("Refused"), r#"["error"]"#, "a body that is no JSON is told without a verdict");
    assert!(!required("Draft").contains("live") && required("Draft").contains("definition"), "{}", required("Draft"));
    let parameters = of("get", "/api/v1/calls")["parameters"].clone();
    let reason = parameters.as_array().unwrap().iter().find(|one| one["name"] == "reason").unwrap()["schema"].clone();
    assert!(reason["enum"].as_array().unwrap().contains(&json!("transfer_failed")), "{reason}");
}

/// 401 for nobody and 403 for whose role does not suffice, and no answer to anybody that the document does not know.
#[tokio::test]
async fn each_operation_answers_each_role_as_the_document_says() {
    let desk = Desk::new();
    let record = history::record(1);
    Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap().put(std::slice::from_ref(&record)).unwrap();
    let call = |path: &str| if path.contains("/live/") { desk.engine.calls.active[0].call.id } else { record.id };
    for (method, path, operation) in operations(&document(&desk).await) {
        let place = path.replace("{id}", &call(path).to_string()).replace("{server}", "clock");
        let place = place.replace("{tenant}", "clinic").replace("{tool}", "book_visit").replace("{kept}", "nothing");
        let place = place.replace("{token}", "nothing");
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        for role in [None, Some(Role::Viewer), Some(Role::Operator), Some(Role::Admin)] {
            let login = match role {
                Some(role) => Some(desk.log_in(role).await),
                None => None,
            };
            let headers = login.iter().flat_map(|login| [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)]);
            let answer = ask(&desk.router, method.clone(), &place, &headers.collect::<Vec<_>>()).await;
            let status = answer.status;
            let is_known = operation["responses"].get(status.as_str()).is_some();
            assert!(is_known, "{method} {path} by {role:?}: {status} is not in the document: {}", answer.text);
            let refused = match (needed(operation), role) {
                (Some(_), None) => Some(StatusCode::UNAUTHORIZED),
                (Some(needed), Some(role)) if role < needed => Some(StatusCode::FORBIDDEN),
                _ => None,
            };
            let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            assert_eq!(is_refused.then_some(status), refused, "{method} {path} by {role:?}: {}", answer.text);
        }
    }
}

/// The value of an attribute, in the text of a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split_once(&format!(" {name}=\""))?.1.split('"').next()?;
    Some(value.replace("&amp;", "&"))
}

/// The address in the list of all that a page asks for.
fn address(method: &str, place: &str) -> String {
    let place = place.split(['?', '#']).next().unwrap_or_default();
    let given: Vec<&str> = place.split('/').collect();
    let is_it = |path: &str| {
        let parts: Vec<&str> = path.split('/').collect();
        let fits = |(part, given): (&&str, &&str)| part == given || part.starts_with('{');
        parts.len() == given.len() && parts.iter().zip(&given).all(fits)
    };
    let mut all: Vec<_> = TABLE.iter().filter(|(known, path, _)| *known == method && is_it(path)).collect();
    all.sort_by_key(|(_, path, _)| path.matches('{').count());
    let (_, path, _) = all.first().unwrap_or_else(|| panic!("{method} {place} leads nowhere"));
    format!("{method} {path}")
}

/// What the forms and scripts of a page ask for: addresses, and what their buttons say.
fn asked_for(page: &str) -> BTreeSet<(String, String)> {
    let mut asked = BTreeSet::new();
    for form in page.split("<form").skip(1) {
        let form = form.split("</form>").next().unwrap();
        let tags: Vec<&str> = form.split('<').collect();
        let method = attribute(tags[0], "method").unwrap_or_else(|| "get".into()).to_uppercase();
        let to = address(&method, &attribute(tags[0], "action").unwrap());
        let actions = tags.iter().filter(|tag| attribute(tag, "name").as_deref() == Some("action"));
        let mut actions: Vec<_> =
            actions.map(|tag| (attribute(tag, "formaction"), attribute(tag, "value").unwrap())).collect();
        if actions.is_empty() {
            actions.push((None, String::new()));
        }
        asked.extend(actions.into_iter().map(|(other, action)| match other {
            Some(other) => (address(&method, &other), action),
            None => (to.clone(), action),
        }));
    }
    for tag in page.split('<').filter(|tag| !tag.starts_with("script")) {
        let sources = ["data-stream", "data-fresh", "data-schema", "src"].into_iter();
        let places = sources.filter_map(|name| attribute(tag, name)).filter(|place| !place.starts_with("/assets/"));
        asked.extend(places.map(|place| (address("GET", &place), String::new())));
    }
    asked
}

/// Each page as an admin sees it, with something to do on it, and the log-in.
async fn pages(desk: &Desk, login: &Login) -> Vec<String> {
    let cookie = ("cookie", &*login.cookie);
    let csrf = ("x-csrf-token", &*login.csrf);
    let json = ("content-type", "application/json");
    let version = ask(&desk.router, Method::GET, "/api/v1/configuration", &[cookie]).await.json();
    let version = format!("\"{}\"", version["version"].as_str().unwrap());
    let text = json!({ "text": format!("{FILE}# another one\n") }).to_string();
    let headers = [cookie, csrf, json, ("if-match", &*version)];
    let published = send(&desk.router, Method::PUT, "/api/v1/configuration", &headers, Body::from(text)).await;
    assert_eq!(published.status, StatusCode::OK, "{}", published.text);
    let versions = ask(&desk.router, Method::GET, "/api/v1/configuration/versions", &[cookie]).await.json();
    let tool =
        json!({ "name": "kept", "description": "Does.", "actions": [{ "type": "respond", "message": "Done." }] });
    let made = desk.post("/api/v1/tenants/clinic/tools", &[cookie, csrf, json], tool.to_string()).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    desk.accounts.add_token("wallboard", Role::Viewer, Some("ada")).unwrap();
    let record = history::record(1);
    Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap().put(std::slice::from_ref(&record)).unwrap();
    let mut pages = vec![ask(&desk.router, Method::GET, "/login", &[]).await.text];
    for place in [
        "/",
        &format!("/live/{}", desk.engine.calls.active[0].call.id),
        "/history",
        &format!("/history/{}", record.id),
        "/contexts",
        &format!("/contexts/versions/{}", versions[1]["id"].as_str().unwrap()),
        "/providers",
        "/tools",
        "/tools/book_visit?tenant=clinic",
        "/tool-editor?tenant=clinic&tool=kept",
        "/mcp",
        "/mcp/editor?server=clock",
        "/system",
    ] {
        let page = ask(&desk.router, Method::GET, place, &[cookie]).await;
        assert_eq!(page.status, StatusCode::OK, "{place}: {}", page.text);
        pages.push(page.text);
    }
    for form in ["action=look&id=rooms&enabled=yes&transport=stdio&command=sh", "action=look_remove&server=clock"] {
        let form_type = ("content-type", "application/x-www-form-urlencoded");
        let shown = desk.post("/mcp/editor", &[cookie, csrf, form_type], form.into()).await;
        assert_eq!(shown.status, StatusCode::OK, "{form}: {}", shown.text);
        pages.push(shown.text);
    }
    desk.engine.draining.store(true, Ordering::SeqCst);
    pages.push(ask(&desk.router, Method::GET, "/system", &[cookie]).await.text);
    pages
}

#[tokio::test]
async fn everything_that_the_page_does_the_api_does_as_well() {
    let folder = tempfile::TempDir::new().unwrap();
    let tools = [("clinic".to_owned(), folder.path().join("clinic"))];
    let desk = Desk::with(|site| site.tools = Arc::new(tools::store(tools.into())));
    fs::write(&desk.loader.file, FILE).unwrap();
    *desk.engine.since.lock().unwrap() = |calls| calls.active[0].call.written = true;
    let document = document(&desk).await;
    let known: BTreeSet<_> = operations(&document).iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    for (page, action, same) in SAME {
        for operation in *same {
            assert!(known.contains(*operation), "{page} {action}: {operation} is not in the document");
        }
        assert!(!same.is_empty(), "{page} {action}");
    }
    // Each address of the page has its row, and each row an address.
    let addresses = TABLE.iter().map(|(method, path, _)| format!("{method} {path}"));
    let addresses: BTreeSet<_> = addresses
        .filter(|address| !address.contains(" /api/"))
        .filter(|address| !NO_PAGES.contains(&&**address) && !NO_ACTION.contains(&&**address))
        .collect();
    assert_eq!(addresses, SAME.iter().map(|(page, ..)| (*page).to_owned()).collect());
    // So does each form and each script, with each of its buttons.
    let login = desk.log_in(Role::Admin).await;
    let asked: BTreeSet<_> = pages(&desk, &login).await.iter().flat_map(|page| asked_for(page)).collect();
    let asked: BTreeSet<_> = asked.iter().map(|(page, action)| (&**page, &**action)).collect();
    let rows: BTreeSet<_> = SAME.iter().map(|&(page, action, _)| (page, action)).collect();
    let by_the_page = |(page, _): &&(&str, &str)| !page.contains(" /api/");
    let missing: Vec<_> = asked.iter().filter(by_the_page).filter(|asked| !rows.contains(*asked)).collect();
    assert!(missing.is_empty(), "no operation is named for {missing:?}");
    let buttons: Vec<_> = rows.iter().filter(|(page, _)| page.starts_with("POST")).collect();
    let unseen: Vec<_> = buttons.iter().filter(|row| !asked.contains(**row)).collect();
    assert!(unseen.is_empty(), "no page has a button for {unseen:?}");
}
