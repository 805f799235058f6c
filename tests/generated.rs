//! The code of VAM's messages is what its `.proto` files say: `OFFHOOK_BLESS=1 cargo test --test house generated` writes it.
//! It is kept, and not made by each build, since its compiler is as large as a tenth of all dependencies.

use crate::kit::project;
use prost::Message as _;
use std::{fs, path::Path};

/// What holds a caller's voice, words, number or token gets a `Debug` by hand, which shows none of it: as in
/// `src/vam/wire.rs`.
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
/// Code, and the descriptors for reflection.
const FILES: [&str; 2] = ["vani.v1.rs", "vani.v1.bin"];

fn generate(into: &Path) {
    let files = ["action", "session", "stream"].map(|name| format!("vani/v1/{name}.proto"));
    let described = protox::compile(files, [project().join("proto")]).unwrap();
    fs::write(into.join("vani.v1.bin"), described.encode_to_vec()).unwrap();
    tonic_prost_build::configure()
        // Callers of the bench and of tests.
        .build_client(true)
        .build_transport(false)
        .bytes(".vani.v1")
        .skip_debug(PRIVATE.map(|name| format!(".vani.v1.{name}")))
        .emit_rerun_if_changed(false)
        .out_dir(into)
        .compile_fds(described)
        .unwrap();
}

#[test]
fn the_code_of_the_messages_is_that_of_the_proto_files() {
    let kept = project().join("proto/generated");
    if std::env::var_os("OFFHOOK_BLESS").is_some() {
        generate(&kept);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path());
    for file in FILES {
        let stale = fs::read(kept.join(file)).ok() != fs::read(folder.path().join(file)).ok();
        assert!(
            !stale,
            "proto/generated/{file} is stale; write it with OFFHOOK_BLESS=1 cargo test --test house generated"
        );
    }
}
