//! Commands as wire messages, what begins a conversation, and its signed address. What server
//! messages become is held by the fixtures.

use super::*;
use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, Reply},
    provider::{Opens, Wire, build, talk},
};
use axum::{
    Router,
    http::{HeaderMap, Uri},
    routing::get,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::json;

struct Talk(Box<dyn Codec>);

fn setup(opens: Opens, tool: &str) -> AgentSetup {
    AgentSetup { opens, ..talk::setup(Dialect::ElevenLabs, tool, Format::ULAW) }
}

impl Talk {
    fn new(options: &Value, opens: Opens) -> Self {
        Self(build("elevenlabs_agent", options).unwrap().remote().codec(&setup(opens, "transfer")))
    }

    fn ready() -> Self {
        let mut talk = Self::new(&json!({ "agent_id": "a" }), Opens::Greets(None));
        assert_eq!(talk.hear(metadata("ulaw_8000", "ulaw_8000")).0, [AgentEvent::Ready]);
        talk
    }

    /// What begins a conversation.
    fn initiation(options: &Value, opens: Opens) -> Value {
        talk::open(&mut *Self::new(options, opens).0).remove(0)
    }

    fn hear(&mut self, message: Value) -> (Vec<AgentEvent>, Vec<Value>) {
        talk::hear(&mut *self.0, Wire::Text(message.to_string()))
    }

    fn tell(&mut self, command: AgentCommand) -> Vec<Value> {
        talk::tell(&mut *self.0, command)
    }
}

fn metadata(input: &str, output: &str) -> Value {
    json!({ "type": "conversation_initiation_metadata", "conversation_initiation_metadata_event": {
        "conversation_id": "c", "agent_output_audio_format": output, "user_input_audio_format": input,
    } })
}

fn greets() -> Opens {
    Opens::Greets(Some("Hello.".into()))
}

fn speech(event_id: i64) -> Value {
    json!({ "type": "audio", "audio_event": { "audio_base_64": "/w==", "event_id": event_id } })
}

#[test]
fn nothing_is_overridden_unless_the_options_say_so() {
    let initiation = Talk::initiation(&json!({ "agent_id": "a" }), greets());
    assert_eq!(initiation, json!({ "type": "conversation_initiation_client_data" }));
}

#[test]
fn every_option_finds_its_place_in_the_first_message() {
    let options = json!({
        "agent_id": "a", "overrides": true, "language": "de", "voice_id": "v",
        "dynamic_variables": { "name": "Meier", "vip": true, "age": 41, "share": 0.5 },
    });
    let expected = json!({
        "type": "conversation_initiation_client_data",
        "conversation_config_override": {
            "agent": { "prompt": { "prompt": "Be brief." }, "first_message": "Hello.", "language": "de" },
            "tts": { "voice_id": "v" },
        },
        "dynamic_variables": { "name": "Meier", "vip": true, "age": 41, "share": 0.5 },
    });
    assert_eq!(Talk::initiation(&options, greets()), expected);
}

#[test]
fn the_first_message_is_what_the_call_opens_with_where_that_may_be_said() {
    for (overrides, opens, expected) in [
        (json!(true), greets(), json!("Hello.")),
        (json!(true), Opens::Greets(None), Value::Null),
        (json!(["first_message"]), Opens::Waits, json!("")),
        (json!(["prompt"]), greets(), Value::Null),
    ] {
        let initiation = Talk::initiation(&json!({ "agent_id": "a", "overrides": overrides }), opens);
        assert_eq!(initiation["conversation_config_override"]["agent"]["first_message"], expected, "{overrides}");
    }
}

#[test]
fn an_agent_with_a_prompt_of_its_own_learns_what_the_caller_heard_before_it() {
    for (overrides, expected) in [
        (json!(false), vec![json!({ "type": "contextual_update", "text": "This call is recorded." })]),
        (json!(true), vec![]),
    ] {
        let setup = AgentSetup { heard: Some("This call is recorded.".into()), ..setup(greets(), "transfer") };
        let options = json!({ "agent_id": "a", "overrides": overrides });
        let mut talk = Talk(build("elevenlabs_agent", &options).unwrap().remote().codec(&setup));
        assert_eq!(talk.hear(metadata("ulaw_8000", "ulaw_8000")).1, expected, "{overrides}");
    }
}

/// A call that is taken over is told to an agent whose prompt is its own.
#[test]
fn an_agent_with_a_prompt_of_its_own_is_briefed_when_it_takes_a_call_over() {
    let mut talk = Talk::new(&json!({ "agent_id": "a" }), Opens::Waits);
    let briefing = json!({ "type": "contextual_update", "text": "Be brief." });
    assert_eq!(talk.hear(metadata("ulaw_8000", "ulaw_8000")).1, [briefing]);
    for (overrides, opens) in [(json!(false), greets()), (json!(true), Opens::Waits)] {
        let mut talk = Talk::new(&json!({ "agent_id": "a", "overrides": overrides }), opens);
        assert_eq!(talk.hear(metadata("ulaw_8000", "ulaw_8000")).1, [Value::Null; 0]);
    }
}

#[test]
fn a_session_speaks_the_formats_that_the_agent_tells() {
    let linear = |rate| Format { encoding: crate::audio::Encoding::Linear, rate };
    for (input, output, formats) in [
        ("ulaw_8000", "ulaw_8000", Some((Format::ULAW, Format::ULAW))),
        ("pcm_16000", "pcm_44100", Some((linear(16_000), linear(44_100)))),
        ("pcm_8000", "ulaw_8000", Some((Format::SLIN8, Format::ULAW))),
        ("pcm_22050", "pcm_48000", Some((linear(22_050), linear(48_000)))),
        ("opus_48000", "ulaw_8000", None),
        ("ulaw_8000", "pcm_11025", None),
        ("ulaw_8000", "alaw_8000", None),
    ] {
        let mut talk = Talk::new(&json!({ "agent_id": "a" }), greets());
        assert_eq!(talk.0.formats(), None);
        let (events, _) = talk.hear(metadata(input, output));
        let told = formats.map(|(input, output)| SessionFormats { input, output });
        assert_eq!(talk.0.formats(), told, "{input} {output}");
        let expected = if told.is_some() { AgentEvent::Ready } else { AgentEvent::Lost(AgentLoss::Handshake) };
        assert_eq!(events, [expected], "{input} {output}");
    }
}

#[test]
fn the_agent_greets_by_itself_and_is_asked_to_if_that_was_not_heard() {
    let mut talk = Talk::ready();
    assert_eq!(talk.tell(AgentCommand::Greet { text: None }), [Value::Null; 0]);
    let again = talk.tell(AgentCommand::Greet { text: Some("Hello.".into()) });
    assert_eq!(again[0]["type"], "user_message");
    assert!(again[0]["text"].as_str().unwrap().ends_with("Hello."));
    let mut talk = Talk::new(&json!({ "agent_id": "a" }), Opens::Waits);
    let asked = talk.tell(AgentCommand::Greet { text: None }).remove(0);
    assert_eq!(asked["type"], "user_message");
    assert!(asked["text"].as_str().unwrap().ends_with("greet them in German."), "{asked}");
    let prompted = talk.tell(AgentCommand::Say { text: "Noch da?".into() }).remove(0);
    assert!(prompted["text"].as_str().unwrap().contains("(German until the caller speaks another)"), "{prompted}");
}

#[test]
fn what_is_to_be_acted_upon_is_a_message_and_what_is_to_be_kept_in_mind_is_context() {
    let mut talk = Talk::ready();
    let tell = |reply| AgentCommand::Tell { text: "The caller pressed 1.".into(), reply };
    assert_eq!(talk.tell(tell(Reply::Wanted))[0]["type"], "user_message");
    let context = &talk.tell(tell(Reply::NotNow))[0];
    assert_eq!(context["type"], "contextual_update");
    assert!(context["text"].as_str().unwrap().ends_with("The caller pressed 1."));
    assert_eq!(talk.tell(AgentCommand::Say { text: "Still there?".into() })[0]["type"], "user_message");
}

#[test]
fn what_is_not_the_callers_never_passes_for_their_words() {
    let mut talk = Talk::ready();
    let said = talk.tell(AgentCommand::Say { text: "Yes, transfer me.".into() });
    let echo = json!({ "type": "user_transcript", "user_transcription_event": { "user_transcript": said[0]["text"], "event_id": 1 } });
    assert_eq!(talk.hear(echo).0, []);
}

/// P9, P10, P25: an object of parameters becomes a text of JSON; the answer says whether the tool worked.
#[test]
fn a_call_is_answered_under_its_id_with_a_text_and_its_outcome() {
    let mut talk = Talk::ready();
    let call = json!({ "tool_name": "look_up", "tool_call_id": "c1", "parameters": { "a": 1 }, "event_id": 3 });
    let (events, _) = talk.hear(json!({ "type": "client_tool_call", "client_tool_call": call }));
    let [AgentEvent::ResponseStarted { .. }, AgentEvent::ToolCall(call), AgentEvent::ResponseDone { .. }] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((call.id.as_str(), call.name.as_str(), call.arguments.as_str()), ("c1", "look_up", "{\"a\":1}"));
    for (output, is_error) in [("{\"ok\":true}", false), ("{\"ok\":false,\"error\":{}}", true)] {
        let result = AgentCommand::ToolResult { call_id: "c1".into(), output: output.into(), reply: Reply::Wanted };
        let expected =
            json!({ "type": "client_tool_result", "tool_call_id": "c1", "result": output, "is_error": is_error });
        assert_eq!(talk.tell(result), [expected]);
    }
}

#[test]
fn an_agent_that_ends_the_conversation_hangs_up_where_it_may() {
    let ends = || {
        let response = json!({ "tool_name": "end_call", "tool_call_id": "e", "is_error": false, "event_id": 1 });
        json!({ "type": "agent_tool_response", "agent_tool_response": response })
    };
    assert_eq!(Talk::ready().hear(ends()).0, [], "its close says the rest");
    let provider = build("elevenlabs_agent", &json!({ "agent_id": "a" })).unwrap();
    let mut talk = Talk(provider.remote().codec(&setup(greets(), "hangup_call")));
    talk.hear(metadata("ulaw_8000", "ulaw_8000"));
    let (events, _) = talk.hear(ends());
    let Some(AgentEvent::ToolCall(call)) = events.get(1) else { panic!("{events:?}") };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("hangup_call", "{}"));
    let result = AgentCommand::ToolResult { call_id: call.id.clone(), output: "{}".into(), reply: Reply::NotNow };
    assert_eq!(talk.tell(result), [Value::Null; 0], "nobody there waits for it");
    assert_eq!(talk.hear(ends()).0, [], "once");
}

