//! Real calls on each provider, against its emulator: `tests/kit/vendor.rs` says how one is added. A new one is a
//! line at the end.

use crate::calls::{
    SOON,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{Sound, samples_of, silence, tone},
        behaviours::catalogue,
        offhook::Offhook,
        phone::Phone,
        spoken,
        stages::{Bit, Reply, Stages, voice},
        vendor::{Call, Deepgram, Dialect, ElevenLabs, End, Gemini, OpenAi, Opening, Order, Scenario, Vendor, hertz},
    },
    ms,
};
use futures_util::future::join_all;
use serde_json::json;
use std::{fmt::Write as _, time::Duration};
use tempfile::TempDir;
use tokio::time::Instant;

const APOLOGY_HZ: f64 = 300.0;
const MENU_HZ: f64 = 1_150.0;
const CLIP: Duration = ms(1_000);
/// From the vendor's death until nobody is left who could be asked: the attempts of a recovery, and their pauses.
const NOBODY_IS_LEFT: Duration = Duration::from_secs(30);

async fn a_caller_is_greeted_heard_and_answered<D: Dialect>(leg: &str) {
    let sentence = spoken::says("When do you open on Sunday", "en-gb+f3").await;
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
    phone.say(Sound { samples: sentence.clone() }).await;
    vendor.until_session(1, "heard the caller's turn", |seen| seen.turns_ended >= 1).await;
    phone.wait_to_hear(hertz(1), ms(2_700), SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up", "{leg}");
    asterisk.wait_empty(SOON).await;
    let heard = vendor.of(1, |seen| samples_of(&seen.audio, seen.set_up.as_ref().expect("it spoke").hears));
    let hears = vendor.of(1, |seen| seen.set_up.as_ref().expect("it spoke").hears);
    let [heard, spoken] = [voiced(&heard, hears.rate), voiced(&sentence, 8_000)];
    assert!(heard >= spoken.mul_f64(0.7) && heard <= spoken + ms(100), "{leg}: {heard:?} of {spoken:?}");
    assert_eq!(vendor.sessions(), 1, "{leg}");
    vendor.is_content();
    assert!(!offhook.log().contains("key-of-the-test"), "{leg}: the key reached the log");
}

/// How much of it is loud, by frames of 20 ms.
fn voiced(samples: &[i16], rate: u32) -> Duration {
    let frames = samples.chunks(rate as usize / 50).filter(|frame| frame.iter().any(|s| s.unsigned_abs() > 1_000));
    ms(20) * u32::try_from(frames.count()).expect("seconds")
}

/// From the wish for a greeting until its first sound.
const THINKS: Duration = ms(1_200);

/// The first second: the caller hears ringing until the agent can be heard, or as long as the context says.
async fn a_caller_hears_ringing_until_there_is_something_to_hear<D: Dialect>() {
    let scenario = Scenario { thinks: THINKS, ..Scenario::answers(ms(1_500)) };
    let vendor = Vendor::start::<D>(scenario).await;
    hears_ringing(&format!("providers:\n  ai: {}\n", vendor.yaml()), hertz).await;
    vendor.is_content();
}

async fn a_caller_of_a_pipeline_hears_ringing_until_there_is_something_to_hear() {
    let stages = Stages::start().await;
    stages.voice.answers(|asked| {
        let mut reply = voice::speaks(asked, hertz(1), ms(1_500));
        reply.bits.insert(0, Bit::Wait(THINKS));
        reply
    });
    let sections = Stages::sections(&[("ai", &stages)]);
    let agents = format!("{sections}providers:\n  ai: {{ pipeline: {{ stt: ai, llm: ai, tts: ai }} }}\n");
    hears_ringing(&agents, |_| hertz(1)).await;
    stages.listener.is_content();
}

/// Two calls; the agent of each has this pitch.
async fn hears_ringing(agents: &str, pitch: impl Fn(usize) -> f64) {
    let calls = [("rtp/ulaw", "{}", None), ("audiosocket/slin", "{ answer: 400ms }", Some(ms(400)))];
    for (call, (leg, limits, bound)) in (1..).zip(calls) {
        let asterisk = Asterisk::start(Options::default()).await;
        let yaml = format!(
            "default_context: front\n{agents}contexts:\n  front:\n    prompt: You are a test.\n    greeting: Hello \
             there.\n    provider: ai\n    audio: {leg}\n    limits: {limits}\n    turns: {{ owner: offhook }}\n"
        );
        let _offhook = Offhook::attached(&asterisk, &yaml).await;
        let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
        phone.wait_ringing(SOON).await;
        let rang = Instant::now();
        let answered = phone.wait_established(SOON).await.saturating_duration_since(rang);
        phone.wait_to_hear(pitch(call), ms(500), SOON).await;
        phone.hang_up().await;
        let begins = phone.heard().spans_of(pitch(call))[0].begin;
        match bound {
            None => {
                assert!(answered > THINKS - ms(500), "{leg}: answered after {answered:?}, before it could speak");
                assert!(begins < ms(700), "{leg}: {begins:?} of silence after the answer");
            }
            Some(bound) => {
                assert!((bound - ms(100)..=bound + ms(400)).contains(&answered), "{leg}: answered after {answered:?}");
                assert!(begins > ms(200), "{leg}: heard {begins:?} after the answer, which was not waited for");
            }
        }
        asterisk.wait_empty(SOON).await;
    }
}

/// The vendor dies in mid-call, and the next one refuses: what is left needs no vendor at all.
async fn a_caller_without_any_vendor_chooses_a_human_by_a_key<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let refusing = Vendor::start::<D>(Scenario::all(Opening::Refuse(503))).await;
    let gone = async |_: &mut Phone| {
        vendor.stop_listening();
        vendor.order(1, Order::Drop);
    };
    chooses_a_human_by_a_key([vendor.yaml(), refusing.yaml()], "", gone).await;
    assert!(refusing.sessions() >= 1, "the next provider was asked");
    vendor.is_content();
    refusing.is_content();
}

