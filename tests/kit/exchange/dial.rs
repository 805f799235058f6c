//! Calling others: `Dial()`, `Queue()`, and ARI's originate.

use super::{
    apps::Then,
    audiosocket::{self, Finish},
    channel::{Channel, ChannelState, Owner, Party, Progress, Tech, cause},
    dialplan::Place,
    frame::Codec,
    phone::Called,
    registry,
    state::{By, State, Switch},
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use std::{collections::BTreeMap, future::pending, time::Duration};
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// As `queues.conf` of the lab has it.
const QUEUES: [(&str, &[&str]); 1] = [("reception", &["Local/desk@lab-targets"])];
/// `timeout` of a queue, after which members are rung anew.
const QUEUE_LIMIT: u64 = 15;
/// `blindxfer` and `transferdigittimeout` of a `features.conf` that is not there.
const BLIND_TRANSFER: char = '#';
const TRANSFER_KEYS: Duration = Duration::from_secs(3);
/// The context of every telephone.
pub const CALLERS: &str = "lab-callers";

/// Who calls, and what the channel that is called inherits.
#[derive(Debug, Clone, Default)]
pub struct Calling {
    pub caller: Party,
    pub variables: BTreeMap<String, String>,
    /// ARI has made it, under this id.
    pub owner: Option<(String, Owner)>,
}

impl State {
    /// Makes a channel to an endpoint, which is not called yet.
    ///
    /// # Errors
    /// The cause, where there is no such endpoint.
    pub fn outgoing(&mut self, endpoint: &str, calling: Calling) -> Result<String, u32> {
        let (technology, resource) = endpoint.split_once('/').ok_or(cause::NO_ROUTE)?;
        let Calling { caller, variables, owner } = calling;
        let (id, owner) = match owner {
            Some((id, owner)) => (id, Some(owner)),
            None => (self.new_id(), None),
        };
        let add = |state: &mut Self, mut channel: Channel| {
            channel.connected = caller.clone();
            variables.iter().for_each(|(name, value)| channel.set(name, value));
            channel.subscriber = owner.as_ref().map(|owner| owner.app.clone());
            channel.owner = owner.clone();
            state.add(channel);
        };
        match technology.to_ascii_lowercase().as_str() {
            "local" => {
                let target = resource.split('/').next().unwrap_or_default().to_owned();
                let (extension, context) = target.split_once('@').unwrap_or((&target, "default"));
                let number = self.number("Local");
                let name = |half: u8| format!("Local/{target}-{number:08x};{half}");
                let other = self.new_id();
                add(self, Channel::new(id.clone(), name(1), Tech::Local(other.clone()), Codec::Linear(8_000)));
                let mut far = Channel::new(other, name(2), Tech::Local(id.clone()), Codec::Linear(8_000));
                far.state = ChannelState::Ring;
                far.caller = caller;
                far.place = Place::of(context, extension, 1);
                variables.iter().for_each(|(name, value)| far.set(name, value));
                self.add(far);
            }
            "pjsip" => {
                let handset = registry::phone_of(resource).ok_or(cause::UNREGISTERED)?;
                let name = format!("PJSIP/anonymous-{:08x}", self.number("PJSIP"));
                let codec = handset.codec();
                add(self, Channel::new(id.clone(), name, Tech::Phone(handset), codec));
            }
            "audiosocket" => {
                let mut parts = resource.split('/');
                let (address, uuid) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                let uuid = Uuid::parse_str(uuid).map_err(|_| cause::NO_ROUTE)?;
                let codec = parts.find_map(|option| option.strip_prefix("c(")?.strip_suffix(')'));
                let codec = Codec::named(codec.unwrap_or("slin")).ok_or(cause::NO_ROUTE)?;
                let name = format!("AudioSocket/{address}-{uuid}");
                let sent = self.add_media(id.clone(), name, codec, owner);
                let (switch, id, address) = (self.switch(), id.clone(), address.to_owned());
                self.spawn(async move {
                    let Ok(stream) = TcpStream::connect(&address).await else {
                        return switch.with(|state| state.hang_up(&id, cause::FAILURE, By::FarEnd));
                    };
                    switch.with(|state| state.answer(&id));
                    leg(switch, id, stream, uuid, codec, sent).await;
                });
            }
            _ => {
                self.logs("WARNING", &format!("No channel type registered for '{technology}'"));
                return Err(cause::NO_ROUTE);
            }
        }
        Ok(id)
    }

    /// Calls what [`Self::outgoing`] has made.
    pub fn call(&mut self, id: &str) {
        let Some(channel) = self.channels.get(id) else { return };
        let caller = channel.connected.clone();
        match &channel.tech {
            Tech::Phone(handset) => {
                let handset = handset.clone();
                match handset.is_called(&self.switch(), id, &caller) {
                    Called::Rings => self.is_ringing(id),
                    Called::Busy => self.hang_up(id, cause::BUSY, By::FarEnd),
                    Called::NobodyThere => {}
                }
            }
            Tech::Local(other) => {
                let other = other.clone();
                let Some(place) = self.channels.get(&other).map(|far| far.place.clone()) else { return };
                if self.dialplan.find(&place).is_some() {
                    self.run_dialplan(&other);
                } else {
                    let Place { context, extension, .. } = place;
                    let line = format!("No such extension/context {extension}@{context} while calling Local channel");
                    self.logs("NOTICE", &line);
                    self.hang_up(id, cause::NO_ROUTE, By::Dialplan);
                }
            }
            Tech::Media(_) => {}
        }
    }

    /// Calls an endpoint into an application.
    pub fn originate(&mut self, endpoint: &str, calling: Calling, limit: Option<Duration>) -> Result<String, u32> {
        let id = self.outgoing(endpoint, calling)?;
        let (switch, called) = (self.switch(), id.clone());
        let mut progress = self.channels.get(&id).expect("made above").progress.subscribe();
        self.spawn(async move {
            switch.with(|state| state.call(&called));
            let settled =
                progress.wait_for(|progress| matches!(progress, Progress::Up | Progress::Busy | Progress::Ended(_)));
            let limit = limit.unwrap_or(Duration::from_secs(30));
            if timeout(limit, settled).await.is_err() {
                switch.with(|state| state.hang_up(&called, cause::NO_ANSWER, By::Dialplan));
            }
        });
        Ok(id)
    }
}

/// Carries an AudioSocket channel until one of its ends has gone.
pub async fn leg(
    switch: Switch,
    id: String,
    stream: TcpStream,
    uuid: Uuid,
    codec: Codec,
    sent: tokio::sync::mpsc::UnboundedReceiver<super::channel::Sent>,
) {
    let heard = |frame| switch.with(|state| state.read(&id, &frame));
    let _: Finish = audiosocket::carry(stream, uuid, codec, sent, None, heard).await;
    switch.with(|state| state.hang_up(&id, cause::NORMAL, By::FarEnd));
}

/// Channels that were called; those that are left go with whoever called them.
struct Outgoing {
    switch: Switch,
    ids: Vec<String>,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.switch.with(|state| {
            for id in &self.ids {
                state.hang_up(id, cause::NORMAL, By::Dialplan);
            }
        });
    }
}

