//! A search for calls: what may be asked, and how people and programs write it down.

use super::Ending;
use crate::call::EndClass;
use jiff::{Span, Timestamp, Zoned, civil};
use std::collections::BTreeSet;

/// Every class of reasons but `normal`: "which calls did not go as they should?" is one question.
pub const NOT_NORMAL: &str = "not_normal";

/// Which calls; what is `None` excludes nothing.
#[derive(Clone, Default)]
pub struct Search {
    /// The beginning of its id: hexadecimal digits, in lower case, and hyphens.
    pub id: Option<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub context: Option<String>,
    pub provider: Option<String>,
    /// One of [`reasons`].
    pub reason: Option<String>,
    /// The caller's number or the one that was dialled, or the end of it.
    pub number: Option<String>,
    /// Words that were all said in the call, by whomever.
    pub words: Option<String>,
    /// Goes on behind this row.
    pub after: Option<i64>,
    pub limit: usize,
}

/// What can be searched for as the reason of an end: reasons, classes of reasons, and [`NOT_NORMAL`].
pub fn reasons() -> BTreeSet<String> {
    let all = Ending::all().into_iter().flat_map(|ending| [ending.label, ending.class]);
    all.chain([NOT_NORMAL.to_owned()]).collect()
}

/// One of [`reasons`].
///
/// # Errors
/// The others, where it is not one of them.
pub fn reason(text: &str) -> Result<String, String> {
    let known = reasons();
    match known.contains(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("it is not one of the reasons: {}", Vec::from_iter(known).join(", "))),
    }
}

/// Every way in which [`time`] takes one.
pub const TIMES: &str = "a day (2026-11-20, today, yesterday), a time (2026-11-20T14:30), one with its zone \
    (2026-11-20T14:30:00Z), or how long ago (-24h, -7d)";

/// A moment as people write it; days and times are those of `now`'s zone. `None`: it is not one of [`TIMES`].
pub fn time(text: &str, now: &Zoned) -> Option<Timestamp> {
    let midnight = |days: i64| now.date().checked_sub(Span::new().try_days(days).ok()?).ok();
    let day = match text {
        "today" => midnight(0),
        "yesterday" => midnight(1),
        _ => text.parse::<civil::Date>().ok(),
    };
    if let Some(ago) = text.strip_prefix('-') {
        return Some(now.checked_sub(ago.parse::<Span>().ok().filter(|ago| ago.is_positive())?).ok()?.timestamp());
    }
    let zone = now.time_zone().clone();
    let local = text.parse::<civil::DateTime>().ok().or(day.map(Into::into));
    // A text with a zone is a local time as well, to which its zone would be lost.
    text.parse().ok().or_else(|| Some(local?.to_zoned(zone).ok()?.timestamp()))
}

/// Classes that [`NOT_NORMAL`] leaves out.
pub(super) const AS_IT_SHOULD: &str = EndClass::Normal.label();

#[cfg(test)]
mod tests {
    use super::*;

    /// In the zone of whoever asks, also over the night in which the clocks are put back.
    #[test]
    fn times_are_written_as_people_say_them() {
        let now: Zoned = "2026-10-26T09:30:00+01:00[Europe/Berlin]".parse().unwrap();
        for (text, at) in [
            ("today", Some("2026-10-25T23:00:00Z")),
            ("yesterday", Some("2026-10-24T22:00:00Z")),
            ("-24h", Some("2026-10-25T08:30:00Z")),
            ("-90m", Some("2026-10-26T07:00:00Z")),
            ("-7d", Some("2026-10-19T07:30:00Z")),
            ("2026-10-20", Some("2026-10-19T22:00:00Z")),
            ("2026-10-20T14:30", Some("2026-10-20T12:30:00Z")),
            ("2026-10-20T14:30:00Z", Some("2026-10-20T14:30:00Z")),
            ("2026-10-20T14:30:00-05:00", Some("2026-10-20T19:30:00Z")),
            ("tomorrow", None),
            ("-", None),
            ("--24h", None),
            ("24h", None),
            ("", None),
        ] {
            assert_eq!(time(text, &now), at.map(|at| at.parse().unwrap()), "{text:?}");
        }
    }

    #[test]
    fn every_ending_of_a_record_can_be_searched_for_by_its_reason_and_its_class() {
        for ending in Ending::all() {
            assert!(reason(&ending.label).is_ok() && reason(&ending.class).is_ok(), "{}", ending.label);
        }
        let refused = reason("engin_fault").unwrap_err();
        assert!(["engine_fault", "engine_killed", "provider", NOT_NORMAL].iter().all(|known| refused.contains(known)));
    }
}
