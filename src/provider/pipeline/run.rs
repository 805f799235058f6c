//! Carries what the [`Conductor`] decides to the services of one call, and what they say back.

use super::{
    Stages,
    conductor::Conductor,
    kept::{KEPT_MAX, Kept},
    ranks::{Rank, ToAsk},
    steps::{Input, Output},
};
use crate::{
    audio::{Converter, Format},
    call::{AgentCommand, AgentEvent, AgentLoss, Part, Stumble},
    llm::{Ask, Finish, Model, Order, Piece},
    remote::{Fault, wards::Oddity},
    speech::Voice,
    stt::{Hear, Heard, Listener},
};
use futures_util::StreamExt as _;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;

/// What the services of one call have said and the call has not taken: they wait then.
const INPUTS_MAX: usize = 64;
/// What a listener has not taken: ten seconds of audio. One that takes nothing for so long hears nobody.
const HEARS_MAX: usize = 512;
/// Between a service and the task that asks it.
const WORDS_MAX: usize = 32;
/// Turns that wait for their words, for the clock; listeners take fewer.
const TURNS_MAX: usize = 64;
/// What has failed within this is worth another attempt at the same service; a caller has waited long enough after any
/// other.
const QUICK: Duration = Duration::from_secs(1);
/// Nobody listens any more. Two slow attempts fit in; who is heard by nobody for longer is better off with another agent.
const DEAF_MAX: Duration = Duration::from_secs(6);
/// A listener that is alone is asked once more for the words of a turn for which it was waited in vain: its connection may have
/// been dead.
pub(super) const TIMES_HEARD: usize = 2;
/// For the listener to take its goodbye; the engine waits twice as long for the whole session.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// Speech of one clause: several times what it can be, and no voice that never ends.
const CLAUSE_MAX: Duration = Duration::from_secs(60);

/// Runs one call's agent until it is lost or the call leaves, which is `None`.
pub(super) async fn play(
    stages: Arc<Stages>,
    mut conductor: Conductor,
    leg: Format,
    ready_max: Duration,
    mut commands: mpsc::Receiver<AgentCommand>,
    events: mpsc::Sender<AgentEvent>,
) -> Option<AgentLoss> {
    let (to_conductor, mut inputs) = mpsc::channel(INPUTS_MAX);
    let (hear, hears) = mpsc::channel(HEARS_MAX);
    let listening = listen(Arc::clone(&stages), leg, ready_max, hears, to_conductor.clone());
    tokio::pin!(listening);
    let mut crew = Crew { stages, leg, to_conductor, first_model: 0, asks: HashMap::new(), voices: HashMap::new() };
    let (mut outputs, mut stalled) = (Vec::new(), false);
    loop {
        let input = match stalled {
            true => Input::Stalled,
            false => tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => Input::Command(command),
                    None => break,
                },
                Some(input) = inputs.recv() => input,
                fault = &mut listening => {
                    let fault = fault?;
                    // What it is lost for is told first; of what else is on its way nothing matters any more.
                    while let Ok(input) = inputs.try_recv() {
                        if let Input::Stumbled(stumble) = input {
                            events.send(AgentEvent::Stumbled(stumble)).await.ok()?;
                        }
                    }
                    Input::Deaf(fault)
                }
                () = until(conductor.deadline()) => Input::Time,
            },
        };
        crew.notice(&input);
        conductor.step(input, Instant::now().into_std(), &mut outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Tell(AgentEvent::Lost(loss)) => return Some(loss),
                Output::Tell(event) => events.send(event).await.ok()?,
                Output::Listen(hear_this) => {
                    stalled |= matches!(hear.try_send(hear_this), Err(TrySendError::Full(_)));
                }
                Output::Ask { ask, what } => crew.ask(ask, what),
                Output::StopAsking(ask) => drop(crew.asks.remove(&ask)),
                Output::Speak { clause, text } => crew.speak(clause, text),
                Output::Quiet => crew.voices.clear(),
                Output::Forgot => {
                    crew.stages.models.first().into_iter().for_each(|model| model.was_odd(Oddity::Forgotten))
                }
            }
        }
    }
    // Nothing more is answered or spoken, and the listener is told that nothing more is heard.
    drop((crew, inputs, hear));
    let _ = timeout(GOODBYE_MAX, listening).await;
    None
}

