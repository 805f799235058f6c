mod opus;
mod transfers;

use super::*;
use crate::asterisk::{
    events::{ChannelEvent, Gone, Transferee},
    fake::{Answers, FakeAri, Stage},
    leg::TransferError,
};
use crate::config::Place;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// Audio paths that open by themselves and are counted.
#[derive(Clone)]
pub(in crate::asterisk) struct Ports {
    fake: FakeAri,
    open: bool,
    pub(in crate::asterisk) connects: bool,
    pub(in crate::asterisk) reserved: Arc<AtomicUsize>,
    /// Of each WebSocket that was connected.
    pub(in crate::asterisk) codings: Arc<Mutex<Vec<Coding>>>,
}

/// With where it will lead, where that is known.
pub(in crate::asterisk) struct Reserved(Ports, Option<String>);

impl Drop for Reserved {
    fn drop(&mut self) {
        self.0.reserved.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(in crate::asterisk) struct Path(Ports, Option<String>);

impl Drop for Path {
    fn drop(&mut self) {
        let mut fake = self.0.fake.now();
        fake.open_sockets -= 1;
        self.1.iter().for_each(|to| _ = fake.open_to.remove(to));
    }
}

impl Ports {
    pub(in crate::asterisk) fn of(stage: &Stage) -> Self {
        let (reserved, codings) = Default::default();
        Self { fake: stage.fake.clone(), open: true, connects: true, reserved, codings }
    }

    fn reserve(&self, to: Option<String>) -> Reserved {
        self.reserved.fetch_add(1, Ordering::SeqCst);
        Reserved(self.clone(), to)
    }

    fn path(&self, to: Option<String>) -> Path {
        let mut fake = self.fake.now();
        fake.open_sockets += 1;
        fake.open_to.extend(to.clone());
        Path(self.clone(), to)
    }
}

impl MediaPorts for Ports {
    type Leg = Path;
    type Expected = Reserved;
    type Rtp = Reserved;
    type WebSocket = Reserved;

    fn expect_audiosocket(&self, id: Uuid, _: Format) -> Reserved {
        self.reserve(Some(id.to_string()))
    }

    fn bind_rtp(&self, _: Format) -> Option<Reserved> {
        self.open.then(|| self.reserve(None))
    }

    fn websocket(&self, _: Format) -> Reserved {
        self.reserve(None)
    }
}

impl ExpectedAudio for Reserved {
    type Leg = Path;

    async fn leg(self, _: Duration) -> Option<Path> {
        self.0.connects.then(|| self.0.path(self.1.clone()))
    }
}

impl RtpPort for Reserved {
    type Leg = Path;

    fn local_port(&self) -> u16 {
        40_000
    }

    fn open(self, peer: SocketAddr) -> Path {
        assert_eq!(peer, "127.0.0.1:23456".parse().unwrap());
        self.0.path(None)
    }
}

impl WebSocketPort for Reserved {
    type Leg = Path;

    async fn connect(self, url: Url, channel: String, coding: Coding, _: Duration) -> Option<Path> {
        assert!(url.as_str().starts_with("ws://127.0.0.1:") && url.path() == "/media/3f2a", "{url}");
        assert!(channel.contains("-media"), "{channel}");
        self.0.codings.lock().unwrap().push(coding);
        self.0.connects.then(|| self.0.path(Some(channel)))
    }
}

pub(in crate::asterisk) fn plan(transport: Transport) -> Plan {
    let (call, advertise) = (CallId::random(), "127.0.0.1:9".into());
    Plan { call, answered: false, format: Format::SLIN16, transport, opus: false, advertise }
}

/// The agent has something to say from the start.
pub(in crate::asterisk) fn at_once() -> watch::Receiver<Wish> {
    watch::channel(Wish::Answer).1
}

/// Nothing of any call is left: in Asterisk, in the router, among the ports.
async fn assert_clean(stage: &Stage, ports: &Ports, after: &str) {
    assert!(stage.ari.settled(Duration::from_secs(5)).await, "{after}: clean-up hangs");
    assert_eq!(ports.reserved.load(Ordering::SeqCst), 0, "{after}: a reserved port");
    assert_eq!(stage.router.len(), 0, "{after}: a route");
    let fake = stage.fake.now();
    let media: Vec<_> = fake.channels.keys().filter(|id| id.starts_with("offhook-")).collect();
    assert!(media.is_empty(), "{after}: {media:?}");
    assert!(fake.bridges.is_empty(), "{after}: {:?}", fake.bridges);
    assert_eq!(fake.open_sockets, 0, "{after}: an open socket");
    assert_eq!(fake.deleted_under_open_socket, 0, "{after}: media channel deleted before its socket was closed");
}

fn destination() -> Place {
    Place { context: "desk".into(), extension: "100".into(), priority: 1 }
}

async fn standing(stage: &mut Stage, ports: &Ports) -> (AriLeg, Path, crate::asterisk::events::CallEvents) {
    let arrival = stage.caller().await;
    let (leg, path) =
        set_up(&stage.ari, ports, arrival.registration, plan(Transport::AudioSocket), at_once()).await.unwrap();
    (leg, path, arrival.events)
}

/// T2, T6: in this order.
#[tokio::test]
async fn a_set_up_call_has_caller_and_media_in_one_bridge_and_leaves_nothing() {
    for transport in [Transport::AudioSocket, Transport::Rtp, Transport::WebSocket] {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        let arrival = stage.caller().await;
        assert_eq!(arrival.caller_number.reveal().as_deref(), Some("1234"));
        let plan = plan(transport);
        let call = plan.call;
        let (leg, path) = set_up(&stage.ari, &ports, arrival.registration, plan, at_once()).await.unwrap();
        {
            let fake = stage.fake.now();
            let members: Vec<_> = fake.bridges[&stage.ari.names().bridge(call)].iter().cloned().collect();
            assert_eq!(members, ["caller".to_owned(), stage.ari.names().media_channel(call)]);
            assert!(fake.channels["caller"].answered);
        }
        leg.tear_down(Ending::HangUp, path).await;
        assert!(!stage.fake.now().channels.contains_key("caller"));
        assert_clean(&stage, &ports, "hang-up").await;
    }
}

#[tokio::test]
async fn a_caller_who_was_answered_by_the_dialplan_is_not_answered_again() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let arrival = stage.caller().await;
    let plan = Plan { answered: true, ..plan(Transport::Rtp) };
    let (leg, path) = set_up(&stage.ari, &ports, arrival.registration, plan, at_once()).await.unwrap();
    assert!(!stage.fake.now().requests.iter().any(|request| request.ends_with("answer")));
    leg.tear_down(Ending::CallerGone, path).await;
}

#[tokio::test]
async fn whatever_asterisk_refuses_the_caller_is_still_there_and_nothing_else_is() {
    let cases = [
        ("POST answer", SetupStep::Answer),
        ("POST externalMedia", SetupStep::MediaChannel),
        ("POST addChannel", SetupStep::Bridge),
    ];
    for (request, step) in cases {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        stage.fake.now().faults.insert(request, 500);
        let arrival = stage.caller().await;
        let failed = set_up(&stage.ari, &ports, arrival.registration, plan(Transport::AudioSocket), at_once()).await;
        assert_eq!(failed.map(drop), Err(SetupError::Failed(step)), "{request}");
        assert!(stage.fake.now().channels["caller"].in_stasis, "{request}");
        drop(arrival.events);
        assert_clean(&stage, &ports, request).await;
    }
}

#[tokio::test]
async fn a_refused_bridge_is_a_failed_set_up() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let arrival = stage.caller().await;
    let plan = plan(Transport::AudioSocket);
    // A fault is named by the last part of the path, which is the bridge's id here.
    let name: &'static str = format!("POST {}", stage.ari.names().bridge(plan.call)).leak();
    stage.fake.now().faults.insert(name, 500);
    let failed = set_up(&stage.ari, &ports, arrival.registration, plan, at_once()).await;
    assert_eq!(failed.map(drop), Err(SetupError::Failed(SetupStep::Bridge)));
    assert_clean(&stage, &ports, "bridge").await;
}

