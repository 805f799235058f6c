//! After calls that end in every way, nothing is left: no channel, bridge, port, task or descriptor.

use crate::calls::{
    AGENT_HZ, SOON,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{silence, tone},
        offhook::{Offhook, Place},
        phone::Phone,
        tied::free_ports,
        vendor::{OpenAi, Opening, Scenario, Vendor},
    },
    ms, pbx,
    repairs::{REPAIRED, dial, hang_up},
};
use futures_util::StreamExt as _;
use std::{fmt::Write as _, net::UdpSocket, path::Path, time::Duration};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};

/// The engine's pool of connections to Asterisk looks every ten seconds for those that were idle for as
/// long.
const IDLE_CONNECTIONS_GONE: Duration = Duration::from_secs(21);
/// Calls at once: more than one, so that calls pass each other, and few, because other tests measure
/// times beside this one.
const AT_ONCE: usize = 8;
const ROUNDS: usize = 3;
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// What the caller does.
#[derive(Clone, Copy, PartialEq)]
enum Caller {
    /// Waits until the other side ends the call.
    Waits,
    /// Hangs up in the middle of the greeting.
    HangsUp,
    /// Hangs up as soon as it is answered, while the audio is still being set up or just is.
    HangsUpAtOnce,
}

struct Way {
    name: &'static str,
    caller: Caller,
    /// Of the scripted agent; empty where another provider takes the call.
    script: &'static str,
    /// More about the context.
    more: &'static str,
    /// Labels the call may end with.
    reasons: &'static [&'static str],
}

const MINUTE: &str = "[{ tone: { hertz: 440, for: 60s } }]";

/// Each over both kinds of media leg, by the extensions `end-<name>-a` and `end-<name>-r`.
const WAYS: [Way; 14] = [
    Way { name: "caller", caller: Caller::HangsUp, script: MINUTE, more: "", reasons: &["caller_hung_up"] },
    Way {
        name: "at_once",
        caller: Caller::HangsUpAtOnce,
        script: MINUTE,
        more: "",
        reasons: &["caller_hung_up", "caller_abandoned"],
    },
    Way {
        name: "agent",
        caller: Caller::Waits,
        script: "[{ tone: { hertz: 440, for: 300ms } }, { hang_up: Bye }]",
        more: "",
        reasons: &["agent_hung_up"],
    },
    Way {
        name: "lost",
        caller: Caller::Waits,
        script: "[{ tone: { hertz: 440, for: 300ms } }, { pause: 100ms }, { close: 1011 }]",
        more: "",
        reasons: &["agent_closed"],
    },
    Way {
        name: "given_back",
        caller: Caller::Waits,
        script: "[{ tone: { hertz: 440, for: 300ms } }, { close: 1011 }]",
        more: "",
        reasons: &["agent_closed"],
    },
    Way { name: "refused", caller: Caller::Waits, script: "", more: "", reasons: &["agent_unauthorized"] },
    Way {
        name: "transfer",
        caller: Caller::Waits,
        script: "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: transfer, arguments: { destination: leaves } } }]",
        more: "",
        reasons: &["transferred"],
    },
    Way {
        name: "nowhere",
        caller: Caller::Waits,
        script: "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: transfer, arguments: { destination: nowhere } } }, \
                 { pause: 2s }, { hang_up: Bye }]",
        more: "",
        reasons: &["agent_hung_up"],
    },
    Way {
        name: "rung",
        caller: Caller::Waits,
        script: "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: transfer, arguments: { destination: rung } } }]",
        more: "",
        reasons: &["transferred"],
    },
    Way {
        name: "busy",
        caller: Caller::Waits,
        script: "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: transfer, arguments: { destination: busy } } }, \
                 { pause: 1s }, { hang_up: Bye }]",
        more: "",
        reasons: &["agent_hung_up"],
    },
    Way {
        name: "unanswered",
        caller: Caller::HangsUp,
        script: "[{ tone: { hertz: 440, for: 200ms } }, { call: { tool: transfer, arguments: { destination: rings } } }]",
        more: "",
        reasons: &["caller_hung_up"],
    },
    Way {
        name: "mute",
        caller: Caller::Waits,
        script: "[silence]",
        more: "limits: { agent_silence: 1s }",
        reasons: &["agent_silent"],
    },
    Way {
        name: "no_input",
        caller: Caller::Waits,
        script: "[{ tone: { hertz: 440, for: 300ms } }, { listen: {} }]",
        more: "no_input: { after: 1s, prompts: 0 }",
        reasons: &["no_input"],
    },
    Way {
        name: "long",
        caller: Caller::Waits,
        script: MINUTE,
        more: "limits: { call: 1s }",
        reasons: &["call_too_long"],
    },
];

