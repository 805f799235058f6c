//! The read-back: a write waits until the caller has agreed to it, by voice or by key.

use crate::call::stage::{LINE, MOMENT, PATIENCE, Stage, WORDS, approved_tool, book, look_up, spoken};
use offhook_core::{
    call::{AgentEvent, AgentLoss, AgentTraits, Input, LegEvent, Next, Note, Output, Reply, Speaker, Successor},
    facts::Party,
    tool::{ToolOutcome, ToolSpec, Verdict},
};
use serde_json::{Value, json};

const FRIDAY: &str = r#"{"a":"Friday"}"#;

fn with_token(stage: &Stage) -> String {
    format!(r#"{{"a":"Friday","confirmationToken":"{}"}}"#, stage.token())
}

/// The agent wanted to book and has put the question.
fn asked() -> Stage {
    let mut stage = Stage::with_tools([book(), look_up(), approved_tool("wave")]);
    stage.caller_tells("A table please.").only_calls("provider-1", "book", FRIDAY);
    let (_, envelope, reply) = stage.answers().remove(0);
    assert_eq!((&envelope["error"]["type"], reply), (&json!("CONFIRMATION_REQUIRED"), Reply::Wanted));
    assert_eq!(envelope["error"]["confirmation_request"]["preview"], "Book a table on Friday?");
    assert!(stage.ran().is_empty());
    stage.agent_tells("question", "I will book a table on Friday, is that right?");
    stage
}

fn verdicts(stage: &Stage) -> Vec<Verdict> {
    let verdict = |note: &&Note| if let Note::Confirmed(verdict) = note { Some(*verdict) } else { None };
    stage.notes().iter().filter_map(verdict).collect()
}

/// P15, P answer 3, G answer 12: question, yes, the same call with the token, outcome, answer.
#[test]
fn a_spoken_yes_lets_the_tool_run() {
    let mut stage = asked();
    stage.caller_tells("Yes, please.");
    assert_eq!(verdicts(&stage), [Verdict::Granted]);
    stage.only_calls("provider-2", "book", &with_token(&stage));
    assert_eq!(stage.ran(), ["book"]);
    assert_eq!(stage.approved()[0].arguments().len(), 1, "no token");
    stage.after(800).finishes("book", ToolOutcome::done("Booked.", json!({ "number": 7 })));
    assert_eq!((&stage.answer()["data"], stage.answers()[1].2), (&json!({ "number": 7 }), Reply::Wanted));
    let again = with_token(&stage);
    stage.agent_tells("done", "It is booked.").only_calls("provider-3", "book", &again);
    assert_eq!(stage.answer()["error"]["type"], "CONFIRMATION_REQUIRED", "the token is spent");
    assert_eq!(stage.audits().len(), 3);
}

/// G answer 12: the agent does not hear a key, so it is told.
#[test]
fn a_key_lets_the_tool_run() {
    let mut stage = asked();
    stage.leg(LegEvent::Digit('1'));
    assert_eq!(verdicts(&stage), [Verdict::Granted]);
    let (told, reply) = &stage.told()[0];
    assert!(told.contains("said yes by pressing a key") && *reply == Reply::Wanted);
    assert!(stage.told_to_say().is_empty(), "whoever is told what to say may not call the tool");
    stage.only_calls("provider-2", "book", &with_token(&stage));
    assert_eq!(stage.ran(), ["book"]);
}

/// G answer 12: the agent is told of a key that declines, too.
#[test]
fn a_key_declines() {
    let mut stage = asked();
    stage.leg(LegEvent::Digit('2'));
    assert_eq!(verdicts(&stage), [Verdict::Declined]);
    assert!(stage.told()[0].0.contains("said no by pressing a key"));
    stage.only_calls("provider-2", "book", &with_token(&stage));
    assert!(stage.ran().is_empty());
}

/// P answer 3: an agent that sends the token back before the caller has spoken is asked again.
#[test]
fn an_echoed_token_runs_nothing() {
    let mut stage = Stage::with_tools([book()]);
    stage.caller_tells("A table please.").only_calls("provider-1", "book", FRIDAY);
    let first = stage.token();
    stage.only_calls("provider-2", "book", &with_token(&stage));
    assert!(stage.ran().is_empty());
    assert_eq!(stage.answer()["error"]["type"], "CONFIRMATION_REQUIRED");
    assert_ne!(stage.token(), first);
}

/// P answer 3: a no is a no, and so are words that are neither.
#[test]
fn without_a_yes_nothing_runs() {
    for (words, verdict) in [("No, thank you.", vec![Verdict::Declined]), ("How much is it?", vec![])] {
        let mut stage = asked();
        stage.caller_tells(words);
        assert_eq!(verdicts(&stage), verdict, "{words}");
        stage.only_calls("provider-2", "book", &with_token(&stage));
        assert!(stage.ran().is_empty(), "{words}");
    }
}

/// P answer 3: five minutes after the question a yes answers nothing.
#[test]
fn a_question_expires() {
    let mut stage = asked();
    stage.after(300_000).caller_tells("Yes.");
    assert_eq!(verdicts(&stage), []);
    stage.only_calls("provider-2", "book", &with_token(&stage));
    assert!(stage.ran().is_empty());
}

/// P answer 3: agents hear faster than transcribers write, so the call waits for the words.
#[test]
fn a_call_waits_for_the_callers_words() {
    let mut stage = asked();
    let again = with_token(&stage);
    stage.caller_says(300).only_calls("provider-2", "book", &again).after(1_000);
    assert!(stage.ran().is_empty());
    assert_eq!(stage.answers().len(), 1, "it is not answered yet");
    stage.hears(Speaker::Caller, "Yes.");
    assert_eq!(stage.ran(), ["book"]);
    stage.finishes("book", ToolOutcome::done("Booked.", json!(1)));
    assert_eq!(stage.answers().len(), 2);
}

/// P answer 3: words that do not come are no yes; the agent is answered all the same.
#[test]
fn a_call_does_not_wait_for_ever() {
    let mut stage = asked();
    let again = with_token(&stage);
    stage.caller_says(300).only_calls("provider-2", "book", &again).after(2_600);
    assert!(stage.ran().is_empty());
    assert_eq!(stage.answer()["error"]["type"], "CONFIRMATION_REQUIRED");
    stage.hears(Speaker::Caller, "Yes.");
    assert_eq!(verdicts(&stage), [Verdict::Granted], "late, and an answer to this very question");
}

/// P answer 3: a failed transcription counts as a no, at once.
#[test]
fn a_call_does_not_wait_for_words_that_are_not_transcribed() {
    let mut stage = asked();
    let again = with_token(&stage);
    let utterance = Some("u".into());
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: utterance.clone() }).after(300);
    stage.agent(AgentEvent::CallerSpeechStopped).only_calls("provider-2", "book", &again).after(100);
    assert_eq!(stage.answers().len(), 1, "it waits");
    let said = |stage: &Stage| stage.notes().iter().filter(|note| matches!(note, Note::Said { .. })).count();
    let before = said(&stage);
    stage.agent(AgentEvent::NoTranscript { utterance });
    assert_eq!((stage.answers().len(), stage.ran().len(), said(&stage)), (2, 0, before));
    assert_eq!(stage.answer()["error"]["type"], "CONFIRMATION_REQUIRED");
}

