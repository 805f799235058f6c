//! Traceability: which tests show which requirement. `docs/conformance.md` is made from doc comments of tests and from
//! `tests/fixtures/conformance.yaml`: `OFFHOOK_BLESS=1 cargo test --test house conformance` writes it.
//!
//! A doc comment that begins with a marker claims that its test shows a requirement: `/// P12, P22: …`, or
//! `/// D answer 9: …` for an open question of the document. The letter is the document, the number the item of its list in
//! `conformance.yaml`:
//!
//! - `P`: the voice server's tool policy
//! - `G`: the Agent Action Contract
//! - `D`: the decision on declarative tools (ADR-003)
//! - `M`: the integration of MCP tools
//! - `V`: VAM/1.0
//! - `T`: no document, but what Asterisk 22 was seen to do, and what follows from it
//!
//! The words after the colon say what the test adds to its name, and can be understood without the list. Comments that are
//! no such claim cite the document by its title.

use offhook_kit::project;
use regex::Regex;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// What the tests are held to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    documents: Vec<Document>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    letter: String,
    title: String,
    /// The requirement of number `n` is the item `n - 1`.
    requirements: Vec<String>,
    /// How an open question of the document is answered here.
    answers: Vec<String>,
}

impl Document {
    /// The id of each requirement, or of each answer, with its sentence.
    fn items(&self, answers: bool) -> impl Iterator<Item = (String, &str)> {
        let (word, items) = if answers { (" answer ", &self.answers) } else { ("", &self.requirements) };
        let id = move |index: usize| format!("{}{word}{}", self.letter, index + 1);
        items.iter().enumerate().map(move |(index, text)| (id(index), text.as_str()))
    }
}

/// A test as the page names it, with its doc comment.
struct Shown {
    path: String,
    doc: String,
}

fn catalogue() -> Catalogue {
    let text = fs::read_to_string(project().join("tests/fixtures/conformance.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `src/engine/view.rs` is `engine::view`, `src/core/tool/policy/tests/path.rs` is `core/tool::policy::tests::path`,
/// `tests/call/mod.rs` is `tests/call`, `mcp_servers/phonebook/src/book.rs` is `phonebook/book`.
fn module_of(file: &str) -> String {
    if let Some((package, file)) = file.strip_prefix("mcp_servers/").and_then(|file| file.split_once('/')) {
        return format!("{package}/{}", module_of(file));
    }
    if let Some(file) = file.strip_prefix("src/core/") {
        return format!("core/{}", module_of(file));
    }
    let file = file.trim_start_matches("src/").trim_end_matches(".rs");
    let file = file.trim_end_matches("/mod").trim_end_matches("/main");
    match file.strip_prefix("tests/") {
        Some(file) => format!("tests/{}", file.replace('/', "::")),
        None => file.replace('/', "::"),
    }
}

/// Scenes of a file by the world in which they are tests that are run without being asked for by name: those of `scenes!`.
fn scenes_of(text: &str) -> BTreeMap<String, &'static str> {
    // Comments may hold any of the signs that are looked for.
    let text: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let text = text.join("\n");
    let block = text.split_once("scenes! {").and_then(|(_, rest)| rest.split_once('}')).map_or("", |(block, _)| block);
    let lists = block.split(';').filter_map(|list| list.split_once(':'));
    let named = lists.flat_map(|(kind, names)| {
        let world = match kind.trim() {
            "real" | "both" => Some("emulated"),
            "only_real" => Some("only_real"),
            _ => None,
        };
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.filter_map(move |name| Some((name.to_owned(), world?)))
    });
    named.collect()
}

/// Every test of a file that is run without being asked for by name.
fn tests_of(file: &str, text: &str) -> Vec<Shown> {
    let mut module = module_of(file);
    let scenes = scenes_of(text);
    let mut shown = Vec::new();
    let (mut doc, mut is_test, mut is_ignored) = (String::new(), false, false);
    for line in text.lines() {
        let code = line.trim_start();
        if let Some(words) = code.strip_prefix("///") {
            doc = format!("{doc} {}", words.trim()).trim_start().to_owned();
        } else if code.starts_with("#[") {
            is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
            is_ignored |= code.starts_with("#[ignore");
        } else if !code.is_empty() && !code.starts_with("//") {
            if line.starts_with("mod tests {") {
                module.push_str("::tests");
            }
            let name = code.trim_start_matches("async ").strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            let scene = name.and_then(|name| scenes.get(name));
            if let (Some(name), Some(world)) = (name, scene) {
                shown.push(Shown { path: format!("{module}::{world}::{name}"), doc: std::mem::take(&mut doc) });
            } else if let (Some(name), true, false) = (name, is_test, is_ignored) {
                shown.push(Shown { path: format!("{module}::{name}"), doc: std::mem::take(&mut doc) });
            }
            (doc, is_test, is_ignored) = (String::new(), false, false);
        }
    }
    shown
}

fn all_tests() -> Vec<Shown> {
    let mut files = Vec::new();
    for folder in ["src", "tests", "mcp_servers"] {
        rust_files(&project().join(folder), &mut files);
    }
    files.sort();
    let tests = files.iter().flat_map(|path| {
        let file = path.strip_prefix(project()).unwrap().display().to_string();
        tests_of(&file, &fs::read_to_string(path).unwrap())
    });
    tests.collect()
}

/// The ids that a doc comment names before a colon, at its beginning or at that of a sentence.
fn ids(doc: &str) -> Result<Vec<String>, String> {
    const ID: &str = r"[PGDMTV](?: answers?)? ?\d+";
    static LIST: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(&format!(r"(?:^|[.;] )({ID}(?:(?:, | and )(?:{ID}|\d+))*): ")).unwrap());
    static ONE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:([PGDMTV])( answers?)? ?)?(\d+)").unwrap());
    static MEANT: LazyLock<Regex> = LazyLock::new(|| Regex::new(&format!("^{ID}")).unwrap());
    let mut found = Vec::new();
    for names in LIST.captures_iter(doc) {
        // In `D answers 20, 22 and 24` the later numbers have no letter of their own.
        let mut kind = (String::new(), false);
        for name in ONE.captures_iter(&names[1]) {
            if let Some(letter) = name.get(1) {
                kind = (letter.as_str().to_owned(), name.get(2).is_some());
            }
            let word = if kind.1 { " answer " } else { "" };
            found.push(format!("{}{word}{}", kind.0, &name[3]));
        }
    }
    if found.is_empty() && MEANT.is_match(doc) {
        return Err(format!("not understood: {doc}"));
    }
    Ok(found)
}

