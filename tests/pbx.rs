//! `make pbx` as its users meet it: it says what to dial, somebody answers there, and Ctrl-C leaves
//! nothing behind.

mod support;

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use support::{
    audio::silence,
    phone::Phone,
    tied::{free_ports, lab},
};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

const UP_WITHIN: Duration = Duration::from_secs(20);
const DOWN_WITHIN: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(50);
const RTP_PORTS: u16 = 20;

/// The script with all that it starts.
struct Pbx {
    child: Child,
    directory: TempDir,
    http: u16,
    sip: u16,
}

impl Pbx {
    /// `config/asterisk.yaml`, which `make pbx` uses, with ports of the test's own.
    fn start() -> Self {
        let directory = TempDir::with_prefix("offhook-make-pbx-").expect("a temporary directory");
        let (http, audiosocket, media, ari, sip, rtp) =
            (free_ports(1), free_ports(1), free_ports(400), free_ports(1), free_ports(1), free_ports(RTP_PORTS));
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
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
        let said = File::create(directory.path().join("said")).expect("a file in the test's own directory");
        // The script runs what cargo has built: target/debug/offhook.
        let target = Path::new(env!("CARGO_BIN_EXE_offhook")).ancestors().nth(2).expect("target/debug/offhook");
        // Who starts these tests in the background may have them ignore Ctrl-C, which a shell cannot undo.
        let child = Command::new("env")
            .arg("--default-signal=INT")
            .arg(lab().join("pbx.sh"))
            .env("CARGO_TARGET_DIR", target)
            .env("TMPDIR", &temporary)
            .env("CONFIG", &config)
            .env("PBX_SIP_PORT", sip.to_string())
            .env("PBX_HTTP_PORT", ari.to_string())
            .env("LAB_RTP_FIRST", rtp.to_string())
            .env("LAB_RTP_LAST", (rtp + RTP_PORTS - 1).to_string())
            .stdin(Stdio::null())
            .stdout(said.try_clone().expect("a second handle"))
            .stderr(said)
            .spawn()
            .expect("bash runs");
        Self { child, directory, http, sip }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("said")).unwrap_or_default()
    }

    async fn wait_ready(&mut self) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = format!("http://127.0.0.1:{}/ready", self.http);
        let until = Instant::now() + UP_WITHIN;
        let ready = async || reqwest::get(&url).await.is_ok_and(|answer| answer.status() == 200);
        // What to dial is said once somebody answers there.
        while !(ready().await && self.said().contains("desk")) {
            let ended = self.child.try_wait().expect("its own child");
            assert!(ended.is_none(), "it ended with {ended:?}:\n{}", self.said());
            assert!(Instant::now() < until, "not ready within {UP_WITHIN:?}:\n{}", self.said());
            sleep(ASK_EVERY).await;
        }
    }

    /// Ctrl-C: what the script starts has sessions of its own, so the terminal tells the script alone.
    fn interrupt(&self) {
        signal("INT", &[self.child.id().expect("it runs").to_string()]);
    }

    async fn wait_said(&self, words: &str) {
        let until = Instant::now() + DOWN_WITHIN;
        while !self.said().contains(words) {
            assert!(Instant::now() < until, "{words:?} is not said:\n{}", self.said());
            sleep(ASK_EVERY).await;
        }
    }

    async fn wait_exit(&mut self) -> ExitStatus {
        let ended = timeout(DOWN_WITHIN, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it still runs:\n{}", self.said())).expect("its own child")
    }

    /// Processes of the script's that are there now: those that have its environment.
    fn processes(&self) -> Vec<String> {
        let mark = self.directory.path().join("tmp").display().to_string();
        let of_it = |process: &PathBuf| {
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&format!("TMPDIR={mark}"))
        };
        let all = std::fs::read_dir("/proc").expect("Linux").flatten().map(|process| process.path()).filter(of_it);
        all.filter_map(|process| Some(process.file_name()?.to_string_lossy().into_owned())).collect()
    }
}

impl Drop for Pbx {
    fn drop(&mut self) {
        let left = self.processes();
        if !left.is_empty() {
            signal("KILL", &left);
        }
    }
}

fn signal(name: &str, processes: &[String]) {
    let sent = std::process::Command::new("bash").args(["-c", "kill -s \"$@\"", "kill", name]).args(processes).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -s {name} {processes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_to_dial_somebody_answers_there_and_ctrl_c_leaves_nothing() {
    let mut pbx = Pbx::start();
    pbx.wait_ready().await;
    let said = pbx.said();
    for part in
        ["Asterisk 2", "are up", "user softphone", "password ", &format!("127.0.0.1:{}", pbx.sip), "7000", "7080"]
    {
        assert!(said.contains(part), "{part:?} is missing:\n{said}");
    }
    let mut phone = Phone::call(pbx.sip, "7000", silence(Duration::from_secs(60))).await;
    let until = Instant::now() + UP_WITHIN;
    while phone.heard().loud_spans().iter().map(|span| span.length()).sum::<Duration>() < Duration::from_millis(600) {
        assert!(Instant::now() < until, "no greeting:\n{}", pbx.said());
        sleep(ASK_EVERY).await;
    }
    // The call may finish; a second Ctrl-C ends it.
    pbx.interrupt();
    pbx.wait_said("draining").await;
    assert!(phone.seen().ended.is_none(), "{}", pbx.said());
    pbx.interrupt();
    let status = pbx.wait_exit().await;
    assert_eq!(status.code(), Some(0), "{}", pbx.said());
    assert!(pbx.said().contains("Stopped."), "{}", pbx.said());
    phone.wait_ended(DOWN_WITHIN).await;
    assert_eq!(pbx.processes(), Vec::<String>::new());
    let left: Vec<_> = std::fs::read_dir(pbx.directory.path().join("tmp")).expect("its own").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