/// The tasks of one call; each ends when it is dropped.
struct Crew {
    stages: Arc<Stages>,
    leg: Format,
    to_conductor: mpsc::Sender<Input>,
    /// The place of the model that is asked first for an answer: the one after who broke off last, until one is whole again.
    first_model: usize,
    asks: HashMap<u64, Asked>,
    voices: HashMap<u64, AbortOnDropHandle<()>>,
}

struct Asked {
    /// It is a summary. How that comes out says nothing of who is to answer a caller, and the other way round.
    aside: bool,
    _task: AbortOnDropHandle<()>,
}

impl Crew {
    fn ask(&mut self, ask: u64, what: Ask) {
        let aside = what.order == Some(Order::SumUp);
        let first = if aside { 0 } else { self.first_model };
        let (models, to) = (self.stages.models.to_ask_from(first), self.to_conductor.clone());
        let task = tokio::spawn(async move {
            let (by, how) = answer(models, ask, what, &to).await;
            let _ = to.send(Input::Answered { ask, by, how }).await;
        });
        self.asks.insert(ask, Asked { aside, _task: AbortOnDropHandle::new(task) });
    }

    fn speak(&mut self, clause: u64, text: String) {
        let (voices, leg, to) = (self.stages.voices.to_ask(), self.leg, self.to_conductor.clone());
        let task = tokio::spawn(async move {
            let how = speak(voices, leg, clause, text, &to).await;
            let _ = to.send(Input::Spoken { clause, how }).await;
        });
        self.voices.insert(clause, AbortOnDropHandle::new(task));
    }

    /// What is over needs no task any more.
    fn notice(&mut self, input: &Input) {
        match input {
            Input::Answered { ask, by, how } => {
                let asked = self.asks.remove(ask);
                if asked.is_some_and(|asked| !asked.aside) {
                    self.first_model = if how.is_ok() { 0 } else { by + 1 };
                }
            }
            Input::Spoken { clause, .. } => drop(self.voices.remove(clause)),
            _ => {}
        }
    }
}

/// For who is told what the agent survives.
async fn stumbled(part: Part, fault: &Fault, to: &mpsc::Sender<Input>) {
    let is_slow = matches!(fault, Fault::Slow(_) | Fault::NoPlace(_));
    let _ = to.send(Input::Stumbled(Stumble { part, is_slow })).await;
}

// ---- The model ----

/// One answer, by the first model that gives one, and its place. Once something of it was told, no other can go on.
async fn answer(
    mut models: ToAsk<dyn Model>,
    ask: u64,
    what: Ask,
    to: &mpsc::Sender<Input>,
) -> (usize, Result<Finish, Fault>) {
    let mut last = (0, Err(Fault::Garbage("there is no model")));
    let aside = what.order == Some(Order::SumUp);
    while let Some(rank) = models.next() {
        let (place, since) = (rank.place, Instant::now());
        let (begun, how) = answer_by(&rank, ask, what.clone(), to).await;
        let fault = match how {
            Ok(finish) => {
                rank.worked();
                return (place, Ok(finish));
            }
            Err(fault) => fault,
        };
        if !aside {
            stumbled(Part::Model, &fault, to).await;
        }
        models.failed(rank, &fault, !begun && since.elapsed() < QUICK).await;
        last = (place, Err(fault));
        if begun {
            break;
        }
    }
    last
}

/// Whether anything was told, and how it ended.
async fn answer_by(
    rank: &Rank<dyn Model>,
    ask: u64,
    what: Ask,
    to: &mpsc::Sender<Input>,
) -> (bool, Result<Finish, Fault>) {
    let since = Instant::now();
    let (pieces, mut told) = mpsc::channel(WORDS_MAX);
    let answering = rank.service.answer(what, pieces);
    tokio::pin!(answering);
    let (mut begun, mut how) = (false, None);
    loop {
        tokio::select! {
            biased;
            piece = told.recv() => {
                let Some(piece) = piece else { break };
                if let Piece::Oddity(oddity) = piece {
                    rank.was_odd(oddity);
                    continue;
                }
                if !matches!(piece, Piece::Usage(_)) && !std::mem::replace(&mut begun, true) {
                    rank.first_result(since.elapsed());
                }
                let _ = to.send(Input::Piece { ask, piece }).await;
            }
            // What it has told last is still in the channel.
            result = &mut answering, if how.is_none() => how = Some(result),
        }
    }
    let how = match how {
        Some(how) => how,
        None => answering.await,
    };
    (begun, how)
}

