//! What a pipeline does, as stories; services and time are the test's.

mod breaking_off;
mod building;
mod chaos;
mod running;

use super::{
    conductor::Conductor,
    history::History,
    questions::Questions,
    steps::{Input, Output},
};
use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn, Reply, ResponseStatus, Speaker},
    llm::{Finish, Message, Piece},
    remote::Fault,
    sentences::{Language, Sentences},
    stt::{Hear, Heard},
    tool::ToolCall,
};
use bytes::Bytes;
use serde_json::json;
use std::time::{Duration, Instant};

struct Scene {
    conductor: Conductor,
    now: Instant,
    outputs: Vec<Output>,
    /// What the model was shown last.
    shown: Vec<Message>,
    may_call: bool,
}

impl Scene {
    fn new() -> Self {
        Self::with_budget(10_000)
    }

    fn with_budget(chars: usize) -> Self {
        Self::made(chars, true)
    }

    fn made(chars: usize, sums_up: bool) -> Self {
        let history = History::new("Be brief.".into(), chars);
        let tools = vec![json!({ "type": "function" })];
        let questions = Questions::new(tools.into(), "key".into(), Sentences::of(Language::German).into());
        let conductor = Conductor::new(history, questions, sums_up);
        let mut scene = Self {
            conductor,
            now: tokio::time::Instant::now().into_std(),
            outputs: Vec::new(),
            shown: Vec::new(),
            may_call: false,
        };
        scene.heard(Heard::Ready);
        assert_eq!(scene.told(), "ready");
        scene
    }

    fn step(&mut self, input: Input) -> &mut Self {
        self.conductor.step(input, self.now, &mut self.outputs);
        self
    }

    fn command(&mut self, command: AgentCommand) -> &mut Self {
        self.step(Input::Command(command))
    }

    fn turns(&mut self, turns: &[CallerTurn]) -> &mut Self {
        for turn in turns {
            self.command(AgentCommand::Turn(*turn));
        }
        self
    }

    fn heard(&mut self, heard: Heard) -> &mut Self {
        self.step(Input::Heard(heard))
    }

    /// The words of a turn that is over.
    fn words(&mut self, text: &str) -> &mut Self {
        self.heard(Heard::Turn { text: text.into() })
    }

    fn stable(&mut self, text: &str) -> &mut Self {
        self.heard(Heard::Partial { text: text.into(), stable: true })
    }

    /// A whole turn of the caller.
    fn says(&mut self, text: &str) -> &mut Self {
        self.turns(&[CallerTurn::Began, CallerTurn::MayEnd, CallerTurn::Ended]).words(text)
    }

    fn writes(&mut self, ask: u64, text: &str) -> &mut Self {
        self.step(Input::Piece { ask, piece: Piece::Text(text.into()) })
    }

    fn calls(&mut self, ask: u64, id: &str) -> &mut Self {
        self.step(Input::Piece { ask, piece: Piece::Call(call(id)) })
    }

    fn answered(&mut self, ask: u64) -> &mut Self {
        self.step(Input::Answered { ask, by: 0, how: Ok(Finish::Stop) })
    }

    fn fails(&mut self, ask: u64) -> &mut Self {
        self.step(Input::Answered { ask, by: 0, how: Err(Fault::Closed(None)) })
    }

    /// A second of sound.
    fn sounds(&mut self, clause: u64) -> &mut Self {
        let audio = Bytes::from(vec![clause as u8; 8_000]);
        self.step(Input::Sound { clause, audio, length: Duration::from_secs(1) })
    }

    fn spoken(&mut self, clause: u64) -> &mut Self {
        self.sounds(clause).step(Input::Spoken { clause, how: Ok(()) })
    }

    fn interrupt(&mut self, response: &str, heard_ms: u64) -> &mut Self {
        let (response, heard) = (response.into(), Duration::from_millis(heard_ms));
        self.command(AgentCommand::Interrupt { item: "i".into(), response, heard, cancel: true })
    }

    fn result(&mut self, id: &str, reply: Reply) -> &mut Self {
        self.command(AgentCommand::ToolResult { call_id: id.into(), output: "found".into(), reply })
    }

