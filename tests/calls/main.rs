//! Whole calls: a real SIP phone, a real Asterisk, the offhook program, a scripted agent.

#[path = "../support/mod.rs"]
mod support;

mod audio;
mod endings;
mod faults;
mod leaks;
mod routing;

use std::time::Duration;
use support::{asterisk::Asterisk, asterisk::Options, offhook::Offhook};

pub const SOON: Duration = Duration::from_secs(15);

/// What the agent's voice is made of.
pub const AGENT_HZ: f64 = 440.0;
pub const CALLER_HZ: f64 = 700.0;

pub fn ms(milliseconds: u64) -> Duration {
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
