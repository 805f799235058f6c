//! What of a call only operators are told: words, names and numbers of callers.

use crate::{
    http::login::{Role, Who},
    records::{Entry, Event, Record, Row},
};

pub fn sees_all(who: &Who) -> bool {
    who.may(Role::Operator)
}

/// Whether somebody may know that this happened.
pub fn may_see(who: &Who, entry: &Entry) -> bool {
    sees_all(who) || !matches!(entry.event, Event::Said { .. })
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
    }
    record
}

pub fn row(who: &Who, mut row: Row) -> Row {
    if !sees_all(who) {
        (row.caller_number, row.dialled_number) = (None, None);
    }
    row
}
