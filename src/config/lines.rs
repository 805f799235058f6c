//! What was written, and where its places are: for what is found only when something is built from it.

use super::{
    problem::{Path, Problem},
    tree::{Kind, Node},
};
use std::{collections::HashMap, fmt, sync::Arc};

/// One file: its text, and the line of every place of it.
#[derive(Clone, Default)]
pub struct Lines {
    file: Arc<str>,
    /// Keys of vendors' accounts can be in it.
    text: Arc<str>,
    of: Arc<HashMap<String, usize>>,
}

/// What was written how is no part of what was configured.
impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl Lines {
    pub(super) fn of(file: &str, text: &str, root: &Node) -> Self {
        let mut of = HashMap::new();
        enter(root, &Path::default(), &mut of);
        Self { file: file.into(), text: text.into(), of: Arc::new(of) }
    }

    /// As it was written, with variables not yet put in.
    pub fn text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// A problem at `place` (`contexts.sales.tools[2]`), with its line, or that of as much of it as the file has.
    pub fn problem(&self, place: &str, message: impl Into<String>) -> Problem {
        let ancestors = std::iter::successors(Some(place), |place| Some(&place[..place.rfind(['.', '['])?]));
        let line = ancestors.filter_map(|place| self.of.get(place)).next().copied().unwrap_or(0);
        Problem { file: Arc::clone(&self.file), line, path: place.to_owned(), message: message.into(), hint: None }
    }
}

fn enter(node: &Node, path: &Path, of: &mut HashMap<String, usize>) {
    of.insert(path.to_string(), node.line);
    match &node.kind {
        Kind::Map(entries) => entries.iter().for_each(|entry| enter(&entry.node, &path.key(&entry.key), of)),
        Kind::List(items) => {
            items.iter().enumerate().for_each(|(index, item)| enter(item, &path.index(index), of));
        }
        Kind::Scalar { .. } | Kind::Broken => {}
    }
}
