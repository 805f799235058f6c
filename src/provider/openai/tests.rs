//! Commands as wire messages. What server messages become is held by the fixtures.

use super::*;
use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn, Noise, Reply, Usage},
    facts::CallId,
    provider::{Wire, build, talk},
    tool::schemas::Dialect,
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;

struct Talk(Box<dyn Codec>);

impl Talk {
    fn new(options: &Value, leg: Format) -> Self {
        Self::open(options, leg, false)
    }

    fn open(options: &Value, leg: Format, told_turns: bool) -> Self {
        let setup = AgentSetup { told_turns, ..talk::setup(Dialect::OpenAiRealtime, "transfer", leg) };
        Self(build("openai_realtime", options).unwrap().remote().codec(&setup))
    }

    fn ready() -> Self {
        Self::stands(false)
    }

    fn stands(told_turns: bool) -> Self {
        let mut talk = Self::open(&json!({ "api_key": "k" }), Format::ULAW, told_turns);
        talk.hear(json!({ "type": "session.created", "session": {} }));
        let format = json!({ "format": { "type": "audio/pcmu" } });
        let audio = json!({ "input": format, "output": format });
        let (events, _) =
            talk.hear(json!({ "type": "session.updated", "session": { "type": "realtime", "audio": audio } }));
        assert_eq!(events, [AgentEvent::Ready]);
        talk
    }

    fn hear(&mut self, message: Value) -> (Vec<AgentEvent>, Vec<Value>) {
        talk::hear(&mut *self.0, Wire::Text(message.to_string()))
    }

    fn tell(&mut self, command: AgentCommand) -> Vec<Value> {
        talk::tell(&mut *self.0, command)
    }

    fn response(&mut self, kind: &str, id: &str) -> Vec<Value> {
        self.hear(json!({ "type": kind, "response": { "id": id, "status": "completed" } })).1
    }

    /// So many milliseconds of speech have come.
    fn speaks(&mut self, item: &str, length_ms: usize) {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let delta = STANDARD.encode(vec![0xff; 8 * length_ms]);
        self.hear(json!({
            "type": "response.output_audio.delta", "response_id": "r1", "item_id": item, "delta": delta,
        }));
    }

    fn interrupt(&mut self, item: &str, heard_ms: u64, cancel: bool) -> Vec<Value> {
        let heard = Duration::from_millis(heard_ms);
        self.tell(AgentCommand::Interrupt { response: "r1".into(), item: item.into(), heard, cancel })
    }
}

fn kinds(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["type"].as_str().unwrap()).collect()
}

fn greet() -> AgentCommand {
    AgentCommand::Greet { text: Some("Hello.".into()) }
}

#[test]
fn a_greeting_of_its_own_and_other_words_are_asked_for_in_the_language_of_the_context() {
    let ordered = |command| Talk::ready().tell(command)[0]["response"]["instructions"].to_string();
    assert!(ordered(AgentCommand::Greet { text: None }).contains("greet them in German."));
    assert!(
        ordered(AgentCommand::Say { text: "Noch da?".into() }).contains("(German until the caller speaks another)")
    );
}

fn result(reply: Reply) -> AgentCommand {
    AgentCommand::ToolResult { call_id: "call_1".into(), output: "{}".into(), reply }
}

#[test]
fn a_session_asks_for_the_legs_own_g711_and_for_24_khz_otherwise() {
    for (leg, format) in [
        (Format::ULAW, json!({ "type": "audio/pcmu" })),
        (Format::ALAW, json!({ "type": "audio/pcma" })),
        (Format::SLIN8, json!({ "type": "audio/pcm", "rate": 24_000 })),
        (Format::SLIN16, json!({ "type": "audio/pcm", "rate": 24_000 })),
    ] {
        let mut talk = Talk::new(&json!({ "api_key": "k" }), leg);
        let (_, replies) = talk.hear(json!({ "type": "session.created", "session": {} }));
        assert_eq!(replies[0]["session"]["audio"]["input"]["format"], format);
        assert_eq!(replies[0]["session"]["audio"]["output"]["format"], format);
    }
}

