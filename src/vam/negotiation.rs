//! What a session gets of what its client asks for: nothing is left out without a word (V answer 5 and the rules of sessions).
//! Pure.

use super::{
    residency,
    serve::Standing,
    wire::{
        AudioCodec, AudioProfile, DataResidency, ModelPreference, SessionCapabilities, SessionInitRequest,
        SessionInitResponse, SessionStatus, now,
    },
};
use crate::{
    audio::{Format, opus},
    config::{Residency, VamSessions, vam::is_language},
    gate::AuthState,
    redact::Redacted,
};
use serde_json::Value;
use url::Url;
use uuid::Uuid;

/// As the specification has it.
const METADATA_MAX: usize = 16;
/// Of a key or a value of the metadata, and of who calls.
const TEXT_BYTES_MAX: usize = 4_096;
/// Of what is kept of who calls.
const CALLER_CHARS_MAX: usize = 64;
/// Names the context that answers.
const CONTEXT: &str = "context";
/// Key with the client's authorization of the caller.
const AUTHORIZATION: &str = "authorization";
/// A list of addresses, as JSON.
const ACTION_SERVERS: &str = "action_servers";
/// Action servers that one session may bring: each is asked while its client waits.
const URIS_MAX: usize = 8;
/// Of those beyond, and of languages that nobody speaks, an answer names so many.
const NAMED_MAX: usize = 8;
/// The specification's last downgrade, which is not had.
const TO_AMR: &str = "audio_codec_downgraded_to_amr";
const NO_AMR: &str = "audio_profile: AMR_NB_8K, which audio_codec_downgraded_to_amr would lead to, is not taken here; PCM of 8 or \
                      16 kHz or Opus of 16 kHz is, with one channel";
const LANGUAGE_HINTS: &str = "language_hints";

/// What a session is held to.
#[derive(Debug, Clone)]
pub struct Agreed {
    pub session_id: String,
    pub context: String,
    pub format: Format,
    pub caller: Redacted<Option<String>>,
    /// Where what is said may go.
    pub residency: Residency,
    /// Authorization of the caller, by a client that is believed.
    pub authorization: Option<AuthState>,
    /// The client runs actions itself.
    pub executes: bool,
    pub(super) codec: AudioCodec,
    /// Action servers that it brings.
    pub(super) uris: Vec<String>,
}

#[cfg(test)]
impl Agreed {
    /// A client that runs actions itself.
    pub fn of_tests(residency: Residency) -> Self {
        Self {
            session_id: Uuid::new_v4().to_string(),
            context: "front".into(),
            format: Format::SLIN8,
            caller: Redacted::new(None),
            residency,
            authorization: None,
            executes: true,
            codec: AudioCodec::Pcm8k16,
            uris: Vec::new(),
        }
    }
}

/// What is known where sessions are agreed upon.
pub(super) struct Surroundings<'a> {
    pub sessions: &'a VamSessions,
    /// The operator's word, below which no session goes.
    pub floor: Residency,
    /// Standing by the token that the client shows; `None`: the token is not known.
    pub standing: Option<Standing>,
    pub knows_context: &'a dyn Fn(&str) -> bool,
}

