//! Keys of the caller: an answer to a question, digits that a tool asked for, or only a sign of life.

use super::{CallMachine, Phase, Timer};
use crate::{
    call::{agent::key_note, record::Note, words::Output},
    sentences::Sentence,
    tool::{DigitPlan, DigitPurpose, ToolCallId, ToolError, ToolOutcome},
};
use serde_json::json;
use std::time::{Duration, Instant};

/// A tool that waits for keys has its own clock for each of them; this bounds them all together. The
/// longest numbers that people type take a minute.
const COLLECT_MAX: Duration = Duration::from_secs(180);

/// Digits being collected. `Debug` shows how many there are, never which.
pub(super) struct Capture {
    id: ToolCallId,
    plan: DigitPlan,
    digits: String,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").field("plan", &self.plan).field("digits", &self.digits.len()).finish_non_exhaustive()
    }
}

/// Who types a number types on after the last digit that was wanted: a terminator, or the rest of a
/// longer number. For so long after each key none of it is anybody's.
const AFTERWARDS: Duration = Duration::from_secs(2);

impl CallMachine {
    /// Digits are being typed, or were a moment ago, that only tools may see.
    pub fn is_private(&self, now: Instant) -> bool {
        self.capture.as_ref().is_some_and(|capture| capture.plan.purpose != DigitPurpose::Plain)
            || self.private_until.is_some_and(|until| now < until)
    }

    pub(super) fn on_digit(&mut self, digit: char, now: Instant, out: &mut Vec<Output>) {
        self.prompts_used = 0;
        self.timers.clear(Timer::NoInput);
        if self.capture.is_some() {
            return self.on_captured(digit, now, out);
        }
        if self.private_until.is_some_and(|until| now < until) {
            self.private_until = Some(now + AFTERWARDS);
            return;
        }
        out.push(Output::Note(Note::Digit(digit.into())));
        self.question_may_be_known();
        if let Some(verdict) = self.policy.caller_pressed(digit, now) {
            self.drop_question();
            self.on_verdict_by_key(verdict, now, out);
        } else if self.plan.agent.takes_keys && matches!(self.phase, Phase::Talking) {
            self.on_menu_key(digit, now, out);
        }
    }

    /// Who presses a key has heard enough of the menu.
    fn on_menu_key(&mut self, digit: char, now: Instant, out: &mut Vec<Output>) {
        if !self.track.is_protected() {
            let (interrupted, clips) = self.track.cut(self.response.as_ref().map(|response| &response.id), now, out);
            let unheard = self.unheard(&interrupted);
            self.tell_interrupted(interrupted, true, out);
            self.tell_clips_were_cut(clips, out);
            self.cancel_unheard(unheard, out);
        }
        self.tell(&key_note(digit), now, out);
    }

    /// Begins to collect digits for a running tool call.
    pub(super) fn collect(&mut self, id: ToolCallId, plan: DigitPlan, now: Instant, out: &mut Vec<Output>) {
        if self.capture.is_some() {
            let busy = ToolOutcome::failed(ToolError::Conflict, "Digits are being collected already.");
            return self.on_tool_finished(id, busy, now, out);
        }
        self.actions.extend(id, now + COLLECT_MAX);
        self.arm_tool_timer();
        let question = self.question_of(&plan);
        self.capture = Some(Capture { id, plan, digits: String::new() });
        if let Some(question) = question {
            self.say(&question, now, out);
        }
    }

    /// Question for the digits of a plan, with the key that ends them.
    fn question_of(&self, plan: &DigitPlan) -> Option<String> {
        let sentences = &self.plan.rules.sentences;
        let asked = match (&plan.prompt, &plan.purpose) {
            (Some(prompt), _) => prompt,
            (None, DigitPurpose::Pin) => sentences.get(Sentence::EnterPin),
            (None, DigitPurpose::Plain | DigitPurpose::Secure) => return None,
        };
        let end = match plan.terminator {
            Some('#') => sentences.get(Sentence::EndWithHash),
            Some('*') => sentences.get(Sentence::EndWithStar),
            _ => return Some(asked.to_owned()),
        };
        let stop = if asked.trim_end().ends_with(['.', '?', '!', '।', '؟']) { "" } else { "." };
        Some(format!("{}{stop} {end}", asked.trim_end()))
    }

