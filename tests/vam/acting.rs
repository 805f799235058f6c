//! Actions that a VAM client runs itself.

use super::{
    peer::Peer,
    price::{converses, counted, engine, event, registered, registered_with, story},
    *,
};
use axum::{
    Router,
    http::{StatusCode, header::LOCATION},
    routing::post,
};
use offhook::vam::wire::{ActionResultEnvelope, ActionStatus};
use tempfile::TempDir;
use uuid::Uuid;

/// V10, V12, V answer 9, V answer 11: what is not answered in time is an error of the stream that ends nothing; answers of no action, of
/// another session and of no form are dropped and counted.
#[test]
fn an_action_that_is_not_answered_times_out_and_the_conversation_goes_on() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, ", action_timeout: 1s").await;
        registered(&engine).await;
        let success = "ACTION_STATUS_SUCCESS";
        let answers = json!([
            "garbage",
            { "status": success, "call_id": Uuid::new_v4().to_string() },
            { "status": success, "session_id": Uuid::new_v4().to_string() },
            { "status": "ACTION_STATUS_PENDING" },
        ]);
        let told = ask(&engine, json!([converses(true, 4.0, answers)])).await.remove(0);
        let error = event(&told, "LLM_BACKEND_ERROR");
        assert_eq!((&error["stage"], error["is_fatal"].as_bool()), (&json!("action"), None), "not fatal: {told}");
        assert!(story(&told).contains(&"SPEAKING"), "{told}");
        assert!(counted(&engine, "offhook_vam_results_dropped_total 3"), "{}", engine.metrics().text());
        assert!(counted(&engine, "offhook_vam_actions_timed_out_total 1"));
        engine.stop().await;
    });
}

/// V12: what comes when its time is over changes nothing any more.
#[test]
fn an_answer_that_comes_too_late_is_dropped_and_counted() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, ", action_timeout: 1s").await;
        registered(&engine).await;
        let mut talk = converses(true, 4.0, json!([{ "status": "ACTION_STATUS_SUCCESS" }]));
        talk["delay"] = json!(2);
        let told = ask(&engine, json!([talk])).await.remove(0);
        assert_eq!(story(&told).iter().filter(|event| **event == "LLM_BACKEND_ERROR").count(), 1, "{told}");
        assert!(counted(&engine, "offhook_vam_actions_timed_out_total 1"));
        assert!(counted(&engine, "offhook_vam_results_dropped_total 1"));
        engine.stop().await;
    });
}

/// V23: what another session answers settles nothing, whosever it says it is; who was asked is waited for.
#[test]
fn an_answer_of_another_session_settles_nothing() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        registered(&engine).await;
        let (mut asked, other) = (Peer::begin(&engine).await, Peer::begin(&engine).await);
        let call_id = asked.action().await.call_id;
        let answer = |session: &str| ActionResultEnvelope {
            session_id: session.to_owned(),
            call_id: call_id.clone(),
            status: ActionStatus::Success.into(),
            ..ActionResultEnvelope::default()
        };
        other.answers(answer(&other.session_id)).await;
        other.answers(answer(&asked.session_id)).await;
        until(&engine, "offhook_vam_results_dropped_total 2").await;
        // The first counts, so the second is one too many.
        asked.answers(answer(&asked.session_id)).await;
        asked.answers(answer(&asked.session_id)).await;
        until(&engine, "offhook_vam_results_dropped_total 3").await;
        assert!(counted(&engine, "offhook_vam_actions_timed_out_total 0"), "{}", engine.metrics().text());
        drop((asked, other));
        engine.stop().await;
    });
}

/// A client that vanishes in the middle of an action takes its call and the action along: nobody waits for either, and nothing that
/// others say of it counts.
#[test]
fn a_client_that_vanishes_in_the_middle_of_an_action_leaves_nothing_behind() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, ", action_timeout: 30s").await;
        registered(&engine).await;
        let mut asked = Peer::begin(&engine).await;
        let (session_id, call_id) = (asked.session_id.clone(), asked.action().await.call_id);
        drop(asked);
        until(&engine, "offhook_vam_sessions 0").await;
        until(&engine, "offhook_calls_active 0").await;
        let mut other = Peer::begin(&engine).await;
        let own = other.action().await;
        let late = ActionResultEnvelope {
            session_id,
            call_id,
            status: ActionStatus::Success.into(),
            ..ActionResultEnvelope::default()
        };
        other.answers(late.clone()).await;
        other.answers(ActionResultEnvelope { session_id: other.session_id.clone(), ..late }).await;
        until(&engine, "offhook_vam_results_dropped_total 2").await;
        assert!(counted(&engine, "offhook_vam_actions_timed_out_total 0"), "{}", engine.metrics().text());
        other
            .answers(ActionResultEnvelope {
                status: ActionStatus::Success.into(),
                session_id: other.session_id.clone(),
                call_id: own.call_id,
                ..Default::default()
            })
            .await;
        until(&engine, "offhook_tool_calls_total{outcome=\"done\",tool=\"enam_mandi_price\"} 1").await;
        engine.stop().await;
    });
}

