//! `offhook media-test`: each audio path is tried with a tone each way, and each fault has its remedy.

use crate::first::{
    Ran, SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::silence,
        offhook::{Offhook, Place},
        phone::Phone,
        proxy::{Carries, Proxy},
        relay::{Order, Relay},
    },
    nothing_is_left, offhook,
};
use serde_json::Value;
use std::time::Duration;
use tempfile::TempDir;

const AGENT: &str =
    "providers: { script: { scripted: { script: [{ say: Hi }, { tone: { hertz: 440, for: 60s } }] } } }\n";
const CONTEXT: &str =
    "default_context: front\ncontexts: { front: { prompt: Test, provider: script, tools: [hangup_call] } }\n";

/// Runs the command on this configuration.
async fn media_test(yaml: &str, arguments: &[&str]) -> Ran {
    let folder = TempDir::with_prefix("offhook-first-").expect("a temporary directory");
    std::fs::write(folder.path().join("offhook.yaml"), yaml).expect("a file in the test's own directory");
    offhook(folder.path(), &[&["media-test", "--config", "offhook.yaml"], arguments].concat(), &[], "").await
}

fn yaml(place: &Place, asterisk: &Asterisk) -> String {
    format!("{}{AGENT}{CONTEXT}", place.yaml(Some(asterisk)))
}

/// The calls of a run with `--json`.
fn calls(ran: &Ran) -> Vec<Value> {
    let told: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err));
    assert_eq!(told["ok"], ran.code == 0, "{told}");
    told["calls"].as_array().expect("a list").clone()
}

