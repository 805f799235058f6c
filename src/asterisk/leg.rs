//! A caller under our control, and the ways to part from them.

use super::{
    ari::{AriClient, AriError, Fault},
    dial::{self, Dial, Dialling},
    events::{Gone, Registration, Transferee},
};
use crate::{
    call::are_keys,
    config::{Mailbox, Place},
    facts::CallId,
};
use futures_util::future::join_all;
use std::time::Duration;

/// Clearing a call away takes a few milliseconds. A channel whose lock Asterisk holds can make a
/// request wait for ever; then the rest is left to the next reconcile.
pub const TEAR_DOWN_MAX: Duration = Duration::from_secs(5);
/// After a `continue` whose answer was lost, the caller's `StasisEnd` tells whether it happened; it
/// comes a millisecond after. Without one, Asterisk is asked.
const TRANSFER_PROOF_MAX: Duration = Duration::from_millis(500);

/// The channel variable by which the dialplan learns why a caller comes back.
pub const STATUS_VARIABLE: &str = "OFFHOOK_STATUS";
/// Its value after a transfer.
pub const TRANSFERRED: &str = "TRANSFERRED";
/// Its value when offhook broke, or was stopped while it set the call up.
pub const FAILED: &str = "FAILED";
/// The channel variable by which the dialplan learns whose mailbox a caller is to speak to.
pub const MAILBOX_VARIABLE: &str = "OFFHOOK_MAILBOX";

/// A call that stands: the caller and a media channel in one bridge.
///
/// It is cleared away by [`AriLeg::tear_down`]. Should it be dropped instead (its task panicked),
/// the same happens in the background and the caller goes back to the dialplan as [`FAILED`].
#[derive(Debug)]
pub struct AriLeg {
    ari: AriClient,
    call: CallId,
    registration: Option<Registration>,
}

/// What becomes of the caller when a call is cleared away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    HangUp,
    /// Hung up by themselves, or transferred.
    CallerGone,
    /// Goes on in the dialplan after `Stasis()`, with this [`STATUS_VARIABLE`].
    ReturnToDialplan {
        status: &'static str,
    },
}

/// Why the caller is still here after a transfer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    #[error("the dialplan has no such place")]
    NoSuchPlace,
    #[error("the caller has left")]
    CallerLeft,
    #[error(transparent)]
    Ari(#[from] AriError),
}

impl AriLeg {
    pub(super) fn new(ari: AriClient, call: CallId, registration: Registration) -> Self {
        Self { ari, call, registration: Some(registration) }
    }

    pub fn call(&self) -> CallId {
        self.call
    }

    /// The id of the caller's channel.
    pub fn caller(&self) -> &str {
        self.registration().caller()
    }

    /// Sends the caller to a place in the dialplan, ringing, with their caller id. On `Ok` they are
    /// out of the call; what remains is [`AriLeg::tear_down`] with [`Ending::CallerGone`], and to see
    /// whether the place hangs up on them, where Asterisk tells that. On `Err` they are in the bridge as
    /// before and the call can go on.
    ///
    /// The ringing began here goes on until the dialplan plays something or dials. From then on it
    /// is `Dial()`'s business: that passes on what the far end signals (180), and with its option
    /// `r` lets a caller whose far end signals nothing hear ringing too.
    ///
    /// # Errors
    /// When the place is missing, the caller left, or Asterisk refused.
    pub async fn transfer(&self, to: &Place) -> Result<Option<Transferee>, TransferError> {
        let caller = self.caller();
        if self.ari.place_exists(caller, &to.context, &to.extension, to.priority).await == Some(false) {
            // `continue` would hang the caller up.
            return Err(TransferError::NoSuchPlace);
        }
        let transferee = Transferee::follow(&self.ari, self.registration().router(), caller).await;
        self.ari.set_variable(caller, STATUS_VARIABLE, TRANSFERRED).await.map_err(parted)?;
        let bridge = self.registration().bridge();
        bridge.is_left();
        // In the bridge the next frame of the media channel would end the ringing tone.
        self.courtesy(self.ari.remove_channel(self.call, caller).await);
        self.courtesy(self.ari.ring(caller).await);
        let place = Some((&*to.context, &*to.extension, to.priority));
        let Err(error) = self.ari.continue_in_dialplan(caller, place).await else { return Ok(transferee) };
        let is_unknown = matches!(error.fault, Fault::OutcomeUnknown(_));
        if is_unknown && self.is_told_to_have_left().await {
            return Ok(transferee);
        }
        if let Some(transferee) = transferee {
            transferee.stays().await;
        }
        if is_unknown && self.is_not_in_application().await {
            return Ok(None);
        }
        let _ = self.ari.ring_stop(caller).await;
        let _ = self.ari.set_variable(caller, STATUS_VARIABLE, "").await;
        let _ = self.ari.add_channels(self.call, &[caller]).await;
        if let Some(media) = self.registration().media_channels().last() {
            bridge.is_joined_again(media);
        }
        Err(parted(error))
    }

    /// Sends the caller to a mailbox; see [`AriLeg::transfer`] for how.
    ///
    /// # Errors
    /// When the dialplan has no such place, the caller left, or Asterisk refused.
    pub async fn voicemail(&self, place: &Place, mailbox: &Mailbox) -> Result<Option<Transferee>, TransferError> {
        self.ari.set_variable(self.caller(), MAILBOX_VARIABLE, &mailbox.mailbox).await.map_err(parted)?;
        self.transfer(place).await
    }

