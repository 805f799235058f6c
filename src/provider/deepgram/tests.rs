//! Commands as wire messages, and what the two directions have to do with each other. What server
//! messages become is held by the fixtures.

use super::*;
use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn, Noise, Reply, ResponseStatus, Speaker},
    facts::CallId,
    provider::{Opens, Wire, build, talk},
};
use bytes::Bytes;
use serde_json::{Value, json};

struct Talk(Box<dyn Codec>);

impl Talk {
    fn new(options: &Value, leg: Format) -> Self {
        let setup = talk::setup(Dialect::Deepgram, "transfer", leg);
        Self(build("deepgram_agent", options).unwrap().remote().codec(&setup))
    }

    fn ready() -> Self {
        let mut talk = Self::new(&json!({ "api_key": "k" }), Format::ULAW);
        assert_eq!(talk.hear(json!({ "type": "SettingsApplied" })).0, [AgentEvent::Ready]);
        talk
    }

    fn told_turns() -> Self {
        let setup = AgentSetup { told_turns: true, ..talk::setup(Dialect::Deepgram, "transfer", Format::ULAW) };
        let mut talk = Self(build("deepgram_agent", &json!({ "api_key": "k" })).unwrap().remote().codec(&setup));
        talk.kind("SettingsApplied");
        talk
    }

    /// A session that is to open with this greeting.
    fn greeting(greeting: Option<&str>) -> Self {
        let opens = Opens::Greets(greeting.map(Into::into));
        let setup = AgentSetup { opens, ..talk::setup(Dialect::Deepgram, "transfer", Format::ULAW) };
        Self(build("deepgram_agent", &json!({ "api_key": "k" })).unwrap().remote().codec(&setup))
    }

    fn turn(&mut self, turn: CallerTurn) -> Vec<Value> {
        self.tell(AgentCommand::Turn(turn))
    }

    fn settings(options: &Value, leg: Format) -> Value {
        talk::open(&mut *Self::new(options, leg).0).remove(0)
    }

    fn hear(&mut self, message: Value) -> (Vec<AgentEvent>, Vec<Value>) {
        self.decode(Wire::Text(message.to_string()))
    }

    fn kind(&mut self, kind: &str) -> (Vec<AgentEvent>, Vec<Value>) {
        self.hear(json!({ "type": kind }))
    }

    fn audio(&mut self) -> Vec<AgentEvent> {
        self.decode(Wire::Binary(Bytes::from_static(&[0xff]))).0
    }

    fn decode(&mut self, wire: Wire) -> (Vec<AgentEvent>, Vec<Value>) {
        talk::hear(&mut *self.0, wire)
    }

    fn tell(&mut self, command: AgentCommand) -> Vec<Value> {
        talk::tell(&mut *self.0, command)
    }

    fn call(&mut self, id: &str, name: &str) -> Vec<AgentEvent> {
        let function = json!({ "id": id, "name": name, "arguments": "{\"a\":1}", "client_side": true });
        self.hear(json!({ "type": "FunctionCallRequest", "functions": [function] })).0
    }
}

fn result(call_id: &str, output: &str) -> AgentCommand {
    AgentCommand::ToolResult { call_id: call_id.into(), output: output.into(), reply: Reply::Wanted }
}

fn note(text: &str) -> AgentCommand {
    AgentCommand::Tell { text: text.into(), reply: Reply::NotNow }
}

fn responses(events: &[AgentEvent]) -> Vec<&str> {
    let audio = events.iter().filter_map(|event| match event {
        AgentEvent::Audio { response, .. } => Some(&**response),
        _ => None,
    });
    audio.collect()
}

#[test]
fn a_session_speaks_the_legs_own_format_both_ways() {
    for (leg, encoding, rate) in [
        (Format::ULAW, "mulaw", 8_000),
        (Format::ALAW, "alaw", 8_000),
        (Format::SLIN8, "linear16", 8_000),
        (Format::SLIN16, "linear16", 16_000),
    ] {
        let audio = &Talk::settings(&json!({ "api_key": "k" }), leg)["audio"];
        assert_eq!(audio["input"], json!({ "encoding": encoding, "sample_rate": rate }));
        assert_eq!(audio["output"], json!({ "encoding": encoding, "sample_rate": rate, "container": "none" }));
        let provider = build("deepgram_agent", &json!({ "api_key": "k" })).unwrap();
        assert_eq!(provider.remote().formats(leg), SessionFormats { input: leg, output: leg });
    }
}

