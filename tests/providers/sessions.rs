//! One session without an engine: what only depends on the leg's format.

use crate::providers::{
    desk::Desk,
    kit::{
        audio::{Sound, encoded_tone, samples_of},
        stage::Stage,
        vendor::{Dialect, Opening, Order, Saying, Scenario, Vendor, hertz},
    },
    ms,
};
use bytes::Bytes;
use offhook::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss},
};
use serde_json::json;

pub const LEGS: [Format; 4] = [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16];
pub const CALLER_HZ: f32 = 1_000.0;

async fn ready<D: Dialect>(leg: Format) -> (Vendor, Stage) {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let mut stage = Stage::with(D::KIND, vendor.options(), leg);
    stage.is_ready().await;
    (vendor, stage)
}

pub async fn the_callers_tone_reaches_the_vendor_undistorted_from_every_codec<D: Dialect>() {
    for leg in LEGS {
        let (vendor, stage) = ready::<D>(leg).await;
        for frame in encoded_tone(CALLER_HZ, ms(1_000), leg).chunks(leg.frame_bytes()) {
            stage.tell(AgentCommand::Audio(Bytes::copy_from_slice(frame))).await;
        }
        let hears = vendor.of(1, |seen| seen.set_up.as_ref().expect("it is ready").hears);
        let enough = |audio: &[u8]| hears.duration_of(audio.len()) >= ms(960);
        vendor.until_session(1, "heard the caller", |seen| enough(&seen.audio)).await;
        let heard = Sound { samples: vendor.of(1, |seen| samples_of(&seen.audio, hears)) };
        is_a_clean_tone(&heard, f64::from(CALLER_HZ), hears.rate, &format!("{leg} to {hears}"));
        vendor.is_content();
    }
}

pub async fn the_agents_tone_reaches_the_caller_undistorted_in_every_codec<D: Dialect>() {
    for leg in LEGS {
        let (vendor, mut stage) = ready::<D>(leg).await;
        stage.tell(AgentCommand::Greet { text: Some("Hello there.".into()) }).await;
        let audio = spoken(&mut stage).await;
        let length = leg.duration_of(audio.len());
        assert!(length.abs_diff(ms(1_000)) <= ms(40), "{leg}: {length:?}");
        is_a_clean_tone(&Sound { samples: samples_of(&audio, leg) }, hertz(1), leg.rate, &leg.to_string());
        vendor.is_content();
    }
}

/// The middle of it is this pitch and next to nothing else, as loud as it was made.
pub fn is_a_clean_tone(sound: &Sound, hz: f64, rate: u32, what: &str) {
    let frame = rate as usize / 50;
    let middle = &sound.samples[2 * frame..sound.samples.len() - 2 * frame];
    // A whole number of periods, so that all of a tone's power is in one bin.
    let turn = std::f64::consts::TAU * hz / f64::from(rate);
    let (mut sine, mut cosine, mut power) = (0.0, 0.0, 0.0);
    for (index, sample) in middle.iter().enumerate() {
        let (sample, angle) = (f64::from(*sample), turn * index as f64);
        (sine, cosine, power) = (sine + sample * angle.sin(), cosine + sample * angle.cos(), power + sample * sample);
    }
    let count = middle.len() as f64;
    let tone = 2.0 * (sine * sine + cosine * cosine) / count;
    assert!(tone / power > 0.995, "{what}: {:.4} of the power is the tone's", tone / power);
    let level = (power / count).sqrt();
    // 8000 at the peak.
    assert!((5_300.0..=6_000.0).contains(&level), "{what}: the level is {level:.0}");
}

