//! The editor of declarative tools: made, changed, tried and deleted by admins.

use super::{
    address,
    draft::{Action, Draft, PARTS, field_of},
    encoded,
    one::pretty,
    words,
};
use crate::http::{
    api::Params,
    login::Who,
    pages::{
        form::{Wrong, area, check, field, hidden, kept, line, summary},
        shell, text,
    },
    site::App,
    tools_api::{Problem, Seen, StoreError, TrialError, sentence},
};
use axum::{
    Form,
    extract::{State, rejection::FormRejection},
    http::StatusCode,
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub struct Wanted {
    tenant: String,
    tool: Option<String>,
}

/// What is told besides the form.
#[derive(Default)]
struct Told {
    notice: Option<Markup>,
    problems: Vec<Problem>,
    trace: Option<Value>,
}

impl Told {
    fn problems(problems: Vec<Problem>) -> Self {
        Self { problems, ..Self::default() }
    }

    /// The form is what somebody sent, and nothing of it is kept.
    fn is_an_answer(&self) -> bool {
        self.notice.is_some() || !self.problems.is_empty() || self.trace.is_some()
    }

    fn bad(what: &str) -> Self {
        Self { notice: Some(html! { p { (text::sentence(what)) } }), ..Self::default() }
    }
}

/// Without a tool in the address: a new one.
pub async fn page(
    State(app): State<App>,
    who: Who,
    Params(Wanted { tenant, tool }): Params<Wanted>,
) -> Result<Response, Response> {
    known(&app, &who, &tenant)?;
    let Some(tool) = tool else { return Ok(show(&who, StatusCode::OK, &Draft::new(tenant), Told::default())) };
    match app.tools.get(&tenant, &tool).await {
        Ok(found) => Ok(show(&who, StatusCode::OK, &Draft::of(tenant, found), Told::default())),
        Err(StoreError::Unreadable) => {
            let draft = Draft { name: tool.clone(), tool, ..Draft::new(tenant) };
            Ok(show(&who, StatusCode::OK, &draft, Told::bad(words::UNREADABLE)))
        }
        Err(error) => {
            let (status, why) = sentence(&error);
            Err(shell::refusal(&who, status, &text::sentence(why)))
        }
    }
}

fn known(app: &App, who: &Who, tenant: &str) -> Result<(), Response> {
    let is_known = app.tools.tenants().iter().any(|known| known == tenant);
    is_known.then_some(()).ok_or_else(|| shell::refusal(who, StatusCode::NOT_FOUND, words::NO_SUCH_TENANT))
}

pub async fn act(
    State(app): State<App>,
    who: Who,
    form: Result<Form<Draft>, FormRejection>,
) -> Result<Response, Response> {
    let Form(draft) = form.map_err(|rejection| {
        let why = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => words::TOO_LONG,
            _ => words::WRONG_KIND,
        };
        shell::refusal(&who, rejection.status(), why)
    })?;
    let Some(action) = draft.action else {
        return Err(shell::refusal(&who, StatusCode::BAD_REQUEST, text::LOG_IN_INCOMPLETE));
    };
    known(&app, &who, &draft.tenant)?;
    Ok(match action {
        Action::Save => save(&app, &who, &draft).await,
        Action::Try => try_out(&app, &who, &draft).await,
        Action::Delete => delete(&app, &who, &draft).await,
    })
}

/// Against changes of somebody else. A file that was not readable had no version.
fn seen(draft: &Draft) -> Seen {
    if draft.version.is_empty() { Seen::Any } else { Seen::OneOf(vec![draft.version.clone()]) }
}

async fn save(app: &App, who: &Who, draft: &Draft) -> Response {
    let definition = match draft.definition() {
        Ok(definition) => definition,
        Err(problems) => return show(who, StatusCode::UNPROCESSABLE_ENTITY, draft, Told::problems(problems)),
    };
    let kept = if draft.tool.is_empty() {
        app.tools.create(&draft.tenant, definition).await
    } else {
        app.tools.replace(&draft.tenant, &draft.tool, definition, seen(draft)).await
    };
    match kept {
        Ok(tool) => Redirect::to(&address(&draft.tenant, &tool.name)).into_response(),
        Err(error) => refused(who, draft, error),
    }
}

