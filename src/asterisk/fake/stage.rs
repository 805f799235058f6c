//! A fake Asterisk with an engine's control side attached to it.

use super::FakeAri;
use std::time::Duration;
use tokio::{sync::mpsc, task::JoinSet};

/// A fake Asterisk with an engine's control side attached to it.
pub(in crate::asterisk) struct Stage {
    pub(in crate::asterisk) fake: FakeAri,
    pub(in crate::asterisk) ari: crate::asterisk::ari::AriClient,
    pub(in crate::asterisk) router: crate::asterisk::events::EventRouter,
    pub(in crate::asterisk) arrivals: mpsc::Receiver<crate::asterisk::events::Arrival>,
    pub(in crate::asterisk) state: tokio::sync::watch::Receiver<crate::asterisk::events::AriState>,
    pub(in crate::asterisk) stop: tokio_util::sync::CancellationToken,
    _socket: JoinSet<()>,
}

/// As the real clockwork, and faster. What is dead is given a second: on a busy machine a live one takes long.
pub(in crate::asterisk) fn fast() -> crate::asterisk::events::Timing {
    crate::asterisk::events::Timing {
        connect_max: Duration::from_millis(500),
        ping_every: Duration::from_millis(100),
        dead_after: Duration::from_secs(1),
        write_max: Duration::from_millis(500),
        backoff_first: Duration::from_millis(10),
        backoff_max: Duration::from_millis(200),
        healthy_after: Duration::from_secs(1),
        beat_every: Duration::from_millis(50),
        look_every: Duration::from_millis(20),
        owner_gone_after: Duration::from_millis(400),
        replaced_wait: Duration::from_secs(60),
        tidy_first: Duration::from_millis(20),
        tidy_max: Duration::from_millis(200),
    }
}

impl Stage {
    /// Attaches without waiting for the connection.
    pub(in crate::asterisk) fn attach(fake: FakeAri, config: &crate::config::AsteriskConfig) -> Self {
        Self::attach_with(fake, config, fast())
    }

    /// The same by another clockwork.
    pub(in crate::asterisk) fn attach_with(
        fake: FakeAri,
        config: &crate::config::AsteriskConfig,
        timing: crate::asterisk::events::Timing,
    ) -> Self {
        let counters = crate::asterisk::ari::AriCounters::new(&prometheus::Registry::new()).unwrap();
        let ari = crate::asterisk::ari::AriClient::new(config, counters).unwrap();
        let (socket, arrivals, state) = crate::asterisk::events::EventSocket::new(ari.clone(), timing);
        let (router, stop) = (socket.router(), tokio_util::sync::CancellationToken::new());
        let mut task = JoinSet::new();
        task.spawn(socket.run(stop.clone()));
        Self { fake, ari, router, arrivals, state, stop, _socket: task }
    }

    pub(in crate::asterisk) async fn up() -> Self {
        let fake = FakeAri::start().await;
        let config = fake.config();
        let mut stage = Self::attach(fake, &config);
        stage.reaches(crate::asterisk::events::AriState::Up).await;
        stage
    }

    pub(in crate::asterisk) async fn reaches(&mut self, wanted: crate::asterisk::events::AriState) {
        let reached =
            tokio::time::timeout(Duration::from_secs(5), self.state.wait_for(|state| *state == wanted)).await.is_ok();
        assert!(reached, "never {wanted:?}, but {:?}", *self.state.borrow());
    }

    pub(in crate::asterisk) async fn arrival(&mut self) -> crate::asterisk::events::Arrival {
        let arrival = tokio::time::timeout(Duration::from_secs(5), self.arrivals.recv()).await;
        arrival.expect("an arrival in time").expect("the socket's task lives")
    }

    pub(in crate::asterisk) async fn caller(&mut self) -> crate::asterisk::events::Arrival {
        self.fake.now().call_in("caller");
        self.arrival().await
    }
}

/// A channel that is in our application, and not answered.
pub(in crate::asterisk) fn in_stasis() -> super::Channel {
    super::Channel { in_stasis: true, ..Default::default() }
}