/// # Errors
/// The answer to a client that gets no session.
pub(super) fn negotiate(
    request: SessionInitRequest,
    around: &Surroundings,
) -> Result<(Agreed, SessionInitResponse), Box<SessionInitResponse>> {
    let session_id = request.session_id.clone();
    let refused = |status: SessionStatus, why: &str| {
        Box::new(SessionInitResponse {
            session_id: session_id.clone(),
            status: status.into(),
            status_message: why.to_owned(),
            gateway_timestamp: Some(now()),
            ..Default::default()
        })
    };
    let Some(standing) = around.standing else {
        return Err(refused(SessionStatus::AuthFailed, "auth_token: is not known"));
    };
    check(&request).map_err(|why| refused(SessionStatus::Rejected, why))?;
    let residency = may_be_here(request.data_residency, around.sessions.hosted);
    let residency = residency.map_err(|why| refused(SessionStatus::DataResidencyViolation, why))?;
    let Some(context) = context(&request, around) else {
        return Err(refused(SessionStatus::Rejected, "metadata.context: names no agent of this gateway"));
    };
    let spoken = codec(request.audio_profile.as_ref());
    let (codec, format) = spoken.map_err(|why| {
        let degraded_capabilities = if why == NO_AMR { vec![TO_AMR.to_owned()] } else { Vec::new() };
        Box::new(SessionInitResponse { degraded_capabilities, ..*refused(SessionStatus::CodecUnsupported, why) })
    })?;
    let mut degraded = Vec::new();
    let primary = language(&request, &around.sessions.languages, &mut degraded);
    let primary = primary.map_err(|why| refused(SessionStatus::LanguageUnsupported, why))?;
    degraded.extend(preferences(&request));
    let capabilities = capabilities(request.requested_capabilities.unwrap_or_default(), &mut degraded);
    let authorization = authorization(&request, standing, &mut degraded);
    let uris = action_servers(request.metadata.get(ACTION_SERVERS).map_or("", String::as_str), &mut degraded);
    let status = if degraded.is_empty() { SessionStatus::Ok } else { SessionStatus::Degraded };
    let caller = Some(request.caller_id.chars().filter(|c| !c.is_control()).take(CALLER_CHARS_MAX).collect::<String>());
    let agreed = Agreed {
        session_id: session_id.clone(),
        context,
        format,
        caller: caller.filter(|caller| !caller.is_empty()).into(),
        // The stricter of both holds.
        residency: residency.max(around.floor),
        authorization,
        executes: capabilities.action_execution,
        uris,
        codec,
    };
    let answer = SessionInitResponse {
        session_id: session_id.clone(),
        status: status.into(),
        status_message: String::new(),
        negotiated_audio_profile: Some(profile(codec, format)),
        negotiated_capabilities: Some(capabilities),
        primary_language_bcp47: primary,
        supported_languages_bcp47: around.sessions.languages.clone(),
        stream_endpoint: around.sessions.stream_endpoint.clone().unwrap_or_default(),
        session_ttl_seconds: u32::try_from(around.sessions.ttl.as_secs()).unwrap_or(u32::MAX),
        gateway_timestamp: Some(now()),
        degraded_capabilities: degraded,
        ..Default::default()
    };
    Ok((agreed, answer))
}

fn check(request: &SessionInitRequest) -> Result<(), &'static str> {
    if !Uuid::parse_str(&request.session_id).is_ok_and(|id| id.get_version_num() == 4) {
        return Err("session_id: has to be a UUID of version 4");
    }
    if request.metadata.len() > METADATA_MAX {
        return Err("metadata: has more than 16 pairs");
    }
    let long = |text: &String| text.len() > TEXT_BYTES_MAX;
    if request.metadata.iter().any(|(key, value)| long(key) || long(value)) || long(&request.caller_id) {
        return Err("metadata, caller_id: a text is longer than 4096 bytes");
    }
    Ok(())
}

/// Whether what is said may come here: without a word it stays in India.
fn may_be_here(asked: i32, hosted: Residency) -> Result<Residency, &'static str> {
    let rule = match DataResidency::try_from(asked) {
        Ok(DataResidency::Any) => Residency::Any,
        Ok(DataResidency::OnPrem) => Residency::OnPrem,
        Ok(DataResidency::IndiaOnly | DataResidency::Unspecified) => Residency::IndiaOnly,
        Err(_) => return Err("data_residency: is not known"),
    };
    let claim = match hosted {
        Residency::Any => residency::Claim::Any,
        Residency::IndiaOnly => residency::Claim::IndiaOnly,
        Residency::OnPrem => residency::Claim::OnPrem,
    };
    if residency::allows(rule, claim, hosted == Residency::OnPrem) {
        return Ok(rule);
    }
    Err("data_residency: this gateway does not promise to keep what is said there")
}

