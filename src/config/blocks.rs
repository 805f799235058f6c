//! One entry of a file's text, changed or taken out: everything else stays as it is, byte for byte, comments included.

use serde_json::{Map, Value};
use serde_yaml::granit_parser::{self, Event, Parser, ScalarStyle, Span, StrInput, StructureStyle};

/// As for a configuration: its deepest key lies at eight.
const DEPTH_MAX: usize = 40;
/// An indent of ours.
const INDENT: usize = 2;

/// Why an entry cannot be changed in this text by a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unplaceable {
    #[error("the configuration is no YAML; mend it first")]
    NoYaml,
    #[error(
        "the section {0} is written in braces or as an alias; such a one is changed in the text of the configuration"
    )]
    Flow(String),
    #[error("there is no {0}")]
    Missing(String),
    #[error(
        "the text is written in a way that cannot be changed in one place alone; change it in the text of the configuration"
    )]
    Unclear,
}

/// An entry of a mapping: where its key is and where its value ends.
struct Entry {
    key: String,
    /// Counted from 0, as are the columns.
    line: usize,
    column: usize,
    last: usize,
    shape: Shape,
}

enum Shape {
    Nothing,
    Block(Vec<Entry>),
    /// In braces, a list, a text.
    Other,
}

/// The value of an entry, with variables not yet put in.
///
/// # Errors
/// When the text is no YAML.
pub fn value(text: &str, path: &[&str]) -> Result<Option<Value>, Unplaceable> {
    let mut value = parsed(text)?;
    for key in path {
        value = value.get_mut(*key).map(Value::take).unwrap_or_default();
    }
    Ok(Some(value).filter(|value| !value.is_null()))
}

/// The text with this value at `path`, in place of what is there, or after what is there.
///
/// # Errors
/// When that cannot be done without touching anything else.
pub fn set(text: &str, path: &[&str], value: &Value) -> Result<String, Unplaceable> {
    let mut lines = Lines::of(text);
    let mut entries = &outline(text)?;
    for (depth, key) in path.iter().enumerate() {
        let rest = &path[depth..];
        let Some(entry) = entries.iter().find(|entry| entry.key == *key) else {
            let (column, at) = entries.last().map_or((0, lines.count()), |last| (last.column, lines.end_of(last) + 1));
            let mut block = block(rest, value, column);
            if depth == 0 && at > 0 {
                block.insert(0, String::new());
            }
            lines.replace(at, at, block);
            break;
        };
        if depth + 1 == path.len() {
            lines.replace(entry.line, lines.end_of(entry) + 1, block(rest, value, entry.column));
            break;
        }
        match &entry.shape {
            Shape::Block(more) => entries = more,
            Shape::Nothing => {
                lines.replace(entry.line + 1, entry.line + 1, block(&rest[1..], value, entry.column + INDENT));
                break;
            }
            Shape::Other => return Err(Unplaceable::Flow(path[..=depth].join("."))),
        }
    }
    sure(lines.joined(), with(parsed(text)?, path, value))
}

/// The text without this entry.
///
/// # Errors
/// When that cannot be done without touching anything else.
pub fn remove(text: &str, path: &[&str]) -> Result<String, Unplaceable> {
    let mut lines = Lines::of(text);
    let mut entries = &outline(text)?;
    for (depth, key) in path.iter().enumerate() {
        let found = entries.iter().find(|entry| entry.key == *key);
        let entry = found.ok_or_else(|| Unplaceable::Missing(path.join(".")))?;
        if depth + 1 == path.len() {
            lines.replace(entry.line, lines.end_of(entry) + 1, Vec::new());
            break;
        }
        entries = match &entry.shape {
            Shape::Block(more) => more,
            Shape::Nothing => return Err(Unplaceable::Missing(path.join("."))),
            Shape::Other => return Err(Unplaceable::Flow(path[..=depth].join("."))),
        };
    }
    sure(lines.joined(), without(parsed(text)?, path))
}

