//! Who waits hears something, whatever it is that they wait for: no silence is long, and "One moment, please" is said once.

use crate::call::stage::{AGENT, APOLOGY, MOMENT, PATIENCE, Stage, approved_tool, clips, rules};
use offhook_core::{
    call::{
        AgentEvent, AgentLoss, AgentTraits, CallRules, EndReason, Input, LegEvent, Next, Note, Output, ResponseStatus,
        Successor,
    },
    tool::{CallAction, ToolOutcome, ToolSpec},
};
use serde_json::json;
use std::time::Duration;

/// No silence that follows nothing, or the agent's voice, is longer: the promise is 1.5 s, and a frame has to leave.
const UNEXPLAINED_MAX: Duration = Duration::from_millis(1_480);
/// None is longer, whatever came before. The built-in recordings end with 0.4 s of silence: so nobody hears nothing for 4 s.
const SILENCE_MAX: Duration = Duration::from_millis(3_540);
/// Longer than anything that is waited for.
const LONG: u64 = 60_000;

fn successor() -> Successor {
    Successor { provider: "other".into(), agent: AGENT, resumes: false }
}

/// A tool that nobody wrote anything about, and which never comes to an end by itself.
fn tool(name: &str) -> ToolSpec {
    ToolSpec { timeout: Duration::from_secs(9), ..approved_tool(name) }
}

/// A caller has been greeted and says something.
fn asked() -> Stage {
    let mut stage = Stage::with_tools([tool("weather"), tool("trains")]);
    stage.caller_says(300);
    stage
}

fn found() -> ToolOutcome {
    ToolOutcome::done("Here.", json!({}))
}

/// What an agent does.
type Does = fn(&mut Stage);

/// What it does to a caller who waits, before it falls silent for good.
const SILENT: [(&str, Does); 12] = [
    ("nothing", |_| {}),
    ("a response without a sound", |stage| _ = stage.starts("r")),
    ("an answer that breaks off", |stage| _ = stage.starts("r").speaks("r", 400)),
    ("one that breaks off late", |stage| _ = stage.after(3_000).starts("r").speaks("r", 400)),
    ("one that is not asked for again", |stage| {
        let status = ResponseStatus::Incomplete;
        stage.starts("r").speaks("r", 400).agent(AgentEvent::ResponseDone { response: "r".into(), status });
        stage.starts("the rest");
    }),
    ("a tool that takes long", |stage| _ = stage.only_calls("c", "weather", "{}")),
    ("words before a tool that takes long", |stage| {
        stage.starts("r").speaks("r", 400).calls_tool("c", "weather", "{}").done("r");
    }),
    ("a tool after the caller was asked for a moment, and another one", |stage| {
        stage.after(2_000).only_calls("c", "weather", "{}").finishes("weather", found());
        stage.reply("r", 400).after(500).only_calls("d", "trains", "{}");
    }),
    ("a tool, and the caller presses a key", |stage| {
        stage.only_calls("c", "weather", "{}").after(2_500).leg(LegEvent::Digit('5'));
    }),
    ("a tool, and the caller is answered meanwhile", |stage| {
        stage.only_calls("c", "weather", "{}").after(2_500).caller_says(300).reply("r", 400);
    }),
    ("a call of a tool without an end to the response", |stage| {
        stage.starts("r").calls_tool("c", "weather", "{}").after(500).finishes("weather", found());
    }),
    ("a connection that ends", |stage| _ = stage.agent(AgentEvent::Lost(AgentLoss::Closed))),
];

/// How long nothing was heard, and how long nothing that was not expected: after no sentence that asks for patience.
fn silences(stage: &Stage, since: Duration) -> (Duration, Duration) {
    let (mut longest, mut unexplained, mut explained) = (Duration::ZERO, Duration::ZERO, false);
    let mut heard = since;
    for (at, byte) in stage.frames().into_iter().filter(|(at, _)| *at >= since) {
        let silence = at - heard;
        if let Some(byte) = byte {
            (heard, explained) = (at, [MOMENT, PATIENCE].contains(&byte));
        } else if explained {
            longest = longest.max(silence);
        } else {
            (longest, unexplained) = (longest.max(silence), unexplained.max(silence));
        }
    }
    (longest, unexplained)
}

/// How often the caller was asked for a moment, and whether that is more than once a turn.
fn moments(stage: &Stage) -> (usize, bool) {
    let turns = stage.notes().into_iter().filter(|note| **note == Note::CallerFinished).count();
    let moments = stage.heard(MOMENT).len() / 30;
    (moments, moments > turns.max(1))
}

