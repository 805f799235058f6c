//! The program as it is started: its help, and what it says where it cannot begin.

use std::process::{Command, Output};

fn bench() -> Command {
    let this = std::env::current_exe().expect("a test program");
    Command::new(this.ancestors().nth(2).expect("target/debug/deps").join("offhook-bench"))
}

fn said(command: &mut Command) -> (Output, String) {
    let output = command.output().expect("cargo builds it beside its tests");
    let said = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
    (output, said)
}

#[test]
fn help_names_every_part_and_the_exit_codes() {
    let (output, manual) = said(bench().arg("--help"));
    assert_eq!(output.status.code(), Some(0), "{manual}");
    let parts = "gate tools mcp records page recording turns barge-in greeting soak vam failover repair";
    for part in parts.split(' ') {
        assert!(manual.contains(&format!("\n  {part} ")), "{part} is missing:\n{manual}");
        let (output, help) = said(bench().args([part, "--help"]));
        assert_eq!(output.status.code(), Some(0), "{part}: {help}");
        assert!(help.contains(&format!("Usage: offhook-bench {part}")), "{part}: {help}");
    }
    assert!(manual.contains("\nUsage: offhook-bench ") && manual.contains("\nEXIT CODES\n"), "{manual}");
    assert!(!manual.contains("\n  floor "), "what only the program itself starts is not for people: {manual}");
}

#[test]
fn a_wrong_argument_is_exit_code_2() {
    for wrong in [["--calls", "0"], ["--only", "nobody"]] {
        let (output, said) = said(bench().args(wrong));
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {said}");
    }
}

/// Alone in a folder, the program has no engine to start.
#[test]
fn an_engine_that_is_missing_is_told_with_the_remedy() {
    let bench = bench();
    let built = std::path::Path::new(bench.get_program());
    let folder = tempfile::TempDir::new_in(built.parent().expect("target/debug")).expect("a temporary directory");
    let alone = folder.path().join("offhook-bench");
    // A copy cannot be started as long as a program that another test starts holds it open for writing.
    std::fs::hard_link(built, &alone).expect("the program has another name");
    let (output, said) = said(&mut Command::new(alone));
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("there is no ") && said.contains("/offhook (`cargo build` makes it)"), "{said}");
}
