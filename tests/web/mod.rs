//! The page as people use it: a real engine, a real browser, real calls.
//!
//! `OFFHOOK_SCREENSHOTS=FOLDER cargo test --test real web::` also writes a picture of each page there.

use crate::kit;

mod api;
mod behind_nginx;
mod beside_asterisk;
mod newcomer;
mod past;

use kit::{
    asterisk::{Asterisk, Options},
    audio::{silence, speech},
    offhook::{Launch, Offhook, Place},
    phone::Phone,
    python::target,
};
use offhook::http::{Accounts, Role};
use std::{path::Path, process::Stdio, time::Duration};
use tokio::{process::Command, time::timeout};

const PASSWORD: &str = "correct horse battery";
const TOKEN: &str = "a token for programs";
/// Wide and narrow, with all pictures.
const JOURNEY_MAX: Duration = Duration::from_secs(420);

/// Agents that have something to say, and go on until somebody hangs up.
const AGENTS: &str = r#"
limits: { calls: 12 }
providers:
  voice:
    scripted:
      script:
        - say: "Good morning, this is the town library. How can I help you?"
        - say: "We are open from nine to six, and on Thursdays until eight."
        - tone: { hertz: 440, for: 120s }
  reader: { scripted: { script: [{ say: "Which book?" }, { listen: {} }, { say: "We have it." }, { listen: {} }] } }
  spare: { scripted: { script: [silence] } }
contexts:
  library: { prompt: A test, provider: voice, tools: [hangup_call, opening_hours], audiosocket_id: "0ff40001" }
  reservations: { prompt: A test, provider: voice, tools: [hangup_call], audiosocket_id: "0ff40002" }
  books: { prompt: A test, provider: reader, tools: [hangup_call] }
prices: { voice: { currency: EUR, source: A test, date: "2026-11-20", per_minute: { connected: 0.05 } } }
"#;

/// A declarative tool of the town's, which a context lists.
const TOOL: &str = r#"{
  "name": "opening_hours",
  "description": "Tells when the library is open on a day. Says so in a sentence.",
  "parameters": [{ "name": "day", "type": "string", "description": "As 2026-11-23.", "required": true }],
  "actions": [
    { "type": "validate", "rules": [{ "param": "day", "pattern": "[0-9]{4}-[0-9]{2}-[0-9]{2}", "message": "Which day?" }] },
    { "type": "api_call", "url": "https://library.example/hours?day={{params.day}}", "method": "GET",
      "headers": { "Authorization": "Bearer a key of the library" } }
  ],
  "on_success": [{ "type": "respond", "message": "On {{params.day}} we are open from {{result.body.from}}." }],
  "policy": { "access": "public_read", "risk_domain": "public_information" }
}"#;

/// An engine with past calls, an account for each role, and a second admin.
async fn engine(calls: u32) -> Offhook {
    engine_with(calls, AGENTS, None).await
}

async fn engine_with(calls: u32, agents: &str, asterisk: Option<&Asterisk>) -> Offhook {
    engine_at(calls, agents, asterisk, "").await
}

