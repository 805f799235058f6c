//! Real calls on pipelines of the vendors' services, each kind of them against its emulator (`tests/kit/stages.rs`);
//! `pipeline.rs` has the ones that need no vendor.

use crate::calls::{
    SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{Sound, silence},
        offhook::Offhook,
        phone::Phone,
        spoken,
        stages::{Flux, Nova, Server, Transcriber, model, voice, writes},
        vendor::{Dialect, Scenario, Vendor, hertz},
    },
    ms,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::net::SocketAddr;

const WORDS: &str = "When do you open on Sunday?";
const KEY: &str = "key-of-the-test";

/// An extension of `dialplan/`, the context that takes it, and the audio of its leg.
const CALLS: [(&str, &str, &str); 5] = [
    ("7000", "front", "rtp/ulaw"),
    ("7001", "support", "audiosocket/slin"),
    ("7002", "sales", "rtp/alaw"),
    ("7005", "demo_mcp", "rtp/ulaw"),
    // The provider of this name, in the context above.
    ("7004", "scripted", ""),
];

enum Listener {
    /// It hears the whole call.
    Socket(Vendor),
    /// It is asked for each turn.
    Asked(Server),
}

/// The services of one pipeline; the pitch of its voice is its own.
struct Services {
    listener: (&'static str, Value, Listener),
    voice: (&'static str, Value, Server),
    model: Server,
    pitch: f64,
}

async fn socket<L: Dialect>() -> (&'static str, Value, Listener) {
    let vendor = Vendor::start::<L>(Scenario { caller_words: WORDS, ..Scenario::default() }).await;
    (L::KIND, vendor.options().clone(), Listener::Socket(vendor))
}

async fn asked(kind: &'static str, options: impl Fn(SocketAddr) -> Value) -> (&'static str, Value, Listener) {
    let server = Server::start(|asked| writes(asked, WORDS)).await;
    (kind, options(server.address), Listener::Asked(server))
}

async fn services() -> Vec<Services> {
    let http = |address: SocketAddr| format!("http://{address}");
    let wyoming = |address: SocketAddr| json!({ "address": address.to_string() });
    let openai = |address| json!({ "api_key": KEY, "base_url": format!("{}/v1", http(address)), "model": "m" });
    let listeners = [
        socket::<Flux>().await,
        socket::<Nova>().await,
        socket::<Transcriber>().await,
        asked("openai_transcription", openai).await,
        asked("wyoming_transcribe", wyoming).await,
    ];
    let voice_of = |more: Value, address| {
        let mut options = json!({ "api_key": KEY, "base_url": http(address) });
        more.as_object().into_iter().flatten().for_each(|(key, value)| options[key] = value.clone());
        options
    };
    type Voiced<'a> = (&'static str, Box<dyn Fn(SocketAddr) -> Value + 'a>);
    let voices: [Voiced<'_>; 5] = [
        ("deepgram_speech", Box::new(|address| voice_of(json!({ "model": "aura-2-thalia-en" }), address))),
        ("deepgram_speech", Box::new(|address| voice_of(json!({ "model": "flux-ada-en" }), address))),
        ("elevenlabs_speech", Box::new(|address| voice_of(json!({ "voice": "ada" }), address))),
        (
            "openai_speech",
            Box::new(|address| {
                voice_of(json!({ "base_url": format!("{}/v1", http(address)), "model": "m", "voice": "ada" }), address)
            }),
        ),
        ("wyoming_speech", Box::new(wyoming)),
    ];
    let mut services = Vec::new();
    for (index, (listener, (kind, options))) in listeners.into_iter().zip(voices).enumerate() {
        let pitch = hertz(1 + index);
        let voice = Server::start(move |asked| voice::speaks(asked, pitch, ms(1_000))).await;
        let voice = (kind, options(voice.address), voice);
        services.push(Services { listener, voice, model: Server::start(|_| model::says("At ten.")).await, pitch });
    }
    services
}

fn yaml(services: &[Services]) -> String {
    let section = |name: &str, entry: &dyn Fn(&Services) -> String| {
        let entries =
            CALLS.iter().zip(services).map(|((_, name, _), services)| format!("  {name}: {}\n", entry(services)));
        format!("{name}:\n{}", entries.collect::<String>())
    };
    let model = |services: &Services| {
        let options =
            json!({ "api_key": KEY, "base_url": format!("http://{}/v1", services.model.address), "model": "m" });
        format!("{{ openai_chat: {options} }}")
    };
    let mut yaml = String::from("default_context: front\n")
        + &section("stt", &|services| format!("{{ {}: {} }}", services.listener.0, services.listener.1))
        + &section("llm", &model)
        + &section("voices", &|services| format!("{{ {}: {} }}", services.voice.0, services.voice.1))
        + "providers:\n";
    for (_, name, _) in CALLS {
        yaml += &format!("  {name}: {{ pipeline: {{ stt: {name}, llm: {name}, tts: {name} }} }}\n");
    }
    yaml += "contexts:\n";
    for (_, name, leg) in CALLS.iter().filter(|(_, _, leg)| !leg.is_empty()) {
        yaml += &format!(
            "  {name}:\n    prompt: You are a test.\n    greeting: Hello there.\n    provider: {name}\n    audio: {leg}\n    \
             tools: [hangup_call]\n    turns: {{ owner: offhook }}\n"
        );
    }
    yaml
}

async fn a_caller_is_greeted_heard_and_answered(asterisk: &Asterisk, extension: &str, services: &Services) {
    let sentence = spoken::says("When do you open on Sunday", "en-gb+f3").await;
    let mut phone = Phone::call(asterisk.sip_port(), extension, silence(ms(60_000))).await;
    phone.wait_to_hear(services.pitch, ms(900), SOON).await;
    phone.say(Sound { samples: sentence.clone() }).await;
    phone.wait_to_hear(services.pitch, ms(1_800), SOON).await;
    phone.hang_up().await;
    let asked = services.model.asked();
    let heard = asked.last().map(|asked| asked.said_by("user")).unwrap_or_default();
    assert_eq!(heard.last().map(String::as_str), Some(WORDS), "{extension}: what the caller said reached the model");
    let spoken: Vec<String> = services.voice.2.asked().iter().map(|asked| asked.text().to_owned()).collect();
    assert_eq!(spoken, ["Hello there.", "At ten."], "{extension}");
    match &services.listener.2 {
        Listener::Socket(vendor) => {
            assert_eq!(vendor.sessions(), 1, "{extension}");
            vendor.is_content();
        }
        Listener::Asked(server) => assert!(server.times() >= 1, "{extension}"),
    }
}

async fn every_kind_of_service_takes_its_part_in_a_call() {
    let services = services().await;
    let asterisk = Asterisk::start(Options::default()).await;
    let offhook = Offhook::attached(&asterisk, &yaml(&services)).await;
    let calls = CALLS
        .iter()
        .zip(&services)
        .map(|((extension, ..), services)| a_caller_is_greeted_heard_and_answered(&asterisk, extension, services));
    join_all(calls).await;
    for call in offhook.wait_ended(CALLS.len(), SOON).await {
        assert_eq!(call["reason"]["label"], "caller_hung_up", "{call}");
    }
    asterisk.wait_empty(SOON).await;
    for secret in [KEY, WORDS, "At ten."] {
        assert!(!offhook.log().contains(secret), "{secret} reached the log");
    }
}

crate::scenes! {
    both:
        every_kind_of_service_takes_its_part_in_a_call;
}
