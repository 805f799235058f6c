//! What who carries a long call on knows of a pipeline's part of it.

use crate::providers::{
    kit::{
        stages::{Bit, Reply, Stages, model, voice},
        vendor::{Asides, SUMMARY, hertz},
    },
    ms,
    records::{LongCall, counts_late, is_summary, leaves_nothing_out, record},
};
use futures_util::future::join_all;
use std::sync::Arc;
use tokio::sync::Notify;

/// One clause after the other of it is spoken without a pause; three such answers are more than an agent is told as they
/// were said.
const ANSWER: &str = "We open at nine and ";

/// A pipeline whose model has much to say, and what lets a summary of its come that is held.
pub async fn talkative(asides: Asides) -> (Stages, Arc<Notify>) {
    // A model that says nothing for a turn is no fault.
    let (stages, comes) = (Stages::start().await.waited_for(ms(15_000)), Arc::<Notify>::default());
    let hold = Bit::Hold(Arc::clone(&comes));
    stages.model.answers(move |asked| match asides {
        _ if !is_summary(asked) => model::says(&ANSWER.repeat(150)),
        Asides::Answered => model::says(SUMMARY),
        Asides::Refused => Reply::refuses(400, "context_length_exceeded"),
        Asides::Held => {
            let mut summary = model::says(SUMMARY);
            summary.bits.insert(0, hold.clone());
            summary
        }
    });
    stages.voice.answers(|asked| voice::speaks(asked, hertz(1), ms(if asked.text().len() < 20 { 1_000 } else { 200 })));
    (stages, comes)
}

/// The voice is gone for good, and another pipeline takes the call on.
pub async fn a_long_call_that_is_lost_is_carried_on_by_another_vendor_with_its_beginning_in_short() {
    let call = LongCall::of_stages(Asides::Answered, 3).await;
    let about = call.is_to_sum_up(1).await;
    assert!(about.starts_with("> Agent: Hello there.\n> Caller: When are you open, please?"), "{about}");
    let told = call.is_lost().await;
    // Of the caller's words the last are those that the voice did not answer any more.
    assert_eq!(record(&told), [1, 2, 1], "{told}");
    assert!(!told.contains("> Agent: Hello there."), "{told}");
}

/// The same, and the model does not sum up what it was asked to.
pub async fn a_summary_that_is_refused_or_never_comes_leaves_nothing_out() {
    join_all([Asides::Refused, Asides::Held].map(|asides| async move {
        leaves_nothing_out(asides, LongCall::of_stages(asides, 3).await, [0, 4, 3]).await;
    }))
    .await;
}

pub async fn a_late_summary_counts_and_all_that_was_said_since_is_told() {
    counts_late(LongCall::of_stages(Asides::Held, 4).await, [1, 4, 3]).await;
}