#[test]
fn every_option_finds_its_place_in_the_settings() {
    let options = json!({
        "api_key": "k", "mip_opt_out": true,
        "listen": {
            "version": "v2", "model": "flux-general-multi", "language_hints": ["de", "en"], "eot_threshold": 0.8,
            "eager_eot_threshold": 0.5, "eot_timeout_ms": 4000, "keyterms": ["Offhook"],
        },
        "think": {
            "provider": "groq", "model": "openai/gpt-oss-20b", "temperature": 0.5,
            "endpoint": { "url": "https://llm.example.org/v1", "headers": { "authorization": "Bearer x" } },
        },
        "speak": { "type": "deepgram", "model": "flux-kit-en", "speed": 1.25 },
    });
    insta::assert_json_snapshot!(Talk::settings(&options, Format::ULAW));
}

/// P3: all tools of the call are in the one message that sets the session up. None is called before the caller's
/// turn is certain.
#[test]
fn the_session_is_given_its_tools() {
    let functions = &Talk::settings(&json!({ "api_key": "k" }), Format::ULAW)["agent"]["think"]["functions"];
    assert_eq!(functions.as_array().map(Vec::len), Some(1));
    assert_eq!((&functions[0]["name"], &functions[0]["defer_until_eot"]), (&json!("transfer"), &json!(true)));
    assert_eq!(functions[0]["endpoint"], Value::Null, "a function with an endpoint is not called here");
}

#[test]
fn a_greeting_that_opens_the_session_is_in_its_settings_and_is_asked_for_only_once_more() {
    let mut talk = Talk::greeting(Some("Hello."));
    assert_eq!(talk::open(&mut *talk.0)[0]["agent"]["greeting"], "Hello.");
    let greet = || AgentCommand::Greet { text: Some("Hello.".into()) };
    talk.kind("SettingsApplied");
    assert_eq!(talk.tell(greet()), [Value::Null; 0], "it comes by itself");
    assert_eq!(talk.tell(greet())[0]["type"], "InjectAgentMessage", "it was not heard");
    let mut waits = Talk::greeting(None);
    assert_eq!(talk::open(&mut *waits.0)[0]["agent"]["greeting"], Value::Null);
    assert_eq!(waits.tell(greet())[0]["type"], "InjectAgentMessage");
}

#[test]
fn a_refused_greeting_is_not_said_behind_the_answer_to_the_callers_words() {
    let words = || json!({ "type": "ConversationText", "role": "user", "content": "Are you open?" });
    let refusal = || json!({ "type": "InjectionRefused", "message": "" });
    for text in [Some("Hello.".to_owned()), None] {
        for refused_first in [true, false] {
            let mut talk = Talk::ready();
            talk.tell(AgentCommand::Greet { text: text.clone() });
            for message in if refused_first { [refusal(), words()] } else { [words(), refusal()] } {
                talk.hear(message);
            }
            talk.kind("AgentStartedSpeaking");
            assert_eq!(talk.kind("AgentAudioDone").1, [Value::Null; 0]);
        }
    }
    let mut talk = Talk::ready();
    let asked = talk.tell(AgentCommand::Tell { text: "The caller pressed 1.".into(), reply: Reply::Wanted });
    talk.hear(refusal());
    talk.hear(words());
    assert_eq!(talk.kind("AgentAudioDone").1, asked, "what is no greeting still counts");
}

#[test]
fn a_greeting_is_spoken_as_it_is_and_waits_for_its_place() {
    let messages = Talk::ready().tell(AgentCommand::Greet { text: Some("Hello.".into()) });
    assert_eq!(messages, [json!({ "type": "InjectAgentMessage", "message": "Hello.", "behavior": "queue" })]);
}

