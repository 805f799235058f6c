//! A client of VAM/1.0 that knows the .proto files only by their descriptors: what it sends and what it is told is JSON, as
//! with `tests/sdk/check_vam.py`, which does the same in Python. It keeps time by the test's clock.

use super::*;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::{Buf as _, BufMut as _, Bytes};
use futures_util::stream;
use offhook::vam::wire::DESCRIPTORS;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, SerializeOptions};
use std::{collections::VecDeque, f64::consts::TAU, sync::LazyLock};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};

const DEADLINE: Duration = Duration::from_secs(60);
const FRAME: Duration = Duration::from_millis(20);

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).unwrap());

/// Messages as the bytes that they are.
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, bytes: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// The bytes of a message of `vani.v1` that is written as JSON.
fn bytes_of(kind: &str, json: &Value) -> Bytes {
    let kind = POOL.get_message_by_name(&format!("vani.v1.{kind}")).unwrap();
    let message = DynamicMessage::deserialize_with_options(kind, json, &DeserializeOptions::new()).unwrap();
    message.encode_to_vec().into()
}

/// JSON with the names of the .proto files, without what is at its default.
fn json_of(kind: &str, bytes: &[u8]) -> Value {
    let kind = POOL.get_message_by_name(&format!("vani.v1.{kind}")).unwrap();
    let message = DynamicMessage::decode(kind, bytes).unwrap();
    let options = SerializeOptions::new().use_proto_field_name(true);
    message.serialize_with_options(serde_json::value::Serializer, &options).unwrap()
}

/// Numbers of 64 bits are texts in JSON.
fn number(value: &Value) -> u64 {
    value.as_str().map_or(value.as_u64(), |text| text.parse().ok()).unwrap_or_default()
}

/// As a client of Python spells it.
fn code(status: &Status) -> String {
    let name = format!("{:?}", status.code());
    let parts = name.char_indices().map(|(at, letter)| {
        let apart = if at > 0 && letter.is_uppercase() { "_" } else { "" };
        format!("{apart}{}", letter.to_uppercase())
    });
    parts.collect()
}

async fn connected(engine: &Engine) -> Grpc<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", engine.grpc_addr().unwrap())).unwrap();
    // The gateway's own limit is what a message meets, not the client's.
    Grpc::new(endpoint.connect().await.unwrap()).max_decoding_message_size(usize::MAX)
}

fn path(service: &str, method: &str) -> PathAndQuery {
    format!("/vani.v1.Vani{service}Service/{method}").parse().unwrap()
}

async fn unary(grpc: &mut Grpc<Channel>, path: PathAndQuery, mut request: Request<Bytes>) -> Result<Bytes, Status> {
    request.set_timeout(DEADLINE);
    grpc.ready().await.unwrap();
    Ok(grpc.unary(request, path, Raw).await?.into_inner())
}

/// What the gateway answers to these requests, one after the other.
pub async fn ask(engine: &Engine, requests: Value) -> Vec<Value> {
    let mut grpc = connected(engine).await;
    let mut told = Vec::new();
    for asked in requests.as_array().unwrap() {
        told.push(match asked["method"].as_str().unwrap() {
            "Converse" => converse(&mut grpc, asked).await,
            method => request(&mut grpc, method, asked).await,
        });
    }
    told
}

async fn request(grpc: &mut Grpc<Channel>, method: &str, asked: &Value) -> Value {
    let (asks, answers) = match method {
        "RegisterActionServer" => ("ActionServerManifest", "ActionServerRegistrationResponse"),
        "DeregisterActionServer" => ("DeregisterActionServerRequest", "DeregisterActionServerResponse"),
        "ListActionServers" => ("ListActionServersRequest", "ListActionServersResponse"),
        other => panic!("no request {other}"),
    };
    let empty = json!({});
    let mut request = Request::new(bytes_of(asks, asked.get("request").unwrap_or(&empty)));
    if let Some(token) = asked["token"].as_str() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    match unary(grpc, path("Action", method), request).await {
        Ok(answer) => json!({ "code": "OK", "answer": json_of(answers, &answer) }),
        Err(status) => json!({ "code": code(&status), "details": status.message() }),
    }
}

