//! What a context's configuration says about its agent's use of tools.

use super::judge::Words;
use crate::{
    facts::Residency,
    gate,
    sentences::{Language, Sentence},
    tool::budget::Budgets,
};
use std::time::Duration;

/// The policy of one context, shared by its calls.
#[derive(Debug, Clone, Default)]
pub struct PolicyRules {
    pub budgets: Budgets,
    pub confirm: ConfirmRules,
    pub gate: gate::Settings,
    pub remote_gate: RemoteUse,
    /// Where that other gate is, on the operator's word. `None`: nobody said.
    pub remote_gate_residency: Option<Residency>,
    /// What becomes of a caller whose wish needs a person.
    pub on_defer: OnDefer,
    pub error_types: ErrorTypes,
    pub result: ResultShape,
    /// Bytes of an answer, where the operator wants fewer than the provider carries.
    pub result_bytes_max: Option<usize>,
    /// Whether the model is told a result's `data`; `None`: as the provider has it.
    pub forward_data: Option<bool>,
    /// The call itself waits no longer for any tool; a run has to know, or it could not put right what it began.
    pub tool_time_max: Option<Duration>,
}

/// How a caller confirms what an agent is about to do.
#[derive(Debug, Clone)]
pub struct ConfirmRules {
    pub yes_key: char,
    pub no_key: char,
    /// A spoken yes counts as well as a key.
    pub by_voice: bool,
    /// A yes given later is a yes to something forgotten.
    pub expires: Duration,
    pub words: Words,
    /// A yes counts only after the agent was heard to say what the question is about.
    pub heard: bool,
    pub asked_by: Asker,
    /// Sentence before a question that is made of names, in the context's language. The caller's yes is not compared with it.
    pub before: String,
}

/// The voice that puts a question, and how close to the written sentence a question of the agent's has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Asker {
    /// The engine. Where it cannot, or was talked over, the agent, word for word.
    #[default]
    Engine,
    /// The agent, in words of its own with the values of the sentence.
    Agent,
}

impl Default for ConfirmRules {
    fn default() -> Self {
        Self {
            yes_key: '1',
            no_key: '2',
            by_voice: true,
            expires: Duration::from_secs(300),
            words: Words::default(),
            heard: true,
            asked_by: Asker::Engine,
            before: Sentence::ShallI.text(Language::English).to_owned(),
        }
    }
}

/// The way out when the gate wants a person or better evidence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OnDefer {
    /// The agent says that it cannot do that, in its own words.
    #[default]
    Explain,
    /// The agent says this.
    Say(String),
    /// The agent offers to take a message.
    TakeMessage,
    /// The caller is transferred to this destination after the agent's words.
    Transfer(String),
}

/// Which error types the model is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorTypes {
    #[default]
    Full,
    /// Only those that the voice tool policy names: `TIMEOUT`, `DEFERRED` and `REFUSED` become
    /// `TRANSIENT` and `PERMANENT`.
    PolicyOnly,
}

/// What of an outcome goes to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultShape {
    /// All of it (P26).
    #[default]
    Envelope,
    /// `data` or `error` alone, for models that are confused by more.
    Data,
}

/// What a provider can be told of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerLimits {
    /// `None`: as much as the engine tells anybody.
    pub bytes_max: Option<usize>,
    /// The whole of `data`; else the small flags in it alone.
    pub data: bool,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self { bytes_max: None, data: true }
    }
}

impl AnswerLimits {
    /// With the operator's word: the smaller size counts, and theirs about `data`.
    pub fn under(self, rules: &PolicyRules) -> Self {
        Self {
            bytes_max: [self.bytes_max, rules.result_bytes_max].into_iter().flatten().min(),
            data: rules.forward_data.unwrap_or(self.data),
        }
    }
}

/// Whether another gate decides as well; the engine asks it before a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RemoteUse {
    #[default]
    None,
    /// The stricter answer counts.
    Beside,
    /// It decides alone.
    Alone,
}
