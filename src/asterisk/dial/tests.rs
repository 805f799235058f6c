use super::*;
use crate::asterisk::{
    events::AriState,
    fake::{Answers, Stage},
    leg::{AriLeg, Ending},
};

/// A call that stands, whose caller is to be connected with these endpoints.
struct Call {
    stage: Stage,
    call: CallId,
    leg: AriLeg,
    dialling: Dialling,
}

impl Call {
    async fn ringing(endpoints: &[&str], limit: Duration) -> Self {
        Self::ringing_where(endpoints, limit, |_, _| ()).await
    }

    /// The same where Asterisk was told how to misbehave when the first endpoint is called.
    async fn ringing_where(endpoints: &[&str], limit: Duration, misbehave: impl Fn(&Stage, &'static str)) -> Self {
        let mut stage = Stage::up().await;
        let arrival = stage.caller().await;
        let call = CallId::random();
        misbehave(&stage, format!("POST {}", stage.ari.names().dialled_channel(call, 0)).leak());
        stage.ari.create_bridge(call).await.unwrap();
        stage.ari.add_channels(call, &["caller"]).await.unwrap();
        let leg = AriLeg::new(stage.ari.clone(), call, arrival.registration);
        let dialling = leg.dial(&Dial {
            group: RingGroup { endpoints: endpoints.iter().map(|&endpoint| endpoint.into()).collect(), limit },
            destination: "sales".into(),
            caller_name: Some("Ada \"<Byron>".to_owned()).into(),
            caller_number: Some("1234".to_owned()).into(),
        });
        Self { stage, call, leg, dialling }
    }

    fn dialled(&self, number: usize) -> String {
        self.stage.ari.names().dialled_channel(self.call, number)
    }

    async fn until_called(&self, numbers: usize) {
        let all: Vec<String> = (0..numbers).map(|number| self.dialled(number)).collect();
        let called = |channels: &std::collections::BTreeMap<String, _>| all.iter().all(|id| channels.contains_key(id));
        self.stage.fake.until("all are called", |fake| called(&fake.channels)).await;
    }

    /// The caller is in this bridge, and nowhere else.
    fn caller_is_in(&self, bridge: &str) {
        let fake = self.stage.fake.now();
        let bridges: Vec<&String> =
            fake.bridges.iter().filter(|(_, members)| members.contains("caller")).map(|(id, _)| id).collect();
        assert_eq!(bridges, [bridge]);
    }

    fn channels(&self) -> Vec<String> {
        self.stage.fake.now().channels.keys().cloned().collect()
    }

    async fn settled(&self) {
        assert!(self.stage.ari.settled(Duration::from_secs(5)).await, "something is still under way");
    }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_first_to_answer_is_connected_with_the_caller_and_the_others_stop_ringing() {
    let mut call = Call::ringing(&["PJSIP/100", "Local/200@office", "PJSIP/300"], LONG).await;
    call.until_called(3).await;
    {
        let fake = call.stage.fake.now();
        let with = fake.channels[&call.dialled(1)].originated.clone().unwrap();
        assert_eq!((&with["endpoint"], &with["app"]), (&"Local/200@office/n".into(), &"offhook".into()));
        assert_eq!(with["callerId"], "\"Ada Byron\" <1234>");
        assert_eq!(with["variables"]["__OFFHOOK_DESTINATION"], "sales");
        assert_eq!(with["variables"]["__OFFHOOK_CALL"], call.call.to_string());
        assert_eq!(with["originator"], "caller");
    }
    call.stage.fake.now().rings(&call.dialled(0));
    assert_eq!(call.dialling.next().await, Progress::Ringing);
    call.stage.fake.now().answers(&call.dialled(1));
    assert_eq!(call.dialling.next().await, Progress::HandedOn);
    call.caller_is_in(&call.stage.ari.names().pair_bridge(call.call));
    let winner = call.dialled(1);
    let Call { stage, leg, call, .. } = call;
    leg.tear_down(Ending::CallerGone, ()).await;
    assert!(stage.ari.settled(Duration::from_secs(5)).await);
    {
        let fake = stage.fake.now();
        assert_eq!(fake.channels.keys().collect::<Vec<_>>(), ["caller", &winner]);
        assert_eq!(fake.bridges.keys().collect::<Vec<_>>(), [&stage.ari.names().pair_bridge(call)]);
    }
    assert_eq!(stage.router.len(), 0, "the call itself is over");
    // Nobody is left alone.
    stage.fake.now().hang_up(&winner);
    stage.fake.until("the caller is let go", |fake| fake.channels.is_empty() && fake.bridges.is_empty()).await;
    assert_eq!(stage.ari.counters().handed_on.get(), 0);
}

#[tokio::test]
async fn two_who_answer_in_the_same_moment_are_one_winner_and_one_who_is_hung_up() {
    let mut call = Call::ringing(&["PJSIP/100", "PJSIP/200"], LONG).await;
    call.until_called(2).await;
    {
        let mut fake = call.stage.fake.now();
        let both = [call.dialled(0), call.dialled(1)];
        both.iter().for_each(|id| fake.answers(id));
    }
    while call.dialling.next().await != Progress::HandedOn {}
    call.settled().await;
    assert_eq!(call.channels().len(), 2, "{:?}", call.channels());
}

/// T14: it is asked whether it rings.
#[tokio::test]
async fn a_telephone_that_rings_though_the_answer_to_the_request_was_lost_may_be_answered() {
    let lost = |stage: &Stage, request| _ = stage.fake.now().answers.insert(request, Answers::Lost);
    let mut call = Call::ringing_where(&["PJSIP/100"], LONG, lost).await;
    call.until_called(1).await;
    call.stage.fake.now().rings(&call.dialled(0));
    assert_eq!(call.dialling.next().await, Progress::Ringing);
    call.stage.fake.now().answers(&call.dialled(0));
    assert_eq!(call.dialling.next().await, Progress::HandedOn);
    call.caller_is_in(&call.stage.ari.names().pair_bridge(call.call));
}

/// T14: it is asked whether it rings.
#[tokio::test]
async fn a_request_that_was_lost_on_its_way_rings_nobody_and_the_caller_does_not_wait() {
    let cut = |stage: &Stage, request| _ = stage.fake.now().faults.insert(request, 0);
    let mut call = Call::ringing_where(&["PJSIP/100"], LONG, cut).await;
    assert_eq!(call.dialling.next().await, Progress::Failed(TransferFault::Unreachable));
    call.caller_is_in(&call.stage.ari.names().bridge(call.call));
}

#[tokio::test]
async fn the_most_telling_reason_is_told_when_nobody_takes_the_call() {
    let cases: [(&[Option<u32>], TransferFault); 5] = [
        (&[Some(17)], TransferFault::Busy),
        (&[Some(21), Some(3)], TransferFault::Refused),
        (&[Some(17), Some(19)], TransferFault::Busy),
        (&[Some(3), None], TransferFault::Unreachable),
        (&[Some(16)], TransferFault::NoAnswer),
    ];
    for (causes, why) in cases {
        let endpoints: Vec<&str> =
            causes.iter().map(|cause| if cause.is_some() { "PJSIP/100" } else { "PJSIP/nobody" }).collect();
        let mut call = Call::ringing(&endpoints, LONG).await;
        call.until_called(causes.iter().flatten().count()).await;
        for (number, cause) in causes.iter().enumerate().filter_map(|(number, cause)| Some((number, (*cause)?))) {
            call.stage.fake.now().refuses(&call.dialled(number), cause);
        }
        assert_eq!(call.dialling.next().await, Progress::Failed(why), "{causes:?}");
        call.caller_is_in(&call.stage.ari.names().bridge(call.call));
        call.settled().await;
        assert_eq!(call.channels(), ["caller"]);
    }
}

#[tokio::test]
async fn after_the_limit_everybody_is_hung_up_and_a_late_answer_too() {
    let mut call = Call::ringing(&["PJSIP/100"], Duration::from_secs(1)).await;
    call.until_called(1).await;
    call.stage.fake.now().rings(&call.dialled(0));
    assert_eq!(call.dialling.next().await, Progress::Ringing);
    assert_eq!(call.dialling.next().await, Progress::Failed(TransferFault::NoAnswer));
    call.settled().await;
    assert_eq!(call.channels(), ["caller"]);
    // The answer was on its way when nobody waited any more.
    let late = call.dialled(0);
    call.stage.fake.now().channels.insert(late.clone(), Default::default());
    call.stage.fake.now().answers(&late);
    call.stage.fake.until("the late one is hung up", |fake| !fake.channels.contains_key(&late)).await;
    call.caller_is_in(&call.stage.ari.names().bridge(call.call));
}

#[tokio::test]
async fn who_gives_up_waiting_leaves_nobody_ringing() {
    let call = Call::ringing(&["PJSIP/100", "PJSIP/200"], LONG).await;
    call.until_called(2).await;
    let Call { stage, dialling, leg, .. } = call;
    drop(dialling);
    stage.fake.until("all are hung up", |fake| fake.channels.len() == 1).await;
    leg.tear_down(Ending::HangUp, ()).await;
    assert!(stage.ari.settled(Duration::from_secs(5)).await);
    assert!(stage.fake.now().channels.is_empty() && stage.fake.now().bridges.is_empty());
}

#[tokio::test]
async fn a_caller_who_leaves_as_somebody_answers_leaves_nobody_alone() {
    // Just before: the bridge is made, the two are put into it, or all is done.
    for later in 0..3 {
        let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
        call.until_called(1).await;
        {
            let mut fake = call.stage.fake.now();
            fake.caller_leaves_at = Some(fake.requests.len() + later);
            let answering = call.dialled(0);
            fake.answers(&answering);
        }
        let _ = call.dialling.next().await;
        call.stage.fake.now().hang_up("caller");
        let Call { stage, leg, .. } = call;
        leg.tear_down(Ending::CallerGone, ()).await;
        stage.fake.until("all are gone", |fake| fake.channels.is_empty() && fake.bridges.is_empty()).await;
        assert_eq!(stage.ari.counters().handed_on.get(), 0, "{later}");
    }
}

#[tokio::test]
async fn somebody_who_answers_and_leaves_in_the_same_moment_took_nobody_over() {
    for later in 0..3 {
        let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
        call.until_called(1).await;
        {
            let mut fake = call.stage.fake.now();
            fake.caller_leaves_at = Some(fake.requests.len() + later);
            fake.who_leaves = call.dialled(0);
            let answering = call.dialled(0);
            fake.answers(&answering);
        }
        let progress = call.dialling.next().await;
        call.settled().await;
        // Either the caller is with the agent, or they were connected and the end was for both.
        if let Progress::Failed(_) = progress {
            call.caller_is_in(&call.stage.ari.names().bridge(call.call));
        }
        let Call { stage, leg, .. } = call;
        stage.fake.now().hang_up("caller");
        leg.tear_down(Ending::CallerGone, ()).await;
        stage.fake.until("nobody is left", |fake| fake.channels.is_empty() && fake.bridges.is_empty()).await;
        assert_eq!(stage.ari.counters().handed_on.get(), 0, "{later}");
    }
}

#[tokio::test]
async fn who_leaves_between_the_bridge_and_its_being_watched_leaves_nobody_alone() {
    for who in ["caller", "winner"] {
        let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
        call.until_called(1).await;
        {
            let winner = call.dialled(0);
            let mut fake = call.stage.fake.now();
            fake.who_leaves = if who == "caller" { who.into() } else { winner.clone() };
            fake.leaves_after = Some("POST addChannel");
            fake.answers(&winner);
        }
        let progress = call.dialling.next().await;
        call.settled().await;
        if progress == Progress::HandedOn {
            // The events socket was lost on a busy machine and the word came after the pair was watched: then
            // the end is for both.
            call.stage.fake.until("nobody is left", |fake| fake.channels.is_empty()).await;
        } else if who == "caller" {
            assert!(call.channels().is_empty(), "{:?}", call.channels());
        } else {
            assert_eq!(call.channels(), ["caller"]);
            call.caller_is_in(&call.stage.ari.names().bridge(call.call));
        }
        assert_eq!(call.stage.ari.counters().handed_on.get(), 0, "{who}");
    }
}

#[tokio::test]
async fn what_asterisk_does_not_connect_brings_the_caller_back() {
    let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
    call.until_called(1).await;
    let bridge = call.stage.ari.names().pair_bridge(call.call);
    let name: &'static str = format!("POST {bridge}").leak();
    call.stage.fake.now().faults.insert(name, 500);
    call.stage.fake.now().answers(&call.dialled(0));
    assert!(matches!(call.dialling.next().await, Progress::Failed(_)));
    call.settled().await;
    assert_eq!(call.channels(), ["caller"]);
    call.caller_is_in(&call.stage.ari.names().bridge(call.call));
    assert_eq!(call.stage.ari.counters().handed_on.get(), 0);
}

/// T17: of channels that are called.
#[tokio::test]
async fn an_answer_that_no_event_told_of_is_found_when_events_flow_again() {
    let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
    call.until_called(1).await;
    call.stage.fake.now().cut();
    call.stage.fake.now().answers(&call.dialled(0));
    while call.dialling.next().await != Progress::HandedOn {}
    call.caller_is_in(&call.stage.ari.names().pair_bridge(call.call));
}

/// A caller who was handed on to `PJSIP/100`, and whose call is over.
async fn handed_on() -> (Stage, CallId, String) {
    let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
    call.until_called(1).await;
    call.stage.fake.now().answers(&call.dialled(0));
    while call.dialling.next().await != Progress::HandedOn {}
    let winner = call.dialled(0);
    let Call { stage, leg, call, .. } = call;
    leg.tear_down(Ending::CallerGone, ()).await;
    (stage, call, winner)
}

/// T17: of callers who were handed on.
#[tokio::test]
async fn who_was_left_alone_while_no_events_flowed_is_let_go_when_they_do() {
    let (mut stage, _, winner) = handed_on().await;
    stage.fake.now().cut();
    stage.fake.now().hang_up(&winner);
    stage.state.changed().await.unwrap();
    stage.fake.until("the caller is let go", |fake| fake.channels.is_empty() && fake.bridges.is_empty()).await;
    stage.reaches(AriState::Up).await;
    assert_eq!(stage.ari.counters().handed_on.get(), 0);
}

#[tokio::test]
async fn two_who_are_connected_stay_so_however_often_events_are_lost() {
    let (mut stage, call, _) = handed_on().await;
    for _ in 0..3 {
        stage.fake.now().cut();
        stage.state.changed().await.unwrap();
        stage.reaches(AriState::Up).await;
    }
    let pair = stage.ari.names().pair_bridge(call);
    assert_eq!(stage.fake.now().bridges[&pair].len(), 2);
    assert_eq!(stage.ari.counters().handed_on.get(), 1);
    assert!(stage.arrivals.try_recv().is_err(), "the caller is no stranded one");
    // And they are still watched.
    stage.fake.now().hang_up("caller");
    stage.fake.until("the other is let go", |fake| fake.channels.is_empty() && fake.bridges.is_empty()).await;
}

#[tokio::test]
async fn a_person_who_transfers_the_caller_on_by_telephone_is_replaced() {
    let (mut stage, call, winner) = handed_on().await;
    {
        // As Asterisk does it: a Local channel takes the transferring telephone's place.
        let mut fake = stage.fake.now();
        fake.channels.insert("local".into(), Default::default());
        let (channel, replaced) =
            (serde_json::json!({ "id": "local", "state": "Up" }), serde_json::json!({ "id": winner }));
        fake.tell(&serde_json::json!({ "type": "StasisStart", "channel": channel, "replace_channel": replaced }));
        fake.bridges.entry(stage.ari.names().pair_bridge(call)).or_default().insert("local".into());
        fake.hang_up(&winner);
        fake.hang_up("local");
    }
    stage.fake.until("the caller is let go with the last party", |fake| fake.channels.is_empty()).await;
    assert!(stage.arrivals.try_recv().is_err(), "a replacement is no new call");
}

#[tokio::test]
async fn keys_are_pressed_on_the_caller_s_channel_if_they_are_keys() {
    let call = Call::ringing(&[], LONG).await;
    call.leg.send_digits("1w2*#AD".into());
    call.leg.send_digits("12, and what the model thinks".into());
    call.leg.send_digits("1".repeat(33));
    call.settled().await;
    assert_eq!(call.stage.fake.now().channels["caller"].digits, "1w2*#AD");
}

#[test]
fn a_caller_s_own_words_cannot_end_the_caller_id_early() {
    let id = |name: &str, number: &str| {
        let some = |text: &str| Redacted::new((!text.is_empty()).then(|| text.to_owned()));
        caller_id(&some(name), &some(number)).reveal().clone()
    };
    assert_eq!(id("Ada", "1234").as_deref(), Some("\"Ada\" <1234>"));
    assert_eq!(id("A\" <911>\r\nX", "12>34").as_deref(), Some("\"A 911X\" <1234>"));
    assert_eq!(id("", "1234").as_deref(), Some("<1234>"));
    assert_eq!(id("", ""), None);
}

/// A telephone that is forwarded to a mobile: who answers there is connected.
#[tokio::test]
async fn who_answers_where_a_destination_is_forwarded_to_is_connected_with_the_caller() {
    let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
    call.until_called(1).await;
    call.stage.fake.now().is_forwarded(&call.dialled(0), "mobile");
    call.stage.fake.now().rings("mobile");
    assert_eq!(call.dialling.next().await, Progress::Ringing);
    // And on from there.
    call.stage.fake.now().is_forwarded("mobile", "home");
    call.stage.fake.now().answers("home");
    assert_eq!(call.dialling.next().await, Progress::HandedOn);
    call.caller_is_in(&call.stage.ari.names().pair_bridge(call.call));
    call.settled().await;
    assert_eq!(call.channels(), ["caller", "home"]);
    assert!(call.stage.arrivals.try_recv().is_err(), "what we dial is not a new call");
    call.stage.fake.now().hang_up("home");
    call.stage.fake.until("the caller is let go", |fake| fake.channels.is_empty()).await;
}

/// Two telephones that are forwarded to each other.
#[tokio::test]
async fn a_destination_that_is_forwarded_without_end_is_given_up_and_counted() {
    let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
    call.until_called(1).await;
    let mut before = call.dialled(0);
    // The leg has had twenty when it is forwarded for the twentieth time.
    for number in 1..=20 {
        let next = format!("forwarded{number}");
        call.stage.fake.now().is_forwarded(&before, &next);
        before = next;
    }
    assert_eq!(call.dialling.next().await, Progress::Failed(TransferFault::Unreachable));
    call.settled().await;
    call.stage.fake.until("all are hung up", |fake| fake.channels.len() == 1).await;
    assert_eq!(call.stage.ari.counters().forwards_refused.get(), 1);
}

#[tokio::test]
async fn a_destination_that_is_forwarded_fails_as_the_telephone_does_that_it_is_forwarded_to() {
    let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
    call.until_called(1).await;
    call.stage.fake.now().is_forwarded(&call.dialled(0), "mobile");
    call.stage.fake.now().refuses("mobile", 17);
    assert_eq!(call.dialling.next().await, Progress::Failed(TransferFault::Busy));
}

#[tokio::test]
async fn what_a_destination_is_forwarded_to_stops_ringing_when_nobody_waits_any_more() {
    let mut call = Call::ringing(&["PJSIP/100", "PJSIP/200"], LONG).await;
    call.until_called(2).await;
    call.stage.fake.now().is_forwarded(&call.dialled(0), "mobile");
    call.stage.fake.now().answers(&call.dialled(1));
    while call.dialling.next().await != Progress::HandedOn {}
    call.settled().await;
    assert_eq!(call.channels(), ["caller", &call.dialled(1)]);
    // The forwarding and the hanging up may cross: then it is hung up when it is told of.
    let late = call.dialled(0);
    call.stage.fake.now().is_forwarded(&late, "mobile");
    call.stage.fake.until("the late one is hung up", |fake| !fake.channels.contains_key("mobile")).await;
}

/// Group pickup (FreePBX `*8`): the telephone that rang ends, and a channel of another id has its arguments.
#[tokio::test]
async fn who_picks_up_a_destination_that_rings_is_connected_with_the_caller() {
    let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
    call.until_called(1).await;
    {
        let mut fake = call.stage.fake.now();
        let ringing = call.dialled(0);
        fake.rings(&ringing);
        fake.is_picked_up(&ringing, "colleague");
    }
    while call.dialling.next().await != Progress::HandedOn {}
    call.caller_is_in(&call.stage.ari.names().pair_bridge(call.call));
    call.settled().await;
    assert_eq!(call.channels(), ["caller", "colleague"]);
    assert!(call.stage.arrivals.try_recv().is_err(), "what we dial is not a new call");
}

#[tokio::test]
async fn who_picks_up_what_nobody_waits_for_any_more_is_let_go() {
    let mut call = Call::ringing(&["PJSIP/100", "PJSIP/200"], LONG).await;
    call.until_called(2).await;
    let (first, second) = (call.dialled(0), call.dialled(1));
    let mut late = call.stage.fake.now().channels[&first].originated.clone();
    call.stage.fake.now().answers(&second);
    while call.dialling.next().await != Progress::HandedOn {}
    call.settled().await;
    {
        let mut fake = call.stage.fake.now();
        fake.channels.insert(first.clone(), Default::default());
        fake.channels.entry(first.clone()).and_modify(|channel| channel.originated = late.take());
        fake.is_picked_up(&first, "colleague");
    }
    call.stage.fake.until("they are let go", |fake| !fake.channels.contains_key("colleague")).await;
    assert!(call.stage.arrivals.try_recv().is_err(), "what we dial is not a new call");
}

/// Its arguments hold a secret; a dialplan that writes the first of them joins no call.
#[tokio::test]
async fn a_channel_that_pretends_to_have_been_dialled_is_neither_a_call_nor_connected() {
    let mut call = Call::ringing(&["PJSIP/100"], LONG).await;
    call.until_called(1).await;
    {
        let mut fake = call.stage.fake.now();
        fake.channels.insert("stranger".into(), Default::default());
        let forged = ["offhook-dialled".to_owned(), call.call.to_string(), "0".into(), CallId::random().to_string()];
        fake.tell(&serde_json::json!({ "type": "StasisStart", "args": forged, "channel": { "id": "stranger", "state": "Up" } }));
    }
    call.stage.fake.until("it is let go", |fake| !fake.channels.contains_key("stranger")).await;
    assert!(call.stage.arrivals.try_recv().is_err());
    call.stage.fake.now().answers(&call.dialled(0));
    while call.dialling.next().await != Progress::HandedOn {}
    call.settled().await;
    assert_eq!(call.channels(), ["caller", &call.dialled(0)]);
}
