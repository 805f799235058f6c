//! Who is logged in. Only in memory: a restart logs everybody out.

use super::accounts::{Account, Accounts, Role};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use prometheus::IntGauge;
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

/// A session that nobody uses is over: somebody left a desk. An open live view counts as use.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// A working day; after that, once more the password.
pub(super) const LIFE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Nobody has as many browsers; the one that was used longest ago is logged out.
const PER_ACCOUNT_MAX: usize = 16;
const ALL_MAX: usize = 1_000;

/// The hash of a session's id: what can be read of the memory logs nobody in.
pub(super) type Key = [u8; 32];

pub(in crate::http) struct Sessions {
    sessions: Mutex<HashMap<Key, Session>>,
    open: IntGauge,
}

struct Session {
    account: String,
    role: Role,
    /// Of the account when the session began.
    stamp: [u8; 32],
    csrf: String,
    began: Instant,
    used: Instant,
}

/// What a session's id stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub key: Key,
    pub account: String,
    pub role: Role,
    pub csrf: String,
}

impl Sessions {
    pub fn new(open: IntGauge) -> Self {
        Self { sessions: Mutex::default(), open }
    }

    /// The new session's id, which only the browser keeps.
    pub(super) fn begin(&self, name: &str, account: &Account, now: Instant) -> String {
        let id = random();
        let session = Session {
            account: name.to_owned(),
            role: account.role,
            stamp: account.stamp(),
            csrf: random(),
            began: now,
            used: now,
        };
        let mut sessions = self.lock();
        sessions.retain(|_, session| session.is_alive(now));
        make_room(&mut sessions, PER_ACCOUNT_MAX, |session| session.account == name);
        make_room(&mut sessions, ALL_MAX, |_| true);
        sessions.insert(key(&id), session);
        self.open.set(sessions.len() as i64);
        id
    }

    /// Counts as use of the session.
    pub(super) fn find(&self, id: &str, accounts: &Accounts, now: Instant) -> Option<Found> {
        self.look_up(key(id), accounts, now)
    }

    /// `false` when it is over. Counts as use.
    pub(super) fn goes_on(&self, key: Key, accounts: &Accounts, now: Instant) -> bool {
        self.look_up(key, accounts, now).is_some()
    }

    pub(super) fn end(&self, key: &Key) {
        let mut sessions = self.lock();
        sessions.remove(key);
        self.open.set(sessions.len() as i64);
    }

    fn look_up(&self, key: Key, accounts: &Accounts, now: Instant) -> Option<Found> {
        let mut sessions = self.lock();
        let session = sessions.get_mut(&key)?;
        // Whoever changes an account ends what began with it.
        let unchanged = accounts.get(&session.account).is_some_and(|account| account.stamp() == session.stamp);
        if unchanged && session.is_alive(now) {
            session.used = now;
            let Session { account, role, csrf, .. } = session;
            return Some(Found { key, account: account.clone(), role: *role, csrf: csrf.clone() });
        }
        sessions.remove(&key);
        self.open.set(sessions.len() as i64);
        None
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn is_alive(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) < IDLE_MAX && now.saturating_duration_since(self.began) < LIFE_MAX
    }
}

fn make_room(sessions: &mut HashMap<Key, Session>, most: usize, counts: impl Fn(&Session) -> bool) {
    while sessions.values().filter(|session| counts(session)).count() >= most {
        let longest_ago =
            sessions.iter().filter(|(_, session)| counts(session)).min_by_key(|(_, session)| session.used);
        let Some(key) = longest_ago.map(|(key, _)| *key) else { return };
        sessions.remove(&key);
    }
}

pub(super) fn is_same(one: &str, other: &str) -> bool {
    key(one).ct_eq(&key(other)).into()
}

fn key(id: &str) -> Key {
    Sha256::digest(id).into()
}

