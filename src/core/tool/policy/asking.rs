//! What the gate is asked, and what its answers other than yes mean on a telephone: a question to
//! the caller, a way out, a refusal.

use super::{
    CallPolicy, Candidate, Stop, ToolCallId,
    approved::Ticket,
    authority::Approval,
    confirm::Proposal,
    rules::{Asker, OnDefer},
};
use crate::{
    gate::{AuthState, Category, Code, Decision, Event, Route},
    tool::{CallAction, Failure, ToolError, ToolSpec, VERIFY_PIN},
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Entries of a list that are read out; nobody keeps more in mind.
const LISTED_MAX: usize = 4;

/// Questions that the engine can put by itself.
#[derive(Debug, Default)]
pub struct ReadOut {
    /// Those that are rendered.
    pub lines: BTreeSet<String>,
    /// Every other one too: a voice is there that speaks them in the call.
    pub any: bool,
}

impl CallPolicy {
    /// What the gate is asked. Arguments are told by their keys alone: a value could hold a caller's
    /// words, and words can disarm a rule.
    pub(super) fn event(&self, candidate: &Candidate<'_>, approval: Option<Approval>) -> Event {
        let spec = &candidate.entry.spec;
        // Who says yes to a look into private data is not shown by it to be the one whose data it is.
        let known = self.authority.state() >= AuthState::Authenticated;
        let approval = approval.filter(|_| spec.access != Category::PrivateRead || known);
        let (state, evidence) = self.authority.evidence(&spec.name, approval, candidate.now);
        let hidden = |key: &String| (key.clone(), Value::from("[redacted]"));
        Event {
            tool_name: spec.name.clone(),
            category: spec.access,
            state,
            evidence,
            domain: spec.risk_domain,
            arguments: candidate.arguments.keys().map(hidden).collect(),
            recommended: match approval {
                Some(Approval::Caller) => Route::Accept,
                _ if spec.requires_confirmation => Route::Ask,
                _ if spec.access == Category::Unknown => Route::Defer,
                _ => Route::Accept,
            },
            request_id: None,
        }
    }

    pub fn reads_out(&mut self, read_out: ReadOut) {
        self.read_out = read_out;
    }

    /// Opens a question to the caller and tells the model how to put it, or that the engine does.
    pub(super) fn question(
        &mut self,
        spec: &ToolSpec,
        arguments: &Map<String, Value>,
        digest: [u8; 32],
        now: Timestamp,
    ) -> (Failure, Vec<CallAction>) {
        let shown = shown(spec, arguments);
        let preview = preview(spec, &shown);
        let (turn, rules) = (self.turns.number(), &self.rules.confirm);
        let by_engine =
            rules.asked_by == Asker::Engine && (self.read_out.any || self.read_out.lines.contains(&preview));
        let question = match &spec.confirm_template {
            Some(_) => preview.clone(),
            None => format!("{} {preview}", rules.before),
        };
        let (shown, sentence) = (Value::Object(shown), question.clone());
        let proposal = Proposal { tool: &spec.name, arguments: digest, shown, preview, sentence, by_engine };
        let request = self.confirmations.ask(proposal, turn, now, rules);
        let mut failure = Failure::new(ToolError::ConfirmationRequired, "This action requires user confirmation");
        let mut actions = Vec::new();
        match request {
            Some(request) => {
                let granted = self.confirmations.is_granted();
                let asked = if by_engine && !granted {
                    let asked =
                        format!("The caller is now asked by another voice: \"{question}\" Say nothing yourself.");
                    actions.push(CallAction::Ask { question });
                    format!("{asked} Wait for")
                } else {
                    format!("Say to the caller, word for word: \"{question}\" Then wait for")
                };
                let again = "call the tool again with the same arguments and the confirmationToken.";
                failure.message = match granted {
                    true => format!("This action requires user confirmation, and the caller has said yes: {again}"),
                    false => format!(
                        "This action requires user confirmation. {asked} a yes or no; pressing {} means yes and {} no. \
                         After a yes {again}",
                        rules.yes_key, rules.no_key
                    ),
                };
                failure.confirmation = Some(Box::new(request));
            }
            None => {
                failure.message = "This action requires user confirmation, and another question is open. Finish that \
                                   one first, then call this tool again."
                    .into();
            }
        }
        (failure, actions)
    }

    /// A running call in words, without what must not be said.
    pub fn told_of(&self, id: ToolCallId) -> Option<String> {
        let Ticket { entry, arguments, .. } = self.running.get(&id)?;
        let spec = &entry.spec;
        let arguments = Value::Object(shown(spec, arguments));
        Some(format!(
            "The tool {} was called with {arguments} before the connection to you was interrupted, and it is still running. \
             Do not call it again; you are told its result.",
            spec.name
        ))
    }

    /// The way out that the operator configured.
    pub(super) fn deferred(&self, spec: &ToolSpec, route: Route, blockers: &[Code]) -> Stop {
        let state = self.authority.state();
        let mut failure = Failure::new(ToolError::Deferred, "");
        // Also a tool that is declared public and that the gate takes for one about a person.
        let private = blockers.iter().any(|code| code == "private_read_not_authenticated");
        let identify = state < AuthState::Authenticated
            && (private || spec.access == Category::PrivateRead || state < spec.requires_authorization);
        failure.details =
            json!({ "route": route.label(), "needs": if identify { "authentication" } else { "review" } });
        let mut actions = Vec::new();
        let what = match identify {
            true if self.toolbox.has(VERIFY_PIN) => "The caller has to be identified first; call verify_pin.",
            true => "The caller has to be identified first.",
            false => "This needs a person.",
        };
        failure.message = match &self.rules.on_defer {
            _ if identify && self.toolbox.has(VERIFY_PIN) => what.to_owned(),
            OnDefer::Explain => format!("{what} Tell the caller that you cannot do that now."),
            OnDefer::Say(sentence) => format!("{what} Say to the caller: \"{sentence}\""),
            OnDefer::TakeMessage => format!("{what} Offer to take a message."),
            OnDefer::Transfer(destination) if !identify => {
                actions.push(CallAction::Transfer { destination: destination.clone() });
                format!("{what} The caller is connected with somebody after your words; tell them so.")
            }
            OnDefer::Transfer(_) => what.to_owned(),
        };
        (failure.into(), actions)
    }
}

pub(super) fn refusal(decision: &Decision) -> String {
    let blockers: Vec<String> = decision.hard_blockers().iter().map(ToString::to_string).collect();
    format!("This is not allowed ({}).", blockers.join(", "))
}

/// The arguments without what must not be said.
fn shown(spec: &ToolSpec, arguments: &Map<String, Value>) -> Map<String, Value> {
    let secret = |name: &String| spec.secret_args.contains(name);
    arguments
        .iter()
        .map(|(name, value)| (name.clone(), if secret(name) { "***".into() } else { value.clone() }))
        .collect()
}

/// One sentence that says what would happen, made of the arguments that would run.
fn preview(spec: &ToolSpec, shown: &Map<String, Value>) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    };
    match &spec.confirm_template {
        Some(template) => fill(template, |name| shown.get(name).map(text)),
        None => {
            let list: Vec<String> = shown.iter().map(|(name, value)| spoken(name, value)).collect();
            let action = in_words(spec.name.rsplit('.').next().unwrap_or(&spec.name));
            let mut letters = action.chars();
            let action: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
            if list.is_empty() { format!("{action}?") } else { format!("{action}: {}?", list.join(", ")) }
        }
    }
}

/// A name of a tool or an argument as it is said.
fn in_words(name: &str) -> String {
    name.split(['_', '-']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// An argument for ears: of what nobody would read out, how much there is of it.
fn spoken(name: &str, value: &Value) -> String {
    let name = in_words(name);
    match value {
        Value::String(text) => format!("{name} {text}"),
        Value::Array(items) if items.len() <= LISTED_MAX && items.iter().all(is_scalar) => {
            let items: Vec<String> =
                items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect();
            format!("{name} {}", items.join(", "))
        }
        Value::Array(items) => format!("{} {name}", items.len()),
        Value::Object(fields) => format!("{name} with {} details", fields.len()),
        scalar => format!("{name} {scalar}"),
    }
}

const fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}

/// Puts values in place of `{name}`; what is in a value stays as it is.
fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        let Some(end) = rest[start..].find('}') else { break };
        filled.push_str(&rest[..start]);
        filled.push_str(&value(&rest[start + 1..start + end]).unwrap_or_default());
        rest = &rest[start + end + 1..];
    }
    filled + rest
}
