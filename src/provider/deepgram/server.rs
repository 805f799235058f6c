//! The server's messages, as far as they matter here. Unknown fields are ignored everywhere: the
//! vendor adds them without notice.

use crate::provider::arguments;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct ConversationText {
    pub(super) role: String,
    pub(super) content: String,
}

#[derive(Deserialize)]
pub(super) struct Functions {
    pub(super) functions: Vec<Function>,
}

#[derive(Deserialize)]
pub(super) struct Function {
    pub(super) id: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default = "arguments::none", deserialize_with = "arguments::as_text")]
    pub(super) arguments: String,
    /// If not, the vendor's servers call it themselves and nobody waits for us. We declare none such.
    #[serde(default = "client_side")]
    pub(super) client_side: bool,
}

fn client_side() -> bool {
    true
}

#[derive(Deserialize)]
pub(super) struct Trouble {
    #[serde(default)]
    pub(super) code: String,
}
