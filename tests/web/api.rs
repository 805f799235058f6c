//! The API against its own document: schemathesis asks a running engine whatever the document allows and does not allow.

use super::{TOKEN, TOOL, engine};
use crate::web::kit::{offhook::Offhook, python::python};
use serde_json::{Value, json};
use std::{path::Path, process::Stdio, time::Duration};
use tokio::{process::Command, time::timeout};

/// A few hundred requests, some of which start an MCP server.
const ASKING_MAX: Duration = Duration::from_secs(300);
/// Longer than any pause of a stream that goes on.
const EVENT_MAX: Duration = Duration::from_secs(30);
/// Streams have no end: those of events, and the sound of a call that runs.
const ENDLESS: [&str; 2] = ["/events", "/audio"];
/// In the folder of the test.
const DOCUMENT: &str = "openapi.json";
const REPORT: &str = "asked.har";

/// An address with something in it that is there.
#[derive(Debug)]
struct Known {
    method: String,
    path: String,
}

/// Issue 7: no answer is a failure, and each is as the document says, also to what it does not allow, and where the call, the
/// tool, the server or the version that is asked for is there.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_as_its_document_says() {
    let engine = engine(120).await;
    let (_, mut document) = engine.request("GET", "api/v1/openapi.json", TOKEN, None).await;
    let mut known = give_calls(&engine, &mut document).await;
    assert_eq!(known.len(), 9, "addresses with the id of a call: {known:?}");
    known.extend(give_names(&engine, &mut document).await);
    assert_eq!(known.len(), 9 + 16, "addresses with a name: {known:?}");
    let paths = document["paths"].as_object().expect("addresses").iter();
    let named = paths.filter(|(path, _)| path.contains('{') && !ENDLESS.iter().any(|end| path.ends_with(end)));
    let named: usize = named.map(|(_, operations)| operations.as_object().map_or(0, serde_json::Map::len)).sum();
    assert_eq!(known.len(), named, "each of them is given something that is there");
    std::fs::write(engine.folder().join(DOCUMENT), document.to_string()).expect("the test's own folder");
    let page = format!("http://{}", engine.http());
    ask(engine.folder(), &page).await;
    let report = std::fs::read(engine.folder().join(REPORT)).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("a report in JSON");
    let asked = report["log"]["entries"].as_array().expect("a list");
    for Known { method, path } in known {
        let url = format!("{page}{path}");
        let is_it = |entry: &&Value| {
            let asked = entry["request"]["url"].as_str().unwrap_or_default();
            entry["request"]["method"] == method && asked.split('?').next() == Some(&url)
        };
        let answers: Vec<u64> =
            asked.iter().filter(is_it).filter_map(|entry| entry["response"]["status"].as_u64()).collect();
        // 409: whoever writes cannot be transferred. 403: a token revokes no token.
        let cannot = match &*method {
            "POST" if path.ends_with("/transfer") => Some(409),
            "DELETE" if path.starts_with("/api/v1/tokens/") => Some(403),
            _ => None,
        };
        let met = answers.iter().any(|status| (200..300).contains(status) || cannot == Some(*status));
        assert!(met, "{method} {path} met nothing: {answers:?}");
    }
}

/// Method and path of an operation, what its braces and headers are, and a body.
type Example<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Option<Value>);

