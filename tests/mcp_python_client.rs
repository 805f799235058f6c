//! Our MCP servers, driven by the official MCP client for Python.

use crate::kit::python;

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
};
use tempfile::TempDir;

/// A server of this workspace.
fn server(name: &str) -> PathBuf {
    let path = offhook_kit::program().with_file_name(name);
    assert!(path.exists(), "{} is missing: run `cargo build` first", path.display());
    path
}

fn check(plan: &str, program: &Path) -> Output {
    let folder = TempDir::new().expect("a folder");
    let mut command = python::script("mcp", "check_mcp_servers.py");
    command.arg(plan).arg(program).arg(folder.path()).stdin(Stdio::null());
    command.output().expect("a Python that runs")
}

/// The check must find nothing, in a session with the handshake and in one without.
fn passes(plan: &str) {
    let output = check(plan, &server(plan));
    let (said, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{log}");
    for session in ["legacy: protocol", "auto: protocol", "all as they should be"] {
        assert!(said.contains(session), "no {session:?} in {said}{log}");
    }
}

#[test]
fn the_phonebook_serves_the_official_client() {
    passes("phonebook");
}

/// M26: the example server is a standard one: anybody's client starts it, reads its list, and calls its tool.
#[test]
fn the_aerodrome_information_serves_the_official_client() {
    passes("aviation_atis");
}

#[test]
fn the_check_itself_finds_what_a_faulty_server_does() {
    let faulty = offhook_kit::project().join("tests/kit/mcp/faulty.py");
    for (plan, problems) in [
        (
            "faulty",
            &[
                "echo: no outputSchema",
                "echo: no readOnlyHint",
                "{'sum': 2} instead of {'sum': 3}",
                "fail {}: isError",
                "hang {}: no answer",
                "echo {}: a bad call was not refused",
                "no call for",
            ][..],
        ),
        ("faulty-end", &["it did not end when its input was closed"]),
        ("faulty-schemas", &["the session broke"]),
    ] {
        let output = check(plan, &faulty);
        let words = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{plan} passed: {words}");
        let missed: Vec<_> = problems.iter().filter(|problem| !words.contains(*problem)).collect();
        assert!(missed.is_empty(), "{plan}: {missed:?} not found: {words}");
    }
}
