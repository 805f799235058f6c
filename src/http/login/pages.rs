//! Logging in and out, by a form or by the API.

use super::{
    accounts::Role,
    door::{Refused, Who},
    sessions::LIFE_MAX,
};
use crate::http::{
    api::Body,
    pages::{self, text},
    problem,
    site::App,
};
use axum::{
    Form, Json,
    extract::{
        FromRequest as _, Query, Request, State,
        rejection::{FormRejection, QueryRejection},
    },
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Redirect, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

/// Where somebody wanted to go before the log-in came in between.
#[derive(Deserialize, Default)]
pub(in crate::http) struct Wanted {
    next: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(in crate::http) struct Credentials {
    name: String,
    password: String,
}

#[derive(Deserialize)]
struct LogInForm {
    name: String,
    password: String,
    next: Option<String>,
}

/// Who is logged in.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct Session {
    name: String,
    role: Role,
    /// To be sent as `X-CSRF-Token` with every request of this session that changes something. Empty where a token is
    /// shown, which needs none.
    csrf_token: String,
}

pub(in crate::http) async fn log_in_page(
    State(app): State<App>,
    who: Option<Who>,
    wanted: Result<Query<Wanted>, QueryRejection>,
    parts: Parts,
) -> Response {
    let next = wanted.ok().and_then(|Query(wanted)| wanted.next);
    if who.is_some() {
        return Redirect::to(&own_path(next.as_deref())).into_response();
    }
    pages::log_in(StatusCode::OK, next.as_deref(), None, &rescue(&app, &parts).await)
}

/// How somebody gets in who has no password. Where the file of accounts is, is told on its machine alone.
async fn rescue(app: &App, parts: &Parts) -> String {
    if !app.gatekeeper.is_local(parts) {
        return "offhook account password admin".to_owned();
    }
    let accounts = Arc::clone(&app.gatekeeper.accounts);
    // It may read the file.
    tokio::task::spawn_blocking(move || accounts.rescue()).await.unwrap_or_default()
}

pub(in crate::http) async fn log_in(State(app): State<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let visitor = app.gatekeeper.visitor(&parts);
    let rescue = rescue(&app, &parts).await;
    let form: Result<Form<LogInForm>, FormRejection> = Form::from_request(Request::from_parts(parts, body), &app).await;
    let Ok(Form(form)) = form else {
        return pages::log_in(StatusCode::BAD_REQUEST, None, Some(text::LOG_IN_INCOMPLETE), &rescue);
    };
    let next = form.next.as_deref();
    let name = form.name.trim();
    match app.gatekeeper.try_password(&visitor, name, form.password).await {
        Ok(id) => logged_in(Redirect::to(&own_path(next)).into_response(), &app, &id, name),
        Err(refused) => {
            let (status, why) = refused.words();
            refused.wait(pages::log_in(status, next, Some(why), &rescue))
        }
    }
}

pub(in crate::http) async fn log_out(State(app): State<App>, who: Who) -> Response {
    end(&app, &who);
    with_cookie(Redirect::to("/login").into_response(), &app, "", Duration::ZERO)
}

/// `POST /api/v1/login`
pub(in crate::http) async fn log_in_by_api(State(app): State<App>, request: Request) -> Result<Response, Response> {
    let (parts, body) = request.into_parts();
    let visitor = app.gatekeeper.visitor(&parts);
    let Body(Credentials { name, password }) = Body::from_request(Request::from_parts(parts, body), &app).await?;
    let id = app.gatekeeper.try_password(&visitor, &name, password).await.map_err(|refused| {
        let (status, why) = refused.words();
        refused.wait(problem(status, why))
    })?;
    let who = app.gatekeeper.by_id(&id).ok_or_else(|| problem(StatusCode::UNAUTHORIZED, text::LOG_IN_WRONG))?;
    Ok(logged_in(session(who).await.into_response(), &app, &id, &name))
}

/// `POST /api/v1/logout`
pub(in crate::http) async fn log_out_by_api(State(app): State<App>, who: Who) -> Response {
    end(&app, &who);
    with_cookie(StatusCode::NO_CONTENT.into_response(), &app, "", Duration::ZERO)
}

/// `GET /api/v1/session`
pub(in crate::http) async fn session(who: Who) -> Json<Session> {
    Json(Session { csrf_token: who.csrf().to_owned(), role: who.role, name: who.name })
}

fn end(app: &App, who: &Who) {
    if let Some(key) = who.key() {
        app.gatekeeper.sessions.end(key);
    }
}

/// With the session, and the mark by which the browser is known at the next log-in.
fn logged_in(answer: Response, app: &App, id: &str, name: &str) -> Response {
    let mut answer = with_cookie(answer, app, id, LIFE_MAX);
    if let Some(cookie) = app.gatekeeper.device_cookie(name) {
        answer.headers_mut().append(header::SET_COOKIE, cookie);
    }
    answer
}

fn with_cookie(mut answer: Response, app: &App, id: &str, life: Duration) -> Response {
    answer.headers_mut().insert(header::SET_COOKIE, app.gatekeeper.cookie(id, life));
    answer
}

impl Refused {
    fn words(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Wrong => (StatusCode::UNAUTHORIZED, text::LOG_IN_WRONG),
            Self::TooMany(_) => (StatusCode::TOO_MANY_REQUESTS, text::LOG_IN_TOO_MANY),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, text::LOG_IN_BUSY),
        }
    }

    fn wait(&self, mut answer: Response) -> Response {
        if let Self::TooMany(wait) = self {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        answer
    }
}

/// Nowhere but to one of our own pages.
fn own_path(next: Option<&str>) -> String {
    let own = |next: &&str| {
        let plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        plain && next.starts_with('/') && !next.starts_with("//") && !next.starts_with("/login")
    };
    next.filter(own).unwrap_or("/").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_log_in_one_is_nowhere_else() {
        assert_eq!(own_path(Some("/history?words=a%20b&number=7")), "/history?words=a%20b&number=7");
        for foreign in
            ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "", "/a\r\nSet-Cookie: a=b", "/login"]
        {
            assert_eq!(own_path(Some(foreign)), "/", "{foreign}");
        }
    }
}
