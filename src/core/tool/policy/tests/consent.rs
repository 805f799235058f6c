//! Whatever is asked, said and answered in whatever order: what runs has the values that the caller heard last and said yes to.

use super::{super::judge::Answer, *};
use proptest::{prelude::*, sample::select};
use std::collections::BTreeSet;

type Payment = (u32, &'static str);

#[derive(Debug, Clone)]
enum Move {
    /// The model wants to pay, with the newest token it was given or without.
    Calls(Payment, bool),
    AgentAsks(&'static str, Payment),
    AgentSays(&'static str),
    /// The engine's clip of the newest question was heard, or there was none.
    EngineAsks(bool),
    Interrupted,
    CallerSays(&'static str),
    CallerPresses(char),
}

/// Sentences that ask for a payment, some in other words than the operator's.
const QUESTIONS: [&str; 4] = [
    "Pay AMOUNT to NAME?",
    "Sure. So I pay AMOUNT to NAME, is that right?",
    "Shall NAME get AMOUNT?",
    "That is AMOUNT for NAME. Yes or no?",
];
/// Sentences about a payment that nobody agrees to by a yes.
const NO_QUESTIONS: [&str; 2] =
    ["I will not pay AMOUNT to NAME.", "I did not pay AMOUNT to NAME. Is there anything else?"];
const OTHERS: [&str; 3] =
    ["Would you like our newsletter?", "For sales press 1, for support press 2.", "Are you still there?"];
const NO_MATTER: [&str; 2] = ["One moment, please.", "Let me see."];

/// Rounds of a talk: the model calls, somebody says something, and the caller answers. Most payments have the amount or the name
/// of the last one that was called, or both.
fn talk() -> impl Strategy<Value = Vec<Move>> {
    let amount = prop_oneof![3 => select(vec![5_u32, 15, 50, 500, 5_000]), 1 => 0..2_000_000_u32];
    let payment = || (amount.clone(), select(vec!["Bob", "Ann", "Bobby", "Al"]));
    let sentence = select([&QUESTIONS[..], &QUESTIONS, &NO_QUESTIONS].concat());
    let calls = (payment(), prop::bool::weighted(0.7)).prop_map(|(payment, token)| Move::Calls(payment, token));
    let said = prop_oneof![
        4 => (sentence, payment()).prop_map(|(sentence, payment)| Move::AgentAsks(sentence, payment)),
        2 => select([&OTHERS[..], &NO_MATTER].concat()).prop_map(Move::AgentSays),
        2 => prop::bool::weighted(0.8).prop_map(Move::EngineAsks),
        1 => Just(Move::Interrupted),
    ];
    let answer = prop_oneof![
        4 => select(vec!["yes", "yes please", "no", "what is my balance"]).prop_map(Move::CallerSays),
        1 => select(vec!['1', '2', '5']).prop_map(Move::CallerPresses),
    ];
    let round = (calls, prop::collection::vec(said, 0..4), answer);
    let round = round.prop_map(|(calls, said, answer)| [vec![calls], said, vec![answer]].concat());
    let talk = prop::collection::vec(round, 1..6).prop_map(|rounds| rounds.concat());
    (talk, prop::collection::vec(prop::array::uniform2(prop::bool::weighted(0.8)), 30)).prop_map(|(mut talk, kept)| {
        let mut last = (5, "Bob");
        for (one, [amount, name]) in talk.iter_mut().zip(kept) {
            if let Move::Calls(payment, _) | Move::AgentAsks(_, payment) = one {
                *payment = (if amount { last.0 } else { payment.0 }, if name { last.1 } else { payment.1 });
            }
            if let Move::Calls(payment, _) = one {
                last = *payment;
            }
        }
        talk
    })
}

/// A caller: the question heard last, and the payments agreed to.
#[derive(Default)]
struct Caller {
    /// The last thing that they were asked since their own last words: a payment, or something else.
    asked: Option<Option<Payment>>,
    /// The payment that they were asked about by a clip since their own last words.
    clip: Option<Payment>,
    /// Payments that they said yes to, and have not taken back.
    agreed: BTreeSet<Payment>,
}

impl Caller {
    fn answers(&mut self, answer: Answer) {
        self.clip = None;
        match (answer, self.asked.take()) {
            (Answer::Yes, asked) => self.agreed.extend(asked.flatten()),
            (Answer::No, _) => self.agreed.clear(),
            (Answer::Unclear | Answer::Nothing, _) => {}
        }
    }
}

fn pay() -> ToolSpec {
    ToolSpec {
        kind: ToolKind::Action,
        access: Category::Write,
        side_effects: crate::tool::SideEffects::Writes,
        risk_domain: RiskDomain::CustomerSupport,
        confirm_template: Some(QUESTIONS[0].replace("AMOUNT", "{amount}").replace("NAME", "{to}")),
        ..ToolSpec::new(
            "pay",
            "Pays.",
            object(json!({ "amount": { "type": "integer" }, "to": { "type": "string" } }), &["amount", "to"]),
        )
    }
}

fn hold(asked_by: Asker, moves: Vec<Move>) -> usize {
    let confirm = ConfirmRules { asked_by, ..ConfirmRules::default() };
    let opening = Opening { session: "session-1".into(), caller_known: true, ..Opening::default() };
    let mut desk = Desk::with([pay()], PolicyRules { confirm, ..PolicyRules::default() }, opening);
    desk.policy.reads_out(ReadOut { any: true, ..ReadOut::default() });
    desk.policy.agent_said("Hello.");
    desk.caller("I would like to pay.");
    let (mut caller, mut newest, mut paid) = (Caller::default(), None::<(Value, Payment)>, 0);
    let filled =
        |sentence: &str, (amount, to): Payment| sentence.replace("AMOUNT", &amount.to_string()).replace("NAME", to);
    for (number, one) in moves.into_iter().enumerate() {
        desk.without_budget();
        match one {
            Move::Calls(payment, with_token) => {
                let mut arguments = json!({ "amount": payment.0, "to": payment.1 });
                if let (true, Some((request, _))) = (with_token, &newest) {
                    arguments[CONFIRMATION_TOKEN] = request["token"].clone();
                }
                match desk.admit(&format!("provider-call-{number}"), "pay", &arguments.to_string()).1 {
                    Admission::Run { call, .. } => {
                        let (amount, to) = (&call.arguments()["amount"], &call.arguments()["to"]);
                        assert_eq!((amount, to), (&json!(payment.0), &json!(payment.1)));
                        assert!(caller.agreed.remove(&payment), "nobody said yes to it");
                        paid += 1;
                        desk.policy.settle(call.id(), ToolOutcome::done("", Value::Null), desk.now);
                    }
                    Admission::Answered(answer) => {
                        let request = envelope(&answer)["error"]["confirmation_request"].clone();
                        newest = if request.is_null() { newest } else { Some((request, payment)) };
                    }
                    Admission::Attached | Admission::Wait { .. } => {}
                }
            }
            Move::AgentAsks(sentence, payment) => {
                desk.policy.agent_said(&filled(sentence, payment));
                caller.asked = Some(QUESTIONS.contains(&sentence).then_some(payment));
            }
            Move::AgentSays(sentence) => {
                desk.policy.agent_said(sentence);
                if OTHERS.contains(&sentence) {
                    caller.asked = Some(None);
                }
            }
            Move::EngineAsks(heard) => {
                if let Some((request, payment)) = &newest
                    && desk.policy.puts_question()
                {
                    match heard {
                        true => {
                            desk.policy.question_was_heard(request["preview"].as_str().expect("a sentence"));
                            (caller.asked, caller.clip) = (Some(Some(*payment)), Some(*payment));
                        }
                        false => desk.policy.question_was_not_heard(),
                    }
                }
            }
            Move::Interrupted => {
                desk.policy.question_was_cut();
                caller.asked = caller.clip.map(Some);
            }
            Move::CallerSays(words) => {
                desk.caller(words);
                caller.answers(Words::default().judge(words));
            }
            Move::CallerPresses(key) => {
                desk.policy.caller_pressed(key, desk.now);
                caller.answers(match key {
                    '1' => Answer::Yes,
                    '2' => Answer::No,
                    _ => Answer::Unclear,
                });
            }
        }
    }
    paid
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn nothing_runs_but_what_the_caller_heard_last_and_said_yes_to(
        asked_by in select(vec![Asker::Engine, Asker::Agent]), moves in talk(),
    ) {
        hold(asked_by, moves);
    }
}

/// The property says something: payments are made in it.
#[test]
fn a_talk_as_it_should_be_ends_with_a_payment() {
    let payment = (5_000, "Bob");
    let by = |asks: Move| vec![Move::Calls(payment, false), asks, Move::CallerSays("yes"), Move::Calls(payment, true)];
    assert_eq!(hold(Asker::Engine, by(Move::EngineAsks(true))), 1);
    assert_eq!(hold(Asker::Engine, by(Move::AgentAsks(QUESTIONS[1], payment))), 0, "the engine was to ask");
    assert_eq!(hold(Asker::Agent, by(Move::AgentAsks(QUESTIONS[2], payment))), 1);
}