/// Something that is there for each address with a name in it, another one where it is changed or deleted.
async fn give_names(engine: &Offhook, document: &mut Value) -> Vec<Known> {
    let made = async |method: &str, path: &str, body: Value| {
        let (status, answer) = engine.request(method, path, TOKEN, Some(&body)).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
    };
    let tool = |name: &str| {
        let mut tool: Value = serde_json::from_str(TOOL).expect("JSON");
        tool["name"] = name.into();
        tool
    };
    for name in ["changed", "deleted"] {
        made("POST", "api/v1/tenants/town/tools", tool(name)).await;
    }
    // Each is a version of the configuration as well.
    let server = json!({ "enabled": false, "command": ["sh"] });
    for name in ["changed", "deleted"] {
        made("PUT", &format!("api/v1/mcp/servers/{name}"), server.clone()).await;
    }
    let (_, now) = engine.request("GET", "api/v1/configuration", TOKEN, None).await;
    let (_, versions) = engine.request("GET", "api/v1/configuration/versions", TOKEN, None).await;
    let version = versions[0]["id"].as_str().expect("a version").to_owned();
    let tools = "/api/v1/tenants/{tenant}/tools";
    let one_tool = "/api/v1/tenants/{tenant}/tools/{tool}";
    let one_server = "/api/v1/mcp/servers/{server}";
    let (given, day) = ([("tenant", "town")], json!({ "day": "2026-11-23" }));
    let of = |name| [("tenant", "town"), ("tool", name)];
    let draft = json!({ "definition": tool("draft"), "params": day });
    let trial = json!({ "params": day });
    let publish = [("kept", version.as_str()), ("If-Match", now["version"].as_str().expect("a version"))];
    let all: [Example<'_>; 16] = [
        ("get", "/api/v1/registry/{tool}", &of("opening_hours"), None),
        ("get", tools, &given, None),
        ("post", tools, &given, Some(tool("made"))),
        ("get", one_tool, &of("opening_hours"), None),
        ("put", one_tool, &of("changed"), Some(tool("changed"))),
        ("delete", one_tool, &of("deleted"), None),
        ("post", "/api/v1/tenants/{tenant}/tools/{tool}/test", &of("opening_hours"), Some(trial)),
        ("post", "/api/v1/tenants/{tenant}/test", &given, Some(draft)),
        ("post", "/api/v1/mcp/{server}/test", &[("server", "weather")], None),
        ("get", one_server, &[("server", "weather")], None),
        ("put", one_server, &[("server", "changed")], Some(server.clone())),
        ("post", "/api/v1/mcp/servers/{server}/check", &[("server", "changed")], Some(server)),
        ("delete", one_server, &[("server", "deleted")], None),
        ("delete", "/api/v1/tokens/{token}", &[("token", "deleted")], None),
        ("get", "/api/v1/configuration/versions/{kept}", &publish[..1], None),
        ("post", "/api/v1/configuration/versions/{kept}/publish", &publish, None),
    ];
    all.into_iter()
        .map(|(method, path, values, body)| {
            let operation = &mut document["paths"][path][method];
            for (name, value) in values {
                let parameters = operation["parameters"].as_array_mut().expect("parameters");
                let parameter = parameters.iter_mut().find(|parameter| parameter["name"] == *name);
                parameter.unwrap_or_else(|| panic!("{method} {path}: no {name}"))["example"] = (*value).into();
            }
            if let Some(body) = body {
                operation["requestBody"]["content"]["application/json"]["example"] = body;
            }
            let with = |path: String, (name, value): &(&str, &str)| path.replace(&format!("{{{name}}}"), value);
            Known { method: method.to_uppercase(), path: values.iter().fold(path.to_owned(), with) }
        })
        .collect()
}

/// Most ids that anybody makes up are nobody's. So the document gets an example for each address that takes one: the id of
/// a call that runs or has ended, another one for each, since some of them end or delete it. Returns these addresses.
async fn give_calls(engine: &Offhook, document: &mut Value) -> Vec<Known> {
    // Calls of this kind have recordings.
    let (_, ended) = engine.request("GET", "api/v1/calls?reason=agent_silent", TOKEN, None).await;
    let mut ended = ended["items"].as_array().expect("a list").iter();
    let mut known = Vec::new();
    for (path, operations) in document["paths"].as_object_mut().expect("addresses") {
        if !path.contains("{id}") || ENDLESS.iter().any(|end| path.ends_with(end)) {
            continue;
        }
        for (method, operation) in operations.as_object_mut().expect("methods") {
            let call = if path.starts_with("/api/v1/live/") {
                let wish = json!({ "context": "library" });
                engine.request("POST", "api/v1/conversations", TOKEN, Some(&wish)).await.1
            } else {
                ended.next().expect("a call that has ended for each address").clone()
            };
            let id = call["id"].as_str().expect("a call");
            let parameter = &mut operation["parameters"][0];
            assert_eq!(parameter["name"], "id", "{path}");
            parameter["example"] = id.into();
            if path.ends_with("/text") {
                operation["requestBody"]["content"]["application/json"]["example"] = json!({ "text": "Good morning." });
            }
            known.push(Known { method: method.to_uppercase(), path: path.replace("{id}", id) });
        }
    }
    known
}

