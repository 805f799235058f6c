//! Reads a definition from JSON, in every shape there has been, and finds all that is wrong with it.

mod actions;
mod conditions;
mod pieces;
pub(super) mod policy;

use super::{
    definition::{ACTIONS_MAX, DEFINITION_BYTES_MAX, Definition, DefinitionProblem, Kind, Parameter, Surroundings},
    secret,
};
use crate::tool::memory::{NESTING_MAX, Path, Root, nesting, weight};
use serde_json::{Map, Value};
use std::sync::Arc;

const PARAMETERS_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 64;
const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;
/// Nobody reads more of them at once.
const PROBLEMS_MAX: usize = 100;
/// Stored with a tool by whoever keeps it, and of no meaning here.
const KEPT_BESIDE: [&str; 5] = ["id", "tenant_id", "created_at", "updated_at", "version"];
const BODY: [&str; 7] = ["name", "description", "parameters", "actions", "on_success", "on_failure", "policy"];

impl Definition {
    /// # Errors
    /// Everything that is wrong, in the order of the document; never empty.
    pub fn read(value: &Value, surroundings: &Arc<Surroundings>) -> Result<Self, Vec<DefinitionProblem>> {
        let mut reader = Reader::new(surroundings);
        let definition = reader.definition(value, surroundings);
        match definition {
            Some(definition) if reader.problems.is_empty() => Ok(definition),
            _ => {
                reader.problems.truncate(PROBLEMS_MAX);
                Err(reader.problems)
            }
        }
    }
}

struct Reader<'a> {
    surroundings: &'a Surroundings,
    problems: Vec<DefinitionProblem>,
    /// Names of the parameters.
    parameters: Vec<String>,
    secrets: Vec<Path>,
    /// Actions read so far.
    actions: usize,
    /// Regular expressions read so far.
    patterns: usize,
    in_failure: bool,
}

impl<'a> Reader<'a> {
    fn new(surroundings: &'a Surroundings) -> Self {
        let mut secrets = vec![secret::auth_token()];
        secrets.extend(surroundings.secrets.iter().filter(|path| **path != secret::auth_token()).cloned());
        Self {
            surroundings,
            problems: Vec::new(),
            parameters: Vec::new(),
            secrets,
            actions: 0,
            patterns: 0,
            in_failure: false,
        }
    }

    fn definition(&mut self, value: &Value, surroundings: &Arc<Surroundings>) -> Option<Definition> {
        // Everything after this walks the document by recursion.
        if nesting(value) > NESTING_MAX || weight(value) > DEFINITION_BYTES_MAX {
            self.problem("", format!("larger than {DEFINITION_BYTES_MAX} bytes or deeper than {NESTING_MAX}"));
            return None;
        }
        let outer = self.object(value, "")?;
        let (inner, prefix) = match outer.get("config") {
            Some(config) => {
                self.fields(outer, "", &["name", "description", "config"], &KEPT_BESIDE);
                (self.object(config, "config")?, "config.")
            }
            None => {
                self.fields(outer, "", &BODY, &KEPT_BESIDE);
                (outer, "")
            }
        };
        if !prefix.is_empty() {
            self.fields(inner, "config", &BODY, &[]);
        }
        let name = self.tool_name(outer);
        let description = self.required(outer, "description", "");
        let description = description.and_then(|value| self.text(value, "description", DESCRIPTION_BYTES_MAX));
        let parameters = self.parameters(inner, prefix);
        let policy = self.policy(inner.get("policy"), &format!("{prefix}policy"));
        for argument in &policy.secret_args {
            self.secrets.push(Path::new(Root::Params, &[argument]));
        }
        if inner.get("actions").is_none() {
            self.problem(&format!("{prefix}actions"), "is needed");
        }
        let actions = self.list_of_actions(inner, "actions", prefix);
        let on_success = self.list_of_actions(inner, "on_success", prefix);
        self.in_failure = true;
        let on_failure = self.list_of_actions(inner, "on_failure", prefix);
        if self.actions > ACTIONS_MAX {
            let message = format!("{} actions, branches included; at most {ACTIONS_MAX}", self.actions);
            self.problem(&format!("{prefix}actions"), message);
        }
        let definition = Definition {
            name: name?,
            description: description?,
            parameters,
            actions,
            on_success,
            on_failure,
            policy,
            surroundings: Arc::clone(surroundings),
            secrets: std::mem::take(&mut self.secrets),
        };
        self.loosening(&definition, &format!("{prefix}policy"));
        Some(definition)
    }

    fn tool_name(&mut self, map: &Map<String, Value>) -> Option<String> {
        let name = self.required(map, "name", "")?;
        let name = self.text(name, "name", NAME_BYTES_MAX)?;
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.bytes().all(letters) {
            self.problem("name", "has to be lower-case letters, digits and _, a letter first");
            return None;
        }
        Some(name)
    }

    fn parameters(&mut self, map: &Map<String, Value>, prefix: &str) -> Vec<Parameter> {
        let at = format!("{prefix}parameters");
        let list = self.list(map.get("parameters"), &at, PARAMETERS_MAX);
        let mut parameters: Vec<Parameter> = Vec::new();
        for (index, value) in list.iter().enumerate() {
            let at = format!("{at}[{index}]");
            let Some(parameter) = self.parameter(value, &at) else { continue };
            if self.parameters.contains(&parameter.name) {
                self.problem(&format!("{at}.name"), format!("a second parameter named {}", parameter.name));
                continue;
            }
            self.parameters.push(parameter.name.clone());
            parameters.push(parameter);
        }
        parameters
    }

    fn parameter(&mut self, value: &Value, at: &str) -> Option<Parameter> {
        let map = self.object(value, at)?;
        self.fields(map, at, &["name", "type", "required", "enum", "description", "default", "items"], &[]);
        let name = self.required(map, "name", at);
        let name = name.and_then(|value| self.word(value, &format!("{at}.name")));
        let kind = self.required(map, "type", at);
        let kind = kind.and_then(|value| self.choice(value, &format!("{at}.type"), &Kind::ALL));
        let description = map.get("description");
        let description =
            description.and_then(|value| self.text(value, &format!("{at}.description"), DESCRIPTION_BYTES_MAX));
        let required = self.flag(map, "required", at).unwrap_or(false);
        let items = map.get("items").and_then(|value| {
            let name = value.get("type").unwrap_or(value);
            self.choice(name, &format!("{at}.items"), &Kind::ALL)
        });
        let (name, kind) = (name?, kind?);
        if items.is_some() && kind != Kind::Array {
            self.problem(&format!("{at}.items"), "only an array has items");
        }
        let choices_at = format!("{at}.enum");
        let choices = self.list(map.get("enum"), &choices_at, ACTIONS_MAX * 4).to_vec();
        if map.contains_key("enum") {
            if !matches!(kind, Kind::String | Kind::Integer | Kind::Number) {
                self.problem(&choices_at, "only for texts and numbers");
            } else if choices.is_empty() || !choices.iter().all(|choice| kind.fits(choice)) {
                self.problem(&choices_at, format!("has to list values of type {}", kind.label()));
            }
        }
        let default = map.get("default").filter(|value| !value.is_null()).cloned();
        let parameter = Parameter { name, kind, required, choices, description, default, items };
        if let Some(complaint) = parameter.default.as_ref().and_then(|value| parameter.complaint(value)) {
            self.problem(&format!("{at}.default"), complaint);
        }
        Some(parameter)
    }
}
