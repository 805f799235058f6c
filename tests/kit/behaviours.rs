//! The table of providers and behaviours, `tests/fixtures/behaviours.yaml`: what holds, and by which test it is shown.
//! Each program of tests checks that its own are there.

use serde::Deserialize;
use std::{collections::BTreeMap, fs};

/// Default test program of a chapter.
const DEFAULT_PROGRAM: &str = "providers";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Providers as they are named on the page.
    pub providers: BTreeMap<String, String>,
    pub chapters: Vec<Chapter>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chapter {
    pub title: String,
    /// The program of tests that shows it.
    #[serde(default = "default_program")]
    pub program: String,
    /// The providers that it concerns, if not all.
    #[serde(default)]
    pub only: Vec<String>,
    pub behaviours: Vec<Behaviour>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    pub says: String,
    pub test: String,
    /// Why it does not concern a provider.
    #[serde(default)]
    pub not_for: BTreeMap<String, String>,
    /// What of it is shown of a provider, where that is not all.
    #[serde(default)]
    pub partly: BTreeMap<String, String>,
}

fn default_program() -> String {
    DEFAULT_PROGRAM.into()
}

impl Chapter {
    pub fn concerns(&self, provider: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == provider)
    }

    pub fn is_usual(&self) -> bool {
        self.program == DEFAULT_PROGRAM
    }
}

pub fn catalogue() -> Catalogue {
    let text =
        fs::read_to_string(crate::project().join("tests/fixtures/behaviours.yaml")).expect("the table of behaviours");
    serde_yaml::from_str(&text).expect("the table of behaviours")
}

impl Catalogue {
    /// Everything of this program is shown of every provider or told why not: what is not so. `shown` has the names of
    /// the tests of each provider.
    pub fn gaps(&self, program: &str, shown: &[(&str, Vec<&str>)]) -> Vec<String> {
        let chapters: Vec<&Chapter> = self.chapters.iter().filter(|chapter| chapter.program == program).collect();
        let listed: Vec<&Behaviour> = chapters.iter().flat_map(|chapter| &chapter.behaviours).collect();
        let mut gaps = Vec::new();
        for provider in self.providers.keys().filter(|name| !shown.iter().any(|(provider, _)| provider == name)) {
            gaps.push(format!("{provider} has no tests"));
        }
        for (provider, tests) in shown {
            if !self.providers.contains_key(*provider) {
                gaps.push(format!("{provider} has no name"));
            }
            let concerns = chapters.iter().filter(|chapter| chapter.concerns(provider));
            for behaviour in concerns.flat_map(|chapter| &chapter.behaviours) {
                match (tests.contains(&behaviour.test.as_str()), behaviour.not_for.contains_key(*provider)) {
                    (true, true) => gaps.push(format!("{provider}::{} is there, and explained away", behaviour.test)),
                    (false, false) => gaps.push(format!("{provider}::{} is missing", behaviour.test)),
                    _ => {}
                }
            }
            let unlisted = tests.iter().filter(|test| !listed.iter().any(|behaviour| behaviour.test == **test));
            gaps.extend(unlisted.map(|test| format!("{provider}::{test} is on no line of behaviours.yaml")));
        }
        let excepted = listed.iter().flat_map(|behaviour| behaviour.not_for.keys().chain(behaviour.partly.keys()));
        let named = excepted.chain(chapters.iter().flat_map(|chapter| &chapter.only));
        gaps.extend(
            named.filter(|name| !self.providers.contains_key(*name)).map(|name| format!("{name} is no provider")),
        );
        gaps
    }
}