/// A key is an answer as well while the words are awaited.
#[test]
fn a_key_ends_the_wait() {
    let mut stage = asked();
    let again = with_token(&stage);
    stage.caller_says(300).only_calls("provider-2", "book", &again).leg(LegEvent::Digit('1'));
    assert_eq!(stage.ran(), ["book"]);
    assert!(stage.told().is_empty(), "it has called already");
}

/// G answer 12: also an agent that is busy with another tool learns of the key.
#[test]
fn a_key_is_told_while_another_tool_runs() {
    let mut stage = asked();
    stage.only_calls("provider-2", "look_up", "{}").leg(LegEvent::Digit('1'));
    assert!(stage.told()[0].0.contains("said yes by pressing a key"));
}

/// P answer 3: the words of the turn that led to the question are no answer to it.
#[test]
fn a_late_transcript_is_no_yes() {
    let mut stage = Stage::with_tools([book()]);
    stage.caller_says(300).only_calls("provider-1", "book", FRIDAY).hears(Speaker::Caller, "Yes, a table.");
    assert_eq!(verdicts(&stage), []);
    stage.only_calls("provider-2", "book", &with_token(&stage));
    assert!(stage.ran().is_empty());
}

/// Nothing new begins in a call that is ending, not even what waited.
#[test]
fn a_waiting_call_does_not_begin_when_the_call_is_ending() {
    let mut stage = asked();
    let again = with_token(&stage);
    stage.caller_says(300).starts("r").calls_tool("provider-2", "book", &again);
    stage.calls_tool("provider-3", "hangup_call", "{}").runs_tools().done("r").hears(Speaker::Caller, "Yes.");
    assert_eq!(stage.ran(), ["hangup_call"]);
    assert_eq!(stage.answers().iter().filter(|(_, envelope, _)| envelope["ok"] == true).count(), 1);
    assert_eq!(stage.audits().len(), 3);
}