#[test]
fn every_option_finds_its_place_in_the_session() {
    let options = json!({
        "api_key": "k", "voice": "cedar", "speed": 1.25, "max_output_tokens": 900, "noise_reduction": "far_field",
        "transcription": { "model": "gpt-transcribe", "language": "de" },
        "turn_detection": { "type": "semantic_vad", "eagerness": "low" },
        "reasoning_effort": "low", "parallel_tool_calls": false,
        "truncation": { "retention_ratio": 0.75, "post_instructions_tokens": 8000 },
    });
    let mut talk = Talk::new(&options, Format::ULAW);
    let (_, replies) = talk.hear(json!({ "type": "session.created", "session": {} }));
    insta::assert_json_snapshot!(replies[0]);
}

#[test]
fn a_greeting_repeats_the_prompt_since_it_replaces_the_sessions_for_one_response() {
    let message = &Talk::ready().tell(greet())[0];
    assert_eq!(message["type"], "response.create");
    let instructions = message["response"]["instructions"].as_str().unwrap();
    assert!(instructions.starts_with("Be brief.") && instructions.ends_with("\nHello."), "{instructions}");
    assert_eq!(message["response"]["tool_choice"], "none");
}

/// P9, P10, P25: calls are read with id, name and arguments, and come before whatever else their message holds.
#[test]
fn calls_come_before_the_rest_of_their_message() {
    let mut talk = Talk::ready();
    talk.response("response.created", "r1");
    let call = |id: &str, name: &str| json!({ "type": "function_call", "status": "completed", "call_id": id, "name": name, "arguments": "{\"a\":1}" });
    let (events, _) = talk.hear(json!({ "type": "response.done", "response": {
        "id": "r1", "status": "completed", "usage": { "input_tokens": 1, "output_tokens": 1 },
        "output": [{ "type": "message", "content": [] }, call("call_1", "look_up"), call("call_2", "transfer")],
    } }));
    let [AgentEvent::ToolCall(first), AgentEvent::ToolCall(second), rest @ ..] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((first.id.as_str(), first.name.as_str(), first.arguments.as_str()), ("call_1", "look_up", "{\"a\":1}"));
    assert_eq!((second.id.as_str(), second.name.as_str()), ("call_2", "transfer"));
    assert!(matches!(rest, [AgentEvent::Usage(_), AgentEvent::ResponseDone { .. }]), "{rest:?}");
}

/// P21, P25, P26: the answer goes out under the call's own id, the whole envelope as it is.
#[test]
fn a_result_goes_out_whole_under_the_calls_id() {
    let envelope =
        json!({ "ok": true, "data": { "until": 18 }, "intents": [], "meta": { "toolId": "hours" } }).to_string();
    let answer = AgentCommand::ToolResult { call_id: "call_1".into(), output: envelope.clone(), reply: Reply::NotNow };
    let expected = json!({ "type": "function_call_output", "call_id": "call_1", "output": envelope });
    assert_eq!(Talk::ready().tell(answer)[0]["item"], expected);
}

/// P3: all tools of the call, in the provider's form, are in the one message that sets the session up.
#[test]
fn the_session_is_given_its_tools() {
    let mut talk = Talk::new(&json!({ "api_key": "k" }), Format::ULAW);
    let (_, replies) = talk.hear(json!({ "type": "session.created", "session": {} }));
    let tools = &replies[0]["session"]["tools"];
    assert_eq!(tools.as_array().map(Vec::len), Some(1));
    assert_eq!((&tools[0]["type"], &tools[0]["name"]), (&json!("function"), &json!("transfer")));
    assert_eq!(tools[0]["parameters"]["properties"]["to"]["type"], "string");
}

#[test]
fn only_the_last_tool_result_asks_for_a_response() {
    let mut talk = Talk::ready();
    assert_eq!(kinds(&talk.tell(result(Reply::NotNow))), ["conversation.item.create"]);
    assert_eq!(kinds(&talk.tell(result(Reply::Wanted))), ["conversation.item.create", "response.create"]);
}

/// G answer 12: an agent that is told something may act upon it, at once or in its next turn.
#[test]
fn what_the_agent_is_told_leaves_it_free_to_call_tools() {
    let tell = |reply| AgentCommand::Tell { text: "The caller pressed a key.".into(), reply };
    let mut talk = Talk::ready();
    let messages = talk.tell(tell(Reply::Wanted));
    let content = json!([{ "type": "input_text", "text": "The caller pressed a key." }]);
    assert_eq!(messages[0]["item"], json!({ "type": "message", "role": "system", "content": content }));
    assert_eq!((&messages[1]["type"], &messages[1]["response"]), (&json!("response.create"), &Value::Null));
    assert_eq!(kinds(&talk.tell(tell(Reply::NotNow))), ["conversation.item.create"]);
}

