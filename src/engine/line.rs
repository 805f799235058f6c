//! The caller's side of one call, whichever way it came, as the call's task uses it.
//!
//! A line reports [`LegEvent`]s and takes [`LegCommand`]s without waiting. What a command makes of
//! the caller is remembered and done in [`Line::clear_away`], which always ends in bounded time.
//! An audio path that breaks under a call by ARI is replaced, and the core sees a gap at most.

mod care;
mod held;
mod keys;
mod streamed;

use crate::{
    asterisk::{
        ari::AriClient,
        counters::{MediaCounters, PathFault},
        dial::{Dial, Dialling, Progress},
        events::{ChannelEvent, Gone, NewParty, Transferee},
        hub::MediaHub,
        leg::{AriLeg, Ending, TransferError},
        media::{MediaEvent, MediaLeg},
        setup::{Plan, SetupError, Wish, set_up},
    },
    audio::{FRAME, Format},
    call::{EndReason, LegCommand, LegEvent, TransferFault},
    config::{Destination, Transport, VoicemailConfig, Way},
};
use bytes::Bytes;
use care::{Care, Cared, Watch};
use futures_util::{FutureExt as _, future::BoxFuture};
use held::Held;
use keys::Keys;
use std::{collections::BTreeMap, future::pending, sync::Arc};
use streamed::Streamed;
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior, interval},
};
use tracing::warn;

pub(super) struct Line {
    control: Control,
    media: Option<MediaLeg>,
    /// Of a call by ARI, while its path can be replaced.
    care: Option<Care>,
    /// Of a call whose path cannot be.
    watch: Option<Watch>,
    keys: Keys,
    /// Whether the caller's phone has the call on hold, where that is told.
    on_hold: Option<watch::Receiver<bool>>,
    /// The party that has taken the caller's place.
    party: Option<watch::Receiver<Option<NewParty>>>,
    /// Reported before anything else; the rest of the line may have more to say.
    announce: Option<LegEvent>,
    ending: Ending,
    /// The caller was sent to a place of the dialplan.
    transferee: Option<Transferee>,
}

/// How the caller's channel is held.
enum Control {
    /// Media and bridge are on their way, or the caller hears ringing until the answer is wished.
    SettingUp {
        setup: BoxFuture<'static, Result<(AriLeg, MediaLeg), SetupError>>,
        wish: watch::Sender<Wish>,
        held: Held,
    },
    Up {
        leg: Arc<AriLeg>,
        held: Held,
        transfer: Option<Transfer>,
    },
    /// The set-up failed and has undone itself; the caller waits in Stasis.
    Bare {
        held: Held,
    },
    /// `AudioSocket()` in the dialplan: the socket is all there is.
    Dialplan,
    /// A VAM client's stream.
    Streamed(Streamed),
    /// A conversation in writing: nobody is heard, at the pace of a call, and nobody hears.
    Written {
        frames: Interval,
        silence: Bytes,
    },
}

/// A caller on the way to somebody else.
enum Transfer {
    /// Being handed over to the dialplan.
    Continue(BoxFuture<'static, Result<Option<Transferee>, TransferError>>),
    /// Others are rung; the caller may leave meanwhile.
    Dial(Dialling),
}

/// What a call that came by ARI needs to be set up.
pub(super) struct ByAri {
    pub ari: AriClient,
    pub arrival: crate::asterisk::events::Arrival,
    pub plan: Plan,
    /// When the dialplan's time for the channel is over.
    pub times_out: Option<Instant>,
    pub keeps_withheld_numbers: bool,
    pub media: Arc<MediaHub>,
    pub places: Arc<Places>,
}

/// Where a caller can be sent.
pub(super) struct Places {
    pub destinations: BTreeMap<String, Destination>,
    pub voicemail: VoicemailConfig,
}

impl Line {
    /// Begins to set up the call of a caller who waits in Stasis.
    pub fn by_ari(call: ByAri) -> Self {
        let ByAri { ari, arrival, plan, times_out, keeps_withheld_numbers, media, places } = call;
        let caller = arrival.registration.caller().to_owned();
        let held = Held {
            ari: ari.clone(),
            caller,
            events: arrival.events,
            places,
            caller_name: arrival.caller_name,
            caller_number: arrival.caller_number,
            times_out,
            caller_gone: false,
            keeps_withheld_numbers,
            parties: 0,
        };
        let registration = arrival.registration;
        let party = Some(registration.party());
        let care = Some(Care::new(Arc::clone(&media), ari.clone(), &registration, plan.clone()));
        let on_hold = Some(registration.held());
        let (wish, wished) = watch::channel(Wish::Ring);
        let setup = async move { set_up(&ari, &*media, registration, plan, wished).await }.boxed();
        let control = Control::SettingUp { setup, wish, held };
        Self { care, on_hold, party, ..Self::new(control) }
    }

