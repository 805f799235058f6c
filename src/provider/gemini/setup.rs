//! The first message, which says all there is to say about a session.

use super::options::{Options, Thinking, Transcription, TurnDetection};
use crate::provider::AgentSetup;
use serde_json::{Map, Value, json};

pub(super) fn message(options: &Options, agent: &AgentSetup) -> Value {
    let mut setup = json!({
        "model": options.model_path(),
        "generationConfig": generation(options),
        "outputAudioTranscription": {},
        // Handles to go on with in another connection; without compression a session ends after 15 minutes.
        "sessionResumption": known([("handle", agent.resume.as_deref().map(Value::from))]),
        "contextWindowCompression": { "slidingWindow": {} },
    });
    if !agent.instructions.is_empty() {
        setup["systemInstruction"] = json!({ "parts": [{ "text": agent.instructions }] });
    }
    if !agent.tools.is_empty() {
        setup["tools"] = json!([{ "functionDeclarations": declarations(options, &agent.tools) }]);
    }
    if let Some(transcription) = &options.transcription {
        setup["inputAudioTranscription"] = transcribed(transcription);
    }
    let detection = match (agent.told_turns, &options.turn_detection) {
        (true, _) => Some(json!({ "disabled": true })),
        (false, options) => options.as_ref().map(detection),
    };
    if let Some(detection) = detection {
        setup["realtimeInputConfig"] = json!({ "automaticActivityDetection": detection });
    }
    json!({ "setup": setup })
}

fn generation(options: &Options) -> Value {
    let voice = options.voice.as_ref();
    let speech = voice.map(|name| json!({ "voiceConfig": { "prebuiltVoiceConfig": { "voiceName": name } } }));
    let thinking = options.thinking.map(|thinking| match thinking {
        Thinking::Level(level) => json!({ "thinkingLevel": level.name().to_uppercase() }),
        Thinking::Budget(tokens) => json!({ "thinkingBudget": tokens }),
    });
    known([
        ("responseModalities", Some(json!(["AUDIO"]))),
        ("speechConfig", speech),
        ("temperature", options.temperature.map(Value::from)),
        ("maxOutputTokens", options.max_output_tokens.map(Value::from)),
        ("thinkingConfig", thinking),
    ])
}

fn detection(turns: &TurnDetection) -> Value {
    let named = |kind: &str, name: &str| Value::from(format!("{kind}_SENSITIVITY_{name}"));
    known([
        ("startOfSpeechSensitivity", turns.start_sensitivity.map(|sensitivity| named("START", sensitivity.name()))),
        ("endOfSpeechSensitivity", turns.end_sensitivity.map(|sensitivity| named("END", sensitivity.name()))),
        ("prefixPaddingMs", turns.prefix_padding_ms.map(Value::from)),
        ("silenceDurationMs", turns.silence_duration_ms.map(Value::from)),
    ])
}

fn transcribed(transcription: &Transcription) -> Value {
    let list = |words: &[String]| (!words.is_empty()).then(|| json!(words));
    known([("languageCodes", list(&transcription.languages)), ("customVocabulary", list(&transcription.vocabulary))])
}

fn declarations(options: &Options, tools: &[Value]) -> Vec<Value> {
    let mut tools = tools.to_vec();
    for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        if let Some(behavior) = options.behavior_of(name) {
            tool.insert("behavior".into(), behavior.name().into());
        }
    }
    tools
}

/// An object of the fields that have a value.
fn known<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(fields.collect::<Map<_, _>>())
}