#[test]
fn what_the_caller_writes_is_theirs_and_is_answered() {
    let messages = Talk::ready().tell(AgentCommand::Written { text: "Are you open?".into() });
    let content = json!([{ "type": "input_text", "text": "Are you open?" }]);
    assert_eq!(messages[0]["item"], json!({ "type": "message", "role": "user", "content": content }));
    assert_eq!((&messages[1]["type"], &messages[1]["response"]), (&json!("response.create"), &Value::Null));
}

#[test]
fn while_a_response_is_under_way_requests_wait_for_its_end() {
    let mut talk = Talk::ready();
    talk.response("response.created", "r1");
    assert_eq!(kinds(&talk.tell(result(Reply::Wanted))), ["conversation.item.create"]);
    assert!(talk.tell(AgentCommand::Say { text: "Are you there?".into() }).is_empty());
    let said = talk.response("response.done", "r1");
    assert_eq!((kinds(&said), &said[0]["response"]["tool_choice"]), (vec!["response.create"], &json!("none")));
    talk.response("response.created", "r2");
    let answered = talk.response("response.done", "r2");
    assert_eq!((kinds(&answered), &answered[0]["response"]), (vec!["response.create"], &Value::Null));
}

#[test]
fn a_request_that_the_server_forestalled_is_made_again_and_is_no_error() {
    let mut talk = Talk::ready();
    let event_id = talk.tell(greet())[0]["event_id"].clone();
    talk.response("response.created", "the server's own");
    let (events, replies) = talk.hear(json!({ "type": "error", "error": {
        "type": "invalid_request_error", "code": "conversation_already_has_active_response", "event_id": event_id,
    } }));
    assert_eq!(events, [AgentEvent::Noise(Noise::HarmlessError)]);
    assert!(replies.is_empty());
    assert_eq!(kinds(&talk.response("response.done", "the server's own")), ["response.create"]);
}

#[test]
fn an_interruption_truncates_to_what_was_heard_and_never_beyond_what_was_received() {
    let mut talk = Talk::ready();
    talk.response("response.created", "r1");
    talk.speaks("i1", 500);
    assert_eq!(talk.interrupt("i1", 120, false)[0]["audio_end_ms"], 120);
    assert_eq!(talk.interrupt("i1", 0, false)[0]["audio_end_ms"], 0);
    assert_eq!(talk.interrupt("i1", 520, false)[0]["audio_end_ms"], 500);
}

#[test]
fn an_item_that_was_heard_to_its_end_is_left_whole() {
    let mut talk = Talk::ready();
    talk.response("response.created", "r1");
    talk.speaks("i1", 500);
    talk.hear(json!({ "type": "response.output_audio.done", "response_id": "r1", "item_id": "i1" }));
    assert!(talk.interrupt("i1", 500, false).is_empty());
    assert_eq!(kinds(&talk.interrupt("i1", 480, false)), ["conversation.item.truncate"]);
    assert!(talk.interrupt("never heard of", 100, false).is_empty());
}

#[test]
fn a_cancel_is_sent_only_while_that_response_is_under_way() {
    let mut talk = Talk::ready();
    talk.response("response.created", "r1");
    talk.speaks("i1", 500);
    assert_eq!(kinds(&talk.interrupt("i1", 100, true)), ["response.cancel", "conversation.item.truncate"]);
    talk.response("response.done", "r1");
    assert_eq!(kinds(&talk.interrupt("i1", 100, true)), ["conversation.item.truncate"]);
}

fn began() -> AgentCommand {
    AgentCommand::Turn(CallerTurn::Began)
}

fn ended() -> AgentCommand {
    AgentCommand::Turn(CallerTurn::Ended)
}

#[test]
fn where_the_engine_finds_the_turns_the_server_does_not_and_each_turn_is_committed_and_answered() {
    for told_turns in [true, false] {
        let mut talk = Talk::open(&json!({ "api_key": "k" }), Format::ULAW, told_turns);
        let (_, replies) = talk.hear(json!({ "type": "session.created", "session": {} }));
        let detection = replies[0]["session"]["audio"]["input"].get("turn_detection").expect("it is said");
        assert_eq!(detection.is_null(), told_turns);
    }
    let mut talk = Talk::stands(true);
    assert!(talk.tell(began()).is_empty());
    assert_eq!(kinds(&talk.tell(ended())), ["input_audio_buffer.commit", "response.create"]);
    assert!(Talk::ready().tell(ended()).is_empty(), "the server finds them");
}

