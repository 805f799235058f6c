//! What an admin can set for the scripted agent, its script above all.

use super::speech;
use crate::{config::OptionProblem, remote::checks::Checked, speech::Espeak};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};
use std::{borrow::Cow, time::Duration};

const STEPS_MAX: usize = 500;
/// Two minutes of speech; a longer line is a mistake.
pub(super) const TEXT_CHARS_MAX: usize = 2_000;
/// No step of a telephone call lasts longer.
const SPAN_MAX: Duration = Duration::from_secs(3_600);

/// Options of `kind: scripted`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// What lines sound like.
    #[serde(default)]
    #[schemars(extend("default" = "tone"))]
    pub(super) voice: VoiceKind,
    /// For `voice: espeak-ng`.
    #[serde(default)]
    pub(super) espeak: Espeak,
    /// How much faster than real time speech is delivered, as vendors do it: 1 to 10, or `burst` for
    /// all of it at once.
    #[serde(default)]
    #[schemars(extend("default" = 1))]
    pub(super) pace: Pace,
    /// Where the script goes on when the caller talks into a line.
    #[serde(default)]
    #[schemars(extend("default" = "next"))]
    pub(super) on_interrupt: OnInterrupt,
    /// When the caller counts as speaking.
    #[serde(default)]
    pub(super) detector: Detector,
    /// One step after the other, from the greeting on.
    #[schemars(length(min = 1))]
    pub(super) script: Vec<Step>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum VoiceKind {
    /// a beep as long as the text would take: needs nothing, and is easy to measure.
    #[default]
    Tone,
    /// speech by the program of this name.
    EspeakNg,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(untagged)]
pub(super) enum Pace {
    Times(#[schemars(range(min = 1, max = 10))] u32),
    Named(NamedPace),
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum NamedPace {
    Burst,
}

impl Default for Pace {
    fn default() -> Self {
        Self::Times(1)
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnInterrupt {
    /// with the step after the line.
    #[default]
    Next,
    /// with the same line again, once the caller is quiet.
    Repeat,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Detector {
    /// Louder is speech; in dB below full scale.
    #[schemars(range(min = -90.0, max = 0.0))]
    pub(super) threshold_dbfs: f32,
    /// Loud for so long begins speech.
    #[schemars(extend("default" = "60ms"))]
    pub(super) onset: Span,
    /// Quiet for so long ends it.
    #[schemars(extend("default" = "500ms"))]
    pub(super) hangover: Span,
}

impl Default for Detector {
    fn default() -> Self {
        let (onset, hangover) = (Span(Duration::from_millis(60)), Span(Duration::from_millis(500)));
        Self { threshold_dbfs: -40.0, onset, hangover }
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Step {
    /// Speak this line. As the first step it is the greeting, unless the context has its own.
    Say(String),
    /// Sound a tone instead of a line.
    Tone(Tone),
    /// Wait until the caller has spoken and stopped.
    Listen(Option<Listen>),
    /// Wait for so long, counted from when the caller has heard the last line.
    Pause(Span),
    /// Call a tool and wait for its result. Every context that uses this script has to list the tool.
    Call(Call),
    /// Speak this line, then call `hangup_call`. When the caller talks into it, it is said again.
    HangUp(String),
    /// Send the caller's own audio back.
    Echo(Span),
    /// Begin again with the first step.
    Repeat,
    /// A fault: close the session with this WebSocket close code.
    Close(u16),
    /// A fault: hear everything, answer nothing.
    Silence,
    /// A fault: stop reading.
    Stall,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Tone {
    #[schemars(range(min = 50.0, max = 3800.0))]
    pub(super) hertz: f32,
    pub(super) r#for: Span,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Listen {
    /// Go on after so long even if the caller says nothing.
    pub(super) timeout: Option<Span>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) tool: String,
    #[serde(default)]
    pub(super) arguments: Map<String, Value>,
    /// Speak the result: its `message`, or what the tool says of its failure. Results without words are not spoken.
    #[serde(default)]
    pub(super) speak: bool,
}

/// A length of time as people write it: `500ms`, `2.5s`, `1m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(unit);
        let factor = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return Err(de::Error::custom(format!("\"{text}\" is no length of time; write it like 500ms or 2s"))),
        };
        let seconds: f64 = number.parse().map_err(|_| de::Error::custom(format!("\"{number}\" is no number")))?;
        let span = Duration::try_from_secs_f64(seconds * factor).map_err(de::Error::custom)?;
        if span > SPAN_MAX {
            return Err(de::Error::custom(format!("\"{text}\" is longer than an hour")));
        }
        Ok(Self(span))
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h)$",
            "title": "a duration such as 500ms, 2.5s or 1m",
        })
    }
}

impl Step {
    /// Takes some time of the call, so that a repeated script cannot spin.
    fn lasts(&self) -> bool {
        matches!(self, Self::Say(_) | Self::Tone(_) | Self::Listen(_) | Self::Pause(_) | Self::Echo(_))
    }

