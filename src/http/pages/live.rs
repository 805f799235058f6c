//! *Live*: is it ready, who is on the line, and why did the last calls end.

use super::{figures, shell, text};
use crate::{
    http::{
        api::{
            live::{Live, Shape, Snapshots},
            watch,
        },
        login::{Door, Role, Who},
        routes::Routes,
        site::App,
        view::{ActiveCall, EndedCall, Readiness},
    },
    records::Counts,
};
use axum::{
    extract::{RawQuery, State},
    http::Method,
    response::Response,
};
use maud::{Markup, html};

pub fn add(routes: &mut Routes) {
    routes.page(Method::GET, "/", Door::Page(Role::Viewer), page);
    routes.page(Method::GET, "/stream", Door::Page(Role::Viewer), stream);
}

/// Running calls that the page shows at once: a screen or two, whose drawing nobody waits for.
const PART: usize = 50;

/// `?part=2`: those after the first of them. What does not exist any more is the last that does.
fn part(query: Option<&str>) -> u16 {
    query.and_then(|query| query.strip_prefix("part=")?.parse().ok()).unwrap_or(1)
}

async fn page(State(app): State<App>, who: Who, RawQuery(query): RawQuery) -> Markup {
    let part = part(query.as_deref());
    let main = html! {
        div.title {
            h1 { (text::LIVE) }
            (freshness())
        }
        noscript { p.notice { (text::NO_SCRIPT) " " a href="/" { (text::RELOAD) } } }
        div #live data-stream={ "/stream?part=" (part) } { (view(&app, who.may(Role::Operator), part)) }
    };
    shell::page(&who, "/", text::LIVE, &main)
}

/// Whether the page is up to date, on those that keep themselves so.
pub fn freshness() -> Markup {
    html! {
        p.link #link role="status" data-up=(text::UPDATING) data-lost=(text::LOST) data-over=(text::LOGGED_OUT) data-log-in=(text::LOG_IN) {}
    }
}

/// The part of the page that changes, whenever it does.
async fn stream(State(app): State<App>, who: Who, RawQuery(query): RawQuery) -> Response {
    let shape = Shape::Page { operator: who.may(Role::Operator), part: part(query.as_deref()) };
    watch(app, who, Snapshots { shape, make: told, last: "".into() })
}

fn told(app: &App, shape: Shape) -> String {
    match shape {
        Shape::Page { operator, part } => in_json(&view(app, operator, part)),
        Shape::Json { .. } => String::new(),
    }
}

/// Lines end events, so markup travels as a text of JSON.
pub fn in_json(markup: &Markup) -> String {
    serde_json::to_string(&markup.0).unwrap_or_default()
}

fn view(app: &App, operator: bool, part: u16) -> Markup {
    let live = Live::now(app, operator);
    let linked = app.history.is_some();
    html! {
        (checks(&live.checks))
        section aria-labelledby="running" {
            div.title {
                h2 #running { (text::RUNNING) }
                p.count role="status" { (text::running(live.active.len())) }
            }
            @if live.active.is_empty() { p.empty { (text::NOBODY) } } @else { (running(&live.active, operator, part)) }
        }
        section aria-labelledby="ended" {
            h2 #ended { (text::ENDED) }
            @if live.recent.is_empty() { p.empty { (text::NONE_ENDED) } } @else { (ended(&live.recent, linked)) }
        }
        footer.soft {
            "offhook " (live.about.version) " · " (text::SINCE) " " (figures::moment(live.about.started)) " · "
            (text::GENERATION) " " (live.about.generation)
        }
    }
}

pub fn checks(readiness: &Readiness) -> Markup {
    let ready = readiness.is_ready();
    html! {
        section.checks aria-label=(text::CHECKS) {
            p.state.good[ready].bad[!ready] { @if ready { (text::READY) } @else { (text::NOT_READY) } }
            ul {
                @for (name, check) in readiness.checks() {
                    li.good[check.ok].bad[!check.ok] data-key=(name) {
                        span.dot aria-hidden="true" {}
                        strong { (text::check(name)) @if !check.ok { span.hidden { " (" (text::NOT_READY) ")" } } }
                        span.soft { (text::sentence(&check.reason)) }
                    }
                }
            }
        }
    }
}

