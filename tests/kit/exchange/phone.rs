//! SIP phones of the exchange: they speak and listen by frames of 20 ms, as [`crate::kit::phone`] does by packets.
//!
//! What is heard is in the recording 40 ms after it came, as long as nothing else was heard just before: a real phone's player
//! has such a buffer. Where nothing comes the recording has silence.

use super::{
    channel::{Channel, Party, Tech},
    frame::{Codec, Decoder, Encoder, Frame},
    registry,
    state::{By, Switch},
};
use crate::kit::{
    audio::Sound,
    phone::{Seen, Wide},
};
use offhook::audio::opus;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

const FRAME: Duration = Duration::from_millis(20);
/// Ticks of a key, and those between two.
const KEY_TICKS: u32 = 8;
const KEY_PAUSE: u32 = 2;
/// Frames that the player waits for, and has room for.
const PLAYS_FROM: usize = 2;
const BUFFERED_MAX: usize = 20;
/// A phone that answers by itself rings for so long.
const PICK_UP: Duration = Duration::from_millis(10);
/// `rtp_timeout`.
const NO_PACKETS: Duration = Duration::from_secs(30);

/// A phone, as the exchange knows it.
#[derive(Clone)]
pub struct Handset(Arc<Mutex<Line>>);

struct Line {
    seen: watch::Sender<Seen>,
    codec: Codec,
    wire: Wire,
    /// Where the call is.
    link: Option<(Switch, String)>,
    answers: bool,
    absent: bool,
    says: VecDeque<i16>,
    waits: VecDeque<i16>,
    playing: bool,
    heard: Vec<i16>,
    keys: VecDeque<char>,
    pressed: Option<char>,
    key_ticks: u32,
    held: bool,
    talking: Option<AbortHandle>,
}

/// What comes of a call to a phone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Called {
    Rings,
    Busy,
    /// Nothing answers at its address.
    NobodyThere,
}

/// What codecs do to the phone's own sound, and to what it hears.
enum Wire {
    Samples { own: Box<(Encoder, Decoder)>, theirs: Box<(Encoder, Decoder)> },
    Opus(Box<(opus::Writer, opus::Reader)>),
}

/// What a phone does in 20 ms.
enum Does {
    Nothing,
    Speaks(Frame),
    Releases(char),
}

impl Wire {
    fn new(codec: Codec) -> Self {
        let both = || Box::new((Encoder::new(codec), Decoder::new(codec)));
        match codec {
            Codec::Opus => Self::Opus(Box::new((
                opus::Writer::new().expect("libopus has memory"),
                opus::Reader::new().expect("libopus has memory"),
            ))),
            _ => Self::Samples { own: both(), theirs: both() },
        }
    }

    fn says(&mut self, samples: Vec<i16>, rate: u32) -> Option<Frame> {
        match self {
            Self::Samples { own, .. } => {
                let (encoder, decoder) = &mut **own;
                let bytes = encoder.bytes(&Frame::linear(rate, samples))?;
                Some(decoder.frame(&bytes))
            }
            Self::Opus(opus) => {
                let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
                opus.0.packet(&bytes).map(Frame::Opus)
            }
        }
    }

    fn hears(&mut self, frame: &Frame) -> Option<Vec<i16>> {
        match (self, frame) {
            (Self::Samples { theirs, .. }, frame) => {
                let (encoder, decoder) = &mut **theirs;
                let bytes = encoder.bytes(frame)?;
                let Frame::Linear { samples, .. } = decoder.frame(&bytes) else { return None };
                Some(samples)
            }
            (Self::Opus(opus), Frame::Opus(packet)) => {
                let (opus::Heard::Audio(bytes) | opus::Heard::Concealed(bytes)) = opus.1.audio(packet);
                Some(super::frame::little_endian(&bytes))
            }
            (Self::Opus(_), Frame::Linear { .. }) => None,
        }
    }
}

impl Line {
    fn frame(&self) -> usize {
        self.codec.rate() as usize / 50
    }

    /// One turn of the phone's clock; `None`: the call is over.
    fn tick(&mut self) -> Option<(Switch, String, Does)> {
        let (switch, id) = self.link.clone()?;
        let frame = self.frame();
        self.playing = if self.playing { self.waits.len() >= frame } else { self.waits.len() >= PLAYS_FROM * frame };
        if self.playing {
            self.heard.extend(self.waits.drain(..frame));
        } else {
            self.heard.resize(self.heard.len() + frame, 0);
        }
        let mut says: Vec<i16> = self.says.drain(..frame.min(self.says.len())).collect();
        says.resize(frame, 0);
        if self.key_ticks > 0 {
            self.key_ticks -= 1;
            if self.key_ticks == KEY_PAUSE
                && let Some(key) = self.pressed.take()
            {
                return Some((switch, id, Does::Releases(key)));
            }
        } else if let Some(key) = self.keys.pop_front() {
            (self.pressed, self.key_ticks) = (Some(key), KEY_TICKS + KEY_PAUSE);
        }
        if self.held || self.pressed.is_some() {
            return Some((switch, id, Does::Nothing));
        }
        let rate = self.codec.rate();
        let does = self.wire.says(says, rate).map_or(Does::Nothing, Does::Speaks);
        Some((switch, id, does))
    }

