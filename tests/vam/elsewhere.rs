//! Where what is said goes: nowhere that a session keeps it from, whatever a name means by then. In a network of the tests' own,
//! in which somebody outside counts who connects.

use super::*;
use crate::kit::{
    own_net::{self, Names, OUTSIDE},
    own_process,
};
use axum::{
    http::{HeaderValue, header::CONNECTION},
    middleware::map_response,
    response::Response,
};
use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicUsize, Ordering},
};
use tempfile::TempDir;
use uuid::Uuid;

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Who stands outside, and connections to it so far.
async fn outside() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((OUTSIDE, 0)).await.unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, count)
}

/// Each question is a connection of its own.
async fn closes(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A session under this rule that brings a server.
fn brings(residency: &str, uri: &str) -> Value {
    json!({ "method": "Converse", "silence": 0.2, "session": {
        "session_id": Uuid::new_v4().to_string(), "auth_token": TOKEN, "data_residency": residency,
        "metadata": { "action_servers": json!([uri]).to_string() },
    } })
}

/// V18, V19, V answer 4: under a rule that keeps it from there, nobody connects to a server outside: not by its address, not by its
/// name, and not where the name has an address here when it is looked at, and one outside when it is connected to.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_outside_is_refused_before_a_byte_leaves() {
    if !own_net::is_inside() {
        return own_net::runs(&own_process::whole_name(
            module_path!(),
            "a_server_outside_is_refused_before_a_byte_leaves",
        ));
    }
    let folder = TempDir::new().unwrap();
    let (names, (port, connections)) = (Names::serve(folder.path()), outside().await);
    let agents = "providers: { quiet: { scripted: { script: [silence] } } }\ncontexts: { farm: { prompt: A, provider: quiet } }\n";
    let engine =
        super::engine(folder.path(), ", residency: any, sessions: { context: farm, hosted: on_prem }", agents).await;
    let (address, name) = (format!("http://{OUTSIDE}:{port}/mcp"), format!("http://market.example:{port}/mcp"));
    let named = |host: &str| json!([format!("action_server_unavailable:{host}")]);
    for rule in ["DATA_RESIDENCY_ON_PREM", "DATA_RESIDENCY_INDIA_ONLY", "DATA_RESIDENCY_UNSPECIFIED"] {
        let told = ask(&engine, json!([brings(rule, &address)])).await.remove(0);
        assert_eq!(told["init"]["degraded_capabilities"], named("203.0.113.9"), "{rule}: {told}");
        for addresses in [&[OUTSIDE][..], &[HERE, OUTSIDE], &[HERE, HERE, OUTSIDE]] {
            names.are_at(addresses);
            let told = ask(&engine, json!([brings(rule, &name)])).await.remove(0);
            assert_eq!(told["init"]["degraded_capabilities"], named("market.example"), "{rule}, {addresses:?}: {told}");
            assert!(names.asked() > 0, "{addresses:?}: it is looked up here");
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0, "nobody has connected");
    ask(&engine, json!([brings("DATA_RESIDENCY_ANY", &address)])).await;
    assert_ne!(connections.load(Ordering::SeqCst), 0, "where it may go, it does");
    engine.stop().await;
}

/// V18, V answer 4: a server that is here when it registers is looked up again for each connection; when its name leads outside, in
/// the middle of a call, nothing is sent there.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_changes_its_address_is_not_followed() {
    if !own_net::is_inside() {
        return own_net::runs(&own_process::whole_name(
            module_path!(),
            "a_name_that_changes_its_address_is_not_followed",
        ));
    }
    let folder = TempDir::new().unwrap();
    let (names, (port, connections)) = (Arc::new(Names::serve(folder.path())), outside().await);
    let (router, calls) = served(true);
    let (moved, asked) = (Arc::clone(&names), Arc::clone(&calls));
    // The name moves before the first answer leaves, so the second question cannot come too early.
    let moves = move |response: Response| {
        if !asked.lock().unwrap().is_empty() {
            moved.are_at(&[OUTSIDE]);
        }
        closes(response)
    };
    let listener = TcpListener::bind((HERE, port)).await.unwrap();
    tokio::spawn(async move { axum::serve(listener, router.layer(map_response(moves))).await });
    let call = |note: &str| format!("{{ call: {{ tool: mcp_vam_market_lookup, arguments: {{ note: {note} }} }} }}");
    let agents = format!(
        "providers: {{ asks: {{ scripted: {{ script: [{}, {{ tone: {{ hertz: 440, for: 3s }} }}, {}, silence] }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [mcp_vam_market_lookup] }} }}\n\
         tools: {{ mcp_vam_market_lookup: {{ access: public_read }} }}\n",
        call("one"),
        call("two"),
    );
    let engine = super::engine(folder.path(), ", sessions: { context: farm, hosted: india_only }", &agents).await;
    names.are_at(&[HERE]);
    let uri = format!("http://market.example:{port}/mcp");
    let registered = ask(&engine, json!([registers(&uri)])).await;
    assert_eq!(registered[0]["answer"]["success"], true, "{registered:?}");
    engine.tools_there("farm", PATIENCE).await;
    let talk = json!({ "method": "Converse", "silence": 40, "session": {
        "session_id": Uuid::new_v4().to_string(), "auth_token": TOKEN,
        "audio_profile": { "codec": "AUDIO_CODEC_PCM_8K_16" },
    } });
    let both = async {
        for outcome in ["done", "transient"] {
            let line = format!("offhook_tool_calls_total{{outcome=\"{outcome}\",tool=\"mcp_vam_market_lookup\"}} 1");
            until(&engine, &line).await;
        }
    };
    tokio::select! {
        told = ask(&engine, json!([talk])) => panic!("it is over before its second question is answered: {told:?}"),
        () = both => {}
    }
    assert_eq!(calls.lock().unwrap().len(), 1, "the second question has reached nobody");
    assert!(names.asked() > 0, "it was looked up again");
    assert_eq!(connections.load(Ordering::SeqCst), 0, "nobody has connected");
    engine.stop().await;
}
