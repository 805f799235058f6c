use super::*;
use crate::{
    asterisk::{
        ari::{AriClient, AriCounters, Fault},
        fake::{APP, FakeAri, Manner, Stage},
    },
    facts::CallId,
};
use serde_json::json;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// A hang is a failure too.
async fn next(events: &mut CallEvents) -> Option<ChannelEvent> {
    timeout(Duration::from_secs(5), events.next()).await.expect("an event in time")
}

fn reconnects(stage: &Stage, reason: Loss) -> u64 {
    stage.ari.counters().reconnects.with_label_values(&[reason.label()]).get()
}

#[tokio::test]
async fn a_wrong_password_is_told_apart_from_everything_else() {
    let fake = FakeAri::start().await;
    let mut config = fake.config();
    config.password = "wrong".to_owned().into();
    let mut stage = Stage::attach(fake, &config);
    stage.reaches(AriState::Down(Loss::Unauthorized)).await;
    assert_eq!(stage.ari.answer("1.1").await.unwrap_err().fault, Fault::Unauthorized);
    assert!(reconnects(&stage, Loss::Unauthorized) >= 1);
}

#[tokio::test]
async fn an_asterisk_that_is_not_there_yet_is_waited_for() {
    let fake = FakeAri::start().await;
    let (address, config) = (fake.address, fake.config());
    drop(fake);
    let counters = AriCounters::new(&prometheus::Registry::new()).unwrap();
    let ari = AriClient::new(&config, counters).unwrap();
    let refused = ari.about().await.unwrap_err();
    assert!(matches!(refused.fault, Fault::Unreachable(_)), "{refused}");
    assert!(!refused.to_string().contains(&address.to_string()), "{refused}");

    let mut stage = Stage::attach(FakeAri::start().await, &config);
    stage.reaches(AriState::Down(Loss::Unreachable)).await;
    stage.fake = FakeAri::start_at(address).await;
    stage.reaches(AriState::Up).await;
    stage.caller().await;
}

/// T9: closed and broken.
#[tokio::test(start_paused = true)]
async fn a_server_that_closes_politely_in_a_loop_is_asked_a_few_times_only() {
    for (manner, loss) in [(Manner::ClosesPolitely, Loss::Closed), (Manner::Drops, Loss::Dropped)] {
        let fake = FakeAri::start().await;
        fake.now().manner = manner;
        let config = fake.config();
        let mut stage = Stage::attach(fake, &config);
        stage.reaches(AriState::Down(loss)).await;
        sleep(Duration::from_millis(500)).await;
        // 10 + 20 + 40 + 80 + 160 + 200 ms, each at least half of that: 255 ms for six waits.
        let upgrades = stage.fake.now().upgrades;
        assert!((3..=10).contains(&upgrades), "{upgrades} attempts in half a second");
    }
}

/// T10: noticed.
#[tokio::test]
async fn a_half_open_connection_is_noticed_by_its_missing_pongs() {
    let fake = FakeAri::start().await;
    fake.now().manner = Manner::Deaf;
    let config = fake.config();
    let mut stage = Stage::attach(fake, &config);
    stage.reaches(AriState::Down(Loss::TimedOut)).await;
    stage.fake.now().manner = Manner::Good;
    stage.reaches(AriState::Up).await;
}

/// T10: left alone.
#[tokio::test(start_paused = true)]
async fn a_quiet_but_living_connection_stays() {
    let stage = Stage::up().await;
    sleep(crate::asterisk::fake::fast().dead_after * 4).await;
    assert_eq!(*stage.state.borrow(), AriState::Up);
    assert_eq!(stage.fake.now().upgrades, 1);
}

#[tokio::test]
async fn a_refused_upgrade_is_told_as_such() {
    let fake = FakeAri::start().await;
    fake.now().manner = Manner::RefusesUpgrade;
    let config = fake.config();
    Stage::attach(fake, &config).reaches(AriState::Down(Loss::Refused)).await;
}

/// T12: no fight.
#[tokio::test(start_paused = true)]
async fn a_replaced_application_is_not_fought_for() {
    let mut stage = Stage::up().await;
    stage.fake.now().tell(&json!({ "type": "ApplicationReplaced", "application": APP }));
    stage.reaches(AriState::Down(Loss::Replaced)).await;
    // Less than `replaced_wait`, of which chance takes up to half.
    sleep(Duration::from_secs(20)).await;
    assert_eq!(stage.fake.now().upgrades, 1);
}

