//! The page beside a real Asterisk: real calls are seen, sent to people and ended with a mouse, the installation is
//! examined, and the page notices when Asterisk goes and when it is back.

use super::{JOURNEY_MAX, PASSWORD, TOKEN, node};
use crate::web::kit::{
    asterisk::{Asterisk, Options},
    audio::{silence, tone},
    ms,
    offhook::{Launch, Offhook, Place},
    phone::Phone,
};
use offhook::http::{Accounts, Role};
use serde_json::{Value, json};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

const SOON: Duration = Duration::from_secs(15);
const AGENT_HZ: f64 = 440.0;
const CALLER_HZ: f64 = 700.0;
const ANN_HZ: f64 = 1_000.0;

/// A browser whose steps a test asks for one by one, as they are named in `asterisk.mjs`.
struct Desk {
    child: Child,
    orders: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Desk {
    /// Somebody with this role has logged in.
    async fn open(engine: &Offhook, role: Role) -> Self {
        let mut command = node("asterisk.mjs", engine);
        command.env("ROLE", role.label()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("a node that runs");
        let orders = child.stdin.take().expect("piped");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut desk = Self { child, orders, said };
        desk.hears("ready").await;
        desk
    }

    /// One step; it ends when the page shows what it should.
    async fn does(&mut self, step: &str) {
        self.orders.write_all(format!("{step}\n").as_bytes()).await.expect("the browser is there");
        self.hears(&format!("done: {step}")).await;
    }

    async fn hears(&mut self, words: &str) {
        let line = timeout(JOURNEY_MAX, self.said.next_line()).await.expect("a step ends in time").expect("a pipe");
        assert_eq!(line.as_deref(), Some(words), "what went wrong stands above");
    }

    async fn close(mut self) {
        drop(self.orders);
        let ended = timeout(SOON, self.child.wait()).await.expect("it ends").expect("its own child");
        assert!(ended.success(), "{ended:?}: what went wrong stands above");
    }
}

/// An agent that talks for two seconds and then listens, with accounts, records, and one person to send callers to.
async fn installation(options: Options, person: &str) -> (Asterisk, Offhook) {
    let asterisk = Asterisk::start(options).await;
    let folder = tempfile::TempDir::with_prefix("offhook-web-").expect("a temporary directory");
    let accounts = Accounts::new(&folder.path().join("accounts.json"));
    for role in Role::ALL {
        accounts.add(role.label(), role, PASSWORD).expect("an account");
    }
    let place = Place::free();
    let http = format!("http: {{ bind: \"127.0.0.1:{}\"", place.http);
    let yaml =
        place.yaml(Some(&asterisk)).replace(&http, &format!("{http}, accounts: accounts.json, admin_token: {TOKEN}"));
    let yaml = format!(
        "{yaml}records: {{ directory: records }}\ndefault_context: front\n\
         providers:\n  script:\n    scripted:\n      detector: {{ threshold_dbfs: 0 }}\n      \
         script: [{{ tone: {{ hertz: {AGENT_HZ}, for: 2s }} }}, {{ listen: {{}} }}]\n\
         destinations:\n  ann: {{ description: Ann at the desk, dial: [\"Local/{person}@lab-targets\"] }}\n\
         contexts:\n  front: {{ prompt: A test, provider: script, tools: [hangup_call], audiosocket_id: \"0ff40001\" }}\n"
    );
    let mut engine = Offhook::launch_in(folder, place, &yaml, Launch::default()).await;
    engine.ask_with(TOKEN);
    engine.wait_ready(true).await;
    (asterisk, engine)
}

async fn caller(asterisk: &Asterisk) -> Phone {
    let says = silence(ms(500)) + tone(CALLER_HZ, ms(60_000));
    let phone = Phone::call_as(asterisk.sip_port(), "7000", says, "Ada Byron", "15550199").await;
    phone.wait_to_hear(AGENT_HZ, ms(200), SOON).await;
    phone
}

/// Issue 7: a call of a telephone is on *Live*; *Transfer* rings a person and joins the two; *Hang up* ends another call.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sends_a_caller_to_a_person_and_hangs_another_up() {
    let mut ann = Phone::listen(tone(ANN_HZ, ms(60_000))).await;
    let (asterisk, engine) = installation(Options::default(), &format!("8{}", ann.port())).await;
    let mut desk = Desk::open(&engine, Role::Operator).await;
    let mut ada = caller(&asterisk).await;
    desk.does("sees a call").await;
    desk.does("transfers it").await;
    ann.wait_established(SOON).await;
    ada.wait_to_hear(ANN_HZ, ms(1_000), SOON).await;
    ann.wait_to_hear(CALLER_HZ, ms(1_000), SOON).await;
    desk.does("sees that it was transferred").await;
    ada.hang_up().await;
    ann.wait_ended(SOON).await;

    let mut other = caller(&asterisk).await;
    desk.does("sees a call").await;
    desk.does("hangs it up").await;
    other.wait_ended(SOON).await;
    desk.does("sees that it was ended").await;
    asterisk.wait_empty(SOON).await;
    desk.close().await;
    for told in ["an operator transfers the call", "an operator ends the call", "account=\"operator\""] {
        engine.wait_logged(told).await;
    }
    assert!(!engine.log().contains("15550199"), "a caller's number reached the log");
}

/// Issue 7: what `offhook doctor` finds, told by the engine that runs: a test call over each kind of audio path, and each
/// thing that is wrong with its remedy.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_examines_the_installation_and_sees_asterisk_go_and_come_back() {
    let (mut asterisk, engine) = installation(Options::default(), "desk").await;
    let mut desk = Desk::open(&engine, Role::Admin).await;
    desk.does("examines: all is well").await;
    desk.does("tests the audio paths").await;
    asterisk.cli("module unload func_dialplan.so").await;
    asterisk.cli("module unload app_audiosocket.so").await;
    desk.does("examines: a module is missing").await;

