//! `docs/metrics.md`, written from a registry that holds every metric.

use crate::call::EndReason;
use prometheus::{
    Registry,
    proto::{MetricFamily, MetricType},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

const HEAD: &str = "\
# Metrics

This page is generated; `OFFHOOK_BLESS=1 cargo test --test house metrics_reference` writes it anew.

`GET /metrics` (by default on `127.0.0.1:15000`) answers in Prometheus' text format. No metric holds a call's id,
a number or a word of a caller. Labels have the values listed here; `<…>` stands for names from the configuration.

| Name | Type | Labels | Meaning |
|---|---|---|---|
";

const ENDINGS: &str = "
## Why calls end

The labels `reason` and `class` of `offhook_calls_total`. The same words stand in the log line and in the record of
each call.

| Reason | Class | What happened |
|---|---|---|
";

/// The page for all metrics of `registry`. A metric without children does not appear in it.
pub fn reference_page(registry: &Registry) -> String {
    let mut page = HEAD.to_owned();
    for family in registry.gather() {
        let help = family.help();
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {help}{} |",
            family.name(),
            kind(&family),
            labels(&family),
            buckets(&family)
        );
    }
    page.push_str(ENDINGS);
    for reason in EndReason::all() {
        let _ = writeln!(page, "| `{}` | `{}` | {} |", reason.label(), reason.class().label(), reason.describe());
    }
    page
}

fn kind(family: &MetricFamily) -> &'static str {
    match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "untyped",
    }
}

fn labels(family: &MetricFamily) -> String {
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for pair in family.get_metric().iter().flat_map(|metric| metric.get_label()) {
        values.entry(pair.name()).or_default().insert(pair.value().to_owned());
    }
    let endings: BTreeSet<String> = EndReason::all().into_iter().map(EndReason::label).collect();
    let shown = values.into_iter().map(|(label, values)| {
        if values == endings {
            return format!("`{label}`: [why calls end](#why-calls-end)");
        }
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        format!("`{label}`: {}", values.join(", "))
    });
    shown.collect::<Vec<_>>().join("<br>")
}

fn buckets(family: &MetricFamily) -> String {
    if family.get_field_type() != MetricType::HISTOGRAM {
        return String::new();
    }
    let bounds = family.get_metric().first().into_iter().flat_map(|metric| metric.get_histogram().get_bucket());
    let bounds: Vec<String> = bounds.map(|bucket| bucket.upper_bound().to_string()).collect();
    format!(" Buckets: {}.", bounds.join(", "))
}