async fn delete(app: &App, who: &Who, draft: &Draft) -> Response {
    match app.tools.delete(&draft.tenant, &draft.tool, seen(draft)).await {
        Ok(()) => Redirect::to(&format!("/tools?tenant={}", encoded(&draft.tenant))).into_response(),
        // The form to delete has no definition in it: what is kept is shown with the reason.
        Err(error) => match app.tools.get(&draft.tenant, &draft.tool).await {
            Ok(found) => refused(who, &Draft::of(draft.tenant.clone(), found), error),
            Err(error) => {
                let (status, why) = sentence(&error);
                shell::refusal(who, status, &text::sentence(why))
            }
        },
    }
}

async fn try_out(app: &App, who: &Who, draft: &Draft) -> Response {
    let (definition, trial) = match (draft.definition(), draft.trial()) {
        (Ok(definition), Ok(trial)) => (definition, trial),
        (definition, trial) => {
            let problems = [definition.err(), trial.err()].into_iter().flatten().flatten().collect();
            return show(who, StatusCode::UNPROCESSABLE_ENTITY, draft, Told::problems(problems));
        }
    };
    match app.trials.run(app.tools.try_out(&draft.tenant, definition, trial)).await {
        Ok(trace) => show(who, StatusCode::OK, draft, Told { trace: Some(trace), ..Told::default() }),
        Err(TrialError::Busy) => show(who, StatusCode::TOO_MANY_REQUESTS, draft, Told::bad(TrialError::BUSY)),
        Err(TrialError::Slow) => show(who, StatusCode::GATEWAY_TIMEOUT, draft, Told::bad(TrialError::SLOW)),
        Err(TrialError::Store(error)) => refused(who, draft, error),
    }
}

/// The form as it was sent, and why nothing came of it.
fn refused(who: &Who, draft: &Draft, error: StoreError) -> Response {
    let (status, why) = sentence(&error);
    match error {
        StoreError::Invalid(problems) => show(who, status, draft, Told::problems(problems)),
        StoreError::Changed => {
            let notice = html! { p { (words::CHANGED) " " a href=(editor(draft)) { (words::OPEN_ANEW) } } };
            show(who, StatusCode::CONFLICT, draft, Told { notice: Some(notice), ..Told::default() })
        }
        _ => show(who, status, draft, Told::bad(why)),
    }
}

/// Where this tool is edited.
fn editor(draft: &Draft) -> String {
    let tool = if draft.tool.is_empty() { String::new() } else { format!("&tool={}", encoded(&draft.tool)) };
    format!("/tool-editor?tenant={}{tool}", encoded(&draft.tenant))
}

fn show(who: &Who, status: StatusCode, draft: &Draft, told: Told) -> Response {
    let is_new = draft.tool.is_empty();
    let title = if is_new { words::NEW_TITLE } else { draft.tool.as_str() };
    let main = html! {
        p.path {
            @if is_new { a href={ "/tools?tenant=" (encoded(&draft.tenant)) } { (text::TOOLS) } }
            @else { a href=(address(&draft.tenant, &draft.tool)) { (draft.tool) } }
        }
        div.title { h1 { @if is_new { (title) } @else { (words::EDIT) " " code { (title) } } } }
        p.soft { (words::TENANT) ": " (draft.tenant) }
        @if let Some(notice) = &told.notice { div.notice.bad role="alert" { (notice) } }
        (summary(words::PROBLEMS, &wrongs(&told.problems)))
        (form(who, draft, &told))
        @if !is_new { (ask(who, draft)) }
    };
    (status, shell::page(who, "/tools", title, &main)).into_response()
}

fn wrongs(problems: &[Problem]) -> Vec<Wrong> {
    let wrong = |problem: &Problem| Wrong {
        field: field_of(problem).to_owned(),
        path: problem.path.clone(),
        message: problem.message.clone(),
        hint: problem.hint.clone(),
    };
    problems.iter().map(wrong).collect()
}

