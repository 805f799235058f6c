//! The ATIS of an aerodrome, from its server to the caller's ear.

use super::*;
use crate::calls::kit::audio::Sound;
use std::{io::Write as _, ops::RangeInclusive, process::Stdio};

/// The words of the server for its sample of Trondheim; the same report and file always give the same ones.
const TRONDHEIM: &str = "Trondheim Værnes information Bravo. Observed at one three five zero. Runway in use two seven. \
    Tower one one eight decimal four zero zero. Wind calm. CAV OK. Temperature minus five. Dew point minus seven. QNH one \
    zero three one. No significant change. End of information Bravo.";
const BERGEN: &str = "Bergen Flesland information Bravo. Observed at one three five zero. Runway in use one seven. \
    Transition level eight five. Wind one six zero degrees, one eight knots, gusting three one. Visibility six kilometres. \
    Light rain. Clouds scattered one thousand two hundred feet, broken one thousand eight hundred feet. Temperature niner. \
    Dew point seven. QNH niner niner six hectopascals. Temporarily visibility four thousand metres, rain, cloud broken one \
    thousand feet. End of information Bravo.";

/// Frames over which loudness is averaged: a phone on a busy machine may lose one or two, which shifts what follows.
const SMOOTH: usize = 10;
/// The least likeness of what was heard with the line that was said, and the most with another one of the same voice. Over four
/// gaps of 60 to 500 ms the same line has 0.96 and the other 0.67; without one, 1 and 0.65.
const SAME: f64 = 0.85;
const OTHER: f64 = 0.75;
/// 2 s, which is compared by itself, and how much earlier or later than the piece before it may be: half a second. A busy machine
/// leaves gaps in what is heard in real time, and what follows them is not other words for that.
const PIECE: usize = 100;
const SLIP: usize = 25;

