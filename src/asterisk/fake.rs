//! An Asterisk for tests: it holds channels and bridges, answers ARI as the real one was seen to
//! answer (22.10), and can misbehave on request, which the real one cannot.

mod far_end;
mod stage;

pub(super) use stage::{Stage, fast, in_stasis};

use base64::{Engine, prelude::BASE64_STANDARD};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc},
    task::JoinSet,
};
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

pub(super) const APP: &str = "offhook";
pub(super) const PASSWORD: &str = "secret";

/// What the events socket does once it was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Good,
    /// Accepts and says goodbye (1000) at once.
    ClosesPolitely,
    /// Accepts and cuts the connection.
    Drops,
    /// Accepts and never says anything again, not even to pings.
    Deaf,
    RefusesUpgrade,
}

/// What happens to the answer of a request that is carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// The connection ends instead.
    Lost,
    /// It never comes, and the connection stays.
    Never,
}

/// A ping whose pong says that all events before it were read.
const HEARD: &str = "heard";
/// A pong that comes later does not come: the socket was lost.
const HEARD_MAX: Duration = Duration::from_secs(5);

pub(super) struct Asterisk {
    pub(super) channels: BTreeMap<String, Channel>,
    pub(super) bridges: BTreeMap<String, BTreeSet<String>>,
    pub(super) manner: Manner,
    /// `METHOD last-path-part` → status to answer with instead of doing it; 0 cuts the connection.
    pub(super) faults: BTreeMap<&'static str, u16>,
    /// `METHOD last-path-part` → what becomes of the answer, once; the request itself is carried out.
    pub(super) answers: BTreeMap<&'static str, Answers>,
    /// Each connection is closed as soon as it is idle, and nobody is told before.
    pub(super) closes_idle: bool,
    /// Places `DIALPLAN_EXISTS` denies.
    pub(super) missing_places: bool,
    /// The caller hangs up just before the request of this number (from 0) is carried out.
    pub(super) caller_leaves_at: Option<usize>,
    /// And right after this one (`METHOD last-path-part`), whose answer comes when the engine has been told.
    pub(super) leaves_after: Option<&'static str>,
    /// The engine has read what it was told before [`HEARD`].
    heard: Arc<Notify>,
    /// It is this channel instead.
    pub(super) who_leaves: String,
    /// `METHOD path` of each request that changes something.
    pub(super) requests: Vec<String>,
    pub(super) upgrades: usize,
    /// The global variable by which the engine that has the application says so, and how often it was read.
    pub(super) owner: String,
    pub(super) looks: u32,
    /// Another engine has the application, and says so.
    pub(super) other_beats: bool,
    /// Nobody is connected, and nothing of the application is left.
    pub(super) application_is_gone: bool,
    /// The media channel's `StasisStart` never comes.
    pub(super) media_never_starts: bool,
    /// Media channels that were deleted while the test's audio path to them was open.
    pub(super) deleted_under_open_socket: usize,
    pub(super) open_sockets: usize,
    /// Those of which it is known where they lead: the id that AudioSocket names, the channel of a WebSocket.
    pub(super) open_to: BTreeSet<String>,
    events: Option<mpsc::UnboundedSender<Message>>,
}

#[derive(Default)]
pub(super) struct Channel {
    pub(super) in_stasis: bool,
    pub(super) answered: bool,
    pub(super) ringing: bool,
    pub(super) variables: BTreeMap<String, String>,
    /// `CHANNEL(rtp,hold)`, where it can tell.
    pub(super) held: Option<bool>,
    /// Keys that were sent to it.
    pub(super) digits: String,
    /// What a media channel was asked for with.
    pub(super) media: Option<Value>,
    /// What a channel that we call was called with.
    pub(super) originated: Option<Value>,
    /// Events of it come also when it is not in our application.
    pub(super) subscribed: bool,
    /// Where `continue` sent it.
    pub(super) continued: Option<Value>,
}

impl Channel {
    const fn state(&self) -> &'static str {
        if self.answered {
            "Up"
        } else if self.ringing {
            "Ringing"
        } else {
            "Down"
        }
    }
}

