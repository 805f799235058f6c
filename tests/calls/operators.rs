//! What operators do with calls that run: they listen, and send callers to people.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{RATE, Sound, silence, tone},
        offhook::{Offhook, Place},
        phone::Phone,
    },
    ms,
};
use serde_json::{Value, json};
use tokio::time::timeout;

const TOKEN: &str = "a token for programs";
const ANN_HZ: f64 = 1000.0;
/// Bytes before the samples of a WAV file.
const HEAD: usize = 44;

/// An agent that talks for four seconds, whatever it hears, and has no tool to transfer anybody.
async fn pbx(ann: &Phone) -> (Asterisk, Offhook, u16) {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let port = place.http;
    let yaml = place.yaml_with(&asterisk, TOKEN);
    let yaml = format!(
        "{yaml}records: {{ directory: records }}\ndefault_context: front\n\
         providers:\n  script:\n    scripted:\n      detector: {{ threshold_dbfs: 0 }}\n      \
         script: [{{ tone: {{ hertz: {AGENT_HZ}, for: 4s }} }}, {{ listen: {{}} }}]\n\
         destinations:\n  there: {{ description: People, dial: [\"PJSIP/anonymous/sip:phone@127.0.0.1:{}\"] }}\n\
         contexts:\n  front: {{ prompt: A test, provider: script, tools: [hangup_call] }}\n",
        ann.port()
    );
    let mut offhook = Offhook::start(place, &yaml).await;
    offhook.ask_with(TOKEN);
    offhook.wait_ready(true).await;
    (asterisk, offhook, port)
}

async fn caller(asterisk: &Asterisk) -> Phone {
    let says = silence(ms(500)) + tone(CALLER_HZ, ms(60_000));
    Phone::call_as(asterisk.sip_port(), "7000", says, "Ada Byron", "15550199").await
}

async fn running(offhook: &Offhook) -> String {
    let (_, live) = offhook.request("GET", "api/v1/live", TOKEN, None).await;
    live["active"][0]["id"].as_str().expect("a call that runs").to_owned()
}

/// Issue 7: the agent speaks out, then the caller is connected, and the engine leaves.
async fn an_operator_sends_a_caller_to_a_person() {
    let ann = Phone::listen(tone(ANN_HZ, ms(60_000))).await;
    let (asterisk, offhook, _) = pbx(&ann).await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(AGENT_HZ, ms(200), SOON).await;
    let id = running(&offhook).await;
    let path = format!("api/v1/live/{id}/transfer");
    let (status, destinations) = offhook.request("GET", &path, TOKEN, None).await;
    assert_eq!((status, destinations), (200, json!({ "there": "People" })));
    let (status, why) = offhook.request("POST", &path, TOKEN, Some(&json!({ "destination": "elsewhere" }))).await;
    assert_eq!((status, why), (422, json!({ "error": "destination is none of this call's destinations" })));
    let (status, _) = offhook.request("POST", &path, TOKEN, Some(&json!({ "destination": "there" }))).await;
    assert_eq!(status, 202);
    caller.wait_to_hear(ANN_HZ, ms(1_000), SOON).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    offhook.wait_metric("offhook_records_total", 1.0, SOON).await;
    caller.hang_up().await;
    asterisk.wait_empty(SOON).await;
    let words = caller.heard().spans_of(AGENT_HZ)[0];
    assert!(words.length().abs_diff(ms(4_000)) <= ms(150), "the agent spoke out: {words:?}");
    offhook.wait_logged("an operator transfers the call").await;
    // Who did it, where the caller went, and that they arrived.
    let (_, record) = offhook.request("GET", &format!("api/v1/calls/{id}"), TOKEN, None).await;
    let told: Vec<_> =
        record["entries"].as_array().expect("a list").iter().filter(|entry| is_of_a_transfer(entry)).collect();
    assert_eq!((told.len(), &told[1]["event"]), (2, &json!("transferred")), "{record}");
    let sent = json!({
        "at_ms": told[0]["at_ms"], "event": "transferring", "to": "there", "by": "operator", "account": told[0]["account"],
    });
    assert!(told[0] == &sent && told[0]["account"].is_string(), "{}", told[0]);
}

fn is_of_a_transfer(entry: &Value) -> bool {
    entry["event"].as_str().is_some_and(|event| event.starts_with("transfer"))
}

/// Issue 7: both sides, as they are heard, without a trace of it in the call.
async fn an_operator_listens_to_both_sides_and_may_leave_in_the_middle() {
    let ann = Phone::listen(silence(ms(1_000))).await;
    let (asterisk, offhook, port) = pbx(&ann).await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(AGENT_HZ, ms(200), SOON).await;
    let id = running(&offhook).await;
    let address = format!("http://127.0.0.1:{port}/api/v1/live/{id}/audio");
    let mut answer = reqwest::Client::new().get(address).bearer_auth(TOKEN).send().await.expect("an answer");
    let mut wav = Vec::new();
    while wav.len() < HEAD + 2 * 4 * RATE as usize {
        let part = timeout(SOON, answer.chunk()).await.expect("sound comes in time").expect("sound comes");
        wav.extend_from_slice(&part.expect("the call goes on"));
    }
    // A browser that goes away in the middle of listening.
    drop(answer);
    let side = |offset: usize| {
        let samples = wav[HEAD..].chunks_exact(4).map(|both| i16::from_le_bytes([both[offset], both[offset + 1]]));
        Sound { samples: samples.collect() }.part(ms(500)..ms(1_800))
    };
    assert!(side(0).has_pitch(CALLER_HZ) && side(2).has_pitch(AGENT_HZ));
    caller.wait_to_hear(AGENT_HZ, ms(3_500), SOON).await;
    caller.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
    let spans = caller.heard().spans_of(AGENT_HZ);
    assert_eq!(spans.len(), 1, "the agent was heard without a gap: {spans:?}");
    offhook.wait_logged("an operator listens to the call").await;
    assert_eq!(offhook.metric("offhook_listeners_dropped_total").await, 0.0);
}

crate::scenes! {
    both:
        an_operator_sends_a_caller_to_a_person,
        an_operator_listens_to_both_sides_and_may_leave_in_the_middle;
}
