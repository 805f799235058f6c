//! A real Prometheus, with the configuration of `grafana/prometheus`, scrapes a real engine that has callers; then it is
//! asked everything that the dashboards ask.

use crate::prometheus::{
    dashboards::{Query, list, queries, text},
    kit::{
        asterisk::{Asterisk, Options},
        attendant::ATTENDANT,
        audio::silence,
        caller::Caller,
        offhook::{Launch, Offhook, Place},
        phone::Phone,
        python::target,
        speech,
        tied::{Tied, free_ports},
    },
};
use futures_util::future::join_all;
use jiff::Timestamp;
use offhook::audio::{Activity, ActivityDetector};
use serde_json::Value;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

const SOON: Duration = Duration::from_secs(20);
const CALL_MAX: Duration = Duration::from_secs(45);
const ASK_EVERY: Duration = Duration::from_millis(100);
/// `scrape_interval` of grafana/prometheus/prometheus.yml.
const SCRAPE: Duration = Duration::from_secs(5);
/// What Grafana puts in for the time that is looked at.
const RANGE: &str = "5m";

/// Queries that have no answer after this load, and why.
const SILENT: [(&str, &str); 2] = [
    ("tools.json, \"Until an action has left\"", "no client of VAM takes part; tests/vam asks for the figure itself"),
    (
        "quality.json, \"Clocks\"",
        "two clocks are compared for a minute first; tests/calls/rtp_faults.rs asks for the figure itself",
    ),
];

/// What a caller says. The second sentence interrupts the answer to the first.
const LINES: [&str; 3] = ["When are you open?", "What is the weather?", "Goodbye."];
/// How far into an answer.
const PATIENCE: Duration = Duration::from_millis(1_500);
const PAUSE: Duration = Duration::from_millis(700);

/// Calls that are there at once, beside the others, for longer than two scrapes take.
const CROWD: u32 = 30;
const ARRIVAL_EVERY: Duration = Duration::from_millis(100);

/// The pitch of the agent who talks all the time.
const STEADY_HZ: f64 = 440.0;
/// How often Asterisk is asked what waits in a media WebSocket.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// Beside the attendant an agent whose vendor nobody reaches.
fn configuration(place: &Place, asterisk: &Asterisk) -> String {
    let root = offhook_kit::project();
    let program = offhook_kit::program().with_file_name("aviation_atis");
    assert!(program.exists(), "{} is missing: run `cargo build` first", program.display());
    let (file, samples) = (root.join("config/aviation_atis.yaml"), root.join("mcp_servers/aviation_atis/samples"));
    let gone = free_ports(1);
    let services = ATTENDANT
        .replace("default_context: front", "default_context: steady")
        .replace("when are you open, goodbye]", "when are you open, what is the weather, goodbye]")
        .replace(
            "        - { hears: [goodbye]",
            "        - { hears: [what is the weather], say: One moment., call: mcp_atis, arguments: { icao: ENVA } }\n        \
             - { hears: [goodbye]",
        )
        .replace(
            "providers: {",
            &format!(
                "providers: {{ script: {{ scripted: {{ voice: tone, script: [{{ say: Hello }}, {{ listen: {{}} }}, {{ \
                 hang_up: Goodbye }}] }} }}, crowd: {{ scripted: {{ voice: tone, script: [{{ tone: {{ hertz: 440, for: 16s }} }}, {{ hang_up: Goodbye }}] }} }}, \
                 steady: {{ scripted: {{ script: [{{ tone: {{ hertz: {STEADY_HZ}, for: 200s }} }}] }} }}, \
                 gone: {{ openai_realtime: {{ api_key: k, base_url: \"ws://127.0.0.1:{gone}\" }} }},"
            ),
        );
    format!(
        "{}{services}\
         records: {{ directory: records }}\n\
         prices: {{ house: {{ currency: EUR, date: 2026-11-20, source: the test, per_minute: {{ connected: 1 }} }} }}\n\
         mcp:\n  servers:\n    atis: {{ command: [{program:?}, --config, {file:?}, --offline, {samples:?}, --now, \
         \"2026-11-20T14:00:00Z\"], defaults: {{ access: public_read }}, tools: [{{ name: get_atis, expose_as: mcp_atis, \
         speech_field: atis_text }}] }}\n\
         contexts:\n  steady: {{ prompt: A test., provider: steady }}\n  \
         support: {{ prompt: A test., provider: steady, audio: websocket/slin16 }}\n  \
         crowd: {{ prompt: A test., provider: crowd, tools: [hangup_call], audiosocket_id: \"0ff40003\" }}\n  \
         front: {{ prompt: A test., greeting: Good morning., provider: house, tools: [hangup_call, mcp_atis], \
         audiosocket_id: \"0ff40001\", turns: {{ owner: offhook }} }}\n  relay: {{ prompt: A test., provider: gone, \
         fallbacks: [script], tools: [hangup_call], audiosocket_id: \"0ff40002\" }}\n",
        place.yaml(Some(asterisk)),
    )
}

