//! YAML text → a tree in which every value knows its line.
//!
//! The tree is composed from the parser's events rather than through serde: only so are lines,
//! quotes and repeated keys still known when a value is judged.

use super::{
    interpolate::{Env, Flaw, interpolate, typed},
    problem::{Path, Report, Step},
};
use serde_json::Value;
use serde_yaml::granit_parser::{self, Event, Parser, ScalarStyle, StrInput, Tag};
use std::{borrow::Cow, collections::HashMap};

/// Nodes of a whole file, aliases expanded. A configuration of a thousand contexts has some
/// 30,000; an alias bomb has billions.
const NODES_MAX: usize = 200_000;
/// Levels of nesting. The deepest key of the schema lies at eight.
const DEPTH_MAX: usize = 40;

#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Of its key if it has one, since that is where an operator looks.
    pub line: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Scalar {
        value: Value,
        /// The text of it is a variable's value and must not be shown.
        from_env: bool,
        /// What `value` was read from, if it is no text itself.
        text: Option<String>,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Its mistake is reported; nothing more is to be said about it.
    Broken,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub key: String,
    pub node: Node,
}

impl Node {
    pub fn child(&self, step: &Step) -> Option<&Self> {
        match (step, &self.kind) {
            (Step::Key(key), Kind::Map(entries)) => {
                entries.iter().find(|entry| entry.key == *key).map(|entry| &entry.node)
            }
            (Step::Index(index), Kind::List(items)) => items.get(*index),
            _ => None,
        }
    }

    pub fn at(&self, path: &Path) -> Option<&Self> {
        path.steps().iter().try_fold(self, |node, step| node.child(step))
    }

    pub fn at_mut(&mut self, path: &Path) -> Option<&mut Self> {
        path.steps().iter().try_fold(self, |node, step| match (step, &mut node.kind) {
            (Step::Key(key), Kind::Map(entries)) => {
                entries.iter_mut().find(|entry| entry.key == *key).map(|entry| &mut entry.node)
            }
            (Step::Index(index), Kind::List(items)) => items.get_mut(*index),
            _ => None,
        })
    }

    /// The line of `path`, or of as much of it as there is.
    pub fn line_of(&self, path: &Path) -> usize {
        let mut node = self;
        for step in path.steps() {
            match node.child(step) {
                Some(child) => node = child,
                None => break,
            }
        }
        node.line
    }

    /// Whether this or anything in it is [`Kind::Broken`].
    pub fn has_broken(&self) -> bool {
        match &self.kind {
            Kind::Broken => true,
            Kind::Scalar { .. } => false,
            Kind::List(items) => items.iter().any(Self::has_broken),
            Kind::Map(entries) => entries.iter().any(|entry| entry.node.has_broken()),
        }
    }

    /// As JSON. Broken list items become `null`, so that the others keep their numbers; broken
    /// keys do so only `with_broken`, else they are left out.
    pub fn json(&self, with_broken: bool) -> Value {
        match &self.kind {
            Kind::Broken => Value::Null,
            Kind::Scalar { value, .. } => value.clone(),
            Kind::List(items) => items.iter().map(|item| item.json(with_broken)).collect(),
            Kind::Map(entries) => {
                let kept = entries.iter().filter(|entry| with_broken || !matches!(entry.node.kind, Kind::Broken));
                Value::Object(kept.map(|entry| (entry.key.clone(), entry.node.json(with_broken))).collect())
            }
        }
    }

    /// The values of variables in this and below it.
    pub fn env_texts(&self) -> Vec<&str> {
        match &self.kind {
            Kind::Scalar { value, text, from_env: true } => text.as_deref().or(value.as_str()).into_iter().collect(),
            Kind::Scalar { .. } | Kind::Broken => Vec::new(),
            Kind::List(items) => items.iter().flat_map(Self::env_texts).collect(),
            Kind::Map(entries) => entries.iter().flat_map(|entry| entry.node.env_texts()).collect(),
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { value: Value::Null, .. })
    }

    fn size_and_height(&self) -> (usize, usize) {
        let children: Box<dyn Iterator<Item = &Self>> = match &self.kind {
            Kind::List(items) => Box::new(items.iter()),
            Kind::Map(entries) => Box::new(entries.iter().map(|entry| &entry.node)),
            _ => return (1, 0),
        };
        children.map(Self::size_and_height).fold((1, 1), |(size, height), (s, h)| (size + s, height.max(h + 1)))
    }
}