#[derive(Clone)]
pub(super) struct FakeAri {
    state: Arc<Mutex<Asterisk>>,
    pub(super) address: SocketAddr,
    _server: Arc<JoinSet<()>>,
}

impl FakeAri {
    pub(super) async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(super) async fn start_at(address: SocketAddr) -> Self {
        // An error means that another test was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind(address).await.unwrap();
        let state = Arc::new(Mutex::new(Asterisk {
            channels: BTreeMap::new(),
            bridges: BTreeMap::new(),
            manner: Manner::Good,
            faults: BTreeMap::new(),
            answers: BTreeMap::new(),
            closes_idle: false,
            missing_places: false,
            caller_leaves_at: None,
            leaves_after: None,
            heard: Arc::default(),
            who_leaves: "caller".into(),
            requests: Vec::new(),
            upgrades: 0,
            owner: String::new(),
            looks: 0,
            other_beats: false,
            application_is_gone: false,
            media_never_starts: false,
            deleted_under_open_socket: 0,
            open_sockets: 0,
            open_to: BTreeSet::new(),
            events: None,
        }));
        let address = listener.local_addr().unwrap();
        let mut server = JoinSet::new();
        let shared = state.clone();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, shared.clone()));
            }
        });
        Self { state, address, _server: Arc::new(server) }
    }

    pub(super) fn config(&self) -> crate::config::AsteriskConfig {
        crate::config::AsteriskConfig {
            url: format!("http://{}", self.address),
            username: "user".into(),
            password: PASSWORD.to_owned().into(),
            app: APP.into(),
            keeps_withheld_numbers: false,
        }
    }

    pub(super) fn now(&self) -> MutexGuard<'_, Asterisk> {
        // A failed assertion may have held it; its own words should be the last.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the state satisfies `condition`.
    pub(super) async fn until(&self, what: &str, mut condition: impl FnMut(&Asterisk) -> bool) {
        let waited = tokio::time::timeout(Duration::from_secs(5), async {
            while !condition(&self.now()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("never: {what}"));
    }
}

impl Asterisk {
    /// A caller enters our application by the dialplan.
    pub(super) fn call_in(&mut self, channel: &str) {
        self.channels.insert(channel.into(), Channel { in_stasis: true, ..Channel::default() });
        let body = json!({ "id": channel, "state": "Ring", "caller": { "name": "Alice", "number": "1234" },
            "dialplan": { "exten": "200" } });
        self.tell(&json!({ "type": "StasisStart", "args": ["sales"], "channel": body, "application": APP }));
    }

    pub(super) fn hang_up(&mut self, channel: &str) {
        if self.channels.remove(channel).is_none() {
            return;
        }
        self.bridges.values_mut().for_each(|members| _ = members.remove(channel));
        for kind in ["ChannelHangupRequest", "StasisEnd", "ChannelDestroyed"] {
            // A caller's ChannelDestroyed does not come.
            if kind != "ChannelDestroyed" || channel.starts_with("offhook-") {
                self.tell(&json!({ "type": kind, "channel": { "id": channel } }));
            }
        }
    }

    pub(super) fn tell(&self, event: &Value) {
        self.say(event.to_string());
    }

    pub(super) fn say(&self, text: String) {
        if let Some(events) = &self.events {
            let _ = events.send(Message::text(text));
        }
    }

    /// Ends the events socket by force.
    pub(super) fn cut(&mut self) {
        self.events = None;
    }

    fn request(&mut self, method: &str, path: &[&str], query: &str, body: &Value) -> (u16, Value) {
        if path == ["asterisk", "variable"] {
            return self.says_who_owns_it(method, body);
        }
        if method != "GET" {
            let number = self.requests.len();
            self.requests.push(format!("{method} {}", path.join("/")));
            if self.caller_leaves_at == Some(number) {
                self.hang_up(&self.who_leaves.clone());
            }
        }
        let name = format!("{method} {}", path.last().unwrap_or(&""));
        if let Some(status) = self.faults.get(&*name) {
            return (*status, json!({ "message": "asked to fail" }));
        }
        match (method, path) {
            ("GET", ["channels"]) => {
                let told = |(id, channel): (&String, &Channel)| json!({ "id": id, "state": channel.state() });
                (200, self.channels.iter().map(told).collect())
            }
            ("GET", ["bridges"]) => {
                (200, self.bridges.iter().map(|(id, members)| json!({ "id": id, "channels": members })).collect())
            }
            ("GET", ["bridges", id]) => match self.bridges.get(*id) {
                Some(members) => (200, json!({ "id": id, "channels": members })),
                None => (404, json!({ "message": "Bridge not found" })),
            },
            ("GET", ["deviceStates", device]) => (200, json!({ "name": device, "state": self.device_state(device) })),
            ("GET", ["endpoints", _, resource]) => {
                (200, json!({ "state": if *resource == "off" { "offline" } else { "online" } }))
            }
            ("GET", ["applications", APP]) if !self.application_is_gone => {
                let ours = self.channels.iter().filter(|(_, channel)| channel.in_stasis || channel.subscribed);
                (200, json!({ "name": APP, "channel_ids": ours.map(|(id, _)| id).collect::<Vec<_>>() }))
            }
            (_, ["applications", APP, "subscription"]) => {
                let id = query.strip_prefix("eventSource=channel%3A").unwrap_or_default();
                let Some(channel) = self.channels.get_mut(id) else {
                    return (422, json!({ "message": "Event source does not exist" }));
                };
                channel.subscribed = method == "POST";
                (200, json!({ "name": APP }))
            }
            ("GET", ["channels", id, "variable"]) => self.variable(id, query),
            ("POST", ["channels", "externalMedia"]) => self.external_media(body),
            ("POST", ["channels", id]) => self.originate(id, body),
            ("POST", ["channels", id, action]) => self.steer(id, action, body),
            ("DELETE", ["channels", id]) => {
                let media = self.channels.get(*id).and_then(|channel| channel.media.as_ref());
                let named = media.and_then(|media| media["data"].as_str());
                if self.open_to.contains(named.unwrap_or(id)) {
                    self.deleted_under_open_socket += 1;
                }
                let there = self.channels.contains_key(*id);
                self.hang_up(id);
                if there { (204, Value::Null) } else { (404, json!({ "message": "Channel not found" })) }
            }
            ("DELETE", ["channels", id, "ring"]) => {
                self.channels.entry((*id).into()).and_modify(|channel| channel.ringing = false);
                (204, Value::Null)
            }
            ("POST", ["bridges", id]) => {
                if self.bridges.contains_key(*id) {
                    return (409, json!({ "message": "already exists" }));
                }
                self.bridges.insert((*id).into(), BTreeSet::new());
                (200, json!({ "id": id }))
            }
            ("POST", ["bridges", id, action]) => self.members(id, action, body),
            ("DELETE", ["bridges", id]) => match self.bridges.remove(*id) {
                Some(_) => (204, Value::Null),
                None => (404, json!({ "message": "Bridge not found" })),
            },
            _ => (404, json!({ "message": "no such request" })),
        }
    }

    /// Whether somebody leaves after this request.
    fn leaves_after_request(&mut self, method: &str, path: &[&str]) -> bool {
        let name = format!("{method} {}", path.last().unwrap_or(&""));
        let leaves = self.leaves_after.take_if(|after| **after == name).is_some();
        if leaves {
            self.hang_up(&self.who_leaves.clone());
            if let Some(events) = &self.events {
                let _ = events.send(Message::Ping(HEARD.into()));
            }
        }
        leaves
    }

    fn variable(&self, id: &str, query: &str) -> (u16, Value) {
        let Some(channel) = self.channels.get(id) else { return (404, json!({ "message": "Channel not found" })) };
        if query.contains("DIALPLAN_EXISTS") {
            return (200, json!({ "value": if self.missing_places { "0" } else { "1" } }));
        }
        if let (Some(held), true) = (channel.held, query.contains("hold")) {
            return (200, json!({ "value": u8::from(held).to_string() }));
        }
        match query.strip_prefix("variable=").and_then(|name| channel.variables.get(name)) {
            Some(value) => (200, json!({ "value": value })),
            None => (404, json!({ "message": "Provided variable was not found" })),
        }
    }

    fn external_media(&mut self, body: &Value) -> (u16, Value) {
        let id = body["channelId"].as_str().unwrap().to_owned();
        let vars = [("UNICASTRTP_LOCAL_ADDRESS", "127.0.0.1"), ("UNICASTRTP_LOCAL_PORT", "23456")];
        let variables: BTreeMap<String, String> = vars.map(|(name, value)| (name.into(), value.into())).into();
        let vars = json!(variables);
        let media = Some(body.clone());
        if self
            .channels
            .insert(id.clone(), Channel { answered: true, variables, media, ..Channel::default() })
            .is_some()
        {
            return (500, json!({ "message": "id used" }));
        }
        let vars = match body["transport"].as_str() {
            Some("websocket") => json!({ "MEDIA_WEBSOCKET_CONNECTION_ID": "3f2a" }),
            _ => vars,
        };
        (200, json!({ "id": id, "channelvars": vars }))
    }

    fn originate(&mut self, id: &str, body: &Value) -> (u16, Value) {
        if body["endpoint"] == "PJSIP/nobody" {
            return (500, json!({ "error": "Allocation failed" }));
        }
        self.channels.insert(id.into(), Channel { originated: Some(body.clone()), ..Channel::default() });
        (200, json!({ "id": id, "state": "Down" }))
    }

    /// A device is in the state its name tells.
    fn device_state(&self, device: &str) -> String {
        device.rsplit("%2F").next().unwrap_or_default().to_uppercase()
    }

    /// What happens after the answer to `externalMedia`.
    fn media_starts(&mut self) {
        let waiting: Vec<_> = self
            .channels
            .iter()
            .filter(|(id, c)| id.contains("-media") && !c.in_stasis)
            .map(|(id, _)| id.clone())
            .collect();
        for id in waiting.into_iter().filter(|_| !self.media_never_starts) {
            self.channels.entry(id.clone()).and_modify(|channel| channel.in_stasis = true);
            self.tell(&json!({ "type": "StasisStart", "args": [], "channel": { "id": id, "state": "Up" } }));
        }
    }

    fn steer(&mut self, id: &str, action: &str, body: &Value) -> (u16, Value) {
        let Some(channel) = self.channels.get_mut(id) else { return (404, json!({ "message": "Channel not found" })) };
        if !channel.in_stasis {
            return (409, json!({ "message": "Channel not in Stasis application" }));
        }
        match action {
            "variable" => {
                let (name, value) = (body["variable"].as_str().unwrap(), body["value"].as_str().unwrap());
                channel.variables.insert(name.into(), value.into());
            }
            "answer" => channel.answered = true,
            "ring" => channel.ringing = true,
            "dtmf" => channel.digits.push_str(body["dtmf"].as_str().unwrap()),
            "continue" => {
                channel.in_stasis = false;
                channel.continued = Some(body.clone());
                self.bridges.values_mut().for_each(|members| _ = members.remove(id));
                self.tell(&json!({ "type": "StasisEnd", "channel": { "id": id } }));
            }
            _ => return (404, json!({ "message": "no such action" })),
        }
        (204, Value::Null)
    }

    fn members(&mut self, bridge: &str, action: &str, body: &Value) -> (u16, Value) {
        let named: Vec<String> = serde_json::from_value(body["channel"].clone()).unwrap();
        let absent = named.iter().any(|id| !self.channels.contains_key(id));
        let elsewhere = named.iter().any(|id| self.channels.get(id).is_some_and(|channel| !channel.in_stasis));
        let Some(members) = self.bridges.get_mut(bridge) else {
            return (404, json!({ "message": "Bridge not found" }));
        };
        match action {
            _ if absent => (400, json!({ "message": "Channel not found" })),
            _ if elsewhere => (422, json!({ "message": "Channel not in Stasis application" })),
            "addChannel" => {
                self.bridges.values_mut().for_each(|members| members.retain(|member| !named.contains(member)));
                self.bridges.entry(bridge.into()).or_default().extend(named);
                (204, Value::Null)
            }
            _ => {
                members.retain(|member| !named.contains(member));
                (204, Value::Null)
            }
        }
    }
}

/// One TCP connection: the events socket, or requests one after another.
async fn serve(mut stream: TcpStream, state: Arc<Mutex<Asterisk>>) {
    let login = format!("Basic {}", BASE64_STANDARD.encode(format!("user:{PASSWORD}")));
    loop {
        let mut seen = [0; 4096];
        let head = loop {
            let Ok(n @ 1..) = stream.peek(&mut seen).await else { return };
            let text = String::from_utf8_lossy(&seen[..n]).into_owned();
            if let Some(end) = text.find("\r\n\r\n") {
                break text[..end + 4].to_owned();
            }
            tokio::task::yield_now().await;
        };
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value).to_owned()
        };
        let (status, answer) = if header("authorization") != login {
            (401, json!({ "message": "Authentication required" }))
        } else if header("upgrade").is_empty() {
            (0, Value::Null)
        } else {
            let manner = {
                let mut state = state.lock().unwrap();
                state.upgrades += 1;
                state.manner
            };
            if manner != Manner::RefusesUpgrade {
                return events(stream, manner, state).await;
            }
            (404, json!({ "message": "no WebSocket here" }))
        };
        let mut request = vec![0; head.len() + header("content-length").parse().unwrap_or(0)];
        if stream.read_exact(&mut request).await.is_err() {
            return;
        }
        let (status, answer, comes) = match status {
            0 => carry_out(&head, &request[head.len()..], &state),
            refused => (refused, answer, Comes::AtOnce),
        };
        match comes {
            Comes::AtOnce => {}
            Comes::Late => {
                // The event overtakes the answer.
                let heard = state.lock().unwrap().heard.clone();
                let _ = tokio::time::timeout(HEARD_MAX, heard.notified()).await;
            }
            Comes::Not(answers) => {
                state.lock().unwrap().media_starts();
                if answers == Answers::Never {
                    std::future::pending::<()>().await;
                }
                return;
            }
        }
        if status == 0 {
            return;
        }
        let body = if answer.is_null() { String::new() } else { answer.to_string() };
        let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        state.lock().unwrap().media_starts();
        if state.lock().unwrap().closes_idle {
            return;
        }
    }
}

