//! The documented shapes of the client's messages, held strictly: an unknown key is a mistake, as
//! it is for the real server.

use serde_json::{Map, Value};

type Check = Result<(), String>;

/// What is wrong with a message of the client, if anything.
pub fn check(message: &Value) -> Check {
    let object = message.as_object().ok_or("a message that is no object")?;
    let kind = object.get("type").and_then(Value::as_str).ok_or("a message without type")?;
    match kind {
        "session.update" => {
            keys(object, kind, &["type", "session"], &["event_id"])?;
            session(&object["session"])
        }
        "input_audio_buffer.append" => keys(object, kind, &["type", "audio"], &["event_id"]),
        "input_audio_buffer.commit" => keys(object, kind, &["type"], &["event_id"]),
        "response.create" => {
            keys(object, kind, &["type"], &["event_id", "response"])?;
            let Some(response) = object.get("response") else { return Ok(()) };
            let allowed = [
                "instructions",
                "conversation",
                "input",
                "metadata",
                "output_modalities",
                "audio",
                "tools",
                "tool_choice",
                "max_output_tokens",
                "parallel_tool_calls",
                "reasoning",
                "prompt",
            ];
            keys(object_of(response, "response")?, "response", &[], &allowed)
        }
        "response.cancel" => keys(object, kind, &["type"], &["event_id", "response_id"]),
        "conversation.item.truncate" => {
            keys(object, kind, &["type", "item_id", "content_index", "audio_end_ms"], &["event_id"])?;
            if object["content_index"] != 0 || !object["audio_end_ms"].is_u64() {
                return Err("truncate wants content_index 0 and a whole audio_end_ms".into());
            }
            Ok(())
        }
        "conversation.item.create" => {
            keys(object, kind, &["type", "item"], &["event_id", "previous_item_id"])?;
            item(&object["item"])
        }
        _ => Err(format!("a message of the unknown type {kind}")),
    }
}

fn session(session: &Value) -> Check {
    let session = object_of(session, "session")?;
    let optional = [
        "output_modalities",
        "instructions",
        "audio",
        "tools",
        "tool_choice",
        "max_output_tokens",
        "truncation",
        "tracing",
        "include",
        "prompt",
        "parallel_tool_calls",
        "reasoning",
    ];
    keys(session, "session", &["type"], &optional)?;
    if session["type"] != "realtime" {
        return Err("session.type is not realtime".into());
    }
    let Some(audio) = session.get("audio") else { return Ok(()) };
    let audio = object_of(audio, "audio")?;
    keys(audio, "audio", &[], &["input", "output"])?;
    if let Some(input) = audio.get("input") {
        let input = object_of(input, "audio.input")?;
        keys(input, "audio.input", &[], &["format", "turn_detection", "transcription", "noise_reduction"])?;
        format(input.get("format"))?;
        turn_detection(input.get("turn_detection"))?;
        if let Some(Value::Object(transcription)) = input.get("transcription") {
            let optional = ["language", "languages", "prompt", "keywords", "delay"];
            keys(transcription, "transcription", &["model"], &optional)?;
        }
        if let Some(Value::Object(reduction)) = input.get("noise_reduction") {
            keys(reduction, "noise_reduction", &["type"], &["strength"])?;
        }
    }
    if let Some(output) = audio.get("output") {
        let output = object_of(output, "audio.output")?;
        keys(output, "audio.output", &[], &["format", "voice", "speed"])?;
        format(output.get("format"))?;
    }
    for tool in session.get("tools").and_then(Value::as_array).into_iter().flatten() {
        let tool = object_of(tool, "tool")?;
        keys(tool, "tool", &["type", "name", "parameters"], &["description"])?;
    }
    Ok(())
}

fn format(format: Option<&Value>) -> Check {
    let Some(format) = format else { return Ok(()) };
    let format = object_of(format, "format")?;
    match format.get("type").and_then(Value::as_str) {
        Some("audio/pcmu" | "audio/pcma") => keys(format, "format", &["type"], &[]),
        Some("audio/pcm") if format.get("rate") == Some(&Value::from(24_000)) => {
            keys(format, "format", &["type", "rate"], &[])
        }
        other => Err(format!("the format {other:?}")),
    }
}

fn turn_detection(detection: Option<&Value>) -> Check {
    let Some(Value::Object(detection)) = detection else { return Ok(()) };
    let both = ["create_response", "interrupt_response"];
    match detection.get("type").and_then(Value::as_str) {
        Some("server_vad") => {
            let own = ["threshold", "prefix_padding_ms", "silence_duration_ms", "idle_timeout_ms"];
            keys(detection, "turn_detection", &["type"], &[&both[..], &own[..]].concat())
        }
        Some("semantic_vad") => keys(detection, "turn_detection", &["type"], &[&both[..], &["eagerness"]].concat()),
        other => Err(format!("the turn detection {other:?}")),
    }
}

fn item(item: &Value) -> Check {
    let item = object_of(item, "item")?;
    match item.get("type").and_then(Value::as_str) {
        Some("function_call_output") => {
            keys(item, "item", &["type", "call_id", "output"], &["id"])?;
            if !item["output"].is_string() {
                return Err("a function_call_output whose output is no string".into());
            }
            Ok(())
        }
        Some("message") => keys(item, "item", &["type", "role", "content"], &["id"]),
        other => Err(format!("an item of type {other:?}")),
    }
}

fn object_of<'a>(value: &'a Value, name: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{name} is no object"))
}

fn keys(object: &Map<String, Value>, name: &str, required: &[&str], optional: &[&str]) -> Check {
    for key in required {
        if !object.contains_key(*key) {
            return Err(format!("{name} without {key}"));
        }
    }
    for key in object.keys() {
        if !required.contains(&key.as_str()) && !optional.contains(&key.as_str()) {
            return Err(format!("{name} with the unknown key {key}"));
        }
    }
    Ok(())
}
