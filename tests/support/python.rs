//! The Python that has the vendors' packages. A file of its own, for programs that need nothing else here.

// Each test program takes what it needs; the rest is unused in that one.
#![allow(dead_code)]

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// The interpreter; `package` is what its absence keeps from being checked.
pub fn python(package: &str) -> PathBuf {
    // Where tests/lab/setup.sh puts it; the two name one place, however cargo is told.
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(PathBuf::from("target"), PathBuf::from);
    let usual = root.join(target).join("venv/bin/python");
    let python = std::env::var_os("OFFHOOK_PYTHON").map_or(usual, PathBuf::from);
    assert!(
        python.exists(),
        "{} is missing: run `make setup`, or set OFFHOOK_PYTHON to a Python that has the package `{package}`",
        python.display()
    );
    python
}

/// A script of `tests/sdk`.
pub fn script(package: &str, name: &str) -> Command {
    let mut command = Command::new(python(package));
    command.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sdk").join(name));
    command
}

/// What a script says of these lines.
pub fn check_lines(package: &str, name: &str, arguments: &[&str], lines: &str) -> Output {
    let mut command = script(package, name);
    let mut child = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a Python that runs");
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("a script that reads");
    child.wait_with_output().expect("a script that ends")
}

/// What a program printed, for a test that failed.
pub fn words_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
