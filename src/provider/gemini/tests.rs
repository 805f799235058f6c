//! Commands as wire messages, and what they change about what is heard. What server messages become by
//! themselves is held by the fixtures.

mod tools;

use super::*;
use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn, Noise, Reply, ResponseStatus},
    provider::{Wire, build, talk},
};
use bytes::Bytes;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

struct Talk(Box<dyn Codec>);

fn agent() -> AgentSetup {
    talk::setup(Dialect::Gemini, "transfer", Format::ULAW)
}

fn provider(options: &Value) -> Arc<dyn Provider> {
    build("gemini_live", options).unwrap()
}

fn setup_of(options: &Value, agent: &AgentSetup) -> Value {
    let mut messages = talk::open(&mut *provider(options).remote().codec(agent));
    assert_eq!(messages.len(), 1, "nothing else before the session stands");
    messages.remove(0)["setup"].take()
}

impl Talk {
    fn with(options: &Value, agent: &AgentSetup) -> Self {
        let mut talk = Self(provider(options).remote().codec(agent));
        talk.0.open(&mut Vec::new());
        assert_eq!(talk.hear(json!({ "setupComplete": {} })).0, [AgentEvent::Ready]);
        talk
    }

    fn ready() -> Self {
        Self::with(&json!({ "api_key": "k" }), &agent())
    }

    fn told_turns() -> Self {
        Self::with(&json!({ "api_key": "k" }), &AgentSetup { told_turns: true, ..agent() })
    }

    /// The server's JSON comes in binary frames.
    fn hear(&mut self, message: Value) -> (Vec<AgentEvent>, Vec<Value>) {
        talk::hear(&mut *self.0, Wire::Binary(message.to_string().into()))
    }

    fn content(&mut self, content: Value) -> (Vec<AgentEvent>, Vec<Value>) {
        self.hear(json!({ "serverContent": content }))
    }

    fn speaks(&mut self) -> Vec<AgentEvent> {
        let blob = json!({ "mimeType": "audio/pcm;rate=24000", "data": "AQI=" });
        self.content(json!({ "modelTurn": { "parts": [{ "inlineData": blob }] } })).0
    }

    fn calls(&mut self, ids: &[&str]) -> Vec<AgentEvent> {
        let calls: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "name": "hours", "args": {} })).collect();
        self.hear(json!({ "toolCall": { "functionCalls": calls } })).0
    }

    fn tell(&mut self, command: AgentCommand) -> Vec<Value> {
        talk::tell(&mut *self.0, command)
    }

    fn say(&mut self, text: &str) -> Vec<Value> {
        self.tell(AgentCommand::Say { text: text.into() })
    }

    fn note(&mut self, text: &str, reply: Reply) -> Vec<Value> {
        self.tell(AgentCommand::Tell { text: text.into(), reply })
    }

    fn answer(&mut self, call_id: &str, reply: Reply) -> Vec<Value> {
        let output = json!({ "ok": true, "message": "Until six." }).to_string();
        self.tell(AgentCommand::ToolResult { call_id: call_id.into(), output, reply })
    }
}

/// The one key of each message, which says what it is.
fn kinds(messages: &[Value]) -> Vec<&str> {
    messages.iter().flat_map(|message| message.as_object().unwrap().keys()).map(String::as_str).collect()
}

/// The parts of the one user turn that was sent.
fn told(messages: &[Value]) -> Vec<&str> {
    assert_eq!(kinds(messages), ["clientContent"], "{messages:?}");
    let content = &messages[0]["clientContent"];
    assert_eq!((&content["turnComplete"], &content["turns"][0]["role"]), (&json!(true), &json!("user")));
    content["turns"][0]["parts"].as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap()).collect()
}

fn responses(messages: &[Value]) -> &Vec<Value> {
    assert_eq!(kinds(messages), ["toolResponse"], "{messages:?}");
    messages[0]["toolResponse"]["functionResponses"].as_array().unwrap()
}

