//! The corpus is fed to the parsers again, and so are changes of it that come out the same on every machine.

use super::{TARGETS, Target};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use std::{collections::BTreeSet, fs, path::PathBuf};

/// Changed inputs for each target, so that all of them take seconds in a debug build.
const CHANGES: usize = 200;
/// The same for a parser that checks a whole document against a schema each time.
const CHANGES_OF_DOCUMENTS: usize = 10;
/// A longer input is read like a shorter one of its kind, and slower.
const BYTES_MAX: usize = 64 << 10;
/// The corpus is part of every clone.
const CORPUS_BYTES_MAX: u64 = 2 << 20;
const FILES_MAX: usize = 120;

fn folder(target: &Target) -> PathBuf {
    crate::project("tests/fuzz/corpus").join(target.name)
}

fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = folder(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (path.display().to_string(), fs::read(&path).expect("a readable file")))
        .collect();
    files.sort();
    files
}

/// Names the input of a panic; the panic itself says what was wrong.
struct Fed<'a>(&'a str, &'a [u8]);

impl Drop for Fed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = std::env::temp_dir().join("offhook-fuzz-failure");
            let kept = fs::write(&path, self.1).map_or_else(|error| error.to_string(), |()| path.display().to_string());
            eprintln!("{} failed; its input is kept: {kept}", self.0);
        }
    }
}

fn feed(target: &Target, name: &str, input: &[u8]) {
    let _fed = Fed(name, input);
    (target.run)(input);
}

#[test]
fn every_target_has_a_corpus_every_corpus_a_target_and_all_of_it_is_small() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names.len(), TARGETS.len(), "each name once");
    let root = crate::project("tests/fuzz/corpus");
    let folders = fs::read_dir(root).expect("the corpus").map(|entry| entry.expect("an entry").file_name());
    assert_eq!(folders.map(|name| name.to_string_lossy().into_owned()).collect::<BTreeSet<_>>(), names);
    let mut bytes = 0;
    for target in TARGETS {
        let files = corpus(target);
        assert!((1..=FILES_MAX).contains(&files.len()), "{}: {} files", target.name, files.len());
        bytes += files.iter().map(|(_, input)| input.len() as u64).sum::<u64>();
    }
    assert!(bytes <= CORPUS_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn whatever_was_found_before_is_read_without_a_fault() {
    for target in TARGETS {
        feed(target, "nothing at all", &[]);
        for (name, input) in corpus(target) {
            feed(target, &name, &input);
        }
    }
}

#[test]
fn changes_of_it_are_read_without_a_fault() {
    for target in TARGETS {
        let corpus = corpus(target);
        let mut random = StdRng::seed_from_u64(8);
        let changes = if target.name == "configuration" { CHANGES_OF_DOCUMENTS } else { CHANGES };
        for number in 0..changes {
            let (name, input) = &corpus[random.random_range(0..corpus.len())];
            let other = &corpus[random.random_range(0..corpus.len())].1;
            let changed = changed(input, other, &mut random);
            feed(target, &format!("change {number} of {name}"), &changed);
        }
    }
}

/// One to eight changes as a fuzzer makes them, but without looking at what they lead to.
fn changed(input: &[u8], other: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..random.random_range(1..=8) {
        let at = random.random_range(0..=bytes.len());
        let end = random.random_range(at..=bytes.len().min(at + 64));
        match random.random_range(0..7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.insert(at, random.random()),
            3 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            4 if at < bytes.len() => bytes[at] = *b"\0\xff\n\r{}[]\",:0-9eE\x7f".get(end % 18).unwrap_or(&0),
            5 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            _ => {
                let from = random.random_range(0..=other.len());
                let to = random.random_range(from..=other.len().min(from + 512));
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    bytes.truncate(BYTES_MAX);
    bytes
}
