//! Digits that callers type: for the model, for tools alone, or for nobody.

use super::{Scene, Setting, TRUSTED, kind};
use crate::calls::{
    CALLER_HZ, SOON,
    kit::{
        audio::{Sound, samples_of, tone},
        mail_server::{MailServer, Manner},
        phone::Phone,
        vendor::{Order, Seen},
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

/// The tool has asked for digits and the model has put the question. The call's id.
async fn asks(scene: &Scene, tool: &str, arguments: serde_json::Value) -> String {
    let answers = scene.server.answered();
    let call = scene.server.call(tool, &arguments);
    scene.server.has_answered(answers + 1).await;
    call
}

async fn types(phone: &mut Phone, keys: &str) {
    for key in keys.chars() {
        phone.dtmf(key).await;
    }
}

/// What the model was sent of the caller so far, at 8 kHz.
fn sent(seen: &Seen) -> Sound {
    let hears = seen.set_up.as_ref().expect("it is set up").hears;
    let samples = samples_of(&seen.audio, hears).into_iter();
    Sound { samples: samples.step_by(hears.rate as usize / 8_000).collect() }
}

/// Words of the engine's that the model got.
fn told(scene: &Scene) -> String {
    scene.server.of(1, |seen| seen.texts.join("\n"))
}

/// G answer 12: what is private opens after the PIN; digits go to nobody, not even as a sound.
async fn a_pin_opens_what_is_private_and_is_told_to_nobody() {
    let mail = MailServer::start(Manner { tls: "none", ..Manner::default() }).await;
    let (scene, mut phone) = bank(&mail).await;
    scene.caller_says("What is left on my account?");
    let refused = scene.tool("balance", json!({})).await;
    assert_eq!((kind(&refused), &refused["error"]["details"]["needs"]), ("DEFERRED", &json!("authentication")));
    assert!(scene.service.requests().is_empty());

    // A caller who talks all the time, so that it can be heard when the model does not hear them. The model does not mind.
    scene.server.order(1, Order::Deaf);
    phone.say(tone(CALLER_HZ, ms(60_000))).await;
    scene.server.until_session(1, "heard the caller's voice", |seen| sent(seen).time_of(CALLER_HZ) >= ms(500)).await;
    let call = asks(&scene, "verify_pin", json!({})).await;
    let question = scene.server.of(1, |seen| seen.wishes.last().cloned().flatten());
    assert!(question.is_some_and(|text| text.contains("enter your PIN")));
    let from = scene.server.of(1, sent).length();
    for key in PIN.chars() {
        let length = scene.server.of(1, sent).length() + ms(150);
        phone.dtmf(key).await;
        scene.server.until_session(1, "heard a key's time", |seen| sent(seen).length() >= length).await;
    }
    let until = scene.server.of(1, sent).length();
    phone.dtmf('#').await;
    let output = scene.server.result_of(&call).await;
    assert_eq!((kind(&output), &output["data"]), ("OK", &json!({ "authenticated": true })));
    scene
        .server
        .until_session(1, "heard the voice again", |seen| {
            sent(seen).part(until..ms(60_000)).time_of(CALLER_HZ) >= ms(500)
        })
        .await;
    let typed = scene.server.of(1, sent).part(from + ms(100)..until);
    assert!(typed.length() >= ms(1_000), "there was time between the keys: {:?}", typed.length());
    assert!(typed.loud_spans().is_empty(), "silence while the PIN was typed: {:?}", typed.loud_spans());

    let answered = scene.tool("balance", json!({})).await;
    assert_eq!(kind(&answered), "OK", "{answered}");
    assert_eq!(scene.service.requests().len(), 1);
    scene.tool("request_transcript", json!({})).await;
    scene.ends(phone).await;
    let mail = mail.wait_taken(1, SOON).await;
    assert!(!mail[0].to_string().contains(PIN));
    assert!(!told(&scene).contains(PIN), "the provider was told");
    scene.is_private(&[PIN]).await;
}

/// G answer 12: three wrong PINs are the last; then the right one is wrong as well.
async fn three_wrong_pins_are_the_last() {
    let mail = MailServer::start(Manner { tls: "none", ..Manner::default() }).await;
    let (scene, mut phone) = bank(&mail).await;
    for (tries, pin) in [WRONG[0], WRONG[1], WRONG[2], PIN].into_iter().enumerate() {
        let call = asks(&scene, "verify_pin", json!({})).await;
        types(&mut phone, pin).await;
        phone.dtmf('#').await;
        let output = scene.server.result_of(&call).await;
        assert_eq!((kind(&output), &output["data"]), ("OK", &json!({ "authenticated": false })), "{tries}: {output}");
        scene.server.has_answered(2 * tries + 3).await;
    }
    assert_eq!(kind(&scene.tool("balance", json!({})).await), "DEFERRED");
    assert!(scene.service.requests().is_empty());
    scene.ends(phone).await;
    let told = told(&scene);
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
    let arguments = json!({ "prompt": "Ask for the customer number.", "max_digits": 8 });
    let call = asks(&scene, "collect_digits", arguments).await;
    types(&mut phone, plain).await;
    assert_eq!(scene.server.result_of(&call).await["data"], json!({ "digits": plain }));
    scene.server.has_answered(3).await;

    let call = asks(&scene, "collect_digits", json!({ "prompt": "Ask for the card.", "secure": true })).await;
    types(&mut phone, card).await;
    let output = scene.server.result_of(&call).await;
    assert_eq!(output["data"], json!({ "handle": "secure-digits-1", "count": 16 }));
    scene.server.has_answered(5).await;

    // The service repeats what it was sent, as services do.
    scene.service.answers(200, json!({ "card": card, "state": "paid" }));
    let arguments = json!({ "card": "secure-digits-1", "note": "secure-digits-1" });
    let output = scene.tool("charge", arguments).await;
    assert_eq!((kind(&output), &output["data"]["state"]), ("OK", &json!("paid")), "{output}");
    assert_eq!(scene.service.requests()[0].body, json!({ "card": card }));
    scene.ends(phone).await;
    assert!(!told(&scene).contains(card), "the provider was told");
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