fn form(who: &Who, draft: &Draft, told: &Told) -> Markup {
    let problems = &wrongs(&told.problems);
    let names = [
        (words::PARAMETERS, words::PARAMETERS_HELP),
        (words::ACTIONS, words::ACTIONS_HELP),
        (words::ON_SUCCESS, words::ON_SUCCESS_HELP),
        (words::ON_FAILURE, words::ON_SUCCESS_HELP),
        (words::POLICY, words::EDITOR_POLICY_HELP),
    ];
    html! {
        form.sheet method="post" action="/tool-editor" data-kept=(kept(told.is_an_answer())) {
            (shell::csrf(who))
            (hidden(&[("tenant", &draft.tenant), ("tool", &draft.tool), ("version", &draft.version)]))
            @if draft.tool.is_empty() {
                (line("name", words::EDITOR_NAME, words::NAME_HELP, &draft.name, problems))
            }
            (field("description", words::DESCRIPTION, words::DESCRIPTION_HELP, problems, &|described, wrong| html! {
                textarea #description name="description" rows="2" aria-describedby=(described) aria-invalid=[wrong] { (draft.description) }
            }))
            @for (part, (label, help)) in PARTS.into_iter().zip(names) { (area(part, label, help, draft.part(part), problems)) }
            div.act {
                button name="action" value="save" { (words::SAVE) }
                p.soft { (words::SAVE_HELP) }
            }
            section.card.trial #trial aria-labelledby="dry-run" {
                h2 #dry-run { (words::DRY_RUN) }
                p.soft { (words::DRY_RUN_HELP) }
                (area("params", words::PARAMS, words::PARAMS_HELP, &draft.params, problems))
                (area("user", words::USER, words::USER_HELP, &draft.user, problems))
                (check("live", words::LIVE, draft.live.is_some()))
                button.quiet name="action" value="try" formaction="/tool-editor#trial" { (words::TRY) }
                @if let Some(trace) = &told.trace { (report(trace)) }
            }
        }
    }
}

fn ask(who: &Who, draft: &Draft) -> Markup {
    html! {
        details.delete {
            summary.button.danger { (words::DELETE) }
            form.card method="post" action="/tool-editor" {
                (shell::csrf(who))
                (hidden(&[("tenant", &draft.tenant), ("tool", &draft.tool), ("version", &draft.version)]))
                p { (words::DELETE_HELP) }
                button.danger name="action" value="delete" { (words::DELETE_NOW) }
            }
        }
    }
}

/// What came of a dry run.
fn report(trace: &Value) -> Markup {
    let (outcome, steps) = (&trace["outcome"], trace["trace"].as_array().map(Vec::as_slice).unwrap_or_default());
    let ok = outcome["ok"] == true;
    let error = trace["error"].as_str();
    let message = outcome["message"].as_str().or_else(|| outcome["error"]["message"].as_str()).or(error);
    let unsent = trace["live"] == false && steps.iter().any(|step| step["type"] == "api_call");
    let missing: Vec<&str> = trace["missing"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    html! {
        div.report role="status" {
            p { strong { @if ok { (words::RAN) } @else { (words::RAN_NOT) } } }
            @if let Some(message) = message { p { (words::RESULT) ": " (message) } }
            @if unsent { p.notice { (words::NOT_CALLED) } }
            @if !missing.is_empty() {
                p.soft { (words::EMPTY) @for (index, path) in missing.iter().enumerate() { @if index > 0 { "," } " " code { (path) } } "." }
            }
            h3 { (words::STEPS) }
            @if steps.is_empty() { p.soft { (words::NO_STEPS) } } @else {
                ol.steps { @for step in steps { li { (one_step(step)) } } }
            }
            details { summary { (words::AS_JSON) } pre.code tabindex="0" { (pretty(trace)) } }
        }
    }
}

fn one_step(step: &Value) -> Markup {
    let text = |name: &str| step[name].as_str().unwrap_or_default();
    let worked = step["success"] == true;
    html! {
        span.tag.normal[worked].provider[!worked] { code { (text("action")) } " " (text("type")) }
        @if let Some(spoken) = step["spoken"].as_str() { p { (spoken) } }
        @if let Some(error) = step.get("error") { pre.code tabindex="0" { (pretty(error)) } }
        @if let Some(data) = step.get("data") { pre.code tabindex="0" { (pretty(data)) } }
    }
}
