//! MCP servers in the configuration file: added, changed and removed, on the page and by the API, and nothing else touched.

use super::{access::Desk, *};
use serde_json::Value;
use std::fs;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const FILE: &str = "\
providers: { a: { scripted: { script: [silence] } } }  # of the town
mcp:
  servers:
    # What the weather is like.
    weather-station:
      command: [sh, -c, exit]
      env: { KEY: s3cret, AGENT: \"${AGENT:-town}\" }
      defaults: { access: public_read }
contexts:
  sales: { prompt: Test, provider: a }
";

/// With this file.
fn desk() -> Desk {
    let desk = Desk::new();
    fs::write(&desk.loader.file, FILE).unwrap();
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
    desk.post("/mcp/editor", &[("cookie", &login.cookie), FORM], body.finish()).await
}

async fn program(desk: &Desk, method: Method, id: &str, body: &Value, more: &[(&str, &str)]) -> Answer {
    let token = format!("Bearer {}", access::TOKEN);
    let headers = [&[("authorization", &*token), ("content-type", "application/json")], more].concat();
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    send(&desk.router, method, &format!("/api/v1/mcp/servers/{id}"), &headers, body).await
}

/// The hidden fields of the form that publishes what was shown.
fn shown_fields(page: &str) -> Vec<(String, String)> {
    let section =
        page.split(r#"id="proposal""#).nth(1).and_then(|rest| rest.split("</section>").next()).unwrap_or_default();
    let plain =
        |text: &str| text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let fields = section.split(r#"<input type="hidden" name=""#).skip(1).filter_map(|field| {
        let (name, rest) = field.split_once(r#"" value=""#)?;
        Some((name.to_owned(), plain(rest.split('"').next()?)))
    });
    fields.filter(|(name, _)| name != "csrf").collect()
}

/// M8: the page adds a server, and what is wrong is told beside its field.
#[tokio::test]
async fn a_server_is_added_with_a_form_after_its_difference_was_shown() {
    let desk = desk();
    assert!(get(&desk, Role::Admin, "/mcp").await.text.contains("Add a server"));
    assert!(!get(&desk, Role::Operator, "/mcp").await.text.contains("/mcp/editor"));
    let wrong = [
        ("action", "look"),
        ("id", "rooms"),
        ("enabled", "yes"),
        ("restart", "yes"),
        ("transport", "http"),
        ("url", "ftp://rooms.example"),
        ("timeout_ms", "soon"),
        ("command", "sh"),
        ("bearer_token", "${NOT_SET}"),
    ];
    let told = send_form(&desk, &wrong).await;
    assert_eq!(told.status, StatusCode::UNPROCESSABLE_ENTITY);
    for field in ["url", "timeout_ms", "bearer_token"] {
        assert!(told.text.contains(&format!(r#"id="{field}-wrong""#)), "{field}: {}", told.text);
    }
    let right = [
        ("action", "look"),
        ("id", "rooms"),
        ("enabled", "yes"),
        ("restart", "yes"),
        ("transport", "stdio"),
        ("command", "sh\n-c\nexit"),
        ("env", "ROOM=7"),
        ("access", "write"),
        ("timeout_ms", "5000"),
    ];
    let looked = send_form(&desk, &right).await;
    assert_eq!(looked.status, StatusCode::OK, "{}", looked.text);
    assert!(looked.text.contains("+    rooms:") && looked.text.contains("This is what changes"), "{}", looked.text);
    assert_eq!(desk.loader.text(), FILE, "nothing is written yet");
    let fields = shown_fields(&looked.text);
    let mut fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    fields.push(("action", "publish"));
    let published = send_form(&desk, &fields).await;
    assert_eq!((published.status, &published.headers["location"]), (StatusCode::SEE_OTHER, &"/mcp".parse().unwrap()));
    let block = "    rooms:\n      transport: stdio\n      command: [sh, \"-c\", exit]\n      env:\n        ROOM: \"7\"\n      \
                 defaults:\n        access: write\n        timeout_ms: 5000\n";
    assert_eq!(desk.loader.text(), FILE.replace("contexts:", &format!("{block}contexts:")));
    let again = send_form(&desk, &right).await;
    assert!(
        again.status == StatusCode::CONFLICT && again.text.contains("another server has this name"),
        "{}",
        again.text
    );
}

/// M8, M32, M33: the page edits and removes a server. Values of the environment are never shown; who sends the mask back keeps them.
#[tokio::test]
async fn a_server_is_changed_without_its_secrets_being_shown_and_removed() {
    let desk = desk();
    let page = get(&desk, Role::Admin, "/mcp/editor?server=weather_station").await.text;
    assert!(page.contains("KEY=***") && page.contains("AGENT=***") && !page.contains("s3cret"), "{page}");
    let fields = [
        ("action", "look"),
        ("server", "weather-station"),
        ("restart", "yes"),
        ("transport", "stdio"),
        ("command", "sh"),
        ("env", "KEY=***\nNEW=${NEW_ONE:-x}"),
        ("access", "public_read"),
    ];
    let looked = send_form(&desk, &fields).await;
    let fields = shown_fields(&looked.text);
    let mut fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    fields.push(("action", "publish"));
    assert_eq!(send_form(&desk, &fields).await.status, StatusCode::SEE_OTHER, "{}", looked.text);
    let text = desk.loader.text();
    assert!(text.contains("KEY: s3cret\n") && text.contains("enabled: false\n") && !text.contains("***"), "{text}");
    assert!(text.starts_with(FILE.split("      command").next().unwrap()) && text.ends_with("provider: a }\n"));
    let gone = [("action", "look_remove"), ("server", "weather-station")];
    let looked = send_form(&desk, &gone).await;
    let fields = shown_fields(&looked.text);
    let based_on = &fields.iter().find(|(name, _)| name == "based_on").unwrap().1;
    let remove = [("action", "remove"), ("server", "weather-station"), ("based_on", based_on)];
    assert_eq!(send_form(&desk, &remove).await.status, StatusCode::SEE_OTHER, "{}", looked.text);
    assert!(!desk.loader.text().contains("weather-station") && desk.loader.text().contains("# What the weather"));
    assert_eq!(send_form(&desk, &remove).await.status, StatusCode::NOT_FOUND);
    assert_eq!(get(&desk, Role::Admin, "/mcp/editor?server=weather_station").await.status, StatusCode::NOT_FOUND);
}

/// Issue 7: two admins editing at once.
#[tokio::test]
async fn what_was_shown_is_published_or_nothing_is() {
    let desk = desk();
    let fields = [
        ("action", "look"),
        ("id", "rooms"),
        ("enabled", "yes"),
        ("restart", "yes"),
        ("transport", "stdio"),
        ("command", "sh"),
    ];
    let fields = shown_fields(&send_form(&desk, &fields).await.text);
    let mut fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    fields.push(("action", "publish"));
    let other = format!("{FILE}# somebody else's\n");
    fs::write(&desk.loader.file, &other).unwrap();
    let late = send_form(&desk, &fields).await;
    assert_eq!((late.status, desk.loader.text()), (StatusCode::CONFLICT, other), "{}", late.text);
    assert!(late.text.contains("has changed meanwhile") && late.text.contains(r#"value="rooms""#), "{}", late.text);
    let unlooked = [("action", "publish"), ("id", "rooms"), ("transport", "stdio"), ("command", "sh")];
    assert_eq!(send_form(&desk, &unlooked).await.status, StatusCode::CONFLICT, "nothing was shown");
}

#[tokio::test]
async fn a_file_that_is_written_in_another_way_is_left_to_people() {
    let desk = Desk::new();
    let flow = FILE.split("mcp:").next().unwrap().to_owned()
        + "mcp: { servers: {} }\ncontexts:\n  sales: { prompt: Test, provider: a }\n";
    fs::write(&desk.loader.file, &flow).unwrap();
    let refused = program(&desk, Method::PUT, "rooms", &json!({ "command": ["sh"] }), &[]).await;
    assert_eq!((refused.status, desk.loader.text()), (StatusCode::CONFLICT, flow));
    assert!(refused.text.contains("the section mcp is written in braces"), "{}", refused.text);
    let form = [("action", "look"), ("id", "rooms"), ("transport", "stdio"), ("command", "sh")];
    let told = send_form(&desk, &form).await;
    assert!(
        told.status == StatusCode::CONFLICT && told.text.contains("The section mcp is written in braces"),
        "{}",
        told.text
    );
}

/// M8: the same for programs.
#[tokio::test]
async fn programs_write_read_and_remove_servers() {
    let desk = desk();
    let read = program(&desk, Method::GET, "weather_station", &Value::Null, &[]).await;
    assert_eq!(read.json()["server"]["env"], json!({ "KEY": "***", "AGENT": "***" }));
    let tag = read.headers["etag"].to_str().unwrap();
    let made = program(&desk, Method::PUT, "rooms", &json!({ "command": ["sh"] }), &[("if-match", tag)]).await;
    assert_eq!((made.status, &made.json()["generation"]), (StatusCode::OK, &json!(2)), "{}", made.text);
    let late = program(&desk, Method::DELETE, "rooms", &Value::Null, &[("if-match", tag)]).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    let wrong = program(&desk, Method::PUT, "rooms", &json!({ "comand": ["sh"], "cwd": "/nowhere" }), &[]).await;
    let problems = wrong.json()["problems"].as_array().map_or(0, Vec::len);
    assert!(wrong.status == StatusCode::UNPROCESSABLE_ENTITY && problems >= 2, "{}", wrong.text);
    let token = json!({ "transport": "http", "url": "https://x.example/mcp", "bearer_token": "s3cret" });
    let token = program(&desk, Method::PUT, "rooms", &token, &[]).await;
    assert!(token.status == StatusCode::UNPROCESSABLE_ENTITY && !token.text.contains("s3cret"), "{}", token.text);
    let mask = program(&desk, Method::PUT, "rooms", &json!({ "command": ["sh"], "env": { "A": "***" } }), &[]).await;
    assert_eq!(mask.json()["problems"][0]["path"], "mcp.servers.rooms.env.A", "{}", mask.text);
    assert_eq!(program(&desk, Method::DELETE, "rooms", &Value::Null, &[]).await.status, StatusCode::OK);
    assert_eq!(desk.loader.text(), FILE);
    assert_eq!(program(&desk, Method::DELETE, "rooms", &Value::Null, &[]).await.status, StatusCode::NOT_FOUND);
}
