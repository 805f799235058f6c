//! What breaks, and what the caller hears of it. Each test is a row or a few of one table: what the vendor does, when,
//! and what becomes of the call.

use crate::{
    desk::{APOLOGY_HZ, Desk},
    ear::Caller,
    ms,
    support::vendor::{Dialect, Failure, Opening, Order, Saying, Scenario, Vendor, hertz},
    tools::{greeted, look_up},
};
use futures_util::future::join_all;
use std::time::Duration;

/// What becomes of a call.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    /// The caller hears the apology within this time of the fault, and the call ends for one of these reasons.
    Ends { within: Duration, reasons: &'static [&'static str] },
    #[allow(dead_code)] // No fault is recovered from yet.
    /// Another session carries the call on: the caller hears it within this time, and no apology.
    Recovers { within: Duration },
}

use Outcome::{Ends, Recovers};

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
/// A dial that fails is tried again until the caller has waited so long, by default; with time to spare.
const DIALS: Duration = ms(9_000);
/// What the agent said already is heard to its end before the apology: the longest answer here.
const AT_ONCE: Duration = ms(9_000);

const UNREACHABLE: Outcome = Ends { within: DIALS, reasons: &["agent_unreachable"] };
const UNAUTHORIZED: Outcome = Ends { within: DIALS, reasons: &["agent_unauthorized"] };
const TOO_MUCH: Outcome = Ends { within: DIALS, reasons: &["agent_quota", "agent_throttled"] };
const UNREADY: Outcome = Ends { within: DIALS, reasons: &["agent_handshake", "agent_unreachable", "agent_closed"] };
/// Some vendors refuse a key or a model by the code alone.
const CLOSED_UNREADY: Outcome = Ends {
    within: DIALS,
    reasons: &["agent_handshake", "agent_unauthorized", "agent_protocol", "agent_expired", "agent_quota"],
};
const LOST: Outcome = Ends {
    within: AT_ONCE,
    reasons: &["agent_closed", "agent_protocol", "agent_expired", "agent_quota", "agent_unauthorized"],
};

// ---- Before the session stands ----

/// One call whose sessions open like this, and how many attempts may be made.
async fn opens<D: Dialect>(scenario: Scenario, outcome: Outcome) -> Vendor {
    let what = format!("{:?}", scenario.otherwise);
    let vendor = Vendor::start::<D>(scenario).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    comes_to(&what, outcome, &desk, &caller, ms(0)).await;
    assert!(caller.look(|tape| tape.time_of(hertz(1), ms(0))) == ms(0), "{what}: nothing garbled is heard");
    vendor
}

pub async fn a_refused_key_is_told_and_not_tried_again<D: Dialect>() {
    let vendor = opens::<D>(Scenario::all(D::refuses_a_key()), UNAUTHORIZED).await;
    assert_eq!(vendor.sessions(), 1);
}

pub async fn an_upgrade_refused_with_any_status_is_told_for_what_it_is<D: Dialect>() {
    let rows = [(401, UNAUTHORIZED), (403, UNAUTHORIZED), (429, TOO_MUCH), (500, UNREACHABLE), (503, UNREACHABLE)];
    join_all(rows.map(|(status, outcome)| async move {
        let vendor = opens::<D>(Scenario::all(Opening::Refuse(status)), outcome).await;
        assert!(vendor.sessions() <= 3, "{status}: {} attempts", vendor.sessions());
    }))
    .await;
}

pub async fn a_vendor_that_is_not_there_is_unreachable<D: Dialect>() {
    let gone = async {
        let vendor = Vendor::start::<D>(Scenario::default()).await;
        vendor.stop_listening();
        let desk = Desk::of(&vendor).await;
        let caller = desk.call().await;
        comes_to("nobody listens", UNREACHABLE, &desk, &caller, ms(0)).await;
    };
    let drops = opens::<D>(Scenario::all(Opening::Drop), UNREACHABLE);
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
    opens::<D>(Scenario::all(Opening::Slow(ms(10_000))), UNREADY).await;
}

pub async fn a_session_closed_before_its_first_message_is_tried_again_and_then_given_up<D: Dialect>() {
    join_all(CODES.map(|code| opens::<D>(Scenario::all(Opening::CloseAtOnce(code)), CLOSED_UNREADY))).await;
}

pub async fn a_session_closed_while_it_is_set_up_is_tried_again_and_then_given_up<D: Dialect>() {
    join_all(CODES.map(|code| opens::<D>(Scenario::all(Opening::CloseAtSetUp(code, "")), CLOSED_UNREADY))).await;
}

pub async fn a_set_up_that_is_never_acknowledged_or_answered_with_garbage_is_given_up<D: Dialect>() {
    let garbage = Ends { within: DIALS, reasons: &["agent_protocol"] };
    let rows = [(Opening::NeverReady, UNREADY), (Opening::Garbage, garbage)];
    join_all(rows.map(|(opening, outcome)| opens::<D>(Scenario::all(opening), outcome))).await;
}

