//! The sound that leaves for the caller, slot by slot: the one owner of the outgoing track.
//!
//! Sources in the order of precedence: ringing (a tone or music), sentences of the engine's own (clips), the agent. A clip
//! that makes place for the agent's answer ends its word when the answer comes; any other is heard first, and the
//! agent's audio waits behind it.

mod clips;
mod ringing;

pub use clips::{ClipHeard, Purpose};

use super::{
    agent::{ItemId, ResponseId},
    clips::Spoken,
    leg::LegCommand,
    playout::{Interrupted, Playout, Queued},
    record::{Measure, Note},
    words::Output,
};
use crate::audio::{Clip, FRAME, Format, RingTone, attenuate};
use bytes::Bytes;
use clips::ClipQueue;
use ringing::Ringing;
use std::time::{Duration, Instant};

/// A late engine sends the slots of the last 100 ms at once (the phone's jitter buffer takes them)
/// and gives up older ones.
const CATCH_UP_MAX: Duration = Duration::from_millis(100);
/// Slots of different calls are apart by a multiple of this, so that those of many calls fall together: a processor then wakes
/// for a quarter of hundreds of calls at once, and not for a few of them in every millisecond. The last of them waits for the
/// others, which is a millisecond or two with hundreds.
const BEAT: Duration = Duration::from_millis(5);
/// A ducked agent is heard at -12 dB: soft enough to talk over, loud enough not to be missed.
const DUCKED: f32 = 0.25;
/// Slots of silence within what an agent says: 500 ms, the pause between two sentences. After more it may be interrupted as if it
/// were silent.
const PAUSE_MAX: u32 = 25;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    Open,
    Caller,
    Agent,
}

/// How loud the agent is heard while it is undecided whether the caller interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loudness {
    Full,
    Ducked,
    /// Nothing is heard, and nothing is thrown away.
    Paused,
}

/// What the last slot carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Silence,
    Clip,
    Agent,
}

/// Speech or silence, one frame every 20 ms, with the moments that are measured on the way.
#[derive(Debug)]
pub struct Track {
    playout: Playout,
    clips: ClipQueue,
    loudness: Loudness,
    /// The call is on hold: nothing is played.
    held: bool,
    floor: Floor,
    /// When the call began, until somebody is first heard.
    silent_since: Option<Instant>,
    /// When an interruption was decided, until a slot without the agent.
    interrupted: Option<Instant>,
    last: Source,
    /// Slots since the last one in which somebody was heard.
    quiet: u32,
    /// The agent has more to say, as of the last slot.
    more: bool,
    agent_lost: bool,
    format: Format,
    /// What beats are counted from.
    beat: Instant,
    /// Heard instead of everything else.
    ringing: Option<Ringing>,
    /// So much of what has left waits in Asterisk, as it told last.
    waits: Duration,
}

/// One slot's outcome, for those who measure and listen.
#[derive(Debug)]
pub struct Played {
    /// What left.
    pub frame: Bytes,
    /// When the next slot is due.
    pub next: Instant,
    /// With this frame the agent begins to be heard.
    pub agent_begins: bool,
}

impl Track {
    pub fn new(format: Format, beat: Instant, began: Instant) -> Self {
        Self {
            playout: Playout::new(format),
            clips: ClipQueue::default(),
            loudness: Loudness::Full,
            held: false,
            floor: Floor::Open,
            silent_since: Some(began),
            interrupted: None,
            last: Source::Silence,
            quiet: u32::MAX,
            more: false,
            agent_lost: false,
            format,
            beat,
            ringing: None,
            waits: Duration::ZERO,
        }
    }

    /// Nobody was heard yet.
    pub fn never_spoken(&self) -> bool {
        self.silent_since.is_some()
    }

    pub fn floor(&self) -> Floor {
        self.floor
    }

    /// Agent audio. The first of an answer ends what was only to bridge the wait for it, with its word.
    pub fn push(&mut self, response: ResponseId, item: ItemId, audio: Bytes) -> Queued {
        let queued = self.playout.push(response, item, audio);
        if queued == Queued::Kept && !self.playout.is_empty() {
            self.clips.give_way(self.format);
        }
        queued
    }

    /// Nothing of this response will be heard any more.
    pub fn cut_off(&mut self, response: ResponseId) {
        self.playout.discard(response);
    }

    pub fn is_cut_off(&self, response: &ResponseId) -> bool {
        self.playout.is_stale(response)
    }

    /// A sentence of the engine's own, behind those that wait already.
    pub fn say(&mut self, spoken: &Spoken, purpose: Purpose) {
        self.clips.push(spoken, purpose, self.format);
    }