/// P31: a caller who hangs up leaves no call without its line.
#[test]
fn calls_that_nobody_answers_any_more_have_their_lines() {
    let mut stage = asked();
    stage.caller_tells("And the hours?").starts("r").calls_tool("provider-2", "look_up", "{}");
    stage.calls_tool("provider-2", "look_up", "{}").done("r").caller_says(100);
    stage.only_calls("provider-3", "book", &with_token(&stage)).leg(LegEvent::CallerLeft);
    let lines: Vec<_> = stage.audits().into_iter().map(|line| (line.tool_id, line.cancelled)).collect();
    let line = |name: &str, cancelled| (name.to_owned(), cancelled);
    assert_eq!(lines, [line("book", false), line("book", false), line("look_up", true), line("look_up", true)]);
    assert!(stage.seen.iter().any(|(_, output)| matches!(output, Output::CancelTool { .. })));
    assert!(stage.ended().is_some());
}

// ---- Questions that are clips ----

/// The agent has said something, which its provider tells, wanted to book, and its tool's question is a clip of 600 ms.
fn asked_by_clip() -> Stage {
    let question = ToolSpec { confirm_template: Some(WORDS.into()), ..book() };
    let mut stage = Stage::with_tools([question]);
    stage.caller_tells("A table please.").starts("r").speaks("r", 400).calls_tool("provider-1", "book", FRIDAY);
    stage.hears(Speaker::Agent, "A table, gladly.").done("r");
    stage
}

/// Verbatim and once: the agent's words before it are heard first, and it is told to be silent.
#[test]
fn a_question_with_a_clip_is_put_in_its_very_words() {
    let mut stage = asked_by_clip();
    let (_, envelope, reply) = stage.answers().remove(0);
    assert_eq!(reply, Reply::NotNow, "the agent says nothing");
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.contains("now asked by another voice") && message.contains(WORDS), "{message}");
    stage.after(2_000);
    assert_eq!((stage.voice_ms(), stage.heard(LINE).len()), (500 + 400, 30));
    assert!(stage.notes().contains(&&Note::Spoke { purpose: "question" }));
    // Whatever the provider tells of what its agent said: the caller has heard the question.
    stage.caller_tells("Yes, please.");
    assert_eq!(verdicts(&stage), [Verdict::Granted]);
    stage.only_calls("provider-2", "book", &with_token(&stage));
    assert_eq!(stage.ran(), ["book"]);
}