/// As an installation's own dialler does it: `POST /channels/create`, then `/dial`.
#[tokio::test]
async fn a_channel_that_calls_out_is_a_call_once_it_is_answered() {
    let mut stage = Stage::up().await;
    let of = |id: &str, kind: &str, state: &str| json!({ "type": kind, "channel": { "id": id, "state": state } });
    for channel in ["lead", "nobody"] {
        stage.fake.now().channels.insert(channel.into(), crate::asterisk::fake::in_stasis());
        stage.fake.now().tell(&of(channel, "StasisStart", "Down"));
        stage.fake.now().tell(&of(channel, "ChannelStateChange", "Ringing"));
    }
    // Events that the engine has not read yet would be lost with the socket.
    let router = stage.router.clone();
    stage.fake.until("both known", |_| ["lead", "nobody"].iter().all(|channel| router.knows(channel))).await;
    // Not a stranded caller either.
    let upgrades = stage.fake.now().upgrades;
    stage.fake.now().cut();
    stage.fake.until("another connection", |fake| fake.upgrades > upgrades).await;
    stage.reaches(AriState::Up).await;
    assert!(stage.arrivals.try_recv().is_err(), "there is nobody to talk with");
    stage.fake.now().hang_up("nobody");
    stage.fake.now().tell(&of("lead", "ChannelStateChange", "Up"));
    let arrival = stage.arrival().await;
    assert_eq!((arrival.registration.caller(), arrival.answered, arrival.outbound), ("lead", true, true));
    assert!(stage.fake.now().requests.iter().all(|request| !request.contains("lead")), "neither rung nor answered");
    assert!(stage.arrivals.try_recv().is_err(), "nobody answered the other");
}

#[tokio::test]
async fn an_answer_to_a_channel_that_calls_out_is_found_when_events_flow_again() {
    let mut stage = Stage::up().await;
    stage.fake.now().channels.insert("lead".into(), crate::asterisk::fake::in_stasis());
    stage.fake.now().tell(&json!({ "type": "StasisStart", "channel": { "id": "lead", "state": "Ringing" } }));
    stage.caller().await;
    stage.fake.now().cut();
    stage.fake.now().channels.entry("lead".into()).and_modify(|channel| channel.answered = true);
    assert_eq!(stage.arrival().await.registration.caller(), "lead");
}

/// As Asterisk 22.10 tells of an attended transfer by a telephone: the new channel, which it has put into the bridge, has no
/// arguments, and then the end of the one that it replaces.
#[tokio::test]
async fn a_channel_that_replaces_a_caller_s_continues_their_call() {
    let mut stage = Stage::up().await;
    let mut arrival = stage.caller().await;
    let call = CallId::random();
    arrival.registration.expect_media(&stage.ari.names().media_channel(call));
    stage.ari.create_bridge(call).await.unwrap();
    stage.ari.add_channels(call, &["caller"]).await.unwrap();
    let mut before = "caller";
    // Once, and from there on to somebody else.
    for (next_one, key) in [("carol", '1'), ("dave", '2')] {
        {
            let mut fake = stage.fake.now();
            fake.channels.insert(next_one.into(), crate::asterisk::fake::in_stasis());
            let (channel, replaced) = (json!({ "id": next_one, "state": "Up" }), json!({ "id": before }));
            fake.tell(&json!({ "type": "StasisStart", "args": [], "channel": channel, "replace_channel": replaced }));
            fake.bridges.values_mut().for_each(|members| _ = members.insert(next_one.into()));
            fake.hang_up(before);
            fake.tell(
                &json!({ "type": "ChannelDtmfReceived", "digit": key.to_string(), "channel": { "id": next_one } }),
            );
        }
        assert_eq!(next(&mut arrival.events).await, Some(ChannelEvent::Digit(key)));
        before = next_one;
    }
    assert!(!arrival.registration.caller_is_gone(), "the call goes on");
    assert!(stage.arrivals.try_recv().is_err(), "it is not a new call");
    // After a gap, too: what Asterisk lists is known.
    let upgrades = stage.fake.now().upgrades;
    stage.fake.now().cut();
    stage.fake.until("another connection", |fake| fake.upgrades > upgrades).await;
    stage.reaches(AriState::Up).await;
    assert!(!arrival.registration.caller_is_gone() && stage.arrivals.try_recv().is_err());
    assert_eq!(stage.ari.bridge_members(call).await.unwrap().unwrap(), ["caller"]);
    // What is asked for the caller is asked for who is there.
    stage.ari.send_digits("caller", "5").await.unwrap();
    stage.ari.remove_channel(call, "caller").await.unwrap();
    assert_eq!(stage.fake.now().channels["dave"].digits, "5");
    assert!(stage.fake.now().bridges.values().all(|members| members.is_empty()));
    stage.fake.now().hang_up("dave");
    assert_eq!(next(&mut arrival.events).await, Some(ChannelEvent::CallerGone(Gone::Left)));
}

