//! What breaks while a session stands, and what the caller hears of it: what the vendor does, in which state of the call.
//! Each time another session carries the call on.

use crate::providers::{
    desk::{APOLOGY_HZ, Desk, MOMENT, MOMENT_HZ},
    ear::{Caller, Tape},
    failover::{DEPUTY, is_told},
    kit::{
        own_net,
        vendor::{Call, Dialect, End, Failure, Order, Saying, Scenario, Seen, Vendor, hertz},
        virtual_time::outside,
    },
    ms,
    openings::{APOLOGY_MIN, CODES},
    states::{KEYS, NOTICES, STATES, Scene, State, TYPED, UNDECIDED_MAX, WAITS, call_in},
    turns::HICCUP,
};
use futures_util::future::join_all;
use offhook::call::EndReason;
use serde_json::json;
use std::{ops::Range, time::Duration};

/// No caller hears more than 1.5 s of unexplained silence. The tape has frames of 20 ms.
pub const QUIET_MAX: Duration = ms(1_520);
/// "One moment, please" explains silence for a while, and nobody hears nothing for longer.
const EXPLAINED_MAX: Duration = ms(4_000);
/// From the fault, or from the caller's last word after it, until another session is heard.
const CARRIED_ON: Duration = ms(8_000);
/// The same, where first it has to be noticed that nothing comes any more.
pub const NOTICED_AND_CARRIED_ON: Duration = ms(20_000);
/// The pitches of those who may have the call, by their sessions: the same vendor's, or its deputy's.
const AGENTS: [f64; 5] = [hertz(1), hertz(2), hertz(3), hertz(4), hertz(5)];

/// What a standing session is lost for that ends like this.
fn loss<D: Dialect>(order: &Order) -> &'static str {
    match order {
        Order::Close(code, _) => D::loss(End::Closed { code: *code, stood: true }),
        Order::Say(Saying::Failure(failure)) => D::loss(End::Said(*failure)),
        Order::Garbage => "protocol",
        Order::Freeze | Order::Vanish | Order::Mute => "stalled",
        _ => "closed",
    }
}

