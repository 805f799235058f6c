//! What the services of a pipeline do wrong, and what the caller hears of it.

use super::{answered, faults::no_apology, greeted, protocols::odd_pieces, story};
use crate::providers::{
    desk::Desk,
    faults::is_explained,
    kit::{
        audio::encoded_tone,
        stages::{Asked, Bit, Reply, Stages, VOICES, model, voice},
        vendor::hertz,
    },
    ms,
    tools::look_up,
};
use futures_util::future::join_all;
use offhook::audio::{Encoding, Format};
use std::time::Duration;

/// From the caller's last word until an answer is heard, whatever failed meanwhile.
const CARRIED_ON: Duration = ms(6_000);

/// Every way in which the model can fail, each once, and whether it is asked again for the answer; where not, another
/// session of the pipeline asks.
fn faults() -> [(&'static str, Reply, bool); 6] {
    [
        ("refuses", Reply::refuses(500, "server_error"), true),
        ("stalls", Reply::stalls(), false),
        ("closes", Reply::breaks(), true),
        ("answers with a page", Reply::page(), false),
        ("answers with garbage", Reply::garbage(model::STREAM), false),
        ("answers with nothing", model::stream(Vec::new(), "stop"), true),
    ]
}

/// What is at this pitch answers. So many other sessions of the pipeline have to carry the call on.
async fn is_answered(what: &str, stages: &Stages, hz: f64, sessions: usize) -> Desk {
    let (desk, caller) = greeted(stages).await;
    let said = answered(&caller, hz, ms(700)).await;
    let begun = caller.look(|tape| tape.first_of(hz, said.end)).expect("heard");
    assert!(begun <= said.end + CARRIED_ON, "{what}: {}", story(&caller));
    is_explained(what, &caller, said.end..begun);
    no_apology(what, &caller);
    assert_eq!(desk.recoveries("took_over", "first"), sessions as f64, "{what}: {}", desk.engine.metrics().text());
    desk.ends_with(&caller).await;
    stages.listener.is_content();
    desk
}

pub async fn a_model_that_fails_once_is_asked_again() {
    join_all(faults().map(|(what, fault, again)| async move {
        let stages = Stages::start().await;
        let answer = move |asked: &Asked| if asked.number == 1 { fault.clone() } else { model::says("A tone.") };
        stages.model.answers(answer);
        is_answered(&format!("a model that {what}"), &stages, hertz(1), usize::from(!again)).await;
        assert_eq!(stages.model.times(), 2, "a model that {what}");
    }))
    .await;
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
            // By then the words before it are heard.
            let wait = Bit::Wait(if before.is_empty() { ms(0) } else { ms(400) });
            reply.bits.extend([model::fragment(0, Some(&look_up(1)), "{\"par"), wait, Bit::Break]);
            if asked.number == 1 { reply } else { model::says("The rest.") }
        });
        let pitch = |asked: &Asked| if asked.text() == "The rest." { hertz(2) } else { hertz(1) };
        stages.voice.answers(move |asked| voice::speaks(asked, pitch(asked), ms(1_000)));
        let desk = is_answered(before, &stages, hertz(2), 0).await;
        assert!(desk.service.requests().is_empty(), "no tool runs, also not when the call ends");
        // Also who has heard the beginning is answered: the rest is asked for.
        let asked = stages.model.is_asked(2).await.body["messages"].to_string();
        assert!(!asked.contains("look_up"), "the model is not told that it has called");
        assert_eq!((stages.model.times(), asked.contains("broke off")), (2, !before.is_empty()));
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
async fn any_rate() {
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
        let audio = encoded_tone(hertz(1 + clause) as f32, ms(700), format);
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

pub async fn sound_in_odd_pieces_and_at_any_rate_is_heard_at_its_pitch_and_length() {
    tokio::join!(any_rate(), join_all(VOICES.map(odd_pieces)));
}
