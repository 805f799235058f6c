//! An engine in the same runtime, attached to an emulated Asterisk.

use super::{SOON, ms};
use crate::kit::exchange::Exchange;
use offhook::{
    config,
    engine::{Engine, Source},
    provider,
    telemetry::Metrics,
};
use tempfile::TempDir;
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

pub struct Desk {
    pub engine: Engine,
    _folder: TempDir,
}

impl Desk {
    /// An engine whose only agent follows `script`; `more` lines of its context.
    pub async fn attached(exchange: &Exchange, script: &str, more: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let steps: String = script.lines().map(|line| format!("        {}\n", line.trim())).collect();
        let yaml = format!(
            "asterisk: {{ url: \"{}\", username: offhook, password: \"{}\", app: offhook }}\n\
             http: {{ bind: \"127.0.0.1:0\" }}\nmedia:\n  audiosocket: {{ bind: \"127.0.0.1:0\" }}\n  \
             rtp: {{ bind: 127.0.0.1, ports: {}-{} }}\nturns: {{ owner: provider }}\n\
             default_context: front\nproviders:\n  script:\n    scripted:\n      script:\n{steps}\
             destinations:\n  desk: {{ description: A human, context: lab-targets, extension: desk }}\n\
             contexts:\n  front:\n    prompt: You are a test.\n    provider: script\n    \
             tools: [hangup_call, transfer]\n    audiosocket_id: \"0ff40001\"\n{more}",
            exchange.ari_url(),
            exchange.ari_password(),
            41_000 + 200 * (std::process::id() % 100),
            41_199 + 200 * (std::process::id() % 100),
        );
        let folder = TempDir::with_prefix("offhook-exchange-").expect("a temporary directory");
        let path = folder.path().join("offhook.yaml");
        std::fs::write(&path, yaml).expect("a file in the test's own folder");
        let loaded = path.clone();
        let config = spawn_blocking(move || config::load(&loaded, &|_| None, &provider::catalog())).await;
        let config = config.expect("it is read").unwrap_or_else(|problems| panic!("{problems}"));
        let engine = Engine::start(Source::File(path), config, Metrics::new("test")).await.expect("it starts");
        let desk = Self { engine, _folder: folder };
        desk.wait_ready(200).await;
        desk
    }

    pub async fn wait_ready(&self, status: u16) {
        let (page, until) = (format!("http://{}/ready", self.engine.http_addr()), Instant::now() + 2 * SOON);
        loop {
            let answer = reqwest::get(&page).await.expect("the page");
            if answer.status().as_u16() == status {
                return;
            }
            assert!(Instant::now() < until, "{}", answer.text().await.unwrap_or_default());
            sleep(ms(20)).await;
        }
    }

    pub fn metric(&self, begin: &str) -> f64 {
        let text = self.engine.metrics().text();
        let values = text.lines().filter(|line| line.starts_with(begin)).filter_map(|line| line.rsplit(' ').next());
        values.filter_map(|value| value.parse::<f64>().ok()).sum()
    }

    pub async fn wait(&self, begin: &str, at_least: f64) {
        let until = Instant::now() + SOON;
        while self.metric(begin) < at_least {
            assert!(Instant::now() < until, "{begin} is {}, not {at_least}", self.metric(begin));
            sleep(ms(20)).await;
        }
    }
}
