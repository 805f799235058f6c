//! What the editor's form holds, and the definition that it makes.

use super::one::pretty;
use crate::http::tools_api::{Problem, StoredTool, Trial};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Parts of a definition that are written as JSON, in the order of the form.
pub const PARTS: [&str; 5] = ["parameters", "actions", "on_success", "on_failure", "policy"];

/// The form, field by field; what was not sent is empty.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Draft {
    pub tenant: String,
    /// The kept tool that is changed; empty: a new one is made.
    pub tool: String,
    /// Of the kept tool, as it was opened.
    pub version: String,
    pub action: Option<Action>,
    pub name: String,
    pub description: String,
    pub parameters: String,
    pub actions: String,
    pub on_success: String,
    pub on_failure: String,
    pub policy: String,
    /// Of a dry run, as are the two below.
    pub params: String,
    pub user: String,
    pub live: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Save,
    Try,
    Delete,
}

impl Draft {
    /// Something to begin with.
    pub fn new(tenant: String) -> Self {
        Self {
            tenant,
            parameters: "[]".into(),
            actions: "[\n  { \"type\": \"respond\", \"message\": \"Hello.\" }\n]".into(),
            params: "{}".into(),
            ..Self::default()
        }
    }

    pub fn of(tenant: String, tool: StoredTool) -> Self {
        let part = |name: &str| tool.config.get(name).map(pretty).unwrap_or_default();
        Self {
            tenant,
            parameters: part("parameters"),
            actions: part("actions"),
            on_success: part("on_success"),
            on_failure: part("on_failure"),
            policy: part("policy"),
            params: "{}".into(),
            tool: tool.name.clone(),
            version: tool.version,
            name: tool.name,
            description: tool.description,
            ..Self::default()
        }
    }

    pub fn part(&self, name: &str) -> &str {
        match name {
            "parameters" => &self.parameters,
            "actions" => &self.actions,
            "on_success" => &self.on_success,
            "on_failure" => &self.on_failure,
            _ => &self.policy,
        }
    }

    /// # Errors
    /// Every part that is no JSON, with the place.
    pub fn definition(&self) -> Result<Value, Vec<Problem>> {
        let name = if self.tool.is_empty() { self.name.trim() } else { &self.tool };
        let mut definition = Map::new();
        definition.insert("name".into(), name.into());
        let description = self.description.trim();
        if !description.is_empty() {
            definition.insert("description".into(), description.into());
        }
        let mut problems = Vec::new();
        for part in PARTS.into_iter().filter(|part| !self.part(part).trim().is_empty()) {
            match serde_json::from_str(self.part(part)) {
                Ok(value) => drop(definition.insert(part.into(), value)),
                Err(error) => problems.push(no_json(part, &error)),
            }
        }
        if problems.is_empty() { Ok(Value::Object(definition)) } else { Err(problems) }
    }

    /// # Errors
    /// What of it is no JSON object.
    pub fn trial(&self) -> Result<Trial, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut object = |name: &str, text: &str| -> Map<String, Value> {
            let text = if text.trim().is_empty() { "{}" } else { text };
            serde_json::from_str(text).unwrap_or_else(|error| {
                problems.push(no_json(name, &error));
                Map::new()
            })
        };
        let (params, user) = (object("params", &self.params), object("user", &self.user));
        if problems.is_empty() { Ok(Trial { params, user, live: self.live.is_some() }) } else { Err(problems) }
    }
}

fn no_json(part: &str, error: &serde_json::Error) -> Problem {
    Problem::new(part, format!("cannot be read as JSON: {error}"))
}

/// The field of the form that a problem is about: of `actions[2].url` it is `actions`.
pub fn field_of(problem: &Problem) -> &str {
    problem.path.split(['.', '[']).next().unwrap_or_default()
}
