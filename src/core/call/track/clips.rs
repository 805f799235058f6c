//! Sentences of the engine's own that wait to be heard.

use crate::{
    audio::{FRAME, Format, rms_dbfs},
    call::clips::Spoken,
};
use bytes::{Bytes, BytesMut};
use std::{collections::VecDeque, time::Duration};

/// A notice, a greeting, an apology and a menu can wait behind each other; more is a fault of ours, and
/// the newest is left out.
const WAITING_MAX: usize = 8;
/// A filler with less than this left is heard to its end: a cut word sounds worse than a short wait.
const NEARLY_OVER: Duration = Duration::from_millis(300);
/// What is quieter is between two words, or the stop of a consonant within one.
const BETWEEN_WORDS_DBFS: f32 = -45.0;
/// Frames of it that are a pause: the stops of consonants in the built-in recordings last 60 ms at the most.
const PAUSE_FRAMES_MIN: usize = 4;
/// A pause is looked for in this time: a word is seldom longer, and the answer waits.
const WORD_MAX: Duration = Duration::from_millis(600);

/// What a sentence is for; it decides who may cut it off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Everybody has to hear it.
    Notice,
    Greeting {
        protected: bool,
    },
    /// A slow tool is announced.
    Announcement,
    /// Something is heard at all, while the caller waits.
    Filler,
    /// The wait goes on: who was asked for a moment is not forgotten.
    Patience,
    /// No agent can be had any more.
    Apology,
    /// A choice of keys.
    Menu,
    /// Whether a tool may run.
    Question,
}

impl Purpose {
    /// The labels of all of them.
    pub const LABELS: [&str; 8] =
        ["notice", "greeting", "announcement", "filler", "patience", "apology", "menu", "question"];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Greeting { .. } => "greeting",
            Self::Announcement => "announcement",
            Self::Filler => "filler",
            Self::Patience => "patience",
            Self::Apology => "apology",
            Self::Menu => "menu",
            Self::Question => "question",
        }
    }

    /// It only bridges the wait for the agent.
    const fn gives_way(self) -> bool {
        matches!(self, Self::Announcement | Self::Filler | Self::Patience)
    }

    /// What the agent said before is heard first.
    const fn comes_last(self) -> bool {
        matches!(self, Self::Apology | Self::Menu | Self::Question)
    }

    /// The caller's voice does not end it; keys choose from a menu while it is heard.
    const fn is_protected(self) -> bool {
        matches!(self, Self::Notice | Self::Greeting { protected: true } | Self::Apology | Self::Menu)
    }
}

#[derive(Debug)]
struct Waiting {
    text: String,
    purpose: Purpose,
    rest: Bytes,
    sent: usize,
    /// At its end, so many bytes that nobody hears.
    quiet_end: usize,
    /// It has given way, and ends with its word.
    ends: bool,
}

/// A sentence that was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClipHeard {
    pub text: String,
    pub purpose: Purpose,
    pub heard: Duration,
    /// What was not.
    pub left: Duration,
}

#[derive(Debug, Default)]
pub struct ClipQueue {
    waiting: VecDeque<Waiting>,
    asked: Option<String>,
    /// Of notices that were pushed, how many were not heard to their end.
    notices_owed: usize,
}

