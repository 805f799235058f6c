//! `offhook doctor`: each thing that goes wrong in a first hour is told in a sentence, with what to do about it.

use crate::first::{
    MINUTE, Ran, SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::silence,
        offhook::{Offhook, Place},
        phone::Phone,
        vendor::{OpenAi, Opening, Scenario, Vendor},
    },
    nothing_is_left, offhook,
};
use serde_json::Value;
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    process::Command,
    time::{Instant, sleep},
};

const AGENT: &str =
    "providers: { script: { scripted: { script: [{ say: Hi }, { tone: { hertz: 440, for: 60s } }] } } }\n";
const CONTEXT: &str =
    "default_context: front\ncontexts: { front: { prompt: Test, provider: script, tools: [hangup_call] } }\n";
const PASSWORD: &str = "password-of-the-test";

/// A configuration in a folder of its own.
struct Installation {
    folder: TempDir,
}

impl Installation {
    fn new(yaml: &str) -> Self {
        let folder = TempDir::with_prefix("offhook-first-").expect("a temporary directory");
        std::fs::write(folder.path().join("offhook.yaml"), yaml).expect("a file in the test's own directory");
        Self { folder }
    }

    /// Attached to this Asterisk, on ports of its own.
    fn attached(asterisk: &Asterisk, more: &str) -> Self {
        Self::new(&format!("{}{AGENT}{CONTEXT}{more}", Place::free().yaml(Some(asterisk))))
    }

    /// The same with this password, whoever may be at the address.
    fn at(url: &str, place: &Place) -> Self {
        let asterisk = format!("asterisk: {{ url: \"{url}\", username: offhook, password: {PASSWORD} }}\n");
        Self::new(&format!("{asterisk}{}{AGENT}{CONTEXT}", place.yaml(None)))
    }

    async fn doctor(&self, arguments: &[&str], env: &[(&str, String)]) -> Ran {
        let all = [&["doctor", "--config", "offhook.yaml"], arguments].concat();
        offhook(self.folder.path(), &all, env, "").await
    }
}

/// Result of a test call that took long, which depends on the machine's load.
fn is_late(line: &str) -> bool {
    line.starts_with("warning ") && line.contains(" there and back")
}

/// The lines that are not fine, each with its remedy, without test calls that took long.
fn complaints(ran: &Ran) -> Vec<String> {
    let lines: Vec<&str> = ran.out.lines().collect();
    let bad = lines.iter().enumerate().filter(|(_, line)| line.starts_with("problem ") || line.starts_with("warning "));
    let bad = bad.filter(|(_, line)| !is_late(line));
    bad.map(|(at, line)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let remedy = lines.get(at + 1).and_then(|next| next.trim().strip_prefix("→ "));
        format!("{} → {}", words.join(" "), remedy.unwrap_or_else(|| panic!("no remedy for {line}\n{}", ran.out)))
    })
    .collect()
}

/// The only complaint, which has these parts.
fn only(ran: &Ran, parts: &[&str]) {
    let told = complaints(ran);
    let is_it = told.len() == 1 && parts.iter().all(|part| told[0].contains(part));
    assert!(is_it, "{parts:?} is not all of {told:#?}\n{}{}", ran.out, ran.err);
}

/// Lines with what differs from run to run taken out.
fn steady(ran: &Ran, asterisk: &Asterisk) -> Vec<String> {
    let url = asterisk.ari_url();
    let (_, port) = url.rsplit_once(':').expect("with a port");
    let numbers = regex();
    let plain = |line: &str| {
        let line = line.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:ARI");
        numbers.iter().fold(line, |line, (pattern, name)| pattern.replace_all(&line, *name).into_owned())
    };
    ran.out.lines().map(plain).collect()
}

