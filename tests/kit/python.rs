//! The Python interpreter that has the vendors' packages, and the scripts of `tests/sdk`.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// Where tests/lab/setup.sh puts things; the two name one place, however cargo is told.
pub fn target() -> PathBuf {
    crate::project().join(std::env::var_os("CARGO_TARGET_DIR").map_or(PathBuf::from("target"), PathBuf::from))
}

/// A file of `tests/sdk`.
pub fn sdk(name: &str) -> PathBuf {
    crate::project().join("tests/sdk").join(name)
}

/// The interpreter; `package` is what its absence keeps from being checked.
pub fn python(package: &str) -> PathBuf {
    let python = std::env::var_os("OFFHOOK_PYTHON").map_or(target().join("venv/bin/python"), PathBuf::from);
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
    command.arg(sdk(name));
    command
}

/// What a script says of these lines.
pub fn check_lines(package: &str, name: &str, arguments: &[&str], lines: &str) -> Output {
    feed(script(package, name).args(arguments), lines)
}

/// What a program says of these lines.
pub fn feed(command: &mut Command, lines: &str) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("a program that runs");
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("a program that reads");
    child.wait_with_output().expect("a program that ends")
}
