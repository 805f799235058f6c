//! The declarative tools of all tenants, as files (D1, D4): `<folder>/<name>.json`, or `.yaml` where an
//! operator wrote it by hand.
//!
//! Invariants: what is kept has passed the check; a change is on the disk before it is answered and
//! before calls have it; changes are made one after the other, so nobody publishes an older state
//! over a newer one; running calls keep the snapshot they began with.

mod configuration;
mod files;
mod secrets;
mod shape;

use crate::{
    http::{Answer, Problem, Seen, StoreError, StoredTool, ToolStore, Trial},
    tool::BUILT_IN,
    wall_clock,
};
use arc_swap::ArcSwap;
pub use configuration::{FileConfiguration, Loader};
use files::{Folder, Found, is_name};
use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use uuid::Uuid;

/// Far above what a model can choose from, and few enough to read all at once.
const TOOLS_MAX: usize = 500;
const CREATED_AT: &str = "created_at";

/// What the store asks of the engine; definitions are flat.
pub trait ToolRegistry: Send + Sync {
    /// Whether a definition is valid, with the tenant's endpoints and agents around it: else every
    /// problem of it.
    fn check(&self, tenant: &str, definition: &Value) -> Result<(), Vec<Problem>>;
    /// Runs a tool outside of any call and gives the trace; no network unless the trial is live.
    fn dry_run(&self, tenant: &str, definition: Value, trial: Trial) -> Answer<Value>;
    /// Takes all tools of a tenant after a change, for new calls. Called by one change at a time.
    fn publish(&self, tenant: &str, tools: Tools);
    /// Whether changes of this tenant's tools are refused now (P answer 11).
    fn is_locked(&self, tenant: &str) -> bool;
    /// Whether the configuration lists this tool, in a context of the tenant or among its rules: without it the next start would fail.
    fn is_used(&self, tenant: &str, name: &str) -> bool;
    /// Whether a name is taken beside the built-in tools' (by an MCP server, by the operator's list).
    fn is_reserved(&self, name: &str) -> bool;
}

/// All tools of a tenant as they are to run, secrets included, and the files that could not be read.
#[derive(Clone, PartialEq, Default)]
pub struct Tools {
    pub definitions: Vec<Value>,
    /// File name and reason.
    pub unreadable: Vec<(String, &'static str)>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the tools folder {0} cannot be used: {1}")]
    Folder(PathBuf, #[source] io::Error),
    #[error("the tenants \"{0}\" and \"{1}\" have the same tools folder")]
    Shared(String, String),
}

/// Tools in folders, one per tenant. Clones are the same store.
#[derive(Clone)]
pub struct FileToolStore {
    inner: Arc<Inner>,
}

/// By tenant.
type Folders = BTreeMap<String, Arc<Folder>>;

struct Inner {
    folders: ArcSwap<Folders>,
    registry: Arc<dyn ToolRegistry>,
    /// Held while a change is made and published.
    change: Mutex<()>,
    /// Of the versions: they are made of files with secrets in them, and must not let one be guessed.
    salt: Uuid,
}

/// A tool as its file has it.
struct Kept {
    /// Without `created_at`.
    definition: Map<String, Value>,
    created_at: Timestamp,
    version: String,
}

impl FileToolStore {
    /// `folders`: where each tenant's tools are; they are made if need be.
    ///
    /// # Errors
    /// When a folder cannot be used, or belongs to two tenants.
    pub fn open(folders: BTreeMap<String, PathBuf>, registry: Arc<dyn ToolRegistry>) -> Result<Self, OpenError> {
        Self::with(folders, registry, Folder::open)
    }

    /// For a check or a reload: reads alone. It makes no folders and leaves alone what another store is writing.
    ///
    /// # Errors
    /// As [`FileToolStore::open`].
    pub fn look(folders: BTreeMap<String, PathBuf>, registry: Arc<dyn ToolRegistry>) -> Result<Self, OpenError> {
        Self::with(folders, registry, Folder::look)
    }

    fn with(
        folders: BTreeMap<String, PathBuf>,
        registry: Arc<dyn ToolRegistry>,
        open: fn(&Path) -> io::Result<Folder>,
    ) -> Result<Self, OpenError> {
        let folders = ArcSwap::from_pointee(opened(folders, open)?);
        Ok(Self { inner: Arc::new(Inner { folders, registry, change: Mutex::new(()), salt: Uuid::new_v4() }) })
    }

    /// Holds up all changes until it is dropped. A reload takes it before it reads anything: a change that is under way would
    /// else be published with folders and files of the configuration before.
    #[must_use]
    pub fn hold(&self) -> Hold<'_> {
        Hold { inner: &self.inner, _change: self.inner.change.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// All tools of a tenant, for a start or a reload. Reads files: not for a thread that carries calls.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn tools(&self, tenant: &str) -> Result<Tools, StoreError> {
        self.inner.tools(&*self.inner.folder(tenant)?)
    }

    /// Off the threads that carry calls, and to its end once begun.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            tokio::task::spawn_blocking(move || work(&inner)).await.unwrap_or_else(|_| {
                tracing::error!("the store of tools failed inside");
                Err(StoreError::Storage)
            })
        })
    }
}

