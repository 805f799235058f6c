//! Listeners of services that want utterances: the turn is cut out of the line, each service is one [`Scribe`].
//!
//! A turn is written down by one attempt, which hears it from the lead on. It is told the end of the utterance already
//! when the turn may end; if the caller goes on, that attempt is thrown away, and another hears all of the turn again.
//! Where a service finds the end of an utterance by itself, it is asked again when there is a voice to be heard: of
//! silence some write down words that nobody has said.

#[cfg(test)]
mod tests;

use super::{Hear, Heard, Listener, Patience, lead::Lead, text};
use crate::{
    audio::{Format, VoiceDetector},
    call::Usage,
    remote::Fault,
};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesOrdered};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// Services refuse less, and nobody says a word in it.
const UTTERANCE_MIN: Duration = Duration::from_millis(100);
/// Nobody talks so long to a machine that does not answer; the words after it are not written down.
const UTTERANCE_MAX: Duration = Duration::from_secs(5 * 60);
/// Audio on the way to an attempt, in pieces of 20 ms: one that takes nothing for 5 s is stuck.
const AUDIO_QUEUE: usize = 256;
/// Partial texts that were not told yet; only the last matters, and the attempt waits.
const PARTIAL_QUEUE: usize = 16;
/// Turns that wait for their words. Each waits [`Patience::turn`] at most, and nobody takes more turns in that time.
const WAITING_MAX: usize = 8;
/// How surely a frame has to be speech for a further utterance to have begun. A word that is lost is worse than a noise
/// that is asked about.
const MAYBE_SPEECH: f32 = 0.4;

/// A service that writes down utterances.
pub(super) trait Scribe: Send + Sync + 'static {
    /// As a [`Listener`]'s.
    const KIND: &'static str;
    /// What it wants to hear, whatever the leg has.
    const FORMAT: Format;

    /// Recognises any words; `false`: only phrases of a list, one of which is heard in any sound.
    const FREE_WORDS: bool = true;

    fn patience(&self) -> Patience;
    /// From the end of a turn of this length to its words.
    fn turn_max(&self, _length: Duration) -> Duration {
        self.patience().turn()
    }
    /// What can be known before the first utterance.
    fn ready(self: Arc<Self>) -> BoxFuture<'static, Result<(), Fault>> {
        std::future::ready(Ok(())).boxed()
    }
    /// Writes down what it hears until `audio` is closed. `partials` takes all the words of it so far.
    fn write(
        self: Arc<Self>,
        audio: mpsc::Receiver<Bytes>,
        partials: mpsc::Sender<String>,
    ) -> BoxFuture<'static, Result<Written, Fault>>;
}

/// A listener by such a service. It is asked again for each utterance, so its session need not be.
pub(super) struct ByUtterance<S>(pub Arc<S>);

impl<S: Scribe> Listener for ByUtterance<S> {
    fn kind(&self) -> &'static str {
        S::KIND
    }

    fn turn_max(&self) -> Duration {
        self.0.patience().turn()
    }

    fn words_on_request(&self) -> bool {
        S::FREE_WORDS
    }

    fn format(&self, _: Format) -> Format {
        S::FORMAT
    }

    fn listen(
        &self,
        _: Format,
        input: mpsc::Receiver<Hear>,
        words: mpsc::Sender<Heard>,
    ) -> BoxFuture<'static, Result<(), Fault>> {
        run(Arc::clone(&self.0), input, words).boxed()
    }
}

#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) usage: Usage,
}

type Writing = BoxFuture<'static, Result<Written, Fault>>;

struct Attempt {
    writing: Writing,
    /// Until the end of the utterance is told.
    audio: Option<mpsc::Sender<Bytes>>,
    partials: mpsc::Receiver<String>,
}

#[derive(Default)]
struct Turn {
    /// What a service that finds the ends of utterances by itself has written down of it before `audio`.
    said: String,
    audio: Vec<u8>,
    attempt: Option<Attempt>,
    /// `audio` is written down, up to a silence that goes on.
    known: Option<String>,
    /// Nobody was heard in `audio`, which follows an utterance that the service has ended.
    quiet: Option<Box<VoiceDetector>>,
}

