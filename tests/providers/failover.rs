//! Who carries a call on when its session ends, and what they know of it.

use crate::providers::{
    desk::Desk,
    ear::Caller,
    faults::is_explained,
    kit::vendor::{
        Call, Deepgram, Dialect, ElevenLabs, End, Failure, Gemini, OpenAi, Opening, Order, Saying, Scenario, Seen,
        Vendor, hertz,
    },
    ms,
    openings::ends,
    tools::{greeted, look_up},
};
use futures_util::future::join_all;

/// Added to the deputy's sessions for their pitch.
pub const DEPUTY: usize = 3;

fn deputys() -> Scenario {
    Scenario { pitch: |session| hertz(session + DEPUTY), ..Scenario::default() }
}

/// The same vendor once more, under another name.
pub async fn deputy<D: Dialect>() -> Vendor {
    Vendor::start::<D>(deputys()).await
}

/// Another vendor: the next one of the table.
pub async fn another<D: Dialect>() -> Vendor {
    match D::KIND {
        OpenAi::KIND => Vendor::start::<Deepgram>(deputys()).await,
        Deepgram::KIND => Vendor::start::<ElevenLabs>(deputys()).await,
        ElevenLabs::KIND => Vendor::start::<Gemini>(deputys()).await,
        _ => Vendor::start::<OpenAi>(deputys()).await,
    }
}

/// Callers speak with the vendor, and with its deputy where that cannot be.
pub async fn desk_of(vendor: &Vendor, deputy: &Vendor) -> Desk {
    let providers = [("first", vendor.yaml()), ("second", deputy.yaml())];
    Desk::with(&providers, "fallbacks: [second]\nlimits: { agent_silence: 2500ms }").await
}

/// What the caller says and is answered, and it can be heard.
pub async fn converse(caller: &Caller, hz: f64) {
    caller.speaks().await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hz, ms(700)).await;
}

/// Sessions of a quarter of an hour, at 15 s each. Here each is lost after one answer.
const SESSIONS: usize = 60;

const CALLERS_WORDS: &str = "When are you open, please?";

pub fn is_told(words: &'static str) -> impl Fn(&Seen) -> bool {
    move |seen: &Seen| seen.texts.iter().any(|text| text.contains(words))
}

/// A turn of the caller and an answer, and then the session is gone: the next one knows.
pub async fn the_next_session_is_told_what_was_said<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    converse(&caller, hertz(1)).await;
    caller.hears_nothing_for(ms(300)).await;
    vendor.order(1, Order::Drop);
    vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
    vendor.until_session(2, "is told the caller's words", is_told(CALLERS_WORDS)).await;
    converse(&caller, hertz(2)).await;
    assert_eq!(desk.recoveries("took_over", "first"), 1.0);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// Each session answers the caller before it is lost, so each loss is made good before the next one.
pub async fn a_call_outlives_any_number_of_sessions_that_were_lost<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    let ways = [Order::Drop, Order::Close(1011, ""), Order::Say(Saying::Failure(Failure::Expired)), Order::Garbage];
    for session in 1..=SESSIONS {
        converse(&caller, hertz(session)).await;
        caller.hears_nothing_for(ms(300)).await;
        vendor.order(session, ways[session % ways.len()].clone());
        vendor.until_session(session + 1, "is set up", |seen| seen.set_up.is_some()).await;
    }
    converse(&caller, hertz(SESSIONS + 1)).await;
    assert_eq!(desk.recoveries("took_over", "first"), SESSIONS as f64);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// The vendor is gone while a tool of its agent's runs: another vendor's agent knows what was said, and is told what
