//! What the page and the API are made of, and how they are put together.

use super::{
    api,
    configuration::Configurations,
    guard,
    login::{Accounts, Door, Gatekeeper, Role, log_in, log_in_page, log_out},
    pages, plain, problem,
    routes::Routes,
    tools_api::{ToolStore, Trials},
    view::EngineView,
};
use crate::{records::Reader, telemetry::Definition};
use axum::{
    Router,
    http::{Method, StatusCode},
    middleware::from_fn,
};
use prometheus::{IntCounterVec, IntGauge, Registry};
use secrecy::SecretString;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A form or a few words of JSON; what takes more says so.
pub(super) const BODY_BYTES_MAX: usize = 8 * 1024;

const LOGINS: Definition = Definition::labelled(
    "offhook_logins_total",
    &["outcome"],
    "Attempts to log in to the page: done, refused (a wrong name or password), limited (too many from one network, at one \
     name from there, from networks where nobody has logged in, or at once).",
);
const PUBLICATIONS: Definition = Definition::labelled(
    "offhook_configuration_publications_total",
    &["outcome"],
    "Attempts to publish a configuration by the page or the API: done, conflict (it had changed meanwhile), refused (it has \
     problems, or may not be changed here), failed (it could not be written).",
);
const SESSIONS: Definition = Definition::new("offhook_page_sessions", "Browsers that are logged in to the page.");
const WATCHERS: Definition =
    Definition::new("offhook_page_watchers", "Browsers and programs that watch calls live, each over a connection.");

/// Of one engine's page.
#[derive(Debug, Clone)]
pub struct HttpCounters {
    logins: IntCounterVec,
    publications: IntCounterVec,
    pub(super) sessions: IntGauge,
    pub(super) watchers: IntGauge,
}

impl HttpCounters {
    pub fn new(registry: &Registry) -> Self {
        let logins = LOGINS.register_counters(registry);
        for outcome in ["done", "refused", "limited"] {
            logins.with_label_values(&[outcome]);
        }
        let publications = PUBLICATIONS.register_counters(registry);
        for outcome in ["done", "conflict", "refused", "failed"] {
            publications.with_label_values(&[outcome]);
        }
        Self {
            logins,
            publications,
            sessions: SESSIONS.register_int_gauge(registry),
            watchers: WATCHERS.register_int_gauge(registry),
        }
    }

    pub(super) fn publication(&self, outcome: &'static str) {
        self.publications.with_label_values(&[outcome]).inc();
    }

    pub(super) fn login(&self, outcome: &'static str) {
        self.logins.with_label_values(&[outcome]).inc();
    }
}

/// What the page shows, and who may see it.
pub struct Site {
    pub view: Arc<dyn EngineView>,
    pub configuration: Arc<dyn Configurations>,
    /// `None`: no records are kept.
    pub history: Option<Reader>,
    /// The tenants' declarative tools.
    pub tools: Arc<dyn ToolStore>,
    pub accounts: Arc<Accounts>,
    pub admin_token: Option<SecretString>,
    /// An origin, where that is not the address that the engine listens at.
    pub public_url: Option<String>,
    /// That the engine listens at.
    pub port: u16,
    pub counters: HttpCounters,
}

/// What every handler is given.
#[derive(Clone)]
pub(super) struct App {
    pub view: Arc<dyn EngineView>,
    pub configuration: Arc<dyn Configurations>,
    pub history: Option<Reader>,
    pub tools: Arc<dyn ToolStore>,
    pub trials: Arc<Trials>,
    pub gatekeeper: Arc<Gatekeeper>,
    /// One permit: two reloads at once would race for the same file.
    pub reloading: Arc<Semaphore>,
    /// One permit: an examination places calls.
    pub examining: Arc<Semaphore>,
    pub live: Arc<api::live::Feed>,
    pub document: Arc<api::openapi::Document>,
}

impl App {
    pub fn new(site: Site) -> Self {
        let Site { view, configuration, history, tools, accounts, admin_token, public_url, port, counters } = site;
        let bearer = guard::Bearer::new(admin_token.as_ref());
        let live = Arc::new(api::live::Feed::new(counters.watchers.clone()));
        Self {
            view,
            configuration,
            history,
            tools,
            trials: Arc::default(),
            gatekeeper: Arc::new(Gatekeeper::new(accounts, bearer, public_url, port, counters)),
            reloading: Arc::new(Semaphore::new(1)),
            examining: Arc::new(Semaphore::new(1)),
            live,
            document: Arc::default(),
        }
    }
}

/// Every address with its door.
pub(super) fn routes(app: &App) -> Routes {
    let mut routes = Routes::new(app.clone());
    plain::add(&mut routes);
    routes.page(Method::GET, "/login", Door::Anybody, log_in_page);
    routes.page(Method::POST, "/login", Door::Anybody, log_in);
    routes.page(Method::POST, "/logout", Door::Page(Role::Viewer), log_out);
    pages::add(&mut routes);
    api::add(&mut routes);
    routes
}

/// The page and the API over one engine.
pub fn router(site: Site) -> Router {
    let app = App::new(site);
    let (router, listed) = routes(&app).into_parts();
    app.document.is_of(listed);
    router
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is no such page") })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "this address takes another method; see the Allow header")
        })
        .layer(from_fn(guard::every_answer))
        .layer(from_fn(pages::readable_errors))
        .with_state(app)
}
