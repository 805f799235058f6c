//! Callers who put the call on hold.

use crate::calls::{
    AGENT_HZ, SOON,
    kit::{asterisk::Asterisk, phone::Phone, world},
    ms, pbx,
    repairs::{ari, dial, wait_held},
};
use reqwest::Method;
use tokio::time::sleep;

/// An agent that speaks for a second, and a caller who is hung up on when they have said nothing for another one.
const BRIEF: &str = "- tone: { hertz: 440, for: 1s }\n- silence";
const IMPATIENT: &str = "    no_input: { after: 1s, prompts: 0 }\n";

async fn held(asterisk: &Asterisk) -> (Phone, String) {
    let mut phone = dial(asterisk).await;
    phone.hold().await;
    let channel = wait_held(asterisk).await;
    (phone, channel)
}

/// The call stays for three times as long as a caller who is there may be silent, and its record tells of the hold.
async fn a_caller_who_has_the_call_on_hold_is_not_missed() {
    let (asterisk, offhook) = pbx(BRIEF, IMPATIENT).await;
    let (_phone, channel) = held(&asterisk).await;
    offhook.wait_logged("the caller has the call on hold").await;
    sleep(ms(4_000)).await;
    offhook.wait_active(1, SOON).await;
    ari(&asterisk, Method::DELETE, &format!("channels/{channel}")).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

async fn a_caller_who_takes_the_call_up_again_hears_the_agent() {
    let (asterisk, offhook) = pbx(BRIEF, "").await;
    let (mut phone, _) = held(&asterisk).await;
    offhook.wait_logged("the caller has the call on hold").await;
    sleep(ms(4_000)).await;
    phone.resume().await;
    offhook.wait_logged("the caller has taken the call up again").await;
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

/// A real phone may crash when it is told that it holds the call, so that this scene has the emulated one alone.
#[test]
fn a_caller_who_takes_the_call_up_again_hears_the_agent_of_an_emulated_exchange() {
    world::emulated(a_caller_who_takes_the_call_up_again_hears_the_agent);
}

crate::scenes! {
    real:
        a_caller_who_has_the_call_on_hold_is_not_missed;
}