/// Nobody else can be had: the caller hears something now and then until the apology.
#[test]
fn whatever_an_agent_falls_silent_in_no_silence_is_long() {
    for (what, falls_silent) in SILENT {
        let mut stage = asked();
        let since = stage.elapsed();
        falls_silent(&mut stage);
        stage.after(LONG);
        let (longest, unexplained) = silences(&stage, since);
        assert!(longest <= SILENCE_MAX, "{what}: {longest:?} of silence");
        assert!(unexplained <= UNEXPLAINED_MAX, "{what}: {unexplained:?} of silence that nothing explains");
        let (times, too_often) = moments(&stage);
        assert!(!too_often, "{what}: the caller was asked for a moment {times} times");
        assert_eq!(stage.heard(APOLOGY).len(), 30, "{what}: and it has an end");
    }
}

/// Others are dialled, of whom none is ever ready: the same while that lasts.
#[test]
fn no_silence_is_long_while_others_are_dialled() {
    for (what, falls_silent) in SILENT {
        let mut stage = asked();
        stage.understudies.push_back(successor());
        let since = stage.elapsed();
        falls_silent(&mut stage);
        stage.after(LONG);
        let (longest, _) = silences(&stage, since);
        assert!(longest <= SILENCE_MAX, "{what}: {longest:?} of silence");
        let (times, too_often) = moments(&stage);
        assert!(!too_often, "{what}: the caller was asked for a moment {times} times");
        assert!(stage.heard(PATIENCE).len() >= 120, "{what}: {} frames", stage.heard(PATIENCE).len());
        assert_eq!(stage.heard(APOLOGY).len(), 30, "{what}: and it has an end");
    }
}

/// The next agent says nothing either.
#[test]
fn no_silence_is_long_while_a_new_agent_is_waited_for() {
    let mut stage = asked();
    stage.understudies.push_back(successor());
    let since = stage.elapsed();
    stage.agent(AgentEvent::Lost(AgentLoss::Closed)).after(4_000);
    stage.input(Input::Next(Next::Event(AgentEvent::Ready))).after(LONG);
    let (longest, unexplained) = silences(&stage, since);
    assert!(longest <= SILENCE_MAX && unexplained <= UNEXPLAINED_MAX, "{longest:?}, {unexplained:?}");
    assert_eq!((moments(&stage).0, stage.heard(APOLOGY).len()), (1, 30));
}

#[test]
fn a_greeting_that_does_not_come_is_not_waited_for_in_silence() {
    let mut stage = Stage::answered(rules());
    let since = stage.elapsed();
    stage.after(LONG);
    let (longest, unexplained) = silences(&stage, since);
    assert!(longest <= SILENCE_MAX && unexplained <= UNEXPLAINED_MAX, "{longest:?}, {unexplained:?}");
    assert_eq!((moments(&stage).0, stage.end_reason()), (1, Some(EndReason::AgentSilent)));
}

/// Who takes over is dialled as well.
#[test]
fn a_caller_who_is_handed_on_is_not_left_in_silence() {
    let mut stage = Stage::with_tools([approved_tool("hand_on")]);
    stage.caller_says(300).only_calls("c", "hand_on", "{}");
    let since = stage.elapsed();
    let handoff = CallAction::Handoff { target: "billing".into(), message: None, context_passed: Vec::new() };
    stage.finishes("hand_on", ToolOutcome::act("", handoff)).after(40).hands_over("billing", []).after(LONG);
    let (longest, unexplained) = silences(&stage, since);
    assert!(longest <= SILENCE_MAX && unexplained <= UNEXPLAINED_MAX, "{longest:?}, {unexplained:?}");
    assert!(stage.heard(PATIENCE).len() >= 30);
}

