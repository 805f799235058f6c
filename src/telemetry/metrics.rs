//! The engine's own metrics, in the engine's words. Adapters bring theirs: a struct of counters made
//! from [`Metrics::registry`].
//!
//! The constants at the head are the table of names; `docs/metrics.md` is written from them.
//! Every child is made at the start and kept, so the path of a frame never looks a label up.

use super::{
    definition::Definition, names::NamedCounters, process, sessions::SessionMetrics, standing::Standing,
    turns::TurnMetrics, usage::UsageMetrics,
};
use crate::{
    call::{EndReason, FalseAlarm, Purpose, TransferFault, TurnTimes, Usage},
    tool::ToolError,
};
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, Registry, TextEncoder};
use std::{collections::HashMap, sync::Arc, time::Duration};

const CALLS: Definition = Definition::labelled(
    "offhook_calls_total",
    &["reason", "class"],
    "Calls that ended, by reason and by whose doing it was.",
);
const CALLS_ACTIVE: Definition = Definition::new("offhook_calls_active", "Calls that are up now.");
const DECLINED: Definition = Definition::labelled(
    "offhook_calls_declined_total",
    &["status"],
    "Channels given back to the dialplan; status as in OFFHOOK_STATUS.",
);
const CONTEXT_UNKNOWN: Definition = Definition::new(
    "offhook_context_unknown_total",
    "Calls whose AI_CONTEXT names no configured context, whether the default took them or not.",
);
const TRANSFERS_FAILED: Definition = Definition::labelled(
    "offhook_transfers_failed_total",
    &["reason", "caller"],
    "Transfers that nobody took, by reason and by what became of the caller: back with the agent (back), or hung up on by the \
     place of the dialplan that they were sent to (lost); lost ones count as `transferred` in `offhook_calls_total`.",
);
const SETUP: Definition = Definition::new("offhook_setup_seconds", "From Stasis start until audio can flow both ways.");
const FIRST_AUDIO: Definition =
    Definition::new("offhook_first_audio_seconds", "From Stasis start until the first frame of the greeting left.");
pub(super) const TURN: Definition = Definition::labelled(
    "offhook_turn_latency_seconds",
    &["provider"],
    "From the caller's last voiced frame until the first frame of the answer left.",
);
pub(super) const TURN_STAGE: Definition = Definition::labelled(
    "offhook_turn_stage_seconds",
    &["provider", "stage"],
    "The stages of that time, which add up to it: until the turn counts as over (endpointing), until the response \
     began (thinking), until its first audio came (speaking), until the first frame left (playout).",
);
const BARGE_IN_STOP: Definition = Definition::new(
    "offhook_barge_in_stop_seconds",
    "From the decision that the caller interrupts until the first frame without agent audio.",
);
const FALSE_ALARMS: Definition = Definition::labelled(
    "offhook_false_alarms_total",
    &["why"],
    "Sounds of the caller over the agent that were no interruption; the agent was paused for 600 ms at most, or 900 ms where a recognizer was asked for the words.",
);
const HALF_DUPLEX: Definition = Definition::new(
    "offhook_half_duplex_total",
    "How often a line was found to bring the agent back so loudly that it could not be interrupted by voice any more.",
);
const SENTENCES: Definition = Definition::labelled(
    "offhook_sentences_total",
    &["purpose"],
    "Sentences that callers heard from the engine itself, word for word: fillers say how often an answer was late.",
);
const LISTENERS_DROPPED: Definition = Definition::new(
    "offhook_listeners_dropped_total",
    "Operators who listened to a call over a connection that was too slow for it, and were cut off.",
);
const TICK_LATENESS: Definition =
    Definition::new("offhook_tick_lateness_seconds", "How late a 20 ms playout tick ran.");
const SLOTS_MISSED: Definition =
    Definition::new("offhook_slots_missed_total", "20 ms slots in which a frame was due and none left in time.");
