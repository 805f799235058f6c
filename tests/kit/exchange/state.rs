//! What the exchange knows: channels, bridges, applications, variables; and what happens to them.
//!
//! Everything here is done at once, under one lock that is never held while something is awaited. What takes time is a task
//! that comes back for the lock.

use super::{
    bridge::Bridge,
    channel::{Channel, ChannelState, Owner, Party, Progress, Sent, Stasis, Tech, cause},
    dialplan::{Dialplan, Place},
    frame::Codec,
    pbx,
    tones::Tone,
};
use crate::kit::{asterisk::Options, audio::Sound};
use offhook::wall_clock;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, UNIX_EPOCH},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinError, JoinSet},
    time::Instant,
};
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

/// The exchange, for its tasks.
#[derive(Clone)]
pub struct Switch(Arc<Mutex<State>>);

impl Switch {
    pub fn new(options: &Options) -> Self {
        Self(Arc::new_cyclic(|me| Mutex::new(State::new(options, me.clone()))))
    }

    /// Does this with everything that the exchange knows.
    pub fn with<R>(&self, does: impl FnOnce(&mut State) -> R) -> R {
        does(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A failed assertion may have held it; its own words should be the last.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A Stasis application.
#[derive(Default)]
pub struct App {
    /// The connection that has it, by a number that tells it from later ones.
    pub socket: Option<(u64, mpsc::UnboundedSender<Message>)>,
    /// Connections that were replaced: they stay open and hear nothing more.
    pub replaced: Vec<mpsc::UnboundedSender<Message>>,
}

/// Who ends a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Its far end: BYE, or the end of a connection.
    FarEnd,
    /// A caller who gives up before the answer.
    Cancel,
    /// A request of ARI or a command.
    Request,
    /// The dialplan, or another channel's end.
    Dialplan,
}

pub struct State {
    me: Weak<Mutex<State>>,
    pub options: Options,
    pub dialplan: Arc<Dialplan>,
    pub globals: BTreeMap<String, String>,
    pub channels: BTreeMap<String, Channel>,
    pub bridges: BTreeMap<String, Bridge>,
    pub apps: BTreeMap<String, App>,
    pub devices: BTreeMap<String, String>,
    /// WebSocket media channels that wait for a connection, by its id.
    pub waiting: BTreeMap<String, (String, mpsc::UnboundedReceiver<Sent>)>,
    /// Ids of connections that were made.
    pub connected: BTreeSet<String>,
    pub voicemails: BTreeMap<String, Vec<Sound>>,
    pub log: String,
    /// What a scene has asked for and is not emulated.
    pub lacks: Vec<String>,
    serial: u64,
    names: BTreeMap<&'static str, u32>,
    began: (Duration, Instant),
    pub tasks: JoinSet<()>,
    /// Between a start and an end.
    pub is_running: bool,
}

impl State {
    fn new(options: &Options, me: Weak<Mutex<Self>>) -> Self {
        let dialplan = Dialplan::of_the_lab(options.audiosocket.as_deref(), &options.dialplan);
        let wall = wall_clock::system_time().duration_since(UNIX_EPOCH).expect("a clock after 1970");
        Self {
            me,
            options: options.clone(),
            globals: dialplan.globals.clone(),
            dialplan: Arc::new(dialplan),
            channels: BTreeMap::new(),
            bridges: BTreeMap::new(),
            apps: BTreeMap::new(),
            devices: BTreeMap::new(),
            waiting: BTreeMap::new(),
            connected: BTreeSet::new(),
            voicemails: BTreeMap::new(),
            log: String::new(),
            lacks: Vec::new(),
            serial: 0,
            names: BTreeMap::new(),
            began: (wall, Instant::now()),
            tasks: JoinSet::new(),
            is_running: false,
        }
    }

    /// As after a start: what is on disk stays, mailboxes and the log; its tasks have ended.
    pub fn forget(&mut self) {
        for channel in std::mem::take(&mut self.channels).into_values() {
            channel.ended.cancel();
        }
        self.bridges.clear();
        self.apps.clear();
        self.devices.clear();
        self.waiting.clear();
        self.connected.clear();
        self.globals = self.dialplan.globals.clone();
    }

    pub fn switch(&self) -> Switch {
        Switch(self.me.upgrade().expect("somebody has the lock"))
    }

    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.look_for_panics();
        self.tasks.spawn(task);
    }

    /// A task that has panicked is a fault of the emulation.
    pub fn look_for_panics(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            self.lacks.extend(ended.err().filter(JoinError::is_panic).map(|panic| panic.to_string()));
        }
    }

