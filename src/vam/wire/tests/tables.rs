//! The tables of the specification, as it has them, and the descriptors of the .proto files written in the same words.

use super::super::DESCRIPTORS;
use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

/// Fields as `number name type`; the members of a oneof have a bar in front.
const MESSAGES: &str = "\
ActionRequestEnvelope: 1 session_id string, 2 call_id string, 3 turn_id string, 4 source ActionSource, 5 tool_call McpToolCall, 6 timeout_ms uint32, 7 fire_and_forget bool, 8 dispatched_at Timestamp
ActionResultEnvelope: 1 session_id string, 2 call_id string, 3 status ActionStatus, 4 result McpToolResult, 5 error_message string, 6 execution_ms uint32, 7 completed_at Timestamp
ActionServerManifest: 1 server_id string, 2 display_name string, 3 endpoint_uri string, 4 version string, 5 tools repeated ToolDeclaration, 6 data_residency string, 7 registered_at Timestamp
ActionServerRegistrationResponse: 1 success bool, 2 server_id string, 3 message string, 4 registered_tools repeated string, 5 rejected_tools repeated string, 6 registered_at Timestamp
AudioChunk: 1 session_id string, 2 sequence_number uint64, 3 audio_bytes bytes, 4 codec AudioCodec, 5 vad_hint VadSignal, 6 offset_ms uint64, 7 captured_at Timestamp
AudioProfile: 1 codec AudioCodec, 2 sample_rate uint32, 3 channels uint32, 4 bitrate_kbps uint32
ClientStreamMessage: 1 |audio_chunk AudioChunk, 2 |synthesis_request SynthesisRequest, 3 |action_result_payload bytes
CodeSwitchSpan: 1 start_char uint32, 2 end_char uint32, 3 language_bcp47 string, 4 confidence float
DeregisterActionServerRequest: 1 server_id string
DeregisterActionServerResponse: 1 success bool, 2 message string
GatewayStreamMessage: 1 |transcript_event TranscriptEvent, 2 |turn_signal TurnSignal, 3 |synthesis_chunk SynthesisChunk, 4 |stream_error StreamError, 5 |action_request_payload bytes
LanguageHint: 1 bcp47_code string, 2 confidence float
ListActionServersRequest: 1 tool_name_filter string
ListActionServersResponse: 1 servers repeated ActionServerManifest
McpContent: 1 type string, 2 text string, 3 data string, 4 mime_type string, 5 resource_uri string
McpToolCall: 1 tool_name string, 2 arguments Struct
McpToolResult: 1 is_error bool, 2 content repeated McpContent
ModelPreference: 1 backends repeated ModelBackend, 2 custom_backend_uri string
ModelPreferences: 1 asr ModelPreference, 2 llm ModelPreference, 3 tts ModelPreference, 4 nmt ModelPreference
SessionCapabilities: 1 code_switch_detection bool, 2 dialect_routing bool, 3 speaker_diarization bool, 4 action_execution bool, 5 transliteration_output bool, 6 continuous_vad bool, 7 noise_suppression bool, 8 streaming_tts bool
SessionEndNotice: 1 session_id string, 2 reason SessionEndReason, 3 message string, 4 audio_seconds_processed float, 5 timestamp Timestamp
SessionInitRequest: 1 session_id string, 2 caller_id string, 3 language_hints repeated LanguageHint, 4 script_preference ScriptPreference, 5 audio_profile AudioProfile, 6 model_preferences ModelPreferences, 7 data_residency DataResidency, 8 requested_capabilities SessionCapabilities, 9 auth_token string, 10 metadata map<string,string>, 11 client_timestamp Timestamp
SessionInitResponse: 1 session_id string, 2 status SessionStatus, 3 status_message string, 4 negotiated_audio_profile AudioProfile, 5 negotiated_capabilities SessionCapabilities, 6 primary_language_bcp47 string, 7 supported_languages_bcp47 repeated string, 8 resolved_backends ModelPreferences, 9 stream_endpoint string, 10 session_ttl_seconds uint32, 11 gateway_timestamp Timestamp, 12 degraded_capabilities repeated string
StreamError: 1 session_id string, 2 code StreamErrorCode, 3 message string, 4 is_fatal bool, 5 stage string, 6 timestamp Timestamp
SynthesisChunk: 1 session_id string, 2 request_id string, 3 chunk_index uint64, 4 audio_bytes bytes, 5 codec AudioCodec, 6 is_final bool, 7 duration_ms uint64, 8 emitted_at Timestamp
SynthesisRequest: 1 session_id string, 2 request_id string, 3 text string, 4 language_bcp47 string, 5 voice_id string, 6 speaking_rate float, 7 pitch float, 8 output_codec AudioCodec
ToolDeclaration: 1 name string, 2 description string, 3 is_registry_tool bool, 4 registry_key string
TranscriptEvent: 1 session_id string, 2 utterance_id string, 3 type TranscriptType, 4 text string, 5 text_roman string, 6 detected_language_bcp47 string, 7 detected_script string, 8 confidence float, 9 code_switch_spans repeated CodeSwitchSpan, 10 dialect_tag string, 11 start_offset_ms uint64, 12 end_offset_ms uint64, 13 word_timings repeated WordTiming, 14 emitted_at Timestamp
TurnSignal: 1 session_id string, 2 event TurnEvent, 3 turn_id string, 4 elapsed_ms uint64, 5 timestamp Timestamp
WordTiming: 1 word string, 2 start_ms uint64, 3 end_ms uint64, 4 confidence float, 5 speaker_label string
";