/// What dies of a pipeline in the middle of a call.
enum Dies {
    Listener,
    Model,
    Voice,
}

/// A pipeline without one of its services is nobody to speak with, and the next pipeline cannot even listen.
async fn a_caller_whose_service_dies_chooses_a_human_by_a_key(dies: Dies) {
    let (stages, refusing) = (Stages::start().await, Stages::of(Scenario::all(Opening::Refuse(503))).await);
    let entry = |name| format!("{{ pipeline: {{ stt: {name}, llm: {name}, tts: {name} }} }}");
    let sections = Stages::sections(&[("ai", &stages), ("next", &refusing)]);
    let gone = async |phone: &mut Phone| match dies {
        Dies::Listener => {
            stages.listener.stop_listening();
            stages.listener.order(1, Order::Drop);
        }
        Dies::Model => {
            stages.model.answers(|_| Reply::breaks());
            asks(phone).await;
        }
        Dies::Voice => {
            stages.voice.answers(|_| Reply::breaks());
            asks(phone).await;
        }
    };
    chooses_a_human_by_a_key([entry("ai"), entry("next")], &sections, gone).await;
    assert!(refusing.listener.sessions() >= 1, "the next pipeline was asked");
    stages.listener.is_content();
}

/// The caller asks what nobody will answer.
async fn asks(phone: &mut Phone) {
    let sentence = spoken::says("When do you open on Sunday", "en-gb+f3").await;
    phone.say(Sound { samples: sentence.clone() }).await;
}

