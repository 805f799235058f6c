//! Conversations whose agents are made of services as vendors have them: a realtime one, a pipeline, and one that fails.

use super::{peer::Peer, *};
use crate::kit::{
    audio::built_in_voice,
    stages::{Asked, Reply, SCRIBES, Stages, Transcriber, model, voice},
    vendor::{Call, OpenAi, Scenario, Vendor},
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use offhook::{audio::Format, vam::wire::ActionRequestEnvelope};
use tempfile::TempDir;
use tokio::join;
use uuid::Uuid;

const PRICE: &str = "enam_mandi_price";
const LOOKUP: &str = "mcp_vam_market_lookup";
const QUESTION: &str = "When are you open, please?";

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

/// The same, of a user with a voice, who listens for so many seconds, asks something, and waits so many.
fn asks_aloud(first: usize, seconds: usize, answers: Value) -> Value {
    let mut samples = vec![0; first * 8_000];
    samples.extend(built_in_voice(QUESTION, Format::SLIN8));
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
    let mut talk = asks_aloud(0, 0, answers);
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
    let registered = ask(&engine, json!([registers(&uri)])).await;
    assert_eq!(registered[0]["answer"]["success"], true, "{registered:?}");
    engine.tools_there("farm", PATIENCE).await;
    engine
}

/// One whose agent is a realtime one.
async fn realtime(folder: &TempDir, more: &str) -> (Engine, Vendor) {
    let server = Vendor::start::<OpenAi>(Scenario::default()).await;
    let agents = format!(
        "providers: {{ talks: {} }}\ncontexts: {{ farm: {{ prompt: A, provider: talks, tools: [{PRICE}] }} }}\n",
        server.yaml()
    );
    (engine(folder, more, &agents).await, server)
}

/// What its model is told of the action that it wants once it is there.
async fn asks(server: &Vendor) -> Value {
    server.until_session(1, "is set up", |seen| seen.set_up.is_some()).await;
    server.result_of(&server.call(PRICE, &json!({ "crop": "wheat", "mandi": "Azadpur" }))).await
}

/// One whose agent is a pipeline, of which this is the model.
async fn pipeline(folder: &TempDir, answers: fn(&Asked) -> Reply) -> (Engine, Stages) {
    let stages = Stages::of(Scenario::default()).await;
    stages.model.answers(answers);
    let agents = format!(
        "{}providers: {{ pipes: {{ pipeline: {{ stt: one, llm: one, tts: one }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: pipes, tools: [{PRICE}, {LOOKUP}], turns: {{ owner: offhook }} }} }}\n\
         tools: {{ {LOOKUP}: {{ access: public_read }} }}\n",
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
#[test]
fn a_realtime_model_is_told_what_a_client_found() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, server) = realtime(&folder, "").await;
        let talk = json!([talks(5.0, tells("{\"modal_price_per_quintal\": 2310}"))]);
        let (told, output) = join!(ask(&engine, talk), asks(&server));
        assert_eq!(output["data"]["modal_price_per_quintal"], 2310, "{output}");
        in_order(&told[0], &["THINKING", "ACTION", "audio"]);
        server.is_content();
        engine.stop().await;
    });
}

/// V11, V12: an action that nobody answers is told to the model as one that timed out, in these words, and it speaks on.
#[test]
fn a_model_is_told_that_an_action_timed_out() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, server) = realtime(&folder, ", action_timeout: 1s").await;
        let (told, output) = join!(ask(&engine, json!([talks(5.0, json!([]))])), asks(&server));
        assert_eq!(output["error"]["type"], "TIMEOUT", "{output}");
        assert!(output["error"]["message"].as_str().unwrap().contains("timed out"), "{output}");
        in_order(&told[0], &["ACTION", "LLM_BACKEND_ERROR", "audio"]);
        engine.stop().await;
    });
}

