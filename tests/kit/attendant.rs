//! A pipeline of programs of this machine that needs no key: a recognizer, a list of phrases and a voice.

/// Its services, and the provider `house`; contexts follow. Its list calls `hangup_call`.
pub const ATTENDANT: &str = r#"
default_context: front
stt: { ears: { pocketsphinx: { phrases: [opening hours, when are you open, goodbye] } } }
llm:
  list:
    attendant:
      otherwise: What was that?
      entries:
        - { hears: [opening hours, when are you open], say: "We are open from nine in the morning to five in the afternoon." }
        - { hears: [goodbye], key: "9", say: Goodbye then., call: hangup_call }
voices: { espeak: { espeak_ng: { voice: en-us } } }
providers: { house: { pipeline: { stt: ears, llm: list, tts: espeak } } }
"#;
