//! What the caller types that no model may see: digits behind handles, and the PIN.

use super::{CallPolicy, Source};
use crate::{gate::AuthState, redact::Redacted, tool::ToolSpec};
use serde_json::{Map, Value};
use std::{collections::VecDeque, time::Instant};

/// Handles of digits that a call can hold; the oldest goes first.
const KEPT_MAX: usize = 8;
/// Wrong PINs after which no further one is looked at.
const ATTEMPTS_MAX: u32 = 3;

#[derive(Default)]
pub(super) struct Secrets {
    kept: VecDeque<(String, Redacted<String>)>,
    /// Handles given out. None is given twice, or a tool would get other digits than the caller meant.
    count: u64,
    pin_attempts: u32,
}

impl Secrets {
    /// Puts the digits in place of their handles, in arguments that are declared secret. Done before
    /// they are checked: the schema speaks of digits, and what is confirmed is what runs.
    pub fn fill(&self, spec: &ToolSpec, arguments: &mut Map<String, Value>) {
        for name in &spec.secret_args {
            if let Some(Value::String(handle)) = arguments.get_mut(name)
                && let Some((_, digits)) = self.kept.iter().find(|(known, _)| known == handle)
            {
                handle.clone_from(digits.reveal());
            }
        }
    }
}

impl Secrets {
    /// Another party: handles that were given out lead to nothing, and are not given again.
    pub fn forget(&mut self) {
        *self = Self { count: self.count, ..Self::default() };
    }
}

impl CallPolicy {
    /// Keeps digits that only tools may see, and gives the handle that a model can pass on.
    pub fn keep_secret(&mut self, digits: Redacted<String>) -> String {
        let secrets = &mut self.secrets;
        secrets.count += 1;
        let handle = format!("secure-digits-{}", secrets.count);
        if secrets.kept.len() == KEPT_MAX {
            secrets.kept.pop_front();
        }
        secrets.kept.push_back((handle.clone(), digits));
        handle
    }

    /// Compares what the caller typed with their PIN; three wrong ones are the last.
    pub fn pin_entered(&mut self, digits: &str, now: Instant) -> bool {
        use subtle::ConstantTimeEq as _;
        // An empty one is a variable that nobody set, not a PIN that typing nothing meets.
        let Some(pin) = self.opening.pin.as_ref().filter(|pin| !pin.reveal().is_empty()) else { return false };
        if self.secrets.pin_attempts >= ATTEMPTS_MAX {
            return false;
        }
        let right = bool::from(pin.reveal().as_bytes().ct_eq(digits.as_bytes()));
        if right {
            self.secrets.pin_attempts = 0;
            self.prove(Source::Pin, AuthState::Authenticated, now);
        } else {
            self.secrets.pin_attempts += 1;
        }
        right
    }
}