/// Values as `number name`, with their prefix where they have it.
const ENUMS: &str = "\
ActionSource: ACTION_SOURCE_ 0 UNSPECIFIED, 1 LLM, 2 GATEWAY, 3 CLIENT
ActionStatus: ACTION_STATUS_ 0 UNSPECIFIED, 1 PENDING, 2 SUCCESS, 3 ERROR, 4 UNSUPPORTED, 5 POLICY_DENY
AudioCodec: AUDIO_CODEC_ 0 UNSPECIFIED, 1 AMR_NB_8K, 2 OPUS_16K, 3 PCM_16K_16, 4 PCM_8K_16
DataResidency: DATA_RESIDENCY_ 0 UNSPECIFIED, 1 INDIA_ONLY, 2 ANY, 3 ON_PREM
LanguageTier: LANGUAGE_TIER_ 0 UNSPECIFIED, 1 1, 2 2, 3 3
ModelBackend: MODEL_BACKEND_ 0 UNSPECIFIED, 1 SARVAM, 2 AI4BHARAT, 3 BHASHINI, 4 AZURE, 5 GOOGLE, 6 CUSTOM
ScriptPreference: SCRIPT_ 0 PREFERENCE_UNSPECIFIED, 1 NATIVE, 2 ROMAN, 3 BOTH
SessionEndReason: SESSION_END_REASON_ 0 UNSPECIFIED, 1 CLIENT_HUNG_UP, 2 TIMEOUT, 3 PROTOCOL_ERROR, 4 BACKEND_ERROR, 5 RATE_LIMITED, 6 POLICY_VIOLATION
SessionStatus: SESSION_STATUS_ 0 UNSPECIFIED, 1 OK, 2 DEGRADED, 3 REJECTED, 4 LANGUAGE_UNSUPPORTED, 5 CODEC_UNSUPPORTED, 6 DATA_RESIDENCY_VIOLATION, 7 RATE_LIMITED, 8 AUTH_FAILED
StreamErrorCode: STREAM_ERROR_CODE_ 0 UNSPECIFIED, 1 ASR_BACKEND_TIMEOUT, 2 ASR_BACKEND_ERROR, 3 LLM_BACKEND_TIMEOUT, 4 LLM_BACKEND_ERROR, 5 TTS_BACKEND_TIMEOUT, 6 TTS_BACKEND_ERROR, 7 AUDIO_CORRUPT, 8 UNSUPPORTED_LANGUAGE, 9 RATE_LIMITED, 10 SESSION_EXPIRED
TranscriptType: TRANSCRIPT_TYPE_ 0 UNSPECIFIED, 1 PARTIAL, 2 FINAL
TurnEvent: TURN_EVENT_ 0 UNSPECIFIED, 1 IDLE, 2 LISTENING, 3 THINKING, 4 SPEAKING, 5 INTERRUPTED, 6 END_OF_TURN, 7 ERROR
VadSignal: VAD_SIGNAL_ 0 UNSPECIFIED, 1 VOICED, 2 UNVOICED, 3 END_OF_SPEECH
";

