//! A service whose machine has lost its power: nothing is acknowledged and nothing refused, on the connections that stand
//! and on new ones.

use super::{faults::no_apology, speaks, story};
use crate::providers::{
    desk::{Desk, pipeline},
    ear::{Caller, Tape},
    faults::{in_a_net_of_its_own, is_explained},
    kit::{
        own_net,
        stages::{SCRIBES, Stages},
        vendor::{Scenario, hertz},
        virtual_time::outside,
    },
    ms,
};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::sync::Barrier;

/// From the caller's last word until they are answered: the service is asked, a session later once more, and then another.
const CARRIED_ON: Duration = ms(12_000);
const WHAT: [What; 6] = [
    What::Listener,
    What::Scribe(SCRIBES[0]),
    What::Scribe(SCRIBES[1]),
    What::Model,
    What::Voice("openai_speech"),
    What::Voice("wyoming_speech"),
];

/// Who vanishes of a pipeline; those that are asked by the protocol that they speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Listener,
    Scribe(&'static str),
    Model,
    Voice(&'static str),
}

impl What {
    /// Services that can vanish; who does not is not asked.
    async fn far(self) -> Stages {
        let scenario = Scenario { host: own_net::far(), ..Scenario::default() };
        match self {
            Self::Scribe(protocol) => Stages::asking(protocol, scenario).await,
            Self::Voice(protocol) => Stages::of(scenario).await.spoken_by(protocol),
            _ => Stages::of(scenario).await,
        }
    }

    fn section(self) -> &'static str {
        match self {
            Self::Listener | Self::Scribe(_) => "stt",
            Self::Model => "llm",
            Self::Voice(_) => "voices",
        }
    }

    /// A call that has been answered once, at which it vanishes; it is answered all the same, and goes on.
    async fn vanishes(self, all: &Barrier) {
        let what = format!("{self:?}");
        let (far, near) = (
            self.far().await,
            Stages::of(Scenario { pitch: |session| hertz(session + 3), ..Scenario::default() }).await,
        );
        let of = |section| if self.section() == section { ["first"] } else { ["second"] };
        let [stt, llm, tts] = ["stt", "llm", "voices"].map(of);
        let providers =
            [("first", pipeline(&stt, &llm, &tts)), ("second", pipeline(&["second"], &["second"], &["second"]))];
        let sections = Stages::sections(&[("first", &far), ("second", &near)]);
        let desk = Desk::at(&providers, "fallbacks: [second]", &sections).await;
        let caller = desk.call().await;
        let usual = if matches!(self, Self::Voice(_)) { hertz(1) } else { hertz(4) };
        caller.hears(usual, ms(700)).await;
        caller.hears_nothing_for(ms(300)).await;
        is_answered(&what, &caller).await;
        if all.wait().await.is_leader() {
            outside(own_net::swallows).await;
        }
        all.wait().await;
        is_answered(&what, &caller).await;
        let failed = ["unreachable", "slow", "closed"].map(|outcome| desk.asked_of(self.section(), outcome));
        assert!(failed.iter().sum::<f64>() >= 1.0, "{what}: {}", desk.engine.metrics().text());
        is_answered(&format!("{what}, the next turn"), &caller).await;
        desk.ends_with(&caller).await;
        near.listener.is_content();
    }
}

/// What is said is answered in time, and no silence before it is unexplained.
async fn is_answered(what: &str, caller: &Caller) {
    let since = speaks(caller).await.end;
    let heard = |tape: &Tape| [hertz(1), hertz(4)].into_iter().find(|hz| tape.time_of(*hz, since) >= ms(700));
    caller.until(&format!("{what}: the caller is answered"), |tape| heard(tape).is_some()).await;
    caller.hears_nothing_for(ms(300)).await;
    let begun = caller.look(|tape| tape.first_of(heard(tape).expect("waited for"), since)).expect("heard");
    assert!(begun <= since + CARRIED_ON, "{what}: {}", story(caller));
    is_explained(what, caller, since..begun);
    no_apology(what, caller);
}

pub async fn a_vendor_that_vanishes_from_the_net() {
    let all = Barrier::new(WHAT.len());
    let vanish = async {
        join_all(WHAT.map(|what| what.vanishes(&all))).await;
    };
    in_a_net_of_its_own("pipeline", vanish).await;
}
