//! Puts the commit into the program, for the line that the engine logs when it starts. Only into
//! release builds: a commit would else compile everything anew. Where there is no repository, as in
//! the build of an image, OFFHOOK_COMMIT names it.
//!
//! And makes the messages and services of VAM/1.0 from `proto/`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if release { commit() } else { "development".into() };
    println!("cargo::rustc-env=OFFHOOK_COMMIT={commit}");
    if let Err(error) = vam() {
        println!("cargo::error=proto/vani/v1: {error}");
    }
}

/// As in `src/vam/wire.rs`.
const PRIVATE: [&str; 9] = [
    "ActionResultEnvelope",
    "AudioChunk",
    "ClientStreamMessage",
    "GatewayStreamMessage",
    "McpContent",
    "McpToolCall",
    "SessionInitRequest",
    "SynthesisRequest",
    "TranscriptEvent",
];

fn vam() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = ["action", "session", "stream"].map(|name| format!("vani/v1/{name}.proto"));
    let described = protox::compile(files, ["proto"])?;
    let descriptor = std::path::Path::new(&std::env::var("OUT_DIR")?).join("vani.v1.bin");
    std::fs::write(descriptor, prost::Message::encode_to_vec(&described))?;
    // What holds a caller's voice, words, number or token gets a `Debug` by hand, which shows none of it.
    tonic_prost_build::configure()
        // The bench's callers.
        .build_client(true)
        .build_transport(false)
        .bytes(".vani.v1")
        .skip_debug(PRIVATE.map(|name| format!(".vani.v1.{name}")))
        .compile_fds(described)?;
    Ok(())
}

fn commit() -> String {
    println!("cargo::rerun-if-env-changed=OFFHOOK_COMMIT");
    if let Ok(commit) = std::env::var("OFFHOOK_COMMIT") {
        return commit;
    }
    println!("cargo::rerun-if-changed=.git/logs/HEAD");
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok();
    let text = output.filter(|output| output.status.success()).and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "unknown".into(), |text| text.trim().to_owned())
}
