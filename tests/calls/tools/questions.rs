//! A question that the engine puts itself, on a real line: the operator's words, by clip, and the caller's own yes.

use crate::calls::{
    SOON,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{Sound, built_in_voice, is_whole, silence},
        offhook::Offhook,
        phone::Phone,
        spoken,
        vendor::{Call, Deepgram, Order, Scenario, Vendor, hertz},
    },
    ms,
    pipeline::{wait_for_a_pause, wait_to_hear_speech},
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
/// µ-law has two codes for nothing.
const NOTHING_APART: u16 = 2;

/// All of this sound is there, sample by sample, but for one tenth of a second: the phone's own buffer can run dry.
fn is_in(sound: &[i16], heard: &[i16]) -> bool {
    let same = |(one, other): (&i16, &i16)| one.abs_diff(*other) <= NOTHING_APART;
    let is_heard = |piece: &[i16]| heard.windows(piece.len()).any(|place| place.iter().zip(piece).all(same));
    sound.chunks_exact(800).filter(|piece| !is_heard(piece)).count() <= 1
}

/// Waits until the question was heard from this sample on, and nothing else.
async fn hears_question(phone: &Phone, since: usize) {
    let question = built_in_voice(QUESTION, Format::ULAW);
    let length = Sound { samples: question.clone() }.loud_spans().iter().map(|span| span.length()).sum::<Duration>();
    wait_to_hear_speech(phone, since, length / 2).await;
    wait_for_a_pause(phone).await;
    let heard = Sound { samples: phone.heard().samples.split_off(since) };
    assert!(is_in(&question, &heard.samples), "{:?} of {:?}", heard.loud_spans(), heard.length());
    let loud = heard.loud_spans().iter().map(|span| span.length()).sum::<Duration>();
    assert!(is_whole(loud, length), "{loud:?} were heard, of {length:?}");
}

fn transfer(number: usize, token: &Value) -> Call {
    let mut arguments = json!({ "destination": "desk" });
    if !token.is_null() {
        arguments["confirmationToken"] = token.clone();
    }
    Call { id: format!("call_{number}"), name: "transfer".into(), arguments }
}

/// With a vendor whose agent says something after every result: that is not heard beside the question.
async fn a_caller_is_asked_in_the_operators_words_and_a_yes_connects_them() {
    let sentence = Sound { samples: spoken::says("When do you open on Sunday", "en-gb+f3").await };
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

    wait_for_a_pause(&phone).await;
    let since = phone.heard().samples.len();
    vendor.order(1, Order::Call(vec![transfer(1, &Value::Null)]));
    vendor.until_session(1, "says something of its own", |seen| seen.answered == 3).await;
    hears_question(&phone, since).await;
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
    offhook.metric_is("offhook_sentences_total{purpose=\"question\"}", 1.0).await;
    assert!(!offhook.log().contains("Yes, please"), "what was said reached the log");
    vendor.is_content();
}

crate::scenes! {
    both:
        a_caller_is_asked_in_the_operators_words_and_a_yes_connects_them;
}