fn parsed(text: &str) -> Result<Value, Unplaceable> {
    serde_yaml::from_str(text).map_err(|_| Unplaceable::NoYaml)
}

/// What was written reads as what was meant, or it is not written.
fn sure(text: String, meant: Value) -> Result<String, Unplaceable> {
    let read = serde_yaml::from_str::<Value>(&text).ok();
    if read == Some(meant) { Ok(text) } else { Err(Unplaceable::Unclear) }
}

fn with(mut root: Value, path: &[&str], value: &Value) -> Value {
    let Some((key, rest)) = path.split_first() else { return value.clone() };
    if !root.is_object() {
        root = Value::Object(Map::new());
    }
    let inner = root.get_mut(*key).map(Value::take).unwrap_or_default();
    root[*key] = with(inner, rest, value);
    root
}

/// A section of which nothing is left reads as none.
fn without(mut root: Value, path: &[&str]) -> Value {
    if let (Some((key, rest)), Some(map)) = (path.split_first(), root.as_object_mut()) {
        if rest.is_empty() {
            map.remove(*key);
        } else if let Some(inner) = map.get_mut(*key) {
            *inner = without(inner.take(), rest);
        }
        if map.is_empty() {
            return Value::Null;
        }
    }
    root
}

/// The text as lines, each with its ending.
struct Lines<'a> {
    lines: Vec<std::borrow::Cow<'a, str>>,
    ending: &'static str,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Self { lines: text.split_inclusive('\n').map(Into::into).collect(), ending }
    }

    fn count(&self) -> usize {
        self.lines.len()
    }

    /// The last line of an entry, with the comments that are written inside of it.
    fn end_of(&self, entry: &Entry) -> usize {
        let is_blank = |line: &str| line.trim().is_empty();
        let mut end = entry.last.min(self.lines.len().saturating_sub(1));
        while end > entry.line && is_blank(&self.lines[end]) {
            end -= 1;
        }
        let inside =
            |line: &str| line.trim_start().starts_with('#') && line.len() - line.trim_start().len() > entry.column;
        let more = self.lines.iter().enumerate().skip(end + 1).take_while(|(_, line)| is_blank(line) || inside(line));
        more.filter(|(_, line)| !is_blank(line)).map(|(at, _)| at).last().unwrap_or(end)
    }

    fn replace(&mut self, from: usize, to: usize, with: Vec<String>) {
        // A last line without its ending gets one.
        if let Some(before) = from.checked_sub(1).filter(|_| !with.is_empty()).and_then(|at| self.lines.get_mut(at))
            && !before.ends_with('\n')
        {
            before.to_mut().push_str(self.ending);
        }
        let (from, to) = (from.min(self.lines.len()), to.min(self.lines.len()));
        let ending = self.ending;
        self.lines.splice(from..to, with.into_iter().map(|line| (line + ending).into()));
    }

    fn joined(&self) -> String {
        self.lines.concat()
    }
}