/// The only call, whose verdict and remedy have these parts.
fn only(ran: &Ran, grade: &str, says: &str, remedy: &str) {
    let calls = calls(ran);
    let text = |key: &str| calls[0][key].as_str().unwrap_or_default();
    let is_it = calls.len() == 1 && calls[0]["grade"] == grade && text("says").contains(says);
    assert!(is_it && text("remedy").contains(remedy), "{says} → {remedy}: {calls:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn delay_loss_and_level_are_told_for_each_direction_of_each_transport() {
    let asterisk = Asterisk::start(Options::default()).await;
    let yaml = yaml(&Place::free(), &asterisk);
    let ran = media_test(&yaml, &["--json"]).await;
    let calls = calls(&ran);
    let audio: Vec<_> = calls.iter().map(|call| (call["audio"].as_str(), call["configured"].as_bool())).collect();
    let others = ["rtp/ulaw", "websocket/slin16"].map(|audio| (Some(audio), Some(false)));
    assert_eq!(audio, [&[(Some("audiosocket/slin"), Some(true))], &others[..]].concat());
    for call in &calls {
        assert_eq!(call["grade"], "ok", "{call}");
        for way in ["from_caller", "to_caller"] {
            let figure = |name: &str| call[way][name].as_f64().unwrap_or_else(|| panic!("{name} of {way}: {call}"));
            let delay = figure("delay_ms");
            assert!(delay > 0.0 && delay < 150.0, "{call}");
            assert!(figure("loss_percent") <= 10.0, "{call}");
            assert!((figure("level_dbov") - figure("sent_dbov")).abs() < 1.0, "{call}");
        }
    }
    nothing_is_left(&asterisk).await;

    let ran = media_test(&yaml, &["--transport", "rtp"]).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("ok       rtp/ulaw "), "{}", ran.out);
    for part in ["caller → offhook  delay", "offhook → caller  delay", "loss", "dBov", "The audio paths work."] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    assert!(!ran.out.contains("audiosocket"), "{}", ran.out);
    let ran = media_test(&yaml, &["--transport", "carrier_pigeon"]).await;
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    nothing_is_left(&asterisk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_and_a_codec_that_are_missing_are_named() {
    let asterisk = Asterisk::start(Options { without: vec!["chan_rtp", "codec_alaw"], ..Options::default() }).await;
    let yaml = yaml(&Place::free(), &asterisk);
    let ran = media_test(&yaml, &["--json", "--transport", "rtp"]).await;
    only(&ran, "problem", "rtp/ulaw: no test call, since Asterisk has no chan_rtp", "load the module");
    assert_eq!(ran.code, 1);
    // Where no context uses it, it is no problem of this installation.
    let ran = media_test(&yaml, &["--json"]).await;
    let calls = calls(&ran);
    assert_eq!((ran.code, &calls[0]["grade"], &calls[1]["grade"]), (0, &"ok".into(), &"warning".into()), "{calls:?}");

    let asterisk = Asterisk::start(Options { without: vec!["codec_alaw"], ..Options::default() }).await;
    let yaml = self::yaml(&Place::free(), &asterisk).replace("media:\n", "media:\n  default: rtp/alaw\n");
    let ran = media_test(&yaml, &["--json", "--transport", "rtp"]).await;
    only(&ran, "problem", "rtp/alaw: no test call, since Asterisk has no codec_alaw", "load the module");
    nothing_is_left(&asterisk).await;
}

/// NAT: Asterisk is told an address that is not ours, or a port at which nobody listens.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_leads_elsewhere_is_told_with_its_setting_and_the_firewall() {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let sound = yaml(&place, &asterisk);
    let elsewhere = sound.replace("rtp: { bind: 127.0.0.1,", "rtp: { bind: 127.0.0.1, advertise: 127.0.0.2,");
    let ran = media_test(&elsewhere, &["--json", "--transport", "rtp"]).await;
    assert_eq!(ran.code, 1);
    let remedy = "media.rtp.advertise (or .bind) must be an address at which Asterisk reaches this machine, and a firewall in \
                  between must let media.rtp.ports through (UDP)";
    only(&ran, "problem", "nothing that Asterisk sends to 127.0.0.2 arrives", remedy);
    let call = &calls(&ran)[0];
    assert_eq!((&call["from_caller"]["loss_percent"], &call["from_caller"]["delay_ms"]), (&100.0.into(), &Value::Null));
    nothing_is_left(&asterisk).await;

    let own = format!("bind: \"127.0.0.1:{}\"", place.audiosocket);
    let closed = sound.replace(&own, &format!("{own}, advertise: \"127.0.0.1:1\""));
    let ran = media_test(&closed, &["--json", "--transport", "audiosocket"]).await;
    assert_eq!(ran.code, 1);
    only(&ran, "problem", "Asterisk opens no audio path to 127.0.0.1:1", "must let its port through (TCP)");
    nothing_is_left(&asterisk).await;
}

/// What Asterisk sends is changed on its way to here, for either end of the test call.
#[tokio::test(flavor = "multi_thread")]
async fn noise_loss_delay_and_a_level_that_is_not_what_was_sent_are_told_each_with_its_remedy() {
    let asterisk = Asterisk::start(Options::default()).await;
    for (order, code, grade, says, remedy) in [
        (Order::Swap, 1, "problem", "is noise: the two sides use different codecs", "let nothing between offhook and"),
        (Order::Halve, 0, "warning", "of the sound arrives", "a network in between that loses packets"),
        (Order::Lower, 0, "warning", "12 dB quieter than it was sent", "VOLUME() or AGC()"),
        (Order::Late, 0, "warning", "ms there and back", "bring offhook nearer to Asterisk"),
    ] {
        let place = Place::free();
        let relay = Relay::start(place.audiosocket).await;
        relay.order_from_the_first(order);
        let yaml = relay.before(&place, &yaml(&place, &asterisk));
        let ran = media_test(&yaml, &["--json", "--transport", "audiosocket"]).await;
        assert_eq!(ran.code, code, "{order:?}: {}{}", ran.out, ran.err);
        only(&ran, grade, says, remedy);
        nothing_is_left(&asterisk).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_before_asterisk_that_passes_no_websocket_of_audio_on_is_told_with_what_it_must_pass() {
    let asterisk = Asterisk::start(Options::default()).await;
    let proxy = Proxy::refusing(asterisk.http_port(), Carries::Media).await;
    let yaml = yaml(&Place::free(), &asterisk).replace(&asterisk.ari_url(), &proxy.url());
    let ran = media_test(&yaml, &["--json", "--transport", "websocket"]).await;
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let remedy = "asterisk.url must lead to Asterisk, or to a proxy that passes /media on like /ari";
    only(&ran, "problem", "Asterisk opens no audio path to the WebSocket at", remedy);
    nothing_is_left(&asterisk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_before_asterisk_that_passes_no_binary_messages_to_it_is_told_with_what_it_must_pass() {
    let asterisk = Asterisk::start(Options::default()).await;
    let proxy = Proxy::muting(asterisk.http_port()).await;
    let yaml = yaml(&Place::free(), &asterisk).replace(&asterisk.ari_url(), &proxy.url());
    let ran = media_test(&yaml, &["--json", "--transport", "websocket"]).await;
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let says = "Asterisk is heard, but nothing that is sent to Asterisk arrives there";
    only(&ran, "problem", says, "must pass binary messages on both ways");
    nothing_is_left(&asterisk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_asterisk_or_its_password_it_says_so_and_fails() {
    let ran = media_test(&format!("{}{AGENT}{CONTEXT}", Place::free().yaml(None)), &["--json"]).await;
    assert_eq!((ran.code, calls(&ran).len()), (1, 0));
    assert!(ran.out.contains("there is no section asterisk"), "{}", ran.out);
    let asterisk = Asterisk::start(Options::default()).await;
    let wrong = yaml(&Place::free(), &asterisk).replace(asterisk.ari_password(), "wrong");
    let ran = media_test(&wrong, &[]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("refuses the user") && ran.out.contains("→ compare asterisk.password"), "{}", ran.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_an_engine_it_tests_in_an_application_of_its_own_and_the_call_goes_on() {
    let asterisk = Asterisk::start(Options::default()).await;
    let engine = Offhook::attached(&asterisk, &format!("{AGENT}{CONTEXT}")).await;
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(Duration::from_secs(60))).await;
    phone.wait_to_hear(440.0, Duration::from_millis(500), SOON).await;
    let file = engine.folder().join("offhook.yaml").display().to_string();
    let ran = offhook(engine.folder(), &["media-test", "--config", &file], &[], "").await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    engine.wait_active(1, SOON).await;
    phone.hang_up().await;
    assert_eq!(engine.wait_end_reason(SOON).await, "caller_hung_up");
    nothing_is_left(&asterisk).await;
}