    fn new(control: Control) -> Self {
        let (keys, ending) = (Keys::default(), Ending::HangUp);
        let (media, care, watch, on_hold, party, announce, transferee) = Default::default();
        Self { control, media, care, watch, keys, on_hold, party, announce, ending, transferee }
    }

    /// A caller who is connected already.
    pub fn walk_in(media: MediaLeg, counters: Arc<MediaCounters>) -> Self {
        let watch = Some(Watch::new(Transport::AudioSocket, media.format, counters));
        Self { media: Some(media), watch, announce: Some(LegEvent::Up), ..Self::new(Control::Dialplan) }
    }

    /// Somebody who writes, whose audio is silence.
    pub fn written(format: Format) -> Self {
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let silence = Bytes::from(vec![format.silence(); format.frame_bytes()]);
        Self { announce: Some(LegEvent::Up), ..Self::new(Control::Written { frames, silence }) }
    }

    /// The next thing that happened; it may be dropped and asked again without losing one.
    pub async fn event(&mut self) -> LegEvent {
        loop {
            if let Some(event) = self.announce.take() {
                return event;
            }
            let event = tokio::select! {
                biased;
                event = self.control.event() => event,
                held = told(&mut self.on_hold) => Happening::Held(held),
                party = told(&mut self.party) => Happening::Party(party),
                cared = cared(&mut self.care) => Happening::Cared(cared),
                event = media_event(&mut self.media) => Happening::Media(event),
            };
            if let Some(event) = self.happened(event) {
                return event;
            }
        }
    }

    fn happened(&mut self, event: Happening) -> Option<LegEvent> {
        let by_dialplan = matches!(self.control, Control::Dialplan);
        match event {
            Happening::Channel(ChannelEvent::Digit(digit)) => self.key(digit, keys::Way::Event),
            Happening::Channel(ChannelEvent::CallerGone(how)) => {
                self.ending = Ending::CallerGone;
                Some(self.control.held().map_or(LegEvent::CallerLeft, |held| held.left(how)))
            }
            Happening::Channel(ChannelEvent::MediaGone(Gone::Unbridged)) => self.broken(PathFault::Unbridged),
            Happening::Channel(ChannelEvent::MediaGone(_)) => self.broken(PathFault::ChannelGone),
            Happening::Held(held) => Some(LegEvent::Held(held)),
            Happening::Party(party) => self.control.held_mut()?.is_with(party?),
            Happening::SetUp(result) => Some(self.set_up(*result)),
            Happening::Transferred(Ok(transferee)) => {
                (self.ending, self.transferee) = (Ending::CallerGone, transferee);
                Some(LegEvent::Transferred)
            }
            Happening::Transferred(Err(error)) => {
                warn!(%error, "the transfer did not start");
                Some(LegEvent::TransferFailed(TransferFault::Unreachable))
            }
            Happening::Dialled(Progress::Ringing) => Some(LegEvent::Ringing),
            Happening::Dialled(Progress::HandedOn) => {
                self.ending = Ending::CallerGone;
                Some(LegEvent::Transferred)
            }
            Happening::Dialled(Progress::Failed(fault)) => {
                self.control.end_dialling();
                Some(LegEvent::TransferFailed(fault))
            }
            // Somebody on the way to somebody else is out of the bridge soon, where nobody hears them.
            Happening::Cared(Cared::Fault(fault)) => self.control.is_idle().then(|| self.broken(fault)).flatten(),
            Happening::Cared(Cared::Repaired(media, fault)) => {
                self.media = Some(*media);
                self.control.media_is_back();
                Some(LegEvent::PathReplaced { why: fault.label() })
            }
            Happening::Cared(Cared::AttemptDue) => self.repairs(Care::try_again),
            Happening::Cared(Cared::Failed) => {
                self.care = None;
                Some(LegEvent::MediaLost)
            }
            Happening::StreamEnded => Some(LegEvent::CallerLeft),
            Happening::SessionEnded => Some(LegEvent::CallerDone),
            Happening::Media(MediaEvent::Audio(audio)) => {
                self.care.iter_mut().for_each(|care| care.hears(&audio));
                self.watch.iter_mut().for_each(|watch| watch.hears(&audio));
                Some(LegEvent::Audio(audio))
            }
            Happening::Media(MediaEvent::Digit(digit)) if by_dialplan => Some(LegEvent::Digit(digit)),
            Happening::Media(MediaEvent::Digit(digit)) => self.key(digit, keys::Way::Audio),
            Happening::Media(MediaEvent::Waits(length)) => Some(LegEvent::Waits(length)),
            Happening::Media(MediaEvent::ThrownAway(length)) => Some(LegEvent::ThrownAway(length)),
            // For a dialplan call the end of the socket is the end of the call.
            Happening::Media(MediaEvent::Closed) if by_dialplan => {
                self.media = None;
                Some(LegEvent::CallerLeft)
            }
            Happening::Media(MediaEvent::Closed) => self.broken(PathFault::Closed),
            Happening::Media(MediaEvent::Broken) => self.broken(PathFault::Broken),
        }
    }

