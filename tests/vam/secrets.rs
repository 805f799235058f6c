//! Numbers of people pass through and stay nowhere: everything that an engine wrote in a run that uses them is looked through.
//! In a process of its own, since the lines of all threads are captured.

use super::*;
use crate::kit::{audio::built_in_voice, own_process, stages::Stages, vendor::Scenario};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use offhook::audio::Format;
use offhook::telemetry::LogCapture;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// A conversation whose caller has a number, until this has been told.
fn converses(executes: bool, answers: Value, until: &str) -> Value {
    json!({
        "method": "Converse", "silence": 40, "until": until, "answers": [answers],
        "session": {
            "session_id": Uuid::new_v4().to_string(), "auth_token": TOKEN, "caller_id": format!("+91{}", PRIVATE[2]),
            "requested_capabilities": { "action_execution": executes },
            "audio_profile": { "codec": "AUDIO_CODEC_PCM_8K_16" },
        },
    })
}

/// What a user and an agent say to each other, each in a spelling of their own.
const ASKED: &str = "My Aadhaar is 2345 1234 6789, my PAN ABCDE1234F, and call me at 98765 43210, that is ९ ८ ७ ६ ५, 4 3 2 1 0, please.";
const ANSWERED: &str = "I have noted 2345-1234-6789 and abcde1234f, and I call +91-9876543210.";

/// A conversation that is spoken: the user asks aloud, and the agent answers.
fn speaks() -> Value {
    let mut samples = built_in_voice("When are you open, please?", Format::SLIN8);
    samples.resize(samples.len() + 40 * 8_000, 0);
    let packet = |frame: &[i16]| {
        let mut bytes = Vec::new();
        Format::SLIN8.encode(frame, &mut bytes);
        BASE64_STANDARD.encode(bytes)
    };
    let mut spoken = converses(false, json!([]), "words SPEAKING audio END_OF_TURN");
    spoken["session"]["metadata"] = json!({ "context": "talks" });
    spoken["packets"] = samples.chunks_exact(160).map(packet).collect();
    spoken
}

/// Every file below a folder, but for the configuration, in which the script of the agent has the numbers.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("offhook.yaml") {
                found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// V20, V answer 16: with records as they are by default, numbers that are said aloud by either side, and a tool of high sensitivity, run by the engine and by a client, with results and errors that repeat the numbers