/// Nothing is changed while it is there.
pub struct Hold<'a> {
    inner: &'a Inner,
    _change: MutexGuard<'a, ()>,
}

impl Hold<'_> {
    /// Where each tenant's tools are from now on; folders are made if need be.
    ///
    /// # Errors
    /// As [`FileToolStore::open`]; nothing is moved then.
    pub fn move_to(&self, folders: BTreeMap<String, PathBuf>) -> Result<(), OpenError> {
        self.inner.folders.store(Arc::new(opened(folders, Folder::open)?));
        Ok(())
    }
}

fn opened(folders: BTreeMap<String, PathBuf>, open: fn(&Path) -> io::Result<Folder>) -> Result<Folders, OpenError> {
    let mut opened = Folders::new();
    for (tenant, path) in folders {
        let folder = open(&path).map_err(|error| OpenError::Folder(path, error))?;
        if let Some((other, _)) = opened.iter().find(|(_, other)| other.root() == folder.root()) {
            return Err(OpenError::Shared(other.clone(), tenant));
        }
        opened.insert(tenant, Arc::new(folder));
    }
    Ok(opened)
}

impl ToolStore for FileToolStore {
    fn tenants(&self) -> Vec<String> {
        self.inner.folders.load().keys().cloned().collect()
    }

    fn list(&self, tenant: &str) -> Answer<Vec<StoredTool>> {
        let tenant = tenant.to_owned();
        self.blocking(move |inner| inner.list(&tenant))
    }

    fn get(&self, tenant: &str, name: &str) -> Answer<StoredTool> {
        let (tenant, name) = (tenant.to_owned(), name.to_owned());
        self.blocking(move |inner| Ok(shown(&tenant, &name, inner.existing(&tenant, &name)?)))
    }

    fn create(&self, tenant: &str, definition: Value) -> Answer<StoredTool> {
        let tenant = tenant.to_owned();
        self.blocking(move |inner| inner.create(&tenant, definition))
    }

    fn replace(&self, tenant: &str, name: &str, definition: Value, seen: Seen) -> Answer<StoredTool> {
        let (tenant, name) = (tenant.to_owned(), name.to_owned());
        self.blocking(move |inner| inner.replace(&tenant, &name, definition, &seen))
    }

    fn patch(&self, tenant: &str, name: &str, patch: Value, seen: Seen) -> Answer<StoredTool> {
        let (tenant, name) = (tenant.to_owned(), name.to_owned());
        self.blocking(move |inner| inner.patch(&tenant, &name, patch, &seen))
    }

    fn delete(&self, tenant: &str, name: &str, seen: Seen) -> Answer<()> {
        let (tenant, name) = (tenant.to_owned(), name.to_owned());
        self.blocking(move |inner| inner.delete(&tenant, &name, &seen))
    }

    fn test(&self, tenant: &str, name: &str, trial: Trial) -> Answer<Value> {
        let (tenant, name) = (tenant.to_owned(), name.to_owned());
        let registry = Arc::clone(&self.inner.registry);
        let for_reading = tenant.clone();
        let kept = self.blocking(move |inner| inner.existing(&for_reading, &name));
        Box::pin(async move { registry.dry_run(&tenant, Value::Object(kept.await?.definition), trial).await })
    }

    fn try_out(&self, tenant: &str, definition: Value, trial: Trial) -> Answer<Value> {
        let tenant = tenant.to_owned();
        let registry = Arc::clone(&self.inner.registry);
        let for_checking = tenant.clone();
        let checked = self.blocking(move |inner| inner.usable(&for_checking, definition));
        Box::pin(async move { registry.dry_run(&tenant, checked.await?, trial).await })
    }
}

impl Inner {
    fn folder(&self, tenant: &str) -> Result<Arc<Folder>, StoreError> {
        self.folders.load().get(tenant).cloned().ok_or_else(|| {
            tracing::error!(tenant, "a token names a tenant that has no folder for tools");
            StoreError::Storage
        })
    }

    fn is_reserved(&self, name: &str) -> bool {
        BUILT_IN.contains(&name) || self.registry.is_reserved(name)
    }

    fn existing(&self, tenant: &str, name: &str) -> Result<Kept, StoreError> {
        let found = self.folder(tenant)?.read(name).map_err(unreadable(name))?;
        if self.is_reserved(name) {
            return Err(StoreError::NotFound);
        }
        kept(self.salt, name, &found.ok_or(StoreError::NotFound)?)
    }