/// The tests by the ids they name; what they name that does not exist.
fn by_id(catalogue: &Catalogue, tests: &[Shown]) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
    let mut shown: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for document in &catalogue.documents {
        shown.extend(document.items(false).chain(document.items(true)).map(|(id, _)| (id, Vec::new())));
    }
    let mut wrong = Vec::new();
    for Shown { path, doc } in tests {
        match ids(doc) {
            Err(why) => wrong.push(format!("{path}: {why}")),
            Ok(named) => {
                for id in named {
                    match shown.get_mut(&id) {
                        Some(paths) => paths.push(path.clone()),
                        None => wrong.push(format!("{path} names {id}, which does not exist")),
                    }
                }
            }
        }
    }
    (shown, wrong)
}

fn page(catalogue: &Catalogue, shown: &BTreeMap<String, Vec<String>>) -> String {
    let mut page = String::from(
        "# Conformance\n\nWhat five documents ask of offhook, in our words, and the tests that show it. `P` is the voice \
         server's tool policy, `G`\nthe Agent Action Contract, `D` the decision on declarative tools (ADR-003), `M` the \
         integration of MCP tools, `V` VAM/1.0. `T` is no document: it is\nwhat Asterisk 22 was seen to do, and what follows from it.\nWhere a requirement speaks of something that offhook has in another form, the sentence \
         says which.\n\n\
         Tests name in their doc comment what they show; this page is made from those comments \
         (`tests/conformance.rs`), which\nfails when a number has no test. `tests/call::tools::x` is run by\n`cargo test call::tools::x`, \
         `core/x` by `cargo test --test units x`, `phonebook/x` by `cargo test -p phonebook x`, what begins otherwise by\n\
         `cargo test --lib x`.\n",
    );
    let mut table = |document: &Document, answers: bool| {
        let (title, what) = match answers {
            false => (document.title.clone(), "requirement"),
            true => (format!("{}: open questions", document.title), "answered as"),
        };
        write!(page, "\n## {title}\n\n| | {what} | shown by |\n| --- | --- | --- |\n").unwrap();
        for (id, text) in document.items(answers) {
            let tests: Vec<String> = shown[&id].iter().map(|path| format!("`{path}`")).collect();
            writeln!(page, "| {id} | {text} | {} |", tests.join("<br>")).unwrap();
        }
    };
    catalogue.documents.iter().for_each(|document| table(document, false));
    let answered = catalogue.documents.iter().filter(|document| !document.answers.is_empty());
    answered.for_each(|document| table(document, true));
    page
}