// ---- The voice ----

/// One clause, by the first voice that speaks it. Another one in the middle of it would frighten the caller.
async fn speak(
    mut voices: ToAsk<dyn Voice>,
    leg: Format,
    clause: u64,
    text: String,
    to: &mpsc::Sender<Input>,
) -> Result<(), Fault> {
    let mut last = Fault::Garbage("there is no voice");
    while let Some(rank) = voices.next() {
        let since = Instant::now();
        let (sounded, how) = speak_by(&rank, leg, clause, &text, to).await;
        let Err(fault) = how else {
            rank.worked();
            return Ok(());
        };
        stumbled(Part::Voice, &fault, to).await;
        voices.failed(rank, &fault, !sounded && since.elapsed() < QUICK).await;
        if sounded {
            return Err(fault);
        }
        last = fault;
    }
    Err(last)
}

/// Whether anything was heard, and how it ended.
async fn speak_by(
    rank: &Rank<dyn Voice>,
    leg: Format,
    clause: u64,
    text: &str,
    to: &mpsc::Sender<Input>,
) -> (bool, Result<(), Fault>) {
    let since = Instant::now();
    let mut sounds = rank.service.stream(text.to_owned(), leg);
    let mut converter: Option<(Format, Converter)> = None;
    let mut length = Duration::ZERO;
    let mut tell = async |audio: Vec<u8>| {
        if audio.is_empty() {
            return Ok(());
        }
        let piece = leg.duration_of(audio.len());
        if length.is_zero() {
            rank.first_result(since.elapsed());
        }
        length += piece;
        let _ = to.send(Input::Sound { clause, audio: audio.into(), length: piece }).await;
        if length > CLAUSE_MAX { Err(Fault::Garbage("a clause that does not end")) } else { Ok(()) }
    };
    let how = loop {
        let sound = match sounds.next().await {
            None => break Ok(()),
            Some(Err(error)) => break Err(error.into()),
            Some(Ok(sound)) => sound,
        };
        // The first piece says what the others are.
        let (from, converter) = converter.get_or_insert_with(|| (sound.format, Converter::new(sound.format, leg)));
        if *from != sound.format {
            break Err(Fault::Garbage("a clause in two formats"));
        }
        let mut audio = Vec::new();
        converter.push(&sound.audio, &mut audio);
        if let Err(fault) = tell(audio).await {
            break Err(fault);
        }
    };
    let mut rest = Vec::new();
    if let Some((_, converter)) = &mut converter {
        converter.flush(&mut rest);
    }
    let rest = tell(rest).await;
    match how.and(rest) {
        Ok(()) if length.is_zero() => (false, Err(Fault::Garbage("no sound"))),
        how => (!length.is_zero(), how),
    }
}

// ---- The listener ----

/// Listens for the whole call, by whichever listener works; ends when none does, or with `None` when the call has left.
async fn listen(
    stages: Arc<Stages>,
    leg: Format,
    ready_max: Duration,
    hears: mpsc::Receiver<Hear>,
    to: mpsc::Sender<Input>,
) -> Option<Fault> {
    let deaf_until = Some(Instant::now() + ready_max);
    let mut ears = Ears { leg, hears, to, kept: Kept::default(), ended: VecDeque::new(), worked: false, deaf_until };
    // Since the words of a turn last came.
    let mut slow = 0;
    loop {
        let (mut listeners, mut worked) = (stages.listeners.to_ask(), false);
        let mut last = Fault::Garbage("there is no listener");
        while let Some(mut rank) = listeners.next() {
            last = ears.listen_by(&rank, listeners.others()).await?;
            if std::mem::take(&mut ears.worked) {
                (worked, slow) = (true, 0);
                rank.renew();
            }
            let too_late = ears.deaf_until.is_some_and(|until| Instant::now() >= until);
            let is_slow = matches!(last, Fault::Slow(_));
            slow += usize::from(is_slow && !ears.ended.is_empty());
            // A caller who waits for their words to be understood has waited for each of them.
            let in_vain = too_late || slow >= stages.listeners.len().max(TIMES_HEARD);
            // Who lets a caller wait may do so again, and somebody else is there.
            let may_repeat = !(in_vain || is_slow && listeners.others() > 0);
            stumbled(Part::Listener, &last, &ears.to).await;
            listeners.failed(rank, &last, may_repeat).await;
            if in_vain {
                return Some(last);
            }
        }
        // One that has written something down may do so again, and those before it as well.
        if !worked {
            return Some(last);
        }
    }
}

