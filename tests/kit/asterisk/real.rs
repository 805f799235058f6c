//! A real Asterisk of its own for each test: `tests/lab/asterisk.sh` with random ports and passwords, on
//! the loopback only.

use super::{
    super::{
        audio::Sound,
        authority::Certificate,
        seen,
        tied::{Tied, free_ports, lab},
    },
    ARI_USER, ASK_EVERY, Options,
};
use std::{fmt::Write as _, path::Path, time::Duration};
use tempfile::TempDir;
use tokio::{
    process::Command,
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, timeout},
};

/// Real-Asterisk tests at once in one test program. Each has an Asterisk, phones and an engine, all of
/// them on 20 ms clocks, and takes nearly a third of a core; on two cores more of them disturb each other.
const AT_ONCE: usize = 4;
static SLOTS: Semaphore = Semaphore::const_new(AT_ONCE);

/// It starts in a quarter of a second on an idle machine.
const BOOT_WITHIN: Duration = Duration::from_secs(20);
const CLI_WITHIN: Duration = Duration::from_secs(10);
/// Ports for RTP: two for each leg, and room for a port that is not free.
const RTP_PORTS: u16 = 200;

pub struct RealAsterisk {
    directory: TempDir,
    process: Tied,
    env: Vec<(&'static str, String)>,
    http_port: u16,
    sip_port: u16,
    tls_port: Option<u16>,
    password: String,
    _slot: SemaphorePermit<'static>,
}

impl RealAsterisk {
    /// Starts one and waits until it has fully booted.
    pub async fn start(options: Options) -> Self {
        let slot = SLOTS.acquire().await.expect("the semaphore is never closed");
        let version = Command::new(lab().join("asterisk.sh")).arg("version").output().await;
        match version {
            Ok(output) if output.status.success() => {}
            Ok(output) => panic!("no Asterisk: {}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => panic!("no Asterisk: cannot run tests/lab/asterisk.sh ({error}); run: make setup"),
        }
        let directory = TempDir::with_prefix("offhook-asterisk-").expect("a temporary directory");
        let etc = directory.path().join("etc");
        std::fs::create_dir(&etc).expect("a directory in the test's own one");
        std::fs::write(etc.join("extensions_extra.conf"), &options.dialplan)
            .expect("a file in the test's own directory");
        if !options.settings.is_empty() {
            let settings = directory.path().join("settings");
            std::fs::create_dir(&settings).expect("a directory in the test's own one");
            for (name, text) in &options.settings {
                std::fs::write(settings.join(name), text).expect("a file in the test's own directory");
            }
        }

        let (http_port, sip_port, rtp) = (free_ports(1), free_ports(1), free_ports(RTP_PORTS));
        let password = random_hex();
        let mut env = vec![
            ("LAB_ARI_USER", ARI_USER.to_owned()),
            ("LAB_ARI_PASSWORD", password.clone()),
            ("LAB_HTTP_PORT", http_port.to_string()),
            ("LAB_SIP_PORT", sip_port.to_string()),
            ("LAB_RTP_FIRST", rtp.to_string()),
            ("LAB_RTP_LAST", (rtp + RTP_PORTS - 1).to_string()),
        ];
        let tls_port = options.tls.as_ref().map(|_| free_ports(1));
        if let (Some(port), Some(Certificate { certificate, key })) = (tls_port, options.tls) {
            env.extend([
                ("LAB_TLS_PORT", port.to_string()),
                ("LAB_TLS_CERTIFICATE", certificate.display().to_string()),
                ("LAB_TLS_KEY", key.display().to_string()),
            ]);
        }
        env.push(("LAB_WITHOUT", options.without.join(" ")));
        env.push(("LAB_ARI_READ_ONLY", if options.read_only { "yes" } else { "no" }.to_owned()));
        env.extend(options.audiosocket.map(|address| ("LAB_AUDIOSOCKET", address)));
        let process = spawn(directory.path(), &env);
        let mut asterisk = Self { directory, process, env, http_port, sip_port, tls_port, password, _slot: slot };
        asterisk.wait_booted().await;
        asterisk
    }

    /// ARI over TLS, where [`Options::tls`] was given.
    pub fn ari_url_tls(&self) -> String {
        format!("https://127.0.0.1:{}", self.tls_port.expect("an Asterisk that was given a certificate"))
    }

    pub fn ari_password(&self) -> &str {
        &self.password
    }

    /// UDP, 127.0.0.1.
    pub fn sip_port(&self) -> u16 {
        self.sip_port
    }

    /// What one command on the console prints.
    pub async fn cli(&self, command: &str) -> String {
        self.try_cli(command).await.unwrap_or_else(|why| panic!("asterisk cli {command:?}: {why}"))
    }

    /// Names of the channels that exist now.
    pub async fn channels(&self) -> Vec<String> {
        let listing = self.cli("core show channels concise").await;
        listing.lines().filter_map(|line| line.split_once('!')).map(|(name, _)| name.to_owned()).collect()
    }

    /// Bridges that exist now.
    pub async fn bridges(&self) -> usize {
        let listing = self.cli("bridge show all").await;
        listing.lines().filter(|line| !line.starts_with("Bridge-ID") && !line.trim().is_empty()).count()
    }

    /// A global variable of the dialplan.
    pub async fn global(&self, name: &str) -> Option<String> {
        let prefix = format!("{name}=");
        let listing = self.cli("dialplan show globals").await;
        listing.lines().find_map(|line| line.trim().strip_prefix(&prefix).map(str::to_owned))
    }

    /// Sets a global variable, such as `OFFHOOK_HUMAN`; `value` without blanks.
    pub async fn set_global(&self, name: &str, value: &str) {
        self.cli(&format!("dialplan set global {name} {value}")).await;
    }

    /// Messages in a mailbox of the context `default`.
    pub fn voicemails(&self, mailbox: &str) -> Vec<Sound> {
        let inbox = self.directory.path().join(format!("spool/voicemail/default/{mailbox}/INBOX"));
        let files = std::fs::read_dir(inbox).into_iter().flatten().flatten().map(|entry| entry.path());
        let messages = files.filter(|path| path.extension().is_some_and(|extension| extension == "wav"));
        messages.filter_map(|path| Sound::read_wav(&path)).collect()
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends it as a crash would. Calls are gone, phones are not told.
    pub async fn kill(&mut self) {
        self.process.kill().await;
    }

    /// Asks it to end, as a service manager does. Calls are hung up and sockets closed politely.
    pub async fn stop(&mut self) {
        self.process.stop().await;
    }

    /// The port of ARI, on 127.0.0.1.
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// Starts it again after [`Self::kill`] or [`Self::stop`], with the same ports and passwords.
    pub async fn start_again(&mut self) {
        self.process = spawn(self.directory.path(), &self.env);
        self.wait_booted().await;
    }

    /// Its log so far: warnings, errors, and each step of the dialplan.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log/messages")).unwrap_or_default()
    }

    async fn try_cli(&self, command: &str) -> Result<String, String> {
        let asked = Command::new(lab().join("asterisk.sh"))
            .arg("cli")
            .arg(self.directory.path())
            .arg(command)
            .kill_on_drop(true)
            .output();
        let output = timeout(CLI_WITHIN, asked).await.map_err(|_| format!("no answer in {CLI_WITHIN:?}"))?;
        let output = output.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(said) } else { Err(said + &String::from_utf8_lossy(&output.stderr)) }
    }

