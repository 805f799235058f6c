//! Which calls have a tool, and what a model is told of its results.

use super::*;

const SUPPORT: &str = "  support: { prompt: You are a test., provider: ai, tools: [hangup_call] }\n";

/// M2, M10, M15, M42, M45: the schema is in the session of the context that lists the tool, and in no other.
/// M11, M31, M answer 7: a call from elsewhere is answered as if there were no such tool; the log and the metrics tell.
async fn a_tool_exists_only_in_the_calls_of_a_context_that_lists_it() {
    let servers = [("aviation_atis", atis("")), ("plain", faulty("plain", "", ""))];
    let offered = "hangup_call, mcp_aviation_atis, mcp_plain_echo";
    let setting = Setting { servers: &servers, offered, contexts: SUPPORT, ..Setting::default() };
    let scene = Scene::start(setting).await;

    let phone = scene.call("7000").await;
    assert_eq!(scene.shown(), ["hangup_call", "mcp_aviation_atis", "mcp_plain_echo"]);
    let schema = scene.session()["tools"].as_array().expect("tools")[1].clone();
    assert_eq!((&schema["type"], &schema["parameters"]["type"]), (&json!("function"), &json!("object")));
    assert!(schema["parameters"]["properties"]["icao"].is_object(), "{schema}");
    assert_eq!(kind(&scene.tool("mcp_plain_echo", json!({ "text": "here" })).await), "OK");
    // Its server has it, and this context does not list it.
    let not_listed = scene.tool("mcp_plain_sum", json!({ "a": 1, "b": 2 })).await;
    scene.ends(phone).await;

    let phone = scene.call("7001").await;
    assert_eq!(scene.shown(), ["hangup_call"]);
    let elsewhere = scene.tool("mcp_aviation_atis", json!({ "icao": "ENVA" })).await;
    let made_up = scene.tool("mcp_aviation_taf", json!({ "icao": "ENVA" })).await;
    assert_eq!(kind(&made_up), "NOT_FOUND");
    for refused in [&elsewhere, &not_listed] {
        assert_eq!(told(refused), told(&made_up), "nothing to probe");
    }
    scene.ends(phone).await;

    let listed = scene.lines("the agent called a tool that its context does not list");
    let tools: Vec<_> = listed.iter().map(|line| line["tool"].as_str().unwrap_or_default()).collect();
    assert_eq!(tools, ["mcp_plain_sum", "mcp_aviation_atis"]);
    assert_eq!(scene.lines("the agent called a tool that does not exist").len(), 1);
    scene.is_private(&["mcp_aviation_taf"]).await;
    for server in ["aviation_atis", "plain"] {
        assert_eq!(scene.counted(server, "rejected").await, 1.0, "{server}");
    }
    assert_eq!((scene.counted("plain", "ok").await, scene.counted("aviation_atis", "ok").await), (1.0, 0.0));
}

/// An answer as text, without the name that was asked for, which it repeats.
fn told(output: &Value) -> String {
    let text = output.to_string();
    ["mcp_plain_sum", "mcp_aviation_atis", "mcp_aviation_taf"]
        .iter()
        .fold(text, |text, name| text.replace(name, "NAME"))
}

/// M17, M20, M23, M24, M answer 9: a model gets the message whole and data up to the limit of its transport; a context may
/// have less. The caller never hears raw data.
async fn a_model_gets_the_message_and_as_much_data_as_it_may() {
    let servers = [("plain", faulty("plain", "", ""))];
    let contexts = "  support: { prompt: You are a test., provider: ai, tools: [mcp_plain_big, mcp_plain_sum], policy: { \
                    max_result_bytes: 512, forward_data: false } }\n";
    let offered = "mcp_plain_big, mcp_plain_sum, mcp_plain_picture";
    let scene = Scene::start(Setting { servers: &servers, offered, contexts, ..Setting::default() }).await;
    let phone = scene.call("7000").await;
    let small = scene.tool("mcp_plain_big", json!({ "bytes": 2000 })).await;
    assert_eq!(message(&small), "I've fetched the result.");
    assert_eq!(small["data"]["text"].as_str().map(str::len), Some(2000));
    let big = scene.tool("mcp_plain_big", json!({ "bytes": 100_000 })).await;
    assert_eq!((kind(&big), message(&big)), ("OK", "I've fetched the result."));
    assert!(big.to_string().len() <= 16_384, "{} bytes", big.to_string().len());
    assert!(!big.to_string().contains("xxxx"), "what is cut is left out");
    let picture = scene.tool("mcp_plain_picture", no_arguments()).await;
    assert_eq!(message(&picture), "a picture");
    assert!(!picture.to_string().contains("iVBOR"), "an image is told by its kind and size alone: {picture}");
    scene.ends(phone).await;

    let phone = scene.call("7001").await;
    let sum = scene.tool("mcp_plain_sum", json!({ "a": 2, "b": 3 })).await;
    assert_eq!((kind(&sum), message(&sum), &sum["data"]), ("OK", "I've fetched the result.", &Value::Null));
    let big = scene.tool("mcp_plain_big", json!({ "bytes": 100_000 })).await;
    assert!(big.to_string().len() <= 512 && message(&big) == "I've fetched the result.", "{big}");
    scene.ends(phone).await;
}

crate::scenes! {
    // MCP servers are programs of their own, which work while no clock of ours holds.
    only_real:
        a_tool_exists_only_in_the_calls_of_a_context_that_lists_it,
        a_model_gets_the_message_and_as_much_data_as_it_may;
}
