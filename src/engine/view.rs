//! The engine as the pages see it.

use super::{Shared, Source, calls};
use crate::{
    asterisk::events::AriState,
    config::{Config, Context, Destination, Named, ProviderConfig},
    doctor,
    facts::CallId,
    http::{
        About, ActiveCall, AsteriskView, AuditLine, CallsView, Check, ContextView, EngineView, Finding, LiveEntry,
        McpStatus, McpTest, MediaTest, MediaView, NoConversation, NoListening, NoTransfer, NoWriting, Parties,
        ProviderView, Readiness, ReloadFailure, ReloadReport, ServiceView, SystemView, TenantTools, TestCall, TestPath,
    },
    provider,
    remote::{
        health::{Breaker, Health},
        wards::place,
    },
};
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use std::{collections::BTreeMap, sync::Arc};
use tokio::{runtime::Handle, sync::mpsc, task::spawn_blocking};
use tokio_util::sync::CancellationToken;
use tracing::info;

pub(super) struct View(pub Arc<Shared>);

impl EngineView for View {
    fn about(&self) -> About {
        let generation = self.0.generation.load().number;
        About { version: env!("CARGO_PKG_VERSION"), started: self.0.started, generation }
    }

    fn readiness(&self) -> Readiness {
        let shared = &self.0;
        let ari = match &shared.ari {
            None => Check::ok("not configured; calls come by AudioSocket() from the dialplan"),
            Some(ari) => match &*ari.state.borrow() {
                AriState::Up => Check::ok("connected"),
                AriState::Starting => Check::failed("connecting"),
                AriState::Down(loss) => Check::failed(loss.describe()),
            },
        };
        let generation = shared.generation.load();
        let usable = generation.providers.keys().filter(|name| shared.health.breaker(name) != Breaker::Open).count();
        let providers = match (usable, generation.providers.len()) {
            (0, all) => Check::failed(format!("none of {all} is usable: their last sessions all failed")),
            (usable, all) => Check::ok(format!("{usable} of {all} usable")),
        };
        let accepting = if *shared.draining.borrow() {
            Check::failed("draining: new calls go back to the dialplan")
        } else {
            Check::ok("taking calls")
        };
        let media = match shared.media.trouble() {
            Some(trouble) => Check::failed(trouble),
            None => Check::ok(format!("AudioSocket on {}", shared.media.local_addr())),
        };
        Readiness { ari, media, providers, accepting }
    }

    fn calls(&self) -> CallsView {
        self.0.live.view()
    }

    fn call(&self, id: CallId) -> Option<ActiveCall> {
        self.0.live.call(id)
    }

    fn parties(&self, id: CallId) -> Option<Parties> {
        self.0.live.parties(id)
    }

    fn story(&self, id: CallId, from: u64) -> Option<Vec<LiveEntry>> {
        self.0.live.story(id, from)
    }

    fn hang_up(&self, id: CallId, account: &str) -> bool {
        self.0.live.end(id, account)
    }

    fn listen(&self, id: CallId) -> Result<mpsc::Receiver<Bytes>, NoListening> {
        self.0.live.listen(id)
    }

    fn destinations(&self, id: CallId) -> Option<BTreeMap<String, Destination>> {
        self.0.live.destinations(id)
    }

    fn transfer(&self, id: CallId, destination: &str, account: &str) -> Result<(), NoTransfer> {
        self.0.live.transfer(id, destination, account)
    }

