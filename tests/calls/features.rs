//! Feature codes of those who got a caller: keys that Asterisk's `Dial()` takes, which a bridge of ARI does not.

use crate::calls::{
    CALLER_HZ, SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{silence, tone},
        offhook::Offhook,
        phone::Phone,
    },
    ms,
};

const ANN_HZ: f64 = 1000.0;
const BOB_HZ: f64 = 1250.0;

/// As `features.conf` has it where there is none: `#` and an extension.
async fn who_is_called_by_the_dialplan_s_context_for_it_hands_the_caller_on_by_keys() {
    let mut ann = Phone::listen(tone(ANN_HZ, ms(60_000))).await;
    let mut bob = Phone::listen(tone(BOB_HZ, ms(60_000))).await;
    let asterisk = Asterisk::start(Options::default()).await;
    let yaml = format!(
        "default_context: front\n\
         providers:\n  script:\n    scripted:\n      script:\n        - tone: {{ hertz: 600, for: 600ms }}\n        \
         - call: {{ tool: transfer, arguments: {{ destination: there }} }}\n        - listen: {{}}\n\
         destinations:\n  there: {{ description: People, dial: [\"Local/{}@offhook-features\"], ring: 20s }}\n\
         contexts:\n  front: {{ prompt: A test, provider: script, tools: [hangup_call, transfer] }}\n",
        ann.port()
    );
    let offhook = Offhook::attached(&asterisk, &yaml).await;
    let says = silence(ms(3_000)) + tone(CALLER_HZ, ms(60_000));
    let mut caller = Phone::call(asterisk.sip_port(), "7000", says).await;
    caller.wait_to_hear(ANN_HZ, ms(500), SOON).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    for key in format!("#8{}", bob.port()).chars() {
        ann.dtmf(key).await;
    }
    caller.wait_to_hear(BOB_HZ, ms(1_000), SOON).await;
    bob.wait_to_hear(CALLER_HZ, ms(1_000), SOON).await;
    ann.wait_ended(SOON).await;
    assert_eq!(offhook.metric("offhook_ari_handed_on").await, 1.0, "they are watched over as before");
    bob.hang_up().await;
    caller.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
    assert_eq!(offhook.metric("offhook_ari_handed_on").await, 0.0);
}

crate::scenes! {
    real:
        who_is_called_by_the_dialplan_s_context_for_it_hands_the_caller_on_by_keys;
}