    desk.does("sees Asterisk connected").await;
    asterisk.kill().await;
    desk.does("sees Asterisk gone").await;
    asterisk.start_again().await;
    desk.does("sees Asterisk back").await;
    desk.does("examines: all is well").await;
    asterisk.wait_empty(SOON).await;
    asterisk.kill().await;
    desk.does("examines: nobody answers").await;
    desk.close().await;
}

/// The same for programs.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_examines_the_installation_and_hangs_a_call_up() {
    let without = Options { without: vec!["chan_rtp"], ..Options::default() };
    let (asterisk, engine) = installation(without, "desk").await;
    let mut ada = caller(&asterisk).await;
    let (status, found) = engine.request("POST", "api/v1/system/examine", TOKEN, None).await;
    let found = found.as_array().expect("a list of findings").clone();
    let says = |finding: &Value| finding["says"].as_str().expect("a sentence").to_owned();
    // That a test call took long, or lost a part, is a warning, and may be so on a machine under load.
    let is_heard = |finding: &Value| {
        let says = says(finding);
        says.contains("a test call is heard both ways") && !says.contains(" dB ")
    };
    let well = found.iter().any(|finding| is_heard(finding) && says(finding).contains("audiosocket/slin: "));
    let wrong: Vec<&Value> = found.iter().filter(|&finding| finding["grade"] != "ok" && !is_heard(finding)).collect();
    assert!(status == 200 && well, "{found:#?}");
    assert_eq!(wrong.len(), 1, "{wrong:#?}");
    // Nothing that is configured depends on it.
    assert_eq!((&wrong[0]["grade"], &wrong[0]["area"]), (&json!("warning"), &json!("call")));
    assert!(says(wrong[0]).contains("rtp/ulaw: no test call, since Asterisk has no chan_rtp"), "{wrong:#?}");
    assert!(wrong[0]["remedy"].as_str().is_some_and(|remedy| remedy.contains("load the module")), "{wrong:#?}");

    let (status, tested) = engine.request("POST", "api/v1/system/media-test", TOKEN, None).await;
    let calls = tested["calls"].as_array().expect("calls");
    let well = |audio: &str| calls.iter().any(|call| call["audio"] == audio && is_heard(call));
    assert!(status == 200 && well("audiosocket/slin") && well("websocket/slin16"), "{tested:#}");

    // The call that runs was left alone.
    let (_, live) = engine.request("GET", "api/v1/live", TOKEN, None).await;
    let id = live["active"][0]["id"].as_str().expect("a call that runs");
    let path = format!("api/v1/live/{id}/hangup");
    let (status, told) = engine.request("POST", &path, TOKEN, None).await;
    assert_eq!((status, told), (202, json!({ "ended": true })));
    ada.wait_ended(SOON).await;
    assert_eq!(engine.wait_end_reason(SOON).await, "operator_ended");
    asterisk.wait_empty(SOON).await;
    let (status, _) = engine.request("POST", &path, TOKEN, None).await;
    assert_eq!(status, 404, "it is over");
}
