//! The built program over its pipes, as an MCP client runs it.

mod upstream;

use rmcp::{
    RoleClient, ServiceExt,
    model::{CallToolRequestParams, CallToolResult},
    service::RunningService,
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};
use upstream::Upstream;

const NOW: &str = "2026-11-20T14:00:00Z";
/// Nothing here takes long; a test that waits longer has failed.
const LONG: Duration = Duration::from_secs(20);

/// The folder of this package, as cargo tells it at run time.
fn package() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo tells").into()
}

fn program(config: &Path, arguments: &[&str]) -> Command {
    // Asked for at run time: what was compiled may be of another clone.
    let tests = std::env::current_exe().expect("a test program");
    let mut command = Command::new(tests.ancestors().nth(2).expect("target/debug/deps").join("aviation_atis"));
    command.env_clear().arg("--config").arg(config).args(["--now", NOW]).args(arguments).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

struct Stage {
    child: Child,
    client: RunningService<RoleClient, ()>,
}

impl Stage {
    async fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let client = tokio::time::timeout(LONG, ().serve(pipes)).await.unwrap().unwrap();
        Self { child, client }
    }

    /// With the shipped configuration and reports.
    async fn offline() -> Self {
        let root = package();
        let samples = root.join("samples");
        let config = root.join("../../config/aviation_atis.yaml");
        Self::start(program(&config, &["--offline", samples.to_str().unwrap()])).await
    }

    async fn call(&self, arguments: Value) -> CallToolResult {
        let request = CallToolRequestParams::new("get_atis").with_arguments(arguments.as_object().unwrap().clone());
        tokio::time::timeout(LONG, self.client.call_tool(request)).await.unwrap().unwrap()
    }

    async fn atis(&self, icao: &str) -> Value {
        let result = self.call(json!({ "icao": icao })).await;
        assert_ne!(result.is_error, Some(true), "{result:?}");
        result.structured_content.unwrap()
    }

    async fn refused(&self, arguments: Value) -> String {
        let result = self.call(arguments).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
        result.content[0].as_text().unwrap().text.clone()
    }
}

/// M26: the tool, its field and the words; offline and with a clock that stands they are the same each time.
#[tokio::test]
async fn the_tool_answers_with_words_to_speak_and_the_facts_behind_them() {
    let stage = Stage::offline().await;
    let result = stage.call(json!({ "icao": " engm " })).await;
    let atis = result.structured_content.clone().unwrap();
    assert_eq!(
        atis,
        json!({
            "atis_text": "Oslo Gardermoen information Bravo. Observed at one three five zero. Runways in use one niner \
                          left and one niner right. Expect ILS approach. Transition level eight five. Wind one niner zero \
                          degrees, one two knots, gusting two five. Visibility one zero kilometres or more. Clouds few \
                          three thousand feet, scattered four thousand five hundred feet, broken six thousand feet. \
                          Temperature eight. Dew point three. QNH one zero one three. No significant change. Bird activity \
                          in the vicinity of the aerodrome. End of information Bravo.",
            "icao": "ENGM",
            "name": "Oslo Gardermoen",
            "information": "Bravo",
            "observed_at": "2026-11-20T13:50:00Z",
            "age_minutes": 10,
            "current": true,
            "raw": "ENGM 201350Z 19012G25KT 9999 FEW030 SCT045 BKN060 08/03 Q1013 NOSIG",
            "source": "file ENGM.metar",
            "warning": null,
        })
    );
    let text: Value = serde_json::from_str(&result.content[0].as_text().unwrap().text).unwrap();
    assert_eq!(text, atis);
    assert_eq!(stage.atis("ENGM").await, atis);
    for icao in ["ENBR", "ENVA", "ENTC"] {
        assert_eq!(stage.atis(icao).await["current"], json!(true));
    }
}

/// M26: one tool, which only reads.
#[tokio::test]
async fn the_list_has_one_tool_with_its_schemas_and_annotations() {
    let stage = Stage::offline().await;
    let tools = stage.client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 1);
    let tool = serde_json::to_value(&tools[0]).unwrap();
    assert_eq!(tool["name"], "get_atis");
    assert_eq!(tool["inputSchema"]["required"], json!(["icao"]));
    assert_eq!(tool["outputSchema"]["properties"]["atis_text"]["type"], "string");
    let told = &tool["annotations"];
    let hints = [&told["readOnlyHint"], &told["idempotentHint"], &told["openWorldHint"], &told["destructiveHint"]];
    assert_eq!(hints, [&json!(true), &json!(true), &json!(true), &json!(false)]);
}

/// M26: what cannot be answered is an error of the tool, in words that can be spoken.
#[tokio::test]
async fn a_wrong_aerodrome_is_an_error_that_can_be_spoken() {
    let stage = Stage::offline().await;
    let expected = "An aerodrome has to be given as four letters, such as E N G M for Oslo Gardermoen.";
    for wrong in ["", "ENG", "ENGMX", "EN6M", "../E", "ÆNGM"] {
        assert_eq!(stage.refused(json!({ "icao": wrong })).await, expected, "{wrong}");
    }
    let other = "There is no information for Echo Golf Lima Lima. There is for Bergen Flesland, Oslo Gardermoen, Tromsø \
                 Langnes, Trondheim Værnes.";
    assert_eq!(stage.refused(json!({ "icao": "EGLL" })).await, other);
    assert!(stage.refused(json!({})).await.contains("icao"));
}

