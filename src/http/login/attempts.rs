//! How often passwords may be tried.
//!
//! Whoever guesses at a name keeps nobody out who has it: attempts are counted for each name and each network together. What
//! guesses from everywhere cost has a limit of its own, which is not for those who were here before, nor for the machine itself and
//! for browsers that have logged in to the account once: these share no bucket with anybody.

use crate::{connections::network, http::rate::Rates};
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// At one name from one network: a person who mistypes has as many at once; who guesses has ten a minute.
const GUESSES: u32 = 10;
const GUESSES_PER_SECOND: f64 = 1.0 / 6.0;
/// From one network, whatever the name: an office behind one address, where one of them has forgotten a password.
const OF_A_NETWORK: u32 = 30;
const OF_A_NETWORK_PER_SECOND: f64 = 1.0 / 2.0;
/// Of all who have not logged in from where they are: one a second takes a twentieth of a core, which calls need too.
const OF_STRANGERS: u32 = 60;
const OF_STRANGERS_PER_SECOND: f64 = 1.0;
/// Networks and guests that are told apart; those beyond share one bucket.
const KEYS_MAX: usize = 4_096;
/// More people than have accounts, each with a few networks; the one that was here longest ago is a stranger again.
const KNOWN_MAX: usize = 1_024;

/// A name, which may be a password that was typed in the wrong field, from a network.
type Guest = ([u8; 32], IpAddr);

/// Where an attempt comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin {
    Network(IpAddr),
    /// A browser with the mark of the account, or this machine; by a hash that no other one has.
    Trusted([u8; 32]),
}

pub(super) struct Attempts {
    by_trusted: Rates<[u8; 32]>,
    by_network: Rates<IpAddr>,
    by_guest: Rates<Guest>,
    strangers: Rates<()>,
    /// Who has logged in, and when.
    known: Mutex<HashMap<Guest, Instant>>,
}

impl Attempts {
    pub fn new() -> Self {
        Self {
            by_trusted: Rates::new(GUESSES, GUESSES_PER_SECOND, KNOWN_MAX),
            by_network: Rates::new(OF_A_NETWORK, OF_A_NETWORK_PER_SECOND, KEYS_MAX),
            by_guest: Rates::new(GUESSES, GUESSES_PER_SECOND, KEYS_MAX),
            strangers: Rates::new(OF_STRANGERS, OF_STRANGERS_PER_SECOND, 1),
            known: Mutex::default(),
        }
    }

    /// Takes one attempt.
    ///
    /// # Errors
    /// There is none; how long until there is.
    pub fn take(&self, name: &str, origin: Origin, now: Instant) -> Result<(), Duration> {
        let address = match origin {
            Origin::Trusted(key) => return self.by_trusted.take(key, now),
            Origin::Network(address) => address,
        };
        let guest = guest(name, address);
        self.by_network.take(guest.1, now)?;
        // Who goes on at one name takes nothing from the others of the office.
        self.by_guest.take(guest, now).inspect_err(|_| self.by_network.give_back(guest.1))?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&guest);
        if known { Ok(()) } else { self.strangers.take((), now) }
    }

    /// The attempt was no guess, and is not counted.
    pub fn was_right(&self, name: &str, origin: Origin, now: Instant) {
        let address = match origin {
            Origin::Trusted(key) => return self.by_trusted.give_back(key),
            Origin::Network(address) => address,
        };
        let guest = guest(name, address);
        self.by_network.give_back(guest.1);
        self.by_guest.give_back(guest);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.insert(guest, now).is_none() {
            self.strangers.give_back(());
        }
        if known.len() > KNOWN_MAX
            && let Some(longest_ago) = known.iter().min_by_key(|(_, at)| **at).map(|(guest, _)| *guest)
        {
            known.remove(&longest_ago);
        }
    }
}

fn guest(name: &str, address: IpAddr) -> Guest {
    (Sha256::digest(name).into(), network(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Origin {
        Origin::Network(IpAddr::from((0x0a00_0000 + number).to_be_bytes()))
    }

    fn let_in(attempts: &Attempts, name: &str, address: Origin, now: Instant) -> usize {
        (0..100).filter(|_| attempts.take(name, address, now).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_at_a_name_are_counted_where_they_come_from_and_nowhere_else() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        assert_eq!(let_in(&attempts, "admin", address(1), now), 10);
        assert_eq!(let_in(&attempts, "admin", address(2), now), 10, "the admin is elsewhere");
        assert_eq!(let_in(&attempts, "ada", address(1), now), 10, "another one in the same office");
        assert_eq!(let_in(&attempts, "admin", address(1), now + Duration::from_secs(60)), 10, "it is not for ever");
        let one_of_many = |number: u16| Origin::Network(IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, number]));
        let all = (0..100).filter(|number| attempts.take("bob", one_of_many(*number), now).is_ok()).count();
        assert_eq!(all, 10, "the addresses of one IPv6 network are one guest");
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_that_tries_every_name_has_a_limit() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        let all = (0..100).filter(|name| attempts.take(&format!("name {name}"), address(1), now).is_ok()).count();
        assert_eq!(all, 30);
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_from_everywhere_have_a_limit_that_is_not_for_whoever_was_here_before() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        attempts.take("admin", address(0), now).unwrap();
        attempts.was_right("admin", address(0), now);
        let all = (1..1_000).filter(|number| attempts.take("admin", address(*number), now).is_ok()).count();
        assert_eq!(all, 60);
        assert_eq!(let_in(&attempts, "ada", Origin::Trusted([1; 32]), now), 10, "a browser of hers, and no more");
        attempts.take("admin", address(0), now).unwrap();
        assert!(attempts.take("ada", address(0), now).is_err(), "another name is a stranger's there");
        attempts.take("admin", address(2_000), now + Duration::from_secs(1)).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_were_here_are_bounded_in_number() {
        let (attempts, mut now) = (Attempts::new(), Instant::now());
        for number in 0..=KNOWN_MAX as u32 {
            now += Duration::from_secs(1);
            attempts.was_right("ada", address(number), now);
        }
        let known = attempts.known.lock().unwrap();
        assert_eq!(known.len(), KNOWN_MAX);
        let is_known = |number: u8| known.contains_key(&guest("ada", IpAddr::from([10, 0, 0, number])));
        assert!(!is_known(0) && is_known(1));
    }
}