async fn run<S: Scribe>(
    scribe: Arc<S>,
    mut input: mpsc::Receiver<Hear>,
    words: mpsc::Sender<Heard>,
) -> Result<(), Fault> {
    let mut ready = Some(is_there(Arc::clone(&scribe)).boxed());
    let mut desk = Desk { scribe, lead: Lead::new(S::FORMAT), turn: None, waiting: FuturesOrdered::new() };
    loop {
        let heard = tokio::select! {
            biased;
            result = maybe(ready.as_mut()) => {
                result?;
                ready = None;
                vec![Heard::Ready]
            }
            hear = input.recv() => match hear {
                Some(hear) => Vec::from_iter(desk.hear(hear)?),
                None => return Ok(()),
            },
            Some(written) = desk.waiting.next() => {
                let Written { text, usage } = written?;
                told(Some(Heard::Turn { text }), usage)
            }
            event = progress(&mut desk.turn) => desk.progress(event)?,
            () = words.closed() => return Ok(()),
        };
        for heard in heard {
            if words.send(heard).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn is_there<S: Scribe>(scribe: Arc<S>) -> Result<(), Fault> {
    for _ in 0..scribe.patience().retries {
        let ready = Arc::clone(&scribe).ready().await;
        let Some(pause) = ready.as_ref().err().and_then(Fault::pause) else { return ready };
        sleep(pause).await;
    }
    scribe.ready().await
}

async fn maybe<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

fn told(heard: Option<Heard>, usage: Usage) -> Vec<Heard> {
    let usage = (usage != Usage::default()).then_some(Heard::Usage(usage));
    heard.into_iter().chain(usage).collect()
}

enum Progress {
    Partial(String),
    Written(Result<Written, Fault>),
}

/// What the attempt at the open turn brings. May be dropped at any time.
async fn progress(turn: &mut Option<Turn>) -> Progress {
    let Some(attempt) = turn.as_mut().and_then(|turn| turn.attempt.as_mut()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        biased;
        Some(partial) = attempt.partials.recv() => Progress::Partial(partial),
        written = &mut attempt.writing => Progress::Written(written),
    }
}

struct Desk<S> {
    scribe: Arc<S>,
    lead: Lead,
    turn: Option<Turn>,
    /// Turns that have ended, in order.
    waiting: FuturesOrdered<Writing>,
}

impl<S: Scribe> Desk<S> {
    fn hear(&mut self, hear: Hear) -> Result<Option<Heard>, Fault> {
        match hear {
            Hear::Audio(audio) => self.audio(audio)?,
            Hear::TurnBegan if self.turn.is_none() => {
                let audio: Vec<u8> = self.lead.take().into_iter().flatten().collect();
                self.lead.hear(Bytes::copy_from_slice(&audio));
                let attempt = Some(attempt(&self.scribe, &audio));
                self.turn = Some(Turn { audio, attempt, ..Turn::default() });
            }
            Hear::TurnBegan => {}
            Hear::TurnMayEnd => return Ok(self.may_end()),
            Hear::TurnGoesOn => self.goes_on(),
            Hear::TurnEnded => {
                self.ended()?;
                self.lead.take();
            }
            // The next turn brings its own lead.
            Hear::TurnDropped => {
                self.turn = None;
                self.lead.take();
            }
        }
        Ok(None)
    }

    fn audio(&mut self, audio: Bytes) -> Result<(), Fault> {
        if let Some(turn) = &mut self.turn
            && S::FORMAT.duration_of(turn.audio.len()) < UTTERANCE_MAX
        {
            turn.audio.extend_from_slice(&audio);
            if turn.begins_again(&audio) {
                turn.attempt = Some(attempt(&self.scribe, &turn.audio));
                self.lead.hear(audio);
                return Ok(());
            }
            let sender = turn.attempt.as_ref().and_then(|attempt| attempt.audio.as_ref());
            // One that has ended says so in `progress`.
            if let Some(Err(mpsc::error::TrySendError::Full(_))) = sender.map(|sender| sender.try_send(audio.clone())) {
                return Err(Fault::Slow(self.scribe.patience().turn()));
            }
        }
        self.lead.hear(audio);
        Ok(())
    }

    fn may_end(&mut self) -> Option<Heard> {
        let turn = self.turn.as_mut()?;
        if turn.quiet.is_some() {
            turn.known = Some(String::new());
            return (!turn.said.is_empty()).then(|| Heard::Partial { text: turn.said.clone(), stable: true });
        }
        if turn.known.is_none() && S::FORMAT.duration_of(turn.audio.len()) >= UTTERANCE_MIN {
            turn.attempt.get_or_insert_with(|| attempt(&self.scribe, &turn.audio)).audio = None;
        }
        None
    }

    fn goes_on(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        let is_asked = turn.attempt.as_ref().is_none_or(|attempt| attempt.audio.is_none());
        (turn.known, turn.quiet) = (None, None);
        if is_asked {
            turn.attempt = Some(attempt(&self.scribe, &turn.audio));
        }
    }

    fn ended(&mut self) -> Result<(), Fault> {
        let Turn { said, audio, attempt: begun, known, quiet } = self.turn.take().unwrap_or_default();
        self.lead.take();
        let patience = self.scribe.patience();
        let turn_max = self.scribe.turn_max(S::FORMAT.duration_of(audio.len()));
        if self.waiting.len() >= WAITING_MAX {
            return Err(Fault::Slow(turn_max));
        }
        let known = match known {
            None if quiet.is_some() || S::FORMAT.duration_of(audio.len()) < UTTERANCE_MIN => Some(String::new()),
            known => known,
        };
        if let Some(known) = known {
            let text = text::joined(&said, &known);
            self.waiting.push_back(async { Ok(Written { text, ..Written::default() }) }.boxed());
            return Ok(());
        }
        let scribe = Arc::clone(&self.scribe);
        let writing = async move {
            let first = begun.unwrap_or_else(|| attempt(&scribe, &audio));
            let mut written = finish(first).await;
            for _ in 0..patience.retries {
                let Some(pause) = written.as_ref().err().and_then(Fault::pause) else { break };
                sleep(pause).await;
                written = finish(attempt(&scribe, &audio)).await;
            }
            written.map(|written| Written { text: text::joined(&said, &written.text), ..written })
        };
        let limited = async move { timeout(turn_max, writing).await.unwrap_or(Err(Fault::Slow(turn_max))) };
        self.waiting.push_back(limited.boxed());
        Ok(())
    }

    fn progress(&mut self, progress: Progress) -> Result<Vec<Heard>, Fault> {
        let Some(turn) = &mut self.turn else { return Ok(Vec::new()) };
        let written = match progress {
            Progress::Partial(partial) => {
                let text = text::joined(&turn.said, &partial);
                return Ok(Vec::from_iter((!text.is_empty()).then_some(Heard::Partial { text, stable: false })));
            }
            Progress::Written(written) => written,
        };
        let is_asked = turn.attempt.take().is_some_and(|attempt| attempt.audio.is_none());
        match written {
            Ok(Written { text, usage }) if is_asked => {
                let all = text::joined(&turn.said, &text);
                turn.known = Some(text);
                Ok(told((!all.is_empty()).then_some(Heard::Partial { text: all, stable: true }), usage))
            }
            // The service has found the end of an utterance by itself; what comes is another.
            Ok(_) if S::FORMAT.duration_of(turn.audio.len()) < UTTERANCE_MIN => {
                Err(Fault::Garbage("a transcript before anything was said"))
            }
            Ok(Written { text, usage }) => {
                text::append(&mut turn.said, &text);
                turn.audio.clear();
                turn.quiet = Some(Box::new(VoiceDetector::new(S::FORMAT)));
                let text = turn.said.clone();
                Ok(told((!text.is_empty()).then_some(Heard::Partial { text, stable: false }), usage))
            }
            // It is asked again when its words are needed.
            Err(fault) if fault.is_passing() => Ok(Vec::new()),
            Err(fault) => Err(fault),
        }
    }
}

impl Turn {
    /// Somebody is heard again, in what was heard last.
    fn begins_again(&mut self, audio: &[u8]) -> bool {
        let Some(ear) = &mut self.quiet else { return false };
        let mut heard = Vec::new();
        ear.hear(audio, &mut heard);
        let speaks = heard.iter().any(|frame| frame.probability >= MAYBE_SPEECH);
        if speaks {
            self.quiet = None;
        }
        speaks
    }
}

/// An attempt that has heard `audio`.
fn attempt(scribe: &Arc<impl Scribe>, audio: &[u8]) -> Attempt {
    let (sender, receiver) = mpsc::channel(AUDIO_QUEUE);
    let (partials_out, partials) = mpsc::channel(PARTIAL_QUEUE);
    if !audio.is_empty() {
        // The queue is empty.
        let _ = sender.try_send(Bytes::copy_from_slice(audio));
    }
    Attempt { writing: Arc::clone(scribe).write(receiver, partials_out), audio: Some(sender), partials }
}

/// Tells the end of the utterance and waits for the words.
async fn finish(attempt: Attempt) -> Result<Written, Fault> {
    let Attempt { mut writing, audio, mut partials } = attempt;
    drop(audio);
    loop {
        tokio::select! {
            biased;
            Some(_) = partials.recv() => {}
            written = &mut writing => return written,
        }
    }
}