    // ---- Names and times ----

    pub fn now(&self) -> Duration {
        self.began.0 + self.began.1.elapsed()
    }

    pub fn timestamp(&self) -> String {
        let now = jiff::Timestamp::from_duration(self.now().try_into().expect("this century")).expect("this century");
        now.strftime("%Y-%m-%dT%H:%M:%S%.3f+0000").to_string()
    }

    pub fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub fn new_id(&mut self) -> String {
        format!("{}.{}", self.now().as_secs(), self.serial())
    }

    /// The number of the next channel of this technology, as names end with it.
    pub fn number(&mut self, technology: &'static str) -> u32 {
        let number = self.names.entry(technology).or_default();
        *number += 1;
        *number - 1
    }

    pub fn logs(&mut self, level: &str, line: &str) {
        self.log += &format!("[{}] {level}: {line}\n", self.timestamp());
    }

    pub fn add(&mut self, mut channel: Channel) {
        channel.created = self.timestamp();
        self.channels.insert(channel.id.clone(), channel);
    }

    // ---- Events ----

    /// Says goodbye to every application.
    pub fn close_applications(&mut self) {
        let farewell = || Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }));
        for app in self.apps.values() {
            for socket in app.socket.iter().map(|(_, socket)| socket).chain(&app.replaced) {
                let _ = socket.send(farewell());
            }
        }
    }

    /// Tells an application, if it is connected.
    pub fn tell(&self, app: &str, mut event: Value) {
        let Some((_, socket)) = self.apps.get(app).and_then(|app| app.socket.as_ref()) else { return };
        event["timestamp"] = self.timestamp().into();
        event["application"] = app.into();
        event["asterisk_id"] = "02:00:00:00:00:01".into();
        let _ = socket.send(Message::text(event.to_string()));
    }

    /// Tells the application that is subscribed to this channel.
    pub fn tell_of(&self, id: &str, kind: &str, more: Value) {
        let Some(channel) = self.channels.get(id) else { return };
        let Some(app) = &channel.subscriber else { return };
        let mut event = more;
        event["type"] = kind.into();
        event["channel"] = channel.json();
        self.tell(app, event);
    }

    // ---- A channel's life ----

    /// A telephone calls this extension.
    pub fn call_in(&mut self, mut channel: Channel, extension: &str) {
        let id = channel.id.clone();
        channel.state = ChannelState::Ring;
        channel.place = Place::of("lab-callers", extension, 1);
        self.add(channel);
        if !self.dialplan.exists("lab-callers", extension, 1) {
            self.logs("NOTICE", &format!("Call to extension '{extension}' rejected because it is not found"));
            self.hang_up(&id, cause::NO_ROUTE, By::Dialplan);
            return;
        }
        self.run_dialplan(&id);
    }

    /// From the place where it is.
    pub fn run_dialplan(&mut self, id: &str) {
        let task = pbx::run(self.switch(), id.to_owned());
        self.spawn(task);
    }

    pub fn answer(&mut self, id: &str) {
        let Some(channel) = self.channels.get_mut(id).filter(|channel| !channel.is_up()) else { return };
        channel.state = ChannelState::Up;
        channel.progress.send_replace(Progress::Up);
        match &channel.tech {
            Tech::Phone(handset) => handset.established(),
            Tech::Media(_) => {}
            Tech::Local(other) => {
                let other = other.clone();
                self.answer(&other);
            }
        }
        self.tell_of(id, "ChannelStateChange", json!({}));
        let owner = self.channels.get(id).and_then(|channel| channel.owner.clone());
        if let Some(Owner { app, arguments }) = owner
            && !self.enter_stasis(id, &app, &arguments, None)
        {
            self.hang_up(id, cause::NORMAL, By::Dialplan);
        }
    }

    /// Lets the far end hear ringing: by a signal before the answer, as a tone after it.
    pub fn ring(&mut self, id: &str) {
        let Some(channel) = self.channels.get_mut(id) else { return };
        match &channel.tech {
            _ if channel.is_up() => self.play(id, Tone::named("ring")),
            Tech::Phone(handset) => handset.rings(),
            Tech::Media(_) => {}
            Tech::Local(other) => {
                let other = other.clone();
                self.is_ringing(&other);
            }
        }
    }

    /// A channel that is called rings at its far end.
    pub fn is_ringing(&mut self, id: &str) {
        let Some(channel) = self.channels.get_mut(id).filter(|channel| channel.state == ChannelState::Down) else {
            return;
        };
        channel.state = ChannelState::Ringing;
        channel.progress.send_replace(Progress::Ringing);
        self.tell_of(id, "ChannelStateChange", json!({}));
        self.tell_of_dial(id, "RINGING");
    }

    /// What `Dial` tells the application that originated this channel.
    fn tell_of_dial(&self, id: &str, status: &str) {
        let Some(channel) = self.channels.get(id) else { return };
        if let Some(owner) = &channel.owner {
            let event = json!({ "type": "Dial", "dialstatus": status, "dialstring": "", "peer": channel.json() });
            self.tell(&owner.app, event);
        }
    }

    /// What `Dial` tells the application that is subscribed to the channel which calls.
    pub fn tell_of_answer(&self, id: &str, peer: &str) {
        let (Some(caller), Some(peer)) = (self.channels.get(id), self.channels.get(peer)) else { return };
        if let Some(app) = &caller.subscriber {
            let (caller, peer) = (caller.json(), peer.json());
            let event =
                json!({ "type": "Dial", "dialstatus": "ANSWER", "dialstring": "", "caller": caller, "peer": peer });
            self.tell(app, event);
        }
    }

    /// `Busy()` or `Congestion()` before an answer. `false`: nobody is told by a signal.
    pub fn refuse(&mut self, id: &str, cause: u32) -> bool {
        let Some(channel) = self.channels.get(id).filter(|channel| !channel.is_up()) else { return false };
        match &channel.tech {
            Tech::Phone(_) => self.hang_up(id, cause, By::Dialplan),
            Tech::Media(_) => return false,
            Tech::Local(other) => {
                let other = other.clone();
                let (status, progress) = match cause {
                    cause::BUSY => ("BUSY", Progress::Busy),
                    _ => ("CONGESTION", Progress::Congested),
                };
                self.tell_of_dial(&other, status);
                if let Some(other) = self.channels.get(&other) {
                    other.progress.send_replace(progress);
                }
                if self.channels.get(&other).is_some_and(|other| other.owner.is_some()) {
                    // Whoever originates hangs up at this; of the cause the Local channel tells nothing.
                    self.hang_up(&other, 0, By::Dialplan);
                }
            }
        }
        true
    }

    /// Ends a channel. One that has ended stays so.
    pub fn hang_up(&mut self, id: &str, cause: u32, by: By) {
        if !self.channels.contains_key(id) {
            return;
        }
        match by {
            By::FarEnd => self.tell_of(id, "ChannelHangupRequest", json!({})),
            By::Cancel => self.tell_of(id, "ChannelHangupRequest", json!({ "cause": 127 })),
            By::Request => self.tell_of(id, "ChannelHangupRequest", json!({ "cause": 32 })),
            By::Dialplan => {
                let runs_it = |channel: &Channel| channel.stasis.is_none() && matches!(channel.tech, Tech::Phone(_));
                if self.channels.get(id).is_some_and(runs_it) {
                    self.tell_of(id, "ChannelHangupRequest", json!({ "soft": true, "cause": cause::NORMAL }));
                }
            }
        }
        self.leave_bridge(id);
        if self.channels.get_mut(id).is_some_and(|channel| channel.stasis.take().is_some()) {
            self.tell_of(id, "StasisEnd", json!({}));
        }
        if self.channels.get(id).is_some_and(|channel| channel.owner.is_some() || channel.subscribed) {
            self.tell_of(id, "ChannelDestroyed", json!({ "cause": cause, "cause_txt": "" }));
        }
        let Some(channel) = self.channels.remove(id) else { return };
        channel.ended.cancel();
        channel.progress.send_replace(Progress::Ended(cause));
        match channel.tech {
            Tech::Phone(handset) if !matches!(by, By::FarEnd | By::Cancel) => {
                handset.ends(sip_reason(cause, channel.state))
            }
            Tech::Local(other) => self.hang_up(&other, cause, By::Dialplan),
            // What ends with its sender closes the connection.
            Tech::Phone(_) | Tech::Media(_) => {}
        }
        self.waiting.retain(|_, (waiting, _)| waiting.as_str() != id);
    }

    // ---- Stasis ----

    /// `false`: nobody is connected for this application.
    pub fn enter_stasis(
        &mut self,
        id: &str,
        app: &str,
        arguments: &[String],
        exit: Option<oneshot::Sender<Option<Place>>>,
    ) -> bool {
        if self.apps.get(app).is_none_or(|app| app.socket.is_none()) {
            return false;
        }
        let Some(channel) = self.channels.get_mut(id) else { return false };
        channel.stasis = Some(Stasis { exit });
        channel.subscriber = Some(app.to_owned());
        self.tell_of(id, "StasisStart", json!({ "args": arguments }));
        true
    }

    /// A channel is put into an application for another one.
    pub fn enter_stasis_in_place_of(&mut self, id: &str, app: &str, replaced: Value) {
        let Some(channel) = self.channels.get_mut(id) else { return };
        channel.stasis = Some(Stasis { exit: None });
        channel.subscriber = Some(app.to_owned());
        self.tell_of(id, "StasisStart", json!({ "args": [], "replace_channel": replaced }));
    }

    /// The other half of a Local channel.
    pub fn other_half(&self, id: &str) -> Option<String> {
        match &self.channels.get(id)?.tech {
            Tech::Local(other) => Some(other.clone()),
            Tech::Phone(_) | Tech::Media(_) => None,
        }
    }

    /// Back to the dialplan; `None`: to the step after `Stasis()`.
    pub fn leave_stasis(&mut self, id: &str, to: Option<Place>) {
        self.leave_bridge(id);
        self.tell_of(id, "StasisEnd", json!({}));
        let Some(channel) = self.channels.get_mut(id) else { return };
        if channel.owner.is_none() && !channel.subscribed {
            channel.subscriber = None;
        }
        match (channel.stasis.take().and_then(|stasis| stasis.exit), to) {
            (Some(exit), to) => drop(exit.send(to)),
            (None, Some(to)) => {
                channel.place = to;
                self.run_dialplan(id);
            }
            (None, None) => self.hang_up(id, cause::NORMAL, By::Dialplan),
        }
    }

    /// A channel of the exchange's own making, for a medium; its task gets what is sent to it.
    pub fn add_media(
        &mut self,
        id: String,
        name: String,
        codec: Codec,
        owner: Option<Owner>,
    ) -> mpsc::UnboundedReceiver<Sent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut channel = Channel::new(id, name, Tech::Media(sender), codec);
        channel.subscriber = owner.as_ref().map(|owner| owner.app.clone());
        channel.owner = owner;
        channel.place = Place::of("default", "s", 1);
        self.add(channel);
        receiver
    }

    /// Cause of a channel that the dialplan hangs up without one.
    pub fn cause_of(&self, id: &str) -> u32 {
        self.channels.get(id).and_then(|channel| channel.cause).unwrap_or(cause::NORMAL)
    }

    pub fn party(&self, id: &str) -> Party {
        self.channels.get(id).map(|channel| channel.caller.clone()).unwrap_or_default()
    }
}

/// What the phone of a channel is told when it ends.
fn sip_reason(cause: u32, state: ChannelState) -> &'static str {
    match (state, cause) {
        (ChannelState::Up, _) => "",
        (_, cause::NO_ROUTE | 1) => "404 Not Found",
        (_, cause::BUSY) => "486 Busy Here",
        (_, cause::NO_ANSWER | 18) => "480 Temporarily Unavailable",
        (_, cause::REJECTED) => "403 Forbidden",
        (_, cause::CONGESTION | cause::FAILURE) => "503 Service Unavailable",
        (ChannelState::Ring, _) => "603 Decline",
        _ => "487 Request Terminated",
    }
}
