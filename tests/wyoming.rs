//! Against a Wyoming server made of the reference library.

#[path = "support/python.rs"]
mod python;

use bytes::Bytes;
use offhook::{
    audio::Format,
    remote::kinds,
    stt::{Hear, Heard, LISTENERS},
};
use python::script;
use serde_json::json;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    time::Duration,
};
use tokio::{sync::mpsc, time::timeout};

const PATIENCE: Duration = Duration::from_secs(20);

/// Ends with its standard input, so also when a test fails.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(kind: &str) -> Self {
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

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// One call with two turns of 1.5 s each; all that was told.
async fn call(address: &str) -> Vec<Heard> {
    let options =
        json!({ "address": address, "model": "small", "language": "de", "names": ["Grün"], "terms": ["Taxi"] });
    let listener = kinds::build(LISTENERS, "wyoming_transcribe", &options).expect("good options");
    assert_eq!(listener.format(Format::ULAW), Format::SLIN16);
    let (input, hears) = mpsc::channel(1_024);
    let (tells, mut words) = mpsc::channel(1_024);
    let session = tokio::spawn(listener.listen(Format::SLIN16, hears, tells));
    let mut told = Vec::new();
    for turns in 1..=2 {
        let frame = Hear::Audio(Bytes::from(vec![0; Format::SLIN16.frame_bytes()]));
        let sound = |frames: usize| vec![frame.clone(); frames];
        let turn = [sound(50), vec![Hear::TurnBegan], sound(25), vec![Hear::TurnMayEnd, Hear::TurnEnded]];
        for hear in turn.concat() {
            input.send(hear).await.expect("the session goes on");
        }
        while told.iter().filter(|heard| matches!(heard, Heard::Turn { .. })).count() < turns {
            told.push(timeout(PATIENCE, words.recv()).await.expect("it comes soon").expect("the session goes on"));
        }
    }
    drop(input);
    timeout(PATIENCE, session).await.expect("it ends").expect("no panic").expect("no fault");
    told
}

#[tokio::test]
async fn a_server_of_the_reference_library_understands_what_is_asked() {
    for kind in ["plain", "streaming"] {
        let server = Server::start(kind);
        let told = call(&server.address).await;
        let text = "1500 ms of 16000 Hz, 2 bytes, 1 channel for small in de: Grün, Taxi".to_owned();
        let turns = told.iter().filter(|heard| **heard == Heard::Turn { text: text.clone() }).count();
        assert_eq!((told.first(), turns), (Some(&Heard::Ready), 2), "{kind}");
    }
}