    async fn wait_booted(&mut self) {
        let until = Instant::now() + BOOT_WITHIN;
        while !self.try_cli("core waitfullybooted").await.is_ok_and(|said| said.contains("fully booted")) {
            assert!(!self.process.has_ended(), "Asterisk ended while starting:\n{}", self.ending_of_logs());
            assert!(Instant::now() < until, "Asterisk did not boot in {BOOT_WITHIN:?}:\n{}", self.ending_of_logs());
            sleep(ASK_EVERY).await;
        }
    }

    fn ending_of_logs(&self) -> String {
        const LINES: usize = 120;
        let mut text = String::new();
        for name in ["console", "log/messages"] {
            let log = std::fs::read(self.directory.path().join(name)).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().collect();
            let from = lines.len().saturating_sub(LINES);
            writeln!(text, "--- Asterisk: {name}\n{}", lines[from..].join("\n")).expect("writing to a String");
        }
        text
    }
}

impl Drop for RealAsterisk {
    fn drop(&mut self) {
        seen::note_of_dialplan(&self.log());
        // The directory goes with the test; what a failed test needs is printed with it.
        if std::thread::panicking() {
            eprintln!("{}", self.ending_of_logs());
        }
    }
}

fn spawn(directory: &Path, env: &[(&'static str, String)]) -> Tied {
    let path = directory.to_str().expect("a temporary directory with an ordinary name");
    Tied::start("asterisk.sh", &["run", path], env, directory, &directory.join("console"))
}

fn random_hex() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