    /// Nothing is left to be heard, clips included.
    pub fn is_empty(&self) -> bool {
        self.playout.is_empty() && self.clips.is_empty()
    }

    /// The agent has something that was not heard yet.
    pub fn agent_waits(&self) -> bool {
        !self.playout.is_empty()
    }

    pub fn queued(&self) -> Duration {
        self.playout.queued() + self.clips.queued(self.format)
    }

    /// The caller hears, or is about to hear, something that must not be interrupted.
    pub fn is_protected(&self) -> bool {
        self.clips.is_protected()
    }

    /// Somebody is heard, or is about to be. Who speaks into the silence at the end of what was said interrupts nobody; an agent
    /// that has more to say may pause.
    pub fn is_speaking(&self) -> bool {
        let pause_max = if self.more { PAUSE_MAX } else { 1 };
        self.clips.speaks_on() || self.playout.speaks_on() || self.quiet < pause_max
    }

    /// One frame of silence in the leg's format.
    pub fn silence(&self) -> Bytes {
        self.playout.silence()
    }

    /// Until the caller's interruption is decided.
    pub fn set_loudness(&mut self, loudness: Loudness) {
        self.loudness = loudness;
    }

    /// Sets whether the call is on hold: nothing is heard then, and nothing thrown away.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Cuts off what hold broke off in the middle, and all else that waits where that was meant for somebody else; `None`: what waits
    /// stays, and has not begun.
    pub fn cut_unasked(
        &mut self,
        for_another: bool,
        active: Option<&ResponseId>,
        now: Instant,
        out: &mut Vec<Output>,
    ) -> Option<(Interrupted, Vec<ClipHeard>)> {
        let cuts = for_another || self.clips.is_begun() || self.playout.is_begun();
        let cut = cuts.then(|| self.cut(active, now, out));
        // Nobody interrupted, so there is nothing to measure.
        self.interrupted = None;
        cut
    }

    /// Whether playing is paused, by hold or by an undecided sound.
    fn pauses(&self) -> bool {
        self.held || self.loudness == Loudness::Paused
    }

    /// The caller takes the floor from an agent who may be speaking.
    pub fn caller_speaks(
        &mut self,
        active: Option<&ResponseId>,
        now: Instant,
        out: &mut Vec<Output>,
    ) -> (Interrupted, Vec<ClipHeard>) {
        self.floor = Floor::Caller;
        self.cut(active, now, out)
    }

    /// Cuts off whatever is being said, but for what is protected.
    pub fn cut(
        &mut self,
        active: Option<&ResponseId>,
        now: Instant,
        out: &mut Vec<Output>,
    ) -> (Interrupted, Vec<ClipHeard>) {
        self.loudness = Loudness::Full;
        self.clips.end_quiet();
        let clips = self.clips.interrupt(self.format);
        // What is protected is heard on, and to its end; else Asterisk throws away what waits there.
        let flushes = self.clips.is_empty();
        let unheard = if flushes { self.waits } else { Duration::ZERO };
        let interrupted = self.playout.interrupt(active, unheard);
        if !interrupted.cuts.is_empty() || !clips.is_empty() {
            self.interrupted = Some(now);
            if flushes {
                self.waits = Duration::ZERO;
                out.push(Output::ToLeg(LegCommand::Flush));
            }
        }
        (interrupted, clips)
    }

    /// Asterisk has told how much of what has left waits there; what it had told before.
    pub fn waits(&mut self, length: Duration) -> Duration {
        std::mem::replace(&mut self.waits, length)
    }

    /// As much of what has left last was thrown away, and was not heard.
    pub fn thrown_away(&mut self, length: Duration) {
        self.waits = Duration::ZERO;
        // The leg has counted it.
        let _ = self.playout.take_back(length);
    }

    /// The question that was heard to its end since this was last asked.
    pub fn asked(&mut self) -> Option<String> {
        self.clips.asked()
    }

    /// The question that is being heard, and how much of it.
    pub fn question(&self) -> Option<ClipHeard> {
        self.clips.question(self.format)
    }

    pub fn drop_questions(&mut self) {
        self.clips.drop_questions();
    }

    /// The engine's own sentences are over, protected or not.
    pub fn silence_clips(&mut self) {
        self.clips.silence();
    }

    /// A notice was to be heard, and was not heard to its end.
    pub fn owes_notice(&self) -> bool {
        self.clips.owes_notice()
    }

