//! A vendor that is down, and behind it the attendant that needs none: espeak-ng speaks, PocketSphinx listens, and a list
//! decides. It is the programs themselves that stand in.

use crate::providers::{
    desk::{APOLOGY_HZ, Desk},
    ear::{Caller, audible_frames},
    faults::is_explained,
    kit::{
        audio::Sound,
        spoken,
        vendor::{Dialect, Opening, Order, Scenario, Vendor, hertz},
    },
    ms,
    openings::APOLOGY_MIN,
};
use offhook::{audio::Format, call::EndReason};
use std::time::Duration;

const MORE: &str = "fallbacks: [house]";
const HOUSE: (&str, &str) = ("house", "{ pipeline: { stt: ears, llm: list, tts: espeak } }");
/// Of the attendant, one entry of each section.
const SERVICES: [(&str, &str); 3] = [
    ("stt", "ears: { pocketsphinx: { phrases: [where is my parcel, opening hours, goodbye] } }"),
    (
        "llm",
        "list: { attendant: { entries: [\
           { hears: [where is my parcel], call: look_up, arguments: { parcel: P1 } }, \
           { hears: [goodbye], say: Goodbye then., call: hangup_call } ] } }",
    ),
    ("voices", "espeak: { espeak_ng: {} }"),
];
/// From the call's begin, or the caller's last word, until the attendant's first one.
const SERVED_WITHIN: Duration = ms(9_000);

/// Waits until the attendant has said this, to the very sample; since when.
async fn says(what: &str, caller: &Caller, words: &str, from: Duration) -> Duration {
    let clip = audible_frames(&Sound { samples: spoken::built_in(words, Format::SLIN8).await });
    let heard =
        |tape: &crate::providers::ear::Tape| tape.places_of(&clip).into_iter().find(|place| place.start >= from);
    caller.until(&format!("{what}: {words:?} was heard"), |tape| heard(tape).is_some()).await;
    let begun = caller.look(heard).expect("waited for").start;
    assert!(
        begun <= from + SERVED_WITHIN,
        "{what}: {words:?} at {begun:?}; {}",
        caller.look(|tape| format!("{tape:?}"))
    );
    is_explained(what, caller, from..begun);
    begun
}

/// The caller says what the attendant knows; it is understood, a tool runs, what came of it is heard, and it lets them go.
async fn serves(what: &str, desk: &Desk, caller: &Caller) {
    caller.hears_nothing_for(ms(300)).await;
    caller.says("Where is my parcel").await;
    let said = caller.has_spoken().await;
    says(what, caller, "The parcel is on its way.", said.end).await;
    let requests = desk.service.requests();
    assert_eq!(requests.iter().map(|request| &*request.path).collect::<Vec<_>>(), ["/parcels/P1"], "{what}");
    caller.hears_nothing_for(ms(300)).await;
    caller.says("Goodbye").await;
    let said = caller.has_spoken().await;
    says(what, caller, "Goodbye then.", said.end).await;
    assert_eq!(desk.end_reason().await, EndReason::AgentHungUp, "{what}");
    assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, ms(0))) < APOLOGY_MIN, "{what}: nobody has to apologize");
    assert_eq!(desk.recoveries("took_over", "house"), 1.0, "{what}: {}", desk.engine.metrics().text());
    let took_part =
        |kind: &str| desk.metric(&format!("offhook_stage_requests_total{{kind=\"{kind}\",outcome=\"done\""));
    assert!(took_part("pocketsphinx") >= 2.0 && took_part("espeak_ng") >= 2.0, "{what}");
}

/// Nobody takes a session: it is the attendant who greets.
async fn from_the_beginning(what: &str, desk: Desk) {
    let caller = desk.call().await;
    says(what, &caller, "Hello there.", ms(0)).await;
    serves(what, &desk, &caller).await;
}

/// The vendor goes while nobody speaks, and does not come back.
async fn in_mid_call(what: &str, desk: Desk, vendor: &Vendor) {
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    vendor.order(1, Order::Drop);
    serves(what, &desk, &caller).await;
}

fn down() -> [Scenario; 2] {
    let once = Scenario { openings: vec![Opening::Normal], ..Scenario::all(Opening::Refuse(503)) };
    [Scenario::all(Opening::Refuse(503)), once]
}

pub async fn a_caller_of_a_vendor_that_is_down_is_served_by_the_embedded_attendant<D: Dialect>() {
    let [never, once] = down();
    let (never, once) = (Vendor::start::<D>(never).await, Vendor::start::<D>(once).await);
    let sections: String = SERVICES.map(|(section, entry)| format!("{section}:\n  {entry}\n")).concat();
    let desk =
        async |vendor: &Vendor| Desk::at(&[("first", vendor.yaml()), (HOUSE.0, HOUSE.1.into())], MORE, &sections).await;
    tokio::join!(async { from_the_beginning("down from the beginning", desk(&never).await).await }, async {
        in_mid_call("down in mid-call", desk(&once).await, &once).await
    },);
    once.is_content();
}

pub mod of_stages {
    use super::*;
    use crate::providers::{desk::pipeline, kit::stages::Stages};

    pub async fn a_caller_of_a_vendor_that_is_down_is_served_by_the_embedded_attendant() {
        let [never, once] = down();
        let (never, once) = (Stages::of(never).await, Stages::of(once).await);
        let desk = async |stages: &Stages| {
            let mut sections = Stages::sections(&[("first", stages)]);
            for (section, entry) in SERVICES {
                sections = sections.replace(&format!("{section}:\n"), &format!("{section}:\n  {entry}\n"));
            }
            let first = pipeline(&["first"], &["first"], &["first"]);
            Desk::at(&[("first", first), (HOUSE.0, HOUSE.1.into())], MORE, &sections).await
        };
        tokio::join!(async { from_the_beginning("down from the beginning", desk(&never).await).await }, async {
            in_mid_call("down in mid-call", desk(&once).await, &once.listener).await
        },);
        once.listener.is_content();
    }
}
