//! What the model is to say or to know, until it can be told. A user turn is the only way to tell it,
//! and one cuts off what it is saying.

/// A call tells a handful of things; the oldest are stale when more wait.
pub(super) const NOTES_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// What it is to know when it speaks next.
    pub(super) notes: Vec<String>,
    /// It is to act upon the notes now.
    reply: bool,
    /// A newer wish to say something replaces an older one that still waits.
    say: Option<String>,
}

impl Wishes {
    pub(super) fn note(&mut self, text: String, reply: bool) {
        if self.notes.len() == NOTES_MAX {
            self.notes.remove(0);
        }
        self.notes.push(text);
        self.reply |= reply;
    }

    pub(super) fn say(&mut self, order: String) {
        self.say = Some(order);
    }

    /// The caller has begun to speak: what was to be said to a silent caller is out of date.
    pub(super) fn caller_speaks(&mut self) {
        self.say = None;
    }

    /// The parts of the user turn that makes the model speak, if it is to.
    pub(super) fn take(&mut self) -> Option<Vec<String>> {
        if !self.reply && self.say.is_none() {
            return None;
        }
        self.reply = false;
        let mut parts = std::mem::take(&mut self.notes);
        parts.extend(self.say.take());
        (!parts.is_empty()).then_some(parts)
    }
}