#[test]
fn a_turn_that_begins_cancels_the_answer_under_way_once_even_before_it_is_announced() {
    let mut talk = Talk::stands(true);
    talk.tell(ended());
    assert_eq!(talk.tell(began()), [json!({ "type": "response.cancel" })], "asked for, and without an id so far");
    talk.response("response.created", "r1");
    assert!(talk.interrupt("i1", 20, true).is_empty());
    assert_eq!(kinds(&talk.tell(ended())), ["input_audio_buffer.commit"], "the cancelled one is still under way");
    assert_eq!(kinds(&talk.response("response.done", "r1")), ["response.create"]);
    talk.response("response.created", "r2");
    assert_eq!(talk.tell(began()), [json!({ "type": "response.cancel", "response_id": "r2" })]);
}

#[test]
fn nothing_is_asked_for_while_the_caller_speaks() {
    let mut talk = Talk::stands(true);
    talk.tell(began());
    assert_eq!(kinds(&talk.tell(result(Reply::Wanted))), ["conversation.item.create"]);
    assert_eq!(kinds(&talk.tell(ended())), ["input_audio_buffer.commit", "response.create"]);
    assert!(talk.response("response.done", "r1").is_empty(), "one answer to both");
}

/// It is text beside the conversation: neither its beginning nor its end is the answer's.
#[test]
fn a_summary_is_asked_for_aside_and_told_as_one() {
    let mut talk = Talk::ready();
    let summarise = || AgentCommand::Summarise { mark: 7, record: "> Caller: Hello.".into() };
    assert_eq!(talk.response("response.created", "r1"), [] as [Value; 0]);
    let [request] = &talk.tell(summarise())[..] else { panic!("it does not wait for the end of the answer") };
    let response = &request["response"];
    assert_eq!((&response["conversation"], &response["output_modalities"]), (&json!("none"), &json!(["text"])));
    assert_eq!(response["input"][0]["content"][0]["text"], "> Caller: Hello.");
    let body = |status: &str, output: Value| json!({ "id": "r2", "status": status, "metadata": response["metadata"], "output": output });
    let (events, replies) =
        talk.hear(json!({ "type": "response.created", "response": body("in_progress", json!([])) }));
    assert_eq!((events, replies), (Vec::new(), Vec::new()));
    // The answer goes on, and what waits for it waits.
    assert_eq!(talk.tell(result(Reply::Wanted)).len(), 1);
    let content = json!([{ "type": "output_text", "text": "They want a boat.\n" }]);
    let output = json!([{ "type": "message", "role": "assistant", "status": "completed", "content": content }]);
    let (events, replies) = talk.hear(json!({ "type": "response.done", "response": body("completed", output) }));
    assert_eq!(events, [AgentEvent::Summary { mark: 7, text: "They want a boat.".into() }]);
    assert_eq!(replies, [] as [Value; 0]);
    assert_eq!(kinds(&talk.response("response.done", "r1")), ["response.create"], "now the floor is free");
    let (events, _) = talk.hear(json!({ "type": "response.done", "response": body("failed", json!([])) }));
    assert_eq!(events, [AgentEvent::Noise(Noise::CommandRefused)]);
    let error = json!({ "type": "invalid_request_error", "code": "unknown", "event_id": request["event_id"] });
    let (events, replies) = talk.hear(json!({ "type": "error", "error": error }));
    assert_eq!((&events[..], replies.len()), (&[AgentEvent::Noise(Noise::CommandRefused)][..], 0));
}

#[test]
fn what_was_committed_names_the_turn_that_its_transcript_belongs_to() {
    let committed = json!({ "type": "input_audio_buffer.committed", "item_id": "item_1", "previous_item_id": null });
    let named = AgentEvent::CallerSpeechStarted { utterance: Some("item_1".into()) };
    assert_eq!(Talk::stands(true).hear(committed.clone()).0, [named]);
    assert!(Talk::ready().hear(committed).0.is_empty(), "it was named when it began");
}

#[test]
fn caller_audio_is_appended_as_it_is() {
    let messages = Talk::ready().tell(AgentCommand::Audio(Bytes::from_static(&[0xff, 0x7f, 0x00])));
    assert_eq!(messages, [json!({ "type": "input_audio_buffer.append", "audio": "/38A" })]);
}