    fn list(&self, tenant: &str) -> Result<Vec<StoredTool>, StoreError> {
        let names = self.folder(tenant)?.list().map_err(storage)?.names;
        // What is not readable is told at the start, on a reload, and by its own address.
        let readable = names.iter().filter_map(|name| Some((name, self.existing(tenant, name).ok()?)));
        Ok(readable.map(|(name, kept)| shown(tenant, name, kept)).collect())
    }

    fn tools(&self, folder: &Folder) -> Result<Tools, StoreError> {
        let listing = folder.list().map_err(storage)?;
        let mut tools = Tools::default();
        let misnamed = "a tool's file is named after the tool: lower case with underscores";
        tools.unreadable.extend(listing.misnamed.into_iter().map(|file| (file, misnamed)));
        for (count, name) in listing.names.into_iter().enumerate() {
            let read = || kept(self.salt, &name, &folder.read(&name).ok().flatten()?).ok();
            if count >= TOOLS_MAX {
                tools.unreadable.push((name, "there are more tools than a tenant may have"));
            } else if self.is_reserved(&name) {
                tools.unreadable.push((name, "the name belongs to a built-in tool"));
            } else if let Some(kept) = read() {
                tools.definitions.push(Value::Object(kept.definition));
            } else {
                tools.unreadable.push((name, "the file is not readable as a tool of this name"));
            }
        }
        Ok(tools)
    }

    fn create(&self, tenant: &str, definition: Value) -> Result<StoredTool, StoreError> {
        let _change = self.begin(tenant)?;
        let definition = shape::flat(definition).map_err(StoreError::Invalid)?;
        let name = definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !is_name(&name) {
            return Err(StoreError::Invalid(self.nameless(tenant, definition)));
        }
        let folder = self.folder(tenant)?;
        if self.is_reserved(&name) || folder.has(&name) {
            return Err(StoreError::Exists);
        }
        if folder.list().map_err(storage)?.names.len() >= TOOLS_MAX {
            tracing::warn!(tenant, limit = TOOLS_MAX, "a tenant has as many tools as it may have");
            return Err(StoreError::Full);
        }
        self.keep(tenant, &name, definition, None, "created")
    }

    fn replace(&self, tenant: &str, name: &str, definition: Value, seen: &Seen) -> Result<StoredTool, StoreError> {
        let _change = self.begin(tenant)?;
        let old = match self.existing(tenant, name) {
            // A file that is broken can be set right, by those who have not seen another version.
            Err(StoreError::Unreadable) if *seen == Seen::Any => None,
            old => Some(old?),
        };
        if old.as_ref().is_some_and(|old| !seen.allows(&old.version)) {
            return Err(StoreError::Changed);
        }
        let definition = shape::flat(definition).map_err(StoreError::Invalid)?;
        self.keep(tenant, name, definition, old, "replaced")
    }

    fn patch(&self, tenant: &str, name: &str, patch: Value, seen: &Seen) -> Result<StoredTool, StoreError> {
        let _change = self.begin(tenant)?;
        let old = self.existing(tenant, name)?;
        if !seen.allows(&old.version) {
            return Err(StoreError::Changed);
        }
        let mut definition = old.definition.clone();
        shape::merge(&mut definition, shape::flat(patch).map_err(StoreError::Invalid)?);
        self.keep(tenant, name, definition, Some(old), "patched")
    }

    fn delete(&self, tenant: &str, name: &str, seen: &Seen) -> Result<(), StoreError> {
        let _change = self.begin(tenant)?;
        match self.existing(tenant, name) {
            Err(StoreError::Unreadable) if *seen == Seen::Any => {}
            Ok(old) if !seen.allows(&old.version) => return Err(StoreError::Changed),
            other => drop(other?),
        }
        if self.registry.is_used(tenant, name) {
            return Err(StoreError::Used);
        }
        let folder = self.folder(tenant)?;
        folder.remove(name).map_err(storage)?;
        tracing::info!(target: "journal", tenant, tool = name, change = "deleted", "tool changed");
        self.publish(tenant, &folder)
    }

    /// All that is wrong with a definition whose name is none.
    fn nameless(&self, tenant: &str, definition: Map<String, Value>) -> Vec<Problem> {
        let why = "has to be lower case letters, digits and underscores, a letter first, 64 at most";
        let more = self.registry.check(tenant, &Value::Object(definition)).err().unwrap_or_default();
        [Problem::new("name", why)]
            .into_iter()
            .chain(more.into_iter().filter(|problem| problem.path != "name"))
            .collect()
    }

