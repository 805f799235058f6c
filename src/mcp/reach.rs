//! Where an endpoint may be, held at every connection and not only when it was looked at: what was checked is what is
//! connected to, so a name that changes its address in between (DNS rebinding) has nothing to change between.

use crate::config::Reach;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};
use tokio::time::timeout;
use url::{Host, Url};

/// For a look-up; the resolver of the system may try for longer.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// Whether an address is of this machine or one of its own networks: loopback, private (RFC 1918), unique local (RFC 4193),
/// link-local.
pub fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => is_local_v6(address),
    }
}

fn is_local_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_local(inner.into());
    }
    address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
}

/// An address that no endpoint has: of nobody, of many, or of none at all.
fn is_nowhere(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast() || address.octets()[0] == 0);
    address.is_unspecified() || address.is_multicast() || broadcast
}

impl Reach {
    /// What the addresses of a host make it. Some inside and some outside make it nothing.
    ///
    /// # Errors
    /// It cannot be found, or is in both places.
    pub async fn of(host: &str) -> Result<Self, String> {
        let found = match host.trim_matches(['[', ']']).parse() {
            Ok(address) => vec![address],
            Err(_) => lookup(host).await.map_err(|_| "its host has no address".to_owned())?,
        };
        if found.is_empty() || found.iter().any(|address| is_nowhere(*address)) {
            return Err("its host has no address that can be connected to".into());
        }
        match (found.iter().all(|address| is_local(*address)), found.iter().any(|address| is_local(*address))) {
            (true, _) => Ok(Self::Local),
            (false, false) => Ok(Self::Remote),
            (false, true) => {
                Err("its host has addresses of the local network and others; give it one name for each".into())
            }
        }
    }

    /// A URL that has an address in the place of a name, for which no resolver is asked.
    ///
    /// # Errors
    /// The address is not where it has to be.
    pub(super) fn check(self, url: &str) -> Result<(), String> {
        let url = Url::parse(url).map_err(|_| "its address cannot be read".to_owned())?;
        let written = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        if self.takes(written) { Ok(()) } else { Err(Elsewhere.to_string()) }
    }

    fn takes(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Local => is_local(address),
            Self::Remote => !is_local(address) && !is_nowhere(address),
        }
    }
}

async fn lookup(host: &str) -> io::Result<Vec<IpAddr>> {
    let found = timeout(LOOKUP_MAX, tokio::net::lookup_host((host, 0))).await??;
    Ok(found.map(|address| address.ip()).collect())
}

/// The host has another address than it had when it was looked at.
#[derive(Debug, thiserror::Error)]
#[error("the host is not where it was when it was registered")]
struct Elsewhere;

/// Resolves for an HTTP client, and lets nothing through that is not where it has to be.
pub(super) struct Held(pub Reach);

impl Resolve for Held {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let found = lookup(name.as_str()).await?;
            // One wrong address among right ones is an attempt to be connected to it.
            if !found.iter().all(|address| reach.takes(*address)) {
                return Err(Elsewhere.into());
            }
            // Port 0 stands for the one in the URL.
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// V answer 4: loopback, private, unique local and link-local addresses are the local network; all others are not.
    #[test]
    fn the_local_network_is_known_by_its_addresses() {
        let local = "127.0.0.1 127.9.9.9 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.1.1 ::1 fc00::1 fdff::1 \
                     fe80::1 ::ffff:10.0.0.1";
        for text in local.split_whitespace() {
            assert!(is_local(address(text)), "{text}");
        }
        let not = "8.8.8.8 11.0.0.1 172.15.0.1 172.32.0.1 192.167.0.1 169.253.0.1 100.64.0.1 0.0.0.0 2606:4700::1 fec0::1 \
                   ::ffff:8.8.8.8 ff02::1";
        for text in not.split_whitespace() {
            assert!(!is_local(address(text)), "{text}");
        }
    }

    /// V answer 4: what was local when it was looked at is connected to only while it is, and the other way round.
    #[tokio::test]
    async fn an_endpoint_stays_where_it_was_found() {
        assert_eq!(Reach::of("127.0.0.1").await, Ok(Reach::Local));
        assert_eq!(Reach::of("[::1]").await, Ok(Reach::Local));
        assert_eq!(Reach::of("localhost").await, Ok(Reach::Local));
        assert_eq!(Reach::of("9.9.9.9").await, Ok(Reach::Remote));
        for nowhere in ["0.0.0.0", "255.255.255.255", "224.0.0.1", "::"] {
            assert!(Reach::of(nowhere).await.is_err(), "{nowhere}");
        }
        let resolved = |reach| Held(reach).resolve("localhost".parse().unwrap());
        assert!(resolved(Reach::Local).await.is_ok());
        let refused = resolved(Reach::Remote).await.err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), Some("the host is not where it was when it was registered"));
        for (reach, url, is_there) in [
            (Reach::Local, "http://127.0.0.1:9/mcp", true),
            (Reach::Local, "http://[::1]/mcp", true),
            (Reach::Local, "https://9.9.9.9/mcp", false),
            (Reach::Remote, "https://9.9.9.9/mcp", true),
            (Reach::Remote, "http://2130706433/mcp", false),
            (Reach::Remote, "http://[::ffff:10.0.0.1]/mcp", false),
            (Reach::Local, "https://tools.example.in/mcp", true),
        ] {
            assert_eq!(reach.check(url).is_ok(), is_there, "{url}");
        }
    }
}
