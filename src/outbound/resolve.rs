//! Names to addresses. The check sits between the name server and the connection, so what was
//! checked is what is connected to: a name that changes its address between the two (DNS rebinding)
//! has nothing to change between.

use super::address::is_public;
use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::sync::Semaphore;

/// A look-up in the operating system occupies a thread and cannot be cancelled. Beyond this number
/// look-ups wait, so a name server that is silent cannot take every thread.
const LOOKUPS_AT_ONCE: usize = 32;

/// Asks for the addresses of a host.
pub(super) trait Lookup: Send + Sync {
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The operating system's resolver.
pub(super) struct System {
    permits: Arc<Semaphore>,
}

impl System {
    pub(super) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(LOOKUPS_AT_ONCE)) }
    }
}

impl Lookup for System {
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let permits = Arc::clone(&self.permits);
        Box::pin(async move {
            let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
            // A task of its own: the permit is held as long as the thread is, also when the asker leaves.
            let asked = tokio::spawn(async move {
                let found = tokio::net::lookup_host((host.as_str(), 0)).await;
                drop(permit);
                found.map(|addresses| addresses.map(|address| address.ip()).collect())
            });
            asked.await.map_err(io::Error::other)?
        })
    }
}

/// Whether an address may be connected to without the operator's word.
pub(super) type Rule = fn(IpAddr) -> bool;

/// The rule of the house.
pub(super) const PUBLIC_ONLY: Rule = is_public;

/// The host resolves to an address that is not public.
#[derive(Debug, thiserror::Error)]
#[error("the host has an address that is not public")]
pub(super) struct Blocked;

/// What an HTTP client resolves with.
pub(super) struct Resolver {
    lookup: Arc<dyn Lookup>,
    rule: Option<Rule>,
}

impl Resolver {
    /// `rule` is asked about every address; without one all are good (hosts on the operator's list).
    pub(super) fn new(lookup: Arc<dyn Lookup>, rule: Option<Rule>) -> Self {
        Self { lookup, rule }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.lookup.lookup(name.as_str().to_owned());
        let rule = self.rule;
        Box::pin(async move {
            let found = found.await?;
            // One bad address among good ones is an attempt to be connected to it.
            if rule.is_some_and(|rule| !found.iter().all(|address| rule(*address))) {
                return Err(Blocked.into());
            }
            // Port 0 stands for the one in the URL.
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}