struct Ears {
    leg: Format,
    hears: mpsc::Receiver<Hear>,
    to: mpsc::Sender<Input>,
    kept: Kept,
    /// When the turns ended whose words are not known.
    ended: VecDeque<Instant>,
    /// The words of a turn came of the listener that listens.
    worked: bool,
    /// While nobody listens: how long that may be so.
    deaf_until: Option<Instant>,
}

impl Ears {
    /// Listens until the listener fails, or the call leaves, which is `None`. It is told first what the one before it has
    /// left. So many `others` have not been asked yet.
    async fn listen_by(&mut self, rank: &Rank<dyn Listener>, others: u32) -> Option<Fault> {
        let format = rank.service.format(self.leg);
        let mut converter = Converter::new(self.leg, format);
        let (tell, input) = mpsc::channel(HEARS_MAX.max(KEPT_MAX));
        let (words, mut heard) = mpsc::channel(WORDS_MAX);
        let listening = rank.service.listen(format, input, words);
        tokio::pin!(listening);
        let since = Instant::now();
        let deaf_until = *self.deaf_until.get_or_insert(since + DEAF_MAX);
        // It has its share of that time, so that each of the others has one.
        let mut ready_until = Some(since + deaf_until.saturating_duration_since(since) / (1 + others));
        if self.kept.forgotten > 0 {
            rank.was_odd(Oddity::Forgotten);
        }
        for hear in self.kept.told_again(self.leg.frame_bytes() * 50) {
            let _ = tell.try_send(converted(&hear, &mut converter));
        }
        loop {
            tokio::select! {
                biased;
                Some(heard) = heard.recv() => {
                    if let Heard::Oddity(oddity) = heard {
                        rank.was_odd(oddity);
                        continue;
                    }
                    (self.deaf_until, ready_until) = (None, None);
                    if matches!(heard, Heard::Turn { .. }) {
                        self.worked = true;
                        self.kept.turn_is_known();
                        rank.worked();
                        self.ended.pop_front().into_iter().for_each(|ended| rank.first_result(ended.elapsed()));
                    }
                    let _ = self.to.send(Input::Heard(heard)).await;
                }
                how = &mut listening => return Some(how.err().unwrap_or(Fault::Closed(None))),
                () = until(ready_until.map(Instant::into_std)) => return Some(Fault::Slow(since.elapsed())),
                hear = self.hears.recv() => {
                    let Some(hear) = hear else {
                        drop(tell);
                        let _ = listening.await;
                        return None;
                    };
                    let told = tell.try_send(converted(&hear, &mut converter));
                    if hear == Hear::TurnEnded && self.ended.len() < TURNS_MAX {
                        self.ended.push_back(Instant::now());
                    }
                    self.kept.keep(hear);
                    if let Err(TrySendError::Full(_)) = told {
                        return Some(Fault::Slow(self.leg.duration_of(HEARS_MAX * self.leg.frame_bytes())));
                    }
                }
            }
        }
    }
}

fn converted(hear: &Hear, converter: &mut Converter) -> Hear {
    match hear {
        Hear::Audio(audio) if !converter.is_identity() => {
            let mut converted = Vec::with_capacity(audio.len() * 2);
            converter.push(audio, &mut converted);
            Hear::Audio(converted.into())
        }
        hear => hear.clone(),
    }
}

async fn until(deadline: Option<std::time::Instant>) {
    match deadline {
        Some(deadline) => sleep_until(Instant::from_std(deadline)).await,
        None => std::future::pending().await,
    }
}
