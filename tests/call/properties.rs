//! Whatever comes in whatever order, a call keeps its promises.

use crate::call::stage::{Stage, rules};
use bytes::Bytes;
use offhook_core::{
    call::{
        AgentCommand, AgentEvent, AgentLoss, EndReason, Input, LegEvent, Output, ResponseStatus, SetupStep,
        TransferFault,
    },
    facts::Party,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

#[derive(Debug, Clone)]
enum Move {
    Leg(LegEvent),
    Agent(AgentEvent),
    Tool(u8, &'static str),
    Wait(u64),
    Stall(u64),
}

fn response() -> impl Strategy<Value = std::sync::Arc<str>> {
    prop_oneof![Just("a".into()), Just("b".into()), Just("c".into())]
}

fn moves() -> impl Strategy<Value = Move> {
    let leg = prop_oneof![
        Just(LegEvent::Up),
        (0usize..400).prop_map(|bytes| LegEvent::Audio(Bytes::from(vec![1; bytes]))),
        Just(LegEvent::Digit('1')),
        Just(LegEvent::MediaLost),
        Just(LegEvent::CallerDone),
        any::<bool>().prop_map(LegEvent::Held),
        Just(LegEvent::PartyChanged(Party::default())),
        Just(LegEvent::PartyKnown(Party::default())),
        Just(LegEvent::PathReplaced { why: "closed" }),
        Just(LegEvent::Dialling { limit: Duration::from_secs(25) }),
        Just(LegEvent::Ringing),
        Just(LegEvent::Transferred),
        Just(LegEvent::TransferFailed(TransferFault::NoAnswer)),
    ];
    let end = prop_oneof![
        Just(LegEvent::CallerLeft),
        Just(LegEvent::TimedOut),
        Just(LegEvent::CallerVanished),
        Just(LegEvent::SetupFailed(SetupStep::Bridge))
    ];
    let agent = prop_oneof![
        Just(AgentEvent::Ready),
        response().prop_map(|response| AgentEvent::ResponseStarted { response }),
        (response(), 0usize..40_000).prop_map(|(response, bytes)| AgentEvent::Audio {
            item: response.clone(),
            response,
            audio: Bytes::from(vec![0x11; bytes]),
        }),
        response().prop_map(|response| AgentEvent::ResponseDone { response, status: ResponseStatus::Completed }),
        Just(AgentEvent::CallerSpeechStarted { utterance: None }),
        Just(AgentEvent::CallerSpeechStopped),
    ];
    prop_oneof![
        8 => leg.prop_map(Move::Leg),
        1 => end.prop_map(Move::Leg),
        24 => agent.prop_map(Move::Agent),
        1 => Just(Move::Agent(AgentEvent::Lost(AgentLoss::Closed))),
        4 => (any::<u8>(), prop_oneof![Just("hangup_call"), Just("transfer"), Just("nonsense")])
            .prop_map(|(id, name)| Move::Tool(id, name)),
        12 => (0u64..3_000).prop_map(Move::Wait),
        2 => (0u64..3_000).prop_map(Move::Stall),
    ]
}

proptest! {
    #[test]
    fn a_call_keeps_its_promises(moves in prop::collection::vec(moves(), 0..60)) {
        let mut stage = Stage::new(rules());
        let mut asked: HashMap<String, usize> = HashMap::new();
        for step in moves {
            match step {
                Move::Leg(event) => { stage.leg(event); }
                Move::Agent(event) => { stage.agent(event); }
                Move::Tool(id, name) => {
                    let id = format!("{id}-{}", asked.len());
                    let arguments = if name == "transfer" { r#"{"destination":"sales"}"# } else { "{}" };
                    stage.calls_tool(&id, name, arguments).runs_tools();
                    asked.insert(id, 0);
                }
                Move::Wait(ms) => { stage.after(ms); }
                Move::Stall(ms) => { stage.stall(ms); }
            }
            prop_assert!(stage.ended().is_some() || stage.has_deadline(), "a call that nothing would ever wake");
        }
        // A call ends by itself, whatever happened: a limit stands behind every state.
        stage.after(2 * 3_600_000);
        let ended = stage.ended();
        prop_assert!(ended.is_some(), "it never ended");
        prop_assert!(ended.unwrap().1 != EndReason::EngineFault);
        for (_, output) in &stage.seen {
            if let Output::ToAgent(AgentCommand::ToolResult { call_id, .. }) = output {
                *asked.get_mut(call_id).unwrap() += 1;
            }
        }
        prop_assert!(asked.values().all(|answers| *answers <= 1), "an answer was given twice");
        for (_, output) in &stage.seen {
            if let Output::ToLeg(offhook_core::call::LegCommand::Play(frame)) = output {
                prop_assert_eq!(frame.len(), 160);
            }
        }
        let seen = stage.seen.len();
        stage.input(Input::EndNow { reason: EndReason::Shutdown, account: None }).after(1_000);
        prop_assert_eq!(stage.seen.len(), seen, "nothing comes after the end");
    }
}
