//! What the author of a tool says of it, checked before any call: every mistake at once, each with
//! its place.
//!
//! A manifest is JSON with `toolId`, `version`, `category`, `description`, `parameters`,
//! `sideEffects`, `idempotent`, `requiresConfirmation`, `allowedModes`, `latencyBudgetMs` and
//! `summary`, and may have `documentation`. Further members are kept in [`Manifest::others`] for
//! those who know them; a name that looks like a slip of the pen is a mistake.

use super::{
    Mode, SideEffects, ToolKind,
    canonical::{Versioned, registry_version},
    prune::strict_validator,
};
use serde_json::{Map, Value};
use std::{collections::BTreeSet, fmt::Write as _};

/// A summary stands in every prompt of every call.
const SUMMARY_CHARS_MAX: usize = 250;
/// OpenAI's servers take no longer description of a function.
const DESCRIPTION_CHARS_MAX: usize = 1024;
/// The name is shown to models; all vendors take this much.
const TOOL_ID_CHARS_MAX: usize = 64;
/// A version is a label in logs.
const VERSION_CHARS_MAX: usize = 64;
/// A budget beyond a minute of silence is a slip (of seconds for milliseconds, say).
const LATENCY_BUDGET_MS_MAX: u64 = 60_000;
/// Mistakes listed for one manifest.
const MISTAKES_MAX: usize = 100;
/// How like a known name an unknown one has to be to be taken for a slip (Jaro-Winkler).
const LIKENESS_MIN: f64 = 0.85;

/// Every member of the core; all but the last are required.
const MEMBERS: [&str; 12] = [
    "toolId",
    "version",
    "category",
    "description",
    "parameters",
    "sideEffects",
    "idempotent",
    "requiresConfirmation",
    "allowedModes",
    "latencyBudgetMs",
    "summary",
    "documentation",
];

/// A value a manifest writes as one of a few words.
trait Word: Copy + 'static {
    const ALL: &'static [Self];
    fn word(self) -> &'static str;
}

impl Word for ToolKind {
    const ALL: &'static [Self] = &[Self::Retrieval, Self::Action, Self::Utility];
    fn word(self) -> &'static str {
        self.label()
    }
}

impl Word for SideEffects {
    const ALL: &'static [Self] = &[Self::None, Self::ReadOnly, Self::Writes];
    fn word(self) -> &'static str {
        self.label()
    }
}

impl Word for Mode {
    const ALL: &'static [Self] = &[Self::Text, Self::Voice];
    fn word(self) -> &'static str {
        self.label()
    }
}

/// A manifest without mistakes.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    pub tool_id: String,
    pub version: String,
    pub category: ToolKind,
    pub description: String,
    /// JSON Schema: an object that allows no other members.
    pub parameters: Value,
    pub side_effects: SideEffects,
    pub idempotent: bool,
    pub requires_confirmation: bool,
    /// At least one, each once.
    pub allowed_modes: Vec<Mode>,
    /// Longer than this is worth a warning; it stops nothing.
    pub latency_budget_ms: u64,
    pub summary: String,
    /// The author's text on the tool, for a model that asks.
    pub documentation: Option<String>,
    /// Members beyond those of the core.
    pub others: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Mistake {
    /// As `tools[2].parameters.additionalProperties`; relative to where the manifest stands.
    pub path: String,
    pub reason: String,
}

/// Reads one manifest. `folder` is the name of the folder it lies in, if it lies in one of its own:
/// the tool is named after it, with `_` for `-`.
pub fn read(manifest: &Value, folder: Option<&str>) -> Result<Manifest, Vec<Mistake>> {
    let Some(members) = manifest.as_object() else {
        return Err(vec![Mistake { path: String::new(), reason: "has to be an object".to_owned() }]);
    };
    let mut reader = Reader { members, mistakes: Vec::new() };
    let read = reader.manifest(folder);
    match read {
        Some(read) if reader.mistakes.is_empty() => Ok(read),
        _ => Err(reader.mistakes),
    }
}

