//! What is done for a call's audio path: it is watched, and replaced when it breaks while the caller is still there.
//!
//! A socket that closes and a channel that ends tell it themselves. Silence does not: see [`judge`].

mod judge;

use crate::{
    asterisk::{
        ari::{AriClient, AriError, Fault},
        counters::{MediaCounters, PathFault, RepairEnd},
        events::Registration,
        hub::MediaHub,
        leg::AriLeg,
        media::MediaLeg,
        repair::Repair,
        setup::Plan,
        vitals::Vitals,
    },
    audio::Format,
    call::SetupStep,
    config::Transport,
};
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use judge::{Frame, Judge, LOOK, Looked, Verdict};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tracing::{debug, info, warn};

/// Repairs of one call. A fault that comes back this often is not the path's own: the caller is better off elsewhere.
const REPAIRS_MAX: u32 = 5;
/// Of those, kept for paths that break.
const REPAIRS_KEPT: u32 = 2;
/// A repair takes some 10 ms; a restart of the network between Asterisk and us, or a stall of Asterisk, seconds.
const REPAIR_MAX: Duration = Duration::from_secs(5);
/// Until then a repair that failed is tried again: what refused one path may take the next, and a caller bears two seconds of
/// silence before somebody else should take the call.
const AGAIN_UNTIL: Duration = Duration::from_secs(2);
/// What refuses at once is not asked again at once.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// What arrives over a path, and what is told of it.
pub(super) struct Watch {
    vitals: Vitals,
    counters: Arc<MediaCounters>,
}

impl Watch {
    pub fn new(transport: Transport, format: Format, counters: Arc<MediaCounters>) -> Self {
        Self { vitals: Vitals::new(transport, format), counters }
    }

    /// Audio has arrived.
    pub fn hears(&mut self, audio: &[u8]) {
        if let Some(suspicion) = self.vitals.arrived(audio, Instant::now().into_std(), &self.counters) {
            self.counters.suspected(suspicion).inc();
            warn!(what = suspicion.label(), "{}", suspicion.describe());
        }
    }

    fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.vitals.silent_for(now.into_std())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.vitals.end(&self.counters);
    }
}

pub(super) struct Care {
    media: Arc<MediaHub>,
    ari: AriClient,
    caller: String,
    plan: Plan,
    watch: Watch,
    begun: u32,
    repairing: Option<Repairing>,
    look: Option<BoxFuture<'static, Result<Option<Looked>, AriError>>>,
    judge: Judge,
    /// One frame of it, to know silence by.
    silence: Bytes,
    /// The caller's phone has the call on hold.
    held: watch::Receiver<bool>,
}

/// A path that broke, and has no successor yet.
struct Repairing {
    fault: PathFault,
    since: Instant,
    attempt: Attempt,
}

enum Attempt {
    UnderWay(Repair<MediaLeg>),
    /// The last one failed.
    DueAt(Instant),
}

/// What care has come to.
pub(super) enum Cared {
    /// The path is at fault.
    Fault(PathFault),
    /// Another one stands, for this fault of the last.
    Repaired(Box<MediaLeg>, PathFault),
    /// The last attempt failed, and the next one is due: [`Care::try_again`].
    AttemptDue,
    Failed,
}

impl Care {
    pub fn new(media: Arc<MediaHub>, ari: AriClient, registration: &Registration, plan: Plan) -> Self {
        let (caller, held) = (registration.caller().to_owned(), registration.held());
        let watch = Watch::new(plan.transport, plan.format, Arc::clone(media.counters()));
        let judge = Judge::new(Instant::now());
        let silence = vec![plan.format.silence(); plan.format.frame_bytes()].into();
        Self { media, ari, caller, plan, watch, begun: 0, repairing: None, look: None, judge, silence, held }
    }

    /// Audio has arrived.
    pub fn hears(&mut self, audio: &[u8]) {
        self.watch.hears(audio);
    }

    /// This frame was sent, or refused, as happens every 20 ms.
    pub fn plays(&mut self, frame: &Bytes, left: bool) {
        let now = Instant::now();
        let heard = self.watch.silent_for(now);
        let held = *self.held.borrow();
        let frame = Frame { left, sounds: *frame != self.silence };
        if self.judge.plays(now, frame, heard, held) && self.look.is_none() {
            self.look = Some(look(self.ari.clone(), self.caller.clone()).boxed());
        }
    }

    /// A key of the caller came.
    pub fn key(&mut self) {
        self.judge.key(Instant::now());
    }

    pub fn is_repairing(&self) -> bool {
        self.repairing.is_some()
    }

    /// A path that works may be replaced as well.
    pub const fn can_spare_a_repair(&self) -> bool {
        self.begun + REPAIRS_KEPT < REPAIRS_MAX && self.repairing.is_none()
    }

    /// Begins to replace the path that broke, and closes what is left of it. `false`: it cannot be.
    pub fn repair(&mut self, leg: &AriLeg, fault: PathFault, broken: Option<MediaLeg>) -> bool {
        let counters = self.media.counters();
        counters.faults(fault).inc();
        self.look = None;
        if self.begun >= REPAIRS_MAX {
            counters.repairs(RepairEnd::Exhausted).inc();
            warn!(
                fault = fault.label(),
                repairs = self.begun,
                "the audio path broke again, and is not repaired any more"
            );
            return false;
        }
        self.begun += 1;
        warn!(fault = fault.label(), number = self.begun, "the audio path broke; the call gets another one");
        self.watch.vitals.end(counters);
        self.attempt(leg, fault, Instant::now(), broken)
    }