/// By `AudioSocket()`, as `walk-<name>`, and declined ones, which are no calls.
const WALKS: [Way; 2] = [
    Way {
        name: "walk_caller",
        caller: Caller::HangsUp,
        script: MINUTE,
        more: "audiosocket_id: \"0ff40001\"",
        reasons: &["caller_hung_up"],
    },
    Way {
        name: "walk_agent",
        caller: Caller::Waits,
        script: "[{ tone: { hertz: 440, for: 300ms } }, { hang_up: Bye }]",
        more: "audiosocket_id: \"0ff40002\"",
        reasons: &["agent_hung_up"],
    },
];
const DECLINED: [&str; 2] = ["declined", "walk-stranger"];

/// Name of the context, extension to dial, and the way.
fn calls() -> Vec<(String, String, &'static Way)> {
    let legs = WAYS.iter().flat_map(|way| ["a", "r", "w"].map(|leg| (format!("{}-{leg}", way.name), way)));
    legs.map(|(context, way)| (context.clone(), format!("end-{context}"), way))
        .chain(WALKS.iter().map(|way| (way.name.to_owned(), way.name.replace('_', "-"), way)))
        .collect()
}

fn dialplan() -> String {
    let mut text = String::from("[lab-callers](+)\nexten => declined,1,Stasis(offhook,nosuch)\n same => n,Hangup()\n");
    for (context, extension, _) in calls().iter().filter(|(_, extension, _)| extension.starts_with("end-")) {
        writeln!(text, "exten => {extension},1,Stasis(offhook,{context})\n same => n,Hangup()").expect("a String");
    }
    for (extension, prefix) in [("walk-caller", "0ff40001"), ("walk-agent", "0ff40002"), ("walk-stranger", "ffffffff")]
    {
        writeln!(
            text,
            "exten => {extension},1,Answer()\n same => n,Set(ID=${{UUID()}})\n same => \
             n,AudioSocket({prefix}${{ID:8}},${{OFFHOOK_AUDIOSOCKET}})\n same => n,Hangup()"
        )
        .expect("a String");
    }
    text
}

/// `apology`: a short one, so that the test is.
fn installation(refuses: &Vendor, apology: &Path) -> String {
    let mut yaml = format!(
        "destinations:\n  leaves: {{ description: Hangs up, context: lab-targets, extension: leaves }}\n  nowhere: {{ \
         description: Not there, context: lab-targets, extension: nowhere }}\n  \
         rung: {{ description: Answers and leaves, dial: [Local/leaves@lab-targets, Local/rings@lab-targets] }}\n  \
         busy: {{ description: Busy, dial: [Local/busy@lab-targets, PJSIP/nobody] }}\n  \
         rings: {{ description: Rings, dial: [Local/rings@lab-targets] }}\nproviders:\n  refused: {}\n",
        refuses.yaml()
    );
    for way in WAYS.iter().chain(&WALKS).filter(|way| !way.script.is_empty()) {
        writeln!(yaml, "  {}: {{ scripted: {{ script: {} }} }}", way.name, way.script).expect("a String");
    }
    yaml += "contexts:\n";
    for (context, _, way) in calls() {
        let audio = match context.rsplit('-').next() {
            Some("r") => "rtp/ulaw",
            Some("w") => "websocket/slin",
            _ => "audiosocket/slin",
        };
        let then = if way.name == "given_back" { "dialplan" } else { "hang_up" };
        let on_failure = format!("on_failure: {{ apology: \"{}\", then: {then} }}, ", apology.display());
        // Nobody replaces an agent that is lost.
        let more = match way.more.strip_prefix("limits: {") {
            Some(limits) => format!(", limits: {{ recovery: {{ attempts: 0 }},{limits}"),
            None if way.more.is_empty() => ", limits: { recovery: { attempts: 0 } }".to_owned(),
            None => format!(", limits: {{ recovery: {{ attempts: 0 }} }}, {}", way.more),
        };
        writeln!(
            yaml,
            "  {context}: {{ prompt: Test, provider: {}, audio: {audio}, {on_failure}tools: [hangup_call, transfer]{more} }}",
            way.name
        )
        .expect("a String");
    }
    yaml
}