    fn is_over(&mut self, why: &str) {
        if self.link.take().is_some() {
            let why = why.to_owned();
            self.seen.send_modify(|seen| seen.ended = Some((Instant::now(), why)));
        }
    }

    fn begins(&mut self, switch: &Switch, id: &str) {
        self.link = Some((switch.clone(), id.to_owned()));
        self.heard.clear();
        self.waits.clear();
        (self.playing, self.held) = (false, false);
    }
}

impl Handset {
    fn new(codec: Codec, says: Sound, answers: bool) -> Self {
        let (seen, _) = watch::channel(Seen::default());
        Self(Arc::new(Mutex::new(Line {
            seen,
            codec,
            wire: Wire::new(codec),
            link: None,
            answers,
            absent: false,
            says: says.samples.into(),
            waits: VecDeque::new(),
            playing: false,
            heard: Vec::new(),
            keys: VecDeque::new(),
            pressed: None,
            key_ticks: 0,
            held: false,
            talking: None,
        })))
    }

    /// At an address where nobody is.
    pub fn absent() -> Self {
        let absent = Self::new(Codec::Ulaw, Sound::default(), false);
        absent.line().absent = true;
        absent
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn codec(&self) -> Codec {
        self.line().codec
    }

    /// Somebody calls it.
    pub fn is_called(&self, switch: &Switch, id: &str, caller: &Party) -> Called {
        let mut line = self.line();
        if line.absent {
            return Called::NobodyThere;
        }
        if line.link.is_some() {
            return Called::Busy;
        }
        line.begins(switch, id);
        let peer = match caller.withheld {
            true => ("Anonymous".to_owned(), "sip:anonymous@anonymous.invalid".to_owned()),
            false => (caller.name.clone(), format!("sip:{}@127.0.0.1", caller.number)),
        };
        line.seen.send_modify(|seen| (seen.ringing, seen.peer) = (true, peer));
        if line.answers {
            let (switch, id) = (switch.clone(), id.to_owned());
            tokio::spawn(async move {
                sleep(PICK_UP).await;
                switch.with(|state| state.answer(&id));
            });
        }
        Called::Rings
    }

    pub fn rings(&self) {
        self.line().seen.send_modify(|seen| seen.ringing |= seen.established.is_none());
    }

    pub fn established(&self) {
        let mut line = self.line();
        line.seen.send_modify(|seen| seen.established = Some(Instant::now()));
        let handset = self.clone();
        line.talking = Some(tokio::spawn(handset.talks()).abort_handle());
    }

    pub fn ends(&self, why: &str) {
        self.line().is_over(why);
    }

    pub fn is_sent_key(&self, key: char) {
        self.line().seen.send_modify(|seen| seen.keys.push(key));
    }

    /// `false`: it cannot be understood.
    pub fn hears(&self, frame: &Frame) -> bool {
        let mut line = self.line();
        let Some(samples) = line.wire.hears(frame) else { return false };
        line.waits.extend(samples);
        let too_much = line.waits.len().saturating_sub(BUFFERED_MAX * line.frame());
        line.waits.drain(..too_much);
        true
    }

    async fn talks(self) {
        let mut ticks = interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            ticks.tick().await;
            let Some((switch, id, does)) = self.line().tick() else { return };
            match does {
                Does::Nothing => {}
                Does::Speaks(frame) => switch.with(|state| state.read(&id, &frame)),
                Does::Releases(key) => switch.with(|state| state.digit(&id, key)),
            }
        }
    }

    /// It sends nothing any more, which Asterisk notices after a while.
    fn falls_silent(&self) {
        let Some((switch, id)) = self.line().link.clone() else { return };
        let noticed = switch.clone();
        switch.with(|state| {
            let packets = state.channels.get(&id).map(|channel| channel.received);
            state.spawn(async move {
                sleep(NO_PACKETS).await;
                noticed.with(|state| {
                    if packets.is_some() && state.channels.get(&id).map(|channel| channel.received) == packets {
                        state.hang_up(&id, super::channel::cause::NORMAL, By::Dialplan);
                    }
                });
            });
        });
    }
}

/// A SIP phone on an [`super::Exchange`]; [`crate::kit::phone::Phone`] tells what its methods do.
pub struct ExchangePhone {
    handset: Handset,
    seen: watch::Receiver<Seen>,
    port: u16,
}

impl ExchangePhone {
    pub async fn call_as(sip_port: u16, extension: &str, says: Sound, name: &str, number: &str) -> Self {
        Self::dials(sip_port, extension, says, Codec::Ulaw, Party::new(name, number), "anonymous")
    }