/// How loud a line is while espeak-ng says it as the shipped configuration has it: one value for each 20 ms.
fn loudness_of_line(words: &str) -> Vec<f64> {
    /// Bytes before the samples, and samples of 20 ms at 22 050 Hz.
    const HEADER: usize = 44;
    const FRAME: usize = 441;
    let mut speaker = std::process::Command::new("espeak-ng")
        .args(["-v", "en-us", "-s", "165", "--stdin", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("espeak-ng is installed");
    speaker.stdin.take().expect("a pipe").write_all(words.as_bytes()).expect("it reads");
    let wav = speaker.wait_with_output().expect("it ends").stdout;
    let samples: Vec<i16> = wav[HEADER..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    loudness(&samples, FRAME)
}

fn loudness(samples: &[i16], frame: usize) -> Vec<f64> {
    let rms = |frame: &[i16]| (frame.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>() / frame.len() as f64).sqrt();
    let frames: Vec<f64> = samples.chunks_exact(frame).map(rms).collect();
    frames.windows(SMOOTH).map(|window| window.iter().sum::<f64>() / window.len() as f64).collect()
}

/// How well a line's course of loudness is found in what was heard, 0 to 1, piece by piece from the place on where the whole fits
/// best; and that place.
fn likeness(heard: &[f64], line: &[f64]) -> (f64, usize) {
    assert!(heard.len() >= line.len(), "what was heard is shorter than the line");
    let (_, place) = fits_best(heard, line, 0..=heard.len() - line.len());
    let (mut expected, mut likeness) = (place, Vec::new());
    for piece in line.chunks(PIECE).filter(|piece| piece.len() >= PIECE / 2) {
        let latest = (expected + SLIP).min(heard.len() - piece.len());
        let (fits, found) = fits_best(heard, piece, expected.saturating_sub(SLIP).min(latest)..=latest);
        likeness.push(fits);
        expected = found + piece.len();
    }
    (likeness.iter().sum::<f64>() / likeness.len() as f64, place)
}

fn fits_best(heard: &[f64], line: &[f64], places: RangeInclusive<usize>) -> (f64, usize) {
    let at = |from: usize| correlation(&heard[from..from + line.len()], line);
    places.map(|from| (at(from), from)).max_by(|a, b| a.0.total_cmp(&b.0)).expect("one place at least")
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (of_a, of_b) = (mean(a), mean(b));
    let both: f64 = a.iter().zip(b).map(|(a, b)| (a - of_a) * (b - of_b)).sum();
    let power = |values: &[f64], mean: f64| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    both / (power(a, of_a) * power(b, of_b)).sqrt().max(f64::MIN_POSITIVE)
}

/// The shipped file with the places of this test, its server beside the engine's own program.
fn shipped(place: &Place) -> String {
    let yaml = std::fs::read_to_string(project().join("config/mcp.yaml")).expect("a committed file");
    // Here the file does not lie in its folder.
    let cwd = format!("transport: stdio\n      cwd: {}", project().join("config").display());
    assert_eq!(yaml.matches("transport: stdio").count(), 1);
    format!("{}{}", yaml.replace("transport: stdio", &cwd), place.yaml(None))
}

/// M4, M18, M44, M26: dialled as `Set(AI_CONTEXT=demo_mcp)`, the smoke configuration says hello, asks the ATIS server, speaks
/// the very words of the ATIS, and hangs up.
async fn a_real_call_speaks_the_atis_of_an_aerodrome() {
    built("aviation_atis");
    let asterisk = Asterisk::start(Options::default()).await;
    let env = [("ARI_URL", asterisk.ari_url()), ("ARI_PASSWORD", asterisk.ari_password().to_owned())];
    let place = Place::free();
    let yaml = shipped(&place);
    let offhook = Offhook::launch(place, &yaml, Launch { env: &env, ..Launch::default() }).await;
    offhook.wait_ready(true).await;
    let until = Instant::now() + PATIENCE;
    while !is_up(&offhook.json("mcp/status").await["servers"]["aviation_atis"]) {
        assert!(Instant::now() < until, "{}", offhook.log());
        tokio::time::sleep(ASK_EVERY).await;
    }
    let mut phone = Phone::call(asterisk.sip_port(), "7005", silence(ms(60_000))).await;
    phone.wait_established(SOON).await;
    phone.wait_ended(PATIENCE).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up");
    let counted = "ai_agent_mcp_tool_calls_total{server=\"aviation_atis\",status=\"ok\",tool=\"get_atis\"}";
    offhook.metric_is(counted, 1.0).await;

    let heard: Sound = phone.heard();
    let heard = loudness(&heard.samples, 160);
    let (hello, hello_at) =
        likeness(&heard, &loudness_of_line("Hello, this is the airport weather line. I look up Trondheim for you."));
    let spoken = loudness_of_line(TRONDHEIM);
    let (is_it, at) = likeness(&heard, &spoken);
    assert!(hello > SAME, "the greeting is not what was heard: {hello}");
    assert!(is_it > SAME, "these are not the words that were heard: {is_it}");
    assert!(at > hello_at, "the tool is called after the greeting");
    let (goodbye, goodbye_at) = likeness(&heard, &loudness_of_line("Thank you for calling. Goodbye!"));
    assert!(goodbye > SAME, "the goodbye is not what was heard: {goodbye}");
    assert!(goodbye_at + SMOOTH >= at + spoken.len(), "the ATIS is spoken to its end");
    // Other words of the same voice are told from these.
    let mut other = loudness_of_line(BERGEN);
    other.truncate(spoken.len());
    let (is_other, _) = likeness(&heard, &other);
    assert!(is_other < OTHER, "other words are as like: {is_other}");
    asterisk.wait_empty(SOON).await;
}

/// M1, M17, M18, M20: a model is told the sentence to speak, and the report beside it; what the server calls a failure is
/// told as one, in the server's words.
async fn a_model_is_told_the_words_and_the_report() {
    let servers = [("aviation_atis", atis(""))];
    let scene = Scene::start(Setting { servers: &servers, offered: "mcp_aviation_atis", ..Setting::default() }).await;
    let phone = scene.call("7000").await;
    let output = scene.tool("mcp_aviation_atis", json!({ "icao": "enva" })).await;
    assert_eq!((kind(&output), message(&output)), ("OK", TRONDHEIM));
    assert_eq!(output["data"]["raw"], "ENVA 201350Z 00000KT CAVOK M05/M07 Q1031 NOSIG");
    let output = scene.tool("mcp_aviation_atis", json!({ "icao": "ENBR" })).await;
    assert_eq!(message(&output), BERGEN);
    let unknown = scene.tool("mcp_aviation_atis", json!({ "icao": "KJFK" })).await;
    assert_eq!((kind(&unknown), &unknown["ok"]), ("PERMANENT", &json!(false)), "{unknown}");
    assert!(!message(&unknown).is_empty());
    phone.wait_to_hear(AGENT_HZ, ms(900), SOON).await;
    scene.ends(phone).await;
    assert_eq!((scene.counted("aviation_atis", "ok").await, scene.counted("aviation_atis", "error").await), (2.0, 1.0));
}

crate::scenes! {
    // MCP servers are programs of their own, which work while no clock of ours holds.
    only_real:
        a_real_call_speaks_the_atis_of_an_aerodrome,
        a_model_is_told_the_words_and_the_report;
}
