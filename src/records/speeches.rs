//! When what is said began to be said: words come when a speech is over, or before it is heard.

use crate::call::{Note, Speaker};
use std::time::Duration;

/// Of one call, both sides.
#[derive(Default)]
pub struct Speeches {
    agent: Speech,
    agent_speaks: bool,
    caller: Speech,
}

#[derive(Default, Clone, Copy)]
enum Speech {
    /// Nothing that words could belong to.
    #[default]
    None,
    /// It began then, and its words have not come.
    Begun(Duration),
    /// Words have come late, at this time; what is said next in one breath began there.
    Told(Duration),
    /// Its words came before it was heard.
    Early,
}

impl Speeches {
    /// When that which is noted at this time began: words with their speech, as far as it is known; anything else now.
    pub fn began(&mut self, at: Duration, note: &Note) -> Duration {
        match note {
            Note::AgentSpeaks => {
                self.agent_speaks = true;
                // Words that follow in one breath, an answer's behind a filler's, come when they are over.
                self.agent = if let Speech::Early = self.agent { Speech::Told(at) } else { Speech::Begun(at) };
            }
            Note::AgentFinished | Note::BargeIn { .. } => {
                self.agent_speaks = false;
                // Words of one that was cut off come after that.
                if let (Note::AgentFinished, Speech::Told(_)) = (note, self.agent) {
                    self.agent = Speech::None;
                }
            }
            Note::CallerSpeaks => self.caller = Speech::Begun(at),
            // What comes from here on belongs to the next answer.
            Note::CallerFinished if !self.agent_speaks => self.agent = Speech::None,
            Note::Said { speaker: Speaker::Agent, .. } => return self.agent.told(at),
            Note::Said { speaker: Speaker::Caller, .. } => return self.caller.told(at),
            _ => {}
        }
        at
    }
}

impl Speech {
    fn told(&mut self, at: Duration) -> Duration {
        let (began, next) = match *self {
            Self::Begun(began) | Self::Told(began) => (began, Self::Told(at)),
            Self::None | Self::Early => (at, Self::Early),
        };
        *self = next;
        began
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(speaker: Speaker) -> Note {
        Note::Said { speaker, text: String::new().into() }
    }

    /// When each of these words began, in seconds.
    fn began(notes: Vec<(u64, Note)>) -> Vec<u64> {
        let mut speeches = Speeches::default();
        let mut words = Vec::new();
        for (at, note) in notes {
            let began = speeches.began(Duration::from_secs(at), &note).as_secs();
            match note {
                Note::Said { .. } => words.push(began),
                _ => assert_eq!(began, at, "only words come late"),
            }
        }
        words
    }

    #[test]
    fn words_that_come_late_began_with_their_speech_and_the_next_in_one_breath_where_they_ended() {
        let heard = Duration::from_secs(1);
        let agent = || said(Speaker::Agent);
        assert_eq!(
            began(vec![
                (1, Note::AgentSpeaks),
                (4, agent()),
                (6, agent()),
                (7, Note::AgentFinished),
                (8, Note::CallerSpeaks),
                (9, Note::CallerFinished),
                (10, said(Speaker::Caller)),
                (11, Note::AgentSpeaks),
                (12, Note::CallerSpeaks),
                (12, Note::BargeIn { heard }),
                (13, agent()),
                (14, Note::CallerFinished),
                (15, said(Speaker::Caller)),
            ]),
            [1, 4, 8, 11, 12]
        );
    }

    #[test]
    fn words_that_come_before_their_speech_is_heard_begin_when_they_come() {
        let turn = |at| {
            vec![
                (at, Note::CallerFinished),
                (at + 1, said(Speaker::Agent)),
                (at + 2, Note::AgentSpeaks),
                (at + 5, Note::AgentFinished),
            ]
        };
        assert_eq!(began([turn(0), turn(10)].concat()), [1, 11]);
    }

    #[test]
    fn an_answer_that_follows_a_filler_in_one_breath_does_not_begin_when_its_words_come() {
        let notes = vec![
            (1, said(Speaker::Agent)),
            (2, Note::AgentSpeaks),
            (9, said(Speaker::Agent)),
            (12, Note::AgentFinished),
            (13, Note::CallerSpeaks),
            (14, Note::CallerFinished),
            (15, said(Speaker::Agent)),
        ];
        assert_eq!(began(notes), [1, 2, 15]);
    }

    /// A sound of the caller's while the agent speaks is none that its words would wait for.
    #[test]
    fn an_answer_of_which_no_words_came_lends_its_beginning_to_no_other() {
        let notes = vec![
            (1, Note::AgentSpeaks),
            (2, Note::CallerSpeaks),
            (3, Note::CallerFinished),
            (4, said(Speaker::Agent)),
            (5, Note::AgentFinished),
            (6, Note::AgentSpeaks),
            (7, Note::AgentFinished),
            (8, Note::CallerSpeaks),
            (9, Note::CallerFinished),
            (10, said(Speaker::Agent)),
        ];
        assert_eq!(began(notes), [1, 10]);
    }
}
