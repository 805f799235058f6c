//! What the engine says itself, word for word, beside each vendor's agent.

use crate::providers::{
    desk::{Desk, MOMENT, MOMENT_HZ, Setting},
    ear::{Caller, Tape},
    kit::mcp_stand_in::{Manner, StandIn, TOKEN},
    kit::{
        audio::{Sound, samples_of},
        vendor::{Call, Dialect, Order, Scenario, Seen, Vendor, hertz},
    },
    ms,
    tools::look_up,
};
use serde_json::json;
use std::time::Duration;

/// The caller waits for less than this until the filler.
pub const QUIET: &str =
    "limits: { quiet: 700ms }\nfillers: { moment: { file: moment.wav, text: \"One moment, please.\" } }";
/// Its edges can be taken for another pitch.
pub const EDGES: Duration = ms(60);

/// The vendor speaks as soon as it can; its words wait until the clip was heard.
pub async fn a_clip_greets_the_caller_and_the_agent_is_told_its_words<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::with(&[("first", vendor.yaml())], "greeting_by: clip").await;
    let caller = desk.call().await;
    vendor.until_session(1, "is set up", |seen| seen.set_up.is_some()).await;
    vendor.order(1, Order::Speak);
    caller.hears(hertz(1), ms(900)).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    let agent = caller.look(|tape| tape.first_of(hertz(1), ms(0))).expect("it was heard");
    let begins = caller.look(|tape| tape.longest_silence(ms(0)..ms(400)));
    assert!(begins <= ms(200), "the clip is heard at once: {story}");
    let clip = caller.look(|tape| tape.loud_time(ms(0)..agent));
    assert!((ms(300)..=ms(1_500)).contains(&clip), "{clip:?} of the clip: {story}");
    caller.hears_nothing_for(ms(300)).await;
    let told = vendor.of(1, |seen| seen.texts.iter().filter(|text| text.contains("Hello there.")).count());
    assert!(told >= 1, "{:?}", vendor.of(1, |seen| seen.texts.clone()));
    let (audio, hears) = vendor.of(1, |seen| (seen.audio.clone(), seen.set_up.clone().expect("it is ready").hears));
    assert!(samples_of(&audio, hears).iter().all(|sample| sample.unsigned_abs() < 100), "the agent does not hear it");
    // A caller who is greeted can be answered.
    caller.speaks().await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    assert_eq!(desk.metric("offhook_sentences_total{purpose=\"greeting\"}"), 1.0);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// A consent text.
pub const NOTICE: &str = "notice: { file: moment.wav, text: This call is recorded. }";

/// No vendor's words and no caller's cut it, and the caller hears the agent after it.
pub async fn a_notice_is_heard_to_its_end_whoever_speaks<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::with(&[("first", vendor.yaml())], NOTICE).await;
    let caller = desk.call().await;
    hears_the_notice(&desk, &caller, &vendor).await;
    let is_told = |seen: &Seen| seen.texts.iter().any(|text| text.contains("This call is recorded."));
    vendor.until_session(1, "is told what was said", is_told).await;
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// The caller speaks into it, hears all of it and then the greeting; the agent, who listens by this vendor, does not
/// hear it.
pub async fn hears_the_notice(desk: &Desk, caller: &Caller, vendor: &Vendor) {
    caller.hears(MOMENT_HZ, ms(300)).await;
    caller.says("No, wait, listen to me.").await;
    caller.hears(hertz(1), ms(900)).await;
    let (begins, notice, agent, story) = caller.look(|tape| {
        let agent = tape.first_of(hertz(1), ms(0)).expect("it was heard");
        (tape.longest_silence(ms(0)..ms(400)), tape.seamless(MOMENT_HZ, ms(0)..agent), agent, format!("{tape:?}"))
    });
    assert!(begins <= ms(200), "it is heard at once: {story}");
    assert!((MOMENT..=MOMENT + ms(20)).contains(&notice), "{notice:?} of it: {story}");
    assert!(caller.look(|tape| tape.longest_silence(ms(200)..agent - ms(20))) <= ms(1_520), "{story}");
    let (audio, hears) = vendor.of(1, |seen| (seen.audio.clone(), seen.set_up.clone().expect("it is ready").hears));
    let heard = Sound { samples: at_8_khz(&samples_of(&audio, hears), hears.rate) };
    assert!(heard.time_of(MOMENT_HZ) < ms(100), "the agent does not hear it: {:?}", heard.spans_of(MOMENT_HZ));
    assert_eq!(desk.metric("offhook_sentences_total{purpose=\"notice\"}"), 1.0);
    assert_eq!(desk.metric("offhook_sentences_total"), 1.0, "{story}");
}