    /// Makes the attempt that is due. `false`: it cannot be.
    pub fn try_again(&mut self, leg: &AriLeg) -> bool {
        let Some(Repairing { fault, since, attempt: Attempt::DueAt(_) }) = self.repairing.take() else { return false };
        self.attempt(leg, fault, since, None)
    }

    fn attempt(&mut self, leg: &AriLeg, fault: PathFault, since: Instant, broken: Option<MediaLeg>) -> bool {
        match leg.repair(&*self.media, &self.plan, broken) {
            Ok(repair) => {
                self.repairing = Some(Repairing { fault, since, attempt: Attempt::UnderWay(repair) });
                true
            }
            Err(step) => {
                self.media.counters().repairs(RepairEnd::Failed).inc();
                warn!(fault = fault.label(), step = step.label(), "there is no other audio path");
                false
            }
        }
    }

    /// What is under way comes to its end; never, when nothing is. May be dropped and asked again.
    pub async fn next(&mut self) -> Cared {
        if self.repairing.is_some() { self.attempted().await } else { self.found().await }
    }

    async fn attempted(&mut self) -> Cared {
        let Some(Repairing { fault, since, attempt }) = &mut self.repairing else { return pending().await };
        let (fault, since) = (*fault, *since);
        if let Attempt::UnderWay(repair) = attempt {
            let done = timeout_at(since + REPAIR_MAX, repair.done()).await;
            let step = match done.unwrap_or(Err(SetupStep::MediaConnect)) {
                Ok(media) => {
                    self.repairing = None;
                    self.repaired(since.elapsed());
                    return Cared::Repaired(Box::new(media), fault);
                }
                Err(step) => step,
            };
            let next = Instant::now() + AGAIN_AFTER;
            if next > since + AGAIN_UNTIL {
                self.repairing = None;
                self.media.counters().repairs(RepairEnd::Failed).inc();
                warn!(step = step.label(), "the audio path could not be repaired");
                return Cared::Failed;
            }
            self.media.counters().repairs(RepairEnd::Retried).inc();
            *attempt = Attempt::DueAt(next);
        }
        if let Attempt::DueAt(at) = attempt {
            sleep_until(*at).await;
        }
        Cared::AttemptDue
    }

    /// What a look at the path finds wrong with it.
    async fn found(&mut self) -> Cared {
        loop {
            let Some(looking) = &mut self.look else { return pending().await };
            let looked = looking.await;
            self.look = None;
            match looked {
                Ok(looked) => {
                    if let Some(fault) = self.judge(looked) {
                        return Cared::Fault(fault);
                    }
                }
                Err(error) => {
                    debug!(%error, "Asterisk could not be asked whether the caller is heard; it is asked again");
                    self.judge.not_told(Instant::now());
                }
            }
        }
    }

    fn repaired(&mut self, took: Duration) {
        self.media.counters().repaired(took);
        info!(took_ms = took.as_millis() as u64, "the call has another audio path");
        self.watch = Watch::new(self.plan.transport, self.plan.format, Arc::clone(self.media.counters()));
        self.judge.begins_anew();
    }

    fn judge(&mut self, looked: Option<Looked>) -> Option<PathFault> {
        let now = Instant::now();
        let heard = self.watch.silent_for(now);
        let held = *self.held.borrow();
        match self.judge.looked(looked, now, heard, held) {
            Verdict::Fine => None,
            // Where the last one has been used up, what is left of the path is better than none.
            Verdict::Fault(fault) => (self.begun < REPAIRS_MAX).then_some(fault),
            Verdict::NeverWorked(fault) => {
                self.media.counters().faults(fault).inc();
                warn!(fault = fault.label(), "nothing comes over this audio path; `offhook media-test` tells why");
                None
            }
        }
    }
}

impl Drop for Care {
    fn drop(&mut self) {
        if self.repairing.is_some() {
            self.media.counters().repairs(RepairEnd::GivenUp).inc();
        }
    }
}

/// What passes between Asterisk and the caller just now; `None` when Asterisk cannot tell.
///
/// # Errors
/// Asterisk did not answer: it may the next time.
async fn look(ari: AriClient, caller: String) -> Result<Option<Looked>, AriError> {
    let since = Instant::now();
    let packets = async || match ari.rtp_packets(&caller).await {
        Ok(packets) => Ok(Some(packets)),
        // The caller does not come by RTP.
        Err(AriError {
            fault: Fault::NotFound | Fault::Conflict { .. } | Fault::Refused { status: ..500, .. },
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    };
    let Some(before) = packets().await? else { return Ok(None) };
    sleep(LOOK).await;
    let Some(after) = packets().await? else { return Ok(None) };
    let (received, sent) = (after.received.saturating_sub(before.received), after.sent.saturating_sub(before.sent));
    Ok(Some(Looked { since, received, sent }))
}