/// A call in this state, at which the vendor then does this: another session takes the call on, and the caller hears
/// neither an apology nor a silence that nobody explains.
async fn carries_on<D: Dialect>(state: State, order: Order, within: Duration) {
    let what = format!("{order:?} in {state:?}");
    let scene = call_in::<D>(state).await;
    let Scene { vendor, deputy, desk, caller } = &scene;
    let mut since = caller.now();
    let heard_before = caller.look(|tape| tape.time_of(hertz(1), ms(0)));
    let loss = loss::<D>(&order);
    let losses = format!("offhook_agent_losses_total{{loss=\"{loss}\",provider=\"first\"}}");
    // Nobody waits for what seems complete.
    let seems_complete = D::ENDS_ANSWERS_BY_SILENCE
        && matches!(state, State::Greeting | State::AgentSpeaking)
        && matches!(order, Order::Freeze | Order::Mute);
    vendor.order(1, order);
    if seems_complete {
        caller.hears_nothing_for(ms(1_200)).await;
    }
    let speaks_now = seems_complete || matches!(state, State::Idle | State::RollingOver);
    if speaks_now {
        caller.speaks().await;
    }
    if matches!(state, State::Undecided | State::Aside) {
        desk.counts(&losses, 1.0).await;
        let spoken = caller.look(|tape| tape.now() - tape.said.last().expect("the caller speaks").start);
        assert!(spoken <= UNDECIDED_MAX, "{what}: lost after {spoken:?}, when it was decided");
    }
    if speaks_now || matches!(state, State::CallerSpeaking | State::Thinking | State::Undecided | State::Aside) {
        since = caller.has_spoken().await.end;
    }
    if matches!(state, State::ToolRunning | State::Announced) {
        caller.until("the caller is told that it takes a moment", |tape| tape.now() > since + ms(2_000)).await;
        desk.service.holds(false);
    }
    let heard = |tape: &Tape| AGENTS[1..].iter().filter_map(|hz| tape.first_of(*hz, since)).min();
    caller.until(&format!("{what}: another session is heard"), |tape| heard(tape).is_some()).await;
    let (begun, story) = caller.look(|tape| (heard(tape).expect("waited for"), format!("{tape:?}")));
    assert!(begun <= since + within, "{what}: {story}");
    is_explained(&what, caller, since..begun);
    assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, ms(0))) < APOLOGY_MIN, "{what}: {story}");
    assert_eq!(desk.metric(&losses), 1.0, "{what}: {losses}; {}", desk.engine.metrics().text());
    speaks_for_itself(&what, state, &scene, begun);
    forgets_nothing(state, &scene).await;
    if state == State::Aside {
        assert_eq!(desk.metric("offhook_false_alarms_total"), 1.0, "{what}: {story}");
        let owed = is_told("finish what was being said");
        let next = vendor.of_all(|sessions| sessions.iter().skip(1).any(&owed));
        assert!(next || deputy.of_all(|sessions| sessions.iter().any(&owed)), "{what}: nobody was told what is owed");
    }
    if state == State::HandingOver {
        // Nobody was missed: the other context's agent would have come anyway, after the last word.
        let heard = caller.look(|tape| tape.time_of(hertz(1), ms(0)));
        assert!(heard >= ms(2_900) && heard > heard_before, "{what}: {heard:?} of the last words; {story}");
        assert_eq!(desk.engine.calls().view().active[0].call.context, "billing", "{what}");
        assert_eq!(begun, caller.look(|tape| tape.first_of(hertz(1 + DEPUTY), since)).unwrap_or_default(), "{what}");
    } else {
        let counted = ["first", "second"].map(|provider| desk.recoveries("took_over", provider));
        assert_eq!(counted.iter().sum::<f64>(), 1.0, "{what}: {}", desk.engine.metrics().text());
    }
    desk.ends_with(caller).await;
    vendor.is_content();
    deputy.is_content();
}

/// What the engine says itself is heard once, as if the agent were there; its successor has `begun` to speak then.
fn speaks_for_itself(what: &str, state: State, Scene { desk, caller, .. }: &Scene, begun: Duration) {
    let story = caller.look(|tape| format!("{tape:?}"));
    let purpose = match state {
        State::Filled => "filler",
        State::Announced => "announcement",
        State::Consent => "notice",
        State::RollingOver => {
            let ended = |how: &str| desk.metric(&format!("offhook_session_rollovers_total{how}"));
            let ended = (ended(""), ended("{outcome=\"took_over\""));
            return assert_eq!(ended, (1.0, 0.0), "{what}: who was being set up is let go; {story}");
        }
        _ => return,
    };
    let sentences = |of: &str| desk.metric(&format!("offhook_sentences_total{of}"));
    let said = (sentences(&format!("{{purpose=\"{purpose}\"}}")), sentences(""));
    assert_eq!(said, (1.0, 1.0), "{what}: one sentence, {purpose}; {story}");
    if state == State::Consent {
        let notice = caller.look(|tape| {
            let agent = AGENTS.iter().filter_map(|hz| tape.first_of(*hz, ms(0))).min();
            tape.seamless(MOMENT_HZ, ms(0)..agent.expect("another session is heard"))
        });
        assert!((MOMENT..=MOMENT + ms(20)).contains(&notice), "{what}: {notice:?} of it; {story}");
    } else {
        let late = caller.look(|tape| tape.time_of(MOMENT_HZ, begun + ms(40)));
        assert_eq!(late, ms(0), "{what}: it makes place for the next session; {story}");
    }
}

/// The next session is told what the engine said, what a tool found, and all that the caller typed, before and after.
async fn forgets_nothing(state: State, Scene { vendor, deputy, caller, .. }: &Scene) {
    if state == State::Typing {
        caller.types(&KEYS[TYPED..]).await;
    }
    let words = match state {
        State::ToolRunning | State::Announced => "on its way",
        State::Consent => "This call is recorded.",
        State::Typing => KEYS,
        _ => return,
    };
    let (found, what) = (is_told(words), format!("the next session is told: {words}"));
    let next = |sessions: &[Seen]| sessions.iter().skip(1).any(&found);
    let other = |sessions: &[Seen]| sessions.iter().any(&found);
    tokio::select! {
        () = vendor.until(&what, next) => {}
        () = deputy.until(&what, other) => {}
    }
}