/// The entries of the text, as far as mappings are written in lines.
fn outline(text: &str) -> Result<Vec<Entry>, Unplaceable> {
    let options = granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut reader = Reader { events: Parser::new_from_str_with_options(text, options) };
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(Vec::new()),
            (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
            (event, span) => match reader.value(event, span, 0)?.0 {
                Shape::Block(entries) => return Ok(entries),
                Shape::Nothing => return Ok(Vec::new()),
                Shape::Other => return Err(Unplaceable::Flow("the whole".into())),
            },
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Unplaceable> {
        match self.events.next_event() {
            Some(Ok(found)) => Ok(found),
            Some(Err(_)) => Err(Unplaceable::NoYaml),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The shape of a value, and the last line with something of it; `above` is its key's.
    fn value(&mut self, event: Event<'a>, span: Span, above: usize) -> Result<(Shape, usize), Unplaceable> {
        let end = last_line(&span).max(above);
        match event {
            // Nothing is written there.
            Event::Scalar(_, ScalarStyle::Plain, ..) if span.start.index() == span.end.index() => {
                Ok((Shape::Nothing, above))
            }
            Event::SequenceStart(style, ..) => {
                let mut last = end;
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, span) => return Ok((Shape::Other, closed(style, last, &span))),
                        (Event::StreamEnd, _) => return Err(Unplaceable::NoYaml),
                        (event, span) => last = self.value(event, span, last)?.1.max(last),
                    }
                }
            }
            Event::MappingStart(style, ..) => self.mapping(style, above),
            _ => Ok((Shape::Other, end)),
        }
    }

    fn mapping(&mut self, style: StructureStyle, above: usize) -> Result<(Shape, usize), Unplaceable> {
        let (mut entries, mut last) = (Vec::new(), above);
        loop {
            let (key, at) = match self.next()? {
                (Event::MappingEnd, span) => {
                    let shape = if style == StructureStyle::Block { Shape::Block(entries) } else { Shape::Other };
                    return Ok((shape, closed(style, last, &span)));
                }
                (Event::StreamEnd, _) => return Err(Unplaceable::NoYaml),
                (Event::Scalar(text, ..), span) => (text.into_owned(), span),
                (event, span) => {
                    last = self.value(event, span, last)?.1;
                    (String::new(), span)
                }
            };
            let line = at.start.line().saturating_sub(1);
            let (event, span) = self.next()?;
            let (shape, end) = self.value(event, span, line)?;
            last = end.max(last);
            entries.push(Entry { key, line, column: at.start.col(), last: end, shape });
        }
    }
}

/// Where a value ends that its own end closes; a block ends with what is in it.
fn closed(style: StructureStyle, last: usize, span: &Span) -> usize {
    if style == StructureStyle::Flow { last_line(span).max(last) } else { last }
}

fn last_line(span: &Span) -> usize {
    let line = span.end.line().saturating_sub(1);
    // A text in lines of its own ends where the next line begins.
    if span.end.col() == 0 && span.end.line() > span.start.line() { line.saturating_sub(1) } else { line }
}

/// A value under the rest of its path, in lines.
fn block(path: &[&str], value: &Value, column: usize) -> Vec<String> {
    let Some((key, rest)) = path.split_first() else { return Vec::new() };
    if rest.is_empty() {
        let mut lines = Vec::new();
        write(&mut lines, &" ".repeat(column), &scalar(&Value::String((*key).into())), value, column);
        return lines;
    }
    let mut lines = vec![format!("{}{}:", " ".repeat(column), scalar(&Value::String((*key).into())))];
    lines.extend(block(rest, value, column + INDENT));
    lines
}

/// `start` stands before the key: blanks, or a dash.
fn write(lines: &mut Vec<String>, start: &str, key: &str, value: &Value, column: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            lines.push(format!("{start}{key}:"));
            let inner = column + INDENT;
            for (key, value) in map {
                write(lines, &" ".repeat(inner), &scalar(&Value::String(key.clone())), value, inner);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            lines.push(format!("{start}{key}:"));
            items.iter().for_each(|item| write_item(lines, item, column + INDENT));
        }
        value => lines.push(format!("{start}{key}: {}", scalar(value))),
    }
}

fn write_item(lines: &mut Vec<String>, item: &Value, column: usize) {
    let blanks = " ".repeat(column);
    match item.as_object().filter(|map| !map.is_empty()) {
        None => lines.push(format!("{blanks}- {}", scalar(item))),
        Some(map) => {
            for (index, (key, value)) in map.iter().enumerate() {
                let start = if index == 0 { format!("{blanks}- ") } else { format!("{blanks}  ") };
                write(lines, &start, &scalar(&Value::String(key.clone())), value, column + INDENT);
            }
        }
    }
}

/// In one line. JSON is YAML; words that are plainly words go without quotes.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_word(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(scalar).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

fn is_word(text: &str) -> bool {
    const OTHERS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan"];
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte))
        && !OTHERS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
#[path = "tests/blocks.rs"]
mod tests;