    fn converse(&self, context: String) -> BoxFuture<'static, Result<CallId, NoConversation>> {
        calls::converse(Arc::clone(&self.0), context).boxed()
    }

    fn write(&self, id: CallId, text: &str) -> Result<(), NoWriting> {
        self.0.live.write(id, text)
    }

    fn metrics_text(&self) -> String {
        let open = self.0.media.open();
        let tasks = Handle::current().metrics().num_alive_tasks();
        let media = [
            ("audiosocket_leg", open.audiosocket_legs),
            ("unidentified", open.unidentified),
            ("expected", open.expected),
            ("rtp_port", open.rtp_ports),
            ("websocket_leg", open.websocket_legs),
        ];
        self.0.metrics.open(tasks, media);
        self.0.metrics.ready(self.readiness().checks().map(|(name, check)| (name, check.ok)));
        let generation = self.0.generation.load();
        self.0.metrics.calls_limit(generation.config.limits.calls);
        for provider in generation.providers.keys() {
            self.0.metrics.sessions().breaker(provider, self.0.health.breaker(provider).value());
        }
        self.0.wards.look();
        self.0.metrics.text()
    }

    fn reload(&self) -> BoxFuture<'static, Result<ReloadReport, ReloadFailure>> {
        Arc::clone(&self.0).reload_all().boxed()
    }

    fn mcp_status(&self) -> McpStatus {
        self.0.mcp_status()
    }

    fn mcp_test(&self, id: String) -> BoxFuture<'static, McpTest> {
        let shared = Arc::clone(&self.0);
        async move { shared.mcp_test(&id).await }.boxed()
    }

    fn examine(&self) -> BoxFuture<'static, Vec<Finding>> {
        let config = self.0.generation.load().config.clone();
        async move {
            // Whoever asked may go away; what was begun is still cleared away.
            let runtime = Handle::current();
            let examined = spawn_blocking(move || {
                runtime.block_on(doctor::examine(&config, doctor::Extent::default(), &CancellationToken::new()))
            });
            examined.await.unwrap_or_default().into_iter().map(found).collect()
        }
        .boxed()
    }

    fn media_test(&self) -> BoxFuture<'static, MediaTest> {
        let config = self.0.generation.load().config.clone();
        async move {
            let runtime = Handle::current();
            let tested =
                spawn_blocking(move || runtime.block_on(doctor::media_test(&config, None, &CancellationToken::new())));
            let test = tested.await.unwrap_or_default();
            let ok = test.passed();
            let doctor::MediaTest { findings, trials } = test;
            let (calls, findings) = (trials.into_iter().map(tried), findings.into_iter().map(found));
            MediaTest { ok, calls: calls.collect(), findings: findings.collect() }
        }
        .boxed()
    }

    fn tools(&self) -> Vec<TenantTools> {
        self.0.inventory()
    }

    fn tool_audits(&self, tenant: Option<&str>, tool: Option<&str>) -> Vec<AuditLine> {
        tool.map_or_else(|| self.0.audits.last(tenant), |tool| self.0.audits.of(tenant, tool))
    }

    fn providers(&self) -> BTreeMap<String, ProviderView> {
        let generation = self.0.generation.load();
        let mut figures = self.0.metrics.of_providers();
        let running = self.0.live.view().active;
        let view = |(name, entry): (&String, &ProviderConfig)| {
            let contexts = |wanted: &dyn Fn(&Context) -> bool| -> Vec<String> {
                let contexts = generation.config.contexts.iter().filter(|(_, context)| wanted(context));
                contexts.map(|(name, _)| name.clone()).collect()
            };
            let view = ProviderView {
                kind: entry.kind.clone(),
                state: state(self.0.health.breaker(name)),
                contexts: contexts(&|context| context.provider == *name),
                fallback_of: contexts(&|context| context.fallbacks.contains(name)),
                calls: running.iter().filter(|call| call.call.provider == *name).count(),
                services: services(&generation.config, entry, &self.0.health),
                figures: figures.remove(name).unwrap_or_default(),
            };
            (name.clone(), view)
        };
        generation.config.providers.iter().map(view).collect()
    }

    fn contexts(&self) -> BTreeMap<String, ContextView> {
        let generation = self.0.generation.load();
        let running = self.0.live.view().active;
        let hex = |id: [u8; 4]| format!("{:08x}", u32::from_be_bytes(id));
        let view = |(name, context): (&String, &Arc<Context>)| {
            let view = ContextView {
                default: generation.config.default_context.as_ref() == Some(name),
                provider: context.provider.clone(),
                fallbacks: context.fallbacks.clone(),
                tools: context.tools.clone(),
                audio: context.audio.unwrap_or(generation.config.media.default).to_string(),
                audiosocket_id: context.audiosocket_id.map(hex),
                calls: running.iter().filter(|call| call.call.context == *name).count(),
            };
            (name.clone(), view)
        };
        generation.config.contexts.iter().map(view).collect()
    }

    fn system(&self) -> SystemView {
        let shared = &self.0;
        let (generation, open) = (shared.generation.load(), shared.media.open());
        let rtp = &shared.bound.media.rtp;
        let (first, last) = (*rtp.ports.start(), *rtp.ports.end());
        // RTP has every other port.
        let ports = usize::from(last - first) / 2 + 1;
        let audiosocket = MediaView {
            transport: "audiosocket",
            bind: shared.media.local_addr().to_string(),
            open: open.audiosocket_legs,
            most: None,
        };
        let bind = format!("{} {first}–{last}", rtp.bind);
        let rtp = MediaView { transport: "rtp", bind, open: open.rtp_ports, most: Some(ports) };
        // This one listens nowhere: it goes to Asterisk.
        let websocket = shared.bound.asterisk.as_ref().map(|asterisk| MediaView {
            transport: "websocket",
            bind: format!("→ {}", asterisk.url),
            open: open.websocket_legs,
            most: None,
        });
        SystemView {
            about: self.about(),
            readiness: self.readiness(),
            calls: shared.live.count(),
            calls_max: generation.config.limits.calls,
            draining: *shared.draining.borrow(),
            reload_pending: shared.mcp_status().reload_pending,
            configuration: match &shared.source {
                Source::File(file) => Some(file.display().to_string()),
                _ => None,
            },
            asterisk: shared.bound.asterisk.as_ref().map(|asterisk| AsteriskView {
                address: doctor::place_of_ari(&asterisk.url),
                app: asterisk.app.clone(),
                lost: shared.ari.as_ref().map_or(0, |ari| ari.client.counters().losses()),
            }),
            media: [audiosocket, rtp].into_iter().chain(websocket).collect(),
        }
    }

    fn take_calls(&self, taken: bool, by: &str) {
        if self.0.draining.send_replace(!taken) == taken {
            info!(account = by, "new calls are {}", if taken { "taken again" } else { "declined from now on" });
        }
    }
}

