//! Where offhook listens is one thing, what Asterisk is told is another: containers, NAT, two cards.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{silence, tone},
        offhook::{Offhook, Place},
        phone::Phone,
    },
    ms,
};

/// A second address of this machine, as the outer one of a container would be: all of 127.0.0.0/8 is
/// the loopback's, and nothing is bound to this one alone.
const OUTER: &str = "127.0.0.2";

/// Listens on every address; Asterisk is told the outer one. Echoes a caller's tone by an answer.
async fn installation(audio: &str) -> (Asterisk, Offhook, u16) {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let port = place.audiosocket;
    let script = "- tone: { hertz: 440, for: 1s }\n- listen: {}\n- tone: { hertz: 440, for: 60s }";
    let agents = agent(script, &format!("    audio: {audio}\n"));
    let yaml = format!("{}{agents}", place.yaml(Some(&asterisk)))
        .replace(
            &format!("bind: \"127.0.0.1:{port}\""),
            &format!("bind: \"0.0.0.0:{port}\", advertise: \"{OUTER}:{port}\""),
        )
        .replace("rtp: { bind: 127.0.0.1,", &format!("rtp: {{ bind: 0.0.0.0, advertise: {OUTER},"));
    assert_eq!(yaml.matches(OUTER).count(), 2, "{yaml}");
    let offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    (asterisk, offhook, port)
}

/// Audio flows both ways; returns the names of Asterisk's channels during the call.
async fn call(asterisk: &Asterisk, offhook: &Offhook) -> Vec<String> {
    let says = silence(ms(2_500)) + tone(CALLER_HZ, ms(500)) + silence(ms(60_000));
    let mut phone = Phone::call(asterisk.sip_port(), "7000", says).await;
    phone.wait_to_hear(AGENT_HZ, ms(900), SOON).await;
    let channels = asterisk.channels().await;
    // The second tone comes only when the caller's was heard.
    phone.wait_to_hear(AGENT_HZ, ms(2_000), SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
    channels
}

async fn asterisk_connects_its_audiosocket_to_the_advertised_address() {
    let (asterisk, offhook, port) = installation("audiosocket/slin").await;
    let channels = call(&asterisk, &offhook).await;
    let told = format!("AudioSocket/{OUTER}:{port}-");
    assert!(channels.iter().any(|name| name.starts_with(&told)), "{told}: {channels:?}");
}

async fn asterisk_sends_its_rtp_to_the_advertised_address() {
    let (asterisk, offhook, _) = installation("rtp/ulaw").await;
    let channels = call(&asterisk, &offhook).await;
    let told = format!("UnicastRTP/{OUTER}:");
    assert!(channels.iter().any(|name| name.starts_with(&told)), "{told}: {channels:?}");
}

crate::scenes! {
    real:
        asterisk_sends_its_rtp_to_the_advertised_address;
    both:
        asterisk_connects_its_audiosocket_to_the_advertised_address;
}