const METHODS: &str = "\
/vani.v1.VaniActionService/DeregisterActionServer DeregisterActionServerRequest DeregisterActionServerResponse
/vani.v1.VaniActionService/ListActionServers ListActionServersRequest ListActionServersResponse
/vani.v1.VaniActionService/RegisterActionServer ActionServerManifest ActionServerRegistrationResponse
/vani.v1.VaniSessionService/EndSession SessionEndNotice SessionEndNotice
/vani.v1.VaniSessionService/InitSession SessionInitRequest SessionInitResponse
/vani.v1.VaniStreamService/AgentStream stream ClientStreamMessage stream GatewayStreamMessage
";

/// What is written in the .proto files, without what they import.
fn files() -> Vec<prost_types::FileDescriptorProto> {
    let mut set = FileDescriptorSet::decode(DESCRIPTORS).unwrap().file;
    set.retain(|file| file.package() == "vani.v1");
    assert!(set.iter().all(|file| file.syntax() == "proto3"));
    let mut names: Vec<&str> = set.iter().map(|file| file.name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["vani/v1/action.proto", "vani/v1/session.proto", "vani/v1/stream.proto"]);
    set
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap()
}

fn kind(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let name = match field.r#type() {
        Type::String => "string",
        Type::Bytes => "bytes",
        Type::Bool => "bool",
        Type::Float => "float",
        Type::Uint32 => "uint32",
        Type::Uint64 => "uint64",
        Type::Message | Type::Enum => last(field.type_name()),
        other => other.as_str_name(),
    };
    let entry = message.nested_type.iter().find(|nested| nested.name() == name);
    if let Some(entry) = entry.filter(|entry| entry.options.as_ref().is_some_and(|options| options.map_entry())) {
        let of = |index: usize| kind(entry, &entry.field[index]);
        return format!("map<{},{}>", of(0), of(1));
    }
    if field.label() == Label::Repeated { format!("repeated {name}") } else { name.to_owned() }
}

fn of_message(message: &DescriptorProto) -> String {
    let mut fields: Vec<&FieldDescriptorProto> = message.field.iter().collect();
    fields.sort_by_key(|field| field.number());
    let written = fields.into_iter().map(|field| {
        let bar = if field.oneof_index.is_some() { "|" } else { "" };
        format!("{} {bar}{} {}", field.number(), field.name(), kind(message, field))
    });
    format!("{}: {}\n", message.name(), written.collect::<Vec<_>>().join(", "))
}

fn of_enum(of: &EnumDescriptorProto, prefix: &str) -> String {
    let value = |value: &prost_types::EnumValueDescriptorProto| {
        let name = value.name().strip_prefix(prefix).unwrap_or_else(|| panic!("{} has no {prefix}", value.name()));
        format!("{} {name}", value.number())
    };
    format!("{}: {prefix} {}\n", of.name(), of.value.iter().map(value).collect::<Vec<_>>().join(", "))
}

fn of_service(service: &ServiceDescriptorProto) -> impl Iterator<Item = String> {
    let word = |streams: bool| if streams { "stream " } else { "" };
    service.method.iter().map(move |method| {
        let (asks, answers) = (word(method.client_streaming()), word(method.server_streaming()));
        let (input, output) = (last(method.input_type()), last(method.output_type()));
        format!("/vani.v1.{}/{} {asks}{input} {answers}{output}\n", service.name(), method.name())
    })
}

fn sorted(mut lines: Vec<String>) -> String {
    lines.sort();
    lines.concat()
}

/// V38: no message and no field more or less than the specification has, each with its number, its name and its type.
#[test]
fn every_message_and_field_is_that_of_the_specification() {
    let files = files();
    let messages = files.iter().flat_map(|file| &file.message_type);
    assert_eq!(sorted(messages.map(of_message).collect()), MESSAGES);
}

/// V38: every value of every enumeration, with its number and its name.
#[test]
fn every_value_of_every_enumeration_is_that_of_the_specification() {
    let files = files();
    let prefix = |name: &str| {
        let line =
            ENUMS.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("NOT_SPECIFIED");
        line.split(' ').next().unwrap_or_default().to_owned()
    };
    let enums = files.iter().flat_map(|file| &file.enum_type);
    assert_eq!(sorted(enums.map(|of| of_enum(of, &prefix(of.name()))).collect()), ENUMS);
    assert!(files.iter().flat_map(|file| &file.message_type).all(|message| message.enum_type.is_empty()));
}

/// V38: and the paths that go on the wire.
#[test]
fn every_method_is_that_of_the_specification() {
    let files = files();
    let methods = files.iter().flat_map(|file| &file.service).flat_map(of_service);
    assert_eq!(sorted(methods.collect()), METHODS);
}
