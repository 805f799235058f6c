//! The desk before a scribe that does what the test says, on a clock that is paused.

use super::*;
use crate::stt::stage::{TURN_MAX, short, soon};
use std::{f32::consts::TAU, sync::Mutex};
use tokio::{sync::watch, task::JoinHandle, time::Instant};

/// What becomes of one attempt.
#[derive(Clone)]
enum Does {
    /// So many milliseconds after the end of the utterance.
    Says(u64, &'static str),
    Fails(Fault),
    /// After so many bytes, whether the utterance has ended or not.
    Interrupts(usize, &'static str),
}

struct Clerk {
    plan: Mutex<Vec<Does>>,
    /// How many milliseconds each attempt has heard that was told the end of the utterance.
    heard: watch::Sender<Vec<u64>>,
}

impl Scribe for Clerk {
    const KIND: &'static str = "clerk";
    const FORMAT: Format = Format::SLIN16;

    fn patience(&self) -> Patience {
        Patience { timeout_ms: TURN_MAX.as_millis() as u64, retries: 1 }
    }

    fn write(
        self: Arc<Self>,
        mut audio: mpsc::Receiver<Bytes>,
        partials: mpsc::Sender<String>,
    ) -> BoxFuture<'static, Result<Written, Fault>> {
        let mut plan = self.plan.lock().unwrap();
        let does = if plan.len() > 1 { plan.remove(0) } else { plan[0].clone() };
        let heard = self.heard.clone();
        async move {
            let mut bytes = 0;
            while let Some(piece) = audio.recv().await {
                bytes += piece.len();
                if let Does::Interrupts(after, text) = does
                    && bytes >= after
                {
                    return Ok(Written { text: text.into(), ..Written::default() });
                }
            }
            heard.send_modify(|heard| heard.push(Format::SLIN16.duration_of(bytes).as_millis() as u64));
            match does {
                Does::Says(after, text) => {
                    let _ = partials.try_send("a partial".into());
                    sleep(Duration::from_millis(after)).await;
                    Ok(Written { text: text.into(), ..Written::default() })
                }
                Does::Fails(fault) => Err(fault),
                Does::Interrupts(..) => std::future::pending().await,
            }
        }
        .boxed()
    }
}

struct Line {
    input: mpsc::Sender<Hear>,
    words: mpsc::Receiver<Heard>,
    heard: watch::Receiver<Vec<u64>>,
    running: JoinHandle<Result<(), Fault>>,
}

async fn line(plan: &[Does]) -> Line {
    let (hearing, heard) = watch::channel(Vec::new());
    let clerk = Clerk { plan: Mutex::new(plan.to_vec()), heard: hearing };
    let (input, hears) = mpsc::channel(4_096);
    let (tells, mut words) = mpsc::channel(64);
    let running = tokio::spawn(run(Arc::new(clerk), hears, tells));
    assert_eq!(words.recv().await, Some(Heard::Ready));
    Line { input, words, heard, running }
}

impl Line {
    fn hears(&self, hear: Hear) -> &Self {
        self.input.try_send(hear).unwrap();
        self
    }

    fn sound(&self, milliseconds: usize) -> &Self {
        // A vowel: harmonics of 120 Hz above 300 Hz, as a telephone leaves them. Their period is no part of a frame.
        let sample = |i: usize| {
            let harmonics = (3..16).map(|n| (TAU * 120.0 * n as f32 * i as f32 / 16_000.0).cos());
            (harmonics.sum::<f32>() * 900.0) as i16
        };
        let frame = |number: usize| (0..320).flat_map(|i| sample(320 * number + i).to_le_bytes()).collect::<Vec<u8>>();
        for number in 0..milliseconds / 20 {
            self.hears(Hear::Audio(frame(number).into()));
        }
        self
    }

    fn silence(&self, milliseconds: usize) -> &Self {
        for _ in 0..milliseconds / 20 {
            self.hears(Hear::Audio(Bytes::from(vec![0; Format::SLIN16.frame_bytes()])));
        }
        self
    }

    async fn is_told(&mut self) -> Heard {
        soon(self.words.recv()).await.expect("the session goes on")
    }

