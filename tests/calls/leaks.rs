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
use tokio::time::{Instant, sleep};

/// The engine's pool of connections to Asterisk keeps idle ones for ten seconds.
const IDLE_CONNECTIONS_GONE: Duration = Duration::from_secs(20);

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
    let before = settled(&offhook).await;
    for round in 2..=4 {
        one_round(&asterisk).await;
        offhook.wait_ended(round * WAYS.len(), SOON).await;
    }
    asterisk.wait_empty(SOON).await;
    offhook.wait_active(0, SOON).await;
    let until = Instant::now() + IDLE_CONNECTIONS_GONE;
    loop {
        let now = left(&offhook).await;
        if now.0 <= before.0 && now.1 <= before.1 {
            break;
        }
        assert!(Instant::now() < until, "descriptors and tasks grew from {before:?} to {now:?}");
        sleep(ms(250)).await;
    }
    assert_eq!(offhook.metric("offhook_media_open").await, 0.0, "legs, ports or places for connections");
    assert_eq!(offhook.metric("offhook_calls_active").await, 0.0);
    let labels: Vec<String> =
        offhook.wait_ended(4 * WAYS.len(), SOON).await.iter().map(|call| call["reason"]["label"].to_string()).collect();
    for reason in ["caller_hung_up", "agent_hung_up", "agent_closed", "transferred", "agent_silent"] {
        assert!(labels.iter().any(|label| label.contains(reason)), "no call ended as {reason}: {labels:?}");
    }
}

/// Open descriptors and living tasks.
async fn left(offhook: &Offhook) -> (usize, f64) {
    (offhook.descriptors(), offhook.metric("offhook_tasks").await)
}

/// The least of both once idle pooled connections to Asterisk have closed: what is there without calls.
async fn settled(offhook: &Offhook) -> (usize, f64) {
    let mut least = left(offhook).await;
    let until = Instant::now() + IDLE_CONNECTIONS_GONE;
    while Instant::now() < until {
        sleep(ms(250)).await;
        let now = left(offhook).await;
        least = (least.0.min(now.0), least.1.min(now.1));
    }
    least
}
