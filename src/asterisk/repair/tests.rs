use crate::{
    asterisk::{
        events::{CallEvents, ChannelEvent, Gone},
        fake::Stage,
        leg::{AriLeg, Ending},
        setup::{
            Plan, set_up,
            tests::{Path, Ports, at_once, plan},
        },
    },
    call::SetupStep,
    config::Transport,
};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(5);

mod bridge;

struct Standing {
    stage: Stage,
    ports: Ports,
    plan: Plan,
    leg: AriLeg,
    events: CallEvents,
    path: Option<Path>,
}

impl Standing {
    async fn over(transport: Transport) -> Self {
        let mut stage = Stage::up().await;
        let ports = Ports::of(&stage);
        let arrival = stage.caller().await;
        let plan = plan(transport);
        let set_up = set_up(&stage.ari, &ports, arrival.registration, plan.clone(), at_once()).await;
        let (leg, path) = set_up.unwrap();
        Self { stage, ports, plan, leg, events: arrival.events, path: Some(path) }
    }

    /// Who is in the call's bridge.
    fn members(&self) -> Vec<String> {
        let bridge = self.stage.ari.names().bridge(self.plan.call);
        self.stage.fake.now().bridges[&bridge].iter().cloned().collect()
    }

    async fn repair(&mut self) -> Result<Path, SetupStep> {
        self.leg.repair(&self.ports, &self.plan, self.path.take())?.done().await
    }

    /// Another path stands.
    async fn is_repaired(&mut self, why: &str) {
        let path = self.repair().await;
        self.path = Some(path.unwrap_or_else(|step| panic!("{why}: {step:?}")));
        self.events.media_is_back();
    }

    /// A hang is a failure too.
    async fn event(&mut self) -> Option<ChannelEvent> {
        timeout(SOON, self.events.next()).await.expect("an event in time")
    }

    /// The call is told of nothing for as long as a look takes.
    async fn is_left_alone(&mut self, why: &str) {
        let quiet = timeout(Duration::from_millis(50), self.events.next()).await;
        assert!(quiet.is_err(), "{why}: {quiet:?}");
    }

    /// Ends the call; nothing of it is left.
    async fn end(self) {
        let Self { stage, ports, leg, events, path, .. } = self;
        drop(events);
        leg.tear_down(Ending::HangUp, path).await;
        assert!(stage.ari.settled(Duration::from_secs(5)).await, "clean-up hangs");
        assert_eq!((ports.reserved.load(Ordering::SeqCst), stage.router.len()), (0, 0), "ports and routes");
        let fake = stage.fake.now();
        assert!(fake.channels.is_empty(), "{:?}", fake.channels.keys());
        assert!(fake.bridges.is_empty(), "{:?}", fake.bridges);
        assert_eq!(fake.open_sockets, 0);
        assert_eq!(fake.deleted_under_open_socket, 0, "a media channel was deleted before its socket was closed");
    }
}

#[tokio::test]
async fn another_media_channel_takes_the_place_of_the_one_that_broke_again_and_again() {
    for transport in [Transport::AudioSocket, Transport::Rtp, Transport::WebSocket] {
        let mut call = Standing::over(transport).await;
        let (names, id) = (call.stage.ari.names().clone(), call.plan.call);
        for number in 1..=3 {
            call.is_repaired(transport.label()).await;
            let media = names.next_media_channel(id, number);
            let two = ["caller".to_owned(), media];
            call.stage.fake.until("the old channel is gone", |fake| fake.channels.len() == 2).await;
            assert_eq!(call.members(), two, "{transport:?}");
        }
        call.end().await;
    }
}

#[tokio::test]
async fn the_end_of_a_replaced_channel_is_no_news_and_that_of_its_successor_is() {
    let mut call = Standing::over(Transport::Rtp).await;
    let (names, id) = (call.stage.ari.names().clone(), call.plan.call);
    call.stage.fake.now().hang_up(&names.media_channel(id));
    assert_eq!(call.events.next().await, Some(ChannelEvent::MediaGone(Gone::Left)));
    call.is_repaired("the channel ended").await;
    call.is_left_alone("a successor stands").await;
    call.stage.fake.now().hang_up(&names.next_media_channel(id, 1));
    assert_eq!(call.events.next().await, Some(ChannelEvent::MediaGone(Gone::Left)));
    call.end().await;
}

#[tokio::test]
async fn whatever_is_refused_nothing_of_the_repair_is_left_and_the_caller_is_in_the_bridge() {
    for (request, step) in [("POST externalMedia", SetupStep::MediaChannel), ("POST addChannel", SetupStep::Bridge)] {
        let mut call = Standing::over(Transport::AudioSocket).await;
        call.stage.fake.now().faults.insert(request, 500);
        let failed = call.repair().await;
        assert_eq!(failed.map(drop), Err(step), "{request}");
        call.stage.fake.until("only the caller is left", |fake| fake.channels.len() == 1).await;
        assert_eq!(call.members(), ["caller"]);
        call.end().await;
    }
    let mut call = Standing::over(Transport::AudioSocket).await;
    call.ports.connects = false;
    assert_eq!(call.repair().await.map(drop), Err(SetupStep::MediaConnect));
    call.end().await;
}

#[tokio::test]
async fn a_call_that_ends_during_a_repair_leaves_nothing_of_it_whenever_that_is() {
    for step in ["POST externalMedia", "POST addChannel", "never"] {
        let mut call = Standing::over(Transport::AudioSocket).await;
        call.stage.fake.now().media_never_starts = step == "POST addChannel";
        let repair = call.leg.repair(&call.ports, &call.plan, call.path.take()).unwrap();
        if step == "POST addChannel" {
            let wanted = call.stage.ari.names().next_media_channel(call.plan.call, 1);
            call.stage.fake.until("the channel was made", |fake| fake.channels.contains_key(&wanted)).await;
        }
        let began = tokio::time::Instant::now();
        drop(repair);
        call.end().await;
        assert!(began.elapsed() < Duration::from_secs(2), "{step}: {:?}", began.elapsed());
    }
}