/// What the caller hears of the longest wait that is usual, to the frame.
#[test]
fn whoever_waits_is_asked_for_a_moment_and_then_told_now_and_then_that_it_goes_on() {
    let mut stage = asked();
    stage.only_calls("c", "weather", "{}");
    let since = stage.elapsed();
    stage.after(9_000);
    let begins = |byte| {
        let heard = stage.heard(byte);
        let first = |at: &usize| *at == 0 || heard[*at] - heard[at - 1] > Duration::from_millis(20);
        (0..heard.len()).filter(first).map(|at| (heard[at] - since).as_millis() / 100).collect::<Vec<_>>()
    };
    assert_eq!((begins(MOMENT), begins(PATIENCE)), (vec![13], vec![49, 85]), "in tenths of a second");
    let spoke = |purpose: &'static str| stage.notes().iter().filter(|note| ***note == Note::Spoke { purpose }).count();
    assert_eq!((spoke("announcement"), spoke("filler"), spoke("patience")), (1, 0, 2), "never two fillers in a turn");
    stage.finishes("weather", found()).after(100).reply("r", 400).after(500);
    assert_eq!(stage.voice_ms(), 900, "the answer is heard");
    let told = stage.told();
    let of_ours = told.iter().filter(|(text, _)| text.contains("word for word"));
    assert_eq!(of_ours.count(), 3, "and the agent knows what the caller was told: {told:?}");
}

#[test]
fn a_sentence_that_asks_for_patience_is_held_back_when_the_answer_is_about_to_come_and_makes_place_for_it() {
    let mut stage = Stage::speaking(AgentTraits { answer_max: Duration::from_secs(9), ..AGENT }, rules(), clips());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 500).after(600).caller_says(300);
    stage.after(4_800).starts("r").after(300);
    assert_eq!((stage.heard(MOMENT).len(), stage.heard(PATIENCE).len()), (30, 0), "a response has begun");
    stage.speaks("r", 400).after(400);
    assert_eq!((stage.heard(PATIENCE).len(), stage.voice_ms()), (0, 900));
    // One that comes later cuts the sentence off.
    let mut stage = asked();
    stage.only_calls("c", "weather", "{}").after(5_000).finishes("weather", found());
    let heard = stage.heard(PATIENCE).len();
    assert!(heard > 0, "it has begun");
    stage.reply("r", 400).after(400);
    assert_eq!((stage.heard(PATIENCE).len(), stage.voice_ms()), (heard, 900));
}

#[test]
fn a_caller_who_speaks_cuts_a_sentence_that_asks_for_patience_off() {
    let mut stage = asked();
    stage.only_calls("c", "weather", "{}").after(5_000);
    let heard = stage.heard(PATIENCE).len();
    assert!((1..30).contains(&heard), "{heard} frames");
    stage.caller_says(600);
    assert_eq!(stage.heard(PATIENCE).len(), heard);
}

/// Nobody waits: the agent has answered, and it is the caller's turn.
#[test]
fn nothing_is_said_to_a_caller_who_thinks() {
    let mut stage = asked();
    stage.reply("r", 400).after(LONG);
    assert_eq!((stage.heard(MOMENT).len(), stage.heard(PATIENCE).len()), (0, 0));
}

// ---- How long an agent is waited for ----

/// When the agent of a caller who waits counts as lost, counted from the end of the caller's turn.
fn lost_after(agent: AgentTraits, rules: CallRules, falls_silent: Does) -> Duration {
    let mut stage = Stage::speaking(agent, rules, clips());
    stage.understudies.push_back(successor());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 500).after(600).caller_says(300);
    let since = stage.elapsed();
    falls_silent(&mut stage);
    stage.after(LONG);
    let lost = stage.seen.iter().find(|(_, output)| matches!(output, Output::Note(Note::Dialling(_))));
    lost.expect("somebody else is dialled").0 - since
}

#[test]
fn an_agent_is_waited_for_as_long_as_it_says_of_itself_unless_the_context_says_how_long() {
    let seconds = Duration::from_secs;
    let slow = AgentTraits { answer_max: seconds(9), gap_max: seconds(7), ..AGENT };
    let answered_within = |limit| CallRules { agent_silence_max: limit, ..rules() };
    for (agent, limit, expected) in [
        (AGENT, None, seconds(5)),
        (slow, None, seconds(9)),
        (slow, Some(seconds(3)), seconds(3)),
        (AGENT, Some(seconds(14)), seconds(14)),
    ] {
        assert_eq!(lost_after(agent, answered_within(limit), |_| {}), expected);
        let begins: Does = |stage| _ = stage.after(1_000).starts("r");
        assert_eq!(lost_after(agent, answered_within(limit), begins), expected, "a response that is none");
    }
    for (agent, expected) in [(AGENT, seconds(3)), (slow, seconds(7))] {
        let lost = lost_after(agent, rules(), |stage| _ = stage.starts("r").speaks("r", 400));
        let heard = Duration::from_millis(400);
        assert!(lost >= expected + heard && lost <= expected + heard + Duration::from_millis(40), "{lost:?}");
    }
}

