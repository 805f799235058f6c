//! All tools of one generation of the configuration, and the selection of them that a context has.
//! Immutable: a call keeps the one it began with.

use super::{
    Approved, Tool, ToolSpec, canonical,
    policy::CONFIRMATION_TOKEN,
    prune::Arguments,
    schemas::{Dialect, ToolText, Uncarried},
};
use crate::{
    facts::Residency,
    gate::{AuthState, Category, Event, Gate, Route},
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Every tool there is, by name, under one version.
pub struct Registry {
    entries: BTreeMap<String, Arc<Entry>>,
    version: Arc<str>,
}

/// Exactly the tools a context lists. What is shown to the model and what may run are read from
/// this one value.
pub struct Toolbox {
    entries: BTreeMap<String, Arc<Entry>>,
    specs: Arc<[ToolSpec]>,
    /// What each kind of provider is told, in the order of [`Dialect::ALL`].
    schemas: [Arc<[Value]>; Dialect::ALL.len()],
    version: Arc<str>,
}

pub(super) struct Entry {
    pub spec: ToolSpec,
    pub arguments: Arguments,
    tool: Arc<dyn Tool>,
    /// In the order of [`Dialect::ALL`]; computed once per generation.
    schemas: [Result<Value, Vec<Uncarried>>; Dialect::ALL.len()],
}

/// A guest's place among the guests, and why it is left out.
pub type LeftOut = (usize, String);

#[derive(Debug, thiserror::Error)]
#[error("tool \"{name}\": {message}")]
pub struct BrokenTool {
    pub name: String,
    pub message: String,
}

impl Registry {
    /// # Errors
    /// Every tool whose schema is not usable, and every name that two tools have.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, Vec<BrokenTool>> {
        Self::with(tools, |_| {})
    }

    /// The same, with the operator's word about each specification.
    pub fn with(
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
        amend: impl Fn(&mut ToolSpec),
    ) -> Result<Self, Vec<BrokenTool>> {
        Self::with_guests(tools, [], amend).map(|(registry, _)| registry)
    }

    /// The same, with tools that others' servers bring. What is wrong with one of those breaks nothing: it is left out,
    /// and comes back with its place among them and the reason.
    ///
    /// # Errors
    /// What is wrong with the other tools.
    pub fn with_guests(
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
        guests: impl IntoIterator<Item = Arc<dyn Tool>>,
        amend: impl Fn(&mut ToolSpec),
    ) -> Result<(Self, Vec<LeftOut>), Vec<BrokenTool>> {
        let mut entries: BTreeMap<String, Arc<Entry>> = BTreeMap::new();
        let mut broken = Vec::new();
        for tool in tools {
            let mut spec = tool.spec();
            amend(&mut spec);
            let name = spec.name.clone();
            if let Err(message) = enter(&mut entries, spec, tool) {
                broken.push(BrokenTool { name, message });
            }
        }
        if !broken.is_empty() {
            return Err(broken);
        }
        let mut left_out = Vec::new();
        for (index, tool) in guests.into_iter().enumerate() {
            let mut spec = tool.spec();
            amend(&mut spec);
            if let Err(message) = enter(&mut entries, spec, tool) {
                left_out.push((index, message));
            }
        }
        let version = version(&entries).into();
        Ok((Self { entries, version }, left_out))
    }

    /// `1.0.` and eight hex digits over all tools; the same tools have the same version.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.entries.get(name).map(|entry| &entry.spec)
    }

    /// Names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Tools that are declared public and that the contract gate takes for ones about a person, because
    /// of their name or the names of their arguments: they run for identified callers only.
    pub fn taken_for_private(&self) -> Vec<&str> {
        let gate = Gate::default();
        let is_private = |entry: &&Arc<Entry>| {
            let spec = &entry.spec;
            let names = spec.parameters.get("properties").and_then(Value::as_object);
            let arguments = names.into_iter().flat_map(Map::keys).map(|name| (name.clone(), Value::Null)).collect();
            let event = Event {
                tool_name: spec.name.clone(),
                category: spec.access,
                state: AuthState::UserClaimed,
                evidence: Vec::new(),
                domain: spec.risk_domain,
                arguments,
                recommended: Route::Accept,
                request_id: None,
            };
            spec.access == Category::PublicRead && !gate.decide(&event, Timestamp::UNIX_EPOCH).executes()
        };
        self.entries.values().filter(is_private).map(|entry| entry.spec.name.as_str()).collect()
    }

    /// The tools of these names; names that nobody knows are left out.
    pub fn toolbox<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Toolbox {
        let entries: BTreeMap<_, _> =
            names.into_iter().filter_map(|name| Some((name.to_owned(), Arc::clone(self.entries.get(name)?)))).collect();
        let specs = entries.values().map(|entry| entry.spec.clone()).collect();
        let told =
            |dialect: Dialect| entries.values().filter_map(|entry| entry.schema(dialect).ok().cloned()).collect();
        let schemas = Dialect::ALL.map(told);
        Toolbox { entries, specs, schemas, version: Arc::clone(&self.version) }
    }
}