/// T14: never twice what may be done once.
#[tokio::test]
async fn a_request_whose_answer_is_lost_is_made_once_more_only_if_that_is_harmless() {
    let cases = [
        ("POST externalMedia", "externalMedia", 1, SetupStep::MediaChannel),
        ("POST answer", "answer", 2, SetupStep::Answer),
    ];
    for (request, end, times, step) in cases {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        stage.fake.now().faults.insert(request, 0);
        let arrival = stage.caller().await;
        let failed = set_up(&stage.ari, &ports, arrival.registration, plan(Transport::AudioSocket), at_once()).await;
        assert_eq!(failed.map(drop), Err(SetupError::Failed(step)));
        let made = stage.fake.now().requests.iter().filter(|request| request.ends_with(end)).count();
        assert_eq!(made, times, "{request}");
        assert_clean(&stage, &ports, request).await;
    }
}

/// T14: whether it happened is looked up, and the caller is not turned away for an answer.
#[tokio::test]
async fn a_request_that_was_carried_out_and_whose_answer_is_lost_costs_the_caller_nothing() {
    for transport in [Transport::AudioSocket, Transport::Rtp] {
        for request in ["POST externalMedia", "POST answer", "POST addChannel", "POST <bridge>"] {
            let mut stage = Stage::up().await;
            let ports = Ports::of(&stage);
            let plan = plan(transport);
            let bridge: &'static str = format!("POST {}", stage.ari.names().bridge(plan.call)).leak();
            stage.fake.now().answers.insert(if request == "POST <bridge>" { bridge } else { request }, Answers::Lost);
            let arrival = stage.caller().await;
            let made = set_up(&stage.ari, &ports, arrival.registration, plan, at_once()).await;
            let (leg, path) = made.unwrap_or_else(|error| panic!("{transport:?}, {request}: {error}"));
            assert!(stage.fake.now().bridges.values().all(|members| members.len() == 2), "{transport:?}, {request}");
            leg.tear_down(Ending::HangUp, path).await;
            assert_clean(&stage, &ports, request).await;
        }
    }
}

