//! An engine whose agents are emulated vendors, and its callers.

use crate::providers::{
    ear::{Caller, voiced},
    kit::{
        audio::{samples_of, tone},
        service::Service,
        stages::Stages,
        vendor::{LATE_HZ, Vendor, hertz},
    },
    ms,
};
use offhook::{
    call::EndReason,
    config,
    engine::{Engine, Source},
    facts::CallId,
    provider,
    telemetry::Metrics,
};
use serde_json::Value;
use std::{fmt::Write as _, time::Duration};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// The pitch of the apology that is configured here.
pub const APOLOGY_HZ: f64 = 300.0;
const APOLOGY: Duration = ms(800);
/// The pitch of `moment.wav`, a filler.
pub const MOMENT_HZ: f64 = 250.0;
pub const MOMENT: Duration = ms(2_000);
const PATIENCE: Duration = Duration::from_secs(45);
/// How often a figure is looked at that nobody announces.
const LOOK_EVERY: Duration = ms(20);
/// Sessions whose pitches are listened for.
const SESSIONS: usize = 8;

/// A tool that asks a web service of the test's, which can hold its answer back.
pub const LOOK_UP: &str = r#"
name: look_up
description: Finds a parcel by its number.
parameters:
  - { name: parcel, type: string, required: true }
actions:
  - { type: api_call, url: "http://HOST/parcels/{{params.parcel}}", method: GET }
on_success: [{ type: respond, message: "The parcel is on its way." }]
policy: { access: public_read, risk_domain: customer_support }
"#;

/// A tool that tells all that the web service says.
const READ_OUT: &str = r#"
name: read_out
description: Reads out what is written about a parcel.
parameters:
  - { name: parcel, type: string, required: true }
actions:
  - { type: api_call, url: "http://HOST/notes/{{params.parcel}}", method: GET }
on_success: [{ type: respond, message: "It reads: {{result.body.note}}" }]
policy: { access: public_read, risk_domain: customer_support }
"#;

/// A tool that the caller is asked about.
const BOOK: &str = r#"
name: book
description: Books a table.
parameters:
  - { name: guests, type: integer, required: true }
actions: [{ type: api_call, url: "http://HOST/bookings", method: POST }]
on_success: [{ type: respond, message: "It is booked." }]
policy: { access: write, risk_domain: customer_support, requires_confirmation: true }
"#;

/// A tool that hands the call to another context.
const TO_BILLING: &str = r#"
name: to_billing
description: Hands the call to billing.
actions: [{ type: handoff, target: billing, message: "A bill is wrong." }]
policy: { access: write, risk_domain: customer_support, standing_approval: true }
"#;

/// How the calls of the context begin their ids.
pub const PREFIX: [u8; 4] = [0x0f, 0xf4, 0x00, 0x01];

/// What a test wants of its engine besides the providers.
#[derive(Default, Clone, Copy)]
pub struct Setting<'a> {
    /// More lines of the context.
    pub more: &'a str,
    /// Lines of another context, `billing`, to which the agent can hand the call; none: there is none.
    pub billing: &'a str,
    /// More tools of the context: `, a, b`.
    pub tools: &'a str,
    /// More sections.
    pub sections: &'a str,
    /// The agent greets in words of its own.
    pub greets_freely: bool,
}

pub struct Desk {
    pub engine: Engine,
    pub service: Service,
    _folder: TempDir,
}

impl Desk {
    /// An engine whose callers speak with this vendor.
    pub async fn of(vendor: &Vendor) -> Self {
        Self::with(&[("first", vendor.yaml())], "").await
    }

    /// An engine whose callers speak with a pipeline of these services.
    pub async fn of_stages(stages: &Stages) -> Self {
        Self::of_pipelines(&[("first", stages)], "").await
    }

    /// The same with several pipelines and more lines of the context's configuration; callers speak with the first.
    pub async fn of_pipelines(named: &[(&str, &Stages)], more: &str) -> Self {
        Self::open_pipelines(named, Setting { more, ..Setting::default() }).await
    }

    /// The same with all that a test wants besides.
    pub async fn open_pipelines(named: &[(&str, &Stages)], setting: Setting<'_>) -> Self {
        let providers: Vec<_> = named.iter().map(|(name, _)| (*name, pipeline(&[name], &[name], &[name]))).collect();
        let sections = Stages::sections(named) + setting.sections;
        Self::open(&providers, Setting { sections: &sections, ..setting }).await
    }

    /// An engine whose callers speak with a pipeline of these services that has another option.
    pub async fn of_stages_with(stages: &Stages, option: &str, more: &str) -> Self {
        let sections = Stages::sections(&[("one", stages)]);
        Self::at(&[("first", pipeline_with(option))], more, &sections).await
    }

