//! Tools: the registry, and declarative ones made, changed, tried and deleted, on the page and by the API.

use super::{access::Desk, *};
use crate::{
    store::{FileToolStore, ToolRegistry, Tools},
    tool::declarative::Definition,
};
use serde_json::Value;
use std::path::PathBuf;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// Stands in for the engine behind the store.
struct Workbench;

impl ToolRegistry for Workbench {
    fn check(&self, _: &str, definition: &Value) -> Result<(), Vec<Problem>> {
        let told = |problem: crate::tool::declarative::DefinitionProblem| Problem {
            hint: problem.hint,
            ..Problem::new(problem.path, problem.message)
        };
        let read = Definition::read(definition, &Arc::default());
        read.map(drop).map_err(|problems| problems.into_iter().map(told).collect())
    }

    fn dry_run(&self, tenant: &str, definition: Value, trial: Trial) -> crate::http::Answer<Value> {
        let secret = definition["actions"][0]["headers"]["Authorization"].clone();
        let step = json!({ "action": "actions[0]", "type": "respond", "success": true, "spoken": "Hello <you>." });
        let outcome = json!({ "ok": true, "message": format!("{tenant} {}", trial.params["day"]), "data": null });
        let kept_secret = secret == "Bearer s3cret";
        let call = json!({ "action": "actions[1]", "type": "api_call", "success": true });
        let missing: &[&str] = if trial.live { &[] } else { &["result.body.<from>"] };
        let trace = json!({
            "live": trial.live, "outcome": outcome, "trace": [step, call], "missing": missing, "kept_secret": kept_secret,
        });
        Box::pin(async move { Ok(trace) })
    }

    fn publish(&self, _: &str, _: Tools) {}

    fn is_locked(&self, tenant: &str) -> bool {
        tenant == "locked"
    }

    fn is_used(&self, _: &str, name: &str) -> bool {
        name == "listed"
    }

    fn is_reserved(&self, _: &str) -> bool {
        false
    }
}

pub fn store(folders: BTreeMap<String, PathBuf>) -> FileToolStore {
    FileToolStore::open(folders, Arc::new(Workbench)).unwrap()
}

fn tool(name: &str, kind: &'static str, access: &'static str) -> RegisteredTool {
    RegisteredTool {
        name: name.into(),
        kind,
        server: (kind == "mcp").then(|| "clock".into()),
        server_tool: None,
        description: format!("Does <{name}>. And more of it."),
        contexts: vec!["front".into()],
        policy: ToolPolicyView {
            version: "1.2.0".into(),
            category: "action",
            side_effects: "writes",
            idempotent: false,
            access,
            risk_domain: "customer_support",
            taken_for_private: false,
            requires_confirmation: true,
            standing_approval: false,
            confirm: Some("Book {day}?".into()),
            requires_authorization: "none",
            authenticates: None,
            modes: vec!["voice"],
            unknown_arguments: "drop",
            secret_arguments: vec!["pin".into()],
            timeout_ms: 5_000,
            latency_budget_ms: 3_000,
            wait: true,
        },
        parameters: json!({ "type": "object", "required": ["day"],
            "properties": { "day": { "type": "string", "description": "As 2026-11-23." } } }),
        figures: ToolFigures {
            outcomes: [("done".to_owned(), 7), ("timeout".to_owned(), 2)].into(),
            median_ms: Some(420),
            mostly_ms: Some(1_300),
        },
    }
}

pub fn registries() -> Vec<TenantTools> {
    let registry = |tenant: Option<&str>, tools| TenantTools {
        tenant: tenant.map(Into::into),
        version: "1.0.00c0ffee".into(),
        tools,
    };
    let built_in = || tool("hangup_call", "builtin", "write");
    vec![
        registry(None, vec![built_in()]),
        registry(
            Some("clinic"),
            vec![tool("book_visit", "declarative", "write"), built_in(), tool("mcp_clock_now", "mcp", "unknown")],
        ),
    ]
}