#[test]
fn a_greeting_of_its_own_and_other_words_are_asked_for_in_the_language_of_the_context() {
    let asked = |command| Talk::ready().tell(command)[0]["content"].to_string();
    assert!(asked(AgentCommand::Greet { text: None }).contains("greet them in German."));
    assert!(asked(AgentCommand::Say { text: "Noch da?".into() }).contains("(German until the caller speaks another)"));
}

#[test]
fn what_is_not_the_callers_is_marked_and_never_passes_for_their_words() {
    for command in [
        AgentCommand::Greet { text: None },
        AgentCommand::Say { text: "Yes, transfer me.".into() },
        AgentCommand::Tell { text: "The caller said yes by pressing a key.".into(), reply: Reply::Wanted },
    ] {
        let mut talk = Talk::ready();
        let messages = talk.tell(command);
        assert_eq!(messages[0]["type"], "InjectUserMessage");
        let echo = json!({ "type": "ConversationText", "role": "user", "content": messages[0]["content"] });
        assert_eq!(talk.hear(echo).0, [], "{}", messages[0]);
    }
}

#[test]
fn what_it_may_keep_in_mind_goes_into_the_prompt_and_asks_for_no_answer() {
    let messages = Talk::ready().tell(note("The caller pressed 1."));
    assert_eq!(messages[0]["type"], "UpdatePrompt");
    assert!(messages[0]["prompt"].as_str().unwrap().ends_with("The caller pressed 1."));
}

#[test]
fn notes_end_where_the_prompt_is_full_and_that_is_counted() {
    let mut talk = Talk::ready();
    let sent: usize = (0..30).map(|_| talk.tell(note(&"x".repeat(1_000))).len()).sum();
    assert_eq!(sent, 23, "25,000 characters less the prompt, in notes of 1,000 and what marks them");
    assert_eq!(talk.kind("LatencyReport").0, vec![AgentEvent::Noise(Noise::CommandRefused); 7]);
    assert_eq!(talk.kind("LatencyReport").0, []);
}

#[test]
fn what_was_refused_is_asked_once_more_when_the_agent_has_finished() {
    let mut talk = Talk::ready();
    talk.kind("AgentStartedSpeaking");
    let asked = talk.tell(AgentCommand::Say { text: "Are you there?".into() });
    let refused = talk.hear(json!({ "type": "InjectionRefused", "message": "" }));
    assert_eq!(refused, (vec![AgentEvent::Noise(Noise::CommandRefused)], vec![]));
    let (events, replies) = talk.kind("AgentAudioDone");
    assert!(matches!(events[..], [AgentEvent::ResponseDone { .. }]), "{events:?}");
    assert_eq!(replies, asked);
    talk.hear(json!({ "type": "InjectionRefused", "message": "" }));
    assert_eq!(talk.kind("AgentAudioDone").1, [Value::Null; 0], "not a third time");
}

#[test]
fn what_was_said_is_not_asked_again() {
    let mut talk = Talk::ready();
    talk.tell(AgentCommand::Greet { text: Some("Hello.".into()) });
    talk.kind("AgentStartedSpeaking");
    assert_eq!(talk.kind("AgentAudioDone").1, [Value::Null; 0]);
    talk.hear(json!({ "type": "InjectionRefused", "message": "" }));
    assert_eq!(talk.kind("AgentAudioDone").1, [Value::Null; 0]);
}

/// P9, P10, P25: calls are read with id, name and arguments, before the end of the response that made them.
#[test]
fn a_call_is_answered_under_its_id_and_name_exactly_once() {
    let mut talk = Talk::ready();
    let events = talk.call("call_1", "look_up");
    let [AgentEvent::ResponseStarted { .. }, AgentEvent::ToolCall(call), AgentEvent::ResponseDone { .. }] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((call.id.as_str(), call.name.as_str(), call.arguments.as_str()), ("call_1", "look_up", "{\"a\":1}"));
    let expected =
        json!({ "type": "FunctionCallResponse", "id": "call_1", "name": "look_up", "content": "{\"ok\":true}" });
    assert_eq!(talk.tell(result("call_1", "{\"ok\":true}")), [expected]);
    assert_eq!(talk.tell(result("call_1", "{}")), [Value::Null; 0]);
    assert_eq!(talk.tell(result("never made", "{}")), [Value::Null; 0]);
}

