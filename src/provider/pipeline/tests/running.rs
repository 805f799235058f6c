//! The stages of one call at work, by services that do what the test says.

mod asides;
mod losing;

use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn, Part, Stumble},
    llm::{Ask, Finish, Model, Piece},
    provider::pipeline::{
        Stages,
        conductor::Conductor,
        history::History,
        questions::Questions,
        ranks::{Rank, Ranks},
        run,
    },
    remote::{Fault, wards::Wards},
    speech::{Sound, Voice, VoiceError},
    stt::{Hear, Heard, Listener},
    tool::schemas::Dialect,
};
use bytes::Bytes;
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use prometheus::Registry;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

/// One slot of the caller's track.
const FRAME: Duration = Duration::from_millis(20);
/// What a call gives its first agent, about.
const READY_MAX: Duration = Duration::from_secs(6);

/// What a service of any kind would take, if it were waited for.
const WAIT: Duration = Duration::from_secs(4);

/// What becomes of a request.
enum Does {
    Works,
    /// After so long.
    Fails(Duration, Fault),
    /// What the test hands it, a token at a time; it never ends by itself.
    Writes(mpsc::Receiver<&'static str>),
    /// After it has told this.
    BreaksOff(&'static str),
    /// Nothing comes.
    Hangs,
}

/// A service of any stage, and how often it was asked.
struct Puppet {
    plan: Mutex<VecDeque<Does>>,
    retries: u32,
    asked: watch::Sender<usize>,
    /// Requests that are under way.
    busy: watch::Sender<usize>,
    /// Listeners' sessions that ended because nothing more was to be heard.
    goodbyes: watch::Sender<usize>,
    /// What a voice was asked to say.
    clauses: Mutex<Vec<String>>,
    /// What a listener has heard, in frames.
    frames: watch::Sender<usize>,
}

struct Busy(watch::Sender<usize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.send_modify(|busy| *busy -= 1);
    }
}

impl Puppet {
    fn new(retries: u32, plan: impl IntoIterator<Item = Does>) -> Arc<Self> {
        let plan = Mutex::new(plan.into_iter().collect());
        let (asked, busy, goodbyes) = (watch::Sender::new(0), watch::Sender::new(0), watch::Sender::new(0));
        let frames = watch::Sender::new(0);
        Arc::new(Self { plan, retries, asked, busy, goodbyes, clauses: Mutex::default(), frames })
    }

    fn begins(&self) -> (Does, Busy) {
        self.asked.send_modify(|asked| *asked += 1);
        self.busy.send_modify(|busy| *busy += 1);
        let next = self.plan.lock().unwrap().pop_front().unwrap_or(Does::Works);
        (next, Busy(self.busy.clone()))
    }

    fn times(&self) -> usize {
        *self.asked.borrow()
    }

    /// Until so many requests have begun.
    async fn is_asked(&self, times: usize) {
        let mut asked = self.asked.subscribe();
        timeout(Duration::from_secs(60), asked.wait_for(|asked| *asked >= times)).await.expect("it is asked").unwrap();
    }

    /// How long it takes until it is left alone.
    async fn is_left_alone(&self) -> Duration {
        let (since, mut busy) = (Instant::now(), self.busy.subscribe());
        timeout(Duration::from_secs(60), busy.wait_for(|busy| *busy == 0)).await.expect("it is left alone").unwrap();
        since.elapsed()
    }
}

impl Model for Puppet {
    fn kind(&self) -> &'static str {
        "puppet"
    }

    fn dialect(&self) -> Dialect {
        Dialect::ChatCompletions
    }

    fn retries(&self) -> u32 {
        self.retries
    }

    fn word_max(&self) -> Duration {
        WAIT
    }

