//! Conversations in writing, to try what a context does.

use super::{Body, Id};
use crate::{
    facts::CallId,
    http::{
        NoConversation, NoWriting,
        login::{Door, Role, Who},
        problem,
        routes::{Content, Doc, Routes, schema},
        site::App,
    },
};
use axum::{
    Json,
    extract::State,
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longer than anybody says at once on a telephone.
pub const TEXT_CHARS_MAX: usize = 2_000;

/// Of a request with one: a letter has up to twelve bytes, in a form as `%F0%9F%90%9D` and in JSON as `\ud83d\udc1d`.
pub const TEXT_BYTES_MAX: usize = 12 * TEXT_CHARS_MAX + 1_024;

type Refused = (StatusCode, &'static str);

/// With whose agent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// A context of the running configuration.
    #[schemars(length(min = 1))]
    pub context: String,
}

/// The call that it is.
#[derive(Debug, Serialize, JsonSchema)]
struct Begun {
    id: CallId,
}

/// What is said.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// At most 2,000 characters, and not only blanks.
    #[schemars(length(min = 1, max = 2000), regex(pattern = r"\S"))]
    pub text: String,
}

pub fn add(routes: &mut Routes) {
    let doc = Doc::new(
        "Begins a conversation in writing with the agent of a context: a call without a telephone, whose agent, tools and \
         records are those of any call, and which ends after ten minutes in which nobody writes. Where it leads is told by \
         the events of the call.",
    )
    .body::<Wish>()
    .answer(201, "It has begun.", Content::Json(schema::<Begun>))
    .refusal(409, "No new calls are taken.")
    .refusal(429, "As many calls run as may.");
    routes.api(Method::POST, "/api/v1/conversations", Door::Api(Role::Admin), begin, doc);
    let doc = Doc::new("What the caller of a conversation in writing writes.")
        .body::<Text>()
        .at_most(TEXT_BYTES_MAX)
        .answer(202, "The agent is told.", Content::Json(schema::<Text>))
        .refusal(409, "The caller of this call speaks.")
        .refusal(429, "Several texts wait to be told.");
    routes.api(Method::POST, "/api/v1/live/{id}/text", Door::Api(Role::Admin), write_on, doc);
}

async fn begin(State(app): State<App>, who: Who, Body(wish): Body<Wish>) -> Response {
    match converse(&app, &who, wish.context).await {
        Ok(id) => (StatusCode::CREATED, Json(Begun { id })).into_response(),
        Err((status, why)) => problem(status, why),
    }
}

async fn write_on(State(app): State<App>, Id(call): Id, Body(text): Body<Text>) -> Response {
    match write(&app, call, &text.text) {
        Ok(()) => (StatusCode::ACCEPTED, Json(text)).into_response(),
        Err((status, why)) => problem(status, why),
    }
}

/// On behalf of somebody, who is named in the log.
///
/// # Errors
/// Why not.
pub async fn converse(app: &App, who: &Who, context: String) -> Result<CallId, Refused> {
    let begun = app.view.converse(context.clone()).await.map_err(|why| match why {
        NoConversation::NoSuchContext => {
            (StatusCode::UNPROCESSABLE_ENTITY, "context is none of the running configuration")
        }
        NoConversation::Draining => (StatusCode::CONFLICT, "no new calls are taken at the moment"),
        NoConversation::Full => {
            (StatusCode::TOO_MANY_REQUESTS, "as many calls run as limits.calls allows; try again when one has ended")
        }
    })?;
    tracing::info!(call_id = %begun, account = who.name, context, "an admin tries a context in writing");
    Ok(begun)
}

/// # Errors
/// Why it reaches nobody.
pub fn write(app: &App, call: CallId, text: &str) -> Result<(), Refused> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > TEXT_CHARS_MAX {
        return Err((StatusCode::UNPROCESSABLE_ENTITY, "text has to have 1 to 2,000 characters"));
    }
    app.view.write(call, text).map_err(|why| match why {
        NoWriting::NotRunning => (StatusCode::NOT_FOUND, "no call of this id is running"),
        NoWriting::Spoken => (StatusCode::CONFLICT, "the caller of this call speaks"),
        NoWriting::TooFast => (StatusCode::TOO_MANY_REQUESTS, "several texts wait to be told; write this one again"),
    })
}