    /// A key of a caller by ARI, told once, whichever way it came first.
    fn key(&mut self, digit: char, way: keys::Way) -> Option<LegEvent> {
        self.care.iter_mut().for_each(Care::key);
        self.keys.pressed(digit, way, Instant::now()).then_some(LegEvent::Digit(digit))
    }

    /// The audio path is of no use any more; the caller gets another one, unless they are on their way out.
    fn broken(&mut self, fault: PathFault) -> Option<LegEvent> {
        if self.care.as_ref().is_some_and(Care::is_repairing) {
            return None;
        }
        let broken = self.media.take();
        self.repairs(|care, leg| care.repair(leg, fault, broken))
    }

    fn repairs(&mut self, begins: impl FnOnce(&mut Care, &AriLeg) -> bool) -> Option<LegEvent> {
        let stays = self.ending != Ending::CallerGone;
        if let (Control::Up { leg, transfer, .. }, Some(care)) = (&self.control, &mut self.care)
            && stays
            && !matches!(transfer, Some(Transfer::Continue(_)))
            && begins(care, leg)
        {
            return None;
        }
        self.care = None;
        Some(LegEvent::MediaLost)
    }

    fn set_up(&mut self, result: Result<(AriLeg, MediaLeg), SetupError>) -> LegEvent {
        let Control::SettingUp { held, .. } = std::mem::replace(&mut self.control, Control::Dialplan) else {
            return LegEvent::CallerLeft;
        };
        match result {
            Ok((leg, media)) => {
                self.media = Some(media);
                self.control = Control::Up { leg: Arc::new(leg), held, transfer: None };
                LegEvent::Up
            }
            Err(error) => {
                let told = match error {
                    SetupError::CallerLeft => {
                        self.ending = Ending::CallerGone;
                        held.left(held.events.caller_gone().unwrap_or(Gone::Left))
                    }
                    SetupError::Failed(step) => LegEvent::SetupFailed(step),
                };
                self.control = Control::Bare { held };
                told
            }
        }
    }

    /// Sends one frame; `false` when it was lost.
    pub fn play(&mut self, frame: Bytes) -> bool {
        if let Control::Streamed(streamed) = &mut self.control {
            return streamed.play(frame);
        }
        match (&mut self.media, &mut self.care) {
            (Some(media), care) => {
                let left = media.sender.play(frame.clone());
                care.iter_mut().for_each(|care| care.plays(&frame, left));
                left
            }
            // Nobody hears it.
            (None, Some(care)) => !care.is_repairing(),
            (None, None) => true,
        }
    }