    fn answer(&self, _: Ask, pieces: mpsc::Sender<Piece>) -> BoxFuture<'static, Result<Finish, Fault>> {
        let (does, busy) = self.begins();
        async move {
            let _busy = busy;
            match does {
                Does::Works => drop(pieces.send(Piece::Text("Hello.".into())).await),
                Does::Fails(after, fault) => {
                    sleep(after).await;
                    return Err(fault);
                }
                Does::Writes(mut tokens) => {
                    while let Some(token) = tokens.recv().await {
                        let _ = pieces.send(Piece::Text(token.into())).await;
                    }
                    std::future::pending().await
                }
                Does::BreaksOff(words) => {
                    let _ = pieces.send(Piece::Text(words.into())).await;
                    return Err(Fault::Closed(None));
                }
                Does::Hangs => std::future::pending().await,
            }
            Ok(Finish::Stop)
        }
        .boxed()
    }
}

impl Voice for Puppet {
    fn kind(&self) -> &'static str {
        "puppet"
    }

    fn retries(&self) -> u32 {
        self.retries
    }

    fn first_sound_max(&self) -> Duration {
        WAIT
    }

    fn speak<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<crate::audio::Clip, VoiceError>> {
        std::future::ready(Err(VoiceError::Missing)).boxed()
    }

    /// One frame; the voice that never ends waits after it.
    fn stream(&self, text: String, leg: Format) -> BoxStream<'static, Result<Sound, VoiceError>> {
        let (does, busy) = self.begins();
        self.clauses.lock().unwrap().push(text);
        let sound = Sound { format: leg, audio: Bytes::from(vec![1; leg.frame_bytes()]) };
        let sounds: BoxStream<'static, _> = match does {
            Does::Works => stream::iter([Ok(sound)]).boxed(),
            Does::Fails(after, fault) => stream::once(async move {
                sleep(after).await;
                Err(fault.into())
            })
            .boxed(),
            Does::Writes(_) | Does::BreaksOff(_) => stream::iter([Ok(sound)]).chain(stream::pending()).boxed(),
            Does::Hangs => stream::pending().boxed(),
        };
        sounds
            .map(move |sound| {
                let _busy = &busy;
                sound
            })
            .boxed()
    }
}

impl Listener for Puppet {
    fn kind(&self) -> &'static str {
        "puppet"
    }

    fn retries(&self) -> u32 {
        self.retries
    }

    fn turn_max(&self) -> Duration {
        WAIT
    }

    fn format(&self, leg: Format) -> Format {
        leg
    }

    /// Hears "Hello." in every turn. One that fails does so with its first turn, one that hangs is never there.
    fn listen(
        &self,
        _: Format,
        mut input: mpsc::Receiver<Hear>,
        words: mpsc::Sender<Heard>,
    ) -> BoxFuture<'static, Result<(), Fault>> {
        let (does, busy) = self.begins();
        let (goodbyes, frames) = (self.goodbyes.clone(), self.frames.clone());
        async move {
            let _busy = busy;
            if matches!(does, Does::Hangs) {
                return std::future::pending().await;
            }
            let _ = words.send(Heard::Ready).await;
            while let Some(hear) = input.recv().await {
                if let Hear::Audio(audio) = &hear {
                    frames.send_modify(|frames| *frames += audio.len() / Format::ULAW.frame_bytes());
                }
                if hear == Hear::TurnEnded {
                    if let Does::Fails(after, fault) = does {
                        sleep(after).await;
                        return Err(fault);
                    }
                    let _ = words.send(Heard::Turn { text: "Hello.".into() }).await;
                }
            }
            goodbyes.send_modify(|goodbyes| *goodbyes += 1);
            Ok(())
        }
        .boxed()
    }
}

struct Play {
    commands: mpsc::Sender<AgentCommand>,
    events: mpsc::Receiver<AgentEvent>,
    task: JoinHandle<Option<AgentLoss>>,
    registry: Registry,
}

fn at_once(fault: Fault) -> Does {
    Does::Fails(Duration::ZERO, fault)
}

fn closed() -> Does {
    at_once(Fault::Closed(None))
}

impl Play {
    fn begin(listeners: &[Arc<Puppet>], models: &[Arc<Puppet>], voices: &[Arc<Puppet>]) -> Self {
        Self::remembering((10_000, true), listeners, models, voices)
    }