/// T16: 409 and 422 where a channel left between two events, 404 where it is gone.
#[tokio::test]
async fn a_conflict_at_any_step_is_a_caller_who_left_if_they_did_and_else_a_failed_set_up() {
    for status in [404, 409, 422] {
        for (request, step) in [("POST answer", SetupStep::Answer), ("POST addChannel", SetupStep::Bridge)] {
            for leaves in [true, false] {
                let mut stage = Stage::up().await;
                let ports = Ports::of(&stage);
                stage.fake.now().faults.insert(request, status);
                if leaves {
                    stage.fake.now().leaves_after = Some(request);
                }
                let arrival = stage.caller().await;
                let registration = arrival.registration;
                let ended = set_up(&stage.ari, &ports, registration, plan(Transport::AudioSocket), at_once()).await;
                let expected = if leaves { SetupError::CallerLeft } else { SetupError::Failed(step) };
                let after = format!("{request} {status}, leaves: {leaves}");
                assert_eq!(ended.map(drop), Err(expected), "{after}");
                assert_clean(&stage, &ports, &after).await;
            }
        }
    }
}

/// Everything is ready before the caller is answered; nobody hears, or pays for, silence.
#[tokio::test]
async fn a_caller_hears_ringing_until_the_answer_is_wished_and_only_then_joins_the_bridge() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let arrival = stage.caller().await;
    let (wish, wished) = watch::channel(Wish::Ring);
    let plan = plan(Transport::AudioSocket);
    let bridge = stage.ari.names().bridge(plan.call);
    let setting_up = set_up(&stage.ari, &ports, arrival.registration, plan, wished);
    let (up, ()) = tokio::join!(setting_up, async {
        stage.fake.until("an open audio path", |fake| fake.open_sockets == 1).await;
        {
            let fake = stage.fake.now();
            assert!(fake.channels["caller"].ringing && !fake.channels["caller"].answered);
            assert!(fake.bridges[&bridge].is_empty(), "no early media");
        }
        wish.send_replace(Wish::Answer);
    });
    let (leg, path) = up.unwrap();
    {
        let fake = stage.fake.now();
        assert!(fake.channels["caller"].answered);
        assert!(fake.bridges[&bridge].contains("caller"));
    }
    leg.tear_down(Ending::HangUp, path).await;
    assert_clean(&stage, &ports, "ring and answer").await;
}

