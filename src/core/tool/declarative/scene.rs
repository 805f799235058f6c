//! What the actions of one run read and write: a working copy of the call's memory and what else
//! templates can name.

use super::{fault::Fault, secret::Secrets};
use crate::tool::memory::{
    Change, MEMORY_BYTES_MAX, Memory, NESTING_MAX, Path, Root, Step, Target, nesting, walk, weight,
};
use serde_json::{Map, Value};
use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    rc::Rc,
};

/// Of what one action fills into its templates, in bytes of JSON: a path named a thousand times is a
/// thousand copies.
const FILL_BYTES_MAX: usize = 512 * 1024;
/// Missing paths remembered of one run; more tell nothing new.
const MISSING_MAX: usize = 32;

pub(super) struct Scene {
    pub(super) memory: Memory,
    pub(super) changes: Vec<Change>,
    /// Of the last action that had one.
    pub(super) result: Value,
    pub(super) secrets: Secrets,
    params: Value,
    call: Value,
    now: Value,
    /// The context whose `agents.…` may be written.
    agent: String,
    user_writable: bool,
    /// At least what the memory weighs.
    weight: usize,
    missing: RefCell<Vec<String>>,
}

/// What a scene begins with.
pub(super) struct Opening<'a> {
    pub(super) memory: Memory,
    pub(super) params: Map<String, Value>,
    pub(super) call: Map<String, Value>,
    pub(super) now: String,
    pub(super) agent: String,
    pub(super) user_writable: bool,
    pub(super) secrets: &'a [Path],
}

/// Reads for one action. Without `revealed` secrets come out masked.
pub(super) struct Reading<'a> {
    scene: &'a Scene,
    revealed: bool,
    item: Option<(&'a Value, usize)>,
    room: Rc<Cell<usize>>,
}

impl Scene {
    pub(super) fn new(opening: Opening<'_>) -> Self {
        let mut scene = Self {
            weight: opening.memory.weight(),
            memory: opening.memory,
            changes: Vec::new(),
            result: Value::Null,
            secrets: Secrets::default(),
            params: Value::Object(opening.params),
            call: Value::Object(opening.call),
            now: opening.now.into(),
            agent: opening.agent,
            user_writable: opening.user_writable,
            missing: RefCell::default(),
        };
        scene.secrets = Secrets::of(opening.secrets.iter().filter_map(|path| scene.look(path)));
        scene
    }

    /// For everything that may be said, logged, kept or handed on.
    pub(super) fn reading(&self) -> Reading<'_> {
        Reading { scene: self, revealed: false, item: None, room: Rc::new(Cell::new(FILL_BYTES_MAX)) }
    }

    /// For requests and comparisons.
    pub(super) fn revealing(&self) -> Reading<'_> {
        Reading { revealed: true, ..self.reading() }
    }

    /// Paths that were asked for and were not there.
    pub(super) fn take_missing(&self) -> Vec<String> {
        self.missing.take()
    }

    pub(super) fn set(&mut self, target: &Target, value: Value) -> Result<(), Fault> {
        let path = target.path.to_string();
        let change = if target.append { Change::Append { path, value } } else { Change::Set { path, value } };
        self.write(&target.path, change)
    }

    pub(super) fn delete(&mut self, target: &Target) -> Result<(), Fault> {
        self.write(&target.path, Change::Delete { path: target.path.to_string() })
    }

    fn write(&mut self, path: &Path, change: Change) -> Result<(), Fault> {
        let allowed = match path.root {
            Root::User => self.user_writable,
            Root::Agents => matches!(path.steps.first(), Some(Step::Name(name)) if *name == self.agent),
            _ => true,
        };
        if !allowed {
            return Err(Fault::permanent("read_only", format!("{path} cannot be written here")));
        }
        if let Change::Set { value, .. } | Change::Append { value, .. } = &change {
            let grown = self.weight + weight(value) + path.to_string().len();
            if grown > MEMORY_BYTES_MAX || nesting(value) > NESTING_MAX {
                return Err(Fault::permanent("memory_full", format!("{path}: the call's memory is full")));
            }
            self.weight = grown;
        }
        self.memory.write(&change)?;
        self.changes.push(change);
        Ok(())
    }

    fn look(&self, path: &Path) -> Option<Cow<'_, Value>> {
        let value = match path.root {
            Root::Params => &self.params,
            Root::Call => &self.call,
            Root::Result => &self.result,
            Root::Now => &self.now,
            Root::Item | Root::Index => return None,
            root => {
                let map = self.memory.root(root)?;
                let Some((Step::Name(first), rest)) = path.steps.split_first() else {
                    return path.steps.is_empty().then(|| Cow::Owned(Value::Object(map.clone())));
                };
                return walk(map.get(first)?, rest).map(Cow::Borrowed);
            }
        };
        walk(value, &path.steps).map(Cow::Borrowed)
    }
}

impl Reading<'_> {
    /// With `item` and `index`; what is filled in counts together.
    pub(super) fn at<'b>(&'b self, item: &'b Value, index: usize) -> Reading<'b> {
        Reading { scene: self.scene, revealed: self.revealed, item: Some((item, index)), room: Rc::clone(&self.room) }
    }

    /// What is there, without a copy and without a mask.
    pub(super) fn look(&self, path: &Path) -> Option<Cow<'_, Value>> {
        match (path.root, self.item) {
            (Root::Item, Some((item, _))) => walk(item, &path.steps).map(Cow::Borrowed),
            (Root::Index, Some((_, index))) if path.steps.is_empty() => Some(Cow::Owned(index.into())),
            _ => self.scene.look(path),
        }
    }

    pub(super) fn value(&self, path: &Path) -> Result<Option<Value>, Fault> {
        let Some(value) = self.look(path) else { return Ok(None) };
        self.spend(&value)?;
        let value = value.into_owned();
        Ok(Some(if self.revealed { value } else { self.scene.secrets.mask(value) }))
    }

    /// Null when nothing is there, which is remembered.
    pub(super) fn value_or_null(&self, path: &Path) -> Result<Value, Fault> {
        let value = self.value(path)?;
        if value.is_none() {
            let mut missing = self.scene.missing.borrow_mut();
            let path = path.to_string();
            if missing.len() < MISSING_MAX && !missing.contains(&path) {
                missing.push(path);
            }
        }
        Ok(value.unwrap_or_default())
    }

    /// A failure when nothing, or null, is there.
    pub(super) fn required(&self, path: &Path) -> Result<(), Fault> {
        match self.look(path).as_deref() {
            None | Some(Value::Null) => {
                Err(Fault::permanent("unresolved_template", format!("{path} is needed and is not there")))
            }
            Some(_) => Ok(()),
        }
    }

    /// Counts a value that is copied.
    pub(super) fn spend(&self, value: &Value) -> Result<(), Fault> {
        let room = self.room.get().checked_sub(weight(value));
        self.room.set(room.ok_or_else(|| Fault::permanent("too_large", "The values are too large for one action."))?);
        Ok(())
    }
}