    /// So many characters, and whether the model sums up what was said before.
    fn remembering(
        (chars, sums_up): (usize, bool),
        listeners: &[Arc<Puppet>],
        models: &[Arc<Puppet>],
        voices: &[Arc<Puppet>],
    ) -> Self {
        let registry = Registry::new();
        let wards = Wards::new(Arc::default(), &registry);
        let ward = |section, at: usize| wards.ward(section, &at.to_string(), "puppet");
        fn ranks<T: ?Sized>(all: &[Arc<Puppet>], one: impl Fn(usize, Arc<Puppet>) -> Rank<T>) -> Ranks<T> {
            Ranks::new(all.iter().enumerate().map(|(at, puppet)| one(at, Arc::clone(puppet))).collect())
        }
        let stages = Stages {
            listeners: ranks(listeners, |at, one| {
                Rank::new(one.clone() as Arc<dyn Listener>, ward("stt", at), one.retries)
            }),
            models: ranks(models, |at, one| Rank::new(one.clone() as Arc<dyn Model>, ward("llm", at), one.retries)),
            voices: ranks(voices, |at, one| Rank::new(one.clone() as Arc<dyn Voice>, ward("voices", at), one.retries)),
        };
        let questions = Questions::new([].into(), "key".into(), Arc::default());
        let conductor = Conductor::new(History::new(String::new(), chars), questions, sums_up);
        let (commands, to_play) = mpsc::channel(64);
        let (from_play, events) = mpsc::channel(64);
        let task = tokio::spawn(run::play(Arc::new(stages), conductor, Format::ULAW, READY_MAX, to_play, from_play));
        Self { commands, events, task, registry }
    }

    /// One whose other stages work.
    fn of_models(models: &[Arc<Puppet>]) -> Self {
        Self::begin(&[Puppet::new(0, [])], models, &[Puppet::new(0, [])])
    }

    async fn turns(&self, turns: &[CallerTurn]) {
        for turn in turns {
            self.commands.send(AgentCommand::Turn(*turn)).await.expect("it plays");
        }
    }

    async fn caller_says_hello(&mut self) {
        self.turns(&[CallerTurn::Began, CallerTurn::Ended]).await;
    }

    /// Whether the caller is answered.
    async fn answers(&mut self) -> bool {
        let answer = async {
            loop {
                match self.events.recv().await {
                    Some(AgentEvent::Audio { .. }) => return true,
                    Some(_) => {}
                    None => return false,
                }
            }
        };
        timeout(Duration::from_secs(60), answer).await.expect("an answer or an end")
    }

    /// What it has stumbled over when the caller is answered.
    async fn stumbles(&mut self) -> Vec<(Part, bool)> {
        let mut stumbles = Vec::new();
        let answer = async {
            loop {
                match self.events.recv().await.expect("it goes on") {
                    AgentEvent::Stumbled(Stumble { part, is_slow }) => stumbles.push((part, is_slow)),
                    AgentEvent::Audio { .. } => return,
                    _ => {}
                }
            }
        };
        timeout(Duration::from_secs(60), answer).await.expect("an answer");
        stumbles
    }

    async fn ends_its_answer(&mut self) {
        let end = async { while !matches!(self.events.recv().await, Some(AgentEvent::ResponseDone { .. }) | None) {} };
        timeout(Duration::from_secs(60), end).await.expect("it ends");
    }

    fn metric(&self, line: &str) -> bool {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        text.lines().any(|shown| shown == line)
    }
}

/// The figure: within one token of its end.
#[tokio::test(start_paused = true)]
async fn the_first_clause_goes_to_the_voice_within_one_token_of_its_end() {
    for (tokens, clause) in [
        (&["It", " is", " noon", ".", " And"][..], "It is noon."),
        (&["Of", " course", ", I can", ","][..], ""),
        (&["Of course", ", I can help", ",", " just"][..], "Of course, I can help,"),
        (&["Ja", "!", " "][..], "Ja!"),
    ] {
        let (write, writes) = mpsc::channel(16);
        let (model, voice) = (Puppet::new(0, [Does::Writes(writes)]), Puppet::new(0, []));
        let mut play = Play::begin(&[Puppet::new(0, [])], &[Arc::clone(&model)], &[Arc::clone(&voice)]);
        play.caller_says_hello().await;
        model.is_asked(1).await;
        let (last, before) = tokens.split_last().unwrap();
        for token in before {
            write.send(*token).await.unwrap();
        }
        // The clock is still: everybody has done all that they can when it moves.
        sleep(FRAME).await;
        assert_eq!(voice.times(), 0, "{tokens:?}: it may go on");
        write.send(*last).await.unwrap();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(voice.clauses.lock().unwrap().concat(), clause, "{tokens:?}");
    }
}

