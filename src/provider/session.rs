//! What all providers share: dialling within bounds, waiting for the session to stand, carrying
//! commands and events, telling a dead peer from a quiet one, closing.
//!
//! Invariants:
//! - Before [`AgentEvent::Ready`] a failure is tried again within [`SessionPolicy::attempts`] and
//!   [`SessionPolicy::setup_max`]; afterwards it is final. A provider that asks for patience
//!   (`Retry-After`) gets it as far as that limit allows.
//! - A session that was to be resumed and is refused is not tried again: whoever began it decides what
//!   the next one is told.
//! - [`AgentEvent::Expiring`] comes once, before the vendor's limit if it has one.
//! - [`AgentEvent::Lost`] comes at most once, and nothing comes after it. It does not come when the
//!   call itself ends the session by closing its commands.
//! - No event is dropped: while the call is slow to take them, the provider is not read.
//! - The caller's audio and other commands are not dropped either, but for audio that outgrows the
//!   pre-roll before the provider is ready; that is counted.

mod alarm;
mod link;
mod meter;
mod preroll;
#[cfg(test)]
mod tests;
mod voice;
mod watch;

use super::{Agent, AgentSetup, Codec, Provider, ProviderCounters, SessionFormats, Wire};
use crate::{
    audio::{Converter, Format},
    call::{AgentCommand, AgentEvent, AgentLoss, Noise},
    chance,
    remote::{
        self,
        peer::{Garble, Pulse},
        web_socket,
    },
};
use alarm::{Alarm, Ring};
use bytes::Bytes;
use link::{DialError, Incoming, Link, Unwritable};
use preroll::Preroll;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_tungstenite::tungstenite::Message;
use voice::Voice;
use watch::{Due, Watch};

pub use meter::Meter;

/// Messages waiting for the socket: over a second of caller audio. Beyond it commands wait in their
/// channel, whose overflow tells the call that the provider stopped reading.
const OUTBOX_MAX: usize = 64;

/// What has come is read before a deadline is told, for so long: one that sends without a pause puts nothing off.
const READ_FIRST_MAX: Duration = Duration::from_secs(1);

/// So long before the vendor's limit of a session the call is told, or half of the limit where that is
/// shorter: enough for both to finish what they are saying, and for another session to be set up.
const EXPIRY_NOTICE: Duration = Duration::from_secs(60);

/// Bounds of a session. The defaults suit a caller who is waiting.
#[derive(Debug, Clone)]
pub struct SessionPolicy {
    /// From the start until the session stands, all attempts included.
    pub setup_max: Duration,
    /// A provider that failed three times in a row will not be there a fourth time within the
    /// seconds a caller waits.
    pub attempts: u32,
    /// Connecting, TLS and the upgrade, per attempt.
    pub connect_max: Duration,
    /// From the connection until the session stands, per attempt.
    pub handshake_max: Duration,
    /// Before the second attempt; doubled before each further one, and jittered by half.
    pub backoff: Duration,
    /// Caller audio kept until the session stands.
    pub preroll_max: Duration,
    /// Two of them fit into the patience with most vendors ([`Remote::patience`](super::Remote::patience)). Keeps NAT mappings
    /// alive as well, which some forget after 30 s.
    pub ping_every: Duration,
    /// For the closing handshake, and for the provider's last words once it no longer reads.
    pub close_max: Duration,
}

impl Default for SessionPolicy {
    fn default() -> Self {
        Self {
            setup_max: Duration::from_secs(10),
            attempts: 3,
            connect_max: Duration::from_secs(4),
            handshake_max: Duration::from_secs(4),
            backoff: Duration::from_millis(200),
            preroll_max: Duration::from_secs(5),
            ping_every: Duration::from_secs(5),
            close_max: Duration::from_secs(1),
        }
    }
}

