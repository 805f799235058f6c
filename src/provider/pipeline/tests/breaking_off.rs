//! Answers that are not whole: what is said of the rest, and when it is not wanted any more.

use super::*;

#[test]
fn a_farewell_waits_for_no_words_and_nothing_is_said_behind_it() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began, CallerTurn::Ended]).command(AgentCommand::Say { text: "Goodbye.".into() });
    assert_eq!(scene.told(), "TurnBegan, TurnEnded, answer-1 begins, ask 1");
    scene.words("One more thing.").writes(1, "Bye.").answered(1).spoken(1);
    assert_eq!(scene.told(), "caller: One more thing., speak 1 \"Bye.\", sound 1, agent: Bye., answer-1 ends");
    // Nor an answer that was owed already.
    scene.says("Hello.").writes(2, "One moment. ").told();
    scene.result("c1", Reply::Wanted).command(AgentCommand::Say { text: "Goodbye.".into() });
    scene.answered(2).spoken(2);
    assert!(scene.told().ends_with("answer-2 ends, answer-3 begins, ask 3"));
    assert_eq!(scene.writes(3, "Bye.").answered(3).spoken(3).told().matches("ask").count(), 0);
}

/// The words come in the order of the turns, so those of the next turn are not taken for them.
#[test]
fn who_stays_after_a_farewell_is_answered_to_what_they_say_then_and_to_what_came_late() {
    let mut scene = Scene::new();
    scene.turns(&[CallerTurn::Began, CallerTurn::Ended]).command(AgentCommand::Say { text: "Goodbye.".into() });
    scene.writes(1, "Bye.").answered(1).spoken(1).turns(&[CallerTurn::Began, CallerTurn::Ended]).told();
    assert_eq!(scene.words("One more thing.").told(), "caller: One more thing.");
    assert_eq!(scene.words("Wait.").told(), "caller: Wait., answer-2 begins, ask 2");
    assert_eq!(scene.last_shown(), &caller("One more thing. Wait."));
}

#[test]
fn half_a_sentence_that_nobody_has_heard_is_asked_for_once_more() {
    let mut scene = Scene::new();
    scene.says("Hello.").writes(1, "Cert").fails(1);
    assert!(scene.told().ends_with("quiet, ask 2"));
    scene.writes(2, "Certainly.").answered(2).spoken(2);
    assert!(scene.told().ends_with("agent: Certainly., answer-1 ends"));
}

#[test]
fn an_answer_that_breaks_off_is_spoken_as_far_as_it_went_and_runs_no_tool() {
    let mut scene = Scene::new();
    scene.says("Look.").writes(1, "One moment. I will").sounds(1).calls(1, "c1").fails(1).told();
    let heard = "sound 1, sound 2, agent: One moment. I will, answer-1 is Incomplete, answer-2 begins, ask 2";
    assert_eq!(scene.spoken(1).spoken(2).told(), heard, "the caller waits for the rest");
    scene.writes(2, "Here it is.").answered(2).spoken(3).told();
    assert!(
        matches!(scene.shown.last(), Some(Message::System(note)) if note.contains("broke off")),
        "{:?}",
        scene.shown
    );
    // Once in a turn; who breaks off again is no agent to rely on.
    scene.says("And now?").writes(3, "One moment. I will").sounds(4).fails(3).spoken(4).spoken(5).told();
    assert!(scene.writes(4, "Well. I").sounds(6).fails(4).told().ends_with("lost: closed"));
}

/// Whether they interrupt the wait for the rest or the rest itself, and also when the rest was heard.
#[test]
fn a_caller_who_speaks_after_an_answer_that_broke_off_is_not_answered_with_its_rest() {
    for (spoken, writes, cuts) in [(false, false, false), (false, false, true), (true, false, true), (true, true, true)]
    {
        let mut scene = Scene::new();
        scene.says("Look.").writes(1, "One moment. I will").sounds(1).fails(1).told();
        if spoken {
            assert!(scene.spoken(1).spoken(2).told().ends_with("ask 2"));
        }
        if writes {
            scene.writes(2, "Here it is.").answered(2).spoken(3).told();
        }
        // Where all that was told so far had been heard, nothing is cut off.
        if cuts {
            scene.interrupt("answer-1", 1_500);
        }
        scene.says("Wait.");
        assert!(scene.told().contains("ask "), "{spoken} {writes}");
        assert!(matches!(scene.last_shown(), Message::Caller(text) if text.ends_with("Wait.")), "{:?}", scene.shown);
        let told = |message: &Message| matches!(message, Message::System(note) if note.contains("broke off"));
        assert!(!scene.shown.iter().any(told), "{:?}", scene.shown);
    }
}

#[test]
fn who_is_lost_for_a_listener_that_takes_nothing_tells_what_was_heard_of_the_answer() {
    let mut scene = Scene::new();
    scene.says("Hello.").writes(1, "Hi there. How are").sounds(1).told();
    assert_eq!(scene.step(Input::Stalled).told(), "agent: Hi there., lost: stalled");
}
