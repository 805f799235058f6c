//! What is written, is right, and does nothing.

use super::{
    Config,
    problem::{Path, Report},
    tree::{Kind, Node},
};
use crate::call::TurnOwner;

/// Whose word counts about the caller's turns decides which of the options about them mean anything.
pub(super) fn warnings(config: &Config, root: &Node, report: &mut Report) {
    let shared = Path::default().key("turns");
    let own = |name: &str| Path::default().key("contexts").key(name).key("turns");
    let places = config.contexts.keys().map(|name| own(name)).chain([shared]);
    places.for_each(|place| options_of_ears(root, &place, report));
    for (name, provider) in &config.providers {
        let place = Path::default().key("providers").key(name).key(&provider.kind).key("turn_detection");
        let written = root.at(&place).filter(|node| !node.is_null());
        let mut users =
            config.contexts.values().filter(|context| context.providers().any(|user| user == name)).peekable();
        let ears = users.peek().is_some() && users.all(|context| context.rules.turns.owner == TurnOwner::Offhook);
        if let (Some(node), true) = (written, ears) {
            let hint =
                "set turns.end_silence in the context, or turns: { owner: provider } to leave turns to the provider";
            report.add(
                node.line,
                &place,
                "has no effect: offhook finds the turns where this is used",
                Some(hint.into()),
            );
        }
    }
}

/// offhook's ears decide nothing where the provider owns the turns.
fn options_of_ears(root: &Node, turns: &Path, report: &mut Report) {
    let is_providers = |node: &Node| matches!(&node.kind, Kind::Scalar { value, .. } if value == "provider");
    if !root.at(&turns.key("owner")).is_some_and(is_providers) {
        return;
    }
    let Some(Node { kind: Kind::Map(entries), .. }) = root.at(turns) else { return };
    for entry in entries.iter().filter(|entry| entry.key != "owner" && !entry.node.is_null()) {
        let hint = "take it out, or write owner: offhook";
        let message = "has no effect: the provider finds the turns, as owner says";
        report.add(entry.node.line, &turns.key(&entry.key), message, Some(hint.into()));
    }
}
