//! The API against its own document: schemathesis asks a running engine whatever the document allows and does not allow.

use super::{TOKEN, engine};
use crate::support::python::python;
use serde_json::Value;
use std::{process::Stdio, time::Duration};
use tokio::{process::Command, time::timeout};

/// A few hundred requests.
const ASKING_MAX: Duration = Duration::from_secs(150);

/// Issue 7: no answer is a failure, and each is as the document says, also to what it does not allow.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_as_its_document_says() {
    let (engine, folder) = engine(60).await;
    let page = format!("http://{}", engine.http());
    let client = reqwest::Client::new();
    let address = format!("{page}/api/v1/openapi.json");
    let document = client.get(address).bearer_auth(TOKEN).send().await.expect("an answer").text().await;
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, document.expect("a document")).expect("the test's own folder");
    // Most ids that anybody makes up are nobody's: these are calls that there are.
    let calls = client.get(format!("{page}/api/v1/calls")).bearer_auth(TOKEN).send().await.expect("an answer");
    let calls: Value = calls.json().await.expect("JSON");
    let ids: Vec<_> = calls["items"].as_array().expect("a list").iter().map(|call| call["id"].to_string()).collect();
    let known = format!("[parameters]\n\"path.id\" = [{}]\n", ids.join(", "));
    std::fs::write(folder.path().join("schemathesis.toml"), known).expect("the test's own folder");
    let mut command = Command::new(python("schemathesis").with_file_name("schemathesis"));
    command
        .arg("run")
        .arg(&file)
        // Streams of events have no end.
        .args(["--exclude-path-regex", "/events$", "--request-timeout", "10"])
        .args(["--url", &page, "--header", &format!("Authorization: Bearer {TOKEN}")])
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
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let said = std::fs::File::create(folder.path().join("said")).expect("the test's own folder");
    command.stdout(said.try_clone().expect("a second handle")).stderr(said);
    let ended = timeout(ASKING_MAX, command.status()).await;
    let said = std::fs::read_to_string(folder.path().join("said")).unwrap_or_default();
    assert!(matches!(ended, Ok(Ok(status)) if status.success()), "{ended:?}\n{said}");
}
