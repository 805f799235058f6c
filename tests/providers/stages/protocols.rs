//! Each protocol by which a pipeline's services are asked, and what the caller hears where one of it does wrong.

use super::{answered, faults::no_apology, greeted, has_heard, speaks, story};
use crate::providers::{
    ear::{Caller, Tape},
    faults::is_explained,
    kit::{
        stages::{Asked, Bit, Flux, Nova, Reply, SCRIBES, Stages, Transcriber, VOICES, model, voice},
        vendor::{Dialect, Failure, Order, Saying, Scenario, hertz},
    },
    ms,
};
use futures_util::future::join_all;
use std::{ops::Range, time::Duration};

/// From the caller's last word until an answer is heard, whatever failed meanwhile.
const CARRIED_ON: Duration = ms(6_000);
const WORDS: &str = "When are you open, please?";

/// The answer to what was said is heard in time, and no silence before it is unexplained.
async fn is_answered(what: &str, caller: &Caller, said: &Range<Duration>) {
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    let begun = caller.look(|tape| tape.first_of(hertz(1), said.end)).expect("waited for");
    assert!(begun <= said.end + CARRIED_ON, "{what}: {}", story(caller));
    is_explained(what, caller, said.end..begun);
    no_apology(what, caller);
}

/// The model was asked with the caller's own words.
fn is_understood(what: &str, stages: &Stages) {
    let asked = stages.model.asked();
    let told = asked.last().map(|asked| asked.body["messages"].to_string()).unwrap_or_default();
    assert!(told.contains(WORDS), "{what}: {told}");
}

// ---- Who listens ----