/// V7, V24, V37, V39, V43: in a pipeline, what a client answers is the `tool` message of the model's own convention; and what the client's user
/// said is told as a final transcript.
#[test]
fn a_pipeline_is_told_what_a_client_found_and_the_client_what_its_user_said() {
    virtual_time::run(|| async {
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
        let talk = json!([asks_aloud(2, 6, tells("{\"modal_price_per_quintal\": 2310}"))]);
        let told = ask(&engine, talk).await.remove(0);
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
        assert_eq!((&words["type"], &words["text"]), (&json!("TRANSCRIPT_TYPE_FINAL"), &json!(QUESTION)));
        engine.stop().await;
    });
}

/// V32: a model that refuses every question is the turn's ERROR.
#[test]
fn a_backend_that_really_fails_is_told_as_an_error() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, _stages) = pipeline(&folder, |_| Reply::refuses(402, "insufficient_quota")).await;
        let told = ask(&engine, json!([asks_aloud(0, 5, json!([]))])).await.remove(0);
        in_order(&told, &["LISTENING", "ERROR"]);
        engine.stop().await;
    });
}

/// A model that wants an action first, and then speaks of what came of it.
fn asks_for_the_price(asked: &Asked) -> Reply {
    let arguments = json!({ "crop": "wheat", "mandi": "Azadpur" });
    match asked.number {
        1 => model::calls(&[Call { id: "call_1".into(), name: PRICE.into(), arguments }]),
        _ => model::says("It is cheap."),
    }
}

/// V34: words that are still with the listener when a client ends its session are told before the stream is over, and the client is
/// answered then; nothing new is begun.
#[test]
fn words_that_are_being_written_down_when_a_session_ends_are_told() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, _stages) = pipeline(&folder, |_| model::says("It is cheap.")).await;
        let told = ask(&engine, json!([asks_and_ends(json!([]))])).await.remove(0);
        assert_eq!(told["words"][0]["text"], "When are you open, please?", "{told}");
        assert!(
            told["words"][0]["at_ms"].as_u64() >= told["end_at_ms"].as_u64(),
            "the session was ended before: {told}"
        );
        assert_eq!((story(&told).last(), &told["code"]), (Some(&"END_OF_TURN"), &json!("OK")), "{told}");
        assert!(ended_in_ms(&told) < 2_000, "it is not waited for longer than for the words: {told}");
        until(&engine, "offhook_vam_flushes_cut_total 0").await;
        engine.stop().await;
    });
}

/// V34: an action that is under way when its client ends the session gets the result that the client sends after that.
#[test]
fn an_action_that_is_under_way_when_a_session_ends_gets_its_result() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, stages) = pipeline(&folder, asks_for_the_price).await;
        let mut talk = asks_aloud(0, 1, tells("{\"modal_price_per_quintal\": 2310}"));
        (talk["end"], talk["delay"], talk["answers_after_end"]) = (true.into(), 60.into(), 1.into());
        let told = ask(&engine, json!([talk])).await.remove(0);
        in_order(&told, &["ACTION", "END_OF_TURN"]);
        assert!(ended_in_ms(&told) >= 1_000, "the session lasts until the answer: {told}");
        until(&engine, &format!("offhook_tool_calls_total{{outcome=\"done\",tool=\"{PRICE}\"}} 1")).await;
        until(&engine, "offhook_vam_flushes_cut_total 0").await;
        drop(stages);
        engine.stop().await;
    });
}

/// V34, V10: the client is told of the timeout before its stream is over.
#[test]
fn an_action_that_nobody_answers_times_out_before_the_session_is_over() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, _stages) = pipeline(&folder, asks_for_the_price).await;
        let mut talk = asks_aloud(0, 1, json!([]));
        talk["end"] = true.into();
        let told = ask(&engine, json!([talk])).await.remove(0);
        in_order(&told, &["ACTION", "LLM_BACKEND_ERROR", "END_OF_TURN"]);
        assert!((1_000..6_000).contains(&ended_in_ms(&told)), "{told}");
        engine.stop().await;
    });
}

