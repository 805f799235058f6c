//! Who carries a call on when its session ends: a second session beside the call's own, from the moment the core asks
//! for one until it has the call or is dropped.
//!
//! Whose turn it is: the provider that was there last, unless it failed finally, too often in this call, or its breaker
//! is open; then the next one of the context's list. The core decides when; this decides who.

#[cfg(test)]
mod tests;

use super::{
    Shared,
    agent::{Briefing, Casting, Session},
    call_task::CallTask,
    clips,
};
use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, Clips, Dialling, EndReason, Next, Note, Recovery, Successor},
    config::Context,
    provider::{Opens, SessionPolicy},
    telemetry::SuccessorEnd,
};
use std::{collections::BTreeMap, future::pending, sync::Arc, time::Duration};
use tokio::time::Instant;
use tracing::{Span, debug, error, info, warn};

/// Failed sessions of one provider since its last answer; a third one would not heal it within the seconds that a caller waits.
const FAILURES_MAX: u32 = 2;
/// For the session's last word to reach the call.
const SETUP_MARGIN: Duration = Duration::from_millis(250);
/// Vendors connect and set up within a second. Who is slower is not waited for while a caller hears nothing.
const STEP_MAX: Duration = Duration::from_millis(2_500);

pub(super) struct Succession {
    /// Entries of `providers`, the one that was asked for first.
    order: Vec<String>,
    /// What a caller who has heard nothing yet is greeted with.
    greeting: Option<String>,
    greeted: bool,
    /// What agents of this call are told of the clips before them.
    heard: Option<String>,
    /// The newest one of the session that has the call.
    handle: Option<Arc<str>>,
    next: Option<Candidate>,
    /// Failed sessions by provider, since its last answer that came to its end.
    failures: BTreeMap<String, Failures>,
    /// Whose session began last.
    last: String,
    /// It was dialled.
    dialled_at: Instant,
    /// What the session that stood last took to be set up.
    needed: Duration,
    /// The session that has the call was entered as a failure.
    blamed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failures {
    times: u32,
    last: Instant,
}

/// An agent that was dialled to carry the call on.
struct Candidate {
    provider: String,
    session: Session,
    why: Dialling,
    resumes: bool,
    ready: bool,
    handle: Option<Arc<str>>,
}

/// How a new call came to its first provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum First {
    AsAsked,
    /// The one that was asked for fails.
    Instead,
    /// It fails, and so do all others.
    Anyway,
}

/// The providers of a call: the one that was asked for, then the fallbacks of its context.
pub(super) fn order(asked: &str, context: &Context) -> Vec<String> {
    let others = context.fallbacks.iter().filter(|name| *name != asked).cloned();
    std::iter::once(asked.to_owned()).chain(others).collect()
}

/// The one of these that a new call begins with.
pub(super) fn first<'a>(shared: &Shared, order: &'a [String]) -> Option<(&'a str, First)> {
    let asked = order.first()?;
    if shared.health.admits(asked) {
        return Some((asked, First::AsAsked));
    }
    let other = order.iter().skip(1).find(|name| shared.health.admits(name));
    shared.metrics.sessions().passed_over(asked, other.is_some());
    Some(other.map_or((asked, First::Anyway), |name| (name, First::Instead)))
}

/// Bounds of the first session of a call. With somebody to fall back on, it leaves them half of the time.
pub(super) fn first_policy(context: &Context, has_fallback: bool) -> SessionPolicy {
    // It gives up just before the call would, so that the end reason is its own.
    let ready_max = context.rules.agent_ready_max.saturating_sub(SETUP_MARGIN);
    let usual = SessionPolicy::default();
    let (setup_max, attempts, step_max) =
        if has_fallback { (ready_max / 2, 2, STEP_MAX) } else { (ready_max, usual.attempts, usual.connect_max) };
    // More time than the usual buys a slow provider more time, and leaves enough for another attempt.
    let step_max = step_max.max(setup_max.saturating_sub(STEP_MAX));
    SessionPolicy { setup_max, attempts, connect_max: step_max, handshake_max: step_max, ..usual }
}