/// Callers speak with the first provider, until it is `gone`.
async fn chooses_a_human_by_a_key(providers: [String; 2], sections: &str, gone: impl AsyncFnOnce(&mut Phone)) {
    let (asterisk, clips) = (Asterisk::start(Options::default()).await, TempDir::new().expect("a temporary directory"));
    let clip = |name: &str, hz: f64| {
        let path = clips.path().join(name);
        tone(hz, CLIP).write_wav(&path);
        path.display().to_string()
    };
    let yaml = format!(
        "default_context: front\nproviders:\n  ai: {}\n  next: {}\ndestinations:\n  desk: {{ description: A human, \
         context: lab-targets, extension: desk }}\ncontexts:\n  front:\n    prompt: You are a test.\n    greeting: \
         Hello there.\n    provider: ai\n    turns: {{ owner: offhook }}\n    fallbacks: [next]\n    audio: \
         rtp/ulaw\n    on_failure:\n      apology: \
         {}\n      menu: {{ say: {{ file: {}, text: Press one for a human. }}, keys: {{ \"1\": {{ transfer: desk }} }} \
         }}\n      then: hang_up\n{sections}",
        providers[0],
        providers[1],
        clip("apology.wav", APOLOGY_HZ),
        clip("menu.wav", MENU_HZ),
    );
    let offhook = Offhook::attached(&asterisk, &yaml).await;
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    phone.wait_to_hear(hertz(1), ms(900), SOON).await;
    gone(&mut phone).await;
    phone.wait_to_hear(APOLOGY_HZ, CLIP - ms(60), NOBODY_IS_LEFT).await;
    phone.wait_to_hear(MENU_HZ, CLIP - ms(60), SOON).await;
    assert_eq!(phone.heard().time_of(DESK_HZ), ms(0), "nobody was called before a key was pressed");
    phone.dtmf('1').await;
    phone.wait_to_hear(DESK_HZ, ms(500), SOON).await;
    phone.hang_up().await;
    let ended = offhook.wait_end_reason(SOON).await;
    assert!(ended.starts_with("agent_"), "{ended}");
    let heard = phone.heard();
    // Words such as "One moment, please" can have a clip's pitch for a moment.
    let spans = |hz| heard.spans_of(hz).into_iter().filter(|span| span.length() > CLIP / 4).collect::<Vec<_>>();
    let [apology, menu, desk] = [APOLOGY_HZ, MENU_HZ, DESK_HZ].map(spans);
    assert_eq!((apology.len(), menu.len(), desk.len()), (1, 1, 1), "{apology:?}, {menu:?}, {desk:?}");
    assert!(apology[0].end <= menu[0].begin && menu[0].end <= desk[0].begin, "{apology:?}, {menu:?}, {desk:?}");
    asterisk.wait_empty(SOON).await;
}

/// Close codes that vendors are known to send.
const CODES: [u16; 5] = [1000, 1001, 1007, 1008, 1011];
/// The ringing tone, a second of it in five, and how long somebody is rung who does not answer.
const RINGING_HZ: f64 = 425.0;
const RUNG: Duration = ms(4_000);

/// One call for each code, all in one engine; each has a vendor of its own.
async fn a_session_closed_while_a_person_is_rung<D: Dialect>() {
    // A voice that cannot be taken for ringing.
    let vendors = join_all(
        CODES.map(|_| Vendor::start::<D>(Scenario { pitch: |session| hertz(session + 1), ..Scenario::default() })),
    )
    .await;
    let mut yaml = format!(
        "default_context: c{}\ndestinations:\n  there: {{ description: People, ring: {}ms, dial: \
         [\"Local/rings@lab-targets\"] }}\nproviders:\n",
        CODES[0],
        RUNG.as_millis()
    );
    let (mut contexts, mut dialplan) = (String::from("contexts:\n"), String::from("[lab-callers](+)\n"));
    for (code, vendor) in CODES.iter().zip(&vendors) {
        let _ = writeln!(yaml, "  ai{code}: {}", vendor.yaml_with(D::waits()));
        let _ = writeln!(
            contexts,
            "  c{code}: {{ prompt: You are a test., greeting: Hello there., provider: ai{code}, audio: rtp/ulaw, \
             tools: [transfer], turns: {{ owner: offhook }} }}"
        );
        let _ = writeln!(dialplan, "exten => c{code},1,Stasis(offhook,c{code})\n same => n,Hangup()");
    }
    let asterisk = Asterisk::start(Options { dialplan, ..Options::default() }).await;
    let offhook = Offhook::attached(&asterisk, &(yaml + &contexts)).await;
    let calls = CODES.iter().zip(&vendors).map(|(code, vendor)| rings_on::<D>(*code, vendor, &asterisk, &offhook));
    join_all(calls).await;
    for ended in offhook.wait_ended(CODES.len(), SOON).await {
        assert_eq!(ended["reason"]["label"], "caller_hung_up", "{ended}");
    }
    asterisk.wait_empty(SOON).await;
}

