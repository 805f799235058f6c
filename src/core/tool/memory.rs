//! What tools remember within one call: `user`, `workflow`, `flags`, `agents`, `tenant`.
//!
//! A running tool reads a snapshot; what it wants to change comes back as [`Change`]s, which are
//! made when its outcome is settled. So two tools that run at once cannot tear a value apart.

mod path;

pub use path::{Path, PathError, Root, Scope, Step, Target, walk};

use serde_json::{Map, Value};

/// Of an array that grows by `[+]`: a list longer than this is no conversation.
pub const ITEMS_MAX: usize = 1000;
/// Of everything in one call's memory, in bytes of JSON, roughly: a run copies all of it.
pub const MEMORY_BYTES_MAX: usize = 1024 * 1024;
/// Nesting of one value: values are walked by recursion.
pub const NESTING_MAX: usize = 64;

/// The memory of one call. `Debug` shows the roots' names only: the rest may be a caller's.
#[derive(Clone, PartialEq, Default)]
pub struct Memory {
    /// Given when the call begins; written only by tools whose tenant allows it.
    pub user: Map<String, Value>,
    /// Settings of the tenant; never written.
    pub tenant: Map<String, Value>,
    pub workflow: Map<String, Value>,
    pub flags: Map<String, Value>,
    /// Per context name.
    pub agents: Map<String, Value>,
}

/// One write. Paths are as a tool's definition writes them, resolved to a root: `workflow.meals`.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Set { path: String, value: Value },
    Append { path: String, value: Value },
    Delete { path: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("{0} leads through a value that holds no others")]
    ThroughScalar(String),
    #[error("{0} is no array, so nothing can be appended")]
    NotAnArray(String),
    #[error("{0} is a place that the array does not have")]
    NoSuchPlace(String),
    #[error("{0} holds {ITEMS_MAX} items already")]
    Full(String),
    #[error("{0} is a flag: true or false")]
    NotAFlag(String),
}

impl Memory {
    /// Makes the changes in their order. Each is made whole or not at all; those that could not be
    /// made come back.
    ///
    /// Who may write `user` was decided when the change was made.
    pub fn apply(&mut self, changes: &[Change]) -> Vec<WriteError> {
        changes.iter().filter_map(|change| self.write(change).err()).collect()
    }

    /// Makes one change, or leaves everything as it was.
    pub fn write(&mut self, change: &Change) -> Result<(), WriteError> {
        let path = Target::parse(change.path())?.path;
        let map = match path.root {
            Root::User => &mut self.user,
            Root::Workflow => &mut self.workflow,
            Root::Flags => &mut self.flags,
            Root::Agents => &mut self.agents,
            root => return Err(PathError::ReadOnly(root.label()).into()),
        };
        let Some((Step::Name(first), rest)) = path.steps.split_first() else {
            return Err(PathError::RootItself(path.root.label()).into());
        };
        let (value, append) = match change {
            Change::Delete { .. } => {
                delete(map, first, rest);
                return Ok(());
            }
            Change::Set { value, .. } => (value, false),
            Change::Append { value, .. } => (value, true),
        };
        if path.root == Root::Flags && !value.is_boolean() {
            return Err(WriteError::NotAFlag(path.to_string()));
        }
        let put = Put { path: &path, value, append };
        match map.get_mut(first) {
            Some(slot) => put.below(slot, rest),
            None => {
                let mut slot = Value::Null;
                put.below(&mut slot, rest)?;
                map.insert(first.clone(), slot);
                Ok(())
            }
        }
    }

    /// All of one root; `None` where it is not kept here.
    pub fn root(&self, root: Root) -> Option<&Map<String, Value>> {
        match root {
            Root::User => Some(&self.user),
            Root::Tenant => Some(&self.tenant),
            Root::Workflow => Some(&self.workflow),
            Root::Flags => Some(&self.flags),
            Root::Agents => Some(&self.agents),
            _ => None,
        }
    }