/// `more` are keys of the section `http`, each behind a comma.
async fn engine_at(calls: u32, agents: &str, asterisk: Option<&Asterisk>, more: &str) -> Offhook {
    let folder = tempfile::TempDir::with_prefix("offhook-web-").expect("a temporary directory");
    let accounts = Accounts::new(&folder.path().join("accounts.json"));
    for role in Role::ALL {
        accounts.add(role.label(), role, PASSWORD).expect("an account");
    }
    accounts.add("ada", Role::Admin, PASSWORD).expect("another admin");
    let tools = folder.path().join("tools");
    std::fs::create_dir(&tools).expect("the test's own folder");
    std::fs::write(tools.join("opening_hours.json"), TOOL).expect("the test's own folder");
    past::keep(&folder.path().join("records"), calls);
    let place = Place::free();
    let http = format!("http: {{ bind: \"127.0.0.1:{}\"", place.http);
    let yaml = format!(
        "{}records: {{ directory: records }}\ntenants: {{ town: {{ tools: tools, trusted: true }} }}\n{}{}",
        place.yaml(asterisk).replace(&http, &format!("{http}, accounts: accounts.json, admin_token: {TOKEN}{more}")),
        agents.trim_start(),
        mcp(),
    );
    // As the guide asks for, whose pictures show the file.
    let mut yaml = yaml.replace(&format!("admin_token: {TOKEN}"), "admin_token: \"${OFFHOOK_ADMIN_TOKEN}\"");
    let mut env = vec![("OFFHOOK_ADMIN_TOKEN", TOKEN.to_owned())];
    if let Some(asterisk) = asterisk {
        yaml = yaml.replace(asterisk.ari_password(), "${ARI_PASSWORD}");
        env.push(("ARI_PASSWORD", asterisk.ari_password().to_owned()));
    }
    Offhook::launch_in(folder, place, &yaml, Launch { env: &env, ..Launch::default() }).await
}

/// A server that works and one that does not. The first is a program of this project, beside offhook itself.
fn mcp() -> String {
    let root = offhook_kit::project();
    let (config, samples) = (root.join("config/aviation_atis.yaml"), root.join("mcp_servers/aviation_atis/samples"));
    format!(
        "mcp:\n  enabled: true\n  servers:\n    weather: {{ transport: stdio, command: [aviation_atis, --config, '{}', \
         --offline, '{}', --now, 2026-11-20T14:00:00Z] }}\n    broken:\n      transport: stdio\n      command: [sh, -c, 'exit 3']\n      \
         restart: {{ enabled: false }}\n",
        config.display(),
        samples.display()
    )
}

