//! What of a call only operators are told: words, names and numbers of callers.

use crate::{
    http::{
        login::{Role, Who},
        site::App,
        view::ActiveCall,
    },
    records::{Entry, Event, Record, Row},
};

pub fn sees_all(who: &Who) -> bool {
    who.may(Role::Operator)
}

/// Whether somebody may know that this happened.
pub fn may_see(who: &Who, entry: &Entry) -> bool {
    sees_all(who) || !matches!(entry.event, Event::Said { .. })
}

/// A running call, with who is on the line where somebody may know.
pub fn active(app: &App, who: &Who, mut call: ActiveCall) -> ActiveCall {
    call.call.parties = sees_all(who).then(|| app.view.parties(call.call.id)).flatten();
    call
}

pub fn record(who: &Who, mut record: Record) -> Record {
    if !sees_all(who) {
        record.entries.retain(|entry| may_see(who, entry));
        for private in [
            &mut record.caller_number,
            &mut record.caller_name,
            &mut record.dialled_number,
            &mut record.campaign_id,
            &mut record.lead_id,
        ] {
            *private = None;
        }
        for entry in &mut record.entries {
            if let Event::PartyChanged { number, name } | Event::PartyKnown { number, name } = &mut entry.event {
                (*number, *name) = (None, None);
            }
        }
    }
    record
}

pub fn row(who: &Who, mut row: Row) -> Row {
    if !sees_all(who) {
        (row.caller_number, row.dialled_number) = (None, None);
    }
    row
}
