//! From a file to a generation: at the start, by SIGHUP and by `POST /reload`.

use super::{Shared, generation::Generation};
use crate::{
    config::{self, Config},
    http::{ReloadFailure, ReloadReport},
    provider,
    telemetry::Reload,
    tool::BUILT_IN,
};
use std::{path::PathBuf, sync::Arc};
use tracing::{info, warn};

/// Where the configuration comes from.
#[derive(Debug, Clone)]
pub enum Source {
    File(PathBuf),
    /// Made in memory (tests, the bench); it cannot be loaded again.
    Memory,
}

/// Builds what a configuration describes; the message names every part that could not be built.
pub(super) fn build(number: u64, config: Config) -> Result<Generation, String> {
    Generation::build(number, config)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// The environment of the process, for `${VARIABLES}`.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Shared {
    /// Loads the file again. New calls use it; running calls keep theirs. A broken file changes
    /// nothing.
    pub(super) fn reload(&self) -> Result<ReloadReport, ReloadFailure> {
        let result = self.load_next();
        match &result {
            Ok(report) => {
                self.metrics.reload(Reload::Loaded);
                info!(generation = report.generation, changed = ?report.changed, "configuration loaded");
                for part in &report.needs_restart {
                    warn!(part, "this change takes effect after a restart");
                }
            }
            Err(failure) => {
                self.metrics.reload(Reload::Refused);
                warn!(problems = failure.problems.len(), "the configuration was refused; the one before stays");
                for problem in &failure.problems {
                    warn!("{problem}");
                }
            }
        }
        result
    }

    fn load_next(&self) -> Result<ReloadReport, ReloadFailure> {
        let refused = |problems: Vec<String>| ReloadFailure { problems };
        let Source::File(path) = &self.source else {
            return Err(refused(vec!["this engine was not started from a file".into()]));
        };
        let config = config::load(path, &environment, &provider::catalog())
            .map_err(|problems| refused(problems.iter().map(ToString::to_string).collect()))?;
        let before = self.generation.load();
        let next = Generation::build(before.number + 1, config)
            .map_err(|errors| refused(errors.iter().map(ToString::to_string).collect()))?;
        let (changed, needs_restart) = compare(&before.config, &next.config);
        let generation = next.number;
        self.generation.store(Arc::new(next));
        self.know_names();
        Ok(ReloadReport { generation, changed, needs_restart })
    }

    /// Tells the metrics which names may be labels.
    pub(super) fn know_names(&self) {
        let generation = self.generation.load();
        self.metrics.know(BUILT_IN, generation.config.providers.keys().map(String::as_str));
    }
}

/// What differs: for new calls at once, and only after a restart.
fn compare(before: &Config, after: &Config) -> (Vec<String>, Vec<String>) {
    let differs = |a: &dyn std::fmt::Debug, b: &dyn std::fmt::Debug| format!("{a:?}") != format!("{b:?}");
    let mut changed = Vec::new();
    let mut note = |what: &str, differs: bool| {
        if differs {
            changed.push(what.to_owned());
        }
    };
    note("providers", before.providers != after.providers);
    note("contexts", differs(&before.contexts, &after.contexts));
    note("destinations", before.destinations != after.destinations);
    note("default_context", before.default_context != after.default_context);
    note("limits", differs(&before.limits, &after.limits));
    note("media.default", before.media.default != after.media.default);
    let mut needs_restart = Vec::new();
    let mut restart = |what: &str, differs: bool| {
        if differs {
            needs_restart.push(what.to_owned());
        }
    };
    restart("asterisk", differs(&before.asterisk, &after.asterisk));
    restart("media.audiosocket", differs(&before.media.audiosocket, &after.media.audiosocket));
    restart("media.rtp", differs(&before.media.rtp, &after.media.rtp));
    restart("http", differs(&before.http, &after.http));
    (changed, needs_restart)
}