/// Runs one call's session until the provider is lost or `commands` is closed. Dropping the future
/// ends it at once, at any point.
pub async fn run(
    provider: Arc<dyn Provider>,
    setup: AgentSetup,
    commands: mpsc::Receiver<AgentCommand>,
    events: mpsc::Sender<AgentEvent>,
    policy: SessionPolicy,
    counters: Arc<ProviderCounters>,
) {
    if let Agent::Embedded(agent) = provider.agent() {
        let _connected = setup.meter.connect();
        if let Some(loss) = agent.play(setup.clone(), policy.setup_max, commands, events.clone()).await {
            // A call that has left hears nothing of it.
            let _ = events.send(AgentEvent::Lost(loss)).await;
        }
        return;
    }
    let preroll = Preroll::new(setup.leg, policy.preroll_max);
    let mut session = Session {
        provider,
        setup,
        commands,
        events,
        policy,
        counters,
        preroll,
        pending: VecDeque::new(),
        refused: None,
    };
    match session.attempts().await {
        End::Lost(loss) => session.report(loss).await,
        End::Left => {}
    }
}

struct Session {
    provider: Arc<dyn Provider>,
    setup: AgentSetup,
    commands: mpsc::Receiver<AgentCommand>,
    events: mpsc::Sender<AgentEvent>,
    policy: SessionPolicy,
    counters: Arc<ProviderCounters>,
    preroll: Preroll,
    /// Events the call has not taken yet: those of one message, since no other is read meanwhile.
    pending: VecDeque<AgentEvent>,
    /// HTTP status with which the last attempt was refused.
    refused: Option<u16>,
}

enum End {
    Lost(AgentLoss),
    /// The call closed its side.
    Left,
}

/// How one attempt came out.
enum Attempt {
    /// The session never stood.
    Failed { loss: AgentLoss, retry_after: Option<Duration> },
    /// It stood, and this ended it.
    Ended(End),
}

/// What a conversation waits for, whichever comes first.
enum Step {
    /// The call took an event.
    Delivered,
    Heard(Incoming),
    Sent(Result<(), Unwritable>),
    Told(Option<AgentCommand>),
    Beat,
    Due(Due),
}

/// One connection and all that lives as long as it.
struct Talk {
    link: Link,
    codec: Box<dyn Codec>,
    outbox: VecDeque<Message>,
    caller: Converter,
    agent: Voice,
    ready: bool,
    garble: Garble,
    pulse: Pulse,
    watch: Watch,
    /// The call is told of the vendor's limit so long before it.
    notice: Duration,
}

impl Session {
    async fn attempts(&mut self) -> End {
        let deadline = Instant::now() + self.policy.setup_max;
        let mut backoff = self.policy.backoff;
        let mut last = AgentLoss::Unreachable;
        let mut asked = None;
        for attempt in 1..=self.policy.attempts {
            if attempt > 1 {
                let wait = backoff.mul_f64(chance::within(0.5..1.5)).max(asked.unwrap_or_default());
                backoff *= 2;
                if Instant::now() + wait >= deadline {
                    break;
                }
                if self.collecting(sleep(wait)).await.is_none() {
                    return End::Left;
                }
            }
            match self.attempt(deadline).await {
                Attempt::Ended(end) => return end,
                Attempt::Failed { loss, retry_after } => {
                    self.count_dial(loss.label());
                    let retry_after_ms = retry_after.map(|wait| wait.as_millis() as u64);
                    tracing::warn!(
                        attempt,
                        loss = loss.label(),
                        status = self.refused,
                        retry_after_ms,
                        "the provider's session did not come about"
                    );
                    (last, asked) = (loss, retry_after);
                    // Where nobody was reached, the handle was not refused.
                    let reached = !matches!(loss, AgentLoss::Unreachable | AgentLoss::Throttled);
                    if loss.is_final() || self.setup.resume.is_some() && reached {
                        break;
                    }
                }
            }
        }
        End::Lost(last)
    }

