//! Rules of the house that a machine can hold: which way imports point, how long a file may get, and
//! that documents written from code are fresh. `OFFHOOK_BLESS=1 cargo test` writes those documents.

mod chance;
mod clocks;
mod programs;

use offhook::{call::EndReason, records::Ending};
use offhook_kit::project;
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// Each layer may use itself and those before it; layers in one row do not know each other.
const LAYERS: &[&[&str]] = &[
    &["chance", "redact", "sentences"],
    &["facts"],
    &["audio"],
    &["gate"],
    &["tool"],
    &["call"],
    &["wall_clock", "connections"],
    &["config"],
    &["telemetry"],
    &["records"],
    &["remote"],
    &["stt", "llm", "speech"],
    &["asterisk", "provider", "outbound", "mcp", "http"],
    &["store", "vam"],
    &["doctor"],
    &["engine"],
];
/// Names that carry bytes or read clocks, and so have no place in the core, which decides.
const IO: &[&str] =
    &["tokio", "axum", "reqwest", "tokio_tungstenite", "std::net", "std::thread", "std::time::SystemTime"];
const LINES_MAX: usize = 600;

fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&project().join(folder), &mut found);
    found.sort();
    let name = |path: &Path| path.strip_prefix(project()).unwrap().display().to_string();
    found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// The code of a file without its unit tests and comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn module_of(name: &str) -> &str {
    name.trim_start_matches("src/").trim_start_matches("core/").split(['/', '.']).next().unwrap()
}

/// The modules of this crate that a file names, also inside `use crate::{…}`.
fn uses(code: &str) -> Vec<String> {
    let all: Vec<&str> = LAYERS.iter().flat_map(|layer| layer.iter().copied()).collect();
    let mut found = Vec::new();
    for piece in code.split("crate::").skip(1) {
        if let Some(group) = piece.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            for letter in group.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    _ => {}
                }
                if depth == 0 && (letter.is_alphanumeric() || letter == '_') {
                    word.push(letter);
                } else if depth == 0 && letter == ',' {
                    word.clear();
                } else if depth == 0 && letter == ':' && !word.is_empty() {
                    found.push(std::mem::take(&mut word));
                }
            }
        } else {
            found.push(piece.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    found.retain(|word| all.contains(&word.as_str()));
    found
}

#[test]
fn the_scene_that_the_kit_shows_is_one_that_runs_and_has_no_more_than_twenty_lines() {
    let text = |path: &str| fs::read_to_string(project().join(path)).unwrap();
    let kit = text("tests/kit/world.rs");
    let shown = kit.lines().skip_while(|line| *line != "//! ```ignore").skip(1).take_while(|line| *line != "//! ```");
    let shown: Vec<&str> =
        shown.map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or_default()).collect();
    assert!((10..=20).contains(&shown.len()), "{} lines", shown.len());
    assert!(
        text("tests/calls/first_scene.rs").ends_with(&format!("{}\n", shown.join("\n"))),
        "tests/calls/first_scene.rs"
    );
}

