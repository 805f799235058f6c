//! What the vendor's models take, as far as that is known. A model that is not known here is believed to take anything.

use super::options::{Options, Thinking, ToolBehavior};
use crate::{config::OptionProblem, remote::effort::Effort, tool::asks_the_caller};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// 2.x thinks in tokens.
    Two,
    /// 3.0 and 3.1 always wait for the answers of tools.
    Early,
    /// 3.8 does not think, and goes on talking while a tool runs unless it is told to wait.
    Plain,
    /// 3.8 with extended thinking has to think, and cannot wait.
    Thinker,
    Unknown,
}

impl Family {
    pub(super) fn of(model: &str) -> Self {
        let is = |versions: &[&str]| versions.iter().any(|version| model.starts_with(&format!("gemini-{version}")));
        match model {
            _ if is(&["3.8"]) && model.contains("extended-thinking") => Self::Thinker,
            _ if is(&["3.8"]) => Self::Plain,
            _ if is(&["3.0", "3.1", "3-"]) => Self::Early,
            _ if is(&["2.", "live-2."]) => Self::Two,
            _ => Self::Unknown,
        }
    }

    /// What is declared with each tool where the operator says nothing of it.
    const fn declares(self) -> Option<ToolBehavior> {
        match self {
            Self::Plain => Some(ToolBehavior::Blocking),
            Self::Thinker => Some(ToolBehavior::NonBlocking),
            Self::Two | Self::Early | Self::Unknown => None,
        }
    }

    /// Whether the model can be told to speak while a tool runs.
    const fn can_talk_on(self) -> bool {
        matches!(self, Self::Two | Self::Plain | Self::Thinker)
    }
}

impl Options {
    /// What is declared with a tool. A model that waits for one says nothing, so it could not ask what the caller is to type.
    pub(super) fn behavior_of(&self, tool: &str) -> Option<ToolBehavior> {
        let family = Family::of(&self.model);
        if asks_the_caller(tool) && family.can_talk_on() {
            return Some(ToolBehavior::NonBlocking);
        }
        self.tool_behavior.or(family.declares())
    }
}

/// Options that the server would refuse with this model, when a caller is there already.
pub(super) fn problems(options: &Options) -> Vec<OptionProblem> {
    let (family, model) = (Family::of(&options.model), &options.model);
    let level = "set low, medium, high or xhigh";
    let thinking = match (family, options.thinking) {
        (Family::Thinker, None) => Some((format!("is missing; {model} needs a level"), level)),
        (Family::Thinker, Some(Thinking::Level(Effort::Minimal) | Thinking::Budget(_))) => {
            Some((format!("is nothing that {model} takes"), level))
        }
        (Family::Plain, Some(_)) => {
            Some((format!("is refused by {model}"), "leave it out, or set model: gemini-3.8-live-extended-thinking"))
        }
        (Family::Early, Some(Thinking::Budget(_))) => Some((format!("is no level, which {model} takes"), level)),
        (Family::Two, Some(Thinking::Level(_))) => {
            Some((format!("is no number of tokens, which {model} takes"), "0 is none, -1 as many as the model likes"))
        }
        _ => None,
    };
    let behavior = match (family, options.tool_behavior) {
        (Family::Thinker, Some(ToolBehavior::Blocking)) => {
            Some((format!("is refused by {model}, which cannot wait"), "leave it out"))
        }
        (Family::Early, Some(ToolBehavior::NonBlocking)) => {
            Some((format!("is refused by {model}, which always waits"), "leave it out"))
        }
        _ => None,
    };
    let told = [("thinking", thinking), ("tool_behavior", behavior)].into_iter();
    told.filter_map(|(path, told)| told.map(|(what, hint)| OptionProblem::new(path, what).hint(hint))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::gemini::KIND;
    use serde_json::json;

    #[test]
    fn models_are_known_by_their_names() {
        for (model, family) in [
            ("gemini-3.8-live", Family::Plain),
            ("gemini-3.8-live-extended-thinking", Family::Thinker),
            ("gemini-3.1-flash-live-preview", Family::Early),
            ("gemini-2.5-flash-native-audio-preview-12-2025", Family::Two),
            ("gemini-live-2.5-flash-native-audio", Family::Two),
            ("of-our-own", Family::Unknown),
        ] {
            assert_eq!(Family::of(model), family, "{model}");
        }
    }

    /// A server that refuses one does so when a caller is there already.
    #[test]
    fn what_a_model_does_not_take_is_found_before_a_call() {
        let (three_eight, thinker) = ("gemini-3.8-live", "gemini-3.8-live-extended-thinking");
        let (early, two) = ("gemini-3.1-flash-live-preview", "gemini-live-2.5-flash-native-audio");
        for (model, more, mistakes) in [
            (three_eight, json!({}), &[][..]),
            (three_eight, json!({ "thinking": "low" }), &["thinking"]),
            (thinker, json!({}), &["thinking"]),
            (thinker, json!({ "thinking": "minimal", "tool_behavior": "blocking" }), &["thinking", "tool_behavior"]),
            (thinker, json!({ "thinking": "low", "tool_behavior": "non_blocking" }), &[]),
            (early, json!({ "thinking": 64, "tool_behavior": "non_blocking" }), &["thinking", "tool_behavior"]),
            (early, json!({ "thinking": "minimal" }), &[]),
            (two, json!({ "thinking": "low" }), &["thinking"]),
            (two, json!({ "thinking": -1, "tool_behavior": "non_blocking" }), &[]),
            ("a-model-of-ones-own", json!({ "thinking": "low", "tool_behavior": "blocking" }), &[]),
        ] {
            let mut options = json!({ "api_key": "k", "model": model });
            options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let found = (KIND.check)(&options);
            assert_eq!(found.iter().map(|problem| &*problem.path).collect::<Vec<_>>(), mistakes, "{options}");
        }
    }
}