async fn one_call(sip_port: u16, extension: &str, caller: Caller) {
    let mut phone = Phone::call(sip_port, extension, silence(ms(60_000))).await;
    match caller {
        Caller::Waits => drop(phone.wait_ended(ENDS_WITHIN).await),
        Caller::HangsUp => {
            phone.wait_to_hear(AGENT_HZ, ms(100), SOON).await;
            phone.hang_up().await;
        }
        Caller::HangsUpAtOnce => {
            phone.wait_established(SOON).await;
            phone.hang_up().await;
        }
    }
}

async fn one_round(asterisk: &Asterisk) {
    let sip_port = asterisk.sip_port();
    let declined = DECLINED.map(|extension| (extension.to_owned(), Caller::Waits));
    let dialled = calls().into_iter().map(|(_, extension, way)| (extension, way.caller)).chain(declined);
    futures_util::stream::iter(dialled)
        .for_each_concurrent(AT_ONCE, |(extension, caller)| async move { one_call(sip_port, &extension, caller).await })
        .await;
}

/// Each call of this round ended, for a reason of its way. The engine's page keeps the newest hundred.
async fn each_ended_once(offhook: &Offhook, round: usize) {
    let calls = calls();
    offhook.wait_metric("offhook_calls_total", (round * calls.len()) as f64, SOON).await;
    let ended = offhook.wait_ended(calls.len(), SOON).await;
    let ended = &ended[..calls.len()];
    for (context, _, way) in &calls {
        let of_it: Vec<_> = ended.iter().filter(|call| call["context"] == **context).collect();
        assert_eq!(of_it.len(), 1, "calls of {context} in round {round}");
        let reason = of_it[0]["reason"]["label"].as_str().expect("a label");
        assert!(way.reasons.contains(&reason), "{context} ended as {reason}\n{}", offhook.log());
    }
}

/// T6, T19: three rounds, each with calls that end in every way.
async fn calls_that_end_in_every_way_leave_nothing_behind() {
    let refuses = Vendor::start::<OpenAi>(Scenario::all(Opening::Refuse(401))).await;
    let place = Place::free();
    let audiosocket = Some(format!("127.0.0.1:{}", place.audiosocket));
    let asterisk = Asterisk::start(Options { dialplan: dialplan(), audiosocket, ..Options::default() }).await;
    let directory = tempfile::TempDir::with_prefix("offhook-leaks-").expect("a temporary directory");
    let apology = directory.path().join("sorry.wav");
    tone(AGENT_HZ, ms(300)).write_wav(&apology);
    let yaml = format!("{}{}", place.yaml(Some(&asterisk)), installation(&refuses, &apology));
    let offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    // The first round opens what stays open: pooled connections, the log.
    one_round(&asterisk).await;
    each_ended_once(&offhook, 1).await;
    nothing_in_the_engine(&offhook).await;
    asterisk.wait_empty(SOON).await;
    let before = settled(&offhook).await;
    for round in 2..=ROUNDS {
        one_round(&asterisk).await;
        each_ended_once(&offhook, round).await;
    }
    asterisk.wait_empty(SOON).await;
    nothing_in_the_engine(&offhook).await;
    wait_left(&offhook, before).await;
    let declined = offhook.metric("offhook_calls_declined_total{status=\"nocontext\"}").await;
    assert_eq!(declined, (ROUNDS * DECLINED.len()) as f64);
}

/// A call that was repaired has had a second audio path, with a channel, a port and tasks of its own.
async fn a_call_whose_audio_path_was_replaced_leaves_nothing_of_either() {
    for leg in ["audiosocket/slin", "rtp/ulaw", "websocket/slin16"] {
        let script = "- tone: { hertz: 440, for: 60s }";
        let (asterisk, offhook) = pbx(script, &format!("    audio: {leg}\n")).await;
        let mut before = None;
        for round in 1..=3 {
            let phone = dial(&asterisk).await;
            for repairs in 1..=2 {
                let channels = asterisk.channels().await;
                let media = channels.iter().find(|name| !name.starts_with("PJSIP/")).expect("a media channel");
                asterisk.cli(&format!("channel request hangup {media}")).await;
                offhook.wait_metric(REPAIRED, f64::from(2 * (round - 1) + repairs), SOON).await;
            }
            hang_up(phone, &offhook, &asterisk).await;
            nothing_in_the_engine(&offhook).await;
            match before {
                // The first call opens what stays open.
                None => before = Some(settled(&offhook).await),
                Some(before) => wait_left(&offhook, before).await,
            }
        }
    }
}

