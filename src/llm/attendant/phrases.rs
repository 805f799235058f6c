//! Phrases among the words of a caller, as surely as a recogniser that mishears some lets them be found.

/// Words that a `*` stands for at most. Where more lie between, the caller is in another thought.
const GAP_WORDS_MAX: usize = 5;
/// The last words of a turn in which phrases are looked for: two minutes of talk.
const SAID_WORDS_MAX: usize = 400;
/// Gaps of one phrase: each multiplies the work of finding it.
pub(super) const GAPS_MAX: usize = 3;
/// Below, words that only resemble each other would count, such as "Sunday" and "Monday" (0.67).
pub(super) const CONFIDENCE_FLOOR: f64 = 0.7;

/// How surely one of these phrases is among the words that were said.
pub(super) fn confidence(phrases: &[String], said: &[String]) -> f64 {
    let said = &said[said.len().saturating_sub(SAID_WORDS_MAX)..];
    let phrases = phrases.iter().map(|phrase| pattern(phrase));
    let places = |phrase: Vec<String>| (0..said.len()).map(move |at| likeness(&phrase, &said[at..]));
    phrases.flat_map(places).fold(0.0, f64::max)
}

/// Stands in a phrase for words that do not matter.
pub(super) const GAP: &str = "*";

/// Lower case, without punctuation.
pub(super) fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The words of a phrase, and its gaps.
fn pattern(phrase: &str) -> Vec<String> {
    let parts = phrase.split(GAP).map(words).collect::<Vec<_>>();
    parts.join(&GAP.to_owned())
}

/// How surely `said` begins with `phrase`: the likeness of the word that is least like the phrase's own.
fn likeness(phrase: &[String], said: &[String]) -> f64 {
    match (phrase, said) {
        ([], _) => 1.0,
        ([gap, rest @ ..], _) if gap == GAP => {
            let skips = 0..=said.len().min(GAP_WORDS_MAX);
            skips.map(|skipped| likeness(rest, &said[skipped..])).fold(0.0, f64::max)
        }
        ([_, ..], []) => 0.0,
        ([word, rest @ ..], [heard, after @ ..]) if word == heard => likeness(rest, after),
        ([word, rest @ ..], [heard, after @ ..]) => match strsim::normalized_levenshtein(word, heard) {
            // Nothing behind it makes up for that.
            unlike if unlike < CONFIDENCE_FLOOR => 0.0,
            like => like.min(likeness(rest, after)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_found_as_surely_as_the_word_that_is_least_like_its_own() {
        let sure = |phrase: &str, said: &str| (confidence(&[phrase.to_owned()], &words(said)) * 100.0).round();
        for (phrase, said, percent) in [
            ("opening hours", "the opening hours, please", 100.0),
            ("opening hours", "the opening hour", 80.0),
            ("opening hours", "opening the hours", 0.0),
            ("on sunday", "on Sundays", 86.0),
            ("on sunday", "on Monday", 0.0),
            ("when * open", "when open", 100.0),
            ("when * open", "tell me when all of you are open", 100.0),
            ("when * open", "when one two three four five six open", 0.0),
            ("leave*message", "leave him a message", 100.0),
            ("weather", "", 0.0),
        ] {
            assert_eq!(sure(phrase, said), percent, "{phrase:?} in {said:?}");
        }
    }
}