/// Whoever is asked and thinks is not asked to wait, though something runs beside the question.
#[test]
fn a_caller_who_thinks_about_a_question_with_a_clip_is_not_asked_to_wait() {
    let question = ToolSpec { confirm_template: Some(WORDS.into()), ..book() };
    let mut stage = Stage::with_tools([question, look_up()]);
    stage.caller_tells("A table please.").starts("r").speaks("r", 400).calls_tool("provider-1", "book", FRIDAY);
    stage.calls_tool("provider-2", "look_up", "{}").done("r").after(5_000);
    assert_eq!((stage.ran(), stage.heard(LINE).len()), (vec!["look_up".to_owned()], 30));
    assert_eq!((stage.heard(MOMENT).len(), stage.heard(PATIENCE).len()), (0, 0));
}

/// A yes to what was not heard is none, and the agent has to put the question itself.
#[test]
fn a_question_with_a_clip_that_is_talked_over_counts_by_how_much_of_it_was_heard() {
    for (after_ms, expected) in [(500, Verdict::Unheard), (900, Verdict::Granted)] {
        let mut stage = asked_by_clip();
        stage.after(after_ms).caller_tells("Yes, please.");
        assert_eq!(verdicts(&stage), [expected], "{after_ms} ms");
        assert!(stage.heard(LINE).len() < 30, "it is cut off");
        let told = stage.told().iter().any(|(text, _)| text.contains("has not heard the question"));
        assert_eq!(told, expected == Verdict::Unheard);
    }
}

/// A caller who speaks when the question is due is not spoken into.
#[test]
fn a_question_with_a_clip_is_not_put_to_a_caller_who_speaks() {
    let mut stage = Stage::with_tools([ToolSpec { confirm_template: Some(WORDS.into()), ..book() }]);
    stage.caller_tells("A table please.").starts("r").calls_tool("provider-1", "book", FRIDAY);
    stage.agent(AgentEvent::CallerSpeechStarted { utterance: None }).done("r").after(1_000);
    assert_eq!(stage.heard(LINE), []);
    assert!(stage.told().iter().any(|(text, _)| text.contains("has not heard the question")));
}

/// What waited behind another sentence and went with it was not heard, whatever the caller says to the other one.
#[test]
fn a_question_behind_a_filler_that_is_talked_over_was_not_heard() {
    let mut stage = Stage::with_tools([ToolSpec { confirm_template: Some(WORDS.into()), ..book() }]);
    stage.caller_tells("A table please.").after(1_400);
    assert!(!stage.heard(MOMENT).is_empty(), "the model is slow");
    stage.hears(Speaker::Agent, "Let me see.").only_calls("provider-1", "book", FRIDAY).after(100);
    assert_eq!(stage.heard(LINE), []);
    stage.caller_tells("Yes, thanks.");
    assert_eq!(verdicts(&stage), [Verdict::Unheard]);
    stage.only_calls("provider-2", "book", &with_token(&stage));
    assert!(stage.ran().is_empty());
    // The agent puts it now, and then a yes is one.
    stage.agent_tells("again", WORDS).caller_tells("Yes.");
    assert_eq!(verdicts(&stage), [Verdict::Unheard, Verdict::Granted]);
}

/// A key before the question is no answer to it; in its second half it is, and nobody is asked on.
#[test]
fn a_key_counts_for_a_question_with_a_clip_once_it_can_be_known() {
    for (after_ms, expected) in [(100, Verdict::Unheard), (500, Verdict::Unheard), (900, Verdict::Granted)] {
        let mut stage = asked_by_clip();
        stage.after(after_ms).leg(LegEvent::Digit('1')).after(1_000);
        assert_eq!(verdicts(&stage), [expected], "{after_ms} ms");
        assert!(stage.heard(LINE).len() < 30, "{after_ms} ms");
    }
}

