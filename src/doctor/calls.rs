//! Test calls through Asterisk, one after the other, and what of the dialplan can be asked meanwhile.

use super::{
    Finding,
    media::{self, Trial},
};
use crate::{
    asterisk::probe::{Probe, Standing},
    config::{AsteriskConfig, AudioChoice, Config, Place, Way},
};
use std::{cell::RefCell, collections::BTreeSet};
use tokio_util::sync::CancellationToken;

const AREA: &str = "call";
/// The application's name begins with it.
const APP: &str = "offhook-doctor";
/// What the shipped examples of a dialplan call the place that leads to offhook.
const EXAMPLES: [(&str, &str); 2] = [("offhook", "7000"), ("offhook-default", "s")];

pub(super) async fn examine(
    config: &Config,
    asterisk: &AsteriskConfig,
    modules: &BTreeSet<String>,
    stop: &CancellationToken,
) -> Vec<Finding> {
    let places = RefCell::new(None);
    let ask = async |call: &Standing<'_>| {
        if places.borrow().is_none() {
            let found = dialplan(call, config).await;
            places.replace(Some(found));
        }
    };
    let (besides, trials) = place(config, asterisk, (&media::all(config, Some(modules)), modules), stop, ask).await;
    let dialplan = places.into_inner().into_iter().flatten();
    trials.iter().map(Trial::finding).chain(dialplan).chain(besides).collect()
}

/// A test call for each of these; `meanwhile` is asked something while one stands.
pub(super) async fn place(
    config: &Config,
    asterisk: &AsteriskConfig,
    (choices, modules): (&[(AudioChoice, bool)], &BTreeSet<String>),
    stop: &CancellationToken,
    meanwhile: impl AsyncFn(&Standing<'_>),
) -> (Vec<Finding>, Vec<Trial>) {
    let mut probe = match Box::pin(Probe::connect(APP, asterisk, &config.media)).await {
        Ok(probe) => probe,
        Err(error) => {
            let remedy = "without a connection there are no test calls, and no real ones either";
            let says = format!("no test call could be placed: {error}");
            return (vec![Finding::problem(AREA, says, remedy)], Vec::new());
        }
    };
    let mut trials = Vec::new();
    for choice in choices {
        // A call with all of its parts is too much for the stack of the engine's threads in a debug build.
        let trying = Box::pin(media::try_one(&mut probe, *choice, (config, modules), &meanwhile));
        let Some(trial) = stop.run_until_cancelled(trying).await else { break };
        trials.push(trial);
    }
    let mut findings = Vec::new();
    if !probe.close().await {
        let remedy = "`asterisk -rx 'core show channels'`; those of a test have offhook-doctor in their name";
        findings.push(Finding::warning(AREA, "Asterisk has not cleared all of the test calls away yet", remedy));
    }
    (findings, trials)
}

/// Places of the dialplan that the configuration names, and the examples' own.
async fn dialplan(call: &Standing<'_>, config: &Config) -> Vec<Finding> {
    let mut named: Vec<(String, Place)> = Vec::new();
    for (name, destination) in &config.destinations {
        match &destination.way {
            Way::Dialplan(place) => named.push((format!("destinations.{name}"), place.clone())),
            Way::Dial(group) => named.extend(group.endpoints.iter().filter_map(|endpoint| {
                let (extension, context) = endpoint.strip_prefix("Local/")?.split_once('@')?;
                let context = context.split('/').next()?.to_owned();
                Some((format!("destinations.{name}"), Place { context, extension: extension.into(), priority: 1 }))
            })),
        }
    }
    if !config.voicemail.mailboxes.is_empty() {
        named.push(("voicemail".into(), config.voicemail.place.clone()));
    }
    let mut findings = Vec::new();
    for (setting, Place { context, extension, priority }) in named {
        let place = format!("{extension}@{context}");
        match call.place_exists(&context, &extension, priority).await {
            Some(true) => findings.push(Finding::ok("dialplan", format!("{setting}: {place} exists"))),
            Some(false) => findings.push(Finding::problem(
                "dialplan",
                format!("{setting}: the dialplan has no {place}"),
                "include dialplan/extensions_offhook.conf (or what `offhook init` has written), or name a place that exists",
            )),
            None => findings.push(Finding::warning(
                "dialplan",
                format!("{setting}: whether {place} exists cannot be told"),
                "Asterisk tells it where its module func_dialplan is loaded",
            )),
        }
    }
    findings.push(way_in(call, config).await);
    findings
}

/// ARI lists no dialplan. The examples can be asked for by name; whoever wrote their own knows it.
async fn way_in(call: &Standing<'_>, config: &Config) -> Finding {
    let app = config.asterisk.as_ref().map_or("offhook", |asterisk| &asterisk.app);
    for (context, extension) in EXAMPLES {
        if call.place_exists(context, extension, 1).await == Some(true) {
            return Finding::ok("dialplan", format!("the dialplan has offhook's example: {extension}@{context}"));
        }
    }
    Finding::warning(
        "dialplan",
        format!("which extension leads to Stasis({app}) cannot be told by ARI, and offhook's example is not there"),
        format!("`asterisk -rx 'dialplan show'` must show Stasis({app}) somewhere that your callers reach"),
    )
}
