//! What fills a caller's waiting: when it begins, what ends it, and that it is nobody's turn.

use crate::providers::{
    agents::Agents,
    clips::{QUIET, at_8_khz, sleep_call},
    desk::{Desk, MOMENT_HZ, Setting, has_heard},
    ear::{Caller, Tape},
    kit::mcp_stand_in::{Manner, StandIn, TOKEN},
    kit::{
        audio::{Sound, samples_of},
        vendor::{Call, Dialect, Order, Scenario, Seen, Vendor, hertz},
    },
    ms,
    tools::look_up,
    turns::{QUESTION, SILENCED_WITHIN},
};
use std::{ops::Range, time::Duration};

/// Longer than a vendor takes for an answer, and than the wait for a tool that is known to be slow, 400 ms.
pub const QUIET_FOR_LONG: &str =
    "limits: { quiet: 1200ms }\nfillers: { moment: { file: moment.wav, text: \"One moment, please.\" } }";
/// A vendor and a caller whom it has greeted and who has heard nothing since.
async fn greeted<D: Dialect>(setting: Setting<'_>) -> (Vendor, Desk, Caller) {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::open(&[("first", vendor.yaml())], setting).await;
    let caller = is_greeted(&desk).await;
    (vendor, desk, caller)
}

/// Who speaks over a filler has the turn at once, and is answered.
pub async fn a_caller_who_interrupts_a_filler_silences_it_and_is_heard<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>(Setting { more: QUIET_FOR_LONG, ..Setting::default() }).await;
    desk.service.holds(true);
    vendor.order(1, Order::Call(vec![look_up(1)]));
    let said = silences_a_filler(&desk, &caller).await;
    vendor.until_session(1, "has the result", |seen| seen.results.len() == 1).await;
    caller.hears_from(said.end, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    assert_eq!(caller.look(|tape| tape.time_of(MOMENT_HZ, said.end)), ms(0), "and it does not go on: {story}");
    has_heard("the vendor", &vendor, 1, &caller);
    assert_eq!(vendor.of(1, |seen| seen.turns_ended), 1, "{story}");
    desk.ends_with(&caller).await;
    assert_eq!(desk.engine.calls().view().recent[0].counts.barge_ins, 0, "no answer was interrupted");
    vendor.is_content();
}

/// From an onset until it is decided what it was, and a little more.
const DECIDED_WITHIN: Duration = ms(750);

/// A caller who waits for a tool speaks over the filler; the tool has its answer when they have spoken.
pub async fn silences_a_filler(desk: &Desk, caller: &Caller) -> Range<Duration> {
    caller.hears(MOMENT_HZ, ms(300)).await;
    let before = caller.look(|tape| tape.said.len());
    caller.says(QUESTION).await;
    caller.until("the caller speaks", |tape| tape.said.len() > before).await;
    let said = caller.has_spoken().await;
    desk.service.holds(false);
    caller.look(|tape| {
        let heard = |from| tape.time_of(MOMENT_HZ, said.start + from);
        // A sound with a pause in it can be taken for a short one at first.
        assert!(heard(SILENCED_WITHIN) <= ms(60), "it goes on for {:?}: {tape:?}", heard(SILENCED_WITHIN));
        assert_eq!(heard(DECIDED_WITHIN), ms(0), "the turn is the caller's: {tape:?}");
    });
    said
}

/// Of the filler, before the answer comes.
const FILLED: Duration = ms(1_000);

/// One turn of the caller, and one answer to it: what was heard in between counts for nobody, and the vendor hears it not.
pub async fn a_filler_is_nobodys_turn<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>(Setting { more: QUIET, ..Setting::default() }).await;
    vendor.order(1, Order::Think);
    caller.says(QUESTION).await;
    let said = caller.has_spoken().await;
    caller.hears(MOMENT_HZ, FILLED).await;
    vendor.order(1, Order::Answer);
    caller.hears_from(said.end, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(1_500)).await;
    let conversation = |seen: &Seen| (seen.turns_ended, seen.answered, seen.interrupted, seen.cancels);
    assert_eq!(vendor.of(1, conversation), (1, 2, 0, 0), "{:?}", vendor.of(1, |seen| seen.texts.clone()));
    let (audio, hears) = vendor.of(1, |seen| (seen.audio.clone(), seen.set_up.clone().expect("it is ready").hears));
    let heard = Sound { samples: at_8_khz(&samples_of(&audio, hears), hears.rate) };
    // A caller's voice can have its pitch for a moment.
    assert!(heard.time_of(MOMENT_HZ) < FILLED / 3, "the agent does not hear it: {:?}", heard.spans_of(MOMENT_HZ));
    is_counted_as_one_turn(&desk, &caller, said.end, FILLED - ms(200)).await;
    vendor.is_content();
}

/// Of the caller, who ended it then, and heard so much of a filler at the least before the answer. The call is over then.
pub async fn is_counted_as_one_turn(desk: &Desk, caller: &Caller, ended: Duration, filled: Duration) {
    let story = caller.look(|tape| format!("{tape:?}"));
    assert_eq!(desk.metric("offhook_sentences_total{purpose=\"filler\"}"), 1.0, "{story}");
    assert_eq!(desk.metric("offhook_turn_latency_seconds_count{provider=\"first\"}"), 1.0, "{story}");
    let told = Duration::from_secs_f64(desk.metric("offhook_turn_latency_seconds_sum{provider=\"first\"}"));
    let heard = |hz| caller.look(|tape| tape.first_of(hz, ended)).expect("waited for") - ended;
    assert!(told >= heard(MOMENT_HZ) + filled, "until the answer, and not {told:?}: {story}");
    assert!(told <= heard(hertz(1)) + ms(100), "{told:?}: {story}");
    desk.ends_with(caller).await;
    let counts = desk.engine.calls().view().recent[0].counts;
    assert_eq!((counts.agent_turns, counts.barge_ins), (2, 0), "a greeting and an answer: {story}");
}