#[test]
fn a_pause_in_its_audio_ends_an_answer() {
    let mut talk = Talk::ready();
    talk.hear(speech(1));
    let mut events = Vec::new();
    talk.0.audio_gap(&mut events);
    talk.0.audio_gap(&mut events);
    assert!(matches!(&events[..], [AgentEvent::ResponseDone { response, .. }] if &**response == "r1"), "{events:?}");
    let (events, _) = talk.hear(speech(2));
    assert_eq!(events[0], AgentEvent::ResponseStarted { response: "r2".into() });
}

/// The vendor has no word for the end of an answer, but tells its words beforehand.
#[test]
fn an_answer_of_which_most_is_missing_is_not_taken_for_complete() {
    let words = |text: &str| json!({ "type": "agent_response", "agent_response_event": { "agent_response": text } });
    let second = |event_id: i64| {
        let audio = STANDARD.encode([0x7f; 8_000]);
        json!({ "type": "audio", "audio_event": { "audio_base_64": audio, "event_id": event_id } })
    };
    let ends = |talk: &mut Talk| {
        let mut events = Vec::new();
        talk.0.audio_gap(&mut events);
        !events.is_empty()
    };
    // 31 letters, and what nobody says.
    let text = format!("{} [laughs for a long time, and then once more]", "a ".repeat(31));
    let mut talk = Talk::ready();
    talk.hear(words(&text));
    talk.hear(second(1));
    assert!(!ends(&mut talk), "it cannot have been said in a second");
    talk.hear(second(2));
    assert!(ends(&mut talk), "but in two");
    // Words that come when it is over belong to no later answer.
    talk.hear(words(&text));
    talk.hear(json!({ "type": "user_transcript", "user_transcription_event": { "user_transcript": "And?" } }));
    talk.hear(second(3));
    assert!(ends(&mut talk));
}

