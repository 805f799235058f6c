//! The API against its own document: schemathesis asks a running engine whatever the document allows and does not allow.

use super::{TOKEN, engine};
use crate::support::{offhook::Offhook, python::python};
use serde_json::{Value, json};
use std::{path::Path, process::Stdio, time::Duration};
use tokio::{process::Command, time::timeout};

/// A few hundred requests.
const ASKING_MAX: Duration = Duration::from_secs(150);
/// Streams have no end: those of events, and the sound of a call that runs.
const ENDLESS: [&str; 2] = ["/events", "/audio"];
/// In the folder of the test.
const DOCUMENT: &str = "openapi.json";
const REPORT: &str = "asked.har";

/// Issue 7: no answer is a failure, and each is as the document says, also to what it does not allow, and where the call
/// that is asked for is there.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_as_its_document_says() {
    let engine = engine(60).await;
    let (_, mut document) = engine.request("GET", "api/v1/openapi.json", TOKEN, None).await;
    let known = give_calls(&engine, &mut document).await;
    assert_eq!(known.len(), 7, "addresses with the id of a call: {known:?}");
    std::fs::write(engine.folder().join(DOCUMENT), document.to_string()).expect("the test's own folder");
    let page = format!("http://{}", engine.http());
    ask(engine.folder(), &page).await;
    let report = std::fs::read(engine.folder().join(REPORT)).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("a report in JSON");
    let asked = report["log"]["entries"].as_array().expect("a list");
    for (method, path) in known {
        let url = format!("{page}{path}");
        let own = asked.iter().filter(|entry| entry["request"]["method"] == method && entry["request"]["url"] == url);
        let answers: Vec<u64> = own.filter_map(|entry| entry["response"]["status"].as_u64()).collect();
        // 409: whoever writes cannot be transferred.
        let met = answers.iter().any(|status| [200, 202, 204, 409].contains(status));
        assert!(met, "{method} {path} met no call: {answers:?}");
    }
}

/// Most ids that anybody makes up are nobody's. So the document gets an example for each address that takes one: the id of
/// a call that runs or has ended, another one for each, since some of them end or delete it. Returns these addresses.
async fn give_calls(engine: &Offhook, document: &mut Value) -> Vec<(String, String)> {
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
            known.push((method.to_uppercase(), path.replace("{id}", id)));
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
            "40",
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
