//! Markdown of an answer, taken away before a voice is sent it and before a record tells it.

use super::{formulas, markup::is_stage_direction, pattern};
use regex::Regex;
use std::sync::LazyLock;

/// Pictures and arrows have no sound, nor has what joins or colours them.
pub fn is_spoken(c: char) -> bool {
    !matches!(c,
        '\u{fe0f}' | '\u{200d}' | '\u{20e3}' | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{25a0}'..='\u{27bf}'
        | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' | '\u{e0020}'..='\u{e007f}')
        && (c == '\n' || !c.is_control())
}

/// Without the marks of written text. Those that stand for themselves ("press # or *", "-5", "john_smith") are spoken.
pub fn speakable(clause: &str) -> String {
    let text = formulas::plain(linked(clause).into());
    let mut rest = text.trim();
    while let Some((mark, after)) = rest.split_once(' ')
        && !mark.is_empty()
        && mark.chars().all(|c| matches!(c, '-' | '*' | '•' | '>' | '#'))
    {
        rest = after.trim_start();
    }
    let text = cells(rest);
    let letters: Vec<char> = text.chars().collect();
    let at = |index: Option<usize>| index.and_then(|index| letters.get(index)).copied().unwrap_or(' ');
    let is_mark = |index: usize| {
        let (before, after) = (at(index.checked_sub(1)), at(Some(index + 1)));
        match letters[index] {
            '`' => true,
            // Alone between spaces it is the key of a telephone.
            '*' => !(before.is_whitespace() && (after.is_whitespace() || matches!(after, '.' | ',' | '?' | '!'))),
            '_' => !(before.is_alphanumeric() && after.is_alphanumeric()),
            '~' => before == '~' || after == '~',
            _ => false,
        }
    };
    (0..letters.len()).filter(|&index| !is_mark(index)).map(|index| letters[index]).collect()
}

/// A link is its words, and a picture and what tells how something is said are nothing.
fn linked(text: &str) -> String {
    static PICTURE: LazyLock<Regex> = LazyLock::new(|| pattern(r"!\[[^\]]*\]\([^)]*\)"));
    static LINK: LazyLock<Regex> = LazyLock::new(|| pattern(r"\[([^\]]+)\]\([^)]*\)"));
    static DIRECTION: LazyLock<Regex> = LazyLock::new(|| pattern(r"(\*+)([^*]{1,40})\*+"));
    let text = PICTURE.replace_all(text, "");
    let text = LINK.replace_all(&text, "$1");
    // What is bold is no direction.
    let direction = |found: &regex::Captures<'_>| match &found[1] {
        "*" if is_stage_direction(&found[2]) => String::new(),
        _ => found[0].to_owned(),
    };
    DIRECTION.replace_all(&text, direction).into_owned()
}

/// The cells of a row of a table, one after the other.
fn cells(text: &str) -> String {
    let row = text.strip_prefix('|').unwrap_or(text);
    if row.len() == text.len() && !text.contains(" | ") {
        return text.into();
    }
    let cells = row.split('|').map(str::trim).filter(|cell| cell.contains(char::is_alphanumeric));
    cells.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(written: &str) -> String {
        speakable(&written.chars().filter(|&c| is_spoken(c)).collect::<String>())
    }

    #[test]
    fn a_link_is_its_words_and_a_picture_is_nothing() {
        assert_eq!(said("See [our page](https://example.com/a_b?c=1) for ![x](y.png)more."), "See our page for more.");
        assert_eq!(said("[Ticket] (5) is open."), "[Ticket] (5) is open.");
    }

    #[test]
    fn the_cells_of_a_table_are_said_one_after_the_other() {
        assert_eq!(said("| Monday | 9 to 5 |"), "Monday, 9 to 5");
        assert_eq!(said("Monday | 9 to 5"), "Monday, 9 to 5");
        assert_eq!(said("|---|:--:|"), "");
        assert_eq!(said("either|or"), "either|or");
    }

    #[test]
    fn marks_pictures_and_directions_between_stars_are_not_said() {
        assert_eq!(said("**Sure** `now` ~~old~~ ⭐⏰▶⬇→1️⃣"), "Sure now old 1");
        assert_eq!(said("*laughs softly*Well, *really*."), "Well, really.");
        assert_eq!(said("**Pause** at **Smile Dental**"), "Pause at Smile Dental");
        for text in ["Press # or *.", "-5 degrees outside.", "john_smith@example.com", "~5 minutes", "5 < 6"] {
            assert_eq!(said(text), text);
        }
    }
}
