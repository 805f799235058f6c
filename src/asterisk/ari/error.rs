//! What can go wrong with a request, and what an operation is called in logs and metrics.

use std::{fmt, io::ErrorKind};
use tokio_tungstenite::tungstenite::{Error, error::ProtocolError};

/// Hint for when Asterisk closes a connection without an answer, as it does beyond its limit of sessions.
pub(super) const SESSION_LIMIT: &str = "Asterisk closed the connection without an answer; if this happens again, raise sessionlimit in http.conf (100 unless set)";

/// Why a WebSocket to Asterisk was not opened, for the log.
pub(crate) fn not_opened(error: &Error) -> String {
    let closed = match error {
        Error::Protocol(ProtocolError::HandshakeIncomplete) => true,
        Error::Io(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof),
        _ => false,
    };
    if closed { format!("{error}: {SESSION_LIMIT}") } else { error.to_string() }
}

/// The requests offhook makes. A closed set: it is a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Answer,
    Ring,
    RingStop,
    Continue,
    HangUp,
    SetVariable,
    ReadVariable,
    RtpStatistics,
    CreateMedia,
    CreateBridge,
    AddChannels,
    RemoveChannel,
    Originate,
    SendDigits,
    DeviceState,
    EndpointState,
    ReadBridge,
    DeleteBridge,
    ListChannels,
    ListBridges,
    Application,
    Info,
    SetGlobal,
    ReadGlobal,
    Subscribe,
    Unsubscribe,
}

impl Operation {
    pub const ALL: [Self; 26] = [
        Self::Answer,
        Self::Ring,
        Self::RingStop,
        Self::Continue,
        Self::HangUp,
        Self::SetVariable,
        Self::ReadVariable,
        Self::RtpStatistics,
        Self::CreateMedia,
        Self::CreateBridge,
        Self::AddChannels,
        Self::RemoveChannel,
        Self::Originate,
        Self::SendDigits,
        Self::DeviceState,
        Self::EndpointState,
        Self::ReadBridge,
        Self::DeleteBridge,
        Self::ListChannels,
        Self::ListBridges,
        Self::Application,
        Self::Info,
        Self::SetGlobal,
        Self::ReadGlobal,
        Self::Subscribe,
        Self::Unsubscribe,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Ring => "ring",
            Self::RingStop => "ring_stop",
            Self::Continue => "continue",
            Self::HangUp => "hang_up",
            Self::SetVariable => "set_variable",
            Self::ReadVariable => "read_variable",
            Self::RtpStatistics => "rtp_statistics",
            Self::CreateMedia => "create_media",
            Self::CreateBridge => "create_bridge",
            Self::AddChannels => "add_channels",
            Self::RemoveChannel => "remove_channel",
            Self::Originate => "originate",
            Self::SendDigits => "send_digits",
            Self::DeviceState => "device_state",
            Self::EndpointState => "endpoint_state",
            Self::ReadBridge => "read_bridge",
            Self::DeleteBridge => "delete_bridge",
            Self::ListChannels => "list_channels",
            Self::ListBridges => "list_bridges",
            Self::Application => "application",
            Self::Info => "info",
            Self::SetGlobal => "set_global",
            Self::ReadGlobal => "read_global",
            Self::Subscribe => "subscribe",
            Self::Unsubscribe => "unsubscribe",
        }
    }

    /// Whether doing it twice is the same as doing it once. The others are never sent a second
    /// time: a second `CreateMedia` or `Originate` is refused for its id, a second `Continue` could
    /// send a caller onward who has come back meanwhile, keys would be pressed twice, and Asterisk counts subscriptions.
    pub(super) const fn repeatable(self) -> bool {
        !matches!(
            self,
            Self::Continue
                | Self::CreateMedia
                | Self::Originate
                | Self::SendDigits
                | Self::Subscribe
                | Self::Unsubscribe
        )
    }

    /// Whether "no such thing" is an everyday answer: what was to go has gone, the variable is not
    /// set, the caller does not come by RTP, a call's bridge was taken from it, the application has never connected.
    pub(super) const fn expects_missing(self) -> bool {
        matches!(
            self,
            Self::HangUp
                | Self::ReadBridge
                | Self::DeleteBridge
                | Self::ReadVariable
                | Self::RtpStatistics
                | Self::Application
                | Self::RemoveChannel
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A request that did not do what was asked. It names no address and no password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ARI {operation}: {fault}")]
pub struct AriError {
    pub operation: Operation,
    pub fault: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("Asterisk refused the user name or password")]
    Unauthorized,
    #[error("no such channel, bridge, variable or application")]
    NotFound,
    /// 409 or 422: the thing exists, but is not where the request needs it ("Channel not in Stasis
    /// application").
    #[error("conflict ({status}): {message}")]
    Conflict { status: u16, message: String },
    #[error("refused ({status}): {message}")]
    Refused { status: u16, message: String },
    /// The request was not sent, so nothing has happened.
    #[error("Asterisk cannot be reached: {0}")]
    Unreachable(String),
    /// Likewise: whoever answered could not prove to be Asterisk.
    #[error("Asterisk's certificate is not trusted: {0}")]
    Untrusted(String),
    /// The request was sent and the answer did not come: it may or may not have happened.
    #[error("sent, but no answer came: {0}")]
    OutcomeUnknown(String),
    /// The answer came and could not be read.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
}

impl AriError {
    pub fn is_not_found(&self) -> bool {
        self.fault == Fault::NotFound
    }

    /// The channel has left Stasis or the world: what was asked has become pointless.
    pub fn channel_has_left(&self) -> bool {
        matches!(self.fault, Fault::NotFound | Fault::Conflict { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{io::AsyncWriteExt as _, net::TcpListener};

    /// Text about a server that answers a handshake with this, and closes.
    async fn told(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/ari/events", listener.local_addr().unwrap());
        let server = async move { listener.accept().await.unwrap().0.write_all(answer).await.unwrap() };
        let (opened, ()) = tokio::join!(tokio_tungstenite::connect_async(url), server);
        not_opened(&opened.unwrap_err())
    }

    #[tokio::test]
    async fn a_server_that_closes_without_an_answer_has_perhaps_no_more_sessions() {
        assert!(told(b"").await.ends_with(SESSION_LIMIT));
        let refused = told(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n").await;
        assert!(refused.contains("401") && !refused.contains("sessionlimit"), "{refused}");
    }
}