/// Its agent is gone: the next one's questions are its own.
#[test]
fn a_question_with_a_clip_that_its_agent_did_not_get_to_put_is_not_put() {
    let mut stage = Stage::with_tools([ToolSpec { confirm_template: Some(WORDS.into()), ..book() }]);
    stage.caller_tells("A table please.").starts("r").speaks("r", 400).calls_tool("provider-1", "book", FRIDAY);
    stage.agent(AgentEvent::Lost(AgentLoss::Closed)).after(2_000);
    assert_eq!(stage.heard(LINE), []);
}

/// Some agents answer every result: nobody hears that beside the question, and what was not heard puts no question.
#[test]
fn what_an_agent_says_beside_a_question_with_a_clip_is_not_heard_and_counts_for_nothing() {
    let mut stage = asked_by_clip();
    stage.after(100).starts("own").speaks("own", 400).hears(Speaker::Agent, WORDS).after(1_900);
    assert_eq!((stage.voice_ms(), stage.heard(LINE).len()), (500 + 400, 30), "one voice, and the question once");
    let said = |stage: &Stage| {
        let said =
            |note: &&Note| matches!(note, Note::Said { speaker: Speaker::Agent, text } if text.reveal() == WORDS);
        stage.notes().into_iter().filter(said).count()
    };
    assert_eq!(said(&stage), 1, "as the clip says it");
    // What comes of it after the caller's answer is not heard either, and the answer to that is.
    stage.caller_tells("Yes, please.").speaks("own", 400).done("own").reply("next", 400).after(1_000);
    assert_eq!(verdicts(&stage), [Verdict::Granted]);
    assert_eq!(stage.voice_ms(), 500 + 400 + 400);

    let mut stage = asked_by_clip();
    stage.after(100).starts("own").speaks("own", 400).hears(Speaker::Agent, WORDS).done("own").after(400);
    stage.caller_tells("Yes.");
    assert_eq!(verdicts(&stage), [Verdict::Unheard], "it was talked over, and the agent's own was not heard");
}

/// So a caller who says nothing is spoken to again.
#[test]
fn an_agent_that_is_asked_to_speak_after_a_question_with_a_clip_is_heard() {
    let mut stage = asked_by_clip();
    stage.after(2_000).input(Input::Say("Ask whether the caller is still there.".into()));
    stage.reply("prompt", 400).after(1_000);
    assert_eq!((stage.voice_ms(), stage.heard(LINE).len()), (500 + 400 + 400, 30));
}

/// A model that calls again before the caller has answered does not make them hear the question twice.
#[test]
fn a_question_with_a_clip_is_put_once_however_often_the_tool_is_called() {
    let mut stage = asked_by_clip();
    stage.after(200).only_calls("provider-2", "book", FRIDAY).after(1_500);
    assert_eq!(stage.heard(LINE).len(), 30);
    let told = |(_, envelope, reply): (String, Value, Reply)| (envelope["error"]["type"].clone(), reply);
    let told: Vec<_> = stage.answers().into_iter().map(told).collect();
    assert!(told.iter().all(|told| *told == (json!("CONFIRMATION_REQUIRED"), Reply::NotNow)), "{told:?}");
    let again = with_token(&stage);
    stage.caller_tells("Yes.").only_calls("provider-4", "book", &again);
    assert_eq!((verdicts(&stage), stage.ran()), (vec![Verdict::Granted], vec!["book".to_owned()]));
    // One who has said something else is asked once more.
    let mut stage = asked_by_clip();
    stage.after(2_000).caller_tells("How much is it?").only_calls("provider-2", "book", FRIDAY).after(1_500);
    assert_eq!(stage.heard(LINE).len(), 60);
}

