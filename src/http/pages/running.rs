//! One running call: what happens in it, and its end.

use super::{
    figures,
    live::{freshness, in_json},
    shell, story, text,
};
use crate::{
    config::{Destination, Way},
    facts::CallId,
    http::{
        api::{
            Id,
            conversations::{TEXT_BYTES_MAX, TEXT_CHARS_MAX, Text, write},
            live::{Facts, Story, Telling, Transfer, end, known, transfer, visible},
            private, watch,
        },
        login::{Door, Role, Who},
        routes::Routes,
        site::App,
        view::{ActiveCall, CallHead, EndedCall, LiveEntry, Parties},
    },
    records::Counts,
};
use axum::{
    Form,
    extract::{RawQuery, State},
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use serde::Serialize;

pub fn add(routes: &mut Routes) {
    routes.page(Method::GET, "/live/{id}", Door::Page(Role::Viewer), page);
    routes.page(Method::GET, "/live/{id}/stream", Door::Page(Role::Viewer), stream);
    routes.page(Method::POST, "/live/{id}/transfer", Door::Page(Role::Operator), send_on);
    routes.long_form("/live/{id}/text", Door::Page(Role::Admin), TEXT_BYTES_MAX, write_on);
    routes.page(Method::POST, "/live/{id}/hangup", Door::Page(Role::Operator), hang_up);
}

/// `?hangup` opens the question whether to hang up.
async fn page(State(app): State<App>, who: Who, Id(id): Id, RawQuery(query): RawQuery) -> Response {
    let (Some(call), Some(entries)) = (app.view.call(id), app.view.story(id, 0)) else {
        if app.history.is_some() {
            return Redirect::to(&format!("/history/{id}")).into_response();
        }
        return shell::refusal(&who, StatusCode::NOT_FOUND, text::NOT_RUNNING);
    };
    let next = entries.last().map_or(0, |last| last.number + 1);
    let asked = query.as_deref() == Some("hangup");
    let main = html! {
        p.path { a href="/" { (text::LIVE) } }
        div.title { h1 { (text::CALL) " " code { (figures::short(id)) } } (freshness()) div.asks { (send(&app, &who, &call)) (ask(&who, &call, asked)) } }
        dl.facts #facts { (facts(&private::active(&app, &who, call.clone()).into())) }
        @if who.may(Role::Operator) { (sound(&call)) }
        // Empty until it ends: what comes into it then is read out, when nothing else is.
        div #ended role="status" {}
        section aria-labelledby="happens" {
            h2 #happens { (text::WHAT_HAPPENS) }
            @if !private::sees_all(&who) { p.soft { (text::NO_WORDS) } }
            div role="log" aria-labelledby="happens" {
                ol.story #story data-stream={ "/live/" (id) "/stream?from=" (next) } { (lines(&visible(&who, entries))) }
            }
            @if call.call.written && who.may(Role::Admin) { (pen(&who, &call)) }
            noscript { p.notice { (text::NO_SCRIPT) " " a href={ "/live/" (id) } { (text::RELOAD) } } }
        }
    };
    shell::page(&who, "/", text::CALL, &main).into_response()
}

/// Nothing is sent before somebody presses play.
fn sound(ActiveCall { call, .. }: &ActiveCall) -> Markup {
    html! {
        div.player #listen {
            strong { (text::LISTEN) }
            audio controls preload="none" src={ "/api/v1/live/" (call.id) "/audio" } aria-label=(text::LISTEN) {}
            span.soft { (text::SIDES) " " (text::LISTEN_HELP) }
        }
    }
}

/// With scripts what is written appears above at once, and the page stays.
fn pen(who: &Who, ActiveCall { call, .. }: &ActiveCall) -> Markup {
    html! {
        form.pen.card #pen method="post" action={ "/live/" (call.id) "/text" } data-lost=(text::NOT_SENT) {
            (shell::csrf(who))
            label for="say" { (text::WRITE) }
            div {
                input #say name="text" required maxlength=(TEXT_CHARS_MAX) autocomplete="off" autofocus aria-describedby="say-help";
                button { (text::SEND) }
            }
            p.soft #say-help { (text::WRITE_HELP) }
            p.notice.bad role="alert" hidden {}
        }
    }
}

async fn write_on(State(app): State<App>, who: Who, Id(id): Id, Form(said): Form<Text>) -> Response {
    match write(&app, id, &said.text) {
        Ok(()) => Redirect::to(&format!("/live/{id}")).into_response(),
        Err((status, why)) => shell::refusal(&who, status, &text::sentence(why)),
    }
}

fn facts(Facts { call, phase, floor, counts }: &Facts) -> Markup {
    standing(call, &html! { time.timer datetime=(call.since) {} }, text::phase(phase), text::floor(floor), counts)
}