    async fn attempt(&mut self, deadline: Instant) -> Attempt {
        self.refused = None;
        let provider = Arc::clone(&self.provider);
        let Agent::Remote(remote) = provider.agent() else { return Attempt::failed(AgentLoss::Unreachable) };
        let mut codec = remote.codec(&self.setup);
        let dial = remote.dial(&self.setup);
        let limit = deadline.min(Instant::now() + self.policy.connect_max);
        let link = match self.collecting(timeout_at(limit, Link::dial(dial))).await {
            None => return Attempt::Ended(End::Left),
            Some(Err(_)) => {
                tracing::warn!("the provider did not answer the connection in time");
                return Attempt::failed(AgentLoss::Unreachable);
            }
            Some(Ok(Err(error))) => {
                let (status, code, retry_after) = match error {
                    DialError::Socket(web_socket::DialError::Refused { status, code, retry_after }) => {
                        (status, code, retry_after)
                    }
                    DialError::NoAddress(status) if status > 0 => (status, None, None),
                    DialError::Socket(_) | DialError::NoAddress(_) => return Attempt::failed(AgentLoss::Unreachable),
                };
                self.refused = Some(status);
                let loss = match code.as_deref().and_then(remote::lasting) {
                    Some(loss) => loss,
                    // Who says when to come again has not turned us away for good.
                    None if retry_after.is_some() || status == 503 => AgentLoss::Throttled,
                    None => codec.refused(status),
                };
                return Attempt::Failed { loss, retry_after };
            }
            Some(Ok(Ok(link))) => link,
        };
        let _connected = self.setup.meter.connect();
        let formats = remote.formats(self.setup.leg);
        let notice = remote.session_max().map(notice);
        let mut first = Vec::new();
        codec.open(&mut first);
        let talk = Talk {
            link,
            codec,
            outbox: first.into_iter().map(Message::from).collect(),
            caller: Converter::new(self.setup.leg, formats.input),
            agent: Voice::new(formats.output, self.setup.leg),
            ready: false,
            garble: Garble::default(),
            pulse: Pulse::new(self.policy.ping_every, remote.patience()),
            watch: Watch::new(
                deadline.min(Instant::now() + self.policy.handshake_max),
                remote.session_max().zip(notice).map(|(max, notice)| Instant::now() + max.saturating_sub(notice)),
            ),
            notice: notice.unwrap_or_default(),
        };
        self.converse(talk).await
    }

    /// Carries messages both ways until something ends it.
    async fn converse(&mut self, mut talk: Talk) -> Attempt {
        let mut alarm = Alarm::new();
        loop {
            let taking = if talk.ready { talk.outbox.len() < OUTBOX_MAX } else { self.preroll.has_room() };
            let pings = talk.link.pings;
            let due = talk.watch.due(self.pending.is_empty());
            if let Some((at, _)) = due {
                alarm.no_later_than(at);
            }
            let (mut writer, reader) = talk.link.split();
            let writing = talk.watch.writable() && writer.has_work(&talk.outbox);
            // In this order: the socket alone can have more each time.
            let reading = self.pending.is_empty() && due.is_none_or(|(at, _)| Instant::now() < at + READ_FIRST_MAX);
            let step = tokio::select! {
                biased;
                permit = self.events.reserve(), if !self.pending.is_empty() => match permit {
                    Ok(permit) => {
                        if let Some(event) = self.pending.pop_front() {
                            permit.send(event);
                        }
                        Step::Delivered
                    }
                    Err(_) => return Attempt::Ended(End::Left),
                },
                sent = writer.send(&mut talk.outbox), if writing => Step::Sent(sent),
                command = self.commands.recv(), if taking => Step::Told(command),
                incoming = reader.next(), if reading => Step::Heard(incoming),
                rings = alarm.rings(&mut talk.pulse, pings) => match rings {
                    Ring::Beat => Step::Beat,
                    Ring::Alarm => match due.filter(|(at, _)| *at <= Instant::now()) {
                        Some((_, due)) => Step::Due(due),
                        // It has been put off meanwhile.
                        None => continue,
                    },
                },
            };
            let lost = match step {
                Step::Delivered => {
                    // What lies in the socket is read only now; the wait was ours.
                    talk.pulse.heard();
                    talk.watch.reads_again();
                    None
                }
                Step::Heard(incoming) => {
                    let lost = self.hear(&mut talk, incoming);
                    self.deliver();
                    lost
                }
                Step::Sent(sent) => {
                    if sent.is_err() {
                        talk.watch.unwritable(self.policy.close_max);
                    }
                    None
                }
                Step::Told(Some(command)) => {
                    self.take(&mut talk, command);
                    None
                }
                Step::Told(None) => {
                    // A provider that does not answer the goodbye is left standing.
                    let _ = timeout(self.policy.close_max, talk.link.close(talk.outbox)).await;
                    return Attempt::Ended(End::Left);
                }
                Step::Beat => self.beat(&mut talk),
                Step::Due(due) => self.on_due(&mut talk, due),
            };
            match lost {
                None => {}
                Some(loss) if talk.ready => return Attempt::Ended(End::Lost(loss)),
                // A session that never stood was not set up, whatever closed it.
                Some(AgentLoss::Closed) => return Attempt::failed(AgentLoss::Handshake),
                Some(loss) => return Attempt::failed(loss),
            }
        }
    }

