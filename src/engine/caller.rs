//! The one at the caller's end, as far as a call may know who that is.

use crate::{asterisk::events::Arrival, facts::Party};

/// Tells whether the number may not be shown (RFC 3323), by `CALLERID(pres)`.
fn is_withheld(presentation: Option<&str>) -> bool {
    // `prohib_not_screened` and its kin; `unavailable`: the network does not know it.
    presentation.is_some_and(|told| told.starts_with("prohib") || told == "unavailable")
}

/// Name and number, as far as the call may know them; all where it `keeps` those that are withheld.
pub(super) fn known(party: Party, presentation: Option<&str>, keeps: bool) -> Party {
    if keeps || !is_withheld(presentation) { party } else { Party::default() }
}

/// Name and number of a caller who arrives, as far as the call may know them. The arrival loses what is withheld: a telephone that is dialled is then called by what Asterisk
/// has of the caller, which tells it that they are withheld.
pub(super) fn of(arrival: &mut Arrival, presentation: Option<&str>, keeps: bool) -> Party {
    let party = Party { name: arrival.caller_name.clone(), number: arrival.caller_number.clone() };
    if is_withheld(presentation) {
        (arrival.caller_name, arrival.caller_number) = Default::default();
    }
    known(party, presentation, keeps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_who_withholds_their_number_is_known_where_that_is_kept_alone() {
        let ada = || Party { name: Some("Ada".to_owned()).into(), number: Some("15550199".to_owned()).into() };
        for (presentation, keeps, is_known) in [
            (None, false, true),
            (Some("allowed_not_screened"), false, true),
            (Some("prohib_passed_screen"), false, false),
            (Some("unavailable"), false, false),
            (Some("prohib_passed_screen"), true, true),
        ] {
            let expected = if is_known { ada() } else { Party::default() };
            assert_eq!(known(ada(), presentation, keeps), expected, "{presentation:?}, {keeps}");
        }
    }
}
