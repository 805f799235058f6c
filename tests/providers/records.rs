//! What the session that carries a long call on knows of it.

use crate::providers::{
    agents::Agents,
    desk::{Desk, Setting},
    ear::Caller,
    failover::{DEPUTY, another, converse, desk_of, is_told},
    kit::{
        stages::{Asked, Reply, Stages},
        vendor::{Asides, Dialect, Order, SUMMARY, Scenario, Seen, Vendor, hertz},
    },
    ms, stages,
};
use futures_util::future::join_all;
use std::sync::Arc;
use tokio::sync::Notify;

/// One answer; three of them are more than an agent is told as they were said.
const AGENTS_WORDS: usize = 3_000;

/// Most of the words are directions to the voice: so many could not be spoken in the time that the answer takes.
fn talkative() -> Scenario {
    let agent_words = format!("We open at nine.{}", " [slowly]".repeat(AGENTS_WORDS / 9)).leak();
    Scenario { agent_words, ..Scenario::answers(ms(800)) }
}

/// The caller was greeted and has asked as often.
async fn a_long_call(desk: &Desk, turns: usize) -> Caller {
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    go_on(&caller, turns).await;
    caller
}

async fn go_on(caller: &Caller, turns: usize) {
    for _ in 0..turns {
        converse(caller, hertz(1)).await;
        caller.hears_nothing_for(ms(300)).await;
    }
}

/// How many summaries, words of the caller and words of the agent are in what a session was told.
pub fn record(told: &str) -> [usize; 3] {
    let summary = format!("> Summary of what was said before: {SUMMARY}");
    [&summary, "> Caller: When are you open, please?", "> Agent: We open at nine"]
        .map(|line| told.matches(line).count())
}

/// Neither this vendor nor its memory is there any more.
pub async fn a_long_call_that_is_lost_is_carried_on_by_another_vendor_with_its_beginning_in_short<D: Dialect>() {
    let (vendor, other) = (Vendor::start::<D>(talkative()).await, another::<D>().await);
    let desk = desk_of(&vendor, &other).await;
    let caller = a_long_call(&desk, 2).await;
    vendor.stop_listening();
    vendor.order(1, Order::Drop);
    other.until_session(1, "is told the last words", is_told("> Agent: We open at nine.")).await;
    let expected = if D::SUMMARISES { [1, 1, 1] } else { [0, 2, 2] };
    assert_eq!(record(&other.of(1, |seen| seen.texts.concat())), expected);
    converse(&caller, hertz(1 + DEPUTY)).await;
    assert_eq!(desk.recoveries("took_over", "second"), 1.0);
    desk.ends_with(&caller).await;
    vendor.is_content();
    other.is_content();
}

/// A call that has become long, with somebody who is asked to sum it up, and is lost.
pub struct LongCall {
    agents: Agents,
    /// Who carries it on where that is another.
    deputy: Option<Stages>,
    /// Lets the first summary of a pipeline's model come.
    comes: Arc<Notify>,
    desk: Desk,
    caller: Caller,
}

impl LongCall {
    /// With a vendor, whose greeting is long as well.
    async fn of<D: Dialect>(asides: Asides, turns: usize) -> Self {
        let agents = Agents::of::<D>(Scenario { asides, ..talkative() }).await;
        let desk = agents.desk(Setting::default()).await;
        let caller = a_long_call(&desk, turns).await;
        Self { agents, deputy: None, comes: Arc::default(), desk, caller }
    }

    /// With a pipeline.
    pub async fn of_stages(asides: Asides, turns: usize) -> Self {
        let ((stages, comes), deputy) = (stages::records::talkative(asides).await, stages::faults::deputy().await);
        let desk = Desk::of_pipelines(&[("first", &stages), ("second", &deputy)], "fallbacks: [second]").await;
        let caller = a_long_call(&desk, turns).await;
        Self { agents: Agents::Stages(Box::new(stages)), deputy: Some(deputy), comes, desk, caller }
    }

    /// Waits until a summary was wanted so often; what the last one is to be made of, as the agent was told.
    pub async fn is_to_sum_up(&self, times: usize) -> String {
        match &self.agents {
            Agents::Vendor(vendor) => {
                vendor.until_session(1, "is to sum up", |seen| wanted(seen).count() == times).await;
                vendor.of(1, |seen| wanted(seen).last().cloned()).expect("waited for")
            }
            Agents::Stages(stages) => {
                let wanted =
                    |asked: &[Asked]| asked.iter().filter(|asked| is_summary(asked)).cloned().collect::<Vec<_>>();
                let asked = stages.model.until("it is to sum up", |asked| wanted(asked).len() == times).await;
                wanted(&asked)[times - 1].said_by("user").concat()
            }
        }
    }

