//! What who carries a long call on knows of a pipeline's part of it.

use super::{
    called,
    faults::{DEPUTY, deputy},
    speaks,
};
use crate::{
    desk::Desk,
    ms,
    support::{
        stages::{Asked, Reply, Stages, model, voice},
        vendor::{SUMMARY, hertz},
    },
};

/// One clause after the other of it is spoken without a pause; three such answers are more than an agent is told as they
/// were said.
const ANSWER: &str = "we open at nine and ";

fn is_summary(asked: &Asked) -> bool {
    asked.said_by("system").iter().any(|told| told.starts_with("Sum up this record"))
}

/// The voice is gone for good, and another pipeline takes the call on.
pub async fn a_long_call_that_is_lost_is_carried_on_by_another_vendor_with_its_beginning_in_short() {
    let (stages, deputy) = (Stages::start().await, deputy().await);
    stages.model.answers(|asked| model::says(&if is_summary(asked) { SUMMARY.to_owned() } else { ANSWER.repeat(150) }));
    stages.voice.answers(|asked| voice::speaks(asked, hertz(1), ms(if asked.text().len() < 20 { 1_000 } else { 200 })));
    let desk = Desk::of_pipelines(&[("first", &stages), ("second", &deputy)], "fallbacks: [second]").await;
    let caller = called(&desk).await;
    for _ in 0..3 {
        let said = speaks(&caller).await;
        caller.hears_from(said.end, hertz(1), ms(700)).await;
        caller.hears_nothing_for(ms(400)).await;
    }
    let record = stages.model.until("it is to sum up", |asked| asked.iter().any(is_summary)).await;
    let record = record.iter().find(|asked| is_summary(asked)).expect("waited for").said_by("user").concat();
    assert!(record.starts_with("> Agent: Hello there.\n> Caller: When are you open, please?"), "{record}");
    stages.voice.answers(|_| Reply::refuses(402, "insufficient_quota"));
    let said = speaks(&caller).await;
    caller.hears_from(said.end, hertz(1 + DEPUTY), ms(700)).await;
    let told = deputy.model.is_asked(1).await.body["messages"].to_string();
    let lines = |begin: &str| told.matches(begin).count();
    assert_eq!(lines(&format!("> Summary of what was said before: {SUMMARY}")), 1, "{told}");
    assert_eq!((lines("> Agent: we open at nine"), lines("> Agent: Hello there.")), (1, 0), "{told}");
    assert_eq!(desk.recoveries("took_over", "second"), 1.0);
    desk.ends_with(&caller).await;
    deputy.listener.is_content();
}
