//! The editor of MCP servers: a form makes, changes or removes one entry of the configuration file, and shows the difference
//! before it is published.

use super::draft::{Action, Draft, judged};
use crate::{
    gate::{Category, RiskDomain},
    http::{
        ConfigurationError, Verdict,
        api::{
            Params, configuration,
            mcp_servers::{Change, Fault, Proposal, find, masked, propose, sentence},
        },
        login::Who,
        pages::{
            findings,
            form::{Wrong, area, check, choice, field, hidden, kept, line, summary},
            shell,
            text::{self, operations, servers as words},
        },
        site::App,
    },
};
use axum::{
    Form,
    extract::{State, rejection::FormRejection},
    http::StatusCode,
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;

#[derive(Deserialize)]
pub struct Wanted {
    server: Option<String>,
}

/// What is told besides the form.
#[derive(Default)]
struct Told {
    /// Why nothing was done.
    notice: Option<String>,
    wrongs: Vec<Wrong>,
    /// What would change, and what asks for it.
    look: Option<(Verdict, Action)>,
}

/// Without a server in the address: a new one.
pub async fn page(State(app): State<App>, who: Who, Params(Wanted { server }): Params<Wanted>) -> Response {
    let Some(id) = server else { return show(&who, StatusCode::OK, &Draft::new(), Told::default()) };
    match find(&app, &id).await {
        Ok((Some((name, server)), _)) => {
            show(&who, StatusCode::OK, &Draft::of(&name, &masked(server)), Told::default())
        }
        Ok((None, _)) => nowhere(&who, &Fault::Unknown),
        Err(fault) => nowhere(&who, &fault),
    }
}

fn nowhere(who: &Who, fault: &Fault) -> Response {
    let (status, why) = sentence(fault);
    shell::refusal(who, status, &text::sentence(&why))
}

pub async fn act(State(app): State<App>, who: Who, form: Result<Form<Draft>, FormRejection>) -> Response {
    let draft = match form {
        Ok(Form(draft)) => draft,
        Err(rejection) => {
            let too_long = rejection.status() == StatusCode::PAYLOAD_TOO_LARGE;
            let why = if too_long { text::tools::TOO_LONG } else { text::tools::WRONG_KIND };
            return shell::refusal(&who, rejection.status(), why);
        }
    };
    let change = match draft.action {
        None => return shell::refusal(&who, StatusCode::BAD_REQUEST, text::LOG_IN_INCOMPLETE),
        Some(Action::LookRemove | Action::Remove) => Change::Remove,
        Some(Action::Look | Action::Publish) => match draft.entry() {
            Ok(entry) => Change::Set(entry),
            Err(wrongs) => {
                return show(&who, StatusCode::UNPROCESSABLE_ENTITY, &draft, Told { wrongs, ..Told::default() });
            }
        },
    };
    // A new server takes nobody's place.
    if draft.server.is_empty() && matches!(find(&app, draft.name()).await, Ok((Some(_), _))) {
        let taken = Wrong { field: "id".into(), path: "id".into(), message: words::TAKEN.into(), hint: None };
        return show(&who, StatusCode::CONFLICT, &draft, Told { wrongs: vec![taken], ..Told::default() });
    }
    match propose(&app, draft.name(), change).await {
        Ok(proposal) if matches!(draft.action, Some(Action::Publish | Action::Remove)) => {
            publish(&app, &who, draft, proposal).await
        }
        Ok(proposal) => look(&app, &who, draft, proposal).await,
        Err(fault) => refused(&who, &draft, &fault),
    }
}

/// What would change, or all that is wrong.
async fn look(app: &App, who: &Who, mut draft: Draft, Proposal { text, based_on }: Proposal) -> Response {
    match app.configuration.check(text).await {
        Err(error) => refused(who, &draft, &error.into()),
        Ok(verdict) if !verdict.problems.is_empty() => {
            refused(who, &draft, &ConfigurationError::Invalid(verdict).into())
        }
        Ok(verdict) => {
            draft.based_on = based_on;
            let is_removal = draft.action == Some(Action::LookRemove);
            let then = if is_removal { Action::Remove } else { Action::Publish };
            show(who, StatusCode::OK, &draft, Told { look: Some((verdict, then)), ..Told::default() })
        }
    }
}

async fn publish(app: &App, who: &Who, draft: Draft, Proposal { text, .. }: Proposal) -> Response {
    match configuration::put(app, who, text, draft.based_on.clone()).await {
        Ok(_) => Redirect::to("/mcp").into_response(),
        Err(error) => refused(who, &draft, &error.into()),
    }
}

/// The form as it was sent, and why nothing came of it.
fn refused(who: &Who, draft: &Draft, fault: &Fault) -> Response {
    let (status, why) = sentence(fault);
    let problems = match fault {
        Fault::Configuration(ConfigurationError::Invalid(verdict)) => verdict.problems.as_slice(),
        Fault::Problems(problems) => problems,
        _ => &[],
    };
    let wrongs: Vec<_> = problems.iter().map(|problem| judged(draft.name(), problem)).collect();
    let notice = wrongs.is_empty().then_some(why);
    show(who, status, draft, Told { notice, wrongs, look: None })
}

fn show(who: &Who, status: StatusCode, draft: &Draft, told: Told) -> Response {
    let is_new = draft.server.is_empty();
    let title = if is_new { words::NEW_TITLE } else { draft.server.as_str() };
    let main = html! {
        p.path { a href="/mcp" { (operations::MCP_TITLE) } }
        div.title { h1 { @if is_new { (title) } @else { (words::EDIT) " " code { (title) } } } }
        @if let Some(notice) = &told.notice {
            div.notice.bad role="alert" { p { (text::sentence(notice)) } @if status == StatusCode::CONFLICT { p { (words::CONFLICT_HELP) } } }
        }
        (summary(words::PROBLEMS, &told.wrongs))
        @if let Some((verdict, then)) = &told.look { (difference(who, draft, verdict, *then)) }
        (form(who, draft, &told.wrongs, told.notice.is_some() || !told.wrongs.is_empty() || told.look.is_some()))
        @if !is_new { (ask(who, draft)) }
    };
    (status, shell::page(who, "/mcp", title, &main)).into_response()
}

/// What is published is what was shown: the form beside it holds just that.
fn difference(who: &Who, draft: &Draft, verdict: &Verdict, then: Action) -> Markup {
    let (action, label) = if then == Action::Remove { ("remove", words::REMOVE) } else { ("publish", words::PUBLISH) };
    html! {
        section #proposal aria-labelledby="changes" {
            h2 #changes { (words::DIFFERENCE) }
            p.soft { (words::DIFFERENCE_HELP) }
            @if verdict.difference.is_empty() { p { (operations::RELOAD_SAME) } }
            @else { (findings::lines(&verdict.difference, "changes")) }
            @if !verdict.warnings.is_empty() {
                div.notice { p { (words::WARNINGS) } ul { @for warning in &verdict.warnings { li { (warning) } } } }
            }
            form method="post" action="/mcp/editor" {
                (shell::csrf(who))
                (hidden(&draft.fields()))
                (hidden(&[("based_on", &draft.based_on)]))
                button.danger[then == Action::Remove] name="action" value=(action) { (label) }
            }
        }
    }
}

