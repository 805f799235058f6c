//! The requests of ARI that the engine and the tests make, answered as Asterisk 22.10 was seen to answer them.

use super::{
    channel::{ChannelState, Owner, Party, cause},
    dial::{Calling, leg},
    dialplan::Place,
    frame::Codec,
    pbx::Unreadable,
    registry, rtp,
    state::{By, State, Switch},
    tones::Tone,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use tokio::{
    net::{TcpStream, UdpSocket},
    time::sleep,
};
use uuid::Uuid;

/// A media channel enters Stasis so much later than its maker is answered.
const STASIS_AFTER: Duration = Duration::from_millis(1);
/// Nobody connects for a WebSocket channel.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// A key and the pause after it, and what `w` waits.
const KEY: Duration = Duration::from_millis(250);
const KEY_WAIT: Duration = Duration::from_millis(500);

pub struct Request {
    pub method: String,
    pub path: Vec<String>,
    pub query: BTreeMap<String, String>,
    pub body: Value,
}

impl Request {
    /// A parameter, of the body or of the query.
    fn text(&self, name: &str) -> Option<String> {
        match &self.body[name] {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => self.query.get(name).cloned(),
        }
    }

    fn list(&self, name: &str) -> Vec<String> {
        match &self.body[name] {
            Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => self
                .text(name)
                .into_iter()
                .flat_map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>())
                .collect(),
        }
    }
}

pub struct Reply {
    pub status: u16,
    pub body: Option<Value>,
}

impl Reply {
    fn done() -> Self {
        Self { status: 204, body: None }
    }

    fn of(body: Value) -> Self {
        Self { status: 200, body: Some(body) }
    }

    pub fn refusal(status: u16, message: &str) -> Self {
        Self { status, body: Some(json!({ "message": message })) }
    }

    fn no_channel() -> Self {
        Self::refusal(404, "Channel not found")
    }

    fn allocation_failed() -> Self {
        Self { status: 500, body: Some(json!({ "error": "Allocation failed" })) }
    }
}

pub async fn handle(switch: &Switch, request: Request) -> Reply {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    if request.method != "GET" && switch.with(|state| state.options.read_only) {
        return Reply::refusal(403, "Write access denied");
    }
    match (&*request.method, &path[..]) {
        ("POST", ["channels", "externalMedia"]) => external_media(switch, &request).await,
        (method, path) => switch.with(|state| {
            let reply = match path {
                ["channels", rest @ ..] => state.channel_request(method, rest, &request),
                ["bridges", rest @ ..] => state.bridge_request(method, rest, &request),
                _ => state.other_request(method, path, &request),
            };
            reply.unwrap_or_else(|| {
                state.lacks.push(format!("ARI's {method} /{}", path.join("/")));
                Reply::refusal(501, "Not emulated")
            })
        }),
    }
}

impl State {
    fn channel_request(&mut self, method: &str, path: &[&str], request: &Request) -> Option<Reply> {
        let id = match path {
            [] if method == "GET" => {
                return Some(Reply::of(self.channels.values().map(super::channel::Channel::json).collect()));
            }
            [] => return None,
            [id, ..] => *id,
        };
        if let ("POST", [_]) = (method, path) {
            return Some(self.originate_request(id, request));
        }
        let Some(channel) = self.channels.get(id) else { return Some(Reply::no_channel()) };
        let in_stasis = channel.stasis.is_some();
        Some(match (method, &path[1..]) {
            ("GET", []) => Reply::of(channel.json()),
            ("DELETE", []) => {
                let reason = match request.text("reason").as_deref() {
                    Some("busy") => cause::BUSY,
                    Some("congestion") => cause::CONGESTION,
                    Some("no_answer") => cause::NO_ANSWER,
                    _ => request.text("reason_code").and_then(|code| code.parse().ok()).unwrap_or(cause::NORMAL),
                };
                self.hang_up(id, reason, By::Request);
                Reply::done()
            }
            ("GET", ["variable"]) => self.variable_request(id, request),
            ("GET", ["rtp_statistics"]) if channel.is_phone() => {
                let (received, sent) = (channel.received, channel.sent);
                Reply::of(json!({ "rxcount": received, "txcount": sent, "channel_uniqueid": id }))
            }
            ("GET", ["rtp_statistics"]) => Reply::refusal(404, "Media RTP instance not found"),
            _ if !in_stasis => Reply::refusal(409, "Channel not in Stasis application"),
            ("POST", ["variable"]) => {
                let (name, value) = (request.text("variable")?, request.text("value").unwrap_or_default());
                self.assign(id, &name, &value);
                Reply::done()
            }
            (method, rest) => self.steer(method, id, rest, request)?,
        })
    }

