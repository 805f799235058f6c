//! Lists of tools that are long, endless, hostile, or that change.

use super::desk::*;
use crate::kit::processes::wait_gone;
use offhook::{mcp::State, telemetry::LogCapture};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// M10: of 2,000 tools, in twenty pages, as many are registered as the limit says; those that contexts list are among
/// them wherever they stand, and each of the others is told.
#[tokio::test]
async fn of_two_thousand_tools_the_listed_ones_come_first_and_the_rest_is_told() {
    let desk = Desk::open(&[("many", faulty("many", ""))]);
    let status = desk.until("many", State::Up).await;
    assert_eq!(status.tools.len(), 2000, "all pages were read");
    let offers = desk.fleet.offers(&desk.config.mcp);
    let listed = BTreeSet::from(["mcp_many_tool_1999", "mcp_many_tool_1000"]);
    let (guests, left_out) = offers[0].tools(&listed);
    let names: Vec<String> = guests.iter().map(|guest| guest.tool.spec().name).collect();
    assert_eq!(names.len(), offhook::mcp::TOOLS_MAX);
    assert_eq!(names[..3], ["mcp_many_tool_1000", "mcp_many_tool_1999", "mcp_many_echo"]);
    assert_eq!(left_out.len(), 2000 - offhook::mcp::TOOLS_MAX);
    assert!(left_out.iter().all(|out| out.reason == "the server has more than 256 tools"), "{:?}", left_out[0]);
    let (registry, _) = desk.registry_for(&["mcp_many_tool_1999"]);
    let toolbox = Arc::new(registry.toolbox(registry.names()));
    let (message, _) = done(call(&toolbox, "mcp_many_tool_1999", json!({})).await);
    assert_eq!(message, "tool_1999 called");
    desk.fleet.stop().await;
}

/// A list without an end is cut off, and the server is of use with what was read.
#[tokio::test]
async fn a_list_whose_pages_never_end_is_cut_off() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let desk = Desk::open_here(&[("endless", faulty("loop-pages", ""))]);
    let status = desk.until("endless", State::Up).await;
    assert_eq!(status.tools.len(), 64);
    let told = |line: &String| line.contains("has more than 64 pages; the rest is left out");
    assert!(capture.lines().iter().any(told));
    done(desk.call("mcp_endless_echo", json!({ "text": "Here." })).await);
    desk.fleet.stop().await;
}

/// A cursor that leads to itself: the page is not read 64 times.
#[tokio::test]
async fn a_page_that_comes_again_and_again_is_read_once() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let desk = Desk::open_here(&[("stuck", faulty("same-page", ""))]);
    let status = desk.until("stuck", State::Up).await;
    assert_eq!(status.tools.len(), 2, "{:?}", status.tools);
    let told = |line: &String| line.contains("gives the same page again and again; it is read once");
    assert!(capture.lines().iter().any(told), "{:?}", capture.lines());
    desk.fleet.stop().await;
}

/// A hundred thousand entries that are none, and 30 MB of descriptions: what is read of either is bounded, and the tool
/// before them is of use.
#[tokio::test]
async fn what_is_kept_of_a_list_is_bounded_in_number_and_size() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let desk = Desk::open_here(&[("crumbs", faulty("crumbs", "")), ("fat", faulty("fat", ""))]);
    let crumbs = desk.until("crumbs", State::Up).await;
    let fat = desk.until("fat", State::Up).await;
    assert_eq!(crumbs.tools.len(), 1);
    assert!((5..10).contains(&fat.tools.len()), "8 MiB hold eight of 1 MB: {}", fat.tools.len());
    let lines = capture.lines();
    let find = |text: &str| lines.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text}"));
    assert!(
        find("more tools of the MCP server are left out").contains("tools=2040"),
        "2048 entries, 8 told one by one"
    );
    find("its tools are more than 8388608 bytes of JSON; the rest is left out");
    let (registry, _) = desk.registry();
    for name in ["mcp_crumbs_echo", "mcp_fat_echo"] {
        done(desk.call(name, json!({ "text": "Here." })).await);
    }
    assert!(registry.spec("mcp_fat_fat_1").unwrap().description.chars().count() <= 1024);
    desk.fleet.stop().await;
}

/// M answers 3, 17: names that collide within one server leave the first, the others are told; what cannot be a name, or
/// could not be seen, is no tool; no description holds anything that cannot be seen.
#[tokio::test]
async fn hostile_names_and_descriptions_do_no_harm() {
    let desk = Desk::open(&[("hostile", faulty("hostile", ""))]);
    desk.until("hostile", State::Up).await;
    let (registry, left_out) = desk.registry();
    let names: Vec<&str> = registry.names().collect();
    assert_eq!(
        names,
        [
            "mcp_hostile_bidi",
            "mcp_hostile_call_me",
            "mcp_hostile_controls",
            "mcp_hostile_echo",
            "mcp_hostile_etc_passwd",
            "mcp_hostile_get_thing",
            "mcp_hostile_megabyte",
            "mcp_hostile_orders",
            "mcp_hostile_transfer",
            "mcp_hostile_weather_get_now",
        ]
    );
    let why = |tool: &str| left_out.iter().find(|out| out.tool == tool).map(|out| out.reason.as_str()).unwrap();
    for taken in ["get_thing", "get-thing", "Transfer"] {
        assert!(
            why(taken).starts_with("another tool of the server \"hostile\" has the name \"mcp_hostile_"),
            "{taken}"
        );
    }
    assert!(why("📞").contains("set expose_as"), "{}", why("📞"));
    for name in names {
        let description = &registry.spec(name).unwrap().description;
        let seen = |c: char| !c.is_control() && !"\u{202e}\u{202c}\u{2066}\u{2069}\u{200b}".contains(c);
        assert!(description.chars().all(seen) && description.chars().count() <= 1024, "{name}: {description:?}");
    }
    // Whose name it is is not settled by what reads the same.
    let (message, _) = done(desk.call("mcp_hostile_get_thing", json!({})).await);
    assert_eq!(message, "getThing called");
    desk.fleet.stop().await;
}