/// Good enough to find a pitch in it.
pub fn at_8_khz(samples: &[i16], rate: u32) -> Vec<i16> {
    samples.iter().step_by(rate as usize / 8_000).copied().collect()
}

pub async fn a_slow_tool_is_announced_once_and_the_agent_is_told_so<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::with(&[("first", vendor.yaml())], QUIET).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    desk.service.holds(true);
    vendor.order(1, Order::Call(vec![look_up(1)]));
    desk.service.wait_requests(1).await;
    let asked = caller.now();
    caller.hears(MOMENT_HZ, MOMENT - EDGES).await;
    // Twice as long as it took until the first one.
    caller.hears_nothing_for(ms(1_500)).await;
    let (filler, begun) = caller.look(|tape| (tape.time_of(MOMENT_HZ, ms(0)), tape.first_of(MOMENT_HZ, ms(0))));
    let story = caller.look(|tape| format!("{tape:?}"));
    assert!(filler <= MOMENT, "once: {story}");
    assert!(begun.is_some_and(|begun| begun <= asked + ms(1_000)), "{story}");
    desk.service.holds(false);
    let released = caller.now();
    caller.hears_from(released, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    assert_eq!(caller.look(|tape| tape.time_of(MOMENT_HZ, released)), ms(0));
    assert_eq!(desk.metric("offhook_sentences_total"), 1.0);
    vendor
        .until_session(1, "is told what was said", |seen| seen.texts.iter().any(|text| text.contains("One moment, ")))
        .await;
    assert_eq!(vendor.of(1, |seen| seen.results.len()), 1);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

pub async fn a_filler_is_not_heard_before_a_quick_answer_and_makes_place_for_a_late_one<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::with(&[("first", vendor.yaml())], QUIET).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let asked = caller.now();
    vendor.order(1, Order::Call(vec![look_up(1)]));
    caller.hears_from(asked, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let fillers = |tape: &Tape| tape.time_of(MOMENT_HZ, ms(0));
    assert_eq!(caller.look(fillers), ms(0), "{}", caller.look(|tape| format!("{tape:?}")));
    desk.service.holds(true);
    vendor.order(1, Order::Call(vec![look_up(2)]));
    caller.hears(MOMENT_HZ, ms(300)).await;
    let released = caller.now();
    desk.service.holds(false);
    caller.hears_from(released, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    assert!(caller.look(fillers) <= ms(1_000), "it makes place: {story}");
    let answer = caller.look(|tape| tape.seamless(hertz(1), tape.first_of(hertz(1), released).unwrap()..tape.now()));
    assert!((ms(1_000)..=ms(1_020)).contains(&answer), "{answer:?}: {story}");
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// Longer than what is usual, 2 s, and than the filler of [`QUIET`] waits.
const SLOW: Duration = ms(3_000);
pub const SLOWLY: &str = "The far desk is being asked.";
/// The sentence by the voice that is built in.
const SENTENCE: std::ops::RangeInclusive<Duration> = ms(1_000)..=ms(2_500);

/// A call of the MCP server's tool, which takes so long.
pub fn sleep_call(number: usize, seconds: f64) -> Call {
    Call { id: format!("call_{number:016}"), name: "mcp_far_sleep".into(), arguments: json!({ "seconds": seconds }) }
}

/// The section of an MCP server whose tools have a threshold and a sentence of their own.
pub fn slow_server(server: &StandIn) -> String {
    format!(
        "mcp:\n  servers:\n    far:\n      {{ transport: http, url: \"{}\", bearer_token: {TOKEN}, defaults: {{ access: \
         public_read, slow_response_threshold_ms: {}, slow_response_message: {SLOWLY}, risk_domain: customer_support }} }}\n",
        server.url(),
        SLOW.as_millis(),
    )
}

/// An engine whose agents have that server's tool.
pub async fn slow_desk(providers: &[(&str, String)], sections: &str) -> Desk {
    let setting = Setting { more: QUIET, tools: ", mcp_far_sleep", sections, ..Setting::default() };
    let desk = Desk::open(providers, setting).await;
    desk.has_tools_of("far").await;
    desk
}

/// Waits until the server's tool was asked for so often.
async fn is_asked(caller: &Caller, server: &StandIn, times: usize) -> Duration {
    let calls = || server.asked().iter().filter(|asked| asked.method == "tools/call").count();
    caller.until(&format!("the tool is asked {times} times"), |_| calls() == times).await;
    caller.now()
}

/// The first call is over before its threshold: nothing but the answer is heard.
pub async fn has_no_sentence(caller: &Caller, server: &StandIn) {
    let asked = is_asked(caller, server, 1).await;
    caller.hears_from(asked, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let (answer, story) = caller.look(|tape| (tape.loud_time(asked..tape.now()), format!("{tape:?}")));
    assert!(answer <= ms(1_040), "nothing but the answer: {story}");
}

/// The second one takes 7 s: the sentence is heard after the threshold, and once.
pub async fn has_its_sentence_once(desk: &Desk, caller: &Caller, server: &StandIn) {
    let asked = is_asked(caller, server, 2).await;
    caller.hears_from(asked, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let (begun, answered, story) =
        caller.look(|tape| (tape.first_sound(asked), tape.first_of(hertz(1), asked + SLOW), format!("{tape:?}")));
    let (begun, answered) = (begun.expect("waited for"), answered.expect("waited for"));
    assert!((asked + SLOW - ms(40)..=asked + SLOW + ms(400)).contains(&begun), "asked at {asked:?}: {story}");
    assert!(answered >= asked + ms(6_900), "{story}");
    let sentence = caller.look(|tape| tape.loud_time(asked..answered));
    assert!(SENTENCE.contains(&sentence), "once: {sentence:?}; {story}");
    assert_eq!(desk.metric("offhook_sentences_total{purpose=\"announcement\"}"), 1.0, "{story}");
    assert_eq!(desk.metric("offhook_sentences_total"), 1.0, "{story}");
}

/// Not for a call that is over before; and once, however long the tool takes.
pub async fn a_slow_tools_own_sentence_is_heard_after_its_own_threshold_and_once<D: Dialect>() {
    let (vendor, server) = (Vendor::start::<D>(Scenario::default()).await, StandIn::start_here(Manner::default()));
    let desk = slow_desk(&[("first", vendor.yaml())], &slow_server(&server)).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    vendor.order(1, Order::Call(vec![sleep_call(1, 2.4)]));
    has_no_sentence(&caller, &server).await;
    let results = vendor.of(1, |seen| seen.results.clone());
    assert!(results.len() == 1 && results[0].1.contains("slept"), "{results:?}");
    vendor.order(1, Order::Call(vec![sleep_call(2, 7.0)]));
    has_its_sentence_once(&desk, &caller, &server).await;
    vendor.until_session(1, "is told what was said", |seen| seen.texts.iter().any(|text| text.contains(SLOWLY))).await;
    assert!(vendor.of(1, |seen| seen.results.len() == 2 && seen.results[1].1.contains("slept")));
    desk.ends_with(&caller).await;
    vendor.is_content();
}
