//! What the session that carries a long call on knows of it.

use crate::{
    desk::Desk,
    failover::{converse, is_told},
    ms,
    support::vendor::{Dialect, SUMMARY, Scenario, Vendor, hertz},
};

/// One answer; three of them are more than an agent is told as they were said.
const AGENTS_WORDS: usize = 3_000;

/// The limit of a session comes near in a call in which more was said than a new one is told: its beginning is told in short,
/// where the vendor's model can be asked for that aside, and its end as it was said.
pub async fn a_long_call_is_carried_on_by_a_summary_of_its_beginning_and_the_words_of_its_end<D: Dialect>() {
    let mut options = D::waits();
    options["session_seconds"] = 20.into();
    let agent_words = &*"We open at nine. ".repeat(AGENTS_WORDS / 17).leak();
    let scenario = Scenario { agent_words, ..Scenario::answers(ms(800)) };
    let vendor = Vendor::start::<D>(scenario).await;
    let desk = Desk::with(&[("first", vendor.yaml_with(options))], "").await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(300)).await;
    converse(&caller, hertz(1)).await;
    converse(&caller, hertz(1)).await;
    vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
    vendor.until_session(2, "is told the last words", is_told("> Agent: We open at nine.")).await;
    let told = vendor.of(2, |seen| seen.texts.concat());
    let lines = |begin: &str| told.matches(begin).count();
    // The greeting is too long ago for all; what is summed up does not come again.
    let turns = if D::SUMMARISES { 1 } else { 2 };
    assert_eq!((lines("> Caller: When are you open, please?"), lines("> Agent: We open at nine.")), (turns, turns));
    assert_eq!(lines(&format!("> Summary of what was said before: {SUMMARY}")), usize::from(D::SUMMARISES));
    // It is the session that goes on, and the summary was not spoken.
    vendor.until_session(1, "is let go", |seen| seen.over).await;
    caller.hears_nothing_for(ms(200)).await;
    converse(&caller, hertz(2)).await;
    assert_eq!(desk.metric("offhook_session_rollovers_total{outcome=\"took_over\""), 1.0);
    desk.ends_with(&caller).await;
    vendor.is_content();
}