    /// The tool that asked for digits has its outcome by another way: it took too long.
    pub(super) fn forget_capture(&mut self, id: ToolCallId) {
        if self.capture.as_ref().is_some_and(|capture| capture.id == id) {
            self.drop_capture();
        }
    }

    /// Whoever asked for the digits is gone; what is still typed of them stays private.
    pub(super) fn drop_capture(&mut self) {
        self.timers.clear(Timer::Digits);
        if self.capture.take().is_some_and(|capture| capture.plan.purpose != DigitPurpose::Plain) {
            self.private_until = Some(self.at + AFTERWARDS);
        }
    }

    /// The clock for the next key runs once nobody speaks.
    pub(super) fn await_digits(&mut self, now: Instant) {
        let Some(Capture { id, plan, .. }) = &self.capture else { return };
        let (id, wait) = (*id, plan.timeout);
        let speaking = !self.track.is_empty() || self.response.is_some() || self.timers.is_set(Timer::AgentSilence);
        if self.hold.is_some() {
            // The whole entry waits.
            self.actions.extend(id, now + COLLECT_MAX);
            self.arm_tool_timer();
        }
        if speaking || self.hold.is_some() {
            self.timers.clear(Timer::Digits);
        } else {
            self.timers.set_if_idle(Timer::Digits, now + wait);
        }
    }

    /// Whoever writes instead of typing keys writes the whole entry at once. `false`: this is none, but something that is said.
    pub(super) fn takes_entry(&mut self, text: &str, now: Instant, out: &mut Vec<Output>) -> bool {
        let is_key = |letter: char| matches!(letter, '0'..='9' | '*' | '#');
        let keys: Vec<char> = text.chars().filter(|letter| is_key(*letter)).collect();
        let alone = text.chars().all(|letter| is_key(letter) || letter.is_whitespace());
        let private = self.is_private(now);
        let awaited = self.capture.is_some() && (private || alone) || private && alone;
        if awaited {
            for key in keys {
                self.on_digit(key, now, out);
            }
            self.captured(now, out);
        }
        awaited
    }

    fn on_captured(&mut self, digit: char, now: Instant, out: &mut Vec<Output>) {
        let Some(capture) = &mut self.capture else { return };
        if capture.plan.terminator == Some(digit) {
            return self.captured(now, out);
        }
        capture.digits.push(digit);
        let full = capture.digits.len() >= capture.plan.max;
        self.timers.set(Timer::Digits, now + capture.plan.timeout);
        if full {
            self.captured(now, out);
        }
    }

    pub(super) fn on_digits_late(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.captured(now, out);
    }

    /// The entry is over; the call's outcome is made of it.
    fn captured(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.timers.clear(Timer::Digits);
        let Some(Capture { id, plan, digits }) = self.capture.take() else { return };
        if plan.purpose != DigitPurpose::Plain {
            self.private_until = Some(now + AFTERWARDS);
        }
        let count = digits.len();
        if count > 0 {
            self.policy.caller_typed();
            out.push(Output::Note(Note::Typed));
        }
        let outcome = if count < plan.min {
            ToolOutcome::failed(ToolError::Validation, format!("The caller typed {count} digits, too few."))
        } else {
            // What the agent needs is in the message as well: some are told no data.
            match plan.purpose {
                DigitPurpose::Plain => {
                    ToolOutcome::done(format!("The caller has typed {digits}."), json!({ "digits": digits }))
                }
                DigitPurpose::Secure => {
                    let handle = self.policy.keep_secret(digits.into());
                    let message =
                        format!("The caller has typed it. Pass the handle {handle} on where the digits are needed.");
                    ToolOutcome::done(message, json!({ "handle": handle, "count": count }))
                }
                DigitPurpose::Pin => {
                    let right = self.policy.pin_entered(&digits, now);
                    let message = if right { "The PIN is right." } else { "The PIN is not right." };
                    ToolOutcome::done(message, json!({ "authenticated": right }))
                }
            }
        };
        self.on_tool_finished(id, outcome, now, out);
    }
}
