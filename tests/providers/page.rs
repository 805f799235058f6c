//! The table of providers and behaviours: `tests/fixtures/behaviours.yaml` says what holds, the tests that bear these
//! names show it, and `docs/providers-behaviour.md` is made from both:
//! `OFFHOOK_BLESS=1 cargo test --test whole_calls page` writes it.

use crate::providers::{
    kit::{
        behaviours::{Catalogue, catalogue},
        project,
    },
    table::providers,
};
use std::{fmt::Write as _, fs};

/// Names of the tests of each provider.
fn shown() -> Vec<(&'static str, Vec<&'static str>)> {
    providers().into_iter().map(|(provider, cases)| (provider, cases.to_vec())).collect()
}

fn page(catalogue: &Catalogue) -> String {
    let shown = shown();
    let mut page = String::from(
        "# Every provider, one behaviour\n\nWhat a caller can count on, whichever provider speaks. Each cell is a test of a \
         whole call, or of a whole session, against an\nemulator of that vendor's protocol: `cargo test --test whole_calls \
         PROVIDER::TEST`. This page is made from those tests\n(`tests/providers/page.rs`), which fail when a cell is neither \
         shown nor explained.\n",
    );
    let mut reasons: Vec<String> = Vec::new();
    for chapter in &catalogue.chapters {
        let shown: Vec<_> = shown.iter().filter(|(provider, _)| chapter.concerns(provider)).collect();
        let names: Vec<&str> = shown.iter().map(|(provider, _)| catalogue.providers[*provider].as_str()).collect();
        let _ = writeln!(page, "\n## {}", chapter.title);
        if !chapter.is_usual() {
            let place = format!("{}::providers::PROVIDER", chapter.program);
            let _ = writeln!(
                page,
                "\n`cargo test --test whole_calls {place}::emulated::TEST`, in virtual time; `{place}::real::TEST` is the same on a \
                 real\nAsterisk, by a real telephone."
            );
        }
        let _ = write!(page, "\n| behaviour | {} | test |\n", names.join(" | "));
        let _ = writeln!(page, "| --- |{} --- |", " --- |".repeat(shown.len()));
        for behaviour in &chapter.behaviours {
            let mut note = |reason: &String| {
                let known = reasons.iter().position(|other| other == reason);
                1 + known.unwrap_or_else(|| {
                    reasons.push(reason.clone());
                    reasons.len() - 1
                })
            };
            let mut cell = |(provider, _): &&(&str, Vec<&str>)| match behaviour.not_for.get(*provider) {
                Some(reason) => format!("– ({})", note(reason)),
                None => match behaviour.partly.get(*provider) {
                    Some(what) => format!("yes ({})", note(what)),
                    None => "yes".to_owned(),
                },
            };
            let cells: Vec<String> = shown.iter().map(&mut cell).collect();
            let _ = writeln!(page, "| {} | {} | `{}` |", behaviour.says, cells.join(" | "), behaviour.test);
        }
    }
    if !reasons.is_empty() {
        page.push_str("\n## Where there is none, or not all of it\n\n");
        for (at, reason) in reasons.iter().enumerate() {
            let _ = writeln!(page, "{}. {reason}", at + 1);
        }
    }
    page
}

#[test]
fn every_behaviour_is_shown_of_every_provider_or_told_why_not() {
    let gaps = catalogue().gaps("providers", &shown());
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
}

#[test]
fn the_page_of_behaviours_is_fresh() {
    let page = page(&catalogue());
    let path = project().join("docs/providers-behaviour.md");
    if std::env::var_os("OFFHOOK_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/providers-behaviour.md is stale; write it with OFFHOOK_BLESS=1 cargo test --test whole_calls page"
    );
}