/// Asks for the next party in the caller's place.
async fn next_party(party: &mut tokio::sync::watch::Receiver<Option<NewParty>>) -> NewParty {
    timeout(Duration::from_secs(5), party.changed()).await.expect("in time").unwrap();
    party.borrow_and_update().clone().expect("somebody")
}

/// A blind transfer: the new channel is in the caller's place before the telephone that it calls has answered. Who that is becomes
/// known later.
#[tokio::test]
async fn a_party_whose_telephone_rings_counts_as_one_who_has_the_call_on_hold() {
    let mut stage = Stage::up().await;
    let arrival = stage.caller().await;
    let (mut held, mut party) = (arrival.registration.held(), arrival.registration.party());
    let told = async |held: &mut tokio::sync::watch::Receiver<bool>, wanted| {
        timeout(Duration::from_secs(5), held.wait_for(|held| *held == wanted)).await.expect("in time").unwrap();
    };
    let of = |kind: &str, id: &str, state: &str| json!({ "type": kind, "channel": { "id": id, "state": state } });
    for (ordinal, next_one, before) in [(1, "carol", "caller"), (2, "dave", "carol")] {
        {
            let mut fake = stage.fake.now();
            fake.channels.insert(next_one.into(), crate::asterisk::fake::in_stasis());
            let mut start = of("StasisStart", next_one, "Down");
            start["replace_channel"] = json!({ "id": before });
            fake.tell(&start);
            fake.hang_up(before);
        }
        told(&mut held, true).await;
        let unknown = NewParty { ordinal, party: crate::facts::Party::default(), presentation: None };
        assert_eq!(next_party(&mut party).await, unknown);
        let names = [("CALLERID%28num%29", "2025550111"), ("CALLERID%28pres%29", "prohib_passed_screen")];
        for (name, value) in names {
            let mut fake = stage.fake.now();
            fake.channels.get_mut(next_one).unwrap().variables.insert(name.into(), value.into());
        }
        if next_one == "carol" {
            stage.fake.now().tell(&of("ChannelCallerId", next_one, "Down"));
            let known = next_party(&mut party).await;
            assert_eq!(known.party.number.reveal().as_deref(), Some("2025550111"));
            assert_eq!((known.ordinal, known.presentation.as_deref()), (ordinal, Some("prohib_passed_screen")));
            assert!(*held.borrow(), "it rings on");
            stage.fake.now().tell(&of("ChannelStateChange", next_one, "Up"));
        } else {
            // Events are lost with the socket.
            stage.fake.now().channels.get_mut(next_one).unwrap().answered = true;
            stage.fake.now().cut();
        }
        told(&mut held, false).await;
    }
    assert_eq!(next_party(&mut party).await.party.number.reveal().as_deref(), Some("2025550111"));
    assert!(!arrival.registration.caller_is_gone() && stage.arrivals.try_recv().is_err(), "it is the same call");
    let changes = |request: &&String| !request.contains("OFFHOOK");
    assert_eq!(stage.fake.now().requests.iter().filter(changes).count(), 0, "nothing of the transfer is undone");
}

#[tokio::test]
async fn garbage_is_counted_and_the_next_event_heard() {
    let mut stage = Stage::up().await;
    for garbage in ["", "{", "\u{0}", "[1,2]", r#"{"type":"StasisStart"}"#] {
        stage.fake.now().say(garbage.into());
    }
    stage.caller().await;
    assert_eq!(stage.ari.counters().events_malformed.get(), 5);
    assert_eq!(stage.fake.now().upgrades, 1);
}

