//! Whatever comes in whatever order, the policy keeps its promises.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

#[derive(Debug, Clone)]
enum Move {
    /// Which id, which tool, which arguments, and which of the tokens given so far, the last one first.
    Call {
        id: u8,
        tool: u8,
        arguments: u8,
        token: Option<usize>,
    },
    CallerSpeaks,
    /// A whole utterance.
    SaysYes,
    CallerStops,
    /// Words of the oldest utterance that is not transcribed.
    Transcript(&'static str),
    Key(char),
    AgentSays(&'static str),
    Outcome(prop::sample::Index, u8),
    Cancel(prop::sample::Index),
    GiveUpWords,
    Handoff,
    Wait(u64),
}

fn moves() -> impl Strategy<Value = Move> {
    let tool = prop::sample::select(vec![0u8, 1, 2, 2, 2, 2, 3, 4, 5]);
    let variant = prop::sample::select(vec![0u8, 0, 0, 1]);
    let token = prop::option::weighted(0.7, prop::sample::select(vec![0usize, 0, 0, 1, 5]));
    let call = (0u8..6, tool, variant, token).prop_map(|(id, tool, arguments, token)| Move::Call {
        id,
        tool,
        arguments,
        token,
    });
    prop_oneof![
        12 => call,
        3 => Just(Move::CallerSpeaks),
        4 => Just(Move::SaysYes),
        3 => Just(Move::CallerStops),
        4 => prop::sample::select(vec!["yes", "no", "hm", "yes?"]).prop_map(Move::Transcript),
        2 => prop::sample::select(vec!['1', '2', '5']).prop_map(Move::Key),
        1 => prop::sample::select(vec!["Book a table on d for 0 people?", "Nice weather."]).prop_map(Move::AgentSays),
        5 => (any::<prop::sample::Index>(), 0u8..5).prop_map(|(which, what)| Move::Outcome(which, what)),
        1 => any::<prop::sample::Index>().prop_map(Move::Cancel),
        1 => Just(Move::GiveUpWords),
        1 => Just(Move::Handoff),
        3 => (0u64..100_000).prop_map(Move::Wait),
    ]
}

/// Names in the order of `Move::Call`; the last one does not exist.
const NAMES: [&str; 6] = ["hours", "balance", "book", "wave", "notify", "nothing"];

fn specs() -> [ToolSpec; 5] {
    let notify = ToolSpec { wait: false, ..on_call("notify") };
    [hours(), balance(), book(), on_call("wave"), notify]
}

fn arguments(tool: u8, variant: u8, token: Option<&str>) -> String {
    let mut arguments = match NAMES[usize::from(tool)] {
        "hours" => json!({ "query": format!("q{variant}") }),
        "book" => json!({ "day": "d", "people": variant }),
        _ => json!({}),
    };
    if let Some(token) = token {
        arguments[CONFIRMATION_TOKEN] = token.into();
    }
    arguments.to_string()
}

/// What somebody who watches from outside knows.
#[derive(Default)]
struct Watcher {
    /// Calls that were made; each gets one answer or one line of a cancelled call.
    calls: HashSet<ToolCallId>,
    answered: HashSet<ToolCallId>,
    running: Vec<ToolCallId>,
    /// Answered when they began.
    dispatched: HashSet<ToolCallId>,
    attached: HashSet<ToolCallId>,
    lines: Vec<Audit>,
    tokens: Vec<String>,
    spent: HashSet<String>,
    /// Turn of the caller, with (turn, look-ups, all) that ran.
    turn: u64,
    ran: (u32, u32),
    /// The caller has said yes, or pressed it, in a turn since the question was first put: (token, that turn).
    given: Vec<(String, u64)>,
    /// When each question was first put, by its sentence.
    put: std::collections::HashMap<String, u64>,
    yes_in: Option<u64>,
    utterances: std::collections::VecDeque<u64>,
}

impl Watcher {
    fn next_turn(&mut self) {
        self.turn += 1;
        self.ran = (0, 0);
    }

    fn heard(&mut self, verdict: Option<Verdict>, is_yes: bool, turn: u64) {
        if verdict == Some(Verdict::Granted) {
            assert!(is_yes, "granted without a yes");
            self.yes_in = Some(turn);
        }
    }

    fn answer(&mut self, answer: Answer) {
        assert!(self.calls.contains(&answer.id));
        assert!(self.answered.insert(answer.id), "answered twice");
        assert!(serde_json::from_str::<Value>(&answer.output).is_ok());
        if let Some(request) = envelope(&answer)["error"].get("confirmation_request") {
            let put = *self.put.entry(request["preview"].to_string()).or_insert(self.turn);
            self.given.push((token(request), put));
            self.tokens.push(token(request));
        }
        self.attached.remove(&answer.id);
        self.line(answer.audit);
    }

    fn line(&mut self, audit: Audit) {
        self.lines.push(audit);
    }

    fn ran(&mut self, call: &Approved, token: Option<String>, dispatched: bool) {
        self.running.push(call.id());
        if dispatched {
            self.dispatched.insert(call.id());
        }
        self.ran.0 += u32::from(matches!(call.name(), "hours" | "balance"));
        self.ran.1 += 1;
        let Budgets { retrieval, total } = Budgets::default();
        assert!(self.ran.0 <= retrieval && self.ran.1 <= total, "the budget of a turn");
        assert_ne!(call.name(), "balance", "nobody was authenticated");
        if call.name() == "book" {
            let token = token.expect("without a token");
            let given = self.given.iter().find(|(known, _)| *known == token).expect("a forged token").1;
            assert!(self.yes_in.is_some_and(|yes| yes > given), "no yes in a later turn");
            assert!(self.spent.insert(token), "a token was spent twice");
            self.yes_in = None;
        }
    }
}

fn outcome(what: u8) -> ToolOutcome {
    match what {
        0 => ToolOutcome::done("", json!({ "found": 1 })),
        1 => ToolOutcome::done("", json!([])),
        2 => ToolOutcome::act("", CallAction::HoldAudio(true)),
        3 => ToolOutcome::failed(ToolError::Transient, "later"),
        _ => ToolOutcome::failed(ToolError::Refused, "a remote gate"),
    }
}

fn play(desk: &mut Desk, watcher: &mut Watcher, step: Move) {
    match step {
        Move::Call { id, tool, arguments: variant, token } => {
            let token = token.and_then(|age| watcher.tokens.iter().rev().nth(age).cloned());
            // Even ids are a provider's own, odd ones count.
            let id = if id % 2 == 0 { format!("provider-{id}-{}", watcher.calls.len() / 8) } else { id.to_string() };
            let arguments = arguments(tool, variant, token.as_deref());
            let (own, admission) = desk.admit(&id, NAMES[usize::from(tool)], &arguments);
            watcher.calls.insert(own);
            match admission {
                Admission::Run { call, dispatched } => watcher.ran(&call, token, dispatched.is_some()),
                Admission::Attached => drop(watcher.attached.insert(own)),
                Admission::Wait { until } => {
                    assert!(until > desk.now);
                    // Nobody brings it again here.
                    watcher.calls.remove(&own);
                }
                Admission::Answered(answer) => watcher.answer(*answer),
            }
        }
        Move::CallerSpeaks => {
            watcher.next_turn();
            watcher.utterances.push_back(watcher.turn);
            desk.policy.caller_spoke(Some(watcher.turn.to_string().into()), desk.now);
        }
        Move::SaysYes => {
            watcher.next_turn();
            let turn = watcher.turn;
            desk.policy.caller_spoke(Some(turn.to_string().into()), desk.now);
            let verdict = desk.policy.caller_said(Some(&turn.to_string()), "yes", desk.now);
            watcher.heard(verdict, true, turn);
        }
        Move::CallerStops => desk.policy.caller_stopped(desk.now),
        Move::Transcript(words) => {
            if let Some(turn) = watcher.utterances.pop_front() {
                let verdict = desk.policy.caller_said(Some(&turn.to_string()), words, desk.now);
                watcher.heard(verdict, words == "yes", turn);
            }
        }
        Move::Key(key) => {
            watcher.next_turn();
            let verdict = desk.policy.caller_pressed(key, desk.now);
            watcher.heard(verdict, key == '1', watcher.turn);
        }
        Move::AgentSays(words) => desk.policy.agent_said(words),
        Move::Outcome(which, what) if !watcher.running.is_empty() => {
            let id = watcher.running.swap_remove(which.index(watcher.running.len()));
            let settled = desk.policy.settle(id, outcome(what), desk.now).expect("it was running");
            assert_eq!(settled.audit.is_some(), watcher.dispatched.contains(&id));
            settled.audit.into_iter().for_each(|audit| watcher.line(audit));
            assert_eq!(settled.actions.len(), usize::from(what == 2), "only what worked asks for something");
            settled.answers.into_iter().for_each(|answer| watcher.answer(answer));
            assert!(desk.policy.settle(id, outcome(what), desk.now).is_none());
        }
        Move::Cancel(which) if !watcher.running.is_empty() => {
            let id = watcher.running.swap_remove(which.index(watcher.running.len()));
            cancel(desk, watcher, id);
        }
        Move::Outcome(..) | Move::Cancel(_) => {}
        Move::GiveUpWords => desk.policy.words_do_not_come(),
        Move::Handoff => {
            // The machine gives up what runs first.
            std::mem::take(&mut watcher.running).into_iter().for_each(|id| cancel(desk, watcher, id));
            desk.policy.change_hands(toolbox(specs()), Arc::default(), AnswerLimits::default());
            (watcher.ran, watcher.yes_in) = ((0, 0), None);
        }
        Move::Wait(ms) => _ = desk.after(ms),
    }
}

fn cancel(desk: &mut Desk, watcher: &mut Watcher, id: ToolCallId) {
    let (_, lines) = desk.policy.cancel(id, desk.now).expect("it was running");
    for line in lines {
        assert!(line.cancelled);
        watcher.attached.retain(|id| id.to_string() != line.call_id);
        watcher.line(line);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// P14, P15, P22, P31, P answer 1, P answer 3, P answer 6: no run without a pass, nothing that needs a yes without
    /// one of a later turn, no token twice, no turn over its budget, one line for each call.
    #[test]
    fn the_policy_keeps_its_promises(moves in prop::collection::vec(moves(), 0..80)) {
        let mut desk = Desk::new(specs());
        let mut watcher = Watcher::default();
        for step in moves {
            play(&mut desk, &mut watcher, step);
        }
        std::mem::take(&mut watcher.running).into_iter().for_each(|id| cancel(&mut desk, &mut watcher, id));
        prop_assert!(watcher.attached.is_empty(), "a repeat was forgotten");
        let lines: HashSet<_> = watcher.lines.iter().map(|line| line.call_id.clone()).collect();
        prop_assert_eq!(lines.len(), watcher.lines.len(), "two lines of one call");
        let calls: HashSet<_> = watcher.calls.iter().map(ToString::to_string).collect();
        prop_assert_eq!(lines, calls);
    }
}
