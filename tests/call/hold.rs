//! A caller whose phone has the call on hold: nobody is talked to, nobody is listened to, and the talk goes on when they are back.

use super::{
    hearing::{quiet, speaks},
    stage::*,
};
use offhook_core::{
    call::{
        AgentCommand, AgentEvent, AgentLoss, AgentTraits, CallRules, CallerTurn, LegEvent, Note, Speaker, TurnOwner,
        TurnRules,
    },
    tool::ToolOutcome,
};
use std::time::Duration;

const HELD: LegEvent = LegEvent::Held(true);
const TAKEN_UP: LegEvent = LegEvent::Held(false);
/// What a caller who was away is told by the agent.
const STILL_HERE: &str = "I am still here.";

/// A call whose turns offhook finds, after the greeting.
fn call() -> Stage {
    let turns = TurnRules { owner: TurnOwner::Offhook, ..TurnRules::default() };
    let agent = AgentTraits { takes_turns: true, ..AGENT };
    let mut stage = Stage::speaking(agent, CallRules { turns, ..rules() }, clips());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 300);
    quiet(&mut stage, 800);
    stage
}

fn heard_since(stage: &Stage, since: Duration) -> usize {
    stage.heard(VOICE).into_iter().filter(|at| *at >= since).count()
}

fn turns(stage: &Stage) -> usize {
    stage.commands().iter().filter(|command| matches!(command, AgentCommand::Turn(CallerTurn::Began))).count()
}

/// Call waiting, a consultation, a document that is looked for: all of them take longer than a caller may be silent.
#[test]
fn nobody_is_missed_who_has_the_call_on_hold() {
    let mut stage = call();
    stage.leg(HELD);
    quiet(&mut stage, 120_000);
    assert!(!stage.notes().contains(&&Note::NoInputPrompt));
    assert_eq!(stage.ended(), None);
    stage.leg(TAKEN_UP).reply("back", 300);
    quiet(&mut stage, 13_000);
    assert!(stage.notes().contains(&&Note::NoInputPrompt), "whoever is back and says nothing is asked as ever");
    let holds: Vec<_> = stage.notes().into_iter().filter(|note| matches!(note, Note::Held(_))).collect();
    assert_eq!(holds, [&Note::Held(true), &Note::Held(false)]);
}

/// A telephone system plays music or an announcement into a call that it holds.
#[test]
fn what_sounds_on_hold_is_no_turn_and_reaches_no_agent() {
    let mut stage = call();
    stage.leg(HELD);
    speaks(&mut stage, 20_000);
    assert_eq!(turns(&stage), 0);
    let sound = |command: &&AgentCommand| matches!(command, AgentCommand::Audio(audio) if audio.contains(&SPEECH));
    assert!(!stage.commands().iter().any(sound));
    stage.leg(TAKEN_UP).reply("back", 300);
    quiet(&mut stage, 1_000);
    speaks(&mut stage, 1_000);
    assert_eq!(turns(&stage), 1, "whoever is back is heard");
}

/// What was asked before the hold is answered behind it, whole.
#[test]
fn an_answer_waits_for_whoever_asked() {
    let mut stage = call();
    speaks(&mut stage, 1_000);
    stage.leg(HELD);
    quiet(&mut stage, 2_000);
    let on_hold = stage.elapsed();
    stage.reply("answer", 2_000);
    quiet(&mut stage, 30_000);
    assert_eq!(heard_since(&stage, on_hold), 0, "nobody is there to hear it");
    stage.leg(TAKEN_UP);
    quiet(&mut stage, 3_000);
    assert_eq!(heard_since(&stage, on_hold), 100, "all of it");
    assert!(!stage.told_to_say().iter().any(|text| text == STILL_HERE), "that is a sentence");
}