fn state(breaker: Breaker) -> &'static str {
    match breaker {
        Breaker::Closed => "asked",
        Breaker::HalfOpen => "tried",
        Breaker::Open => "left_alone",
    }
}

/// What a pipeline names of other sections, each with its own breaker.
fn services(config: &Config, provider: &ProviderConfig, health: &Health) -> Vec<ServiceView> {
    let view = |Named { section, name, .. }: Named| {
        let of = match section {
            "stt" => &config.services.stt,
            "llm" => &config.services.llm,
            _ => &config.services.voices,
        };
        let kind = of.get(&name)?.kind.clone();
        Some(ServiceView { section, kind, state: state(health.breaker(&place(section, &name))), name })
    };
    provider::names(&provider.kind, &provider.options).into_iter().filter_map(view).collect()
}

fn found(found: doctor::Finding) -> Finding {
    let doctor::Finding { area, grade, says, remedy } = found;
    Finding { area, grade: grade.label(), says, remedy }
}

fn tried(trial: doctor::Trial) -> TestCall {
    let path = |path: doctor::Path| {
        let doctor::Path { delay_ms, loss_percent, level_dbov, sent_dbov } = path;
        TestPath { delay_ms, loss_percent, level_dbov, sent_dbov }
    };
    let doctor::Trial { audio, configured, grade, says, remedy, from_caller, to_caller } = trial;
    let (from_caller, to_caller) = (from_caller.map(path), to_caller.map(path));
    TestCall { audio, configured, grade: grade.label(), says, remedy, from_caller, to_caller }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{call::AgentLoss, config};

    #[test]
    fn each_service_of_a_pipeline_is_told_with_its_own_state() {
        let yaml = "stt: { ears: { wyoming_transcribe: { address: \"127.0.0.1:1\" } } }\n\
                    llm: { house: { openai_chat: { model: m } }, spare: { openai_chat: { model: n } } }\n\
                    voices: { piper: { wyoming_speech: { address: \"127.0.0.1:2\" } } }\n\
                    providers: { one: { pipeline: { stt: ears, llm: [house, spare], tts: piper } }, two: { scripted: { script: [silence] } } }\n\
                    contexts: { a: { prompt: Test, provider: one, audiosocket_id: \"00000001\" } }\n";
        let config = config::load_str("test.yaml", yaml, &|_| None, provider::catalog())
            .unwrap_or_else(|problems| panic!("{problems}"));
        let health = Health::default();
        health.failed("llm.house", AgentLoss::Unauthorized);
        // A provider of the same name is another thing.
        health.failed("piper", AgentLoss::Unauthorized);
        let told = |provider: &str| services(&config, &config.providers[provider], &health);
        let told_of: Vec<_> = told("one").into_iter().map(|one| (one.section, one.name, one.kind, one.state)).collect();
        let service = |section, name: &str, kind: &str, state| (section, name.to_owned(), kind.to_owned(), state);
        let expected = [
            service("stt", "ears", "wyoming_transcribe", "asked"),
            service("llm", "house", "openai_chat", "left_alone"),
            service("llm", "spare", "openai_chat", "asked"),
            service("voices", "piper", "wyoming_speech", "asked"),
        ];
        assert_eq!(told_of, expected);
        assert!(told("two").is_empty());
    }
}
