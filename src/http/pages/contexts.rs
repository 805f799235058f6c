//! *Contexts*: who answers, the configuration that says so, and its versions.

use super::{
    assets, figures, findings,
    form::kept,
    shell,
    text::{self, contexts as words, operations},
};
use crate::http::{
    Configuration, ConfigurationError, ContextView, Published, TEXT_BYTES_MAX, Verdict, Version,
    api::{
        configuration::{put, put_back, status},
        conversations::{Wish, converse},
    },
    login::{Door, Role, Who},
    routes::Routes,
    site::App,
};
use axum::{
    Form,
    extract::{Path, State, rejection::FormRejection},
    http::{Method, StatusCode},
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::BTreeMap;

/// In a form each byte that is no letter takes three.
const FORM_BYTES_MAX: usize = 3 * TEXT_BYTES_MAX + 1024;

pub fn add(routes: &mut Routes) {
    let admin = Door::Page(Role::Admin);
    routes.page(Method::GET, "/contexts", Door::Page(Role::Viewer), page);
    routes.page(Method::POST, "/conversations", admin, try_it);
    routes.long_form("/contexts", admin, FORM_BYTES_MAX, act);
    routes.page(Method::GET, "/contexts/versions/{kept}", admin, version);
    routes.page(Method::POST, "/contexts/versions/{kept}", admin, roll_back);
}

#[derive(Deserialize)]
struct Asked {
    action: Action,
    text: String,
    /// That the text was made of.
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Check,
    /// A check whose findings alone are asked for, while somebody types.
    Look,
    Publish,
}

#[derive(Deserialize)]
struct RollBack {
    version: String,
}

/// What somebody is editing, if it is not what the file holds.
#[derive(Default)]
struct Desk {
    told: Option<Markup>,
    text: Option<String>,
    verdict: Option<Verdict>,
}

async fn page(State(app): State<App>, who: Who) -> Markup {
    show(&app, &who, Desk::default()).await
}

async fn try_it(State(app): State<App>, who: Who, form: Result<Form<Wish>, FormRejection>) -> Response {
    let Ok(Form(wish)) = form else {
        return shell::refusal(&who, StatusCode::BAD_REQUEST, text::LOG_IN_INCOMPLETE);
    };
    match converse(&app, &who, wish.context).await {
        Ok(id) => Redirect::to(&format!("/live/{id}")).into_response(),
        Err((status, why)) => shell::refusal(&who, status, &text::sentence(why)),
    }
}

async fn act(State(app): State<App>, who: Who, form: Result<Form<Asked>, FormRejection>) -> Response {
    let Form(Asked { action, text, version }) = match form {
        Ok(form) => form,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let why = text::sentence(&ConfigurationError::TooLong.to_string());
            return shell::refusal(&who, StatusCode::PAYLOAD_TOO_LARGE, &why);
        }
        Err(_) => return shell::refusal(&who, StatusCode::BAD_REQUEST, text::LOG_IN_INCOMPLETE),
    };
    // Browsers send every line's end as two letters.
    let text = text.replace("\r\n", "\n");
    if let Action::Publish = action {
        let outcome = put(&app, &who, text.clone(), version).await;
        return outcome_of(&app, &who, Some(text), outcome).await;
    }
    match (app.configuration.check(text.clone()).await, action) {
        (Ok(verdict), Action::Look) => findings::report(&verdict, &text).into_response(),
        (Err(error), Action::Look) => (status(&error), error.to_string()).into_response(),
        (Ok(verdict), _) => {
            show(&app, &who, Desk { text: Some(text), verdict: Some(verdict), told: None }).await.into_response()
        }
        (Err(error), _) => outcome_of(&app, &who, Some(text), Err(error)).await,
    }
}

async fn roll_back(
    State(app): State<App>,
    who: Who,
    Path(kept): Path<String>,
    form: Result<Form<RollBack>, FormRejection>,
) -> Response {
    let Ok(Form(RollBack { version })) = form else {
        return shell::refusal(&who, StatusCode::BAD_REQUEST, text::LOG_IN_INCOMPLETE);
    };
    let outcome = put_back(&app, &who, kept, version).await;
    outcome_of(&app, &who, None, outcome).await
}

