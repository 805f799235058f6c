//! Words of the pages about the engine itself.

pub const PROVIDERS: &str = "Providers";
pub const NO_PROVIDERS: &str = "The configuration has no providers.";
pub const CALLS_NOW: &str = "Calls now";
pub const ANSWERS: &str = "Answers";
pub const MEDIAN: &str = "Median wait";
pub const P95: &str = "95 of 100 within";
pub const LOST_AGENTS: &str = "Lost agents";
pub const COST_SO_FAR: &str = "Cost";
pub const USED_BY: &str = "Used by";
pub const FALLBACK: &str = "fallback";
pub const HOW_LONG: &str = "How long callers waited";
pub const SINCE_START: &str = "since the engine started";
pub const WAIT: &str = "Wait";
pub const ANSWERED: &str = "Answers";
pub const MADE_OF: &str = "Made of";
pub const NO_ANSWERS: &str = "It has not answered anybody yet.";
pub const SERVICES: &str =
    "A provider that fails is left alone for a while, then one call tries it again; its callers go to the fallbacks.";

pub const MCP: &str = "MCP";
pub const MCP_TITLE: &str = "MCP servers";
pub const MCP_OFF: &str = "MCP servers are switched off";
pub const MCP_NONE: &str = "No MCP server is configured";
pub const MCP_HELP: &str = "Servers stand in the configuration, in the section mcp:";
pub const PENDING: &str = "Servers are reloaded when the last call has ended.";
pub const TRANSPORT: &str = "Transport";
pub const RESTARTS: &str = "Restarts";
pub const LAST_ERROR: &str = "Last error";
pub const TEST: &str = "Test";
pub const TEST_HELP: &str =
    "Starts another instance beside the one that runs, asks for its tools, and ends it. No tool is called.";
pub const SERVER_TOOL: &str = "The server's name";
pub const EXPOSED: &str = "Agents know it as";
pub const USABLE: &str = "Usable";
pub const YES: &str = "yes";
pub const NO: &str = "no";
pub const NO_MCP_TOOLS: &str = "It has told no tools yet.";
pub const MISSING: &str = "Contexts list these, and the server has no such tool:";
pub const WORKS: &str = "The server answers.";
pub const WORKS_NOT: &str = "The server does not work.";
pub const TOUCHES: &str = "Access";

pub const SYSTEM: &str = "System";
pub const CAPACITY: &str = "Calls";
pub const VERSION: &str = "Version";
pub const UP_SINCE: &str = "Up since";
pub const ASTERISK: &str = "Asterisk";
pub const ASTERISK_LOST: &str = "Connections to Asterisk lost or failed";
pub const FILE: &str = "Configuration file";
pub const BUILT_IN: &str = "part of the program";
pub const MEDIA: &str = "Where audio comes in";
pub const BIND: &str = "Address";
pub const OPEN: &str = "In use";
pub const MEDIA_TEST: &str = "Test the audio paths";
pub const MEDIA_TEST_HELP: &str = "A test call over each kind of audio path, with a tone each way. Takes some seconds; calls that run are not disturbed.";
pub const MEDIA_TESTED: &str = "What arrived";
pub const MEDIA_WORKS: &str = "The audio paths work.";
pub const FROM_CALLER: &str = "Caller → offhook";
pub const TO_CALLER: &str = "offhook → caller";
pub const NOT_HEARD: &str = "not heard";
pub const LOST: &str = "lost";
pub const EXAMINE: &str = "Examine the installation";
pub const EXAMINE_HELP: &str = "Everything the configuration names, and a test call over each kind of audio path. Takes up to a minute; calls that run are not disturbed.";
pub const FOUND: &str = "What was found";
pub const ALL_WELL: &str = "All is well.";
pub const RELOAD_FILE: &str = "Load the configuration anew";
pub const RELOAD_HELP: &str = "Calls that run keep the one they began with. A file with problems changes nothing.";
pub const RELOAD_DONE: &str = "The configuration is in force.";
pub const RELOAD_SAME: &str = "Nothing in it has changed.";
pub const RELOAD_REFUSED: &str = "The file has problems; what was in force stays so.";
pub const RELOAD_BUSY: &str = "Another reload is under way.";
pub const RELOAD_FAILED: &str = "The reload failed inside the engine; the log says why.";
pub const NEEDS_RESTART: &str = "only after a restart";
pub const DRAIN: &str = "Take no new calls";
pub const DRAIN_HELP: &str = "New callers go back to the dialplan; calls that run go on. For work on the machine.";
pub const TAKE: &str = "Take calls again";
pub const TAKING: &str = "New calls are taken.";
pub const DRAINING: &str = "New calls are declined.";
pub const TOKENS: &str = "Tokens of programs";
pub const TOKENS_HELP: &str = "A program that asks the API shows a token and may do what its role may. Only hashes are kept: a token is told once, when it is made. A token cannot make or revoke tokens.";
pub const ROLE: &str = "Role";
pub const MADE: &str = "Made";
pub const MADE_BY: &str = "Made by";
pub const MAKE_TOKEN: &str = "Make a token";
pub const REVOKE: &str = "Revoke";
pub const LOG: &str = "The end of the log";
pub const LOG_EMPTY: &str = "Nothing was logged yet.";
pub const NEW_CALLS: &str = "New calls";

pub fn token_made(name: &str) -> String {
    format!("The token for {name}. It is not told again:")
}

pub fn token_revoked(name: &str) -> String {
    format!("The token of {name} is revoked.")
}

/// Where a service of a pipeline stands in the configuration.
pub fn section(section: &str) -> &str {
    match section {
        "stt" => "listener",
        "llm" => "model",
        "voices" => "voice",
        other => other,
    }
}

/// A breaker's state.
pub fn health(state: &str) -> &str {
    match state {
        "asked" => "in use",
        "tried" => "is being tried",
        "left_alone" => "left alone",
        other => other,
    }
}

/// A server's state.
pub fn server(state: &str) -> &str {
    match state {
        "up" => "up",
        "starting" => "starting",
        "down" => "down",
        "disabled" => "switched off",
        other => other,
    }
}

pub fn wait(seconds: Option<f64>, beyond: f64) -> String {
    match seconds {
        Some(seconds) => format!("≤ {seconds} s"),
        None => format!("> {beyond} s"),
    }
}