/// Has schemathesis ask everything of this page, and write down what it asked.
async fn ask(folder: &Path, page: &str) {
    let mut command = Command::new(python("schemathesis").with_file_name("schemathesis"));
    command
        .args(["run", DOCUMENT, "--report-har-path", REPORT])
        .args(["--exclude-path-regex", &format!("({})$", ENDLESS.join("|")), "--request-timeout", "10"])
        .args(["--url", page, "--header", &format!("Authorization: Bearer {TOKEN}")])
        .args([
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        ])
        .args([
            "--max-examples",
            "12",
            "--seed",
            "1",
            "--workers",
            "1",
            "--no-color",
            "--phases",
            "examples,coverage,fuzzing",
        ])
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let said = std::fs::File::create(folder.join("said")).expect("the test's own folder");
    command.stdout(said.try_clone().expect("a second handle")).stderr(said);
    let ended = timeout(ASKING_MAX, command.status()).await;
    let said = std::fs::read_to_string(folder.join("said")).unwrap_or_default();
    assert!(matches!(ended, Ok(Ok(status)) if status.success()), "{ended:?}\n{said}");
}

/// The events of a stream, each with its name and its data, as they come.
struct Events {
    answer: reqwest::Response,
    /// What came and was not read; a piece may end within a letter.
    rest: Vec<u8>,
}

impl Events {
    async fn of(engine: &Offhook, path: &str) -> Self {
        let url = format!("http://{}{path}", engine.http());
        let answer = reqwest::Client::new().get(url).bearer_auth(TOKEN).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        Self { answer, rest: Vec::new() }
    }

    /// `None`: it has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|end| end == b"\n\n") {
                let event: Vec<u8> = self.rest.drain(..end + 2).collect();
                let event = String::from_utf8(event).expect("text");
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                // Others keep the connection.
                let Some(name) = field("event:") else { continue };
                let data = serde_json::from_str(field("data:").expect("data")).expect("JSON");
                return Some((name.to_owned(), data));
            }
            let piece = timeout(EVENT_MAX, self.answer.chunk()).await.expect("something comes, or it ends");
            self.rest.extend(piece.expect("a stream that does not break")?);
        }
    }
}

/// Issue 7: what a running engine tells of a call, from its beginning to its end, against the document.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_as_the_document_says() {
    let engine = engine(1).await;
    let (_, document) = engine.request("GET", "api/v1/openapi.json", TOKEN, None).await;
    let held = |path: &str, (name, data): &(String, Value)| {
        let answer = &document["paths"][path]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"];
        let events = answer["oneOf"].as_array().expect("events").iter();
        let mut known = events.filter(|event| event["properties"]["event"]["const"] == **name);
        let known = known.next().unwrap_or_else(|| panic!("{path}: {name} is not in the document"));
        let mut schema = known["properties"]["data"]["contentSchema"].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let wrong = validator.validate(data).err().map(|error| error.to_string());
        assert_eq!(wrong, None, "{path} {name}: {data}");
    };
    let wish = json!({ "context": "books" });
    let (status, call) = engine.request("POST", "api/v1/conversations", TOKEN, Some(&wish)).await;
    assert_eq!(status, 201, "{call}");
    let id = call["id"].as_str().expect("a call");
    let mut all = Events::of(&engine, "/api/v1/events").await;
    let now = all.next().await.expect("an event");
    held("/api/v1/events", &now);
    let mut one = Events::of(&engine, &format!("/api/v1/live/{id}/events")).await;
    let mut told = Vec::new();
    while let Some(event) = one.next().await {
        held("/api/v1/live/{id}/events", &event);
        if event.0 == "story" && event.1.to_string().contains("Which book?") {
            engine.request("POST", &format!("api/v1/live/{id}/hangup"), TOKEN, None).await;
        }
        told.push(event.0);
    }
    assert_eq!(told.last().map(String::as_str), Some("ended"), "{told:?}");
    assert!(["facts", "story"].iter().all(|name| told.iter().any(|told| told == name)), "{told:?}");
}
