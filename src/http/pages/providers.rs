//! *Providers*: who is in use, who is left alone, how long callers wait for them, and what they cost.

use super::{
    figures,
    plot::{Bar, Plot},
    shell,
    text::{self, operations as words},
};
use crate::{
    http::{
        login::{Door, Role, Who},
        routes::Routes,
        site::App,
        view::{ProviderView, ServiceView},
    },
    telemetry::ProviderFigures,
};
use axum::{extract::State, http::Method};
use maud::{Markup, html};

pub fn add(routes: &mut Routes) {
    routes.page(Method::GET, "/providers", Door::Page(Role::Viewer), page);
}

async fn page(State(app): State<App>, who: Who) -> Markup {
    let providers = app.view.providers();
    let main = html! {
        div.title { h1 { (words::PROVIDERS) } }
        p.soft { (words::SERVICES) }
        @if providers.is_empty() { p.empty { (words::NO_PROVIDERS) } }
        @for (index, (name, provider)) in providers.iter().enumerate() { (section(index, name, provider)) }
    };
    shell::page(&who, "/providers", words::PROVIDERS, &main)
}

fn section(index: usize, name: &str, provider: &ProviderView) -> Markup {
    let (id, figures) = (format!("provider-{index}"), &provider.figures);
    let lost: u64 = figures.losses.values().sum();
    html! {
        section.provider aria-labelledby=(id) {
            div.title {
                h2 #(id) { (name) " " span.soft { (provider.kind) } }
                span.tag.(mark(provider.state)) { (words::health(provider.state)) }
            }
            dl.facts {
                div { dt { (words::CALLS_NOW) } dd { (provider.calls) } }
                div { dt { (words::ANSWERS) } dd { (figures.turns()) } }
                div { dt { (words::MEDIAN) } dd { (percentile(figures, 50.0)) } }
                div { dt { (words::P95) } dd { (percentile(figures, 95.0)) } }
                div { dt { (words::LOST_AGENTS) } dd {
                    (lost)
                    @if lost > 0 { " " span.soft { "(" (list(figures.losses.iter().map(|(why, count)| format!("{why} {count}")))) ")" } }
                } }
                div { dt { (text::CONNECTED) } dd { (figures::duration(figures.connected_seconds)) } }
                div { dt { (words::COST_SO_FAR) } dd {
                    (figures::or_dash(Some(&list(figures.costs.iter().map(|(currency, amount)| figures::money(*amount, currency))))))
                } }
                div { dt { (words::USED_BY) } dd { (figures::or_dash(Some(&used_by(provider)))) } }
                @if !provider.services.is_empty() { div.wide { dt { (words::MADE_OF) } dd { (made_of(&provider.services)) } } }
            }
            (waits(&id, figures))
        }
    }
}

/// The services of a pipeline: one that fails is left alone by itself, and the next of its section is asked.
fn made_of(services: &[ServiceView]) -> Markup {
    html! {
        @for (index, service) in services.iter().enumerate() {
            @if index > 0 { br; }
            (words::section(service.section)) " " strong { (service.name) } " " span.soft { (service.kind) } " "
            span.tag.(mark(service.state)) { (words::health(service.state)) }
        }
    }
}

/// The style of the dot.
fn mark(state: &str) -> &'static str {
    match state {
        "asked" => "normal",
        "tried" => "limit",
        _ => "provider",
    }
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn used_by(provider: &ProviderView) -> String {
    let fallbacks = provider.fallback_of.iter().map(|context| format!("{context} ({})", words::FALLBACK));
    list(provider.contexts.iter().cloned().chain(fallbacks))
}

fn percentile(figures: &ProviderFigures, percent: f64) -> String {
    if figures.turns() == 0 {
        return "–".into();
    }
    words::wait(figures.percentile(percent), longest(figures))
}

fn longest(figures: &ProviderFigures) -> f64 {
    figures.waited.iter().filter_map(|band| band.up_to_s).fold(0.0, f64::max)
}

fn waits(id: &str, figures: &ProviderFigures) -> Markup {
    let bar = |band: &crate::telemetry::Waited| Bar {
        title: words::wait(band.up_to_s, longest(figures)),
        label: band.up_to_s.map(|seconds| seconds.to_string()),
        parts: vec![("agent", band.turns as f64)],
    };
    let plot = Plot {
        id: &format!("{id}-waits"),
        title: words::HOW_LONG,
        about: words::SINCE_START,
        bars: figures.waited.iter().map(bar).collect(),
        show: &|turns| format!("{turns}"),
        legend: Vec::new(),
        heads: [words::WAIT, words::ANSWERED],
        nothing: words::NO_ANSWERS,
    };
    plot.draw()
}
