//! What a model thinks aloud, left out of what it says. Vendors keep it apart; many a server of one's own writes it into
//! the answer, between tags.

/// As the templates of such models write them.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// Reads an answer as it comes, cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    /// What ends the thought that is being written.
    end: Option<&'static str>,
    /// What may be the beginning of a tag.
    held: String,
}

impl Thoughts {
    /// What of it is said.
    pub(super) fn said(&mut self, text: &str) -> String {
        let mut said = String::new();
        for c in text.chars() {
            self.held.push(c);
            while !self.held.is_empty() && !self.may_be_tag() {
                let first = self.held.remove(0);
                if self.end.is_none() {
                    said.push(first);
                }
            }
        }
        said
    }

    /// The answer is over: what began like a tag was none.
    pub(super) fn rest(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        if self.end.is_none() { rest } else { String::new() }
    }

    /// Whether what is held begins like a tag; one that is whole is taken. The end of a thought that never began was
    /// begun by the template.
    fn may_be_tag(&mut self) -> bool {
        let (mut may_be, mut whole) = (false, None);
        let mut look = |tag: &'static str, end: Option<&'static str>| {
            may_be |= tag.starts_with(&self.held);
            if tag == self.held {
                whole = Some(end);
            }
        };
        match self.end {
            Some(end) => look(end, None),
            None => TAGS.into_iter().for_each(|(begin, end)| {
                look(begin, Some(end));
                look(end, None);
            }),
        }
        if let Some(end) = whole {
            self.end = end;
            self.held.clear();
        }
        may_be
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of `text`, however it is cut.
    fn said(text: &str) -> String {
        let by = |size: usize| {
            let mut thoughts = Thoughts::default();
            let letters: Vec<char> = text.chars().collect();
            let said: String =
                letters.chunks(size).map(|piece| thoughts.said(&piece.iter().collect::<String>())).collect();
            said + &thoughts.rest()
        };
        assert_eq!((by(1), by(3)), (by(1000), by(1000)), "{text}");
        by(1)
    }

    #[test]
    fn what_is_thought_is_not_said() {
        for (written, expected) in [
            ("<think>They greet me. 1 < 2.</think>Hello.", "Hello."),
            ("<think></think>\n\nHello.", "\n\nHello."),
            ("Well. <thinking>Which <think> is it?</thinking>It is two.", "Well. It is two."),
            ("<think>Never ending", ""),
            ("The template began it.</think>Hello.", "The template began it.Hello."),
            ("a <b> c </thin d <", "a <b> c </thin d <"),
            ("<<think>x</think>", "<"),
            ("<think>x</thi</think>y", "y"),
        ] {
            assert_eq!(said(written), expected);
        }
    }

    #[test]
    fn what_is_no_tag_is_said_at_once() {
        let mut thoughts = Thoughts::default();
        assert_eq!(thoughts.said("Hello <"), "Hello ");
        assert_eq!(thoughts.said("thi"), "");
        assert_eq!(thoughts.said("s>"), "<this>");
    }
}
