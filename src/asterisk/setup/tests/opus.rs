//! Opus, for callers whose phones speak it.

use super::*;

/// As a request has it.
const ASKED: &str = "CHANNEL%28audionativeformat%29";

/// The formats of the media channels that this call was given, and how its legs were coded: at first, and after a repair when
/// its phone has changed to `later`.
async fn codings(formats: Option<&str>, later: &str) -> (Vec<String>, Vec<Coding>) {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let arrival = stage.caller().await;
    let speaks = |stage: &Stage, formats: &str| {
        let mut fake = stage.fake.now();
        let caller = fake.channels.get_mut("caller").expect("the caller");
        caller.variables.insert(ASKED.into(), formats.to_owned());
    };
    formats.iter().for_each(|formats| speaks(&stage, formats));
    let plan = Plan { opus: true, ..plan(Transport::WebSocket) };
    let call = plan.call;
    let (leg, path) = set_up(&stage.ari, &ports, arrival.registration, plan.clone(), at_once()).await.unwrap();
    let asked = |stage: &Stage, channel: &str| {
        let fake = stage.fake.now();
        fake.channels[channel].media.as_ref().expect("a media channel")["format"].as_str().unwrap().to_owned()
    };
    let names = stage.ari.names().clone();
    let first = asked(&stage, &names.media_channel(call));
    speaks(&stage, later);
    let path = leg.repair(&ports, &plan, path).map_err(SetupStep::label).unwrap().done().await;
    let path = path.map_err(SetupStep::label).unwrap();
    let second = asked(&stage, &names.next_media_channel(call, 1));
    leg.tear_down(Ending::HangUp, path).await;
    assert_clean(&stage, &ports, "hang-up").await;
    let codings = ports.codings.lock().unwrap().clone();
    (vec![first, second], codings)
}

/// T20: by the formats of the channel.
#[tokio::test]
async fn opus_is_carried_where_the_phone_speaks_it_and_samples_where_it_does_not() {
    use Coding::{NoOpus, Opus};
    let cases = [
        (Some("(opus)"), "opus", Opus),
        (Some("(opus|ulaw)"), "opus", Opus),
        // It might speak it, and does not.
        (Some("(ulaw|opus)"), "slin16", NoOpus),
        (Some("(g722)"), "slin16", NoOpus),
        (Some("(opusx)"), "slin16", NoOpus),
        (Some("()"), "slin16", NoOpus),
        // Asterisk cannot tell.
        (None, "slin16", NoOpus),
    ];
    for (formats, format, coding) in cases {
        let (asked, codings) = codings(formats, formats.unwrap_or("()")).await;
        assert_eq!((asked, codings), (vec![format.to_owned(); 2], vec![coding; 2]), "{formats:?}");
    }
}

/// T20: in mid-call.
#[tokio::test]
async fn a_phone_that_changes_its_codec_in_mid_call_gets_a_path_that_fits() {
    let (asked, codings) = codings(Some("(opus)"), "(ulaw)").await;
    assert_eq!(asked, ["opus", "slin16"]);
    assert_eq!(codings, [Coding::Opus, Coding::NoOpus]);
}

#[tokio::test]
async fn who_did_not_ask_for_opus_gets_none_and_nothing_is_asked() {
    let mut stage = Stage::up().await;
    let ports = Ports::of(&stage);
    let arrival = stage.caller().await;
    let caller = ("caller".to_owned(), "(opus)".to_owned());
    stage.fake.now().channels.get_mut(&caller.0).unwrap().variables.insert(ASKED.into(), caller.1);
    let plan = plan(Transport::WebSocket);
    let (leg, path) = set_up(&stage.ari, &ports, arrival.registration, plan, at_once()).await.unwrap();
    assert_eq!(*ports.codings.lock().unwrap(), [Coding::Plain]);
    leg.tear_down(Ending::HangUp, path).await;
}
