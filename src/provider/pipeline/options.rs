//! What an admin can set for a pipeline.

use crate::{
    config::{Named, OptionProblem},
    remote::checks::Checked,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Less than a few turns are no conversation; more than a large model takes is a mistake.
const CONTEXT_CHARS: std::ops::RangeInclusive<usize> = 2_000..=2_000_000;
/// A caller who waits for the fourth has hung up.
const FALL_BACKS_MAX: usize = 4;

/// Options of `kind: pipeline`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// Who writes down what callers say: the name of an entry of `stt`, or several in the order in which they stand in for
    /// each other.
    pub(super) stt: Names,
    /// Who answers: entries of `llm`.
    pub(super) llm: Names,
    /// Who speaks: entries of `voices`.
    pub(super) tts: Names,
    /// Who finds the end of the caller's turn.
    #[serde(default)]
    #[schemars(extend("default" = "local"))]
    pub(super) turn: TurnEnd,
    /// How much of a conversation the model is shown beside the prompt, in characters; four are about one token. What
    /// was said before that is summed up, or with `summaries: false` not shown any more.
    #[serde(default = "context_chars")]
    #[schemars(range(min = 2_000, max = 2_000_000))]
    pub(super) context_chars: usize,
    /// In a long call the model is asked now and then to sum up what was said, aside: for itself what is beyond
    /// `context_chars`, and all of it for the agent that may have to take the call over. `false`, for a server that answers one
    /// question at a time and would let callers wait behind it: nothing is ever summed up. The model then forgets what is
    /// beyond `context_chars`, which is counted, and another agent is told the end of the call as it was said.
    #[serde(default = "yes")]
    pub(super) summaries: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TurnEnd {
    /// the silence that offhook hears, sooner or later as words, punctuation, the caller's pace and signs of the listener
    /// suggest.
    #[default]
    Local,
    /// the listener says when, such as Flux; silence alone ends a turn after twice `turns.end_silence` only. Each listener of
    /// `stt` has to be one that does.
    Listener,
}

/// One name or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Names {
    One(String),
    Several(Vec<String>),
}

/// Half an hour of conversation, in a part of the context that all current models have.
const fn context_chars() -> usize {
    24_000
}

const fn yes() -> bool {
    true
}

impl Names {
    pub(super) fn all(&self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name.clone()],
            Self::Several(names) => names.clone(),
        }
    }
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        for (path, names) in [("stt", &self.stt), ("llm", &self.llm), ("tts", &self.tts)] {
            let names = names.all();
            if names.is_empty() || names.len() > FALL_BACKS_MAX {
                problems.push(OptionProblem::new(path, format!("has to name 1 to {FALL_BACKS_MAX} entries")));
            }
            if let Some(twice) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
                problems.push(OptionProblem::new(
                    format!("{path}[{}]", twice.0),
                    format!("\"{}\" is there twice", twice.1),
                ));
            }
        }
        if !CONTEXT_CHARS.contains(&self.context_chars) {
            let (min, max) = (CONTEXT_CHARS.start(), CONTEXT_CHARS.end());
            problems.push(OptionProblem::new("context_chars", format!("is not within {min} and {max}")));
        }
        problems
    }
}

/// What the options name of other sections; nothing where they are wrong anyway.
pub(super) fn names(options: &Value) -> Vec<Named> {
    let Ok(Options { stt, llm, tts, .. }) = Options::deserialize(options) else { return Vec::new() };
    let of = |path: &'static str, section: &'static str, names: &Names| match names {
        Names::One(name) => vec![Named { path: path.into(), section, name: name.clone() }],
        Names::Several(names) => {
            let named = |(index, name): (usize, &String)| Named {
                path: format!("{path}[{index}]"),
                section,
                name: name.clone(),
            };
            names.iter().enumerate().map(named).collect()
        }
    };
    [of("stt", "stt", &stt), of("llm", "llm", &llm), of("tts", "voices", &tts)].concat()
}
