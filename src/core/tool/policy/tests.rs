//! The policy of one call, as a specification.

mod answers;
mod authority;
mod confirmation;
mod consent;
mod path;
mod properties;
mod replay;
mod residency;

use super::*;
use crate::{
    facts::CallFacts,
    gate::{Category, RiskDomain},
    tool::{Registry, Tool, ToolOutcome, budget::Budgets},
};
use futures_util::{FutureExt as _, future::BoxFuture};

/// A tool that is never run here: the policy does not know what a tool does.
struct Idle(ToolSpec);

impl Tool for Idle {
    fn spec(&self) -> ToolSpec {
        self.0.clone()
    }

    fn run(&self, _: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        std::future::ready(ToolOutcome::done("", Value::Null)).boxed()
    }
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Looks up what everybody may know.
fn hours() -> ToolSpec {
    ToolSpec {
        kind: ToolKind::Retrieval,
        access: Category::PublicRead,
        idempotent: true,
        ..ToolSpec::new(
            "hours",
            "Opening hours. Of all shops.",
            object(
                json!({ "query": { "type": "string" }, "top_k": { "type": "integer", "maximum": 10, "default": 5 } }),
                &["query"],
            ),
        )
    }
}

/// Looks up what is the caller's own.
fn balance() -> ToolSpec {
    ToolSpec {
        kind: ToolKind::Retrieval,
        access: Category::PrivateRead,
        ..ToolSpec::new("balance", "The caller's balance.", object(json!({}), &[]))
    }
}

/// Changes something, so the caller is asked first.
fn book() -> ToolSpec {
    ToolSpec {
        kind: ToolKind::Action,
        access: Category::Write,
        side_effects: crate::tool::SideEffects::Writes,
        risk_domain: RiskDomain::CustomerSupport,
        confirm_template: Some("Book a table on {day} for {people} people?".into()),
        ..ToolSpec::new(
            "book",
            "Books a table.",
            object(json!({ "day": { "type": "string" }, "people": { "type": "integer" } }), &["day", "people"]),
        )
    }
}

fn on_call(name: &str) -> ToolSpec {
    ToolSpec::on_the_call(name, "Acts on the call.", object(json!({}), &[]))
}

/// A call with the clock in the test's hand.
struct Desk {
    policy: CallPolicy,
    now: Instant,
}

impl Desk {
    fn new(specs: impl IntoIterator<Item = ToolSpec>) -> Self {
        let opening = Opening { session: "session-1".into(), caller_known: true, ..Opening::default() };
        Self::with(specs, PolicyRules::default(), opening)
    }

    fn with(specs: impl IntoIterator<Item = ToolSpec>, rules: PolicyRules, opening: Opening) -> Self {
        #[allow(clippy::disallowed_methods)] // A hand-moved clock has to start somewhere.
        let now = Instant::now();
        let began = (now, Timestamp::from_second(1_700_000_000).unwrap());
        Self { policy: CallPolicy::new(toolbox(specs), Arc::new(rules), opening, began), now }
    }

    /// Its agent may make any number of calls in a turn.
    fn without_budget(&mut self) {
        self.policy.spending = Spending::new(Budgets { retrieval: 99, total: 99 });
    }

    fn after(&mut self, ms: u64) -> &mut Self {
        self.now += Duration::from_millis(ms);
        self
    }

    /// The caller says this, and it is transcribed.
    fn caller(&mut self, words: &str) -> Option<Verdict> {
        self.policy.caller_spoke(None, self.now);
        self.policy.caller_stopped(self.now);
        self.policy.caller_said(None, words, self.now)
    }

    fn admit(&mut self, id: &str, name: &str, arguments: &str) -> (ToolCallId, Admission) {
        let own = ToolCallId::random();
        let call = ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() };
        (own, self.policy.admit(own, &call, self.now))
    }

    fn runs(&mut self, id: &str, name: &str, arguments: &str) -> Approved {
        match self.admit(id, name, arguments).1 {
            Admission::Run { call, dispatched: None } => *call,
            other => panic!("it does not run: {other:?}"),
        }
    }

    fn answered(&mut self, id: &str, name: &str, arguments: &str) -> Answer {
        match self.admit(id, name, arguments).1 {
            Admission::Answered(answer) => *answer,
            other => panic!("it is not answered: {other:?}"),
        }
    }

    /// The error type of a call that does not run.
    fn refused(&mut self, id: &str, name: &str, arguments: &str) -> ToolError {
        let answer = self.answered(id, name, arguments);
        let error = answer.error.expect("an error");
        assert_eq!(envelope(&answer)["error"]["type"], error.label());
        assert_eq!(answer.audit.error_type, Some(error.label()));
        assert_eq!((answer.audit.ok, answer.audit.duration), (false, 0));
        error
    }

    /// Runs to this outcome after some milliseconds.
    fn runs_to(&mut self, id: &str, name: &str, arguments: &str, ms: u64, outcome: ToolOutcome) -> Settled {
        let call = self.runs(id, name, arguments);
        self.after(ms);
        self.policy.settle(call.id(), outcome, self.now).expect("it was running")
    }

    /// The `confirmation_request` of a call that is asked about.
    fn asked(&mut self, id: &str, name: &str, arguments: &str) -> Value {
        let answer = self.answered(id, name, arguments);
        assert_eq!(answer.error, Some(ToolError::ConfirmationRequired), "{}", answer.output);
        envelope(&answer)["error"]["confirmation_request"].clone()
    }
}

fn toolbox(specs: impl IntoIterator<Item = ToolSpec>) -> Arc<Toolbox> {
    let tools = specs.into_iter().map(|spec| Arc::new(Idle(spec)) as Arc<dyn Tool>);
    Arc::new(Toolbox::new(tools).unwrap())
}

fn envelope(answer: &Answer) -> Value {
    serde_json::from_str(&answer.output).unwrap()
}

fn token(request: &Value) -> String {
    request["token"].as_str().expect("a token").to_owned()
}

const TABLE: &str = r#"{"day":"Friday","people":4}"#;

/// The same arguments with a token.
fn table(token: &str) -> String {
    format!(r#"{{"day":"Friday","people":4,"confirmationToken":"{token}"}}"#)
}