    /// All that happened since the last look.
    fn told(&mut self) -> String {
        let told: Vec<String> = std::mem::take(&mut self.outputs).into_iter().map(|output| self.one(output)).collect();
        told.join(", ")
    }

    fn one(&mut self, output: Output) -> String {
        match output {
            Output::Listen(hear) => match hear {
                Hear::Audio(_) => "hears".into(),
                other => format!("{other:?}"),
            },
            Output::Ask { ask, what } => {
                self.shown = what.messages;
                self.may_call = what.may_call;
                format!("ask {ask}")
            }
            Output::StopAsking(ask) => format!("stop {ask}"),
            Output::Speak { clause, text } => format!("speak {clause} \"{text}\""),
            Output::Quiet => "quiet".into(),
            Output::Forgot => "forgets".into(),
            Output::Tell(event) => match event {
                AgentEvent::Ready => "ready".into(),
                AgentEvent::ResponseStarted { response } => format!("{response} begins"),
                AgentEvent::Audio { audio, .. } => format!("sound {}", audio[0]),
                AgentEvent::ResponseDone { response, status } => match status {
                    ResponseStatus::Completed => format!("{response} ends"),
                    other => format!("{response} is {other:?}"),
                },
                AgentEvent::Transcript { speaker: Speaker::Caller, text, .. } => format!("caller: {text}"),
                AgentEvent::Transcript { speaker: Speaker::Agent, text, .. } => format!("agent: {text}"),
                AgentEvent::PartialTranscript { text, .. } => format!("partial: {text}"),
                AgentEvent::NoTranscript { .. } => "no words".into(),
                AgentEvent::ToolCall(call) => format!("call {}", call.id),
                AgentEvent::Lost(loss) => format!("lost: {}", loss.label()),
                other => format!("{other:?}"),
            },
        }
    }

    fn last_shown(&self) -> &Message {
        self.shown.last().expect("the model was shown something")
    }
}

fn call(id: &str) -> ToolCall {
    ToolCall { id: id.into(), name: "look".into(), arguments: "{}".into() }
}

fn caller(text: &str) -> Message {
    Message::Caller(text.into())
}

fn agent(text: &str) -> Message {
    Message::Agent { text: text.into(), calls: Vec::new() }
}

#[test]
fn a_turn_is_heard_answered_and_spoken_clause_by_clause() {
    let mut scene = Scene::new();
    scene.says("What time is it?");
    assert_eq!(scene.told(), "TurnBegan, TurnMayEnd, TurnEnded, caller: What time is it?, answer-1 begins, ask 1");
    assert_eq!(scene.shown, [Message::System("Be brief.".into()), caller("What time is it?")]);
    assert_eq!(scene.writes(1, "It is noon. And").told(), "speak 1 \"It is noon.\"", "while the rest is written");
    assert_eq!(scene.sounds(1).told(), "sound 1", "while the rest is spoken");
    assert_eq!(scene.writes(1, " it rains.").answered(1).told(), "speak 2 \"And it rains.\"");
    assert_eq!(scene.sounds(2).told(), "", "in their order");
    assert_eq!(scene.spoken(1).told(), "sound 1, sound 2");
    assert_eq!(scene.spoken(2).told(), "sound 2, agent: It is noon. And it rains., answer-1 ends");
    scene.says("Thanks.").told();
    assert_eq!(scene.shown[2..], [agent("It is noon. And it rains."), caller("Thanks.")]);
}

#[test]
fn a_greeting_is_spoken_word_for_word_and_no_model_is_asked() {
    let mut scene = Scene::new();
    scene.command(AgentCommand::Greet { text: Some("Hello. This is Ada.".into()) });
    assert_eq!(scene.told(), "answer-1 begins, speak 1 \"Hello.\", speak 2 \"This is Ada.\"");
    scene.command(AgentCommand::Greet { text: None });
    scene.spoken(1).spoken(2);
    assert!(scene.told().ends_with("answer-1 ends, answer-2 begins, ask 1"));
    assert!(matches!(scene.last_shown(), Message::System(order) if order.contains("greet them in German")));
}

