//! Calls as they happen.

use super::{Body, Id, Places, Watcher, private, stream, watch};
use crate::{
    facts::CallId,
    http::{
        login::{Door, Role, Who},
        problem,
        routes::{Content, Doc, Routes, SchemaOf, schema},
        site::App,
        view::{About, ActiveCall, CallHead, EndedCall, LiveEntry, NoListening, NoTransfer, Readiness},
    },
    records::Counts,
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse as _, Response, sse::Event},
};
use prometheus::IntGauge;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::time::Instant;

/// Endings in a snapshot; the history has all of them.
pub const RECENT_MAX: usize = 20;

/// How things are.
#[derive(Serialize, JsonSchema)]
pub struct Live {
    pub about: About,
    pub ready: bool,
    pub checks: Readiness,
    /// The oldest first.
    pub active: Vec<ActiveCall>,
    /// The newest first, a few of them.
    pub recent: Vec<EndedCall>,
}

/// One running call.
#[derive(Serialize, JsonSchema)]
struct Running {
    #[serde(flatten)]
    call: ActiveCall,
    /// What happened in it, the last 300 things.
    entries: Vec<LiveEntry>,
}

#[derive(Serialize, JsonSchema)]
struct HungUp {
    ended: bool,
}

pub fn add(routes: &mut Routes) {
    let snapshot = Content::Json(schema::<Live>);
    let doc =
        Doc::new("How things are: readiness, running calls, the last endings. Viewers are told no names and numbers.")
            .answer(200, "Now.", snapshot);
    routes.api(Method::GET, "/api/v1/live", Door::Api(Role::Viewer), live, doc);
    let doc = Doc::new("A running call as it is now. Viewers are told no words, names and numbers.").answer(
        200,
        "How it stands, and what happened in it.",
        Content::Json(schema::<Running>),
    );
    routes.api(Method::GET, "/api/v1/live/{id}", Door::Api(Role::Viewer), one, doc);
    let events = Content::Events(&[("live", schema::<Live>)]);
    let doc =
        Doc::new("The same as server-sent events of the name `live`, each the whole of it, five a second at most.")
            .answer(200, "Events, until somebody hangs up.", events);
    routes.api(Method::GET, "/api/v1/events", Door::Api(Role::Viewer), events_of_all, doc);
    let doc = Doc::new(
        "A running call: events of the name `facts`, each how it stands (state, who is heard, counts), of the name `story`, \
         each a list of what happened anew, and a last one of the name `ended`, with its reason. Viewers are told no words, names and numbers.",
    )
    .answer(200, "Events, until the call ends.", Content::Events(&EVENTS_OF_ONE));
    routes.api(Method::GET, "/api/v1/live/{id}/events", Door::Api(Role::Viewer), events_of_one, doc);
    let doc = Doc::new(
        "A running call from now on, as WAV that ends when the call does: the caller on the left, the agent on the right. \
         Digits that are a secret are silent. Four may listen to a call.",
    )
    .answer(200, "The sound.", Content::File("audio/wav"));
    routes.api(Method::GET, "/api/v1/live/{id}/audio", Door::Api(Role::Operator), listen, doc);
    let doc = Doc::new("Where the caller of a running call can be sent to, each with what is said of it.").answer(
        200,
        "The configuration's destinations; none for a call whose audio alone came to the engine.",
        Content::Json(schema::<BTreeMap<String, String>>),
    );
    routes.api(Method::GET, "/api/v1/live/{id}/transfer", Door::Api(Role::Operator), destinations, doc);
    let doc = Doc::new("Sends the caller of a running call somewhere, once the agent has spoken out.")
        .body::<Transfer>()
        .answer(202, "It is told to.", Content::Json(schema::<Transfer>))
        .refusal(409, "The engine has only this call's audio: the dialplan has the call.");
    routes.api(Method::POST, "/api/v1/live/{id}/transfer", Door::Api(Role::Operator), send_on, doc);
    let doc = Doc::new("Ends a running call.").answer(202, "It is told to end.", Content::Json(schema::<HungUp>));
    routes.api(Method::POST, "/api/v1/live/{id}/hangup", Door::Api(Role::Operator), hang_up, doc);
}

const EVENTS_OF_ONE: [(&str, SchemaOf); 3] =
    [("facts", schema::<Facts>), ("story", schema::<Vec<LiveEntry>>), ("ended", ended)];

/// Empty where so many have ended since that the engine does not know the call any more.
fn ended(generator: &mut SchemaGenerator) -> Schema {
    let known = schema::<EndedCall>(generator);
    json_schema!({ "anyOf": [known, { "type": "object", "maxProperties": 0 }] })
}

