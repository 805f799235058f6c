//! The scene that `tests/kit/world.rs` shows to those who write one.

use crate::calls::{
    AGENT_HZ, SOON,
    kit::{audio::silence, phone::Phone},
    ms, pbx,
};

async fn a_key_that_is_pressed_is_counted() {
    let (asterisk, offhook) = pbx("- tone: { hertz: 440, for: 60s }", "").await;
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    phone.dtmf('5').await;
    offhook.wait_active_where(|call| call["counts"]["keys"] == 1, SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

crate::scenes! {
    both: a_key_that_is_pressed_is_counted;
}