#[test]
fn a_call_that_was_taken_back_is_not_answered() {
    let mut talk = Talk::ready();
    talk.call("call_1", "look_up");
    let functions = json!([{ "id": "call_1", "name": "look_up" }]);
    let (events, _) = talk.hear(json!({ "type": "FunctionCallCancelled", "functions": functions }));
    assert_eq!(events, [AgentEvent::ToolCallCancelled { call_id: "call_1".into() }]);
    assert_eq!(talk.tell(result("call_1", "{}")), [Value::Null; 0]);
}

#[test]
fn more_calls_than_an_answer_can_need_are_not_run_but_seen() {
    let mut talk = Talk::ready();
    let call = |n| json!({ "id": format!("call_{n}"), "name": "look_up", "arguments": "{}", "client_side": true });
    let functions: Vec<Value> = (0..40).map(call).collect();
    let (events, _) = talk.hear(json!({ "type": "FunctionCallRequest", "functions": functions }));
    let count = |f: fn(&&AgentEvent) -> bool| events.iter().filter(f).count();
    assert_eq!(count(|event| matches!(event, AgentEvent::ToolCall(_))), 32);
    assert_eq!(count(|event| matches!(event, AgentEvent::Noise(Noise::Malformed))), 8);
}

#[test]
fn audio_that_comes_after_an_interruption_belongs_to_what_was_cut_off() {
    let mut talk = Talk::ready();
    talk.kind("AgentStartedSpeaking");
    assert_eq!(responses(&talk.audio()), ["r1"]);
    let (events, replies) = talk.kind("UserStartedSpeaking");
    let cancelled = AgentEvent::ResponseDone { response: "r1".into(), status: ResponseStatus::Cancelled };
    assert_eq!(events, [AgentEvent::CallerSpeechStarted { utterance: None }, cancelled]);
    assert!(replies.is_empty());
    assert_eq!(responses(&talk.audio()), ["r1"]);
    talk.hear(json!({ "type": "ConversationText", "role": "user", "content": "Wait." }));
    assert_eq!(responses(&talk.audio()), ["r2"]);
}

#[test]
fn the_caller_has_stopped_when_their_words_come_or_the_agent_answers() {
    for message in [
        json!({ "type": "ConversationText", "role": "user", "content": "Yes." }),
        json!({ "type": "AgentThinking", "content": "" }),
        json!({ "type": "AgentStartedSpeaking" }),
    ] {
        let mut talk = Talk::ready();
        talk.kind("UserStartedSpeaking");
        let (events, _) = talk.hear(message.clone());
        assert_eq!(events[0], AgentEvent::CallerSpeechStopped, "{message}");
        let (again, _) = talk.hear(message);
        assert!(!again.contains(&AgentEvent::CallerSpeechStopped));
    }
    let mut talk = Talk::ready();
    talk.kind("UserStartedSpeaking");
    let text = json!({ "type": "ConversationText", "role": "user", "content": "Yes." });
    let said = AgentEvent::Transcript { speaker: Speaker::Caller, text: "Yes.".into(), utterance: None };
    assert_eq!(talk.hear(text).0, [AgentEvent::CallerSpeechStopped, said]);
}

#[test]
fn caller_audio_is_sent_as_it_is() {
    let messages = Talk::ready().tell(AgentCommand::Audio(Bytes::from_static(&[0xff, 0x7f])));
    assert_eq!(messages, [json!({ "binary": [0xff, 0x7f] })]);
}

