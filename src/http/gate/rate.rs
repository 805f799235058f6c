//! How often one client may ask.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(60);

/// A gate serves a few agents; this many addresses within a minute are none of them. Beyond it newcomers
/// share one allowance.
const CLIENTS_MAX: usize = 10_000;

/// Allowances that fill up again evenly, one per address: a minute's worth at once, then one by one.
pub struct RateLimit {
    per_minute: u32,
    clients: Mutex<HashMap<Option<IpAddr>, Allowance>>,
}

struct Allowance {
    /// Requests that may still be made, in part.
    left: f64,
    at: Instant,
}

impl RateLimit {
    pub fn new(per_minute: Option<u32>) -> Option<Self> {
        per_minute.map(|per_minute| Self { per_minute, clients: Mutex::default() })
    }

    /// Takes one request of a client's allowance, or says how long until there is one.
    pub fn admit(&self, client: IpAddr, now: Instant) -> Result<(), Duration> {
        let full = f64::from(self.per_minute);
        let per_second = full / WINDOW.as_secs_f64();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(client);
        if !clients.contains_key(&key) && clients.len() >= CLIENTS_MAX {
            // Who has not asked for a minute has a full allowance, as if never seen.
            clients.retain(|_, allowance| now.duration_since(allowance.at) < WINDOW);
            if clients.len() >= CLIENTS_MAX {
                key = None;
            }
        }
        let allowance = clients.entry(key).or_insert(Allowance { left: full, at: now });
        let elapsed = now.duration_since(allowance.at).as_secs_f64();
        allowance.left = (allowance.left + elapsed * per_second).min(full);
        allowance.at = now;
        if allowance.left >= 1.0 {
            allowance.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64(((1.0 - allowance.left) / per_second).ceil()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_minutes_worth_at_once_then_one_by_one_and_each_client_for_itself() {
        let limit = RateLimit::new(Some(60)).unwrap();
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let now = Instant::now();
        for _ in 0..60 {
            limit.admit(one, now).unwrap();
        }
        assert_eq!(limit.admit(one, now), Err(Duration::from_secs(1)));
        limit.admit(other, now).unwrap();
        limit.admit(one, now + Duration::from_secs(1)).unwrap();
        limit.admit(one, now + Duration::from_secs(1)).unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_addresses_is_not_remembered_one_by_one() {
        let limit = RateLimit::new(Some(1)).unwrap();
        let now = Instant::now();
        for client in 0..CLIENTS_MAX as u32 + 5 {
            let _ = limit.admit(IpAddr::from(client.to_be_bytes()), now);
        }
        assert_eq!(limit.clients.lock().unwrap().len(), CLIENTS_MAX + 1);
        let later = now + WINDOW;
        limit.admit(IpAddr::from([255, 0, 0, 1]), later).unwrap();
        assert_eq!(limit.clients.lock().unwrap().len(), 1);
    }
}
