//! What the evidence is worth: leaks, age, gaps and contradictions.

use super::{
    event::{Category, EvidenceRef, Freshness, TrustTier},
    patterns::Text,
    python, time,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::borrow::Cow;

const VERSION: &str = "0.1";

/// Words of a summary that say the evidence lacks something.
const MISSING: [&str; 9] = [
    "evidence missing",
    "missing evidence",
    "information is missing",
    "record is missing",
    "not available",
    "unavailable",
    "unknown",
    "insufficient",
    "no evidence",
];

/// Words of a summary that say the evidence speaks against the action.
const CONTRADICTORY: [&str; 6] = ["contradict", "conflict", "inconsistent", "does not match", "disputes", "opposes"];

/// One piece of evidence as the rules see it, whoever wrote it down.
/// What is not even an object has no fields.
pub(super) struct RefView<'a>(Option<Fields<'a>>);

/// Values as the reference prints them: what is absent or empty in any way is the empty text.
pub(super) struct Fields<'a> {
    /// Which of the required fields are written down, in their order.
    pub present: [bool; 6],
    pub source_id: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    pub trust: Cow<'a, str>,
    pub redaction: Cow<'a, str>,
    pub summary: Cow<'a, str>,
    pub citation_url: Cow<'a, str>,
    pub retrieval_url: Cow<'a, str>,
    pub provenance: Cow<'a, str>,
    pub freshness: Cow<'a, str>,
    pub time: TimeView<'a>,
    pub contradicts: bool,
}

/// When the evidence was taken: when it was retrieved, else when its freshness was checked.
pub(super) enum TimeView<'a> {
    Absent,
    Text(&'a str),
    /// Something that cannot be a time.
    Other,
}

const REQUIRED: [(&str, Level, &str, &str); 6] = [
    ("source_id", Level::Error, "missing_source_id", "The required field source_id is absent."),
    ("kind", Level::Error, "missing_kind", "The required field kind is absent."),
    ("trust_tier", Level::Error, "missing_trust_tier", "The required field trust_tier is absent."),
    ("redaction_status", Level::Error, "missing_redaction_status", "The required field redaction_status is absent."),
    ("freshness", Level::Warning, "missing_freshness", "The required field freshness is absent."),
    ("provenance", Level::Warning, "missing_provenance", "The required field provenance is absent."),
];

impl<'a> RefView<'a> {
    pub fn of_json(value: &'a Value) -> Self {
        let Some(object) = value.as_object() else { return Self(None) };
        let text = |name: &str| python::text_or_empty(object.get(name));
        let or_unknown = |text: Cow<'a, str>| if text.is_empty() { Cow::Borrowed("unknown") } else { text };
        let freshness = object.get("freshness").and_then(Value::as_object);
        let of_freshness = |name: &str| freshness.and_then(|freshness| freshness.get(name));
        let truthy = |value: &Option<&Value>| value.is_some_and(python::truthy);
        let time = Some(object.get("retrieved_at")).filter(truthy).or(Some(of_freshness("checked_at")).filter(truthy));
        Self(Some(Fields {
            present: REQUIRED.map(|(name, ..)| object.contains_key(name)),
            source_id: text("source_id"),
            kind: text("kind"),
            trust: or_unknown(text("trust_tier")),
            redaction: or_unknown(text("redaction_status")),
            summary: text("summary"),
            citation_url: text("citation_url"),
            retrieval_url: text("retrieval_url"),
            provenance: text("provenance"),
            freshness: or_unknown(python::text_or_empty(of_freshness("status"))),
            time: match time.flatten() {
                None => TimeView::Absent,
                Some(Value::String(text)) => TimeView::Text(text),
                Some(_) => TimeView::Other,
            },
            contradicts: object.get("contradicts").is_some_and(python::truthy),
        }))
    }

    pub fn of_ref(item: &'a EvidenceRef) -> Self {
        let optional = |text: &'a Option<String>| Cow::Borrowed(text.as_deref().unwrap_or_default());
        Self(Some(Fields {
            present: [true; 6],
            source_id: Cow::Borrowed(&item.source_id),
            kind: Cow::Borrowed(item.kind.label()),
            trust: Cow::Borrowed(item.trust.label()),
            redaction: Cow::Borrowed(item.redaction.label()),
            summary: optional(&item.summary),
            citation_url: Cow::Borrowed(""),
            retrieval_url: Cow::Borrowed(""),
            provenance: Cow::Borrowed(&item.provenance),
            freshness: Cow::Borrowed(item.freshness.label()),
            time: match item.retrieved_at.as_deref() {
                None | Some("") => TimeView::Absent,
                Some(text) => TimeView::Text(text),
            },
            contradicts: !item.contradicts.is_empty(),
        }))
    }

    pub fn fields(&self) -> Option<&Fields<'a>> {
        self.0.as_ref()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Error,
    Warning,
}