#[tokio::test]
async fn a_caller_who_hangs_up_while_it_rings_leaves_nothing() {
    for transport in [Transport::AudioSocket, Transport::Rtp] {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        let arrival = stage.caller().await;
        let (_wish, wished) = watch::channel(Wish::Ring);
        let setting_up = set_up(&stage.ari, &ports, arrival.registration, plan(transport), wished);
        let (left, ()) = tokio::join!(setting_up, async {
            stage.fake.until("an open audio path", |fake| fake.open_sockets == 1).await;
            stage.fake.now().hang_up("caller");
        });
        assert_eq!(left.map(drop), Err(SetupError::CallerLeft));
        assert_clean(&stage, &ports, "hung up while it rang").await;
    }
}

#[tokio::test]
async fn a_call_that_ends_while_it_rings_parts_from_the_caller_as_it_wishes() {
    for ending in [Ending::HangUp, Ending::ReturnToDialplan { status: "AGENTFAILED" }] {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        let arrival = stage.caller().await;
        let (wish, wished) = watch::channel(Wish::Ring);
        {
            let plan = plan(Transport::AudioSocket);
            let setting_up = set_up(&stage.ari, &ports, arrival.registration, plan, wished);
            tokio::select! {
                biased;
                _ = setting_up => panic!("nobody wished the answer"),
                () = stage.fake.until("ringing", |fake| fake.open_sockets == 1) => {}
            }
            wish.send_replace(Wish::Part(ending));
        }
        assert_clean(&stage, &ports, "ended while it rang").await;
        let fake = stage.fake.now();
        match ending {
            Ending::ReturnToDialplan { status } => {
                assert!(fake.channels["caller"].continued.is_some() && !fake.channels["caller"].answered);
                assert_eq!(fake.channels["caller"].variables[leg::STATUS_VARIABLE], status);
            }
            _ => assert!(!fake.channels.contains_key("caller")),
        }
    }
}

#[tokio::test]
async fn without_a_local_port_asterisk_is_not_asked_for_anything() {
    let mut stage = Stage::up().await;
    let ports = Ports { open: false, ..Ports::of(&stage) };
    let arrival = stage.caller().await;
    let failed = set_up(&stage.ari, &ports, arrival.registration, plan(Transport::Rtp), at_once()).await;
    assert_eq!(failed.map(drop), Err(SetupError::Failed(SetupStep::MediaSocket)));
    assert!(stage.fake.now().requests.is_empty());
    assert_clean(&stage, &ports, "no port").await;
}

#[tokio::test]
async fn an_audiosocket_that_does_not_connect_is_a_failed_set_up() {
    let mut stage = Stage::up().await;
    let ports = Ports { connects: false, ..Ports::of(&stage) };
    let arrival = stage.caller().await;
    let failed = set_up(&stage.ari, &ports, arrival.registration, plan(Transport::AudioSocket), at_once()).await;
    assert_eq!(failed.map(drop), Err(SetupError::Failed(SetupStep::MediaConnect)));
    assert_clean(&stage, &ports, "no connection").await;
}

#[tokio::test]
async fn a_media_channel_that_never_starts_is_given_up() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    stage.fake.now().media_never_starts = true;
    let arrival = stage.caller().await;
    let failed = set_up(&stage.ari, &ports, arrival.registration, plan(Transport::AudioSocket), at_once()).await;
    assert_eq!(failed.map(drop), Err(SetupError::Failed(SetupStep::MediaChannel)));
    assert_clean(&stage, &ports, "never starts").await;
}

/// Requests of a whole set-up: media, bridge, answer, add.
const STEPS: usize = 4;
/// Those before the media is waited for.
const PREPARED: usize = 2;

/// T2, T6: from any step on.
#[tokio::test]
async fn a_caller_who_hangs_up_at_any_step_leaves_nothing() {
    for transport in [Transport::AudioSocket, Transport::Rtp] {
        for step in 0..STEPS {
            let mut stage = Stage::up().await;
            let ports = Ports::of(&stage);
            stage.fake.now().caller_leaves_at = Some(step);
            let arrival = stage.caller().await;
            let left = set_up(&stage.ari, &ports, arrival.registration, plan(transport), at_once()).await;
            let after = format!("{transport:?}, step {step}");
            assert_eq!(left.map(drop), Err(SetupError::CallerLeft), "{after}");
            assert_clean(&stage, &ports, &after).await;
            assert!(stage.fake.now().channels.is_empty(), "{after}");
        }
    }
}