    /// Hands over what the call takes at once; the rest is waited for.
    fn deliver(&mut self) {
        while !self.pending.is_empty() {
            let Ok(permit) = self.events.try_reserve() else { return };
            if let Some(event) = self.pending.pop_front() {
                permit.send(event);
            }
        }
    }

    /// Takes one message of the provider; `Some` when the session is over by it.
    fn hear(&mut self, talk: &mut Talk, incoming: Incoming) -> Option<AgentLoss> {
        talk.pulse.heard();
        match incoming {
            Incoming::Wire(wire) => self.decode(talk, wire),
            Incoming::Alive => None,
            Incoming::Closed { code, reason } => Some(talk.codec.closed(code, &reason)),
            Incoming::Broken => Some(talk.codec.closed(None, "")),
            Incoming::Unreadable => Some(AgentLoss::Protocol),
        }
        .inspect(|_| talk.agent.end(&mut self.pending))
    }

    fn decode(&mut self, talk: &mut Talk, wire: Wire) -> Option<AgentLoss> {
        let (mut events, mut replies) = (Vec::new(), Vec::new());
        talk.codec.decode(wire, &mut events, &mut replies);
        talk.say(replies);
        let malformed = events.contains(&AgentEvent::Noise(Noise::Malformed));
        let lost = self.take_events(talk, events);
        lost.or(talk.garble.is_too_much(malformed).then_some(AgentLoss::Protocol))
    }

    /// `Some` when the session is over by one of them.
    fn take_events(&mut self, talk: &mut Talk, events: Vec<AgentEvent>) -> Option<AgentLoss> {
        for event in events {
            talk.watch.heard(&event);
            match event {
                AgentEvent::Lost(loss) => return Some(loss),
                AgentEvent::Ready if talk.ready => {}
                AgentEvent::Ready => {
                    self.count_dial("ready");
                    talk.stands(self.setup.leg);
                    self.pending.push_back(AgentEvent::Ready);
                    for command in self.preroll.drain() {
                        talk.encode(command);
                    }
                }
                AgentEvent::Audio { response, item, audio } => {
                    talk.agent.push(response, item, audio, &mut self.pending);
                }
                AgentEvent::ResponseDone { .. } => {
                    talk.agent.end(&mut self.pending);
                    self.pending.push_back(event);
                }
                AgentEvent::Noise(noise) => {
                    self.counters.noise.with_label_values(&[self.provider.kind(), noise.label()]).inc();
                    self.pending.push_back(event);
                }
                event => self.pending.push_back(event),
            }
        }
        None
    }

