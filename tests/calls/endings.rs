//! Who hangs up, and where the caller goes.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options, SLOW_HZ},
        audio::{silence, tone},
        offhook::Offhook,
        phone::Phone,
    },
    ms, pbx,
};

/// The US ringing tone is 440 and 480 Hz; the lab's `indications.conf` has its own.
const RINGING_HZ: f64 = 480.0;

async fn the_agent_says_goodbye_and_hangs_up_after_it_was_heard() {
    for leg in ["audiosocket/slin", "rtp/ulaw"] {
        let script =
            "- tone: { hertz: 440, for: 500ms }\n- listen: {}\n- hang_up: Goodbye and thank you for calling us";
        let (asterisk, offhook) = pbx(script, &format!("    audio: {leg}\n")).await;
        let says = silence(ms(1500)) + tone(CALLER_HZ, ms(500)) + silence(ms(30_000));
        let mut phone = Phone::call(asterisk.sip_port(), "7000", says).await;
        phone.wait_ended(SOON).await;
        assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up", "{leg}");
        let heard = phone.heard();
        let goodbye = *heard.loud_spans().last().expect("the goodbye was heard");
        assert!(goodbye.length() >= ms(1000), "{leg}: all of it: {goodbye:?}");
        let after = heard.length().saturating_sub(goodbye.end);
        assert!(after <= ms(2_000), "{leg}: the line is not held for long after it: {after:?}");
        asterisk.wait_empty(SOON).await;
    }
}

/// T5, T6: on the real Asterisk.
async fn the_caller_hangs_up() {
    for leg in ["audiosocket/slin", "rtp/ulaw"] {
        let (asterisk, offhook) = pbx("- tone: { hertz: 440, for: 60s }", &format!("    audio: {leg}\n")).await;
        let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(30_000))).await;
        phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
        phone.hang_up().await;
        assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up", "{leg}");
        asterisk.wait_empty(SOON).await;
    }
}

/// An installation's own limit. Behind `T` of its context the caller is heard of again.
const LIMITED: &str = "
[lab-callers](+)
exten => limited,1,Set(TIMEOUT(absolute)=3)
 same => n,Stasis(offhook,front)
 same => n,Hangup()
exten => taken-on,1,Goto(limited-further,s,1)

[limited-further]
exten => s,1,Set(TIMEOUT(absolute)=3)
 same => n,Stasis(offhook,front)
 same => n,Hangup()
exten => T,1,Set(GLOBAL(LAB_TAKEN_ON)=yes)
 same => n,Wait(60)
 same => n,Hangup()
";

async fn limited(extension: &str, leg: &str) -> (Asterisk, Offhook, Phone) {
    let asterisk = Asterisk::start(Options { dialplan: LIMITED.into(), ..Options::default() }).await;
    let script = "- tone: { hertz: 440, for: 60s }";
    let offhook = Offhook::attached(&asterisk, &agent(script, &format!("    audio: {leg}\n"))).await;
    let mut phone = Phone::call(asterisk.sip_port(), extension, silence(ms(60_000))).await;
    phone.wait_established(SOON).await;
    (asterisk, offhook, phone)
}

async fn the_dialplan_ends_the_call_by_a_limit_of_its_own() {
    for leg in ["audiosocket/slin", "rtp/ulaw"] {
        let (asterisk, offhook, mut phone) = limited("limited", leg).await;
        phone.wait_ended(SOON).await;
        assert_eq!(offhook.wait_end_reason(SOON).await, "dialplan_timeout", "{leg}");
        asterisk.wait_empty(SOON).await;
    }
}

async fn the_dialplan_takes_the_caller_on_when_its_limit_is_over() {
    let (asterisk, offhook, mut phone) = limited("taken-on", "audiosocket/slin").await;
    assert_eq!(asterisk.wait_global("LAB_TAKEN_ON", SOON).await, "yes");
    assert_eq!(offhook.wait_end_reason(SOON).await, "dialplan_timeout");
    phone.hang_up().await;
    asterisk.wait_empty(SOON).await;
}