/// 256 bits, as text.
pub(super) fn random() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tempfile::TempDir;

    const PASSWORD: &str = "correct horse battery";

    async fn desk() -> (TempDir, Arc<Accounts>, Sessions) {
        let folder = TempDir::new().unwrap();
        let accounts = Arc::new(Accounts::new(&folder.path().join("accounts.json")));
        accounts.add("ada", Role::Operator, PASSWORD).unwrap();
        accounts.refresh().await;
        (folder, accounts, Sessions::new(IntGauge::new("open", "open").unwrap()))
    }

    fn begin(sessions: &Sessions, accounts: &Accounts, now: Instant) -> String {
        sessions.begin("ada", &accounts.get("ada").unwrap(), now)
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_found_by_its_id_alone_until_it_is_ended() {
        let (_folder, accounts, sessions) = desk().await;
        let now = Instant::now();
        let id = begin(&sessions, &accounts, now);
        let found = sessions.find(&id, &accounts, now).unwrap();
        assert_eq!((found.account.as_str(), found.role), ("ada", Role::Operator));
        for forged in ["", "ada", &found.csrf, &id[1..], &random()] {
            assert_eq!(sessions.find(forged, &accounts, now), None, "{forged}");
        }
        assert!(!sessions.lock().keys().any(|key| key.as_slice() == id.as_bytes()));
        sessions.end(&found.key);
        assert_eq!(sessions.find(&id, &accounts, now), None);
        assert_eq!(sessions.open.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_nobody_uses_it_and_after_a_day_of_work_in_any_case() {
        let (_folder, accounts, sessions) = desk().await;
        let begun = Instant::now();
        let second = Duration::from_secs(1);
        let id = begin(&sessions, &accounts, begun);
        assert!(sessions.find(&id, &accounts, begun + IDLE_MAX - second).is_some());
        assert!(sessions.find(&id, &accounts, begun + IDLE_MAX + IDLE_MAX - second).is_none());
        let id = begin(&sessions, &accounts, begun);
        let mut now = begun;
        while now + IDLE_MAX / 2 < begun + LIFE_MAX {
            now += IDLE_MAX / 2;
            assert!(sessions.find(&id, &accounts, now).is_some());
        }
        assert!(sessions.find(&id, &accounts, begun + LIFE_MAX).is_none());
    }

    #[tokio::test]
    async fn a_session_ends_when_its_account_changes_or_goes() {
        let (_folder, accounts, sessions) = desk().await;
        accounts.add("root", Role::Admin, PASSWORD).unwrap();
        let now = Instant::now();
        for change in [
            &(|| accounts.set_password("ada", PASSWORD).unwrap()) as &dyn Fn(),
            &|| {
                accounts.remove("ada").unwrap();
                accounts.add("ada", Role::Viewer, PASSWORD).unwrap();
            },
            &|| accounts.remove("ada").unwrap(),
        ] {
            let fresh = Arc::new(Accounts::new(accounts.path()));
            fresh.refresh().await;
            let id = begin(&sessions, &fresh, now);
            assert!(sessions.find(&id, &fresh, now).is_some());
            change();
            let changed = Arc::new(Accounts::new(accounts.path()));
            changed.refresh().await;
            assert!(sessions.find(&id, &changed, now).is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded_and_the_one_that_was_used_longest_ago_goes() {
        let (_folder, accounts, sessions) = desk().await;
        let mut now = Instant::now();
        let first = begin(&sessions, &accounts, now);
        let second = begin(&sessions, &accounts, now);
        for _ in 2..=PER_ACCOUNT_MAX {
            now += Duration::from_secs(1);
            assert!(sessions.find(&first, &accounts, now).is_some());
            begin(&sessions, &accounts, now);
        }
        assert_eq!(sessions.lock().len(), PER_ACCOUNT_MAX);
        assert!(sessions.find(&first, &accounts, now).is_some());
        assert!(sessions.find(&second, &accounts, now).is_none());
    }
}