/// One call: speaks when the agent pauses, interrupts once, says goodbye, and hangs up if that is not understood.
async fn call(engine: &str, prefix: u32, voices: &[Vec<i16>]) {
    let mut id = *Uuid::new_v4().as_bytes();
    id[..4].copy_from_slice(&prefix.to_be_bytes());
    let mut caller =
        Caller::connect(engine.parse().expect("an address"), Uuid::from_bytes(id)).await.expect("it listens");
    let mut ear = ActivityDetector::new(-45.0, Duration::from_millis(40), PAUSE);
    let (mut next, mut since) = (0, None);
    let until = Instant::now() + CALL_MAX;
    while let Some(frame) = caller.tick().await.expect("a line that holds") {
        let activity = ear.push(frame, Instant::now().into_std());
        match activity {
            Some(Activity::Started) => since = Some(Instant::now()),
            Some(Activity::Stopped) => since = None,
            None => {}
        }
        let interrupts = next > 0 && since.is_some_and(|since: Instant| since.elapsed() > PATIENCE);
        let answers = activity == Some(Activity::Stopped);
        if (interrupts || answers) && !caller.is_speaking() {
            if let Some(line) = voices.get(next) {
                caller.say(line);
            }
            (next, since) = (next + 1, None);
        }
        if Instant::now() > until {
            return;
        }
    }
}

/// Calls that come ten a second and last some seconds.
async fn crowd(engine: &str) {
    let one = |number: u32| async move {
        sleep(ARRIVAL_EVERY * number).await;
        call(engine, 0x0ff4_0003, &[]).await;
    };
    join_all((0..CROWD).map(one)).await;
}

/// A telephone whose audio path breaks.
async fn repaired_call(asterisk: &Asterisk, engine: &Offhook) {
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(CALL_MAX)).await;
    phone.wait_to_hear(STEADY_HZ, Duration::from_secs(2), SOON).await;
    let channels = asterisk.channels().await;
    let media = channels.iter().find(|name| name.starts_with("AudioSocket/")).expect("a media channel");
    asterisk.cli(&format!("channel request hangup {media}")).await;
    engine.wait_metric("offhook_media_repairs_total{outcome=\"repaired\"}", 1.0, SOON).await;
    phone.hang_up().await;
}

/// A telephone whose audio goes by WebSocket, for as long as it takes Asterisk to tell a few times what waits in it.
async fn call_by_websocket(asterisk: &Asterisk) {
    let mut phone = Phone::call(asterisk.sip_port(), "7001", silence(CALL_MAX)).await;
    phone.wait_to_hear(STEADY_HZ, 3 * STATUS_EVERY, SOON).await;
    phone.hang_up().await;
}

struct Prometheus {
    process: Tied,
    directory: TempDir,
    address: String,
    client: reqwest::Client,
}