/// Its agent, which said nothing besides, is gone while the caller is asked: the next one says nothing either. It knows what was asked, and who has said yes is not asked again.
#[test]
fn an_answer_to_a_question_with_a_clip_outlives_the_agent_that_asked() {
    let question = ToolSpec { confirm_template: Some(WORDS.into()), ..book() };
    let mut stage = Stage::with_tools([question]);
    stage.caller_tells("A table please.").only_calls("provider-1", "book", FRIDAY);
    let agent = AgentTraits { detects_speech: true, ..AgentTraits::PLAIN };
    stage.understudies.push_back(Successor { provider: "next".into(), agent, resumes: false });
    stage.after(200).agent(AgentEvent::Lost(AgentLoss::Closed)).after(100);
    stage.input(Input::Next(Next::Event(AgentEvent::Ready))).after(2_000);
    assert_eq!(stage.heard(LINE).len(), 30, "it is heard to its end");
    assert!(stage.told().iter().all(|(_, reply)| *reply == Reply::NotNow), "{:?}", stage.told());
    stage.caller_tells("Yes.").only_calls("provider-1", "book", FRIDAY);
    assert_eq!(verdicts(&stage), [Verdict::Granted]);
    let message = stage.answer()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("has said yes") && !message.contains("Say"), "{message}");
    stage.only_calls("provider-2", "book", &with_token(&stage)).after(1_000);
    assert_eq!((stage.ran(), stage.heard(LINE).len()), (vec!["book".to_owned()], 30));
}

// ---- Questions about the arguments of one call ----

/// Question of `book` for Friday.
const QUESTION: &str = "Book a table on Friday?";

/// The agent has said something, wanted to book, and a voice is to speak the question.
fn asked_by_voice() -> Stage {
    let mut stage = Stage::with_voice([book(), look_up()]);
    stage.caller_tells("A table please.").starts("r").speaks("r", 400).calls_tool("provider-1", "book", FRIDAY);
    stage.hears(Speaker::Agent, "A table, gladly.").done("r");
    let asked = stage.seen.iter().filter(|(_, output)| *output == Output::Speak(QUESTION.to_owned().into())).count();
    assert_eq!(asked, 1);
    let (_, envelope, reply) = stage.answers().remove(0);
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.contains("now asked by another voice") && reply == Reply::NotNow, "{message}");
    stage
}

fn voice_fails(stage: &mut Stage) {
    stage.input(Input::Spoken { sentence: QUESTION.to_owned().into(), clip: None });
}

fn voice_speaks(stage: &mut Stage) {
    let clip = Some(spoken(QUESTION, LINE).clip);
    stage.input(Input::Spoken { sentence: QUESTION.to_owned().into(), clip });
}

/// With these values and no others: nobody but the engine puts it, and a yes runs the call.
#[test]
fn a_question_about_the_arguments_is_put_by_the_engines_voice() {
    let mut stage = asked_by_voice();
    stage.after(600);
    assert_eq!(stage.heard(LINE), [], "it is being spoken");
    voice_speaks(&mut stage);
    stage.after(1_000);
    assert_eq!((stage.voice_ms(), stage.heard(LINE).len()), (500 + 400, 30));
    stage.caller_tells("Yes, please.");
    assert_eq!(verdicts(&stage), [Verdict::Granted]);
    stage.only_calls("provider-2", "book", &with_token(&stage));
    assert_eq!(stage.ran(), ["book"]);
}

#[test]
fn a_yes_before_the_voice_has_put_the_question_does_not_count() {
    let mut stage = asked_by_voice();
    stage.after(500).caller_tells("Yes, please.");
    assert_eq!(verdicts(&stage), [Verdict::Unheard]);
    // The agent's answer to that is heard.
    stage.reply("answer", 400);
    voice_speaks(&mut stage);
    stage.after(1_000);
    assert_eq!(
        (stage.voice_ms(), stage.heard(LINE).len()),
        (500 + 400 + 400, 0),
        "the caller has said something since"
    );
    assert!(stage.told().iter().any(|(text, _)| text.contains("has not heard the question")), "{:?}", stage.told());
}