/// One finding about one piece of evidence. Codes and messages are fixed words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issue {
    pub level: Level,
    pub code: &'static str,
    pub message: &'static str,
    /// The piece's place in the list, from 0; none for the list itself.
    pub index: Option<usize>,
    /// The field within the piece, joined by dots; empty for the piece itself.
    pub field: &'static str,
}

impl Issue {
    /// `$.evidence_refs[0].freshness.status`
    pub fn path(&self) -> String {
        match self.index {
            None => "$.evidence_refs".to_owned(),
            Some(index) if self.field.is_empty() => format!("$.evidence_refs[{index}]"),
            Some(index) => format!("$.evidence_refs[{index}].{}", self.field),
        }
    }
}

/// The report on all evidence of an event. Lists hold ids, each once, in the order of the event.
#[derive(Clone, PartialEq, Default)]
pub struct EvidenceReport {
    pub checked: usize,
    pub used: Vec<String>,
    pub missing: Vec<String>,
    pub contradictory: Vec<String>,
    pub cited: Vec<String>,
    pub with_provenance: Vec<String>,
    pub issues: Vec<Issue>,
}

/// Source ids may hold more than they should.
impl std::fmt::Debug for EvidenceReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EvidenceReport").field("issues", &self.issues).finish_non_exhaustive()
    }
}

impl EvidenceReport {
    /// Error codes, each once, in order.
    pub fn errors(&self) -> Vec<&'static str> {
        self.codes(Level::Error)
    }

    /// Warning codes, each once, in order.
    pub fn warnings(&self) -> Vec<&'static str> {
        self.codes(Level::Warning)
    }

    fn codes(&self, level: Level) -> Vec<&'static str> {
        let mut codes = Vec::new();
        for issue in self.issues.iter().filter(|issue| issue.level == level) {
            if !codes.contains(&issue.code) {
                codes.push(issue.code);
            }
        }
        codes
    }

    /// Whether decisions on this evidence may be published.
    pub fn is_publishable(&self) -> bool {
        const PRIVATE: [&str; 9] = [
            "evidence_secret_leak",
            "evidence_pii_leak",
            "unsafe_redaction_status",
            "unknown_redaction_status",
            "missing_freshness",
            "unknown_freshness",
            "stale_evidence",
            "invalid_freshness",
            "missing_provenance",
        ];
        !self.issues.iter().any(|issue| PRIVATE.contains(&issue.code))
    }

    pub fn to_json(&self) -> Value {
        let (errors, warnings) = (self.errors(), self.warnings());
        let issues = self.issues.iter().map(|issue| {
            let level = if issue.level == Level::Error { "error" } else { "warning" };
            json!({ "level": level, "code": issue.code, "path": issue.path(), "message": issue.message })
        });
        json!({
            "evidence_safety_version": VERSION,
            "checked_ref_count": self.checked,
            "used_source_ids": self.used,
            "missing_evidence_source_ids": self.missing,
            "contradictory_evidence_source_ids": self.contradictory,
            "citation_source_ids": self.cited,
            "provenance_source_ids": self.with_provenance,
            "issues": issues.collect::<Vec<_>>(),
            "error_codes": errors,
            "warning_codes": warnings,
            "has_errors": !errors.is_empty(),
            "has_warnings": !warnings.is_empty(),
        })
    }
}

/// The report on evidence as JSON, of any shape; the gate itself sees only what its schema let through.
pub fn analyze(refs: &[Value], category: Category, now: Timestamp, age_max: SignedDuration) -> EvidenceReport {
    let views: Vec<RefView> = refs.iter().map(RefView::of_json).collect();
    report(&views, category, now, age_max)
}

pub(super) fn report(refs: &[RefView], category: Category, now: Timestamp, age_max: SignedDuration) -> EvidenceReport {
    let mut report = EvidenceReport { checked: refs.len(), ..EvidenceReport::default() };
    if category.is_consequential() && refs.is_empty() {
        report.issues.push(Issue {
            level: Level::Error,
            code: "missing_evidence_refs",
            message: "A call of this category needs evidence, and there is none.",
            index: None,
            field: "",
        });
    }
    for (index, item) in refs.iter().enumerate() {
        let mut check = Check { report: &mut report, index, guarded: category.is_guarded() };
        match item.fields() {
            None => check.error("malformed_evidence_ref", "", "A piece of evidence has to be an object."),
            Some(fields) => check.all(fields, now, age_max),
        }
    }
    report
}

struct Check<'a> {
    report: &'a mut EvidenceReport,
    index: usize,
    guarded: bool,
}

