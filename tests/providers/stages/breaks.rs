//! What the services of a pipeline do wrong, and what the caller hears of it.

use super::{answered, faults::no_apology, greeted, story};
use crate::{
    desk::Desk,
    ms,
    support::{
        openai_server::tone,
        stages::{Asked, Bit, Flux, Nova, Reply, Stages, model, voice},
        vendor::{Dialect, Order, Saying, Scenario, hertz},
    },
    tools::look_up,
};
use futures_util::future::join_all;
use offhook::audio::{Encoding, Format};
use std::time::Duration;

/// From the caller's last word until an answer is heard, whatever failed meanwhile.
const CARRIED_ON: Duration = ms(8_000);

/// Every way in which a service that is asked can fail, each once; its answer is as good as ever after that.
fn faults(empty: Reply) -> [(&'static str, Reply); 6] {
    [
        ("refuses", Reply::refuses(500, "server_error")),
        ("stalls", Reply::stalls()),
        ("closes", Reply::breaks()),
        ("answers with a page", Reply::page()),
        ("answers with garbage", Reply::whole(empty.kind, "<garbage>\n\ndata: {<garbage>\n\n")),
        ("answers with nothing", empty),
    ]
}

async fn is_answered(what: &str, stages: &Stages) {
    let (desk, caller) = greeted(stages).await;
    let said = answered(&caller, hertz(1), ms(700)).await;
    let begun = caller.look(|tape| tape.first_of(hertz(1), said.end));
    assert!(begun <= Some(said.end + CARRIED_ON), "{what}: {}", story(&caller));
    no_apology(what, &caller);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_model_that_fails_once_is_asked_again() {
    join_all(faults(model::stream(Vec::new(), "stop")).map(|(what, fault)| async move {
        let stages = Stages::start().await;
        let answer = move |asked: &Asked| if asked.number == 1 { fault.clone() } else { model::says("A tone.") };
        stages.model.answers(answer);
        is_answered(&format!("a model that {what}"), &stages).await;
        assert_eq!(stages.model.times(), 2, "a model that {what}");
    }))
    .await;
}

pub async fn a_voice_that_fails_once_is_asked_again() {
    join_all(faults(voice::wav(Format::SLIN24, &[], &[usize::MAX])).map(|(what, fault)| async move {
        let stages = Stages::start().await;
        // The first is the greeting.
        stages.voice.answers(move |asked| match asked.number {
            2 => fault.clone(),
            _ => voice::speaks(asked, hertz(1), ms(1_000)),
        });
        is_answered(&format!("a voice that {what}"), &stages).await;
    }))
    .await;
}

pub async fn a_turn_without_words_is_answered() {
    let stages = Stages::of(Scenario { caller_words: "", ..Scenario::default() }).await;
    is_answered("a listener that understands nothing", &stages).await;
    let told = stages.model.asked()[0].said_by("user");
    assert!(told.last().is_some_and(|told| told.contains("could not be understood")), "{told:?}");
}

/// Neither a word nor a pause in it.
pub async fn a_clause_of_10_kilobytes_is_spoken_in_parts_as_far_as_it_is_heard() {
    let stages = Stages::start().await;
    stages.model.answers(|_| model::stream(vec![model::words(&"la".repeat(5_000)).remove(0)], "stop"));
    // The first is the greeting.
    stages.voice.answers(|asked| voice::speaks(asked, hertz(1), if asked.number == 1 { ms(1_000) } else { ms(500) }));
    let (desk, caller) = greeted(&stages).await;
    answered(&caller, hertz(1), ms(3_000)).await;
    let spoken: Vec<usize> = stages.voice.asked().iter().map(|asked| asked.text().len()).collect();
    assert!(spoken.iter().all(|length| *length <= 250), "{spoken:?}; {}", story(&caller));
    // 3 s are heard and some 8 s are ready, of 23.
    assert!((6..35).contains(&spoken.len()), "{spoken:?}; {}", story(&caller));
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn an_answer_that_ends_in_the_middle_of_a_call_calls_nothing() {
    join_all(["", "One moment, I look it up. "].map(|before| async move {
        let stages = Stages::start().await;
        stages.model.answers(move |asked| {
            let mut reply = model::stream(model::words(before), "tool_calls");
            reply.bits.truncate(reply.bits.len() - 3);
            reply.bits.extend([model::fragment(0, Some(&look_up(1)), "{\"par"), Bit::Break]);
            if asked.number == 1 { reply } else { model::says("A tone.") }
        });
        is_answered(before, &stages).await;
        assert!(stages.model.times() <= 2);
        let calls = stages.model.asked().last().map(|asked| asked.body["messages"].to_string());
        assert!(!calls.unwrap_or_default().contains("look_up"), "the model is not told that it has called");
    }))
    .await;
}

/// The answer of a model that calls, in these pieces; then its tools' results are spoken of.
async fn called_in(fragments: Vec<Bit>) -> (Vec<String>, Vec<(String, String)>) {
    let stages = Stages::start().await;
    stages.model.answers(move |asked| match asked.results().len() {
        0 => model::stream(fragments.clone(), "tool_calls"),
        _ => model::says("There it is."),
    });
    let (desk, caller) = greeted(&stages).await;
    answered(&caller, hertz(1), ms(700)).await;
    let mut paths: Vec<String> = desk.service.requests().into_iter().map(|request| request.path).collect();
    paths.sort();
    let results = stages.model.is_asked(2).await.results();
    desk.ends_with(&caller).await;
    stages.listener.is_content();
    (paths, results)
}

pub async fn a_call_whose_arguments_come_in_fragments_is_run_with_all_of_them() {
    let mut fragments = vec![model::fragment(0, Some(&look_up(1)), "")];
    fragments.extend(["{", "\"par", "cel", "\": \"", "P", "1\"", "}"].map(|part| model::fragment(0, None, part)));
    // And the fragments come in pieces as well.
    let bytes: Vec<u8> =
        fragments.into_iter().flat_map(|bit| if let Bit::Bytes(bytes) = bit { bytes } else { Vec::new() }).collect();
    let pieces = bytes.chunks(7).map(|piece| Bit::Bytes(piece.to_vec())).collect();
    let (paths, results) = called_in(pieces).await;
    assert_eq!((paths, results.len()), (vec!["/parcels/P1".into()], 1));
}

pub async fn two_calls_that_come_interleaved_are_each_run_with_their_own() {
    let (one, two) = (look_up(1), look_up(2));
    let (paths, results) = called_in(vec![
        model::fragment(0, Some(&one), "{\"parc"),
        model::fragment(1, Some(&two), ""),
        model::fragment(0, None, "el\":"),
        model::fragment(1, None, "{\"parcel\": \"P2"),
        model::fragment(0, None, " \"P1\"}"),
        model::fragment(1, None, "\"}"),
    ])
    .await;
    assert_eq!(paths, ["/parcels/P1", "/parcels/P2"]);
    let ids: Vec<&str> = results.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, [one.id, two.id]);
}

/// A clause at each of these rates, of which none is what was hoped for, in pieces that end within a sample.
pub async fn sound_in_odd_pieces_and_at_any_rate_is_heard_at_its_pitch_and_length() {
    const CLAUSES: [(&str, u32); 5] = [
        ("Hello there.", 8_000),
        ("One is here.", 16_000),
        ("Two is there.", 22_050),
        ("Three.", 44_100),
        ("Four.", 48_000),
    ];
    let stages = Stages::start().await;
    stages.model.answers(|_| model::says("One is here. Two is there. Three. Four."));
    stages.voice.answers(|asked| {
        let clause = CLAUSES.iter().position(|(text, _)| *text == asked.text()).expect("one of these");
        let format = Format { encoding: Encoding::Linear, rate: CLAUSES[clause].1 };
        let audio = tone(hertz(1 + clause) as f32, ms(700), format);
        voice::wav(format, &audio, &[1, 333, 7, 1_001])
    });
    let desk = Desk::of_stages(&stages).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(500)).await;
    caller.hears_nothing_for(ms(300)).await;
    answered(&caller, hertz(5), ms(500)).await;
    caller.hears_nothing_for(ms(300)).await;
    for clause in 1..=5 {
        let length = caller.look(|tape| tape.time_of(hertz(clause), ms(0)));
        assert!((ms(620)..=ms(740)).contains(&length), "clause {clause}: {length:?}; {}", story(&caller));
    }
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

async fn is_told_more<L: Dialect>() {
    let stages = Stages::listening::<L>(Scenario::answers(ms(2_000))).await;
    let (desk, caller) = greeted(&stages).await;
    let said = answered(&caller, hertz(1), ms(400)).await;
    let more = Saying::CallerWords { utterance: 2, text: "No, something else.".into() };
    stages.listener.order(1, Order::Say(more));
    caller.hears_from(said.end, hertz(1), ms(1_800)).await;
    caller.hears_nothing_for(ms(1_000)).await;
    let length = caller.look(|tape| tape.time_of(hertz(1), said.end));
    assert!((ms(1_900)..=ms(2_040)).contains(&length), "{length:?}: {}", story(&caller));
    assert_eq!(stages.model.times(), 1, "nobody was asked again");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn words_that_come_when_the_answer_has_begun_change_nothing() {
    tokio::join!(is_told_more::<Flux>(), is_told_more::<Nova>());
}

pub async fn an_interruption_ends_the_question_to_the_model() {
    let stages = Stages::start().await;
    stages.model.answers(|asked| {
        if asked.number > 1 {
            return model::says("A tone.");
        }
        let mut slow = model::says(&"All of this is one long answer. ".repeat(20));
        slow.bits = slow.bits.into_iter().flat_map(|bit| [bit, Bit::Wait(ms(100))]).collect();
        slow
    });
    let (desk, caller) = greeted(&stages).await;
    answered(&caller, hertz(1), ms(2_000)).await;
    answered(&caller, hertz(1), ms(600)).await;
    let asked = stages.model.until("the first question was given up", |asked| asked[0].gone).await;
    assert_eq!(asked.len(), 2, "{}", story(&caller));
    let heard = asked[1].said_by("assistant");
    assert!(heard.last().is_some_and(|heard| heard.len() < 300), "{heard:?}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}
