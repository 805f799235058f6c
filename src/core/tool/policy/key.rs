//! Keys by which a call is known when it comes again.

use super::{CONFIRMATION_TOKEN, CallPolicy};
use crate::tool::{ToolCall, canonical};
use serde_json::{Map, Value};

/// Providers' ids of calls are a few dozen bytes; a longer one is kept as its digest.
const ID_BYTES_MAX: usize = 128;

/// The key of a call, and what the call under it asks for.
pub(super) struct Key {
    pub text: String,
    /// Digest of the tool's name and the arguments.
    pub content: [u8; 32],
}

impl CallPolicy {
    /// The provider's id if it gave a usable one, else the content. An id that stands for another tool or other arguments
    /// already is not unique: a result of that call would tell the caller that this one is done.
    pub(super) fn key(&self, call: &ToolCall, arguments: &Map<String, Value>) -> Key {
        let content = content(call, arguments);
        if let Some(text) = self.earlier_key(call, arguments) {
            return Key { text, content };
        }
        // An id is kept as long as the call lasts, and stands in the audit line.
        let short =
            call.provider_id().map(|id| if id.len() > ID_BYTES_MAX { canonical::digest_of(id) } else { id.to_owned() });
        let key = |id: Option<&str>| canonical::idempotency_key(id, &call.name, arguments, &self.turns.id());
        let text = self.earlier.of_this_session(key(short.as_deref()));
        let text = if self.replay.stands_for_another(&text, &content) { key(None) } else { text };
        Key { text, content }
    }
}

/// Digest of the tool and its arguments, without the token of a confirmation: a repeat may lack that.
fn content(call: &ToolCall, arguments: &Map<String, Value>) -> [u8; 32] {
    if !arguments.contains_key(CONFIRMATION_TOKEN) {
        return canonical::call_digest(&call.name, arguments);
    }
    let mut arguments = arguments.clone();
    arguments.shift_remove(CONFIRMATION_TOKEN);
    canonical::call_digest(&call.name, &arguments)
}
