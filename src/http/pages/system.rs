//! *System*: what the engine stands on, its configuration, new calls, and the end of its log.

use super::{
    figures, live, shell,
    text::{self, operations as words},
    tokens,
};
use crate::{
    http::{
        api::{examine, media_test},
        login::{Door, Role, Who},
        plain::{Reloaded, load_anew},
        routes::Routes,
        site::App,
        view::{MediaView, ReloadReport, SystemView, TestCall},
    },
    telemetry,
};
use axum::{
    Form,
    extract::{State, rejection::FormRejection},
    http::{Method, StatusCode},
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;

pub fn add(routes: &mut Routes) {
    routes.page(Method::GET, "/system", Door::Page(Role::Viewer), page);
    routes.page(Method::POST, "/system", Door::Page(Role::Admin), act);
    routes.page(Method::POST, "/system/examine", Door::Page(Role::Admin), examined);
    routes.page(Method::POST, "/system/media-test", Door::Page(Role::Admin), media_tested);
}

/// Grades of findings, the worst first.
const GRADES: [&str; 3] = ["problem", "warning", "ok"];

/// What a button of this page asks for.
#[derive(Deserialize)]
struct Asked {
    action: Action,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Reload,
    Drain,
    Take,
}

async fn page(State(app): State<App>, who: Who) -> Markup {
    show(&app, &who, &html! {})
}

async fn act(State(app): State<App>, who: Who, form: Result<Form<Asked>, FormRejection>) -> Response {
    let Ok(Form(Asked { action })) = form else {
        return shell::refusal(&who, StatusCode::BAD_REQUEST, text::LOG_IN_INCOMPLETE);
    };
    match action {
        Action::Reload => {
            let (status, told) = reloaded(load_anew(app.clone(), &who.name).await);
            (status, show(&app, &who, &told)).into_response()
        }
        Action::Drain | Action::Take => {
            app.view.take_calls(matches!(action, Action::Take), &who.name);
            Redirect::to("/system").into_response()
        }
    }
}

/// What `offhook doctor` tells in a terminal.
async fn examined(State(app): State<App>, who: Who) -> Response {
    let mut findings = match examine(&app).await {
        Ok(findings) => findings,
        Err((status, why)) => return shell::refusal(&who, status, &text::sentence(why)),
    };
    // What somebody has to do something about stands first.
    findings.sort_by_key(|found| GRADES.iter().position(|grade| *grade == found.grade));
    let told = html! {
        section.report.card role="status" aria-labelledby="found" {
            h2 #found { (words::FOUND) }
            @if findings.iter().all(|found| found.grade == "ok") { p { strong { (words::ALL_WELL) } } }
            ul.findings { @for found in &findings {
                li.(found.grade) {
                    span.tag { (found.grade) } " " strong { (found.area) } " "
                    p { (found.says) }
                    @if let Some(remedy) = &found.remedy { p.soft { (remedy) } }
                }
            } }
        }
    };
    show(&app, &who, &told).into_response()
}

/// What `offhook media-test` tells in a terminal.
async fn media_tested(State(app): State<App>, who: Who) -> Response {
    let test = match media_test(&app).await {
        Ok(test) => test,
        Err((status, why)) => return shell::refusal(&who, status, &text::sentence(why)),
    };
    let told = html! {
        section.report.card role="status" aria-labelledby="tested" {
            h2 #tested { (words::MEDIA_TESTED) }
            @if test.ok { p { strong { (words::MEDIA_WORKS) } } }
            ul.findings {
                @for found in &test.findings {
                    li.(found.grade) { span.tag { (found.grade) } " " (found.says) @if let Some(remedy) = &found.remedy { p.soft { (remedy) } } }
                }
                @for call in &test.calls { (tested(call)) }
            }
        }
    };
    show(&app, &who, &told).into_response()
}

fn tested(call: &TestCall) -> Markup {
    html! {
        li.(call.grade) {
            span.tag { (call.grade) } " " strong { (call.audio) } " " (call.says)
            @for (way, path) in [(words::FROM_CALLER, &call.from_caller), (words::TO_CALLER, &call.to_caller)] {
                @if let Some(path) = path {
                    p { (way) ": "
                        @match path.delay_ms { Some(delay) => { (format!("{delay:.1} ms")) } None => { (words::NOT_HEARD) } }
                        (format!(" · {:.1} % ", path.loss_percent)) (words::LOST)
                        @if let Some(level) = path.level_dbov { (format!(" · {level:.1} dBov")) }
                    }
                }
            }
            @if let Some(remedy) = &call.remedy { p.soft { (remedy) } }
        }
    }
}

pub fn reloaded(outcome: Reloaded) -> (StatusCode, Markup) {
    let bad = |what: &str| html! { p.notice.bad role="alert" { (what) } };
    match outcome {
        Reloaded::Done(report) => (StatusCode::OK, done(&report)),
        Reloaded::Refused(failure) => {
            let told = html! {
                div.notice.bad role="alert" {
                    p { strong { (words::RELOAD_REFUSED) } }
                    ul { @for problem in &failure.problems { li { (problem) } } }
                }
            };
            (StatusCode::UNPROCESSABLE_ENTITY, told)
        }
        Reloaded::Busy => (StatusCode::CONFLICT, bad(words::RELOAD_BUSY)),
        Reloaded::Failed => (StatusCode::INTERNAL_SERVER_ERROR, bad(words::RELOAD_FAILED)),
    }
}

fn done(report: &ReloadReport) -> Markup {
    html! {
        div.notice.good role="status" {
            p { strong { (words::RELOAD_DONE) } }
            @if report.changed.is_empty() && report.needs_restart.is_empty() { p { (words::RELOAD_SAME) } }
            ul {
                @for change in &report.changed { li { (change) } }
                @for change in &report.needs_restart { li { (change) " (" (words::NEEDS_RESTART) ")" } }
            }
        }
    }
}

pub fn show(app: &App, who: &Who, told: &Markup) -> Markup {
    let system = app.view.system();
    let main = html! {
        div.title { h1 { (words::SYSTEM) } (live::freshness()) }
        (told)
        div #checks data-fresh="/system" { (live::checks(&system.readiness)) }
        (facts(&system))
        @if who.may(Role::Admin) { (actions(who, &system)) }
        (media(&system.media))
        @if who.may(Role::Admin) { (tokens::section(app, who)) }
        @if who.may(Role::Operator) { (log()) }
    };
    shell::page(who, "/system", words::SYSTEM, &main)
}

fn facts(system: &SystemView) -> Markup {
    html! {
        dl.facts {
            div { dt { (words::CAPACITY) } dd { (system.calls) " / " (system.calls_max) } }
            div { dt { (words::NEW_CALLS) } dd { @if system.draining { (words::DRAINING) } @else { (words::TAKING) } } }
            div { dt { (words::VERSION) } dd { (system.about.version) } }
            div { dt { (words::UP_SINCE) } dd { (figures::moment(system.about.started)) } }
            div { dt { (text::GENERATION) } dd { (system.about.generation) } }
            @if let Some(asterisk) = &system.asterisk {
                div { dt { (words::ASTERISK) } dd { (asterisk.address) " " span.soft { "Stasis(" (asterisk.app) ")" } } }
                div { dt { (words::ASTERISK_LOST) } dd { (asterisk.lost) } }
            }
            div.wide { dt { (words::FILE) } dd { (system.configuration.as_deref().unwrap_or(words::BUILT_IN)) } }
        }
    }
}

fn actions(who: &Who, system: &SystemView) -> Markup {
    let button = |action: &str, label: &str, help: &str, style: &str| {
        html! {
            form.act method="post" action="/system" {
                (shell::csrf(who))
                input type="hidden" name="action" value=(action);
                button.(style) { (label) }
                p.soft { (help) }
            }
        }
    };
    html! {
        section.acts aria-label=(text::ACTION) {
            form.act method="post" action="/system/examine" {
                (shell::csrf(who))
                button.quiet { (words::EXAMINE) }
                p.soft { (words::EXAMINE_HELP) }
            }
            form.act method="post" action="/system/media-test" {
                (shell::csrf(who))
                button.quiet { (words::MEDIA_TEST) }
                p.soft { (words::MEDIA_TEST_HELP) }
            }
            (button("reload", words::RELOAD_FILE, words::RELOAD_HELP, "quiet"))
            @if system.draining {
                (button("take", words::TAKE, "", "plain"))
            } @else {
                (button("drain", words::DRAIN, words::DRAIN_HELP, "danger"))
            }
        }
        @if system.reload_pending { p.notice role="status" { (words::PENDING) } }
    }
}

fn media(media: &[MediaView]) -> Markup {
    html! {
        section aria-labelledby="media" {
            h2 #media { (words::MEDIA) }
            div.scroll tabindex="0" role="group" aria-labelledby="media" {
                table.cards {
                    thead { tr {
                        th scope="col" { (words::TRANSPORT) }
                        th scope="col" { (words::BIND) }
                        th.number scope="col" { (words::OPEN) }
                    } }
                    tbody { @for leg in media {
                        tr {
                            th scope="row" { (leg.transport) }
                            td data-head=(words::BIND) { code { (leg.bind) } }
                            td.number data-head=(words::OPEN) { (leg.open) @if let Some(most) = leg.most { " / " (most) } }
                        }
                    } }
                }
            }
        }
    }
}

fn log() -> Markup {
    let lines = telemetry::last_lines();
    html! {
        section aria-labelledby="log" {
            h2 #log { (words::LOG) }
            @if lines.is_empty() { p.empty { (words::LOG_EMPTY) } } @else {
                pre.log.card tabindex="0" role="log" aria-labelledby="log" { @for line in &lines { (line) "\n" } }
            }
        }
    }
}
