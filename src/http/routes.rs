//! The one list of addresses: each with its door, and those of the API with what the document says of them.
//!
//! An address that is not added here does not exist, so none can be without a door.

use super::{
    login::{Door, admit},
    site::{App, BODY_BYTES_MAX},
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
    /// The longest body.
    pub bytes_max: usize,
    /// Of the API.
    pub doc: Option<Doc>,
}

/// What the document says of an address.
#[derive(Debug, Default)]
pub(super) struct Doc {
    pub summary: &'static str,
    pub query: Option<SchemaOf>,
    pub body: Option<SchemaOf>,
    /// Where it is longer than most.
    pub bytes_max: Option<usize>,
    /// Headers that a request must have: each with what it says.
    pub headers: Vec<(&'static str, &'static str)>,
    pub answers: Vec<(u16, &'static str, Content)>,
    /// Errors that only this address has.
    pub refusals: Vec<(u16, &'static str)>,
    /// Whether programs are refused, whatever the role of their token is.
    pub accounts_alone: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    Nothing,
    Json(SchemaOf),
    /// Server-sent events: their names, and the JSON in their data.
    Events(&'static [(&'static str, SchemaOf)]),
    /// A file of this media type.
    File(&'static str),
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

    pub fn at_most(mut self, bytes_max: usize) -> Self {
        self.bytes_max = Some(bytes_max);
        self
    }

    pub fn header(mut self, name: &'static str, what: &'static str) -> Self {
        self.headers.push((name, what));
        self
    }

    pub fn answer(mut self, status: u16, what: &'static str, content: Content) -> Self {
        self.answers.push((status, what, content));
        self
    }

    pub fn for_accounts_alone(mut self) -> Self {
        self.accounts_alone = true;
        self.refusal(403, "The role does not suffice, a token asks, or the request comes from another site.")
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
        self.add(Listed { method, path, door, bytes_max: BODY_BYTES_MAX, doc: None }, handler);
    }

    /// A form that may hold more than a few words.
    pub fn long_form<H: Handler<T, App>, T: 'static>(
        &mut self,
        path: &'static str,
        door: Door,
        bytes_max: usize,
        handler: H,
    ) {
        self.add(Listed { method: Method::POST, path, door, bytes_max, doc: None }, handler);
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
        let bytes_max = doc.bytes_max.unwrap_or(BODY_BYTES_MAX);
        self.add(Listed { method, path, door, bytes_max, doc: Some(doc) }, handler);
    }

    fn add<H: Handler<T, App>, T: 'static>(&mut self, listed: Listed, handler: H) {
        // `GET` answers `HEAD` as well; a method that is none would be a mistake in this program.
        let filter = MethodFilter::try_from(listed.method.clone()).unwrap_or(MethodFilter::GET);
        let admit = from_fn_with_state((self.app.clone(), listed.door, listed.bytes_max), admit);
        let limit = DefaultBodyLimit::max(listed.bytes_max);
        let method = on(filter, handler).route_layer(admit).route_layer(limit);
        self.router = std::mem::take(&mut self.router).route(listed.path, method);
        self.listed.push(listed);
    }

    pub fn into_parts(self) -> (Router<App>, Vec<Listed>) {
        (self.router, self.listed)
    }
}
