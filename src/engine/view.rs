//! The engine as the pages see it.

use super::Shared;
use crate::{
    asterisk::events::AriState,
    call::EndReason,
    facts::CallId,
    http::{
        About, CallsView, Check, EngineView, LiveEntry, McpStatus, McpTest, Readiness, ReloadFailure, ReloadReport,
    },
    remote::health::Breaker,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use std::sync::Arc;

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

    fn story(&self, id: CallId, from: u64) -> Option<Vec<LiveEntry>> {
        self.0.live.story(id, from)
    }

    fn hang_up(&self, id: CallId) -> bool {
        self.0.live.end(id, EndReason::OperatorEnded)
    }

    fn metrics_text(&self) -> String {
        let open = self.0.media.open();
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let media = [
            ("audiosocket_leg", open.audiosocket_legs),
            ("unidentified", open.unidentified),
            ("expected", open.expected),
            ("rtp_port", open.rtp_ports),
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
}
