//! What holds whatever services and callers do, in whatever order.

use super::*;

/// Plays services and a caller who do anything that they may do, in any order.
#[derive(Default)]
struct Chaos {
    asks: Vec<u64>,
    clauses: Vec<u64>,
    turn: Option<bool>,
    unheard: u32,
    calls: u64,
    open: Option<String>,
    called: Vec<String>,
    lost: bool,
}

impl Chaos {
    fn watch(&mut self, scene: &mut Scene) {
        for output in std::mem::take(&mut scene.outputs) {
            match output {
                Output::Ask { ask, .. } => self.asks.push(ask),
                Output::StopAsking(ask) => self.asks.retain(|open| *open != ask),
                Output::Speak { clause, .. } => self.clauses.push(clause),
                Output::Quiet => self.clauses.clear(),
                Output::Tell(AgentEvent::ResponseStarted { response }) => {
                    assert_eq!(self.open.replace(response.to_string()), None, "one answer at a time");
                }
                Output::Tell(AgentEvent::Audio { response, .. }) => assert_eq!(self.open.as_deref(), Some(&*response)),
                Output::Tell(AgentEvent::ResponseDone { response, .. }) => {
                    assert_eq!(self.open.take().as_deref(), Some(&*response));
                }
                Output::Tell(AgentEvent::ToolCall(call)) => {
                    assert!(self.open.is_some(), "a tool of an answer that is told");
                    assert!(!self.called.contains(&call.id), "once");
                    self.called.push(call.id);
                }
                Output::Tell(AgentEvent::Lost(_)) => self.lost = true,
                _ => {}
            }
        }
        // The caller's turn is a promise: nothing is heard in it.
        assert!(self.turn.is_none() || self.open.is_none(), "{:?}", self.open);
    }

    fn act(&mut self, what: u8, scene: &mut Scene) {
        let words = ["yes", "yes", "no", ""][usize::from(what / 16 % 4)];
        let (ask, clause) = (self.asks.first().copied(), self.clauses.first().copied());
        match (what % 16, self.turn) {
            (2, None) if what >= 64 => scene.turns(&[CallerTurn::MayBegin, CallerTurn::WasNone]),
            (0 | 1, None) => {
                if what >= 128 {
                    scene.turns(&[CallerTurn::MayBegin]);
                }
                self.turn = Some(false);
                scene.turns(&[CallerTurn::Began])
            }
            (0 | 1, Some(false)) => {
                self.turn = Some(true);
                scene.turns(&[CallerTurn::MayEnd])
            }
            (0, Some(true)) => {
                self.turn = Some(false);
                scene.turns(&[CallerTurn::GoesOn])
            }
            (1, Some(true)) => {
                self.turn = None;
                self.unheard += 1;
                scene.turns(&[CallerTurn::Ended])
            }
            (2, Some(true)) => scene.stable(words),
            (3 | 4, _) if self.unheard > 0 => {
                self.unheard -= 1;
                scene.words(words)
            }
            (5..=7, _) if ask.is_some() => scene.writes(ask.unwrap(), "Well then. And so on, "),
            (8, _) if ask.is_some() => {
                self.calls += 1;
                scene.calls(ask.unwrap(), &format!("c{}", self.calls))
            }
            (9, _) if ask.is_some() => {
                self.asks.remove(0);
                scene.answered(ask.unwrap())
            }
            (10, _) if clause.is_some() => scene.sounds(clause.unwrap()),
            (11 | 12, _) if clause.is_some() => {
                self.clauses.remove(0);
                scene.spoken(clause.unwrap())
            }
            (13, _) => {
                let open = self.open.clone().unwrap_or_else(|| "answer-1".into());
                scene.interrupt(&open, u64::from(what) * 10)
            }
            (14, _) => scene.result("c1", Reply::Wanted),
            (15, _) => scene.command(AgentCommand::Tell { text: "Note.".into(), reply: Reply::Wanted }),
            _ => {
                scene.now += Duration::from_millis(u64::from(what) * 20);
                scene.step(Input::Time)
            }
        };
        self.watch(scene);
    }
}

proptest::proptest! {
    #[test]
    fn whatever_happens_answers_are_whole_tools_run_once_and_a_turn_is_answered(actions in proptest::collection::vec(0_u8.., 0..200)) {
        let (mut scene, mut chaos) = (Scene::new(), Chaos::default());
        for what in actions {
            chaos.act(what, &mut scene);
            if chaos.lost {
                return Ok(());
            }
        }
        // Then everybody does what is expected of them, and the caller is answered.
        while chaos.turn.is_some() {
            chaos.act(1, &mut scene);
        }
        while chaos.unheard > 0 {
            chaos.act(3, &mut scene);
        }
        scene.turns(&[CallerTurn::Began, CallerTurn::Ended]).words("hello");
        chaos.watch(&mut scene);
        for _ in 0..500 {
            for what in [5, 9, 11, 16 + 2] {
                if !chaos.lost {
                    chaos.act(what, &mut scene);
                }
            }
            scene.now += Duration::from_secs(5);
            scene.step(Input::Time);
            chaos.watch(&mut scene);
        }
        assert!(chaos.lost || chaos.open.is_none(), "{:?}", chaos.open);
        assert!(chaos.asks.is_empty() && chaos.clauses.is_empty());
    }
}
