//! A SIP phone for each caller: a real one, or an emulated one where the scene runs in virtual time. A scene is written against this
//! alone.
//!
//! What it hears is written by the phone's own clock from the moment the call is established: where no
//! packet arrives the recording has silence, so times in it are times of the call. `phone/baresip.rs` tells by how much a real
//! phone's times are off.

mod baresip;

use super::{
    audio::Sound,
    exchange::ExchangePhone,
    world::{self, World},
};
use baresip::Baresip;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A tone that goes on after a hole can grow by so much at once, and on a wideband phone twice as fast as time passes.
const HOLE_FILLED: Duration = Duration::from_millis(200);

/// What a phone for wideband speaks, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wide {
    G722,
    Opus,
}

/// What the phone has reported so far.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Ringing before the answer.
    pub ringing: bool,
    pub established: Option<Instant>,
    /// Why the call ended, in the phone's words; empty after an ordinary hang-up.
    pub ended: Option<(Instant, String)>,
    /// Who calls this phone: name and address as they are shown.
    pub peer: (String, String),
    /// Keys that were pressed at the far end.
    pub keys: String,
    /// The answers to commands: accepted or not, and what was said.
    answers: u64,
    last_answer: (bool, String),
}

/// Boxed, as scenes hold several across their waits.
pub enum Phone {
    Real(Box<Baresip>),
    Emulated(Box<ExchangePhone>),
}

use Phone::{Emulated, Real};

impl Phone {
    /// Calls `extension` at an Asterisk and says this, beginning when the call is answered. Does not wait
    /// for an answer.
    pub async fn call(asterisk_sip_port: u16, extension: &str, says: Sound) -> Self {
        Self::call_as(asterisk_sip_port, extension, says, "Alice Example", "2025550100").await
    }

    /// The same, from a caller of this name and number.
    pub async fn call_as(asterisk_sip_port: u16, extension: &str, says: Sound, name: &str, number: &str) -> Self {
        match world::current() {
            World::Real => Real(Box::new(Baresip::call_as(asterisk_sip_port, extension, says, name, number).await)),
            World::Emulated => {
                Emulated(Box::new(ExchangePhone::call_as(asterisk_sip_port, extension, says, name, number).await))
            }
        }
    }

    /// The same, from a phone that speaks one wideband codec alone. All of its sounds, those it says and those it has heard,
    /// are twice as slow and half as high as on the line.
    pub async fn call_wide(asterisk_sip_port: u16, extension: &str, says: Sound, codec: Wide) -> Self {
        match world::current() {
            World::Real => Real(Box::new(Baresip::call_wide(asterisk_sip_port, extension, says, codec).await)),
            World::Emulated => {
                Emulated(Box::new(ExchangePhone::call_wide(asterisk_sip_port, extension, says, codec).await))
            }
        }
    }

    /// The same, from an account of that Asterisk's, by its name and password.
    pub async fn call_by(asterisk_sip_port: u16, extension: &str, says: Sound, account: (&str, &str)) -> Self {
        match world::current() {
            World::Real => Real(Box::new(Baresip::call_by(asterisk_sip_port, extension, says, account).await)),
            World::Emulated => {
                Emulated(Box::new(ExchangePhone::call_by(asterisk_sip_port, extension, says, account).await))
            }
        }
    }

    /// Waits for a call at `sip:phone@127.0.0.1:{Self::port}`, answers it at once, and says this.
    pub async fn listen(says: Sound) -> Self {
        match world::current() {
            World::Real => Real(Box::new(Baresip::listen(says).await)),
            World::Emulated => Emulated(Box::new(ExchangePhone::listen(says).await)),
        }
    }

    /// Waits for a call and lets it ring.
    pub async fn listen_without_answering() -> Self {
        match world::current() {
            World::Real => Real(Box::new(Baresip::listen_without_answering().await)),
            World::Emulated => Emulated(Box::new(ExchangePhone::listen_without_answering().await)),
        }
    }

    /// Where this phone can be called. In the lab's dialplan, dial 8 and this port.
    pub fn port(&self) -> u16 {
        match self {
            Real(phone) => phone.port(),
            Emulated(phone) => phone.port(),
        }
    }

    pub fn seen(&self) -> Seen {
        match self {
            Real(phone) => phone.seen(),
            Emulated(phone) => phone.seen(),
        }
    }

    pub async fn wait_ringing(&mut self, within: Duration) {
        self.wait("ring", within, |seen| seen.ringing).await;
    }

    /// Waits until the call is answered; time zero of [`Self::heard`].
    pub async fn wait_established(&mut self, within: Duration) -> Instant {
        self.wait("be answered", within, |seen| seen.established.is_some()).await.established.expect("waited for")
    }

    /// Waits until these keys have been pressed at the far end, in this order.
    pub async fn wait_keys(&mut self, keys: &str, within: Duration) {
        self.wait("be told the keys", within, |seen| seen.keys.ends_with(keys)).await;
    }