#[test]
fn errors_closes_and_refusals_are_told_apart() {
    let mut talk = Talk::ready();
    for (code, loss) in [
        ("UNPARSABLE_CLIENT_MESSAGE", AgentLoss::Protocol),
        ("USER_AUDIO_FORMAT", AgentLoss::Protocol),
        ("INTERNAL_SERVER_ERROR", AgentLoss::Closed),
        ("ASR_PAYMENT_REQUIRED", AgentLoss::Quota),
        ("TOO_MANY_REQUESTS", AgentLoss::Throttled),
        ("anything new", AgentLoss::Closed),
    ] {
        let (events, _) = talk.hear(json!({ "type": "Error", "code": code, "description": "" }));
        assert_eq!(events, [AgentEvent::Lost(loss)], "{code}");
    }
    assert_eq!(talk.0.closed(Some(1_011), ""), AgentLoss::Closed);
    assert_eq!(talk.0.closed(None, ""), AgentLoss::Closed);
    assert_eq!(talk.0.closed(Some(1_008), ""), AgentLoss::Protocol);
    assert_eq!(talk.0.refused(401), AgentLoss::Unauthorized);
    assert_eq!(talk.0.refused(402), AgentLoss::Quota);
    assert_eq!(talk.0.refused(404), AgentLoss::NotFound);
    assert_eq!(talk.0.refused(429), AgentLoss::Throttled);
    assert_eq!(talk.0.refused(500), AgentLoss::Unreachable);
}

/// Whoever owns the turns finds their ends, and nobody else does.
#[test]
fn a_listener_that_is_told_the_end_of_turns_finds_none_itself() {
    let listener = |options: &Value, told_turns: bool| {
        let setup = AgentSetup { told_turns, ..talk::setup(Dialect::Deepgram, "transfer", Format::ULAW) };
        let mut codec = build("deepgram_agent", options).unwrap().remote().codec(&setup);
        talk::open(&mut *codec).remove(0)["agent"]["listen"]["provider"].take()
    };
    let flux = json!({
        "version": "v2", "eot_threshold": 0.8, "eager_eot_threshold": 0.5, "eot_timeout_ms": 4000, "keyterms": ["Offhook"],
    });
    let options = json!({ "api_key": "k", "listen": flux });
    let own = json!({ "type": "deepgram", "model": "flux-general-en" });
    let with = |more: Value| {
        let mut own = own.clone();
        own.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        own
    };
    assert_eq!(listener(&options, false), with(flux));
    let told = json!({ "version": "v2", "eot_threshold": 1.0, "eot_timeout_ms": 60_000, "keyterms": ["Offhook"] });
    assert_eq!(listener(&options, true), with(told));
}

#[test]
fn only_flux_is_told_turns() {
    for (listen, takes_turns) in [(json!({ "version": "v1" }), false), (json!({ "version": "v2" }), true)] {
        let provider = build("deepgram_agent", &json!({ "api_key": "k", "listen": listen })).unwrap();
        assert_eq!(provider.traits().takes_turns, takes_turns);
        assert_eq!(provider.traits().end_found_max.is_zero(), !takes_turns);
    }
}

#[test]
fn the_end_of_a_turn_is_told_once_and_again_to_a_vendor_that_had_not_found_its_beginning() {
    let end = [json!({ "type": "ForceEndTurn" })];
    let mut talk = Talk::told_turns();
    assert_eq!(talk.turn(CallerTurn::Began), [] as [Value; 0]);
    talk.kind("UserStartedSpeaking");
    assert_eq!(talk.turn(CallerTurn::Ended), end);
    talk.kind("AgentThinking");
    // The next one is so short that it is over before it is found.
    talk.turn(CallerTurn::Began);
    assert_eq!(talk.turn(CallerTurn::Ended), end);
    assert_eq!(talk.kind("UserStartedSpeaking").1, end);
    assert_eq!(talk.kind("UserStartedSpeaking").1, [] as [Value; 0]);
    // One that was never found, and another one: the end of the first is not the second's.
    talk.turn(CallerTurn::Ended);
    talk.turn(CallerTurn::Began);
    assert_eq!(talk.kind("UserStartedSpeaking").1, [] as [Value; 0]);
}

/// A server that finds an end although it is kept from that: its answer is to all that was said.
#[test]
fn the_end_of_a_turn_that_is_answered_already_is_not_told() {
    let end = [json!({ "type": "ForceEndTurn" })];
    let words = json!({ "type": "ConversationText", "role": "user", "content": "Good morning." });
    let mut talk = Talk::told_turns();
    let answers = |talk: &mut Talk| {
        talk.turn(CallerTurn::Began);
        talk.kind("UserStartedSpeaking");
        talk.hear(words.clone());
        talk.kind("AgentStartedSpeaking");
    };
    answers(&mut talk);
    assert_eq!(talk.turn(CallerTurn::Ended), [] as [Value; 0]);
    // The caller goes on, so that the answer is not heard.
    answers(&mut talk);
    talk.kind("UserStartedSpeaking");
    assert_eq!(talk.turn(CallerTurn::Ended), end);
}