/// Bounds of a session that carries a call on: while the old one still speaks there is time; else all attempts have
/// to fit into what the caller waits. `needed`: what the session that stood last took to be set up.
fn policy(why: Dialling, context: &Context, has_other: bool, needed: Duration) -> SessionPolicy {
    let recovery = &context.rules.recovery;
    match why {
        Dialling::Rollover => SessionPolicy::default(),
        Dialling::Recovery(_) => {
            let setup_max = recovery.within / recovery.attempts.max(1);
            // One that takes a little longer than the last one is not yet one that does not come.
            let step_max = STEP_MAX.max(needed.mul_f64(1.5)).min(setup_max);
            SessionPolicy {
                setup_max,
                attempts: if has_other { 1 } else { 2 },
                connect_max: step_max,
                handshake_max: step_max,
                ..SessionPolicy::default()
            }
        }
    }
}

impl Succession {
    /// `first` of `order` has the call.
    pub fn new(order: Vec<String>, first: &str, greeting: Option<String>, clips: &Clips) -> Self {
        Self {
            order,
            greeting,
            greeted: clips.greeting.is_some(),
            heard: clips::told(clips),
            handle: None,
            next: None,
            failures: BTreeMap::new(),
            last: first.to_owned(),
            dialled_at: Instant::now(),
            needed: Duration::ZERO,
            blamed: false,
        }
    }

    /// Who opens a session that begins now.
    pub fn opens(&self) -> Opens {
        if self.greeted { Opens::Waits } else { Opens::Greets(self.greeting.clone()) }
    }

    pub fn heard(&self) -> Option<&str> {
        self.heard.as_deref()
    }

    pub fn has_other(&self) -> bool {
        self.order.len() > 1
    }

    pub fn greeted(&mut self) {
        self.greeted = true;
    }

    /// The next event of the agent that was dialled.
    pub async fn event(&mut self) -> AgentEvent {
        match &mut self.next {
            Some(next) => next.session.event().await,
            None => pending().await,
        }
    }

    /// The session that is left when the call is over.
    pub fn into_session(self) -> Option<Session> {
        self.next.map(|next| next.session)
    }

    /// Who is dialled now that the last one failed.
    fn heir(&self, admits: impl Fn(&str) -> bool) -> Option<&str> {
        let from = self.order.iter().position(|name| *name == self.last).unwrap_or(0);
        let (before, after) = self.order.split_at(from);
        let may = |name: &&String| self.failures_of(name) < FAILURES_MAX;
        after.iter().chain(before).filter(may).find(|name| admits(name)).map(String::as_str)
    }

    /// Those that still hurt.
    fn failures_of(&self, provider: &str) -> u32 {
        let recent = |failures: &&Failures| failures.last.elapsed() < Recovery::HEALED_AFTER;
        self.failures.get(provider).filter(recent).map_or(0, |failures| failures.times)
    }

    fn count(&mut self, provider: &str, loss: AgentLoss) {
        if loss == AgentLoss::Expired {
            return;
        }
        let times = if loss.is_final() { FAILURES_MAX } else { self.failures_of(provider) + 1 };
        self.failures.insert(provider.to_owned(), Failures { times, last: Instant::now() });
    }
}

