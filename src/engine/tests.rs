//! What only shows from inside: a fault of the engine itself, and a provider that is in no table.

#[path = "../../tests/toy_provider/toy.rs"]
mod toy;
#[path = "../../tests/toy_provider/vendor.rs"]
mod vendor;

use super::{
    Engine, Source, call_task::without_strange_names, generation::Generation, publishing, view::View,
    workshop::Workshop,
};
use crate::{
    asterisk::audiosocket::{Codec, Frame},
    call::{EndReason, Initiator, Note, TransferTarget},
    config::{self, Services},
    facts::CallFacts,
    http::{ConfigurationError, Configurations as _, Draft, EngineView as _},
    provider::{self, Among},
    remote::wards::Wards,
    telemetry::Metrics,
    tool::{Approved, HANGUP_CALL, Tool, ToolOutcome, ToolSpec},
};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _, future::BoxFuture};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::codec::Framed;
use uuid::Uuid;

const SOON: Duration = Duration::from_secs(10);

const YAML: &str = r#"
http: { bind: "127.0.0.1:0" }
media: { audiosocket: { bind: "127.0.0.1:0" } }
providers:
  breaks: { scripted: { script: [{ call: { tool: hangup_call } }, listen: {}] } }
  stays: { scripted: { script: [{ tone: { hertz: 440, for: 60s } }] } }
contexts:
  breaks: { prompt: Test, provider: breaks, tools: [hangup_call], audiosocket_id: "0ff40001" }
  stays: { prompt: Test, provider: stays, audiosocket_id: "0ff40002" }
"#;

fn loaded() -> config::Config {
    config::load_str("test.yaml", YAML, &|_| None, provider::catalog()).unwrap()
}

async fn engine() -> Engine {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Engine::start(Source::Memory, loaded(), Metrics::new("test")).await.unwrap()
}

/// An engine with its configuration in a file, which is gone with the folder.
async fn engine_of_a_file(yaml: &str) -> (TempDir, PathBuf, Engine) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("offhook.yaml");
    std::fs::write(&path, yaml).unwrap();
    let config = config::load(&path, &|_| None, provider::catalog()).unwrap();
    let engine = Engine::start(Source::File(path.clone()), config, Metrics::new("test")).await.unwrap();
    (folder, path, engine)
}

async fn connect(engine: &Engine, context: u8) -> Framed<TcpStream, Codec> {
    let mut id = *Uuid::new_v4().as_bytes();
    id[..4].copy_from_slice(&[0x0f, 0xf4, 0x00, context]);
    let stream = TcpStream::connect(engine.audiosocket_addr()).await.unwrap();
    let mut socket = Framed::new(stream, Codec);
    socket.send(Frame::Id(Uuid::from_bytes(id))).await.unwrap();
    socket
}

/// A tool that panics.
struct Broken;

impl Tool for Broken {
    fn spec(&self) -> ToolSpec {
        ToolSpec::on_the_call(HANGUP_CALL, "", serde_json::json!({ "type": "object" }))
    }

