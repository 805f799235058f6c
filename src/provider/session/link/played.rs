//! A provider that a test plays, over channels instead of a socket: time can be the test's.

use super::{Incoming, Link, Reader, Unwritable};
use crate::provider::{StartPlayed, Wire};
use futures_util::{SinkExt as _, StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::{sync::PollSender, task::AbortOnDropHandle};

/// Messages between the two, each way: over a second of caller audio.
const QUEUE: usize = 64;

impl Link {
    pub(super) fn played(start: StartPlayed) -> Self {
        let (to_agent, from_session) = mpsc::channel(QUEUE);
        let (to_session, from_agent) = mpsc::channel(QUEUE);
        let task = tokio::spawn(start(from_session, to_session));
        let sink = PollSender::new(to_agent)
            .sink_map_err(|_| Unwritable)
            .with_flat_map(|message| stream::iter(Wire::of(message).map(Ok)));
        let messages = stream::unfold(from_agent, |mut from_agent| async {
            from_agent.recv().await.map(|wire| (Incoming::Wire(wire), from_agent))
        });
        Self {
            sink: Box::pin(sink),
            reader: Reader::of(messages.boxed()),
            unflushed: false,
            pings: false,
            _played: Some(AbortOnDropHandle::new(task)),
        }
    }
}
