//! Callers who are sent to a place of the dialplan.

use super::*;
use crate::asterisk::fake::Channel;
use serde_json::json;

#[tokio::test]
async fn a_transferred_caller_leaves_ringing_and_the_rest_is_cleared_away() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let (leg, path, mut events) = standing(&mut stage, &ports).await;
    let _transferee = leg.transfer(&destination()).await.unwrap();
    {
        let fake = stage.fake.now();
        let caller = &fake.channels["caller"];
        let place = serde_json::json!({ "context": "desk", "extension": "100", "priority": 1 });
        assert!(caller.ringing);
        assert_eq!(caller.continued, Some(place));
        assert_eq!(caller.variables[leg::STATUS_VARIABLE], leg::TRANSFERRED);
    }
    assert_eq!(events.next().await, Some(ChannelEvent::CallerGone(Gone::Released)));
    leg.tear_down(Ending::CallerGone, path).await;
    assert_clean(&stage, &ports, "transfer").await;
    assert!(stage.fake.now().channels.contains_key("caller"));
}

/// T16: the call goes on.
#[tokio::test]
async fn a_transfer_that_is_refused_leaves_the_call_as_it_was() {
    for status in [404, 409, 500, 0] {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        let (leg, path, _events) = standing(&mut stage, &ports).await;
        stage.fake.now().faults.insert("POST continue", status);
        assert!(leg.transfer(&destination()).await.is_err(), "{status}");
        {
            let fake = stage.fake.now();
            assert!(fake.bridges[&stage.ari.names().bridge(leg.call())].contains("caller"), "{status}");
            assert!(!fake.channels["caller"].ringing, "{status}");
            assert_eq!(fake.channels["caller"].variables[leg::STATUS_VARIABLE], "", "{status}");
            assert!(!fake.channels["caller"].subscribed, "{status}");
        }
        leg.tear_down(Ending::HangUp, path).await;
        assert_clean(&stage, &ports, "refused transfer").await;
    }
}

/// T14: by the event, or by asking.
#[tokio::test]
async fn a_transfer_that_happened_and_whose_answer_is_lost_has_happened() {
    for told in [true, false] {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        let (leg, path, _events) = standing(&mut stage, &ports).await;
        stage.fake.now().answers.insert("POST continue", Answers::Lost);
        if !told {
            // Not even by the event.
            stage.fake.now().cut();
        }
        let transferee = leg.transfer(&destination()).await.unwrap();
        assert_eq!(transferee.is_some(), told, "told by the event: {told}");
        leg.tear_down(Ending::CallerGone, path).await;
        let fake = stage.fake.now();
        assert!(fake.channels["caller"].continued.is_some(), "told by the event: {told}");
    }
}

#[tokio::test]
async fn a_transfer_to_a_place_the_dialplan_lacks_is_not_tried() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let (leg, path, _events) = standing(&mut stage, &ports).await;
    stage.fake.now().missing_places = true;
    assert_eq!(leg.transfer(&destination()).await.err(), Some(TransferError::NoSuchPlace));
    assert!(stage.fake.now().channels["caller"].continued.is_none());
    leg.tear_down(Ending::HangUp, path).await;
}

/// Caller at the place, and who follows them.
async fn at_the_place(stage: &mut Stage, ports: &Ports) -> Transferee {
    let (leg, path, _events) = standing(stage, ports).await;
    let transferee = leg.transfer(&destination()).await.unwrap();
    leg.tear_down(Ending::CallerGone, path).await;
    let channel = stage.fake.now().channels.remove("caller").unwrap();
    assert!(channel.subscribed && !channel.in_stasis);
    stage.fake.now().channels.insert("caller".into(), channel);
    transferee.expect("Asterisk tells of the caller")
}

#[tokio::test]
async fn a_place_that_hangs_up_with_an_error_is_told_with_its_cause() {
    for (cause, failure) in [(21, Some(21)), (17, Some(17)), (38, Some(38)), (16, None), (0, None)] {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        let transferee = at_the_place(&mut stage, &ports).await;
        stage.fake.now().is_hung_up_on("caller", cause);
        assert_eq!(transferee.failure().await, failure);
        assert!(!stage.router.knows("caller"), "nothing is left of it");
    }
}

/// Whatever the channel ends with afterwards.
#[tokio::test]
async fn a_caller_who_hangs_up_is_answered_or_comes_back_was_not_hung_up_on() {
    for told in [
        json!({ "type": "ChannelHangupRequest", "channel": { "id": "caller" } }),
        json!({ "type": "Dial", "dialstatus": "ANSWER", "caller": { "id": "caller" }, "peer": { "id": "ann" } }),
        json!({ "type": "StasisStart", "args": [], "channel": { "id": "caller", "state": "Up" } }),
    ] {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        let transferee = at_the_place(&mut stage, &ports).await;
        stage.fake.now().tell(&told);
        stage.fake.now().is_hung_up_on("caller", 21);
        assert_eq!(transferee.failure().await, None, "{told}");
    }
}

/// Asterisk is not asked to tell of them for ever, and neither is an engine that stops.
#[tokio::test]
async fn a_caller_who_is_not_followed_any_more_is_nobody_s_business() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let transferee = at_the_place(&mut stage, &ports).await;
    assert!(stage.router.knows("caller"), "it is not taken for a stranded one");
    drop(transferee);
    stage.fake.until("the subscription is taken back", |fake| !fake.channels["caller"].subscribed).await;
    assert!(!stage.router.knows("caller"));
}

#[tokio::test]
async fn a_transfer_goes_through_where_asterisk_will_not_tell_what_becomes_of_it() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let (leg, path, _events) = standing(&mut stage, &ports).await;
    stage.fake.now().faults.insert("POST subscription", 500);
    assert!(leg.transfer(&destination()).await.unwrap().is_none());
    assert!(stage.fake.now().channels["caller"].continued.is_some());
    leg.tear_down(Ending::CallerGone, path).await;
    assert_clean(&stage, &ports, "not followed").await;
}

/// An engine that was killed took no subscription back: the channel is in our application's list, and not in Stasis.
#[tokio::test]
async fn a_caller_whom_an_engine_that_was_killed_had_sent_away_stays_where_they_are() {
    let fake = FakeAri::start().await;
    fake.now().channels.insert("caller".into(), Channel { subscribed: true, answered: true, ..Channel::default() });
    let config = fake.config();
    let mut stage = Stage::attach(fake, &config);
    let arrival = stage.arrival().await;
    assert!(arrival.orphan);
    assert_eq!(leg::decline(&stage.ari, arrival.registration.caller(), "RESTARTED").await, Ok(()));
    assert!(stage.fake.now().channels.contains_key("caller"), "they are not hung up");
}
