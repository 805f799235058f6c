//! Which addresses a tool may reach. A definition, or a value in a template, could otherwise point
//! offhook at Asterisk, at a neighbour, or at the cloud's metadata service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::Url;

/// Whether the address is one of the public Internet.
///
/// IPv4: everything but the blocks that the IANA registry of special-purpose addresses keeps from
/// being global (RFC 6890), multicast, and the one public address that is a metadata service.
/// IPv6: `2000::/3` is all that is handed out to the world; inside it, tunnels that carry an IPv4
/// address (Teredo, 6to4), protocol assignments and documentation are out. So IPv4-mapped and
/// -compatible forms, NAT64, unique-local, link-local and multicast addresses need no line of their own.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Azure's metadata and management service, on an address that looks public.
const AZURE_WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match (a, b, c) {
        // This network; private; loopback; multicast, reserved, broadcast.
        (0 | 10 | 127 | 224.., _, _) => true,
        // Carrier-grade NAT.
        (100, 64..=127, _) => true,
        // Link-local, with 169.254.169.254 of most clouds.
        (169, 254, _) => true,
        // Private.
        (172, 16..=31, _) | (192, 168, _) => true,
        // Protocol assignments; documentation; 6to4 relays.
        (192, 0, 0 | 2) | (192, 88, 99) => true,
        // Benchmarking.
        (198, 18 | 19, _) => true,
        // Documentation.
        (198, 51, 100) | (203, 0, 113) => true,
        _ => false,
    };
    !special && address != AZURE_WIRE_SERVER
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let global_unicast = a & 0xe000 == 0x2000;
    // Teredo is 2001::/32, inside the block of protocol assignments 2001::/23.
    let protocols = a == 0x2001 && b < 0x0200;
    let documentation = (a == 0x2001 && b == 0x0db8) || (a == 0x3fff && b < 0x1000);
    let six_to_four = a == 0x2002;
    global_unicast && !protocols && !documentation && !six_to_four
}

/// Whether the operator's list names this address' host, alone (any port) or with its port.
pub fn is_listed(url: &Url, allowed: &[String]) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let with_port = url.port_or_known_default().map(|port| format!("{host}:{port}"));
    allowed.iter().any(|entry| {
        let entry = entry.trim().to_ascii_lowercase();
        !entry.is_empty() && (entry == host || entry == bare || Some(&entry) == with_port.as_ref())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// D answer 25: loopback, private, link-local and metadata addresses, in each of their forms.
    #[test]
    fn addresses_inside_are_not_public_whatever_form_they_take() {
        let inside = [
            "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.0.1",
            "169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1",
            "198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255",
            "168.63.129.16 :: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::a00:1 64:ff9b::808:808 64:ff9b:1::1",
            "100::1 2001::1 2001:0:53aa:64c:0:1:2:3 2001:2::1 2001:10::1 2001:1ff::1 2001:db8::1 2002:7f00:1::1 3fff::1",
            "5f00::1 fc00::1 fd00:ec2::254 fdff::1 fe80::1 febf::1 fec0::1 ff02::1 ff0e::1 4000::1",
        ];
        for text in inside.iter().flat_map(|line| line.split(' ')) {
            assert!(!is_public(address(text)), "{text}");
        }
    }

    #[test]
    fn addresses_beside_the_blocks_are_public() {
        let outside = [
            "1.1.1.1 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.0.0.1 128.0.0.1 169.253.0.1 169.255.0.1",
            "172.15.0.1 172.32.0.1 192.0.1.1 192.167.0.1 192.169.0.1 198.17.0.1 198.20.0.1 203.0.112.1 223.255.255.1",
            "2001:200::1 2001:4860:4860::8888 2003::1 2606:4700::1111 2a00:1450::1 3ffe::1 3fff:1000::1",
        ];
        for text in outside.iter().flat_map(|line| line.split(' ')) {
            assert!(is_public(address(text)), "{text}");
        }
    }

    /// D answer 25: the operator's list, by host and by host and port.
    #[test]
    fn the_list_names_hosts_with_any_port_or_with_one() {
        let listed = |url: &str, entry: &str| is_listed(&Url::parse(url).unwrap(), &[entry.to_owned()]);
        assert!(listed("http://crm.local/x", "crm.local"));
        assert!(listed("http://CRM.local.:8080/x", "Crm.Local"));
        assert!(listed("http://crm.local:8080/x", "crm.local:8080"));
        assert!(listed("https://crm.local/x", "crm.local:443"));
        assert!(listed("http://[::1]:9/", "[::1]:9"));
        assert!(listed("http://[::1]:9/", "::1"));
        assert!(listed("http://0x7f.1/", "127.0.0.1"), "spellings of one address are one host");
        assert!(!listed("http://crm.local:8081/x", "crm.local:8080"));
        assert!(!listed("http://a.crm.local/", "crm.local"), "no host below a listed one");
        assert!(!listed("http://crm.local.evil.example/", "crm.local"));
        assert!(!listed("http://evil.example/crm.local", "crm.local"));
        assert!(!listed("http://evil.example/", ""));
    }
}
