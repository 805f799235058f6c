//! Words of the editor of MCP servers.

pub const ADD: &str = "Add a server";
pub const EDIT: &str = "Edit";
pub const NEW_TITLE: &str = "New MCP server";
pub const ID: &str = "Name";
pub const ID_HELP: &str = "At most 40 characters. In the names of its tools it stands in lower snake case.";
pub const ENABLED: &str = "Start it";
pub const TRANSPORT: &str = "Transport";
pub const TRANSPORTS: [(&str, &str); 2] =
    [("stdio", "stdio: a program that offhook starts"), ("http", "http: an endpoint somewhere else")];
pub const COMMAND: &str = "Program and arguments";
pub const COMMAND_HELP: &str =
    "For stdio: the program in the first line, each argument in a line of its own. No shell reads it.";
pub const CWD: &str = "Folder it runs in";
pub const CWD_HELP: &str = "For stdio. Left empty: the folder of the configuration file.";
pub const ENV: &str = "Environment";
pub const ENV_HELP: &str = "For stdio: NAME=value, one a line. Write secrets as ${NAME} of offhook's own environment; values that are written out are shown as ***.";
pub const URL: &str = "Address";
pub const URL_HELP: &str = "For http, such as https://tools.example.com/mcp.";
pub const HEADERS: &str = "Headers";
pub const HEADERS_HELP: &str = "For http: Name: value, one a line. Write secrets as ${NAME}.";
pub const TOKEN: &str = "Bearer token";
pub const TOKEN_HELP: &str = "For http: the name of a variable, such as ${TOOLS_TOKEN}.";
pub const ACCESS: &str = "What its tools touch";
pub const ACCESS_HELP: &str = "For the gate. Unclassified tools do not run.";
pub const RISK: &str = "Risk domain";
pub const UNSAID: &str = "not said";
pub const MORE: &str = "Limits, restarts, tools";
pub const TIMEOUT: &str = "What a call may take";
pub const START_TIMEOUT: &str = "What a start may take";
pub const SLOW: &str = "The caller is told after";
pub const MS_HELP: &str = "In milliseconds.";
pub const SLOW_MESSAGE: &str = "What the caller hears then";
pub const RESTART: &str = "Start it again when it ends by itself";
pub const MAX_RESTARTS: &str = "Starts in vain after which it stays down";
pub const BACKOFF: &str = "Wait before the first start again";
pub const TOOLS: &str = "Tools that may be used";
pub const TOOLS_HELP: &str = "A JSON list of objects with name, and expose_as, description, speech_field, speech_template; or nothing: all that it has.";
pub const LOOK: &str = "Check, and show the difference";
pub const LOOK_HELP: &str = "Nothing is written yet.";
pub const PROBLEMS: &str = "This cannot be published:";
pub const DIFFERENCE: &str = "This is what changes";
pub const DIFFERENCE_HELP: &str =
    "Calls that run keep what they began with. Servers are started and stopped when no call runs.";
pub const WARNINGS: &str = "Right, and perhaps not meant:";
pub const PUBLISH: &str = "Publish";
pub const REMOVE: &str = "Remove this server";
pub const REMOVE_HELP: &str = "Its entry is taken out of the configuration; you see the difference first.";
pub const CONFLICT_HELP: &str = "What you wrote still stands below. Check it against the file as it is now.";
pub const TAKEN: &str = "another server has this name";
