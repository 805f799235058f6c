//! A real call on each realtime provider, against its emulator: `tests/support/vendor.rs` says how one is added. A
//! new one is a line at the end.

use crate::{
    SOON, ms,
    support::{
        asterisk::{Asterisk, Options},
        audio::{Sound, samples_of, silence},
        offhook::Offhook,
        phone::Phone,
        speech,
        vendor::{Deepgram, Dialect, ElevenLabs, Gemini, OpenAi, Scenario, Vendor, hertz},
    },
};

async fn a_caller_is_greeted_heard_and_answered<D: Dialect>(leg: &str) {
    let sentence = speech::render_all(&["When do you open on Sunday"], "en-gb+f3").await.expect("espeak-ng speaks");
    let vendor = Vendor::start::<D>(Scenario::answers(ms(1_500))).await;
    let asterisk = Asterisk::start(Options::default()).await;
    let yaml = format!(
        "default_context: front\nproviders:\n  ai: {}\ncontexts:\n  front:\n    prompt: You are a test.\n    greeting: \
         Hello there.\n    provider: ai\n    audio: {leg}\n    tools: [hangup_call]\n    turns: {{ owner: offhook }}\n",
        vendor.yaml()
    );
    let offhook = Offhook::attached(&asterisk, &yaml).await;
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    phone.wait_to_hear(hertz(1), ms(1_300), SOON).await;
    phone.say(Sound { samples: sentence[0].clone() }).await;
    vendor.until_session(1, "heard the caller's turn", |seen| seen.turns_ended >= 1).await;
    phone.wait_to_hear(hertz(1), ms(2_700), SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up", "{leg}");
    asterisk.wait_empty(SOON).await;
    let heard = vendor.of(1, |seen| samples_of(&seen.audio, seen.set_up.as_ref().expect("it spoke").hears));
    let loudest = heard.iter().map(|sample| sample.unsigned_abs()).max();
    assert!(loudest > Some(2_000), "{leg}: the caller's voice reached the vendor: {loudest:?}");
    assert_eq!(vendor.sessions(), 1, "{leg}");
    vendor.is_content();
    assert!(!offhook.log().contains("key-of-the-test"), "{leg}: the key reached the log");
}

macro_rules! real_calls {
    ($($provider:ident $dialect:ident)*) => {$(
        mod $provider {
            #[tokio::test(flavor = "multi_thread")]
            async fn a_caller_by_rtp_is_greeted_heard_and_answered() {
                super::a_caller_is_greeted_heard_and_answered::<super::$dialect>("rtp/ulaw").await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_caller_by_audiosocket_is_greeted_heard_and_answered() {
                super::a_caller_is_greeted_heard_and_answered::<super::$dialect>("audiosocket/slin").await;
            }
        }
    )*};
}

real_calls! {
    openai_realtime OpenAi
    gemini_live Gemini
    deepgram_agent Deepgram
    elevenlabs_agent ElevenLabs
}
