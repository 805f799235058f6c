//! A METAR as it is sent → what may be said of it.
//!
//! Read by the crate `metar`. Two crates were tried on the reports of `tests/reports.txt`. `metar` 0.9 knows the whole
//! sentence of a report: a group out of place refuses all of it, so garbage is never spoken as weather.
//! `metar-taf-parser` 0.4 reads every group wherever it stands: it took the groups after an unknown word for the present
//! weather, kept one trend of several, turned statute miles into rounded metres, and overflowed on cloud at 70,000 feet.
//!
//! What `metar` cannot do is done here, before it: groups it has no place for are taken out and kept as flags, trends
//! are read one by one (one that cannot be read is told as missing), remarks are not read. Reports it still refuses
//! (winds of three digits, km/h) are refused: no weather is better than wrong weather.

use jiff::{SignedDuration, Span, Timestamp, civil::DateTime, tz::TimeZone};
use metar::{Data, Metar, Pressure, TrendNewCondition};

/// A report is a line or three; what is longer is none.
const CHARS_MAX: usize = 1000;
/// Clocks differ; a report from further ahead belongs to last month.
const AHEAD_MAX: SignedDuration = SignedDuration::from_mins(60);

pub struct Report {
    pub observed: Timestamp,
    pub metar: Metar,
    /// `SKC`, `CLR`, `NCD`, `NSC`: the crate has one value for three of them.
    pub sky: Option<String>,
    pub bound: Option<Bound>,
    /// `P99MPS` and `P199KPH` are one value with `P99KT` for the crate.
    pub over_unit: &'static str,
    pub closed_by_snow: bool,
    pub nosig: bool,
    pub trends: Vec<Trend>,
}

/// A visibility in statute miles beyond what the sensor tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    LessThan,
    MoreThan,
}

pub struct Trend {
    pub becoming: bool,
    /// None: it could not be read.
    pub change: Option<TrendNewCondition>,
    pub no_weather: bool,
    pub no_cloud: bool,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unreadable {
    #[error("it is not the report of an aerodrome with a time")]
    NoHead,
    #[error("the groups are not those of a METAR")]
    Groups,
    #[error("a value is not possible")]
    Value,
}

/// The newest report of one aerodrome in an answer that holds many, by their own times; at one time the later line, which
/// corrects the earlier one. A `NIL` is no report.
pub fn newest(text: &str, icao: &str, now: Timestamp) -> Option<String> {
    let pieces: Vec<&str> = if text.contains('=') { text.split('=').collect() } else { text.lines().collect() };
    let mut best: Option<(Timestamp, String)> = None;
    for piece in pieces {
        let tokens: Vec<&str> = piece.split_whitespace().collect();
        let Some(head) = Head::of(&tokens, now) else { continue };
        let is_later = best.as_ref().is_none_or(|(time, _)| head.observed >= *time);
        if head.station == icao && !head.rest.contains(&"NIL") && is_later {
            best = Some((head.observed, tokens.join(" ")));
        }
    }
    best.map(|(_, report)| report)
}

struct Head<'a> {
    station: &'a str,
    observed: Timestamp,
    rest: &'a [&'a str],
}

impl<'a> Head<'a> {
    fn of(tokens: &'a [&'a str], now: Timestamp) -> Option<Self> {
        let first = tokens.iter().position(|token| !["METAR", "SPECI", "COR", "AUTO"].contains(token))?;
        let [station, time, rest @ ..] = &tokens[first..] else { return None };
        let is_station = station.len() == 4 && station.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        let observed = observed_at(time, now)?;
        is_station.then_some(Self { station, observed, rest })
    }
}

/// `201350Z`: the last 20th that is not ahead of now.
fn observed_at(time: &str, now: Timestamp) -> Option<Timestamp> {
    let digits = time.strip_suffix('Z').filter(|d| d.len() == 6 && d.bytes().all(|b| b.is_ascii_digit()))?;
    let number = |at: usize| digits[at..at + 2].parse::<i8>().ok();
    let (day, hour, minute) = (number(0)?, number(2)?, number(4)?);
    let tomorrow = now.to_zoned(TimeZone::UTC).date().tomorrow().ok()?;
    // Two months hold every day of the month at least once.
    (0..=62).find_map(|back| {
        let date = tomorrow.checked_sub(Span::new().days(back)).ok().filter(|date| date.day() == day)?;
        let at = DateTime::new(date.year(), date.month(), day, hour, minute, 0, 0).ok()?;
        let at = at.to_zoned(TimeZone::UTC).ok()?.timestamp();
        (at.duration_since(now) <= AHEAD_MAX).then_some(at)
    })
}

/// # Errors
/// When the report cannot be read as a whole, up to its trends.
pub fn decode(raw: &str, now: Timestamp) -> Result<Report, Unreadable> {
    let text = raw.trim().trim_end_matches('=');
    // The crate panics on `VRB` inside a range of directions.
    if text.len() > CHARS_MAX || !text.is_ascii() || text.contains("VRBV") || text.contains("VVRB") {
        return Err(Unreadable::Groups);
    }
    let tokens: Vec<&str> = text.split_whitespace().collect();
    let head = Head::of(&tokens, now).ok_or(Unreadable::NoHead)?;
    let told = head.rest.split(|token| *token == "RMK").next().unwrap_or_default();
    let first_trend = told.iter().position(is_trend).unwrap_or(told.len());
    let (present, trends) = told.split_at(first_trend);
    let mut notes = Notes::default();
    let groups: Vec<String> = present.iter().filter_map(|token| notes.take(token, present)).collect();
    let metar = parse(head.station, &groups.join(" ")).ok_or(Unreadable::Groups)?;
    if !is_possible(&metar) {
        return Err(Unreadable::Value);
    }
    let trends = trends.chunk_by(|_, next| !is_trend(next)).map(|groups| trend(head.station, groups)).collect();
    let Notes { sky, bound, over_unit, closed_by_snow, nosig } = notes;
    Ok(Report { observed: head.observed, metar, sky, bound, over_unit, closed_by_snow, nosig, trends })
}