/// The page after somebody wanted to publish something; what they wrote is not lost.
async fn outcome_of(
    app: &App,
    who: &Who,
    text: Option<String>,
    outcome: Result<Published, ConfigurationError>,
) -> Response {
    let (status, desk) = match outcome {
        Ok(Published { report, .. }) => {
            let restart = report.needs_restart.iter().map(|part| format!("{part} ({})", operations::NEEDS_RESTART));
            let mut more: Vec<String> = report.changed.iter().cloned().chain(restart).collect();
            more.extend(report.reload_pending.then(|| operations::PENDING.to_owned()));
            (StatusCode::OK, Desk { told: Some(findings::notice(words::PUBLISHED, false, &more)), ..Desk::default() })
        }
        Err(error) => {
            let conflict = matches!(error, ConfigurationError::Changed { .. }) && text.is_some();
            let more: Vec<String> = conflict.then(|| words::AGAIN.to_owned()).into_iter().collect();
            let told = Some(findings::notice(&error.to_string(), true, &more));
            let verdict = match (&error, &text) {
                (ConfigurationError::Invalid(verdict), _) => Some(verdict.clone()),
                (ConfigurationError::Changed { .. }, Some(text)) => app.configuration.check(text.clone()).await.ok(),
                _ => None,
            };
            (status(&error), Desk { told, text, verdict })
        }
    };
    (status, show(app, who, desk).await).into_response()
}

async fn show(app: &App, who: &Who, desk: Desk) -> Markup {
    let contexts = app.view.contexts();
    let about = app.view.about();
    let configuration = match who.may(Role::Admin) {
        true => Some(configuration(app, who, &desk).await),
        false => None,
    };
    let main = html! {
        div.title { h1 { (words::CONTEXTS) } p.soft { (words::GENERATION) " " (about.generation) } }
        @if let Some(told) = &desk.told { (told) }
        (list(who, &contexts))
        @if let Some(configuration) = configuration { (configuration) } @else { p.notice { (words::FOR_ADMINS) } }
    };
    shell::page(who, "/contexts", words::CONTEXTS, &main)
}

fn list(who: &Who, contexts: &BTreeMap<String, ContextView>) -> Markup {
    let admin = who.may(Role::Admin);
    html! {
        div.scroll tabindex="0" role="group" aria-label=(words::CONTEXTS) {
            table.cards {
                thead { tr {
                    th scope="col" { (text::CONTEXT) }
                    th scope="col" { (text::PROVIDER) }
                    th scope="col" { (words::AUDIO) }
                    th scope="col" { (text::TOOLS) }
                    th.number scope="col" { (words::CALLS_NOW) }
                    @if admin { th scope="col" { span.hidden { (text::ACTION) } } }
                } }
                tbody { @for (name, context) in contexts {
                    tr {
                        th scope="row" { (name) @if context.default { " " span.role title=(words::DEFAULT_HELP) { (words::DEFAULT) } } }
                        td data-head=(text::PROVIDER) {
                            (context.provider)
                            @if !context.fallbacks.is_empty() {
                                " " span.soft { (words::FALLBACKS) " " (context.fallbacks.join(", ")) }
                            }
                        }
                        td data-head=(words::AUDIO) {
                            (context.audio)
                            @if let Some(id) = &context.audiosocket_id { " " span.soft { (words::BY_AUDIOSOCKET) " " code { (id) } } }
                        }
                        td data-head=(text::TOOLS) {
                            @if context.tools.is_empty() { span.soft { (words::NO_TOOLS) } } @else { (context.tools.join(", ")) }
                        }
                        td.number data-head=(words::CALLS_NOW) { (context.calls) }
                        @if admin { td.action {
                            form method="post" action="/conversations" {
                                (shell::csrf(who))
                                input type="hidden" name="context" value=(name);
                                button.quiet title=(words::TRY_HELP) { (words::TRY) span.hidden { " " (name) " " (words::TRY_HELP) } }
                            }
                        } }
                    }
                } }
            }
        }
    }
}

async fn configuration(app: &App, who: &Who, desk: &Desk) -> Markup {
    let (found, versions) = tokio::join!(app.configuration.read(), app.configuration.versions());
    let found = match found {
        Ok(found) => found,
        Err(error) => return findings::notice(&error.to_string(), true, &[]),
    };
    html! {
        section aria-labelledby="configuration" {
            div.title {
                h2 #configuration { (words::CONFIGURATION) }
                p.soft { (found.file.as_deref().unwrap_or(words::BUILT_IN)) }
            }
            @if !found.running { p.notice { (words::NOT_RUNNING) } }
            @if let Some(why) = &found.read_only { p.notice { (words::READ_ONLY) " " (why) "." } }
            (editor(who, &found, desk))
        }
        section aria-labelledby="versions" {
            h2 #versions { (words::VERSIONS) }
            @match &versions {
                Ok(versions) if versions.is_empty() => p.empty { (words::NO_VERSIONS) },
                Ok(versions) => (table(versions)),
                Err(error) => (findings::notice(&error.to_string(), true, &[])),
            }
        }
    }
}

