//! The small notations of the configuration: durations, addresses, port ranges, audio choices.

use super::{AudioChoice, Transport};
use crate::audio::{Encoding, Format, RingTone};
use std::{fmt, net::SocketAddr, ops::RangeInclusive, str::FromStr, time::Duration};

/// Every [`AudioChoice`] as it is written.
pub(super) const AUDIO_CHOICES: [&str; 14] = [
    "audiosocket/slin",
    "audiosocket/slin16",
    "audiosocket/slin24",
    "audiosocket/slin48",
    "rtp/ulaw",
    "rtp/alaw",
    "rtp/slin16",
    "websocket/slin",
    "websocket/slin16",
    "websocket/slin24",
    "websocket/slin48",
    "websocket/ulaw",
    "websocket/alaw",
    "websocket/opus",
];

/// Every ringing tone as it is written.
pub(super) const RING_TONES: [&str; 2] = [RingTone::Etsi.label(), RingTone::Us.label()];

/// A duration beyond a day is a slip of the unit.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl Transport {
    pub const fn label(self) -> &'static str {
        match self {
            Self::AudioSocket => "audiosocket",
            Self::Rtp => "rtp",
            Self::WebSocket => "websocket",
        }
    }
}

impl fmt::Display for AudioChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = if self.opus { "opus" } else { self.format.name() };
        write!(f, "{}/{format}", self.transport.label())
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("\"{0}\" is no audio choice; there are: {known}", known = AUDIO_CHOICES.join(", "))]
pub struct UnknownAudio(String);

impl FromStr for AudioChoice {
    type Err = UnknownAudio;

    /// `transport/format`, as in `media.default` and in the channel variable `AI_AUDIO`. AudioSocket
    /// carries linear audio only; RTP what Asterisk understands of us: G.711, and G.722 for a leg of 16 kHz; a WebSocket carries
    /// linear audio and G.711, and the Opus of callers whose phones speak it, which is 16 kHz here.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (transport, format) = text.split_once('/')?;
            let opus = (transport, format) == ("websocket", "opus");
            let format: Format = if opus { Format::SLIN16 } else { format.parse().ok()? };
            let transport = match (transport, format.encoding, format.rate) {
                ("audiosocket", Encoding::Linear, 8_000 | 16_000 | 24_000 | 48_000) => Transport::AudioSocket,
                ("rtp", Encoding::Mulaw | Encoding::Alaw, _) | ("rtp", Encoding::Linear, 16_000) => Transport::Rtp,
                ("websocket", ..) => Transport::WebSocket,
                _ => return None,
            };
            Some(Self { transport, format, opus })
        };
        parse().ok_or_else(|| UnknownAudio(text.to_owned()))
    }
}

/// `500ms`, `12s`, `5m`, `1h`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

/// A duration in the largest unit that says it exactly.
pub(super) fn duration_text(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        _ if ms == 0 => "0s".into(),
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

/// `21000-21999`: unprivileged, first not above last.
pub(super) fn port_range(text: &str) -> Result<RangeInclusive<u16>, &'static str> {
    let parts = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let (first, last): (u16, u16) = parts.ok_or("ports go from 1024 to 65535")?;
    match () {
        () if first < 1024 => Err("ports below 1024 need privileges"),
        () if first > last => Err("the first port is above the last"),
        () => Ok(first..=last),
    }
}

/// How many even ports a range holds; RTP takes those (RFC 3550, section 11).
pub(super) fn even_ports(ports: &RangeInclusive<u16>) -> usize {
    usize::from(*ports.end() / 2 + 1) - usize::from(ports.start().div_ceil(2))
}

/// A host name or address that another machine can be told.
pub(super) fn is_host(text: &str) -> bool {
    let name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    text.parse::<std::net::IpAddr>().is_ok() || (!text.is_empty() && text.chars().all(name))
}

/// `host:port` or `[v6]:port`, the port not 0.
pub(super) fn is_host_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let port_ok = port.parse::<u16>().is_ok_and(|port| port > 0);
    port_ok && (text.parse::<SocketAddr>().is_ok() || (is_host(host) && !host.contains(':')))
}

/// Message for a text that [`is_http_url`] refuses.
pub(super) const NOT_HTTP_URL: &str = "is not an http:// or https:// address";

/// `http://` or `https://`, a host, perhaps a port and a path; no query and no credentials, which
/// would end up in logs.
pub(super) fn is_http_url(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else { return false };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let clean = !path.contains(|c: char| c.is_whitespace() || c == '?' || c == '#');
    let bare_v6 = || authority.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(is_host);
    clean && (is_host_port(authority) || (is_host(authority) && !authority.contains(':')) || bare_v6())
}

/// Whether an `http://` or `https://` address is one of this machine, by its number: what a name means can change.
pub(super) fn is_loopback_url(text: &str) -> bool {
    let host = url::Url::parse(text).ok();
    match host.as_ref().and_then(url::Url::host) {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_audio_choice_reads_back_as_it_is_written() {
        for text in AUDIO_CHOICES {
            assert_eq!(text.parse::<AudioChoice>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_transport_refuses_formats_it_does_not_carry() {
        let others = ["websocket/slin12", "audiosocket/opus", "websocket"];
        let known = ["audiosocket/ulaw", "rtp/slin", "audiosocket/slin12", "rtp", "", "rtp/opus", "RTP/ulaw", "slin"];
        for text in known.into_iter().chain(others) {
            let error = text.parse::<AudioChoice>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("there are: {}", AUDIO_CHOICES.join(", "))), "{error}");
        }
    }

    #[test]
    fn durations_read_back_in_their_largest_exact_unit() {
        for (text, shown) in [("500ms", "500ms"), ("12s", "12s"), ("90s", "90s"), ("120s", "2m"), ("60m", "1h")] {
            assert_eq!(duration_text(duration(text).unwrap()), shown);
        }
        for text in ["", "12", "s", "1.5s", "-1s", "5 m", "1d", "99999999999999999999s", "9999999999999999999h"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_port_range_counts_its_even_ports() {
        for (text, even) in
            [("21000-21999", 500), ("2000-2000", 1), ("2001-2001", 0), ("2001-2003", 1), ("1024-65535", 32256)]
        {
            assert_eq!(even_ports(&port_range(text).unwrap()), even, "{text}");
        }
        for text in ["2000", "2000-1999", "80-90", "2000-70000", "a-b"] {
            assert!(port_range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_for_asterisk_are_hosts_it_can_use() {
        for good in ["127.0.0.1:9092", "pbx.example.com:9092", "[::1]:9092", "offhook:1"] {
            assert!(is_host_port(good), "{good}");
        }
        for bad in ["127.0.0.1", "host:0", "host:99999", ":9092", "a b:1", "::1:9092", ""] {
            assert!(!is_host_port(bad), "{bad}");
        }
        for good in ["http://127.0.0.1:8088", "https://pbx.example.com/prefix", "http://[::1]:8088", "http://[::1]"] {
            assert!(is_http_url(good), "{good}");
        }
        for (url, here) in [("http://127.0.0.1:8766/a", true), ("https://[::1]/", true), ("http://localhost/", false)] {
            assert_eq!(is_loopback_url(url), here, "{url}");
        }
        assert!(!is_loopback_url("http://127.0.0.1.example/") && !is_loopback_url("http://10.0.0.1/"));
        for bad in ["ws://a", "127.0.0.1:8088", "http://", "http://u:p@host/", "http://a/?api_key=x", "http://a b"] {
            assert!(!is_http_url(bad), "{bad}");
        }
    }
}
