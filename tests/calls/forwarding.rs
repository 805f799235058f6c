//! Destinations whose telephone does not answer itself: it is forwarded, or a colleague picks it up.

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

/// `f` and a port: answers 302 with the telephone that listens there. `*8`: group pickup, as FreePBX has it.
const DIALPLAN: &str = "[lab-callers](+)
exten => _fX.,1,Transfer(PJSIP/sip:8${EXTEN:1}@127.0.0.1)
exten => *8,1,Pickup()
 same => n,Hangup()
";
const ONE_GROUP: &str = "[anonymous](caller)\ncall_group = 1\npickup_group = 1\n";

/// An agent that transfers to this endpoint at once, and who calls it.
async fn installation(endpoint: impl Fn(&Asterisk) -> String) -> (Asterisk, Offhook, Phone) {
    let modules = crate::kit::project().join("deploy/asterisk/etc/modules.conf");
    let modules = std::fs::read_to_string(modules).expect("the modules of the lab's Asterisk");
    let modules = format!("{modules}\nload = app_transfer.so\nload = app_directed_pickup.so\n");
    let settings = vec![("modules.conf".into(), modules), ("pjsip_anonymous.conf".into(), ONE_GROUP.into())];
    let asterisk = Asterisk::start(Options { dialplan: DIALPLAN.into(), settings, ..Options::default() }).await;
    let yaml = format!(
        "default_context: front\n\
         providers:\n  script:\n    scripted:\n      script:\n        - tone: {{ hertz: 600, for: 600ms }}\n        \
         - call: {{ tool: transfer, arguments: {{ destination: there }} }}\n        - listen: {{}}\n        - tone: {{ hertz: 880, for: 60s }}\n\
         destinations:\n  there: {{ description: People, dial: [\"{}\"], ring: 20s }}\n\
         contexts:\n  front: {{ prompt: A test, provider: script, tools: [hangup_call, transfer] }}\n",
        endpoint(&asterisk)
    );
    let offhook = Offhook::attached(&asterisk, &yaml).await;
    let says = silence(ms(5_000)) + tone(CALLER_HZ, ms(60_000));
    let caller = Phone::call(asterisk.sip_port(), "7000", says).await;
    (asterisk, offhook, caller)
}

/// The two hear each other, offhook has one call that was transferred, and nobody stays behind.
async fn are_connected(asterisk: &Asterisk, offhook: &Offhook, mut caller: Phone, mut ann: Phone) {
    caller.wait_to_hear(ANN_HZ, ms(1_000), SOON).await;
    ann.wait_to_hear(CALLER_HZ, ms(1_000), SOON).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    assert_eq!(offhook.metric("offhook_calls_active").await, 0.0, "who answers is not a new call");
    caller.hang_up().await;
    ann.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
    assert_eq!(offhook.metric("offhook_ari_handed_on").await, 0.0);
}

async fn a_telephone_that_is_forwarded_rings_where_it_is_forwarded_to() {
    let ann = Phone::listen(tone(ANN_HZ, ms(60_000))).await;
    let forwarded =
        |asterisk: &Asterisk| format!("PJSIP/anonymous/sip:f{}@127.0.0.1:{}", ann.port(), asterisk.sip_port());
    let (asterisk, offhook, caller) = installation(forwarded).await;
    are_connected(&asterisk, &offhook, caller, ann).await;
}

async fn what_a_telephone_is_forwarded_to_stops_ringing_with_the_caller() {
    let mut ann = Phone::listen_without_answering().await;
    let forwarded =
        |asterisk: &Asterisk| format!("PJSIP/anonymous/sip:f{}@127.0.0.1:{}", ann.port(), asterisk.sip_port());
    let (asterisk, _offhook, mut caller) = installation(forwarded).await;
    ann.wait_ringing(SOON).await;
    caller.hang_up().await;
    ann.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
}

async fn a_colleague_who_picks_up_a_destination_that_rings_is_connected_with_the_caller() {
    let mut bob = Phone::listen_without_answering().await;
    let endpoint = format!("PJSIP/anonymous/sip:phone@127.0.0.1:{}", bob.port());
    let (asterisk, offhook, caller) = installation(|_| endpoint.clone()).await;
    bob.wait_ringing(SOON).await;
    let ann = Phone::call(asterisk.sip_port(), "*8", tone(ANN_HZ, ms(60_000))).await;
    bob.wait_ended(SOON).await;
    are_connected(&asterisk, &offhook, caller, ann).await;
}

crate::scenes! {
    only_real:
        a_telephone_that_is_forwarded_rings_where_it_is_forwarded_to,
        what_a_telephone_is_forwarded_to_stops_ringing_with_the_caller,
        a_colleague_who_picks_up_a_destination_that_rings_is_connected_with_the_caller;
}
