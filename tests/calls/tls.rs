//! ARI over TLS: requests by https, events by wss, and nobody spoken to who cannot prove who they are.

use crate::calls::{
    AGENT_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{silence, tone},
        authority::{Authority, Certificate},
        offhook::{Launch, Offhook, Place},
        phone::Phone,
    },
    ms,
};

const SCRIPT: &str = "- tone: { hertz: 440, for: 1s }\n- listen: {}\n\
                      - call: { tool: transfer, arguments: { destination: desk } }";

/// An Asterisk that speaks TLS by this certificate, and a configuration that reaches it so alone.
async fn asterisk(certificate: Certificate) -> (Asterisk, Place, String) {
    let asterisk = Asterisk::start(Options { tls: Some(certificate), ..Options::default() }).await;
    let place = Place::free();
    let yaml = format!("{}{}", place.yaml(Some(&asterisk)), agent(SCRIPT, ""));
    let yaml = yaml.replace(&asterisk.ari_url(), &asterisk.ari_url_tls());
    (asterisk, place, yaml)
}

async fn a_whole_call_is_steered_over_tls() {
    let authority = Authority::set_up();
    let (asterisk, place, yaml) = asterisk(authority.vouch_for("IP:127.0.0.1")).await;
    let env = [("SSL_CERT_FILE", authority.certificate().display().to_string())];
    let offhook = Offhook::launch(place, &yaml, Launch { env: &env, ..Launch::default() }).await;
    offhook.wait_ready(true).await;
    let says = silence(ms(2_000)) + tone(700.0, ms(500)) + silence(ms(60_000));
    let mut phone = Phone::call(asterisk.sip_port(), "7000", says).await;
    phone.wait_to_hear(AGENT_HZ, ms(900), SOON).await;
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    phone.hang_up().await;
    asterisk.wait_empty(SOON).await;
}

async fn a_certificate_that_nobody_vouches_for_is_refused_and_the_ready_page_says_so() {
    let authority = Authority::set_up();
    let (asterisk, place, yaml) = asterisk(authority.vouch_for("IP:127.0.0.1")).await;
    let offhook = Offhook::start(place, &yaml).await;
    refuses(&offhook).await;
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    phone.hang_up().await;
}

async fn a_certificate_of_another_machine_is_refused_too() {
    let authority = Authority::set_up();
    let (_asterisk, place, yaml) = asterisk(authority.vouch_for("IP:192.0.2.1")).await;
    let env = [("SSL_CERT_FILE", authority.certificate().display().to_string())];
    let offhook = Offhook::launch(place, &yaml, Launch { env: &env, ..Launch::default() }).await;
    refuses(&offhook).await;
}

async fn refuses(offhook: &Offhook) {
    offhook.wait_metric("offhook_ari_reconnects_total{reason=\"untrusted\"}", 1.0, SOON).await;
    let body = offhook.wait_ready(false).await;
    assert!(body.contains("certificate") && body.contains("not trusted") && body.contains("SSL_CERT_FILE"), "{body}");
    offhook.wait_logged("certificate").await;
}

crate::scenes! {
    // The emulated exchange speaks no TLS, and a process has its own authorities.
    only_real:
        a_whole_call_is_steered_over_tls,
        a_certificate_that_nobody_vouches_for_is_refused_and_the_ready_page_says_so,
        a_certificate_of_another_machine_is_refused_too;
}
