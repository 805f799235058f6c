//! Callers who were sent to a place of the dialplan, and whether that place hung up on them.
//!
//! Asterisk tells nothing more of a channel that has left our application, unless it is asked to: it is subscribed to until the
//! place counts as one that took the caller.

use super::router::EventRouter;
use crate::asterisk::ari::{AriClient, AriError, Fault};
use std::{collections::HashMap, time::Duration};
use tokio::{runtime::Handle, sync::watch, time::timeout};

/// Time after which a place counts as one that took the caller. A trunk refuses a call within seconds, and a telephone that is
/// busy or not there at once; an error after half a minute is rather that of a conversation, where the place answered by itself.
const TAKEN_AFTER: Duration = Duration::from_secs(30);

/// Wait for Asterisk's word that it will tell of a caller, who is on the way to somebody meanwhile.
const FOLLOW_MAX: Duration = Duration::from_secs(1);

/// State of a caller at the place that they were sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtPlace {
    Open,
    /// Somebody whom the place called has answered, or the place has sent the caller back to us.
    Taken,
    /// The caller has hung up, or the channel has ended for a reason that is not told.
    Left,
    /// The channel has ended by the dialplan, with this Q.850 cause.
    HungUp(u32),
}

/// Transferred callers, by the id of their channel.
pub(super) type Transferred = HashMap<String, (u64, watch::Sender<AtPlace>)>;

/// Caller who was sent to a place of the dialplan. Asterisk tells of their channel until this is dropped.
pub struct Transferee {
    ari: AriClient,
    router: EventRouter,
    channel: String,
    serial: u64,
    state: watch::Receiver<AtPlace>,
}

impl Transferee {
    /// Begins to follow a caller, before they are sent away. `None`: Asterisk refuses to tell of them.
    pub(in crate::asterisk) async fn follow(ari: &AriClient, router: &EventRouter, caller: &str) -> Option<Self> {
        // Once it has left our application, a channel that stood for the caller's is called by its own id.
        let channel = ari.names().identities().channel_of(caller).into_owned();
        let (sender, state) = watch::channel(AtPlace::Open);
        let serial = {
            let mut routes = router.routes();
            let serial = routes.next_serial();
            routes.transferred.insert(channel.clone(), (serial, sender));
            serial
        };
        let transferee = Self { ari: ari.clone(), router: router.clone(), channel, serial, state };
        match timeout(FOLLOW_MAX, ari.subscribe(&transferee.channel)).await {
            Ok(Ok(())) => Some(transferee),
            Ok(Err(AriError { fault: Fault::OutcomeUnknown(_), .. })) | Err(_) => {
                tracing::debug!("whether Asterisk will tell that the transfer fails is not known");
                // Dropped, it takes back what may have come about.
                None
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "Asterisk will not tell whether the transfer fails");
                transferee.forgotten();
                None
            }
        }
    }

    /// Waits until the place counts as one that took the caller. Returns the Q.850 cause with which it hung up on them instead.
    pub async fn failure(mut self) -> Option<u32> {
        let settled = self.state.wait_for(|state| *state != AtPlace::Open);
        match timeout(TAKEN_AFTER, settled).await.ok()?.map(|state| *state) {
            Ok(AtPlace::HungUp(cause)) => is_failure(cause).then_some(cause),
            _ => None,
        }
    }

    /// Ends at once what [`Self::follow`] has begun: the caller is not sent away.
    pub(in crate::asterisk) async fn stays(self) {
        let (ari, channel) = (self.ari.clone(), self.channel.clone());
        self.forgotten();
        if let Err(error) = ari.unsubscribe(&channel).await {
            tracing::debug!(%error, "a subscription to a channel was not taken back");
        }
    }

    /// Drops this without a request.
    fn forgotten(mut self) {
        self.state = watch::channel(AtPlace::Left).1;
    }
}

impl Drop for Transferee {
    fn drop(&mut self) {
        let mut routes = self.router.routes();
        if routes.transferred.get(&self.channel).is_some_and(|(serial, _)| *serial == self.serial) {
            routes.transferred.remove(&self.channel);
        }
        drop(routes);
        // The subscription to a channel ends with it.
        let is_there = matches!(*self.state.borrow(), AtPlace::Open | AtPlace::Taken);
        if is_there && let Ok(runtime) = Handle::try_current() {
            let (ari, channel) = (self.ari.clone(), std::mem::take(&mut self.channel));
            let cleanups = self.ari.cleanups().clone();
            let unsubscribing = async move {
                if let Err(error) = ari.unsubscribe(&channel).await {
                    tracing::debug!(%error, "a subscription to a channel was not taken back");
                }
            };
            cleanups.spawn_on(unsubscribing, &runtime);
        }
    }
}

impl EventRouter {
    /// Enters what became of a transferred caller; the first word counts.
    pub(super) fn at_place(&self, channel: &str, state: AtPlace) {
        if let Some((_, sender)) = self.routes().transferred.get(channel) {
            sender.send_if_modified(|known| {
                let is_first = *known == AtPlace::Open;
                if is_first {
                    *known = state;
                }
                is_first
            });
        }
    }
}

/// Whether a channel that ends with this Q.850 cause ends by an error: 0 is unknown, 16 and 31 are normal, and with 26 somebody
/// else has answered.
const fn is_failure(cause: u32) -> bool {
    !matches!(cause, 0 | 16 | 26 | 31)
}
