//! What Deepgram's interfaces for listening and for speaking have in common.

use super::checks;
use crate::{
    audio::{Encoding, Format},
    config::OptionProblem,
};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// Who asks: a part of the options of each kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Account {
    /// The key; write `${DEEPGRAM_API_KEY}` rather than the key itself.
    #[schemars(with = "String")]
    api_key: SecretString,
    /// Keeps what is said out of the vendor's own training; it may cost more.
    #[serde(default)]
    pub mip_opt_out: bool,
}

impl Account {
    pub fn problems(&self) -> Vec<OptionProblem> {
        checks::secret("api_key", &self.api_key, "DEEPGRAM_API_KEY").into_iter().collect()
    }

    /// The value of the header of this name.
    pub fn authorization(&self) -> SecretString {
        format!("Token {}", self.api_key.expose_secret()).into()
    }
}

/// What the vendor calls it.
pub const fn encoding(format: Format) -> &'static str {
    match format.encoding {
        Encoding::Mulaw => "mulaw",
        Encoding::Alaw => "alaw",
        Encoding::Linear => "linear16",
    }
}