/// What the two halves of a conversation tell each other.
#[derive(Default)]
struct Shared {
    spoken: Option<Instant>,
    voiced: Option<Instant>,
    /// What the conversation goes on for has been told.
    satisfied: bool,
    over: bool,
    ended: bool,
    /// Answers to actions, encoded, that are not sent yet.
    results: VecDeque<Bytes>,
    /// What came of the end of the session.
    told: serde_json::Map<String, Value>,
}

/// Says what a conversation says, at the pace of speech.
struct Speaker {
    asked: Value,
    session_id: String,
    codec: Value,
    rate: u64,
    grpc: Grpc<Channel>,
    opened: Instant,
    shared: Arc<Mutex<Shared>>,
    says: mpsc::Sender<Bytes>,
}

impl Speaker {
    fn frames(&self, key: &str) -> usize {
        (self.asked[key].as_f64().unwrap_or_default() * 50.0) as usize
    }

    async fn sends(&self, message: Bytes) {
        // The stream may be over.
        let _ = self.says.send(message).await;
    }

    async fn sends_chunk(&self, fields: &Value) {
        let mut chunk = json!({ "session_id": self.session_id, "codec": self.codec });
        chunk.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.sends(bytes_of("ClientStreamMessage", &json!({ "audio_chunk": chunk }))).await;
    }

    async fn sends_result(&self, result: &[u8]) {
        let payload = json!({ "action_result_payload": BASE64_STANDARD.encode(result) });
        self.sends(bytes_of("ClientStreamMessage", &payload)).await;
    }

    async fn speaks(self) {
        let samples = self.rate / 50;
        let loud = |at: u64| (12_000.0 * (TAU * 440.0 * at as f64 / self.rate as f64).sin()) as i16;
        let loud = BASE64_STANDARD.encode((0..samples).flat_map(|at| loud(at).to_le_bytes()).collect::<Vec<u8>>());
        let quiet = BASE64_STANDARD.encode(vec![0; samples as usize * 2]);
        let (began, tones, nothing) = (Instant::now(), self.frames("tone"), vec![]);
        let packets = self.asked["packets"].as_array().unwrap_or(&nothing);
        let chunks = self.asked["chunks"].as_array().unwrap_or(&nothing);
        let count = if packets.is_empty() { tones + self.frames("silence") } else { packets.len() };
        let mut held: VecDeque<(usize, Bytes)> = VecDeque::new();
        for number in 0..count {
            if self.shared.lock().unwrap().over {
                return;
            }
            if self.shared.lock().unwrap().satisfied {
                break;
            }
            for chunk in chunks.iter().filter(|_| number == self.frames("at")) {
                match chunk["raw"].as_str() {
                    Some(raw) => self.sends(BASE64_STANDARD.decode(raw).unwrap().into()).await,
                    None => self.sends_chunk(chunk).await,
                }
            }
            let interrupts = {
                let mut shared = self.shared.lock().unwrap();
                let spoke = shared.spoken.is_some_and(|spoken| spoken.elapsed() > Duration::from_millis(300));
                let interrupts = self.asked["interrupts"] == true && spoke;
                if interrupts {
                    shared.voiced.get_or_insert_with(Instant::now);
                }
                held.extend(shared.results.drain(..).map(|result| (number + self.frames("delay"), result)));
                interrupts
            };
            while held.front().is_some_and(|(due, _)| *due <= number) {
                self.sends_result(&held.pop_front().unwrap().1).await;
            }
            let audio = match packets.get(number) {
                Some(packet) => packet.as_str().unwrap(),
                None if number < tones || interrupts => &loud,
                None => &quiet,
            };
            let hint = if interrupts { "VAD_SIGNAL_VOICED" } else { "VAD_SIGNAL_UNVOICED" };
            self.sends_chunk(&json!({ "sequence_number": number, "audio_bytes": audio, "vad_hint": hint })).await;
            sleep_until(began + FRAME * (number as u32 + 1)).await;
        }
        if self.asked["end"] != true {
            return;
        }
        tokio::spawn(ends(self.grpc.clone(), self.session_id.clone(), self.opened, Arc::clone(&self.shared)));
        if let Some(later) = self.asked["answers_after_end"].as_f64() {
            sleep(Duration::from_secs_f64(later)).await;
        }
        while !self.shared.lock().unwrap().ended {
            let results: Vec<Bytes> = self.shared.lock().unwrap().results.drain(..).collect();
            for result in held.drain(..).map(|(_, result)| result).chain(results) {
                self.sends_result(&result).await;
            }
            sleep(FRAME).await;
        }
    }
}