pub async fn quota_and_throttling_at_the_set_up_are_told_for_what_they_are<D: Dialect>() {
    let failed = |failure| Scenario::all(Opening::FailAtSetUp(failure));
    let quota = async {
        let vendor = opens::<D>(failed(Failure::Quota), TOO_MUCH).await;
        assert!(vendor.sessions() <= 3);
    };
    let throttled = Ends { within: DIALS, reasons: &["agent_throttled", "agent_quota", "agent_handshake"] };
    let throttled = opens::<D>(failed(Failure::Throttled), throttled);
    tokio::join!(quota, throttled);
}

// ---- While the session stands ----

/// A call in this state, at which the vendor then does this.
async fn breaks<D: Dialect>(state: State, order: Order, outcome: Outcome) {
    let scenario = match state {
        // It is still being made when the fault comes.
        State::AgentSpeaking => Scenario { pace: 1.2, ..Scenario::answers(ms(4_000)) },
        _ => Scenario::default(),
    };
    let what = format!("{order:?} in {state:?}");
    let vendor = Vendor::start::<D>(scenario).await;
    let desk = Desk::with(&[("first", vendor.yaml())], "limits: { agent_silence: 4s }").await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(600)).await;
    if state != State::AgentSpeaking {
        caller.hears_nothing_for(ms(300)).await;
    }
    match state {
        State::CallerSpeaking => {
            caller.speaks().await;
            caller
                .until("the caller speaks", |tape| {
                    tape.said.last().is_some_and(|said| said.end - said.start >= ms(500))
                })
                .await;
        }
        State::ToolRunning => {
            desk.service.holds(true);
            vendor.order(1, Order::Call(vec![look_up(1)]));
            desk.service.wait_requests(1).await;
        }
        State::Idle | State::AgentSpeaking => {}
    }
    let broken = caller.now();
    vendor.order(1, order);
    if let Recovers { .. } = outcome {
        vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
        desk.service.holds(false);
        if state == State::Idle {
            caller.speaks().await;
        }
    }
    comes_to(&what, outcome, &desk, &caller, broken).await;
    vendor.is_content();
}

/// What the caller hears, how the call ends, and what is counted.
async fn comes_to(what: &str, outcome: Outcome, desk: &Desk, caller: &Caller, since: Duration) {
    match outcome {
        Ends { within, reasons } => {
            caller.is_hung_up_on().await;
            let reason = desk.end_reason().await.label();
            let story = caller.look(|tape| format!("{tape:?}"));
            assert!(reasons.contains(&reason.as_str()), "{what}: {reason}; {story}");
            let apology = caller.look(|tape| tape.time_of(APOLOGY_HZ, since));
            assert!(apology >= ms(500), "{what}: {apology:?} of the apology; {story}");
            assert!(caller.now() <= since + within + ms(2_000), "{what}: {story}");
            let counted = format!("offhook_calls_total{{class=\"provider\",reason=\"{reason}\"}}");
            assert_eq!(desk.metric(&counted), 1.0, "{what}: {counted}");
        }
        Recovers { within } => {
            caller.hears_from(since, hertz(2), ms(600)).await;
            let story = caller.look(|tape| format!("{tape:?}"));
            let begun = caller.look(|tape| tape.first_of(hertz(2), since)).expect("it was heard");
            assert!(begun <= since + within, "{what}: {story}");
            assert_eq!(caller.look(|tape| tape.time_of(APOLOGY_HZ, since)), ms(0), "{what}: {story}");
            desk.ends_with(caller).await;
        }
    }
}

/// Every close code in one state.
async fn closes<D: Dialect>(state: State) {
    join_all(CODES.map(|code| breaks::<D>(state, Order::Close(code, ""), LOST))).await;
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
    join_all(STATES.map(|state| breaks::<D>(state, Order::Drop, LOST))).await;
}

pub async fn a_connection_that_is_half_open_or_a_vendor_that_falls_silent<D: Dialect>() {
    // Nobody hears the caller any more, who is asked in vain whether somebody is there.
    let silent = Ends { within: ms(20_000), reasons: &["agent_silent", "agent_closed"] };
    let orders = [Order::Freeze, Order::Mute];
    join_all(orders.map(|order| breaks::<D>(State::Idle, order, silent))).await;
}

pub async fn quota_throttling_and_expiry_in_mid_call<D: Dialect>() {
    let rows: [(Failure, &'static [&'static str]); 3] = [
        (Failure::Quota, &["agent_quota"]),
        (Failure::Throttled, &["agent_throttled", "agent_quota", "agent_closed"]),
        (Failure::Expired, &["agent_expired", "agent_closed"]),
    ];
    join_all(rows.map(|(failure, reasons)| {
        let order = Order::Say(Saying::Failure(failure));
        breaks::<D>(State::Idle, order, Ends { within: AT_ONCE, reasons })
    }))
    .await;
}

pub async fn nothing_but_garbage_in_mid_call<D: Dialect>() {
    let garbage = Ends { within: AT_ONCE, reasons: &["agent_protocol"] };
    breaks::<D>(State::Idle, Order::Garbage, garbage).await;
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
