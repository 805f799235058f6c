//! The configuration file as the page and the API change it: what the store asks of the engine.

use super::{
    Shared, Source,
    reload::{check, environment},
};
use crate::{
    config::{self, Problem},
    http::{ReloadFailure, ReloadReport},
    provider,
    store::{FileConfiguration, Loader},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use std::sync::Arc;

struct Running(Arc<Shared>);

pub(super) fn configuration(shared: &Arc<Shared>) -> FileConfiguration {
    let file = match &shared.source {
        Source::File(file) => Some(file.clone()),
        Source::Memory => None,
    };
    FileConfiguration::new(file, Arc::new(Running(Arc::clone(shared))))
}

impl Loader for Running {
    fn running(&self) -> (u64, Arc<str>) {
        let generation = self.0.generation.load();
        (generation.number, generation.config.lines.text())
    }

    fn check(&self, name: &str, text: &str) -> Result<Vec<Problem>, Vec<Problem>> {
        let config = config::load_str(name, text, &environment, provider::catalog())
            .map_err(|problems| problems.into_iter().collect::<Vec<_>>())?;
        let own = config.warnings.clone();
        check(config).map(|built| own.into_iter().chain(built).collect())
    }

    fn schema(&self) -> String {
        config::schema_text(provider::catalog())
    }

    fn reload(&self) -> BoxFuture<'static, Result<ReloadReport, ReloadFailure>> {
        Arc::clone(&self.0).reload_all().boxed()
    }
}
