//! An engine in the test's own process and runtime, so that the test's clock is its clock.

use super::Launch;
use crate::kit::world;
use offhook::{
    config,
    engine::{Engine, Order, Source, environment},
    provider,
    telemetry::{LogBook, Metrics},
};
use std::{collections::HashMap, os::unix::process::ExitStatusExt as _, path::Path, process::ExitStatus};
use tokio::{sync::mpsc, task::JoinHandle};

/// As the program exits whose main thread panics.
const PANICKED: i32 = 101;
/// Where an exit code stands in what `wait` of the operating system returns.
const EXIT_CODE_BITS: i32 = 8;

pub struct InProcess {
    order: mpsc::Sender<Order>,
    serving: JoinHandle<()>,
    book: LogBook,
    log_begins: usize,
}

impl InProcess {
    /// Runs `offhook.yaml` of this folder, with the lines of its log in this test's book.
    pub async fn start(folder: &Path, launch: &Launch<'_>) -> Self {
        let book = world::log_book();
        let format = launch.log_format.parse().expect("a format");
        let log_begins = book.begin(format, launch.log).expect("a filter");
        let env: HashMap<String, String> =
            launch.env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let file = folder.join("offhook.yaml");
        let environment = |name: &str| env.get(name).cloned().or_else(|| environment(name));
        let config = config::load(&file, &environment, provider::catalog());
        let config = config.unwrap_or_else(|problems| panic!("{problems}"));
        let engine = Engine::start(Source::File(file), config, Metrics::new("test")).await.expect("it starts");
        let (order, orders) = mpsc::channel(16);
        Self { order, serving: tokio::spawn(engine.serve(orders)), book, log_begins }
    }

    pub fn has_ended(&self) -> bool {
        self.serving.is_finished()
    }

    pub fn log(&self) -> String {
        self.book.since(self.log_begins)
    }

    pub async fn signal(&self, name: &str) {
        let order = match name {
            "HUP" => Order::Reload,
            "TERM" | "INT" => Order::Stop,
            _ => panic!("SIG{name} is for a process: a scene that needs it is `only_real`"),
        };
        self.order.send(order).await.expect("it serves");
    }

    pub async fn ended(&mut self) -> ExitStatus {
        let code = if (&mut self.serving).await.is_ok() { 0 } else { PANICKED };
        ExitStatus::from_raw(code << EXIT_CODE_BITS)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        // As a process that is killed. Calls that stand go with the test's runtime.
        self.serving.abort();
    }
}