fn started(events: &[AgentEvent]) -> bool {
    events.iter().any(|event| matches!(event, AgentEvent::CallerSpeechStarted { .. }))
}

fn done(events: &[AgentEvent]) -> Option<ResponseStatus> {
    events.iter().find_map(|event| match event {
        AgentEvent::ResponseDone { status, .. } => Some(*status),
        _ => None,
    })
}

// ---- The session ----

#[test]
fn the_set_up_of_a_plain_session() {
    insta::assert_json_snapshot!(setup_of(&json!({ "api_key": "k" }), &agent()));
}

#[test]
fn every_option_finds_its_place_in_the_set_up() {
    let options = json!({
        "vertex": { "project": "acme-1", "location": "europe-west4", "access_token": "t" },
        "model": "gemini-live-2.5-flash-native-audio", "voice": "Kore", "temperature": 0.5, "max_output_tokens": 900,
        "thinking": 128, "tool_behavior": "non_blocking",
        "transcription": { "languages": ["de-DE"], "vocabulary": ["offhook"] },
        "turn_detection": {
            "start_sensitivity": "low", "end_sensitivity": "high", "prefix_padding_ms": 40, "silence_duration_ms": 600,
        },
    });
    let resume = Some("handle-1".into());
    insta::assert_json_snapshot!(setup_of(&options, &AgentSetup { resume, ..agent() }));
}

#[test]
fn a_session_whose_turns_are_told_detects_none_itself() {
    let options = json!({ "api_key": "k", "turn_detection": { "silence_duration_ms": 600 } });
    let setup = setup_of(&options, &AgentSetup { told_turns: true, ..agent() });
    assert_eq!(setup["realtimeInputConfig"], json!({ "automaticActivityDetection": { "disabled": true } }));
}

#[test]
fn only_models_that_know_the_word_are_told_whether_to_wait_for_tools() {
    for (model, thinking, expected) in [
        ("gemini-3.8-live", Value::Null, json!("BLOCKING")),
        ("gemini-3.8-live-extended-thinking", json!("low"), json!("NON_BLOCKING")),
        ("gemini-2.5-flash-native-audio-preview-12-2025", Value::Null, Value::Null),
    ] {
        let setup = setup_of(&json!({ "api_key": "k", "model": model, "thinking": thinking }), &agent());
        assert_eq!(setup["tools"][0]["functionDeclarations"][0]["behavior"], expected, "{model}");
    }
}

#[test]
fn nothing_counts_before_the_set_up_is_acknowledged() {
    let mut talk = Talk(provider(&json!({ "api_key": "k" })).remote().codec(&agent()));
    assert_eq!(talk.speaks(), [AgentEvent::Noise(Noise::UnknownMessage)]);
    assert_eq!(talk.hear(json!({ "setupComplete": { "sessionId": "s" } })).0, [AgentEvent::Ready]);
    assert_eq!(talk.0.closed(Some(1_007), "Invalid argument."), AgentLoss::Protocol);
}

#[test]
fn an_announced_end_is_no_accident() {
    let mut talk = Talk::ready();
    assert_eq!(talk.0.closed(None, ""), AgentLoss::Closed);
    talk.hear(json!({ "goAway": { "timeLeft": "9.5s" } }));
    assert_eq!(talk.0.closed(None, ""), AgentLoss::Expired);
}

#[test]
fn the_length_of_a_session_is_known_where_the_server_does_not_announce_its_end() {
    let lasts = |model: &str| provider(&json!({ "api_key": "k", "model": model })).remote().session_max();
    assert_eq!(lasts("gemini-3.8-live"), Some(Duration::from_secs(3_480)));
    assert_eq!(lasts("gemini-2.5-flash-native-audio-preview-12-2025"), None);
}

// ---- The caller ----

#[test]
fn caller_audio_is_sent_as_it_is() {
    let blob = json!({ "mimeType": "audio/pcm;rate=16000", "data": "/38A" });
    let messages = Talk::ready().tell(AgentCommand::Audio(Bytes::from_static(&[0xff, 0x7f, 0x00])));
    assert_eq!(messages, [json!({ "realtimeInput": { "audio": blob } })]);
}

