//! What breaks, and what the caller hears of it. Each test is a row or a few of one table: what the vendor does, when,
//! and what becomes of the call.

use crate::{
    desk::{APOLOGY_HZ, Desk},
    ear::{Caller, Tape},
    ms,
    support::vendor::{Dialect, Failure, Opening, Order, Saying, Scenario, Seen, Vendor, hertz},
    tools::{greeted, look_up},
};
use futures_util::future::join_all;
use std::time::Duration;

/// Where a call is when something happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    CallerSpeaking,
    AgentSpeaking,
    ToolRunning,
}

const STATES: [State; 4] = [State::Idle, State::CallerSpeaking, State::AgentSpeaking, State::ToolRunning];
/// Close codes that vendors are known to send.
const CODES: [u16; 5] = [1000, 1001, 1007, 1008, 1011];
/// Every attempt of the first session, and of those that were to carry the call on; with time to spare.
const DIALS: Duration = ms(16_000);
/// No caller hears more than 1.5 s of unexplained silence; and half a second for a busy machine.
const QUIET_MAX: Duration = ms(2_000);
/// From the fault, or from the caller's last word after it, until another session is heard.
const CARRIED_ON: Duration = ms(8_000);
/// Of its 800 ms; words can have its pitch for a moment.
const APOLOGY_MIN: Duration = ms(500);
/// Whose sessions these are, if not the first: the same vendor's, or its deputy's.
const OTHERS: [f64; 4] = [hertz(2), hertz(3), hertz(4), hertz(5)];
/// Added to the deputy's sessions for their pitch.
const DEPUTY: usize = 3;

/// Why a call may end.
type Reasons = &'static [&'static str];

const UNREACHABLE: Reasons = &["agent_unreachable"];
const UNAUTHORIZED: Reasons = &["agent_unauthorized"];
const TOO_MUCH: Reasons = &["agent_quota", "agent_throttled"];
const OVERLOADED: Reasons = &["agent_unreachable", "agent_throttled"];
const UNREADY: Reasons = &["agent_handshake", "agent_unreachable", "agent_closed"];
/// Some vendors refuse a key or a model by the code alone.
const CLOSED_UNREADY: Reasons =
    &["agent_handshake", "agent_unauthorized", "agent_protocol", "agent_expired", "agent_quota", "agent_unreachable"];

// ---- Before the session stands ----

/// One call whose sessions all open like this, and nobody else to fall back on.
async fn opens<D: Dialect>(opening: Opening, reasons: Reasons) -> Vendor {
    let what = format!("{opening:?}");
    let vendor = Vendor::start::<D>(Scenario::all(opening)).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    ends(&what, reasons, &desk, &caller, ms(0)).await;
    assert!(caller.look(|tape| tape.time_of(hertz(1), ms(0))) < ms(100), "{what}: nothing garbled is heard");
    vendor
}

/// The caller hears the apology, and the call ends for one of these reasons.
async fn ends(what: &str, reasons: Reasons, desk: &Desk, caller: &Caller, since: Duration) {
    caller.is_hung_up_on().await;
    let reason = desk.end_reason().await.label();
    let story = caller.look(|tape| format!("{tape:?}"));
    assert!(reasons.contains(&reason.as_str()), "{what}: {reason}; {story}");
    let apology = caller.look(|tape| tape.time_of(APOLOGY_HZ, since));
    assert!(apology >= APOLOGY_MIN, "{what}: {apology:?} of the apology; {story}");
    assert!(caller.now() <= since + DIALS + ms(2_000), "{what}: {story}");
    let counted = format!("offhook_calls_total{{class=\"provider\",reason=\"{reason}\"}}");
    assert_eq!(desk.metric(&counted), 1.0, "{what}: {counted}");
}

pub async fn a_refused_key_is_told_and_not_tried_again<D: Dialect>() {
    let vendor = opens::<D>(D::refuses_a_key(), UNAUTHORIZED).await;
    assert_eq!(vendor.sessions(), 1);
}