    /// All of its sounds are twice as slow and half as high as on the line.
    pub async fn call_wide(sip_port: u16, extension: &str, says: Sound, codec: Wide) -> Self {
        let codec = if codec == Wide::G722 { Codec::G722 } else { Codec::Opus };
        Self::dials(sip_port, extension, says, codec, Party::new("Wide", "2025550199"), "anonymous")
    }

    /// The password is not looked at.
    pub async fn call_by(sip_port: u16, extension: &str, says: Sound, account: (&str, &str)) -> Self {
        Self::dials(sip_port, extension, says, Codec::Ulaw, Party::new("", account.0), account.0)
    }

    pub async fn listen(says: Sound) -> Self {
        Self::new(Handset::new(Codec::Ulaw, says, true))
    }

    pub async fn listen_without_answering() -> Self {
        Self::new(Handset::new(Codec::Ulaw, Sound::default(), false))
    }

    fn new(handset: Handset) -> Self {
        let (seen, port) = (handset.line().seen.subscribe(), registry::add_phone(&handset));
        Self { handset, seen, port }
    }

    fn dials(sip_port: u16, extension: &str, says: Sound, codec: Codec, caller: Party, endpoint: &str) -> Self {
        let switch = registry::exchange(sip_port);
        let phone = Self::new(Handset::new(codec, says, false));
        switch.with(|state| {
            if !state.is_running {
                phone
                    .handset
                    .line()
                    .seen
                    .send_modify(|seen| seen.ended = Some((Instant::now(), "Connection refused".into())));
                return;
            }
            let (id, number) = (state.new_id(), state.number("PJSIP"));
            let tech = Tech::Phone(phone.handset.clone());
            let mut channel = Channel::new(id.clone(), format!("PJSIP/{endpoint}-{number:08x}"), tech, codec);
            channel.caller = caller;
            phone.handset.line().begins(&switch, &id);
            state.call_in(channel, extension);
        });
        phone
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    pub async fn dtmf(&mut self, key: char) {
        let mut line = self.handset.line();
        assert!(line.link.is_some(), "the phone is in no call, so that no key can be pressed");
        line.keys.push_back(key);
    }

    pub async fn say(&mut self, words: Sound) {
        self.handset.line().says = words.samples.into();
    }

    /// Puts the call on hold; what is heard begins anew.
    pub async fn hold(&mut self) {
        self.set_held(true);
        self.handset.falls_silent();
    }

    /// Takes the call off hold; what is heard begins anew.
    pub async fn resume(&mut self) {
        self.set_held(false);
    }

    fn set_held(&self, held: bool) {
        let link = {
            let mut line = self.handset.line();
            line.held = held;
            line.heard.clear();
            line.link.clone()
        };
        let (switch, id) = link.expect("a phone in a call");
        switch.with(|state| state.holds(&id, held));
    }

    /// Answers what rings here.
    pub async fn answer(&mut self) {
        let (switch, id) = self.handset.line().link.clone().expect("a phone that rings");
        switch.with(|state| state.answer(&id));
    }

    /// Transfers the call blindly. What the exchange accepts ends it.
    pub async fn transfer(&mut self, extension: &str) {
        let (switch, id) = self.handset.line().link.clone().expect("a phone in a call");
        if switch.with(|state| state.transfer(&id, extension)) {
            self.hang_up().await;
        }
    }

    /// Hands the one in this line's call to those in the other line's: this is what a telephone does with two of its calls.
    pub async fn transfer_to(&mut self, other: &mut Self) {
        let (switch, id) = self.handset.line().link.clone().expect("a phone in a call");
        let (_, target) = other.handset.line().link.clone().expect("a phone in a call");
        assert!(switch.with(|state| state.transfer_attended(&id, &target)), "the transfer is accepted");
        self.hang_up().await;
        other.hang_up().await;
    }

    pub async fn hang_up(&mut self) {
        let link = self.handset.line().link.clone();
        if let Some((switch, id)) = link {
            switch.with(|state| {
                let by = if state.channels.get(&id).is_some_and(Channel::is_up) { By::FarEnd } else { By::Cancel };
                state.hang_up(&id, super::channel::cause::NORMAL, by);
            });
            self.handset.ends("");
        }
        assert!(self.seen().ended.is_some(), "a phone that was in no call cannot hang up");
    }

    /// Gone without a word.
    pub async fn vanish(&mut self) {
        self.gone();
    }

    fn gone(&self) {
        self.handset.falls_silent();
        let mut line = self.handset.line();
        line.absent = true;
        if let Some(talking) = line.talking.take() {
            talking.abort();
        }
    }

    pub fn heard(&self) -> Sound {
        Sound { samples: self.handset.line().heard.clone() }
    }
}

impl Drop for ExchangePhone {
    fn drop(&mut self) {
        registry::remove(self.port);
        let talking = self.handset.line().talking.take();
        if let Some(talking) = talking {
            talking.abort();
        }
    }
}
