//! A question that the engine puts itself, on a real line: the operator's words, by clip, and the caller's own yes.

use crate::{
    SOON, ms,
    support::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{Sound, built_in_voice, silence},
        offhook::Offhook,
        phone::Phone,
        speech,
        vendor::{Call, Deepgram, Order, Scenario, Vendor, hertz},
    },
};
use offhook::audio::Format;
use serde_json::{Value, json};
use std::time::Duration;

const QUESTION: &str = "Shall I connect you with a colleague now?";
/// As an operator writes it; PROVIDER is the vendor's entry.
const YAML: &str = r#"
default_context: front

providers:
  ai: PROVIDER

destinations:
  desk:
    description: A colleague at the front desk
    context: lab-targets
    extension: desk

tools:
  transfer:
    requires_confirmation: true
    confirm: Shall I connect you with a colleague now?

contexts:
  front:
    prompt: You are the receptionist of a small hotel.
    greeting: Hello there.
    provider: ai
    audio: rtp/ulaw
    tools: [hangup_call, transfer]
"#;
/// Frames of the question that the phone may have lost: its own buffer can run dry on a busy machine.
const LOST_MAX: usize = 3;

/// How many frames of 20 ms of this sound with a voice in them were heard, in their order and to the sample, and how many
/// there are.
fn heard_of(sound: &[i16], heard: &[i16]) -> (usize, usize) {
    let loud = |frame: &&[i16]| frame.iter().any(|sample| sample.unsigned_abs() > 300);
    let frames: Vec<&[i16]> = sound.chunks_exact(160).filter(loud).collect();
    let mut from = 0;
    let found = frames.iter().filter(|frame| {
        let at = heard[from..].windows(160).position(|window| window == **frame);
        from += at.map_or(0, |at| at + 160);
        at.is_some()
    });
    (found.count(), frames.len())
}

async fn hears_question(phone: &Phone) {
    let question = built_in_voice(QUESTION, Format::ULAW);
    let hearing = async {
        loop {
            let (found, all) = heard_of(&question, &phone.heard().samples);
            if found + LOST_MAX >= all {
                return;
            }
            tokio::time::sleep(ms(100)).await;
        }
    };
    let heard = tokio::time::timeout(SOON, hearing).await;
    assert!(heard.is_ok(), "frames of the question: {:?}", heard_of(&question, &phone.heard().samples));
}

fn transfer(number: usize, token: &Value) -> Call {
    let mut arguments = json!({ "destination": "desk" });
    if !token.is_null() {
        arguments["confirmationToken"] = token.clone();
    }
    Call { id: format!("call_{number}"), name: "transfer".into(), arguments }
}

/// With a vendor whose agent says something after every result: that is not heard beside the question.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_asked_in_the_operators_words_and_a_yes_connects_them() {
    let sentence = speech::render_all(&["When do you open on Sunday"], "en-gb+f3").await.expect("espeak-ng speaks");
    let sentence = Sound { samples: sentence[0].clone() };
    let scenario = Scenario { caller_words: "Yes, please.", ..Scenario::default() };
    let vendor = Vendor::start::<Deepgram>(scenario).await;
    let asterisk = Asterisk::start(Options::default()).await;
    let offhook = Offhook::attached(&asterisk, &YAML.replace("PROVIDER", &vendor.yaml())).await;
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    phone.wait_to_hear(hertz(1), ms(900), SOON).await;
    phone.say(sentence.clone()).await;
    phone.wait_to_hear(hertz(1), ms(1_900), SOON).await;
    let agent = |phone: &Phone| phone.heard().spans_of(hertz(1)).iter().filter(|span| span.length() > ms(200)).count();
    assert_eq!(agent(&phone), 2, "the greeting and an answer");

    vendor.order(1, Order::Call(vec![transfer(1, &Value::Null)]));
    vendor.until_session(1, "says something of its own", |seen| seen.answered == 3).await;
    hears_question(&phone).await;
    assert_eq!(agent(&phone), 2, "nobody talks into the question");
    assert_eq!(phone.heard().time_of(DESK_HZ), Duration::ZERO);
    phone.say(sentence).await;
    phone.wait_to_hear(hertz(1), ms(2_800), SOON).await;
    let told = vendor.of(1, |seen| seen.results[0].1.clone());
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let request = &told["error"]["confirmation_request"];
    assert_eq!((&told["error"]["type"], &request["preview"]), (&json!("CONFIRMATION_REQUIRED"), &json!(QUESTION)));
    vendor.order(1, Order::Call(vec![transfer(2, &request["token"])]));
    phone.wait_to_hear(DESK_HZ, ms(500), SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    asterisk.wait_empty(SOON).await;
    assert_eq!(offhook.metric("offhook_sentences_total{purpose=\"question\"}").await, 1.0);
    assert!(!offhook.log().contains("Yes, please"), "what was said reached the log");
    vendor.is_content();
}
