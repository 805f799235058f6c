//! The tools of one context, and the one door to them.

use super::{Failure, Tool, ToolCall, ToolError, ToolSpec};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Arguments longer than this are a model gone wrong, not a request.
const ARGUMENT_BYTES_MAX: usize = 64 * 1024;

/// A call that may run. Its fields are private to this file: [`Toolbox::admit`] alone makes one.
#[derive(Debug, Clone, PartialEq)]
pub struct Approved {
    id: String,
    name: String,
    arguments: Map<String, Value>,
}

impl Approved {
    /// The provider's id of the call.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }
}

/// Exactly the tools a context lists. What is shown to the model and what may run are read from
/// this one value.
pub struct Toolbox {
    entries: BTreeMap<String, Entry>,
    specs: Arc<[ToolSpec]>,
}

struct Entry {
    tool: Arc<dyn Tool>,
    arguments: jsonschema::Validator,
}

#[derive(Debug, thiserror::Error)]
#[error("tool \"{name}\": its parameter schema is not usable: {message}")]
pub struct BrokenSchema {
    name: String,
    message: String,
}

impl Toolbox {
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, BrokenSchema> {
        let mut entries = BTreeMap::new();
        let mut specs = Vec::new();
        for tool in tools {
            let spec = tool.spec();
            let arguments = jsonschema::validator_for(&spec.parameters)
                .map_err(|error| BrokenSchema { name: spec.name.clone(), message: error.to_string() })?;
            entries.insert(spec.name.clone(), Entry { tool, arguments });
            specs.push(spec);
        }
        Ok(Self { entries, specs: specs.into() })
    }

    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Decides whether a call may run. A refusal is the outcome the model is told.
    pub fn admit(&self, call: ToolCall) -> Result<Approved, Failure> {
        let Some(entry) = self.entries.get(&call.name) else {
            return Err(Failure::new(ToolError::NotFound, "There is no such tool."));
        };
        let arguments = parse(&call.arguments)?;
        let value = Value::Object(arguments);
        let problems: Vec<String> = entry
            .arguments
            .iter_errors(&value)
            .map(|error| match error.instance_path().to_string().as_str() {
                "" => error.to_string(),
                path => format!("{path}: {error}"),
            })
            .collect();
        let Value::Object(arguments) = value else { unreachable!("made from an object two lines above") };
        if !problems.is_empty() {
            return Err(Failure::new(ToolError::Validation, problems.join("; ")));
        }
        Ok(Approved { id: call.id, name: call.name, arguments })
    }

    /// The tool that an approved call of this toolbox names.
    pub fn tool(&self, call: &Approved) -> Option<Arc<dyn Tool>> {
        self.entries.get(&call.name).map(|entry| Arc::clone(&entry.tool))
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
    }
}

fn parse(arguments: &str) -> Result<Map<String, Value>, Failure> {
    let invalid = |message: &str| Failure::new(ToolError::Validation, message);
    if arguments.len() > ARGUMENT_BYTES_MAX {
        return Err(invalid("The arguments are too long."));
    }
    // Models leave the arguments of a tool without parameters empty.
    if arguments.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(invalid("The arguments have to be a JSON object.")),
        Err(_) => Err(invalid("The arguments are not valid JSON.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{HANGUP_CALL, TRANSFER, built_in};

    fn toolbox(names: &[&str]) -> Toolbox {
        let destinations = [("sales".to_owned(), "The sales desk".to_owned())].into();
        Toolbox::new(names.iter().filter_map(|name| built_in(name, &destinations))).expect("built-in schemas are valid")
    }

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "c1".into(), name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn only_listed_tools_are_shown_and_only_listed_tools_run() {
        let toolbox = toolbox(&[HANGUP_CALL]);
        assert_eq!(toolbox.specs().iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), [HANGUP_CALL]);
        assert!(toolbox.admit(call(HANGUP_CALL, "{}")).is_ok());
        let unlisted = toolbox.admit(call(TRANSFER, r#"{"destination":"sales"}"#)).unwrap_err();
        let unknown = toolbox.admit(call("nonsense", "{}")).unwrap_err();
        assert_eq!(unlisted, unknown, "a model cannot find out which tools exist elsewhere");
    }

    #[test]
    fn arguments_are_checked_before_anything_runs() {
        let toolbox = toolbox(&[TRANSFER]);
        for bad in ["", "[]", "{", r#"{"destination":"+15551234"}"#, r#"{"destination":"sales","more":1}"#] {
            let refusal = toolbox.admit(call(TRANSFER, bad)).unwrap_err();
            assert_eq!(refusal.kind, ToolError::Validation, "{bad}: {refusal:?}");
        }
        let approved = toolbox.admit(call(TRANSFER, r#"{"destination":"sales"}"#)).unwrap();
        assert_eq!(approved.arguments()["destination"], "sales");
    }
}