fn regex() -> Vec<(regex::Regex, &'static str)> {
    let patterns = [
        (r"[0-9.]+ ms", "N ms"),
        (r"Asterisk [0-9]\S*", "Asterisk VERSION"),
        (r"127\.0\.0\.1:[0-9]+", "127.0.0.1:PORT"),
        (r"[0-9]{5}-[0-9]{5}", "FIRST-LAST"),
        (r" \(offhook is tested with Asterisk VERSION", ""),
    ];
    patterns.into_iter().map(|(pattern, name)| (regex::Regex::new(pattern).expect("a pattern"), name)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_installation_is_told_line_by_line_and_left_as_it_was() {
    let asterisk = Asterisk::start(Options::default()).await;
    let installation = Installation::attached(&asterisk, "records: { directory: records }\n");
    let ran = installation.doctor(&[], &[]).await;
    assert_eq!((ran.code, complaints(&ran)), (0, vec![]), "{}{}", ran.out, ran.err);
    let lines = steady(&ran, &asterisk);
    let expected = [
        "ok       config    offhook.yaml: no mistakes (1 context, 1 provider), and all variables are set",
        "ok       machine   enough files may be open for 200 calls",
        "ok       address   http.bind 127.0.0.1:PORT is free",
        "ok       address   media.audiosocket.bind 127.0.0.1:PORT is free",
        "ok       address   media.rtp.ports FIRST-LAST: 200 even ports are free, for 200 calls",
        "ok       address   media.audiosocket: Asterisk at 127.0.0.1 is told 127.0.0.1",
        "ok       asterisk  Asterisk VERSION at 127.0.0.1:PORT takes user and password",
        "ok       clock     the clocks of this machine and of Asterisk agree",
        "ok       asterisk  all 11 modules that this configuration needs are loaded",
        "ok       asterisk  the application offhook is not connected, as no engine runs yet",
        "ok       call      audiosocket/slin: a test call is heard both ways, N ms there and back",
        "ok       call      rtp/ulaw: a test call is heard both ways, N ms there and back",
        "ok       call      websocket/slin16: a test call is heard both ways, N ms there and back",
        "ok       dialplan  the dialplan has offhook's example: 7000@offhook",
        "ok       provider  providers.script (scripted): a session was set up in N ms",
    ];
    assert_eq!(complaints(&ran), [""; 0]);
    let settled = |line: &String| match line.strip_prefix("warning  ") {
        Some(rest) if is_late(line) => format!("ok       {rest}"),
        _ => line.replace("127.0.0.1:ARI", "127.0.0.1:PORT"),
    };
    for line in expected {
        let shown: Vec<String> = lines.iter().map(settled).collect();
        assert!(shown.iter().any(|told| told == line), "{line}\n{}", shown.join("\n"));
    }
    assert!(ran.out.contains("records.directory") && !installation.folder.path().join("records").exists());
    assert!(!ran.out.contains(asterisk.ari_password()));
    nothing_is_left(&asterisk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_an_engine_with_a_call_it_has_an_application_and_ports_of_its_own_and_the_call_goes_on() {
    let asterisk = Asterisk::start(Options::default()).await;
    let engine = Offhook::attached(&asterisk, &format!("{AGENT}{CONTEXT}")).await;
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(Duration::from_secs(60))).await;
    phone.wait_to_hear(440.0, Duration::from_millis(500), SOON).await;
    let yaml = engine.folder().join("offhook.yaml").display().to_string();
    let before = phone.heard().time_of(440.0);
    let began = Instant::now();
    let ran = offhook(engine.folder(), &["doctor", "--config", &yaml], &[], "").await;
    let took = began.elapsed();
    assert_eq!((ran.code, complaints(&ran)), (0, vec![]), "{}{}", ran.out, ran.err);
    for part in [
        "is in use, and an engine runs",
        "Stasis(offhook) leads to the engine that runs here",
        "audiosocket/slin: a test call is heard both ways",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    // The agent's tone went on all the while.
    let heard = phone.heard().time_of(440.0) - before;
    assert!(heard > took.mul_f64(0.8), "{heard:?} of {took:?}");
    assert!(!engine.log().contains("another engine has connected"), "{}", engine.log());
    engine.wait_active(1, SOON).await;
    phone.hang_up().await;
    assert_eq!(engine.wait_end_reason(SOON).await, "caller_hung_up");
    nothing_is_left(&asterisk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_an_asterisk_that_is_not_there_are_told_apart() {
    let asterisk = Asterisk::start(Options::default()).await;
    let wrong = Installation::at(&asterisk.ari_url(), &Place::free()).doctor(&[], &[]).await;
    assert_eq!(wrong.code, 1);
    only(
        &wrong,
        &[
            "problem asterisk Asterisk at 127.0.0.1:",
            "refuses the user \"offhook\" or its password → compare asterisk.password with the section [offhook] of ari.conf",
        ],
    );
    let nobody = Installation::at("http://127.0.0.1:1", &Place::free()).doctor(&[], &[]).await;
    assert_eq!(nobody.code, 1);
    only(
        &nobody,
        &[
            "problem asterisk nobody answers at 127.0.0.1:1: Connection refused",
            "start Asterisk; where it runs, give http.conf `enabled = yes`",
        ],
    );
    for ran in [wrong, nobody] {
        assert!(!ran.out.contains(PASSWORD) && !ran.err.contains(PASSWORD), "{}{}", ran.out, ran.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_accepts_and_never_answers_costs_seconds_and_not_more() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let began = Instant::now();
    let ran = Installation::at(&url, &Place::free()).doctor(&[], &[]).await;
    assert_eq!(ran.code, 1);
    only(&ran, &["accepts connections at 127.0.0.1:", "and does not answer"]);
    assert!(began.elapsed() < MINUTE / 2, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_is_missing_is_a_problem_where_it_is_needed_and_a_warning_where_it_is_not() {
    let asterisk = Asterisk::start(Options { without: vec!["chan_audiosocket"], ..Options::default() }).await;
    let ran = Installation::attached(&asterisk, "").doctor(&[], &[]).await;
    assert_eq!(ran.code, 1);
    let told = complaints(&ran);
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].starts_with("problem asterisk the module chan_audiosocket does not run; it is for: audiosocket/slin → `asterisk -rx 'module load chan_audiosocket.so'`"), "{told:#?}");
    assert!(
        told[1].starts_with("problem call audiosocket/slin: no test call, since Asterisk has no chan_audiosocket"),
        "{told:#?}"
    );
    assert!(ran.out.contains("rtp/ulaw: a test call is heard both ways"), "{}", ran.out);

    let yaml = Place::free().yaml(Some(&asterisk)).replace("media:\n", "media:\n  default: rtp/ulaw\n");
    let ran = Installation::new(&format!("{yaml}{AGENT}{CONTEXT}")).doctor(&[], &[]).await;
    assert_eq!(ran.code, 0, "{}", ran.out);
    only(&ran, &["warning call audiosocket/slin: no test call"]);
    nothing_is_left(&asterisk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audio_path_that_leads_nowhere_is_told_with_the_address_that_asterisk_was_given() {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let yaml = place.yaml(Some(&asterisk));
    let own = format!("bind: \"127.0.0.1:{}\"", place.audiosocket);
    let yaml = yaml.replace(&own, &format!("{own}, advertise: \"127.0.0.1:1\""));
    let ran = Installation::new(&format!("{yaml}{AGENT}{CONTEXT}")).doctor(&[], &[]).await;
    assert_eq!(ran.code, 1);
    only(
        &ran,
        &[
            "problem call audiosocket/slin: Asterisk opens no audio path to 127.0.0.1:1",
            "→ media.audiosocket.advertise (or .bind) must be an address",
        ],
    );
    nothing_is_left(&asterisk).await;

    // Where it is the last thing that was tried, Asterisk is waited for.
    let yaml = yaml.replace("media:\n", "media:\n  default: rtp/ulaw\n");
    let ran = Installation::new(&format!("{yaml}{AGENT}{CONTEXT}")).doctor(&[], &[]).await;
    assert_eq!(ran.code, 0, "{}", ran.out);
    only(&ran, &["warning call audiosocket/slin: Asterisk opens no audio path to 127.0.0.1:1"]);
    nothing_is_left(&asterisk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_that_asterisk_sends_elsewhere_is_one_way() {
    let asterisk = Asterisk::start(Options::default()).await;
    let yaml = Place::free()
        .yaml(Some(&asterisk))
        .replace("rtp: { bind: 127.0.0.1,", "rtp: { bind: 127.0.0.1, advertise: 127.0.0.2,");
    let yaml = yaml.replace("media:\n", "media:\n  default: rtp/alaw\n");
    let ran = Installation::new(&format!("{yaml}{AGENT}{CONTEXT}")).doctor(&[], &[]).await;
    assert_eq!(ran.code, 1);
    only(
        &ran,
        &[
            "problem call rtp/alaw: a test call stands, but nothing that Asterisk sends to 127.0.0.2 arrives",
            "media.rtp.advertise",
        ],
    );
    nothing_is_left(&asterisk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ari_user_who_may_only_look_is_told() {
    let asterisk = Asterisk::start(Options { read_only: true, ..Options::default() }).await;
    let ran = Installation::attached(&asterisk, "").doctor(&[], &[]).await;
    assert_eq!(ran.code, 1);
    let told = complaints(&ran);
    assert!(
        told[0].contains("audiosocket/slin: the ARI user may look, but not act → take `read_only = yes` out"),
        "{told:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_another_program_has_is_told_with_its_setting() {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let _other = TcpListener::bind(("127.0.0.1", place.http)).await.expect("a free port");
    let yaml = format!("{}{AGENT}{CONTEXT}", place.yaml(Some(&asterisk)));
    let ran = Installation::new(&yaml).doctor(&[], &[]).await;
    assert_eq!(ran.code, 1);
    only(
        &ran,
        &[&format!("problem address http.bind 127.0.0.1:{} cannot be used", place.http), "another program has it"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_an_hour_ahead_of_asterisk_s_is_told() {
    let asterisk = Asterisk::start(Options::default()).await;
    let env = [
        ("LD_PRELOAD", faketime().display().to_string()),
        ("FAKETIME", "+3600".to_owned()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let ran = Installation::attached(&asterisk, "").doctor(&["--offline"], &env).await;
    assert_eq!(ran.code, 1);
    let told = complaints(&ran);
    assert_eq!(told.len(), 1, "{told:#?}");
    let seconds = told[0].split_whitespace().find_map(|word| word.parse::<u32>().ok());
    assert!(seconds.is_some_and(|seconds| (3_595..=3_605).contains(&seconds)), "{told:#?}");
    assert!(told[0].contains("s ahead of Asterisk's → keep both set by the network"), "{told:#?}");
}

fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("a folder").filter_map(Result::ok);
    let mut found = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    found.find(|path| path.exists()).expect("libfaketime, which tests/lab/setup.sh all installs")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_vendor_refuses_is_told_and_never_shown_and_offline_does_not_ask() {
    let vendor = Vendor::start::<OpenAi>(Scenario { otherwise: Opening::Refuse(401), ..Scenario::default() }).await;
    let yaml = format!("{}providers: {{ script: {} }}\n{CONTEXT}", Place::free().yaml(None), vendor.yaml());
    let installation =
        Installation::new(&yaml.replace("tools: [hangup_call]", "tools: [hangup_call], audiosocket_id: \"0ff40001\""));
    let ran = installation.doctor(&[], &[]).await;
    assert_eq!(ran.code, 1);
    only(
        &ran,
        &[
            "problem provider providers.script (openai_realtime): the key is refused (HTTP status 401) → make a new one at the vendor",
        ],
    );
    assert!(!ran.out.contains("key-of-the-test") && !ran.err.contains("key-of-the-test"));
    assert_eq!(vendor.sessions(), 1, "asked once, not again and again");
    let ran = installation.doctor(&["--offline"], &[]).await;
    assert_eq!((ran.code, vendor.sessions()), (0, 1), "{}", ran.out);
}

/// A firewall is not to be looked at where the path is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_the_vendor_does_not_have_is_told_as_that() {
    let vendor = Vendor::start::<OpenAi>(Scenario { otherwise: Opening::Refuse(404), ..Scenario::default() }).await;
    let yaml = format!("{}providers: {{ script: {} }}\n{CONTEXT}", Place::free().yaml(None), vendor.yaml());
    let installation =
        Installation::new(&yaml.replace("tools: [hangup_call]", "tools: [hangup_call], audiosocket_id: \"0ff40001\""));
    let ran = installation.doctor(&[], &[]).await;
    let told = "problem provider providers.script (openai_realtime): a server answers and has no such path at ws";
    only(&ran, &[told, "(HTTP status 404) → is the path of base_url the one"]);
    assert!(!ran.out.contains("log above") && !ran.out.contains("firewall"), "{}", ran.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_are_not_there_are_told_each() {
    let more = "mcp: { enabled: true, servers: { gone: { command: [\"/nowhere/server\"], defaults: { access: public_read } } } }\n\
                mail: { server: 127.0.0.1, port: 1, tls: none, from: a@example.com, mailboxes: { office: b@example.com } }\n\
                stt: { ears: { wyoming_transcribe: { address: \"127.0.0.1:1\", language: en } } }\n";
    let yaml = format!("{}{AGENT}{CONTEXT}{more}", Place::free().yaml(None));
    let ran = Installation::new(&yaml).doctor(&["--json"], &[]).await;
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let told: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(told["ok"], false);
    let problems: Vec<(&str, &str)> = told["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|finding| finding["grade"] == "problem")
        .map(|finding| {
            assert!(finding["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{finding}");
            (finding["area"].as_str().expect("a word"), finding["says"].as_str().expect("a sentence"))
        })
        .collect();
    let areas: Vec<&str> = problems.iter().map(|(area, _)| *area).collect();
    assert_eq!(areas, ["mcp", "mail", "service"], "{problems:#?}");
    assert!(problems[0].1.starts_with("mcp.servers.gone: "), "{problems:#?}");
    assert_eq!(problems[1].1, "the mail server 127.0.0.1:1: it cannot be reached");
    assert!(
        problems[2].1.starts_with("stt.ears.wyoming_transcribe.address: 127.0.0.1:1 cannot be reached"),
        "{problems:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_and_missing_secrets_are_told_with_their_lines_before_anything_is_asked() {
    let yaml = format!(
        "asterisk: {{ url: \"http://127.0.0.1:1\", username: offhook, password: \"${{NO_SUCH_SECRET}}\" }}\n{AGENT}{CONTEXT}"
    );
    let ran = Installation::new(&yaml).doctor(&[], &[]).await;
    assert_eq!(ran.code, 1);
    only(&ran, &["problem config offhook.yaml:1: asterisk.password: ", "NO_SUCH_SECRET", "→ export it in this shell"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_in_the_middle_of_a_test_call_leaves_nothing() {
    let asterisk = Asterisk::start(Options::default()).await;
    let installation = Installation::attached(&asterisk, "");
    let mut child = Command::new(offhook_kit::program())
        .args(["doctor", "--config", "offhook.yaml"])
        .current_dir(installation.folder.path())
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("cargo built the program");
    let until = Instant::now() + SOON;
    while asterisk.bridges().await == 0 {
        assert!(Instant::now() < until, "no test call");
        sleep(Duration::from_millis(20)).await;
    }
    let pid = child.id().expect("it runs").to_string();
    assert!(
        Command::new("sh").args(["-c", "kill -s INT \"$0\"", &pid]).status().await.is_ok_and(|status| status.success())
    );
    let ended = tokio::time::timeout(SOON, child.wait()).await.expect("it ends").expect("its own child");
    assert_eq!(ended.code(), Some(3));
    // At once: what ends by itself later was left behind.
    assert_eq!((asterisk.channels().await, asterisk.bridges().await), (vec![], 0));
    nothing_is_left(&asterisk).await;
}