/// Authorization of the caller. A client that is not believed is told that its word does not count.
fn authorization(request: &SessionInitRequest, standing: Standing, degraded: &mut Vec<String>) -> Option<AuthState> {
    let said = request.metadata.get(AUTHORIZATION)?;
    let state = AuthState::parse(said).filter(|state| *state <= AuthState::Validated);
    let believed = state.filter(|_| standing == Standing::Trusted);
    degraded.extend(believed.is_none().then(|| format!("metadata.{AUTHORIZATION}")));
    believed
}

fn context(request: &SessionInitRequest, around: &Surroundings) -> Option<String> {
    let asked = request.metadata.get(CONTEXT).or(around.sessions.context.as_ref())?;
    (around.knows_context)(asked).then(|| asked.clone())
}

/// What is spoken in. The specification lets a gateway fall back from PCM to Opus to AMR; AMR itself is where that ends.
fn codec(profile: Option<&AudioProfile>) -> Result<(AudioCodec, Format), &'static str> {
    const TAKEN: &str = "audio_profile: PCM of 8 or 16 kHz or Opus of 16 kHz is taken, with one channel";
    let Some(profile) = profile else { return Ok((AudioCodec::Pcm16k16, Format::SLIN16)) };
    let (codec, format, rate) = match AudioCodec::try_from(profile.codec).map_err(|_| TAKEN)? {
        AudioCodec::Unspecified | AudioCodec::Pcm16k16 => (AudioCodec::Pcm16k16, Format::SLIN16, 16_000),
        AudioCodec::Pcm8k16 => (AudioCodec::Pcm8k16, Format::SLIN8, 8_000),
        // Decoded and encoded where the stream is: the call has samples.
        AudioCodec::Opus16k => (AudioCodec::Opus16k, Format::SLIN16, 16_000),
        AudioCodec::AmrNb8k => return Err(NO_AMR),
    };
    let fits = matches!(profile.sample_rate, 0) || profile.sample_rate == rate;
    if fits && profile.channels <= 1 { Ok((codec, format)) } else { Err(TAKEN) }
}

/// The first language that is asked for and spoken. What agents speak is the operator's word: where there is none, nobody
/// follows a hint, and the client is told so.
fn language(
    request: &SessionInitRequest,
    spoken: &[String],
    degraded: &mut Vec<String>,
) -> Result<String, &'static str> {
    let asked: Vec<&str> = request.language_hints.iter().map(|hint| hint.bcp47_code.as_str()).collect();
    if spoken.is_empty() {
        degraded.extend((!asked.is_empty()).then(|| LANGUAGE_HINTS.to_owned()));
        return Ok(String::new());
    }
    let found = |asked: &&str| spoken.iter().find(|spoken| spoken.eq_ignore_ascii_case(asked));
    let primary = match asked.iter().find_map(found).or(spoken.first().filter(|_| asked.is_empty())) {
        Some(primary) => primary.clone(),
        None => return Err("language_hints: this gateway's agents speak none of these"),
    };
    let others = asked.into_iter().filter(|asked| found(asked).is_none());
    degraded.extend(others.take(NAMED_MAX).map(|code| match is_language(code) {
        true => format!("{LANGUAGE_HINTS}.{code}"),
        false => LANGUAGE_HINTS.to_owned(),
    }));
    Ok(primary)
}

/// Preferences that nobody follows: which services an agent has is its context's, and its words come as they write them.
fn preferences(request: &SessionInitRequest) -> impl Iterator<Item = String> {
    let models = request.model_preferences.clone().unwrap_or_default();
    let is_asked =
        |of: Option<ModelPreference>| of.is_some_and(|of| !of.backends.is_empty() || !of.custom_backend_uri.is_empty());
    let asked = [
        ("script_preference", request.script_preference != 0),
        ("model_preferences.asr", is_asked(models.asr)),
        ("model_preferences.llm", is_asked(models.llm)),
        ("model_preferences.tts", is_asked(models.tts)),
        ("model_preferences.nmt", is_asked(models.nmt)),
    ];
    asked.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| name.to_owned())
}