    /// Of what can be written, in bytes of JSON, roughly.
    pub fn weight(&self) -> usize {
        let roots = [&self.user, &self.workflow, &self.flags, &self.agents];
        roots.into_iter().flatten().map(|(name, value)| name.len() + 4 + weight(value)).sum()
    }
}

impl Change {
    pub fn path(&self) -> &str {
        match self {
            Self::Set { path, .. } | Self::Append { path, .. } | Self::Delete { path } => path,
        }
    }
}

struct Put<'a> {
    path: &'a Path,
    value: &'a Value,
    append: bool,
}

impl Put<'_> {
    fn below(&self, slot: &mut Value, steps: &[Step]) -> Result<(), WriteError> {
        let path = || self.path.to_string();
        let Some((step, rest)) = steps.split_first() else { return self.here(slot) };
        match (step, slot) {
            (Step::Name(_), slot) if slot.is_null() => {
                // Put in place when all below it worked: nothing is made on the way to a failure.
                let mut object = Value::Object(Map::new());
                self.below(&mut object, steps)?;
                *slot = object;
                Ok(())
            }
            (Step::Name(name), Value::Object(map)) => match map.get_mut(name) {
                Some(slot) => self.below(slot, rest),
                None => {
                    let mut slot = Value::Null;
                    self.below(&mut slot, rest)?;
                    map.insert(name.clone(), slot);
                    Ok(())
                }
            },
            (Step::Index(place), Value::Array(list)) => {
                let at = path::resolve(*place, list.len());
                let slot = at.and_then(|at| list.get_mut(at)).ok_or_else(|| WriteError::NoSuchPlace(path()))?;
                self.below(slot, rest)
            }
            (Step::Index(_), slot) if slot.is_null() => Err(WriteError::NoSuchPlace(path())),
            _ => Err(WriteError::ThroughScalar(path())),
        }
    }

    fn here(&self, slot: &mut Value) -> Result<(), WriteError> {
        match slot {
            _ if !self.append => *slot = self.value.clone(),
            Value::Null => *slot = Value::Array(vec![self.value.clone()]),
            Value::Array(list) if list.len() < ITEMS_MAX => list.push(self.value.clone()),
            Value::Array(_) => return Err(WriteError::Full(self.path.to_string())),
            _ => return Err(WriteError::NotAnArray(self.path.to_string())),
        }
        Ok(())
    }
}

fn delete(map: &mut Map<String, Value>, first: &str, steps: &[Step]) {
    let Some((last, way)) = steps.split_last() else {
        map.shift_remove(first);
        return;
    };
    let parent = map.get_mut(first).and_then(|value| {
        way.iter().try_fold(value, |value, step| match step {
            Step::Name(name) => value.as_object_mut()?.get_mut(name),
            Step::Index(place) => {
                let list = value.as_array_mut()?;
                let at = path::resolve(*place, list.len())?;
                list.get_mut(at)
            }
        })
    });
    match (parent, last) {
        (Some(Value::Object(map)), Step::Name(name)) => drop(map.shift_remove(name)),
        (Some(Value::Array(list)), Step::Index(place)) => {
            if let Some(at) = path::resolve(*place, list.len()) {
                list.remove(at);
            }
        }
        _ => {}
    }
}

/// Bytes of a value as JSON, roughly; without recursion, so that it can judge any value.
pub fn weight(value: &Value) -> usize {
    measure(value).0
}

/// How deep a value is nested: 0 for a scalar.
pub fn nesting(value: &Value) -> usize {
    measure(value).1
}

fn measure(value: &Value) -> (usize, usize) {
    let (mut bytes, mut deepest) = (0, 0);
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        deepest = deepest.max(depth);
        bytes += match value {
            Value::String(text) => text.len() + 3,
            Value::Array(list) => {
                open.extend(list.iter().map(|value| (value, depth + 1)));
                3
            }
            Value::Object(map) => {
                open.extend(map.values().map(|value| (value, depth + 1)));
                3 + map.keys().map(|name| name.len() + 4).sum::<usize>()
            }
            _ => 6,
        };
    }
    (bytes, deepest)
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory(***)")
    }
}
