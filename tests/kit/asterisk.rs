//! The telephone exchange of a scene: a real Asterisk, or the emulated one where the scene runs in virtual time. A scene is written
//! against this alone.

mod real;

use super::{
    audio::Sound,
    authority::Certificate,
    exchange::Exchange,
    world::{self, World},
};
use real::RealAsterisk;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often a condition inside Asterisk is asked for; of a real one each time is a short-lived process.
const ASK_EVERY: Duration = Duration::from_millis(50);

pub const ARI_USER: &str = "offhook";
/// Tones of the people in the lab's dialplan (`tests/lab/etc/extensions.conf`), in Hz.
pub const DESK_HZ: f64 = 1700.0;
pub const SLOW_HZ: f64 = 2100.0;
pub const LEAVES_HZ: f64 = 1300.0;
pub const DIGITS_HZ: f64 = 900.0;

/// What a test may want otherwise.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where `AudioSocket()` of the dialplan examples connects to, `host:port`.
    pub audiosocket: Option<String>,
    /// More dialplan, as whole contexts. `[lab-callers](+)` adds extensions that phones can dial.
    pub dialplan: String,
    /// ARI over TLS as well, by this certificate.
    pub tls: Option<Certificate>,
    /// Modules that are not loaded.
    pub without: Vec<&'static str>,
    /// The ARI user may look, but not act.
    pub read_only: bool,
    /// Files in the place of the lab's own, such as `ari.conf`, with their text. Where they are `http.conf` and `ari.conf`, port
    /// and password of ARI are what they say.
    pub settings: Vec<(String, String)>,
}

/// Boxed, as scenes hold several across their waits.
pub enum Asterisk {
    Real(Box<RealAsterisk>),
    Emulated(Box<Exchange>),
}

use Asterisk::{Emulated, Real};

impl Asterisk {
    /// Starts one and waits until it has fully booted.
    pub async fn start(options: Options) -> Self {
        match world::current() {
            World::Real => Real(Box::new(RealAsterisk::start(options).await)),
            World::Emulated => Emulated(Box::new(Exchange::start(&options).await)),
        }
    }

    /// For `asterisk.url` in offhook's configuration.
    pub fn ari_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.http_port())
    }

    /// The same over TLS, where [`Options::tls`] was given.
    pub fn ari_url_tls(&self) -> String {
        match self {
            Real(asterisk) => asterisk.ari_url_tls(),
            Emulated(_) => panic!("the emulated exchange speaks no TLS: a scene that needs it is `only_real`"),
        }
    }

    pub fn ari_password(&self) -> &str {
        match self {
            Real(asterisk) => asterisk.ari_password(),
            Emulated(exchange) => exchange.ari_password(),
        }
    }

    /// Environment variables by which the configurations in `config/` find it.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let [url, user, password] = [self.ari_url(), ARI_USER.to_owned(), self.ari_password().to_owned()];
        vec![("ARI_URL", url), ("ARI_USERNAME", user), ("ARI_PASSWORD", password)]
    }

    /// Where phones call it: UDP on 127.0.0.1, or a number by which emulated phones find it.
    pub fn sip_port(&self) -> u16 {
        match self {
            Real(asterisk) => asterisk.sip_port(),
            Emulated(exchange) => exchange.sip_port(),
        }
    }

    /// The port of ARI, on 127.0.0.1.
    pub fn http_port(&self) -> u16 {
        match self {
            Real(asterisk) => asterisk.http_port(),
            Emulated(exchange) => exchange.http_port(),
        }
    }

    /// What one command on the console prints.
    pub async fn cli(&self, command: &str) -> String {
        match self {
            Real(asterisk) => asterisk.cli(command).await,
            Emulated(exchange) => exchange.cli(command).await,
        }
    }

    /// Names of the channels that exist now.
    pub async fn channels(&self) -> Vec<String> {
        match self {
            Real(asterisk) => asterisk.channels().await,
            Emulated(exchange) => exchange.channels().await,
        }
    }

    /// Bridges that exist now.
    pub async fn bridges(&self) -> usize {
        match self {
            Real(asterisk) => asterisk.bridges().await,
            Emulated(exchange) => exchange.bridges().await,
        }
    }

    /// A global variable of the dialplan.
    pub async fn global(&self, name: &str) -> Option<String> {
        match self {
            Real(asterisk) => asterisk.global(name).await,
            Emulated(exchange) => exchange.global(name).await,
        }
    }

    /// Sets a global variable, such as `OFFHOOK_HUMAN`; `value` without blanks.
    pub async fn set_global(&self, name: &str, value: &str) {
        match self {
            Real(asterisk) => asterisk.set_global(name, value).await,
            Emulated(exchange) => exchange.set_global(name, value).await,
        }
    }

    /// Messages in a mailbox of the context `default`.
    pub fn voicemails(&self, mailbox: &str) -> Vec<Sound> {
        match self {
            Real(asterisk) => asterisk.voicemails(mailbox),
            Emulated(exchange) => exchange.voicemails(mailbox),
        }
    }

    /// The process that has its sockets.
    pub fn pid(&self) -> u32 {
        match self {
            Real(asterisk) => asterisk.pid(),
            Emulated(_) => std::process::id(),
        }
    }

    /// Ends it as a crash would. Calls are gone, phones are not told.
    pub async fn kill(&mut self) {
        match self {
            Real(asterisk) => asterisk.kill().await,
            Emulated(exchange) => exchange.kill().await,
        }
    }

    /// Asks it to end, as a service manager does. Calls are hung up and sockets closed politely.
    pub async fn stop(&mut self) {
        match self {
            Real(asterisk) => asterisk.stop().await,
            Emulated(exchange) => exchange.stop().await,
        }
    }

    /// Starts it again after [`Self::kill`] or [`Self::stop`], with the same ports and passwords.
    pub async fn start_again(&mut self) {
        match self {
            Real(asterisk) => asterisk.start_again().await,
            Emulated(exchange) => exchange.start_again().await,
        }
    }

    /// Its log so far: warnings, errors, and each step of the dialplan.
    pub fn log(&self) -> String {
        match self {
            Real(asterisk) => asterisk.log(),
            Emulated(exchange) => exchange.log(),
        }
    }

    /// Waits until no channel and no bridge is left; says which are when there are still some.
    pub async fn wait_empty(&self, within: Duration) {
        let until = Instant::now() + within;
        loop {
            let (channels, bridges) = (self.channels().await, self.bridges().await);
            if channels.is_empty() && bridges == 0 {
                return;
            }
            assert!(Instant::now() < until, "after {within:?} Asterisk still has {channels:?} and {bridges} bridges");
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits until a global variable of the dialplan is set, and returns it.
    pub async fn wait_global(&self, name: &str, within: Duration) -> String {
        let until = Instant::now() + within;
        loop {
            if let Some(value) = self.global(name).await {
                return value;
            }
            assert!(Instant::now() < until, "{name} was not set within {within:?}");
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits until a line of the log holds `text`.
    pub async fn wait_logged(&self, text: &str, within: Duration) {
        let until = Instant::now() + within;
        while !self.log().contains(text) {
            assert!(Instant::now() < until, "Asterisk did not log {text:?} within {within:?}");
            sleep(ASK_EVERY).await;
        }
    }
}
