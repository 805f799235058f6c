//! What is done for a call's audio path: it is watched, and replaced when it breaks while the caller is still there.
//!
//! A socket that closes and a channel that ends tell it themselves. Silence does not: a caller may be silent, and a phone may
//! send nothing. So Asterisk is asked what passes between it and the caller, and only where that goes on is the path at fault.

use crate::{
    asterisk::{
        ari::{AriClient, RtpPackets},
        counters::{PathFault, RepairEnd},
        hub::MediaHub,
        leg::AriLeg,
        media::MediaLeg,
        repair::Repair,
        setup::Plan,
        vitals::Vitals,
    },
    call::SetupStep,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

/// Repairs of one call. A fault that comes back this often is not the path's own: the caller is better off elsewhere.
const REPAIRS_MAX: u32 = 5;
/// A repair takes some 10 ms; a restart of the network between Asterisk and us, or a stall of Asterisk, seconds.
const REPAIR_MAX: Duration = Duration::from_secs(5);
/// Packets come every 20 ms. A key that is pressed makes a gap, too.
const SILENT_AFTER: Duration = Duration::from_millis(600);
/// Between the two looks at what Asterisk receives of the caller.
const LOOK: Duration = Duration::from_millis(300);
/// Packets between the looks that prove that the caller is sending sound: some phones send one every 60 ms, and comfort noise
/// comes a few times a second.
const SPEAKING: u64 = 4;
/// A caller who stays silent is looked at this often,
const AGAIN_AFTER: Duration = Duration::from_millis(800);
/// and, once they have been silent for long, this often.
const SELDOM_AFTER: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(10);

pub(super) struct Care {
    media: Arc<MediaHub>,
    ari: AriClient,
    caller: String,
    plan: Plan,
    vitals: Vitals,
    begun: u32,
    under_way: Option<UnderWay>,
    look: Option<BoxFuture<'static, Option<Looked>>>,
    /// Since when the path stands, once something is played over it.
    stands: Option<Instant>,
    /// A frame was refused since the last look.
    refused: bool,
    /// Nothing has ever come over it, which was told.
    told_deaf: bool,
    /// Not before this; `None`: Asterisk cannot tell what passes between it and this caller.
    next_look: Option<Instant>,
}

struct UnderWay {
    repair: Repair<MediaLeg>,
    fault: PathFault,
    since: Instant,
}

/// Packets that passed between Asterisk and the caller during a look.
struct Looked {
    since: Instant,
    received: u64,
    sent: u64,
}

/// What care has come to.
pub(super) enum Cared {
    /// The path is at fault.
    Fault(PathFault),
    /// Another one stands, for this fault of the last.
    Repaired(Box<MediaLeg>, PathFault),
    Failed,
}

impl Care {
    pub fn new(media: Arc<MediaHub>, ari: AriClient, caller: String, plan: Plan) -> Self {
        let vitals = Vitals::new(plan.transport, plan.format);
        let next_look = Some(Instant::now());
        let (under_way, look, stands) = (None, None, None);
        let (refused, told_deaf) = (false, false);
        Self { media, ari, caller, plan, vitals, begun: 0, under_way, look, stands, refused, told_deaf, next_look }
    }

    /// Audio has arrived.
    pub fn hears(&mut self, audio: &[u8]) {
        let counters = self.media.counters();
        if let Some(suspicion) = self.vitals.arrived(audio, Instant::now().into_std(), counters) {
            counters.suspected(suspicion).inc();
            warn!(what = suspicion.label(), "{}", suspicion.describe());
        }
    }

    /// A frame was sent, or refused, as happens every 20 ms.
    pub fn plays(&mut self, left: bool) {
        let now = Instant::now();
        self.stands.get_or_insert(now);
        self.refused |= !left;
        let due = self.look.is_none() && self.next_look.is_some_and(|next| next <= now);
        if due && (self.refused || self.silent_for(now) >= SILENT_AFTER) {
            self.look = Some(look(self.ari.clone(), self.caller.clone()).boxed());
        }
    }

    /// Nothing has come for so long; before the first packet, since the path stands.
    fn silent_for(&self, now: Instant) -> Duration {
        let stands = || now - self.stands.unwrap_or(now);
        self.vitals.silent_for(now.into_std()).unwrap_or_else(stands)
    }

    pub fn is_repairing(&self) -> bool {
        self.under_way.is_some()
    }

    /// Begins to replace the path, whose socket is closed by now. `false`: it cannot be.
    pub fn repair(&mut self, leg: &AriLeg, fault: PathFault) -> bool {
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
        match leg.repair(&*self.media, &self.plan) {
            Ok(repair) => {
                warn!(fault = fault.label(), number = self.begun, "the audio path broke; the call gets another one");
                self.vitals.end(counters);
                self.under_way = Some(UnderWay { repair, fault, since: Instant::now() });
                true
            }
            Err(step) => {
                counters.repairs(RepairEnd::Failed).inc();
                warn!(fault = fault.label(), step = step.label(), "the audio path broke, and there is no other");
                false
            }
        }
    }

    /// What is under way comes to its end; never, when nothing is. May be dropped and asked again.
    pub async fn next(&mut self) -> Cared {
        loop {
            if let Some(UnderWay { repair, since, fault }) = &mut self.under_way {
                let (since, fault) = (*since, *fault);
                let done = timeout_at(since + REPAIR_MAX, repair.done()).await;
                self.under_way = None;
                return match done.unwrap_or(Err(SetupStep::MediaConnect)) {
                    Ok(media) => {
                        self.repaired(since.elapsed());
                        Cared::Repaired(Box::new(media), fault)
                    }
                    Err(step) => {
                        self.media.counters().repairs(RepairEnd::Failed).inc();
                        warn!(step = step.label(), "the audio path could not be repaired");
                        Cared::Failed
                    }
                };
            }
            let Some(looking) = &mut self.look else { return pending().await };
            let looked = looking.await;
            self.look = None;
            if let Some(fault) = self.judge(looked) {
                return Cared::Fault(fault);
            }
        }
    }

    fn repaired(&mut self, took: Duration) {
        self.media.counters().repaired(took);
        info!(took_ms = took.as_millis() as u64, "the call has another audio path");
        self.vitals = Vitals::new(self.plan.transport, self.plan.format);
        (self.stands, self.refused) = (None, false);
    }

    fn judge(&mut self, looked: Option<Looked>) -> Option<PathFault> {
        let Some(Looked { since, received, sent }) = looked else {
            self.next_look = None;
            return None;
        };
        let now = Instant::now();
        let silent = self.silent_for(now);
        self.next_look = Some(now + if silent > LONG { SELDOM_AFTER } else { AGAIN_AFTER });
        let refused = std::mem::take(&mut self.refused);
        // Else it began to speak while Asterisk was asked.
        let still = silent >= now - since;
        let fault = if still && received >= SPEAKING {
            PathFault::Deaf
        } else if (still || refused) && sent == 0 {
            PathFault::Dead
        } else {
            return None;
        };
        if self.vitals.silent_for(now.into_std()).is_none() {
            // Another one would lead to the same address.
            if !std::mem::replace(&mut self.told_deaf, true) {
                self.media.counters().faults(fault).inc();
                warn!(fault = fault.label(), "nothing comes over this audio path; `offhook media-test` tells why");
            }
            return None;
        }
        // Where the last one has been used up, what is left of the path is better than none.
        (self.begun < REPAIRS_MAX).then_some(fault)
    }
}

impl Drop for Care {
    fn drop(&mut self) {
        let counters = self.media.counters();
        self.vitals.end(counters);
        if self.under_way.is_some() {
            counters.repairs(RepairEnd::GivenUp).inc();
        }
    }
}

/// What passes between Asterisk and the caller just now; `None` when Asterisk cannot tell.
async fn look(ari: AriClient, caller: String) -> Option<Looked> {
    let since = Instant::now();
    let before: RtpPackets = ari.rtp_packets(&caller).await.ok()?;
    sleep(LOOK).await;
    let after = ari.rtp_packets(&caller).await.ok()?;
    let (received, sent) = (after.received.saturating_sub(before.received), after.sent.saturating_sub(before.sent));
    Some(Looked { since, received, sent })
}