pub async fn an_upgrade_refused_with_any_status_is_told_for_what_it_is<D: Dialect>() {
    let rows = [(401, UNAUTHORIZED), (403, UNAUTHORIZED), (429, TOO_MUCH), (500, UNREACHABLE), (503, OVERLOADED)];
    join_all(rows.map(|(status, reasons)| async move {
        let vendor = opens::<D>(Opening::Refuse(status), reasons).await;
        // Three for the first session, two for the one that was to carry the call on.
        assert!(vendor.sessions() <= 5, "{status}: {} attempts", vendor.sessions());
    }))
    .await;
}

pub async fn a_vendor_that_is_not_there_is_unreachable<D: Dialect>() {
    let gone = async {
        let vendor = Vendor::start::<D>(Scenario::default()).await;
        vendor.stop_listening();
        let desk = Desk::of(&vendor).await;
        let caller = desk.call().await;
        ends("nobody listens", UNREACHABLE, &desk, &caller, ms(0)).await;
    };
    let drops = opens::<D>(Opening::Drop, UNREACHABLE);
    tokio::join!(gone, drops);
}

pub async fn an_attempt_that_failed_is_made_again_and_heals<D: Dialect>() {
    let openings = [
        Opening::Refuse(503),
        Opening::Drop,
        Opening::CloseAtOnce(1011),
        Opening::CloseAtSetUp(1011, ""),
        Opening::Garbage,
    ];
    join_all(openings.map(|opening| async move {
        let vendor = Vendor::start::<D>(Scenario::first(opening)).await;
        let desk = Desk::of(&vendor).await;
        let caller = desk.call().await;
        caller.hears(hertz(2), ms(700)).await;
        assert_eq!(vendor.sessions(), 2);
        desk.ends_with(&caller).await;
        vendor.is_content();
    }))
    .await;
}

pub async fn a_handshake_of_ten_seconds_is_not_waited_for<D: Dialect>() {
    opens::<D>(Opening::Slow(ms(10_000)), UNREADY).await;
}

pub async fn a_session_closed_before_its_first_message_is_tried_again_and_then_given_up<D: Dialect>() {
    join_all(CODES.map(|code| opens::<D>(Opening::CloseAtOnce(code), CLOSED_UNREADY))).await;
}

pub async fn a_session_closed_while_it_is_set_up_is_tried_again_and_then_given_up<D: Dialect>() {
    join_all(CODES.map(|code| opens::<D>(Opening::CloseAtSetUp(code, ""), CLOSED_UNREADY))).await;
}

pub async fn a_set_up_that_is_never_acknowledged_or_answered_with_garbage_is_given_up<D: Dialect>() {
    let rows: [(Opening, Reasons); 2] = [
        (Opening::NeverReady, UNREADY),
        (Opening::Garbage, &["agent_protocol", "agent_unreachable", "agent_handshake"]),
    ];
    join_all(rows.map(|(opening, reasons)| opens::<D>(opening, reasons))).await;
}

pub async fn quota_and_throttling_at_the_set_up_are_told_for_what_they_are<D: Dialect>() {
    let throttled = &["agent_throttled", "agent_quota", "agent_handshake"];
    let quota = opens::<D>(Opening::FailAtSetUp(Failure::Quota), TOO_MUCH);
    let (quota, _) = tokio::join!(quota, opens::<D>(Opening::FailAtSetUp(Failure::Throttled), throttled));
    assert!(quota.sessions() <= 5);
}

pub async fn a_caller_is_greeted_by_the_next_provider_when_the_first_one_fails<D: Dialect>() {
    let openings = [
        D::refuses_a_key(),
        Opening::Refuse(503),
        Opening::Slow(ms(10_000)),
        Opening::NeverReady,
        Opening::FailAtSetUp(Failure::Quota),
    ];
    join_all(openings.map(|opening| async move {
        let (vendor, deputy) = (Vendor::start::<D>(Scenario::all(opening.clone())).await, deputy::<D>().await);
        let desk = desk_of(&vendor, &deputy).await;
        let caller = desk.call().await;
        caller.hears(hertz(1 + DEPUTY), ms(600)).await;
        let story = caller.look(|tape| format!("{tape:?}"));
        let begun = caller.look(|tape| tape.first_of(hertz(1 + DEPUTY), ms(0)));
        assert!(begun < Some(ms(9_000)), "{opening:?}: {story}");
        assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, ms(0))) < APOLOGY_MIN, "{opening:?}: {story}");
        desk.ends_with(&caller).await;
        deputy.is_content();
    }))
    .await;
}