fn running(calls: &[ActiveCall], operator: bool, part: u16) -> Markup {
    let parts = calls.len().div_ceil(PART);
    let part = usize::from(part).clamp(1, parts.max(1));
    let from = (part - 1) * PART;
    let shown = &calls[from..calls.len().min(from + PART)];
    let to = |part: usize| format!("/?part={part}");
    html! {
        @if parts > 1 {
            nav.pages aria-label=(text::RUNNING) {
                span.soft { (text::part(from + 1, from + shown.len(), calls.len())) }
                @if part > 1 { a.button.quiet #part-before rel="prev" href=(to(part - 1)) { (text::BEFORE) } }
                @if part < parts { a.button.quiet #part-after rel="next" href=(to(part + 1)) { (text::AFTER) } }
            }
        }
        div.scroll tabindex="0" role="group" aria-labelledby="running" {
            table.cards {
                thead { tr {
                    th scope="col" { (text::CALL) }
                    @if operator { th scope="col" { (text::CALLER) } th scope="col" { (text::DIALLED) } }
                    th scope="col" { (text::CONTEXT) }
                    th scope="col" { (text::PROVIDER) }
                    th.number scope="col" { (text::LASTED) }
                    th scope="col" { (text::STATE) }
                    th scope="col" { (text::FLOOR) }
                    th scope="col" { (text::LEVELS) }
                    th.number scope="col" { (text::TURNS) }
                    th.number scope="col" { (text::BARGE_INS) }
                    th.number scope="col" { (text::TOOLS) }
                    @if operator { th scope="col" { span.hidden { (text::ACTION) } } }
                } }
                tbody { @for call in shown { (row(call, operator)) } }
            }
        }
    }
}

fn row(ActiveCall { call, phase, floor, levels, counts }: &ActiveCall, operator: bool) -> Markup {
    let short = figures::short(call.id);
    let parties = call.parties.clone().unwrap_or_default();
    html! {
        tr data-key=(call.id) {
            th scope="row" { a #{ "call-" (call.id) } href={ "/live/" (call.id) } title=(call.id) { code { (short) } } }
            @if operator {
                td data-head=(text::CALLER) { (figures::caller(&parties)) }
                td data-head=(text::DIALLED) { (figures::or_dash(parties.dialled_number.as_deref())) }
            }
            td data-head=(text::CONTEXT) { (call.context) }
            td data-head=(text::PROVIDER) { (call.provider) }
            td.number data-head=(text::LASTED) { time.timer datetime=(call.since) {} }
            td data-head=(text::STATE) { span.tag.phase { (text::phase(phase)) } }
            td data-head=(text::FLOOR) { span.floor.(*floor) { (text::floor(floor)) } }
            td.levels data-head=(text::LEVELS) {
                (meter(text::CALLER, levels.caller, "caller"))
                (meter(text::AGENT, levels.agent, "agent"))
            }
            (numbers(counts))
            @if operator {
                td.action { a.button.quiet #{ "hang-up-" (call.id) } href={ "/live/" (call.id) "?hangup" } {
                    (text::HANG_UP) span.hidden { " " (short) }
                } }
            }
        }
    }
}

fn meter(side: &str, level: u8, style: &str) -> Markup {
    html! {
        svg.meter role="img" aria-label={ (side) " " (level) " %" } width="100%" height="6" {
            rect.(style) width={ (level) "%" } height="6" rx="3" {}
        }
    }
}

fn numbers(counts: &Counts) -> Markup {
    html! {
        td.number data-head=(text::TURNS) { (counts.agent_turns) }
        td.number data-head=(text::BARGE_INS) { (counts.barge_ins) }
        td.number data-head=(text::TOOLS) { (counts.tool_calls) }
    }
}

fn ended(calls: &[EndedCall], linked: bool) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-labelledby="ended" {
            table.cards {
                thead { tr {
                    th scope="col" { (text::CALL) }
                    th scope="col" { (text::BEGAN) }
                    th scope="col" { (text::CONTEXT) }
                    th scope="col" { (text::PROVIDER) }
                    th.number scope="col" { (text::LASTED) }
                    th scope="col" { (text::WHY) }
                    th.number scope="col" { (text::TURNS) }
                    th.number scope="col" { (text::BARGE_INS) }
                    th.number scope="col" { (text::TOOLS) }
                    th.number scope="col" { (text::COST) }
                } }
                tbody { @for EndedCall { call, lasted, reason, counts, usage } in calls {
                    tr data-key=(call.id) {
                        th scope="row" {
                            @if linked {
                                a #{ "ended-" (call.id) } href={ "/history/" (call.id) } title=(call.id) { code { (figures::short(call.id)) } }
                            } @else { code title=(call.id) { (figures::short(call.id)) } }
                        }
                        td data-head=(text::BEGAN) { (figures::clock(call.since)) }
                        td data-head=(text::CONTEXT) { (call.context) }
                        td data-head=(text::PROVIDER) { (call.provider) }
                        td.number data-head=(text::LASTED) { (figures::duration(lasted.as_secs_f64())) }
                        td data-head=(text::WHY) { (figures::ending(&reason.class, &reason.label, &reason.description)) }
                        (numbers(counts))
                        td.number data-head=(text::COST) { (figures::or_dash(figures::cost(usage).as_deref())) }
                    }
                } }
            }
        }
    }
}