/// T2, T6: also where nobody waits for it.
#[tokio::test]
async fn a_set_up_dropped_at_any_step_leaves_nothing_and_gives_the_caller_back() {
    for step in 0..=STEPS {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        let arrival = stage.caller().await;
        {
            let setting_up = set_up(&stage.ari, &ports, arrival.registration, plan(Transport::AudioSocket), at_once());
            tokio::select! {
                biased;
                _ = setting_up => {}
                () = stage.fake.until("the step", |fake| fake.requests.len() >= step) => {}
            }
        }
        let after = format!("dropped at step {step}");
        assert_clean(&stage, &ports, &after).await;
        let fake = stage.fake.now();
        assert!(fake.channels["caller"].continued.is_some(), "{after}");
        assert_eq!(fake.channels["caller"].variables[leg::STATUS_VARIABLE], leg::FAILED, "{after}");
    }
}

/// Well below the bounds of the waits.
const AT_ONCE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_caller_who_hangs_up_while_the_media_is_waited_for_ends_the_wait() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    stage.fake.now().media_never_starts = true;
    let arrival = stage.caller().await;
    let setting_up = set_up(&stage.ari, &ports, arrival.registration, plan(Transport::AudioSocket), at_once());
    let (left, ()) = timeout(AT_ONCE, async {
        tokio::join!(setting_up, async {
            stage.fake.until("the wait", |fake| fake.requests.len() == PREPARED).await;
            stage.fake.now().hang_up("caller");
        })
    })
    .await
    .unwrap();
    assert_eq!(left.map(drop), Err(SetupError::CallerLeft));
    assert_clean(&stage, &ports, "hung up in the wait").await;
}

#[tokio::test]
async fn a_set_up_dropped_while_the_media_is_waited_for_does_not_wait_on() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    stage.fake.now().media_never_starts = true;
    let arrival = stage.caller().await;
    let setting_up = set_up(&stage.ari, &ports, arrival.registration, plan(Transport::AudioSocket), at_once());
    tokio::select! {
        biased;
        _ = setting_up => panic!("it has nothing to end with"),
        () = stage.fake.until("the wait", |fake| fake.requests.len() == PREPARED) => {}
    }
    assert!(stage.ari.settled(AT_ONCE).await);
    assert_clean(&stage, &ports, "dropped in the wait").await;
    assert!(stage.fake.now().channels["caller"].continued.is_some());
}

#[tokio::test]
async fn a_dropped_leg_is_cleared_away_and_gives_the_caller_back() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let (leg, path, events) = standing(&mut stage, &ports).await;
    drop((path, leg, events));
    assert_clean(&stage, &ports, "dropped").await;
    assert!(stage.fake.now().channels["caller"].continued.is_some());
}

#[tokio::test]
async fn a_caller_goes_back_to_the_dialplan_with_a_status() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let (leg, path, _events) = standing(&mut stage, &ports).await;
    leg.tear_down(Ending::ReturnToDialplan { status: "AGENTFAILED" }, path).await;
    assert_clean(&stage, &ports, "return").await;
    let fake = stage.fake.now();
    assert_eq!(fake.channels["caller"].continued, Some(serde_json::json!({})));
    assert_eq!(fake.channels["caller"].variables[leg::STATUS_VARIABLE], "AGENTFAILED");
}

#[tokio::test]
async fn clearing_away_what_has_gone_already_is_no_failure() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let (leg, path, mut events) = standing(&mut stage, &ports).await;
    {
        let mut fake = stage.fake.now();
        let (media, bridge) = (stage.ari.names().media_channel(leg.call()), stage.ari.names().bridge(leg.call()));
        fake.hang_up("caller");
        fake.channels.remove(&media);
        fake.bridges.remove(&bridge);
    }
    assert_eq!(events.next().await, Some(ChannelEvent::CallerGone(Gone::Left)));
    leg.tear_down(Ending::HangUp, path).await;
    let failed = &stage.ari.counters().requests_failed;
    for operation in ["hang_up", "delete_bridge"] {
        assert_eq!(failed.with_label_values(&[operation]).get(), 0, "{operation}");
    }
    assert_clean(&stage, &ports, "gone already").await;
}

#[test]
fn an_ipv6_address_gets_brackets_before_its_port() {
    assert_eq!(host_and_port("fd00::1", 7), "[fd00::1]:7");
    assert_eq!(host_and_port("[fd00::1]", 7), "[fd00::1]:7");
    assert_eq!(host_and_port("10.0.0.1", 7), "10.0.0.1:7");
}
