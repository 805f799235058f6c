//! Asterisk at its worst: bursts, answers that do not come, clean-ups that fail, an application that is taken over.

use super::*;
use crate::{
    asterisk::{
        ari::Fault,
        fake::{APP, Answers, FakeAri, Stage, fast},
    },
    facts::CallId,
};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(5);

async fn next(events: &mut CallEvents) -> Option<ChannelEvent> {
    timeout(SOON, events.next()).await.expect("an event in time")
}

fn key(channel: &str, digit: char) -> serde_json::Value {
    json!({ "type": "ChannelDtmfReceived", "digit": digit, "channel": { "id": channel } })
}

// ---- Bursts and order ----

/// T13: forty calls at once.
#[tokio::test]
async fn in_a_burst_of_a_thousand_events_every_call_hears_its_own_in_order_and_its_end_last() {
    const CALLS: usize = 40;
    const KEYS: &str = "0123456789*#";
    let mut stage = Stage::up().await;
    let mut arrivals = Vec::new();
    for call in 0..CALLS {
        stage.fake.now().call_in(&format!("caller-{call}"));
        arrivals.push(stage.arrival().await);
    }
    {
        let mut fake = stage.fake.now();
        for digit in KEYS.chars() {
            for call in 0..CALLS {
                let name = format!("caller-{call}");
                fake.tell(&key(&name, digit));
                fake.tell(&json!({ "type": "ChannelVarset", "channel": { "id": name }, "variable": "X", "value": "" }));
            }
        }
        for call in 0..CALLS {
            fake.hang_up(&format!("caller-{call}"));
        }
    }
    for arrival in &mut arrivals {
        for digit in KEYS.chars() {
            assert_eq!(next(&mut arrival.events).await, Some(ChannelEvent::Digit(digit)));
        }
        assert_eq!(next(&mut arrival.events).await, Some(ChannelEvent::CallerGone(Gone::Left)));
        assert_eq!(next(&mut arrival.events).await, None);
    }
    drop(arrivals);
    assert_eq!((stage.router.len(), stage.fake.now().upgrades), (0, 1));
}

/// T5: Asterisk tells no `ChannelDestroyed` of a channel that the dialplan sent in.
#[tokio::test]
async fn the_caller_s_stasis_end_is_the_end_of_the_call_and_needs_no_other_event() {
    let mut stage = Stage::up().await;
    let mut arrival = stage.caller().await;
    stage.fake.now().tell(&json!({ "type": "StasisEnd", "channel": { "id": "caller" } }));
    assert_eq!(next(&mut arrival.events).await, Some(ChannelEvent::CallerGone(Gone::Released)), "nobody hung it up");
    assert_eq!(next(&mut arrival.events).await, None);
}

// ---- Requests ----

