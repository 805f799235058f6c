//! `extensions.conf`, read as Asterisk reads it, as far as the project's own dialplan and the tests use it.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Dialplan {
    contexts: BTreeMap<String, Context>,
    pub globals: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct Context {
    extensions: Vec<Extension>,
    includes: Vec<String>,
}

#[derive(Debug)]
struct Extension {
    /// As it is written; a pattern begins with `_`.
    name: String,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub struct Step {
    pub priority: u32,
    pub label: Option<String>,
    pub application: String,
    pub arguments: String,
}

/// Context, extension and priority.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    pub context: String,
    pub extension: String,
    pub priority: u32,
}

impl Place {
    pub fn of(context: &str, extension: &str, priority: u32) -> Self {
        Self { context: context.to_owned(), extension: extension.to_owned(), priority }
    }
}

impl Dialplan {
    /// The lab's own dialplan, with the project's examples and with what a test adds.
    pub fn of_the_lab(audiosocket: Option<&str>, extra: &str) -> Self {
        let root = crate::project();
        let text = std::fs::read_to_string(root.join("tests/lab/etc/extensions.conf")).expect("the lab's dialplan");
        let text = text
            .replace("@AUDIOSOCKET@", audiosocket.unwrap_or("127.0.0.1:9092"))
            .replace("@REPOSITORY@", &root.display().to_string());
        let mut dialplan = Self::default();
        dialplan.read(&text);
        dialplan.read(extra);
        dialplan
    }

    /// Adds what this text says. Files that it includes must exist, as with `#include`; `#tryinclude` is left out.
    pub fn read(&mut self, text: &str) {
        let mut section = String::new();
        // Where `same` belongs.
        let mut last: Option<(String, u32)> = None;
        for line in text.lines() {
            let line = without_comment(line).trim().to_owned();
            if let Some(path) = line.strip_prefix("#include ") {
                let path = path.trim().trim_matches('"');
                let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
                self.read(&text);
            } else if let Some(header) = line.strip_prefix('[') {
                section = header.split(']').next().unwrap_or_default().to_owned();
                last = None;
                if section != "general" && section != "globals" {
                    self.contexts.entry(section.clone()).or_default();
                }
            } else if let Some((key, value)) = line.split_once('=') {
                let (key, value) = (key.trim(), value.strip_prefix('>').unwrap_or(value).trim());
                match (&*section, key) {
                    ("general", _) => {}
                    ("globals", _) => drop(self.globals.insert(key.to_owned(), value.to_owned())),
                    (_, "include") => {
                        self.contexts.entry(section.clone()).or_default().includes.push(value.to_owned());
                    }
                    (_, "exten") => {
                        let (name, rest) = value.split_once(',').expect("exten => NAME,PRIORITY,APPLICATION");
                        let before = last.as_ref().filter(|(of, _)| of == name).map_or(0, |(_, priority)| *priority);
                        let priority = self.step(&section, name.trim(), rest, before);
                        last = Some((name.trim().to_owned(), priority));
                    }
                    (_, "same") => {
                        let (name, before) = last.clone().expect("same => behind an exten =>");
                        let priority = self.step(&section, &name, value, before);
                        last = Some((name, priority));
                    }
                    _ => panic!("extensions.conf: {line}"),
                }
            }
        }
    }

    fn step(&mut self, context: &str, name: &str, text: &str, before: u32) -> u32 {
        let (priority, application) = text.split_once(',').expect("PRIORITY,APPLICATION");
        let (priority, label) = match priority.trim().split_once('(') {
            Some((priority, label)) => (priority, Some(label.trim_end_matches(')').to_owned())),
            None => (priority.trim(), None),
        };
        let priority = if priority == "n" { before + 1 } else { priority.parse().expect("a number, or n") };
        let application = application.trim();
        let (application, arguments) = match application.split_once('(') {
            Some((name, rest)) => (name, rest.strip_suffix(')').unwrap_or(rest)),
            None => (application, ""),
        };
        let (application, arguments) = (application.to_owned(), arguments.to_owned());
        let context = self.contexts.entry(context.to_owned()).or_default();
        let place = context.extensions.iter().position(|extension| extension.name == name);
        let place = place.unwrap_or_else(|| {
            context.extensions.push(Extension { name: name.to_owned(), steps: Vec::new() });
            context.extensions.len() - 1
        });
        context.extensions[place].steps.push(Step { priority, label, application, arguments });
        priority
    }

    /// The steps of an extension: an exact one before patterns, the context's own before included ones.
    fn steps(&self, context: &str, extension: &str) -> Option<&[Step]> {
        let context = self.contexts.get(context)?;
        let exact = context.extensions.iter().find(|one| one.name == extension);
        let found = exact.or_else(|| context.extensions.iter().find(|one| fits(&one.name, extension)));
        match found {
            Some(found) => Some(&found.steps),
            None => context.includes.iter().find_map(|included| self.steps(included, extension)),
        }
    }

    pub fn find(&self, place: &Place) -> Option<&Step> {
        let steps = self.steps(&place.context, &place.extension)?;
        steps.iter().find(|step| step.priority == place.priority)
    }

    pub fn exists(&self, context: &str, extension: &str, priority: u32) -> bool {
        self.find(&Place::of(context, extension, priority)).is_some()
    }

    /// What `Goto()` names, seen from `here`: `context,extension,priority`, the last two, or the last alone; the priority may be a
    /// label.
    pub fn resolve(&self, here: &Place, target: &str) -> Option<Place> {
        let parts: Vec<&str> = target.split(',').map(str::trim).collect();
        let (context, extension, priority) = match parts[..] {
            [priority] => (&*here.context, &*here.extension, priority),
            [extension, priority] => (&*here.context, extension, priority),
            [context, extension, priority] => (context, extension, priority),
            _ => return None,
        };
        let priority = match priority.parse() {
            Ok(priority) => priority,
            Err(_) => {
                let mut steps = self.steps(context, extension)?.iter();
                steps.find(|step| step.label.as_deref() == Some(priority))?.priority
            }
        };
        Some(Place::of(context, extension, priority))
    }
}

/// Whether an extension fits a pattern. Dashes in a pattern are there for the eye.
pub fn fits(pattern: &str, extension: &str) -> bool {
    let Some(pattern) = pattern.strip_prefix('_') else { return false };
    let mut pattern = pattern.chars().filter(|c| *c != '-');
    let mut extension = extension.chars().filter(|c| *c != '-');
    loop {
        let (wanted, given) = match (pattern.next(), extension.next()) {
            (Some('.'), given) => return given.is_some(),
            (Some('!'), _) => return true,
            (Some(wanted), Some(given)) => (wanted, given),
            (None, None) => return true,
            _ => return false,
        };
        let is_one = match wanted {
            'X' | 'x' => given.is_ascii_digit(),
            'Z' | 'z' => ('1'..='9').contains(&given),
            'N' | 'n' => ('2'..='9').contains(&given),
            '[' => {
                let set: Vec<char> = pattern.by_ref().take_while(|c| *c != ']').collect();
                set.contains(&given)
            }
            literal => literal == given,
        };
        if !is_one {
            return false;
        }
    }
}

fn without_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let comment = (0..bytes.len()).find(|&at| bytes[at] == b';' && (at == 0 || bytes[at - 1] != b'\\'));
    comment.map_or(line, |at| &line[..at])
}
