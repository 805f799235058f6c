//! One agent hands the call to another: another context, another provider, another voice.

use super::{ANSWER, Scene, Setting, TENANT_TOKEN, TRUSTED, kind};
use crate::calls::{
    AGENT_HZ, SOON,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::silence,
        offhook::{Launch, Offhook, Place},
        phone::Phone,
        vendor::{OpenAi, Scenario, Vendor},
    },
    ms,
};
use serde_json::{Value, json};

const BILLING_HZ: f64 = 800.0;
/// Between two agents of this machine: the second one's connection, and a frame or two.
const DIAL_MAX: std::time::Duration = ms(600);

const TO_BILLING: &str = r#"
name: to_billing
description: Hands the call to billing.
actions: [{ type: handoff, target: billing, message: "A bill is wrong." }]
policy: { access: write, risk_domain: customer_support, standing_approval: true }
"#;

/// D3: the caller hears the first agent to its last word, then the second.
async fn the_caller_hears_the_second_agent_after_the_first() {
    for leg in ["audiosocket/slin", "rtp/ulaw"] {
        let asterisk = Asterisk::start(Options::default()).await;
        let place = Place::free();
        let yaml = format!(
            "{}default_context: front\nproviders:\n  one: {{ scripted: {{ script: [{{ tone: {{ hertz: 440, for: 1s }} }}, {{ \
             call: {{ tool: to_billing }} }}, {{ tone: {{ hertz: 600, for: 60s }} }}] }} }}\n  two: {{ scripted: {{ script: [{{ \
             tone: {{ hertz: 800, for: 60s }} }}] }} }}\ntenants: {{ acme: {{ tools: tools, trusted: true, tokens: [{TENANT_TOKEN}] }} }}\n\
             contexts:\n  front: {{ prompt: Front, provider: one, tools: [to_billing], audio: {leg} }}\n  billing: {{ prompt: \
             Bills, provider: two }}\n",
            place.yaml(Some(&asterisk)),
        );
        let files = [("tools/to_billing.yaml", TO_BILLING)];
        let offhook = Offhook::launch(place, &yaml, Launch { files: &files, ..Launch::default() }).await;
        offhook.wait_ready(true).await;
        let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
        phone.wait_to_hear(BILLING_HZ, ms(1_000), SOON).await;
        offhook.wait_active_where(|call| call["context"] == "billing", SOON).await;
        let missed = offhook.metric("offhook_slots_missed_total").await;
        phone.hang_up().await;
        let heard = phone.heard();
        let (first, second) = (heard.spans_of(AGENT_HZ), heard.spans_of(BILLING_HZ));
        assert_eq!((first.len(), second.len()), (1, 1), "{leg}: without a hole: {first:?} {second:?}");
        assert!(first[0].is_whole(ms(1_000)), "{leg}: to the last word: {first:?}");
        let gap = second[0].begin.saturating_sub(first[0].end);
        assert!(second[0].begin >= first[0].end && gap <= DIAL_MAX, "{leg}: {gap:?} between the two");
        assert!(!heard.has(600.0), "{leg}: the first agent says nothing more");
        assert_eq!(missed, 0.0, "{leg}: a frame in every slot");
        let ended = offhook.wait_ended(1, SOON).await;
        assert_eq!((&ended[0]["context"], &ended[0]["provider"]), (&json!("billing"), &json!("two")), "{leg}");
        assert_eq!(ended[0]["reason"]["label"], "caller_hung_up", "{leg}");
        asterisk.wait_empty(SOON).await;
    }
}

const CALLERS_WORDS: &str = "My bill of a purple elephant is wrong.";

