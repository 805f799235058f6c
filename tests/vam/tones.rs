//! What conversations with agents that are tones have in common.

use super::*;
use tempfile::TempDir;
use uuid::Uuid;

/// An engine whose agents are tones and take tones for speech.
pub async fn engine(folder: &TempDir, sessions: &str) -> Engine {
    let agents = "providers:\n  greets: { scripted: { script: [{ tone: { hertz: 440, for: 600ms } }, silence] } }\n  \
                  talks: { scripted: { script: [{ tone: { hertz: 440, for: 60s } }] } }\n  \
                  answers: { scripted: { script: [{ listen: {} }, { tone: { hertz: 440, for: 600ms } }, silence] } }\n\
                  contexts:\n  greets: { prompt: A, provider: greets }\n  talks: { prompt: A, provider: talks }\n  \
                  answers: { prompt: A, provider: answers }\n";
    super::engine(folder.path(), &format!(", sessions: {{ hosted: india_only{sessions} }}"), agents).await
}

/// A session with this context, in this codec.
pub fn session(context: &str, codec: &str) -> Value {
    json!({
        "session_id": Uuid::new_v4().to_string(), "caller_id": "+919876543210", "auth_token": TOKEN,
        "metadata": { "context": context }, "audio_profile": { "codec": codec, "channels": 1 },
    })
}

/// The signals, with `audio` for each run of chunks.
pub fn story(told: &Value) -> String {
    let events = told["events"].as_array().unwrap();
    events.iter().map(|event| event["event"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}
