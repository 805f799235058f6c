//! What is told of who is being heard, and of when nobody is to be expected any more.

use super::stage::*;
use offhook_core::{
    call::{LegCommand, Note, Output},
    tool::{Done, ToolOutcome},
};

fn count(stage: &Stage, wanted: &Note) -> usize {
    stage.notes().into_iter().filter(|note| *note == wanted).count()
}

/// V29: neither a pause in an answer, nor a tool, nor a filler is the end of what a caller can expect; the last word is.
#[test]
fn it_is_quiet_when_nothing_is_said_and_nothing_is_owed() {
    let mut stage = Stage::with_tools([approved_tool("weather")]);
    assert_eq!(count(&stage, &Note::Quiet), 1, "after the greeting");
    stage.caller_says(300).starts("r").speaks("r", 300).after(1_000);
    assert_eq!(count(&stage, &Note::AgentFinished), 1, "of the greeting: this answer goes on");
    stage.calls_tool("provider-1", "weather", "{}").done("r").after(5_000);
    assert!(!stage.heard(MOMENT).is_empty(), "the caller was asked to wait");
    stage.finishes("weather", ToolOutcome::Done(Done::default())).after(500).starts("r2").speaks("r2", 300).done("r2");
    assert_eq!(count(&stage, &Note::Quiet), 1);
    stage.after(280);
    assert_eq!(count(&stage, &Note::Quiet), 1, "in mid-word");
    stage.after(1_000);
    assert_eq!(count(&stage, &Note::Quiet), 2);
}

/// V answer 15: a client that hears both can tell a filler from an answer.
#[test]
fn a_filler_is_over_before_the_answer_begins() {
    let mut stage = Stage::with_tools([approved_tool("weather")]);
    stage.caller_says(300).only_calls("provider-1", "weather", "{}").after(1_500);
    let before = stage.seen.len();
    stage.finishes("weather", ToolOutcome::Done(Done::default())).reply("r", 300).after(1_000);
    let at = |wanted: &dyn Fn(&Output) -> bool| stage.seen[before..].iter().position(|(_, output)| wanted(output));
    let over = at(&|output| *output == Output::Note(Note::SentenceOver)).expect("it ends");
    let voice = at(&|output| matches!(output, Output::ToLeg(LegCommand::Play(frame)) if frame.contains(&VOICE)));
    assert!(over < voice.expect("the answer is heard"));
    assert_eq!(count(&stage, &Note::SentenceOver), 1);
}

/// V31: a caller who talks into a sentence of ours interrupts it, though no agent is interrupted.
#[test]
fn a_sentence_of_ours_that_is_cut_off_is_told() {
    let mut stage = Stage::with_tools([approved_tool("weather")]);
    stage.caller_says(300).only_calls("provider-1", "weather", "{}").after(1_500);
    assert!(!stage.heard(MOMENT).is_empty());
    stage.caller_says(300).after(200);
    assert_eq!(count(&stage, &Note::SentenceCut), 1);
    assert!(!stage.notes().iter().any(|note| matches!(note, Note::BargeIn { .. })));
}

/// What nobody has begun to hear is not interrupted.
#[test]
fn a_sentence_that_was_not_heard_is_not_cut_off() {
    let mut stage = Stage::with_tools([approved_tool("weather")]);
    stage.caller_says(300).only_calls("provider-1", "weather", "{}").after(1_000).caller_says(300).after(200);
    assert_eq!(count(&stage, &Note::SentenceCut), 0);
}
