//! What a context's configuration says about the course of a call.

use crate::audio::RingTone;
use std::time::Duration;

/// Limits and prompts of one call, copied from its context when the call begins.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRules {
    /// The longest a call may last.
    pub call_max: Duration,
    /// From the answer until the agent is ready; after that the agent counts as unreachable.
    pub agent_ready_max: Duration,
    /// The longest a waiting caller hears nothing from the agent.
    pub agent_silence_max: Duration,
    /// The caller says nothing for so long → the prompt; after `no_input_prompts` prompts → hang up.
    pub no_input_after: Duration,
    pub no_input_prompts: u32,
    /// What the agent is told to say then.
    pub no_input_prompt: String,
    /// The longest one tool call may run.
    pub tool_max: Duration,
    /// The longest a farewell may take to be spoken before the call ends anyway.
    pub farewell_max: Duration,
    /// The line the agent opens the call with; `None` lets the model choose its words.
    pub greeting: Option<String>,
    /// What happens when the agent is lost.
    pub on_failure: OnFailure,
    /// What the caller hears while a transfer's destination rings.
    pub ring_tone: RingTone,
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
            agent_silence_max: Duration::from_secs(12),
            no_input_after: Duration::from_secs(12),
            no_input_prompts: 2,
            no_input_prompt: "Ask whether the caller is still there.".into(),
            tool_max: Duration::from_secs(10),
            farewell_max: Duration::from_secs(15),
            greeting: None,
            on_failure: OnFailure::Dialplan,
            ring_tone: RingTone::default(),
        }
    }
}
