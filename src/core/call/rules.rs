//! What a context's configuration says about the course of a call.

use super::turns::TurnRules;
use crate::{audio::RingTone, sentences::Sentences};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Limits and prompts of one call, copied from its context when the call begins.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRules {
    /// The longest a call may last.
    pub call_max: Duration,
    /// From the answer until the agent is ready; after that the agent counts as unreachable.
    pub agent_ready_max: Duration,
    /// The longest a waiting caller hears nothing from the agent, before that counts as lost; `None`: what the agent says
    /// of itself ([`AgentTraits::answer_max`](super::AgentTraits::answer_max)).
    pub agent_silence_max: Option<Duration>,
    /// The caller says nothing for so long → the prompt; after `no_input_prompts` prompts → hang up.
    pub no_input_after: Duration,
    pub no_input_prompts: u32,
    /// Sentences that the engine has the agent say.
    pub sentences: Arc<Sentences>,
    /// The longest one tool call may run.
    pub tool_max: Duration,
    /// The longest a farewell may take to be spoken before the call ends anyway.
    pub farewell_max: Duration,
    /// The line the agent opens the call with; `None` lets the model choose its words.
    pub greeting: Option<String>,
    /// Who has the turn, and what interrupts the agent.
    pub turns: TurnRules,
    /// The caller hears ringing until the agent has something to say, and at most so long.
    pub answer_max: Duration,
    /// Who waits for an answer hears something after so much silence, if only "One moment, please."; it is counted from
    /// the caller's last sound.
    pub quiet_max: Duration,
    /// An agent that is lost is replaced.
    pub recovery: Recovery,
    /// What a caller whom no agent can serve may choose by keys.
    pub last_resort: Option<LastResort>,
    /// What happens when no agent is left.
    pub on_failure: OnFailure,
    /// What the caller hears while a transfer's destination rings.
    pub ring_tone: RingTone,
    /// The call's sound is kept.
    pub recording: bool,
}

/// How hard it is tried to replace an agent that was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Sessions that may be begun for it until an answer comes to its end. An agent that is lost again and again is no agent.
    pub attempts: u32,
    /// From the loss until another agent has the call; nobody waits for longer.
    pub within: Duration,
}

impl Recovery {
    /// A loss so long after the one before is another accident: a vendor's trouble is over within seconds, or lasts longer than
    /// callers wait.
    pub const HEALED_AFTER: Duration = Duration::from_secs(120);
}

/// A menu of keys, after the apology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastResort {
    pub keys: BTreeMap<char, Exit>,
    /// How often the menu is heard before `on_failure` decides.
    pub rounds: u32,
    /// For a key, after the menu was heard.
    pub wait: Duration,
}

/// Where a key of the last resort leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Transfer(String),
    Voicemail(String),
    Dialplan,
    HangUp,
}

/// After the apology clip was heard: what becomes of a caller whose agent is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnFailure {
    HangUp,
    /// Back to the dialplan, `OFFHOOK_STATUS=AGENTFAILED`, where a queue or a human can take over.
    Dialplan,
    /// To the configured destination of this name.
    Transfer(String),
}

impl Default for CallRules {
    fn default() -> Self {
        Self {
            call_max: Duration::from_secs(30 * 60),
            // A caller who has heard nothing for so long would hang up.
            agent_ready_max: Duration::from_secs(6),
            agent_silence_max: None,
            no_input_after: Duration::from_secs(12),
            no_input_prompts: 2,
            sentences: Arc::default(),
            tool_max: Duration::from_secs(10),
            farewell_max: Duration::from_secs(15),
            greeting: None,
            turns: TurnRules::default(),
            answer_max: Duration::from_secs(2),
            quiet_max: Duration::from_millis(1_300),
            recovery: Recovery { attempts: 4, within: Duration::from_secs(20) },
            last_resort: None,
            on_failure: OnFailure::Dialplan,
            ring_tone: RingTone::default(),
            recording: false,
        }
    }
}