    pub fn command(&mut self, command: LegCommand) {
        match command {
            LegCommand::Play(frame) => drop(self.play(frame)),
            LegCommand::Flush => self.flush(),
            // Who came by the dialplan is answered already.
            LegCommand::Answer => {
                if let Control::SettingUp { wish, .. } = &self.control {
                    wish.send_replace(Wish::Answer);
                }
            }
            LegCommand::HangUp => {
                if let Control::Streamed(streamed) = &self.control {
                    streamed.is_over();
                }
                self.part(Ending::HangUp);
            }
            LegCommand::ReturnToDialplan { status } => self.part(Ending::ReturnToDialplan { status }),
            LegCommand::Transfer { destination } => self.transfer(&destination),
            LegCommand::Voicemail { mailbox } => self.voicemail(&mailbox),
            LegCommand::SendDigits { digits } => match &self.control {
                Control::Up { leg, .. } => leg.send_digits(digits),
                _ => warn!("this call cannot send keys: that needs ARI"),
            },
        }
    }

    /// What cannot be thrown away goes with its path, as long as the call can have another one.
    fn flush(&mut self) {
        let flushed = self.media.as_mut().is_none_or(|media| media.sender.flush());
        let replaceable = self.control.is_idle() && self.care.as_ref().is_some_and(Care::can_spare_a_repair);
        if !flushed
            && replaceable
            && let Some(event) = self.broken(PathFault::Behind)
        {
            self.announce = Some(event);
        }
    }

    /// There is no path just now, and another one is on its way.
    pub fn is_without_path(&self) -> bool {
        self.care.as_ref().is_some_and(Care::is_repairing)
    }

    fn part(&mut self, ending: Ending) {
        if self.ending != Ending::CallerGone {
            self.ending = ending;
        }
    }

    fn transfer(&mut self, name: &str) {
        let begun = match &mut self.control {
            Control::Up { leg, held, transfer } => held.places.destinations.get(name).map(|to| match &to.way {
                Way::Dialplan(place) => {
                    let (leg, place) = (Arc::clone(leg), place.clone());
                    *transfer = Some(Transfer::Continue(async move { leg.transfer(&place).await }.boxed()));
                }
                Way::Dial(group) => {
                    let dial = Dial {
                        group: group.clone(),
                        destination: name.to_owned(),
                        caller_name: held.caller_name.clone(),
                        caller_number: held.caller_number.clone(),
                    };
                    *transfer = Some(Transfer::Dial(leg.dial(&dial)));
                    self.announce = Some(LegEvent::Dialling { limit: group.limit });
                }
            }),
            _ => None,
        };
        if begun.is_none() {
            warn!("this call cannot be transferred: no ARI, or no such destination in its configuration");
            self.announce = Some(LegEvent::TransferFailed(TransferFault::Unreachable));
        }
    }

    fn voicemail(&mut self, name: &str) {
        let begun = match &mut self.control {
            Control::Up { leg, held, transfer } => held.places.voicemail.mailboxes.get(name).map(|mailbox| {
                let (leg, place, mailbox) = (Arc::clone(leg), held.places.voicemail.place.clone(), mailbox.clone());
                let going = async move { leg.voicemail(&place, &mailbox).await }.boxed();
                *transfer = Some(Transfer::Continue(going));
            }),
            _ => None,
        };
        if begun.is_none() {
            warn!("no voicemail for this call: no ARI, or no such mailbox in its configuration");
            self.announce = Some(LegEvent::TransferFailed(TransferFault::Unreachable));
        }
    }

