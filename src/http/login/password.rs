//! Passwords and their hashes. Hashing is slow by design: it belongs on a thread that may wait.

use argon2::{
    Argon2,
    password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash},
};
use rand::RngExt as _;

/// What is shorter can be guessed, given the file.
const CHARS_MIN: usize = 12;
/// More is no password, and hashing it would take its time.
pub(super) const BYTES_MAX: usize = 256;
/// Letters and digits that cannot be mistaken for each other, also on the telephone.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 100 bits.
const RANDOM_CHARS: usize = 20;
/// Of a password that nobody has: who asks for an unknown name waits as long as for a known one.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5LW5vYm9keS0xMg$\
                      3yN8kK9mY2uZq1w0b5r7tA4cE6gI8kM0oQ2sU4wY6aA";

/// Why a password is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("a password has at least {CHARS_MIN} characters")]
    Short,
    #[error("a password has at most {BYTES_MAX} bytes")]
    Long,
    #[error("the password could not be hashed: {0}")]
    Failed(String),
}

/// One that nobody guesses.
pub fn random() -> String {
    let mut random = rand::rng();
    let mut text = String::with_capacity(RANDOM_CHARS + RANDOM_CHARS / 5);
    for index in 0..RANDOM_CHARS {
        if index > 0 && index % 5 == 0 {
            text.push('-');
        }
        text.push(char::from(ALPHABET[random.random_range(0..ALPHABET.len())]));
    }
    text
}

pub(super) fn hash(password: &str) -> Result<String, Unfit> {
    if password.chars().count() < CHARS_MIN {
        return Err(Unfit::Short);
    }
    if password.len() > BYTES_MAX {
        return Err(Unfit::Long);
    }
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|error| Unfit::Failed(error.to_string()))
}

/// Takes the same time whether there is a hash or not.
pub(super) fn is_right(password: &str, hash: Option<&str>) -> bool {
    let known = hash.and_then(|hash| PasswordHash::new(hash).ok());
    let nobody = || PasswordHash::new(NOBODY).ok();
    let is_known = known.is_some();
    let right =
        known.or_else(nobody).is_some_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok());
    right && is_known
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn a_hash_knows_its_password_and_no_other() {
        let password = random();
        let hash = hash(&password).unwrap();
        assert!(is_right(&password, Some(&hash)));
        for (wrong, hash) in
            [("", Some(&*hash)), ("admin", Some(&hash)), (&password, None), (&password, Some("nonsense"))]
        {
            assert!(!is_right(wrong, hash), "{wrong} {hash:?}");
        }
    }

    #[test]
    fn passwords_are_random() {
        let all: std::collections::BTreeSet<String> = (0..100).map(|_| random()).collect();
        assert_eq!(all.len(), 100);
        assert!(all.iter().all(|password| password.len() == 23 && hash_is_fit(password)));
    }

    fn hash_is_fit(password: &str) -> bool {
        password.chars().count() >= CHARS_MIN && password.len() <= BYTES_MAX
    }

    /// The shortest of several tries of each, so that nobody else's work counts, and far less than the thousandth that it
    /// would be without the hash of nobody.
    #[test]
    fn an_unknown_name_costs_as_much_as_a_known_one() {
        let hash = hash("correct horse battery").unwrap();
        let least = |hash: Option<&str>| {
            let took = |_| {
                let began = Instant::now();
                assert!(!is_right("another password", hash));
                began.elapsed()
            };
            (0..5).map(took).min().unwrap()
        };
        let (known, unknown) = (least(Some(&hash)), least(None));
        assert!(unknown > known / 20 && unknown > Duration::from_millis(1), "{known:?} {unknown:?}");
    }
}
