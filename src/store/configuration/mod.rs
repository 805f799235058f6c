//! The configuration file: read, checked, published, rolled back.
//!
//! Invariants: what is published has passed every check, and was made of what the file held at that moment; a text that is
//! replaced is kept first; a text that the engine refuses after all leaves the file as it was.

mod file;
#[cfg(test)]
mod tests;

use crate::{
    config::Problem,
    http::{
        Configuration, ConfigurationError, Configurations, Draft, KeptVersion, Published, ReloadFailure, ReloadReport,
        TEXT_BYTES_MAX, Told, Verdict, Version,
    },
};
use file::{Home, Kept, version_of};
use futures_util::{FutureExt as _, future::BoxFuture};
use similar::TextDiff;
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    sync::{Mutex, Semaphore},
    task::{JoinError, spawn_blocking},
};
use tracing::{error, info, warn};

/// How long somebody waits for others' checks: each takes a core for a moment, which calls need too.
const CHECK_WAIT_MAX: Duration = Duration::from_secs(5);
/// After that a difference is told more coarsely: texts without anything in common take for ever.
const DIFFERENCE_MAX: Duration = Duration::from_millis(300);
/// Lines around each difference.
const CONTEXT_LINES: usize = 3;

/// What this asks of the engine.
pub trait Loader: Send + Sync + 'static {
    /// The number and the text of the generation that new calls have.
    fn running(&self) -> (u64, Arc<str>);
    /// Warnings, or else every problem; `name` is the file's. It may take seconds.
    fn check(&self, name: &str, text: &str) -> Result<Vec<Problem>, Vec<Problem>>;
    fn reload(&self) -> BoxFuture<'static, Result<ReloadReport, ReloadFailure>>;
    /// The JSON Schema of a configuration.
    fn schema(&self) -> String;
}

/// The configuration in its file. Clones are the same one.
#[derive(Clone)]
pub struct FileConfiguration {
    inner: Arc<Inner>,
}

struct Inner {
    /// `None`: it came from memory.
    home: Option<Home>,
    loader: Arc<dyn Loader>,
    /// Held by whoever changes the file.
    change: Arc<Mutex<()>>,
    /// One permit: one check at a time.
    checks: Semaphore,
    /// It takes a moment to make.
    schema: OnceLock<Arc<str>>,
}

impl FileConfiguration {
    /// Reads nothing yet. `None`: the configuration is part of the program, and can only be seen.
    pub fn new(file: Option<PathBuf>, loader: Arc<dyn Loader>) -> Self {
        let inner = Inner {
            home: file.map(Home::new),
            loader,
            change: Arc::default(),
            checks: Semaphore::new(1),
            schema: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Runs what reads files on a thread that may wait.
    fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Inner) -> Result<T, ConfigurationError> + Send + 'static,
    ) -> Told<T> {
        let inner = Arc::clone(&self.inner);
        async move { spawn_blocking(move || what(&inner)).await.unwrap_or_else(|fault| Err(fault_of(&fault))) }.boxed()
    }
}

impl Configurations for FileConfiguration {
    fn read(&self) -> Told<Configuration> {
        let inner = Arc::clone(&self.inner);
        let read = self.ask(Inner::read);
        async move {
            let mut found = read.await?;
            match inner.verdict(found.text.clone()).await {
                Ok(verdict) => found.verdict = verdict,
                // What runs has no problems; its warnings can wait until fewer ask.
                Err(ConfigurationError::Busy) if found.running => {}
                Err(error) => return Err(error),
            }
            Ok(found)
        }
        .boxed()
    }

    fn check(&self, text: String) -> Told<Verdict> {
        let inner = Arc::clone(&self.inner);
        async move {
            if text.len() > TEXT_BYTES_MAX {
                return Err(ConfigurationError::TooLong);
            }
            inner.verdict(text).await
        }
        .boxed()
    }

    fn publish(&self, draft: Draft) -> Told<Published> {
        let inner = Arc::clone(&self.inner);
        async move {
            let one = Arc::clone(&inner.change).lock_owned().await;
            // A task of its own: what is begun is brought to its end, also when the asker leaves.
            let done = tokio::spawn(async move {
                let _one = one;
                inner.publish(draft).await
            });
            done.await.unwrap_or_else(|fault| Err(fault_of(&fault)))
        }
        .boxed()
    }

    fn schema(&self) -> Arc<str> {
        Arc::clone(self.inner.schema.get_or_init(|| self.inner.loader.schema().into()))
    }

    fn versions(&self) -> Told<Vec<Version>> {
        self.ask(|inner| {
            let Some(home) = &inner.home else { return Ok(Vec::new()) };
            let now = version_of(&home.read()?);
            let mut found: Vec<Version> = home.versions()?.into_iter().map(|kept| head(kept, &now)).collect();
            // A text that was rolled back to is there twice: the newer one is the file's.
            let newest = found.iter().position(|version| version.current);
            found.iter_mut().enumerate().for_each(|(index, version)| version.current = Some(index) == newest);
            Ok(found)
        })
    }