/// The session is closed like this while it rings: nothing but ringing is heard until that is over, and then the next
/// session's agent.
async fn rings_on<D: Dialect>(code: u16, vendor: &Vendor, asterisk: &Asterisk, offhook: &Offhook) {
    let [agent, next] = [2, 3].map(hertz);
    let mut phone = Phone::call(asterisk.sip_port(), &format!("c{code}"), silence(ms(60_000))).await;
    phone.wait_to_hear(agent, ms(900), SOON).await;
    let arguments = json!({ "destination": "there" });
    let call = Call { id: "call_0000000000000001".into(), name: "transfer".into(), arguments };
    vendor.order(1, Order::Call(vec![call]));
    phone.wait_to_hear(RINGING_HZ, ms(500), SOON).await;
    vendor.order(1, Order::Close(code, ""));
    phone.wait_to_hear(next, ms(900), SOON).await;
    let loss = D::loss(End::Closed { code, stood: true });
    for counted in [
        format!("offhook_agent_losses_total{{loss=\"{loss}\",provider=\"ai{code}\"}}"),
        format!("offhook_session_recoveries_total{{outcome=\"took_over\",provider=\"ai{code}\"}}"),
    ] {
        offhook.metric_is(&counted, 1.0).await;
    }
    phone.hang_up().await;
    let heard = phone.heard();
    // Words can have a pitch for a moment.
    let first = |hz| heard.spans_of(hz).into_iter().find(|span| span.length() > ms(300)).expect("heard").begin;
    let [rang, spoke] = [RINGING_HZ, next].map(first);
    let over = rang + RUNG - ms(500);
    assert!(spoke >= over, "{code}: it rings from {rang:?} on, and the next agent speaks at {spoke:?}");
    let pause = heard.part(rang + ms(1_200)..over).loud_spans();
    assert!(pause.is_empty(), "{code}: after one ring nobody is heard before it is over, and {pause:?}");
    vendor.is_content();
}

/// The tests of one column of the table.
macro_rules! column {
    ($column:ident $($test:ident => $course:expr,)*) => {
        mod $column {
            pub const TESTS: &[&str] = &[$(stringify!($test)),*];
            $(
                async fn $test() {
                    $course.await;
                }
            )*

            crate::scenes! {
                both: $($test),*;
            }
        }
    };
}

macro_rules! real_calls {
    ($($provider:ident $dialect:ident)*) => {
        $(column! { $provider
            a_caller_by_rtp_is_greeted_heard_and_answered =>
                super::a_caller_is_greeted_heard_and_answered::<super::$dialect>("rtp/ulaw"),
            a_caller_by_audiosocket_is_greeted_heard_and_answered =>
                super::a_caller_is_greeted_heard_and_answered::<super::$dialect>("audiosocket/slin"),
            a_caller_hears_ringing_until_there_is_something_to_hear =>
                super::a_caller_hears_ringing_until_there_is_something_to_hear::<super::$dialect>(),
            a_caller_without_any_vendor_chooses_a_human_by_a_key =>
                super::a_caller_without_any_vendor_chooses_a_human_by_a_key::<super::$dialect>(),
            a_session_closed_while_a_person_is_rung =>
                super::a_session_closed_while_a_person_is_rung::<super::$dialect>(),
        })*

        fn shown() -> Vec<(&'static str, Vec<&'static str>)> {
            let realtime = [$((stringify!($provider), $provider::TESTS)),*];
            let columns = realtime.into_iter().chain([("pipeline", pipeline::TESTS)]);
            columns.map(|(provider, tests)| (provider, tests.to_vec())).collect()
        }
    };
}

real_calls! {
    openai_realtime OpenAi
    gemini_live Gemini
    deepgram_agent Deepgram
    elevenlabs_agent ElevenLabs
}

column! { pipeline
    a_caller_by_rtp_is_greeted_heard_and_answered =>
        crate::calls::pipeline::a_caller_is_greeted_understood_answered_and_let_go("rtp/ulaw"),
    a_caller_by_audiosocket_is_greeted_heard_and_answered =>
        crate::calls::pipeline::a_caller_is_greeted_understood_answered_and_let_go("audiosocket/slin"),
    a_caller_hears_ringing_until_there_is_something_to_hear =>
        super::a_caller_of_a_pipeline_hears_ringing_until_there_is_something_to_hear(),
    a_caller_without_any_vendor_chooses_a_human_by_a_key =>
        futures_util::future::join_all(
            [super::Dies::Listener, super::Dies::Model, super::Dies::Voice]
                .map(super::a_caller_whose_service_dies_chooses_a_human_by_a_key),
        ),
}

#[test]
fn every_provider_has_its_real_calls() {
    let gaps = catalogue().gaps("calls", &shown());
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
}