fn standing(call: &CallHead, lasted: &Markup, phase: &str, floor: &str, counts: &Counts) -> Markup {
    let Parties { caller_number, caller_name, dialled_number } = call.parties.clone().unwrap_or_default();
    let parties = [(text::CALLER, caller_number), (text::NAME, caller_name), (text::DIALLED, dialled_number)];
    html! {
        @for (name, value) in parties { @if let Some(value) = value { div { dt { (name) } dd { (value) } } } }
        div { dt { (text::STATE) } dd { (phase) } }
        div { dt { (text::FLOOR) } dd { (floor) } }
        div { dt { (text::LASTED) } dd { (lasted) } }
        div { dt { (text::TURNS) } dd { (counts.agent_turns) } }
        div { dt { (text::BARGE_INS) } dd { (counts.barge_ins) } }
        div { dt { (text::CONTEXT) } dd { (call.context) } }
        div { dt { (text::PROVIDER) } dd { (call.provider) } }
        div { dt { (text::SINCE) } dd { (figures::clock(call.since)) } }
        div { dt { (text::DIRECTION) } dd { @if call.written { (text::WRITTEN) } @else { (call.direction.label()) } } }
    }
}

/// What the page says when the call has ended, and how it stood then.
#[derive(Serialize)]
struct Over {
    told: String,
    facts: Option<String>,
}

fn over(app: &App, id: CallId, ended: Option<&EndedCall>) -> String {
    let told = html! {
        p.notice {
            (text::HAS_ENDED)
            @if let Some(EndedCall { reason, .. }) = ended {
                " " (figures::ending(&reason.class, &reason.label, &reason.description)) " " (text::sentence(&reason.description)) "."
            }
            @if app.history.is_some() { " " a href={ "/history/" (id) } { (text::SEE_RECORD) } }
        }
    };
    let facts = ended.map(|EndedCall { call, lasted, counts, .. }| {
        let lasted = html! { (figures::duration(lasted.as_secs_f64())) };
        standing(call, &lasted, text::OVER, text::floor("nobody"), counts).0
    });
    // Texts alone.
    serde_json::to_string(&Over { told: told.0, facts }).unwrap_or_default()
}

fn send(app: &App, who: &Who, call: &ActiveCall) -> Markup {
    let destinations = app.view.destinations(call.call.id).filter(|_| who.may(Role::Operator)).unwrap_or_default();
    html! {
        @if !destinations.is_empty() {
            details.ask {
                summary.button.quiet { (text::TRANSFER) }
                form.card method="post" action={ "/live/" (call.call.id) "/transfer" } {
                    (shell::csrf(who))
                    label for="destination" { (text::TRANSFER_TO) }
                    select #destination name="destination" required {
                        @for (name, Destination { description, way }) in &destinations {
                            option value=(name) {
                                (name) ": " (description)
                                @if matches!(way, Way::Dialplan(_)) { (text::FOR_GOOD) }
                            }
                        }
                    }
                    p { (text::TRANSFER_HELP) }
                    button { (text::TRANSFER_NOW) }
                }
            }
        }
    }
}

async fn send_on(State(app): State<App>, who: Who, Id(id): Id, Form(wish): Form<Transfer>) -> Response {
    match transfer(&app, &who, id, &wish.destination) {
        Ok(()) => Redirect::to(&format!("/live/{id}")).into_response(),
        Err((status, why)) => shell::refusal(&who, status, why),
    }
}

fn ask(who: &Who, call: &ActiveCall, asked: bool) -> Markup {
    html! {
        @if who.may(Role::Operator) {
            details.ask open[asked] {
                summary.button.danger { (text::HANG_UP) }
                form.card method="post" action={ "/live/" (call.call.id) "/hangup" } {
                    (shell::csrf(who))
                    strong { (text::HANG_UP_ASK) }
                    p { (text::HANG_UP_HELP) }
                    button.danger { (text::HANG_UP_NOW) }
                }
            }
        }
    }
}

fn lines(entries: &[LiveEntry]) -> Markup {
    // As they began: words come later than what they interrupt.
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|entry| entry.entry.at_ms);
    html! { @for entry in entries { @if let Some(line) = story::line(&entry.entry) { (line) } } }
}

async fn stream(
    State(app): State<App>,
    who: Who,
    Id(call): Id,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let from = query.as_deref().and_then(|query| query.strip_prefix("from=")?.parse().ok()).unwrap_or(0);
    const PAGE: Telling =
        Telling { entries: |entries| in_json(&lines(entries)), facts: |now| in_json(&facts(now)), ended: over };
    watch(app, who.clone(), Story::new(call, who, known(&headers).unwrap_or(from), &PAGE))
}

async fn hang_up(State(app): State<App>, who: Who, Id(id): Id) -> Response {
    if end(&app, &who, id) {
        return Redirect::to("/").into_response();
    }
    Redirect::to(&format!("/live/{id}")).into_response()
}