// ---- While the session stands ----

async fn deputy<D: Dialect>() -> Vendor {
    Vendor::start::<D>(Scenario { voice: DEPUTY, ..Scenario::default() }).await
}

/// Callers speak with the vendor, and with its deputy where that cannot be.
async fn desk_of(vendor: &Vendor, deputy: &Vendor) -> Desk {
    let providers = [("first", vendor.yaml()), ("second", deputy.yaml())];
    Desk::with(&providers, "fallbacks: [second]\nlimits: { agent_silence: 4s }").await
}

/// A call in this state, at which the vendor then does this: another session takes the call on, and the caller hears
/// neither an apology nor a silence that nobody explains.
async fn carries_on<D: Dialect>(state: State, order: Order, within: Duration) {
    let scenario = match state {
        // It is still being made when the fault comes.
        State::AgentSpeaking => Scenario { pace: 1.2, ..Scenario::answers(ms(3_000)) },
        _ => Scenario::default(),
    };
    let what = format!("{order:?} in {state:?}");
    let (vendor, deputy) = (Vendor::start::<D>(scenario).await, deputy::<D>().await);
    let desk = desk_of(&vendor, &deputy).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(600)).await;
    if state != State::AgentSpeaking {
        caller.hears_nothing_for(ms(300)).await;
    }
    match state {
        State::CallerSpeaking => {
            caller.speaks().await;
            let half_a_second = |said: &std::ops::Range<Duration>| said.end - said.start >= ms(500);
            caller.until("the caller speaks", |tape| tape.said.last().is_some_and(half_a_second)).await;
        }
        State::ToolRunning => {
            desk.service.holds(true);
            vendor.order(1, Order::Call(vec![look_up(1)]));
            desk.service.wait_requests(1).await;
        }
        State::Idle | State::AgentSpeaking => {}
    }
    let mut since = caller.now();
    vendor.order(1, order);
    if state == State::Idle {
        caller.speaks().await;
    }
    if matches!(state, State::Idle | State::CallerSpeaking) {
        since = caller.has_spoken().await.end;
    }
    let heard = |tape: &Tape| OTHERS.iter().filter_map(|hz| tape.first_of(*hz, since)).min();
    if state == State::ToolRunning {
        caller.until("the caller is told that it takes a moment", |tape| tape.now() > since + ms(3_000)).await;
        desk.service.holds(false);
    }
    caller.until(&format!("{what}: another session is heard"), |tape| heard(tape).is_some()).await;
    let (begun, story) = caller.look(|tape| (heard(tape).expect("waited for"), format!("{tape:?}")));
    assert!(begun <= since + within, "{what}: {story}");
    let silence = caller.look(|tape| tape.longest_silence(since..begun));
    assert!(silence <= QUIET_MAX, "{what}: {silence:?} of silence; {story}");
    assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, ms(0))) < APOLOGY_MIN, "{what}: {story}");
    let counted = ["first", "second"].map(|provider| {
        desk.metric(&format!("offhook_session_recoveries_total{{outcome=\"took_over\",provider=\"{provider}\"}}"))
    });
    assert!(counted.iter().sum::<f64>() >= 1.0, "{what}: {}", desk.engine.metrics().text());
    desk.ends_with(&caller).await;
    vendor.is_content();
    deputy.is_content();
}

/// Every close code in one state.
async fn closes<D: Dialect>(state: State) {
    join_all(CODES.map(|code| carries_on::<D>(state, Order::Close(code, ""), CARRIED_ON))).await;
}

pub async fn a_session_closed_while_nobody_speaks<D: Dialect>() {
    closes::<D>(State::Idle).await;
}

pub async fn a_session_closed_while_the_caller_speaks<D: Dialect>() {
    closes::<D>(State::CallerSpeaking).await;
}