fn profile(codec: AudioCodec, format: Format) -> AudioProfile {
    let sample_rate = if format == Format::SLIN8 { 8_000 } else { 16_000 };
    let bits_per_second = if codec == AudioCodec::Opus16k { opus::BITS_PER_SECOND } else { sample_rate * 16 };
    AudioProfile { codec: codec.into(), sample_rate, channels: 1, bitrate_kbps: bits_per_second / 1_000 }
}

/// What is asked for and can be had; what is asked for and cannot is named.
fn capabilities(asked: SessionCapabilities, degraded: &mut Vec<String>) -> SessionCapabilities {
    let lacking = [
        ("code_switch_detection", asked.code_switch_detection),
        ("dialect_routing", asked.dialect_routing),
        ("speaker_diarization", asked.speaker_diarization),
        ("transliteration_output", asked.transliteration_output),
        ("noise_suppression", asked.noise_suppression),
    ];
    degraded.extend(lacking.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| name.to_owned()));
    SessionCapabilities {
        action_execution: asked.action_execution,
        continuous_vad: asked.continuous_vad,
        streaming_tts: asked.streaming_tts,
        ..SessionCapabilities::default()
    }
}

/// The addresses that a session brings: each that is none, and each that is one too many, is named.
fn action_servers(written: &str, degraded: &mut Vec<String>) -> Vec<String> {
    if written.trim().is_empty() {
        return Vec::new();
    }
    let Ok(listed) = serde_json::from_str::<Vec<Value>>(written) else {
        degraded.push(unavailable(""));
        return Vec::new();
    };
    let (taken, rest) = listed.split_at(listed.len().min(URIS_MAX));
    let odd = taken.iter().filter(|uri| !uri.is_string()).chain(rest.iter().take(NAMED_MAX));
    degraded.extend(odd.map(|uri| unavailable(uri.as_str().unwrap_or_default())));
    taken.iter().filter_map(|uri| uri.as_str().map(str::to_owned)).collect()
}

/// How an action server that cannot be had is named: by its host, and never by more of its address.
pub(super) fn unavailable(uri: &str) -> String {
    let host = Url::parse(uri).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    format!("action_server_unavailable:{host}")
}

/// What is not had of what was asked for, in the answer.
pub(super) fn degrade(answer: &mut SessionInitResponse, what: String) {
    answer.status = SessionStatus::Degraded.into();
    answer.degraded_capabilities.push(what);
}