    /// A definition with its secrets, if it could be kept.
    fn usable(&self, tenant: &str, definition: Value) -> Result<Value, StoreError> {
        let definition = shape::flat(definition).map_err(StoreError::Invalid)?;
        let name = definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !is_name(&name) {
            return Err(StoreError::Invalid(self.nameless(tenant, definition)));
        }
        let before = match self.existing(tenant, &name) {
            Ok(kept) => Value::Object(kept.definition),
            Err(StoreError::NotFound | StoreError::Unreadable) => Value::Null,
            Err(error) => return Err(error),
        };
        self.checked(tenant, definition, &before)
    }

    fn checked(&self, tenant: &str, definition: Map<String, Value>, before: &Value) -> Result<Value, StoreError> {
        let mut definition = Value::Object(definition);
        let mut problems = secrets::restore(&mut definition, before);
        if problems.is_empty() {
            problems = self.registry.check(tenant, &definition).err().unwrap_or_default();
        }
        if problems.is_empty() { Ok(definition) } else { Err(StoreError::Invalid(problems)) }
    }

    /// Changes follow one another.
    fn begin(&self, tenant: &str) -> Result<MutexGuard<'_, ()>, StoreError> {
        let change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        if self.registry.is_locked(tenant) { Err(StoreError::Locked) } else { Ok(change) }
    }

    /// Checks a definition, writes it and tells of it.
    fn keep(
        &self,
        tenant: &str,
        name: &str,
        mut definition: Map<String, Value>,
        old: Option<Kept>,
        change: &'static str,
    ) -> Result<StoredTool, StoreError> {
        if definition.get("name").is_some_and(|given| given != name) {
            return Err(StoreError::Invalid(vec![Problem::new("name", "a tool's name cannot change")]));
        }
        definition.insert("name".into(), name.into());
        let (before, created_at) = match old {
            Some(old) => (Value::Object(old.definition), old.created_at),
            None => (Value::Null, wall_clock::now()),
        };
        let definition = self.checked(tenant, definition, &before)?;
        let text = written(definition, created_at)?;
        let folder = self.folder(tenant)?;
        folder.write(name, &text).map_err(storage)?;
        tracing::info!(target: "journal", tenant, tool = name, change, "tool changed");
        self.publish(tenant, &folder)?;
        Ok(shown(tenant, name, self.existing(tenant, name)?))
    }

    fn publish(&self, tenant: &str, folder: &Folder) -> Result<(), StoreError> {
        let tools = self.tools(folder)?;
        self.registry.publish(tenant, tools);
        Ok(())
    }
}

fn written(definition: Value, created_at: Timestamp) -> Result<String, StoreError> {
    let Value::Object(mut definition) = definition else { return Err(StoreError::Storage) };
    definition.insert(CREATED_AT.into(), created_at.to_string().into());
    let mut text = serde_json::to_string_pretty(&definition).map_err(|_| StoreError::Storage)?;
    text.push('\n');
    Ok(text)
}

fn kept(salt: Uuid, name: &str, found: &Found) -> Result<Kept, StoreError> {
    let value: Option<Value> =
        if found.is_json { serde_json::from_str(&found.text).ok() } else { serde_yaml::from_str(&found.text).ok() };
    let mut value = value.ok_or(StoreError::Unreadable)?;
    let said = value.as_object_mut().and_then(|tool| tool.shift_remove(CREATED_AT));
    let said = said.as_ref().and_then(Value::as_str).and_then(|text| text.parse().ok());
    let created_at = said.or_else(|| Timestamp::try_from(found.modified).ok()).ok_or(StoreError::Unreadable)?;
    let mut definition = shape::flat(value).map_err(|_| StoreError::Unreadable)?;
    // The file's name is the tool's; one that says otherwise was copied and not finished.
    if definition.entry("name").or_insert_with(|| name.into()) != name {
        return Err(StoreError::Unreadable);
    }
    let version = hex(&Sha256::new().chain_update(salt).chain_update(&found.text).finalize());
    Ok(Kept { definition, created_at, version })
}

fn shown(tenant: &str, name: &str, kept: Kept) -> StoredTool {
    let Kept { mut definition, created_at, version } = kept;
    definition.shift_remove("name");
    let description = definition.shift_remove("description");
    let description = description.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    secrets::mask(&mut definition);
    StoredTool { id: id(tenant, name), name: name.into(), description, created_at, config: definition, version }
}

/// Made of tenant and name, so it is the same on every machine and after every change.
fn id(tenant: &str, name: &str) -> Uuid {
    let digest = Sha256::new().chain_update(tenant).chain_update([0]).chain_update(name).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The first 64 bits: enough to tell versions of one tool apart.
fn hex(digest: &[u8]) -> String {
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn storage(error: io::Error) -> StoreError {
    tracing::error!(%error, "tools cannot be read or written");
    StoreError::Storage
}

fn unreadable(name: &str) -> impl Fn(io::Error) -> StoreError {
    move |error| {
        tracing::warn!(tool = name, %error, "a tool's file is not readable");
        StoreError::Unreadable
    }
}

#[cfg(test)]
mod tests;