impl Live {
    /// With `parties`, for those who may know them.
    pub fn now(app: &App, parties: bool) -> Self {
        let (checks, mut calls) = (app.view.readiness(), app.view.calls());
        calls.recent.truncate(RECENT_MAX);
        for ActiveCall { call, .. } in calls.active.iter_mut().filter(|_| parties) {
            call.parties = app.view.parties(call.id);
        }
        let ready = checks.is_ready();
        Self { about: app.view.about(), ready, checks, active: calls.active, recent: calls.recent }
    }
}

/// Snapshots that are made once for all who watch.
pub struct Feed {
    pub places: Places,
    kept: Mutex<HashMap<Shape, Kept>>,
}

/// When it was made, and what it says.
type Kept = (Instant, Arc<str>);

const NOT_RUNNING: &str = "no call of this id is running";

/// Where a caller is sent to.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// A name of the configuration's `destinations`.
    pub destination: String,
}

/// As what a snapshot is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    Json {
        operator: bool,
    },
    /// So many calls of those that run, from the first or from a later one.
    Page {
        operator: bool,
        part: u16,
    },
}

impl Feed {
    pub fn new(watchers: IntGauge) -> Self {
        Self { places: Places::new(watchers), kept: Default::default() }
    }

    /// As it is now, or was a moment ago. What nobody watches any more is forgotten.
    fn get(&self, shape: Shape, make: impl FnOnce() -> String) -> Arc<str> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (at, _)| at.elapsed() < stream::EVERY / 2);
        let (_, text) = kept.entry(shape).or_insert_with(|| (Instant::now(), make().into()));
        Arc::clone(text)
    }
}

/// Tells snapshots that differ from the one before.
pub struct Snapshots {
    pub shape: Shape,
    pub make: fn(&App, Shape) -> String,
    pub last: Arc<str>,
}

impl Watcher for Snapshots {
    fn look(&mut self, app: &App, tell: &mut VecDeque<Event>) -> bool {
        let now = app.live.get(self.shape, || (self.make)(app, self.shape));
        if now != self.last {
            self.last = now;
            tell.push_back(Event::default().event("live").data(&*self.last));
        }
        true
    }
}

/// Tells how one call stands, what happens in it, and why it ended.
pub struct Story {
    call: CallId,
    who: Who,
    next: u64,
    last: Option<Facts>,
    telling: &'static Telling,
}

/// As JSON, or as parts of a page.
pub struct Telling {
    pub entries: fn(&[LiveEntry]) -> String,
    pub facts: fn(&Facts) -> String,
    /// `None`: so many have ended since that the engine does not know any more.
    pub ended: fn(&App, CallId, Option<&EndedCall>) -> String,
}

/// How one running call stands.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Facts {
    #[serde(flatten)]
    pub call: CallHead,
    pub phase: &'static str,
    pub floor: &'static str,
    pub counts: Counts,
}

impl From<ActiveCall> for Facts {
    /// Without levels, which never stand still.
    fn from(ActiveCall { call, phase, floor, counts, .. }: ActiveCall) -> Self {
        Self { call, phase, floor, counts }
    }
}

impl Story {
    /// From this entry on.
    pub fn new(call: CallId, who: Who, next: u64, telling: &'static Telling) -> Self {
        Self { call, who, next, last: None, telling }
    }
}

impl Watcher for Story {
    fn look(&mut self, app: &App, tell: &mut VecDeque<Event>) -> bool {
        let event = |name: &str, data: String| Event::default().event(name).data(data);
        let (Some(now), Some(entries)) = (app.view.call(self.call), app.view.story(self.call, self.next)) else {
            let mut ended = app.view.calls().recent.into_iter().find(|ended| ended.call.id == self.call);
            if let (Some(ended), Some(last)) = (&mut ended, self.last.take()) {
                ended.call.parties = last.call.parties;
            }
            tell.push_back(event("ended", (self.telling.ended)(app, self.call, ended.as_ref())));
            return false;
        };
        let now = Facts::from(private::active(app, &self.who, now));
        if self.last.as_ref() != Some(&now) {
            tell.push_back(event("facts", (self.telling.facts)(&now)));
            self.last = Some(now);
        }
        if let Some(last) = entries.last() {
            self.next = last.number + 1;
        }
        let seen = visible(&self.who, entries);
        if !seen.is_empty() {
            tell.push_back(event("story", (self.telling.entries)(&seen)).id(self.next.to_string()));
        }
        true
    }
}