    /// What is done to a channel in Stasis.
    fn steer(&mut self, method: &str, id: &str, action: &[&str], request: &Request) -> Option<Reply> {
        match (method, action) {
            ("POST", ["answer"]) => self.answer(id),
            ("POST", ["ring"]) => self.ring(id),
            ("DELETE", ["ring"]) => self.stop_tone(id),
            ("POST", ["progress"]) => {}
            ("POST", ["continue"]) => {
                let text = |name| request.text(name).filter(|text| !text.is_empty());
                let here = self.channels.get(id)?.place.clone();
                let priority = text("priority").and_then(|priority| priority.parse().ok()).unwrap_or(1);
                let to = (text("context").is_some() || text("extension").is_some()).then(|| Place {
                    context: text("context").unwrap_or(here.context),
                    extension: text("extension").unwrap_or(here.extension),
                    priority,
                });
                self.leave_stasis(id, to);
            }
            ("POST" | "DELETE", ["mute"]) => {
                let (muted, direction) = (method == "POST", request.text("direction").unwrap_or_else(|| "both".into()));
                let channel = self.channels.get_mut(id)?;
                if direction != "out" {
                    channel.muted_in = muted;
                }
                if direction != "in" {
                    channel.muted_out = muted;
                }
            }
            ("POST", ["dtmf"]) => {
                let (switch, id, keys) = (self.switch(), id.to_owned(), request.text("dtmf").unwrap_or_default());
                self.spawn(async move {
                    for key in keys.chars() {
                        if key.eq_ignore_ascii_case(&'w') {
                            sleep(KEY_WAIT).await;
                        } else {
                            switch.with(|state| state.press(&id, key));
                            sleep(KEY).await;
                        }
                    }
                });
            }
            ("POST", ["play"]) if request.text("media").is_some_and(|media| media.starts_with("tone:")) => {
                let media = request.text("media")?;
                let tone = media.trim_start_matches("tone:").split(';').next()?.to_owned();
                self.play(id, Tone::named(&tone));
            }
            _ => return None,
        }
        Some(Reply::done())
    }

    fn variable_request(&self, id: &str, request: &Request) -> Reply {
        let Some(name) = request.text("variable") else { return Reply::refusal(400, "Variable name is required") };
        match self.value(id, &name) {
            Ok(Some(value)) => Reply::of(json!({ "value": value })),
            Ok(None) => Reply::refusal(404, "Provided variable was not found"),
            Err(Unreadable) => Reply::refusal(500, "Unable to read provided function"),
        }
    }

    fn originate_request(&mut self, id: &str, request: &Request) -> Reply {
        let (Some(endpoint), Some(app)) = (request.text("endpoint"), request.text("app")) else {
            return Reply::refusal(400, "Endpoint and application are needed");
        };
        if self.channels.contains_key(id) {
            return Reply::refusal(409, "Channel with given unique ID already exists");
        }
        let arguments = request.text("appArgs").unwrap_or_default();
        let arguments = arguments.split(',').filter(|text| !text.is_empty()).map(str::to_owned).collect();
        // Without one it is the originator's, and whether it may be shown.
        let originator = || request.text("originator").map(|id| self.party(&id));
        let caller = request.text("callerId").map(|text| Party::read(&text)).or_else(originator).unwrap_or_default();
        let variables = request.body["variables"].as_object().into_iter().flatten();
        let variables =
            variables.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
        let owner = Some((id.to_owned(), Owner { app, arguments }));
        let limit = request.text("timeout").and_then(|limit| limit.parse().ok()).map(Duration::from_secs);
        match self.originate(&endpoint, Calling { caller, variables, owner }, limit) {
            Ok(id) => Reply::of(self.channels.get(&id).map(super::channel::Channel::json).unwrap_or_default()),
            Err(_) => Reply::allocation_failed(),
        }
    }

