//! The services that pipelines are made of, as the engine watches over them: a breaker for each, and what is counted of it.
//! They outlive every load of a configuration.

use super::{Fault, health::Health};
use crate::telemetry::Definition;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

const REQUESTS: Definition = Definition::labelled(
    "offhook_stage_requests_total",
    &["service", "kind", "outcome"],
    "What the services of pipelines were asked for, every attempt, by outcome: done, or the class of the fault, where \
     no_place is a program of this machine that was not started since too many were at work. Of a listener turns are \
     counted, and sessions that broke; of a model answers; of a voice clauses.",
);
const FIRST_RESULT: Definition = Definition::labelled(
    "offhook_stage_first_result_seconds",
    &["service", "kind"],
    "From the request to its first result: of a listener from the end of the turn to its words, of a model to the first \
     word or call, of a voice to the first sound.",
);
const ODDITIES: Definition = Definition::labelled(
    "offhook_stage_oddities_total",
    &["service", "kind", "oddity"],
    "What went wrong with the services of pipelines and cost no session: a message that could not be read (malformed), a \
     listener that took over and was not given the beginning of a turn, of which the last 30 s are kept, or a model that is \
     not shown what was said before its `context_chars` since nothing is summed up (forgotten).",
);
const BREAKER: Definition = Definition::labelled(
    "offhook_stage_breaker",
    &["service", "kind"],
    "What calls may expect of a service: 0 it is asked, 1 one call tries it, 2 it failed and is left alone.",
);

/// From a service on the same machine to one that is given up.
const BUCKETS: &[f64] = &[0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0];
const DONE: &str = "done";
/// Services that are told apart in the life of the process, over many reloads; what comes later is not counted.
const SERVICES_MAX: usize = 128;

/// What went wrong with a service and cost no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// A message that could not be read.
    Malformed,
    /// A listener was not given the beginning of a turn, or a model that of a conversation, which is not kept any more.
    Forgotten,
}

impl Oddity {
    pub const ALL: [Self; 2] = [Self::Malformed, Self::Forgotten];

    /// A closed set: it is a metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Forgotten => "forgotten",
        }
    }
}

/// All of them.
#[derive(Default)]
pub struct Wards {
    health: Arc<Health>,
    counters: Option<Counters>,
}

struct Counters {
    requests: IntCounterVec,
    first_result: HistogramVec,
    breakers: IntGaugeVec,
    oddities: IntCounterVec,
    known: Mutex<BTreeMap<(String, &'static str), Meter>>,
}

#[derive(Clone)]
struct Meter {
    done: IntCounter,
    faults: [IntCounter; Fault::LABELS.len()],
    first_result: Histogram,
    breaker: IntGauge,
    oddities: [IntCounter; Oddity::ALL.len()],
}

impl Wards {
    pub fn new(health: Arc<Health>, registry: &Registry) -> Self {
        let counters = Counters {
            requests: REQUESTS.register_counters(registry),
            first_result: FIRST_RESULT.register_histograms(registry, BUCKETS),
            breakers: BREAKER.register_int_gauges(registry),
            oddities: ODDITIES.register_counters(registry),
            known: Mutex::default(),
        };
        Self { health, counters: Some(counters) }
    }

    /// The ward of this entry of the configuration; its metrics show as zero from now on.
    pub fn ward(&self, section: &str, name: &str, kind: &'static str) -> Ward {
        let place = place(section, name);
        let meter = self.counters.as_ref().and_then(|counters| counters.meter(&place, kind));
        Ward { place, health: Arc::clone(&self.health), meter }
    }