/// A bridge of two that goes with them.
struct Pair {
    switch: Switch,
    bridge: String,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.switch.with(|state| state.remove_bridge(&self.bridge));
    }
}

/// Rings all of these; the first to answer is connected with the caller.
pub async fn dial(switch: &Switch, id: &str, targets: &[&str], limit: Option<u64>, options: &str) -> Then {
    match ring(switch, id, targets, limit, options).await {
        Ok(called) => talk(switch, id, &called, options).await,
        Err(status) => {
            switch.with(|state| {
                state.stop_tone(id);
                state.assign(id, "DIALSTATUS", status);
                if let Some(channel) = state.channels.get_mut(id) {
                    // A telephone that rings until the limit leaves none.
                    channel.cause = match status {
                        "BUSY" => Some(cause::BUSY),
                        "CONGESTION" => Some(cause::CONGESTION),
                        "CHANUNAVAIL" => Some(cause::UNREGISTERED),
                        _ => None,
                    };
                }
            });
            Then::Next
        }
    }
}

/// Rings the members of a queue again and again.
pub async fn queue(switch: &Switch, id: &str, queue: &str, options: &str) -> Then {
    let Some((_, members)) = QUEUES.iter().find(|(name, _)| *name == queue) else {
        switch.with(|state| state.logs("WARNING", &format!("Queue '{queue}' does not exist")));
        return Then::Next;
    };
    loop {
        match ring(switch, id, members, Some(QUEUE_LIMIT), options).await {
            Ok(called) => return talk(switch, id, &called, options).await,
            Err(_) => sleep(Duration::from_secs(5)).await,
        }
    }
}

