//! What goes on as long as a call does: its sound, and server-sent events that cost little however many watch, and nothing when nobody does.
//!
//! A watcher is told how things are, not what changed: one that is slow gets the newest state next, and nothing waits for it
//! or piles up. What is told to several is made once.

use crate::http::{
    login::{Role, Who},
    problem,
    site::App,
};
use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use prometheus::IntGauge;
use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, Interval, MissedTickBehavior, interval, timeout},
};

/// At most five times a second: faster than anybody reads, slow enough to cost little.
pub const EVERY: Duration = Duration::from_millis(200);
/// Half of the connections that the engine takes, so that whoever only looks at a page is not kept out.
const WATCHERS_MAX: usize = 32;
/// So that those who only look keep nobody from what only admins can do about a call.
const FOR_ADMINS: usize = 8;
/// Half of them: more windows than a person looks at.
const OF_AN_ACCOUNT: usize = 16;
/// Whether the watcher may still watch is asked so often.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Shorter than what a silent connection is given.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Places of all who watch.
pub struct Places {
    /// How many each account has.
    taken: Arc<Mutex<HashMap<String, usize>>>,
    watchers: IntGauge,
}

/// One of them, until it is dropped.
pub struct Place {
    account: String,
    taken: Arc<Mutex<HashMap<String, usize>>>,
    watchers: IntGauge,
}

impl Places {
    pub fn new(watchers: IntGauge) -> Self {
        Self { taken: Arc::default(), watchers }
    }

    /// # Errors
    /// Which limit is reached.
    pub fn enter(&self, who: &Who) -> Result<Place, Response> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let most = if who.may(Role::Admin) { WATCHERS_MAX } else { WATCHERS_MAX - FOR_ADMINS };
        if taken.values().sum::<usize>() >= most {
            return Err(too_many(most, "too many watch calls live; close another window"));
        }
        let own = taken.entry(who.name.clone()).or_default();
        if *own >= OF_AN_ACCOUNT {
            let text = "this account watches calls live with as many connections as one may have; close another window";
            return Err(too_many(OF_AN_ACCOUNT, text));
        }
        *own += 1;
        self.watchers.inc();
        Ok(Place { account: who.name.clone(), taken: Arc::clone(&self.taken), watchers: self.watchers.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.watchers.dec();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.account) {
            *own -= 1;
        }
        taken.retain(|_, own| *own > 0);
    }
}

/// What a call sounds like until it ends, the listener goes, or its session ends.
pub fn listen(app: App, who: Who, parts: mpsc::Receiver<Bytes>, place: Place) -> Response {
    let listening = (app, who, parts, Instant::now(), place);
    let parts = stream::unfold(listening, |(app, who, mut parts, mut looked, place)| async move {
        loop {
            // A call without sound keeps nobody listening whose session is over.
            let part = timeout(LOOK_EVERY, parts.recv()).await;
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                if !app.gatekeeper.still(&who).await {
                    return None;
                }
            }
            if let Ok(part) = part {
                return Some((Ok::<_, Infallible>(part?), (app, who, parts, looked, place)));
            }
        }
    });
    ([(header::CONTENT_TYPE, "audio/wav")], Body::from_stream(parts)).into_response()
}

fn too_many(limit: usize, text: &'static str) -> Response {
    tracing::warn!(limit, "too many watch calls live; another one is turned away");
    problem(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// What a watcher is told next: a few events at most, for they are told before it looks again.
pub trait Watcher: Send + 'static {
    /// `false`: there is nothing to tell any more, after this.
    fn look(&mut self, app: &App, tell: &mut VecDeque<Event>) -> bool;
}

struct Watch<W> {
    app: App,
    who: Who,
    watcher: W,
    tick: Interval,
    looked: Instant,
    tell: VecDeque<Event>,
    over: bool,
    _place: Place,
}

/// Tells a watcher how things are until it goes, its session ends, or there is nothing more to tell.
pub fn watch(app: App, who: Who, watcher: impl Watcher) -> Response {
    let place = match app.live.places.enter(&who) {
        Ok(place) => place,
        Err(refusal) => return refusal,
    };
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (looked, tell) = (Instant::now(), VecDeque::new());
    let watch = Watch { app, who, watcher, tick, looked, tell, over: false, _place: place };
    let events = stream::unfold(watch, |mut watch| async move {
        watch.next().await.map(|event| (Ok::<_, Infallible>(event), watch))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

impl<W: Watcher> Watch<W> {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.tell.pop_front() {
                return Some(event);
            }
            if self.over {
                return None;
            }
            self.tick.tick().await;
            if self.looked.elapsed() >= LOOK_EVERY {
                self.looked = Instant::now();
                if !self.app.gatekeeper.still(&self.who).await {
                    return None;
                }
            }
            self.over = !self.watcher.look(&self.app, &mut self.tell);
        }
    }
}
