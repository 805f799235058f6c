//! Digits that callers type: for the model, for tools alone, or for nobody.

use super::{Scene, Setting, TRUSTED, kind};
use crate::calls::{
    CALLER_HZ, SOON,
    kit::{
        audio::{Sound, tone},
        mail_server::{MailServer, Manner},
        phone::Phone,
    },
    ms,
};
use serde_json::json;

const PIN: &str = "86420975";
const WRONG: [&str; 4] = ["50718293", "50718294", "50718295", "50718296"];

const BALANCE: &str = r#"
name: balance
description: Tells what is left.
actions: [{ type: api_call, url: "http://HOST/balance", method: GET }]
policy: { access: private_read, risk_domain: finance }
"#;
const CHARGE: &str = r#"
name: charge
description: Charges a card.
parameters: [{ name: card, type: string, required: true }, { name: note, type: string }]
actions: [{ type: api_call, url: "http://HOST/charges", body: { card: "{{params.card}}" }, response_path: workflow.charge }]
on_success: [{ type: respond, message: "Charged {{result.body.card}}." }]
policy: { access: write, risk_domain: commerce, standing_approval: true, secret_args: [card] }
"#;

const BANK: &str = "[lab-callers](+)\nexten => bank,1,Set(CALLER_PIN=86420975)\n same => n,Stasis(offhook)\n \
                    same => n,Hangup()\n";

/// A bank whose callers have PINs, and which mails what was said.
async fn bank(mail: &MailServer) -> (Scene, Phone) {
    let sections = format!(
        "policy: {{ identify: {{ pin_variable: CALLER_PIN }} }}\nmail: {{ server: 127.0.0.1, port: {}, tls: none, from: \
         \"offhook <offhook@example.com>\", mailboxes: {{ office: office@example.com }} }}",
        mail.port
    );
    let setting = Setting {
        tools: &[("balance", BALANCE)],
        offered: "balance, verify_pin, collect_digits, request_transcript",
        sections: &sections,
        dialplan: BANK,
        ..Setting::default()
    };
    let scene = Scene::start(setting).await;
    let phone = scene.call("bank").await;
    (scene, phone)
}

/// The tool has asked for digits and the model has put the question.
async fn asks(scene: &Scene, tool: &str, arguments: serde_json::Value) {
    let answers = scene.server.answered();
    scene.server.call(tool, &arguments);
    scene.said(answers + 1).await;
}

async fn types(phone: &mut Phone, keys: &str) {
    for key in keys.chars() {
        phone.dtmf(key).await;
    }
}

/// What the model was sent of the caller so far, at 8 kHz.
fn sent(scene: &Scene) -> Sound {
    let session = &scene.server.received_of("session.update")[0]["session"];
    let format = &session["audio"]["input"]["format"];
    assert_eq!((&format["type"], &format["rate"]), (&json!("audio/pcm"), &json!(24_000)));
    let audio = scene.server.caller_audio();
    let samples = audio.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
    Sound { samples: samples.step_by(3).collect() }
}

/// G answer 12: what is private opens after the PIN; digits go to nobody, not even as a sound.
async fn a_pin_opens_what_is_private_and_is_told_to_nobody() {
    let mail = MailServer::start(Manner { tls: "none", ..Manner::default() }).await;
    let (scene, mut phone) = bank(&mail).await;
    scene.server.hear("u1", "What is left on my account?");
    let refused = scene.tool("balance", json!({})).await;
    assert_eq!((kind(&refused), &refused["error"]["details"]["needs"]), ("DEFERRED", &json!("authentication")));
    assert!(scene.service.requests().is_empty());

    // A caller who talks all the time, so that it can be heard when the model does not hear them.
    phone.say(tone(CALLER_HZ, ms(60_000))).await;
    scene.server.wait_until("the caller's voice", |_| sent(&scene).time_of(CALLER_HZ) >= ms(500)).await;
    asks(&scene, "verify_pin", json!({})).await;
    let question = scene.server.received_of("response.create").pop().expect("asked to speak");
    assert!(question["response"]["instructions"].as_str().is_some_and(|text| text.contains("enter your PIN")));
    let from = sent(&scene).length();
    for key in PIN.chars() {
        let length = sent(&scene).length() + ms(150);
        phone.dtmf(key).await;
        scene.server.wait_until("time for a key", |_| sent(&scene).length() >= length).await;
    }
    let until = sent(&scene).length();
    phone.dtmf('#').await;
    let output = scene.server.wait_output(2).await;
    assert_eq!((kind(&output), &output["data"]), ("OK", &json!({ "authenticated": true })));
    scene
        .server
        .wait_until("the voice again", |_| sent(&scene).part(until..ms(60_000)).time_of(CALLER_HZ) >= ms(500))
        .await;
    let typed = sent(&scene).part(from + ms(100)..until);
    assert!(typed.length() >= ms(1_000), "there was time between the keys: {:?}", typed.length());
    assert!(typed.loud_spans().is_empty(), "silence while the PIN was typed: {:?}", typed.loud_spans());

    let answered = scene.tool("balance", json!({})).await;
    assert_eq!(kind(&answered), "OK", "{answered}");
    assert_eq!(scene.service.requests().len(), 1);
    scene.tool("request_transcript", json!({})).await;
    scene.ends(phone).await;
    let mail = mail.wait_taken(1, SOON).await;
    assert!(!mail[0].to_string().contains(PIN));
    assert!(!format!("{:?}", scene.server.received()).contains(PIN), "the provider was told");
    scene.is_private(&[PIN]).await;
}