impl CallTask<'_> {
    /// What the agent that has the call reports.
    pub(super) fn note_agent(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Ready => self.succession.needed = self.succession.dialled_at.elapsed(),
            AgentEvent::Resumable { handle } => self.succession.handle = Some(Arc::clone(handle)),
            AgentEvent::Summary { mark, text } => self.story.summed_up(*mark, text),
            AgentEvent::Refused { status } => self.refused(self.facts.provider.clone(), *status),
            AgentEvent::Lost(loss) => self.blame(*loss),
            _ => {}
        }
    }

    fn refused(&mut self, provider: String, status: u16) {
        self.on_note(Note::ProviderRefused { provider, status });
    }

    /// Has the agent sum up what a later one would not be told any more, while it is there to be asked.
    pub(super) fn sum_up(&mut self) {
        let agent = self.generation.providers.get(&self.facts.provider);
        if agent.is_some_and(|agent| agent.traits().summarises)
            && let Some((mark, record)) = self.story.due(self.post.transcript())
        {
            let told = self.session.tell(AgentCommand::Summarise { mark, record });
            debug!(?told, "the agent is asked to sum up what was said");
        }
    }

    /// The agent that has the call has brought an answer to its end: what failed before is made good.
    pub(super) fn agent_answered(&mut self) {
        if !self.succession.blamed {
            self.succession.failures.remove(&self.facts.provider);
            self.shared.health.worked(&self.facts.provider);
        }
    }

    /// Dials the agent that is to carry the call on.
    pub(super) fn dial_next(&mut self, why: Dialling) -> Next {
        let waiting = self.succession.next.take();
        let provider = match why {
            Dialling::Rollover => {
                waiting.into_iter().for_each(|next| self.dismiss(next, SuccessorEnd::Dropped));
                Some(self.facts.provider.clone())
            }
            Dialling::Recovery(loss) => {
                // One that was only slow must not come back beside the next one.
                self.session.mute();
                match waiting {
                    // It did not come up in the time that it was given.
                    Some(next) if matches!(next.why, Dialling::Recovery(_)) => {
                        self.failed(&next.provider, loss);
                        self.dismiss(next, SuccessorEnd::Failed);
                    }
                    // The session that has the call is lost before the one that was to follow it was there.
                    next => {
                        next.into_iter().for_each(|next| self.dismiss(next, SuccessorEnd::Dropped));
                        self.blame(loss);
                    }
                }
                self.succession.heir(|name| self.shared.health.admits(name)).map(str::to_owned)
            }
        };
        let Some(provider) = provider else {
            warn!("no provider is left that could carry the call on");
            return Next::Nobody;
        };
        let handle = self.succession.handle.clone().filter(|_| provider == self.facts.provider);
        self.begin(why, provider, handle)
    }

    fn begin(&mut self, why: Dialling, provider: String, resume: Option<Arc<str>>) -> Next {
        let Some(casting) =
            Casting::of(self.generation, &self.facts.context, &provider, self.transfers, self.facts.residency)
        else {
            error!("a provider that this call's configuration does not have");
            return Next::Nobody;
        };
        let resumes = resume.is_some();
        let (reason, loss) = match why {
            Dialling::Rollover => ("rollover", None),
            Dialling::Recovery(loss) => ("recovery", Some(loss.label())),
        };
        info!(provider = provider.as_str(), reason, loss, resumes, "another session is dialled for the call");
        // Who has not been greeted has missed nothing.
        let story = (!resumes && self.succession.greeted).then(|| self.story.for_the_same(self.post.transcript()));
        let policy = policy(why, &casting.context, self.succession.has_other(), self.succession.needed);
        let (opens, heard) = (self.succession.opens(), self.succession.heard());
        let briefing = Briefing { story: story.as_deref(), resume, opens, heard, policy };
        let session = casting.dial(self.shared, &self.facts, self.format, briefing, &Span::current());
        self.bill.session(&provider, &session);
        self.succession.last.clone_from(&provider);
        self.succession.dialled_at = Instant::now();
        let agent = casting.provider.traits();
        self.succession.next =
            Some(Candidate { provider: provider.clone(), session, why, resumes, ready: false, handle: None });
        Next::Dialling(Box::new(Successor { provider, agent, resumes }))
    }

    /// What the agent that was dialled reports, as the core is told it.
    pub(super) fn note_next(&mut self, event: AgentEvent) -> Next {
        match (&event, &mut self.succession.next) {
            (AgentEvent::Ready, Some(next)) => {
                next.ready = true;
                self.succession.needed = self.succession.dialled_at.elapsed();
            }
            (AgentEvent::Resumable { handle }, Some(next)) => next.handle = Some(Arc::clone(handle)),
            (AgentEvent::Refused { status }, Some(next)) => {
                let provider = next.provider.clone();
                self.refused(provider, *status);
            }
            (AgentEvent::Lost(loss), Some(next)) if next.refuses_handle(*loss) => {
                info!(loss = loss.label(), "the session cannot be resumed; another one is told the story");
                self.succession.handle = None;
                if let Some(next) = self.succession.next.take() {
                    let (why, provider) = (next.why, next.provider.clone());
                    self.dismiss(next, SuccessorEnd::Failed);
                    return self.begin(why, provider, None);
                }
            }
            (AgentEvent::Lost(loss), Some(_)) => {
                if let Some(next) = self.succession.next.take() {
                    self.failed(&next.provider, *loss);
                    self.dismiss(next, SuccessorEnd::Failed);
                }
            }
            _ => {}
        }
        Next::Event(event)
    }

    /// The agent that was dialled has the call from here on.
    pub(super) fn take_over(&mut self) {
        let Some(next) = self.succession.next.take() else {
            error!("there is no session that could take over");
            return;
        };
        self.part_ended(EndReason::Transferred);
        next.count(self.shared, SuccessorEnd::TookOver);
        info!(provider = next.provider.as_str(), resumed = next.resumes, "another session has the call");
        self.facts.provider.clone_from(&next.provider);
        Span::current().record("provider", &*self.facts.provider);
        self.entered.handed_off(&self.facts);
        std::mem::replace(&mut self.session, next.session).retire(&self.shared.calls);
        (self.succession.handle, self.succession.blamed, self.agent_heard) = (next.handle, false, false);
    }

    pub(super) fn hang_up_next(&mut self) {
        if let Some(next) = self.succession.next.take() {
            self.dismiss(next, SuccessorEnd::Dropped);
        }
    }

    /// The part of the agent that has the call is over; for the breaker of its provider.
    pub(super) fn part_ended(&mut self, reason: EndReason) {
        match reason {
            EndReason::AgentLost(loss) => self.blame(loss),
            EndReason::AgentSilent => self.blame(AgentLoss::Stalled),
            _ if self.agent_heard && !self.succession.blamed => self.shared.health.worked(&self.facts.provider),
            _ => {}
        }
    }

    /// Once per session: a loss is told by the session, by the core's watchdog, or by both.
    fn blame(&mut self, loss: AgentLoss) {
        if !std::mem::replace(&mut self.succession.blamed, true) {
            let provider = self.facts.provider.clone();
            self.shared.metrics.sessions().lost(&provider, loss);
            self.failed(&provider, loss);
        }
    }

    fn failed(&mut self, provider: &str, loss: AgentLoss) {
        self.shared.health.failed(provider, loss);
        self.succession.count(provider, loss);
    }

    fn dismiss(&self, next: Candidate, end: SuccessorEnd) {
        next.count(self.shared, end);
        next.session.retire(&self.shared.calls);
    }
}

impl Candidate {
    /// Whether it was the handle that the vendor did not take. It can be reached, so without the handle it may do.
    fn refuses_handle(&self, loss: AgentLoss) -> bool {
        let elsewhere = loss.is_final() || matches!(loss, AgentLoss::Unreachable | AgentLoss::Throttled);
        self.resumes && !self.ready && !elsewhere
    }

    fn count(&self, shared: &Shared, end: SuccessorEnd) {
        match self.why {
            Dialling::Rollover => shared.metrics.sessions().rollover(&self.provider, end),
            Dialling::Recovery(_) => shared.metrics.sessions().recovery(&self.provider, end),
        }
    }
}