    /// Up to the end of a turn, without the partials that are not stable.
    async fn story(&mut self) -> Vec<String> {
        let mut story = Vec::new();
        loop {
            let heard = self.is_told().await;
            if !matches!(heard, Heard::Partial { stable: false, .. }) {
                story.push(short(&heard));
            }
            if matches!(heard, Heard::Turn { .. }) {
                return story;
            }
        }
    }

    async fn fault(self) -> Fault {
        let Self { input: _input, words: _words, running, .. } = self;
        soon(running).await.unwrap().unwrap_err()
    }

    fn heard(&self) -> Vec<u64> {
        self.heard.borrow().clone()
    }
}

const BUSY: Fault = Fault::Refused { status: 503, code: None, retry_after: None };

#[tokio::test(start_paused = true)]
async fn a_turn_is_heard_from_its_lead_on() {
    let mut line = line(&[Does::Says(300, "Yes.")]).await;
    line.sound(5_000).hears(Hear::TurnBegan).sound(1_000).hears(Hear::TurnEnded).sound(1_000);
    assert_eq!(line.story().await, ["turn: Yes."]);
    line.hears(Hear::TurnBegan).hears(Hear::TurnEnded);
    line.story().await;
    assert_eq!(line.heard(), [2_200, 1_000], "and not what was heard in the turn before");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_when_the_turn_may_end_is_not_asked_again() {
    let mut line = line(&[Does::Says(300, "Yes.")]).await;
    line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnMayEnd).sound(200);
    assert_eq!(short(&line.is_told().await), "… a partial");
    assert_eq!(short(&line.is_told().await), "= Yes.");
    let before = Instant::now();
    line.hears(Hear::TurnEnded);
    assert_eq!(line.story().await, ["turn: Yes."]);
    assert_eq!((line.heard(), before.elapsed()), (vec![1_000], Duration::ZERO));
    // The same before the answer has come.
    line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnMayEnd).sound(200).hears(Hear::TurnEnded);
    assert_eq!(line.story().await, ["turn: Yes."]);
    assert_eq!(line.heard().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_goes_on_is_heard_as_a_whole() {
    let mut line = line(&[Does::Says(300, "Yes."), Does::Says(300, "Yes, a taxi.")]).await;
    line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnMayEnd).hears(Hear::TurnGoesOn).sound(1_000);
    line.hears(Hear::TurnGoesOn).hears(Hear::TurnEnded);
    assert_eq!(line.story().await, ["turn: Yes, a taxi."]);
    assert_eq!(line.heard().last(), Some(&2_000));
    // Also where the first answer is known already.
    line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnMayEnd);
    while !matches!(line.is_told().await, Heard::Partial { stable: true, .. }) {}
    line.hears(Hear::TurnGoesOn).sound(500).hears(Hear::TurnEnded);
    line.story().await;
    assert_eq!(line.heard().last(), Some(&1_500));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_none_is_not_answered_and_one_that_is_none_is_empty() {
    let mut line = line(&[Does::Says(0, "Yes.")]).await;
    line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnDropped).sound(200);
    line.hears(Hear::TurnBegan).hears(Hear::TurnEnded);
    assert_eq!(line.story().await, ["turn: Yes."]);
    assert_eq!(line.heard(), [200], "the next turn brings its own lead");
    line.hears(Hear::TurnEnded).sound(80).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
    assert_eq!((line.story().await, line.story().await), (vec!["turn: ".to_owned()], vec!["turn: ".to_owned()]));
    assert_eq!(line.heard().len(), 1, "too short to be asked");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_one_turn_is_not_the_beginning_of_the_next() {
    let mut line = line(&[Does::Says(0, "One."), Does::Says(0, "Two.")]).await;
    line.hears(Hear::TurnBegan).sound(1_000).hears(Hear::TurnEnded);
    assert_eq!(line.story().await, ["turn: One."]);
    line.hears(Hear::TurnBegan).sound(500).hears(Hear::TurnEnded);
    assert_eq!(line.story().await, ["turn: Two."]);
    assert_eq!(line.heard(), [1_000, 500]);
}

#[tokio::test(start_paused = true)]
async fn turns_are_answered_in_order_and_written_down_at_the_same_time() {
    let mut line = line(&[Does::Says(2_000, "One."), Does::Says(1_000, "Two.")]).await;
    let before = Instant::now();
    for _ in 0..2 {
        line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
    }
    assert_eq!(
        (line.story().await, line.story().await),
        (vec!["turn: One.".to_owned()], vec!["turn: Two.".to_owned()])
    );
    assert_eq!(before.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_has_a_hiccup_is_asked_again_and_one_that_stays_so_is_told() {
    let mut line = line(&[Does::Fails(BUSY), Does::Fails(BUSY), Does::Says(0, "Yes."), Does::Fails(BUSY)]).await;
    line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnMayEnd);
    soon(line.heard.wait_for(|heard| !heard.is_empty())).await.unwrap();
    line.hears(Hear::TurnEnded);
    assert_eq!(line.story().await, ["turn: Yes."], "what failed before the turn had ended does not count");
    line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
    assert_eq!(line.fault().await, BUSY);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_wants_to_be_left_alone_is_not_waited_for() {
    let busy = Fault::Refused { status: 429, code: None, retry_after: Some(Duration::from_secs(30)) };
    for fault in [busy, Fault::Refused { status: 401, code: None, retry_after: None }] {
        let line = line(&[Does::Fails(fault.clone()), Does::Says(0, "Yes.")]).await;
        let before = Instant::now();
        line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
        assert_eq!((line.fault().await, before.elapsed()), (fault, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn words_that_do_not_come_are_a_fault_in_time() {
    let line = line(&[Does::Says(60_000, "Yes.")]).await;
    line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
    let before = Instant::now();
    assert_eq!((line.fault().await, before.elapsed()), (Fault::Slow(TURN_MAX), TURN_MAX));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_finds_the_end_of_utterances_by_itself_is_heard_out() {
    let mut line = line(&[Does::Interrupts(32_000, "A taxi"), Does::Says(0, "to town.")]).await;
    line.sound(600).hears(Hear::TurnBegan).sound(400);
    assert_eq!(short(&line.is_told().await), "… A taxi");
    line.sound(600).hears(Hear::TurnEnded);
    assert_eq!(line.story().await, ["turn: A taxi to town."]);
    assert_eq!(line.heard(), [600]);
    let line = self::line(&[Does::Interrupts(0, "You")]).await;
    line.hears(Hear::TurnBegan).sound(20);
    assert!(matches!(line.fault().await, Fault::Garbage(_)), "before anything was said");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_has_ended_an_utterance_is_not_asked_about_the_silence_after_it() {
    // What it would write down of silence.
    let plan = [Does::Interrupts(32_000, "A taxi"), Does::Says(0, "Thank you.")];
    let mut line = line(&plan).await;
    line.sound(600).hears(Hear::TurnBegan).sound(400);
    assert_eq!(short(&line.is_told().await), "… A taxi");
    line.silence(600).hears(Hear::TurnMayEnd);
    assert_eq!(short(&line.is_told().await), "= A taxi", "it may be all");
    line.silence(400).hears(Hear::TurnEnded);
    assert_eq!((line.story().await, line.heard()), (vec!["turn: A taxi".to_owned()], vec![]));
    // The same without a moment at which the turn may end, and where the caller goes on late.
    for (goes_on, words) in [(0, "turn: A taxi"), (400, "turn: A taxi to town.")] {
        let mut line = self::line(&[Does::Interrupts(32_000, "A taxi"), Does::Says(0, "to town.")]).await;
        line.sound(600).hears(Hear::TurnBegan).sound(400);
        line.is_told().await;
        line.silence(600).sound(goes_on).silence(200).hears(Hear::TurnEnded);
        assert_eq!(line.story().await, [words]);
        assert_eq!(line.heard(), if goes_on == 0 { vec![] } else { vec![1_200] }, "with the silence before it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_leaves_nothing_running() {
    let line = line(&[Does::Says(60_000, "Yes.")]).await;
    line.sound(1_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
    let Line { input, running, words: _words, .. } = line;
    drop(input);
    assert_eq!(soon(running).await.unwrap(), Ok(()));
}
