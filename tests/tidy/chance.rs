//! Chance: calls in virtual time sound the same each time, so nothing that a caller hears is drawn from anywhere else than
//! `chance`, whose source tests set.

use super::{code, sources};

/// Folders and files whose tasks decide what callers hear, in the product and in the emulated providers.
const DECIDES: &[&str] = &[
    "src/core/",
    "src/engine/line/",
    "src/llm/",
    "src/provider/",
    "src/stt/",
    "src/tts/",
    "tests/kit/stages/",
    "tests/kit/vendor/",
];

/// Files that draw from the system's randomness: of secrets, of numbers in a packet's head, and of ports.
const DRAWS: &[&str] = &[
    "src/asterisk/ports.rs",
    "src/asterisk/rtp/outgoing.rs",
    "src/core/chance.rs",
    "src/core/tool/policy/confirm.rs",
    "src/http/login/password.rs",
    "src/http/login/sessions.rs",
];

/// How often code waits for several things without an order among those that come at the same moment.
fn unordered(code: &str) -> usize {
    code.split("select! {").skip(1).filter(|rest| !rest.trim_start().starts_with("biased;")).count()
}

fn draws(code: &str) -> bool {
    ["rand::random", "rand::rng", "RngExt"].iter().any(|source| code.contains(source))
}

/// `tokio::select!` begins at a random branch unless it says `biased;`.
#[test]
fn what_comes_at_the_same_moment_has_an_order() {
    let files = ["src", "tests/kit"].into_iter().flat_map(sources);
    let files = files.filter(|(name, _)| DECIDES.iter().any(|folder| name.starts_with(folder)));
    let (mut looked_at, mut wrong) = (0, Vec::new());
    for (name, text) in files {
        looked_at += text.matches("select! {").count();
        if unordered(&code(&text)) > 0 {
            wrong.push(name);
        }
    }
    assert!(looked_at > 10, "the search finds {looked_at} of them");
    assert!(wrong.is_empty(), "`select!` without `biased;` in {wrong:?}");
}

#[test]
fn what_is_left_to_chance_comes_from_one_source() {
    let files = sources("src").into_iter().filter(|(name, text)| !name.contains("/tests") && draws(&code(text)));
    let drawing: Vec<String> = files.map(|(name, _)| name).collect();
    assert_eq!(drawing, DRAWS, "files that draw, and those that may; others take `chance`");
}

#[test]
fn the_search_finds_what_it_looks_for() {
    let ordered = "tokio::select! {\n    biased;\n    a = b => {}\n}";
    let random = "tokio::select! {\n    a = b => {}\n}";
    assert_eq!((unordered(ordered), unordered(random)), (0, 1));
    assert!(draws("use rand::RngExt as _;") && draws("rand::random::<u64>()") && !draws("chance::bits()"));
}