pub fn audits(tenant: Option<&str>, tool: &str) -> Vec<AuditLine> {
    let Value::Object(audit) =
        json!({ "toolId": tool, "duration": 120, "ok": false, "errorType": "TIMEOUT", "argument_keys": ["day"] })
    else {
        return vec![];
    };
    let line = AuditLine { at: "2026-11-20T09:30:00Z".parse().unwrap(), audit };
    if tenant == Some("clinic") { vec![line] } else { vec![] }
}

/// With a clinic whose tools are in a folder of the test's own.
fn desk() -> Desk {
    let folder = tempfile::TempDir::new().unwrap();
    let tenants = ["clinic", "locked"].map(|tenant| (tenant.to_owned(), folder.path().join(tenant)));
    let desk = Desk::with(|site| site.tools = Arc::new(store(tenants.into())));
    // It is looked at through the store alone, which has its folders open by path: they live as long as the process's tests.
    std::mem::forget(folder);
    desk
}

async fn get(desk: &Desk, role: Role, path: &str) -> Answer {
    let login = desk.log_in(role).await;
    ask(&desk.router, Method::GET, path, &[("cookie", &login.cookie)]).await
}

async fn send_form(desk: &Desk, fields: &[(&str, &str)]) -> Answer {
    let login = desk.log_in(Role::Admin).await;
    let mut body = url::form_urlencoded::Serializer::new(String::new());
    body.append_pair("csrf", &login.csrf).extend_pairs(fields);
    desk.post("/tool-editor", &[("cookie", &login.cookie), FORM], body.finish()).await
}

/// A request of a program with a body of JSON.
async fn program(desk: &Desk, method: Method, path: &str, body: &Value, more: &[(&str, &str)]) -> Answer {
    let token = format!("Bearer {}", access::TOKEN);
    let headers = [&[("authorization", &*token), ("content-type", "application/json")], more].concat();
    send(&desk.router, method, path, &headers, Body::from(body.to_string())).await
}

const KEPT: &str = "/api/v1/tenants/clinic/tools";
const ACTIONS: &str = r#"[{ "type": "respond", "message": "Booked." }]"#;

fn definition(name: &str) -> Value {
    json!({ "name": name, "description": "Books a visit.", "actions": [{ "type": "respond", "message": "Booked." }] })
}

async fn keep(desk: &Desk, definition: &Value) {
    let made = program(desk, Method::POST, KEPT, definition, &[]).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
}