const CALLER_GAPS: Definition = Definition::new(
    "offhook_caller_gap_frames_total",
    "20 ms slots in which nothing came from the caller, and the agent was sent silence instead.",
);
const FRAMES_DROPPED: Definition = Definition::labelled(
    "offhook_frames_dropped_total",
    &["reason"],
    "20 ms frames dropped: agent audio not heard because the caller interrupted (interrupted) or that came of an \
     interrupted response afterwards (stale_response) or past the playout limit \
     (playout_overflow), frames that Asterisk's socket (leg_full) or the provider's queue (agent_full) did not take, the \
     beginning of a caller's turn, of which the last 30 s are kept for an agent that takes over (turn_forgotten), and frames \
     that waited in Asterisk when the audio path broke or were due before another one stood (path_broken).",
);
pub(super) const TOOL_CALLS: Definition = Definition::labelled(
    "offhook_tool_calls_total",
    &["tool", "outcome"],
    "Tool calls answered, by tool and by what became of them; names that no configuration knows are `unknown`.",
);
pub(super) const TOKENS: Definition = Definition::labelled(
    "offhook_tokens_total",
    &["provider", "kind"],
    "Tokens used, as the provider reports them; input_cached is a part of the input kinds, input_cached_audio of \
     input_cached.",
);
pub(super) const CONNECTED: Definition = Definition::labelled(
    "offhook_connected_seconds_total",
    &["provider"],
    "How long sessions were connected, by our own clock: several vendors bill that and report nothing.",
);
pub(super) const COST: Definition = Definition::labelled(
    "offhook_cost_total",
    &["provider", "currency"],
    "What was used, at the prices of the configuration; what has no price there is not in it.",
);
const RELOADS: Definition = Definition::labelled(
    "offhook_reloads_total",
    &["outcome"],
    "Reloads of the configuration asked for; a refused one changed nothing.",
);
const LOG_LINES_SUPPRESSED: Definition = Definition::new(
    "offhook_log_lines_suppressed_total",
    "Warnings and errors left out of the log because the same line was repeating.",
);
const BUILD_INFO: Definition =
    Definition::labelled("offhook_build_info", &["version"], "Always 1; the label says what is running.");

/// From a few REST round trips on one host (~10 ms) to a provider at its connect limit. 0.15 is the
/// bar that the first greeting frame is held to.
const START_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0];
/// One frame is 20 ms; a stop that takes two has missed its aim.
const STOP_BUCKETS: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06, 0.1, 0.25];
/// From what a timer wheel of 1 ms costs to five lost frames.
const TICK_BUCKETS: &[f64] = &[0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.04, 0.1];

/// What [`Metrics::text`] is, for the `Content-Type` header.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Why a channel was given back to the dialplan instead of becoming a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Declined {
    /// No context of this name, and no default.
    NoContext,
    Draining,
    /// `limits.calls` are running.
    Full,
}

impl Declined {
    pub const ALL: [Self; 3] = [Self::NoContext, Self::Draining, Self::Full];

    /// The metric's label; in upper case it is the value of `OFFHOOK_STATUS`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoContext => "nocontext",
            Self::Draining => "draining",
            Self::Full => "full",
        }
    }

    /// The value of `OFFHOOK_STATUS`.
    pub const fn status(self) -> &'static str {
        match self {
            Self::NoContext => "NOCONTEXT",
            Self::Draining => "DRAINING",
            Self::Full => "FULL",
        }
    }
}

/// Why a frame was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameDrop {
    StaleResponse,
    /// Agent audio that had arrived when the caller interrupted.
    Interrupted,
    PlayoutOverflow,
    LegFull,
    AgentFull,
    /// Of the caller, for an agent that took over.
    TurnForgotten,
    /// What waited in Asterisk when the audio path broke, or was due before another one stood.
    PathBroken,
}

impl FrameDrop {
    pub const ALL: [Self; 7] = [
        Self::StaleResponse,
        Self::Interrupted,
        Self::PlayoutOverflow,
        Self::LegFull,
        Self::AgentFull,
        Self::TurnForgotten,
        Self::PathBroken,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::StaleResponse => "stale_response",
            Self::Interrupted => "interrupted",
            Self::PlayoutOverflow => "playout_overflow",
            Self::LegFull => "leg_full",
            Self::AgentFull => "agent_full",
            Self::TurnForgotten => "turn_forgotten",
            Self::PathBroken => "path_broken",
        }
    }
}

/// What became of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolCallEnd {
    Done,
    Failed(ToolError),
    /// The call ended, or the caller interrupted, before the tool had answered.
    Cancelled,
}

impl ToolCallEnd {
    const LABELS: [&'static str; 2 + ToolError::ALL.len()] = [
        "done",
        "cancelled",
        "not_found",
        "validation",
        "mode_restricted",
        "budget_exceeded",
        "loop_detected",
        "confirmation_required",
        "deferred",
        "refused",
        "timeout",
        "transient",
        "rate_limit",
        "permanent",
        "auth",
        "conflict",
        "session_inactive",
        "internal",
    ];

    /// Its place in [`Self::LABELS`].
    const fn index(self) -> usize {
        match self {
            Self::Done => 0,
            Self::Cancelled => 1,
            Self::Failed(kind) => 2 + kind as usize,
        }
    }
}

/// State of a caller whom nobody took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stranded {
    /// With the agent again.
    Back,
    /// Hung up on.
    Lost,
}

impl Stranded {
    const fn label(self) -> &'static str {
        match self {
            Self::Back => "back",
            Self::Lost => "lost",
        }
    }
}

/// How a reload went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reload {
    Loaded,
    /// The file has problems; the running configuration stays.
    Refused,
}

