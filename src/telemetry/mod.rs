//! What an operator can see: metrics and logs.
//!
//! Invariants: no caller's number, no caller's word and no key becomes a label or a log line; every
//! label has a closed or bounded set of values, and never a call's id among them; every metric
//! stands in `docs/metrics.md`, which [`reference_page`] writes and a test keeps fresh.

mod book;
mod capture;
mod definition;
mod log;
mod metrics;
mod names;
mod of_provider;
mod of_tool;
mod process;
mod reference;
mod sessions;
mod standing;
mod tail;
mod turns;
mod usage;

pub use book::LogBook;
pub use capture::LogCapture;
pub use definition::Definition;
pub use log::{LogError, LogFormat, call_span, init};
pub use metrics::{CONTENT_TYPE, Declined, FrameDrop, InCall, Metrics, Reload, Stranded, ToolCallEnd};
pub use of_provider::{ProviderFigures, Waited};
pub use reference::reference_page;
pub use sessions::{SessionMetrics, SuccessorEnd};
pub use tail::last_lines;