/// comes of the tool, whether that is known before it has the call or afterwards.
pub async fn another_vendor_goes_on_with_what_was_said_and_with_what_a_tool_found<D: Dialect>() {
    join_all([true, false].map(|before| async move {
        let what = if before { "the tool ends first" } else { "the tool ends last" };
        let (vendor, other) = (Vendor::start::<D>(Scenario::default()).await, another::<D>().await);
        let desk = desk_of(&vendor, &other).await;
        let caller = desk.call().await;
        caller.hears(hertz(1), ms(700)).await;
        caller.hears_nothing_for(ms(300)).await;
        converse(&caller, hertz(1)).await;
        caller.hears_nothing_for(ms(300)).await;
        desk.service.holds(true);
        vendor.order(1, Order::Call(vec![look_up(1)]));
        desk.service.wait_requests(1).await;
        vendor.stop_listening();
        let since = caller.now();
        vendor.order(1, Order::Close(1011, ""));
        if before {
            desk.counts("offhook_agent_losses_total", 1.0).await;
            desk.service.holds(false);
        } else {
            other.until_session(1, "is set up", |seen| seen.set_up.is_some()).await;
            desk.counts("offhook_session_recoveries_total{outcome=\"took_over\",provider=\"second\"}", 1.0).await;
            desk.service.holds(false);
        }
        other.until_session(1, "is told the caller's words", is_told(CALLERS_WORDS)).await;
        other.until_session(1, "is told what the tool found", is_told("on its way")).await;
        caller.hears_from(since, hertz(1 + DEPUTY), ms(700)).await;
        let begun = caller.look(|tape| tape.first_of(hertz(1 + DEPUTY), since)).expect("waited for");
        is_explained(what, &caller, since..begun);
        assert_eq!(desk.service.requests().len(), 1, "{what}: it was run once");
        converse(&caller, hertz(1 + DEPUTY)).await;
        let losses = D::loss(End::Closed { code: 1011, stood: true });
        assert_eq!(desk.metric(&format!("offhook_agent_losses_total{{loss=\"{losses}\",provider=\"first\"}}")), 1.0);
        assert_eq!(desk.recoveries("took_over", "second"), 1.0, "{what}");
        desk.ends_with(&caller).await;
        assert_eq!((vendor.sessions(), other.sessions()), (1, 1), "{what}");
        vendor.is_content();
        other.is_content();
    }))
    .await;
}

/// The next session is told that the tool runs. Its model calls it again all the same, under an id of its own: it is answered with
/// what the first run found.
pub async fn a_tool_that_runs_when_its_session_is_lost_runs_once<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    converse(&caller, hertz(1)).await;
    caller.hears_nothing_for(ms(300)).await;
    desk.service.holds(true);
    vendor.order(1, Order::Call(vec![look_up(1)]));
    desk.service.wait_requests(1).await;
    vendor.order(1, Order::Drop);
    vendor.until_session(2, "is told what runs", is_told("it is still running")).await;
    // It goes on where the first one stopped, and calls the tool then.
    caller.hears(hertz(2), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    let again = Call { id: "call_of_the_second_one".into(), ..look_up(1) };
    vendor.order(2, Order::Call(vec![again.clone()]));
    caller.hears_nothing_for(ms(900)).await;
    desk.service.holds(false);
    vendor.until_session(2, "has the result", |seen| !seen.results.is_empty()).await;
    let results = vendor.of(2, |seen| seen.results.clone());
    assert_eq!(results.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), [again.id]);
    assert!(results[0].1.contains("on its way"), "{results:?}");
    converse(&caller, hertz(2)).await;
    assert_eq!(desk.service.requests().len(), 1);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// As Gemini does now and then (1011): the tool is not run again, and what it found is not lost, whether the vendor
/// has a memory of the call that it could go on from or not.
pub async fn a_session_closed_right_after_a_result<D: Dialect>() {
    join_all([false, true].map(|resumable| async move {
        let (vendor, desk, caller) = greeted::<D>().await;
        if resumable {
            vendor.order(1, Order::Say(Saying::Resumable { handle: "handle-of-the-test".into() }));
        }
        vendor.order(1, Order::Think);
        vendor.order(1, Order::Call(vec![look_up(1)]));
        vendor.until_session(1, "has the result", |seen| seen.results.len() == 1).await;
        let since = caller.now();
        vendor.order(1, Order::Close(1011, ""));
        vendor.until_session(2, "is told what the tool found", is_told("on its way")).await;
        caller.hears_from(since, hertz(2), ms(700)).await;
        let begun = caller.look(|tape| tape.first_of(hertz(2), since)).expect("waited for");
        is_explained("after a result", &caller, since..begun);
        assert_eq!(desk.service.requests().len(), 1, "it was run once");
        assert_eq!(desk.recoveries("took_over", "first"), 1.0);
        converse(&caller, hertz(2)).await;
        desk.ends_with(&caller).await;
        vendor.is_content();
    }))
    .await;
}

