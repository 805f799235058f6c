//! A table of a listener's connections, which anybody may open.
//!
//! Invariant: a crowd keeps nobody else out. A newcomer who finds all places taken gets that of the connection that has been idle
//! longest, among those of the network that holds most of them. Connections of known clients go last.

use futures_util::task::AtomicWaker;
use std::{
    cmp::Reverse,
    collections::HashMap,
    future::poll_fn,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

/// How often a newcomer for whom nobody may go looks again whether somebody has become idle enough.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Connections of a listener, each with its place.
pub(crate) struct ConnectionTable {
    most: usize,
    inside: Mutex<Inside>,
    freed: Notify,
}

#[derive(Default)]
struct Inside {
    next: u64,
    entries: HashMap<u64, Arc<ConnectionEntry>>,
    full_since: Option<Instant>,
}

/// A connection as newcomers see it.
pub(crate) struct ConnectionEntry {
    network: IpAddr,
    active: Mutex<Instant>,
    known: AtomicBool,
    shown_out: AtomicBool,
    waker: AtomicWaker,
}

/// A connection's place in a [`ConnectionTable`], free again when it is dropped.
pub(crate) struct ConnectionPermit {
    id: u64,
    pub entry: Arc<ConnectionEntry>,
    table: Arc<ConnectionTable>,
}

impl ConnectionTable {
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, inside: Mutex::default(), freed: Notify::new() })
    }

    /// A place for a connection from `address`; where all are taken, somebody who may go is shown out. `Err`: nobody may go.
    pub fn try_enter(
        self: &Arc<Self>,
        address: IpAddr,
        may_go: impl Fn(&ConnectionEntry) -> bool,
    ) -> Result<ConnectionPermit, Full> {
        let (mut inside, now) = (self.lock(), Instant::now());
        if inside.entries.len() >= self.most {
            let id = inside.first_to_go(may_go).ok_or(Full)?;
            if let Some(entry) = inside.entries.remove(&id) {
                entry.shown_out.store(true, Relaxed);
                entry.waker.wake();
            }
        }
        let id = inside.next;
        inside.next += 1;
        let entry = Arc::new(ConnectionEntry {
            network: network(address),
            active: Mutex::new(now),
            known: AtomicBool::new(false),
            shown_out: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        inside.entries.insert(id, Arc::clone(&entry));
        if inside.entries.len() >= self.most {
            inside.full_since.get_or_insert(now);
        }
        Ok(ConnectionPermit { id, entry, table: Arc::clone(self) })
    }

    /// Like `try_enter`, but waits while nobody may go.
    pub async fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        may_go: impl Fn(&ConnectionEntry) -> bool,
    ) -> ConnectionPermit {
        loop {
            let freed = self.freed.notified();
            if let Ok(permit) = self.try_enter(address, &may_go) {
                return permit;
            }
            // The end of the time is a reason to look as well.
            let _ = timeout(LOOK_AGAIN, freed).await;
        }
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.lock().entries.len()
    }

    /// How long all of them have been taken; zero where some are free.
    pub fn full_for(&self) -> Duration {
        self.lock().full_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All places are taken, and nobody may go.
#[derive(Debug)]
pub(crate) struct Full;

impl Inside {
    fn first_to_go(&self, may_go: impl Fn(&ConnectionEntry) -> bool) -> Option<u64> {
        let mut strangers: HashMap<IpAddr, usize> = HashMap::new();
        for entry in self.entries.values().filter(|entry| !entry.is_known()) {
            *strangers.entry(entry.network).or_default() += 1;
        }
        let order = |id: u64, entry: &ConnectionEntry| {
            let crowd = if entry.is_known() { 0 } else { strangers[&entry.network] };
            (entry.is_known(), Reverse(crowd), entry.active(), id)
        };
        let may_go = self.entries.iter().filter(|(_, entry)| may_go(entry));
        may_go.min_by_key(|(id, entry)| order(**id, entry)).map(|(id, _)| *id)
    }
}

impl ConnectionEntry {
    /// Something happened that makes it the least idle one.
    pub fn touch(&self) {
        *self.active.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Its client has shown that it may be here.
    pub fn know(&self) {
        self.known.store(true, Relaxed);
    }

    pub fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    /// Address of its client; of IPv6 the network, since one client has 2⁶⁴ addresses.
    pub fn network(&self) -> IpAddr {
        self.network
    }

    /// Time of the last touch, or of the beginning.
    pub fn active(&self) -> Instant {
        *self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ready once its place is another's; until then the task wakes when that comes. One task waits for it.
    pub fn poll_shown_out(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        if self.shown_out.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }

    pub async fn shown_out(&self) {
        poll_fn(|cx| self.poll_shown_out(cx)).await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut inside = self.table.lock();
        if inside.entries.remove(&self.id).is_some() {
            inside.full_since = None;
            self.table.freed.notify_one();
        }
    }
}

/// One client, as far as an address tells: an IPv4 address, or an IPv6 network of 64 bits.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn is_out(permit: &ConnectionPermit) -> bool {
        permit.entry.shown_out().now_or_never().is_some()
    }

    async fn later() {
        tokio::time::advance(Duration::from_secs(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_idlest_goes_first_and_those_who_are_known_last() {
        let table = ConnectionTable::new(3);
        let mut inside = Vec::new();
        for _ in 0..3 {
            inside.push(table.enter(HERE, |_| true).await);
            later().await;
        }
        inside[0].entry.know();
        inside[1].entry.touch();
        let _fourth = table.enter(HERE, |_| true).await;
        assert_eq!(inside.iter().map(is_out).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(table.taken(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_takes_places_from_itself_only() {
        let table = ConnectionTable::new(4);
        let alone = table.enter(HERE, |_| true).await;
        later().await;
        let crowd = futures_util::future::join_all((0..9).map(|_| table.enter(THERE, |_| true))).await;
        assert!(!is_out(&alone), "it has been idle longer than any of them");
        assert_eq!(crowd.iter().filter(|permit| is_out(permit)).count(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_waits_while_nobody_may_go() {
        let table = ConnectionTable::new(1);
        let first = table.enter(HERE, |_| true).await;
        assert!(table.try_enter(HERE, |entry| !entry.is_known()).is_ok_and(|_| is_out(&first)));
        let second = table.enter(HERE, |_| true).await;
        second.entry.know();
        let mut third = Box::pin(table.enter(HERE, |entry| !entry.is_known()));
        assert!(timeout(Duration::from_secs(5), &mut third).await.is_err());
        assert_eq!(table.full_for(), Duration::from_secs(5));
        drop(second);
        assert_eq!(table.full_for(), Duration::ZERO);
        timeout(Duration::from_secs(1), third).await.expect("a place is free");
        drop(first);
        assert_eq!(table.taken(), 0);
    }
}