/// No silence that nothing explains, and none for longer than a sentence can explain.
pub fn is_explained(what: &str, caller: &Caller, within: Range<Duration>) {
    let (unexplained, longest, story) = caller.look(|tape| {
        (tape.unexplained_silence(within.clone(), &AGENTS), tape.longest_silence(within), format!("{tape:?}"))
    });
    assert!(unexplained <= QUIET_MAX, "{what}: {unexplained:?} of unexplained silence; {story}");
    assert!(longest <= EXPLAINED_MAX, "{what}: {longest:?} of silence; {story}");
}

/// Every close code in one state.
async fn closes<D: Dialect>(state: State) {
    join_all(CODES.map(|code| carries_on::<D>(state, Order::Close(code, ""), CARRIED_ON))).await;
}

pub async fn a_session_closed_while_the_caller_is_greeted<D: Dialect>() {
    closes::<D>(State::Greeting).await;
}

pub async fn a_session_closed_while_nobody_speaks<D: Dialect>() {
    closes::<D>(State::Idle).await;
}

pub async fn a_session_closed_while_the_caller_speaks<D: Dialect>() {
    closes::<D>(State::CallerSpeaking).await;
}

pub async fn a_session_closed_while_the_caller_waits_for_an_answer<D: Dialect>() {
    closes::<D>(State::Thinking).await;
}

pub async fn a_session_closed_while_the_agent_speaks<D: Dialect>() {
    closes::<D>(State::AgentSpeaking).await;
}

pub async fn a_session_closed_while_an_interruption_is_undecided<D: Dialect>() {
    closes::<D>(State::Undecided).await;
}

pub async fn a_session_lost_while_a_backchannel_is_undecided<D: Dialect>() {
    join_all([Order::Close(1011, ""), Order::Drop].map(|order| carries_on::<D>(State::Aside, order, CARRIED_ON))).await;
}

pub async fn a_session_closed_while_a_tool_runs<D: Dialect>() {
    closes::<D>(State::ToolRunning).await;
}

pub async fn a_session_closed_while_a_filler_is_heard<D: Dialect>() {
    tokio::join!(closes::<D>(State::Filled), closes::<D>(State::Announced));
}

pub async fn a_session_closed_while_a_consent_text_is_heard<D: Dialect>() {
    closes::<D>(State::Consent).await;
}

pub async fn a_session_closed_while_the_caller_types<D: Dialect>() {
    closes::<D>(State::Typing).await;
}

pub async fn a_session_closed_while_the_call_is_handed_over<D: Dialect>() {
    closes::<D>(State::HandingOver).await;
}

pub async fn a_session_closed_while_the_next_one_is_set_up<D: Dialect>() {
    closes::<D>(State::RollingOver).await;
}

/// It was asked to greet, and the caller has heard nothing of that.
pub async fn a_session_closed_before_its_greeting_is_heard<D: Dialect>() {
    let orders = CODES.map(|code| Order::Close(code, "")).into_iter().chain([Order::Drop]);
    join_all(orders.map(is_greeted_by_the_next::<D>)).await;
}

