//! Whole calls: a phone, an Asterisk, an engine, a scripted agent.
//!
//! Each scene is written once. On an emulated exchange, with an engine in the test's own process and a clock that nobody waits for,
//! all of them are played always but for those that only a real part can carry. On a real Asterisk with real phones and the
//! program itself, a chosen set is played always, and the others where all is asked for. The set has, at least once each:
//!
//! - every request that an engine makes of ARI and every event that matters to it: the engines count them, and a run in which one
//!   of the counters stays at zero has failed (`unseen` in `tests/lab/run_tests.py`, with two exceptions). What `offhook check` asks for
//!   is shown by `tests/first`;
//! - every media leg and codec (`legs` calls over all of them), the dialplan's own AudioSocket (`walk_ins`), and a full queue of the
//!   WebSocket channel (`websocket`);
//! - each context of `dialplan/`, counted in the same way by Asterisk's log, with the human behind it (`routing`), the mailbox and the
//!   queue (`telephony`).
//!
//! A scene that is added is `both`. It is `real` if it is the only one that asks Asterisk for something, or whenever the two worlds
//! have been seen to differ in what it shows.

use crate::kit;

mod addresses;
mod attendant;
mod audio;
mod doctor;
mod endings;
mod faults;
mod features;
mod first_scene;
mod forwarding;
mod hold;
mod leaks;
mod legs;
mod mail;
mod mcp;
mod neural;
mod operators;
mod overrides;
mod pipeline;
mod places;
mod privacy;
mod providers;
mod recordings;
mod records;
mod repairs;
mod ringing;
mod routing;
mod rtp_faults;
mod self_hosted;
mod soak;
mod stages;
mod stress;
mod taken_over;
mod telephony;
mod tls;
mod tools;
mod walk_ins;
mod websocket;
mod withheld;

use futures_util::future::join_all;
use kit::{
    asterisk::{Asterisk, Options},
    offhook::{Offhook, Place},
    relay::Relay,
    vendor::{OpenAi, Scenario, Vendor},
};
use std::time::Duration;

pub const SOON: Duration = Duration::from_secs(15);

/// What the agent's voice is made of.
pub const AGENT_HZ: f64 = 440.0;
pub const CALLER_HZ: f64 = 700.0;

/// Plays a scene for each of these at the same time: most of a call in real time is waiting.
pub async fn each<T, F: Future<Output = ()>>(of: impl IntoIterator<Item = T>, scene: impl Fn(T) -> F) {
    join_all(of.into_iter().map(scene)).await;
}

pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// One agent that follows `script` (YAML list items, one a line), with everything else usual.
pub fn agent(script: &str, more: &str) -> String {
    let steps: String = script.lines().map(|line| format!("        {}\n", line.trim())).collect();
    format!(
        "default_context: front\n\
         providers:\n  script:\n    scripted:\n      script:\n{steps}\
         destinations:\n  desk: {{ description: A human, context: lab-targets, extension: desk }}\n  \
         slow: {{ description: Rings first, context: lab-targets, extension: slow }}\n  \
         nowhere: {{ description: Not there, context: lab-targets, extension: nowhere }}\n\
         contexts:\n  front:\n    prompt: You are a test.\n    provider: script\n    \
         tools: [hangup_call, transfer]\n    audiosocket_id: \"0ff40001\"\n{more}"
    )
}

/// An Asterisk and an engine that is attached to it.
pub async fn pbx(script: &str, more: &str) -> (Asterisk, Offhook) {
    let asterisk = Asterisk::start(Options::default()).await;
    let offhook = Offhook::attached(&asterisk, &agent(script, more)).await;
    (asterisk, offhook)
}

/// An engine whose AudioSocket connections come through a relay.
pub async fn relayed(script: &str) -> (Relay, Asterisk, Offhook) {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let relay = Relay::start(place.audiosocket).await;
    let yaml = relay.before(&place, &format!("{}{}", place.yaml(Some(&asterisk)), agent(script, "")));
    let offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    (relay, asterisk, offhook)
}

/// An emulated OpenAI whose answers are so long, and of the agent's pitch in each call.
pub async fn openai(answer: Duration) -> Vendor {
    Vendor::start::<OpenAi>(Scenario { pitch: |_| AGENT_HZ, ..Scenario::answers(answer) }).await
}

/// Two agents of the emulated OpenAI, by the names that `dialplan/` dials, and a script by the name of
/// `scripted`. Their words are the caller's data, so that a test sees what reached the prompt.
pub fn openai_agents(vendor: &Vendor) -> String {
    let prompt = "You are a test. {caller_name} with {caller_number} dialled {called_number}, {call_direction}.";
    format!(
        "default_context: support\nproviders:\n  ai: {}\n  scripted: {{ scripted: {{ script: [{{ say: Hi }}, {{ tone: {{ \
         hertz: 800, for: 60s }} }}] }} }}\ndestinations:\n  desk: {{ description: A human, context: lab-targets, extension: desk }}\ncontexts:\n  support:\n    prompt: \
         \"{prompt}\"\n    greeting: Hello {{caller_name}}\n    provider: ai\n    tools: [hangup_call, transfer]\n    \
         audiosocket_id: \"0ff40001\"\n",
        vendor.yaml()
    )
}