#[test]
fn a_close_reason_that_names_a_fatal_error_is_that_error() {
    let talk = Talk::ready();
    assert_eq!(talk.0.closed(Some(3_000), "invalid_request_error.invalid_api_key"), AgentLoss::Unauthorized);
    assert_eq!(talk.0.closed(Some(1_008), "insufficient_quota"), AgentLoss::Quota);
    assert_eq!(talk.0.closed(Some(1_001), "session_expired"), AgentLoss::Expired);
    assert_eq!(talk.0.closed(Some(4_000), ""), AgentLoss::Protocol);
    assert_eq!(talk.0.closed(Some(1_000), "bye"), AgentLoss::Closed);
    assert_eq!(talk.0.closed(None, ""), AgentLoss::Closed);
}

#[test]
fn all_mistakes_in_the_options_are_found_at_once() {
    let options = json!({
        "api_key": "", "base_url": "https://api.openai.com", "model": "no model", "speed": 3.0,
        "turn_detection": { "type": "server_vad", "threshold": 7 },
        "truncation": { "retention_ratio": 1.5, "post_instructions_tokens": 0 },
    });
    let problems = (KIND.check)(&options);
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    let truncation = ["truncation.retention_ratio", "truncation.post_instructions_tokens"];
    let rest =
        ["api_key", "base_url", "model", "speed"].into_iter().chain(truncation).chain(["turn_detection.threshold"]);
    assert_eq!(paths, Vec::from_iter(rest));
    assert_eq!((KIND.check)(&json!({ "api_key": "k" })), []);
    assert_eq!((KIND.check)(&json!({ "api_key": "k", "modle": "x" })).len(), 1);
}

/// A server that refuses them does so when a caller is there already.
#[test]
fn what_a_model_that_does_not_reason_would_refuse_is_found_before_a_call() {
    for (model, refused) in [
        ("gpt-realtime", true),
        ("gpt-realtime-mini-2025-10-06", true),
        ("gpt-realtime-2025-08-28", true),
        ("gpt-realtime-1.5", true),
        ("gpt-realtime-2", false),
        ("gpt-realtime-2.1-mini", false),
        ("a-model-of-ones-own", false),
    ] {
        let options = json!({ "api_key": "k", "model": model, "reasoning_effort": "low", "parallel_tool_calls": true });
        let paths = Vec::from_iter((KIND.check)(&options).into_iter().map(|problem| problem.path));
        let expected: &[&str] = if refused { &["reasoning_effort", "parallel_tool_calls"] } else { &[] };
        assert_eq!(paths, expected, "{model}");
        assert_eq!((KIND.check)(&json!({ "api_key": "k", "model": model })), []);
    }
}

#[test]
fn the_schema_accepts_what_the_options_accept_and_refuses_unknown_keys() {
    let schema = jsonschema::validator_for(&(KIND.schema)()).unwrap();
    let good = json!({
        "api_key": "k", "transcription": null, "speed": 1.0, "noise_reduction": "near_field",
        "turn_detection": { "type": "server_vad", "idle_timeout_ms": 6000 },
    });
    assert!(schema.is_valid(&good));
    assert_eq!((KIND.check)(&good), []);
    assert!(!schema.is_valid(&json!({ "api_key": "k", "modle": "x" })));
    assert!(
        !schema.is_valid(&json!({ "api_key": "k", "turn_detection": { "type": "server_vad", "eagerness": "low" } }))
    );
}

#[test]
fn the_vendors_limit_of_a_session_is_known() {
    let provider = build("openai_realtime", &json!({ "api_key": "k" })).unwrap();
    assert_eq!(provider.remote().session_max(), Some(Duration::from_secs(3_600)));
}

/// Of the vendor's own, of a compatible server, or of an agent that is set up there.
#[test]
fn a_session_ends_when_the_operator_says_so() {
    let own = [
        ("openai_realtime", json!({ "api_key": "k" })),
        ("deepgram_agent", json!({ "api_key": "k" })),
        ("elevenlabs_agent", json!({ "agent_id": "a" })),
        ("gemini_live", json!({ "api_key": "k", "model": "gemini-2.5-live" })),
    ];
    for (kind, mut options) in own {
        options["session_seconds"] = 600.into();
        let provider = build(kind, &options).unwrap();
        assert_eq!(provider.remote().session_max(), Some(Duration::from_secs(600)), "{kind}");
        options["session_seconds"] = 9.into();
        let problems = build(kind, &options).err().unwrap();
        assert_eq!(problems[0].path, "session_seconds", "{kind}");
    }
}

