//! Why a call did not run or did not work.

/// The closed set of error types, upper case on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ToolError {
    /// No such tool, or not in this context's list: the model cannot tell which.
    NotFound,
    Validation,
    /// Not in this kind of conversation.
    ModeRestricted,
    /// Too many calls in one turn of the caller.
    BudgetExceeded,
    LoopDetected,
    /// The caller has to say yes first.
    ConfirmationRequired,
    /// It needs a person or better evidence.
    Deferred,
    Refused,
    Timeout,
    /// Might work later.
    Transient,
    RateLimit,
    /// Will not work.
    Permanent,
    /// The other side does not let offhook in.
    Auth,
    Conflict,
    /// The call is ending: nothing new begins.
    SessionInactive,
    /// The tool itself broke.
    Internal,
}

impl ToolError {
    pub const ALL: [Self; 16] = [
        Self::NotFound,
        Self::Validation,
        Self::ModeRestricted,
        Self::BudgetExceeded,
        Self::LoopDetected,
        Self::ConfirmationRequired,
        Self::Deferred,
        Self::Refused,
        Self::Timeout,
        Self::Transient,
        Self::RateLimit,
        Self::Permanent,
        Self::Auth,
        Self::Conflict,
        Self::SessionInactive,
        Self::Internal,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::NotFound => "NOT_FOUND",
            Self::Validation => "VALIDATION",
            Self::ModeRestricted => "MODE_RESTRICTED",
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
            Self::LoopDetected => "LOOP_DETECTED",
            Self::ConfirmationRequired => "CONFIRMATION_REQUIRED",
            Self::Deferred => "DEFERRED",
            Self::Refused => "REFUSED",
            Self::Timeout => "TIMEOUT",
            Self::Transient => "TRANSIENT",
            Self::RateLimit => "RATE_LIMIT",
            Self::Permanent => "PERMANENT",
            Self::Auth => "AUTH",
            Self::Conflict => "CONFLICT",
            Self::SessionInactive => "SESSION_INACTIVE",
            Self::Internal => "INTERNAL",
        }
    }

    /// The error type of this label.
    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.label() == label)
    }

    /// The policy's own answer: nothing has run.
    pub const fn before_running(self) -> bool {
        matches!(
            self,
            Self::NotFound
                | Self::Validation
                | Self::ModeRestricted
                | Self::BudgetExceeded
                | Self::LoopDetected
                | Self::ConfirmationRequired
                | Self::Deferred
                | Self::Refused
                | Self::SessionInactive
        )
    }
}
