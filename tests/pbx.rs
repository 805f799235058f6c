//! `make pbx` as its users meet it: it says what to dial and who logs in where, somebody answers there, the call is seen on the
//! page, and Ctrl-C leaves nothing behind.

use crate::kit;

use kit::{
    audio::silence,
    phone::Phone,
    processes::signal_if_there,
    terminal::{Browser, Terminal},
    tied::{free_ports, lab},
};
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const UP_WITHIN: Duration = Duration::from_secs(20);
const DOWN_WITHIN: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(50);
const RTP_PORTS: u16 = 20;

/// The script with all that it starts.
struct Pbx {
    terminal: Terminal,
    directory: TempDir,
    http: u16,
    sip: u16,
}

impl Pbx {
    /// `config/asterisk.yaml`, which `make pbx` uses, with ports of the test's own.
    fn start() -> Self {
        Self::start_as(str::to_owned)
    }

    /// By a command that is made of the script's path.
    fn start_as(command: impl FnOnce(&str) -> String) -> Self {
        let directory = TempDir::with_prefix("offhook-make-pbx-").expect("a temporary directory");
        let (http, audiosocket, media, ari, sip, rtp) =
            (free_ports(1), free_ports(1), free_ports(400), free_ports(1), free_ports(1), free_ports(RTP_PORTS));
        let root = offhook_kit::project();
        let shipped = std::fs::read_to_string(root.join("config/asterisk.yaml")).expect("a committed file");
        let yaml = format!(
            "{shipped}\nhttp:\n  bind: 127.0.0.1:{http}\nmedia:\n  audiosocket:\n    bind: \
             127.0.0.1:{audiosocket}\n  rtp:\n    ports: {media}-{}\n",
            media + 399
        );
        let config = directory.path().join("offhook.yaml");
        std::fs::write(&config, yaml).expect("a file in the test's own directory");
        let temporary = directory.path().join("tmp");
        std::fs::create_dir(&temporary).expect("a directory in the test's own one");
        // The script runs what cargo has built: target/debug/offhook.
        let program = offhook_kit::program();
        let target = program.ancestors().nth(2).expect("target/debug/offhook");
        let env = [
            ("CARGO_TARGET_DIR", target.display().to_string()),
            ("TMPDIR", temporary.display().to_string()),
            ("CONFIG", config.display().to_string()),
            ("PBX_SIP_PORT", sip.to_string()),
            ("PBX_HTTP_PORT", ari.to_string()),
            ("LAB_RTP_FIRST", rtp.to_string()),
            ("LAB_RTP_LAST", (rtp + RTP_PORTS - 1).to_string()),
        ];
        let script = lab().join("pbx.sh").display().to_string();
        let terminal = Terminal::start(&command(&script), root, &env, directory.path().join("said"));
        Self { terminal, directory, http, sip }
    }

    fn page(&self) -> String {
        format!("http://127.0.0.1:{}", self.http)
    }

    async fn wait_ready(&mut self) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // What to dial is said once somebody answers there.
        self.terminal.wait_said("Ctrl-C stops both.", UP_WITHIN).await;
        let answer = reqwest::get(format!("{}/ready", self.page())).await.expect("an answer");
        assert_eq!(answer.status(), 200, "{}", self.terminal.said());
    }

    /// A phone that dials the default agent and has heard its greeting.
    async fn call(&self) -> Phone {
        let phone = Phone::call(self.sip, "7000", silence(Duration::from_secs(60))).await;
        let until = Instant::now() + UP_WITHIN;
        let heard = || phone.heard().loud_spans().iter().map(|span| span.length()).sum::<Duration>();
        while heard() < Duration::from_millis(600) {
            assert!(Instant::now() < until, "no greeting:\n{}", self.terminal.said());
            sleep(ASK_EVERY).await;
        }
        phone
    }

    /// Processes of the script's that are there now: those that have its environment.
    fn processes(&self) -> Vec<u32> {
        let mark = self.directory.path().join("tmp").display().to_string();
        let of_it = |process: &PathBuf| {
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&format!("TMPDIR={mark}"))
        };
        let all = std::fs::read_dir("/proc").expect("Linux").flatten().map(|process| process.path()).filter(of_it);
        all.filter_map(|process| process.file_name()?.to_str()?.parse().ok()).collect()
    }
}

