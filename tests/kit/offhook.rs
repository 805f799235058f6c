//! The engine of a test: the program as its users run it, with a configuration file, signals and pages, or, where a scene runs in
//! virtual time, an engine in this process that is ordered about in the same ways. A scene is written against this alone.

mod in_process;
mod program;

use super::{
    asterisk::Asterisk,
    seen,
    tied::free_ports,
    world::{self, World},
};
use in_process::InProcess;
use program::Program;
use serde_json::Value;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

const ASK_EVERY: Duration = Duration::from_millis(20);
/// From what a test saw to what the engine says of it.
const TOLD_WITHIN: Duration = Duration::from_secs(15);
const START_MAX: Duration = Duration::from_secs(20);
/// Even ports for as many calls as `limits.calls` allows by default.
const RTP_PORTS: u16 = 400;

enum Kind {
    Program(Program),
    InProcess(InProcess),
}

pub struct Offhook {
    engine: Kind,
    directory: TempDir,
    http: u16,
    audiosocket: u16,
    client: reqwest::Client,
    /// What the pages are asked with.
    token: Option<String>,
}

/// Where one engine listens, and where it finds its Asterisk.
pub struct Place {
    pub http: u16,
    pub audiosocket: u16,
    rtp: u16,
}

/// Callers of most tests are tones, which the ears of a scripted agent take for speech and offhook's do not.
const CALLERS_ARE_TONES: &str = "turns: { owner: provider }\n";

impl Place {
    pub fn free() -> Self {
        thread_local! {
            /// Shared by the engines of a test, which may have many: each takes a port at random that no other one has.
            static RTP: u16 = free_ports(RTP_PORTS);
        }
        Self { http: free_ports(1), audiosocket: free_ports(1), rtp: RTP.with(|first| *first) }
    }

    /// The sections of a configuration that say where things are.
    pub fn yaml(&self, asterisk: Option<&Asterisk>) -> String {
        let asterisk = asterisk.map(|asterisk| (asterisk.ari_url(), asterisk.ari_password()));
        self.yaml_of(asterisk.as_ref().map(|(url, password)| (&**url, *password)))
    }

    /// The same for an engine that programs with this token may ask.
    pub fn yaml_with(&self, asterisk: &Asterisk, token: &str) -> String {
        let http = format!("http: {{ bind: \"127.0.0.1:{}\"", self.http);
        self.yaml(Some(asterisk)).replace(&http, &format!("{http}, admin_token: {token}"))
    }

    /// The same where ARI is found at `url`, with this password.
    pub fn yaml_of(&self, asterisk: Option<(&str, &str)>) -> String {
        let asterisk = asterisk.map_or_else(String::new, |(url, password)| {
            format!("asterisk: {{ url: \"{url}\", username: offhook, password: \"{password}\", app: offhook }}\n")
        });
        let media = self.media();
        format!("{asterisk}http: {{ bind: \"127.0.0.1:{}\" }}\nmedia:\n{media}{CALLERS_ARE_TONES}", self.http)
    }

    /// The keys of `media` that do so.
    pub fn media(&self) -> String {
        let Self { audiosocket, rtp, .. } = self;
        let last = rtp + RTP_PORTS - 1;
        format!(
            "  audiosocket: {{ bind: \"127.0.0.1:{audiosocket}\" }}\n  rtp: {{ bind: 127.0.0.1, ports: {rtp}-{last} }}\n"
        )
    }
}

/// How the program is started.
pub struct Launch<'a> {
    pub log: &'a str,
    pub log_format: &'a str,
    /// More of the environment than the test's own.
    pub env: &'a [(&'a str, String)],
    /// Files beside the configuration: their names relative to its folder, and what is in them.
    pub files: &'a [(&'a str, &'a str)],
}

impl Default for Launch<'_> {
    fn default() -> Self {
        Self { log: "debug", log_format: "text", env: &[], files: &[] }
    }
}

/// Prints the engine's log when a test panics: a failure by chance may not come again.
impl Drop for Offhook {
    fn drop(&mut self) {
        if matches!(self.engine, Kind::Program(_)) {
            seen::note_of_engine(self.http, self.token.as_deref());
        }
        if std::thread::panicking() {
            eprintln!("--- offhook\n{}", self.log());
        }
    }
}

impl Offhook {
    /// Starts the program with this configuration and waits until it answers.
    pub async fn start(place: Place, yaml: &str) -> Self {
        Self::launch(place, yaml, Launch::default()).await
    }

    pub async fn launch(place: Place, yaml: &str, launch: Launch<'_>) -> Self {
        let directory = TempDir::with_prefix("offhook-engine-").expect("a temporary directory");
        Self::launch_in(directory, place, yaml, launch).await
    }