    fn version(&self, id: String) -> Told<KeptVersion> {
        self.ask(move |inner| {
            let home = inner.home.as_ref().ok_or(ConfigurationError::Unknown)?;
            let (kept, text) = home.version(&id)?.ok_or(ConfigurationError::Unknown)?;
            let head = head(kept, &version_of(&home.read()?));
            let difference = difference(&inner.loader.running().1, &text);
            Ok(KeptVersion { head, text, difference })
        })
    }
}

impl Inner {
    fn read(&self) -> Result<Configuration, ConfigurationError> {
        let (generation, runs) = self.loader.running();
        let (file, text, read_only) = match &self.home {
            Some(home) => (Some(home.shown()), home.read()?, home.read_only()),
            None => (None, runs.to_string(), Some("it is part of the program".into())),
        };
        let (version, running) = (version_of(&text), *text == *runs);
        Ok(Configuration { file, text, version, generation, running, read_only, verdict: Verdict::default() })
    }

    async fn verdict(self: &Arc<Self>, text: String) -> Result<Verdict, ConfigurationError> {
        let turn = tokio::time::timeout(CHECK_WAIT_MAX, self.checks.acquire()).await;
        let (Ok(Ok(_turn)), inner) = (turn, Arc::clone(self)) else { return Err(ConfigurationError::Busy) };
        let check = spawn_blocking(move || {
            let name = inner.home.as_ref().map_or_else(|| "configuration".into(), Home::shown);
            let (problems, warnings) = match inner.loader.check(&name, &text) {
                Ok(warnings) => (Vec::new(), warnings),
                Err(problems) => (problems, Vec::new()),
            };
            Verdict { problems, warnings, difference: difference(&inner.loader.running().1, &text) }
        });
        check.await.map_err(|fault| fault_of(&fault))
    }

    async fn publish(self: Arc<Self>, draft: Draft) -> Result<Published, ConfigurationError> {
        let Draft { text, based_on, by } = draft;
        if text.len() > TEXT_BYTES_MAX {
            return Err(ConfigurationError::TooLong);
        }
        let home =
            self.home.as_ref().ok_or_else(|| ConfigurationError::ReadOnly("it is part of the program".into()))?;
        if let Some(why) = home.read_only() {
            return Err(ConfigurationError::ReadOnly(why));
        }
        unchanged(home, &based_on)?;
        let verdict = self.verdict(text.clone()).await?;
        if !verdict.problems.is_empty() {
            return Err(ConfigurationError::Invalid(verdict));
        }
        // The check took a while, and an editor asks nobody.
        let before = unchanged(home, &based_on)?;
        home.keep_found(&before)?;
        home.write(&text)?;
        match self.loader.reload().await {
            Ok(report) => {
                // It is in force already: that it cannot be kept must not look like a failure.
                let kept = match text == before {
                    true => Ok(()),
                    false => home.next_moment().and_then(|at| home.keep(&text, Some(&by), at, &before)),
                };
                if let Err(error) = kept {
                    warn!(%error, "a published configuration is in force, and was not kept among its versions");
                }
                info!(account = by, generation = report.generation, "a configuration was published");
                Ok(Published { version: version_of(&text), report })
            }
            Err(failure) => {
                if let Err(error) = home.write(&before) {
                    error!(%error, "the configuration was refused, and the file could not be put back");
                }
                let told = failure.problems.into_iter().map(|message| self.whole(message));
                Err(ConfigurationError::Invalid(Verdict { problems: told.collect(), ..verdict }))
            }
        }
    }

    /// A problem of the file as a whole.
    fn whole(&self, message: String) -> Problem {
        let file = self.home.as_ref().map(Home::shown).unwrap_or_default();
        Problem { file: file.into(), line: 0, path: String::new(), message, hint: None }
    }
}

/// The text of the file, if it is the one that somebody has seen.
fn unchanged(home: &Home, seen: &str) -> Result<String, ConfigurationError> {
    let text = home.read()?;
    let version = version_of(&text);
    if version == seen {
        return Ok(text);
    }
    let known = home.versions()?.into_iter().find(|kept| kept.is_of(&version));
    let (by, at) = known.map_or((None, home.changed_at()), |kept| (kept.by, Some(kept.at)));
    Err(ConfigurationError::Changed { version, by, at })
}

fn head(kept: Kept, now: &str) -> Version {
    Version { current: kept.is_of(now), id: kept.id, at: kept.at, by: kept.by }
}

/// As `diff -u` writes it.
fn difference(before: &str, after: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFFERENCE_MAX).diff_lines(before, after);
    diff.unified_diff().context_radius(CONTEXT_LINES).to_string()
}

fn fault_of(fault: &JoinError) -> ConfigurationError {
    error!(%fault, "a question about the configuration failed");
    ConfigurationError::Storage("this failed inside the engine; the log says why".into())
}
