//! The event of Agent Action Contract v1: what an agent proposes to do, and what supports it.

use serde_json::{Map, Value, json};
use std::fmt;

/// A closed set of words of the contract, in the contract's order.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $label:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The words themselves, in the order of [`Self::ALL`].
            pub const LABELS: &'static [&'static str] = &[$($label),+];

            /// The word on the wire.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),+ }
            }

            /// The value of a word; any other word is none of the contract's.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($label => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.label())
            }
        }
    };
}

words! {
    /// What a tool touches. Categories come from a manifest, never from a model.
    Category {
        PublicRead = "public_read",
        PrivateRead = "private_read",
        Write = "write",
        Unknown = "unknown",
    }
}

words! {
    /// The strongest verified state of authorization, weakest first.
    AuthState {
        None = "none",
        UserClaimed = "user_claimed",
        Authenticated = "authenticated",
        Validated = "validated",
        Confirmed = "confirmed",
    }
}

words! {
    /// What to do with a proposed call, from lenient to strict. Only [`Route::Accept`] executes.
    Route {
        Accept = "accept",
        Ask = "ask",
        Defer = "defer",
        Refuse = "refuse",
    }
}

words! {
    RiskDomain {
        Devops = "devops",
        Finance = "finance",
        Education = "education",
        Hr = "hr",
        Legal = "legal",
        Pharma = "pharma",
        Healthcare = "healthcare",
        Commerce = "commerce",
        CustomerSupport = "customer_support",
        Security = "security",
        Research = "research",
        PersonalProductivity = "personal_productivity",
        PublicInformation = "public_information",
        Unknown = "unknown",
    }
}

words! {
    /// What kind of thing a piece of evidence is.
    Kind {
        UserMessage = "user_message",
        AssistantMessage = "assistant_message",
        ToolResult = "tool_result",
        Policy = "policy",
        AuthEvent = "auth_event",
        Approval = "approval",
        SystemState = "system_state",
        AuditRecord = "audit_record",
        Other = "other",
    }
}

words! {
    /// Who vouches for a piece of evidence.
    TrustTier {
        Verified = "verified",
        Runtime = "runtime",
        UserClaimed = "user_claimed",
        Unverified = "unverified",
        Unknown = "unknown",
    }
}

words! {
    Redaction {
        Public = "public",
        Redacted = "redacted",
        Sensitive = "sensitive",
        Unknown = "unknown",
    }
}

words! {
    Freshness {
        Fresh = "fresh",
        Stale = "stale",
        Unknown = "unknown",
    }
}

impl Category {
    /// Whether a call of this category needs evidence at all.
    pub const fn is_consequential(self) -> bool {
        !matches!(self, Self::PublicRead)
    }

    /// Whether weak evidence is worth a warning.
    pub(super) const fn is_guarded(self) -> bool {
        matches!(self, Self::PrivateRead | Self::Write)
    }
}

impl AuthState {
    pub fn private_read_allowed(self) -> bool {
        self >= Self::Authenticated
    }

    /// Whether a write may be proposed with `accept`. It executes only when [`AuthState::Confirmed`].
    pub fn write_proposable(self) -> bool {
        self >= Self::Validated
    }
}

impl Route {
    pub fn stricter(self, other: Self) -> Self {
        self.max(other)
    }
}

/// One piece of evidence. Ids, summaries and provenance hold fixed vocabulary or redacted text only.
#[derive(Clone, PartialEq)]
pub struct EvidenceRef {
    /// Opaque; a run of ten or more digits looks like a phone number to the gate.
    pub source_id: String,
    pub kind: Kind,
    pub trust: TrustTier,
    pub redaction: Redaction,
    pub summary: Option<String>,
    /// ISO 8601.
    pub retrieved_at: Option<String>,
    pub freshness: Freshness,
    /// Where it came from, as one word: `connector`, `policy`, `runtime`, …
    pub provenance: String,
    /// Ids of claims this evidence speaks against.
    pub contradicts: Vec<String>,
}

impl EvidenceRef {
    /// Fresh, redacted evidence that the runtime itself vouches for.
    pub fn new(source_id: impl Into<String>, kind: Kind, trust: TrustTier) -> Self {
        Self {
            source_id: source_id.into(),
            kind,
            trust,
            redaction: Redaction::Redacted,
            summary: None,
            retrieved_at: None,
            freshness: Freshness::Fresh,
            provenance: "runtime".to_owned(),
            contradicts: Vec::new(),
        }
    }

    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "source_id": self.source_id,
            "kind": self.kind.label(),
            "trust_tier": self.trust.label(),
            "redaction_status": self.redaction.label(),
            "freshness": { "status": self.freshness.label() },
            "provenance": self.provenance,
        });
        if let Some(summary) = &self.summary {
            json["summary"] = json!(summary);
        }
        if let Some(retrieved_at) = &self.retrieved_at {
            json["retrieved_at"] = json!(retrieved_at);
        }
        if !self.contradicts.is_empty() {
            json["contradicts"] = json!(self.contradicts);
        }
        json
    }
}

/// Ids and summaries may be less redacted than they claim.
impl fmt::Debug for EvidenceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EvidenceRef({}, {}, {})", self.kind, self.trust, self.freshness)
    }
}

/// A proposed call, built by this program rather than parsed from somebody's JSON.
#[derive(Clone, PartialEq)]
pub struct Event {
    pub tool_name: String,
    pub category: Category,
    pub state: AuthState,
    pub evidence: Vec<EvidenceRef>,
    pub domain: RiskDomain,
    pub arguments: Map<String, Value>,
    /// What the runtime itself would do; the gate only ever makes it stricter.
    pub recommended: Route,
    pub request_id: Option<String>,
}

impl Event {
    /// The event as the contract writes it: the seven fields in their frozen order, then the optional one.
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "tool_name": self.tool_name,
            "tool_category": self.category.label(),
            "authorization_state": self.state.label(),
            "evidence_refs": self.evidence.iter().map(EvidenceRef::to_json).collect::<Vec<_>>(),
            "risk_domain": self.domain.label(),
            "proposed_arguments": self.arguments,
            "recommended_route": self.recommended.label(),
        });
        if let Some(request_id) = &self.request_id {
            json["request_id"] = json!(request_id);
        }
        json
    }
}

/// Arguments are the caller's words.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("tool_name", &self.tool_name)
            .field("category", &self.category)
            .field("state", &self.state)
            .field("evidence", &self.evidence)
            .field("domain", &self.domain)
            .field("recommended", &self.recommended)
            .finish_non_exhaustive()
    }
}