/// What a client is told whose user asks a pipeline something, of which this service fails so, the first time that an answer needs
/// it or always. The greeting is the voice's first clause, and nobody else's. Another recogniser is there where the first fails. No
/// filler is said meanwhile.
async fn fails(stage: &'static str, always: bool, how: fn() -> Reply) -> Value {
    let of = Scenario::default;
    let (stages, other) = match stage {
        "asr" => join!(Stages::asking(SCRIBES[0], of()), Stages::start()),
        // Its words come with the end of a turn and not before, so no answer is begun in vain.
        _ => join!(Stages::listening::<Transcriber>(of()), Stages::start()),
    };
    let now = move |asked: &Asked, before: usize| asked.number > before && (always || asked.number == before + 1);
    match stage {
        "asr" => stages.scribe.answers(move |_| how()),
        "llm" => stages.model.answers(move |asked| if now(asked, 0) { how() } else { model::says("At nine.") }),
        _ => stages.voice.answers(move |asked| match now(asked, 1) {
            true => how(),
            false => voice::speaks(asked, 440.0, Duration::from_millis(600)),
        }),
    }
    let folder = TempDir::new().unwrap();
    let heard_by = if always { "[one]" } else { "[one, two]" };
    let agents = format!(
        "{}providers: {{ pipes: {{ pipeline: {{ stt: {heard_by}, llm: one, tts: one }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, greeting: Hello., provider: pipes, tools: [{PRICE}], turns: {{ owner: offhook }}, \
         limits: {{ quiet: 5s }} }} }}\n",
        Stages::sections(&[("one", &stages), ("two", &other)])
    );
    let engine = engine(&folder, "", &agents).await;
    let told = ask(&engine, json!([asks_aloud(2, 7, json!([]))])).await.remove(0);
    engine.stop().await;
    told
}

/// The way through the user's turn, in which this service fails once: its error, which can come while the end of the turn is not
/// sure yet; and then the answer all the same, and the next turn.
async fn is_told(stage: &'static str, code: &str, how: fn() -> Reply) {
    let told = fails(stage, false, how).await;
    let story = story(&told).join(" ");
    let (before, after) = story.split_once(&format!(" {code} ")).unwrap_or_else(|| panic!("no {code}: {told}"));
    let turn = "IDLE LISTENING THINKING SPEAKING audio END_OF_TURN LISTENING";
    let thinks = before.strip_prefix(turn).unwrap_or_else(|| panic!("it is of the greeting: {told}"));
    let rest = match (stage, thinks) {
        ("asr", "" | " THINKING") => "ERROR LISTENING THINKING ",
        (_, "") => "THINKING ",
        (_, " THINKING") => "",
        _ => panic!("{thinks}: {told}"),
    };
    assert_eq!(after, format!("{rest}SPEAKING audio END_OF_TURN LISTENING END_OF_TURN"), "{told}");
    let errors = told["events"].as_array().unwrap().iter().filter(|event| event["code"].is_string());
    let [error] = &errors.collect::<Vec<_>>()[..] else { panic!("it is told once: {told}") };
    assert_eq!((&error["stage"], &error["is_fatal"]), (&json!(stage), &Value::Null), "{told}");
    assert_eq!(error["code"], format!("STREAM_ERROR_CODE_{code}"));
    assert_eq!(told["code"], "OK");
}

/// V32: a recogniser that fails, or does not answer in time, is its stage's error, and the turn's ERROR; another one is asked, and
/// the user answered.
#[test]
fn a_recogniser_that_fails_is_told_and_the_user_is_answered() {
    virtual_time::run(|| async {
        let refuses = || Reply::refuses(500, "server_error");
        join!(is_told("asr", "ASR_BACKEND_ERROR", refuses), is_told("asr", "ASR_BACKEND_TIMEOUT", Reply::stalls));
    });
}

/// V32: like a recogniser that fails.
#[test]
fn a_model_that_fails_is_told_and_the_user_is_answered() {
    virtual_time::run(|| async {
        let refuses = || Reply::refuses(500, "server_error");
        join!(is_told("llm", "LLM_BACKEND_ERROR", refuses), is_told("llm", "LLM_BACKEND_TIMEOUT", Reply::stalls));
    });
}