#[test]
fn turns_are_marked_only_where_the_engine_finds_them_and_never_twice() {
    let turn = |turn| AgentCommand::Turn(turn);
    let mut talk = Talk::told_turns();
    assert!(talk.tell(turn(CallerTurn::Ended)).is_empty(), "none has begun");
    assert_eq!(talk.tell(turn(CallerTurn::Began)), [json!({ "realtimeInput": { "activityStart": {} } })]);
    assert!(talk.tell(turn(CallerTurn::Began)).is_empty());
    assert_eq!(talk.tell(turn(CallerTurn::Ended)), [json!({ "realtimeInput": { "activityEnd": {} } })]);
    let mut talk = Talk::ready();
    assert!(talk.tell(turn(CallerTurn::Began)).is_empty());
}

#[test]
fn an_agent_that_is_told_the_turns_does_not_tell_them() {
    let mut talk = Talk::told_turns();
    talk.speaks();
    talk.tell(AgentCommand::Turn(CallerTurn::Began));
    let (events, _) = talk.content(json!({ "interrupted": true }));
    assert_eq!((started(&events), done(&events)), (false, Some(ResponseStatus::Cancelled)));
    talk.tell(AgentCommand::Turn(CallerTurn::Ended));
    assert!(matches!(talk.speaks()[..], [AgentEvent::ResponseStarted { .. }, AgentEvent::Audio { .. }]));
}

#[test]
fn what_the_model_says_unasked_answers_the_caller() {
    let mut talk = Talk::ready();
    let events = talk.speaks();
    assert!(
        matches!(
            events[..],
            [
                AgentEvent::CallerSpeechStarted { .. },
                AgentEvent::CallerSpeechStopped,
                AgentEvent::ResponseStarted { .. },
                AgentEvent::Audio { .. }
            ]
        ),
        "{events:?}"
    );
    let mut talk = Talk::ready();
    talk.tell(AgentCommand::Greet { text: None });
    assert!(!started(&talk.speaks()), "it was asked to");
}

#[test]
fn words_that_come_late_interrupt_nobody() {
    let mut talk = Talk::ready();
    talk.speaks();
    let (events, _) = talk.content(json!({ "inputTranscription": { "text": "Hello" } }));
    assert!(!started(&events), "{events:?}");
}

// ---- What it is told ----

#[test]
fn a_greeting_is_a_user_turn() {
    let messages = Talk::ready().tell(AgentCommand::Greet { text: Some("Hello.".into()) });
    assert!(told(&messages)[0].ends_with("\nHello."), "{messages:?}");
}

#[test]
fn a_greeting_of_its_own_and_other_words_are_asked_for_in_the_language_of_the_context() {
    let greets = Talk::ready().tell(AgentCommand::Greet { text: None });
    assert!(told(&greets)[0].ends_with("greet them in German."), "{greets:?}");
    assert!(told(&Talk::ready().say("Noch da?"))[0].contains("(German until the caller speaks another)"));
}

#[test]
fn what_is_to_be_said_waits_until_the_model_has_finished() {
    let mut talk = Talk::ready();
    talk.speaks();
    assert!(talk.say("old").is_empty());
    assert!(talk.say("new").is_empty());
    let (_, replies) = talk.content(json!({ "generationComplete": true }));
    assert!(told(&replies)[0].ends_with("\nnew"), "the newest wish counts: {replies:?}");
}

#[test]
fn an_interruption_by_a_turn_of_ours_is_not_the_callers() {
    let mut talk = Talk::ready();
    talk.speaks();
    talk.content(json!({ "generationComplete": true }));
    talk.say("Are you there?");
    let (events, _) = talk.content(json!({ "interrupted": true }));
    assert!(!started(&events), "{events:?}");
    talk.content(json!({ "turnComplete": true }));
    let events = talk.speaks();
    assert!(!started(&events) && matches!(events[0], AgentEvent::ResponseStarted { .. }), "{events:?}");
    assert!(started(&talk.content(json!({ "interrupted": true })).0), "this one is the caller's");
}