/// A tone of 6 kHz: too high for 8 kHz, where it would come back as one of 2 kHz.
pub async fn what_a_codec_cannot_carry_is_not_folded_back<D: Dialect>() {
    for leg in LEGS {
        let (vendor, mut stage) = ready::<D>(leg).await;
        let set_up = vendor.of(1, |seen| seen.set_up.clone()).expect("it is ready");
        if leg.rate > 12_000 {
            for frame in encoded_tone(6_000.0, ms(1_000), leg).chunks(leg.frame_bytes()) {
                stage.tell(AgentCommand::Audio(Bytes::copy_from_slice(frame))).await;
            }
            let enough = |audio: &[u8]| set_up.hears.duration_of(audio.len()) >= ms(960);
            vendor.until_session(1, "heard the caller", |seen| enough(&seen.audio)).await;
            let heard = Sound { samples: vendor.of(1, |seen| samples_of(&seen.audio, set_up.hears)) };
            has_6_khz_or_nothing(&heard, set_up.hears, &format!("{leg} to {}", set_up.hears));
        }
        if set_up.speaks.rate > 12_000 {
            let audio = encoded_tone(6_000.0, ms(1_000), set_up.speaks).to_vec();
            for saying in [
                Saying::ResponseStarted { response: 1 },
                Saying::Audio { response: 1, audio },
                Saying::ResponseDone { response: 1 },
            ] {
                vendor.order(1, Order::Say(saying));
            }
            let heard = Sound { samples: samples_of(&spoken(&mut stage).await, leg) };
            has_6_khz_or_nothing(&heard, leg, &format!("{} to {leg}", set_up.speaks));
        }
    }
}

/// The agent's audio until its response is done.
pub async fn spoken(stage: &mut Stage) -> Vec<u8> {
    let mut audio = Vec::new();
    loop {
        match stage.next().await {
            AgentEvent::Audio { audio: piece, .. } => audio.extend_from_slice(&piece),
            AgentEvent::ResponseDone { .. } => return audio,
            _ => {}
        }
    }
}

pub fn has_6_khz_or_nothing(sound: &Sound, format: Format, what: &str) {
    let frame = format.rate as usize / 50;
    let middle = Sound { samples: sound.samples[2 * frame..sound.samples.len() - 2 * frame].to_vec() };
    if format.rate > 12_000 {
        is_a_clean_tone(sound, 6_000.0, format.rate, what);
    } else {
        // 5657 went in.
        assert!(middle.rms() < 60.0, "{what}: a level of {:.0} has come back", middle.rms());
    }
}

pub async fn formats_that_were_not_asked_for_end_the_handshake<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::all(Opening::OtherFormats)).await;
    let mut stage = Stage::with(D::KIND, vendor.options(), Format::ULAW);
    stage.tell(AgentCommand::Audio(Bytes::from(vec![0xff; 160]))).await;
    assert_eq!(stage.rest().await, [AgentEvent::Lost(AgentLoss::Handshake)], "no audio before it");
    assert!(vendor.of(1, |seen| seen.audio.is_empty()), "and none to the vendor");
    vendor.is_content();
}

/// Gemini Live on Vertex AI. Tokens last an hour, and are renewed in their file while the engine runs.
pub async fn a_session_on_vertex_shows_the_token_that_is_in_the_file_by_then<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let token = folder.path().join("token");
    let writes = |text: &str| std::fs::write(&token, text).expect("a file in the test's own folder");
    writes("token-of-the-first-hour\n");
    let vertex = json!({ "project": "acme-1", "location": "europe-west4", "access_token_file": token });
    let options = json!({ "vertex": vertex, "base_url": vendor.options()["base_url"] });
    let desk = Desk::with(&[("first", format!("{{ {}: {options} }}", D::KIND))], "").await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    writes("token-of-the-second-hour\n");
    vendor.order(1, Order::Drop);
    vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
    caller.speaks().await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(2), ms(900)).await;
    for (session, token) in [(1, "token-of-the-first-hour"), (2, "token-of-the-second-hour")] {
        let (head, set_up) = vendor.of(session, |seen| (seen.head.clone(), seen.texts[0].clone()));
        let mut lines = head.lines();
        let path = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent";
        assert_eq!(lines.next(), Some(format!("GET {path} HTTP/1.1").as_str()));
        let shown: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
        let of = |name: &str| shown.iter().find(|(shown, _)| shown.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        assert_eq!(of("authorization"), Some(format!("Bearer {token}").as_str()), "{head}");
        assert_eq!(of("x-goog-api-key"), None);
        let model = "projects/acme-1/locations/europe-west4/publishers/google/models/gemini-";
        assert!(set_up.contains(&format!("\"model\":\"{model}")), "{set_up}");
    }
    assert_eq!(desk.recoveries("took_over", "first"), 1.0);
    desk.ends_with(&caller).await;
    vendor.is_content();
}