#[test]
fn a_caller_who_speaks_already_is_greeted_when_they_are_done() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began]).command(AgentCommand::Greet { text: Some("This is Ada.".into()) });
    assert_eq!(scene.told(), "TurnBegan");
    scene.turns(&[CallerTurn::Ended]).words("Hello?");
    assert_eq!(scene.told(), "TurnEnded, caller: Hello?, answer-1 begins, ask 1");
    assert!(matches!(scene.last_shown(), Message::System(order) if order.contains("This is Ada.")));
}

#[test]
fn an_answer_that_was_on_its_way_when_a_turn_began_was_not_given() {
    let mut scene = Scene::new();
    scene.says("Hello.").writes(1, "Hi there.").answered(1).spoken(1).told();
    scene.turns(&[CallerTurn::Began]).interrupt("answer-1", 0);
    scene.turns(&[CallerTurn::Ended]).words("Are you there?").told();
    assert_eq!(scene.shown[1..], [caller("Hello. Are you there?")]);
}

#[test]
fn what_the_caller_writes_is_answered_as_if_it_had_been_said() {
    let mut scene = Scene::new();
    scene.command(AgentCommand::Written { text: "Are you open?".into() });
    assert_eq!(scene.told(), "answer-1 begins, ask 1");
    assert_eq!(scene.shown[1..], [caller("Are you open?")]);
}

#[test]
fn what_is_to_be_said_is_said_without_tools_and_is_no_part_of_the_conversation() {
    let mut scene = Scene::new();
    scene.command(AgentCommand::Say { text: "Goodbye.".into() });
    scene.told();
    assert!(matches!(scene.last_shown(), Message::System(order) if order.contains("Goodbye.")));
    assert!(!scene.may_call);
    scene.writes(1, "Bye then.").answered(1).spoken(1).says("Bye.").told();
    assert_eq!(scene.shown[1..], [agent("Bye then."), caller("Bye.")]);
    assert!(scene.may_call);
}

#[test]
fn stable_words_are_answered_before_the_turn_is_over_and_nobody_hears_it_until_then() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began, CallerTurn::MayEnd]).stable("what time is it").told();
    assert_eq!(scene.shown.last(), Some(&caller("what time is it")));
    assert_eq!(scene.writes(1, "It is noon. ").told(), "speak 1 \"It is noon.\"");
    assert_eq!(scene.spoken(1).calls(1, "c1").answered(1).told(), "");
    assert_eq!(scene.turns(&[CallerTurn::Ended]).told(), "TurnEnded");
    scene.words("What time is it?");
    assert_eq!(
        scene.told(),
        "caller: What time is it?, answer-1 begins, call c1, sound 1, agent: It is noon., answer-1 ends"
    );
    scene.result("c1", Reply::Wanted);
    assert_eq!(scene.told(), "answer-2 begins, ask 2");
    let said = Message::Agent { text: "It is noon.".into(), calls: vec![call("c1")] };
    let result = Message::Result { call_id: "c1".into(), output: "found".into() };
    assert_eq!(scene.shown[1..], [caller("What time is it?"), said, result]);
}

#[test]
fn a_caller_who_goes_on_was_answered_by_nobody_and_no_tool_ran() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began, CallerTurn::MayEnd]).stable("book a table").calls(1, "c1").told();
    assert_eq!(scene.turns(&[CallerTurn::GoesOn]).told(), "stop 1, quiet, TurnGoesOn");
    scene.turns(&[CallerTurn::MayEnd]).stable("book a table for two").told();
    scene.turns(&[CallerTurn::Ended]).words("book a table for two").calls(2, "c2").answered(2);
    assert_eq!(
        scene.told(),
        "TurnEnded, caller: book a table for two, answer-2 begins, call c2, answer-2 ends",
        "once, and for the whole turn"
    );
    assert_eq!(scene.shown[1..], [caller("book a table for two")]);
}

