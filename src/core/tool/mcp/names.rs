//! What a tool of a server is called by a model: `mcp_SERVER_TOOL` in lower snake case.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Every provider takes this much; some refuse more.
pub const NAME_BYTES_MAX: usize = 64;
/// What is left of a longer name: with `_` and the digits of its hash it is as long as a name may be.
const KEPT: usize = 55;
const HASH_BYTES: usize = 4;

/// The name under which a model sees a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposed {
    pub name: String,
    /// It ends in a hash, since the whole would have been too long; worth a line in the log.
    pub shortened: bool,
}

/// Lower snake case: a capital after a lower-case letter or a digit begins a word, all that is no ASCII letter or digit
/// parts words. Empty when nothing is left.
///
/// ```
/// use offhook_core::tool::mcp::snake;
/// assert_eq!(snake("getWeather byCity"), "get_weather_by_city");
/// ```
pub fn snake(text: &str) -> String {
    let mut name = String::new();
    let mut before = ' ';
    for letter in text.chars() {
        let begins = letter.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit());
        let parts = begins || !letter.is_ascii_alphanumeric();
        if parts && !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        if letter.is_ascii_alphanumeric() {
            name.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    name.truncate(name.trim_end_matches('_').len());
    name
}

/// The exposed name of a tool; both names as they are written and reported. `None` when nothing is left of one of them:
/// then only a name of the operator's (`expose_as`) will do.
pub fn exposed(server_id: &str, tool_name: &str) -> Option<Exposed> {
    let (server, tool) = (snake(server_id), snake(tool_name));
    if server.is_empty() || tool.is_empty() {
        return None;
    }
    let mut name = format!("mcp_{server}_{tool}");
    let shortened = name.len() > NAME_BYTES_MAX;
    if shortened {
        name.truncate(KEPT);
        name.push('_');
        let digest = Sha256::digest(format!("{server_id}/{tool_name}"));
        for byte in digest.iter().take(HASH_BYTES) {
            // A String takes whatever is written to it.
            let _ = write!(name, "{byte:02x}");
        }
    }
    Some(Exposed { name, shortened })
}

/// Whether a name can be exposed as it is: 1 to 64 of `[a-z0-9_]`.
pub fn is_exposable(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain)
}