    /// Ringing is heard from the next slot on, or this music in its place.
    pub fn ring(&mut self, tone: RingTone, music: Option<&Clip>) {
        let format = self.format;
        self.ringing.get_or_insert_with(|| Ringing::new(tone, music, format));
    }

    pub fn stop_ringing(&mut self) {
        self.ringing = None;
    }

    /// The agent is gone; what is still said is the engine's own, and nothing to measure an agent by.
    pub fn agent_is_lost(&mut self) {
        self.agent_lost = true;
        self.silent_since = None;
    }

    /// Another agent takes over: what is remembered of the old one's responses means nothing.
    /// `hears_itself`: it tells who speaks; the old one's word that the caller stopped will not come.
    pub fn new_agent(&mut self, hears_itself: bool) {
        self.playout.forget_responses();
        if hears_itself && self.floor == Floor::Caller {
            self.floor = Floor::Open;
        }
    }

    pub fn caller_stopped(&mut self) {
        self.floor = Floor::Open;
    }

    /// The slot that was due at `due`; `more` says that the agent is still speaking. Slots advance from
    /// the last one, never from `now`, so they do not drift. The second one of a call comes so much sooner that it falls on a
    /// beat.
    pub fn slot(&mut self, due: Instant, now: Instant, more: bool, out: &mut Vec<Output>) -> Played {
        let late = now.saturating_duration_since(due);
        let off_beat = due.saturating_duration_since(self.beat).as_nanos() % BEAT.as_nanos();
        let mut next = due + FRAME - Duration::from_nanos(off_beat as u64);
        if late > CATCH_UP_MAX {
            let missed = (late - CATCH_UP_MAX).as_millis() / FRAME.as_millis() + 1;
            let missed = u32::try_from(missed).unwrap_or(u32::MAX);
            next += FRAME * missed;
            out.push(Output::Measure(Measure::SlotsMissed(missed)));
        }
        let (frame, source) = self.next_frame(more);
        self.more = more;
        if source != Source::Silence && self.format.quiet_end(&frame) < frame.len() {
            self.quiet = 0;
        } else if !self.pauses() {
            self.quiet = self.quiet.saturating_add(1);
        }
        // Told before what comes next, of which it is no part.
        if self.last == Source::Clip && source != Source::Clip && !self.pauses() {
            out.push(Output::Note(Note::SentenceOver));
        }
        out.push(Output::ToLeg(LegCommand::Play(frame.clone())));
        out.push(Output::Measure(Measure::SlotLate(late)));
        let agent_begins = self.heard(source, now, more, out);
        Played { frame, next, agent_begins }
    }

    fn next_frame(&mut self, more: bool) -> (Bytes, Source) {
        if let Some(ringing) = &mut self.ringing {
            self.playout.passes(self.format.frame_bytes());
            return (ringing.frame(), Source::Silence);
        }
        if self.pauses() {
            self.playout.passes(self.format.frame_bytes());
            return (self.playout.silence(), Source::Silence);
        }
        let (frame, source) = match self.clips.next(self.format, !self.playout.is_empty()) {
            Some(frame) => {
                self.playout.passes(self.format.frame_bytes());
                (frame, Source::Clip)
            }
            None => {
                let slot = self.playout.next(more);
                (slot.frame, if slot.speech { Source::Agent } else { Source::Silence })
            }
        };
        let softer = self.loudness == Loudness::Ducked && source != Source::Silence;
        (if softer { attenuate(self.format, &frame, DUCKED) } else { frame }, source)
    }

    /// Keeps the floor and the moments; whether the agent begins to be heard.
    fn heard(&mut self, source: Source, now: Instant, more: bool, out: &mut Vec<Output>) -> bool {
        self.last = source;
        if source == Source::Silence
            && let Some(decided) = self.interrupted.take()
        {
            out.push(Output::Measure(Measure::BargeInStop(now - decided)));
        }
        if source != Source::Silence
            && let Some(began) = self.silent_since.take()
        {
            out.push(Output::Measure(Measure::FirstAudio(now - began)));
        }
        let begins = source == Source::Agent && self.quiet == 0 && self.floor != Floor::Agent;
        if begins {
            self.floor = Floor::Agent;
            if !self.agent_lost {
                out.push(Output::Note(Note::AgentSpeaks));
            }
        } else if source == Source::Silence
            && self.floor == Floor::Agent
            && !self.pauses()
            && self.ringing.is_none()
            && !more
        {
            self.floor = Floor::Open;
            out.push(Output::Note(Note::AgentFinished));
        }
        begins && !self.agent_lost
    }
}
