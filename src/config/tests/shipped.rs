//! What is committed beside the code, held against the code.

use super::*;
use crate::project;
use std::path::Path;

/// The catalog of the program itself.
pub fn shipped() -> &'static Catalog {
    crate::provider::catalog()
}

/// Compares a committed file with what the code generates; `OFFHOOK_BLESS=1` writes it.
fn is_fresh(path: &str, generated: &str) {
    let file = project(path);
    if std::env::var_os("OFFHOOK_BLESS").is_some() {
        fs::write(&file, generated).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == generated, "{path} is stale: OFFHOOK_BLESS=1 cargo test --lib config");
}

#[test]
fn the_schema_for_editors_is_fresh() {
    is_fresh("config/offhook.schema.json", &schema_text(shipped()));
}

#[test]
fn the_reference_is_fresh() {
    is_fresh("docs/configuration.md", &reference(shipped()));
}

/// Without the files of the MCP servers, each named as its server: those are held against their own code.
fn shipped_files() -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(project("config")).unwrap().map(|entry| entry.unwrap().path());
    let of_a_server = |path: &Path| project("mcp_servers").join(path.file_stem().unwrap()).is_dir();
    let is_ours = |path: &std::path::PathBuf| path.extension().is_some_and(|ext| ext == "yaml") && !of_a_server(path);
    let mut files: Vec<_> = entries.filter(is_ours).collect();
    files.sort();
    assert!(files.len() >= 2, "{files:?}");
    files
}

#[test]
fn every_file_in_config_resolves_to_what_is_committed() {
    for file in shipped_files() {
        let config = load(&file, &env, shipped()).unwrap_or_else(|problems| panic!("{problems}"));
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        // Folders are told with the whole path, which is another on each machine.
        let shown = format!("{config:#?}").replace(&*project("").to_string_lossy(), "[project]/");
        insta::assert_snapshot!(name, shown, "config");
    }
}

#[test]
fn every_file_in_config_is_right_for_editors_too() {
    let schema: Value = serde_json::from_str(&schema_text(shipped())).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for file in shipped_files() {
        // As an editor reads it: variables are still text.
        let value: Value = serde_yaml::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", file.display());
    }
}

#[test]
fn what_runs_on_a_fresh_clone_needs_no_variable() {
    for file in ["config/offhook.yaml", "config/attendant.yaml", "config/neural.yaml"] {
        let config = load(&project(file), &|_| None, shipped()).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(config.warnings.is_empty(), "{file}: {:?}", config.warnings);
    }
}

#[test]
fn no_file_has_a_password_of_its_own() {
    for file in ["config/asterisk.yaml", "config/self_hosted.yaml"] {
        let problems = load(&project(file), &|_| None, shipped()).unwrap_err().to_string();
        assert!(problems.ends_with("ARI_PASSWORD is not set; set it"), "{problems}");
        assert_eq!(problems.lines().count(), 1);
    }
}

/// M44: the smoke configuration is one context, `demo_mcp`, with one tool of an MCP server and `hangup_call`; what is
/// shipped has nothing to warn of.
#[test]
fn the_smoke_configuration_has_one_context_with_one_tool_of_a_server() {
    let config = load(&project("config/mcp.yaml"), &env, shipped()).unwrap_or_else(|problems| panic!("{problems}"));
    let contexts: Vec<_> = config.contexts.iter().map(|(name, context)| (name.as_str(), &context.tools[..])).collect();
    assert_eq!(contexts, [("demo_mcp", &["mcp_aviation_atis".to_owned(), "hangup_call".to_owned()][..])]);
    let server = config.mcp.owner("mcp_aviation_atis").expect("a server");
    assert_eq!(server.tools.keys().collect::<Vec<_>>(), ["get_atis"]);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    // The dialplan that goes with it.
    let dialplan = fs::read_to_string(project("dialplan/extensions_offhook.conf")).unwrap();
    assert!(dialplan.contains(",1,Set(AI_CONTEXT=demo_mcp)\n same => n,Stasis(offhook)\n"));
}

/// M answer 17: who copies an example of the documents has tools that run: it is whole, right, and nothing is warned of.
#[test]
fn the_examples_with_servers_are_whole() {
    let env = |name: &str| Some(format!("value-of-{name}"));
    for file in ["docs/mcp.md", "mcp_servers/aviation_atis/README.md", "mcp_servers/phonebook/README.md"] {
        let text = fs::read_to_string(project(file)).unwrap();
        let examples: Vec<_> =
            text.split("```yaml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
        assert!(!examples.is_empty(), "{file}");
        for example in examples {
            let config = load_str(file, example, &env, shipped()).unwrap_or_else(|problems| panic!("{problems}"));
            assert!(config.warnings.is_empty(), "{:?}", config.warnings);
            let mut listed = config.contexts.values().flat_map(|context| &context.tools);
            assert!(listed.any(|tool| config.mcp.owner(tool).is_some()), "{file}: a context lists a tool of a server");
        }
    }
}

/// What the comments of offhook.yaml offer has to be right as well.
#[test]
fn the_commented_sections_of_the_documented_file_are_right() {
    let text = fs::read_to_string(project("config/offhook.yaml")).unwrap();
    let is_key = |line: &str| {
        let key = line.trim_start().split(": ").next().unwrap_or_default().trim_end_matches(':');
        let ends = line.contains(": ") || line.trim_end().ends_with(':');
        ends && !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let uncommented: Vec<String> = text
        .lines()
        .map(|line| match line.split_once("# ") {
            // A clip that exists only in an installation.
            Some((before, key)) if before.trim().is_empty() && is_key(key) && !key.starts_with("apology") => {
                format!("{before}{key}")
            }
            _ => line.to_owned(),
        })
        .collect();
    let text = uncommented.join("\n");
    for section in [
        "\nasterisk:",
        "\n  admin_token:",
        "\ndestinations:",
        "\nvoicemail:",
        "\nextensions:",
        "\nmail:",
        "\n  openai:",
        "\n    audio: rtp/ulaw",
    ] {
        assert!(text.contains(section), "{section}");
    }
    let variables = ["ARI_PASSWORD", "OPENAI_API_KEY", "SMTP_PASSWORD", "OFFHOOK_ADMIN_TOKEN"];
    let env = |name: &str| variables.contains(&name).then(|| "x".repeat(16));
    load_str("offhook.yaml", &text, &env, shipped()).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
}
