//! Words of the page about contexts and their configuration.

pub const CONTEXTS: &str = "Contexts";
pub const GENERATION: &str = "generation";
pub const FALLBACKS: &str = "then";
pub const AUDIO: &str = "Audio";
pub const BY_AUDIOSOCKET: &str = "AudioSocket()";
pub const CALLS_NOW: &str = "Calls now";
pub const NO_TOOLS: &str = "none";
pub const TRY: &str = "Try";
pub const TRY_HELP: &str = "in writing, as it runs";

pub const CONFIGURATION: &str = "Configuration";
pub const FOR_ADMINS: &str = "The configuration itself is shown to admins only.";
pub const READ_ONLY: &str = "It cannot be changed here:";
pub const BUILT_IN: &str = "Part of the program";
pub const NOT_RUNNING: &str = "The file is not what runs: somebody changed it, and it was not loaded.";
pub const TEXT: &str = "Text of the configuration";
pub const TEXT_HELP: &str =
    "Keys and passwords belong in the environment: write ${NAME}. What is published here is kept in its versions.";
pub const CHECK: &str = "Check";
pub const PUBLISH: &str = "Publish";
pub const FINE: &str = "No problems.";
pub const NO_ANSWER: &str = "The check did not answer. It is tried again when the text changes.";
pub const LOGGED_OUT: &str = "Your session has ended: log in again in another window, then go on here.";
pub const EXCERPT: &str = "Lines with problems";
pub const LINE: &str = "Line";
pub const WHOLE: &str = "The file";
pub const WARNING: &str = "Perhaps not meant:";
pub const DIFFERENCE: &str = "Difference to what runs";
pub const MORE_LINES: &str = "… and more";
pub const PUBLISHED: &str = "Published: new calls have it.";
pub const AGAIN: &str =
    "Below is how your text differs from what is there now. Publishing again puts yours in its place.";

pub const HELP: &str = "Keys at the cursor";
pub const ROOT: &str = "the whole file";
pub const ANY_NAME: &str = "a name of your choice";
pub const DEFAULT: &str = "default";
pub const DEFAULT_HELP: &str = "Calls that name no context come here.";
pub const REQUIRED: &str = "required";

pub const VERSIONS: &str = "Versions";
pub const NO_VERSIONS: &str = "Nothing was published here yet.";
pub const VERSION: &str = "Version of";
pub const WHEN: &str = "When";
pub const WHO: &str = "Who";
pub const BY_HAND: &str = "somebody, in the file itself";
pub const CURRENT: &str = "in the file now";
pub const LOOK: &str = "Look at it";
pub const ROLL_BACK: &str = "Roll back to this";
pub const ROLL_BACK_HELP: &str =
    "Publishes this text again, for new calls. The one that is there now stays among the versions.";
pub const NO_DIFFERENCE: &str = "It is what runs.";
pub const WHOLE_TEXT: &str = "The whole text";

pub fn problems(count: usize, warnings: usize) -> String {
    match count {
        0 if warnings == 1 => format!("{FINE} 1 warning."),
        0 if warnings > 0 => format!("{FINE} {warnings} warnings."),
        0 => FINE.into(),
        1 => "1 problem".into(),
        count => format!("{count} problems"),
    }
}

pub fn more(count: usize) -> String {
    format!("and {count} more")
}