/// When an answer comes.
enum Comes {
    AtOnce,
    Late,
    Not(Answers),
}

/// Status and body of the answer, and when it comes.
fn carry_out(head: &str, body: &[u8], state: &Mutex<Asterisk>) -> (u16, Value, Comes) {
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path: Vec<_> = path.trim_start_matches("/ari/").split('/').collect();
    let body = serde_json::from_slice(body).unwrap_or_default();
    let mut state = state.lock().unwrap();
    let (status, answer) = state.request(method, &path, query, &body);
    let name = format!("{method} {}", path.last().unwrap_or(&""));
    let comes = match state.answers.remove(&*name) {
        Some(answers) => Comes::Not(answers),
        None if state.leaves_after_request(method, &path) => Comes::Late,
        None => Comes::AtOnce,
    };
    (status, answer, comes)
}

async fn events(stream: TcpStream, manner: Manner, state: Arc<Mutex<Asterisk>>) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    match manner {
        Manner::Drops => return,
        Manner::ClosesPolitely => {
            let _ = socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })).await;
            return;
        }
        Manner::Deaf => std::future::pending().await,
        Manner::Good | Manner::RefusesUpgrade => {}
    }
    #[allow(clippy::disallowed_methods, reason = "the fake is a test's own and never runs for long")]
    let (sender, mut outgoing) = mpsc::unbounded_channel();
    state.lock().unwrap().events = Some(sender);
    loop {
        tokio::select! {
            event = outgoing.recv() => match event {
                Some(event) => if socket.send(event).await.is_err() { return },
                None => return,
            },
            read = socket.next() => match read {
                Some(Ok(Message::Pong(payload))) if payload == HEARD => state.lock().unwrap().heard.notify_one(),
                Some(Ok(_)) => {}
                _ => return,
            },
        }
    }
}