/// The session that is to carry the call on is refused at its upgrade: the next provider takes the call.
pub async fn a_refused_successor_is_counted_and_another_one_takes_the_call<D: Dialect>() {
    join_all([401, 429, 503].map(|status| async move {
        let scenario =
            Scenario { openings: vec![Opening::Normal], otherwise: Opening::Refuse(status), ..Scenario::default() };
        let (vendor, other) = (Vendor::start::<D>(scenario).await, another::<D>().await);
        let desk = desk_of(&vendor, &other).await;
        let caller = desk.call().await;
        caller.hears(hertz(1), ms(700)).await;
        caller.hears_nothing_for(ms(300)).await;
        vendor.order(1, Order::Drop);
        caller.speaks().await;
        let since = caller.has_spoken().await.end;
        caller.hears_from(since, hertz(1 + DEPUTY), ms(700)).await;
        let begun = caller.look(|tape| tape.first_of(hertz(1 + DEPUTY), since)).expect("waited for");
        is_explained(&format!("{status}"), &caller, since..begun);
        let refused = D::loss(End::Refused(status));
        let dials = format!("offhook_provider_dials_total{{outcome=\"{refused}\",provider=\"{}\"}}", D::KIND);
        assert_eq!(desk.metric(&dials), 1.0, "{status}: {dials}");
        assert_eq!(desk.recoveries("failed", "first"), 1.0, "{status}");
        assert_eq!(desk.recoveries("took_over", "second"), 1.0, "{status}");
        desk.ends_with(&caller).await;
        assert_eq!((vendor.sessions(), other.sessions()), (2, 1), "{status}");
        vendor.is_content();
        other.is_content();
    }))
    .await;
}

/// The vendor says that it will go, and is silent from then on.
pub async fn a_vendor_that_says_it_will_go_and_falls_silent<D: Dialect>() {
    let quiet = async {
        let (vendor, desk, caller) = greeted::<D>().await;
        vendor.order(1, Order::Say(Saying::GoAway { within: ms(10_000) }));
        vendor.order(1, Order::Mute);
        vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
        vendor.until_session(1, "is let go", |seen| seen.over).await;
        converse(&caller, hertz(2)).await;
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
        is_explained("the rest of an answer", &caller, since..begun);
        assert!(begun <= since + ms(12_000), "{story}");
        assert_eq!(desk.metric("offhook_agent_losses_total{loss=\"stalled\""), 1.0);
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
        let resumed = is_told("handle-of-the-test");
        vendor.until_session(2, "is asked to go on", &resumed).await;
        let last = if refused { 3 } else { 2 };
        vendor.until_session(last, "has the call", |seen| seen.set_up.is_some()).await;
        vendor.until_session(1, "is let go", |seen| seen.over).await;
        assert_eq!(vendor.of(last, &resumed), !refused);
        converse(&caller, hertz(last)).await;
        let rollovers = |outcome: &str| {
            desk.metric(&format!("offhook_session_rollovers_total{{outcome=\"{outcome}\",provider=\"first\"}}"))
        };
        assert_eq!((rollovers("took_over"), rollovers("failed")), (1.0, f64::from(u8::from(refused))));
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
    ends("no vendor is left", D::loss(End::Closed { code: 1011, stood: true }), &desk, &caller, since).await;
    // "One moment, please" comes in time; the attempts that follow take longer.
    let over = caller.now();
    is_explained("no vendor is left", &caller, since..over);
    assert_eq!((desk.recoveries("failed", "first"), desk.recoveries("took_over", "first")), (1.0, 0.0));
    vendor.is_content();
}
