//! A real call on the embedded pipeline: real speech, a real recognizer, a real voice. `providers.rs` makes tests of it.

use crate::calls::{
    SOON,
    kit::{
        asterisk::{Asterisk, Options},
        attendant::ATTENDANT,
        audio::{Sound, silence},
        offhook::Offhook,
        phone::Phone,
        spoken,
    },
    ms,
};
use std::time::Duration;

const CONTEXTS: &str = r#"
contexts:
  front:
    prompt: A list decides.
    greeting: Welcome.
    provider: house
    tools: [hangup_call]
    turns: { owner: offhook }
"#;

/// Loud moments of what was heard from `since` on.
pub fn loud(phone: &Phone, since: usize) -> Duration {
    let heard = phone.heard().samples;
    let frames = heard.get(since..).unwrap_or_default().chunks(160);
    ms(20) * frames.filter(|frame| frame.iter().any(|sample| sample.unsigned_abs() > 1_000)).count() as u32
}

pub async fn wait_to_hear_speech(phone: &Phone, since: usize, length: Duration) {
    let hearing = async {
        while loud(phone, since) < length {
            tokio::time::sleep(ms(50)).await;
        }
    };
    tokio::time::timeout(SOON, hearing).await.unwrap_or_else(|_| panic!("{:?} heard", loud(phone, since)));
}

/// Until the agent has said nothing for a while.
pub async fn wait_for_a_pause(phone: &Phone) {
    let pausing = async {
        while loud(phone, phone.heard().samples.len().saturating_sub(8 * 700)) > Duration::ZERO {
            tokio::time::sleep(ms(50)).await;
        }
    };
    tokio::time::timeout(SOON, pausing).await.expect("the agent pauses");
}

async fn call(leg: &str) -> (Asterisk, Offhook, Phone) {
    let asterisk = Asterisk::start(Options::default()).await;
    let yaml = format!("{ATTENDANT}{CONTEXTS}    audio: {leg}\n");
    let offhook = Offhook::attached(&asterisk, &yaml).await;
    let phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    wait_to_hear_speech(&phone, 0, ms(200)).await;
    (asterisk, offhook, phone)
}

pub async fn a_caller_is_greeted_understood_answered_and_let_go(leg: &str) {
    let words = [spoken::says("When are you open", "en-us+f3").await, spoken::says("Goodbye", "en-us+f3").await];
    let (asterisk, offhook, mut phone) = call(leg).await;
    wait_for_a_pause(&phone).await;
    let since = phone.heard().samples.len();
    phone.say(Sound { samples: words[0].clone() }).await;
    // Longer than "What was that?".
    wait_to_hear_speech(&phone, since, ms(1_600)).await;
    wait_for_a_pause(&phone).await;
    phone.say(Sound { samples: words[1].clone() }).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up", "{leg}");
    asterisk.wait_empty(SOON).await;
    assert!(!offhook.log().contains("five in the afternoon"), "{leg}: what was said reached the log");
}

async fn a_key_does_what_its_phrase_does() {
    let (asterisk, offhook, mut phone) = call("rtp/ulaw").await;
    phone.dtmf('9').await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up");
    asterisk.wait_empty(SOON).await;
}

crate::scenes! {
    both:
        a_key_does_what_its_phrase_does;
}