pub async fn a_session_closed_while_the_agent_speaks<D: Dialect>() {
    closes::<D>(State::AgentSpeaking).await;
}

pub async fn a_session_closed_while_a_tool_runs<D: Dialect>() {
    closes::<D>(State::ToolRunning).await;
}

pub async fn a_connection_that_breaks_without_a_word<D: Dialect>() {
    join_all(STATES.map(|state| carries_on::<D>(state, Order::Drop, CARRIED_ON))).await;
}

pub async fn a_connection_that_is_half_open_or_a_vendor_that_falls_silent<D: Dialect>() {
    join_all([Order::Freeze, Order::Mute].map(|order| carries_on::<D>(State::Idle, order, ms(20_000)))).await;
}

pub async fn quota_throttling_and_expiry_in_mid_call<D: Dialect>() {
    let failures = [Failure::Quota, Failure::Throttled, Failure::Expired];
    let order = |failure| Order::Say(Saying::Failure(failure));
    join_all(failures.map(|failure| carries_on::<D>(State::Idle, order(failure), CARRIED_ON))).await;
}

pub async fn nothing_but_garbage_in_mid_call<D: Dialect>() {
    carries_on::<D>(State::Idle, Order::Garbage, CARRIED_ON).await;
}

/// A turn of the caller and an answer, and then the session is gone: the next one knows.
pub async fn the_next_session_is_told_what_was_said<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    caller.speaks().await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    vendor.order(1, Order::Drop);
    vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
    let told = |seen: &Seen| seen.texts.iter().any(|text| text.contains("When are you open, please?"));
    vendor.until_session(2, "is told the caller's words", told).await;
    caller.speaks().await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(2), ms(700)).await;
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// The vendor says that it will go, and is silent from then on.
pub async fn a_vendor_that_says_it_will_go_and_falls_silent<D: Dialect>() {
    let quiet = async {
        let (vendor, desk, caller) = greeted::<D>().await;
        vendor.order(1, Order::Say(Saying::GoAway { within: ms(10_000) }));
        vendor.order(1, Order::Mute);
        vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
        vendor.until_session(1, "is let go", |seen| seen.over).await;
        caller.speaks().await;
        let said = caller.has_spoken().await;
        caller.hears_from(said.end, hertz(2), ms(700)).await;
        assert_eq!(desk.metric("offhook_session_rollovers_total{outcome=\"took_over\""), 1.0);
        assert_eq!(desk.metric("offhook_session_recoveries_total"), 0.0, "nothing was lost");
        desk.ends_with(&caller).await;
        vendor.is_content();
    };
    let gone = async {
        let scenario = Scenario { pace: 1.2, ..Scenario::answers(ms(3_000)) };
        let vendor = Vendor::start::<D>(scenario).await;
        let desk = Desk::of(&vendor).await;
        let caller = desk.call().await;
        caller.hears(hertz(1), ms(600)).await;
        let since = caller.now();
        vendor.order(1, Order::Say(Saying::GoAway { within: ms(1_000) }));
        vendor.order(1, Order::Mute);
        caller.hears_from(since, hertz(2), ms(600)).await;
        let story = caller.look(|tape| format!("{tape:?}"));
        let begun = caller.look(|tape| tape.first_of(hertz(2), since)).expect("waited for");
        // The caller is asked for a moment; the rest of the answer is waited for a little longer.
        let unexplained = caller.look(|tape| tape.longest_silence(since..since + ms(3_000)));
        assert!(unexplained <= QUIET_MAX, "{unexplained:?} of silence; {story}");
        assert!(begun <= since + ms(12_000), "{story}");
        desk.ends_with(&caller).await;
        vendor.is_content();
    };
    tokio::join!(quiet, gone);
}