/// The listener does this in the middle of the caller's turn, and whoever listens then has heard the turn from its
/// beginning.
async fn fails_in_a_turn<L: Dialect>(listener: &str, order: Order, outcome: &str) {
    let what = format!("{listener}: {order:?}");
    let stages = Stages::listening::<L>(Scenario::default()).await;
    let (desk, caller) = greeted(&stages).await;
    caller.speaks().await;
    let a_second = |said: &Range<Duration>| said.end - said.start >= ms(1_000);
    caller.until("the caller speaks", |tape| tape.said.last().is_some_and(a_second)).await;
    stages.listener.order(1, order);
    let said = caller.has_spoken().await;
    is_answered(&what, &caller, &said).await;
    is_understood(&what, &stages);
    has_heard(&what, &stages.listener, 2, &caller);
    assert_eq!(desk.asked_of("stt", outcome), 1.0, "{what}: {}", desk.engine.metrics().text());
    assert_eq!(stages.listener.sessions(), 2, "{what}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

async fn sockets_fail<L: Dialect>(listener: &str) {
    let orders = [
        (Order::Close(1011, ""), "closed"),
        (Order::Drop, "closed"),
        (Order::Mute, "slow"),
        (Order::Garbage, "garbage"),
        (Order::Say(Saying::Failure(Failure::Throttled)), "refused"),
    ];
    join_all(orders.map(|(order, outcome)| fails_in_a_turn::<L>(listener, order, outcome))).await;
}

/// Who is asked for each turn answers the first question like this.
async fn scribe_fails(scribe: &'static str, what: &str, fault: Reply, times: usize) {
    let what = format!("{scribe} {what}");
    let stages = Stages::asking(scribe, Scenario::default()).await;
    stages.scribe.answers(move |asked| match asked.number {
        1 => fault.clone(),
        _ => crate::providers::kit::stages::writes(asked, WORDS),
    });
    let (desk, caller) = greeted(&stages).await;
    let said = speaks(&caller).await;
    is_answered(&what, &caller, &said).await;
    is_understood(&what, &stages);
    assert_eq!(stages.scribe.times(), times, "{what}");
    desk.ends_with(&caller).await;
}

async fn scribes_fail(scribe: &'static str) {
    let faults = [
        ("refuses", Reply::refuses(500, "server_error")),
        ("stalls", Reply::stalls()),
        ("closes", Reply::breaks()),
        ("answers with garbage", Reply::garbage("application/json")),
    ];
    join_all(faults.map(|(what, fault)| scribe_fails(scribe, what, fault, 2))).await;
}

pub async fn a_listener_of_each_protocol_that_fails_in_a_turn_hears_all_of_it_again() {
    tokio::join!(
        sockets_fail::<Flux>("Flux"),
        sockets_fail::<Nova>("Nova"),
        sockets_fail::<Transcriber>("OpenAI's transcriber"),
        scribes_fail(SCRIBES[0]),
        scribes_fail(SCRIBES[1]),
    );
}

async fn understands_nothing(stages: Stages, what: &str) {
    let (desk, caller) = greeted(&stages).await;
    let said = speaks(&caller).await;
    is_answered(what, &caller, &said).await;
    let told = stages.model.asked()[0].said_by("user");
    assert!(told.last().is_some_and(|told| told.contains("could not be understood")), "{what}: {told:?}");
    assert_eq!(stages.model.times(), 1, "{what}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_turn_without_words_is_answered() {
    let mute = || Scenario { caller_words: "", ..Scenario::default() };
    tokio::join!(
        async { understands_nothing(Stages::listening::<Flux>(mute()).await, "Flux").await },
        async { understands_nothing(Stages::listening::<Nova>(mute()).await, "Nova").await },
        async { understands_nothing(Stages::listening::<Transcriber>(mute()).await, "OpenAI's transcriber").await },
        async { understands_nothing(Stages::asking(SCRIBES[0], mute()).await, SCRIBES[0]).await },
        async { understands_nothing(Stages::asking(SCRIBES[1], mute()).await, SCRIBES[1]).await },
    );
}

// ---- Who speaks ----

/// Each way in which this voice can fail, and whether it is asked again for the clause; where not, another session of the
/// pipeline answers.
fn faults(speaks: &str, asked: &Asked) -> Vec<(&'static str, Reply, bool)> {
    let is_http = !matches!(speaks, "flux" | "wyoming_speech");
    let mut faults = vec![
        ("refuses", Reply::refuses(500, "server_error"), true),
        ("stalls", Reply::stalls(), false),
        ("closes", Reply::breaks(), true),
        ("answers with nothing", voice::is_empty(asked), false),
    ];
    if is_http {
        // Bytes that are said to be sound are sound to protocols without a head.
        let kind = if speaks == VOICES[0] { "audio/wav" } else { "application/json" };
        faults.push(("answers with garbage", Reply::garbage(kind), false));
        faults.push(("answers with a page", Reply::page(), false));
    } else {
        faults.push(("answers with garbage", Reply::garbage(""), false));
    }
    faults
}

async fn voice_fails(speaks: &'static str, at: usize) {
    let (what, _, again) = faults(speaks, &Asked::default()).swap_remove(at);
    let what = format!("{speaks} {what}");
    let stages = Stages::speaking(speaks).await;
    // The first is the greeting.
    stages.voice.answers(move |asked| match asked.number {
        2 => faults(speaks, asked).swap_remove(at).1,
        _ => voice::speaks(asked, hertz(1), ms(1_000)),
    });
    let (desk, caller) = greeted(&stages).await;
    let said = super::speaks(&caller).await;
    is_answered(&what, &caller, &said).await;
    caller.hears_nothing_for(ms(300)).await;
    let heard = caller.look(|tape| tape.time_of(hertz(1), said.end));
    assert!((ms(900)..=ms(1_040)).contains(&heard), "{what}: once, {heard:?}; {}", story(&caller));
    assert_eq!(stages.voice.times(), 3, "{what}");
    let sessions = (stages.model.times(), desk.recoveries("took_over", "first"));
    // What failed in a guess, as on a busy machine there may be one, is asked for again when the turn is over.
    let right: &[(usize, f64)] = if again { &[(1, 0.0)] } else { &[(2, 1.0), (2, 0.0)] };
    assert!(right.contains(&sessions), "{what}: {sessions:?}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_voice_that_fails_once_is_asked_again() {
    let rows = VOICES.into_iter().flat_map(|speaks| {
        let faults = faults(speaks, &Asked::default()).len();
        (0..faults).map(move |at| voice_fails(speaks, at))
    });
    join_all(rows).await;
}

async fn breaks_off(speaks: &'static str, how: Bit, outcome: &str) {
    let what = format!("{speaks}: {how:?}");
    let stages = Stages::speaking(speaks).await;
    stages.model.answers(|_| model::says("One is here. Two is there."));
    stages.voice.answers(move |asked| match asked.text() {
        "One is here." => voice::breaks_off(asked, hertz(2), ms(500), how.clone()),
        "Two is there." => voice::speaks(asked, hertz(3), ms(1_000)),
        _ => voice::speaks(asked, hertz(1), ms(1_000)),
    });
    let (desk, caller) = greeted(&stages).await;
    let said = super::speaks(&caller).await;
    let second = |tape: &Tape| tape.time_of(hertz(3), said.end) >= ms(900);
    caller.until(&format!("{what}: the second clause is heard"), |tape| second(tape) || tape.over).await;
    caller.hears_nothing_for(ms(300)).await;
    let (first, second) = caller.look(|tape| (tape.time_of(hertz(2), said.end), tape.time_of(hertz(3), said.end)));
    assert!((ms(400)..=ms(540)).contains(&first), "{what}: {first:?} of the first clause; {}", story(&caller));
    assert!((ms(960)..=ms(1_040)).contains(&second), "{what}: {second:?} of the second one; {}", story(&caller));
    let (begun, next) = caller.look(|tape| (tape.first_of(hertz(2), said.end), tape.first_of(hertz(3), said.end)));
    is_explained(&what, &caller, begun.expect("heard")..next.expect("heard"));
    no_apology(&what, &caller);
    assert_eq!((stages.voice.times(), desk.asked_of("voices", outcome)), (3, 1.0), "{what}: it is not said again");
    assert_eq!(desk.metric("offhook_agent_losses_total"), 0.0, "{what}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_voice_that_breaks_in_the_middle_of_a_clause_goes_on_with_the_next() {
    let stalls = [VOICES[0], "flux", "wyoming_speech"].map(|speaks| (speaks, Bit::Stall, "slow"));
    let rows = VOICES.map(|speaks| (speaks, Bit::Break, "closed")).into_iter().chain(stalls);
    join_all(rows.map(|(speaks, how, outcome)| breaks_off(speaks, how, outcome))).await;
}

/// In pieces that end within a sample.
pub async fn odd_pieces(speaks: &'static str) {
    let stages = Stages::speaking(speaks).await;
    stages.voice.answers(|asked| {
        let length = if asked.number == 1 { ms(1_000) } else { ms(700) };
        voice::in_pieces(voice::speaks(asked, hertz(asked.number), length), &[1, 333, 7, 1_001])
    });
    let (desk, caller) = greeted(&stages).await;
    answered(&caller, hertz(2), ms(500)).await;
    caller.hears_nothing_for(ms(300)).await;
    let length = caller.look(|tape| tape.time_of(hertz(2), ms(0)));
    assert!((ms(620)..=ms(740)).contains(&length), "{speaks}: {length:?}; {}", story(&caller));
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

// ---- Words that come too late ----

async fn is_told_more<L: Dialect>(listener: &str) {
    let stages = Stages::listening::<L>(Scenario::answers(ms(2_000))).await;
    let (desk, caller) = greeted(&stages).await;
    let said = answered(&caller, hertz(1), ms(400)).await;
    let more = Saying::CallerWords { utterance: 1, text: "No, something else.".into() };
    stages.listener.order(1, Order::Say(more));
    caller.hears_from(said.end, hertz(1), ms(1_800)).await;
    caller.hears_nothing_for(ms(1_000)).await;
    let length = caller.look(|tape| tape.seamless(hertz(1), said.end..tape.now()));
    assert!((ms(2_000)..=ms(2_040)).contains(&length), "{listener}: {length:?}: {}", story(&caller));
    assert_eq!(stages.model.times(), 1, "{listener}: nobody was asked again");
    // They are no part of the next turn either.
    answered(&caller, hertz(1), ms(700)).await;
    let told = stages.model.is_asked(2).await.said_by("user");
    assert!(told.ends_with(&[WORDS.to_owned(), WORDS.to_owned()]), "{listener}: {told:?}");
    assert!(!told.concat().contains("something else"), "{listener}: {told:?}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn words_that_come_when_the_answer_has_begun_change_nothing() {
    tokio::join!(
        is_told_more::<Flux>("Flux"),
        is_told_more::<Nova>("Nova"),
        is_told_more::<Transcriber>("OpenAI's transcriber"),
    );
}
