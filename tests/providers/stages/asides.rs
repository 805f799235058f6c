//! What is lost while the caller says a word to an agent who speaks, and nobody knows yet that it is no more than that.

use super::{
    called,
    faults::{DEPUTY, deputy, no_apology},
    speaks,
    states::{is_paused, is_undecided_when},
    story,
};
use crate::providers::{
    desk::Desk,
    faults::is_explained,
    kit::{
        stages::{Bit, Reply, Stages, model, voice},
        vendor::hertz,
    },
    ms,
    turns::BACKCHANNEL,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// From the end of the backchannel until the next agent is heard.
const CARRIED_ON: Duration = ms(5_000);

/// The agent says a first clause at the pitch of its second session, and in the middle of a backchannel it is `lost` for
/// good: the next pipeline's model is told what is owed, and says it.
async fn is_lost(what: &str, stages: &Stages, lost: &Notify) {
    let deputy = deputy().await;
    let desk = Desk::of_pipelines(&[("first", stages), ("second", &deputy)], SLOW_TO_DECIDE).await;
    let caller = called(&desk).await;
    let asked = speaks(&caller).await.end;
    // Speech within 500 ms of the agent's first sound would continue the turn before it.
    caller.hears_from(asked, hertz(2), ms(700)).await;
    caller.says(BACKCHANNEL).await;
    is_paused(&caller).await;
    lost.notify_one();
    let losses = "offhook_agent_losses_total{loss=\"quota\",provider=\"first\"}";
    is_undecided_when(what, &caller, || desk.metric(losses) == 1.0).await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1 + DEPUTY), ms(700)).await;
    let begun = caller.look(|tape| tape.first_of(hertz(1 + DEPUTY), said.end)).expect("waited for");
    assert!(begun <= said.end + CARRIED_ON, "{what}: {}", story(&caller));
    is_explained(what, &caller, said.end..begun);
    no_apology(what, &caller);
    let told = deputy.model.is_asked(1).await.body["messages"].to_string();
    for words in ["finish what was being said", "One is here.", "When are you open, please?"] {
        assert!(told.contains(words), "{what}: {words}: {told}");
    }
    assert_eq!(desk.metric("offhook_false_alarms_total"), 1.0, "{what}: {}", story(&caller));
    assert_eq!(desk.recoveries("took_over", "second"), 1.0, "{what}");
    desk.ends_with(&caller).await;
    deputy.listener.is_content();
}

const SLOW_TO_DECIDE: &str = "fallbacks: [second]\nturns: { min_speech: 560ms }";

/// The third clause is asked for when the first one is spoken.
pub async fn voice_is_lost() {
    let (stages, lost) = (Stages::start().await, Arc::new(Notify::new()));
    stages.model.answers(|_| model::says("One is here. Two is there. Three is nowhere."));
    let first = Arc::clone(&lost);
    stages.voice.answers(move |asked| match asked.text() {
        "One is here." => voice::breaks_off(asked, hertz(2), ms(1_500), Bit::Hold(Arc::clone(&first))),
        "Three is nowhere." => Reply::refuses(402, "insufficient_quota"),
        _ => voice::speaks(asked, hertz(1), ms(1_000)),
    });
    is_lost("the voice", &stages, &lost).await;
}

/// It breaks off, and refuses to be asked for the rest.
pub async fn model_is_lost() {
    let (stages, lost) = (Stages::start().await, Arc::new(Notify::new()));
    stages.voice.answers(|asked| match asked.text() {
        "One is here." => voice::speaks(asked, hertz(2), ms(3_000)),
        _ => voice::speaks(asked, hertz(1), ms(1_000)),
    });
    let first = Arc::clone(&lost);
    stages.model.answers(move |asked| match asked.number {
        1 => {
            let mut answer = model::stream(model::words("One is here. Two "), "stop");
            answer.bits.truncate(answer.bits.len() - 3);
            answer.bits.extend([Bit::Hold(Arc::clone(&first)), Bit::Break]);
            answer
        }
        _ => Reply::refuses(402, "insufficient_quota"),
    });
    is_lost("the model", &stages, &lost).await;
    let rest = stages.model.is_asked(2).await.body["messages"].to_string();
    assert!(rest.contains("broke off"), "it was asked for the rest: {rest}");
}
