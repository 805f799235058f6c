//! The one door in front of every address but those for machines.

use super::{
    accounts::{Accounts, Role},
    attempts::{Attempts, Origin},
    password,
    sessions::{Found, Key, Sessions, is_same},
    tokens::Shown,
};
use crate::{
    connections::network,
    http::{
        HttpCounters,
        guard::{self, Bearer},
        problem,
        serve::Peer,
        site::App,
    },
};
use axum::{
    body::{Body, to_bytes},
    extract::{ConnectInfo, FromRequestParts, OptionalFromRequestParts, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Redirect, Response},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD, Engine as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::Instant};

/// Where the session's token against forged requests stands.
pub(in crate::http) const CSRF_HEADER: HeaderName = HeaderName::from_static("x-csrf-token");
pub(in crate::http) const CSRF_FIELD: &str = "csrf";

/// Passwords that are tried at the same time: each takes 19 MB and most of a core for a moment, which calls need too.
const TRIALS_AT_ONCE: usize = 2;
/// As long as browsers keep a cookie.
const DEVICE_LIFE: Duration = Duration::from_secs(400 * 86_400);
/// How long an attempt waits for its turn.
const TRIAL_WAIT_MAX: Duration = Duration::from_secs(5);

/// What an address asks of those who come to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Door {
    /// For probes and scrapers, under whatever name the machine has; nothing of calls is told.
    Machines,
    /// For people who have not logged in yet.
    Anybody,
    /// A page; who is not logged in is sent there.
    Page(Role),
    /// The API.
    Api(Role),
    /// Short addresses for scripts: programs on this machine need no token where none is configured and none was made.
    Local(Role),
}

/// Who came through the door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct Who {
    pub name: String,
    pub role: Role,
    session: Option<Found>,
    token: Option<Shown>,
}

impl Who {
    fn program(name: &str) -> Self {
        Self { name: name.to_owned(), role: Role::Admin, session: None, token: None }
    }

    /// For forms and scripts of our own pages; empty for programs.
    pub fn csrf(&self) -> &str {
        self.session.as_ref().map_or("", |session| &session.csrf)
    }

    pub fn may(&self, role: Role) -> bool {
        self.role >= role
    }

    pub(super) fn key(&self) -> Option<&Key> {
        self.session.as_ref().map(|session| &session.key)
    }
}

/// Only behind a door that asks for a role; anywhere else the request is refused.
impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        parts.extensions.get().cloned().ok_or_else(unknown)
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for Who {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}

/// Account that is logged in. A program is refused, whatever its role is: what it could make would outlive its token.
pub(in crate::http) struct LoggedIn(pub Who);

impl<S: Send + Sync> FromRequestParts<S> for LoggedIn {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let who = parts.extensions.get::<Who>().cloned().ok_or_else(unknown)?;
        let is_account = who.session.is_some();
        is_account.then_some(Self(who)).ok_or_else(|| {
            let why = "a token may not do this, whatever its role is: only an account that is logged in may";
            problem(StatusCode::FORBIDDEN, why)
        })
    }
}

/// Everything that decides who comes in.
pub(in crate::http) struct Gatekeeper {
    pub accounts: Arc<Accounts>,
    pub sessions: Sessions,
    pub counters: HttpCounters,
    bearer: Bearer,
    /// An origin, `https://host`.
    public_url: Option<String>,
    cookie: String,
    attempts: Attempts,
    trials: Semaphore,
}

/// Where an attempt to log in comes from.
pub(super) struct Visitor {
    address: IpAddr,
    is_here: bool,
    /// Mark that an earlier log-in left in the browser.
    device: Option<String>,
}

/// Why somebody was not let in.
pub(super) enum Refused {
    Wrong,
    TooMany(Duration),
    Busy,
}