    fn bridge_request(&mut self, method: &str, path: &[&str], request: &Request) -> Option<Reply> {
        let no_bridge = || Some(Reply::refusal(404, "Bridge not found"));
        let Some((id, action)) = path.split_first() else {
            let all: Vec<_> = self.bridges.keys().cloned().collect();
            return (method == "GET").then(|| Reply::of(all.iter().map(|id| self.bridge_json(id)).collect()));
        };
        if method == "POST" && action.is_empty() {
            // Of all who are connected nobody is named by the request; the engine's ids tell whose it is.
            let app = self.apps.keys().find(|app| id.contains(app.as_str())).cloned();
            if !self.make_bridge(id, app.as_deref().or(Some(""))) {
                return Some(Reply::refusal(409, "Bridge with the given unique ID already exists"));
            }
            return Some(Reply::of(self.bridge_json(id)));
        }
        if !self.bridges.contains_key(*id) {
            return no_bridge();
        }
        Some(match (method, action) {
            ("GET", []) => Reply::of(self.bridge_json(id)),
            ("DELETE", []) => {
                self.remove_bridge(id);
                Reply::done()
            }
            ("POST", ["addChannel"]) => {
                let channels = request.list("channel");
                if channels.iter().any(|channel| !self.channels.contains_key(channel)) {
                    return Some(Reply::refusal(400, "Channel not found"));
                }
                if channels.iter().any(|id| self.channels.get(id).is_none_or(|channel| channel.stasis.is_none())) {
                    return Some(Reply::refusal(422, "Channel not in Stasis application"));
                }
                channels.iter().for_each(|channel| self.join_bridge(channel, id));
                Reply::done()
            }
            ("POST", ["removeChannel"]) => {
                let channels = request.list("channel");
                if channels.iter().any(|channel| !self.channels.contains_key(channel)) {
                    return Some(Reply::refusal(400, "Channel not found"));
                }
                let is_in = |channel: &String| {
                    self.channels.get(channel).is_some_and(|channel| channel.bridge.as_deref() == Some(*id))
                };
                if !channels.iter().all(is_in) {
                    return Some(Reply::refusal(422, "Channel not in this bridge"));
                }
                channels.iter().for_each(|channel| self.leave_bridge(channel));
                Reply::done()
            }
            _ => return None,
        })
    }