/// Half a sentence means nothing after a minute: the agent learns what was heard of it, and begins again.
#[test]
fn a_sentence_that_hold_broke_off_is_not_gone_on_with_in_its_middle() {
    let mut stage = call();
    speaks(&mut stage, 1_000);
    quiet(&mut stage, 800);
    stage.reply("answer", 4_000);
    quiet(&mut stage, 1_000);
    stage.leg(HELD);
    quiet(&mut stage, 60_000);
    let back = stage.elapsed();
    stage.leg(TAKEN_UP);
    quiet(&mut stage, 1_000);
    assert_eq!(heard_since(&stage, back), 0);
    let heard = stage.commands().into_iter().find_map(|command| match command {
        AgentCommand::Interrupt { heard, .. } => Some(*heard),
        _ => None,
    });
    assert_eq!(heard, Some(Duration::from_millis(1_000)), "what left on hold was heard by nobody");
    assert_eq!(stage.told_to_say(), [STILL_HERE]);
    assert!(stage.told().iter().any(|(text, _)| text.contains("on hold for 60 seconds")), "{:?}", stage.told());
}

/// Who pressed a key by mistake, or looked who else calls, is back at once.
#[test]
fn a_sentence_goes_on_at_the_exact_frame_after_a_short_hold() {
    let mut stage = call();
    speaks(&mut stage, 1_000);
    quiet(&mut stage, 800);
    let before = stage.elapsed();
    stage.reply("answer", 4_000);
    quiet(&mut stage, 1_000);
    stage.leg(HELD);
    quiet(&mut stage, 2_000);
    stage.leg(TAKEN_UP);
    quiet(&mut stage, 4_000);
    assert_eq!(heard_since(&stage, before), 200, "no frame is lost and none comes twice");
    assert_eq!(stage.told_to_say(), Vec::<String>::new());
}

/// Nobody waits who is not there: no filler, and no patience either.
#[test]
fn a_slow_tool_is_not_announced_to_nobody() {
    let mut stage = Stage::with_tools([approved_tool("weather")]);
    stage.hears(Speaker::Caller, "What is the weather?").only_calls("c", "weather", "{}").leg(HELD).after(8_000);
    assert_eq!((stage.heard(MOMENT), stage.heard(PATIENCE)), (vec![], vec![]));
    stage.leg(TAKEN_UP).after(100);
    assert!(!stage.heard(MOMENT).is_empty() || !stage.heard(PATIENCE).is_empty(), "it still runs, and that is told");
}

/// The filler was only to bridge the wait, and nobody waits for its rest.
#[test]
fn an_answer_behind_a_filler_that_hold_broke_off_is_heard_whole() {
    let mut stage = Stage::with_tools([approved_tool("weather")]);
    stage.caller_says(300).only_calls("c", "weather", "{}").after(1_500);
    assert!(!stage.heard(MOMENT).is_empty() && stage.heard(MOMENT).len() < 30, "in its middle");
    stage.leg(HELD).finishes("weather", ToolOutcome::done("Here.", serde_json::json!({}))).reply("r", 1_000);
    stage.after(30_000).leg(TAKEN_UP).after(3_000);
    assert_eq!(stage.heard(VOICE).len(), 25 + 50, "the greeting, and all of the answer");
}

/// Some providers ask by themselves whether the caller is still there.
#[test]
fn what_an_agent_says_unasked_on_hold_is_not_heard_afterwards() {
    let mut stage = call();
    stage.leg(HELD);
    let on_hold = stage.elapsed();
    for prompt in ["one", "two", "three"] {
        quiet(&mut stage, 10_000);
        stage.reply(prompt, 2_000);
    }
    stage.leg(TAKEN_UP);
    quiet(&mut stage, 5_000);
    assert_eq!(heard_since(&stage, on_hold), 0);
    assert_eq!(stage.told_to_say(), [STILL_HERE]);
}

/// Nobody is let go with a sentence that they could not hear.
#[test]
fn an_apology_waits_for_the_caller() {
    let mut stage = call();
    stage.leg(HELD).agent(AgentEvent::Lost(AgentLoss::Closed));
    quiet(&mut stage, 120_000);
    assert_eq!((stage.heard(APOLOGY).len(), stage.ended()), (0, None));
    stage.leg(TAKEN_UP);
    quiet(&mut stage, 3_000);
    assert_eq!(stage.heard(APOLOGY).len(), 30);
    assert!(stage.ended().is_some());
}