/// M16, M answer 3: two servers with one name: the first stays, and the other's tool is told with both.
#[tokio::test]
async fn of_two_servers_with_one_name_the_first_stays() {
    let rules = ", tools: [{ name: echo, expose_as: say }, { name: pid }]";
    let other = ", tools: [{ name: pid, expose_as: mcp_a_pid2 }]";
    let desk = Desk::open(&[("a", faulty("plain", rules)), ("b", faulty("plain", other))]);
    desk.until("a", State::Up).await;
    desk.until("b", State::Up).await;
    let (registry, left_out) = desk.registry();
    assert_eq!(registry.names().collect::<Vec<_>>(), ["mcp_a_pid", "mcp_a_pid2", "say"]);
    assert_eq!(left_out, []);
    desk.fleet.stop().await;

    // `b-pid` of `a` and `pid` of `a_b`, which no file shows.
    let desk = Desk::open(&[("a", faulty("twin", "")), ("a_b", faulty("plain", ""))]);
    desk.until("a", State::Up).await;
    desk.until("a_b", State::Up).await;
    let (registry, left_out) = desk.registry();
    assert_eq!(registry.spec("mcp_a_b_pid").unwrap().executor.server(), Some("a"));
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert_eq!((left_out[0].server.as_str(), left_out[0].tool.as_str()), ("a_b", "pid"));
    assert_eq!(left_out[0].reason, "another tool of the server \"a\" has the name \"mcp_a_b_pid\"");
    desk.fleet.stop().await;
}

/// M answer 17: a schema that is none, leads elsewhere or has no floor is left out with its place; the tools beside it stay.
#[tokio::test]
async fn a_schema_that_cannot_be_used_costs_its_own_tool() {
    let abyss = faulty("abyss", ", restart: { enabled: false }");
    let desk = Desk::open(&[("odd", faulty("schemas", "")), ("abyss", abyss)]);
    desk.until("odd", State::Up).await;
    // Nothing that parses JSON in bounded space reads a list with this in it.
    let why = desk.until("abyss", State::Down).await.last_error.unwrap();
    assert!(why.contains("nested deeper than 120 levels"), "{why}");
    let (registry, left_out) = desk.registry();
    let names: Vec<&str> = registry.names().collect();
    assert!(names.contains(&"mcp_odd_echo") && names.contains(&"mcp_odd_recursive_ref"), "{names:?}");
    let why = |tool: &str| left_out.iter().find(|out| out.tool == tool).map(|out| out.reason.clone()).unwrap();
    assert!(why("remote-ref").contains("leads outside the tool"), "{}", why("remote-ref"));
    assert!(why("not-an-object").contains("inputSchema.type"), "{}", why("not-an-object"));
    assert!(why("deep").contains("nested deeper"), "{}", why("deep"));
    desk.fleet.stop().await;
}

/// M answer 17: a list that changes is read again for who comes then; who holds tools keeps those, and they still work.
#[tokio::test]
async fn a_changed_list_is_for_new_calls_and_a_held_toolbox_stays() {
    let desk = Desk::open(&[("plain", faulty("plain", ""))]);
    desk.until("plain", State::Up).await;
    let mut changes = desk.fleet.changes();
    // A status shows that the server is up before its tools are told.
    tokio::time::timeout(PATIENCE, changes.wait_for(|version| *version > 0))
        .await
        .expect("its tools are told")
        .unwrap();
    let held = desk.toolbox();
    done(call(&held, "mcp_plain_grow", json!({})).await);
    desk.when("plain", "grown", |status| status.tools.iter().any(|tool| tool.name == "grown")).await;
    tokio::time::timeout(PATIENCE, changes.changed()).await.expect("new calls are told").unwrap();
    assert!(!held.has("mcp_plain_grown") && desk.toolbox().has("mcp_plain_grown"));
    done(call(&held, "mcp_plain_echo", json!({ "text": "Still." })).await);
    let (message, _) = done(desk.call("mcp_plain_grown", json!({})).await);
    assert_eq!(message, "grown called");
    desk.fleet.stop().await;
    let pid = |event: &Value| event["pid"].clone();
    assert_eq!(desk.events("start").len(), 1, "{:?}", desk.events("start").iter().map(pid).collect::<Vec<_>>());
}

/// A list that is said to have changed and never comes is waited for by nobody: not by calls, and not by who stops it.
#[tokio::test]
async fn a_changed_list_that_never_comes_holds_up_nobody() {
    let desk = Desk::open(&[("plain", faulty("plain", ", defaults: { start_timeout_ms: 60000 }"))]);
    desk.until("plain", State::Up).await;
    done(desk.call("mcp_plain_close_list", json!({})).await);
    // Longer than the gap between two looks at a list: it has been asked for.
    done(desk.call("mcp_plain_sleep", json!({ "seconds": 2.5 })).await);
    assert_eq!(desk.status("plain").tools.len(), 15, "those before stay");
    done(desk.call("mcp_plain_echo", json!({ "text": "Still." })).await);
    tokio::time::timeout(PATIENCE, desk.fleet.stop()).await.expect("it is stopped in bounded time");
    wait_gone(pid(&desk.events("start")[0]), PATIENCE).await;
}