/// So much longer than that, and a tool is known to be slow.
const KNOWN_TO_BE_SLOW: Duration = ms(2_900);

pub async fn a_tool_that_was_slow_before_is_announced_sooner<D: Dialect>() {
    is_announced_sooner(Agents::of::<D>(Scenario::default()).await).await;
}

pub async fn a_tool_that_is_about_to_answer_as_before_is_not_announced<D: Dialect>() {
    is_not_announced(Agents::of::<D>(Scenario::default()).await).await;
}

/// The same of a pipeline.
pub mod of_stages {
    use super::{Agents, Scenario, is_announced_sooner, is_not_announced};

    pub async fn a_tool_that_was_slow_before_is_announced_sooner() {
        is_announced_sooner(Agents::of_stages(Scenario::default()).await).await;
    }

    pub async fn a_tool_that_is_about_to_answer_as_before_is_not_announced() {
        is_not_announced(Agents::of_stages(Scenario::default()).await).await;
    }
}

/// A caller whom the agents have greeted.
async fn is_greeted(desk: &Desk) -> Caller {
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    caller
}

/// Four runs that were slow: with the next one the caller is told at once.
async fn is_announced_sooner(agents: Agents) {
    let desk = agents.desk(Setting { more: QUIET_FOR_LONG, ..Setting::default() }).await;
    let caller = is_greeted(&desk).await;
    let filled = async |first: usize, last: usize, takes: Duration| {
        desk.service.holds(true);
        let silent = agents.calls(1, &caller, (first..=last).map(look_up).collect()).await;
        desk.service.wait_requests(last).await;
        let asked = caller.now();
        caller.hears_from(silent, MOMENT_HZ, ms(500)).await;
        caller.until("the tool has taken its time", |tape| tape.now() >= asked + takes).await;
        desk.service.holds(false);
        caller.hears_from(asked, hertz(1), ms(900)).await;
        caller.hears_nothing_for(ms(300)).await;
        caller.look(|tape| tape.first_of(MOMENT_HZ, silent).expect("waited for") - silent)
    };
    let first = filled(1, 2, KNOWN_TO_BE_SLOW).await;
    takes_a_turn(&agents, &caller).await;
    filled(3, 4, KNOWN_TO_BE_SLOW).await;
    takes_a_turn(&agents, &caller).await;
    let next = filled(5, 5, ms(0)).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    assert!((ms(1_180)..=ms(1_600)).contains(&first), "after {first:?} of silence: {story}");
    assert!(next <= ms(900), "after {next:?} of silence: {story}");
    assert_eq!(desk.metric("offhook_sentences_total"), 3.0, "{story}");
    desk.ends_with(&caller).await;
    agents.is_content();
}

/// In one of the caller's turns two look-ups are run, and one sentence is heard. A pipeline's agent runs them in a turn of
/// their own.
async fn takes_a_turn(agents: &Agents, caller: &Caller) {
    if matches!(agents, Agents::Vendor(_)) {
        let said = caller.asks().await;
        caller.hears_from(said.end, hertz(1), ms(900)).await;
        caller.hears_nothing_for(ms(300)).await;
    }
}

/// What a tool's own sentence waits.
const SENTENCE_AFTER: Duration = ms(2_000);

/// Four runs that ended soon after the sentence had begun: with the next one it is waited, and the answer comes first.
async fn is_not_announced(agents: Agents) {
    let server = StandIn::start_here(Manner::default());
    let sections = format!(
        "mcp:\n  servers:\n    far:\n      {{ transport: http, url: \"{}\", bearer_token: {TOKEN}, defaults: {{ access: \
         public_read, slow_response_threshold_ms: {}, slow_response_message: One moment., risk_domain: customer_support }} }}\n",
        server.url(),
        SENTENCE_AFTER.as_millis(),
    );
    let setting = Setting { more: QUIET, tools: ", mcp_far_sleep", sections: &sections, ..Setting::default() };
    let desk = agents.desk(setting).await;
    desk.has_tools_of("far").await;
    let caller = is_greeted(&desk).await;
    let announced = || desk.metric("offhook_sentences_total{purpose=\"announcement\"}");
    let answered = async |calls: Vec<Call>| {
        let asked = caller.now();
        agents.calls(1, &caller, calls).await;
        caller.hears_from(asked, hertz(1), ms(900)).await;
        caller.hears_nothing_for(ms(300)).await;
        caller.look(|tape: &Tape| tape.loud_time(asked..tape.now()))
    };
    for (round, seconds) in [(1, 2.1), (2, 2.12)] {
        answered(vec![sleep_call(2 * round - 1, seconds), sleep_call(2 * round, seconds + 0.01)]).await;
        assert_eq!(announced(), round as f64, "{}", caller.look(|tape| format!("{tape:?}")));
        takes_a_turn(&agents, &caller).await;
    }
    let heard = answered(vec![sleep_call(5, 2.14)]).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    assert!(heard <= ms(1_040), "nothing but the answer: {heard:?}; {story}");
    assert_eq!((announced(), desk.metric("offhook_sentences_total")), (2.0, 2.0), "{story}");
    let results = agents.results(1);
    assert!(results.len() == 5 && results.iter().all(|(_, result)| result.contains("slept")), "{results:?}");
    desk.ends_with(&caller).await;
    agents.is_content();
}
