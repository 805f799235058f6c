//! Where a call is when something happens to a service of it, and how it comes there.

use crate::providers::{
    clips::NOTICE,
    desk::{Desk, MOMENT_HZ, Setting},
    ear::{Caller, Tape},
    failover::deputy,
    kit::{
        own_net,
        vendor::{Call, Dialect, Opening, Order, Scenario, Vendor, hertz},
    },
    ms,
    tools::look_up,
    turns::BACKCHANNEL,
};
use serde_json::{Value, json};
use std::{ops::Range, time::Duration};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The caller hears the greeting, which is still being made.
    Greeting,
    /// The caller hears a consent text, and the greeting waits behind it.
    Consent,
    Idle,
    CallerSpeaking,
    /// The caller has finished, and nothing of the answer has come.
    Thinking,
    /// The same, and the caller is just being asked for a moment.
    Filled,
    /// The caller hears an answer, which is still being made.
    AgentSpeaking,
    /// The agent is paused, and it is not decided whether the caller interrupts.
    Undecided,
    /// The same of a sound that turns out to interrupt nobody.
    Aside,
    ToolRunning,
    /// The same, and the caller is just being told so.
    Announced,
    /// A tool waits for keys, and the caller has pressed some of them.
    Typing,
    /// The agent has handed the call to another context, and its last words are being heard.
    HandingOver,
    /// Nobody speaks. The vendor's limit is near, and the session that is to follow is being set up.
    RollingOver,
}

/// All but [`State::Aside`], which sounds like [`State::Undecided`] so far, and [`State::RollingOver`], which pipelines
/// do not know.
pub const STATES: [State; 12] = [
    State::Greeting,
    State::Consent,
    State::Idle,
    State::CallerSpeaking,
    State::Thinking,
    State::Filled,
    State::AgentSpeaking,
    State::Undecided,
    State::ToolRunning,
    State::Announced,
    State::Typing,
    State::HandingOver,
];
/// Where it matters what of a service fails: nobody waits, or somebody does, for the beginning or the rest of an answer or
/// for a tool.
pub const WAITS: [State; 4] = [State::Idle, State::Thinking, State::AgentSpeaking, State::ToolRunning];
/// Where silence has to be noticed: each has a clock of its own.
pub const NOTICES: [State; 6] =
    [State::Greeting, State::Idle, State::CallerSpeaking, State::Thinking, State::AgentSpeaking, State::ToolRunning];

/// Before that it is not decided what a sound over the agent is: shorter ones do not interrupt.
pub const UNDECIDED_MAX: Duration = ms(560);
/// A sentence that is known by its pitch.
const FILLER: &str = "fillers: { moment: { file: moment.wav, text: \"One moment, please.\" } }";
/// What the caller types, and how many of them before anything happens.
pub const KEYS: &str = "30517264";
pub const TYPED: usize = 4;
/// What the agent is told to ask the caller for.
pub const KEYS_WANTED: &str = "Ask for the customer number.";
/// The shortest limit of a session that can be set. The call is told of it when half of it has passed.
const SESSION_SECONDS: u64 = 10;

impl State {
    /// More lines of the context, without which a call does not come there.
    pub const fn lines(self) -> &'static str {
        match self {
            Self::Filled | Self::Announced => FILLER,
            Self::Consent => NOTICE,
            _ => "",
        }
    }

    /// What else a call needs there of an engine whose context has these lines.
    pub fn setting(self, more: &str) -> Setting<'_> {
        Setting {
            more,
            billing: if self == Self::HandingOver { "provider: second" } else { "" },
            tools: if self == Self::Typing { ", collect_digits" } else { "" },
            ..Setting::default()
        }
    }
}

/// A call of the tool that lets the caller type.
pub fn collect_digits() -> Call {
    let arguments = json!({ "prompt": KEYS_WANTED, "max_digits": KEYS.len() });
    Call { id: "call_0000000000000001".into(), name: "collect_digits".into(), arguments }
}

pub struct Scene {
    pub vendor: Vendor,
    pub deputy: Vendor,
    pub desk: Desk,
    pub caller: Caller,
}