/// Until one of them has answered, or it is certain that none will: `DIALSTATUS`.
async fn ring(
    switch: &Switch,
    id: &str,
    targets: &[&str],
    limit: Option<u64>,
    options: &str,
) -> Result<Outgoing, &'static str> {
    let mut called = Outgoing { switch: switch.clone(), ids: Vec::new() };
    let mut told: Vec<watch::Receiver<Progress>> = Vec::new();
    switch.with(|state| {
        let caller = state.party(id);
        let variables = state.channels.get(id).map(Channel::bequeathed).unwrap_or_default();
        for target in targets {
            let calling = Calling { caller: caller.clone(), variables: variables.clone(), owner: None };
            match state.outgoing(target.trim(), calling) {
                Ok(made) => {
                    let channel = state.channels.get(&made).expect("made just now");
                    told.push(channel.progress.subscribe());
                    called.ids.push(made);
                }
                Err(cause) => state.logs("WARNING", &format!("Unable to create channel of '{target}' (cause {cause})")),
            }
        }
        if options.contains('r') && !called.ids.is_empty() {
            state.ring(id);
        }
        for made in called.ids.clone() {
            state.call(&made);
        }
    });
    if called.ids.is_empty() {
        return Err("CHANUNAVAIL");
    }
    let limit = Duration::from_secs(limit.unwrap_or(136));
    let answered = timeout(limit, first(switch, id, &mut told, options)).await.unwrap_or(Err("NOANSWER"));
    let winner = called.ids[answered?].clone();
    let losers: Vec<String> = called.ids.extract_if(.., |made| *made != winner).collect();
    drop(Outgoing { switch: switch.clone(), ids: losers });
    Ok(called)
}

/// Which one answers first.
async fn first(
    switch: &Switch,
    id: &str,
    told: &mut [watch::Receiver<Progress>],
    options: &str,
) -> Result<usize, &'static str> {
    let mut ringing = options.contains('r');
    let mut status = "CHANUNAVAIL";
    let mut waits: FuturesUnordered<_> =
        told.iter_mut().enumerate().map(|(place, progress)| next(place, progress, Progress::Calling)).collect();
    while let Some((place, progress, watched)) = waits.next().await {
        match progress {
            Progress::Up => return Ok(place),
            Progress::Ringing | Progress::Calling => {
                status = "NOANSWER";
                if !ringing && progress == Progress::Ringing {
                    ringing = true;
                    switch.with(|state| state.ring(id));
                }
                waits.push(next(place, watched, progress));
            }
            Progress::Busy | Progress::Ended(cause::BUSY) => status = "BUSY",
            Progress::Congested | Progress::Ended(cause::CONGESTION) => status = "CONGESTION",
            Progress::Ended(_) => {}
        }
    }
    Err(status)
}

async fn next(
    place: usize,
    progress: &mut watch::Receiver<Progress>,
    but: Progress,
) -> (usize, Progress, &mut watch::Receiver<Progress>) {
    let changed = progress.wait_for(|progress| *progress != but).await.map(|progress| *progress);
    (place, changed.unwrap_or(Progress::Ended(cause::NORMAL)), progress)
}

/// The two are connected until one of them has gone; with the one who was called the caller goes as well.
async fn talk(switch: &Switch, id: &str, called: &Outgoing, options: &str) -> Then {
    let bridge = Uuid::new_v4().to_string();
    let (keys, mut pressed) = mpsc::unbounded_channel();
    let ended = switch.with(|state| {
        state.stop_tone(id);
        state.assign(id, "DIALSTATUS", "ANSWER");
        state.tells_whom_it_has_called(id);
        state.answer(id);
        state.tell_of_answer(id, &called.ids[0]);
        state.make_bridge(&bridge, None);
        state.join_bridge(id, &bridge);
        state.join_bridge(&called.ids[0], &bridge);
        let channel = state.channels.get_mut(&called.ids[0])?;
        channel.features = options.contains('t').then_some(keys);
        Some(channel.ended.clone())
    });
    let _pair = Pair { switch: switch.clone(), bridge };
    let over = ended.unwrap_or_else(cancelled);
    tokio::select! {
        biased;
        () = over.cancelled() => Then::HangUp(cause::NORMAL),
        to = is_sent_on(switch, &called.ids[0], &mut pressed) => Then::Jump(to),
    }
}

/// Until the one who was called has sent the other one on: `blindxfer` and an extension, which is over when no key comes for a while.
async fn is_sent_on(switch: &Switch, id: &str, pressed: &mut mpsc::UnboundedReceiver<char>) -> Place {
    loop {
        match pressed.recv().await {
            Some(BLIND_TRANSFER) => {}
            Some(key) => {
                switch.with(|state| state.passes_on(id, key));
                continue;
            }
            None => return pending().await,
        }
        let mut extension = String::new();
        while let Ok(Some(key)) = timeout(TRANSFER_KEYS, pressed.recv()).await {
            extension.push(key);
        }
        if switch.with(|state| state.dialplan.exists(CALLERS, &extension, 1)) {
            return Place::of(CALLERS, &extension, 1);
        }
    }
}

fn cancelled() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}
