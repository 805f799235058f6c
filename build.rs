//! Puts the commit into the program, for the line that the engine logs when it starts. Only into
//! release builds: a commit would else compile everything anew. Where there is no repository, as in
//! the build of an image, OFFHOOK_COMMIT names it.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if release { commit() } else { "development".into() };
    println!("cargo::rustc-env=OFFHOOK_COMMIT={commit}");
}

fn commit() -> String {
    println!("cargo::rerun-if-env-changed=OFFHOOK_COMMIT");
    if let Ok(commit) = std::env::var("OFFHOOK_COMMIT") {
        return commit;
    }
    println!("cargo::rerun-if-changed=.git/logs/HEAD");
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok();
    let text = output.filter(|output| output.status.success()).and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "unknown".into(), |text| text.trim().to_owned())
}