    /// The same in a folder that has files already. It is started there, as somebody would who is in it, and paths that it
    /// tells are relative.
    pub async fn launch_in(directory: TempDir, place: Place, yaml: &str, launch: Launch<'_>) -> Self {
        std::fs::write(directory.path().join("offhook.yaml"), yaml).expect("a file in the test's own directory");
        for (name, text) in launch.files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().expect("in the directory")).expect("the test's own directory");
            std::fs::write(path, text).expect("a file in the test's own directory");
        }
        let engine = match world::current() {
            World::Real => Kind::Program(Program::start(directory.path(), &launch)),
            World::Emulated => Kind::InProcess(InProcess::start(directory.path(), &launch).await),
        };
        // Only the first in a test program can succeed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A connection for each question: one that stays would count among what the engine has open.
        let client =
            reqwest::Client::builder().pool_max_idle_per_host(0).tls_certs_only([]).build().expect("a plain client");
        let mut offhook =
            Self { engine, directory, http: place.http, audiosocket: place.audiosocket, client, token: None };
        let until = Instant::now() + START_MAX;
        while offhook.try_page("live").await.is_none() {
            let ended = match &mut offhook.engine {
                Kind::Program(program) => program.has_ended(),
                Kind::InProcess(engine) => engine.has_ended(),
            };
            assert!(!ended, "the engine ended:\n{}", offhook.log());
            assert!(Instant::now() < until, "the engine does not answer:\n{}", offhook.log());
            sleep(ASK_EVERY).await;
        }
        offhook
    }

    /// An engine that is connected with this Asterisk and takes calls.
    pub async fn attached(asterisk: &Asterisk, agents: &str) -> Self {
        let place = Place::free();
        let yaml = format!("{}{agents}", place.yaml(Some(asterisk)));
        let offhook = Self::start(place, &yaml).await;
        offhook.wait_ready(true).await;
        offhook
    }

    /// For an engine with an `admin_token`.
    pub fn ask_with(&mut self, token: &str) {
        self.token = Some(token.to_owned());
    }

    async fn try_page(&self, name: &str) -> Option<(u16, String)> {
        let request = self.client.get(format!("http://127.0.0.1:{}/{name}", self.http));
        let request = self.token.iter().fold(request, |request, token| request.bearer_auth(token));
        let answer = request.send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    pub async fn page(&self, name: &str) -> (u16, String) {
        self.try_page(name).await.unwrap_or_else(|| panic!("no answer from /{name}:\n{}", self.log()))
    }

    pub async fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.page(name).await.1).expect("this page is JSON")
    }

    pub async fn wait_ready(&self, ready: bool) -> String {
        let (status, within) = (if ready { 200 } else { 503 }, Duration::from_secs(20));
        let until = Instant::now() + within;
        loop {
            let (got, body) = self.page("ready").await;
            if got == status {
                return body;
            }
            assert!(Instant::now() < until, "/ready still says {got} after {within:?}: {body}\n{}", self.log());
            sleep(ASK_EVERY).await;
        }
    }

    /// The sum of all children of a metric whose line begins like this.
    pub async fn metric(&self, name: &str) -> f64 {
        let [value] = self.metrics([name]).await;
        value
    }

    /// Like `metric`, for several names on one page: figures of one moment.
    pub async fn metrics<const N: usize>(&self, names: [&str; N]) -> [f64; N] {
        let (_, text) = self.page("metrics").await;
        names.map(|name| {
            let values = text.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit(' ').next());
            values.filter_map(|value| value.parse::<f64>().ok()).sum()
        })
    }

    pub async fn wait_metric(&self, name: &str, at_least: f64, within: Duration) {
        let until = Instant::now() + within;
        loop {
            let value = self.metric(name).await;
            if value >= at_least {
                return;
            }
            assert!(Instant::now() < until, "{name} is {value}, not {at_least}, after {within:?}\n{}", self.log());
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits until a metric has this value: what a test saw somewhere else, the engine may be about to count.
    pub async fn metric_is(&self, name: &str, wanted: f64) {
        let until = Instant::now() + TOLD_WITHIN;
        loop {
            let value = self.metric(name).await;
            if value == wanted {
                return;
            }
            assert!(Instant::now() < until, "{name} is {value}, not {wanted}, after {TOLD_WITHIN:?}\n{}", self.log());
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits until the log has this text.
    pub async fn wait_logged(&self, text: &str) {
        let until = Instant::now() + TOLD_WITHIN;
        while !self.log().contains(text) {
            assert!(Instant::now() < until, "the log has no {text:?} after {TOLD_WITHIN:?}\n{}", self.log());
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits until this many calls have ended and returns them, newest first.
    pub async fn wait_ended(&self, calls: usize, within: Duration) -> Vec<Value> {
        let until = Instant::now() + within;
        loop {
            let page = self.json("calls").await;
            let recent = page["recent"].as_array().expect("a list").clone();
            if recent.len() >= calls {
                return recent;
            }
            assert!(Instant::now() < until, "{} of {calls} calls ended: {page}\n{}", recent.len(), self.log());
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits until the only call has ended and returns its reason's label.
    pub async fn wait_end_reason(&self, within: Duration) -> String {
        let ended = self.wait_ended(1, within).await;
        ended[0]["reason"]["label"].as_str().expect("a label").to_owned()
    }

    pub async fn wait_active(&self, calls: usize, within: Duration) {
        let until = Instant::now() + within;
        loop {
            let page = self.json("calls").await;
            if page["active"].as_array().is_some_and(|active| active.len() == calls) {
                return;
            }
            assert!(Instant::now() < until, "not {calls} active calls: {page}\n{}", self.log());
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits until an active call is like this.
    pub async fn wait_active_where(&self, like: impl Fn(&Value) -> bool, within: Duration) {
        let until = Instant::now() + within;
        loop {
            let page = self.json("calls").await;
            if page["active"].as_array().is_some_and(|active| active.iter().any(&like)) {
                return;
            }
            assert!(Instant::now() < until, "no active call is like that: {page}\n{}", self.log());
            sleep(ASK_EVERY).await;
        }
    }

    pub fn audiosocket(&self) -> String {
        format!("127.0.0.1:{}", self.audiosocket)
    }

    pub fn http(&self) -> String {
        format!("127.0.0.1:{}", self.http)
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        match &self.engine {
            Kind::Program(_) => Program::log(self.directory.path()),
            Kind::InProcess(engine) => engine.log(),
        }
    }

    /// Its folder, where relative names in its configuration lead.
    pub fn folder(&self) -> &std::path::Path {
        self.directory.path()
    }

    pub fn write_config(&self, yaml: &str) {
        std::fs::write(self.directory.path().join("offhook.yaml"), yaml).expect("its own file");
    }

    pub fn read_config(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("offhook.yaml")).expect("its own file")
    }

    pub async fn post(&self, name: &str) -> (u16, String) {
        let url = format!("http://127.0.0.1:{}/{name}", self.http);
        let answer = self.client.post(url).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a body"))
    }

    /// One request with this bearer token, and its answer.
    pub async fn request(&self, method: &str, path: &str, token: &str, body: Option<&Value>) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let url = format!("http://127.0.0.1:{}/{path}", self.http);
        let request = self.client.request(method, url).bearer_auth(token);
        let request = body.iter().fold(request, |request, body| request.json(body));
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.expect("a body")).unwrap_or_default())
    }

    /// Asks until the answer is like this, and returns it.
    pub async fn wait_answer(&self, path: &str, like: impl Fn(&Value) -> bool, within: Duration) -> Value {
        let until = Instant::now() + within;
        loop {
            let (status, text) = self.page(path).await;
            let answer = serde_json::from_str(&text).unwrap_or_default();
            if like(&answer) {
                return answer;
            }
            assert!(Instant::now() < until, "/{path} answers {status} {text}\n{}", self.log());
            sleep(ASK_EVERY).await;
        }
    }

    /// The process that has its sockets.
    pub fn pid(&self) -> u32 {
        match &self.engine {
            Kind::Program(program) => program.pid(),
            Kind::InProcess(_) => std::process::id(),
        }
    }

    /// Sends a signal to the program, or the order that is meant by it to an engine of this process: HUP, TERM, or INT.
    pub async fn signal(&self, name: &str) {
        match &self.engine {
            Kind::Program(program) => program.signal(name),
            Kind::InProcess(engine) => engine.signal(name).await,
        }
    }

    /// Open descriptors of the program. An engine of this process has none that could be told from those of other tests.
    pub fn descriptors(&self) -> usize {
        match &self.engine {
            Kind::Program(program) => program.descriptors(),
            Kind::InProcess(_) => 0,
        }
    }

    /// Waits until it has ended by itself.
    pub async fn wait_exit(&mut self, within: Duration) -> std::process::ExitStatus {
        let ended = async {
            match &mut self.engine {
                Kind::Program(program) => program.ended().await,
                Kind::InProcess(engine) => engine.ended().await,
            }
        };
        timeout(within, ended).await.expect("it ends in time")
    }
}
