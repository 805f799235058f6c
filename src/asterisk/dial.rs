//! Ringing others for a caller, and leaving the two alone when one of them answers.
//!
//! ```text
//! all endpoints are called ──▶ one answers ──▶ the others are hung up ──▶ caller and winner in a
//!        │                                                               bridge of their own
//!        └──▶ all refuse, the limit passes, nobody waits any more ──▶ all are hung up
//! ```
//!
//! Invariants: a channel that was called is bridged or hung up, whatever happens to the call; and a
//! caller is either in the bridge of their call, or in a pair that [`EventRouter`] watches.

use super::{
    ari::{AriClient, AriError, Fault, Originate},
    events::{Dialled, DialledCalls, EventRouter, Presence},
};
use crate::{call::TransferFault, config::RingGroup, facts::CallId, redact::Redacted};
use std::{collections::BTreeMap, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Some endpoints never say that they ring (a queue that plays nothing): a caller who hears nothing
/// for longer takes the line for dead.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// A telephone that was picked up from elsewhere ends as one that was hung up; who picked it up is told of after milliseconds.
const PICKED_UP_WITHIN: Duration = Duration::from_millis(250);
/// Asterisk's own limit is this much later than ours, so that it speaks only when we are gone.
const MARGIN: Duration = Duration::from_secs(3);
/// Ringing, and the outcome.
const PROGRESS_MAX: usize = 2;

/// Whom to ring for whom.
#[derive(Debug)]
pub struct Dial {
    pub group: RingGroup,
    /// The configured destination's name, for the dialplan.
    pub destination: String,
    pub caller_name: Redacted<Option<String>>,
    pub caller_number: Redacted<Option<String>>,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The caller should hear ringing.
    Ringing,
    /// Caller and winner are connected. What remains of the call is to be cleared away without them.
    HandedOn,
    /// The caller is in the call as before.
    Failed(TransferFault),
}

/// Endpoints being called. Dropping this hangs them up, unless the caller was handed on.
#[derive(Debug)]
pub struct Dialling {
    progress: mpsc::Receiver<Progress>,
    _wanted: DropGuard,
}

impl Dialling {
    /// The next step; may be dropped and asked again without losing one.
    pub async fn next(&mut self) -> Progress {
        // The task says how it ended unless it panicked.
        self.progress.recv().await.unwrap_or(Progress::Failed(TransferFault::Unreachable))
    }
}

/// Begins to ring. `presence` is the caller's.
pub(super) fn dial(
    ari: AriClient,
    router: &EventRouter,
    presence: watch::Receiver<Presence>,
    call: CallId,
    caller: &str,
    dial: &Dial,
) -> Dialling {
    let (report, progress) = mpsc::channel(PROGRESS_MAX);
    let given_up = CancellationToken::new();
    let calls = router.dial(call, dial.group.endpoints.len());
    let ringing =
        Ringing { ari: ari.clone(), router: router.clone(), presence, call, caller: caller.to_owned(), report };
    let requests = ringing.call_all(dial, &calls);
    let wanted = given_up.clone().drop_guard();
    let limit = dial.group.limit;
    // In a task of its own: a request that was sent cannot be called back, and what it made has to
    // be hung up even if nobody waits for it any more.
    ari.cleanups().spawn(ringing.run(calls, requests, limit, given_up));
    Dialling { progress, _wanted: wanted }
}

type Requests = Vec<JoinHandle<bool>>;

struct Ringing {
    ari: AriClient,
    router: EventRouter,
    presence: watch::Receiver<Presence>,
    call: CallId,
    caller: String,
    report: mpsc::Sender<Progress>,
}

impl Ringing {
    fn call_all(&self, dial: &Dial, calls: &DialledCalls) -> Requests {
        // Another party in the caller's place has a name of its own, which Asterisk takes where none is given.
        let is_replaced = self.ari.names().identities().is_replaced(&self.caller);
        let caller_id =
            if is_replaced { Redacted::default() } else { caller_id(&dial.caller_name, &dial.caller_number) };
        // Inherited, since behind a Local channel it is the dialplan that reads them.
        let variables = BTreeMap::from([
            ("__OFFHOOK_CALL", self.call.to_string()),
            ("__OFFHOOK_DESTINATION", dial.destination.clone()),
        ]);
        let limit = dial.group.limit + MARGIN;
        let one = |(number, (endpoint, channel)): (usize, (&String, &String))| {
            let arguments = self.ari.names().dialled_arguments(self.call, number);
            let (ari, caller, channel) = (self.ari.clone(), self.caller.clone(), channel.clone());
            let (endpoint, caller_id, variables) = (unoptimised(endpoint), caller_id.clone(), variables.clone());
            self.ari.cleanups().spawn(async move {
                let (caller_id, originator) = (caller_id.reveal().as_deref(), &*caller);
                let (variables, arguments) = (&variables, &**arguments.reveal());
                let to = Originate { endpoint: &endpoint, caller_id, limit, originator, variables, arguments };
                match ari.originate(&channel, &to).await {
                    Ok(()) => true,
                    // It may ring all the same, and then its events tell the rest.
                    Err(AriError { fault: Fault::OutcomeUnknown(_), .. })
                        if ari.is_there(&channel).await == Ok(true) =>
                    {
                        true
                    }
                    Err(error) => {
                        tracing::warn!(%error, "an endpoint of the destination could not be called");
                        false
                    }
                }
            })
        };
        dial.group.endpoints.iter().zip(calls.channels()).enumerate().map(one).collect()
    }

    async fn run(self, calls: DialledCalls, mut requests: Requests, limit: Duration, given_up: CancellationToken) {
        let answered = tokio::select! {
            biased;
            () = given_up.cancelled() => Err(TransferFault::NoAnswer),
            answered = self.until_answered(&calls, &mut requests, limit) => answered,
        };
        let winner = answered.ok();
        let settled = async {
            let outcome = match answered {
                Ok(winner) => self.hand_on(&calls, winner).await,
                Err(fault) => Err(fault),
            };
            // Nobody waiting is fine: then the call's own end decides about the caller.
            let _ = self.report.try_send(outcome.map_or_else(Progress::Failed, |()| Progress::HandedOn));
        };
        // A request that hangs delays nobody but itself.
        tokio::join!(settled, self.hang_up_all(&calls, &mut requests, winner));
    }

    /// The first to answer, or why nobody does.
    async fn until_answered(
        &self,
        calls: &DialledCalls,
        requests: &mut Requests,
        limit: Duration,
    ) -> Result<usize, TransferFault> {
        let mut board = calls.watch();
        let began = Instant::now();
        let (mut told, mut asked) = (false, 0);
        // When nobody is left who could have picked one up.
        let mut over = None;
        loop {
            let now: Vec<Dialled> = board.borrow_and_update().clone();
            if let Some(winner) = now.iter().position(|one| *one == Dialled::Answered) {
                return Ok(winner);
            }
            if let Some(fault) = fault(&now) {
                let pause = if may_be_picked_up(&now) { PICKED_UP_WITHIN } else { Duration::ZERO };
                if Instant::now() >= *over.get_or_insert_with(|| Instant::now() + pause) {
                    return Err(fault);
                }
            } else {
                over = None;
            }
            if !told && now.contains(&Dialled::Ringing) {
                told = true;
                let _ = self.report.try_send(Progress::Ringing);
            }
            tokio::select! {
                biased;
                _ = board.changed() => {}
                made = async { (&mut requests[asked]).await }, if asked < requests.len() => {
                    if !matches!(made, Ok(true)) {
                        calls.not_called(asked);
                    }
                    asked += 1;
                }
                () = sleep_until(over.unwrap_or(began)), if over.is_some() => {}
                () = sleep_until(began + SILENCE_MAX), if !told => {
                    told = true;
                    let _ = self.report.try_send(Progress::Ringing);
                }
                () = sleep_until(began + limit) => {
                    // Answered in this very moment counts.
                    let last = board.borrow().clone();
                    let winner = last.iter().position(|one| *one == Dialled::Answered);
                    return winner.ok_or_else(|| unanswered(&last));
                }
            }
        }
    }

    async fn hang_up_all(&self, calls: &DialledCalls, requests: &mut Requests, but: Option<usize>) {
        let each = requests.iter_mut().enumerate().filter(|(number, _)| Some(*number) != but);
        let each = each.map(|(number, request)| async move {
            if !request.is_finished() {
                // What is not made yet cannot be hung up.
                let _ = request.await;
            }
            self.hang_up(calls, number).await;
        });
        futures_util::future::join_all(each).await;
    }

    /// Hangs up all that a leg was and is.
    async fn hang_up(&self, calls: &DialledCalls, number: usize) {
        for channel in calls.close(number) {
            if let Err(error) = self.ari.hang_up(&channel, "normal").await {
                tracing::warn!(%error, "a channel that was called could not be hung up");
            }
        }
    }

    async fn hand_on(&self, calls: &DialledCalls, winner: usize) -> Result<(), TransferFault> {
        let Some(channel) = calls.current(winner) else { return Err(TransferFault::Unreachable) };
        if let Err(error) = self.ari.bridge_pair(self.call, [&self.caller, &channel]).await {
            tracing::warn!(%error, "caller and destination could not be connected");
            return self.take_back(calls, winner).await;
        }
        if !calls.hand_on(&self.caller, winner) {
            return self.take_back(calls, winner).await;
        }
        // Who left before the pair was watched is seen here, who left after that by the router.
        let winner_gone = calls.watch().borrow().get(winner) != Some(&Dialled::Answered);
        let caller_gone = matches!(*self.presence.borrow(), Presence::Gone(_));
        if (winner_gone || caller_gone) && self.router.release(self.call) {
            return self.take_back(calls, winner).await;
        }
        Ok(())
    }

    /// The caller is in the call's own bridge again, if they are there at all.
    async fn take_back(&self, calls: &DialledCalls, winner: usize) -> Result<(), TransferFault> {
        let caller = [&*self.caller];
        // The second moves them out of the pair's bridge.
        let (_, _) = tokio::join!(self.hang_up(calls, winner), self.ari.add_channels(self.call, &caller));
        let _ = self.ari.delete_bridge(&self.ari.names().pair_bridge(self.call)).await;
        Err(TransferFault::NoAnswer)
    }
}

/// Why nobody answers, once that is certain.
fn fault(all: &[Dialled]) -> Option<TransferFault> {
    all.iter().all(|one| matches!(one, Dialled::Ended { .. })).then(|| unanswered(all))
}

/// Whether one rang and was hung up without a reason: a colleague may have picked it up.
fn may_be_picked_up(all: &[Dialled]) -> bool {
    // Q.850: normal clearing.
    all.iter().any(|one| matches!(one, Dialled::Ended { cause: Some(16) | None, rang: true }))
}

/// The most telling reason: a telephone that rang tells more than one that was off.
fn unanswered(all: &[Dialled]) -> TransferFault {
    let one = |dialled: &Dialled| match *dialled {
        // Q.850: 17 user busy, 21 call rejected, 18 and 19 no answer, 16 normal clearing.
        Dialled::Ended { cause: Some(17), .. } => TransferFault::Busy,
        Dialled::Ended { cause: Some(21), .. } => TransferFault::Refused,
        Dialled::Ended { rang: true, .. } | Dialled::Ringing | Dialled::Answered => TransferFault::NoAnswer,
        Dialled::Ended { cause: Some(16), .. } => TransferFault::NoAnswer,
        Dialled::Ended { .. } | Dialled::Calling => TransferFault::Unreachable,
    };
    let found: Vec<TransferFault> = all.iter().map(one).collect();
    let order = [TransferFault::NoAnswer, TransferFault::Busy, TransferFault::Refused];
    order.into_iter().find(|fault| found.contains(fault)).unwrap_or(TransferFault::Unreachable)
}

/// A Local channel that optimises itself away would leave our application with the call in it.
fn unoptimised(endpoint: &str) -> String {
    let local = endpoint.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("local/"));
    if local && endpoint.matches('/').count() == 1 { format!("{endpoint}/n") } else { endpoint.to_owned() }
}

/// `"Name" <number>`, without anything that could end the name or the number early.
fn caller_id(name: &Redacted<Option<String>>, number: &Redacted<Option<String>>) -> Redacted<Option<String>> {
    let clean = |text: &Option<String>| -> String {
        let text = text.as_deref().unwrap_or_default();
        text.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '<' | '>' | '\\')).take(80).collect()
    };
    let (name, number) = (clean(name.reveal()), clean(number.reveal()));
    let text = match (name.is_empty(), number.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("<{number}>")),
        (false, true) => Some(format!("\"{name}\" <>")),
        (false, false) => Some(format!("\"{name}\" <{number}>")),
    };
    Redacted::new(text)
}

#[cfg(test)]
mod tests;