/// V32: like a recogniser or a model that fails.
#[test]
fn a_voice_that_fails_is_told_and_the_user_is_answered() {
    virtual_time::run(|| async {
        let refuses = || Reply::refuses(500, "server_error");
        join!(is_told("tts", "TTS_BACKEND_ERROR", refuses), is_told("tts", "TTS_BACKEND_TIMEOUT", Reply::stalls));
    });
}

/// V32: what fails for good is fatal, by the stage that failed; the apology is heard, and the call ends.
#[test]
fn a_service_that_fails_for_good_is_fatal_by_its_stage() {
    virtual_time::run(|| async {
        let for_good = async |stage: &'static str, code: &str| {
            let told = fails(stage, true, || Reply::refuses(402, "insufficient_quota")).await;
            let events = told["events"].as_array().unwrap();
            let fatal: Vec<&Value> = events.iter().filter(|event| event["is_fatal"] == true).collect();
            assert_eq!(fatal.len(), 1, "{told}");
            assert_eq!((&fatal[0]["stage"], &fatal[0]["event"]), (&json!(stage), &json!(code)), "{told}");
            in_order(&told, &["LISTENING", code, "ERROR", "SPEAKING", "audio", "END_OF_TURN"]);
            assert!(
                events.iter().filter(|event| event["code"].is_string()).all(|event| event["stage"] == stage),
                "{told}"
            );
        };
        join!(
            for_good("asr", "ASR_BACKEND_ERROR"),
            for_good("llm", "LLM_BACKEND_ERROR"),
            for_good("tts", "TTS_BACKEND_ERROR")
        );
    });
}

/// V23, V answer 14: two actions that are wished in one turn are both asked for before either is answered; whatever comes first,
/// each result is the model's of the call that it belongs to, nothing is said before both are there, and what is said has both.
#[test]
fn two_actions_of_one_turn_run_at_once_and_the_answer_has_both() {
    virtual_time::run(|| async {
        for reversed in [false, true] {
            let folder = TempDir::new().unwrap();
            let (engine, stages) = pipeline(&folder, |asked| {
                let results = asked.results();
                if results.is_empty() {
                    let call = |id: &str, name: &str, arguments| Call { id: id.into(), name: name.into(), arguments };
                    let wheat = call("call_wheat", PRICE, json!({ "crop": "wheat", "mandi": "Azadpur" }));
                    return model::calls(&[wheat, call("call_rain", LOOKUP, json!({ "note": "rain" }))]);
                }
                let found = |id: &str, word: &str| results.iter().any(|(of, told)| of == id && told.contains(word));
                match found("call_wheat", "2310") && found("call_rain", "tomorrow") {
                    true => model::says("It is 2310 and rains tomorrow."),
                    false => model::says("I do not know."),
                }
            })
            .await;
            let mut peer = Peer::begin(&engine).await;
            let mut asked = [peer.action().await, peer.action().await];
            let name = |asked: &ActionRequestEnvelope| asked.tool_call.as_ref().unwrap().tool_name.clone();
            asked.sort_by_key(name);
            assert_eq!(asked.each_ref().map(name), [PRICE, "lookup"]);
            assert!(asked[0].call_id != asked[1].call_id && asked[0].turn_id == asked[1].turn_id);
            let found = ["{\"modal_price_per_quintal\": 2310}", "{\"rain\": \"tomorrow\"}"];
            let order = if reversed { [1, 0] } else { [0, 1] };
            peer.finds(&asked[order[0]].call_id, found[order[0]]).await;
            let tool = [PRICE, LOOKUP][order[0]];
            until(&engine, &format!("offhook_tool_calls_total{{outcome=\"done\",tool=\"{tool}\"}} 1")).await;
            assert_eq!((stages.model.times(), stages.voice.times()), (1, 0), "the other one is waited for");
            peer.finds(&asked[order[1]].call_id, found[order[1]]).await;
            peer.sound().await;
            assert_eq!(stages.model.times(), 2, "{:?}", stages.model.asked());
            let said: Vec<String> = stages.voice.asked().iter().map(|asked| asked.text().to_owned()).collect();
            assert_eq!(said.join(" "), "It is 2310 and rains tomorrow.");
            engine.stop().await;
        }
    });
}
