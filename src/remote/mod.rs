//! Services that are asked over the network, or are programs on this machine: why one did not do what it was asked for, and
//! the ways to reach it.
//!
//! Nothing here repeats a key, or what was said: a [`Fault`] may be logged.

pub mod checks;
pub mod deepgram;
pub mod effort;
pub mod health;
pub mod http;
pub mod json;
pub mod kinds;
pub mod openai;
pub mod peer;
pub mod program;
pub mod sse;
pub mod tls;
pub mod transcription;
pub mod wards;
pub mod web_socket;
pub mod wyoming;

pub use web_socket::{Socket, WebSocketDial, Wire};

use crate::call::AgentLoss;
use std::time::Duration;

/// Before a service that has failed in passing is asked again.
const PAUSE: Duration = Duration::from_millis(200);
/// Who asks for a longer one is not waited for.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Why a service did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the service cannot be reached: {0}")]
    Unreachable(String),
    /// HTTP status, and the service's own word for the fault.
    #[error("the service answered {status}{}", .code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Refused { status: u16, code: Option<String>, retry_after: Option<Duration> },
    /// Fault by a message: the service's own word for it, and the HTTP status that fits it where one does.
    #[error("the service reports an error{}", .code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Reported { like: Option<u16>, code: Option<String> },
    #[error("it took longer than {} s", .0.as_secs_f32())]
    Slow(Duration),
    /// Before it had done what it was asked for.
    #[error("the service closed the connection{}", .0.map(|code| format!(" with {code}")).unwrap_or_default())]
    Closed(Option<u16>),
    #[error("the answer is larger than {} KiB", .0 >> 10)]
    TooLarge(usize),
    /// A program was not started, since as many as may run at a time were at work for so long.
    #[error("no place became free for it on this machine within {} s", .0.as_secs_f32())]
    NoPlace(Duration),
    /// What it says cannot be understood; the words are ours.
    #[error("the answer is not what was asked for: {0}")]
    Garbage(&'static str),
}

impl Fault {
    pub const LABELS: [&str; 6] = ["unreachable", "refused", "slow", "closed", "no_place", "garbage"];

    /// A closed set: it is a metric label.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Refused { .. } | Self::Reported { .. } => "refused",
            Self::Slow(_) => "slow",
            Self::Closed(_) => "closed",
            Self::NoPlace(_) => "no_place",
            Self::TooLarge(_) | Self::Garbage(_) => "garbage",
        }
    }

    /// Another attempt soon may come out better.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused { status, code, .. } | Self::Reported { like: Some(status), code } => {
                matches!(status, 408 | 425 | 429 | 500..) && code.as_deref().and_then(lasting).is_none()
            }
            Self::Reported { like: None, code } => code.as_deref().and_then(lasting).is_none(),
            Self::Unreachable(_) | Self::Slow(_) | Self::Closed(_) | Self::NoPlace(_) => true,
            Self::TooLarge(_) | Self::Garbage(_) => false,
        }
    }

    /// When another attempt may come out better, if that is soon.
    pub fn pause(&self) -> Option<Duration> {
        let wanted = match self {
            Self::Refused { retry_after: Some(pause), .. } => *pause,
            _ => PAUSE,
        };
        (self.is_passing() && wanted <= PAUSE_MAX).then_some(wanted)
    }

    /// What it means for a call whose agent depends on the service.
    pub fn loss(&self) -> AgentLoss {
        if let Self::Refused { code: Some(code), .. } | Self::Reported { code: Some(code), .. } = self
            && let Some(loss) = lasting(code)
        {
            return loss;
        }
        match self {
            // One that has a word for it is the right service, without such a model or voice.
            Self::Refused { status: 404 | 405, code: None, .. } => AgentLoss::NotFound,
            Self::Refused { status, .. } | Self::Reported { like: Some(status), .. } => match status {
                401 | 403 => AgentLoss::Unauthorized,
                402 => AgentLoss::Quota,
                429 | 503 => AgentLoss::Throttled,
                500.. => AgentLoss::Unreachable,
                _ => AgentLoss::Handshake,
            },
            Self::NoPlace(_) => AgentLoss::Throttled,
            Self::Reported { like: None, .. } | Self::Unreachable(_) | Self::Slow(_) => AgentLoss::Unreachable,
            Self::Closed(_) => AgentLoss::Closed,
            Self::TooLarge(_) | Self::Garbage(_) => AgentLoss::Protocol,
        }
    }
}

/// What a service's own word for its fault means where no second attempt heals it.
pub fn lasting(code: &str) -> Option<AgentLoss> {
    match code {
        "invalid_api_key" | "account_deactivated" => Some(AgentLoss::Unauthorized),
        "session_expired" => Some(AgentLoss::Expired),
        "credit_balance_exhausted" | "billing_hard_limit_reached" => Some(AgentLoss::Quota),
        _ if code.contains("insufficient_quota") || code.contains("quota_exceeded") => Some(AgentLoss::Quota),
        _ => None,
    }
}

/// A service's own word for its fault, if it is one: sentences may repeat the key or what was said.
pub fn code(word: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    ((1..=64).contains(&word.len()) && word.chars().all(plain)).then(|| word.to_owned())
}

/// An address that refuses connections as long as the socket lives: other tests listen on addresses that were let go.
#[cfg(test)]
pub fn nobody() -> (tokio::net::TcpSocket, std::net::SocketAddr) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}