/// T15: not even one that may not be made twice.
#[tokio::test]
async fn connections_that_asterisk_closed_while_they_were_idle_cost_no_request() {
    let mut stage = Stage::up().await;
    stage.fake.now().closes_idle = true;
    stage.caller().await;
    for number in 0..20 {
        stage.ari.set_variable("caller", "X", &number.to_string()).await.unwrap();
        // Long enough for the close to be seen, as it is on a connection that idles.
        tokio::time::sleep(Duration::from_millis(10)).await;
        stage.ari.send_digits("caller", "1").await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let fake = stage.fake.now();
    assert_eq!(fake.channels["caller"].digits, "1".repeat(20), "each once, though none may be sent a second time");
}

/// T14: it ends in time.
#[tokio::test]
async fn an_answer_that_never_comes_ends_the_request_and_nothing_is_claimed_of_it() {
    let mut stage = Stage::up().await;
    stage.caller().await;
    stage.fake.now().answers.insert("POST dtmf", Answers::Never);
    let began = tokio::time::Instant::now();
    let error = stage.ari.send_digits("caller", "1").await.unwrap_err();
    assert!(matches!(error.fault, Fault::OutcomeUnknown(_)), "{error}");
    assert!(began.elapsed() < crate::asterisk::ari::REQUEST_MAX + Duration::from_secs(2));
    assert_eq!(stage.fake.now().channels["caller"].digits, "1", "it was done once, and not again");
    stage.ari.send_digits("caller", "2").await.unwrap();
}

// ---- What a clean-up leaves ----

/// T18: channels and bridges.
#[tokio::test]
async fn what_could_not_be_removed_is_removed_as_soon_as_asterisk_lets_it_go() {
    let stage = Stage::up().await;
    let call = CallId::random();
    let (media, bridge) = (stage.ari.names().media_channel(call), stage.ari.names().bridge(call));
    let no_media: &'static str = format!("DELETE {media}").leak();
    let no_bridge: &'static str = format!("DELETE {bridge}").leak();
    {
        let mut fake = stage.fake.now();
        fake.channels.insert(media.clone(), Default::default());
        fake.bridges.insert(bridge.clone(), Default::default());
        fake.faults.extend([(no_media, 500), (no_bridge, 0)]);
    }
    assert!(stage.ari.hang_up(&media, "normal").await.is_err());
    assert!(stage.ari.delete_bridge(&bridge).await.is_err());
    let tries = |fake: &crate::asterisk::fake::Asterisk| {
        fake.requests.iter().filter(|request| request.contains("media")).count()
    };
    stage.fake.until("tried again", |fake| tries(fake) >= 3).await;
    stage.fake.now().faults.clear();
    stage.fake.until("gone", |fake| fake.channels.is_empty() && fake.bridges.is_empty()).await;
    assert_eq!(stage.fake.now().upgrades, 1, "without a reconnect");
    let removed = |kind| stage.ari.counters().orphans_removed.with_label_values(&[kind]).get();
    stage.fake.until("counted", |_| removed("channel") >= 1 && removed("bridge") >= 1).await;
}

/// T18: callers.
#[tokio::test]
async fn a_caller_whom_nobody_could_hang_up_or_send_back_is_offered_again() {
    let mut stage = Stage::up().await;
    let first = stage.caller().await;
    stage.fake.now().faults.extend([("POST continue", 500), ("DELETE caller", 500)]);
    assert!(crate::asterisk::leg::decline(&stage.ari, "caller", "FULL").await.is_err());
    drop(first);
    stage.fake.now().faults.clear();
    let again = stage.arrival().await;
    assert!(again.orphan && again.registration.caller() == "caller");
}

/// T18: and nothing else.
#[tokio::test]
async fn tidying_up_touches_no_running_call() {
    let mut stage = Stage::up().await;
    let arrival = stage.caller().await;
    let (call, other) = (CallId::random(), CallId::random());
    let (media, left) = (stage.ari.names().media_channel(call), stage.ari.names().media_channel(other));
    arrival.registration.expect_media(&media);
    for id in [&media, &left] {
        stage
            .fake
            .now()
            .channels
            .insert(id.clone(), crate::asterisk::fake::Channel { in_stasis: true, ..Default::default() });
    }
    stage.fake.now().bridges.insert(stage.ari.names().bridge(call), Default::default());
    stage.fake.now().tell(&json!({ "type": "StasisStart", "channel": { "id": media } }));
    arrival.registration.media_here().await.unwrap();
    stage.ari.untidy();
    stage.fake.until("tidy", |fake| !fake.channels.contains_key(&left)).await;
    let fake = stage.fake.now();
    assert!(fake.channels.contains_key(&media) && fake.channels.contains_key("caller") && fake.bridges.len() == 1);
    assert!(!arrival.registration.caller_is_gone());
}

// ---- Another engine of our name ----

/// An engine that waits for a moment only, and whose application was taken.
async fn replaced() -> (Stage, crate::asterisk::events::Arrival) {
    let fake = FakeAri::start().await;
    let config = fake.config();
    let timing = Timing { replaced_wait: Duration::from_millis(300), ping_every: Duration::from_millis(20), ..fast() };
    let mut stage = Stage::attach_with(fake, &config, timing);
    stage.reaches(AriState::Up).await;
    let arrival = stage.caller().await;
    stage.fake.now().tell(&json!({ "type": "ApplicationReplaced", "application": APP }));
    stage.reaches(AriState::Down(Loss::Replaced)).await;
    (stage, arrival)
}

/// T12: ours are asked for.
#[tokio::test]
async fn a_caller_who_leaves_while_another_engine_has_the_application_ends_their_call() {
    let (stage, mut arrival) = replaced().await;
    stage.fake.now().channels.remove("caller");
    assert_eq!(next(&mut arrival.events).await, Some(ChannelEvent::CallerGone(Gone::Lost)));
}

/// T12: its calls are spared.
#[tokio::test]
async fn the_application_is_taken_back_when_the_other_engine_has_no_calls_and_ours_go_on() {
    let (mut stage, arrival) = replaced().await;
    let media = stage.ari.names().media_channel(CallId::random());
    stage.fake.now().channels.insert(media.clone(), Default::default());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stage.fake.now().upgrades, 1, "the other engine's call is spared");
    assert!(stage.fake.now().channels.contains_key(&media));
    stage.fake.now().channels.remove(&media);
    stage.reaches(AriState::Up).await;
    assert!(!arrival.registration.caller_is_gone());
    assert_eq!(stage.fake.now().upgrades, 2);
}

/// T12: two that live do not take it from each other in turns, whether they have calls or not.
#[tokio::test]
async fn the_application_is_left_to_an_engine_that_lives_and_taken_soon_after_its_last_word() {
    let (mut stage, _arrival) = replaced().await;
    stage.fake.now().other_beats = true;
    let looks = stage.fake.now().looks;
    stage
        .fake
        .until("looks for much longer than one that says nothing is spared", |fake| fake.looks > looks + 60)
        .await;
    assert_eq!(stage.fake.now().upgrades, 1, "it lives");
    // It crashed: its calls are still there.
    let media = stage.ari.names().media_channel(CallId::random());
    stage.fake.now().channels.insert(media, Default::default());
    stage.fake.now().other_beats = false;
    let at = tokio::time::Instant::now();
    stage.reaches(AriState::Up).await;
    assert!(at.elapsed() < Duration::from_secs(2), "not after the long wait of one that never said anything");
}

/// T12: and at once where nothing of it is left.
#[tokio::test]
async fn an_application_that_is_gone_is_taken_at_once() {
    let fake = FakeAri::start().await;
    let config = fake.config();
    let mut stage = Stage::attach(fake, &config);
    stage.reaches(AriState::Up).await;
    stage.fake.now().tell(&json!({ "type": "ApplicationReplaced", "application": APP }));
    stage.reaches(AriState::Down(Loss::Replaced)).await;
    stage.fake.now().application_is_gone = true;
    stage.reaches(AriState::Up).await;
}

/// T12: not for ever.
#[tokio::test]
async fn what_looks_like_another_engine_s_call_for_very_long_is_taken_for_its_remains() {
    let (mut stage, _arrival) = replaced().await;
    let media = stage.ari.names().media_channel(CallId::random());
    stage.fake.now().channels.insert(media.clone(), Default::default());
    stage.reaches(AriState::Up).await;
    stage.fake.until("cleared away", |fake| !fake.channels.contains_key(&media)).await;
}