impl Check<'_> {
    fn add(&mut self, level: Level, code: &'static str, field: &'static str, message: &'static str) {
        self.report.issues.push(Issue { level, code, message, index: Some(self.index), field });
    }

    fn error(&mut self, code: &'static str, field: &'static str, message: &'static str) {
        self.add(Level::Error, code, field, message);
    }

    /// A warning that only reads of private data and writes are worth.
    fn warn_if_guarded(&mut self, code: &'static str, field: &'static str, message: &'static str) {
        if self.guarded {
            self.add(Level::Warning, code, field, message);
        }
    }

    fn all(&mut self, fields: &Fields, now: Timestamp, age_max: SignedDuration) {
        for ((name, level, code, message), present) in REQUIRED.into_iter().zip(fields.present) {
            if !present {
                self.add(level, code, name, message);
            }
        }
        if fields.source_id.is_empty() {
            self.error("missing_source_id", "source_id", "The source_id is empty.");
        } else {
            push_once(&mut self.report.used, &fields.source_id);
        }
        self.standing(fields);
        self.leaks(fields);
        self.age(fields, now, age_max);
        self.origin_and_words(fields);
    }

    fn standing(&mut self, fields: &Fields) {
        match TrustTier::parse(&fields.trust) {
            None => self.error("invalid_trust_tier", "trust_tier", "There is no such trust tier."),
            Some(TrustTier::Unknown | TrustTier::Unverified) => self.warn_if_guarded(
                "weak_trust_tier",
                "trust_tier",
                "Nobody vouches for this; a guarded call deserves verified or runtime evidence.",
            ),
            Some(_) => {}
        }
        match fields.redaction.as_ref() {
            "sensitive" | "unredacted" => {
                self.error("unsafe_redaction_status", "redaction_status", "This holds private data in the clear.");
            }
            "public" | "redacted" => {}
            _ => self.warn_if_guarded(
                "unknown_redaction_status",
                "redaction_status",
                "A guarded call deserves evidence marked public or redacted.",
            ),
        }
    }

    fn leaks(&mut self, fields: &Fields) {
        let text = [
            fields.source_id.as_ref(),
            fields.summary.as_ref(),
            fields.citation_url.as_ref(),
            fields.retrieval_url.as_ref(),
            fields.provenance.as_ref(),
        ]
        .join(" ");
        let text = Text::new(&text);
        if text.holds_secret() {
            self.error("evidence_secret_leak", "", "There seems to be a secret or an identity number in the text.");
        } else if fields.redaction != "redacted" && text.holds_personal_data() {
            self.error(
                "evidence_pii_leak",
                "",
                "There seem to be personal data in the text, which is not marked redacted.",
            );
        }
    }

    fn age(&mut self, fields: &Fields, now: Timestamp, age_max: SignedDuration) {
        let status = "freshness.status";
        match Freshness::parse(&fields.freshness) {
            None => {
                self.error("invalid_freshness", status, "freshness.status knows fresh, stale and unknown.");
            }
            Some(Freshness::Stale) => {
                self.error("stale_evidence", status, "It is marked stale.");
            }
            Some(Freshness::Unknown) => {
                self.warn_if_guarded("unknown_freshness", status, "A guarded call deserves evidence known to be fresh.")
            }
            Some(Freshness::Fresh) => {}
        }
        let taken = match fields.time {
            TimeView::Absent => {
                self.warn_if_guarded(
                    "missing_freshness_timestamp",
                    "retrieved_at",
                    "A guarded call deserves evidence that says when it was taken.",
                );
                return;
            }
            TimeView::Text(text) => time::parse(text),
            TimeView::Other => None,
        };
        match taken {
            None => self.error("invalid_retrieved_at", "retrieved_at", "The time is not written as ISO 8601 has it."),
            Some(taken) if now.duration_since(taken) > age_max => {
                self.error("stale_evidence", "retrieved_at", "It was taken too long ago.");
            }
            Some(_) => {}
        }
    }

    fn origin_and_words(&mut self, fields: &Fields) {
        let name = match fields.source_id.as_ref() {
            "" => Cow::Owned(format!("evidence_ref:{}", self.index + 1)),
            source_id => Cow::Borrowed(source_id),
        };
        let origins = [&fields.citation_url, &fields.retrieval_url, &fields.provenance];
        let summary = fields.summary.to_lowercase();
        if origins.iter().any(|origin| !origin.is_empty()) {
            push_once(&mut self.report.with_provenance, &name);
        } else {
            self.warn_if_guarded(
                "missing_provenance",
                "",
                "A guarded call deserves evidence that says where it comes from.",
            );
        }
        if MISSING.iter().any(|marker| summary.contains(marker)) {
            push_once(&mut self.report.missing, &name);
        }
        if fields.contradicts || CONTRADICTORY.iter().any(|marker| summary.contains(marker)) {
            push_once(&mut self.report.contradictory, &name);
        }
        if !fields.citation_url.is_empty() {
            push_once(&mut self.report.cited, &name);
        }
    }
}

fn push_once(list: &mut Vec<String>, item: &str) {
    if !list.iter().any(|known| known == item) {
        list.push(item.to_owned());
    }
}