    fn other_request(&mut self, method: &str, path: &[&str], request: &Request) -> Option<Reply> {
        Some(match (method, path) {
            ("GET", ["asterisk", "info"]) => {
                Reply::of(json!({ "system": { "version": "22.10.1", "entity_id": "02:00:00:00:00:01" } }))
            }
            ("GET", ["asterisk", "variable"]) => {
                let value = self.globals.get(&request.text("variable")?).cloned().unwrap_or_default();
                Reply::of(json!({ "value": value }))
            }
            ("POST", ["asterisk", "variable"]) => {
                self.globals.insert(request.text("variable")?, request.text("value").unwrap_or_default());
                Reply::done()
            }
            ("GET", ["asterisk", "modules"]) => Reply::of(self.modules().into_iter().map(module).collect()),
            ("GET", ["applications", app]) => {
                let of_it = |one: &Option<String>| one.as_deref() == Some(*app);
                let channels: Vec<_> = self.channels.values().filter(|one| of_it(&one.subscriber)).collect();
                if !self.apps.contains_key(*app) && channels.is_empty() {
                    return Some(Reply::refusal(404, "Application not found"));
                }
                let bridges = self.bridges.iter().filter(|(_, bridge)| of_it(&bridge.app)).map(|(id, _)| id);
                Reply::of(json!({
                    "name": app,
                    "channel_ids": channels.iter().map(|channel| &channel.id).collect::<Vec<_>>(),
                    "bridge_ids": bridges.collect::<Vec<_>>(),
                    "endpoint_ids": [],
                    "device_names": [],
                    "events_allowed": [],
                    "events_disallowed": [],
                }))
            }
            (_, ["applications", app, "subscription"]) => {
                let source = request.text("eventSource")?;
                let channel = source.strip_prefix("channel:").and_then(|id| self.channels.get_mut(id));
                let Some(channel) = channel else {
                    return Some(Reply::refusal(422, "Event source does not exist"));
                };
                channel.subscribed = method == "POST";
                if channel.subscribed {
                    channel.subscriber = Some((*app).to_owned());
                } else if channel.stasis.is_none() && channel.owner.is_none() {
                    channel.subscriber = None;
                }
                Reply::of(json!({ "name": app }))
            }
            ("POST", ["events", "user", name]) => {
                let app = request.text("application")?;
                self.tell(&app, json!({ "type": "ChannelUserevent", "eventname": name, "userevent": {} }));
                Reply::done()
            }
            ("PUT", ["deviceStates", device]) => {
                let Some(state) = request.text("deviceState") else {
                    return Some(Reply::refusal(400, "A state is needed"));
                };
                self.devices.insert((*device).to_owned(), state);
                Reply::done()
            }
            ("GET", ["deviceStates", device @ ..]) => {
                let device = device.join("/");
                let state = self.device_state(&device);
                Reply::of(json!({ "name": device, "state": state }))
            }
            ("GET", ["endpoints", technology, resource]) => {
                if *technology != "PJSIP" || !registry::ACCOUNTS.contains(resource) {
                    return Some(Reply::refusal(404, "Endpoint not found"));
                }
                Reply::of(
                    json!({ "technology": technology, "resource": resource, "state": "offline", "channel_ids": [] }),
                )
            }
            _ => return None,
        })
    }

    fn device_state(&self, device: &str) -> String {
        if let Some(state) = self.devices.get(device) {
            return state.clone();
        }
        let in_use = |prefix: &str| self.channels.values().any(|channel| channel.name.starts_with(prefix));
        let state = match device.split_once('/') {
            Some(("Local", target)) => {
                let (extension, context) = target.split_once('@').unwrap_or((target, "default"));
                match self.dialplan.exists(context, extension, 1) {
                    true if in_use(&format!("Local/{target}")) => "INUSE",
                    true => "NOT_INUSE",
                    false => "INVALID",
                }
            }
            Some(("PJSIP", "anonymous")) if in_use("PJSIP/anonymous") => "INUSE",
            Some(("PJSIP", account)) if registry::ACCOUNTS.contains(&account) => "UNAVAILABLE",
            Some(("PJSIP", _)) => "INVALID",
            _ => "UNKNOWN",
        };
        state.to_owned()
    }

    /// The modules that run: those of `modules.conf` but for those that a test is without.
    pub fn modules(&self) -> Vec<String> {
        let path = crate::project().join("deploy/asterisk/etc/modules.conf");
        let text = std::fs::read_to_string(path).expect("the modules of the lab's Asterisk");
        let named = text.lines().filter_map(|line| line.strip_prefix("load = ")?.split('.').next());
        named.filter(|name| !self.options.without.contains(name)).map(str::to_owned).collect()
    }
}

fn module(name: String) -> Value {
    json!({ "name": format!("{name}.so"), "description": "", "use_count": 0, "status": "Running", "support_level": "core" })
}

/// How the audio of a media channel is carried.
enum Way {
    Socket(TcpStream, Uuid),
    Rtp(UdpSocket, SocketAddr),
    WebSocket(String),
}