    /// The same with more lines of the context's configuration; callers speak with the first provider.
    pub async fn with(providers: &[(&str, String)], more: &str) -> Self {
        Self::open(providers, Setting { more, ..Setting::default() }).await
    }

    /// The same with more sections.
    pub async fn at(providers: &[(&str, String)], more: &str, sections: &str) -> Self {
        Self::open(providers, Setting { more, sections, ..Setting::default() }).await
    }

    pub async fn open(providers: &[(&str, String)], setting: Setting<'_>) -> Self {
        let (folder, service) =
            (TempDir::with_prefix("offhook-desk-").expect("a temporary directory"), Service::start().await);
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("in the folder")).expect("the test's own folder");
            std::fs::write(&path, text).expect("a file in the test's own folder");
            path
        };
        write("tools/look_up.yaml", &LOOK_UP.replace("HOST", &service.host()));
        write("tools/read_out.yaml", &READ_OUT.replace("HOST", &service.host()));
        write("tools/book.yaml", &BOOK.replace("HOST", &service.host()));
        if !setting.billing.is_empty() {
            write("tools/to_billing.yaml", TO_BILLING);
        }
        tone(APOLOGY_HZ, APOLOGY).write_wav(&folder.path().join("apology.wav"));
        tone(MOMENT_HZ, MOMENT).write_wav(&folder.path().join("moment.wav"));
        let path = write("offhook.yaml", &(yaml(providers, &service, setting) + setting.sections));
        let config = config::load(&path, &|_| None, provider::catalog());
        let config = config.unwrap_or_else(|problems| panic!("{problems}"));
        let engine = Engine::start(Source::File(path), config, Metrics::new("test")).await.expect("it starts");
        Self { engine, service, _folder: folder }
    }

    pub async fn call(&self) -> Caller {
        let mut id = *CallId::random().0.as_bytes();
        id[..4].copy_from_slice(&PREFIX);
        let mut pitches: Vec<f64> = (1..=SESSIONS).map(hertz).collect();
        pitches.extend([APOLOGY_HZ, MOMENT_HZ, LATE_HZ]);
        Caller::dial(self.engine.audiosocket_addr(), Uuid::from_bytes(id), pitches).await
    }

    /// Waits until every call has ended, and returns how the last one did.
    pub async fn end_reason(&self) -> EndReason {
        let ended = timeout(PATIENCE, self.engine.calls().none_left()).await;
        let view = self.engine.calls().view();
        assert!(ended.is_ok() && !view.recent.is_empty(), "the call did not end");
        let label = &view.recent[0].reason.label;
        EndReason::all().into_iter().find(|reason| reason.label() == *label).expect("a reason of this version")
    }

    /// Waits until so many calls have ended.
    pub async fn has_ended(&self, calls: usize) {
        let until = Instant::now() + PATIENCE;
        while self.engine.calls().view().recent.len() < calls {
            assert!(Instant::now() < until, "{calls} calls did not end");
            sleep(LOOK_EVERY).await;
        }
    }

    /// A page of the engine's.
    pub async fn page(&self, path: &str) -> String {
        let page = reqwest::get(format!("http://{}/{path}", self.engine.http_addr())).await.expect("the page");
        page.text().await.expect("the page")
    }

    /// The caller hangs up, and that is the end.
    pub async fn ends_with(&self, caller: &Caller) {
        assert!(!caller.look(|tape| tape.over), "{:?}", caller.look(|tape| format!("{tape:?}")));
        caller.hang_up();
        assert_eq!(self.end_reason().await, EndReason::CallerHungUp);
    }

    /// The sum of all children of a metric whose line begins like this.
    pub fn metric(&self, begin: &str) -> f64 {
        sum(&self.engine.metrics().text(), begin)
    }

    /// The same as a page of the engine shows it; some figures are made for that.
    pub async fn scraped(&self, begin: &str) -> f64 {
        sum(&self.page("metrics").await, begin)
    }

    /// The same of the children of this metric that bear this label.
    pub async fn scraped_where(&self, metric: &str, label: &str) -> f64 {
        let page = self.page("metrics").await;
        page.lines().filter(|line| line.contains(label)).map(|line| sum(line, metric)).sum()
    }

    /// Waits until calls are offered the tools of this MCP server.
    pub async fn has_tools_of(&self, server: &str) {
        let (page, until) = (format!("http://{}/mcp/status", self.engine.http_addr()), Instant::now() + PATIENCE);
        let has = |status: &Value| {
            let tools = status["servers"][server]["tools"].as_array();
            tools.is_some_and(|tools| tools.iter().any(|tool| tool["registered"] == true))
        };
        loop {
            let status = reqwest::get(&page).await.expect("the page").json().await.expect("JSON");
            if has(&status) {
                return;
            }
            assert!(Instant::now() < until, "{status:#}");
            sleep(LOOK_EVERY).await;
        }
    }

    /// What the first pipeline's service of this section was asked for, or was counted as failing with.
    pub fn asked_of(&self, section: &str, outcome: &str) -> f64 {
        let of_kind = format!("outcome=\"{outcome}\",service=\"{section}.first\"");
        let text = self.engine.metrics().text();
        let lines =
            text.lines().filter(|line| line.starts_with("offhook_stage_requests_total") && line.contains(&of_kind));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Sessions of this provider that were begun because an agent was lost, and what became of them.
    pub fn recoveries(&self, outcome: &str, provider: &str) -> f64 {
        self.metric(&format!("offhook_session_recoveries_total{{outcome=\"{outcome}\",provider=\"{provider}\"}}"))
    }

    /// Waits until it has grown so far.
    pub async fn counts(&self, begin: &str, at_least: f64) {
        let until = Instant::now() + PATIENCE;
        while self.metric(begin) < at_least {
            assert!(Instant::now() < until, "{begin} is {}, not {at_least}", self.metric(begin));
            sleep(LOOK_EVERY).await;
        }
    }
}

