//! The last audit lines of each tool, in memory, for the page. The log has all of them.

use crate::{http::AuditLine, tool::Audit, wall_clock};
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

/// Enough to see a pattern; a line has half a kilobyte.
const LINES_MAX: usize = 20;
/// Of all tools together: as many as fit on a page.
const LAST_MAX: usize = 50;
/// Names are those of the configuration; what a model made up has one name for all.
const TOOLS_MAX: usize = 4_096;

/// A tenant, if the call's context has one, and a tool.
type Key = (Option<String>, String);

#[derive(Default)]
pub(super) struct LastAudits {
    lines: Mutex<BTreeMap<Key, VecDeque<AuditLine>>>,
}

impl LastAudits {
    pub fn keep(&self, tenant: Option<&str>, line: &Audit) {
        let Ok(Value::Object(audit)) = serde_json::to_value(line) else { return };
        let key = (tenant.map(str::to_owned), line.tool_id.clone());
        let mut all = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(&key) && all.len() >= TOOLS_MAX {
            return;
        }
        let lines = all.entry(key).or_default();
        lines.truncate(LINES_MAX - 1);
        lines.push_front(AuditLine { at: wall_clock::now(), audit });
    }

    /// The newest first.
    pub fn of(&self, tenant: Option<&str>, tool: &str) -> Vec<AuditLine> {
        let all = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (tenant.map(str::to_owned), tool.to_owned());
        all.get(&key).into_iter().flatten().cloned().collect()
    }

    /// Of all tools, the newest first.
    pub fn last(&self, tenant: Option<&str>) -> Vec<AuditLine> {
        let all = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let of_tenant = all.iter().filter(|((whose, _), _)| whose.as_deref() == tenant);
        let mut lines: Vec<_> = of_tenant.flat_map(|(_, lines)| lines).cloned().collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.at));
        lines.truncate(LAST_MAX);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Mode;

    #[test]
    fn each_tool_of_each_tenant_has_its_last_lines_the_newest_first() {
        let audits = LastAudits::default();
        let line = |tool: &str, turn| Audit {
            tool_id: tool.into(),
            ..Audit::new("c1".into(), "s1", Mode::Voice, "1.0.00000000", turn)
        };
        for turn in 0..30 {
            audits.keep(Some("clinic"), &line("book", turn));
        }
        audits.keep(None, &line("book", 77));
        let turns = |tenant, tool| {
            let lines = audits.of(tenant, tool).into_iter();
            lines.map(|line| line.audit["turn"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(turns(Some("clinic"), "book"), (10..30).rev().collect::<Vec<_>>());
        assert_eq!((turns(None, "book"), turns(None, "other")), (vec![77], vec![]));
    }

    #[test]
    fn the_last_lines_of_all_tools_stand_in_the_order_of_time() {
        let audits = LastAudits::default();
        let tools = ["book", "ask", "ring"];
        for turn in 0..90 {
            let line = Audit {
                tool_id: tools[turn % 3].into(),
                ..Audit::new("c1".into(), "s1", Mode::Voice, "1.0.00000000", turn as u64)
            };
            audits.keep(Some("clinic"), &line);
        }
        let turns: Vec<_> =
            audits.last(Some("clinic")).iter().map(|line| line.audit["turn"].as_u64().unwrap()).collect();
        assert_eq!(turns, (40..90).rev().collect::<Vec<_>>());
        assert!(audits.last(None).is_empty(), "another tenant's calls are its own");
    }
}