impl Gatekeeper {
    pub fn new(
        accounts: Arc<Accounts>,
        bearer: Bearer,
        public_url: Option<String>,
        port: u16,
        counters: HttpCounters,
    ) -> Self {
        Self {
            accounts,
            sessions: Sessions::new(counters.sessions.clone()),
            bearer,
            public_url,
            // Browsers keep the cookies of all ports of a host together.
            cookie: format!("offhook_{port}"),
            counters,
            attempts: Attempts::new(),
            trials: Semaphore::new(TRIALS_AT_ONCE),
        }
    }

    fn is_secure(&self) -> bool {
        self.public_url.as_deref().is_some_and(|url| url.starts_with("https://"))
    }

    /// The cookie's whole name: with TLS, browsers see to it that nobody else sets it.
    fn cookie_name(&self) -> String {
        if self.is_secure() { format!("__Host-{}", self.cookie) } else { self.cookie.clone() }
    }

    fn device_cookie_name(&self) -> String {
        format!("{}_known", self.cookie_name())
    }

    pub(super) fn cookie(&self, id: &str, life: Duration) -> HeaderValue {
        self.cookie_of(&self.cookie_name(), id, life)
    }

    /// Marks the browser as one of the account's, until its password is changed.
    pub(super) fn device_cookie(&self, name: &str) -> Option<HeaderValue> {
        let account = self.accounts.get(name)?;
        Some(self.cookie_of(&self.device_cookie_name(), &device_mark(name, &account.password), DEVICE_LIFE))
    }

    fn cookie_of(&self, name: &str, id: &str, life: Duration) -> HeaderValue {
        let seconds = life.as_secs();
        let secure = if self.is_secure() { "; Secure" } else { "" };
        let text = format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
        // Names and ids are plain ASCII.
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }

    async fn session(&self, headers: &HeaderMap) -> Option<Who> {
        let id = cookie(headers, &self.cookie_name())?;
        self.accounts.refresh().await;
        self.by_id(id)
    }

    pub(super) fn by_id(&self, id: &str) -> Option<Who> {
        let found = self.sessions.find(id, &self.accounts, Instant::now())?;
        Some(Who { name: found.account.clone(), role: found.role, session: Some(found), token: None })
    }

    /// Whether what somebody has open may stay open.
    pub async fn still(&self, who: &Who) -> bool {
        self.accounts.refresh().await;
        let token = who.token.as_ref().is_none_or(|shown| self.accounts.still_has(shown));
        token && who.key().is_none_or(|key| self.sessions.goes_on(*key, &self.accounts, Instant::now()))
    }

    /// The token goes first: a program that shows a wrong one is not let in by a cookie.
    async fn who(&self, request: &Parts, door: Door) -> Result<Option<Who>, Response> {
        if let Some(token) = guard::bearer_token(&request.headers) {
            if self.bearer.is(token) {
                return Ok(Some(Who::program("token")));
            }
            self.accounts.refresh().await;
            let shown = self.accounts.by_token(token).ok_or_else(unknown)?;
            // An account's name has no colon.
            let name = format!("token:{}", shown.name);
            return Ok(Some(Who { name, role: shown.role, session: None, token: Some(shown) }));
        }
        let who = self.session(&request.headers).await;
        let may_be_local = matches!(door, Door::Local(_)) && !self.bearer.is_configured() && self.is_local(request);
        if who.is_some() || !may_be_local {
            return Ok(who);
        }
        // Tokens for programs take the place of `http.admin_token`.
        self.accounts.refresh().await;
        Ok(self.accounts.has_no_token().then(|| Who::program("local")))
    }

    pub(super) fn visitor(&self, request: &Parts) -> Visitor {
        let device = cookie(&request.headers, &self.device_cookie_name()).map(str::to_owned);
        Visitor { address: self.address(request), is_here: is_here(request), device }
    }

