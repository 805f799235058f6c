//! One program for all targets: `FUZZ_TARGET` names the one it runs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use offhook::fuzzing::{TARGETS, target_named};
use std::sync::LazyLock;

static RUN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let Some(target) = target_named(&name) else {
        let known: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("FUZZ_TARGET={name:?} is no target; there are: {}", known.join(", "));
        std::process::exit(2);
    };
    target.run
});

fuzz_target!(|data: &[u8]| (*RUN)(data));