#[test]
fn other_words_than_the_stable_ones_are_answered_anew() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began, CallerTurn::MayEnd]).stable("fifteen").calls(1, "c1").answered(1).told();
    scene.turns(&[CallerTurn::Ended]).words("fifty");
    assert_eq!(scene.told(), "TurnEnded, caller: fifty, quiet, answer-2 begins, ask 2");
    assert_eq!(scene.shown[1..], [caller("fifty")]);
}

#[test]
fn a_guess_that_fails_costs_nothing() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began, CallerTurn::MayEnd]).stable("hello").fails(1).told();
    assert_eq!(
        scene.turns(&[CallerTurn::Ended]).words("hello").told(),
        "TurnEnded, caller: hello, answer-2 begins, ask 2"
    );
}

#[test]
fn who_is_interrupted_stops_at_once_and_remembers_what_was_heard() {
    let mut scene = Scene::new();
    scene.says("Tell me a story.").writes(1, "Once upon a time. There was a king. And a").spoken(1).spoken(2).told();
    scene.interrupt("answer-1", 1_500).turns(&[CallerTurn::Began]);
    assert_eq!(scene.told(), "stop 1, quiet, agent: Once upon a time. There was, answer-1 is Cancelled, TurnBegan");
    assert_eq!(scene.writes(1, "queen.").sounds(2).spoken(2).answered(1).told(), "", "late, and of nobody's answer");
    scene.turns(&[CallerTurn::Ended]).words("Stop.");
    scene.told();
    assert_eq!(scene.shown[2..], [agent("Once upon a time. There was …"), caller("Stop.")]);
}

#[test]
fn an_answer_that_was_complete_can_be_interrupted_while_it_is_heard() {
    let mut scene = Scene::new();
    scene.says("Hello.").writes(1, "Hi there. How are you?").answered(1).spoken(1).spoken(2).told();
    scene.interrupt("answer-1", 400).turns(&[CallerTurn::Began, CallerTurn::Ended]).words("Wait.");
    assert_eq!(scene.told(), "TurnBegan, TurnEnded, caller: Wait., answer-2 begins, ask 2");
    assert_eq!(scene.shown[1..], [caller("Hello. Wait.")], "not one word of it was heard");
}

#[test]
fn who_speaks_before_the_answer_is_heard_gets_one_answer_to_all_of_it() {
    let mut scene = Scene::new();
    scene.says("I need").told();
    scene.turns(&[CallerTurn::Began]);
    assert_eq!(scene.told(), "stop 1, quiet, answer-1 is Cancelled, TurnBegan");
    scene.turns(&[CallerTurn::Ended]).words("a table.").told();
    assert_eq!(scene.shown[1..], [caller("I need a table.")]);
}

#[test]
fn words_that_come_when_the_next_turn_has_begun_wait_for_it() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began, CallerTurn::Ended, CallerTurn::Began]).words("One.");
    assert!(scene.told().ends_with("TurnBegan, caller: One."));
    scene.turns(&[CallerTurn::Ended]).words("Two.");
    assert_eq!(scene.told(), "TurnEnded, caller: Two., answer-1 begins, ask 1");
    assert_eq!(scene.shown[1..], [caller("One. Two.")]);
}

#[test]
fn words_that_nobody_asked_for_are_no_turn() {
    let mut scene = Scene::new();
    scene.says("Hello.").told();
    assert_eq!(scene.words("hello again").told(), "Noise(Malformed)");
}

#[test]
fn words_that_come_during_an_undecided_sound_are_answered() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began, CallerTurn::Ended, CallerTurn::MayBegin]).words("Hello.");
    assert!(scene.told().ends_with("caller: Hello., answer-1 begins, ask 1"));
}

#[test]
fn a_result_that_comes_while_the_model_guesses_is_known_to_the_answer() {
    let mut scene = Scene::new();
    scene.says("Look.").calls(1, "c1").answered(1).told();
    scene.turns(&[CallerTurn::Began, CallerTurn::MayEnd]).stable("well").result("c1", Reply::NotNow);
    scene.turns(&[CallerTurn::Ended]).words("well").told();
    assert!(scene.shown.iter().any(|message| matches!(message, Message::Result { .. })), "{:?}", scene.shown);
}