/// A call in this state.
pub async fn call_in<D: Dialect>(state: State) -> Scene {
    let (vendor, deputy) = (Vendor::start::<D>(scenario(state)).await, deputy::<D>().await);
    let first = match state {
        State::RollingOver => vendor.yaml_with(limited::<D>()),
        _ => vendor.yaml(),
    };
    let more = format!(
        "fallbacks: [second]\nlimits: {{ agent_silence: 2500ms }}\nturns: {{ min_speech: 560ms }}\n{}",
        state.lines()
    );
    let desk = Desk::open(&[("first", first), ("second", deputy.yaml())], state.setting(&more)).await;
    let caller = desk.call().await;
    if state == State::Consent {
        caller.hears(MOMENT_HZ, ms(300)).await;
    } else {
        caller.hears(hertz(1), ms(600)).await;
    }
    let goes_on = [State::Greeting, State::Consent, State::Undecided, State::Aside, State::HandingOver];
    if !goes_on.contains(&state) {
        caller.hears_nothing_for(ms(300)).await;
    }
    comes_there(state, &vendor, &desk, &caller).await;
    Scene { vendor, deputy, desk, caller }
}

/// What the vendor does, so that the state lasts.
fn scenario(state: State) -> Scenario {
    let scenario = match state {
        State::Greeting | State::Consent | State::Undecided | State::Aside => {
            Scenario { pace: 1.2, ..Scenario::answers(ms(4_000)) }
        }
        State::AgentSpeaking => Scenario { pace: 1.2, greeting: Some(ms(1_000)), ..Scenario::answers(ms(4_000)) },
        State::HandingOver => Scenario::answers(ms(3_000)),
        State::RollingOver => Scenario { openings: vec![Opening::Normal, Opening::NeverReady], ..Scenario::default() },
        _ => Scenario::default(),
    };
    Scenario { host: own_net::far(), ..scenario }
}

/// Options of a vendor whose sessions end soon, and whose later ones do not greet again.
fn limited<D: Dialect>() -> Value {
    let mut options = D::waits();
    options["session_seconds"] = SESSION_SECONDS.into();
    options
}

/// From the greeting on.
async fn comes_there(state: State, vendor: &Vendor, desk: &Desk, caller: &Caller) {
    let greeted = caller.now();
    match state {
        State::Greeting | State::Idle => {}
        State::Consent => vendor.until_session(1, "is to greet", |seen| !seen.wishes.is_empty()).await,
        State::CallerSpeaking => {
            caller.speaks().await;
            let half_a_second = |said: &Range<Duration>| said.end - said.start >= ms(500);
            caller.until("the caller speaks", |tape| tape.said.last().is_some_and(half_a_second)).await;
        }
        State::Thinking | State::Filled => {
            vendor.order(1, Order::Think);
            caller.speaks().await;
            caller.has_spoken().await;
            vendor.until_session(1, "heard the caller's turn", |seen| seen.turns_ended >= 1).await;
        }
        State::AgentSpeaking => {
            caller.speaks().await;
            let said = caller.has_spoken().await;
            caller.hears_from(said.end, hertz(1), ms(600)).await;
        }
        State::Undecided | State::Aside => {
            match state {
                State::Aside => caller.says(BACKCHANNEL).await,
                _ => caller.speaks().await,
            }
            let paused = |tape: &Tape| tape.said.last().is_some_and(|said| tape.is_quiet(said.start + ms(60)));
            caller.until("the agent is paused", paused).await;
        }
        State::ToolRunning | State::Announced => {
            desk.service.holds(true);
            vendor.order(1, Order::Call(vec![look_up(1)]));
            desk.service.wait_requests(1).await;
        }
        State::Typing => types_some(vendor, caller).await,
        State::HandingOver => {
            let call = Call { id: "call_0000000000000001".into(), name: "to_billing".into(), arguments: json!({}) };
            vendor.order(1, Order::Call(vec![call]));
            desk.counts("offhook_tool_calls_total{outcome=\"done\",tool=\"to_billing\"", 1.0).await;
        }
        State::RollingOver => vendor.until_session(2, "is being set up", |seen| seen.set_up.is_some()).await,
    }
    if matches!(state, State::Filled | State::Announced) {
        caller.hears_from(greeted, MOMENT_HZ, ms(300)).await;
    }
}

/// The agent calls the tool, and the caller is asked for the keys and types the first of them.
async fn types_some(vendor: &Vendor, caller: &Caller) {
    let asked = caller.now();
    vendor.order(1, Order::Call(vec![collect_digits()]));
    vendor.until_session(1, "waits for the keys", |seen| !seen.open_calls.is_empty()).await;
    caller.hears_from(asked, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    caller.types(&KEYS[..TYPED]).await;
}