impl Toolbox {
    /// A registry of these tools alone, all of them listed.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, Vec<BrokenTool>> {
        let registry = Registry::new(tools)?;
        Ok(registry.toolbox(registry.names()))
    }

    /// The same, of which a model is told those tools alone that what is said under this rule may go to. The others stay known, so
    /// that the policy can say why they do not run.
    pub fn offered_under(self: Arc<Self>, rule: Residency) -> Arc<Self> {
        if self.kept_from(rule).is_empty() {
            return self;
        }
        let offered = |entry: &&Arc<Entry>| entry.spec.may_have(rule);
        let specs = self.entries.values().filter(offered).map(|entry| entry.spec.clone()).collect();
        let told = |dialect: Dialect| {
            self.entries.values().filter(offered).filter_map(|entry| entry.schema(dialect).ok().cloned()).collect()
        };
        let schemas = Dialect::ALL.map(told);
        Arc::new(Self { entries: self.entries.clone(), specs, schemas, version: Arc::clone(&self.version) })
    }

    /// Tools that what is said under this rule may not go to.
    pub fn kept_from(&self, rule: Residency) -> Vec<&str> {
        let kept = self.entries.values().filter(|entry| !entry.spec.may_have(rule));
        kept.map(|entry| entry.spec.name.as_str()).collect()
    }

    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    /// The tools as a provider of this kind is told them.
    pub fn schemas(&self, dialect: Dialect) -> Arc<[Value]> {
        Arc::clone(&self.schemas[dialect as usize])
    }

    /// What a provider of this kind cannot be told, by tool.
    pub fn uncarried(&self, dialect: Dialect) -> Vec<(&str, &Uncarried)> {
        self.entries
            .iter()
            .filter_map(|(name, entry)| Some((name.as_str(), entry.schema(dialect).err()?)))
            .flat_map(|(name, reasons)| reasons.iter().map(move |reason| (name, reason)))
            .collect()
    }

    /// Of the whole registry that this selection is from.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The tool that an approved call of this toolbox names.
    pub fn tool(&self, call: &Approved) -> Option<Arc<dyn Tool>> {
        self.entries.get(call.name()).map(|entry| Arc::clone(&entry.tool))
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.get(name)
    }
}

impl Entry {
    fn schema(&self, dialect: Dialect) -> Result<&Value, &Vec<Uncarried>> {
        self.schemas[dialect as usize].as_ref()
    }
}

fn enter(entries: &mut BTreeMap<String, Arc<Entry>>, spec: ToolSpec, tool: Arc<dyn Tool>) -> Result<(), String> {
    let arguments = Arguments::new(spec.parameters.clone())
        .map_err(|error| format!("its parameter schema is not usable: {error}"))?;
    if let Some(other) = entries.get(&spec.name) {
        let whose = match other.spec.executor.server() {
            Some(server) => format!(" of the server \"{server}\""),
            None => String::new(),
        };
        return Err(format!("another tool{whose} has the name \"{}\"", spec.name));
    }
    let schemas = schemas(&spec);
    entries.insert(spec.name.clone(), Arc::new(Entry { spec, arguments, tool, schemas }));
    Ok(())
}

fn schemas(spec: &ToolSpec) -> [Result<Value, Vec<Uncarried>>; Dialect::ALL.len()] {
    let parameters = shown_parameters(spec);
    let text = ToolText { name: &spec.name, description: &spec.description, parameters: &parameters };
    Dialect::ALL.map(|dialect| dialect.render(text))
}

/// The parameters as a model is shown them: of a tool that the caller may have to agree to, with the
/// reserved one that carries the token. The tool itself never sees it.
fn shown_parameters(spec: &ToolSpec) -> Value {
    let mut parameters = spec.parameters.clone();
    if spec.may_be_asked()
        && let Some(schema) = parameters.as_object_mut()
    {
        let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Some(properties) = properties.as_object_mut() {
            let token = json!({
                "type": "string",
                "description": "Only after the caller has agreed: the token of the confirmation_request.",
            });
            properties.insert(CONFIRMATION_TOKEN.into(), token);
        }
    }
    parameters
}

fn version(entries: &BTreeMap<String, Arc<Entry>>) -> String {
    let tools: Vec<_> = entries
        .values()
        .map(|entry| &entry.spec)
        .map(|spec| canonical::Versioned {
            tool_id: &spec.name,
            version: &spec.version,
            schema: &spec.parameters,
            summary: spec.summary(),
        })
        .collect();
    canonical::registry_version(&tools)
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("version", &self.version).field("tools", &self.entries.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{facts::CallFacts, tool::ToolOutcome};
    use futures_util::future::BoxFuture;

    struct Plain(ToolSpec);

    impl Tool for Plain {
        fn spec(&self) -> ToolSpec {
            self.0.clone()
        }

        fn run(&self, _: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
            Box::pin(std::future::pending())
        }
    }

    /// P15: a model that may not add the token could never use it.
    #[test]
    fn a_tool_that_may_be_asked_about_has_a_place_for_the_token() {
        let parameters = json!({ "type": "object", "properties": {}, "additionalProperties": false });
        let write = ToolSpec { access: Category::Write, ..ToolSpec::new("write", "", parameters.clone()) };
        let approved = ToolSpec { standing_approval: true, name: "approved".into(), ..write.clone() };
        let toolbox = Toolbox::new([write, approved].map(|spec| Arc::new(Plain(spec)) as Arc<dyn Tool>)).unwrap();
        let shown = toolbox.schemas(Dialect::OpenAiRealtime);
        let properties = |index: usize| shown[index]["parameters"]["properties"].as_object().unwrap().len();
        assert_eq!((properties(0), properties(1)), (0, 1), "in the order of their names");
        assert_eq!(shown[1]["parameters"]["properties"][CONFIRMATION_TOKEN]["type"], "string");
    }
}
