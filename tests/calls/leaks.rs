//! After calls that end in every way, nothing is left: no channel, bridge, port or descriptor.

use crate::{
    AGENT_HZ, CALLER_HZ, SOON, ms,
    support::{
        asterisk::{Asterisk, Options},
        audio::{silence, tone},
        offhook::Offhook,
        phone::Phone,
    },
};
use std::time::Duration;

/// One context for each way to end, chosen by the extension `end-<name>`.
const WAYS: [(&str, &str); 6] = [
    ("caller", "[{ tone: { hertz: 440, for: 60s } }]"),
    ("agent", "[{ tone: { hertz: 440, for: 300ms } }, { hang_up: Bye }]"),
    ("lost", "[{ tone: { hertz: 440, for: 300ms } }, { pause: 100ms }, { close: 1011 }]"),
    (
        "transfer",
        "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: transfer, arguments: { destination: leaves } } }]",
    ),
    ("mute", "[{ silence: }]"),
    ("busy", "[{ tone: { hertz: 440, for: 60s } }]"),
];

fn installation() -> String {
    let mut yaml = String::from(
        "destinations: { leaves: { description: Hangs up, context: lab-targets, extension: leaves } }\nproviders:\n",
    );
    for (name, script) in WAYS {
        let script = script.replace("{ silence: }", "silence");
        yaml += &format!("  {name}: {{ scripted: {{ script: {script} }} }}\n");
    }
    yaml += "contexts:\n";
    for (index, (name, _)) in WAYS.iter().enumerate() {
        let audio = if index % 2 == 0 { "audiosocket/slin" } else { "rtp/ulaw" };
        yaml += &format!(
            "  {name}: {{ prompt: Test, provider: {name}, audio: {audio}, tools: [hangup_call, transfer], limits: {{ \
             agent_silence: 1s }}, on_failure: {{ then: hang_up }} }}\n"
        );
    }
    yaml
}

async fn one_round(asterisk: &Asterisk) {
    let mut phones = Vec::new();
    for (name, _) in WAYS {
        let says = silence(ms(700)) + tone(CALLER_HZ, ms(200)) + silence(ms(60_000));
        phones.push((name, Phone::call(asterisk.sip_port(), &format!("end-{name}"), says).await));
    }
    for (name, phone) in &mut phones {
        match *name {
            // Hangs up in the middle of the greeting.
            "caller" => {
                phone.wait_to_hear(AGENT_HZ, ms(100), SOON).await;
                phone.hang_up().await;
            }
            // Vanishes without a word before anything was heard: Asterisk notices, or we hang up.
            "busy" => phone.hang_up().await,
            _ => drop(phone.wait_ended(Duration::from_secs(30)).await),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_end_in_every_way_leave_nothing_behind() {
    let dialplan: String = WAYS
        .iter()
        .map(|(name, _)| format!("exten => end-{name},1,Stasis(offhook,{name})\n same => n,Hangup()\n"))
        .collect();
    let options = Options { dialplan: format!("[lab-callers](+)\n{dialplan}"), ..Options::default() };
    let asterisk = Asterisk::start(options).await;
    let offhook = Offhook::attached(&asterisk, &installation()).await;
    // The first round opens what stays open: pooled connections, the log.
    one_round(&asterisk).await;
    offhook.wait_ended(WAYS.len(), SOON).await;
    asterisk.wait_empty(SOON).await;
    offhook.wait_active(0, SOON).await;
    let before = settled_descriptors(&offhook).await;
    let tasks = settled_tasks(&offhook).await;
    for round in 2..=4 {
        one_round(&asterisk).await;
        offhook.wait_ended(round * WAYS.len(), SOON).await;
    }
    asterisk.wait_empty(SOON).await;
    offhook.wait_active(0, SOON).await;
    let after = settled_descriptors(&offhook).await;
    assert!(after <= before, "descriptors grew from {before} to {after}");
    assert_eq!(offhook.metric("offhook_media_open").await, 0.0, "legs, ports or places for connections");
    assert_eq!(offhook.metric("offhook_calls_active").await, 0.0);
    let tasks_after = settled_tasks(&offhook).await;
    assert!(tasks_after <= tasks, "tasks grew from {tasks} to {tasks_after}");
    let labels: Vec<String> =
        offhook.wait_ended(4 * WAYS.len(), SOON).await.iter().map(|call| call["reason"]["label"].to_string()).collect();
    for reason in ["caller_hung_up", "agent_hung_up", "agent_closed", "transferred", "agent_silent"] {
        assert!(labels.iter().any(|label| label.contains(reason)), "no call ended as {reason}: {labels:?}");
    }
}

/// The fewest tasks seen in a moment: a scrape has one of its own.
async fn settled_tasks(offhook: &Offhook) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..20 {
        least = least.min(offhook.metric("offhook_tasks").await);
    }
    least
}

/// Idle pooled connections to Asterisk close by themselves; the count after that is what calls left.
async fn settled_descriptors(offhook: &Offhook) -> usize {
    let mut least = offhook.descriptors();
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(250)).await;
        least = least.min(offhook.descriptors());
    }
    least
}