#[test]
fn what_the_agent_is_told_while_the_model_guesses_is_known_to_the_answer() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began, CallerTurn::MayEnd]).stable("well").told();
    scene.command(AgentCommand::Tell { text: "The caller pressed 1.".into(), reply: Reply::NotNow });
    scene.turns(&[CallerTurn::Ended]).words("well");
    assert_eq!(scene.told(), "stop 1, quiet, TurnEnded, caller: well, answer-2 begins, ask 2");
    assert_eq!(scene.shown[1..], [Message::System("The caller pressed 1.".into()), caller("well")]);
}

#[test]
fn a_farewell_does_not_wait_for_a_turn_that_is_dropped() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began, CallerTurn::MayEnd]).stable("well").told();
    scene.command(AgentCommand::Say { text: "Goodbye.".into() });
    assert_eq!(scene.told(), "stop 1, quiet, TurnDropped, answer-2 begins, ask 2");
}

#[test]
fn a_sound_that_was_no_turn_changes_nothing() {
    let mut scene = Scene::new();
    scene.says("Hello.").writes(1, "Hi. I ").told();
    scene.turns(&[CallerTurn::MayBegin]).command(AgentCommand::Audio(Bytes::from_static(&[1])));
    scene.heard(Heard::Partial { text: "mhm".into(), stable: false }).turns(&[CallerTurn::WasNone]);
    assert_eq!(scene.told(), "TurnBegan, hears, partial: mhm, TurnDropped");
    assert_eq!(scene.sounds(1).told(), "sound 1", "the answer goes on");
}

#[test]
fn a_sound_that_is_found_to_be_a_turn_goes_on_as_one() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::MayBegin, CallerTurn::Began, CallerTurn::Ended]);
    assert_eq!(scene.told(), "TurnBegan, TurnEnded");
}

#[test]
fn the_listener_is_asked_for_the_words_of_a_sound_that_is_undecided() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::MayBegin, CallerTurn::WordsWanted, CallerTurn::WordsWanted, CallerTurn::WasNone]);
    assert_eq!(scene.told(), "TurnBegan, TurnMayEnd, TurnGoesOn, TurnMayEnd, TurnDropped");
    scene.turns(&[CallerTurn::MayBegin, CallerTurn::WordsWanted, CallerTurn::Began, CallerTurn::Ended]);
    assert_eq!(scene.told(), "TurnBegan, TurnMayEnd, TurnGoesOn, TurnEnded", "it may have gone on");
    scene.words("Stop.").turns(&[CallerTurn::WordsWanted]);
    assert!(!scene.told().contains("Turn"), "nothing is undecided");
}

#[test]
fn a_turn_that_nobody_could_understand_is_answered_as_such() {
    let mut scene = Scene::new();
    assert!(scene.says("").told().ends_with("no words, answer-1 begins, ask 1"));
    assert!(matches!(scene.last_shown(), Message::Caller(text) if text.contains("could not be understood")));
}

#[test]
fn tools_run_when_the_answer_is_whole_and_the_last_result_is_answered() {
    let mut scene = Scene::new();
    scene.says("Look.").writes(1, "One moment. ").calls(1, "c1").calls(1, "c2");
    assert!(scene.told().ends_with("speak 1 \"One moment.\""), "it is spoken meanwhile");
    assert_eq!(scene.answered(1).told(), "call c1, call c2");
    assert_eq!(scene.result("c1", Reply::NotNow).told(), "");
    assert_eq!(scene.result("c2", Reply::Wanted).told(), "", "the agent is still speaking");
    assert!(scene.spoken(1).told().ends_with("answer-1 ends, answer-2 begins, ask 2"));
}

#[test]
fn of_a_clause_that_is_still_being_made_no_more_is_taken_for_heard_than_was_spoken() {
    let mut scene = Scene::new();
    scene.says("Hello.").writes(1, "We have a table for two at half past seven on Friday evening. ").sounds(1);
    scene.interrupt("answer-1", 1_000).turns(&[CallerTurn::Began, CallerTurn::Ended]).words("Wait.").told();
    let Message::Agent { text, .. } = &scene.shown[2] else { panic!("{:?}", scene.shown) };
    assert!(text.starts_with("We have") && !text.contains("Friday"), "{text}");
}

