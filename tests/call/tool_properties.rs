//! Whatever agents, callers and tools do in whatever order, a call keeps its promises about tools.

use crate::call::stage::{Stage, approved_tool, book, look_up};
use offhook_core::{
    call::{AgentCommand, AgentEvent, Input, LegEvent, Note, Output, Speaker},
    tool::{
        After, Announce, CallAction, DigitPlan, DigitPurpose, Done, ToolCallId, ToolError, ToolOutcome, ToolSpec,
        Verdict,
    },
};
use proptest::{prelude::*, sample::Index};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

const NAMES: [&str; 5] = ["look_up", "book", "act", "notify", "nonsense"];

#[derive(Debug, Clone)]
enum Move {
    /// Which tool, which arguments, one of the tokens given so far (the last one first), and whether it
    /// repeats the last id.
    Call {
        tool: usize,
        variant: u8,
        token: Option<usize>,
        repeats: bool,
    },
    Starts,
    Speaks(usize),
    Done,
    CallerSpeaks,
    CallerStops,
    /// A whole utterance, in answer to the question.
    SaysYes,
    Says(Speaker, &'static str),
    Key(char),
    Finishes(Index, u8),
    Leaves,
    Wait(u64),
}

fn moves() -> impl Strategy<Value = Move> {
    let token = prop::option::weighted(0.7, prop::sample::select(vec![0usize, 0, 0, 1, 5]));
    let tool = prop::sample::select(vec![0usize, 1, 1, 1, 2, 2, 3, 4]);
    let variant = prop::sample::select(vec![0u8, 0, 0, 1]);
    let call = (tool, variant, token, prop::bool::weighted(0.1))
        .prop_map(|(tool, variant, token, repeats)| Move::Call { tool, variant, token, repeats });
    let words = prop::sample::select(vec!["Yes.", "No.", "Well.", "Book a table on day 0?", "Book a table on day 1?"]);
    let speaker = prop::sample::select(vec![Speaker::Caller, Speaker::Agent]);
    prop_oneof![
        12 => call,
        3 => Just(Move::Starts),
        2 => (1usize..2_000).prop_map(Move::Speaks),
        5 => Just(Move::Done),
        4 => Just(Move::CallerSpeaks),
        4 => Just(Move::SaysYes),
        4 => Just(Move::CallerStops),
        7 => (speaker, words).prop_map(|(speaker, words)| Move::Says(speaker, words)),
        2 => prop::sample::select(vec!['1', '2', '5', '#']).prop_map(Move::Key),
        8 => (any::<Index>(), 0u8..12).prop_map(|(which, what)| Move::Finishes(which, what)),
        1 => Just(Move::Leaves),
        6 => (0u64..4_000).prop_map(Move::Wait),
    ]
}

fn tools() -> [ToolSpec; 4] {
    let announce = |ms| Some(Announce { after: Duration::from_millis(ms), text: "One moment.".into() });
    let notify = ToolSpec { wait: false, announce: announce(100), ..approved_tool("notify") };
    let act = ToolSpec { announce: announce(700), ..approved_tool("act") };
    [ToolSpec { announce: announce(300), ..look_up() }, book(), act, notify]
}

fn outcome(what: u8) -> ToolOutcome {
    let collect = |purpose| {
        let (min, max, timeout) = (1, 3, Duration::from_secs(2));
        ToolOutcome::Collect(DigitPlan { prompt: None, min, max, terminator: Some('#'), timeout, purpose })
    };
    let act = |action| ToolOutcome::Done(Done { actions: vec![action], ..Done::default() });
    let end = |after| act(CallAction::EndCall { after, reason: "done".into(), closing: Some("Bye.".into()) });
    match what {
        0 => ToolOutcome::failed(ToolError::Transient, "later"),
        1 => ToolOutcome::failed(ToolError::Refused, "a remote gate"),
        2 => collect(DigitPurpose::Plain),
        3 => collect(DigitPurpose::Pin),
        4 => act(CallAction::HoldAudio(true)),
        5 => act(CallAction::HideTranscript(true)),
        6 => act(CallAction::SayNextTurn { message: "More.".into() }),
        7 => act(CallAction::Handoff { target: "other".into(), message: None, context_passed: vec![] }),
        8 => end(After::CurrentTurn),
        9 => act(CallAction::Transfer { destination: "sales".into() }),
        _ => ToolOutcome::done("Here.", serde_json::json!({ "found": what })),
    }
}

/// Reads what comes out of a call, and holds it against what was promised.
#[derive(Default)]
struct Watcher {
    read: usize,
    calls: usize,
    sent: HashMap<String, usize>,
    tokens: Vec<String>,
    ran: Vec<ToolCallId>,
    /// (look-ups, all) since the caller last spoke, pressed a key or typed a number.
    spent: (u32, u32),
    granted: bool,
    turn: u64,
    /// The turn in which the questions that are open were first put.
    asked_in: Option<u64>,
    failing: bool,
    caller_speaks: bool,
    /// Tools that run and may be announced.
    slow: HashSet<ToolCallId>,
    /// The turn of the last announcement.
    announced_in: Option<u64>,
    lines: HashSet<String>,
    handed_off: bool,
}

impl Watcher {
    fn read(&mut self, stage: &Stage) {
        for (_, output) in &stage.seen[self.read..] {
            match output {
                Output::RunTool(call) => {
                    assert!(!self.ran.contains(&call.id()), "it ran twice");
                    self.ran.push(call.id());
                    self.slow.insert(call.id());
                    self.spent.0 += u32::from(call.name() == "look_up");
                    self.spent.1 += 1;
                    assert!(self.spent.0 <= 2 && self.spent.1 <= 3, "the budget of a turn");
                    if call.name() == "book" {
                        assert!(std::mem::take(&mut self.granted), "nobody said yes to this");
                        self.asked_in = None;
                    }
                }
                Output::ToAgent(AgentCommand::ToolResult { call_id, output, .. }) => {
                    let open = self.sent.get_mut(call_id).expect("a call that was made");
                    *open = open.checked_sub(1).expect("one answer for each call");
                    let envelope: serde_json::Value = serde_json::from_str(output).unwrap();
                    let token = envelope["error"]["confirmation_request"]["token"].as_str();
                    self.tokens.extend(token.map(str::to_owned));
                }
                Output::Note(Note::Announced { .. }) => {
                    assert!(!self.caller_speaks, "into the caller's words");
                    assert_ne!(self.announced_in.replace(self.turn), Some(self.turn), "twice in a turn");
                    assert!(!self.slow.is_empty(), "nothing slow runs");
                }
                Output::CancelTool { id } => _ = self.slow.remove(id),
                Output::HandOff { .. } => self.handed_off = true,
                Output::Note(Note::CallerSpeaks | Note::Digit(_) | Note::Typed) => {
                    (self.spent, self.turn) = ((0, 0), self.turn + 1);
                    self.caller_speaks |= matches!(output, Output::Note(Note::CallerSpeaks));
                }
                Output::Note(Note::CallerFinished) => self.caller_speaks = false,
                Output::Note(Note::HandedOff { .. }) => {
                    self.caller_speaks = false;
                    (self.spent, self.granted, self.asked_in) = ((0, 0), false, None);
                }
                Output::Note(Note::Confirmed(verdict)) => {
                    self.granted = *verdict == Verdict::Granted;
                    // The same question may be put again; an answer to the first time counts.
                    let later = self.asked_in.is_some_and(|asked_in| self.turn > asked_in);
                    assert!(!self.granted || later, "a yes before the question");
                    if *verdict == Verdict::Declined {
                        self.asked_in = None;
                    }
                }
                Output::Note(Note::Failing(_)) => self.failing = true,
                Output::Note(Note::Audit(line)) => {
                    assert!(self.lines.insert(line.call_id.clone()), "two lines of one call");
                    if line.error() == Some(ToolError::ConfirmationRequired) && line.route == Some("ask") {
                        self.asked_in.get_or_insert(line.turn);
                    }
                }
                _ => {}
            }
        }
        self.read = stage.seen.len();
    }
}

fn play(stage: &mut Stage, watcher: &mut Watcher, step: Move) {
    match step {
        Move::Call { tool, variant, token, repeats } => {
            let number = watcher.calls + usize::from(!repeats);
            let id = format!("provider-{number}");
            let token = token.and_then(|age| watcher.tokens.iter().rev().nth(age).cloned());
            let token = token.map_or_else(String::new, |token| format!(r#","confirmationToken":"{token}""#));
            if stage.ended().is_none() && !watcher.failing {
                watcher.calls += 1;
                *watcher.sent.entry(id.clone()).or_default() += 1;
            }
            stage.calls_tool(&id, NAMES[tool], &format!(r#"{{"a":"day {variant}"{token}}}"#));
        }
        Move::Starts => _ = stage.starts("r"),
        Move::Speaks(ms) => _ = stage.speaks("r", ms),
        Move::Done => _ = stage.done("r"),
        Move::CallerSpeaks => _ = stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }),
        Move::CallerStops => _ = stage.agent(AgentEvent::CallerSpeechStopped),
        Move::SaysYes => {
            stage.hears(Speaker::Agent, "Book a table on day 0?").hears(Speaker::Agent, "Book a table on day 1?");
            stage.caller_tells("Yes.");
        }
        Move::Says(speaker, words) => _ = stage.hears(speaker, words),
        Move::Key(key) => _ = stage.leg(LegEvent::Digit(key)),
        Move::Finishes(which, what) if !watcher.ran.is_empty() => {
            let (id, outcome) = (*which.get(&watcher.ran), outcome(what));
            if !matches!(outcome, ToolOutcome::Collect(_)) {
                watcher.slow.remove(&id);
            }
            stage.input(Input::ToolFinished { id, outcome });
        }
        Move::Finishes(..) => {}
        Move::Leaves => _ = stage.leg(LegEvent::CallerLeft),
        Move::Wait(ms) => _ = stage.after(ms),
    }
    watcher.read(stage);
    if std::mem::take(&mut watcher.handed_off) {
        stage.hands_over("other", tools()).agent(AgentEvent::Ready);
        watcher.read(stage);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// P14, P15, P18, P22, P answer 1, P answer 3, P answer 6, M answer 10: no tool that needs a yes runs without one,
    /// no turn is over its budget or has two announcements, no call is answered twice, and each has one line.
    #[test]
    fn a_call_keeps_its_promises_about_tools(moves in prop::collection::vec(moves(), 0..80)) {
        let mut stage = Stage::with_tools(tools());
        let mut watcher = Watcher::default();
        watcher.read(&stage);
        for step in moves {
            play(&mut stage, &mut watcher, step);
        }
        stage.leg(LegEvent::CallerLeft);
        watcher.read(&stage);
        prop_assert!(stage.ended().is_some());
        prop_assert_eq!(watcher.lines.len(), watcher.calls, "one line for each call");
    }
}
