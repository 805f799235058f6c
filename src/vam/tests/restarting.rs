//! What is kept, listed and taken away.

use super::*;
use std::{fs, os::unix::fs::PermissionsExt as _};

/// V16: a registration is there after a restart, with all that was said of it, and its tools without another word.
#[tokio::test]
async fn a_registration_survives_a_restart() {
    let address = endpoint(json!([of_registry("enam_mandi_price")])).await;
    let gateway = Gateway::new(LOCAL);
    let manifest = ActionServerManifest {
        display_name: "Market prices".into(),
        version: "2.1".into(),
        data_residency: "DATA_RESIDENCY_INDIA_ONLY".into(),
        ..manifest("market", at(address), vec![declared("enam_mandi_price", true)])
    };
    assert!(gateway.register(manifest).await.success);
    let before = gateway.servers.list("");
    assert_eq!((before[0].data_residency.as_str(), before[0].display_name.as_str()), ("IN_ONLY", "Market prices"));
    let gateway = gateway.restarted().await;
    assert_eq!(gateway.servers.list(""), before);
    assert_eq!(gateway.tools().await, ["enam_mandi_price"]);
    gateway.fleet.stop().await;
}

/// A deregistered server is in no list and in no new call, also after a restart.
#[tokio::test]
async fn a_deregistered_server_is_gone() {
    let address = endpoint(json!([tool("lookup")])).await;
    let gateway = Gateway::new(LOCAL);
    assert!(gateway.register(manifest("one", at(address), Vec::new())).await.success);
    assert_eq!(gateway.servers.deregister("two").await, Ok(false));
    assert_eq!(gateway.servers.deregister("one").await, Ok(true));
    assert_eq!(gateway.servers.deregister("one").await, Ok(false));
    assert!(gateway.servers.list("").is_empty() && gateway.fleet.is_empty());
    assert!(gateway.restarted().await.servers.list("").is_empty());
}

/// The list can be asked for one tool.
#[tokio::test]
async fn servers_are_listed_by_their_tools() {
    let (one, two) = (endpoint(json!([tool("lookup")])).await, endpoint(json!([tool("book")])).await);
    let gateway = Gateway::new(LOCAL);
    assert!(gateway.register(manifest("one", at(one), Vec::new())).await.success);
    assert!(gateway.register(manifest("two", at(two), Vec::new())).await.success);
    let ids = |tool: &str| gateway.servers.list(tool).into_iter().map(|found| found.server_id).collect::<Vec<_>>();
    assert_eq!(ids(""), ["one", "two"]);
    assert_eq!(ids("book"), ["two"]);
    assert!(ids("boo").is_empty());
    gateway.fleet.stop().await;
}

/// What the configuration does not allow any more is not started, and is there again when it does.
#[tokio::test]
async fn what_is_not_allowed_any_more_is_not_started() {
    let address = endpoint(json!([of_registry("pan_validate"), tool("lookup")])).await;
    let cleared = format!("{LOCAL}, action_servers: {{ tax: {{ high_sensitivity: true }} }}");
    let mut gateway = Gateway::new(&cleared);
    let tools = vec![declared("pan_validate", true), declared("lookup", false)];
    assert!(gateway.register(manifest("tax", at(address), tools)).await.success);
    gateway.more = LOCAL.into();
    let mut gateway = gateway.restarted().await;
    assert_eq!(gateway.tools().await, ["mcp_vam_tax_lookup"], "the operator does not vouch for it now");
    gateway.more = "allowed_hosts: []".into();
    let mut gateway = gateway.restarted().await;
    assert!(gateway.servers.servers().is_empty());
    gateway.more = cleared;
    let gateway = gateway.restarted().await;
    assert_eq!(gateway.tools().await, ["mcp_vam_tax_lookup", "pan_validate"]);
    gateway.fleet.stop().await;
}

/// The file is for the engine alone; one that is broken is told, with the remedy, and not overwritten.
#[tokio::test]
async fn the_file_is_private_and_a_broken_one_is_told() {
    let address = endpoint(json!([tool("lookup")])).await;
    let gateway = Gateway::new(LOCAL);
    assert!(gateway.register(manifest("one", at(address), Vec::new())).await.success);
    let path = gateway.servers.config().registrations.clone();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&path, "{ \"version\": 1, \"servers\": [").unwrap();
    let (fleet, counters) = (Arc::clone(&gateway.fleet), VamCounters::new(&Registry::new()));
    let error = ActionServers::open(gateway.servers.config(), fleet, counters).err().unwrap();
    assert!(error.contains("action-servers.json: EOF") && error.contains("move the file away"), "{error}");
    gateway.fleet.stop().await;
}

/// V18, V19: under a rule that keeps callers' words from where a server is, its actions are denied and nothing is sent.
#[tokio::test]
async fn calls_are_kept_from_servers_that_are_not_where_they_may_go() {
    let address = endpoint(json!([tool("lookup")])).await;
    let gateway = Gateway::new(LOCAL);
    assert!(gateway.register(manifest("one", at(address), Vec::new())).await.success);
    assert_eq!(gateway.servers.allows("vam_one", None), Some(true), "it is local");
    // The same server, found outside.
    let path = gateway.servers.config().registrations.clone();
    let outside = fs::read_to_string(&path).unwrap().replace("\"local\": true", "\"local\": false");
    fs::write(&path, outside).unwrap();
    let gateway = gateway.restarted().await;
    assert_eq!(gateway.servers.allows("vam_one", None), Some(false), "it claims nothing");
    assert_eq!(gateway.servers.allows("vam_two", None), None, "nobody is called so");
    gateway.fleet.stop().await;
}

/// Servers come and go, and their names fill no metric.
#[tokio::test]
async fn a_deregistered_server_leaves_no_metric_behind() {
    let address = endpoint(json!([tool("lookup")])).await;
    let gateway = Gateway::new(LOCAL);
    let of_server = |gateway: &Gateway| {
        let text = prometheus::TextEncoder::new().encode_to_string(&gateway.registry.gather()).unwrap();
        text.lines().filter(|line| line.contains("server=\"vam_one\"")).count()
    };
    assert!(gateway.register(manifest("one", at(address), Vec::new())).await.success);
    assert!(of_server(&gateway) > 0);
    gateway.servers.deregister("one").await.unwrap();
    assert_eq!(of_server(&gateway), 0);
}