/// The figure: within one frame.
#[tokio::test(start_paused = true)]
async fn who_is_interrupted_asks_neither_model_nor_voice_a_frame_later() {
    let (write, writes) = mpsc::channel(16);
    let (_endless, never) = mpsc::channel(1);
    let (model, voice) = (Puppet::new(0, [Does::Writes(writes)]), Puppet::new(0, [Does::Writes(never)]));
    let mut play = Play::begin(&[Puppet::new(0, [])], &[Arc::clone(&model)], &[Arc::clone(&voice)]);
    play.caller_says_hello().await;
    model.is_asked(1).await;
    write.send("It is noon. And it rains").await.unwrap();
    assert!(play.answers().await);
    assert_eq!((*model.busy.borrow(), *voice.busy.borrow()), (1, 1));
    play.turns(&[CallerTurn::Began]).await;
    let took = (model.is_left_alone().await, voice.is_left_alone().await);
    assert!(took.0 < FRAME && took.1 < FRAME, "{took:?}");
    let told: Vec<AgentEvent> = std::iter::from_fn(|| play.events.try_recv().ok()).collect();
    assert!(!told.iter().any(|event| matches!(event, AgentEvent::Audio { .. })), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_in_passing_is_asked_again_and_then_the_next_one() {
    let (first, second) = (Puppet::new(2, [closed(), closed(), closed()]), Puppet::new(0, []));
    let mut play = Play::of_models(&[Arc::clone(&first), Arc::clone(&second)]);
    play.caller_says_hello().await;
    assert!(play.answers().await);
    assert_eq!((first.times(), second.times()), (3, 1));
    for line in [
        "offhook_stage_requests_total{kind=\"puppet\",outcome=\"closed\",service=\"llm.0\"} 3",
        "offhook_stage_requests_total{kind=\"puppet\",outcome=\"done\",service=\"llm.1\"} 1",
        "offhook_stage_first_result_seconds_count{kind=\"puppet\",service=\"llm.1\"} 1",
        "offhook_stage_first_result_seconds_count{kind=\"puppet\",service=\"llm.0\"} 0",
        "offhook_stage_requests_total{kind=\"puppet\",outcome=\"done\",service=\"stt.0\"} 1",
        "offhook_stage_first_result_seconds_count{kind=\"puppet\",service=\"stt.0\"} 1",
        "offhook_stage_first_result_seconds_count{kind=\"puppet\",service=\"voices.0\"} 1",
    ] {
        assert!(play.metric(line), "{line}");
    }
}

/// What the call survives is told all the same, each attempt by who has failed.
#[tokio::test(start_paused = true)]
async fn who_fails_in_passing_is_told() {
    let slow = at_once(Fault::Slow(Duration::from_secs(1)));
    let listeners = [Puppet::new(1, [closed()])];
    let models = [Puppet::new(0, [closed()]), Puppet::new(0, [slow]), Puppet::new(0, [])];
    let voices = [Puppet::new(1, [closed()])];
    let mut play = Play::begin(&listeners, &models, &voices);
    play.caller_says_hello().await;
    let told = [(Part::Listener, false), (Part::Model, false), (Part::Model, true), (Part::Voice, false)];
    assert_eq!(play.stumbles().await, told);
}

/// Whether or not its first words were heard, by the second one until its answer is whole.
#[tokio::test(start_paused = true)]
async fn the_next_model_is_asked_for_what_another_broke_off_and_the_first_again_after_that() {
    for begun in ["One mom", "One moment. I lo"] {
        let (first, second) = (Puppet::new(2, [Does::BreaksOff(begun)]), Puppet::new(0, []));
        let mut play = Play::of_models(&[Arc::clone(&first), Arc::clone(&second)]);
        play.caller_says_hello().await;
        second.is_asked(1).await;
        assert!(play.answers().await);
        assert_eq!((first.times(), second.times()), (1, 1), "{begun}");
        play.caller_says_hello().await;
        first.is_asked(2).await;
    }
    // Who is alone is asked again.
    let only = Puppet::new(0, [Does::BreaksOff("One mom")]);
    let mut play = Play::of_models(&[Arc::clone(&only)]);
    play.caller_says_hello().await;
    assert!(play.answers().await);
    assert_eq!(only.times(), 2);
}

/// Of what was said for longer than that, a listener that takes over is told the end, and that is counted.
#[tokio::test(start_paused = true)]
async fn a_listener_that_takes_over_a_turn_of_more_than_30_seconds_is_told_its_end() {
    for (frames, forgotten) in [(1_490, 0), (1_600, 1)] {
        let (first, second) = (Puppet::new(0, [closed()]), Puppet::new(0, []));
        let mut play =
            Play::begin(&[Arc::clone(&first), Arc::clone(&second)], &[Puppet::new(0, [])], &[Puppet::new(0, [])]);
        play.turns(&[CallerTurn::Began]).await;
        for _ in 0..frames {
            let frame = Bytes::from(vec![1; Format::ULAW.frame_bytes()]);
            play.commands.send(AgentCommand::Audio(frame)).await.expect("it plays");
        }
        play.turns(&[CallerTurn::Ended]).await;
        assert!(play.answers().await);
        let line = |service, times| {
            format!(
                "offhook_stage_oddities_total{{kind=\"puppet\",oddity=\"forgotten\",service=\"stt.{service}\"}} {times}"
            )
        };
        assert!(play.metric(&line(0, 0)) && play.metric(&line(1, forgotten)), "{frames}");
        let heard = *second.frames.borrow();
        assert!(if forgotten == 0 { heard == frames } else { (1_490..1_500).contains(&heard) }, "{heard} of {frames}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_heal_or_took_long_is_not_repeated_to_a_caller_who_waits() {
    let refused = |status| Fault::Refused { status, code: None, retry_after: None };
    let patient = Fault::Refused { status: 429, code: None, retry_after: Some(Duration::from_secs(30)) };
    for failing in [
        at_once(refused(401)),
        at_once(patient),
        at_once(Fault::Garbage("no answer")),
        Does::Fails(Duration::from_secs(2), Fault::Closed(None)),
    ] {
        let (first, second) = (Puppet::new(2, [failing]), Puppet::new(0, []));
        let mut play = Play::of_models(&[Arc::clone(&first), Arc::clone(&second)]);
        play.caller_says_hello().await;
        assert!(play.answers().await);
        assert_eq!((first.times(), second.times()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_voice_is_asked_again_for_a_clause_of_which_nothing_was_heard() {
    let (first, second) = (Puppet::new(1, [closed(), closed()]), Puppet::new(0, []));
    let mut play =
        Play::begin(&[Puppet::new(0, [])], &[Puppet::new(0, [])], &[Arc::clone(&first), Arc::clone(&second)]);
    play.caller_says_hello().await;
    assert!(play.answers().await);
    assert_eq!((first.times(), second.times()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_listener_is_begun_again_and_then_the_next_one_and_the_turn_is_heard_by_each() {
    let (first, second) = (Puppet::new(1, [closed(), closed()]), Puppet::new(0, []));
    let mut play =
        Play::begin(&[Arc::clone(&first), Arc::clone(&second)], &[Puppet::new(0, [])], &[Puppet::new(0, [])]);
    play.caller_says_hello().await;
    assert!(play.answers().await);
    assert_eq!((first.times(), second.times()), (2, 1));
}

/// The words of the turn are not waited for as often as it may fail at once.
#[tokio::test(start_paused = true)]
async fn who_is_not_understood_waits_for_each_listener_once_and_for_one_that_is_alone_twice() {
    let slow = || Does::Fails(WAIT, Fault::Slow(WAIT));
    for listeners in 1..=3 {
        let all = Vec::from_iter((0..listeners).map(|_| Puppet::new(5, std::iter::repeat_with(slow).take(9))));
        let mut play = Play::begin(&all, &[Puppet::new(0, [])], &[Puppet::new(0, [])]);
        let since = Instant::now();
        play.caller_says_hello().await;
        assert!(!play.answers().await, "nobody understands the caller");
        assert_eq!(play.task.await.unwrap(), Some(AgentLoss::Unreachable));
        let waits = since.elapsed().as_secs_f64() / WAIT.as_secs_f64();
        assert_eq!(waits.round() as usize, all.len().max(run::TIMES_HEARD), "{listeners} of them: {waits}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_hangs_leaves_the_next_ones_their_share_of_the_time() {
    let hangs = || Puppet::new(2, [Does::Hangs, Does::Hangs, Does::Hangs]);
    for (hanging, ready) in [(1, READY_MAX / 2), (2, READY_MAX / 3 * 2)] {
        let (mut all, last) = (Vec::from_iter((0..hanging).map(|_| hangs())), Puppet::new(0, []));
        all.push(Arc::clone(&last));
        let since = Instant::now();
        let mut play = Play::begin(&all, &[Puppet::new(0, [])], &[Puppet::new(0, [])]);
        for _ in 0..hanging {
            let slow = Stumble { part: Part::Listener, is_slow: true };
            assert_eq!(play.events.recv().await, Some(AgentEvent::Stumbled(slow)));
        }
        assert!(matches!(play.events.recv().await, Some(AgentEvent::Ready)));
        assert!(since.elapsed() <= ready + FRAME, "{:?} of {READY_MAX:?} for {hanging} that hang", since.elapsed());
        play.caller_says_hello().await;
        assert!(play.answers().await);
        assert!(all.iter().all(|listener| listener.times() == 1), "each was asked once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_is_slow_with_a_turn_is_not_asked_again_where_another_is_there() {
    let slow = || Does::Fails(Duration::from_secs(4), Fault::Slow(Duration::from_secs(4)));
    let (first, second) = (Puppet::new(2, [slow(), slow()]), Puppet::new(0, []));
    let mut play =
        Play::begin(&[Arc::clone(&first), Arc::clone(&second)], &[Puppet::new(0, [])], &[Puppet::new(0, [])]);
    let since = Instant::now();
    play.caller_says_hello().await;
    assert!(play.answers().await);
    assert_eq!((first.times(), second.times(), since.elapsed().as_secs()), (1, 1, 4));
    // Where nobody else is there it is asked again.
    let only = Puppet::new(1, [slow()]);
    let mut play = Play::begin(&[Arc::clone(&only)], &[Puppet::new(0, [])], &[Puppet::new(0, [])]);
    play.caller_says_hello().await;
    assert!(play.answers().await);
    assert_eq!(only.times(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_leaves_says_goodbye_to_its_listener_and_waits_for_none_that_hangs() {
    for (does, takes) in [(Does::Works, Duration::ZERO), (Does::Hangs, Duration::from_secs(1))] {
        let hangs = matches!(does, Does::Hangs);
        let listener = Puppet::new(0, [does]);
        let Play { commands, events, task, .. } =
            Play::begin(&[Arc::clone(&listener)], &[Puppet::new(0, [])], &[Puppet::new(0, [])]);
        listener.is_asked(1).await;
        let since = Instant::now();
        drop((commands, events));
        assert_eq!(task.await.unwrap(), None);
        assert_eq!((since.elapsed(), *listener.goodbyes.borrow()), (takes, usize::from(!hangs)));
        assert_eq!(*listener.busy.borrow(), 0, "nothing of it is left");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_listeners_have_all_failed_is_lost() {
    let only = Puppet::new(2, [closed(), closed(), closed(), closed()]);
    let mut play = Play::begin(&[Arc::clone(&only)], &[Puppet::new(0, [])], &[Puppet::new(0, [])]);
    play.caller_says_hello().await;
    assert!(!play.answers().await);
    assert_eq!((only.times(), play.task.await.unwrap()), (3, Some(AgentLoss::Closed)));
}