/// A hang-up is told of before the channel ends, so that it is none of the limit's doing, however near that is.
async fn a_caller_who_hangs_up_before_the_dialplan_s_limit_has_hung_up() {
    let (asterisk, offhook, mut phone) = limited("limited", "audiosocket/slin").await;
    phone.wait_to_hear(AGENT_HZ, ms(2_000), SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

async fn a_transfer_comes_after_the_last_words_and_rings_until_somebody_answers() {
    for leg in ["audiosocket/slin", "rtp/ulaw"] {
        let script = "- say: One moment please\n- call: { tool: transfer, arguments: { destination: slow } }";
        let (asterisk, offhook) = pbx(script, &format!("    audio: {leg}\n")).await;
        let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
        phone.wait_to_hear(SLOW_HZ, ms(500), SOON).await;
        phone.hang_up().await;
        assert_eq!(offhook.wait_end_reason(SOON).await, "transferred", "{leg}");
        let heard = phone.heard();
        let answered = heard.spans_of(SLOW_HZ)[0].begin;
        let rang = heard.part(ms(0)..answered).time_of(RINGING_HZ);
        assert!(rang >= ms(500), "{leg}: ringing was heard before the answer, {rang:?} of it");
        assert!(!heard.part(answered + ms(300)..heard.length()).has(RINGING_HZ), "{leg}: and not after it");
        asterisk.wait_empty(SOON).await;
    }
}

async fn a_transfer_keeps_the_callers_name_and_number() {
    let script = "- say: One moment\n- call: { tool: transfer, arguments: { destination: who } }";
    let (asterisk, offhook) = pbx_with_whoami(script).await;
    let mut phone = Phone::call_as(asterisk.sip_port(), "7000", silence(ms(60_000)), "Ada Byron", "15550199").await;
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    assert_eq!(asterisk.wait_global("LAB_CALLER", SOON).await, "Ada Byron/15550199");
    phone.hang_up().await;
    assert!(!offhook.log().contains("15550199"), "the number reached the log");
    assert!(!offhook.log().contains("Byron"), "the name reached the log");
}

async fn pbx_with_whoami(script: &str) -> (Asterisk, Offhook) {
    let asterisk = Asterisk::start(Options::default()).await;
    let who = "destinations:\n  who: { description: Tells who called, context: lab-targets, extension: whoami }\n";
    let agents = agent(script, "").replace("destinations:\n", who);
    let offhook = Offhook::attached(&asterisk, &agents).await;
    (asterisk, offhook)
}

async fn a_transfer_to_a_place_that_is_missing_leaves_the_caller_with_the_agent() {
    let script = "- say: One moment\n- call: { tool: transfer, arguments: { destination: nowhere } }\n- listen: {}";
    let (asterisk, offhook) = pbx(script, "").await;
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    // The agent is asked to say that it did not work: the script's agent beeps the request.
    phone.wait_to_hear(AGENT_HZ, ms(1500), SOON).await;
    offhook.wait_active(1, SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

async fn a_caller_without_an_agent_hears_a_sentence_and_then_a_human() {
    for leg in ["audiosocket/slin", "rtp/ulaw"] {
        let script = "- tone: { hertz: 440, for: 1s }\n- pause: 500ms\n- close: 1011";
        let alone = format!("    audio: {leg}\n    limits: {{ recovery: {{ attempts: 0 }} }}\n");
        let (asterisk, offhook) = pbx(script, &alone).await;
        let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
        phone.wait_to_hear(DESK_HZ, ms(500), SOON).await;
        phone.hang_up().await;
        assert_eq!(offhook.wait_end_reason(SOON).await, "agent_closed", "{leg}");
        let heard = phone.heard();
        let (agent, desk) = (heard.spans_of(AGENT_HZ)[0].end, heard.spans_of(DESK_HZ)[0].begin);
        let apology = heard.part(agent + ms(300)..desk);
        assert!(apology.loud_spans().iter().map(|span| span.length()).sum::<std::time::Duration>() > ms(1500), "{leg}");
        asterisk.wait_empty(SOON).await;
    }
}

crate::scenes! {
    real:
        the_caller_hangs_up,
        the_dialplan_ends_the_call_by_a_limit_of_its_own,
        a_transfer_comes_after_the_last_words_and_rings_until_somebody_answers,
        a_transfer_to_a_place_that_is_missing_leaves_the_caller_with_the_agent;
    both:
        the_agent_says_goodbye_and_hangs_up_after_it_was_heard,
        the_dialplan_takes_the_caller_on_when_its_limit_is_over,
        a_caller_who_hangs_up_before_the_dialplan_s_limit_has_hung_up,
        a_transfer_keeps_the_callers_name_and_number,
        a_caller_without_an_agent_hears_a_sentence_and_then_a_human;
}