    /// Nothing after it is ever reached.
    fn is_last(&self) -> bool {
        matches!(self, Self::Repeat | Self::Close(_) | Self::Silence | Self::Stall)
    }

    fn problem(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Say(text) => bad_text(text).map(|message| (".say", message)),
            Self::HangUp(text) => bad_text(text).map(|message| (".hang_up", message)),
            Self::Tone(tone) if !(50.0..=3_800.0).contains(&tone.hertz) => {
                Some((".tone.hertz", format!("{} is not within 50 and 3800", tone.hertz)))
            }
            Self::Tone(tone) if tone.r#for.0.is_zero() => Some((".tone.for", "is nothing".into())),
            Self::Pause(span) if span.0.is_zero() => Some((".pause", "is nothing".into())),
            Self::Echo(span) if span.0.is_zero() => Some((".echo", "is nothing".into())),
            Self::Call(call) if call.tool.is_empty() => Some((".call.tool", "is empty".into())),
            _ => None,
        }
    }
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if self.script.is_empty() {
            problems.push(OptionProblem::new("script", "has no steps").hint("begin with `- say: …`"));
        }
        if self.script.len() > STEPS_MAX {
            problems.push(OptionProblem::new("script", format!("has more than {STEPS_MAX} steps")));
        }
        for (index, step) in self.script.iter().enumerate() {
            if let Some((field, message)) = step.problem() {
                problems.push(OptionProblem::new(format!("script[{index}]{field}"), message));
            }
            if step.is_last() && index + 1 < self.script.len() {
                let path = format!("script[{}]", index + 1);
                problems.push(OptionProblem::new(path, "is never reached: the step before it does not go on"));
            }
            if *step == Step::Repeat && !self.script[..index].iter().any(Step::lasts) {
                let problem = OptionProblem::new(format!("script[{index}]"), "repeats steps that take no time");
                problems.push(problem.hint("add a `listen:` or a `pause:` before it"));
            }
        }
        if let Pace::Times(times) = self.pace
            && !(1..=10).contains(&times)
        {
            problems.push(OptionProblem::new("pace", format!("{times} is not within 1 and 10")).hint("or `burst`"));
        }
        if !(-90.0..=0.0).contains(&self.detector.threshold_dbfs) {
            problems.push(OptionProblem::new("detector.threshold_dbfs", "is not within -90 and 0"));
        }
        let of_espeak = |problem: OptionProblem| OptionProblem { path: format!("espeak.{}", problem.path), ..problem };
        problems.extend(self.espeak.problems().into_iter().map(of_espeak));
        if self.voice == VoiceKind::EspeakNg && !crate::speech::is_installed() {
            problems.push(speech::missing());
        }
        problems
    }
}

impl Options {
    /// Every tool that the script calls.
    pub(super) fn tools(&self) -> Vec<String> {
        let tool = |step: &Step| match step {
            Step::Call(call) => Some(call.tool.clone()),
            Step::HangUp(_) => Some("hangup_call".to_owned()),
            _ => None,
        };
        let mut tools: Vec<String> = self.script.iter().filter_map(tool).collect();
        tools.sort();
        tools.dedup();
        tools
    }

    /// Every line whose words are known before a call.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.script.iter().filter_map(|step| match step {
            Step::Say(text) | Step::HangUp(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

fn bad_text(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("is empty".into());
    }
    (text.chars().count() > TEXT_CHARS_MAX).then(|| format!("is longer than {TEXT_CHARS_MAX} characters"))
}