/// The vendor's own memory is better than a story; where it is refused, the story is told.
pub async fn a_session_is_resumed_by_its_handle_or_else_told_what_was_said<D: Dialect>() {
    let openings = [Opening::Normal, Opening::CloseAtSetUp(1007, "")];
    join_all(openings.map(|second| async move {
        let refused = !matches!(second, Opening::Normal);
        let vendor =
            Vendor::start::<D>(Scenario { openings: vec![Opening::Normal, second], ..Scenario::default() }).await;
        let desk = Desk::of(&vendor).await;
        let caller = desk.call().await;
        caller.hears(hertz(1), ms(700)).await;
        caller.hears_nothing_for(ms(300)).await;
        vendor.order(1, Order::Say(Saying::Resumable { handle: "handle-of-the-test".into() }));
        vendor.order(1, Order::Say(Saying::GoAway { within: ms(10_000) }));
        let resumed = |seen: &Seen| seen.texts.iter().any(|text| text.contains("handle-of-the-test"));
        vendor.until_session(2, "is asked to go on", resumed).await;
        let last = if refused { 3 } else { 2 };
        vendor.until_session(last, "has the call", |seen| seen.set_up.is_some()).await;
        vendor.until_session(1, "is let go", |seen| seen.over).await;
        assert_eq!(vendor.of(last, resumed), !refused);
        caller.speaks().await;
        let said = caller.has_spoken().await;
        caller.hears_from(said.end, hertz(last), ms(700)).await;
        desk.ends_with(&caller).await;
        vendor.is_content();
    }))
    .await;
}

/// Nobody can carry the call on: neither this vendor any more, nor another one.
pub async fn a_caller_whom_nobody_can_serve_any_more_hears_the_apology<D: Dialect>() {
    let scenario = Scenario {
        openings: vec![Opening::Normal],
        otherwise: Opening::Slow(ms(10_000)),
        pace: 1.2,
        ..Scenario::answers(ms(3_000))
    };
    let vendor = Vendor::start::<D>(scenario).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(600)).await;
    let since = caller.now();
    vendor.order(1, Order::Close(1011, ""));
    ends("no vendor is left", &["agent_closed", "agent_unreachable", "agent_handshake"], &desk, &caller, since).await;
    // "One moment, please" comes in time; the attempts that follow take longer.
    let silence = caller.look(|tape| tape.longest_silence(since..since + ms(3_500)));
    assert!(silence <= QUIET_MAX, "{silence:?}: {}", caller.look(|tape| format!("{tape:?}")));
    vendor.is_content();
}

// ---- What is survived ----

pub async fn noise_is_survived<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    for saying in [Saying::Unknown, Saying::Malformed, Saying::Huge(8 << 20), Saying::Ping] {
        vendor.order(1, Order::Say(saying));
    }
    let asked = caller.now();
    vendor.order(1, Order::Speak);
    caller.hears_from(asked, hertz(1), ms(700)).await;
    assert!(desk.metric("offhook_provider_noise_total") > 0.0, "{}", desk.engine.metrics().text());
    desk.ends_with(&caller).await;
    assert_eq!(vendor.sessions(), 1);
    vendor.is_content();
}

pub async fn unknown_and_doubled_ids_are_survived<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    for saying in [
        Saying::ResponseDone { response: 77 },
        Saying::Interrupted { response: 78 },
        Saying::ToolCallsCancelled { ids: vec!["nobody's".into()] },
        Saying::CallerSpeechStopped { utterance: 79 },
        Saying::CallerWords { utterance: 80, text: "Whose words?".into() },
    ] {
        vendor.order(1, Order::Say(saying));
    }
    vendor.order(1, Order::Call(vec![look_up(1)]));
    vendor.until_session(1, "has the result", |seen| seen.results.len() == 1).await;
    let asked = caller.now();
    caller.hears_from(asked, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    // The same call again, with its own id.
    vendor.order(1, Order::Call(vec![look_up(1)]));
    vendor.until_session(1, "has its answer again", |seen| seen.results.len() == 2).await;
    assert_eq!(desk.service.requests().len(), 1, "it was run once");
    let results = vendor.of(1, |seen| seen.results.clone());
    assert!(results[1].1.contains("on its way") && results[1].1.contains("replayed"), "{results:?}");
    desk.ends_with(&caller).await;
    assert_eq!(vendor.sessions(), 1);
    vendor.is_content();
}