#[test]
fn the_key_is_not_in_the_address_and_not_in_debug_output() {
    let provider = build("openai_realtime", &json!({ "api_key": "sk-secret", "project": "p" })).unwrap();
    let setup = AgentSetup::new(CallId::random(), Format::ULAW);
    let Dial::WebSocket(dial) = provider.remote().dial(&setup) else { panic!("a socket") };
    assert!(!format!("{dial:?}").contains("sk-secret"));
    assert_eq!(dial.headers.len(), 2);
}

#[test]
fn an_address_may_have_a_path_and_a_query_or_neither() {
    let url = |base_url: &str| {
        let options: Options = checks::read(&json!({ "api_key": "k", "base_url": base_url, "model": "m" })).unwrap();
        options.url()
    };
    assert_eq!(url("wss://host/v1/realtime"), "wss://host/v1/realtime?model=m");
    assert_eq!(url("ws://host:1?key=1"), "ws://host:1/?key=1&model=m");
    assert_eq!(url("ws://host:1"), "ws://host:1/?model=m", "a request line without a path is refused");
}

fn usage_of(events: &[AgentEvent]) -> Usage {
    let usage: Vec<_> = events
        .iter()
        .filter_map(|event| if let AgentEvent::Usage(usage) = event { Some(*usage) } else { None })
        .collect();
    let [usage] = usage.as_slice() else { panic!("{events:?}") };
    *usage
}

#[test]
fn a_responses_tokens_are_counted_by_kind_and_cached_ones_stay_part_of_the_input() {
    let mut talk = Talk::ready();
    let mut used = |usage: Value| {
        let response = json!({ "id": "r1", "status": "completed", "output": [], "usage": usage });
        usage_of(&talk.hear(json!({ "type": "response.done", "response": response })).0)
    };
    let detailed = used(json!({
        "total_tokens": 253, "input_tokens": 132, "output_tokens": 121,
        "input_token_details": {
            "text_tokens": 119, "audio_tokens": 13, "image_tokens": 0, "cached_tokens": 70,
            "cached_tokens_details": { "text_tokens": 64, "audio_tokens": 6, "image_tokens": 0 },
        },
        "output_token_details": { "text_tokens": 30, "audio_tokens": 91 },
    }));
    let expected = Usage {
        input_text_tokens: 119,
        input_audio_tokens: 13,
        input_cached_tokens: 70,
        input_cached_audio_tokens: 6,
        output_text_tokens: 30,
        output_audio_tokens: 91,
        ..Usage::default()
    };
    assert_eq!(detailed, expected);
    let totals = used(json!({ "input_tokens": 132, "output_tokens": 121 }));
    let expected = Usage { input_text_tokens: 132, output_text_tokens: 121, ..Usage::default() };
    assert_eq!(totals, expected, "what no detail names is counted all the same");
    let nothing = used(json!({ "total_tokens": 0, "input_token_details": null, "output_token_details": null }));
    assert_eq!(nothing, Usage::default());
}

#[test]
fn a_transcription_is_counted_apart_by_tokens_or_by_time() {
    let mut talk = Talk::ready();
    let mut heard = |usage: Value| {
        talk.hear(json!({
            "type": "conversation.item.input_audio_transcription.completed",
            "item_id": "u1", "content_index": 0, "transcript": "Hello.", "usage": usage,
        }))
        .0
    };
    let by_tokens = heard(json!({
        "type": "tokens", "total_tokens": 22, "input_tokens": 13, "output_tokens": 9,
        "input_token_details": { "text_tokens": 3, "audio_tokens": 10 },
    }));
    let expected = Usage {
        transcription_text_tokens: 3,
        transcription_audio_tokens: 10,
        transcription_output_tokens: 9,
        ..Usage::default()
    };
    assert_eq!(usage_of(&by_tokens), expected);
    let by_time = heard(json!({ "type": "duration", "seconds": 1.5 }));
    assert_eq!(usage_of(&by_time), Usage { transcribed: Duration::from_millis(1_500), ..Usage::default() });
    for odd in [json!(null), json!({}), json!({ "type": "duration", "seconds": -1 })] {
        let events = heard(odd);
        assert!(
            events.iter().any(|event| matches!(event, AgentEvent::Transcript { .. })),
            "the words count: {events:?}"
        );
    }
}
