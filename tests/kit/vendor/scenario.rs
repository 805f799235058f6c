//! What a vendor does in a test.

use super::{Call, Failure, Saying, hertz};
use crate::kit::audio::encoded_tone;
use offhook::audio::{Converter, Format};
use std::{net::Ipv4Addr, sync::Arc, time::Duration};
use tokio_tungstenite::tungstenite::Message;

#[derive(Debug, Clone)]
pub struct Scenario {
    /// Where it listens.
    pub host: Ipv4Addr,
    /// Of the first sessions, in their order; the others open as usual.
    pub openings: Vec<Opening>,
    /// Of all sessions that `openings` does not name.
    pub otherwise: Opening,
    /// From the wish for an answer until it begins.
    pub thinks: Duration,
    /// Length of the tone spoken as each answer.
    pub answer: Duration,
    /// Of the first answer of each session, where it is another: the greeting.
    pub greeting: Option<Duration>,
    /// Times real time at which answers are sent.
    pub pace: f64,
    /// Heard as each answer instead of a tone, at 8 kHz.
    pub words: Option<&'static [i16]>,
    /// Pieces of 100 ms that still come of an answer after it was cut short.
    pub late: usize,
    /// Pitch of the answers of a session, by its number.
    pub pitch: fn(usize) -> f64,
    /// What the vendor understands of the caller.
    pub caller_words: &'static str,
    pub agent_words: &'static str,
    /// What is said is kept.
    pub kept: bool,
    pub asides: Asides,
    /// Whether the agent ignores what it is told to say word for word.
    pub ignores_injections: bool,
    /// Longest time without the caller's audio; then the session ends.
    pub audio_within: Option<Duration>,
}

/// What becomes of what is wanted beside the conversation.
#[derive(Debug, Clone, Copy, Default)]
pub enum Asides {
    #[default]
    Answered,
    Refused,
    /// Until the test orders them ([`Order::Asides`]).
    Held,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            host: Ipv4Addr::LOCALHOST,
            openings: Vec::new(),
            otherwise: Opening::Normal,
            thinks: Duration::ZERO,
            answer: Duration::from_secs(1),
            greeting: None,
            pace: 5.0,
            words: None,
            late: 0,
            pitch: hertz,
            caller_words: "When are you open, please?",
            agent_words: "A tone.",
            kept: false,
            asides: Asides::default(),
            ignores_injections: false,
            audio_within: None,
        }
    }
}

impl Scenario {
    /// Every session opens like this.
    pub fn all(opening: Opening) -> Self {
        Self { otherwise: opening, ..Self::default() }
    }

    /// The first session opens like this, later ones as usual.
    pub fn first(opening: Opening) -> Self {
        Self { openings: vec![opening], ..Self::default() }
    }

    pub fn answers(answer: Duration) -> Self {
        Self { answer, ..Self::default() }
    }

    /// The sound of an answer of this session.
    pub(super) fn sound(&self, session: usize, response: u32, format: Format) -> Arc<[u8]> {
        match self.words {
            Some(words) => converted(words, format).into(),
            None => {
                let length = self.greeting.filter(|_| response == 1).unwrap_or(self.answer);
                encoded_tone((self.pitch)(session) as f32, length, format)
            }
        }
    }

    pub(super) fn opening(&self, session: usize) -> Opening {
        self.openings.get(session - 1).unwrap_or(&self.otherwise).clone()
    }
}

/// Sound of 8 kHz in another format.
pub fn converted(samples: &[i16], format: Format) -> Vec<u8> {
    let (bytes, mut audio): (Vec<u8>, _) = (samples.iter().flat_map(|s| s.to_le_bytes()).collect(), Vec::new());
    let mut converter = Converter::new(Format::SLIN8, format);
    converter.push(&bytes, &mut audio);
    converter.flush(&mut audio);
    audio
}

/// How a session opens.
#[derive(Debug, Clone)]
pub enum Opening {
    Normal,
    /// The connection is dropped before anything is said.
    Drop,
    /// The upgrade is refused with this HTTP status.
    Refuse(u16),
    /// The same, with this body.
    RefuseSaying(u16, &'static str),
    /// The upgrade is answered so late.
    Slow(Duration),
    /// Upgraded, and closed before the first message.
    CloseAtOnce(u16),
    /// Upgraded, and closed with this code and reason when the client has asked for its set-up.
    CloseAtSetUp(u16, &'static str),
    /// Upgraded, and this is said in place of the set-up's acknowledgement.
    FailAtSetUp(Failure),
    /// Upgraded, and this text is said in place of the set-up's acknowledgement.
    SayAtSetUp(String),
    /// Upgraded, and nothing is ever said.
    Silent,
    /// Upgraded, but the set-up is never acknowledged.
    NeverReady,
    /// The set-up is acknowledged with other formats than asked for.
    OtherFormats,
    /// Upgraded, and nothing but garbage is said.
    Garbage,
}

/// What a test wants of a session that runs.
#[derive(Debug, Clone)]
pub enum Order {
    Say(Saying),
    /// A message that is none of [`Saying`].
    Send(Message),
    /// An answer of the vendor's own.
    Speak,
    /// A response that calls these; after the one that is being spoken.
    Call(Vec<Call>),
    /// The next answer that may call something makes these calls instead of speaking.
    CallNext(Vec<Call>),
    /// These are taken back.
    TakeBack(Vec<String>),
    /// The caller has said this, found and understood by the vendor; it does not answer by itself.
    CallerSays(&'static str),
    /// No turn of the caller is found from now on, although the vendor was asked to find them.
    Deaf,
    /// No answer is begun from now on …
    Think,
    /// … until now.
    Answer,
    /// What was wanted beside the conversation so far is answered now.
    Asides,
    /// More audio of the answer that was cut short last.
    Late,
    Close(u16, &'static str),
    /// The connection breaks without a word.
    Drop,
    /// The connection stands, and nobody is there any more: nothing is read, nothing is said.
    Freeze,
    /// The same, and the net swallows whatever is sent to the vendor or by it: [`own_net`](super::super::own_net).
    Vanish,
    /// Nothing but garbage from now on, until the client goes.
    Garbage,
    /// The vendor hears everything and says nothing more.
    Mute,
}
