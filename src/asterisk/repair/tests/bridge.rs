//! Calls whose bridge is taken from them, or who are taken out of it.

use super::*;
use crate::asterisk::{events::AriState, setup::Wish};
use tokio::sync::watch;

impl Stage {
    /// The events socket is lost; it is back, and what was missed is known.
    async fn gap(&mut self) {
        let upgrades = self.fake.now().upgrades;
        self.fake.now().cut();
        self.fake.until("another connection", |fake| fake.upgrades > upgrades).await;
        self.reaches(AriState::Up).await;
    }
}

impl Standing {
    fn bridge(&self) -> String {
        self.stage.ari.names().bridge(self.plan.call)
    }

    /// How often it was asked who is in it.
    fn asked_for_bridge(&self) -> usize {
        let asked = format!("GET bridges/{}", self.bridge());
        self.stage.fake.now().requests.iter().filter(|request| **request == asked).count()
    }

    /// Nobody tells of it.
    fn loses(&self, who: &str) {
        let bridge = self.bridge();
        self.stage.fake.now().bridges.get_mut(&bridge).unwrap().remove(who);
    }

    /// Caller and the `number`th media channel after the first are together, and nobody finds a fault with that.
    async fn is_whole(&mut self, number: usize, why: &str) {
        let media = self.stage.ari.names().next_media_channel(self.plan.call, number);
        assert_eq!(self.members(), ["caller".to_owned(), media], "{why}");
        self.stage.gap().await;
        self.is_left_alone(why).await;
    }
}

/// T17: in the gap.
#[tokio::test]
async fn a_bridge_or_a_place_in_it_that_was_lost_while_no_event_came_is_noticed_and_the_call_put_together_again() {
    for lost in ["the bridge", "the caller", "the media channel"] {
        let mut call = Standing::over(Transport::AudioSocket).await;
        call.stage.gap().await;
        call.is_left_alone("a whole call").await;
        let media = call.stage.ari.names().media_channel(call.plan.call);
        // Nobody hears it: not even the end of the bridge.
        match lost {
            "the bridge" => _ = call.stage.fake.now().bridges.remove(&call.bridge()),
            "the caller" => call.loses("caller"),
            _ => call.loses(&media),
        }
        call.stage.gap().await;
        assert_eq!(call.event().await, Some(ChannelEvent::MediaGone(Gone::Unbridged)), "{lost}");
        // Once: until it is seen to, nobody looks for it again.
        let asked = call.asked_for_bridge();
        call.stage.gap().await;
        assert_eq!(call.asked_for_bridge(), asked, "{lost}");
        call.is_left_alone(lost).await;
        call.is_repaired(lost).await;
        call.is_whole(1, lost).await;
        call.end().await;
    }
}

/// Asterisk does not tell whose channels are in a bridge that it is removed; the path is found silent.
#[tokio::test]
async fn a_bridge_that_somebody_removes_is_made_again_by_the_repair_as_often_as_it_takes() {
    let mut call = Standing::over(Transport::Rtp).await;
    for number in 1..=2 {
        assert!(call.stage.fake.now().bridges.remove(&call.bridge()).is_some());
        call.is_repaired("silence").await;
        call.is_whole(number, "a bridge of the same name").await;
    }
    call.end().await;
}

/// Whatever the fault was: a path that is silent since its bridge is gone is found silent first where no event comes.
#[tokio::test]
async fn every_repair_puts_a_caller_who_is_in_no_bridge_back_but_not_one_who_is_on_the_way_elsewhere() {
    let mut call = Standing::over(Transport::Rtp).await;
    call.loses("caller");
    call.is_repaired("silence").await;
    call.is_whole(1, "the caller was put back").await;
    let media = call.stage.ari.names().next_media_channel(call.plan.call, 2);
    let dialling = call.stage.router.dial(call.plan.call, 1);
    call.loses("caller");
    call.is_repaired("a media channel that ended while others rang").await;
    assert_eq!(call.members(), [media], "the caller may be with somebody by now");
    drop(dialling);
    call.end().await;
}

/// T17: what is as it should be.
#[tokio::test]
async fn a_caller_who_is_not_in_the_bridge_on_purpose_is_no_fault() {
    let mut call = Standing::over(Transport::AudioSocket).await;
    let names = call.stage.ari.names().clone();
    let dialling = call.stage.router.dial(call.plan.call, 1);
    call.loses("caller");
    call.stage.gap().await;
    call.is_left_alone("connected with whoever was called").await;
    call.stage.ari.add_channels(call.plan.call, &["caller"]).await.unwrap();
    drop(dialling);

    let bridge = call.leg.registration().bridge();
    bridge.is_left();
    call.loses("caller");
    call.stage.gap().await;
    call.is_left_alone("on the way to the dialplan").await;
    bridge.is_joined_again(&names.media_channel(call.plan.call));
    call.stage.gap().await;
    assert_eq!(call.event().await, Some(ChannelEvent::MediaGone(Gone::Unbridged)), "they should be back by now");
    call.end().await;
}

#[tokio::test]
async fn a_call_that_still_rings_has_nobody_in_its_bridge_and_nothing_lost() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let mut arrival = stage.caller().await;
    let (wish, wished) = watch::channel(Wish::Ring);
    let (ari, fake) = (stage.ari.clone(), stage.fake.clone());
    let setting_up = set_up(&ari, &ports, arrival.registration, plan(Transport::Rtp), wished);
    let (up, ()) = tokio::join!(setting_up, async {
        fake.until("an open audio path", |fake| fake.open_sockets == 1).await;
        stage.gap().await;
        wish.send_replace(Wish::Answer);
    });
    let (leg, path) = up.unwrap();
    let quiet = timeout(Duration::from_millis(50), arrival.events.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    leg.tear_down(Ending::HangUp, path).await;
}

#[tokio::test]
async fn a_bridge_that_was_made_again_in_vain_is_removed_again() {
    let mut call = Standing::over(Transport::AudioSocket).await;
    let bridge = call.bridge();
    call.stage.fake.now().bridges.remove(&bridge);
    call.stage.fake.now().faults.insert("POST addChannel", 500);
    assert_eq!(call.repair().await.map(drop), Err(SetupStep::Bridge));
    assert!(call.stage.fake.now().requests.contains(&format!("POST bridges/{bridge}")), "it was made");
    assert!(call.stage.fake.now().bridges.is_empty());
    call.end().await;
}
