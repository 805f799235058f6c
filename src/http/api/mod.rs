//! `/api/v1/…`: everything that the page does, for programs. `openapi` writes the document.

mod calls;
pub(super) mod configuration;
pub(super) mod conversations;
mod definitions;
pub(super) mod live;
pub(super) mod mcp_servers;
pub(super) mod openapi;
mod operations;
pub(super) mod private;
pub(super) mod registry;
mod stream;
pub(super) mod tokens;

pub(super) use calls::{Filter, Format, remove, search, time};
pub(super) use operations::{examine, media_test};
pub(super) use stream::{Places, Watcher, watch};

use super::{
    login::{Credentials, Door, Role, Session, log_in_by_api, log_out_by_api, session},
    problem,
    routes::{Content, Doc, Routes, schema},
};
use crate::{
    facts::CallId,
    records::{NoWaveform, ReadError},
};
use axum::{
    Json,
    extract::{FromRequest, FromRequestParts, Path, Query, Request, rejection::JsonRejection},
    http::{Method, StatusCode, request::Parts},
    response::Response,
};
use serde::de::DeserializeOwned;

pub(super) fn add(routes: &mut Routes) {
    let doc = Doc::new("Logs in: the answer sets a cookie, and tells the token that later requests have to show.")
        .body::<Credentials>()
        .answer(200, "Logged in.", Content::Json(schema::<Session>));
    routes.api(Method::POST, "/api/v1/login", Door::Anybody, log_in_by_api, doc);
    let doc = Doc::new("Ends this session.").answer(204, "Logged out.", Content::Nothing);
    routes.api(Method::POST, "/api/v1/logout", Door::Api(Role::Viewer), log_out_by_api, doc);
    let doc = Doc::new("Who asks, and what they may do.").answer(200, "The session.", Content::Json(schema::<Session>));
    routes.api(Method::GET, "/api/v1/session", Door::Api(Role::Viewer), session, doc);
    live::add(routes);
    conversations::add(routes);
    calls::add(routes);
    operations::add(routes);
    registry::add(routes);
    definitions::add(routes);
    configuration::add(routes);
    mcp_servers::add(routes);
    tokens::add(routes);
    let doc = Doc::new("This document.").answer(200, "OpenAPI 3.1.", Content::Json(schema::<serde_json::Value>));
    routes.api(Method::GET, "/api/v1/openapi.json", Door::Api(Role::Viewer), openapi::document, doc);
}

/// A body of JSON; what is none is told where.
pub(super) struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let body: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
        body.map(|Json(body)| Self(body)).map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => problem(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body has to be JSON, with content-type: application/json",
            ),
            status => problem(status, "the body is not the JSON that this address takes"),
        })
    }
}

/// What stands behind the question mark.
pub(super) struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let params = Query::<T>::from_request_parts(parts, state).await;
        params.map(|Query(params)| Self(params)).map_err(|rejection| {
            // The library's words name the parameter and what is wrong with it.
            let text = rejection.body_text();
            let what = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            problem(StatusCode::BAD_REQUEST, &format!("a parameter cannot be read: {what}"))
        })
    }
}

/// The id of a call in an address. What is none names no call.
pub(super) struct Id(pub CallId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let id = text.ok().filter(|Path(text)| text.len() == 36).and_then(|Path(text)| text.parse().ok());
        id.map(|id| Self(CallId(id))).ok_or_else(|| problem(StatusCode::NOT_FOUND, "there is no call of this id"))
    }
}

/// Why a recording cannot be drawn.
pub(super) fn undrawn(why: &NoWaveform) -> Response {
    let status = match why {
        NoWaveform::Unread(error) => return unread(error),
        NoWaveform::Missing => StatusCode::NOT_FOUND,
        NoWaveform::TooLong | NoWaveform::Foreign => StatusCode::UNPROCESSABLE_ENTITY,
    };
    problem(status, &why.to_string())
}

pub(super) fn unread(error: &ReadError) -> Response {
    match error {
        ReadError::Busy => {
            problem(StatusCode::SERVICE_UNAVAILABLE, "too many questions at once; ask again in a moment")
        }
        ReadError::Archive(error) => {
            tracing::warn!(%error, "a question about past calls could not be answered");
            problem(StatusCode::SERVICE_UNAVAILABLE, "the archive of calls does not answer; the log says why")
        }
    }
}
