//! Digits that a tool asks the caller for.

use crate::call::stage::{AGENT, Stage, approved_tool, rules};
use bytes::Bytes;
use offhook_core::{
    call::{AgentCommand, AgentEvent, AgentTraits, CallRules, Clips, Input, LegEvent, Measure, Output, Reply, key_of},
    gate::{AuthState, Category},
    sentences::{Language, Sentences},
    tool::{DigitPlan, DigitPurpose, ToolOutcome, ToolSpec},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

fn plan(purpose: DigitPurpose) -> ToolOutcome {
    ToolOutcome::Collect(DigitPlan {
        prompt: Some("Ask for the number.".into()),
        min: 4,
        max: 6,
        terminator: Some('#'),
        timeout: Duration::from_secs(5),
        purpose,
    })
}

/// A tool has asked for digits, and the agent has put the question.
fn collecting(purpose: DigitPurpose, tools: impl IntoIterator<Item = ToolSpec>) -> Stage {
    let mut stage = Stage::with_tools(tools.into_iter().chain([approved_tool("collect")]));
    stage.caller_tells("Hello.").only_calls("provider-1", "collect", "{}").finishes("collect", plan(purpose));
    assert_eq!(stage.told_to_say(), ["Ask for the number. Finish with the hash key."]);
    stage.agent_tells("question", "Your number please.");
    stage
}

fn types(stage: &mut Stage, keys: &str) {
    for key in keys.chars() {
        stage.leg(LegEvent::Digit(key)).after(100);
    }
}

#[test]
fn a_pin_is_asked_for_in_the_language_of_the_context() {
    let sentences = Arc::new(Sentences::of(Language::Dutch));
    let mut stage = Stage::with_rules_and_tools(CallRules { sentences, ..rules() }, [approved_tool("collect")]);
    let ToolOutcome::Collect(of_number) = plan(DigitPurpose::Pin) else { unreachable!() };
    let of_pin = ToolOutcome::Collect(DigitPlan { prompt: None, terminator: Some('*'), ..of_number });
    stage.caller_tells("Hallo.").only_calls("provider-1", "collect", "{}").finishes("collect", of_pin);
    assert_eq!(stage.told_to_say(), ["Toets alstublieft uw pincode in op uw telefoon. Sluit af met het sterretje."]);
}

#[test]
fn plain_digits_are_told_to_the_model() {
    for (keys, digits) in [("123456", "123456"), ("1234#", "1234")] {
        let mut stage = collecting(DigitPurpose::Plain, []);
        types(&mut stage, keys);
        assert_eq!(stage.answer()["data"], json!({ "digits": digits }));
        assert_eq!(stage.answers().len(), 1);
    }
}

/// The clock runs from the end of the question and from each key; then what is there counts.
#[test]
fn an_entry_ends_by_itself() {
    let mut stage = collecting(DigitPurpose::Plain, []);
    stage.after(4_000);
    types(&mut stage, "1234");
    stage.after(4_800);
    assert!(stage.answers().is_empty());
    stage.after(300);
    assert_eq!(stage.answer()["data"], json!({ "digits": "1234" }));
    let mut stage = collecting(DigitPurpose::Plain, []);
    types(&mut stage, "12#");
    assert_eq!(stage.answer()["error"]["type"], "VALIDATION");
    let mut stage = collecting(DigitPurpose::Plain, []);
    stage.after(6_000);
    assert_eq!(stage.answer()["error"]["message"], "The caller typed 0 digits, too few.");
}

/// Secure digits reach tools alone: no output shows them, and what can be heard of the keys does not
/// go to the agent.
#[test]
fn secure_digits_are_nowhere_but_in_the_tool() {
    let charge = ToolSpec { secret_args: vec!["a".into()], ..approved_tool("charge") };
    let mut stage = collecting(DigitPurpose::Secure, [charge]);
    for key in ['8', '1', '9', '3', '7', '5'] {
        stage.leg(LegEvent::Digit(key)).leg(LegEvent::Audio(Bytes::from(vec![0x22; 160]))).after(100);
    }
    assert_eq!(stage.answer()["data"], json!({ "handle": "secure-digits-1", "count": 6 }));
    // Who types on types on in private.
    stage.leg(LegEvent::Digit('1')).after(1_900).leg(LegEvent::Audio(Bytes::from(vec![0x22; 160]))).after(200);
    stage.leg(LegEvent::Audio(Bytes::from(vec![0x22; 160])));
    stage.only_calls("provider-2", "charge", r#"{"a":"secure-digits-1","b":"secure-digits-1"}"#);
    let charge = stage.approved().pop().unwrap();
    assert_eq!(charge.arguments()["a"], "819375", "the tool has them");
    assert_eq!(charge.arguments()["b"], "secure-digits-1", "only where it is declared");
    assert!(!format!("{:?}", stage.seen).contains("819375"));
    let told = |output: &Output| match output {
        Output::ToAgent(AgentCommand::ToolResult { output, .. }) => output.contains("819375"),
        Output::ToAgent(AgentCommand::Audio(audio)) => audio.contains(&0x22) && audio.len() == 160,
        Output::Note(note) => format!("{note:?}").contains("Digit("),
        _ => false,
    };
    let heard = stage.seen.iter().filter(|(_, output)| told(output)).count();
    assert_eq!(heard, 1, "only what came two seconds after the last key is heard");
}

/// G answer 12: the PIN authenticates; the model learns whether it was right, never what was typed.
#[test]
fn a_pin_opens_what_is_private() {
    let balance = ToolSpec {
        access: Category::PrivateRead,
        requires_authorization: AuthState::Authenticated,
        ..approved_tool("balance")
    };
    let mut stage = collecting(DigitPurpose::Pin, [ToolSpec { standing_approval: false, ..balance }]);
    stage.only_calls("provider-2", "balance", "{}");
    assert!(stage.ran().iter().all(|name| name != "balance"));
    types(&mut stage, "246813#");
    let pin = stage.answers().into_iter().find(|(id, ..)| id == "provider-1").unwrap().1;
    assert_eq!(pin["data"], json!({ "authenticated": true }));
    stage.only_calls("provider-3", "balance", "{}");
    assert_eq!(stage.ran(), ["collect", "balance"]);
    assert!(!format!("{:?}", stage.seen).contains("246813"));
}

/// P22, P answer 12: who types is heard: an agent that asks again after a wrong PIN is in no loop, and over no budget.
#[test]
fn an_entry_is_a_turn_of_the_callers() {
    let mut stage = collecting(DigitPurpose::Pin, []);
    for again in 2..=5 {
        types(&mut stage, "9999#");
        stage.only_calls(&format!("provider-{again}"), "collect", "{}").finishes("collect", plan(DigitPurpose::Pin));
        stage.agent_tells(&format!("question-{again}"), "Once more, please.");
    }
    assert_eq!(stage.ran(), ["collect"; 5]);
    // One without a key is none.
    let mut stage = collecting(DigitPurpose::Pin, []);
    for again in 2..=3 {
        stage.after(6_000).only_calls(&format!("provider-{again}"), "collect", "{}");
        stage.finishes("collect", plan(DigitPurpose::Pin)).agent_tells(&format!("question-{again}"), "Once more.");
    }
    assert!(stage.ran().len() < 3);
}

/// A long number takes longer to type than a tool may run.
#[test]
fn typing_may_take_longer_than_a_tool() {
    let mut stage = collecting(DigitPurpose::Plain, []);
    for key in ['1', '2', '3', '4', '5', '6'] {
        stage.after(4_500).leg(LegEvent::Digit(key));
    }
    assert!(stage.answers()[0].1["ok"] == true, "{}", stage.answer());
}

/// Not for ever: an agent that never stops asking does not keep the caller's keys to itself.
#[test]
fn an_entry_that_never_begins_is_given_up() {
    let mut stage = collecting(DigitPurpose::Secure, []);
    stage.starts("chatter");
    for _ in 0..50 {
        stage.speaks("chatter", 4_000).after(4_000);
    }
    assert_eq!(stage.answers().len(), 0, "the response is not complete");
    stage.done("chatter").after(10);
    assert_eq!(stage.answer()["error"]["type"], "TIMEOUT");
    stage.leg(LegEvent::Audio(Bytes::from(vec![0x22; 160])));
    let last = stage.seen.last().unwrap();
    assert!(matches!(&last.1, Output::ToAgent(AgentCommand::Audio(audio)) if audio[0] == 0x22), "{last:?}");
}

#[test]
fn one_entry_at_a_time() {
    let mut stage = collecting(DigitPurpose::Plain, [approved_tool("other")]);
    stage.only_calls("provider-2", "other", "{}").finishes("other", plan(DigitPurpose::Plain));
    types(&mut stage, "1234#");
    let answers = stage.answers();
    assert_eq!(answers.len(), 2);
    let of = |id: &str| answers.iter().find(|(known, ..)| known == id).unwrap().1.clone();
    assert_eq!(of("provider-1")["data"], json!({ "digits": "1234" }));
    assert_eq!(of("provider-2")["error"]["type"], "CONFLICT");
}

/// Keys outside an entry are a sign of life and nothing else.
#[test]
fn a_key_on_its_own_is_noted_without_its_name() {
    let mut stage = Stage::answered(CallRules::default());
    stage.leg(LegEvent::Digit('7'));
    assert!(!format!("{:?}", stage.notes()).contains('7'));
    assert!(!stage.measures().iter().any(|measure| matches!(measure, Measure::StaleAudio(_))));
}

#[test]
fn an_agent_that_takes_keys_is_told_of_one_and_stops_for_it() {
    let agent = AgentTraits { takes_keys: true, ..AGENT };
    let mut stage = Stage::speaking(agent, CallRules::default(), Clips::default());
    stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("menu", 5_000).after(1_000);
    stage.leg(LegEvent::Digit('7'));
    let commands = stage.commands();
    let told: Vec<_> = commands.iter().filter(|command| matches!(command, AgentCommand::Tell { .. })).collect();
    let [AgentCommand::Tell { text, reply: Reply::Wanted }] = told[..] else { panic!("{told:?}") };
    assert_eq!((text.as_str(), key_of(text)), ("The caller pressed 7.", Some('7')));
    assert!(commands.iter().any(|command| matches!(command, AgentCommand::Interrupt { .. })));
    assert_eq!(key_of("The caller pressed the wrong key."), None);
}

/// Who writes has no keys: a line of digits is the entry, and of a secret one nothing is kept.
#[test]
fn digits_that_are_asked_for_can_be_written() {
    for (purpose, secret) in [(DigitPurpose::Plain, false), (DigitPurpose::Secure, true)] {
        let mut stage = collecting(purpose, []);
        stage.input(Input::Written("12 34".to_owned().into()));
        assert_eq!(stage.answer()["ok"], true, "secret: {secret}");
        let kept = format!("{:?} {:?}", stage.notes(), stage.commands());
        assert!(!(kept.contains("12 34") || secret && kept.contains("1234")), "{kept}");
    }
}

#[test]
fn what_is_said_in_writing_instead_of_digits_is_said() {
    let mut stage = collecting(DigitPurpose::Plain, []);
    stage.input(Input::Written("Why 4 digits?".to_owned().into()));
    let written = |command: &&AgentCommand| matches!(command, AgentCommand::Written { .. });
    assert_eq!(stage.commands().into_iter().filter(written).count(), 1);
}