async fn ends(mut grpc: Grpc<Channel>, session_id: String, opened: Instant, shared: Arc<Mutex<Shared>>) {
    let since = || Value::from(opened.elapsed().as_millis() as u64);
    shared.lock().unwrap().told.insert("end_at_ms".into(), since());
    let notice = bytes_of("SessionEndNotice", &json!({ "session_id": session_id }));
    let answer = unary(&mut grpc, path("Session", "EndSession"), Request::new(notice)).await;
    let mut shared = shared.lock().unwrap();
    shared.told.insert("ended_at_ms".into(), since());
    shared.told.extend(answer.ok().map(|answer| ("end".to_owned(), json_of("SessionEndNotice", &answer))));
    shared.ended = true;
}

/// Holds a conversation: `{"session": {…}, "tone": SECONDS, "silence": SECONDS, "until": NAMES, "interrupts": true, "chunks":
/// [{…}], "at": SECONDS, "end": true}`, with the meanings that `tests/sdk/check_vam.py` tells.
async fn converse(grpc: &mut Grpc<Channel>, asked: &Value) -> Value {
    let begins = Request::new(bytes_of("SessionInitRequest", &asked["session"]));
    let begun = json_of("SessionInitResponse", &unary(grpc, path("Session", "InitSession"), begins).await.unwrap());
    let session_id = asked.get("stream_of").unwrap_or(&begun["session_id"]).as_str().unwrap_or_default().to_owned();
    let profile = &begun["negotiated_audio_profile"];
    let (shared, opened) = (Arc::new(Mutex::new(Shared::default())), Instant::now());
    let (says, said) = mpsc::channel(8);
    let speaker = Speaker {
        asked: asked.clone(),
        session_id,
        codec: profile.get("codec").cloned().unwrap_or_else(|| "AUDIO_CODEC_UNSPECIFIED".into()),
        rate: profile["sample_rate"].as_u64().unwrap_or(8_000),
        grpc: grpc.clone(),
        opened,
        shared: Arc::clone(&shared),
        says,
    };
    tokio::spawn(speaker.speaks());
    let said = stream::unfold(said, |mut said| async move { Some((said.recv().await?, said)) });
    let mut request = Request::new(said);
    request.set_timeout(DEADLINE);
    grpc.ready().await.unwrap();
    let mut told = Told::of(asked, opened, Arc::clone(&shared));
    told.all.insert("init".into(), begun);
    let ended = match grpc.streaming(request, path("Stream", "AgentStream"), Raw).await {
        Err(status) => Err(status),
        Ok(answer) => {
            let mut came = answer.into_inner();
            loop {
                match came.message().await {
                    Ok(Some(message)) => {
                        told.take(&json_of("GatewayStreamMessage", &message));
                        let satisfied = asked["until"].as_str().is_some_and(|names| told.holds(names));
                        shared.lock().unwrap().satisfied = satisfied;
                    }
                    Ok(None) => break Ok(()),
                    Err(status) => break Err(status),
                }
            }
        }
    };
    told.all.insert("code".into(), ended.err().map_or_else(|| "OK".into(), |status| code(&status)).into());
    shared.lock().unwrap().over = true;
    if asked["end"] == true {
        // The stream may be over before that is answered.
        let ended = timeout(DEADLINE, async {
            while !shared.lock().unwrap().ended {
                sleep(Duration::from_millis(5)).await;
            }
        });
        ended.await.expect("the end of the session is answered");
    }
    told.all.extend(std::mem::take(&mut shared.lock().unwrap().told));
    told.all.insert("events".into(), told.events.into());
    Value::Object(told.all)
}

/// What a conversation was told.
struct Told {
    keeps: bool,
    opened: Instant,
    shared: Arc<Mutex<Shared>>,
    /// The lists of results for the next actions.
    answers: VecDeque<Value>,
    acted: Option<Instant>,
    all: serde_json::Map<String, Value>,
    events: Vec<Value>,
    /// Of the events, and `words` for each transcript.
    names: Vec<String>,
}