#[test]
fn an_answer_without_anything_is_asked_for_once_more_and_then_the_agent_is_lost() {
    let mut scene = Scene::new();
    scene.says("Hello.").told();
    assert_eq!(scene.answered(1).told(), "ask 2");
    assert_eq!(scene.fails(2).told(), format!("lost: {}", AgentLoss::Closed.label()));
}

#[test]
fn the_status_of_a_service_that_refuses_is_told_before_the_agent_is_lost() {
    let mut scene = Scene::new();
    scene.says("Hello.").told();
    let fault = Fault::Refused { status: 404, code: None, retry_after: None };
    let told = scene.step(Input::Answered { ask: 1, by: 0, how: Err(fault) }).told();
    assert!(told.starts_with("Refused { status: 404 }") && told.ends_with("lost: not_found"), "{told}");
}

#[test]
fn a_fault_within_an_answer_has_no_http_status() {
    let mut scene = Scene::new();
    scene.says("Hello.").told();
    let fault = Fault::Reported { like: Some(401), code: None };
    assert_eq!(scene.step(Input::Answered { ask: 1, by: 0, how: Err(fault) }).told(), "lost: unauthorized");
}

#[test]
fn who_was_told_something_does_not_lose_an_agent_that_has_nothing_to_add() {
    let mut scene = Scene::new();
    scene.says("Note it.").writes(1, "I note it.").calls(1, "c1").answered(1).spoken(1).result("c1", Reply::Wanted);
    scene.told();
    assert_eq!(scene.answered(2).told(), "ask 3");
    assert_eq!(scene.answered(3).told(), "answer-2 is Incomplete");
    scene.says("And now?").told();
    assert_eq!(scene.writes(4, "Done.").answered(4).told(), "speak 2 \"Done.\"");
}

#[test]
fn who_was_told_nothing_is_asked_to_say_it_again_by_a_model_that_has_no_answer() {
    let mut scene = Scene::new();
    scene.says("Hello.").answered(1).told();
    assert_eq!(scene.answered(2).told(), "ask 3");
    assert!(!scene.may_call && matches!(scene.last_shown(), Message::System(order) if order.contains("noch einmal")));
    assert_eq!(scene.answered(3).told(), format!("lost: {}", AgentLoss::Protocol.label()), "not even that");
}

#[test]
fn a_voice_that_fails_in_the_middle_goes_on_with_the_next_clause_and_one_that_is_mute_loses_the_agent() {
    let fault = || Err(Fault::Closed(None));
    let mut scene = Scene::new();
    scene.says("Hello.").writes(1, "Hi there. How are you?").answered(1).sounds(1).told();
    assert_eq!(scene.step(Input::Spoken { clause: 1, how: fault() }).told(), "Noise(Malformed)");
    assert_eq!(scene.spoken(2).told(), "sound 2, agent: Hi there. How are you?, answer-1 ends");
    scene.says("Hello?").writes(2, "Hi. ").told();
    assert_eq!(scene.step(Input::Spoken { clause: 3, how: fault() }).told(), "lost: closed");
}

#[test]
fn no_more_is_spoken_ahead_than_a_few_seconds() {
    let mut scene = Scene::new();
    let story = (0..20).map(|n| format!("This is sentence number {n}. ")).collect::<String>();
    scene.says("Tell me a story.").writes(1, &story).answered(1);
    let (mut asked, mut spoken) = (scene.told().matches("speak ").count(), 0);
    while spoken < asked {
        spoken += 1;
        asked += scene.spoken(spoken as u64).told().matches("speak ").count();
    }
    assert!((9..12).contains(&spoken), "{spoken} seconds");
    let due = scene.conductor.deadline().expect("there is more");
    assert!(due > scene.now);
    scene.now = due;
    assert!(scene.step(Input::Time).told().starts_with("speak"));
}