impl Prometheus {
    async fn start(engine: u16) -> Self {
        let directory = TempDir::with_prefix("offhook-prometheus-").expect("a temporary directory");
        let port = free_ports(1);
        let path = directory.path().to_str().expect("an ordinary name");
        let arguments = ["run", path, &port.to_string(), &format!("127.0.0.1:{engine}")];
        let env = [("CARGO_TARGET_DIR", target().display().to_string())];
        let log = directory.path().join("log");
        let process = Tied::start("prometheus.sh", &arguments, &env, directory.path(), &log);
        let client = reqwest::Client::new();
        let mut started = Self { process, directory, address: format!("http://127.0.0.1:{port}"), client };
        started.wait("it is ready", async |this| this.get("-/ready", &[]).await.0 == 200).await;
        started
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> (u16, String) {
        let mut url = reqwest::Url::parse(&format!("{}/{path}", self.address)).expect("an address");
        url.query_pairs_mut().extend_pairs(query);
        match self.client.get(url).send().await {
            Ok(answer) => (answer.status().as_u16(), answer.text().await.unwrap_or_default()),
            Err(error) => (0, error.to_string()),
        }
    }

    async fn api(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, String> {
        let (status, body) = self.get(&format!("api/v1/{path}"), query).await;
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        if status == 200 && answer["status"] == "success" { Ok(answer["data"].clone()) } else { Err(body) }
    }

    async fn wait(&mut self, what: &str, so: impl AsyncFn(&Self) -> bool) {
        let until = Instant::now() + SOON;
        while !so(self).await {
            let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            assert!(!self.process.has_ended(), "Prometheus has ended:\n{log}");
            assert!(Instant::now() < until, "not within {SOON:?}: {what}\n{log}");
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits for a scrape of what the engine has counted by now.
    async fn wait_scraped(&mut self) {
        // To the millisecond: in the same second there may have been one before.
        let now = Timestamp::now().as_millisecond() as f64 / 1_000.0;
        self.wait("a scrape", async |this| {
            let query = format!("timestamp(up{{job=\"offhook\"}}) > {now} and up == 1");
            this.api("query", &[("query", &query)]).await.is_ok_and(|data| !list(&data["result"]).is_empty())
        })
        .await;
    }

    /// The series that answer a query, as Grafana would ask it.
    async fn answer(&self, query: &Query, since: Timestamp) -> Result<Vec<Value>, String> {
        let window = format!("{}s", 4 * SCRAPE.as_secs());
        let expression = query.expression.replace("$__rate_interval", &window).replace("$__range", RANGE);
        let expression = expression.replace("$instance", ".*").replace("$provider", ".*");
        let (start, end) = (since.as_second().to_string(), Timestamp::now().as_second().to_string());
        let data = if query.instant {
            self.api("query", &[("query", &expression)]).await?
        } else {
            let step = SCRAPE.as_secs().to_string();
            let range = [("query", expression.as_str()), ("start", &start), ("end", &end), ("step", &step)];
            self.api("query_range", &range).await?
        };
        Ok(list(&data["result"]).to_vec())
    }
}

/// Whether a series has a figure at all: a quotient of nothing is none.
fn has_figures(series: &Value) -> bool {
    let single = [series["value"].clone()];
    list(&series["values"]).iter().chain(&single).any(|sample| {
        let value = text(&sample[1]);
        !value.is_empty() && !["NaN", "+Inf", "-Inf"].contains(&value)
    })
}

/// What is wrong with the answer to a query.
async fn fault(prometheus: &Prometheus, query: &Query, since: Timestamp) -> Option<String> {
    let Query { place, expression, shown, .. } = query;
    let series = match prometheus.answer(query, since).await {
        Ok(series) => series,
        Err(why) => return Some(format!("{place}: {expression}\n    {why}")),
    };
    let silent = SILENT.iter().any(|(known, _)| place == known);
    if !silent && !series.iter().any(has_figures) {
        return Some(format!("{place}: no figures: {expression}"));
    }
    // A label that no series has leaves its legend empty.
    let lacks = shown.iter().find(|label| series.iter().any(|one| one["metric"][label.as_str()].is_null()));
    lacks.map(|label| format!("{place}: the legend shows {label}, which is not in the answer: {expression}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_every_dashboard_is_answered_after_a_real_load() {
    let place = Place::free();
    let mut asterisk = Asterisk::start(Options::default()).await;
    let (http, yaml) = (place.http, configuration(&place, &asterisk));
    let since = Timestamp::now();
    let engine = Offhook::launch(place, &yaml, Launch { log: "info", ..Launch::default() }).await;
    let mut prometheus = Prometheus::start(http).await;
    engine.wait_metric("ai_agent_mcp_server_up", 1.0, SOON).await;
    // Everything at zero, so that there is something to have grown since.
    prometheus.wait_scraped().await;
    assert_eq!(engine.post("reload").await.0, 200);

    let voices = speech::render_all(&LINES, "en-us+f3").await.expect("espeak-ng speaks");
    let address = engine.audiosocket();
    let calls = [0x0ff4_0001, 0x0ff4_0001, 0x0ff4_0002, 0x0ff4_0002].map(|prefix| call(&address, prefix, &voices));
    let of_dialplan = timeout(2 * CALL_MAX, async {
        join_all(calls).await;
        crowd(&address).await;
    });
    let (ended, (), ()) = tokio::join!(of_dialplan, repaired_call(&asterisk, &engine), call_by_websocket(&asterisk));
    ended.expect("calls that end");
    engine.wait_metric("offhook_calls_total", f64::from(6 + CROWD), SOON).await;
    asterisk.kill().await;
    engine.wait_ready(false).await;
    // A range is asked for in steps of a scrape: what was counted last is in the step after it.
    for _ in 0..2 {
        prometheus.wait_scraped().await;
    }

    // It was a load: what the figures below are made of has happened.
    for counted in [
        "offhook_turn_latency_seconds_count",
        "offhook_barge_in_stop_seconds_count",
        "offhook_agent_losses_total{loss=\"unreachable\",provider=\"gone\"}",
        "offhook_session_recoveries_total{outcome=\"took_over\"",
        "ai_agent_mcp_tool_calls_total{server=\"atis\",status=\"ok\"",
        "offhook_cost_total",
        "offhook_records_total",
        "offhook_media_waiting_frames_count",
    ] {
        assert!(engine.metric(counted).await > 0.0, "{counted} is zero after the load:\n{}", engine.log());
    }

    // And Prometheus has seen it: what it tells is what the engine has counted.
    let single = async |query: &str| {
        let data = prometheus.api("query", &[("query", query)]).await.expect("an answer");
        text(&list(&data["result"])[0]["value"][1]).parse::<f64>().expect("a figure")
    };
    assert!(single("max_over_time(sum(offhook_calls_active)[5m:1s])").await >= f64::from(CROWD) * 0.8);
    for counter in [
        "offhook_calls_total",
        "offhook_agent_losses_total",
        "offhook_cost_total",
        "offhook_barge_in_stop_seconds_count",
    ] {
        let (told, counted) = (single(&format!("sum({counter})")).await, engine.metric(counter).await);
        assert!((told - counted).abs() <= counted * 1e-9, "{counter}: {told}, and the engine counts {counted}");
        assert!(counted > 0.0, "{counter}");
    }

    let mut faults = Vec::new();
    let queries = queries();
    assert!(queries.len() > 100, "the dashboards are read: {}", queries.len());
    for query in &queries {
        faults.extend(fault(&prometheus, query, since).await);
    }
    assert!(faults.is_empty(), "{} of {} queries:\n{}", faults.len(), queries.len(), faults.join("\n"));

    // The rules too are evaluated without a fault, and the Asterisk that is gone is noticed.
    let noticed = "ALERTS{alertname=\"OffhookNotReady\"}";
    prometheus
        .wait("the Asterisk that is gone is noticed", async |this| {
            this.api("query", &[("query", noticed)]).await.is_ok_and(|data| !list(&data["result"]).is_empty())
        })
        .await;
    let rules = prometheus.api("rules", &[]).await.expect("rules");
    let rules: Vec<_> = list(&rules["groups"]).iter().flat_map(|group| list(&group["rules"])).collect();
    assert!(!rules.is_empty());
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let state = |name: &str| rules.iter().find(|rule| rule["name"] == name).map(|rule| text(&rule["state"]).to_owned());
    assert!(state("OffhookNotReady").is_some_and(|state| state != "inactive"), "{rules:?}");
    assert_eq!(state("OffhookDown").as_deref(), Some("inactive"));
    prometheus.process.stop().await;
}