/// Any request for a session, as the bytes of its message, or as the addresses that a right one brings: what is agreed upon is
/// within its limits, and an answer names no more of an address than its host.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    use prost::Message as _;
    let sessions = VamSessions {
        context: Some("front".into()),
        hosted: Residency::IndiaOnly,
        limit: 4,
        ttl: std::time::Duration::from_secs(600),
        stream_endpoint: None,
        languages: vec![],
    };
    let around = Surroundings {
        sessions: &sessions,
        floor: Residency::Any,
        standing: Some(Standing::Known),
        knows_context: &|name| name == "front",
    };
    let brings = SessionInitRequest {
        session_id: Uuid::from_u128(0x1234_5678_1234_4234_9234_1234_5678_9abc).to_string(),
        metadata: [(ACTION_SERVERS.to_owned(), String::from_utf8_lossy(data).into_owned())].into(),
        ..Default::default()
    };
    for request in SessionInitRequest::decode(data).into_iter().chain([brings]) {
        let id = request.session_id.clone();
        match negotiate(request, &around) {
            Ok((agreed, answer)) => {
                assert!(agreed.uris.len() <= URIS_MAX && answer.session_id == id);
                assert!(
                    agreed.caller.reveal().as_ref().is_none_or(|caller| caller.chars().count() <= CALLER_CHARS_MAX)
                );
                let degraded = &answer.degraded_capabilities;
                assert!(degraded.len() <= NAMED_MAX + 9, "{degraded:?}");
                let host = |name: &String| !name.contains(['/', '?', '@', '#']);
                assert!(degraded.iter().all(host), "{degraded:?}");
                assert_eq!(answer.status() == SessionStatus::Ok, degraded.is_empty());
            }
            Err(answer) => assert!(!answer.status_message.is_empty() && answer.status() != SessionStatus::Ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vam::wire::{LanguageHint, ModelBackend, ModelPreferences, ScriptPreference};
    use std::{collections::HashMap, time::Duration};

    fn sessions(hosted: Residency) -> VamSessions {
        VamSessions {
            context: Some("front".into()),
            hosted,
            languages: Vec::new(),
            limit: 4,
            ttl: Duration::from_secs(600),
            stream_endpoint: None,
        }
    }

    fn ask(
        change: impl FnOnce(&mut SessionInitRequest),
    ) -> Result<(Agreed, SessionInitResponse), Box<SessionInitResponse>> {
        let mut request = SessionInitRequest {
            session_id: Uuid::new_v4().to_string(),
            caller_id: "+919876543210".into(),
            ..Default::default()
        };
        change(&mut request);
        asked_where(&["hi-IN", "ta-IN"], request)
    }

    /// In a gateway whose agents speak these.
    fn asked_where(
        spoken: &[&str],
        request: SessionInitRequest,
    ) -> Result<(Agreed, SessionInitResponse), Box<SessionInitResponse>> {
        let languages = spoken.iter().map(|language| (*language).to_owned()).collect();
        let sessions = VamSessions { languages, ..sessions(Residency::IndiaOnly) };
        let knows_context = |name: &str| ["front", "back"].contains(&name);
        let floor = Residency::Any;
        negotiate(
            request,
            &Surroundings {
                sessions: &sessions,
                floor,
                standing: Some(Standing::Known),
                knows_context: &knows_context,
            },
        )
    }

    fn status_of(change: impl FnOnce(&mut SessionInitRequest)) -> SessionStatus {
        match ask(change) {
            Ok((_, answer)) => answer.status(),
            Err(answer) => answer.status(),
        }
    }

    #[test]
    fn a_plain_request_gets_a_session() {
        let (agreed, answer) = ask(|_| {}).unwrap();
        assert_eq!((answer.status(), agreed.context.as_str()), (SessionStatus::Ok, "front"));
        assert_eq!((agreed.codec, agreed.format), (AudioCodec::Pcm16k16, Format::SLIN16));
        assert_eq!(answer.session_ttl_seconds, 600);
        assert!(answer.degraded_capabilities.is_empty());
        assert!(!format!("{agreed:?}").contains("9876543210"));
    }

    /// V27: nothing is left out without a word.
    #[test]
    fn what_is_asked_for_and_cannot_be_had_is_named() {
        let all = SessionCapabilities {
            code_switch_detection: true,
            dialect_routing: true,
            speaker_diarization: true,
            action_execution: true,
            transliteration_output: true,
            continuous_vad: true,
            noise_suppression: true,
            streaming_tts: true,
        };
        let (_, answer) = ask(|request| request.requested_capabilities = Some(all)).unwrap();
        assert_eq!(answer.status(), SessionStatus::Degraded);
        assert_eq!(answer.degraded_capabilities.len(), 5);
        let got = answer.negotiated_capabilities.unwrap();
        assert!(got.continuous_vad && got.streaming_tts && got.action_execution && !got.noise_suppression);
    }

    /// V27: preferences that no agent follows are named like capabilities that are not had, one by one.
    #[test]
    fn preferences_that_are_not_followed_are_named() {
        let prefers = ModelPreference { backends: vec![ModelBackend::Sarvam.into()], ..Default::default() };
        let models = ModelPreferences {
            asr: Some(prefers.clone()),
            tts: Some(ModelPreference { custom_backend_uri: "grpc://tts.example.in".into(), ..Default::default() }),
            nmt: Some(ModelPreference::default()),
            ..Default::default()
        };
        let (_, answer) = ask(|request| {
            request.model_preferences = Some(models);
            request.script_preference = ScriptPreference::ScriptRoman.into();
        })
        .unwrap();
        assert_eq!(answer.status(), SessionStatus::Degraded);
        let named = ["script_preference", "model_preferences.asr", "model_preferences.tts"];
        assert_eq!(answer.degraded_capabilities, named);
        assert_eq!(answer.resolved_backends, None);
    }

    /// V27, V36: the first hint that the operator's agents speak is the session's language, others are named; who asks for none of
    /// theirs is refused. Where the operator says nothing of languages, hints are named as not followed.
    #[test]
    fn language_hints_are_followed_or_named() {
        let hints = |codes: &[&str]| SessionInitRequest {
            session_id: Uuid::new_v4().to_string(),
            language_hints: codes
                .iter()
                .map(|code| LanguageHint { bcp47_code: (*code).to_owned(), confidence: 0.5 })
                .collect(),
            ..Default::default()
        };
        let told = |spoken: &[&str], asked: &[&str]| match asked_where(spoken, hints(asked)) {
            Ok((_, answer)) => (answer.primary_language_bcp47, answer.degraded_capabilities.join(" ")),
            Err(answer) => (answer.status().as_str_name().to_owned(), String::new()),
        };
        let is =
            |told: (String, String), language: &str, named: &str| assert_eq!(told, (language.into(), named.into()));
        is(told(&["hi-IN", "ta-IN"], &[]), "hi-IN", "");
        is(told(&["hi-IN", "ta-IN"], &["ta-in"]), "ta-IN", "");
        is(told(&["hi-IN", "ta-IN"], &["en-US", "ta-IN"]), "ta-IN", "language_hints.en-US");
        is(told(&["hi-IN"], &["hi-IN", "\n no code"]), "hi-IN", "language_hints");
        is(told(&["hi-IN"], &["ja-JP", "ko-KR"]), "SESSION_STATUS_LANGUAGE_UNSUPPORTED", "");
        is(told(&[], &["hi-IN"]), "", "language_hints");
        is(told(&[], &[]), "", "");
    }

    /// V33, V41: AMR alone is not spoken, and nothing is below it that could be fallen back to: it is refused, in the words of the
    /// specification.
    #[test]
    fn codecs_that_are_not_spoken_are_refused() {
        let with = |codec: AudioCodec, sample_rate: u32, channels: u32| {
            let profile = AudioProfile { codec: codec.into(), sample_rate, channels, bitrate_kbps: 0 };
            ask(|request| request.audio_profile = Some(profile)).map(|(agreed, answer)| (agreed.codec, answer))
        };
        assert_eq!(with(AudioCodec::Pcm8k16, 8_000, 1).unwrap().0, AudioCodec::Pcm8k16);
        let (codec, answer) = with(AudioCodec::Opus16k, 16_000, 1).unwrap();
        assert_eq!((codec, answer.status()), (AudioCodec::Opus16k, SessionStatus::Ok));
        assert_eq!(answer.negotiated_audio_profile.unwrap().bitrate_kbps, 24);
        let refused = with(AudioCodec::AmrNb8k, 8_000, 1).unwrap_err();
        assert_eq!(refused.status(), SessionStatus::CodecUnsupported);
        assert!(refused.status_message.contains("audio_codec_downgraded_to_amr"), "{}", refused.status_message);
        assert_eq!(refused.degraded_capabilities, ["audio_codec_downgraded_to_amr"]);
        assert_eq!(refused.negotiated_audio_profile, None);
        for (codec, rate, channels) in [(AudioCodec::Pcm8k16, 16_000, 1), (AudioCodec::Pcm16k16, 16_000, 2)] {
            assert_eq!(with(codec, rate, channels).unwrap_err().status(), SessionStatus::CodecUnsupported);
        }
        assert_eq!(
            status_of(|request| request.audio_profile = Some(AudioProfile { codec: 99, ..Default::default() })),
            SessionStatus::CodecUnsupported
        );
    }

    /// V18, V19, V28: what may not come here is refused at the beginning; without a word it stays in India.
    #[test]
    fn residency_is_decided_before_anything_is_said() {
        let hosted = |hosted: Residency| [0, 1, 2, 3, 9].map(|asked| may_be_here(asked, hosted).is_ok());
        assert_eq!(hosted(Residency::Any), [false, false, true, false, false]);
        assert_eq!(hosted(Residency::IndiaOnly), [true, true, true, false, false]);
        assert_eq!(hosted(Residency::OnPrem), [true, true, true, true, false]);
    }

    /// V19, V45: a session asks for more than the operator's rule, never for less.
    #[test]
    fn of_the_sessions_rule_and_the_operators_the_stricter_holds() {
        use Residency::{Any, IndiaOnly, OnPrem};
        let agreed = |floor: Residency| {
            let sessions = sessions(OnPrem);
            [DataResidency::Any, DataResidency::IndiaOnly, DataResidency::OnPrem].map(|asked| {
                let session_id = Uuid::new_v4().to_string();
                let request = SessionInitRequest { session_id, data_residency: asked.into(), ..Default::default() };
                let around = Surroundings {
                    sessions: &sessions,
                    floor,
                    standing: Some(Standing::Known),
                    knows_context: &|_| true,
                };
                negotiate(request, &around).unwrap().0.residency
            })
        };
        assert_eq!(agreed(Any), [Any, IndiaOnly, OnPrem]);
        assert_eq!(agreed(IndiaOnly), [IndiaOnly, IndiaOnly, OnPrem]);
        assert_eq!(agreed(OnPrem), [OnPrem; 3]);
    }

    /// V40: and what else no session is begun with.
    #[test]
    fn requests_that_cannot_be_right_are_rejected() {
        assert_eq!(status_of(|request| request.session_id = "1".into()), SessionStatus::Rejected);
        assert_eq!(status_of(|request| request.session_id = Uuid::now_v7().to_string()), SessionStatus::Rejected);
        let pairs: HashMap<String, String> = (0..17).map(|n| (n.to_string(), String::new())).collect();
        assert_eq!(status_of(|request| request.metadata = pairs), SessionStatus::Rejected);
        let context = |name: &str| HashMap::from([(CONTEXT.to_owned(), name.to_owned())]);
        assert_eq!(status_of(|request| request.metadata = context("nowhere")), SessionStatus::Rejected);
        assert_eq!(ask(|request| request.metadata = context("back")).unwrap().0.context, "back");
    }

    /// V answer 5: what a session brings is a list of a few addresses; an answer names hosts, never more of an address.
    #[test]
    fn a_session_brings_a_few_addresses() {
        let with = |servers: &str| {
            let metadata = HashMap::from([(ACTION_SERVERS.to_owned(), servers.to_owned())]);
            ask(|request| request.metadata = metadata).map(|(agreed, answer)| (agreed.uris, answer)).unwrap()
        };
        let (uris, answer) = with(r#"["https://a.example.in/mcp"]"#);
        assert_eq!((uris.len(), answer.status()), (1, SessionStatus::Ok));
        let (uris, answer) = with(r#"[7, "https://a.example.in/mcp", null]"#);
        assert_eq!((uris.len(), answer.degraded_capabilities.len()), (1, 2), "one that is none spoils no other");
        let (uris, answer) = with("https://a.example.in/mcp");
        assert_eq!((uris.len(), answer.degraded_capabilities), (0, vec!["action_server_unavailable:".to_owned()]));
        let many: Vec<String> = (0..10).map(|n| format!("https://s{n}.example.in/mcp?key=secret")).collect();
        let (uris, answer) = with(&serde_json::to_string(&many).unwrap());
        assert_eq!(uris.len(), URIS_MAX);
        let named = ["action_server_unavailable:s8.example.in", "action_server_unavailable:s9.example.in"];
        assert_eq!(answer.degraded_capabilities, named);
    }
}