/// `None`: the text is no YAML, and the report says where.
pub(super) fn parse(text: &str, env: Env, report: &mut Report) -> Option<Node> {
    let options = granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let events = Parser::new_from_str_with_options(text, options);
    let mut composer = Composer { text, events, env, report, anchors: HashMap::new(), nodes: 0 };
    let mut root = composer.document().ok()?;
    name_nulls(&mut root);
    Some(root)
}

/// Where a key without a value is a name an operator chose, or a provider's kind, it is an entry without keys.
fn name_nulls(root: &mut Node) {
    for section in ["providers", "destinations", "contexts"] {
        let Some(named) = root.at_mut(&Path::default().key(section)) else { continue };
        // Where it stands is known, which a section that is not written has not.
        null_to_map(named);
        let Kind::Map(entries) = &mut named.kind else { continue };
        for Entry { node, .. } in entries {
            null_to_map(node);
            if let (Kind::Map(kinds), "providers") = (&mut node.kind, section) {
                kinds.iter_mut().for_each(|kind| null_to_map(&mut kind.node));
            }
        }
    }
}

fn null_to_map(node: &mut Node) {
    if node.is_null() {
        node.kind = Kind::Map(Vec::new());
    }
}

/// A key without a value counts as not written: everywhere but in the options of a provider, where `null` may have a
/// meaning.
pub(super) fn drop_nulls(node: &mut Node, path: &Path) {
    if path.steps().len() == 3 && path.starts_with(&Path::default().key("providers")) {
        return;
    }
    match &mut node.kind {
        Kind::Map(entries) => {
            entries.retain(|entry| !entry.node.is_null());
            entries.iter_mut().for_each(|entry| drop_nulls(&mut entry.node, &path.key(&entry.key)));
        }
        Kind::List(items) => {
            items.iter_mut().enumerate().for_each(|(index, item)| drop_nulls(item, &path.index(index)));
        }
        Kind::Scalar { .. } | Kind::Broken => {}
    }
}

/// The rest of the file cannot be read; why is reported.
struct Halted;

struct Composer<'a, 'r> {
    text: &'a str,
    events: Parser<'a, StrInput<'a>>,
    env: Env<'r>,
    report: &'r mut Report,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'a> Composer<'a, '_> {
    fn document(&mut self) -> Result<Node, Halted> {
        let root = Path::default();
        let mut document = None;
        loop {
            let (event, line) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                _ if document.is_some() => {
                    self.report.add(line, &root, "a second document begins here; only one is read", None);
                    return Err(Halted);
                }
                _ => document = Some(self.node(event, line, &root)?),
            }
        }
        let empty = Node { line: 1, kind: Kind::Map(Vec::new()) };
        Ok(document.filter(|node| !node.is_null()).unwrap_or(empty))
    }