/// M26: changes of the server's own configuration need no restart, neither of it nor of the engine.
#[tokio::test]
async fn a_change_of_the_configuration_is_spoken_at_the_next_call() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("ENGM.txt", "ENGM 201350Z 00000KT CAVOK 08/03 Q1013=\n");
    write("ENZV.txt", "ENZV 201150Z 00000KT CAVOK 08/03 Q1013=\n");
    write("ENHD.txt", "ENHD 201350Z 00000KT CAVOK GARBAGE Q1013=\n");
    write("atis.yaml", "offline: .\naerodromes: {ENGM: {name: Oslo}}\n");
    let stage = Stage::start(program(&folder.path().join("atis.yaml"), &[])).await;
    assert_eq!(stage.atis("ENGM").await["name"], "Oslo");

    write("atis.yaml", "offline: .\ndefaults: {allow_any: true}\naerodromes: {ENGM: {name: Gardermoen}}\n");
    assert_eq!(stage.atis("ENGM").await["name"], "Gardermoen");

    write("atis.yaml", "offline: .\naerodromes: {ENGM: {nome: Broken}}\n");
    assert_eq!(stage.atis("ENGM").await["name"], "Gardermoen");

    let old = stage.atis("ENZV").await;
    assert_eq!(old["atis_text"], "Echo November Zulu Victor. No current weather report is available.");
    assert_eq!((&old["current"], &old["age_minutes"]), (&json!(false), &json!(130)));
    let unread = stage.refused(json!({ "icao": "ENHD" })).await;
    assert_eq!(unread, "The latest weather report for Echo November Hotel Delta cannot be read.");
    let none = stage.refused(json!({ "icao": "ENCN" })).await;
    assert_eq!(none, "There is no weather report for Echo November Charlie November.");

    let mut stderr = BufReader::new(stage.child.stderr.unwrap()).lines();
    let told = async {
        while let Some(line) = stderr.next_line().await.unwrap() {
            if line.contains("the former configuration stays") {
                return line;
            }
        }
        panic!("nothing was told");
    };
    let told = tokio::time::timeout(LONG, told).await.unwrap();
    assert!(told.contains("nome") && told.contains("line 2"), "{told}");
}

/// M26: METARs from met.no by `METNO_USER_AGENT`, cached; a slow upstream does not delay a cached answer.
#[tokio::test]
async fn reports_are_fetched_with_the_name_of_the_application_and_kept() {
    let upstream = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("atis.yaml");
    std::fs::write(&config, format!("base_url: {}\naerodromes: {{ENGM: {{name: Oslo}}}}\n", upstream.url)).unwrap();
    let mut command = program(&config, &[]);
    command.env("METNO_USER_AGENT", "tower-line/1.0 ops@example.com").env("METNO_CACHE_TTL_SECONDS", "0");
    let stage = Stage::start(command).await;

    upstream
        .reply("200 OK", "ENGM 201320Z 00000KT CAVOK 08/03 Q1013=\nENGM 201350Z 00000KT CAVOK 08/03 Q1014=\n")
        .await;
    let atis = stage.atis("ENGM").await;
    assert_eq!(atis["raw"], "ENGM 201350Z 00000KT CAVOK 08/03 Q1014");
    assert_eq!(atis["source"], "MET Norway, api.met.no (CC BY 4.0)");
    // The upstream is silent from here on.
    assert_eq!(stage.atis("ENGM").await, atis);
    upstream.requested(2).await;
    assert_eq!(stage.atis("ENGM").await, atis);
    for request in upstream.requests() {
        assert!(request.starts_with("GET /metar.txt?icao=ENGM "), "{request}");
        assert!(request.to_lowercase().contains("user-agent: tower-line/1.0 ops@example.com\r\n"), "{request}");
    }
}

/// M26: without `METNO_USER_AGENT` the start fails in words that say what to do.
#[tokio::test]
async fn without_a_user_agent_or_with_a_broken_file_the_start_fails_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("atis.yaml");
    for (text, told) in [
        ("aerodromes: {ENGM: {name: Oslo}}\n", "METNO_USER_AGENT is not set"),
        ("aerodromes:\n  ENGM: {name: Oslo, runway: 1}\n", "line 2"),
    ] {
        std::fs::write(&config, text).unwrap();
        let output = tokio::time::timeout(LONG, program(&config, &[]).env("RUST_BACKTRACE", "1").output())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(told) && stderr.lines().count() < 5, "{stderr}");
    }
}

/// M26: stdout holds MCP alone, and the end of stdin is the end of the server.
#[tokio::test]
async fn stdout_is_only_mcp_and_the_end_of_stdin_ends_the_server() {
    let root = package();
    let config = root.join("../../config/aviation_atis.yaml");
    let samples = root.join("samples");
    let mut child = program(&config, &["--offline", samples.to_str().unwrap()]).spawn().unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let answer: Value = serde_json::from_str(&stdout.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!(answer["result"]["serverInfo"]["name"], "aviation_atis");
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    stdin.write_all(format!("{ready}\n").as_bytes()).await.unwrap();
    drop(stdin);
    let status = tokio::time::timeout(LONG, child.wait()).await.unwrap().unwrap();
    assert!(status.success());
    assert_eq!(stdout.next_line().await.unwrap(), None);
}