/// T13: in order.
#[tokio::test]
async fn keys_come_in_order_and_the_end_comes_last() {
    let mut stage = Stage::up().await;
    let mut arrival = stage.caller().await;
    for digit in "12#".chars() {
        let digit = json!({ "type": "ChannelDtmfReceived", "digit": digit, "channel": { "id": "caller" } });
        stage.fake.now().tell(&digit);
    }
    stage.fake.now().hang_up("caller");
    for digit in "12#".chars() {
        assert_eq!(next(&mut arrival.events).await, Some(ChannelEvent::Digit(digit)));
    }
    assert_eq!(next(&mut arrival.events).await, Some(ChannelEvent::CallerGone(Gone::Left)));
    assert_eq!(next(&mut arrival.events).await, None);
}

#[tokio::test]
async fn a_phone_that_holds_a_call_is_known_to_until_it_takes_it_up_again() {
    let mut stage = Stage::up().await;
    let arrival = stage.caller().await;
    let mut held = arrival.registration.held();
    assert!(!*held.borrow());
    for (kind, is_held) in [("ChannelHold", true), ("ChannelUnhold", false), ("ChannelHold", true)] {
        stage.fake.now().tell(&json!({ "type": kind, "channel": { "id": "another" }, "musicclass": "default" }));
        stage.fake.now().tell(&json!({ "type": kind, "channel": { "id": "caller" }, "musicclass": "default" }));
        let told = timeout(Duration::from_secs(5), held.wait_for(|held| *held == is_held)).await;
        assert!(told.is_ok(), "{kind}");
    }
}

#[tokio::test]
async fn hold_that_began_or_ended_while_no_events_came_is_known_afterwards() {
    let mut stage = Stage::up().await;
    let arrival = stage.caller().await;
    let mut held = arrival.registration.held();
    for is_held in [true, false] {
        // Nobody tells: the events are lost with the socket.
        let channel = |fake: &FakeAri, held| fake.now().channels.get_mut("caller").unwrap().held = held;
        channel(&stage.fake, Some(is_held));
        stage.fake.now().cut();
        let told = timeout(Duration::from_secs(5), held.wait_for(|held| *held == is_held)).await;
        assert!(told.is_ok(), "held: {is_held}");
    }
    // Where Asterisk cannot tell, the caller is there.
    stage.fake.now().tell(&json!({ "type": "ChannelHold", "channel": { "id": "caller" } }));
    timeout(Duration::from_secs(5), held.wait_for(|held| *held)).await.unwrap().unwrap();
    stage.fake.now().channels.get_mut("caller").unwrap().held = None;
    stage.fake.now().cut();
    timeout(Duration::from_secs(5), held.wait_for(|held| !*held)).await.unwrap().unwrap();
}

/// T13: beyond the limit.
#[tokio::test]
async fn a_flood_of_keys_is_counted_and_does_not_hide_the_end() {
    let mut stage = Stage::up().await;
    let mut arrival = stage.caller().await;
    for _ in 0..500 {
        stage.fake.now().tell(&json!({ "type": "ChannelDtmfReceived", "digit": "1", "channel": { "id": "caller" } }));
    }
    stage.fake.now().hang_up("caller");
    timeout(Duration::from_secs(5), arrival.registration.caller_gone()).await.unwrap();
    let mut digits = 0;
    while next(&mut arrival.events).await == Some(ChannelEvent::Digit('1')) {
        digits += 1;
    }
    let lost = stage.ari.counters().overflow.with_label_values(&["digits"]).get();
    assert_eq!(digits + lost, 500);
    assert!(lost > 0);
}

#[tokio::test]
async fn a_caller_who_comes_in_again_is_a_new_arrival() {
    let mut stage = Stage::up().await;
    let first = stage.caller().await;
    stage.fake.now().hang_up("caller");
    let mut second = stage.caller().await;
    assert!(first.registration.caller_is_gone());
    drop(first);
    assert!(!second.registration.caller_is_gone());
    stage.fake.now().hang_up("caller");
    assert_eq!(next(&mut second.events).await, Some(ChannelEvent::CallerGone(Gone::Left)));
}