/// The value of a hidden field of a form.
fn hidden(page: &str, name: &str) -> String {
    let start = format!(r#"name="{name}" value=""#);
    page.split(&start).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_registry_shows_each_tool_with_its_kind_its_access_and_its_figures() {
    let desk = desk();
    let page = get(&desk, Role::Viewer, "/tools").await.text;
    for shown in
        ["1.0.00c0ffee", "book_visit", "declarative", "MCP server", "built in", "9 <", "(2 not done)", "420 ms"]
    {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(page.contains("The last calls of all tools") && page.contains("made_up"), "refused calls as well: {page}");
    assert!(page.contains("Does &lt;book_visit&gt;.") && !page.contains("And more"), "one sentence, as text");
    assert!(!page.contains("New declarative tool"), "viewers make none");
    assert!(get(&desk, Role::Admin, "/tools?tenant=clinic").await.text.contains("New declarative tool"));
    assert!(!get(&desk, Role::Admin, "/tools?tenant=").await.text.contains("book_visit"), "another tenant's tool");
    let found = get(&desk, Role::Viewer, "/tools?tenant=clinic&search=CLOCK").await.text;
    assert!(found.contains("mcp_clock_now") && !found.contains("hangup_call"), "{found}");
    assert!(get(&desk, Role::Viewer, "/tools?search=nothing+like+it").await.text.contains("No tool is like that."));
}

#[tokio::test]
async fn a_tool_shows_its_schema_its_policy_and_its_last_calls() {
    let desk = desk();
    let page = get(&desk, Role::Viewer, "/tools/book_visit?tenant=clinic").await.text;
    for shown in ["As 2026-11-23.", "Book {day}?", "customer support", "timeout", "argument_keys", "5.0 s", "pin"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(!page.contains("/tool-editor"), "viewers edit nothing");
    assert!(
        get(&desk, Role::Admin, "/tools/book_visit?tenant=clinic").await.text.contains("/tool-editor?tenant=clinic")
    );
    let built_in = get(&desk, Role::Admin, "/tools/hangup_call?tenant=clinic").await.text;
    assert!(!built_in.contains("/tool-editor"), "built-in tools are not edited");
    let unclassified = get(&desk, Role::Viewer, "/tools/mcp_clock_now?tenant=clinic").await.text;
    assert!(unclassified.contains("the gate lets no call of it run"), "{unclassified}");
    for nothing in ["/tools/nothing?tenant=clinic", "/tools/nothing", "/tools/book_visit?tenant=hotel"] {
        assert_eq!(get(&desk, Role::Viewer, nothing).await.status, StatusCode::NOT_FOUND, "{nothing}");
    }
}

#[tokio::test]
async fn the_registry_is_there_for_programs() {
    let desk = desk();
    let all = get(&desk, Role::Viewer, "/api/v1/registry").await.json();
    assert_eq!(all["registries"].as_array().unwrap().len(), 2);
    let found = get(&desk, Role::Viewer, "/api/v1/registry?tenant=clinic&search=visit").await.json();
    assert_eq!(found["registries"][0]["tools"][0]["policy"]["access"], "write");
    let one = get(&desk, Role::Viewer, "/api/v1/registry/book_visit?tenant=clinic").await.json();
    assert_eq!(
        (&one["registry_version"], &one["audit"][0]["audit"]["duration"]),
        (&json!("1.0.00c0ffee"), &json!(120))
    );
    // The only tenant that has it need not be named.
    assert_eq!(get(&desk, Role::Viewer, "/api/v1/registry/book_visit").await.json(), one);
}

/// Issue 7: all mistakes at once, each beside its field; what was written is not lost.
#[tokio::test]
async fn a_definition_with_mistakes_is_told_all_of_them_and_kept_once_they_are_mended() {
    let desk = desk();
    let new = get(&desk, Role::Admin, "/tool-editor?tenant=clinic").await.text;
    assert!(new.contains(r#"name="action" value="save""#) && !new.contains("Delete this tool"), "{new}");
    assert!(new.contains(r#"data-kept="saved""#), "the script asks once something is written: {new}");
    let wrong_actions = r#"[{ "type": "api_call", "ulr": "https://x.example/" }, { "type": "explode" }]"#;
    let fields = [
        ("tenant", "clinic"),
        ("action", "save"),
        ("name", "Book Visit"),
        ("description", ""),
        ("actions", wrong_actions),
        ("policy", r#"{ "access": "sometimes" }"#),
    ];
    let told = send_form(&desk, &fields).await;
    assert_eq!(told.status, StatusCode::UNPROCESSABLE_ENTITY);
    for path in ["name", "description", "actions[0].ulr", "actions[1].type", "policy.access"] {
        assert!(told.text.contains(&format!("<code>{path}</code>")), "{path}: {}", told.text);
    }
    assert!(told.text.contains(r##"href="#actions""##) && told.text.contains(r#"aria-invalid="true""#));
    assert!(told.text.contains("Book Visit") && told.text.contains("explode"), "what was written stands there still");
    assert!(told.text.contains(r#"data-kept="unsaved""#), "and is not left without a question");
    let broken =
        send_form(&desk, &[("tenant", "clinic"), ("action", "save"), ("actions", "[{"), ("policy", "{,}")]).await;
    assert_eq!(broken.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        broken.text.matches("cannot be read as JSON").count() == 4,
        "both, in the summary and beside: {}",
        broken.text
    );
    let mended = [
        ("tenant", "clinic"),
        ("action", "save"),
        ("name", "book_visit"),
        ("description", "Books."),
        ("actions", ACTIONS),
    ];
    let kept = send_form(&desk, &mended).await;
    assert_eq!(
        (kept.status, &kept.headers["location"]),
        (StatusCode::SEE_OTHER, &"/tools/book%5Fvisit?tenant=clinic".parse().unwrap()),
        "{}",
        kept.text
    );
    let edited = get(&desk, Role::Admin, "/tool-editor?tenant=clinic&tool=book_visit").await.text;
    assert!(edited.contains("Booked.") && edited.contains("Delete this tool"), "{edited}");
    let again = send_form(&desk, &mended).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert!(again.text.contains("A tool of this name exists"), "{}", again.text);
}

/// Issue 7: two admins editing at once.
#[tokio::test]
async fn of_two_admins_who_edit_at_once_the_second_is_told_and_loses_nothing() {
    let desk = desk();
    keep(&desk, &definition("book_visit")).await;
    let page = get(&desk, Role::Admin, "/tool-editor?tenant=clinic&tool=book_visit").await.text;
    let version = hidden(&page, "version");
    let fields = |description| {
        [
            ("tenant", "clinic"),
            ("tool", "book_visit"),
            ("version", &*version),
            ("action", "save"),
            ("description", description),
            ("actions", ACTIONS),
        ]
    };
    assert_eq!(send_form(&desk, &fields("The first.")).await.status, StatusCode::SEE_OTHER);
    let second = send_form(&desk, &fields("The second.")).await;
    assert_eq!(second.status, StatusCode::CONFLICT);
    assert!(second.text.contains("Somebody else has changed this tool") && second.text.contains("The second."));
    let delete = [("tenant", "clinic"), ("tool", "book_visit"), ("version", &*version), ("action", "delete")];
    assert_eq!(send_form(&desk, &delete).await.status, StatusCode::CONFLICT, "nor is it deleted");
    let kept = program(&desk, Method::GET, &format!("{KEPT}/book_visit"), &json!({}), &[]).await;
    assert_eq!(kept.json()["description"], "The first.");
    let tag = kept.headers["etag"].to_str().unwrap();
    let path = format!("{KEPT}/book_visit");
    let stale = program(&desk, Method::PUT, &path, &definition("book_visit"), &[("if-match", "\"old\"")]).await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED);
    let done = program(&desk, Method::PUT, &path, &definition("book_visit"), &[("if-match", tag)]).await;
    assert!(done.status == StatusCode::NO_CONTENT && done.headers["etag"] != *tag);
}

#[tokio::test]
async fn a_tool_is_deleted_unless_the_configuration_lists_it() {
    let desk = desk();
    for name in ["book_visit", "listed"] {
        keep(&desk, &definition(name)).await;
        let page = get(&desk, Role::Admin, &format!("/tool-editor?tenant=clinic&tool={name}")).await.text;
        let version = hidden(&page, "version");
        let form = [("tenant", "clinic"), ("tool", name), ("version", &*version), ("action", "delete")];
        let answer = send_form(&desk, &form).await;
        if name == "listed" {
            assert_eq!(answer.status, StatusCode::CONFLICT);
            assert!(answer.text.contains("The configuration lists this tool"), "{}", answer.text);
        } else {
            assert_eq!(answer.headers["location"], "/tools?tenant=clinic");
            assert_eq!(
                get(&desk, Role::Admin, "/tool-editor?tenant=clinic&tool=book_visit").await.status,
                StatusCode::NOT_FOUND
            );
        }
    }
    let locked = [("tenant", "locked"), ("action", "save"), ("name", "a"), ("description", "A."), ("actions", "[]")];
    let locked = send_form(&desk, &locked).await;
    assert!(locked.status == StatusCode::CONFLICT && locked.text.contains("Tools are locked"), "{}", locked.text);
}

/// What stands in the form is run, saved or not; a masked secret is the kept one's.
#[tokio::test]
async fn a_dry_run_takes_what_stands_in_the_form() {
    let desk = desk();
    let call =
        json!([{ "type": "api_call", "url": "https://x.example/", "headers": { "Authorization": "Bearer s3cret" } }]);
    keep(&desk, &json!({ "name": "book_visit", "description": "Books.", "actions": call })).await;
    let page = get(&desk, Role::Admin, "/tool-editor?tenant=clinic&tool=book_visit").await.text;
    assert!(page.contains("***") && !page.contains("s3cret"), "{page}");
    let masked = call.to_string().replace("Bearer s3cret", "***");
    let fields = |params| {
        [
            ("tenant", "clinic"),
            ("tool", "book_visit"),
            ("action", "try"),
            ("description", "Books."),
            ("actions", &*masked),
            ("params", params),
        ]
    };
    let run = send_form(&desk, &fields(r#"{ "day": "2026-11-23" }"#)).await;
    assert_eq!(run.status, StatusCode::OK, "{}", run.text);
    for shown in ["It worked.", "clinic &quot;2026-11-23&quot;", "Hello &lt;you&gt;.", "&quot;kept_secret&quot;: true"]
    {
        assert!(run.text.contains(shown), "{shown}: {}", run.text);
    }
    assert!(!run.text.contains("s3cret"));
    let told =
        |text: &str| text.contains("No external service was called") && text.contains("result.body.&lt;from&gt;");
    assert!(told(&run.text), "what is empty for want of a call is told: {}", run.text);
    let live = send_form(&desk, &[&fields(r#"{ "day": 1 }"#)[..], &[("live", "on")]].concat()).await;
    assert!(live.status == StatusCode::OK && !told(&live.text) && !live.text.contains("was called"), "{}", live.text);
    let wrong = send_form(&desk, &fields("[1]")).await;
    assert!(
        wrong.status == StatusCode::UNPROCESSABLE_ENTITY && wrong.text.contains("<code>params</code>"),
        "{}",
        wrong.text
    );
    let draft = json!({ "definition": definition("other"), "params": { "day": 1 } });
    let trace = program(&desk, Method::POST, "/api/v1/tenants/clinic/test", &draft, &[]).await;
    assert_eq!((trace.status, &trace.json()["outcome"]["message"]), (StatusCode::OK, &json!("clinic 1")));
    let bad = json!({ "definition": { "name": "other", "actions": 1 } });
    let bad = program(&desk, Method::POST, "/api/v1/tenants/clinic/test", &bad, &[]).await;
    assert_eq!(bad.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(bad.json()["errors"].as_array().unwrap().len(), 2, "{}", bad.text);
    let kept =
        program(&desk, Method::POST, &format!("{KEPT}/book_visit/test"), &json!({ "params": { "day": 2 } }), &[]).await;
    assert_eq!(kept.json()["outcome"]["message"], "clinic 2");
}

/// Issue 7: uploads of the wrong kind and size.
#[tokio::test]
async fn what_is_no_form_or_too_long_is_refused_in_a_sentence() {
    let desk = desk();
    let login = desk.log_in(Role::Admin).await;
    let session = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)];
    let file = "--x\r\ncontent-disposition: form-data; name=\"f\"; filename=\"a.exe\"\r\n\r\nMZ\r\n--x--\r\n";
    let kind = [session[0], session[1], ("content-type", "multipart/form-data; boundary=x")];
    let upload = desk.post("/tool-editor", &kind, file.into()).await;
    assert_eq!(upload.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(upload.text.contains("not the form of this page"), "{}", upload.text);
    let long = format!("csrf={}&tenant=clinic&action=save&actions={}", login.csrf, "x".repeat(400 * 1024));
    for headers in [&[session[0], FORM][..], &[session[0], session[1], FORM]] {
        let refused = desk.post("/tool-editor", headers, long.clone()).await;
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(refused.text.contains("too long"), "{}", refused.text);
    }
    let large = json!({ "name": "a", "description": "A.", "actions": [], "policy": "x".repeat(200 * 1024) });
    let large = program(&desk, Method::POST, KEPT, &large, &[]).await;
    assert_eq!(
        large.status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "within the limit of a body, beyond that of a definition"
    );
    let unknown = send_form(&desk, &[("tenant", "hotel"), ("action", "save")]).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert_eq!(send_form(&desk, &[("tenant", "clinic")]).await.status, StatusCode::BAD_REQUEST);
}