/// All metrics of one engine, in a registry of their own. Cloning shares them.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    ended: HashMap<EndReason, IntCounter>,
    active: IntGauge,
    standing: Standing,
    declined: HashMap<Declined, IntCounter>,
    context_unknown: IntCounter,
    transfers_failed: IntCounterVec,
    timings: Timings,
    slots_missed: IntCounter,
    caller_gaps: IntCounter,
    false_alarms: HashMap<&'static str, IntCounter>,
    half_duplex: IntCounter,
    sentences: HashMap<&'static str, IntCounter>,
    listeners_dropped: IntCounter,
    frames_dropped: [IntCounter; FrameDrop::ALL.len()],
    tool_calls: NamedCounters,
    usage: UsageMetrics,
    turns: TurnMetrics,
    sessions: SessionMetrics,
    reloads: [IntCounter; 2],
    log_lines_suppressed: IntCounter,
}

struct Timings {
    setup: Histogram,
    first_audio: Histogram,
    barge_in_stop: Histogram,
    tick_lateness: Histogram,
}

impl Metrics {
    /// `version` becomes the label of `offhook_build_info`.
    pub fn new(version: &str) -> Self {
        let registry = Registry::new();
        process::register(&registry);
        BUILD_INFO.register_int_gauges(&registry).with_label_values(&[version]).set(1);
        let ended = CALLS.register_counters(&registry);
        let ended = |reason: EndReason| ended.with_label_values(&[reason.label().as_str(), reason.class().label()]);
        let declined = DECLINED.register_counters(&registry);
        let dropped = FRAMES_DROPPED.register_counters(&registry);
        let reloads = RELOADS.register_counters(&registry);
        let false_alarms = FALSE_ALARMS.register_counters(&registry);
        let sentences = SENTENCES.register_counters(&registry);
        Self(Arc::new(Inner {
            ended: EndReason::all().into_iter().map(|reason| (reason, ended(reason))).collect(),
            active: CALLS_ACTIVE.register_int_gauge(&registry),
            declined: Declined::ALL.map(|status| (status, child(&declined, status.label()))).into(),
            context_unknown: CONTEXT_UNKNOWN.register_counter(&registry),
            transfers_failed: transfers_failed(&registry),
            timings: Timings {
                setup: SETUP.register_histogram(&registry, START_BUCKETS),
                first_audio: FIRST_AUDIO.register_histogram(&registry, START_BUCKETS),
                barge_in_stop: BARGE_IN_STOP.register_histogram(&registry, STOP_BUCKETS),
                tick_lateness: TICK_LATENESS.register_histogram(&registry, TICK_BUCKETS),
            },
            slots_missed: SLOTS_MISSED.register_counter(&registry),
            caller_gaps: CALLER_GAPS.register_counter(&registry),
            false_alarms: FalseAlarm::ALL.map(|why| (why.label(), child(&false_alarms, why.label()))).into(),
            half_duplex: HALF_DUPLEX.register_counter(&registry),
            sentences: Purpose::LABELS.map(|purpose| (purpose, child(&sentences, purpose))).into(),
            listeners_dropped: LISTENERS_DROPPED.register_counter(&registry),
            frames_dropped: FrameDrop::ALL.map(|reason| child(&dropped, reason.label())),
            tool_calls: NamedCounters::new(TOOL_CALLS.register_counters(&registry), &ToolCallEnd::LABELS),
            usage: UsageMetrics::new(&registry),
            turns: TurnMetrics::new(&registry),
            sessions: SessionMetrics::new(&registry),
            reloads: ["loaded", "refused"].map(|outcome| child(&reloads, outcome)),
            standing: Standing::new(&registry),
            log_lines_suppressed: LOG_LINES_SUPPRESSED.register_counter(&registry),
            registry,
        }))
    }

