//! The unit tests of the core as a program with a name, so that `cargo test --test units` builds them with the features
//! that all packages share. `cargo test -p offhook-core --lib` would compile a hundred dependencies with others.

pub mod audio;
pub mod call;
pub mod chance;
pub mod facts;
pub mod gate;
pub mod redact;
pub mod sentences;
pub mod tool;