/// One entry of the configuration's `providers`: listeners, models and voices in their order.
pub fn pipeline(stt: &[&str], llm: &[&str], tts: &[&str]) -> String {
    format!("{{ pipeline: {{ stt: {stt:?}, llm: {llm:?}, tts: {tts:?} }} }}")
}

/// The same of one service each, by the name `one`, with another option.
pub fn pipeline_with(option: &str) -> String {
    format!("{{ pipeline: {{ stt: one, llm: one, tts: one, {option} }} }}")
}

/// This session of a listener has heard all of what the caller said last, by its voiced frames, and no more.
pub fn has_heard(what: &str, listener: &Vendor, session: usize, caller: &Caller) {
    has_heard_since(what, listener, session, 0, caller);
}

/// The same of what it has heard after so many bytes.
pub fn has_heard_since(what: &str, listener: &Vendor, session: usize, bytes: usize, caller: &Caller) {
    let (heard, format) =
        listener.of(session, |seen| (seen.audio[bytes..].to_vec(), seen.set_up.clone().expect("it is set up").hears));
    let heard = voiced(&samples_of(&heard, format), format.rate as usize / 50);
    let said = caller.voiced();
    // Its frames need not begin where the caller's do, and a resampled edge is in one more.
    assert!(heard >= said.mul_f64(0.95) && heard <= said + ms(100), "{what}: {heard:?} of {said:?}");
}

fn sum(metrics: &str, begin: &str) -> f64 {
    let values = metrics.lines().filter(|line| line.starts_with(begin)).filter_map(|line| line.rsplit(' ').next());
    values.filter_map(|value| value.parse::<f64>().ok()).sum()
}

fn yaml(providers: &[(&str, String)], service: &Service, setting: Setting<'_>) -> String {
    let Setting { more, billing, tools, greets_freely, .. } = setting;
    let mut yaml = String::from(
        "http: { bind: \"127.0.0.1:0\" }\nmedia: { audiosocket: { bind: \"127.0.0.1:0\" } }\nproviders:\n",
    );
    for (name, options) in providers {
        let _ = writeln!(yaml, "  {name}: {options}");
    }
    let host = service.host();
    let greeting = if greets_freely { "" } else { "greeting: Hello there.\n    " };
    let handoff = if billing.is_empty() { "" } else { ", to_billing" };
    let _ = write!(
        yaml,
        "tenants:\n  acme: {{ tools: tools, allowed_hosts: [\"{host}\"], trusted: true }}\n\
         contexts:\n  front:\n    prompt: You are a test.\n    {greeting}provider: {}\n    \
         tenant: acme\n    tools: [look_up, hangup_call{tools}{handoff}]\n    audiosocket_id: \"0ff40001\"\n    \
         on_failure: {{ apology: apology.wav, then: hang_up }}\n",
        providers[0].0
    );
    let indented = |yaml: &mut String, lines: &str| {
        lines.lines().for_each(|line| {
            let _ = writeln!(yaml, "    {line}");
        });
    };
    indented(&mut yaml, more);
    if !billing.is_empty() {
        yaml.push_str("  billing:\n    prompt: You are billing.\n    tenant: acme\n");
        indented(&mut yaml, billing);
    }
    yaml
}
