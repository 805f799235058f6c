//! Words of the pages about tools.

pub const TENANT: &str = "Tenant";
pub const NO_TENANT: &str = "contexts without a tenant";
pub const SEARCH_FOR: &str = "Name, kind or words";
pub const VERSION: &str = "Registry version";
pub const COUNT: &str = "Tools";
pub const NONE_FOUND: &str = "No tool is like that.";
pub const NAME: &str = "Tool";
pub const KIND: &str = "Kind";
pub const ACCESS: &str = "Access";
pub const LISTED_BY: &str = "Contexts";
pub const CALLS: &str = "Calls";
pub const NOT_DONE: &str = "not done";
pub const USUALLY: &str = "Usually takes";
pub const MOSTLY: &str = "Nine of ten within";
pub const NEW: &str = "New declarative tool";
pub const EDIT: &str = "Edit";
pub const NO_SUCH: &str = "There is no tool of this name.";
pub const NO_SUCH_TENANT: &str = "There is no tenant of this name whose tools can be edited.";

pub const POLICY: &str = "Policy";
pub const POLICY_HELP: &str = "What decides whether a call of it runs.";
pub const PARAMETERS: &str = "Parameters";
pub const NO_PARAMETERS: &str = "It takes none.";
pub const AS_SCHEMA: &str = "As JSON Schema";
pub const OUTCOMES: &str = "What became of its calls";
pub const NO_CALLS: &str = "No call of it yet.";
pub const AUDIT: &str = "Its last calls";
pub const AUDIT_OF_ALL: &str = "The last calls of all tools";
pub const AUDIT_HELP: &str = "The last lines of the audit log, since the engine started. They hold names, no values.";
pub const SERVER: &str = "Server";
pub const SERVER_TOOL: &str = "The server's name";
pub const PARAMETER: &str = "Parameter";
pub const TYPE: &str = "Type";
pub const REQUIRED: &str = "Required";
pub const DESCRIPTION: &str = "Description";

pub const SIDE_EFFECTS: &str = "Side effects";
pub const CATEGORY: &str = "Counts as";
pub const RISK: &str = "Risk domain";
pub const CONFIRMATION: &str = "Caller has to agree";
pub const STANDING: &str = "Approved once and for all";
pub const AUTHORIZATION: &str = "Caller has to be";
pub const AUTHENTICATES: &str = "Shows the caller to be";
pub const IDEMPOTENT: &str = "Twice is as once";
pub const MODES: &str = "Used in";
pub const UNKNOWN_ARGUMENTS: &str = "Unknown arguments";
pub const SECRET_ARGUMENTS: &str = "Secret arguments";
pub const TIMEOUT: &str = "Time limit";
pub const BUDGET: &str = "Latency budget";
pub const WAITS: &str = "Agent waits for it";
pub const TOOL_VERSION: &str = "Version";
pub const ASKED: &str = "The caller is asked";
pub const TAKEN_FOR_PRIVATE: &str = "Its access is public_read, by its definition or because that says nothing, but the gate takes it for a tool about a person, because of its name or its arguments: it runs for identified callers only.";
pub const UNCLASSIFIED: &str = "Nobody has said what it touches, so the gate lets no call of it run: say it in its policy, or under tools in the configuration.";

pub const NEW_TITLE: &str = "New declarative tool";
pub const EDITOR_NAME: &str = "Name";
pub const NAME_HELP: &str = "Lower-case letters, digits and _, a letter first. It cannot change later.";
pub const DESCRIPTION_HELP: &str = "What the agent reads to decide when to use it.";
pub const PARAMETERS_HELP: &str = "A JSON list of objects with name, type, and what else a parameter has: required, enum, description, default, items.";
pub const ACTIONS: &str = "Actions";
pub const ACTIONS_HELP: &str = "A JSON list. Done one after the other; the first that does not work ends the run.";
pub const ON_SUCCESS: &str = "When all worked";
pub const ON_SUCCESS_HELP: &str = "A JSON list of actions, or nothing.";
pub const ON_FAILURE: &str = "When one did not";
pub const EDITOR_POLICY_HELP: &str = "A JSON object, or nothing: then it follows from the actions.";
pub const SAVE: &str = "Save";
pub const SAVE_HELP: &str = "Calls that begin after it have it. Calls that run keep what they began with.";
pub const DRY_RUN: &str = "Dry run";
pub const DRY_RUN_HELP: &str = "Runs what stands above, saved or not, outside of any call.";
pub const PARAMS: &str = "Arguments";
pub const PARAMS_HELP: &str = "A JSON object: what the agent would give.";
pub const USER: &str = "What the call was begun with";
pub const USER_HELP: &str = "A JSON object, read as {{user.…}}; or nothing.";
pub const LIVE: &str = "Really call external services";
pub const TRY: &str = "Run it";
pub const DELETE: &str = "Delete this tool";
pub const DELETE_HELP: &str = "New calls do without it. There is no way back.";
pub const DELETE_NOW: &str = "Delete for good";
pub const PROBLEMS: &str = "The definition has mistakes:";
pub const WHOLE: &str = "the whole definition";
pub const OPEN_ANEW: &str = "Open it as it is now";
pub const CHANGED: &str =
    "Somebody else has changed this tool since you opened it. Nothing was saved: what you wrote still stands below.";
pub const UNREADABLE: &str = "The tool's file is not readable. Saving replaces it.";
pub const TOO_LONG: &str = "What was sent is too long for a definition.";
pub const WRONG_KIND: &str = "What was sent is not the form of this page.";
pub const RAN: &str = "It worked.";
pub const RAN_NOT: &str = "It did not work.";
pub const RESULT: &str = "What came of it";
pub const STEPS: &str = "Step by step";
pub const NOT_CALLED: &str = "No external service was called: what its answer would have filled in is empty in this result, and conditions on it \
     held or failed without it. Tick the box above to call it.";
pub const EMPTY: &str = "Empty, for there was no such value:";
pub const NO_STEPS: &str = "No action was run.";
pub const AS_JSON: &str = "All of it as JSON";

/// Who runs a tool.
pub fn kind(kind: &str) -> &str {
    match kind {
        "builtin" => "built in",
        "mcp" => "MCP server",
        "vam" => "VAM",
        other => other,
    }
}

pub fn yes(is: bool) -> &'static str {
    if is { super::operations::YES } else { super::operations::NO }
}
