//! The dashboards as they are committed, and what their queries name.

use crate::kit::project;
use regex::Regex;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::LazyLock,
};

pub fn read(path: &str) -> String {
    fs::read_to_string(project().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(project().join("grafana/dashboards")).expect("a committed folder");
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Each with the name of its file.
pub fn all() -> Vec<(String, Value)> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a committed file");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        (name, serde_json::from_str(&text).expect("JSON"))
    };
    files().into_iter().map(read).collect()
}

/// A list in the JSON.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The panels that show something.
pub fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    list(&dashboard["panels"]).iter().filter(|panel| panel["type"] != "row")
}

/// Something that a dashboard asks Prometheus.
#[derive(Debug)]
pub struct Query {
    /// Dashboard and panel.
    pub place: String,
    pub expression: String,
    /// Asked for one moment, not for a course.
    pub instant: bool,
    /// Labels that the legend shows.
    pub shown: Vec<String>,
}

/// Every query of every dashboard: panels, choices above them, marks on the time axis.
pub fn queries() -> Vec<Query> {
    let shown = Regex::new(r"\{\{(\w+)\}\}").expect("a good expression");
    let shown = |legend: &Value| shown.captures_iter(text(legend)).map(|found| found[1].to_owned()).collect();
    let choice = Regex::new(r"^label_values\((\w+), (\w+)\)$").expect("a good expression");
    let mut all = Vec::new();
    for (file, dashboard) in self::all() {
        for panel in panels(&dashboard) {
            for target in list(&panel["targets"]) {
                all.push(Query {
                    place: format!("{file}, {}", panel["title"]),
                    expression: text(&target["expr"]).to_owned(),
                    instant: target["instant"] == true,
                    shown: shown(&target["legendFormat"]),
                });
            }
        }
        for annotation in list(&dashboard["annotations"]["list"]) {
            all.push(Query {
                place: format!("{file}, mark {}", annotation["name"]),
                expression: text(&annotation["target"]["expr"]).to_owned(),
                instant: false,
                shown: shown(&annotation["titleFormat"]),
            });
        }
        for variable in list(&dashboard["templating"]["list"]).iter().filter(|variable| variable["type"] == "query") {
            let query = text(&variable["query"]["query"]);
            let found = choice.captures(query).unwrap_or_else(|| panic!("{file}: not a choice of labels: {query}"));
            all.push(Query {
                place: format!("{file}, choice {}", variable["name"]),
                expression: format!("group by ({}) ({})", &found[2], &found[1]),
                instant: true,
                shown: vec![found[2].to_owned()],
            });
        }
    }
    all
}

/// The names of metrics in `docs/metrics.md`, which is written from the code, with their types.
static METRICS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let row = Regex::new(r"(?m)^\| `(\w+)` \| (counter|gauge|histogram) \|").expect("a good expression");
    row.captures_iter(&read("docs/metrics.md")).map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
});
static WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{)?"#).expect("a good expression"));
static QUOTED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""[^"]*""#).expect("a good expression"));

pub fn metrics() -> &'static BTreeMap<String, String> {
    &METRICS
}

/// The metrics that an expression is about: what looks like one of ours, and whatever has a selector. The parts of a
/// histogram count as the histogram.
pub fn named(expression: &str) -> BTreeSet<String> {
    let expression = QUOTED.replace_all(expression, "\"\"");
    let ours = |name: &str| ["offhook_", "ai_agent_", "process_"].iter().any(|prefix| name.starts_with(prefix));
    let found = WORD.captures_iter(&expression);
    let found = found.filter(|found| found.get(2).is_some() || ours(&found[1])).map(|found| found[1].to_owned());
    let metrics = metrics();
    let whole = |name: String| {
        let mut parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
        let histogram = parts.find(|base| metrics.get(*base).is_some_and(|kind| kind == "histogram"));
        histogram.map_or_else(|| name.clone(), str::to_owned)
    };
    found.map(whole).collect()
}