#[test]
fn every_requirement_is_shown_by_a_test() {
    let catalogue = catalogue();
    let (shown, mut wrong) = by_id(&catalogue, &all_tests());
    wrong.extend(shown.iter().filter(|(_, tests)| tests.is_empty()).map(|(id, _)| format!("no test shows {id}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_documents_are_whole() {
    let sizes = catalogue()
        .documents
        .into_iter()
        .map(|document| (document.letter, document.requirements.len(), document.answers.len()));
    let expected = [("P", 31, 14), ("G", 19, 12), ("D", 18, 29), ("M", 45, 20), ("T", 26, 0), ("V", 47, 18)];
    assert_eq!(sizes.collect::<Vec<_>>(), expected.map(|(letter, asks, answers)| (letter.to_owned(), asks, answers)));
}

#[test]
fn the_page_is_fresh() {
    let catalogue = catalogue();
    let page = page(&catalogue, &by_id(&catalogue, &all_tests()).0);
    let path = project().join("docs/conformance.md");
    if std::env::var_os("OFFHOOK_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/conformance.md is stale; write it with OFFHOOK_BLESS=1 cargo test --test house conformance"
    );
}

#[test]
fn a_number_that_does_not_exist_or_is_not_shown_is_told() {
    let test = |doc: &str| Shown { path: "x".into(), doc: doc.into() };
    let (shown, wrong) = by_id(&catalogue(), &[test("P99: something"), test("D answer 30, G1: more"), test("P1 slip")]);
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert_eq!((shown["G1"].len(), shown["P1"].len()), (1, 0));
}

#[test]
fn ids_are_read_in_every_notation() {
    let read = |doc: &str| ids(doc).unwrap().join(" ");
    assert_eq!(read("P12, P22: something"), "P12 P22");
    assert_eq!(read("D answers 20, 22 and 24: something"), "D answer 20 D answer 22 D answer 24");
    assert_eq!(read("P15, P answer 3, G answer 12: a question"), "P15 P answer 3 G answer 12");
    assert_eq!(read("D answer 20: one thing. D answer 24: another"), "D answer 20 D answer 24");
    assert_eq!(read("M12, M14, M answer 3: names"), "M12 M14 M answer 3");
    assert_eq!(read("As P12 has it (P3): not a claim"), "");
    assert_eq!(read("No claim at all."), "");
    assert!(ids("P12 something without a colon").is_err());
}

#[test]
fn tests_are_found_wherever_they_stand() {
    let text = "/// P1: no test\nfn help() {}\n#[cfg(test)]\nmod tests {\n    /// P2: a test,\n    /// of two lines.\n    \
                #[tokio::test(flavor = \"x\")]\n    async fn two() {}\n    /// P3: never run\n    #[test]\n    \
                #[ignore]\n    fn three() {}\n    proptest! {\n        /// P4: of anything\n        #[test]\n        \
                fn four(x in 0..3) {}\n    }\n}\n";
    let found: Vec<_> = tests_of("src/mcp/x.rs", text).into_iter().map(|test| (test.path, test.doc)).collect();
    let expected = [("mcp::x::tests::two", "P2: a test, of two lines."), ("mcp::x::tests::four", "P4: of anything")];
    assert_eq!(found, expected.map(|(path, doc)| (path.to_owned(), doc.to_owned())));
    let text = "/// P5: a scene\nasync fn five() {}\n/// P6: help\nasync fn six() {}\n/// P7: on a real one\nasync fn \
                seven() {}\n/// P8: asked for\nasync fn eight() {}\ncrate::scenes! {\n    // Why:\n    both: five;\n    \
                // A process.\n    only_real:\n        seven;\n}\n";
    let found: Vec<_> = tests_of("tests/calls/x.rs", text).into_iter().map(|test| test.path).collect();
    assert_eq!(found, ["tests/calls::x::emulated::five", "tests/calls::x::only_real::seven"]);
    assert_eq!(
        (module_of("tests/call/mod.rs"), module_of("tests/call/tools.rs")),
        ("tests/call".into(), "tests/call::tools".into())
    );
    assert_eq!(module_of("src/core/tool/mod.rs"), "core/tool");
    let server = "mcp_servers/phonebook/";
    assert_eq!(
        (module_of(&format!("{server}src/book.rs")), module_of(&format!("{server}tests/server.rs"))),
        ("phonebook/book".into(), "phonebook/tests/server".into())
    );
}