/// D3: the second model knows what was said, has its own tools and no others, and the first one's session
/// is over.
async fn the_second_model_goes_on_from_where_the_first_was() {
    let billing = Vendor::start::<OpenAi>(Scenario { pitch: |_| BILLING_HZ, ..Scenario::answers(ANSWER) }).await;
    let providers = format!("  other: {}\n", billing.yaml_with(json!({ "api_key": "key-of-billing" })));
    let scene = Scene::start(Setting {
        tools: &[("to_billing", TO_BILLING), ("refund", REFUND)],
        offered: "to_billing, hangup_call",
        providers: &providers,
        contexts: "  billing: { prompt: You are billing., provider: other, tools: [refund] }\n",
        tenant: TRUSTED,
        ..Setting::default()
    })
    .await;
    let phone = scene.call("7000").await;
    scene.server.speaks_of("I see, somebody else can help.");
    scene.caller_says(CALLERS_WORDS);
    scene.server.call("to_billing", &json!({}));
    billing.has_answered(1).await;
    phone.wait_to_hear(BILLING_HZ, ms(250), SOON).await;
    scene.server.until_session(1, "is over", |seen| seen.over).await;

    let session = &billing.told(1)[0]["session"];
    let told = session["instructions"].as_str().expect("text");
    for part in ["You are billing.", "take over", "A bill is wrong.", "Agent: A tone.", "Caller: My bill of"] {
        assert!(told.contains(part), "{part:?} in {told}");
    }
    let names: Vec<&Value> = session["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["refund"]);
    let call = billing.call("to_billing", &json!({}));
    assert_eq!(kind(&billing.result_of(&call).await), "NOT_FOUND");
    // The first model's words are nobody's any more, and the caller is heard by the second.
    let heard = |vendor: &Vendor| vendor.of(1, |seen| seen.audio.len());
    let (before, since) = (heard(&scene.server), heard(&billing));
    billing.until_session(1, "heard the caller", |seen| seen.audio.len() > since + 48_000).await;
    assert_eq!(heard(&scene.server), before);
    scene.ends(phone).await;
    billing.is_content();
    scene.is_private(&[CALLERS_WORDS, "elephant", "key-of-billing", "bill is wrong"]).await;
}

/// D3: a second agent that cannot be had is an agent that is lost: the apology, and a human. It is its
/// provider that fails, not the first one's.
async fn a_second_agent_that_cannot_be_had_is_a_human() {
    let scene = Scene::start(Setting {
        tools: &[("to_billing", TO_BILLING)],
        offered: "to_billing",
        // Nobody listens on this port.
        providers: "  other: { openai_realtime: { api_key: key-of-billing, base_url: \"ws://127.0.0.1:1/\" } }\n",
        contexts: "  billing: { prompt: You are billing., provider: other }\n",
        dialplan: "[lab-callers](+)\nexten => ours,1,Stasis(offhook)\n same => n,Goto(offhook-after,s,1)\n",
        tenant: TRUSTED,
        ..Setting::default()
    })
    .await;
    // Three failures in a row rest the provider, two of a call at most. Asked after each call: it rests for some seconds.
    let mut ready = (0, String::new());
    for calls in 1..=3 {
        let mut phone = scene.call("ours").await;
        scene.server.call("to_billing", &json!({}));
        phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
        phone.hang_up().await;
        let ended = scene.offhook.wait_ended(calls, SOON).await;
        assert_eq!(ended[0]["reason"]["label"], "agent_unreachable", "{ended:?}");
        assert_eq!((&ended[0]["context"], &ended[0]["provider"]), (&json!("billing"), &json!("other")));
        ready = scene.offhook.page("ready").await;
        if ready.1.contains("1 of 2") {
            break;
        }
    }
    assert!(ready.0 == 200 && ready.1.contains("1 of 2"), "one of two providers is left: {ready:?}");
}

const REFUND: &str = r#"
name: refund
description: Pays back.
actions: [{ type: respond, message: "It is on its way." }]
policy: { access: write, risk_domain: commerce, requires_confirmation: true }
"#;

crate::scenes! {
    both:
        the_caller_hears_the_second_agent_after_the_first,
        the_second_model_goes_on_from_where_the_first_was,
        a_second_agent_that_cannot_be_had_is_a_human;
}