#[test]
fn imports_point_one_way() {
    let rank = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    let mut wrong = Vec::new();
    for (name, text) in sources("src") {
        let module = module_of(&name).to_owned();
        let Some(own) = rank(&module) else { continue };
        if name.contains("/tests") {
            continue;
        }
        for used in uses(&code(&text)) {
            let other = rank(&used).unwrap();
            if used != module && other >= own {
                wrong.push(format!("{name} uses crate::{used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "imports against the direction in ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

#[test]
fn the_core_has_no_io_and_no_clock() {
    let mut wrong = Vec::new();
    let sources = sources("src/core");
    assert!(sources.iter().any(|(name, _)| name == "src/core/call/machine.rs"), "the search finds the core");
    for (name, text) in &sources {
        let code = code(text);
        wrong.extend(IO.iter().filter(|word| code.contains(*word)).map(|word| format!("{name} names {word}")));
    }
    for path in ["src/core/Cargo.toml", "src/core/audio/Cargo.toml"] {
        let manifest = fs::read_to_string(project().join(path)).unwrap();
        let manifest = manifest.split("[dependencies]").nth(1).unwrap();
        for crate_name in ["tokio", "axum", "reqwest", "rusqlite", "tracing", "log"] {
            let line = manifest.lines().find(|line| line.starts_with(&format!("{crate_name} =")));
            wrong.extend(line.map(|line| format!("{path} depends on {line}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A test sets it, and must not miss a reader.
#[test]
fn the_wall_clock_is_read_in_one_place() {
    let is_a_reader = |(name, text): &&(String, String)| {
        let is_free = name.contains("/tests") || name.starts_with("src/cli/") || name == "src/wall_clock.rs";
        !is_free && ["Timestamp::now", "SystemTime::now", "Zoned::now"].iter().any(|word| code(text).contains(word))
    };
    let sources = sources("src");
    let wrong: Vec<&str> = sources.iter().filter(is_a_reader).map(|(name, _)| name.as_str()).collect();
    assert!(wrong.is_empty(), "read it by `wall_clock`: {wrong:?}");
}

#[test]
fn no_file_has_outgrown_its_concept() {
    let long = |(name, text): (String, String)| {
        let lines = text.lines().count();
        (lines > LINES_MAX).then(|| format!("{name}: {lines} lines"))
    };
    let wrong: Vec<String> = ["src", "tests", "mcp_servers"].into_iter().flat_map(sources).filter_map(long).collect();
    assert!(wrong.is_empty(), "look for the missing concept:\n{}", wrong.join("\n"));
}

/// A clone may run what another one compiled: paths are asked for at run time.
#[test]
fn no_path_of_a_clone_is_compiled_in() {
    let compiled_in = [
        concat!("env!(\"CARGO_", "MANIFEST_DIR"),
        concat!("env!(\"CARGO_", "BIN_EXE"),
        concat!("env!(\"CARGO_", "TARGET_TMPDIR"),
    ];
    let all = ["src", "tests", "mcp_servers"].into_iter().flat_map(sources);
    let wrong: Vec<String> =
        all.filter(|(_, text)| compiled_in.iter().any(|macro_| text.contains(macro_))).map(|(name, _)| name).collect();
    assert!(wrong.is_empty(), "use `offhook_kit::project()` or `program()`: {wrong:?}");
}

#[test]
fn nothing_is_left_unfinished() {
    let words = ["todo!(", "unimplemented!(", "dbg!(", concat!("FIX", "ME"), concat!("TO", "DO")];
    let mut wrong = Vec::new();
    for (name, text) in sources("src").into_iter().chain(sources("tests")) {
        if name != "tests/tidy.rs" {
            wrong.extend(words.iter().filter(|word| text.contains(*word)).map(|word| format!("{name}: {word}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_of_endings_is_fresh() {
    let mut page = String::from(
        "# Why a call ended\n\nEvery call ends with one reason. It is in the log line `call ended`, in the record on the \
         pages, and in the metric\n`offhook_calls_total{reason,class}`. The class says whose doing it was.\n\n\
         | reason | class | meaning |\n| --- | --- | --- |\n",
    );
    for reason in EndReason::all() {
        let (label, class, meaning) = (reason.label(), reason.class().label(), reason.describe());
        writeln!(page, "| `{label}` | {class} | {meaning} |").unwrap();
    }
    // What becomes known later, and what nobody is there to count: only records have it.
    for Ending { label, class, description } in [Ending::transfer_failed(), Ending::killed()] {
        writeln!(page, "| `{label}` | {class} | {description}; in records alone |").unwrap();
    }
    let path = project().join("docs/endings.md");
    let written = fs::read_to_string(&path).unwrap_or_default();
    // What stands below the table is written by hand.
    page.push_str(written.find("\n## ").map_or("", |at| &written[at..]));
    if std::env::var_os("OFFHOOK_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/endings.md is stale; write it with OFFHOOK_BLESS=1 cargo test --test house tidy");
}

/// Every document of the project with its name, without the parts that are code.
fn documents() -> Vec<(PathBuf, String)> {
    let folders = [project().to_owned(), project().join("docs"), project().join("docs/guides")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap().flatten()).map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    files.sort();
    let prose = |path: &PathBuf| {
        let mut fenced = false;
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fence && !fenced
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    files.iter().map(|path| (path.clone(), prose(path))).collect()
}

/// Where a document points to: `[text](target)`, `![image](target)`, `[name]: target`, `src="target"`.
fn targets(text: &str) -> Vec<&str> {
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '\n']).next());
    let named = text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ").map(|(_, target)| target));
    let html = ["src=\"", "href=\"", "srcset=\""].into_iter();
    let html = html.flat_map(|key| text.split(key).skip(1).filter_map(|rest| rest.split('"').next()));
    let all = inline.chain(named).chain(html);
    all.map(|target| target.split('#').next().unwrap_or_default().trim())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let documents = documents();
    assert!(documents.iter().any(|(path, text)| path.ends_with("README.md") && !targets(text).is_empty()));
    let mut wrong = Vec::new();
    for (path, text) in &documents {
        let folder = path.parent().unwrap();
        let missing = targets(text).into_iter().filter(|target| !folder.join(target).exists());
        wrong.extend(missing.map(|target| format!("{}: {target}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_picture_of_a_page_is_in_a_document() {
    let folder = project().join("docs/images");
    let is_picture = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "png");
    let taken = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    let taken: BTreeSet<PathBuf> = taken.filter(is_picture).collect();
    let mut shown = BTreeSet::new();
    for (path, text) in documents() {
        let places = targets(&text).into_iter().map(|target| path.parent().unwrap().join(target));
        shown.extend(places.filter(is_picture).map(|place| folder.join(place.file_name().unwrap())));
    }
    let names =
        |pictures: BTreeSet<&PathBuf>| pictures.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    assert!(!taken.is_empty());
    assert_eq!(names(taken.difference(&shown).collect()), [""; 0], "no document shows them");
    assert_eq!(names(shown.difference(&taken).collect()), [""; 0], "documents show them, and they are not there");
    // Of a page there are three: at a desk, light and dark, and on a phone.
    let pages = fs::read_to_string(project().join("docs/web.md")).unwrap();
    let script = fs::read_to_string(project().join("tests/web/pictures.mjs")).unwrap();
    let takes: Vec<&str> = script.split("take(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let taken: BTreeSet<_> = targets(&pages).into_iter().collect();
    for page in takes.into_iter().chain(["providers", "mcp", "system"]) {
        for kind in ["", "-dark", "-phone"] {
            let picture = format!("images/page-{page}{kind}.png");
            assert!(taken.contains(&*picture), "docs/web.md does not show {picture}");
        }
    }
}

/// Code with the marks of a merge does not compile; a document with them looks fine to every other test.
#[test]
fn no_document_is_left_unmerged() {
    let is_mark = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
    let wrong = documents().into_iter().filter(|(path, _)| fs::read_to_string(path).unwrap().lines().any(is_mark));
    let wrong: Vec<_> = wrong.map(|(path, _)| path).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn no_document_has_a_gap_left_to_be_filled() {
    let is_gap = |word: &&str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    let mut wrong = Vec::new();
    for (path, _) in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let parts: Vec<&str> = text.split('@').collect();
        // What stands between two signs: neither the first part nor the last.
        let between = parts.iter().take(parts.len() - 1).skip(1).copied();
        wrong.extend(between.filter(is_gap).map(|word| format!("{}: @{word}@", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn targets_are_found_in_every_notation() {
    let text = "[a](a.md#b) ![i](i.png \"t\") [x](https://x.y) [y](#z)\n[n]: n.md\n<img src=\"s.svg\">";
    assert_eq!(targets(text), ["a.md", "i.png", "n.md", "s.svg"]);
}

/// The page about a call's tools has a line for each of them, and names those that need ARI.
#[test]
fn every_built_in_tool_is_on_the_page_of_telephony() {
    let page = fs::read_to_string(project().join("docs/telephony.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    for tool in offhook::tool::BUILT_IN {
        assert!(rows.contains(&tool), "docs/telephony.md has no line about {tool}");
    }
    let needs = page.split(" need ARI").next().unwrap().split("runs.\n").last().unwrap();
    let mut named: Vec<&str> = needs.split('`').skip(1).step_by(2).collect();
    let mut expected = offhook::tool::NEEDS_ARI.to_vec();
    named.sort();
    expected.sort();
    assert_eq!(named, expected, "the tools that need ARI");
}

/// Who runs offhook has to find the two streams of records in its log.
#[test]
fn the_log_targets_are_in_the_readme() {
    let readme = fs::read_to_string(project().join("README.md")).unwrap();
    let running = readme.split("## Running it").nth(1).unwrap();
    let named: String = sources("src").into_iter().map(|(_, text)| text).collect();
    for target in ["offhook::audit", "journal"] {
        assert!(
            named.contains(&format!("target: \"{target}\"")) && running.contains(&format!("`{target}`")),
            "{target}"
        );
    }
}

/// Sentences that callers hear word for word are in `sentences.rs`, in every language. What is to be told to a model is told, not
/// said: an agent without a model would say it to the caller.
#[test]
fn no_sentence_for_callers_is_written_into_a_call() {
    let said = |text: &str| {
        let calls = text.split(".say(").chain(text.split(".say_now(")).skip(1);
        let quoted = calls.filter_map(|call| call.strip_prefix("&format!(").unwrap_or(call).strip_prefix('"'));
        quoted.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(said(r#"self.say("Hello.", now, out); self.say(&closing, now, out);"#).len(), 1, "the rule itself");
    for (file, text) in sources("src/core/call") {
        let words: Vec<String> = said(&text).iter().map(|sentence| sentence.chars().take(40).collect()).collect();
        assert!(
            words.is_empty(),
            "{file} has sentences of its own, which belong into src/core/sentences.rs: {words:?}"
        );
    }
}
