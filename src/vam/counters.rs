//! The metrics of VAM/1.0.

use crate::telemetry::Definition;
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, Registry};

const REGISTRATIONS: Definition = Definition::labelled(
    "offhook_vam_registrations_total",
    &["result"],
    "Action servers that registered (accepted), that were refused, of which at least one tool was refused (in_part), or \
     that came while too many others were being looked at (busy).",
);
const SERVERS: Definition = Definition::new("offhook_vam_action_servers", "Action servers that are registered.");
const DENIED: Definition = Definition::new(
    "offhook_vam_actions_denied_total",
    "Actions that were not run because what the caller says may not go to where their server is.",
);
const UNAUTHENTICATED: Definition =
    Definition::new("offhook_vam_unauthenticated_total", "Requests by gRPC without a token that is known.");

const SESSIONS: Definition =
    Definition::new("offhook_vam_sessions", "VAM sessions that are open, with a stream or without.");
const SESSIONS_FORGOTTEN: Definition = Definition::new(
    "offhook_vam_sessions_forgotten_total",
    "VAM sessions that were forgotten because their client began no stream within a minute.",
);
const UNASKED: Definition = Definition::new(
    "offhook_vam_connections_unasked_total",
    "Connections by gRPC without a token that were closed because nothing was asked on them for twenty seconds, be it that TLS or \
     HTTP/2 was not begun.",
);
const SHOWN_OUT: Definition = Definition::new(
    "offhook_vam_connections_shown_out_total",
    "Connections by gRPC without a token that were closed because others needed their place: as many were open as \
     vam.limits.connections allows.",
);
const CONNECTIONS_WAITED: Definition = Definition::new(
    "offhook_vam_connections_waited_total",
    "Connections by gRPC that had to wait for a place: as many clients with a token were there as vam.limits.connections allows.",
);
const GUESSES_REFUSED: Definition = Definition::new(
    "offhook_vam_guesses_refused_total",
    "Requests by gRPC whose token was not looked at, because too many wrong ones had come from their network.",
);
const STUCK: Definition = Definition::new(
    "offhook_vam_streams_stuck_total",
    "VAM streams that were cut off because their client did not read for five seconds.",
);
const AUDIO_DROPPED: Definition = Definition::new(
    "offhook_vam_frames_dropped_total",
    "Frames of 20 ms of VAM clients that were dropped: they came more than three seconds ahead of time, or the call did not take \
     them.",
);
const RESULTS_DROPPED: Definition = Definition::new(
    "offhook_vam_results_dropped_total",
    "Results of actions that nobody waited for, that could not be read, or that were larger than vam.limits.message_bytes.",
);

const TIMED_OUT: Definition = Definition::new(
    "offhook_vam_actions_timed_out_total",
    "Actions that were not answered in time, by a VAM client that was to run them or by their server.",
);

const TOO_MANY: Definition = Definition::new(
    "offhook_vam_actions_too_many_total",
    "Actions that were not begun because 4096 others were under way.",
);
const FLUSHES_CUT: Definition = Definition::new(
    "offhook_vam_flushes_cut_total",
    "Sessions that their client ended of which something was still to come when the time for it was over: words, the end of what \
     was being said, or the result of an action.",
);
const UNREADABLE: Definition = Definition::new(
    "offhook_vam_streams_unreadable_total",
    "VAM streams that ended because their client sent a message that is no message, or one of more than 16 MB.",
);
const SILENT: Definition = Definition::new(
    "offhook_vam_streams_silent_total",
    "VAM streams that were closed because their client sent no message within ten seconds.",
);
const MESSAGES_EMPTY: Definition = Definition::new(
    "offhook_vam_messages_empty_total",
    "Messages of VAM clients that were passed over: they have nothing in them, or nothing that is known here.",
);
const EMISSION: Definition = Definition::new(
    "offhook_vam_action_emission_seconds",
    "From the agent's wish for an action, or the caller's yes to it, until its request has left for the VAM client.",
);
/// The specification allows 50 ms.
const EMISSION_BUCKETS: [f64; 8] = [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1];

/// What became of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registered {
    Accepted,
    InPart,
    Refused,
    Busy,
}

impl Registered {
    const ALL: [Self; 4] = [Self::Accepted, Self::InPart, Self::Refused, Self::Busy];

    const fn label(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::InPart => "in_part",
            Self::Refused => "refused",
            Self::Busy => "busy",
        }
    }
}

/// Of one engine.
#[derive(Debug, Clone)]
pub struct VamCounters {
    registrations: IntCounterVec,
    pub(super) servers: IntGauge,
    pub(super) denied: IntCounter,
    pub(super) unauthenticated: IntCounter,
    pub(super) sessions: IntGauge,
    pub(super) sessions_forgotten: IntCounter,
    pub(super) unasked: IntCounter,
    pub(super) shown_out: IntCounter,
    pub(super) connections_waited: IntCounter,
    pub(super) guesses_refused: IntCounter,
    pub(super) stuck: IntCounter,
    pub(super) audio_dropped: IntCounter,
    pub(super) results_dropped: IntCounter,
    pub(super) timed_out: IntCounter,
    pub(super) too_many: IntCounter,
    pub(super) unreadable: IntCounter,
    pub(super) flushes_cut: IntCounter,
    pub(super) silent: IntCounter,
    pub(super) messages_empty: IntCounter,
    pub(super) emission: Histogram,
}

impl VamCounters {
    pub fn new(registry: &Registry) -> Self {
        let registrations = REGISTRATIONS.register_counters(registry);
        for result in Registered::ALL {
            registrations.with_label_values(&[result.label()]);
        }
        Self {
            registrations,
            servers: SERVERS.register_int_gauge(registry),
            denied: DENIED.register_counter(registry),
            unauthenticated: UNAUTHENTICATED.register_counter(registry),
            sessions: SESSIONS.register_int_gauge(registry),
            sessions_forgotten: SESSIONS_FORGOTTEN.register_counter(registry),
            unasked: UNASKED.register_counter(registry),
            shown_out: SHOWN_OUT.register_counter(registry),
            connections_waited: CONNECTIONS_WAITED.register_counter(registry),
            guesses_refused: GUESSES_REFUSED.register_counter(registry),
            stuck: STUCK.register_counter(registry),
            audio_dropped: AUDIO_DROPPED.register_counter(registry),
            results_dropped: RESULTS_DROPPED.register_counter(registry),
            timed_out: TIMED_OUT.register_counter(registry),
            too_many: TOO_MANY.register_counter(registry),
            flushes_cut: FLUSHES_CUT.register_counter(registry),
            unreadable: UNREADABLE.register_counter(registry),
            silent: SILENT.register_counter(registry),
            messages_empty: MESSAGES_EMPTY.register_counter(registry),
            emission: EMISSION.register_histogram(registry, &EMISSION_BUCKETS),
        }
    }

    pub(super) fn registered(&self, result: Registered) {
        self.registrations.with_label_values(&[result.label()]).inc();
    }
}