/// A result that is too large, and an answer that comes when the time is over.
#[test]
fn a_result_of_ten_megabytes_is_an_action_that_failed_and_the_conversation_goes_on() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, ", action_timeout: 4s").await;
        registered(&engine).await;
        let text = "x".repeat(10 << 20);
        let result = json!({ "content": [{ "type": "text", "text": text }] });
        let answers = json!([{ "status": "ACTION_STATUS_SUCCESS", "result": result }]);
        let told = ask(&engine, json!([converses(true, 3.0, answers)])).await.remove(0);
        assert_eq!(told["code"], "OK", "{told}");
        assert!(story(&told).contains(&"SPEAKING"), "the agent is told before the time is over: {told}");
        assert!(!story(&told).contains(&"LLM_BACKEND_ERROR"), "{told}");
        assert!(counted(&engine, "offhook_vam_results_dropped_total 1"));
        engine.stop().await;
    });
}

/// The limit of the stream itself, which ends it, and counts.
#[test]
fn a_message_of_more_than_sixteen_megabytes_ends_the_stream() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        let mut peer = Peer::begin(&engine).await;
        let answer = ActionResultEnvelope { error_message: "x".repeat(17 << 20), ..ActionResultEnvelope::default() };
        peer.answers(answer).await;
        let end = timeout(PATIENCE, async {
            loop {
                match peer.hears.message().await {
                    Ok(Some(_)) => {}
                    end => return end,
                }
            }
        });
        let status = end.await.expect("it ends").expect_err("the client is told why");
        assert_eq!(status.code(), tonic::Code::OutOfRange, "{status}");
        until(&engine, "offhook_vam_streams_unreadable_total 1").await;
        until(&engine, "offhook_vam_sessions 0").await;
        engine.stop().await;
    });
}

/// V9: what an operator says of one tool is what its action has, to the millisecond.
#[test]
fn the_time_of_one_tool_is_the_time_of_its_action() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, " }\ntools: { enam_mandi_price: { timeout: 3s }").await;
        registered(&engine).await;
        assert_eq!(Peer::begin(&engine).await.action().await.timeout_ms, 3_000);
        engine.stop().await;
    });
}

/// V8, V25: the action is sent within 50 ms, and the answer is not spoken before the result is there. (A filler would be,
/// after 1.3 s.)
#[test]
fn the_agent_waits_for_the_result_and_then_speaks() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        registered(&engine).await;
        let result = json!({ "content": [{ "type": "text", "text": "{}" }] });
        let mut talk = converses(true, 4.0, json!([{ "status": "ACTION_STATUS_SUCCESS", "result": result }]));
        talk["delay"] = json!(1);
        let told = ask(&engine, json!([talk])).await.remove(0);
        assert!(told["spoke_after_action_ms"].as_u64().is_some_and(|spoke| spoke >= 950), "{told}");
        let sent = counted(&engine, "offhook_vam_action_emission_seconds_bucket{le=\"0.05\"} 1");
        assert!(sent, "{}", engine.metrics().text());
        engine.stop().await;
    });
}

/// V13: what nobody waits for is marked so, and its silence is no error; the agent speaks before a filler would.
#[test]
fn an_action_that_is_only_sent_off_holds_nothing_up() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, ", action_timeout: 2s }\ntools: { enam_mandi_price: { wait: false }").await;
        registered(&engine).await;
        let told = ask(&engine, json!([converses(true, 3.0, json!([]))])).await.remove(0);
        assert_eq!(event(&told, "ACTION")["fire_and_forget"], true, "{told}");
        assert!(told["spoke_after_action_ms"].as_u64().is_some_and(|spoke| spoke < 1_000), "{told}");
        assert!(story(&told).contains(&"SPEAKING") && !story(&told).contains(&"LLM_BACKEND_ERROR"), "{told}");
        engine.stop().await;
    });
}

/// V answer 1: who did not negotiate it is sent no action; the engine asks the server, as in a telephone call.
#[test]
fn a_client_that_executes_nothing_is_sent_nothing() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        let calls = registered(&engine).await;
        let told = ask(&engine, json!([converses(false, 2.5, json!([]))])).await.remove(0);
        assert!(!story(&told).contains(&"ACTION") && story(&told).contains(&"SPEAKING"), "{told}");
        assert_eq!(calls.lock().unwrap().len(), 1);
        engine.stop().await;
    });
}

/// Who is told that a server has registered may begin a session at once: its tools are there.
#[test]
fn the_next_session_has_the_tools_of_a_server_that_has_just_registered() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        let (uri, calls) = action_server().await;
        let told = ask(&engine, json!([registers(&uri), converses(false, 2.0, json!([]))])).await;
        assert_eq!((&told[0]["answer"]["success"], &told[1]["code"]), (&json!(true), &json!("OK")), "{told:?}");
        assert_eq!(calls.lock().unwrap().len(), 1, "{told:?}");
        engine.stop().await;
    });
}

