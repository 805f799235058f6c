//! The UDP ports that calls may listen on.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::{IpAddr, UdpSocket},
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long a freed port rests. The old call's Asterisk sends until it has carried out our DELETE,
/// which takes milliseconds, or seconds when it is overloaded; until then a new call on this port
/// would have to turn that audio away.
const REST: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Every port of the range is in use, by calls or by other programs.
    #[error("no free UDP port in the configured range {first}-{last}")]
    PortsExhausted { first: u16, last: u16 },
    #[error("could not open a UDP socket on {address}: {source}")]
    Socket { address: IpAddr, source: io::Error },
    #[error("RTP with Asterisk does not carry {0}; use ulaw, alaw or slin16")]
    Format(crate::audio::Format),
}

pub(super) struct PortPool {
    address: IpAddr,
    range: RangeInclusive<u16>,
    /// Even ports only: by custom (RFC 3550, section 11) the odd neighbour is RTCP's.
    even: Vec<u16>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    leased: HashSet<u16>,
    /// Since when a freed port rests.
    resting: HashMap<u16, Instant>,
}

/// A port that is ours until this value is dropped.
pub(super) struct PortLease {
    port: u16,
    pool: Arc<PortPool>,
}

impl PortPool {
    pub(super) fn new(address: IpAddr, range: RangeInclusive<u16>) -> Arc<Self> {
        let even = range.clone().filter(|port| port % 2 == 0).collect();
        Arc::new(Self { address, range, even, state: Mutex::default() })
    }

    /// A non-blocking socket on a free port, chosen at random so that whoever still sends to an
    /// earlier call seldom meets a later one.
    ///
    /// When only resting ports are left, the one that has rested longest is taken: a packet of an
    /// old call is turned away by its source address anyhow, a refused call is not.
    pub(super) fn bind(self: &Arc<Self>) -> Result<(UdpSocket, PortLease), BindError> {
        let mut state = self.lock();
        let now = Instant::now();
        state.resting.retain(|_, since| now.duration_since(*since) < REST);

        let start = if self.even.is_empty() { 0 } else { rand::random_range(0..self.even.len()) };
        let rested = self.even[start..].iter().chain(&self.even[..start]).copied();
        let mut candidates: Vec<u16> =
            rested.filter(|port| !state.leased.contains(port) && !state.resting.contains_key(port)).collect();
        let mut resting: Vec<(Instant, u16)> = state.resting.iter().map(|(port, since)| (*since, *port)).collect();
        resting.sort_unstable();
        candidates.extend(resting.into_iter().map(|(_, port)| port));

        for port in candidates {
            match UdpSocket::bind((self.address, port)) {
                Ok(socket) => {
                    socket
                        .set_nonblocking(true)
                        .map_err(|source| BindError::Socket { address: self.address, source })?;
                    state.resting.remove(&port);
                    state.leased.insert(port);
                    drop(state);
                    return Ok((socket, PortLease { port, pool: self.clone() }));
                }
                // Another program has it.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(source) => return Err(BindError::Socket { address: self.address, source }),
            }
        }
        Err(BindError::PortsExhausted { first: *self.range.start(), last: *self.range.end() })
    }

    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// Every port carries a call.
    pub(super) fn is_exhausted(&self) -> bool {
        self.lock().leased.len() >= self.even.len()
    }

    pub(super) fn leased(&self) -> usize {
        self.lock().leased.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many calls would find a port at this moment.
pub fn even_ports_free(address: IpAddr, range: RangeInclusive<u16>) -> usize {
    range.filter(|port| port % 2 == 0 && UdpSocket::bind((address, *port)).is_ok()).count()
}

impl PortLease {
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for PortLease {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.leased.remove(&self.port);
        state.resting.insert(self.port, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A range of even ports that are all free at this moment.
    fn free_range(ports: u16) -> RangeInclusive<u16> {
        for _ in 0..1_000 {
            let first = rand::random_range(20_000..30_000) & !1;
            let range = first..=first + 2 * ports - 1;
            if range.clone().all(|port| UdpSocket::bind((LOOPBACK, port)).is_ok()) {
                return range;
            }
        }
        panic!("no free ports on this machine");
    }

    #[test]
    fn only_even_ports_of_the_range_are_given_and_each_once() {
        let range = free_range(4);
        let pool = PortPool::new(LOOPBACK, range.clone());
        let held: Vec<_> = (0..4).map(|_| pool.bind().unwrap()).collect();
        let mut ports: Vec<u16> = held.iter().map(|(_, lease)| lease.port()).collect();
        ports.sort_unstable();
        assert_eq!(ports, range.clone().step_by(2).collect::<Vec<_>>());
        assert!(matches!(pool.bind(), Err(BindError::PortsExhausted { first, .. }) if first == *range.start()));
        drop(held);
        assert_eq!(pool.leased(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_freed_port_rests_while_others_are_free_and_serves_when_none_is() {
        let pool = PortPool::new(LOOPBACK, free_range(3));
        let freed = pool.bind().unwrap().1.port();
        let (first, second) = (pool.bind().unwrap(), pool.bind().unwrap());
        assert!(first.1.port() != freed && second.1.port() != freed);
        assert_eq!(pool.bind().unwrap().1.port(), freed, "better a port that has not rested than a refused call");
    }

    /// Of two ports that were both free for so long, how often in 40 times the one that was freed is given.
    async fn given_again_after(rest: Duration) -> usize {
        let mut again = 0;
        for _ in 0..40 {
            let pool = PortPool::new(LOOPBACK, free_range(2));
            let freed = pool.bind().unwrap().1.port();
            tokio::time::advance(rest).await;
            again += usize::from(pool.bind().unwrap().1.port() == freed);
        }
        again
    }

    #[tokio::test(start_paused = true)]
    async fn a_freed_port_rests_for_five_seconds_and_is_as_good_as_any_other_after_that() {
        assert_eq!(REST, Duration::from_secs(5));
        assert_eq!(given_again_after(REST - Duration::from_millis(100)).await, 0, "it still rests");
        // By chance it never is once in 2^40 times, and always as seldom.
        let again = given_again_after(REST).await;
        assert!((1..40).contains(&again), "given {again} times in 40");
    }

    #[tokio::test(start_paused = true)]
    async fn of_resting_ports_the_longest_rested_serves_first() {
        let pool = PortPool::new(LOOPBACK, free_range(2));
        let (old, young) = (pool.bind().unwrap(), pool.bind().unwrap());
        let longest = old.1.port();
        drop(old);
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(young);
        assert_eq!(pool.bind().unwrap().1.port(), longest);
    }

    #[test]
    fn a_port_that_another_program_holds_is_passed_over_and_not_leaked() {
        let range = free_range(1);
        let other = UdpSocket::bind((LOOPBACK, *range.start())).unwrap();
        let pool = PortPool::new(LOOPBACK, range);
        assert!(matches!(pool.bind(), Err(BindError::PortsExhausted { .. })));
        assert_eq!(pool.leased(), 0);
        drop(other);
        assert!(pool.bind().is_ok());
    }

    #[test]
    fn an_address_that_is_not_ours_is_told_as_such() {
        // TEST-NET-1 (RFC 5737) is never a local address.
        let pool = PortPool::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 20_000..=20_010);
        assert!(matches!(pool.bind(), Err(BindError::Socket { .. })));
        assert_eq!(pool.leased(), 0);
    }
}
