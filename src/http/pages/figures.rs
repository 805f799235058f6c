//! Times, amounts and names as people read them.

use super::text;
use crate::{facts::CallId, http::view::Parties, records::Used, wall_clock};
use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};

/// `3:07`, `1:02:09`
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Since the call began: `0:03.2`
pub fn offset(ms: u64) -> String {
    format!("{}:{:02}.{}", ms / 60_000, ms / 1_000 % 60, ms / 100 % 10)
}

/// Where the engine runs; the zone stands in the title.
pub fn moment(at: Timestamp) -> Markup {
    let local = at.to_zoned(TimeZone::system());
    let text = local.strftime("%Y-%m-%d %H:%M:%S");
    html! { time datetime=(at) title=(local.strftime("%Y-%m-%d %H:%M:%S %Z")) { (text) } }
}

/// The zone that times are told in.
pub fn zone() -> String {
    let zone = TimeZone::system();
    text::times(zone.iana_name(), &wall_clock::now().to_zoned(zone.clone()).strftime("%Z").to_string())
}

/// The time alone, for what happened just now.
pub fn clock(at: Timestamp) -> Markup {
    let local = at.to_zoned(TimeZone::system());
    html! { time datetime=(at) title=(local.strftime("%Y-%m-%d %H:%M:%S %Z")) { (local.strftime("%H:%M:%S")) } }
}

/// Enough of an id to tell calls apart; the whole is in the title.
pub fn short(id: CallId) -> String {
    id.to_string().chars().take(8).collect()
}

pub fn money(amount: f64, currency: &str) -> String {
    let digits = if amount == 0.0 || amount >= 0.995 { 2 } else { 4 };
    format!("{amount:.digits$} {currency}")
}

/// What a call or a turn cost, if that is one amount.
pub fn cost<'a>(usage: impl IntoIterator<Item = &'a Used>) -> Option<String> {
    let costs: Vec<_> = usage.into_iter().filter_map(|used| used.cost.as_ref()).collect();
    let currency = &costs.first()?.currency;
    let same = costs.iter().all(|cost| cost.currency == *currency);
    same.then(|| money(costs.iter().map(|cost| cost.amount).sum(), currency))
}

pub fn or_dash(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("–")
}

/// Number and name of a caller, as far as they are known.
pub fn caller(parties: &Parties) -> String {
    let known: Vec<&str> =
        [&parties.caller_number, &parties.caller_name].into_iter().flatten().map(String::as_str).collect();
    or_dash(Some(&known.join(" "))).to_owned()
}

/// Why a call ended, marked by whose doing it was.
pub fn ending(class: &str, label: &str, title: &str) -> Markup {
    html! { span.tag.(class_name(class)) title={ (text::sentence(title)) } { (label.replace('_', " ")) } }
}

/// Classes are the engine's words, but those of an archive can be of another version.
pub fn class_name(class: &str) -> &'static str {
    match class {
        "normal" => "normal",
        "limit" => "limit",
        "operator" => "operator",
        "provider" => "provider",
        "asterisk" => "asterisk",
        "engine" => "engine",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_amounts_are_short_and_exact() {
        assert_eq!([0.0, 59.9, 187.0, 3_729.0, -1.0].map(duration), ["0:00", "0:59", "3:07", "1:02:09", "0:00"]);
        assert_eq!([0, 3_249, 61_000].map(offset), ["0:00.0", "0:03.2", "1:01.0"]);
        let amounts = [0.0, 0.0192, 0.5, 12.345];
        assert_eq!(amounts.map(|amount| money(amount, "EUR")), ["0.00 EUR", "0.0192 EUR", "0.5000 EUR", "12.35 EUR"]);
    }
}
