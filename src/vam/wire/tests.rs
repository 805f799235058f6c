//! The bytes of each message, held against its table of fields: number, kind and content, written by hand. A number that is
//! wrong in the .proto file is found here, which a round trip would not.

use super::*;
use bytes::Bytes;
use prost::Message;
use serde_json::json;

mod tables;

/// Fields in the protobuf encoding <https://protobuf.dev/programming-guides/encoding/>, without any generated code.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Also enums and booleans.
    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// Also strings and messages.
    fn bytes(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.as_ref().len() as u64);
        self.0.extend_from_slice(value.as_ref());
        self
    }

    fn float(mut self, field: u64, value: f32) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
}

impl AsRef<[u8]> for Fields {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn f() -> Fields {
    Fields::default()
}

fn time(seconds: i64) -> (Option<prost_types::Timestamp>, Fields) {
    (Some(prost_types::Timestamp { seconds, nanos: 5 }), f().number(1, seconds as u64).number(2, 5))
}

/// Written as it should be, and read back as the same.
#[track_caller]
fn holds<M: Message + Default + PartialEq>(message: M, fields: Fields) {
    assert_eq!(message.encode_to_vec(), fields.0);
    assert!(M::decode(&fields.0[..]).unwrap() == message);
}

/// V38: each field has its number and its kind.
#[test]
fn actions_are_written_as_specified() {
    let (at, at_bytes) = time(1_700_000_000);
    let arguments = to_struct(json!({ "crop": "wheat" }).as_object().unwrap());
    let call = McpToolCall { tool_name: "enam_mandi_price".into(), arguments: Some(arguments) };
    let entry = f().bytes(1, "crop").bytes(2, f().bytes(3, "wheat"));
    let call_bytes = || f().bytes(1, "enam_mandi_price").bytes(2, f().bytes(1, &entry));
    holds(call.clone(), call_bytes());
    holds(
        ActionRequestEnvelope {
            session_id: "s".into(),
            call_id: "c".into(),
            turn_id: "t".into(),
            source: ActionSource::Llm.into(),
            tool_call: Some(call),
            timeout_ms: 5000,
            fire_and_forget: true,
            dispatched_at: at,
        },
        f().bytes(1, "s")
            .bytes(2, "c")
            .bytes(3, "t")
            .number(4, 1)
            .bytes(5, call_bytes())
            .number(6, 5000)
            .number(7, 1)
            .bytes(8, &at_bytes),
    );
    let content = McpContent {
        r#type: "text".into(),
        text: "42".into(),
        data: "AA==".into(),
        mime_type: "image/png".into(),
        resource_uri: "file:x".into(),
    };
    let content_bytes = f().bytes(1, "text").bytes(2, "42").bytes(3, "AA==").bytes(4, "image/png").bytes(5, "file:x");
    let result = McpToolResult { is_error: true, content: vec![content] };
    let result_bytes = f().number(1, 1).bytes(2, content_bytes);
    holds(
        ActionResultEnvelope {
            session_id: "s".into(),
            call_id: "c".into(),
            status: ActionStatus::PolicyDeny.into(),
            result: Some(result),
            error_message: "e".into(),
            execution_ms: 7,
            completed_at: at,
        },
        f().bytes(1, "s")
            .bytes(2, "c")
            .number(3, 5)
            .bytes(4, result_bytes)
            .bytes(5, "e")
            .number(6, 7)
            .bytes(7, at_bytes),
    );
}

/// V38: each field has its number and its kind.
#[test]
fn registrations_are_written_as_specified() {
    let (at, at_bytes) = time(9);
    let tool = ToolDeclaration {
        name: "n".into(),
        description: "d".into(),
        is_registry_tool: true,
        registry_key: "pan_validate".into(),
    };
    let tool_bytes = f().bytes(1, "n").bytes(2, "d").number(3, 1).bytes(4, "pan_validate");
    let manifest = ActionServerManifest {
        server_id: "id".into(),
        display_name: "name".into(),
        endpoint_uri: "https://mcp.example/mcp".into(),
        version: "1.0.0".into(),
        tools: vec![tool],
        data_residency: "IN_ONLY".into(),
        registered_at: at,
    };
    let manifest_bytes = || {
        let texts = f().bytes(1, "id").bytes(2, "name").bytes(3, "https://mcp.example/mcp").bytes(4, "1.0.0");
        texts.bytes(5, &tool_bytes).bytes(6, "IN_ONLY").bytes(7, &at_bytes)
    };
    holds(manifest.clone(), manifest_bytes());
    holds(ListActionServersResponse { servers: vec![manifest] }, f().bytes(1, manifest_bytes()));
    holds(ListActionServersRequest { tool_name_filter: "t".into() }, f().bytes(1, "t"));
    holds(DeregisterActionServerRequest { server_id: "id".into() }, f().bytes(1, "id"));
    holds(DeregisterActionServerResponse { success: true, message: "m".into() }, f().number(1, 1).bytes(2, "m"));
    holds(
        ActionServerRegistrationResponse {
            success: true,
            server_id: "id".into(),
            message: "m".into(),
            registered_tools: vec!["a".into(), "b".into()],
            rejected_tools: vec!["c".into()],
            registered_at: at,
        },
        f().number(1, 1).bytes(2, "id").bytes(3, "m").bytes(4, "a").bytes(4, "b").bytes(5, "c").bytes(6, &at_bytes),
    );
}

/// V38: each field has its number and its kind.
#[test]
fn sessions_are_written_as_specified() {
    let (at, at_bytes) = time(-1);
    let hint = LanguageHint { bcp47_code: "hi-IN".into(), confidence: 0.5 };
    let profile =
        AudioProfile { codec: AudioCodec::Opus16k.into(), sample_rate: 16_000, channels: 1, bitrate_kbps: 32 };
    let profile_bytes = || f().number(1, 2).number(2, 16_000).number(3, 1).number(4, 32);
    let backends = vec![ModelBackend::Google.into(), ModelBackend::Custom.into()];
    let preference = ModelPreference { backends, custom_backend_uri: "u".into() };
    // Repeated numbers are packed.
    let preference_bytes = || f().bytes(1, [5, 6]).bytes(2, "u");
    let preferences = ModelPreferences {
        asr: Some(preference.clone()),
        llm: Some(preference.clone()),
        tts: Some(preference.clone()),
        nmt: Some(preference),
    };
    let preferences_bytes = || (1..=4).fold(f(), |fields, field| fields.bytes(field, preference_bytes()));
    let capabilities = SessionCapabilities {
        code_switch_detection: true,
        dialect_routing: true,
        speaker_diarization: true,
        action_execution: true,
        transliteration_output: true,
        continuous_vad: true,
        noise_suppression: true,
        streaming_tts: true,
    };
    let capabilities_bytes = || (1..=8).fold(f(), |fields, field| fields.number(field, 1));
    let request = SessionInitRequest {
        session_id: "s".into(),
        caller_id: "+4930".into(),
        language_hints: vec![hint],
        script_preference: ScriptPreference::ScriptBoth.into(),
        audio_profile: Some(profile),
        model_preferences: Some(preferences.clone()),
        data_residency: DataResidency::OnPrem.into(),
        requested_capabilities: Some(capabilities),
        auth_token: "k".into(),
        metadata: [("context".to_owned(), "sales".to_owned())].into(),
        client_timestamp: at,
    };
    let texts = f().bytes(1, "s").bytes(2, "+4930").bytes(3, f().bytes(1, "hi-IN").float(2, 0.5)).number(4, 3);
    let wishes =
        texts.bytes(5, profile_bytes()).bytes(6, preferences_bytes()).number(7, 3).bytes(8, capabilities_bytes());
    holds(request, wishes.bytes(9, "k").bytes(10, f().bytes(1, "context").bytes(2, "sales")).bytes(11, &at_bytes));
    let response = SessionInitResponse {
        session_id: "s".into(),
        status: SessionStatus::AuthFailed.into(),
        status_message: "m".into(),
        negotiated_audio_profile: Some(profile),
        negotiated_capabilities: Some(capabilities),
        primary_language_bcp47: "hi-IN".into(),
        supported_languages_bcp47: vec!["hi-IN".into()],
        resolved_backends: Some(preferences),
        stream_endpoint: "e".into(),
        session_ttl_seconds: 600,
        gateway_timestamp: at,
        degraded_capabilities: vec!["x".into()],
    };
    let first = f().bytes(1, "s").number(2, 8).bytes(3, "m").bytes(4, profile_bytes()).bytes(5, capabilities_bytes());
    let languages = first.bytes(6, "hi-IN").bytes(7, "hi-IN").bytes(8, preferences_bytes());
    holds(response, languages.bytes(9, "e").number(10, 600).bytes(11, &at_bytes).bytes(12, "x"));
    let reason = SessionEndReason::PolicyViolation.into();
    holds(
        SessionEndNotice {
            session_id: "s".into(),
            reason,
            message: "m".into(),
            audio_seconds_processed: 1.5,
            timestamp: at,
        },
        f().bytes(1, "s").number(2, 6).bytes(3, "m").float(4, 1.5).bytes(5, at_bytes),
    );
}

/// V38: each field has its number and its kind.
#[test]
fn streams_are_written_as_specified() {
    use client_stream_message::Payload as FromClient;
    use gateway_stream_message::Payload as FromGateway;
    let (at, at_bytes) = time(3);
    let pcm = AudioCodec::Pcm8k16.into();
    let chunk = AudioChunk {
        session_id: "s".into(),
        sequence_number: 300,
        audio_bytes: Bytes::from_static(&[1, 2]),
        codec: pcm,
        vad_hint: VadSignal::EndOfSpeech.into(),
        offset_ms: 20,
        captured_at: at,
    };
    let chunk_bytes = f().bytes(1, "s").number(2, 300).bytes(3, [1, 2]).number(4, 4).number(5, 3).number(6, 20);
    let message = ClientStreamMessage { payload: Some(FromClient::AudioChunk(chunk)) };
    holds(message, f().bytes(1, chunk_bytes.bytes(7, &at_bytes)));
    let wish = SynthesisRequest {
        session_id: "s".into(),
        request_id: "r".into(),
        text: "t".into(),
        language_bcp47: "hi-IN".into(),
        voice_id: "v".into(),
        speaking_rate: 1.5,
        pitch: -2.0,
        output_codec: pcm,
    };
    let wish_bytes = f().bytes(1, "s").bytes(2, "r").bytes(3, "t").bytes(4, "hi-IN").bytes(5, "v");
    let message = ClientStreamMessage { payload: Some(FromClient::SynthesisRequest(wish)) };
    holds(message, f().bytes(2, wish_bytes.float(6, 1.5).float(7, -2.0).number(8, 4)));
    let result = FromClient::ActionResultPayload(Bytes::from_static(&[9]));
    holds(ClientStreamMessage { payload: Some(result) }, f().bytes(3, [9]));

    let span = CodeSwitchSpan { start_char: 8, end_char: 14, language_bcp47: "en-US".into(), confidence: 0.25 };
    let span_bytes = f().number(1, 8).number(2, 14).bytes(3, "en-US").float(4, 0.25);
    let word = WordTiming { word: "w".into(), start_ms: 1, end_ms: 2, confidence: 0.5, speaker_label: "S".into() };
    let word_bytes = f().bytes(1, "w").number(2, 1).number(3, 2).float(4, 0.5).bytes(5, "S");
    let transcript = TranscriptEvent {
        session_id: "s".into(),
        utterance_id: "u".into(),
        r#type: TranscriptType::Final.into(),
        text: "t".into(),
        text_roman: "r".into(),
        detected_language_bcp47: "hi-IN".into(),
        detected_script: "Devanagari".into(),
        confidence: 0.75,
        code_switch_spans: vec![span],
        dialect_tag: "d".into(),
        start_offset_ms: 1,
        end_offset_ms: 2,
        word_timings: vec![word],
        emitted_at: at,
    };
    let texts = f().bytes(1, "s").bytes(2, "u").number(3, 2).bytes(4, "t").bytes(5, "r").bytes(6, "hi-IN");
    let rest =
        texts.bytes(7, "Devanagari").float(8, 0.75).bytes(9, span_bytes).bytes(10, "d").number(11, 1).number(12, 2);
    let message = GatewayStreamMessage { payload: Some(FromGateway::TranscriptEvent(transcript)) };
    holds(message, f().bytes(1, rest.bytes(13, word_bytes).bytes(14, &at_bytes)));
    let event = TurnEvent::Interrupted.into();
    let signal = TurnSignal { session_id: "s".into(), event, turn_id: "t".into(), elapsed_ms: 4, timestamp: at };
    let signal_bytes = f().bytes(1, "s").number(2, 5).bytes(3, "t").number(4, 4).bytes(5, &at_bytes);
    holds(GatewayStreamMessage { payload: Some(FromGateway::TurnSignal(signal)) }, f().bytes(2, signal_bytes));
    let chunk = SynthesisChunk {
        session_id: "s".into(),
        request_id: "r".into(),
        chunk_index: 2,
        audio_bytes: Bytes::from_static(&[7]),
        codec: pcm,
        is_final: true,
        duration_ms: 20,
        emitted_at: at,
    };
    let chunk_bytes =
        f().bytes(1, "s").bytes(2, "r").number(3, 2).bytes(4, [7]).number(5, 4).number(6, 1).number(7, 20);
    let message = GatewayStreamMessage { payload: Some(FromGateway::SynthesisChunk(chunk)) };
    holds(message, f().bytes(3, chunk_bytes.bytes(8, &at_bytes)));
    let error = StreamError {
        session_id: "s".into(),
        code: StreamErrorCode::LlmBackendError.into(),
        message: "m".into(),
        is_fatal: true,
        stage: "action".into(),
        timestamp: at,
    };
    let error_bytes = f().bytes(1, "s").number(2, 4).bytes(3, "m").number(4, 1).bytes(5, "action").bytes(6, at_bytes);
    holds(GatewayStreamMessage { payload: Some(FromGateway::StreamError(error)) }, f().bytes(4, error_bytes));
    let request = FromGateway::ActionRequestPayload(Bytes::from_static(&[8]));
    holds(GatewayStreamMessage { payload: Some(request) }, f().bytes(5, [8]));
}

#[test]
fn json_survives_a_struct_and_whole_numbers_have_no_fraction() {
    let object = json!({
        "whole": 41, "negative": -7, "fraction": 1.5, "none": null, "yes": true,
        "list": [1, "two", { "three": 3 }], "text": "12345678901234567890",
    });
    let object = object.as_object().unwrap();
    assert_eq!(
        &from_struct(to_struct(object)).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        &object.clone().into_iter().collect::<std::collections::BTreeMap<_, _>>()
    );
    let odd = Struct { fields: [("x".to_owned(), Value { kind: Some(Kind::NumberValue(f64::NAN)) })].into() };
    assert_eq!(from_struct(odd)["x"], json!(null));
}

/// V answer 17: no digit is lost of a whole number of 64 bits.
#[test]
fn a_whole_number_beyond_what_a_double_holds_goes_as_text() {
    let object = json!({
        "exact": 9_007_199_254_740_992_u64, "account": 9_007_199_254_740_993_u64, "least": i64::MIN, "most": u64::MAX,
        "debt": -9_007_199_254_740_993_i64, "list": [[12_345_678_901_234_567_u64]], "far": 1e300,
    });
    assert_eq!(
        Value { kind: Some(Kind::StructValue(to_struct(object.as_object().unwrap()))) },
        Value { kind: Some(Kind::StructValue(to_struct(json!({
            "exact": 9_007_199_254_740_992_f64, "account": "9007199254740993", "least": "-9223372036854775808",
            "most": "18446744073709551615", "debt": "-9007199254740993", "list": [["12345678901234567"]], "far": 1e300,
        }).as_object().unwrap()))) }
    );
}

#[test]
fn what_is_private_is_not_printed() {
    let call = McpToolCall {
        tool_name: "pan_validate".into(),
        arguments: Some(to_struct(json!({ "pan_number": "ABCDE1234F" }).as_object().unwrap())),
    };
    let envelope = ActionRequestEnvelope { tool_call: Some(call), ..Default::default() };
    let request = SessionInitRequest {
        caller_id: "+4930123456".into(),
        auth_token: "very secret".into(),
        metadata: [("to".to_owned(), "+4930123456".to_owned())].into(),
        ..Default::default()
    };
    let heard = TranscriptEvent { text: "my number is ABCDE1234F".into(), ..Default::default() };
    let payload = client_stream_message::Payload::ActionResultPayload(Bytes::from_static(b"ABCDE1234F"));
    let payload = ClientStreamMessage { payload: Some(payload) };
    let printed = format!("{envelope:?} {request:?} {heard:?} {payload:?}");
    for secret in ["ABCDE1234F", "4930123456", "very secret"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}
