//! Every metric of the engine stands in `docs/metrics.md`, and the page is fresh.

use offhook::{
    asterisk::{ari::AriCounters, counters::MediaCounters},
    http::HttpCounters,
    mcp::McpCounters,
    outbound::{OutboundCounters, mail::MailCounters},
    provider::ProviderCounters,
    records::RecordCounters,
    remote::wards::Wards,
    speech::SpeechCounters,
    telemetry::{Metrics, reference_page},
    vam::VamCounters,
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

fn page() -> PathBuf {
    offhook_kit::project().join("docs/metrics.md")
}

/// A registry with every metric of the engine in it. Adapters add one line each.
fn everything() -> Metrics {
    let metrics = Metrics::new("<version>");
    metrics.know(["<tool>"], ["<provider>"]);
    metrics.know_price("<provider>", "<currency>");
    metrics
        .open(0, [("audiosocket_leg", 0), ("expected", 0), ("rtp_port", 0), ("unidentified", 0), ("websocket_leg", 0)]);
    metrics.ready([("ari", true), ("media", true), ("providers", true), ("accepting", true)]);
    AriCounters::new(metrics.registry()).unwrap();
    MediaCounters::new(metrics.registry()).unwrap();
    ProviderCounters::new(metrics.registry()).unwrap();
    SpeechCounters::new(metrics.registry()).unwrap();
    OutboundCounters::new(metrics.registry()).unwrap();
    MailCounters::new(metrics.registry()).unwrap();
    RecordCounters::new(metrics.registry());
    HttpCounters::new(metrics.registry());
    Wards::new(Arc::default(), metrics.registry()).ward("<section>", "<name>", "<kind>");
    VamCounters::new(metrics.registry());
    let mcp = McpCounters::new(metrics.registry());
    mcp.know_server("<server>");
    mcp.know_tool("<server>", "<tool>");
    metrics
}

#[test]
fn the_page_is_what_the_code_says() {
    let fresh = reference_page(everything().registry());
    if std::env::var_os("OFFHOOK_BLESS").is_some() {
        fs::write(page(), &fresh).unwrap();
    }
    let committed = fs::read_to_string(page()).unwrap_or_default();
    assert!(
        committed == fresh,
        "docs/metrics.md is stale: run OFFHOOK_BLESS=1 cargo test --test house metrics_reference, and commit the page"
    );
}

/// A labelled metric without children, or one whose owner is missing in `everything`, would not
/// show in the registry; its name in the source gives it away.
#[test]
fn no_metric_is_named_in_the_source_but_missing_on_the_page() {
    let page = reference_page(everything().registry());
    let mut named = BTreeSet::new();
    for folder in ["src", "tests/bench"] {
        collect_names(&offhook_kit::project().join(folder), &mut named);
    }
    assert!(named.contains("offhook_calls_total"), "the search for names finds nothing: {named:?}");
    let missing: Vec<&String> = named.iter().filter(|name| !page.contains(&format!("| `{name}` |"))).collect();
    assert!(
        missing.is_empty(),
        "make these metrics' children at the start and their owners in `everything`: {missing:?}"
    );
}

/// String literals that are exactly a metric's name.
fn collect_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_names(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let literals = source.split('"').filter(|part| part.starts_with("offhook_"));
            let is_name = |part: &&str| part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            names.extend(literals.filter(is_name).map(str::to_owned));
        }
    }
}
