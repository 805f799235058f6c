//! Clocks that jump: a machine that was suspended, a virtual one that was moved, a process that was stopped.

use crate::call::stage::{Stage, rules};
use offhook_core::call::{CallRules, EndReason, LegCommand, Measure};
use std::time::Duration;

/// Frames that left at the very moment of the last step.
fn at_once(stage: &Stage) -> usize {
    stage.slots().iter().filter(|(at, _)| *at == stage.elapsed()).count()
}

#[test]
fn a_leap_while_the_agent_speaks_costs_time_and_no_word() {
    let mut stage = Stage::answered(rules());
    stage.reply("greeting", 5_000).after(1_000);
    stage.stall(30_000).after(0);
    assert!(at_once(&stage) <= 7, "{} frames at once would overrun the caller's phone", at_once(&stage));
    stage.after(6_000);
    assert_eq!(stage.voice_ms(), 5_000, "all of it is heard");
    let missed =
        |measure: &Measure| if let Measure::SlotsMissed(slots) = measure { Some(u64::from(*slots)) } else { None };
    let missed: u64 = stage.measures().iter().filter_map(missed).sum();
    assert!((1_490..=1_500).contains(&missed), "30 s are 1500 slots, and {missed} were counted as missed");
    assert_eq!(stage.end_reason(), None);
}

#[test]
fn a_leap_beyond_every_deadline_ends_the_call_once_and_for_its_length() {
    let mut stage = Stage::greeted();
    stage.stall(2 * 3_600_000).after(60_000);
    assert_eq!(stage.end_reason(), Some(EndReason::CallTooLong));
    let hung_up = stage.leg_commands().into_iter().filter(|command| matches!(command, LegCommand::HangUp)).count();
    assert_eq!(hung_up, 1);
}

#[test]
fn a_clock_that_steps_back_holds_the_call_up_and_does_not_break_it() {
    let mut stage = Stage::answered(CallRules { no_input_after: Duration::from_secs(3_600), ..rules() });
    stage.reply("greeting", 2_000).after(1_000);
    let before = stage.slots().len();
    stage.step_back(500);
    stage.caller_says(200).reply("answer", 1_000);
    stage.after(500);
    assert!(stage.slots().len() - before <= 15, "no slot is served twice: {}", stage.slots().len() - before);
    stage.after(2_000);
    assert_eq!(stage.slots().iter().rev().take(50).filter(|(_, voice)| *voice).count(), 0, "the answer was said");
    assert!(stage.voice_ms() >= 1_900, "what was said before the interruption, and the answer");
    assert_eq!(stage.end_reason(), None);
}
