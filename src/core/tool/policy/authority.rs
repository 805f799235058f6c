//! Who the caller was shown to be. Raised by evidence only, and told to the gate as evidence that
//! the engine writes itself, in fixed words: no text of a model or a caller gets into it.

use crate::gate::{AuthState, EvidenceRef, Kind, TrustTier};
use jiff::Timestamp;

#[derive(Debug, Default)]
pub struct Authority {
    proofs: Vec<Proof>,
}

/// Where a proof of identity came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The number the telephone network gave: a claim, since it can be forged.
    CallerId,
    /// Somebody has spoken, or pressed a key, on this line: what they ask for is a claim as well,
    /// also where no number was given.
    CallerTurn,
    /// A variable of a dialplan context that the operator trusts.
    Dialplan,
    /// The PIN, typed on the telephone.
    Pin,
    /// A tool whose success the operator has declared to be a proof.
    Tool,
}

#[derive(Debug, Clone, Copy)]
struct Proof {
    source: Source,
    state: AuthState,
    at: Timestamp,
}

/// An approval that is good for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// The caller said yes to these arguments.
    Caller,
    /// The operator approves of this tool, once and for all.
    Standing,
}

impl Authority {
    /// Enters a proof. Confirmed is no state of a caller: it belongs to one call.
    pub fn prove(&mut self, source: Source, state: AuthState, at: Timestamp) {
        let state = state.min(AuthState::Validated);
        // One proof of each source, the strongest.
        let weaker = |proof: &Proof| proof.source == source && proof.state <= state;
        self.proofs.retain(|proof| !weaker(proof));
        if state > AuthState::None && !self.proofs.iter().any(|proof| proof.source == source) {
            self.proofs.push(Proof { source, state, at });
        }
    }

    /// The strongest state that was proved.
    pub fn state(&self) -> AuthState {
        self.proofs.iter().map(|proof| proof.state).max().unwrap_or(AuthState::None)
    }

    /// The evidence for one call of `tool`, and the state that it supports.
    pub fn evidence(&self, tool: &str, approval: Option<Approval>, now: Timestamp) -> (AuthState, Vec<EvidenceRef>) {
        let mut refs: Vec<EvidenceRef> = self.proofs.iter().map(Proof::evidence).collect();
        if let Some(approval) = approval {
            let id = match approval {
                Approval::Caller => "caller.confirmation".to_owned(),
                Approval::Standing => format!("policy.builtin.{tool}"),
            };
            let mut proof = EvidenceRef::new(id, Kind::Approval, TrustTier::Verified);
            proof.retrieved_at = Some(now.to_string());
            refs.push(proof);
            return (AuthState::Confirmed, refs);
        }
        (self.state(), refs)
    }
}

impl Proof {
    fn evidence(&self) -> EvidenceRef {
        let (id, kind, trust) = match (self.source, self.state) {
            (Source::CallerTurn, _) => ("call.caller_turn", Kind::UserMessage, TrustTier::UserClaimed),
            (Source::CallerId, _) => ("call.caller_id", Kind::SystemState, TrustTier::UserClaimed),
            (_, AuthState::Validated) => (self.id(), Kind::ToolResult, TrustTier::Verified),
            (_, AuthState::UserClaimed) => (self.id(), Kind::SystemState, TrustTier::UserClaimed),
            _ => (self.id(), Kind::AuthEvent, TrustTier::Verified),
        };
        let mut evidence = EvidenceRef::new(id, kind, trust);
        // The contract reads `validated` off a tool's result by this word.
        evidence.summary = (self.state == AuthState::Validated).then(|| "validated".to_owned());
        evidence.retrieved_at = Some(self.at.to_string());
        evidence
    }

    const fn id(&self) -> &'static str {
        match self.source {
            Source::CallerId => "call.caller_id",
            Source::CallerTurn => "call.caller_turn",
            Source::Dialplan => "dialplan.authorization",
            Source::Pin => "call.pin",
            Source::Tool => "tool.authentication",
        }
    }
}
