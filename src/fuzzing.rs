//! What reads the network, one function each, for the fuzzer and for the tests.
//!
//! A function takes any bytes and asserts more than that nothing panics: what is written is read again, a stream means
//! the same however it is cut, and what comes out is bounded by what went in. The functions stand beside their parsers,
//! since those are private. [`docs/fuzzing.md`](https://github.com/offhook/offhook/blob/main/docs/fuzzing.md) tells how
//! to run them; `tests/fuzz/corpus` holds what they were fed so far, which the tests below feed them again.

use crate::{asterisk, audio, config, engine, http, llm, mcp, outbound, provider, remote, speech, stt, tool, vam};

/// One parser, or a few that read one after the other.
pub struct Target {
    /// As `make fuzz` takes it, and the folder in the corpus.
    pub name: &'static str,
    /// Panics where a property does not hold.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// Every parser of ours that reads what came over the network. The messages of VAM are `prost`'s to read; what is agreed upon
/// by them is ours.
pub const TARGETS: &[Target] = &[
    target("ari_answers", asterisk::ari::fuzz),
    target("ari_events", asterisk::events::fuzz),
    target("audiosocket", asterisk::audiosocket::fuzz),
    target("configuration", configuration),
    target("deepgram_agent", provider::fuzz::deepgram_agent),
    target("dialplan_variables", engine::fuzz),
    target("elevenlabs_address", provider::fuzz::elevenlabs_address),
    target("elevenlabs_agent", provider::fuzz::elevenlabs_agent),
    target("gate_answers", outbound::fuzz_gate),
    target("gate_events", http::gate::fuzz),
    target("gemini_live", provider::fuzz::gemini_live),
    target("mcp_lines", mcp::fuzz),
    target("media_opus", asterisk::websocket::fuzz_opus),
    target("media_text", asterisk::websocket::fuzz),
    target("openai_chat", llm::fuzz),
    target("openai_realtime", provider::fuzz::openai_realtime),
    target("refusals", remote::http::fuzz),
    target("rtp", asterisk::rtp::fuzz),
    target("service_answers", outbound::fuzz),
    target("sse", remote::sse::fuzz),
    target("stt_flux", stt::fuzz::flux),
    target("stt_nova", stt::fuzz::nova),
    target("stt_openai", stt::fuzz::openai_realtime),
    target("stt_transcription", stt::fuzz::openai_transcription),
    target("tool_definitions", tool::declarative::fuzz),
    target("vam_sessions", vam::fuzz),
    target("voice_deepgram", speech::fuzz_deepgram),
    target("voice_wav", speech::fuzz),
    target("wav_head", audio::fuzz),
    target("wyoming", remote::wyoming::fuzz),
];

/// Any text as a configuration file, as the page may send it.
fn configuration(data: &[u8]) {
    let env = |name: &str| (name == "SET").then(|| "value".to_owned());
    if let Err(problems) = config::load_str("offhook.yaml", &String::from_utf8_lossy(data), &env, provider::catalog()) {
        assert!(!problems.to_string().is_empty(), "refused without a word");
    }
}

/// The target of this name.
pub fn target_named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests;
