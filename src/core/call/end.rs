//! Every way a call can end: one value, shared by log, metric and record.

use super::{agent::AgentLoss, leg::SetupStep};

/// Why a call ended. [`EndReason::class`] says whose doing it was, [`EndReason::label`] is stable
/// for dashboards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The caller hung up.
    CallerHungUp,
    /// The caller hung up before audio flowed.
    CallerAbandoned,
    /// The agent said goodbye (`hangup_call`).
    AgentHungUp,
    /// The caller was handed to a configured destination.
    Transferred,
    /// The caller said nothing after all prompts.
    NoInput,
    /// The call reached its configured length.
    CallTooLong,
    /// The channel reached the length that the dialplan allows it.
    DialplanTimeout,
    /// An operator ended it, or a drain ran out of time.
    OperatorEnded,
    /// The engine was told to stop at once.
    Shutdown,
    /// The session with the provider ended for good.
    AgentLost(AgentLoss),
    /// The provider stayed silent although the caller waited.
    AgentSilent,
    /// The audio path between Asterisk and offhook broke.
    MediaLost,
    /// A step of the set-up failed.
    SetupFailed(SetupStep),
    /// Asterisk lost the channel while the events socket was down.
    ChannelGone,
    /// A fault of the engine itself (a panic in this call's task).
    EngineFault,
}

/// Whose doing an ending was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndClass {
    /// The call did what it was for.
    Normal,
    /// A rule of the configuration ended it.
    Limit,
    /// The operator.
    Operator,
    /// The provider failed.
    Provider,
    /// Asterisk or the network to it failed.
    Asterisk,
    /// offhook failed.
    Engine,
}

impl EndClass {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Limit => "limit",
            Self::Operator => "operator",
            Self::Provider => "provider",
            Self::Asterisk => "asterisk",
            Self::Engine => "engine",
        }
    }
}

impl EndReason {
    /// Every value, for the table in the documentation and for pre-registered metrics.
    pub fn all() -> Vec<Self> {
        let mut all = vec![
            Self::CallerHungUp,
            Self::CallerAbandoned,
            Self::AgentHungUp,
            Self::Transferred,
            Self::NoInput,
            Self::CallTooLong,
            Self::DialplanTimeout,
            Self::OperatorEnded,
            Self::Shutdown,
        ];
        all.extend(AgentLoss::ALL.map(Self::AgentLost));
        all.push(Self::AgentSilent);
        all.push(Self::MediaLost);
        all.extend(SetupStep::ALL.map(Self::SetupFailed));
        all.extend([Self::ChannelGone, Self::EngineFault]);
        all
    }

    pub const fn class(self) -> EndClass {
        match self {
            Self::CallerHungUp | Self::CallerAbandoned | Self::AgentHungUp | Self::Transferred => EndClass::Normal,
            Self::NoInput | Self::CallTooLong | Self::DialplanTimeout => EndClass::Limit,
            Self::OperatorEnded | Self::Shutdown => EndClass::Operator,
            Self::AgentLost(_) | Self::AgentSilent => EndClass::Provider,
            Self::MediaLost | Self::ChannelGone => EndClass::Asterisk,
            Self::SetupFailed(SetupStep::MediaSocket) => EndClass::Engine,
            Self::SetupFailed(_) => EndClass::Asterisk,
            Self::EngineFault => EndClass::Engine,
        }
    }

    pub fn label(self) -> String {
        match self {
            Self::CallerHungUp => "caller_hung_up".into(),
            Self::CallerAbandoned => "caller_abandoned".into(),
            Self::AgentHungUp => "agent_hung_up".into(),
            Self::Transferred => "transferred".into(),
            Self::NoInput => "no_input".into(),
            Self::CallTooLong => "call_too_long".into(),
            Self::DialplanTimeout => "dialplan_timeout".into(),
            Self::OperatorEnded => "operator_ended".into(),
            Self::Shutdown => "shutdown".into(),
            Self::AgentLost(loss) => format!("agent_{}", loss.label()),
            Self::AgentSilent => "agent_silent".into(),
            Self::MediaLost => "media_lost".into(),
            Self::SetupFailed(step) => format!("setup_{}", step.label()),
            Self::ChannelGone => "channel_gone".into(),
            Self::EngineFault => "engine_fault".into(),
        }
    }

    /// One sentence for the operator who reads the record at night.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::CallerHungUp => "the caller hung up",
            Self::CallerAbandoned => "the caller hung up before audio flowed",
            Self::AgentHungUp => "the agent ended the call with hangup_call",
            Self::Transferred => "the caller was transferred to a configured destination or mailbox",
            Self::NoInput => "the caller said nothing after all no-input prompts",
            Self::CallTooLong => "the call reached the context's limits.call",
            Self::DialplanTimeout => "the channel reached the dialplan's TIMEOUT(absolute)",
            Self::OperatorEnded => "an operator ended the call, or the drain limit passed",
            Self::Shutdown => "the engine was told to stop at once",
            Self::AgentLost(AgentLoss::Unreachable) => "the provider could not be reached within the attempts allowed",
            Self::AgentLost(AgentLoss::Unauthorized) => "the provider refused the key or the account",
            Self::AgentLost(AgentLoss::NotFound) => {
                "the provider has nothing at the address that is configured (HTTP status 404 or 405)"
            }
            Self::AgentLost(AgentLoss::Quota) => "the provider's quota or billing limit was reached",
            Self::AgentLost(AgentLoss::Handshake) => "the provider did not set up the session as asked",
            Self::AgentLost(AgentLoss::Closed) => "the provider closed or dropped the session",
            Self::AgentLost(AgentLoss::Expired) => "the provider's session time limit was reached",
            Self::AgentLost(AgentLoss::Protocol) => "the provider broke its protocol",
            Self::AgentLost(AgentLoss::Stalled) => "the provider stopped reading what it was sent",
            Self::AgentLost(AgentLoss::Throttled) => "the provider had too many requests or sessions",
            Self::AgentSilent => "the agent gave no answer although the caller waited",
            Self::MediaLost => "the audio path between Asterisk and offhook broke",
            Self::SetupFailed(SetupStep::Answer) => "Asterisk could not answer the channel",
            Self::SetupFailed(SetupStep::MediaSocket) => "no local media port was free",
            Self::SetupFailed(SetupStep::MediaChannel) => "Asterisk refused the media channel",
            Self::SetupFailed(SetupStep::MediaConnect) => "the media channel's audio did not arrive in time",
            Self::SetupFailed(SetupStep::Bridge) => "Asterisk refused the bridge",
            Self::ChannelGone => "the caller's channel ended while the ARI events socket was down",
            Self::EngineFault => "a fault in the engine ended this call alone",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_ending_has_a_label_of_its_own() {
        let labels: HashSet<String> = EndReason::all().into_iter().map(EndReason::label).collect();
        assert_eq!(labels.len(), EndReason::all().len());
    }
}