    /// Waits until the engine knows that it gets no summary.
    async fn is_refused(&self) {
        match &self.agents {
            Agents::Vendor(_) => self.desk.counts("offhook_provider_noise_total{kind=\"command_refused\"", 1.0).await,
            Agents::Stages(_) => {
                self.caller.until("it is refused", |_| self.desk.asked_of("llm", "refused") == 1.0).await
            }
        }
    }

    /// What was held comes.
    fn comes(&self) {
        match &self.agents {
            Agents::Vendor(vendor) => vendor.order(1, Order::Asides),
            Agents::Stages(_) => self.comes.notify_one(),
        }
    }

    /// The agent is lost, a pipeline's to a caller who has asked something more. What the next one was told, to whom the
    /// caller then speaks.
    pub async fn is_lost(&self) -> String {
        let Self { desk, caller, .. } = self;
        let (told, provider) = match (&self.agents, &self.deputy) {
            (Agents::Stages(stages), Some(deputy)) => {
                stages.voice.answers(|_| Reply::refuses(402, "insufficient_quota"));
                converse(caller, hertz(1 + DEPUTY)).await;
                (deputy.model.is_asked(1).await.body["messages"].to_string(), "second")
            }
            (agents, _) => {
                let vendor = agents.listens();
                vendor.order(1, Order::Drop);
                vendor.until_session(2, "is told the last words", is_told("> Agent: We open at nine")).await;
                let told = vendor.of(2, |seen| seen.texts.concat());
                converse(caller, hertz(2)).await;
                (told, "first")
            }
        };
        assert_eq!(desk.recoveries("took_over", provider), 1.0);
        desk.ends_with(caller).await;
        self.agents.is_content();
        self.deputy.iter().for_each(|deputy| deputy.listener.is_content());
        told
    }
}

/// What a vendor was asked to sum up.
fn wanted(seen: &Seen) -> impl Iterator<Item = &String> {
    seen.texts.iter().filter(|text| text.contains("offhook-summary-"))
}

/// A pipeline's model is.
pub fn is_summary(asked: &Asked) -> bool {
    asked.said_by("system").iter().any(|told| told.starts_with("Sum up this record"))
}

pub async fn a_summary_that_is_refused_or_never_comes_leaves_nothing_out<D: Dialect>() {
    join_all([Asides::Refused, Asides::Held].map(|asides| async move {
        leaves_nothing_out(asides, LongCall::of::<D>(asides, 2).await, [0, 2, 3]).await;
    }))
    .await;
}

pub async fn a_late_summary_counts_and_all_that_was_said_since_is_told<D: Dialect>() {
    counts_late(LongCall::of::<D>(Asides::Held, 3).await, [1, 3, 3]).await;
}

/// The agent does not sum up what it was asked to: the one that follows is told it as it was said.
pub async fn leaves_nothing_out(asides: Asides, call: LongCall, expected: [usize; 3]) {
    call.is_to_sum_up(1).await;
    if matches!(asides, Asides::Refused) {
        call.is_refused().await;
    }
    assert_eq!(record(&call.is_lost().await), expected, "{asides:?}");
}

/// The first summary comes when more was said, and the one after it never.
pub async fn counts_late(call: LongCall, expected: [usize; 3]) {
    call.is_to_sum_up(1).await;
    call.comes();
    go_on(&call.caller, 1).await;
    // Of the first two answers it is told in short.
    let more = call.is_to_sum_up(2).await;
    assert_eq!(record(&more)[0], 1, "{more}");
    assert_eq!(record(&call.is_lost().await), expected);
}

/// The limit of a session comes near in a call in which more was said than a new one is told: its beginning is told in short,
/// where the vendor's model can be asked for that aside, and its end as it was said.
pub async fn a_long_call_is_carried_on_by_a_summary_of_its_beginning_and_the_words_of_its_end<D: Dialect>() {
    let mut options = D::waits();
    options["session_seconds"] = 20.into();
    let vendor = Vendor::start::<D>(talkative()).await;
    let desk = Desk::with(&[("first", vendor.yaml_with(options))], "").await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(300)).await;
    converse(&caller, hertz(1)).await;
    converse(&caller, hertz(1)).await;
    vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
    vendor.until_session(2, "is told the last words", is_told("> Agent: We open at nine.")).await;
    // The greeting is too long ago for all; what is summed up does not come again.
    let expected = if D::SUMMARISES { [1, 1, 1] } else { [0, 2, 2] };
    assert_eq!(record(&vendor.of(2, |seen| seen.texts.concat())), expected);
    // It is the session that goes on, and the summary was not spoken.
    vendor.until_session(1, "is let go", |seen| seen.over).await;
    caller.hears_nothing_for(ms(200)).await;
    converse(&caller, hertz(2)).await;
    assert_eq!(desk.metric("offhook_session_rollovers_total{outcome=\"took_over\""), 1.0);
    desk.ends_with(&caller).await;
    vendor.is_content();
}