#[derive(Default)]
struct Notes {
    sky: Option<String>,
    bound: Option<Bound>,
    over_unit: &'static str,
    closed_by_snow: bool,
    nosig: bool,
}

impl Notes {
    /// A group of the present weather as the crate knows it; None where it is a note or is not spoken.
    fn take(&mut self, token: &str, all: &[&str]) -> Option<String> {
        let number =
            |mark| move |t: &&str| t.len() == 5 && t.starts_with(mark) && t[1..].bytes().all(|b| b.is_ascii_digit());
        match token {
            "AUTO" | "COR" | "CCA" | "CCB" | "CCC" => return None,
            "NOSIG" => {
                self.nosig = true;
                return None;
            }
            "R/SNOCLO" | "SNOCLO" => {
                self.closed_by_snow = true;
                return None;
            }
            // `SKC` where the visibility is missing would be CAVOK to the crate.
            "SKC" | "CLR" | "NCD" | "NSC" => {
                self.sky = Some(token.to_owned());
                return Some(if token == "NSC" { token } else { "NCD" }.to_owned());
            }
            "///CB" | "///TCU" => return Some(format!("///{token}")),
            _ if is_colour(token) => return None,
            // Of two pressures one is enough.
            _ if number('A')(&token) && all.iter().any(number('Q')) => return None,
            _ => {}
        }
        self.over_unit = ["P99MPS", "P199KPH"].into_iter().find(|over| token.ends_with(over)).unwrap_or(self.over_unit);
        for (mark, bound) in [('M', Bound::LessThan), ('P', Bound::MoreThan)] {
            if let Some(miles) = token.strip_prefix(mark).filter(|miles| miles.ends_with("SM")) {
                self.bound = Some(bound);
                return Some(miles.to_owned());
            }
        }
        Some(token.to_owned())
    }
}

/// Colour states of military aerodromes, also with `BLACK` before and a number after.
fn is_colour(token: &str) -> bool {
    let code = token.strip_prefix("BLACK").unwrap_or(token).trim_end_matches(['1', '2', '+']);
    ["BLU", "WHT", "GRN", "YLO", "AMB", "RED", "BLACK"].contains(&code)
}

fn is_trend(token: &&str) -> bool {
    ["TEMPO", "BECMG"].contains(token)
}

fn trend(station: &str, groups: &[&str]) -> Trend {
    let has = |word| groups.contains(&word);
    let kept: Vec<&str> =
        groups.iter().copied().filter(|group| !["NSW", "NSC"].contains(group) && !is_colour(group)).collect();
    let is_over = |group: &&str| group.ends_with("P99MPS") || group.ends_with("P199KPH");
    let metar = if kept.iter().any(is_over) { None } else { parse(station, &kept.join(" ")) };
    let change = metar.and_then(|metar| match metar.trends.into_iter().next() {
        Some(metar::Trend::Becoming(change) | metar::Trend::Temporarily(change)) => Some(change),
        _ => None,
    });
    Trend { becoming: has("BECMG"), change, no_weather: has("NSW"), no_cloud: has("NSC") }
}

fn parse(station: &str, groups: &str) -> Option<Metar> {
    // The time has been read; the crate asks for one, and for a blank at the end.
    let text = format!("{station} 010000Z {groups} ");
    // Its panic that we know is kept away above; another one must not end the server.
    std::panic::catch_unwind(|| Metar::parse(&text).ok()).ok().flatten()
}

/// Whether the values can be those of an aerodrome on earth.
fn is_possible(metar: &Metar) -> bool {
    let pressure = match metar.pressure {
        Pressure::Hectopascals(Data::Known(value)) => (850..=1090).contains(&value),
        Pressure::InchesOfMercury(Data::Known(value)) => (25.0..=32.5).contains(&value),
        _ => true,
    };
    let temperature = match (&metar.temperature, &metar.dewpoint) {
        (Data::Known(air), Data::Known(dew)) => dew <= air && (-80..=60).contains(air),
        (Data::Known(air), Data::Unknown) => (-80..=60).contains(air),
        _ => true,
    };
    pressure && temperature
}

/// Whole minutes since the observation.
pub fn age_minutes(raw: &str, now: Timestamp) -> Option<i64> {
    let tokens: Vec<&str> = raw.split_whitespace().collect();
    Head::of(&tokens, now).map(|head| minutes_between(head.observed, now))
}

pub fn minutes_between(observed: Timestamp, now: Timestamp) -> i64 {
    now.duration_since(observed).as_mins().max(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Aerodrome, phraseology};

    fn now() -> Timestamp {
        "2026-11-20T14:40:00Z".parse().unwrap()
    }

    fn spoken(raw: &str, explicit: bool) -> String {
        let aerodrome = Aerodrome { name: "Field".into(), ..Aerodrome::default() };
        match decode(raw, now()) {
            Ok(report) => phraseology::atis(&report, &aerodrome.name, &aerodrome, explicit),
            Err(why) => format!("UNREADABLE: {why}"),
        }
    }

    /// M26: each report of the collection has exactly the words that were looked over, or is refused.
    #[test]
    fn reports_of_the_world_are_spoken_word_by_word() {
        let collection = include_str!("../tests/reports.txt").replace("\n  ", " ");
        let reports = collection.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let told: String = reports.map(|raw| format!("{raw}\n    {}\n", spoken(raw, true))).collect();
        insta::assert_snapshot!("spoken", told);
    }
}