impl Told {
    fn of(asked: &Value, opened: Instant, shared: Arc<Mutex<Shared>>) -> Self {
        let answers = asked["answers"].as_array().cloned().unwrap_or_default().into();
        let (all, events, names) = (serde_json::Map::new(), Vec::new(), Vec::new());
        Self { keeps: asked["keep"] == true, opened, shared, answers, acted: None, all, events, names }
    }

    fn push(&mut self, event: Value) {
        self.names.push(event["event"].as_str().unwrap_or_default().to_owned());
        self.events.push(event);
    }

    /// Whether these have been told in this order, whatever came between them.
    fn holds(&self, names: &str) -> bool {
        let mut told = self.names.iter();
        names.split(' ').all(|name| told.any(|told| told == name))
    }

    fn take(&mut self, came: &Value) {
        let (now, at_ms) = (Instant::now(), self.opened.elapsed().as_millis() as u64);
        let Some((kind, payload)) = came.as_object().unwrap().iter().next() else { return };
        let named = |event: &str, fields: &Value| {
            let mut named = json!({ "event": event });
            named.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            named
        };
        match kind.as_str() {
            "turn_signal" => {
                let event = payload["event"].as_str().unwrap_or("TURN_EVENT_UNSPECIFIED");
                let event = event.trim_start_matches("TURN_EVENT_");
                let turn_id = payload["turn_id"].as_str().unwrap_or_default();
                self.push(json!({ "event": event, "turn_id": turn_id, "at_ms": at_ms }));
                let mut shared = self.shared.lock().unwrap();
                if event == "SPEAKING" {
                    shared.spoken.get_or_insert(now);
                }
                if let Some(voiced) = shared.voiced.filter(|_| event == "INTERRUPTED") {
                    self.all.insert("interrupted_after_ms".into(), ((now - voiced).as_millis() as u64).into());
                }
            }
            "synthesis_chunk" => {
                if self.events.last().is_none_or(|last| last["event"] != "audio") {
                    let codec = payload["codec"].as_str().unwrap_or("AUDIO_CODEC_UNSPECIFIED");
                    let audio = json!({ "event": "audio", "ms": 0, "final": false, "codec": codec, "at_ms": at_ms });
                    self.push(audio);
                }
                if let Some(acted) = self.acted {
                    let spoke = ((now - acted).as_millis() as u64).into();
                    self.all.entry("spoke_after_action_ms").or_insert(spoke);
                }
                let last = self.events.last_mut().unwrap();
                last["ms"] = (number(&last["ms"]) + number(&payload["duration_ms"])).into();
                last["final"] = (payload["is_final"] == true).into();
                if self.keeps {
                    let packets = last.as_object_mut().unwrap().entry("packets").or_insert_with(|| json!([]));
                    packets.as_array_mut().unwrap().push(payload["audio_bytes"].clone());
                }
            }
            "stream_error" => {
                let error = payload["code"].as_str().unwrap().trim_start_matches("STREAM_ERROR_CODE_");
                self.push(named(error, payload));
            }
            "action_request_payload" => {
                let bytes = BASE64_STANDARD.decode(payload.as_str().unwrap()).unwrap();
                let request = json_of("ActionRequestEnvelope", &bytes);
                self.acted.get_or_insert(now);
                self.push(named("ACTION", &request));
                let answers = self.answers.pop_front();
                for answer in answers.iter().flat_map(|answers| answers.as_array().unwrap()) {
                    let result = if answer == "garbage" {
                        Bytes::from_static(&[0xff; 3])
                    } else {
                        let mut fields = json!({ "session_id": request["session_id"], "call_id": request["call_id"] });
                        fields.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
                        bytes_of("ActionResultEnvelope", &fields)
                    };
                    self.shared.lock().unwrap().results.push_back(result);
                }
            }
            "transcript_event" => {
                let mut words = payload.clone();
                words["at_ms"] = at_ms.into();
                self.names.push("words".into());
                self.all.entry("words").or_insert_with(|| json!([])).as_array_mut().unwrap().push(words);
            }
            other => self.push(named(other, payload)),
        }
    }
}
