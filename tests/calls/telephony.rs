//! Callers who are connected with people by ringing them, sent to a mailbox, and keys pressed for them.

use crate::{
    AGENT_HZ, CALLER_HZ, SOON, ms,
    support::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{silence, tone},
        offhook::{Offhook, Place},
        phone::Phone,
    },
};

/// The ringing tone of most of Europe, which offhook makes unless told otherwise.
const RINGING_HZ: f64 = 425.0;
/// What people who are called say.
const ANN_HZ: f64 = 1000.0;

/// An agent whose script says one thing and transfers to `there`, which rings these for so long.
fn transferring(endpoints: &[String], ring: &str) -> String {
    format!(
        "default_context: front\n\
         providers:\n  script:\n    scripted:\n      script:\n        - tone: {{ hertz: 440, for: 600ms }}\n        \
         - call: {{ tool: transfer, arguments: {{ destination: there }} }}\n        - listen: {{}}\n        \
         - tone: {{ hertz: 880, for: 60s }}\n\
         destinations:\n  there: {{ description: People, dial: [{}], ring: {ring} }}\n\
         contexts:\n  front: {{ prompt: A test, provider: script, tools: [hangup_call, transfer] }}\n",
        endpoints.iter().map(|endpoint| format!("\"{endpoint}\"")).collect::<Vec<_>>().join(", ")
    )
}

fn at(phone: &Phone) -> String {
    format!("PJSIP/anonymous/sip:phone@127.0.0.1:{}", phone.port())
}

/// Somebody who answers at once, and says this tone for as long as they are listened to.
async fn ann() -> Phone {
    Phone::listen(tone(ANN_HZ, ms(60_000))).await
}

async fn pbx(endpoints: &[String], ring: &str) -> (Asterisk, Offhook) {
    pbx_with(endpoints, ring, "").await
}

async fn pbx_with(endpoints: &[String], ring: &str, dialplan: &str) -> (Asterisk, Offhook) {
    let asterisk = Asterisk::start(Options { dialplan: dialplan.into(), ..Options::default() }).await;
    let offhook = Offhook::attached(&asterisk, &transferring(endpoints, ring)).await;
    (asterisk, offhook)
}

async fn caller(asterisk: &Asterisk) -> Phone {
    let says = silence(ms(500)) + tone(CALLER_HZ, ms(60_000));
    Phone::call_as(asterisk.sip_port(), "7000", silence(ms(6_000)) + says, "Ada Byron", "15550199").await
}

/// What offhook has open for calls.
async fn open(offhook: &Offhook) -> f64 {
    offhook.metric("offhook_media_open").await + offhook.metric("offhook_calls_active").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dialled_person_is_connected_with_the_caller_and_offhook_leaves() {
    let mut ann = ann().await;
    let (asterisk, offhook) = pbx(&[at(&ann)], "10s").await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(ANN_HZ, ms(500), SOON).await;
    // offhook is out of it: one bridge with two people in it is all there is.
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    assert_eq!(open(&offhook).await, 0.0);
    let channels = asterisk.channels().await;
    assert_eq!(channels.len(), 2, "{channels:?}");
    assert_eq!(asterisk.bridges().await, 1);
    assert_eq!(offhook.metric("offhook_ari_handed_on").await, 1.0);
    // Each hears the other.
    ann.wait_to_hear(CALLER_HZ, ms(1000), SOON).await;
    caller.wait_to_hear(ANN_HZ, ms(2000), SOON).await;
    // The caller's own name and number were shown.
    let (name, address) = ann.seen().peer;
    assert_eq!(name, "Ada Byron");
    assert!(address.contains("15550199"), "{address}");
    // A reload changes nothing for them.
    assert_eq!(offhook.post("reload").await.0, 200);
    caller.wait_to_hear(ANN_HZ, ms(3000), SOON).await;
    caller.hang_up().await;
    ann.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
    assert_eq!(offhook.metric("offhook_ari_handed_on").await, 0.0);
    let heard = caller.heard();
    let words = heard.spans_of(AGENT_HZ)[0];
    assert!(words.length().abs_diff(ms(600)) <= ms(100), "the agent's last words were heard: {words:?}");
    for private in ["15550199", "Byron"] {
        assert!(!offhook.log().contains(private), "{private} reached the log");
    }
}
