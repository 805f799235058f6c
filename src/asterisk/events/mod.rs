//! ARI's events socket: kept open, watched, read, and routed by channel.
//!
//! Invariants:
//! - Any end of the socket is a disconnect, a polite one included, and every reconnect is preceded
//!   by a wait that grows.
//! - A caller's end is never lost: it is kept apart from the queues, and after each reconnect
//!   Asterisk is asked for what was missed.
//! - What a clean-up could not remove is looked for again, without waiting for the next reconnect.
//! - Another engine that has our application's name keeps it for as long as it lives; what became of our calls meanwhile is
//!   asked for.
//! - Nothing that Asterisk sends ends the task.

mod backoff;
mod bridging;
mod call_events;
mod dialled;
mod event;
mod owner;
mod pairs;
mod reconcile;
mod replaced;
mod router;
mod socket;
mod transferred;
mod unanswered;

pub(in crate::asterisk) use bridging::CallBridge;
pub use call_events::CallEvents;
pub use dialled::{Dialled, DialledCalls};
pub(crate) use event::EVENTS;
#[cfg(any(test, fuzzing))]
pub use event::fuzz;
pub use replaced::NewParty;
pub(in crate::asterisk) use router::here;
pub use router::{Arrival, ChannelEvent, EventRouter, Gone, Presence, Registration};
pub use socket::EventSocket;
pub use transferred::Transferee;

use std::time::Duration;

/// The state of the connection to Asterisk, for `/ready`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AriState {
    /// The first attempt is under way.
    Starting,
    /// Events flow, and what was missed is known.
    Up,
    Down(Loss),
}

/// Why there is no events socket. A closed set: it is a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Asterisk refuses the user name or password.
    Unauthorized,
    /// Nobody answers at the address.
    Unreachable,
    /// Somebody answers whose certificate no known authority vouches for, or vouches for another name.
    Untrusted,
    /// Somebody answers who refuses the socket, or a request that must work: ARI is not enabled,
    /// a proxy does not know WebSocket.
    Refused,
    /// The other side closed politely.
    Closed,
    /// The connection broke.
    Dropped,
    /// The connection was there, but nothing came over it any more, not even a pong.
    TimedOut,
    /// Another engine connected with our application's name and has its events now.
    Replaced,
}

impl Loss {
    pub const ALL: [Self; 8] = [
        Self::Unauthorized,
        Self::Unreachable,
        Self::Untrusted,
        Self::Refused,
        Self::Closed,
        Self::Dropped,
        Self::TimedOut,
        Self::Replaced,
    ];

    /// For the operator, with the remedy.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Unauthorized => "Asterisk refuses asterisk.username or asterisk.password",
            Self::Unreachable => "nobody answers at asterisk.url",
            Self::Untrusted => {
                "the certificate at asterisk.url is not trusted: add its authority to the system's (update-ca-certificates), or \
                 name a file of authorities in SSL_CERT_FILE; the name in asterisk.url must be one of the certificate's"
            }
            Self::Refused => {
                "asterisk.url answers, but not as ARI: is ari.conf enabled, does a proxy pass WebSockets on, is sessionlimit in \
                 http.conf reached?"
            }
            Self::Closed => "Asterisk closed the events socket; reconnecting",
            Self::Dropped => "the events socket broke; reconnecting",
            Self::TimedOut => "the events socket fell silent; reconnecting",
            Self::Replaced => "another engine has taken over asterisk.app; give each its own name",
        }
    }

    pub const fn label(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Unreachable => "unreachable",
            Self::Untrusted => "untrusted",
            Self::Refused => "refused",
            Self::Closed => "closed",
            Self::Dropped => "dropped",
            Self::TimedOut => "timed_out",
            Self::Replaced => "replaced",
        }
    }
}

/// The clockwork of the events socket. The defaults are what a real installation uses; tests
/// shorten them.
#[derive(Debug, Clone)]
pub struct Timing {
    /// TCP, TLS and the WebSocket upgrade together.
    pub connect_max: Duration,
    /// A half-open connection says nothing for ever; a ping makes a living one speak.
    pub ping_every: Duration,
    /// Two pings without any answer, and some slack. Calls that end meanwhile are noticed late, so
    /// this is kept short.
    pub dead_after: Duration,
    /// A ping goes into the socket's buffer at once unless the other side has stopped reading.
    pub write_max: Duration,
    pub backoff_first: Duration,
    /// New calls are refused while we wait, so a restarted Asterisk should not wait for long.
    pub backoff_max: Duration,
    /// A connection that stood for so long counts as healthy and starts the backoff again.
    pub healthy_after: Duration,
    /// An engine that has the application says so in Asterisk this often,
    pub beat_every: Duration,
    /// another one of its name looks this often whether it does,
    pub look_every: Duration,
    /// and takes the application once it has not said so for this long: two of its words may be late.
    pub owner_gone_after: Duration,
    /// How long the application is left to an owner that never says so (not offhook, or without the right to set a variable)
    /// before Asterisk is asked whether it has calls. Two of one name would otherwise take it from each other in turns.
    pub replaced_wait: Duration,
    /// After a clean-up that failed, until what it left is looked for. Doubles while it is still there.
    pub tidy_first: Duration,
    /// Something that Asterisk does not let go is asked for so often, and logged.
    pub tidy_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect_max: Duration::from_secs(5),
            ping_every: Duration::from_secs(5),
            dead_after: Duration::from_secs(12),
            write_max: Duration::from_secs(2),
            backoff_first: Duration::from_millis(250),
            backoff_max: Duration::from_secs(10),
            healthy_after: Duration::from_secs(30),
            beat_every: Duration::from_millis(1_500),
            look_every: Duration::from_secs(1),
            owner_gone_after: Duration::from_millis(3_500),
            replaced_wait: Duration::from_secs(60),
            tidy_first: Duration::from_secs(2),
            tidy_max: Duration::from_secs(300),
        }
    }
}

#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;
