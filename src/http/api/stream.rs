//! What goes on as long as a call does: its sound, and server-sent events that cost little however many watch, and nothing when nobody does.
//!
//! A watcher is told how things are, not what changed: one that is slow gets the newest state next, and nothing waits for it
//! or piles up. What is told to several is made once.

use crate::http::{login::Who, problem, site::App};
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
use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, Interval, MissedTickBehavior, interval, timeout},
};

/// At most five times a second: faster than anybody reads, slow enough to cost little.
pub const EVERY: Duration = Duration::from_millis(200);
/// Half of the connections that the engine takes, so that whoever only looks at a page is not kept out.
const WATCHERS_MAX: usize = 32;
/// Whether the watcher may still watch is asked so often.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Shorter than what a silent connection is given.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Of all who watch.
pub struct Places {
    free: Arc<Semaphore>,
    watchers: IntGauge,
}

/// One of them, until it is dropped.
pub struct Place {
    _permit: OwnedSemaphorePermit,
    watchers: IntGauge,
}

impl Places {
    pub fn new(watchers: IntGauge) -> Self {
        Self { free: Arc::new(Semaphore::new(WATCHERS_MAX)), watchers }
    }

    pub fn enter(&self) -> Option<Place> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        self.watchers.inc();
        Some(Place { _permit: permit, watchers: self.watchers.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.watchers.dec();
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

pub fn too_many() -> Response {
    tracing::warn!(limit = WATCHERS_MAX, "too many watch calls live; another one is turned away");
    problem(StatusCode::SERVICE_UNAVAILABLE, "too many watch calls live; close another window")
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
    let Some(place) = app.live.places.enter() else { return too_many() };
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