#[test]
fn what_was_to_be_said_to_a_silent_caller_is_not_said_into_their_words() {
    let mut talk = Talk::ready();
    talk.speaks();
    talk.say("Are you there?");
    let (events, replies) = talk.content(json!({ "interrupted": true }));
    assert!(started(&events) && replies.is_empty());
    talk.content(json!({ "turnComplete": true }));
    talk.speaks();
    assert!(talk.content(json!({ "generationComplete": true })).1.is_empty());
}

#[test]
fn what_it_is_only_to_know_waits_for_the_next_user_turn() {
    let mut talk = Talk::ready();
    assert!(talk.note("The caller pressed 1.", Reply::NotNow).is_empty());
    let messages = talk.note("The caller pressed 2.", Reply::Wanted);
    assert_eq!(told(&messages), ["The caller pressed 1.", "The caller pressed 2."]);
    assert!(talk.speaks().iter().all(|event| !matches!(event, AgentEvent::CallerSpeechStarted { .. })));
}

#[test]
fn what_it_is_only_to_know_goes_along_with_the_answer_of_a_tool_if_that_is_small() {
    let mut talk = Talk::ready();
    talk.calls(&["c1"]);
    talk.note("The caller pressed 1.", Reply::NotNow);
    let messages = talk.answer("c1", Reply::Wanted);
    assert_eq!(responses(&messages)[0]["response"]["output"]["alsoKnow"], "The caller pressed 1.");
    talk.calls(&["c2"]);
    talk.note("The caller pressed 2.", Reply::NotNow);
    let output = json!({ "ok": true, "message": "x".repeat(2_000) }).to_string();
    let messages =
        talk.tell(AgentCommand::ToolResult { call_id: "c2".into(), output: output.clone(), reply: Reply::Wanted });
    assert_eq!(responses(&messages)[0]["response"]["output"].to_string(), output);
}

#[test]
fn only_so_many_things_to_know_are_kept() {
    let mut talk = Talk::ready();
    (0..wishes::NOTES_MAX + 5).for_each(|n| assert!(talk.note(&n.to_string(), Reply::NotNow).is_empty()));
    let messages = talk.say("x");
    assert_eq!((told(&messages).len(), told(&messages)[0]), (wishes::NOTES_MAX + 1, "5"));
}

#[test]
fn there_is_nothing_to_truncate() {
    let mut talk = Talk::ready();
    talk.speaks();
    let heard = Duration::from_millis(20);
    let (response, item) = ("answer-1".into(), "answer-1".into());
    assert!(talk.tell(AgentCommand::Interrupt { response, item, heard, cancel: true }).is_empty());
    let traits = provider(&json!({ "api_key": "k" })).traits();
    assert!(!traits.truncates && traits.cancels_on_speech && traits.takes_turns);
}

// ---- Options ----

