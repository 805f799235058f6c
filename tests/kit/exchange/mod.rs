//! An emulated Asterisk 22.10 with its phones, for calls on a paused clock: tasks of the test's own runtime, real sockets
//! towards the engine, nothing else.
//!
//! What it does is what the real one was seen to do; where the two differ, this one is wrong. A scene that needs another
//! application of the dialplan adds it to `apps.rs`, another request of ARI to `ari.rs`.

// Every queue is a test's own, and none is long.
#![allow(clippy::disallowed_methods)]

mod apps;
mod ari;
mod audiosocket;
mod bridge;
mod channel;
mod dial;
pub mod dialplan;
pub mod expression;
pub mod frame;
mod http;
mod pbx;
mod phone;
mod registry;
mod rtp;
mod sound;
mod state;
mod tones;
mod transfer;
mod voicemail;
mod websocket;

pub use phone::ExchangePhone;

use super::{asterisk::Options, audio::Sound};
use state::{By, Switch};
use std::time::Duration;
use tokio::{net::TcpListener, task::JoinHandle, time::sleep};

/// What is on its way to the sockets has left by then.
const FAREWELL: Duration = Duration::from_millis(20);

/// One emulated Asterisk.
pub struct Exchange {
    switch: Switch,
    server: Option<JoinHandle<()>>,
    http_port: u16,
    sip_port: u16,
    password: String,
}

impl Exchange {
    /// Starts one; it is ready at once.
    pub async fn start(options: &Options) -> Self {
        assert!(options.settings.is_empty() && options.tls.is_none(), "own settings and TLS are not emulated");
        let switch = Switch::new(options);
        let sip_port = registry::add_exchange(&switch);
        let password = uuid::Uuid::new_v4().simple().to_string();
        let mut exchange = Self { switch, server: None, http_port: 0, sip_port, password };
        exchange.start_again().await;
        exchange
    }

    /// Starts it again after [`Self::kill`] or [`Self::stop`], with the same port and password.
    pub async fn start_again(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.http_port)).await.expect("its own port, or a free one");
        self.http_port = listener.local_addr().expect("bound").port();
        self.switch.with(|state| state.is_running = true);
        let served = http::serve(listener, self.switch.clone(), self.password.clone());
        self.server = Some(tokio::spawn(served));
    }

    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    pub fn ari_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.http_port)
    }

    pub fn ari_password(&self) -> &str {
        &self.password
    }

    /// Made up: where phones find it.
    pub fn sip_port(&self) -> u16 {
        self.sip_port
    }

    pub async fn channels(&self) -> Vec<String> {
        self.switch.with(|state| state.channels.values().map(|channel| channel.name.clone()).collect())
    }

    pub async fn bridges(&self) -> usize {
        self.switch.with(|state| state.bridges.len())
    }

    /// A global variable of the dialplan.
    pub async fn global(&self, name: &str) -> Option<String> {
        self.switch.with(|state| state.globals.get(name).cloned())
    }

    pub async fn set_global(&self, name: &str, value: &str) {
        self.switch.with(|state| state.globals.insert(name.to_owned(), value.to_owned()));
    }

    /// Messages in a mailbox.
    pub fn voicemails(&self, mailbox: &str) -> Vec<Sound> {
        self.switch.with(|state| state.voicemails.get(mailbox).cloned().unwrap_or_default())
    }

    /// What one command on the console prints.
    pub async fn cli(&self, command: &str) -> String {
        self.switch.with(|state| {
            let named = |name: &str| {
                let found = state.channels.values().find(|channel| channel.name == name);
                found.map(|channel| (channel.id.clone(), channel.shown()))
            };
            if let Some(name) = command.strip_prefix("core show channel ") {
                return named(name).map_or_else(|| format!("{name} is not a known channel\n"), |(_, shown)| shown);
            }
            if let Some(name) = command.strip_prefix("channel request hangup ") {
                let Some((id, _)) = named(name) else { return format!("{name} is not a known channel\n") };
                state.hang_up(&id, channel::cause::NORMAL, By::Request);
                return format!("Requested Hangup on channel '{name}'\n");
            }
            if let Some(part) = command.strip_prefix("module show like ") {
                let like = state.modules().into_iter().filter(|name| name.contains(part));
                return like.map(|name| format!("{name}.so  0  Running  core\n")).collect();
            }
            match command {
                "core show version" => "Asterisk 22.10.1 (emulated)\n".to_owned(),
                "core show channels concise" => {
                    state.channels.values().map(|channel| channel.name.clone() + "!\n").collect()
                }
                _ => panic!("the command {command:?} is not emulated"),
            }
        })
    }

    /// Its log so far: warnings, and each step of the dialplan.
    pub fn log(&self) -> String {
        self.switch.with(|state| state.log.clone())
    }

    /// Ends it as a crash would. Calls are gone, phones are not told.
    pub async fn kill(&mut self) {
        self.switch.with(|state| state.is_running = false);
        if let Some(server) = self.server.take() {
            server.abort();
            let _ = server.await;
        }
        let mut tasks = self.switch.with(|state| std::mem::take(&mut state.tasks));
        tasks.shutdown().await;
        self.switch.with(state::State::forget);
    }

    /// Asks it to end. Calls are hung up and sockets closed politely.
    pub async fn stop(&mut self) {
        self.switch.with(|state| {
            for id in state.channels.keys().cloned().collect::<Vec<_>>() {
                state.hang_up(&id, channel::cause::NORMAL, By::Dialplan);
            }
            state.close_applications();
        });
        sleep(FAREWELL).await;
        self.kill().await;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        registry::remove(self.sip_port);
        if let Some(server) = &self.server {
            server.abort();
        }
        let lacks = self.switch.with(|state| {
            state.look_for_panics();
            state.tasks.abort_all();
            // Phones that are still in a call hold on to it.
            state.forget();
            std::mem::take(&mut state.lacks)
        });
        if std::thread::panicking() {
            eprintln!("--- the emulated Asterisk\n{}", self.log());
        } else {
            assert!(lacks.is_empty(), "the emulated Asterisk lacks what this scene needs: {lacks:?}");
        }
    }
}