#[test]
fn a_ping_is_answered_at_once_with_its_id() {
    let (events, replies) = Talk::ready().hear(json!({ "type": "ping", "ping_event": { "event_id": 7 } }));
    assert_eq!((events, replies), (vec![], vec![json!({ "type": "pong", "event_id": 7 })]));
}

#[test]
fn caller_audio_is_sent_as_it_is() {
    let messages = Talk::ready().tell(AgentCommand::Audio(Bytes::from_static(&[0xff, 0x7f, 0x00])));
    assert_eq!(messages, [json!({ "user_audio_chunk": "/38A" })]);
}

#[test]
fn a_close_is_told_apart_by_its_code_and_reason() {
    let standing = Talk::ready().0;
    for (code, reason, loss) in [
        (1_000, "max_duration_exceeded", AgentLoss::Expired),
        (1_000, "", AgentLoss::Closed),
        (1_002, "", AgentLoss::Protocol),
        (1_008, "Override for field 'prompt' is not allowed by config.", AgentLoss::Handshake),
        (1_008, "This request exceeds your quota limit.", AgentLoss::Quota),
        (1_008, "Could not authorize", AgentLoss::Unauthorized),
        (1_008, "Too many concurrent requests", AgentLoss::Throttled),
        (1_008, "", AgentLoss::Protocol),
        (1_011, "", AgentLoss::Closed),
        (3_000, "Request error", AgentLoss::Handshake),
    ] {
        assert_eq!(standing.closed(Some(code), reason), loss, "{code} {reason}");
    }
    assert_eq!(standing.closed(None, ""), AgentLoss::Closed);
    let begun = Talk::new(&json!({ "agent_id": "a", "overrides": true }), greets()).0;
    assert_eq!(begun.closed(Some(1_008), ""), AgentLoss::Handshake, "older servers do not say what they refuse");
    for (status, loss) in [
        (401, AgentLoss::Unauthorized),
        (402, AgentLoss::Quota),
        (404, AgentLoss::Handshake),
        (429, AgentLoss::Throttled),
        (0, AgentLoss::Unreachable),
    ] {
        assert_eq!(standing.refused(status), loss, "{status}");
    }
}

