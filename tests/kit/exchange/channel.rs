//! One channel: who it belongs to, what state it is in, and where its audio goes.

use super::{
    dialplan::Place,
    frame::{Codec, Frame},
    phone::Handset,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Q.850.
pub mod cause {
    pub const NO_ROUTE: u32 = 3;
    pub const NORMAL: u32 = 16;
    pub const BUSY: u32 = 17;
    pub const NO_ANSWER: u32 = 19;
    pub const REJECTED: u32 = 21;
    pub const CONGESTION: u32 = 34;
    pub const FAILURE: u32 = 38;
    /// Asterisk's own word for an endpoint that is not there.
    pub const UNREGISTERED: u32 = 20;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelState {
    Down,
    /// It calls.
    Ring,
    /// It is called and rings.
    Ringing,
    Up,
}

impl ChannelState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "Down",
            Self::Ring => "Ring",
            Self::Ringing => "Ringing",
            Self::Up => "Up",
        }
    }
}

/// How far a channel that is called has come, for whoever calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Calling,
    Ringing,
    Busy,
    Congested,
    Up,
    Ended(u32),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Party {
    pub name: String,
    pub number: String,
    /// `CALLERID(pres)` is not `allowed…`.
    pub withheld: bool,
}

impl Party {
    pub fn new(name: &str, number: &str) -> Self {
        Self { name: name.to_owned(), number: number.to_owned(), withheld: false }
    }

    /// `"Name" <number>`.
    pub fn read(text: &str) -> Self {
        let (name, number) = text.split_once('<').unwrap_or((text, ""));
        Self::new(name.trim().trim_matches('"'), number.trim_end().trim_end_matches('>'))
    }

    fn json(&self) -> Value {
        json!({ "name": self.name, "number": self.number })
    }
}

/// What a channel is told to send to its far end.
#[derive(Debug, Clone)]
pub enum Sent {
    Audio(Frame),
    Digit(char),
}

/// Where a channel's far end is.
pub enum Tech {
    Phone(Handset),
    /// AudioSocket, RTP or WebSocket: a task has the socket.
    Media(mpsc::UnboundedSender<Sent>),
    /// The other half of a Local channel.
    Local(String),
}

/// Where the audio of a channel that is in no bridge goes.
pub enum Ear {
    Nobody,
    Echo,
    Application(mpsc::UnboundedSender<Sent>),
}

/// A stay in a Stasis application.
pub struct Stasis {
    /// Where the dialplan waits; a channel that the application made has none.
    pub exit: Option<oneshot::Sender<Option<Place>>>,
}

/// The application that made a channel, and what its `StasisStart` says.
#[derive(Debug, Clone)]
pub struct Owner {
    pub app: String,
    pub arguments: Vec<String>,
}

pub struct Channel {
    pub id: String,
    pub name: String,
    pub tech: Tech,
    pub codec: Codec,
    /// What an application reads it as.
    pub read_codec: Codec,
    pub state: ChannelState,
    pub caller: Party,
    pub connected: Party,
    pub place: Place,
    /// The application of the dialplan that runs, with its arguments.
    pub running: (String, String),
    pub variables: BTreeMap<String, String>,
    /// Variables that channels called for this one get as well: `__NAME`.
    pub inherited: BTreeSet<String>,
    pub owner: Option<Owner>,
    pub stasis: Option<Stasis>,
    /// The application that is told of this channel,
    pub subscriber: Option<String>,
    /// also when it is in no application, as one has asked for.
    pub subscribed: bool,
    /// Why nobody who was called for it took it: `Hangup()` without a cause has this one.
    pub cause: Option<u32>,
    pub bridge: Option<String>,
    pub ear: Ear,
    pub tone: Option<CancellationToken>,
    pub ended: CancellationToken,
    pub progress: watch::Sender<Progress>,
    pub held: bool,
    pub muted_in: bool,
    pub muted_out: bool,
    /// Packets from and to the far end.
    pub received: u64,
    pub sent: u64,
    pub created: String,
    /// When `TIMEOUT(absolute)` is over.
    pub times_out: Option<Instant>,
    /// Where its keys go in a call of `Dial()` whose option gives it the codes of `features.conf`.
    pub features: Option<mpsc::UnboundedSender<char>>,
}

impl Channel {
    pub fn new(id: String, name: String, tech: Tech, codec: Codec) -> Self {
        Self {
            id,
            name,
            tech,
            codec,
            read_codec: codec,
            state: ChannelState::Down,
            caller: Party::default(),
            connected: Party::default(),
            place: Place::of("lab-callers", "s", 1),
            running: Default::default(),
            variables: BTreeMap::new(),
            inherited: BTreeSet::new(),
            owner: None,
            stasis: None,
            subscriber: None,
            subscribed: false,
            cause: None,
            bridge: None,
            ear: Ear::Nobody,
            tone: None,
            ended: CancellationToken::new(),
            progress: watch::Sender::new(Progress::Calling),
            held: false,
            muted_in: false,
            muted_out: false,
            received: 0,
            sent: 0,
            created: String::new(),
            times_out: None,
            features: None,
        }
    }

    /// Sets a variable; one of two underscores is inherited.
    pub fn set(&mut self, name: &str, value: &str) {
        let plain = name.trim_start_matches('_');
        if name.starts_with("__") {
            self.inherited.insert(plain.to_owned());
        }
        self.variables.insert(plain.to_owned(), value.to_owned());
    }

    /// What a channel that is called for this one gets.
    pub fn bequeathed(&self) -> BTreeMap<String, String> {
        let named = self.inherited.iter().filter_map(|name| Some((name, self.variables.get(name)?)));
        named.map(|(name, value)| (format!("__{name}"), value.clone())).collect()
    }

    pub const fn is_up(&self) -> bool {
        matches!(self.state, ChannelState::Up)
    }

    pub const fn is_phone(&self) -> bool {
        matches!(self.tech, Tech::Phone(_))
    }

    /// As ARI shows it.
    pub fn json(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "state": self.state.name(),
            "protocol_id": "",
            "caller": self.caller.json(),
            "connected": self.connected.json(),
            "accountcode": "",
            "dialplan": {
                "context": self.place.context,
                "exten": self.place.extension,
                "priority": self.place.priority,
                "app_name": self.running.0,
                "app_data": self.running.1,
            },
            "creationtime": self.created,
            "language": "en",
        })
    }

    /// What `core show channel` prints, as far as tests read it.
    pub fn shown(&self) -> String {
        let mut text = format!(
            " -- General --\n           Name: {}\n       UniqueID: {}\n          State: {} \n  NativeFormats: ({})\n    \
             WriteFormat: {}\n     ReadFormat: {}\n      Variables:\n",
            self.name,
            self.id,
            self.state.name(),
            self.codec.name(),
            self.read_codec.name(),
            self.read_codec.name(),
        );
        for (name, value) in &self.variables {
            text += &format!("{name}={value}\n");
        }
        text
    }
}