    fn run(&self, _: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        panic!("the test breaks this tool")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_in_one_call_ends_that_call_alone_and_politely() {
    let engine = engine().await;
    engine.shared.breaks_on_tools.store(true, Relaxed);

    let mut stays = connect(&engine, 2).await;
    let mut breaks = connect(&engine, 1).await;
    let hung_up = async {
        while let Some(Ok(frame)) = breaks.next().await {
            if frame == Frame::HangUp {
                return true;
            }
        }
        false
    };
    assert!(timeout(SOON, hung_up).await.unwrap(), "the dialplan is told to go on");
    drop(breaks);
    let ended = async {
        while engine.calls().view().recent.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, ended).await.unwrap();
    let view = engine.calls().view();
    assert_eq!(view.recent[0].reason, EndReason::EngineFault.into());
    assert!(engine.metrics().text().contains(r#"offhook_calls_total{class="engine",reason="engine_fault"} 1"#));

    assert_eq!(view.active.len(), 1, "the other call stands");
    let silence = Bytes::from(vec![0; 320]);
    stays.send(Frame::Audio { rate: 8_000, samples: silence }).await.unwrap();
    let next = timeout(SOON, stays.next()).await.unwrap();
    assert!(matches!(next, Some(Ok(Frame::Audio { .. }))), "and is heard");
    engine.stop().await;
}

/// One that is written as `docs/adding-a-provider.md` says, at its vendor's, in a call.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_of_the_guide_serves_a_caller() {
    let engine = engine().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = serde_json::json!({ "base_url": format!("ws://{}", listener.local_addr().unwrap()) });
    let serving = tokio::spawn(vendor::serves(listener));
    let among = Among { services: &Services::default(), wards: &Wards::default() };
    let provider = (toy::KIND.build)(&options, &among).unwrap_or_else(|problems| panic!("{problems:?}"));
    let mut generation =
        Generation::build(2, loaded(), &Workshop::closed()).unwrap_or_else(|errors| panic!("{errors:?}"));
    generation.providers.insert("stays".into(), provider);
    engine.shared.generation.store(Arc::new(generation));

    let mut caller = connect(&engine, 2).await;
    let spoken = async {
        // Its vendor says the same byte again and again, a loud one.
        let is_its = |samples: &Bytes| {
            let first = samples[..2].to_vec();
            first != [0, 0] && samples.chunks_exact(2).all(|sample| sample == first)
        };
        while let Some(Ok(frame)) = caller.next().await {
            if matches!(&frame, Frame::Audio { samples, .. } if is_its(samples)) {
                return true;
            }
            let silence = Bytes::from(vec![0; 320]);
            caller.send(Frame::Audio { rate: 8_000, samples: silence }).await.unwrap();
        }
        false
    };
    assert!(timeout(SOON, spoken).await.unwrap(), "the caller hears the vendor");
    drop(caller);
    timeout(SOON, engine.calls().none_left()).await.unwrap();
    let ended = &engine.calls().view().recent[0];
    assert_eq!((&ended.reason, ended.counts.agent_turns), (&EndReason::CallerHungUp.into(), 1));
    serving.await.unwrap();
    engine.stop().await;
}

/// M answer 9: how much of a result is told is part of the context, which a reload brings to new calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_changes_how_much_of_a_result_is_told() {
    let (_folder, path, engine) = engine_of_a_file(YAML).await;
    let told = || {
        let rules = engine.shared.generation.load().config.contexts["stays"].policy.rules.clone();
        (rules.result_bytes_max, rules.forward_data)
    };
    assert_eq!(told(), (None, None));
    std::fs::write(&path, format!("{YAML}policy: {{ max_result_bytes: 2048, forward_data: false }}\n")).unwrap();
    assert!(engine.shared.reload().is_ok());
    assert_eq!(told(), (Some(2048), Some(false)));
    engine.stop().await;
}

/// As a file on a network mount that does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_read_hangs_is_told_and_the_next_reload_goes_on() {
    let (folder, path, engine) = engine_of_a_file(YAML).await;
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let refused = engine.shared.reload_within(Duration::from_millis(50)).unwrap_err();
    assert!(refused.problems[0].contains("could not be read within 50ms"), "{:?}", refused.problems);
    let pipe = folder.path().join("pipe");
    std::fs::rename(&path, &pipe).unwrap();
    std::fs::write(&path, format!("{YAML}policy: {{ max_result_bytes: 2048 }}\n")).unwrap();
    let report = engine.shared.reload().unwrap_or_else(|failure| panic!("{:?}", failure.problems));
    assert_eq!(report.generation, 2);
    // The thread ends with the test's runtime, which waits for it.
    drop(std::fs::File::options().write(true).open(&pipe).unwrap());
    engine.stop().await;
}

/// A tenant that a reload brings is as good as one of the start: its tools are changed by its token and on the page.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_a_reload_brings_has_its_tools_changed_without_a_restart() {
    let yaml =
        |tenants: &str| format!("{YAML}tenants:\n  acme: {{ tools: acme, tokens: [token-of-the-acme] }}\n{tenants}");
    let (folder, path, engine) = engine_of_a_file(&yaml("")).await;
    let client = reqwest::Client::new();
    let create = async |token: &str| {
        let tool = serde_json::json!({ "name": "greet", "description": "Greets.", "actions": [] });
        let url = format!("http://{}/api/v1/tools", engine.http_addr());
        client.post(url).bearer_auth(token).json(&tool).send().await.unwrap().status().as_u16()
    };
    assert_eq!(create("token-of-the-bolt").await, 401);

    // Refused whole: neither the tenant nor the token is there afterwards.
    std::fs::write(&path, yaml("  bolt: { tools: bolt, tokens: [short] }\n")).unwrap();
    let refused = engine.shared.reload().unwrap_err();
    assert!(refused.problems[0].contains("tenants.bolt.tokens[0]: is shorter"), "{:?}", refused.problems);
    std::fs::write(&path, yaml("  bolt: { tools: bolt, tokens: [token-of-the-bolt] }\n")).unwrap();
    let report = engine.shared.reload().unwrap_or_else(|failure| panic!("{:?}", failure.problems));
    // Contexts as well: one that names no tenant has the tools of the only one, and there are two now.
    let changed = ["contexts", "tenants"].map(str::to_owned).to_vec();
    assert_eq!((report.changed, report.needs_restart), (changed, vec![]));
    assert_eq!(create("token-of-the-bolt").await, 201);
    assert!(folder.path().join("bolt/greet.json").exists());
    assert_eq!(engine.shared.generation.load().definitions["bolt"].len(), 1, "new calls have it");
    assert_eq!(create("token-of-the-acme").await, 201);