#[test]
fn a_question_that_no_voice_speaks_in_time_is_the_agents_word_for_word() {
    let answer = |question: &str| {
        let mut stage = asked_by_voice();
        voice_fails(&mut stage);
        let (told, reply) = stage.told().pop().unwrap();
        assert!(told.contains(QUESTION) && reply == Reply::Wanted, "{told}");
        stage.agent_tells("question", question).caller_tells("Yes.");
        verdicts(&stage)
    };
    assert_eq!(answer("So: book a table on Friday? Yes or no?"), [Verdict::Granted]);
    assert_eq!(answer("Shall I reserve the table for Friday?"), [Verdict::Unheard]);
}

/// A voice that fails while the response goes on leaves the question to the agent, with the answers.
#[test]
fn a_question_is_spoken_while_its_response_goes_on() {
    let called = || {
        let mut stage = Stage::with_voice([book()]);
        stage.caller_tells("A table please.").starts("r").speaks("r", 400).calls_tool("provider-1", "book", FRIDAY);
        stage
    };
    let mut stage = called();
    voice_speaks(&mut stage);
    stage.done("r").after(2_000);
    assert_eq!((stage.answers()[0].2, stage.heard(LINE).len()), (Reply::NotNow, 30));
    let mut stage = called();
    voice_fails(&mut stage);
    stage.done("r");
    assert_eq!(stage.answers()[0].2, Reply::NotNow, "it says that another voice asks");
    let (told, reply) = stage.told().remove(0);
    assert!(told.contains("word for word") && reply == Reply::Wanted, "nobody asks the caller but the agent: {told}");
}

/// A model that calls again before the caller was asked has the question spoken once.
#[test]
fn a_question_that_is_being_spoken_is_not_spoken_again() {
    let mut stage = asked_by_voice();
    stage.only_calls("provider-2", "book", FRIDAY);
    voice_speaks(&mut stage);
    stage.after(2_000);
    let spoken = stage.seen.iter().filter(|(_, output)| matches!(output, Output::Speak(_))).count();
    assert_eq!((spoken, stage.heard(LINE).len()), (1, 30));
    assert!(stage.answers().iter().all(|(_, _, reply)| *reply == Reply::NotNow));
}

/// The agent that is lost meanwhile takes its question along.
#[test]
fn a_question_whose_agent_is_lost_while_it_is_spoken_is_not_put() {
    let mut stage = asked_by_voice();
    stage.agent(AgentEvent::Lost(AgentLoss::Closed));
    voice_speaks(&mut stage);
    stage.after(2_000);
    assert_eq!(stage.heard(LINE), []);
}

/// Words for one person are not another's to hear, nor is a caller asked who is about to be handed on.
#[test]
fn a_question_is_not_put_to_another_party_or_on_the_way_out() {
    let mut stage = asked_by_voice();
    stage.leg(LegEvent::PartyChanged(Party::default()));
    voice_speaks(&mut stage);
    stage.after(2_000);
    assert_eq!(stage.heard(LINE), []);
    let mut stage = Stage::with_voice([book()]);
    stage.caller_tells("A table please, and bye.").starts("r").speaks("r", 400);
    stage.calls_tool("provider-1", "book", FRIDAY).calls_tool("provider-2", "hangup_call", "{}").runs_tools().done("r");
    voice_speaks(&mut stage);
    stage.after(2_000);
    assert_eq!(stage.heard(LINE), []);
    assert!(stage.ended().is_some());
}

/// Where the provider does not tell what its agent said, the engine knows what it had it say.
#[test]
fn a_yes_to_what_the_agent_was_told_to_say_behind_the_question_is_none() {
    let mut stage = Stage::with_voice([book()]);
    stage
        .caller_tells("A table please.")
        .starts("r")
        .speaks("r", 400)
        .calls_tool("provider-1", "book", FRIDAY)
        .done("r");
    voice_speaks(&mut stage);
    stage.after(2_000).input(Input::Say("Are you still there?".into())).reply("prompt", 400).after(1_000);
    stage.caller_tells("Yes.");
    assert_eq!(verdicts(&stage), []);
    stage.only_calls("provider-2", "book", &with_token(&stage));
    assert!(stage.ran().is_empty());
}