/// From where on somebody wants to know what happens, whose connection broke off: browsers tell the last event's id.
pub fn known(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

pub fn visible(who: &Who, mut entries: Vec<LiveEntry>) -> Vec<LiveEntry> {
    entries.retain(|entry| private::may_see(who, &entry.entry));
    entries
}

fn text_of(value: &impl Serialize) -> String {
    // Numbers and texts always have one.
    serde_json::to_string(value).unwrap_or_default()
}

async fn live(State(app): State<App>, who: Who) -> Json<Live> {
    Json(Live::now(&app, private::sees_all(&who)))
}

async fn one(State(app): State<App>, who: Who, Id(id): Id) -> Response {
    let (Some(call), Some(entries)) = (app.view.call(id), app.view.story(id, 0)) else { return not_running() };
    let call = private::active(&app, &who, call);
    Json(Running { call, entries: visible(&who, entries) }).into_response()
}

async fn events_of_all(State(app): State<App>, who: Who) -> Response {
    let operator = private::sees_all(&who);
    let make = |app: &App, shape| text_of(&Live::now(app, shape == Shape::Json { operator: true }));
    watch(app, who, Snapshots { shape: Shape::Json { operator }, make, last: "".into() })
}

async fn events_of_one(State(app): State<App>, who: Who, Id(call): Id, headers: HeaderMap) -> Response {
    if app.view.story(call, u64::MAX).is_none() {
        return not_running();
    }
    const JSON: Telling = Telling {
        entries: |entries| text_of(&entries),
        facts: text_of,
        ended: |_, _, ended| ended.map_or_else(|| "{}".into(), text_of),
    };
    watch(app, who.clone(), Story::new(call, who, known(&headers).unwrap_or(0), &JSON))
}

/// That somebody listened is in the log.
async fn listen(State(app): State<App>, who: Who, Id(call): Id) -> Response {
    let place = match app.live.places.enter(&who) {
        Ok(place) => place,
        Err(refusal) => return refusal,
    };
    match app.view.listen(call) {
        Ok(parts) => {
            tracing::info!(call_id = %call, account = who.name, "an operator listens to the call");
            stream::listen(app, who, parts, place)
        }
        Err(NoListening::NotRunning) => not_running(),
        Err(NoListening::TooMany) => {
            problem(StatusCode::SERVICE_UNAVAILABLE, "too many listen to this call; ask one of them to stop")
        }
    }
}

async fn hang_up(State(app): State<App>, who: Who, Id(call): Id) -> Response {
    if end(&app, &who, call) {
        return (StatusCode::ACCEPTED, Json(HungUp { ended: true })).into_response();
    }
    not_running()
}

async fn destinations(State(app): State<App>, Id(call): Id) -> Response {
    if app.view.story(call, u64::MAX).is_none() {
        return not_running();
    }
    let destinations = app.view.destinations(call).unwrap_or_default().into_iter();
    let told = destinations.map(|(name, destination)| (name, destination.description));
    Json(told.collect::<BTreeMap<_, _>>()).into_response()
}

async fn send_on(State(app): State<App>, who: Who, Id(call): Id, Body(wish): Body<Transfer>) -> Response {
    match transfer(&app, &who, call, &wish.destination) {
        Ok(()) => (StatusCode::ACCEPTED, Json(wish)).into_response(),
        Err((status, why)) => problem(status, why),
    }
}

/// Sends a caller somewhere on behalf of somebody, who is named in the log and in the call's record.
///
/// # Errors
/// Why not.
pub fn transfer(app: &App, who: &Who, call: CallId, destination: &str) -> Result<(), (StatusCode, &'static str)> {
    app.view.transfer(call, destination, &who.name).map_err(|why| match why {
        NoTransfer::NotRunning => (StatusCode::NOT_FOUND, NOT_RUNNING),
        NoTransfer::AudioOnly => {
            (StatusCode::CONFLICT, "the engine has only this call's audio; it is the dialplan that can transfer it")
        }
        NoTransfer::NoSuchDestination => {
            (StatusCode::UNPROCESSABLE_ENTITY, "destination is none of this call's destinations")
        }
    })?;
    tracing::info!(call_id = %call, account = who.name, destination, "an operator transfers the call");
    Ok(())
}

/// Ends a call on behalf of somebody, who is named in the log and in the call's record.
pub fn end(app: &App, who: &Who, call: CallId) -> bool {
    let runs = app.view.hang_up(call, &who.name);
    if runs {
        tracing::info!(call_id = %call, account = who.name, "an operator ends the call");
    }
    runs
}

fn not_running() -> Response {
    problem(StatusCode::NOT_FOUND, NOT_RUNNING)
}