#[test]
fn an_answer_that_never_ends_is_ended() {
    let mut scene = Scene::new();
    scene.says("Hello.").told();
    for _ in 0..200 {
        scene.writes(1, &"word ".repeat(20));
    }
    assert!(scene.told().contains("stop 1"));
}

#[test]
fn a_long_conversation_is_summed_up_and_goes_on_meanwhile() {
    let mut scene = Scene::with_budget(350);
    for turn in 1..=4_u64 {
        scene.says(&format!("Question {turn} {}", "x".repeat(80))).told();
        scene.writes(turn, "Yes.").answered(turn).spoken(turn);
    }
    assert!(scene.told().contains("ask 5"), "the summary");
    assert!(matches!(&scene.shown[..], [Message::System(_), Message::Caller(gone)] if gone.contains("Question 1")));
    scene.says("And now?").told();
    scene.writes(5, "They asked.").answered(5).told();
    scene.writes(6, "Fine.").answered(6).spoken(5).says("Well?").told();
    assert!(matches!(&scene.shown[1], Message::System(summary) if summary.ends_with("They asked.")));
}

/// `summaries: false`: the only question the model is asked is the caller's.
#[test]
fn where_nothing_is_summed_up_the_oldest_turns_are_forgotten_without_a_question() {
    let mut scene = Scene::made(350, false);
    for turn in 1..=4_u64 {
        scene.says(&format!("Question {turn} {}", "x".repeat(80))).told();
        scene.writes(turn, "Yes.").answered(turn).spoken(turn);
    }
    let told = scene.told();
    assert!(told.ends_with("answer-4 ends, forgets") && !told.contains("ask"), "{told}");
    scene.says("And now?").told();
    assert_eq!(scene.shown.len(), 6, "the prompt, two turns, and what is asked now: {:?}", scene.shown);
    assert!(matches!(&scene.shown[1], Message::Caller(text) if text.starts_with("Question 3")), "{:?}", scene.shown);
}

/// Beside an answer and beside the history's own; a newer wish replaces an older one.
#[test]
fn what_the_call_wants_summed_up_is_written_aside() {
    let mut scene = Scene::new();
    let wish = |mark| AgentCommand::Summarise { mark, record: format!("> Caller: line {mark}") };
    scene.says("Hello.").told();
    scene.command(wish(7));
    assert_eq!(scene.told(), "ask 2");
    assert!(matches!(&scene.shown[..], [Message::System(_), Message::Caller(record)] if record == "> Caller: line 7"));
    scene.command(wish(9));
    assert_eq!(scene.told(), "stop 2, ask 3");
    scene.writes(3, "They want a boat. ").writes(1, "Yes.").answered(3);
    assert_eq!(scene.told(), "Summary { mark: 9, text: \"They want a boat.\" }");
    scene.command(wish(12)).told();
    scene.fails(4);
    assert_eq!(scene.told(), "Noise(CommandRefused)", "the conversation goes on");
    scene.answered(1).spoken(1);
    assert!(scene.told().contains("answer-1 ends"));
}

#[test]
fn what_the_agent_is_told_it_knows_and_answers_if_it_is_to() {
    let mut scene = Scene::new();
    scene.command(AgentCommand::Tell { text: "The caller pressed 1.".into(), reply: Reply::NotNow });
    assert_eq!(scene.told(), "");
    scene.command(AgentCommand::Tell { text: "The caller pressed 2.".into(), reply: Reply::Wanted });
    assert_eq!(scene.told(), "answer-1 begins, ask 1");
    assert!(
        matches!(&scene.shown[1..], [Message::System(one), Message::System(two)] if one.contains('1') && two.contains('2'))
    );
}

#[test]
fn nothing_is_asked_while_the_caller_speaks() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began]).result("c1", Reply::Wanted);
    assert_eq!(scene.told(), "TurnBegan");
    scene.turns(&[CallerTurn::Ended]).words("Well?");
    assert_eq!(scene.told(), "TurnEnded, caller: Well?, answer-1 begins, ask 1", "one answer to both");
}