impl Drop for Pbx {
    fn drop(&mut self) {
        for left in self.processes() {
            let _ = signal_if_there(left, "KILL");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_to_dial_somebody_answers_there_and_ctrl_c_leaves_nothing() {
    let mut pbx = Pbx::start();
    pbx.wait_ready().await;
    let said = pbx.terminal.said();
    let (sip, page) = (format!("127.0.0.1:{}", pbx.sip), pbx.page());
    let (live, history, system) = (format!("{page}/ "), format!("{page}/history"), format!("{page}/system"));
    for part in ["Asterisk 2", "are up", "user softphone", "password ", &sip, "7000", "7080", &live, &history, &system]
    {
        assert!(said.contains(part), "{part:?} is missing:\n{said}");
    }
    assert!(!said.contains("7005"), "the configuration has no demo_mcp:\n{said}");

    // Log in with what stands above the SIP account, and see the call.
    let password = pbx.terminal.password().unwrap_or_else(|| panic!("no password:\n{said}"));
    let browser = Browser::log_in(&page, &password).await;
    assert_eq!(browser.json("/api/v1/live").await["checks"]["ari"]["ok"], true);
    let mut phone = pbx.call().await;
    let live = browser.wait_live(UP_WITHIN).await;
    assert_eq!(live["context"], "support");
    let id = live["id"].as_str().expect("an id").to_owned();
    // What was said is known once it was heard.
    let until = Instant::now() + UP_WITHIN;
    while browser.wait_live(UP_WITHIN).await["floor"] == "agent" {
        assert!(Instant::now() < until, "the greeting does not end:\n{}", pbx.terminal.said());
        sleep(ASK_EVERY).await;
    }
    phone.hang_up().await;
    let record = browser.wait_record(&id, DOWN_WITHIN).await;
    assert_eq!(record["reason"]["label"], "caller_hung_up");
    assert!(record["entries"].to_string().contains("this is support. How can I help?"), "{record}");
    assert!(browser.text("/history").await.contains(&id));

    // The call may finish; a second Ctrl-C ends it.
    let mut phone = pbx.call().await;
    pbx.terminal.ctrl_c().await;
    pbx.terminal.wait_said("draining", DOWN_WITHIN).await;
    assert!(phone.seen().ended.is_none(), "{}", pbx.terminal.said());
    pbx.terminal.ctrl_c().await;
    let status = pbx.terminal.wait_exit(DOWN_WITHIN).await;
    let said = pbx.terminal.said();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("Stopped."), "{said}");
    phone.wait_ended(DOWN_WITHIN).await;
    assert_eq!(pbx.processes(), [0; 0]);
    let left: Vec<_> = std::fs::read_dir(pbx.directory.path().join("tmp")).expect("its own").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The reader of the pipe dies of the same Ctrl-C.
#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pipe_ctrl_c_leaves_nothing_either() {
    let mut pbx = Pbx::start_as(|script| format!("bash -c '{script} 2>&1 | tee /dev/null'"));
    pbx.wait_ready().await;
    pbx.terminal.ctrl_c().await;
    pbx.terminal.wait_exit(DOWN_WITHIN).await;
    // The command ends with the pipe's reader, and the script a moment later.
    let until = Instant::now() + DOWN_WITHIN;
    while !pbx.processes().is_empty() {
        assert!(Instant::now() < until, "{:?} are left:\n{}", pbx.processes(), pbx.terminal.said());
        sleep(ASK_EVERY).await;
    }
    let left: Vec<_> = std::fs::read_dir(pbx.directory.path().join("tmp")).expect("its own").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
