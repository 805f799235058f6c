//! The first second: who calls hears ringing until the agent has something to say.

use crate::calls::{
    AGENT_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, Options},
        audio::silence,
        offhook::Offhook,
        phone::Phone,
    },
    ms,
};
use tokio::time::Instant;

/// As it is, and with an answer by the dialplan before offhook is asked.
const DIALPLAN: &str = "
[lab-callers](+)
exten => answered,1,Answer()
 same => n,Stasis(offhook,front)
 same => n,Hangup()
";
/// Its first word comes late, as a vendor's does.
const LATE: &str = "- pause: 3s\n- tone: { hertz: 440, for: 60s }";
const LEGS: [&str; 2] = ["audiosocket/slin", "rtp/ulaw"];

async fn installation(leg: &str) -> (Asterisk, Offhook) {
    let asterisk = Asterisk::start(Options { dialplan: DIALPLAN.into(), ..Options::default() }).await;
    // The limit after which a caller is answered all the same is beyond the pause.
    let context = format!("    audio: {leg}\n    limits: {{ answer: 10s }}\n");
    let offhook = Offhook::attached(&asterisk, &agent(LATE, &context)).await;
    (asterisk, offhook)
}

async fn dial(asterisk: &Asterisk, extension: &str) -> Phone {
    Phone::call(asterisk.sip_port(), extension, silence(ms(60_000))).await
}

async fn a_caller_hears_ringing_and_is_answered_when_there_is_something_to_hear() {
    for leg in LEGS {
        let (asterisk, _offhook) = installation(leg).await;
        let mut phone = dial(&asterisk, "7000").await;
        phone.wait_ringing(SOON).await;
        let rang = Instant::now();
        let answered = phone.wait_established(SOON).await;
        assert!(answered.saturating_duration_since(rang) > ms(1_500), "{leg}: answered before the agent could speak");
        phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
        phone.hang_up().await;
        let begins = phone.heard().spans_of(AGENT_HZ)[0].begin;
        assert!(begins < ms(1_500), "{leg}: {begins:?} of silence after the answer");
        asterisk.wait_empty(SOON).await;
    }
}

async fn a_caller_who_gives_up_while_it_rings_leaves_nothing() {
    for leg in LEGS {
        let (asterisk, offhook) = installation(leg).await;
        let mut phone = dial(&asterisk, "7000").await;
        phone.wait_ringing(SOON).await;
        phone.hang_up().await;
        assert_eq!(offhook.wait_end_reason(SOON).await, "caller_abandoned", "{leg}");
        asterisk.wait_empty(SOON).await;
        assert_eq!(offhook.metric("offhook_media_open").await, 0.0, "{leg}");
    }
}

async fn a_caller_whom_the_dialplan_has_answered_hears_no_ringing() {
    let (asterisk, _offhook) = installation(LEGS[0]).await;
    let mut phone = dial(&asterisk, "answered").await;
    phone.wait_established(SOON).await;
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    assert!(!phone.seen().ringing);
    phone.hang_up().await;
    asterisk.wait_empty(SOON).await;
}

crate::scenes! {
    real:
        a_caller_hears_ringing_and_is_answered_when_there_is_something_to_hear;
    both:
        a_caller_who_gives_up_while_it_rings_leaves_nothing,
        a_caller_whom_the_dialplan_has_answered_hears_no_ringing;
}