    /// Parts from the caller as the call's end said, and leaves nothing behind. After a fault of ours the
    /// caller goes back to the dialplan, whatever was decided before; and so does one whom nobody has
    /// answered yet when the engine stops. Returns the caller who was sent to a place of the dialplan.
    pub async fn clear_away(mut self, reason: EndReason) -> Option<Transferee> {
        let unserved = reason == EndReason::Shutdown && matches!(self.control, Control::SettingUp { .. });
        if reason == EndReason::EngineFault || unserved {
            self.part(Ending::ReturnToDialplan { status: "FAILED" });
        }
        self.care = None;
        let (media, ending) = (self.media.take(), self.ending);
        match self.control {
            // Its undoing runs by itself.
            Control::SettingUp { setup, wish, .. } => {
                wish.send_replace(Wish::Part(ending));
                drop(setup);
            }
            Control::Up { leg, transfer, .. } => {
                drop(transfer);
                match Arc::try_unwrap(leg) {
                    Ok(leg) => leg.tear_down(ending, media).await,
                    // Not reached: the transfer held the only other reference. Dropping the leg
                    // clears it away in the background.
                    Err(leg) => drop((media, leg)),
                }
            }
            Control::Bare { held } => held.part(ending).await,
            Control::Written { .. } | Control::Streamed(_) => {}
            // How the socket ends tells the dialplan what becomes of the caller.
            Control::Dialplan => match (media, ending) {
                (Some(media), Ending::ReturnToDialplan { .. }) => media.hang_up().await,
                (Some(media), Ending::HangUp) => media.reset(),
                _ => {}
            },
        }
        self.transferee
    }
}

enum Happening {
    Channel(ChannelEvent),
    Held(bool),
    Party(Option<NewParty>),
    SetUp(Box<Result<(AriLeg, MediaLeg), SetupError>>),
    Transferred(Result<Option<Transferee>, TransferError>),
    Dialled(Progress),
    Cared(Cared),
    Media(MediaEvent),
    /// A VAM client's stream has ended.
    StreamEnded,
    /// It has ended its session, and still listens.
    SessionEnded,
}

impl Control {
    async fn event(&mut self) -> Happening {
        match self {
            Self::SettingUp { setup, .. } => Happening::SetUp(Box::new(setup.await)),
            // A transfer ends with the caller's leaving: whose doing that was, its own result tells.
            Self::Up { transfer: transfer @ Some(Transfer::Continue(_)), .. } => {
                Happening::Transferred(finish(transfer).await)
            }
            Self::Up { transfer: Some(Transfer::Dial(dialling)), held, .. } => tokio::select! {
                biased;
                progress = dialling.next() => Happening::Dialled(progress),
                event = held.next() => Happening::Channel(event),
            },
            Self::Up { held, .. } => Happening::Channel(held.next().await),
            Self::Bare { held } => Happening::Channel(held.next().await),
            Self::Dialplan => pending().await,
            Self::Streamed(streamed) => streamed.event().await,
            Self::Written { frames, silence } => {
                frames.tick().await;
                Happening::Media(MediaEvent::Audio(silence.clone()))
            }
        }
    }

    /// The caller is in the call, and not on the way to somebody else.
    fn is_idle(&self) -> bool {
        matches!(self, Self::Up { transfer: None, .. })
    }

    fn held(&self) -> Option<&Held> {
        match self {
            Self::SettingUp { held, .. } | Self::Up { held, .. } | Self::Bare { held } => Some(held),
            Self::Dialplan | Self::Streamed(_) | Self::Written { .. } => None,
        }
    }

    fn held_mut(&mut self) -> Option<&mut Held> {
        match self {
            Self::SettingUp { held, .. } | Self::Up { held, .. } | Self::Bare { held } => Some(held),
            Self::Dialplan | Self::Streamed(_) | Self::Written { .. } => None,
        }
    }

    /// Another media channel stands in for the one that went.
    fn media_is_back(&mut self) {
        if let Self::Up { held, .. } = self {
            held.events.media_is_back();
        }
    }

    fn end_dialling(&mut self) {
        if let Self::Up { transfer, .. } = self {
            *transfer = None;
        }
    }
}

/// The outcome of a transfer that is under way.
async fn finish(transfer: &mut Option<Transfer>) -> Result<Option<Transferee>, TransferError> {
    match transfer {
        Some(Transfer::Continue(under_way)) => {
            let result = under_way.await;
            *transfer = None;
            result
        }
        _ => pending().await,
    }
}

/// The newest of what the events socket tells of a caller.
async fn told<T: Clone>(what: &mut Option<watch::Receiver<T>>) -> T {
    let Some(what) = what else { return pending().await };
    match what.changed().await {
        Ok(()) => what.borrow_and_update().clone(),
        Err(_) => pending().await,
    }
}

async fn cared(care: &mut Option<Care>) -> Cared {
    match care {
        Some(care) => care.next().await,
        None => pending().await,
    }
}

async fn media_event(media: &mut Option<MediaLeg>) -> MediaEvent {
    match media {
        Some(media) => media.events.next().await.unwrap_or(MediaEvent::Closed),
        None => pending().await,
    }
}
