//! Who has the turn in the calls of a context.

use super::{problem::Path, raw::DurationText, raw_turns::Turns, resolve::Resolver, values};
use crate::call::{Backchannels, SpokenLanguages, TurnOwner, TurnRules};
use std::{sync::Arc, time::Duration};

/// Shorter than any word.
const SPEECH_MIN: Duration = Duration::from_millis(100);
/// A shorter silence is inside a sentence; after a longer one the caller believes the line is dead.
const SILENCE: std::ops::RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(5);

impl Resolver<'_> {
    pub(super) fn turns(&mut self, raw: Turns, path: &Path) -> TurnRules {
        let default = TurnRules::default();
        let speech = SPEECH_MIN..=TurnRules::MIN_SPEECH_MAX;
        let own: Vec<String> = raw.backchannels.into_iter().flatten().flatten().collect();
        for (index, phrase) in own.iter().enumerate() {
            if !Backchannels::can_match(phrase) {
                let hint = "write one to four words, as they are said";
                self.problem(&path.key("backchannels").index(index), "can never be heard", Some(hint.into()));
            }
        }
        let languages: Option<Vec<String>> = raw.languages.map(|list| list.into_iter().flatten().collect());
        let spoken = languages.clone().map_or(default.spoken, |languages| Arc::new(SpokenLanguages::new(languages)));
        let backchannels = match languages {
            Some(languages) => Arc::new(Backchannels::new(&languages, &own)),
            None if own.is_empty() => default.backchannels,
            None => Arc::new(Backchannels::new(&Backchannels::LANGUAGES, &own)),
        };
        TurnRules {
            owner: match raw.owner.as_deref() {
                Some("provider") => TurnOwner::Provider,
                _ => TurnOwner::Offhook,
            },
            min_speech: self.within(raw.min_speech, default.min_speech, &speech, &path.key("min_speech")),
            min_words: raw.min_words.unwrap_or(default.min_words),
            end_silence: self.within(raw.end_silence, default.end_silence, &SILENCE, &path.key("end_silence")),
            backchannels,
            spoken,
            interruptible: raw.interruptible.unwrap_or(default.interruptible),
            protect_greeting: raw.protect_greeting.unwrap_or(default.protect_greeting),
        }
    }

    fn within(
        &mut self,
        written: Option<DurationText>,
        default: Duration,
        range: &std::ops::RangeInclusive<Duration>,
        path: &Path,
    ) -> Duration {
        let Some(DurationText(written)) = written else { return default };
        match values::duration(&written) {
            Some(duration) if range.contains(&duration) => duration,
            _ => {
                let [least, most] = [range.start(), range.end()].map(|bound| values::duration_text(*bound));
                self.problem(path, format!("has to be from {least} to {most}"), None);
                default
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(turns: &str) -> Result<TurnRules, Vec<String>> {
        let yaml = format!(
            "providers: {{ a: {{ scripted: {{ script: [silence] }} }} }}\n\
             contexts:\n  desk: {{ prompt: A, provider: a, turns: {{ {turns} }} }}\n"
        );
        read(&yaml)
            .map(|config| config.contexts["desk"].rules.turns.clone())
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    fn read(yaml: &str) -> Result<crate::config::Config, crate::config::Problems> {
        super::super::load_str("test.yaml", yaml, &|_| None, crate::provider::catalog())
    }

    #[test]
    fn a_context_without_turns_has_those_of_all() {
        let yaml = "providers: { a: { scripted: { script: [silence] } } }\nturns: { owner: provider }\ncontexts:\n  \
                    one: { prompt: A, provider: a }\n  two: { prompt: A, provider: a, turns: { min_words: 3 } }\n";
        let config = read(yaml).unwrap();
        let owner = |name: &str| config.contexts[name].rules.turns.owner;
        assert_eq!((owner("one"), owner("two")), (TurnOwner::Provider, TurnOwner::Offhook));
    }

    #[test]
    fn a_context_says_who_has_the_turn() {
        assert_eq!(load(""), Ok(TurnRules::default()));
        let rules = load(
            "owner: provider, min_speech: 300ms, min_words: 1, end_silence: 1s, languages: [en], \
             backchannels: [Roger that], interruptible: false, protect_greeting: true",
        )
        .unwrap();
        let expected = TurnRules {
            owner: TurnOwner::Provider,
            min_speech: Duration::from_millis(300),
            min_words: 1,
            end_silence: Duration::from_secs(1),
            backchannels: Arc::new(Backchannels::new(&["en"], &["roger that"])),
            spoken: Arc::new(SpokenLanguages::new(vec!["en".into()])),
            interruptible: false,
            protect_greeting: true,
        };
        assert_eq!(rules, expected);
        assert_eq!(
            load("backchannels: [roger]").unwrap().backchannels.other_words("roger, genau"),
            0,
            "beside all lists"
        );
    }

    #[test]
    fn mistakes_are_told_with_their_place_and_what_would_be_right() {
        let told = |turns: &str| load(turns).unwrap_err().join("\n");
        assert!(
            told("min_speech: 2s").contains("turns.min_speech: has to be from 100ms to 560ms"),
            "{}",
            told("min_speech: 2s")
        );
        assert!(told("end_silence: 50ms").contains("turns.end_silence: has to be from 200ms to 5s"));
        assert!(told("owner: provder").contains("did you mean \"provider\"?"), "{}", told("owner: provder"));
        assert!(
            told("languages: [en, klingon]").contains("turns.languages[1]"),
            "{}",
            told("languages: [en, klingon]")
        );
        assert!(told("backchannels: [ok, '...']").contains("turns.backchannels[1]: can never be heard"));
        assert!(told("min_words: 0").contains("turns.min_words"));
        assert!(told("interruptable: false").contains("did you mean \"interruptible\"?"));
    }
}
