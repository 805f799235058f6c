//! One pipeline without an engine: what only depends on the leg's format.

use crate::{
    ms,
    sessions::{CALLER_HZ, LEGS, has_6_khz_or_nothing, is_a_clean_tone, spoken},
    support::{
        audio::{Sound, samples_of},
        openai_server::tone,
        stage::Stage,
        stages::{Stages, Transcriber, voice},
        vendor::{Dialect, Opening, Scenario, hertz},
    },
};
use bytes::Bytes;
use offhook::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn},
    provider::{self, Among},
    remote::wards::Wards,
};
use serde_json::json;

fn stage(stages: &Stages, leg: Format) -> Stage {
    let options = json!({ "stt": "one", "llm": "one", "tts": "one" });
    let among = Among { services: &stages.services(), wards: &Wards::default() };
    Stage::of(provider::build_among("pipeline", &options, &among).expect("good options"), leg)
}

async fn ready<L: Dialect>(leg: Format) -> (Stages, Stage) {
    let stages = Stages::listening::<L>(Scenario::default()).await;
    let mut stage = stage(&stages, leg);
    stage.is_ready().await;
    (stages, stage)
}

/// What the listener hears of this tone, and in which format.
async fn heard_of(hz: f32, stages: &Stages, stage: &Stage, leg: Format) -> (Sound, Format) {
    stage.tell(AgentCommand::Turn(CallerTurn::Began)).await;
    for frame in tone(hz, ms(1_000), leg).chunks(leg.frame_bytes()) {
        stage.tell(AgentCommand::Audio(Bytes::copy_from_slice(frame))).await;
    }
    stage.tell(AgentCommand::Turn(CallerTurn::Ended)).await;
    let format = stages.listener.of(1, |seen| seen.set_up.as_ref().expect("it is ready").hears);
    let enough = |audio: &[u8]| format.duration_of(audio.len()) >= ms(960);
    stages.listener.until_session(1, "heard the caller", |seen| enough(&seen.audio)).await;
    (Sound { samples: stages.listener.of(1, |seen| samples_of(&seen.audio, format)) }, format)
}

async fn greeting(stage: &mut Stage) -> Vec<u8> {
    stage.tell(AgentCommand::Greet { text: Some("Hello there.".into()) }).await;
    spoken(stage).await
}

pub async fn the_callers_tone_reaches_the_vendor_undistorted_from_every_codec() {
    for leg in LEGS {
        let (stages, stage) = ready::<Transcriber>(leg).await;
        let (heard, format) = heard_of(CALLER_HZ, &stages, &stage, leg).await;
        is_a_clean_tone(&heard, f64::from(CALLER_HZ), format.rate, &format!("{leg} to {format}"));
        stages.listener.is_content();
    }
}

pub async fn the_agents_tone_reaches_the_caller_undistorted_in_every_codec() {
    for leg in LEGS {
        let (_stages, mut stage) = ready::<Transcriber>(leg).await;
        let audio = greeting(&mut stage).await;
        let length = leg.duration_of(audio.len());
        assert!(length.abs_diff(ms(1_000)) <= ms(40), "{leg}: {length:?}");
        is_a_clean_tone(&Sound { samples: samples_of(&audio, leg) }, hertz(1), leg.rate, &leg.to_string());
    }
}

pub async fn what_a_codec_cannot_carry_is_not_folded_back() {
    for leg in LEGS {
        let (stages, mut stage) = ready::<Transcriber>(leg).await;
        stages.voice.answers(|asked| voice::speaks(asked, 6_000.0, ms(1_000)));
        let heard = Sound { samples: samples_of(&greeting(&mut stage).await, leg) };
        has_6_khz_or_nothing(&heard, leg, &format!("24 kHz to {leg}"));
        if leg.rate > 12_000 {
            let (heard, format) = heard_of(6_000.0, &stages, &stage, leg).await;
            has_6_khz_or_nothing(&heard, format, &format!("{leg} to {format}"));
        }
    }
}

/// Of the listeners that confirm a format; a voice's file says its own.
pub async fn formats_that_were_not_asked_for_end_the_handshake() {
    let stages = Stages::listening::<Transcriber>(Scenario::all(Opening::OtherFormats)).await;
    let mut stage = stage(&stages, Format::ULAW);
    stage.tell(AgentCommand::Audio(Bytes::from(vec![0xff; 160]))).await;
    assert_eq!(stage.rest().await, [AgentEvent::Lost(AgentLoss::Protocol)], "and never ready");
    assert!(stages.listener.of(1, |seen| seen.audio.is_empty()), "nothing was told to it");
    stages.listener.is_content();
}
