//! Another party in the caller's place: the call goes on, and nothing that was the former party's alone is theirs.

use super::stage::*;
use offhook_core::{
    call::{LegEvent, Note, Reply},
    facts::Party,
    gate::{AuthState, Category},
    tool::{DigitPlan, DigitPurpose, ToolOutcome, ToolSpec},
};
use std::time::Duration;

fn carol() -> Party {
    Party { name: Some("Carol".to_owned()).into(), number: Some("2025550111".to_owned()).into() }
}

fn changed() -> LegEvent {
    LegEvent::PartyChanged(carol())
}

/// Sentences about somebody else that the agent was told.
fn told(stage: &Stage) -> Vec<Reply> {
    let of_another = |(text, reply): (String, Reply)| text.contains("another person").then_some(reply);
    stage.told().into_iter().filter_map(of_another).collect()
}

#[test]
fn who_is_handed_to_the_agent_is_spoken_to_and_hears_nothing_that_was_meant_for_another() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("r").speaks("r", 5_000).done("r").after(500);
    stage.leg(changed());
    let at = stage.elapsed();
    stage.after(3_000);
    assert!(stage.heard(VOICE).into_iter().all(|heard| heard <= at + FRAME), "the rest is cut");
    assert_eq!(told(&stage), [Reply::Wanted]);
    assert!(stage.notes().contains(&&Note::PartyChanged(carol())));
    let text = format!("{:?}", stage.told());
    assert!(
        !text.contains("Carol") && !text.contains("2025550111"),
        "the prompt alone says what an agent is told: {text}"
    );
    stage.reply("hello", 500).after(1_000);
    assert!(stage.ended().is_none());
}

/// Asterisk puts a channel that rings in the caller's place: nobody is there to be asked whether they are.
#[test]
fn the_agent_waits_while_the_telephone_of_another_party_rings() {
    let mut stage = Stage::greeted();
    stage.caller_says(400).starts("r").speaks("r", 5_000).done("r").after(500);
    stage.leg(LegEvent::Held(true)).leg(changed());
    let at = stage.elapsed();
    stage.after(60_000);
    assert_eq!((stage.ended(), told(&stage).len()), (None, 0));
    assert!(!stage.notes().contains(&&Note::NoInputPrompt));
    stage.leg(LegEvent::Held(false)).after(2_000);
    assert!(stage.heard(VOICE).into_iter().all(|heard| heard <= at + FRAME), "the answer was another's");
    assert_eq!(told(&stage), [Reply::NotNow], "who answers a telephone speaks first");
    assert!(stage.told_to_say().is_empty(), "nobody has waited: {:?}", stage.told_to_say());
    stage.caller_says(400).reply("hello", 500).after(1_000);
    assert!(stage.ended().is_none());
}

/// A PIN that was right, and the PIN itself.
#[test]
fn what_the_former_party_has_proved_does_not_count_for_the_next_one() {
    let balance = ToolSpec {
        access: Category::PrivateRead,
        requires_authorization: AuthState::Authenticated,
        standing_approval: false,
        ..approved_tool("balance")
    };
    let pin = || {
        ToolOutcome::Collect(DigitPlan {
            prompt: Some("Ask for the PIN.".into()),
            min: 4,
            max: 6,
            terminator: Some('#'),
            timeout: Duration::from_secs(5),
            purpose: DigitPurpose::Pin,
        })
    };
    let mut stage = Stage::with_tools([balance, approved_tool("collect")]);
    let types = |stage: &mut Stage| {
        for key in "246813#".chars() {
            stage.leg(LegEvent::Digit(key)).after(100);
        }
    };
    stage.caller_tells("Hello.").only_calls("provider-1", "collect", "{}").finishes("collect", pin());
    stage.agent_tells("question", "Your PIN please.");
    types(&mut stage);
    stage.only_calls("provider-2", "balance", "{}");
    assert_eq!(stage.ran(), ["collect", "balance"]);
    stage.finishes("balance", ToolOutcome::done("", serde_json::json!({})));

    stage.leg(changed()).caller_tells("And mine?").only_calls("provider-3", "balance", "{}");
    assert_eq!(stage.ran().len(), 2, "they have proved nothing");
    stage.caller_tells("I know the PIN.").only_calls("provider-4", "collect", "{}").finishes("collect", pin());
    stage.agent_tells("question-2", "Your PIN please.");
    types(&mut stage);
    stage.only_calls("provider-5", "balance", "{}");
    assert_eq!(stage.ran()[2], "collect");
    assert!(!stage.ran()[3..].contains(&"balance".to_owned()), "it was the other one's: {:?}", stage.ran());
}
