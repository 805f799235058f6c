//! A process of a test's own, for a test that sets something global: a subscriber, an environment variable. Such a test runs
//! its program once more, with itself as the only test.

use super::processes::words_of;
use std::{
    env,
    process::{Output, Stdio},
};
use tokio::process::Command;

/// Holds the name of the test in the process that runs it alone.
const ALONE: &str = "OFFHOOK_TEST_ALONE";

/// The name by which the test program knows a test: `module` is the caller's `module_path!()`.
pub fn whole_name(module: &str, test: &str) -> String {
    let (_, module) = module.split_once("::").expect("a module of a test program");
    format!("{module}::{test}")
}

/// Whether this process runs nothing but this test.
pub fn is_alone(module: &str, test: &str) -> bool {
    env::var_os(ALONE).is_some_and(|name| *name == *whole_name(module, test))
}

/// The command that runs this test alone.
pub fn command(module: &str, test: &str) -> Command {
    let name = whole_name(module, test);
    let mut command = Command::new(env::current_exe().expect("a test is a program"));
    command.args(["--exact", &name]).env(ALONE, &name).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs this test alone.
pub async fn runs(module: &str, test: &str) {
    assert_passed(&command(module, test).output().await.expect("the test program runs"));
}

/// A name that no test has runs nothing, which is a success to the test program.
pub fn assert_passed(output: &Output) {
    let said = words_of(output);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
