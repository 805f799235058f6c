//! From one entry of a `tools/list` answer to the specification of a tool.

use super::{
    McpDefaults, McpToolRules,
    names::{NAME_BYTES_MAX, exposed, is_exposable},
    schema::{TEXT_CHARS_MAX, conforms, parameters},
    text::for_model,
};
use crate::{
    gate::{Category, RiskDomain},
    tool::{Executor, SideEffects, ToolKind, ToolSpec, india::Canonical},
};
use serde_json::{Map, Value};

/// Of a tool's name as its server reports it: what MCP recommends as the longest. It is in logs and on pages.
const NAME_CHARS_MAX: usize = 128;

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    /// As reported: it is what the server is called with.
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    /// The schema of the arguments, as reported.
    pub schema: Value,
    pub hints: Hints,
}

/// What a server says of a tool's effects. It may be wrong or meant to mislead, so it only makes us more careful.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
}

impl Offered {
    /// Reads one entry of `tools`. What the protocol does not name is ignored.
    ///
    /// # Errors
    /// Names the member that is missing or of another type than MCP has it.
    pub fn read(tool: &Value) -> Result<Self, String> {
        let tool = tool.as_object().ok_or("the tool is no object")?;
        let name = text(tool, "name", "name")?.ok_or("name: is missing")?;
        if name.is_empty() || for_model(&name, NAME_CHARS_MAX) != name {
            return Err(format!("name: has to be 1 to {NAME_CHARS_MAX} characters that can be seen"));
        }
        Self::of_name(&name, tool).map_err(|why| format!("tool \"{name}\": {why}"))
    }

    fn of_name(name: &str, tool: &Map<String, Value>) -> Result<Self, String> {
        let schema = tool.get("inputSchema").ok_or("inputSchema: is missing")?;
        if !schema.is_object() {
            return Err("inputSchema: has to be an object".into());
        }
        let nothing = Map::new();
        let annotations = match tool.get("annotations") {
            None | Some(Value::Null) => &nothing,
            Some(Value::Object(annotations)) => annotations,
            Some(_) => return Err("annotations: has to be an object".into()),
        };
        let hints = Hints {
            read_only: flag(annotations, "readOnlyHint")?,
            destructive: flag(annotations, "destructiveHint")?,
            idempotent: flag(annotations, "idempotentHint")?,
        };
        let title = text(tool, "title", "title")?.or(text(annotations, "title", "annotations.title")?);
        let description = text(tool, "description", "description")?;
        Ok(Self { name: name.to_owned(), title, description, schema: schema.clone(), hints })
    }

    /// The tool under the operator's rules: `rules` of this tool, `defaults` of its server. What it touches comes from
    /// the operator alone; without a word it is unclassified and does not run.
    ///
    /// # Errors
    /// The tool cannot be exposed: a name that nothing is left of, or a schema that cannot be used, with its place.
    pub fn spec(
        &self,
        server_id: &str,
        rules: Option<&McpToolRules>,
        defaults: &McpDefaults,
    ) -> Result<ToolSpec, String> {
        let name = match rules.and_then(|rules| rules.expose_as.as_deref()) {
            Some(name) if is_exposable(name) => name.to_owned(),
            Some(_) => return Err(format!("expose_as: has to be 1 to {NAME_BYTES_MAX} of a-z, 0-9 and _")),
            None => match exposed(server_id, &self.name) {
                Some(exposed) => exposed.name,
                None => return Err("name: has no letters or digits to make a name of; set expose_as".into()),
            },
        };
        let canonical = rules.and_then(|rules| rules.canonical);
        if canonical.is_some_and(|canonical| !conforms(&canonical.schema, &self.schema)) {
            return Err("inputSchema: differs from that of the India tool registry".into());
        }
        let own = rules.and_then(|rules| rules.description.clone());
        let mut spec = ToolSpec {
            risk_domain: defaults.risk_domain.unwrap_or(RiskDomain::Unknown),
            timeout: defaults.timeout,
            executor: Executor::Mcp(server_id.to_owned()),
            ..ToolSpec::new(name, own.unwrap_or_else(|| self.words(server_id)), parameters(&self.schema)?)
        };
        let access = canonical.map(Canonical::access).or(defaults.access);
        classify(&mut spec, access.unwrap_or(Category::Unknown));
        self.hints.tighten(&mut spec);
        Ok(spec)
    }

    /// The server's description, or a sentence in its place: no provider takes an empty one.
    fn words(&self, server_id: &str) -> String {
        // A model reads it in every turn, beside the operator's prompt; OpenAI takes no more for a function.
        let clean = |text: &Option<String>| for_model(text.as_deref().unwrap_or_default(), TEXT_CHARS_MAX);
        let (description, title) = (clean(&self.description), clean(&self.title));
        match (description.is_empty(), title.is_empty()) {
            (false, _) => description,
            (true, false) => format!("{}.", title.trim_end_matches('.')),
            (true, true) => format!("The tool {} of {server_id}.", self.name),
        }
    }
}

/// Says what a tool touches, and with it what it is counted as and what it may leave behind. Of an unclassified one nobody
/// knows, so the worst is assumed. Of a server's default, [`Hints::tighten`] comes after it; what the operator says of one
/// tool by its name holds as it is said.
pub fn classify(spec: &mut ToolSpec, access: Category) {
    let (kind, side_effects) = match access {
        Category::PublicRead | Category::PrivateRead => (ToolKind::Retrieval, SideEffects::ReadOnly),
        Category::Write => (ToolKind::Action, SideEffects::Writes),
        Category::Unknown => (ToolKind::Utility, SideEffects::Writes),
    };
    (spec.access, spec.kind, spec.side_effects) = (access, kind, side_effects);
    spec.latency_budget = kind.latency_target();
}

impl Hints {
    /// Makes a specification as strict as the server says the tool has to be, never less: "writes" turns a read into a
    /// write, "destroys" asks the caller as well; "only reads" and "may be repeated" change nothing.
    pub fn tighten(self, spec: &mut ToolSpec) {
        let destroys = self.destructive == Some(true);
        if destroys || self.read_only == Some(false) {
            if spec.kind != ToolKind::Action {
                spec.kind = ToolKind::Action;
                spec.latency_budget = ToolKind::Action.latency_target();
            }
            spec.side_effects = SideEffects::Writes;
            spec.idempotent = false;
            if spec.access != Category::Unknown {
                spec.access = Category::Write;
            }
        }
        spec.requires_confirmation |= destroys;
    }
}

/// `null` is as good as nothing: some libraries write it.
fn text(object: &Map<String, Value>, key: &str, place: &str) -> Result<Option<String>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{place}: has to be a text")),
    }
}

fn flag(annotations: &Map<String, Value>, key: &str) -> Result<Option<bool>, String> {
    match annotations.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(format!("annotations.{key}: has to be true or false")),
    }
}
