//! What the emulated vendors say is what the vendors' own packages know: nobody is shown to work with words that no
//! vendor has.

use crate::providers::{
    desk::Desk,
    kit::{
        processes::words_of,
        python::{check_lines, feed, sdk, target},
        vendor::{Deepgram, Dialect, ElevenLabs, End, Failure, Gemini, OpenAi, Order, Saying, Scenario, Vendor, hertz},
        virtual_time::run,
    },
    ms,
    tools::look_up,
};
use futures_util::future::join_all;
use std::{
    process::{Command, Output},
    sync::Mutex,
};

fn check<D: Dialect>(lines: &str) -> Output {
    match D::KIND {
        OpenAi::KIND => check_lines("openai", "check_openai.py", &["--server"], lines),
        Deepgram::KIND => check_lines("deepgram", "check_deepgram.py", &["--server"], lines),
        Gemini::KIND => check_lines("google-genai", "check_gemini.py", &["--server"], lines),
        _ => {
            let modules = target().join("npm/node_modules");
            feed(Command::new("node").arg(sdk("check_elevenlabs.mjs")).arg(modules).arg("--server"), lines)
        }
    }
}

/// Returns every kind of message that the emulated vendor can send, from one call in which it sends them all.
async fn all_words<D: Dialect>(failure: Failure) -> String {
    let vendor = Vendor::start::<D>(Scenario { pace: 1.2, kept: true, ..Scenario::answers(ms(2_000)) }).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.speaks().await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), ms(1_900)).await;
    caller.hears_nothing_for(ms(300)).await;
    for saying in [
        Saying::Ping,
        Saying::Usage,
        Saying::Resumable { handle: "handle-of-the-test".into() },
        Saying::CallerSpeechStarted { utterance: 7 },
        Saying::CallerSpeechStopped { utterance: 7 },
        Saying::CallerWords { utterance: 7, text: "Whose words?".into() },
        Saying::Busy,
        Saying::Interrupted { response: 77 },
    ] {
        vendor.order(1, Order::Say(saying));
    }
    desk.service.holds(true);
    vendor.order(1, Order::Call(vec![look_up(1), look_up(2)]));
    desk.service.wait_requests(2).await;
    vendor.order(1, Order::TakeBack(vec![look_up(1).id]));
    desk.service.holds(false);
    vendor.until_session(1, "has the result", |seen| seen.results.iter().any(|(id, _)| *id == look_up(2).id)).await;
    vendor.order(1, Order::Say(Saying::GoAway { within: ms(60_000) }));
    vendor.order(1, Order::Say(Saying::Failure(failure)));
    desk.counts(&format!("offhook_agent_losses_total{{loss=\"{}\"", D::loss(End::Said(failure))), 1.0).await;
    vendor.of(1, |seen| seen.said.join("\n"))
}

/// Checks the messages with the vendor's package after the calls: starting that takes seconds, in which no scene's clock should wait.
fn are_known_to_their_package<D: Dialect>() {
    let said = Mutex::new(Vec::new());
    run(|| async {
        let failures = [Failure::Quota, Failure::Throttled, Failure::Expired];
        *said.lock().expect("alone") = join_all(failures.map(all_words::<D>)).await;
    });
    let said = said.into_inner().expect("alone");
    assert_eq!(said.len(), 3, "calls");
    let output = check::<D>(&said.join("\n"));
    assert!(output.status.success(), "{}", words_of(&output));
}

macro_rules! packages {
    ($($provider:ident $dialect:ident)*) => {$(
        #[test]
        fn $provider() {
            are_known_to_their_package::<$dialect>();
        }
    )*};
}

packages! {
    openai_realtime OpenAi
    deepgram_agent Deepgram
    elevenlabs_agent ElevenLabs
    gemini_live Gemini
}