/// in each spelling, and in time and not; and a program as an action server that prints all that it is asked.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_people_are_in_no_file_no_metric_and_no_line_of_the_log() {
    const SELF: &str = "numbers_of_people_are_in_no_file_no_metric_and_no_line_of_the_log";
    if !own_process::is_alone(module_path!(), SELF) {
        return own_process::runs(module_path!(), SELF).await;
    }
    let capture = LogCapture::new();
    capture.start_everywhere();
    let folder = TempDir::new().unwrap();
    let call = format!("{{ call: {{ tool: pan_validate, arguments: {{ pan_number: {} }} }} }}", PRIVATE[1]);
    let words = json!({ "text": format!("I am {} or {}, call {}", PRIVATE[0], PRIVATE[1], PRIVATE[2]) });
    let tells = format!("{{ call: {{ tool: mcp_vam_odd_echo, arguments: {words} }} }}");
    let stages = Stages::of(Scenario { caller_words: ASKED, agent_words: ANSWERED, ..Scenario::default() }).await;
    let agents = format!(
        "records: {{ directory: {:?} }}\n{}\
         providers:\n  talks: {{ pipeline: {{ stt: one, llm: one, tts: one }} }}\n  asks: {{ scripted: {{ script: [{call}, {{ tone: {{ hertz: 440, for: 400ms }} }}, silence] }} }}\n  \
         tells: {{ scripted: {{ script: [{tells}, {{ tone: {{ hertz: 440, for: 400ms }} }}, silence] }} }}\n\
         tools: {{ pan_validate: {{ access: public_read }}, mcp_vam_odd_echo: {{ access: public_read }} }}\n\
         contexts:\n  talks: {{ prompt: A, provider: talks, turns: {{ owner: offhook }} }}\n  tax: {{ prompt: A, provider: asks, tools: [pan_validate] }}\n  \
         odd: {{ prompt: A, provider: tells, tools: [mcp_vam_odd_echo] }}\n",
        folder.path().join("records"),
        Stages::sections(&[("one", &stages)]),
    );
    let script = offhook_kit::project().join("tests/kit/mcp/faulty.py");
    let vam = format!(
        ", sessions: {{ context: tax, hosted: india_only }}, action_timeout: 1s, action_servers: {{ \
         market: {{ high_sensitivity: true }}, odd: {{ command: [python3, {script:?}, stderr-calls] }} }}"
    );
    let engine = engine(folder.path(), &vam, &agents).await;
    let (uri, calls) = action_server().await;
    let mut registration = registers(&uri);
    registration["request"]["tools"] = json!([{ "name": "pan_validate", "is_registry_tool": true }]);
    let odd = json!({ "method": "RegisterActionServer", "token": TOKEN, "request": {
        "server_id": "odd", "endpoint_uri": "stdio:odd", "tools": [{ "name": "echo" }],
    } });
    for registered in ask(&engine, json!([registration, odd])).await {
        assert_eq!(registered["answer"]["success"], true, "{registered}");
    }
    engine.tools_there("tax", PATIENCE).await;
    engine.tools_there("odd", PATIENCE).await;

    let told = [&PRIVATE[..], &SPELLED].concat().join(" and ");
    let failed = json!([{ "status": "ACTION_STATUS_ERROR", "error_message": told }]);
    let mut to_odd = converses(false, json!([]), "SPEAKING");
    to_odd["session"]["metadata"] = json!({ "context": "odd" });
    let conversations = json!([
        converses(false, json!([]), "SPEAKING"),
        converses(true, failed, "ACTION SPEAKING"),
        converses(true, json!(["garbage"]), "LLM_BACKEND_ERROR"),
        to_odd,
    ]);
    let told = ask(&engine, conversations).await;
    for (told, word) in told.iter().zip(["SPEAKING", "ACTION", "LLM_BACKEND_ERROR", "SPEAKING"]) {
        let met = told["events"].as_array().unwrap().iter().any(|event| event["event"] == word);
        assert!(met && told["code"] == "OK", "{word}: {told}");
    }
    let told = ask(&engine, json!([speaks()])).await.remove(0);
    assert_eq!((&told["code"], &told["words"][0]["text"]), (&json!("OK"), &json!(ASKED)), "the client is told: {told}");
    // They pass through.
    assert_eq!(calls.lock().unwrap()[0]["arguments"]["pan_number"], PRIVATE[1]);
    let text = [&PRIVATE[..], &SPELLED].concat().join(" or ");
    let found =
        json!([{ "status": "ACTION_STATUS_SUCCESS", "result": { "content": [{ "type": "text", "text": text }] } }]);
    let told = ask(&engine, json!([converses(true, found, "ACTION SPEAKING")])).await.remove(0);
    assert_eq!(told["code"], "OK", "{told}");
    let printed = timeout(PATIENCE, async {
        let prints = |stream: &str| {
            let lines = capture.lines();
            lines.iter().any(|line| line.contains(stream) && line.contains("called with") && line.contains("I am ***"))
        };
        while !(prints("stream=\"stderr\"") && prints("stream=\"message\"")) {
            sleep(Duration::from_millis(10)).await;
        }
    });
    printed.await.unwrap_or_else(|_| panic!("what it prints is in the log: {:?}", capture.lines()));
    let metrics = engine.metrics().text();
    engine.stop().await;

    let numbers = [&PRIVATE[..], &SPELLED].concat();
    assert!(numbers.iter().all(|number| !metrics.contains(number)), "{metrics}");
    let files = files(folder.path());
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.iter().any(|name| name.ends_with("calls.sqlite3")), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with("action-servers.json")), "{names:?}");
    for (name, bytes) in &files {
        let text = String::from_utf8_lossy(bytes);
        assert!(numbers.iter().all(|number| !text.contains(number)), "{name} holds one of them");
    }
    for kept in [
        "My Aadhaar is ***, my PAN ***, and call me at ***, that is ***, please.",
        "I have noted *** and ***, and I call ***.",
    ] {
        let holds = |(_, bytes): &(String, Vec<u8>)| String::from_utf8_lossy(bytes).contains(kept);
        assert!(files.iter().any(holds), "the rest of what was said is kept: {kept}");
    }
    assert!(capture.lines().len() > 20, "the log is captured");
    capture.assert_clean(&numbers);
}
