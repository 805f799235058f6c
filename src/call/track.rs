//! The sound that leaves for the caller, slot by slot, and who has the floor by it.

use super::{
    agent::{ItemId, ResponseId},
    leg::LegCommand,
    playout::{Interrupted, Playout, Queued},
    record::{Measure, Note},
    words::Output,
};
use crate::audio::{FRAME, Format, RingBack, RingTone};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// A late engine sends the slots of the last 100 ms at once (the phone's jitter buffer takes them)
/// and gives up older ones.
const CATCH_UP_MAX: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    Open,
    Caller,
    Agent,
}

/// Speech or silence, one frame every 20 ms, with the moments that are measured on the way.
#[derive(Debug)]
pub struct Track {
    playout: Playout,
    floor: Floor,
    /// When the call began, until the agent is first heard.
    silent_since: Option<Instant>,
    /// When the caller's turn ended, until the agent is heard.
    turn_ended: Option<Instant>,
    /// When an interruption was decided, until a slot without the agent.
    interrupted: Option<Instant>,
    agent_lost: bool,
    format: Format,
    /// Heard instead of everything else.
    ringing: Option<RingBack>,
}

impl Track {
    pub fn new(format: Format, began: Instant) -> Self {
        Self {
            playout: Playout::new(format),
            floor: Floor::Open,
            silent_since: Some(began),
            turn_ended: None,
            interrupted: None,
            agent_lost: false,
            format,
            ringing: None,
        }
    }

    /// The agent was not heard yet.
    pub fn never_spoken(&self) -> bool {
        self.silent_since.is_some()
    }

    pub fn floor(&self) -> Floor {
        self.floor
    }

    pub fn push(&mut self, response: ResponseId, item: ItemId, audio: Bytes) -> Queued {
        self.playout.push(response, item, audio)
    }

    pub fn is_empty(&self) -> bool {
        self.playout.is_empty()
    }

    pub fn queued(&self) -> Duration {
        self.playout.queued()
    }

    /// One frame of silence in the leg's format.
    pub fn silence(&self) -> Bytes {
        self.playout.silence()
    }

    /// The caller takes the floor from an agent who may be speaking.
    pub fn caller_speaks(&mut self, active: Option<&ResponseId>, now: Instant) -> Interrupted {
        self.floor = Floor::Caller;
        self.cut(active, now)
    }

    /// Cuts off whatever is being said.
    pub fn cut(&mut self, active: Option<&ResponseId>, now: Instant) -> Interrupted {
        let interrupted = self.playout.interrupt(active);
        if !interrupted.cuts.is_empty() {
            self.interrupted = Some(now);
        }
        interrupted
    }

    /// Ringing is heard from the next slot on.
    pub fn ring(&mut self, tone: RingTone) {
        let format = self.format;
        self.ringing.get_or_insert_with(|| RingBack::new(tone, format));
    }

    pub fn stop_ringing(&mut self) {
        self.ringing = None;
    }

    /// The agent is gone; what is still said is the engine's own, and nothing to measure an agent by.
    pub fn agent_is_lost(&mut self) {
        self.agent_lost = true;
        (self.silent_since, self.turn_ended) = (None, None);
    }

    /// Another agent takes over: what is remembered of the old one's responses means nothing.
    pub fn new_agent(&mut self) {
        self.playout.forget_responses();
        // It hears by itself who speaks; the old one's word that the caller stopped will not come.
        if self.floor == Floor::Caller {
            self.floor = Floor::Open;
        }
    }

    pub fn caller_stopped(&mut self, now: Instant) {
        self.floor = Floor::Open;
        self.turn_ended = Some(now);
    }

    /// The slot that was due at `due`; `more` says that the agent is still speaking. Returns when
    /// the next one is due: slots advance from the last one, never from `now`, so they do not drift.
    pub fn slot(&mut self, due: Instant, now: Instant, more: bool, out: &mut Vec<Output>) -> Instant {
        let late = now.saturating_duration_since(due);
        let mut next = due + FRAME;
        if late > CATCH_UP_MAX {
            let missed = (late - CATCH_UP_MAX).as_millis() / FRAME.as_millis() + 1;
            let missed = u32::try_from(missed).unwrap_or(u32::MAX);
            next = due + FRAME * (missed + 1);
            out.push(Output::Measure(Measure::SlotsMissed(missed)));
        }
        if let Some(ringing) = &mut self.ringing {
            out.push(Output::ToLeg(LegCommand::Play(ringing.frame())));
            out.push(Output::Measure(Measure::SlotLate(late)));
            return next;
        }
        let slot = self.playout.next(more);
        out.push(Output::ToLeg(LegCommand::Play(slot.frame)));
        out.push(Output::Measure(Measure::SlotLate(late)));
        if slot.speech && self.floor != Floor::Agent {
            self.floor = Floor::Agent;
            self.agent_heard(now, out);
        } else if !slot.speech && self.floor == Floor::Agent && !more {
            self.floor = Floor::Open;
            out.push(Output::Note(Note::AgentFinished));
        }
        if !slot.speech
            && let Some(decided) = self.interrupted.take()
        {
            out.push(Output::Measure(Measure::BargeInStop(now - decided)));
        }
        next
    }

    fn agent_heard(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.agent_lost {
            return;
        }
        out.push(Output::Note(Note::AgentSpeaks));
        if let Some(began) = self.silent_since.take() {
            out.push(Output::Measure(Measure::FirstAudio(now - began)));
        }
        if let Some(ended) = self.turn_ended.take() {
            out.push(Output::Measure(Measure::TurnGap(now - ended)));
        }
    }
}