    /// Takes one attempt, and tries the password.
    pub(super) async fn try_password(
        &self,
        visitor: &Visitor,
        name: &str,
        password: String,
    ) -> Result<String, Refused> {
        let now = Instant::now();
        self.accounts.refresh().await;
        let account = self.accounts.get(name);
        let address = network(visitor.address);
        let mark = account.as_ref().map(|account| device_mark(name, &account.password));
        let is_of_owner = mark.zip(visitor.device.as_deref()).is_some_and(|(mark, given)| is_same(given, &mark));
        let origin = match (visitor.is_here, is_of_owner) {
            (true, _) => Origin::Trusted(Sha256::digest(format!("here {name}")).into()),
            (_, true) => Origin::Trusted(Sha256::digest(format!("browser {name}")).into()),
            _ => Origin::Network(address),
        };
        if let Err(wait) = self.attempts.take(name, origin, now) {
            self.counters.login("limited");
            tracing::warn!(%address, "too many attempts to log in; refused for a while");
            return Err(Refused::TooMany(wait));
        }
        let Ok(Ok(_turn)) = tokio::time::timeout(TRIAL_WAIT_MAX, self.trials.acquire()).await else {
            self.counters.login("limited");
            return Err(Refused::Busy);
        };
        let hash = account.as_ref().map(|account| account.password.clone());
        let right = password.len() <= password::BYTES_MAX;
        let tried = tokio::task::spawn_blocking(move || password::is_right(&password, hash.as_deref())).await;
        let (true, Ok(true), Some(account)) = (right, tried, account) else {
            self.counters.login("refused");
            // What was typed as the name may be a password.
            tracing::warn!(%address, "an attempt to log in was refused");
            return Err(Refused::Wrong);
        };
        self.attempts.was_right(name, origin, now);
        self.counters.login("done");
        tracing::info!(account = name, role = account.role.label(), "logged in");
        Ok(self.sessions.begin(name, &account, now))
    }

    /// A program on this machine, and nothing that a server here passes on for somebody else: none stands in front, it says of
    /// nobody that it asks for them, and the name that was asked for is this machine's own.
    pub(super) fn is_local(&self, request: &Parts) -> bool {
        self.public_url.is_none() && is_here(request)
    }

    /// Where a request comes from; what a server in between says counts only where one is configured.
    pub(super) fn address(&self, request: &Parts) -> IpAddr {
        let peer = request.extensions.get::<ConnectInfo<Peer>>().map(|info| info.0.address.ip());
        let peer = peer.unwrap_or(IpAddr::from([0, 0, 0, 0]));
        if self.public_url.is_none() {
            return peer;
        }
        let last = request.headers.get_all(FORWARDED_FOR).iter().next_back().and_then(|value| value.to_str().ok());
        last.and_then(|list| list.rsplit(',').next()?.trim().parse().ok()).unwrap_or(peer)
    }
}

/// From this machine, and not passed on as far as the request tells. A server here that says nothing of those for whom it asks gets no
/// more by it than a limit of its own.
fn is_here(request: &Parts) -> bool {
    let peer = request.extensions.get::<ConnectInfo<Peer>>();
    peer.is_some_and(|peer| peer.0.address.ip().to_canonical().is_loopback())
        && !PASSED_ON.iter().any(|name| request.headers.contains_key(*name))
        && guard::is_loopback(&request.headers)
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.find_map(|cookies| cookies.split(';').find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('=')))
}

/// Only who can read the file of accounts can make it. It lets nobody in: it is for a limit of attempts alone.
fn device_mark(name: &str, password_hash: &str) -> String {
    let hash = Sha256::new()
        .chain_update("offhook browser\0")
        .chain_update(password_hash)
        .chain_update([0])
        .chain_update(name);
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// What servers in between say of those for whom they ask.
const PASSED_ON: [&str; 6] =
    ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "x-real-ip", "via"];