#[tokio::test]
async fn callers_the_engine_does_not_take_go_back_to_the_dialplan() {
    let stage = Stage::up().await;
    let calls = router::ARRIVALS + 3;
    for n in 0..calls {
        stage.fake.now().call_in(&format!("caller-{n}"));
    }
    let back = |fake: &crate::asterisk::fake::Asterisk| {
        fake.channels
            .values()
            .filter(|channel| channel.variables.get("OFFHOOK_STATUS").is_some_and(|s| s == "FULL"))
            .count()
    };
    stage
        .fake
        .until("three callers back", |fake| {
            back(fake) == 3
                && !fake.channels.values().any(|c| c.continued.is_none() && c.variables.contains_key("OFFHOOK_STATUS"))
        })
        .await;
    assert_eq!(stage.ari.counters().overflow.with_label_values(&["arrivals"]).get(), 3);
    assert_eq!(stage.router.len(), router::ARRIVALS);
}

/// T17: who left.
#[tokio::test]
async fn after_a_gap_calls_learn_that_their_channels_have_gone() {
    let mut stage = Stage::up().await;
    let mut gone = stage.caller().await;
    stage.fake.now().call_in("other");
    let mut stays = stage.arrival().await;
    {
        let mut fake = stage.fake.now();
        fake.cut();
        fake.hang_up("caller");
    }
    assert_eq!(next(&mut gone.events).await, Some(ChannelEvent::CallerGone(Gone::Lost)));
    stage.reaches(AriState::Up).await;
    assert!(!stays.registration.caller_is_gone());
    stage.fake.now().hang_up("other");
    assert_eq!(next(&mut stays.events).await, Some(ChannelEvent::CallerGone(Gone::Left)));
}

/// T17: the media.
#[tokio::test]
async fn after_a_gap_a_missing_media_channel_is_told_too() {
    let mut stage = Stage::up().await;
    let mut arrival = stage.caller().await;
    let media = stage.ari.names().media_channel(CallId::random());
    arrival.registration.expect_media(&media);
    stage.fake.now().tell(&json!({ "type": "StasisStart", "channel": { "id": media } }));
    arrival.registration.media_here().await.unwrap();
    stage.fake.now().cut();
    assert_eq!(next(&mut arrival.events).await, Some(ChannelEvent::MediaGone(Gone::Lost)));
    assert!(!arrival.registration.caller_is_gone());
}

/// T17: who stands stays.
#[tokio::test]
async fn a_media_channel_still_being_made_is_not_taken_for_lost() {
    let mut stage = Stage::up().await;
    let mut arrival = stage.caller().await;
    arrival.registration.expect_media(&stage.ari.names().media_channel(CallId::random()));
    stage.fake.now().cut();
    stage.fake.until("a second connection", |fake| fake.upgrades == 2).await;
    stage.reaches(AriState::Up).await;
    let waiting = timeout(Duration::from_millis(50), arrival.events.next()).await;
    assert!(waiting.is_err(), "{waiting:?}");
}

/// T17: of an earlier process.
#[tokio::test]
async fn what_an_earlier_process_left_is_cleared_away_and_its_callers_are_offered() {
    let fake = FakeAri::start().await;
    let (names, others) = (crate::asterisk::ari::Names::new(APP), crate::asterisk::ari::Names::new("other"));
    let call = CallId::random();
    {
        let mut fake = fake.now();
        fake.call_in("caller");
        for names in [&names, &others] {
            fake.channels.insert(names.media_channel(call), Default::default());
            fake.bridges.insert(names.bridge(call), Default::default());
        }
        fake.channels.insert("elsewhere".into(), Default::default());
        fake.bridges.insert("conference".into(), Default::default());
    }
    let config = fake.config();
    let mut stage = Stage::attach(fake, &config);
    let arrival = stage.arrival().await;
    assert!(arrival.orphan);
    assert_eq!(arrival.registration.caller(), "caller");
    let (channel, bridge) = (names.media_channel(call), names.bridge(call));
    stage.fake.until("gone", |fake| !fake.channels.contains_key(&channel) && !fake.bridges.contains_key(&bridge)).await;
    let fake = stage.fake.now();
    let channels: Vec<_> = fake.channels.keys().cloned().collect();
    assert_eq!(channels, ["caller".into(), "elsewhere".into(), others.media_channel(call)]);
    let bridges: Vec<_> = fake.bridges.keys().cloned().collect();
    assert_eq!(bridges, ["conference".into(), others.bridge(call)]);
}

