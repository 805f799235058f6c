//! Where offhook listens, and what Asterisk is told about it.

use super::Finding;
use crate::{asterisk::hub::even_ports_free, config::Config};
use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    time::Duration,
};
use tokio::{net::lookup_host, time::timeout};

const AREA: &str = "address";
/// A resolver that is there answers within a second.
const NAME_MAX: Duration = Duration::from_secs(4);

pub(super) async fn examine(config: &Config, running: bool) -> Vec<Finding> {
    let mut findings = vec![
        listens("http.bind", config.http.bind, running),
        listens("media.audiosocket.bind", config.media.audiosocket.bind, running),
        ports(config),
    ];
    let Some(asterisk) = &config.asterisk else { return findings };
    let url = url::Url::parse(&asterisk.url).ok();
    let Some(host) = url.as_ref().and_then(url::Url::host_str) else { return findings };
    let media = &config.media;
    let audiosocket = media.audiosocket.advertise.rsplit_once(':').map_or("", |(host, _)| host);
    let told = [
        ("media.audiosocket", audiosocket, media.audiosocket.bind.ip()),
        ("media.rtp", media.rtp.advertise.as_str(), media.rtp.bind),
    ];
    let asterisk = match resolve(host).await {
        Some(address) => address,
        None => {
            let says = format!("the name {host} of asterisk.url has no address");
            findings.push(Finding::problem(AREA, says, "write it as your resolver knows it, or write the address"));
            return findings;
        }
    };
    for (section, written, bind) in told {
        let Some(address) = resolve(written).await else {
            let says = format!("the name {written} of {section}.advertise has no address here");
            findings.push(Finding::warning(AREA, says, "Asterisk has to resolve it: an address is safer"));
            continue;
        };
        findings.push(reachable(section, written, Ends { asterisk, ours: is_ours(asterisk), address, bind }));
    }
    findings
}

fn listens(setting: &str, address: SocketAddr, running: bool) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) if running => {
            let says = format!("an engine runs, but nobody listens at {setting} {address}");
            Finding::warning(
                AREA,
                says,
                "was the configuration changed since it was started? This setting needs a restart",
            )
        }
        Ok(_) => Finding::ok(AREA, format!("{setting} {address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && running => {
            Finding::ok(AREA, format!("{setting} {address} is in use, and an engine runs"))
        }
        Err(error) => Finding::problem(AREA, format!("{setting} {address} cannot be used: {error}"), remedy(&error)),
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program has it (`ss -ltnp`): end that one, or write another port",
        io::ErrorKind::AddrNotAvailable => {
            "write an address of this machine (`ip address`), or 0.0.0.0 for all of them"
        }
        io::ErrorKind::PermissionDenied => "ports below 1024 need a right of their own: write a higher one",
        _ => "write an address and a port of this machine",
    }
}

/// Of the range for RTP, one even port for each call.
fn ports(config: &Config) -> Finding {
    let rtp = &config.media.rtp;
    let (first, last) = (rtp.ports.start(), rtp.ports.end());
    if let Err(error) = UdpSocket::bind((rtp.bind, 0)) {
        let says = format!("media.rtp.bind {} cannot be used: {error}", rtp.bind);
        return Finding::problem(AREA, says, remedy(&error));
    }
    let (free, calls) = (even_ports_free(rtp.bind, rtp.ports.clone()), config.limits.calls);
    let says = format!("media.rtp.ports {first}-{last}: {free} even ports are free, for {calls} calls");
    if free == 0 {
        Finding::problem(
            AREA,
            says,
            "choose a range that no other program uses; rtp.conf of an Asterisk on this machine has one of its own",
        )
    } else if free < calls {
        Finding::warning(
            AREA,
            says,
            "calls under way have theirs; apart from them, choose a range that no other program uses",
        )
    } else {
        Finding::ok(AREA, says)
    }
}

/// Who is where, for one transport.
#[derive(Clone, Copy)]
struct Ends {
    asterisk: IpAddr,
    /// Asterisk is on this machine.
    ours: bool,
    /// What Asterisk is told.
    address: IpAddr,
    bind: IpAddr,
}

fn reachable(section: &str, written: &str, ends: Ends) -> Finding {
    let Ends { asterisk, ours, address, bind } = ends;
    let advertise = format!("{section}.advertise");
    if !ours && address.is_loopback() {
        let says = format!("{section}: Asterisk at {asterisk} is told {written}, which is itself");
        let remedy = format!(
            "bind {section} to an address of this machine's network, and write in {advertise} how Asterisk reaches it"
        );
        Finding::problem(AREA, says, remedy)
    } else if !ours && bind.is_loopback() {
        let says = format!("{section}: it listens on {bind} alone, where Asterisk at {asterisk} does not come");
        Finding::problem(AREA, says, format!("write 0.0.0.0 or an address of this machine in {section}.bind"))
    } else if !is_private(asterisk) && is_private(address) {
        let says =
            format!("{section}: Asterisk has the public address {asterisk}, and is told the private one {written}");
        let remedy = format!(
            "where a router with NAT is in between, write its public address in {advertise} and forward the ports, or join both by a VPN"
        );
        Finding::warning(AREA, says, remedy)
    } else {
        Finding::ok(AREA, format!("{section}: Asterisk at {asterisk} is told {written}"))
    }
}

async fn resolve(host: &str) -> Option<IpAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = host.parse() {
        return Some(address);
    }
    timeout(NAME_MAX, lookup_host((host, 0))).await.ok()?.ok()?.next().map(|address| address.ip())
}

/// An address that a socket here can have is one of this machine's.
fn is_ours(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Reachable only from the same network.
fn is_private(address: IpAddr) -> bool {
    match address {
        // 100.64.0.0/10: shared by a provider's customers (RFC 6598).
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || first == 100 && second & 0xc0 == 64
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Grade::{self, Ok, Problem, Warning};

    #[test]
    fn what_asterisk_is_told_is_judged_by_where_it_is() {
        let judge = |asterisk: &str, ours, told: &str, bind: &str| {
            let address = |text: &str| text.parse::<IpAddr>().unwrap();
            reachable(
                "media.rtp",
                told,
                Ends { asterisk: address(asterisk), ours, address: address(told), bind: address(bind) },
            )
        };
        let cases: [(&str, bool, &str, &str, Grade, &str); 7] = [
            ("127.0.0.1", true, "127.0.0.1", "127.0.0.1", Ok, "is told"),
            ("10.0.0.4", true, "127.0.0.1", "127.0.0.1", Ok, "is told"),
            ("10.0.0.4", false, "127.0.0.1", "127.0.0.1", Problem, "which is itself"),
            ("10.0.0.4", false, "10.0.0.5", "127.0.0.1", Problem, "listens on 127.0.0.1 alone"),
            ("10.0.0.4", false, "10.0.0.5", "0.0.0.0", Ok, "is told"),
            ("8.8.4.4", false, "192.168.1.5", "0.0.0.0", Warning, "public address"),
            ("8.8.4.4", false, "100.64.0.5", "0.0.0.0", Warning, "public address"),
        ];
        for (asterisk, ours, told, bind, grade, says) in cases {
            let found = judge(asterisk, ours, told, bind);
            assert!(found.grade == grade && found.says.contains(says), "{asterisk} {told} {bind}: {found:?}");
        }
    }
}