    std::fs::write(&path, YAML).unwrap();
    engine.shared.reload().unwrap_or_else(|failure| panic!("{:?}", failure.problems));
    assert_eq!(create("token-of-the-bolt").await, 401, "it is gone with its tenant");
    engine.stop().await;
}

/// What only shows when it is built is told as well: before anything is written.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_is_the_next_generation_and_what_cannot_be_built_is_not_published() {
    let (_folder, path, engine) = engine_of_a_file(YAML).await;
    let configuration = publishing::configuration(&engine.shared);
    let before = configuration.read().await.unwrap();
    assert_eq!((before.generation, before.running, before.read_only.as_deref()), (1, true, None));

    let tenant = |name: &str| format!("  {name}: {{ tools: {name}, tokens: [0123456789abcdef] }}\n");
    let unbuilt = format!("{YAML}tenants:\n{}{}", tenant("acme"), tenant("bolt"));
    let draft = |text: &str| Draft { text: text.into(), based_on: before.version.clone(), by: "ada".into() };
    let refused = configuration.publish(draft(&unbuilt)).await.unwrap_err();
    let ConfigurationError::Invalid(verdict) = refused else { panic!("{refused}") };
    assert!(verdict.problems.iter().any(|problem| problem.line == 10 && problem.path == "tenants"), "{verdict:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), YAML);

    let next = YAML.replace("stays: { prompt: Test,", "stays: { prompt: Another,");
    let published = configuration.publish(draft(&next)).await.unwrap();
    assert_eq!((published.report.generation, published.report.changed.as_slice()), (2, &["contexts".to_owned()][..]));
    assert_eq!(engine.shared.generation.load().config.contexts["stays"].prompt, "Another");
    let after = configuration.read().await.unwrap();
    assert!(after.running && after.verdict.difference.is_empty() && after.version == published.version);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_panics_is_answered_and_the_call_goes_on() {
    let engine = engine().await;
    engine.shared.generation.rcu(|generation| generation.with_tool("breaks", Arc::new(Broken)));
    let mut caller = connect(&engine, 1).await;
    let answered = r#"offhook_tool_calls_total{outcome="internal",tool="hangup_call"} 1"#;
    let until_answered = async {
        while !engine.metrics().text().contains(answered) {
            caller.next().await;
        }
    };
    timeout(SOON, until_answered).await.unwrap();
    assert_eq!(engine.calls().view().active.len(), 1, "the call stands");
    engine.stop().await;
}

/// The page *Tools* shows what calls did with a tool.
#[tokio::test(flavor = "multi_thread")]
async fn the_registry_shows_a_tool_with_its_contexts_its_calls_and_their_audit() {
    let engine = engine().await;
    let mut caller = connect(&engine, 1).await;
    let view = View(Arc::clone(&engine.shared));
    let until_audited = async {
        while view.tool_audits(None, Some(HANGUP_CALL)).is_empty() {
            caller.next().await;
        }
    };
    timeout(SOON, until_audited).await.unwrap();
    let audit = view.tool_audits(None, Some(HANGUP_CALL));
    assert_eq!((&audit[0].audit["toolId"], &audit[0].audit["ok"]), (&HANGUP_CALL.into(), &true.into()));
    let registries = view.tools();
    let tool = registries[0].tools.iter().find(|tool| tool.name == HANGUP_CALL).unwrap();
    assert_eq!((tool.contexts.as_slice(), tool.kind), (&["breaks".to_owned()][..], "builtin"));
    assert_eq!((tool.policy.access, tool.policy.standing_approval), ("write", true));
    assert_eq!(tool.figures.outcomes, [("done".to_owned(), 1)].into());
    assert!(view.tool_audits(Some("acme"), Some(HANGUP_CALL)).is_empty(), "another tenant's calls are its own");
    engine.stop().await;
}

/// A tool can name a place that there is not: with a caller's number, say, which is for no log and no record.
#[test]
fn a_place_that_the_configuration_does_not_have_is_not_named() {
    let yaml = format!("{YAML}destinations: {{ people: {{ description: People, dial: [PJSIP/reception] }} }}\n");
    let config = config::load_str("test.yaml", &yaml, &|_| None, provider::catalog()).unwrap();
    let sent = |to| Note::Transferring { to, by: Initiator::Agent };
    for (named, told) in [("people", "people"), ("+4930901820", "unknown")] {
        let [asked, shown] = [named, told].map(|name| sent(TransferTarget::Destination(name.into())));
        assert_eq!(without_strange_names(asked, &config), shown);
    }
    let mailbox = sent(TransferTarget::Mailbox("+4930901820".into()));
    assert_eq!(without_strange_names(mailbox, &config), sent(TransferTarget::Mailbox("unknown".into())));
}