fn editor(who: &Who, found: &Configuration, desk: &Desk) -> Markup {
    let text = desk.text.as_deref().unwrap_or(&found.text);
    let verdict = desk.verdict.as_ref().unwrap_or(&found.verdict);
    let read_only = found.read_only.is_some();
    let [.., script] = assets::paths();
    html! {
        script type="module" src=(script) {}
        form.desk #editor method="post" action="/contexts" data-kept=(kept(text != found.text)) data-lost=(words::NO_ANSWER) data-over=(words::LOGGED_OUT) {
            (shell::csrf(who))
            input type="hidden" name="version" value=(found.version);
            div.writing {
                label for="text" { (words::TEXT) }
                div.editor {
                    div.numbers aria-hidden="true" hidden { pre {} }
                    // The first line break of the element is none of the text.
                    textarea #text name="text" rows="24" wrap="off" spellcheck="false" autocapitalize="none" autocomplete="off"
                        aria-describedby="text-help" readonly[read_only] { "\n" (text) }
                }
                p.soft #text-help { (words::TEXT_HELP) }
                @if !read_only {
                    div.buttons {
                        button.quiet name="action" value="check" { (words::CHECK) }
                        button name="action" value="publish" { (words::PUBLISH) }
                    }
                }
            }
            aside.card #help hidden tabindex="0" aria-labelledby="help-title" data-schema="/api/v1/configuration/schema" data-root=(words::ROOT)
                data-any=(words::ANY_NAME) data-default=(words::DEFAULT) data-required=(words::REQUIRED) {
                h3 #help-title { (words::HELP) }
                div {}
            }
        }
        div #report { (findings::report(verdict, text)) }
    }
}

fn table(versions: &[Version]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-labelledby="versions" {
            table.cards {
                thead { tr {
                    th scope="col" { (words::WHEN) }
                    th scope="col" { (words::WHO) }
                    th scope="col" { (text::STATE) }
                    th scope="col" { span.hidden { (text::ACTION) } }
                } }
                tbody { @for version in versions {
                    tr {
                        th scope="row" { (figures::moment(version.at)) }
                        td data-head=(words::WHO) { (by(version)) }
                        td data-head=(text::STATE) { @if version.current { span.tag.normal { (words::CURRENT) } } @else { "–" } }
                        td.action { a.button.quiet href={ "/contexts/versions/" (version.id) } {
                            (words::LOOK) span.hidden { " " (figures::moment(version.at)) }
                        } }
                    }
                } }
            }
        }
    }
}

fn by(version: &Version) -> &str {
    version.by.as_deref().unwrap_or(words::BY_HAND)
}

async fn version(State(app): State<App>, who: Who, Path(kept): Path<String>) -> Response {
    let (version, now) = tokio::join!(app.configuration.version(kept), app.configuration.read());
    let (version, now) = match (version, now) {
        (Ok(version), Ok(now)) => (version, now),
        (Err(error), _) | (_, Err(error)) => {
            return shell::refusal(&who, status(&error), &text::sentence(&error.to_string()));
        }
    };
    let main = html! {
        p.path { a href="/contexts" { (words::CONTEXTS) } }
        div.title { h1 { (words::VERSION) " " (figures::moment(version.head.at)) } p.soft { (by(&version.head)) } }
        @if version.difference.is_empty() { p.notice { (words::NO_DIFFERENCE) } } @else { (findings::shown(&version.difference)) }
        @if now.read_only.is_none() && !version.difference.is_empty() {
            form.act method="post" action={ "/contexts/versions/" (version.head.id) } {
                (shell::csrf(&who))
                input type="hidden" name="version" value=(now.version);
                button { (words::ROLL_BACK) }
                p.soft { (words::ROLL_BACK_HELP) }
            }
        }
        details.whole {
            summary { (words::WHOLE_TEXT) }
            pre.card.log tabindex="0" role="group" aria-label=(words::WHOLE_TEXT) { (version.text) }
        }
    };
    shell::page(&who, "/contexts", words::CONTEXTS, &main).into_response()
}