    fn on_due(&mut self, talk: &mut Talk, due: Due) -> Option<AgentLoss> {
        let mut events = Vec::new();
        match due {
            Due::KeepAlive => talk.keep_alive(),
            Due::AudioGap => {
                talk.watch.gap_is_told();
                talk.codec.audio_gap(&mut events);
            }
            Due::HandshakeOver => return Some(AgentLoss::Handshake),
            Due::LastWordsOver => return Some(talk.codec.closed(None, "")),
            Due::Expiring => {
                talk.watch.expiry_is_told();
                self.pending.push_back(AgentEvent::Expiring { within: talk.notice });
            }
        }
        self.take_events(talk, events)
    }

    fn take(&mut self, talk: &mut Talk, command: AgentCommand) {
        if talk.ready {
            talk.encode(command);
        } else {
            self.keep(command);
        }
    }

    fn keep(&mut self, command: AgentCommand) {
        self.counters.preroll_dropped.inc_by(self.preroll.push(command));
    }

    /// One beat: a ping, and a look at how long the peer has been silent.
    fn beat(&self, talk: &mut Talk) -> Option<AgentLoss> {
        if self.pending.is_empty() && talk.pulse.is_gone() {
            return Some(talk.codec.closed(None, ""));
        }
        if talk.outbox.len() < OUTBOX_MAX {
            talk.outbox.push_back(Message::Ping(Bytes::new()));
        }
        None
    }

    /// Waits for `future` and keeps what the call says meanwhile; `None` when the call leaves.
    async fn collecting<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(future);
        loop {
            tokio::select! {
                biased;
                done = &mut future => return Some(done),
                command = self.commands.recv(), if self.preroll.has_room() => self.keep(command?),
            }
        }
    }

    /// Hands over what is still pending, then the loss. Commands are taken and forgotten meanwhile:
    /// nobody is there to hear them, and a full queue would be reported as another loss.
    async fn report(mut self, loss: AgentLoss) {
        self.pending.extend(self.refused.map(|status| AgentEvent::Refused { status }));
        self.pending.push_back(AgentEvent::Lost(loss));
        while let Some(event) = self.pending.pop_front() {
            let sending = self.events.send(event);
            tokio::pin!(sending);
            loop {
                tokio::select! {
                    biased;
                    sent = &mut sending => match sent {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    command = self.commands.recv() => if command.is_none() {
                        return;
                    },
                }
            }
        }
    }

    fn count_dial(&self, outcome: &str) {
        self.counters.dials.with_label_values(&[self.provider.kind(), outcome]).inc();
    }
}

impl Attempt {
    const fn failed(loss: AgentLoss) -> Self {
        Self::Failed { loss, retry_after: None }
    }
}

/// How long before a session's limit the call is told.
fn notice(session_max: Duration) -> Duration {
    EXPIRY_NOTICE.min(session_max / 2)
}

impl Talk {
    /// The session stands; now the codec knows all that the provider told.
    fn stands(&mut self, leg: Format) {
        self.ready = true;
        self.watch.begin(&*self.codec);
        if let Some(SessionFormats { input, output }) = self.codec.formats() {
            self.caller = Converter::new(leg, input);
            self.agent = Voice::new(output, leg);
        }
    }

    fn encode(&mut self, command: AgentCommand) {
        let command = match command {
            AgentCommand::Audio(audio) if !self.caller.is_identity() => {
                let mut converted = Vec::with_capacity(audio.len() * 3);
                self.caller.push(&audio, &mut converted);
                if converted.is_empty() {
                    return;
                }
                AgentCommand::Audio(converted.into())
            }
            command => command,
        };
        let mut wires = Vec::new();
        self.codec.encode(command, &mut wires);
        self.say(wires);
    }

    fn say(&mut self, wires: Vec<Wire>) {
        if !wires.is_empty() {
            self.watch.said(&wires);
            self.outbox.extend(wires.into_iter().map(Message::from));
        }
    }

    /// A full outbox holds something to be said already.
    fn keep_alive(&mut self) {
        self.watch.is_kept_alive();
        if let Some((_, wires)) = self.watch.keep_alive.as_ref().filter(|_| self.outbox.len() < OUTBOX_MAX) {
            self.outbox.extend(wires.iter().cloned().map(Message::from));
        }
    }
}