/// The audio cannot be set up, for another reason on each leg; each caller is heard by a human, who is
/// told why, and of each attempt nothing is left.
async fn callers_reach_a_human(advertise: &str, reasons: [&str; 2]) {
    const CALLS: usize = 2;
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    // All the ports that calls could have are somebody else's.
    let ports = free_ports(2 * CALLS as u16);
    let taken: Vec<UdpSocket> = (0..CALLS as u16)
        .map(|call| UdpSocket::bind(("127.0.0.1", ports + 2 * call)).expect("free a moment ago"))
        .collect();
    let asterisk_and_pages: String = place
        .yaml(Some(&asterisk))
        .lines()
        .take_while(|line| *line != "media:")
        .map(|line| format!("{line}\n"))
        .collect();
    let yaml = format!(
        "{asterisk_and_pages}limits: {{ calls: {CALLS} }}\nmedia:\n  audiosocket: {{ bind: \"127.0.0.1:{}\", advertise: \
         \"{advertise}\" }}\n  rtp: {{ bind: 127.0.0.1, ports: {ports}-{} }}\nproviders: {{ low: {{ scripted: {{ script: \
         {MINUTE} }} }} }}\ncontexts:\n  support: {{ prompt: Test, provider: low }}\n  sales: {{ prompt: Test, provider: low, \
         audio: rtp/ulaw }}\n",
        place.audiosocket,
        ports + 2 * CALLS as u16 - 1,
    );
    let offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    let mut before = None;
    for round in 1..=2 {
        // support by AudioSocket, sales by RTP; both by the dialplan's own branch to the human.
        for extension in ["7001", "7002"] {
            let mut phone = Phone::call(asterisk.sip_port(), extension, silence(ms(60_000))).await;
            phone.wait_to_hear(DESK_HZ, ms(200), SOON).await;
            phone.hang_up().await;
        }
        let ended = offhook.wait_ended(2 * round, SOON).await;
        let labels = [&ended[1]["reason"]["label"], &ended[0]["reason"]["label"]];
        assert_eq!(labels, reasons, "{}", offhook.log());
        asterisk.wait_empty(SOON).await;
        nothing_in_the_engine(&offhook).await;
        match before {
            None => before = Some(settled(&offhook).await),
            Some(before) => wait_left(&offhook, before).await,
        }
    }
    let log = asterisk.log();
    let told = log.lines().filter(|line| line.contains("Executing") && line.contains("this call: SETUPFAILED")).count();
    assert_eq!(told, 4, "{log}");
    drop(taken);
}

async fn asterisk_cannot_connect_and_no_port_is_free_for_rtp() {
    let nobody = format!("127.0.0.1:{}", free_ports(1));
    callers_reach_a_human(&nobody, ["setup_media_channel", "setup_media_socket"]).await;
}

async fn asterisk_connects_to_somebody_else() {
    let somebody = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = somebody.local_addr().expect("bound").to_string();
    // Takes every connection, and says nothing.
    let accepting = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = somebody.accept().await {
            held.push(stream);
        }
    });
    callers_reach_a_human(&address, ["setup_media_connect", "setup_media_socket"]).await;
    accepting.abort();
}

async fn nothing_in_the_engine(offhook: &Offhook) {
    offhook.wait_active(0, SOON).await;
    assert_eq!(offhook.metric("offhook_media_open").await, 0.0, "legs, ports or places for connections");
    assert_eq!(offhook.metric("offhook_calls_active").await, 0.0);
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

/// Waits until no more is there than then.
async fn wait_left(offhook: &Offhook, before: (usize, f64)) {
    let until = Instant::now() + IDLE_CONNECTIONS_GONE;
    loop {
        let now = left(offhook).await;
        if now.0 <= before.0 && now.1 <= before.1 {
            return;
        }
        assert!(Instant::now() < until, "descriptors and tasks grew from {before:?} to {now:?}");
        sleep(ms(250)).await;
    }
}

crate::scenes! {
    // `soak` looks for what calls leave in a real Asterisk.
    both:
        calls_that_end_in_every_way_leave_nothing_behind,
        a_call_whose_audio_path_was_replaced_leaves_nothing_of_either,
        asterisk_cannot_connect_and_no_port_is_free_for_rtp,
        asterisk_connects_to_somebody_else;
}