/// T10, T17: whoever came in is found.
#[tokio::test]
async fn a_caller_who_comes_in_while_the_connection_is_half_open_is_found_after_the_reconnect_and_offered_once() {
    let fake = FakeAri::start().await;
    // It takes the connection, and nothing ever comes over it.
    fake.now().manner = Manner::Deaf;
    let config = fake.config();
    let mut stage = Stage::attach(fake, &config);
    stage.reaches(AriState::Up).await;
    stage.fake.now().call_in("caller");
    stage.fake.now().manner = Manner::Good;
    let arrival = stage.arrival().await;
    assert_eq!(arrival.registration.caller(), "caller");
    assert!(arrival.orphan, "nobody knows what was said: the dialplan goes on with them");
    assert!(reconnects(&stage, Loss::TimedOut) >= 1);
    // Neither by the reconnect nor by the next.
    stage.reaches(AriState::Up).await;
    stage.fake.now().cut();
    stage.fake.now().call_in("other");
    assert_eq!(stage.arrival().await.registration.caller(), "other");
    assert!(!arrival.registration.caller_is_gone());
}

/// T17: once.
#[tokio::test]
async fn a_caller_who_is_offered_already_is_not_offered_again_after_a_gap() {
    let mut stage = Stage::up().await;
    let first = stage.caller().await;
    stage.fake.now().cut();
    stage.fake.until("a second connection", |fake| fake.upgrades == 2).await;
    stage.reaches(AriState::Up).await;
    stage.fake.now().call_in("other");
    assert_eq!(stage.arrival().await.registration.caller(), "other");
    assert!(!first.registration.caller_is_gone());
}

/// T6: also the late one.
#[tokio::test]
async fn a_media_channel_that_starts_after_its_call_is_removed() {
    let stage = Stage::up().await;
    let media = stage.ari.names().media_channel(CallId::random());
    stage.fake.now().channels.insert(media.clone(), Default::default());
    stage.fake.now().tell(&json!({ "type": "StasisStart", "channel": { "id": media } }));
    stage.fake.until("its removal", |fake| !fake.channels.contains_key(&media)).await;
}

#[tokio::test]
async fn the_socket_ends_when_it_is_told_to() {
    let stage = Stage::up().await;
    let mut arrivals = stage.arrivals;
    stage.stop.cancel();
    // The router is held by the stage; the task's end shows by its last words on the wire.
    drop(stage.router);
    assert!(timeout(Duration::from_secs(5), arrivals.recv()).await.unwrap().is_none());
}

#[tokio::test]
async fn variables_come_in_one_go_and_those_not_set_are_left_out() {
    let mut stage = Stage::up().await;
    stage.caller().await;
    for (name, value) in [("AI_CONTEXT", "sales"), ("AI_AUDIO", "")] {
        stage.ari.set_variable("caller", name, value).await.unwrap();
    }
    let variables = stage.ari.variables("caller", &["AI_CONTEXT", "AI_AUDIO", "AI_PROVIDER"]).await;
    assert_eq!(variables.into_iter().collect::<Vec<_>>(), [("AI_CONTEXT".into(), "sales".into())]);
    assert_eq!(stage.ari.counters().requests_failed.with_label_values(&["read_variable"]).get(), 0);
}

#[test]
fn the_password_shows_up_nowhere() {
    let config = crate::config::AsteriskConfig {
        url: "http://user:leak1@127.0.0.1:1/prefix?x=leak2".into(),
        username: "user".into(),
        password: "leak3".to_owned().into(),
        app: APP.into(),
        keeps_withheld_numbers: false,
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ari = AriClient::new(&config, AriCounters::new(&prometheus::Registry::new()).unwrap()).unwrap();
    let (url, header) = ari.events_endpoint();
    assert_eq!(url.as_str(), "ws://127.0.0.1:1/prefix/ari/events?app=offhook&subscribeAll=false");
    for text in [format!("{ari:?}"), format!("{header:?}"), url.to_string()] {
        assert!(!text.contains("leak"), "{text}");
    }
}