#[test]
fn all_mistakes_in_the_options_are_found_at_once() {
    let options = json!({
        "agent_id": "no id", "api_key": "", "base_url": "https://api.elevenlabs.io", "language": "", "voice_id": "a b",
    });
    let problems = (KIND.check)(&options);
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["agent_id", "api_key", "base_url", "language", "voice_id"]);
    assert_eq!((KIND.check)(&json!({ "agent_id": "a" })), []);
    assert_eq!((KIND.check)(&json!({ "agent_id": "a", "overides": true })).len(), 1);
}

#[test]
fn the_schema_accepts_what_the_options_accept_and_refuses_unknown_keys() {
    let schema = jsonschema::validator_for(&(KIND.schema)()).unwrap();
    let good = json!({ "agent_id": "a", "overrides": ["prompt"], "dynamic_variables": { "n": 1, "t": "x" } });
    assert!(schema.is_valid(&good));
    assert_eq!((KIND.check)(&good), []);
    assert!(!schema.is_valid(&json!({ "agent_id": "a", "overrides": ["voice"] })));
    assert!(!schema.is_valid(&json!({ "agent_id": "a", "modle": "x" })));
}

#[test]
fn a_public_agent_is_dialled_by_its_id_in_any_region() {
    let options = json!({ "agent_id": "agent_1", "base_url": "wss://api.eu.residency.elevenlabs.io/" });
    let provider = build("elevenlabs_agent", &options).unwrap();
    let Dial::WebSocket(dial) = provider.remote().dial(&setup(greets(), "transfer")) else { panic!("a socket") };
    assert_eq!(dial.url, "wss://api.eu.residency.elevenlabs.io/v1/convai/conversation?agent_id=agent_1");
}

/// Asks a server that answers with `answer` for a signed address.
async fn signed(
    answer: impl Fn(HeaderMap, Uri) -> (u16, String) + Clone + Send + Sync + 'static,
) -> Result<String, u16> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = move |headers: HeaderMap, uri: Uri| async move {
        let (status, body) = answer(headers, uri);
        (StatusCode::from_u16(status).unwrap(), body)
    };
    let router = Router::new().route("/v1/convai/conversation/get-signed-url", get(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("ws://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let options = json!({ "agent_id": "agent_1", "api_key": "xi-secret", "base_url": base_url });
    let Dial::Asked(asking) = build("elevenlabs_agent", &options).unwrap().remote().dial(&setup(greets(), "transfer"))
    else {
        panic!("asked for")
    };
    let answer = asking.await;
    server.abort();
    answer.map(|dial| {
        assert!(dial.headers.is_empty(), "the address is the permission");
        dial.url
    })
}

#[tokio::test]
async fn the_address_of_a_private_agent_is_asked_for_with_the_key() {
    let address = signed(|headers, uri| {
        assert_eq!((headers["xi-api-key"].as_bytes(), uri.query()), (&b"xi-secret"[..], Some("agent_id=agent_1")));
        (200, json!({ "signed_url": "wss://host/v1/convai/conversation?agent_id=agent_1&token=t" }).to_string())
    });
    assert_eq!(address.await.unwrap(), "wss://host/v1/convai/conversation?agent_id=agent_1&token=t");
}

#[tokio::test]
async fn an_address_that_is_refused_too_long_or_none_is_no_address() {
    assert_eq!(signed(|_, _| (401, "{}".into())).await, Err(401));
    assert_eq!(signed(|_, _| (429, "{}".into())).await, Err(429));
    assert_eq!(signed(|_, _| (200, "no JSON".into())).await, Err(0));
    assert_eq!(signed(|_, _| (200, json!({ "signed_url": "https://host" }).to_string())).await, Err(0));
    let long = |_, _| (200, json!({ "signed_url": format!("wss://host/{}", "x".repeat(20_000)) }).to_string());
    assert_eq!(signed(long).await, Err(0));
}