/// An agent whose answer broke off asks for the rest by itself: what comes of that is waited for as any answer is.
#[test]
fn the_rest_of_an_answer_that_broke_off_is_owed() {
    let breaks_off: Does = |stage| {
        let status = ResponseStatus::Incomplete;
        stage.starts("r").speaks("r", 400).agent(AgentEvent::ResponseDone { response: "r".into(), status });
        stage.after(500).starts("the rest");
    };
    assert_eq!(lost_after(AGENT, rules(), breaks_off), Duration::from_millis(5_500));
    let mut stage = asked();
    breaks_off(&mut stage);
    stage.after(2_000);
    assert_eq!(stage.heard(MOMENT).len(), 30, "silence before it is not left unexplained");
    // And one that was whole owes nothing.
    let mut stage = asked();
    stage.reply("r", 400).after(LONG);
    assert_eq!(stage.end_reason(), None);
}

/// Nobody asks a caller to wait for a goodbye.
#[test]
fn last_words_that_do_not_come_or_break_off_are_waited_for_3_seconds() {
    let unsaid: [(&str, Does); 3] = [
        ("do not come", |stage| _ = stage.starts("r").calls_tool("c", "hangup_call", "{}").runs_tools().done("r")),
        ("are begun without a sound", |stage| {
            stage.starts("r").calls_tool("c", "hangup_call", "{}").runs_tools().done("r").starts("bye");
        }),
        ("break off", |stage| {
            stage.starts("bye").speaks("bye", 400).calls_tool("c", "hangup_call", "{}").runs_tools();
        }),
    ];
    for (what, says) in unsaid {
        let mut stage = asked();
        let since = stage.elapsed();
        says(&mut stage);
        stage.after(LONG);
        let (at, reason) = stage.ended().expect("it ends");
        assert_eq!(reason, EndReason::AgentHungUp, "{what}");
        assert!(at - since <= Duration::from_millis(3_760), "last words that {what}: after {:?}", at - since);
    }
}

/// Such as a pipeline whose services may fail one after the other. What has begun is heard to its end, also in the last moment.
#[test]
fn the_farewell_of_an_agent_that_is_given_longer_is_waited_for_3_seconds_too() {
    let slow = AgentTraits { answer_max: Duration::from_secs(20), gap_max: Duration::from_secs(12), ..AGENT };
    for (begins, heard) in [(2_800, 800), (3_200, 800), (3_400, 0)] {
        let mut stage = Stage::speaking(slow, rules(), clips());
        stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 500).after(600).caller_says(300);
        stage.only_calls("c", "hangup_call", "{}").runs_tools();
        let (since, before) = (stage.elapsed(), stage.voice_ms());
        stage.starts("bye").after(begins).speaks("bye", 400).after(300).speaks("bye", 400).done("bye").after(LONG);
        let (at, reason) = stage.ended().expect("it ends");
        assert_eq!((stage.voice_ms() - before, reason), (heard, EndReason::AgentHungUp), "begun after {begins} ms");
        let expected = if heard == 0 { 3_000 } else { begins + 800 };
        let took = (at - since).as_millis() as u64;
        assert!((expected..expected + 400).contains(&took), "begun after {begins} ms: {took}");
    }
}

/// A call that the vendor takes back was made in the place of an answer.
#[test]
fn a_caller_whose_answer_became_a_call_that_was_taken_back_is_not_left_in_silence() {
    let mut stage = asked();
    stage.only_calls("c", "weather", "{}").after(500);
    stage.agent(AgentEvent::ToolCallCancelled { call_id: "c".into() }).after(LONG);
    assert!(!stage.heard(MOMENT).is_empty(), "the answer is still awaited");
    assert!(stage.notes().iter().any(|note| matches!(note, Note::Dialling(_))), "and asked of another session");
}

/// Nobody asks a caller for patience who is asked why they say nothing.
#[test]
fn a_silent_caller_is_not_asked_to_wait_for_the_question_whether_they_are_there() {
    let rules = CallRules { no_input_after: Duration::from_secs(5), ..rules() };
    let mut stage = Stage::answered(rules);
    stage.agent(AgentEvent::Ready).reply("greeting", 500).after(5_500 + 4_000);
    assert!(stage.notes().contains(&&Note::NoInputPrompt));
    assert_eq!((stage.heard(MOMENT).len(), stage.heard(PATIENCE).len()), (0, 0));
}
