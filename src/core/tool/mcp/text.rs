//! Text of a server on one line, without what nobody sees.

/// Invisible, and part of how some scripts are written and spoken; in a description they can only hide something.
const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];

/// Turns the direction of writing, has no width, or tags other letters: a person who reads the text does not see what a
/// model reads.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// What a model is told: nothing invisible, at most `chars_max` characters, the last one `…` when there were more.
pub(super) fn for_model(text: &str, chars_max: usize) -> String {
    let mut line = one_line(text, chars_max, |letter| is_unseen(letter) || JOINERS.contains(&letter));
    if let Some((last, _)) = line.char_indices().nth(chars_max) {
        let keep = line[..last].char_indices().last().map_or(0, |(at, _)| at);
        line.truncate(keep);
        line.truncate(line.trim_end().len());
        line.push('…');
    }
    line
}

/// What is said: at most `chars_max` characters, ended where a sentence or at least a word ends.
pub(super) fn for_speech(text: &str, chars_max: usize) -> String {
    cut(one_line(text, chars_max, is_unseen), chars_max)
}

/// Blanks and breaks of any number are one blank. One character more than the limit is kept, to show that there is more.
fn one_line(text: &str, chars_max: usize, drop: impl Fn(char) -> bool) -> String {
    let (mut line, mut length, mut gap) = (String::new(), 0, false);
    for letter in text.chars() {
        if length > chars_max {
            break;
        }
        if letter.is_whitespace() {
            gap = length > 0;
        } else if !drop(letter) {
            if gap {
                line.push(' ');
                length += 1;
            }
            line.push(letter);
            length += 1;
            gap = false;
        }
    }
    line
}

fn cut(mut line: String, chars_max: usize) -> String {
    let Some((end, _)) = line.char_indices().nth(chars_max) else { return line };
    let ends_sentence = |(at, letter): &(usize, char)| {
        let next = line[at + letter.len_utf8()..].chars().next();
        matches!(letter, '.' | '!' | '?' | '…' | '؟' | '।') && next.is_none_or(char::is_whitespace)
            || matches!(letter, '。' | '！' | '？')
    };
    // A cut in the first half would lose more than it is worth.
    let far = |at: &usize| *at >= end / 2;
    let sentence = line[..end].char_indices().rfind(ends_sentence).map(|(at, last)| at + last.len_utf8());
    let word = if line[end..].starts_with(' ') { Some(end) } else { line[..end].rfind(' ') };
    let keep = sentence.filter(far).or(word.filter(far)).unwrap_or(end);
    line.truncate(keep);
    line
}
