//! A Wyoming server made of the reference library: `tests/sdk/wyoming_server.py`.

#![allow(dead_code)]

use super::python::script;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

/// What its voice sounds like, unless another one is asked for.
pub const VOICE_HZ: f64 = 660.0;
/// For each word.
pub const WORD_MS: u64 = 100;

/// Ends with its standard input, so also when a test fails.
pub struct WyomingServer {
    child: Child,
    pub address: String,
}

impl WyomingServer {
    /// `plain` and `streaming` ones listen, a `speaking` one speaks.
    pub fn start(kind: &str) -> Self {
        let mut child = script("wyoming", "wyoming_server.py")
            .arg(kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a Python that runs");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut port).expect("a line");
        assert!(!port.trim().is_empty(), "the server has not begun: run `make setup`");
        Self { child, address: format!("127.0.0.1:{}", port.trim()) }
    }
}

impl Drop for WyomingServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