/// A script of this folder, which finds a browser, this page, and a place for what the browser keeps.
fn script(name: &str, page: &str, folder: &Path) -> Command {
    let modules = target().join("npm/node_modules/playwright-core");
    assert!(modules.exists(), "{} is missing: run `make setup`", modules.display());
    let mut command = Command::new("node");
    command
        .arg(offhook_kit::project().join("tests/web").join(name))
        .env("NODE_MODULES", target().join("npm/node_modules"))
        .env("PAGE", page)
        .env("PROFILE", folder.join("browser"))
        // What the browser says, and how it ends: shown where a script fails.
        .env("DEBUG", "pw:browser")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// The same for this engine.
fn node(name: &str, engine: &Offhook) -> Command {
    let mut command = script(name, &format!("http://{}", engine.http()), engine.folder());
    command.env("AUDIOSOCKET", engine.audiosocket()).env("PASSWORD", PASSWORD);
    command
}

/// Runs a script to its end; what it said, where that is not well.
async fn browsed(script: &mut Command) -> Result<(), String> {
    let output = timeout(JOURNEY_MAX, script.output()).await.expect("it ends in time").expect("a node that runs");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let well = output.status.success() && said.contains("all as it should be");
    if well { Ok(()) } else { Err(said) }
}

/// Runs a script of this folder with a browser.
async fn browse(name: &str, engine: &Offhook, more: &[(&str, String)]) {
    let mut command = node(name, engine);
    command.envs(more.iter().map(|(name, value)| (name, value)));
    browsed(&mut command).await.unwrap_or_else(|said| panic!("{said}\n{}", engine.log()));
}

/// Has people use the page of an engine of its own in this way, one of those in `journey.mjs`.
async fn people_use_the_page(view: &str) {
    let engine = engine(120).await;
    browse("journey.mjs", &engine, &[("VIEW", view.to_owned())]).await;
    let file = engine.read_config();
    assert!(
        file.ends_with("restart: { enabled: false }\n") && !file.contains("tower"),
        "the file is as it was: {file}"
    );
    for private in ["correct horse", "library. How can", "+4930", "key of the library"] {
        assert!(!engine.log().contains(private), "{private} reached the log");
    }
}

/// Issue 7: log in, see a call appear and end, hang one up, search, open a call, delete it; by keyboard, and without anything
/// that a screen reader stumbles over.
#[tokio::test(flavor = "multi_thread")]
async fn people_follow_calls_at_a_desk() {
    people_use_the_page("calls at a desk").await;
}

/// Issue 7: the same on a phone, in the dark colours.
#[tokio::test(flavor = "multi_thread")]
async fn people_follow_calls_on_a_phone() {
    people_use_the_page("calls on a phone").await;
}

/// Issue 7: run the engine, change its configuration, its tools and its servers, with others who do so too.
#[tokio::test(flavor = "multi_thread")]
async fn people_run_the_engine_at_a_desk() {
    people_use_the_page("the engine at a desk").await;
}

/// Issue 7: the same on a phone, in the dark colours.
#[tokio::test(flavor = "multi_thread")]
async fn people_run_the_engine_on_a_phone() {
    people_use_the_page("the engine on a phone").await;
}

/// Issue 7: a call is seen and hung up where the browser runs no scripts.
#[tokio::test(flavor = "multi_thread")]
async fn people_use_the_page_without_scripts() {
    people_use_the_page("without scripts").await;
}

/// What the pictures show besides: who answers as many callers as the plots of *Providers* need, and where an operator can
/// send a caller. Their pauses stand for the time that a model takes.
fn pictured() -> String {
    let script = |pauses: &[u32]| -> String {
        let turn = |pause: &u32| format!(", {{ listen: {{}} }}, {{ pause: {pause}ms }}, {{ say: Yes. }}");
        pauses.iter().map(turn).collect()
    };
    let clerk = script(&[120, 60, 210, 140, 90, 160, 340, 110, 80, 900]);
    let guide = script(&[420, 300, 610, 480, 350, 1_100, 520, 390, 700, 450]);
    let providers = format!(
        "  clerk: {{ scripted: {{ script: [{{ say: Hello. }}{clerk}, silence] }} }}\n  \
         guide: {{ scripted: {{ script: [{{ say: Hello. }}{guide}, silence] }} }}\n  spare:"
    );
    let contexts = "  loans: { prompt: A test, provider: clerk, fallbacks: [spare], audiosocket_id: \"0ff40003\" }\n  \
                    tours: { prompt: A test, provider: guide, fallbacks: [spare], audiosocket_id: \"0ff40004\" }\n  books:";
    let prices = ["clerk", "guide"].map(|provider| {
        format!(
            ", {provider}: {{ currency: EUR, source: A test, date: \"2026-11-20\", per_minute: {{ connected: 0.05 }} }}"
        )
    });
    let desk = "destinations: { desk: { description: The desk, context: lab-targets, extension: desk } }\n";
    let agents = AGENTS.replace("  spare:", &providers).replace("  books:", contexts);
    let agents = agents.replace("0.05 } } }", &format!("0.05 }} }}{} }}", prices.concat()));
    format!("default_context: library\n{desk}{}", agents.trim_start())
}

/// The pictures of the guide, beside a real Asterisk with a telephone.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_has_its_picture_taken() {
    let Some(pictures) = std::env::var_os("OFFHOOK_SCREENSHOTS") else { return };
    let asterisk = Asterisk::start(Options::default()).await;
    let engine = engine_with(900, &pictured(), Some(&asterisk)).await;
    let pictures = offhook_kit::project().join(pictures).display().to_string();
    let ada = Phone::call_as(asterisk.sip_port(), "7000", silence(JOURNEY_MAX), "Ada Byron", "+4930555019").await;
    let words = engine.folder().join("words");
    let samples = speech(Duration::from_millis(1_200)).samples;
    let bytes: Vec<u8> = samples.into_iter().flat_map(i16::to_le_bytes).collect();
    std::fs::write(&words, bytes).expect("the test's own folder");
    let told = [("PICTURES", pictures), ("WORDS", words.display().to_string())];
    browse("pictures.mjs", &engine, &told).await;
    drop(ada);
}