async fn external_media(switch: &Switch, request: &Request) -> Reply {
    let text = |name: &str| request.text(name).unwrap_or_default();
    let (id, app, host) = (text("channelId"), text("app"), text("external_host"));
    let Some(codec) = Codec::named(&text("format")) else {
        return Reply::refusal(500, "Provided format was not found");
    };
    let (module, kind) = match (&*text("encapsulation"), &*text("transport")) {
        ("audiosocket", _) => ("chan_audiosocket", "AudioSocket"),
        (_, "websocket") => ("chan_websocket", "WebSocket"),
        _ => ("chan_rtp", "UnicastRTP"),
    };
    if switch.with(|state| state.options.without.contains(&module)) {
        return Reply::allocation_failed();
    }
    if switch.with(|state| state.channels.contains_key(&id)) {
        return Reply::refusal(500, "Channel with given unique ID already exists");
    }
    let way = match kind {
        "AudioSocket" => {
            let Ok(uuid) = Uuid::parse_str(&text("data")) else { return Reply::allocation_failed() };
            let Ok(stream) = TcpStream::connect(&host).await else { return Reply::allocation_failed() };
            Way::Socket(stream, uuid)
        }
        "WebSocket" => Way::WebSocket(Uuid::new_v4().to_string()),
        _ => {
            let Ok(to) = host.parse() else { return Reply::allocation_failed() };
            let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
            Way::Rtp(socket, to)
        }
    };
    switch.with(|state| {
        let id = if id.is_empty() { state.new_id() } else { id };
        let name = match &way {
            Way::Socket(_, uuid) => format!("AudioSocket/{host}-{uuid}"),
            Way::Rtp(..) => format!("UnicastRTP/{host}-0x{:012x}", state.serial()),
            Way::WebSocket(_) => format!("WebSocket/INCOMING/0x{:012x}", state.serial()),
        };
        let arguments = match &way {
            Way::Socket(_, uuid) => vec![uuid.to_string()],
            Way::Rtp(..) | Way::WebSocket(_) => vec![],
        };
        let sent = state.add_media(id.clone(), name, codec, Some(Owner { app, arguments }));
        let switch = state.switch();
        let mut told: Vec<(&str, String)> = Vec::new();
        let begins = !matches!(way, Way::WebSocket(_));
        match way {
            Way::Socket(stream, uuid) => {
                let carried = leg(switch.clone(), id.clone(), stream, uuid, codec, sent);
                state.spawn(carried);
            }
            Way::Rtp(socket, to) => {
                let local = socket.local_addr().expect("bound");
                told = vec![
                    ("UNICASTRTP_LOCAL_ADDRESS", local.ip().to_string()),
                    ("UNICASTRTP_LOCAL_PORT", local.port().to_string()),
                ];
                state.spawn(rtp::carry(switch.clone(), id.clone(), socket, to, codec, sent));
            }
            Way::WebSocket(connection) => {
                told = vec![
                    ("MEDIA_WEBSOCKET_CONNECTION_ID", connection.clone()),
                    ("MEDIA_WEBSOCKET_OPTIMAL_FRAME_SIZE", codec.frame_bytes().to_string()),
                ];
                state.waiting.insert(connection.clone(), (id.clone(), sent));
                let (switch, id) = (switch.clone(), id.clone());
                state.spawn(async move {
                    sleep(CONNECT_WITHIN).await;
                    switch.with(|state| {
                        if state.waiting.contains_key(&connection) {
                            state.hang_up(&id, cause::NO_ANSWER, By::Dialplan);
                        }
                    });
                });
            }
        }
        let channel = state.channels.get_mut(&id).expect("added above");
        channel.state = ChannelState::Down;
        told.iter().for_each(|(name, value)| channel.set(name, value));
        let mut described = channel.json();
        described["channelvars"] =
            told.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect();
        if begins {
            state.spawn(async move {
                sleep(STASIS_AFTER).await;
                switch.with(|state| state.answer(&id));
            });
        }
        Reply::of(described)
    })
}