#[test]
fn all_mistakes_in_the_options_are_found_at_once() {
    let paths =
        |options: Value| -> Vec<String> { (KIND.check)(&options).into_iter().map(|problem| problem.path).collect() };
    let options = json!({
        "api_key": "", "base_url": "https://host", "model": "no model", "voice": "", "temperature": 3,
        "max_output_tokens": 0, "turn_detection": { "silence_duration_ms": 99_999 },
        "transcription": { "vocabulary": vec!["x"; 101] },
    });
    let expected = [
        "api_key",
        "base_url",
        "model",
        "voice",
        "temperature",
        "max_output_tokens",
        "turn_detection.silence_duration_ms",
        "transcription.vocabulary",
    ];
    assert_eq!(paths(options), expected);
    assert_eq!(paths(json!({})), ["api_key"]);
    let vertex = json!({ "project": "a b", "location": "", "access_token": "two words" });
    assert_eq!(paths(json!({ "vertex": vertex })), ["vertex.project", "vertex.location", "vertex.access_token"]);
    assert_eq!(paths(json!({ "api_key": "k", "vertex": vertex })), ["vertex"]);
    assert_eq!(paths(json!({ "vertex": { "project": "p" } })), ["vertex.access_token_file"]);
    let relative = json!({ "project": "p", "access_token_file": "token" });
    assert_eq!(paths(json!({ "vertex": relative })), ["vertex.access_token_file"]);
    let both = json!({ "project": "p", "access_token": "t", "access_token_file": "/f" });
    assert_eq!(paths(json!({ "vertex": both })), ["vertex.access_token"]);
    assert_eq!((KIND.check)(&json!({ "api_key": "k" })), []);
    for bytes in [255, 16_385] {
        assert_eq!(paths(json!({ "api_key": "k", "tool_answer_bytes": bytes })), ["tool_answer_bytes"]);
    }
}

#[test]
fn the_schema_accepts_what_the_options_accept_and_refuses_unknown_keys() {
    let schema = jsonschema::validator_for(&(KIND.schema)()).unwrap();
    let model = "gemini-3.1-flash-live-preview";
    let good = json!({
        "api_key": "k", "model": model, "transcription": null, "thinking": "low", "tool_behavior": "blocking",
    });
    assert!(schema.is_valid(&good) && schema.is_valid(&json!({ "api_key": "k", "thinking": -1 })));
    assert_eq!((KIND.check)(&good), []);
    assert!(!schema.is_valid(&json!({ "api_key": "k", "modle": "x" })));
    assert!(!schema.is_valid(&json!({ "api_key": "k", "thinking": "hard" })));
}

/// Tokens are renewed while the engine runs: each session takes what the file holds then.
#[tokio::test]
async fn an_access_token_is_read_from_its_file_for_each_session() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let vertex = provider(&json!({ "vertex": { "project": "p", "access_token_file": file } }));
    let bearer = async || match vertex.remote().dial(&agent()) {
        Dial::Asked(dial) => dial.await.map(|dial| dial.headers[0].1.expose_secret().to_owned()),
        _ => panic!("it has to be read first"),
    };
    assert_eq!(bearer().await, Err(401));
    for token in ["first", "second"] {
        std::fs::write(&file, format!("{token}\n")).unwrap();
        assert_eq!(bearer().await, Ok(format!("Bearer {token}")));
    }
}

#[test]
fn addresses_and_keys_are_those_of_the_interface_that_was_chosen() {
    let dial = |options: Value| match provider(&options).remote().dial(&agent()) {
        Dial::WebSocket(dial) => dial,
        Dial::Asked(dial) => dial.now_or_never().unwrap().unwrap(),
        Dial::Played(_) => panic!("a socket"),
    };
    let gemini = dial(json!({ "api_key": "secret" }));
    assert_eq!(
        (gemini.url.as_str(), gemini.headers[0].0),
        (
            "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.\
             BidiGenerateContent",
            "x-goog-api-key"
        )
    );
    assert!(!format!("{gemini:?}").contains("secret"));
    let vertex =
        |location: &str| dial(json!({ "vertex": { "project": "p", "location": location, "access_token": "secret" } }));
    let path = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent";
    assert_eq!(vertex("us-east4").url, format!("wss://us-east4-aiplatform.googleapis.com{path}"));
    assert_eq!(vertex("global").url, format!("wss://aiplatform.googleapis.com{path}"));
    assert_eq!(vertex("global").headers[0].0, "authorization");
    let based = |base: &str| dial(json!({ "api_key": "k", "base_url": base })).url;
    assert!(based("ws://127.0.0.1:9").starts_with("ws://127.0.0.1:9/ws/google.ai"));
    assert!(based("ws://host/?a=1").ends_with("BidiGenerateContent?a=1"));
    assert_eq!(based("ws://host/own?a=1"), "ws://host/own?a=1");
}