/// G answer 12: three wrong PINs are the last; then the right one is wrong as well.
async fn three_wrong_pins_are_the_last() {
    let mail = MailServer::start(Manner { tls: "none", ..Manner::default() }).await;
    let (scene, mut phone) = bank(&mail).await;
    for (tries, pin) in [WRONG[0], WRONG[1], WRONG[2], PIN].into_iter().enumerate() {
        asks(&scene, "verify_pin", json!({})).await;
        types(&mut phone, pin).await;
        phone.dtmf('#').await;
        let output = scene.server.wait_output(tries + 1).await;
        assert_eq!((kind(&output), &output["data"]), ("OK", &json!({ "authenticated": false })), "{tries}: {output}");
        scene.said(2 * tries + 3).await;
    }
    assert_eq!(kind(&scene.tool("balance", json!({})).await), "DEFERRED");
    assert!(scene.service.requests().is_empty());
    scene.ends(phone).await;
    let told = format!("{:?}", scene.server.received());
    assert!(WRONG.iter().all(|pin| !told.contains(pin)));
    scene.is_private(&WRONG).await;
}

/// The model gets what was typed, or a handle that only a tool can turn into digits.
async fn collected_digits_go_to_the_model_or_to_the_tool_alone() {
    let (plain, card) = ("30517264", "4929507182934416");
    let setting = Setting {
        tools: &[("charge", CHARGE)],
        offered: "charge, collect_digits",
        tenant: TRUSTED,
        ..Setting::default()
    };
    let scene = Scene::start(setting).await;
    let mut phone = scene.call("7000").await;
    asks(&scene, "collect_digits", json!({ "prompt": "Ask for the customer number.", "max_digits": 8 })).await;
    types(&mut phone, plain).await;
    assert_eq!(scene.server.wait_output(1).await["data"], json!({ "digits": plain }));
    scene.said(3).await;

    asks(&scene, "collect_digits", json!({ "prompt": "Ask for the card.", "secure": true })).await;
    types(&mut phone, card).await;
    let output = scene.server.wait_output(2).await;
    assert_eq!(output["data"], json!({ "handle": "secure-digits-1", "count": 16 }));
    scene.said(5).await;

    // The service repeats what it was sent, as services do.
    scene.service.answers(200, json!({ "card": card, "state": "paid" }));
    let arguments = json!({ "card": "secure-digits-1", "note": "secure-digits-1" });
    let output = scene.tool("charge", arguments).await;
    assert_eq!((kind(&output), &output["data"]["state"]), ("OK", &json!("paid")), "{output}");
    assert_eq!(scene.service.requests()[0].body, json!({ "card": card }));
    scene.ends(phone).await;
    assert!(!format!("{:?}", scene.server.received()).contains(card), "the provider was told");
    let audit = scene.audits().pop().expect("a line");
    assert_eq!(audit["argument_keys"], json!(["card", "note"]));
    scene.is_private(&[plain, card]).await;
}

crate::scenes! {
    both:
        a_pin_opens_what_is_private_and_is_told_to_nobody,
        three_wrong_pins_are_the_last,
        collected_digits_go_to_the_model_or_to_the_tool_alone;
}