async fn is_greeted_by_the_next<D: Dialect>(order: Order) {
    let (what, loss) = (format!("{order:?} before the greeting"), loss::<D>(&order));
    let vendor = Vendor::start::<D>(Scenario { thinks: ms(300), ..Scenario::default() }).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    vendor.until_session(1, "is to greet", |seen| !seen.wishes.is_empty()).await;
    vendor.order(1, order);
    caller.hears(hertz(2), ms(900)).await;
    let begun = caller.look(|tape| tape.first_of(hertz(2), ms(0))).expect("waited for");
    is_explained(&what, &caller, ms(0)..begun);
    let first = caller.look(|tape| tape.time_of(hertz(1), ms(0)));
    assert_eq!(first, ms(0), "{what}: nothing of the first one's");
    assert_eq!(vendor.of(2, |seen| seen.wishes.clone()), vendor.of(1, |seen| seen.wishes.clone()), "{what}");
    assert_eq!(
        desk.metric(&format!("offhook_agent_losses_total{{loss=\"{loss}\",provider=\"first\"}}")),
        1.0,
        "{what}"
    );
    assert_eq!(desk.recoveries("took_over", "first"), 1.0, "{what}");
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// The agent has ended the call, and its last words are being heard: nobody is needed for that any more.
pub async fn a_session_closed_while_the_agent_says_goodbye<D: Dialect>() {
    let orders = CODES.map(|code| Order::Close(code, "")).into_iter().chain([Order::Drop]);
    join_all(orders.map(is_heard_out::<D>)).await;
}

async fn is_heard_out<D: Dialect>(order: Order) {
    let what = format!("{order:?} in a goodbye");
    let goodbye = ms(3_000);
    let vendor = Vendor::start::<D>(Scenario::answers(goodbye)).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(600)).await;
    let call = Call { id: "call_0000000000000001".into(), name: "hangup_call".into(), arguments: json!({}) };
    vendor.order(1, Order::Call(vec![call]));
    desk.counts("offhook_tool_calls_total{outcome=\"done\",tool=\"hangup_call\"", 1.0).await;
    vendor.order(1, order);
    caller.is_hung_up_on().await;
    let (ended, story) = (desk.end_reason().await, caller.look(|tape| format!("{tape:?}")));
    assert_eq!(ended, EndReason::AgentHungUp, "{what}: {story}");
    let (heard, apology) = caller.look(|tape| (tape.time_of(hertz(1), ms(0)), tape.time_of(APOLOGY_HZ, ms(0))));
    assert!(heard >= goodbye - ms(40) && apology < APOLOGY_MIN, "{what}: {heard:?} of the last words; {story}");
    assert_eq!(vendor.sessions(), 1, "{what}: nobody takes over a call that has ended");
    vendor.is_content();
}

pub async fn a_connection_that_breaks_without_a_word<D: Dialect>() {
    let states = STATES.into_iter().chain([State::RollingOver]);
    join_all(states.map(|state| carries_on::<D>(state, Order::Drop, CARRIED_ON))).await;
}

pub async fn a_connection_that_is_half_open<D: Dialect>() {
    join_all(NOTICES.map(|state| carries_on::<D>(state, Order::Freeze, NOTICED_AND_CARRIED_ON))).await;
}

pub async fn a_vendor_that_falls_silent<D: Dialect>() {
    join_all(NOTICES.map(|state| carries_on::<D>(state, Order::Mute, NOTICED_AND_CARRIED_ON))).await;
}

pub async fn quota_throttling_and_expiry_in_mid_call<D: Dialect>() {
    let failures = [Failure::Quota, Failure::Throttled, Failure::Expired];
    let order = |failure| Order::Say(Saying::Failure(failure));
    let rows = WAITS.into_iter().flat_map(|state| failures.map(|failure| (state, failure)));
    join_all(rows.map(|(state, failure)| carries_on::<D>(state, order(failure), CARRIED_ON))).await;
}

pub async fn nothing_but_garbage_in_mid_call<D: Dialect>() {
    join_all(WAITS.map(|state| carries_on::<D>(state, Order::Garbage, CARRIED_ON))).await;
}

/// It takes time to read, and nothing else: the call goes on in the same session.
pub async fn one_message_of_8_megabytes_is_survived<D: Dialect>() {
    join_all(WAITS.map(is_read::<D>)).await;
}

