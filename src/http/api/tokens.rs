//! Tokens of programs: which there are, made and taken back. A token makes and takes back none.

use super::Body;
use crate::http::{
    login::{AccountError, Accounts, ApiToken, Door, LoggedIn, Role},
    problem,
    routes::{Content, Doc, Routes, schema},
    site::App,
};
use axum::{
    Json,
    extract::{Path, State},
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A token that is wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// 1 to 64 letters, digits, dots, hyphens, underscores or at signs: the program that it is for.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    pub role: Role,
}

/// A token that was made.
#[derive(Serialize, JsonSchema)]
struct MadeToken {
    name: String,
    role: Role,
    /// Told once: only its hash is kept.
    token: String,
}

const BUSY: &str = "Another change of the accounts is under way, or their file cannot be written; nothing was changed.";

pub fn add(routes: &mut Routes) {
    let doc = Doc::new("The tokens of programs, without their secrets.").answer(
        200,
        "By their names.",
        Content::Json(schema::<Vec<ApiToken>>),
    );
    routes.api(Method::GET, "/api/v1/tokens", Door::Api(Role::Admin), list, doc);
    let doc = Doc::new("Makes a token for a program, with a role.")
        .body::<NewToken>()
        .answer(201, "The token, told once.", Content::Json(schema::<MadeToken>))
        .for_accounts_alone()
        .refusal(409, "There is a token of this name, or as many as may be.")
        .refusal(503, BUSY);
    routes.api(Method::POST, "/api/v1/tokens", Door::Api(Role::Admin), create, doc);
    let doc = Doc::new("Takes a token back: whoever shows it is refused, and what is open by it ends.")
        .answer(204, "It is taken back.", Content::Nothing)
        .refusal(503, BUSY)
        .for_accounts_alone();
    routes.api(Method::DELETE, "/api/v1/tokens/{token}", Door::Api(Role::Admin), remove, doc);
}

async fn list(State(app): State<App>) -> Json<Vec<ApiToken>> {
    Json(app.gatekeeper.accounts.known_tokens())
}

async fn create(State(app): State<App>, who: LoggedIn, Body(new): Body<NewToken>) -> Result<Response, Response> {
    let (name, role) = (new.name.clone(), new.role);
    let token = make(&app, &who, new).await.map_err(|(status, why)| problem(status, &why))?;
    Ok((StatusCode::CREATED, Json(MadeToken { name, role, token })).into_response())
}

async fn remove(State(app): State<App>, who: LoggedIn, Path(name): Path<String>) -> Result<StatusCode, Response> {
    revoke(&app, &who, name).await.map_err(|(status, why)| problem(status, &why))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reason for no change: a status, and words.
type Unchanged = (StatusCode, String);

/// Makes a token on behalf of somebody, who is named in the log.
///
/// # Errors
/// The name is taken or not one, there are too many tokens, or the file cannot be written.
pub async fn make(app: &App, LoggedIn(who): &LoggedIn, NewToken { name, role }: NewToken) -> Result<String, Unchanged> {
    let by = who.name.clone();
    let make = move |accounts: &Accounts| {
        let token = accounts.add_token(&name, role, Some(&by))?;
        tracing::info!(account = by, token = name, role = role.label(), "a token for a program was made");
        Ok(token)
    };
    change(app, make).await
}

/// Takes a token back on behalf of somebody, who is named in the log.
///
/// # Errors
/// There is no such token, or the file cannot be written.
pub async fn revoke(app: &App, LoggedIn(who): &LoggedIn, name: String) -> Result<(), Unchanged> {
    let by = who.name.clone();
    let revoke = move |accounts: &Accounts| {
        accounts.remove_token(&name)?;
        tracing::info!(account = by, token = name, "the token of a program was taken back");
        Ok(())
    };
    change(app, revoke).await
}

/// On a thread that may wait for the disk. The change goes on where the request is gone meanwhile, so it writes its own log.
async fn change<T: Send + 'static>(
    app: &App,
    change: impl FnOnce(&Accounts) -> Result<T, AccountError> + Send + 'static,
) -> Result<T, Unchanged> {
    let accounts = Arc::clone(&app.gatekeeper.accounts);
    let log = tracing::dispatcher::get_default(Clone::clone);
    let logged = move || tracing::dispatcher::with_default(&log, || change(&accounts));
    let done = tokio::task::spawn_blocking(logged).await;
    let failed = || (StatusCode::INTERNAL_SERVER_ERROR, "the change failed inside the engine; the log says why".into());
    done.map_err(|_| failed())?.map_err(|error| {
        let status = match error {
            AccountError::Name => StatusCode::UNPROCESSABLE_ENTITY,
            AccountError::TokenExists | AccountError::TooManyTokens { .. } => StatusCode::CONFLICT,
            AccountError::UnknownToken => StatusCode::NOT_FOUND,
            _ => {
                tracing::warn!(%error, "the file of accounts cannot be changed");
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        (status, error.to_string())
    })
}
