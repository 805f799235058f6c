//! The caller's side of a VAM client's call: frames and cues, without waiting.

use super::{Control, Happening, Line};
use crate::{
    asterisk::media::MediaEvent,
    call::{AgentLoss, Dialling, LegEvent, Note, Speaker},
    vam::{Cue, Ends},
};
use bytes::Bytes;
use std::future::pending;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Frames of the client that the call has not taken; the stream's own pace keeps it nearly empty.
const HEARD_MAX: usize = 8;
/// Five seconds of slots, which is as long as a client may leave its stream unread, and room for what is said about them.
const CUES_MAX: usize = 320;
/// Of those, for cues that are no frames: a signal is not lost for a frame.
const KEPT_FOR_SIGNALS: usize = 64;

pub(super) struct Streamed {
    heard: mpsc::Receiver<Bytes>,
    cues: mpsc::Sender<Cue>,
    /// The client has ended its session.
    done: CancellationToken,
    done_told: bool,
    ended: bool,
}

impl Streamed {
    pub fn new() -> (Self, Ends, mpsc::Sender<Cue>) {
        let ((to_call, heard), (cues, from_call)) = (mpsc::channel(HEARD_MAX), mpsc::channel(CUES_MAX));
        let done = CancellationToken::new();
        let streamed = Self { heard, cues: cues.clone(), done: done.clone(), done_told: false, ended: false };
        (streamed, Ends { heard: to_call, cues: from_call, done }, cues)
    }

    pub async fn event(&mut self) -> Happening {
        if self.ended {
            return pending().await;
        }
        // What it has said before that comes first.
        tokio::select! {
            biased;
            frame = self.heard.recv() => match frame {
                Some(frame) => Happening::Media(MediaEvent::Audio(frame)),
                None => {
                    self.ended = true;
                    Happening::StreamEnded
                }
            },
            () = self.done.cancelled(), if !self.done_told => {
                self.done_told = true;
                Happening::SessionEnded
            }
        }
    }

    /// Nothing more comes of the call.
    pub fn is_over(&self) {
        let _ = self.cues.try_send(Cue::Over);
    }

    /// `false`: the client does not read, and the frame is lost.
    pub fn play(&mut self, frame: Bytes) -> bool {
        self.cues.capacity() > KEPT_FOR_SIGNALS && self.cues.try_send(Cue::Frame(frame)).is_ok()
    }

    pub fn note(&mut self, note: &Note) {
        let cue = match note {
            Note::Answered => Cue::Up,
            Note::CallerSpeaks => Cue::CallerSpeaks,
            Note::CallerFinished => Cue::CallerFinished,
            Note::BargeIn { .. } | Note::SentenceCut => Cue::BargeIn,
            Note::FalseAlarm { .. } => Cue::FalseAlarm,
            Note::AgentFinished | Note::SentenceOver | Note::Lull => Cue::SaidOut,
            Note::Quiet => Cue::Quiet,
            Note::Stumbled(stumble) => Cue::Stumbled(*stumble),
            Note::Dialling(Dialling::Recovery(loss)) => Cue::Lost { is_slow: *loss == AgentLoss::Stalled },
            Note::Failing(_) => Cue::Failing,
            // The agent's words are heard; who would tell them from the caller's?
            Note::Said { speaker: Speaker::Caller, text } => Cue::Said { text: text.clone() },
            _ => return,
        };
        // A client that reads nothing for so long is cut off.
        let _ = self.cues.try_send(cue);
    }
}

impl Line {
    /// A VAM client; the other ends are theirs, and what else is told of the call goes by the sender.
    pub fn streamed() -> (Self, Ends, mpsc::Sender<Cue>) {
        let (streamed, ends, cues) = Streamed::new();
        (Self { announce: Some(LegEvent::Up), ..Self::new(Control::Streamed(streamed)) }, ends, cues)
    }

    /// What the call says of itself, for who is told such things.
    pub fn note(&mut self, note: &Note) {
        if let Control::Streamed(streamed) = &mut self.control {
            streamed.note(note);
        }
    }
}