    /// What is open now, asked for at each scrape.
    pub fn open(&self, tasks: usize, media: [(&'static str, usize); 5]) {
        self.0.standing.open(tasks, media);
    }

    /// What a new call takes, each with whether it is there; asked for at each scrape.
    pub fn ready(&self, checks: [(&'static str, bool); 4]) {
        self.0.standing.ready(checks);
    }

    /// Calls that are taken at once.
    pub fn calls_limit(&self, calls: usize) {
        self.0.standing.calls_limit(calls);
    }

    /// For the adapters' own counters.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Everything in the registry, in Prometheus' text format ([`CONTENT_TYPE`]).
    pub fn text(&self) -> String {
        // Only a metric without a name or a child can fail here, and `gather` leaves those out.
        TextEncoder::new().encode_to_string(&self.0.registry.gather()).unwrap_or_else(|error| {
            tracing::error!(%error, "the metrics could not be written");
            String::new()
        })
    }

    /// Names of tools and providers that a newly loaded configuration knows. Only these become
    /// labels; they show as zero from now on.
    pub fn know<'a>(
        &self,
        tools: impl IntoIterator<Item = &'a str>,
        providers: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
    ) {
        self.0.tool_calls.know(tools);
        let providers = providers.into_iter();
        self.0.sessions.know(providers.clone());
        self.0.usage.know(providers.clone());
        self.0.turns.know(providers);
    }

    /// The call counts as active until the answer is dropped.
    pub fn call_started(&self) -> InCall {
        self.0.active.inc();
        InCall(self.0.active.clone())
    }

    pub fn call_ended(&self, reason: EndReason) {
        if let Some(counter) = self.0.ended.get(&reason) {
            counter.inc();
        }
    }

    pub fn call_declined(&self, why: Declined) {
        if let Some(counter) = self.0.declined.get(&why) {
            counter.inc();
        }
    }

    pub fn context_unknown(&self) {
        self.0.context_unknown.inc();
    }

    /// A transferred caller was taken by nobody.
    pub fn transfer_failed(&self, why: TransferFault, caller: Stranded) {
        self.0.transfers_failed.with_label_values(&[why.label(), caller.label()]).inc();
    }

    /// From Stasis start until audio can flow.
    pub fn setup(&self, took: Duration) {
        self.0.timings.setup.observe(took.as_secs_f64());
    }

    /// From Stasis start until the first frame of the greeting left.
    pub fn first_audio(&self, took: Duration) {
        self.0.timings.first_audio.observe(took.as_secs_f64());
    }

    /// One turn of the caller was answered.
    pub fn turn(&self, provider: &str, times: &TurnTimes) {
        self.0.turns.answered(provider, times);
    }

    /// From the decision until the first frame without agent audio.
    pub fn barge_in_stop(&self, took: Duration) {
        self.0.timings.barge_in_stop.observe(took.as_secs_f64());
    }

    /// `why`: a label of [`FalseAlarm`].
    pub fn false_alarm(&self, why: &str) {
        self.0.false_alarms.get(why).inspect(|counter| counter.inc());
    }

    /// From now on a caller cannot interrupt by voice.
    pub fn half_duplex(&self) {
        self.0.half_duplex.inc();
    }

    /// `purpose`: a label of [`Purpose`].
    pub fn sentence(&self, purpose: &str) {
        self.0.sentences.get(purpose).inspect(|counter| counter.inc());
    }

    pub fn listeners_dropped(&self, count: usize) {
        self.0.listeners_dropped.inc_by(count as u64);
    }

    /// One playout tick, and how long after its deadline it ran.
    pub fn tick(&self, lateness: Duration) {
        self.0.timings.tick_lateness.observe(lateness.as_secs_f64());
    }

    pub fn slots_missed(&self, slots: u64) {
        self.0.slots_missed.inc_by(slots);
    }

    pub fn caller_gap(&self) {
        self.0.caller_gaps.inc();
    }

    pub fn frames_dropped(&self, reason: FrameDrop, frames: u64) {
        self.0.frames_dropped[reason as usize].inc_by(frames);
    }

    /// `tool` may be any word the model said; one that is not [known](Self::know) is `unknown`.
    pub fn tool_call(&self, tool: &str, end: ToolCallEnd) {
        self.0.tool_calls.add(tool, end.index(), 1);
    }

    /// What a provider has reported, or what was measured of its sessions.
    pub fn used(&self, provider: &str, usage: &Usage) {
        self.0.usage.used(provider, usage);
    }

    /// Provider and currency of a price that a newly loaded configuration has.
    pub fn know_price(&self, provider: &str, currency: &str) {
        self.0.usage.know_price(provider, currency);
    }

    /// Left out for a pair that is not [known](Self::know_price).
    pub fn cost(&self, provider: &str, currency: &str, amount: f64) {
        self.0.usage.cost(provider, currency, amount);
    }

    /// Of sessions that carry calls on, and of providers that fail.
    pub fn sessions(&self) -> &SessionMetrics {
        &self.0.sessions
    }

    pub fn reload(&self, outcome: Reload) {
        self.0.reloads[outcome as usize].inc();
    }

    /// For the log, which counts what it leaves out.
    pub fn log_lines_suppressed(&self) -> IntCounter {
        self.0.log_lines_suppressed.clone()
    }
}

fn transfers_failed(registry: &Registry) -> IntCounterVec {
    let counters = TRANSFERS_FAILED.register_counters(registry);
    for why in TransferFault::ALL {
        for caller in [Stranded::Back, Stranded::Lost] {
            counters.with_label_values(&[why.label(), caller.label()]);
        }
    }
    counters
}

fn child(counters: &IntCounterVec, value: &str) -> IntCounter {
    counters.with_label_values(&[value])
}

/// One call's part of `offhook_calls_active`; given back when dropped, however the call ends.
#[must_use]
#[derive(Debug)]
pub struct InCall(IntGauge);

impl Drop for InCall {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests;
