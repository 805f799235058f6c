//! Pipelines whose services have no limit of their own either: how long a caller waits for one that stalls, and what they
//! hear meanwhile.

use super::{called, faults::no_apology, speaks, story};
use crate::providers::{
    desk::{Desk, pipeline},
    ear::Caller,
    faults::is_explained,
    kit::{
        stages::{Asked, Bit, Reply, SCRIBES, Stages, model, voice, writes},
        vendor::{Order, Scenario, hertz},
    },
    ms,
    waits::{ends_in_an_apology, few_sentences, hears_at_last},
};
use futures_util::future::join_all;
use std::time::Duration;

/// From the caller's last word until an answer, or the rest of it, is heard: the 5 s in which a model has to say a word, more
/// than any other service has, and what the others take.
const SERVED_WITHIN: Duration = ms(8_000);

/// What stalls, and whether the call needs another session for it where nobody stands in.
const STALLS: [(What, bool); 5] = [
    (What::Listener, false),
    (What::Scribe, true),
    (What::Model, true),
    (What::ModelInItsAnswer, false),
    (What::Voice, true),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// By a connection of its own.
    Listener,
    /// By a request for each turn.
    Scribe,
    Model,
    ModelInItsAnswer,
    Voice,
}

/// Services that are waited for as long as they are by default.
async fn stages(what: What, scenario: Scenario) -> Stages {
    match what {
        What::Scribe => Stages::asking(SCRIBES[0], scenario).await.by_default(),
        _ => Stages::of(scenario).await.by_default(),
    }
}

/// The service stalls: as often as it is asked, or once.
fn stall(what: What, stages: &Stages, for_good: bool) {
    let stalls = move |asked: &Asked, first: usize| asked.number == first || (for_good && asked.number > first);
    let greetings = stages.voice.times();
    match what {
        What::Listener => stages.listener.order(1, Order::Mute),
        What::Scribe => stages.scribe.answers(move |asked| {
            if stalls(asked, 1) { Reply::stalls() } else { writes(asked, "When are you open, please?") }
        }),
        What::Model => {
            stages.model.answers(move |asked| if stalls(asked, 1) { Reply::stalls() } else { model::says("A tone.") })
        }
        What::ModelInItsAnswer => stages.model.answers(move |asked| {
            let mut answer = model::says("A tone.");
            if stalls(asked, 1) {
                answer.bits = model::words("Here it comes. And");
                answer.bits.push(Bit::Stall);
            }
            answer
        }),
        What::Voice => stages.voice.answers(move |asked| {
            let stalls = stalls(asked, greetings + 1);
            if stalls { Reply::stalls() } else { voice::speaks(asked, hertz(1), ms(1_000)) }
        }),
    }
}

/// The caller is answered in time and hears no long silence before. What was heard of an answer before it stalled is not all.
async fn is_answered(what: What, desk: &Desk, caller: &Caller, hz: f64) {
    let said = speaks(caller).await;
    let mut since = said.end;
    if what == What::ModelInItsAnswer {
        caller.hears_from(since, hz, ms(900)).await;
        caller.hears_nothing_for(ms(300)).await;
        since = caller.look(|tape| tape.last_of(hz, since..tape.now())).expect("heard");
    }
    let begun = hears_at_last(caller, since, hz).await;
    assert!(begun <= since + SERVED_WITHIN, "{what:?}: {}", story(caller));
    is_explained(&format!("{what:?}"), caller, since..begun);
    few_sentences(&format!("{what:?}"), desk, caller);
    no_apology(&format!("{what:?}"), caller);
}

/// Once, and nobody stands in: it is asked again, by the pipeline itself or by its next session.
async fn once(what: What, session: bool) {
    let stages = stages(what, Scenario::default()).await;
    let desk = Desk::of_stages(&stages).await;
    let caller = called(&desk).await;
    stall(what, &stages, false);
    is_answered(what, &desk, &caller, hertz(1)).await;
    assert_eq!(desk.recoveries("took_over", "first"), f64::from(u8::from(session)), "{what:?}");
    desk.ends_with(&caller).await;
}

/// For good, and another one stands in: the call loses nobody.
async fn with_another(what: What) {
    let (first, second) = (
        stages(what, Scenario::default()).await,
        stages(what, Scenario { pitch: |session| hertz(session + 3), ..Scenario::default() }).await,
    );
    let both: &[&str] = &["one", "two"];
    let sections = Stages::sections(&[("one", &first), ("two", &second)]);
    let desk = Desk::at(&[("first", pipeline(both, both, both))], "", &sections).await;
    let caller = called(&desk).await;
    // The rest of an answer is asked of the first one again.
    stall(what, &first, what != What::ModelInItsAnswer);
    is_answered(what, &desk, &caller, if what == What::Voice { hertz(4) } else { hertz(1) }).await;
    assert_eq!(desk.metric("offhook_agent_losses_total"), 0.0, "{what:?}");
    desk.ends_with(&caller).await;
}

/// For good, and nobody else is there.
async fn with_nobody_else(what: What) {
    let stages = stages(what, Scenario::default()).await;
    let desk = Desk::of_stages(&stages).await;
    let caller = called(&desk).await;
    stall(what, &stages, true);
    let since = speaks(&caller).await.end;
    ends_in_an_apology(&format!("{what:?}"), &desk, &caller, since, "agent_unreachable").await;
}

pub async fn without_limits_of_its_own_a_call_with_a_silent_vendor_is_never_silent_for_long() {
    tokio::join!(
        join_all(STALLS.map(|(what, session)| once(what, session))),
        join_all([What::Scribe, What::Model, What::Voice].map(with_nobody_else)),
    );
}

pub async fn without_limits_of_their_own_the_next_service_stands_in_before_the_call_gives_up() {
    join_all(STALLS.map(|(what, _)| with_another(what))).await;
}
