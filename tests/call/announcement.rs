//! Tools that take long: what the caller hears of it, and when they hear nothing.

use crate::call::stage::{AGENT, LINE, MOMENT, Stage, WORDS, approved_tool, clips, rules};
use offhook_core::{
    audio::{Clip, g711},
    call::{Clips, EndReason, Input, LegCommand, LegEvent, Note, Output, Reply, Spoken},
    tool::{After, Announce, CallAction, Done, ToolError, ToolOutcome, ToolSpec},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// A tool that is announced after so many milliseconds.
fn slow(name: &str, after_ms: u64) -> ToolSpec {
    let announce = Announce { after: Duration::from_millis(after_ms), text: WORDS.into() };
    ToolSpec { announce: Some(announce), timeout: Duration::from_secs(9), ..approved_tool(name) }
}

/// A caller has asked, and this tool runs.
fn asked(tools: impl IntoIterator<Item = ToolSpec>, name: &str) -> Stage {
    let mut stage = Stage::with_tools(tools);
    stage.caller_says(300).only_calls("provider-1", name, "{}");
    stage
}

fn done() -> ToolOutcome {
    ToolOutcome::done("Here.", json!({ "found": true }))
}

fn acts(action: CallAction) -> ToolOutcome {
    ToolOutcome::Done(Done { actions: vec![action], ..Done::default() })
}

fn is_cancelled(stage: &Stage) -> bool {
    stage.seen.iter().any(|(_, output)| matches!(output, Output::CancelTool { .. }))
}

/// M21: after the tool's own threshold the caller hears the sentence, once; the agent learns of it, and so does the record.
#[test]
fn a_slow_tool_is_announced_word_for_word() {
    let mut stage = asked([slow("weather", 2_000)], "weather");
    stage.after(1_999);
    assert_eq!(stage.announced(), []);
    stage.after(1);
    assert_eq!(stage.announced(), [(stage.elapsed(), "weather".to_owned())]);
    stage.after(6_000);
    assert_eq!(stage.heard(LINE).len(), 30, "600 ms, and not again, however long it takes");
    let told = stage.told();
    let of_it: Vec<_> = told.iter().filter(|(text, _)| text.contains(WORDS)).collect();
    assert!(of_it.len() == 1 && of_it[0].1 == Reply::NotNow, "{told:?}");
}

/// A tool may be slow by its own word: what it found in a long silence is about to be told, and no filler comes before it.
#[test]
fn an_answer_that_is_about_to_come_in_a_long_silence_has_no_filler_before_it() {
    let mut stage = asked([slow("weather", 4_000)], "weather");
    stage.after(3_000).finishes("weather", done()).after(480);
    assert_eq!((stage.heard(MOMENT), stage.heard(LINE)), (vec![], vec![]));
    stage.after(40);
    assert!(!stage.heard(MOMENT).is_empty(), "it does not come");
}

/// M21, M22: the result of an announced tool is given to the agent at once; its answer ends the announcement.
#[test]
fn the_result_of_an_announced_tool_is_answered() {
    let mut stage = asked([slow("weather", 2_000)], "weather");
    stage.after(2_100).finishes("weather", done());
    let answers = stage.answers();
    assert_eq!((answers.len(), &answers[0].1["data"], answers[0].2), (1, &json!({ "found": true }), Reply::Wanted));
    stage.reply("answer", 500).after(1_500);
    assert_eq!(stage.voice_ms(), 500 + 500);
    assert!(stage.heard(LINE).len() < 10, "the announcement made place");
}

/// A tool without words of its own is filled with the context's.
#[test]
fn a_slow_tool_without_an_announcement_leaves_no_silence() {
    let mut stage = asked([approved_tool("weather")], "weather");
    stage.after(1_290);
    assert_eq!(stage.heard(MOMENT), []);
    stage.after(8_000);
    assert_eq!(stage.heard(MOMENT).len(), 30);
}

/// The caller is silent and hears nobody since their last word, not since the tool began; and nobody hears nothing for more
/// than 1.5 s, whatever the tool usually takes.
#[test]
fn a_tool_that_begins_late_is_filled_by_the_callers_silence() {
    for (usual_ms, quiet_ms) in [(None, 1_300), (Some(800), 1_450)] {
        let mut stage = Stage::with_tools([approved_tool("weather")]);
        (0..5).for_each(|_| {
            usual_ms.into_iter().for_each(|ms| stage.latencies.ran("weather", Duration::from_millis(ms)))
        });
        stage.caller_says(300);
        let silent_since = stage.elapsed();
        stage.after(700).only_calls("provider-1", "weather", "{}").after(6_000);
        let filled = stage.heard(MOMENT)[0] - silent_since;
        let quiet = Duration::from_millis(quiet_ms);
        assert!((quiet..=quiet + Duration::from_millis(20)).contains(&filled), "{usual_ms:?}: {filled:?}");
        assert_eq!(stage.heard(MOMENT).len(), 30, "and once");
    }
}

/// What a tool usually takes moves the announcement: a slow one is announced at once, and one that is about to answer is
/// waited for.
#[test]
fn the_tools_own_history_moves_the_announcement() {
    for (usual_ms, expected_ms) in [(500, 2_000), (1_900, 2_300), (4_000, 400)] {
        let mut stage = Stage::with_tools([slow("weather", 2_000)]);
        (0..5).for_each(|_| stage.latencies.ran("weather", Duration::from_millis(usual_ms)));
        stage.caller_says(300).only_calls("provider-1", "weather", "{}");
        let began = stage.elapsed();
        stage.after(6_000);
        let at = stage.announced()[0].0 - began;
        assert_eq!(at, Duration::from_millis(expected_ms), "usually {usual_ms} ms");
    }
}

/// M answer 10: a key opens another turn, in which the tools that were announced are not announced again.
#[test]
fn a_key_does_not_repeat_the_announcement() {
    let mut stage = asked([slow("weather", 2_000)], "weather");
    stage.after(3_000).leg(LegEvent::Digit('5')).after(5_000);
    assert_eq!(stage.announced().len(), 1);
}

/// M answer 10: no announcement follows the result, whether the tool worked or failed.
#[test]
fn a_tool_that_was_fast_enough_is_not_announced() {
    for outcome in [done(), ToolOutcome::failed(ToolError::Transient, "later")] {
        let mut stage = asked([slow("weather", 2_000)], "weather");
        stage.after(1_990).finishes("weather", outcome).after(9_000);
        assert_eq!(stage.announced(), []);
    }
}

/// M answer 10: one announcement a turn, that of the tool that is due first; the next turn may have its own.
#[test]
fn several_slow_tools_are_announced_once_a_turn() {
    let mut stage = Stage::with_tools([slow("weather", 2_000), slow("traffic", 1_000), slow("trains", 500)]);
    stage.caller_says(300).starts("r").calls_tool("provider-1", "weather", "{}");
    stage.calls_tool("provider-2", "traffic", "{}").done("r").after(1_000);
    assert_eq!(stage.announced().len(), 1);
    assert!(stage.notes().contains(&&Note::Announced { tool: "traffic".into() }));
    stage.finishes("traffic", done()).only_calls("provider-3", "trains", "{}").after(4_000);
    assert_eq!(stage.announced().len(), 1, "also a tool that is called later in the turn");
    stage.finishes("weather", done()).finishes("trains", done()).reply("answer", 400).after(500);
    stage.caller_says(300).only_calls("provider-4", "trains", r#"{"a":"back"}"#).after(500);
    assert_eq!(stage.announced().len(), 2);
}

/// M answer 10: a caller who speaks is not spoken into, and has no need of it any more; the tool runs on.
#[test]
fn a_caller_who_speaks_cancels_the_announcement_and_not_the_tool() {
    let mut stage = asked([slow("weather", 2_000)], "weather");
    stage.after(1_500).caller_says(1_500).after(4_000);
    assert_eq!(stage.announced(), []);
    assert!(!is_cancelled(&stage));
    stage.finishes("weather", done());
    assert_eq!(stage.answers().len(), 1);
}

/// M answer 10: a caller who still speaks is not spoken into, though the agent has talked over them.
#[test]
fn a_caller_who_is_talked_over_still_speaks() {
    let mut stage = Stage::with_tools([slow("weather", 1_000)]);
    stage.agent(offhook_core::call::AgentEvent::CallerSpeechStarted { utterance: None }).reply("r", 300);
    stage.only_calls("provider-1", "weather", "{}").after(3_000);
    assert_eq!(stage.announced(), []);
    stage.agent(offhook_core::call::AgentEvent::CallerSpeechStopped).reply("r2", 300).after(1_400);
    assert_eq!(stage.announced().len(), 1, "this tool was called after they had begun");
}

/// M answer 10: a barge-in cuts the announcement short as it cuts any speech; the tool runs on and is answered.
#[test]
fn a_caller_can_talk_into_the_announcement() {
    let mut stage = asked([slow("weather", 2_000)], "weather");
    stage.after(2_200).caller_says(600).after(4_000);
    let heard = stage.heard(LINE).len();
    assert!((9..=12).contains(&heard), "{heard} frames");
    assert!(!is_cancelled(&stage) && stage.announced().len() == 1);
    stage.finishes("weather", done());
    assert_eq!(stage.answers()[0].2, Reply::Wanted);
}

/// M22: a caller who still hears the agent is told nothing on top; the silence that follows counts from its beginning.
#[test]
fn an_announcement_waits_until_the_agent_was_heard() {
    let mut stage = Stage::with_tools([slow("weather", 1_000)]);
    stage.caller_says(300).starts("r").speaks("r", 3_000).calls_tool("provider-1", "weather", "{}").done("r");
    let began = stage.elapsed();
    stage.after(3_900);
    assert_eq!(stage.announced(), []);
    stage.after(200);
    let at = stage.announced()[0].0 - began;
    assert!((Duration::from_millis(3_960)..=Duration::from_millis(4_040)).contains(&at), "{at:?}");
}

/// M22: what follows of the response waits its turn behind the announcement. One that has just begun is waited for, a little.
#[test]
fn a_response_that_is_under_way_and_silent_is_announced_into() {
    for (begins, expected) in [(0, 1_000), (800, 1_150)] {
        let mut stage = Stage::with_tools([slow("weather", 1_000)]);
        stage.caller_says(300).only_calls("provider-1", "weather", "{}");
        let began = stage.elapsed();
        stage.after(begins).starts("r").calls_tool("provider-2", "weather", "{}").after(3_000);
        let announced = stage.announced();
        let at = announced[0].0 - began;
        let expected = Duration::from_millis(expected);
        assert!((expected..=expected + Duration::from_millis(20)).contains(&at), "{begins}: {at:?}");
        let before = stage.voice_ms();
        stage.speaks("r", 400).done("r").after(2_000);
        assert_eq!((stage.announced().len(), stage.voice_ms() - before), (1, 400), "{begins}");
    }
}

/// M21: a tool that the agent does not wait for leaves no silence to announce.
#[test]
fn a_tool_that_is_not_waited_for_is_not_announced() {
    let mut stage = asked([ToolSpec { wait: false, ..slow("notify", 1_000) }], "notify");
    stage.reply("r", 300).after(8_000);
    assert_eq!(stage.announced(), []);
}

/// M21: a call that is being left says its goodbye and nothing else, whatever still runs.
#[test]
fn nothing_is_announced_in_a_call_that_is_being_left() {
    for (leaving, arguments) in [("hangup_call", "{}"), ("transfer", r#"{"destination":"sales"}"#)] {
        let mut stage = Stage::with_tools([slow("weather", 1_000)]);
        stage.caller_says(300).starts("r").calls_tool("provider-1", "weather", "{}");
        stage.calls_tool("provider-2", leaving, arguments).runs_tools().done("r").after(20_000);
        assert_eq!(stage.announced(), [], "{leaving}");
    }
    let mut stage = Stage::with_tools([slow("weather", 1_000), approved_tool("act")]);
    stage.caller_says(300).starts("r").calls_tool("provider-1", "weather", "{}");
    let handoff = CallAction::Handoff { target: "billing".into(), message: None, context_passed: Vec::new() };
    stage.calls_tool("provider-2", "act", "{}").finishes("act", acts(handoff)).done("r").after(8_000);
    assert_eq!(stage.announced(), []);
}

/// M21: what was announced is no goodbye: an agent whose tool ends the call still says one.
#[test]
fn an_announcement_is_no_farewell() {
    let end = || acts(CallAction::EndCall { after: After::CurrentTurn, reason: "done".into(), closing: None });
    let mut stage = asked([slow("cancel", 1_000)], "cancel");
    stage.after(2_000).finishes("cancel", end());
    assert_eq!(stage.answers()[0].2, Reply::Wanted);
    stage.reply("bye", 500).after(1_500);
    assert_eq!((stage.end_reason(), stage.voice_ms()), (Some(EndReason::AgentHungUp), 1_000));
    assert_eq!(stage.leg_commands(), [&LegCommand::HangUp]);
}

/// An announcement does not disturb somebody who types a number.
#[test]
fn nothing_is_announced_while_the_caller_types() {
    let plan = offhook_core::tool::DigitPlan {
        prompt: None,
        min: 3,
        max: 3,
        terminator: None,
        timeout: Duration::from_secs(5),
        purpose: offhook_core::tool::DigitPurpose::Plain,
    };
    let mut stage = asked([slow("order", 1_000)], "order");
    stage.after(500).finishes("order", ToolOutcome::Collect(plan)).after(4_000);
    assert_eq!(stage.announced(), []);
}

/// A tool of an operator's own that speaks up while it runs has broken the silence itself.
#[test]
fn a_tool_that_speaks_for_itself_is_not_announced_on_top() {
    let mut stage = asked([slow("weather", 2_000)], "weather");
    stage.after(1_000).input(Input::Say("Still looking.".into())).after(100);
    stage.reply("r", 500).after(1_900);
    assert_eq!(stage.announced(), []);
    stage.after(700);
    assert_eq!(stage.announced().len(), 1, "two seconds after it was heard");
}

/// A call in which "One moment, please" has such words and pauses, in milliseconds, and is heard while a tool runs.
fn filled(words_and_pauses: &[usize]) -> Stage {
    let kinds = [MOMENT, 0xff].into_iter().cycle();
    let bytes: Vec<u8> =
        words_and_pauses.iter().zip(kinds).flat_map(|(ms, kind)| std::iter::repeat_n(kind, ms * 8)).collect();
    let mut samples = Vec::new();
    g711::decode(g711::Law::Mu, &bytes, &mut samples);
    let clip = Arc::new(Clip::from_samples(8_000, samples).expect("a short clip"));
    let moment = Spoken { text: "One moment, please.".into(), clip };
    let mut stage = Stage::speaking(AGENT, rules(), Clips { moment, ..clips() });
    stage.leg(LegEvent::Up).agent(offhook_core::call::AgentEvent::Ready).reply("greeting", 500).after(600);
    stage.caller_says(300).only_calls("provider-1", "slow", "{}");
    while stage.heard(MOMENT).is_empty() {
        stage.after(20);
    }
    stage
}

/// How much of such a filler is heard if the answer comes when `heard_ms` of it were, and of the answer, which is 500 ms.
fn given_way(words_and_pauses: &[usize], heard_ms: u64) -> (usize, usize) {
    let mut stage = filled(words_and_pauses);
    stage.after(heard_ms - 20).finishes("slow", done());
    let before = stage.voice_ms();
    stage.reply("answer", 500).after(3_000);
    (stage.heard(MOMENT).len() * 20, stage.voice_ms() - before)
}

#[test]
fn a_filler_ends_its_word_before_the_answer_follows() {
    // Two words and a silent end, with a stop of 40 ms in the first.
    let one_moment = [160, 40, 300, 120, 1_000, 400];
    for heard in [20, 200, 440] {
        assert_eq!(given_way(&one_moment, heard), (460, 500), "the answer after {heard} ms");
    }
    let in_the_pause = 560;
    assert_eq!(given_way(&one_moment, in_the_pause), (460, 500));
    let in_its_silent_end = 1_700;
    assert_eq!(given_way(&one_moment, in_its_silent_end), (1_460, 500));
}

#[test]
fn a_filler_of_which_300_ms_are_left_is_heard_to_its_end_without_its_silence() {
    let mut stage = filled(&[500, 120, 1_000, 400]);
    stage.after(1_360).finishes("slow", done());
    let answered = stage.elapsed();
    stage.reply("answer", 500).after(3_000);
    assert_eq!(stage.heard(MOMENT).len() * 20, 1_500);
    let answer = stage.slots().into_iter().find(|(at, voice)| *voice && *at > answered).expect("an answer").0;
    assert!(answer - answered <= Duration::from_millis(300), "{:?}", answer - answered);
}

#[test]
fn a_filler_without_any_pause_in_600_ms_makes_place_at_once() {
    assert_eq!(given_way(&[2_000], 200), (200, 500));
    // A short stop is better than the middle of a vowel.
    assert_eq!(given_way(&[500, 20, 1_480], 200), (500, 500));
}

/// The agent has asked something while the tool runs on: the caller thinks, and is not asked for a moment.
#[test]
fn who_was_asked_something_by_the_agent_is_not_asked_to_wait_for_a_tool() {
    let fillers = |words: &str| {
        let mut stage = asked([ToolSpec { timeout: Duration::from_secs(60), ..approved_tool("weather") }], "weather");
        stage.after(3_000).caller_says(800).agent_tells("r", words).after(6_000);
        let since = stage.elapsed() - Duration::from_secs(6);
        stage.heard(MOMENT).into_iter().filter(|at| *at > since).count()
    };
    assert_eq!(fillers("Sure, what is it?"), 0);
    assert_eq!(fillers("بالتأكيد، ما هو؟"), 0);
    assert_eq!(fillers("Sure, I will see to that."), 30);
}

/// What they then say ends that: the next wait is filled like any other.
#[test]
fn who_has_answered_the_agents_question_waits_again() {
    let mut stage = asked([ToolSpec { timeout: Duration::from_secs(60), ..approved_tool("weather") }], "weather");
    stage.after(3_000).caller_says(800).agent_tells("r", "Sure, what is it?").after(3_000);
    let before = stage.heard(MOMENT).len();
    stage.caller_says(800).after(3_000);
    assert_eq!(stage.heard(MOMENT).len() - before, 30);
}
