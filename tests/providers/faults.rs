//! What breaks, and what the caller hears of it.

use crate::{
    desk::{APOLOGY_HZ, Desk},
    ms,
    support::vendor::{Dialect, Order, Saying, Scenario, Vendor, hertz},
    tools::greeted,
};
use offhook::call::{AgentLoss, EndReason};

pub async fn noise_is_survived<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    for saying in [Saying::Unknown, Saying::Malformed, Saying::Huge(2 << 20), Saying::Ping] {
        vendor.order(1, Order::Say(saying));
    }
    let asked = caller.now();
    vendor.order(1, Order::Speak);
    caller.hears_from(asked, hertz(1), ms(700)).await;
    assert!(desk.metric("offhook_provider_noise_total") > 0.0, "{}", desk.engine.metrics().text());
    desk.ends_with(&caller).await;
    assert_eq!(vendor.sessions(), 1);
    vendor.is_content();
}

pub async fn a_refused_key_is_told_and_not_tried_again<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::all(D::refuses_a_key())).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.is_hung_up_on().await;
    assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, ms(0))) >= ms(600), "the apology");
    assert_eq!(desk.end_reason().await, EndReason::AgentLost(AgentLoss::Unauthorized));
    assert_eq!(vendor.sessions(), 1);
}