impl ClipQueue {
    pub fn push(&mut self, spoken: &Spoken, purpose: Purpose, format: Format) {
        let rest = spoken.clip.render(format);
        // One for which there is no room was not heard either.
        self.notices_owed += usize::from(purpose == Purpose::Notice && !rest.is_empty());
        if self.waiting.len() < WAITING_MAX && !rest.is_empty() {
            let quiet_end = format.quiet_end(&rest);
            let text = spoken.text.clone();
            self.waiting.push_back(Waiting { text, purpose, rest, sent: 0, quiet_end, ends: false });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What waits first is the rest of a sentence that says something.
    pub fn is_begun(&self) -> bool {
        self.waiting.front().is_some_and(|clip| clip.sent > 0 && !clip.purpose.gives_way())
    }

    /// Something that waits can be heard: silence at the end of a sentence is not speech.
    pub fn speaks_on(&self) -> bool {
        self.waiting.iter().any(Waiting::speaks_on)
    }

    pub fn queued(&self, format: Format) -> Duration {
        format.duration_of(self.waiting.iter().map(|clip| clip.rest.len()).sum())
    }

    /// What waits is not heard any more, protected or not.
    pub fn silence(&mut self) {
        self.waiting.clear();
    }

    pub fn owes_notice(&self) -> bool {
        self.notices_owed > 0
    }

    pub fn is_protected(&self) -> bool {
        self.waiting.front().is_some_and(|clip| clip.purpose.is_protected())
    }

    /// The question that was heard to its end with the last frame, once.
    pub fn asked(&mut self) -> Option<String> {
        self.asked.take()
    }

    /// Questions are answered, or nobody's any more.
    pub fn drop_questions(&mut self) {
        self.waiting.retain(|clip| clip.purpose != Purpose::Question);
    }

    /// The question that is being heard.
    pub fn question(&self, format: Format) -> Option<ClipHeard> {
        self.waiting.front().filter(|clip| clip.purpose == Purpose::Question).map(|clip| clip.so_far(format))
    }

    /// The next frame of the clip that is being heard; `agent_waits`: the agent has something to be heard.
    pub fn next(&mut self, format: Format, agent_waits: bool) -> Option<Bytes> {
        let clip =
            self.waiting.front_mut().filter(|clip| !agent_waits || clip.sent > 0 || !clip.purpose.comes_last())?;
        let size = format.frame_bytes();
        let part = clip.rest.split_to(size.min(clip.rest.len()));
        clip.sent += part.len();
        if clip.rest.is_empty()
            && let Some(over) = self.waiting.pop_front()
        {
            self.was_heard(over);
        }
        if part.len() == size {
            return Some(part);
        }
        let mut frame = BytesMut::from(&part[..]);
        frame.resize(size, format.silence());
        Some(frame.freeze())
    }

    fn was_heard(&mut self, over: Waiting) {
        match over.purpose {
            Purpose::Question => self.asked = Some(over.text),
            Purpose::Notice => self.notices_owed -= 1,
            _ => {}
        }
    }

    /// Who speaks has heard a sentence of which only silence is left.
    pub fn end_quiet(&mut self) {
        let is_quiet = self.waiting.front().is_some_and(|clip| clip.sent > 0 && !clip.speaks_on());
        if let Some(over) = is_quiet.then(|| self.waiting.pop_front()).flatten() {
            self.was_heard(over);
        }
    }

    /// The agent's answer is there. A sentence that only bridged the wait ends with the word that is being heard.
    pub fn give_way(&mut self, format: Format) {
        self.waiting.retain_mut(|clip| !clip.purpose.gives_way() || (clip.sent > 0 && clip.end_with_the_word(format)));
    }

    /// Drops what may be cut off, and tells of each how much of it was heard, if any.
    pub fn interrupt(&mut self, format: Format) -> Vec<ClipHeard> {
        let cut =
            self.waiting.iter().filter(|clip| !clip.purpose.is_protected()).map(|clip| clip.so_far(format)).collect();
        self.waiting.retain(|clip| clip.purpose.is_protected());
        cut
    }
}

impl Waiting {
    fn speaks_on(&self) -> bool {
        self.rest.len() > self.quiet_end
    }

    fn so_far(&self, format: Format) -> ClipHeard {
        ClipHeard {
            text: self.text.clone(),
            purpose: self.purpose,
            heard: format.duration_of(self.sent),
            left: format.duration_of(self.rest.len()),
        }
    }

    /// Leaves out what follows the word that is being heard; whether anything is left of it.
    fn end_with_the_word(&mut self, format: Format) -> bool {
        if !std::mem::replace(&mut self.ends, true) {
            let audible = self.rest.len().saturating_sub(self.quiet_end);
            let nearly_over = format.duration_of(audible) <= NEARLY_OVER;
            self.rest.truncate(if nearly_over { audible } else { self.word_end(format) });
            self.quiet_end = 0;
        }
        !self.rest.is_empty()
    }

    /// Bytes until the next pause, or else the next moment that is as quiet; none where there is neither, as in music.
    fn word_end(&self, format: Format) -> usize {
        let size = format.frame_bytes();
        let word_frames_max = (WORD_MAX.as_millis() / FRAME.as_millis()) as usize;
        let mut samples = Vec::new();
        let mut quiet = |frame: &[u8]| {
            samples.clear();
            format.decode(frame, &mut samples);
            rms_dbfs(&samples) < BETWEEN_WORDS_DBFS
        };
        let quiet: Vec<bool> =
            self.rest.chunks(size).take(word_frames_max + PAUSE_FRAMES_MIN).map(&mut quiet).collect();
        let pause = quiet.windows(PAUSE_FRAMES_MIN).position(|frames| frames.iter().all(|quiet| *quiet));
        size * pause.or_else(|| quiet.iter().take(word_frames_max).position(|quiet| *quiet)).unwrap_or(0)
    }
}