async fn is_read<D: Dialect>(state: State) {
    let Scene { vendor, deputy: _, desk, caller } = call_in::<D>(state).await;
    let mut since = caller.now();
    vendor.order(1, Order::Say(Saying::Huge(8 << 20)));
    match state {
        State::Idle => {
            caller.speaks().await;
            since = caller.has_spoken().await.end;
        }
        State::Thinking => {
            since = caller.has_spoken().await.end;
            vendor.order(1, Order::Answer);
        }
        State::ToolRunning => desk.service.holds(false),
        _ => {}
    }
    // The answer, or the rest of it.
    let rest = if state == State::AgentSpeaking { ms(3_000) } else { ms(900) };
    caller.hears_from(since, hertz(1), rest).await;
    let begun = caller.look(|tape| tape.first_of(hertz(1), since)).expect("waited for");
    is_explained(&format!("8 MB in {state:?}"), &caller, since..begun);
    let answered = |seen: &Seen| seen.results.len() == usize::from(state == State::ToolRunning);
    assert!(vendor.of(1, answered), "{state:?}");
    assert_eq!(desk.metric("offhook_agent_losses_total"), 0.0, "{state:?}");
    desk.ends_with(&caller).await;
    assert_eq!(vendor.sessions(), 1, "{state:?}");
    vendor.is_content();
}

/// The vendor's machine has lost its power: nothing is acknowledged and nothing refused, and a new connection is answered
/// by nobody.
pub async fn a_vendor_that_vanishes_from_the_net<D: Dialect>() {
    let vanishes = carries_on::<D>(State::Thinking, Order::Vanish, NOTICED_AND_CARRIED_ON);
    in_a_net_of_its_own(D::KIND, vanishes).await;
}

/// Where somebody can vanish in this column's test.
pub async fn in_a_net_of_its_own(column: &str, vanishes: impl Future<Output = ()>) {
    if own_net::is_inside() {
        return vanishes.await;
    }
    let test = format!("providers::table::{column}::a_vendor_that_vanishes_from_the_net");
    outside(move || own_net::runs(&test)).await;
}

pub async fn a_neighbour_hears_no_gap_while_8_megabytes_are_read<D: Dialect>() {
    let answer = ms(4_000);
    let vendor = Vendor::start::<D>(Scenario { greeting: Some(ms(1_000)), ..Scenario::answers(answer) }).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    let neighbour = desk.call().await;
    neighbour.hears(hertz(2), ms(900)).await;
    neighbour.hears_nothing_for(ms(300)).await;
    let asked = neighbour.now();
    vendor.order(2, Order::Speak);
    vendor.until_session(2, "has sent it all", |seen| seen.answered == 2).await;
    neighbour.hears_from(asked, hertz(2), ms(200)).await;
    vendor.order(1, Order::Say(Saying::Huge(8 << 20)));
    vendor.order(1, Order::Say(Saying::Unknown));
    desk.counts("offhook_provider_noise_total{kind=\"unknown_message\"", 1.0).await;
    hears_no_gap(&desk, &neighbour, hertz(2), asked, answer).await;
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// The neighbour's agent speaks all the while, for so long since it was asked.
pub async fn hears_no_gap(desk: &Desk, neighbour: &Caller, hz: f64, asked: Duration, answer: Duration) {
    let (heard, story) = neighbour.look(|tape| (tape.time_of(hz, asked), format!("{tape:?}")));
    assert!(heard < answer, "it is read while the neighbour's agent speaks: {story}");
    neighbour.hears_from(asked, hz, answer - ms(40)).await;
    neighbour.hears_nothing_for(ms(300)).await;
    let (length, silence, story) = neighbour.look(|tape| {
        let spoken = tape.first_of(hz, asked).expect("waited for")..tape.now();
        let spoken = spoken.start..tape.last_of(hz, spoken).expect("waited for");
        (tape.seamless(hz, asked..tape.now()), tape.longest_silence(spoken), format!("{tape:?}"))
    });
    assert!((answer..=answer + ms(20)).contains(&length), "{length:?}: {story}");
    assert!(silence <= HICCUP, "{silence:?} of silence: {story}");
    assert_eq!(desk.metric("offhook_slots_missed_total"), 0.0, "{story}");
    neighbour.hang_up();
}
