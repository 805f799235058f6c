//! Makes the code of VAM's messages from `proto/vani/v1`: `make proto`.

use prost::Message as _;
use std::{error::Error, fs, path::Path};

/// Messages with a caller's voice, words, number or token in them. `src/vam/wire.rs` gives these a `Debug` that shows none of it; the
/// two lists have to agree, or the engine does not compile.
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

fn main() -> Result<(), Box<dyn Error>> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no folder above")?;
    let into = proto.join("generated");
    let files = ["action", "session", "stream"].map(|name| format!("vani/v1/{name}.proto"));
    let described = protox::compile(files, [proto])?;
    fs::write(into.join("vani.v1.bin"), described.encode_to_vec())?;
    tonic_prost_build::configure()
        // Callers of the bench and of tests.
        .build_client(true)
        .build_transport(false)
        .bytes(".vani.v1")
        .skip_debug(PRIVATE.map(|name| format!(".vani.v1.{name}")))
        .emit_rerun_if_changed(false)
        .out_dir(&into)
        .compile_fds(described)?;
    Ok(())
}
