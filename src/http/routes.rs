//! The one list of addresses: each with its door, and those of the API with what the document says of them.
//!
//! An address that is not added here does not exist, so none can be without a door.

use super::{
    login::{Door, admit},
    site::App,
};
use axum::{
    Router,
    extract::DefaultBodyLimit,
    handler::Handler,
    http::Method,
    middleware::from_fn_with_state,
    routing::{MethodFilter, on},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// A form or a few words of JSON.
const BODY_BYTES_MAX: usize = 8 * 1024;
/// A definition of a tool, of which a form sends up to three bytes for each.
const DEFINITION_FORM_BYTES_MAX: usize = 384 * 1024;

/// The longest body that an address takes.
fn body_bytes_max(path: &str) -> usize {
    let is_definition = path == "/tool-editor" || path.starts_with("/api/v1/tenants/");
    if is_definition { DEFINITION_FORM_BYTES_MAX } else { BODY_BYTES_MAX }
}

pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

pub(super) struct Routes {
    app: App,
    router: Router<App>,
    listed: Vec<Listed>,
}

/// One address with one method.
#[derive(Debug)]
pub(super) struct Listed {
    pub method: Method,
    pub path: &'static str,
    pub door: Door,
    /// Of the API.
    pub doc: Option<Doc>,
}

/// What the document says of an address.
#[derive(Debug, Default)]
pub(super) struct Doc {
    pub summary: &'static str,
    pub query: Option<SchemaOf>,
    pub body: Option<SchemaOf>,
    pub answers: Vec<(u16, &'static str, Content)>,
    /// Errors that only this address has.
    pub refusals: Vec<(u16, &'static str)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    Nothing,
    Json(SchemaOf),
    /// Server-sent events, whose data is JSON.
    Events,
    /// JSON, or another media type when it is asked for.
    Either(SchemaOf, &'static [&'static str]),
}

/// How a type looks in the document.
pub(super) fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Doc {
    pub fn new(summary: &'static str) -> Self {
        Self { summary, ..Self::default() }
    }

    pub fn query<T: JsonSchema>(mut self) -> Self {
        // Its fields are told one by one, not under the type's name.
        self.query = Some(|generator| T::json_schema(generator));
        self
    }

    pub fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(schema::<T>);
        self
    }

    pub fn answer(mut self, status: u16, what: &'static str, content: Content) -> Self {
        self.answers.push((status, what, content));
        self
    }

    pub fn refusal(mut self, status: u16, what: &'static str) -> Self {
        self.refusals.push((status, what));
        self
    }
}

impl Routes {
    pub fn new(app: App) -> Self {
        Self { app, router: Router::new(), listed: Vec::new() }
    }

    /// A page, or what belongs to one.
    pub fn page<H: Handler<T, App>, T: 'static>(&mut self, method: Method, path: &'static str, door: Door, handler: H) {
        self.add(Listed { method, path, door, doc: None }, handler);
    }

    /// An address of the API.
    pub fn api<H: Handler<T, App>, T: 'static>(
        &mut self,
        method: Method,
        path: &'static str,
        door: Door,
        handler: H,
        doc: Doc,
    ) {
        self.add(Listed { method, path, door, doc: Some(doc) }, handler);
    }

    fn add<H: Handler<T, App>, T: 'static>(&mut self, listed: Listed, handler: H) {
        // `GET` answers `HEAD` as well; a method that is none would be a mistake in this program.
        let filter = MethodFilter::try_from(listed.method.clone()).unwrap_or(MethodFilter::GET);
        let bytes_max = body_bytes_max(listed.path);
        let admit = from_fn_with_state((self.app.clone(), listed.door, bytes_max), admit);
        let method = on(filter, handler).layer(DefaultBodyLimit::max(bytes_max)).route_layer(admit);
        self.router = std::mem::take(&mut self.router).route(listed.path, method);
        self.listed.push(listed);
    }

    pub fn listed(&self) -> &[Listed] {
        &self.listed
    }

    pub fn into_router(self) -> Router<App> {
        self.router
    }
}
