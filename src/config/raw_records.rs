//! The section `records`.

use super::defaults;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Records {
    /// The folder where they are kept, starting from this file's; it is made where it is missing. It holds what callers
    /// said and their numbers, so only offhook's own user may read it.
    #[schemars(required, length(min = 1))]
    pub directory: Option<String>,
    /// How many days after its beginning a call's record is deleted.
    #[schemars(range(min = 1, max = 3650), extend("default" = defaults::RECORDS_KEEP_DAYS))]
    pub keep_days: Option<u64>,
    /// The same for recordings of calls, in contexts with `recording: true`; as `keep_days` where it is not written, and never
    /// more.
    #[schemars(range(min = 1, max = 3650))]
    pub recordings_keep_days: Option<u64>,
    /// Keep what was said, word for word.
    #[schemars(extend("default" = true))]
    pub words: Option<bool>,
    /// Keep the caller's number and name, and the number that was dialled.
    #[schemars(extend("default" = true))]
    pub numbers: Option<bool>,
}