/// Reads all tools of a registry, `(manifest, folder)` each. Sorted by name, as
/// [`version`] wants them; no name comes twice.
pub fn read_all(manifests: &[(Value, Option<String>)]) -> Result<Vec<Manifest>, Vec<Mistake>> {
    let (mut tools, mut mistakes, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (index, (manifest, folder)) in manifests.iter().enumerate() {
        let here = |path: &str| format!("tools[{index}]{}{path}", if path.is_empty() { "" } else { "." });
        if let Some(name) = manifest.get("toolId").and_then(Value::as_str)
            && !names.insert(name)
        {
            mistakes.push(Mistake { path: here("toolId"), reason: format!("\"{name}\" is there twice") });
        }
        match read(manifest, folder.as_deref()) {
            Ok(tool) => tools.push(tool),
            Err(found) => {
                mistakes.extend(found.into_iter().map(|mistake| Mistake { path: here(&mistake.path), ..mistake }))
            }
        }
    }
    tools.sort_by(|a: &Manifest, b| a.tool_id.cmp(&b.tool_id));
    if mistakes.is_empty() { Ok(tools) } else { Err(mistakes) }
}

/// The version of a registry that holds these tools.
pub fn version(tools: &[Manifest]) -> String {
    let versioned: Vec<Versioned<'_>> = tools
        .iter()
        .map(|tool| Versioned {
            tool_id: &tool.tool_id,
            version: &tool.version,
            schema: &tool.parameters,
            summary: &tool.summary,
        })
        .collect();
    registry_version(&versioned)
}

/// What a prompt says of the tools: one block each, `**id** (category): summary`.
pub fn summaries(tools: &[Manifest]) -> String {
    let block = |tool: &Manifest| format!("**{}** ({}): {}", tool.tool_id, tool.category.label(), tool.summary);
    tools.iter().map(block).collect::<Vec<_>>().join("\n\n")
}

/// The summary a guide begins with: its first line of text after the title.
pub fn summary_of_guide(guide: &str) -> Option<&str> {
    let mut lines = guide.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.find(|line| !line.starts_with('#'))
}

impl Manifest {
    /// What a model reads that asks for more: the author's text, or what the manifest says.
    pub fn documentation(&self) -> String {
        if let Some(documentation) = &self.documentation {
            return documentation.clone();
        }
        let mut page = format!("# {}\n\n{}\n\n{}\n", self.tool_id, self.summary, self.description);
        let none = Map::new();
        let properties = self.parameters.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required = self.parameters.get("required").and_then(Value::as_array);
        if !properties.is_empty() {
            page.push_str("\n## Parameters\n\n");
        }
        for (name, schema) in properties {
            let is_required = required.is_some_and(|required| required.iter().any(|other| other == name));
            let kind = schema.get("type").and_then(Value::as_str).unwrap_or("any");
            let need = if is_required { "required" } else { "optional" };
            let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            let colon = if text.is_empty() { "" } else { ": " };
            writeln!(page, "- `{name}` ({kind}, {need}){colon}{text}").unwrap_or_default();
        }
        page
    }
}

struct Reader<'a> {
    members: &'a Map<String, Value>,
    mistakes: Vec<Mistake>,
}

impl<'a> Reader<'a> {
    fn manifest(&mut self, folder: Option<&str>) -> Option<Manifest> {
        // Every member is read before any is missed, so that all mistakes are found.
        let tool_id = self.tool_id(folder);
        let version = self.version();
        let category = self.word("category");
        let description = self.text("description", DESCRIPTION_CHARS_MAX);
        let parameters = self.parameters();
        let side_effects = self.word("sideEffects");
        let idempotent = self.flag("idempotent");
        let requires_confirmation = self.flag("requiresConfirmation");
        let allowed_modes = self.modes();
        let latency_budget_ms = self.latency_budget();
        let summary = self.summary();
        let documentation = self.documentation();
        self.retrieval(category, side_effects, idempotent);
        let others = self.others();
        Some(Manifest {
            tool_id: tool_id?,
            version: version?,
            category: category?,
            description: description?,
            parameters: parameters?,
            side_effects: side_effects?,
            idempotent: idempotent?,
            requires_confirmation: requires_confirmation?,
            allowed_modes: allowed_modes?,
            latency_budget_ms: latency_budget_ms?,
            summary: summary?,
            documentation,
            others,
        })
    }

    fn mistake(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        if self.mistakes.len() < MISTAKES_MAX {
            self.mistakes.push(Mistake { path: path.into(), reason: reason.into() });
        }
    }

