//! What the metrics say of each tool, for the page and the API.

use super::{Metrics, metrics::TOOL_CALLS, of_provider::label};
use std::collections::BTreeMap;

impl Metrics {
    /// Calls of each tool since the engine started, by what became of them; only what has happened. A name that tenants share
    /// is one tool here.
    pub fn of_tools(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut all: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        let families = self.registry().gather();
        let metrics = families.iter().filter(|family| family.name() == TOOL_CALLS.name);
        for metric in metrics.flat_map(|family| family.get_metric()) {
            let counted = metric.get_counter().get_value() as u64;
            if let (Some(tool), Some(outcome), 1..) = (label(metric, "tool"), label(metric, "outcome"), counted) {
                all.entry(tool.to_owned()).or_default().insert(outcome.to_owned(), counted);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{telemetry::ToolCallEnd, tool::ToolError};

    #[test]
    fn each_tool_has_its_outcomes_and_what_never_happened_is_not_told() {
        let metrics = Metrics::new("0");
        metrics.know(["book", "look_up"], []);
        for end in [ToolCallEnd::Done, ToolCallEnd::Done, ToolCallEnd::Failed(ToolError::Timeout)] {
            metrics.tool_call("book", end);
        }
        let all = metrics.of_tools();
        assert_eq!(all["book"], [("done".to_owned(), 2), ("timeout".to_owned(), 1)].into());
        assert!(!all.contains_key("look_up"));
    }
}
