//! What is wrong with a configuration, in an operator's words.

use schemars::JsonSchema;
use serde::Serialize;
use std::{fmt, sync::Arc};

/// One mistake: where it is, what it is and, if it can be told, how to mend it.
///
/// Values that came from environment variables never appear in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// The file as the operator named it.
    pub file: Arc<str>,
    /// Counted from 1; 0 where the file as a whole is meant (it cannot be read, say).
    pub line: usize,
    /// `contexts.sales.tools[2]`; empty where the file as a whole is meant.
    pub path: String,
    pub message: String,
    pub hint: Option<String>,
}

/// One line of plain text, whatever the file holds: names that it quotes may hold anything.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_plain(f, &self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write_plain(f, &self.path)?;
            f.write_str(": ")?;
        }
        write_plain(f, &self.message)?;
        if let Some(hint) = &self.hint {
            f.write_str("; ")?;
            write_plain(f, hint)?;
        }
        Ok(())
    }
}

/// Control characters (a terminal's escape codes, line breaks) and the marks that turn the direction
/// of text are shown as what they are, `\u{1b}`, and do nothing.
fn write_plain(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let turns = |letter| matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().try_for_each(|letter| match letter {
        _ if letter.is_control() || turns(letter) => write!(f, "{}", letter.escape_unicode()),
        _ => fmt::Write::write_char(f, letter),
    })
}

/// Every mistake of one file, in the order of its lines; never empty. Displayed one per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// How many; at least one.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A place in the file, from its root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

impl Path {
    pub fn key(&self, key: &str) -> Self {
        self.with(Step::Key(key.to_owned()))
    }

    pub fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// Appends what a provider's check wrote: `turn.silence`, `lines[2].say`.
    pub fn join(&self, written: &str) -> Self {
        let mut path = self.clone();
        for part in written.split('.').filter(|part| !part.is_empty()) {
            let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
            if !key.is_empty() {
                path.0.push(Step::Key(key.to_owned()));
            }
            let numbers = indices.split(['[', ']']).filter_map(|number| number.parse().ok());
            path.0.extend(numbers.map(Step::Index));
        }
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    if position > 0 {
                        f.write_str(".")?;
                    }
                    let bare = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
                    if bare { f.write_str(key)? } else { write!(f, "{key:?}")? }
                }
            }
        }
        Ok(())
    }
}

/// The problems of one file while they are being found.
pub(super) struct Report {
    file: Arc<str>,
    found: Vec<(Path, Problem)>,
    /// Places of which all is said, by a problem elsewhere.
    settled: Vec<Path>,
}

impl Report {
    pub fn new(file: &str) -> Self {
        Self { file: file.into(), found: Vec::new(), settled: Vec::new() }
    }

    pub fn add(&mut self, line: usize, path: &Path, message: impl Into<String>, hint: Option<String>) {
        let problem = Problem { file: self.file.clone(), line, path: path.to_string(), message: message.into(), hint };
        // What holds for all contexts is read for each of them.
        if !self.found.iter().any(|(_, known)| *known == problem) {
            self.found.push((path.clone(), problem));
        }
    }

    /// Nothing more is to be said about this place: the key is not missing but misspelt, say.
    pub fn settle(&mut self, path: &Path) {
        self.settled.push(path.clone());
    }

    /// Whether something was said about this place or about one below it.
    pub fn mentions(&self, path: &Path) -> bool {
        self.places().any(|place| place.starts_with(path))
    }

    /// Whether something was said below `section` of which a problem at `path` may be a mere
    /// consequence.
    pub fn explains(&self, section: &Path, path: &Path) -> bool {
        let mut below = self.places().filter(|place| *place != section && place.starts_with(section));
        below.any(|place| path == section || place.starts_with(path) || path.starts_with(place))
    }

    fn places(&self) -> impl Iterator<Item = &Path> {
        self.found.iter().map(|(path, _)| path).chain(&self.settled)
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn into_problems(self) -> Problems {
        let mut problems: Vec<_> = self.found.into_iter().map(|(_, problem)| problem).collect();
        problems.sort_by_key(|problem| problem.line);
        Problems(problems)
    }
}

/// The name that `name` is a slip of.
pub(super) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // A word of two letters, as the tag of a language is, is as near to each other one: it is a slip of none.
    let allowed = if name.chars().count() > 2 { (name.chars().count() / 3).max(1) } else { 0 };
    let distances = known.iter().map(|candidate| (strsim::damerau_levenshtein(name, candidate), *candidate));
    let near = distances.filter(|(distance, _)| *distance <= allowed).min().map(|(_, candidate)| candidate);
    // `user` for `username`.
    near.or_else(|| known.iter().copied().filter(|known| name.len() > 2 && known.starts_with(name)).min())
}

/// The name that is meant, or else the names that there are.
pub(super) fn suggest(name: &str, known: &[&str]) -> Option<String> {
    /// A longer list is no help in one line.
    const LISTED_MAX: usize = 24;

    match nearest(name, known) {
        Some(candidate) => Some(format!("did you mean \"{candidate}\"?")),
        None if known.is_empty() => Some("there are none".into()),
        None if known.len() > LISTED_MAX => None,
        None => Some(format!("there are: {}", known.join(", "))),
    }
}

/// The same for a tool. One that nobody knows may come from elsewhere.
pub(super) fn suggest_tool(name: &str, known: &[&str]) -> String {
    const ELSEWHERE: &str = "more come from files in tenants.NAME.tools, and from mcp.servers as mcp_SERVER_TOOL";

    match (nearest(name, known), suggest(name, known)) {
        (Some(_), Some(hint)) => hint,
        (_, hint) => hint.into_iter().chain([ELSEWHERE.to_owned()]).collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_an_operator_would_say_it() {
        let path = Path::default().key("contexts").key("sales").key("tools").index(2);
        assert_eq!(path.to_string(), "contexts.sales.tools[2]");
        assert_eq!(Path::default().key("contexts").key("a b").to_string(), "contexts.\"a b\"");
        assert_eq!(Path::default().join("lines[2].say[0][1]").to_string(), "lines[2].say[0][1]");
    }

    #[test]
    fn what_a_file_quotes_cannot_steer_a_terminal() {
        let mut report = Report::new("a\u{1b}]0;b.yaml");
        let path = Path::default().key("contexts").key("sa\u{1b}[31mles");
        report.add(3, &path, "unknown key \u{9b}2J\r\n\u{202e}", Some("did you mean \u{7}?".into()));
        assert_eq!(
            report.into_problems().to_string(),
            "a\\u{1b}]0;b.yaml:3: contexts.\"sa\\u{1b}[31mles\": unknown key \\u{9b}2J\\u{d}\\u{a}\\u{202e}; did you mean \\u{7}?"
        );
    }

    #[test]
    fn a_suggestion_is_the_nearest_name_or_the_whole_list() {
        assert_eq!(suggest("trasfer", &["hangup_call", "transfer"]).as_deref(), Some("did you mean \"transfer\"?"));
        assert_eq!(suggest("lunch", &["hangup_call", "transfer"]).as_deref(), Some("there are: hangup_call, transfer"));
        assert_eq!(suggest("hangup", &["hangup_call", "transfer"]).as_deref(), Some("did you mean \"hangup_call\"?"));
        assert_eq!(suggest("lunch", &[]).as_deref(), Some("there are none"));
    }
}
