//! The read-back: nothing is written before the caller has said yes to it, on their own channel.

use super::{Scene, Setting, kind};
use crate::calls::{
    AGENT_HZ, SOON,
    kit::{
        phone::Phone,
        vendor::{Order, Saying},
    },
    ms,
};
use serde_json::{Value, json};
use tokio::time::Instant;

const BOOK_TABLE: &str = r#"
name: book_table
description: Books a table.
parameters:
  - { name: people, type: integer, required: true }
  - { name: day, type: string, required: true }
actions:
  - { type: api_call, url: "http://HOST/bookings", body: "{{params}}" }
on_success: [{ type: respond, message: "It is booked." }]
policy:
  { access: write, risk_domain: commerce, requires_confirmation: true, confirm_template: "Book a table for {people} on {day}?" }
"#;
const READ_BACK: &str = "I book a table for 4 people on Friday, is that right?";

fn booking() -> Value {
    json!({ "people": 4, "day": "Friday" })
}

fn with_token(output: &Value) -> Value {
    let mut arguments = booking();
    arguments["confirmationToken"] = output["error"]["confirmation_request"]["token"].clone();
    arguments
}

/// The caller has asked for a table, and the model has put the question. The output that tells it to.
async fn asked() -> (Scene, Phone, Value) {
    let tools = [("book_table", BOOK_TABLE)];
    let scene = Scene::start(Setting { tools: &tools, offered: "book_table", ..Setting::default() }).await;
    let phone = scene.call("7000").await;
    scene.caller_says("A table for four on Friday, please.");
    scene.server.speaks_of(READ_BACK);
    let output = scene.tool("book_table", booking()).await;
    assert_eq!(kind(&output), "CONFIRMATION_REQUIRED", "{output}");
    assert_eq!(output["error"]["confirmation_request"]["preview"], "Book a table for 4 on Friday?");
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    assert!(scene.service.requests().is_empty());
    (scene, phone, output)
}

/// It was done once, and not before the caller's yes.
fn done_once(scene: &Scene, yes: Instant) {
    let requests = scene.service.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].at >= yes);
    assert_eq!((&*requests[0].method, &requests[0].body), ("POST", &booking()));
}

/// P15, P answer 3, G answer 12: the model that answers its own question is asked again; a key counts, and the model, which
/// does not hear keys, is told; a yes is good for one call.
async fn a_key_of_the_caller_says_yes() {
    let (scene, mut phone, output) = asked().await;
    let echoed = scene.tool("book_table", with_token(&output)).await;
    assert_eq!(kind(&echoed), "CONFIRMATION_REQUIRED");
    assert!(scene.service.requests().is_empty(), "the model's own word is no yes");
    let (yes, answers) = (Instant::now(), scene.server.answered());
    phone.dtmf('1').await;
    scene.server.has_answered(answers + 1).await;
    let messages = scene.server.told(1);
    let told = messages.iter().rfind(|message| message["type"] == "conversation.item.create").expect("told");
    let told = told["item"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(told.contains("said yes by pressing a key"), "{told}");
    let asked = messages.last().expect("asked to go on");
    assert_eq!((&asked["type"], &asked["response"]), (&json!("response.create"), &Value::Null), "it may call the tool");

    let output = scene.tool("book_table", with_token(&echoed)).await;
    assert_eq!((kind(&output), &output["message"]), ("OK", &json!("It is booked.")));
    done_once(&scene, yes);
    let again = scene.tool("book_table", with_token(&echoed)).await;
    assert_eq!(kind(&again), "CONFIRMATION_REQUIRED", "the yes is spent");
    done_once(&scene, yes);
    let routes: Vec<Value> = scene.audits().iter().map(|audit| audit["gate_decision"].clone()).collect();
    assert_eq!(routes, ["fail", "fail", "pass", "fail"]);
    scene.ends(phone).await;
    scene.is_private(&["Friday", "table for"]).await;
}

/// P answer 3: a spoken yes in a later utterance; the model may call before the transcript is there.
async fn the_callers_own_words_say_yes() {
    let (scene, phone, output) = asked().await;
    let yes = Instant::now();
    // The model has heard the yes before it is written down.
    let says = |saying| scene.server.order(1, Order::Say(saying));
    says(Saying::CallerSpeechStarted { utterance: 2 });
    says(Saying::CallerSpeechStopped { utterance: 2 });
    let call = scene.server.call("book_table", &with_token(&output));
    says(Saying::CallerWords { utterance: 2, text: "Yes, please.".into() });
    let output = scene.server.result_of(&call).await;
    assert_eq!(kind(&output), "OK", "{output}");
    done_once(&scene, yes);
    scene.ends(phone).await;
    scene.is_private(&["Friday", "Yes, please"]).await;
}

/// P answer 3: words of the turn that led to the question, words that are neither, a no: nothing runs.
async fn without_a_yes_nothing_is_done() {
    let (scene, phone, output) = asked().await;
    for words in ["Is that by the window?", "No, thank you."] {
        scene.caller_says(words);
        let output = scene.tool("book_table", with_token(&output)).await;
        assert_eq!(kind(&output), "CONFIRMATION_REQUIRED", "{words}");
    }
    assert!(scene.service.requests().is_empty());
    scene.ends(phone).await;
}

/// P answer 3: a yes to something that the agent did not say aloud is none.
async fn a_yes_to_another_question_is_none() {
    let (scene, phone, output) = asked().await;
    scene.caller_says("Wait, stop.");
    scene.server.speaks_of("Shall I tell you of our new menu?");
    let output = scene.tool("book_table", with_token(&output)).await;
    assert_eq!(kind(&output), "CONFIRMATION_REQUIRED");
    scene.caller_says("Yes.");
    assert_eq!(kind(&scene.tool("book_table", with_token(&output)).await), "CONFIRMATION_REQUIRED");
    assert!(scene.service.requests().is_empty());
    scene.ends(phone).await;
}

crate::scenes! {
    both:
        a_key_of_the_caller_says_yes,
        the_callers_own_words_say_yes,
        without_a_yes_nothing_is_done,
        a_yes_to_another_question_is_none;
}
