//! The services of `deploy/neural` and what prepares them, without a model and without a network: `tests/sdk/check_neural.py`.
//! With the models of 200 MB they are tried by `make demo NEURAL=1`.

use crate::kit::{processes::words_of, python::sdk};
use std::{path::Path, process::Command};

/// The Python that `tests/lab/setup.sh` prepares them with.
fn python() -> &'static str {
    let debian = "/usr/bin/python3";
    if Path::new(debian).exists() { debian } else { "python3" }
}

fn check(case: &str) {
    let checked =
        Command::new(python()).arg("-B").arg(sdk("check_neural.py")).arg(case).output().expect("a Python that runs");
    assert!(checked.status.success(), "{}", words_of(&checked));
}

#[test]
fn packages_that_are_missing_or_changed_are_told_and_whole_ones_become_models() {
    check("Preparing");
}

#[test]
fn services_keep_to_their_limits() {
    check("Serving");
}

#[test]
fn services_that_end_are_started_again_and_end_with_their_supervisor() {
    check("Supervising");
}
