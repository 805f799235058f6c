//! Support that the test programs share: a real Asterisk with real telephones and an emulated one (`exchange`), virtual
//! time, sound that can be measured, the engine as a process or within the test, and emulated providers.

// Lets a module here be named `crate::kit::…`, as in the test programs.
extern crate self as kit;

pub mod asterisk;
pub mod attendant;
pub mod audio;
pub mod authority;
pub mod behaviours;
pub mod exchange;
pub mod mail_server;
pub mod mcp_stand_in;
pub mod offhook;
pub mod openai_shapes;
pub mod own_net;
pub mod own_process;
pub mod phone;
pub mod processes;
pub mod proxy;
pub mod python;
pub mod relay;
pub mod seen;
pub mod service;
pub mod spoken;
pub mod stage;
pub mod stages;
pub mod terminal;
pub mod tied;
pub mod vendor;
pub mod virtual_time;
pub mod world;
pub mod wyoming;

// The demo's caller and its voice.
#[path = "../../src/cli/caller.rs"]
pub mod caller;
#[path = "../../src/cli/speech.rs"]
pub mod speech;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    time::Duration,
};

/// The folder of the project. Cargo tells where a package is when a test of it runs: what was compiled may be of another clone.
pub fn project() -> &'static Path {
    static FOUND: LazyLock<PathBuf> = LazyLock::new(|| {
        let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo tells"));
        package
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").exists())
            .expect("a package of the project")
            .to_owned()
    });
    &FOUND
}

/// The lines of JSON that a program has written so far. A line without its end is still being written.
pub fn json_lines(text: &str) -> Vec<serde_json::Value> {
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON: {error}: {line}"))).collect()
}

/// The program `offhook`, which is built beside every test program.
pub fn program() -> PathBuf {
    let this = std::env::current_exe().expect("a test program");
    this.ancestors().nth(2).expect("target/debug/deps").join("offhook")
}

/// Writes a script that is started next. The program `install` writes it: a test beside this one that starts something may inherit a
/// descriptor of a file that this process writes, and a file that is open for writing cannot be started.
pub fn write_script(file: &Path, script: &str) {
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(file)
        .stdin(Stdio::piped())
        .spawn()
        .expect("coreutils are on every Debian");
    install.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("install reads");
    assert!(install.wait().expect("it ends").success(), "{} cannot be written", file.display());
}

/// A file of the build: a program of this workspace by its name, or what `make setup` installs by its path.
pub fn built(path: &str) -> PathBuf {
    let program = program();
    let target = program.ancestors().nth(2).expect("target/debug/offhook");
    let file = if path.contains('/') { target.join(path) } else { program.with_file_name(path) };
    assert!(file.exists(), "{} is missing: run `cargo build` and `make setup` first", file.display());
    file
}

/// Short form of `Duration::from_millis`, of which tests are full.
pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