fn unknown() -> Response {
    let mut answer = problem(
        StatusCode::UNAUTHORIZED,
        "this needs a bearer token, of `offhook token` or http.admin_token, or a browser that is logged in",
    );
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

/// In front of each address, with what it asks for.
pub(in crate::http) async fn admit(
    State((app, door, bytes_max)): State<(App, Door, usize)>,
    request: Request,
    next: Next,
) -> Response {
    match passes(&app.gatekeeper, door, bytes_max, request).await {
        Ok(request) => {
            let who = request.extensions().get::<Who>().cloned();
            let mut answer = next.run(request).await;
            // If it is an error, its page is theirs.
            if let Some(who) = who {
                answer.extensions_mut().insert(who);
            }
            answer
        }
        Err(refusal) => refusal,
    }
}

async fn passes(keeper: &Gatekeeper, door: Door, bytes_max: usize, request: Request) -> Result<Request, Response> {
    let role = match door {
        Door::Machines => return Ok(request),
        Door::Anybody => None,
        Door::Page(role) | Door::Api(role) | Door::Local(role) => Some(role),
    };
    let (mut parts, body) = request.into_parts();
    let changes = !parts.method.is_safe();
    let forbidden = |why| problem(StatusCode::FORBIDDEN, why);
    guard::known_host(&parts.headers, keeper.public_url.as_deref()).map_err(forbidden)?;
    if changes {
        guard::same_site(&parts.headers, keeper.public_url.as_deref()).map_err(forbidden)?;
    }
    let Some(who) = keeper.who(&parts, door).await? else {
        return match (role, door) {
            (None, _) => Ok(Request::from_parts(parts, body)),
            (Some(_), Door::Page(_)) if is_for_a_window(&parts) => Err(to_log_in(&parts)),
            (Some(_), _) => Err(unknown()),
        };
    };
    // Its connection is closed last when there are too many.
    if let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<Peer>>() {
        peer.entry.know();
    }
    if role.is_some_and(|role| !who.may(role)) {
        let text = match who.token {
            Some(_) => "this token may not do this; it takes one with another role",
            None => "your account may not do this; it takes one with another role",
        };
        return Err(match door {
            Door::Page(_) => crate::http::pages::refusal(&who, StatusCode::FORBIDDEN, text),
            _ => problem(StatusCode::FORBIDDEN, text),
        });
    }
    let session = who.session.clone();
    parts.extensions.insert(who);
    let request = Request::from_parts(parts, body);
    match session.filter(|_| changes) {
        Some(session) => meant(request, &session, bytes_max).await,
        None => Ok(request),
    }
}

/// A script of a page, whose session is over, has no use for the log-in; what says nothing of its purpose is no browser of
/// today.
fn is_for_a_window(request: &Parts) -> bool {
    request.headers.get("sec-fetch-dest").is_none_or(|purpose| purpose == "document")
}

/// A page that is asked for before the log-in comes after it.
fn to_log_in(request: &Parts) -> Response {
    let wanted = request.uri.path_and_query().map_or("/", |wanted| wanted.as_str());
    if !request.method.is_safe() || wanted == "/" {
        return Redirect::to("/login").into_response();
    }
    let next = utf8_percent_encode(wanted, NON_ALPHANUMERIC);
    Redirect::to(&format!("/login?next={next}")).into_response()
}

/// Requests that change something show the session's token, in a header or in a form.
async fn meant(request: Request, session: &Found, bytes_max: usize) -> Result<Request, Response> {
    let forged = || problem(StatusCode::FORBIDDEN, "the request has not the session's token; load the page again");
    if let Some(given) = request.headers().get(CSRF_HEADER) {
        let same = given.to_str().is_ok_and(|given| is_same(given, &session.csrf));
        return if same { Ok(request) } else { Err(forged()) };
    }
    let form = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    if !form {
        return Err(forged());
    }
    let (mut parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, bytes_max).await else {
        return Err(problem(StatusCode::PAYLOAD_TOO_LARGE, "the form is too long, or could not be read"));
    };
    // Whom the form is for has no use for the token.
    let (tokens, fields): (Vec<_>, Vec<_>) =
        url::form_urlencoded::parse(&body).partition(|(name, _)| name == CSRF_FIELD);
    if !tokens.first().is_some_and(|(_, given)| is_same(given, &session.csrf)) {
        return Err(forged());
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    Ok(Request::from_parts(parts, Body::from(form)))
}