    /// Rings a destination's endpoints. The caller stays in the call until one of them answers.
    pub fn dial(&self, to: &Dial) -> Dialling {
        let registration = self.registration();
        let (router, presence) = (registration.router(), registration.presence());
        dial::dial(self.ari.clone(), router, presence, self.call, registration.caller(), to)
    }

    /// Presses keys for the caller's end to hear, in the background: they take a quarter of a second
    /// each.
    pub fn send_digits(&self, digits: String) {
        if !are_keys(&digits) {
            tracing::warn!(call_id = %self.call, keys = digits.len(), "these are no keys; nothing was sent");
            return;
        }
        let (ari, call, caller) = (self.ari.clone(), self.call, self.caller().to_owned());
        self.ari.cleanups().spawn(async move {
            if let Err(error) = ari.send_digits(&caller, &digits).await {
                tracing::warn!(call_id = %call, %error, "the keys could not be sent");
            }
        });
    }

    /// Clears the call away. `media` is whatever holds the media socket: it is dropped first, since
    /// an AudioSocket channel can hold up the request that deletes it until its socket is closed.
    ///
    /// Runs to its end even when this future is dropped, and never longer than [`TEAR_DOWN_MAX`].
    pub async fn tear_down(mut self, ending: Ending, media: impl Send) {
        drop(media);
        let Some(registration) = self.registration.take() else { return };
        let clearing = clear(self.ari.clone(), self.call, ending, registration);
        // Only a panic inside could make this an error, and that has been logged.
        let _ = self.ari.cleanups().spawn(clearing).await;
    }

    pub(super) fn ari(&self) -> &AriClient {
        &self.ari
    }

    pub(super) fn registration(&self) -> &Registration {
        self.registration.as_ref().expect("only `tear_down` and `drop` take it, and they end the leg")
    }

    fn courtesy(&self, result: Result<(), AriError>) {
        if let Err(error) = result {
            tracing::debug!(call_id = %self.call, %error, "no ringing before the transfer");
        }
    }

    async fn is_told_to_have_left(&self) -> bool {
        let gone = tokio::time::timeout(TRANSFER_PROOF_MAX, self.registration().caller_gone()).await;
        matches!(gone, Ok(Gone::Left | Gone::Released))
    }

    /// Asterisk's own word where no event came. While a [`Transferee`] is followed it says nothing of the caller.
    async fn is_not_in_application(&self) -> bool {
        let caller = self.caller();
        let application = self.ari.application().await;
        matches!(application, Ok(Some(application)) if !application.channel_ids.iter().any(|id| id == caller))
    }
}

impl Drop for AriLeg {
    fn drop(&mut self) {
        let Some(registration) = self.registration.take() else { return };
        // Without a runtime the process is at its end, and the next one reconciles.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        tracing::warn!(call_id = %self.call, "a call was dropped; its caller goes back to the dialplan");
        let ending = Ending::ReturnToDialplan { status: FAILED };
        self.ari.cleanups().spawn_on(clear(self.ari.clone(), self.call, ending, registration), &runtime);
    }
}

/// Gives a caller without a call back to the dialplan, with [`STATUS_VARIABLE`] set. A caller who
/// has left is a success.
///
/// # Errors
/// When Asterisk does not do it; the caller is then hung up, as nobody will ever talk to them.
pub async fn decline(ari: &AriClient, channel: &str, status: &str) -> Result<(), AriError> {
    let given_back = async {
        ari.set_variable(channel, STATUS_VARIABLE, status).await?;
        ari.continue_in_dialplan(channel, None).await
    };
    match given_back.await {
        Err(error) if error.channel_has_left() => Ok(()),
        Err(error) => {
            let _ = ari.hang_up(channel, "congestion").await;
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Removes what a set-up made, whether it was made or not. The registration goes last: while it
/// stands, nobody takes the call's channels for orphans.
pub(super) async fn clear(ari: AriClient, call: CallId, ending: Ending, registration: Registration) {
    let (caller, media) = (registration.caller(), registration.media_channels());
    registration.bridge().is_left();
    let clearing = async {
        match ending {
            Ending::HangUp => {
                let ((), hung_up) = tokio::join!(remove(&ari, call, &media), ari.hang_up(caller, "normal"));
                hung_up
            }
            Ending::CallerGone => {
                remove(&ari, call, &media).await;
                Ok(())
            }
            Ending::ReturnToDialplan { status } => {
                let given_back = decline(&ari, caller, status).await;
                remove(&ari, call, &media).await;
                given_back
            }
        }
    };
    match tokio::time::timeout(TEAR_DOWN_MAX, clearing).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(call_id = %call, %error, "the caller could not be parted from properly"),
        Err(_) => {
            ari.counters().teardown_overrun.inc();
            tracing::warn!(call_id = %call, "Asterisk did not clear the call away in time");
        }
    }
}

/// Removes the media channels and the bridge of a call.
async fn remove(ari: &AriClient, call: CallId, media: &[String]) {
    let bridge = ari.names().bridge(call);
    let channels = join_all(media.iter().map(|channel| ari.hang_up(channel, "normal")));
    let (channels, bridge) = tokio::join!(channels, ari.delete_bridge(&bridge));
    for error in channels.into_iter().chain([bridge]).filter_map(Result::err) {
        tracing::warn!(call_id = %call, %error, "a part of the call could not be removed");
    }
}

fn parted(error: AriError) -> TransferError {
    if error.channel_has_left() { TransferError::CallerLeft } else { error.into() }
}