    /// Sets the gauges.
    pub fn look(&self) {
        let Some(counters) = &self.counters else { return };
        for ((place, _), meter) in &*counters.known.lock().unwrap_or_else(PoisonError::into_inner) {
            meter.breaker.set(self.health.breaker(place).value());
        }
    }
}

/// What such an entry is called by: `stt.nova`.
pub fn place(section: &str, name: &str) -> String {
    format!("{section}.{name}")
}

impl Counters {
    fn meter(&self, place: &str, kind: &'static str) -> Option<Meter> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (place.to_owned(), kind);
        if let Some(meter) = known.get(&key) {
            return Some(meter.clone());
        }
        if known.len() >= SERVICES_MAX {
            tracing::warn!(limit = SERVICES_MAX, "too many services for one metric; the rest are not counted");
            return None;
        }
        let meter = Meter {
            done: self.requests.with_label_values(&[place, kind, DONE]),
            faults: Fault::LABELS.map(|label| self.requests.with_label_values(&[place, kind, label])),
            first_result: self.first_result.with_label_values(&[place, kind]),
            breaker: self.breakers.with_label_values(&[place, kind]),
            oddities: Oddity::ALL.map(|oddity| self.oddities.with_label_values(&[place, kind, oddity.label()])),
        };
        known.insert(key, meter.clone());
        Some(meter)
    }
}

/// One service.
#[derive(Clone)]
pub struct Ward {
    place: String,
    health: Arc<Health>,
    meter: Option<Meter>,
}

impl Ward {
    /// Whether it may be asked now.
    pub fn admits(&self) -> bool {
        self.health.admits(&self.place)
    }

    /// It did what it was asked for.
    pub fn worked(&self) {
        self.health.spoke(&self.place);
        self.health.worked(&self.place);
        self.meter.iter().for_each(|meter| meter.done.inc());
    }

    /// The first result of a request came after so long.
    pub fn first_result(&self, took: Duration) {
        self.meter.iter().for_each(|meter| meter.first_result.observe(took.as_secs_f64()));
    }

    pub fn was_odd(&self, oddity: Oddity) {
        let at = Oddity::ALL.iter().position(|one| *one == oddity);
        if let (Some(meter), Some(at)) = (&self.meter, at) {
            meter.oddities[at].inc();
        }
    }

    /// One attempt has failed.
    pub fn stumbled(&self, fault: &Fault) {
        tracing::warn!(service = self.place, fault = fault.label(), "{fault}");
        let at = Fault::LABELS.iter().position(|label| *label == fault.label());
        if let (Some(meter), Some(at)) = (&self.meter, at) {
            meter.faults[at].inc();
        }
    }

    /// It is given up for this request: the next one is asked.
    pub fn failed(&self, fault: &Fault) {
        self.health.failed(&self.place, fault.loss());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(registry: &Registry) -> String {
        prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn what_a_service_does_is_counted_under_its_name_and_kind_and_its_breaker_shows() {
        let registry = Registry::new();
        let wards = Wards::new(Arc::default(), &registry);
        let ward = wards.ward("stt", "ears", "deepgram_listen");
        assert!(text(&registry).contains("{kind=\"deepgram_listen\",outcome=\"done\",service=\"stt.ears\"} 0"));
        ward.worked();
        ward.first_result(Duration::from_millis(90));
        for _ in 0..3 {
            ward.stumbled(&Fault::Closed(None));
            ward.failed(&Fault::Closed(None));
        }
        assert!(!wards.ward("stt", "ears", "deepgram_listen").admits(), "also when the configuration is loaded again");
        assert!(!ward.admits() && wards.ward("stt", "others", "deepgram_listen").admits());
        wards.look();
        let text = text(&registry);
        for line in [
            "offhook_stage_requests_total{kind=\"deepgram_listen\",outcome=\"done\",service=\"stt.ears\"} 1",
            "offhook_stage_requests_total{kind=\"deepgram_listen\",outcome=\"closed\",service=\"stt.ears\"} 3",
            "offhook_stage_first_result_seconds_bucket{kind=\"deepgram_listen\",service=\"stt.ears\",le=\"0.1\"} 1",
            "offhook_stage_breaker{kind=\"deepgram_listen\",service=\"stt.ears\"} 2",
            "offhook_stage_breaker{kind=\"deepgram_listen\",service=\"stt.others\"} 0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn an_entry_that_is_loaded_again_and_again_is_one_and_many_fill_no_memory() {
        let registry = Registry::new();
        let wards = Wards::new(Arc::default(), &registry);
        for _ in 0..3 {
            wards.ward("llm", "house", "openai_chat").worked();
        }
        (0..2 * SERVICES_MAX).for_each(|n| wards.ward("llm", &n.to_string(), "openai_chat").worked());
        let text = text(&registry);
        assert!(text.contains("outcome=\"done\",service=\"llm.house\"} 3"), "{text}");
        let shown = text.lines().filter(|line| line.starts_with("offhook_stage_breaker{"));
        assert_eq!(shown.count(), SERVICES_MAX);
    }
}
