//! Another audio path for a call whose own broke: a new media channel takes the old one's place in the bridge, and caller,
//! agent and bridge stay as they are. A bridge that was taken from the call is made again, and a caller who is not in it is put
//! there.
//!
//! Invariant: whatever way a repair ends but by success, its channel, port and registration are removed; the channel that broke
//! is removed in any case.

use super::{
    ari::{AriClient, AriError},
    events::{CallBridge, Presence, here},
    leg::AriLeg,
    setup::{MEDIA_START_MAX, MediaPorts, Plan, Port},
};
use crate::{audio::Format, call::SetupStep, facts::CallId};
use std::{
    future::Future,
    sync::atomic::{AtomicBool, Ordering},
};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A repair under way. Dropping it gives it up, and what it has done is undone in the background.
pub struct Repair<L> {
    result: oneshot::Receiver<Result<L, SetupStep>>,
    _given_up: DropGuard,
}

impl<L> Repair<L> {
    /// The new audio path, whose channel is in the bridge. May be dropped and asked again.
    ///
    /// # Errors
    /// The step that failed.
    pub async fn done(&mut self) -> Result<L, SetupStep> {
        (&mut self.result).await.unwrap_or(Err(SetupStep::MediaChannel))
    }
}

impl AriLeg {
    /// Begins to replace the media channel. `broken` is whatever still holds the socket of the one that broke: it is dropped
    /// first, since an AudioSocket channel can hold up the request that deletes it. `plan` is the call's own.
    ///
    /// # Errors
    /// When there is no local socket for another path.
    pub fn repair<M: MediaPorts>(
        &self,
        media: &M,
        plan: &Plan,
        broken: impl Send,
    ) -> Result<Repair<M::Leg>, SetupStep> {
        drop(broken);
        let (ari, registration) = (self.ari(), self.registration());
        let earlier = registration.media_channels();
        let channel = ari.names().next_media_channel(self.call(), earlier.len());
        // Under an id of its own: a connection for the old one may still be on its way.
        let plan = Plan { call: CallId::random(), ..plan.clone() };
        let port = Port::<M>::reserve(media, &plan).ok_or(SetupStep::MediaSocket)?;
        let bridge = registration.bridge();
        bridge.breaks();
        registration.expect_media(&channel);
        if let Some(broken) = earlier.last().cloned() {
            let ari = ari.clone();
            // Beside the rest: nothing waits for it, and the call's end removes it once more.
            self.ari().cleanups().spawn(async move { ari.hang_up(&broken, "normal").await });
        }
        let given_up = CancellationToken::new();
        let (presence, format) = (registration.media_presence(), plan.format);
        let (call, token) = (self.call(), given_up.clone());
        let caller = registration.caller().to_owned();
        let (ari, made_bridge) = (ari.clone(), AtomicBool::default());
        let replacement =
            Replacement { ari, call, caller, channel, format, presence, bridge, made_bridge, given_up: token };
        let (sender, result) = oneshot::channel();
        // In a task of its own, as a request that was sent cannot be called back.
        self.ari().cleanups().spawn(replacement.run(port, plan, sender));
        Ok(Repair { result, _given_up: given_up.drop_guard() })
    }
}

struct Replacement {
    ari: AriClient,
    call: CallId,
    caller: String,
    channel: String,
    format: Format,
    presence: watch::Receiver<Presence>,
    bridge: CallBridge,
    /// The call had none any more.
    made_bridge: AtomicBool,
    /// Nobody waits for the result any more.
    given_up: CancellationToken,
}

/// A step, and what Asterisk said of it where it said something. `None`: given up.
type Stop = Option<(SetupStep, Option<AriError>)>;

impl Replacement {
    async fn run<M: MediaPorts>(self, port: Port<M>, plan: Plan, result: oneshot::Sender<Result<M::Leg, SetupStep>>) {
        let told = match self.steps(port, &plan).await {
            Ok(leg) => result.send(Ok(leg)),
            Err(stop) => {
                if let Some((step, cause)) = &stop {
                    let (step, cause) = (step.label(), cause.as_ref().map(ToString::to_string));
                    tracing::warn!(call_id = %self.call, step, cause, "a step of the audio path's repair failed");
                }
                // First: whoever is told may clear the call away at once.
                self.undo().await;
                drop(result.send(Err(stop.map_or(SetupStep::MediaChannel, |(step, _)| step))));
                return;
            }
        };
        if let Err(untaken) = told {
            drop(untaken);
            self.undo().await;
        }
    }

    /// The local end is dropped before this returns an error, so that the channel can be deleted.
    async fn steps<M: MediaPorts>(&self, port: Port<M>, plan: &Plan) -> Result<M::Leg, Stop> {
        // Asked anew: a phone may have changed its codec meanwhile.
        let coding = plan.coding(&self.ari, &self.caller).await;
        let made = self.ari.external_media(self.channel.clone(), &port.wire(plan, coding), self.format).await;
        let made = made.map_err(|error| Some((SetupStep::MediaChannel, Some(error))))?;
        let in_stasis = async {
            let here = timeout(MEDIA_START_MAX, here(self.presence.clone())).await;
            if matches!(here, Ok(Ok(()))) { Ok(()) } else { Err(Some((SetupStep::MediaChannel, None))) }
        };
        let connected = async { port.open(&self.ari, made, coding).await.ok_or(Some((SetupStep::MediaConnect, None))) };
        let ready = async { futures_util::future::try_join(in_stasis, connected).await.map(|((), leg)| leg) };
        let leg = self.unless_given_up(ready).await?;
        self.join().await?;
        Ok(leg)
    }

    /// Puts the new channel into the call's bridge, and with it the caller, should they be in none.
    async fn join(&self) -> Result<(), Stop> {
        let failed = |error| Some((SetupStep::Bridge, Some(error)));
        let members = self.unless_given_up(async { Ok(self.ari.bridge_members(self.call).await) }).await?;
        let caller_is_in = match members {
            Ok(Some(members)) => members.contains(&self.caller),
            Ok(None) => {
                self.made_bridge.store(true, Ordering::Relaxed);
                // To its end: what is still under way cannot be undone.
                self.ari.create_bridge(self.call).await.map_err(failed)?;
                false
            }
            // They are most likely where they were.
            Err(error) => {
                tracing::debug!(call_id = %self.call, %error, "who is in the call's bridge could not be asked");
                true
            }
        };
        let with_caller = !caller_is_in && self.bridge.lacks_caller(self.call);
        if with_caller {
            tracing::warn!(call_id = %self.call, "the caller was in no bridge with their call; they are put there again");
        }
        let both = [&*self.channel, &*self.caller];
        let joining = if with_caller { &both[..] } else { &both[..1] };
        self.unless_given_up(async { self.ari.add_channels(self.call, joining).await.map_err(failed) }).await?;
        self.bridge.stands(&self.channel);
        Ok(())
    }

    async fn unless_given_up<T>(&self, step: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
        self.given_up.run_until_cancelled(step).await.unwrap_or(Err(None))
    }

    async fn undo(&self) {
        if let Err(error) = self.ari.hang_up(&self.channel, "normal").await {
            tracing::warn!(call_id = %self.call, %error, "the channel of a repair could not be removed");
        }
        if self.made_bridge.load(Ordering::Relaxed)
            && let Err(error) = self.ari.delete_bridge(&self.ari.names().bridge(self.call)).await
        {
            tracing::warn!(call_id = %self.call, %error, "the bridge of a repair could not be removed");
        }
    }
}

#[cfg(test)]
mod tests;