/// V10, V11: whoever runs the action, that it took too long is told on the stream, and the agent goes on.
#[test]
fn an_action_that_the_engine_runs_times_out_on_the_stream_as_well() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, ", action_timeout: 1s").await;
        let calls = registered_with(&engine, server_that(false).await).await;
        let told = ask(&engine, json!([converses(false, 4.0, json!([]))])).await.remove(0);
        let error = event(&told, "LLM_BACKEND_ERROR");
        assert_eq!((&error["stage"], error["is_fatal"].as_bool()), (&json!("action"), None), "not fatal: {told}");
        assert!(story(&told).contains(&"SPEAKING"), "{told}");
        assert_eq!(calls.lock().unwrap().len(), 1);
        assert!(counted(&engine, "offhook_vam_actions_timed_out_total 1"));
        engine.stop().await;
    });
}

/// V15, V answer 5: a session brings an action server along, for its own calls; what it may not bring is named, and the session
/// opens all the same.
#[test]
fn a_session_brings_action_servers_for_its_own_calls() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (uri, calls) = action_server().await;
        let engine = engine_of_visitors(&folder, &uri).await;
        let bringing = |uris: Value| {
            let mut talk = converses(false, 2.0, json!([]));
            talk["session"]["metadata"] = json!({ "action_servers": uris.to_string() });
            talk
        };
        let hostile =
            json!(["stdio:sh", "file:///etc/passwd", "http://10.0.0.1/mcp", "http://127.0.0.1:9/mcp?key=secret", uri]);
        let told = ask(&engine, json!([bringing(hostile), converses(false, 1.0, json!([]))])).await;
        let degraded = told[0]["init"]["degraded_capabilities"].to_string();
        assert_eq!(degraded.matches("action_server_unavailable:").count(), 4, "{}", told[0]);
        assert!(degraded.contains(":10.0.0.1") && !degraded.contains("secret"), "{degraded}");
        assert_eq!(calls.lock().unwrap().len(), 1, "the session that brought it; not the next one: {told:?}");
        assert_eq!(calls.lock().unwrap()[0]["name"], "lookup");
        engine.stop().await;
    });
}

/// V15, V answer 5: a server that a session has let go is there for the next one that brings it.
#[test]
fn a_server_that_the_session_before_has_just_let_go_answers_the_one_that_brings_it_next() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (uri, calls) = action_server().await;
        let engine = engine_of_visitors(&folder, &uri).await;
        let bringing = || {
            let mut talk = converses(false, 2.0, json!([]));
            talk["session"]["metadata"] = json!({ "action_servers": json!([uri]).to_string() });
            talk
        };
        let told = ask(&engine, json!([bringing(), bringing(), bringing()])).await;
        assert!(!json!(told).to_string().contains("action_server_unavailable"), "{told:?}");
        assert_eq!(calls.lock().unwrap().len(), 3, "each session's call: {told:?}");
        assert!(counted(&engine, "offhook_vam_actions_timed_out_total 0"));
        engine.stop().await;
    });
}

/// An engine whose agent calls the tool of the server at this address, which sessions bring.
async fn engine_of_visitors(folder: &TempDir, uri: &str) -> Engine {
    let port = uri.rsplit(':').next().unwrap().trim_end_matches("/mcp");
    let tool = format!("mcp_vam_127_0_0_1_{port}_lookup");
    let agents = format!(
        "providers: {{ asks: {{ scripted: {{ script: [{{ call: {{ tool: {tool}, arguments: {{ note: hello }} }} }}, silence] }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [{tool}] }} }}\ntools: {{ {tool}: {{ access: public_read }} }}\n"
    );
    super::engine(folder.path(), ", sessions: { context: farm, hosted: india_only }", &agents).await
}

/// V answer 5: what a session brings is asked at the address that was looked at, and nowhere else.
#[test]
fn a_server_of_a_session_sends_the_engine_nowhere_else() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder, "").await;
        let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        inside.set_nonblocking(true).unwrap();
        let elsewhere = format!("http://{}/mcp", inside.local_addr().unwrap());
        for status in [StatusCode::MOVED_PERMANENTLY, StatusCode::FOUND, StatusCode::TEMPORARY_REDIRECT] {
            let answer = (status, [(LOCATION, elsewhere.clone())]);
            let router = Router::new().route("/mcp", post(|| async { answer }));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move { axum::serve(listener, router).await });
            let mut talk = converses(false, 0.5, json!([]));
            talk["session"]["metadata"] = json!({ "action_servers": format!("[\"http://{address}/mcp\"]") });
            let told = ask(&engine, json!([talk])).await.remove(0);
            assert_eq!(told["init"]["degraded_capabilities"], json!(["action_server_unavailable:127.0.0.1"]), "{told}");
            assert_eq!(inside.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody asks there");
        }
        engine.stop().await;
    });
}