/// Its own detection is off, so it would hear the whole call as one turn.
#[test]
fn a_server_that_cannot_be_told_turns_is_not_used_where_it_has_to_be() {
    let warning = json!({ "type": "Warning", "code": "FORCE_END_TURN_UNSUPPORTED", "description": "" });
    for (mut talk, meant) in [
        (Talk::told_turns(), AgentEvent::Lost(AgentLoss::Handshake)),
        (Talk::ready(), AgentEvent::Noise(Noise::HarmlessError)),
    ] {
        assert_eq!(talk.hear(warning.clone()).0, [meant]);
    }
}

#[test]
fn a_vendor_that_owns_the_turns_is_told_none() {
    let mut talk = Talk::ready();
    talk.turn(CallerTurn::Began);
    assert_eq!(talk.turn(CallerTurn::Ended), [] as [Value; 0]);
    assert_eq!(talk.kind("UserStartedSpeaking").1, [] as [Value; 0]);
}

#[test]
fn a_silent_session_is_kept_alive_within_the_vendors_time() {
    for (leg, bytes, byte) in [(Format::ULAW, 800, 0xff), (Format::ALAW, 800, 0xd5), (Format::SLIN16, 3_200, 0)] {
        let (after, wires) = Talk::new(&json!({ "api_key": "k" }), leg).0.keep_alive().unwrap();
        let silence = json!({ "binary": vec![byte; bytes] });
        let alive = vec![json!({ "type": "KeepAlive" }), silence];
        assert_eq!((after, talk::values(wires)), (Duration::from_secs(8), alive), "{leg}: 100 ms");
    }
}

#[test]
fn all_mistakes_in_the_options_are_found_at_once() {
    let options = json!({
        "api_key": "", "base_url": "https://agent.deepgram.com", "think": { "provider": "groq", "model": "no model" },
        "listen": { "version": "v2", "language_hints": ["de"], "eot_threshold": 0.2 },
        "speak": { "type": "eleven_labs", "model_id": "m", "endpoint": { "url": "http://nearby" } },
    });
    let problems = (KIND.check)(&options);
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    let expected = [
        "api_key",
        "base_url",
        "listen.eot_threshold",
        "listen.language_hints",
        "think.model",
        "think.endpoint",
        "speak.endpoint.url",
    ];
    assert_eq!(paths, expected);
    assert_eq!((KIND.check)(&json!({ "api_key": "k" })), []);
    assert_eq!((KIND.check)(&json!({ "api_key": "k", "lisen": {} })).len(), 1);
}

#[test]
fn the_schema_accepts_what_the_options_accept_and_refuses_unknown_keys() {
    let schema = jsonschema::validator_for(&(KIND.schema)()).unwrap();
    let good = json!({
        "api_key": "k", "listen": { "version": "v1", "language": "multi", "smart_format": true },
        "speak": { "type": "cartesia", "model_id": "sonic-2", "voice_id": "v", "endpoint": { "url": "https://a.b" } },
    });
    assert!(schema.is_valid(&good));
    assert_eq!((KIND.check)(&good), []);
    assert!(!schema.is_valid(&json!({ "api_key": "k", "lisen": {} })));
    assert!(!schema.is_valid(&json!({ "api_key": "k", "listen": { "version": "v1", "eot_threshold": 0.7 } })));
}

#[test]
fn the_key_is_in_the_header_alone() {
    let provider = build("deepgram_agent", &json!({ "api_key": "dg-secret" })).unwrap();
    let Dial::WebSocket(dial) = provider.remote().dial(&AgentSetup::new(CallId::random(), Format::ULAW)) else {
        panic!()
    };
    assert!(!format!("{dial:?}").contains("dg-secret"));
    assert_eq!(dial.headers[0].1.expose_secret(), "Token dg-secret");
    assert_eq!(dial.url, "wss://agent.deepgram.com/v1/agent/converse");
}
