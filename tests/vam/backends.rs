//! Conversations whose agents are made of services as vendors have them: a realtime one, a pipeline, and one that fails.

use super::*;
use crate::support::{
    audio::built_in_voice,
    openai_server::{Behaviour, OpenAiServer},
    stages::{Asked, Reply, Stages, model},
    vendor::{Call, Scenario},
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use offhook::audio::Format;
use tempfile::TempDir;
use tokio::join;
use uuid::Uuid;

const PRICE: &str = "enam_mandi_price";

/// A conversation of a client that runs actions, and answers the first one so.
fn talks(seconds: f64, answers: Value) -> Value {
    json!({
        "method": "Converse", "tone": 1, "silence": seconds, "answers": [answers],
        "session": {
            "session_id": Uuid::new_v4().to_string(), "auth_token": TOKEN,
            "requested_capabilities": { "action_execution": true },
            "audio_profile": { "codec": "AUDIO_CODEC_PCM_8K_16" },
        },
    })
}

/// The same, of a user with a voice, who asks something and then waits so many seconds.
fn asks_aloud(seconds: usize, answers: Value) -> Value {
    let mut samples = built_in_voice("When are you open, please?", Format::SLIN8);
    samples.resize(samples.len() + seconds * 8_000, 0);
    let packet = |frame: &[i16]| {
        let mut bytes = Vec::new();
        Format::SLIN8.encode(frame, &mut bytes);
        BASE64_STANDARD.encode(bytes)
    };
    let mut talk = talks(0.0, answers);
    talk["packets"] = samples.chunks_exact(160).map(packet).collect();
    talk
}

/// The same, of a user who ends the session with the last word.
fn asks_and_ends(answers: Value) -> Value {
    let mut talk = asks_aloud(0, answers);
    talk["end"] = true.into();
    talk
}

/// From EndSession to its answer.
fn ended_in_ms(told: &Value) -> u64 {
    told["ended_at_ms"].as_u64().unwrap() - told["end_at_ms"].as_u64().unwrap()
}

fn tells(text: &str) -> Value {
    json!([{ "status": "ACTION_STATUS_SUCCESS", "result": { "content": [{ "type": "text", "text": text }] } }])
}

/// An engine whose agent has the tool of a server that has registered.
async fn engine(folder: &TempDir, more: &str, agents: &str) -> Engine {
    let vam = format!(", sessions: {{ context: farm, hosted: india_only }}{more}");
    let engine = super::engine(folder.path(), &vam, agents).await;
    let (uri, _) = action_server().await;
    let registered = ask(&engine, None, json!([registers(&uri)])).await;
    assert_eq!(registered[0]["answer"]["success"], true, "{registered:?}");
    engine.tools_there("farm", PATIENCE).await;
    engine
}

/// One whose agent is a realtime one.
async fn realtime(folder: &TempDir, more: &str) -> (Engine, OpenAiServer) {
    let server = OpenAiServer::start(Behaviour::default()).await;
    let agents = format!(
        "providers: {{ talks: {{ openai_realtime: {} }} }}\ncontexts: {{ farm: {{ prompt: A, provider: talks, tools: [{PRICE}] }} }}\n",
        server.options()
    );
    (engine(folder, more, &agents).await, server)
}

/// What its model is told of the action that it wants once it is there.
async fn asks(server: &OpenAiServer) -> Value {
    let is_up = timeout(PATIENCE, async {
        while server.received_of("session.update").is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    is_up.await.expect("the agent is dialled");
    server.call(PRICE, &json!({ "crop": "wheat", "mandi": "Azadpur" }));
    server.wait_output(1).await
}

/// One whose agent is a pipeline, of which this is the model.
async fn pipeline(folder: &TempDir, answers: fn(&Asked) -> Reply) -> (Engine, Stages) {
    let stages = Stages::of(Scenario::default()).await;
    stages.model.answers(answers);
    let agents = format!(
        "{}providers: {{ pipes: {{ pipeline: {{ stt: one, llm: one, tts: one }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: pipes, tools: [{PRICE}], turns: {{ owner: offhook }} }} }}\n",
        Stages::sections(&[("one", &stages)])
    );
    (engine(folder, "", &agents).await, stages)
}

fn story(told: &Value) -> Vec<&str> {
    told["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect()
}

/// The order of these among all that was told.
fn in_order(told: &Value, order: &[&str]) {
    let mut events = story(told).into_iter();
    assert!(order.iter().all(|word| events.any(|event| event == *word)), "{order:?}: {told}");
}

/// V7, V24: what a client answers is told to a realtime model as the output of its function call, and the model goes on speaking.
#[tokio::test(flavor = "multi_thread")]
async fn a_realtime_model_is_told_what_a_client_found() {
    let folder = TempDir::new().unwrap();
    let (engine, server) = realtime(&folder, "").await;
    let talk = json!([talks(5.0, tells("{\"modal_price_per_quintal\": 2310}"))]);
    let (told, output) = join!(ask(&engine, None, talk), asks(&server));
    assert_eq!(output["data"]["modal_price_per_quintal"], 2310, "{output}");
    in_order(&told[0], &["THINKING", "ACTION", "audio"]);
    assert_eq!(server.violations(), Vec::<String>::new());
    engine.stop().await;
}

/// V11, V12: an action that nobody answers is told to the model as one that timed out, in these words, and it speaks on.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_told_that_an_action_timed_out() {
    let folder = TempDir::new().unwrap();
    let (engine, server) = realtime(&folder, ", action_timeout: 1s").await;
    let (told, output) = join!(ask(&engine, None, json!([talks(5.0, json!([]))])), asks(&server));
    assert_eq!(output["error"]["type"], "TIMEOUT", "{output}");
    assert!(output["error"]["message"].as_str().unwrap().contains("timed out"), "{output}");
    in_order(&told[0], &["ACTION", "LLM_BACKEND_ERROR", "audio"]);
    engine.stop().await;
}

/// V7, V24, V37, V39, V43: in a pipeline, what a client answers is the `tool` message of the model's own convention; and what the client's user
/// said is told as a final transcript.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_is_told_what_a_client_found_and_the_client_what_its_user_said() {
    let folder = TempDir::new().unwrap();
    let arguments = json!({ "crop": "wheat", "mandi": "Azadpur" });
    let (engine, stages) = pipeline(&folder, |asked| {
        if asked.number > 1 {
            return model::says("It is cheap.");
        }
        let arguments = json!({ "crop": "wheat", "mandi": "Azadpur" });
        model::calls(&[Call { id: "call_1".into(), name: PRICE.into(), arguments }])
    })
    .await;
    let talk = json!([asks_aloud(6, tells("{\"modal_price_per_quintal\": 2310}"))]);
    let told = ask(&engine, None, talk).await.remove(0);
    in_order(&told, &["THINKING", "ACTION", "audio", "THINKING", "SPEAKING", "audio"]);
    let action = told["events"].as_array().unwrap().iter().find(|event| event["event"] == "ACTION").unwrap();
    assert_eq!(action["tool_call"]["arguments"], arguments, "{told}");
    let asked = stages.model.asked().pop().unwrap();
    let (id, result) = asked.results().remove(0);
    assert!(id == "call_1" && result.contains("\"modal_price_per_quintal\":2310"), "{id}: {result}");
    let (words, events) = (&told["words"][0], told["events"].as_array().unwrap());
    let at = |event: &Value| event["at_ms"].as_u64().unwrap();
    let thinks = at(events.iter().rfind(|event| event["event"] == "THINKING").unwrap());
    let next = |name: &str, since: u64| {
        events.iter().filter(|event| event["event"] == *name).map(at).find(|at| *at >= since).unwrap()
    };
    assert!(next("SPEAKING", thinks) - thinks <= 500, "{told}");
    assert!(next("audio", at(words)) - at(words) <= 700, "{told}");
    assert_eq!(
        (&words["type"], &words["text"]),
        (&json!("TRANSCRIPT_TYPE_FINAL"), &json!("When are you open, please?"))
    );
    engine.stop().await;
}

/// V32: a model that refuses every question is the turn's ERROR.
#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_really_fails_is_told_as_an_error() {
    let folder = TempDir::new().unwrap();
    let (engine, _stages) = pipeline(&folder, |_| Reply::refuses(402, "insufficient_quota")).await;
    let told = ask(&engine, None, json!([asks_aloud(5, json!([]))])).await.remove(0);
    in_order(&told, &["LISTENING", "ERROR"]);
    engine.stop().await;
}

/// V34: words that are still with the listener when a client ends its session are told before the stream is over, and the client is
/// answered then; nothing new is begun.
#[tokio::test(flavor = "multi_thread")]
async fn words_that_are_being_written_down_when_a_session_ends_are_told() {
    let folder = TempDir::new().unwrap();
    let (engine, _stages) = pipeline(&folder, |_| model::says("It is cheap.")).await;
    let told = ask(&engine, None, json!([asks_and_ends(json!([]))])).await.remove(0);
    assert_eq!(told["words"][0]["text"], "When are you open, please?", "{told}");
    assert!(told["words"][0]["at_ms"].as_u64() >= told["end_at_ms"].as_u64(), "the session was ended before: {told}");
    assert_eq!((story(&told).last(), &told["code"]), (Some(&"END_OF_TURN"), &json!("OK")), "{told}");
    assert!(ended_in_ms(&told) < 2_000, "it is not waited for longer than for the words: {told}");
    until(&engine, "offhook_vam_flushes_cut_total 0").await;
    engine.stop().await;
}

/// V34: an action that is under way when its client ends the session gets the result that the client sends after that.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_is_under_way_when_a_session_ends_gets_its_result() {
    let folder = TempDir::new().unwrap();
    let (engine, stages) = pipeline(&folder, |asked| {
        let arguments = json!({ "crop": "wheat", "mandi": "Azadpur" });
        match asked.number {
            1 => model::calls(&[Call { id: "call_1".into(), name: PRICE.into(), arguments }]),
            _ => model::says("It is cheap."),
        }
    })
    .await;
    let mut talk = asks_aloud(1, tells("{\"modal_price_per_quintal\": 2310}"));
    (talk["end"], talk["delay"], talk["answers_after_end"]) = (true.into(), 60.into(), 1.into());
    let told = ask(&engine, None, json!([talk])).await.remove(0);
    in_order(&told, &["ACTION", "END_OF_TURN"]);
    assert!(ended_in_ms(&told) >= 1_000, "the session lasts until the answer: {told}");
    until(&engine, &format!("offhook_tool_calls_total{{outcome=\"done\",tool=\"{PRICE}\"}} 1")).await;
    until(&engine, "offhook_vam_flushes_cut_total 0").await;
    drop(stages);
    engine.stop().await;
}

/// V34, V10: one that nobody answers times out, and the client is told so before the stream is over.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_nobody_answers_times_out_before_the_session_is_over() {
    let folder = TempDir::new().unwrap();
    let (engine, _stages) = pipeline(&folder, |asked| {
        let arguments = json!({ "crop": "wheat", "mandi": "Azadpur" });
        match asked.number {
            1 => model::calls(&[Call { id: "call_1".into(), name: PRICE.into(), arguments }]),
            _ => model::says("It is cheap."),
        }
    })
    .await;
    let mut talk = asks_aloud(1, json!([]));
    talk["end"] = true.into();
    let told = ask(&engine, None, json!([talk])).await.remove(0);
    in_order(&told, &["ACTION", "LLM_BACKEND_ERROR", "END_OF_TURN"]);
    assert!((1_000..6_000).contains(&ended_in_ms(&told)), "{told}");
    engine.stop().await;
}
