//! One pipeline without an engine: what only depends on the leg's format.

use crate::providers::{
    kit::{
        audio::{Sound, encoded_tone, samples_of},
        stage::Stage,
        stages::{Flux, Nova, SCRIBES, Stages, Transcriber, VOICES, heard_by, voice},
        vendor::{Opening, Scenario, hertz},
    },
    ms,
    sessions::{CALLER_HZ, LEGS, has_6_khz_or_nothing, is_a_clean_tone, spoken},
};
use bytes::Bytes;
use offhook::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn, Part, Stumble},
    provider::{self, Among},
    remote::wards::Wards,
};
use serde_json::json;

pub fn stage(stages: &Stages, leg: Format) -> Stage {
    let options = json!({ "stt": "one", "llm": "one", "tts": "one" });
    let among = Among { services: &stages.services(), wards: &Wards::default() };
    Stage::of(provider::build_among("pipeline", &options, &among).expect("good options"), leg)
}

/// One pipeline for each protocol of a listener, by its name.
async fn listeners() -> [(&'static str, Stages); 5] {
    let scenario = Scenario::default;
    [
        ("Flux", Stages::listening::<Flux>(scenario()).await),
        ("Nova", Stages::listening::<Nova>(scenario()).await),
        ("OpenAI's transcriber", Stages::listening::<Transcriber>(scenario()).await),
        (SCRIBES[0], Stages::asking(SCRIBES[0], scenario()).await),
        (SCRIBES[1], Stages::asking(SCRIBES[1], scenario()).await),
    ]
}

async fn voiced(voice: &'static str, leg: Format) -> (Stages, Stage) {
    let stages = Stages::speaking(voice).await;
    let mut stage = stage(&stages, leg);
    stage.is_ready().await;
    (stages, stage)
}

/// A turn of a second, at this pitch.
pub async fn says(hz: f32, stage: &Stage, leg: Format) {
    stage.tell(AgentCommand::Turn(CallerTurn::Began)).await;
    for frame in encoded_tone(hz, ms(1_000), leg).chunks(leg.frame_bytes()) {
        stage.tell(AgentCommand::Audio(Bytes::copy_from_slice(frame))).await;
    }
    stage.tell(AgentCommand::Turn(CallerTurn::Ended)).await;
}

/// What the listener hears of this tone, and in which format; what is sent after a turn is none of it.
async fn heard_of(hz: f32, stages: &Stages, leg: Format) -> (Sound, Format) {
    let mut stage = stage(stages, leg);
    stage.is_ready().await;
    says(hz, &stage, leg).await;
    let (mut samples, format) = if stages.listener.sessions() == 0 {
        (heard_by(&stages.scribe.is_asked(1).await), Format::SLIN16)
    } else {
        stages.listener.until_session(1, "is set up", |seen| seen.set_up.is_some()).await;
        let format = stages.listener.of(1, |seen| seen.set_up.as_ref().expect("it is ready").hears);
        let enough = |audio: &[u8]| format.duration_of(audio.len()) >= ms(960);
        stages.listener.until_session(1, "heard the caller", |seen| enough(&seen.audio)).await;
        (stages.listener.of(1, |seen| samples_of(&seen.audio, format)), format)
    };
    samples.truncate(format.rate as usize);
    stages.listener.is_content();
    (Sound { samples }, format)
}

async fn greeting(stage: &mut Stage) -> Vec<u8> {
    stage.tell(AgentCommand::Greet { text: Some("Hello there.".into()) }).await;
    spoken(stage).await
}

pub async fn the_callers_tone_reaches_the_vendor_undistorted_from_every_codec() {
    for leg in LEGS {
        for (listener, stages) in listeners().await {
            let (heard, format) = heard_of(CALLER_HZ, &stages, leg).await;
            is_a_clean_tone(&heard, f64::from(CALLER_HZ), format.rate, &format!("{leg} to {listener} in {format}"));
        }
    }
}

pub async fn the_agents_tone_reaches_the_caller_undistorted_in_every_codec() {
    for leg in LEGS {
        for voice in VOICES {
            let (_stages, mut stage) = voiced(voice, leg).await;
            let audio = greeting(&mut stage).await;
            let length = leg.duration_of(audio.len());
            assert!(length.abs_diff(ms(1_000)) <= ms(40), "{voice} to {leg}: {length:?}");
            let heard = Sound { samples: samples_of(&audio, leg) };
            is_a_clean_tone(&heard, hertz(1), leg.rate, &format!("{voice} to {leg}"));
        }
    }
}

pub async fn what_a_codec_cannot_carry_is_not_folded_back() {
    for leg in LEGS {
        // A protocol that asks for the leg's own format has no such tone; these two bring more than a telephone has.
        for voice in ["openai_speech", "wyoming_speech"] {
            let (stages, mut stage) = voiced(voice, leg).await;
            stages.voice.answers(|asked| voice::speaks(asked, 6_000.0, ms(1_000)));
            let heard = Sound { samples: samples_of(&greeting(&mut stage).await, leg) };
            has_6_khz_or_nothing(&heard, leg, &format!("{voice} to {leg}"));
        }
        if leg.rate > 12_000 {
            for (listener, stages) in listeners().await {
                let (heard, format) = heard_of(6_000.0, &stages, leg).await;
                has_6_khz_or_nothing(&heard, format, &format!("{leg} to {listener} in {format}"));
            }
        }
    }
}

/// Of the listeners that confirm a format; a voice's file says its own.
pub async fn formats_that_were_not_asked_for_end_the_handshake() {
    let stages = Stages::listening::<Transcriber>(Scenario::all(Opening::OtherFormats)).await;
    let mut stage = stage(&stages, Format::ULAW);
    stage.tell(AgentCommand::Audio(Bytes::from(vec![0xff; 160]))).await;
    let stumbled = AgentEvent::Stumbled(Stumble { part: Part::Listener, is_slow: false });
    assert_eq!(stage.rest().await, [stumbled, AgentEvent::Lost(AgentLoss::Protocol)], "and never ready");
    assert!(stages.listener.of(1, |seen| seen.audio.is_empty()), "nothing was told to it");
    stages.listener.is_content();
}