    /// Waits until the call has ended, from whichever side, and returns why in the phone's words.
    pub async fn wait_ended(&mut self, within: Duration) -> String {
        self.wait("end", within, |seen| seen.ended.is_some()).await.ended.expect("waited for").1
    }

    /// Presses a key: an RFC 4733 event in the call.
    pub async fn dtmf(&mut self, key: char) {
        match self {
            Real(phone) => phone.dtmf(key).await,
            Emulated(phone) => phone.dtmf(key).await,
        }
    }

    /// Says this from now on, instead of what was left of the earlier words.
    pub async fn say(&mut self, words: Sound) {
        match self {
            Real(phone) => phone.say(words).await,
            Emulated(phone) => phone.say(words).await,
        }
    }

    /// Puts the call on hold; what is heard begins anew. A real phone may crash when it is told that it holds the call, so that
    /// its answer is not waited for, and it is good for nothing afterwards.
    pub async fn hold(&mut self) {
        match self {
            Real(phone) => phone.hold().await,
            Emulated(phone) => phone.hold().await,
        }
    }

    /// Takes the call off hold; what is heard begins anew. For the emulated phone alone: see [`Self::hold`].
    pub async fn resume(&mut self) {
        match self {
            Real(_) => panic!("a real phone is good for nothing after a hold"),
            Emulated(phone) => phone.resume().await,
        }
    }

    /// Answers what rings here.
    pub async fn answer(&mut self) {
        match self {
            Real(phone) => phone.answer().await,
            Emulated(phone) => phone.answer().await,
        }
    }

    /// Transfers the call blindly to an extension of that Asterisk: the phone hangs up when Asterisk has accepted that.
    pub async fn transfer(&mut self, asterisk_sip_port: u16, extension: &str) {
        match self {
            Real(phone) => phone.transfer(asterisk_sip_port, extension).await,
            Emulated(phone) => phone.transfer(extension).await,
        }
    }

    /// Transfers the one in this phone's call to those in the other one's, as a phone with two calls does (attended). For emulated
    /// phones alone: a real one of the lab has one call.
    pub async fn transfer_to(&mut self, other: &mut Self) {
        match (self, other) {
            (Emulated(phone), Emulated(other)) => phone.transfer_to(other).await,
            _ => panic!("a real phone has one call"),
        }
    }

    /// Hangs up, and waits until that is done.
    pub async fn hang_up(&mut self) {
        match self {
            Real(phone) => phone.hang_up().await,
            Emulated(phone) => phone.hang_up().await,
        }
        self.wait_ended(ANSWER_WITHIN).await;
    }

    /// Gone without a word, as when a caller's network is lost.
    pub async fn vanish(&mut self) {
        match self {
            Real(phone) => phone.vanish().await,
            Emulated(phone) => phone.vanish().await,
        }
    }

    /// What has been heard since the call was answered. While the call lasts, up to 210 ms ago.
    pub fn heard(&self) -> Sound {
        match self {
            Real(phone) => phone.heard(),
            Emulated(phone) => phone.heard(),
        }
    }

    /// Waits until this tone has been heard for `length` in all.
    pub async fn wait_to_hear(&self, hz: f64, length: Duration, within: Duration) {
        self.wait_to_hear_of("the caller", hz, length, within).await;
    }

    /// The same of one call of several, which has this name.
    pub async fn wait_to_hear_of(&self, call: &str, hz: f64, length: Duration, within: Duration) {
        let until = Instant::now() + within;
        loop {
            let heard = self.heard();
            let so_far = heard.time_of(hz);
            if so_far >= length {
                return;
            }
            assert!(
                Instant::now() < until,
                "{call}: {length:?} of {hz} Hz not heard within {within:?}; heard {:?} in all, of that loud: {:?}",
                heard.length(),
                heard.loud_spans(),
            );
            let pause = match self {
                Real(_) => LOOK_EVERY,
                // The rest cannot have been heard before: a look at all that was heard is work.
                Emulated(_) => LOOK_EVERY.max((length - so_far).saturating_sub(HOLE_FILLED) / 2),
            };
            sleep(pause.min(until.saturating_duration_since(Instant::now()).max(LOOK_EVERY))).await;
        }
    }

    async fn wait(&mut self, what: &str, within: Duration, is_so: impl Fn(&Seen) -> bool) -> Seen {
        match self {
            Real(phone) => phone.wait(what, within, is_so).await,
            Emulated(phone) => {
                let until = Instant::now() + within;
                while !is_so(&phone.seen()) {
                    assert!(Instant::now() < until, "the phone did not {what} within {within:?}: {:?}", phone.seen());
                    sleep(LOOK_EVERY).await;
                }
                phone.seen()
            }
        }
    }
}