    fn member(&mut self, name: &str) -> Option<&'a Value> {
        let found = self.members.get(name);
        if found.is_none() {
            self.mistake(name, "is missing");
        }
        found
    }

    fn text(&mut self, name: &str, chars_max: usize) -> Option<String> {
        let Some(text) = self.member(name)?.as_str() else {
            self.mistake(name, "has to be a text");
            return None;
        };
        if text.trim().is_empty() || text.chars().count() > chars_max {
            self.mistake(name, format!("has to have 1 to {chars_max} characters"));
            return None;
        }
        Some(text.to_owned())
    }

    fn flag(&mut self, name: &str) -> Option<bool> {
        let flag = self.member(name)?.as_bool();
        if flag.is_none() {
            self.mistake(name, "has to be true or false");
        }
        flag
    }

    fn word<W: Word>(&mut self, name: &str) -> Option<W> {
        let value = self.member(name)?;
        let found = one_of(value);
        if found.is_none() {
            self.mistake(name, format!("has to be one of {}", words::<W>()));
        }
        found
    }

    fn tool_id(&mut self, folder: Option<&str>) -> Option<String> {
        let id = self.text("toolId", TOOL_ID_CHARS_MAX)?;
        let plain = id.starts_with(|first: char| first.is_ascii_lowercase())
            && id.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
        if !plain {
            self.mistake("toolId", "has to be a lower-case letter and then a-z, 0-9 and _");
        }
        let expected = folder.map(|folder| folder.replace('-', "_"));
        if let Some(expected) = expected.filter(|expected| *expected != id) {
            self.mistake("toolId", format!("has to be \"{expected}\", after its folder"));
        }
        Some(id)
    }

    fn version(&mut self) -> Option<String> {
        let version = self.text("version", VERSION_CHARS_MAX)?;
        if !version.chars().all(|letter| letter.is_ascii_graphic()) {
            self.mistake("version", "has to be printable and without spaces, as 1.0.0");
        }
        Some(version)
    }

    fn parameters(&mut self) -> Option<Value> {
        let value = self.member("parameters")?;
        let Some(schema) = value.as_object() else {
            self.mistake("parameters", "has to be a JSON Schema object");
            return None;
        };
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            self.mistake("parameters.type", "has to be \"object\"");
        }
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            self.mistake("parameters.additionalProperties", "has to be false");
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !properties.is_some_and(|properties| properties.contains_key(name)) {
                self.mistake("parameters.required", format!("\"{name}\" is no property, so no call could be right"));
            }
        }
        if let Err(reason) = strict_validator(value) {
            self.mistake("parameters", format!("is no usable JSON Schema: {reason}"));
        }
        Some(value.clone())
    }

    fn modes(&mut self) -> Option<Vec<Mode>> {
        let listed = self.member("allowedModes")?.as_array().filter(|modes| !modes.is_empty());
        let Some(listed) = listed else {
            self.mistake("allowedModes", format!("has to be a list with at least one of {}", words::<Mode>()));
            return None;
        };
        let mut modes = Vec::new();
        for (index, value) in listed.iter().enumerate() {
            let path = format!("allowedModes[{index}]");
            match one_of::<Mode>(value) {
                None => self.mistake(path, format!("has to be one of {}", words::<Mode>())),
                Some(mode) if modes.contains(&mode) => self.mistake(path, "is there twice"),
                Some(mode) => modes.push(mode),
            }
        }
        Some(modes)
    }

    fn latency_budget(&mut self) -> Option<u64> {
        let budget = self.member("latencyBudgetMs")?.as_u64().filter(|ms| (1..=LATENCY_BUDGET_MS_MAX).contains(ms));
        if budget.is_none() {
            self.mistake("latencyBudgetMs", format!("has to be a whole number from 1 to {LATENCY_BUDGET_MS_MAX}"));
        }
        budget
    }

    fn summary(&mut self) -> Option<String> {
        let summary = self.text("summary", SUMMARY_CHARS_MAX)?;
        if summary.contains("\n\n") {
            self.mistake("summary", "has to be one paragraph: blocks in a prompt are parted by blank lines");
        }
        Some(summary)
    }

    fn documentation(&mut self) -> Option<String> {
        let value = self.members.get("documentation")?;
        let text = value.as_str();
        if text.is_none() {
            self.mistake("documentation", "has to be a text");
        }
        text.map(str::to_owned)
    }

    /// Looking something up changes nothing and may be done again.
    fn retrieval(&mut self, category: Option<ToolKind>, effects: Option<SideEffects>, idempotent: Option<bool>) {
        if category != Some(ToolKind::Retrieval) {
            return;
        }
        if effects == Some(SideEffects::Writes) {
            self.mistake("sideEffects", "a retrieval tool does not write");
        }
        if idempotent == Some(false) {
            self.mistake("idempotent", "a retrieval tool is idempotent");
        }
    }

    fn others(&mut self) -> Map<String, Value> {
        let mut others = self.members.clone();
        others.retain(|name, _| !MEMBERS.contains(&name.as_str()));
        for name in others.keys() {
            let missing = MEMBERS.iter().filter(|known| !self.members.contains_key(**known));
            let like = |known: &&str| strsim::jaro_winkler(known, name) >= LIKENESS_MIN;
            if let Some(known) = missing.copied().find(like) {
                self.mistake(name, format!("is unknown; did you mean \"{known}\"?"));
            }
        }
        others
    }
}

fn one_of<W: Word>(value: &Value) -> Option<W> {
    let word = value.as_str()?;
    W::ALL.iter().copied().find(|known| known.word() == word)
}

fn words<W: Word>() -> String {
    W::ALL.iter().map(|known| known.word()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