fn form(who: &Who, draft: &Draft, wrongs: &[Wrong], is_an_answer: bool) -> Markup {
    let unsaid = [("", words::UNSAID)];
    let named = |labels: &'static [&'static str]| -> Vec<(&str, &str)> {
        unsaid.into_iter().chain(labels.iter().map(|label| (*label, *label))).collect()
    };
    html! {
        form.sheet method="post" action="/mcp/editor#main" data-kept=(kept(is_an_answer)) {
            (shell::csrf(who))
            (hidden(&[("server", &draft.server)]))
            @if draft.server.is_empty() { (line("id", words::ID, words::ID_HELP, &draft.id, wrongs)) }
            (check("enabled", words::ENABLED, draft.enabled.is_some()))
            (choice("transport", words::TRANSPORT, "", &words::TRANSPORTS, &draft.transport, wrongs))
            (area("command", words::COMMAND, words::COMMAND_HELP, &draft.command, wrongs))
            (line("cwd", words::CWD, words::CWD_HELP, &draft.cwd, wrongs))
            (area("env", words::ENV, words::ENV_HELP, &draft.env, wrongs))
            (line("url", words::URL, words::URL_HELP, &draft.url, wrongs))
            (area("headers", words::HEADERS, words::HEADERS_HELP, &draft.headers, wrongs))
            (line("bearer_token", words::TOKEN, words::TOKEN_HELP, &draft.bearer_token, wrongs))
            (choice("access", words::ACCESS, words::ACCESS_HELP, &named(Category::LABELS), &draft.access, wrongs))
            (choice("risk_domain", words::RISK, "", &named(RiskDomain::LABELS), &draft.risk_domain, wrongs))
            (more(draft, wrongs))
            div.act {
                button name="action" value="look" { (words::LOOK) }
                p.soft { (words::LOOK_HELP) }
            }
        }
    }
}

/// What most servers do without: folded, unless something is wrong with it.
fn more(draft: &Draft, wrongs: &[Wrong]) -> Markup {
    let numbers = [
        ("timeout_ms", words::TIMEOUT, words::MS_HELP, &draft.timeout_ms),
        ("start_timeout_ms", words::START_TIMEOUT, words::MS_HELP, &draft.start_timeout_ms),
        ("slow_response_threshold_ms", words::SLOW, words::MS_HELP, &draft.slow_response_threshold_ms),
        ("slow_response_message", words::SLOW_MESSAGE, "", &draft.slow_response_message),
        ("max_restarts", words::MAX_RESTARTS, "", &draft.max_restarts),
        ("backoff_ms", words::BACKOFF, words::MS_HELP, &draft.backoff_ms),
    ];
    let is_wrong =
        wrongs.iter().any(|wrong| wrong.field == "tools" || numbers.iter().any(|number| number.0 == wrong.field));
    html! {
        details.card.trial open[is_wrong] {
            summary { (words::MORE) }
            @for (id, label, help, text) in numbers { (number(id, label, help, text, wrongs)) }
            (check("restart", words::RESTART, draft.restart.is_some()))
            (area("tools", words::TOOLS, words::TOOLS_HELP, &draft.tools, wrongs))
        }
    }
}

fn number(id: &str, label: &str, help: &str, text: &str, wrongs: &[Wrong]) -> Markup {
    field(id, label, help, wrongs, &|described, wrong| {
        html! { input #(id) name=(id) value=(text) autocomplete="off" aria-describedby=(described) aria-invalid=[wrong]; }
    })
}

fn ask(who: &Who, draft: &Draft) -> Markup {
    html! {
        form.act.delete method="post" action="/mcp/editor#main" {
            (shell::csrf(who))
            (hidden(&draft.fields()))
            button.danger name="action" value="look_remove" { (words::REMOVE) }
            p.soft { (words::REMOVE_HELP) }
        }
    }
}
