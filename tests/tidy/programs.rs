//! Programs of tests in the whole workspace, and the files of each.

use offhook_kit::project;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Every program of tests by its package's folder and its name, and why it is not a module of another one. Being linked with
/// the whole engine takes 150 MB and half a minute of two cores.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("", "house", "reads files, and needs neither a clock nor a network"),
    ("", "real", "starts other programs, in real time"),
    ("", "whole_calls", "has a paused clock"),
    ("mcp_servers/aviation_atis", "server", "starts that server, and is not linked with the engine"),
    ("mcp_servers/phonebook", "server", "starts that server, and is not linked with the engine"),
    ("src/core", "stories", "is linked with the core only"),
    ("src/core", "units", "is linked with the core only: its modules with their unit tests"),
    ("tests/bench", "program", "makes cargo build the bench for the others, and is not linked with the engine"),
];

/// Seconds that the chosen scenes on a real Asterisk may take in each run.
const SCENES_MAX: u32 = 300;

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Folders of the packages of the workspace, from the project's own; that one is "".
fn packages() -> Vec<String> {
    let manifest = read(&project().join("Cargo.toml"));
    let (_, members) = manifest.split_once("\nmembers = [").expect("a workspace");
    let (members, _) = members.split_once(']').expect("a list");
    let mut packages = vec![String::new()];
    for member in members.split('"').skip(1).step_by(2) {
        match member.strip_suffix("/*") {
            None => packages.push(member.to_owned()),
            Some(above) => {
                let below =
                    entries(&project().join(above)).into_iter().filter(|folder| folder.join("Cargo.toml").exists());
                packages.extend(below.map(|folder| format!("{above}/{}", name_of(&folder))));
            }
        }
    }
    packages
}

fn name_of(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

/// Programs of tests that cargo makes of a package: those of its manifest and, unless that forbids it, those that cargo finds.
fn programs_of(package: &str) -> BTreeSet<String> {
    let folder = project().join(package);
    let manifest = read(&folder.join("Cargo.toml"));
    let named = manifest.split("[[test]]\nname = \"").skip(1);
    let mut programs: BTreeSet<String> = named.map(|rest| rest.split('"').next().unwrap().to_owned()).collect();
    if !manifest.contains("\nautotests = false\n") {
        let is_program = |path: &PathBuf| {
            path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists()
        };
        programs.extend(entries(&folder.join("tests")).into_iter().filter(is_program).map(|path| name_of(&path)));
    }
    programs
}

#[test]
fn no_program_joins_the_list_of_test_programs() {
    let packages = packages();
    assert!(packages.iter().any(|package| package == "tests/kit"), "the search finds packages: {packages:?}");
    let programs = |package: &String| {
        programs_of(package).into_iter().map(|program| format!("{package}: {program}")).collect::<Vec<_>>()
    };
    let found: BTreeSet<String> = packages.iter().flat_map(programs).collect();
    let allowed: BTreeMap<String, &str> =
        PROGRAMS.iter().map(|(package, program, why)| (format!("{package}: {program}"), *why)).collect();
    let more = found.iter().filter(|program| !allowed.contains_key(*program));
    let mut wrong: Vec<String> =
        more.map(|program| format!("{program} has to be a module of another program")).collect();
    let gone = allowed.iter().filter(|(program, _)| !found.contains(*program));
    wrong.extend(gone.map(|(program, why)| format!("{program}, which {why}, is not there")));
    assert!(wrong.is_empty(), "programs of tests:\n{}", wrong.join("\n"));
}

/// Files of a program of the project's own package, as its `mod` lines lead to them.
pub fn files_of(program: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(&format!("tests/{program}.rs"), "tests", &mut found);
    found
}

/// `below`: the folder of the modules that `file` declares.
fn walk(file: &str, below: &str, found: &mut BTreeSet<String>) {
    found.insert(file.to_owned());
    let (mut path, mut below) = (None, vec![below.to_owned()]);
    for line in read(&project().join(file)).lines() {
        if let Some(named) = line.trim().strip_prefix("#[path = \"") {
            path = named.split('"').next().map(|path| format!("{}/{path}", folder_of(file)));
        } else if line == "}" {
            below.truncate(1);
        } else if let Some(module) = module_in(line) {
            let own = format!("{}/{module}", below.last().expect("the file's own"));
            match (path.take(), line.ends_with('{')) {
                (path, true) => below.push(path.unwrap_or(own)),
                (Some(path), false) => walk(&path, folder_of(&path), found),
                (None, false) => {
                    let one = format!("{own}.rs");
                    let file = if project().join(&one).exists() { one } else { format!("{own}/mod.rs") };
                    walk(&file, &own, found);
                }
            }
        }
    }
}

fn folder_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The module that a line declares, in a file of its own or in a block.
fn module_in(line: &str) -> Option<&str> {
    let declared = line.trim().strip_suffix([';', '{'])?.trim_end();
    let (public, module) = declared.split_once("mod ")?;
    let is_name = module.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && (public.is_empty() || public.starts_with("pub") && public.ends_with(' '))).then_some(module)
}

#[test]
fn files_are_found_wherever_a_module_leads() {
    let (whole_calls, real) = (files_of("whole_calls"), files_of("real"));
    for file in ["tests/calls/mcp/strangers.rs", "tests/providers/stages/programs.rs", "tests/vam/acting.rs"] {
        assert!(whole_calls.contains(file) && !real.contains(file), "{file}");
    }
    assert!(whole_calls.contains("tests/vam/client.rs") && real.contains("tests/vam/client.rs"));
    assert!(whole_calls.contains("tests/bench/turns/people.rs"));
    assert!(real.contains("tests/vam/real.rs") && !whole_calls.contains("tests/vam/real.rs"));
}

/// The runner ends them there, and fails.
#[test]
fn scenes_in_real_time_end_within_five_minutes() {
    let plan = read(&project().join("tests/lab/run_tests.py"));
    let scenes = plan.lines().find(|line| line.starts_with("SCENES = Run(")).expect("the row of the scenes");
    let limit = scenes.split("limit=").nth(1).and_then(|rest| rest.split(',').next()).expect("a limit of its own");
    assert!(limit.parse::<u32>().unwrap() <= SCENES_MAX, "{limit} s");
}