    fn next(&mut self) -> Result<(Event<'a>, usize), Halted> {
        match self.events.next_event() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => {
                let line = error.marker().line().max(1);
                // A tab is sometimes told with the line before it.
                let lines = || self.text.lines().skip(line - 1).take(2);
                let hint = lines().find_map(syntax_hint).or_else(|| rule_hint(&error.info(), lines()));
                self.report.add(line, &Path::default(), format!("this is not YAML: {}", error.info()), hint);
                Err(Halted)
            }
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    fn node(&mut self, event: Event<'a>, line: usize, path: &Path) -> Result<Node, Halted> {
        self.count(1, path.steps().len(), line)?;
        let anchor = event.anchor_id();
        let kind = match event {
            Event::Scalar(text, style, _, tag) => self.scalar(&text, style, tag, line, path),
            Event::SequenceStart(_, _, tag) => {
                self.judge_tag(tag.as_deref(), &["seq"], line, path);
                self.list(path)?
            }
            Event::MappingStart(_, _, tag) => {
                self.judge_tag(tag.as_deref(), &["map"], line, path);
                self.map(path)?
            }
            Event::Alias(id) => self.alias(id, line, path)?,
            Event::UnresolvedAlias(name) => {
                self.report.add(line, path, format!("*{name} refers to nothing: there is no &{name} above"), None);
                Kind::Broken
            }
            _ => Kind::Broken,
        };
        let node = Node { line, kind };
        if let Some(id) = anchor {
            self.anchors.insert(id, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, path: &Path) -> Result<Kind, Halted> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd | Event::StreamEnd, _) => return Ok(Kind::List(items)),
                (event, line) => items.push(self.node(event, line, &path.index(items.len()))?),
            }
        }
    }

    fn map(&mut self, path: &Path) -> Result<Kind, Halted> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        loop {
            let (key, line) = match self.next()? {
                (Event::MappingEnd | Event::StreamEnd, _) => return Ok(Kind::Map(entries)),
                (Event::Scalar(text, _, 0, None), line) => (text.into_owned(), line),
                (event, line) => {
                    self.report.add(line, path, "a key has to be plain text", None);
                    self.node(event, line, path)?;
                    (String::new(), 0)
                }
            };
            let below = path.key(&key);
            let (event, value_line) = self.next()?;
            let mut node = self.node(event, value_line, &below)?;
            if line == 0 {
                continue;
            }
            node.line = line;
            if let Some(first) = lines.get(&key) {
                self.report.add(line, &below, format!("the key is already on line {first}"), None);
                continue;
            }
            lines.insert(key.clone(), line);
            entries.push(Entry { key, node });
        }
    }

    fn alias(&mut self, id: usize, line: usize, path: &Path) -> Result<Kind, Halted> {
        let Some(target) = self.anchors.get(&id) else {
            self.report.add(line, path, "the value refers to itself", None);
            return Ok(Kind::Broken);
        };
        let (size, height) = target.size_and_height();
        let kind = target.kind.clone();
        self.count(size, path.steps().len() + height, line)?;
        Ok(kind)
    }

    fn count(&mut self, nodes: usize, depth: usize, line: usize) -> Result<(), Halted> {
        self.nodes += nodes;
        let message = if self.nodes > NODES_MAX {
            format!("more than {NODES_MAX} values, aliases counted each time")
        } else if depth > DEPTH_MAX {
            format!("nested more than {DEPTH_MAX} levels deep")
        } else {
            return Ok(());
        };
        self.report.add(line, &Path::default(), message, None);
        Err(Halted)
    }

    fn scalar(
        &mut self,
        written: &str,
        style: ScalarStyle,
        tag: Option<Cow<'_, Tag>>,
        line: usize,
        path: &Path,
    ) -> Kind {
        self.judge_tag(tag.as_deref(), &["str", "int", "float", "bool", "null"], line, path);
        let filled = match interpolate(written, self.env) {
            Ok(filled) => filled,
            Err(flaws) => {
                flaws.into_iter().for_each(|flaw| self.report_flaw(flaw, line, path));
                return Kind::Broken;
            }
        };
        let tagged_text = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
        let value = match typed(&filled.text) {
            _ if style != ScalarStyle::Plain || tagged_text => Value::String(filled.text.clone()),
            // An empty variable is empty text: its key was written.
            Value::Null if filled.from_env => Value::String(filled.text.clone()),
            value => value,
        };
        let text = (!value.is_string()).then_some(filled.text);
        Kind::Scalar { value, from_env: filled.from_env, text }
    }

    fn report_flaw(&mut self, flaw: Flaw, line: usize, path: &Path) {
        let (message, hint) = match flaw {
            Flaw::Unset(name) => (
                format!("the environment variable {name} is not set"),
                if is_secret(path) { "set it".into() } else { format!("set it, or write a default: ${{{name}:-…}}") },
            ),
            Flaw::Malformed => (
                "\"${\" begins a variable, but no name and \"}\" follow".into(),
                "write ${NAME} or ${NAME:-default}; $${ stands for a literal ${".into(),
            ),
        };
        self.report.add(line, path, message, Some(hint));
    }

    fn judge_tag(&mut self, tag: Option<&Tag>, allowed: &[&str], line: usize, path: &Path) {
        if let Some(tag) = tag.filter(|tag| !allowed.iter().any(|name| tag.is_yaml_core_schema_tag(name))) {
            self.report.add(line, path, format!("the tag {} has no meaning here", tag.original()), None);
        }
    }
}

/// A default for it would be the secret itself, in the file.
fn is_secret(path: &Path) -> bool {
    let Some(Step::Key(key)) = path.steps().last() else { return false };
    ["password", "key", "secret", "token"].iter().any(|word| key.ends_with(word))
}

/// Hint at what the parser's words mean to somebody who writes a configuration.
fn rule_hint<'a>(info: &str, mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let hint = if info.contains("mapping values are not allowed") && lines.any(|line| line.matches(": ").count() > 1) {
        "a text with a colon and a space in it needs quotes: key: \"text: more text\""
    } else if info.contains("simple key") {
        "a colon and a space stand between a key and its value: key: value"
    } else {
        return None;
    };
    Some(hint.into())
}

/// Why a line that looks right may not be YAML.
fn syntax_hint(line: &str) -> Option<String> {
    let hint = if line.starts_with([' ', '\t']) && line.trim_start_matches(' ').starts_with('\t') {
        "indent with spaces, not with tabs"
    } else if line.contains("${") && line.contains(['{', '[']) {
        "inside { } and [ ] a variable needs quotes: \"${NAME}\""
    } else {
        return None;
    };
    Some(hint.into())
}
