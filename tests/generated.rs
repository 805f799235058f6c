//! The code of VAM's messages is that of its `.proto` files: `make proto` writes it, and the sums of all that belongs to it.
//! It is kept, and not made by each build, since its compiler takes a twentieth of a first build.

use crate::kit::project;
use sha2::{Digest as _, Sha256};
use std::fs;

#[test]
fn the_code_of_the_messages_is_that_of_the_proto_files() {
    let proto = project().join("proto");
    let sums = fs::read_to_string(proto.join("generated/made_from")).unwrap();
    let kept = |name: &str| sums.lines().any(|line| line.ends_with(&format!("  {name}")));
    for entry in fs::read_dir(proto.join("vani/v1")).unwrap() {
        let name = format!("vani/v1/{}", entry.unwrap().file_name().display());
        assert!(kept(&name), "proto/{name} is not in the code of the messages; `make proto` makes it anew");
    }
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let file = fs::read(proto.join(name)).unwrap();
        let found: String = Sha256::digest(file).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, sum, "proto/{name} has changed; `make proto` makes the code of the messages anew");
    }
}
