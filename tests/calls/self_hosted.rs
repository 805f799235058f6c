//! `config/self_hosted.yaml` on a real line, against a Wyoming listener and a Wyoming voice made of the reference library, and
//! a model behind chat completions.

use crate::calls::{
    SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{Sound, silence},
        offhook::{Launch, Offhook, Place},
        phone::Phone,
        project, speech,
        stages::{Server, model},
        vendor::Call,
        wyoming::{VOICE_HZ, WORD_MS, WyomingServer},
    },
    ms,
};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

const ANSWER: &str = "We are open from nine to five on every day of the week.";

/// The committed file, word for word but for the ports of this test.
fn shipped(place: &Place) -> String {
    let text = std::fs::read_to_string(project().join("config/self_hosted.yaml")).expect("a committed file");
    text.replace("  default: rtp/ulaw\n", &format!("  default: rtp/ulaw\n{}", place.media()))
        + &format!("\nhttp: {{ bind: \"127.0.0.1:{}\" }}\n", place.http)
}

async fn a_caller_is_greeted_understood_answered_and_let_go() {
    let (whisper, piper) = (WyomingServer::start("plain"), WyomingServer::start("speaking"));
    let leaves = Arc::new(AtomicBool::new(false));
    let leaving = Arc::clone(&leaves);
    // It may be asked on a guess, and again; a pause within the first sentence makes two turns of it.
    let llm = Server::start(move |asked| {
        let turns = asked.said_by("user").iter().filter(|said| said.contains(" Hz")).count();
        if turns < 2 || !leaving.load(Ordering::Relaxed) {
            return model::says(ANSWER);
        }
        let call = Call { id: "call_1".into(), name: "hangup_call".into(), arguments: json!({}) };
        model::stream([model::words("Goodbye."), vec![model::fragment(0, Some(&call), "{}")]].concat(), "tool_calls")
    })
    .await;
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let yaml = shipped(&place);
    let mut env = asterisk.environment();
    env.extend([
        ("WHISPER", whisper.address.clone()),
        ("PIPER", piper.address.clone()),
        ("LLM_URL", format!("http://{}/v1", llm.address)),
        ("LLM_MODEL", "house".to_owned()),
    ]);
    let offhook = Offhook::launch(place, &yaml, Launch { env: &env, ..Launch::default() }).await;
    offhook.wait_ready(true).await;
    let sentences = speech::render_all(&["When are you open", "Thank you, goodbye"], "en-us+f3").await;
    let sentences = sentences.expect("espeak-ng speaks");
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    let greeting = ms(10 * WORD_MS);
    phone.wait_to_hear(VOICE_HZ, greeting - ms(100), SOON).await;
    phone.say(Sound { samples: sentences[0].clone() }).await;
    let answer = ms(ANSWER.split_whitespace().count() as u64 * WORD_MS);
    phone.wait_to_hear(VOICE_HZ, greeting + answer - ms(200), SOON).await;
    leaves.store(true, Ordering::Relaxed);
    phone.say(Sound { samples: sentences[1].clone() }).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up");
    asterisk.wait_empty(SOON).await;

    let asked = llm.is_asked(1).await;
    assert_eq!((asked.path.as_str(), &asked.body["model"]), ("/v1/chat/completions", &json!("house")));
    // What the listener wrote down: what it was sent, and how it was asked.
    let heard = asked.said_by("user").concat();
    assert!(heard.contains(" ms of 16000 Hz, 2 bytes, 1 channel for None in en:"), "{heard}");
    offhook.metric_is("offhook_tool_calls_total{outcome=\"done\",tool=\"hangup_call\"}", 1.0).await;
    assert!(!offhook.log().contains("nine to five"), "what was said reached the log");
}

crate::scenes! {
    // The services are programs, made of the reference library.
    only_real:
        a_caller_is_greeted_understood_answered_and_let_go;
}
