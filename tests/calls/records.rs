//! What is kept of a call, as its operator reads it in the terminal.

use crate::calls::{
    AGENT_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, Options},
        audio::silence,
        offhook::Offhook,
        phone::Phone,
        world,
    },
    ms,
};
use rusqlite::Connection;
use serde_json::Value;
use std::process::{Command, Output};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

const AGENTS: &str = "default_context: front\n\
     providers: { script: { scripted: { script: [ { say: \"Zanzibar it is.\" }, { call: { tool: check_extension_status, \
     arguments: { extension: \"100\" } } }, { hang_up: Goodbye } ] } } }\n\
     extensions: { allow: [\"1XX\"], device: \"Local/{extension}@lab-office\" }\n\
     contexts: { front: { prompt: A test, provider: script, tools: [hangup_call, check_extension_status] } }\n";

async fn offhook(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut program = Command::new(offhook_kit::program());
    program.args(arguments).arg("--records").arg(folder.path());
    world::output_of(program).await
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

async fn a_call_is_found_by_its_words_told_as_it_went_exported_and_deleted() {
    let folder = TempDir::with_prefix("offhook-records-").expect("a temporary directory");
    let asterisk = Asterisk::start(Options::default()).await;
    let agents = format!("records: {{ directory: \"{}\" }}\n{AGENTS}", folder.path().display());
    let engine = Offhook::attached(&asterisk, &agents).await;
    let says = silence(ms(60_000));
    let mut caller = Phone::call_as(asterisk.sip_port(), "7000", says, "Ada Byron", "15550199").await;
    caller.wait_ended(SOON).await;
    assert_eq!(engine.wait_end_reason(SOON).await, "agent_hung_up");
    engine.wait_metric("offhook_records_total", 1.0, SOON).await;
    let id = engine.wait_ended(1, SOON).await[0]["id"].as_str().expect("an id").to_owned();

    let list = text(&offhook(&folder, &["calls", "--words", "zanzibar", "--number", "0199"]).await);
    assert!(list.contains(&id) && list.contains("agent_hung_up") && list.contains("15550199"), "{list}");
    assert!(!text(&offhook(&folder, &["calls", "--words", "timbuktu"]).await).contains(&id));

    let story = text(&offhook(&folder, &["call", &id]).await);
    for part in ["agent: Zanzibar it is.", "tool check_extension_status: OK", "agent: Goodbye", "context front"] {
        assert!(story.contains(part), "{part} in {story}");
    }
    assert_eq!(text(&offhook(&folder, &["call", &id[..8]]).await), story, "as the pages show it");
    let csv = text(&offhook(&folder, &["calls", "--format", "csv"]).await);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("id,began,seconds,") && lines[1].starts_with(&id), "{csv}");
    let record: Value =
        serde_json::from_str(&text(&offhook(&folder, &["calls", "--format", "json"]).await)).expect("JSON");
    assert_eq!((&record["id"], &record["caller_name"]), (&id.as_str().into(), &"Ada Byron".into()));

    text(&offhook(&folder, &["call", &id, "--delete"]).await);
    let gone = offhook(&folder, &["call", &id]).await;
    assert_eq!(gone.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("no record of call"), "{gone:?}");
    for private in ["Zanzibar", "15550199", "Byron"] {
        assert!(!engine.log().contains(private), "{private} reached the log");
    }
}

/// "Why did sales answer as reception?" is answered where the call is looked up.
async fn a_call_that_asked_for_a_context_that_there_is_not_says_so() {
    let folder = TempDir::with_prefix("offhook-records-").expect("a temporary directory");
    let asterisk = Asterisk::start(Options::default()).await;
    let agents = format!("records: {{ directory: \"{}\" }}\n{AGENTS}", folder.path().display());
    let engine = Offhook::attached(&asterisk, &agents).await;
    // Its dialplan asks for `sales`.
    let mut caller = Phone::call(asterisk.sip_port(), "7002", silence(ms(60_000))).await;
    caller.wait_ended(SOON).await;
    engine.wait_metric("offhook_records_total", 1.0, SOON).await;
    let id = engine.wait_ended(1, SOON).await[0]["id"].as_str().expect("an id").to_owned();
    let story = text(&offhook(&folder, &["call", &id]).await);
    assert!(story.contains("AI_CONTEXT: \"sales\" is not a configured context"), "{story}");
}

/// Somebody writes to the database and does not come to an end.
async fn a_call_beside_a_locked_database_is_undisturbed_and_its_record_arrives_when_the_lock_goes() {
    let folder = TempDir::with_prefix("offhook-records-").expect("a temporary directory");
    let asterisk = Asterisk::start(Options::default()).await;
    let context = format!("records: {{ directory: \"{}\" }}\n", folder.path().display());
    let engine = Offhook::attached(&asterisk, &agent("- tone: { hertz: 440, for: 3s }\n- listen: {}", &context)).await;
    let other = Connection::open(folder.path().join("calls.sqlite3")).expect("the engine has made it");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    let mut caller = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    caller.wait_to_hear(AGENT_HZ, ms(2_900), SOON).await;
    caller.hang_up().await;
    assert_eq!(engine.wait_end_reason(SOON).await, "caller_hung_up");
    let tones = caller.heard().spans_of(AGENT_HZ);
    assert_eq!(tones.len(), 1, "{tones:?}");
    engine.wait_metric("offhook_records_waiting", 1.0, SOON).await;
    engine.wait_metric("offhook_records_retries_total{step=\"archive\"}", 1.0, SOON).await;
    assert_eq!(engine.metric("offhook_records_total").await, 0.0);
    other.execute_batch("COMMIT").expect("it is ours");
    engine.wait_metric("offhook_records_total", 1.0, ms(60_000)).await;
    assert_eq!(engine.metric("offhook_records_waiting").await, 0.0);
    assert_eq!(engine.metric("offhook_records_lost_total{why=\"full\"}").await, 0.0);
}

/// By whoever asks for it in the terminal, beside the engine.
async fn of_a_call_that_is_deleted_while_it_stands_nothing_is_kept() {
    let folder = TempDir::with_prefix("offhook-records-").expect("a temporary directory");
    let asterisk = Asterisk::start(Options::default()).await;
    let context = format!("records: {{ directory: \"{}\" }}\n", folder.path().display());
    let engine = Offhook::attached(&asterisk, &agent("- tone: { hertz: 440, for: 60s }", &context)).await;
    let mut caller = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    caller.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    let id = engine.json("calls").await["active"][0]["id"].as_str().expect("an id").to_owned();
    let told = text(&offhook(&folder, &["call", &id, "--delete"]).await);
    assert!(told.contains("has not ended"), "{told}");
    caller.hang_up().await;
    assert_eq!(engine.wait_end_reason(SOON).await, "caller_hung_up");
    let over = async {
        while !engine.log().contains("nothing of it is kept") {
            sleep(ms(20)).await;
        }
    };
    timeout(SOON, over).await.expect("its record is met");
    assert!(!text(&offhook(&folder, &["calls"]).await).contains(&id));
    assert_eq!(engine.metric("offhook_records_total").await, 0.0);
}

crate::scenes! {
    both:
        a_call_is_found_by_its_words_told_as_it_went_exported_and_deleted,
        a_call_that_asked_for_a_context_that_there_is_not_says_so,
        a_call_beside_a_locked_database_is_undisturbed_and_its_record_arrives_when_the_lock_goes,
        of_a_call_that_is_deleted_while_it_stands_nothing_is_kept;
}
